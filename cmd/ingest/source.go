package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/ingest/cluster"
	"github.com/porestream/porestream/ingest/sources"
	"github.com/porestream/porestream/internal/cli"
)

// source is a source of signal with its settings, which flags and the file of
// sources fill in alike.
type source interface {
	// register adds the options of its kind.
	register(flags *pflag.FlagSet)
	// complete checks the settings and fills in missing ones. It connects to
	// nothing, and its errors name options as flags.
	complete(given *given) error
	// claims are what no other source may have at the same time, besides what all
	// kinds have.
	claims() ([]sources.Claim, error)
	// run takes signal until ctx ends or there is no more.
	run(ctx context.Context, to *destination) error
}

// given holds a source's settings besides its own options.
type given struct {
	name     string // in a file of sources; empty for a command
	operands []string
	flags    *pflag.FlagSet
	intake   *intake
}

// kind is a kind of source.
type kind struct {
	name        string
	use         string // of its command, behind its name
	short, long string
	example     string // of its command, with its flags
	// operands is what its arguments are called in the file; empty: it has none.
	operands, operandsUsage string
	// patient sources have no spool: what Kafka doesn't take for now waits in them.
	patient bool
	// called sources have reads, not signal.
	called bool
	// endless sources are to be stopped sooner or later, and have then done all that
	// was asked for.
	endless bool
	waiting string // for what, until it is ready
	// formerly is what it was called once; empty: nothing else.
	formerly string
	make     func() source
}

// kinds are all kinds of sources.
func kinds() []kind {
	return []kind{playKind(), folderKind(), readsKind(), minknowKind(), serveKind(), simulateKind()}
}

// intake holds the settings of every source: how its signal is cut and named, and
// how much of it may be held.
type intake struct {
	chunk       time.Duration
	sample      string
	maxBuffered cli.Bytes
	spool       string
	spoolMax    cli.Bytes
}

func (in *intake) register(flags *pflag.FlagSet, k *kind) {
	in.maxBuffered, in.spoolMax = 64<<20, 64<<30
	if !k.called {
		flags.DurationVar(&in.chunk, "chunk", time.Second, "length of a signal chunk")
	}
	flags.StringVar(&in.sample, "sample", "", "sample name, if not the recording's")
	flags.Var(&in.maxBuffered, "max-buffered", "limit of the signal that is held in memory; what is more waits in the spool or in its files")
	if k.patient {
		return
	}
	flags.StringVar(&in.spool, "spool", "", "folder that keeps signal while Kafka is away, one for each ingest; none if not given")
	flags.Var(&in.spoolMax, "spool-max", "limit of the spool")
	folderFlag(flags, "spool")
}

// folderFlag and fileFlag say that an option is a path: shells complete it, and in
// the file of sources it is relative to that file's folder.
func folderFlag(flags *pflag.FlagSet, name string) {
	if err := cobra.MarkFlagDirname(flags, name); err != nil {
		panic(err) // the flag is not there: a bug
	}
}

func fileFlag(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		if err := cobra.MarkFlagFilename(flags, name); err != nil {
			panic(err) // the flag is not there: a bug
		}
	}
}

// options registers all settings of a kind of source on a flag set.
func (k *kind) options(flags *pflag.FlagSet) (source, *intake) {
	in, src := new(intake), k.make()
	in.register(flags, k)
	src.register(flags)
	return src, in
}

// command makes a kind a command of its own.
func (k kind) command() *cobra.Command {
	var process process
	args := cobra.NoArgs
	if k.operands != "" {
		args = cobra.MinimumNArgs(1)
	}
	cmd := &cobra.Command{Use: k.name + " " + k.use, Short: k.short, Long: k.long, Example: "  ingest " + k.example, Args: cli.Args(args)}
	process.register(cmd.Flags())
	src, in := k.options(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, operands []string) error {
		if err := src.complete(&given{operands: operands, flags: cmd.Flags(), intake: in}); err != nil {
			return err
		}
		err := k.runAlone(cmd.Context(), &process, src, in)
		if k.endless {
			return cli.Stopped(cmd.Context(), err)
		}
		return err
	}
	return cmd
}

