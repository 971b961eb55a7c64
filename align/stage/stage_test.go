package stage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/align/aligntest"
	"github.com/porestream/porestream/align/minimap"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// emitted keeps what a handler emits.
type emitted struct {
	mu       sync.Mutex
	outs     []stream.Out
	resolved []int64
	failed   error
}

func (e *emitted) Emit(_ context.Context, outs []stream.Out, resolved []int64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.outs, e.resolved = append(e.outs, outs...), append(e.resolved, resolved...)
	return nil
}

func (e *emitted) Fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failed = err
}

// segments lists those that were emitted, by read.
func (e *emitted) segments(t *testing.T) map[string][]*streampb.Segment {
	t.Helper()
	out := make(map[string][]*streampb.Segment)
	for _, o := range e.outs {
		if o.Topic != "reads" {
			continue
		}
		m, err := stream.DecodeReads(o.Value)
		require.NoError(t, err)
		if s := m.GetSegment(); s != nil {
			out[s.GetReadId()] = append(out[s.GetReadId()], s)
		}
	}
	return out
}

func (e *emitted) offsets() []int64 { return slices.Sorted(slices.Values(e.resolved)) }

// log is a partition of the topic of called reads.
type log struct {
	t    *testing.T
	recs []stream.Record
}

func (l *log) add(value []byte, err error) *log {
	require.NoError(l.t, err)
	n := int64(len(l.recs))
	l.recs = append(l.recs, stream.Record{Topic: "called", Offset: n, Time: time.UnixMilli(1_000_000 + 1000*n), Value: value})
	return l
}

func (l *log) marker(run *streampb.Run, end bool) *log {
	return l.add(stream.CalledMarker(&streampb.Marker{Run: run, Sources: 1}, end))
}

func (l *log) read(r *streampb.CalledRead, seq, qualities, dwells []byte) *log {
	stream.PackCalled(r, seq, qualities, dwells)
	return l.add(stream.EncodeCalled(&streampb.CalledRecord{Body: &streampb.CalledRecord_Read{Read: r}}))
}

func testRun() *streampb.Run { return &streampb.Run{Id: "run", Sample: "lambda", Called: true} }

// lambda is a stage that aligns to lambda.
func lambda(t *testing.T) (Config, *genome.Genome) {
	t.Helper()
	g := aligntest.LambdaGenome(t)
	index, err := minimap.NewIndex(g, minimap.Config{})
	require.NoError(t, err)
	aligner := index.NewAligner()
	t.Cleanup(func() { assert.NoError(t, errors.Join(aligner.Close(), index.Close())) })
	return Config{
		ReadsPartitions: 2, Aligners: []Aligner{aligner},
		Placer:  Placer{Topics: stream.NewTopics(""), Contig: func(name string) []byte { return g.Contig(name).Seq }},
		Metrics: NewMetrics(prometheus.NewRegistry(), prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dead_total", Help: "x"}, []string{"stage", "code"})),
		Logger:  slog.New(slog.DiscardHandler),
	}, g
}

func newHandler(t *testing.T, cfg Config) stream.Handler {
	t.Helper()
	h, err := New(cfg)("called", 1, 3)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, h.Close()) })
	return h
}

func handle(t *testing.T, h stream.Handler, recs []stream.Record) *emitted {
	t.Helper()
	e := new(emitted)
	for _, rec := range recs {
		require.NoError(t, h.Handle(t.Context(), rec, e))
	}
	require.NoError(t, h.Drain(t.Context()))
	require.NoError(t, e.failed)
	return e
}

func repeated(b byte, n int) []byte { return slices.Repeat([]byte{b}, n) }

