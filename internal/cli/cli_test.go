package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// testTree is a command with everything that can go wrong in one.
func testTree() *cobra.Command {
	root := &cobra.Command{Use: "pore", Args: Args(cobra.NoArgs), RunE: func(*cobra.Command, []string) error { return nil }}
	run := &cobra.Command{
		Use: "run SIGNAL", Args: Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch args[0] {
			case "ok":
				fmt.Fprintln(cmd.OutOrStdout(), "result")
				return nil
			case "usage":
				return fmt.Errorf("checking: %w", Usagef("--pace %q: want a number", "x"))
			case "joined":
				return errors.Join(errors.New("first\n  second line"), errors.New("third"))
			case "cancelled":
				return fmt.Errorf("stage: %w", context.Canceled)
			case "interrupt":
				if err := interrupt(); err != nil {
					return err
				}
				<-cmd.Context().Done()
				return fmt.Errorf("stage: %w", cmd.Context().Err())
			}
			return errors.New("reads/x.pod5: footer checksum mismatch")
		},
	}
	run.Flags().Int("partitions", 4, "")
	need := &cobra.Command{Use: "need", Args: Args(cobra.NoArgs), RunE: func(*cobra.Command, []string) error { return nil }}
	need.Flags().String("ref", "", "")
	if err := need.MarkFlagRequired("ref"); err != nil {
		panic(err)
	}
	pair := &cobra.Command{Use: "pair", RunE: func(*cobra.Command, []string) error { return nil }}
	pair.Flags().Bool("a", false, "")
	pair.Flags().Bool("b", false, "")
	pair.MarkFlagsMutuallyExclusive("a", "b")
	root.AddCommand(run, need, pair)
	return root
}

func interrupt() error {
	p, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	return p.Signal(os.Interrupt)
}

// TestMain runs the command tree instead of the tests when it is asked to.
func TestMain(m *testing.M) {
	if os.Getenv("PORESTREAM_CLI_TEST") != "" {
		os.Exit(Main(testTree()))
	}
	os.Exit(m.Run())
}

func TestExitCodes(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	about := fmt.Sprintf("pore %s\n  Go  %s %s/%s\n", Version, strings.TrimPrefix(runtime.Version(), "go"), runtime.GOOS, runtime.GOARCH)
	for _, c := range []struct {
		args   string
		code   int
		stdout string
		stderr string
	}{
		{"run ok", 0, "result\n", ""},
		{"--version", 0, about, ""},
		{"version", 0, about, ""},
		{"version --json", 0, fmt.Sprintf(`{"name":"pore","version":"%s","go":"%s","platform":"%s/%s"}`+"\n", Version, runtime.Version(), runtime.GOOS, runtime.GOARCH), ""},
		{"version now", 2, "", "pore version: unknown command \"now\" for \"pore version\"; usage: pore version [flags]\n"},
		{"run broken", 1, "", "pore run: reads/x.pod5: footer checksum mismatch\n"},
		{"run joined", 1, "", "pore run: first; second line; third\n"},
		{"run cancelled", 1, "", "pore run: stage: context canceled\n"},
		{"run interrupt", 1, "", "pore run: interrupted\n"},
		{"run usage", 2, "", "pore run: checking: --pace \"x\": want a number\n"},
		{"run", 2, "", "pore run: accepts 1 arg(s), received 0; usage: pore run SIGNAL [flags]\n"},
		{"run a b", 2, "", "pore run: accepts 1 arg(s), received 2; usage: pore run SIGNAL [flags]\n"},
		{"run --partitions x ok", 2, "", "pore run: invalid argument \"x\" for \"--partitions\" flag: strconv.ParseInt: parsing \"x\": invalid syntax\n"},
		{"run --nonsense ok", 2, "", "pore run: unknown flag: --nonsense; see pore run --help\n"},
		{"run --partition 3 ok", 2, "", "pore run: unknown flag: --partition; did you mean --partitions?\n"},
		{"run -x ok", 2, "", "pore run: unknown shorthand flag: 'x' in -x; see pore run --help\n"},
		{"nonsense", 2, "", "pore: unknown command \"nonsense\" for \"pore\"; see pore --help\n"},
		{"rnu", 2, "", "pore: unknown command \"rnu\" for \"pore\"; did you mean run?\n"},
		{"need", 2, "", "pore need: required flag(s) \"ref\" not set\n"},
		{"pair --a --b", 2, "", "pore pair: if any flags in the group [a b] are set none of the others can be; [a b] were all set\n"},
	} {
		cmd := exec.CommandContext(t.Context(), self, strings.Fields(c.args)...)
		cmd.Env = append(os.Environ(), "PORESTREAM_CLI_TEST=1")
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if code := cmd.ProcessState.ExitCode(); code != c.code || stdout.String() != c.stdout || stderr.String() != c.stderr {
			t.Errorf("pore %s: exit %d, stdout %q, stderr %q; want %d, %q, %q", c.args, code, stdout.String(), stderr.String(), c.code, c.stdout, c.stderr)
		}
	}
}

