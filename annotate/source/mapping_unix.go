//go:build unix

package source

import (
	"fmt"
	"os"
	"syscall"
)

// mapFile maps a file read-only. unmap ends it.
func mapFile(f *os.File, size int64) (data []byte, unmap func() error, err error) {
	if size == 0 {
		return nil, func() error { return nil }, nil
	}
	if size != int64(int(size)) {
		return nil, nil, fmt.Errorf("file of %d bytes does not fit the address space", size)
	}
	data, err = syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("mapping the file: %w", err)
	}
	return data, func() error { return syscall.Munmap(data) }, nil
}