// TestCalledReadsBecomeSegments: a read is placed where it is from, with its qualities and
// dwells reversed to the reference's strand, once per record.
func TestCalledReadsBecomeSegments(t *testing.T) {
	cfg, g := lambda(t)
	contig := g.Contigs[0]
	forward := slices.Clone(contig.Seq[1000:3000])
	backward := slices.Clone(contig.Seq[5000:6000])
	genome.ReverseComplement(backward)
	ramp := make([]byte, 1000)
	for i := range ramp {
		ramp[i] = byte(1 + i%50)
	}
	l := (&log{t: t}).marker(testRun(), false).
		read(&streampb.CalledRead{Run: "run", ReadId: "f", Model: "m"}, forward, repeated(20, 2000), nil).
		read(&streampb.CalledRead{Run: "run", ReadId: "b"}, backward, ramp, ramp).
		read(&streampb.CalledRead{Run: "run", ReadId: "nowhere"}, repeated('A', 400), repeated(20, 400), nil).
		marker(testRun(), true)
	h := newHandler(t, cfg)
	e := handle(t, h, l.recs)
	assert.Equal(t, []int64{0, 1, 2, 3, 4}, e.offsets())

	got := e.segments(t)
	require.Len(t, got["f"], 1)
	f := got["f"][0]
	assert.Equal(t, int64(1000), f.GetStart())
	assert.Equal(t, "lambda", f.GetSample())
	assert.Equal(t, int64(1_001_000), f.GetLastChunkMs(), "the record's time")
	assert.Empty(t, f.GetDwells())
	require.Len(t, got["b"], 1)
	b := got["b"][0]
	assert.True(t, b.GetReverse())
	reversed := slices.Clone(ramp)
	slices.Reverse(reversed)
	assert.Equal(t, reversed, b.GetQualities())
	assert.Equal(t, reversed, b.GetDwells())
	assert.NotContains(t, got, "nowhere")
	for outcome, n := range map[Outcome]float64{Mapped: 2, Unmapped: 1} {
		assert.InDelta(t, n, testutil.ToFloat64(cfg.Metrics.Parts.WithLabelValues(outcome.String())), 0, outcome.String())
	}

	var starts, ends int
	for i, o := range e.outs {
		if o.Topic != "reads" {
			continue
		}
		m, err := stream.DecodeReads(o.Value)
		require.NoError(t, err)
		if mk := m.GetRunStart(); mk != nil {
			starts++
			assert.Equal(t, []uint32{1, 3}, []uint32{mk.GetSource(), mk.GetSources()})
		}
		if mk := m.GetRunEnd(); mk != nil {
			ends++
			assert.Equal(t, streampb.EndStatus_END_STATUS_NORMAL, mk.GetEndStatus())
			assert.Greater(t, i, 2, "behind the reads")
		}
	}
	assert.Equal(t, []int{2, 2}, []int{starts, ends}, "one for each partition")
}

// TestSamplesOfCalledReads: of a run that its basecaller took apart a read is whose it says,
// and one without a barcode nobody's.
func TestSamplesOfCalledReads(t *testing.T) {
	cfg, g := lambda(t)
	run := testRun()
	run.Samples = []string{"lambda_barcode01", "lambda_barcode02"}
	seq := g.Contigs[0].Seq[100:900]
	l := (&log{t: t}).marker(run, false).
		read(&streampb.CalledRead{Run: "run", ReadId: "one", Sample: "lambda_barcode02", Barcode: "barcode02"}, seq, nil, nil).
		read(&streampb.CalledRead{Run: "run", ReadId: "none", Barcode: "unclassified"}, seq, nil, nil)
	got := handle(t, newHandler(t, cfg), l.recs).segments(t)
	require.Len(t, got, 1)
	assert.Equal(t, "lambda_barcode02", got["one"][0].GetSample())
	assert.InDelta(t, 1, testutil.ToFloat64(cfg.Metrics.Parts.WithLabelValues("unclassified")), 0)
	assert.Equal(t, map[string]int64{"barcode02": 1, "unclassified": 1}, cfg.Metrics.Barcodes())
}

// TestAliasesOfCalledReads: reads are counted by the sample sheet's names, and a run without a row
// in the sheet counts as demultiplexed all the same.
func TestAliasesOfCalledReads(t *testing.T) {
	cfg, g := lambda(t)
	seq := g.Contigs[0].Seq[100:900]
	run, other := testRun(), testRun()
	run.Samples, run.SamplesListed = []string{"patient-1"}, true
	other.Id, other.SamplesListed = "other", true
	l := (&log{t: t}).marker(run, false).marker(other, false).
		read(&streampb.CalledRead{Run: "run", ReadId: "one", Sample: "patient-1", Barcode: "barcode02"}, seq, nil, nil).
		read(&streampb.CalledRead{Run: "other", ReadId: "two", Barcode: "barcode02"}, seq, nil, nil)
	got := handle(t, newHandler(t, cfg), l.recs).segments(t)
	require.Len(t, got, 1)
	assert.Equal(t, "patient-1", got["one"][0].GetSample())
	assert.Equal(t, map[string]int64{"patient-1": 1, "barcode02": 1}, cfg.Metrics.Barcodes())
}

// TestLowQualityOfCalledReads: a read is filtered by the quality that its basecaller states,
// or else by that of its bases.
func TestLowQualityOfCalledReads(t *testing.T) {
	cfg, g := lambda(t)
	cfg.Placer.MinQuality = 10
	seq := g.Contigs[0].Seq[100:900]
	l := (&log{t: t}).marker(testRun(), false).
		read(&streampb.CalledRead{Run: "run", ReadId: "said", MeanQuality: 9}, seq, repeated(30, 800), nil).
		read(&streampb.CalledRead{Run: "run", ReadId: "poor"}, seq, repeated(9, 800), nil).
		read(&streampb.CalledRead{Run: "run", ReadId: "good"}, seq, repeated(11, 800), nil)
	got := handle(t, newHandler(t, cfg), l.recs).segments(t)
	assert.Len(t, got, 1)
	assert.Contains(t, got, "good")
}

