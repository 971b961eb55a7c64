package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/porestream/porestream/chaos/check"
	"github.com/porestream/porestream/chaos/history"
)

// verdict is what became of a run.
type verdict struct {
	violations []check.Violation
	events     []history.Event
	contents   *check.Contents
	reads      int
	restored   int
}

// print writes the closing table and the violations.
func (v *verdict) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	first, moved := make(map[string][]time.Duration), make(map[string][]time.Duration)
	for _, r := range check.Recoveries(v.events, v.contents.Topics.Signal) {
		if r.First {
			first[r.Name] = append(first[r.Name], r.To-r.From)
		}
		moved[r.Name] = append(moved[r.Name], r.Moved-r.From)
	}
	injected := make(map[string]int)
	processes := 0
	for _, e := range v.events {
		switch e.Kind {
		case history.FaultBegins:
			injected[e.Name]++
		case history.ProcessStarts:
			processes++
		}
	}
	var names []string
	total := 0
	for name, n := range injected {
		names = append(names, name)
		total += n
	}
	slices.Sort(names)
	fmt.Fprintln(t, "\nFAULT\tINJECTED\tFIRST OUTPUT AFTER: MEDIAN\tLONGEST\tALL PARTITIONS MOVED AFTER: MEDIAN\tLONGEST")
	for _, name := range names {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\n", name, injected[name], spread(first[name]), spread(moved[name]))
	}
	fmt.Fprintln(t)
	topics := v.contents.Topics
	for _, line := range [][2]any{
		{"faults", total},
		{"processes started", processes},
		{"reads", v.reads},
		{"records on signal, reads, calls, variants, methylation", fmt.Sprint(len(v.contents.Records[topics.Signal]), len(v.contents.Records[topics.Reads]),
			len(v.contents.Records[topics.Calls]), len(v.contents.Records[topics.Variants]), len(v.contents.Records[topics.Methylation]))},
		{"sites of modified bases, by sample", v.sites()},
		{"ends of transactions: committed, aborted", fmt.Sprint(v.contents.Committed, v.contents.Aborted)},
		{"offset commits on record", len(v.contents.Commits)},
		{"partitions whose state was rebuilt from a snapshot", v.restored},
		{"longest stall", v.longestStall()},
		{"length", seconds(v.events[len(v.events)-1].Since())},
	} {
		fmt.Fprintf(t, "%v\t%v\n", line[0], line[1])
	}
	verdict := "no violation"
	if n := len(v.violations); n > 0 {
		verdict = fmt.Sprintf("%d VIOLATIONS", n)
	}
	fmt.Fprintf(t, "verdict\t%s\n", verdict)
	// The table goes to a terminal or a log; there is nothing to do if that is gone.
	_ = t.Flush()
	for _, violation := range v.violations {
		fmt.Fprintln(w, violation)
	}
}

// sites says how many sites of modified bases each sample, and each of its haplotypes, has.
func (v *verdict) sites() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(v.contents.Methylation)) {
		all = append(all, fmt.Sprintf("%s: %d", name, bytes.Count(v.contents.Methylation[name], []byte("\n"))))
	}
	return strings.Join(all, "; ")
}

func (v *verdict) longestStall() string {
	stalls := check.Stalls(v.events)
	if len(stalls) == 0 {
		return "none"
	}
	return fmt.Sprintf("%s, %s", seconds(stalls[0].To-stalls[0].From), stalls[0].Where)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// spread is the median and the longest of some times, in two columns.
func spread(times []time.Duration) string {
	if len(times) == 0 {
		return "\t"
	}
	slices.Sort(times)
	return seconds(times[len(times)/2]) + "\t" + seconds(times[len(times)-1])
}
