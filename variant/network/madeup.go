package network

import (
	"math/rand/v2"

	"github.com/porestream/porestream/variant"
)

// MadeUp returns n examples of each type and ploidy in turns whose other values
// are noise in the range of real ones, the same for everybody: to try and to
// measure networks with.
func MadeUp(n int) []float32 {
	rng := rand.New(rand.NewPCG(3, 4))
	examples := make([]float32, n*variant.ExampleSize)
	for i := range examples {
		examples[i] = rng.Float32()
	}
	for i := range n {
		scalars := examples[i*variant.ExampleSize+variant.ExamplePlanes*variant.ExampleColumns:]
		clear(scalars[variant.ScalarPloidy : variant.ScalarPloidy+3])
		clear(scalars[variant.ScalarType : variant.ScalarType+3])
		scalars[variant.ScalarPloidy+i%3], scalars[variant.ScalarType+i/3%3] = 1, 1
	}
	return examples
}
