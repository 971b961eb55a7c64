package pod5

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// readRow is a row of the reads table until it is written. It has a fixed size.
type readRow struct {
	ID                       [16]byte
	FirstRow, Samples, Start uint64
	Events                   uint64
	Rows, Number, Channel    uint32
	ReadsSinceMux            uint32
	MedianBefore             float32
	Offset, Scale            float32
	Levels                   [len(levelFields)]float32
	PoreType, EndReason, Run int16
	Well                     uint8
	Forced                   bool
}

// narrowChannel is the channel in the older column of 16 bits, which is 0 for one
// that doesn't fit, as in ONT's writer.
func (r *readRow) narrowChannel() uint16 {
	if r.Channel > math.MaxUint16 {
		return 0
	}
	return uint16(r.Channel)
}

// rowLog keeps rows in a scratch file.
type rowLog struct {
	file io.ReadWriteSeeker
	w    *bufio.Writer
	buf  []byte
}

func newRowLog(file io.ReadWriteSeeker) *rowLog {
	return &rowLog{file: file, w: bufio.NewWriter(file)}
}

func (l *rowLog) add(r *readRow) error {
	var err error
	if l.buf, err = binary.Append(l.buf[:0], binary.LittleEndian, r); err != nil {
		return fmt.Errorf("encoding a row: %w", err)
	}
	if _, err = l.w.Write(l.buf); err != nil {
		return fmt.Errorf("writing the scratch file: %w", err)
	}
	return nil
}

// replay calls fn with each row in order.
func (l *rowLog) replay(fn func(*readRow) error) error {
	if err := l.w.Flush(); err != nil {
		return fmt.Errorf("writing the scratch file: %w", err)
	}
	if _, err := l.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("reading the scratch file: %w", err)
	}
	var row readRow
	buf := make([]byte, binary.Size(row))
	in := bufio.NewReader(l.file)
	for {
		if _, err := io.ReadFull(in, buf); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading the scratch file: %w", err)
		}
		if _, err := binary.Decode(buf, binary.LittleEndian, &row); err != nil {
			return fmt.Errorf("reading the scratch file: %w", err)
		}
		if err := fn(&row); err != nil {
			return err
		}
	}
}
