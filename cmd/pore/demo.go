package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/livepage"
	"github.com/porestream/porestream/internal/pipeline"
	"github.com/porestream/porestream/internal/processor"
	"github.com/porestream/porestream/monitor/ops"
	"github.com/porestream/porestream/vcf"
	"github.com/porestream/porestream/watchlist"
	"github.com/porestream/porestream/watchlist/alert"
)

type demoConfig struct {
	log     cli.LogFlags
	data    string
	pace    string
	listen  string
	stay    bool
	page    livepage.Flags
	calling processor.Calling
}

func demoCommand() *cobra.Command {
	var cfg demoConfig
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Play a real recording of phage lambda and compare the variants with the truth",
		Long: `Plays a recording (reads.pod5, reference.fa, genes.gff3 and truth.vcf in a folder)
through the whole pipeline over an embedded broker, faster than life. Prints the
calls as they appear and change, then a table against the truth; with a panel.yaml
in the folder also what the panel says of the sample. Exits with 0 only if the
calls match the truth.`,
		Example: `  pore demo
  pore demo --pace max`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo(cmd.Context(), cfg, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.data, "data", "", "folder of the recording (default testdata/lambda beside the program's own folder, else here)")
	flags.StringVar(&cfg.pace, "pace", "10", "speed by the recording's own clock: 1, any number, or max")
	flags.StringVar(&cfg.listen, "listen", "127.0.0.1:0", "address of the live page; port 0 takes a free one")
	flags.BoolVar(&cfg.stay, "stay", false, "keep the live page open when the run has ended, until Ctrl-C")
	cfg.page.Register(flags)
	cfg.calling.Register(flags)
	cfg.log.Register(flags, slog.LevelWarn)
	return cmd
}

func demo(ctx context.Context, cfg demoConfig, stdout io.Writer) error {
	logger, err := cfg.log.Logger(os.Stderr)
	if err != nil {
		return err
	}
	if err := cfg.calling.Validate(); err != nil {
		return cli.Usagef("%w", err)
	}
	pace, err := ingest.ParsePace(cfg.pace)
	if err != nil {
		return cli.Usagef("--pace: %w", err)
	}
	dir, err := demoData(cfg.data)
	if err != nil {
		return err
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	truth, err := readTruth(file("truth.vcf"))
	if err != nil {
		return err
	}
	var panels []string
	if _, err := os.Stat(file("panel.yaml")); err == nil {
		panels = []string{file("panel.yaml")}
	}
	var printing sync.Mutex
	show := func(line string) {
		printing.Lock()
		defer printing.Unlock()
		fmt.Fprintln(stdout, line)
	}
	same := false
	_, err = runPipeline(ctx, pipeline.Config{
		Signal: []string{file("reads.pod5")}, Partitions: 4, Processors: 1, Pace: pace,
		Engines: processor.Options{Flags: processor.Flags{
			Reference: file("reference.fa"), Genes: processor.Genes{Paths: []string{file("genes.gff3")}}, Panels: panels, Calling: cfg.calling,
		}},
		Registry: ops.NewRegistry(cli.Version), Logger: logger,
		OnStart: func(s pipeline.Start) {
			fmt.Fprintf(stdout, "Playing %d reads (%s samples) at %s times the sequencer's speed; model %s on %s, variant model %s.\n\n",
				s.Reads, cli.SI(s.Samples), cfg.pace, s.Model, s.Device, s.VariantModel)
		},
		OnVariant: func(v *event.Variant) { show(v.Text()) },
		OnAlert: func(a *watchlist.Alert) {
			if a.State != a.Previous && !a.Final { // the final states come together, at the end
				show(alert.Text(a))
			}
		},
		OnPage: func(p *livepage.Page) { p.Announce(stdout) },
		OnResult: func(ctx context.Context, result *pipeline.Result) {
			same = summarise(stdout, truth, result)
			if cfg.stay && cfg.listen != "" && !cfg.page.Off {
				fmt.Fprintln(stdout, "\nThe live page stays open until Ctrl-C.")
				<-ctx.Done()
			}
		},
	}, cli.KafkaFlags{Replication: 1}, watching{listen: cfg.listen, page: cfg.page})
	if err != nil {
		return err
	}
	if !same {
		return errors.New("the calls differ from the truth")
	}
	return nil
}

// summarise prints a run's results and reports whether its calls are the truth.
func summarise(stdout io.Writer, truth []expected, result *pipeline.Result) bool {
	var called []*event.Variant
	for _, sample := range result.Fold.Samples() {
		called = append(called, result.Fold.Variants(sample, result.Genome.Rank)...)
	}
	called = slices.DeleteFunc(called, func(v *event.Variant) bool { return !v.Passed() })
	same := compare(stdout, truth, called)
	if result.Alerts != nil {
		fmt.Fprintln(stdout, "\nWhat the panel says:")
		for _, sample := range result.Alerts.Samples() {
			for _, a := range result.Alerts.Alerts(sample) {
				fmt.Fprintln(stdout, alert.Text(a))
			}
		}
	}
	s := result.Summary
	fmt.Fprintf(stdout, "\n%d reads, %s samples, %s bases, %d reads rejected, %d gaps, %d dead letters in %.1f s: %s samples/s on %s.\n",
		s.Reads, cli.SI(s.Samples), cli.SI(s.Bases), s.Rejected, s.Gaps, s.DeadLetters, s.WallSeconds, cli.SI(int64(s.SamplesPerSecond)), s.Device)
	fmt.Fprintf(stdout, "From a read's last signal chunk to its calls on the variants topic: median %.0f ms, 99th percentile %.0f ms.\n", s.Latency.P50, s.Latency.P99)
	return same
}

// demoData is the folder of the recording: the one that is given, else the one that
// lies with the program, in a release as in the repository.
func demoData(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	lambda := filepath.Join("testdata", "lambda")
	candidates := []string{lambda}
	if executable, err := os.Executable(); err == nil {
		if resolved, err := filepath.EvalSymlinks(executable); err == nil {
			executable = resolved
		}
		candidates = []string{filepath.Join(filepath.Dir(executable), "..", lambda), lambda}
	}
	for _, dir := range candidates {
		if _, err := os.Stat(filepath.Join(dir, "truth.vcf")); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("the demo's recording was not found in %s: name its folder with --data", strings.Join(candidates, " and "))
}

// expected is one variant of the truth.
type expected struct {
	contig   string
	pos      int
	ref, alt string
	term     string // INFO/TERM, if given
	protein  string // INFO/HGVSP, if given
}

func readTruth(path string) ([]expected, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the demo's recording: %w", err)
	}
	defer f.Close()
	r, err := vcf.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var truth []expected
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return truth, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		e := expected{contig: rec.Chrom, pos: rec.Pos, ref: rec.Ref, alt: rec.Alt[0]}
		e.term, _ = rec.Info.Get("TERM")
		e.protein, _ = rec.Info.Get("HGVSP")
		truth = append(truth, e)
	}
}

