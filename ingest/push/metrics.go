package push

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/push/pushpb"
)

// Metrics counts what devices push. A nil *Metrics counts nothing.
type Metrics struct {
	runs, streams                           prometheus.Gauge
	refusals, notices, reloads              *prometheus.CounterVec
	received, duplicates                    prometheus.Counter
	gapSamples, lostEnds, throttled, resume prometheus.Counter
}

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "porestream_ingest_push_" + name, Help: help})
	}
	vector := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "porestream_ingest_push_" + name, Help: help}, []string{label})
	}
	m := &Metrics{
		runs:       prometheus.NewGauge(prometheus.GaugeOpts{Name: "porestream_ingest_push_runs", Help: "Pushed runs that are under way."}),
		streams:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "porestream_ingest_push_streams", Help: "Streams of devices that are open."}),
		refusals:   vector("refusals_total", "Requests and streams of devices that were refused or ended, by reason.", "reason"),
		notices:    vector("notices_total", "Notices to devices that they are made to wait, by reason.", "reason"),
		reloads:    vector("device_reloads_total", "Times that the file of devices was read again because it had changed.", "result"),
		received:   counter("received_bytes_total", "Bytes of requests with chunks, repeated ones included."),
		duplicates: counter("duplicate_chunks_total", "Chunks that had been taken before and were sent again."),
		gapSamples: counter("skipped_samples_total", "Samples that devices say they have lost."),
		lostEnds:   counter("lost_ends_total", "Reads whose end devices say they have lost."),
		throttled:  counter("throttled_seconds_total", "Time that devices were made to wait because they were over their bytes per second."),
		resume:     counter("resumed_streams_total", "Streams that went on with a run that had chunks already."),
	}
	// All reasons are there from the start, so that an alarm sees the first one.
	for n := range pushpb.Reason_name {
		if n != 0 {
			m.refusals.WithLabelValues(label(pushpb.Reason(n)))
		}
	}
	reg.MustRegister(m.runs, m.streams, m.refusals, m.notices, m.reloads, m.received, m.duplicates, m.gapSamples, m.lostEnds, m.throttled, m.resume)
	return m
}

func (m *Metrics) refused(r pushpb.Reason) {
	if m != nil {
		m.refusals.WithLabelValues(label(r)).Inc()
	}
}

func (m *Metrics) notice(r pushpb.Reason) {
	if m != nil {
		m.notices.WithLabelValues(label(r)).Inc()
	}
}

func (m *Metrics) reload(err error) {
	if m == nil {
		return
	}
	result := "read"
	if err != nil {
		result = "refused"
	}
	m.reloads.WithLabelValues(result).Inc()
}

func (m *Metrics) addRuns(n int) {
	if m != nil {
		m.runs.Add(float64(n))
	}
}

func (m *Metrics) addStreams(n int) {
	if m != nil {
		m.streams.Add(float64(n))
	}
}

func (m *Metrics) resumed() {
	if m != nil {
		m.resume.Inc()
	}
}

func (m *Metrics) receive(bytes int) {
	if m != nil {
		m.received.Add(float64(bytes))
	}
}

func (m *Metrics) duplicate() {
	if m != nil {
		m.duplicates.Inc()
	}
}

func (m *Metrics) lose(l loss) {
	if m != nil {
		m.gapSamples.Add(float64(l.samples))
		m.lostEnds.Add(float64(l.ends))
	}
}

func (m *Metrics) throttle(d time.Duration) {
	if m != nil {
		m.throttled.Add(d.Seconds())
	}
}
