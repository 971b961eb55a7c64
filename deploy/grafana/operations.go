package grafana

// Dashboards are all of Porestream's: one for operators, one for those who run the
// sequencers, and one for those who maintain the devices.
func Dashboards() []Dashboard { return []Dashboard{operations(), run(), inference()} }

var (
	zero = new(float64)
	one  = func() *float64 { v := 1.0; return &v }()
)

// keepUp is the fraction of the signal coming in that is basecalled. It has no
// value while nothing comes in: then the lag says how much is left.
const keepUp = `sum(rate(porestream_basecall_samples_total[$__rate_interval]))
  / (sum(rate(porestream_ingest_samples_total[$__rate_interval])) > 0)`

// operations answers, from the top: is anything wrong, do we keep up, how old are the
// results, and if they are too old, which stage is it.
func operations() Dashboard {
	return Dashboard{
		UID:         uidPrefix + "operations",
		Title:       "Porestream: operations",
		Description: "What is wrong, whether the stream keeps up with the sequencers, how late its results are, and where the time goes.",
		Rows: []Row{
			{Title: "At a glance", Height: 4, Panels: glance()},
			{Title: "Alerts", Height: 6, Panels: []Panel{firing(24)}},
			{Title: "Throughput", Height: 8, Panels: flow()},
			{Title: "Latency", Height: 8, Panels: []Panel{endToEnd(12), waitingWork(), behindTheClock(6)}},
			{Title: "Network", Height: 8, Panels: []Panel{batchFill(8), dispatches(8), waitingWindows(8)}},
			{Title: "Calls", Height: 8, Panels: append([]Panel{revisions(8), impacts(8), segments(8)}, state()...)},
			{Title: "Kafka", Height: 8, Panels: broker()},
			{Title: "Losses", Height: 8, Panels: []Panel{missingSignal(8), incompleteReads(8), refused(8)}},
			{Title: "Sources", Height: 8, Panels: []Panel{sourceStates(), spools(), notInKafka()}},
		},
	}
}

func glance() []Panel {
	return []Panel{
		{
			Kind: Stat, Title: "Keep-up ratio", Width: 4, Unit: "percentunit", Min: zero,
			Description: "Samples basecalled per sample ingested. 100 % keeps up; more is catching up. Empty while nothing is ingested.",
			Steps:       []Step{{0, "red"}, {0.9, "orange"}, {0.98, "green"}},
			Queries:     []Query{{Expr: keepUp}},
		},
		{
			Kind: Stat, Title: "Latency, median", Width: 4, Unit: "s",
			Description: "From the last signal chunk of a read to the annotated revision that follows from it, over the time shown.",
			Steps:       []Step{{0, "green"}, {10, "orange"}, {30, "red"}},
			Queries:     []Query{{Expr: latencyQuantile("0.5", "$__range"), Instant: true}},
		},
		{
			Kind: Stat, Title: "Latency, 99th percentile", Width: 4, Unit: "s",
			Description: "The same, of the slowest hundredth.",
			Steps:       []Step{{0, "green"}, {10, "orange"}, {30, "red"}},
			Queries:     []Query{{Expr: latencyQuantile("0.99", "$__range"), Instant: true}},
		},
		{
			Kind: Stat, Title: "Signal basecalled", Width: 4, Unit: "samples/s",
			Description: "Samples per second, all processors.",
			Queries:     []Query{{Expr: `sum(rate(porestream_basecall_samples_total[$__rate_interval]))`}},
		},
		{
			Kind: Stat, Title: "Waiting records", Width: 4, Unit: "short",
			Description: "Records in all topics that no stage has read yet.",
			Queries:     []Query{{Expr: `sum(porestream_stream_lag_records)`}},
		},
		{
			Kind: Stat, Title: "Dead letters", Width: 4, Unit: "short",
			Description: "Records that could not be processed since the processors started; the dead-letter topic keeps them.",
			Steps:       []Step{{0, "green"}, {1, "red"}},
			Queries:     []Query{{Expr: `sum(porestream_dead_letters_total) or vector(0)`}},
		},
	}
}

