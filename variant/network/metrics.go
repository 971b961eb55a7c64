package network

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/metric"
)

// metrics counts what a Network is asked. Batches and their durations are counted
// by package infer. A nil *metrics counts nothing.
type metrics struct {
	examples prometheus.Counter
	duration prometheus.Observer
}

// newMetrics registers the metrics of a model; with a nil registerer it returns nil.
func newMetrics(reg prometheus.Registerer, model string) (*metrics, error) {
	if reg == nil {
		return nil, nil
	}
	labels := []string{"model"}
	examples := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "porestream_variant_examples_total",
		Help: "Alleles that a network scored.",
	}, labels)
	duration := prometheus.NewHistogramVec(metric.Histogram("porestream_variant_judge_duration_seconds",
		"Time that variant calling waited for a network to score all alleles of one evaluation.",
		prometheus.ExponentialBuckets(0.001, 2, 14)), labels)
	err := errors.Join(metric.Share(reg, &examples), metric.Share(reg, &duration))
	if err != nil {
		return nil, err
	}
	return &metrics{examples: examples.WithLabelValues(model), duration: duration.WithLabelValues(model)}, nil
}

func (m *metrics) scored(examples int, d time.Duration) {
	if m != nil {
		m.examples.Add(float64(examples))
		m.duration.Observe(d.Seconds())
	}
}
