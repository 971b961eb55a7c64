package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/procfs"
	"github.com/spf13/cobra"

	"github.com/porestream/porestream/chaos/history"
	"github.com/porestream/porestream/chaos/observe"
	"github.com/porestream/porestream/chaos/soak"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
)

// soakConfig is what the command line of a soak asks for.
type soakConfig struct {
	config
	channels, partitions int
	every                time.Duration
	picture              string
}

func soakCommand() *cobra.Command {
	cfg := soakConfig{config: config{brokers: 1}}
	cmd := &cobra.Command{
		Use: "soak [--length D] [--channels N]", Short: "Sequence for a long time without faults and check whether the services stay as they are", Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := cfg.log.Logger(os.Stderr)
			if err != nil {
				return err
			}
			return soaked(cmd.Context(), &cfg, logger)
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&cfg.length, "length", time.Hour, "how long signal flows, by the clock")
	flags.IntVar(&cfg.channels, "channels", 20, "pores that sequence without a break, at the recording's own speed")
	flags.IntVar(&cfg.processors, "processors", 1, "processors")
	flags.IntVar(&cfg.partitions, "partitions", 4, "partitions of each topic")
	flags.DurationVar(&cfg.every, "every", 10*time.Second, "how often to measure")
	flags.StringVar(&cfg.bin, "bin", "bin", "folder with ingest and processor")
	flags.StringVar(&cfg.out, "out", "chaos/out/soak", "folder for logs, and for the picture if it has no place of its own")
	flags.StringVar(&cfg.picture, "picture", "", "file for the picture, in SVG")
	cfg.registerMaterial(flags)
	return cmd
}

// soaked runs a soak and returns an error if something grew, or if not all of the signal was processed soon after its end.
func soaked(ctx context.Context, cfg *soakConfig, logger *slog.Logger) (err error) {
	switch {
	case cfg.lib == "":
		return cli.Usagef("--kafka-lib is required: stream/streamtest/kafka/fetch.sh fetches the jars")
	case cfg.length < time.Minute || cfg.channels < 1 || cfg.processors < 1 || cfg.partitions < 1 || cfg.every < time.Second:
		return cli.Usagef("--length must be at least 1m, --every 1s, and --channels, --processors and --partitions 1")
	}
	if cfg.picture == "" {
		cfg.picture = filepath.Join(cfg.out, "soak.svg")
	}
	if err := os.MkdirAll(cfg.out, 0o755); err != nil {
		return fmt.Errorf("making the folder for the logs: %w", err)
	}
	work, err := os.MkdirTemp("", "porestream-soak-")
	if err != nil {
		return fmt.Errorf("making a folder for the broker: %w", err)
	}
	defer os.RemoveAll(work)
	r, err := stretch(ctx, cfg.recording, work, cfg.channels, cfg.length)
	if err != nil {
		return err
	}
	fmt.Printf("%d reads on %d channels in %.0f min\n", r.reads, cfg.channels, r.length.Minutes())
	brokers, err := startCluster(ctx, &cfg.config, work)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, brokers.stop()) }()

	s := &soaking{cfg: cfg, brokers: brokers}
	series, runErr := s.run(ctx, r, logger)
	if runErr != nil && len(series.Samples) < 2 {
		return runErr
	}
	if err := s.draw(series); err != nil {
		return errors.Join(runErr, err)
	}
	if runErr != nil {
		return runErr
	}
	grew, err := series.Check(soak.DefaultLimits())
	if err != nil {
		return err
	}
	if len(grew) > 0 {
		return fmt.Errorf("not flat: %s; the picture is %s", strings.Join(grew, "; "), cfg.picture)
	}
	last := series.Samples[len(series.Samples)-1]
	fmt.Printf("flat: nothing grew in %.0f min; %.1f M samples basecalled, %.0f/s; the picture is %s\n",
		last.At.Minutes(), last.Called/1e6, last.Called/last.At.Seconds(), cfg.picture)
	return nil
}

// soaking is a soak in progress.
type soaking struct {
	cfg     *soakConfig
	brokers *cluster
	// services are the processors and, last, the ingest; urls are the processors' metrics.
	services []*service
	urls     []string
	observer *observe.Observer
}

// run sequences until all signal is processed and returns what was seen meanwhile, also if it fails.
func (s *soaking) run(ctx context.Context, r recording, logger *slog.Logger) (soak.Series, error) {
	var series soak.Series
	file, err := os.Create(filepath.Join(s.cfg.out, "history.jsonl"))
	if err != nil {
		return series, fmt.Errorf("beginning the history: %w", err)
	}
	defer file.Close()
	log := history.NewLog(file, time.Now)
	if err := s.makeTopics(ctx, logger, log); err != nil {
		return series, err
	}
	watching, stopWatching := context.WithCancelCause(ctx)
	var observing sync.WaitGroup
	observing.Go(func() { s.observer.Run(watching, time.Second) })
	defer observing.Wait()
	defer stopWatching(errStopped)
	if err := s.start(r, log); err != nil {
		return series, err
	}
	defer func() {
		if err := s.stop(); err != nil {
			logger.Error("stopping the services", "error", err)
		}
	}()
	for _, service := range s.services {
		series.Processes = append(series.Processes, service.name)
	}
	for len(s.observer.Held()) == 0 { // until signal flows
		if !sleep(ctx, observeEvery) {
			return series, ctx.Err()
		}
	}
	began := time.Now()
	for ingest := s.services[len(s.services)-1]; !ingest.finished(); {
		if !sleep(ctx, s.cfg.every) {
			return series, ctx.Err()
		}
		if time.Since(began) > r.length+catchUp {
			return series, fmt.Errorf("signal of %.0f min is not played after %.0f", r.length.Minutes(), time.Since(began).Minutes())
		}
		sample, err := s.sample(ctx, time.Since(began))
		if err != nil {
			if ingest.finished() { // it ended between two samples
				break
			}
			return series, err
		}
		series.Samples = append(series.Samples, sample)
	}
	ended := time.Now()
	for !s.observer.CaughtUp() {
		if time.Since(ended) > catchUp {
			return series, fmt.Errorf("%d records are not processed %v after the last signal", s.observer.Lag(), catchUp)
		}
		if !sleep(ctx, observeEvery) {
			return series, ctx.Err()
		}
	}
	fmt.Printf("all processed %.1f s after the last signal\n", time.Since(ended).Seconds())
	return series, nil
}

