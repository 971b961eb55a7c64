// Package contain keeps a panic within the source of signal that it came from, so
// that a bug met by one source doesn't end the others in its process.
//
// A panic can be caught only in the goroutine that it is in. So code that starts
// a goroutine for a source starts it with a function of this package, and returns
// the error as any other.
package contain

import (
	"fmt"
	"runtime/debug"
)

// PanicError is a panic that was made an error.
type PanicError struct {
	Value any
	Stack []byte // of the goroutine, as [debug.Stack] has it
}

func (e *PanicError) Error() string { return fmt.Sprintf("a bug in ingest (panic: %v)", e.Value) }

// Unwrap is what was panicked with, if that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Panics returns a function that does what fn does, and returns a [*PanicError]
// where fn would panic.
func Panics(fn func() error) func() error {
	return func() (err error) {
		defer func() {
			if value := recover(); value != nil {
				err = &PanicError{Value: value, Stack: debug.Stack()}
			}
		}()
		return fn()
	}
}

// Call calls fn by way of [Panics].
func Call(fn func() error) error { return Panics(fn)() }
