package cram

import (
	"fmt"
)

// sliceHeader is what stands before the blocks of a slice (section 8.5).
type sliceHeader struct {
	reference int32 // -1: none, -2: several
	start     int32 // on it, from 1
	span      int32
	records   int32
	first     int64 // number of its first record in the file
	blocks    int32
	embedded  int32 // block of the reference's bases; -1: none
	sum       [16]byte
}

// severalReferences is the reference of a slice whose records say theirs.
const severalReferences = -2

func readSliceHeader(data []byte) (*sliceHeader, error) {
	s := newStream(data)
	h := &sliceHeader{reference: s.itf8(), start: s.itf8(), span: s.itf8(), records: s.itf8(), first: s.ltf8(), blocks: s.itf8()}
	s.array() // the ids of its blocks, which say them themselves
	h.embedded = s.itf8()
	copy(h.sum[:], s.take(len(h.sum)))
	switch {
	case s.fail.err != nil:
		return nil, s.fail.err
	case h.records < 0 || h.records > maxRecords || h.blocks < 0:
		return nil, fmt.Errorf("a slice of %d records, and %d are the most that are read: write the file again with samtools view -O cram", h.records, maxRecords)
	}
	return h, nil
}

// slice is one that is decoded: what its series are read from, and its records.
type slice struct {
	head   *sliceHeader
	file   *header
	scheme *compression
	source *sequences
	names  string // what names begin with that are made

	core    bits
	blocks  map[int32]*block
	streams map[int32]*stream
	fail    *failure
	arena   arena
	left    int // bytes that may still be decoded

	series *series
	// What is decoded goes in pieces: the records of one, whose bytes are overwritten by the next.
	records  []record
	tags     []byte   // of all of them
	cigars   []uint32 // of all of them
	from     int      // number of the first of them
	awaited  int      // greatest number of a record that one so far names as its next
	bases    int      // of all records so far
	piece    int      // bases that end a piece
	position int32    // of the last record

	contig contig // that the last record was aligned to
}

func newSlice(head *sliceHeader, file *header, scheme *compression, o *Options, source *sequences) *slice {
	fail := new(failure)
	return &slice{
		head: head, file: file, scheme: scheme, source: source, names: o.Names, core: bits{fail: fail}, fail: fail,
		blocks: make(map[int32]*block), streams: make(map[int32]*stream), left: maxSlice, piece: pieceBases, contig: contig{id: -2},
	}
}

// readBlocks reads the slice's blocks.
func (s *slice) readBlocks(v version, in *stream) error {
	for range s.head.blocks {
		b, err := v.readBlock(in)
		if err != nil {
			return err
		}
		switch b.kind {
		case blockCore:
			if s.core.data, err = b.decompress(); err != nil {
				return fmt.Errorf("the core block: %w", err)
			}
		case blockExternal:
			s.blocks[b.id] = b
		default:
			return fmt.Errorf("a block of type %d in a slice", b.kind)
		}
	}
	return nil
}

// series are those of all records, opened.
type series struct {
	flags, kept, reference, length, start, group       integers
	mateFlags, mateReference, mateStart, span, next    integers
	tagList, features, place, deleted, skipped, padded integers
	clipped, quality                                   integers
	feature, substitution, base, score                 *letters
	name, stretch, scores, inserted, soft              arrays
	tags                                               map[tagKey]arrays
}

func (s *slice) open() {
	s.series = &series{
		flags: s.integers("BF"), kept: s.integers("CF"), reference: s.integers("RI"), length: s.integers("RL"),
		start: s.integers("AP"), group: s.integers("RG"), mateFlags: s.integers("MF"), mateReference: s.integers("NS"),
		mateStart: s.integers("NP"), span: s.integers("TS"), next: s.integers("NF"), tagList: s.integers("TL"),
		features: s.integers("FN"), place: s.integers("FP"), deleted: s.integers("DL"), skipped: s.integers("RS"),
		padded: s.integers("PD"), clipped: s.integers("HC"), quality: s.integers("MQ"),
		feature: s.letters("FC"), substitution: s.letters("BS"), base: s.letters("BA"), score: s.letters("QS"),
		name: s.arrays("RN"), stretch: s.arrays("BB"), scores: s.arrays("QQ"), inserted: s.arrays("IN"), soft: s.arrays("SC"),
		tags: make(map[tagKey]arrays, len(s.scheme.tags)),
	}
	for key, e := range s.scheme.tags {
		s.series.tags[key] = s.arraysOf(key.String(), e)
	}
}

// external is an external block, decompressed. One that there isn't has no bytes.
func (s *slice) external(id int32) *stream {
	if in := s.streams[id]; in != nil {
		return in
	}
	in := &stream{name: fmt.Sprintf("block %d", id), fail: s.fail}
	if b := s.blocks[id]; b != nil {
		data, err := b.decompress()
		if err == nil && !s.spend(len(data)) {
			err = errLarge
		}
		if err != nil {
			s.fail.set(fmt.Errorf("block %d: %w", id, err))
		}
		in.data = data
	}
	s.streams[id] = in
	return in
}

var errLarge = fmt.Errorf("a slice of more than %d bytes: write the file again with samtools view -O cram", maxSlice)

// spend takes n bytes of those that may still be decoded.
func (s *slice) spend(n int) bool {
	if n > s.left {
		return false
	}
	s.left -= n
	return true
}

// pieceBases ends a piece of a slice. A template is never divided, for its records refer to each other.
const pieceBases = 1 << 20

// decode decodes the next piece of the slice's records. It is false with the last.
func (s *slice) decode() (more bool, err error) {
	if s.series == nil {
		s.open()
		s.position = s.head.start
	}
	count := int(s.head.records)
	s.from += len(s.records)
	s.records, s.tags, s.cigars = s.records[:0], s.tags[:0], s.cigars[:0]
	s.arena.reset()
	for piece := 0; ; {
		number := s.from + len(s.records)
		if number == count || piece >= s.piece && number > s.awaited {
			return number < count, s.mates()
		}
		r := record{number: number}
		err := s.read(&r, &s.position)
		if s.fail.err != nil { // which is why, if there is another
			err = s.fail.err
		}
		if err != nil {
			return false, fmt.Errorf("record %d: %w", number+1, err)
		}
		piece += int(r.length)
		if s.bases += int(r.length); s.bases > maxBases {
			return false, fmt.Errorf("a slice of more than %d bases: write the file again with samtools view -O cram", maxBases)
		}
		s.awaited = max(s.awaited, r.next)
		s.records = append(s.records, r)
	}
}
