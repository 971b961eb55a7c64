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
	partitions, err := p.partitions(ctx)
	if err != nil {
		return err
	}
	runs := newRunDirectory()
	flow := p.flow(partitions, runs)
	out, err := p.open(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, f := range flow {
		if !slices.Contains(p.engines.stages, f.stage) {
			continue
		}
		cfg := p.member(f, out) // makes the handlers one after the other
		group.Go(func() error { return p.work(ctx, f.stage, cfg) })
	}
	p.watch(ctx, group, runs)
	err = group.Wait()
	if closeErr := out.close(ctx); err == nil {
		err = closeErr
	}
	return err
}

// partitions are the numbers of partitions of the topics that stages write to by key.
func (p *Processor) partitions(ctx context.Context) (map[string]int32, error) {
	t := p.cfg.Topics
	topics := []string{t.Reads, t.Calls, t.Variants}
	if p.engines.Watch != nil {
		topics = append(topics, t.Watch, t.Alerts)
	}
	if p.engines.methylation {
		topics = append(topics, t.Methylation)
	}
	partitions := make(map[string]int32)
	for _, topic := range topics {
		n, err := p.client.Partitions(ctx, topic)
		if err != nil {
			return nil, err
		}
		partitions[topic] = int32(n)
	}
	return partitions, nil
}

// flowing is a stage, and the topic that it reads.
type flowing struct {
	stage string
	input string
	start func() stream.NewHandler
}

// flow is the picture of all stages.
func (p *Processor) flow(partitions map[string]int32, runs *runDirectory) []flowing {
	t, e, m, log := p.cfg.Topics, p.engines, p.cfg.Metrics, p.cfg.Logger

	// signal ─▶ adaptive ─▶ decisions                                                       (with targets)
	// signal ─▶ basecall ─▶ reads ─▶ variant ─▶ calls ─▶ annotate ─▶ variants
	// called ─▶ align ───────┤                              └─▶ watch ─▶ watch ─▶ alerts   (with panels)
	//                        └─▶ methylate ─▶ methylation                                  (with --methylation)
	//                                └─▶ watch                                             (with panels that ask for it)
	return []flowing{
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
}

// member is a membership in a stage's group.
func (p *Processor) member(f flowing, out output) kafka.GroupConfig {
	cfg := kafka.GroupConfig{
		Group: p.cfg.Group + "-" + f.stage, Topics: []string{f.input}, NewHandler: f.start(),
		Delivery: p.cfg.Stream.Delivery, Transactions: out.transactions, Producer: out.producer,
		State:          kafka.StateConfig{Topic: p.cfg.Topics.State, Interval: p.cfg.Stream.SnapshotInterval},
		CommitInterval: p.cfg.Stream.CommitInterval, DrainTimeout: p.cfg.Stream.DrainTimeout, SessionTimeout: p.cfg.Stream.SessionTimeout,
		Memberships:   p.cfg.Memberships,
		MaxUnresolved: p.cfg.Stream.MaxUnresolved, MaxUnresolvedBytes: p.cfg.Stream.MaxUnresolvedBytes,
		OnAssigned: func(assigned, _ int) { p.setLive(f.stage, assigned >= 0) },
	}
	if f.stage == adaptivestage.Name {
		cfg = prompt(cfg, out.prompt)
	}
	return cfg
}

// work is a member of a stage's group until ctx ends.
func (p *Processor) work(ctx context.Context, stage string, cfg kafka.GroupConfig) error {
	err := kafka.RunGroup(ctx, p.client, cfg)
	if permanent, is := errors.AsType[*stream.Permanent](err); is {
		err = permanent.Err // which record it was found at says nothing of why
	}
	if err != nil {
		return fmt.Errorf("%s stage: %w", stage, err)
	}
	return nil
}

// watch starts what stages need beside them: models, sources and runs that change, and devices that may hang.
func (p *Processor) watch(ctx context.Context, group *errgroup.Group, runs *runDirectory) {
	e, log := p.engines, p.cfg.Logger
	if e.deciders != nil {
		group.Go(func() error { return runs.follow(ctx, p.client, p.cfg.Topics.Runs, log) })
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
