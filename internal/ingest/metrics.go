package ingest

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts what is ingested. A nil *Metrics counts nothing.
type Metrics struct {
	runs, reads, chunks, samples prometheus.Counter
	lateness                     prometheus.Gauge
}

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &Metrics{
		runs:    counter("porestream_ingest_runs_total", "Runs that were started."),
		reads:   counter("porestream_ingest_reads_total", "Reads sent to their last chunk."),
		chunks:  counter("porestream_ingest_chunks_total", "Signal chunks sent."),
		samples: counter("porestream_ingest_samples_total", "Signal samples sent."),
		lateness: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "porestream_ingest_lateness_seconds",
			Help: "How far the newest chunk was sent behind the recording's clock.",
		}),
	}
	reg.MustRegister(m.runs, m.reads, m.chunks, m.samples, m.lateness)
	return m
}

func (m *Metrics) run() {
	if m != nil {
		m.runs.Inc()
	}
}

func (m *Metrics) chunk(samples int, last bool) {
	if m == nil {
		return
	}
	m.chunks.Inc()
	m.samples.Add(float64(samples))
	if last {
		m.reads.Inc()
	}
}

func (m *Metrics) behind(d time.Duration) {
	if m != nil {
		m.lateness.Set(d.Seconds())
	}
}
