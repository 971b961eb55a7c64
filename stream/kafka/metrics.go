package kafka

import (
	"errors"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/metric"
)

// Values of the direction label.
const (
	directionIn  = "in"
	directionOut = "out"
)

// Values of the phase label of restoring.
const (
	phaseFence    = "fence"
	phasePosition = "position"
	phaseSnapshot = "snapshot"
	phaseReplay   = "replay"
)

// Values of the result label of transactions.
const (
	resultCommitted = "committed"
	resultAborted   = "aborted"
	resultFenced    = "fenced"
	resultUnknown   = "unknown"
)

// metrics is what this package exports. Clients that share a registerer share
// the metrics.
type metrics struct {
	records      *prometheus.CounterVec
	bytes        *prometheus.CounterVec
	lag          *prometheus.GaugeVec
	lagAt        *prometheus.GaugeVec
	queueBytes   prometheus.Gauge
	retries      *prometheus.CounterVec
	sessions     prometheus.Counter
	transactions *prometheus.CounterVec
	transaction  prometheus.Histogram
	fenced       prometheus.Counter
	rebalances   *prometheus.CounterVec
	rebuilds     *prometheus.CounterVec
	failures     *prometheus.CounterVec
	commitErrors *prometheus.CounterVec
	restore      *prometheus.HistogramVec
	restorePhase *prometheus.HistogramVec
	replayed     *prometheus.CounterVec
	warm         *prometheus.CounterVec
	resized      *prometheus.CounterVec

	snapshotBytes  *prometheus.CounterVec
	snapshotErrors *prometheus.CounterVec
	snapshotTime   *prometheus.HistogramVec
	snapshotAt     *prometheus.GaugeVec
	unsaved        *prometheus.GaugeVec
	live           *prometheus.GaugeVec
	unresolved     *prometheus.GaugeVec
}

