package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/pipeline"
	"github.com/porestream/porestream/internal/processor"
	"github.com/porestream/porestream/internal/tracing"
	"github.com/porestream/porestream/monitor/ops"
)

// watchingConfig holds the settings of pore bench watching.
type watchingConfig struct {
	engines    processor.Flags
	log        cli.LogFlags
	rounds     int
	sample     float64
	partitions int
	json       bool
}

func benchWatchingCommand() *cobra.Command {
	var cfg watchingConfig
	cmd := &cobra.Command{
		Use:   "watching --ref FASTA [--gff GFF3] SIGNAL...",
		Short: "Measure what watching a run costs",
		Long: `Plays a recording through the whole pipeline, as pore run --pace max does, in turns: unwatched, and with everything
that watches it: metrics scraped every second, the live page with a browser's connection, and traces sent to a receiver.
Broker, scraper, browser and receiver are in this process too, so what they take counts against watching.`,
		Example: "  pore bench watching --ref ref.fa --gff genes.gff3 reads.pod5",
		Args:    cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cfg.rounds < 1 {
				return cli.Usagef("--rounds %d: at least one is needed", cfg.rounds)
			}
			report, err := benchWatching(cmd.Context(), &cfg, args)
			if err != nil {
				return err
			}
			if cfg.json {
				return json.NewEncoder(os.Stdout).Encode(report)
			}
			report.print(os.Stdout)
			return nil
		},
	}
	flags := cmd.Flags()
	cfg.engines.Register(flags)
	cfg.log.Register(flags, slog.LevelWarn)
	flags.IntVar(&cfg.rounds, "rounds", 5, "pairs of runs, one unwatched and one watched; the first pair is not counted")
	flags.Float64Var(&cfg.sample, "trace-sample", 0.01, "share of the reads that are traced")
	flags.IntVar(&cfg.partitions, "partitions", 4, "partitions of the topics")
	flags.BoolVar(&cfg.json, "json", false, "print JSON")
	return cmd
}

// watchingRun is one run.
type watchingRun struct {
	Watched          bool    `json:"watched"`
	SamplesPerSecond float64 `json:"samples_per_second"`
	CPUSeconds       float64 `json:"cpu_seconds"`
	Scrapes          int64   `json:"scrapes"`
	PageEvents       int64   `json:"page_events"`
	Spans            int64   `json:"spans"`
}

// watchingReport is what pore bench watching prints.
type watchingReport struct {
	Runs []watchingRun `json:"runs"`
	// Throughput and CPU compare watched runs with unwatched ones, pair by pair:
	// samples per second, and samples per second on the processor.
	Throughput spread `json:"throughput_of_unwatched"`
	CPU        spread `json:"throughput_per_cpu_of_unwatched"`
	Page       bool   `json:"page"` // whether there was a live page to watch
}

// spread is the middle of some figures, with the least and the greatest of them.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spreadOf(list []float64) spread {
	list = slices.Sorted(slices.Values(list))
	n := len(list)
	return spread{(list[(n-1)/2] + list[n/2]) / 2, list[0], list[n-1]}
}

func (s spread) String() string { return fmt.Sprintf("%.3f (%.3f to %.3f)", s.Median, s.Min, s.Max) }

func (r *watchingReport) print(w io.Writer) {
	for _, run := range r.Runs {
		name := "unwatched"
		if run.Watched {
			name = "watched"
		}
		fmt.Fprintf(w, "%-10s %10.0f samples/s  %6.2f s of CPU  %4d scrapes  %5d page events  %6d spans\n",
			name, run.SamplesPerSecond, run.CPUSeconds, run.Scrapes, run.PageEvents, run.Spans)
	}
	page := ""
	if !r.Page {
		page = ", without a page"
	}
	fmt.Fprintf(w, "watched, of unwatched%s: %v of the throughput, %v by CPU time\n", page, r.Throughput, r.CPU)
}

// benchWatching runs pairs, each in another order than the one before, as machines
// slow down when they get warm.
func benchWatching(ctx context.Context, cfg *watchingConfig, paths []string) (*watchingReport, error) {
	report := new(watchingReport)
	var throughput, cpu []float64
	for round := range cfg.rounds + 1 {
		var pair [2]watchingRun // unwatched, watched
		for turn := range 2 {
			which := (round + turn) % 2
			run, err := benchWatchingRun(ctx, cfg, paths, which == 1)
			if err != nil {
				return nil, err
			}
			pair[which] = run
		}
		if round == 0 {
			continue // files and code were not in memory
		}
		report.Runs = append(report.Runs, pair[0], pair[1])
		report.Page = report.Page || pair[1].PageEvents > 0
		throughput = append(throughput, pair[1].SamplesPerSecond/pair[0].SamplesPerSecond)
		cpu = append(cpu, pair[0].CPUSeconds/pair[1].CPUSeconds)
	}
	report.Throughput, report.CPU = spreadOf(throughput), spreadOf(cpu)
	return report, nil
}

