package ingest

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"github.com/porestream/porestream/ingest/spool"
)

// smallDisk opens files on a disk with space for so many bytes. A removed file
// does not give its space back, and the next sync fails with an error.
func smallDisk(space *int, syncErr *error) func(string) (spool.File, error) {
	mu := new(sync.Mutex) // several logs share the disk
	return func(path string) (spool.File, error) {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		return &smallFile{f, mu, space, syncErr}, err
	}
}

type smallFile struct {
	*os.File
	mu    *sync.Mutex
	space *int
	err   *error
}

func (f *smallFile) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(b) <= *f.space {
		*f.space -= len(b)
		return f.File.Write(b)
	}
	n, err := f.File.Write(b[:*f.space])
	*f.space -= n
	return n, errors.Join(err, &os.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC})
}

func (f *smallFile) Sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := *f.err; err != nil {
		*f.err = nil
		return err
	}
	return f.File.Sync()
}
