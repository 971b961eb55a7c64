package variant

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOutlineSaysWhatCellsShow: what a matrix says without cells, of windows of any width, is what a
// walk along all cells finds, also where reads have no place in some columns.
func TestOutlineSaysWhatCellsShow(t *testing.T) {
	contig, segments := hg002(t)
	for _, depth := range []int{500, 20, 5} {
		r := diploidRegion(t, contig, segments)
		r.cfg.MaxDepth = depth
		capped := 0
		for tile := range r.tiles {
			if r.tiles[tile].reads == 0 {
				continue
			}
			m := &r.work.scratch
			m.load(r, tile)
			want := make([][2][codes]int32, m.hi-m.lo)
			for i := range m.rows {
				w := &m.rows[i]
				shown := 0
				for col := range w.code {
					code, qual := m.shows(w, col)
					if w.code[col] != code || code != absent && w.qual[col] != qual { // Equal is slow, and there are millions
						require.Equal(t, []any{w.code[col], w.qual[col]}, []any{code, qual}, "row %d, column %d", i, col)
					}
					if code == absent {
						continue
					}
					want[col][strandIndex(w.seg.reverse)][code]++
					shown++
				}
				require.Equal(t, shown, m.columnsShown(w))
				require.Equal(t, slices.Contains(w.code[w.from:w.to], absent), w.capped)
				if w.capped {
					capped++
				}
			}
			require.Equal(t, want, m.pileup(nil))

			lo, hi := m.lo, m.hi
			var wide matrix
			wide.outline(r, max(0, lo-3000), min(len(contig.Seq), hi+3000))
			require.Equal(t, want, wide.pileup(nil)[lo-wide.lo:][:hi-lo], "tile %d", tile)
		}
		require.Equal(t, depth < 100, capped > 0)
	}
}
