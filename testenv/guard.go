//go:build unix

package testenv

import (
	"os"
	"syscall"
	"testing"
)

// BeforeGuard returns a copy of b whose end is the end of readable memory, so that a
// load or store behind it, as assembly could do unseen, is a fault.
func BeforeGuard(tb testing.TB, b []byte) []byte {
	tb.Helper()
	page := os.Getpagesize()
	size := (len(b) + page - 1) / page * page
	memory, err := syscall.Mmap(-1, 0, size+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := syscall.Munmap(memory); err != nil {
			tb.Error(err)
		}
	})
	if err := syscall.Mprotect(memory[size:], syscall.PROT_NONE); err != nil {
		tb.Fatal(err)
	}
	out := memory[size-len(b) : size : size]
	copy(out, b)
	return out
}
