package stage

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/metric"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/watchlist"
)

// Metrics counts the stage's work. A nil *Metrics counts nothing.
type Metrics struct {
	alerts      *prometheus.CounterVec
	others      prometheus.Counter
	latencies   prometheus.Histogram
	deadLetters *prometheus.CounterVec
}

// NewMetrics registers the metrics with reg. deadLetters counts by stage and
// code and is shared by all stages.
func NewMetrics(reg prometheus.Registerer, deadLetters *prometheus.CounterVec) *Metrics {
	m := &Metrics{
		// Neither panel nor severity is a label: they are a user's words, of which
		// there may be any number.
		alerts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "porestream_watch_alerts_total",
			Help: "Alerts published, by the state that they bring.",
		}, []string{"state"}),
		others: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "porestream_watch_other_panels_total",
			Help: "Records left out because a processor made them for other panels than this one's. Anything but 0 means that processors differ in --panel.",
		}),
		// The promise is seconds: classic buckets from 50 ms to 7 minutes.
		latencies: prometheus.NewHistogram(metric.Histogram("porestream_alert_latency_seconds",
			"From the last signal chunk of a read, as the signal topic recorded it, to the alert that follows from the read.",
			prometheus.ExponentialBuckets(0.05, 2, 14))),
		deadLetters: deadLetters,
	}
	reg.MustRegister(m.alerts, m.others, m.latencies)
	for _, s := range watchlist.States() {
		m.alerts.WithLabelValues(string(s))
	}
	return m
}

func (m *Metrics) alert(a *watchlist.Alert) {
	if m != nil {
		m.alerts.WithLabelValues(string(a.State)).Inc()
	}
}

// latency observes how long a variant took to become an alert. A final revision
// follows from the end of the run and says nothing about how long a read took.
func (m *Metrics) latency(v *event.Variant) {
	if m != nil && v.LastChunk != nil && v.Status != streampb.CallStatus_FINAL.String() {
		m.latencies.Observe(time.Since(*v.LastChunk).Seconds())
	}
}

func (m *Metrics) leftOut() {
	if m != nil {
		m.others.Inc()
	}
}

func (m *Metrics) deadLetter(err error) {
	if m != nil {
		m.deadLetters.WithLabelValues(Name, stream.ErrorCode(err)).Inc()
	}
}
