package metric_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/metric"
)

func TestHistogramHasBothForms(t *testing.T) {
	reg := prometheus.NewRegistry()
	h := prometheus.NewHistogram(metric.Histogram("porestream_wait_seconds", "Wait.", []float64{1, 2}))
	reg.MustRegister(h)
	h.Observe(1.5)
	families, err := reg.Gather()
	require.NoError(t, err)
	got := families[0].GetMetric()[0].GetHistogram()
	require.Len(t, got.GetBucket(), 2)
	assert.Equal(t, uint64(0), got.GetBucket()[0].GetCumulativeCount())
	assert.Equal(t, uint64(1), got.GetBucket()[1].GetCumulativeCount())
	assert.Len(t, got.GetPositiveDelta(), 1, "no native bucket")
	// A schema of n has buckets that grow by 2^(2^-n).
	assert.Equal(t, int32(3), got.GetSchema())
}

func TestShare(t *testing.T) {
	reg := prometheus.NewRegistry()
	first := prometheus.NewCounter(prometheus.CounterOpts{Name: "porestream_things_total", Help: "Things."})
	second := prometheus.NewCounter(prometheus.CounterOpts{Name: "porestream_things_total", Help: "Things."})
	require.NoError(t, metric.Share(reg, &first))
	require.NoError(t, metric.Share(reg, &second))
	assert.Same(t, first, second)

	// What has the name and is another thing is an error, not a silent second metric.
	other := prometheus.NewGauge(prometheus.GaugeOpts{Name: "porestream_things_total", Help: "Others."})
	require.Error(t, metric.Share(reg, &other))
}
