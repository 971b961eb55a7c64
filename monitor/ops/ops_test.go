package ops

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// serve starts a server that ends with the test.
func serve(t *testing.T, ready Ready) (base string, stop func() error) {
	t.Helper()
	reg := NewRegistry("1.2.3")
	reads := prometheus.NewCounter(prometheus.CounterOpts{Name: "porestream_reads_total", Help: "Reads."})
	reg.MustRegister(reads)
	reads.Add(7)
	s, err := Listen("127.0.0.1:0", reg, ready, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop = func() error {
		cancel()
		return <-done
	}
	return "http://" + s.Addr(), stop
}

func get(t *testing.T, method, url string) (int, string, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Content-Type"), string(body)
}

func TestEndpoints(t *testing.T) {
	waiting := Ready(func() error { return errors.New("the basecall stage waits for its consumer group") })
	for _, c := range []struct {
		name         string
		ready        Ready
		method, path string
		status       int
		contentType  string
		body         string
	}{
		{"alive", waiting, "GET", "/healthz", 200, "application/json", `{"status":"ok"}` + "\n"},
		{"ready", func() error { return nil }, "GET", "/readyz", 200, "application/json", `{"status":"ok"}` + "\n"},
		{"always ready", nil, "GET", "/readyz", 200, "application/json", `{"status":"ok"}` + "\n"},
		{"not ready", waiting, "GET", "/readyz", 503, "application/json", `{"reason":"the basecall stage waits for its consumer group","status":"waiting"}` + "\n"},
		{"head", waiting, "HEAD", "/healthz", 200, "application/json", ""},
		{"metrics", waiting, "GET", "/metrics", 200, "text/plain", "porestream_reads_total 7\n"},
		{"version", waiting, "GET", "/metrics", 200, "text/plain", `version="1.2.3"} 1` + "\n"},
		{"runtime", waiting, "GET", "/metrics", 200, "text/plain", "go_goroutines "},
		{"process", waiting, "GET", "/metrics", 200, "text/plain", "process_cpu_seconds_total "},
		{"elsewhere", waiting, "GET", "/", 404, "text/plain", "404"},
		{"no profiles", waiting, "GET", "/debug/pprof/", 404, "text/plain", "404"},
		{"writing", waiting, "POST", "/healthz", 405, "text/plain", "Method Not Allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			base, stop := serve(t, c.ready)
			status, contentType, body := get(t, c.method, base+c.path)
			if status != c.status || !strings.HasPrefix(contentType, c.contentType) || !strings.Contains(body, c.body) {
				t.Errorf("%s %s: %d %s %q, want %d %s %q", c.method, c.path, status, contentType, body, c.status, c.contentType, c.body)
			}
			http.DefaultClient.CloseIdleConnections()
			if err := stop(); err != nil {
				t.Errorf("stopping: %v", err)
			}
		})
	}
}

// TestRunFinishesAnswers: an answer in progress when the service is asked to
// stop is still given, before Run returns.
func TestRunFinishesAnswers(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	base, stop := serve(t, func() error {
		close(asked)
		<-release
		return nil
	})
	status := make(chan int, 1)
	go func() {
		resp, err := http.Get(base + "/readyz") //nolint:noctx // ends with the test
		if err != nil {
			status <- 0
			return
		}
		resp.Body.Close()
		status <- resp.StatusCode
	}()
	<-asked
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	close(release)
	if got := <-status; got != 200 {
		t.Errorf("the answer in progress: status %d", got)
	}
	if err := <-stopped; err != nil {
		t.Errorf("stopping: %v", err)
	}
}

func TestListenFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Listen(l.Addr().String(), prometheus.NewRegistry(), nil, slog.New(slog.DiscardHandler)); err == nil ||
		!strings.HasPrefix(err.Error(), "listening for health and metrics: ") || !strings.HasSuffix(err.Error(), "; name another address with --listen") {
		t.Errorf("a port in use: %v", err)
	}
}

func TestRunEndsBeforeItBegan(t *testing.T) {
	s, err := Listen("127.0.0.1:0", prometheus.NewRegistry(), nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Error(err)
	}
	dialer := net.Dialer{Timeout: time.Second}
	if conn, err := dialer.DialContext(t.Context(), "tcp", s.Addr()); err == nil {
		conn.Close()
		t.Error("the port is still open")
	}
}

func TestRegistry(t *testing.T) {
	if problems, err := testutil.GatherAndLint(NewRegistry("1.2.3"), "porestream_build_info"); err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v %v", problems, err)
	}
}
