package adaptive

import (
	"errors"
	"fmt"
)

// Schedule says when a read is evaluated: when First samples of it are there, and again
// whenever there are twice as many, up to Limit. All evaluations together take less
// than twice the samples of the last one.
type Schedule struct{ First, Limit int }

// DefaultSchedule evaluates after 0.4, 0.8, 1.6 and 3.2 s at 4 kHz.
func DefaultSchedule() Schedule { return Schedule{First: 1600, Limit: 12800} }

// maxLimit bounds what may be held of a read, in samples: a minute at 5 kHz.
const maxLimit = 300_000

// Validate says what is wrong with a schedule.
func (s Schedule) Validate() error {
	switch {
	case s.First < 1:
		return fmt.Errorf("a first evaluation after %d samples", s.First)
	case s.Limit < s.First:
		return fmt.Errorf("the last evaluation after %d samples comes before the first one, after %d", s.Limit, s.First)
	case s.Limit > maxLimit:
		return errors.New("the last evaluation comes more than 300000 samples after a read's beginning")
	}
	return nil
}

// Evaluations is the number of evaluations that a read gets at most.
func (s Schedule) Evaluations() int {
	n := 1
	for at := s.First; at <= s.Limit/2; at *= 2 {
		n++
	}
	return n
}

// after is when the next evaluation is due, once there was one at a number of samples.
func (s Schedule) after(samples int) int {
	at := s.First
	for at <= samples {
		at *= 2
	}
	return at
}

// Read is the beginning of a read in progress, as far as it has come, and what has
// been decided about it. The zero value is of no use: see [NewRead].
type Read struct {
	schedule    Schedule
	start       int     // of samples, within the read
	samples     []int16 // without a gap; never changed where an evaluation has seen them
	evaluations int     // evaluations with a verdict
	evaluatedAt int     // samples at the last of them
	evaluating  int     // samples of the evaluation that is under way; 0: none
	from        int     // where these begin within the read
	over        bool    // nothing is to be evaluated any more
	decided     bool
}

// NewRead returns a read of which nothing has come.
func NewRead(s Schedule) *Read { return &Read{schedule: s} }

// Add takes samples that begin at a sample of the read. What is here already is left
// out. Where samples are missing, the read begins anew behind the gap, as no base is
// called across one; beyond the schedule's limit it is too late for that.
func (r *Read) Add(first uint64, samples []int16) {
	limit := uint64(r.schedule.Limit)
	end := uint64(r.start + len(r.samples))
	if r.over || len(samples) == 0 {
		return
	}
	switch {
	case first > end && first >= limit:
		if r.evaluating == 0 {
			r.finish()
		}
		return
	case first > end:
		// Not in place: an evaluation may be under way with what is here.
		r.start, r.samples, r.evaluatedAt = int(first), nil, 0
	case first < end:
		samples = samples[min(end-first, uint64(len(samples))):]
	}
	space := r.schedule.Limit - len(r.samples)
	r.samples = append(r.samples, samples[:min(space, len(samples))]...)
}

// Held is the number of samples that are held.
func (r *Read) Held() int { return len(r.samples) }

// Begin begins an evaluation, if one is due: with the samples from the read's beginning
// on, or from the last gap on, which are not to be changed. It has to be ended by
// Evaluated or Done before the next one.
func (r *Read) Begin() (samples []int16, last, due bool) {
	have := len(r.samples)
	if r.over || r.evaluating > 0 || have < r.schedule.after(r.evaluatedAt) {
		return nil, false, false
	}
	r.evaluating, r.from = have, r.start
	last = r.schedule.after(have) > r.schedule.Limit || r.evaluations+1 >= r.schedule.Evaluations()
	return r.samples[:have:have], last, true
}

// Done gives back an evaluation without a verdict: it does not count, and is due again.
func (r *Read) Done() { r.evaluating = 0 }

// Evaluated ends an evaluation with the policy's verdict, and reports whether that is the
// read's decision.
func (r *Read) Evaluated(v Verdict) bool {
	if r.evaluating == 0 {
		return false
	}
	r.evaluations++
	r.evaluatedAt = r.evaluating
	if r.from != r.start {
		r.evaluatedAt = 0 // it was of samples before a gap
	}
	r.evaluating = 0
	r.decided = v.Action != Wait
	if r.decided || r.evaluations >= r.schedule.Evaluations() {
		r.finish()
	}
	return r.decided
}

// End ends the read: it is not evaluated any more, and an evaluation that is under way
// decides nothing.
func (r *Read) End() {
	r.evaluating = 0
	r.finish()
}

func (r *Read) finish() { r.over, r.samples = true, nil }

// Decided reports whether the read has its decision.
func (r *Read) Decided() bool { return r.decided }

// Over reports whether the read is not going to be evaluated any more.
func (r *Read) Over() bool { return r.over }
