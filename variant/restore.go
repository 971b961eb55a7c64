package variant

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream/packed"
	"github.com/porestream/porestream/stream/streampb"
)

// maxReads bounds the counters of reads, and maxName names, that a state may
// hold.
const (
	maxReads = 1 << 40
	maxName  = 512
)

// minEntry is less than any entry of a batch takes.
const minEntry = 8

// Restorer puts a region together from what AppendState and AppendReads wrote,
// which may come in any order.
type Restorer struct {
	region  *Region
	batches int // -1: not known yet
	reads   map[int]readsOf
}

// readsOf is a batch that has been read.
type readsOf struct {
	bytes   int
	entries []entry
}

// NewRestorer restores a region that was made with these arguments, and watched
// with these spans.
func NewRestorer(contig *genome.Contig, index int, cfg Config, spans []Span) (*Restorer, error) {
	r, err := NewRegion(contig, index, cfg)
	if err != nil {
		return nil, err
	}
	if len(spans) > 0 {
		r.Watch(spans)
	}
	return &Restorer{region: r, batches: -1, reads: make(map[int]readsOf)}, nil
}

// Use makes the region call with w.
func (x *Restorer) Use(w *Workspace) { x.region.Use(w) }

// State takes what AppendState wrote.
func (x *Restorer) State(b []byte) error {
	r := x.region
	in := packed.NewReader(b)
	in.Version(stateVersion)
	r.final = in.Bool()
	batches := in.Len(math.MaxInt32)
	r.errors.restore(in)
	if n := in.Len(len(r.tiles)); n != len(r.tiles) {
		in.Fail("%d tiles, the region has %d", n, len(r.tiles))
	}
	for i := range r.tiles {
		t := &r.tiles[i]
		t.reads = in.Len(maxReads)
		t.evaluated = t.reads - in.Len(t.reads)
	}
	r.restoreCalls(in)
	r.restoreCoverage(in)
	if err := in.Done(); err != nil {
		return r.restoring(err)
	}
	x.batches = batches
	return nil
}

func (r *Region) restoring(err error) error {
	return fmt.Errorf("restoring region %d of %s: %w", r.index, r.contig.Name, err)
}

// restoreCalls reads what publisher.append wrote.
func (r *Region) restoreCalls(in *packed.Reader) {
	for range in.Count(3) {
		a := &published{alive: in.Bool(), since: in.Len(math.MaxInt32), call: new(streampb.Call)}
		in.Message(a.call)
		pos := int(a.call.GetPos()) - 1
		key := keyOfCall(a.call)
		switch {
		case in.Err() != nil:
			return
		case pos < r.start || pos >= r.end || a.call.GetRef() == "" || a.call.GetAlt() == "" || a.call.GetRevision() == 0:
			in.Fail("call %s of revision %d at %d can't be one of this region", a.call.GetVrsId(), a.call.GetRevision(), pos+1)
		case r.publishing.alleles[key] != nil:
			in.Fail("two calls of %s", a.call.GetVrsId())
		default:
			a.call.Sample, a.call.Contig = r.cfg.Sample, r.contig.Name
			r.publishing.alleles[key] = a
			t := (pos - r.start) / tileWidth
			r.publishing.tiles[t] = append(r.publishing.tiles[t], a)
		}
	}
}

// restoreCoverage reads what coverage.append wrote.
func (r *Region) restoreCoverage(in *packed.Reader) {
	for range in.Count(1) {
		said := new(streampb.Coverage)
		in.Message(said)
		if in.Err() != nil {
			return
		}
		stretches := r.coverage.tiles[(int(said.GetStart())-r.start)/tileWidth]
		i := slices.IndexFunc(stretches, func(w *watched) bool {
			return int64(w.span.Start) == said.GetStart() && int64(w.span.End) == said.GetEnd() && w.said == nil
		})
		sum := uint64(0)
		for _, n := range said.GetLengths() {
			sum += uint64(n)
		}
		if i < 0 || len(said.GetLengths()) != len(said.GetDepths()) || sum != uint64(said.GetEnd()-said.GetStart()) {
			in.Fail("depth of %d-%d, which is not watched or told before", said.GetStart(), said.GetEnd())
			return
		}
		said.Sample, said.Contig = r.cfg.Sample, r.contig.Name
		stretches[i].said = said
	}
}

// restore reads what errorCounts.append wrote.
func (c *errorCounts) restore(in *packed.Reader) {
	zeros := uint64(0)
	c.numbers(func(uint64) uint64 {
		if zeros > 0 {
			zeros--
			return 0
		}
		n := in.Uint(math.MaxUint64)
		if n == 0 {
			zeros = in.Uint(math.MaxInt32)
		}
		return n
	})
	if zeros > 0 {
		in.Fail("%d counts too many", zeros)
	}
}

