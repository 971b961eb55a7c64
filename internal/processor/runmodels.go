package processor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/infer"
	basecallstage "github.com/porestream/porestream/basecall/stage"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/metric"
	"github.com/porestream/porestream/models"
	"github.com/porestream/porestream/models/pool"
	"github.com/porestream/porestream/models/rules"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
)

// RunModels says which basecalling model each run is called with. The zero value has one for
// all of them.
type RunModels struct {
	Rules string // file of rules; empty: none
	Dir   string // folder of models, of which the one for a run is taken; empty: none
	// Keep is how many models stay loaded that no run needs, and Idle for how long no run must
	// have needed a model before it is unloaded for another. 0 means 4 and 5 min.
	Keep int
	Idle time.Duration
}

const (
	defaultKeep = 4
	defaultIdle = 5 * time.Minute
	// loadRetry is for how long a model that could not be loaded is not tried again.
	loadRetry = time.Minute
)

// Register adds the flags.
func (m *RunModels) Register(flags *pflag.FlagSet) {
	flags.StringVar(&m.Rules, "models", "", "rules by which each run gets its basecalling model, YAML, instead of --model (docs/attach/run-models.md)")
	flags.StringVar(&m.Dir, "models-dir", "", "folder of basecalling models; each run gets the one for its flow cell, kit and sample rate, of the size in --model (fast, hac or sup) or --models")
	flags.IntVar(&m.Keep, "models-keep", defaultKeep, "basecalling models that stay loaded while no run needs them, with --models or --models-dir")
	flags.DurationVar(&m.Idle, "models-idle", defaultIdle, "time that no run must have needed a basecalling model before it is unloaded for another")
}

// On reports whether runs have models of their own.
func (m RunModels) On() bool { return m.Rules != "" || m.Dir != "" }

// validate says what is wrong with the settings, beside the model that was named.
func (m RunModels) validate(model string) error {
	switch {
	case !m.On():
		return nil
	case m.Keep < 1 || m.Keep > 64:
		return fmt.Errorf("--models-keep %d: want 1 to 64", m.Keep)
	case m.Idle <= 0:
		return fmt.Errorf("--models-idle %v: want more than 0, such as 1s, or 8760h for never", m.Idle)
	case m.Rules != "" && model != "":
		return fmt.Errorf("--models and --model %s exclude each other: name the model as the rules' default", model)
	case m.Rules == "" && model != "" && !slices.Contains(rules.Sizes(), model):
		return fmt.Errorf("--model %s with --models-dir: want a size, one of %s", model, strings.Join(rules.Sizes(), ", "))
	}
	return nil
}

// Why a run has no model, as the metric says it.
const (
	reasonNoRule  = "no_rule"  // no rule matches it, and there is no default
	reasonLeftOut = "left_out" // a rule says so
	reasonNoFit   = "none_fits"
	reasonLoad    = "load_failed"
)

// catalogue says which model a run gets: a function of the run's description and of rules and
// folder as they were when it was made.
type catalogue struct {
	rules  *rules.Rules // nil: each run gets its own of the folder
	path   string       // of the rules
	listed []models.Listed
	size   string
}

// newCatalogue reads rules and folder.
func newCatalogue(m RunModels, size string) (*catalogue, error) {
	c := &catalogue{path: m.Rules, size: size}
	var err error
	if m.Dir != "" {
		if c.listed, err = models.List(m.Dir); err != nil {
			return nil, err
		}
	}
	if m.Rules == "" {
		return c, nil
	}
	if c.rules, err = rules.Read(m.Rules); err != nil {
		return nil, err
	}
	for _, use := range c.rules.Uses() {
		if use.Size != "" && m.Dir == "" {
			return nil, fmt.Errorf("%s: a rule asks for a model of size %s, which is taken from a folder of models: give --models-dir", m.Rules, use.Size)
		}
	}
	return c, nil
}

// absence says why a run has no model.
type absence struct{ reason, why string }

