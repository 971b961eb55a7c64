package variant

// SetLimits makes batches of reads smaller than any test could fill, and has
// reads let go of from the first cull on.
func (r *Region) SetLimits(n, cull int) { r.reads.limit, r.reads.cull = n, cull }

// SetLimits does so for the region that is restored.
func (x *Restorer) SetLimits(n, cull int) { x.region.SetLimits(n, cull) }

// Dropped counts the reads of which only the key is left.
func (r *Region) Dropped() int { return len(r.reads.table) - r.reads.kept }

// LoadAll looks at every tile as Finalize does, and calls nothing.
func (r *Region) LoadAll() {
	for t := range r.tiles {
		r.work.scratch.load(r, t)
	}
}
