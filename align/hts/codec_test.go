package hts_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/biogo/hts/sam"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/align/hts"
)

// header is what programs write into headers: comments with tabs, the grouping order, times
// with fractions and zones, fields in any order, and kinds of lines that aren't in the specification.
const header = "@HD\tVN:1.6\tGO:query\tSO:unsorted\tSS:unsorted:x\n" +
	"@SQ\tSN:c1\tLN:70000\tM5:0123456789ABCDEF0123456789abcdef\tUR:s3://bucket/ref.fa\n@SQ\tLN:3000\tSN:c2\tTP:circular\n" +
	"@RG\tID:a\tDT:2026-03-01T10:11:12.345+02:00\tSM:one\tPL:ONT\tPU:FLO1\tPM:X1\tPI:0\tDS:runid=r basecall_model=m\n" +
	"@RG\tSM:two\tID:b\tDT:2026-03-01\n" +
	"@PG\tPN:x\tID:x\tCL:x \"a b\"\n@CO\tone\ttwo\tthree\n@CO\t\n@xx\town\n"

// anyLines are lines of SAM of every kind, n of them.
func anyLines(rnd *rand.Rand, n int) []string {
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	letters := func(alphabet string, n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = alphabet[rnd.IntN(len(alphabet))]
		}
		return string(b)
	}
	tags := []string{
		"NM:i:0", "NM:i:255", "NM:i:65536", "xi:i:-1", "xi:i:-129", "xi:i:-40000", "xu:i:4294967295", "de:f:0.0123", "qs:f:1e-20", "qs:f:17",
		"er:Z:", "MM:Z:", "MM:Z:C+m?,1,2;", "RG:Z:a", "BC:Z:barcode01", "ML:B:C", "ML:B:C,0,255", "mv:B:c,5,1,0,-1", "xs:B:s,-32768,7", "xS:B:S,65535",
		"xI:B:I,4294967295,0", "xj:B:i,-2147483648", "xf:B:f,0.5,-3e+10", "xf:B:f", "tp:A:P", "XH:H:1AE301", "XH:H:", "st:Z:2026-03-01T10:11:12.345+02:00",
	}
	lines := make([]string, 0, n)
	for i := range n {
		size := rnd.IntN(60)
		seq, qual := letters("ACGTN=RY", size), letters("!5~I*", size)
		if size == 0 {
			seq = "*"
		}
		if size == 0 || rnd.IntN(4) == 0 || qual == "*" {
			qual = "*"
		}
		flag, ref, pos, cigar, mate, matePos, length := 4, "*", 0, "*", "*", 0, 0
		if rnd.IntN(5) > 0 {
			flag, ref, pos = []int{0, 16, 256, 272, 2048, 2064, 1024, 512, 65 + 16, 129}[rnd.IntN(10)], pick("c1", "c2"), 1+rnd.IntN(2000)
			if size > 4 {
				cigar = pick(fmt.Sprintf("%dM", size), fmt.Sprintf("2S%d=1X1I", size-4), fmt.Sprintf("7H%dM2D3N4P3I", size-3), fmt.Sprintf("%dS", size), "*")
			}
			if flag&1 != 0 {
				mate, matePos, length = pick("=", "c1", "c2", "*"), rnd.IntN(2000), rnd.IntN(400)-200
				if mate == ref {
					mate = "="
				}
			}
		}
		columns := []string{
			fmt.Sprint("read/", i, pick("", ":x", "@1")), fmt.Sprint(flag), ref, fmt.Sprint(pos), fmt.Sprint(rnd.IntN(256)), cigar, mate, fmt.Sprint(matePos), fmt.Sprint(length), seq, qual,
		}
		used := make(map[string]bool)
		for range rnd.IntN(7) {
			if tag := tags[rnd.IntN(len(tags))]; !used[tag[:2]] {
				used[tag[:2]] = true
				columns = append(columns, tag)
			}
		}
		lines = append(lines, strings.Join(columns, "\t"))
	}
	return lines
}

