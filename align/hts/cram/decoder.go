package cram

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Options say what CRAM is read with.
type Options struct {
	// Reference returns the bases, upper case, of the sequence that has a name in the FASTA that the
	// file was written with; nil if there is none of that name. nil: there is no FASTA, and files
	// that can't do without are errors.
	Reference func(name string) []byte
	// Names is what the names of reads begin with whose names the file left out; a colon and a
	// number follow.
	Names string
}

// ErrCut says that a file ends without the container that marks its end. Such a file may end between two
// containers, which nothing else shows. It is an [io.ErrUnexpectedEOF].
var ErrCut error = cutError{}

type cutError struct{}

func (cutError) Error() string {
	return "the file is cut off: the container that ends a CRAM file is missing; write or copy it again"
}

func (cutError) Unwrap() error { return io.ErrUnexpectedEOF }

// ReferenceError says that a file's reads can't be made of the reference sequences that there are. It
// is about the FASTA, not the file.
type ReferenceError struct{ Message string }

func (e *ReferenceError) Error() string { return e.Message }

func wrongReference(format string, args ...any) error {
	return &ReferenceError{fmt.Sprintf(format, args...)}
}

// Decoder decodes the parts of a CRAM file, each for itself: its header and its containers. It is for
// one goroutine.
type Decoder struct {
	options Options
	source  *sequences
	version version
	header  *header // nil: it comes next
	ended   bool
	read    int64 // bytes
	number  int   // of containers
	piece   int   // bases that end a piece of a slice, where it isn't the usual
}

// NewDecoder decodes a file from its beginning.
func NewDecoder(o Options) *Decoder {
	return &Decoder{options: o, source: &sequences{bases: o.Reference}}
}

// Size returns the size of the part that begins with b; b may end before the part does. It returns 0 if b
// is too short to know the size.
func (d *Decoder) Size(b []byte) (int, error) {
	if d.ended {
		return 0, d.wrong(errors.New("bytes behind the container that ends a CRAM file"))
	}
	before, v, read := 0, d.version, version.readContainer
	if d.header == nil {
		if len(b) < definitionSize {
			return 0, nil
		}
		var err error
		if v, err = readVersion(b); err != nil {
			return 0, err
		}
		before, read = definitionSize, version.readFirst
	}
	c, err := read(v, b[before:])
	if err != nil {
		return 0, d.wrong(err)
	}
	if c == nil {
		if len(b) > 8*maxLandmarks {
			return 0, d.wrong(errors.New("a container's header has no end"))
		}
		return 0, nil
	}
	return before + c.head + c.size, nil
}

// Unwritten reports whether a part, of the size that [Decoder.Size] returns, has zeros in place of its last
// bytes, as it has where a program reserved space for the file and has not written all of it. A part that is
// completely written may have them, too: one of CRAM 2, which has no checksums, and a header without text.
func (d *Decoder) Unwritten(part []byte) bool {
	last := part[max(0, len(part)-sumSize):]
	if d.header == nil {
		last = endOfHeader(part)
	}
	return len(bytes.TrimRight(last, "\x00")) == 0
}

// Begin begins a part, of the size that [Decoder.Size] returns: the header is appended to dst as BAM, and the records of
// a container are those that are returned, nil if there are none. They are read out of part, and have to be read to their
// end before the next part.
func (d *Decoder) Begin(dst, part []byte) ([]byte, *Records, error) {
	body, read := part, version.readContainer
	if d.header == nil {
		var err error
		if d.version, err = readVersion(part); err != nil {
			return dst, nil, d.wrong(err)
		}
		body, read = part[definitionSize:], version.readFirst
	}
	c, err := read(d.version, body)
	if err == nil && (c == nil || len(body) != c.head+c.size) {
		err = errEnds
	}
	var rest *Records
	switch {
	case err != nil:
	case d.header == nil:
		dst, err = d.appendHeader(dst, body[c.head:])
	case c.ends():
		_, err = d.version.kindOf(newStream(body[c.head:]), blockCompression, "its end")
		d.ended = err == nil
	case c.records > 0:
		rest, err = d.records(c, body[c.head:])
	}
	if err != nil {
		return dst, nil, d.wrong(err)
	}
	if rest == nil {
		d.done(len(part))
		return dst, nil, nil
	}
	rest.size = len(part)
	return dst, rest, nil
}

