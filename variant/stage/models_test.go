package stage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/statetest"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/varianttest"
)

// tailored is a network that is for the reads of models whose names begin with hac.
type tailored struct{ varianttest.DoseNetwork }

func (n *tailored) Suits() []variant.Suit {
	return []variant.Suit{{Name: "hac", Matches: func(m string) bool { return strings.HasPrefix(m, "hac") }, Network: n}}
}

func modelValue(t testing.TB, name string) []byte {
	t.Helper()
	outs, err := stream.ModelRecords("reads", 1, name)
	require.NoError(t, err)
	return outs[0].Value
}

// called gives segments basecalling models in turns.
func called(segments []*streampb.Segment, models ...string) []*streampb.Segment {
	for i, s := range segments {
		s.Model = stream.ModelNumber(models[i%len(models)])
	}
	return segments
}

// TestMismatchIsAFunctionOfTheReads: a handler that is lost and restored anywhere, and one that has the
// segments in another order and the names anywhere before the end, say the same at the end.
func TestMismatchIsAFunctionOfTheReads(t *testing.T) {
	g := lambda(t)
	segments := called(simulate(t, g, "run-1", "lambda", 70, 5), "hac@5", "hac@5", "fast@5", "", "hac@4", "old")
	names := []string{"hac@5", "hac@4", "fast@5", "old"}
	recs := func(seed uint64) []stream.Record {
		rng := rand.New(rand.NewPCG(seed, 3))
		var values [][]byte
		for _, i := range rng.Perm(len(segments)) {
			values = append(values, segmentValue(t, segments[i]))
		}
		for range 2 { // of two workers
			for _, name := range names {
				values = slices.Insert(values, rng.IntN(len(values)), modelValue(t, name))
			}
		}
		values = append([][]byte{markerValue(t, "run-1", "lambda", 0, 1, false)}, values...)
		return records(append(values, markerValue(t, "run-1", "lambda", 0, 1, true)))
	}
	final := func(outs []stream.Out) (list []string) {
		for _, c := range calls(t, outs) {
			if c.GetStatus() != streampb.CallStatus_FINAL {
				continue
			}
			c = proto.CloneOf(c)
			c.Revision = 0
			require.Equal(t, []string{"fast@5", "old"}, slices.Sorted(slices.Values(c.GetModelMismatch())))
			b, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
			require.NoError(t, err)
			list = append(list, string(b))
		}
		return list
	}
	want := final(statetest.Law(t, func() stream.Handler { return networkHandler(t, g, new(tailored), nil) }, recs(0), 12, 1))
	require.NotEmpty(t, want)
	for seed := range uint64(3) {
		require.Equal(t, want, final(handle(t, networkHandler(t, g, new(tailored), nil), recs(seed+1)).outs()))
	}
}

