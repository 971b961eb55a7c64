package pipeline

import (
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/annotate/watch"
	"github.com/porestream/porestream/stream/streampb"
)

// Summary is a run in figures; it is what summary.json holds.
type Summary struct {
	Runs             int64   `json:"runs"`
	Reads            int64   `json:"reads"`
	Samples          int64   `json:"samples"`
	Bases            int64   `json:"bases"`
	Mapped           int64   `json:"mapped"`
	Gaps             int64   `json:"gaps"`              // places where signal is missing
	Rejected         int64   `json:"rejected"`          // reads that are too short, map nowhere or can't be used
	Skipped          int64   `json:"skipped,omitempty"` // called reads that can't be used
	DeadLetters      int64   `json:"dead_letters"`
	Variants         int64   `json:"variants"` // that passed the filters
	WallSeconds      float64 `json:"wall_seconds"`
	SamplesPerSecond float64 `json:"samples_per_second"`
	Device           string  `json:"device"`
	Precision        string  `json:"precision"` // of the basecaller's network: "fp32", "fp16" or "int8"
	Model            string  `json:"model"`
	CallerModel      string  `json:"caller_model"` // "none": the analytic model
	Latency          Latency `json:"latency_ms"`
	// Alerts counts what panels say of the samples, by state; absent without panels.
	Alerts map[watch.State]int64 `json:"alerts,omitempty"`
}

// Latency is how long the calls of a read took from its last signal chunk to the
// variants topic, in milliseconds, over all revisions before the final ones.
type Latency struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

func (r *run) summarise(fold *Fold, alerts *AlertFold, runs []*streampb.Run, wall time.Duration, deadLetters int64) (Summary, error) {
	counts, err := gather(r.cfg.Registry)
	if err != nil {
		return Summary{}, err
	}
	parts := func(outcome string) int64 {
		return counts["porestream_basecall_read_parts_total{"+outcome+"}"] + counts["porestream_align_read_parts_total{"+outcome+"}"]
	}
	s := Summary{
		Runs:        counts["porestream_ingest_runs_total"],
		Reads:       counts["porestream_ingest_reads_total"],
		Samples:     counts["porestream_ingest_samples_total"],
		Bases:       counts["porestream_basecall_bases_total{"+r.engines.Model()+"}"] + counts["porestream_align_bases_total"],
		Mapped:      parts("mapped"),
		Gaps:        counts["porestream_basecall_gaps_total"],
		Rejected:    parts("unmapped") + parts("short") + parts("unsupported"),
		DeadLetters: deadLetters,
		WallSeconds: wall.Seconds(),
		Device:      r.engines.Device(),
		Precision:   r.engines.Precision(),
		Model:       r.engines.Model(),
		CallerModel: r.engines.VariantModel(),
		Latency:     quantiles(r.latencies),
	}
	s.SamplesPerSecond = float64(s.Samples) / wall.Seconds()
	s.Variants = fold.passed(runs)
	if alerts != nil {
		s.Alerts = alerts.states(runs)
	}
	return s, nil
}

// BasesProcessed is how many bases of called reads a run has taken in so far.
func BasesProcessed(reg prometheus.Gatherer) int64 {
	counts, err := gather(reg)
	if err != nil {
		return 0 // a progress display can do without
	}
	return counts["porestream_align_bases_total"]
}

// SamplesProcessed is how many signal samples a run has taken in so far.
func SamplesProcessed(reg prometheus.Gatherer) int64 {
	counts, err := gather(reg)
	if err != nil {
		return 0 // a progress display can do without
	}
	return counts["porestream_basecall_chunk_samples_total"]
}

func quantiles(latencies []time.Duration) Latency {
	if len(latencies) == 0 {
		return Latency{}
	}
	slices.Sort(latencies)
	at := func(q float64) float64 {
		return float64(latencies[int(q*float64(len(latencies)-1))].Microseconds()) / 1000
	}
	return Latency{P50: at(0.5), P99: at(0.99)}
}

// gather reads counters: by name, or by name and the value of the only label.
func gather(reg prometheus.Gatherer) (map[string]int64, error) {
	families, err := reg.Gather()
	if err != nil {
		return nil, fmt.Errorf("gathering the run's counts: %w", err)
	}
	counts := make(map[string]int64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if m.GetCounter() == nil {
				continue
			}
			key := f.GetName()
			if labels := m.GetLabel(); len(labels) == 1 {
				key += "{" + labels[0].GetValue() + "}"
			}
			counts[key] += int64(m.GetCounter().GetValue())
		}
	}
	return counts, nil
}
