// Package consensus makes the sequence of a sample out of a reference, the variants that were called and the
// places that reads cover. It is pure.
//
// Problem: a reference with a sample's variants in it claims that everything else is as in the reference, also where no
// read came. A tree or a lineage that is made of such a sequence is drawn to the reference.
//
// Strategy: a position has a base only where the reads determine it: by a call that passed, by a block of a
// gVCF with reads enough, or by a callable stretch. Everything else is N, and so is a call that failed a
// filter, and a place with two contradicting records. Heterozygous substitutions, and those of a part of the
// molecules, become letters for sets of bases (IUPAC).
//
// Consequences: a contig is written in one piece, with as much memory as it is long. Positions move where indels were
// applied, so that a sequence can't be laid on the reference base by base.
package consensus

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/vcf"
)

// Ambiguity is what becomes of a place at which the reads show several alleles of equal length.
type Ambiguity string

const (
	IUPAC Ambiguity = "iupac" // a letter for the set of bases
	Any   Ambiguity = "n"     // N
	Major Ambiguity = "major" // the allele that most reads show, the reference where as many do
)

// ParseAmbiguity reads one of the constants.
func ParseAmbiguity(s string) (Ambiguity, error) {
	if a := Ambiguity(s); a == IUPAC || a == Any || a == Major {
		return a, nil
	}
	return "", fmt.Errorf("%q: want iupac, n or major", s)
}

// Config says when a base counts as known.
type Config struct {
	// MinDepth is the least MIN_DP of a gVCF's block, and the least DP of a call, for their positions to be known. 0:
	// 10.
	MinDepth int
	// MinFraction is the least share of the reads of a genotype's alleles that an allele needs to count in a place that
	// has several. 0: 0.25.
	MinFraction float64
	// Ambiguous is what a place with several alleles of equal length becomes. Empty: IUPAC.
	Ambiguous Ambiguity
}

func (c Config) withDefaults() Config {
	c.MinDepth, c.MinFraction, c.Ambiguous = cmp.Or(c.MinDepth, 10), cmp.Or(c.MinFraction, 0.25), cmp.Or(c.Ambiguous, IUPAC)
	return c
}

// Counts are numbers of bases and changes of a sequence.
type Counts struct {
	Bases      int `json:"bases"`       // of the sequence, N included
	Unknown    int `json:"unknown"`     // N
	Applied    int `json:"applied"`     // changes of the reference
	Ambiguous  int `json:"ambiguous"`   // places with several alleles, whatever they became
	Filtered   int `json:"filtered"`    // alleles that failed a filter, or that too few reads show
	Conflicts  int `json:"conflicting"` // changes that overlap one before them
	Unresolved int `json:"untold"`      // structural alleles and breakends, whose bases no record states
}

// Plus is the sum of two.
func (n Counts) Plus(m Counts) Counts {
	return Counts{
		Bases: n.Bases + m.Bases, Unknown: n.Unknown + m.Unknown, Applied: n.Applied + m.Applied,
		Ambiguous: n.Ambiguous + m.Ambiguous, Filtered: n.Filtered + m.Filtered, Conflicts: n.Conflicts + m.Conflicts, Unresolved: n.Unresolved + m.Unresolved,
	}
}

// Consensus gathers what is known of one sample.
type Consensus struct {
	cfg     Config
	contigs map[string]*contig
	covered bool
}

// contig is what is known of one contig.
type contig struct {
	ref   *genome.Contig
	known []span // by start; they may overlap
	edits []edit
	seen  Counts // what is counted when it is gathered
}

// span are 0-based positions, end excluded.
type span struct{ start, end int }

// edit puts bases in the place of a span of the reference; several alternatives are of the span's length.
type edit struct {
	span
	bases     []byte
	uncertain bool // it becomes N, whatever its bases
}

// New is a consensus without calls or covered positions.
func New(g *genome.Genome, cfg Config) *Consensus {
	c := &Consensus{cfg: cfg.withDefaults(), contigs: make(map[string]*contig)}
	for _, ref := range g.Contigs {
		c.contigs[ref.Name] = &contig{ref: ref}
	}
	return c
}

// HasCoverage reports whether any input stated where reads are: a block of a gVCF or a callable stretch.
// Without it all but the variants would be N.
func (c *Consensus) HasCoverage() bool { return c.covered }

