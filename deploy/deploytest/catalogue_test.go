package deploytest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/ingest/folder"
	"github.com/porestream/porestream/ingest/minknow"
	"github.com/porestream/porestream/ingest/push"
	"github.com/porestream/porestream/ingest/sources"
	"github.com/porestream/porestream/internal/notify"
	"github.com/porestream/porestream/internal/processor"
	"github.com/porestream/porestream/internal/tracing"
	"github.com/porestream/porestream/monitor/ops"
	"github.com/porestream/porestream/monitor/report"
	"github.com/porestream/porestream/stream/embedded"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/variant/network/networktest"
)

// metric is one metric that the code registers.
type metric struct {
	name, kind, help string
	labels           []string
}

// catalogue is every porestream metric of every program, by name. The programs'
// own constructors say what there is.
func catalogue(t *testing.T) map[string]metric {
	t.Helper()
	if _, err := infer.FindLibrary(""); err != nil {
		t.Skip("the basecaller's metrics need ONNX Runtime: ", err)
	}
	// Any variant model has the metrics of them all.
	model := networktest.Folder(t, networktest.Spec{})
	collected.Do(func() { collected.err = collect(t.Context(), model) })
	require.NoError(t, collected.err)
	return collected.found
}

// collected is what collect returned to the first test.
var collected struct {
	sync.Once
	found      map[string]metric
	histograms map[string]prometheus.Collector
	families   []*dto.MetricFamily // the series that are there from the start
	err        error
}

func collect(ctx context.Context, variantModel string) error {
	registry := ops.NewRegistry("test")
	collected.found, collected.histograms = make(map[string]metric), make(map[string]prometheus.Collector)
	r := &recorder{Registerer: registry, found: collected.found}
	// The registry comes with metrics that r didn't see.
	families, err := registry.Gather()
	if err != nil {
		return err
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "porestream_") {
			continue // the Go runtime's and the process's
		}
		m := metric{name: f.GetName(), kind: strings.ToLower(f.GetType().String()), help: f.GetHelp()}
		for _, l := range f.GetMetric()[0].GetLabel() {
			m.labels = append(m.labels, l.GetName())
		}
		r.found[m.name] = m
	}

	tracing.NewMetrics(r)
	ofSource := &recorder{Registerer: prometheus.WrapRegistererWith(prometheus.Labels{"source": "play"}, registry), found: r.found, labels: []string{"source"}}
	ingest.NewMetrics(ofSource)
	push.NewMetrics(ofSource)
	minknow.NewMetrics(ofSource)
	folder.NewMetrics(ofSource)
	if ofSource.err != nil {
		return ofSource.err
	}
	r.MustRegister(sources.NewCollector(sources.New(sources.Config{}), nil))
	processor.NewMetrics(r)
	report.New(report.Config{Registerer: r})
	notify.NewMetrics(r)

	lambda := filepath.Join("..", "..", "testdata", "lambda")
	stages, err := processor.ParseStages("", processor.Work{})
	if err != nil {
		return err
	}
	engines, err := processor.Load(ctx, processor.Options{
		Stages: stages, Registerer: r,
		Flags: processor.Flags{Reference: filepath.Join(lambda, "reference.fa"), Device: "cpu", Calling: processor.Calling{Model: variantModel}},
	})
	if err != nil {
		return err
	}
	if err := engines.Close(); err != nil {
		return err
	}
	// Where runs have models of their own.
	if engines, err = processor.Load(ctx, processor.Options{
		Stages: []string{"basecall"}, Registerer: r,
		Flags: processor.Flags{
			Reference: filepath.Join(lambda, "reference.fa"), Device: "cpu", RunModels: processor.RunModels{Dir: filepath.Join("..", "..", "models")},
		},
	}); err != nil {
		return err
	}
	if err := engines.Close(); err != nil {
		return err
	}

	dir, err := os.MkdirTemp("", "deploytest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	broker, err := embedded.Start(embedded.Config{DataDir: filepath.Join(dir, "broker")})
	if err != nil {
		return err
	}
	defer broker.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := kafka.Connect(ctx, kafka.Config{Brokers: []string{broker.Addr()}, Registerer: r})
	if err != nil {
		return err
	}
	client.Close()
	collected.families, err = registry.Gather()
	return errors.Join(r.err, err)
}

