package ingest

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/stream/streampb"
)

// Metrics counts what is ingested. A nil *Metrics counts nothing.
type Metrics struct {
	runs, reads, chunks, samples prometheus.Counter
	bases, stripped              prometheus.Counter
	lateness                     prometheus.Gauge

	buffered, oldest       prometheus.Gauge
	spoolBytes, spoolLimit prometheus.Gauge
	spoolErrors            *prometheus.CounterVec
	resumed, fenced, lost  prometheus.Counter
	committed, failed      prometheus.Counter

	tally *tally
}

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &Metrics{
		tally:   newTally(),
		runs:    counter("porestream_ingest_runs_total", "Runs that were started."),
		reads:   counter("porestream_ingest_reads_total", "Reads sent to their last chunk, or called."),
		chunks:  counter("porestream_ingest_chunks_total", "Signal chunks sent."),
		samples: counter("porestream_ingest_samples_total", "Signal samples sent."),
		bases:   counter("porestream_ingest_called_bases_total", "Bases of reads that came called and were sent."),
		stripped: counter("porestream_ingest_stripped_reads_total",
			"Called reads that were sent without modified bases, dwells or qualities, to fit a record."),
		lateness: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "porestream_ingest_lateness_seconds",
			Help: "How far the newest chunk was sent behind the recording's clock.",
		}),
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m.buffered = gauge("porestream_ingest_buffered_bytes", "Memory taken by signal that is not in Kafka yet.")
	m.spoolBytes = gauge("porestream_ingest_spool_bytes", "Size of the spool on disk.")
	m.spoolLimit = gauge("porestream_ingest_spool_limit_bytes", "What the spool may take on disk.")
	m.spoolErrors = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "porestream_ingest_spool_refusals_total",
		Help: "Attempts to write to the spool that were refused: the limit or the disk is full, or the disk fails.",
	}, []string{"reason"})
	m.resumed = counter("porestream_ingest_resumed_total", "Runs that were gone on with where an earlier process had stopped.")
	m.fenced = counter("porestream_ingest_fenced_total", "Runs that another ingest process has taken over.")
	m.lost = counter("porestream_ingest_lost_samples_total", "Signal samples of live sources that neither memory nor spool had space for.")
	transactions := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "porestream_ingest_transactions_total", Help: "Transactions that were committed, or failed and are sent again.",
	}, []string{"result"})
	m.committed, m.failed = transactions.WithLabelValues("committed"), transactions.WithLabelValues("failed")
	m.oldest = gauge("porestream_ingest_oldest_waiting_seconds", "Age of the oldest signal that is not in Kafka yet.")
	reg.MustRegister(m.runs, m.reads, m.chunks, m.samples, m.bases, m.stripped, m.lateness, m.buffered, m.spoolBytes, m.spoolLimit, m.spoolErrors,
		m.resumed, m.fenced, m.lost, transactions, m.oldest)
	return m
}

func (m *Metrics) run() {
	if m != nil {
		m.runs.Inc()
	}
}

// chunk counts a chunk that was taken.
func (m *Metrics) chunk(c *streampb.SignalChunk) {
	if m == nil {
		return
	}
	m.chunks.Inc()
	m.samples.Add(float64(c.GetSampleCount()))
	if c.GetEndOfRead() {
		m.reads.Inc()
	}
	m.tally.chunk(c, time.Now())
}

// called counts a called read that was sent.
func (m *Metrics) called(r *streampb.CalledRead) {
	if m == nil {
		return
	}
	m.reads.Inc()
	m.bases.Add(float64(r.GetBases()))
	m.tally.called(r)
}

// strip counts a called read that was sent without all that it had.
func (m *Metrics) strip() {
	if m != nil {
		m.stripped.Inc()
	}
}

// begin notes that a session's run is under way, with its queue, until finish.
func (m *Metrics) begin(s *session) {
	if m != nil {
		m.tally.begin(s)
	}
}

func (m *Metrics) finish(s *session) {
	if m != nil {
		m.tally.finish(s)
	}
}

// Figures is what has been counted so far. A nil *Metrics has none.
func (m *Metrics) Figures() Figures {
	if m == nil {
		return Figures{}
	}
	return m.tally.figures(time.Now())
}

func (m *Metrics) behind(d time.Duration) {
	if m != nil {
		m.lateness.Set(d.Seconds())
	}
}

func (m *Metrics) waiting(age time.Duration) {
	if m != nil {
		m.oldest.Set(age.Seconds())
	}
}

func (m *Metrics) buffer(bytes int64) {
	if m != nil {
		m.buffered.Add(float64(bytes))
	}
}

func (m *Metrics) spool(used, limit int64) {
	if m != nil {
		m.spoolBytes.Set(float64(used))
		m.spoolLimit.Set(float64(limit))
	}
}

func (m *Metrics) spoolRefused(reason string) {
	if m != nil {
		m.spoolErrors.WithLabelValues(reason).Inc()
	}
}

func (m *Metrics) resume() {
	if m != nil {
		m.resumed.Inc()
	}
}

func (m *Metrics) fence() {
	if m != nil {
		m.fenced.Inc()
	}
}

func (m *Metrics) lose(samples int) {
	if m != nil {
		m.lost.Add(float64(samples))
		m.tally.lose(samples)
	}
}

func (m *Metrics) transaction(err error) {
	switch {
	case m == nil:
	case err == nil:
		m.committed.Inc()
	default:
		m.failed.Inc()
	}
}
