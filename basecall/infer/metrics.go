package infer

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/metric"
)

// Metrics counts what a batcher does for one model. A nil *Metrics counts nothing.
type Metrics struct {
	batches  *prometheus.CounterVec // by dispatch
	failures prometheus.Counter
	items    prometheus.Observer
	queue    prometheus.Gauge
	queued   prometheus.Observer
	computed prometheus.Observer
	samples  prometheus.Counter
	padding  prometheus.Counter
	left     prometheus.Gauge
	kernels  prometheus.Gauge
	decodes  prometheus.Gauge
	refused  *prometheus.GaugeVec // by why
}

// NewMetrics registers the metrics of a model on a device and returns them. With
// a nil registerer it returns nil. Several models may share a registerer.
func NewMetrics(reg prometheus.Registerer, model, device string) (*Metrics, error) {
	if reg == nil {
		return nil, nil
	}
	labels := []string{"model"}
	batches := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "porestream_infer_batches_total",
		Help: "Batches computed, by the reason for which they were sent: full, delay, drain, short (last windows of reads) or, after a failure, retry.",
	}, []string{"model", "dispatch"})
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "porestream_infer_batch_failures_total",
		Help: "Batches that the runtime failed to compute.",
	}, labels)
	items := prometheus.NewHistogramVec(metric.Histogram("porestream_infer_batch_items",
		"Windows per batch, without padding.", prometheus.ExponentialBuckets(1, 2, 12)), labels)
	queue := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "porestream_infer_queue_windows",
		Help: "Windows that wait for a batch.",
	}, labels)
	queued := prometheus.NewHistogramVec(metric.Histogram("porestream_infer_queue_duration_seconds",
		"Time that a window waited for its batch.", prometheus.ExponentialBuckets(0.001, 2, 14)), labels)
	computed := prometheus.NewHistogramVec(metric.Histogram("porestream_infer_compute_duration_seconds",
		"Time that the runtime took for a batch.", prometheus.ExponentialBuckets(0.001, 2, 14)), labels)
	samples := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "porestream_infer_samples_total",
		Help: "Samples of windows computed, without padding to the batch size.",
	}, labels)
	padding := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "porestream_infer_padding_samples_total",
		Help: "Samples computed only to fill a batch to its fixed size.",
	}, labels)
	left := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "porestream_infer_cpu_nodes",
		Help: "Nodes of the network that a GPU leaves to the CPU, which slows it down; 0 on a CPU.",
	}, labels)
	kernels := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "porestream_infer_kernel_layers",
		Help: "Layers of the network that a GPU computes with Porestream's own kernels.",
	}, labels)
	decodes := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "porestream_infer_kernel_decodes",
		Help: "1 if a GPU decodes the network's scores with Porestream's own kernel, 0 if the CPU does.",
	}, labels)
	refused := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "porestream_infer_kernels_refused",
		Help: "1 for the reason why a GPU computes the network without Porestream's kernels: library, network, device or result; else 0.",
	}, []string{"model", "why"})
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "porestream_infer_info",
		Help: "Always 1; names the device that a model runs on.",
	}, []string{"model", "device"})

	err := errors.Join(metric.Share(reg, &batches), metric.Share(reg, &failures), metric.Share(reg, &items),
		metric.Share(reg, &queue), metric.Share(reg, &queued), metric.Share(reg, &computed),
		metric.Share(reg, &samples), metric.Share(reg, &padding), metric.Share(reg, &left),
		metric.Share(reg, &kernels), metric.Share(reg, &decodes), metric.Share(reg, &refused), metric.Share(reg, &info))
	if err != nil {
		return nil, err
	}
	info.WithLabelValues(model, device).Set(1)
	m := &Metrics{
		batches:  batches.MustCurryWith(prometheus.Labels{"model": model}),
		failures: failures.WithLabelValues(model),
		items:    items.WithLabelValues(model),
		queue:    queue.WithLabelValues(model),
		queued:   queued.WithLabelValues(model),
		computed: computed.WithLabelValues(model),
		samples:  samples.WithLabelValues(model),
		padding:  padding.WithLabelValues(model),
		left:     left.WithLabelValues(model),
		kernels:  kernels.WithLabelValues(model),
		decodes:  decodes.WithLabelValues(model),
		refused:  refused.MustCurryWith(prometheus.Labels{"model": model}),
	}
	for _, reason := range []Dispatch{DispatchFull, DispatchDelay, DispatchDrain, DispatchShort, DispatchRetry} {
		m.batches.WithLabelValues(reason.String()) // so that a rate exists from the start
	}
	return m, nil
}

// LeftToCPU says how many nodes a GPU leaves to the CPU.
func (m *Metrics) LeftToCPU(nodes int) {
	if m != nil {
		m.left.Set(float64(nodes))
	}
}

// Kernels says what operators of our own compute.
func (m *Metrics) Kernels(k Kernels) {
	if m == nil {
		return
	}
	m.kernels.Set(float64(k.Layers))
	m.decodes.Set(0)
	if k.Decodes {
		m.decodes.Set(1)
	}
	for _, why := range refusals {
		refused := 0.
		if why == k.Refused {
			refused = 1
		}
		m.refused.WithLabelValues(string(why)).Set(refused)
	}
}

func (m *Metrics) queueLength(n int) {
	if m != nil {
		m.queue.Set(float64(n))
	}
}

func (m *Metrics) queueDuration(d time.Duration) {
	if m != nil {
		m.queued.Observe(d.Seconds())
	}
}

// batch counts one batch of requests for which the runner computed as many rows.
func (m *Metrics) batch(reason Dispatch, batch []*Request, computed int, d time.Duration, err error) {
	if m == nil {
		return
	}
	m.batches.WithLabelValues(reason.String()).Inc()
	m.items.Observe(float64(len(batch)))
	m.computed.Observe(d.Seconds())
	if err != nil {
		m.failures.Inc()
		return
	}
	window := len(batch[0].Input)
	m.samples.Add(float64(len(batch) * window))
	m.padding.Add(float64((computed - len(batch)) * window))
}
