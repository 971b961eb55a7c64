package stage

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/statetest"
	"github.com/porestream/porestream/stream/streampb"
)

// gatc are tags of a read whose molecule is modified at GATC, by a caller that is unsure of other A.
func gatc(t testing.TB, rng *rand.Rand, bases []byte) *modbase.Tags {
	ml := []byte{}
	for i, b := range bases {
		switch {
		case b != 'A':
		case i > 0 && bytes.HasPrefix(bases[i-1:], []byte("GATC")):
			ml = append(ml, 250)
		default:
			ml = append(ml, byte(rng.IntN(140)))
		}
	}
	tags, err := modbase.Parse("A+a."+strings.Repeat(",0", len(ml))+";", ml, 0)
	require.NoError(t, err)
	return tags
}

// motifsOf are the last motifs of samples in every partition of the topic of reads, those of ended runs alone.
func motifsOf(t testing.TB, reads *topic) map[string]string {
	last := make(map[string]string)
	for p, log := range reads.logs {
		here := make(map[string]string)
		for _, rec := range log {
			m, err := stream.DecodeReads(rec.Value)
			require.NoError(t, err)
			if found := m.GetModifiedMotifs(); len(found.GetRuns()) > 0 {
				here[found.GetSample()] = fmt.Sprint(found.GetRuns(), found.GetMotifs())
			}
		}
		if p > 0 {
			require.Equal(t, last, here, "partition %d has other motifs", p)
		}
		last = here
	}
	return last
}

// TestMotifsOfAllReads: the motifs that the variant stage waits for are those of all reads, whatever the order of reads and workers and
// the number of partitions; counts are as without them.
func TestMotifsOfAllReads(t *testing.T) {
	for seed := range uint64(3) {
		s := newSceneOf(t, seed, 160, gatc)
		cfg := config(s, Filter{Percentile: 0.1})
		cfg.FindMotifs = true
		want := map[string]string{"a": "[run-0 run-1] [GATC]", "b": "[run-2] [GATC]"}
		for _, partitions := range []int{1, 4, 7} {
			rng := rand.New(rand.NewPCG(seed, uint64(partitions)))
			reads := s.topic(t, rng, partitions)
			out := run(t, rng, cfg, reads)
			require.Equal(t, want, motifsOf(t, reads), "seed %d, %d partitions", seed, partitions)
			equalLines(t, s.offline(t, "a", cfg.Filter), folded(t, s, out, "a", partitions), "seed %d, %d partitions", seed, partitions)
		}
	}
}

// TestMotifsWhileRunsGoOn: what the reads so far show is said before any run has ended, and not again while it stays.
func TestMotifsWhileRunsGoOn(t *testing.T) {
	s := newSceneOf(t, 1, 400, gatc)
	cfg := config(s, Filter{Percentile: 0.1})
	cfg.FindMotifs = true
	h, err := New(cfg)("reads", 0, 1)
	require.NoError(t, err)
	var said []string
	for _, seg := range s.segments {
		value, err := stream.EncodeReads(&streampb.ReadRecord{Body: &streampb.ReadRecord_Segment{Segment: seg}})
		require.NoError(t, err)
		for values := [][]byte{value}; len(values) > 0; values = values[1:] {
			for _, e := range statetest.Handle(t, h, stream.Record{Topic: "reads", Value: values[0]}) {
				for _, o := range e.Outs {
					if o.Topic != "reads" {
						continue
					}
					values = append(values, o.Value)
					m, err := stream.DecodeReads(o.Value)
					require.NoError(t, err)
					if found := m.GetModifiedMotifs(); found != nil {
						said = append(said, fmt.Sprint(found.GetSample(), found.GetRuns(), found.GetMotifs()))
					}
				}
			}
		}
	}
	require.ElementsMatch(t, []string{"a[] [GATC]", "b[] [GATC]"}, said)
}

// TestMotifsOfNothing: reads that say nothing of modified bases have no motifs, and that is said: calls wait for it.
func TestMotifsOfNothing(t *testing.T) {
	s := newSceneOf(t, 1, 30, func(testing.TB, *rand.Rand, []byte) *modbase.Tags { return nil })
	cfg := config(s, Filter{Percentile: 0.1})
	cfg.FindMotifs = true
	rng := rand.New(rand.NewPCG(1, 1))
	reads := s.topic(t, rng, 3)
	run(t, rng, cfg, reads)
	require.Equal(t, map[string]string{"a": "[run-0 run-1] []", "b": "[run-2] []"}, motifsOf(t, reads))
}

// TestExcerptsInParts: an excerpt of more places than a record has is put together again, and a part that comes without those before
// it is left out.
func TestExcerptsInParts(t *testing.T) {
	s := newScene(t, 1, 1)
	cfg := config(s, Filter{Percentile: 0.1})
	cfg.FindMotifs = true
	made, err := New(cfg)("reads", 0, 1)
	require.NoError(t, err)
	h := made.(stream.Fold).Folder.(*handler)
	part := func(n uint32, contexts ...uint64) *streampb.ModifiedPlaces {
		return &streampb.ModifiedPlaces{Sources: 1, Sample: "a", Part: n, Parts: 2, Places: []*streampb.PlacesOf{{Code: 'm', Others: contexts}}}
	}
	for _, m := range []*streampb.ModifiedPlaces{part(1, 7), part(0, 1), part(0, 2), part(1, 3)} {
		_, err := h.receivePlaces(m)
		require.NoError(t, err)
	}
	of := h.searches["a"].from[0]
	require.True(t, of.complete())
	require.Equal(t, []uint64{2}, of.parts[0].GetPlaces()[0].GetOthers())
	require.Equal(t, []uint64{3}, of.parts[1].GetPlaces()[0].GetOthers())
}

// TestMotifsOfRunsBehindEachOther: a run that begins before the motifs of the one before it were found is not waited for by the excerpts of that
// one alone: those of both follow.
func TestMotifsOfRunsBehindEachOther(t *testing.T) {
	for seed := range uint64(4) {
		s := newSceneOf(t, seed, 160, gatc)
		for name, filter := range map[string]Filter{
			"percentile": {Percentile: 0.1},
			"given":      {Thresholds: pileup.Thresholds{300, 320, 310, 300}, Given: [4]bool{true, true, true, true}},
		} {
			cfg := config(s, filter)
			cfg.FindMotifs = true
			for _, partitions := range []int{1, 3} {
				reads := s.sequence(t, partitions)
				out := run(t, rand.New(rand.NewPCG(seed, uint64(partitions))), cfg, reads)
				require.Equal(t, map[string]string{"a": "[run-0 run-1] [GATC]", "b": "[run-2] [GATC]"}, motifsOf(t, reads), "seed %d, %s, %d partitions", seed, name, partitions)
				equalLines(t, s.offline(t, "a", filter), folded(t, s, out, "a", partitions), "seed %d, %s, %d partitions", seed, name, partitions)
			}
		}
	}
}
