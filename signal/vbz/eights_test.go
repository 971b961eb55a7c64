package vbz

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// sameEights holds that the two implementations do the same with a sequence of keys
// and data, and touch no sample beyond those that they say are done.
func sameEights(t *testing.T, keys, data []byte) {
	t.Helper()
	const untouched = -12345
	got, want := make([]int16, 8*len(keys)), make([]int16, 8*len(keys))
	for i := range got {
		got[i], want[i] = untouched, untouched
	}
	gotEights, gotUsed := decodeEights(got, keys, data)
	wantEights, wantUsed := decodeEightsByWord(want, keys, data)
	if gotEights != wantEights || gotUsed != wantUsed {
		t.Fatalf("keys %x, %d bytes: %d eights from %d bytes, want %d from %d", keys, len(data), gotEights, gotUsed, wantEights, wantUsed)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("keys %x, data %x:\n%v, want\n%v", keys, data, got, want)
	}
}

func TestEightsAreTheSame(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	for key := range 256 {
		sameEights(t, []byte{byte(key)}, random(16))
		sameEights(t, []byte{0, byte(key), byte(key)}, random(64))
	}
	for n := range 200 {
		sameEights(t, random(n/16), random(n))
		sameEights(t, make([]byte, n/8), random(n))
	}
}

func FuzzEights(f *testing.F) {
	f.Add([]byte{}, []byte{})
	f.Add([]byte{0, 0xff, 0x5a}, make([]byte, 60))
	f.Add([]byte{0, 0}, make([]byte, 31))
	f.Fuzz(sameEights)
}
