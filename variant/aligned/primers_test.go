package aligned_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align/primer"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/aligned"
)

// TestPrimers: a variant lies under a primer of the second of two amplicons. Its reads show the primer's base there, those
// of the first show the sample's: with the scheme only these count, and what lies under the outer primers alone is
// not covered, in whatever order the reads come and however many threads there are.
func TestPrimers(t *testing.T) {
	l := newLaboratory(t, 3, 3_000)
	const scheme = "c1\t500\t525\tt_1_LEFT\t1\t+\nc1\t1000\t1025\tt_1_RIGHT\t1\t-\nc1\t900\t925\tt_2_LEFT\t2\t+\nc1\t1400\t1425\tt_2_RIGHT\t2\t-\n"
	p, err := primer.Read(strings.NewReader(scheme), "p.bed", func(string) (int, bool) { return 3_000, true })
	require.NoError(t, err)
	under := l.plant("c1", 915, false) // t_2_LEFT; the caller uses positions that a read covers by ten bases on either side
	outer := l.plant("c1", 515, false) // t_1_LEFT, which no other amplicon covers
	inner := l.plant("c1", 700, false)
	// What a primer has made is the reference's: of each amplicon's reads the primers are taken from a laboratory
	// without the variants.
	edits := l.edits["c1"]
	amplicon := func(name string, start, end int) []alignment {
		l.edits["c1"] = make(map[int]byte)
		for pos, b := range edits {
			if pos >= start+25 && pos < end-25 {
				l.edits["c1"][pos] = b
			}
		}
		list := l.reads("c1", start, end, 30)
		for i := range list {
			list[i].name = name + list[i].name
		}
		return list
	}
	reads := slices.Concat(amplicon("one", 500, 1025), amplicon("two", 900, 1425))
	options := func(s *primer.Scheme, threads int) aligned.Options {
		return aligned.Options{Primers: s, Threads: threads, Survey: variant.SurveyConfig{Callable: true, Blocks: true}}
	}
	opened := func(text string) *aligned.Alignments {
		a, err := aligned.Read(strings.NewReader(text), l.genome)
		require.NoError(t, err)
		return a
	}
	fractions := func(s *primer.Scheme) map[string]string {
		got := make(map[string]string)
		_, err := opened(l.file(reads, true)).Call(t.Context(), options(s, 1), func(r *aligned.Region) error {
			for _, c := range r.Calls {
				got[fmt.Sprintf("%s:%d %s>%s", c.GetContig(), c.GetPos(), c.GetRef(), c.GetAlt())] = fmt.Sprintf("%.1f of %d", float64(c.GetAltForward()+c.GetAltReverse())/float64(c.GetDepth()), c.GetDepth())
			}
			return nil
		})
		require.NoError(t, err)
		return got
	}
	without := fractions(nil)
	require.NotEqual(t, "1.0 of 30", without[under], "half of the reads show the primer")
	with := fractions(p)
	require.Contains(t, with, inner)
	require.NotContains(t, with, outer)
	require.Contains(t, with, under)
	require.Regexp(t, `^1\.0 of (29|30)$|^0\.9 of (29|30)$`, with[under])

	first, n, err := callText(t, opened(l.file(reads, true)), options(p, 1))
	require.NoError(t, err)
	require.Equal(t, 60, n.Ends[primer.Both])
	require.Contains(t, first, "NO_COVERAGE c1 0-525")
	for threads := range 3 {
		again, m, err := callText(t, opened(l.file(reads, threads == 1)), options(p, threads+1))
		require.NoError(t, err)
		require.Equal(t, first, again)
		require.Equal(t, n.Ends, m.Ends)
	}
}