func (a *absence) Error() string { return a.why }

// choose returns the model for a run; its error is an [*absence].
func (c *catalogue) choose(run *signal.Run) (model models.Listed, precision string, err error) {
	use := rules.Use{Size: c.size}
	if c.rules != nil {
		var rule int
		var ok bool
		if use, rule, ok = c.rules.Match(run); !ok {
			return model, "", &absence{reasonNoRule, fmt.Sprintf("no rule of %s is for it: flow cell %q, kit %q, %d Hz", c.path, run.FlowCellProduct, run.Kit, run.SampleRate)}
		}
		if use.None {
			return model, "", &absence{reasonLeftOut, fmt.Sprintf("%s leaves it out", c.place(rule))}
		}
	}
	if use.Model == "" {
		if model, err = models.Choose(c.listed, []*signal.Run{run}, use.Size); err != nil {
			return model, "", &absence{reasonNoFit, err.Error()}
		}
		return model, use.Precision, nil
	}
	return c.named(use), use.Precision, nil
}

// passedOver returns the models of the folder that can't be used and would have been chosen for a
// run before the one that was.
func (c *catalogue) passedOver(run *signal.Run, chosen models.Listed) []models.Listed {
	use := rules.Use{Size: c.size}
	if c.rules != nil {
		use, _, _ = c.rules.Match(run) // one matches, as a model was chosen
	}
	if use.Model != "" {
		return nil
	}
	return models.PassedOver(c.listed, chosen, use.Size)
}

// named is the model that a rule names. What the folder of models has comes before what is shipped.
func (c *catalogue) named(use rules.Use) models.Listed {
	if !use.Folder {
		if l, ok := models.Named(c.listed, use.Model); ok {
			return l
		}
	}
	return models.Describe(use.Model)
}

// holding returns a model of the catalogue that computes what one with the given identity does:
// folders may lie elsewhere, or be named otherwise, than where a run began.
func (c *catalogue) holding(identity string, identityOf func(string) string) (path string, ok bool) {
	for _, l := range c.listed {
		if l.Err == nil && identityOf(l.Path) == identity {
			return l.Path, true
		}
	}
	if c.rules == nil {
		return "", false
	}
	for _, use := range c.rules.Uses() {
		if use.Model == "" || use.None {
			continue
		}
		if l := c.named(use); l.Err == nil && identityOf(l.Path) == identity {
			return l.Path, true
		}
	}
	return "", false
}

// place says where a rule stands.
func (c *catalogue) place(rule int) string {
	if rule < 0 {
		return c.path + ", its default,"
	}
	return fmt.Sprintf("%s:%d", c.path, c.rules.List[rule].Line)
}

// described is a run as a recording describes it, with all that rules go by.
func described(run *streampb.Run) *signal.Run {
	return &signal.Run{
		ID: run.GetId(), SampleRate: int(run.GetSampleRate()), SampleID: run.GetSample(), ExperimentID: run.GetExperiment(),
		FlowCellID: run.GetFlowCell(), FlowCellProduct: run.GetFlowCellProduct(), Kit: run.GetKit(),
		SequencerPosition: run.GetPosition(), Device: run.GetDevice(),
	}
}

// modelKey is a model as it is loaded.
type modelKey struct{ model, precision, identity string }

// loadedModel is one that is loaded.
type loadedModel struct {
	caller *basecall.Caller
	stage  *basecallstage.Model
	// unwatch ends the wait for a failure of its device.
	unwatch context.CancelFunc
}

// runModels loads the models that runs need.
type runModels struct {
	catalogue *catalogue
	pool      *pool.Pool[modelKey, *loadedModel]
	// load loads a model: [loader.load], or what a test puts in its place.
	load    func(ctx context.Context, key modelKey) (*loadedModel, error)
	metrics *runModelMetrics
	log     *slog.Logger
	hung    chan error

	mu         sync.Mutex
	logged     map[string]bool // what has been logged
	identities map[string]string
	used       map[string]bool // names of the models that were loaded
	device     string          // and precision, of the one that was loaded last
	precision  string
}

