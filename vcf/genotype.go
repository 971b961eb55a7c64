package vcf

import (
	"errors"
	"fmt"
	"math"
	"strconv"
)

// MissingAllele is the number of an allele that is not known (".").
const MissingAllele = -1

// ErrGenotype is what ParseGenotype's errors wrap.
var ErrGenotype = errors.New("is no genotype of the record")

// CalledAllele is one allele of a genotype.
type CalledAllele struct {
	Number int // 0 is REF, i is ALT[i-1]; MissingAllele
	// Phased says that the allele is on the haplotype of that place in the genotype, the same one as other phased
	// alleles of its phase set.
	Phased bool
}

// Genotype is a value of FORMAT/GT: an allele for each copy of the place that the sample has.
type Genotype []CalledAllele

// ParseGenotype parses a value of GT of a record with so many alternate alleles, as VCF 4.4 and 4.5 define it in
// section 1.6.2: allele numbers or "." separated by "|" (phased) and "/" (not). Each separator applies to the allele
// behind it; there may be one more in front of the first allele. Without that one the first allele is phased unless
// another allele has a "/". Values of earlier versions mean the same. An error wraps ErrGenotype.
func ParseGenotype(text string, alternates int) (Genotype, error) {
	return AppendGenotype(nil, text, alternates)
}

// AppendGenotype is ParseGenotype that appends the alleles to g.
func AppendGenotype[S []byte | string](g Genotype, text S, alternates int) (Genotype, error) {
	begun, rest := len(g), text
	first := byte(0) // phase of the first allele, 0 if nothing says it
	if len(rest) > 0 && isPhase(rest[0]) {
		first, rest = rest[0], rest[1:]
	}
	phase, unphased := first, false
	for {
		number, n := alleleNumber(rest, alternates)
		if n == 0 {
			return g[:begun], fmt.Errorf("GT %q %w", clip(string(text)), ErrGenotype)
		}
		g = append(g, CalledAllele{Number: number, Phased: phase == '|'})
		if rest = rest[n:]; len(rest) == 0 {
			break
		}
		if phase = rest[0]; !isPhase(phase) {
			return g[:begun], fmt.Errorf("GT %q %w", clip(string(text)), ErrGenotype)
		}
		unphased = unphased || phase == '/'
		rest = rest[1:]
	}
	if first == 0 {
		g[begun].Phased = !unphased
	}
	return g, nil
}

func isPhase(c byte) bool { return c == '/' || c == '|' }

// alleleNumber reads the allele that s begins with and returns the length of its text, 0 if there is none.
func alleleNumber[S []byte | string](s S, alternates int) (number, length int) {
	if len(s) > 0 && s[0] == '.' {
		return MissingAllele, 1
	}
	i := 0
	for ; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
		if number = 10*number + int(s[i]-'0'); number > alternates || number > math.MaxInt32 {
			return 0, 0
		}
	}
	return number, i
}

// Ordered says whether the haplotype of each allele is known: no more than one of them is not phased, so that it has
// the place that the others leave.
func (g Genotype) Ordered() bool {
	unphased := 0
	for _, a := range g {
		if !a.Phased {
			unphased++
		}
	}
	return unphased <= 1
}

// Missing says whether no allele is known.
func (g Genotype) Missing() bool {
	for _, a := range g {
		if a.Number != MissingAllele {
			return false
		}
	}
	return true
}

// String is the genotype as GT has it, with a sign in front of the first allele only where it says something: "0|1",
// "/0|1".
func (g Genotype) String() string {
	if len(g) == 0 {
		return "."
	}
	unphased := false
	for _, a := range g[1:] {
		unphased = unphased || !a.Phased
	}
	var b []byte
	for i, a := range g {
		if i > 0 || a.Phased == unphased {
			if a.Phased {
				b = append(b, '|')
			} else {
				b = append(b, '/')
			}
		}
		if a.Number == MissingAllele {
			b = append(b, '.')
		} else {
			b = strconv.AppendInt(b, int64(a.Number), 10)
		}
	}
	return string(b)
}
