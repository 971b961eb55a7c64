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
)

// ErrFault means that bytes of a file that were there when it was opened can't
// be read any more.
var ErrFault = errors.New("the file changed or its disk failed while it was being read")

// File is a mapped file. Its bytes must be read inside Do.
type File struct {
	data []byte
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

// Close unmaps the file. No call of Do may be under way. Close is idempotent.
func (f *File) Close() error {
	data := f.data
	f.data = nil
	if data == nil {
		return nil
	}
	return munmap(data)
}
