package pipeline

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/carryover"
	"github.com/porestream/porestream/vcf"
	"github.com/porestream/porestream/watchlist"
	"github.com/porestream/porestream/wholefile"
)

// Write writes variants.vcf, variants.jsonl and summary.json into dir, with panels
// alerts.json and alerts.tsv, with counts of modified bases methylation.bed and bedGraph tracks, and if the survey asked for them variants.g.vcf and
// callable.bed. With several samples each has files of its
// own, SAMPLE.variants.vcf and so on, which the summary names. A folder that isn't there is made: somebody may have removed it while a run of hours was under way.
func (r *Result) Write(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the folder for the results: %w", err)
	}
	samples, silent := r.samples()
	r.Summary.SilentBarcodes = silent
	taken := make(map[string]bool)
	r.Summary.Files = make(map[string]string)
	for _, sample := range samples {
		prefix := ""
		if len(samples) > 1 {
			for prefix = fileName(sample) + "."; taken[prefix]; prefix = "_" + prefix {
			}
			taken[prefix] = true
		}
		r.Summary.Files[sample] = prefix + "variants.vcf"
		variants := r.Fold.Variants(sample, r.Genome.Rank)
		err := wholefile.Write(filepath.Join(dir, prefix+"variants.vcf"), func(w *bufio.Writer) error {
			return WriteVCF(w, r.Genome, sample, r.Variant, r.VCFVersion, variants)
		})
		if err != nil {
			return err
		}
		if err := r.writeReference(func(name string) string { return filepath.Join(dir, prefix+name) }, sample, variants); err != nil {
			return err
		}
		err = wholefile.Write(filepath.Join(dir, prefix+"variants.jsonl"), func(w *bufio.Writer) error {
			for _, v := range variants {
				line, err := v.JSON()
				if err != nil {
					return err
				}
				if _, err := w.Write(append(line, '\n')); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if r.Methylation != nil {
			if err := r.writeMethylation(ctx, func(name string) string { return filepath.Join(dir, prefix+name) }, sample); err != nil {
				return err
			}
		}
		if r.Alerts == nil {
			continue
		}
		alerts := r.Alerts.Alerts(sample)
		for name, write := range map[string]func(io.Writer, []*watchlist.Alert) error{"alerts.json": writeAlerts, "alerts.tsv": writeAlertTable} {
			if err := wholefile.Write(filepath.Join(dir, prefix+name), func(w *bufio.Writer) error { return write(w, alerts) }); err != nil {
				return err
			}
		}
	}
	return wholefile.Write(filepath.Join(dir, "summary.json"), func(w *bufio.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r.Summary)
	})
}

// samples lists the samples of the runs, those without a call included, but of the
// barcodes that no sheet lists only those with one, or with reads if the survey reports places without a call; silent counts the others.
func (r *Result) samples() (samples []string, silent int) {
	shown := r.Fold.Shown()
	if r.Methylation != nil {
		shown = slices.Concat(shown, r.Methylation.Samples())
	}
	if r.Survey.GVCF || r.Survey.Callable {
		shown = slices.AppendSeq(shown, maps.Keys(r.Summary.Models)) // of models that have called reads
	}
	left := make(map[string]bool)
	for _, run := range r.Runs {
		for _, sample := range stream.SamplesOf(run) {
			if len(run.GetSamples()) == 0 || run.GetSamplesListed() || slices.Contains(shown, sample) {
				samples = append(samples, sample)
				continue
			}
			left[sample] = true
		}
	}
	slices.Sort(samples)
	samples = slices.Compact(samples)
	for _, sample := range samples { // that another run lists
		delete(left, sample)
	}
	return samples, len(left)
}

// WriteVCF writes the variants of one sample, which are in the order of the
// file, as called with the given thresholds; version is that of the file, unless it needs a higher one. It holds nothing that differs between two runs over the same reads.
func WriteVCF(w io.Writer, g *genome.Genome, sample string, caller variant.Config, version vcf.Version, variants []*event.Variant) error {
	header := variant.Header(g.Contigs, sample, caller)
	declareStatus(header, variants)
	_ = header.SetVersion(version) // of a higher version if the file needs one, and says so: results aren't given up for it
	header.AddInfo("CSQ", ".", "String", annotate.CSQDescription)
	for _, v := range variants {
		if origin := v.Annotation.GeneModels; origin != "" {
			header.AddMeta(annotate.GeneModelsMeta(origin))
			break
		}
	}
	info := declareInfo(header, variants)
	out, err := vcf.NewWriter(w, header)
	if err != nil {
		return err
	}
	calls := make([]*streampb.Call, len(variants))
	events := make(map[*streampb.Call]*event.Variant, len(variants))
	for i, v := range variants {
		calls[i] = v.ToCall()
		events[calls[i]] = v
	}
	for _, site := range variant.VCFSites(calls) {
		info.set(&site, events)
		if err := out.Write(site.Record); err != nil {
			return err
		}
	}
	return out.Flush()
}

// variantInfo is what INFO says of the alleles of a file besides what calling does.
type variantInfo struct {
	known  *annotate.KnownInfo
	scores *annotate.ScoreInfo
}

// declareInfo declares what the variants of a file have.
func declareInfo(header *vcf.Header, variants []*event.Variant) variantInfo {
	info := variantInfo{
		known: annotate.KnownInfoOf(func(yield func(*annotate.Known) bool) {
			for _, v := range variants {
				for i := range v.Annotation.Known {
					if !yield(&v.Annotation.Known[i]) {
						return
					}
				}
			}
		}),
		scores: annotate.ScoreInfoOf(func(yield func(*annotate.Score) bool) {
			for _, v := range variants {
				for i := range v.Annotation.Scores {
					if !yield(&v.Annotation.Scores[i]) {
						return
					}
				}
			}
		}),
	}
	info.known.Declare(header)
	info.scores.Declare(header)
	if slices.ContainsFunc(variants, func(v *event.Variant) bool { return v.Call.CarryOver != nil }) {
		carryover.Declare(header)
	}
	return info
}

// set says of the alleles of a record what their events say; one without a call has no event.
func (v *variantInfo) set(site *variant.VCFSite, events map[*streampb.Call]*event.Variant) {
	rec := site.Record
	var csq []byte
	for i, c := range site.Calls {
		if c == nil {
			continue
		}
		ann := named(events[c].Annotation, annotate.AlleleName(rec.Ref, rec.Alt[i]))
		if entries := ann.AppendCSQ(nil); len(csq) > 0 && len(entries) > 0 {
			csq = append(append(csq, ','), entries...)
		} else {
			csq = append(csq, entries...)
		}
	}
	if len(csq) > 0 {
		rec.Info.Set("CSQ", string(csq))
	}
	v.known.Set(rec, func(alt int) []annotate.Known {
		if c := site.Calls[alt]; c != nil {
			return events[c].Annotation.Known
		}
		return nil
	})
	v.scores.Set(rec, func(alt int) []annotate.Score {
		if c := site.Calls[alt]; c != nil {
			return events[c].Annotation.Scores
		}
		return nil
	})
	carryover.Mark(rec, func(alt int) *carryover.Assessment {
		if c := site.Calls[alt]; c != nil {
			return assessmentOf(events[c])
		}
		return nil
	})
}

// declareStatus has a header say whether the variants of the file are final.
func declareStatus(h *vcf.Header, variants []*event.Variant) {
	if slices.ContainsFunc(variants, goesOn) {
		variant.DeclareProvisional(h)
	}
}

// goesOn reports whether a revision of an allele may be followed by others before its sample has ended.
func goesOn(v *event.Variant) bool {
	return v.Status == streampb.CallStatus_PROVISIONAL.String() || v.Status == streampb.CallStatus_STABLE.String()
}

// named is an annotation whose allele has the name that it gets in a record: REF may
// be longer where several alleles share it.
func named(ann annotate.Annotation, name string) annotate.Annotation {
	ann.Consequences = slices.Clone(ann.Consequences)
	for i := range ann.Consequences {
		ann.Consequences[i].Allele = name
	}
	return ann
}

// fileName makes a sample's name fit for a file.
func fileName(sample string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`/\:*?"<>|`, r) {
			return '_'
		}
		return r
	}, sample)
}
