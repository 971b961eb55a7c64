package blow5

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/quick"
)

func fixture(tb testing.TB, name string) []byte {
	tb.Helper()
	b, err := os.ReadFile("../testdata/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// drain reads everything there is in a file, each record in both ways.
func drain(r *Reader) (ids []string, samples [][]int16, err error) {
	for {
		var at int64
		err := r.Next(func(rec *Record, offset int64) error {
			at = offset
			s, err := rec.AppendSamples(nil)
			if err == nil && len(s) != rec.NumSamples {
				return errors.New("sample count differs from the promise")
			}
			ids, samples = append(ids, rec.ReadID), append(samples, s)
			return err
		})
		if errors.Is(err, io.EOF) {
			return ids, samples, nil
		}
		if err != nil {
			return nil, nil, err
		}
		err = r.View(at, func(rec *Record) error {
			s, err := rec.AppendSamples(nil)
			if err == nil && (rec.ReadID != ids[len(ids)-1] || !slices.Equal(s, samples[len(samples)-1])) {
				return errors.New("View sees another record than Next")
			}
			return err
		})
		if err != nil {
			return nil, nil, err
		}
	}
}

func TestReader(t *testing.T) {
	var want [][]int16
	for _, form := range []string{"none_none", "zlib_none", "zlib_svb", "zstd_svb", "none_exzd", "zstd_exzd"} {
		r, err := NewReader(fixture(t, "three_"+form+".blow5"))
		if err != nil {
			t.Fatal(err)
		}
		h := r.Header()
		if len(h.Groups) != 2 || h.Groups[1]["run_id"] != "second-run" || h.Groups[0]["version"] != "1.13.1" {
			t.Errorf("%s: groups %v", form, h.Groups)
		}
		_, samples, err := drain(r)
		if err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		if want == nil {
			want = samples
		}
		if len(samples) != 3 || !slices.EqualFunc(samples, want, slices.Equal[[]int16]) {
			t.Errorf("%s: samples differ from those of none_none", form)
		}
	}
}

// build makes a file of version 0.2.0 without record compression.
func build(press signalPress, types, names string, records ...[]byte) []byte {
	text := "@run_id\trun-1\n@kit\t.\n#char*\tuint32_t\tdouble\tdouble\tdouble\tdouble\tuint64_t\tint16_t*" + types +
		"\n#read_id\tread_group\tdigitisation\toffset\trange\tsampling_rate\tlen_raw_signal\traw_signal" + names + "\n"
	file := append([]byte(Signature), 0, 2, 0, 0, 1, 0, 0, 0, byte(press))
	file = append(file, make([]byte, headLen-len(file))...)
	file = binary.LittleEndian.AppendUint32(file, uint32(len(text)))
	file = append(file, text...)
	for _, r := range records {
		file = binary.LittleEndian.AppendUint64(file, uint64(len(r)))
		file = append(file, r...)
	}
	return append(file, endMarker...)
}

type fields struct {
	id                          string
	group                       uint32
	digitisation, offset, scale float64
	rate                        float64
	length                      uint64
}

func good() fields { return fields{"r", 0, 4096, 6, 1400, 4000, 2} }

func (f fields) record(tail ...byte) []byte {
	b := binary.LittleEndian.AppendUint16(nil, uint16(len(f.id)))
	b = append(b, f.id...)
	b = binary.LittleEndian.AppendUint32(b, f.group)
	for _, v := range []float64{f.digitisation, f.offset, f.scale, f.rate} {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	b = binary.LittleEndian.AppendUint64(b, f.length)
	return append(b, tail...)
}

func TestRecordRefuses(t *testing.T) {
	with := func(change func(*fields)) []byte {
		f := good()
		change(&f)
		return f.record(1, 0, 2, 0)
	}
	for _, tc := range []struct {
		name   string
		record []byte
		want   string // empty for a good record
	}{
		{"good", good().record(1, 0, 2, 0), ""},
		{"empty", nil, `field "read_id length" needs 2 bytes`},
		{"long id", []byte{9, 0, 'x'}, `field "read_id" needs 9 bytes, but the record has only 1 more`},
		{"no id", with(func(f *fields) { f.id = "" }), `field "read_id" is empty`},
		{"tab in the id", with(func(f *fields) { f.id = "a\tb" }), `field "read_id" holds a tab`},
		{"id not UTF-8", with(func(f *fields) { f.id = "\xff" }), `field "read_id" is not UTF-8`},
		{"read group", with(func(f *fields) { f.group = 1 }), `field "read_group" is 1, but the header has 1`},
		{"digitisation", with(func(f *fields) { f.digitisation = 0 }), `field "digitisation" is 0`},
		{"offset", with(func(f *fields) { f.offset = math.NaN() }), `field "offset" is NaN`},
		{"range", with(func(f *fields) { f.scale = math.Inf(1) }), `field "range" is +Inf`},
		{"sampling rate", with(func(f *fields) { f.rate = -1 }), `field "sampling_rate" is -1`},
		{"longer signal", with(func(f *fields) { f.length = 3 }), `field "raw_signal" needs 6 bytes`},
		{"endless signal", with(func(f *fields) { f.length = math.MaxUint64 }), `field "len_raw_signal" is`},
		{"shorter signal", with(func(f *fields) { f.length = 1 }), "2 bytes left over after the last field"},
	} {
		r, err := NewReader(build(signalPlain, "", "", tc.record))
		if err != nil {
			t.Fatal(err)
		}
		_, samples, err := drain(r)
		switch {
		case tc.want == "" && (err != nil || !slices.Equal(samples[0], []int16{1, 2})):
			t.Errorf("%s: %v, %v", tc.name, samples, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "record at byte ")):
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestAuxiliaryFields(t *testing.T) {
	u64 := func(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }
	types := "\tchar*\tdouble\tint32_t\tuint8_t\tuint64_t\tenum{unknown,partial,signal_positive}\tint16_t*\tfloat\tchar*\tuint64_t\tenum{a,b}"
	names := "\tchannel_number\tmedian_before\tread_number\tstart_mux\tstart_time\tend_reason\tlist\tlevel\tempty\tmissing\tother"
	var tail []byte
	tail = append(tail, 1, 0, 2, 0)
	tail = append(append(tail, u64(3)...), "512"...)
	tail = append(tail, u64(math.Float64bits(201.5))...)
	tail = binary.LittleEndian.AppendUint32(tail, 77)
	tail = append(tail, 255)
	tail = append(tail, u64(1<<40)...)
	tail = append(tail, 2)
	tail = append(append(tail, u64(3)...), 0xff, 0xff, 0, 0, 5, 0)
	tail = binary.LittleEndian.AppendUint32(tail, math.Float32bits(float32(math.NaN())))
	tail = append(tail, u64(0)...)
	tail = append(tail, u64(math.MaxUint64)...)
	tail = append(tail, 255)
	r, err := NewReader(build(signalPlain, types, names, good().record(tail...)))
	if err != nil {
		t.Fatal(err)
	}
	err = r.Next(func(rec *Record, _ int64) error {
		if s, ok := rec.Aux("channel_number").Text(); !ok || s != "512" {
			t.Errorf("channel_number %q, %v", s, ok)
		}
		if f, ok := rec.Aux("median_before").Float(); !ok || f != 201.5 {
			t.Errorf("median_before %v, %v", f, ok)
		}
		if n, ok := rec.Aux("read_number").Uint(); !ok || n != 77 {
			t.Errorf("read_number %v, %v", n, ok)
		}
		if n, ok := rec.Aux("start_time").Uint(); !ok || n != 1<<40 {
			t.Errorf("start_time %v, %v", n, ok)
		}
		if s, ok := rec.Aux("end_reason").Text(); !ok || s != "signal_positive" {
			t.Errorf("end_reason %q, %v", s, ok)
		}
		if l, ok := rec.Aux("list").Ints(); !ok || !slices.Equal(l, []int64{-1, 0, 5}) {
			t.Errorf("list %v, %v", l, ok)
		}
		for _, name := range []string{"start_mux", "missing", "absent"} {
			if n, ok := rec.Aux(name).Uint(); ok {
				t.Errorf("%s is missing, but has value %d", name, n)
			}
		}
		if f, ok := rec.Aux("level").Float(); ok {
			t.Errorf("level is missing, but has value %v", f)
		}
		for _, name := range []string{"empty", "other", "absent"} {
			if s, ok := rec.Aux(name).Text(); ok {
				t.Errorf("%s is missing, but has value %q", name, s)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestHeaderRefuses(t *testing.T) {
	base := build(signalPlain, "", "")
	at := func(i int, b byte) []byte {
		c := slices.Clone(base)
		c[i] = b
		return c
	}
	replace := func(old, repl string) []byte {
		text := strings.Replace(string(base[headLen+4:]), old, repl, 1)
		c := slices.Clone(base[:headLen])
		c = binary.LittleEndian.AppendUint32(c, uint32(len(text)-len(endMarker)))
		return append(c, text...)
	}
	for _, tc := range []struct {
		name string
		file []byte
		want string // empty for a good file
	}{
		{"good", base, ""},
		{"other signature", at(0, 'X'), "byte 0: not a BLOW5 signature"},
		{"short", base[:30], "byte 30: the file ends inside its head"},
		{"newer version", at(6, 2), "version 2.2.0 is newer"},
		{"record compression", at(9, 3), "byte 9: unknown record compression 3"},
		{"no read groups", at(10, 0), "byte 10: 0 read groups"},
		{"more read groups than columns", at(10, 2), `attribute "run_id" has 1 values for 2 read groups`},
		{"many read groups", at(13, 0xff), "read groups"},
		{"ex-zd", at(14, 2), ""},
		{"signal compression", at(14, 3), "byte 14: unknown signal compression 3"},
		{"header length", at(headLen+3, 0x7f), "bytes long, but only"},
		{"attribute twice", replace("@kit", "@run_id"), `attribute "run_id" occurs twice`},
		{"not an attribute", replace("@kit", "kit"), "is not an @attribute"},
		{"not UTF-8", replace("run-1", "run\xff"), "is not UTF-8"},
		{"carriage return", replace("run-1", "run\r"), "holds a carriage return"},
		{"wrong type of a field", replace("uint32_t", "uint16_t"), `field 2 is uint16_t "read_group", not uint32_t "read_group"`},
		{"missing field", replace("\toffset", "\trange"), `field 4 is double "range", not double "offset"`},
		{"types without names", build(signalPlain, "\tdouble", ""), "has 9 field types and 8 field names"},
		{"unknown type", build(signalPlain, "\tcomplex", "\tx"), `field "x" has unknown type "complex"`},
		{"broken enum", build(signalPlain, "\tenum{a,b", "\tx"), `field "x" has an unreadable type`},
		{"field twice", build(signalPlain, "\tdouble\tdouble", "\tx\tx"), `field "x" occurs twice`},
	} {
		_, err := NewReader(tc.file)
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", tc.name, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.want)
		}
	}
}

// slowSVBZD follows the definition, one byte at a time.
func slowSVBZD(samples []int16) []byte {
	out := binary.LittleEndian.AppendUint32(nil, uint32(len(samples)))
	keys := make([]byte, (len(samples)+3)/4)
	var data []byte
	prev := int32(0)
	for i, s := range samples {
		d := int32(s) - prev
		prev = int32(s)
		z := uint32(2 * d)
		if d < 0 {
			z = uint32(-2*d - 1)
		}
		n := 0
		for {
			data = append(data, byte(z))
			if z >>= 8; z == 0 {
				break
			}
			n++
		}
		keys[i/4] |= byte(n) << (i % 4 * 2)
	}
	return append(append(out, keys...), data...)
}

func TestSVBZDAgainstASlowEncoder(t *testing.T) {
	check := func(samples []int16) bool {
		got, err := appendSVBZD([]int16{9}, slowSVBZD(samples))
		return err == nil && slices.Equal(got, append([]int16{9}, samples...))
	}
	if err := quick.Check(check, &quick.Config{MaxCount: 1000}); err != nil {
		t.Error(err)
	}
	if !check(nil) || !check([]int16{math.MinInt16, math.MaxInt16, math.MinInt16}) {
		t.Error("extremes don't survive")
	}
	src := slowSVBZD([]int16{1, 2, 3, 4, 5, 600, 7, 8, 9})
	overflow := slowSVBZD([]int16{math.MaxInt16, 0})
	overflow[len(overflow)-2], overflow[len(overflow)-1] = 2, 0 // one more instead of back to zero
	for name, bad := range map[string][]byte{
		"empty": nil, "no data": src[:4], "cut": src[:len(src)-1], "trailing": append(slices.Clone(src), 0),
		"endless": {0xff, 0xff, 0xff, 0xff, 0, 0}, "beyond 16 bits": overflow,
	} {
		dst := []int16{1}
		if got, err := appendSVBZD(dst, bad); err == nil || !slices.Equal(got, dst) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// slowEXZD follows the definition. Lists are written with four bytes an entry.
func slowEXZD(samples []int16) []byte {
	shift := 5
	for shift > 0 && slices.ContainsFunc(samples, func(s int16) bool { return s&(1<<shift-1) != 0 }) {
		shift--
	}
	zigzag := make([]uint16, len(samples))
	prev := int16(0)
	for i, s := range samples {
		s >>= shift
		d := s - prev // wraps
		prev = s
		zigzag[i] = uint16(d) * 2
		if d < 0 {
			zigzag[i] = ^zigzag[i]
		}
	}
	out := append(binary.LittleEndian.AppendUint64([]byte{0}, uint64(len(samples))), byte(shift))
	out = binary.LittleEndian.AppendUint16(out, zigzag[0])
	var at, values []uint32
	var low []byte
	for i, z := range zigzag[1:] {
		if z > 255 {
			at, values = append(at, uint32(i)), append(values, uint32(z)-256)
		} else {
			low = append(low, byte(z))
		}
	}
	out = binary.LittleEndian.AppendUint32(out, uint32(len(at)))
	if len(at) > 1 {
		for i := len(at) - 1; i > 0; i-- {
			at[i] -= at[i-1] + 1
		}
	}
	for _, list := range [][]uint32{at, values} {
		if len(at) > 1 {
			keys := (len(list) + 3) / 4
			out = binary.LittleEndian.AppendUint32(out, uint32(keys+4*len(list)))
			out = append(out, bytes.Repeat([]byte{0xff}, keys)...)
		}
		for _, v := range list {
			out = binary.LittleEndian.AppendUint32(out, v)
		}
	}
	return append(out, low...)
}

func TestEXZDAgainstASlowEncoder(t *testing.T) {
	check := func(samples []int16) bool {
		if len(samples) == 0 {
			return true // the format can't hold an empty signal
		}
		got, err := appendEXZD([]int16{9}, slowEXZD(samples))
		return err == nil && slices.Equal(got, append([]int16{9}, samples...))
	}
	if err := quick.Check(check, &quick.Config{MaxCount: 1000}); err != nil {
		t.Error(err)
	}
	for _, samples := range [][]int16{
		{5}, {math.MinInt16, math.MaxInt16, math.MinInt16}, {512, 544, 4096, 512}, {500, 501, 900, 901}, {500, 501, 900, 200, 201},
	} {
		if !check(samples) {
			t.Errorf("%v doesn't survive", samples)
		}
	}
	src := slowEXZD([]int16{500, 501, 900, 200, 201, 203})
	at := func(i int, b byte) []byte {
		c := slices.Clone(src)
		c[i] = b
		return c
	}
	for name, bad := range map[string][]byte{
		"empty": nil, "cut": src[:len(src)-1], "trailing": append(slices.Clone(src), 0), "version": at(0, 1),
		"more samples": at(1, 7), "no samples": at(1, 0), "endless": at(8, 0xff), "shift": at(9, 16),
		"many exceptions": at(14, 0xff), "long list": at(18, 0xff), "far exception": at(25, 0xff), "wide exception": at(41, 0xff),
	} {
		dst := []int16{1}
		if got, err := appendEXZD(dst, bad); err == nil || !slices.Equal(got, dst) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func FuzzEXZD(f *testing.F) {
	f.Add(slowEXZD([]int16{500, 510, 480, -3, 32000}))
	f.Add(slowEXZD([]int16{512, 544, 4096, 512}))
	f.Fuzz(func(t *testing.T, src []byte) {
		got, err := appendEXZD(nil, src)
		if err != nil {
			return
		}
		again, err := appendEXZD(nil, slowEXZD(got))
		if err != nil || !slices.Equal(got, again) {
			t.Fatalf("values do not survive another round: %v", err)
		}
	})
}

func FuzzReader(f *testing.F) {
	for _, form := range []string{"none_none", "zlib_none", "zlib_svb", "zstd_svb", "none_exzd"} {
		f.Add(fixture(f, "three_"+form+".blow5"))
	}
	f.Add(build(signalPlain, "\tchar*\tenum{a,b}", "\tx\ty", good().record(1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1)))
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := NewReader(file)
		if err == nil {
			_, _, err = drain(r)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\r\n") {
			t.Fatalf("error is not one line: %q", err)
		}
	})
}

func FuzzRecord(f *testing.F) {
	f.Add(good().record(1, 0, 2, 0), false)
	svb := slowSVBZD([]int16{500, 510, 480})
	rec := good()
	rec.length = uint64(len(svb))
	f.Add(rec.record(svb...), true)
	f.Fuzz(func(t *testing.T, record []byte, packed bool) {
		press := signalPlain
		if packed {
			press = signalSVBZD
		}
		r, err := NewReader(build(press, "", "", record))
		if err != nil {
			t.Fatal(err)
		}
		_, _, _ = drain(r)
	})
}

func FuzzSVBZD(f *testing.F) {
	f.Add(slowSVBZD([]int16{500, 510, 480, -3, 32000}))
	f.Fuzz(func(t *testing.T, src []byte) {
		got, err := appendSVBZD(nil, src)
		if err != nil {
			return
		}
		again, err := appendSVBZD(nil, slowSVBZD(got))
		if err != nil || !slices.Equal(got, again) {
			t.Fatalf("values do not survive another round: %v", err)
		}
	})
}

func BenchmarkSVBZD(b *testing.B) {
	const n = 100_000
	r := rand.New(rand.NewPCG(1, 2))
	samples := make([]int16, n)
	for i := range samples {
		samples[i] = int16(500 + 30*r.NormFloat64())
	}
	src := slowSVBZD(samples)
	var dst []int16
	b.SetBytes(2 * n)
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if dst, err = appendSVBZD(dst[:0], src); err != nil {
			b.Fatal(err)
		}
	}
}
