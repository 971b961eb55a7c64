package codec

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// stream is a block as htslib wrote it, by samtools 1.16.1 or pysam 0.24.1: by each method, with each of
// the things that may be done to bytes before.
type stream struct {
	method Method
	size   int
	sum    uint32 // CRC32 of what it holds
	data   []byte
}

func streams(t testing.TB) []stream {
	t.Helper()
	text, err := os.ReadFile("testdata/streams.txt")
	require.NoError(t, err)
	var list []stream
	for line := range strings.Lines(string(text)) {
		var s stream
		var data string
		_, err := fmt.Sscanf(line, "%d %d %x %s", &s.method, &s.size, &s.sum, &data)
		require.NoError(t, err)
		s.data, err = hex.DecodeString(data)
		require.NoError(t, err)
		list = append(list, s)
	}
	return list
}

// TestStreams: what htslib compressed is what it was.
func TestStreams(t *testing.T) {
	seen := make(map[Method]int)
	for i, s := range streams(t) {
		out, err := Decompress(s.method, s.data, s.size)
		require.NoError(t, err, "stream %d, %v", i, s.method)
		require.Len(t, out, s.size)
		require.Equal(t, s.sum, crc32.ChecksumIEEE(out), "stream %d, %v", i, s.method)
		seen[s.method]++
	}
	for m := Bzip2; m <= Names; m++ {
		require.NotZero(t, seen[m], "no stream by %v", m)
	}
}

// TestDamaged: what is cut off, changed or of another size is an error or other bytes; never a panic,
// and never more than there should be.
func TestDamaged(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 1))
	for i, s := range streams(t) {
		for _, size := range []int{s.size - 1, s.size + 1, 1 << 20} {
			if size > 0 {
				_, err := Decompress(s.method, s.data, size)
				require.Error(t, err, "stream %d, %v, of %d bytes for %d", i, s.method, s.size, size)
			}
		}
		for n := range s.data {
			if out, err := Decompress(s.method, s.data[:n], s.size); err == nil {
				require.Len(t, out, s.size)
			}
		}
		for range 300 {
			data := bytes.Clone(s.data)
			for range 1 + random.IntN(3) {
				data[random.IntN(len(data))] = byte(random.Uint32())
			}
			if out, err := Decompress(s.method, data, s.size); err == nil {
				require.Len(t, out, s.size)
			}
		}
	}
}

func TestMethods(t *testing.T) {
	out, err := Decompress(Names, []byte("whatever"), 0)
	require.NoError(t, err)
	require.Empty(t, out)
	_, err = Decompress(9, []byte{1}, 1)
	require.EqualError(t, err, "method 9 is none that CRAM 3.1 has")
	_, err = Decompress(Raw, []byte("ACGT"), 3)
	require.EqualError(t, err, "raw: it holds 4 bytes, and says 3")
	_, err = Decompress(FQZComp, []byte{4, 6}, 4)
	require.EqualError(t, err, "fqzcomp: version 6, want 5")
	_, err = Decompress(LZMA, []byte("ACGTACGTACGTACGT"), 4)
	require.EqualError(t, err, "lzma: no xz stream begins there")
}

// TestPackedSymbolsComeBack: symbols that are packed come back, for each number of them.
func TestPackedSymbolsComeBack(t *testing.T) {
	for n := 1; n <= 16; n++ {
		p := make(packing, n)
		for i := range p {
			p[i] = byte(3 * i)
		}
		width := 0
		for 1<<width < n {
			width++
		}
		if width == 3 {
			width = 4
		}
		const size = 37
		want, packed := make([]byte, size), make([]byte, size)
		for i := range want {
			k := i * 7 % n
			want[i] = p[k]
			if width > 0 {
				packed[i*width/8] |= byte(k << (i * width % 8))
			}
		}
		got, err := p.unpack(packed, size)
		require.NoError(t, err)
		require.Equal(t, want, got, "%d symbols", n)
		if n > 1 {
			_, err = p.unpack(packed[:(size-1)*width/8], size)
			require.ErrorIs(t, err, errShort)
		}
	}
}

// fuzz decodes anything by a method, of sizes that a fuzzer has time for.
func fuzz(f *testing.F, m Method) {
	for _, s := range streams(f) {
		if s.method == m {
			f.Add(s.data, s.size)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		if size < 0 || size > 1<<16 {
			return
		}
		if out, err := Decompress(m, data, size); err == nil && len(out) != size {
			t.Fatalf("%d bytes, want %d", len(out), size)
		}
	})
}

func FuzzXZ(f *testing.F)         { fuzz(f, LZMA) }
func FuzzRANS4x8(f *testing.F)    { fuzz(f, RANS4x8) }
func FuzzRANSNx16(f *testing.F)   { fuzz(f, RANSNx16) }
func FuzzArithmetic(f *testing.F) { fuzz(f, Arithmetic) }
func FuzzFQZComp(f *testing.F)    { fuzz(f, FQZComp) }
func FuzzNames(f *testing.F)      { fuzz(f, Names) }
