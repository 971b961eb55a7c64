package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/porestream/porestream/ingest/minknow/minknowsim"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/embedded"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streamtest"
)

const (
	// sample is what the protocol says is sequenced.
	sample = "lambda"
	// partitions is how many the topics have.
	partitions = 3
	// startWithin and endWithin are how long the services may take to be ready, and
	// to have done with what was played.
	startWithin = 2 * time.Minute
	endWithin   = 10 * time.Minute
)

// setting is what a run is played in: a folder of its own, a reference, and a broker with topics.
type setting struct {
	dir, ref string
	topics   stream.Topics
	broker   *embedded.Broker
	client   *kafka.Client
}

// prepare makes a setting. The caller closes it.
func prepare(ctx context.Context, cfg *config) (_ *setting, err error) {
	s := &setting{topics: stream.NewTopics("")}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.dir, err = os.MkdirTemp("", "porestream-live-"); err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	if s.ref, err = cfg.reference(); err != nil {
		return nil, err
	}
	if s.broker, err = embedded.Start(embedded.Config{DataDir: filepath.Join(s.dir, "broker")}); err != nil {
		return nil, err
	}
	if s.client, err = kafka.Connect(ctx, kafka.Config{Brokers: []string{s.broker.Addr()}}); err != nil {
		return nil, err
	}
	return s, s.client.EnsureTopics(ctx, s.topics.Settings(partitions), 1)
}

// close ends the broker and removes the folder.
func (s *setting) close() error {
	if s.client != nil {
		s.client.Close()
	}
	if s.broker != nil {
		s.broker.Close()
	}
	return os.RemoveAll(s.dir)
}

// play plays the recording and watches.
func play(ctx context.Context, cfg config, stdout io.Writer) (_ *observation, err error) {
	set, err := prepare(ctx, &cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, set.close()) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sim, err := startSimulator(ctx, cfg, set.dir)
	if err != nil {
		return nil, err
	}
	defer sim.Kill()

	// The run begins when ingest asks for its signal, so everybody else is there
	// before.
	processorPage, ingestPage, err := addresses()
	if err != nil {
		return nil, err
	}
	processor, err := startProcessor(cancel, cfg, set, processorPage)
	if err != nil {
		return nil, err
	}
	defer processor.kill()
	if err := await(ctx, "the processor", processorPage); err != nil {
		return nil, err
	}
	consumer, err := start(cancel, cfg, "pore", "consume", "--brokers", set.broker.Addr(), "--format", "json")
	if err != nil {
		return nil, err
	}
	defer consumer.kill()
	ingest, err := startIngest(cancel, cfg, set, sim, ingestPage)
	if err != nil {
		return nil, err
	}
	defer ingest.kill()
	layout, err := begun(ctx, sim)
	if err != nil {
		return nil, err
	}
	lasts := duration(layout)
	if !cfg.json {
		fmt.Fprintf(stdout, "Sequencing %d reads of %s over %d channels, in %.1f minutes.\n", len(layout.Strands), cfg.data, cfg.channels, lasts.Minutes())
	}
	seen := &observation{layout: layout}
	if err := seen.watch(ctx, set, consumer, lasts+endWithin); err != nil {
		return nil, err
	}
	if seen.counted, err = metrics(ctx, ingestPage); err != nil {
		return nil, err
	}
	report, err := sim.Report()
	if err != nil {
		return nil, err
	}
	seen.dropped = report.Dropped
	for _, s := range []*service{ingest, processor} {
		if err := s.stop(); err != nil {
			return nil, err
		}
	}
	if seen.losses, err = countedLosses(ingest.stderr.String()); err != nil {
		return nil, err
	}
	if err := seen.readSignal(ctx, set.client, set.topics.Signal); err != nil {
		return nil, err
	}
	seen.called, err = finalCalls(ctx, cfg, set)
	return seen, err
}

func startProcessor(cancel context.CancelCauseFunc, cfg config, set *setting, page string) (*service, error) {
	args := []string{"--brokers", set.broker.Addr(), "--ref", set.ref, "--gff", cmp.Or(cfg.genes, cfg.file("genes.gff3")), "--device", cfg.device, "--listen", page}
	if len(cfg.networks) > 0 {
		args = append(args, "--network", strings.Join(cfg.networks, ","))
	}
	return start(cancel, cfg, "processor", args...)
}