// rewrite reads a file and writes it in a format.
func rewrite(t testing.TB, in []byte, format hts.Format) []byte {
	t.Helper()
	r, err := hts.NewReader(bytes.NewReader(in), 1)
	require.NoError(t, err)
	var out bytes.Buffer
	w, err := hts.NewWriter(&out, format, r.Lines(), r.Header().Refs(), 1)
	require.NoError(t, err)
	for {
		rec, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.NoError(t, w.Write(rec))
	}
	require.NoError(t, w.Close())
	require.NoError(t, r.Close())
	return out.Bytes()
}

// TestWrittenAgain: records and headers that are read from SAM or BAM and written again as
// either are the same to the byte, and samtools finds in our BAM what was in the text.
func TestWrittenAgain(t *testing.T) {
	samtools, samtoolsErr := exec.LookPath("samtools")
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		lines := anyLines(rnd, 50)
		// More operations than BAM counts, in a read and in one that is longer than a buffer.
		lines = append(lines, fmt.Sprintf("long\t16\tc1\t1\t60\t%s\t*\t0\t0\t%s\t%s\tNM:i:1", strings.Repeat("1M1I", 33_000), strings.Repeat("AC", 33_000), strings.Repeat("5I", 33_000)))
		text := []byte(header + strings.Join(lines, "\n") + "\n")
		require.Equal(t, string(text), string(rewrite(t, text, hts.SAM)))
		compressed := rewrite(t, text, hts.BAM)
		require.Equal(t, compressed, rewrite(t, compressed, hts.BAM))
		require.Equal(t, string(text), string(rewrite(t, compressed, hts.SAM)))
		if samtoolsErr != nil || seed > 3 {
			continue
		}
		path := filepath.Join(t.TempDir(), "x.bam")
		require.NoError(t, os.WriteFile(path, compressed, 0o600))
		view, err := exec.CommandContext(t.Context(), samtools, "view", "--no-PG", path).Output()
		require.NoError(t, err)
		for i, line := range strings.Split(strings.TrimSuffix(string(view), "\n"), "\n") {
			// samtools writes numbers with fractions in its own way.
			want, got := strings.Split(lines[i], "\t"), strings.Split(line, "\t")
			require.Equal(t, len(want), len(got), lines[i])
			for k := range want {
				if !strings.Contains(want[k], ":f:") && !strings.Contains(want[k], ":B:f") {
					require.Equal(t, want[k], got[k], lines[i])
				}
			}
		}
	}
	if samtoolsErr != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(samtoolsErr)
		}
		t.Skip("samtools is not installed: compared with our own reader alone")
	}
}

// TestReadsSamtoolsBAM: what samtools makes of the text is read as the text is.
func TestReadsSamtoolsBAM(t *testing.T) {
	samtools, err := exec.LookPath("samtools")
	if err != nil {
		t.Skip("samtools is not installed")
	}
	// What has no CIGAR is unmapped to samtools.
	lines := slices.DeleteFunc(anyLines(rand.New(rand.NewPCG(8, 8)), 300), func(line string) bool {
		columns := strings.Split(line, "\t")
		return columns[5] == "*" && columns[1] != "4"
	})
	require.Greater(t, len(lines), 150)
	// samtools refuses kinds of lines that it doesn't know.
	text := strings.ReplaceAll(header, "@xx\town\n", "") + strings.Join(lines, "\n") + "\n"
	cmd := exec.CommandContext(t.Context(), samtools, "view", "--no-PG", "-b", "-")
	cmd.Stdin = strings.NewReader(text)
	made, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, text, string(rewrite(t, made, hts.SAM)))
}

