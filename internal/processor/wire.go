package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	adaptivestage "github.com/porestream/porestream/adaptive/stage"
	alignstage "github.com/porestream/porestream/align/stage"
	annotatestage "github.com/porestream/porestream/annotate/stage"
	basecallstage "github.com/porestream/porestream/basecall/stage"
	methylatestage "github.com/porestream/porestream/modbase/stage"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/stream/trace"
	variantstage "github.com/porestream/porestream/variant/stage"
	watchstage "github.com/porestream/porestream/watchlist/stage"
)

// Config says how a processor takes part in the stream.
type Config struct {
	Topics stream.Topics
	// Group is the prefix of the consumer groups, one per stage.
	Group string
	// Stream says how the stages read and write.
	Stream Stream
	// Memberships, if set, is the process's file of memberships.
	Memberships *kafka.Memberships
	// Regions, if set, knows the regions that the variant stage holds; several
	// processors of one process may share it.
	Regions *variantstage.Regions
	// Controls names the negative controls of a run whose samples are known; nil: it has those that it comes with.
	Controls func(*streampb.Run) []*streampb.Control
	Metrics  *Metrics     // nil: none
	Logger   *slog.Logger // nil: none
	// Tracer takes the spans of traced reads; nil: none are.
	Tracer *trace.Tracer
}

// Metrics are the metrics of all stages. Several processors of one process
// share them.
type Metrics struct {
	adaptive  *adaptivestage.Metrics
	basecall  *basecallstage.Metrics
	align     *alignstage.Metrics
	variant   *variantstage.Metrics
	methylate *methylatestage.Metrics
	annotate  *annotatestage.Metrics
	watch     *watchstage.Metrics
}

// NewMetrics registers the metrics of all stages.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	deadLetters := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "porestream_dead_letters_total",
		Help: "Records that could not be processed and went to the dead-letter topic, by stage and reason code.",
	}, []string{"stage", "code"})
	reg.MustRegister(deadLetters)
	return &Metrics{
		adaptive:  adaptivestage.NewMetrics(reg),
		basecall:  basecallstage.NewMetrics(reg, deadLetters),
		align:     alignstage.NewMetrics(reg, deadLetters),
		variant:   variantstage.NewMetrics(reg, deadLetters),
		methylate: methylatestage.NewMetrics(reg, deadLetters),
		annotate:  annotatestage.NewMetrics(reg, deadLetters),
		watch:     watchstage.NewMetrics(reg, deadLetters),
	}
}

// Barcodes are the numbers of reads by barcode, see [alignstage.PlacerMetrics.Barcodes].
func (m *Metrics) Barcodes() map[string]int64 {
	all := m.basecall.Barcodes()
	for name, n := range m.align.Barcodes() {
		all[name] += n
	}
	return all
}

// Processor takes part in the stream with the stages of its engines.
type Processor struct {
	client  *kafka.Client
	engines *Engines
	cfg     Config

	mu   sync.Mutex
	live map[string]bool // stages that have a generation
}

// New returns a processor that is not running yet.
func New(client *kafka.Client, engines *Engines, cfg Config) *Processor {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Metrics == nil {
		cfg.Metrics = new(Metrics)
	}
	return &Processor{client: client, engines: engines, cfg: cfg, live: make(map[string]bool)}
}

// Run processes until ctx ends, then drains and returns nil, or until a stage
// can't go on.
func (p *Processor) Run(ctx context.Context) error {
	err := p.run(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // it was stopped while it asked for topics or began its transactions
	}
	return err
}