func startIngest(cancel context.CancelCauseFunc, cfg config, set *setting, sim *minknowsim.Sim, page string) (*service, error) {
	return start(cancel, cfg, "ingest", "minknow", "--brokers", set.broker.Addr(), "--host", "127.0.0.1", "--port", strconv.Itoa(sim.Port),
		"--minknow-ca", filepath.Join(set.dir, "certs", "ca.crt"), "--listen", page, "--log-level", "debug")
}

// duration is the time from a run's begin to the end of its last read.
func duration(layout minknowsim.Layout) time.Duration {
	var last uint64
	for _, s := range layout.Strands {
		last = max(last, s.End)
	}
	return layout.At(last).Sub(layout.At(0))
}

// watch follows the topics until the run has come to its end and the consumer, which it then stops, has printed all revisions.
func (o *observation) watch(ctx context.Context, set *setting, consumer *service, within time.Duration) error {
	watched, stop := context.WithTimeoutCause(ctx, within, errors.New("the run has not come to its end in time"))
	defer stop()
	var group errgroup.Group
	var printed atomic.Int64
	group.Go(func() error { return o.readConsumer(consumer.stdout, &printed) })
	revisions, err := o.follow(watched, set.client, set.topics)
	for err == nil && printed.Load() < revisions {
		err = pause(watched)
	}
	if err != nil {
		return fmt.Errorf("following the topics: %w", cmp.Or(context.Cause(watched), err))
	}
	if err := consumer.stop(); err != nil {
		return err
	}
	return group.Wait()
}

// finalCalls returns what pore consume says of the run at its end: the alleles that passed.
func finalCalls(ctx context.Context, cfg config, set *setting) ([]allele, error) {
	result := exec.CommandContext(ctx, filepath.Join(cfg.bin, "pore"), "consume", "--brokers", set.broker.Addr(), "--format", "vcf", "--ref", set.ref)
	result.Stderr = os.Stderr
	text, err := result.Output()
	if err != nil {
		return nil, fmt.Errorf("reading the calls: %w", err)
	}
	return passed(bytes.NewReader(text))
}

