package simulate

import "math/rand/v2"

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
	pcg := rand.NewPCG(mix(seed+uint64(s)*0x9e3779b97f4a7c15), mix(index+uint64(s)<<48))
	return rand.New(pcg), pcg
}

// mix is the finaliser of SplitMix64 (Steele, Lea, Flood 2014): it spreads every bit
// of x over all of the result.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// unit turns random bits into a number in [0, 1).
func unit(bits uint64) float64 { return float64(bits>>11) / (1 << 53) }
