package inflate

import (
	"bytes"
	"compress/zlib"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

const limit = 1 << 20

// standard unpacks with the standard library, which must take all of src.
func standard(src []byte) ([]byte, error) {
	in := bytes.NewReader(src)
	r, err := zlib.NewReader(in)
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		return nil, err
	case len(out) > limit:
		return nil, ErrLimit
	case in.Len() > 0:
		return nil, errors.New("bytes left over")
	}
	return out, nil
}

// check compares with the standard library.
func check(t *testing.T, d *Decoder, src []byte) {
	t.Helper()
	head := []byte("head")
	want, wantErr := standard(src)
	got, err := d.Zlib(head, src, limit)
	switch {
	case (err != nil) != (wantErr != nil):
		t.Fatalf("%d bytes: %v; the standard library: %v", len(src), err, wantErr)
	case err != nil && !bytes.Equal(got, head):
		t.Fatalf("%v, and dst has %d bytes", err, len(got))
	case err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrLimit):
		t.Fatal(err)
	case err == nil && !bytes.Equal(got, append(head, want...)):
		t.Fatalf("%d bytes unpack to others than with the standard library", len(src))
	}
}

func pack(tb testing.TB, level int, data []byte) []byte {
	tb.Helper()
	var b bytes.Buffer
	w, err := zlib.NewWriterLevel(&b, level)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// samples are data of several kinds: like packed signal, text, runs, noise.
func samples() [][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	var all [][]byte
	for _, n := range []int{0, 1, 3, 258, 1000, 70_000, 300_000} {
		steps, noise, skewed := make([]byte, n), make([]byte, n), make([]byte, n)
		for i := range steps {
			steps[i] = byte(min(255, int(20*r.ExpFloat64())))
			noise[i] = byte(r.Uint32())
			// Codes of all lengths.
			for skewed[i] = 0; skewed[i] < 40 && r.IntN(2) == 0; skewed[i]++ {
			}
		}
		all = append(all, steps, noise, skewed, bytes.Repeat([]byte{7}, n), []byte(strings.Repeat("abcabcd", n/7)))
	}
	return all
}

func TestZlib(t *testing.T) {
	var d Decoder
	for _, data := range samples() {
		for _, level := range []int{zlib.NoCompression, zlib.HuffmanOnly, zlib.BestSpeed, zlib.DefaultCompression, zlib.BestCompression} {
			src := pack(t, level, data)
			if got, err := d.Zlib(nil, src, limit); err != nil || !bytes.Equal(got, data) {
				t.Fatalf("%d bytes at level %d: %v", len(data), level, err)
			}
			check(t, &d, src)
			// Capacity of dst is used.
			buffer := make([]byte, 0, len(data)+1)
			if got, err := d.Zlib(buffer, src, limit); err != nil || len(got) > 0 && &got[0] != &buffer[:1][0] {
				t.Errorf("%d bytes at level %d: %v, and what was there is not used", len(data), level, err)
			}
		}
	}
}

// TestDamaged cuts data everywhere and flips each of their bits.
func TestDamaged(t *testing.T) {
	var d Decoder
	r := rand.New(rand.NewPCG(3, 4))
	data := make([]byte, 700)
	for i := range data {
		data[i] = byte(min(255, int(20*r.ExpFloat64())))
	}
	copy(data[500:], data[:100])
	for _, level := range []int{zlib.NoCompression, zlib.HuffmanOnly, zlib.DefaultCompression} {
		src := pack(t, level, data)
		for i := range src {
			check(t, &d, src[:i])
			for bit := range 8 {
				src[i] ^= 1 << bit
				check(t, &d, src)
				src[i] ^= 1 << bit
			}
		}
		check(t, &d, append(src, 0))
	}
}

func TestLimit(t *testing.T) {
	var d Decoder
	for _, level := range []int{zlib.NoCompression, zlib.DefaultCompression} {
		data := bytes.Repeat([]byte("signal"), 20_000)
		src := pack(t, level, data)
		if _, err := d.Zlib(nil, src, len(data)); err != nil {
			t.Error(err)
		}
		for _, limit := range []int{0, 1000, len(data) - 1} {
			if got, err := d.Zlib(nil, src, limit); !errors.Is(err, ErrLimit) || got != nil {
				t.Errorf("a limit of %d: %d bytes, %v", limit, len(got), err)
			}
		}
	}
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	var d Decoder
	src := pack(t, zlib.DefaultCompression, samples()[25])
	dst, err := d.Zlib(nil, src, limit)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(10, func() { dst, err = d.Zlib(dst[:0], src, limit) }); n > 0 || err != nil {
		t.Errorf("%v allocations, %v", n, err)
	}
}

func FuzzZlib(f *testing.F) {
	for _, data := range samples()[:15] {
		f.Add(pack(f, zlib.DefaultCompression, data))
		f.Add(pack(f, zlib.HuffmanOnly, data))
	}
	var d Decoder
	f.Fuzz(func(t *testing.T, src []byte) { check(t, &d, src) })
}
