package stage

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/align/primer"
	"github.com/porestream/porestream/basecall/output"
	"github.com/porestream/porestream/demux"
	"github.com/porestream/porestream/metric"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/record"
	"github.com/porestream/porestream/stream"
)

// PlacerMetrics count what became of called reads. A nil *PlacerMetrics counts nothing.
type PlacerMetrics struct {
	// Parts counts reads and parts of reads by outcome, Aligned the bases of the reference
	// that alignments lie on.
	Parts              *prometheus.CounterVec
	without            *prometheus.CounterVec // parts without a barcode, by why
	Aligned            prometheus.Counter
	stripped           prometheus.Counter
	faults             *prometheus.CounterVec // tags of modified bases that can't be used, by why
	ends               *prometheus.CounterVec // alignments by how their ends lie in primers
	lengths, qualities prometheus.Histogram

	// Barcodes are no label: a laboratory has as many as it has samples.
	mu       sync.Mutex
	barcodes map[string]int64
	faulty   map[string]bool       // reasons that were logged
	unlisted map[modbase.Code]bool // codes that were logged
}

// NewPlacerMetrics registers the metrics of a stage's placer with reg.
func NewPlacerMetrics(reg prometheus.Registerer, stage string) *PlacerMetrics {
	prefix := "porestream_" + stage + "_"
	m := &PlacerMetrics{
		barcodes: make(map[string]int64), faulty: make(map[string]bool), unlisted: make(map[modbase.Code]bool),
		Aligned: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "aligned_bases_total",
			Help: "Bases of the reference that alignments of reads lie on. Over porestream_variant_reference_bases it is the mean depth, of all samples together.",
		}),
		stripped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "stripped_segments_total",
			Help: "Segments of ultra-long reads that went without dwells, or modified bases and qualities too, to fit a record.",
		}),
		ends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "primer_ends_total",
			Help: "Alignments by how their ends lie in primers (--primers): both of one amplicon, mixed of two, one end, none, or nothing_left but primers.",
		}, []string{"ends"}),
		// From the shortest that a model can call to ultra-long reads.
		lengths: prometheus.NewHistogram(metric.Histogram(prefix+"read_bases",
			"Bases of a read, or of a part between signal gaps, that was called, without adapters and barcodes.",
			prometheus.ExponentialBuckets(125, 2, 14))),
		qualities: prometheus.NewHistogram(metric.Histogram(prefix+"read_quality_phred",
			"Quality of such a read: the mean error probability of its bases as a Phred score.",
			[]float64{4, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 22, 25, 30})),
		Parts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "read_parts_total",
			Help: "Reads, or parts of reads between signal gaps, by what became of them.",
		}, []string{"outcome"}),
		without: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "read_parts_without_barcode_total",
			Help: "Reads, or parts of reads, on which a barcode was searched for and none found, by why.",
		}, []string{"reason"}),
	}
	if stage == Name { // the only one whose reads come with tags
		m.faults = prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "modified_base_faults_total",
			Help: "Reads whose tags of modified bases can't be used, by why; they count as reads without calls.",
		}, []string{"reason"})
		reg.MustRegister(m.faults)
		for _, reason := range record.Reasons() {
			m.faults.WithLabelValues(reason)
		}
	}
	reg.MustRegister(m.Aligned, m.stripped, m.lengths, m.qualities, m.Parts, m.without, m.ends)
	for _, reason := range demux.Reasons[1:] { // the first is that there is one
		m.without.WithLabelValues(reason)
	}
	for e := range primer.Kinds {
		m.ends.WithLabelValues(e.String())
	}
	for o := range Outcomes {
		m.Parts.WithLabelValues(o.String())
	}
	return m
}

// Part counts what became of a read or a part of one; barcode is nil if none was searched for.
func (m *PlacerMetrics) Part(o Outcome, barcode *output.Barcode) {
	if m == nil {
		return
	}
	m.Parts.WithLabelValues(o.String()).Inc()
	if barcode != nil {
		if barcode.Reason != "" {
			m.without.WithLabelValues(barcode.Reason).Inc()
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.barcodes[barcode.Name]++
	}
}

// primed counts how the ends of an alignment lie in primers.
func (m *PlacerMetrics) primed(e primer.Ends) {
	if m != nil {
		m.ends.WithLabelValues(e.String()).Inc()
	}
}

// Barcodes are the numbers of reads, or parts of reads, by the names of their barcodes, since the
// process began; empty if none are searched for.
func (m *PlacerMetrics) Barcodes() map[string]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.barcodes)
}

// Finished counts what a finished part of a read is like, if it was called at all.
func (m *PlacerMetrics) Finished(p Part) {
	if m != nil && (p.Outcome == Mapped || p.Outcome == LowQuality) {
		m.lengths.Observe(float64(len(p.Called.Sequence)))
		m.qualities.Observe(p.Called.MeanQuality)
	}
}

// placed counts an alignment over bases of the reference.
func (m *PlacerMetrics) placed(bases int) {
	if m != nil {
		m.Aligned.Add(float64(bases))
	}
}

func (m *PlacerMetrics) strippedSegment() {
	if m != nil {
		m.stripped.Inc()
	}
}

// maxUnlisted bounds the codes that are logged.
const maxUnlisted = 100

// modifiedFault counts tags that can't be used, and reports whether they are the first for this reason.
func (m *PlacerMetrics) modifiedFault(reason string) bool {
	if m == nil {
		return false
	}
	if m.faults != nil {
		m.faults.WithLabelValues(reason).Inc()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := m.faulty[reason]
	m.faulty[reason] = true
	return !seen
}

// unlistedCode reports whether a code comes up for the first time.
func (m *PlacerMetrics) unlistedCode(code modbase.Code) bool {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unlisted[code] || len(m.unlisted) == maxUnlisted {
		return false
	}
	m.unlisted[code] = true
	return true
}

// Metrics counts the align stage's work. A nil *Metrics counts nothing.
type Metrics struct {
	*PlacerMetrics
	reads, bases, timeouts prometheus.Counter
	deadLetters            *prometheus.CounterVec
}

// NewMetrics registers the metrics with reg. deadLetters counts by stage and
// code and is shared by all stages.
func NewMetrics(reg prometheus.Registerer, deadLetters *prometheus.CounterVec) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "porestream_align_" + name, Help: help})
	}
	m := &Metrics{
		PlacerMetrics: NewPlacerMetrics(reg, Name),
		reads:         counter("reads_total", "Called reads taken in."),
		bases:         counter("bases_total", "Bases of called reads taken in."),
		timeouts:      counter("run_timeouts_total", "Runs that a partition ended because nothing of them had come for too long."),
		deadLetters:   deadLetters,
	}
	reg.MustRegister(m.reads, m.bases, m.timeouts)
	return m
}

func (m *Metrics) took(bases uint32) {
	if m != nil {
		m.reads.Inc()
		m.bases.Add(float64(bases))
	}
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

func (m *Metrics) placer() *PlacerMetrics {
	if m == nil {
		return nil
	}
	return m.PlacerMetrics
}
