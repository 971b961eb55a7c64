package blow5

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// growingReads reads what there is of a file from an offset on.
func growingReads(file []byte, offset int64) (reads []string, next int64, err error) {
	r := &Reader{file: file}
	if err := r.initGrowing(offset); err != nil {
		return nil, offset, err
	}
	for {
		err := r.Next(func(rec *Record, _ int64) error {
			samples, err := rec.AppendSamples(nil)
			reads = append(reads, fmt.Sprint(rec.ReadID, samples))
			return err
		})
		if err != nil {
			return reads, r.Offset(), err
		}
	}
}

// TestGrowing lets files grow by every byte, with and without reserved space
// behind: each record is seen as soon as it is whole, and once.
func TestGrowing(t *testing.T) {
	for _, name := range []string{"three_none_none.blow5", "three_zlib_svb.blow5", "three_zstd_exzd.blow5"} {
		file := fixture(t, name)
		want, end, err := growingReads(file, 0)
		if len(want) != 3 || !errors.Is(err, io.EOF) {
			t.Fatalf("%s: %d reads, %v", name, len(want), err)
		}
		var got []string
		var offset int64
		for n := 0; n <= len(file); n++ {
			part := file[:n:n]
			if n%2 == 1 {
				part = append(part, make([]byte, 4096-n%4096)...)
			}
			reads, next, err := growingReads(part, offset)
			if len(part) == len(file) && n == len(file) {
				if !errors.Is(err, io.EOF) {
					t.Errorf("%s: %v at its end", name, err)
				}
			} else if !errors.Is(err, ErrUnfinished) {
				t.Fatalf("%s, %d bytes: %v", name, n, err)
			}
			got, offset = append(got, reads...), next
		}
		if offset != end || !slices.Equal(got, want) {
			t.Errorf("%s: %d reads up to byte %d, want 3 up to byte %d", name, len(got), offset, end)
		}
	}
}

func TestOpenGrowing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.blow5")
	file := fixture(t, "three_zlib_svb.blow5")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name         string
		size, offset int64
		want         string
	}{
		{"all", int64(len(file)), 0, ""},
		{"more than there is", 1 << 40, 0, ""},
		{"half a header", 200, 0, ErrUnfinished.Error()},
		{"a place in the header", int64(len(file)), 70, "byte 70: no record can be there"},
		{"a place behind the end", 5000, 6000, "byte 6000: no record can be there"},
	} {
		r, err := OpenGrowing(path, tt.size, tt.offset)
		if tt.want != "" {
			if err == nil || err.Error() != tt.want {
				t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestGrowingRefuses(t *testing.T) {
	file := slices.Clone(fixture(t, "three_none_none.blow5"))
	_, first, err := growingReads(file[:1500], 0)
	if err == nil {
		t.Fatal("a part of a file is not all of it")
	}
	file[first+7] = 1 // a record of 2^56 bytes
	if _, _, err := growingReads(file, 0); err == nil || !strings.Contains(err.Error(), "the file is damaged") {
		t.Errorf("an impossible record: %v", err)
	}
	if _, _, err := growingReads([]byte("\x8bPOD"), 0); err == nil || errors.Is(err, ErrUnfinished) {
		t.Errorf("another format: %v", err)
	}
}

func FuzzGrowing(f *testing.F) {
	file := fixture(f, "three_zlib_svb.blow5")
	f.Add(file, int64(0))
	f.Add(file[:3000], int64(0))
	f.Add(file[:100], int64(68))
	f.Fuzz(func(_ *testing.T, file []byte, offset int64) {
		_, _, _ = growingReads(file, offset)
	})
}
