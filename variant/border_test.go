package variant_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/variant"
)

// Events of two haplotypes, some with a change in common beside them, get the same calls wherever
// the borders of the region's tiles lie: through each of them, or half a tile away.
func TestCallsDoNotDependOnTheBordersOfTiles(t *testing.T) {
	const tile, length = 1024, 24_000
	network := shippedNetwork(t)
	for i, tt := range []struct{ first, second string }{{"MNP", "MNP"}, {"MNP", "deletion"}, {"delins", "SNP"}, {"delins", "delins"}} {
		t.Run(tt.first+" and "+tt.second, func(t *testing.T) {
			a := newSample(t, uint64(700+i), length)
			ref := a.contig.Seq
			b := &sample{rnd: rand.New(rand.NewPCG(uint64(i), 9)), contig: a.contig, mismatch: a.mismatch, gap: a.gap}
			for pos := tile; pos < length-tile; pos += tile {
				x := drawn(a.rnd, ref, tt.first, pos-a.rnd.IntN(7))
				y := drawn(a.rnd, ref, tt.second, x.pos+a.rnd.IntN(x.del))
				if a.rnd.IntN(2) == 0 {
					x, y = y, x
				}
				beside := max(x.pos+x.del, y.pos+y.del) + 3 + a.rnd.IntN(5)
				z := edit{beside, 1, string(other(ref[beside]))}
				a.edits, b.edits = append(a.edits, x, z), append(b.edits, y)
				if a.rnd.IntN(4) > 0 {
					b.edits = append(b.edits, z)
				}
			}
			segments := a.segments(t, 120, 3000, 0, length)
			for i, s := range b.segments(t, 120, 3000, 0, length) {
				s.ReadId = fmt.Sprintf("second-%d", i)
				segments = append(segments, s)
			}
			calls := func(by int) map[string]string {
				before := newSample(t, 1, by+1).contig.Seq[:by]
				r := region(t, contig(t, string(before)+string(ref)), 0, variant.Config{Ploidy: variant.Diploid, Network: network})
				for _, s := range segments {
					s = proto.CloneOf(s)
					s.Start += int64(by)
					apply(t, r, s)
				}
				out := make(map[string]string)
				for _, c := range passed(finalize(t, r)) {
					allele := fmt.Sprintf("%d %s>%s", int(c.GetPos())-by, c.GetRef(), c.GetAlt())
					require.NotContains(t, out, allele, "called twice")
					out[allele] = fmt.Sprint(c.GetGenotype(), c.GetAltForward(), c.GetAltReverse())
				}
				return out
			}
			assert.Equal(t, calls(tile/2), calls(0))
		})
	}
}
