package check

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/porestream/porestream/chaos/history"
)

// input is a partition of a group's input.
type input struct {
	group, topic string
	partition    int32
}

func (i input) String() string { return fmt.Sprintf("group %s, %s/%d", i.group, i.topic, i.partition) }

func inputOf(e history.Event) input { return input{e.Group, e.Topic, e.Partition} }

// checkOffsets checks every commit that took effect, and at what was seen from outside meanwhile.
func checkOffsets(r *report, run *Contents, events []history.Event) {
	last := make(map[input]int64)
	for i, c := range run.Commits {
		in := input{c.Group, c.Topic, c.Partition}
		if before, known := last[in]; known && c.Offset < before {
			r.add(Offsets, in.String(), fmt.Sprintf("the committed offset goes back from %d to %d", before, c.Offset), "commit %d of %d", i+1, len(run.Commits))
		}
		last[in] = c.Offset
	}
	seen := make(map[input]history.Event)
	for _, e := range events {
		if e.Kind != history.Sample {
			continue
		}
		in := inputOf(e)
		if before, known := seen[in]; known && e.Offset < before.Offset {
			r.add(Offsets, in.String(), fmt.Sprintf("the committed offset goes back from %d to %d", before.Offset, e.Offset), "seen %v and %v after the start", before.Since(), e.Since())
		}
		seen[in] = e
	}
	unprocessed := make(map[string]string)
	for in, e := range seen {
		for _, rec := range run.Records[in.topic] {
			if rec.Partition == in.partition && rec.Offset >= e.Offset {
				unprocessed[in.String()] = fmt.Sprintf("committed %d, and there is a record at offset %d", e.Offset, rec.Offset)
			}
		}
	}
	for _, where := range slices.Sorted(maps.Keys(unprocessed)) {
		r.add(Offsets, where, "not everything was processed", "%s", unprocessed[where])
	}
}

func checkTransactions(r *report, run *Contents) {
	for _, b := range run.Bounds {
		if b.Stable != b.End {
			r.add(Transactions, fmt.Sprintf("%s/%d", b.Topic, b.Partition), "a transaction is still open", "last stable offset %d, end %d", b.Stable, b.End)
		}
	}
}

func checkStates(r *report, states []Section) {
	for _, s := range states {
		if !bytes.Equal(s.Restored, s.Replayed) {
			r.add(State, fmt.Sprintf("%s stage, %s/%d, section %s", s.Stage, s.Topic, s.Partition, s.Name),
				"rebuilt from its snapshot it differs from one that has seen every record", "%s", firstDifference(string(s.Restored), string(s.Replayed)))
		}
	}
}

func checkProcesses(r *report, events []history.Event) {
	for _, e := range events {
		if e.Kind == history.StopsLate {
			r.add(Processes, e.Name, "it did not stop when it was asked to", "%s, %v after the start", e.Detail, e.Since())
		}
		if e.Kind != history.ProcessExits {
			continue
		}
		for _, sign := range []string{"panic: ", "fatal error: ", "WARNING: DATA RACE", "signal SIGSEGV"} {
			if i := strings.Index(e.Detail, sign); i >= 0 {
				line, _, _ := strings.Cut(e.Detail[i:], "\n")
				r.add(Processes, fmt.Sprintf("%s, process %d", e.Name, e.PID), line, "%v after the start", e.Since())
			}
		}
	}
}

// Interval is a stretch of a history.
type Interval struct{ From, To time.Duration }

// Faults returns when faults lasted, merged where they overlap.
func Faults(events []history.Event) []Interval {
	var all []Interval
	begun := make(map[int]time.Duration)
	for _, e := range events {
		switch e.Kind {
		case history.FaultBegins:
			begun[e.Fault] = e.Since()
		case history.FaultEnds:
			all = append(all, Interval{begun[e.Fault], e.Since()})
			delete(begun, e.Fault)
		}
	}
	for _, from := range begun { // never put right
		all = append(all, Interval{from, events[len(events)-1].Since()})
	}
	slices.SortFunc(all, func(a, b Interval) int { return cmp.Compare(a.From, b.From) })
	var merged []Interval
	for _, i := range all {
		if n := len(merged); n > 0 && i.From <= merged[n-1].To {
			merged[n-1].To = max(merged[n-1].To, i.To)
			continue
		}
		merged = append(merged, i)
	}
	return merged
}

// untroubled is the longest stretch without a fault within an interval: what went on before a fault is no longer to be blamed on the
// one before, and a new fault starts the clock anew.
func untroubled(i Interval, faults []Interval) time.Duration {
	longest, from := time.Duration(0), i.From
	for _, f := range faults {
		if f.To <= from || f.From >= i.To {
			continue
		}
		longest = max(longest, f.From-from)
		from = f.To
	}
	return max(longest, i.To-from)
}

// Stall is a time during which a partition with records to process stood still.
type Stall struct {
	Where string
	Interval
}

