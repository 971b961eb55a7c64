package input

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"

	"github.com/porestream/porestream/align/hts/cram"
)

// ErrUnfinished says that a file ends where its writer has not gone on yet.
var ErrUnfinished = errors.New("not written yet")

// bytesSource gives the bytes of a file, decompressed.
type bytesSource interface {
	// fill appends some bytes to b. It returns ErrUnfinished when there are none yet, and
	// io.EOF when there are none any more.
	fill(b []byte) ([]byte, error)
	// whole reports, where fill returns ErrUnfinished, whether a file could end there.
	whole() bool
}

// records cuts and decodes the records of a source.
type records struct {
	source  bytesSource
	decoder decoder // nil until the format is known
	buf     []byte  // what was read and not decoded begins at
	at      int
	taken   int64 // bytes that were decoded
	ended   bool
}

// next returns the next read, without its bases perhaps. It returns io.EOF at the end,
// ErrUnfinished where the source does, a [RecordError] of a record that can't be used, and
// any other error if the records that follow can't be found.
func (r *records) next() (*Read, error) {
	for {
		rest := r.buf[r.at:]
		if r.decoder == nil {
			var err error
			if r.decoder, err = decoderFor(rest, r.ended); err != nil {
				return nil, fmt.Errorf("byte 0: %w", err)
			}
		}
		n := 0
		if r.decoder != nil {
			var err error
			if n, err = r.decoder.cut(rest, r.ended); err != nil {
				return nil, r.wrong(err)
			}
		}
		switch {
		case n > 0:
			r.at, r.taken = r.at+n, r.taken+int64(n)
			read, err := r.decoder.decode(rest[:n])
			if err != nil {
				r.taken -= int64(n)
				err = r.wrong(err)
				r.taken += int64(n)
				return nil, err
			}
			if read != nil {
				return read, nil
			}
			continue
		case r.ended && len(rest) == 0:
			return nil, io.EOF
		case r.ended:
			return nil, r.wrong(errors.New("the file ends within a record: it is truncated"))
		case len(rest) > maxRecord:
			return nil, r.wrong(fmt.Errorf("a record of more than %d bytes", maxRecord))
		}
		if err := r.more(); err != nil {
			return nil, err
		}
	}
}

// rest keeps of the buffer what is not decoded yet.
func (r *records) rest() {
	r.buf, r.at = bytes.Clone(r.buf[r.at:]), 0
}

// more reads some bytes.
func (r *records) more() error {
	if r.at > 0 {
		r.buf = r.buf[:copy(r.buf, r.buf[r.at:])]
		r.at = 0
	}
	var err error
	r.buf, err = r.source.fill(r.buf)
	switch {
	case errors.Is(err, io.EOF):
		r.ended = true
		return nil
	case errors.Is(err, ErrUnfinished) && len(r.buf) == 0 && r.source.whole():
		return io.EOF // for now
	case err == nil || errors.Is(err, ErrUnfinished):
		return err
	}
	if _, ok := errors.AsType[*cram.ReferenceError](err); ok {
		return fmt.Errorf("%w (--ref)", err)
	}
	return r.wrong(err)
}

// wrong says at which byte, decompressed, something is wrong.
func (r *records) wrong(err error) error {
	return fmt.Errorf("record at byte %d: %w", r.taken, err)
}

// Reader reads the called reads of a file that is there to its end, or of a pipe.
type Reader struct{ records }

// NewReader reads FASTQ, SAM or BAM, plain or compressed by gzip or bgzip, or CRAM, for which
// the options are. It recognises the format by the first bytes.
func NewReader(in io.Reader, o cram.Options) (*Reader, error) {
	buffered := bufio.NewReaderSize(in, 1<<16)
	magic, _ := buffered.Peek(len(cramMagic))
	if string(magic) == cramMagic {
		return &Reader{records{source: &plainSource{in: cram.NewReader(buffered, o)}}}, nil
	}
	if !bytes.HasPrefix(magic, []byte(gzipMagic)) {
		return &Reader{records{source: &plainSource{in: buffered}}}, nil
	}
	z, err := gzip.NewReader(buffered)
	if err != nil {
		return nil, fmt.Errorf("decompressing: %w", err)
	}
	return &Reader{records{source: &plainSource{in: z}}}, nil
}

