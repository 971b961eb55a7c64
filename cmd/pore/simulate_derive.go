package main

import (
	"github.com/spf13/cobra"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/simulate"
)

func simulateDeriveCommand() *cobra.Command {
	var errors, vary float64
	var seed uint64
	var name, description string
	cmd := &cobra.Command{
		Use:   "derive --name NAME --seed N [--errors RATE] [--vary SPREAD] PROFILE",
		Short: "Make another error profile from one",
		Long: `Writes a profile like another to standard output: with systematic errors at other sites
(--seed), with all rates scaled (--errors), and with rates that differ context by
context and run by run, as another flow cell's or basecaller's would (--vary 0.4).`,
		Example: `  pore simulate derive --name harder --seed 7 --errors 0.06 profile.json > harder.json`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case name == "":
				return cli.Usagef("--name is required: what the profile is called")
			case errors < 0 || errors > 0.5:
				return cli.Usagef("--errors %g: want a rate up to 0.5", errors)
			case vary < 0 || vary > 2:
				return cli.Usagef("--vary %g: want 0 to 2", vary)
			}
			p, err := simulate.OpenProfile(args[0])
			if err != nil {
				return err
			}
			factor := 1.0
			if errors > 0 && p.ErrorRate > 0 {
				factor = errors / p.ErrorRate
			}
			p = p.Scale(factor, name, seed)
			if vary > 0 {
				p = p.Vary(vary, name, seed)
			}
			if description != "" {
				p.Description = description
			}
			_, err = cmd.OutOrStdout().Write(p.AppendTOML(nil))
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&name, "name", "", "name of the profile (required)")
	flags.StringVar(&description, "description", "", "what it is of (default the other's)")
	flags.Uint64Var(&seed, "seed", 1, "seed of the systematic errors, and of --vary")
	flags.Float64Var(&errors, "errors", 0, "scale the rates to this one of errors per base, as 0.02; 0 leaves them")
	flags.Float64Var(&vary, "vary", 0, "standard deviation of the logarithm of each rate's factor")
	return cmd
}
