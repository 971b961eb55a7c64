package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/pipeline"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
)

// readsConfig is what the command line asks for.
type readsConfig struct {
	config
	duration, rotate          time.Duration
	barcodes                  int
	format, variants, model   string
	length                    float64
	p50, p99                  time.Duration
	killIngest, killProcessor int
	keep                      string
}

func readsCommand() *cobra.Command {
	var cfg readsConfig
	cmd := &cobra.Command{
		Use:   "reads",
		Short: "Write called reads as MinKNOW does, in real time, and say how soon they have effect on calls",
		Long: `pore simulate folder writes the reads of phage lambda with planted variants, a sample for
each barcode; ingest reads and a processor without a basecalling model follow as
processes of their own over an embedded broker. All of it is checked: each read is on the
topic once, with its bases, and every sample has the bytes that pore call makes of its reads.`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cfg.pace <= 0 || cfg.channels < 1 || cfg.killIngest < 0 || cfg.killProcessor < 0 {
				return cli.Usagef("--pace and --channels are positive, numbers of kills not negative")
			}
			return liveReads(cmd.Context(), &cfg, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.data, "data", filepath.Join("testdata", "lambda"), "folder with the reference and its genes")
	flags.DurationVar(&cfg.duration, "duration", 3*time.Minute, "how long is sequenced, by the run's clock")
	flags.IntVar(&cfg.barcodes, "barcodes", 24, "barcodes")
	flags.IntVar(&cfg.channels, "channels", 512, "channels of the flow cell")
	flags.Float64Var(&cfg.length, "length", 5000, "mean length of molecules in bases")
	flags.Float64Var(&cfg.pace, "pace", 1, "speed by the run's clock")
	flags.StringVar(&cfg.format, "format", "fastq", "fastq, bam, or both, each with all reads")
	flags.DurationVar(&cfg.rotate, "rotate", 30*time.Second, "age at which files are begun anew, by the run's clock")
	flags.StringVar(&cfg.variants, "variants", "snp=40,indel=10", "variants of each sample")
	flags.StringVar(&cfg.model, "variant-model", "", "variant model (default the processor's)")
	flags.IntVar(&cfg.seed, "seed", 1, "what the simulator draws from")
	flags.DurationVar(&cfg.p50, "within", time.Second, "how soon half of the reads must have effect on calls; 0 for no matter")
	flags.DurationVar(&cfg.p99, "within-99", 3*time.Second, "how soon 99 % of the reads must; 0 for no matter")
	flags.IntVar(&cfg.killIngest, "kill-ingest", 0, "times that ingest is killed and started again")
	flags.IntVar(&cfg.killProcessor, "kill-processor", 0, "times that the processor is")
	flags.StringVar(&cfg.keep, "keep", "", "folder for both VCF files of a sample where they differ, and its reads")
	flags.StringVar(&cfg.bin, "bin", "bin", "folder with ingest, processor and pore")
	flags.BoolVar(&cfg.json, "json", false, "print the report as JSON")
	return cmd
}

func liveReads(ctx context.Context, cfg *readsConfig, stdout io.Writer) error {
	seen, err := playReads(ctx, cfg, stdout)
	if err != nil {
		return err
	}
	r := evaluateReads(seen)
	if cfg.json {
		if err := json.NewEncoder(stdout).Encode(r); err != nil {
			return err
		}
	} else {
		r.print(stdout)
	}
	if failures := r.failures(cfg); len(failures) > 0 {
		return errors.New(strings.Join(failures, "; "))
	}
	return nil
}

// readsRun is a run under way.
type readsRun struct {
	*setting
	cfg    *readsConfig
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	seen    *readsSeen
	run     string // its identifier, once it is known
	reads   int    // on the topic of called reads
	running map[string]*service
}

// playReads plays the run and watches.
func playReads(ctx context.Context, cfg *readsConfig, stdout io.Writer) (_ *readsSeen, err error) {
	set, err := prepare(ctx, &cfg.config)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, set.close()) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &readsRun{
		setting: set, cfg: cfg, cancel: cancel, running: make(map[string]*service),
		seen: &readsSeen{
			called: make(map[string][]calledRead), pieces: make(map[string][]piece), positions: make([][]position, partitions),
			peak: make(map[string]int64), kills: make(map[string]int),
		},
	}
	defer r.killAll()
	if err := r.processor(ctx); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(r.folder(), 0o755); err != nil {
		return nil, err
	}
	if err := r.ingest(ctx); err != nil {
		return nil, err
	}
	simulator, err := start(cancel, cfg.config, "pore", "simulate", "folder", "--ref", set.ref, "--profile", "r10.4.1-2pct", "--out", r.folder(), "--truth", filepath.Join(set.dir, "truth"),
		"--sample", sample, "--circular", "--barcoded", strconv.Itoa(cfg.barcodes), "--channels", strconv.Itoa(cfg.channels), "--length", fmt.Sprint(cfg.length),
		"--duration", cfg.duration.String(), "--rotate", cfg.rotate.String(), "--pace", fmt.Sprint(cfg.pace), "--format", cfg.format, "--variants", cfg.variants,
		"--seed", strconv.Itoa(cfg.seed))
	if err != nil {
		return nil, err
	}
	defer simulator.kill()
	lasts := time.Duration(float64(cfg.duration) / cfg.pace)
	if !cfg.json {
		fmt.Fprintf(stdout, "Sequencing %d barcodes over %d channels, in %.1f minutes.\n", cfg.barcodes, cfg.channels, lasts.Minutes())
	}
	watched, stopWatching := context.WithTimeoutCause(ctx, lasts+endWithin, errors.New("the run has not come to its end in time"))
	defer stopWatching()
	if err := r.follow(watched); err != nil {
		return nil, fmt.Errorf("following the topics: %w", cmp.Or(context.Cause(watched), err))
	}
	<-simulator.exited
	if simulator.err != nil {
		return nil, simulator.err
	}
	for _, name := range []string{"ingest", "processor"} {
		if err := r.running[name].stop(); err != nil {
			return nil, err
		}
		r.measure(r.running[name])
	}
	if err := r.readTruth(); err != nil {
		return nil, err
	}
	return r.seen, r.compare(ctx)
}

