package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/signal"
)

func signalInfoCommand() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "info SIGNAL...",
		Short: "Say what is in POD5, BLOW5 and FAST5 files",
		Example: `  pore signal info reads.pod5
  pore signal info --json /data/run1`,
		Args: cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return signalInfo(cmd.Context(), args, asJSON, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "a JSON object per file, on a line each")
	return cmd
}

func signalInfo(ctx context.Context, args []string, asJSON bool, stdout io.Writer) error {
	files, err := signal.Expand(args)
	if err != nil {
		return err
	}
	for i, path := range files {
		info, err := signal.Inspect(ctx, path)
		if err != nil {
			return err
		}
		if asJSON {
			err = json.NewEncoder(stdout).Encode(info)
		} else {
			if i > 0 {
				fmt.Fprintln(stdout)
			}
			_, err = io.WriteString(stdout, infoText(info))
		}
		if err != nil {
			return fmt.Errorf("writing the result: %w", err)
		}
	}
	return nil
}

// infoText is a table of names and values, the file's first, then each run's.
func infoText(info *signal.Info) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		if value := strings.TrimSpace(fmt.Sprintf(format, args...)); value != "" {
			fmt.Fprintf(&b, "%-16s%s\n", name, value)
		}
	}
	fmt.Fprintln(&b, info.Path)
	line("  format", "%s %s, signal %s", info.Format, info.Version, info.Compression)
	line("  written by", "%s", info.Software)
	line("  bytes", "%d", info.Bytes)
	line("  reads", "%d", info.Reads)
	line("  samples", "%d%s", info.Samples, perSample(info))
	line("  runs", "%d", len(info.Runs))
	for _, r := range info.Runs {
		fmt.Fprintf(&b, "run %s\n", r.ID)
		line("  sample", "%s", r.SampleID)
		if r.StartTime != nil {
			line("  start", "%s", r.StartTime.Format(time.RFC3339))
		}
		line("  reads", "%d from %d channels", r.Reads, r.Channels)
		line("  samples", "%d at %d Hz", r.Samples, r.SampleRate)
		line("  time", "%s to %s", clock(r.First), clock(r.Last))
		line("  read N50", "%d samples, %s", r.N50, clock(float64(r.N50)/float64(r.SampleRate)))
		line("  flow cell", "%s %s", r.FlowCellID, r.FlowCellProduct)
		line("  kit", "%s", r.Kit)
		line("  chemistry", "%s", r.Chemistry)
		line("  pore type", "%s", strings.Join(r.PoreTypes, ", "))
		line("  position", "%s", r.SequencerPosition)
		line("  recorded by", "%s", r.Software)
		for i, reason := range slices.Sorted(maps.Keys(r.EndReasons)) {
			name := ""
			if i == 0 {
				name = "  end reasons"
			}
			line(name, "%s %d", reason, r.EndReasons[reason])
		}
	}
	return b.String()
}

// perSample is how well a file is packed.
func perSample(info *signal.Info) string {
	if info.Samples == 0 {
		return ""
	}
	return fmt.Sprintf(", %.3f bytes each", float64(info.Bytes)/float64(info.Samples))
}

// clock writes seconds for a person.
func clock(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(10 * time.Millisecond).String()
}