// Reads takes what AppendReads wrote for a batch.
func (x *Restorer) Reads(batch int, b []byte) error {
	r := x.region
	in := packed.NewReader(b)
	in.Version(readsVersion)
	batchOf := readsOf{bytes: in.Len(math.MaxInt32)}
	runs := make([]string, in.Count(1))
	for i := range runs {
		runs[i] = in.String(maxName)
	}
	n := in.Count(minEntry)
	batchOf.entries = make([]entry, 0, n)
	for range n {
		e := r.restoreEntry(in, runs)
		if in.Err() != nil {
			break
		}
		batchOf.entries = append(batchOf.entries, e)
	}
	if err := in.Done(); err != nil {
		return r.restoring(fmt.Errorf("batch %d: %w", batch, err))
	}
	if _, ok := x.reads[batch]; ok {
		return r.restoring(fmt.Errorf("batch %d comes twice", batch))
	}
	x.reads[batch] = batchOf
	return nil
}

// restoreEntry reads a segment, or the key of one.
func (r *Region) restoreEntry(in *packed.Reader, runs []string) entry {
	flags := in.Byte()
	if flags > readFlags {
		in.Fail("unknown flags %#x", flags)
	}
	if flags&readKept == 0 {
		var e entry
		if copy(e.key[:], in.Fixed(len(e.key))); flags != 0 {
			in.Fail("flags %#x of a read of which only the key is left", flags)
		}
		return e
	}
	run := in.Len(len(runs) - 1)
	s := &streampb.Segment{
		Contig: r.contig.Name, Region: uint32(r.index),
		ReadId: in.String(maxName), Part: uint32(in.Uint(math.MaxUint32)),
		Start: int64(r.reach() + in.Len(math.MaxInt32)), LastChunkMs: in.Int(),
		Reverse: flags&readReverse != 0, Supplementary: flags&readSupplementary != 0,
		Ops: in.Bytes(math.MaxInt32), Bases: in.Bytes(math.MaxInt32),
	}
	if in.Err() == nil && len(runs) == 0 {
		in.Fail("a read of no run")
	}
	if in.Err() != nil {
		return entry{}
	}
	s.Run = runs[run]
	extent, err := align.Check(s, len(r.contig.Seq))
	if err != nil {
		in.Fail("%w", err)
		return entry{}
	}
	var bins []byte
	if flags&readQualities != 0 {
		bins = slices.Clone(in.Fixed((extent.Query + 1) / 2))
		checkBins(in, bins, extent.Query)
	}
	return entry{keyOf(s), newSegment(s, extent, bins)}
}

// checkBins makes sure of what packBins gives.
func checkBins(in *packed.Reader, bins []byte, n int) {
	over := byte(0)
	for _, b := range bins {
		over |= b & 0x88
	}
	if over != 0 || n%2 == 1 && len(bins) > 0 && bins[len(bins)-1]>>4 != 0 {
		in.Fail("quality bin of more than %d", binCount-1)
	}
}

// Complete tells whether all parts have come.
func (x *Restorer) Complete() bool { return len(x.reads) == x.batches }

// Region is the region, once all of its parts have come.
func (x *Restorer) Region() (*Region, error) {
	r := x.region
	switch {
	case x.batches < 0:
		return nil, r.restoring(errors.New("its state is missing"))
	case len(x.reads) != x.batches:
		return nil, r.restoring(fmt.Errorf("%d batches of reads, want %d", len(x.reads), x.batches))
	}
	for i := range x.batches {
		batchOf, ok := x.reads[i]
		if !ok {
			return nil, r.restoring(fmt.Errorf("batch %d is missing", i))
		}
		r.history.batches = append(r.history.batches, batch{first: len(r.history.entries), bytes: batchOf.bytes, version: 1})
		r.history.entries = append(r.history.entries, batchOf.entries...)
	}
	if err := r.refile(); err != nil {
		return nil, r.restoring(err)
	}
	return r, nil
}

// refile derives from the history and the counters of the tiles what a region
// has besides.
func (r *Region) refile() error {
	r.applied = make(map[segmentKey]struct{}, len(r.history.entries))
	for number, e := range r.history.entries {
		r.applied[e.key] = struct{}{}
		if e.seg == nil {
			continue
		}
		e.seg.number = number
		for t, p := range r.pieces(e.seg) {
			r.tiles[t].pieces = append(r.tiles[t].pieces, p)
			e.seg.held++
		}
	}
	if len(r.applied) != len(r.history.entries) {
		return errors.New("a read was applied twice")
	}
	for i := range r.tiles {
		t := &r.tiles[i]
		young := t.reads - t.evaluated
		if young > len(t.pieces) || len(t.pieces) > t.reads {
			return fmt.Errorf("tile %d has %d reads, %d of them new, but %d are here", i, t.reads, young, len(t.pieces))
		}
		r.prune(i, len(t.pieces)-young)
		if t.dirty = young > 0; t.dirty {
			r.touched = append(r.touched, i)
		}
	}
	for _, e := range r.history.entries {
		if e.seg != nil && e.seg.held == 0 {
			return fmt.Errorf("read %s is in no tile", e.seg.readID)
		}
	}
	return nil
}

// reach is the first position at which a segment of the region may start.
func (r *Region) reach() int { return max(0, r.start-align.RegionHalo) }
