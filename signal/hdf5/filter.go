package hdf5

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/porestream/porestream/signal/internal/inflate"
)

// Filters by their numbers (section IV.A.2.l, and the HDF Group's registry).
const (
	filterDeflate  = 1
	filterShuffle  = 2
	filterFletcher = 3
	filterVBZ      = 32020
)

// filterNames are those that are met in files of signal, also where they are not
// undone here.
var filterNames = map[uint16]string{
	filterDeflate: "gzip", filterShuffle: "shuffle", filterFletcher: "fletcher32", filterVBZ: "vbz",
	4: "szip", 5: "nbit", 6: "scaleoffset", 307: "bzip2", 32000: "lzf", 32001: "blosc", 32004: "lz4", 32008: "bitshuffle", 32013: "zfp", 32015: "zstd", 32026: "blosc2",
}

// filter is one step of a pipeline.
type filter struct {
	id     uint16
	name   string
	params []uint32
}

// String is the name by which people know the filter.
func (f filter) String() string {
	switch name := filterNames[f.id]; {
	case name != "":
		return name
	case f.name != "":
		return clip(f.name)
	}
	return fmt.Sprint(f.id)
}

// maxFilters is the most that a pipeline has.
const maxFilters = 32

// parseFilters reads the filter pipeline message.
func parseFilters(c *cursor) (list []filter, err error) {
	version := c.version(1, 2)
	n := c.uint(1)
	if version == 1 {
		c.skip(6)
	}
	if n > maxFilters {
		return nil, fmt.Errorf("has %d filters", n)
	}
	for range n {
		f := filter{id: uint16(c.uint(2))}
		var nameSize uint64
		if version == 1 || f.id >= 256 {
			nameSize = c.uint(2)
		}
		c.skip(2) // flags: each chunk itself states whether it is stored without the filter
		params := c.uint(2)
		if version == 1 {
			nameSize = padded(nameSize)
		}
		f.name = string(bytes.TrimRight(c.bytes(nameSize), "\x00"))
		for range params {
			f.params = append(f.params, uint32(c.uint(4)))
			if c.err != nil {
				break
			}
		}
		if version == 1 && params%2 == 1 {
			c.skip(4)
		}
		if c.err != nil {
			return nil, c.failed("filters")
		}
		list = append(list, f)
	}
	for _, f := range list {
		switch f.id {
		case filterDeflate, filterFletcher:
		case filterShuffle:
			if len(f.params) < 1 || f.params[0] == 0 || f.params[0] > 1<<16 {
				return nil, errors.New("has a shuffle filter without an element's size")
			}
		case filterVBZ:
			if err := checkVBZ(f.params); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("is packed with filter %d (%s), which is not supported: repack it with gzip or VBZ", f.id, f)
		}
	}
	return list, nil
}

// Workspace has what unpacking chunks needs, one at a time. Its zero value is ready.
type Workspace struct {
	a, b   []byte
	last   *[]byte // the one of them that was written last
	values []uint32
	zstd   *zstd.Decoder
	zlib   inflate.Decoder
}

// undo takes filters off a chunk, the last first. size is what the chunk is known
// to unpack to. The result is valid until the next call.
func (w *Workspace) undo(filters []filter, skipped uint32, b []byte, size uint64) ([]byte, error) {
	// Between filters a chunk may be a little longer than it is, by checksums or by
	// what packing costs where it doesn't pack.
	most := int(size + size/4 + 1024)
	for i, f := range slices.Backward(filters) {
		if skipped>>i&1 != 0 {
			continue
		}
		var err error
		switch f.id {
		case filterDeflate:
			b, err = w.inflate(b, most)
		case filterShuffle:
			b = w.unshuffle(b, int(f.params[0]))
		case filterFletcher:
			b, err = unfletcher(b)
		case filterVBZ:
			b, err = w.vbz(b, vbzOptionsOf(f.params), most)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
	}
	return b, nil
}

// target returns the buffer that the filter before has not written to.
func (w *Workspace) target() *[]byte {
	if w.last == &w.a {
		w.last = &w.b
	} else {
		w.last = &w.a
	}
	return w.last
}

func (w *Workspace) inflate(b []byte, most int) (_ []byte, err error) {
	out := w.target()
	*out, err = w.zlib.Zlib((*out)[:0], b, most)
	return *out, err
}

// unshuffle puts the bytes of elements together again: the filter stores the first byte
// of every element, then the second bytes, and so on. Bytes left over are at the end.
func (w *Workspace) unshuffle(b []byte, size int) []byte {
	n := len(b) / size
	if size == 1 || n <= 1 {
		return b
	}
	out := w.target()
	buf := slices.Grow((*out)[:0], len(b))[:len(b)]
	*out = buf
	if size == 2 {
		low, high := b[:n], b[n:2*n]
		for i, l := range low {
			buf[2*i], buf[2*i+1] = l, high[i]
		}
	} else {
		for j := range size {
			for i, v := range b[j*n : (j+1)*n] {
				buf[i*size+j] = v
			}
		}
	}
	copy(buf[n*size:], b[n*size:])
	return buf
}

// unfletcher checks the checksum behind a chunk and takes it off.
func unfletcher(b []byte) ([]byte, error) {
	if len(b) < 4 {
		return nil, fmt.Errorf("%d bytes are too few", len(b))
	}
	data, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	want := fletcher32(data)
	// Versions before 1.6.3 swapped the bytes of both halves on little-endian machines.
	swapped := want>>8&0x00ff00ff | want<<8&0xff00ff00
	if sum != want && sum != swapped {
		return nil, errors.New("the checksum is wrong: the file is damaged")
	}
	return data, nil
}
