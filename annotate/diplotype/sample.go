package diplotype

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/vcf"
)

// Least is the evidence below which a record of a sample counts as if it had failed a filter. Values that a record lacks aren't required.
type Least struct {
	Depth   int // of MIN_DP, else of DP
	Quality int // of GQ, else of RGQ
}

// DefaultLeast is what is asked for unless somebody says otherwise.
func DefaultLeast() Least { return Least{Depth: 10, Quality: 10} }

// Sample collects a VCF's genotypes of one sample at a gene's positions, in any order. Positions without a record, or with only one that has failed a filter
// or has too little evidence, aren't known.
type Sample struct {
	// Combinations has copies named by combinations of alleles where no pair of alleles explains the calls. Genes whose alleles are single changes have them always.
	Combinations bool

	definitions *Definitions
	least       Least
	said        [][]Genotype // of each position what records say, each once
	doubted     []bool       // a record without sufficient evidence speaks of the position: another's block doesn't make it the reference
}

// NewSample returns a sample without any known position.
func NewSample(d *Definitions, least Least) *Sample {
	return &Sample{definitions: d, least: least, said: make([][]Genotype, len(d.Positions)), doubted: make([]bool, len(d.Positions))}
}

// Add takes a record in, also one of a gVCF that says that a stretch is as the reference. column is the sample's, from 0. An error is one of the record, or says
// that it is of another genome than the definitions.
func (s *Sample) Add(r *vcf.Record, column int) error {
	if r.Chrom != s.definitions.Contig || column >= len(r.Samples) {
		return nil
	}
	var stated *statement
	reach := endOf(r)
	for i, p := range s.definitions.Positions {
		if err := s.definitions.sameReference(r, p); err != nil {
			return err
		}
		if p.Pos < r.Pos || stated != nil && p.Pos > stated.end || stated == nil && p.Pos > reach {
			continue
		}
		if stated == nil {
			t, err := s.read(r, column)
			if err != nil {
				return fmt.Errorf("%s:%d: %w", r.Chrom, r.Pos, err)
			}
			if stated = &t; p.Pos > t.end {
				continue
			}
		}
		switch g := stated.at(r, p); {
		case stated.weak:
			s.doubted[i] = true
		case g.Bases != nil && !slices.ContainsFunc(s.said[i], g.same):
			s.said[i] = append(s.said[i], g)
		}
	}
	return nil
}

// sameReference says where a record's REF isn't what the definitions have.
func (d *Definitions) sameReference(r *vcf.Record, p Position) error {
	for at := max(p.Pos, r.Pos); at < min(p.Pos+len(p.Ref), r.Pos+len(r.Ref)); at++ {
		has, want := strings.ToUpper(r.Ref[at-r.Pos:][:1]), p.Ref[at-p.Pos:][:1]
		if has != want && has != "N" {
			return fmt.Errorf("%s:%d: REF has %s, and the definitions of %s have %s: calls on another genome? Call against %s", r.Chrom, at, has, d.Gene, want, d.build())
		}
	}
	return nil
}

// statement is what a record says of a sample.
type statement struct {
	genotype vcf.Genotype
	phase    string // as Genotype's
	end      int    // the last position that it speaks of
	weak     bool   // failed a filter, has too little evidence or no allele
	changed  bool   // an allele isn't the reference's
}

