package hts

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/biogo/hts/bgzf"
	"github.com/biogo/hts/sam"

	"github.com/porestream/porestream/align/hts/cram"
)

// Reader reads the records of a SAM, BAM or CRAM file. What is damaged is an error: the
// decompressor that it uses takes bytes for granted that a damaged file need not have,
// and panics.
type Reader struct {
	header *sam.Header
	lines  Lines
	next   func() (*sam.Record, error)
	binary *binaryReader // nil: SAM
	text   *textReader   // nil: BAM
}

// NewReader reads the header of a SAM or BAM file, whichever r holds. Of BAM a number of
// blocks is decompressed at a time.
func NewReader(r io.Reader, decompressors int) (*Reader, error) {
	buffered := bufio.NewReader(r)
	magic, err := buffered.Peek(2)
	if err != nil {
		return nil, fmt.Errorf("%w: the file has %d bytes", err, len(magic))
	}
	if string(magic) == "\x1f\x8b" {
		return NewBAMReader(buffered, decompressors)
	}
	return NewSAMReader(buffered)
}

// NewFormatReader reads the header of a file of a format.
func NewFormatReader(r io.Reader, format Format, decompressors int) (*Reader, error) {
	if format == SAM {
		return NewSAMReader(r)
	}
	return NewBAMReader(r, decompressors)
}

// NewBAMReader reads the header of a BAM file. The reader decompresses the given number
// of blocks at a time.
func NewBAMReader(r io.Reader, decompressors int) (*Reader, error) {
	out := new(Reader)
	err := Guard(func() (err error) {
		if out.binary, out.lines, err = readBinary(r, decompressors); err == nil {
			out.header, out.next = out.binary.header, out.binary.read
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// NewCRAMReader reads the header of a CRAM file, by the reference that its reads are aligned to.
func NewCRAMReader(r io.Reader, o cram.Options) (*Reader, error) {
	b, lines, err := readCRAM(r, o)
	if err != nil {
		return nil, err
	}
	return &Reader{header: b.header, lines: lines, next: b.read, binary: b}, nil
}

// NewSAMReader reads the header of a SAM file, which may be missing.
func NewSAMReader(r io.Reader) (*Reader, error) {
	t, lines, err := readText(r)
	if err != nil {
		return nil, err
	}
	return &Reader{header: t.header, lines: lines, next: t.read, text: t}, nil
}

// Header returns the parsed parts of the file's header.
func (r *Reader) Header() *sam.Header { return r.header }

// Lines are the lines of the file's header, to be written again.
func (r *Reader) Lines() Lines { return r.lines }

// Read returns the next record, the caller's to keep, and at the end io.EOF itself. A
// CIGAR in the tag CG is in its place.
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
	}
	return rec, nil
}

// Reuse makes Read use memory again: of a record of BAM or CRAM the bases, qualities and tags are then
// valid until the next one is read. It belongs before the first.
func (r *Reader) Reuse() {
	if r.binary != nil {
		r.binary.reuse = true
	}
}

// Unended reports whether the last record was a line of SAM without a line end: where a file
// may have been cut off, it can be half a line.
func (r *Reader) Unended() bool { return r.text != nil && r.text.unended }

// Binary reports whether the file is BAM.
func (r *Reader) Binary() bool { return r.binary != nil && r.binary.blocks != nil }

// Limit makes Read read only chunks of a BAM file that can seek, which are ascending and
// don't overlap.
func (r *Reader) Limit(chunks []bgzf.Chunk) error {
	var end bgzf.Offset
	seek := func() error {
		end = chunks[0].End
		err := r.binary.blocks.Seek(chunks[0].Begin)
		chunks = chunks[1:]
		return err
	}
	read := r.next
	r.binary.part = true
	r.next = func() (*sam.Record, error) {
		for CompareOffsets(r.binary.blocks.Place(), end) >= 0 {
			if len(chunks) == 0 {
				return nil, io.EOF
			}
			if err := seek(); err != nil {
				return nil, err
			}
		}
		rec, err := read()
		if errors.Is(err, io.EOF) && (len(chunks) > 0 || CompareOffsets(r.binary.blocks.Place(), end) < 0) {
			return nil, io.ErrUnexpectedEOF // an index of another file
		}
		return rec, err
	}
	if len(chunks) == 0 {
		return nil // end is before everything
	}
	return Guard(seek)
}

// CompareOffsets orders places in a BGZF file.
func CompareOffsets(a, b bgzf.Offset) int {
	return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Block, b.Block))
}

// Close releases what reading holds; not the reader below.
func (r *Reader) Close() error {
	if !r.Binary() {
		return nil
	}
	return Guard(r.binary.blocks.Close)
}

// Qualities are the qualities of a record's bases, nil if it has none. They are the
// record's own.
func Qualities(rec *sam.Record) []byte {
	if len(rec.Qual) == 0 || rec.Qual[0] == 0xff {
		return nil
	}
	return rec.Qual
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
