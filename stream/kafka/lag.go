package kafka

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/porestream/porestream/stream/partition"
)

const (
	// lagInterval is how old a partition's lag may get before the log's end is asked for:
	// fetches report the end, but not while one hangs or the handler takes no more.
	lagInterval = 10 * time.Second
	// lagTimeout bounds the asking.
	lagTimeout = 5 * time.Second
)

// noteLag exports how far the log's end is from where the worker has come to, and when that
// was known. Of a partition that is given up nothing is exported any more.
func (w *worker) noteLag(end int64, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.machine.State() == partition.Closed {
		return
	}
	w.client.metrics.lag.WithLabelValues(w.place.Topic, strconv.Itoa(int(w.place.Partition))).Set(float64(max(end-w.position, 0)))
	w.lagKnown(now)
}

// lagKnown exports when the lag was known. mu is held.
func (w *worker) lagKnown(now time.Time) {
	w.lagAt = now
	w.client.metrics.lagAt.WithLabelValues(w.place.Topic, strconv.Itoa(int(w.place.Partition))).Set(float64(now.UnixMilli()) / 1000)
}

// reached notes the offset up to which the worker has come. From the first call on the age
// of its lag is known and reported.
func (w *worker) reached(position int64, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.position = position
	if w.lagAt.IsZero() && w.machine.State() != partition.Closed {
		w.lagKnown(now)
	}
}

// lagOlder reports whether the lag was last known before a time. While a partition is being
// restored no lag is known yet.
func (w *worker) lagOlder(than time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.lagAt.IsZero() && w.lagAt.Before(than)
}

// keepLag asks for the ends of logs whose fetches have not reported them for a while, until
// ctx ends. Where the brokers don't answer in time, the lag's age shows it.
func (g *generation) keepLag(ctx context.Context, workers map[topicPartition]*worker) {
	interval := g.cfg.lagInterval
	if interval == 0 {
		interval = lagInterval
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			stale := make(map[string][]*worker)
			for tp, w := range workers {
				if w.lagOlder(now.Add(-interval)) {
					stale[tp.topic] = append(stale[tp.topic], w)
				}
			}
			for topic, list := range stale {
				g.refreshLag(ctx, topic, list)
			}
		}
	}
}

func (g *generation) refreshLag(ctx context.Context, topic string, workers []*worker) {
	asking, cancel := context.WithTimeout(ctx, min(lagTimeout, g.client.cfg.RequestTimeout))
	defer cancel()
	bounds, err := g.client.Offsets(asking, topic)
	if err != nil {
		g.log.Debug("the lag is not known", slog.String("topic", topic), slog.Any("error", err))
		return
	}
	now := time.Now()
	for _, w := range workers {
		if p := int(w.place.Partition); p < len(bounds) {
			w.noteLag(bounds[p].End, now)
		}
	}
}
