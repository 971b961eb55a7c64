// Package processor runs the stages of the pipeline on one machine. wire.go
// shows the whole flow in one function.
package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	adaptivestage "github.com/porestream/porestream/adaptive/stage"
	"github.com/porestream/porestream/align/minimap"
	"github.com/porestream/porestream/align/primer"
	alignstage "github.com/porestream/porestream/align/stage"
	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/diplotype"
	"github.com/porestream/porestream/annotate/haplotype"
	sequence "github.com/porestream/porestream/annotate/network"
	"github.com/porestream/porestream/annotate/source"
	annotatestage "github.com/porestream/porestream/annotate/stage"
	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/finish"
	basecallstage "github.com/porestream/porestream/basecall/stage"
	"github.com/porestream/porestream/genome"
	methylatestage "github.com/porestream/porestream/modbase/stage"
	"github.com/porestream/porestream/models"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/network"
	variantstage "github.com/porestream/porestream/variant/stage"
	"github.com/porestream/porestream/watchlist"
	watchnetwork "github.com/porestream/porestream/watchlist/network"
	watchstage "github.com/porestream/porestream/watchlist/stage"
)

// allStages lists the stages in the order of the flow.
var allStages = []string{adaptivestage.Name, basecallstage.Name, alignstage.Name, variantstage.Name, methylatestage.Name, annotatestage.Name, watchstage.Name}

// Work says which stages have something to do that not all deployments have.
type Work struct {
	Panels   bool // samples are held against watch-lists
	Adaptive bool // reads are decided about while they are sequenced
	// Methylation: modified bases are counted.
	Methylation bool
}

// ParseStages reads a comma-separated list of stages; empty means all that have work.
func ParseStages(list string, work Work) ([]string, error) {
	idle := map[string]string{}
	if !work.Panels {
		idle[watchstage.Name] = "a panel: give --panel"
	}
	if !work.Adaptive {
		idle[adaptivestage.Name] = "--adaptive enrich or --adaptive deplete"
	}
	if !work.Methylation {
		idle[methylatestage.Name] = "--methylation"
	}
	if list == "" {
		return slices.DeleteFunc(slices.Clone(allStages), func(s string) bool { return idle[s] != "" }), nil
	}
	var stages []string
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		switch {
		case !slices.Contains(allStages, name):
			return nil, fmt.Errorf("unknown stage %q: the stages are %s", name, strings.Join(allStages, ", "))
		case slices.Contains(stages, name):
			return nil, fmt.Errorf("stage %q is named twice", name)
		case idle[name] != "":
			return nil, fmt.Errorf("the %s stage needs %s", name, idle[name])
		}
		stages = append(stages, name)
	}
	return stages, nil
}

// Options says which engines to load.
type Options struct {
	Flags
	Stages  []string
	Variant variant.Config // thresholds; Calling completes them

	Registerer prometheus.Registerer
	Logger     *slog.Logger
}

// Engines are what the stages compute with. They are loaded once per process
// and shared by all of its workers.
type Engines struct {
	Genome      *genome.Genome
	Definitions []*diplotype.Definitions // of named alleles; none: no diplotypes
	Annotator   *annotate.Annotator      // annotate stage, and panels
	Sources     *source.Set              // nil: none
	Watch       *watchlist.Watch         // nil: no panels
	Caller      *basecall.Caller         // basecall and adaptive stages; nil where runs have models of their own
	models      *runModels               // basecall stage; nil: all runs have Caller
	modified    *modifiers               // basecall stage; nil: nothing is said of modified bases
	variant     variant.Config
	network     *network.Network // variant stage; nil: the analytic model
	strict      bool             // variant stage: reads that the network wasn't made for are refused
	survey      variant.SurveyConfig
	signal      Signal
	barcoding   Barcoding
	primers     *primer.Scheme           // basecall and align stages; nil: none
	finisher    *finish.Finisher         // basecall and align stages; nil: reads stay as they are called
	haplotypes  annotatestage.Haplotypes // annotate stage
	scorer      *sequence.Scorer         // annotate stage; nil: no networks
	genes       string                   // fingerprint of reference and gene model
	panels      string                   // fingerprint
	biomarkers  watchnetwork.Networks    // watch stage: those that panels ask
	index       *minimap.Index
	aligners    *minimap.Pool // basecall and align stages
	deciders    *deciders     // adaptive stage; nil without
	// methylation: modified bases are counted, of calls that the filter lets through.
	methylation bool
	findMotifs  bool // by these
	byHaplotype bool // they are, too
	filter      methylatestage.Filter
	stages      []string
}

