// Package pipeline runs the whole pipeline on one machine, from signal files
// to the variants of the runs in them, over Kafka: the same services as on a
// cluster, in one process.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	alignstage "github.com/porestream/porestream/align/stage"
	"github.com/porestream/porestream/annotate/diplotype"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/demux"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/ingest"
	readfiles "github.com/porestream/porestream/ingest/folder"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/livepage"
	"github.com/porestream/porestream/internal/processor"
	"github.com/porestream/porestream/monitor/ops"
	"github.com/porestream/porestream/monitor/report"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/stream/trace"
	"github.com/porestream/porestream/variant"
	variantstage "github.com/porestream/porestream/variant/stage"
	"github.com/porestream/porestream/vcf"
	"github.com/porestream/porestream/watchlist"
)

// Config says what to run and on what.
type Config struct {
	Signal []string // files and folders
	// Reads, if set, are reads that are called already, instead of Signal.
	Reads  *Reads
	Filter signal.Filter // which reads of them
	// Duplicates says what becomes of reads that lie in two files.
	Duplicates signal.Duplicates
	// Kafka is the cluster to run over.
	Kafka       kafka.Config
	Topics      stream.Topics
	Group       string // prefix of the consumer groups
	Replication int
	// Partitions is the number of partitions of the topics that are created.
	Partitions int
	// Processors is the number of members of every consumer group.
	Processors int
	Pace       float64 // see ingest.Config
	Chunk      time.Duration
	Sample     string
	Engines    processor.Options
	Stream     processor.Stream
	// VCFVersion is the least version of the files of variants that Result writes.
	VCFVersion vcf.Version
	// Controls are the negative controls among the samples, besides those of the sample sheet.
	Controls processor.Controls
	// Registry takes the metrics of everything.
	Registry *prometheus.Registry
	Logger   *slog.Logger
	// Tracer takes the spans of traced reads; nil: none are.
	Tracer *trace.Tracer

	// OnStart, if set, is called with what is about to run. OnVariant, if set, is called with
	// every revision as it appears on the variants topic; one at a time. OnAlert is called with
	// every alert, from a goroutine of its own.
	OnStart   func(Start)
	OnVariant func(*event.Variant)
	OnAlert   func(*watchlist.Alert)

	// Page, if set, has the live page served; OnPage is called once it is.
	Page   *Page
	OnPage func(*livepage.Page)
	// OnResult, if set, is handed the result while everything still stands, the live page
	// included; the run is over when it returns.
	OnResult func(context.Context, *Result)
}

// Reads are reads that are called already.
type Reads struct {
	Files *readfiles.ReadFiles
	Sheet string    // file of the sample sheet of Files; empty: none
	Stdin io.Reader // what - means
}

// Page is how the live page of a run is served.
type Page struct {
	Server *ops.Server
	Token  ops.Token
}

// Start is what is about to run.
type Start struct {
	Device, Model  string
	VariantModel   string
	Runs           []*streampb.Run
	Reads, Samples int64
}

// Result is what a run came to.
type Result struct {
	Genome  *genome.Genome
	Runs    []*streampb.Run
	Variant variant.Config // thresholds that the variants were called with
	Survey  processor.Survey
	Fold    *Fold
	Alerts  *AlertFold // nil without panels
	// Methylation is nil where modified bases aren't counted.
	Methylation *MethylationFold
	Summary     Summary
	// VCFVersion is the least version of the files of variants.
	VCFVersion vcf.Version
	// Definitions are of named alleles, by which samples are called as diplotypes; none: they aren't.
	Definitions []*diplotype.Definitions
}

// Run plays the signal, processes it until every run in it has ended and
// returns the state of the variants topic. Everything it starts has stopped when
// it returns.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	recording, filteredOut, err := openRecording(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if recording != nil {
		defer recording.Close()
	}
	engines, err := processor.Load(ctx, cfg.Engines)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := engines.Close(); err != nil {
			cfg.Logger.Warn("closing the engines", "err", err)
		}
	}()
	sheet, path := sheetOf(cfg, engines)
	if _, err := cfg.Controls.Of(sheet, path, nil); err != nil {
		return nil, err
	}
	if recording != nil {
		if err := engines.CheckModels(recording, cfg.Engines.Model != ""); err != nil {
			return nil, err
		}
		if err := engines.CheckSheet(recording.Runs(), cfg.Logger); err != nil {
			return nil, err
		}
	}
	client, err := kafka.Connect(ctx, cfg.Kafka)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := client.EnsureTopics(ctx, engines.TopicSettings(cfg.Topics, cfg.Partitions), cfg.Replication); err != nil {
		return nil, err
	}
	r := &run{cfg: cfg, client: client, engines: engines, recording: recording, filteredOut: filteredOut, metrics: processor.NewMetrics(cfg.Registry), ingested: ingest.NewMetrics(cfg.Registry), regions: variantstage.NewRegions()}
	r.controlled = &processor.NamedControls{Flags: &r.cfg.Controls, Sheet: sheet, Path: path, Logger: cfg.Logger}
	defer r.servePage(ctx)()
	result, err := r.run(ctx)
	if err == nil && cfg.OnResult != nil {
		cfg.OnResult(ctx, result)
	}
	return result, err
}

