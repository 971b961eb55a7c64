// Command live shows how soon a sequencer's reads become calls. A simulated
// MinKNOW, built on the official stubs, plays a recording in real time; ingest,
// processor and a consumer follow as processes of their own over an embedded
// broker. It says when each variant of the truth was first called and annotated,
// and exits with 0 only if the calls are those of the truth, all signal that the
// server has dropped was counted, and the first calls came in time.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/internal/cli"
)

func main() { os.Exit(cli.Main(command())) }

// config is what the command line asks for.
type config struct {
	data     string
	channels int
	pace     float64
	chunk    time.Duration
	drop     float64
	seed     int
	within   time.Duration
	device   string
	genes    string
	networks []string
	bin      string
	python   string
	json     bool
}

// recordings are where a recording is searched for, from the project's folder: the
// whole one that may be beside it, and the part that is shipped.
var recordings = [...]string{filepath.Join("..", "shared", "data", "lambda-r9"), filepath.Join("testdata", "lambda")}

// pythons are the interpreters that may have minknow-api.
var pythons = [...]string{filepath.Join(".cache", "minknow", "bin", "python"), "python3"}

func command() *cobra.Command {
	var cfg config
	cmd := &cobra.Command{
		Use:   "live",
		Short: "Sequence phage lambda on a simulated MinKNOW, in real time, and say how soon its variants are called",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cfg.drop < 0 || cfg.drop >= 1 || cfg.pace <= 0 || cfg.channels < 1 || cfg.chunk < 50*time.Millisecond {
				return cli.Usagef("--drop goes from 0 to below 1, --pace and --channels are positive, --chunk is at least 50ms")
			}
			return live(cmd.Context(), cfg, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.data, "data", "", "folder with reads.pod5, reference, genes and truth.vcf (default: the whole recording if it is beside the checkout, else the shipped one)")
	flags.IntVar(&cfg.channels, "channels", 64, "channels of the flow cell")
	flags.Float64Var(&cfg.pace, "pace", 1, "speed by the recording's clock")
	flags.DurationVar(&cfg.chunk, "chunk", 800*time.Millisecond, "MinKNOW's break_reads_after_seconds")
	flags.Float64Var(&cfg.drop, "drop", 0, "share of the chunks that MinKNOW leaves out")
	// With seed 1 a twentieth less of the shipped recording, which is half of the whole,
	// leaves seven reads at one place, six of which agree on a wrong base: a call with a
	// quality of 12, as there is one in seventeen such.
	flags.IntVar(&cfg.seed, "seed", 2, "what the simulator draws from")
	flags.DurationVar(&cfg.within, "within", 2*time.Second, "how soon after a read's end the call must come that it makes possible; 0 for no matter")
	flags.StringVar(&cfg.device, "device", "auto", "the processor's device")
	flags.StringVar(&cfg.genes, "gff", "", "the processor's gene model, or auto (default: genes.gff3 of the recording's folder)")
	flags.StringSliceVar(&cfg.networks, "network", nil, "folders of sequence networks that the processor has score variants, several with commas")
	flags.StringVar(&cfg.bin, "bin", "bin", "folder with ingest, processor and pore")
	flags.StringVar(&cfg.python, "python", "", "interpreter with minknow-api (default $PORESTREAM_MINKNOW_PYTHON, or the one that make live makes)")
	flags.BoolVar(&cfg.json, "json", false, "print the report as JSON")
	cmd.AddCommand(readsCommand())
	return cmd
}

// complete finds what the flags leave open.
func (c *config) complete(ctx context.Context) error {
	for _, dir := range recordings {
		if _, err := os.Stat(filepath.Join(dir, "reads.pod5")); err == nil {
			c.data = cmp.Or(c.data, dir)
		}
	}
	if c.data == "" {
		return errors.New("finding the recording: run this in the project's folder, or give --data")
	}
	if c.python = cmp.Or(c.python, os.Getenv("PORESTREAM_MINKNOW_PYTHON")); c.python == "" {
		for _, p := range pythons {
			if exec.CommandContext(ctx, p, "-c", "import minknow_api, grpc, numpy").Run() == nil {
				c.python = cmp.Or(c.python, p)
			}
		}
	}
	if c.python == "" {
		return errors.New("finding Python with minknow-api: make live makes one, or give --python")
	}
	return nil
}

// reference is the recording's genome, whose name differs between recordings.
func (c *config) reference() (string, error) {
	for _, name := range []string{"reference.fa", "J02459.1.fa"} {
		path := filepath.Join(c.data, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: no reference.fa", c.data)
}

func (c *config) file(name string) string { return filepath.Join(c.data, name) }

func live(ctx context.Context, cfg config, stdout io.Writer) error {
	if err := cfg.complete(ctx); err != nil {
		return err
	}
	truth, err := readVCF(cfg.file("truth.vcf"))
	if err != nil {
		return err
	}
	seen, err := play(ctx, cfg, stdout)
	if err != nil {
		return err
	}
	r := evaluate(truth, seen)
	failures := r.failures(cfg.drop > 0, cfg.within)
	if cfg.json {
		err = json.NewEncoder(stdout).Encode(r)
	} else {
		err = r.print(stdout)
	}
	if err == nil && len(failures) > 0 {
		err = errors.New(strings.Join(failures, "; "))
	}
	return err
}
