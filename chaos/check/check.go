// Package check checks a chaos run by what it has left behind: the history that the harness kept, and what an independent reader
// found on the topics. It knows nothing of how the programs work, only what they promise; it does no I/O and starts nothing.
package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/porestream/porestream/chaos/history"
	"github.com/porestream/porestream/stream"
)

// Contents is what a cluster holds when a run is over, as a reader of committed records finds it.
type Contents struct {
	Topics stream.Topics
	// Records are the committed records by topic, ordered within each partition.
	Records map[string][]stream.Record
	// Bounds lists every partition of every topic.
	Bounds []Bounds
	// Commits are all offset commits, in the order in which they took effect; empty where the broker keeps no log of them.
	Commits []Commit
	// VCF is the final VCF of every sample.
	VCF map[string][]byte
	// Methylation is the bedMethyl of every sample, and of its haplotypes if there is any of them: what the topic comes to, and of the reference
	// what was counted in a file of the same reads.
	Methylation map[string][]byte
	// Successive says that a sample has runs one behind the other, so that it may end more than once: whether what stands was final once before
	// depends on how far the stages were when the next run began.
	Successive bool
	// Committed and Aborted count the ends of transactions, once per partition that took part.
	Committed, Aborted int
}

// Bounds is where a partition begins and ends.
type Bounds struct {
	Topic     string
	Partition int32
	// Start is the first offset, Stable the one before which every transaction is over, End the next to be written.
	Start, Stable, End int64
}

// Commit is an offset that a group has committed.
type Commit struct {
	Group, Topic string
	Partition    int32
	Offset       int64
}

// Recomputed is what the stages that fold their records must have written, computed in one go from the committed records of their
// input topics, by topic.
type Recomputed map[string][]stream.Out

// Section is a part of a stage's state after the last record of a partition: given back from its snapshot and brought up to date, and
// folded from the first record on.
type Section struct {
	Stage, Topic       string
	Partition          int32
	Name               string
	Restored, Replayed []byte
}

// Evidence is everything that the checks use.
type Evidence struct {
	// Run is the run under faults, Reference one of the same recordings without.
	Run, Reference Contents
	History        []history.Event
	// Recomputed is nil where nothing was recomputed, States empty where nothing was rebuilt.
	Recomputed Recomputed
	States     []Section
}

// Limits are the bounds of a run.
type Limits struct {
	// Stall is how long a partition with records to process may stand still, not counting the time while a fault lasts.
	Stall time.Duration
	// FirstOutput is how long after a kill the first committed record may take, counted as Stall is.
	FirstOutput time.Duration
}

// Violation is one broken promise.
type Violation struct {
	// Check names the promise.
	Check string
	// What was found, Where, and what shows it.
	What, Where, Evidence string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: %s: %s (%s)", v.Check, v.Where, v.What, v.Evidence)
}

// The promises, as violations name them.
const (
	// Signal: every chunk is on the signal topic once, in the order of its read.
	Signal = "every chunk once and in order"
	// Reads: every read is called and aligned exactly once.
	Reads = "every read called once"
	// Markers: every run begins and ends once for every partition downstream, with nothing of it behind its end.
	Markers = "every run begins and ends once"
	// Revisions: no id and revision twice, and the revisions of an id ascend.
	Revisions = "revisions ascend"
	// Counts: of modified bases no read is lost from one revision to the next, the last ones are final, and are those of a file of the same reads.
	Counts = "modified bases of every read counted once"
	// Result: the last revisions, and the VCF, are those of the run without faults.
	Result = "the result is that of the run without faults"
	// Function: what a stage has written is a function of what it has read.
	Function = "what is written follows from what was read"
	// Offsets: committed offsets never go back, and end where their topics end.
	Offsets = "committed offsets never go back"
	// Transactions: none is left open.
	Transactions = "no transaction is left open"
	// State: rebuilt state equals state that was never interrupted.
	State = "rebuilt state is the same"
	// Progress: the run ends, and never stands still for long.
	Progress = "work goes on within a bound"
	// DeadLetters: nothing is taken for bad.
	DeadLetters = "no dead letters"
	// Processes: none breaks down by itself.
	Processes = "no process breaks down"
	// Content: there is something to check.
	Content = "there is something to check"
)

