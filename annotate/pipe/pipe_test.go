package pipe

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/biogo/hts/bgzf"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/annotatepb"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/vcf"
)

const lambda = "../../testdata/lambda/"

func annotator(t testing.TB) *annotate.Annotator {
	t.Helper()
	g, err := genome.Load(lambda + "reference.fa")
	if err != nil {
		t.Fatal(err)
	}
	m, err := annotate.LoadModel(lambda+"genes.gff3", g)
	if err != nil {
		t.Fatal(err)
	}
	return annotate.New(g, m)
}

// manyLines is a VCF with a substitution at each of n positions of lambda.
func manyLines(t testing.TB, n int) string {
	t.Helper()
	g, err := genome.Load(lambda + "reference.fa")
	if err != nil {
		t.Fatal(err)
	}
	c := g.Contigs[0]
	var b strings.Builder
	b.WriteString("##fileformat=VCFv4.3\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ts\n")
	for i := range n {
		pos := i % len(c.Seq)
		alt := "A"
		if c.Seq[pos] == 'A' {
			alt = "C"
		}
		fmt.Fprintf(&b, "%s\t%d\tv%d\t%c\t%s\t.\t.\tN=%d\tGT\t1\n", c.Name, pos+1, i, c.Seq[pos], alt, i)
	}
	return b.String()
}

func run(t testing.TB, in io.Reader, opts Options) (string, Stats, error) {
	t.Helper()
	var out bytes.Buffer
	stats, err := Annotate(context.Background(), in, &out, annotator(t), opts)
	return out.String(), stats, err
}

func csq() annotate.Options { return annotate.Options{Fields: []annotate.Field{annotate.CSQ}} }

