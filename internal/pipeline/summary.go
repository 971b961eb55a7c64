package pipeline

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/annotate/watch"
	"github.com/porestream/porestream/basecall/finish"
	"github.com/porestream/porestream/stream/streampb"
)

// Summary is a run in figures; it is what summary.json holds.
type Summary struct {
	Runs     int64 `json:"runs"`
	Reads    int64 `json:"reads"`
	Samples  int64 `json:"samples"`
	Bases    int64 `json:"bases"`
	Mapped   int64 `json:"mapped"`
	Gaps     int64 `json:"gaps"`     // places where signal is missing
	Rejected int64 `json:"rejected"` // reads that are too short, map nowhere or can't be used
	// Skipped counts called reads that can't be used.
	Skipped int64 `json:"skipped,omitempty"`
	// FilteredOut counts reads of the recording that weren't chosen (--reads, --channels, --from, --to).
	FilteredOut int64 `json:"filtered_out"`
	// LeftOut counts reads, or parts of reads between gaps, of which nothing was used, by why: short,
	// unsupported (the model is for another sample rate), low_quality, unclassified (no barcode of the
	// run's samples) and unmapped.
	LeftOut map[string]int64 `json:"left_out"`
	// Barcodes counts reads, or parts of them, by barcode, or the alias that a sample sheet has for it; absent
	// if none are looked for.
	Barcodes map[string]int64 `json:"barcodes,omitempty"`
	// SilentSamples are those that a sample sheet names and that no read is of.
	SilentSamples []string `json:"silent_samples,omitempty"`
	DeadLetters   int64    `json:"dead_letters"`
	Variants      int64    `json:"variants"` // that passed the filters
	// Motifs are those that reads of one strand get wrong, by the alleles marked MotifArtifact; absent: none.
	Motifs           []event.MotifCount `json:"motifs,omitempty"`
	WallSeconds      float64            `json:"wall_seconds"`
	SamplesPerSecond float64            `json:"samples_per_second"`
	Device           string             `json:"device"`
	Precision        string             `json:"precision"` // of the basecaller's network: "fp32", "fp16" or "int8"
	Model            string             `json:"model"`
	CallerModel      string             `json:"caller_model"` // "none": the analytic model
	Latency          Latency            `json:"latency_ms"`
	// Alerts counts what panels say of the samples, by state; absent without panels.
	Alerts map[watch.State]int64 `json:"alerts,omitempty"`
}

// leftOut says, for people, why reads are left out.
var leftOut = map[string]string{
	"short": "are too short", "unsupported": "are of a sample rate that the model isn't for", "low_quality": "are below the least quality",
	"unclassified": "have no barcode of the run's samples", "unmapped": "map nowhere on the reference",
}

// Warning says in a line that most reads were of no use, and why; empty if they weren't.
func (s *Summary) Warning() string {
	outcomes := slices.SortedFunc(maps.Keys(s.LeftOut), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.LeftOut[b], s.LeftOut[a]), cmp.Compare(a, b))
	})
	lost := int64(0)
	var reasons []string
	for _, outcome := range outcomes {
		if n := s.LeftOut[outcome]; n > 0 {
			lost += n
			reasons = append(reasons, fmt.Sprintf("%d %s", n, leftOut[outcome]))
		}
	}
	if lost <= s.Mapped {
		return ""
	}
	return fmt.Sprintf("%d of %d reads were left out: %s", lost, lost+s.Mapped, strings.Join(reasons, ", "))
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
		LeftOut:     make(map[string]int64),
		Barcodes:    r.metrics.Barcodes(),
		FilteredOut: int64(r.filteredOut),
		DeadLetters: deadLetters,
		WallSeconds: wall.Seconds(),
		Device:      r.engines.Device(),
		Precision:   r.engines.Precision(),
		Model:       r.engines.Model(),
		CallerModel: r.engines.VariantModel(),
		Latency:     quantiles(r.latencies),
	}
	for outcome := range leftOut {
		s.LeftOut[outcome] = parts(outcome)
	}
	if sheet := r.sheet(); sheet != nil {
		s.SilentSamples = sheet.Silent(finish.SheetKeys(recorded(runs)), s.Barcodes)
	}
	s.SamplesPerSecond = float64(s.Samples) / wall.Seconds()
	s.Variants = fold.passed(runs)
	s.Motifs = fold.motifs(runs)
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