func (r *readsRun) folder() string { return filepath.Join(r.dir, "run") }

// processor starts a processor without a basecalling model.
func (r *readsRun) processor(ctx context.Context) error {
	args := []string{"--brokers", r.broker.Addr(), "--ref", r.ref, "--gff", r.cfg.file("genes.gff3"), "--stages", "align,variant,annotate", "--gvcf",
		"--memberships", filepath.Join(r.dir, "memberships")}
	if r.cfg.model != "" {
		args = append(args, "--variant-model", r.cfg.model)
	}
	if r.cfg.killProcessor > 0 {
		args = append(args, "--session-timeout", "6s", "--drain-timeout", "1s", "--snapshot-interval", "1s")
	}
	return r.start(ctx, "processor", args...)
}

func (r *readsRun) ingest(ctx context.Context) error {
	return r.start(ctx, "ingest", "reads", "--brokers", r.broker.Addr(), "--partitions", strconv.Itoa(partitions), "--journal", filepath.Join(r.dir, "journal"), r.folder())
}

// start starts a service, and waits until it is ready.
func (r *readsRun) start(ctx context.Context, name string, args ...string) error {
	page, _, err := addresses()
	if err != nil {
		return err
	}
	s, err := start(r.cancel, r.cfg.config, name, append(args, "--listen", page)...)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.running[name] = s
	r.mu.Unlock()
	return await(ctx, "the "+name, page)
}

func (r *readsRun) killAll() {
	for _, s := range r.running {
		s.kill()
	}
}

// measure notes what a process that has ended has taken of memory.
func (r *readsRun) measure(s *service) {
	if usage, ok := s.cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		r.seen.peak[s.name] = max(r.seen.peak[s.name], usage.Maxrss<<10)
	}
}

// expected is about how many reads the run has that pass.
func (r *readsRun) expected() int {
	strand := r.cfg.length/400 + 2 // seconds, with the pause before
	return int(float64(r.cfg.channels) * r.cfg.duration.Seconds() / strand * 0.9)
}

// disturb kills a service again and again while reads come, and starts it anew.
func (r *readsRun) disturb(ctx context.Context, name string, kills int, again func(context.Context) error) error {
	for k := range kills {
		for due := r.expected() * (k + 1) / (kills + 2); ; {
			r.mu.Lock()
			reached := r.reads >= due
			r.mu.Unlock()
			if reached {
				break
			}
			if err := pause(ctx); err != nil {
				return err
			}
		}
		s := r.running[name]
		s.kill()
		r.measure(s)
		r.seen.kills[name]++
		if err := again(ctx); err != nil {
			return err
		}
	}
	return nil
}

