package cli

import (
	"log/slog"
	"time"

	"github.com/spf13/pflag"

	"github.com/porestream/porestream/signal"
)

// FilterFlags choose reads of recorded runs.
type FilterFlags struct {
	reads    string
	channels string
	from, to time.Duration
}

// Register adds the flags.
func (f *FilterFlags) Register(flags *pflag.FlagSet) {
	flags.StringVar(&f.reads, "reads", "", "file of read ids: take only these reads")
	flags.StringVar(&f.channels, "channels", "", "take only reads of these channels, for example 1-128,300")
	flags.DurationVar(&f.from, "from", 0, "take only reads that begin at this time of the run's clock or later, for example 1h30m")
	flags.DurationVar(&f.to, "to", 0, "take only reads that begin before this time of the run's clock")
}

// Filter returns what the flags say, after reading the list of reads.
func (f *FilterFlags) Filter() (signal.Filter, error) {
	filter := signal.Filter{From: f.from, To: f.to}
	var err error
	if f.channels != "" {
		if filter.Channels, err = signal.ParseChannels(f.channels); err != nil {
			return filter, Usagef("--channels: %w", err)
		}
	}
	if err := filter.Check(); err != nil {
		return filter, Usagef("--from, --to: %w", err)
	}
	if f.reads != "" {
		filter.Reads, err = signal.LoadReadIDs(f.reads)
	}
	return filter, err
}

// LogSelection tells what a filter has chosen of a recording, and which listed
// reads were not there.
func LogSelection(logger *slog.Logger, filter signal.Filter, s signal.Selection, chosen int) {
	if filter.IsZero() {
		return
	}
	logger.Info("part of the recording is taken", "filter", filter.String(), "reads", chosen, "of", s.Of)
	if s.Missing > 0 {
		logger.Warn("listed reads are in no file", "missing", s.Missing, "listed", len(filter.Reads), "example", s.Example)
	}
}
