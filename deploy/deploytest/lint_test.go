package deploytest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
)

// families are the metrics as they would be scraped, with a series each. Those that
// no event has given a value yet are among them, which a scrape of a running program
// leaves out.
func families(metrics map[string]metric) []*dto.MetricFamily {
	kinds := map[string]dto.MetricType{"counter": dto.MetricType_COUNTER, "gauge": dto.MetricType_GAUGE, "histogram": dto.MetricType_HISTOGRAM}
	var all []*dto.MetricFamily
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		m, series := metrics[name], new(dto.Metric)
		for _, l := range m.labels {
			series.Label = append(series.Label, &dto.LabelPair{Name: proto.String(l), Value: proto.String("x")})
		}
		f := &dto.MetricFamily{Name: proto.String(name), Type: kinds[m.kind].Enum(), Metric: []*dto.Metric{series}}
		if m.help != "" {
			f.Help = proto.String(m.help)
		}
		all = append(all, f)
	}
	return all
}

func lint(t *testing.T, families []*dto.MetricFamily) []string {
	t.Helper()
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	require.NoError(t, err)
	var all []string
	for _, p := range problems {
		all = append(all, p.Metric+": "+p.Text)
	}
	return all
}

// The rules are those of promtool check metrics: base units, no unit or type in the
// wrong place, _total for counters and nothing else, a help text.
func TestMetricsKeepToPrometheusConventions(t *testing.T) {
	found := catalogue(t)
	assert.Empty(t, lint(t, families(found)))
	for name, m := range found {
		assert.True(t, strings.HasSuffix(m.help, "."), "%s: the help is no sentence", name)
	}
}

func TestLintFindsFaults(t *testing.T) {
	for _, m := range []metric{
		{name: "porestream_reads", kind: "counter", help: "A counter without _total."},
		{name: "porestream_wait_milliseconds", kind: "gauge", help: "No base unit."},
		{name: "porestream_reads_total", kind: "gauge", help: "A gauge with _total."},
		{name: "porestream_lag_records", kind: "gauge"},
		{name: "porestream_openReads", kind: "gauge", help: "Capitals."},
	} {
		assert.NotEmpty(t, lint(t, families(map[string]metric{m.name: m})), m.name)
	}
}

// Native for servers that can scrape them, classic for those that can't.
func TestHistogramsAreNativeAndClassic(t *testing.T) {
	catalogue(t)
	checked := 0
	for name, c := range collected.histograms {
		shape := observe(t, c)
		assert.NotEmpty(t, shape.GetBucket(), "%s has no classic buckets", name)
		assert.NotEmpty(t, shape.GetPositiveSpan(), "%s has no native buckets", name)
		checked++
	}
	n := 0
	for _, m := range collected.found {
		if m.kind == "histogram" {
			n++
		}
	}
	assert.Equal(t, n, checked)
	assert.Greater(t, n, 10)

	classic := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "porestream_x_seconds", Help: "X."})
	assert.Empty(t, observe(t, classic).GetPositiveSpan(), "the check can fail")
}

// observe puts a value into a histogram, or into one of a vector, and returns it.
func observe(t *testing.T, c prometheus.Collector) *dto.Histogram {
	t.Helper()
	var one prometheus.Metric
	switch c := c.(type) {
	case prometheus.Histogram:
		c.Observe(0.3)
		one = c
	case *prometheus.HistogramVec:
		descs := make(chan *prometheus.Desc, 1)
		c.Describe(descs)
		m, err := describe((<-descs).String(), c)
		require.NoError(t, err)
		h, err := c.GetMetricWithLabelValues(slices.Repeat([]string{"x"}, len(m.labels))...)
		require.NoError(t, err)
		h.Observe(0.3)
		one = h.(prometheus.Histogram)
	default:
		require.Fail(t, fmt.Sprintf("%T is no histogram", c))
	}
	var out dto.Metric
	require.NoError(t, one.Write(&out))
	return out.GetHistogram()
}
