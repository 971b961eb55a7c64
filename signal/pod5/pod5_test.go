package pod5

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	flatbuffers "github.com/google/flatbuffers/go"
)

func fixture(tb testing.TB, name string) []byte {
	tb.Helper()
	b, err := os.ReadFile("../testdata/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// drain reads everything there is in a file.
func drain(r *Reader) (reads []Read, samples [][]int16, err error) {
	for i := range r.Batches() {
		batch, err := r.Batch(i)
		if err != nil {
			return nil, nil, err
		}
		for k := range batch {
			s, err := r.Samples(&batch[k], nil)
			if err != nil {
				return nil, nil, err
			}
			reads = append(reads, batch[k])
			samples = append(samples, s)
		}
	}
	return reads, samples, nil
}

func TestReader(t *testing.T) {
	for _, name := range []string{"three_vbz.pod5", "three_uncompressed.pod5"} {
		r, err := NewReader(fixture(t, name))
		if err != nil {
			t.Fatal(err)
		}
		if r.Software() != "Python API" || !strings.HasPrefix(r.Version(), "0.3.") {
			t.Errorf("written by %q %q", r.Software(), r.Version())
		}
		reads, samples, err := drain(r)
		if err != nil {
			t.Fatal(err)
		}
		if len(reads) != 3 || len(samples[0]) != 4001 || len(samples[1]) != 2500 || len(samples[2]) != 9 {
			t.Fatalf("%s: %d reads", name, len(reads))
		}
		run := reads[0].Run
		if run.SampleRate != 4000 || run.FlowCellID != "FAH90166" || run.TrackingID["version"] != "1.13.1" || run.AcquisitionStartTime.Unix() != 1528366213 {
			t.Errorf("%s: run %+v", name, run)
		}
		if reads[1].EndReason != "unblock_mux_change" || !reads[1].EndReasonForced || reads[2].Run != run {
			t.Errorf("%s: read %+v", name, reads[1])
		}
		if !math.IsNaN(float64(reads[0].OpenPoreLevel)) {
			t.Errorf("%s: open pore level %v, want NaN", name, reads[0].OpenPoreLevel)
		}
	}
}

// TestManyBatches reads a file of two batches of reads and eleven of signal, whose
// dictionaries grow on the way. testdata/generate.py says what is in it.
func TestManyBatches(t *testing.T) {
	z, err := gzip.NewReader(bytes.NewReader(fixture(t, "many.pod5.gz")))
	if err != nil {
		t.Fatal(err)
	}
	file, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	if r.Batches() != 2 || r.signal.t.batches() != 11 {
		t.Fatalf("%d batches of reads and %d of signal", r.Batches(), r.signal.t.batches())
	}
	reads, samples, err := drain(r)
	if err != nil {
		t.Fatal(err)
	}
	if len(reads) != 1010 {
		t.Fatalf("%d reads", len(reads))
	}
	reasons := []string{"unknown", "mux_change", "unblock_mux_change", "data_service_unblock_mux_change", "signal_positive", "signal_negative",
		"api_request", "device_data_error", "analysis_config_change", "paused"}
	for i, rd := range reads {
		var id [16]byte
		binary.BigEndian.PutUint64(id[8:], uint64(i+1))
		var want []int16
		for k := range i%5 + 1 {
			want = append(want, int16(i+k))
		}
		switch {
		case rd.ID != id, rd.Channel != uint32(1+i%512), rd.Well != uint8(1+i%4), rd.Number != uint32(i), rd.Start != uint64(100*i),
			rd.PoreType != fmt.Sprintf("type-%d", i/600), rd.Run.AcquisitionID != fmt.Sprintf("run-%d", i/700),
			rd.EndReason != reasons[i*len(reasons)/1010], rd.EndReasonForced != (i%2 == 1), rd.CalibrationOffset != float32(i%7):
			t.Fatalf("read %d is %+v", i, rd)
		case !slices.Equal(samples[i], want):
			t.Fatalf("read %d has samples %v, want %v", i, samples[i], want)
		}
	}
}

func TestSamplesRefuses(t *testing.T) {
	r, err := NewReader(fixture(t, "three_vbz.pod5"))
	if err != nil {
		t.Fatal(err)
	}
	reads, err := r.Batch(0)
	if err != nil {
		t.Fatal(err)
	}
	a, b := reads[0], reads[1]
	for _, tc := range []struct {
		name string
		rows []uint64
		n    uint64
		want string
	}{
		{"row of another read", b.Rows, b.Samples, "belongs to another read"},
		{"row beyond the table", []uint64{99}, 1, "row 99 doesn't exist"},
		{"row beyond any table", []uint64{math.MaxUint64}, 1, "doesn't exist"},
		{"too few samples", a.Rows, a.Samples + 1, "rows hold 4001 samples, the reads table counts 4002"},
		{"too many samples", a.Rows, a.Samples - 1, "rows hold more samples than the reads table counts"},
		{"an impossible number", a.Rows, 1 << 60, "samples in one read"},
		{"no rows", nil, 5, "rows hold 0 samples"},
	} {
		dst := []int16{1, 2}
		got, err := r.SamplesAt(a.ID, tc.rows, tc.n, dst)
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "signal table: ") {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.want)
		}
		if !slices.Equal(got, dst) {
			t.Errorf("%s: dst came back as %v", tc.name, got)
		}
	}
}