// Cover records that the reads determine the 0-based positions from start to before end.
func (c *Consensus) Cover(name string, start, end int) error {
	at, err := c.at(name, start, end)
	if err != nil {
		return err
	}
	c.covered = true
	at.cover(start, end)
	return nil
}

func (c *Consensus) at(name string, start, end int) (*contig, error) {
	at := c.contigs[name]
	if at == nil {
		return nil, fmt.Errorf("the reference has no contig %q", name)
	}
	if start < 0 || start > end || end > len(at.ref.Seq) {
		return nil, fmt.Errorf("%s:%d-%d is not within its %d bases", name, start+1, end, len(at.ref.Seq))
	}
	return at, nil
}

func (at *contig) cover(start, end int) {
	if n := len(at.known); n > 0 && at.known[n-1].start <= start && start <= at.known[n-1].end {
		at.known[n-1].end = max(at.known[n-1].end, end)
		return
	}
	if start < end {
		at.known = append(at.known, span{start, end})
	}
}

// Add takes a record of a VCF, of a variant or of a block, and what the given sample of it has.
func (c *Consensus) Add(rec *vcf.Record, sample int) error {
	start := rec.Pos - 1
	at, err := c.at(rec.Chrom, start, start+len(rec.Ref))
	if err != nil {
		return err
	}
	if sample >= len(rec.Samples) {
		return errors.New("no genotype: it has no column of the sample")
	}
	if !same(at.ref.Seq[start:start+len(rec.Ref)], rec.Ref) {
		return fmt.Errorf("REF is %s, and the reference has %s there: another reference", clip(rec.Ref), clip(string(at.ref.Seq[start:start+len(rec.Ref)])))
	}
	genotype, err := vcf.ParseGenotype(field(rec, sample, "GT"), len(rec.Alt))
	if err != nil {
		return fmt.Errorf("GT: %w", err)
	}
	switch {
	case !slices.ContainsFunc(rec.Alt, func(a string) bool { return a != "<*>" && a != "<NON_REF>" }):
		return c.block(at, rec, sample, genotype)
	case hasOther(rec, genotype):
		return at.other(rec)
	}
	return c.variant(at, rec, sample, genotype)
}

// hasOther reports whether a genotype has an allele that is neither bases nor deleted by another record: a structural
// variant, a breakend.
func hasOther(rec *vcf.Record, genotype vcf.Genotype) bool {
	return slices.ContainsFunc(genotype, func(a vcf.CalledAllele) bool {
		return a.Number > 0 && rec.Alt[a.Number-1] != "*" && !concrete(rec.Alt[a.Number-1])
	})
}

// other takes a record with such an allele, whose bases no record states: all of its extent is
// uncertain.
func (at *contig) other(rec *vcf.Record) error {
	end, err := at.extent(rec)
	if err != nil {
		return err
	}
	at.seen.Unresolved++
	at.edits = append(at.edits, edit{span: span{rec.Pos - 1, end}, uncertain: true})
	return nil
}

// extent is the position behind a record's last.
func (at *contig) extent(rec *vcf.Record) (int, error) {
	end := rec.Pos - 1 + len(rec.Ref)
	if text, ok := rec.Info.Get("END"); ok {
		n, err := strconv.Atoi(text)
		if err != nil || n < rec.Pos || n > len(at.ref.Seq) {
			return 0, fmt.Errorf("END=%s is not a position from %d to %d", text, rec.Pos, len(at.ref.Seq))
		}
		end = max(end, n)
	}
	return end, nil
}

// block takes a record without a variant.
func (c *Consensus) block(at *contig, rec *vcf.Record, sample int, genotype vcf.Genotype) error {
	end, err := at.extent(rec)
	if err != nil {
		return err
	}
	c.covered = true
	text := cmp.Or(field(rec, sample, "MIN_DP"), field(rec, sample, "DP"))
	depth, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("MIN_DP and DP have no depth: %q", text)
	}
	if depth >= c.cfg.MinDepth && !genotype.Missing() {
		at.cover(rec.Pos-1, end)
	}
	return nil
}