// recorder is a registerer that remembers what is registered, also that which
// has no value yet.
type recorder struct {
	prometheus.Registerer
	labels []string // that the program adds to all of these
	found  map[string]metric
	err    error
}

func (r *recorder) Register(c prometheus.Collector) error {
	if err := r.Registerer.Register(c); err != nil {
		return err
	}
	descs := make(chan *prometheus.Desc)
	go func() { c.Describe(descs); close(descs) }()
	for d := range descs {
		m, err := describe(d.String(), c)
		if err != nil {
			r.err = err
			continue
		}
		m.labels = append(slices.Clone(r.labels), m.labels...)
		if r.found[m.name] = m; m.kind == "histogram" {
			collected.histograms[m.name] = c
		}
	}
	return nil
}

func (r *recorder) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

// descPattern is how the client library prints a description, the only way in
// which it shows one.
var descPattern = regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*")(?:, unit: "[^"]*")?, constLabels: \{\}, variableLabels: \{([^}]*)\}`)

func describe(desc string, c prometheus.Collector) (metric, error) {
	m := descPattern.FindStringSubmatch(desc)
	if m == nil {
		return metric{}, fmt.Errorf("unexpected description %s", desc)
	}
	name, err := strconv.Unquote(m[1])
	if err != nil {
		return metric{}, err
	}
	help, err := strconv.Unquote(m[2])
	if err != nil {
		return metric{}, err
	}
	out := metric{name: name, help: help}
	if m[3] != "" {
		out.labels = strings.Split(m[3], ",")
	}
	switch c.(type) {
	case *prometheus.CounterVec:
		out.kind = "counter"
	case *prometheus.GaugeVec, prometheus.Gauge: // before Counter, whose methods a gauge has too
		out.kind = "gauge"
	case *prometheus.HistogramVec, prometheus.Histogram:
		out.kind = "histogram"
	case prometheus.Counter:
		out.kind = "counter"
	case *sources.Collector: // of several
		if out.kind = "gauge"; strings.HasSuffix(name, "_total") {
			out.kind = "counter"
		}
	default:
		return metric{}, fmt.Errorf("metric %s has the unknown type %T", name, c)
	}
	return out, nil
}

// series is what a metric is exported as: names and their labels.
func series(metrics map[string]metric) map[string][]string {
	out := make(map[string][]string)
	for name, m := range metrics {
		labels := append([]string{"job", "instance"}, m.labels...)
		if m.kind != "histogram" {
			out[name] = labels
			continue
		}
		out[name+"_bucket"] = append(slices.Clone(labels), "le")
		out[name+"_sum"], out[name+"_count"] = labels, labels
	}
	// Prometheus' own, and those of dcgm-exporter's default list that are shown.
	out["up"] = []string{"job", "instance"}
	out["ALERTS"] = []string{"alertname", "alertstate", "severity"}
	for _, name := range []string{"GPU_UTIL", "FB_USED", "POWER_USAGE", "GPU_TEMP", "XID_ERRORS"} {
		out["DCGM_FI_DEV_"+name] = []string{"gpu", "Hostname"}
	}
	out["DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"] = []string{"gpu", "Hostname"}
	return out
}

func TestCatalogue(t *testing.T) {
	found := catalogue(t)
	for _, name := range []string{
		"porestream_build_info", "porestream_ingest_samples_total", "porestream_basecall_bases_total",
		"porestream_infer_batches_total", "porestream_stream_lag_records", "porestream_dead_letters_total",
	} {
		require.Contains(t, slices.Sorted(maps.Keys(found)), name)
	}
	require.Equal(t, "histogram", found["porestream_end_to_end_latency_seconds"].kind)
	require.Equal(t, "gauge", found["porestream_ingest_lateness_seconds"].kind)
	require.Equal(t, "counter", found["porestream_ingest_samples_total"].kind)
	require.Equal(t, []string{"topic", "partition"}, found["porestream_stream_lag_records"].labels)
	for name, m := range found {
		require.NotEmpty(t, m.help, name)
		require.Equal(t, m.kind == "counter", strings.HasSuffix(name, "_total"), "%s is a %s", name, m.kind)
	}
}