// buildFooter writes a footer as the FlatBuffers builder would.
func buildFooter(sections map[contentType]section, format int16) []byte {
	b := flatbuffers.NewBuilder(0)
	id, sw, v := b.CreateString("file"), b.CreateString("test"), b.CreateString("0.3.1")
	var entries []flatbuffers.UOffsetT
	for _, what := range []contentType{readsTable, signalTable, runInfoTable, otherIndex} {
		s, ok := sections[what]
		if !ok {
			continue
		}
		b.StartObject(4)
		b.PrependInt64Slot(0, s.offset, 0)
		b.PrependInt64Slot(1, s.length, 0)
		b.PrependInt16Slot(2, format, 0)
		b.PrependInt16Slot(3, int16(what), 0)
		entries = append(entries, b.EndObject())
	}
	b.StartVector(4, len(entries), 4)
	for _, e := range slices.Backward(entries) {
		b.PrependUOffsetT(e)
	}
	contents := b.EndVector(len(entries))
	b.StartObject(4)
	b.PrependUOffsetTSlot(0, id, 0)
	b.PrependUOffsetTSlot(1, sw, 0)
	b.PrependUOffsetTSlot(2, v, 0)
	b.PrependUOffsetTSlot(3, contents, 0)
	b.Finish(b.EndObject())
	return b.FinishedBytes()
}

// wrap puts a footer behind the given sections of a file.
func wrap(body, footer []byte) []byte {
	marker := bytes.Repeat([]byte{7}, markerLen)
	out := append([]byte(Signature), marker...)
	out = append(out, body...)
	for len(out)%8 != 0 {
		out = append(out, 0)
	}
	out = append(out, marker...)
	out = append(out, footerMagic...)
	for len(footer)%8 != 0 {
		footer = append(footer, 0)
	}
	out = append(out, footer...)
	out = binary.LittleEndian.AppendUint64(out, uint64(len(footer)))
	out = append(out, marker...)
	return append(out, Signature...)
}

