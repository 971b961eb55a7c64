package aligned

import (
	"slices"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/variant"
)

// Targets are what is called, by contig: spans that are ascending and disjoint, as
// by variant.Union. Nil: everything.
type Targets map[string][]variant.Span

// plan is the regions that are called, in the order of the output.
type plan struct {
	regions []place
	number  map[regionKey]int // in regions
	contigs map[*genome.Contig][]int
}

// regionKey identifies a region.
type regionKey struct {
	contig *genome.Contig
	index  int
}

// place is a region and what of it is called.
type place struct {
	regionKey
	start, end int // core
	within     []variant.Span
	all        bool // within is the core
}

// newPlan lists the regions of contigs that hold a part of the targets.
func newPlan(contigs []*genome.Contig, targets Targets) *plan {
	p := &plan{number: make(map[regionKey]int), contigs: make(map[*genome.Contig][]int)}
	for _, c := range contigs {
		spans := []variant.Span{{Start: 0, End: len(c.Seq)}}
		if targets != nil {
			spans = targets[c.Name]
		}
		last := -1
		for _, s := range spans {
			for i := s.Start / align.RegionWidth; i <= (min(s.End, len(c.Seq))-1)/align.RegionWidth; i++ {
				start, end := align.RegionBounds(i, len(c.Seq))
				if i != last {
					key := regionKey{c, i}
					p.number[key] = len(p.regions)
					p.contigs[c] = append(p.contigs[c], i)
					p.regions = append(p.regions, place{regionKey: key, start: start, end: end})
					last = i
				}
				r := &p.regions[len(p.regions)-1]
				within := variant.Span{Start: max(s.Start, start), End: min(s.End, end)}
				r.within = append(r.within, within)
				r.all = within == variant.Span{Start: start, End: end}
			}
		}
	}
	return p
}

// regionsOf are the numbers of a contig's regions.
func (p *plan) regionsOf(c *genome.Contig) []int { return p.contigs[c] }

// touches reports whether an alignment over [start, end) of a contig may reach a region.
func (p *plan) touches(c *genome.Contig, start, end int) bool {
	first, last := start/align.RegionWidth, max(start, end-1)/align.RegionWidth
	for i := first; i <= last; i++ {
		if _, ok := p.number[regionKey{c, i}]; ok {
			return true
		}
	}
	return false
}

// holds reports whether a call at the 1-based position pos is asked for.
func (p *place) holds(pos int64) bool {
	return p.all || slices.ContainsFunc(p.within, func(s variant.Span) bool { return int(pos) > s.Start && int(pos) <= s.End })
}
