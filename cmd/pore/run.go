package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	alignstage "github.com/porestream/porestream/align/stage"
	basecallstage "github.com/porestream/porestream/basecall/stage"
	"github.com/porestream/porestream/ingest"
	readfiles "github.com/porestream/porestream/ingest/folder"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/livepage"
	"github.com/porestream/porestream/internal/pipeline"
	"github.com/porestream/porestream/internal/processor"
	"github.com/porestream/porestream/internal/report"
	"github.com/porestream/porestream/internal/tracing"
	"github.com/porestream/porestream/monitor/ops"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/access"
	"github.com/porestream/porestream/stream/embedded"
	"github.com/porestream/porestream/vcf"
)

type runConfig struct {
	kafka      cli.KafkaFlags
	engines    processor.Flags
	filter     cli.FilterFlags
	stream     processor.Stream
	log        cli.LogFlags
	out        string
	partitions int
	processors int
	pace       string
	chunk      time.Duration
	sample     string
	input      string
	reads      readfiles.ReadFiles
	vcfVersion vcf.Version
	listen     string
	page       livepage.Flags
	controls   processor.Controls
	notify     string
	notifyWait time.Duration
	trace      tracing.Flags
	// brokerListen is where the embedded broker listens.
	brokerListen string
	follow       bool
}

func runCommand() *cobra.Command {
	var cfg runConfig
	cmd := &cobra.Command{
		Use:   "run --ref FASTA [--gff GFF3] [--panel YAML] --out DIR SIGNAL|READS...",
		Short: "Run the whole pipeline over Kafka, from signal or called reads to annotated variants",
		Long: `Plays POD5, BLOW5 and FAST5 files, or folders of them, through the whole pipeline and
writes DIR/variants.vcf, DIR/variants.jsonl and DIR/summary.json when every run
in them has ended, DIR/report.html of them for people and DIR/igv_session.xml for IGV; with --panel also
DIR/alerts.json and DIR/alerts.tsv. With several
samples, as of barcodes, each has files of its own, DIR/SAMPLE.variants.vcf and so on,
which summary.json lists ("files"); barcodes without reads have none, unless a sample
sheet names them. Without --brokers an embedded broker carries the topics, which
are gone afterwards; its address is printed, and --brokers-listen chooses it, so that
other programs can follow the topics meanwhile.

What is in the files when it starts is the run. Folders that go on growing are followed by
ingest folder or ingest reads, with pore broker or any Kafka and a processor.

With --modified-bases networks of Remora, Dorado or DeepMod2 say which bases of each read are modified, and with that or
--methylation they are counted by position: DIR/methylation.bed and a bedGraph for each
modification and strand, with --methylation-haplotypes methylation.1.bed and methylation.2.bed, too
(docs/consume/methylation.md).

A sample sheet whose column type names negative_control and no_template_control, or
--control and --no-template-control, have alleles of the other samples marked CarryOver
that reads of each other, or what the controls show, explain.

Reads that are called already are taken as well: FASTQ, SAM, BAM or CRAM files, folders of
them as MinKNOW lays them out, or - for a pipe. What a file holds follows from its content; of a
folder with both, signal is taken, or what --input says. Alignments are dropped.`,
		Example: `  pore run --ref ref.fa --gff genes.gff3 --out results reads.pod5
  pore run --ref ref.fa --out results calls.bam
  pore run --ref ref.fa --ploidy 2 --panel panel.yaml --out results --brokers kafka:9092 /data/run1`,
		Args: cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), cfg, args) },
	}
	cfg.register(cmd)
	return cmd
}

