package processor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/porestream/porestream/adaptive"
	adaptivestage "github.com/porestream/porestream/adaptive/stage"
	"github.com/porestream/porestream/align/minimap"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streampb"
)

// Adaptive says which reads are ejected while they are sequenced. The zero value
// decides nothing.
type Adaptive struct {
	Mode      adaptive.Mode
	Targets   string // BED file
	Margin    int    // bases that targets are widened by on both sides
	Schedule  adaptive.Schedule
	Unaligned adaptive.Action
	DryRun    bool
	// FirstChannel and LastChannel are those whose reads are decided about; 0: no bound.
	FirstChannel, LastChannel uint32
	// MaxAge is how old signal may be to be evaluated; 0 means 2 s.
	MaxAge time.Duration
}

// Register adds the flags.
func (a *Adaptive) Register(flags *pflag.FlagSet) {
	a.Schedule, a.Unaligned = adaptive.DefaultSchedule(), adaptive.Continue
	flags.TextVar(&a.Mode, "adaptive", adaptive.Off, "what reads on the targets are for: enrich ejects all others, deplete ejects them, off decides nothing (docs/attach/adaptive.md)")
	flags.StringVar(&a.Targets, "targets", "", "targets of adaptive sampling on the reference, BED")
	flags.BoolVar(&a.DryRun, "adaptive-dry-run", false, "publish decisions that nobody acts upon")
	flags.IntVar(&a.Margin, "target-margin", 0, "bases that each target is widened by, on both sides")
	flags.IntVar(&a.Schedule.First, "adaptive-first-evaluation", a.Schedule.First, "samples of a read at its first evaluation; it is evaluated again whenever there are twice as many")
	cli.FormerFlag(flags, "adaptive-first-look", "adaptive-first-evaluation")
	flags.IntVar(&a.Schedule.Limit, "adaptive-last-evaluation", a.Schedule.Limit, "samples of a read at its last evaluation")
	cli.FormerFlag(flags, "adaptive-last-look", "adaptive-last-evaluation")
	flags.TextVar(&a.Unaligned, "adaptive-unaligned", adaptive.Continue, "continue or unblock a read that lies nowhere on the reference at its last evaluation")
	flags.Uint32Var(&a.FirstChannel, "adaptive-first-channel", 0, "decide about reads of the channels from this one on; others are left alone, to compare with")
	flags.Uint32Var(&a.LastChannel, "adaptive-last-channel", 0, "decide about reads of the channels up to this one")
	flags.DurationVar(&a.MaxAge, "adaptive-max-age", 2*time.Second, "don't evaluate signal that is older; the clocks of ingest and processor must agree within it")
}

// On reports whether anything is to be decided.
func (a Adaptive) On() bool { return a.Mode != adaptive.Off }

// Validate says what is wrong with the settings.
func (a Adaptive) Validate() error {
	if !a.On() {
		if a.Targets != "" {
			return errors.New("--targets without --adaptive enrich or --adaptive deplete decides nothing")
		}
		return nil
	}
	if a.Schedule != (adaptive.Schedule{}) {
		if err := a.Schedule.Validate(); err != nil {
			return fmt.Errorf("--adaptive-first-evaluation, --adaptive-last-evaluation: %w", err)
		}
	}
	switch {
	case a.Targets == "":
		return fmt.Errorf("--adaptive %v needs --targets, a BED file", a.Mode)
	case a.Margin < 0:
		return fmt.Errorf("--target-margin %d is negative", a.Margin)
	case a.LastChannel != 0 && a.LastChannel < a.FirstChannel:
		return fmt.Errorf("--adaptive-last-channel %d comes before --adaptive-first-channel %d", a.LastChannel, a.FirstChannel)
	case a.MaxAge < 0:
		return fmt.Errorf("--adaptive-max-age %v is negative", a.MaxAge)
	}
	return nil
}

// deciders are what the adaptive stage computes with.
type deciders struct {
	settings Adaptive
	policy   *adaptive.Policy
	name     string
	aligners []*minimap.Aligner
}

