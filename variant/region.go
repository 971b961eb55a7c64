package variant

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"iter"
	"slices"
	"strings"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/planted"
	"github.com/porestream/porestream/stream/streampb"
)

// Tiles are the unit of evaluation: wide enough that a read is found through few
// of them, narrow enough that one fits the cache with all its reads.
const (
	tileWidth  = 1024
	tileMargin = 128 // columns seen beyond a tile: more than a window around an allele
)

// Region is the calling state of one region of a contig in one sample. It is not
// safe for concurrent use.
type Region struct {
	contig     *genome.Contig
	index      int
	start, end int // core
	cfg        Config

	applied map[segmentKey]struct{}
	history history
	errors  errorCounts
	tiles   []tile
	touched []int // tiles with new reads since the last Evaluate, in no order
	final   bool
	version uint64 // counts the changes of what AppendState writes

	publishing publisher
	coverage   coverage
	work       *Workspace
}

// Workspace is the memory that a region calls with. Nothing in it outlasts a
// call, so regions that are used by one goroutine can share one: a region at rest
// then takes little more than its reads.
type Workspace struct {
	scratch  matrix
	counts   [][2][codes]int32
	evidence evidence
	aligner  realigner
	seen     []indel
	depth    []int32
}

// Use makes r call with w.
func (r *Region) Use(w *Workspace) { r.work = w }

// segmentKey identifies a segment within its region: 128 bits of a hash, so that
// the set of applied segments stays small.
type segmentKey [16]byte

// keyOf is a segment's identity. A read part has one primary alignment, so its
// place doesn't count: a part that was called twice, and came out a little
// differently, is still applied once. Supplementary alignments are told apart
// by their place.
func keyOf(s *streampb.Segment) segmentKey {
	h := fnv.New128a()
	b := make([]byte, 0, 128)
	b = append(append(b, s.GetRun()...), 0)
	b = append(append(b, s.GetReadId()...), 0)
	b = binary.LittleEndian.AppendUint32(b, s.GetPart())
	if s.GetSupplementary() {
		b = binary.LittleEndian.AppendUint64(b, uint64(s.GetStart()))
		if s.GetReverse() {
			b = append(b, 1)
		}
	}
	h.Write(b)
	return segmentKey(h.Sum(b[:0]))
}

// orderOf hashes a read id. FNV's high bits hardly depend on the last letters,
// hence the finalizer (MurmurHash3's).
func orderOf(readID string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(readID))
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// segment is a read segment as it is kept.
type segment struct {
	order      uint64 // hash of the read id: the order in which a depth cap takes reads
	number     int    // in Region.history
	held       int    // tiles that have a piece of it
	readID     string
	run        string
	part       uint32
	start, end int
	reverse    bool
	supp       bool
	ops        align.Ops
	bases      []byte
	bins       []byte // quality bins, two to a byte; nil when there are no qualities
	lastChunk  int64
}

// compare is the canonical order of segments.
func (s *segment) compare(o *segment) int {
	return cmp.Or(
		cmp.Compare(s.order, o.order),
		strings.Compare(s.readID, o.readID),
		cmp.Compare(s.part, o.part),
		cmp.Compare(s.start, o.start),
		boolCompare(s.reverse, o.reverse),
		boolCompare(s.supp, o.supp),
		strings.Compare(s.run, o.run),
	)
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// tile is one window of the region.
type tile struct {
	pieces    []piece // in canonical order
	reads     int     // pieces ever added
	evaluated int     // reads when last evaluated
	dirty     bool    // listed in Region.touched
}

// piece is where a segment enters a tile: a place from which its operations can
// be read without starting at the segment's first column.
type piece struct {
	seg   *segment
	op    int // offset in seg.ops of the operation in progress
	skip  int // columns of it that lie before
	ref   int // reference position of the next column
	query int // offset of its base in the segment's qualities
	base  int // offset of the next differing base in seg.bases
}

// NewRegion is the empty state of a region of a contig; see align.RegionBounds.
func NewRegion(contig *genome.Contig, index int, cfg Config) (*Region, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configuring variant calling: %w", err)
	}
	start, end := align.RegionBounds(index, len(contig.Seq))
	if index < 0 || start >= end {
		return nil, fmt.Errorf("opening region %d of %s: the contig has %d bases", index, contig.Name, len(contig.Seq))
	}
	tiles := (end - start + tileWidth - 1) / tileWidth
	return &Region{
		contig:     contig,
		index:      index,
		start:      start,
		end:        end,
		cfg:        cfg.withDefaults(),
		applied:    make(map[segmentKey]struct{}),
		history:    history{limit: batchBytes},
		tiles:      make([]tile, tiles),
		publishing: newPublisher(tiles),
		work:       new(Workspace),
	}, nil
}