func (cfg *runConfig) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	cfg.engines.Register(flags)
	cfg.filter.Register(flags)
	cfg.stream.Register(flags)
	flags.StringVar(&cfg.out, "out", "", "folder for the results (required)")
	flags.StringVar(&cfg.pace, "pace", "max", "speed by the recording's own clock: 1, any number, or max")
	flags.DurationVar(&cfg.chunk, "chunk", time.Second, "length of a signal chunk")
	flags.StringVar(&cfg.sample, "sample", "", "sample name, if not the recording's")
	flags.StringVar(&cfg.input, "input", "auto", "what is in the files: signal, reads (called already), or auto to see from their content")
	flags.StringVar(&cfg.reads.Naming.Run, "run", "", "run of called reads that name none")
	flags.StringVar(&cfg.reads.Naming.Model, "called-by", "", "basecalling model of called reads that name none")
	flags.BoolVar(&cfg.reads.Naming.Demultiplexed, "demultiplexed", false, "called reads that name no barcode have none")
	flags.BoolVar(&cfg.reads.Failed, "include-fail", false, "take called reads, too, that fell through the basecaller's quality control")
	cfg.controls.Register(flags)
	flags.StringVar(&cfg.notify, "notify", "", "file of destinations, webhooks and mail, that get alerts while the run goes on (docs/consume/notify.md)")
	flags.DurationVar(&cfg.notifyWait, "notify-wait", time.Minute, "how long destinations that haven't got all alerts are waited for at the end")
	flags.Var(&cfg.vcfVersion, "vcf-version", vcfVersionHelp)
	flags.IntVar(&cfg.partitions, "partitions", 4, "partitions of the topics that are created")
	flags.IntVar(&cfg.processors, "processors", 1, "processors that share the work")
	flags.StringVar(&cfg.listen, "listen", "", "address of the live page, /healthz, /readyz and /metrics; none if not given")
	cfg.page.Register(flags)
	flags.StringVar(&cfg.brokerListen, "brokers-listen", "127.0.0.1:0", "loopback address of the embedded broker, for programs that follow the run; port 0 takes a free one")
	// People try it, as other programs have it; the option has another name here.
	flags.BoolVar(&cfg.follow, "follow", false, "see ingest folder and ingest reads")
	_ = flags.MarkHidden("follow") // fails for flags that don't exist only
	cfg.kafka.Register(flags)
	cfg.log.Register(flags, slog.LevelWarn)
	cfg.trace.Register(flags)
	cmd.MarkFlagsMutuallyExclusive("brokers", "brokers-listen")
}

func run(ctx context.Context, cfg runConfig, paths []string) (failed error) {
	if err := cfg.check(); err != nil {
		return err
	}
	if err := os.MkdirAll(cfg.out, 0o755); err != nil {
		return fmt.Errorf("making the folder for the results: %w", err)
	}
	logger, err := cfg.log.Logger(os.Stderr)
	if err != nil {
		return err
	}
	work, err := cfg.pipeline(paths, logger)
	if err != nil {
		return err
	}
	work.Registry = ops.NewRegistry(cli.Version)
	tracer, stopTracing, err := cfg.trace.Start(ctx, "pore", work.Registry, logger)
	if err != nil {
		return err
	}
	defer stopTracing()
	work.Tracer = tracer
	notifier, err := cfg.notifier(len(work.Engines.Panels))
	if err != nil {
		return err
	}
	var total atomic.Int64
	work.OnStart = func(s pipeline.Start) { total.Store(s.Samples) }
	work.OnPage = func(p *livepage.Page) { p.Announce(os.Stderr) }
	unit, processed := "samples", pipeline.SamplesProcessed
	if work.Reads != nil {
		unit, processed = "bases", pipeline.BasesProcessed
	}
	stopProgress := cli.ShowProgress(os.Stderr, unit, func() (int64, int64) { return processed(work.Registry), total.Load() })
	defer stopProgress()
	result, err := runPipeline(ctx, work, cfg.kafka, watching{listen: cfg.listen, page: cfg.page, notifier: notifier, brokerListen: cfg.brokerListen, onBroker: func(addr string) {
		fmt.Fprintf(os.Stderr, "Kafka broker of this run: %s; pore consume --brokers %s follows it\n", addr, addr)
	}})
	stopProgress()
	if err != nil {
		return err
	}
	if err := result.Write(ctx, cfg.out); err != nil {
		return err
	}
	// The results are there, whatever became of the reference meanwhile.
	if err := report.WriteSession(cfg.out, report.Session{Reference: work.Engines.Reference, Genes: readAgain(work.Engines.Genes.Paths)}); err != nil {
		fmt.Fprintf(os.Stderr, "warning: there is no session for IGV: %v; pore report writes one\n", err)
	}
	if err := report.WriteFile(cfg.out, "", report.Options{Program: cli.Version}); err != nil {
		return fmt.Errorf("making the report of the results in %s: %w", cfg.out, err)
	}
	if notifier != nil {
		if err := notifier.outcome; err != nil {
			defer func() { failed = errors.Join(failed, err) }()
		}
	}
	return cfg.describe(&result.Summary, work.Reads != nil, logger)
}

