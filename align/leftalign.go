package align

// LeftAlign moves every gap as far left as it goes through matching columns
// without changing what the read spells, merges gaps of the same kind that meet,
// and merges runs. query and ref are exactly what ops span. The result is a new
// slice.
func LeftAlign(ops []Op, query, ref []byte) []Op {
	return appendLeftAligned(make([]Op, 0, len(ops)+8), ops, query, ref)
}

// appendLeftAligned appends them to out, which is empty.
func appendLeftAligned(out, ops []Op, query, ref []byte) []Op {
	qpos, rpos := 0, 0 // where the next operation starts
	for _, op := range ops {
		if op.Kind == Match || op.Kind == Mismatch {
			out = push(out, op)
			qpos += op.Len
			rpos += op.Len
			continue
		}
		out = shift(out, op, query, ref, qpos, rpos)
		if op.Kind == Insertion {
			qpos += op.Len
		} else {
			rpos += op.Len
		}
	}
	return out
}

// push appends an operation, merging it with an equal one before it.
func push(ops []Op, op Op) []Op {
	if op.Len == 0 {
		return ops
	}
	if n := len(ops); n > 0 && ops[n-1].Kind == op.Kind {
		ops[n-1].Len += op.Len
		return ops
	}
	return append(ops, op)
}

// shift places a gap that would start at (qpos, rpos), after done, as far left as
// it goes. It walks one column of the preceding match run at a time: the gap can
// swap with a column when the base that enters it on the left equals the base
// that leaves it on the right.
func shift(done []Op, gap Op, query, ref []byte, qpos, rpos int) []Op {
	moved := 0
	for {
		n := len(done)
		if n == 0 {
			break
		}
		last := done[n-1]
		if last.Kind == gap.Kind {
			// The gap has met an earlier one: they go on as one. The columns that
			// were crossed so far stay behind it.
			gap.Len += last.Len
			done = done[:n-1]
			if gap.Kind == Insertion {
				qpos -= last.Len
			} else {
				rpos -= last.Len
			}
			continue
		}
		if last.Kind != Match {
			break
		}
		seq, at := query, qpos
		if gap.Kind == Deletion {
			seq, at = ref, rpos
		}
		steps := 0
		for steps < last.Len && seq[at-1-steps] == seq[at-1-steps+gap.Len] {
			steps++
		}
		qpos -= steps
		rpos -= steps
		moved += steps
		if steps < last.Len {
			done[n-1].Len -= steps
			break
		}
		done = done[:n-1]
	}
	done = push(done, gap)
	return push(done, Op{Match, moved})
}
