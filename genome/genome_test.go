package genome

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/biogo/hts/bgzf"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/vrs"
)

// gz compresses each part as a gzip member of its own.
func gz(t testing.TB, parts ...string) []byte {
	var b bytes.Buffer
	for _, p := range parts {
		w := gzip.NewWriter(&b)
		if _, err := io.WriteString(w, p); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestRead(t *testing.T) {
	const plain = ">chr1 the first\nACGTN\nacgtr\n\n>chr2\tsecond\nGG\n"
	var bg bytes.Buffer
	w := bgzf.NewWriter(&bg, 1)
	if _, err := io.WriteString(w, plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		in   []byte
	}{
		{"plain", []byte(plain)},
		{"no final newline", []byte(strings.TrimSuffix(plain, "\n"))},
		{"CRLF", []byte(strings.ReplaceAll(plain, "\n", "\r\n"))},
		{"gzip", gz(t, plain)},
		{"gzip members", gz(t, plain[:20], plain[20:])},
		{"bgzip", bg.Bytes()},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, r := range []io.Reader{bytes.NewReader(c.in), iotest.OneByteReader(bytes.NewReader(c.in))} {
				g, err := Read(r)
				if err != nil {
					t.Fatal(err)
				}
				if got := strings.Join(g.Names(), ","); got != "chr1,chr2" {
					t.Fatalf("names %s", got)
				}
				if got := string(g.Contig("chr1").Seq); got != "ACGTNACGTR" {
					t.Errorf("chr1 = %s", got)
				}
				if got := string(g.Contig("chr2").Seq); got != "GG" {
					t.Errorf("chr2 = %s", got)
				}
				if got, want := g.Contig("chr2").Digest(), "SQ."+vrs.Digest([]byte("GG")); got != want {
					t.Errorf("digest %s, want %s", got, want)
				}
				if g.Contig("chr3") != nil {
					t.Error("chr3 exists")
				}
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", "the file is empty"},
		{"blank", "\n\n", "the file is empty"},
		{"no header", "\nACGT\n", "line 2: sequence before the first '>' header"},
		{"no name", ">a\nA\n> x\nA\n", "line 3: header without a name"},
		{"duplicate", ">a\nA\n>b\nC\n>a x\nA\n", `line 5: contig "a" appears twice`},
		{"no sequence", ">a\n>b\nA\n", `line 2: contig "a" has no sequence`},
		{"no sequence at the end", ">a\nC\n>b", `contig "b" has no sequence`},
		{"illegal byte", ">a\nACGT\nAC7T\n", `line 3: '7' is not a nucleotide letter (contig "a")`},
		{"gap", ">a\nAC-T\n", "line 2: '-'"},
		{"inner space", ">a\nAC T\n", "line 2: ' '"},
		{"lone carriage return", ">a\nAC\rGT\n", `line 2: '\r'`},
		{"long header", ">" + strings.Repeat("x", 70000) + "\nA\n", "line 1: header line longer than 65536 bytes"},
		{"damaged gzip", string(gz(t, ">a\nACGTACGT\n")[:20]), "unexpected EOF"},
		{"not FASTA", "BAM\x01....", "line 1: sequence before the first '>' header: not FASTA"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Read(strings.NewReader(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	path := filepath.Join(t.TempDir(), "ref.fa")
	if err := os.WriteFile(path, []byte(">a\n!\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path+": line 2: '!'") {
		t.Errorf("error %v does not name file and line", err)
	}
	if _, err := Load(path + ".gone"); err == nil || !strings.Contains(err.Error(), ".gone") {
		t.Errorf("missing file: %v", err)
	}
}

// TestLongLines reads sequence lines longer than every buffer, with the line end cut anywhere.
func TestLongLines(t *testing.T) {
	for _, n := range []int{256<<10 - 4, 256<<10 - 3, 256<<10 - 2, 256 << 10, 1 << 20} {
		g, err := Read(strings.NewReader(">a\n" + strings.Repeat("A", n) + "\r\nC\r\n"))
		if err != nil {
			t.Fatalf("%d: %v", n, err)
		}
		if got := len(g.Contigs[0].Seq); got != n+1 {
			t.Errorf("%d residues, want %d", got, n+1)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(">a\nACGT\n>b\nNNNN"))
	f.Add([]byte(">a\r\nacgu\r\n"))
	f.Add(gz(f, ">a\nACGT\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 1<<16 {
			return
		}
		g, err := Read(bytes.NewReader(in))
		packed, packedErr := read(bytes.NewReader(in), 0, false, new(arena))
		if fmt.Sprint(packedErr) != fmt.Sprint(err) {
			t.Fatalf("packed: %v, else %v", packedErr, err)
		}
		if err != nil {
			return
		}
		for i, c := range g.Contigs {
			if !bytes.Equal(packed.Contigs[i].Flat(), c.Seq) {
				t.Fatalf("packed: %s is %s", c.Name, packed.Contigs[i].Flat())
			}
			if g.Contig(c.Name) != c || len(c.Seq) == 0 || !strings.HasPrefix(c.Digest(), "SQ.") {
				t.Fatalf("inconsistent contig %+v", c)
			}
			for _, b := range c.Seq {
				if letter[b] != b {
					t.Fatalf("byte %q in a sequence", b)
				}
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	line := strings.Repeat("ACGTTGCATG", 6) + "\n"
	in := []byte(">a\n" + strings.Repeat(line, 20000))
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Read(bytes.NewReader(in)); err != nil {
			b.Fatal(err)
		}
	}
}

// Blanks at the ends of lines, carriage returns and a byte-order mark are no part of the sequence, wherever the reader's
// buffer ends; a blank inside a line is an error.
func TestBlanksAtLineEndsAreLeftOut(t *testing.T) {
	long := strings.Repeat("ACGT", 100_000)
	for name, text := range map[string]string{
		"blanks":             ">c one\nACGT  \nAC \n\t\n",
		"tabs and returns":   ">c one\r\nACGT\t\r\nAC \r\n \r\n",
		"byte-order mark":    "\xef\xbb\xbf>c one\nACGTAC\n",
		"no line at the end": ">c one\nACGTAC   ",
	} {
		for how, r := range map[string]io.Reader{"at once": strings.NewReader(text), "by bytes": iotest.OneByteReader(strings.NewReader(text))} {
			g, err := Read(r)
			require.NoError(t, err, "%s, %s", name, how)
			require.Equal(t, "ACGTAC", string(g.Contig("c").Seq), "%s, %s", name, how)
		}
	}
	for n := 255 << 10; n < 257<<10; n += 101 { // where the buffer ends
		g, err := Read(strings.NewReader(">c\n" + long[:n] + "   \nACGT\n"))
		require.NoError(t, err)
		require.Len(t, g.Contig("c").Seq, n+4)
		_, err = Read(strings.NewReader(">c\n" + long[:n] + strings.Repeat(" ", 500) + "ACGT\n"))
		require.Error(t, err)
	}
	for _, in := range []string{">c\nAC GT\n", ">c\nAC\rGT\n", ">c\n ACGT\n"} {
		_, err := Read(strings.NewReader(in))
		require.ErrorContains(t, err, "line 2", "%q", in)
	}
}

// TestUpperIntoIsTheTable: every letter in every place of a piece is what the table says, beside bases and beside itself.
func TestUpperIntoIsTheTable(t *testing.T) {
	lengths := []int{1, 7, 8, 9, 17, 32, 33, 60, 71}
	for c := range 256 * len(lengths) {
		length := lengths[c/256]
		for at := range length {
			piece := bytes.Repeat([]byte("ACGTacgtTGCAtgcaC"), 5)[:length]
			piece[at] = byte(c)
			want, all := make([]byte, len(piece)), true
			for i, p := range piece {
				want[i] = letter[p]
				all = all && want[i] != 0
			}
			got := make([]byte, len(piece))
			if ok := upperInto(got, piece); ok != all || !bytes.Equal(got, want) {
				t.Fatalf("%q: %q %v, want %q %v", piece, got, ok, want, all)
			}
		}
	}
}
