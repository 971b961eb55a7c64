package haplotype

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/vcf"
)

const (
	// pad is how many bases beside a transcript or its coding sequence its rules may examine.
	pad = 10
	// spliceSite is how many bases of an intron are its donor or acceptor, spliceRegion how many belong to the
	// region around them.
	spliceSite   = 2
	spliceRegion = 8
)

// Genes are the transcripts of a genome, laid out for the rules. They do not change and may be shared.
type Genes struct {
	// Warnings name transcripts that have no or fewer consequences.
	Warnings []string

	genome  *genome.Genome
	contigs map[string]*contig
	cdsless []string       // transcripts of a coding class without a CDS
	unknown map[string]int // transcripts by biotype, of those that are none of biotypes
}

// contig holds what lies on one contig.
type contig struct {
	arena       []exon // of all exons; as long as it has to be
	coding      index[*exon]
	untranslate index[*utr]
	exons       index[*exon]
	transcripts index[*transcript]
}

// transcript is one transcript. What lies on it is in the order of positions, whatever the strand.
type transcript struct {
	id, gene string
	// idText and geneText are the same as a value of BCSQ has them.
	idText, geneText string

	geneID   *annotate.Gene
	biotype  *biotype
	code     *code
	contig   *genome.Contig
	beg, end int
	forward  bool
	cds      []*exon
	utrs     []*utr
	// cut5 and cut3 say that the annotation lacks the start or the end of the coding sequence.
	cut5, cut3 bool
}

// exon is an exon, or a coding stretch of one.
type exon struct {
	transcript *transcript
	beg, end   int
	number     int // among the coding stretches
	offset     int // of its first base among the coding bases
}

func (e *exon) length() int { return e.end - e.beg + 1 }

type utr struct {
	transcript *transcript
	beg, end   int
	five       bool
}

// nameText percent-encodes what would end a sub-field, a value or the INFO field. What GFF3 has to encode stands in BCSQ
// as in the file then, as with bcftools csq.
var nameText = vcf.NewEscaper("%;=,| ")

// NewGenes lays the genes out. Coding sequences are read in the genetic code that the model gives them. Where that is the
// standard one and their rows do not say so, ATG is its only start codon, unless allStarts is set.
func NewGenes(g *genome.Genome, m *annotate.Model, allStarts bool) (*Genes, error) {
	all := &Genes{genome: g, contigs: map[string]*contig{}, unknown: map[string]int{}}
	codes := map[int]*code{}
	n := 0
	if m != nil {
		n = m.Transcripts()
	}
	views := slices.AppendSeq(make([]annotate.View, 0, n), m.All())
	slices.SortFunc(views, func(v, w annotate.View) int { return cmp.Compare(v.Written().Line, w.Written().Line) })
	all.allocate(views)
	for i := range views {
		v := &views[i]
		kind := biotypeOf(v.Biotype)
		if kind == nil {
			all.unknown[v.Biotype]++
			continue
		}
		number := v.GeneticCode
		if number == standardCode && !allStarts && !v.Written().Code {
			number = DefaultCode
		}
		if codes[number] == nil {
			c, err := newCode(number)
			if err != nil {
				return nil, err
			}
			codes[number] = c
		}
		all.add(all.contigs[v.Contig.Name], v, kind, codes[number])
	}
	for _, c := range all.contigs {
		c.coding.build()
		c.untranslate.build()
		c.exons.build()
		c.transcripts.build()
	}
	all.warn()
	return all, nil
}

// allocate makes the contigs, with capacity for the transcripts that are laid out: growing lists would leave several
// times as much garbage.
func (all *Genes) allocate(views []annotate.View) {
	type count struct{ transcripts, utrs, exons, coding int }
	counts := map[string]*count{}
	for i := range views {
		v := &views[i]
		if biotypeOf(v.Biotype) == nil {
			continue
		}
		n := counts[v.Contig.Name]
		if n == nil {
			n = new(count)
			counts[v.Contig.Name] = n
		}
		w := v.Written()
		n.transcripts++
		n.utrs += len(w.UTRs)
		n.coding += len(v.CDS)
		if w.Exons {
			n.exons += len(v.Exons)
		}
	}
	for name, n := range counts {
		c := &contig{arena: make([]exon, 0, n.exons+n.coding)}
		c.transcripts.spans = make([]span[*transcript], 0, n.transcripts)
		c.untranslate.spans = make([]span[*utr], 0, n.utrs)
		c.exons.spans = make([]span[*exon], 0, n.exons)
		c.coding.spans = make([]span[*exon], 0, n.coding)
		all.contigs[name] = c
	}
}

// newExon is an exon in the contig's preallocated list.
func (c *contig) newExon(t *transcript, s annotate.Span) *exon {
	c.arena = append(c.arena, exon{transcript: t, beg: s.Start, end: s.End - 1})
	return &c.arena[len(c.arena)-1]
}

// warn reports transcripts that are not what their class says.
func (all *Genes) warn() {
	const shown = 3
	if n := len(all.cdsless); n > 0 {
		slices.Sort(all.cdsless)
		list := strings.Join(all.cdsless[:min(n, shown)], ", ")
		if n > shown {
			list += fmt.Sprintf(" and %d more", n-shown)
		}
		all.Warnings = append(all.Warnings, "transcripts of a coding biotype have no CDS, so that all of them is reported as intron, as bcftools csq does: "+list)
	}
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(all.unknown)) {
		kinds = append(kinds, fmt.Sprintf("%q (%d)", kind, all.unknown[kind]))
	}
	if len(kinds) > 0 {
		all.Warnings = append(all.Warnings, "transcripts of biotypes that bcftools csq does not know have no BCSQ: "+strings.Join(kinds, ", "))
	}
}

