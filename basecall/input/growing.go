package input

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
)

// Growing reads the called reads of a file that is still being written, as far as they are
// there whole. It follows the file: [Growing.Extend] says how far it may be read.
//
// What is compressed is given as soon as it can be decompressed. Of BGZF, which BAM is and
// bgzip makes, that is by blocks, whose checksums are seen to first. Other gzip is a stream
// whose checksum is at its end; it is decompressed beside the reader, as there is no way to
// stop within one and go on.
type Growing struct {
	records
	file  *os.File
	limit *limit
	reads int64 // that Next has told of
	close func()
}

// limit is how far a file may be read.
type limit struct {
	mu    sync.Mutex
	more  *sync.Cond
	bytes int64
	// waiting says that a goroutine needs bytes that are not there.
	waiting, shut bool
}

func newLimit(n int64) *limit {
	l := &limit{bytes: n}
	l.more = sync.NewCond(&l.mu)
	return l
}

func (l *limit) get() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

// OpenGrowing opens a file of which size bytes can be trusted. It returns ErrUnfinished when
// too little is there to begin with.
func OpenGrowing(path string, size int64) (*Growing, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	g, err := newGrowing(f, size)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return g, nil
}

func newGrowing(f *os.File, size int64) (*Growing, error) {
	head := make([]byte, min(size, bgzfHead))
	if _, err := f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(bytes.TrimRight(head, "\x00")) == 0 || string(head[:min(2, len(head))]) == gzipMagic && len(head) < bgzfHead {
		return nil, ErrUnfinished
	}
	g := &Growing{file: f, limit: newLimit(size), close: func() {}}
	switch {
	case string(head[:2]) != gzipMagic:
		g.source = &growingPlain{file: f, limit: g.limit, records: &g.records}
	case isBGZF(head):
		g.source = &growingBlocks{file: f, limit: g.limit, records: &g.records}
	default:
		inflate := newInflater(f, g.limit)
		g.source, g.close = inflate, inflate.close
	}
	return g, nil
}

// Next returns the next read, the caller's to keep. It returns io.EOF where the file could
// end, ErrUnfinished where it can't and its writer has not gone on yet; after both, reading
// goes on when there is more. After a [RecordError], which tells of one record, reading goes
// on; any other error ends it.
func (g *Growing) Next() (*Read, error) {
	read, err := g.next()
	if _, record := errors.AsType[*RecordError](err); err == nil || record {
		g.reads++
	}
	return read, err
}

// Reads is the number of reads that Next has told of.
func (g *Growing) Reads() int64 { return g.reads }

// Extend says how many bytes of the file can be trusted now.
func (g *Growing) Extend(size int64) {
	g.limit.mu.Lock()
	if size > g.limit.bytes {
		g.limit.bytes, g.limit.waiting = size, false
	}
	g.limit.mu.Unlock()
	g.limit.more.Broadcast()
}

// Rest lets go of memory that is needed only while reading: a file that grows waits far longer
// than it is read.
func (g *Growing) Rest() {
	g.rest()
	switch s := g.source.(type) {
	case *growingBlocks:
		s.block = nil
	case *inflater:
		s.rest()
	}
}

// SameFile tells whether a path leads to the file.
func (g *Growing) SameFile(path string) bool {
	now, err := os.Stat(path)
	if err != nil {
		return false
	}
	own, err := g.file.Stat()
	return err == nil && os.SameFile(own, now) && now.Size() >= g.limit.get()
}

// Close closes the file.
func (g *Growing) Close() error {
	g.close()
	return g.file.Close()
}

// growingPlain is a file that is not compressed.
type growingPlain struct {
	file    *os.File
	limit   *limit
	at      int64
	records *records
}

