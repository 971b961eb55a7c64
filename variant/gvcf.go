package variant

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/vcf"
)

// The symbolic alleles that stand for everything that isn't listed: VCF's own, and
// the one that GATK's tools expect.
const (
	AnyAllele    = "<*>"
	NonReference = "<NON_REF>"
)

// DeclareBlocks adds to a header what the records of blocks need. allele is
// AnyAllele or NonReference.
func DeclareBlocks(h *vcf.Header, allele string) {
	h.AddMeta(`##ALT=<ID=` + strings.Trim(allele, "<>") + `,Description="Any allele that is not listed">`)
	h.AddInfo("END", "1", "Integer", "Last position of a block without a variant")
	h.AddFormat("MIN_DP", "1", "Integer", "Least reads at a position of the block")
}

// Rows puts together as records what the regions say, region by region in the order
// of a file: calls, and between them blocks, if there are any.
type Rows struct {
	any   string
	write func(*vcf.Record) error

	contig  *genome.Contig
	calls   []*streampb.Call // not written yet
	blocks  []Block
	written int // 0-based position behind the last row of the contig
}

// NewRows begins a file. any is the symbolic allele of blocks, which every record
// of a variant then has too; "" for a file without them.
func NewRows(any string, write func(*vcf.Record) error) *Rows {
	return &Rows{any: any, write: write}
}

// Add takes the calls and blocks of the next region of a contig, which ends at the
// 0-based position end. Calls that share a record with a call of the region behind
// it are kept until that comes.
func (r *Rows) Add(contig *genome.Contig, end int, calls []*streampb.Call, blocks []Block) error {
	if r.contig != contig {
		if err := r.Close(); err != nil {
			return err
		}
		r.contig = contig
	}
	r.calls = append(r.calls, calls...)
	r.blocks = append(r.blocks, blocks...)
	return r.flush(end)
}

// Close writes what is left.
func (r *Rows) Close() error {
	if r.contig == nil {
		return nil
	}
	err := r.flush(math.MaxInt)
	r.contig, r.calls, r.blocks, r.written = nil, nil, nil, 0
	return err
}

// flush writes everything that no call at or behind end can belong to.
func (r *Rows) flush(end int) error {
	ready := len(r.calls)
	limit := end // 0-based: calls with another allele from here on wait
	for i := len(r.calls) - 1; i >= 0; i-- {
		if slices.ContainsFunc(r.calls[i].GetOthers(), func(o *streampb.OtherAllele) bool { return int(o.GetPos())-1 >= limit }) {
			ready, limit = i, int(r.calls[i].GetPos())-1
		}
	}
	for _, site := range VCFSites(r.calls[:ready]) {
		start := site.Record.Pos - 1
		if err := r.blocksUntil(start); err != nil {
			return err
		}
		if r.any != "" {
			site.addAny(r.any)
		}
		if err := r.write(site.Record); err != nil {
			return err
		}
		r.written = max(r.written, int(site.end)-1)
	}
	r.calls = slices.Delete(r.calls, 0, ready)
	return r.blocksUntil(limit)
}

// blocksUntil writes the blocks up to a position, without what rows lie over.
func (r *Rows) blocksUntil(limit int) error {
	n := 0
	for ; n < len(r.blocks) && r.blocks[n].Start < limit; n++ {
		b := r.blocks[n]
		b.Start = max(b.Start, r.written)
		if b.Start >= b.End {
			continue
		}
		if err := r.write(r.record(b)); err != nil {
			return err
		}
	}
	r.blocks = slices.Delete(r.blocks, 0, n)
	return nil
}

// record is a block as a record.
func (r *Rows) record(b Block) *vcf.Record {
	zero := "0"
	if b.NoCall() {
		zero = "."
	}
	rec := &vcf.Record{
		Chrom: r.contig.Name, Pos: b.Start + 1, Ref: string(concrete(r.contig.Seq[b.Start])), Alt: []string{r.any}, Qual: math.NaN(),
		Format: []string{"GT", "GQ", "DP", "MIN_DP", "PL"},
		Samples: [][]string{{
			zero + strings.Repeat("/"+zero, len(b.Likelihoods)-2),
			strconv.Itoa(b.Quality), strconv.Itoa(b.Depth), strconv.Itoa(b.MinDepth), joinInts(b.Likelihoods),
		}},
	}
	rec.Info.Set("END", strconv.Itoa(b.End))
	return rec
}

