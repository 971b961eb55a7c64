package report_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/monitor"
	"github.com/porestream/porestream/monitor/report"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// kept keeps what is sent, or fails.
type kept struct {
	records []stream.Out
	err     error
	block   bool
}

func (k *kept) Send(ctx context.Context, outs []stream.Out, onDurable func(error)) error {
	if k.block {
		<-ctx.Done()
		return ctx.Err()
	}
	if k.err == nil {
		k.records = append(k.records, outs...)
	}
	onDurable(k.err)
	return nil
}

func registry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	lag := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "porestream_stream_lag_records"}, []string{"topic", "partition"})
	for _, p := range []string{"0", "1", "2"} {
		lag.WithLabelValues("signal", p).Set(5)
	}
	since := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "porestream_stream_unsaved_timestamp_seconds"}, []string{"topic", "partition"})
	since.WithLabelValues("signal", "0").Set(0)
	since.WithLabelValues("signal", "1").Set(200)
	since.WithLabelValues("signal", "2").Set(100)
	latency := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "porestream_end_to_end_latency_seconds", Buckets: []float64{1, 2}, NativeHistogramBucketFactor: 1.1})
	latency.Observe(0.5)
	latency.Observe(1.5)
	latency.Observe(9)
	reg.MustRegister(lag, since, latency)
	return reg
}

func TestMeasures(t *testing.T) {
	families, err := registry().Gather()
	require.NoError(t, err)
	measures, distributions := report.Measures(families, monitor.ReportedMetrics())
	values := make(map[string]float64)
	for _, m := range measures {
		values[m.GetName()] = m.GetValue()
	}
	assert.InDelta(t, 15, values["porestream_stream_lag_records"], 0, "over all partitions")
	assert.InDelta(t, 100, values["porestream_stream_unsaved_timestamp_seconds"], 0, "the oldest")
	assert.Positive(t, values["process_resident_memory_bytes"])
	assert.Positive(t, values["go_sched_gomaxprocs_threads"])
	require.Len(t, distributions, 1)
	assert.Equal(t, []float64{1, 2}, distributions[0].GetBounds())
	assert.Equal(t, []uint64{1, 2, 3}, distributions[0].GetCounts())
}

// Once a second a process reports what it does, and at the end that it stops.
func TestReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := registry()
		to := &kept{}
		calls := 0
		r := report.New(report.Config{
			Topic: "status", Process: report.Process{Kind: "processor", Host: "lab", Stages: []string{"variant"}}, Gatherer: reg, Registerer: reg, Metrics: monitor.ReportedMetrics(),
			Channels: func() []*streampb.ChannelReport {
				calls++
				return []*streampb.ChannelReport{{Source: "s", Run: "run", States: []byte("sp"), Reads: uint64(calls / 5)}}
			},
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			r.Run(ctx, to)
			close(done)
		}()
		time.Sleep(9500 * time.Millisecond)
		stop()
		<-done
		var processes, channels int
		last := uint64(0)
		for _, rec := range to.records {
			m, err := stream.DecodeStatus(rec.Value)
			require.NoError(t, err)
			require.Equal(t, string(stream.StatusKey(m)), string(rec.Key))
			require.Greater(t, m.GetSequence(), last)
			last = m.GetSequence()
			require.Equal(t, r.Instance(), m.GetInstance())
			switch {
			case m.GetProcess() != nil:
				processes++
				require.Equal(t, last == uint64(len(to.records)), m.GetProcess().GetStopping())
			case m.GetChannels() != nil:
				channels++
			}
		}
		assert.Equal(t, 11, processes, "ten in nine seconds and a half, and the goodbye")
		assert.Equal(t, 3, channels, "those that say something new")
		assert.InDelta(t, len(to.records), metric(t, reg, "porestream_reports_sent_total"), 0)
	})
}

// A topic that takes nothing costs reports, and nothing else.
func TestLostReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, to := range []*kept{{err: errors.New("no rights")}, {block: true}} {
			reg := prometheus.NewRegistry()
			r := report.New(report.Config{Topic: "status", Process: report.Process{Kind: "ingest"}, Registerer: reg})
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				r.Run(ctx, to)
				close(done)
			}()
			time.Sleep(time.Minute)
			stop()
			<-done
			assert.Greater(t, metric(t, reg, "porestream_reports_lost_total"), 10.0)
			assert.Zero(t, metric(t, reg, "porestream_reports_sent_total"))
		}
	})
}

// A report that is under way when the process is asked to stop is counted, but no
// warning is logged. One that is lost before is logged.
func TestReportsOfAStop(t *testing.T) {
	for _, tt := range []struct {
		name  string
		after time.Duration
		warns bool
	}{
		{"at once", time.Millisecond, false},
		{"after a minute", time.Minute, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				reg := prometheus.NewRegistry()
				r := report.New(report.Config{
					Topic: "status", Process: report.Process{Kind: "ingest"}, Registerer: reg, Logger: slog.New(slog.NewTextHandler(&log, nil)),
				})
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					r.Run(ctx, &kept{block: true})
					close(done)
				}()
				time.Sleep(tt.after)
				stop()
				<-done
				assert.Positive(t, metric(t, reg, "porestream_reports_lost_total"))
				assert.Equal(t, tt.warns, strings.Contains(log.String(), "reports for the live page are lost"), log.String())
			})
		})
	}
}

func metric(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no %s", name)
	return 0
}

// BenchmarkCollect is what a report costs a process: gathering its metrics, choosing,
// encoding.
func BenchmarkCollect(b *testing.B) {
	reg := registry()
	b.ReportAllocs()
	for b.Loop() {
		families, err := reg.Gather()
		if err != nil {
			b.Fatal(err)
		}
		p := &streampb.ProcessReport{Kind: "processor"}
		p.Measures, p.Distributions = report.Measures(families, monitor.ReportedMetrics())
		if _, err := stream.EncodeStatus(&streampb.Status{Instance: "i", Sequence: 1, TimeMs: 1, Body: &streampb.Status_Process{Process: p}}); err != nil {
			b.Fatal(err)
		}
	}
}
