package haplotype

import (
	"bytes"
	"container/heap"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/porestream/porestream/vcf"
)

// Phase says what to make of heterozygous genotypes that are not phased.
type Phase byte

// The ways, by the letters of bcftools csq's --phase.
const (
	PhaseRequire Phase = 'r' // they are an error
	PhaseAsIs    Phase = 'a' // as they are: 0/1 is 0|1
	PhaseMerge   Phase = 'm' // all alleles are on one haplotype: 0/1 is 1, 1/2 is 1
	PhaseNonRef  Phase = 'R' // both haplotypes differ from the reference: 0/1 is 1|1, 1/2 is 1|2
	PhaseSkip    Phase = 's' // they are left out
)

// ErrUnphased is the error about a heterozygous genotype that is not phased, with PhaseRequire.
var ErrUnphased = errors.New("heterozygous genotype is not phased")

// defaultPerHaplotype is how many consequences of a site FORMAT/BCSQ can hold per haplotype: as many as bits fit in one
// integer.
const defaultPerHaplotype = 15

// Options say how to call. The zero value is bcftools csq's default.
type Options struct {
	Phase        Phase // PhaseRequire when 0
	Local        bool  // one variant at a time, whatever else is on its haplotype
	Greedy       bool  // report also introns and non-coding transcripts where another transcript has a consequence
	TrimProtein  int   // amino acids to write of a longer change; 0: all
	PerHaplotype int   // consequences of a site that FORMAT/BCSQ can hold per haplotype; 15 when 0

	// replaced says that an allele which replaces bases by more or fewer ones is translated as it is. bcftools csq reports
	// another sequence where one of the two is a single base, as in "TTAAG>C", and calls the others elongation or truncation.
	replaced bool
}

// Counts are the numbers of items left out.
type Counts struct {
	Colliding  int // variants that overlap one before them on their haplotype
	Polyploid  int // sites with genotypes of more than two alleles, in coding sequence
	Overflowed int // consequences that did not fit in FORMAT/BCSQ
}

// site is one record under way.
type site struct {
	row     vcf.Row // of a file
	number  int     // of its line, or of the variant
	contig  *contig
	pos     int      // 0-based
	rlen    int      // reference bases that the record is about
	alleles [][]byte // upper-case; the first is the reference's
	text    [][]byte // as written
	ploidy  int      // most alleles that a genotype has; 0: no genotypes
	alts    []int    // genotypes, ploidy numbers per sample: an allele, missing or none
	phased  []bool   // per sample
	skip    bool     // it is passed on as it is

	calls     []call
	keepUntil int // end of the last transcript whose haplotypes it is in
	masks     []uint32
	masksUsed int // integers per sample
	claimed   []claim
}

// Genotype alleles that are none.
const (
	missing  = -1
	noAllele = -2 // the sample has fewer
)

// claim is a transcript that has reported an allele already.
type claim struct {
	transcript *transcript
	allele     int
}

// appendChange appends an allele as it stands in a change: "123A>T".
func (s *site) appendChange(b []byte, allele int) []byte {
	b = append(strconv.AppendInt(b, int64(s.pos+1), 10), s.text[0]...)
	return append(append(b, '>'), s.text[allele]...)
}

// symbolic reports whether an allele is no sequence.
func (s *site) symbolic(allele int) bool {
	a := s.alleles[allele]
	for _, c := range a {
		if c < 'A' || c > 'Z' {
			return true
		}
	}
	return len(a) == 0
}

// Caller calls consequences of a stream of sites that are sorted by position within each contig. It holds those that lie
// in coding transcripts until the transcripts are behind. It is for one goroutine.
type Caller struct {
	Counts Counts

	genes   *Genes
	opts    Options
	samples int
	width   int // integers per sample that masks have

	contig *contig
	queue  []*site // waiting
	active trees   // transcripts with haplotypes, the one that ends first on top
	trees  map[*transcript]*tree

	// Memory that is used again.
	evaluation evaluation
	path       lineage
	ref        protein
	alt        protein
	buf        []byte
	coding     []*exon
	utrs       []*utr
	exons      []*exon
	others     []*transcript
	steps      []step
	memory     memory
	kept       int    // blocks of memory to have of each kind before the old ones are left to the garbage collector
	near       [4]int // where the last searches of the contig's indices ended: coding, untranslated, exons, transcripts

	// The coding sequence that was examined last.
	sequenceOf *transcript
	sequence   []byte
}

