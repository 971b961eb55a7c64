package variant

import (
	"math"
	"slices"
)

// Base qualities are used as one of few bins. What a bin means is measured from
// the reads themselves (see errorCounts), so the bounds need only separate what
// basecallers separate.
//
// Of a base that differs from the reference the bin of its own quality is kept.
// Of a base that matches nothing is kept, unless its read is a poor one and the base
// doubtful; the class of its read stands for it, which is how often the read's bases
// are wrong by their qualities. Classes are bins too, from firstClass on, and measured
// as such on the bases for which they may stand. That loses information, but deceives
// nobody: what is known of a base without its quality is the rate at which such bases
// are wrong.
const (
	binCount   = 16
	noQuality  = 0 // the bin of a base without a quality
	firstClass = 8 // the class of reads without qualities
)

// binOf is the bin of a Phred quality.
func binOf(q byte) byte { return bins[q] }

var (
	bins = func() (t [256]byte) {
		for q := range t {
			t[q] = byte(1 + sortedBefore([]int{5, 8, 11, 15, 20, 28}, q))
		}
		return t
	}()
	// qualityOf is some quality of a bin.
	qualityOf = func() (t [firstClass]byte) {
		for q := range 256 {
			t[bins[q]] = byte(q)
		}
		return t
	}()
)

// leastQuality is the least Phred quality of a bin, and the least that a class's mean probability of an error stands for; 0 where no quality is known.
var leastQuality = [binCount]byte{0, 0, 5, 8, 11, 15, 20, 28, 0, 0, 7, 9, 11, 13, 15, 19}

// sortedBefore is how many of bounds, ascending, are at most v.
func sortedBefore(bounds []int, v int) int {
	i, ok := slices.BinarySearch(bounds, v)
	if ok {
		i++
	}
	return i
}

// perMillion is the probability of an error that a Phred quality stands for, in
// millionths.
var perMillion = func() (t [256]uint64) {
	for q := range t {
		t[q] = uint64(math.Round(1e6 * math.Pow(10, -float64(q)/10)))
	}
	return t
}()

// classBounds are the mean probabilities of an error, in millionths, below which
// the second and further classes of reads with qualities begin: Q7, 9, 11, 13, 15
// and 19.
var classBounds = []uint64{199526, 125893, 79433, 50119, 31623, 12589}

// classOf is the class of a read with the given qualities, less firstClass; 0
// if it has none.
func classOf(qualities []byte) byte {
	if len(qualities) == 0 {
		return 0
	}
	sum := uint64(0)
	for _, q := range qualities {
		sum += perMillion[q]
	}
	mean := sum / uint64(len(qualities))
	class := byte(1)
	for _, bound := range classBounds {
		if mean < bound {
			class++
		}
	}
	return class
}

// poorClass is the best class of which the doubtful bases, those of the first
// doubtfulBins, keep their bins even where they match: reads that are wrong more
// often than once in 32 bases.
//
// With reads of lambda that are wrong once in 18 (R9.4, 15x), QUAL of true SNPs
// falls by 2 to 3 without them, because a read that shows the reference by mistake
// mostly says so by its quality: at 10x, 47 of 80 SNPs were found, where 55 are with
// these and with the qualities of all bases. Reads of R10.4.1 are better, and have
// few such mistakes.
const (
	poorClass    = 5
	doubtfulBins = 2
)

// isPoor reports whether a class's reads keep the bins of doubtful bases.
func isPoor(class byte) bool { return class != 0 && class <= poorClass }

// doubtful reports whether a base of that quality is.
func doubtful(quality byte) bool { return binOf(quality) <= doubtfulBins }
