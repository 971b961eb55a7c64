package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"strings"
)

// arrayFile is a NumPy array (.npy, format 1.0) whose number of rows is known only
// when it is closed.
type arrayFile struct {
	f     *os.File
	w     *bufio.Writer
	descr string // element type as NumPy writes it
	shape string // of a row, as in ", 2048", or ""
	rows  int
	row   []byte
}

// headerSize is what the header takes, padded: a multiple of 64.
const headerSize = 448

func createArray(path, descr, shape string) (*arrayFile, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	a := &arrayFile{f: f, w: bufio.NewWriterSize(f, 1<<20), descr: descr, shape: shape}
	if _, err := a.w.Write(make([]byte, headerSize)); err != nil {
		return nil, err
	}
	return a, nil
}

// append writes the row that fill appends.
func (a *arrayFile) append(fill func([]byte) []byte) error {
	a.row = fill(a.row[:0])
	a.rows++
	_, err := a.w.Write(a.row)
	return err
}

// close writes the header.
func (a *arrayFile) close() error {
	text := fmt.Sprintf("{'descr': %s, 'fortran_order': False, 'shape': (%d,%s), }", a.descr, a.rows, a.shape)
	head := append([]byte("\x93NUMPY\x01\x00"), 0, 0)
	binary.LittleEndian.PutUint16(head[8:], headerSize-10)
	pad := headerSize - len(head) - len(text) - 1
	if pad < 0 {
		return fmt.Errorf("writing %s: the header takes more than %d bytes", a.f.Name(), headerSize)
	}
	head = append(append(append(head, text...), strings.Repeat(" ", pad)...), '\n')
	if err := a.w.Flush(); err != nil {
		return err
	}
	if _, err := a.f.WriteAt(head, 0); err != nil {
		return err
	}
	return a.f.Close()
}

// labelDescr is the element type of labels.npy.
const labelDescr = "[('position', '<i4'), ('copies', 'u1'), ('zygosity', 'u1'), ('length', 'i1'), ('mode', 'u1'), " +
	"('type', 'u1'), ('run', 'u1'), ('depth', '<u2')]"

// appendTo appends the label as a record of labelDescr.
func (l label) appendTo(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(l.pos))
	b = append(b, l.copies, l.zygosity, uint8(l.length), l.mode, l.kind, l.run)
	return binary.LittleEndian.AppendUint16(b, l.depth)
}

// appendHalves appends values in half precision.
func appendHalves(b []byte, values []float32) []byte {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint16(b, half(v))
	}
	return b
}

// half is the nearest IEEE 754 binary16 number, ties to even; beyond its range
// infinity.
func half(v float32) uint16 {
	bits := math.Float32bits(v)
	sign := uint16(bits >> 16 & 0x8000)
	bits &= 0x7fffffff
	switch {
	case bits > 0x7f800000:
		return sign | 0x7e00 // not a number
	case bits >= 0x477ff000: // rounds to 65536 or more
		return sign | 0x7c00
	case bits < 0x38800000: // below 2^-14: subnormal, a multiple of 2^-24
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(bits))*(1<<24)))
	}
	rounded := bits + 0xfff + bits>>13&1
	return sign | uint16((rounded-0x38000000)>>13)
}
