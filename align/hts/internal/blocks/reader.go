// Package blocks reads BGZF (SAM specification, section 4.1): gzip in blocks that each state
// their size, so that several can be decompressed at a time and a place in the file be found.
package blocks

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/biogo/hts/bgzf"
	"github.com/klauspost/compress/flate"
)

// Reader reads what is compressed in blocks. It is not safe for concurrent use.
//
// Problem: decompressing was a sixth of the processor time of calling a file's variants.
//
// Strategy: one goroutine finds the blocks ahead of what is read, as many as there are
// workers, and each is decompressed by a goroutine of its own, from memory to memory.
type Reader struct {
	in     *bufio.Reader
	source io.Reader
	all    []*block

	current *block // read up to at
	at      int
	err     error // that reading ends with

	// Of reading ahead; nil with one worker.
	free, found chan *block // found has them in the order of the file
	stop        chan struct{}
	running     *sync.WaitGroup
}

// NewReader reads the first block. With more than one worker, blocks are read and
// decompressed ahead. The caller closes the Reader.
func NewReader(r io.Reader, workers int) (*Reader, error) {
	z := &Reader{source: r, in: bufio.NewReaderSize(r, maxBlock)}
	blocks := 1
	if workers > 1 {
		blocks += workers // one is being read from
	}
	for range blocks {
		z.all = append(z.all, &block{ready: make(chan struct{}, 1)})
	}
	z.begin(0)
	if z.next(); z.err != nil {
		z.halt()
		return nil, z.err
	}
	return z, nil
}

// begin makes the block at place base of the file, where z.in is, the next one.
func (z *Reader) begin(base int64) {
	z.current = z.all[0]
	z.current.base, z.current.end, z.current.data = base, base, nil
	z.at, z.err = 0, nil
	if len(z.all) == 1 {
		return
	}
	z.free, z.found = make(chan *block, len(z.all)), make(chan *block, len(z.all))
	for _, b := range z.all[1:] {
		z.free <- b
	}
	z.stop, z.running = make(chan struct{}), new(sync.WaitGroup)
	z.running.Go(func() { z.find(base) })
}

// find reads blocks ahead until one can't be read or it is stopped.
func (z *Reader) find(base int64) {
	for {
		var b *block
		select {
		case b = <-z.free:
		case <-z.stop:
			return
		}
		b.err = b.read(z.in, base)
		base = b.end
		z.found <- b // has capacity for all blocks
		if b.err != nil {
			b.ready <- struct{}{}
			return
		}
		z.running.Go(func() {
			b.err = b.decompress()
			b.ready <- struct{}{}
		})
	}
}

// halt ends reading ahead.
func (z *Reader) halt() {
	if z.stop == nil {
		return
	}
	close(z.stop)
	z.running.Wait()
	z.stop = nil
	for _, b := range z.all {
		select {
		case <-b.ready:
		default:
		}
	}
}

// next makes the next block the current one, or sets the error.
func (z *Reader) next() {
	b := z.current
	if len(z.all) == 1 {
		if z.err = b.read(z.in, b.end); z.err == nil {
			z.err = b.decompress()
		}
	} else {
		z.free <- b
		b = <-z.found
		<-b.ready
		z.err = b.err
	}
	z.current, z.at = b, 0
	if z.err != nil {
		b.data = nil
	}
}

// Read reads what blocks hold, of one block at a time.
func (z *Reader) Read(p []byte) (int, error) {
	for z.err == nil && z.at == len(z.current.data) {
		z.next()
	}
	if z.err != nil {
		return 0, z.err
	}
	n := copy(p, z.current.data[z.at:])
	z.at += n
	return n, nil
}

// Place is where in the file the next byte is: at the end of a block, the beginning of the
// next one.
func (z *Reader) Place() bgzf.Offset {
	if z.at == len(z.current.data) {
		return bgzf.Offset{File: z.current.end}
	}
	return bgzf.Offset{File: z.current.base, Block: uint16(z.at)}
}

// Seek makes a place of the file, which must be able to seek, the one that is read next.
func (z *Reader) Seek(to bgzf.Offset) error {
	if to.File != z.current.base || z.current.data == nil {
		seeker, ok := z.source.(io.Seeker)
		if !ok {
			return errors.New("what is read can't seek")
		}
		z.halt()
		z.current.data, z.at = nil, 0 // so that a place in this block is sought anew if this fails
		if _, z.err = seeker.Seek(to.File, io.SeekStart); z.err != nil {
			return z.err
		}
		z.in.Reset(z.source)
		z.begin(to.File)
		if z.next(); errors.Is(z.err, io.EOF) {
			z.err = fmt.Errorf("no block begins at byte %d: the index is of another file: %w", to.File, io.ErrUnexpectedEOF)
		}
		if z.err != nil {
			return z.err
		}
	}
	if int(to.Block) > len(z.current.data) {
		z.err = fmt.Errorf("the block at byte %d has %d bytes and no place %d: the index is of another file", to.File, len(z.current.data), to.Block)
		return z.err
	}
	z.at, z.err = int(to.Block), nil
	return nil
}