// check refuses flags that can't be meant, before anything is made.
func (cfg *runConfig) check() error {
	if cfg.follow {
		return cli.Usagef("pore run takes what is there when it starts; folders that grow are followed by ingest folder (signal) or ingest reads (called reads): " +
			"start pore broker, then processor --brokers 127.0.0.1:9092 --ref FASTA, then ingest folder --brokers 127.0.0.1:9092 DIR")
	}
	if cfg.out == "" {
		return cli.Usagef("--out is required: the folder for the results")
	}
	if cfg.partitions < 1 || cfg.processors < 1 {
		return cli.Usagef("--partitions and --processors must be at least 1")
	}
	return nil
}

// pipeline is the pipeline that the flags ask for, over the signal or the called reads that the paths name.
func (cfg *runConfig) pipeline(paths []string, logger *slog.Logger) (work pipeline.Config, err error) {
	work = pipeline.Config{
		Signal: paths, Partitions: cfg.partitions, Processors: cfg.processors, Chunk: cfg.chunk, Sample: cfg.sample,
		VCFVersion: cfg.vcfVersion, Controls: cfg.controls, Stream: cfg.stream, Logger: logger,
	}
	if work.Pace, err = ingest.ParsePace(cfg.pace); err != nil {
		return work, cli.Usagef("--pace: %w", err)
	}
	if err := cfg.stream.Validate(); err != nil {
		return work, cli.Usagef("%w", err)
	}
	if work.Filter, err = cfg.filter.Filter(); err != nil {
		return work, err
	}
	if work.Reads, err = cfg.takesReads(paths, logger); err != nil {
		return work, err
	}
	if m := cfg.engines.RunModels; work.Reads != nil && m.On() {
		flag := "--models-dir"
		if m.Dir == "" {
			flag = "--models"
		}
		return work, cli.Usagef("%s is for signal, and %s holds reads that are called already", flag, strings.Join(paths, ", "))
	}
	if len(cfg.engines.ModifiedBases) > 0 {
		if work.Reads != nil {
			return work, cli.Usagef("--modified-bases is for signal, and %s holds reads that are called already: --methylation counts what they say themselves", strings.Join(paths, ", "))
		}
		cfg.engines.Methylation.On = true
	}
	if work.Duplicates, err = cfg.filter.Duplicates(); err != nil {
		return work, err
	}
	work.Engines, err = cfg.engines.Options(nil)
	return work, err
}

// notifier sends the alerts of the run's panels while it goes on; nil if no destination is to get them.
func (cfg *runConfig) notifier(panels int) (*runNotifier, error) {
	switch {
	case cfg.notify == "":
		return nil, nil //nolint:nilnil // see above
	case panels == 0:
		return nil, cli.Usagef("--notify sends the alerts of panels: give --panel")
	case cfg.notifyWait < 0:
		return nil, cli.Usagef("--notify-wait %v: want 0s or more", cfg.notifyWait)
	}
	return newRunNotifier(cfg.notify, cfg.notifyWait)
}

// warnOfRun warns of what makes the results of a run worth less than its reads could have made them.
func warnOfRun(s *pipeline.Summary, logger *slog.Logger) {
	if warning := s.Warning(); warning != "" {
		logger.Warn(warning)
	}
	for _, warning := range s.ModelWarnings() {
		logger.Warn(warning)
	}
	for _, warning := range s.CarryOver.Warnings() {
		logger.Warn(warning)
	}
	warnOfMotifs(logger, s.Motifs)
	if len(s.SilentSamples) > 0 {
		logger.Warn("samples of the sample sheet have no reads", "samples", strings.Join(s.SilentSamples, ", "))
	}
}