// pageTokenVariable is where the live page takes its token from.
const pageTokenVariable = "PORESTREAM_PAGE_TOKEN"

func benchWatchingRun(ctx context.Context, cfg *watchingConfig, paths []string, watched bool) (r watchingRun, err error) {
	logger, err := cfg.log.Logger(os.Stderr)
	if err != nil {
		return r, err
	}
	opts, err := cfg.engines.Options(nil)
	if err != nil {
		return r, err
	}
	registry := ops.NewRegistry(cli.Version)
	run := pipeline.Config{Signal: paths, Partitions: cfg.partitions, Processors: 1, Engines: opts, Registry: registry, Logger: logger}
	var watch watching
	r.Watched = watched
	var observers observers
	if watched {
		token := ops.NewToken()
		if err := os.Setenv(pageTokenVariable, token.Secret()); err != nil {
			return r, err
		}
		receiver, endpoint, stop, err := receiveSpans(ctx)
		if err != nil {
			return r, err
		}
		defer stop()
		tracer, stopTracing, err := (&tracing.Flags{Endpoint: endpoint, Sample: cfg.sample}).Start(ctx, "pore", registry, logger)
		if err != nil {
			return r, err
		}
		run.Tracer = tracer
		defer func() { stopTracing(); r.Spans = receiver.spans.Load() }()
		observing, end := context.WithCancel(ctx)
		defer func() {
			end()
			observers.done.Wait()
			r.Scrapes, r.PageEvents = observers.scrapes.Load(), observers.events.Load()
		}()
		watch = watching{listen: "127.0.0.1:0", onListen: func(addr string) {
			observers.done.Go(func() { observers.scrape(observing, "http://"+addr+"/metrics") })
			observers.done.Go(func() { observers.follow(observing, "http://"+addr+"/api/events", token) })
		}}
	}
	before := cpuTime()
	result, err := runPipeline(ctx, run, cli.KafkaFlags{Replication: 1}, watch)
	if err != nil {
		return r, err
	}
	r.CPUSeconds = (cpuTime() - before).Seconds()
	r.SamplesPerSecond = result.Summary.SamplesPerSecond
	return r, nil
}

// cpuTime is the processor time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// observers watch a run as Prometheus and a browser do.
type observers struct {
	done            sync.WaitGroup
	scrapes, events atomic.Int64
}

// scrape asks for metrics every second until ctx ends.
func (o *observers) scrape(ctx context.Context, url string) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if resp, err := ask(ctx, url, ops.Token{}); err == nil {
			if n, _ := io.Copy(io.Discard, resp.Body); n > 0 && resp.StatusCode == http.StatusOK {
				o.scrapes.Add(1)
			}
			resp.Body.Close()
		}
	}
}

// follow reads the live page's events until ctx ends. The page is there a moment after
// the address is listened on.
func (o *observers) follow(ctx context.Context, url string, token ops.Token) {
	for ctx.Err() == nil {
		if resp, err := ask(ctx, url, token); err == nil {
			if resp.StatusCode == http.StatusOK {
				o.count(resp.Body)
			}
			resp.Body.Close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// count counts events until they end.
func (o *observers) count(events io.Reader) {
	buf := make([]byte, 64<<10)
	for {
		n, err := events.Read(buf)
		// An event ends with an empty line.
		for i := 1; i < n; i++ {
			if buf[i] == '\n' && buf[i-1] == '\n' {
				o.events.Add(1)
			}
		}
		if err != nil {
			return
		}
	}
}

func ask(ctx context.Context, url string, token ops.Token) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	if !token.IsZero() {
		req.Header.Set("Authorization", "Bearer "+token.Secret())
	}
	return http.DefaultClient.Do(req)
}

// spanCounter is a receiver of traces that counts them.
type spanCounter struct {
	collector.UnimplementedTraceServiceServer
	spans atomic.Int64
}

// Export counts spans.
func (c *spanCounter) Export(_ context.Context, req *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	for _, of := range req.GetResourceSpans() {
		for _, s := range of.GetScopeSpans() {
			c.spans.Add(int64(len(s.GetSpans())))
		}
	}
	return new(collector.ExportTraceServiceResponse), nil
}

// receiveSpans starts a receiver of traces on this machine.
func receiveSpans(ctx context.Context) (*spanCounter, string, func(), error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", nil, fmt.Errorf("listening for spans: %w", err)
	}
	server, counter := grpc.NewServer(), new(spanCounter)
	collector.RegisterTraceServiceServer(server, counter)
	var done sync.WaitGroup
	done.Go(func() {
		if err := server.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			slog.Warn("the receiver of spans is gone", "err", err)
		}
	})
	return counter, "http://" + listener.Addr().String(), func() { server.Stop(); done.Wait() }, nil
}
