package pagetest

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/porestream/porestream/annotate/event"
	counts "github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/modbase/stage/methylation"
	"github.com/porestream/porestream/monitor"
	"github.com/porestream/porestream/stream"
)

// Site is what reads say of a modification at a position.
type Site struct {
	Pos                        int    // from 0 on
	Strand                     string // + or -
	Modified, Canonical, Other int
}

// stretchLength is that of the stretches that the stage publishes.
const stretchLength = 4096

// Stretch is the record of a revision of a stretch from a position on, which is a multiple of its length.
func Stretch(sample, contig, code string, start, revision int, final bool, sites []Site) stream.Record {
	return stretch(sample, contig, code, 0, start, revision, final, sites)
}

func stretch(sample, contig, code string, haplotype, start, revision int, final bool, sites []Site) stream.Record {
	s := methylation.Stretch{
		SchemaVersion: methylation.SchemaVersion, Run: "run-1", Sample: sample, Revision: uint64(revision), Status: methylation.Provisional, Code: code, Haplotype: haplotype,
		Stretch: event.Stretch{Contig: contig, Pos: int64(start) + 1, End: int64(start) + stretchLength}, Sites: methylation.NewSites(),
	}
	if final {
		s.Status = methylation.Final
	}
	for _, site := range sites {
		s.Sites.Add(&counts.Row{Pos: site.Pos, Strand: counts.Strand(site.Strand[0]), Modified: site.Modified, Canonical: site.Canonical, Other: site.Other})
	}
	out, err := s.Record(stream.NewTopics("").Methylation)
	if err != nil {
		panic(err) // the numbers are ours
	}
	return stream.Record{Topic: out.Topic, Key: out.Key, Value: out.Value, Headers: out.Headers, Time: Now()}
}

// Stretches are a revision of 5mC and 6mA along the contig of [Lambda], a site every 16 positions.
func Stretches(revision int, final bool) []stream.Record {
	const length = 48_502
	r := random(uint64(revision))
	var out []stream.Record
	for start := 0; start < length; start += stretchLength {
		for _, code := range []string{"m", "a"} {
			var sites []Site
			for pos := start; pos < min(length, start+stretchLength); pos += 16 {
				depth := revision + 3 + r.IntN(6)
				share := 0.5 + 0.45*math.Sin(float64(pos)/3000)
				if code == "a" {
					share = 0.08
				}
				for i, strand := range []string{"+", "-"} {
					modified := min(depth, int(math.Round(share*float64(depth)))+r.IntN(2))
					sites = append(sites, Site{Pos: pos + i, Strand: strand, Modified: modified, Canonical: depth - modified})
				}
			}
			out = append(out, Stretch("lambda", "J02459.1", code, start, revision, final, sites))
		}
	}
	return out
}

// Methylated is [Lambda] with modified bases that are counted while the run goes on.
func Methylated() Scene {
	s := Lambda()
	s.Methylation = Stretches(5, false)
	return s
}

// Imprinted is [Lambda] of a diploid sample whose run has ended: of 5mC there are counts by haplotype besides, of which the first is methylated and the
// second is not between 16,384 and 32,768.
func Imprinted() Scene {
	s := Lambda()
	s.Methylation = Stretches(5, true)
	for start := 0; start < 40_960; start += stretchLength {
		for haplotype := 1; haplotype <= 2; haplotype++ {
			var sites []Site
			for pos := start; pos < start+stretchLength; pos += 16 {
				modified := 2
				if haplotype == 1 || start < 16_384 || start >= 32_768 {
					modified = 9
				}
				sites = append(sites, Site{Pos: pos, Strand: "+", Modified: modified, Canonical: 10 - modified}, Site{Pos: pos + 1, Strand: "-", Modified: modified, Canonical: 10 - modified})
			}
			s.Methylation = append(s.Methylation, stretch("lambda", "J02459.1", "m", haplotype, start, 1, true, sites))
		}
	}
	return s
}

// ManySites are a revision of 5mC at so many sites of the contig of [Lambda], on one strand.
func ManySites(n, revision int) []stream.Record {
	var out []stream.Record
	for start, i := 0, 0; i < n; start += stretchLength {
		var sites []Site
		for at := 0; at < stretchLength && i < n; at += 4 {
			sites = append(sites, Site{Pos: start + at, Strand: []string{"+", "-"}[i%2], Modified: (i + revision) % 30, Canonical: 30 - (i+revision)%30})
			i++
		}
		out = append(out, Stretch("lambda", "J02459.1", "m", start, revision, false, sites))
	}
	return out
}

// Phased is [Methylated] with heterozygous variants: the third, the fourth and the fifth are in one phase set, and the others not phased.
func Phased() Scene {
	s := Methylated()
	for i := range s.Variants {
		s.Variants[i].AltDepth, s.Variants[i].Genotype = s.Variants[i].Depth/2, "0/1"
	}
	for i, genotype := range []string{"0|1", "1|0", "0|1"} {
		s.Variants[2+i].Genotype, s.Variants[2+i].Status = genotype, "FINAL"
	}
	rows := s.Variants
	s.Detail = func(row monitor.Variant) monitor.Detail {
		d := Detail(row)
		var document map[string]any
		if err := json.Unmarshal(d.Variant, &document); err != nil {
			panic(err) // made here
		}
		call, _ := document["call"].(map[string]any)
		call["genotype"], call["zygosity"] = []int{0, 1}, "heterozygous"
		if strings.Contains(row.Genotype, "|") {
			call["phase_set"] = rows[2].Pos
			if row.Genotype == "1|0" {
				call["genotype"] = []int{1, 0}
			}
			for _, other := range rows[2:5] {
				if other.ID != row.ID {
					d.Phased = append(d.Phased, other)
				}
			}
		}
		text, err := json.Marshal(document)
		if err != nil {
			panic(err) // made here
		}
		d.Variant = text
		return d
	}
	return s
}