// TestOneOutput: however the stream is cut and however many workers there are, the output is the same.
func TestOneOutput(t *testing.T) {
	in := manyLines(t, 5_000)
	want, stats, err := run(t, strings.NewReader(in), Options{Options: csq(), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	if stats.Records != 5_000 || stats.Alleles != 5_000 || strings.Count(want, ";CSQ=") != 5_000 {
		t.Fatalf("%+v", stats)
	}
	for i, line := range strings.Split(strings.TrimSpace(want), "\n")[3:] {
		if !strings.Contains(line, fmt.Sprintf("\tv%d\t", i)) {
			t.Fatalf("line %d is %s", i, line)
		}
	}
	for name, c := range map[string]struct {
		in   io.Reader
		opts Options
	}{
		"four workers": {strings.NewReader(in), Options{Options: csq(), Threads: 4}},
		"halves":       {iotest.HalfReader(strings.NewReader(in)), Options{Options: csq(), Threads: 3}},
		"no last newline": {
			strings.NewReader(strings.TrimSuffix(in, "\n")), Options{Options: csq()}},
		"blank last line":       {strings.NewReader(in + "\n"), Options{Options: csq()}},
		"carriage returns":      {strings.NewReader(strings.ReplaceAll(in, "\n", "\r\n")), Options{Options: csq()}},
		"a transformer of none": {strings.NewReader(in), Options{Options: csq(), Transformers: []Transformer{&delay{n: 0}}}},
		"transformers that hold back": {
			strings.NewReader(in), Options{Options: csq(), Transformers: []Transformer{&delay{n: 700}, &delay{n: 3}}}},
	} {
		got, s, err := run(t, c.in, c.opts)
		if err != nil || got != want || s != stats {
			t.Errorf("%s: %d bytes, want %d; %+v %v", name, len(got), len(want), s, err)
		}
	}
}

// delay holds n lines back.
type delay struct {
	n    int
	held vcf.Lines
}

func (d *delay) Declare(*vcf.Header) error { return nil }

func (d *delay) Push(out *vcf.Lines, row *vcf.Row, number int) error {
	d.held.Append(row.Text, number)
	if len(d.held.Numbers) <= d.n {
		return nil
	}
	var first []byte
	first, d.held.Text = vcf.CutLine(d.held.Text)
	out.Append(first, d.held.Numbers[0])
	d.held.Numbers = d.held.Numbers[1:]
	return nil
}

func (d *delay) Flush(out *vcf.Lines) error {
	out.Text, out.Numbers = append(out.Text, d.held.Text...), append(out.Numbers, d.held.Numbers...)
	return nil
}

// TestTransformerChangesRecords: a transformer declares and sets fields, drops records and can fail.
func TestTransformerChangesRecords(t *testing.T) {
	in := manyLines(t, 10)
	got, stats, err := run(t, strings.NewReader(in), Options{Options: csq(), Transformers: []Transformer{&odd{}}})
	if err != nil {
		t.Fatal(err)
	}
	if stats.Records != 5 || !strings.Contains(got, "\n##INFO=<ID=ODD,") || strings.Count(got, ";ODD;CSQ=") != 5 {
		t.Errorf("%+v\n%s", stats, got)
	}
	_, _, err = run(t, strings.NewReader(in), Options{Options: csq(), Transformers: []Transformer{&odd{failAt: 7}}})
	if want := "line 9: position 7"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}

// odd keeps the records at odd positions.
type odd struct{ failAt int }

func (o *odd) Declare(h *vcf.Header) error {
	h.AddInfo("ODD", "0", "Flag", "Odd position")
	return nil
}

func (o *odd) Push(out *vcf.Lines, row *vcf.Row, number int) error {
	if row.Pos == o.failAt {
		return fmt.Errorf("position %d", row.Pos)
	}
	if row.Pos%2 == 0 {
		return nil
	}
	text, _ := row.AppendUpToInfo(nil)
	out.Append(append(append(text, ";ODD"...), row.AfterInfo()...), number)
	return nil
}

func (o *odd) Flush(*vcf.Lines) error { return nil }

func TestErrorsNameTheLine(t *testing.T) {
	in := manyLines(t, 5)
	for _, c := range []struct{ name, line, want string }{
		{"malformed", "J02459.1\tx\n", "line 8: 2 columns, want 10"},
		{"other reference", "J02459.1\t1\t.\tT\tA\t.\t.\t.\tGT\t1\n", "line 8: annotating J02459.1:1 T>A: REF is T, but the reference has G there"},
		{"other contig", "x\t1\t.\tT\tA\t.\t.\t.\tGT\t1\n", `line 8: annotating x:1 T>A: contig "x" is not in the reference`},
		{"too many values", "J02459.1\t1\t.\tG\tA\t.\t.\t.\tGT\t1:2\n", `line 8: sample "s" has 2 values for 1 FORMAT keys`},
	} {
		for _, through := range []func() []Transformer{
			func() []Transformer { return nil },
			func() []Transformer { return []Transformer{&delay{n: 1}} },
		} {
			text := in + c.line + in[strings.LastIndex(strings.TrimSpace(in), "\n")+1:]
			out, _, err := run(t, strings.NewReader(text), Options{Options: csq(), Transformers: through()})
			if err == nil || err.Error() != c.want {
				t.Errorf("%s: error %v, want %q", c.name, err, c.want)
			}
			if n := strings.Count(out, "\tGT\t1\n"); through() == nil && n != 5 {
				t.Errorf("%s: %d lines before the error, want 5", c.name, n)
			}
			var log bytes.Buffer
			out, stats, err := run(t, strings.NewReader(text), Options{
				Options: csq(), Transformers: through(), SkipErrors: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil || stats.Skipped != 1 || !strings.Contains(out, "\n"+c.line) || strings.Count(out, "CSQ=") != 6 || !strings.Contains(log.String(), "line=8") {
				t.Errorf("%s, skipped: %+v %v\n%s", c.name, stats, err, log.String())
			}
			if !strings.HasSuffix(out[:strings.Index(out, c.line)], "\tGT\t1\n") || strings.HasSuffix(out, c.line) {
				t.Errorf("%s: the line is not in its place", c.name)
			}
		}
	}
}

func TestReadErrors(t *testing.T) {
	var zipped bytes.Buffer
	w := bgzf.NewWriter(&zipped, 1)
	io.WriteString(w, manyLines(t, 1000))
	w.Close()
	if _, _, err := run(t, bytes.NewReader(zipped.Bytes()[:zipped.Len()/2]), Options{Options: csq()}); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "reading VCF: line ") {
		t.Errorf("truncated: %v", err)
	}
	if _, _, err := run(t, strings.NewReader("hello"), Options{}); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("not VCF: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Annotate(ctx, strings.NewReader(manyLines(t, 10)), io.Discard, annotator(t), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	full := errors.New("no space left")
	if _, err := Annotate(context.Background(), strings.NewReader(manyLines(t, 10_000)), failingWriter{full}, annotator(t), Options{Options: csq()}); !errors.Is(err, full) {
		t.Errorf("full: %v", err)
	}
}

type failingWriter struct{ err error }

func (f failingWriter) Write([]byte) (int, error) { return 0, f.err }

// TestStreamIsNotHeldBack: a record comes out before the next one goes in.
func TestStreamIsNotHeldBack(t *testing.T) {
	in, feed := io.Pipe()
	drain, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := Annotate(context.Background(), in, out, annotator(t), Options{Options: csq()})
		out.CloseWithError(err)
		done <- err
	}()
	text := manyLines(t, 3)
	head := strings.Index(text, "#CHROM")
	head += strings.Index(text[head:], "\n") + 1
	io.WriteString(feed, text[:head])
	r, err := vcf.NewReader(drain)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text[head:]) {
		io.WriteString(feed, line)
		rec, err := r.Next()
		if err != nil || !strings.Contains(line, "\t"+rec.ID+"\t") {
			t.Fatalf("%+v %v after %s", rec, err, line)
		}
	}
	feed.Close()
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestBgzip(t *testing.T) {
	in := manyLines(t, 3000)
	want, _, err := run(t, strings.NewReader(in), Options{Options: csq()})
	if err != nil {
		t.Fatal(err)
	}
	zipped, _, err := run(t, strings.NewReader(in), Options{Options: csq(), Bgzip: true})
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := bgzf.HasEOF(strings.NewReader(zipped)); !ok || err != nil {
		t.Errorf("the end is not marked: %v", err)
	}
	r, err := bgzf.NewReader(strings.NewReader(zipped), 1)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil || string(got) != want {
		t.Errorf("%d bytes, want %d: %v", len(got), len(want), err)
	}
	// The annotated file, compressed, may be annotated again, and does not change.
	again, _, err := run(t, strings.NewReader(zipped), Options{Options: csq()})
	if err != nil || again != want {
		t.Errorf("again: %d bytes, want %d: %v", len(again), len(want), err)
	}
}

// mixed has alleles of all kinds.
const mixed = `##fileformat=VCFv4.3
#CHROM	POS	ID	REF	ALT	QUAL	FILTER	INFO
J02459.1	37589	rs1	C	T	50	PASS	DP=9
J02459.1	37589	.	C	CA,G,<DEL>,*	.	.	SVLEN=.,.,-500,.
J02459.1	45352	.	G	A	.	.	.
J02459.1	45352	.	GGT	G	.	.	.
J02459.1	40000	.	N	]J02459.1:5]N	.	.	.
J02459.1	40000	.	N	<WHAT>	.	.	END=40010
J02459.1	5	.	T	.	.	.	.
`

// TestFormatsSayTheSame: each JSON line is valid against the schema, and the protobuf messages say the same.
func TestFormatsSayTheSame(t *testing.T) {
	c := jsonschema.NewCompiler()
	schema, err := c.Compile("../../docs/consume/variants.schema.json#/$defs/annotated_allele")
	if err != nil {
		t.Fatal(err)
	}
	in := manyLines(t, 50) + mixed[strings.Index(mixed, "J02459.1"):]
	in = strings.ReplaceAll(strings.ReplaceAll(in, "\tFORMAT\ts", ""), "\tGT\t1", "")
	lines, stats, err := run(t, strings.NewReader(in), Options{Format: JSON})
	if err != nil || stats.Records != 57 || stats.Alleles != 57 || stats.Unsupported.Total() != 2 {
		t.Fatalf("%+v %v", stats, err)
	}
	messages, _, err := run(t, strings.NewReader(in), Options{Format: Protobuf})
	if err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(strings.NewReader(messages))
	for line := range strings.Lines(lines) {
		want, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(want); err != nil {
			t.Errorf("%v\n%s", err, line)
		}
		var m annotatepb.AnnotatedAllele
		if err := protodelim.UnmarshalFrom(r, &m); err != nil {
			t.Fatal(err)
		}
		text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(&m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %s\nwant %s", text, line)
		}
	}
	if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Error("there are more messages than lines")
	}
}

// TestMessageHasAllMembers: what the JSON lines can say the messages can say too, by the same names.
func TestMessageHasAllMembers(t *testing.T) {
	var compare func(typ reflect.Type, m protoreflect.MessageDescriptor)
	compare = func(typ reflect.Type, m protoreflect.MessageDescriptor) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		for _, f := range reflect.VisibleFields(typ) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" || !f.IsExported() {
				continue
			}
			d := m.Fields().ByName(protoreflect.Name(name))
			if d == nil {
				t.Errorf("%s has no field %s", m.Name(), name)
				continue
			}
			if d.Message() != nil && !d.IsMap() {
				compare(f.Type, d.Message())
			}
		}
	}
	compare(reflect.TypeFor[annotate.Line](), (&annotatepb.AnnotatedAllele{}).ProtoReflect().Descriptor())
}

