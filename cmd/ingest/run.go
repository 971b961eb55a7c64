package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/ingest/minknow"
	"github.com/porestream/porestream/ingest/sources"
	"github.com/porestream/porestream/internal/cli"
)

// runCommand runs the sources of a file.
func runCommand() *cobra.Command {
	var once bool
	cmd := &cobra.Command{
		Use:   "run SOURCES.yaml",
		Short: "Run many sources of signal in one process, as a file lists them",
		Long: "Runs each source for itself: one that fails is started again, and the others don't notice. When the file changes, or on SIGHUP, " +
			"only the sources that have changed are stopped, in order, and started; a file that can't be used leaves everything as it is.",
		Example: `  ingest run sources.yaml`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := runFile(cmd.Context(), args[0], once)
			if once {
				return err
			}
			return cli.Stopped(cmd.Context(), err)
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "end when all sources have come to their end; with an error if one of them has failed")
	return cmd
}

func runFile(ctx context.Context, path string, once bool) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("finding the list of sources: %w", err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the list of sources: %w", err)
	}
	first, err := parseFile(path, content)
	if err != nil {
		return err
	}
	return first.process.attach(ctx, "connecting to Kafka", func(ctx context.Context, c *connection) error {
		c.many = true
		file, list, err := sources.Open(path, func(content []byte) ([]sources.Spec, error) {
			l, err := parseFile(path, content)
			if err != nil {
				return nil, err
			}
			if l.self != first.self {
				return nil, &FileError{Path: path, Text: "what it says of Kafka, the log or listen has changed, which needs a restart of ingest"}
			}
			return c.specs(l), nil
		}, c.logger)
		if err != nil {
			return err
		}
		supervisor := sources.New(sources.Config{
			Once: once, Restarts: true, Permanent: isPermanent, StopTimeout: stopTimeout, Gone: c.meters.drop, Logger: c.logger,
		})
		c.serve(supervisor, file)
		orders := make(chan os.Signal, 1)
		signal.Notify(orders, syscall.SIGHUP)
		defer signal.Stop(orders)
		following, stop := context.WithCancel(ctx)
		defer stop()
		lists := make(chan []sources.Spec)
		go file.Follow(following, file.Notify(following), orders, lists)
		c.ready()
		return supervisor.Run(ctx, list, lists)
	})
}

// specs are the sources of a file as they are run.
func (c *connection) specs(l *listing) []sources.Spec {
	var list []sources.Spec
	for _, s := range l.sources {
		list = append(list, sources.Spec{
			Name: s.name, Kind: s.kind.name, Settings: s.settings, Claims: s.claims,
			Figures: func() ingest.Figures { return c.meters.of(s.name, s.kind.name).ingest.Figures() },
			Run: func(ctx context.Context, ready func()) error {
				defer c.runs.Release(s.name)
				return s.source.run(ctx, c.destination(s.name, s.kind.name, s.intake, ready))
			},
		})
	}
	return list
}

// isPermanent reports whether restarting a source can't resolve an error: the
// configuration is wrong, another process has the run, or the error says so
// itself.
func isPermanent(err error) bool {
	if _, ok := errors.AsType[*ingest.PermanentError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*minknow.PermanentError](err); ok {
		return true
	}
	if _, ok := errors.AsType[misconfigured](err); ok {
		return true
	}
	return errors.Is(err, ingest.ErrFenced)
}

// checkCommand checks a file of sources.
func checkCommand() *cobra.Command {
	var schema bool
	cmd := &cobra.Command{
		Use:     "check SOURCES.yaml",
		Short:   "Check a file of sources without starting any",
		Long:    "Reports everything that is wrong with a file of sources, one line each, and whether the files and folders that it names are there. It connects to nothing.",
		Example: `  ingest check sources.yaml`,
		Args:    cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case schema && len(args) == 0:
				b, err := fileSchema()
				if err == nil {
					_, err = cmd.OutOrStdout().Write(b)
				}
				return err
			case schema || len(args) == 0:
				return cli.Usagef("give a file of sources, or --schema alone")
			}
			return checkFile(cmd.OutOrStdout(), cmd.ErrOrStderr(), args[0])
		},
	}
	cmd.Flags().BoolVar(&schema, "schema", false, "write the JSON Schema of files of sources, for editors, instead")
	return cmd
}

func checkFile(out, complaints io.Writer, path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the list of sources: %w", err)
	}
	l, err := parseFile(path, content)
	if err == nil {
		err = l.checkPaths(path)
	}
	var all fileErrors
	if errors.As(err, &all) {
		if len(all) == 1 {
			return all
		}
		for _, e := range all {
			fmt.Fprintln(complaints, e)
		}
		return fmt.Errorf("%s: %d errors", path, len(all))
	}
	if err != nil {
		return err
	}
	for _, s := range l.sources {
		fmt.Fprintf(out, "%s\t%s\n", s.name, s.kind.name)
	}
	return nil
}

// statusCommand asks a running ingest for its sources.
func statusCommand() *cobra.Command {
	var address string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show what the sources of a running ingest do",
		Long:    "Asks an ingest, whatever its command, for its sources: state, runs, channels, samples a second, chunks, gaps, lost samples, and how much is not in Kafka yet.",
		Example: `  ingest status`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := askStatus(cmd.Context(), address)
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(report)
			}
			return report.WriteText(cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&address, "address", "127.0.0.1:9101", "where the ingest listens (its --listen)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}

// statusTimeout bounds the wait for an answer.
const statusTimeout = 10 * time.Second

func askStatus(ctx context.Context, address string) (sources.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	if strings.HasPrefix(address, ":") {
		address = "127.0.0.1" + address
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/status", nil)
	if err != nil {
		return sources.Report{}, cli.Usagef("--address: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return sources.Report{}, fmt.Errorf("asking the ingest at %s (its --listen): %w", address, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return sources.Report{}, fmt.Errorf("asking the ingest at %s: it answers %s: is it an ingest?", address, resp.Status)
	}
	return sources.ReadReport(resp.Body)
}
