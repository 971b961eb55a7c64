package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/ingest/folder"
	"github.com/porestream/porestream/ingest/sources"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/stream/streampb"
)

// watchedRuns is how many runs may be under way at once without more memory than
// --max-buffered.
const watchedRuns = 4

// leastBuffered is the least memory of a run, in bytes.
const leastBuffered = 4 << 20

// folderName is its kind's name. It was called formerFolderName once, which commands, files of sources and the folder of the journal
// still know: a journal by another name would be an empty one.
const (
	folderName       = "folder"
	formerFolderName = "watch"
)

func folderKind() kind {
	return kind{
		name: folderName, use: "--brokers HOST:PORT DIR...",
		example: "folder --brokers kafka:9092 /data/run1",
		short:   "Put the signal of files on Kafka that are still being written",
		long: "Watches folders, and what is below them, for POD5 and BLOW5 files that grow, and POD5, BLOW5 and FAST5 files that are renamed or moved in. Each read is sent once, " +
			"whatever files it is in. Started again after a crash or an interrupt, it goes on where it stopped.",
		operands: "folders", operandsUsage: "folders that are watched, with what is below them",
		patient: true, endless: true, waiting: "connecting and listing the folders",
		formerly: formerFolderName,
		make:     func() source { return new(folders) },
	}
}

// folders is a source of folders in which files are being written.
type folders struct{ folder.Config }

func (w *folders) register(flags *pflag.FlagSet) {
	w.registerFolders(flags, formerFolderName, time.Second)
}

// registerFolders adds the options of all that watch folders. journals is what their folder is called by default, settle how long bytes must
// have been there by default.
func (w *folders) registerFolders(flags *pflag.FlagSet, journals string, settle time.Duration) {
	flags.StringVar(&w.Journal, "journal", "", "folder that remembers which reads were sent, one for each ingest (default $STATE_DIRECTORY or $XDG_STATE_HOME/porestream, and there "+journals+")")
	folderFlag(flags, "journal")
	flags.DurationVar(&w.Poll, "poll", time.Second, "how often folders are listed, also where the system reports changes")
	flags.DurationVar(&w.Settle, "settle", settle, "how long bytes must have been there before they are read; network file systems show some too early")
	flags.DurationVar(&w.IdleEnd, "idle-end", 0, "end a run when there was nothing new of it for so long; 0 waits for its final summary")
	flags.BoolVar(&w.Once, "once", false, "end when all runs have ended; without --idle-end that is when all there is was read")
	flags.BoolVar(&w.Restart, "restart", false, "send runs from their beginning, whatever is in Kafka already")
}

func (w *folders) complete(given *given) error { return w.completeFolders(given, formerFolderName) }

// completeFolders completes the options of a kind that watches folders, whose journals are called so by default.
func (w *folders) completeFolders(given *given, journals string) error {
	if w.Poll <= 0 || w.Settle < 0 || w.IdleEnd < 0 {
		return cli.Usagef("--poll must be more than 0, and --settle and --idle-end not less")
	}
	if w.Journal == "" {
		dir, err := cli.StateFolder(journals)
		if err != nil {
			return cli.Usagef("--journal: %w", err)
		}
		// A source of several has one to itself.
		if w.Journal = dir; given.name != "" {
			w.Journal = filepath.Join(dir+"-sources", given.name)
		}
	}
	w.Dirs, w.Sample = given.operands, given.intake.sample
	return nil
}

func (w *folders) claims() ([]sources.Claim, error) {
	return folderClaims(append([]string{w.Journal}, w.Dirs...)...)
}

func (w *folders) run(ctx context.Context, to *destination) error {
	return folder.Watch(ctx, w.configure(to, to.service.Topics.Signal), to.ready)
}

// configure completes the settings for reads that go to a topic.
func (w *folders) configure(to *destination, topic string) folder.Config {
	cfg := w.Config
	cfg.Topic, cfg.Logger, cfg.Metrics = topic, to.logger, to.meter.folder
	cfg.Sink = sink(to, cfg.Restart, to.connection.partitions[topic])
	return cfg
}

// sink writes runs to Kafka, to a topic of so many partitions.
func sink(to *destination, restart bool, partitions int32) folder.Sink {
	service := to.service
	service.Partitions = partitions
	service.Restart = restart
	service.MaxBuffered = max(service.MaxBuffered/watchedRuns, leastBuffered)
	return func(ctx context.Context, run *streampb.Run, fn func(context.Context, folder.Feed) error) error {
		return ingest.RunFeed(ctx, run, service, func(ctx context.Context, f *ingest.Feed) error { return fn(ctx, f) })
	}
}
