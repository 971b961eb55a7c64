package stage

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/finish"
	"github.com/porestream/porestream/demux"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// strided gives the fake chemistry's calls the frames that cutting goes by.
type strided struct{ fakeCaller }

func (s strided) Begin(read basecall.Read) (Stream, error) {
	return &collected{read: read, call: func(ctx context.Context, r basecall.Read) (basecall.Called, error) {
		called, err := s.Call(ctx, r)
		called.Stride, called.NumSamples, called.MeanQuality = samplesPerBase/2, len(r.Samples), 20
		return called, err
	}}, nil
}

// molecule adds the chunks of a read of any bases, but for those of the given numbers.
func (p *partition) molecule(channel uint32, id string, bases []byte, missing ...int) {
	samples := currentOf(bases)
	for first := 0; first < len(samples); first += testChunk {
		part := samples[first:min(first+testChunk, len(samples))]
		if slices.Contains(missing, first/testChunk) {
			continue
		}
		c := chunkOf(channel, id, 0, uint64(first), 0, first+len(part) == len(samples))
		c.SampleCount, c.Vbz = uint32(len(part)), vbzOf(part)
		p.chunk(c)
	}
}

// TestBarcodesTakeARunApart: reads are passed on as of their barcodes' samples, without
// what is not of the molecule; the run's markers list the samples.
func TestBarcodesTakeARunApart(t *testing.T) {
	kit, err := demux.OpenKit("SQK-RBK004")
	require.NoError(t, err)
	const sheet = "flow_cell_id,kit,experiment_id,barcode,alias\nFC1,SQK-RBK004,e,barcode02,patient-2\nFC1,SQK-RBK004,e,barcode03,patient-3\nFC2,SQK-RBK004,e,barcode04,patient-4\n"
	listed, err := demux.ParseSheet(strings.NewReader(sheet))
	require.NoError(t, err)
	barcoded := func(i, from, to int) []byte {
		return slices.Concat([]byte(kit.Front.Outer+kit.Barcodes[i].Front+kit.Front.Inner), reference[from:to])
	}
	run := func(id string) *streampb.Run {
		r := testRun(id)
		r.FlowCell = "FC1"
		return r
	}
	for _, test := range []struct {
		name    string
		sheet   *demux.Sheet
		samples []string
		aligned map[string]string // sample by read
		lost    float64           // reads that are of no sample
	}{
		{"kit", nil, nil, map[string]string{"two": "lambda_barcode02", "three": "lambda_barcode03", "four": "lambda_barcode04"}, 2},
		{"sheet", listed, []string{"patient-2", "patient-3"}, map[string]string{"two": "patient-2", "three": "patient-3"}, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := testConfig()
			cfg.Caller, cfg.Publish = strided{}, "model"
			cfg.Metrics = NewMetrics(prometheus.NewRegistry(), prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dead_total", Help: "x"}, []string{"stage", "code"}))
			cfg.Finisher, err = finish.New(finish.Options{Kit: &kit, Trim: finish.TrimAll, Sheet: test.sheet}, basecall.QualityManifest{})
			require.NoError(t, err)
			p := &partition{t: t}
			p.add(&streampb.SignalRecord{Body: &streampb.SignalRecord_RunStart{RunStart: &streampb.Marker{Run: run("run-1"), Sources: 1}}})
			p.molecule(1, "two", barcoded(1, 1000, 1400))
			p.molecule(2, "three", barcoded(2, 3000, 3900), 10) // with a gap: what is behind it has no barcode
			p.molecule(3, "four", barcoded(3, 6000, 6400))
			p.molecule(4, "none", reference[8000:8400])
			// Too short a beginning has no barcode; what follows it is nobody's either.
			head := chunkOf(5, "headless", 0, 0, 0, false)
			head.SampleCount, head.Vbz = minSamples/2, vbzOf(currentOf(reference[9000:9400])[:minSamples/2])
			p.chunk(head).molecule(5, "headless", reference[9000:9400], 0)
			p.add(&streampb.SignalRecord{Body: &streampb.SignalRecord_RunEnd{RunEnd: &streampb.Marker{Run: run("run-1"), Sources: 1}}})

			emit := new(fakeEmitter)
			h := newHandler(t, cfg)
			handleAll(t, h, p.recs, emit)
			require.NoError(t, h.Drain(t.Context()))
			aligned, parts := make(map[string]string), 0
			for _, o := range emit.outs {
				switch o.Topic {
				case cfg.Topics.Basecalls:
					filter := string(o.Headers[2].Value)
					assert.Equal(t, filter == "pass", len(o.Headers[1].Value) > 0, "a sample, unless unclassified")
					assert.False(t, bytes.Contains(o.Value, []byte(kit.Barcodes[1].Front)), "the barcode is cut off")
				case cfg.Topics.Reads:
					m, err := stream.DecodeReads(o.Value)
					require.NoError(t, err)
					for _, mk := range []*streampb.Marker{m.GetRunStart(), m.GetRunEnd()} {
						if mk == nil {
							continue
						}
						assert.Equal(t, test.sheet != nil, mk.GetRun().GetSamplesListed())
						if test.samples != nil {
							assert.Equal(t, test.samples, mk.GetRun().GetSamples())
						} else {
							assert.Len(t, mk.GetRun().GetSamples(), len(kit.Barcodes))
						}
						assert.Equal(t, "lambda", mk.GetRun().GetSample())
					}
					if s := m.GetSegment(); s != nil {
						aligned[s.GetReadId()] = s.GetSample()
						assert.True(t, strings.HasPrefix(string(o.Key), s.GetSample()+"/"))
						if s.GetReadId() == "three" {
							parts++
						}
					}
				}
			}
			assert.Equal(t, test.aligned, aligned)
			assert.Equal(t, 2, parts)
			assert.InDelta(t, test.lost, testutil.ToFloat64(cfg.Metrics.Parts.WithLabelValues("unclassified")), 0)
		})
	}
}
