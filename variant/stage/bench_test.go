package stage

import (
	"maps"
	"runtime"
	"slices"
	"testing"

	"github.com/porestream/porestream/align/aligntest"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/statetest"
)

// deepRecords are the reads of lambda, 74-fold, and the bases in them.
func deepRecords(b *testing.B) (recs []stream.Record, bases int) {
	b.Helper()
	segments := aligntest.Deep(aligntest.Lambda(b, "run-1", "lambda"), 5, 1)
	for _, s := range segments {
		bases += len(s.GetQualities())
	}
	values := runValues(b, "run-1", "lambda", segments)
	return records(values[:len(values)-1]), bases
}

// deepState is the state behind these records.
func deepState(b *testing.B) (h stream.Handler, bases int) {
	b.Helper()
	recs, bases := deepRecords(b)
	h = newHandler(b, lambda(b), nil)
	for _, rec := range recs {
		if err := h.Replay(b.Context(), rec); err != nil {
			b.Fatal(err)
		}
	}
	return h, bases
}

// BenchmarkSnapshot writes the whole state of a partition with lambda at 74x.
func BenchmarkSnapshot(b *testing.B) {
	h, bases := deepState(b)
	sections := statetest.Snapshot(b, h)
	var whole []byte
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		whole = append(whole, sections[name]...)
	}
	buf := make([]byte, 0, 2*len(whole))
	b.ReportAllocs()
	for b.Loop() {
		buf = buf[:0]
		for _, s := range h.State().Sections() {
			var err error
			if buf, err = h.State().AppendSection(buf, s.Name); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.SetBytes(int64(len(whole)))
	b.ReportMetric(float64(len(whole))/float64(bases), "B/base")
}

// BenchmarkRestore restores it.
func BenchmarkRestore(b *testing.B) {
	h, bases := deepState(b)
	sections := statetest.Snapshot(b, h)
	names := slices.Sorted(maps.Keys(sections))
	size := 0
	for _, name := range names {
		size += len(sections[name])
	}
	var before, after runtime.MemStats
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		h = newHandler(b, lambda(b), nil)
		runtime.GC()
		runtime.ReadMemStats(&before)
		b.StartTimer()
		for _, name := range names {
			if err := h.State().RestoreSection(name, []byte(sections[name])); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.StartTimer()
	}
	runtime.KeepAlive(h)
	b.SetBytes(int64(size))
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(bases), "heap-B/base")
}

// BenchmarkReplay replays what a partition has to replay besides: a minute of
// reads onto lambda at 74x.
func BenchmarkReplay(b *testing.B) {
	h, _ := deepState(b)
	sections := statetest.Snapshot(b, h)
	var more []stream.Record
	for _, s := range aligntest.Deep(aligntest.Lambda(b, "run-2", "lambda"), 1, 2)[:100] {
		more = append(more, records([][]byte{segmentValue(b, s)})...)
	}
	for b.Loop() {
		b.StopTimer()
		h = newHandler(b, lambda(b), nil)
		statetest.Restore(b, h, sections)
		b.StartTimer()
		for _, rec := range more {
			if err := h.Replay(b.Context(), rec); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N*len(more)), "ms/segment")
}
