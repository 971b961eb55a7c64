// Package mapped gives read-only views of files through the page cache.
//
// Recordings reach tens of gigabytes and a player fetches reads from all over
// them, so the readers address a file's bytes directly and leave caching to the
// kernel. The price is that a failing disk, or a file that shrinks while it is
// open, shows as a memory fault. [File.Do] turns that fault into an error.
package mapped

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"sync/atomic"
)

// ErrFault means that bytes of a file that were there when it was opened can't
// be read any more.
var ErrFault = errors.New("the file changed or its disk failed while it was being read")

// letGo is how many bytes are used before their pages are let go of. Few, as the kernel
// maps more than is read, up to a folio of 2 MB around each byte: reads of a recording
// that lie here and there had 100 MB mapped for 32 MB of signal. Asking is cheap, some
// microseconds beside the tens of milliseconds that so much signal takes to call.
const letGo = 1 << 20

// File is a mapped file. Its bytes must be read inside Do. A nil File stands for bytes in
// memory: Do runs its function, and there is nothing to let go of or to close.
type File struct {
	data []byte
	used atomic.Int64 // bytes, since pages were let go of
}

// Open maps the file at path.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, withoutPath(err)
	}
	switch {
	case info.IsDir():
		return nil, errors.New("is a folder, not a file")
	case !info.Mode().IsRegular():
		return nil, errors.New("is not a regular file")
	case info.Size() == 0:
		return nil, errors.New("is empty")
	case int64(int(info.Size())) != info.Size():
		return nil, fmt.Errorf("is too large to address (%d bytes)", info.Size())
	}
	data, err := mmap(f, int(info.Size()))
	if err != nil {
		return nil, fmt.Errorf("mapping the file: %w", err)
	}
	return &File{data: data}, nil
}

// withoutPath drops the operation and path that os errors carry; callers name
// the file once, in their own way.
func withoutPath(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// Bytes returns the whole file. Slices of it are valid until Close.
func (f *File) Bytes() []byte { return f.data }

// Do runs fn, in which the file's bytes may be read, and returns its error, or
// ErrFault if the bytes could not be read.
func (f *File) Do(fn func() error) (err error) {
	if f == nil {
		return fn()
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch r := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }: // runtime's error for a memory fault
			err = ErrFault
		default:
			panic(r)
		}
	}()
	return fn()
}

// Used says that so many bytes have been read, or fewer: about what a read's signal takes in
// the file. Now and then the process then lets go of the pages that it has seen. They stay
// in the page cache, so nothing is read twice while there is memory, but no longer
// count as the process's own: played from end to end, a file of any size takes a bounded
// part of a container's memory.
func (f *File) Used(bytes int) {
	if f == nil {
		return
	}
	if f.used.Add(int64(bytes)) >= letGo {
		f.used.Store(0)
		forget(f.data)
	}
}

// Close unmaps the file. No call of Do may be under way. Close is idempotent.
func (f *File) Close() error {
	if f == nil {
		return nil
	}
	data := f.data
	f.data = nil
	if data == nil {
		return nil
	}
	return munmap(data)
}
