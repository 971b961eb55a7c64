package stage

import (
	"slices"
	"sync"
	"time"

	"github.com/porestream/porestream/adaptive"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// look is an evaluation of the beginning of a read.
type look struct {
	handler *handler
	emit    stream.Emitter
	run     *streampb.Run
	channel *channel
	read    *adaptive.Read
	id      string
	number  uint32
	offset  float32 // calibration
	scale   float32
	samples []int16
	last    bool
	at      time.Time // record time of the newest chunk
}

// waiting are evaluations that wait for a worker; the one with the youngest signal
// comes first. It is pure.
type waiting struct {
	limit int
	looks []*look
}

// add takes an evaluation. If there are too many then, it removes the one with the oldest signal.
func (w *waiting) add(l *look) (out *look) {
	w.looks = append(w.looks, l)
	if len(w.looks) <= w.limit {
		return nil
	}
	oldest := 0
	for i, l := range w.looks {
		if l.at.Before(w.looks[oldest].at) {
			oldest = i
		}
	}
	out = w.looks[oldest]
	w.looks = slices.Delete(w.looks, oldest, oldest+1)
	return out
}

// next removes the evaluation with the youngest signal, of several the one that came
// first, and all whose signal is from before a time.
func (w *waiting) next(before time.Time) (l *look, late []*look) {
	youngest := -1
	kept := w.looks[:0]
	for _, l := range w.looks {
		if l.at.Before(before) {
			late = append(late, l)
			continue
		}
		if youngest < 0 || l.at.After(kept[youngest].at) {
			youngest = len(kept)
		}
		kept = append(kept, l)
	}
	clear(w.looks[len(kept):])
	w.looks = kept
	if youngest < 0 {
		return nil, late
	}
	l = w.looks[youngest]
	w.looks = slices.Delete(w.looks, youngest, youngest+1)
	return l, late
}

// withdraw removes the evaluations of a handler.
func (w *waiting) withdraw(h *handler) (out []*look) {
	w.looks = slices.DeleteFunc(w.looks, func(l *look) bool {
		if l.handler == h {
			out = append(out, l)
		}
		return l.handler == h
	})
	return out
}

// desk is where the handlers of a process have evaluations worked on. A worker has a
// goroutine while there is something to do.
type desk struct {
	maxAge  time.Duration
	metrics *Metrics

	mu      sync.Mutex
	waiting waiting
	idle    []Aligner // of workers that have nothing to do
	held    int64     // samples of reads' beginnings
	limit   int64     // of held
}

// admit has an evaluation worked on when there is a worker.
func (d *desk) admit(l *look) {
	d.mu.Lock()
	out := d.waiting.add(l)
	n := len(d.idle)
	var aligner Aligner
	if n > 0 {
		aligner, d.idle = d.idle[n-1], d.idle[:n-1]
	}
	d.metrics.waits(len(d.waiting.looks))
	d.mu.Unlock()
	if out != nil {
		out.handler.giveBack(out, skippedCrowded)
	}
	if aligner != nil {
		go d.work(aligner)
	}
}

// work works on evaluations while there are any.
func (d *desk) work(aligner Aligner) {
	for {
		d.mu.Lock()
		l, late := d.waiting.next(time.Now().Add(-d.maxAge))
		if l == nil {
			d.idle = append(d.idle, aligner)
		}
		d.metrics.waits(len(d.waiting.looks))
		d.mu.Unlock()
		for _, l := range late {
			l.handler.giveBack(l, skippedLate)
		}
		if l == nil {
			return
		}
		l.handler.work(l, aligner)
	}
}

// withdraw gives back the evaluations of a handler that no worker has taken.
func (d *desk) withdraw(h *handler) {
	d.mu.Lock()
	out := d.waiting.withdraw(h)
	d.metrics.waits(len(d.waiting.looks))
	d.mu.Unlock()
	for _, l := range out {
		h.giveBack(l, skippedStopped)
	}
}

// room reports whether another read may be held.
func (d *desk) room() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.held < d.limit
}

// holds notes that so many more samples are held.
func (d *desk) holds(samples int) {
	if samples == 0 {
		return
	}
	d.mu.Lock()
	d.held += int64(samples)
	d.metrics.holds(d.held)
	d.mu.Unlock()
}
