package blow5

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

func testFields(tb testing.TB) []Field {
	tb.Helper()
	var fields []Field
	for _, f := range [][2]string{
		{"channel_number", "char*"}, {"median_before", "double"}, {"read_number", "int32_t"}, {"start_mux", "uint8_t"},
		{"start_time", "uint64_t"}, {"end_reason", "enum{unknown,signal_positive}"}, {"open_pore_level", "float"}, {"list", "int16_t*"},
	} {
		field, err := NewField(f[0], f[1])
		if err != nil {
			tb.Fatal(err)
		}
		fields = append(fields, field)
	}
	return fields
}

type testRecord struct {
	rec     Record
	aux     []Value
	samples []int16
}

// randomRecords invents records; every third lacks its auxiliary values.
func randomRecords(tb testing.TB, r *rand.Rand, n, groups int) (fields []Field, out []testRecord) {
	fields = testFields(tb)
	value := func(v Value, err error) Value {
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
	for i := range n {
		t := testRecord{rec: Record{
			ReadID: fmt.Sprintf("read-%d", i), ReadGroup: uint32(r.IntN(groups)), Digitisation: 1 + 8191*r.Float64(),
			Offset: r.NormFloat64(), Range: 1400 * r.Float64(), SamplingRate: 4000,
		}, aux: make([]Value, len(fields)), samples: make([]int16, r.IntN(3000))}
		if i%7 == 0 {
			t.samples = t.samples[:0]
		}
		for k := range t.samples {
			t.samples[k] = int16(r.Uint32() >> r.IntN(16))
		}
		if i%3 > 0 {
			t.aux = []Value{
				value(fields[0].Text(fmt.Sprint(i))), value(fields[1].Float(200 * r.Float64())), value(fields[2].Uint(uint64(r.IntN(1 << 30)))),
				value(fields[3].Uint(uint64(r.IntN(255)))), value(fields[4].Uint(r.Uint64() >> 1)), value(fields[5].Text("signal_positive")),
				value(fields[6].Float(float64(r.Float32()))), {field: &fields[7], raw: []byte{1, 0, 255, 255}},
			}
		}
		out = append(out, t)
	}
	return fields, out
}

func writeFile(tb testing.TB, groups []map[string]string, fields []Field, records []testRecord) []byte {
	tb.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, groups, fields)
	if err != nil {
		tb.Fatal(err)
	}
	for i := range records {
		before, samples := fmt.Sprintf("%#v %#v", records[i].rec, records[i].aux), slices.Clone(records[i].samples)
		if err := w.Add(&records[i].rec, records[i].aux, records[i].samples); err != nil {
			tb.Fatal(err)
		}
		if before != fmt.Sprintf("%#v %#v", records[i].rec, records[i].aux) || !slices.Equal(samples, records[i].samples) {
			tb.Fatalf("record %d was changed", i)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// TestWriterRoundTrip writes invented records and reads them back.
func TestWriterRoundTrip(t *testing.T) {
	groups := []map[string]string{{"run_id": "a", "only_first": "1"}, {"run_id": "b", "empty": ""}}
	fields, records := randomRecords(t, rand.New(rand.NewPCG(5, 1)), 300, len(groups))
	r, err := NewReader(writeFile(t, groups, fields, records))
	if err != nil {
		t.Fatal(err)
	}
	h := r.Header()
	if h.Major != 1 || h.Groups[0]["only_first"] != "1" || h.Groups[1]["run_id"] != "b" || len(h.Groups[1]) != 1 {
		t.Errorf("header %+v", h)
	}
	for i := 0; ; i++ {
		err := r.Next(func(got *Record, _ int64) error {
			want := records[i]
			want.rec.NumSamples = len(want.samples)
			samples, err := got.AppendSamples(nil)
			if err != nil {
				return err
			}
			if !slices.Equal(samples, want.samples) {
				t.Fatalf("record %d: samples differ", i)
			}
			g := *got
			g.header, g.aux, g.packed = nil, nil, nil
			if fmt.Sprintf("%#v", g) != fmt.Sprintf("%#v", want.rec) {
				t.Fatalf("record %d is %+v, want %+v", i, g, want.rec)
			}
			for k, f := range fields {
				have, raw := got.Aux(f.Name), []byte(nil)
				raw, err = want.aux[k].append(raw, &fields[k])
				if err != nil {
					return err
				}
				if back, err := have.append(nil, &f); err != nil || !bytes.Equal(back, raw) {
					t.Fatalf("record %d: field %q is % x, want % x (%v)", i, f.Name, back, raw, err)
				}
				if i%3 == 0 {
					_, a := have.Text()
					_, b := have.Uint()
					_, c := have.Float()
					if _, d := have.Ints(); a || b || c || d {
						t.Fatalf("record %d: field %q is there", i, f.Name)
					}
				}
			}
			return nil
		})
		if errors.Is(err, io.EOF) {
			if i != len(records) {
				t.Fatalf("%d records", i)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestEncodeSVBZD encodes what is hardest: every size of difference, and short signals.
func TestEncodeSVBZD(t *testing.T) {
	for n := range 40 {
		samples := make([]int16, n)
		for i := range samples {
			samples[i] = []int16{0, math.MaxInt16, math.MinInt16, 127, -128, 128, -1}[(i*n+i/3)%7]
		}
		back, err := appendSVBZD(nil, encodeSVBZD([]byte{}, samples))
		if err != nil || !slices.Equal(back, samples) && n > 0 {
			t.Fatalf("%d samples came back as %v, %v", n, back, err)
		}
	}
}

// TestWriterGolden holds the writer to its bytes: a change of them must be meant.
func TestWriterGolden(t *testing.T) {
	fields, records := randomRecords(t, rand.New(rand.NewPCG(5, 5)), 4, 2)
	got := writeFile(t, []map[string]string{{"run_id": "a"}, {"run_id": "b"}}, fields, records)
	const path = "testdata/written.blow5"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the written file differs from %s: with UPDATE_GOLDEN=1 the test writes it anew; check it with pyslow5 then", path)
	}
}

func TestWriterRefuses(t *testing.T) {
	fields := testFields(t)
	for name, groups := range map[string][]map[string]string{
		"read groups":  nil,
		"holds a tab":  {{"a": "x\ty"}},
		"line break":   {{"a\nb": "x"}},
		"@attribute":   {{"": "x"}},
		"control char": nil,
	} {
		f := fields
		if name == "control char" {
			groups, f = []map[string]string{{}}, append(slices.Clone(fields), Field{Name: "a\rb", Type: "float"})
		}
		if _, err := NewWriter(io.Discard, groups, f); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
	for want, change := range map[string]func(*testRecord){
		"read_id":          func(r *testRecord) { r.rec.ReadID = "" },
		"65536 bytes":      func(r *testRecord) { r.rec.ReadID = strings.Repeat("x", 65536) },
		"read_group":       func(r *testRecord) { r.rec.ReadGroup = 1 },
		"digitisation":     func(r *testRecord) { r.rec.Digitisation = 0 },
		"7 auxiliary":      func(r *testRecord) { r.aux = r.aux[1:] },
		"can't hold a val": func(r *testRecord) { r.aux[0] = Value{field: &fields[1], raw: make([]byte, 8)} },
	} {
		_, records := randomRecords(t, rand.New(rand.NewPCG(1, 1)), 2, 1)
		r := records[1]
		change(&r)
		w, err := NewWriter(io.Discard, []map[string]string{{}}, fields)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Add(&r.rec, r.aux, r.samples); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if w.Close() == nil {
			t.Errorf("%s: a file with a failed record was closed as complete", want)
		}
	}
}

func TestFieldsRefuse(t *testing.T) {
	f := testFields(t)
	for name, err := range map[string]error{
		"text in a number":    second(f[3].Text("x")),
		"a number in text":    second(f[0].Uint(1)),
		"a missing uint8":     second(f[3].Uint(255)),
		"a large uint8":       second(f[3].Uint(256)),
		"a large int32":       second(f[2].Uint(1 << 31)),
		"an unknown label":    second(f[5].Text("x")),
		"a fraction in int32": second(f[2].Float(1)),
		"a line break":        second(f[0].Text("a\nb")),
	} {
		if err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func second(_ Value, err error) error { return err }

func BenchmarkWriter(b *testing.B) {
	fields, records := randomRecords(b, rand.New(rand.NewPCG(1, 1)), 100, 1)
	total := 0
	for _, r := range records {
		total += len(r.samples)
	}
	for b.Loop() {
		writeFile(b, []map[string]string{{}}, fields, records)
	}
	b.ReportMetric(float64(total)*float64(b.N)/b.Elapsed().Seconds(), "samples/s")
}