// Contig is the contig's name.
func (r *Region) Contig() string { return r.contig.Name }

// Index is the region's index on the contig.
func (r *Region) Index() int { return r.index }

// Segments is the number of segments applied.
func (r *Region) Segments() int { return len(r.applied) }

// Apply adds a segment. It reports whether the state changed: a segment that was
// applied before, or whose mapping quality is too low, changes nothing. An error
// means that the segment can't be one of this region's.
func (r *Region) Apply(s *streampb.Segment) (changed bool, err error) {
	if s.GetContig() != r.contig.Name || int(s.GetRegion()) != r.index {
		return false, fmt.Errorf("applying segment of read %q: it belongs to region %d of %s, this is region %d of %s",
			s.GetReadId(), s.GetRegion(), s.GetContig(), r.index, r.contig.Name)
	}
	extent, err := align.Check(s, len(r.contig.Seq))
	if err != nil {
		return false, fmt.Errorf("applying segment: %w", err)
	}
	if int(s.GetMappingQuality()) < r.cfg.MinMappingQuality {
		return false, nil
	}
	key := keyOf(s)
	if _, ok := r.applied[key]; ok {
		return false, nil
	}
	r.applied[key] = struct{}{}

	seg := newSegment(s, extent, packBins(s.GetQualities()))
	r.version++
	r.history.add(seg, key)
	r.errors.add(seg, r.contig.Seq)
	r.file(seg)
	if planted.Is(planted.DoubleApply) {
		r.file(seg)
	}
	return true, nil
}

// newSegment keeps a checked segment, whose bytes are copied, with the given
// quality bins, which are not.
func newSegment(s *streampb.Segment, extent align.Extent, bins []byte) *segment {
	return &segment{
		order:     orderOf(s.GetReadId()),
		readID:    s.GetReadId(),
		run:       s.GetRun(),
		part:      s.GetPart(),
		start:     int(s.GetStart()),
		end:       int(s.GetStart()) + extent.Reference,
		reverse:   s.GetReverse(),
		supp:      s.GetSupplementary(),
		ops:       slices.Clone(s.GetOps()),
		bases:     slices.Clone(s.GetBases()),
		bins:      bins,
		lastChunk: s.GetLastChunkMs(),
	}
}

// file puts a piece of seg into every tile that it overlaps.
func (r *Region) file(seg *segment) {
	for t, p := range r.pieces(seg) {
		r.tiles[t].insert(p)
		seg.held++
		if !r.tiles[t].dirty {
			r.tiles[t].dirty = true
			r.touched = append(r.touched, t)
		}
	}
}

// pieces cuts seg for the tiles that it overlaps, margins included.
func (r *Region) pieces(seg *segment) iter.Seq2[int, piece] {
	return func(yield func(int, piece) bool) {
		p := piece{seg: seg, ref: seg.start}
		first := max(0, (seg.start-r.start-tileMargin)/tileWidth)
		last := min(len(r.tiles)-1, (seg.end-1-r.start+tileMargin)/tileWidth)
		for t := first; t <= last; t++ {
			p.advance(r.tileStart(t) - tileMargin)
			if !yield(t, p) {
				return
			}
		}
	}
}

// tileStart is the first position of tile t.
func (r *Region) tileStart(t int) int { return r.start + t*tileWidth }

// tileEnd is the position after the last of tile t.
func (r *Region) tileEnd(t int) int { return min(r.end, r.start+(t+1)*tileWidth) }

// insert keeps the pieces in canonical order.
func (t *tile) insert(p piece) {
	i, _ := slices.BinarySearchFunc(t.pieces, p.seg, func(q piece, s *segment) int { return q.seg.compare(s) })
	t.pieces = slices.Insert(t.pieces, i, p)
	t.reads++
}

// advance moves p forward to reference position to, if it is before it.
func (p *piece) advance(to int) {
	for p.ref < to {
		op, rest, ok := p.seg.ops[p.op:].Next()
		if !ok {
			return
		}
		left := op.Len - p.skip
		n := left
		if op.Kind != align.Insertion {
			n = min(left, to-p.ref)
			p.ref += n
		}
		if op.Kind != align.Deletion {
			p.query += n
		}
		if op.Kind == align.Mismatch || op.Kind == align.Insertion {
			p.base += n
		}
		if n < left {
			p.skip += n
			return
		}
		p.op = len(p.seg.ops) - len(rest)
		p.skip = 0
	}
}