// Recognises reports by a file's beginning whether it is meant to hold called reads.
func Recognises(in io.Reader) bool {
	buffered := bufio.NewReader(in)
	if magic, _ := buffered.Peek(len(cramMagic)); string(magic) == cramMagic {
		return true
	}
	r, err := NewReader(buffered, cram.Options{})
	for err == nil && r.decoder == nil && !r.ended {
		if err = r.more(); err == nil {
			r.decoder, err = decoderFor(r.buf, r.ended)
		}
	}
	return err == nil && r.decoder != nil
}

// Next returns the next read, the caller's to keep; io.EOF ends the file. After a
// [RecordError], which concerns one record, reading goes on; any other error ends it.
func (r *Reader) Next() (*Read, error) { return r.next() }

const (
	gzipMagic = "\x1f\x8b"
	cramMagic = "CRAM"
	// chunk is what is read at a time.
	chunk = 1 << 16
)

// plainSource is a reader whose end is the file's.
type plainSource struct{ in io.Reader }

func (s *plainSource) fill(b []byte) ([]byte, error) {
	b = grow(b, chunk)
	n, err := s.in.Read(b[len(b):cap(b)])
	b = b[:len(b)+n]
	if n > 0 {
		return b, nil // what is wrong comes again
	}
	if errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, cram.ErrCut) {
		err = errors.New("it ends within compressed data: it is truncated")
	}
	return b, err
}

func (*plainSource) whole() bool { return false }

// grow allocates space for n bytes behind b.
func grow(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	return append(make([]byte, 0, max(2*cap(b), len(b)+n)), b...)
}

// Samples lists, ascending, the samples that the read groups of a header name (SM), by a
// file's beginning that has all of it; none of FASTQ.
func Samples(head []byte) []string {
	return named(head, func(r *Read) string { return r.Of })
}

// Groups are the read groups, in no order: what each says of its reads.
func Groups(head []byte) []Read {
	var list []Read
	for _, g := range groupsOf(head) {
		list = append(list, g.read)
	}
	return list
}

// named lists what the read groups of a header say of their reads, each once.
func named(head []byte, of func(*Read) string) []string {
	groups := groupsOf(head)
	var names []string
	for _, g := range groups {
		if name := of(&g.read); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// groupsOf are the read groups of a header.
func groupsOf(head []byte) map[string]*group {
	r, err := NewReader(bytes.NewReader(head), cram.Options{})
	if err != nil {
		return nil
	}
	_, _ = r.Next() // behind the header; an error is reported when the file is read
	switch d := r.decoder.(type) {
	case *samDecoder:
		return d.groups
	case *bamDecoder:
		return d.groups
	}
	return nil
}

// Unaligned reports by a file's beginning, the more of it the better, that it holds reads
// that are aligned to nothing: FASTQ, or SAM, BAM or CRAM whose header names no reference.
func Unaligned(head []byte) bool {
	r, err := NewReader(bytes.NewReader(head), cram.Options{})
	for err == nil && !r.ended {
		err = r.more()
	}
	if r == nil {
		return false
	}
	text := r.buf
	d, err := decoderFor(text, true)
	if err != nil {
		return false
	}
	switch d.(type) {
	case *fastqDecoder:
		return true
	case *bamDecoder:
		const refs = "@SQ\t"
		if n, err := d.cut(text, true); err == nil && n > 0 {
			return binary.LittleEndian.Uint32(text[n-4:]) == 0
		}
		return !bytes.Contains(text, []byte(refs))
	case *samDecoder:
		for line := range bytes.Lines(text) {
			if !isHeaderLine(line) {
				fields := bytes.SplitN(line, []byte("\t"), 4)
				return len(fields) == 4 && string(fields[2]) == "*"
			}
			if bytes.HasPrefix(line, []byte("@SQ\t")) {
				return false
			}
		}
		return true
	}
	return false
}
