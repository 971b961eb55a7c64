package grafana

// Panels that several dashboards show. width is in Grafana's columns.

// latencyQuantile is a quantile of the end-to-end latency over a time. Where
// nothing was observed it has no value.
func latencyQuantile(q, over string) string {
	return `histogram_quantile(` + q + `, sum by (le) (rate(porestream_end_to_end_latency_seconds_bucket[` + over + `]))) >= 0`
}

// durationQuantile is a quantile of one of the histograms by model.
func durationQuantile(q, metric string) string {
	return `histogram_quantile(` + q + `, sum by (model, le) (rate(` + metric + `_bucket[$__rate_interval]))) >= 0`
}

func endToEnd(width int) Panel {
	return Panel{
		Kind: Lines, Title: "End to end", Width: width, Unit: "s", Min: zero,
		Description: "From the last signal chunk of a read, as the signal topic recorded it, to the annotated revision that follows from the read.",
		Queries: []Query{
			{Expr: latencyQuantile("0.5", "$__rate_interval"), Legend: "median"},
			{Expr: latencyQuantile("0.9", "$__rate_interval"), Legend: "90 %"},
			{Expr: latencyQuantile("0.99", "$__rate_interval"), Legend: "99 %"},
		},
	}
}

func behindTheClock(width int) Panel {
	return Panel{
		Kind: Lines, Title: "Ingest behind the clock", Width: width, Unit: "s", Min: zero,
		Description: "How far the newest chunk was sent behind the clock of the recording.",
		Queries:     []Query{{Expr: `max by (instance) (porestream_ingest_lateness_seconds)`, Legend: "{{instance}}"}},
	}
}

func batchFill(width int) Panel {
	return Panel{
		Kind: Lines, Title: "Batch fill", Width: width, Unit: "percentunit", Min: zero, Max: one,
		Description: "Share of what was computed that was signal and not padding to a fixed batch size.",
		Queries: []Query{{
			Expr: `sum by (model) (rate(porestream_infer_samples_total[$__rate_interval]))
  / (sum by (model) (rate(porestream_infer_samples_total[$__rate_interval]) + rate(porestream_infer_padding_samples_total[$__rate_interval])) > 0)`,
			Legend: "{{model}}",
		}},
	}
}

func dispatches(width int) Panel {
	return Panel{
		Kind: Bars, Title: "Why batches were sent", Width: width, Unit: "short", Min: zero,
		Description: "full: as many windows as fit. delay: the oldest had waited long enough. drain: nothing else was to come.",
		Queries:     []Query{{Expr: `sum by (dispatch) (increase(porestream_infer_batches_total[$__rate_interval]))`, Legend: "{{dispatch}}"}},
	}
}

func waitingWindows(width int) Panel {
	return Panel{
		Kind: Lines, Title: "Windows that wait", Width: width, Unit: "short", Min: zero,
		Description: "Windows in the batcher's queue. A full queue means that the network is what limits.",
		Queries:     []Query{{Expr: `sum by (model) (porestream_infer_queue_windows)`, Legend: "{{model}}"}},
	}
}

func revisions(width int) Panel {
	return Panel{
		Kind: Bars, Title: "Call revisions by status", Width: width, Unit: "short", Min: zero,
		Description: "Revisions of calls that the variant stage emitted, by the status they give the call.",
		Queries:     []Query{{Expr: `sum by (status) (increase(porestream_variant_revisions_total[$__rate_interval]))`, Legend: "{{status}}"}},
	}
}

func impacts(width int) Panel {
	return Panel{
		Kind: Lines, Title: "Annotated revisions by impact", Width: width, Unit: "short", Min: zero,
		Description: "Annotated revisions published since the processors started, by the impact of the most severe consequence.",
		// A total: an impact that occurs once has no increase.
		Queries: []Query{{Expr: `sum by (impact) (porestream_annotate_variants_total)`, Legend: "{{impact}}"}},
	}
}

