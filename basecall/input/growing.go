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
	"path/filepath"
	"strings"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"

	"github.com/porestream/porestream/align/hts/cram"
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
	reads int64 // that Next has returned or reported
	close func()
}

// limit is how far a file may be read.
type limit struct {
	mu    sync.Mutex
	more  *sync.Cond // also what an inflater and its reader wait for
	bytes int64
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

// OpenGrowing opens a file of which size bytes can be trusted, with what CRAM is read with. It returns ErrUnfinished when
// too little is there to begin with.
func OpenGrowing(path string, size int64, o cram.Options) (*Growing, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	g, err := newGrowing(f, size, o)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return g, nil
}

func newGrowing(f *os.File, size int64, o cram.Options) (*Growing, error) {
	head := make([]byte, min(size, bgzfHead))
	if _, err := f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(bytes.TrimRight(head, "\x00")) == 0 || string(head[:min(2, len(head))]) == gzipMagic && len(head) < bgzfHead {
		return nil, ErrUnfinished
	}
	if len(head) < len(cramMagic) && strings.HasPrefix(cramMagic, string(head)) {
		return nil, ErrUnfinished
	}
	g := &Growing{file: f, limit: newLimit(size), close: func() {}}
	switch {
	case bytes.HasPrefix(head, []byte(cramMagic)):
		if o.Names == "" {
			o.Names = filepath.Base(f.Name())
		}
		g.source = &growingContainers{file: f, limit: g.limit, decoder: cram.NewDecoder(o)}
	case !bytes.HasPrefix(head, []byte(gzipMagic)):
		g.source = &growingPlain{file: f, limit: g.limit, records: &g.records}
	case isBGZF(head):
		g.source = &growingBlocks{file: f, limit: g.limit, records: &g.records}
	default:
		source := &growingGzip{file: f, limit: g.limit}
		g.source, g.close = source, source.close
	}
	return g, nil
}

// Next returns the next read, the caller's to keep. It returns io.EOF where the file could
// end, ErrUnfinished where it can't and its writer has not gone on yet; after both, reading
// goes on when there is more. After a [RecordError], which concerns one record, reading goes
// on; any other error ends it.
func (g *Growing) Next() (*Read, error) {
	read, err := g.next()
	if _, record := errors.AsType[*RecordError](err); err == nil || record {
		g.reads++
	}
	return read, err
}

// Reads is the number of reads that Next has returned or reported.
func (g *Growing) Reads() int64 { return g.reads }

// Extend says how many bytes of the file can be trusted now.
func (g *Growing) Extend(size int64) {
	g.limit.mu.Lock()
	if size > g.limit.bytes {
		g.limit.bytes = size
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
		s.block, s.inflate = nil, nil
	case *growingContainers:
		s.rest()
	case *growingGzip:
		s.rest()
	}
}

// Holding reports whether much of the file is held in memory, decompressed or to be decompressed, which
// reading on lets go of: a container of CRAM. The reads of it are all there.
func (g *Growing) Holding() bool {
	s, ok := g.source.(*growingContainers)
	return ok && (s.open != nil || len(g.buf)-g.at > chunk)
}

// SameFile reports whether a path leads to the file.
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

// BGZF is gzip in blocks that state their size (SAM specification, section 4.1).
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

// growingGzip is a file of gzip's members. Between two of them nothing is kept but the place: that
// is where a file stays that its writer has completed, and a run has thousands of these.
type growingGzip struct {
	file    *os.File
	limit   *limit
	at      int64     // where the next member begins, without an inflater
	inflate *inflater // nil between two members
}

func (s *growingGzip) fill(b []byte) ([]byte, error) {
	if s.inflate == nil {
		if s.limit.get() <= s.at {
			return b, ErrUnfinished
		}
		s.inflate = newInflater(s.file, s.limit, s.at)
	}
	return s.inflate.fill(b)
}

func (s *growingGzip) whole() bool {
	return s.inflate == nil || s.inflate.whole()
}

func (s *growingGzip) rest() {
	if s.inflate == nil {
		return
	}
	if at, between := s.inflate.rest(); between {
		s.inflate.close()
		s.at, s.inflate = at, nil
	}
}

func (s *growingGzip) close() {
	if s.inflate != nil {
		s.inflate.close()
	}
}

// growingContainers is a file in CRAM. A container is read once it is there to its end, and decoded piece by
// piece: that of an archive has hundreds of megabytes of records.
type growingContainers struct {
	file    *os.File
	limit   *limit
	at      int64 // where the container begins that comes next, or is open
	decoder *cram.Decoder
	part    []byte        // what was read of it
	open    *cram.Records // those of the container that is open; nil: the next one comes
}

func (s *growingContainers) fill(b []byte) ([]byte, error) {
	if s.open == nil {
		err := s.next()
		if err != nil {
			return b, err
		}
		if b, s.open, err = s.decoder.Begin(b, s.part); err != nil {
			return b, err
		}
	}
	if s.open != nil {
		var more bool
		var err error
		if b, more, err = s.open.Append(b); err != nil || more {
			return b, err
		}
		s.open = nil
	}
	s.at += int64(len(s.part))
	return b, nil
}

// next reads the part of the file that comes next, if it is there to its end.
func (s *growingContainers) next() error {
	left := s.limit.get() - s.at
	n := int64(1 << 12) // more than nearly every container's header
	for {
		n = min(n, left)
		if n == 0 {
			return ErrUnfinished
		}
		if err := s.read(n); err != nil {
			return err
		}
		if len(bytes.TrimRight(s.part, "\x00")) == 0 {
			return ErrUnfinished // space that was reserved
		}
		size, err := s.decoder.Size(s.part)
		if err != nil {
			return err
		}
		switch {
		case size == 0 && n < left:
			n *= 2
		case size == 0 || int64(size) > left:
			return ErrUnfinished // the file grows, and what there is of the part is not read time and again
		case int64(size) > n:
			n = int64(size)
		default:
			s.part = s.part[:size]
			reserved, err := s.reserved()
			if err == nil && reserved {
				err = ErrUnfinished
			}
			return err
		}
	}
}

func (s *growingContainers) rest() {
	if s.open == nil {
		s.part = nil
	}
}

// read reads the next n bytes, of which it has the first perhaps.
func (s *growingContainers) read(n int64) error {
	if int64(cap(s.part)) < n {
		s.part = make([]byte, n)
	}
	s.part = s.part[:n]
	_, err := s.file.ReadAt(s.part, s.at)
	if errors.Is(err, io.EOF) {
		return ErrUnfinished // cut off meanwhile
	}
	return err
}

// reserved reports whether the end of what was read is still to be written into the space that its file
// has. A part may end with zeros of its own, as nothing in CRAM 2 has a checksum: it is there once another
// begins behind it.
func (s *growingContainers) reserved() (bool, error) {
	if !s.decoder.Unwritten(s.part) {
		return false, nil
	}
	var next [4]byte // the size of a container, which is never 0
	at := s.at + int64(len(s.part))
	if s.limit.get()-at < int64(len(next)) {
		return true, nil
	}
	_, err := s.file.ReadAt(next[:], at)
	if errors.Is(err, io.EOF) {
		return true, nil // cut off meanwhile
	}
	return next == [4]byte{}, err
}

func (s *growingContainers) whole() bool {
	return s.limit.get() <= s.at && s.decoder.Ended()
}

// inflater decompresses a gzip file in a goroutine, which waits where the file has no more
// for now.
type inflater struct {
	limit *limit // its lock is that of all below, too
	out   []byte // decompressed
	// member is where the member begins that comes next, -1 within one.
	member int64
	needs  int64 // place of the byte that the goroutine waits for, -1 while it waits for none
	shut   bool
	err    error
}

// Bounds of an inflater's memory: hundreds of files may be open within a member.
const (
	// maxAhead is what is decompressed ahead of the reader.
	maxAhead = 1 << 16
	// inflated is what is decompressed, and read of the file, at a time.
	inflated = 1 << 14
)

// newInflater begins with the member at a place of the file.
func newInflater(f *os.File, l *limit, at int64) *inflater {
	s := &inflater{limit: l, member: at, needs: -1}
	go s.run(f, at)
	return s
}

// errShut ends the goroutine.
var errShut = errors.New("closed")

// waitingFile reads a file up to the limit, and waits there.
type waitingFile struct {
	*inflater
	file *os.File
	at   int64
}

func (w *waitingFile) Read(b []byte) (int, error) {
	w.limit.mu.Lock()
	defer w.limit.mu.Unlock()
	for !w.shut && w.at >= w.limit.bytes {
		w.needs = w.at
		w.limit.more.Broadcast()
		w.limit.more.Wait()
	}
	w.needs = -1
	if w.shut {
		return 0, errShut
	}
	n, err := w.file.ReadAt(b[:min(int64(len(b)), w.limit.bytes-w.at)], w.at)
	w.at += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

func (s *inflater) run(f *os.File, at int64) {
	err := s.inflate(&waitingFile{inflater: s, file: f, at: at})
	s.limit.mu.Lock()
	s.err = err
	s.limit.mu.Unlock()
	s.limit.more.Broadcast()
}

func (s *inflater) inflate(file *waitingFile) error {
	in := bufio.NewReaderSize(file, inflated)
	z := new(gzip.Reader)
	b := make([]byte, inflated)
	for {
		s.next(file.at - int64(in.Buffered()))
		// A member's first byte: until it is there, the file could end.
		if _, err := in.Peek(1); err != nil {
			return err
		}
		s.next(-1)
		if err := z.Reset(in); err != nil {
			return fmt.Errorf("decompressing: %w", err)
		}
		z.Multistream(false)
		for {
			n, err := z.Read(b)
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

// next notes where a member begins that is to come, or -1.
func (s *inflater) next(at int64) {
	s.limit.mu.Lock()
	s.member = at
	s.limit.mu.Unlock()
}

// put passes on what was decompressed, and waits while that is enough.
func (s *inflater) put(b []byte) error {
	s.limit.mu.Lock()
	defer s.limit.mu.Unlock()
	for !s.shut && len(s.out) > maxAhead {
		s.limit.more.Wait()
	}
	if s.shut {
		return errShut
	}
	s.out = append(s.out, b...)
	s.limit.more.Broadcast()
	return nil
}

// waits reports, under the lock, whether the goroutine waits for the file to grow.
func (s *inflater) waits() bool { return s.needs >= s.limit.bytes }

func (s *inflater) fill(b []byte) ([]byte, error) {
	s.limit.mu.Lock()
	defer s.limit.mu.Unlock()
	for len(s.out) == 0 && s.err == nil && !s.waits() {
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

// rest lets go of memory. between says that the goroutine waits between two members and all of
// what came before was taken; the next begins at a place.
func (s *inflater) rest() (at int64, between bool) {
	s.limit.mu.Lock()
	defer s.limit.mu.Unlock()
	if len(s.out) > 0 {
		return 0, false
	}
	s.out = nil
	return s.member, s.member >= 0 && s.waits()
}

func (s *inflater) whole() bool {
	s.limit.mu.Lock()
	defer s.limit.mu.Unlock()
	return s.member >= 0 && s.waits()
}

func (s *inflater) close() {
	s.limit.mu.Lock()
	s.shut = true
	s.limit.mu.Unlock()
	s.limit.more.Broadcast()
}