// leastStall is the shortest stall worth reporting.
const leastStall = time.Second

// Stalls returns when partitions stood still, the longest first.
func Stalls(events []history.Event) []Stall {
	var stalls []Stall
	since := make(map[input]history.Event) // the first sample with something to do since the committed offset moved
	end := func(in input, to time.Duration) {
		if from := since[in].Since(); to-from >= leastStall {
			stalls = append(stalls, Stall{in.String(), Interval{from, to}})
		}
		delete(since, in)
	}
	for _, e := range events {
		if e.Kind != history.Sample {
			continue
		}
		in := inputOf(e)
		before, waiting := since[in]
		if waiting && e.Offset > before.Offset {
			end(in, e.Since())
			waiting = false
		}
		if !waiting && max(e.Offset, 0) < e.End {
			since[in] = e
		}
	}
	for in := range since {
		end(in, events[len(events)-1].Since())
	}
	slices.SortFunc(stalls, func(a, b Stall) int {
		return cmp.Or(cmp.Compare(b.To-b.From, a.To-a.From), cmp.Compare(a.Where, b.Where))
	})
	return stalls
}

// Recovery is how long after a fault's begin work went on.
type Recovery struct {
	Fault        int
	Name, Target string
	// Interval ends with the first committed record that the fault's victim, or who takes its place, has to write; or with the history if
	// there was none: then First is false.
	Interval
	First bool
	// Moved is when the last partition that had waited for its group when the fault began had moved on.
	Moved time.Duration
}

// underWay is how long what was written before a fault may take to be seen.
const underWay = 500 * time.Millisecond

// Recoveries returns one for each fault that was begun while there was signal to come, in order. signal names the topic that ingests
// write, which is not what one waits for after a fault of a processor.
func Recoveries(events []history.Event, signal string) []Recovery {
	var list []Recovery
	for i, e := range events {
		if e.Kind == history.RunEnds || e.Kind == history.SignalEnds {
			break
		}
		if e.Kind != history.FaultBegins {
			continue
		}
		r := Recovery{Fault: e.Fault, Name: e.Name, Target: e.Target, Interval: Interval{e.Since(), events[len(events)-1].Since()}, Moved: movedOn(events, i)}
		for _, o := range events[i:] {
			if o.Kind == history.Output && o.Since() > e.Since()+underWay && (o.Topic == signal) == strings.Contains(e.Name, "ingest") {
				r.To, r.First = o.Since(), true
				break
			}
		}
		list = append(list, r)
	}
	return list
}

// movedOn is when the last partition that waited at an event had a new committed offset.
func movedOn(events []history.Event, from int) time.Duration {
	waiting := make(map[input]int64)
	for _, e := range events[:from] {
		if e.Kind != history.Sample {
			continue
		}
		delete(waiting, inputOf(e))
		if max(e.Offset, 0) < e.End {
			waiting[inputOf(e)] = e.Offset
		}
	}
	moved := events[from].Since()
	for _, e := range events[from:] {
		if offset, waits := waiting[inputOf(e)]; e.Kind == history.Sample && waits && e.Offset > offset {
			delete(waiting, inputOf(e))
			moved = e.Since()
		}
	}
	return moved
}

// checkProgress holds the history against the limits.
func checkProgress(r *report, signal string, events []history.Event, limits Limits) {
	if len(events) == 0 {
		return
	}
	if !slices.ContainsFunc(events, func(e history.Event) bool { return e.Kind == history.RunEnds }) {
		r.add(Progress, "the whole run", "it has not come to its end", "%s", behind(events))
	}
	faults := Faults(events)
	for _, s := range Stalls(events) {
		if t := untroubled(s.Interval, faults); t > limits.Stall {
			r.add(Progress, s.Where, fmt.Sprintf("it stood still for %v without a fault", t), "from %v to %v; at most %v are allowed", s.From, s.To, limits.Stall)
		}
	}
	for _, c := range Recoveries(events, signal) {
		if t := untroubled(c.Interval, faults); t > limits.FirstOutput {
			r.add(Progress, fmt.Sprintf("fault %d, %s of %s", c.Fault, c.Name, c.Target), fmt.Sprintf("no output for %v without a fault", t),
				"from %v to %v; at most %v are allowed", c.From, c.To, limits.FirstOutput)
		}
	}
}

// behind lists the partitions that have not been processed to their end.
func behind(events []history.Event) string {
	last := make(map[string]history.Event)
	for _, e := range events {
		if e.Kind == history.Sample {
			last[inputOf(e).String()] = e
		}
	}
	var list []string
	for _, where := range slices.Sorted(maps.Keys(last)) {
		if e := last[where]; e.Offset < e.End {
			list = append(list, fmt.Sprintf("%s: committed %d of %d", where, e.Offset, e.End))
		}
	}
	if len(list) == 0 {
		return "everything on the topics was processed"
	}
	return strings.Join(list, "; ")
}
