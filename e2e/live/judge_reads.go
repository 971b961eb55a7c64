package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"time"
)

// readsSeen is what was seen from the outside of a run of called reads: what the simulator
// wrote into the folder, what could be read from the topics and when, how far the variant
// stage was when, and what was called in the end.
type readsSeen struct {
	written   []writtenRead
	called    map[string][]calledRead // by read
	pieces    map[string][]piece      // of a read: its segments
	positions [][]position            // of the variant stage, by partition of the topic of aligned reads, by time
	revisions []revision
	results   []sampleResult
	peak      map[string]int64 // most memory of a process in bytes, by program
	kills     map[string]int   // by program
}

// writtenRead is a read in the folder.
type writtenRead struct {
	id, barcode string
	failed      bool
	sum         uint32
	at          time.Time // when the writing of its bytes began
}

// calledRead is a read on the topic of called reads.
type calledRead struct {
	sum uint32
	at  time.Time // when it could be read
}

// piece is a segment of a read on the topic of aligned reads.
type piece struct {
	partition int32
	offset    int64
	at        time.Time // when it could be read
}

// position is where a stage went on, at a time by which it was committed.
type position struct {
	offset int64
	at     time.Time
}

// revision is one of a call that passed all filters, when it could be read.
type revision struct {
	allele
	sample string
	at     time.Time
}

// sampleResult compares what the topics say of a sample in the end with what pore call says
// of all its reads.
type sampleResult struct {
	name  string
	calls int // records that passed all filters
	equal bool
}

// times are quantiles in seconds.
type times struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func timesOf(took []float64) times {
	if len(took) == 0 {
		return times{}
	}
	slices.Sort(took)
	rank := func(q float64) float64 { return took[int(math.Ceil(q*float64(len(took))))-1] }
	return times{len(took), rank(0.5), rank(0.99), took[len(took)-1]}
}

// readsReport is what a run of called reads has shown.
type readsReport struct {
	Written int `json:"written"` // reads in the folder
	Failed  int `json:"failed"`  // of them
	Topic   int `json:"topic"`   // reads on the topic of called reads
	Mapped  int `json:"mapped"`
	// From the beginning of the writing of a read's bytes until its alignment could be read,
	// and until the transaction was committed with which it was in the calls.
	Aligned times `json:"aligned"`
	Effect  times `json:"effect"`
	Live    int   `json:"live"` // alleles that were called before the last read was written

	Lost      []string         `json:"lost,omitempty"`     // reads that are not on the topic
	Repeated  []string         `json:"repeated,omitempty"` // that are there more than once
	Differ    []string         `json:"differ,omitempty"`   // with other bases
	Uncalled  []string         `json:"uncalled,omitempty"` // aligned, and not in the calls
	Samples   int              `json:"samples"`            // that were compared
	Calls     int              `json:"calls"`              // of all samples
	Unequal   []string         `json:"unequal,omitempty"`  // samples that pore call has other bytes of
	PeakBytes map[string]int64 `json:"peak_bytes"`         // by program
	Kills     map[string]int   `json:"kills,omitempty"`    // likewise
}

