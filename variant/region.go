package variant

import (
	"fmt"
	"iter"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/genome"
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
	callable   error // nil if cfg can call, not only show examples

	reads    reads
	errors   errorCounts // without what waits in passed; see counted
	passed   passages
	models   modelCounts
	fitted   fitting // of the evaluation under way
	tiles    []tile
	touched  []int // tiles with new reads since the last Evaluate, in no order
	final    bool
	reported uint64 // revision of what Reference has returned; 0: nothing
	version  uint64 // counts the changes of what AppendState writes

	motifs     motifState
	known      []knownMotif
	publishing publisher
	coverage   coverage
	leftOut    []bool // by tile; nil: none. See Restrict
	bounds     LeftOut
	work       *Workspace
}

// Workspace is the memory that a region calls with. Nothing in it outlasts a
// call, so regions that are used by one goroutine can share one: a region at rest
// then takes little more than its reads.
type Workspace struct {
	scratch  matrix
	chooser  chooser
	packer   packer
	counts   [][2][codes]int32
	evidence evidence
	aligner  realigner
	encoder  encoder
	examples []float32
	scores   []float32
	seen     []indel
	places   places
	gaps     []gap
	voter    voter
	motifs   motifSearch
	depth    []int32
	supports []support
	changes  []int // of the length of a homopolymer, by read
	numbers  []uint32
	rows     []int   // that span a cluster's window
	offsets  []int   // of their costs
	totals   []int64 // of them, by haplotype
}

// Use makes r call with w.
func (r *Region) Use(w *Workspace) { r.work = w }

// tile is one window of the region.
type tile struct {
	reads     int32 // that were applied and have ended
	partial   int32 // that are here and go on
	evaluated int32 // how many both were when it was last evaluated; never more than they are
	dirty     bool  // listed in Region.touched
}

// NewRegion is the empty state of a region of a contig; see align.RegionBounds.
func NewRegion(contig *genome.Contig, index int, cfg Config) (*Region, error) {
	if err := cfg.checkThresholds(); err != nil {
		return nil, fmt.Errorf("configuring variant calling: %w", err)
	}
	start, end := align.RegionBounds(index, len(contig.Seq))
	if index < 0 || start >= end {
		return nil, fmt.Errorf("opening region %d of %s: the contig has %d bases", index, contig.Name, len(contig.Seq))
	}
	known, err := knownMotifsOf(cfg.ModifiedMotifs)
	if err != nil {
		return nil, fmt.Errorf("configuring variant calling: %w", err)
	}
	tiles := (end - start + tileWidth - 1) / tileWidth
	r := &Region{
		contig:   contig,
		index:    index,
		start:    start,
		end:      end,
		cfg:      cfg.withDefaults(),
		callable: cfg.Validate(),
		models:   make(modelCounts),
		known:    known,
		reads:    reads{limit: batchBytes, cull: firstCull},
		tiles:    make([]tile, tiles),
		work:     new(Workspace),
	}
	r.passed = newPassages(r.reach(), min(end+align.RegionHalo, len(contig.Seq)))
	r.publishing = publisher{contig: contig, sample: r.cfg.Sample, reads: &r.reads, tiles: make([]string, tiles), current: noTile}
	return r, nil
}

// Contig is the contig's name.
func (r *Region) Contig() string { return r.contig.Name }

// Index is the region's index on the contig.
func (r *Region) Index() int { return r.index }

// Segments is the number of segments applied, without those of reads that went on and
// have been replaced.
func (r *Region) Segments() int { return len(r.reads.table) - r.reads.replaced }

// Applied is the number of segments ever applied, replaced ones included: it grows whenever a segment changes the state.
func (r *Region) Applied() int { return len(r.reads.table) }