var _ basecallstage.Models = (*runModels)(nil)

func newRunModels(m RunModels, c *catalogue, reg prometheus.Registerer, log *slog.Logger) (*runModels, error) {
	metrics, err := newRunModelMetrics(reg)
	if err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	r := &runModels{
		catalogue: c, metrics: metrics, log: log, hung: make(chan error, 1),
		logged: make(map[string]bool), identities: make(map[string]string), used: make(map[string]bool),
	}
	r.pool = pool.New(pool.Config[modelKey, *loadedModel]{
		Load:   func(ctx context.Context, key modelKey) (*loadedModel, error) { return r.load(ctx, key) },
		Unload: r.unload, Keep: cmp.Or(m.Keep, defaultKeep), Idle: cmp.Or(m.Idle, defaultIdle), Retry: loadRetry,
		Loaded: r.loaded,
		Failed: func(key modelKey, err error) {
			log.Warn("a model was not unloaded cleanly", "model", key.model, "err", err)
		},
	})
	return r, nil
}

// once reports whether a message comes for the first time. The messages that came are forgotten when they are many.
func (r *runModels) once(parts ...string) bool {
	key := strings.Join(parts, "\x00")
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.logged[key] {
		return false
	}
	if len(r.logged) >= 1<<14 {
		clear(r.logged)
	}
	r.logged[key] = true
	return true
}

// Choose implements [basecallstage.Models].
func (r *runModels) Choose(run *streampb.Run) basecallstage.Choice {
	listed, precision, err := r.catalogue.choose(described(run))
	if err != nil {
		r.without(run, err)
		return basecallstage.Choice{}
	}
	if r.once("chosen", run.GetId(), listed.Path) {
		r.log.Info("model is chosen", "run", run.GetId(), "model", nameOf(listed.Path), "flow_cell", run.GetFlowCellProduct(), "kit", run.GetKit(), "sample_rate", run.GetSampleRate())
		r.warn(run, listed)
		for _, l := range r.catalogue.passedOver(described(run), listed) {
			r.log.Warn(models.PassedOverMessage, "run", run.GetId(), "model", nameOf(l.Path), "err", l.Err, "chosen", nameOf(listed.Path))
		}
	}
	return basecallstage.Choice{Model: listed.Path, Precision: precision, Identity: r.identity(listed.Path)}
}

// warn logs how a run differs from what its model, given by a rule, was made for.
func (r *runModels) warn(run *streampb.Run, l models.Listed) {
	if l.Err != nil {
		return // it is reported when the model is loaded
	}
	m := l.Manifest
	if !slices.Contains(m.SampleRates, int(run.GetSampleRate())) {
		r.log.Error("run can't be basecalled: its model was made for another sample rate", "run", run.GetId(),
			"sample_rate", run.GetSampleRate(), "model", m.Name, "model_sample_rates", m.SampleRates)
	}
	if chemistry := described(run).Chemistry(); chemistry != "" && chemistry != m.Chemistry {
		r.log.Warn("a rule gives a run a model of another chemistry", "run", run.GetId(), "chemistry", chemistry, "model", m.Name, "model_chemistry", m.Chemistry)
	}
}

