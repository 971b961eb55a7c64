package signal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/porestream/porestream/signal/blow5"
	"github.com/porestream/porestream/signal/fast5"
	"github.com/porestream/porestream/signal/pod5"
)

// File streams the reads of one recording file in file order. It is not safe
// for concurrent use.
type File interface {
	// Path returns the path given to Open.
	Path() string
	// Format returns "pod5", "blow5" or "fast5".
	Format() string
	// Next returns the next read with its samples, and io.EOF after the last.
	// The read belongs to the caller; reads of one run share one *Run. After
	// another error the file can't be read further.
	Next() (*Read, error)
	// Close releases the file. Reads already returned stay valid.
	Close() error
}

// Open opens a recording file. It goes by the bytes at the beginning of the
// file and not by its extension.
func Open(path string) (File, error) {
	src, err := openSource(path)
	if err != nil {
		return nil, err
	}
	return &file{src: src, path: path}, nil
}

// source reads one file of any format. Errors don't name the file.
type source interface {
	format() string
	// next returns the next read, on request with its samples, and where they
	// are. It returns io.EOF after the last.
	next(withSamples bool) (*Read, location, error)
	// samples appends the n samples at a location that next gave; it may be
	// called from several goroutines at once, also while next runs.
	samples(at location, n int, dst []int16) ([]int16, error)
	// about returns what the file says of itself.
	about() (version, software, compression string)
	close() error
}

// location is where the samples of a read are in its source.
type location struct {
	id     [16]byte // POD5
	rows   []uint64 // POD5: rows of the signal table
	offset uint64   // BLOW5: byte offset of the record; FAST5: address of the dataset
}

// FormatOf returns "pod5", "blow5" or "fast5" by the bytes at the beginning of a file. Any
// other file is an error that doesn't name it.
func FormatOf(path string) (string, error) {
	head, err := readHead(path)
	if err != nil {
		return "", err
	}
	switch {
	case bytes.HasPrefix(head, []byte(pod5.Signature)):
		return "pod5", nil
	case bytes.HasPrefix(head, []byte(blow5.Signature)):
		return "blow5", nil
	case bytes.HasPrefix(head, []byte(fast5.Signature)):
		return "fast5", nil
	case bytes.HasPrefix(head, []byte("#slow5_version")):
		return "", errors.New("SLOW5 text is not supported: convert with `slow5tools view -o x.blow5`")
	}
	return "", fmt.Errorf("byte 0: not POD5, BLOW5 or FAST5 (the file begins with %q)", head)
}

func openSource(path string) (source, error) {
	format, err := FormatOf(path)
	var src source
	switch format {
	case "pod5":
		src, err = openPOD5(path)
	case "blow5":
		src, err = openBLOW5(path)
	case "fast5":
		src, err = openFAST5(path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return src, nil
}

// readHead returns the first bytes of a file, enough to know its format.
func readHead(path string) ([]byte, error) {
	// Opening a named pipe would wait for its writer, so check first.
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, reason(err)
	case info.IsDir():
		return nil, errors.New("is a folder, not a file")
	case !info.Mode().IsRegular():
		return nil, errors.New("is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, reason(err)
	}
	defer f.Close()
	head := make([]byte, 16)
	n, err := io.ReadFull(f, head)
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		return nil, errors.New("is empty")
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil, reason(err)
	}
	return head[:n], nil
}

// reason drops the operation and path that os errors carry; messages here name
// the file once, in front.
func reason(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// file makes a source a File.
type file struct {
	src  source
	path string
	err  error // sticky
}

func (f *file) Path() string   { return f.path }
func (f *file) Format() string { return f.src.format() }

func (f *file) Next() (*Read, error) {
	if f.err != nil {
		return nil, f.err
	}
	rd, _, err := f.src.next(true)
	switch {
	case errors.Is(err, io.EOF):
		f.err = io.EOF
	case err != nil:
		f.err = fmt.Errorf("%s: %w", f.path, err)
	default:
		return rd, nil
	}
	return nil, f.err
}

func (f *file) Close() error {
	if f.err == nil {
		f.err = fmt.Errorf("%s: %w", f.path, fs.ErrClosed)
	}
	return f.src.close()
}

// extensions are those by which files are found in folders.
var extensions = []string{".pod5", ".blow5", ".fast5"}

// NoSignalError is the error of a folder without files of signal.
type NoSignalError struct{ Folder string }

func (e *NoSignalError) Error() string {
	return e.Folder + ": holds no *.pod5, *.blow5 or *.fast5 file"
}

// Expand turns the paths a user gave, files and folders, into the list of files
// to read. A folder stands for every *.pod5, *.blow5 and *.fast5 file below it, in
// lexical order; a folder without any is an error, and so is a path that
// doesn't exist. A file that is reached twice is listed once.
func Expand(paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, errors.New("no recording given: name POD5, BLOW5 or FAST5 files, or folders of them")
	}
	var files []string
	seen := make(map[string]bool)
	add := func(path string) {
		if key := filepath.Clean(path); !seen[key] {
			seen[key] = true
			files = append(files, path)
		}
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, reason(err))
		}
		if !info.IsDir() {
			add(path)
			continue
		}
		found, err := walk(path)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, &NoSignalError{path}
		}
		for _, f := range found {
			add(f)
		}
	}
	return files, nil
}

// walk lists the recordings below a folder.
func walk(folder string) (found []string, err error) {
	// The separator makes a link to a folder count as the folder.
	err = filepath.WalkDir(folder+string(filepath.Separator), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", path, reason(err))
		}
		if !d.IsDir() && slices.Contains(extensions, strings.ToLower(filepath.Ext(path))) {
			found = append(found, filepath.Clean(path))
		}
		return nil
	})
	slices.Sort(found)
	return found, err
}