// newCaller returns a caller for so many samples; with none, all variants are on one haplotype.
func newCaller(g *Genes, opts Options, samples int) (*Caller, error) {
	if opts.Phase == 0 {
		opts.Phase = PhaseRequire
	}
	if opts.PerHaplotype == 0 {
		opts.PerHaplotype = defaultPerHaplotype
	}
	if bytes.IndexByte([]byte("ramRs"), byte(opts.Phase)) < 0 {
		return nil, fmt.Errorf("phase %q: want one of a, m, r, R and s", string(rune(opts.Phase)))
	}
	if opts.PerHaplotype < 0 || opts.TrimProtein < 0 {
		return nil, errors.New("the number of consequences per haplotype and that of amino acids may not be negative")
	}
	c := &Caller{
		genes: g, opts: opts, samples: samples, width: 1 + (2*opts.PerHaplotype-1)/maskBits,
		trees: map[*transcript]*tree{}, kept: keptBlocks,
	}
	c.memory.bytes.most = textBlock
	return c, nil
}

// trees is a heap by the end of transcripts.
type trees []*tree

func (h trees) Len() int           { return len(h) }
func (h trees) Less(i, j int) bool { return h[i].transcript.end < h[j].transcript.end }
func (h trees) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *trees) Push(x any)        { *h = append(*h, x.(*tree)) }
func (h *trees) Pop() any {
	n := len(*h) - 1
	x := (*h)[n]
	*h = (*h)[:n]
	return x
}

// push takes the next site and appends those that are done to done.
func (c *Caller) push(done []*site, s *site) ([]*site, error) {
	if s.contig != c.contig {
		done = c.flush(done)
		c.contig, c.near = s.contig, [4]int{}
	}
	c.queue = append(c.queue, s)
	if !s.skip {
		if err := c.call(s); err != nil {
			c.queue = c.queue[:len(c.queue)-1]
			return done, err
		}
	}
	return c.leave(done, s.pos-1), nil
}

// recycle takes the memory of all sites back if none of them waits and none is examined any more. Where each transcript
// overlaps the next, over a whole contig perhaps, that never happens: then it leaves old memory to the garbage collector.
func (c *Caller) recycle() {
	if len(c.queue) == 0 && len(c.active) == 0 {
		c.memory.reset()
		return
	}
	c.memory.forget(c.kept)
}

// flush lets everything go.
func (c *Caller) flush(done []*site) []*site { return c.leave(done, math.MaxInt) }

// leave finishes the transcripts that end at or before pos, and lets the sites go that wait for no other.
func (c *Caller) leave(done []*site, pos int) []*site {
	for len(c.active) > 0 && c.active[0].transcript.end <= pos {
		t := heap.Pop(&c.active).(*tree)
		delete(c.trees, t.transcript)
		if len(t.root.children) > 0 {
			c.path = lineage{nodes: c.path.nodes[:0], ends: c.path.ends[:0], seq: c.path.seq[:0]}
			c.finish(t)
			c.mark(t)
		}
		c.release(t)
	}
	n := 0
	for n < len(c.queue) && (len(c.active) == 0 || c.queue[n].keepUntil <= pos) {
		n++
	}
	done = append(done, c.queue[:n]...)
	left := copy(c.queue, c.queue[n:])
	clear(c.queue[left:])
	c.queue = c.queue[:left]
	return done
}

// call evaluates s against the genes.
func (c *Caller) call(s *site) error {
	if s.contig == nil {
		return nil
	}
	if s.alleles[1][0] == '<' {
		c.symbolicSite(s)
		return nil
	}
	hit, err := c.codingSite(s)
	if err != nil {
		return err
	}
	if c.untranslatedSite(s) {
		hit = true
	}
	if c.spliceSites(s) {
		hit = true
	}
	if !hit || c.opts.Greedy {
		c.transcripts(s)
	}
	return nil
}

// claim notes that a transcript has a consequence of an allele, or could have one.
func (c *Caller) claim(s *site, t *transcript, allele int) {
	if c.opts.Greedy {
		s.claimed = c.memory.claims.append(s.claimed, claim{t, allele})
	}
}

func (s *site) hasClaim(t *transcript, allele int) bool {
	for _, x := range s.claimed {
		if x.transcript == t && x.allele == allele {
			return true
		}
	}
	return false
}

// codingSite evaluates coding stretches, including the base after the record, because of insertions.
func (c *Caller) codingSite(s *site) (bool, error) {
	c.coding = s.contig.coding.overlapping(c.coding[:0], s.pos, s.pos+s.rlen, &c.near[0])
	for _, e := range c.coding {
		if err := s.check(e.transcript); err != nil {
			return false, err
		}
		if c.opts.Local {
			c.localCoding(s, e)
			continue
		}
		if err := c.growTree(s, e); err != nil {
			return false, err
		}
	}
	return len(c.coding) > 0, nil
}

// check compares the record's reference allele with the reference, as far as the transcript and its pads go.
func (s *site) check(t *transcript) error {
	for i, b := range s.alleles[0] {
		p := s.pos + i
		if p < t.beg-pad || p > t.end+pad || p < 0 || p >= t.contig.Len() {
			continue
		}
		if r := t.contig.At(p); r != b {
			return fmt.Errorf("REF has %c at position %d, the reference has %c: they do not belong together", b, p+1, r)
		}
	}
	return nil
}

