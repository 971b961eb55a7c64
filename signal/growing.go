package signal

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/porestream/porestream/signal/blow5"
	"github.com/porestream/porestream/signal/fast5"
	"github.com/porestream/porestream/signal/pod5"
)

// ErrUnfinished says that a file ends where its writer has not gone on yet.
var ErrUnfinished = errors.New("not written yet")

// Place is a place in a recording file, from which reading goes on when the file
// has grown. The zero Place is a file's beginning.
type Place struct {
	// Batch is the number of record batches of the reads table that were read
	// whole (POD5), or of reads (FAST5).
	Batch int
	// Offset is where the next record begins (BLOW5); 0 is the first.
	Offset int64
	// Check distinguishes the file from another: a checksum of its identifier (POD5), of
	// the bytes before Offset (BLOW5) or of the names of its reads (FAST5).
	Check uint32
}

// checked is how much before an offset a place's checksum covers: a record's
// beginning has the read's name, but its end has the compressed signal.
const checked = 256

// Growing reads a recording file that may still be being written. It shows the
// reads that are there with all of their samples, and does not follow the file:
// open it again from [Growing.Place] when it has grown. A FAST5 file can't be read
// before its writer has closed it; it is unfinished until it has the size that it
// says.
type Growing struct {
	src     source
	path    string
	place   func() Place
	check   func(*Place) error // sets a place's checksum; nil if place does
	trusted uint64             // rows of the signal table; POD5 that is unfinished
	pod5    *pod5.Reader
	last    Place
}

// OpenGrowing opens a recording file whose first size bytes can be trusted, to be
// read from a place on. beside gives the trusted sizes of other files in its
// folder: ONT's library keeps the tables of reads and runs there until it closes
// a POD5 file. A place in another file, such as one that was replaced, is taken for
// the beginning. OpenGrowing returns ErrUnfinished when too little is there to
// begin with.
func OpenGrowing(path string, size int64, beside func(name string) (int64, bool), from Place) (*Growing, error) {
	g, err := openGrowing(path, size, beside, from)
	switch {
	case err == nil:
		return g, nil
	case errors.Is(err, pod5.ErrUnfinished) || errors.Is(err, blow5.ErrUnfinished) || errors.Is(err, fast5.ErrUnfinished):
		return nil, ErrUnfinished
	}
	return nil, fmt.Errorf("%s: %w", path, err)
}

func openGrowing(path string, size int64, beside func(string) (int64, bool), from Place) (*Growing, error) {
	if size == 0 {
		return nil, ErrUnfinished
	}
	head, err := readHead(path)
	if err != nil {
		return nil, err
	}
	head = head[:min(int64(len(head)), size)]
	switch written := bytes.TrimRight(head, "\x00"); {
	case len(written) == 0:
		return nil, ErrUnfinished
	case bytes.HasPrefix([]byte(pod5.Signature), written[:min(len(written), len(pod5.Signature))]):
		return growingPOD5(path, size, beside, from)
	case bytes.HasPrefix([]byte(blow5.Signature), written[:min(len(written), len(blow5.Signature))]):
		return growingBLOW5(path, size, from)
	case bytes.HasPrefix([]byte(fast5.Signature), written[:min(len(written), len(fast5.Signature))]):
		return growingFAST5(path, size, from)
	}
	return nil, fmt.Errorf("byte 0: not POD5, BLOW5 or FAST5 (the file begins with %q)", head)
}

func growingBLOW5(path string, size int64, from Place) (*Growing, error) {
	if from.Offset > 0 {
		check, err := checkBefore(path, from.Offset)
		if err != nil || check != from.Check || from.Offset > size {
			from = Place{}
		}
	}
	r, err := blow5.OpenGrowing(path, size, from.Offset)
	if err != nil {
		return nil, err
	}
	return &Growing{src: newBLOW5Source(r, path), path: path, last: from, place: func() Place { return Place{Offset: r.Offset()} }, check: func(p *Place) (err error) {
		p.Check, err = checkBefore(path, p.Offset)
		return err
	}}, nil
}

func growingFAST5(path string, size int64, from Place) (*Growing, error) {
	head, err := readAt(path, 0, int(min(size, fast5.HeadLen)))
	if err != nil {
		return nil, err
	}
	if err := fast5.Complete(head, size); err != nil {
		return nil, err
	}
	s, err := openFAST5(path)
	if err != nil {
		return nil, err
	}
	check := s.r.Check()
	if from.Check != check || from.Batch > s.r.Len() {
		from = Place{Check: check}
	}
	s.read = from.Batch
	return &Growing{src: s, path: path, last: from, place: func() Place { return Place{Batch: s.read, Check: check} }}, nil
}