// TestVersionThatCannotBeWritten: a version for which the disk is full is a failure, in one line.
func TestVersionThatCannotBeWritten(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no /dev/full:", err)
	}
	defer full.Close()
	for args, want := range map[string]string{
		"--version":      "pore: write /dev/stdout: no space left on device\n",
		"version":        "pore version: write /dev/stdout: no space left on device\n",
		"version --json": "pore version: write /dev/stdout: no space left on device\n",
	} {
		cmd := exec.CommandContext(t.Context(), self, strings.Fields(args)...)
		cmd.Env = append(os.Environ(), "PORESTREAM_CLI_TEST=1")
		var stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = full, &stderr
		_ = cmd.Run() // the exit code says what came of it
		if code := cmd.ProcessState.ExitCode(); code != exitFailed || stderr.String() != want {
			t.Errorf("pore %s: exit %d, stderr %q; want %d, %q", args, code, stderr.String(), exitFailed, want)
		}
	}
}

// Being stopped is no failure of what runs until then, and hides none.
func TestStopped(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	failed := errors.New("the disk is full")
	for _, c := range []struct {
		ctx       context.Context
		err, want error
	}{
		{stopped, nil, nil},
		{stopped, context.Canceled, nil},
		{stopped, fmt.Errorf("connecting: %w", errors.Join(context.Canceled, fmt.Errorf("reading: %w", context.Canceled))), nil},
		{stopped, failed, failed},
		{stopped, context.DeadlineExceeded, context.DeadlineExceeded},
		{t.Context(), context.Canceled, context.Canceled},
	} {
		if got := Stopped(c.ctx, c.err); !errors.Is(got, c.want) {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
	if both := errors.Join(context.Canceled, failed); Stopped(stopped, both) == nil {
		t.Errorf("%v is hidden", both)
	}
}

func TestProgressLine(t *testing.T) {
	for _, c := range []struct {
		done, total int64
		elapsed     time.Duration
		want        string
	}{
		{4_100_000, 16_400_000, 10 * time.Second, " 25.0 %  4.1 M of 16.4 M samples  410.0 k/s  30s left"},
		{1, 3, time.Second, " 33.3 %  1 of 3 samples  1/s  2s left"},
		{5, 5, time.Second, "100.0 %  5 of 5 samples  5/s  0s left"},
		{1000, 2000, 0, " 50.0 %  1.0 k of 2.0 k samples"},
		{6, 5, time.Second, "100.0 %  6 of 6 samples  6/s  0s left"},
		{1_000_000_000, 7_200_000_000, time.Hour, " 13.9 %  1.0 G of 7.2 G samples  277.8 k/s  6h12m0s left"},
	} {
		if got := progressLine("samples", c.done, c.total, c.elapsed); got != c.want {
			t.Errorf("%d of %d after %v: %q, want %q", c.done, c.total, c.elapsed, got, c.want)
		}
	}
}

func TestSI(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1.0 k", 1_500_000: "1.5 M", 2_000_000_000: "2.0 G"} {
		if got := SI(n); got != want {
			t.Errorf("SI(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestNoProgressWithoutTerminal(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stop := ShowProgress(f, "samples", func() (int64, int64) {
		t.Error("asked for progress that nobody sees")
		return 1, 2
	})
	stop()
	stop()
	if info, err := f.Stat(); err != nil || info.Size() != 0 {
		t.Errorf("%d bytes were written, %v", info.Size(), err)
	}
}

func TestLogFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string // the lines of a debug, an info and a warning
		err  string
	}{
		{nil, "level=WARN msg=c", ""},
		{[]string{"--log-level", "INFO"}, "level=INFO msg=b", ""},
		{[]string{"--log-format", "json", "--log-level", "debug"}, `"level":"DEBUG","msg":"a"`, ""},
		{[]string{"--log-format", "xml"}, "", `--log-format "xml": want text or json`},
		{[]string{"--log-level", "loud"}, "", "loud"},
	} {
		var f LogFlags
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		flags.SetOutput(io.Discard)
		f.Register(flags, slog.LevelWarn)
		var b bytes.Buffer
		err := flags.Parse(c.args)
		var logger *slog.Logger
		if err == nil {
			logger, err = f.Logger(&b)
		}
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v: %v, want ...%s...", c.args, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		logger.Debug("a")
		logger.Info("b")
		logger.Warn("c")
		first, _, _ := strings.Cut(b.String(), "\n")
		if !strings.Contains(first, c.want) {
			t.Errorf("%v: first line %q, want ...%s", c.args, first, c.want)
		}
	}
}

