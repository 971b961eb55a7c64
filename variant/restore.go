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

// maxReads bounds the numbers of reads, and maxName names, that a state may
// hold.
const (
	maxReads = math.MaxInt32
	maxName  = 512
)

// minEntry is what an entry of a batch takes at least: its flags and its key.
const minEntry = 17

// Restorer puts a region together from what AppendState and AppendReads wrote,
// which may come in any order.
type Restorer struct {
	region  *Region
	batches int // -1: not known yet
	reads   map[int]readsOf
}

// readsOf is a batch that has been read.
type readsOf struct {
	batch
	entries []read
	runs    int // more than any of them belongs to
}

// NewRestorer restores a region that was made with these arguments, and watched
// with these targets.
func NewRestorer(contig *genome.Contig, index int, cfg Config, targets Targets) (*Restorer, error) {
	r, err := NewRegion(contig, index, cfg)
	if err != nil {
		return nil, err
	}
	if len(targets.Spans) > 0 {
		r.SetTargets(targets)
	}
	return &Restorer{region: r, batches: -1, reads: make(map[int]readsOf)}, nil
}

// Use makes the region call with w.
func (x *Restorer) Use(w *Workspace) { x.region.Use(w) }

// State takes what AppendState wrote.
func (x *Restorer) State(b []byte) error {
	r := x.region
	in := packed.NewReader(b)
	checkVersion(in, stateVersion)
	r.final = in.Bool()
	r.reported = in.Uint(maxReads + 1)
	batches := in.Len(math.MaxInt32)
	r.reads.survived = in.Len(maxReads)
	r.reads.runs = in.Strings(maxName)
	r.models.restore(in)
	r.errors.restore(in)
	if n := in.Len(len(r.tiles)); n != len(r.tiles) {
		in.Fail("%d tiles, the region has %d", n, len(r.tiles))
	}
	for i := range r.tiles {
		t := &r.tiles[i]
		t.reads = int32(in.Len(maxReads))
		t.evaluated = -int32(in.Len(maxReads)) // until refile, which knows the reads that go on
		r.restoreCalls(in, i)
	}
	r.restoreCoverage(in)
	r.motifs.restore(in)
	if err := in.Done(); err != nil {
		return r.restoring(err)
	}
	x.batches = batches
	return nil
}

// checkVersion reads the version of an encoding, which is to be the given one.
func checkVersion(in *packed.Reader, version byte) {
	if v := in.Version(version); v > 0 && v < version {
		in.Fail("version %d, and this program reads version %d: start the calling anew from the reads", v, version)
	}
}

func (r *Region) restoring(err error) error {
	return fmt.Errorf("restoring region %d of %s: %w", r.index, r.contig.Name, err)
}

// restoreCalls reads what publisher.pack wrote of a tile.
func (r *Region) restoreCalls(in *packed.Reader, tile int) {
	said := in.Bytes(math.MaxInt32)
	if len(said) == 0 {
		return
	}
	calls := packed.NewReader(said)
	var last *streampb.Call
	for _, a := range r.publishing.unpack(calls, nil) {
		pos := int(a.call.GetPos()) - 1
		switch {
		case pos < r.tileStart(tile) || pos >= r.tileEnd(tile) || a.call.GetRevision() == 0:
			calls.Fail("call %s of revision %d at %d can't be one of tile %d", a.call.GetVrsId(), a.call.GetRevision(), pos+1, tile)
		case last != nil && compareCalls(last, a.call) >= 0:
			calls.Fail("call %s is out of order", a.call.GetVrsId())
		}
		last = a.call
	}
	if err := calls.Done(); err != nil {
		in.Fail("%w", err)
		return
	}
	r.publishing.tiles[tile] = string(said)
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
			in.Fail("depth of %d-%d, which is no target, or comes again", said.GetStart(), said.GetEnd())
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
	checkVersion(in, readsVersion)
	var own readsOf
	own.version = 1
	own.came = in.Len(math.MaxInt32)
	own.since = in.Int()
	n := in.Count(minEntry)
	own.entries = make([]read, 0, n)
	at := 0
	for range n {
		rd := r.restoreRead(in)
		rd.at = uint32(at)
		if rd.is(readKept) {
			at += in.Len(own.came - at)
		}
		own.entries = append(own.entries, rd)
	}
	own.data = slices.Clone(in.Fixed(at))
	if err := in.Done(); err != nil {
		return r.restoring(fmt.Errorf("batch %d: %w", batch, err))
	}
	if err := r.checkReads(&own); err != nil {
		return r.restoring(fmt.Errorf("batch %d: %w", batch, err))
	}
	if _, ok := x.reads[batch]; ok {
		return r.restoring(fmt.Errorf("batch %d comes twice", batch))
	}
	x.reads[batch] = own
	return nil
}

