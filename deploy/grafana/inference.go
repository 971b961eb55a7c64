package grafana

// inference is about the devices that networks run on, and how well they are fed.
func inference() Dashboard {
	return Dashboard{
		UID:         uidPrefix + "inference",
		Title:       "Porestream: GPU and inference",
		Description: "What the networks run on, how full their batches are, how long work waits for them, and what the devices themselves say.",
		Rows: []Row{
			{Title: "At a glance", Height: 4, Panels: devices()},
			{Title: "Batches", Height: 8, Panels: append(batches(), dispatches(8), waitingWindows(8), failedBatches(8))},
			{Title: "Time", Height: 8, Panels: times()},
			{Title: "Basecalling model", Height: 8, Panels: []Panel{bases(8), earlySignal(), openSignal()}},
			{Title: "Variant model", Height: 8, Panels: append(variantScoring(), alleles(6))},
			{Title: "GPU, by dcgm-exporter", Height: 8, Panels: gpu()},
		},
	}
}

func devices() []Panel {
	return []Panel{
		{
			Kind: Stat, Title: "Devices", Width: 8, Unit: "short",
			Description: "Processes that have a model, by model and device.",
			Queries:     []Query{{Expr: `sum by (model, device) (porestream_infer_info)`, Legend: "{{model}} on {{device}}"}},
		},
		{
			Kind: Stat, Title: "Samples computed", Width: 8, Unit: "samples/s",
			Description: "Samples of windows per second, by model. Windows overlap, so these are more than the samples of the reads.",
			Queries:     []Query{{Expr: `sum by (model) (rate(porestream_infer_samples_total[$__rate_interval]))`, Legend: "{{model}}"}},
		},
		{
			Kind: Stat, Title: "Batches under way", Width: 8, Unit: "short",
			Description: "Mean number of batches that are computed at the same time, by model. Near the number of sessions, the device is what limits; near 0, it waits for work.",
			Queries:     []Query{{Expr: busy, Legend: "{{model}}"}},
		},
	}
}

// busy is the time that is spent in the runtime per time that passes.
const busy = `sum by (model) (rate(porestream_infer_compute_duration_seconds_sum[$__rate_interval]))`

func failedBatches(width int) Panel {
	return Panel{
		Kind: Lines, Title: "Failed batches", Width: width, Unit: "short", Min: zero,
		Description: "Batches since the processors started that the runtime failed to compute. They are computed again.",
		Queries:     []Query{{Expr: `sum by (model) (porestream_infer_batch_failures_total)`, Legend: "{{model}}"}},
	}
}

func earlySignal() Panel {
	return Panel{
		Kind: Lines, Title: "Called while the read goes on", Width: 8, Unit: "percentunit", Min: zero,
		Description: "Share of the signal that was handed to the network before its read had ended. It is what keeps long reads from being late.",
		Queries: []Query{{
			Expr: `sum(rate(porestream_basecall_early_samples_total[$__rate_interval]))
  / (sum(rate(porestream_basecall_chunk_samples_total[$__rate_interval])) > 0)`,
			Legend: "early",
		}},
	}
}

func openSignal() Panel {
	return Panel{
		Kind: Lines, Title: "Memory of open reads", Width: 8, Unit: "bytes", Min: zero,
		Description: "What reads take whose end has not come: their signal, and what has been called of it at most.",
		Queries:     []Query{{Expr: `sum by (instance) (porestream_basecall_open_signal_bytes)`, Legend: "{{instance}}"}},
	}
}

