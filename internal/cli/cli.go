// Package cli is what Porestream's commands share: exit codes, one-line errors,
// logging and the flags that reach Kafka.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/porestream/porestream/stream/kafka"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// usageError is an error in how a command was called.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// Usagef returns an error that makes the command exit with 2.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Args wraps an argument check so that what it refuses is a usage error, which says
// what would have been right as far as that is known.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		switch {
		case err == nil:
			return nil
		case !cmd.HasSubCommands() || len(args) == 0:
			return Usagef("%w; usage: %s", err, cmd.UseLine())
		}
		cmd.SuggestionsMinimumDistance = mistypedLetters
		if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
			return Usagef("%w; did you mean %s?", err, strings.Join(like, " or "))
		}
		return Usagef("%w; see %s --help", err, cmd.CommandPath())
	}
}

// mistypedLetters is how many letters may be wrong in a word that is recognised.
const mistypedLetters = 2

// flagError makes what is wrong with a flag a usage error, which names the flag that
// may have been meant.
func flagError(cmd *cobra.Command, err error) error {
	unknown, is := errors.AsType[*pflag.NotExistError](err)
	if !is {
		return usageError{err}
	}
	// A word of which no letter is right is no misspelling.
	best, distance := "", min(mistypedLetters+1, len(unknown.GetSpecifiedName()))
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if d := levenshtein.ComputeDistance(f.Name, unknown.GetSpecifiedName()); d < distance && !f.Hidden {
			best, distance = f.Name, d
		}
	})
	if best == "" {
		return Usagef("%w; see %s --help", err, cmd.CommandPath())
	}
	return Usagef("%w; did you mean --%s?", err, best)
}

// Main runs a command until it is done or interrupted and returns the exit
// code. An error is one line on standard error that begins with the command's
// path, and ends with what can be done about it where it comes from Kafka. A second interrupt kills.
func Main(cmd *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the default action comes back with the first signal
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	Program(cmd)
	cmd.SetFlagErrorFunc(flagError)
	called, err := cmd.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	path := cmd.Name()
	if called != nil {
		path = called.CommandPath()
	}
	line := oneLine(err, ctx.Err() != nil)
	if advice := kafka.Advice(err); advice != "" {
		line += "; " + advice
	}
	fmt.Fprintf(os.Stderr, "%s: %s\n", path, line)
	if isUsage(err) {
		return exitUsage
	}
	return exitFailed
}

// Stopped is the error of a command that runs until it is stopped: none if ctx, the command's, has ended and err says nothing else. Whatever the
// command was about, also while it started, it has done what it was asked for.
func Stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && onlyCanceled(err) {
		return nil
	}
	return err
}

// onlyCanceled reports whether an error, or each of those that are joined in it, comes from a context that was cancelled.
func onlyCanceled(err error) bool {
	if joined, is := err.(interface{ Unwrap() []error }); is {
		return !slices.ContainsFunc(joined.Unwrap(), func(err error) bool { return !onlyCanceled(err) })
	}
	if wrapped := errors.Unwrap(err); wrapped != nil {
		return onlyCanceled(wrapped)
	}
	return errors.Is(err, context.Canceled)
}

// Exit ends the program at once, with one line that says why. What was under way
// is lost as in a crash.
func Exit(cmd *cobra.Command, why string) {
	fmt.Fprintf(os.Stderr, "%s: %s: stopped at once; what was not finished is done again after a restart\n", cmd.Name(), why)
	os.Exit(exitFailed)
}

// isUsage reports whether the command was called wrongly. Cobra has no types for its
// own complaints.
func isUsage(err error) bool {
	if _, ok := errors.AsType[usageError](err); ok {
		return true
	}
	for _, prefix := range []string{"unknown command", "required flag(s)", "if any flags in the group", "at least one of the flags in the group"} {
		if strings.HasPrefix(err.Error(), prefix) {
			return true
		}
	}
	return false
}

// oneLine keeps an error on one line; joined errors come one per line. After an
// interrupt being cancelled is no news.
func oneLine(err error, interrupted bool) string {
	if interrupted && errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "; ")
}

// LogFlags choose how a command logs.
type LogFlags struct {
	Level  slog.Level
	Format string
}

// Register adds the flags.
func (f *LogFlags) Register(flags *pflag.FlagSet, level slog.Level) {
	f.Level = level
	flags.TextVar(&f.Level, "log-level", level, "least `level` that is logged: DEBUG, INFO, WARN or ERROR")
	flags.StringVar(&f.Format, "log-format", "text", "text or json")
}

// Logger returns the logger that the flags describe.
func (f *LogFlags) Logger(w io.Writer) (*slog.Logger, error) {
	opts := &slog.HandlerOptions{Level: f.Level}
	switch f.Format {
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, Usagef("--log-format %q: want text or json", f.Format)
}
