package genes

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// neighboursAt are counts of so many pairs on one strand at a distance, and as many that are far apart.
func neighboursAt(distance int, n float64) *spacingCounts {
	c := new(spacingCounts)
	c.Bins[sameStrand][binOf(distance)] = n
	c.Bins[sameStrand][bins] = n
	c.Beyond = 500 * n
	return c
}

func TestFewNeighboursSayLittle(t *testing.T) {
	prior := neighboursAt(-4, 1000)
	alone := newSpacing(prior, new(spacingCounts), 1)
	near, other := binOf(-4), binOf(30)
	require.Greater(t, alone.near[sameStrand][near], 1.0, "where the prior has many")
	require.Less(t, alone.near[sameStrand][other], -1.0, "where it has none and would have many")

	few := newSpacing(prior, neighboursAt(30, 2), 1)
	require.InDelta(t, alone.near[sameStrand][near], few.near[sameStrand][near], .05, "two pairs elsewhere don't contradict the prior")
	require.Greater(t, few.near[sameStrand][other], alone.near[sameStrand][other])

	many := newSpacing(prior, neighboursAt(30, 4000), 1)
	require.Less(t, many.near[sameStrand][near], alone.near[sameStrand][near]-1, "a genome of many genes has its own distances")
	require.Greater(t, many.near[sameStrand][other], 1.0)
}

func TestNoNeighbourIsNoProof(t *testing.T) {
	genome := finder{starts: new(startModel)}
	m := newSpacing(neighboursAt(-4, 1000), neighboursAt(-4, 4000), genome.trust())
	for r := range m.near {
		for b, odds := range m.near[r] {
			require.False(t, math.IsNaN(odds) || math.IsInf(odds, 0))
			require.Greater(t, odds, -5.0, "a gene that its codons make sure is not lost for its place: relation %d, bin %d", r, b)
		}
	}
}
