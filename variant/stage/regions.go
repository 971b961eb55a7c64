package stage

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/vrs"
)

// Regions are the regions that a process holds, for readers outside the handlers: how
// deep they are covered, and the reads at a place. A handler is read between two of
// its records, for some milliseconds; nothing that it holds is changed. Safe for
// concurrent use.
type Regions struct {
	mu       sync.Mutex
	handlers map[*handler]struct{}
	version  uint64 // counts the changes of handlers
	reported map[regionKey]*reportedDepth
	orders   map[string]uint32 // of contigs in the reference
}

// reportedDepth is the last report of a region's depth.
type reportedDepth struct {
	of      *variant.Region
	version uint64
	at      time.Time
}

// NewRegions knows no region yet.
func NewRegions() *Regions {
	return &Regions{handlers: make(map[*handler]struct{}), reported: make(map[regionKey]*reportedDepth)}
}

// depthBins is in how many bins the depth of a region is reported at most. A bin
// of a whole region is a thousand positions.
const depthBins = 1024

// When the depth of a region is reported again.
const (
	changedEvery   = 5 * time.Second
	unchangedEvery = 30 * time.Minute
)

// Depths are reports about regions whose depth has changed, most of those that have
// waited longest: each region every few seconds at most, and now and then one that has not
// changed. limit bounds their number.
func (rs *Regions) Depths(now time.Time, limit int) []*streampb.DepthReport {
	type candidate struct {
		h   *handler
		key regionKey
		at  time.Time // when it was reported last
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	var due []candidate
	here := make(map[regionKey]bool)
	for h := range rs.handlers {
		h.mu.Lock()
		for key, r := range h.regions {
			here[key] = true
			t := rs.reported[key]
			switch {
			case t == nil || t.of != r:
				due = append(due, candidate{h, key, time.Time{}})
			case now.Sub(t.at) >= unchangedEvery, now.Sub(t.at) >= changedEvery && r.StateVersion() != t.version:
				due = append(due, candidate{h, key, t.at})
			}
		}
		h.mu.Unlock()
	}
	for key := range rs.reported {
		if !here[key] {
			delete(rs.reported, key)
		}
	}
	slices.SortFunc(due, func(a, b candidate) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return a.key.compare(b.key)
	})
	var out []*streampb.DepthReport
	for _, c := range due[:min(limit, len(due))] {
		c.h.mu.Lock()
		r := c.h.regions[c.key]
		c.h.mu.Unlock()
		if r == nil {
			continue
		}
		c.h.mu.Lock()
		out = append(out, rs.report(c.h, c.key, r))
		rs.reported[c.key] = &reportedDepth{of: r, version: r.StateVersion(), at: now}
		c.h.mu.Unlock()
	}
	return out
}

// report is about a region of a handler that is held still.
func (rs *Regions) report(h *handler, key regionKey, r *variant.Region) *streampb.DepthReport {
	if rs.orders == nil {
		rs.orders = make(map[string]uint32)
		for i, c := range h.cfg.Genome.Contigs {
			rs.orders[c.Name] = uint32(i)
		}
	}
	start, end := r.Bounds()
	bin := max(1, (end-start+depthBins-1)/depthBins)
	return &streampb.DepthReport{
		Sample: key.sample, Contig: key.contig, ContigOrder: rs.orders[key.contig], ContigLength: int64(len(h.cfg.Genome.Contig(key.contig).Seq)),
		Region: key.region, Start: int64(start), End: int64(end), Bin: uint32(bin), Depths: r.Depth(bin), Models: ModelReads(r.Models()),
	}
}

// Pileup is the reads over a 0-based position of a contig in a sample; false if this
// process does not hold them.
func (rs *Regions) Pileup(sample, contig string, pos, flank, rows int) (variant.Pileup, bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for h := range rs.handlers {
		h.mu.Lock()
		for key, r := range h.regions {
			if start, end := r.Bounds(); key.sample == sample && key.contig == contig && start <= pos && pos < end {
				p := r.Pileup(pos, flank, rows)
				h.mu.Unlock()
				return p, true
			}
		}
		h.mu.Unlock()
	}
	return variant.Pileup{}, false
}

// RunState is a run that handlers know, by its markers.
type RunState struct {
	Run   *streampb.Run
	Ended bool // in all partitions, so the calls of samples that have no other run are final
}

// Held is what a process holds of the reads.
type Held struct {
	Runs []RunState // that handlers know, by id
	// Live: every handler has restored what there was when it got its partition. Until then it may know a run's end and not yet its reads.
	Live bool
	// Whole: it has all partitions, and so the reads of all samples.
	Whole bool

	version uint64 // of the handlers
}

// Held is what the process holds now.
func (rs *Regions) Held() Held {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	known, ended := make(map[string]*streampb.Run), make(map[string]int)
	held := make(map[int32]bool)
	partitions := int32(0)
	out := Held{Live: true, version: rs.version}
	for h := range rs.handlers {
		h.mu.Lock()
		out.Live = out.Live && h.live
		held[h.partition], partitions = true, h.partitions
		for _, run := range h.markers.Runs() {
			known[run.GetId()] = run
			if h.markers.Ended(run.GetId()) {
				ended[run.GetId()]++
			}
		}
		h.mu.Unlock()
	}
	out.Whole = partitions > 0 && len(held) == int(partitions)
	for _, id := range slices.Sorted(maps.Keys(known)) {
		out.Runs = append(out.Runs, RunState{known[id], out.Live && out.Whole && ended[id] == len(rs.handlers)})
	}
	return out
}

