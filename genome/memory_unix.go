//go:build unix

package genome

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

// reserve returns an empty slice with capacity for n bytes, outside the heap if n is large; nil if there is no memory.
func reserve(n int) []byte {
	if n < largeGenome {
		return make([]byte, 0, n)
	}
	b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	return b[:0]
}

// systemWords is memory for n words, outside the heap where that can be had.
func systemWords(n int) []uint64 {
	b, err := syscall.Mmap(-1, 0, 8*n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return make([]uint64, n)
	}
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), n) // pages begin at multiples of a word
}

// mapFile maps a file into memory; writes to it stay in this process. It returns false if the file can't be mapped.
func mapFile(f *os.File, size int64) ([]byte, bool, error) {
	if size <= 0 || int64(int(size)) != size {
		return nil, false, nil
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE)
	if err != nil {
		return nil, false, fmt.Errorf("mapping the file into memory: %w", err)
	}
	return b, true, nil
}
