package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ulikunitz/xz/lzma"
)

// decodeXZ decompresses an xz stream of one block, as writers of CRAM make them.
//
// Its headers are read here and only the LZMA2 data by the library, which would give a dictionary
// the size that the header names: 64 MB for a block of a few kilobytes, and up to 4 GB for a
// damaged one. No more of it is needed than there are bytes. The check at the block's end is left
// out, as CRAM has one of its own.
func decodeXZ(data []byte, size int) ([]byte, error) {
	const (
		magic       = "\xfd7zXZ\x00"
		header      = 12
		lzma2       = 0x21
		hasSizes    = 0xc0
		severalMask = 0x3f
	)
	if len(data) < header+1 || string(data[:len(magic)]) != magic {
		return nil, errors.New("no xz stream begins there")
	}
	c := cursor{data: data[header:]}
	length := (int(c.byte()) + 1) * 4
	if length < 8 || length > len(data)-header {
		return nil, errShort
	}
	body := c.data[length-1:]
	c.data = c.data[:length-1]
	flags := c.byte()
	if flags&severalMask != 0 {
		return nil, errors.New("it has other filters than LZMA2")
	}
	for bit := flags & hasSizes; bit != 0; bit &= bit - 1 {
		_, n := binary.Uvarint(c.data)
		c.take(max(n, 0))
	}
	if id, properties := c.byte(), c.byte(); id != lzma2 || properties != 1 {
		return nil, errors.New("it has other filters than LZMA2")
	}
	if c.err != nil {
		return nil, c.err
	}
	r, err := lzma.Reader2Config{DictCap: max(size, lzma.MinDictCap)}.NewReader2(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("LZMA2: %w", err)
	}
	return readAll(r, size)
}
