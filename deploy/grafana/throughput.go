package grafana

// Dashboards are all of Porestream's.
func Dashboards() []Dashboard { return []Dashboard{throughput()} }

var (
	zero = new(float64)
	one  = func() *float64 { v := 1.0; return &v }()
)

// keepUp is the fraction of the signal coming in that is basecalled. It has no
// value while nothing comes in: then the lag says how much is left.
const keepUp = `sum(rate(porestream_basecall_samples_total[$__rate_interval]))
  / (sum(rate(porestream_ingest_samples_total[$__rate_interval])) > 0)`

// throughput answers, from the top: do we keep up, how old are the results, and
// if they are too old, which stage is it.
func throughput() Dashboard {
	return Dashboard{
		UID:         uidPrefix + "throughput",
		Title:       "Porestream: throughput",
		Description: "Whether the stream keeps up with the sequencers, how late its results are, and where the time goes.",
		Tags:        []string{"porestream"},
		Rows: []Row{
			{Title: "At a glance", Height: 4, Panels: glance()},
			{Title: "Throughput", Height: 8, Panels: flow()},
			{Title: "Latency", Height: 8, Panels: latency()},
			{Title: "Batches", Height: 8, Panels: batches()},
			{Title: "Calls", Height: 8, Panels: calls()},
			{Title: "Variant model", Height: 8, Panels: judging()},
			{Title: "Kafka", Height: 8, Panels: broker()},
			{Title: "Losses", Height: 8, Panels: losses()},
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
		{
			Kind: Lines, Title: "Bases", Width: 8, Unit: "bases/s", Min: zero,
			Description: "Bases called, by model.",
			Queries:     []Query{{Expr: `sum by (model) (rate(porestream_basecall_bases_total[$__rate_interval]))`, Legend: "{{model}}"}},
		},
		{
			Kind: Bars, Title: "What became of the reads", Width: 8, Unit: "short", Min: zero,
			Description: "Reads, or parts of them between signal gaps. Short ones are not basecalled; unmapped ones say nothing about variants.",
			Queries:     []Query{{Expr: `sum by (outcome) (increase(porestream_basecall_read_parts_total[$__rate_interval]))`, Legend: "{{outcome}}"}},
		},
	}
}

// latencyQuantile is a quantile of the end-to-end latency over a time. Where
// nothing was observed it has no value.
func latencyQuantile(q, over string) string {
	return `histogram_quantile(` + q + `, sum by (le) (rate(porestream_end_to_end_latency_seconds_bucket[` + over + `]))) >= 0`
}

// durationQuantile is a quantile of one of the histograms by model.
func durationQuantile(q, metric string) string {
	return `histogram_quantile(` + q + `, sum by (model, le) (rate(` + metric + `_bucket[$__rate_interval]))) >= 0`
}

func latency() []Panel {
	return []Panel{
		{
			Kind: Lines, Title: "End to end", Width: 12, Unit: "s", Min: zero,
			Description: "From the last signal chunk of a read, as the signal topic recorded it, to the annotated revision that follows from the read.",
			Queries: []Query{
				{Expr: latencyQuantile("0.5", "$__rate_interval"), Legend: "median"},
				{Expr: latencyQuantile("0.9", "$__rate_interval"), Legend: "90 %"},
				{Expr: latencyQuantile("0.99", "$__rate_interval"), Legend: "99 %"},
			},
		},
		{
			Kind: Lines, Title: "Work that waits", Width: 6, Unit: "s", Min: zero,
			Description: "Waiting records of a topic over the rate at which they are read: the seconds it takes to work them off.",
			Queries: []Query{{
				Expr: `sum by (topic) (porestream_stream_lag_records)
  / (sum by (topic) (rate(porestream_stream_records_total{direction="in"}[$__rate_interval])) > 0)`,
				Legend: "{{topic}}",
			}},
		},
		{
			Kind: Lines, Title: "Ingest behind the clock", Width: 6, Unit: "s", Min: zero,
			Description: "How far the newest chunk was sent behind the clock of the recording.",
			Queries:     []Query{{Expr: `max by (instance) (porestream_ingest_lateness_seconds)`, Legend: "{{instance}}"}},
		},
	}
}

func batches() []Panel {
	const items = "porestream_infer_batch_items"
	return []Panel{
		{
			Kind: Lines, Title: "Windows per batch", Width: 8, Unit: "short", Min: zero,
			Description: "Mean number of windows that the network computes together.",
			Queries: []Query{{
				Expr: `sum by (model) (rate(` + items + `_sum[$__rate_interval]))
  / (sum by (model) (rate(` + items + `_count[$__rate_interval])) > 0)`,
				Legend: "{{model}}",
			}},
		},
		{
			Kind: Lines, Title: "Batch fill", Width: 8, Unit: "percentunit", Min: zero, Max: one,
			Description: "Share of what was computed that was signal and not padding to a fixed batch size.",
			Queries: []Query{{
				Expr: `sum by (model) (rate(porestream_infer_samples_total[$__rate_interval]))
  / (sum by (model) (rate(porestream_infer_samples_total[$__rate_interval]) + rate(porestream_infer_padding_samples_total[$__rate_interval])) > 0)`,
				Legend: "{{model}}",
			}},
		},
		{
			Kind: Bars, Title: "Why batches were sent", Width: 8, Unit: "short", Min: zero,
			Description: "full: as many windows as fit. delay: the oldest had waited long enough. drain: nothing else was to come.",
			Queries:     []Query{{Expr: `sum by (dispatch) (increase(porestream_infer_batches_total[$__rate_interval]))`, Legend: "{{dispatch}}"}},
		},
		{
			Kind: Lines, Title: "Windows that wait", Width: 8, Unit: "short", Min: zero,
			Description: "Windows in the batcher's queue. A full queue means that the network is what limits.",
			Queries:     []Query{{Expr: `sum by (model) (porestream_infer_queue_windows)`, Legend: "{{model}}"}},
		},
		{
			Kind: Lines, Title: "Wait for a batch", Width: 8, Unit: "s", Min: zero,
			Description: "Time that a window waited for its batch.",
			Queries: []Query{
				{Expr: durationQuantile("0.5", "porestream_infer_queue_duration_seconds"), Legend: "median, {{model}}"},
				{Expr: durationQuantile("0.99", "porestream_infer_queue_duration_seconds"), Legend: "99 %, {{model}}"},
			},
		},
		{
			Kind: Lines, Title: "Computing a batch", Width: 8, Unit: "s", Min: zero,
			Description: "Time that ONNX Runtime took for a batch.",
			Queries: []Query{
				{Expr: durationQuantile("0.5", "porestream_infer_compute_duration_seconds"), Legend: "median, {{model}}"},
				{Expr: durationQuantile("0.99", "porestream_infer_compute_duration_seconds"), Legend: "99 %, {{model}}"},
			},
		},
	}
}

// judging is about the network that judges alleles, and shares devices with the
// basecaller's; its batches are among those above.
func judging() []Panel {
	return []Panel{
		{
			Kind: Lines, Title: "Alleles judged", Width: 6, Unit: "ops", Min: zero,
			Description: "Alleles per second that the variant model judged, every time that one was looked at. None with the analytic model.",
			Queries:     []Query{{Expr: `sum by (model) (rate(porestream_variant_examples_total[$__rate_interval]))`, Legend: "{{model}}"}},
		},
		{
			Kind: Lines, Title: "Wait for a judgement", Width: 6, Unit: "s", Min: zero,
			Description: "Time that a region waits for the variant model to judge all alleles of one evaluation.",
			Queries: []Query{
				{Expr: durationQuantile("0.5", "porestream_variant_judge_duration_seconds"), Legend: "median, {{model}}"},
				{Expr: durationQuantile("0.99", "porestream_variant_judge_duration_seconds"), Legend: "99 %, {{model}}"},
			},
		},
		{
			Kind: Lines, Title: "Alleles per evaluation", Width: 6, Unit: "short", Min: zero,
			Description: "Mean number of alleles that are judged together. Those of regions that wait at the same time share batches.",
			Queries: []Query{{
				Expr: `sum by (model) (rate(porestream_variant_examples_total[$__rate_interval]))
  / (sum by (model) (rate(porestream_variant_judge_duration_seconds_count[$__rate_interval])) > 0)`,
				Legend: "{{model}}",
			}},
		},
		{
			Kind: Lines, Title: "Alleles called by type", Width: 6, Unit: "short", Min: zero,
			Description: "Alleles called since the processors started, each when it was called first.",
			// A total: a type that occurs once has no increase.
			Queries: []Query{{Expr: `sum by (type) (porestream_variant_alleles_total)`, Legend: "{{type}}"}},
		},
	}
}

func calls() []Panel {
	return []Panel{
		{
			Kind: Bars, Title: "Call revisions by status", Width: 8, Unit: "short", Min: zero,
			Description: "Revisions of calls that the variant stage emitted, by the status they give the call.",
			Queries:     []Query{{Expr: `sum by (status) (increase(porestream_variant_revisions_total[$__rate_interval]))`, Legend: "{{status}}"}},
		},
		{
			Kind: Lines, Title: "Annotated revisions by impact", Width: 8, Unit: "short", Min: zero,
			Description: "Annotated revisions published since the processors started, by the impact of the most severe consequence.",
			// A total: an impact that occurs once has no increase.
			Queries: []Query{{Expr: `sum by (impact) (porestream_annotate_variants_total)`, Legend: "{{impact}}"}},
		},
		{
			Kind: Lines, Title: "Read segments", Width: 8, Unit: "ops", Min: zero,
			Description: "Aligned segments that changed a region, and those that were applied before or map too ambiguously.",
			Queries:     []Query{{Expr: `sum by (result) (rate(porestream_variant_segments_total[$__rate_interval]))`, Legend: "{{result}}"}},
		},
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

func losses() []Panel {
	return []Panel{
		{
			Kind: Lines, Title: "Missing signal", Width: 8, Unit: "percentunit", Min: zero,
			Description: "Share of the signal within reads that never arrived.",
			Queries: []Query{{
				Expr: `sum(rate(porestream_basecall_gap_samples_total[$__rate_interval]))
  / (sum(rate(porestream_basecall_gap_samples_total[$__rate_interval])) + (sum(rate(porestream_basecall_chunk_samples_total[$__rate_interval])) > 0))`,
				Legend: "missing",
			}},
		},
		{
			Kind: Bars, Title: "Incomplete reads", Width: 8, Unit: "short", Min: zero,
			Description: "Places where signal of a read is missing, reads whose last chunk never came, overlong reads that were cut, and chunks that were delivered twice and dropped.",
			Queries: []Query{
				{Expr: `sum(increase(porestream_basecall_gaps_total[$__rate_interval]))`, Legend: "gaps"},
				{Expr: `sum(increase(porestream_basecall_lost_ends_total[$__rate_interval]))`, Legend: "lost ends"},
				{Expr: `sum(increase(porestream_basecall_cuts_total[$__rate_interval]))`, Legend: "cuts"},
				{Expr: `sum(increase(porestream_basecall_duplicate_chunks_total[$__rate_interval]))`, Legend: "duplicate chunks"},
			},
		},
		{
			Kind: Lines, Title: "Refused", Width: 8, Unit: "short", Min: zero,
			Description: "Dead letters since the processors started, by stage and reason, and batches that ONNX Runtime failed to compute.",
			Queries: []Query{
				{Expr: `sum by (stage, code) (porestream_dead_letters_total) or vector(0)`, Legend: "{{stage}} {{code}}"},
				{Expr: `sum(porestream_infer_batch_failures_total)`, Legend: "failed batches"},
			},
		},
	}
}