func TestFooter(t *testing.T) {
	body := make([]byte, 16)
	whole := section{int64(headLen), 16}
	both := map[contentType]section{readsTable: whole, signalTable: whole}
	with := func(s section) map[contentType]section {
		return map[contentType]section{readsTable: s, signalTable: whole}
	}
	good := wrap(body, buildFooter(both, featherV2))
	changed := func(at int, b byte) []byte {
		c := slices.Clone(good)
		if at < 0 {
			at += len(c)
		}
		c[at] = b
		return c
	}
	for _, tc := range []struct {
		name string
		file []byte
		want string // empty for a good file
	}{
		{"good", good, ""},
		{"with an index of unknown use", wrap(body, buildFooter(map[contentType]section{readsTable: whole, signalTable: whole, otherIndex: whole}, 0)), ""},
		{"empty", nil, "byte 0: not a POD5 signature"},
		{"other signature", changed(0, 'x'), "byte 0: not a POD5 signature"},
		{"no signature at the end", changed(-1, 'x'), "no POD5 signature at the end: the file is truncated"},
		{"other marker at the end", changed(-20, 'x'), "section marker differs"},
		{"other marker after a table", changed(headLen+16, 'x'), "no section marker after it"},
		{"no FOOTER", changed(bytes.Index(good, []byte("FOOTER")), 'x'), "footer doesn't begin with FOOTER"},
		{"long footer", changed(len(good)-tailLen+4, 1), "doesn't fit in the file"},
		{"negative footer", changed(len(good)-tailLen+7, 0xff), "doesn't fit in the file"},
		{"no reads table", wrap(body, buildFooter(map[contentType]section{signalTable: whole}, 0)), "lists no reads table"},
		{"no signal table", wrap(body, buildFooter(map[contentType]section{readsTable: whole}, 0)), "lists no signal table"},
		{"unknown format", wrap(body, buildFooter(both, 3)), "unknown format 3"},
		{"table outside", wrap(body, buildFooter(with(section{int64(headLen), 1 << 40}), 0)), "outside the file's tables"},
		{"table before the start", wrap(body, buildFooter(with(section{0, 16}), 0)), "outside the file's tables"},
		{"negative length", wrap(body, buildFooter(with(section{int64(headLen), -8}), 0)), "outside the file's tables"},
		{"overflowing", wrap(body, buildFooter(with(section{math.MaxInt64 - 7, math.MaxInt64}), 0)), "outside the file's tables"},
		{"unaligned", wrap(body, buildFooter(with(section{int64(headLen) + 4, 8}), 0)), "not aligned"},
	} {
		f, err := readFooter(tc.file)
		switch {
		case tc.want == "" && (err != nil || f.version != "0.3.1" || f.fileIdentifier != "file" || f.tables[readsTable] != whole):
			t.Errorf("%s: %+v, %v", tc.name, f, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.want)
		}
	}
}

// TestArrowLengths raises every fifth 32-bit word of each embedded file's metadata to a
// huge number in turn: no length may make the reader allocate.
func TestArrowLengths(t *testing.T) {
	good := fixture(t, "three_vbz.pod5")
	f, err := readFooter(good)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for what, s := range f.tables {
		data := good[s.offset : s.offset+s.length]
		verified, err := verifyArrow(data)
		if err != nil {
			t.Fatal(err)
		}
		end := len(data) - arrowTail
		start := end - int(binary.LittleEndian.Uint32(data[end:]))
		regions := [][2]int{{start, end}}
		for i := range len(verified.batches) / blockSize {
			at := int(binary.LittleEndian.Uint64(verified.batches[i*blockSize:]))
			regions = append(regions, [2]int{at, at + int(binary.LittleEndian.Uint32(verified.batches[i*blockSize+8:]))})
		}
		for _, region := range regions {
			for at := region[0]; at+4 <= region[1]; at += 20 {
				bad := slices.Clone(good)
				binary.LittleEndian.PutUint32(bad[int(s.offset)+at:], 0x7ffffff0)
				if r, err := NewReader(bad); err != nil {
					refused++
				} else if _, _, err := drain(r); err != nil {
					refused++
				}
			}
		}
		t.Logf("%s: %d regions", what, len(regions))
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}

// TestForeignArrow: features of Arrow that POD5 doesn't use, and that would need
// more checks, are refused by name.
func TestForeignArrow(t *testing.T) {
	write := func(typ arrow.DataType, opts ...ipc.Option) []byte {
		schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: typ}}, nil)
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		b.Field(0).AppendNull()
		var out bytes.Buffer
		w, err := ipc.NewFileWriter(&out, append(opts, ipc.WithSchema(schema))...)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Write(b.NewRecordBatch()), w.Close()); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	for _, tc := range []struct {
		name string
		data []byte
		want string
	}{
		{"plain", write(arrow.PrimitiveTypes.Uint64), ""},
		{"compressed", write(arrow.PrimitiveTypes.Uint64, ipc.WithZstd()), "uses Arrow's own compression, which is not part of POD5"},
		{"string view", write(arrow.BinaryTypes.StringView), "uses Arrow type 24, which is not part of POD5"},
		{"not Arrow", []byte("ARROW1, or so it says itself, and ends there"), "is not an Arrow IPC file"},
	} {
		f, err := verifyArrow(tc.data)
		if err == nil {
			err = f.batch(0)
		}
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || err.Error() != tc.want) {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.want)
		}
	}
}