// openRecording opens the signal that is played, of which there must be some; nil if reads
// are. filteredOut is how many reads the filter leaves out.
func openRecording(ctx context.Context, cfg Config) (recording *signal.Index, filteredOut int, err error) {
	if cfg.Reads != nil {
		return nil, 0, nil
	}
	files, err := signal.Expand(cfg.Signal)
	if err != nil {
		return nil, 0, err
	}
	recording, err = signal.NewIndexOf(ctx, files, cfg.Duplicates)
	if err != nil {
		return nil, 0, err
	}
	cli.LogRepeated(cfg.Logger, recording)
	if recording.Len() == 0 {
		return nil, 0, errors.Join(fmt.Errorf("%s: no reads", strings.Join(cfg.Signal, ", ")), recording.Close())
	}
	selection, err := recording.Select(cfg.Filter)
	if err != nil {
		return nil, 0, errors.Join(err, recording.Close())
	}
	cli.LogSelection(cfg.Logger, cfg.Filter, selection, recording.Len())
	return recording, selection.Of - recording.Len(), nil
}

// player sends what is played.
type player interface {
	Play(ctx context.Context) error
	// Runs are the runs of what is played; once one has ended downstream, all of them.
	Runs() []*streampb.Run
}

// recordingPlayer plays signal.
type recordingPlayer struct{ *ingest.Player }

func (p recordingPlayer) Play(ctx context.Context) error {
	_, err := p.Player.Play(ctx)
	return err
}

// newPlayer prepares to play to a producer.
func (r *run) newPlayer(ctx context.Context, producer *kafka.Producer) (player, error) {
	topic := r.cfg.Topics.Signal
	if r.cfg.Reads != nil {
		topic = r.cfg.Topics.Called
	}
	partitions, err := r.client.Partitions(ctx, topic)
	if err != nil {
		return nil, err
	}
	cfg := ingest.Config{
		Topics: r.cfg.Topics, Partitions: int32(partitions), Pace: r.cfg.Pace, Chunk: r.cfg.Chunk, Sample: r.cfg.Sample,
		Controls: r.controlled.Named, // for processors that were started without them
		Metrics:  r.ingested, Logger: r.cfg.Logger, Tracer: r.cfg.Tracer,
	}
	if r.cfg.Reads != nil {
		reads := *r.cfg.Reads.Files
		reads.Naming.Sample, reads.Reference = r.cfg.Sample, r.engines.Genome.Bases
		p, err := readfiles.NewPlayer(&reads, r.cfg.Reads.Stdin, ingest.NewDirect(producer, cfg), r.cfg.Logger)
		if err != nil {
			return nil, err
		}
		p.Check, p.Controls = r.checkSheet, r.controlled.Named
		return p, nil
	}
	p, err := ingest.NewPlayer(r.recording, producer, cfg)
	if err != nil {
		return nil, err
	}
	return recordingPlayer{p}, nil
}

// sheet is the sample sheet, of barcodes that are searched for or that called reads have; nil: none.
func (r *run) sheet() *demux.Sheet {
	sheet, _ := sheetOf(r.cfg, r.engines)
	return sheet
}

// sheetOf is the sample sheet and its file.
func sheetOf(cfg Config, engines *processor.Engines) (sheet *demux.Sheet, path string) {
	if cfg.Reads != nil && cfg.Reads.Files.Naming.Sheet != nil {
		return cfg.Reads.Files.Naming.Sheet, cfg.Reads.Sheet
	}
	return engines.Sheet(), engines.SheetPath()
}

// checkSheet compares the sample sheet, if there is one, with all runs of called reads. What runs
// there are is known only when all reads have been seen.
func (r *run) checkSheet(runs []*streampb.Run) error {
	if _, err := r.controls(r.demultiplexed(runs)); err != nil {
		return err
	}
	if sheet := r.cfg.Reads.Files.Naming.Sheet; sheet != nil {
		return processor.CheckSheet(sheet, r.cfg.Reads.Sheet, recorded(runs), r.cfg.Logger)
	}
	return r.engines.CheckSheet(recorded(runs), r.cfg.Logger)
}

// recorded are runs as a recording describes them.
func recorded(runs []*streampb.Run) []*signal.Run {
	var list []*signal.Run
	for _, run := range runs {
		list = append(list, alignstage.Recorded(run))
	}
	return list
}

