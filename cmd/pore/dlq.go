package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/operator"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/access"
	"github.com/porestream/porestream/stream/streampb"
)

type dlqConfig struct {
	kafka       cli.KafkaFlags
	log         cli.LogFlags
	stage, code string
	since       string
	until       string
	place       string
	format      string
	raw         string
	panels      bool
	dry         bool
}

func dlqCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "List records that could not be processed, and send them back",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.Usagef("name a command; see %s --help", cmd.CommandPath())
		},
	}
	cmd.AddCommand(dlqListCommand(), dlqShowCommand(), dlqRedriveCommand())
	return cmd
}

func (cfg *dlqConfig) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	cfg.kafka.Register(flags)
	cfg.log.Register(flags, slog.LevelWarn)
}

func (cfg *dlqConfig) registerSelection(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&cfg.stage, "stage", "", "only those of this stage")
	flags.StringVar(&cfg.code, "code", "", "only those with this reason code, for example checksum")
	flags.StringVar(&cfg.since, "since", "", "only those given up at this time (RFC 3339) or later")
	flags.StringVar(&cfg.until, "until", "", "only those given up before this time (RFC 3339)")
	flags.StringVar(&cfg.place, "place", "", "only the one at PARTITION/OFFSET of the dead-letter topic")
}

func (cfg *dlqConfig) selection() (operator.Selection, error) {
	s := operator.Selection{Stage: cfg.stage, Code: cfg.code}
	for _, bound := range []struct {
		flag, value string
		to          *time.Time
	}{{"since", cfg.since, &s.From}, {"until", cfg.until, &s.To}} {
		if bound.value == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, bound.value)
		if err != nil {
			return s, cli.Usagef("--%s %q: want a time such as 2026-11-21T18:20:00Z", bound.flag, bound.value)
		}
		*bound.to = at
	}
	if cfg.place != "" {
		at, err := parsePlace(cfg.place)
		if err != nil {
			return s, err
		}
		s.Place = &at
	}
	return s, nil
}

func parsePlace(s string) (operator.Place, error) {
	partition, offset, ok := strings.Cut(s, "/")
	p, err := strconv.ParseInt(partition, 10, 32)
	o, offsetErr := strconv.ParseInt(offset, 10, 64)
	if !ok || err != nil || offsetErr != nil || p < 0 || o < 0 {
		return operator.Place{}, cli.Usagef("place %q: want PARTITION/OFFSET, as pore dlq ls prints it", s)
	}
	return operator.Place{Partition: int32(p), Offset: o}, nil
}

func dlqListCommand() *cobra.Command {
	var cfg dlqConfig
	cmd := &cobra.Command{
		Use: "ls --brokers HOST:PORT", Short: "List dead letters, a line each, and count them",
		Example: `  pore dlq ls --brokers kafka:9092`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return dlqList(cmd.Context(), cfg, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cfg.register(cmd)
	cfg.registerSelection(cmd)
	cmd.Flags().StringVar(&cfg.format, "format", "text", "text or json")
	return cmd
}

// listed is a line of pore dlq ls --format json.
type listed struct {
	Place    string    `json:"place"`
	Time     time.Time `json:"time"`
	Stage    string    `json:"stage"`
	Code     string    `json:"code"`
	Reason   string    `json:"reason"`
	Topic    string    `json:"topic"`
	Part     int32     `json:"partition"`
	Offset   int64     `json:"offset"`
	Key      []byte    `json:"key"`
	Bytes    int       `json:"bytes"`
	Cut      []string  `json:"cut,omitempty"`
	Redriven bool      `json:"redriven"`
}

func dlqList(ctx context.Context, cfg dlqConfig, stdout, stderr io.Writer) error {
	if cfg.format != "text" && cfg.format != "json" {
		return cli.Usagef("--format %q: want text or json", cfg.format)
	}
	which, err := cfg.selection()
	if err != nil {
		return err
	}
	client, err := connect(ctx, &cfg.kafka, &cfg.log)
	if err != nil {
		return err
	}
	defer client.Close()
	out := bufio.NewWriter(stdout)
	letters, redriven, codes := 0, 0, make(map[string]int)
	if cfg.format == "text" {
		fmt.Fprintln(out, "PLACE\tTIME\tSTAGE\tCODE\tFROM\tBYTES\tSTATE\tREASON")
	}
	foreign, err := operator.DeadLetters(ctx, client, stream.NewTopics(cfg.kafka.Prefix).DeadLetters, which, func(l operator.Letter) error {
		letters++
		codes[l.Code]++
		if l.Redriven {
			redriven++
		}
		return list(out, cfg.format, l)
	})
	if err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "%d dead letters%s, %d of them redriven; %d other records\n", letters, counted(codes), redriven, foreign)
	return nil
}

func list(out io.Writer, format string, l operator.Letter) error {
	r := l.Record
	if format == "json" {
		return json.NewEncoder(out).Encode(listed{
			Place: l.Place.String(), Time: r.Time.UTC(), Stage: l.Stage, Code: l.Code, Reason: l.Reason,
			Topic: r.Topic, Part: r.Partition, Offset: r.Offset, Key: r.Key, Bytes: len(r.Value), Cut: l.Cut, Redriven: l.Redriven,
		})
	}
	state := "open"
	switch {
	case l.Redriven:
		state = "redriven"
	case len(l.Cut) > 0:
		state = "cut"
	}
	_, err := fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s/%d/%d\t%d\t%s\t%s\n", l.Place, r.Time.UTC().Format(time.RFC3339),
		printable(l.Stage), printable(l.Code), printable(r.Topic), r.Partition, r.Offset, len(r.Value), state, printable(l.Reason))
	return err
}

