package stage

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/adaptive"
	"github.com/porestream/porestream/metric"
	"github.com/porestream/porestream/stream"
)

// skipped is why an evaluation was given back.
type skipped int

const (
	skippedLate       skipped = iota // the signal is too old
	skippedCrowded                   // too many evaluations wait, and all are of younger signal
	skippedUnknownRun                // nothing is known of the run yet
	skippedStopped                   // the partition is given up
	skips
)

func (s skipped) String() string {
	return [...]string{"late", "crowded", "unknown_run", "stopped"}[s]
}

// Metrics counts the stage's work. A nil *Metrics counts nothing.
type Metrics struct {
	evaluations, skipped, decisions, reads, bad *prometheus.CounterVec
	unpublished                                 prometheus.Counter
	evaluation, decision                        prometheus.Histogram
	heldBytes, waiting                          prometheus.Gauge
}

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "porestream_adaptive_" + name, Help: help}, labels)
	}
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(metric.Histogram("porestream_adaptive_"+name, help, []float64{.01, .02, .05, .1, .2, .3, .5, .75, 1, 1.5, 2, 5}))
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "porestream_adaptive_" + name, Help: help})
	}
	m := &Metrics{
		evaluations: vec("looks_total", "Evaluations of the beginnings of reads, by verdict and reason.", "verdict", "reason"),
		skipped:     vec("skipped_looks_total", "Evaluations that were due and left out, by reason; they are due again with the read's next chunk.", "reason"),
		decisions:   vec("decisions_total", "Decisions published, by action and reason.", "action", "reason"),
		reads:       vec("reads_total", "Reads by what became of them for the stage: decided about, ended before, or left alone.", "fate"),
		bad:         vec("bad_records_total", "Signal records that can't be read, by code; the basecall stage keeps them.", "code"),
		unpublished: prometheus.NewCounter(prometheus.CounterOpts{Name: "porestream_adaptive_lost_decisions_total", Help: "Decisions that could not be published."}),
		evaluation:  histogram("look_seconds", "Time to basecall, align and evaluate the beginning of a read once."),
		decision:    histogram("decision_seconds", "Time from when the last chunk that a decision rests on was taken in by ingest until the decision was written."),
		heldBytes:   gauge("held_bytes", "Memory that the beginnings of reads take."),
		waiting:     gauge("waiting_looks", "Evaluations that wait for a worker."),
	}
	reg.MustRegister(m.evaluations, m.skipped, m.decisions, m.reads, m.bad, m.unpublished, m.evaluation, m.decision, m.heldBytes, m.waiting)
	for s := range skips {
		m.skipped.WithLabelValues(s.String())
	}
	for f := fateDecided; f < fates; f++ {
		m.reads.WithLabelValues(f.String())
	}
	return m
}

func (m *Metrics) evaluated(v adaptive.Verdict, took time.Duration) {
	if m != nil {
		m.evaluations.WithLabelValues(v.Action.String(), v.Reason.String()).Inc()
		m.evaluation.Observe(took.Seconds())
	}
}

func (m *Metrics) skip(why skipped) {
	if m != nil {
		m.skipped.WithLabelValues(why.String()).Inc()
	}
}

func (m *Metrics) decided(v adaptive.Verdict, after time.Duration) {
	if m != nil {
		m.decisions.WithLabelValues(v.Action.String(), v.Reason.String()).Inc()
		m.decision.Observe(after.Seconds())
	}
}

func (m *Metrics) lost() {
	if m != nil {
		m.unpublished.Inc()
	}
}

func (m *Metrics) read(f fate) {
	if m != nil {
		m.reads.WithLabelValues(f.String()).Inc()
	}
}

func (m *Metrics) badRecord(err error) {
	if m != nil {
		m.bad.WithLabelValues(stream.ErrorCode(err)).Inc()
	}
}

func (m *Metrics) holds(samples int64) {
	if m != nil {
		m.heldBytes.Set(float64(samples * sampleBytes))
	}
}

func (m *Metrics) waits(evaluations int) {
	if m != nil {
		m.waiting.Set(float64(evaluations))
	}
}
