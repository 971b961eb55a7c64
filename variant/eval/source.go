package eval

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/textfile"
	"github.com/porestream/porestream/vcf"
	"github.com/porestream/porestream/vrs"
)

// Records gives the records of a file in their order; [*vcf.Reader] does.
type Records interface {
	Header() *vcf.Header
	// Next is the next record; io.EOF ends them.
	Next() (*vcf.Record, error)
}

// Set is one side of the comparison.
type Set struct {
	Name    string // for errors: the file
	Records Records
	// Sample is the sample to take; "" if there is only one. A set without samples has no genotypes: alleles alone are
	// compared.
	Sample string
}

// Skipped counts what of a set is not compared.
type Skipped struct {
	Filtered  int `json:"filtered"`  // records that failed a filter
	Reference int `json:"reference"` // records without a variant: 0/0, or no ALT but <*>
	NoCall    int `json:"no_call"`   // records without a genotype
	Symbolic  int `json:"symbolic"`  // alleles such as <DEL>, and breakends
	Long      int `json:"long"`      // alleles longer than Options.MaxLength
}

// source reads one side.
type source struct {
	side    side
	set     Set
	opts    *Options
	genome  *genome.Genome
	column  int // of the sample; -1: none
	skipped Skipped

	ahead   *vcf.Record // read and not taken yet; nil at the end
	rank    int         // of its contig
	atoms   []*atom     // of the current contig, in playing order, not taken yet
	groups  map[string]int
	serial  int      // numbers linkage groups
	events  []*event // of the current contig, not counted yet, by record
	stretch int      // the farthest that one of the contig can be moved to the right
}

func newSource(sd side, set Set, g *genome.Genome, opts *Options) (*source, error) {
	s := &source{side: sd, set: set, opts: opts, genome: g, column: -1}
	samples := set.Records.Header().Samples
	switch {
	case set.Sample != "":
		if s.column = slices.Index(samples, set.Sample); s.column < 0 {
			return nil, &SampleError{Set: set.Name, Sample: set.Sample, Samples: samples}
		}
	case len(samples) == 1:
		s.column = 0
	case len(samples) > 1:
		return nil, &SampleError{Set: set.Name, Samples: samples}
	}
	return s, s.read()
}

// SampleError says that a set's sample has to be named, or is not there.
type SampleError struct {
	Set     string
	Sample  string // asked for; "": none was
	Samples []string
}

func (e *SampleError) Error() string {
	if e.Sample == "" {
		return fmt.Sprintf("%s: there are %d samples, %s: choose one", e.Set, len(e.Samples), list(e.Samples))
	}
	return fmt.Sprintf("%s: no sample %s; there are %s", e.Set, e.Sample, list(e.Samples))
}

