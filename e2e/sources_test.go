package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/ingest/sources"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streamtest"
)

// askStatus asks an ingest for its sources, also by name; nothing if it doesn't
// answer yet.
func askStatus(ctx context.Context, address string) (report sources.Report, by map[string]sources.Status) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/status", nil)
	if err != nil {
		return report, nil
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return report, nil
	}
	defer resp.Body.Close()
	if report, err = sources.ReadReport(resp.Body); err != nil {
		return report, nil
	}
	by = make(map[string]sources.Status)
	for _, s := range report.Sources {
		by[s.Name] = s
	}
	return report, by
}

// awaitStatus waits until the sources of an ingest are as they should be.
func awaitStatus(ctx context.Context, t *testing.T, address, what string, ok func(sources.Report, map[string]sources.Status) bool) map[string]sources.Status {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, errors.New("waiting for "+what))
	defer cancel()
	for {
		report, by := askStatus(ctx, address)
		if by != nil && ok(report, by) {
			return by
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			var text strings.Builder
			_ = report.WriteText(&text)
			t.Fatalf("%v:\n%s", context.Cause(ctx), text.String())
		}
	}
}

// TestManySources runs a recording, a folder, a push server and a source that
// can't work in one process, and changes their list while they run.
func TestManySources(t *testing.T) {
	t.Parallel()
	onBroker(t, func(t *testing.T, addr string) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		client := connect(ctx, t, addr)
		whole := startIngest(t, addr, "whole-")
		require.NoError(t, whole.cmd.Wait(), whole.stderr)
		want := chunks(t, client, stream.NewTopics("whole-").Signal)

		dir := t.TempDir()
		listen, push := freeAddress(t), freeAddress(t)
		path := filepath.Join(dir, "sources.yaml")
		write := func(content string) {
			require.NoError(t, os.WriteFile(path+".new", []byte(content), 0o600))
			require.NoError(t, os.Rename(path+".new", path))
		}
		list := fmt.Sprintf(`kafka: {brokers: [%q], partitions: 3}
listen: %s
sources:
- {kind: play, name: control, signal: %s}
- {kind: folder, name: nas, folders: incoming, journal: journal, poll: 200ms}
- {kind: watch, name: away, folders: not-there, journal: journal-away}
- {kind: serve, name: bench, push_listen: %q, spool: spool}
- {kind: serve, name: wrong, push_listen: "127.0.0.1:0", devices: devices.yaml}
`, addr, listen, lambda("reads.pod5"), push)
		require.NoError(t, os.Mkdir(filepath.Join(dir, "incoming"), 0o700))
		write(list)
		res := command(t, "ingest", "check", path)
		require.Equal(t, 1, res.code)
		require.Contains(t, res.stderr, "devices.yaml: no such file")
		require.Contains(t, res.stderr, "not-there: no such file")

		p := start(t, cancel, "ingest", "run", path)
		await := func(what string, ok func(sources.Report, map[string]sources.Status) bool) map[string]sources.Status {
			t.Helper()
			return awaitStatus(ctx, t, listen, what, ok)
		}
		before := await("the recording's end", func(_ sources.Report, by map[string]sources.Status) bool {
			return by["control"].State == sources.Stopped && by["nas"].State == sources.Waiting && by["bench"].State == sources.Waiting &&
				by["away"].State == sources.BackingOff && by["wrong"].State == sources.Failed
		})
		require.EqualValues(t, len(want), before["control"].Chunks)
		require.Zero(t, before["control"].Gaps+before["control"].LostSamples)
		require.Contains(t, before["away"].Reason, "not-there")
		require.Contains(t, before["wrong"].Reason, "devices.yaml")
		require.Equal(t, want, chunks(t, client, stream.NewTopics("").Signal))

		// A file that can't be used changes nothing.
		write(strings.Replace(list, "poll:", "polll:", 1))
		await("the file's refusal", func(r sources.Report, by map[string]sources.Status) bool {
			return strings.Contains(r.File.Error, path+":5:66: source \"nas\" has no option \"polll\": did you mean \"poll\"?") && by["nas"].Since.Equal(before["nas"].Since)
		})
		write(strings.Replace(list, "partitions: 3", "partitions: 4", 1))
		await("the refusal of another Kafka", func(r sources.Report, _ map[string]sources.Status) bool {
			return r.File.Refused >= 2 && strings.Contains(r.File.Error, "needs a restart of ingest")
		})

		// A file that can be used starts new sources, ends those that are gone, and leaves the rest.
		require.NoError(t, os.Mkdir(filepath.Join(dir, "not-there"), 0o700))
		write(strings.Replace(strings.Replace(list, "name: wrong", "name: other", 1), ", devices: devices.yaml", "", 1))
		after := await("the new list", func(r sources.Report, by map[string]sources.Status) bool {
			_, there := by["wrong"]
			return r.File.Error == "" && !there && by["other"].State == sources.Waiting && by["away"].State == sources.Waiting
		})
		for _, name := range []string{"control", "nas", "bench"} {
			require.Equal(t, before[name].Since, after[name].Since, name)
			require.Zero(t, after[name].Restarts, name)
		}
		require.Equal(t, sources.Stopped, after["control"].State)

		// On an order the file is read again at once, and the folder is followed still.
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGHUP))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "incoming", "again.pod5"), readFile(t, lambda("reads.pod5")), 0o600))
		streamtest.Eventually(ctx, t, "the reads of a run that has ended", func() bool {
			return metric("http://"+listen+"/metrics", `porestream_ingest_watch_late_reads_total`) > 0
		})
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", push)
		require.NoError(t, err)
		conn.Close()
		res = command(t, "ingest", "status", "--address", listen)
		require.Zero(t, res.code)
		require.Contains(t, res.stdout, "SOURCE")
		require.NotZero(t, metric("http://"+listen+"/metrics", "porestream_ingest_chunks_total"))
		p.stop(t)
		require.Equal(t, want, chunks(t, client, stream.NewTopics("").Signal))
	})
}

// TestStoppingIsANormalEnd: sources without an end of their own are stopped by a
// signal and exit with 0, and say what they do meanwhile.
func TestStoppingIsANormalEnd(t *testing.T) {
	t.Parallel()
	addr := streamtest.Kfake(t).ListenAddrs()[0]
	for _, tt := range []struct {
		kind string
		args []string
	}{
		{"folder", []string{"--journal", t.TempDir(), t.TempDir()}},
		{"serve", []string{"--push-listen", "127.0.0.1:0"}},
	} {
		for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
			t.Run(fmt.Sprint(tt.kind, " ", sig), func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				listen := freeAddress(t)
				s := start(t, cancel, "ingest", append([]string{tt.kind, "--brokers", addr, "--listen", listen}, tt.args...)...)
				awaitStatus(ctx, t, listen, "the source", func(_ sources.Report, by map[string]sources.Status) bool {
					return by[tt.kind].State == sources.Waiting
				})
				require.NoError(t, s.cmd.Process.Signal(sig))
				s.ended(t)
				require.NotContains(t, s.stderr.String(), "ERROR")
			})
		}
	}
	res := command(t, "ingest", "status", "--address", freeAddress(t))
	require.Equal(t, 1, res.code)
	require.Contains(t, res.stderr, "ingest status: asking the ingest at 127.0.0.1:")
}