// restoreRead reads an entry up to its number of bytes.
func (r *Region) restoreRead(in *packed.Reader) read {
	rd := read{flags: in.Byte()}
	copy(rd.key[:], in.Fixed(len(rd.key)))
	uncertain := rd.flags == readUncertain
	switch {
	case rd.flags > readFlags || !uncertain && (rd.is(readUncertain) || !rd.is(readKept) && rd.flags&^readPartial != 0):
		in.Fail("unknown flags %#x", rd.flags)
	case rd.is(readKept) || uncertain:
		if rd.is(readPartial) {
			if rd.partial = in.Byte(); rd.partial == 0 {
				in.Fail("a read that goes on was never published")
			}
		}
		rd.start = int32(in.Len(math.MaxInt32))
		span := in.Len(align.MaxSegmentSpan)
		if !uncertain {
			rd.mappingQuality = in.Byte()
		}
		start := int(rd.start) + r.reach()
		if end := start + span; span == 0 || start >= r.end || end <= r.start || end > min(r.end+align.RegionHalo, len(r.contig.Seq)) {
			in.Fail("a read at %d-%d", start, end)
		}
		rd.end = rd.start + int32(span)
	}
	return rd
}

// checkReads makes sure of the bytes of a batch's reads.
func (r *Region) checkReads(own *readsOf) error {
	u, p := &r.work.scratch.unpacker, &r.work.packer
	for i := range own.entries {
		rd := &own.entries[i]
		if !rd.is(readKept) {
			continue
		}
		end := len(own.data)
		if i+1 < len(own.entries) {
			end = int(own.entries[i+1].at)
		}
		err := u.check(own.data[rd.at:end], int(rd.start)+r.reach(), int(rd.end)+r.reach(), r.contig.Seq, p)
		if err != nil {
			return fmt.Errorf("read %d: %w", i, err)
		}
		own.runs = max(own.runs, u.run+1)
	}
	return nil
}

// Complete reports whether all parts have come.
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
		if batchOf.runs > len(r.reads.runs) {
			return nil, r.restoring(fmt.Errorf("batch %d has reads of run %d of %d", i, batchOf.runs, len(r.reads.runs)))
		}
		batchOf.first = len(r.reads.table)
		r.reads.batches = append(r.reads.batches, batchOf.batch)
		r.reads.table = append(r.reads.table, batchOf.entries...)
	}
	if err := r.refile(); err != nil {
		return nil, r.restoring(err)
	}
	return r, nil
}

// refile derives from the reads and the counters of the tiles what a region has
// besides.
func (r *Region) refile() error {
	x := &r.reads
	x.sorted = make([]uint32, len(x.table))
	over := make([]int32, len(r.tiles))
	gone := 0 // reads that had ended, of which only the key is left
	for n := range x.table {
		x.sorted[n] = uint32(n)
		switch rd := &x.table[n]; {
		case rd.is(readUncertain):
		case !rd.is(readKept) && rd.is(readPartial):
			x.replaced++
		case !rd.is(readKept):
			gone++
		default:
			x.count(rd, 1)
			for t := range r.tilesOver(int(rd.start)+r.reach(), int(rd.end)+r.reach()) {
				if rd.is(readPartial) {
					r.tiles[t].partial++
				} else {
					over[t]++
				}
			}
		}
	}
	slices.SortFunc(x.sorted, func(a, b uint32) int { return x.table[a].key.compare(x.table[b].key) })
	for i := 1; i < len(x.sorted); i++ {
		if x.table[x.sorted[i-1]].key == x.table[x.sorted[i]].key {
			return errors.New("a read was applied twice")
		}
	}
	if x.survived > x.kept {
		return fmt.Errorf("%d reads are here, %d were kept before", x.kept, x.survived)
	}
	for i := range r.tiles {
		t := &r.tiles[i]
		if dropped := t.reads - over[i]; dropped < 0 || int(dropped) > gone {
			return fmt.Errorf("tile %d has %d reads, but %d are here", i, t.reads, over[i])
		}
		if t.evaluated += t.reads + t.partial; t.evaluated < 0 {
			return fmt.Errorf("tile %d has fewer reads than have come since it was evaluated", i)
		}
		if t.dirty = t.reads+t.partial > t.evaluated; t.dirty {
			r.touched = append(r.touched, i)
		}
	}
	return nil
}
