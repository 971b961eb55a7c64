package annotate

// workspace is memory that one goroutine reuses for each record. Memory taken from it is valid until reset.
type workspace struct {
	variants []variant
	effects  []effect
	codons   []codonChange
	order    []*effect
	all      candidates
	seen     []sighting

	// What the record before needed, and the next one probably does, too: reset leaves it.
	found  foundAt
	contig string
	at     *place // of contig
}

// reset gives all memory back.
func (w *workspace) reset() {
	w.variants, w.effects, w.codons, w.order, w.all = w.variants[:0], w.effects[:0], w.codons[:0], w.order[:0], w.all[:0]
}

// take returns a zero value from a slab. One that is full is left to those who use it, and a larger one begun.
func take[T any](slab *[]T) *T {
	n := len(*slab)
	if n == cap(*slab) {
		*slab = make([]T, 0, max(16, 2*n))
		n = 0
	}
	*slab = (*slab)[:n+1]
	x := &(*slab)[n]
	var zero T
	*x = zero
	return x
}
