//go:build unix

package mapped

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

func TestFaultBecomesAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shrinks")
	if err := os.WriteFile(path, make([]byte, 64<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	sum := 0
	err = f.Do(func() error {
		for _, b := range f.Bytes() {
			sum += int(b)
		}
		return nil
	})
	if !errors.Is(err, ErrFault) {
		t.Errorf("reading a file that shrank gave %v, want ErrFault", err)
	}
}

func TestOtherPanicsPass(t *testing.T) {
	f := &File{}
	defer func() {
		if recover() != "mine" {
			t.Error("a panic that is no memory fault was swallowed")
		}
	}()
	_ = f.Do(func() error { panic("mine") })
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		dir:                          "folder",
		empty:                        "empty",
		filepath.Join(dir, "absent"): "no such file",
	} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%s) = %v, want an error with %q", path, err, want)
		}
	}
}

func TestCloseTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A reader over bytes in memory has no file.
func TestBytesInMemoryHaveNoFile(t *testing.T) {
	var f *File
	want := errors.New("its own")
	if err := f.Do(func() error { return want }); !errors.Is(err, want) {
		t.Errorf("Do = %v, want the function's error", err)
	}
	f.Used(letGo)
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// Bytes are the same after their pages were let go of, also while others read them.
func TestPagesLetGoOfHoldTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	want := bytes.Repeat([]byte("signal"), 100_000)
	if err := os.WriteFile(path, want, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 200 {
				if err := f.Do(func() error {
					if !bytes.Equal(f.Bytes(), want) {
						return errors.New("other bytes")
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
				f.Used(letGo / 16)
			}
		})
	}
	all.Wait()
}

// A file that is read from end to end keeps only what was used last.
func TestUsedPagesAreLetGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	const page = letGo / 4
	if err := os.WriteFile(path, make([]byte, 32*letGo), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	most, before := 0, mappedPages(t)
	sum := 0
	for at := 0; at < len(f.Bytes()); at += page {
		if err := f.Do(func() error {
			for _, b := range f.Bytes()[at : at+page] {
				sum += int(b)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		f.Used(page)
		most = max(most, mappedPages(t)-before)
	}
	if limit := 8 * letGo / os.Getpagesize(); most > limit || most == 0 {
		t.Errorf("%d pages of the file are the process's at once, more than %d (%d)", most, limit, sum)
	}
}

// mappedPages is how many pages of files, and shared ones, are in the process's memory.
func mappedPages(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("needs /proc: ", err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[2])
	if err != nil {
		t.Fatal(err)
	}
	return pages
}
