//go:build unix

package kafka

import (
	"os"
	"syscall"
)

// tryLock takes an advisory lock that ends with the file, or with the process however it ends.
func tryLock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