// catchUp is how long the services may take behind the last signal.
const catchUp = time.Minute

// makeTopics makes the topics and an observer of them.
func (s *soaking) makeTopics(ctx context.Context, logger *slog.Logger, log *history.Log) error {
	client, err := kafka.Connect(ctx, kafka.Config{Brokers: s.brokers.observers().Addrs, Logger: logger})
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.EnsureTopics(ctx, stream.NewTopics("").Settings(s.cfg.partitions), 1); err != nil {
		return err
	}
	groups, partitions := make(map[string]string), make(map[string]int32)
	for _, stage := range steady {
		groups[stage.group()] = stage.input
		partitions[stage.input], partitions[stage.output] = int32(s.cfg.partitions), int32(s.cfg.partitions)
	}
	s.observer, err = observe.New(s.brokers.observers(), partitions, groups, log)
	return err
}

// start starts the services.
func (s *soaking) start(r recording, log *history.Log) error {
	addrs := splitAddrs(s.brokers.services())
	for i := range s.cfg.processors {
		listen, err := freeAddress()
		if err != nil {
			return err
		}
		s.urls = append(s.urls, "http://"+listen+"/metrics")
		s.services = append(s.services, newService(fmt.Sprintf("processor-%d", i+1), s.cfg.out, log, filepath.Join(s.cfg.bin, "processor"),
			"--brokers", addrs, "--ref", s.cfg.reference, "--gff", s.cfg.genes, "--ort-lib", s.cfg.ort, "--listen", listen, "--replication", "1"))
	}
	s.services = append(s.services, newService("ingest", s.cfg.out, log, filepath.Join(s.cfg.bin, "ingest"),
		"--brokers", addrs, "--pace", "1", "--listen", "127.0.0.1:0", "--replication", "1", r.path))
	for _, service := range s.services {
		if err := service.start(); err != nil {
			return errors.Join(err, s.stop())
		}
	}
	return nil
}

func (s *soaking) stop() error {
	var errs []error
	for _, service := range s.services {
		_, err := service.end(syscall.SIGTERM, catchUp)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// freeAddress is an address that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("searching for a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// sample samples all services once.
func (s *soaking) sample(ctx context.Context, at time.Duration) (soak.Sample, error) {
	sample := soak.Sample{At: at, Lag: s.observer.Lag()}
	for _, service := range s.services {
		held, err := service.holds()
		if err != nil {
			return sample, err
		}
		sample.Processes = append(sample.Processes, held)
	}
	for _, url := range s.urls {
		families, err := scrape(ctx, url)
		if err != nil {
			return sample, err
		}
		for _, m := range families["porestream_infer_samples_total"].GetMetric() {
			sample.Called += m.GetCounter().GetValue()
		}
	}
	return sample, nil
}

// holds is what the process holds. A soak has no faults: a process that does not run, or not for the first time, is an error.
func (s *service) holds() (soak.Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil || s.starts != 1 {
		return soak.Process{}, fmt.Errorf("%s has ended: %s has what it said", s.name, s.file)
	}
	p, err := procfs.NewProc(s.cmd.Process.Pid)
	if err != nil {
		return soak.Process{}, fmt.Errorf("reading %s: %w", s.name, err)
	}
	status, err := p.NewStatus()
	if err != nil {
		return soak.Process{}, fmt.Errorf("reading %s: %w", s.name, err)
	}
	descriptors, err := p.FileDescriptorsLen()
	if err != nil {
		return soak.Process{}, fmt.Errorf("reading %s: %w", s.name, err)
	}
	// Pages of mapped files, such as recordings, are the kernel's to take back.
	return soak.Process{Resident: int64(status.RssAnon), Descriptors: descriptors}, nil
}

// scrape reads a page of metrics.
func scrape(ctx context.Context, url string) (map[string]*dto.MetricFamily, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("reading metrics of %s: %w", url, err)
	}
	return families, nil
}

// draw writes the picture.
func (s *soaking) draw(series soak.Series) (err error) {
	file, err := os.Create(s.cfg.picture)
	if err != nil {
		return fmt.Errorf("drawing the soak: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	title := fmt.Sprintf("%d channels at the recording's speed, processors: %d, with Apache Kafka, cores: %d, %s",
		s.cfg.channels, s.cfg.processors, runtime.GOMAXPROCS(0), time.Now().Format(time.DateOnly))
	return series.Draw(file, title)
}
