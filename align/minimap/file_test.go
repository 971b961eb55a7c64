package minimap_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align/minimap"
	"github.com/porestream/porestream/genome"
)

// lambda is the shipped reference.
func lambda(t testing.TB) *genome.Genome {
	t.Helper()
	return load(t, filepath.Join("..", "..", "testdata", "lambda", "reference.fa"))
}

// written is the index of a reference in a file.
func written(t testing.TB, g *genome.Genome, cfg minimap.Config) (path string, content []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "x.mmi")
	require.NoError(t, index(t, g, cfg).Write(path))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return path, content
}

// An index that was read from its file places reads as the one that was written.
func TestLoadedIndexMapsAsTheBuiltOne(t *testing.T) {
	for _, preset := range []string{"map-ont", "lr:hq"} {
		g := lambda(t)
		cfg := minimap.Config{Preset: preset}
		path, content := written(t, g, cfg)
		loaded, err := minimap.LoadIndex(g, path, cfg)
		require.NoError(t, err)
		defer loaded.Close()
		built := index(t, g, cfg)
		a, b := built.NewAligner(), loaded.NewAligner()
		defer a.Close()
		defer b.Close()
		seq := g.Contigs[0].Seq
		for at := 0; at+3000 < len(seq); at += 1500 {
			read := bytes.Clone(seq[at : at+3000])
			for i := 7; i < len(read); i += 31 {
				read[i] = "ACGT"[(i/31)%4]
			}
			want, err := a.Map("r", read)
			require.NoError(t, err)
			got, err := b.Map("r", read)
			require.NoError(t, err)
			require.NotEmpty(t, want)
			require.True(t, reflect.DeepEqual(want, got))
		}
		again := filepath.Join(t.TempDir(), "again.mmi")
		require.NoError(t, loaded.Write(again))
		same, err := os.ReadFile(again)
		require.NoError(t, err)
		require.Len(t, same, len(content))
	}
}

func TestLoadIndexRefuses(t *testing.T) {
	g := lambda(t)
	_, good := written(t, g, minimap.Config{})
	other := load(t, filepath.Join("..", "..", "testdata", "lambda", "reference.fa"))
	other.Contigs[0].Seq[1000] ^= 'A' ^ 'C' ^ 'G' // another letter, or none
	longer, renamed := lambda(t), lambda(t)
	longer.Contigs[0].Seq = append(longer.Contigs[0].Seq, 'A')
	renamed.Contigs[0].Name = "other"
	put := func(at int, value uint32) []byte {
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint32(b[at:], value)
		return b
	}
	name := len(g.Contigs[0].Name)
	firstBucket := 24 + 1 + name + 4
	for _, tt := range []struct {
		name   string
		file   []byte
		of     *genome.Genome
		preset string
		want   string
	}{
		{"empty", nil, g, "", "no index of minimap2's"},
		{"a FASTA", []byte(">c\nACGT\n"), g, "", "no index of minimap2's"},
		{"other bases", good, other, "", "its base 1001 of J02459.1 is not the reference's"},
		{"another length", good, longer, "", `is "J02459.1" of 48502 bases, and the reference's J02459.1 of 48503`},
		{"another name", good, renamed, "", "the reference's other of 48502"},
		{"two contigs", good, random(t, 100, 100), "", "it has 1 sequences, and the reference 2 contigs"},
		{"another preset", good, g, "lr:hq", "its seeds are of 15 bases, one of 10 (-k15 -w10), and those of preset lr:hq of 19, one of 19"},
		{"other seeds", put(8, 14), g, "", "its seeds are of 14 bases"},
		{"compressed homopolymers", put(20, 1), g, "", "its seeds are of 15 bases"},
		{"no bases", put(20, 2), g, "", "more follows behind the index"},
		{"other flags", put(20, 64), g, "", "of another kind (flags 0x40)"},
		{"no such number of buckets", put(12, 40), g, "", "2^40 buckets"},
		{"two of them", append(bytes.Clone(good), good...), g, "", "more follows behind the index"},
		{"a bucket without end", put(firstBucket, 1<<31), g, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.mmi")
			require.NoError(t, os.WriteFile(path, tt.file, 0o600))
			_, err := minimap.LoadIndex(tt.of, path, minimap.Config{Preset: tt.preset})
			require.ErrorContains(t, err, tt.want)
			require.ErrorContains(t, err, path)
			require.NotContains(t, err.Error(), "\n")
		})
	}
	// Wherever it is cut.
	path := filepath.Join(t.TempDir(), "cut.mmi")
	for _, n := range []int{1, 4, 11, 23, 24, 26, firstBucket, firstBucket + 1, len(good) / 3, len(good) / 2, len(good) - 24_000, len(good) - 4, len(good) - 1} {
		require.NoError(t, os.WriteFile(path, good[:n], 0o600))
		_, err := minimap.LoadIndex(g, path, minimap.Config{})
		require.ErrorContains(t, err, "cut short", n)
	}
	_, err := minimap.LoadIndex(g, filepath.Join(t.TempDir(), "none.mmi"), minimap.Config{})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = minimap.LoadIndex(g, path, minimap.Config{Preset: "no-such"})
	require.ErrorContains(t, err, `"no-such"`)
}

// Whatever is in a file, it is an index that can be mapped to, or refused.
func FuzzLoadIndex(f *testing.F) {
	g, err := genome.Read(bytes.NewReader([]byte(">c\nACGTTGCAAGGCTTACGATCGGATCCAATTGGCACGTATACCGGTTAACGATTACAGGCATCCAAGTCCA\n")))
	require.NoError(f, err)
	_, good := written(f, g, minimap.Config{})
	// Its first bytes, so that changes hit bytes that mean something: 2^14 buckets follow.
	f.Add(uint32(12), uint32(2), uint8(1))
	f.Add(uint32(40), uint32(9), uint8(4))
	f.Add(uint32(len(good)-40), uint32(7), uint8(2))
	read := bytes.Clone(g.Contigs[0].Seq)
	f.Fuzz(func(t *testing.T, at, value uint32, width uint8) {
		b := bytes.Clone(good)
		var patch [4]byte
		binary.LittleEndian.PutUint32(patch[:], value)
		copy(b[int(at)%len(b):], patch[:1+width%4])
		path := filepath.Join(t.TempDir(), "x.mmi")
		require.NoError(t, os.WriteFile(path, b, 0o600))
		x, err := minimap.LoadIndex(g, path, minimap.Config{})
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		a := x.NewAligner()
		_, err = a.Map("r", read)
		require.NoError(t, err)
		require.NoError(t, a.Close())
		require.NoError(t, x.Close())
	})
}