// TestTextIsReadAsSamtoolsReadsIt: the reader of text takes what samtools takes, and says of what it doesn't take
// where it is.
func TestTextIsReadAsSamtoolsReadsIt(t *testing.T) {
	const record = "r\t0\tc1\t1\t60\t4M\t*\t0\t0\tACGT\t!!!!"
	for _, tc := range []struct{ name, text, want, err string }{
		{name: "no line end", text: record, want: record},
		{name: "Windows, a mark and blank lines", text: "\xef\xbb\xbf@SQ\tSN:c1\tLN:9\r\n" + record + "\r\n\r\n", want: record},
		{name: "U", text: "r\t4\t*\t0\t0\t*\t*\t0\t0\tAUGu\t*\n", want: "r\t4\t*\t0\t0\t*\t*\t0\t0\tATGT\t*"},
		{name: "no header", text: record + "\n", want: record},
		{name: "flags in hex", text: strings.Replace(record, "\t0\tc1", "\t0x10\tc1", 1), want: strings.Replace(record, "\t0\tc1", "\t16\tc1", 1)},
		{name: "a CIGAR of other length", text: strings.Replace(record, "4M", "5M", 1), want: strings.Replace(record, "4M", "5M", 1)},
		{name: "a tag of nothing", text: record + "\t\tNM:i:1", want: record + "\tNM:i:1"},
		{name: "an array of nothing behind a comma", text: record + "\tML:B:C,", want: record + "\tML:B:C"},
		{name: "ten columns", text: "r\t0\tc1\t1\t60\t4M\t*\t0\t0\tACGT", err: "line 1: it has 10 columns"},
		{name: "another contig", text: "@SQ\tSN:c2\tLN:9\n" + record, err: `line 2: the header has no reference "c1"`},
		{name: "qualities", text: record + "!", err: "line 1: 5 qualities for 4 bases"},
		{name: "a quality", text: strings.Replace(record, "!!!!", "!! !", 1), err: "line 1: ' ' is no quality"},
		{name: "a CIGAR", text: strings.Replace(record, "4M", "M4", 1), err: `"M4" is no CIGAR`},
		{name: "a position", text: strings.Replace(record, "c1\t1", "c1\tx", 1), err: `column 4: "x" is no number`},
		{name: "a tag", text: record + "\tNMi1", err: `"NMi1" is no tag`},
		{name: "an array's type", text: record + "\tML:B:", err: `"ML:B:" is no tag`},
		{name: "an array's range", text: record + "\tML:B:C,256", err: `"ML:B:C,256" is no tag`},
		{name: "an array's end", text: record + "\tML:B:C,1,", err: "is no tag"},
		{name: "a number's range", text: record + "\tNM:i:4294967296", err: "is no tag"},
		{name: "hex", text: record + "\tXH:H:1A3", err: "is no tag"},
		{name: "a header without length", text: "@SQ\tSN:c1\n", err: "line 1"},
		{name: "a contig twice", text: "@SQ\tSN:c1\tLN:9\n@SQ\tSN:c1\tLN:9\n", err: "line 2: reference c1 occurs twice"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := func() (string, error) {
				r, err := hts.NewSAMReader(strings.NewReader(tc.text))
				if err != nil {
					return "", err
				}
				rec, err := r.Read()
				if err != nil {
					return "", err
				}
				var out bytes.Buffer
				w, err := hts.NewWriter(&out, hts.SAM, nil, r.Header().Refs(), 1)
				require.NoError(t, err)
				require.NoError(t, w.Write(rec))
				require.NoError(t, w.Close())
				_, err = r.Read()
				require.ErrorIs(t, err, io.EOF)
				return strings.TrimSuffix(out.String(), "\n"), nil
			}()
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

// TestProgramLine: a program goes behind the last one, before the comments, under an id of its own.
func TestProgramLine(t *testing.T) {
	lines := hts.Lines{"@HD\tVN:1.6", "@PG\tID:pore\tPN:pore", "@CO\tlast\tword"}
	require.Equal(t, hts.Lines{
		"@HD\tVN:1.6", "@PG\tID:pore\tPN:pore", "@PG\tID:pore.1\tPN:pore\tCL:pore call\tPP:pore\tVN:2", "@CO\tlast\tword",
	}, lines.WithProgram("pore", [3]string{"pore", "2", "pore call"}))
	require.Len(t, lines, 3)
}

// TestParseLeavesRecords: parsing doesn't change a record, whatever its strand.
func TestParseLeavesRecords(t *testing.T) {
	ref := bytes.Repeat([]byte("ACGTTGCA"), 10_000)
	r, err := hts.NewSAMReader(strings.NewReader(header + strings.Join(anyLines(rand.New(rand.NewPCG(1, 1)), 3000), "\n") + "\n"))
	require.NoError(t, err)
	parsed, reversed := 0, 0
	for {
		rec, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		before := binaryOf(rec)
		if rec.Ref != nil {
			read, a, err := hts.Parse(rec, ref)
			if err == nil {
				parsed++
				require.NotContains(t, string(read.Seq), "=")
				if a.Reverse && len(read.Qualities) > 0 {
					reversed++
				}
			}
		}
		require.Equal(t, before, binaryOf(rec), rec.Name)
	}
	require.Greater(t, parsed, 500)
	require.Greater(t, reversed, 100)
}

// TestMemoryIsUsedAgain: what is read, parsed and cut in memory that is used again is what it is in
// memory of its own.
func TestMemoryIsUsedAgain(t *testing.T) {
	ref := bytes.Repeat([]byte("ACGTTGCA"), 10_000)
	text, err := hts.NewSAMReader(strings.NewReader(header + strings.Join(anyLines(rand.New(rand.NewPCG(2, 2)), 2000), "\n") + "\n"))
	require.NoError(t, err)
	var file bytes.Buffer
	w, err := hts.NewWriter(&file, hts.BAM, text.Lines(), text.Header().Refs(), 1)
	require.NoError(t, err)
	var whole [][]byte
	for {
		rec, err := text.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.NoError(t, w.Write(rec))
		whole = append(whole, binaryOf(rec))
	}
	require.NoError(t, w.Close())
	r, err := hts.NewBAMReader(bytes.NewReader(file.Bytes()), 2)
	require.NoError(t, err)
	defer r.Close()
	r.Reuse()
	var parser hts.Parser
	var cutter align.Cutter
	compared := 0
	for i := range whole {
		rec, err := r.Read()
		require.NoError(t, err)
		require.Equal(t, whole[i], binaryOf(rec))
		if rec.Ref == nil {
			continue
		}
		read, a, err := hts.Parse(rec, ref)
		again, b, errAgain := parser.Parse(rec, ref)
		require.Equal(t, err, errAgain)
		if err != nil {
			continue
		}
		require.Equal(t, a, b)
		want, err := align.Segments(read, a, ref)
		require.NoError(t, err)
		got, err := cutter.Segments(again, b, ref)
		require.NoError(t, err)
		require.Len(t, got, len(want))
		for k := range want {
			require.True(t, proto.Equal(want[k], got[k]), "%s: %v, not %v", rec.Name, got[k], want[k])
			compared++
		}
	}
	require.Greater(t, compared, 300)
}

// binaryOf is everything that a record holds.
func binaryOf(rec *sam.Record) []byte {
	b := fmt.Appendf(nil, "%+v %v", *rec, rec.Cigar)
	for _, d := range rec.Seq.Seq {
		b = append(b, byte(d))
	}
	return append(b, rec.Qual...)
}

// TestParseFaults: each kind of unusable record has its own error, and = is the reference's base.
func TestParseFaults(t *testing.T) {
	ref := []byte("ACGTACGTAC")
	contig, err := sam.NewReference("c1", "", "", len(ref), nil, nil)
	require.NoError(t, err)
	parse := func(pos int, cigar, seq string) (string, error) {
		line := fmt.Sprintf("@SQ\tSN:c1\tLN:%d\nr\t0\tc1\t%d\t60\t%s\t*\t0\t0\t%s\t*\n", len(ref), pos, cigar, seq)
		r, err := hts.NewSAMReader(strings.NewReader(line))
		require.NoError(t, err)
		rec, err := r.Read()
		require.NoError(t, err)
		rec.Ref = contig
		read, a, err := hts.Parse(rec, ref)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s %d-%d %d-%d %v", read.Seq, a.QueryStart, a.QueryEnd, a.Start, a.End, a.Ops), nil
	}
	for _, tc := range []struct {
		pos        int
		cigar, seq string
		want       string
		err        error
	}{
		{1, "4M", "ACGT", "ACGT 0-4 0-4 [{= 4}]", nil},
		{1, "4M", "==G=", "ACGT 0-4 0-4 [{= 4}]", nil},
		{1, "2S4M1I", "=A==T==", "NAACTTN 2-6 0-4 [{= 2} {X 1} {= 1}]", nil},
		{3, "2D2M0M", "AC", "AC 0-2 4-6 [{= 2}]", nil},
		{1, "4S", "ACGT", "", hts.ErrNoMatch},
		{1, "4I", "ACGT", "", hts.ErrNoMatch},
		{1, "2S2I0M", "ACGT", "", hts.ErrNoMatch},
		{1, "2M1N2M", "ACGT", "", hts.ErrSpliced},
		{9, "4M", "ACGT", "", hts.ErrBeyond},
		{12, "4M", "ACGT", "", hts.ErrBeyond},
		{8, "2M5D2M", "ACGT", "", hts.ErrBeyond},
		{1, "3M", "ACGT", "", hts.ErrCIGAR},
		{1, "5M", "ACGT", "", hts.ErrCIGAR},
		{1, "*", "ACGT", "", hts.ErrCIGAR},
		{5, "2M1B2M", "ACGT", "", hts.ErrCIGAR},
	} {
		got, err := parse(tc.pos, tc.cigar, tc.seq)
		if tc.err != nil {
			require.ErrorIs(t, err, tc.err, tc.cigar)
			continue
		}
		require.NoError(t, err, tc.cigar)
		require.Equal(t, tc.want, got)
	}
}

// FuzzSAM: text is refused, or read and written again as the same records by way of BAM;
// nothing panics.
func FuzzSAM(f *testing.F) {
	f.Add([]byte(header + strings.Join(anyLines(rand.New(rand.NewPCG(2, 2)), 20), "\n")))
	f.Add([]byte("r\t0\tc1\t1\t60\t1M\t*\t0\t0\tA\t*\tML:B:C\tMM:Z:\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := hts.NewSAMReader(bytes.NewReader(text))
		if err != nil {
			return
		}
		var list []*sam.Record
		for len(list) < 100 {
			rec, err := r.Read()
			if err != nil {
				break
			}
			list = append(list, rec)
		}
		write := func(format hts.Format, list []*sam.Record) []byte {
			var out bytes.Buffer
			w, err := hts.NewWriter(&out, format, nil, r.Header().Refs(), 1)
			require.NoError(t, err)
			for _, rec := range list {
				require.NoError(t, w.Write(rec))
			}
			require.NoError(t, w.Close())
			return out.Bytes()
		}
		again, err := hts.NewBAMReader(bytes.NewReader(write(hts.BAM, list)), 1)
		require.NoError(t, err)
		var second []*sam.Record
		for {
			rec, err := again.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			second = append(second, rec)
		}
		require.Equal(t, string(write(hts.SAM, list)), string(write(hts.SAM, second)))
	})
}

// FuzzRecord: whatever stands in a record of BAM, it is refused or read; nothing panics, and
// no more memory is taken than there are bytes.
func FuzzRecord(f *testing.F) {
	_, head, _ := setup(f)
	prefix := rawHeader(f, head)
	plain := plainBAM(f)
	f.Add(plain[len(prefix):])
	f.Fuzz(func(t *testing.T, records []byte) {
		_, _ = readAll(bytes.NewReader(inBlocks(t, append(bytes.Clone(prefix), records...))), 1)
	})
}

// rawHeader is the header of a BAM file without compression.
func rawHeader(t testing.TB, h *sam.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, h.EncodeBinary(&b))
	require.Equal(t, uint32(len(h.Refs())), binary.LittleEndian.Uint32(b.Bytes()[8+int(binary.LittleEndian.Uint32(b.Bytes()[4:])):]))
	return b.Bytes()
}
