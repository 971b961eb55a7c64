// Package metric has what the Prometheus metrics of all packages share: the form
// of their histograms, and how several owners count in one metric.
package metric

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Native buckets grow by a tenth, so a quantile is off by 5 % at most. 160 of them
// cover six orders of magnitude, and are the most that a histogram takes of memory:
// one that sees more gets coarser, and fine again after an hour.
const (
	nativeFactor  = 1.1
	nativeBuckets = 160
	nativeReset   = time.Hour
)

// Histogram is a histogram in both of Prometheus' forms: native, for servers that
// scrape those, and with classic buckets at the upper bounds given, in the metric's
// unit, for all others. Its name ends with the unit.
func Histogram(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor:     nativeFactor,
		NativeHistogramMaxBucketNumber:  nativeBuckets,
		NativeHistogramMinResetDuration: nativeReset,
	}
}

// Share registers *c, or replaces it by its equal that is registered already: models
// of one process count in one metric, and so do clients of one registry.
func Share[C prometheus.Collector](reg prometheus.Registerer, c *C) error {
	err := reg.Register(*c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(C); ok {
			*c = existing
			return nil
		}
	}
	return err
}
