package variant

import "github.com/porestream/porestream/vrs"

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
	own := r.work
	r.work = new(Workspace) // that of the caller is none of ours
	defer func() { r.work = own }()
	m, model, loaded := &r.work.scratch, r.errorModel(), -1
	out := make([]Support, len(alleles))
	for i, e := range alleles {
		// A gap behind the last base of the core begins beyond it.
		t := r.tileAt(e.Trim().Start)
		if t != loaded {
			m.load(r, t)
			loaded = t
		}
		c := r.countNamed(m, model, &Named{Pos: e.Start, Alleles: []vrs.Edit{e}})
		out[i] = Support{Shows: c.shows[0] + c.shows[1], Depth: c.depth}
		column := max(m.lo, min(e.Start, m.hi-1)) - m.lo
		if held := int(m.depth[column]); held >= r.cfg.MaxDepth { // else none was let go of
			out[i].Left = max(held, int(r.tiles[t].reads)) - r.cfg.MaxDepth
		}
	}
	return out
}