// servePage has the run's page served until the function is called that it returns.
// What becomes of the page changes nothing about the run.
func (r *run) servePage(ctx context.Context) (stop func()) {
	if r.cfg.Page == nil {
		return func() {}
	}
	p := livepage.New(livepage.Config{
		Client: r.client, Topics: r.cfg.Topics, Kind: "run", Stages: append([]string{"ingest"}, r.engines.Stages()...), Version: cli.Version,
		Interval: report.DefaultInterval, Registry: r.cfg.Registry, Depths: r.regions.Depths, Reads: processor.ReadsOf(r.regions),
		Channels: func() map[string][]ingest.Channels {
			return map[string][]ingest.Channels{"recording": r.ingested.Channels()}
		},
		Namer: NamerOf(r.engines), Server: r.cfg.Page.Server, Token: r.cfg.Page.Token, Eager: true, Logger: r.cfg.Logger,
	})
	ctx, cancel := context.WithCancel(ctx)
	var served sync.WaitGroup
	served.Go(func() { p.Run(ctx) })
	if r.cfg.OnPage != nil {
		r.cfg.OnPage(p)
	}
	return func() {
		cancel()
		served.Wait()
	}
}

// run is a run in progress.
type run struct {
	cfg       Config
	client    *kafka.Client
	engines   *processor.Engines
	recording *signal.Index // nil if reads are played
	// filteredOut is how many reads of the recording the filter leaves out.
	filteredOut int
	metrics     *processor.Metrics
	ingested    *ingest.Metrics
	regions     *variantstage.Regions
	models      map[string][]*streampb.ModelReads // by sample, when all runs had ended
	carried     *Carried                          // likewise; nil: no run has controls
	controlled  *processor.NamedControls
	latencies   []time.Duration
}

// errComplete ends the run's goroutines once there is nothing left to come.
var errComplete = errors.New("all runs have ended")

func (r *run) run(ctx context.Context) (*Result, error) {
	fold, alerts, methylated, err := r.folds(ctx)
	if err != nil {
		return nil, err
	}
	before, err := r.deadLetters(ctx)
	if err != nil {
		return nil, err
	}
	producer, err := kafka.NewProducer(ctx, r.client, kafka.ProducerConfig{})
	if err != nil {
		return nil, err
	}
	player, err := r.newPlayer(ctx, producer)
	if err != nil {
		return nil, errors.Join(err, r.close(ctx, producer))
	}
	if r.recording != nil { // which runs there are is known before anything is called
		if _, err := r.controls(r.runs(player)); err != nil {
			return nil, errors.Join(err, r.close(ctx, producer))
		}
	}
	r.announce(player)

	start := time.Now()
	group, groupCtx := errgroup.WithContext(ctx)
	for range max(1, r.cfg.Processors) {
		p := processor.New(r.client, r.engines, processor.Config{
			Topics: r.cfg.Topics, Group: r.cfg.Group, Stream: r.cfg.Stream, Regions: r.regions, Controls: r.controlled.OfSamples, Metrics: r.metrics, Logger: r.cfg.Logger, Tracer: r.cfg.Tracer,
		})
		group.Go(func() error { return p.Run(groupCtx) })
	}
	group.Go(func() error { return player.Play(groupCtx) })
	group.Go(func() error { return r.consume(groupCtx, fold, alerts, methylated, player.Runs) })
	err = group.Wait()
	wall := time.Since(start)
	if closeErr := r.close(ctx, producer); err == nil || errors.Is(err, errComplete) {
		err = closeErr
	}
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	after, err := r.deadLetters(ctx)
	if err != nil {
		return nil, err
	}
	summary, err := r.summarise(fold, alerts, r.runs(player), wall, after-before)
	if err != nil {
		return nil, err
	}
	if p, reads := player.(*readfiles.Player); reads {
		summary.Skipped = int64(p.Skipped())
		summary.Rejected += summary.Skipped
	}
	return &Result{Genome: r.engines.Genome, Runs: r.runs(player), Variant: r.engines.VariantConfig(), Survey: r.cfg.Engines.Survey, Fold: fold, Alerts: alerts, Methylation: methylated, Summary: summary, VCFVersion: r.cfg.VCFVersion, Definitions: r.engines.Definitions}, nil
}

func (r *run) close(ctx context.Context, producer *kafka.Producer) error {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := producer.Close(closing); err != nil {
		return fmt.Errorf("flushing what was produced: %w", err)
	}
	return nil
}

// runs are the runs of a player with the samples that their reads may be of.
func (r *run) runs(player player) []*streampb.Run { return r.demultiplexed(player.Runs()) }