func (p *Processor) run(ctx context.Context) error {
	t := p.cfg.Topics
	partitions := make(map[string]int32)
	topics := []string{t.Reads, t.Calls, t.Variants}
	if p.engines.Watch != nil {
		topics = append(topics, t.Watch, t.Alerts)
	}
	if p.engines.methylation {
		topics = append(topics, t.Methylation)
	}
	for _, topic := range topics {
		n, err := p.client.Partitions(ctx, topic)
		if err != nil {
			return err
		}
		partitions[topic] = int32(n)
	}
	e, m, log := p.engines, p.cfg.Metrics, p.cfg.Logger

	// signal ─▶ adaptive ─▶ decisions                                                       (with targets)
	// signal ─▶ basecall ─▶ reads ─▶ variant ─▶ calls ─▶ annotate ─▶ variants
	// called ─▶ align ───────┤                              └─▶ watch ─▶ watch ─▶ alerts   (with panels)
	//                        └─▶ methylate ─▶ methylation                                  (with --methylation)
	//                                └─▶ watch                                             (with panels that ask for it)
	runs := newRunDirectory()
	flow := []struct {
		stage string
		input string
		start func() stream.NewHandler
	}{
		{adaptivestage.Name, t.Signal, func() stream.NewHandler {
			return adaptivestage.New(e.adaptiveStage(t, runs, m.adaptive, log))
		}},
		{basecallstage.Name, t.Signal, func() stream.NewHandler {
			return basecallstage.New(e.calling(basecallstage.Config{
				Topics: t, ReadsPartitions: partitions[t.Reads], Aligners: e.stageAligners(), Contig: e.contig, Finisher: e.finisher, Primers: e.primers,
				Controls: p.cfg.Controls,
				Metrics:  m.basecall, Logger: log, Tracer: p.cfg.Tracer,
			}))
		}},
		{alignstage.Name, t.Called, func() stream.NewHandler {
			return alignstage.New(alignstage.Config{
				ReadsPartitions: partitions[t.Reads],
				Placer: alignstage.Placer{
					Topics: t, Contig: e.contig, MinQuality: e.signal.MinQuality, Finisher: e.finisher, Primers: e.primers, Publish: e.signal.Basecalls,
				},
				Controls: p.cfg.Controls,
				Aligners: e.stageAligners(), RunTimeout: e.signal.RunTimeout, Metrics: m.align, Logger: log,
			})
		}},
		{variantstage.Name, t.Reads, func() stream.NewHandler {
			return variantstage.New(variantstage.Config{
				Topics: t, CallsPartitions: partitions[t.Calls],
				Genome: e.Genome, Variant: e.variant,
				Targets: e.targets(), Panels: e.panels, Survey: e.survey, Followed: e.followed(), FindMotifs: e.findMotifs, Haplotypes: e.byHaplotype, Regions: p.cfg.Regions,
				NetworkName: e.VariantModel(), Strict: e.strict,
				Metrics: m.variant, Logger: log, Tracer: p.cfg.Tracer,
			})
		}},
		{methylatestage.Name, t.Reads, func() stream.NewHandler {
			return methylatestage.New(methylatestage.Config{
				Topics: t, MethylationPartitions: partitions[t.Methylation], Genome: e.Genome, Filter: e.filter, Watch: e.watchedMethylation(partitions[t.Watch]),
				FindMotifs: e.findMotifs, Haplotypes: e.byHaplotype, Metrics: m.methylate, Logger: log,
			})
		}},
		{annotatestage.Name, t.Calls, func() stream.NewHandler {
			return trace.Around(p.cfg.Tracer, annotatestage.Name, annotatestage.New(annotatestage.Config{
				Topics: t, VariantsPartitions: partitions[t.Variants],
				Annotator: e.Annotator, Haplotypes: e.haplotypes, Scoring: e.scoring(), Genes: e.genes, Watch: e.watched(partitions[t.Watch]),
				Metrics: m.annotate, Logger: log,
			}))
		}},
		{watchstage.Name, t.Watch, func() stream.NewHandler {
			return trace.Around(p.cfg.Tracer, watchstage.Name, watchstage.New(watchstage.Config{
				Topics: t, AlertsPartitions: partitions[t.Alerts],
				Watch: e.Watch, Panels: e.panels, Genes: e.genes,
				Metrics: m.watch, Logger: log,
			}))
		}},
	}

	out, err := p.open(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, f := range flow {
		if !slices.Contains(e.stages, f.stage) {
			continue
		}
		cfg := kafka.GroupConfig{
			Group: p.cfg.Group + "-" + f.stage, Topics: []string{f.input}, NewHandler: f.start(),
			Delivery: p.cfg.Stream.Delivery, Transactions: out.transactions, Producer: out.producer,
			State:          kafka.StateConfig{Topic: t.State, Interval: p.cfg.Stream.SnapshotInterval},
			CommitInterval: p.cfg.Stream.CommitInterval, DrainTimeout: p.cfg.Stream.DrainTimeout, SessionTimeout: p.cfg.Stream.SessionTimeout,
			Memberships:   p.cfg.Memberships,
			MaxUnresolved: p.cfg.Stream.MaxUnresolved, MaxUnresolvedBytes: p.cfg.Stream.MaxUnresolvedBytes,
			OnAssigned: func(assigned, _ int) { p.setLive(f.stage, assigned >= 0) },
		}
		if f.stage == adaptivestage.Name {
			cfg = prompt(cfg, out.prompt)
		}
		group.Go(func() error {
			err := kafka.RunGroup(ctx, p.client, cfg)
			if permanent, is := errors.AsType[*stream.Permanent](err); is {
				err = permanent.Err // which record it was found at says nothing of why
			}
			if err != nil {
				return fmt.Errorf("%s stage: %w", f.stage, err)
			}
			return nil
		})
	}
	if e.deciders != nil {
		group.Go(func() error { return runs.follow(ctx, p.client, t.Runs, log) })
	}
	if e.Caller != nil {
		group.Go(func() error { return e.Caller.Watchdog(ctx) })
	}
	if e.models != nil {
		group.Go(func() error { return e.models.watch(ctx) })
	}
	if e.modified != nil {
		group.Go(func() error { return e.modified.watch(ctx) })
	}
	if e.network != nil {
		group.Go(func() error { return e.network.Watchdog(ctx) })
	}
	if e.scorer != nil {
		group.Go(func() error { return e.scorer.Watchdog(ctx) })
	}
	if e.Sources != nil {
		group.Go(func() error {
			e.Sources.Watch(ctx, sourcesInterval, log)
			return nil
		})
	}
	err = group.Wait()
	if closeErr := out.close(ctx); err == nil {
		err = closeErr
	}
	return err
}

func (p *Processor) setLive(stage string, live bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live[stage] = live
}

// Ready says which stage has no place in its group yet; nil when all have.
func (p *Processor) Ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, stage := range p.engines.stages {
		if !p.live[stage] {
			return fmt.Errorf("the %s stage waits for its consumer group", stage)
		}
	}
	return nil
}