// gpu shows what NVIDIA's exporter says beside what the networks do: its metrics are
// not exported a second time.
func gpu() []Panel {
	const exporter = "a GPU with NVIDIA's dcgm-exporter"
	return []Panel{
		{
			Kind: Lines, Title: "GPU use", Width: 8, Unit: "percent", Min: zero, Needs: exporter,
			Description: "Share of the time in which the GPU computed anything.",
			Queries:     []Query{{Expr: `DCGM_FI_DEV_GPU_UTIL`, Legend: "{{Hostname}} {{gpu}}"}},
		},
		{
			Kind: Lines, Title: "Tensor cores", Width: 8, Unit: "percentunit", Min: zero, Max: one, Needs: exporter,
			Description: "Share of the time in which tensor cores computed.",
			Queries:     []Query{{Expr: `DCGM_FI_PROF_PIPE_TENSOR_ACTIVE`, Legend: "{{Hostname}} {{gpu}}"}},
		},
		{
			Kind: Lines, Title: "GPU memory", Width: 8, Unit: "decmbytes", Min: zero, Needs: exporter,
			Description: "Memory in use.",
			Queries:     []Query{{Expr: `DCGM_FI_DEV_FB_USED`, Legend: "{{Hostname}} {{gpu}}"}},
		},
		{
			Kind: Lines, Title: "Power", Width: 8, Unit: "watt", Min: zero, Needs: exporter,
			Description: "Power drawn. A GPU at its limit slows down.",
			Queries:     []Query{{Expr: `DCGM_FI_DEV_POWER_USAGE`, Legend: "{{Hostname}} {{gpu}}"}},
		},
		{
			Kind: Lines, Title: "Temperature", Width: 8, Unit: "celsius", Min: zero, Needs: exporter,
			Description: "Temperature of the GPU.",
			Queries:     []Query{{Expr: `DCGM_FI_DEV_GPU_TEMP`, Legend: "{{Hostname}} {{gpu}}"}},
		},
		{
			Kind: Lines, Title: "XID errors", Width: 8, Unit: "short", Min: zero, Needs: exporter,
			Description: "Number of the last error of the driver; 0 is none. NVIDIA lists what they mean.",
			Queries:     []Query{{Expr: `DCGM_FI_DEV_XID_ERRORS`, Legend: "{{Hostname}} {{gpu}}"}},
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
		batchFill(8),
		{
			Kind: Lines, Title: "Batches under way", Width: 8, Unit: "short", Min: zero,
			Description: "Mean number of batches that are computed at the same time.",
			Queries:     []Query{{Expr: busy, Legend: "{{model}}"}},
		},
	}
}

func times() []Panel {
	return []Panel{
		{
			Kind: Lines, Title: "Wait for a batch", Width: 12, Unit: "s", Min: zero,
			Description: "Time that a window waited for its batch.",
			Queries: []Query{
				{Expr: durationQuantile("0.5", "porestream_infer_queue_duration_seconds"), Legend: "median, {{model}}"},
				{Expr: durationQuantile("0.99", "porestream_infer_queue_duration_seconds"), Legend: "99 %, {{model}}"},
			},
		},
		{
			Kind: Lines, Title: "Computing a batch", Width: 12, Unit: "s", Min: zero,
			Description: "Time that ONNX Runtime took for a batch.",
			Queries: []Query{
				{Expr: durationQuantile("0.5", "porestream_infer_compute_duration_seconds"), Legend: "median, {{model}}"},
				{Expr: durationQuantile("0.99", "porestream_infer_compute_duration_seconds"), Legend: "99 %, {{model}}"},
			},
		},
	}
}

// variantScoring is about the network that scores alleles, which shares devices with the
// basecaller's network; its batches are among those above.
func variantScoring() []Panel {
	return []Panel{
		{
			Kind: Lines, Title: "Alleles scored", Width: 6, Unit: "ops", Min: zero,
			Description: "Alleles per second that the variant model scored, each evaluation of one counted. None with the analytic model.",
			Queries:     []Query{{Expr: `sum by (model) (rate(porestream_variant_examples_total[$__rate_interval]))`, Legend: "{{model}}"}},
		},
		{
			Kind: Lines, Title: "Wait for scores of alleles", Width: 6, Unit: "s", Min: zero,
			Description: "Time that a region waits for the variant model to score all alleles of one evaluation.",
			Queries: []Query{
				{Expr: durationQuantile("0.5", "porestream_variant_judge_duration_seconds"), Legend: "median, {{model}}"},
				{Expr: durationQuantile("0.99", "porestream_variant_judge_duration_seconds"), Legend: "99 %, {{model}}"},
			},
		},
		{
			Kind: Lines, Title: "Alleles per evaluation", Width: 6, Unit: "short", Min: zero,
			Description: "Mean number of alleles that are scored together. Those of regions that wait at the same time share batches.",
			Queries: []Query{{
				Expr: `sum by (model) (rate(porestream_variant_examples_total[$__rate_interval]))
  / (sum by (model) (rate(porestream_variant_judge_duration_seconds_count[$__rate_interval])) > 0)`,
				Legend: "{{model}}",
			}},
		},
	}
}