// genotypeSize is how many allele numbers a genotype has.
func genotypeSize(p Ploidy) int {
	if p == Haploid {
		return 1
	}
	return 2
}

// concrete is a base of the reference as REF may hold it: of several that an
// ambiguity code stands for the first in the alphabet (VCF 4.3, section 1.6.1).
func concrete(base byte) byte {
	switch base {
	case 'A', 'C', 'G', 'T', 'N':
		return base
	case 'R', 'W', 'M', 'D', 'H', 'V':
		return 'A'
	case 'Y', 'S', 'B':
		return 'C'
	case 'K':
		return 'G'
	case 'U':
		return 'T'
	}
	return 'N'
}

// anyError is how often a read is taken to show neither the reference nor a called
// allele by mistake.
const anyError = 0.05

// addAny adds the symbolic allele to the record of a variant.
//
// Its reads are those that show neither the reference nor another allele of the
// record. A genotype that holds it costs what the genotype with the reference in its
// place does, and what these reads and those of the reference say about the difference.
func (s *VCFSite) addAny(symbol string) {
	rec := s.Record
	others := s.otherReads()
	sample := rec.Samples[0]
	depth, _ := strconv.Atoi(sample[2])
	var ref int
	for i, key := range rec.Format {
		switch key {
		case "AD":
			first, _, _ := strings.Cut(sample[i], ",")
			ref, _ = strconv.Atoi(first)
			sample[i] += "," + strconv.Itoa(others[0]+others[1])
		case "ADF":
			sample[i] += "," + strconv.Itoa(others[0])
		case "ADR":
			sample[i] += "," + strconv.Itoa(others[1])
		case "AF":
			fraction := 0.0
			if depth > 0 {
				fraction = math.Round(float64(others[0]+others[1])/float64(depth)*1e4) / 1e4
			}
			sample[i] += "," + vcf.FormatFloat(fraction)
		case "PL":
			pl := s.likelihoodsWithAny(ref, others[0]+others[1])
			quality, _ := strconv.Atoi(sample[1])
			sample[1] = strconv.Itoa(min(quality, agree(pl, genotypeIndex(s.genotype))))
			sample[i] = joinInts(pl)
		}
	}
	rec.Alt = append(rec.Alt, symbol)
	for i := range rec.Info {
		if rec.Info[i].Key == infoVRS {
			rec.Info[i].Value += ",."
		}
	}
}

// otherReads are the reads by strand that show no allele of the record: a call's
// other reads include those of the record's other alleles.
func (s *VCFSite) otherReads() [2]int {
	least := [2]int{math.MaxInt, math.MaxInt}
	var alts [2]int
	for _, c := range s.Calls {
		alts[0] += int(c.GetAltForward())
		alts[1] += int(c.GetAltReverse())
	}
	for _, c := range s.Calls {
		if c != nil {
			least[0] = min(least[0], int(c.GetOtherForward())+int(c.GetAltForward())-alts[0])
			least[1] = min(least[1], int(c.GetOtherReverse())+int(c.GetAltReverse())-alts[1])
		}
	}
	return [2]int{max(0, least[0]), max(0, least[1])}
}

// likelihoodsWithAny is PL with the symbolic allele as the last one.
func (s *VCFSite) likelihoodsWithAny(ref, other int) []int {
	ploidy := len(s.Calls[slices.IndexFunc(s.Calls, func(c *streampb.Call) bool { return c != nil })].GetGenotype())
	over := costsOver(s.Calls, ploidy)
	base := logCounts(anyError, int32(ref), int32(other))
	return genotypeCosts(ploidy, len(s.Calls)+1, func(copies []int) int {
		sum := 0
		for i, n := range copies[:len(s.Calls)] {
			sum += over[i][n]
		}
		if n := copies[len(s.Calls)]; n > 0 {
			// Of the reads of no called allele, the share that shows no listed one.
			reference := ploidy
			for _, m := range copies {
				reference -= m
			}
			share := float64(n) / float64(n+reference)
			l := logCounts(float64(share*(1-anyError))+float64((1-share)*anyError), int32(ref), int32(other))
			// Nothing is likelier for an allele that was not called.
			sum += max(0, int(math.Round((base-l)*10/math.Ln10)))
		}
		return sum
	})
}
