package source

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"sync/atomic"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genome"
)

// ErrDamaged is the error for a file that is not as it was written: cut off, or with changed bytes.
var ErrDamaged = errors.New("the file is damaged: compile or copy it again")

// Store is an open file. It is safe for concurrent use.
//
// The file is mapped, not read: opening takes no time, unused blocks take no memory, and processes share the used
// ones. Each block's checksum is compared when the block is first used. A file must be replaced by renaming another
// over it, never written in place.
type Store struct {
	Meta Meta
	Path string // as opened; "" for one in memory

	data     []byte
	crcs     []byte          // of blocks
	blocks   []atomic.Uint32 // a bit for each block that was checked
	contigs  map[*genome.Contig]*contigMeta
	exact    bool
	position bool
	overlap  bool

	refs  atomic.Int64 // users; the mapping goes with the last
	unmap func() error
}

// Open maps a file for use with the reference it was compiled for. Without a reference (nil) lookups aren't possible.
func Open(path string, g *genome.Genome) (*Store, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening source: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("opening source: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("opening source %s: not a file", path)
	}
	data, unmap, err := mapFile(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("opening source %s: %w", path, err)
	}
	s, err := newStore(data, g)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening source %s: %w", path, err), unmap())
	}
	s.Path, s.unmap = path, unmap
	return s, nil
}

// newStore is a store over a file's bytes.
func newStore(data []byte, g *genome.Genome) (*Store, error) {
	s := &Store{data: data, unmap: func() error { return nil }}
	s.refs.Store(1)
	if len(data) < len(magic) || string(data[:len(magic)]) != magic {
		return nil, errors.New("not a compiled source: make one with pore sources build")
	}
	if len(data) < headerSize+trailerSize {
		return nil, fmt.Errorf("%d bytes: %w", len(data), ErrDamaged)
	}
	if v := binary.LittleEndian.Uint32(data[8:]); v != Version {
		return nil, fmt.Errorf("format version %d, but this program reads version %d: compile it again", v, Version)
	}
	if binary.LittleEndian.Uint32(data[12:]) != blockSize {
		return nil, fmt.Errorf("block size: %w", ErrDamaged)
	}
	if err := s.trailer(); err != nil {
		return nil, err
	}
	if g == nil {
		return s, nil
	}
	return s, s.attach(g)
}

// trailer reads the end of the file and, with it, the description.
func (s *Store) trailer() error {
	t := s.data[len(s.data)-trailerSize:]
	if string(t[:8]) != trailerMagic {
		return fmt.Errorf("it does not end as a source does, it may be cut off: %w", ErrDamaged)
	}
	if crc32.Checksum(t[:trailerSize-4], castagnoli) != binary.LittleEndian.Uint32(t[trailerSize-4:]) {
		return fmt.Errorf("checksum of the end: %w", ErrDamaged)
	}
	metaAt, metaSize := binary.LittleEndian.Uint64(t[8:]), binary.LittleEndian.Uint64(t[16:])
	crcsAt, blocks := binary.LittleEndian.Uint64(t[24:]), binary.LittleEndian.Uint64(t[32:])
	size := uint64(len(s.data))
	if binary.LittleEndian.Uint64(t[40:]) != size || blocks > size || crcsAt > size ||
		crcsAt+4*blocks+trailerSize != size || blocks != (crcsAt+blockSize-1)/blockSize ||
		metaSize > maxMeta || metaAt > crcsAt || metaSize > crcsAt-metaAt {
		return fmt.Errorf("sizes in the end: %w", ErrDamaged)
	}
	s.crcs = s.data[crcsAt : crcsAt+4*blocks]
	if crc32.Checksum(s.crcs, castagnoli) != binary.LittleEndian.Uint32(t[48:]) {
		return fmt.Errorf("checksum of the checksums: %w", ErrDamaged)
	}
	s.data = s.data[:crcsAt]
	s.blocks = make([]atomic.Uint32, blocks/32+1)
	b, err := s.bytes(int64(metaAt), int64(metaSize))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &s.Meta); err != nil {
		return fmt.Errorf("description: %w", err)
	}
	if err := s.Meta.validate(); err != nil {
		return fmt.Errorf("description: %w", err)
	}
	s.exact = slices.Contains(s.Meta.Matches, annotate.MatchExact)
	s.position = slices.Contains(s.Meta.Matches, annotate.MatchPosition)
	s.overlap = slices.Contains(s.Meta.Matches, annotate.MatchOverlap)
	return s.tables()
}

