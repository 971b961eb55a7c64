package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/operator"
	"github.com/porestream/porestream/stream"
)

type stateConfig struct {
	kafka  cli.KafkaFlags
	log    cli.LogFlags
	format string
}

func stateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state",
		Short: "List the snapshots of the stages' state",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.Usagef("name a command; see %s --help", cmd.CommandPath())
		},
	}
	cmd.AddCommand(stateListCommand())
	return cmd
}

func stateListCommand() *cobra.Command {
	var cfg stateConfig
	cmd := &cobra.Command{
		Use:   "ls --brokers HOST:PORT",
		Short: "List the snapshots that there are, and which of them can be used",
		Long: `Writes a line for each snapshot on the state topic, those of one partition newest
first: whose it is, its input offset and that of the group, when it was taken, its
size and sections, and "usable" or why it is not.

Whether a stage can use a snapshot also depends on the reference, the models and
the thresholds that it runs with: they are in the fingerprint.`,
		Example: `  pore state ls --brokers kafka:9092`,
		Args:    cli.Args(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return listStates(cmd.Context(), cfg, cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	cfg.kafka.Register(flags)
	cfg.log.Register(flags, slog.LevelWarn)
	flags.StringVar(&cfg.format, "format", "tsv", "tsv or json (one object per line)")
	return cmd
}

func listStates(ctx context.Context, cfg stateConfig, stdout io.Writer) error {
	if cfg.format != "tsv" && cfg.format != "json" {
		return cli.Usagef("--format %q: want tsv or json", cfg.format)
	}
	client, err := connect(ctx, &cfg.kafka, &cfg.log)
	if err != nil {
		return err
	}
	defer client.Close()
	states, err := operator.States(ctx, client, stream.NewTopics(cfg.kafka.Prefix).State)
	if err != nil {
		return err
	}
	return writeStates(stdout, states, cfg.format, time.Now())
}

// stateLine is a snapshot as a person or a script sees it.
type stateLine struct {
	Group       string    `json:"group"`
	Topic       string    `json:"topic"`
	Partition   int32     `json:"partition"`
	Committed   int64     `json:"committed"`
	Offset      int64     `json:"offset"`
	Time        time.Time `json:"time"`
	Bytes       int64     `json:"bytes"`
	Sections    int       `json:"sections"`
	Stage       string    `json:"stage"`
	Version     int       `json:"version"`
	Fingerprint string    `json:"fingerprint"`
	Usable      bool      `json:"usable"`
	Reason      string    `json:"reason,omitempty"`
}

func writeStates(w io.Writer, states []operator.KeptState, format string, now time.Time) error {
	if format == "tsv" {
		fmt.Fprintln(w, "GROUP\tTOPIC\tPARTITION\tCOMMITTED\tOFFSET\tAGE\tBYTES\tSECTIONS\tVERSION\tFINGERPRINT\tSTATUS")
	}
	enc := json.NewEncoder(w)
	for _, s := range states {
		for _, k := range s.Snapshots {
			l := stateLine{
				Group: s.Group, Topic: s.Topic, Partition: s.Partition, Committed: s.Committed,
				Offset: k.Offset, Time: k.Time.UTC(), Bytes: k.Bytes, Sections: k.Sections,
				Stage: k.Format.Stage, Version: k.Format.Version, Fingerprint: k.Format.Fingerprint,
				Usable: k.Unusable == "", Reason: k.Unusable,
			}
			if format == "json" {
				if err := enc.Encode(l); err != nil {
					return err
				}
				continue
			}
			status := "usable"
			if !l.Usable {
				status = l.Reason
			}
			if _, err := fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%v\t%d\t%d\t%d\t%.16s\t%s\n", l.Group, l.Topic, l.Partition, l.Committed, l.Offset,
				now.Sub(l.Time).Round(time.Second), l.Bytes, l.Sections, l.Version, l.Fingerprint, status); err != nil {
				return err
			}
		}
	}
	return nil
}
