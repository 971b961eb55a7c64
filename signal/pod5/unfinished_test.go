package pod5

import (
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// unfinished is the recording that generate.py made of a file being written.
type unfinished struct{ signal, reads, runs []byte }

func loadUnfinished(tb testing.TB) unfinished {
	tb.Helper()
	return unfinished{fixture(tb, "unfinished/signal.part"), fixture(tb, "unfinished/reads.part"), fixture(tb, "unfinished/runs.part")}
}

// cut is what a reader finds when only so many bytes are there.
func (u unfinished) cut(signal, reads, runs int) unfinished {
	return unfinished{u.signal[:min(signal, len(u.signal))], u.reads[:min(reads, len(u.reads))], u.runs[:min(runs, len(u.runs))]}
}

// visible returns the reads that can be read whole.
func (u unfinished) visible() (reads []Read, samples [][]int16, err error) {
	r := new(Reader)
	if err := r.initUnfinished(u.signal, u.reads, u.runs); err != nil {
		return nil, nil, err
	}
	rows, err := r.SignalRows()
	if err != nil {
		return nil, nil, err
	}
	for i := range r.Batches() {
		batch, err := r.Batch(i)
		if err != nil {
			return nil, nil, err
		}
		for k := range batch {
			if len(batch[k].Rows) > 0 && slices.Max(batch[k].Rows) >= rows {
				return reads, samples, nil
			}
			s, err := r.Samples(&batch[k], nil)
			if err != nil {
				return nil, nil, err
			}
			reads, samples = append(reads, batch[k]), append(samples, s)
		}
	}
	return reads, samples, nil
}

func finished(tb testing.TB) (reads []Read, samples [][]int16) {
	tb.Helper()
	r, err := NewReader(fixture(tb, "unfinished/finished.pod5"))
	if err != nil {
		tb.Fatal(err)
	}
	if reads, samples, err = drain(r); err != nil {
		tb.Fatal(err)
	}
	return reads, samples
}

// checkPrefix compares what is seen of an unfinished file with the finished one.
func checkPrefix(t *testing.T, reads []Read, samples [][]int16, wantReads []Read, wantSamples [][]int16) {
	t.Helper()
	for i := range reads {
		got, want := reads[i], wantReads[i]
		if got.Run.AcquisitionID != want.Run.AcquisitionID || got.Run.SampleRate != want.Run.SampleRate {
			t.Fatalf("read %d: run %v, want %v", i, got.Run, want.Run)
		}
		if got.ID != want.ID || !slices.Equal(got.Rows, want.Rows) || got.Channel != want.Channel || got.PoreType != want.PoreType ||
			got.EndReason != want.EndReason || got.EndReasonForced != want.EndReasonForced || got.Start != want.Start || got.Samples != want.Samples {
			t.Fatalf("read %d: %+v, want %+v", i, got, want)
		}
		if !slices.Equal(samples[i], wantSamples[i]) {
			t.Fatalf("read %d has other samples than in the finished file", i)
		}
	}
}

// TestUnfinishedStages goes through what lay on disk after each read that ONT's
// library was given.
func TestUnfinishedStages(t *testing.T) {
	u := loadUnfinished(t)
	wantReads, wantSamples := finished(t)
	rows, err := csv.NewReader(strings.NewReader(strings.ReplaceAll(string(fixture(t, "unfinished/stages.tsv")), "\t", ","))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	// Batches of five reads, and of four rows of signal: what is seen lags behind.
	for stage, want := range map[int]int{4: -1, 5: 5, 9: 5, 10: 9, 15: 15, 20: 19, 21: 20, 23: 20} {
		var sizes []int
		for _, f := range rows[stage][1:] {
			n, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, n)
		}
		reads, samples, err := u.cut(sizes[0], sizes[1], sizes[2]).visible()
		if want < 0 {
			if !errors.Is(err, ErrUnfinished) {
				t.Errorf("stage %d: %v, want ErrUnfinished", stage, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("stage %d: %v", stage, err)
		}
		if len(reads) != want {
			t.Errorf("stage %d: %d reads, want %d", stage, len(reads), want)
		}
		checkPrefix(t, reads, samples, wantReads, wantSamples)
	}
}

// lengths are some of a file's beginnings: around every fourth message's prefix or
// so, and at places that mean nothing.
func lengths(n int) (out []int) {
	for at := 0; at < n; at += 61 {
		out = append(out, at)
	}
	for at := 32; at < n; at += 232 {
		out = append(out, at-1, at, at+1)
	}
	return append(out, n-1, n)
}

// TestUnfinishedAnywhere cuts the files at many lengths, and puts zeros behind,
// as a file system does that has reserved space: what is seen is always a
// beginning of what the finished file holds.
func TestUnfinishedAnywhere(t *testing.T) {
	u := loadUnfinished(t)
	wantReads, wantSamples := finished(t)
	zeros := make([]byte, 4096)
	best := 0
	check := func(u unfinished) {
		t.Helper()
		reads, samples, err := u.visible()
		if err != nil && !errors.Is(err, ErrUnfinished) {
			if strings.Contains(err.Error(), "run info table doesn't have") {
				return // reads of a run that is not described yet
			}
			t.Fatalf("%d, %d, %d bytes: %v", len(u.signal), len(u.reads), len(u.runs), err)
		}
		best = max(best, len(reads))
		checkPrefix(t, reads, samples, wantReads, wantSamples)
	}
	all := 1 << 20
	for _, n := range lengths(len(u.signal)) {
		check(u.cut(n, all, all))
		part := u.cut(n, all, all)
		part.signal = append(slices.Clone(part.signal), zeros...)
		check(part)
	}
	for _, n := range lengths(len(u.reads)) {
		check(u.cut(all, n, all))
		part := u.cut(all, n, all)
		part.reads = append(slices.Clone(part.reads), zeros...)
		check(part)
	}
	for _, n := range lengths(len(u.runs)) {
		check(u.cut(all, all, n))
	}
	if best != 20 {
		t.Errorf("at most %d reads were seen, want 20", best)
	}
}

func TestIdentifier(t *testing.T) {
	u := loadUnfinished(t)
	id, err := Identifier(u.signal)
	if err != nil || id != "ad29d727-46a3-4517-bfc0-41679919a131" {
		t.Errorf("%q, %v", id, err)
	}
	if got := ReadsPart(id); got != ".ad29d727-46a3-4517-bfc0-41679919a131.tmp-reads" {
		t.Errorf("reads are looked for in %q", got)
	}
	for name, file := range map[string][]byte{"empty": nil, "signature": u.signal[:8], "head": u.signal[:24], "half a schema": u.signal[:400]} {
		if _, err := Identifier(file); !errors.Is(err, ErrUnfinished) {
			t.Errorf("%s: %v, want ErrUnfinished", name, err)
		}
	}
	if _, err := Identifier([]byte("BLOW5 and more than twenty-four bytes")); err == nil || errors.Is(err, ErrUnfinished) {
		t.Errorf("not a POD5 file: %v", err)
	}
}

func TestOpenUnfinished(t *testing.T) {
	dir := t.TempDir()
	u := loadUnfinished(t)
	part := func(name string, b []byte) Part {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return Part{path, int64(len(b))}
	}
	file, reads, runs := part("x.pod5", u.signal), part("reads", u.reads), part("runs", u.runs)
	r, err := OpenUnfinished(file, reads, runs)
	if err != nil {
		t.Fatal(err)
	}
	if rows, err := r.SignalRows(); err != nil || rows == 0 || r.Batches() != 4 {
		t.Errorf("%d rows, %d batches, %v", rows, r.Batches(), err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	reads.Size = 5000 // what lies behind is not trusted
	if r, err = OpenUnfinished(file, reads, runs); err != nil || r.Batches() != 1 {
		t.Fatalf("%v, %v", r, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := OpenUnfinished(file, Part{filepath.Join(dir, "absent"), 1}, runs); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v, want ErrNotExist", err)
	}
}

func FuzzUnfinished(f *testing.F) {
	u := loadUnfinished(f)
	f.Add(u.signal, u.reads, u.runs)
	f.Add(u.signal[:5000], u.reads[:8000], u.runs)
	f.Add(u.signal[:100], u.reads[:100], u.runs[:8])
	f.Fuzz(func(_ *testing.T, signal, reads, runs []byte) {
		_, _, _ = unfinished{signal, reads, runs}.visible()
		_, _ = Identifier(signal)
	})
}