// Close ends reading ahead; what is read stays open.
func (z *Reader) Close() error {
	z.halt()
	z.current.data, z.at = nil, 0
	z.err = errors.New("reading what is closed")
	return nil
}

// maxBlock is the most bytes of a block, compressed or not.
const maxBlock = 1 << 16

// block is a block of the file.
type block struct {
	base, end int64 // of the file
	whole     [maxBlock]byte
	deflated  []byte // of whole
	sum, size uint32 // of data, by the block
	inflated  [maxBlock]byte
	data      []byte // of inflated
	err       error  // in place of data
	ready     chan struct{}

	memory  bytes.Reader
	inflate io.ReadCloser
}

// Parts of a gzip member (RFC 1952).
const (
	fixedHeader = 12 // with the length of the extra field
	footer      = 8
	deflate     = 8

	headerSum = 1 << 1
	extra     = 1 << 2
	name      = 1 << 3
	comment   = 1 << 4
)

// read reads the compressed block that begins at base. Its error is [io.EOF] if nothing does.
func (b *block) read(in io.Reader, base int64) error {
	b.base, b.end, b.data = base, base, nil
	head := b.whole[:fixedHeader]
	if n, err := io.ReadFull(in, head); err != nil {
		if n > 0 {
			return cut(base, err)
		}
		return err
	}
	if head[0] != 0x1f || head[1] != 0x8b || head[2] != deflate {
		return fmt.Errorf("no block of BGZF begins at byte %d", base)
	}
	order, flags := binary.LittleEndian, head[3]
	body := fixedHeader
	if flags&extra != 0 {
		body += int(order.Uint16(head[10:]))
	}
	if flags&extra == 0 || body > maxBlock {
		return noSize(base)
	}
	if _, err := io.ReadFull(in, b.whole[fixedHeader:body]); err != nil {
		return cut(base, err)
	}
	size := sizeIn(b.whole[fixedHeader:body])
	if size < 0 {
		return noSize(base)
	}
	if size < body+footer {
		return fmt.Errorf("the block at byte %d has %d bytes, fewer than its header needs", base, size)
	}
	whole := b.whole[:size]
	if _, err := io.ReadFull(in, whole[body:]); err != nil {
		return cut(base, err)
	}
	for _, text := range []byte{name, comment} {
		if flags&text != 0 {
			body += bytes.IndexByte(whole[body:], 0) + 1
		}
	}
	if flags&headerSum != 0 {
		body += 2
	}
	foot := whole[size-footer:]
	b.deflated = whole[min(body, size-footer) : size-footer]
	b.sum, b.size = order.Uint32(foot), order.Uint32(foot[4:])
	b.end = base + int64(size)
	if b.size > maxBlock {
		return fmt.Errorf("the block at byte %d says that it holds %d bytes: there can be %d", base, b.size, maxBlock)
	}
	return nil
}

// sizeIn is the size that a block's extra field states; -1: none.
func sizeIn(field []byte) int {
	const head = 4 // two letters and a length
	for len(field) >= head {
		n := int(binary.LittleEndian.Uint16(field[2:]))
		if len(field) < head+n {
			return -1
		}
		if field[0] == 'B' && field[1] == 'C' && n == 2 {
			return int(binary.LittleEndian.Uint16(field[head:])) + 1
		}
		field = field[head+n:]
	}
	return -1
}

// decompress fills data.
func (b *block) decompress() error {
	b.memory.Reset(b.deflated)
	if b.inflate == nil {
		b.inflate = flate.NewReader(&b.memory)
	} else if err := b.inflate.(flate.Resetter).Reset(&b.memory, nil); err != nil {
		return b.damaged(err)
	}
	data := b.inflated[:b.size]
	if _, err := io.ReadFull(b.inflate, data); err != nil {
		return b.damaged(err)
	}
	var more [1]byte
	if n, err := b.inflate.Read(more[:]); n > 0 {
		return b.damaged(errors.New("it holds more than it says"))
	} else if !errors.Is(err, io.EOF) {
		return b.damaged(err)
	}
	if crc32.ChecksumIEEE(data) != b.sum {
		return b.damaged(errors.New("its checksum is wrong"))
	}
	b.data = data
	return nil
}

func (b *block) damaged(err error) error {
	if errors.Is(err, io.EOF) { // the end of the block, not of the file
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("the block at byte %d is damaged: %w", b.base, err)
}

func cut(base int64, err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("the block at byte %d: %w", base, err)
}

func noSize(base int64) error {
	return fmt.Errorf("what begins at byte %d has no size of its own: it is gzip, but no block of BGZF", base)
}
