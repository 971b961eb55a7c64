package signal_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/porestream/porestream/signal"
)

// checkIndex compares an index with the files read one after another.
func checkIndex(t *testing.T, paths []string) *signal.Index {
	t.Helper()
	x, err := signal.NewIndex(t.Context(), paths)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	var want []*signal.Read
	for _, p := range paths {
		want = append(want, mustReadAll(t, p)...)
	}
	if x.Len() != len(want) {
		t.Fatalf("%d reads, want %d", x.Len(), len(want))
	}
	byID := make(map[string]*signal.Read)
	for _, rd := range want {
		byID[rd.ID] = rd
	}
	var buf []int16
	for i := range x.Len() {
		e := x.Entry(i)
		if i > 0 {
			if before := x.Entry(i - 1); e.Start().Before(before.Start()) {
				t.Fatalf("read %d begins at %v, the one before at %v", i, e.Start(), before.Start())
			}
		}
		if e.Samples != nil {
			t.Fatalf("read %d has samples in the index", i)
		}
		buf, err = x.Samples(i, buf[:0])
		if err != nil {
			t.Fatal(err)
		}
		e.Samples = buf
		if err := compare([]*signal.Read{&e}, []*signal.Read{byID[e.ID]}, true); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

func TestIndexOfFixtures(t *testing.T) {
	for _, form := range []string{"vbz.pod5", "uncompressed.pod5", "none_none.blow5", "zlib_svb.blow5", "zstd_svb.blow5", "vbz.fast5", "gzip.fast5"} {
		t.Run(form, func(t *testing.T) {
			x := checkIndex(t, []string{"testdata/three_" + form})
			wantRuns := 1
			if strings.HasSuffix(form, "blow5") {
				wantRuns = 2
			}
			if runs := x.Runs(); len(runs) != wantRuns || runs[0].SampleRate != 4000 {
				t.Errorf("runs %+v, want %d", runs, wantRuns)
			}
			if p := x.Path(0); p != "testdata/three_"+form {
				t.Errorf("path %q", p)
			}
		})
	}
}

func TestIndexOfMixedRecordings(t *testing.T) {
	data := recordings(t)
	var paths []string
	for _, name := range []string{
		"formats/rna004.pod5", "formats/writer_v0.pod5", "formats/read5/test.blow5",
		"formats/blow5/one_fast5_exp_1_lossless_gzip.blow5", "r10/hg002-5khz-one.blow5", "formats/fast5/multi_read_test.fast5",
	} {
		paths = append(paths, filepath.Join(data, name))
	}
	x := checkIndex(t, paths)
	runs := x.Runs()
	if len(runs) != len(paths) {
		t.Errorf("%d runs, want %d", len(runs), len(paths))
	}
	if !slices.IsSortedFunc(runs, func(p, q *signal.Run) int {
		return cmp.Or(p.StartTime.Compare(q.StartTime), strings.Compare(p.ID, q.ID))
	}) {
		t.Error("runs are not in order of their start")
	}
}

// TestOneRunInTwoFiles splits a run over two formats: it must stay one run.
func TestOneRunInTwoFiles(t *testing.T) {
	content, err := os.ReadFile("testdata/three_none_none.blow5")
	if err != nil {
		t.Fatal(err)
	}
	// Other reads than those of the POD5 file: their ids lie in the file as text.
	for _, rd := range mustReadAll(t, "testdata/three_vbz.pod5") {
		content = bytes.ReplaceAll(content, []byte(rd.ID), []byte("read"+rd.ID[4:]))
	}
	second := filepath.Join(t.TempDir(), "second.blow5")
	if err := os.WriteFile(second, content, 0o600); err != nil {
		t.Fatal(err)
	}
	x, err := signal.NewIndex(t.Context(), []string{"testdata/three_vbz.pod5", second})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if x.Len() != 6 {
		t.Fatalf("%d reads, want 6", x.Len())
	}
	runs := x.Runs()
	if len(runs) != 2 {
		t.Fatalf("%d runs, want that of both files and the second one of the BLOW5 file", len(runs))
	}
	count := make(map[*signal.Run]int)
	for i := range x.Len() {
		count[x.Entry(i).Run]++
		if _, err := x.Samples(i, nil); err != nil {
			t.Error(err)
		}
	}
	if count[runs[0]]*count[runs[1]] != 5 {
		t.Errorf("reads per run: %v, want 5 and 1", count)
	}
}

func TestIndexRefuses(t *testing.T) {
	dir := t.TempDir()
	content, err := os.ReadFile("testdata/three_vbz.pod5")
	if err != nil {
		t.Fatal(err)
	}
	again := filepath.Join(dir, "again.pod5")
	cut := filepath.Join(dir, "cut.pod5")
	for path, c := range map[string][]byte{again: content, cut: content[:len(content)-1]} {
		if err := os.WriteFile(path, c, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		paths []string
		want  string
	}{
		{nil, "no recording given"},
		{[]string{"testdata/absent.pod5"}, "testdata/absent.pod5: no such file"},
		{[]string{"testdata/three_vbz.pod5", again}, again + ": read "},
		{[]string{"testdata/three_vbz.pod5", cut}, cut + ": byte "},
	} {
		x, err := signal.NewIndex(t.Context(), tc.paths)
		if err == nil {
			x.Close()
			t.Errorf("NewIndex(%v) succeeded", tc.paths)
		} else if !strings.HasPrefix(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("NewIndex(%v) gave %q, want %q", tc.paths, err, tc.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := signal.NewIndex(ctx, []string{"testdata/three_vbz.pod5"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled scan gave %v", err)
	}
}

func TestSamplesFromManyGoroutines(t *testing.T) {
	for _, form := range []string{"vbz.pod5", "zstd_svb.blow5", "zlib_svb.blow5"} {
		x, err := signal.NewIndex(t.Context(), []string{"testdata/three_" + form})
		if err != nil {
			t.Fatal(err)
		}
		want := make([]string, x.Len())
		for i := range want {
			s, err := x.Samples(i, nil)
			if err != nil {
				t.Fatal(err)
			}
			want[i] = digest(s)
		}
		var wg sync.WaitGroup
		errs := make(chan error, 8)
		for g := range 8 {
			wg.Go(func() {
				var buf []int16
				for k := range 50 {
					i := (g + k) % x.Len()
					var err error
					if buf, err = x.Samples(i, buf[:0]); err != nil {
						errs <- err
						return
					}
					if digest(buf) != want[i] {
						errs <- fmt.Errorf("%s: read %d differs", form, i)
						return
					}
				}
			})
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			t.Error(err)
		}
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}
}

func BenchmarkIndex(b *testing.B) {
	data := recordings(b)
	for _, name := range []string{"lambda-r9/reads.pod5", "lambda-r9/reads.blow5"} {
		b.Run(filepath.Ext(name)[1:], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				x, err := signal.NewIndex(b.Context(), []string{filepath.Join(data, name)})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(x.Len()), "reads")
				x.Close()
			}
		})
	}
}

// TestDuplicates: a read that lies in two files is taken from the first of them if that is asked for,
// wherever the files lie in the order, and not if one of them has less of it.
func TestDuplicates(t *testing.T) {
	const one, other = "testdata/three_vbz.pod5", "testdata/three_none_none.blow5"
	for _, paths := range [][]string{{one, other}, {other, one}} {
		x, err := signal.NewIndexOf(t.Context(), paths, signal.FirstOfDuplicates)
		if err != nil {
			t.Fatal(err)
		}
		if x.Len() != 3 || x.Repeated() != 3 {
			t.Errorf("%q: %d reads, %d repeated", paths, x.Len(), x.Repeated())
		}
		for i := range x.Len() {
			if x.Path(i) != paths[0] {
				t.Errorf("%q: read %d is of %s", paths, i, x.Path(i))
			}
		}
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOneRunAtTwoRates: reads of one run id whose rates differ are refused, in one file too.
func TestOneRunAtTwoRates(t *testing.T) {
	_, err := signal.NewIndex(t.Context(), []string{"testdata/two_rates.pod5"})
	if err == nil || !strings.Contains(err.Error(), "two_rates.pod5: run 0000000000000000000000000000000000000001 has reads of 4000 samples a second and of 5000: two recordings have one id") {
		t.Error(err)
	}
}