func flow() []Panel {
	return []Panel{
		{
			Kind: Lines, Title: "Signal", Width: 12, Unit: "samples/s", Min: zero,
			Description: "Samples sent by ingest, taken in by the basecall stage, and basecalled. A read is basecalled once its last chunk is there.",
			Queries: []Query{
				{Expr: `sum(rate(porestream_ingest_samples_total[$__rate_interval]))`, Legend: "ingested"},
				{Expr: `sum(rate(porestream_basecall_chunk_samples_total[$__rate_interval]))`, Legend: "taken in"},
				{Expr: `sum(rate(porestream_basecall_samples_total[$__rate_interval]))`, Legend: "basecalled"},
			},
		},
		{
			Kind: Lines, Title: "Keep-up ratio", Width: 12, Unit: "percentunit", Min: zero,
			Description: "Samples basecalled per sample ingested. Below 100 % for long means that the lag grows.",
			Queries:     []Query{{Expr: keepUp, Legend: "basecalled / ingested"}},
		},
		{
			Kind: Lines, Title: "Reads", Width: 8, Unit: "reads/s", Min: zero,
			Description: "Reads sent by ingest to their last chunk, and basecalled.",
			Queries: []Query{
				{Expr: `sum(rate(porestream_ingest_reads_total[$__rate_interval]))`, Legend: "ingested"},
				{Expr: `sum(rate(porestream_basecall_reads_total[$__rate_interval]))`, Legend: "basecalled"},
			},
		},
		bases(8),
		fates(8),
	}
}

func broker() []Panel {
	return []Panel{
		{
			Kind: Lines, Title: "Consumer lag", Width: 8, Unit: "short", Min: zero,
			Description: "Records behind the end of the topic that the processors have not read.",
			Queries:     []Query{{Expr: `sum by (topic) (porestream_stream_lag_records)`, Legend: "{{topic}}"}},
		},
		{
			Kind: Lines, Title: "Records", Width: 8, Unit: "ops", Min: zero,
			Description: "Records read from and made durable in the topics.",
			Queries:     []Query{{Expr: `sum by (topic, direction) (rate(porestream_stream_records_total[$__rate_interval]))`, Legend: "{{topic}} {{direction}}"}},
		},
		{
			Kind: Lines, Title: "Bytes", Width: 8, Unit: "binBps", Min: zero,
			Description: "Key and value bytes of these records.",
			Queries:     []Query{{Expr: `sum by (topic, direction) (rate(porestream_stream_bytes_total[$__rate_interval]))`, Legend: "{{topic}} {{direction}}"}},
		},
		{
			Kind: Lines, Title: "Live partitions", Width: 8, Unit: "short", Min: zero,
			Description: "Partitions that are being processed, by consumer group. It drops while a group shares them out anew.",
			Queries:     []Query{{Expr: `sum by (group) (porestream_stream_live_partitions)`, Legend: "{{group}}"}},
		},
		{
			Kind: Lines, Title: "Accepted and not yet durable", Width: 8, Unit: "bytes", Min: zero,
			Description: "Bytes that wait in the producers for the brokers.",
			Queries:     []Query{{Expr: `sum by (instance) (porestream_stream_producer_queue_bytes)`, Legend: "{{instance}}"}},
		},
		{
			Kind: Bars, Title: "Unrest", Width: 8, Unit: "short", Min: zero,
			Description: "Generations of the consumer groups, those that an error ended, failed commits, writes and commits of one that another has taken the place of, and requests to brokers that were repeated.",
			Queries: []Query{
				{Expr: `sum(increase(porestream_stream_rebalances_total[$__rate_interval])) or vector(0)`, Legend: "generations"},
				{Expr: `sum(increase(porestream_stream_generation_failures_total[$__rate_interval])) or vector(0)`, Legend: "failed generations"},
				{Expr: `sum(increase(porestream_stream_commit_errors_total[$__rate_interval])) or vector(0)`, Legend: "failed commits"},
				{Expr: `sum(increase(porestream_stream_fenced_total[$__rate_interval])) or vector(0)`, Legend: "fenced"},
				{Expr: `sum(increase(porestream_stream_retries_total[$__rate_interval])) or vector(0)`, Legend: "repeated requests"},
			},
		},
		{
			Kind: Bars, Title: "Transactions", Width: 12, Unit: "short", Min: zero,
			Description: "Transactions by result. Of those whose result is unknown the next owner of the partition learns what became of them.",
			Queries:     []Query{{Expr: `sum by (result) (increase(porestream_stream_transactions_total[$__rate_interval]))`, Legend: "{{result}}"}},
		},
		{
			Kind: Lines, Title: "Length of a transaction", Width: 12, Unit: "s", Min: zero,
			Description: "From a transaction's first batch until it is committed or aborted: what is emitted waits for that long until readers see it.",
			Queries: []Query{
				{Expr: `histogram_quantile(0.5, sum by (le) (rate(porestream_stream_transaction_duration_seconds_bucket[$__rate_interval]))) >= 0`, Legend: "median"},
				{Expr: `histogram_quantile(0.99, sum by (le) (rate(porestream_stream_transaction_duration_seconds_bucket[$__rate_interval]))) >= 0`, Legend: "99th percentile"},
			},
		},
	}
}

