package pipeline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/basecall/finish"
	"github.com/porestream/porestream/demux"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/watchlist"
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
	// if none are searched for.
	Barcodes map[string]int64 `json:"barcodes,omitempty"`
	// WithoutBarcode counts reads, or parts of them, on which none was found, by why: no_barcode, ambiguous,
	// far_from_end, ends_disagree, one_end, midstrand, second_barcode, no_inner_barcode, unlisted_pair.
	WithoutBarcode map[string]int64 `json:"without_barcode,omitempty"`
	// SilentSamples are those that a sample sheet names and that no read is of.
	SilentSamples []string `json:"silent_samples,omitempty"`
	// Models are, by sample, the basecalling models of its reads, by name; empty if the reads
	// name none. MixedModels are the samples whose reads several have called.
	Models      map[string][]SampleModel `json:"models,omitempty"`
	MixedModels []string                 `json:"mixed_models,omitempty"`
	DeadLetters int64                    `json:"dead_letters"`
	Variants    int64                    `json:"variants"` // that passed the filters
	// Motifs are those that reads of one strand get wrong, by the alleles marked MotifArtifact; absent: none.
	Motifs           []event.MotifCount `json:"motifs,omitempty"`
	WallSeconds      float64            `json:"wall_seconds"`
	SamplesPerSecond float64            `json:"samples_per_second"`
	Device           string             `json:"device"`
	Precision        string             `json:"precision"` // of the basecaller's network: "fp32", "fp16" or "int8"
	Model            string             `json:"model"`
	VariantModel     string             `json:"variant_model"` // "none": the analytic model
	Latency          Latency            `json:"latency_ms"`
	// Files are the names of the VCF of each sample, variants.vcf if there is one sample; a sample's other files begin
	// as its VCF does. [Result.Write] sets it.
	Files map[string]string `json:"files"`
	// SilentBarcodes counts the samples that the barcodes of a kit can give, that no sample sheet names and of which there is
	// nothing: they have no files. [Result.Write] sets it.
	SilentBarcodes int `json:"silent_barcodes,omitempty"`
	// CarryOver is what the controls of the runs bound; absent: there are none.
	CarryOver *Carried `json:"carry_over,omitempty"`
	// Alerts counts what panels say of the samples, by state; absent without panels.
	Alerts map[watchlist.State]int64 `json:"alerts,omitempty"`
}

// summaryFields are a Summary's, without its methods.
type summaryFields Summary

// MarshalJSON writes VariantModel under its former name, too, so that what reads summary.json has time until 0.2.0, in which it goes.
func (s Summary) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		summaryFields
		CallerModel string `json:"caller_model"` // Deprecated: variant_model
	}{summaryFields(s), s.VariantModel})
}

// UnmarshalJSON reads what was written under the former name, too.
func (s *Summary) UnmarshalJSON(text []byte) error {
	fields := struct {
		*summaryFields
		CallerModel string `json:"caller_model"`
	}{summaryFields: (*summaryFields)(s)}
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	s.VariantModel = cmp.Or(s.VariantModel, fields.CallerModel)
	return nil
}

// SampleModel is how many reads of a sample one basecalling model has called, of those whose
// primary alignment counts.
type SampleModel struct {
	Name     string  `json:"name"` // empty: the reads name none
	Reads    uint64  `json:"reads"`
	Share    float64 `json:"share"`
	Mismatch bool    `json:"mismatch,omitempty"` // the variant model was not made for it
}

// SetModels takes what is known of the samples' basecalling models, by name.
func (s *Summary) SetModels(of map[string][]*streampb.ModelReads) {
	for _, sample := range slices.Sorted(maps.Keys(of)) {
		list, total := of[sample], uint64(0)
		for _, m := range list {
			total += m.GetReads()
		}
		if total == 0 {
			continue
		}
		if s.Models == nil {
			s.Models = make(map[string][]SampleModel)
		}
		for _, m := range list {
			if m.GetReads() > 0 {
				s.Models[sample] = append(s.Models[sample], SampleModel{
					Name: m.GetName(), Reads: m.GetReads(), Share: math.Round(1e4*float64(m.GetReads())/float64(total)) / 1e4, Mismatch: m.GetMismatch(),
				})
			}
		}
		if stream.MixedModels(list) {
			s.MixedModels = append(s.MixedModels, sample)
		}
	}
}

