package monitor

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// What Rates.Pace says.
const (
	PaceIdle      = "idle"      // nothing comes in
	PaceKept      = "kept"      // what comes in is basecalled
	PaceUnsettled = "unsettled" // less is basecalled, and it is too early to say why: long reads have begun, or it has just become so
	PaceBehind    = "behind"    // signal comes in faster than it is basecalled: shown as the problem PorestreamNotKeepingUp
)

// The thresholds of the alert PorestreamNotKeepingUp. The page uses a fifth of its time: a
// minute instead of five, for as long as a minute.
const (
	leastKept   = 0.95 // of the signal that comes in
	longestWait = 10.0 // seconds of work
	behindHold  = time.Minute
)

// keepUpProblem is the id of the problem that Rates.Pace and Health go by.
const keepUpProblem = "keep-up"

// pace is how what is done compares with what comes in.
type pace struct {
	kept *float64 // basecalled over what comes in, over the long window; nil: nothing comes in
	// takenIn is what the basecall stage has read over what comes in, which does not wait
	// for reads to end; NaN: no stage reports it.
	takenIn float64
	// waits are seconds of work: what waits in each topic or in the stage that has read
	// it, and the ended reads that wait for their basecall. Inf: none of it is done.
	waits []float64
}

// behind reports the same as the alert's expression: less than what comes in is basecalled,
// and signal is left behind or what waits grows older. A ratio below 1 alone is not enough:
// the start of long reads has one, too.
func (p pace) behind() bool {
	if p.kept == nil || *p.kept >= leastKept {
		return false
	}
	late := p.takenIn < leastKept
	for _, seconds := range p.waits {
		late = late || seconds > longestWait
	}
	return late
}

func (v *View) pace(list []*process) pace {
	p := pace{kept: keepUp(list), takenIn: math.NaN()}
	if in := rateOf(list, longWindow, mIngestSamples); in > 0 && exported(list, mChunkSamples) {
		p.takenIn = rateOf(list, longWindow, mChunkSamples) / in
	}
	for _, topic := range v.flow() {
		waiting := nowOf(list, mLag, "topic", topic.name) + nowOf(list, mUnresolved, "topic", topic.name)
		p.waits = append(p.waits, waiting/rateOf(list, longWindow, mRecords, "topic", topic.name, "direction", "in"))
	}
	ended := nowOf(list, mUnresolved, "topic", v.topics.Signal)
	p.waits = append(p.waits, ended/rateOf(list, longWindow, mBasecallReads))
	return p
}

// exported reports whether any process has the metric.
func exported(list []*process, name string, want ...string) (found bool) {
	for _, p := range list {
		p.each(name, plain, want, func(int, *series) { found = true })
	}
	return found
}

// nowOf is the newest value of a gauge over all processes.
func nowOf(list []*process, name string, want ...string) float64 {
	sum := 0.0
	for _, p := range list {
		sum += p.now(name, want...)
	}
	return sum
}

func (p pace) findings() []finding {
	if !p.behind() {
		return nil
	}
	return []finding{{
		id: keepUpProblem, advice: "PorestreamNotKeepingUp", severity: SeverityWarning, wait: behindHold, stage: "basecall",
		title: fmt.Sprintf("only %.0f %% of the signal that comes in is basecalled", 100**p.kept),
	}}
}

// paceWord is Rates.Pace, after the problems.
func (v *View) paceWord(kept *float64) string {
	switch {
	case v.problems[keepUpProblem] != nil:
		return PaceBehind
	case kept == nil:
		return PaceIdle
	case *kept < leastKept:
		return PaceUnsettled
	}
	return PaceKept
}

// fallingBehind is the health where basecalling does not keep up and nothing worse is
// wrong; what waits in topics is no other trouble but the same, after a while.
func (v *View) fallingBehind(errs []*Problem) (Health, bool) {
	p := v.problems[keepUpProblem]
	if p == nil {
		return Health{}, false
	}
	h := Health{HealthWarning, "Falling behind", capital(p.Title) + ". " + firstSentence(p.Do)}
	for _, e := range errs {
		if !strings.HasPrefix(e.ID, "lag/") {
			return Health{}, false
		}
		h.State = HealthError
	}
	return h, true
}

// shortWait is how many seconds of work may wait in a topic before the page says so: what a
// full batch and a commit take.
const shortWait = 3.0

// catchingUp is the health where nothing is wrong and yet results come late: much was there at
// once, as when a recording is replayed faster than it was made.
func catchingUp(lag []Lag) (Health, bool) {
	var most *Lag
	for i := range lag {
		l := &lag[i]
		if l.Records == 0 || l.Seconds != nil && *l.Seconds <= shortWait {
			continue
		}
		if most == nil || l.Seconds == nil || most.Seconds != nil && *l.Seconds > *most.Seconds {
			most = l
		}
	}
	if most == nil {
		return Health{}, false
	}
	work := "and none of it has been read in the last minute"
	if most.Seconds != nil {
		work = "about " + spell(*most.Seconds) + " of work"
	}
	return Health{HealthGood, "Catching up", fmt.Sprintf("%d records wait for %s, %s; calls come later by as much.", most.Records, most.Stage, work)}, true
}

func firstSentence(s string) string {
	if first, _, more := strings.Cut(s, ". "); more {
		return first + "."
	}
	return s
}
