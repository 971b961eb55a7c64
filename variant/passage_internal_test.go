package variant

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/stream/streampb"
)

// walked counts a segment by walking along all of its columns.
func walked(c *errorCounts, s *streampb.Segment, ref []byte) {
	reverse, start := s.GetReverse(), int(s.GetStart())
	pos, base := start, 0
	changes := make(map[int]int) // of length, by the start of a homopolymer
	each := func(from, to int, change func(start, end int) int) {
		for at := 0; at < len(ref); at += runFrom(ref, at) {
			if end := at + runFrom(ref, at); at <= to && end >= from {
				changes[at] += change(at, end)
			}
		}
	}
	for op, rest, ok := align.Ops(s.GetOps()).Next(); ok; op, rest, ok = rest.Next() {
		switch op.Kind {
		case align.Match, align.Mismatch:
			for range op.Len {
				shows := baseCode[ref[pos]]
				if op.Kind == align.Mismatch {
					shows = baseCode[s.GetBases()[base]]
					base++
				}
				if shows < 4 {
					c.contexts[kmerAt(ref, pos, reverse)][strandBase(shows, reverse)]++
				}
				pos++
			}
		case align.Deletion:
			each(pos, pos+op.Len, func(start, end int) int { return -max(0, min(end, pos+op.Len)-max(start, pos)) })
			pos += op.Len
		case align.Insertion:
			for _, b := range s.GetBases()[base : base+op.Len] {
				each(pos, pos, func(start, _ int) int {
					if ref[start] == b {
						return 1
					}
					return 0
				})
			}
			base += op.Len
		}
	}
	for at := start; at < pos; at += runFrom(ref, at) {
		n, b := runFrom(ref, at), strandBase(baseCode[ref[at]], reverse)
		if b > 3 {
			continue
		}
		c.runs[min(n, maxRun)][b]++
		if n >= minCountedRun && at > start && at+n < pos {
			c.lengths[countedRow(n)][b][changeColumn(changes[at])]++
		}
	}
}

// TestPassagesAreCountedAsIfWalked: what reads that wait are counted for is what each column of
// each of them says, whenever somebody asks.
func TestPassagesAreCountedAsIfWalked(t *testing.T) {
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 40))
		// Few letters make long homopolymers, across blocks and at ends.
		ref := randomSeq(rnd, 3*passageWidth+rnd.IntN(2*passageWidth), []string{"ACGT", "AC", "AAAAAAAAAC", "ACGTN", "GGGGGTTN"}[seed%5])
		p := newPassages(0, len(ref))
		var got, atOnce, want errorCounts
		for range 20 {
			s := gappedSegment(rnd, ref)
			extent, err := align.Check(s, len(ref))
			require.NoError(t, err)
			end := int(s.GetStart()) + extent.Reference
			got.add(s, end, 0, ref, &p)
			atOnce.add(s, end, 0, ref, new(passages))
			walked(&want, s, ref)
			if rnd.IntN(5) == 0 {
				p.settle(&got, ref)
			}
		}
		p.settle(&got, ref)
		require.Equal(t, got, atOnce, "seed %d", seed)
		require.Equal(t, want.contexts, got.contexts, "seed %d", seed)
		require.Equal(t, want.runs, got.runs, "seed %d", seed)
		require.Equal(t, want.lengths, got.lengths, "seed %d", seed)
	}
}

// gappedSegment is an alignment with many gaps and other bases.
func gappedSegment(rnd *rand.Rand, ref []byte) *streampb.Segment {
	start := rnd.IntN(len(ref) - 20)
	if rnd.IntN(4) == 0 {
		start -= start % passageWidth
	}
	s := &streampb.Segment{ReadId: "r", Start: int64(start), Reverse: rnd.IntN(2) == 0}
	end := min(len(ref), start+20+rnd.IntN(len(ref)))
	if rnd.IntN(4) == 0 {
		end = len(ref)
	}
	kind, n := align.Match, 0
	add := func(k align.OpKind, columns int) {
		if k != kind && n > 0 {
			s.Ops, n = binary.AppendUvarint(s.Ops, uint64(n)<<3|uint64(kind)), 0
		}
		kind, n = k, n+columns
	}
	column := func(pos int) {
		shows := ref[pos]
		if rnd.IntN(12) == 0 || shows == 'N' {
			shows = "ACGT"[rnd.IntN(4)]
		}
		if shows == ref[pos] {
			add(align.Match, 1)
			return
		}
		add(align.Mismatch, 1)
		s.Bases = append(s.Bases, shows)
	}
	for pos := start; pos < end; {
		if inside := pos > start && pos < end-8; inside && rnd.IntN(10) == 0 {
			if kind < align.Insertion && rnd.IntN(2) == 0 {
				more := randomSeq(rnd, 1+rnd.IntN(4), string(ref[pos])+string(ref[pos-1])+"AC")
				add(align.Insertion, len(more))
				s.Bases = append(s.Bases, more...)
			} else if kind < align.Insertion {
				gap := 1 + rnd.IntN(6)
				add(align.Deletion, gap)
				pos += gap
			}
		}
		column(pos)
		pos++
	}
	s.Ops = binary.AppendUvarint(s.Ops, uint64(n)<<3|uint64(kind))
	return s
}
