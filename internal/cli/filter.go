package cli

import (
	"context"
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
	// duplicates says what becomes of reads that are in two files.
	duplicates string
}

// Register adds the flags.
func (f *FilterFlags) Register(flags *pflag.FlagSet) {
	flags.StringVar(&f.reads, "reads", "", "file of read ids, one to a line, or a table with a column read_id: take only these reads")
	flags.StringVar(&f.duplicates, "duplicates", "error", "a read that lies in two recordings: error, or first to take it from the first")
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

// Index scans recordings, with what the flags say of reads that lie in two files. Reads that are
// left out for that are counted in a warning.
func (f *FilterFlags) Index(ctx context.Context, paths []string, logger *slog.Logger) (*signal.Index, error) {
	duplicates, err := f.Duplicates()
	if err != nil {
		return nil, err
	}
	x, err := signal.NewIndexOf(ctx, paths, duplicates)
	if err == nil {
		LogRepeated(logger, x)
	}
	return x, err
}

// Duplicates is what the flag --duplicates says.
func (f *FilterFlags) Duplicates() (signal.Duplicates, error) {
	d, err := signal.ParseDuplicates(f.duplicates)
	if err != nil {
		return d, Usagef("--duplicates %w", err)
	}
	return d, nil
}

// LogRepeated warns of reads that were left out because an earlier file has them.
func LogRepeated(logger *slog.Logger, x *signal.Index) {
	if n := x.Repeated(); n > 0 {
		logger.Warn("reads lie in several files: each is taken from the first of them", "left_out", n, "reads", x.Len())
	}
}

// LogSelection logs what a filter has chosen of a recording, and which listed reads were not there.
func LogSelection(logger *slog.Logger, filter signal.Filter, s signal.Selection, chosen int) {
	if filter.IsZero() {
		return
	}
	logger.Info("part of the recording is taken", "filter", filter.String(), "reads", chosen, "of", s.Of)
	if s.Missing > 0 {
		logger.Warn("listed reads are in no file", "missing", s.Missing, "listed", len(filter.Reads), "example", s.Example)
	}
}
