package genome

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// save writes a FASTA file and, if index is not empty, its index.
func save(t testing.TB, fasta, index string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ref.fa")
	require.NoError(t, os.WriteFile(path, []byte(fasta), 0o600))
	if index != "" {
		require.NoError(t, os.WriteFile(path+".fai", []byte(index), 0o600))
	}
	return path
}

// faidx is the index of a FASTA text, by its definition.
func faidx(fasta string) string {
	var b strings.Builder
	offset := 0
	for _, record := range strings.Split(fasta, ">")[1:] {
		header, body, _ := strings.Cut(record, "\n")
		offset += 1 + len(header) + 1
		first, _, _ := strings.Cut(body, "\n")
		width := len(first) + 1
		name := strings.Fields(header)[0]
		bases := strings.TrimRight(first, "\r")
		fmt.Fprintf(&b, "%s\t%d\t%d\t%d\t%d\n", name, len(strings.NewReplacer("\n", "", "\r", "").Replace(body)), offset, len(bases), width)
		offset += len(body)
	}
	return b.String()
}

// TestMappedEqualsRead maps files and compares with what is read from them without an index.
func TestMappedEqualsRead(t *testing.T) {
	for name, fasta := range map[string]string{
		"one line each":    ">a x\nACGTN\n>b\tz\nGGR\n",
		"no final newline": ">a\nACGT\n>b\nGG",
		"soft mask":        ">a\nACgtnACGT\n>b\nggggg\n",
		"CRLF":             ">a\r\nACGT\r\n>b\r\nGG\r\n",
		"blank lines":      ">a\nACGT\n\n>b\nGG\n\n",
		"wrapped":          ">a\nACGT\nAC\n>b\nGGTT\nGGTT\nA\n",
	} {
		t.Run(name, func(t *testing.T) {
			path := save(t, fasta, faidx(fasta))
			want, err := Read(strings.NewReader(fasta))
			require.NoError(t, err)
			got, err := load(path, 1, nil)
			require.NoError(t, err)
			require.Equal(t, want.Names(), got.Names())
			for i, c := range got.Contigs {
				require.Equal(t, want.Contigs[i].Seq, c.Seq)
				require.Same(t, c, got.Contig(c.Name))
			}
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, fasta, string(after), "the file is not written to")
		})
	}
}

func TestIndexRefuses(t *testing.T) {
	const fasta = ">a\nACGTACGT\n>b\nGGGG\n"
	good := faidx(fasta)
	for _, c := range []struct{ name, fasta, index, want string }{
		{"columns", fasta, "a\t8\t3\t8\n", "line 1: 4 columns, want 5: not a faidx index"},
		{"number", fasta, "a\t8\tx\t8\t9\n", `line 1: "x" is not a number of bytes`},
		{"impossible", fasta, "a\t8\t3\t8\t7\n", "line 1: contig \"a\" of 8 bases in lines of 8 bases and 7 bytes is impossible"},
		{"twice", fasta, good + good, `line 3: contig "a" appears twice`},
		{"other name", strings.Replace(fasta, ">b", ">c", 1), good, "does not fit the file"},
		{"shorter file", ">a\nACGTACGT\n", good, "does not fit the file"},
		{"longer file", fasta + ">c\nAC\n", good, "does not fit the file"},
		{"other length", strings.Replace(fasta, "GGGG", "GGGGG", 1), good, "does not fit the file"},
		{"longer header", strings.Replace(fasta, ">a", ">a b", 1), good, "make it anew with samtools faidx"},
		{"illegal letter", strings.Replace(fasta, "GGGG", "GG-G", 1), good, `'-' is not a nucleotide letter (contig "b"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := save(t, c.fasta, c.index)
			_, err := load(path, 1, nil)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, path)
			if c.name == "longer header" { // is no fault of an index that is only compared
				return
			}
			_, err = load(path, 1<<30, nil)
			require.ErrorContains(t, err, c.want)
		})
	}
	path := save(t, fasta, "x")
	require.NoError(t, os.WriteFile(path+".fai", nil, 0o600))
	_, err := Load(path)
	require.ErrorContains(t, err, "the index is empty")
}

// TestLargeGenomesLieOutsideTheHeap reads more than is left to the heap.
func TestLargeGenomesLieOutsideTheHeap(t *testing.T) {
	b := reserve(largeGenome)
	require.Equal(t, largeGenome, cap(b))
	b = append(b, 'A')
	require.Equal(t, byte('A'), b[0])
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte("a\t8\t3\t8\t9\nb\t4\t15\t4\t5\n"))
	f.Add([]byte("a\t9223372036854775807\t1\t1\t1\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		list, err := readIndex(bytes.NewReader(in))
		if err != nil {
			return
		}
		// Whatever an index says, a file that it does not fit is refused, and one that it fits is read as without it.
		fasta := []byte(">a\nACGTACGT\n>b\nGGGG\n")
		if !unwrapped(list) {
			return
		}
		g, err := view("f", bytes.Clone(fasta), list)
		if err != nil {
			return
		}
		want, err := Read(bytes.NewReader(fasta))
		if err != nil {
			t.Fatal(err)
		}
		if err := g.checkIndex("f", list); err != nil || len(g.Contigs) != len(want.Contigs) {
			t.Fatalf("%v: %v", err, g.Names())
		}
		for i, c := range g.Contigs {
			if !bytes.Equal(c.Seq, want.Contigs[i].Seq) {
				t.Fatalf("%s: %s", c.Name, c.Seq)
			}
		}
	})
}

// BenchmarkLoad reads 128 million bases as they are usually written and maps those that have a line each.
func BenchmarkLoad(b *testing.B) {
	seq := make([]byte, 32<<20)
	for i := range seq {
		seq[i] = "ACGT"[rand.Uint32()&3]
	}
	for _, width := range []int{60, len(seq)} {
		var fasta strings.Builder
		for i := range 4 {
			fmt.Fprintf(&fasta, ">chr%d\n", i)
			for at := 0; at < len(seq); at += width {
				fasta.Write(seq[at:min(at+width, len(seq))])
				fasta.WriteByte('\n')
			}
		}
		path := save(b, fasta.String(), faidx(fasta.String()))
		fasta.Reset()
		for kind, load := range map[string]func(string) (*Genome, error){"flat": Load, "packed": LoadPacked} {
			b.Run(fmt.Sprintf("width=%d/%s", width, kind), func(b *testing.B) {
				b.SetBytes(4 * int64(len(seq)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := load(path); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