// variant takes a record with an allele of bases.
func (c *Consensus) variant(at *contig, rec *vcf.Record, sample int, genotype vcf.Genotype) error {
	here := span{rec.Pos - 1, rec.Pos - 1 + len(rec.Ref)}
	alleles := alleles(rec, genotype)
	passed := len(rec.Filter) == 0 || len(rec.Filter) == 1 && (rec.Filter[0] == "PASS" || rec.Filter[0] == ".")
	depth, err := strconv.Atoi(field(rec, sample, "DP"))
	shallow := err == nil && depth < c.cfg.MinDepth
	switch {
	case genotype.Missing():
		at.edits = append(at.edits, edit{span: here, uncertain: true})
		return nil
	case len(alleles) == 0: // all of it is deleted by another record
		return nil
	case shallow && !slices.ContainsFunc(alleles, isAlternate): // too few reads determine it, whatever else covers it
		at.edits = append(at.edits, edit{span: here, uncertain: true})
		return nil
	case shallow || !passed && slices.ContainsFunc(alleles, isAlternate):
		for _, a := range alleles {
			if a > 0 {
				at.seen.Filtered++
				changed, _ := trim(here.start, rec.Ref, rec.Alt[a-1])
				at.edits = append(at.edits, edit{span: at.anchored(changed), uncertain: true})
			}
		}
		if !shallow { // what the change leaves as it is was read
			at.cover(here.start, here.end)
		}
		return nil
	}
	if len(alleles) > 1 {
		at.seen.Ambiguous++
		var err error
		if alleles, err = c.counted(rec, sample, alleles); err != nil {
			return err
		}
	}
	at.cover(here.start, here.end)
	spelt := make([]string, len(alleles))
	equal := true
	for i, a := range alleles {
		spelt[i] = rec.Ref
		if a > 0 {
			spelt[i] = rec.Alt[a-1]
		}
		equal = equal && len(spelt[i]) == len(rec.Ref)
	}
	switch {
	case len(spelt) > 1 && equal && c.cfg.Ambiguous != Major:
		at.edits = append(at.edits, edit{span: here, bases: c.ambiguous(spelt)})
	case alleles[0] > 0: // the first is what most reads show
		changed, bases := trim(here.start, rec.Ref, spelt[0])
		at.edits = append(at.edits, edit{span: changed, bases: bases})
		at.seen.Applied++
	}
	return nil
}

// ambiguous spells alleles of the same length as one: with IUPAC's letters, or N where they differ.
func (c *Consensus) ambiguous(alleles []string) []byte {
	letters := []byte(strings.Repeat("N", len(alleles[0])))
	for i := range letters {
		if l := letter(alleles, i); c.cfg.Ambiguous == IUPAC || strings.IndexByte("ACGT", l) >= 0 {
			letters[i] = l
		}
	}
	return letters
}

func isAlternate(allele int) bool { return allele > 0 }

// anchored is a span that becomes N: of an insertion, which has no base of the reference, the base before it or, at
// the contig's beginning, behind it.
func (at *contig) anchored(s span) span {
	switch {
	case s.start < s.end:
		return s
	case s.start > 0:
		return span{s.start - 1, s.end}
	}
	return span{0, min(1, len(at.ref.Seq))}
}

