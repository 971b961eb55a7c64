package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streamtest"
	"github.com/porestream/porestream/testenv"
)

// TestFaults brings about everything that docs/attach/ingest.md says can go wrong, and
// holds ingest to what is said there: the line, what counts it, and that no secret
// is in any of it. A row without a fault here, and a fault without a row, fail.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the services")
	}
	rows := faultTable(t, filepath.Join(root(), "docs", "attach", "ingest.md"))
	faults := make(map[string]func(*fault))
	for _, list := range []map[string]func(*fault){kafkaFaults, fileFaults, readsFaults, spoolFaults, minknowFaults, pushFaults} {
		maps.Copy(faults, list)
	}
	for name := range faults {
		_, described := rows[name]
		require.True(t, described, "docs/attach/ingest.md has no row %q", name)
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provoke := faults[name]
			require.NotNil(t, provoke, "nothing here provokes it")
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			f := &fault{T: t, ctx: ctx}
			provoke(f)
			f.check(row)
		})
	}
}

// faultRow is a row of the table of faults.
type faultRow struct {
	line    string // with … for what differs
	counter string // or the exit code
}

// faultTable reads the table of docs/attach/ingest.md.
func faultTable(t *testing.T, path string) map[string]faultRow {
	t.Helper()
	rows := make(map[string]faultRow)
	inside := false
	for line := range strings.Lines(string(readFile(t, path))) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		switch {
		case strings.HasPrefix(line, "| what happened |"):
			inside = true
		case !strings.HasPrefix(line, "|"):
			inside = false
		case inside && !strings.HasPrefix(line, "|---"):
			require.Len(t, cells, 4, "%s", line)
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
				require.NotEmpty(t, cells[i], "%s", line)
			}
			name, said, counter := cells[0], strings.Trim(cells[1], "`"), strings.Trim(cells[2], "`")
			require.NotContains(t, rows, name)
			rows[name] = faultRow{said, counter}
		}
	}
	require.NotEmpty(t, rows)
	return rows
}

// secretsOfFaults must be in nothing that is printed or answered.
var secretsOfFaults = []string{markedPassword, wrongPassword, minknowToken, wrongToken, deviceToken, otherToken}

// fault is something that goes wrong, and what became of it.
type fault struct {
	*testing.T
	ctx  context.Context // ends with the test
	addr string          // of a broker that is this fault's own
	said testenv.Log     // what the ingest has printed
	page string          // its metrics; empty if it has ended
	// ended is closed when an ingest that is to go on has ended all the same.
	ended   <-chan struct{}
	code    int      // its exit code, if it has
	answers []string // what the server answered a device
	env     []string
}

// kafka starts a broker for this fault.
func (f *fault) kafka(opts ...kfake.Opt) *kfake.Cluster {
	f.Helper()
	c := streamtest.Kfake(f, opts...)
	f.addr = c.ListenAddrs()[0]
	return c
}

func (f *fault) client() *kafka.Client {
	f.Helper()
	c, err := kafka.Connect(f.ctx, kafka.Config{Brokers: []string{f.addr}})
	require.NoError(f, err)
	f.Cleanup(c.Close)
	return c
}

// command makes an ingest over the fault's broker.
func (f *fault) command(args []string) *exec.Cmd {
	if f.addr == "" {
		f.kafka()
	}
	if !slices.Contains(args, "--brokers") {
		args = append(args, "--brokers", f.addr)
	}
	if !slices.Contains(args, "--listen") {
		args = append(args, "--listen", "127.0.0.1:0")
	}
	cmd := exec.CommandContext(f.ctx, filepath.Join(bin, "ingest"), args...)
	cmd.Env = append(os.Environ(), f.env...)
	return cmd
}

// fails runs an ingest that is to end by itself with an error.
func (f *fault) fails(args ...string) {
	f.Helper()
	f.await(f.command(args))
}

func (f *fault) await(cmd *exec.Cmd) {
	f.Helper()
	cmd.Stdout, cmd.Stderr = &f.said, &f.said
	err := cmd.Run()
	exit, failed := errors.AsType[*exec.ExitError](err)
	require.True(f, failed, "it ended with %v: %s", err, &f.said)
	f.code = exit.ExitCode()
}

// works runs an ingest to its end, in which nothing goes wrong yet.
func (f *fault) works(args ...string) {
	f.Helper()
	out, err := f.command(args).CombinedOutput()
	require.NoError(f, err, "%s", out)
}

