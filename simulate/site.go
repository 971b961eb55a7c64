package simulate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/textfile"
	"github.com/porestream/porestream/vcf"
)

// Site is a place where haplotypes differ from the reference, as a row of VCF has it:
// left-aligned and parsimonious.
type Site struct {
	Contig   string
	Start    int      // 0-based position of the first base of Ref
	Ref      string   // for an insertion or deletion it begins with the base before
	Alts     []string // alternate alleles
	Genotype []uint8  // allele of each haplotype: 0 is Ref, i is Alts[i-1]
}

// end is the position behind the last base of Ref.
func (s *Site) end() int { return s.Start + len(s.Ref) }

// Allele returns the sequence that haplotype h has in place of Ref.
func (s *Site) Allele(h int) string {
	if a := s.Genotype[h]; a > 0 {
		return s.Alts[a-1]
	}
	return s.Ref
}

// Record returns the site as a VCF record of one sample with a phased genotype.
func (s *Site) Record() *vcf.Record {
	alleles := make([]string, len(s.Genotype))
	for i, a := range s.Genotype {
		alleles[i] = strconv.Itoa(int(a))
	}
	return &vcf.Record{
		Chrom: s.Contig, Pos: s.Start + 1, Ref: s.Ref, Alt: s.Alts, Qual: math.NaN(), Filter: []string{"PASS"},
		Format: []string{"GT"}, Samples: [][]string{{strings.Join(alleles, "|")}},
	}
}

// Header returns the header of a VCF of sites of g.
func Header(g *genome.Genome, sample string) *vcf.Header {
	h := vcf.NewHeader("VCFv4.2", sample)
	h.AddMeta("##source=pore simulate")
	h.AddMeta(`##FILTER=<ID=PASS,Description="All filters passed">`)
	for _, c := range g.Contigs {
		h.AddContig(c.Name, len(c.Seq))
	}
	h.AddFormat("GT", "1", "String", "Phased genotype: the allele of each haplotype")
	_ = h.SetVersion("") // the least that it needs has no fault
	return h
}

// sortSites orders sites as the reference orders contigs, then by position.
func sortSites(contigs []*genome.Contig, sites []Site) {
	rank := make(map[string]int, len(contigs))
	for i, c := range contigs {
		rank[c.Name] = i
	}
	slices.SortStableFunc(sites, func(a, b Site) int {
		return cmp.Or(cmp.Compare(rank[a.Contig], rank[b.Contig]), cmp.Compare(a.Start, b.Start))
	})
}

// edit replaces seq[start:end] by alt; start may equal end.
type edit struct {
	start, end int
	alt        string
}

// trim cuts off what both alleles begin and end with.
func trim(start int, ref, alt string) edit {
	for len(ref) > 0 && len(alt) > 0 && ref[len(ref)-1] == alt[len(alt)-1] {
		ref, alt = ref[:len(ref)-1], alt[:len(alt)-1]
	}
	for len(ref) > 0 && len(alt) > 0 && ref[0] == alt[0] {
		ref, alt, start = ref[1:], alt[1:], start+1
	}
	return edit{start, start + len(ref), alt}
}

// shiftLeft moves a pure insertion or deletion as far left as it goes without changing
// the sequence that it makes (Tan, Abecasis, Kang 2015). Other edits stay.
func (e edit) shiftLeft(seq []byte) edit {
	switch {
	case e.alt == "":
		for e.start > 0 && seq[e.start-1] == seq[e.end-1] {
			e.start--
			e.end--
		}
	case e.start == e.end:
		alt, turn := []byte(e.alt), 0
		for e.start > 0 && seq[e.start-1] == alt[(len(alt)-1+turn)%len(alt)] {
			e.start--
			e.end--
			turn = (turn + len(alt) - 1) % len(alt)
		}
		e.alt = string(alt[turn:]) + string(alt[:turn])
	}
	return e
}

// reach returns how far right a pure insertion or deletion at its leftmost position
// can be moved: the position behind the last base that takes part in its ambiguity.
func (e edit) reach(seq []byte) int {
	switch {
	case e.alt == "":
		end := e.end
		for end < len(seq) && seq[end] == seq[end-(e.end-e.start)] {
			end++
		}
		return end
	case e.start == e.end:
		end := e.start
		for n := 0; end < len(seq) && seq[end] == e.alt[n%len(e.alt)]; n++ {
			end++
		}
		return end
	}
	return e.end
}

// Haplotype is one copy of a contig.
type Haplotype struct {
	Contig string
	Number int    // from 1
	Seq    []byte // upper-case IUPAC letters; reads come from stretches of A, C, G and T

	blocks []block
}

// block says where positions of a haplotype from hap on are on the reference.
type block struct {
	hap, ref int
	inserted bool // all at ref: the base before the insertion
}

// Position returns the 0-based reference position of base i of the haplotype, that of
// the base before for an inserted base.
func (h *Haplotype) Position(i int) int {
	at, exact := slices.BinarySearchFunc(h.blocks, i, func(b block, i int) int { return cmp.Compare(b.hap, i) })
	if !exact {
		at--
	}
	b := h.blocks[at]
	if b.inserted {
		return b.ref
	}
	return b.ref + i - b.hap
}

