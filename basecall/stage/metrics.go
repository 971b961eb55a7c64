package stage

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/stream"
)

// outcome is what became of a read, or of a part of one between signal gaps.
type outcome int

const (
	outcomeMapped outcome = iota
	outcomeUnmapped
	outcomeShort
	outcomeUnsupported // the model was made for another sample rate
	outcomes
)

func (o outcome) String() string {
	return [outcomes]string{"mapped", "unmapped", "short", "unsupported"}[o]
}

// Metrics counts the stage's work. A nil *Metrics counts nothing.
type Metrics struct {
	chunks, duplicates, samples, gaps, gapSamples, lostEnds, cuts, stripped prometheus.Counter
	reads                                                                   *prometheus.CounterVec
	deadLetters                                                             *prometheus.CounterVec
}

// NewMetrics registers the metrics with reg. deadLetters counts by stage and
// code and is shared by all stages.
func NewMetrics(reg prometheus.Registerer, deadLetters *prometheus.CounterVec) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "porestream_basecall_" + name, Help: help})
	}
	m := &Metrics{
		chunks:     counter("chunks_total", "Signal chunks taken in."),
		duplicates: counter("duplicate_chunks_total", "Signal chunks that were delivered before and dropped."),
		samples:    counter("chunk_samples_total", "Signal samples taken in."),
		gaps:       counter("gaps_total", "Places where signal of a read is missing."),
		gapSamples: counter("gap_samples_total", "Signal samples that are missing within reads."),
		lostEnds:   counter("lost_ends_total", "Reads whose last chunk never came."),
		cuts:       counter("cuts_total", "Times that an overlong read was cut to bound memory."),
		stripped:   counter("stripped_segments_total", "Segments of ultra-long reads that went without dwells, or qualities too, to fit a record."),
		reads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "porestream_basecall_read_parts_total",
			Help: "Reads, or parts of reads between signal gaps, by what became of them.",
		}, []string{"outcome"}),
		deadLetters: deadLetters,
	}
	reg.MustRegister(m.chunks, m.duplicates, m.samples, m.gaps, m.gapSamples, m.lostEnds, m.cuts, m.stripped, m.reads)
	for o := range outcomes {
		m.reads.WithLabelValues(o.String())
	}
	return m
}

func (m *Metrics) chunk(samples int, res added) {
	if m == nil {
		return
	}
	m.chunks.Inc()
	if res.duplicate {
		m.duplicates.Inc()
		return
	}
	m.samples.Add(float64(samples))
	if res.gap > 0 {
		m.gaps.Inc()
		m.gapSamples.Add(float64(res.gap))
	}
	m.lostEnds.Add(float64(res.lostEnds))
	if res.cut {
		m.cuts.Inc()
	}
}

func (m *Metrics) lostEnd() {
	if m != nil {
		m.lostEnds.Inc()
	}
}

func (m *Metrics) strippedSegment() {
	if m != nil {
		m.stripped.Inc()
	}
}

func (m *Metrics) read(o outcome) {
	if m != nil {
		m.reads.WithLabelValues(o.String()).Inc()
	}
}

func (m *Metrics) deadLetter(err error) {
	if m != nil {
		m.deadLetters.WithLabelValues(Name, stream.ErrorCode(err)).Inc()
	}
}
