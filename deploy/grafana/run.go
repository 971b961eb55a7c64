package grafana

import "fmt"

// run is for those who run a sequencer: what has come, how good it is, what was found in
// it and how soon. Runs are no labels, as their number has no bound: a run is the time
// shown, on the sources that are chosen.
func run() Dashboard {
	return Dashboard{
		UID:         uidPrefix + "run",
		Title:       "Porestream: run",
		Description: "A sequencing run as it goes on: yield, reads, depth, variants and how soon they are there. Choose the time of the run and its source; what comes behind ingest is of all sources together.",
		Variables: []Variable{{
			Name: "source", Label: "Source", Query: "label_values(porestream_ingest_samples_total, source)",
		}},
		Rows: []Row{
			{Title: "At a glance", Height: 4, Panels: yield()},
			{Title: "Sequencing", Height: 8, Panels: sequencing()},
			{Title: "Reads", Height: 8, Panels: reads()},
			{Title: "Depth and variants", Height: 8, Panels: append([]Panel{depth()}, alleles(8), impacts(8), revisions(12), segments(12))},
			{Title: "Latency", Height: 8, Panels: []Panel{endToEnd(12), finishing(12)}},
			{Title: "Panels and alerts", Height: 8, Panels: append(watching(), firing(8))},
			{Title: "Adaptive sampling", Height: 8, Panels: sampling()},
		},
	}
}

// ofSource selects what the chosen sources have sent.
const ofSource = `{source=~"$source"}`

// meanDepth is over the whole reference. Processors call against the same one.
const meanDepth = `sum(increase(porestream_basecall_aligned_bases_total[$__range])) / max(porestream_variant_reference_bases)`

func yield() []Panel {
	return []Panel{
		{
			Kind: Stat, Title: "Signal", Width: 4, Unit: "short",
			Description: "Samples that the sources have sent in the time shown.",
			Queries:     []Query{{Expr: `sum(increase(porestream_ingest_samples_total` + ofSource + `[$__range]))`, Instant: true}},
		},
		{
			Kind: Stat, Title: "Bases", Width: 4, Unit: "short",
			Description: "Bases called in the time shown.",
			Queries:     []Query{{Expr: `sum(increase(porestream_basecall_bases_total[$__range]))`, Instant: true}},
		},
		{
			Kind: Stat, Title: "Reads", Width: 4, Unit: "short",
			Description: "Reads basecalled in the time shown.",
			Queries:     []Query{{Expr: `sum(increase(porestream_basecall_reads_total[$__range]))`, Instant: true}},
		},
		{
			Kind: Stat, Title: "Reads that map", Width: 4, Unit: "percentunit", Min: zero,
			Description: "Share of the reads, or of their parts between gaps, that map to the reference, in the time shown.",
			Steps:       []Step{{0, "red"}, {0.5, "orange"}, {0.8, "green"}},
			Queries: []Query{{Instant: true, Expr: `sum(increase(porestream_basecall_read_parts_total{outcome="mapped"}[$__range]))
  / (sum(increase(porestream_basecall_read_parts_total[$__range])) > 0)`}},
		},
		{
			Kind: Stat, Title: "Mean depth", Width: 4, Unit: "short", Min: zero,
			Description: "Aligned bases of the time shown over the length of the reference, all samples together.",
			Queries:     []Query{{Expr: meanDepth, Instant: true}},
		},
		{
			Kind: Stat, Title: "Latency, median", Width: 4, Unit: "s",
			Description: "From the last signal chunk of a read to the annotated revision that follows from it, over the time shown.",
			Steps:       []Step{{0, "green"}, {10, "orange"}, {30, "red"}},
			Queries:     []Query{{Expr: latencyQuantile("0.5", "$__range"), Instant: true}},
		},
	}
}

func sequencing() []Panel {
	return []Panel{
		{
			Kind: Lines, Title: "Signal", Width: 8, Unit: "samples/s", Min: zero,
			Description: "Samples per second that the sources send.",
			Queries:     []Query{{Expr: `sum by (source) (rate(porestream_ingest_samples_total` + ofSource + `[$__rate_interval]))`, Legend: "signal {{source}}"}},
		},
		bases(8),
		{
			Kind: Lines, Title: "Signal that is missing", Width: 8, Unit: "short", Min: zero,
			Description: "Samples of live sources that were lost since ingest started, because neither memory nor the spool had space for them.",
			Queries:     []Query{{Expr: `sum by (source) (porestream_ingest_lost_samples_total` + ofSource + `)`, Legend: "lost {{source}}"}},
		},
	}
}

