package variant

// SetBatchBytes makes batches of reads smaller than any test could fill.
func (r *Region) SetBatchBytes(n int) { r.history.limit = n }

// SetBatchBytes does so for the region that is restored.
func (x *Restorer) SetBatchBytes(n int) { x.region.SetBatchBytes(n) }

// Dropped counts the reads of which only the key is left.
func (r *Region) Dropped() (n int) {
	for _, e := range r.history.entries {
		if e.seg == nil {
			n++
		}
	}
	return n
}
