// Command chaos runs the services against real brokers while it kills, pauses, cuts off and deceives them. Afterwards it checks by the history and by
// what is on the topics whether every promise was kept. docs/develop/chaos.md describes what it does and how to read what it leaves.
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
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/porestream/porestream/chaos/schedule"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/stream/streamtest"
)

func main() { os.Exit(cli.Main(command())) }

// config is what the command line asks for.
type config struct {
	seed       uint64
	length     time.Duration
	brokers    int
	processors int
	kinds      []string
	reads      int
	session    time.Duration
	recover    time.Duration

	bin, out, lib    string
	recording        string
	reference, genes string
	ort              string
	modified         string
	diploid          bool
	log              cli.LogFlags
	keep             bool
}

func command() *cobra.Command {
	var cfg config
	root := &cobra.Command{
		Use:   "chaos [--seed N] [--length D] [--brokers N]",
		Short: "Run the services under faults and check the result",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := cfg.log.Logger(os.Stderr)
			if err != nil {
				return err
			}
			return chaos(cmd.Context(), cfg, logger)
		},
	}
	flags := root.PersistentFlags()
	flags.Uint64Var(&cfg.seed, "seed", 1, "what the schedule of faults is drawn from")
	flags.DurationVar(&cfg.length, "length", 10*time.Minute, "how long signal flows and faults are injected")
	flags.IntVar(&cfg.brokers, "brokers", 3, "Apache Kafka brokers: 1 or 3; 0 for the embedded broker in a process of its own, without faults of brokers and network")
	flags.IntVar(&cfg.processors, "processors", 4, "at most this many processors at the start")
	flags.StringSliceVar(&cfg.kinds, "faults", nil, "kinds of faults to choose from (default all)")
	flags.IntVar(&cfg.reads, "reads", 0, "use only the first reads of the recording; 0 for all")
	flags.DurationVar(&cfg.session, "session", 10*time.Second, "session timeout of the consumer groups")
	flags.DurationVar(&cfg.recover, "bound", 90*time.Second, "how long work may stand still without a fault, and how soon after a kill there must be output")
	flags.StringVar(&cfg.bin, "bin", "bin", "folder with ingest, processor and pore")
	flags.StringVar(&cfg.out, "out", "chaos/out", "folder for histories and logs, in a folder by seed")
	cfg.registerMaterial(flags)
	flags.StringVar(&cfg.modified, "modified-bases", "modbase/network/testdata/dna_r9.4.1_made.onnx", "model of modified bases, which are counted")
	flags.BoolVar(&cfg.diploid, "diploid", false, "simulate a diploid sample in place of the recording, and count its modified bases by haplotype, too")
	flags.BoolVar(&cfg.keep, "keep", false, "keep the brokers' files")
	root.AddCommand(brokerCommand(), soakCommand())
	return root
}

// registerMaterial adds the flags for what every kind of run works on.
func (c *config) registerMaterial(flags *pflag.FlagSet) {
	flags.StringVar(&c.lib, "kafka-lib", os.Getenv(streamtest.LibVariable), "folder with the jars of Apache Kafka (default: the environment variable "+streamtest.LibVariable+")")
	flags.StringVar(&c.recording, "recording", "testdata/lambda/reads.pod5", "recorded reads")
	flags.StringVar(&c.reference, "ref", "testdata/lambda/reference.fa", "reference genome")
	flags.StringVar(&c.genes, "gff", "testdata/lambda/genes.gff3", "genes")
	flags.StringVar(&c.ort, "ort-lib", defaultRuntime(), "ONNX Runtime")
	c.log.Register(flags, slog.LevelWarn)
}

func defaultRuntime() string {
	if lib := os.Getenv("ORT_LIB"); lib != "" {
		return lib
	}
	return filepath.Join(".deps", "onnxruntime", "libonnxruntime.so")
}

// plan checks the settings and says what to draw.
func (c *config) plan() (schedule.Plan, error) {
	kinds := schedule.Kinds()
	if len(c.kinds) > 0 {
		kinds = nil
		for _, name := range c.kinds {
			kind := schedule.Kind(name)
			if !slices.Contains(schedule.Kinds(), kind) {
				return schedule.Plan{}, cli.Usagef("--faults: %q is none of %q", name, schedule.Kinds())
			}
			kinds = append(kinds, kind)
		}
	}
	switch {
	case c.brokers != 0 && c.brokers != 1 && c.brokers != 3:
		return schedule.Plan{}, cli.Usagef("--brokers %d: want 0, 1 or 3", c.brokers)
	case c.brokers > 0 && c.lib == "":
		return schedule.Plan{}, cli.Usagef("--kafka-lib is required with --brokers %d: stream/streamtest/kafka/fetch.sh fetches the jars", c.brokers)
	case c.length < time.Second || c.session < 10*time.Second || c.processors < 1:
		return schedule.Plan{}, cli.Usagef("--length must be at least 1s, --session 10s and --processors 1")
	}
	if c.brokers == 0 {
		kinds = slices.DeleteFunc(kinds, schedule.Kind.NeedsCluster)
	}
	return schedule.Plan{Seed: c.seed, Length: c.length, Kinds: kinds, Session: c.session, MaxProcessors: c.processors}, nil
}

// chaos runs one seed and returns an error if a promise was broken.
func chaos(ctx context.Context, cfg config, logger *slog.Logger) error {
	plan, err := cfg.plan()
	if err != nil {
		return err
	}
	drawn := schedule.Draw(plan)
	if cfg.diploid {
		drawn.Shape.Samples = 1 // so that it has the depth of all runs
	}
	fmt.Printf("seed %d, %v, %d brokers\n%v\n", cfg.seed, cfg.length, cfg.brokers, drawn.Shape)
	for _, f := range drawn.Faults {
		fmt.Println(f)
	}
	dir := filepath.Join(cfg.out, fmt.Sprint(cfg.seed))
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("clearing the folder for the history: %w", err)
	}
	verdict, err := runOnce(ctx, cfg, drawn, dir, nil, nil, logger)
	if err != nil {
		return err
	}
	verdict.print(os.Stdout)
	if n := len(verdict.violations); n > 0 {
		return fmt.Errorf("seed %d: %d violations; history and logs are in %s", cfg.seed, n, dir)
	}
	return nil
}

// errStopped ends goroutines that are to go on until the run is over.
var errStopped = errors.New("the run is over")

// splitAddrs is how a broker's addresses are given on a command line.
func splitAddrs(addrs []string) string { return strings.Join(addrs, ",") }
