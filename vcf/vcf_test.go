package vcf

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/porestream/porestream/textfile"
)

const sampleVCF = `##fileformat=VCFv4.3
##contig=<ID=chr1,length=1000>
##contig=<ID=chr2>
##INFO=<ID=DP,Number=1,Type=Integer,Description="Depth, with a \"quoted\" comma">
##weird line that nobody knows
#CHROM	POS	ID	REF	ALT	QUAL	FILTER	INFO	FORMAT	s1	s2
chr1	10	rs1;rs2	A	C,<DEL>,*	30.00	PASS	DP=10;DB;XX=;odd=a=b%3B	GT:AD:GL	0|1:3,4:-1e-05	./.
chr1	20	.	acgt	.	.	.	.	GT	1	0
chr2	0	.	N	G]chr1:5]	1e+3	q10;s50	END=5;	.	.	.
`

func readAll(t testing.TB, r io.Reader) (*Header, []*Record) {
	t.Helper()
	rd, err := NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	var recs []*Record
	for {
		rec, err := rd.Next()
		if errors.Is(err, io.EOF) {
			return rd.Header(), recs
		}
		if err != nil {
			t.Fatal(err)
		}
		recs = append(recs, rec)
	}
}

func write(t testing.TB, h *Header, recs []*Record) string {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, h)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recs {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestRoundTripIsByteExact(t *testing.T) {
	var zipped bytes.Buffer
	for _, part := range []string{sampleVCF[:100], sampleVCF[100:]} { // two members, as bgzip has many
		w := gzip.NewWriter(&zipped)
		fmt.Fprint(w, part)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, in := range map[string]io.Reader{
		"text":                           strings.NewReader(sampleVCF),
		"crlf":                           strings.NewReader(strings.ReplaceAll(sampleVCF, "\n", "\r\n")),
		"gzip":                           &zipped,
		"blank last line and no newline": strings.NewReader(strings.TrimSuffix(sampleVCF, "\n") + "\n\n"),
	} {
		h, recs := readAll(t, in)
		if got := write(t, h, recs); got != sampleVCF {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, sampleVCF)
		}
	}
}

func TestRecordFields(t *testing.T) {
	h, recs := readAll(t, strings.NewReader(sampleVCF))
	if got := h.Contigs(); !slices.Equal(got, []Contig{{"chr1", 1000}, {"chr2", 0}}) {
		t.Errorf("contigs %+v", got)
	}
	if got, want := h.InfoDescription("DP"), `Depth, with a "quoted" comma`; got != want {
		t.Errorf("description %q, want %q", got, want)
	}
	r := recs[0]
	if r.Chrom != "chr1" || r.Pos != 10 || r.ID != "rs1;rs2" || r.Ref != "A" || !slices.Equal(r.Alt, []string{"C", "<DEL>", "*"}) || r.Qual != 30 || !slices.Equal(r.Filter, []string{"PASS"}) {
		t.Errorf("fields %+v", r)
	}
	if v, ok := r.Info.Get("DP"); v != "10" || !ok {
		t.Errorf("DP = %q %v", v, ok)
	}
	if v, ok := r.Info.Get("DB"); v != "" || !ok {
		t.Errorf("DB = %q %v", v, ok)
	}
	if _, ok := r.Info.Get("NO"); ok {
		t.Error("NO is present")
	}
	if !slices.Equal(r.Samples[0], []string{"0|1", "3,4", "-1e-05"}) || !slices.Equal(r.Samples[1], []string{"./."}) {
		t.Errorf("samples %q", r.Samples)
	}
	if r = recs[1]; !math.IsNaN(r.Qual) || r.Alt != nil || r.Filter != nil || r.Info != nil {
		t.Errorf("missing fields %+v", r)
	}
}

func TestChangesAreWritten(t *testing.T) {
	h, recs := readAll(t, strings.NewReader(sampleVCF))
	out := h.Clone()
	out.AddInfo("DP", "1", "Integer", "Total depth")
	out.AddInfo("CSQ", ".", "String", `A "new" one`)
	r := recs[0]
	r.Qual = 12.3456789
	r.Info.Set("DP", "11")
	r.Info.Set("CSQ", "x|y")
	r.Info.SetFlag("DB")
	r.Info.SetFlag("NEW")
	r.Info.Delete("XX")
	got := write(t, out, recs[:1])
	for _, want := range []string{
		"\n##INFO=<ID=DP,Number=1,Type=Integer,Description=\"Total depth\">\n##weird",
		"\n##INFO=<ID=CSQ,Number=.,Type=String,Description=\"A \\\"new\\\" one\">\n#CHROM",
		"\t12.3457\tPASS\tDP=11;DB;odd=a=b%3B;CSQ=x|y;NEW\t",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if h.InfoDescription("CSQ") != "" {
		t.Error("the clone's change reached the original")
	}
}

func TestFormatFloat(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 30: "30", 29.5: "29.5", 100000: "100000", 1.0 / 3: "0.333333", 1e-9: "1e-09", math.NaN(): ".", 60.000001: "60"} {
		if got := FormatFloat(v); got != want {
			t.Errorf("FormatFloat(%v) = %q, want %q", v, got, want)
		}
	}
	if got, want := Escape("a;b=c,d:e%\t"), "a%3Bb%3Dc%2Cd%3Ae%25%09"; got != want {
		t.Errorf("Escape = %q, want %q", got, want)
	}
}

func TestReaderRefuses(t *testing.T) {
	const head = "##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n"
	const headS = "##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ta\tb\n"
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", "the file is empty"},
		{"no column line", "##fileformat=VCFv4.2\n", "ends before the #CHROM line"},
		{"not VCF", "hello\n", `line 1: first line is "hello"`},
		{"BCF", "BCF\x02\x02", "this is BCF"},
		{"binary", "##fileformat=VCFv4.2\n##\xff\xfe\n", "line 2: header is not UTF-8"},
		{"columns", "##fileformat=VCFv4.2\n#CHROM\tPOS\n", "line 2: column line"},
		{"ninth column", strings.TrimSuffix(head, "\n") + "\tX\n", "ninth column must be FORMAT"},
		{"twice the sample", strings.Replace(headS, "\tb", "\ta", 1), `sample "a" appears twice`},
		{"data early", "##fileformat=VCFv4.2\nchr1\t1\n", "line 2: data before the #CHROM line"},
		{"few columns", head + "chr1\t1\t.\tA\tC\t.\t.\n", "line 3: 7 columns, want 8"},
		{"many columns", head + "chr1\t1\t.\tA\tC\t.\t.\t.\tGT\t0\n", "line 3: 10 columns, want 8"},
		{"few samples", headS + "chr1\t1\t.\tA\tC\t.\t.\t.\tGT\t0\n", "line 3: 10 columns, want 11"},
		{"no samples", headS + "chr1\t1\t.\tA\tC\t.\t.\t.\n", "line 3: 8 columns, want 11"},
		{"empty column", head + "chr1\t1\t\tA\tC\t.\t.\t.\n", "line 3: column 3 is empty"},
		{"position", head + "chr1\tx\t.\tA\tC\t.\t.\t.\n", `line 3: POS "x" is not a position`},
		{"position too big", head + "chr1\t3000000000\t.\tA\tC\t.\t.\t.\n", "is not a position"},
		{"reference", head + "chr1\t1\t.\tA1\tC\t.\t.\t.\n", `line 3: REF "A1" is not a sequence`},
		{"alternate", head + "chr1\t1\t.\tA\tC,,G\t.\t.\t.\n", `line 3: ALT "C,,G"`},
		{"quality", head + "chr1\t1\t.\tA\tC\thigh\t.\t.\n", `line 3: QUAL "high" is not a number`},
		{"sample values", headS + "chr1\t1\t.\tA\tC\t.\t.\t.\tGT\t0:1\t0\n", `line 3: sample "a" has 2 values for 1 FORMAT keys`},
		{"late header", head + "##x\n", "line 3: header line after the data began"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rd, err := NewReader(strings.NewReader(c.in))
			if err == nil {
				_, err = rd.Next()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// TestReaderGoesOn reads past a malformed line when the caller wants to.
func TestReaderGoesOn(t *testing.T) {
	rd, err := NewReader(strings.NewReader("##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\nbad\nc\t7\t.\tA\tC\t.\t.\t.\n"))
	if err != nil {
		t.Fatal(err)
	}
	var le *LineError
	if _, err := rd.Next(); !errors.As(err, &le) || le.Line != 3 {
		t.Fatalf("error %v, want a LineError for line 3", err)
	}
	rec, err := rd.Next()
	if err != nil || rec.Pos != 7 || rd.Line() != 4 {
		t.Fatalf("%+v %v", rec, err)
	}
}

func TestTruncatedGzip(t *testing.T) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	fmt.Fprint(w, sampleVCF)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	rd, err := NewReader(bytes.NewReader(b.Bytes()[:b.Len()-20]))
	for err == nil {
		_, err = rd.Next()
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v, want an unexpected EOF", err)
	}
}

func TestWriterRefuses(t *testing.T) {
	w, err := NewWriter(io.Discard, NewHeader("VCFv4.3", "s"))
	if err != nil {
		t.Fatal(err)
	}
	for want, r := range map[string]*Record{
		"0 samples, the header has 1":      {Chrom: "c", Pos: 1, Ref: "A"},
		"CHROM and REF may not be empty":   {Pos: 1, Ref: "A", Samples: [][]string{{"0"}}},
		"POS outside":                      {Chrom: "c", Pos: -1, Ref: "A", Samples: [][]string{{"0"}}},
		"QUAL is infinite":                 {Chrom: "c", Pos: 1, Ref: "A", Qual: math.Inf(1), Samples: [][]string{{"0"}}},
		`INFO field "X" holds a separator`: {Chrom: "c", Pos: 1, Ref: "A", Info: Info{{Key: "X", Value: "a;b"}}, Samples: [][]string{{"0"}}},
	} {
		if err := w.Write(r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if _, err := NewWriter(io.Discard, &Header{}); err == nil {
		t.Error("a header without ##fileformat was written")
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(sampleVCF))
	f.Add([]byte("##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\n1\t1\t.\tA\tC\t.\t.\t.\tGT\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 1<<16 || len(in) > 1 && in[0] == 0x1f {
			return
		}
		rd, err := NewReader(bytes.NewReader(in))
		if err != nil {
			return
		}
		var once bytes.Buffer
		w, err := NewWriter(&once, rd.Header())
		if err != nil {
			t.Fatal(err)
		}
		for {
			rec, err := rd.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			var le *LineError
			if errors.As(err, &le) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if math.IsInf(rec.Qual, 0) {
				continue
			}
			if err := w.Write(rec); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		h, recs := readAll(t, bytes.NewReader(once.Bytes()))
		if again := write(t, h, recs); again != once.String() {
			t.Fatalf("not stable:\n%q\n%q", once.String(), again)
		}
	})
}

func BenchmarkReader(b *testing.B) {
	var in bytes.Buffer
	in.WriteString("##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ts\n")
	for i := range 10000 {
		fmt.Fprintf(&in, "chr1\t%d\t.\tA\tC\t%d.5\tPASS\tDP=%d;AF=0.5\tGT:DP\t0/1:%d\n", i+1, i%60, i%99, i%99)
	}
	b.SetBytes(int64(in.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, recs := readAll(b, bytes.NewReader(in.Bytes())); len(recs) != 10000 {
			b.Fatal(len(recs))
		}
	}
}

func TestHeaderThatNoReaderTakesIsNotWritten(t *testing.T) {
	for name, h := range map[string]*Header{
		"tab in a sample's name": NewHeader("VCFv4.3", "a\tb"),
		"sample without a name":  NewHeader("VCFv4.3", ""),
		"line end in a line":     {Meta: []string{"##fileformat=VCFv4.3", "##source=a\nb"}},
	} {
		if _, err := NewWriter(io.Discard, h); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("a;b=c,d:e%\t\x00\xff")
	f.Fuzz(func(t *testing.T, s string) {
		for _, e := range []*Escaper{values, NewEscaper("%;=,| ")} {
			escaped := e.Escape(s)
			if Unescape(escaped) != s || !utf8.ValidString(escaped) || strings.ContainsAny(escaped, ";=,\t\r\n\x00") {
				t.Errorf("%q is written as %q, read back as %q", s, escaped, Unescape(escaped))
			}
		}
	})
}

// Blanks and tabs at the ends of lines, and a byte-order mark, are no part of a VCF; whatever reads it, records or rows.
func TestBlanksAtLineEndsAreLeftOut(t *testing.T) {
	clean := strings.ReplaceAll(sampleVCF, "##weird line that nobody knows", "##weird line")
	ends := []string{" ", "\t", "  \t ", " \r", ""}
	var b strings.Builder
	b.WriteString("\xef\xbb\xbf")
	for i, line := range strings.Split(strings.TrimSuffix(clean, "\n"), "\n") {
		b.WriteString(line + ends[i%len(ends)] + "\n")
	}
	b.WriteString("  \n")
	h, want := readAll(t, strings.NewReader(clean))
	h2, got := readAll(t, strings.NewReader(b.String()))
	if !slices.Equal(h.Meta, h2.Meta) || !slices.Equal(h.Samples, h2.Samples) {
		t.Errorf("header %q, samples %q", h2.Meta, h2.Samples)
	}
	if write(t, h, want) != write(t, h2, got) {
		t.Errorf("records differ:\n%s", write(t, h2, got))
	}
	r, err := NewReader(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	block, err := r.NextBlock(nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for text := block.Text; len(text) > 0; {
		var line []byte
		if line, text = CutLine(text); len(line) == 0 {
			continue
		}
		var row Row
		if err := r.Header().ParseRow(line, &row); err != nil {
			t.Error(err)
		}
		n++
	}
	if n != len(want) {
		t.Errorf("%d rows, want %d", n, len(want))
	}
}

// A file that is cut between two blocks is not taken as whole, whichever way it is read.
func TestCutBetweenBlocks(t *testing.T) {
	z, err := NewBgzip(6)
	if err != nil {
		t.Fatal(err)
	}
	zip, err := z.Append(nil, []byte(sampleVCF))
	if err != nil {
		t.Fatal(err)
	}
	for how, read := range map[string]func(*Reader) error{
		"records": func(r *Reader) error { _, err := r.Next(); return err },
		"blocks":  func(r *Reader) error { _, err := r.NextBlock(nil); return err },
	} {
		r, err := NewReader(bytes.NewReader(zip))
		for err == nil {
			err = read(r)
		}
		if !errors.Is(err, textfile.ErrCut) {
			t.Errorf("%s: %v", how, err)
		}
	}
}
