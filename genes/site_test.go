package genes

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// binOfSite is the bin of a class of sites and of spacers.
func binOfSite(class, spacer int) int { return class*spacerClasses + spacer }

func TestSitesBeforeStarts(t *testing.T) {
	t.Parallel()
	const plain = "TTTTTTTTTTTTTTTTTTTTTTTTTTTTTT"
	for _, tt := range []struct {
		site   string
		spacer int
		want   []int
	}{
		{"AGGAGG", 7, []int{binOfSite(3, 0), binOfSite(2, 0), binOfSite(1, 0), binOfSite(0, 0)}},
		{"GGA", 5, []int{binOfSite(0, 0)}},
		{"GGA", 4, []int{binOfSite(0, 1)}},
		{"GAGG", 11, []int{binOfSite(1, 2), binOfSite(0, 2)}},
		{"AGG", 15, []int{binOfSite(0, 3)}},
		{"AGG", 16, nil},
		{"AGG", 2, nil},
		{"AGTAGG", 6, []int{binOfSite(5, 0), binOfSite(4, 0), binOfSite(0, 0)}},
		{"GGCGG", 6, []int{binOfSite(4, 0)}},
		{"ATGAGG", 6, []int{binOfSite(1, 0), binOfSite(0, 0)}}, // no mismatch next to an end
		{"TTTTTT", 6, nil},
	} {
		s := plain + tt.site + plain[:tt.spacer] + "ATG"
		var want siteMask
		for _, bin := range tt.want {
			want |= 1 << bin
		}
		// A site has pieces at larger and smaller distances; those that are wanted are there, and none longer.
		got := sitesBefore(encode([]byte(s)), len(s)-3)
		require.Equal(t, want, got&want, "%s %d", tt.site, tt.spacer)
		for class := range siteClasses {
			for spacer := range spacerClasses {
				bin := binOfSite(class, spacer)
				if got>>bin&1 == 1 && want>>bin&1 == 0 {
					require.NotEmpty(t, tt.want, "%s %d: %d", tt.site, tt.spacer, bin)
					require.Zero(t, class, "%s %d: %d", tt.site, tt.spacer, bin)
				}
			}
		}
	}
	require.Zero(t, sitesBefore(encode([]byte("ATG")), 0), "nothing is before the sequence's beginning")
}

// TestSitesAreLearnt: a genome whose genes have sites, one whose genes have none, and one of few genes, which keeps to the prior.
func TestSitesAreLearnt(t *testing.T) {
	t.Parallel()
	strong, good := siteMask(1)<<binOfSite(2, 0), binOfSite(2, 0)
	anywhere := siteCounts{0: 99_000, strong: 1000}
	prior := neutralSites()
	var bound, leaderless, few siteOdds
	bound.learn(&prior, siteCounts{0: 500, strong: 1500}, anywhere)
	require.InDelta(t, math.Log(75), bound[good], .2)
	require.InDelta(t, math.Log(.25), bound[siteBins], .1)
	require.Equal(t, good, bound.best(strong))
	leaderless.learn(&prior, siteCounts{0: 1980, strong: 20}, anywhere)
	require.Less(t, leaderless[good], 1.0)
	require.InDelta(t, 0, leaderless[siteBins], .05)
	few.learn(&bound, siteCounts{0: 2, strong: 1}, anywhere)
	require.InDelta(t, bound[good], few[good], .3)
}