// TestSplitVEP: bcftools reads CSQ, and returns its content. (ANN's description has no "Format: ", by which it finds
// the names.)
func TestSplitVEP(t *testing.T) {
	bcftools, err := exec.LookPath("bcftools")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("bcftools is needed")
		}
		t.Skip("bcftools is not installed")
	}
	head, tail, _ := strings.Cut(mixed, "#CHROM")
	in := head + "##contig=<ID=J02459.1>\n##INFO=<ID=DP,Number=1,Type=Integer,Description=\"\">\n##INFO=<ID=SVLEN,Number=A,Type=Integer,Description=\"\">\n##INFO=<ID=END,Number=1,Type=Integer,Description=\"\">\n#CHROM" + tail
	out, _, err := run(t, strings.NewReader(in), Options{Options: csq()})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bcftools, "+split-vep", "-a", "CSQ", "-d", "-f", "%POS %Allele %Consequence %SYMBOL %HGVSp\n")
	cmd.Stdin = strings.NewReader(out)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	got, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	first, _, _ := strings.Cut(string(got), "\n")
	if want := "37589 T missense_variant cI lambdap88:p.Glu118Lys"; first != want {
		t.Errorf("%q, want %q\n%s", first, want, stderr.String())
	}
	entries := strings.Count(out, "|MODIFIER|") + strings.Count(out, "|HIGH|") + strings.Count(out, "|MODERATE|") + strings.Count(out, "|LOW|")
	if n := strings.Count(string(got), "\n"); n != entries {
		t.Errorf("%d entries of %d", n, entries)
	}
}
