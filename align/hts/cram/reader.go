package cram

import (
	"errors"
	"io"
	"slices"
)

// Reader reads a CRAM file as the decompressed bytes of the BAM file with the same header and records,
// a piece of a container at a time. It is for one goroutine.
type Reader struct {
	in      io.Reader
	decoder *Decoder
	part    []byte   // what was read of the file and isn't decoded
	size    int      // of the container at its beginning whose records are being decoded
	records *Records // of that one; nil: the next one comes
	out     []byte   // decoded, and read up to at
	at      int
	err     error
}

// NewReader reads a CRAM file from its beginning.
func NewReader(in io.Reader, o Options) *Reader {
	return &Reader{in: in, decoder: NewDecoder(o)}
}

// Read reads BAM, and at the end of a file that is whole io.EOF.
func (r *Reader) Read(b []byte) (int, error) {
	for r.at == len(r.out) && r.err == nil {
		r.out, r.at = r.out[:0], 0
		r.err = r.next()
	}
	if r.at == len(r.out) {
		return 0, r.err
	}
	n := copy(b, r.out[r.at:])
	r.at += n
	return n, nil
}

// next decodes what comes next.
func (r *Reader) next() error {
	if r.records != nil {
		return r.nextRecords()
	}
	for {
		size := 0
		if !r.decoder.ended || len(r.part) > 0 {
			var err error
			if size, err = r.decoder.Size(r.part); err != nil {
				return err
			}
		}
		if size > 0 && size <= len(r.part) {
			return r.open(size)
		}
		switch err := r.more(size - len(r.part)); {
		case errors.Is(err, io.EOF) && len(r.part) == 0 && r.decoder.Ended():
			return io.EOF
		case errors.Is(err, io.EOF):
			return ErrCut
		case err != nil:
			return err
		}
	}
}

// open decodes the beginning of the part of that size.
func (r *Reader) open(size int) (err error) {
	r.size = size
	if r.out, r.records, err = r.decoder.Begin(r.out, r.part[:size]); err == nil && r.records == nil {
		r.close()
	}
	return err
}

// nextRecords decodes the next piece of a container.
func (r *Reader) nextRecords() error {
	out, more, err := r.records.Append(r.out)
	if r.out = out; err == nil && !more {
		r.close()
	}
	return err
}

// close drops a part that is decoded.
func (r *Reader) close() {
	r.part, r.size, r.records = r.part[:copy(r.part, r.part[r.size:])], 0, nil
}

// more reads n bytes, or if that isn't known a few.
func (r *Reader) more(n int) error {
	const few = 1 << 10 // nearly every container's header
	from := len(r.part)
	if n <= 0 {
		r.part = slices.Grow(r.part, few)
		got, err := r.in.Read(r.part[from : from+few])
		r.part = r.part[:from+got]
		if got > 0 {
			return nil // what is wrong comes again
		}
		return err
	}
	// A damaged header can ask for more than there is: memory is taken as bytes come.
	for n > 0 {
		piece := min(n, 1<<20)
		r.part = slices.Grow(r.part, piece)
		got, err := io.ReadFull(r.in, r.part[len(r.part):len(r.part)+piece])
		r.part = r.part[:len(r.part)+got]
		n -= got
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = io.EOF
		}
		if err != nil {
			return err
		}
	}
	return nil
}
