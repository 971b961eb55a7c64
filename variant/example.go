package variant

// The shape of an example: what a [Network] is told of one allele, version
// [ExampleVersion]. Planes come first, row-major: plane p has column c at
// p*ExampleColumns+c. Scalars follow.
const (
	ExampleVersion = 1
	ExampleColumns = 41
	ExamplePlanes  = 48
	ExampleScalars = 80
	ExampleSize    = ExamplePlanes*ExampleColumns + ExampleScalars
)

// Scalars by their index among the scalars. What an example is about, by which
// networks are calibrated, comes first.
const (
	ScalarPloidy = 0 // one of three is 1: haploid, diploid, mixture
	ScalarType   = 3 // one of three is 1: substitution, insertion, deletion
)

// The heads of a network's answer: natural logarithms of calibrated probabilities.
const (
	// ScoreCopies is where P(0, 1, 2 copies of the allele) start. A haploid sample
	// has 0 or 2; in a mixture 1 means present in a part of the molecules.
	ScoreCopies = 0
	// ScoreZygosity is where P(reference only, two different alleles, one and the
	// same other allele) of the site start.
	ScoreZygosity = 3
	// ScoreLength is where P(change of length of the haplotype that the allele's
	// reads come from), from -16 to 16 bases, start.
	ScoreLength = 6
	// Scores is the number of values of an answer.
	Scores = 39
)

// Network judges alleles.
type Network interface {
	// Judge appends to dst Scores values for each example; examples has
	// ExampleSize values for each. The scores of an example depend on that example
	// alone, bit for bit.
	Judge(dst, examples []float32) ([]float32, error)
	// Fingerprint tells networks apart that judge differently.
	Fingerprint() string
}
