//go:build !linux

package bench

import (
	"errors"
	"runtime"
)

// Cores returns how many processor cores the machine has.
func Cores() int { return runtime.NumCPU() }

// OnCores runs do on n cores of the process, which this system has no way for.
func OnCores(int, func() error) error {
	return errors.New("a process can be held to some cores on Linux only")
}