func waitingWork() Panel {
	return Panel{
		Kind: Lines, Title: "Work that waits", Width: 6, Unit: "s", Min: zero,
		Description: "Waiting records of a topic over the rate at which they are read: the seconds it takes to work them off.",
		Queries: []Query{{
			Expr: `sum by (topic) (porestream_stream_lag_records)
  / (sum by (topic) (rate(porestream_stream_records_total{direction="in"}[$__rate_interval])) > 0)`,
			Legend: "{{topic}}",
		}},
	}
}

// state is about what a restart has to do.
func state() []Panel {
	return []Panel{
		{
			Kind: Lines, Title: "Age of the newest snapshot", Width: 12, Unit: "s", Min: zero,
			Description: "The oldest of a topic's partitions. While records come it stays near the interval of snapshots; a partition that rests needs no new one.",
			Queries:     []Query{{Expr: `max by (topic) (time() - porestream_stream_snapshot_timestamp_seconds)`, Legend: "{{topic}}"}},
		},
		{
			Kind: Lines, Title: "Taking over a partition", Width: 12, Unit: "s", Min: zero,
			Description: "From the assignment of a partition until its handler is live, since the processes started: fencing the owner before, reading the position and the snapshot, replaying.",
			Queries: []Query{
				{Expr: `histogram_quantile(0.5, sum by (le) (porestream_stream_restore_duration_seconds_bucket)) >= 0`, Legend: "median"},
				{Expr: `histogram_quantile(0.99, sum by (le) (porestream_stream_restore_duration_seconds_bucket)) >= 0`, Legend: "99th percentile"},
			},
		},
	}
}

func sourceStates() Panel {
	return Panel{
		Kind: Lines, Title: "Sources by state", Width: 8, Unit: "short", Min: zero, Needs: ingestProcess,
		Description: "Sources of signal by what they do. ingest status says why.",
		Queries:     []Query{{Expr: `sum by (state) (porestream_ingest_source_state) > 0`, Legend: "{{state}}"}},
	}
}

// ingestProcess is what only an ingest of its own exports, not pore run.
const ingestProcess = "an ingest process"

func spools() Panel {
	return Panel{
		Kind: Lines, Title: "Spool", Width: 8, Unit: "bytes", Min: zero,
		Description: "Signal that waits on disk because Kafka does not take it.",
		Queries:     []Query{{Expr: `max by (instance) (porestream_ingest_spool_bytes)`, Legend: "{{instance}}"}},
	}
}

func notInKafka() Panel {
	return Panel{
		Kind: Lines, Title: "Oldest signal that is not in Kafka", Width: 8, Unit: "s", Min: zero,
		Description: "How long the oldest signal has waited to be committed. A transaction is committed several times a second.",
		Queries:     []Query{{Expr: `max by (instance) (porestream_ingest_oldest_waiting_seconds)`, Legend: "{{instance}}"}},
	}
}