// describe writes for people what the run came to. Reads that were left out are an error; the results are there all the same.
func (cfg *runConfig) describe(s *pipeline.Summary, ofReads bool, logger *slog.Logger) error {
	if len(s.Files) > 1 {
		fmt.Fprintf(os.Stderr, "variants of %d samples: %s\n", len(s.Files), strings.Join(slices.Sorted(maps.Values(s.Files)), ", "))
	}
	if s.SilentBarcodes > 0 {
		fmt.Fprintf(os.Stderr, "%d samples of barcodes without reads have no files; a sample sheet says which there are\n", s.SilentBarcodes)
	}
	warnOfRun(s, logger)
	if len(s.Barcodes) > 0 {
		fmt.Fprintln(os.Stderr, "reads by barcode: "+inLine(s.Barcodes))
	}
	if len(s.WithoutBarcode) > 0 {
		fmt.Fprintln(os.Stderr, "reads without one, by why: "+inLine(s.WithoutBarcode))
	}
	if !ofReads {
		speed := fmt.Sprintf("%.0f samples/s on %s", s.SamplesPerSecond, s.Device)
		if s.Device == "" {
			speed = "no model was loaded"
		}
		fmt.Fprintf(os.Stderr, "%d reads, %d samples and %d variants in %.1f s (%s); results in %s\n", s.Reads, s.Samples, s.Variants, s.WallSeconds, speed, cfg.out)
		if s.Device == "" && s.LeftOut["no_model"] > 0 {
			return fmt.Errorf("none of the %d reads was called, as no model that their runs need can be used: the log says why", s.Reads)
		}
		return nil
	}
	fmt.Fprintf(os.Stderr, "%d reads, %d bases and %d variants in %.1f s; results in %s\n", s.Reads, s.Bases, s.Variants, s.WallSeconds, cfg.out)
	if s.Skipped > 0 {
		return fmt.Errorf("%d reads can't be used, and the results are without them: see the log", s.Skipped)
	}
	return nil
}

// takesReads returns the called reads that the paths name; nil if they name signal.
func (cfg *runConfig) takesReads(paths []string, logger *slog.Logger) (*pipeline.Reads, error) {
	held := 0
	for _, path := range paths {
		holds, err := readfiles.Holds(path)
		if err != nil {
			return nil, err
		}
		switch {
		case holds.Reads && !holds.Signal:
			held++
		case holds.Reads && cfg.input == "auto":
			logger.Warn("a folder holds signal and reads that are called already, and the signal is called again: --input reads takes the reads", "folder", path)
		}
	}
	switch cfg.input {
	case "signal":
		return nil, nil //nolint:nilnil // see above
	case "auto":
		if held == 0 {
			_, err := signal.Expand(paths)
			if none, ok := errors.AsType[*signal.NoSignalError](err); ok {
				return nil, fmt.Errorf("%w, nor called reads as FASTQ, SAM, BAM or CRAM", none)
			}
			return nil, nil //nolint:nilnil // see above
		}
		if held < len(paths) {
			return nil, errors.New("some of what is named holds signal, and some reads that are called: run them apart")
		}
	case "reads":
	default:
		return nil, cli.Usagef("--input %q: want auto, signal or reads", cfg.input)
	}
	if len(paths) > 1 && slices.Contains(paths, "-") {
		return nil, cli.Usagef("- (standard input) stands alone")
	}
	cfg.reads.Roots = paths
	path := cfg.engines.Barcoding.TakeSheet()
	if path != "" {
		var err error
		if cfg.reads.Naming.Sheet, err = processor.ReadSheet(path); err != nil {
			return nil, err
		}
	}
	return &pipeline.Reads{Files: &cfg.reads, Sheet: path, Stdin: os.Stdin}, nil
}

// inLine is numbers of reads by name in a line.
func inLine(reads map[string]int64) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(reads)) {
		list = append(list, fmt.Sprintf("%s %d", name, reads[name]))
	}
	return strings.Join(list, ", ")
}

// watching is how a run can be watched.
type watching struct {
	listen string // address of the live page, health and metrics; empty: none
	page   livepage.Flags
	// onListen, if set, is called with the address once the process listens on it.
	onListen func(addr string)
	// brokerListen is where an embedded broker listens; empty: on any free port. onBroker,
	// if set, is called with its address.
	brokerListen string
	onBroker     func(addr string)
	notifier     *runNotifier // nil: no destination gets alerts
}

// open listens for the readers of the live page, health and metrics.
func (w *watching) open(cfg *pipeline.Config) (*ops.Server, error) {
	server, err := ops.Listen(w.listen, cfg.Registry, func() error { return nil }, cfg.Logger)
	if err != nil {
		return nil, err
	}
	if !w.page.Off {
		token, err := w.page.Token()
		if err != nil {
			return nil, err
		}
		cfg.Page = &pipeline.Page{Server: server, Token: token}
	}
	if w.onListen != nil {
		w.onListen(server.Addr())
	}
	return server, nil
}

