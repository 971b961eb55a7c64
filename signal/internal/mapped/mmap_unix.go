//go:build unix

package mapped

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func mmap(f *os.File, size int) ([]byte, error) {
	return syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED)
}

func munmap(data []byte) error { return syscall.Munmap(data) }

// forget lets go of the pages of a mapping. It is advice: an error changes nothing.
func forget(data []byte) { _ = unix.Madvise(data, unix.MADV_DONTNEED) }