// evaluateReads says how a run of called reads went.
func evaluateReads(seen *readsSeen) *readsReport {
	r := &readsReport{Written: len(seen.written), PeakBytes: seen.peak, Kills: seen.kills}
	at := make(map[string]time.Time)
	for _, w := range seen.written {
		on := seen.called[w.id]
		switch {
		case w.failed:
			r.Failed++
			continue // if it is on the topic, that is seen below
		case len(on) == 0:
			r.Lost = append(r.Lost, w.id)
		case len(on) > 1:
			r.Repeated = append(r.Repeated, w.id)
		case on[0].sum != w.sum:
			r.Differ = append(r.Differ, w.id)
		}
		at[w.id] = w.at
	}
	for id, on := range seen.called {
		r.Topic += len(on)
		if _, known := at[id]; !known {
			r.Differ = append(r.Differ, id)
		}
	}
	var aligned, effect []float64
	for id, pieces := range seen.pieces {
		written, known := at[id]
		if !known {
			continue // reported above
		}
		r.Mapped++
		var readable, applied time.Time
		whole := true
		for _, p := range pieces {
			readable = latest(readable, p.at)
			committed, ok := seen.committed(p)
			whole = whole && ok
			applied = latest(applied, committed)
		}
		aligned = append(aligned, readable.Sub(written).Seconds())
		if !whole {
			r.Uncalled = append(r.Uncalled, id)
			continue
		}
		effect = append(effect, applied.Sub(written).Seconds())
	}
	type called struct {
		allele
		sample string
	}
	var last time.Time
	for _, written := range at {
		last = latest(last, written)
	}
	live := make(map[called]bool)
	for _, v := range seen.revisions {
		if v.at.Before(last) {
			live[called{v.allele, v.sample}] = true
		}
	}
	r.Aligned, r.Effect, r.Live = timesOf(aligned), timesOf(effect), len(live)
	for _, s := range seen.results {
		r.Samples++
		r.Calls += s.calls
		if !s.equal {
			r.Unequal = append(r.Unequal, s.name)
		}
	}
	for _, list := range [][]string{r.Lost, r.Repeated, r.Differ, r.Uncalled} {
		slices.Sort(list)
	}
	return r
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// committed is when the variant stage had a segment behind it.
func (o *readsSeen) committed(p piece) (time.Time, bool) {
	if int(p.partition) >= len(o.positions) {
		return time.Time{}, false
	}
	list := o.positions[p.partition]
	i := sort.Search(len(list), func(i int) bool { return list[i].offset > p.offset })
	if i == len(list) {
		return time.Time{}, false
	}
	return list[i].at, true
}

// failures says what does not hold.
func (r *readsReport) failures(cfg *readsConfig) []string {
	var out []string
	failed := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	some := func(list []string) []string { return list[:min(len(list), 5)] }
	if n := len(r.Lost); n > 0 {
		failed("%d reads are not on the topic: %v", n, some(r.Lost))
	}
	if n := len(r.Repeated); n > 0 {
		failed("%d reads are on the topic more than once: %v", n, some(r.Repeated))
	}
	if n := len(r.Differ); n > 0 {
		failed("%d reads are on the topic that were not written so: %v", n, some(r.Differ))
	}
	if n := len(r.Uncalled); n > 0 {
		failed("%d aligned reads had no effect on calls: %v", n, some(r.Uncalled))
	}
	if n := len(r.Unequal); n > 0 {
		failed("pore call has other bytes of samples %v", r.Unequal)
	}
	if r.Samples < max(1, cfg.barcodes) {
		failed("%d samples were called of %d", r.Samples, max(1, cfg.barcodes))
	}
	if r.Effect.N == 0 || r.Calls == 0 {
		failed("nothing was called")
	}
	if r.Live == 0 && cfg.p50 > 0 { // where services are killed faster than life it is chance
		failed("nothing was called while reads came")
	}
	for _, k := range []struct {
		program string
		want    int
	}{{"ingest", cfg.killIngest}, {"processor", cfg.killProcessor}} {
		if got := r.Kills[k.program]; got != k.want {
			failed("%s was killed %d times, not %d", k.program, got, k.want)
		}
	}
	if p50 := cfg.p50.Seconds(); p50 > 0 && r.Effect.P50 > p50 {
		failed("half of the reads took %.2f s and more to have effect on calls, which is more than %v", r.Effect.P50, cfg.p50)
	}
	if p99 := cfg.p99.Seconds(); p99 > 0 && r.Effect.P99 > p99 {
		failed("a hundredth of the reads took %.2f s and more to have effect on calls, which is more than %v", r.Effect.P99, cfg.p99)
	}
	return out
}

// print writes the report for people.
func (r *readsReport) print(w io.Writer) {
	fmt.Fprintf(w, "\n%d reads were written, of which %d failed; %d are on the topic, %d aligned.\n", r.Written, r.Failed, r.Topic, r.Mapped)
	fmt.Fprintf(w, "Seconds from a read's bytes in the folder     p50    p99    longest\n")
	for _, row := range []struct {
		what string
		of   times
	}{{"its alignment is committed", r.Aligned}, {"it is in the calls, committed", r.Effect}} {
		fmt.Fprintf(w, "  until %-32s %6.2f %6.2f %6.2f    (%d)\n", row.what, row.of.P50, row.of.P99, row.of.Max, row.of.N)
	}
	fmt.Fprintf(w, "Reads lost %d, repeated %d, with other bases %d, without effect %d.\n", len(r.Lost), len(r.Repeated), len(r.Differ), len(r.Uncalled))
	fmt.Fprintf(w, "%d calls of %d samples, %d of them before the last read was written; samples of which pore call has other bytes: %d.\n", r.Calls, r.Samples, r.Live, len(r.Unequal))
	programs := make([]string, 0, len(r.PeakBytes))
	for name := range r.PeakBytes {
		programs = append(programs, name)
	}
	slices.SortFunc(programs, cmp.Compare)
	for _, name := range programs {
		fmt.Fprintf(w, "Most memory of %s: %d MB.\n", name, r.PeakBytes[name]/1e6)
	}
}
