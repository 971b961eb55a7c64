package ingest

import (
	"errors"
	"log/slog"
	"sync"

	"github.com/porestream/porestream/ingest/spool"
)

// alarmLevels are the shares of the spool, in percent, at which it raises its
// voice.
var alarmLevels = [...]int64{50, 80, 95}

// spoolAlarm logs how full the spool is that several runs share.
type spoolAlarm struct {
	quota   *spool.Quota
	log     *slog.Logger
	metrics *Metrics

	mu      sync.Mutex
	level   int   // alarmLevels that were passed
	refused error // why the last write was; nil if it wasn't
}

// update checks how full the spool is, and logs it once for each level that is
// passed on the way up.
func (a *spoolAlarm) update() {
	used, limit := a.quota.Used(), a.quota.Limit()
	a.metrics.spool(used, limit)
	a.mu.Lock()
	defer a.mu.Unlock()
	level := 0
	for level < len(alarmLevels) && used*100 >= alarmLevels[level]*limit {
		level++
	}
	if level > a.level {
		a.log.Warn("the spool fills up: Kafka is away or slower than the signal", "percent", used*100/limit, "bytes", used, "limit", limit)
	}
	if used == 0 && a.level > 0 {
		a.log.Info("the spool is empty again")
	}
	// Silent on the way down until it has become clearly emptier, so that a level
	// that is passed to and fro is one message.
	if level > a.level || level < a.level-1 || used == 0 {
		a.level = level
	}
}

// spooled notes what became of a write.
func (a *spoolAlarm) spooled(err error) {
	a.update()
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		if a.refused != nil {
			a.log.Info("the spool takes signal again")
		}
		a.refused = nil
		return
	}
	reason := "disk"
	if errors.Is(err, spool.ErrFull) {
		reason = "full"
	}
	a.metrics.spoolRefused(reason)
	if a.refused == nil {
		a.log.Error("the spool takes nothing; the source waits (live signal is lost) until Kafka is back or there is space", "err", err)
	}
	a.refused = err
}

// obstacle is why the last write was refused; nil if it wasn't. A nil alarm has
// none.
func (a *spoolAlarm) obstacle() error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}