// Load loads the engines that the chosen stages need, and refuses inputs that
// don't belong together.
func Load(ctx context.Context, opts Options) (*Engines, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	warnOfIdleFlags(opts)
	e := &Engines{signal: opts.Signal, survey: opts.Survey.Config(), stages: opts.Stages}
	for _, load := range []func(Options) error{
		e.loadReference,
		func(opts Options) error { return e.loadAnnotator(ctx, opts) },
		e.loadAnnotateStage, e.loadWatch, e.loadVariantCaller, e.loadBasecalling, e.loadAlignment,
	} {
		if err := load(opts); err != nil {
			return nil, errors.Join(err, e.Close())
		}
	}
	return e, nil
}

// runs reports whether the engines are loaded for a stage.
func (e *Engines) runs(stage string) bool { return slices.Contains(e.stages, stage) }

// aligns reports whether called reads are placed on the reference.
func (e *Engines) aligns() bool { return e.runs(basecallstage.Name) || e.runs(alignstage.Name) }

// loadReference loads the reference, and what stands on it for all stages.
func (e *Engines) loadReference(opts Options) (err error) {
	if e.Genome, err = opts.Genes.Genome(opts.Reference); err != nil {
		return err
	}
	e.Genome.Hash()
	e.methylation, e.findMotifs, e.byHaplotype = opts.Methylation.On, opts.Methylation.FindMotifs, opts.Methylation.Haplotypes
	if e.filter, err = opts.Methylation.filter(); err != nil {
		return err
	}
	if e.Definitions, err = LoadDefinitions(opts.Definitions, e.Genome); err != nil {
		return err
	}
	if opts.Primers != "" {
		if e.primers, err = LoadPrimers(opts.Primers, e.Genome); err != nil {
			return err
		}
		opts.Logger.Info("bases within primers are no evidence", "scheme", opts.Primers, "amplicons", e.primers.Amplicons(), "primers", e.primers.Primers())
	}
	return nil
}

// loadAnnotator loads genes and known variants, which the annotate stage and panels ask.
func (e *Engines) loadAnnotator(ctx context.Context, opts Options) (err error) {
	if !e.runs(annotatestage.Name) && len(opts.Panels) == 0 {
		return nil
	}
	if e.Annotator, err = opts.Genes.Annotator(ctx, e.Genome, opts.Logger); err != nil {
		return err
	}
	if e.genes, err = opts.Genes.fingerprint(e.Genome, e.Annotator.Model().Origin); err != nil {
		return err
	}
	if e.Annotator, err = opts.Genes.WithFunctions(e.Annotator, opts.Functions, opts.Logger); err != nil {
		return err
	}
	if len(opts.Sources) == 0 {
		return nil
	}
	return e.loadSources(opts.Sources)
}

// loadAnnotateStage loads what the annotate stage has besides its annotator: haplotypes and networks.
func (e *Engines) loadAnnotateStage(opts Options) error {
	if !e.runs(annotatestage.Name) {
		return nil
	}
	genes, err := haplotype.NewGenes(e.Genome, e.Annotator.Model(), opts.Genes.Reader.Codes.AllStarts)
	if err != nil {
		return err
	}
	e.haplotypes = annotatestage.GeneHaplotypes{Genes: genes}
	e.scorer, err = opts.Scoring.Open(e.Genome, e.Annotator.Model(), sequence.Config{
		Device: OwnDevice(opts.Device), DeviceTimeout: opts.DeviceTimeout, Library: opts.Library, GivesWay: true, Logger: opts.Logger, Registerer: opts.Registerer,
	})
	return err
}

// loadWatch loads the panels, and for the watch stage the models that they ask.
func (e *Engines) loadWatch(opts Options) error {
	if len(opts.Panels) == 0 {
		return nil
	}
	if err := e.loadPanels(opts.Panels, &opts.Calling, opts.Scoring.On(), opts.Methylation.On, opts.Logger); err != nil {
		return err
	}
	if !e.runs(watchstage.Name) {
		return nil
	}
	return e.openModels(opts.Library, opts.Logger)
}

