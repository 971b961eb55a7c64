package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/models"
	"github.com/porestream/porestream/variant/network"
	"github.com/porestream/porestream/variant/network/bench"
)

func benchScoringCommand() *cobra.Command {
	var cfg network.Config
	var load bench.Load
	var log cli.LogFlags
	model, asJSON := "", false
	cmd := &cobra.Command{
		Use:   "judge",
		Short: "Throughput of a variant model against the bare network",
		Long: `Has made-up alleles scored by several callers at once, in turns with as many
examples through the bare network: the same model, device, batch and sessions.`,
		Example: `  pore bench judge --rounds 5`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			load.Callers = cmp.Or(load.Callers, 2*runtime.GOMAXPROCS(0))
			if load.Callers < 1 || load.Alleles < 1 || load.Examples < 1 || load.Rounds < 1 {
				return cli.Usagef("--callers, --alleles, --examples and --rounds must be at least 1")
			}
			logger, err := log.Logger(os.Stderr)
			if err != nil {
				return err
			}
			cfg.Logger = logger
			m, err := models.OpenVariant(model)
			if err != nil {
				return err
			}
			j, err := bench.Measure(cmd.Context(), m, cfg, load)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), j)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s on %s, %d cores, %d sessions, batch %d; %d callers with %d alleles each: %.0f examples/s, bare network %.0f: %.3f (%.3f by processor time)\n",
				j.Model, j.Device, j.Cores, j.Sessions, j.Batch, j.Callers, j.Alleles, j.Rate, j.BareRate, j.ScoringOverBare, j.ScoringOverBareCPU)
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&model, "variant-model", models.DefaultVariant, "variant model, by name or folder")
	cli.FormerFlag(flags, "caller-model", "variant-model")
	flags.StringVar(&cfg.Device, "device", "auto", "auto, cpu, cuda or cuda:N[,N...]")
	flags.StringVar(&cfg.Library, "ort-lib", "", "ONNX Runtime library; else the environment variable ORT_LIB")
	flags.IntVar(&cfg.Batch, "batch", 0, "examples computed together; 0 chooses by device")
	flags.IntVar(&cfg.Sessions, "sessions", 0, "copies of the network per device; 0 chooses by device")
	flags.IntVar(&load.Callers, "callers", 0, "callers at once; 0: two for each CPU")
	flags.IntVar(&load.Alleles, "alleles", 64, "alleles that a caller has scored together")
	flags.IntVar(&load.Examples, "examples", 20_000, "examples in a round, about")
	flags.IntVar(&load.Rounds, "rounds", 5, "how often; the medians are reported")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	log.Register(flags, slog.LevelWarn)
	return cmd
}
