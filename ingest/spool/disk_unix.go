//go:build unix

package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/porestream/porestream/filelock"
)

// noSpace marks errors of a disk or a quota without space.
func noSpace(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}

// Lock claims a folder, of which what says what it holds, and which is made if need be, for this process until the
// file is closed or the process ends, however it does.
func Lock(what, dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("claiming the %s: %w", what, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("claiming the %s: %w", what, err)
	}
	switch err := filelock.Try(f); {
	case errors.Is(err, filelock.ErrHeld):
		return nil, errors.Join(fmt.Errorf("claiming the %s: %s is in use by another process: give each ingest a folder of its own", what, dir), f.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("claiming the %s in %s: %w", what, dir, err), f.Close())
	}
	return f, nil
}
