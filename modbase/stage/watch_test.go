package stage

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/modbase/stage/methylation"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// watching asks for 5mC in two places of the first contig, of which one reaches over a border of stretches and one lies in another region.
func watching() *Watch {
	spans := [][2]int{{stretchWidth - 1500, stretchWidth + 1200}, {align.RegionWidth + 500, align.RegionWidth + 2000}}
	return &Watch{Partitions: 3, Panels: "sha256:p", Asked: func(contig, code string, start, end int) (parts [][2]int) {
		for _, s := range spans {
			if contig == "two" && code == "m" && s[0] < end && s[1] > start {
				parts = append(parts, [2]int{max(start, s[0]), min(end, s[1])})
			}
		}
		return parts
	}}
}

// TestWatch: what panels ask for is passed on as the documents have it, behind it the end of each run from every partition to every one;
// and what is published stays the same.
func TestWatch(t *testing.T) {
	for seed := range uint64(4) {
		s := newScene(t, seed, 80)
		cfg := config(s, Filter{Percentile: 0.1})
		plain := run(t, rand.New(rand.NewPCG(seed, 1)), cfg, s.topic(t, rand.New(rand.NewPCG(seed, 2)), 4))
		cfg.Watch = watching()
		out := run(t, rand.New(rand.NewPCG(seed, 3)), cfg, s.topic(t, rand.New(rand.NewPCG(seed, 4)), 3))
		equalLines(t, folded(t, s, plain, "a", 4), folded(t, s, out, "a", 3), "seed %d", seed)

		latest, ends := map[string]*streampb.Methylation{}, map[string]int{}
		for _, o := range out.watched {
			m, err := stream.DecodeWatch(o.Value)
			require.NoError(t, err)
			require.Equal(t, "sha256:p", m.GetPanels())
			if end := m.GetMethylationEnd(); end != nil {
				require.True(t, stream.IsMarkerKey(o.Key))
				require.EqualValues(t, 3, end.GetSources())
				ends[end.GetRun().GetId()]++
				continue
			}
			c := m.GetMethylation()
			require.Equal(t, c.GetSample(), string(o.Key))
			key := fmt.Sprint(c.GetSample(), c.GetStart())
			require.Greater(t, c.GetRevision(), latest[key].GetRevision())
			latest[key] = c
		}
		require.Equal(t, map[string]int{"run-0": 9, "run-1": 9, "run-2": 9}, ends)
		var got strings.Builder
		for _, c := range latest {
			for i, place := range c.GetPlaces() {
				fmt.Fprintln(&got, c.GetSample(), c.GetStart()+int64(place/2), place%2, c.GetModified()[i], c.GetCalls()[i])
			}
		}
		var want strings.Builder
		for _, log := range out.logs {
			for _, rec := range log {
				m, _, err := methylation.Decode(rec)
				require.NoError(t, err)
				if m == nil || m.Status != methylation.Final || m.Code != "m" || m.Stretch.Contig != "two" {
					continue
				}
				for i, pos := range m.Sites.Pos {
					for _, part := range cfg.Watch.Asked("two", "m", pos-1, pos) {
						strand := strings.IndexByte("+-", m.Sites.Strands[i])
						fmt.Fprintln(&want, m.Sample, part[0], strand, m.Sites.Modified[i], m.Sites.Modified[i]+m.Sites.Canonical[i]+m.Sites.Other[i])
					}
				}
			}
		}
		require.Greater(t, strings.Count(want.String(), "\n"), 100)
		require.ElementsMatch(t, strings.Split(want.String(), "\n"), strings.Split(got.String(), "\n"))
	}
}