// Apply adds a segment. It reports whether the state changed: a segment that was
// applied before changes nothing. Of one whose mapping quality is too low its place
// alone is kept, for [Region.Survey]. A segment of a read that goes on is evidence until
// one of the same read with a higher partial, or of the read that has ended, takes its
// place, or [Region.Finalize] lets go of it. An error means that the segment can't be
// one of this region's.
func (r *Region) Apply(s *streampb.Segment) (changed bool, err error) {
	if s.GetContig() != r.contig.Name || int(s.GetRegion()) != r.index {
		return false, fmt.Errorf("applying segment of read %q: it belongs to region %d of %s, this is region %d of %s",
			s.GetReadId(), s.GetRegion(), s.GetContig(), r.index, r.contig.Name)
	}
	extent, err := align.Check(s, len(r.contig.Seq))
	if err != nil {
		return false, fmt.Errorf("applying segment: %w", err)
	}
	key := keyOf(s)
	if r.reads.has(key) {
		return false, nil
	}
	start, end := int(s.GetStart()), int(s.GetStart())+extent.Reference
	uncertain := int(s.GetMappingQuality()) < r.cfg.MinMappingQuality
	partial := uint8(s.GetPartial())
	changed = r.replace(key, partial)
	if partial > 0 && (uncertain || r.final) {
		return changed, nil
	}
	r.version++
	if uncertain {
		r.reads.addUncertain(key, s, start-r.reach(), end-r.reach())
		return true, nil
	}
	class := classOf(s.GetQualities())
	if partial == 0 {
		r.errors.add(s, end, class, r.contig.Seq, &r.passed)
		r.models.add(s, r.start)
	}
	r.reads.add(key, s, start-r.reach(), end-r.reach(), class, r.contig.Seq, &r.work.packer)
	for i := range r.tilesOver(start, end) {
		t := &r.tiles[i]
		t.count(partial > 0, 1)
		if !t.dirty {
			t.dirty = true
			r.touched = append(r.touched, i)
		}
	}
	if r.reads.kept >= max(r.reads.cull, 2*r.reads.survived) {
		r.cull()
	}
	return true, nil
}

// counted is how often all reads disagree with the reference.
func (r *Region) counted() *errorCounts {
	r.passed.settle(&r.errors, r.contig.Seq)
	return &r.errors
}

// Withdraw lets go of the segments of a read that goes on, because it doesn't lie here
// after all. It reports whether there were any.
func (r *Region) Withdraw(run, readID string) bool {
	return r.replace(keyOf(&streampb.Segment{Run: run, ReadId: readID}), 0)
}

// replace lets go of the segments of a read that went on, in favour of those with a
// number; 0: of a read that has ended.
func (r *Region) replace(key readKey, partial uint8) bool {
	return r.letGo(r.reads.goingOn(key, partial))
}

// letGo lets go of segments of reads that go on, by number.
func (r *Region) letGo(numbers []uint32) bool {
	for _, n := range numbers {
		rd := &r.reads.table[n]
		for t := range r.tilesOver(int(rd.start)+r.reach(), int(rd.end)+r.reach()) {
			r.tiles[t].count(true, -1)
		}
		r.reads.dropOf(r.reads.batchOf(int(n)), func(k uint32) bool { return k == n })
		r.version++
	}
	return len(numbers) > 0
}

// count counts n more reads of which the tile sees a part. What is no longer there was
// never evaluated.
func (t *tile) count(partial bool, n int32) {
	if partial {
		t.partial += n
	} else {
		t.reads += n
	}
	t.evaluated = min(t.evaluated, t.reads+t.partial)
}

// tilesOver yields the tiles that use positions in [start, end).
func (r *Region) tilesOver(start, end int) iter.Seq[int] {
	return func(yield func(int) bool) {
		first := max(0, (start-r.start-tileMargin)/tileWidth)
		last := min(len(r.tiles)-1, (end-1-r.start+tileMargin)/tileWidth)
		for t := first; t <= last; t++ {
			if !yield(t) {
				return
			}
		}
	}
}

// reach is the first position at which a segment of the region may start.
func (r *Region) reach() int { return max(0, r.start-align.RegionHalo) }

// tileStart is the first position of tile t.
func (r *Region) tileStart(t int) int { return r.start + t*tileWidth }

// tileEnd is the position after the last of tile t.
func (r *Region) tileEnd(t int) int { return min(r.end, r.start+(t+1)*tileWidth) }
