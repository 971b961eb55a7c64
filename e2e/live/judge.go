package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/porestream/porestream/ingest/minknow/minknowsim"
	"github.com/porestream/porestream/stream/streampb"
)

// allele is a change of the reference, in VCF's spelling.
type allele struct {
	contig   string
	pos      int64 // 1-based
	ref, alt string
}

func (a allele) String() string { return fmt.Sprintf("%s:%d %s>%s", a.contig, a.pos, a.ref, a.alt) }

// observation is what was seen of a run from the outside: what the simulator says,
// what could be read from the topics and when, and what ingest has counted.
type observation struct {
	layout    minknowsim.Layout
	dropped   []minknowsim.Dropped
	samples   map[string]uint64 // by read, on the signal topic
	doubled   []string          // reads of which samples are there twice
	aligned   []segment
	calls     []call      // revisions that passed all filters, by time
	events    []annotated // likewise
	revised   []revised   // revisions of calls, whatever their filters
	published []published // of variants, likewise
	losses    map[uint32]loss
	counted   counters
	called    []allele // the PASS records at the end
}

// segment is an aligned part of a read when it could be read.
type segment struct {
	read       string
	contig     string
	start, end int64 // 0-based, half open
	lastChunk  int64 // milliseconds
	at         time.Time
}

// call is a revision on the topic of calls when it could be read.
type call struct {
	allele
	status    string
	lastChunk int64 // of the newest read behind it
	at        time.Time
}

// annotated is an event when the consumer had printed it.
type annotated struct {
	allele
	consequence string // the most severe one, with its protein's change and its gene
	at          time.Time
}

// revised is a revision on the topic of calls when it could be read.
type revised struct {
	key       string
	status    string
	lastChunk int64
	at        time.Time
}

// published is one on the topic of variants.
type published struct {
	revised
	revision uint64
	scored   bool // by a network
}

// loss is what is missing of a channel: stretches and samples, within reads and
// between them.
type loss struct{ Gaps, Samples uint64 }

// counters are ingest's metrics.
type counters struct{ Gaps, Samples, Lost, Refused float64 }

// report is what a run has shown. Times are in seconds.
type report struct {
	Minutes  float64    `json:"minutes"` // that the recording plays
	Variants []firstOne `json:"variants"`
	Reads    struct {
		Played  int     `json:"played"`
		Aligned int     `json:"aligned"`
		P50     float64 `json:"p50"` // from a read's end to its committed alignment
		P99     float64 `json:"p99"`
		Max     float64 `json:"max"`
	} `json:"reads"`
	// Events are revisions of calls before the final ones, from when one could be read until the annotated one could; and Scores those annotated
	// ones in which a network's scores followed, from the one before until it could be read.
	Events times `json:"events"`
	Scores times `json:"scores"`
	Losses struct {
		Chunks   int      `json:"chunks"` // that the server has dropped
		Dropped  loss     `json:"dropped"`
		Counted  loss     `json:"counted"`            // channel by channel, by ingest's log
		Metrics  counters `json:"metrics"`            // in all
		Differ   []uint32 `json:"differ,omitempty"`   // channels where the two are not the same
		Reads    []string `json:"reads,omitempty"`    // that have other samples on the topic than were sent
		Repeated []string `json:"repeated,omitempty"` // that have samples twice
	} `json:"losses"`
	Missing []string `json:"missing,omitempty"` // variants of the truth that were not called
	Wrong   []string `json:"wrong,omitempty"`   // calls that are not in the truth
}

// firstOne is a variant of the truth when it first passed.
type firstOne struct {
	Variant string  `json:"variant"`
	Status  string  `json:"status"`
	Read    string  `json:"read"`       // the newest read behind the call
	Call    float64 `json:"call"`       // from that read's end until the call could be read
	Event   float64 `json:"event"`      // from there until the consumer had the annotated event
	ToCome  int     `json:"to_arrive"`  // reads that had not ended when the call came
	Minute  float64 `json:"run_minute"` // of the run at which the read ended
	Does    string  `json:"consequence"`
}

// evaluate compares a run with the truth.
func evaluate(truth []allele, seen *observation) *report {
	r := new(report)
	r.readTimes(seen)
	r.eventTimes(seen)
	r.variants(truth, seen)
	r.losses(seen)
	for _, a := range truth {
		if !slices.Contains(seen.called, a) {
			r.Missing = append(r.Missing, a.String())
		}
	}
	for _, a := range seen.called {
		if !slices.Contains(truth, a) {
			r.Wrong = append(r.Wrong, a.String())
		}
	}
	return r
}