func (r *run) demultiplexed(runs []*streampb.Run) []*streampb.Run {
	runs = slices.Clone(runs)
	for i := range runs {
		runs[i] = r.engines.Demultiplexed(runs[i])
	}
	return runs
}

func (r *run) announce(player player) {
	start := Start{Device: r.engines.Device(), Model: r.engines.Model(), VariantModel: r.engines.VariantModel(), Runs: player.Runs()}
	if r.recording != nil {
		start.Reads = int64(r.recording.Len())
		for i := range r.recording.Len() {
			start.Samples += int64(r.recording.Entry(i).NumSamples)
		}
	}
	r.cfg.Logger.Info("run begins", "device", start.Device, "model", start.Model, "variant_model", start.VariantModel, "reads", start.Reads, "samples", start.Samples)
	if r.cfg.OnStart != nil {
		r.cfg.OnStart(start)
	}
}

// folds are the empty states of the public topics; there are no alerts without
// panels, and no counts of modified bases unless they are asked for.
func (r *run) folds(ctx context.Context) (fold *Fold, alerts *AlertFold, methylated *MethylationFold, err error) {
	partitions, err := r.client.Partitions(ctx, r.cfg.Topics.Variants)
	if err != nil {
		return nil, nil, nil, err
	}
	fold = NewFold(int32(partitions))
	if r.engines.Watch != nil {
		if partitions, err = r.client.Partitions(ctx, r.cfg.Topics.Alerts); err != nil {
			return nil, nil, nil, err
		}
		alerts = NewAlertFold(int32(partitions))
	}
	if r.cfg.Engines.Methylation.On {
		if partitions, err = r.client.Partitions(ctx, r.cfg.Topics.Methylation); err != nil {
			return nil, nil, nil, err
		}
		methylated = NewMethylationFold(int32(partitions))
	}
	return fold, alerts, methylated, nil
}

// consume follows the public topics until every run has ended on all of their
// partitions. It returns errComplete then.
func (r *run) consume(ctx context.Context, fold *Fold, alerts *AlertFold, methylated *MethylationFold, runs func() []*streampb.Run) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return r.follow(ctx, r.cfg.Topics.Variants, runs, &fold.runEnds, func(rec stream.Record) error {
			v, err := fold.Add(rec)
			if v != nil {
				r.seen(v)
			}
			return err
		})
	})
	if alerts != nil {
		group.Go(func() error {
			return r.follow(ctx, r.cfg.Topics.Alerts, runs, &alerts.runEnds, func(rec stream.Record) error {
				a, err := alerts.Add(rec)
				if a != nil && r.cfg.OnAlert != nil {
					r.cfg.OnAlert(a)
				}
				return err
			})
		})
	}
	if methylated != nil {
		group.Go(func() error {
			return r.follow(ctx, r.cfg.Topics.Methylation, runs, &methylated.runEnds, func(rec stream.Record) error {
				_, err := methylated.Add(rec)
				return err
			})
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	r.models = r.regions.Models() // while the regions are still held
	var err error
	if r.carried, err = r.carryOver(fold, alerts, r.demultiplexed(runs())); err != nil {
		return err
	}
	return errComplete
}

// follow reads a public topic until every run has ended on it. What add can't
// read is left out.
func (r *run) follow(ctx context.Context, topic string, runs func() []*streampb.Run, ends *runEnds, add func(stream.Record) error) error {
	ended := errors.New("all runs have ended on the topic")
	err := r.client.Consume(ctx, topic, kafka.ConsumeOptions{From: kafka.FromStart}, func(rec stream.Record) error {
		if err := add(rec); err != nil {
			r.cfg.Logger.Warn("ignoring a record", "err", err)
			return nil
		}
		if all := runs(); len(all) > 0 && !slices.ContainsFunc(all, func(run *streampb.Run) bool { return !ends.Ended(run.GetId()) }) {
			return ended
		}
		return nil
	})
	switch {
	case errors.Is(err, ended):
		return nil
	case err == nil:
		return ctx.Err()
	}
	return err
}

func (r *run) seen(v *event.Variant) {
	// A final revision follows from the end of the run, not from a read.
	if v.LastChunk != nil && v.Status != streampb.CallStatus_FINAL.String() {
		r.latencies = append(r.latencies, time.Since(*v.LastChunk))
	}
	if r.cfg.OnVariant != nil {
		r.cfg.OnVariant(v)
	}
}

// deadLetters is the number of records on the dead-letter topic.
func (r *run) deadLetters(ctx context.Context) (int64, error) {
	offsets, err := r.client.Offsets(ctx, r.cfg.Topics.DeadLetters)
	if err != nil {
		return 0, err
	}
	var n int64
	for _, o := range offsets {
		n += o.End - o.Start
	}
	return n, nil
}