// runs starts an ingest that is to go on.
func (f *fault) runs(args ...string) {
	f.Helper()
	f.page = freeAddress(f)
	cmd := f.command(append(args, "--listen", f.page))
	cmd.Stdout, cmd.Stderr = &f.said, &f.said
	require.NoError(f, cmd.Start())
	ended := make(chan struct{})
	f.ended = ended
	go func() {
		cmd.Wait()
		close(ended)
	}()
	f.Cleanup(func() { cmd.Process.Kill(); <-ended })
}

// eventually waits for a condition, no longer than the ingest runs that was started last.
func (f *fault) eventually(what string, ok func() bool) {
	f.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-f.ended:
			if ok() {
				return
			}
			f.Fatalf("waiting for %s: ingest has ended and printed\n%s", what, &f.said)
		case <-f.ctx.Done():
			f.Fatalf("waiting for %s: ingest has printed\n%s\nand a device was told %q", what, &f.said, f.answers)
		}
	}
}

// ready waits until an ingest that runs is ready.
func (f *fault) ready() {
	f.Helper()
	f.eventually("readiness", func() bool {
		req, err := http.NewRequestWithContext(f.ctx, http.MethodGet, "http://"+f.page+"/readyz", nil)
		require.NoError(f, err)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// signalComes waits until there is signal in Kafka.
func (f *fault) signalComes() {
	f.Helper()
	f.signalComesOf(20)
}

// signalComesOf waits until there are so many records of signal.
func (f *fault) signalComesOf(n int64) {
	f.Helper()
	client := f.client()
	f.eventually("signal", func() bool {
		offsets, err := client.Offsets(f.ctx, "signal")
		var have int64
		for _, o := range offsets {
			have += o.Stable
		}
		return err == nil && have >= n
	})
}

// write makes a file in a folder of the test's own.
func (f *fault) write(name string, content []byte) string {
	f.Helper()
	path := filepath.Join(f.TempDir(), name)
	require.NoError(f, os.WriteFile(path, content, 0o644))
	return path
}

// matcher makes of a row's line what finds it: … is anything within the line.
func (r faultRow) matcher() *regexp.Regexp {
	parts := strings.Split(r.line, "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile(strings.Join(parts, ".*"))
}

// check holds what became of a fault against its row.
func (f *fault) check(row faultRow) {
	f.Helper()
	line := row.matcher()
	if code, exits := strings.CutPrefix(row.counter, "exit "); exits {
		require.Empty(f, f.page, "it is said to end, and goes on")
		require.Equal(f, code, fmt.Sprint(f.code), "%s", &f.said)
		require.Regexp(f, line, f.errorLine())
	} else {
		require.NotEmpty(f, f.page, "it is said to go on, and ends: %s", &f.said)
		f.eventually("the line "+row.line, func() bool { return line.MatchString(f.unquoted()) })
		require.Len(f, line.FindAllString(f.unquoted(), -1), 1, "once, not\n%s", &f.said)
		f.eventually("the counter "+row.counter, func() bool { return f.counter(row.counter) > 0 })
	}
	for _, answer := range f.answers {
		require.Regexp(f, line, answer, "what the device is told")
		require.NotContains(f, answer, "\n")
		require.Empty(f, leaks([]byte(answer), secretsOfFaults...))
	}
	require.Empty(f, leaks([]byte(f.said.String()), secretsOfFaults...), "%s", &f.said)
}

// errorLine is what an ingest that has ended has printed besides its log: one line.
func (f *fault) errorLine() string {
	f.Helper()
	var lines []string
	for line := range strings.Lines(f.said.String()) {
		if !strings.HasPrefix(line, "time=") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	require.Len(f, lines, 1, "one line, not\n%s", &f.said)
	require.True(f, strings.HasPrefix(lines[0], "ingest"), lines[0])
	return lines[0]
}

// unquoted is what was printed, with quotation marks as they were before the log
// quoted them.
func (f *fault) unquoted() string { return strings.ReplaceAll(f.said.String(), `\"`, `"`) }

// counter is the sum of the series on the page of metrics that have all the labels
// of one such as name{a="b"}.
func (f *fault) counter(series string) (sum float64) {
	name, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
	resp, err := http.Get("http://" + f.page + "/metrics") //nolint:noctx // the process is here, and the test ends it
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		head, value, _ := strings.Cut(lines.Text(), " ")
		if at := strings.LastIndex(lines.Text(), "} "); at >= 0 {
			head, value = lines.Text()[:at], lines.Text()[at+2:]
		}
		is, has, _ := strings.Cut(head, "{")
		if is != "porestream_ingest_"+name {
			continue
		}
		all := true
		for label := range strings.SplitSeq(labels, ",") {
			all = all && strings.Contains(has, label)
		}
		var v float64
		if _, err := fmt.Sscan(value, &v); err == nil && all {
			sum += v
		}
	}
	return sum
}