// done counts a part.
func (d *Decoder) done(size int) {
	d.read += int64(size)
	d.number++
}

// Ended reports whether the file has come to its end.
func (d *Decoder) Ended() bool { return d.ended || d.header != nil && d.version == version{2, 0} }

// wrong says where something is wrong, if that is somewhere.
func (d *Decoder) wrong(err error) error {
	if reference, ok := errors.AsType[*ReferenceError](err); ok {
		return reference
	}
	if d.number == 0 {
		return fmt.Errorf("CRAM header: %w", err)
	}
	return fmt.Errorf("CRAM container %d at byte %d: %w", d.number, d.read, err)
}

func (d *Decoder) appendHeader(dst, blocks []byte) ([]byte, error) {
	text, err := d.version.kindOf(newStream(blocks), blockFile, "its text")
	if err != nil {
		return nil, err
	}
	h, err := readHeader(text)
	if err != nil {
		return nil, err
	}
	if dst, err = h.appendBAM(dst); err == nil {
		d.header = h
	}
	return dst, err
}

// Records are those of a container, decoded piece by piece: a container of an archive has hundreds of
// megabytes of them.
type Records struct {
	decoder *Decoder
	size    int // of the part
	count   int32
	scheme  *compression
	in      *stream // blocks of the slices to come
	slice   *slice  // that is being decoded; nil: the next one comes
	number  int     // of slices
	decoded int32   // records of the slices so far
}

// records opens the records of a container.
func (d *Decoder) records(c *container, blocks []byte) (*Records, error) {
	in := newStream(blocks)
	data, err := d.version.kindOf(in, blockCompression, "compression header")
	if err != nil {
		return nil, err
	}
	scheme, err := readCompression(data)
	if err != nil {
		return nil, fmt.Errorf("compression header: %w", err)
	}
	return &Records{decoder: d, count: c.records, scheme: scheme, in: in}, nil
}

// Append appends a piece of the records, of about a million bases, to dst as BAM. It is false with the last.
func (r *Records) Append(dst []byte) (out []byte, more bool, err error) {
	if out, more, err = r.next(dst); err != nil {
		return dst, false, r.decoder.wrong(err)
	}
	if !more {
		r.decoder.done(r.size)
	}
	return out, more, nil
}

func (r *Records) next(dst []byte) (out []byte, more bool, err error) {
	if r.slice == nil {
		r.number++
		if r.slice, err = r.decoder.slice(r.scheme, r.in); err != nil {
			return nil, false, fmt.Errorf("slice %d: %w", r.number, err)
		}
	}
	s := r.slice
	more, err = s.decode()
	if err != nil {
		return nil, false, fmt.Errorf("slice %d: %w", r.number, err)
	}
	for i := range s.records {
		dst = s.appendBAM(dst, &s.records[i])
	}
	if more {
		return dst, true, nil
	}
	r.slice = nil
	if r.decoded += s.head.records; r.decoded < r.count && s.head.records > 0 {
		return dst, true, nil
	}
	if r.decoded != r.count {
		return nil, false, fmt.Errorf("it has %d records, and says %d", r.decoded, r.count)
	}
	if rest := bytes.Trim(r.in.data, "\x00"); len(rest) > 0 {
		return nil, false, fmt.Errorf("%d bytes behind its last record", len(rest))
	}
	return dst, false, nil
}

// slice opens the slice at the start of in.
func (d *Decoder) slice(scheme *compression, in *stream) (*slice, error) {
	data, err := d.version.kindOf(in, blockSlice, "header")
	if err != nil {
		return nil, err
	}
	head, err := readSliceHeader(data)
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	s := newSlice(head, d.header, scheme, &d.options, d.source)
	if d.piece > 0 {
		s.piece = d.piece
	}
	return s, s.readBlocks(d.version, in)
}
