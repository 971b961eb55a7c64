package stage

import (
	"slices"
	"sync"
	"time"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
)

// Regions are the regions that a process holds, for readers outside the handlers: how
// deep they are covered, and the reads at a place. A handler is read between two of
// its records, for some milliseconds; nothing that it holds is changed. Safe for
// concurrent use.
type Regions struct {
	mu       sync.Mutex
	handlers map[*handler]struct{}
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

func (rs *Regions) add(h *handler) {
	if rs != nil {
		rs.mu.Lock()
		defer rs.mu.Unlock()
		rs.handlers[h] = struct{}{}
	}
}

func (rs *Regions) remove(h *handler) {
	if rs != nil {
		rs.mu.Lock()
		defer rs.mu.Unlock()
		delete(rs.handlers, h)
	}
}

// worker is the handler of a partition whose regions others may read.
type worker struct {
	stream.Fold
	handler *handler
	regions *Regions
}

// Close takes the handler out of sight.
func (w worker) Close() error {
	w.regions.remove(w.handler)
	return w.Fold.Close()
}
