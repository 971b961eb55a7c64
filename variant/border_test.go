package variant_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/align"
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

// regionsAt calls reads of a diploid sample in a contig that is by bases longer at its start, in as many
// regions as they reach into, and returns what passes, by position of the shorter contig.
func regionsAt(t *testing.T, network variant.Network, ref []byte, by int, reads []placedRead) map[string]string {
	t.Helper()
	long := contig(t, string(newSample(t, 1, by+1).contig.Seq[:by])+string(ref))
	regions := make(map[int]*variant.Region)
	for _, rd := range reads {
		a := *rd.alignment
		a.Start, a.End = a.Start+by, a.End+by
		segments, err := align.Segments(rd.read, &a, long.Seq)
		require.NoError(t, err)
		for _, s := range segments {
			i := int(s.GetRegion())
			if regions[i] == nil {
				regions[i] = region(t, long, i, variant.Config{Ploidy: variant.Diploid, Network: network})
			}
			apply(t, regions[i], s)
		}
	}
	out := make(map[string]string)
	for _, r := range regions {
		start, end := r.Bounds()
		for _, c := range passed(finalize(t, r)) {
			require.True(t, int(c.GetPos()) > start && int(c.GetPos()) <= end, "region %d calls %s, which lies in another one", r.Index(), name(c))
			allele := fmt.Sprintf("%d %s>%s", int(c.GetPos())-by, c.GetRef(), c.GetAlt())
			require.NotContains(t, out, allele, "called twice")
			out[allele] = fmt.Sprint(c.GetGenotype()) // how many reads say so can differ by one: each region has rates of errors of its own
		}
	}
	return out
}

// placedRead is a read and where it lies.
type placedRead struct {
	read      *align.Read
	alignment *align.Alignment
}

// Events of two haplotypes, some with a change in common beside them, get the same calls wherever the
// border of two regions lies: through each of them, or far away.
func TestCallsDoNotDependOnTheBordersOfRegions(t *testing.T) {
	const width, length, reach, reads = align.RegionWidth, 8_000, 3000, 60
	network := shippedNetwork(t)
	kinds := []string{"SNP", "MNP", "insertion", "deletion", "delins"}
	for i := range 25 {
		first, second := kinds[i%len(kinds)], kinds[i/len(kinds)%len(kinds)]
		t.Run(fmt.Sprintf("%d: %s and %s", i, first, second), func(t *testing.T) {
			a := newSample(t, uint64(900+i), length)
			ref := a.contig.Seq
			b := &sample{rnd: rand.New(rand.NewPCG(uint64(i), 19)), contig: a.contig, mismatch: a.mismatch, gap: a.gap}
			const at = length / 2
			x := drawn(a.rnd, ref, first, at)
			y := drawn(a.rnd, ref, second, at+a.rnd.IntN(max(1, x.del)))
			end := max(x.pos+x.del, y.pos+y.del)
			beside := end + 3 + a.rnd.IntN(5)
			z := edit{beside, 1, string(other(ref[beside]))}
			a.edits, b.edits = []edit{x, z}, []edit{y}
			if i%4 > 0 {
				b.edits = append(b.edits, z)
			}
			var placed []placedRead
			for n := range reads {
				s := []*sample{a, b}[n%2]
				start := a.rnd.IntN(length - reach)
				rd, al := s.read(fmt.Sprint("read-", n), start, start+reach, n/2%2 == 1)
				placed = append(placed, placedRead{rd, al})
			}
			want := regionsAt(t, network, ref, width/2, placed)
			for border := at - 3 + i%3; border <= beside+2; border += 3 {
				assert.Equal(t, want, regionsAt(t, network, ref, width-border, placed), "border at %d", border)
			}
		})
	}
}