// untranslatedSite evaluates untranslated stretches.
func (c *Caller) untranslatedSite(s *site) bool {
	c.utrs = s.contig.untranslate.overlapping(c.utrs[:0], s.pos, s.pos+s.rlen, &c.near[1])
	hit := false
	for _, u := range c.utrs {
		for allele := 1; allele < len(s.alleles); allele++ {
			if s.symbolic(allele) {
				continue
			}
			if o := c.at(evaluation{transcript: u.transcript, site: s, allele: allele}, u.beg, u.end); o != inside && o != overlaps {
				continue
			}
			c.claim(s, u.transcript, allele)
			c.stage(s, &call{terms: u.term(), transcript: u.transcript, allele: allele})
			hit = true
		}
	}
	return hit
}

// at evaluates the region [beg,end].
func (c *Caller) at(l evaluation, beg, end int) outcome {
	l.caller, l.refBases, l.altBases = c, c.evaluation.refBases, c.evaluation.altBases
	c.evaluation = l
	return c.evaluation.at(beg, end)
}

// spliceSites evaluates the borders of exons.
func (c *Caller) spliceSites(s *site) bool {
	c.exons = s.contig.exons.overlapping(c.exons[:0], s.pos, s.pos+s.rlen, &c.near[2])
	hit := false
	for _, e := range c.exons {
		t := e.transcript
		if len(t.cds) == 0 {
			continue // splice sites of transcripts that are not coding are of no interest
		}
		for allele := 1; allele < len(s.alleles); allele++ {
			if s.symbolic(allele) {
				continue
			}
			c.at(evaluation{transcript: t, site: s, allele: allele, splice: true, beginning: t.beg != e.beg, ending: t.end != e.end}, e.beg, e.end)
			if c.evaluation.terms != 0 {
				c.claim(s, t, allele)
				hit = true
			}
		}
	}
	return hit
}

// transcripts reports introns and transcripts that are not coding.
func (c *Caller) transcripts(s *site) {
	c.others = s.contig.transcripts.overlapping(c.others[:0], s.pos, s.pos+s.rlen, &c.near[3])
	for _, t := range c.others {
		for allele := 1; allele < len(s.alleles); allele++ {
			if s.symbolic(allele) || t.biotype.coding && s.hasClaim(t, allele) {
				continue
			}
			if o := c.at(evaluation{transcript: t, site: s, allele: allele}, t.beg, t.end); o == inside || o == overlaps {
				c.stage(s, &call{terms: t.within(), transcript: t, allele: allele})
			}
		}
	}
}

// within is the term of a variant that is in t and in none of its parts.
func (t *transcript) within() Terms {
	if t.biotype.coding {
		return Intron
	}
	return NonCoding
}

// symbolicSite reports a long insertion or deletion that is named, not written.
func (c *Caller) symbolicSite(s *site) {
	var kind Terms
	switch alt := s.alleles[1]; {
	case bytes.HasPrefix(alt, []byte("<INS")):
		kind = FeatureElongation
	case bytes.HasPrefix(alt, []byte("<DEL")):
		kind = FeatureTruncation
	default:
		return
	}
	at := s.pos + 1
	c.coding = s.contig.coding.overlapping(c.coding[:0], at, at, &c.near[0])
	c.utrs = s.contig.untranslate.overlapping(c.utrs[:0], at, at, &c.near[1])
	c.exons = s.contig.exons.overlapping(c.exons[:0], at, at, &c.near[2])
	hit := len(c.coding)+len(c.utrs) > 0
	for _, e := range c.coding {
		c.claim(s, e.transcript, 1)
		c.stage(s, &call{terms: CodingSequence | kind, transcript: e.transcript, allele: 1})
	}
	for _, u := range c.utrs {
		c.claim(s, u.transcript, 1)
		c.stage(s, &call{terms: u.term() | kind, transcript: u.transcript, allele: 1})
	}
	for _, e := range c.exons {
		t := e.transcript
		if len(t.cds) == 0 {
			continue
		}
		c.at(evaluation{transcript: t, site: s, allele: 1, splice: true, beginning: t.beg != e.beg, ending: t.end != e.end, terms: kind}, e.beg, e.end)
		c.claim(s, t, 1)
		hit = true
	}
	if hit && !c.opts.Greedy {
		return
	}
	c.others = s.contig.transcripts.overlapping(c.others[:0], at, at, &c.near[3])
	for _, t := range c.others {
		if t.biotype.coding && s.hasClaim(t, 1) {
			continue
		}
		if o := c.at(evaluation{transcript: t, site: s, allele: 1, terms: kind}, t.beg, t.end); o == inside || o == overlaps {
			c.stage(s, &call{terms: t.within() | kind, transcript: t, allele: 1})
		}
	}
}
