package vbz

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"testing/quick"

	"github.com/klauspost/compress/zstd"
)

// walk returns samples that move like a pore's current: levels that hold for
// about ten samples, with noise.
func walk(n int, seed uint64) []int16 {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]int16, n)
	level := 500.0
	for i := range out {
		if r.IntN(10) == 0 {
			level = 300 + 400*r.Float64()
		}
		out[i] = int16(level + 12*r.NormFloat64())
	}
	return out
}

// slowSVB16 follows the definition, one bit and one byte at a time.
func slowSVB16(samples []int16) []byte {
	keys := make([]byte, (len(samples)+7)/8)
	var data []byte
	var prev int16
	for i, s := range samples {
		d := s - prev // wraps
		prev = s
		z := uint16(d) * 2
		if d < 0 {
			z = ^z
		}
		data = append(data, byte(z))
		if z >= 256 {
			keys[i/8] |= 1 << (i % 8)
			data = append(data, byte(z/256))
		}
	}
	return append(keys, data...)
}

func TestRoundTrip(t *testing.T) {
	f := func(samples []int16, prefix []int16) bool {
		enc := Encode([]byte("head"), samples)
		if !bytes.HasPrefix(enc, []byte("head")) {
			return false
		}
		got, err := Decode(slices.Clone(prefix), enc[4:], len(samples))
		return err == nil && slices.Equal(got, append(slices.Clone(prefix), samples...))
	}
	if err := quick.Check(f, &quick.Config{MaxCount: 500}); err != nil {
		t.Error(err)
	}
	for _, samples := range [][]int16{
		{}, {0}, {-1}, {math.MinInt16}, {math.MaxInt16, math.MinInt16, math.MaxInt16},
		make([]int16, 1), make([]int16, 7), make([]int16, 8), make([]int16, 9), make([]int16, 102400),
		walk(1, 1), walk(31, 2), walk(102400, 3),
	} {
		if !f(samples, []int16{7, 8}) {
			t.Errorf("round trip of %d samples failed", len(samples))
		}
	}
}

func TestSVB16FollowsItsDefinition(t *testing.T) {
	check := func(samples []int16) bool {
		want := slowSVB16(samples)
		got := appendSVB16(nil, samples)
		if !bytes.Equal(got, want) {
			return false
		}
		back := make([]int16, len(samples))
		return decodeSVB16(back, want) == nil && slices.Equal(back, samples)
	}
	if err := quick.Check(check, &quick.Config{MaxCount: 2000}); err != nil {
		t.Error(err)
	}
	for n := range 70 {
		if !check(walk(n, uint64(n))) {
			t.Errorf("%d samples differ from the definition", n)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	samples := walk(1000, 4)
	good := Encode(nil, samples)
	flipped := slices.Clone(good)
	flipped[len(flipped)/2] ^= 0x10
	for _, tc := range []struct {
		name string
		src  []byte
		n    int
	}{
		{"nothing for samples", nil, 1000},
		{"bytes for no samples", good, 0},
		{"one sample too many asked for", good, 1001},
		{"one sample too few asked for", good, 999},
		{"a whole group too few", good, 992},
		{"negative count", good, -1},
		{"count beyond the limit", good, MaxSamples + 1},
		{"count that the bytes can't hold", good[:20], MaxSamples},
		{"cut short", good[:len(good)-1], 1000},
		{"trailing byte", append(slices.Clone(good), 0), 1000},
		{"two frames", append(slices.Clone(good), good...), 1000},
		{"not zstd", []byte("not a zstd frame at all"), 10},
	} {
		dst := []int16{1, 2, 3}
		got, err := Decode(dst, tc.src, tc.n)
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: error %v, want one that wraps ErrCorrupt", tc.name, err)
		}
		if !slices.Equal(got, dst) {
			t.Errorf("%s: dst came back as %v", tc.name, got)
		}
	}
	if got, err := Decode(nil, flipped, 1000); err == nil && slices.Equal(got, samples) {
		t.Error("a flipped bit went unnoticed and changed nothing")
	}
}

// TestSpareKeyBits: bits past the last sample carry nothing, so bytes that set
// them were not written by an encoder.
func TestSpareKeyBits(t *testing.T) {
	svb := slowSVB16(walk(9, 1))
	svb[1] |= 0x80
	if err := decodeSVB16(make([]int16, 9), svb); err == nil {
		t.Error("key bits past the last sample were accepted")
	}
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	c := NewCodec()
	samples := walk(4000, 5)
	var enc []byte
	var dec []int16
	if n := testing.AllocsPerRun(100, func() {
		enc = c.Encode(enc[:0], samples)
		var err error
		if dec, err = c.Decode(dec[:0], enc, len(samples)); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations per round trip, want none", n)
	}
}

// TestOfficialBytes decodes what ONT's own pod5 package wrote; see
// testdata/generate.py one folder up.
func TestOfficialBytes(t *testing.T) {
	raw, err := os.ReadFile("testdata/official.samples")
	if err != nil {
		t.Fatal(err)
	}
	want := make([]int16, len(raw)/2)
	for i := range want {
		want[i] = int16(binary.LittleEndian.Uint16(raw[2*i:]))
	}
	src, err := os.ReadFile("testdata/official.vbz")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(nil, src, len(want))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Error("samples differ from those that the official package packed")
	}
}

func FuzzDecode(f *testing.F) {
	for _, n := range []int{1, 8, 100} {
		f.Add(Encode(nil, walk(n, 6)), n)
	}
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0xff, 0xff, 0xff, 0x7f}, 1<<20)
	f.Fuzz(func(t *testing.T, src []byte, n int) {
		n %= 1 << 20
		got, err := Decode(nil, src, n)
		if err != nil {
			if len(got) != 0 {
				t.Fatalf("%d samples beside an error", len(got))
			}
			return
		}
		if len(got) != n {
			t.Fatalf("%d samples, want %d", len(got), n)
		}
		again, err := Decode(nil, Encode(nil, got), n)
		if err != nil || !slices.Equal(again, got) {
			t.Fatalf("what was decoded does not survive another round: %v", err)
		}
	})
}

