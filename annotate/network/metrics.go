package network

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/metric"
)

// metrics counts what a Scorer is asked. Batches and their durations are counted by package infer. A nil *metrics counts
// nothing.
type metrics struct {
	alleles  prometheus.Counter
	duration prometheus.Observer
}

// newMetrics registers the metrics; with a nil registerer it returns nil.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	if reg == nil {
		return nil, nil
	}
	alleles := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "porestream_annotate_scored_total",
		Help: "Alleles that sequence networks scored.",
	})
	duration := prometheus.NewHistogram(metric.Histogram("porestream_annotate_score_duration_seconds",
		"Time that sequence networks took for the alleles that were scored together.",
		prometheus.ExponentialBuckets(0.001, 2, 16)))
	err := errors.Join(metric.Share(reg, &alleles), metric.Share(reg, &duration))
	if err != nil {
		return nil, err
	}
	return &metrics{alleles: alleles, duration: duration}, nil
}

func (m *metrics) scored(scores [][]annotate.Score, d time.Duration) {
	if m == nil {
		return
	}
	n := 0
	for _, s := range scores {
		if len(s) > 0 {
			n++
		}
	}
	if n > 0 {
		m.alleles.Add(float64(n))
		m.duration.Observe(d.Seconds())
	}
}
