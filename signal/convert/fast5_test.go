package convert

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/porestream/porestream/signal/fast5"
)

// fast5Files are files of three reads, which lie beside POD5 and BLOW5 files of the same
// reads, and larger files where there are any.
func fast5Files(t *testing.T) []string {
	t.Helper()
	files := []string{fixtures + "three_vbz.fast5", fixtures + "three_gzip.fast5"}
	if dir := dataFolder(); dir != "" {
		more, err := filepath.Glob(dir + "/formats/fast5/*.fast5")
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	return files
}

// TestFAST5KeepsItsSamplesInPOD5 takes files to POD5, once directly and once by way of BLOW5: both must
// hold the same, and have the samples of the original.
func TestFAST5KeepsItsSamplesInPOD5(t *testing.T) {
	for _, file := range fast5Files(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			dir := t.TempDir()
			direct := run(t, []string{file}, dir+"/a.pod5", Options{})
			there := run(t, []string{file}, dir+"/b.blow5", Options{})
			run(t, []string{dir + "/b.blow5"}, dir+"/c.pod5", Options{})
			if len(there.Losses) > 0 {
				t.Errorf("losses to BLOW5: %+v", there.Losses)
			}
			for _, l := range direct.Losses {
				if !slices.Contains([]string{"range", "offset", "median_before"}, l.Field) {
					t.Errorf("loss to POD5: %+v", l)
				}
			}
			sameLines(t, contents(t, dir+"/c.pod5"), contents(t, dir+"/a.pod5"))
			r, err := fast5.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if direct.Reads != int64(r.Len()) || there.Samples != direct.Samples {
				t.Errorf("%+v and %+v of %d reads", direct, there, r.Len())
			}
			onlyFiles(t, dir, "a.pod5", "b.blow5", "c.pod5")
		})
	}
}

// TestFAST5AsConvertedByOthers holds what POD5 and BLOW5 files of ours have to what
// ONT's own converter makes of the same FAST5 files.
func TestFAST5AsConvertedByOthers(t *testing.T) {
	interpreter := python(t)
	for _, file := range fast5Files(t) {
		if strings.HasPrefix(filepath.Base(file), "read_") {
			continue // their converter takes no single-read files
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			dir := t.TempDir()
			run(t, []string{file}, dir+"/a.pod5", Options{})
			run(t, []string{file}, dir+"/b.blow5", Options{})
			seen := official(t, interpreter, "convert", file, "common", dir+"/a.pod5", "common", dir+"/b.blow5")
			for _, lines := range seen {
				slices.Sort(lines)
			}
			sameLines(t, seen[1], seen[0])
			sameLines(t, seen[2], seen[0])
		})
	}
}

// TestFAST5Merge merges the files of a run, one of which is FAST5.
func TestFAST5Merge(t *testing.T) {
	dir := t.TempDir()
	file := "../fast5/testdata/multi_dense.fast5"
	report := run(t, []string{fixtures + "three_vbz.fast5", file}, dir+"/both.pod5", Options{})
	if report.Reads != 15 {
		t.Errorf("%+v", report)
	}
	// The second file has fewer tags: those of the first are kept, and the report says so.
	i := slices.IndexFunc(report.Losses, func(l Loss) bool { return l.Field == "tracking_id" })
	if i < 0 || report.Losses[i].Reads != 12 {
		t.Errorf("losses %+v", report.Losses)
	}
	if _, err := Run(t.Context(), []string{fixtures + "three_vbz.fast5", fixtures + "three_gzip.fast5"}, dir+"/x.pod5", Options{}); err == nil || !strings.Contains(err.Error(), "occurs twice") {
		t.Errorf("reads that are in both: %v", err)
	}
	report = run(t, []string{fixtures + "three_vbz.fast5", file}, dir+"/channels", Options{Format: BLOW5, Split: Split{Run: true}})
	if report.Reads != 15 {
		t.Errorf("%+v", report)
	}
}