// readTimes says how soon after their ends reads were aligned.
func (r *report) readTimes(seen *observation) {
	ready := make(map[string]time.Time)
	for _, s := range seen.aligned {
		if s.at.After(ready[s.read]) {
			ready[s.read] = s.at
		}
	}
	r.Reads.Played = len(seen.layout.Strands)
	var took []float64
	var last uint64
	for _, s := range seen.layout.Strands {
		last = max(last, s.End)
		if at, aligned := ready[s.ID]; aligned {
			took = append(took, at.Sub(seen.layout.At(s.End)).Seconds())
		}
	}
	r.Minutes = seen.layout.At(last).Sub(seen.layout.At(0)).Minutes()
	all := timesOf(took)
	r.Reads.Aligned, r.Reads.P50, r.Reads.P99, r.Reads.Max = all.N, all.P50, all.P99, all.Max
}

// eventTimes says how soon after calls their annotated events were published, and how soon after those their scores by networks were. A final
// event waits for its scores.
func (r *report) eventTimes(seen *observation) {
	type about struct {
		key, status string
		lastChunk   int64
	}
	waiting := make(map[about][]time.Time)
	for _, c := range seen.revised {
		of := about{c.key, c.status, c.lastChunk}
		waiting[of] = append(waiting[of], c.at)
	}
	before := make(map[string]published)
	var events, scores []float64
	for _, p := range seen.published {
		last, of := before[p.key], about{p.key, p.status, p.lastChunk}
		before[p.key] = p
		switch {
		case p.status == streampb.CallStatus_FINAL.String():
		case len(waiting[of]) > 0:
			events = append(events, max(0, p.at.Sub(waiting[of][0]).Seconds()))
			waiting[of] = waiting[of][1:]
		case p.scored && !last.scored && last.lastChunk == p.lastChunk:
			scores = append(scores, p.at.Sub(last.at).Seconds())
		}
	}
	r.Events, r.Scores = timesOf(events), timesOf(scores)
}

// variants says when each variant of the truth was first called, and after which
// read.
func (r *report) variants(truth []allele, seen *observation) {
	strands := make(map[string]minknowsim.Strand)
	for _, s := range seen.layout.Strands {
		strands[s.ID] = s
	}
	for _, a := range truth {
		i := slices.IndexFunc(seen.calls, func(c call) bool { return c.allele == a })
		if i < 0 {
			continue
		}
		c := seen.calls[i]
		first := firstOne{Variant: a.String(), Status: c.status}
		j := slices.IndexFunc(seen.aligned, func(s segment) bool {
			return s.lastChunk == c.lastChunk && s.contig == a.contig && s.start < a.pos && a.pos <= s.end
		})
		k := slices.IndexFunc(seen.events, func(e annotated) bool { return e.allele == a })
		if j < 0 || k < 0 {
			continue
		}
		first.Read = seen.aligned[j].read
		end := seen.layout.At(strands[first.Read].End)
		first.Minute = end.Sub(seen.layout.At(0)).Minutes()
		first.Does = seen.events[k].consequence
		first.Call, first.Event = c.at.Sub(end).Seconds(), seen.events[k].at.Sub(end).Seconds()
		for _, s := range seen.layout.Strands {
			if seen.layout.At(s.End).After(c.at) {
				first.ToCome++
			}
		}
		r.Variants = append(r.Variants, first)
	}
}

// losses compares what the server says it has dropped with what ingest counted,
// channel by channel, and with the signal that is on the topic, read by read.
func (r *report) losses(seen *observation) {
	l := &r.Losses
	l.Chunks, l.Metrics = len(seen.dropped), seen.counted
	dropped, inReads := byChannel(seen.dropped)
	channels := make(map[uint32]bool)
	for c, d := range dropped {
		channels[c] = true
		l.Dropped.Gaps += d.Gaps
		l.Dropped.Samples += d.Samples
	}
	for c, d := range seen.losses {
		channels[c] = true
		l.Counted.Gaps += d.Gaps
		l.Counted.Samples += d.Samples
	}
	for c := range channels {
		if dropped[c] != seen.losses[c] {
			l.Differ = append(l.Differ, c)
		}
	}
	slices.Sort(l.Differ)
	for _, s := range seen.layout.Strands {
		if seen.samples[s.ID] != s.End-s.Start-inReads[s.ID] {
			l.Reads = append(l.Reads, s.ID)
		}
	}
	l.Repeated = seen.doubled
}

