package stage

import (
	"slices"
	"sync"
	"time"

	"github.com/porestream/porestream/adaptive"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// evaluation is an evaluation of the beginning of a read.
type evaluation struct {
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
	limit       int
	evaluations []*evaluation
}

// add takes an evaluation. If there are too many then, it removes the one with the oldest signal.
func (w *waiting) add(e *evaluation) (out *evaluation) {
	w.evaluations = append(w.evaluations, e)
	if len(w.evaluations) <= w.limit {
		return nil
	}
	oldest := 0
	for i, e := range w.evaluations {
		if e.at.Before(w.evaluations[oldest].at) {
			oldest = i
		}
	}
	out = w.evaluations[oldest]
	w.evaluations = slices.Delete(w.evaluations, oldest, oldest+1)
	return out
}

// next removes the evaluation with the youngest signal, of several the one that came
// first, and all whose signal is from before a time.
func (w *waiting) next(before time.Time) (e *evaluation, late []*evaluation) {
	youngest := -1
	kept := w.evaluations[:0]
	for _, e := range w.evaluations {
		if e.at.Before(before) {
			late = append(late, e)
			continue
		}
		if youngest < 0 || e.at.After(kept[youngest].at) {
			youngest = len(kept)
		}
		kept = append(kept, e)
	}
	clear(w.evaluations[len(kept):])
	w.evaluations = kept
	if youngest < 0 {
		return nil, late
	}
	e = w.evaluations[youngest]
	w.evaluations = slices.Delete(w.evaluations, youngest, youngest+1)
	return e, late
}

// withdraw removes the evaluations of a handler.
func (w *waiting) withdraw(h *handler) (out []*evaluation) {
	w.evaluations = slices.DeleteFunc(w.evaluations, func(e *evaluation) bool {
		if e.handler == h {
			out = append(out, e)
		}
		return e.handler == h
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
func (d *desk) admit(e *evaluation) {
	d.mu.Lock()
	out := d.waiting.add(e)
	n := len(d.idle)
	var aligner Aligner
	if n > 0 {
		aligner, d.idle = d.idle[n-1], d.idle[:n-1]
	}
	d.metrics.waits(len(d.waiting.evaluations))
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
		e, late := d.waiting.next(time.Now().Add(-d.maxAge))
		if e == nil {
			d.idle = append(d.idle, aligner)
		}
		d.metrics.waits(len(d.waiting.evaluations))
		d.mu.Unlock()
		for _, e := range late {
			e.handler.giveBack(e, skippedLate)
		}
		if e == nil {
			return
		}
		e.handler.work(e, aligner)
	}
}

// withdraw gives back the evaluations of a handler that no worker has taken.
func (d *desk) withdraw(h *handler) {
	d.mu.Lock()
	out := d.waiting.withdraw(h)
	d.metrics.waits(len(d.waiting.evaluations))
	d.mu.Unlock()
	for _, e := range out {
		h.giveBack(e, skippedStopped)
	}
}

// hasCapacity reports whether another read may be held.
func (d *desk) hasCapacity() bool {
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
