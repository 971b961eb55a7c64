// Command profile writes an error profile of pore simulate with other rates: what
// training reads are simulated with, so that no two samples have the same errors.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/simulate"
)

func main() { os.Exit(cli.Main(command())) }

func command() *cobra.Command {
	var factor float64
	var seed uint64
	cmd := &cobra.Command{
		Use:   "profile [--factor F] [--seed N] NAME",
		Short: "Write an error profile with other rates",
		Args:  cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !(factor > 0) {
				return cli.Usagef("--factor %g: want a positive number", factor)
			}
			p, err := simulate.OpenProfile(args[0])
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(p.Scale(factor, p.Name+" scaled", seed).AppendTOML(nil))
			return err
		},
	}
	cmd.Flags().Float64Var(&factor, "factor", 1, "what all rates of errors are multiplied by")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "seed of the sites of systematic errors")
	return cmd
}
