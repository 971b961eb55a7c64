package stage

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	alignstage "github.com/porestream/porestream/align/stage"
	"github.com/porestream/porestream/metric"
	"github.com/porestream/porestream/stream"
)

// Metrics counts the stage's work. A nil *Metrics counts nothing.
type Metrics struct {
	*alignstage.PlacerMetrics
	chunks, duplicates, samples, gaps, gapSamples, lostEnds, cuts, timeouts prometheus.Counter
	earlySamples, partial, modifiedBases                                    prometheus.Counter
	modifiedParts                                                           *prometheus.CounterVec
	callDelay                                                               prometheus.Histogram
	held, waiting                                                           prometheus.Gauge
	deadLetters                                                             *prometheus.CounterVec
}

// NewMetrics registers the metrics with reg. deadLetters counts by stage and
// code and is shared by all stages.
func NewMetrics(reg prometheus.Registerer, deadLetters *prometheus.CounterVec) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "porestream_basecall_" + name, Help: help})
	}
	m := &Metrics{
		PlacerMetrics: alignstage.NewPlacerMetrics(reg, Name),
		chunks:        counter("chunks_total", "Signal chunks taken in."),
		duplicates:    counter("duplicate_chunks_total", "Signal chunks that were delivered before and dropped."),
		samples:       counter("chunk_samples_total", "Signal samples taken in."),
		gaps:          counter("gaps_total", "Places where signal of a read is missing."),
		gapSamples:    counter("gap_samples_total", "Signal samples that are missing within reads."),
		lostEnds:      counter("lost_ends_total", "Reads whose last chunk never came."),
		cuts:          counter("cuts_total", "Times that a read was cut to bound memory."),
		timeouts:      counter("run_timeouts_total", "Runs that a partition ended because nothing of them had come for too long."),
		earlySamples:  counter("early_samples_total", "Signal samples that were handed to the network's queue before their read had ended."),
		partial:       counter("partial_calls_total", "Times that what was called of a read was published before the read's end (--partial)."),
		callDelay: prometheus.NewHistogram(metric.Histogram("porestream_basecall_finish_duration_seconds",
			"Time from a read's last chunk, or from what else ended or cut it, to its finished call.",
			prometheus.ExponentialBuckets(0.005, 2, 14))),
		held: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "porestream_basecall_open_signal_bytes",
			Help: "Memory that reads take whose end has not come: their signal, and what has been called of it at most.",
		}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "porestream_basecall_waiting_reads",
			Help: "Reads that have ended and wait for their model, which is being loaded.",
		}),
		modifiedBases: counter("modified_bases_judged_total", "Bases of reads that models of --modified-bases have scored."),
		modifiedParts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "porestream_basecall_modified_parts_total",
			Help: "Called reads, or parts of them between signal gaps, by what --modified-bases came to: called; no_model (none is for the run); no_numbers (its scores were none).",
		}, []string{"result"}),
		deadLetters: deadLetters,
	}
	for _, result := range []string{modifiedCalled, modifiedNoModel, modifiedNoNumbers} {
		m.modifiedParts.WithLabelValues(result)
	}
	reg.MustRegister(m.modifiedBases, m.modifiedParts)
	reg.MustRegister(m.chunks, m.duplicates, m.samples, m.gaps, m.gapSamples, m.lostEnds, m.cuts, m.timeouts, m.earlySamples, m.partial, m.callDelay, m.held, m.waiting)
	return m
}

// followed counts what came of a record.
func (m *Metrics) followed(e effects) {
	if m == nil {
		return
	}
	m.lostEnds.Add(float64(e.added.lostEnds))
	m.cuts.Add(float64(e.added.cuts))
	if e.chunk == nil {
		return
	}
	m.chunks.Inc()
	if e.added.duplicate {
		m.duplicates.Inc()
		return
	}
	m.samples.Add(float64(e.chunk.GetSampleCount()))
}

// missing counts the gaps of a read that was finished.
func (m *Metrics) missing(gaps int, samples uint64) {
	if m != nil {
		m.gaps.Add(float64(gaps))
		m.gapSamples.Add(float64(samples))
	}
}

// early counts samples of open reads that were written to be called.
func (m *Metrics) early(samples int) {
	if m != nil {
		m.earlySamples.Add(float64(samples))
	}
}

// partialPublished counts that a read was published before its end.
func (m *Metrics) partialPublished() {
	if m != nil {
		m.partial.Inc()
	}
}

// called counts a finished call.
func (m *Metrics) called(after time.Duration) {
	if m != nil {
		m.callDelay.Observe(after.Seconds())
	}
}

// What calling the modified bases of a part came to.
const (
	modifiedCalled    = "called"
	modifiedNoModel   = "no_model"
	modifiedNoNumbers = "no_numbers"
)

// modified counts a part whose modified bases were to be called, and the bases that were scored.
func (m *Metrics) modified(result string, bases int) {
	if m != nil {
		m.modifiedParts.WithLabelValues(result).Inc()
		m.modifiedBases.Add(float64(bases))
	}
}

// holds adds to the bytes of open reads.
func (m *Metrics) holds(bytes int) {
	if m != nil {
		m.held.Add(float64(bytes))
	}
}

// waits adds to the reads that wait for their model.
func (m *Metrics) waits(reads int) {
	if m != nil {
		m.waiting.Add(float64(reads))
	}
}

// placer are the metrics of what follows calls.
func (m *Metrics) placer() *alignstage.PlacerMetrics {
	if m == nil {
		return nil
	}
	return m.PlacerMetrics
}

func (m *Metrics) timeout() {
	if m != nil {
		m.timeouts.Inc()
	}
}

func (m *Metrics) deadLetter(err error) {
	if m != nil {
		m.deadLetters.WithLabelValues(Name, stream.ErrorCode(err)).Inc()
	}
}
