// Package ops is what a service shows its operator over HTTP: health, readiness
// and metrics.
package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/porestream/porestream/version"
)

// Server answers /healthz, /readyz and /metrics.
type Server struct {
	http     *http.Server
	mux      *http.ServeMux
	listener net.Listener
	// local shows profiles where the server's own address is not for them; nil: none.
	local         *http.Server
	localListener net.Listener
}

// Ready says what a service is still waiting for; nil when it is ready. A nil
// Ready is always ready.
type Ready func() error

// NewRegistry returns a registry with the Go runtime's and the process's own
// metrics, and what the program was built from.
func NewRegistry(number string) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "porestream_build_info", Help: "Always 1; the labels name the version, the commit and whether the source had been changed since, as far as they are known, and the Go release.",
	}, []string{"version", "commit", "modified", "go"})
	source := version.Read()
	build.WithLabelValues(number, source.Short(), strconv.FormatBool(source.Modified), source.Go).Set(1)
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), build)
	return reg
}

// Listen opens the address, for example ":9100", so that a port in use is known
// at once.
func Listen(addr string, reg *prometheus.Registry, ready Ready, logger *slog.Logger) (*Server, error) {
	listener, err := net.Listen("tcp", addr) //nolint:noctx // returns at once
	if err != nil {
		hint := ""
		if errors.Is(err, syscall.EADDRINUSE) {
			hint = "; name another address with --listen"
		}
		return nil, fmt.Errorf("listening for health and metrics: %w%s", err, hint)
	}
	if ready == nil {
		ready = func() error { return nil }
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, ready()) })
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{Registry: reg, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelWarn)}))
	return &Server{
		listener: listener,
		mux:      mux,
		http:     newHTTP(mux, logger),
	}, nil
}

func newHTTP(handler http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
}

// Handle adds what a service shows besides, under a pattern of [http.ServeMux], for
// example "GET /status".
func (s *Server) Handle(pattern string, handler http.Handler) { s.mux.Handle(pattern, handler) }

// Addr is the address listened on.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Run serves until ctx ends and the answers in progress are given.
func (s *Server) Run(ctx context.Context) error {
	gone := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(gone)
		// The answers in progress get a second; ctx is over, so it can't bound them.
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = s.http.Shutdown(grace)
	})
	defer stop()
	local := make(chan error, 1)
	go func() { local <- s.runLocal(ctx) }()
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving health and metrics: %w", err)
	}
	<-gone
	return <-local
}

func answer(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	body := map[string]string{"status": "ok"}
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		body = map[string]string{"status": "waiting", "reason": err.Error()}
	}
	_ = json.NewEncoder(w).Encode(body)
}
