package align

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// column is a base of the read, counted on the reference's strand, on one of the reference; -1: none.
type column struct{ query, ref int }

func columns(a *Alignment) []column {
	var list []column
	q, r := 0, a.Start
	for _, op := range a.Ops {
		for range op.Len {
			c := column{q, r}
			if !op.Kind.onQuery() {
				c.query = -1
			} else {
				q++
			}
			if !op.Kind.onReference() {
				c.ref = -1
			} else {
				r++
			}
			list = append(list, c)
		}
	}
	at := a.QueryStart
	for i := range list {
		if list[i].query >= 0 {
			if list[i].query += at; a.Reverse {
				list[i].query = a.QueryEnd - 1 - (list[i].query - at)
			}
		}
	}
	return list
}

// Trimmed by columns one after the other, the slow way, an alignment is the same.
func TestTrimmedAlignmentIsThatOfTrimmingByColumns(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		a := &Alignment{Start: 100, Reverse: rng.IntN(2) == 1, QueryStart: rng.IntN(20)}
		a.End, a.QueryEnd = a.Start, a.QueryStart
		var kind OpKind
		for i := range 1 + 2*rng.IntN(6) {
			if i%2 == 0 {
				kind = OpKind(rng.IntN(2))
			} else {
				kind = OpKind(2 + rng.IntN(2))
			}
			op := Op{kind, 1 + rng.IntN(6)}
			a.Ops = append(a.Ops, op)
			if kind.onQuery() {
				a.QueryEnd += op.Len
			}
			if kind.onReference() {
				a.End += op.Len
			}
		}
		lo := a.Start - 3 + rng.IntN(a.End-a.Start+6)
		hi := lo + rng.IntN(a.End-lo+4)
		want := columns(a)
		on := func(c column) bool { return c.query >= 0 && c.ref >= lo && c.ref < hi }
		for len(want) > 0 && !on(want[0]) {
			want = want[1:]
		}
		for len(want) > 0 && !on(want[len(want)-1]) {
			want = want[:len(want)-1]
		}
		before := *a
		if !a.Trim(lo, hi) {
			require.Empty(t, want)
			require.Equal(t, before, *a)
			continue
		}
		require.Equal(t, want, columns(a), "%+v to %d-%d", before, lo, hi)
		require.True(t, a.Start >= lo && a.End <= hi)
	}
}