// TestModelsAreCountedAndReported, by how the network goes with them, for metrics and for the page.
func TestModelsAreCountedAndReported(t *testing.T) {
	g := lambda(t)
	regions := NewRegions()
	m := NewMetrics(prometheus.NewRegistry(), prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dead_total", Help: "x"}, []string{"stage", "code"}))
	h, err := New(Config{
		Topics: stream.NewTopics(""), CallsPartitions: 3, Genome: g, Metrics: m, Regions: regions, Variant: variant.Config{Network: new(tailored)},
	})("reads", 0, 1)
	require.NoError(t, err)
	values := [][]byte{markerValue(t, "run-1", "a", 0, 1, false), markerValue(t, "run-2", "b", 0, 1, false), modelValue(t, "hac@5"), modelValue(t, "fast@5")}
	for _, s := range called(simulate(t, g, "run-1", "a", 40, 5), "hac@5", "fast@5", "hac@5", "") {
		values = append(values, segmentValue(t, s), segmentValue(t, s)) // one that comes again counts once
	}
	for _, s := range called(simulate(t, g, "run-2", "b", 10, 6), "hac@5") {
		values = append(values, segmentValue(t, s))
	}
	handle(t, h, records(values))
	for match, want := range map[variant.Match]float64{variant.Matched: 30, variant.Mismatched: 10, variant.Unnamed: 10, variant.Undeclared: 0} {
		require.Equal(t, want, testutil.ToFloat64(m.models.WithLabelValues(match.String())), match)
	}
	models := regions.Models()
	text := func(list []*streampb.ModelReads) (out []string) {
		for _, m := range list {
			out = append(out, fmt.Sprintf("%s %d %v", m.GetName(), m.GetReads(), m.GetMismatch()))
		}
		return out
	}
	require.Equal(t, []string{" 10 false", "fast@5 10 true", "hac@5 20 false"}, text(models["a"]))
	require.Equal(t, []string{"hac@5 10 false"}, text(models["b"]))
	require.True(t, stream.MixedModels(models["a"]))
	require.False(t, stream.MixedModels(models["b"]))
	require.NoError(t, h.Close())
	require.Empty(t, regions.Models())
}

// TestStrictStageRefuses: the first read of another model, or of none, ends the worker before it is called
// from, and the group with it. What was handled before is no reason to refuse.
func TestStrictStageRefuses(t *testing.T) {
	g := lambda(t)
	segment := simulate(t, g, "run-1", "a", 1, 5)[0]
	for _, tt := range []struct {
		name, model, want string
	}{
		{"known", "hac@5", ""}, {"of another", "fast@5", "fast@5 has called them, and wide is for those of hac"}, {"unnamed", "", "--called-by"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			newHandler := New(Config{
				Topics: stream.NewTopics(""), CallsPartitions: 3, Genome: g, Variant: variant.Config{Network: new(tailored)},
				NetworkName: "wide", Strict: true,
			})
			values := [][]byte{markerValue(t, "run-1", "a", 0, 1, false)}
			if tt.model != "" {
				values = append(values, modelValue(t, tt.model))
			}
			recs := records(append(values, segmentValue(t, called([]*streampb.Segment{segment}, tt.model)[0])))
			h, err := newHandler("reads", 0, 1)
			require.NoError(t, err)
			emit := new(fakeEmitter)
			for _, rec := range recs {
				if err = errors.Join(err, h.Handle(t.Context(), rec, emit)); err != nil {
					break
				}
			}
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, variant.ErrModelMismatch)
			require.ErrorContains(t, err, tt.want)
			require.ErrorAs(t, err, new(*stream.Permanent))
			require.False(t, stream.IsBadRecord(err), "it is refused, not put aside")
			again, err := newHandler("reads", 0, 1)
			require.NoError(t, err)
			for _, rec := range recs {
				require.NoError(t, again.Replay(t.Context(), rec))
			}
		})
	}
}

// TestStrictStageKeepsNames: a strict handler that is lost and restored anywhere knows the names that it had
// taken, and refuses a read of another model also where only the state names it.
func TestStrictStageKeepsNames(t *testing.T) {
	g := lambda(t)
	strict := func() stream.Handler {
		h, err := New(Config{
			Topics: stream.NewTopics(""), CallsPartitions: 3, Genome: g, Variant: variant.Config{Network: new(tailored)},
			NetworkName: "wide", Strict: true,
		})("reads", 0, 1)
		require.NoError(t, err)
		return h
	}
	start := markerValue(t, "run-1", "a", 0, 1, false)
	values := [][]byte{start, modelValue(t, "hac@5"), modelValue(t, "hac@4")}
	segments := simulate(t, g, "run-1", "a", 10, 5)
	for _, s := range called(segments, "hac@5", "hac@4") {
		values = append(values, segmentValue(t, s))
	}
	statetest.Law(t, strict, records(values), 6, 1)

	h := strict()
	version := func() uint64 {
		for _, s := range h.State().Sections() {
			if s.Name == modelsSection {
				return s.Version
			}
		}
		return 0
	}
	last := version()
	for _, rec := range records(values[:3])[1:] {
		require.NoError(t, h.Handle(t.Context(), rec, new(fakeEmitter)))
		require.Greater(t, version(), last, "or snapshots keep what they have")
		last = version()
	}

	h = strict()
	recs := records([][]byte{start, modelValue(t, "fast@5"), segmentValue(t, called(segments[:1], "fast@5")[0])})
	for _, rec := range recs[:2] {
		require.NoError(t, h.Replay(t.Context(), rec))
	}
	err := h.Handle(t.Context(), recs[2], new(fakeEmitter))
	require.ErrorIs(t, err, variant.ErrModelMismatch)
	require.ErrorContains(t, err, "fast@5 has called them")
}
