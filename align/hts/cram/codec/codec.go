// Package codec decompresses the blocks of CRAM files: the methods that CRAM shares with other
// formats, and those that are its own (CRAM codec specification 3.1).
//
// All is decoded from memory to memory, and nothing that a block says of itself is believed: what
// a method would write beyond the size that it is given is an error, and no table is larger than
// the specification needs.
package codec

import (
	"bytes"
	"compress/bzip2"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
)

// Method is how a block is compressed (CRAM specification 3, section 8).
type Method byte

// The methods of CRAM 3.1. CRAM 3.0 has those to RANS4x8.
const (
	Raw Method = iota
	Gzip
	Bzip2
	LZMA
	RANS4x8
	RANSNx16
	Arithmetic
	FQZComp
	Names
)

var names = [...]string{"raw", "gzip", "bzip2", "lzma", "rANS 4x8", "rANS Nx16", "arithmetic", "fqzcomp", "name tokeniser"}

func (m Method) String() string {
	if int(m) < len(names) {
		return names[m]
	}
	return fmt.Sprintf("method %d", byte(m))
}

// Decompress returns the size bytes that a block holds. What it returns may be data itself.
func Decompress(m Method, data []byte, size int) ([]byte, error) {
	if size == 0 {
		return nil, nil // whatever the method (section 8)
	}
	var out []byte
	var err error
	switch m {
	case Raw:
		out = data
	case Gzip:
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(data)); err == nil {
			out, err = readAll(z, size)
		}
	case Bzip2:
		out, err = readAll(bzip2.NewReader(bytes.NewReader(data)), size)
	case LZMA:
		out, err = decodeXZ(data, size)
	case RANS4x8:
		out, err = decodeRANS4x8(data, size)
	case RANSNx16:
		out, err = decodeRANSNx16(data, size)
	case Arithmetic:
		out, err = decodeArithmetic(data, size)
	case FQZComp:
		out, err = decodeFQZComp(data, size)
	case Names:
		out, err = decodeNames(data, size)
	default:
		return nil, fmt.Errorf("%v is none that CRAM 3.1 has", m)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%v: %w", m, err)
	case len(out) != size:
		return nil, fmt.Errorf("%v: it holds %d bytes, and says %d", m, len(out), size)
	}
	return out, nil
}

// readAll reads a stream: at most size bytes, and one byte further, which shows that there are more.
func readAll(r io.Reader, size int) ([]byte, error) {
	var out bytes.Buffer
	out.Grow(min(size, 1<<20) + bytes.MinRead)
	_, err := out.ReadFrom(io.LimitReader(r, int64(size)+1))
	return out.Bytes(), err
}

// What is wrong with the bytes of a block.
var (
	errShort = errors.New("the data ends too early")
	errLong  = errors.New("more is decoded than there should be")
	errTable = errors.New("a table of frequencies is damaged")
)

// cursor reads what stands at the start of bytes. The first error stays.
type cursor struct {
	data []byte
	err  error
}

func (c *cursor) byte() byte {
	if len(c.data) == 0 {
		c.err = errShort
		return 0
	}
	b := c.data[0]
	c.data = c.data[1:]
	return b
}

func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.data) {
		c.err = errShort
		c.data = nil
		return nil
	}
	b := c.data[:n]
	c.data = c.data[n:]
	return b
}

func (c *cursor) uint16() int {
	if b := c.take(2); b != nil {
		return int(binary.LittleEndian.Uint16(b))
	}
	return 0
}

func (c *cursor) uint32() uint32 {
	if b := c.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// uint7 reads a number of seven bits a byte, the highest first, which all but the last mark.
func (c *cursor) uint7() int {
	var n int
	for range 5 {
		b := c.byte()
		n = n<<7 | int(b&0x7f)
		if b < 0x80 {
			return n
		}
	}
	c.err = errors.New("a number is longer than 32 bits")
	return 0
}

// itf8 reads a number of up to four bytes, as rANS 4x8 has frequencies: those of five are none.
func (c *cursor) itf8() int {
	switch b := c.byte(); {
	case b < 0x80:
		return int(b)
	case b < 0xc0:
		return int(b&0x3f)<<8 | int(c.byte())
	}
	c.err = errTable
	return 0
}
