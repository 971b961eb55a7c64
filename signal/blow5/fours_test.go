package blow5

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// sameFours holds that the two implementations do the same with a sequence of keys
// and data, and touch no sample beyond those that they say are done.
func sameFours(t *testing.T, keys, data []byte) {
	t.Helper()
	const untouched = -12345
	got, want := make([]int16, 4*len(keys)), make([]int16, 4*len(keys))
	for i := range got {
		got[i], want[i] = untouched, untouched
	}
	fours, used, fits := decodeFours(got, keys, data)
	wantFours, wantUsed, wantFits := decodeFoursByWord(want, keys, data)
	if fours != wantFours || used != wantUsed || fits != wantFits {
		t.Fatalf("keys %x, data %x: %d fours from %d bytes that fit: %v; want %d from %d: %v", keys, data, fours, used, fits, wantFours, wantUsed, wantFits)
	}
	if !fits {
		got, want = got[4*fours:], want[4*fours:]
	}
	if !slices.Equal(got, want) {
		t.Fatalf("keys %x, data %x:\n%v, want\n%v", keys, data, got, want)
	}
}

func TestFoursAreTheSame(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	random := func(n int, mask uint32) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32() & mask)
		}
		return b
	}
	for key := range 256 {
		sameFours(t, []byte{byte(key)}, random(16, 0xff))
		sameFours(t, []byte{byte(key)}, make([]byte, 16))
		sameFours(t, []byte{0, byte(key), 0}, random(64, 0xff))
	}
	for n := range 200 {
		sameFours(t, make([]byte, n/4), random(n, 0xff))
		// Keys of one and of two bytes: sums that mostly fit.
		sameFours(t, random(n/6, 0b0101_0101), random(n, 0x0f))
	}
}

// TestFoursFit is about the largest and smallest sample, and what is just beyond them.
func TestFoursFit(t *testing.T) {
	for _, tc := range []struct {
		sample int32
		fits   bool
	}{{32767, true}, {-32768, true}, {32768, false}, {-32769, false}, {1<<31 - 1, false}} {
		z := uint32(tc.sample<<1 ^ tc.sample>>31)
		// The sample is each of four in turn, and back at zero with the one after.
		for lane := range 3 {
			data := make([]byte, 32)
			at := 0
			for i := range 4 {
				v := uint32(0)
				switch i {
				case lane:
					v = z
				case lane + 1:
					v = uint32(-tc.sample<<1 ^ -tc.sample>>31)
				}
				for range 4 {
					data[at] = byte(v)
					v >>= 8
					at++
				}
			}
			sameFours(t, []byte{0xff}, data)
			if _, _, fits := decodeFours(make([]int16, 4), []byte{0xff}, data); fits != tc.fits {
				t.Errorf("%d as sample %d fits: %v", tc.sample, lane, fits)
			}
		}
	}
}

func FuzzFours(f *testing.F) {
	f.Add([]byte{}, []byte{})
	f.Add([]byte{0, 0xff, 0x5a}, make([]byte, 60))
	f.Add([]byte{0, 0x55}, make([]byte, 31))
	f.Fuzz(sameFours)
}