func (s *growingPlain) fill(b []byte) ([]byte, error) {
	n := min(chunk, s.limit.get()-s.at)
	if n <= 0 {
		return b, ErrUnfinished
	}
	b = grow(b, int(n))
	got, err := s.file.ReadAt(b[len(b):len(b)+int(n)], s.at)
	if got == 0 && err != nil {
		if errors.Is(err, io.EOF) {
			err = ErrUnfinished
		}
		return b, err
	}
	// Zeros are space that was reserved, not data.
	data := b[len(b) : len(b)+got]
	if i := bytes.IndexByte(data, 0); i >= 0 {
		data = data[:i]
	}
	s.at += int64(len(data))
	if len(data) == 0 {
		return b, ErrUnfinished
	}
	return b[:len(b)+len(data)], nil
}

func (s *growingPlain) whole() bool { return s.records.decoder != nil }

// BGZF is gzip in blocks that tell their size (SAM specification, section 4.1).
const (
	bgzfHead = 18
	bgzfTail = 8
)

func isBGZF(head []byte) bool {
	return len(head) >= bgzfHead && string(head[:4]) == "\x1f\x8b\x08\x04" && string(head[10:16]) == "\x06\x00BC\x02\x00"
}

// growingBlocks is a file in BGZF.
type growingBlocks struct {
	file    *os.File
	limit   *limit
	at      int64
	records *records
	block   []byte
	inflate io.ReadCloser
	empty   bool // the last block had nothing in it, as one that ends a file
}

func (s *growingBlocks) fill(b []byte) ([]byte, error) {
	left := s.limit.get() - s.at
	if left < bgzfHead {
		return b, ErrUnfinished
	}
	var head [bgzfHead]byte
	if err := s.read(head[:], s.at); err != nil {
		return b, err
	}
	if !isBGZF(head[:]) {
		if len(bytes.TrimRight(head[:], "\x00")) == 0 {
			return b, ErrUnfinished
		}
		return b, fmt.Errorf("at byte %d of the file: no BGZF block begins there", s.at)
	}
	size := int64(binary.LittleEndian.Uint16(head[16:])) + 1
	if size < bgzfHead+bgzfTail {
		return b, fmt.Errorf("at byte %d of the file: a BGZF block of %d bytes", s.at, size)
	}
	if left < size {
		return b, ErrUnfinished
	}
	s.block = grow(s.block[:0], int(size))[:size]
	if err := s.read(s.block, s.at); err != nil {
		return b, err
	}
	tail := s.block[size-bgzfTail:]
	if bytes.Equal(s.block[bgzfHead:], make([]byte, size-bgzfHead)) {
		return b, ErrUnfinished // its length is there before its bytes
	}
	n := int(binary.LittleEndian.Uint32(tail[4:]))
	if n > 1<<16 {
		return b, fmt.Errorf("at byte %d of the file: a BGZF block that holds %d bytes", s.at, n)
	}
	from := len(b)
	b = grow(b, n)[:from+n]
	if err := s.decompress(b[from:], s.block[bgzfHead:size-bgzfTail], binary.LittleEndian.Uint32(tail)); err != nil {
		return b[:from], fmt.Errorf("at byte %d of the file: BGZF block: %w", s.at, err)
	}
	s.at += size
	s.empty = n == 0
	return b, nil
}

func (s *growingBlocks) read(b []byte, at int64) error {
	_, err := s.file.ReadAt(b, at)
	if errors.Is(err, io.EOF) {
		return ErrUnfinished // cut off meanwhile
	}
	return err
}

func (s *growingBlocks) decompress(to, from []byte, sum uint32) error {
	if s.inflate == nil {
		s.inflate = flate.NewReader(bytes.NewReader(from))
	} else if err := s.inflate.(flate.Resetter).Reset(bytes.NewReader(from), nil); err != nil {
		return err
	}
	if _, err := io.ReadFull(s.inflate, to); err != nil {
		return err
	}
	var one [1]byte
	if n, _ := s.inflate.Read(one[:]); n > 0 {
		return errors.New("it holds more than it says")
	}
	if crc32.ChecksumIEEE(to) != sum {
		return errors.New("its checksum is wrong")
	}
	return nil
}

