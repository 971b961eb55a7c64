package stage

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// TestModelNamesArePublishedOnceToEveryPartition: segments carry the number of their read's model, each partition
// is sent its name once in a run, and a model that no record can name has no number.
func TestModelNamesArePublishedOnceToEveryPartition(t *testing.T) {
	cfg, g := lambda(t)
	seq := g.Contigs[0].Seq[1000:2000]
	other := &streampb.Run{Id: "run 2", Sample: "lambda", Called: true}
	l := (&log{t: t}).marker(testRun(), false).marker(other, false)
	models := []string{"hac@5", "fast@5", "", "hac@5", strings.Repeat("x", 600), "hac\x01"}
	for i, model := range models {
		l.read(&streampb.CalledRead{Run: "run", ReadId: fmt.Sprint(i), Model: model}, seq, repeated(20, len(seq)), nil)
	}
	l.read(&streampb.CalledRead{Run: "run 2", ReadId: "more", Model: "hac@5"}, seq, repeated(20, len(seq)), nil)
	h := newHandler(t, cfg)
	e := handle(t, h, l.recs)
	published := make(map[string][]int32)
	for _, o := range e.outs {
		m, err := stream.DecodeReads(o.Value)
		require.NoError(t, err)
		if m.GetModel() != nil {
			published[m.GetModel().GetName()] = append(published[m.GetModel().GetName()], o.Partition)
		}
	}
	for name := range published {
		slices.Sort(published[name])
	}
	require.Equal(t, map[string][]int32{"hac@5": {0, 0, 1, 1}, "fast@5": {0, 1}}, published)
	segments := e.segments(t)
	for i, want := range []string{"hac@5", "fast@5", "", "hac@5", "", ""} {
		require.Len(t, segments[fmt.Sprint(i)], 1)
		require.Equal(t, stream.ModelNumber(want), segments[fmt.Sprint(i)][0].GetModel(), "read %d", i)
	}
	// A worker that starts publishes them again.
	again := 0
	for _, o := range handle(t, newHandler(t, cfg), l.recs[:3]).outs {
		if m, err := stream.DecodeReads(o.Value); err == nil && m.GetModel() != nil {
			again++
		}
	}
	require.Equal(t, 2, again)
}
