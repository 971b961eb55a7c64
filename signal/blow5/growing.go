package blow5

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/porestream/porestream/signal/internal/mapped"
)

// ErrUnfinished says that a record, or the header, is not there to its end yet.
var ErrUnfinished = errors.New("not written yet")

// OpenGrowing opens the first size bytes of a BLOW5 file that may still be being
// written, to be read from the record at an offset on; 0 is the first. Where the
// bytes end inside a record, or without the end-of-file marker, Next returns
// ErrUnfinished. The Reader does not follow the file; open it again from
// [Reader.Offset] on. OpenGrowing returns ErrUnfinished when the header is not
// whole.
//
// slow5lib, appending to a file that it had finished, writes over the marker: a
// file may grow again.
func OpenGrowing(path string, size, offset int64) (*Reader, error) {
	m, err := mapped.Open(path)
	if err != nil {
		return nil, err
	}
	r := &Reader{mapping: m, file: m.Bytes()[:min(size, int64(len(m.Bytes())))]}
	if err := m.Do(func() error { return r.initGrowing(offset) }); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return r, nil
}

func (r *Reader) initGrowing(offset int64) error {
	r.growing = true
	written := strings.TrimRight(string(r.file[:min(len(r.file), len(Signature))]), "\x00")
	switch {
	case !strings.HasPrefix(Signature, written):
		return errors.New("byte 0: not a BLOW5 signature")
	case len(written) < len(Signature) || len(r.file) < headLen+4:
		return ErrUnfinished
	}
	length := binary.LittleEndian.Uint32(r.file[headLen:])
	switch {
	case length > maxHeader:
		return fmt.Errorf("byte %d: a header of %d bytes is not plausible", headLen, length)
	case length == 0 || !r.settled(headLen+4+int(length)):
		return ErrUnfinished
	}
	if err := r.init(); err != nil {
		return err
	}
	if offset == 0 {
		return nil
	}
	if offset < int64(r.next) || offset > int64(len(r.file)) {
		return fmt.Errorf("byte %d: no record can be there", offset)
	}
	r.next = int(offset)
	return nil
}

// Offset is where the record lies that Next gives next.
func (r *Reader) Offset() int64 { return int64(r.next) }

// growingFrame is frame for a file that may still be being written.
func (r *Reader) growingFrame(at int) (packed []byte, next int, err error) {
	rest := r.file[at:]
	if string(rest) == endMarker {
		return nil, 0, io.EOF
	}
	// No record is empty: zeros, behind a part of the marker, too, are space that a
	// file system has reserved.
	if len(rest) < 8 || strings.HasPrefix(endMarker, strings.TrimRight(string(rest[:min(len(rest), 16)]), "\x00")) {
		return nil, 0, ErrUnfinished
	}
	size := binary.LittleEndian.Uint64(rest)
	switch {
	case size > maxRecord:
		return nil, 0, fmt.Errorf("byte %d: a record of %d bytes, and the limit is %d: the file is damaged", at, size, int64(maxRecord))
	case size > uint64(len(rest)-8) || !r.settled(at+8+int(size)):
		return nil, 0, ErrUnfinished
	}
	end := 8 + int(size)
	return rest[8:end], at + end, nil
}

// settled reports whether the data that end at a place are written for certain: the file
// ends there, or something follows. Zeros that follow may be space that the writer
// reserved for data that it has not written yet.
func (r *Reader) settled(end int) bool {
	if end >= len(r.file) {
		return end == len(r.file)
	}
	next := r.file[end:min(len(r.file), end+8)]
	return bytes.ContainsFunc(next, func(c rune) bool { return c != 0 })
}