// read is what a record says of a sample.
func (s *Sample) read(r *vcf.Record, column int) (statement, error) {
	value := func(keys ...string) string {
		for _, key := range keys {
			if k := slices.Index(r.Format, key); k >= 0 && k < len(r.Samples[column]) && r.Samples[column][k] != "." {
				return r.Samples[column][k]
			}
		}
		return ""
	}
	below := func(least int, keys ...string) bool {
		n, err := strconv.ParseFloat(value(keys...), 64)
		return err == nil && n < float64(least)
	}
	t := statement{end: r.Pos + len(r.Ref) - 1}
	text := value("GT")
	if text == "" {
		text = "."
	}
	var err error
	if t.genotype, err = vcf.ParseGenotype(text, len(r.Alt)); err != nil {
		return t, err
	}
	if t.genotype.Ordered() && len(t.genotype) > 1 {
		t.phase = "|" + value("PS")
	}
	structural := false
	for _, a := range t.genotype {
		t.changed = t.changed || a.Number > 0
		structural = structural || a.Number > 0 && isSymbolic(r.Alt[a.Number-1])
	}
	t.weak = t.genotype.Missing() || !passed(r.Filter) || !passed(strings.Split(value("FT"), ";")) ||
		below(s.least.Depth, "MIN_DP", "DP") || below(s.least.Quality, "GQ", "RGQ")
	switch {
	case isBlock(r) || structural && !t.weak:
		t.end = endOf(r)
	case !t.changed && !slices.ContainsFunc(r.Alt, isBases):
		t.end = r.Pos - 1 // that there is no structural variant says nothing of the bases
	}
	return t, nil
}

// passed reports whether filters are none that failed.
func passed(filters []string) bool {
	return !slices.ContainsFunc(filters, func(f string) bool { return f != "" && f != "." && f != "PASS" })
}

// isBlock reports whether a record is one of a gVCF for a stretch without a variant.
func isBlock(r *vcf.Record) bool {
	return !slices.ContainsFunc(r.Alt, func(alt string) bool { return alt != "<*>" && alt != "<NON_REF>" })
}

// isSymbolic reports whether an allele is named or a breakend, so that its bases aren't given.
func isSymbolic(alt string) bool { return strings.ContainsAny(alt, "<[]") }

func isBases(alt string) bool { return !isSymbolic(alt) }

// endOf is the last position of a record, with END if there is one.
func endOf(r *vcf.Record) int {
	end := r.Pos + len(r.Ref) - 1
	if text, ok := r.Info.Get("END"); ok {
		if n, err := strconv.Atoi(text); err == nil {
			end = max(end, n)
		}
	}
	return end
}

// at is what the statement says of a position; without bases if it says nothing of it.
func (t *statement) at(r *vcf.Record, p Position) Genotype {
	if !t.changed && t.end < p.Pos+len(p.Ref)-1 || t.genotype.Missing() {
		return Genotype{} // it doesn't reach to the end of what the position is about
	}
	g := Genotype{Phase: t.phase}
	for _, a := range t.genotype {
		switch {
		case a.Number == vcf.MissingAllele:
			g.Bases = append(g.Bases, "")
		case !t.changed:
			g.Bases = append(g.Bases, p.Ref)
		case a.Number == 0:
			g.Bases = append(g.Bases, respell(r, r.Ref, p))
		default:
			g.Bases = append(g.Bases, respell(r, r.Alt[a.Number-1], p))
		}
	}
	return g
}

// respell is an allele of a record in a position's spelling; in a form that no definition has, if there is none.
func respell(r *vcf.Record, bases string, p Position) string {
	ref := strings.ToUpper(r.Ref)
	if isSymbolic(bases) {
		return bases + " at " + strconv.Itoa(r.Pos)
	}
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

// Call names the alleles.
func (s *Sample) Call() Call {
	known := make([]Genotype, len(s.said))
	var contradicted []Position
	for i, p := range s.definitions.Positions {
		g, ok := agreed(s.said[i], p.Ref)
		switch {
		case !ok:
			contradicted = append(contradicted, p)
		case s.doubted[i] && g.isOnly(p.Ref):
		default:
			known[i] = g
		}
	}
	c := s.definitions.Call(known)
	switch {
	case len(contradicted) > 0 || c.Refused != "" || c.nothing:
	case len(c.Pairs) == 0 && (s.Combinations || s.definitions.listed() && len(c.Unknown) == 0):
		s.definitions.combine(known, &c)
	case len(c.Pairs) > 0 && s.definitions.listed():
		s.definitions.alsoCombined(known, &c)
	}
	if len(contradicted) > 0 {
		p := contradicted[0]
		c.Pairs, c.Also = nil, nil
		c.Refused = fmt.Sprintf("records contradict each other at %s:%d: leave one of them out", s.definitions.Contig, p.Pos)
	}
	return c
}
