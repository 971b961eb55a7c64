package processor

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/porestream/porestream/basecall"
	basecallstage "github.com/porestream/porestream/basecall/stage"
	modnetwork "github.com/porestream/porestream/modbase/network"
	modconvert "github.com/porestream/porestream/modbase/network/convert"
	"github.com/porestream/porestream/models"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream/streampb"
)

// ModifiedBasesHelp is the help of --modified-bases.
const ModifiedBasesHelp = "models for modified bases, comma-separated: ONNX files of Remora, folders of Dorado, files of DeepMod2, or as pore model convert writes; for the basecalling model (docs/files/modified-bases.md)"

// OpenModified opens the models of --modified-bases.
func OpenModified(paths []string) ([]*modnetwork.Model, error) {
	var all []*modnetwork.Model
	for _, path := range paths {
		model, err := modconvert.Open(path)
		if err != nil {
			return nil, fmt.Errorf("--modified-bases: %w", err)
		}
		all = append(all, model)
	}
	return all, nil
}

// FitModified refuses models of --modified-bases that aren't for what a basecalling model calls.
func FitModified(all []*modnetwork.Model, m *basecall.Manifest) error {
	for _, model := range all {
		if err := model.Fits(m); err != nil {
			return fmt.Errorf("--modified-bases: %w", err)
		}
	}
	return nil
}

// CheckModified refuses models of --modified-bases that aren't for the sample rate of some of the runs: a basecalling
// model may be for several.
func CheckModified(all []*modnetwork.Model, runs []*signal.Run) error {
	for _, model := range all {
		for _, run := range runs {
			if run.SampleRate != model.SampleRate {
				return fmt.Errorf("--modified-bases: modified-base model %s is for %d Hz, and run %s was recorded at %d Hz", model.Name, model.SampleRate, run.ID, run.SampleRate)
			}
		}
	}
	return nil
}

// pore is what a model of modified bases is for.
type pore struct {
	chemistry string
	rate      int // in Hz
}

// modifiers are the models of --modified-bases on their devices, by what they are for.
type modifiers struct {
	models  []*modnetwork.Model
	callers map[pore]*modnetwork.Caller
	log     *slog.Logger

	mu     sync.Mutex
	logged map[string]bool // runs of which it was logged that no model is for them
}

// maxLoggedRuns bounds the runs that are remembered as logged.
const maxLoggedRuns = 1 << 12

// newModifiers loads models onto the devices. Models for different pores are never asked about one read, so only those
// for one are refused for calling the same bases.
func newModifiers(all []*modnetwork.Model, cfg modnetwork.Config) (*modifiers, error) {
	m := &modifiers{models: all, callers: make(map[pore]*modnetwork.Caller), log: cfg.Logger, logged: make(map[string]bool)}
	of := make(map[pore][]*modnetwork.Model)
	for _, model := range all {
		p := pore{model.Chemistry, model.SampleRate}
		of[p] = append(of[p], model)
	}
	for p, list := range of {
		caller, err := modnetwork.New(list, cfg)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("--modified-bases: %w", err), m.close())
		}
		m.callers[p] = caller
	}
	return m, nil
}

// of returns which caller of modified bases gets the reads of a run that a basecalling model calls.
func (m *modifiers) of(manifest *basecall.Manifest) func(*streampb.Run) basecallstage.Modifier {
	fitting := make(map[pore]*modnetwork.Caller)
	for p, caller := range m.callers {
		fitting[p] = caller.For(manifest)
	}
	return func(run *streampb.Run) basecallstage.Modifier {
		caller := fitting[pore{manifest.Chemistry, int(run.GetSampleRate())}]
		if caller == nil {
			m.without(run, manifest)
			return nil
		}
		return caller
	}
}

// without logs, once, that no model is for a run.
func (m *modifiers) without(run *streampb.Run, manifest *basecall.Manifest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.logged[run.GetId()] {
		return
	}
	if len(m.logged) >= maxLoggedRuns {
		clear(m.logged)
	}
	m.logged[run.GetId()] = true
	m.log.Warn("no model of --modified-bases is for a run: its reads say nothing of modified bases, and are counted as no_model", "run", run.GetId(),
		"sample_rate", run.GetSampleRate(), "model", manifest.Name, "chemistry", manifest.Chemistry, "modified_models", strings.Join(m.names(), ", "))
}

// names are those of the models.
func (m *modifiers) names() []string {
	var names []string
	for _, model := range m.models {
		names = append(names, model.Name)
	}
	return names
}

// fingerprint is a hash over all that makes what is said of modified bases.
func (m *modifiers) fingerprint() string {
	h := sha256.New()
	for _, model := range m.models {
		fmt.Fprintf(h, "%q %s %d %s\n", model.Name, model.Chemistry, model.SampleRate, model.SHA256)
	}
	return fmt.Sprintf("modified-bases sha256:%x", h.Sum(nil))
}

// watch returns when a device hangs, with an error that says so, or when ctx ends, with nil.
func (m *modifiers) watch(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, caller := range m.callers {
		group.Go(func() error { return caller.Watchdog(ctx) })
	}
	return group.Wait()
}

func (m *modifiers) close() error {
	var err error
	for _, caller := range m.callers {
		err = errors.Join(err, caller.Close())
	}
	return err
}

// loadModified loads the models of --modified-bases, if there are any, and refuses those that no run can need.
func (e *Engines) loadModified(opts Options) error {
	if len(opts.ModifiedBases) == 0 {
		return nil
	}
	all, err := OpenModified(opts.ModifiedBases)
	if err != nil {
		return err
	}
	if e.models != nil {
		err = e.models.catalogue.needs(all)
	} else {
		err = FitModified(all, &e.Caller.Model().Manifest)
	}
	if err != nil {
		return err
	}
	e.modified, err = newModifiers(all, modnetwork.Config{
		Device: OwnDevice(opts.Device), DeviceTimeout: opts.DeviceTimeout, Library: opts.Library, Logger: opts.Logger, Registerer: opts.Registerer,
	})
	return err
}

// needs refuses models of modified bases that are for none of the basecalling models that a run may get.
func (c *catalogue) needs(all []*modnetwork.Model) error {
	listed := slices.Clone(c.listed)
	if c.rules != nil {
		for _, use := range c.rules.Uses() {
			if use.Model != "" && !use.None {
				listed = append(listed, c.named(use))
			}
		}
	}
	listed = slices.DeleteFunc(listed, func(l models.Listed) bool { return l.Err != nil })
	for _, model := range all {
		if !slices.ContainsFunc(listed, func(l models.Listed) bool { return model.Fits(&l.Manifest) == nil }) {
			of, otherwise := "", ""
			if model.Basecaller != "" {
				of, otherwise = " and reads that "+model.Basecaller+" calls", ", or convert it with --basecaller any"
			}
			return fmt.Errorf("--modified-bases: modified-base model %s is for %s at %d Hz%s, and no basecalling model that runs may get is: leave it out%s",
				model.Name, model.Chemistry, model.SampleRate, of, otherwise)
		}
	}
	return nil
}
