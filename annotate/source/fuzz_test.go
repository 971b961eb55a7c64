package source

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
)

var update = flag.Bool("update", false, "write testdata/golden.pss anew; FORMAT.md must get a new version if old files can't be read")

const goldenPath = "testdata/golden.pss"

// golden compiles what the golden file was made of: the excerpts of ClinVar and gnomAD's traps, with all kinds of match.
func golden(t testing.TB) []byte {
	path, _ := compileText(t, Config{
		Genome: readGenome(t, reference), Name: "golden", Version: "1",
		Matches: []annotate.Match{annotate.MatchExact, annotate.MatchPosition, annotate.MatchOverlap},
	}, gnomad+"chr1\t4\tlong\tTTTTTGACCATGATGATGG\tACGTNACGTACGTACG\t.\t.\tAC=1\nchr1\t5\tsv\tT\t<DEL>\t.\t.\tAC=2;vep=x\n")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return data
}

// TestGoldenBytes holds the format still: files that exist must be read, and be written the same.
func TestGoldenBytes(t *testing.T) {
	got := golden(t)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(goldenPath), 0o755))
		require.NoError(t, os.WriteFile(goldenPath, got, 0o600))
	}
	want, err := os.ReadFile(goldenPath)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got), "the format changed: %d bytes, golden %d", len(got), len(want))

	// What FORMAT.md says, read without the package's reader.
	u32 := func(at uint64) uint64 { return uint64(binary.LittleEndian.Uint32(want[at:])) }
	u64 := func(at uint64) uint64 { return binary.LittleEndian.Uint64(want[at:]) }
	require.Equal(t, "\x89PSS\r\n\x1a\n\x01\x00\x00\x00\x00\x00\x01\x00", string(want[:16]))
	end := uint64(len(want)) - 56
	require.Equal(t, "PSS-END\n", string(want[end:end+8]))
	metaAt, metaSize, crcsAt, blocks, size := u64(end+8), u64(end+16), u64(end+24), u64(end+32), u64(end+40)
	require.Equal(t, uint64(len(want)), size)
	require.Equal(t, uint64(1), blocks)
	table := crc32.MakeTable(crc32.Castagnoli)
	require.Equal(t, uint64(crc32.Checksum(want[:crcsAt], table)), u32(crcsAt))
	require.Equal(t, uint64(crc32.Checksum(want[crcsAt:end], table)), u32(end+48))
	require.Equal(t, uint64(crc32.Checksum(want[end:end+52], table)), u32(end+52))
	require.Equal(t, `{"name":"golden","version":"1","date":"2026-11-01","input":"in.txt"`, string(want[metaAt : metaAt+metaSize])[:67])
	// G>A at 3: start 2, one base by one base, A; its record begins with the size, the identifier and AC.
	s, err := newStore(want, nil)
	require.NoError(t, err)
	rows := uint64(s.Meta.Contigs[0].RowsAt)
	require.Equal(t, uint64(2)<<32|1<<28|1<<24, u64(rows))
	at := u64(rows + 8)
	require.Equal(t, "\x01\x03rs9\x13\x06", string(want[at+1:at+8]))
}

// FuzzStore reads files that are not what a writer makes, but have right checksums.
func FuzzStore(f *testing.F) {
	whole := golden(f)
	f.Add(whole, 0, 0)
	f.Add(whole, 40, 200)
	f.Add(whole[:100], 0, 0)
	g := readGenome(f, reference)
	f.Fuzz(func(t *testing.T, data []byte, at, value int) {
		if len(data) > 1<<16 {
			return
		}
		data = bytes.Clone(data)
		if n := len(data); n > headerSize+trailerSize && at >= 0 && at < n-trailerSize-4 {
			data[at] = byte(value)
			end := data[n-trailerSize:]
			if crcs := binary.LittleEndian.Uint64(end[24:]); crcs+4 <= uint64(n-trailerSize) && crcs < blockSize {
				binary.LittleEndian.PutUint32(data[crcs:], crc32.Checksum(data[:crcs], castagnoli))
				binary.LittleEndian.PutUint32(end[48:], crc32.Checksum(data[crcs:n-trailerSize], castagnoli))
			}
			binary.LittleEndian.PutUint32(end[52:], crc32.Checksum(end[:52], castagnoli))
		}
		s, err := newStore(data, g)
		if err != nil {
			return
		}
		seq := g.Contigs[0].Seq
		for i := range seq {
			for _, c := range []annotate.Change{
				{Contig: g.Contigs[0], Start: i, End: i + 1, Ref: string(seq[i : i+1]), Alt: "A"},
				{Contig: g.Contigs[0], Start: i, End: i, Alt: "GATGATGA"},
				{Contig: g.Contigs[0], Start: 5, End: i + 1, Alt: "<DEL>"},
			} {
				if c.Start > c.End {
					continue
				}
				entries, err := s.Find(nil, c)
				if err != nil {
					continue
				}
				for k := range entries {
					_, _ = entries[k].Known()
					_, _ = entries[k].ID()
				}
			}
		}
	})
}

// fuzzCompile compiles text in each of the given ways; the compiled file must be whole.
func fuzzCompile(t *testing.T, text string, configs ...Config) {
	if len(text) > 1<<16 {
		return
	}
	for _, cfg := range configs {
		cfg.Genome, cfg.Name, cfg.Version = readGenome(t, reference), "s", "1"
		out, err := os.CreateTemp(t.TempDir(), "*.pss")
		require.NoError(t, err)
		defer out.Close()
		if _, err := compile(context.Background(), cfg, bytes.NewReader([]byte(text)), "in", out); err != nil {
			continue
		}
		s, err := Open(out.Name(), cfg.Genome)
		require.NoError(t, err)
		require.NoError(t, s.Verify())
		for _, c := range cfg.Genome.Contigs {
			for i := range c.Seq {
				entries, err := s.Find(nil, annotate.Change{Contig: c, Start: i, End: i + 1, Ref: string(c.Seq[i]), Alt: "T"})
				require.NoError(t, err)
				for k := range entries {
					_, err := entries[k].Known()
					require.NoError(t, err)
				}
			}
		}
		require.NoError(t, s.Close())
	}
}

var allMatches = []annotate.Match{annotate.MatchExact, annotate.MatchPosition, annotate.MatchOverlap}

func FuzzVCF(f *testing.F) {
	for _, text := range []string{clinvar, gnomad, dbsnp} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { fuzzCompile(t, text, Config{}, Config{Matches: allMatches}) })
}

func FuzzBED(f *testing.F) {
	f.Add("chr1\t0\t5\tname\t1\t+\n1 2 3\n#\ntrack\n")
	f.Fuzz(func(t *testing.T, text string) { fuzzCompile(t, text, Config{Kind: "bed"}) })
}

func FuzzTSV(f *testing.F) {
	f.Add("#c\tp\tr\ta\tx\nchr1\t1\tA\tC,-\t0.5\n")
	f.Fuzz(func(t *testing.T, text string) {
		fuzzCompile(t, text,
			Config{Kind: "tsv", Columns: map[string]string{"chrom": "c", "pos": "p", "ref": "r", "alt": "a"}, Matches: allMatches},
			Config{Kind: "tsv", Columns: map[string]string{"chrom": "1", "start": "2", "end": "3"}, Fields: []string{"x=2:Integer"}})
	})
}
