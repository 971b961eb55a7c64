package vcf

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestLinesComeInBlocksHoweverCut: whole lines come in blocks with their numbers, however the stream is cut.
func TestLinesComeInBlocksHoweverCut(t *testing.T) {
	head, data, _ := strings.Cut(sampleVCF, "chr1\t10")
	data = strings.Repeat("chr1\t10"+data, 3000) // longer than a block
	long := "chr1\t10" + strings.Repeat("A", 3*blockSize) + "\n"
	for name, in := range map[string]struct {
		r    io.Reader
		want string
	}{
		"whole":            {strings.NewReader(head + data), data},
		"byte by byte":     {iotest.OneByteReader(strings.NewReader(head + data[:2000])), data[:2000]},
		"no last newline":  {strings.NewReader(head + strings.TrimSuffix(data, "\n")), strings.TrimSuffix(data, "\n")},
		"error with data":  {iotest.DataErrReader(strings.NewReader(head + data)), data},
		"a very long line": {strings.NewReader(head + data + long + data), data + long + data},
		"no lines":         {strings.NewReader(head), ""},
	} {
		r, err := NewReader(in.r)
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		var buf []byte
		for {
			b, err := r.NextBlock(buf)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if want := 1 + strings.Count(head, "\n") + bytes.Count(got, []byte{'\n'}); b.Line != want {
				t.Fatalf("%s: block begins with line %d, want %d", name, b.Line, want)
			}
			got = append(got, b.Text...)
			if n := len(b.Text); b.Text[n-1] != '\n' && len(got) != len(in.want) {
				t.Fatalf("%s: a block ends within a line", name)
			}
			buf = b.Text
		}
		if string(got) != in.want {
			t.Errorf("%s: %d bytes, want %d", name, len(got), len(in.want))
		}
	}
	broken := errors.New("broken pipe")
	r, err := NewReader(io.MultiReader(strings.NewReader(head+data[:100]), iotest.ErrReader(broken)))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = r.NextBlock(nil)
	}
	if line := new(LineError); !errors.Is(err, broken) || !errors.As(err, &line) {
		t.Errorf("error %v, want the line that could not be read", err)
	}
}

func TestRowInfo(t *testing.T) {
	h := NewHeader("VCFv4.3", "s")
	h.formatColumn = true
	for _, c := range []struct {
		info, without, want string
		filled              bool
	}{
		{".", "A", "", false},
		{"A=1", "A", "", false},
		{"A", "A", "", false},
		{"A=1;B", "A", "B", true},
		{"B;A=1", "A", "B", true},
		{"B;A=1;C=A=2;A", "A", "B;C=A=2", true},
		{"AA=1;BA", "A", "AA=1;BA", true},
	} {
		var row Row
		if err := h.ParseRow([]byte("c\t1\tid\tA\tC,G\t3\tq\t"+c.info+"\tGT\t0"), &row); err != nil {
			t.Fatal(err)
		}
		got, filled := row.AppendUpToInfo(nil, c.without, "other")
		if want := "c\t1\tid\tA\tC,G\t3\tq\t" + c.want; string(got) != want || filled != c.filled || string(row.AfterInfo()) != "\tGT\t0" {
			t.Errorf("%s without %s: %q %v, want %q", c.info, c.without, got, filled, want)
		}
	}
	var row Row
	if err := h.ParseRow([]byte("c\t7\tid\tA\tC,G\t3\tq\tEND=9;X;SVLEN=-3,4;E=\tGT\t0"), &row); err != nil {
		t.Fatal(err)
	}
	if string(row.Chrom) != "c" || row.Pos != 7 || string(row.ID) != "id" || string(row.Ref) != "A" || string(row.Alt) != "C,G" {
		t.Errorf("%+v", row)
	}
	for key, want := range map[string]string{"END": "9", "X": "", "SVLEN": "-3,4", "E": ""} {
		if v, ok := row.InfoValue(key); !ok || string(v) != want {
			t.Errorf("%s is %q %v", key, v, ok)
		}
	}
	if _, ok := row.InfoValue("EN"); ok {
		t.Error("there is no EN")
	}
}

// FuzzRow: a line is a row if and only if it is a record, and a row keeps every byte of it.
func FuzzRow(f *testing.F) {
	for line := range strings.Lines(sampleVCF) {
		f.Add([]byte(strings.TrimSuffix(line, "\n")), true)
	}
	f.Add([]byte("chr1\t1\t.\tA\tC\t1e5\t.\tA;B=;=\tGT:DP\t1:2:3"), true)
	f.Add([]byte("chr1\t1\t.\tA\tC\tnan\t.\t."), false)
	f.Fuzz(func(t *testing.T, line []byte, samples bool) {
		if bytes.ContainsAny(line, "\n") || len(line) == 0 {
			return
		}
		h := NewHeader("VCFv4.3")
		if samples {
			h = NewHeader("VCFv4.3", "s1", "s2")
			h.formatColumn = true
		}
		var row Row
		rowErr := h.ParseRow(line, &row)
		rec, recErr := h.Parse(line, 1)
		if (rowErr == nil) != (recErr == nil) {
			t.Fatalf("%q: as a row %v, as a record %v", line, rowErr, recErr)
		}
		if rowErr != nil {
			return
		}
		if rec.Chrom != string(row.Chrom) || rec.Pos != row.Pos || rec.Ref != string(row.Ref) {
			t.Fatalf("%q: row %+v, record %+v", line, row, rec)
		}
		b, filled := row.AppendUpToInfo(nil)
		if !filled {
			b = append(b, '.')
		}
		if b = append(b, row.AfterInfo()...); !bytes.Equal(b, line) {
			t.Fatalf("%q became %q", line, b)
		}
	})
}

func TestBgzipIsGzip(t *testing.T) {
	z, err := NewBgzip(6)
	if err != nil {
		t.Fatal(err)
	}
	zipped, err := z.Append(nil, []byte(sampleVCF[:200]))
	if err != nil {
		t.Fatal(err)
	}
	if zipped, err = z.Append(zipped, []byte(sampleVCF[200:])); err != nil {
		t.Fatal(err)
	}
	h, recs := readAll(t, bytes.NewReader(AppendBgzipEnd(zipped)))
	if got := write(t, h, recs); got != sampleVCF {
		t.Errorf("got\n%s\nwant\n%s", got, sampleVCF)
	}
	if _, err := NewBgzip(77); err == nil {
		t.Error("level 77 is not refused")
	}
}

func BenchmarkParseRow(b *testing.B) {
	h := NewHeader("VCFv4.2", "s")
	h.formatColumn = true
	line := []byte("chr1\t123456\trs1\tA\tC\t31.5\tPASS\tDP=30;AF=0.5;MQ=60;AC=1;AN=2\tGT:DP:AD:GQ\t0/1:30:15,15:99")
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	var row Row
	for b.Loop() {
		if err := h.ParseRow(line, &row); err != nil {
			b.Fatal(err)
		}
	}
}