// TestDeadLettersOfCalledReads: what can't be used is kept, and the others go on.
func TestDeadLettersOfCalledReads(t *testing.T) {
	cfg, g := lambda(t)
	seq := g.Contigs[0].Seq[100:900]
	l := (&log{t: t}).add([]byte("no record"), nil).
		read(&streampb.CalledRead{Run: "run", ReadId: "early"}, seq, nil, nil).
		marker(testRun(), false).
		read(&streampb.CalledRead{Run: "run", ReadId: "good"}, seq, nil, nil).
		read(&streampb.CalledRead{Run: "run", ReadId: "no frame"}, seq, nil, repeated(0, 800))
	e := handle(t, newHandler(t, cfg), l.recs)
	var dead []string
	for _, o := range e.outs {
		if o.Topic == "dlq" {
			for _, h := range o.Headers {
				if h.Key == "porestream-reason" {
					dead = append(dead, string(h.Value))
				}
			}
		}
	}
	require.Len(t, dead, 3)
	assert.Contains(t, strings.Join(dead, "\n"), "read of run run, whose start marker is not in this partition")
	assert.Contains(t, strings.Join(dead, "\n"), "a base that lasts no frame")
	assert.Contains(t, e.segments(t), "good")
	assert.Equal(t, []int64{0, 1, 2, 3, 4}, e.offsets())
}

// TestStateOfTheAlignStage: a handler that replays the records of another, or is given its
// state, has the same state, and records that are replayed have no effect.
func TestStateOfTheAlignStage(t *testing.T) {
	cfg, g := lambda(t)
	seq := g.Contigs[0].Seq[100:900]
	l := (&log{t: t}).marker(testRun(), false).read(&streampb.CalledRead{Run: "run", ReadId: "a"}, seq, nil, nil).
		read(&streampb.CalledRead{Run: "run", ReadId: "b"}, seq, nil, nil)
	first, second, third := newHandler(t, cfg), newHandler(t, cfg), newHandler(t, cfg)
	handle(t, first, l.recs)
	for _, rec := range l.recs {
		require.NoError(t, second.Replay(t.Context(), rec))
	}
	state := func(h stream.Handler) map[string]string {
		sections := make(map[string]string)
		for _, s := range h.State().Sections() {
			b, err := h.State().AppendSection(nil, s.Name)
			require.NoError(t, err)
			sections[s.Name] = string(b)
		}
		return sections
	}
	want := state(first)
	assert.Equal(t, want, state(second))
	for name, b := range want {
		require.NoError(t, third.State().RestoreSection(name, []byte(b)))
	}
	assert.Equal(t, want, state(third))

	// A run without further records is ended by a marker in the partition.
	e := new(emitted)
	require.NoError(t, third.(stream.Ticker).Tick(t.Context(), time.UnixMilli(1_002_000).Add(7*time.Hour), e))
	require.Len(t, e.outs, 1)
	m, err := stream.DecodeCalled(e.outs[0].Value)
	require.NoError(t, err)
	assert.Equal(t, streampb.EndStatus_END_STATUS_TIMEOUT, m.GetRunEnd().GetEndStatus())
	assert.Equal(t, []any{"called", int32(1), int64(2)}, []any{e.outs[0].Topic, e.outs[0].Partition, m.GetRunEnd().GetLastOffset()})
	require.NoError(t, third.(stream.Ticker).Tick(t.Context(), time.UnixMilli(1_002_000).Add(8*time.Hour), e))
	assert.Len(t, e.outs, 1, "it is on its way")
}

type brokenAligner struct{}

func (brokenAligner) Map(name string, _ []byte) ([]align.Alignment, error) {
	return nil, fmt.Errorf("no memory for %s", name)
}

// TestFailingAligner: a read that can't be aligned ends the worker; its record stays open.
func TestFailingAligner(t *testing.T) {
	cfg, g := lambda(t)
	cfg.Aligners = []Aligner{brokenAligner{}}
	l := (&log{t: t}).marker(testRun(), false).read(&streampb.CalledRead{Run: "run", ReadId: "a"}, g.Contigs[0].Seq[100:900], nil, nil)
	h, e := newHandler(t, cfg), new(emitted)
	for _, rec := range l.recs {
		require.NoError(t, h.Handle(t.Context(), rec, e))
	}
	require.Error(t, h.Drain(t.Context()))
	require.ErrorContains(t, e.failed, "aligning read a of run run: no memory for a")
	assert.Equal(t, []int64{0}, e.offsets())

	_, err := New(Config{})("called", 0, 1)
	require.ErrorContains(t, err, "no aligner")
}