// compare prints a table of the truth and the calls and reports whether they are
// the same.
func compare(out io.Writer, truth []expected, called []*event.Variant) bool {
	same := true
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PLACE\tCHANGE\tTRUTH\tCALLED\tQUAL\tREADS\tCONSEQUENCE\tGENE\t")
	row := func(v *event.Variant, truth, verdict string) {
		s := v.Annotation.MostSevere
		fmt.Fprintf(table, "%s:%d\t%s>%s\t%s\t%s\t%.1f\t%d/%d\t%s %s\t%s\t\n", v.Allele.Contig, v.Allele.Pos, v.Allele.Ref, v.Allele.Alt,
			truth, verdict, v.Call.Qual, v.Call.AltForward+v.Call.AltReverse, v.Call.Depth, s.Term, v.ProteinChange(), s.Gene)
	}
	left := slices.Clone(called)
	for _, e := range truth {
		i := slices.IndexFunc(left, func(v *event.Variant) bool {
			a := v.Allele
			return a.Contig == e.contig && int(a.Pos) == e.pos && a.Ref == e.ref && a.Alt == e.alt
		})
		if i < 0 {
			same = false
			fmt.Fprintf(table, "%s:%d\t%s>%s\t%s\tmissing\t\t\t\t\t\n", e.contig, e.pos, e.ref, e.alt, cmp.Or(e.protein, "yes"))
			continue
		}
		v := left[i]
		left = slices.Delete(left, i, i+1)
		verdict := "yes"
		if e.term != "" && e.term != v.Annotation.MostSevere.Term || e.protein != "" && e.protein != v.ProteinChange() {
			same, verdict = false, "annotated otherwise"
		}
		row(v, cmp.Or(e.protein, "yes"), verdict)
	}
	for _, v := range left {
		same = false
		row(v, "-", "not in the truth")
	}
	table.Flush()
	return same
}