// runAlone runs a source that has the process to itself. What it ends with is what
// the command ends with.
func (k *kind) runAlone(ctx context.Context, process *process, src source, in *intake) error {
	return process.attach(ctx, k.waiting, func(ctx context.Context, c *connection) error {
		var ended error
		list := []sources.Spec{{
			Name: k.name, Kind: k.name, Figures: func() ingest.Figures { return c.meters.of(k.name, k.name).ingest.Figures() },
			Run: func(ctx context.Context, ready func()) error {
				ended = src.run(ctx, c.destination(k.name, k.name, in, func() { ready(); c.ready() }))
				return ended
			},
		}}
		supervisor := sources.New(sources.Config{Once: true, StopTimeout: stopTimeout})
		c.serve(supervisor, nil)
		err := supervisor.Run(ctx, list, nil)
		if ctx.Err() != nil && err != nil {
			return err // it has not stopped
		}
		return ended
	})
}

// stopTimeout is for how long a source may take to stop. It is longer than what
// bounds the steps of stopping, each for itself.
const stopTimeout = 30 * time.Second

// destination is what a source of signal writes to: connected, and its topics are
// there.
type destination struct {
	cluster *cluster.Cluster
	meter   *meter
	logger  *slog.Logger
	// service is ready to be used, except for what only the source knows.
	service    ingest.ServiceConfig
	connection *connection
	// ready says that the source has got all that it needs.
	ready func()
}

// destination makes that of a source, with memory of its own.
func (c *connection) destination(name, kind string, in *intake, ready func()) *destination {
	logger := c.logger
	if c.many {
		logger = logger.With("source", name)
	}
	all := cluster.New(c.client, cluster.Config{
		Topics: c.topics, Prefix: c.process.kafka.Prefix, TransactionTimeout: c.process.transactionTimeout,
		MaxBuffered: int64(in.maxBuffered) / 4, Logger: logger,
	})
	m := c.meters.of(name, kind)
	return &destination{
		cluster: all, meter: m, logger: logger, connection: c, ready: ready,
		service: ingest.ServiceConfig{
			Config: ingest.Config{
				Topics: c.topics, Partitions: c.partitions[c.topics.Signal], Chunk: in.chunk, Sample: in.sample, Metrics: m.ingest, Logger: logger, Tracer: c.tracer,
			},
			Cluster:            &claimingCluster{Cluster: all, runs: &c.runs, source: name},
			TransactionTimeout: c.process.transactionTimeout,
			MaxBuffered:        int64(in.maxBuffered), SpoolDir: in.spool, SpoolMax: int64(in.spoolMax),
		},
	}
}

// claimingCluster lets a source write only runs that no other source of the
// process writes.
type claimingCluster struct {
	*cluster.Cluster
	runs   *sources.Runs
	source string
}

func (c *claimingCluster) Open(ctx context.Context, run string) (ingest.Writer, error) {
	if err := c.runs.Claim(run, c.source); err != nil {
		return nil, &ingest.PermanentError{Err: err}
	}
	return c.Cluster.Open(ctx, run)
}

// misconfigured is an error that stays until somebody changes the settings, or what
// they name.
type misconfigured struct{ error }

func (e misconfigured) Unwrap() error { return e.error }

// commonClaims are what sources of all kinds claim.
func (in *intake) commonClaims() ([]sources.Claim, error) {
	if in.spool == "" {
		return nil, nil
	}
	return folderClaims(in.spool)
}

func folderClaims(paths ...string) ([]sources.Claim, error) {
	var claims []sources.Claim
	for _, path := range paths {
		claim, err := sources.FolderClaim(filepath.Clean(path))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		claims = append(claims, claim)
	}
	return claims, nil
}
