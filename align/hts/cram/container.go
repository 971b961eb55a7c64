package cram

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/porestream/porestream/align/hts/cram/codec"
)

// definitionSize is the size of what a file begins with: a magic number, its version, and an id.
const definitionSize = 26

// version is that of a file.
type version struct{ major, minor byte }

func readVersion(definition []byte) (version, error) {
	v := version{definition[4], definition[5]}
	switch {
	case string(definition[:4]) != "CRAM":
		return v, errors.New("it doesn't begin as CRAM does")
	case v.major != 2 && v.major != 3:
		return v, fmt.Errorf("this is CRAM %d.%d; what is read are 2 and 3: write it again with samtools view -O cram,version=3.1", v.major, v.minor)
	}
	return v, nil
}

// sumSize is the size of a checksum.
const sumSize = 4

// summed reports whether files of this version have checksums.
func (v version) summed() bool { return v.major >= 3 }

// container is what stands before the blocks of one (section 7).
type container struct {
	head      int // its own size
	size      int // of its blocks
	reference int32
	start     int32
	records   int32
	blocks    int32
}

// readContainer reads a container's header at the start of b; nil if it isn't there to its end.
func (v version) readContainer(b []byte) (*container, error) {
	s := newStream(b)
	c := &container{size: int(s.int32()), reference: s.itf8(), start: s.itf8()}
	s.itf8() // the length of what it covers
	c.records = s.itf8()
	if v.major == 2 {
		s.itf8() // the number of its first record
	} else {
		s.ltf8()
	}
	s.ltf8() // bases
	c.blocks = s.itf8()
	landmarks := s.itf8()
	if s.fail.err == nil && (landmarks < 0 || landmarks > maxLandmarks) {
		return nil, fmt.Errorf("a container of %d slices", landmarks)
	}
	for i := int32(0); i < landmarks && s.fail.err == nil; i++ {
		s.itf8()
	}
	c.head = len(b) - len(s.data)
	if v.summed() {
		if sum := uint32(s.int32()); s.fail.err == nil && sum != crc32.ChecksumIEEE(b[:c.head]) {
			return nil, errors.New("the checksum of the container's header is wrong")
		}
		c.head = len(b) - len(s.data)
	}
	switch {
	case s.fail.err != nil:
		return nil, nil //nolint:nilnil,nilerr // see above
	case c.size < 0 || c.size > maxContainer || c.records < 0 || c.blocks < 0:
		return nil, fmt.Errorf("a container of %d bytes with %d records", c.size, c.records)
	}
	return c, nil
}

// readFirst reads as readContainer does, at the start of b, where the container is that holds a file's header. In
// CRAM 2 its blocks may take more bytes than it says: htslib 1.16 counts the numbers in its block as those
// of a header without the space that it reserves behind the header. So readFirst takes the length from the block.
func (v version) readFirst(b []byte) (*container, error) {
	c, err := v.readContainer(b)
	if c == nil || err != nil || v.major != 2 {
		return c, err
	}
	s := newStream(b[c.head:])
	h := readBlockHead(s)
	if s.fail.err != nil {
		return nil, nil //nolint:nilnil,nilerr // as readContainer: more bytes are needed
	}
	if c.size = max(c.size, len(b)-c.head-len(s.data)+int(h.packed)); c.size > maxContainer {
		return nil, fmt.Errorf("a header of %d bytes", c.size)
	}
	return c, nil
}

// ends reports whether a container is the one that ends a file (section 9).
func (c *container) ends() bool {
	const place = 0x454f46 // EOF
	return c.reference == -1 && c.start == place && c.records == 0
}

// Types of blocks.
const (
	blockFile        = 0
	blockCompression = 1
	blockSlice       = 2
	blockExternal    = 4
	blockCore        = 5
)

// block is a part of a container (section 8).
type block struct {
	method codec.Method
	kind   byte
	id     int32
	data   []byte
	size   int // decompressed
}

// blockHead is what stands before a block's bytes.
type blockHead struct {
	method       codec.Method
	kind         byte
	id           int32
	packed, size int32
}

func readBlockHead(s *stream) blockHead {
	return blockHead{method: codec.Method(s.byte()), kind: s.byte(), id: s.itf8(), packed: s.itf8(), size: s.itf8()}
}

// readBlock reads the block at the start of s.
func (v version) readBlock(s *stream) (*block, error) {
	start := s.data
	h := readBlockHead(s)
	b := &block{method: h.method, kind: h.kind, id: h.id, data: s.take(int(h.packed)), size: int(h.size)}
	read := len(start) - len(s.data)
	if v.summed() {
		if sum := s.take(sumSize); s.fail.err == nil && binary.LittleEndian.Uint32(sum) != crc32.ChecksumIEEE(start[:read]) {
			return nil, errors.New("a block's checksum is wrong: the file is damaged")
		}
	}
	if s.fail.err != nil {
		return nil, fmt.Errorf("a block: %w", s.fail.err)
	}
	if b.size < 0 || b.size > maxContainer {
		return nil, fmt.Errorf("a block of %d bytes", b.size)
	}
	return b, nil
}

// kindOf reads a block that has to be of a kind, decompressed.
func (v version) kindOf(s *stream, kind byte, name string) ([]byte, error) {
	b, err := v.readBlock(s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if b.kind != kind {
		return nil, fmt.Errorf("%s: the block is of type %d, want %d", name, b.kind, kind)
	}
	data, err := b.decompress()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return data, nil
}

func (b *block) decompress() ([]byte, error) { return codec.Decompress(b.method, b.data, b.size) }