// Still reports whether the process has had the same partitions since: what was counted meanwhile is of all of them.
func (rs *Regions) Still(held Held) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.version == held.version
}

// Tally lists calls and counts reads again and again, each time anew only in regions that have changed since. It is for one reader.
type Tally struct {
	regions *Regions
	known   map[regionKey]*tallied
}

// tallied is a region as it was.
type tallied struct {
	of      *variant.Region
	version uint64
	calls   []*streampb.Call
	alleles []vrs.Edit
	counts  []variant.Support
}

// NewTally knows no region yet.
func (rs *Regions) NewTally() *Tally {
	return &Tally{regions: rs, known: make(map[regionKey]*tallied)}
}

// each hands out each region, held still by its handler's lock, and what was known of it, with nothing known if it has changed. Handlers may come and go meanwhile: counting
// takes too long for them to wait.
func (t *Tally) each(fn func(*handler, regionKey, *variant.Region, *tallied)) {
	t.regions.mu.Lock()
	handlers := slices.Collect(maps.Keys(t.regions.handlers))
	t.regions.mu.Unlock()
	here := make(map[regionKey]bool)
	for _, h := range handlers {
		h.mu.Lock()
		keys := slices.SortedFunc(maps.Keys(h.regions), regionKey.compare)
		h.mu.Unlock()
		for _, key := range keys {
			h.mu.Lock()
			if r := h.regions[key]; r != nil {
				k := t.known[key]
				if k == nil || k.of != r || k.version != r.StateVersion() {
					k = &tallied{of: r, version: r.StateVersion(), calls: r.Calls()}
					t.known[key] = k
				}
				here[key] = true
				fn(h, key, r, k)
			}
			h.mu.Unlock()
		}
	}
	maps.DeleteFunc(t.known, func(key regionKey, _ *tallied) bool { return !here[key] })
}

// Calls lists the calls that stand, by sample. They are not to be changed.
func (t *Tally) Calls() map[string][]*streampb.Call {
	out := make(map[string][]*streampb.Call)
	t.each(func(_ *handler, key regionKey, _ *variant.Region, k *tallied) {
		out[key.sample] = append(out[key.sample], k.calls...)
	})
	return out
}

// Support counts, of each of some samples and contig, the reads that show alleles, called or not; see [variant.Region.Support]. They are given
// by contig, by the 0-based position of their first base, ascending. Where this process holds no region of a sample, it has no reads.
func (t *Tally) Support(samples []string, alleles map[string][]vrs.Edit) map[string]map[string][]variant.Support {
	out := make(map[string]map[string][]variant.Support)
	t.each(func(h *handler, key regionKey, r *variant.Region, k *tallied) {
		all := alleles[key.contig]
		if len(all) == 0 || !slices.Contains(samples, key.sample) {
			return
		}
		at := func(pos int) int {
			i, _ := slices.BinarySearchFunc(all, pos, func(e vrs.Edit, pos int) int { return cmp.Compare(e.Start, pos) })
			return i
		}
		start, end := r.Bounds()
		first := at(start)
		if own := all[first:at(end)]; k.counts == nil || !slices.Equal(k.alleles, own) {
			k.alleles, k.counts = slices.Clone(own), supportBetween(h, r, own)
		}
		if out[key.sample] == nil {
			out[key.sample] = make(map[string][]variant.Support)
		}
		if out[key.sample][key.contig] == nil {
			out[key.sample][key.contig] = make([]variant.Support, len(all))
		}
		copy(out[key.sample][key.contig][first:], k.counts)
	})
	return out
}

// countedAtOnce is at how many alleles reads are counted while a handler waits: some ten milliseconds where each is in another tile.
const countedAtOnce = 64

// supportBetween is [variant.Region.Support], with the handler's lock, which is held, let go of now and then. Where the region changes meanwhile its version does, too, so
// that it is counted again.
func supportBetween(h *handler, r *variant.Region, alleles []vrs.Edit) []variant.Support {
	counts := make([]variant.Support, 0, len(alleles))
	for part := range slices.Chunk(alleles, countedAtOnce) {
		if len(counts) > 0 {
			h.mu.Unlock()
			h.mu.Lock()
		}
		counts = append(counts, r.Support(part)...)
	}
	return counts
}

func (rs *Regions) add(h *handler) {
	if rs != nil {
		rs.mu.Lock()
		defer rs.mu.Unlock()
		rs.handlers[h] = struct{}{}
		rs.version++
	}
}

func (rs *Regions) remove(h *handler) {
	if rs != nil {
		rs.mu.Lock()
		defer rs.mu.Unlock()
		delete(rs.handlers, h)
		rs.version++
	}
}

// worker is the handler of a partition whose regions others may read.
type worker struct {
	stream.Fold
	handler *handler
	regions *Regions
}

// Tick is called once the partition is live, also where no record follows.
func (w worker) Tick(context.Context, time.Time, stream.Emitter) error {
	w.handler.mu.Lock()
	defer w.handler.mu.Unlock()
	w.handler.live = true
	return nil
}

// Close takes the handler out of sight.
func (w worker) Close() error {
	w.regions.remove(w.handler)
	return w.Fold.Close()
}