// loadVariantCaller loads what the variant stage calls with.
func (e *Engines) loadVariantCaller(opts Options) (err error) {
	if !e.runs(variantstage.Name) {
		return nil
	}
	if e.variant, e.network, err = opts.Calling.Load(e.Genome, opts.Variant, network.Config{
		Device: opts.Device, DeviceTimeout: opts.DeviceTimeout, Library: opts.Library, Logger: opts.Logger, Registerer: opts.Registerer,
	}); err != nil {
		return err
	}
	if e.byHaplotype && !e.variant.Has(variant.Diploid) {
		return errNoCopies
	}
	e.strict = opts.Calling.Strict
	return nil
}

// loadBasecalling loads what the basecall stage calls with, and the adaptive stage. The variant caller is
// there already: with --strict-models it refuses reads of other models than it was made for.
func (e *Engines) loadBasecalling(opts Options) error {
	calling := e.runs(basecallstage.Name)
	switch {
	case calling && opts.RunModels.On():
		if err := e.loadRunModels(opts); err != nil {
			return err
		}
	case calling || e.runs(adaptivestage.Name):
		if err := e.loadBasecaller(opts); err != nil {
			return err
		}
	}
	if !calling {
		return nil
	}
	if err := e.loadModified(opts); err != nil {
		return err
	}
	if e.Caller == nil || !e.strict {
		return nil
	}
	return variant.NewBasecallers(e.network, e.VariantModel()).Refuse(e.Model())
}

// loadAlignment loads what places called reads, for the stages that follow a call and for those that decide by where reads are from.
func (e *Engines) loadAlignment(opts Options) (err error) {
	deciding := e.runs(adaptivestage.Name)
	if deciding || e.aligns() {
		if err := e.loadAligner(opts); err != nil {
			return err
		}
	}
	if e.runs(basecallstage.Name) && e.Caller != nil && opts.Signal.Partial > 0 && !e.Caller.InFlight() {
		return fmt.Errorf("--partial: model %s calls reads when they have ended; take one whose manifest has the normalisation scope \"running\"",
			e.Caller.Model().Manifest.Name)
	}
	if e.aligns() {
		if e.aligners, err = e.index.NewPool(runtime.GOMAXPROCS(0)); err != nil {
			return err
		}
	}
	if !deciding {
		return nil
	}
	return e.loadDeciders(opts.Adaptive, opts.Logger)
}

func (e *Engines) loadBasecaller(opts Options) error {
	model, err := models.Open(opts.Model)
	if err != nil {
		return err
	}
	if e.Caller, err = basecall.NewCaller(model, basecall.Config{
		Device: opts.Device, DeviceTimeout: opts.DeviceTimeout, Compute: opts.Compute, Library: opts.Library, Logger: opts.Logger, Registerer: opts.Registerer,
	}); err != nil {
		return err
	}
	return nil
}

// loadAligner loads what places called reads, called here or elsewhere.
func (e *Engines) loadAligner(opts Options) error {
	var model *basecall.Model
	if e.Caller != nil {
		model = e.Caller.Model()
	}
	var err error
	e.barcoding = opts.Barcoding
	if e.finisher, err = opts.Barcoding.finisher(model); err != nil {
		return err
	}
	e.index, err = minimap.OpenIndex(e.Genome, opts.Index, minimap.Config{Preset: opts.Preset})
	return err
}

// readsAtOnce is how many reads a stage has in the works for each processor: enough that the
// network's batches fill while other reads are decoded, aligned and written.
const readsAtOnce = 8

// stageAligners are the aligners as stages take them, one for each read in the works. No more
// reads than there are processors are being aligned at a time: more threads would only take
// the processors, and what minimap2 has in their caches, from each other.
func (e *Engines) stageAligners() []alignstage.Aligner {
	return slices.Repeat([]alignstage.Aligner{e.aligners}, readsAtOnce*runtime.GOMAXPROCS(0))
}

// contig is the sequence of a contig of the reference.
func (e *Engines) contig(name string) []byte { return e.Genome.Contig(name).Seq }

// Stages are those that the engines were loaded for.
func (e *Engines) Stages() []string { return e.stages }

// Device names the device that basecalling runs on; empty without that stage. Where runs have
// models of their own, it is that of the one loaded last, and empty before.
func (e *Engines) Device() string {
	if e.models != nil {
		e.models.mu.Lock()
		defer e.models.mu.Unlock()
		return e.models.device
	}
	if e.Caller == nil {
		return ""
	}
	return e.Caller.Device()
}

// Precision names what basecalling computes in, as Device does where it does.
func (e *Engines) Precision() string {
	if e.models != nil {
		e.models.mu.Lock()
		defer e.models.mu.Unlock()
		return e.models.precision
	}
	if e.Caller == nil {
		return ""
	}
	return e.Caller.Precision().String()
}

