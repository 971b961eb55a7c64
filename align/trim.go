package align

// Trim leaves of an alignment the columns on [lo, hi) of the reference, and reports whether any are left. It begins and
// ends with a base of the read on one of the reference then. Score, NM and Divergence stay those of the whole.
func (a *Alignment) Trim(lo, hi int) bool {
	if lo <= a.Start && hi >= a.End {
		return true
	}
	var kept []Op
	first, last, start, end := 0, 0, 0, 0 // of the part that is kept: bases of the aligned part of the read, and of the reference
	q, r := 0, a.Start
	for _, op := range a.Ops {
		n, skip := op.Len, 0
		if op.Kind.onReference() {
			skip = max(0, lo-r)
			n = min(r+op.Len, hi) - r - skip
		} else if r <= lo || r >= hi {
			n = 0
		}
		aligned := op.Kind == Match || op.Kind == Mismatch
		if n > 0 && (aligned || len(kept) > 0) {
			if len(kept) == 0 {
				first, start = q+skip, r+skip
			}
			kept = append(kept, Op{op.Kind, n})
			if aligned {
				last, end = q+skip+n, r+skip+n
			}
		}
		if op.Kind.onQuery() {
			q += op.Len
		}
		if op.Kind.onReference() {
			r += op.Len
		}
	}
	for len(kept) > 0 && kept[len(kept)-1].Kind >= Insertion {
		kept = kept[:len(kept)-1]
	}
	if len(kept) == 0 {
		return false
	}
	if a.Reverse {
		first, last = q-last, q-first
	}
	a.QueryStart, a.QueryEnd = a.QueryStart+first, a.QueryStart+last
	a.Start, a.End, a.Ops = start, end, kept
	return true
}