// maxPerCheck bounds the violations reported of each promise; how many more there are is said.
const maxPerCheck = 8

// Violations returns every broken promise, by promise.
func Violations(e Evidence, limits Limits) []Violation {
	r := &report{found: make(map[string]int)}
	for _, check := range []func(*report){
		func(r *report) { checkContent(r, &e.Reference) },
		func(r *report) { checkSignal(r, &e.Run, &e.Reference) },
		func(r *report) { checkReads(r, &e.Run, &e.Reference) },
		func(r *report) { checkMarkers(r, &e.Run) },
		func(r *report) { checkRevisions(r, &e.Run) },
		func(r *report) { checkCounts(r, &e.Run, &e.Reference) },
		func(r *report) { checkResult(r, &e.Run, &e.Reference) },
		func(r *report) { checkFunction(r, &e.Run, e.Recomputed) },
		func(r *report) { checkOffsets(r, &e.Run, e.History) },
		func(r *report) { checkTransactions(r, &e.Run) },
		func(r *report) { checkStates(r, e.States) },
		func(r *report) { checkProgress(r, e.Run.Topics.Signal, e.History, limits) },
		func(r *report) { checkDeadLetters(r, &e.Run) },
		func(r *report) { checkProcesses(r, e.History) },
	} {
		check(r)
	}
	r.summarise()
	return r.violations
}

// report collects violations.
type report struct {
	violations []Violation
	found      map[string]int
}

func (r *report) add(check, where, what, evidence string, args ...any) {
	r.found[check]++
	if r.found[check] <= maxPerCheck {
		r.violations = append(r.violations, Violation{Check: check, What: what, Where: where, Evidence: fmt.Sprintf(evidence, args...)})
	}
}

// summarise says how many violations were left out.
func (r *report) summarise() {
	for check, n := range r.found {
		if n > maxPerCheck {
			r.violations = append(r.violations, Violation{Check: check, What: fmt.Sprintf("and %d more", n-maxPerCheck), Where: "the same", Evidence: fmt.Sprintf("%d in all", n)})
		}
	}
	slices.SortStableFunc(r.violations, func(a, b Violation) int { return cmp.Compare(a.Check, b.Check) })
}

// at names a record's place.
func at(rec stream.Record) string {
	return fmt.Sprintf("%s/%d at offset %d", rec.Topic, rec.Partition, rec.Offset)
}

// partitions counts the partitions of a topic.
func (c *Contents) partitions(topic string) int32 {
	var n int32
	for _, b := range c.Bounds {
		if b.Topic == topic {
			n++
		}
	}
	return n
}

// checkContent refuses a reference that could excuse anything.
func checkContent(r *report, ref *Contents) {
	for _, topic := range []string{ref.Topics.Signal, ref.Topics.Reads, ref.Topics.Calls, ref.Topics.Variants, ref.Topics.Methylation} {
		if len(ref.Records[topic]) == 0 {
			r.add(Content, topic, "the run without faults left nothing on the topic", "0 records")
		}
	}
	if len(ref.VCF) == 0 {
		r.add(Content, "VCF", "the run without faults has no result", "0 samples")
	}
	if len(ref.Methylation) == 0 {
		r.add(Content, "bedMethyl", "in the reads of the run without faults nothing was counted", "0 samples")
	}
	for _, name := range slices.Sorted(maps.Keys(ref.Methylation)) {
		if len(ref.Methylation[name]) == 0 {
			r.add(Content, "bedMethyl of "+name, "in the reads of the run without faults no base was counted", "0 bytes")
		}
	}
}
