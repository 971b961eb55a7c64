package stage

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/modbase/stage/methylation"
	"github.com/porestream/porestream/stream"
)

// Metrics counts the stage's work. A nil *Metrics counts nothing.
type Metrics struct {
	segments, repeated, called prometheus.Counter
	searches                   prometheus.Counter
	stretches                  *prometheus.CounterVec
	deadLetters                *prometheus.CounterVec
}

// NewMetrics registers the metrics with reg. deadLetters counts by stage and code and is shared by all stages.
func NewMetrics(reg prometheus.Registerer, deadLetters *prometheus.CounterVec) *Metrics {
	m := &Metrics{
		segments: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "porestream_methylate_segments_total",
			Help: "Segments of primary alignments taken into the pile-up of modified bases.",
		}),
		called: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "porestream_methylate_called_segments_total",
			Help: "Segments, of these, whose read says something of modified bases.",
		}),
		repeated: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "porestream_methylate_repeated_segments_total",
			Help: "Segments that were in the pile-up of modified bases already.",
		}),
		searches: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "porestream_methylate_motif_searches_total",
			Help: "Motifs of a sample that were handed to the variant stage: while its runs go on when they have changed, and of all of its reads.",
		}),
		stretches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "porestream_methylate_stretches_total",
			Help: "Revisions of counts of modified bases, each of a modification in a stretch, by status.",
		}, []string{"status"}),
		deadLetters: deadLetters,
	}
	reg.MustRegister(m.segments, m.called, m.repeated, m.searches, m.stretches)
	for _, s := range []string{methylation.Provisional, methylation.Final} {
		m.stretches.WithLabelValues(strings.ToLower(s))
	}
	return m
}

func (m *Metrics) segment(isNew, called bool) {
	switch {
	case m == nil:
	case !isNew:
		m.repeated.Inc()
	default:
		m.segments.Inc()
		if called {
			m.called.Inc()
		}
	}
}

func (m *Metrics) stretch(s *methylation.Stretch) {
	if m != nil {
		m.stretches.WithLabelValues(strings.ToLower(s.Status)).Inc()
	}
}

func (m *Metrics) motifs() {
	if m != nil {
		m.searches.Inc()
	}
}

func (m *Metrics) deadLetter(err error) {
	if m != nil {
		m.deadLetters.WithLabelValues(Name, stream.ErrorCode(err)).Inc()
	}
}
