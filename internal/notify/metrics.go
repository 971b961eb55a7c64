package notify

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/metric"
)

// What can become of an alert for a destination; the codes of dead letters are the others.
const (
	outcomeDelivered = "delivered"
	outcomeUnwanted  = "unwanted"
)

// Results of a try.
const (
	resultOK      = "ok"
	resultFailed  = "failed"
	resultTimeout = "timeout"
	resultRefused = "refused"
)

// Metrics counts what destinations get.
type Metrics struct {
	alerts, tries *prometheus.CounterVec
	waiting       *prometheus.GaugeVec
	latencies     *prometheus.HistogramVec
}

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		alerts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "porestream_notify_alerts_total",
			Help: "Alerts dealt with for a destination, by what became of them: delivered, unwanted (by its states or its expression), and as dead letters refused, expired and unreadable.",
		}, []string{"destination", "outcome"}),
		tries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "porestream_notify_tries_total",
			Help: "Times that an alert was sent to a destination, by result: ok, failed, timeout or refused.",
		}, []string{"destination", "result"}),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "porestream_notify_waiting",
			Help: "Partitions of the alerts topic whose next alert waits to be sent to the destination again. More than 0 for minutes: the receiver is away.",
		}, []string{"destination"}),
		latencies: prometheus.NewHistogramVec(metric.Histogram("porestream_notify_latency_seconds",
			"From when an alert was written to the alerts topic until the destination had it.",
			prometheus.ExponentialBuckets(0.01, 4, 12)), []string{"destination"}),
	}
	reg.MustRegister(m.alerts, m.tries, m.waiting, m.latencies)
	return m
}

// destinationMetrics are those of one destination.
type destinationMetrics struct {
	alerts, tries *prometheus.CounterVec
	waiting       prometheus.Gauge
	latency       prometheus.Observer
}

func (m *Metrics) of(name string) *destinationMetrics {
	label := prometheus.Labels{"destination": name}
	d := &destinationMetrics{
		alerts: m.alerts.MustCurryWith(label), tries: m.tries.MustCurryWith(label),
		waiting: m.waiting.With(label), latency: m.latencies.With(label),
	}
	for _, outcome := range []string{outcomeDelivered, outcomeUnwanted, codeRefused, codeExpired, codeUnreadable} {
		d.alerts.WithLabelValues(outcome)
	}
	for _, result := range []string{resultOK, resultFailed, resultTimeout, resultRefused} {
		d.tries.WithLabelValues(result)
	}
	return d
}

func (d *destinationMetrics) done(outcome string) { d.alerts.WithLabelValues(outcome).Inc() }

func (d *destinationMetrics) delivered(after time.Duration) {
	d.done(outcomeDelivered)
	d.latency.Observe(max(0, after.Seconds()))
}

func (d *destinationMetrics) tried(err error, timeout bool) {
	result := resultOK
	if no := (*refusedError)(nil); errors.As(err, &no) {
		result = resultRefused
	} else if timeout && err != nil {
		result = resultTimeout
	} else if err != nil {
		result = resultFailed
	}
	d.tries.WithLabelValues(result).Inc()
}