// checkBefore is a checksum of what lies before an offset.
func checkBefore(path string, offset int64) (uint32, error) {
	b, err := readAt(path, max(0, offset-checked), int(min(checked, offset)))
	return crc32.ChecksumIEEE(b), err
}

func growingPOD5(path string, size int64, beside func(string) (int64, bool), from Place) (*Growing, error) {
	n := int64(len(pod5.Signature))
	tail, err := readAt(path, max(0, size-n), int(min(size, n)))
	if err != nil {
		return nil, err
	}
	if size >= 2*n && string(tail) == pod5.Signature {
		r, err := pod5.Open(path)
		if err != nil {
			return nil, err
		}
		return newGrowingPOD5(r, path, from, 0), nil
	}
	id, err := pod5.IdentifierOf(path, size)
	if err != nil {
		return nil, err
	}
	parts := []string{pod5.ReadsPart(id), pod5.RunInfoPart(id)}
	sizes := make([]int64, len(parts))
	for i, name := range parts {
		n, ok := beside(name)
		if !ok || n == 0 {
			return nil, ErrUnfinished
		}
		parts[i], sizes[i] = filepath.Join(filepath.Dir(path), name), n
	}
	r, err := pod5.OpenUnfinished(pod5.Part{Path: path, Size: size}, pod5.Part{Path: parts[0], Size: sizes[0]}, pod5.Part{Path: parts[1], Size: sizes[1]})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrUnfinished // the writer has just finished the file
	}
	if err != nil {
		return nil, err
	}
	rows, err := r.SignalRows()
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	g := newGrowingPOD5(r, path, from, rows)
	g.pod5 = r
	return g, nil
}

func newGrowingPOD5(r *pod5.Reader, path string, from Place, rows uint64) *Growing {
	check := crc32.ChecksumIEEE([]byte(r.Identifier()))
	if from.Check != check || from.Batch > r.Batches() {
		from = Place{Check: check}
	}
	s := &pod5Source{r: r, runs: make(map[*pod5.RunInfo]*Run), batch: from.Batch}
	return &Growing{src: s, path: path, last: from, trusted: rows, place: func() Place {
		if len(s.reads) > 0 {
			return Place{Batch: s.batch - 1, Check: check}
		}
		return Place{Batch: s.batch, Check: check}
	}}
}

func readAt(path string, offset int64, n int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, reason(err)
	}
	defer f.Close()
	b := make([]byte, n)
	if _, err := f.ReadAt(b, offset); err != nil {
		return nil, reason(err)
	}
	return b, nil
}

// Next returns the next read, without its samples, and a function that appends
// them. It returns io.EOF after the last of a finished file, and ErrUnfinished
// where its writer has not gone on yet.
func (g *Growing) Next() (*Read, func(dst []int16) ([]int16, error), error) {
	before := g.place()
	rd, at, err := g.src.next(false)
	switch {
	case errors.Is(err, io.EOF) && g.pod5 == nil:
		g.last = g.place()
		return nil, nil, io.EOF
	case errors.Is(err, io.EOF) || errors.Is(err, blow5.ErrUnfinished):
		g.last = g.place()
		return nil, nil, ErrUnfinished
	case err != nil:
		g.last = before
		return nil, nil, fmt.Errorf("%s: %w", g.path, err)
	case g.pod5 != nil && len(at.rows) > 0 && slices.Max(at.rows) >= g.trusted:
		g.last = before
		return nil, nil, ErrUnfinished
	}
	g.last = g.place()
	return rd, func(dst []int16) ([]int16, error) {
		out, err := g.src.samples(at, rd.NumSamples, dst)
		if err != nil {
			return dst, fmt.Errorf("%s: read %s: %w", g.path, rd.ID, err)
		}
		return out, nil
	}, nil
}

// Place is where reading goes on. Reads from there on that Next has given may be
// given again.
func (g *Growing) Place() (Place, error) {
	p := g.last
	if g.check == nil {
		return p, nil
	}
	if err := g.check(&p); err != nil {
		return Place{}, fmt.Errorf("%s: %w", g.path, err)
	}
	return p, nil
}

// Format returns "pod5", "blow5" or "fast5".
func (g *Growing) Format() string { return g.src.format() }

// Close releases the file.
func (g *Growing) Close() error { return g.src.close() }