func reads() []Panel {
	return []Panel{
		{
			Kind: Heat, Title: "Lengths of reads", Width: 8, Unit: "short",
			Description: "Reads, or parts between gaps, by their bases, without adapters and barcodes.",
			Queries:     []Query{{Expr: `sum by (le) (increase(porestream_basecall_read_bases_bucket[$__rate_interval]))`, Legend: "{{le}}"}},
		},
		{
			Kind: Heat, Title: "Qualities of reads", Width: 8, Unit: "short",
			Description: "The same by the mean error probability of their bases, as a Phred score.",
			Queries:     []Query{{Expr: `sum by (le) (increase(porestream_basecall_read_quality_phred_bucket[$__rate_interval]))`, Legend: "{{le}}"}},
		},
		fates(8),
	}
}

func depth() Panel {
	return Panel{
		Kind: Lines, Title: "Mean depth", Width: 8, Unit: "short", Min: zero,
		Description: "Aligned bases since the processors started over the length of the reference, all samples together. It begins anew with a processor that does.",
		Queries:     []Query{{Expr: `sum(porestream_basecall_aligned_bases_total) / max(porestream_variant_reference_bases)`, Legend: "depth"}},
	}
}

func finishing(width int) Panel {
	const finish = `histogram_quantile(%s, sum by (le) (rate(porestream_basecall_finish_duration_seconds_bucket[$__rate_interval]))) >= 0`
	return Panel{
		Kind: Lines, Title: "Finishing a read", Width: width, Unit: "s", Min: zero,
		Description: "From a read's last chunk to its finished basecall. Most of a long read has been called by then.",
		Queries: []Query{
			{Expr: fmt.Sprintf(finish, "0.5"), Legend: "median"},
			{Expr: fmt.Sprintf(finish, "0.99"), Legend: "99 %"},
		},
	}
}

func watching() []Panel {
	return []Panel{
		{
			Kind: Lines, Title: "Alerts of panels", Width: 8, Unit: "short", Min: zero,
			Description: "Answers of the panels' rules about samples since the processors started, by the state that they bring. They are on the topic of alerts.",
			Queries:     []Query{{Expr: `sum by (state) (porestream_watch_alerts_total)`, Legend: "{{state}}"}},
		},
		{
			Kind: Lines, Title: "From a read to an alert", Width: 8, Unit: "s", Min: zero,
			Description: "From the last signal chunk of a read to the alert that follows from it, since the processors started.",
			Queries: []Query{
				{Expr: `histogram_quantile(0.5, sum by (le) (porestream_alert_latency_seconds_bucket)) >= 0`, Legend: "median"},
				{Expr: `histogram_quantile(0.99, sum by (le) (porestream_alert_latency_seconds_bucket)) >= 0`, Legend: "99th percentile"},
			},
		},
	}
}

func sampling() []Panel {
	const needs = "adaptive sampling"
	return []Panel{
		{
			Kind: Bars, Title: "Decisions", Width: 12, Unit: "short", Min: zero, Needs: needs,
			Description: "Decisions about reads in their pores, by action and reason. Nothing without adaptive sampling.",
			Queries:     []Query{{Expr: `sum by (action, reason) (increase(porestream_adaptive_decisions_total[$__rate_interval]))`, Legend: "{{action}} {{reason}}"}},
		},
		{
			Kind: Lines, Title: "Time to a decision", Width: 12, Unit: "s", Min: zero, Needs: needs,
			Description: "From when the last chunk that a decision rests on was taken in by ingest until the decision was written.",
			Queries: []Query{
				{Expr: `histogram_quantile(0.5, sum by (le) (rate(porestream_adaptive_decision_seconds_bucket[$__rate_interval]))) >= 0`, Legend: "median"},
				{Expr: `histogram_quantile(0.99, sum by (le) (rate(porestream_adaptive_decision_seconds_bucket[$__rate_interval]))) >= 0`, Legend: "99 %"},
			},
		},
	}
}
