package diplotype

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/vcf"
)

// Sample collects what a VCF says of one sample at a gene's positions. Positions of which no record speaks, or only one that has failed a filter, aren't known.
type Sample struct {
	definitions *Definitions
	genotypes   []Genotype
	torn        []bool // two records say that there is something else
}

// NewSample is a sample of which nothing is known.
func NewSample(d *Definitions) *Sample {
	return &Sample{d, make([]Genotype, len(d.Positions)), make([]bool, len(d.Positions))}
}

// Add takes a record in, also one of a gVCF that says that a stretch is as the reference. column is the sample's, from 0. An error is one of the record.
func (s *Sample) Add(r *vcf.Record, column int) error {
	if r.Chrom != s.definitions.Contig || len(r.Filter) > 0 && !slices.Equal(r.Filter, []string{"PASS"}) || column >= len(r.Samples) {
		return nil
	}
	end := r.Pos + len(r.Ref) - 1
	if text, ok := r.Info.Get("END"); ok {
		if n, err := strconv.Atoi(text); err == nil {
			end = max(end, n)
		}
	}
	for i, p := range s.definitions.Positions {
		if p.Pos < r.Pos || p.Pos > end {
			continue
		}
		g, err := genotypeOf(r, column, p, end)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", r.Chrom, r.Pos, err)
		}
		if g.Bases != nil {
			s.enter(i, g)
		}
	}
	return nil
}

// enter takes what a record says of a position in. What differs from the reference says more than that there is no difference.
func (s *Sample) enter(i int, g Genotype) {
	plain := func(g Genotype) bool {
		return !slices.ContainsFunc(g.Bases, func(b string) bool { return b != s.definitions.Positions[i].Ref })
	}
	old := s.genotypes[i]
	switch {
	case old.Bases == nil || plain(old):
		s.genotypes[i] = g
	case !plain(g):
		s.torn[i] = true
	}
}

// Call names the alleles.
func (s *Sample) Call() (Call, error) {
	known := slices.Clone(s.genotypes)
	for i, torn := range s.torn {
		if torn {
			known[i] = Genotype{}
		}
	}
	return s.definitions.Call(known)
}

// genotypeOf is what a record that reaches to end says of a position; without bases if it says nothing of it.
func genotypeOf(r *vcf.Record, column int, p Position, end int) (Genotype, error) {
	value := func(key string) string {
		if k := slices.Index(r.Format, key); k >= 0 && k < len(r.Samples[column]) {
			return r.Samples[column][k]
		}
		return ""
	}
	text := value("GT")
	words := strings.FieldsFunc(text, func(c rune) bool { return c == '/' || c == '|' })
	g := Genotype{}
	if strings.Contains(text, "|") {
		g.Phase = "|" + strings.Trim(value("PS"), ".")
	}
	changed := false
	var numbers []int
	for _, w := range words {
		if w == "." {
			return Genotype{}, nil
		}
		n, err := strconv.Atoi(w)
		if err != nil || n < 0 || n > len(r.Alt) {
			return Genotype{}, fmt.Errorf("the genotype %q names an allele that the record doesn't have", text)
		}
		numbers = append(numbers, n)
		changed = changed || n > 0
	}
	switch {
	case len(numbers) == 0:
		return Genotype{}, nil
	case !changed:
		if end < p.Pos+len(p.Ref)-1 {
			return Genotype{}, nil // it doesn't reach to the end of what the position is about
		}
		for range numbers {
			g.Bases = append(g.Bases, p.Ref)
		}
		return g, nil
	}
	for _, n := range numbers {
		bases := r.Ref
		if n > 0 {
			bases = r.Alt[n-1]
		}
		g.Bases = append(g.Bases, respell(r, bases, p))
	}
	return g, nil
}

// respell is an allele of a record in a position's spelling; in a form that no definition has, if there is none.
func respell(r *vcf.Record, bases string, p Position) string {
	ref := strings.ToUpper(r.Ref)
	bases = strings.ToUpper(bases)
	// A record of replaced bases: what it makes of those of the position.
	if skip := p.Pos - r.Pos; len(ref) == len(bases) && skip+len(p.Ref) <= len(ref) {
		return bases[skip : skip+len(p.Ref)]
	}
	if r.Pos < p.Pos {
		return bases + " at " + strconv.Itoa(r.Pos)
	}
	switch {
	case strings.HasPrefix(p.Ref, ref):
		return bases + p.Ref[len(ref):]
	case strings.HasPrefix(ref, p.Ref) && strings.HasSuffix(bases, ref[len(p.Ref):]):
		return bases[:len(bases)-len(ref)+len(p.Ref)]
	}
	return bases + " for " + ref
}