func FuzzSVB16(f *testing.F) {
	for _, n := range []int{0, 1, 8, 17} {
		f.Add(slowSVB16(walk(n, 7)), uint16(n))
	}
	f.Fuzz(func(t *testing.T, src []byte, n uint16) {
		dst := make([]int16, n)
		if decodeSVB16(dst, src) != nil {
			return
		}
		// A two-byte form of a small value is legal but not what an encoder
		// writes, so compare values, not bytes.
		back := make([]int16, n)
		if err := decodeSVB16(back, slowSVB16(dst)); err != nil || !slices.Equal(back, dst) {
			t.Fatalf("values do not survive another round: %v", err)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	for _, n := range []int{4000, 102400} {
		b.Run(size(n), func(b *testing.B) {
			c, samples := NewCodec(), walk(n, 8)
			var dst []byte
			b.SetBytes(int64(2 * n))
			b.ReportAllocs()
			for b.Loop() {
				dst = c.Encode(dst[:0], samples)
			}
			b.ReportMetric(float64(len(dst))/float64(n), "B/sample")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, n := range []int{4000, 102400} {
		b.Run(size(n), func(b *testing.B) {
			c, src := NewCodec(), Encode(nil, walk(n, 8))
			var dst []int16
			b.SetBytes(int64(2 * n))
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if dst, err = c.Decode(dst[:0], src, n); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecodeSVB16(b *testing.B) {
	const n = 102400
	src := appendSVB16(nil, walk(n, 8))
	dst := make([]int16, n)
	b.SetBytes(2 * n)
	for b.Loop() {
		if err := decodeSVB16(dst, src); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeSVB16(b *testing.B) {
	const n = 102400
	samples := walk(n, 8)
	var dst []byte
	b.SetBytes(2 * n)
	for b.Loop() {
		dst = appendSVB16(dst[:0], samples)
	}
}

func size(n int) string {
	if n == 4000 {
		return "chunk4000"
	}
	return "chunk102400"
}

// TestFramesStateTheirSize holds short pieces to what ONT's reader needs: it
// allocates by the size that the frame states.
func TestFramesStateTheirSize(t *testing.T) {
	for _, n := range []int{1, 9, 100, 126, 127, 128, 200, 256, 4000, 102_400} {
		var head zstd.Header
		if err := head.Decode(Encode(nil, make([]int16, n))); err != nil || !head.HasFCS || head.FrameContentSize != uint64(keyBytes(n)+n) {
			t.Errorf("%d samples: %v, header %+v", n, err, head)
		}
	}
}

// TestFrameWithoutSize decodes a frame that doesn't state its size, as short ones
// were written before.
func TestFrameWithoutSize(t *testing.T) {
	old, err := hex.DecodeString("28b52ffd00007100009100e803020518a3010202650218")
	if err != nil {
		t.Fatal(err)
	}
	want := []int16{500, 501, 498, 510, 300, 301, 302, -5, 7}
	if got, err := Decode(nil, old, len(want)); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}
