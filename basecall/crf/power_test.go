package crf

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPower compares with math.Pow, whose last bit a float32 doesn't show.
func TestPower(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 31))
	check := func(x float32) {
		require.Equal(t, float32(math.Pow(float64(x), 0.4)), power(x), "%g", x) //nolint:testifylint // to the bit
	}
	for e := -149; e <= 1; e++ {
		x := float32(math.Ldexp(1, e))
		check(x)
		check(math.Nextafter32(x, 2))
		check(math.Nextafter32(x, -1))
		for range 1000 {
			check(x * (1 + rng.Float32()))
		}
	}
	assert.Zero(t, power(0))
	assert.Zero(t, power(float32(math.NaN())))
}

func BenchmarkPower(b *testing.B) {
	x := float32(1)
	for b.Loop() {
		if x *= 0.999; x < 1e-6 {
			x = 1
		}
		power(x)
	}
}