// alleles are the alleles of a genotype, each once and ascending, without those that another record deletes or that are
// no bases.
func alleles(rec *vcf.Record, genotype vcf.Genotype) []int {
	var out []int
	for _, a := range genotype {
		if a.Number == vcf.MissingAllele || a.Number > 0 && !concrete(rec.Alt[a.Number-1]) {
			continue
		}
		out = append(out, a.Number)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// counted are the alleles that enough reads show, those that most show first; all of them where no reads are
// given.
func (c *Consensus) counted(rec *vcf.Record, sample int, alleles []int) ([]int, error) {
	text := field(rec, sample, "AD")
	if text == "" || text == "." {
		return alleles, nil
	}
	reads, sum := make(map[int]int), 0
	depths := strings.Split(text, ",")
	for _, a := range alleles {
		if a >= len(depths) {
			return nil, fmt.Errorf("AD=%s has no number for allele %d", text, a)
		}
		n, err := strconv.Atoi(depths[a])
		if err != nil || n < 0 {
			return nil, fmt.Errorf("AD=%s is no list of numbers of reads", text)
		}
		reads[a] = n
		sum += n
	}
	slices.SortStableFunc(alleles, func(a, b int) int { return cmp.Compare(reads[b], reads[a]) })
	for i := 1; i < len(alleles); i++ {
		if float64(reads[alleles[i]]) < c.cfg.MinFraction*float64(sum) {
			return alleles[:i], nil
		}
	}
	return alleles, nil
}

// Sequence is the consensus of a contig of the reference, in capitals.
func (c *Consensus) Sequence(name string) ([]byte, Counts, error) {
	at, err := c.at(name, 0, 0)
	if err != nil {
		return nil, Counts{}, err
	}
	seq, counts := at.sequence()
	return seq, counts, nil
}

func (at *contig) sequence() ([]byte, Counts) {
	counts := at.seen
	slices.SortStableFunc(at.known, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	slices.SortStableFunc(at.edits, func(a, b edit) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end)) })
	bases := at.masked()
	out := make([]byte, 0, len(bases))
	from := 0 // what is before it is written
	for i := 0; i < len(at.edits); i++ {
		e := at.edits[i]
		// Edits that overlap contradict each other, unless they are the same.
		for i+1 < len(at.edits) && overlap(e.span, at.edits[i+1].span) {
			i++
			next := at.edits[i]
			if next.span == e.span && string(next.bases) == string(e.bases) && next.uncertain == e.uncertain {
				continue
			}
			counts.Conflicts++
			e = edit{span: at.anchored(span{min(e.start, next.start), max(e.end, next.end)}), uncertain: true}
		}
		if e.uncertain && e.start < from && e.end <= from { // its anchor is written already
			out[len(out)-1] = 'N'
		}
		e.start, e.end = max(e.start, from), max(e.end, from)
		out = append(out, bases[from:e.start]...)
		if e.uncertain {
			for range e.end - e.start {
				out = append(out, 'N')
			}
		} else {
			out = append(out, e.bases...)
		}
		from = e.end
	}
	out = append(out, bases[from:]...)
	counts.Bases = len(out)
	for _, b := range out {
		if b == 'N' {
			counts.Unknown++
		}
	}
	return out, counts
}

// masked is the reference in capitals, N where nothing is known.
func (at *contig) masked() []byte {
	out := make([]byte, len(at.ref.Seq))
	for i := range out {
		out[i] = 'N'
	}
	for _, k := range at.known {
		for i := k.start; i < k.end; i++ {
			out[i] = at.ref.Seq[i] &^ 0x20
		}
	}
	return out
}

// overlap reports whether two edits, the second not before the first, change the same place. Two insertions at one place do.
func overlap(a, b span) bool { return b.start < a.end || a == b }

// trim takes bases off that both share at their ends, those in front first, so that what changes stays within the
// record as it is written, and returns the span that changes, which begins at start, and what takes its place.
func trim(start int, ref, alt string) (span, []byte) {
	for len(ref) > 0 && len(alt) > 0 && ref[0]&^0x20 == alt[0]&^0x20 {
		ref, alt, start = ref[1:], alt[1:], start+1
	}
	for len(ref) > 0 && len(alt) > 0 && ref[len(ref)-1]&^0x20 == alt[len(alt)-1]&^0x20 {
		ref, alt = ref[:len(ref)-1], alt[:len(alt)-1]
	}
	return span{start, start + len(ref)}, []byte(strings.ToUpper(alt))
}

// letters are those for sets of bases, by the sum of 1 for A, 2 for C, 4 for G and 8 for T (IUPAC-IUB, 1984).
const letters = "NACMGRSVTWYHKDBN"

// letter is the letter for what alleles of one length have at a place.
func letter(alleles []string, i int) byte {
	set := 0
	for _, a := range alleles {
		set |= max(0, strings.IndexByte(letters, a[i]&^0x20))
	}
	return letters[set]
}

// concrete reports whether an allele is bases: neither symbolic, nor a breakend, nor deleted by another record.
func concrete(allele string) bool {
	return allele != "" && strings.Trim(allele, "ACGTNRYSWKMBDHVacgtnryswkmbdhv") == ""
}

func same(ref []byte, written string) bool { return strings.EqualFold(string(ref), written) }

// field is a value of a sample; empty if it has none.
func field(rec *vcf.Record, sample int, key string) string {
	i := slices.Index(rec.Format, key)
	if i < 0 || i >= len(rec.Samples[sample]) {
		return ""
	}
	return rec.Samples[sample][i]
}