// Haplotypes returns the copies of a contig. sites are those of the contig, in order
// of position; each must have a genotype of the given ploidy, and no two may overlap
// on one haplotype.
func Haplotypes(c *genome.Contig, sites []Site, ploidy int) ([]*Haplotype, error) {
	out := make([]*Haplotype, ploidy)
	for n := range out {
		h := &Haplotype{Contig: c.Name, Number: n + 1, Seq: make([]byte, 0, len(c.Seq)+len(c.Seq)/64), blocks: []block{{}}}
		at := 0 // first reference base not yet taken over
		for i := range sites {
			s := &sites[i]
			if err := s.fits(c, ploidy); err != nil {
				return nil, err
			}
			if s.Genotype[n] == 0 {
				continue
			}
			e := trim(s.Start, s.Ref, s.Allele(n))
			if e.start < at {
				return nil, fmt.Errorf("variant %s:%d %s>%s overlaps the one before it on haplotype %d", s.Contig, s.Start+1, s.Ref, s.Allele(n), n+1)
			}
			h.Seq = append(h.Seq, c.Seq[at:e.start]...)
			h.apply(e)
			at = e.end
		}
		h.Seq = append(h.Seq, c.Seq[at:]...)
		out[n] = h
	}
	return out, nil
}

// apply appends what an edit puts in the place of reference bases.
func (h *Haplotype) apply(e edit) {
	replaced := min(e.end-e.start, len(e.alt)) // these keep their positions
	if extra := len(e.alt) - replaced; extra > 0 {
		h.blocks = append(h.blocks, block{len(h.Seq) + replaced, max(0, e.start+replaced-1), true})
	}
	h.Seq = append(h.Seq, e.alt...)
	if len(e.alt) != e.end-e.start {
		h.blocks = append(h.blocks, block{len(h.Seq), e.end, false})
	}
}

// fits says whether a site is one of the contig.
func (s *Site) fits(c *genome.Contig, ploidy int) error {
	switch {
	case s.Start < 0 || s.end() > len(c.Seq):
		return fmt.Errorf("variant %s:%d lies outside the contig of %d bases", s.Contig, s.Start+1, len(c.Seq))
	case string(c.Seq[s.Start:s.end()]) != s.Ref:
		return fmt.Errorf("variant %s:%d has REF %s, the reference has %s there", s.Contig, s.Start+1, clip(s.Ref), clip(string(c.Seq[s.Start:s.end()])))
	case len(s.Genotype) != ploidy:
		return fmt.Errorf("variant %s:%d has a genotype of %d haplotypes, want %d", s.Contig, s.Start+1, len(s.Genotype), ploidy)
	}
	for _, a := range s.Genotype {
		if int(a) > len(s.Alts) {
			return fmt.Errorf("variant %s:%d: genotype names allele %d of %d", s.Contig, s.Start+1, a, len(s.Alts)+1)
		}
	}
	return nil
}

// clip shortens text for an error message.
func clip(s string) string { return textfile.Clip(s, 40) }

// Reverse returns the reference that sites of a contig, of one haplotype, make of it, and
// what a sample of the contig itself then has: the changes back, as sites of the new
// reference. Real reads of a genome with few variants so become reads of one with many.
func Reverse(c *genome.Contig, sites []Site) (*Haplotype, []Site, error) {
	copies, err := Haplotypes(c, sites, 1)
	if err != nil {
		return nil, nil, err
	}
	h := copies[0]
	back := make([]Site, 0, len(sites))
	shift := 0 // of positions
	for i := range sites {
		s := &sites[i]
		if s.Genotype[0] == 0 {
			continue
		}
		r := Site{Contig: s.Contig, Start: s.Start + shift, Ref: s.Allele(0), Alts: []string{s.Ref}, Genotype: []uint8{1}}
		shift += len(r.Ref) - len(s.Ref)
		back = append(back, r)
	}
	return h, normalised([]*genome.Contig{{Name: c.Name, Seq: h.Seq}}, back), nil
}

// Interval is a part of a sequence, 0-based half open.
type Interval struct{ Start, End int }

// Homopolymers returns where a haplotype, or the contig that it was made of, has
// homopolymers of at least so many bases, on the haplotype and with a base on either
// side, so that all rows of VCF that change them lie within. Intervals that overlap are
// one.
func Homopolymers(c *genome.Contig, h *Haplotype, least int) []Interval {
	within := make([]bool, len(h.Seq))
	longOnes := func(seq []byte, found func(start, end int)) {
		for i := 0; i < len(seq); {
			end := i + 1
			for end < len(seq) && seq[end] == seq[i] {
				end++
			}
			if end-i >= least && code[seq[i]] < 4 {
				found(i, end)
			}
			i = end
		}
	}
	mark := func(start, end int) {
		for i := max(0, start-1); i < min(len(within), end+1); i++ {
			within[i] = true
		}
	}
	longOnes(h.Seq, mark)
	// For a run that is shorter on the haplotype: the remaining bases.
	onContig := make([]bool, len(c.Seq))
	longOnes(c.Seq, func(start, end int) {
		for i := start; i < end; i++ {
			onContig[i] = true
		}
	})
	for i := range h.Seq {
		if onContig[h.Position(i)] {
			mark(i, i+1)
		}
	}
	var out []Interval
	for i := 0; i < len(within); {
		end := i + 1
		for end < len(within) && within[end] == within[i] {
			end++
		}
		if within[i] {
			out = append(out, Interval{i, end})
		}
		i = end
	}
	return out
}

// Outside returns what intervals, in order and apart, leave of a sequence of a length.
func Outside(intervals []Interval, length int) []Interval {
	var out []Interval
	at := 0
	for _, v := range intervals {
		if v.Start > at {
			out = append(out, Interval{at, v.Start})
		}
		at = v.End
	}
	if at < length {
		out = append(out, Interval{at, length})
	}
	return out
}
