package stage

import (
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/basecall/output"
	"github.com/porestream/porestream/metric"
	"github.com/porestream/porestream/stream"
)

// outcome is what became of a read, or of a part of one between signal gaps.
type outcome int

const (
	outcomeMapped outcome = iota
	outcomeUnmapped
	outcomeShort
	outcomeUnsupported // the model was made for another sample rate
	outcomeLowQuality
	outcomeUnclassified // no barcode of the run's samples
	outcomes
)

func (o outcome) String() string {
	return [outcomes]string{"mapped", "unmapped", "short", "unsupported", "low_quality", "unclassified"}[o]
}

// Metrics counts the stage's work. A nil *Metrics counts nothing.
type Metrics struct {
	aligned, chunks, duplicates, samples, gaps, gapSamples, lostEnds, cuts, stripped, timeouts prometheus.Counter
	earlySamples, partial                                                                      prometheus.Counter
	callDelay, lengths, qualities                                                              prometheus.Histogram
	held                                                                                       prometheus.Gauge
	reads                                                                                      *prometheus.CounterVec
	deadLetters                                                                                *prometheus.CounterVec

	// Barcodes are no label: a laboratory has as many as it has samples.
	mu       sync.Mutex
	barcodes map[string]int64
}

// NewMetrics registers the metrics with reg. deadLetters counts by stage and
// code and is shared by all stages.
func NewMetrics(reg prometheus.Registerer, deadLetters *prometheus.CounterVec) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "porestream_basecall_" + name, Help: help})
	}
	m := &Metrics{
		aligned:      counter("aligned_bases_total", "Bases of the reference that alignments of reads lie on. Over porestream_variant_reference_bases it is the mean depth, of all samples together."),
		chunks:       counter("chunks_total", "Signal chunks taken in."),
		duplicates:   counter("duplicate_chunks_total", "Signal chunks that were delivered before and dropped."),
		samples:      counter("chunk_samples_total", "Signal samples taken in."),
		gaps:         counter("gaps_total", "Places where signal of a read is missing."),
		gapSamples:   counter("gap_samples_total", "Signal samples that are missing within reads."),
		lostEnds:     counter("lost_ends_total", "Reads whose last chunk never came."),
		cuts:         counter("cuts_total", "Times that a read was cut to bound memory."),
		stripped:     counter("stripped_segments_total", "Segments of ultra-long reads that went without dwells, or qualities too, to fit a record."),
		timeouts:     counter("run_timeouts_total", "Runs that a partition ended because nothing of them had come for too long."),
		earlySamples: counter("early_samples_total", "Signal samples that were handed to the network's queue before their read had ended."),
		partial:      counter("partial_calls_total", "Times that what was called of a read was handed on before the read's end (--partial)."),
		callDelay: prometheus.NewHistogram(metric.Histogram("porestream_basecall_finish_duration_seconds",
			"Time from a read's last chunk, or from what else ended or cut it, to its finished call.",
			prometheus.ExponentialBuckets(0.005, 2, 14))),
		// From the shortest that a model can call to ultra-long reads.
		lengths: prometheus.NewHistogram(metric.Histogram("porestream_basecall_read_bases",
			"Bases of a read, or of a part between signal gaps, that was called, without adapters and barcodes.",
			prometheus.ExponentialBuckets(125, 2, 14))),
		qualities: prometheus.NewHistogram(metric.Histogram("porestream_basecall_read_quality_phred",
			"Quality of such a read: the mean error probability of its bases as a Phred score.",
			[]float64{4, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 22, 25, 30})),
		held: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "porestream_basecall_open_signal_bytes",
			Help: "Memory that reads take whose end has not come: their signal, and what has been called of it at most.",
		}),
		reads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "porestream_basecall_read_parts_total",
			Help: "Reads, or parts of reads between signal gaps, by what became of them.",
		}, []string{"outcome"}),
		deadLetters: deadLetters,
		barcodes:    make(map[string]int64),
	}
	reg.MustRegister(m.aligned, m.chunks, m.duplicates, m.samples, m.gaps, m.gapSamples, m.lostEnds, m.cuts, m.stripped, m.timeouts, m.earlySamples, m.partial, m.callDelay, m.lengths, m.qualities, m.held, m.reads)
	for o := range outcomes {
		m.reads.WithLabelValues(o.String())
	}
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

// handedOn counts that a read was handed on before its end.
func (m *Metrics) handedOn() {
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

// finished counts what a part of a read has become, without what library
// preparation put on it.
func (m *Metrics) finished(bases int, quality float64) {
	if m != nil {
		m.lengths.Observe(float64(bases))
		m.qualities.Observe(quality)
	}
}

// placed counts an alignment over bases of the reference.
func (m *Metrics) placed(bases int) {
	if m != nil {
		m.aligned.Add(float64(bases))
	}
}

// holds adds to the bytes of open reads.
func (m *Metrics) holds(bytes int) {
	if m != nil {
		m.held.Add(float64(bytes))
	}
}

func (m *Metrics) timeout() {
	if m != nil {
		m.timeouts.Inc()
	}
}

func (m *Metrics) strippedSegment() {
	if m != nil {
		m.stripped.Inc()
	}
}

// read counts what became of a read or a part of one; barcode is nil if none was looked for.
func (m *Metrics) read(o outcome, barcode *output.Barcode) {
	if m == nil {
		return
	}
	m.reads.WithLabelValues(o.String()).Inc()
	if barcode != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.barcodes[barcode.Name]++
	}
}

// Barcodes are the numbers of reads, or parts of reads, by the names of their barcodes, since the
// process began; empty if none are looked for.
func (m *Metrics) Barcodes() map[string]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.barcodes)
}

func (m *Metrics) deadLetter(err error) {
	if m != nil {
		m.deadLetters.WithLabelValues(Name, stream.ErrorCode(err)).Inc()
	}
}
