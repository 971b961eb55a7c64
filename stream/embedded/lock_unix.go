//go:build unix

package embedded

import (
	"os"
	"syscall"
)

// tryLock takes an advisory lock that ends with the file.
func tryLock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
