package stage

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	alignstage "github.com/porestream/porestream/align/stage"
	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/output"
	"github.com/porestream/porestream/demux"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream"
)

// publishedBy runs records through a stage that publishes basecalls and returns these by
// name, and the names of the reads that are passed on.
func publishedBy(t *testing.T, p *partition, cfg Config) (basecalls map[string]stream.Out, aligned []string) {
	t.Helper()
	emit := new(fakeEmitter)
	h := newHandler(t, cfg)
	handleAll(t, h, p.recs, emit)
	require.NoError(t, h.Drain(t.Context()))
	basecalls = make(map[string]stream.Out)
	for _, o := range emit.outs {
		switch o.Topic {
		case cfg.Topics.Basecalls:
			name, _, _ := strings.Cut(strings.TrimPrefix(string(o.Value), "@"), "\t")
			require.NotContains(t, basecalls, name)
			basecalls[name] = o
		case cfg.Topics.Reads:
			m, err := stream.DecodeReads(o.Value)
			require.NoError(t, err)
			if s := m.GetSegment(); s != nil {
				aligned = append(aligned, s.GetReadId())
			}
		}
	}
	return basecalls, aligned
}

// byQuality gives reads that begin with an A a mean quality of 7, and others 20.
func byQuality(read basecall.Read, called basecall.Called) basecall.Called {
	called.MeanQuality = 20
	if len(called.Sequence) > 0 && called.Sequence[0] == 'A' {
		called.MeanQuality = 7
	}
	called.Stride, called.NumSamples = samplesPerBase/2, len(read.Samples)
	return called
}

type byQualityCaller struct{ fakeCaller }

func (j byQualityCaller) Begin(read basecall.Read) (Stream, error) {
	return &collected{read: read, call: func(ctx context.Context, r basecall.Read) (basecall.Called, error) {
		called, err := j.Call(ctx, r)
		return byQuality(r, called), err
	}}, nil
}

func TestBasecallsArePublished(t *testing.T) {
	good, bad := bytes.IndexByte(reference, 'C'), bytes.IndexByte(reference, 'A')
	p := &partition{t: t}
	p.start("run-1").read(1, "good", good, good+150).read(2, "bad", bad, bad+100).end("run-1")
	cfg := testConfig()
	cfg.Caller, cfg.MinQuality, cfg.Publish = byQualityCaller{}, 10, "model"
	reg := prometheus.NewRegistry()
	cfg.Metrics = NewMetrics(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dead_total", Help: "x"}, []string{"stage", "code"}))
	basecalls, aligned := publishedBy(t, p, cfg)

	require.Len(t, basecalls, 2)
	assert.Equal(t, []string{"good"}, aligned)
	for name, want := range map[string]struct {
		channel, from, to int
		filter            string
		quality           float64
	}{"good": {1, good, good + 150, "pass", 20}, "bad": {2, bad, bad + 100, "low_quality", 7}} {
		got := basecalls[name]
		assert.Equal(t, fmt.Sprintf("run-1/%d", want.channel), string(got.Key))
		assert.Equal(t, []stream.Header{
			{Key: "run", Value: []byte("run-1")}, {Key: "sample", Value: []byte("lambda")}, {Key: "filter", Value: []byte(want.filter)},
		}, got.Headers)
		called := basecall.Called{Sequence: reference[want.from:want.to], Qualities: bytes.Repeat([]byte{20}, want.to-want.from), MeanQuality: want.quality}
		var file bytes.Buffer
		model := &basecall.Model{Manifest: basecall.Manifest{Name: "model"}}
		w, err := output.NewWriter(&file, output.FASTQ, output.Header{Model: model})
		require.NoError(t, err)
		require.NoError(t, w.Write(output.Record{Called: called, Read: &signal.Read{
			ID: name, Channel: uint32(want.channel), StartSample: uint64(want.from), Run: &signal.Run{ID: "run-1", SampleRate: 4000},
		}}))
		require.NoError(t, w.Close())
		// Only a file says which build of its model called the reads, so that it can be resumed.
		build, err := model.Manifest.Build()
		require.NoError(t, err)
		asInFile := strings.Replace(file.String(), "\tDS:Z:model_version="+build, "", 1)
		assert.NotEqual(t, file.String(), asInFile)
		assert.Equal(t, asInFile, string(got.Value), "as in a file")
	}
	for outcome, want := range map[string]float64{"mapped": 1, "low_quality": 1} {
		assert.InDelta(t, want, testutil.ToFloat64(cfg.Metrics.Parts.WithLabelValues(outcome)), 0, outcome)
	}
}

// TestBasecallsOfParts: a read with a gap is published as the parts it is called as.
func TestBasecallsOfParts(t *testing.T) {
	p := &partition{t: t}
	p.start("run-1")
	for _, c := range chunksOf(1, "gap", 100, 300) {
		if c.GetNumber() != 2 && c.GetFirstSample() != 2*testChunk {
			p.chunk(c)
		}
	}
	p.end("run-1")
	cfg := testConfig()
	cfg.Caller, cfg.Publish = byQualityCaller{}, "model"
	basecalls, _ := publishedBy(t, p, cfg)
	require.Len(t, basecalls, 2)
	for _, start := range []int{0, 3 * testChunk} {
		got := string(basecalls[demux.ChildID("gap", start)].Value)
		assert.Contains(t, got, fmt.Sprintf("\tpi:Z:gap\tsp:i:%d\n", start))
	}
}

// TestLongBasecalls: a read that doesn't fit a record is published in pieces, which
// hold all of its bases and begin where their signal does.
func TestLongBasecalls(t *testing.T) {
	const n = alignstage.MaxPublishedBases + 1000
	called := basecall.Called{
		Sequence: randomBases(n, 3), Qualities: bytes.Repeat([]byte{12}, n), Moves: bytes.Repeat([]byte{1, 0}, n),
		Stride: 5, NumSamples: 10 * n, MeanQuality: 12,
	}
	read := &alignstage.Read{Run: testRun("run-1"), ID: "long", Model: "model", Channel: 1, Total: 10 * n}
	for _, test := range []struct {
		fromEnd bool
		starts  []int
	}{{false, []int{0, 10 * alignstage.MaxPublishedBases}}, {true, []int{10 * 1000, 0}}} {
		called.FromEnd = test.fromEnd
		p := &alignstage.Placer{Publish: true, MinQuality: 13} // published, though it is not aligned
		outs, _, _, err := p.Place(read, p.Filter(alignstage.Part{To: read.Total, Called: called}), nil)
		require.NoError(t, err)
		require.Equal(t, 2, len(outs)) //nolint:testifylint // Len prints the records
		var sequence []byte
		for i, o := range outs {
			require.LessOrEqual(t, len(o.Value), stream.MaxRecord)
			lines := bytes.Split(o.Value, []byte("\n"))
			sequence = append(sequence, lines[1]...)
			assert.True(t, bytes.HasPrefix(lines[0], []byte("@"+demux.ChildID("long", test.starts[i])+"\t")))
			assert.Contains(t, string(lines[0]), fmt.Sprintf("\tpi:Z:long\tsp:i:%d", test.starts[i]))
			assert.Contains(t, string(lines[0]), "\tqs:f:12.000\t")
		}
		assert.True(t, bytes.Equal(called.Sequence, sequence))
	}
}
