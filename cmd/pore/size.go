package main

import (
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/deploy/sizing"
	"github.com/porestream/porestream/internal/cli"
)

func sizeCommand() *cobra.Command {
	site := sizing.Usual()
	sequencers := make(map[string]int)
	var asJSON bool
	var names []string
	for _, i := range sizing.Instruments() {
		names = append(names, i.Name)
	}
	cmd := &cobra.Command{
		Use:   "size --sequencers KIND=N[,KIND=N...] --rate SAMPLES/S",
		Short: "Work out partitions, brokers, disks and processors for a site",
		Long: `Prints what a site needs, with the arithmetic. --rate is what one processor
basecalls, by pore bench basecall with the model and on the device that will be used.
Kinds of sequencers: ` + strings.Join(names, ", ") + `. docs/operate/sizing.md says where the figures are from.`,
		Example: `  pore size --sequencers minion=1 --rate 3.7e6 --replication 1 --spare 0 --retention 48h
  pore size --sequencers p48=1,gridion=5 --rate 50e6 --json`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			site.Sequencers = maps.Clone(sequencers)
			return printSize(site, asJSON, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringToIntVar(&sequencers, "sequencers", nil, "how many of which kind, for example p24=1,minion=2 (required)")
	flags.Float64Var(&site.ProcessorRate, "rate", 0, "samples per second that one processor basecalls (required)")
	flags.Float64Var(&site.Load, "load", site.Load, "share of --rate that is planned with")
	flags.IntVar(&site.Spare, "spare", site.Spare, "processors that take the place of others")
	flags.Float64Var(&site.Occupancy, "occupancy", site.Occupancy, "share of the channels that give signal, over a run")
	flags.DurationVar(&site.Retention, "retention", site.Retention, "how long Kafka keeps signal and reads")
	flags.IntVar(&site.Replication, "replication", site.Replication, "copies of each record")
	flags.DurationVar(&site.Outage, "outage", site.Outage, "absence of Kafka that ingest's spool is to bridge")
	flags.Float64Var(&site.Genome, "genome", site.Genome, "size of the reference, in bases; each flow cell has a sample of its own")
	flags.Float64Var(&site.BrokerDisk, "broker-disk", site.BrokerDisk, "usable disk of a broker, in bytes")
	flags.Float64Var(&site.BrokerNetwork, "broker-network", site.BrokerNetwork, "network of a broker in one direction, in bytes per second")
	flags.BoolVar(&asJSON, "json", false, "print the plan as JSON: rates per second, sizes in bytes")
	return cmd
}

func printSize(site sizing.Site, asJSON bool, stdout io.Writer) error {
	plan, err := sizing.Size(site, sizing.Figures())
	if err != nil {
		return cli.Usagef("%w", err)
	}
	if asJSON {
		return printJSON(stdout, plan)
	}
	_, err = fmt.Fprint(stdout, sizing.Explain(site, sizing.Figures(), plan))
	return err
}
