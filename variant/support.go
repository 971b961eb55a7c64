package variant

import (
	"slices"

	"github.com/porestream/porestream/vrs"
)

// Support is the reads of a sample at an allele's place.
type Support struct {
	Shows int // that show the allele by their bases, whether it is called or not
	Depth int // reads that could show it
	// Left is how many reads over the place at most weren't used, since there are more than
	// [Config.MaxDepth]. Where reads had to be let go of, it counts those that reach into the tile, as their
	// places are no longer known.
	Left int
}

// Support counts the reads at alleles that begin in the region's core. Like a [Pileup] it changes nothing of the region, and is a function of the set of
// reads.
func (r *Region) Support(alleles []vrs.Edit) []Support {
	return r.support(alleles, nil)
}

// RunSupport is [Region.Support] of the reads of one run. Of those that weren't used the run has the share that it has of those that were.
func (r *Region) RunSupport(run string, alleles []vrs.Edit) []Support {
	if len(r.reads.runs) == 1 && r.reads.runs[0] == run {
		return r.support(alleles, nil)
	}
	return r.support(alleles, func(of string) bool { return of == run })
}

// Runs are the runs that the region has had reads of, ascending.
func (r *Region) Runs() []string { return slices.Sorted(slices.Values(r.reads.runs)) }

// support counts the reads of some runs; nil: of all.
func (r *Region) support(alleles []vrs.Edit, of func(run string) bool) []Support {
	own := r.work
	r.work = new(Workspace) // that of the caller is none of ours
	defer func() { r.work = own }()
	m, model, loaded := &r.work.scratch, r.errorModel(), -1
	used := 0
	out := make([]Support, len(alleles))
	for i, e := range alleles {
		// A gap behind the last base of the core begins beyond it.
		t := r.tileAt(e.Trim().Start)
		if t != loaded {
			m.load(r, t)
			loaded, used = t, len(m.rows)
			if of != nil {
				m.rows = slices.DeleteFunc(m.rows, func(w row) bool { return !of(w.seg.run) })
			}
		}
		c := r.countNamed(m, model, &Named{Pos: e.Start, Alleles: []vrs.Edit{e}})
		out[i] = Support{Shows: c.shows[0] + c.shows[1], Depth: c.depth}
		column := max(m.lo, min(e.Start, m.hi-1)) - m.lo
		if held := int(m.depth[column]); held >= r.cfg.MaxDepth { // else none was let go of
			out[i].Left = max(held, int(r.tiles[t].reads)) - r.cfg.MaxDepth
			if of != nil {
				out[i].Left = (out[i].Left*len(m.rows) + used/2) / max(used, 1)
			}
		}
	}
	return out
}