// identity is what a model computes; empty if that can't be determined, which loading the model will report.
func (r *runModels) identity(model string) string {
	r.mu.Lock()
	id, known := r.identities[model]
	r.mu.Unlock()
	if known {
		return id
	}
	id, err := models.Identity(model) // reads files, so nobody waits for it at the lock
	if err != nil {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.identities[model] = id
	return id
}

// without counts and logs, once, that a run has no model.
func (r *runModels) without(run *streampb.Run, err error) {
	reason := reasonLoad
	var a *absence
	if errors.As(err, &a) {
		reason = a.reason
	}
	if !r.once("without", run.GetId(), reason) {
		return
	}
	r.metrics.without.WithLabelValues(reason).Inc()
	level := slog.LevelError
	if reason == reasonLeftOut {
		level = slog.LevelInfo
	}
	r.log.Log(context.Background(), level, "run has no model: its reads are left out, and counted as no_model", "run", run.GetId(), "sample", run.GetSample(), "why", err)
}

// Ready implements [basecallstage.Models].
func (r *runModels) Ready(run *streampb.Run, choice basecallstage.Choice) (*basecallstage.Model, func(), bool, error) {
	if choice.Model == "" {
		return nil, nil, true, basecallstage.ErrNoModel // Choose has said why
	}
	m, done, ok, err := r.pool.Ready(keyOf(choice))
	if !ok || passes(err) {
		return nil, nil, false, nil
	}
	if err != nil {
		return nil, nil, true, r.refused(run, err)
	}
	return r.hand(run, choice, m), done, true, nil
}

// passes reports whether a failure to load may be gone when it is tried again, as that of a device
// without memory for one more model: then reads wait for it, and are not left out. What is wrong with
// a model itself is an [*absence].
func passes(err error) bool {
	var a *absence
	return err != nil && !errors.As(err, &a) && !errors.Is(err, pool.ErrClosed) && !errors.Is(err, context.Canceled)
}

// Use implements [basecallstage.Models].
func (r *runModels) Use(ctx context.Context, run *streampb.Run, choice basecallstage.Choice) (*basecallstage.Model, func(), error) {
	if choice.Model == "" {
		return nil, nil, basecallstage.ErrNoModel
	}
	for {
		m, done, err := r.pool.Use(ctx, keyOf(choice))
		switch {
		case err == nil:
			return r.hand(run, choice, m), done, nil
		case ctx.Err() != nil:
			return nil, nil, err
		case !passes(err):
			return nil, nil, r.refused(run, err)
		}
		again := time.NewTimer(loadRetry)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return nil, nil, ctx.Err()
		}
	}
}

func keyOf(c basecallstage.Choice) modelKey { return modelKey{c.Model, c.Precision, c.Identity} }

// hand returns a loaded model for a run, and logs once if the rules would choose another by now.
func (r *runModels) hand(run *streampb.Run, choice basecallstage.Choice, m *loadedModel) *basecallstage.Model {
	if r.once("handed", run.GetId(), choice.Model) {
		now, precision, err := r.catalogue.choose(described(run))
		if err != nil || now.Path != choice.Model || precision != choice.Precision {
			r.log.Warn("run goes on with the model that it began with; the rules would choose another now", "run", run.GetId(),
				"model", nameOf(choice.Model), "precision", choice.Precision, "rules", cmp.Or(nameOf(now.Path), "none"), "rules_precision", precision)
		}
	}
	return m.stage
}

// refused makes the failure to load a model one that leaves a run's reads out.
func (r *runModels) refused(run *streampb.Run, err error) error {
	if errors.Is(err, pool.ErrClosed) || errors.Is(err, context.Canceled) {
		return err // the process ends
	}
	r.without(run, err)
	return fmt.Errorf("%w: %w", basecallstage.ErrNoModel, err)
}

// loaded logs and counts each attempt to load a model.
func (r *runModels) loaded(key modelKey, took time.Duration, err error) {
	name, result := nameOf(key.model), "loaded"
	switch {
	case errors.Is(err, context.Canceled):
		return
	case passes(err):
		result = "failed"
		r.log.Error("a model can't be loaded: reads of the runs that need it wait, and it is tried again in a minute", "model", name, "err", err)
	case err != nil:
		result = "failed"
		r.log.Error("a model can't be used: reads of the runs that need it are left out until it can; it is tried again when they want it in a minute", "model", name, "err", err)
	default:
		r.metrics.loaded.Inc()
		r.metrics.took.Observe(took.Seconds())
	}
	r.metrics.loads.WithLabelValues(name, result).Inc()
}

