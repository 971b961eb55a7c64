//go:build unix

package mapped

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
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