// loadDeciders reads the targets. Basecaller and index have been loaded.
func (e *Engines) loadDeciders(a Adaptive, logger *slog.Logger) error {
	a.Schedule = cmp.Or(a.Schedule, adaptive.DefaultSchedule())
	targets, err := readTargets(a, e.Genome)
	if err != nil {
		return err
	}
	sum, err := hashFile(a.Targets)
	if err != nil {
		return fmt.Errorf("reading targets: %w", err)
	}
	d := &deciders{settings: a, name: fmt.Sprintf("%v %s sha256:%x", a.Mode, filepath.Base(a.Targets), sum[:6])}
	if d.policy, err = adaptive.NewPolicy(adaptive.Config{Mode: a.Mode, Targets: targets, Unaligned: a.Unaligned}); err != nil {
		return err
	}
	for range e.lookers() {
		d.aligners = append(d.aligners, e.index.NewAligner())
	}
	e.deciders = d
	all := int64(0)
	for _, c := range e.Genome.Contigs {
		all += int64(len(c.Seq))
	}
	logger.Info("reads are decided about while they are sequenced", "policy", d.name, "dry_run", a.DryRun, "target_bases", targets.Bases(), "reference_bases", all)
	return nil
}

func readTargets(a Adaptive, g *genome.Genome) (*adaptive.Targets, error) {
	f, err := os.Open(a.Targets)
	if err != nil {
		return nil, fmt.Errorf("reading targets: %w", err)
	}
	defer f.Close()
	return adaptive.ReadTargets(f, a.Targets, a.Margin, func(contig string) (int, bool) {
		c := g.Contig(contig)
		if c == nil {
			return 0, false
		}
		return len(c.Seq), true
	})
}

// lookers is how many evaluations are worked on at a time. On the CPU an evaluation waits for the
// batch that it is in, so few share one; a GPU takes many in the time of one.
func (e *Engines) lookers() int {
	if e.Caller.Device() == "cpu" {
		return 2 * runtime.GOMAXPROCS(0)
	}
	return 256
}

// adaptiveStage configures the adaptive stage.
func (e *Engines) adaptiveStage(t stream.Topics, runs *runDirectory, m *adaptivestage.Metrics, log *slog.Logger) adaptivestage.Config {
	d := e.deciders
	aligners := make([]adaptivestage.Aligner, len(d.aligners))
	for i, a := range d.aligners {
		aligners[i] = a
	}
	return adaptivestage.Config{
		Topics: t, Policy: d.policy, PolicyName: d.name, Schedule: d.settings.Schedule,
		FirstChannel: d.settings.FirstChannel, LastChannel: d.settings.LastChannel,
		Caller: e.Caller, SampleRates: e.Caller.Model().Manifest.SampleRates, Aligners: aligners,
		Run: runs.run, MaxAge: d.settings.MaxAge, DryRun: d.settings.DryRun, Metrics: m, Logger: log,
	}
}

// prompt makes a stage's group one whose effects are of no worth later: it begins with
// what comes from now on, reads it before its transaction is committed, and emits
// outside of transactions, at once.
func prompt(cfg kafka.GroupConfig, p *kafka.Producer) kafka.GroupConfig {
	cfg.Delivery, cfg.Producer = kafka.AtLeastOnce, p
	cfg.State = kafka.StateConfig{}
	cfg.CommitInterval = 0
	cfg.FromEnd, cfg.Stateless, cfg.Fetch.Uncommitted = true, true, true
	return cfg
}

// runDirectory knows what runs were announced as.
type runDirectory struct {
	mu   sync.Mutex
	runs map[string]*streampb.Run
}

func newRunDirectory() *runDirectory { return &runDirectory{runs: make(map[string]*streampb.Run)} }

func (d *runDirectory) run(id string) *streampb.Run {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.runs[id]
}

// follow keeps the directory until ctx ends.
func (d *runDirectory) follow(ctx context.Context, client *kafka.Client, topic string, log *slog.Logger) error {
	err := client.Consume(ctx, topic, kafka.ConsumeOptions{From: kafka.FromStart}, func(rec stream.Record) error {
		run, err := stream.DecodeRun(rec.Value)
		if err != nil {
			log.Warn("ignoring a record", "topic", rec.Topic, "offset", rec.Offset, "err", err)
			return nil
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.runs[run.GetId()] = run
		return nil
	})
	if err != nil {
		return fmt.Errorf("following descriptions of runs: %w", err)
	}
	return nil
}