// list lists names, at most a handful.
func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	if len(names) > 5 {
		return strings.Join(names[:5], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// fault is an error at the record that was read last.
func (s *source) fault(rec *vcf.Record, format string, args ...any) error {
	if rec.Line() == 0 {
		return fmt.Errorf("%s: %w", s.set.Name, fmt.Errorf(format, args...))
	}
	return fmt.Errorf("%s: line %d: %w", s.set.Name, rec.Line(), fmt.Errorf(format, args...))
}

// read reads the next record and checks its place.
func (s *source) read() error {
	rec, err := s.set.Records.Next()
	switch {
	case err == io.EOF: //nolint:errorlint // Records say their end so; a fault may have io.EOF inside
		s.ahead, s.rank = nil, len(s.genome.Contigs)
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", s.set.Name, err)
	}
	rank := s.genome.Rank(rec.Chrom)
	if rank == len(s.genome.Contigs) {
		return s.fault(rec, "the reference has no contig %s: is it another reference?", rec.Chrom)
	}
	if s.ahead != nil {
		switch {
		case rank < s.rank:
			return s.fault(rec, "%s comes after %s, unlike in the reference: sort the file in the reference's order of contigs", rec.Chrom, s.ahead.Chrom)
		case rank == s.rank && rec.Pos < s.ahead.Pos:
			return s.fault(rec, "%s:%d comes after %s:%d: sort the file (bcftools sort)", rec.Chrom, rec.Pos, s.ahead.Chrom, s.ahead.Pos)
		}
	}
	seq := s.genome.Contigs[rank].Seq
	if rec.Pos < 1 || rec.Pos-1+len(rec.Ref) > len(seq) {
		return s.fault(rec, "%s:%d with %d bases lies outside of the contig, which has %d: is it another reference?", rec.Chrom, rec.Pos, len(rec.Ref), len(seq))
	}
	for i := range len(rec.Ref) {
		if have, want := upper(rec.Ref[i]), seq[rec.Pos-1+i]; have != want && isBase(want) && have != 'N' {
			return s.fault(rec, "%s:%d has REF %s, the reference %s: is it another reference?", rec.Chrom, rec.Pos, clip(rec.Ref), clip(string(seq[rec.Pos-1:rec.Pos-1+len(rec.Ref)])))
		}
	}
	s.ahead, s.rank = rec, rank
	return nil
}

func upper(b byte) byte {
	if 'a' <= b && b <= 'z' {
		return b - 'a' + 'A'
	}
	return b
}

func isBase(b byte) bool { return b == 'A' || b == 'C' || b == 'G' || b == 'T' }

// clip shortens what goes into an error.
func clip(s string) string { return textfile.Clip(s, 24) }

// begin begins a contig.
func (s *source) begin() { s.groups, s.stretch = make(map[string]int), 0 }

// first makes sure that the first atom of the contig of that rank is at hand, if there is one more, and returns it.
func (s *source) first(rank int) (*atom, error) {
	for len(s.atoms) == 0 && s.rank == rank {
		if err := s.take(); err != nil {
			return nil, err
		}
	}
	if len(s.atoms) == 0 {
		return nil, nil
	}
	return s.atoms[0], nil
}

// fill makes sure that all atoms that begin at or before until are at hand.
func (s *source) fill(rank, until int) error {
	for s.rank == rank && s.ahead.Pos-1 <= until {
		if err := s.take(); err != nil {
			return err
		}
	}
	return nil
}

// take turns the record ahead into atoms and reads the next one.
func (s *source) take() error {
	c, err := s.call(s.ahead)
	if err != nil {
		return err
	}
	if c != nil {
		for _, v := range c.events {
			for _, w := range slices.Backward(s.events) {
				if v.start > w.edit.end+s.stretch+farthest {
					break // nor is any before it near
				}
				d := v.distance(w)
				v.nearest, w.nearest = min(v.nearest, d), min(w.nearest, d)
			}
			s.events = append(s.events, v)
			s.stretch = max(s.stretch, v.end-v.edit.end)
		}
		for _, a := range c.atoms {
			// A record's atoms can lie behind the beginning of the next record; mostly this appends.
			i := len(s.atoms)
			for i > 0 && a.compare(s.atoms[i-1]) < 0 {
				i--
			}
			s.atoms = slices.Insert(s.atoms, i, a)
		}
	}
	return s.read()
}

// call is what of a record is compared, or nil if nothing is.
func (s *source) call(rec *vcf.Record) (*call, error) {
	if !s.opts.All && len(rec.Filter) > 0 && (len(rec.Filter) > 1 || rec.Filter[0] != "PASS") {
		s.skipped.Filtered++
		return nil, nil
	}
	alleles, phased, err := s.genotype(rec)
	if err != nil {
		return nil, err
	}
	if alleles == nil {
		s.skipped.NoCall++
		return nil, nil
	}
	c := &call{record: rec, side: s.side, depth: s.depth(rec), score: s.score(rec)}
	ref := strings.ToUpper(rec.Ref)
	seq := s.genome.Contigs[s.rank].Seq
	ploidy := len(alleles)
	if s.column < 0 {
		ploidy = 0
	}
	if ploidy == 1 && s.opts.OnePloidy {
		alleles = []int{alleles[0], alleles[0]}
		ploidy = 2
	}
	symbolic, long := false, false
	for h, number := range alleles {
		again := slices.Contains(alleles[:h], number)
		if number == 0 {
			continue
		}
		alt := strings.ToUpper(rec.Alt[number-1])
		switch {
		case alt == "*" || alt == "<*>" || alt == "<NON_REF>":
			continue // said by another record, or not said
		case strings.Trim(alt, "ACGTN") != "":
			symbolic = true
			continue
		case max(len(alt), len(ref)) > s.opts.MaxLength+1:
			long = true
			continue
		}
		var atoms []*atom
		for _, e := range decompose(rec.Pos-1, ref, alt) {
			atoms = append(atoms, c.add(e, 1<<min(h, 1), uint8(ploidy), seq))
		}
		if !again && len(atoms) > 0 {
			whole := vrs.Edit{Start: rec.Pos - 1, Ref: ref, Alt: alt}.Trim()
			c.events = append(c.events, newEvent(s.side, edit{whole.Start, whole.End(), whole.Alt}, atoms))
		}
	}
	switch {
	case symbolic:
		s.skipped.Symbolic++
	case long:
		s.skipped.Long++
	}
	if len(c.atoms) == 0 {
		if !symbolic && !long {
			s.skipped.Reference++
		}
		return nil, nil
	}
	s.link(rec, c, phased)
	return c, nil
}

// add adds an atom, or the haplotype to the atom that is there already, and returns it.
func (c *call) add(e edit, haplotype, ploidy uint8, seq []byte) *atom {
	for _, a := range c.atoms {
		if a.start == e.start && a.end == e.end && a.alt == e.alt {
			a.haplotypes |= haplotype
			return a
		}
	}
	a := &atom{start: e.start, end: e.end, alt: e.alt, haplotypes: haplotype, ploidy: ploidy, call: c, kind: Indel}
	if e.end == e.start+1 && len(e.alt) == 1 {
		a.kind = SNP
	}
	a.from, a.to = e.extent(seq)
	c.atoms = append(c.atoms, a)
	return a
}

// settled takes the first event off that nothing to come can change: it has its verdict, and the next record
// is too far away to be a neighbour, also if it is an indel that can be moved towards it by a whole allele's
// length. nil: there is none yet.
func (s *source) settled(rank int) *event {
	if len(s.events) == 0 {
		return nil
	}
	v := s.events[0]
	if s.rank == rank && s.ahead.Pos-1 <= v.end+farthest+s.opts.MaxLength || !v.decided() {
		return nil
	}
	s.events = s.events[1:]
	return v
}

// link gives the atoms their linkage group: the phase set, or the record.
func (s *source) link(rec *vcf.Record, c *call, phased bool) {
	s.serial++
	group := s.serial
	if phased && !s.opts.IgnorePhase {
		set := s.value(rec, "PS")
		if set == "" {
			set = "." // all genotypes of the contig that are phased without a set are one
		}
		if known, ok := s.groups[set]; ok {
			group = known
		} else {
			s.groups[set] = group
		}
	}
	for _, a := range c.atoms {
		a.group, a.phased = group, phased
	}
}

// value is a FORMAT value of the sample, "" when it is missing.
func (s *source) value(rec *vcf.Record, key string) string {
	if s.column < 0 || s.column >= len(rec.Samples) {
		return ""
	}
	i := slices.Index(rec.Format, key)
	if i < 0 || i >= len(rec.Samples[s.column]) || rec.Samples[s.column][i] == "." {
		return ""
	}
	return rec.Samples[s.column][i]
}

// genotype returns the number of each haplotype's allele, a missing one as the reference; nil if all are missing. Without
// samples each alternate allele is on a haplotype of its own.
func (s *source) genotype(rec *vcf.Record) (alleles []int, phased bool, err error) {
	if s.column < 0 {
		for i := range rec.Alt {
			alleles = append(alleles, i+1)
		}
		if len(alleles) == 0 {
			alleles = []int{0}
		}
		return alleles, false, nil
	}
	text := s.value(rec, "GT")
	if text == "" {
		return nil, false, nil
	}
	called, err := vcf.ParseGenotype(text, len(rec.Alt))
	if err != nil {
		return nil, false, s.fault(rec, "genotype %s with %d alternate alleles", clip(text), len(rec.Alt))
	}
	if called.Missing() {
		return nil, false, nil
	}
	if len(called) > 2 {
		return nil, false, s.fault(rec, "genotype %s has %d haplotypes: one and two can be compared", clip(text), len(called))
	}
	for _, a := range called {
		alleles = append(alleles, max(0, a.Number))
	}
	return alleles, len(called) > 1 && called.Ordered(), nil
}

// depth is the number of reads at the record, or -1.
func (s *source) depth(rec *vcf.Record) int {
	text := s.value(rec, "DP")
	if text == "" {
		text, _ = rec.Info.Get("DP")
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

// score is what the ROC goes by.
func (s *source) score(rec *vcf.Record) float64 {
	if s.opts.Score == GQ {
		v, err := strconv.ParseFloat(s.value(rec, "GQ"), 64)
		if err != nil {
			return math.NaN()
		}
		return v
	}
	return rec.Qual
}
