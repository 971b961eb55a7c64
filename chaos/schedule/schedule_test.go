package schedule_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/chaos/schedule"
)

func plan(seed uint64) schedule.Plan {
	return schedule.Plan{Seed: seed, Length: 10 * time.Minute, Kinds: schedule.Kinds(), Session: 10 * time.Second, MaxProcessors: 4}
}

func TestASeedGivesOneSchedule(t *testing.T) {
	require.Equal(t, schedule.Draw(plan(7)), schedule.Draw(plan(7)))
	require.NotEqual(t, schedule.Draw(plan(7)), schedule.Draw(plan(8)))
}

// The schedule of a seed is what a report of a violation names; a change of it makes old reports worthless.
func TestTheScheduleOfASeedStays(t *testing.T) {
	s := schedule.Draw(plan(1))
	require.Equal(t, "partitions: signal 6, reads 4, calls 5, variants 1, methylation 2; 1 processors; 2 runs of 2 samples", s.Shape.String())
	require.Equal(t, "  1      8.0s  for   1.8s  kill-broker #85", s.Faults[0].String())
}

func TestEverySchedule(t *testing.T) {
	shapes := make(map[schedule.Shape]bool)
	for seed := range uint64(200) {
		p := plan(seed)
		s := schedule.Draw(p)
		shapes[s.Shape] = true
		for _, n := range []int{s.Shape.Signal, s.Shape.Reads, s.Shape.Calls, s.Shape.Variants, s.Shape.Methylation} {
			require.True(t, 1 <= n && n <= 8, "%v", s.Shape)
		}
		require.True(t, 1 <= s.Shape.Processors && s.Shape.Processors <= 4, "%v", s.Shape)
		require.True(t, 1 <= s.Shape.Samples && s.Shape.Samples <= s.Shape.Runs && s.Shape.Runs <= 3, "%v", s.Shape)
		kinds := make(map[schedule.Kind]int)
		for i, f := range s.Faults {
			require.Equal(t, i+1, f.Number)
			require.Positive(t, f.For)
			require.LessOrEqual(t, f.At+f.For, p.Length)
			require.True(t, i == 0 || f.At > s.Faults[i-1].At)
			kinds[f.Kind]++
			if f.Kind == schedule.OutlastSession || f.Kind == schedule.SlowBroker {
				require.Greater(t, f.For, p.Session)
			}
		}
		require.Len(t, kinds, len(p.Kinds), "ten minutes have room for every kind")
	}
	require.Greater(t, len(shapes), 150)
}

func TestKindsAreWhatWasAskedFor(t *testing.T) {
	p := plan(3)
	p.Kinds = slices.DeleteFunc(schedule.Kinds(), schedule.Kind.NeedsCluster)
	for _, f := range schedule.Draw(p).Faults {
		require.False(t, f.Kind.NeedsCluster(), "%v", f)
	}
	p.Kinds = nil
	require.Empty(t, schedule.Draw(p).Faults)
}
