// Package seeded gives every purpose and every item its own random numbers, so that
// what is drawn depends on a seed and the item's number alone, not on which goroutine
// draws it or in what order.
package seeded

import "math/rand/v2"

// Source is a source of random numbers that begins anew without memory.
type Source struct {
	PCG rand.PCG
	*rand.Rand
}

// New returns the random numbers of one item of a purpose.
func New(seed, purpose, index uint64) *Source {
	s := new(Source)
	s.Rand = rand.New(&s.PCG)
	s.Reset(seed, purpose, index)
	return s
}

// Reset goes to the beginning of the numbers of another item.
func (s *Source) Reset(seed, purpose, index uint64) {
	s.PCG.Seed(Mix(seed+purpose*0x9e3779b97f4a7c15), Mix(index+purpose<<48))
}

// Mix is the finaliser of SplitMix64 (Steele, Lea, Flood 2014): it spreads every bit
// of x over all of the result.
func Mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
