// Package embedded runs a Kafka broker inside the process, so that a whole
// pipeline works on one machine without installing anything.
//
// It is meant for trials, field laptops and tests: one node, reachable from
// this machine only, with its log in a folder. Everything else about the
// pipeline is the same as on a cluster. Topics are never created by asking for
// them.
//
// Durability is that of the operating system's page cache: the log survives the
// process being killed, not the machine losing power. A log that can't be written, on a
// full disk, ends the broker: see [Broker.Failed].
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/porestream/porestream/filelock"
)

const (
	defaultListen = "127.0.0.1:0"

	// markerFile distinguishes our data folder from any other, so that a mistyped
	// path is not filled with a log; lockFile keeps a second broker out.
	markerFile = "porestream-broker"
	lockFile   = "lock"

	// housekeeping is how often expired and superseded records are removed.
	housekeeping = 5 * time.Minute
)

// Config says where the broker keeps its log and listens.
type Config struct {
	// DataDir holds the log and outlives the broker; it is created if missing.
	DataDir string
	// Listen is a loopback host:port; empty means "127.0.0.1:0", any free port.
	Listen string
	// Logger receives the broker's warnings; nil discards them.
	Logger *slog.Logger
}

// Broker is a running broker.
type Broker struct {
	cluster *kfake.Cluster
	lock    *os.File
	addr    string
	stop    chan struct{}
	tidying sync.WaitGroup
	once    sync.Once
	err     error
	failure *failure
}

// Start runs a broker until Close.
func Start(cfg Config) (*Broker, error) {
	b, err := start(cfg)
	if err != nil {
		return nil, fmt.Errorf("starting embedded broker: %w", err)
	}
	return b, nil
}

func start(cfg Config) (_ *Broker, err error) {
	if cfg.DataDir == "" {
		return nil, errors.New("no data folder")
	}
	if cfg.Listen == "" {
		cfg.Listen = defaultListen
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if err := checkLoopback(cfg.Listen); err != nil {
		return nil, err
	}
	lock, err := claim(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	ln, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, err
	}
	failure := newFailure(cfg.DataDir)
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.DataDir(filepath.Join(cfg.DataDir, "log")),
		kfake.ListenFn(Patient(func(string, string) (net.Listener, error) { return mutedListener{ln, failure}, nil })),
		kfake.GroupMinSessionTimeout(time.Second),
		kfake.WithLogger(logger{cfg.Logger, failure}),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the log in %s: %w; to begin anew, remove that folder", cfg.DataDir, err), ln.Close())
	}
	b := &Broker{cluster: cluster, lock: lock, addr: ln.Addr().String(), stop: make(chan struct{}), failure: failure}
	b.tidying.Go(b.tidy)
	return b, nil
}

// claim makes the folder ours and locks it until the file is closed, also by
// the process being killed.
func claim(dir string) (*os.File, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("opening data folder: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, markerFile)); err != nil && len(entries) > 0 {
		return nil, fmt.Errorf("data folder %s holds files that are not a broker's: name another one", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making data folder: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, markerFile), []byte("1\n"), 0o644); err != nil {
		return nil, fmt.Errorf("marking data folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking data folder: %w", err)
	}
	switch err := filelock.Try(f); {
	case errors.Is(err, filelock.ErrHeld):
		return nil, errors.Join(fmt.Errorf("data folder %s is in use by another broker: %w", dir, err), f.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("data folder %s: %w", dir, err), f.Close())
	}
	return f, nil
}

// checkLoopback refuses addresses that others could reach: the broker lets
// everybody in.
func checkLoopback(listen string) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("listen address %q: want host:port", listen)
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("listen address %q is not a loopback address; the embedded broker has no access control", listen)
}

// tidy removes what retention and compaction allow to be removed, which the
// broker does not do by itself.
func (b *Broker) tidy() {
	ticker := time.NewTicker(housekeeping)
	defer ticker.Stop()
	for {
		select {
		case <-b.stop:
			return
		case <-ticker.C:
			b.cluster.ApplyRetention()
			b.cluster.Compact()
		}
	}
}

// Addr is the broker's host:port.
func (b *Broker) Addr() string { return b.addr }

// Close stops the broker and leaves its log in order. It is safe to call twice.
func (b *Broker) Close() error {
	b.once.Do(func() {
		close(b.stop)
		b.tidying.Wait()
		b.cluster.Close()
		b.err = b.lock.Close()
	})
	return b.err
}

// logger passes on what an operator should know. The broker's information
// level has lines per request, which is debugging to us.
type logger struct {
	log     *slog.Logger
	failure *failure
}

func (l logger) Logf(level kfake.LogLevel, format string, args ...any) {
	l.failure.logged(level, format, args)
	to := slog.LevelDebug
	switch level {
	case kfake.LogLevelError:
		to = slog.LevelError
	case kfake.LogLevelWarn:
		to = slog.LevelWarn
	}
	ctx := context.Background()
	if !l.log.Enabled(ctx, to) {
		return // formatting a line per request would cost more than the request
	}
	l.log.LogAttrs(ctx, to, "embedded broker", slog.String("event", strings.TrimSpace(fmt.Sprintf(format, args...))))
}