// byChannel sums up what was dropped: stretches and samples of each channel, and
// samples of each read.
func byChannel(list []minknowsim.Dropped) (channels map[uint32]loss, reads map[string]uint64) {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b minknowsim.Dropped) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Start, b.Start))
	})
	channels, reads = make(map[uint32]loss), make(map[string]uint64)
	for i, d := range list {
		l := channels[d.Channel]
		l.Samples += d.End - d.Start
		if i == 0 || list[i-1].Channel != d.Channel || list[i-1].End != d.Start {
			l.Gaps++
		}
		channels[d.Channel] = l
		if d.Strand {
			reads[d.Read] += d.End - d.Start
		}
	}
	return channels, reads
}

// failures says what does not hold. With losses not every variant need be called, and
// none in time: the end of a read may be among what is lost, and shows only later.
func (r *report) failures(lossy bool, within time.Duration) []string {
	var out []string
	failed := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if len(r.Wrong) > 0 {
		failed("calls that are not in the truth: %v", r.Wrong)
	}
	if len(r.Missing) > 0 && !lossy {
		failed("variants that were not called: %v", r.Missing)
	}
	l := &r.Losses
	if len(l.Differ) > 0 || l.Counted != l.Dropped {
		failed("channels %v: other losses were counted (%+v) than the server has caused (%+v)", l.Differ, l.Counted, l.Dropped)
	}
	if uint64(l.Metrics.Gaps) != l.Dropped.Gaps || uint64(l.Metrics.Samples) != l.Dropped.Samples || l.Metrics.Lost+l.Metrics.Refused > 0 {
		failed("ingest's metrics say %+v, and the server has dropped %+v", l.Metrics, l.Dropped)
	}
	if len(l.Reads) > 0 || len(l.Repeated) > 0 {
		failed("reads that are not on the topic as they were sent: %v; with samples twice: %v", l.Reads, l.Repeated)
	}
	if !lossy && len(r.Variants) == 0 || r.Reads.Aligned == 0 {
		failed("nothing was called")
	}
	for _, v := range r.Variants {
		if within > 0 && !lossy && v.Call > within.Seconds() {
			failed("%s was called %.2f s after the end of the read that made it possible, which is more than %v", v.Variant, v.Call, within)
		}
	}
	return out
}

// print writes the report for people.
func (r *report) print(w io.Writer) error {
	fmt.Fprintf(w, "\nSeconds from the end of the read that made a variant's first call possible:\n")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "VARIANT\tREAD\tENDED AT\tCALL\tSTATUS\tANNOTATED EVENT\tREADS STILL TO ARRIVE\tCONSEQUENCE")
	for _, v := range r.Variants {
		fmt.Fprintf(table, "%s\t%.8s\t%.1f min\t%.2f s\t%s\t%.2f s\t%d of %d\t%s\n", v.Variant, v.Read, v.Minute, v.Call, v.Status, v.Event, v.ToCome, r.Reads.Played, v.Does)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	l := &r.Losses
	fmt.Fprintf(w, "\n%d reads in %.1f minutes, of which %d were aligned. From a read's end to its committed alignment: median %.2f s, 99th percentile %.2f s, longest %.2f s.\n",
		r.Reads.Played, r.Minutes, r.Reads.Aligned, r.Reads.P50, r.Reads.P99, r.Reads.Max)
	fmt.Fprintf(w, "%d revisions of calls, from when one could be read until its annotated event could: median %.2f s, 99th percentile %.2f s, longest %.2f s.\n",
		r.Events.N, r.Events.P50, r.Events.P99, r.Events.Max)
	if r.Scores.N > 0 {
		fmt.Fprintf(w, "%d events were followed by one with a network's scores: median %.2f s later, 99th percentile %.2f s, longest %.2f s.\n",
			r.Scores.N, r.Scores.P50, r.Scores.P99, r.Scores.Max)
	}
	fmt.Fprintf(w, "Dropped by the server: %d chunks, %d gaps, %d samples. Counted: %d gaps, %d samples; channels that differ: %d.\n",
		l.Chunks, l.Dropped.Gaps, l.Dropped.Samples, l.Counted.Gaps, l.Counted.Samples, len(l.Differ))
	fmt.Fprintf(w, "Against the truth: %d missing, %d wrong.\n", len(r.Missing), len(r.Wrong))
	return nil
}
