// Package textfile reads text files as they come: plain or compressed with gzip or bgzip, with or without a byte-order
// mark, from a disk or a pipe.
package textfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
)

// BGZFEnd is the empty block that ends a BGZF file and shows that it is whole (SAM specification, section 4.1.2).
const BGZFEnd = "\x1f\x8b\x08\x04\x00\x00\x00\x00\x00\xff\x06\x00BC\x02\x00\x1b\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// ErrCut is what errors of reading wrap when a compressed file is not whole: it ends within a block, or, if it is BGZF,
// between two, which only the missing end marker shows.
var ErrCut = errors.New("it is cut short; get it again")

// marks that some programs put in front of text.
const (
	utf8Mark    = "\xef\xbb\xbf"
	utf16Little = "\xff\xfe"
	utf16Big    = "\xfe\xff"
)

// Reader reads the text of a file.
type Reader struct {
	*bufio.Reader
	// Compressed says that the file is compressed, so that its size is not the text's.
	Compressed bool
}

// NewReader returns the text of r, decompressed and without a byte-order mark, with a buffer of the given size. A BGZF
// file is checked for its end marker at once, another stream when it ends: the error then comes in place of io.EOF.
func NewReader(r io.Reader, size int) (*Reader, error) {
	t := NewTail(r)
	br, compressed := bufio.NewReaderSize(t, size), false
	if magic, _ := br.Peek(2); string(magic) == "\x1f\x8b" {
		gz, err := gzip.NewReader(br)
		if err != nil {
			return nil, fmt.Errorf("decompressing: %w", cut(err))
		}
		z := &zipped{gz: gz, tail: t, blocks: isBGZF(gz.Extra)}
		if f, ok := r.(*os.File); ok {
			if err := CheckEnd(f); err != nil {
				return nil, err
			}
		}
		br, compressed = bufio.NewReaderSize(z, size), true
	}
	if mark, _ := br.Peek(len(utf8Mark)); string(mark) == utf8Mark {
		_, _ = br.Discard(len(utf8Mark))
	} else if bytes.HasPrefix(mark, []byte(utf16Little)) || bytes.HasPrefix(mark, []byte(utf16Big)) {
		return nil, errors.New("the text is UTF-16: save it as UTF-8")
	}
	return &Reader{br, compressed}, nil
}

// zipped decompresses.
type zipped struct {
	gz     *gzip.Reader
	tail   *Tail
	blocks bool // BGZF
}

func (z *zipped) Read(p []byte) (int, error) {
	n, err := z.gz.Read(p)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		if z.blocks && !z.tail.Ends() {
			err = errNoEnd
		}
	default:
		err = cut(err)
	}
	return n, err
}

var errNoEnd = fmt.Errorf("the file has no bgzip end marker: %w", ErrCut)

// cut says of an error that the file ended too early what to do about it.
func cut(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: %w", err, ErrCut)
	}
	return err
}

// isBGZF searches for BGZF's field in the extra fields of a gzip header: two letters, a length and as many bytes each.
func isBGZF(extra []byte) bool {
	for len(extra) >= 4 {
		n := int(extra[2]) | int(extra[3])<<8
		if string(extra[:2]) == "BC" && n == 2 {
			return true
		}
		if len(extra) < 4+n {
			return false
		}
		extra = extra[4+n:]
	}
	return false
}

// CheckEnd checks for the end marker of a BGZF file on a disk, so that a file that is cut short is reported before a long
// reading. Other files pass. NewReader does it itself for a file that it is given.
func CheckEnd(f *os.File) error {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil //nolint:nilerr // the end of the stream shows it
	}
	head, end := make([]byte, 18), make([]byte, len(BGZFEnd))
	if _, err := f.ReadAt(head, 0); err != nil || string(head[:4]) != BGZFEnd[:4] || !isBGZF(head[12:]) {
		return nil //nolint:nilerr // nor is it BGZF if it is so short
	}
	if info.Size() < int64(len(end)) {
		return errNoEnd
	}
	if _, err := f.ReadAt(end, info.Size()-int64(len(end))); err != nil {
		return fmt.Errorf("reading its end: %w", err)
	}
	if string(end) != BGZFEnd {
		return errNoEnd
	}
	return nil
}

// Tail passes a stream on and remembers its last bytes.
type Tail struct {
	r    io.Reader
	last []byte
}

// NewTail reads r.
func NewTail(r io.Reader) *Tail { return &Tail{r: r} }

func (t *Tail) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	if n >= len(BGZFEnd) {
		t.last = append(t.last[:0], p[n-len(BGZFEnd):n]...)
	} else if n > 0 {
		t.last = append(t.last, p[:n]...)
		t.last = t.last[max(0, len(t.last)-len(BGZFEnd)):]
	}
	return n, err
}

// Ends reports whether the last bytes that were read are the end marker of a BGZF file.
func (t *Tail) Ends() bool { return string(t.last) == BGZFEnd }