func segments(width int) Panel {
	return Panel{
		Kind: Lines, Title: "Read segments", Width: width, Unit: "ops", Min: zero,
		Description: "Aligned segments that changed a region, and those that were applied before or map too ambiguously.",
		Queries:     []Query{{Expr: `sum by (result) (rate(porestream_variant_segments_total[$__rate_interval]))`, Legend: "{{result}}"}},
	}
}

func missingSignal(width int) Panel {
	return Panel{
		Kind: Lines, Title: "Missing signal", Width: width, Unit: "percentunit", Min: zero,
		Description: "Share of the signal within reads that never arrived.",
		Queries: []Query{{
			Expr: `sum(rate(porestream_basecall_gap_samples_total[$__rate_interval]))
  / (sum(rate(porestream_basecall_gap_samples_total[$__rate_interval])) + (sum(rate(porestream_basecall_chunk_samples_total[$__rate_interval])) > 0))`,
			Legend: "missing",
		}},
	}
}

func incompleteReads(width int) Panel {
	return Panel{
		Kind: Bars, Title: "Incomplete reads", Width: width, Unit: "short", Min: zero,
		Description: "Places where signal of a read is missing, reads whose last chunk never came, overlong reads that were cut, and chunks that were delivered twice and dropped.",
		Queries: []Query{
			{Expr: `sum(increase(porestream_basecall_gaps_total[$__rate_interval]))`, Legend: "gaps"},
			{Expr: `sum(increase(porestream_basecall_lost_ends_total[$__rate_interval]))`, Legend: "lost ends"},
			{Expr: `sum(increase(porestream_basecall_cuts_total[$__rate_interval]))`, Legend: "cuts"},
			{Expr: `sum(increase(porestream_basecall_duplicate_chunks_total[$__rate_interval]))`, Legend: "duplicate chunks"},
		},
	}
}

func refused(width int) Panel {
	return Panel{
		Kind: Lines, Title: "Refused", Width: width, Unit: "short", Min: zero,
		Description: "Dead letters since the processors started, by stage and reason, and batches that ONNX Runtime failed to compute.",
		Queries: []Query{
			{Expr: `sum by (stage, code) (porestream_dead_letters_total) or vector(0)`, Legend: "{{stage}} {{code}}"},
			{Expr: `sum(porestream_infer_batch_failures_total)`, Legend: "failed batches"},
		},
	}
}

func alleles(width int) Panel {
	return Panel{
		Kind: Lines, Title: "Alleles called by type", Width: width, Unit: "short", Min: zero,
		Description: "Alleles called since the processors started, each when it was called first.",
		// A total: a type that occurs once has no increase.
		Queries: []Query{{Expr: `sum by (type) (porestream_variant_alleles_total)`, Legend: "{{type}}"}},
	}
}

func bases(width int) Panel {
	return Panel{
		Kind: Lines, Title: "Bases", Width: width, Unit: "bases/s", Min: zero,
		Description: "Bases called, by model.",
		Queries:     []Query{{Expr: `sum by (model) (rate(porestream_basecall_bases_total[$__rate_interval]))`, Legend: "{{model}}"}},
	}
}

func fates(width int) Panel {
	return Panel{
		Kind: Bars, Title: "What became of the reads", Width: width, Unit: "short", Min: zero,
		Description: "Reads, or parts of them between signal gaps. Short ones are not basecalled; unmapped ones say nothing about variants.",
		Queries:     []Query{{Expr: `sum by (outcome) (increase(porestream_basecall_read_parts_total[$__rate_interval]))`, Legend: "{{outcome}}"}},
	}
}

func firing(width int) Panel {
	return Panel{
		Kind: Bars, Title: "Firing alerts", Width: width, Unit: "short", Min: zero,
		Description: "Alerts by name. docs/operate/operations.md says for each what it means and what to do.",
		Queries: []Query{
			{Expr: `sum by (alertname) (ALERTS{alertname=~"Porestream.*", alertstate="firing"}) or vector(0)`, Legend: "{{alertname}}"},
		},
	}
}
