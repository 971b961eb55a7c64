package fast5

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzReader reads all of a file that may be anything.
func FuzzReader(f *testing.F) {
	files, err := filepath.Glob("testdata/*.fast5")
	if err != nil || len(files) < 12 {
		f.Fatal(files, err)
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		oneLine := func(err error) {
			if err != nil && strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("an error of several lines: %q", err)
			}
		}
		oneLine(Complete(b[:min(len(b), HeadLen)], int64(len(b))))
		r, err := NewReader(b)
		if err != nil {
			oneLine(err)
			return
		}
		_, _, _ = r.Version(), r.Compression(), r.Check()
		for i := range min(r.Len(), 50) {
			rd, err := r.Read(i)
			if err != nil {
				oneLine(err)
				continue
			}
			if rd.ID == "" || rd.Run == nil || rd.Run.ID == "" || strings.ContainsAny(rd.ID+rd.Run.ID, "\t\n") || math.IsNaN(rd.Range) || !(rd.Digitisation > 0) || !(rd.SampleRate > 0) {
				t.Fatalf("read %+v of run %+v", rd, rd.Run)
			}
			samples, err := r.Samples(rd, nil)
			oneLine(err)
			if err == nil && len(samples) != rd.Samples || err != nil && samples != nil {
				t.Fatalf("%d samples, want %d, beside the error %v", len(samples), rd.Samples, err)
			}
		}
	})
}
