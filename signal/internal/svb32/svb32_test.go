package svb32

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/quick"
)

// encode follows the definition, one byte at a time.
func encode(values []uint32) []byte {
	keys := make([]byte, KeyBytes(len(values)))
	var data []byte
	for i, v := range values {
		code := 0
		data = append(data, byte(v))
		for v >>= 8; v > 0; v >>= 8 {
			code++
			data = append(data, byte(v))
		}
		keys[i/4] |= byte(code << (2 * (i % 4)))
	}
	return append(keys, data...)
}

// zigzagged are the differences of samples as ONT's filter takes them.
func zigzagged(samples []int16) []uint32 {
	out := make([]uint32, len(samples))
	prev := int32(0)
	for i, s := range samples {
		d := int32(s) - prev
		prev = int32(s)
		out[i] = uint32(d<<1 ^ d>>31)
	}
	return out
}

// walk returns samples that move like a pore's current.
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

func TestDecodeFollowsTheDefinition(t *testing.T) {
	check := func(values []uint32, shifts []uint8) bool {
		for i := range values { // all widths, not only four bytes
			if len(shifts) > 0 {
				values[i] >>= shifts[i%len(shifts)] % 32
			}
		}
		got := make([]uint32, len(values))
		if err := Decode(got, encode(values)); err != nil || !slices.Equal(got, values) {
			return false
		}
		var sum uint32
		want := make([]int16, len(values))
		for i, v := range values {
			sum += unzigzag(v)
			want[i] = int16(sum)
		}
		sums := make([]int16, len(values))
		return DecodeDelta16(sums, encode(values)) == nil && slices.Equal(sums, want)
	}
	if err := quick.Check(check, &quick.Config{MaxCount: 2000}); err != nil {
		t.Error(err)
	}
}

func TestSignalComesBack(t *testing.T) {
	check := func(samples []int16) bool {
		got := make([]int16, len(samples))
		return DecodeDelta16(got, encode(zigzagged(samples))) == nil && slices.Equal(got, samples)
	}
	if err := quick.Check(check, &quick.Config{MaxCount: 1000}); err != nil {
		t.Error(err)
	}
	for n := range 70 {
		if !check(walk(n, uint64(n))) {
			t.Errorf("%d samples don't come back", n)
		}
	}
	if !check([]int16{32767, -32768, 32767, -32768, 0, 1, -1, 32767, -32768, 5, 6, 7, 8, 9, 10, 11, 12, 13}) {
		t.Error("the widest differences don't come back")
	}
}

func TestDecodeRefuses(t *testing.T) {
	good := encode(zigzagged(walk(102, 1)))
	spare := slices.Clone(good)
	spare[KeyBytes(102)-1] |= 0x80
	for _, tc := range []struct {
		name string
		src  []byte
		n    int
	}{
		{"nothing", nil, 102},
		{"cut short", good[:len(good)-1], 102},
		{"a byte too many", append(slices.Clone(good), 0), 102},
		{"one value too many asked for", good, 103},
		{"a group too few asked for", good, 98},
		{"keys of values that aren't there", spare, 102},
	} {
		if err := DecodeDelta16(make([]int16, tc.n), tc.src); err == nil {
			t.Errorf("%s: DecodeDelta16 accepts it", tc.name)
		}
		if err := Decode(make([]uint32, tc.n), tc.src); err == nil {
			t.Errorf("%s: Decode accepts it", tc.name)
		}
	}
	if err := Decode(nil, nil); err != nil {
		t.Errorf("no values: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, n := range []int{0, 1, 4, 17, 70} {
		f.Add(encode(zigzagged(walk(n, 7))), uint16(n))
	}
	f.Fuzz(func(t *testing.T, src []byte, n uint16) {
		values, sums := make([]uint32, n), make([]int16, n)
		err := Decode(values, src)
		if fast := DecodeDelta16(sums, src); (err == nil) != (fast == nil) {
			t.Fatalf("Decode says %v, DecodeDelta16 %v", err, fast)
		}
		if err != nil {
			return
		}
		var sum uint32
		for i, v := range values {
			if sum += unzigzag(v); sums[i] != int16(sum) {
				t.Fatalf("sum %d is %d, want %d", i, sums[i], int16(sum))
			}
		}
		// A wide form of a small value is legal but not what an encoder writes, so
		// compare values, not bytes.
		again := make([]uint32, n)
		if err := Decode(again, encode(values)); err != nil || !slices.Equal(again, values) {
			t.Fatalf("values do not survive another round: %v", err)
		}
	})
}

func BenchmarkDecodeDelta16(b *testing.B) {
	const n = 102_400
	src := encode(zigzagged(walk(n, 8)))
	dst := make([]int16, n)
	b.SetBytes(2 * n)
	for b.Loop() {
		if err := DecodeDelta16(dst, src); err != nil {
			b.Fatal(err)
		}
	}
}
