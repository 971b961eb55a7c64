package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	basecallstage "github.com/porestream/porestream/basecall/stage"
	"github.com/porestream/porestream/chaos/check"
	"github.com/porestream/porestream/chaos/history"
	"github.com/porestream/porestream/chaos/nemesis"
	"github.com/porestream/porestream/chaos/observe"
	"github.com/porestream/porestream/chaos/schedule"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
)

// harness is a chaos run in progress.
type harness struct {
	cfg        *config
	shape      schedule.Shape
	dir        string // history and logs
	work       string // everything else
	log        *history.Log
	cluster    *cluster
	recordings []recording
	partitions map[string]int32
	observer   *observe.Observer
	spool      *spoolDisk // nil: faults of the spool's disk can't be injected here
	env        []string   // of the services, besides the harness's own

	processors, ingests []*service

	mu          sync.Mutex
	claimed     map[*service]bool
	extra       []*service // joined
	joined      int
	brokersDown int
}

// reference is the outcome without faults of a set of recordings.
type reference struct {
	recordings []recording
	contents   check.Contents
}

// runOnce runs one schedule and checks it. ref spares it the run without faults; env is for the services. History and logs go to dir.
func runOnce(ctx context.Context, cfg config, drawn schedule.Schedule, dir string, ref *reference, env []string, logger *slog.Logger) (_ *verdict, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the folder for the history: %w", err)
	}
	work, err := os.MkdirTemp("", "porestream-chaos-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the brokers: %w", err)
	}
	if !cfg.keep {
		defer os.RemoveAll(work)
	}
	if ref == nil {
		began := time.Now()
		if ref, err = newReference(ctx, &cfg, work, drawn.Shape); err != nil {
			return nil, err
		}
		fmt.Printf("without faults: %d reads in %.0f s\n", countReads(ref.recordings), time.Since(began).Seconds())
	}
	file, err := os.Create(filepath.Join(dir, "history.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("beginning the history: %w", err)
	}
	defer file.Close()
	h := &harness{
		cfg: &cfg, shape: drawn.Shape, dir: dir, work: work, recordings: ref.recordings, claimed: make(map[*service]bool), env: env,
		partitions: map[string]int32{"signal": int32(drawn.Shape.Signal), "reads": int32(drawn.Shape.Reads),
			"calls": int32(drawn.Shape.Calls), "variants": int32(drawn.Shape.Variants), "methylation": int32(drawn.Shape.Methylation)},
	}
	if h.cluster, err = startCluster(ctx, &cfg, work); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.cluster.stop()) }()
	h.log = history.NewLog(file, time.Now)
	h.log.Add(history.Event{Kind: history.RunBegins, Name: strings.Join(os.Args, " "), Detail: drawn.Shape.String()})
	for _, f := range drawn.Faults {
		h.log.Add(history.Event{Kind: history.Scheduled, Fault: f.Number, Name: string(f.Kind), Detail: f.String()})
	}
	if err := h.disturb(ctx, drawn.Faults, logger); err != nil {
		return nil, err
	}
	return h.verify(ctx, ref, logger)
}

func newReference(ctx context.Context, cfg *config, work string, shape schedule.Shape) (*reference, error) {
	source := cfg.recording
	if cfg.diploid {
		var err error
		if source, err = simulated(ctx, cfg, work); err != nil {
			return nil, err
		}
	}
	recordings, err := deal(ctx, source, work, shape.Runs, shape.Samples, cfg.reads)
	if err != nil {
		return nil, err
	}
	contents, err := undisturbed(ctx, cfg, work, recordings)
	if err != nil {
		return nil, err
	}
	return &reference{recordings, contents}, nil
}

// simulated records a diploid sample, of which every site that is planted has two alleles.
func simulated(ctx context.Context, cfg *config, dir string) (string, error) {
	out := filepath.Join(dir, "diploid")
	_, err := output(ctx, filepath.Join(cfg.bin, "pore"), "simulate", "--ref", cfg.reference, "--ploidy", "2", "--variants", "snp=80,indel=0,het=1",
		"--depth", "16", "--length", "6000", "--channels", "24", "--seed", fmt.Sprint(cfg.seed), "--out", out)
	if err != nil {
		return "", fmt.Errorf("simulating a diploid sample: %w", err)
	}
	return filepath.Join(out, "reads.pod5"), nil
}

