package annotate

import (
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPartsOfCodingSequences: the part of a coding sequence read where a variant lies equals that of the whole
// sequence.
func TestPartsOfCodingSequences(t *testing.T) {
	rng := rand.New(rand.NewPCG(48, 1))
	a := newGeneSet(7, 3, 60, true).annotator(t)
	coding := 0
	for _, k := range a.model.contigs {
		for _, tx := range k.transcripts {
			if tx.cds == nil {
				continue
			}
			coding++
			whole := tx.coding()
			require.Len(t, whole, tx.cdsLen)
			for i := range whole {
				require.Equal(t, whole[i], tx.codingBase(i), "%s base %d", tx.id, i)
			}
			for range 50 {
				from := rng.IntN(len(whole) + 1)
				to := from + rng.IntN(len(whole)+1-from)
				require.Equal(t, string(whole[from:to]), string(tx.appendCodingPart(nil, from, to)), "%s %d to %d", tx.id, from, to)
			}
		}
	}
	require.Greater(t, coding, 50)
}

// TestNearest: the exonic base next to each base of a transcript is the one that a search of all exons finds, and the
// one before it in transcript direction if two are as near.
func TestNearest(t *testing.T) {
	a := newGeneSet(8, 2, 40, true).annotator(t)
	for _, k := range a.model.contigs {
		for _, tx := range k.transcripts {
			type exonic struct{ base, offset int }
			var all []exonic
			for _, x := range tx.exons {
				for i := range x.end - x.start {
					base := x.start + i
					if !tx.forward {
						base = x.end - 1 - i
					}
					all = append(all, exonic{base, x.offset + i})
				}
			}
			for base := tx.start; base < tx.end; base++ {
				best := slices.MinFunc(all, func(x, y exonic) int { return abs(base-x.base) - abs(base-y.base) })
				beside := base - best.base
				if !tx.forward {
					beside = -beside
				}
				gotBase, gotOffset, gotBeside := tx.nearest(base)
				require.Equal(t, []int{best.base, best.offset, beside}, []int{gotBase, gotOffset, gotBeside}, "%s base %d", tx.id, base)
			}
		}
	}
}

// TestVariantsInIntrons: for a variant away from the ends of its intron, its place alone gives the result of all the
// rules together.
func TestVariantsInIntrons(t *testing.T) {
	a := newGeneSet(9, 4, 80, true).annotator(t)
	rng := rand.New(rand.NewPCG(48, 2))
	seen := 0
	for range 20_000 {
		c := a.genome.Contigs[rng.IntN(len(a.genome.Contigs))]
		at := rng.IntN(c.Len() - 40)
		ref := c.Text(at, at+1+rng.IntN(6)*rng.IntN(2))
		alt := "ACGT"[rng.IntN(4):][:1]
		if rng.IntN(3) == 0 {
			alt = ref[:1] + strings.Repeat(c.Text(at+1, at+2), 1+rng.IntN(3))
		}
		if ref == alt {
			continue
		}
		v, err := a.variant(new(workspace), c.Name, at+1, ref, alt)
		require.NoError(t, err)
		for _, tx := range v.place.track.overlapping(nil, new(foundAt), v.start, v.end) {
			n := v.intronOf(tx)
			if n == 0 || !v.overlaps(tx.start, tx.end) {
				continue
			}
			seen++
			fast := effect{t: tx}
			fast.inIntron(v, n)
			slow := effect{t: tx}
			require.Same(t, v, v.placed(tx))
			require.False(t, slow.exons(v))
			require.False(t, slow.introns(v).frameIntron)
			from, to := tx.span(tx.exons, v.start, v.end)
			require.Equal(t, []int{-1, -1}, []int{from, to})
			if tx.cds == nil {
				slow.nonCoding(v, false)
			} else {
				lo, _ := tx.codingOverlap(v)
				require.Equal(t, -1, lo)
			}
			slow.finish()
			require.Equal(t, slow.terms, fast.terms)
			require.Equal(t, []int{slow.intronFirst, slow.intronLast}, []int{fast.intronFirst, fast.intronLast})
		}
	}
	require.Greater(t, seen, 500)
}

// TestSearchesFromThePlaceBefore: wherever the search before ended, the next one finds what a search in halves finds.
func TestSearchesFromThePlaceBefore(t *testing.T) {
	rng := rand.New(rand.NewPCG(48, 3))
	var other track
	for range 200 {
		k := &track{starts: make([]int, rng.IntN(60))}
		for i := range k.starts {
			k.starts[i] = rng.IntN(100)
		}
		slices.Sort(k.starts)
		at := foundAt{&other, rng.IntN(100)}
		for range 50 {
			pos := rng.IntN(120) - 10
			require.Equal(t, sort.SearchInts(k.starts, pos+1), k.upTo(&at, pos))
		}
	}
}

// TestPartsInterleaved: parts belong to their features in whatever order the rows of several come.
func TestPartsInterleaved(t *testing.T) {
	rng := rand.New(rand.NewPCG(48, 4))
	var p parser
	features := make([]*feature, 5)
	want := make([][]string, len(features))
	for i := range features {
		features[i] = new(feature)
	}
	last := 0
	for n := range 9000 {
		if rng.IntN(20) == 0 {
			last = rng.IntN(len(features))
		}
		text := "ID=" + strconv.Itoa(n/3)
		p.addPart(features[last], part{kind: cdsPart, start: int32(n)}, []byte(text))
		p.addPart(features[last], part{kind: exonPart, start: int32(n)}, nil)
		want[last] = append(want[last], strconv.Itoa(n)+text)
	}
	for i, f := range features {
		var got []string
		for k := range f.cds {
			require.Equal(t, f.exons[k].start, f.cds[k].start)
			got = append(got, strconv.Itoa(int(f.cds[k].start))+string(f.of(&f.cds[k]).text))
		}
		require.Equal(t, want[i], got)
	}
}