func (r *runModels) unload(key modelKey, m *loadedModel) error {
	r.metrics.loaded.Dec()
	r.log.Info("model is unloaded", "model", nameOf(key.model))
	m.unwatch()
	return m.caller.Close()
}

// nameOf names a model for people, and for metrics.
func nameOf(model string) string {
	if model == "" {
		return ""
	}
	return filepath.Base(model)
}

// note keeps what is reported of the models that were used.
func (r *runModels) note(c *basecall.Caller) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used[c.Model().Manifest.Name] = true
	r.device, r.precision = c.Device(), c.Precision().String()
}

// names are those of the models that were loaded, sorted.
func (r *runModels) names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.used))
}

// watch returns when a device hangs, with an error that says so, or when ctx ends, with nil.
func (r *runModels) watch(ctx context.Context) error {
	select {
	case err := <-r.hung:
		return err
	case <-ctx.Done():
		return nil
	}
}

// check checks whether any of a recording's runs has a model; its error says why the first hasn't.
func (r *runModels) check(runs []*signal.Run) error {
	var first error
	for _, run := range runs {
		_, _, err := r.catalogue.choose(run)
		if err == nil {
			return nil
		}
		first = cmp.Or(first, fmt.Errorf("run %s has no model: %w", run.ID, err))
	}
	return first
}

// loader loads models for the basecall stage.
type loader struct {
	opts    Options
	share   *infer.Share
	engines *Engines
	models  *runModels
}

// load opens a model on the devices. Its error is an [*absence] if the model itself is at fault.
func (l *loader) load(ctx context.Context, key modelKey) (*loadedModel, error) {
	path, err := l.find(key)
	if err != nil {
		return nil, err
	}
	model, err := models.Open(path)
	if err != nil {
		return nil, ofModel(err)
	}
	if l.engines.strict {
		if err := variant.NewBasecallers(l.engines.network, l.engines.VariantModel()).Refuse(model.Manifest.Name); err != nil {
			return nil, &absence{reasonLoad, err.Error()}
		}
	}
	finisher, err := l.opts.Barcoding.finisher(model)
	if err != nil {
		return nil, &absence{reasonLoad, err.Error()}
	}
	compute := l.opts.Compute
	if key.precision != "" {
		if err := compute.Precision.Set(key.precision); err != nil {
			return nil, &absence{reasonLoad, fmt.Sprintf("precision: %v", err)}
		}
	}
	caller, err := basecall.NewCaller(model, basecall.Config{
		Device: l.opts.Device, DeviceTimeout: l.opts.DeviceTimeout, Compute: compute, Library: l.opts.Library, Share: l.share,
		Logger: l.opts.Logger, Registerer: l.opts.Registerer,
	})
	if err != nil {
		return nil, ofEngine(err)
	}
	if l.opts.Signal.Partial > 0 && !caller.InFlight() {
		l.opts.Logger.Warn("--partial doesn't hold for a model that calls reads when they have ended", "model", model.Manifest.Name)
	}
	l.models.note(caller)
	watching, unwatch := context.WithCancel(context.WithoutCancel(ctx)) // as long as the model is loaded
	go func() {
		if err := caller.Watchdog(watching); err != nil {
			select {
			case l.models.hung <- err:
			default: // one is enough to end the process
			}
		}
	}()
	loaded := &basecallstage.Model{
		Name: model.Manifest.Name, Caller: basecallstage.FromEngine(caller), InFlight: caller.InFlight(), SampleRates: model.Manifest.SampleRates, Finisher: finisher,
	}
	if l.engines.modified != nil {
		loaded.ModifierOf = l.engines.modified.of(&model.Manifest)
	}
	return &loadedModel{caller: caller, unwatch: unwatch, stage: loaded}, nil
}

