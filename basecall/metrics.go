package basecall

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/metric"
)

// metrics counts what a Caller returns. A nil *metrics counts nothing.
type metrics struct {
	reads, samples, bases prometheus.Counter
}

// newMetrics registers the metrics of a model; with a nil registerer it returns nil.
func newMetrics(reg prometheus.Registerer, model string) (*metrics, error) {
	if reg == nil {
		return nil, nil
	}
	counter := func(name, help string) (prometheus.Counter, error) {
		vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"model"})
		if err := metric.Share(reg, &vec); err != nil {
			return nil, err
		}
		return vec.WithLabelValues(model), nil
	}
	reads, err1 := counter("porestream_basecall_reads_total", "Reads basecalled.")
	samples, err2 := counter("porestream_basecall_samples_total", "Samples of the reads basecalled, each counted once.")
	bases, err3 := counter("porestream_basecall_bases_total", "Bases called.")
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	return &metrics{reads, samples, bases}, nil
}

func (m *metrics) called(c Called) {
	if m != nil {
		m.reads.Inc()
		m.samples.Add(float64(c.NumSamples))
		m.bases.Add(float64(len(c.Sequence)))
	}
}
