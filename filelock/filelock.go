//go:build unix

// Package filelock lets one process at a time have a file.
package filelock

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrHeld is that of a file which another process has.
const ErrHeld = syscall.EWOULDBLOCK

// Try takes an advisory lock (flock) on f, which ends with the file, or with the process however that ends. It doesn't wait: the
// error is ErrHeld, or why there is no lock to be had, as on some network file systems.
func Try(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil || errors.Is(err, ErrHeld) {
		return err
	}
	return fmt.Errorf("locking it: %w: put it on a disk of this machine", err)
}