// whole: BAM ends with an empty block; other text could end with any.
func (s *growingBlocks) whole() bool {
	if s.limit.get() > s.at || s.records.decoder == nil {
		return false
	}
	_, isBAM := s.records.decoder.(*bamDecoder)
	return s.empty || !isBAM
}

// inflater decompresses a gzip file in a goroutine, which waits where the file has no more
// for now.
type inflater struct {
	limit *limit // its lock is that of all below, too
	out   []byte // decompressed
	// inside says that a member of the file has begun and not ended.
	inside bool
	err    error
}

// maxAhead is what an inflater decompresses ahead of its reader. Hundreds of files may be open.
const maxAhead = 1 << 17

func newInflater(f *os.File, l *limit) *inflater {
	s := &inflater{limit: l, inside: true}
	go s.run(f)
	return s
}

// errShut ends the goroutine.
var errShut = errors.New("closed")

// waitingFile reads a file up to the limit, and waits there.
type waitingFile struct {
	limit *limit
	file  *os.File
	at    int64
}

func (w *waitingFile) Read(b []byte) (int, error) {
	w.limit.mu.Lock()
	defer w.limit.mu.Unlock()
	for !w.limit.shut && w.at >= w.limit.bytes {
		w.limit.waiting = true
		w.limit.more.Broadcast()
		w.limit.more.Wait()
	}
	w.limit.waiting = false
	if w.limit.shut {
		return 0, errShut
	}
	n, err := w.file.ReadAt(b[:min(int64(len(b)), w.limit.bytes-w.at)], w.at)
	w.at += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

func (s *inflater) run(f *os.File) {
	err := s.inflate(bufio.NewReaderSize(&waitingFile{limit: s.limit, file: f}, chunk))
	s.limit.mu.Lock()
	s.err = err
	s.limit.mu.Unlock()
	s.limit.more.Broadcast()
}

func (s *inflater) inflate(in *bufio.Reader) error {
	z := new(gzip.Reader)
	var b [chunk]byte
	for {
		s.between(false)
		// A member's first byte: until it is there, the file could end.
		if _, err := in.Peek(1); err != nil {
			return err
		}
		s.between(true)
		if err := z.Reset(in); err != nil {
			return fmt.Errorf("decompressing: %w", err)
		}
		z.Multistream(false)
		for {
			n, err := z.Read(b[:])
			if put := s.put(b[:n]); put != nil {
				return put
			}
			if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				break
			}
			if err != nil {
				return fmt.Errorf("decompressing: %w", err)
			}
		}
	}
}

func (s *inflater) between(inside bool) {
	s.limit.mu.Lock()
	s.inside = inside
	s.limit.mu.Unlock()
}

// put hands on what was decompressed, and waits while that is enough.
func (s *inflater) put(b []byte) error {
	s.limit.mu.Lock()
	defer s.limit.mu.Unlock()
	for !s.limit.shut && len(s.out) > maxAhead {
		s.limit.more.Wait()
	}
	if s.limit.shut {
		return errShut
	}
	s.out = append(s.out, b...)
	s.limit.more.Broadcast()
	return nil
}

func (s *inflater) fill(b []byte) ([]byte, error) {
	s.limit.mu.Lock()
	defer s.limit.mu.Unlock()
	for len(s.out) == 0 && s.err == nil && !s.limit.waiting {
		s.limit.more.Wait()
	}
	if len(s.out) > 0 {
		b = append(b, s.out...)
		s.out = s.out[:0]
		s.limit.more.Broadcast()
		return b, nil
	}
	if s.err != nil {
		return b, s.err
	}
	return b, ErrUnfinished
}

func (s *inflater) rest() {
	s.limit.mu.Lock()
	defer s.limit.mu.Unlock()
	if len(s.out) == 0 {
		s.out = nil
	}
}

func (s *inflater) whole() bool {
	s.limit.mu.Lock()
	defer s.limit.mu.Unlock()
	return !s.inside && s.limit.waiting
}

func (s *inflater) close() {
	s.limit.mu.Lock()
	s.limit.shut = true
	s.limit.mu.Unlock()
	s.limit.more.Broadcast()
}