// add lays one transcript out.
func (all *Genes) add(c *contig, v *annotate.View, kind *biotype, code *code) {
	w := v.Written()
	t := &transcript{
		id: v.ID, gene: cmp.Or(v.Gene.Symbol, v.Gene.ID), geneID: v.Gene, biotype: kind, code: code, contig: v.Contig,
		beg: w.Start, end: w.End - 1, forward: v.Forward,
	}
	t.idText, t.geneText = nameText.Escape(t.id), nameText.Escape(t.gene)
	c.transcripts.add(t.beg, t.end, t)
	for _, u := range w.UTRs {
		x := &utr{t, u.Start, u.End - 1, u.Five}
		t.utrs = append(t.utrs, x)
		c.untranslate.add(x.beg, x.end, x)
	}
	if w.Exons {
		for _, s := range v.Exons {
			c.exons.add(s.Start-spliceRegion, s.End-1+spliceRegion, c.newExon(t, s))
		}
	}
	t.cds = make([]*exon, 0, len(v.CDS))
	for _, s := range v.CDS {
		t.cds = append(t.cds, c.newExon(t, s.Span))
	}
	if len(t.cds) == 0 || !kind.coding {
		if kind.coding {
			all.cdsless = append(all.cdsless, t.id)
		}
		return
	}
	// The model's own frame: where phases of CDS rows contradict the bases, it follows the bases and reports it.
	t.trim((3 - v.Pad()) % 3)
	n := 0
	for i, e := range t.cds {
		e.number, e.offset = i, n
		n += e.length()
		c.coding.add(min(e.beg, e.end), max(e.beg, e.end), e) // one without bases is found by its neighbours
	}
}

// trim leaves whole codons: it takes bases of a codon that began before the annotation does, phase of them, and of one
// that goes on behind it.
func (t *transcript) trim(phase int) {
	t.cut5 = phase > 0
	first, last := t.cds, slices.Clone(t.cds)
	slices.Reverse(last)
	if !t.forward {
		first, last = last, first
	}
	take(first, phase, t.forward)
	n := 0
	for _, e := range t.cds {
		n += e.length()
	}
	t.cut3 = n%3 != 0
	take(last, n%3, !t.forward)
}

// take shortens a row of exons by n bases, at the beginning or the end of each.
func take(exons []*exon, n int, atBeginning bool) {
	for _, e := range exons {
		if n <= 0 {
			return
		}
		k := min(n, e.length())
		if atBeginning {
			e.beg += k
		} else {
			e.end -= k
		}
		n -= k
	}
}

// base is the base at a position of the contig; 'N' where there is none.
func (t *transcript) base(pos int) byte {
	if pos < 0 || pos >= t.contig.Len() {
		return 'N'
	}
	return t.contig.At(pos)
}

// appendBases appends n bases from pos on.
func (t *transcript) appendBases(dst []byte, pos, n int) []byte {
	if pos >= 0 && pos+n <= t.contig.Len() {
		return t.contig.Append(dst, pos, max(pos, pos+n))
	}
	for i := range n {
		dst = append(dst, t.base(pos+i))
	}
	return dst
}

// codingSequence appends to s the coding sequence on the reference strand with pad bases before and after it.
func (t *transcript) codingSequence(s []byte) []byte {
	first, last := t.cds[0], t.cds[len(t.cds)-1]
	s = t.appendBases(s, first.beg-pad, pad)
	for _, e := range t.cds {
		s = t.appendBases(s, e.beg, e.length())
	}
	return t.appendBases(s, last.end+1, pad)
}

// index finds what overlaps an interval. Ends are inclusive.
type index[T any] struct {
	spans []span[T] // by beginning, longer ones first
	reach []int     // greatest end up to each
}

type span[T any] struct {
	beg, end int
	item     T
}

func (x *index[T]) add(beg, end int, item T) { x.spans = append(x.spans, span[T]{beg, end, item}) }

func (x *index[T]) build() {
	slices.SortStableFunc(x.spans, func(a, b span[T]) int {
		return cmp.Or(cmp.Compare(a.beg, b.beg), cmp.Compare(b.end, a.end))
	})
	x.reach = make([]int, len(x.spans))
	for i, s := range x.spans {
		x.reach[i] = s.end
		if i > 0 {
			x.reach[i] = max(s.end, x.reach[i-1])
		}
	}
}

// overlapping appends to dst what shares a base with [beg,end]. near is where the search of before ended, or 0: one that
// is not far from it is fast.
func (x *index[T]) overlapping(dst []T, beg, end int, near *int) []T {
	if x == nil {
		return dst
	}
	i := x.first(beg, *near)
	*near = i
	for ; i < len(x.spans) && x.spans[i].beg <= end; i++ {
		if x.spans[i].end >= beg {
			dst = append(dst, x.spans[i].item)
		}
	}
	return dst
}

// first is the first span up to which one ends at or behind beg. The search begins at near, in steps that double.
func (x *index[T]) first(beg, near int) int {
	low, high := 0, len(x.reach)
	if near <= high && (near == 0 || x.reach[near-1] < beg) {
		low = near
		for step := 1; low+step <= high; step *= 2 {
			if x.reach[low+step-1] >= beg {
				high = low + step - 1
				break
			}
			low += step
		}
	}
	for low < high {
		if mid := (low + high) / 2; x.reach[mid] >= beg {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}
