package monitor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Event is one event for the page: its name and its JSON.
type Event struct {
	Name string
	Data []byte
}

// maxRows is how many rows one event has at most.
const maxRows = 500

// maxNamed is how many genes of samples are named for one event, at well under a millisecond each: who follows the topics waits for that long.
const maxNamed = 100

// Least times between two events of a kind.
const (
	summaryEvery  = time.Second
	channelsEvery = time.Second
	depthEvery    = 2 * time.Second
	tracksEvery   = 2 * time.Second
	rowsEvery     = 250 * time.Millisecond
	namesEvery    = time.Second
	problemsEvery = time.Second
)

// unsent is what has changed since it was last sent.
type unsent struct {
	channels    bool
	depth       map[contigKey]bool
	methylation map[methylationKey]bool
	alerts      map[string]bool
	// When each kind was last sent.
	summaryAt, channelsAt, depthAt, tracksAt, rowsAt, namesAt, problemsAt time.Time
	points                                                                time.Time // of the history
}

func newUnsent() unsent {
	return unsent{depth: make(map[contigKey]bool), methylation: make(map[methylationKey]bool), alerts: make(map[string]bool)}
}

// Changes are the events that are due now: what has changed since it was last sent, no
// more often than API.md says. now must not go back.
func (v *View) Changes(now time.Time) []Event {
	var out []Event
	due := func(at *time.Time, every time.Duration) bool {
		if now.Sub(*at) < every {
			return false
		}
		*at = now
		return true
	}
	v.history.note(now, func() Rates { return v.rates(now) })
	if due(&v.unsent.summaryAt, summaryEvery) {
		s := v.Summary(now)
		if v.history.at.Equal(v.unsent.points) {
			s.History = v.history.last(0)
		}
		v.unsent.points = v.history.at
		out = append(out, eventOf(EventSummary, s))
	}
	if v.unsent.channels && due(&v.unsent.channelsAt, channelsEvery) {
		v.unsent.channels = false
		out = append(out, eventOf(EventChannels, Channels{FlowCells: v.flowCells()}))
	}
	if len(v.unsent.depth) > 0 && due(&v.unsent.depthAt, depthEvery) {
		out = append(out, eventOf(EventDepth, v.depthOf(slices.Collect(maps.Keys(v.unsent.depth)))))
		clear(v.unsent.depth)
	}
	if len(v.unsent.methylation) > 0 && due(&v.unsent.tracksAt, tracksEvery) {
		out = append(out, eventOf(EventMethylation, v.methylationOf(v.changedTracks())))
	}
	if due(&v.unsent.rowsAt, rowsEvery) {
		if len(v.variants.changed) > 0 || len(v.variants.removed) > 0 {
			out = append(out, eventOf(EventVariants, v.variants.changes()))
		}
		if len(v.unsent.alerts) > 0 {
			out = append(out, eventOf(EventAlerts, v.alertsOf(slices.Collect(maps.Keys(v.unsent.alerts)))))
			clear(v.unsent.alerts)
		}
	}
	if v.namer != nil && due(&v.unsent.namesAt, namesEvery) {
		if rows := v.namer.Changed(maxNamed); len(rows) > 0 {
			for _, row := range rows {
				v.named[row.ID] = row
			}
			out = append(out, eventOf(EventDiplotypes, Diplotypes{Upsert: rows}))
		}
	}
	if due(&v.unsent.problemsAt, problemsEvery) {
		if p := v.updateProblems(now); len(p.Upsert) > 0 || len(p.Remove) > 0 {
			out = append(out, eventOf(EventProblems, p))
		}
	}
	return out
}

// Whole are the events with the whole state, for a page that has nothing yet. Changes
// go on from there for all pages.
func (v *View) Whole(now time.Time) []Event {
	s := v.Summary(now)
	s.History = v.history.last(historyPoints)
	out := []Event{eventOf(EventSummary, s), eventOf(EventChannels, Channels{FlowCells: v.flowCells()}), eventOf(EventDepth, v.depthOf(slices.Collect(maps.Keys(v.contigs))))}
	// The first event of a connection is there also without tracks: it ends those of an earlier one.
	tracks := sortedTracks(v.methylation)
	first := tracks[:min(len(tracks), maxRows)]
	out = append(out, eventOf(EventMethylation, v.methylationOf(first)))
	for more := range slices.Chunk(tracks[len(first):], maxRows) {
		out = append(out, eventOf(EventMethylation, v.methylationOf(more)))
	}
	ids := slices.Sorted(maps.Keys(v.variants.rows))
	rows := Variants{Reset: true, Upsert: []Variant{}, Remove: []string{}}
	for _, id := range ids {
		rows.Upsert = append(rows.Upsert, v.variants.rows[id].row)
		if len(rows.Upsert) == maxRows {
			out = append(out, eventOf(EventVariants, rows))
			rows = Variants{Upsert: []Variant{}, Remove: []string{}}
		}
	}
	if rows.Reset || len(rows.Upsert) > 0 {
		out = append(out, eventOf(EventVariants, rows))
	}
	problems := Problems{Upsert: []Problem{}, Remove: []string{}}
	for _, p := range v.problems {
		problems.Upsert = append(problems.Upsert, *p)
	}
	sortProblems(problems.Upsert)
	out = append(out, eventOf(EventAlerts, v.alertsOf(slices.Collect(maps.Keys(v.alerts)))))
	named := Diplotypes{Upsert: []Diplotype{}}
	for _, id := range slices.Sorted(maps.Keys(v.named)) {
		named.Upsert = append(named.Upsert, v.named[id])
	}
	out = append(out, eventOf(EventDiplotypes, named))
	return append(out, eventOf(EventProblems, problems))
}

// changes takes the rows that have changed, as many as fit into one event.
func (t *variantTable) changes() Variants {
	out := Variants{Upsert: []Variant{}, Remove: []string{}}
	for _, id := range slices.Sorted(maps.Keys(t.removed)) {
		if len(out.Remove) == maxRows {
			break
		}
		out.Remove = append(out.Remove, id)
		delete(t.removed, id)
	}
	for id := range t.changed {
		if len(out.Upsert) == maxRows {
			break
		}
		out.Upsert = append(out.Upsert, t.rows[id].row)
		delete(t.changed, id)
	}
	slices.SortFunc(out.Upsert, func(a, b Variant) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

func (v *View) depthOf(keys []contigKey) Depth {
	out := Depth{Contigs: make([]ContigDepth, 0, len(keys))}
	for _, k := range keys {
		out.Contigs = append(out.Contigs, v.contigs[k].view(k))
	}
	slices.SortFunc(out.Contigs, func(a, b ContigDepth) int {
		return cmp.Or(cmp.Compare(a.Sample, b.Sample), cmp.Compare(a.Order, b.Order), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func (v *View) alertsOf(keys []string) Alerts {
	out := Alerts{Upsert: make([]Alert, 0, len(keys))}
	for _, k := range keys {
		out.Upsert = append(out.Upsert, v.alerts[k].row)
	}
	slices.SortFunc(out.Upsert, func(a, b Alert) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// eventOf is an event about something; NaN and infinities are kept out where numbers
// are made.
func eventOf(name string, about any) Event {
	data, err := json.Marshal(about)
	if err != nil {
		data, _ = json.Marshal(map[string]string{"error": fmt.Sprintf("encoding %s: %v", name, err)})
	}
	return Event{Name: name, Data: data}
}