const secret = "hunter2-hunter2"

func TestKafkaFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args        string
		environment string
		err         string
		tls, sasl   bool
	}{
		{args: "--brokers a:9092,b:9092"},
		{args: "--brokers a:9092 --tls", tls: true},
		{args: "--brokers a:9092 --tls-server-name broker", tls: true},
		{args: "--brokers a:9092 --sasl-mechanism PLAIN --sasl-user u --sasl-password-file " + file, sasl: true},
		{args: "--brokers a:9092 --sasl-mechanism SCRAM-SHA-512 --sasl-user u", environment: secret, sasl: true},
		{args: "", err: "broker"},
		{args: "--brokers a:9092 --sasl-mechanism PLAIN", environment: secret, err: "--sasl-mechanism needs --sasl-user"},
		{args: "--brokers a:9092 --sasl-user u", environment: secret, err: "need --sasl-mechanism"},
		{args: "--brokers a:9092 --sasl-mechanism PLAIN --sasl-user u", err: "set PORESTREAM_SASL_PASSWORD"},
		{args: "--brokers a:9092 --sasl-mechanism NTLM --sasl-user u", environment: secret, err: "NTLM"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Setenv(passwordVariable, c.environment)
			var f KafkaFlags
			flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
			f.Register(flags)
			if err := flags.Parse(strings.Fields(c.args)); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			cfg, err := f.Config(slog.New(slog.NewTextHandler(&log, nil)), nil)
			cfg.Logger.Info("configured", "kafka", cfg, "sasl", cfg.SASL)
			shown := fmt.Sprintf("%v %+v %#v %s %v", cfg, cfg, cfg, log.String(), err) + flags.FlagUsages()
			if cfg.SASL != nil {
				shown += fmt.Sprintf("%v %+v %#v", *cfg.SASL, *cfg.SASL, *cfg.SASL)
			}
			if strings.Contains(shown, secret) {
				t.Errorf("the password is shown: %s", shown)
			}
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || !isUsage(err) {
					t.Errorf("%v, want the usage error ...%s...", err, c.err)
				}
				return
			}
			if err != nil || (cfg.TLS != nil) != c.tls || (cfg.SASL != nil) != c.sasl || cfg.Brokers[0] != "a:9092" {
				t.Errorf("%+v, %v", cfg, err)
			}
			if c.environment != "" && cfg.SASL.Password != secret {
				t.Error("the password of the environment is not used")
			}
		})
	}
}