// runPipeline runs the pipeline over the brokers that the flags name, or over an
// embedded one that lives as long as the run.
func runPipeline(ctx context.Context, cfg pipeline.Config, flags cli.KafkaFlags, watch watching) (_ *pipeline.Result, failed error) {
	stages, err := processor.ParseStages("", processor.Work{Panels: len(cfg.Engines.Panels) > 0, Methylation: cfg.Engines.Methylation.On})
	if err != nil {
		return nil, err
	}
	idle := alignstage.Name // there is either signal or called reads
	if cfg.Reads != nil {
		idle = basecallstage.Name
	}
	stages = slices.DeleteFunc(stages, func(s string) bool { return s == idle })
	cfg.Engines.Stages, cfg.Engines.Registerer, cfg.Engines.Logger = stages, cfg.Registry, cfg.Logger
	cfg.Replication = flags.Replication
	if len(flags.Brokers) == 0 {
		broker, cleanUp, err := startBroker(watch.brokerListen, cfg.Logger)
		if err != nil {
			return nil, err
		}
		defer cleanUp()
		if watch.onBroker != nil {
			atStart(&cfg, func() { watch.onBroker(broker.Addr()) })
		}
		flags.Brokers = []string{broker.Addr()}
		var stop context.CancelFunc
		ctx, stop = whileWritten(ctx, broker)
		defer stop()
		defer func() {
			if err := broker.Err(); err != nil && failed != nil {
				failed = fmt.Errorf("%w; make space there, or name a folder on another disk with TMPDIR", err)
			}
		}()
	} else if flags.Prefix == "" {
		// Topics of its own keep this run apart from others on the cluster.
		var id [4]byte
		_, _ = rand.Read(id[:]) // never fails
		flags.Prefix = "pore-" + hex.EncodeToString(id[:]) + "."
		atStart(&cfg, func() { fmt.Fprintf(os.Stderr, "topics of this run begin with %s\n", flags.Prefix) })
	}
	if cfg.Kafka, err = flags.Config(cfg.Logger, cfg.Registry); err != nil {
		return nil, err
	}
	cfg.Topics, cfg.Group = stream.NewTopics(flags.Prefix), flags.Prefix+"porestream"
	if watch.listen != "" {
		server, err := watch.open(&cfg)
		if err != nil {
			return nil, err
		}
		serving, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			if err := server.Run(serving); err != nil {
				cfg.Logger.Warn("metrics are gone", "err", err)
			}
		}()
	}
	atStart(&cfg, func() {
		watch.notifier.start(ctx, cfg.Kafka, access.Deployment{Prefix: flags.Prefix, Group: "porestream", Panels: true}, cfg.Registry, cfg.Logger)
	})
	result, err := pipeline.Run(ctx, cfg)
	if err != nil || result.Alerts == nil {
		watch.notifier.abort()
		return result, err
	}
	watch.notifier.finish(ctx, result.Alerts.Last())
	return result, nil
}

// atStart has something done once all that a run needs is there, so that a refusal is one
// line.
func atStart(cfg *pipeline.Config, do func()) {
	next := cfg.OnStart
	cfg.OnStart = func(s pipeline.Start) {
		do()
		if next != nil {
			next(s)
		}
	}
}

// whileWritten returns a context that ends with ctx, or when the broker can't write its log.
func whileWritten(ctx context.Context, broker *embedded.Broker) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	go func() {
		select {
		case <-broker.Failed():
			stop()
		case <-ctx.Done():
		}
	}()
	return ctx, stop
}

// startBroker starts an embedded broker with its log in a temporary folder.
func startBroker(listen string, logger *slog.Logger) (broker *embedded.Broker, cleanUp func(), err error) {
	dir, err := os.MkdirTemp("", "porestream-")
	if err != nil {
		return nil, nil, fmt.Errorf("making a folder for the embedded broker: %w", err)
	}
	broker, err = startEmbedded("--brokers-listen", embedded.Config{DataDir: filepath.Join(dir, "broker"), Listen: listen, Logger: logger})
	if err != nil {
		os.RemoveAll(dir)
		return nil, nil, err
	}
	return broker, func() {
		if err := broker.Close(); err != nil {
			logger.Warn("closing the embedded broker", "err", err)
		}
		os.RemoveAll(dir)
	}, nil
}

// readAgain are the paths of files that another program can open later: neither pipes nor what stands for no file.
func readAgain(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
		info, err := os.Stat(path)
		return err != nil || !info.Mode().IsRegular()
	})
}
