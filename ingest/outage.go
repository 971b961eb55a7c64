package ingest

import (
	"log/slog"
	"sync"
	"time"
)

// silentFor is for how long a transaction may take before it is said that Kafka
// takes nothing: its client goes on trying for much longer.
const silentFor = 5 * time.Second

// outage is a time in which Kafka takes nothing. It is logged once.
type outage struct {
	mu    sync.Mutex
	since time.Time // zero: there is none
}

// begin notes that Kafka takes nothing; err says why, if that is known.
func (o *outage) begin(log *slog.Logger, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.since.IsZero() {
		return
	}
	o.since = time.Now()
	if err == nil {
		log.Warn("Kafka does not take signal; going on as soon as it does")
		return
	}
	log.Warn("Kafka does not take signal; going on as soon as it does", "err", err)
}

// end notes that Kafka takes signal.
func (o *outage) end(log *slog.Logger) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		return
	}
	log.Info("Kafka takes signal again", "after", time.Since(o.since).Round(time.Millisecond))
	o.since = time.Time{}
}
