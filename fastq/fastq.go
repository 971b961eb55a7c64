// Package fastq reads reads from FASTQ.
package fastq

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode"

	"github.com/porestream/porestream/textfile"
)

// maxLine bounds a line: no pore has read a molecule of as many bases.
const maxLine = 1 << 28

// Read is one record.
type Read struct {
	Name        string // the header's first word
	Description string // what follows it, such as tags in the SAM manner
	Seq         []byte // letters as they were written, but T for the U of RNA, as in SAM
	Qualities   []byte // Phred, one per base
}

// Reader reads FASTQ with four lines per record, plain or compressed with gzip or
// bgzip (any number of gzip members). It is not safe for concurrent use.
type Reader struct {
	in   *bufio.Reader
	line int // lines read
	buf  []byte
}

// NewReader starts reading. A gzip header that is broken is an error.
func NewReader(r io.Reader) (*Reader, error) {
	in, err := textfile.NewReader(r, 1<<16)
	if err != nil {
		return nil, err
	}
	return &Reader{in: in.Reader}, nil
}

// Next returns the next read, the caller's to keep; io.EOF ends the file. Any other
// error says in which line the file is broken, and reading ends there.
func (r *Reader) Next() (*Read, error) {
	read, err := r.header()
	if err != nil {
		return nil, err
	}
	seq, err := r.more(read, "sequence")
	if err != nil {
		return nil, err
	}
	read.Seq = bytes.Clone(bytes.TrimRight(seq, blanks))
	for i, b := range read.Seq {
		switch c := b | 0x20; {
		case c < 'a' || c > 'z':
			return nil, r.fault("read %s: %q is no letter of a sequence", clip(read.Name), b)
		case c == 'u':
			read.Seq[i] = b - 'U' + 'T'
		}
	}
	plus, err := r.more(read, "'+' line")
	if err != nil {
		return nil, err
	}
	if len(plus) == 0 || plus[0] != '+' {
		return nil, r.fault("read %s: want '+' after one line of sequence (records of more lines are not supported)", clip(read.Name))
	}
	quals, err := r.more(read, "qualities")
	if err != nil {
		return nil, err
	}
	if quals = bytes.TrimRight(quals, blanks); len(quals) != len(read.Seq) {
		return nil, r.fault("read %s: %d qualities for %d bases", clip(read.Name), len(quals), len(read.Seq))
	}
	read.Qualities = make([]byte, len(quals))
	for i, q := range quals {
		if q < '!' || q > '~' {
			return nil, r.fault("read %s: %q is no quality", clip(read.Name), q)
		}
		read.Qualities[i] = q - '!'
	}
	return read, nil
}

// header reads the line that a record begins with: its name and description. io.EOF says that there is none.
func (r *Reader) header() (*Read, error) {
	header, err := r.next()
	for err == nil && len(header) == 0 { // blank lines at the end of the file
		if header, err = r.next(); err == nil && len(header) > 0 {
			return nil, r.fault("a blank line stands before it")
		}
	}
	if errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	if err != nil {
		return nil, err
	}
	if header[0] != '@' {
		switch {
		case r.line == 1 && header[0] == '>':
			return nil, r.fault("this is FASTA: FASTQ is needed, with qualities")
		case r.line == 1 && bytes.HasPrefix(header, []byte("BAM\x01")):
			return nil, r.fault("this is BAM, not FASTQ")
		}
		return nil, r.fault("a record begins with %q, want '@'", header[0])
	}
	name, description, _ := bytes.Cut(bytes.ReplaceAll(header[1:], []byte("\t"), []byte(" ")), []byte(" "))
	if len(name) == 0 {
		return nil, r.fault("a record without a name")
	}
	if i := bytes.IndexFunc(name, unicode.IsControl); i >= 0 {
		return nil, r.fault("a name has %q in it", name[i])
	}
	read := &Read{Name: string(name)}
	if len(description) > 0 {
		read.Description = string(bytes.TrimRight(header[1+len(name)+1:], blanks))
	}
	return read, nil
}

// blanks at the end of a line mean nothing: no quality is written as one.
const blanks = " \t"

// more reads a further line of a record.
func (r *Reader) more(read *Read, what string) ([]byte, error) {
	line, err := r.next()
	if errors.Is(err, io.EOF) {
		return nil, r.fault("the file ends within read %s, before its %s", clip(read.Name), what)
	}
	return line, err
}

// next returns a line without its end, valid until the next call.
func (r *Reader) next() ([]byte, error) {
	r.buf = r.buf[:0]
	for {
		part, err := r.in.ReadSlice('\n')
		r.buf = append(r.buf, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if len(r.buf) > maxLine {
				r.line++
				return nil, r.fault("a line of more than %d bytes", maxLine)
			}
			continue
		case errors.Is(err, io.EOF) && len(r.buf) == 0:
			return nil, io.EOF
		case err != nil && !errors.Is(err, io.EOF):
			return nil, fmt.Errorf("after line %d: %w", r.line, err)
		}
		r.line++
		return bytes.TrimSuffix(bytes.TrimSuffix(r.buf, []byte("\n")), []byte("\r")), nil
	}
}

func (r *Reader) fault(format string, args ...any) error {
	return fmt.Errorf("line %d: %w", r.line, fmt.Errorf(format, args...))
}

// clip shortens text for an error message.
func clip(s string) string { return textfile.Clip(s, 60) }