func countReads(recordings []recording) int {
	n := 0
	for _, r := range recordings {
		n += r.reads
	}
	return n
}

// disturb starts the services, lets the faults loose and waits until the run is over, or has had its time.
func (h *harness) disturb(ctx context.Context, faults []schedule.Fault, logger *slog.Logger) error {
	if err := h.makeTopics(ctx, logger); err != nil {
		return err
	}
	groups := make(map[string]string)
	for _, s := range stages {
		groups[s.group()] = s.input
	}
	var err error
	if h.observer, err = observe.New(h.cluster.observers(), h.partitions, groups, h.log); err != nil {
		return err
	}
	if h.spool, err = newSpoolDisk(filepath.Join(h.work, "spool"), spoolBytes); err != nil {
		h.spool = nil
		fmt.Printf("no fault of the spool's disk: %v\n", err)
	} else {
		defer h.spool.close()
	}
	watching, stopWatching := context.WithCancelCause(ctx)
	var observing sync.WaitGroup
	observing.Go(func() { h.observer.Run(watching, observeEvery) })
	defer observing.Wait()
	defer stopWatching(errStopped)
	// Whatever becomes of the run, no process of it may stay.
	defer h.stopServices()
	if err := h.startServices(); err != nil {
		return err
	}
	for len(h.observer.Held()) == 0 { // until signal flows
		if !sleep(ctx, observeEvery) {
			return ctx.Err()
		}
	}
	flowing := time.Now()
	if err := h.faults(ctx, faults); err != nil {
		return err
	}
	h.log.Add(history.Event{Kind: history.Healed})
	// What is left of the signal comes at its own pace.
	until := flowing.Add(h.cfg.length).Add(2 * h.cfg.recover)
	if now := time.Now().Add(2 * h.cfg.recover); until.Before(now) {
		until = now
	}
	return h.await(ctx, until)
}

// spoolBytes is the size of the disk for the spools of all ingests.
const spoolBytes = 32 << 20

// observeEvery is how often the groups are asked.
const observeEvery = 250 * time.Millisecond

// calm is for how long nothing may have happened when a run is said to be over.
const calm = 2 * time.Second

// await waits until all signal was played and processed.
func (h *harness) await(ctx context.Context, until time.Time) error {
	var since time.Time
	played := false
	for time.Now().Before(until) {
		if !sleep(ctx, observeEvery) {
			return ctx.Err()
		}
		if !played && !slices.ContainsFunc(h.ingests, func(s *service) bool { return !s.finished() }) {
			played = true
			h.log.Add(history.Event{Kind: history.SignalEnds})
		}
		switch {
		case !played || !h.observer.CaughtUp():
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > calm:
			h.log.Add(history.Event{Kind: history.RunEnds})
			return nil
		}
	}
	return nil
}

func (h *harness) makeTopics(ctx context.Context, logger *slog.Logger) error {
	client, err := kafka.Connect(ctx, kafka.Config{Brokers: h.cluster.observers().Addrs, Logger: logger})
	if err != nil {
		return err
	}
	defer client.Close()
	topics := stream.NewTopics("")
	settings := append(topics.Settings(4), topics.MethylationSettings(4)...)
	for i := range settings {
		if n, exists := h.partitions[settings[i].Name]; exists {
			settings[i].Partitions = int(n)
		}
	}
	return client.EnsureTopics(ctx, settings, min(3, max(1, h.cfg.brokers)))
}

// startServices starts the processors and an ingest for every run.
func (h *harness) startServices() error {
	for i := range h.shape.Processors {
		h.processors = append(h.processors, h.newProcessor(fmt.Sprintf("processor-%d", i+1)))
	}
	for i, r := range h.recordings {
		h.ingests = append(h.ingests, h.newIngest(fmt.Sprintf("ingest-%d", i+1), r))
	}
	for _, s := range append(slices.Clone(h.processors), h.ingests...) {
		if err := s.start(); err != nil {
			return err
		}
	}
	return nil
}

// deviceTimeout is short, so that a device that hangs is noticed while the fault lasts.
const deviceTimeout = 5 * time.Second

