package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// spoolDisk is a small file system of its own for what ingests keep while Kafka is away.
type spoolDisk struct{ dir string }

// newSpoolDisk mounts one, which takes the right to mount.
func newSpoolDisk(dir string, bytes int) (*spoolDisk, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making a disk for the spool: %w", err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		return nil, fmt.Errorf("making a disk for the spool: mounting tmpfs on %s: %w", dir, err)
	}
	return &spoolDisk{dir}, nil
}

func (d *spoolDisk) ballast() string { return filepath.Join(d.dir, "ballast") }

// fill leaves no byte free.
func (d *spoolDisk) fill() error {
	f, err := os.OpenFile(d.ballast(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("filling the spool's disk: %w", err)
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for len(block) > 0 {
		switch _, err := f.Write(block); {
		case errors.Is(err, syscall.ENOSPC):
			block = block[:len(block)/2]
		case err != nil:
			return fmt.Errorf("filling the spool's disk: %w", err)
		}
	}
	return nil
}

// free gives the space back.
func (d *spoolDisk) free() error {
	if err := os.Remove(d.ballast()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("freeing the spool's disk: %w", err)
	}
	return nil
}

func (d *spoolDisk) close() error {
	if err := syscall.Unmount(d.dir, syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("unmounting the spool's disk: %w", err)
	}
	return nil
}
