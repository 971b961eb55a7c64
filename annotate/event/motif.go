package event

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/stream/streampb"
)

// MotifOf is the motif that a call is an artefact of, or nil.
func MotifOf(c *streampb.Call) *Motif {
	m := c.GetMotif()
	if m == nil {
		return nil
	}
	return &Motif{m.GetMotif(), m.GetBase(), m.GetShows(), m.GetSites(), m.GetAffected(), m.GetReads(), m.GetWrong()}
}

// MotifCount is what the alleles of a sample with the filter MotifArtifact say of a motif.
type MotifCount struct {
	Sample   string  `json:"sample"`
	Motif    string  `json:"motif"`    // as in [Motif], as are the next ones
	Base     uint32  `json:"base"`     //
	Shows    string  `json:"shows"`    //
	Sites    int64   `json:"sites"`    // of all regions with such an allele
	Affected int64   `json:"affected"` //
	Share    float64 `json:"share"`    // of the strand's reads at affected sites that are wrong
	Alleles  int64   `json:"alleles"`  // that were marked
}

// String describes the misread base, and where it is.
func (m MotifCount) String() string {
	return fmt.Sprintf("base %d of %s is read as %s at %d of %d sites, by %.0f %% of one strand's reads there: %d alleles of sample %s are marked MotifArtifact",
		m.Base, m.Motif, m.Shows, m.Affected, m.Sites, 100*m.Share, m.Alleles, m.Sample)
}

// MotifCounts sums up motifs. The zero value is ready; what it says doesn't depend on the order.
type MotifCounts struct {
	regions map[motifRegion]Motif
	alleles map[motifRegion]int64
}

// motifRegion is a motif in a region.
type motifRegion struct {
	sample, motif, shows string
	base                 uint32
	contig               string
	region               int64
}

// Add counts the newest revision of an allele, unless it is no artefact of a motif, or is retracted. A region
// may report a motif several times while reads arrive: the report with the most reads counts.
func (c *MotifCounts) Add(sample string, a Allele, m *Motif, status string) {
	if m == nil || status == streampb.CallStatus_RETRACTED.String() {
		return
	}
	if c.regions == nil {
		c.regions, c.alleles = make(map[motifRegion]Motif), make(map[motifRegion]int64)
	}
	key := motifRegion{sample, m.Motif, m.Shows, m.Base, a.Contig, (a.Pos - 1) / align.RegionWidth}
	c.alleles[key]++
	if known := c.regions[key]; cmp.Or(cmp.Compare(m.Reads, known.Reads), cmp.Compare(m.Wrong, known.Wrong), cmp.Compare(m.Sites, known.Sites), cmp.Compare(m.Affected, known.Affected)) > 0 {
		c.regions[key] = *m
	}
}

// List is the motifs by sample, those with most alleles first.
func (c *MotifCounts) List() []MotifCount {
	type sum struct{ sites, affected, reads, wrong, alleles int64 }
	sums := make(map[motifRegion]sum)
	for key, m := range c.regions {
		alleles := c.alleles[key]
		key.contig, key.region = "", 0
		s := sums[key]
		sums[key] = sum{s.sites + int64(m.Sites), s.affected + int64(m.Affected), s.reads + int64(m.Reads), s.wrong + int64(m.Wrong), s.alleles + alleles}
	}
	var list []MotifCount
	for key, s := range sums {
		list = append(list, MotifCount{
			Sample: key.sample, Motif: key.motif, Base: key.base, Shows: key.shows,
			Sites: s.sites, Affected: s.affected, Share: float64(s.wrong) / float64(max(1, s.reads)), Alleles: s.alleles,
		})
	}
	slices.SortFunc(list, func(a, b MotifCount) int {
		return cmp.Or(cmp.Compare(a.Sample, b.Sample), cmp.Compare(b.Alleles, a.Alleles), cmp.Compare(a.Motif, b.Motif), cmp.Compare(a.Base, b.Base), cmp.Compare(a.Shows, b.Shows))
	})
	return list
}