func (h *harness) newProcessor(name string) *service {
	s := newService(name, h.dir, h.log, append([]string{filepath.Join(h.cfg.bin, "processor"), "--brokers", splitAddrs(h.cluster.services()),
		"--ref", h.cfg.reference, "--gff", h.cfg.genes, "--ort-lib", h.cfg.ort, "--listen", "127.0.0.1:0",
		"--replication", fmt.Sprint(min(3, max(1, h.cfg.brokers))), "--device-timeout", deviceTimeout.String(),
		"--snapshot-interval", "5s", "--partial", "1s", "--session-timeout", h.cfg.session.String(), "--memberships", filepath.Join(h.dir, name+".memberships"), "--drain-timeout", (h.cfg.session / 2).String()}, h.cfg.counting()...)...)
	s.setEnv(append(slices.Clone(h.env), "PORESTREAM_DEVICE_FAULT="+h.deviceFile(name))...)
	h.extra = append(h.extra, s)
	return s
}

func (h *harness) newIngest(name string, r recording) *service {
	// A little faster than needed, so that what faults hold up can be made up for.
	pace := 1.1 * r.length.Seconds() / h.cfg.length.Seconds()
	args := []string{filepath.Join(h.cfg.bin, "ingest"), "--brokers", splitAddrs(h.cluster.services()),
		"--pace", fmt.Sprintf("%.3f", pace), "--listen", "127.0.0.1:0", "--replication", fmt.Sprint(min(3, max(1, h.cfg.brokers))),
		"--transaction-timeout", "15s"}
	if h.spool != nil {
		args = append(args, "--spool", filepath.Join(h.spool.dir, name), "--spool-max", fmt.Sprint(spoolBytes/4))
	}
	s := newService(name, h.dir, h.log, append(args, r.path)...)
	s.setEnv(h.env...)
	return s
}

// stopServices asks all services to stop, at the same time.
func (h *harness) stopServices() {
	var stopping sync.WaitGroup
	h.mu.Lock()
	all := append(slices.Clone(h.extra), h.ingests...)
	h.mu.Unlock()
	for _, s := range all {
		stopping.Go(func() {
			if err := h.stop(s); err != nil {
				h.log.Add(history.Event{Kind: history.Note, Name: s.name, Detail: err.Error()})
			}
		})
	}
	stopping.Wait()
}

// verify reads what the run has left and checks it against the promises.
func (h *harness) verify(ctx context.Context, ref *reference, logger *slog.Logger) (_ *verdict, err error) {
	topics := stream.NewTopics("")
	// An id that is stolen after its holder has done all its work is left to the brokers.
	if err := h.cluster.observers().AwaitTransactions(ctx, dataTopics(topics), nemesis.ThiefTimeout+h.cfg.recover/2); err != nil {
		return nil, err
	}
	contents, err := h.cluster.observers().Contents(ctx, topics, dataTopics(topics))
	if err != nil {
		return nil, err
	}
	if h.cluster.apache != nil {
		if contents.Commits, err = h.cluster.observers().Commits(ctx); err != nil {
			return nil, err
		}
	}
	g, err := genome.Load(h.cfg.reference)
	if err != nil {
		return nil, err
	}
	if contents.VCF, err = foldedVCFs(&contents, g, h.partitions["variants"], samplesOf(h.recordings)); err != nil {
		return nil, err
	}
	if contents.Methylation, err = foldedCounts(&contents, g, h.partitions["methylation"]); err != nil {
		return nil, err
	}
	handlers, stop, err := folding(ctx, h.cfg, g, h.partitions, logger)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	recomputed, err := contents.Recompute(ctx, handlers)
	if err != nil {
		return nil, err
	}
	client, err := kafka.Connect(ctx, kafka.Config{Brokers: h.cluster.observers().Addrs, Logger: logger})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	handlers = append(handlers, check.Stage{Name: basecallstage.Name, Input: topics.Signal, New: replaying(h.partitions)})
	states, restored, err := rebuild(ctx, client, &contents, handlers)
	if err != nil {
		return nil, err
	}
	events, err := h.log.Events()
	if err != nil {
		return nil, err
	}
	violations := check.Violations(check.Evidence{
		Run: contents, Reference: ref.contents, History: events, Recomputed: recomputed, States: states,
	}, check.Limits{Stall: h.cfg.recover, FirstOutput: h.cfg.recover})
	return &verdict{violations: violations, events: events, contents: &contents, reads: countReads(h.recordings), restored: restored}, nil
}
