package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/internal/notify"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/access"
	"github.com/porestream/porestream/stream/kafka"
)

// runNotifier sends a run's alerts to the destinations of a file while the run goes on, and knows what each has
// received. A nil notifier sends nothing.
type runNotifier struct {
	config *notify.Config
	wait   time.Duration // after the run's end

	outcome error // once it has finished: which destinations haven't got all alerts
	stop    func()
	done    chan error // of the service; nil: it was not started

	mu      sync.Mutex
	givenUp map[string]int             // alerts, by destination
	dealt   map[string]map[int32]int64 // by destination and partition: the last record that it has, or that was given up
	changed chan struct{}              // closed and replaced when dealt grows
}

// errStopped is the error of a service that ends by itself.
var errStopped = errors.New("sending has stopped")

// newRunNotifier reads the file of destinations.
func newRunNotifier(path string, wait time.Duration) (*runNotifier, error) {
	config, err := notify.Load(path)
	if err != nil {
		return nil, err
	}
	return &runNotifier{config: config, wait: wait, givenUp: make(map[string]int), dealt: make(map[string]map[int32]int64), changed: make(chan struct{})}, nil
}

// start begins to send the alerts of a deployment, whose topics are there.
func (n *runNotifier) start(ctx context.Context, cfg kafka.Config, deployment access.Deployment, registry prometheus.Registerer, log *slog.Logger) {
	if n == nil {
		return
	}
	ctx, n.stop = context.WithCancel(ctx)
	n.done = make(chan error, 1)
	go func() {
		n.done <- func() error {
			client, err := kafka.Connect(ctx, cfg)
			if err != nil {
				return err
			}
			defer client.Close()
			service := notify.Service{Client: client, Config: n.config, Deployment: deployment, Metrics: notify.NewMetrics(registry), Logger: log, Dealt: n.note}
			return service.Run(ctx)
		}()
	}()
}

// note takes in that a destination has a record, or that it was given up for it.
func (n *runNotifier) note(destination string, rec stream.Record, givenUp bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dealt[destination] == nil {
		n.dealt[destination] = make(map[int32]int64)
	}
	if at, again := n.dealt[destination][rec.Partition]; again && rec.Offset <= at {
		return // a record that came before
	}
	n.dealt[destination][rec.Partition] = rec.Offset
	if givenUp {
		n.givenUp[destination]++
	}
	close(n.changed)
	n.changed = make(chan struct{})
}

// refused is the error of the destinations for which alerts were given up; nil: there is none.
func (n *runNotifier) refused() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var list []string
	for _, name := range slices.Sorted(maps.Keys(n.givenUp)) {
		list = append(list, fmt.Sprintf("%d alerts for %s", n.givenUp[name], name))
	}
	if len(list) == 0 {
		return nil
	}
	return fmt.Errorf("given up were %s: the log says why, and alerts.json has what they came to", strings.Join(list, ", "))
}

// finish waits until each destination has all alerts up to the last record of each partition, and ends.
func (n *runNotifier) finish(ctx context.Context, last map[int32]int64) {
	if n != nil && n.done != nil {
		n.outcome = n.settle(ctx, last)
	}
}

func (n *runNotifier) settle(ctx context.Context, last map[int32]int64) error {
	defer n.stop()
	timeout := time.NewTimer(n.wait)
	defer timeout.Stop()
	for {
		behind, changed := n.behind(last)
		if len(behind) == 0 {
			n.stop()
			return errors.Join(ended(<-n.done), n.refused())
		}
		select {
		case <-changed:
		case err := <-n.done:
			return fmt.Errorf("alerts were not sent to %s: %w", strings.Join(behind, ", "), cmp.Or(errors.Join(err, ctx.Err()), errStopped))
		case <-timeout.C:
			n.stop()
			late := fmt.Errorf("within %v of the run's end not all alerts were sent to %s: the log says why, and alerts.json has them; --notify-wait waits longer", n.wait, strings.Join(behind, ", "))
			return errors.Join(late, ended(<-n.done), n.refused())
		}
	}
}

// abort ends without waiting for a destination.
func (n *runNotifier) abort() {
	if n != nil && n.done != nil {
		n.stop()
		n.outcome = ended(<-n.done)
	}
}

// ended is the error of a service that was asked to stop.
func ended(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// behind lists the destinations that haven't all records yet, and a channel that is closed when that may have changed.
func (n *runNotifier) behind(last map[int32]int64) ([]string, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var list []string
	for i := range n.config.Destinations {
		name := n.config.Destinations[i].Name
		has := n.dealt[name]
		if slices.ContainsFunc(slices.Collect(maps.Keys(last)), func(p int32) bool {
			at, any := has[p]
			return !any || at < last[p]
		}) {
			list = append(list, name)
		}
	}
	return list, n.changed
}