// find returns where the model is that a run began with: at the place that was chosen, or where else
// one of the catalogue computes the same.
func (l *loader) find(key modelKey) (string, error) {
	if key.identity == "" {
		return key.model, nil
	}
	now, err := models.Identity(key.model)
	if err == nil && now == key.identity {
		return key.model, nil
	}
	if path, ok := l.models.catalogue.holding(key.identity, l.models.identity); ok {
		return path, nil
	}
	if err != nil {
		return "", ofModel(err)
	}
	return "", &absence{reasonLoad, fmt.Sprintf("model %s is not the one that the run began with: its files have changed. Put them back, there or in the folder of models; runs that begin after the processor was started again get the new ones", nameOf(key.model))}
}

// ofModel makes an error of reading a model's files one of the model, but for those of the system that
// may be gone when it is tried again: too many open files, a file server that is away.
func ofModel(err error) error {
	var system *fs.PathError
	if errors.As(err, &system) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return &absence{reasonLoad, err.Error()}
}

// ofEngine sorts what the engine says of a model: what holds of the network wherever it is tried is an [*absence].
func ofEngine(err error) error {
	if network := (*infer.NetworkError)(nil); errors.As(err, &network) {
		return &absence{reasonLoad, err.Error()}
	}
	return err
}

// runModelMetrics counts what becomes of models.
type runModelMetrics struct {
	loaded  prometheus.Gauge
	loads   *prometheus.CounterVec
	took    prometheus.Observer
	without *prometheus.CounterVec
}

// newRunModelMetrics registers the metrics; with a nil registerer they are counted for nobody.
func newRunModelMetrics(reg prometheus.Registerer) (*runModelMetrics, error) {
	loaded := prometheus.NewGauge(prometheus.GaugeOpts{Name: "porestream_basecall_models_loaded", Help: "Basecalling models that are loaded, where each run has its own."})
	loads := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "porestream_basecall_model_loads_total", Help: "Times that a basecalling model was loaded for runs that need it, or could not be, by result: loaded, failed.",
	}, []string{"model", "result"})
	took := prometheus.NewHistogram(metric.Histogram("porestream_basecall_model_load_duration_seconds",
		"Time that loading a basecalling model took.", prometheus.ExponentialBuckets(0.1, 2, 12)))
	without := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "porestream_basecall_runs_without_model_total",
		Help: "Runs that have no basecalling model, by why: no_rule (none matches), left_out (a rule says so), none_fits (of the folder of models), load_failed.",
	}, []string{"reason"})
	for _, reason := range []string{reasonNoRule, reasonLeftOut, reasonNoFit, reasonLoad} {
		without.WithLabelValues(reason)
	}
	if reg != nil {
		if err := errors.Join(metric.Share(reg, &loaded), metric.Share(reg, &loads), metric.Share(reg, &took), metric.Share(reg, &without)); err != nil {
			return nil, err
		}
	}
	return &runModelMetrics{loaded, loads, took, without}, nil
}

// loadRunModels prepares to load the models of runs, and logs those that rules name and that can't be used.
func (e *Engines) loadRunModels(opts Options) error {
	c, err := newCatalogue(opts.RunModels, opts.Model)
	if err != nil {
		return err
	}
	r, err := newRunModels(opts.RunModels, c, opts.Registerer, opts.Logger)
	if err != nil {
		return err
	}
	l := &loader{opts: opts, share: infer.NewShare(), engines: e, models: r}
	r.load, e.models = l.load, r
	if c.rules == nil {
		return nil
	}
	for _, use := range c.rules.Uses() {
		if use.Model == "" || use.None {
			continue
		}
		if described := c.named(use); described.Err != nil {
			opts.Logger.Error("a model that rules name can't be used: runs that need it would be left out", "rules", c.path, "model", use.Model, "err", described.Err)
		}
	}
	return nil
}

// usageOfRunModels is what is wrong with settings that don't go with models by run.
func usageOfRunModels(opts Options) error {
	if opts.RunModels.On() && opts.Adaptive.On() {
		return cli.Usagef("adaptive sampling decides with one model: run its stage in a processor of its own, with --model, and the others with --models or --models-dir")
	}
	return nil
}