var errEnded = errors.New("the run has ended")

// follow reads the topics as they come, and kills whom it is to, until the topic of variants
// says that the run has ended.
func (r *readsRun) follow(ctx context.Context) error {
	group, following := errgroup.WithContext(ctx)
	consume := func(topic string, take func(stream.Record) error) {
		group.Go(func() error {
			err := r.client.Consume(following, topic, kafka.ConsumeOptions{From: kafka.FromStart}, func(rec stream.Record) error {
				r.mu.Lock()
				defer r.mu.Unlock()
				return take(rec)
			})
			if err != nil {
				return err
			}
			return context.Cause(following)
		})
	}
	consume(r.topics.Called, r.takeCalled)
	consume(r.topics.Reads, r.takeAligned)
	consume(r.topics.Calls, r.takeCall)
	fold := pipeline.NewFold(partitions)
	consume(r.topics.Variants, func(rec stream.Record) error {
		if _, err := fold.Add(rec); err != nil {
			return err
		}
		if r.run != "" && fold.Ended(r.run) {
			return errEnded
		}
		return nil
	})
	for p := range int32(partitions) {
		group.Go(func() error { return r.poll(following, p) })
	}
	// One after the other, so that both are not away at once for long.
	group.Go(func() error {
		if err := r.disturb(following, "ingest", r.cfg.killIngest, r.ingest); err != nil {
			return fmt.Errorf("killing ingest: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		if err := r.disturb(following, "processor", r.cfg.killProcessor, r.processor); err != nil {
			return fmt.Errorf("killing the processor: %w", err)
		}
		return nil
	})
	if err := group.Wait(); !errors.Is(err, errEnded) {
		return err
	}
	// What was committed last.
	for p := range int32(partitions) {
		if err := r.notePosition(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (r *readsRun) takeCalled(rec stream.Record) error {
	m, err := stream.DecodeCalled(rec.Value)
	if err != nil {
		return err
	}
	if start := m.GetRunStart(); start != nil {
		r.run = start.GetRun().GetId()
	}
	read := m.GetRead()
	if read == nil {
		return nil
	}
	seq, _, _, err := stream.UnpackCalled(read)
	if err != nil {
		return err
	}
	r.reads++
	r.seen.called[read.GetReadId()] = append(r.seen.called[read.GetReadId()], calledRead{crc32.ChecksumIEEE(seq), time.Now()})
	return nil
}

func (r *readsRun) takeAligned(rec stream.Record) error {
	m, err := stream.DecodeReads(rec.Value)
	if err != nil || m.GetSegment() == nil {
		return err
	}
	id := m.GetSegment().GetReadId()
	r.seen.pieces[id] = append(r.seen.pieces[id], piece{rec.Partition, rec.Offset, time.Now()})
	return nil
}

func (r *readsRun) takeCall(rec stream.Record) error {
	m, err := stream.DecodeCalls(rec.Value)
	if c := m.GetCall(); err == nil && c != nil && len(c.GetFilters()) == 0 {
		a := allele{c.GetContig(), c.GetPos(), c.GetRef(), c.GetAlt()}
		r.seen.revisions = append(r.seen.revisions, revision{a, c.GetSample(), time.Now()})
	}
	return err
}

// variantGroup is the group of processors that call variants.
const variantGroup = "porestream-variant"

// pollEvery is how often the variant stage's position is asked for: how exactly is known when
// a read had effect on calls.
const pollEvery = 20 * time.Millisecond

// poll notes how far the variant stage is on a partition.
func (r *readsRun) poll(ctx context.Context, partition int32) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if err := r.notePosition(ctx, partition); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (r *readsRun) notePosition(ctx context.Context, partition int32) error {
	offset, _, err := r.client.CommittedOffset(ctx, variantGroup, r.topics.Reads, partition)
	if err != nil {
		return err
	}
	at := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	list := &r.seen.positions[partition]
	if n := len(*list); n == 0 || (*list)[n-1].offset < offset {
		*list = append(*list, position{offset, at})
	}
	return nil
}

// readTruth reads what the simulator has written when.
func (r *readsRun) readTruth() error {
	text, err := os.ReadFile(filepath.Join(r.dir, "truth", "reads.tsv"))
	if err != nil {
		return err
	}
	_, rows, _ := strings.Cut(string(text), "\n")
	for row := range strings.Lines(rows) {
		columns := strings.Split(strings.TrimSuffix(row, "\n"), "\t")
		if len(columns) != 8 {
			return fmt.Errorf("reading the simulator's table: %d columns in %q", len(columns), row)
		}
		sum, err := strconv.ParseUint(columns[4], 16, 32)
		if err != nil {
			return fmt.Errorf("reading the simulator's table: %w", err)
		}
		at, err := time.Parse(time.RFC3339Nano, columns[6])
		if err != nil {
			return fmt.Errorf("reading the simulator's table: %w", err)
		}
		r.seen.written = append(r.seen.written, writtenRead{columns[0], columns[1], columns[2] == "true", uint32(sum), at})
	}
	return nil
}

// compare has pore call call each sample from all its reads, and compares that with the topics.
func (r *readsRun) compare(ctx context.Context) error {
	pattern, format := filepath.Join(r.folder(), "fastq_pass", "*", "*.fastq.gz"), ".fastq.gz"
	if r.cfg.format == "bam" {
		pattern, format = filepath.Join(r.folder(), "bam_pass", "*", "*.bam"), ".bam"
	}
	files, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	byBarcode := make(map[string][]string)
	for _, path := range files {
		barcode := filepath.Base(filepath.Dir(path))
		byBarcode[barcode] = append(byBarcode[barcode], path)
	}
	delete(byBarcode, "unclassified")
	var names []string
	for barcode := range byBarcode {
		names = append(names, barcode)
	}
	slices.Sort(names)
	for _, barcode := range names {
		name := sample + "_" + barcode
		of, err := r.join(ctx, filepath.Join(r.dir, name+format), byBarcode[barcode])
		if err != nil {
			return err
		}
		args := []string{"call", "--ref", r.ref, "--one-sample", name, "--gvcf"}
		if r.cfg.model != "" {
			args = append(args, "--variant-model", r.cfg.model)
		}
		want, err := r.pore(ctx, append(args, of)...)
		if err != nil {
			return err
		}
		got, err := r.pore(ctx, "consume", "--brokers", r.broker.Addr(), "--format", "gvcf", "--ref", r.ref, "--filter", "sample == "+strconv.Quote(name))
		if err != nil {
			return err
		}
		calls, err := passed(bytes.NewReader(want))
		if err != nil {
			return err
		}
		equal := bytes.Equal(want, got)
		r.seen.results = append(r.seen.results, sampleResult{name, len(calls), equal})
		if !equal && r.cfg.keep != "" {
			if err := r.keepBoth(name, want, got, of); err != nil {
				return err
			}
		}
	}
	return nil
}

// keepBoth keeps both versions of output that differs, for a person to find out why.
func (r *readsRun) keepBoth(name string, file, stream []byte, reads string) error {
	in, err := os.ReadFile(reads)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.cfg.keep, 0o755); err != nil {
		return err
	}
	for suffix, content := range map[string][]byte{".call.vcf": file, ".stream.vcf": stream, "." + strings.SplitN(filepath.Base(reads), ".", 2)[1]: in} {
		if err := os.WriteFile(filepath.Join(r.cfg.keep, name+suffix), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// join makes one file of those of a barcode: of gzip, one behind the other.
func (r *readsRun) join(ctx context.Context, path string, files []string) (string, error) {
	if filepath.Ext(path) == ".bam" {
		if out, err := exec.CommandContext(ctx, "samtools", append([]string{"cat", "-o", path}, files...)...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("joining the files of %s: %w: %s", path, err, out)
		}
		return path, nil
	}
	out, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer out.Close()
	for _, path := range files {
		in, err := os.Open(path)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(out, in)
		if err := errors.Join(err, in.Close()); err != nil {
			return "", err
		}
	}
	return path, out.Close()
}

func (r *readsRun) pore(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(r.cfg.bin, "pore"), args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("pore %s: %w: %s", args[0], err, strings.TrimSpace(said.String()))
	}
	return out, nil
}