func FuzzReader(f *testing.F) {
	for _, name := range []string{"three_vbz.pod5", "three_uncompressed.pod5"} {
		f.Add(fixture(f, name))
	}
	f.Add(wrap(make([]byte, 16), buildFooter(map[contentType]section{readsTable: {int64(headLen), 16}, signalTable: {int64(headLen), 16}}, 0)))
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

func FuzzFooter(f *testing.F) {
	s := section{int64(headLen), 16}
	f.Add(buildFooter(map[contentType]section{readsTable: s, signalTable: s}, 0))
	f.Add(buildFooter(map[contentType]section{readsTable: s, signalTable: s, runInfoTable: s}, 0))
	f.Fuzz(func(t *testing.T, footer []byte) {
		got, err := parseFooter(footer)
		if err == nil && len(got.tables) < 2 {
			t.Fatalf("accepted without its tables: %+v", got)
		}
	})
}

func BenchmarkBatch(b *testing.B) {
	r, err := NewReader(fixture(b, "three_vbz.pod5"))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Batch(0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSamples(b *testing.B) {
	for _, name := range []string{"three_vbz.pod5", "three_uncompressed.pod5"} {
		b.Run(name, func(b *testing.B) {
			r, err := NewReader(fixture(b, name))
			if err != nil {
				b.Fatal(err)
			}
			reads, err := r.Batch(0)
			if err != nil {
				b.Fatal(err)
			}
			var buf []int16
			b.SetBytes(int64(2 * reads[0].Samples))
			b.ReportAllocs()
			for b.Loop() {
				if buf, err = r.Samples(&reads[0], buf[:0]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestRunsOfOneID: which row of run infos a read means follows from its dictionary, where that is like the
// table; where it isn't, rows that differ in their rate are refused, as one of them would count for all.
func TestRunsOfOneID(t *testing.T) {
	row := func(id, software string, rate uint16) *RunInfo {
		return &RunInfo{AcquisitionID: id, Software: software, SampleRate: rate}
	}
	table := func(rows ...*RunInfo) *runTable {
		out := &runTable{rows: rows, first: make(map[string]int)}
		for i := len(rows) - 1; i >= 0; i-- {
			out.first[rows[i].AcquisitionID] = i
		}
		return out
	}
	rates := table(row("a", "x", 4000), row("b", "x", 4000), row("a", "x", 5000))
	software := table(row("a", "x", 4000), row("a", "y", 4000))
	for _, tc := range []struct {
		table      *runTable
		id         string
		k, entries int
		want       *RunInfo
		err        string
	}{
		{rates, "a", 0, 3, rates.rows[0], ""},
		{rates, "a", 2, 3, rates.rows[2], ""},
		{rates, "b", 0, 2, rates.rows[1], ""},
		{rates, "a", 1, 2, nil, `is "a", which the run info table has in rows 0 and 2 with 4000 and 5000 samples a second`},
		{software, "a", 1, 2, software.rows[1], ""},
		{software, "a", 0, 1, software.rows[0], ""},
		{software, "c", 0, 1, nil, ""},
	} {
		got, err := tc.table.of(tc.id, tc.k, tc.entries)
		if got != tc.want || (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
			t.Errorf("%+v: %v, %v", tc, got, err)
		}
	}
}
