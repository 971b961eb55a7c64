package main

import (
	"github.com/spf13/cobra"

	"github.com/porestream/porestream/internal/cli"
)

func signalCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "signal",
		Short: "List, check and convert files of recorded signal",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.Usagef("name what to do with the files: %s info, check or convert", cmd.CommandPath())
		},
	}
	cmd.AddCommand(signalInfoCommand(), signalCheckCommand(), signalConvertCommand())
	return cmd
}
