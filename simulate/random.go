package simulate

import (
	"math/rand/v2"

	"github.com/porestream/porestream/simulate/internal/seeded"
)

// stream keeps the random numbers of one purpose apart from those of others with the
// same seed.
type stream uint64

const (
	plantStream stream = iota + 1
	phaseStream
	planStream
	errorStream
	varyStream
)

// newRand returns the random numbers of one item of a stream.
func newRand(seed uint64, s stream, index uint64) (*rand.Rand, *rand.PCG) {
	source := seeded.New(seed, uint64(s), index)
	return source.Rand, &source.PCG
}

// mix spreads every bit of x over all of the result.
func mix(x uint64) uint64 { return seeded.Mix(x) }

// unit turns random bits into a number in [0, 1).
func unit(bits uint64) float64 { return float64(bits>>11) / (1 << 53) }