// tables checks that the tables lie within the file.
func (s *Store) tables() error {
	fits := func(at int64, n, size int) bool {
		return at >= 0 && n >= 0 && int64(n) <= int64(len(s.data))/int64(size) && at <= int64(len(s.data))-int64(n)*int64(size)
	}
	for i := range s.Meta.Contigs {
		c := &s.Meta.Contigs[i]
		if c.Length < 0 || c.Shift < 0 || c.Shift > 31 || !fits(c.RowsAt, c.Rows, rowSize) || !fits(c.SpansAt, c.Spans, spanSize) ||
			c.Rows > 0 && !fits(c.BucketsAt, c.buckets(), 4) || c.LevelsAt < 0 {
			return fmt.Errorf("tables of %s: %w", c.Name, ErrDamaged)
		}
	}
	d := s.Meta.Dictionary
	if !fits(d.At, d.Count, 8) || d.Size < 0 || d.Size > int64(len(s.data))-d.At-8*int64(d.Count) {
		return fmt.Errorf("dictionary: %w", ErrDamaged)
	}
	return nil
}

// attach finds the contigs in a reference by their sequences, whatever their names there.
func (s *Store) attach(g *genome.Genome) error {
	byDigest := map[string]*genome.Contig{}
	for _, c := range g.Contigs {
		byDigest[c.Digest()] = c
	}
	s.contigs = make(map[*genome.Contig]*contigMeta, len(s.Meta.Contigs))
	for i := range s.Meta.Contigs {
		m := &s.Meta.Contigs[i]
		c := byDigest[m.Digest]
		if c == nil || c.Len() != m.Length {
			return fmt.Errorf("it was compiled for another reference: contig %s of %d bases (%s) is not in this one; compile it again with this reference",
				m.Name, m.Length, m.Digest)
		}
		s.contigs[c] = m
	}
	return nil
}

// Close gives the mapping up when the last reader is done.
func (s *Store) Close() error { return s.release() }

// retain takes part in s, unless all others have left.
func (s *Store) retain() bool {
	for {
		n := s.refs.Load()
		if n <= 0 {
			return false
		}
		if s.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (s *Store) release() error {
	if s.refs.Add(-1) != 0 {
		return nil
	}
	if err := s.unmap(); err != nil {
		return fmt.Errorf("closing source %s: %w", s.Path, err)
	}
	return nil
}

// bytes is part of the file, after its blocks were checked once.
func (s *Store) bytes(at, n int64) ([]byte, error) {
	if at < 0 || n < 0 || at > int64(len(s.data)) || n > int64(len(s.data))-at {
		return nil, ErrDamaged
	}
	if n == 0 {
		return nil, nil
	}
	for b := at / blockSize; b <= (at+n-1)/blockSize; b++ {
		if s.blocks[b/32].Load()&(1<<(b%32)) == 0 {
			if err := s.check(b); err != nil {
				return nil, err
			}
		}
	}
	return s.data[at : at+n], nil
}

// check compares a block's checksum.
func (s *Store) check(block int64) error {
	b := s.data[block*blockSize : min((block+1)*blockSize, int64(len(s.data)))]
	if crc32.Checksum(b, castagnoli) != binary.LittleEndian.Uint32(s.crcs[4*block:]) {
		return fmt.Errorf("source %s: checksum of bytes %d to %d: %w", s.Meta.Name, block*blockSize, block*blockSize+int64(len(b)), ErrDamaged)
	}
	s.blocks[block/32].Or(1 << (block % 32))
	return nil
}

// Verify compares all checksums, those of blocks that were used included.
func (s *Store) Verify() error {
	for b := range int64(len(s.crcs) / 4) {
		if err := s.check(b); err != nil {
			return err
		}
	}
	return nil
}
