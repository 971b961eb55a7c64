package processor

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/porestream/porestream/basecall"
	basecallstage "github.com/porestream/porestream/basecall/stage"
)

// Signal bounds what the basecall stage takes: memory and time.
type Signal struct {
	// MaxMemory bounds the signal that a process holds, in bytes, and RunTimeout is
	// when a run of which nothing comes is ended: see [basecallstage.Config].
	MaxMemory  int64
	RunTimeout time.Duration
}

const (
	leastSignalMemory = 64 << 20
	leastRunTimeout   = time.Minute
)

// Register adds the flags.
func (s *Signal) Register(flags *pflag.FlagSet) {
	flags.Int64Var(&s.MaxMemory, "max-signal-memory", 4<<30, "bytes of signal that this process may hold, half of them for reads whose end has not come (docs/signal-order.md)")
	flags.DurationVar(&s.RunTimeout, "run-timeout", 6*time.Hour, "end a run of which a partition has had nothing for so long")
}

// Validate says what is wrong with the bounds. Zero means the default.
func (s Signal) Validate() error {
	switch {
	case s.MaxMemory != 0 && s.MaxMemory < leastSignalMemory:
		return fmt.Errorf("--max-signal-memory %d is too little: give at least %d", s.MaxMemory, leastSignalMemory)
	case s.RunTimeout != 0 && s.RunTimeout < leastRunTimeout:
		return fmt.Errorf("--run-timeout %v is too short: give at least %v", s.RunTimeout, leastRunTimeout)
	}
	return nil
}

// bound puts the bounds into the stage's configuration.
func (s Signal) bound(cfg basecallstage.Config) basecallstage.Config {
	cfg.MaxSignalMemory, cfg.RunTimeout = s.MaxMemory, s.RunTimeout
	return cfg
}

// modelFingerprint is a model's name and a hash over all that makes its results.
func modelFingerprint(m *basecall.Model) string {
	h := sha256.New()
	fmt.Fprintf(h, "%+v\n", m.Manifest)
	h.Write(m.Network)
	return fmt.Sprintf("%s sha256:%x", m.Manifest.Name, h.Sum(nil))
}