// newMetrics makes the metrics and registers them; a nil registerer exports
// none.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	const ns = "porestream"
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Name: name, Help: help}, labels)
	}
	gauges := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: ns, Name: name, Help: help}, labels)
	}
	durations := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(metric.Histogram(ns+"_"+name, help, prometheus.ExponentialBuckets(0.01, 4, 8)), labels)
	}
	m := &metrics{
		records: counters("stream_records_total", "Records read from (in) and made durable in (out) a topic.", "topic", "direction"),
		bytes:   counters("stream_bytes_total", "Key and value bytes of the records read from (in) and made durable in (out) a topic.", "topic", "direction"),
		lag:     gauges("stream_lag_records", "Records between the position of an assigned partition and the end of its log.", "topic", "partition"),
		lagAt: gauges("stream_lag_timestamp_seconds",
			"When the lag of an assigned partition was known last, from a fetch or by asking for the log's end, in seconds since 1970.", "topic", "partition"),
		queueBytes: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: ns, Name: "stream_producer_queue_bytes", Help: "Bytes accepted by producers and not yet durable."}),
		retries:    counters("stream_retries_total", "Requests to brokers that were repeated.", "operation"),
		sessions: prometheus.NewCounter(prometheus.CounterOpts{Namespace: ns, Name: "stream_producer_sessions_total",
			Help: "Producer ids taken. More than one per producer means that delivery was given up for a partition and begun anew."}),
		transactions: counters("stream_transactions_total", "Transactions by result: committed, aborted, fenced (another holder, or the timeout, ended it) or unknown (settled by the next holder).", "result"),
		transaction: prometheus.NewHistogram(metric.Histogram(ns+"_stream_transaction_duration_seconds",
			"Time from the first batch of a transaction until its end.", prometheus.ExponentialBuckets(0.005, 2, 14))),
		fenced: prometheus.NewCounter(prometheus.CounterOpts{Namespace: ns, Name: "stream_fenced_total",
			Help: "Writes and commits refused because another has taken the transactional id or the group's generation has ended."}),
		rebalances:   counters("stream_rebalances_total", "Generations of a consumer group that this member took part in.", "group"),
		rebuilds:     counters("stream_group_rebuilds_total", "Times that the group membership was made anew because no generation came.", "group"),
		failures:     counters("stream_generation_failures_total", "Generations that were ended by an error of a handler, a fetch or a write.", "group"),
		commitErrors: counters("stream_commit_errors_total", "Offset commits that failed.", "group"),
		restore:      durations("stream_restore_duration_seconds", "Time from assignment of a partition until its handler was live.", "group"),
		restorePhase: durations("stream_restore_phase_duration_seconds",
			"Parts of restoring a partition: taking it from its owner before (fence), reading its position, reading the snapshot, replaying records.", "group", "phase"),
		replayed:       counters("stream_replayed_records_total", "Records folded into a handler's state without emission, while restoring it.", "group"),
		snapshotBytes:  counters("stream_snapshot_bytes_total", "Bytes of the snapshots that were written, as far as they had changed.", "group"),
		snapshotErrors: counters("stream_snapshot_errors_total", "Snapshots that could not be written.", "group"),
		snapshotTime:   durations("stream_snapshot_duration_seconds", "Time from the beginning of a snapshot until it was durable.", "group"),
		snapshotAt:     gauges("stream_snapshot_timestamp_seconds", "When the newest snapshot of an assigned partition was taken, in seconds since 1970.", "topic", "partition"),
		unsaved: gauges("stream_unsaved_timestamp_seconds",
			"Since when changes of an assigned partition's state are in no snapshot, in seconds since 1970; 0 if there are none. A restart repeats what came since.", "topic", "partition"),
		warm: counters("stream_warm_handovers_total", "Assigned partitions whose handler was kept from the generation before.", "group"),
		resized: counters("stream_partition_changes_total",
			"Times that the number of partitions of a topic has changed under a member whose handlers have state: results of runs under way can't be relied on.", "group", "topic"),
		live:       gauges("stream_live_partitions", "Assigned partitions whose handler is live.", "group"),
		unresolved: gauges("stream_unresolved_records", "Records handed to a handler whose effects are not yet durable.", "topic", "partition"),
	}
	if reg == nil {
		return m, nil
	}
	return m, errors.Join(
		metric.Share(reg, &m.records), metric.Share(reg, &m.bytes), metric.Share(reg, &m.lag), metric.Share(reg, &m.lagAt), metric.Share(reg, &m.queueBytes),
		metric.Share(reg, &m.retries), metric.Share(reg, &m.sessions),
		metric.Share(reg, &m.transactions), metric.Share(reg, &m.transaction), metric.Share(reg, &m.fenced), metric.Share(reg, &m.rebalances), metric.Share(reg, &m.rebuilds),
		metric.Share(reg, &m.failures), metric.Share(reg, &m.commitErrors), metric.Share(reg, &m.restore), metric.Share(reg, &m.restorePhase), metric.Share(reg, &m.replayed), metric.Share(reg, &m.warm), metric.Share(reg, &m.resized),
		metric.Share(reg, &m.snapshotBytes), metric.Share(reg, &m.snapshotErrors), metric.Share(reg, &m.snapshotTime), metric.Share(reg, &m.snapshotAt), metric.Share(reg, &m.unsaved), metric.Share(reg, &m.live),
		metric.Share(reg, &m.unresolved),
	)
}

// moved counts records of a topic.
func (m *metrics) moved(topic, direction string, records, bytes int) {
	m.records.WithLabelValues(topic, direction).Add(float64(records))
	m.bytes.WithLabelValues(topic, direction).Add(float64(bytes))
}

// forget drops the gauges of a partition that is no longer ours.
func (m *metrics) forget(topic string, partition int32) {
	p := strconv.Itoa(int(partition))
	m.lag.DeleteLabelValues(topic, p)
	m.lagAt.DeleteLabelValues(topic, p)
	m.unresolved.DeleteLabelValues(topic, p)
	m.snapshotAt.DeleteLabelValues(topic, p)
	m.unsaved.DeleteLabelValues(topic, p)
}
