// Package wholefile writes files, and folders of them, that get their names when they are whole. Until then they lie beside, under a name that begins with a
// dot: nobody reads half of one, and what had the name before stays. A file is on the disk before it gets its name. What is no plain file,
// as /dev/stdout or a pipe, is written to directly.
package wholefile

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// File is a file on its way. The caller calls Commit or Discard.
type File struct {
	*os.File
	pending *renameio.PendingFile // nil: no plain file
	path    string
}

// Create begins a file. Everybody may read it, as far as the process's umask lets them.
func Create(path string) (*File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		return &File{File: f, path: path}, nil
	}
	pending, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithPermissions(0o666))
	if err != nil {
		if p, ok := errors.AsType[*os.PathError](err); ok {
			err = p.Err
		}
		return nil, fmt.Errorf("creating %s: %w", path, err)
	}
	return &File{File: pending.File, pending: pending, path: path}, nil
}

// Commit gives the file its name.
func (f *File) Commit() error {
	if f.pending == nil {
		return f.Close()
	}
	err := f.pending.CloseAtomicallyReplace()
	if err == nil {
		return nil
	}
	if err = f.Cause(err); errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("somebody has removed it, or its folder, while it was written: %w", err)
	}
	return errors.Join(fmt.Errorf("writing %s: %w", f.path, err), f.Discard())
}

// Discard removes the file, unless it was committed.
func (f *File) Discard() error {
	if f.pending == nil {
		_ = f.Close() // may be closed already; what was written can't be taken back
		return nil
	}
	if err := f.pending.Cleanup(); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing what was written of %s: %w", f.path, err)
	}
	return nil
}

// Finish commits the file, or discards it after an error of those who wrote to it, which it returns.
func (f *File) Finish(err error) error {
	if err == nil {
		return f.Commit()
	}
	if cause := f.Cause(err); cause != err { //nolint:errorlint // the system's error itself, in place of one with the name on its way
		err = fmt.Errorf("writing %s: %w", f.path, cause)
	}
	return errors.Join(err, f.Discard())
}

// Write writes a file by a function.
func Write(path string, write func(*bufio.Writer) error) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(f, 1<<18)
	if err := errors.Join(write(out), out.Flush()); err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", path, f.Cause(err)), f.Discard())
	}
	return f.Commit()
}

// CommitFolder gives a folder of files that were committed its name, which nothing has yet: from is the name that it has on its way, in the
// same folder. Its files are on the disk before it gets its name, and when CommitFolder returns so is that.
func CommitFolder(from, to string) error {
	err := syncFolder(from)
	if err == nil {
		err = os.Rename(from, to)
	}
	if err == nil {
		err = syncFolder(filepath.Dir(to))
	}
	if err != nil {
		return fmt.Errorf("naming folder %s: %w", to, err)
	}
	return nil
}

// syncFolder returns when a folder's entries are on the disk.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Cause is an error of the operating system about this file without the name that it has on its way; others stay as they are.
func (f *File) Cause(err error) error {
	if p, ok := errors.AsType[*os.PathError](err); ok && p.Path == f.Name() {
		return p.Err
	}
	if l, ok := errors.AsType[*os.LinkError](err); ok && l.Old == f.Name() {
		return l.Err
	}
	return err
}
