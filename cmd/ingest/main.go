// Command ingest puts nanopore signal on Kafka: it plays recorded runs (POD5,
// BLOW5, FAST5) as the sequencer would have delivered them. Other sources of signal are
// its subcommands, and `ingest run` runs many of them in one process.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/internal/cli"
)

func main() { os.Exit(cli.Main(program())) }

func program() *cobra.Command { return cli.Program(command()) }

// command plays recorded runs unless its first argument names a source, so that
// a file of such a name is given as ./NAME.
func command() *cobra.Command {
	cmd := playKind().command()
	cmd.Example = `  ingest --brokers kafka:9092 --pace 1 /data/run1
  ingest --brokers kafka:9092 --spool /var/spool/porestream a.pod5 b.blow5`
	cmd.Use = "ingest --brokers HOST:PORT SIGNAL..."
	cmd.Long += "\n\nOther sources have commands of their own, and run has many of them in one process."
	for _, k := range kinds() {
		cmd.AddCommand(k.command())
		if k.formerly != "" {
			cmd.AddCommand(cli.Formerly(k.formerly, k.command(), "ingest "+k.name))
		}
	}
	cmd.AddCommand(runCommand(), checkCommand(), statusCommand(), tokenCommand())
	return cmd
}
