package convert

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// draft is an output until it is complete: a hidden file beside the name it will
// have, so that giving it the name is one step of the file system.
type draft struct {
	path  string
	force bool
	file  *os.File
	rows  *os.File // the POD5 writer's scratch file; nil for none
	open  bool
	named bool
}

func existsError(path string) error {
	return fmt.Errorf("%s: %w; --force replaces it", path, fs.ErrExist)
}

func newDraft(path string, force bool) (*draft, error) {
	info, err := os.Lstat(path)
	switch {
	case err == nil && info.IsDir():
		return nil, fmt.Errorf("%s: is a folder", path)
	case err == nil && !force:
		return nil, existsError(path)
	}
	f, err := create(path)
	if err != nil {
		return nil, err
	}
	return &draft{path: path, force: force, file: f, open: true}, nil
}

// create makes a hidden file of a new name beside path, with the rights that a
// file of that name would get.
func create(path string) (*os.File, error) {
	var id [6]byte
	_, _ = rand.Read(id[:]) // never fails
	name := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+hex.EncodeToString(id[:])+".tmp")
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, reason(path, err)
	}
	return f, nil
}

// scratch makes a file for the writer's own use.
func (d *draft) scratch() (io.ReadWriteSeeker, error) {
	var err error
	d.rows, err = create(d.path)
	return d.rows, err
}

// complete puts the finished file on disk.
func (d *draft) complete() error {
	d.dropScratch()
	d.open = false
	if err := errors.Join(d.file.Sync(), d.file.Close()); err != nil {
		return reason(d.path, err)
	}
	return nil
}

// publish gives the complete file its name. Without force a file that has come
// meanwhile is left alone.
func (d *draft) publish() error {
	var err error
	if d.force {
		err = os.Rename(d.file.Name(), d.path)
	} else {
		err = linkNew(d.file.Name(), d.path)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return existsError(d.path)
	case err != nil:
		return fmt.Errorf("%s: naming the file: %w", d.path, err)
	}
	d.named = true
	return nil
}

// linkNew renames a file to a name that nobody has.
func linkNew(from, to string) error {
	err := os.Link(from, to)
	switch {
	case err == nil:
		return os.Remove(from)
	case errors.Is(err, syscall.EPERM), errors.Is(err, errors.ErrUnsupported):
		// Some network and card file systems have no links. What remains there is a
		// moment in which another file may come.
		if _, err := os.Lstat(to); err == nil {
			return fs.ErrExist
		}
		return os.Rename(from, to)
	}
	return err
}

// discard removes what has no name yet.
func (d *draft) discard() {
	d.dropScratch()
	if d.open {
		d.file.Close()
	}
	if !d.named {
		os.Remove(d.file.Name())
	}
}

func (d *draft) dropScratch() {
	if d.rows != nil {
		d.rows.Close()
		os.Remove(d.rows.Name())
		d.rows = nil
	}
}
