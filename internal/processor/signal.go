package processor

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"math"
	"time"

	"github.com/spf13/pflag"

	"github.com/porestream/porestream/basecall"
	basecallstage "github.com/porestream/porestream/basecall/stage"
	"github.com/porestream/porestream/internal/cli"
)

// Signal says what the basecall stage takes, in memory and time, and which reads it
// passes on to whom.
type Signal struct {
	// MaxMemory bounds the signal that a process holds, in bytes, and RunTimeout is
	// when a run of which nothing comes is ended: see [basecallstage.Config].
	MaxMemory  cli.Bytes
	RunTimeout time.Duration
	// MinQuality is the mean quality below which reads are not aligned, and Basecalls
	// says that called reads are published.
	MinQuality float64
	Basecalls  bool
	// Partial is when reads are published before their end; zero: never.
	Partial time.Duration
}

const (
	leastSignalMemory = 64 << 20
	leastRunTimeout   = time.Minute
	leastPartial      = time.Second
)

// Register adds the flags.
func (s *Signal) Register(flags *pflag.FlagSet) {
	s.MaxMemory = 4 << 30
	flags.Var(&s.MaxMemory, "max-signal-memory", "limit of the signal that this process holds, half of it for reads whose end has not come (docs/attach/signal-order.md)")
	flags.DurationVar(&s.RunTimeout, "run-timeout", 6*time.Hour, "end a run of which a partition has had nothing for so long")
	flags.Float64Var(&s.MinQuality, "min-qscore", 0, "reads of a lower mean quality are counted and not aligned")
	flags.BoolVar(&s.Basecalls, "basecalls", false, "publish called reads, also those below --min-qscore, on the topic of basecalls (docs/consume/basecalls.md)")
	flags.DurationVar(&s.Partial, "partial", 0, "publish what is called of reads that are still in the pore: when so much of their signal has come, and whenever it has doubled, for example 10s (docs/files/basecalling.md)")
}

// Validate says what is wrong with the bounds. Zero means the default.
func (s Signal) Validate() error {
	switch {
	case s.MaxMemory != 0 && s.MaxMemory < leastSignalMemory:
		return fmt.Errorf("--max-signal-memory %d is too little: give at least %d MiB", int64(s.MaxMemory), leastSignalMemory>>20)
	case s.RunTimeout != 0 && s.RunTimeout < leastRunTimeout:
		return fmt.Errorf("--run-timeout %v is too short: give at least %v", s.RunTimeout, leastRunTimeout)
	case s.Partial != 0 && s.Partial < leastPartial:
		return fmt.Errorf("--partial %v is too short: give at least %v, or 0 for never", s.Partial, leastPartial)
	case s.MinQuality < 0 || math.IsNaN(s.MinQuality):
		return fmt.Errorf("--min-qscore %v is not a quality from 0 on", s.MinQuality)
	}
	return nil
}

// bound puts the bounds into the stage's configuration. The model has the given name, or, where
// runs have models of their own, each has its own.
func (s Signal) bound(cfg basecallstage.Config, model string) basecallstage.Config {
	cfg.MaxSignalMemory, cfg.RunTimeout, cfg.MinQuality = int64(s.MaxMemory), s.RunTimeout, s.MinQuality
	cfg.Partial = s.Partial
	cfg.Name = model
	if s.Basecalls {
		cfg.Publish = cmp.Or(model, "unnamed")
	}
	return cfg
}

// calling completes the basecall stage's configuration with the model of all runs, or with those
// that they have of their own, and with the bounds.
func (e *Engines) calling(cfg basecallstage.Config) basecallstage.Config {
	name := ""
	if e.models != nil {
		cfg.Models, cfg.Model = e.models, "by run"
	} else {
		m := e.Caller.Model()
		cfg.Caller, cfg.InFlight, cfg.SampleRates, cfg.Model = basecallstage.FromEngine(e.Caller), e.Caller.InFlight(), m.Manifest.SampleRates, modelFingerprint(m)
		name = m.Manifest.Name
		if e.modified != nil {
			cfg.ModifierOf = e.modified.of(&m.Manifest)
		}
	}
	if e.modified != nil {
		cfg.Model += " " + e.modified.fingerprint()
	}
	return e.signal.bound(cfg, name)
}

// modelFingerprint is a model's name and a hash over all that makes its results.
func modelFingerprint(m *basecall.Model) string {
	h := sha256.New()
	fmt.Fprintf(h, "%+v\njoining %d\n", m.Manifest, basecall.Joining)
	h.Write(m.Network)
	return fmt.Sprintf("%s sha256:%x", m.Manifest.Name, h.Sum(nil))
}