// printable keeps what others wrote from reaching the terminal as commands.
func printable(s string) string {
	quoted := strconv.Quote(s)
	if len(quoted) == len(s)+2 {
		return s
	}
	return quoted
}

// counted is " (checksum 3, payload 1)", or nothing for no counts.
func counted(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", printable(name), counts[name]))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func dlqShowCommand() *cobra.Command {
	var cfg dlqConfig
	cmd := &cobra.Command{
		Use: "show --brokers HOST:PORT PARTITION/OFFSET", Short: "Show one dead letter, decoded as far as it can be",
		Example: `  pore dlq show --brokers kafka:9092 3/1207`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg.place = args[0]
			return dlqShow(cmd.Context(), cfg, cmd.OutOrStdout())
		},
	}
	cfg.register(cmd)
	cmd.Flags().StringVar(&cfg.raw, "raw", "", "file to write the record's value to, byte for byte")
	return cmd
}

var errShown = errors.New("shown")

func dlqShow(ctx context.Context, cfg dlqConfig, stdout io.Writer) error {
	which, err := cfg.selection()
	if err != nil {
		return err
	}
	client, err := connect(ctx, &cfg.kafka, &cfg.log)
	if err != nil {
		return err
	}
	defer client.Close()
	topic := stream.NewTopics(cfg.kafka.Prefix).DeadLetters
	_, err = operator.DeadLetters(ctx, client, topic, which, func(l operator.Letter) error {
		show(stdout, l)
		if cfg.raw != "" {
			if err := os.WriteFile(cfg.raw, l.Record.Value, 0o644); err != nil {
				return fmt.Errorf("writing the record: %w", err)
			}
		}
		return errShown
	})
	switch {
	case errors.Is(err, errShown):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("no dead letter at %s of topic %s", cfg.place, topic)
}

func show(out io.Writer, l operator.Letter) {
	r := l.Record
	fmt.Fprintf(out, "place\t%s\ngiven up\t%s\nstage\t%s\ncode\t%s\nreason\t%s\nfrom\t%s/%d/%d\nkey\t%s\nvalue\t%d bytes\nredriven\t%t\n",
		l.Place, r.Time.UTC().Format(time.RFC3339Nano), printable(l.Stage), printable(l.Code), printable(l.Reason),
		printable(r.Topic), r.Partition, r.Offset, strconv.Quote(string(r.Key)), len(r.Value), l.Redriven)
	if len(l.Cut) > 0 {
		fmt.Fprintf(out, "cut\t%s\n", printable(strings.Join(l.Cut, ",")))
	}
	for _, h := range r.Headers {
		fmt.Fprintf(out, "header\t%s: %q\n", printable(h.Key), h.Value)
	}
	m, err := stream.Decode(r.Value)
	if err != nil {
		fmt.Fprintf(out, "decoding\t%s\nbegins\t%q\n", printable(err.Error()), r.Value[:min(len(r.Value), 64)])
		return
	}
	if s, is := m.(*streampb.SignalRecord); is && s.GetChunk() != nil {
		s.GetChunk().Vbz = nil // binary, and long
	}
	fmt.Fprintf(out, "record\t%s\n", protojson.Format(m))
}

func dlqRedriveCommand() *cobra.Command {
	var cfg dlqConfig
	cmd := &cobra.Command{
		Use: "redrive --brokers HOST:PORT", Short: "Send dead letters back to where they came from, each once",
		Long: `Writes the chosen dead letters to the topics and partitions that they came from,
with their keys and headers, and marks them, both in one transaction: none is
sent twice. Letters that are not whole, or whose topic is no input of this
deployment's stages, stay, and the command fails.`,
		Example: `  pore dlq redrive --brokers kafka:9092 --code checksum --dry-run`,
		Args:    cli.Args(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return dlqRedrive(cmd.Context(), cfg, cmd.OutOrStdout()) },
	}
	cfg.register(cmd)
	cfg.registerSelection(cmd)
	cmd.Flags().BoolVar(&cfg.panels, "panels", false, "samples are held against watch-lists")
	cmd.Flags().BoolVar(&cfg.dry, "dry-run", false, "say what would be sent, and send nothing")
	return cmd
}

func dlqRedrive(ctx context.Context, cfg dlqConfig, stdout io.Writer) error {
	which, err := cfg.selection()
	if err != nil {
		return err
	}
	client, err := connect(ctx, &cfg.kafka, &cfg.log)
	if err != nil {
		return err
	}
	defer client.Close()
	t := stream.NewTopics(cfg.kafka.Prefix)
	id := access.Deployment{Prefix: cfg.kafka.Prefix}.OperatorID()
	r, err := operator.Redrive(ctx, client, id, t.DeadLetters, operator.Inputs(t, cfg.panels), which, cfg.dry)
	what := "sent back"
	if cfg.dry {
		what = "would be sent back"
	}
	fmt.Fprintf(stdout, "%d %s%s; left: %d sent back before, %d not whole, %d from other topics\n",
		r.Sent, what, counted(r.Topics), r.Before, r.Cut, r.Unknown)
	if err != nil {
		return err
	}
	if r.Cut+r.Unknown > 0 {
		return fmt.Errorf("%d dead letters can't be sent back: pore dlq ls shows them", r.Cut+r.Unknown)
	}
	return nil
}
