package variant

import "fmt"

// Ploidy is how many copies of a contig each cell or molecule mix of a sample has.
type Ploidy int

const (
	// Haploid: one copy, as in bacteria and phages; the default.
	Haploid Ploidy = 1
	// Diploid: two copies; sites may be heterozygous.
	Diploid Ploidy = 2
	// Mixture: molecules of several genomes in any proportion, as in
	// mitochondria and amplicon pools; alleles have fractions.
	Mixture Ploidy = -1
)

// ParsePloidy reads what String writes: 1, 2 or mixture.
func ParsePloidy(s string) (Ploidy, error) {
	for _, p := range []Ploidy{Haploid, Diploid, Mixture} {
		if s == p.String() {
			return p, nil
		}
	}
	return 0, fmt.Errorf("ploidy %q: want 1, 2 or mixture", s)
}

func (p Ploidy) String() string {
	if p == Mixture {
		return "mixture"
	}
	return fmt.Sprint(int(p))
}

// known reports whether p is one of the above.
func (p Ploidy) known() bool { return p == Haploid || p == Diploid || p == Mixture }
