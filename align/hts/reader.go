package hts

import (
	"errors"
	"fmt"
	"io"

	"github.com/biogo/hts/bam"
	"github.com/biogo/hts/sam"
)

// Reader reads the records of a SAM or BAM file. What is damaged is an error: the
// decoders that it uses take bytes for granted that a damaged file need not have, and
// panic.
type Reader struct {
	header *sam.Header
	next   func() (*sam.Record, error)
	bam    *bam.Reader
}

// NewBAMReader reads the header of a BAM file, of which a number of blocks is
// decompressed at a time.
func NewBAMReader(r io.Reader, decompressors int) (*Reader, error) {
	out := new(Reader)
	err := Guard(func() (err error) {
		if out.bam, err = bam.NewReader(r, decompressors); err == nil {
			out.header, out.next = out.bam.Header(), out.bam.Read
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// NewSAMReader reads the header of a SAM file.
func NewSAMReader(r io.Reader) (*Reader, error) {
	out := new(Reader)
	err := Guard(func() error {
		records, err := sam.NewReader(r)
		if err == nil {
			out.header, out.next = records.Header(), records.Read
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Header is the file's header.
func (r *Reader) Header() *sam.Header { return r.header }

// Read returns the next record, and at the end io.EOF itself.
func (r *Reader) Read() (*sam.Record, error) {
	var rec *sam.Record
	err := Guard(func() (err error) {
		rec, err = r.next()
		return err
	})
	switch {
	case errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil, io.EOF
	case err != nil:
		return nil, err
	case len(rec.Seq.Seq) != (rec.Seq.Length+1)/2:
		return nil, errors.New("the record is shorter than it says")
	}
	return rec, nil
}

// BAM is the BAM file, for who has an index; nil for SAM.
func (r *Reader) BAM() *bam.Reader { return r.bam }

// Restrict makes Read read what next does, of the same file.
func (r *Reader) Restrict(next func() (*sam.Record, error)) { r.next = next }

// Close releases what reading holds; not the reader below.
func (r *Reader) Close() error {
	if r.bam == nil {
		return nil
	}
	return Guard(r.bam.Close)
}

// Guard makes an error of what a decoder panics with.
func Guard(decode func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a line or record can't be decoded: %v", p)
		}
	}()
	return decode()
}
