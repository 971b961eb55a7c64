package stage

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/align/primer"
	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/stream/streampb"
)

// placed is an aligner that always returns these alignments.
type placed []align.Alignment

func (p placed) Map(string, []byte) ([]align.Alignment, error) { return append(placed(nil), p...), nil }

// What a read's primers cover is in no segment, and a read that is nothing but primer has none.
func TestPrimersAreInNoSegment(t *testing.T) {
	ref := []byte(strings.Repeat("ACGTTGCAAC", 100))
	scheme, err := primer.Read(strings.NewReader("c\t100\t120\tt_1_LEFT\t1\t+\nc\t480\t500\tt_1_RIGHT\t1\t-\n"), "p.bed", func(string) (int, bool) { return len(ref), true })
	require.NoError(t, err)
	m := NewPlacerMetrics(prometheus.NewRegistry(), "align")
	p := &Placer{Contig: func(string) []byte { return ref }, Primers: scheme, Metrics: m, Logger: slog.New(slog.DiscardHandler)}
	segments := func(start, end int) []*streampb.Segment {
		a := align.Alignment{Contig: "c", Start: start, End: end, QueryEnd: end - start, MappingQuality: 60, Ops: []align.Op{{Kind: align.Match, Len: end - start}}}
		part := Part{Called: basecall.Called{Sequence: ref[start:end]}, Sample: "s"}
		got, _, err := p.Segments(&Read{Run: &streampb.Run{Id: "r"}, ID: "read"}, part, placed{a})
		require.NoError(t, err)
		return got
	}
	got := segments(100, 500)
	require.Len(t, got, 1)
	require.EqualValues(t, 120, got[0].GetStart())
	extent, err := align.Check(got[0], len(ref))
	require.NoError(t, err)
	require.Equal(t, 360, extent.Reference)
	require.EqualValues(t, 400, got[0].GetReadLength())
	got = segments(200, 700)
	extent, err = align.Check(got[0], len(ref))
	require.NoError(t, err)
	require.Equal(t, []int{200, 500}, []int{int(got[0].GetStart()), extent.Reference})
	require.Empty(t, segments(101, 119))
	for ends, want := range map[primer.Ends]float64{primer.Both: 1, primer.None: 1, primer.Nothing: 1, primer.One: 0, primer.Mixed: 0} {
		require.InDelta(t, want, testutil.ToFloat64(m.ends.WithLabelValues(ends.String())), 0, ends)
	}
}
