package event

import (
	"fmt"
	"strconv"
	"strings"
)

// Text is the revision on one line for people: status, place, evidence and what
// it does to the most affected gene.
func (v Variant) Text() string {
	filter := "PASS"
	if len(v.Call.Filters) > 0 {
		filter = strings.Join(v.Call.Filters, ";")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-11s %s:%d %s>%s  %sQUAL %.1f  %d/%d reads  %s",
		v.Status, v.Allele.Contig, v.Allele.Pos, v.Allele.Ref, v.Allele.Alt, v.Call.genotypeText(),
		v.Call.Qual, v.Call.AltForward+v.Call.AltReverse, v.Call.Depth, filter)
	if s := v.Annotation.MostSevere; s.Term != "" {
		fmt.Fprintf(&b, "  %s", s.Term)
		if s.Gene != "" {
			fmt.Fprintf(&b, " %s", s.Gene)
		}
		if p := v.ProteinChange(); p != "" {
			fmt.Fprintf(&b, " %s", p)
		}
	}
	if v.Reason != "" {
		fmt.Fprintf(&b, "  (%s)", v.Reason)
	}
	fmt.Fprintf(&b, "  rev %d", v.Revision)
	return b.String()
}

// genotypeText is the genotype as VCF writes it, with two blanks behind it; empty for
// a single haplotype, which is all that some samples have.
func (c Call) genotypeText() string {
	if len(c.Genotype) < 2 {
		return ""
	}
	separator := "/"
	if c.PhaseSet != 0 {
		separator = "|"
	}
	numbers := make([]string, len(c.Genotype))
	for i, n := range c.Genotype {
		numbers[i] = strconv.FormatUint(uint64(n), 10)
	}
	return strings.Join(numbers, separator) + "  "
}

// ProteinChange is the HGVS description of what happens to the protein of the
// most affected transcript, without the accession; empty when nothing does.
func (v Variant) ProteinChange() string {
	s := v.Annotation.MostSevere
	for _, c := range v.Annotation.Consequences {
		if c.Feature != nil && c.Feature.ID == s.Transcript {
			_, p, _ := strings.Cut(c.HGVSp, ":")
			return p
		}
	}
	return ""
}
