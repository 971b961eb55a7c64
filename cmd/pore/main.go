// Command pore is what a person types: the whole pipeline on one machine, each
// stage by itself on files, and a view into the topics. The stages are the same
// engines that the services run.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/processor"
)

func main() { os.Exit(cli.Main(program())) }

func program() *cobra.Command { return cli.Program(command(), processor.Parts()...) }

func command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pore",
		Short: "From nanopore current to annotated variants while the sequencer is running",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.Usagef("name a command; see %s --help", cmd.Name())
		},
	}
	cmd.AddCommand(genesCommand())
	cmd.AddCommand(runCommand(), demoCommand(), basecallCommand(), summaryCommand(), demuxCommand(), pileupCommand(), callCommand(), carryOverCommand(), annotateCommand(), sourcesCommand(), hgvsCommand(), diplotypeCommand(), panelCommand(), cli.Formerly("watch", panelCommand(), "pore panel"), consumeCommand(), notifyCommand(), stateCommand(), resetCommand(),
		topicsCommand(), dlqCommand(), replayCommand(), aclsCommand(), sizeCommand(), reportCommand(), signalCommand(), modelCommand(), evalCommand(), benchCommand(), alignCommand(), indexCommand(), simulateCommand(), brokerCommand(), consensusCommand())
	return cmd
}