func startSimulator(ctx context.Context, cfg config, dir string) (*minknowsim.Sim, error) {
	index, err := signal.NewIndex(ctx, []string{cfg.file("reads.pod5")})
	if err != nil {
		return nil, err
	}
	defer index.Close()
	reads, err := os.Create(filepath.Join(dir, "reads.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("writing reads for the simulator: %w", err)
	}
	defer reads.Close()
	if err := minknowsim.WriteReads(reads, index, 0); err != nil {
		return nil, err
	}
	authority, err := streamtest.NewAuthority()
	if err != nil {
		return nil, err
	}
	id, err := authority.Issue("localhost", 24*time.Hour)
	if err != nil {
		return nil, err
	}
	if err := minknowsim.WriteCerts(filepath.Join(dir, "certs"), id.CAPEM, id.CertPEM, id.KeyPEM); err != nil {
		return nil, err
	}
	return minknowsim.Start(minknowsim.Config{
		Python: cfg.python, Reads: reads.Name(), Certs: filepath.Join(dir, "certs"), Dir: filepath.Join(dir, "sim"), Log: os.Stderr,
		Args: []string{
			"--channels", strconv.Itoa(cfg.channels), "--pace", fmt.Sprint(cfg.pace), "--drop", fmt.Sprint(cfg.drop), "--seed", strconv.Itoa(cfg.seed),
			"--chunk", fmt.Sprint(cfg.chunk.Seconds()), "--sample", sample, "--interval", "0.05",
		},
	})
}

// begun waits until the simulator's run has begun, and says what it plays.
func begun(ctx context.Context, sim *minknowsim.Sim) (minknowsim.Layout, error) {
	for {
		layout, err := sim.Layout()
		if err != nil || layout.Started > 0 {
			return layout, err
		}
		if err := pause(ctx); err != nil {
			return layout, fmt.Errorf("waiting for the run: %w", err)
		}
	}
}

// pause lets some time pass before somebody is asked again.
func pause(ctx context.Context) error {
	select {
	case <-time.After(100 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// addresses are two that nobody listens on.
func addresses() (a, b string, err error) {
	var free [2]string
	for i := range free {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", "", fmt.Errorf("finding a free port: %w", err)
		}
		defer l.Close()
		free[i] = l.Addr().String()
	}
	return free[0], free[1], nil
}

// service is a process of Porestream's.
type service struct {
	name   string
	cmd    *exec.Cmd
	stdout io.Reader
	stderr bytes.Buffer
	err    error
	exited chan struct{}
}

// start starts a process. One that fails by itself ends everything, through
// cancel, with what it said last.
func start(cancel context.CancelCauseFunc, cfg config, name string, args ...string) (*service, error) {
	s := &service{name: name, cmd: exec.Command(filepath.Join(cfg.bin, name), args...), exited: make(chan struct{})} //nolint:noctx // it is stopped in order
	s.cmd.Env = append(os.Environ(), "MINKNOW_API_USE_LOCAL_TOKEN=0")
	s.cmd.Stderr = &s.stderr
	out, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	s.stdout, s.cmd.Stdout = out, in
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	in.Close()
	go func() {
		defer close(s.exited)
		err := s.cmd.Wait()
		last := s.stderr.String()
		last = last[strings.LastIndex(strings.TrimSuffix(last, "\n"), "\n")+1:]
		if s.cmd.ProcessState.ExitCode() > 0 && !strings.HasSuffix(last, ": interrupted\n") {
			s.err = fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(last))
			cancel(s.err)
		}
	}()
	return s, nil
}

// stop asks a process to stop and says whether it did so in order.
func (s *service) stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	<-s.exited
	return s.err
}

// kill ends a process at once.
func (s *service) kill() {
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.exited
}

// await waits until a service is ready.
func await(ctx context.Context, what, page string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startWithin, errors.New("it is not ready in time"))
	defer cancel()
	for {
		if body, err := get(ctx, page, "/readyz"); err == nil {
			body.Close()
			return nil
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
	}
}

// get asks a service for one of its pages.
func get(ctx context.Context, address, path string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("%s%s: %s", address, path, resp.Status)
	}
	return resp.Body, nil
}

// metrics reads what ingest has counted.
func metrics(ctx context.Context, page string) (c counters, err error) {
	body, err := get(ctx, page, "/metrics")
	if err != nil {
		return c, fmt.Errorf("reading ingest's metrics: %w", err)
	}
	defer body.Close()
	sums := map[string]*float64{
		"porestream_ingest_minknow_gaps_total": &c.Gaps, "porestream_ingest_minknow_missing_samples_total": &c.Samples,
		"porestream_ingest_minknow_refused_chunks_total": &c.Refused, "porestream_ingest_lost_samples_total": &c.Lost,
	}
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		series, value, _ := strings.Cut(lines.Text(), " ")
		if _, v, labelled := strings.Cut(lines.Text(), "} "); labelled {
			value = v
		}
		name, _, _ := strings.Cut(series, "{")
		if sum := sums[name]; sum != nil {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return c, fmt.Errorf("reading ingest's metrics: %w", err)
			}
			*sum += v
		}
	}
	return c, lines.Err()
}

// channelLine is what ingest logs of a channel that lacks signal.
var channelLine = regexp.MustCompile(`msg="missing of a channel".* channel=(\d+) gaps=(\d+) samples=(\d+) gaps_between_reads=(\d+) samples_between_reads=(\d+)`)

// countedLosses reads ingest's log.
func countedLosses(log string) (map[uint32]loss, error) {
	channels := make(map[uint32]loss)
	for _, m := range channelLine.FindAllStringSubmatch(log, -1) {
		var n [5]uint64
		for i := range n {
			var err error
			if n[i], err = strconv.ParseUint(m[i+1], 10, 64); err != nil {
				return nil, fmt.Errorf("reading ingest's log: %w", err)
			}
		}
		channels[uint32(n[0])] = loss{Gaps: n[1] + n[3], Samples: n[2] + n[4]}
	}
	return channels, nil
}