// ModelWarnings says, a line for each sample, that several basecalling models have called its
// reads, or some that the variant model was not made for.
func (s *Summary) ModelWarnings() []string {
	var lines []string
	for _, sample := range slices.Sorted(maps.Keys(s.Models)) {
		var all, strange []string
		var reads, strangers uint64
		for _, m := range s.Models[sample] {
			reads += m.Reads
			text := fmt.Sprintf("%s (%.1f %%)", cmp.Or(m.Name, "none named"), 100*m.Share)
			all = append(all, text)
			if m.Mismatch {
				strange = append(strange, text)
				strangers += m.Reads
			}
		}
		if slices.Contains(s.MixedModels, sample) {
			lines = append(lines, fmt.Sprintf("sample %s mixes basecalling models: %s", sample, strings.Join(all, ", ")))
		}
		if strangers > 0 && float64(strangers) >= stream.MismatchShare*float64(reads) {
			lines = append(lines, fmt.Sprintf("sample %s: variant model %s was not made for reads of %s; calls where they are 5 %% and more say ModelMismatch, and --strict-models refuses", sample, s.VariantModel, strings.Join(strange, ", ")))
		}
	}
	return lines
}

// leftOut says, for people, why reads are left out.
var leftOut = map[string]string{
	"short": "are too short", "unsupported": "are of a sample rate that the model isn't for", "low_quality": "are below the least quality",
	"no_model": "are of runs without a model", "unclassified": "have no barcode of the run's samples", "unmapped": "map nowhere on the reference",
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
		Runs:         counts["porestream_ingest_runs_total"],
		Reads:        counts["porestream_ingest_reads_total"],
		Samples:      counts["porestream_ingest_samples_total"],
		Bases:        called(counts) + counts["porestream_align_bases_total"],
		Mapped:       parts("mapped"),
		Gaps:         counts["porestream_basecall_gaps_total"],
		Rejected:     parts("unmapped") + parts("short") + parts("unsupported") + parts("no_model"),
		LeftOut:      make(map[string]int64),
		Barcodes:     r.metrics.Barcodes(),
		FilteredOut:  int64(r.filteredOut),
		DeadLetters:  deadLetters,
		WallSeconds:  wall.Seconds(),
		Device:       r.engines.Device(),
		Precision:    r.engines.Precision(),
		Model:        r.engines.Model(),
		VariantModel: r.engines.VariantModel(),
		Latency:      quantiles(r.latencies),
		CarryOver:    r.carried,
	}
	for outcome := range leftOut {
		s.LeftOut[outcome] = parts(outcome)
	}
	for _, reason := range demux.Reasons {
		label := "{" + reason + "}"
		if n := counts["porestream_basecall_read_parts_without_barcode_total"+label] + counts["porestream_align_read_parts_without_barcode_total"+label]; n > 0 {
			if s.WithoutBarcode == nil {
				s.WithoutBarcode = make(map[string]int64)
			}
			s.WithoutBarcode[reason] = n
		}
	}
	if sheet := r.sheet(); sheet != nil {
		s.SilentSamples = sheet.Silent(finish.SheetKeys(recorded(runs)), s.Barcodes)
	}
	own := make(map[string][]*streampb.ModelReads) // the topics may hold other samples
	for _, run := range runs {
		for _, sample := range stream.SamplesOf(run) {
			own[sample] = r.models[sample]
		}
	}
	s.SetModels(own)
	s.SamplesPerSecond = float64(s.Samples) / wall.Seconds()
	s.Variants = fold.passed(runs)
	s.Motifs = fold.motifs(runs)
	if alerts != nil {
		s.Alerts = alerts.states(runs)
	}
	return s, nil
}

// called is how many bases all models have called.
func called(counts map[string]int64) int64 {
	bases := int64(0)
	for key, n := range counts {
		if strings.HasPrefix(key, "porestream_basecall_bases_total{") {
			bases += n
		}
	}
	return bases
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