// Model names the basecalling model; empty without that stage. Where runs have models of their
// own, it is those that were loaded so far.
func (e *Engines) Model() string {
	if e.models != nil {
		return strings.Join(e.models.names(), ", ")
	}
	if e.Caller == nil {
		return ""
	}
	return e.Caller.Model().Manifest.Name
}

// VariantModel names the model that scores variants, or models.None; empty without that stage.
func (e *Engines) VariantModel() string {
	switch {
	case !slices.Contains(e.stages, variantstage.Name):
		return ""
	case e.network == nil:
		return models.None
	}
	return e.network.Model().Manifest.Name
}

// VariantConfig is what the variant stage calls with.
func (e *Engines) VariantConfig() variant.Config { return e.variant }

// scoring is what the annotate stage scores with.
func (e *Engines) scoring() *annotatestage.Scoring {
	if e.scorer == nil {
		return nil
	}
	return &annotatestage.Scoring{Scorer: e.scorer, Genome: e.Genome}
}

// Close releases devices and memory.
func (e *Engines) Close() error {
	var errs []error
	if e.network != nil {
		errs = append(errs, e.network.Close())
	}
	if e.scorer != nil {
		errs = append(errs, e.scorer.Close())
	}
	if e.Caller != nil {
		errs = append(errs, e.Caller.Close())
	}
	if e.models != nil {
		errs = append(errs, e.models.pool.Close())
	}
	if e.modified != nil {
		errs = append(errs, e.modified.close())
	}
	errs = append(errs, e.biomarkers.Close())
	if e.aligners != nil {
		errs = append(errs, e.aligners.Close())
	}
	if e.deciders != nil {
		for _, a := range e.deciders.aligners {
			errs = append(errs, a.Close())
		}
	}
	if e.index != nil {
		errs = append(errs, e.index.Close())
	}
	if e.Sources != nil {
		errs = append(errs, e.Sources.Close())
	}
	return errors.Join(errs...)
}

// CheckModels refuses a recording of which no run can be called, before anything is computed; see
// [CheckModel]. named states whether the user chose the model.
func (e *Engines) CheckModels(recording *signal.Index, named bool) error {
	if e.models != nil {
		return e.models.check(recording.Runs())
	}
	return CheckModel(recording, e.Caller.Model(), named, ChosenForEach)
}

// ChosenForEach is what commands with --models-dir advise besides another model, for recordings of several chemistries.
const ChosenForEach = ", or let --models-dir choose for each run"

// CheckModel refuses a recording that the model was not made for, before anything
// is computed. named states whether the user chose the model; if not, a run that doesn't say what it
// was sequenced with is refused too, rather than called with whatever is the default. otherwise is what the user may do
// instead of naming another model.
func CheckModel(recording *signal.Index, model *basecall.Model, named bool, otherwise string) error {
	m := model.Manifest
	checked := make(map[*signal.Run]bool)
	for i := range recording.Len() {
		run := recording.Entry(i).Run
		if checked[run] {
			continue
		}
		checked[run] = true
		chemistry := run.Chemistry()
		switch {
		case !slices.Contains(m.SampleRates, run.SampleRate):
			return fmt.Errorf("%s: run %s was recorded at %d Hz, but model %s is for %v Hz: choose another with --model%s",
				recording.Path(i), run.ID, run.SampleRate, m.Name, m.SampleRates, otherwise)
		case chemistry == "" && !named:
			return fmt.Errorf("%s: run %s names neither flow cell nor kit, so no model can be chosen for it: name one with --model",
				recording.Path(i), run.ID)
		case chemistry != "" && chemistry != m.Chemistry:
			return fmt.Errorf("%s: run %s was sequenced with %s chemistry, but model %s is for %s: choose another with --model%s",
				recording.Path(i), run.ID, chemistry, m.Name, m.Chemistry, otherwise)
		}
	}
	return nil
}

// LoadPrimers reads a primer scheme for a reference.
func LoadPrimers(path string, g *genome.Genome) (*primer.Scheme, error) {
	scheme, err := primer.Open(path, func(name string) (int, bool) {
		c := g.Contig(name)
		if c == nil {
			return 0, false
		}
		return len(c.Seq), true
	})
	if err != nil {
		return nil, fmt.Errorf("--primers: %w", err)
	}
	return scheme, nil
}
