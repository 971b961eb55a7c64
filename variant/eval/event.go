package eval

import "slices"

// EventKind is what an event is: an alternate allele of a record as a whole, without what it has in common with the
// reference at its ends.
type EventKind uint8

// The kinds of events.
const (
	SingleBase EventKind = iota
	Insertion
	Deletion
	MNP    // several bases replaced by as many; some between may be the same
	Delins // bases replaced by more or fewer ones
	eventKinds
)

func (k EventKind) String() string {
	return [...]string{"SNP", "insertion", "deletion", "MNP", "delins"}[k]
}

// kindOf is the kind of a trimmed change.
func kindOf(e edit) EventKind {
	switch n := e.end - e.start; {
	case n == 0:
		return Insertion
	case e.alt == "":
		return Deletion
	case n != len(e.alt):
		return Delins
	case n == 1:
		return SingleBase
	default:
		return MNP
	}
}

// event is an allele of a call. It is right only as a whole, while its atoms are counted one by one.
type event struct {
	side  side
	kind  EventKind
	edit  edit // trimmed
	atoms []*atom
	// start and end bound the bases that it replaces, wherever it can be written: see atom.touched.
	start, end int
	nearest    int // bases to the nearest other event of its side; see distance
}

// newEvent is the event of atoms that are the parts of e.
func newEvent(sd side, e edit, atoms []*atom) *event {
	v := &event{side: sd, kind: kindOf(e), edit: e, atoms: atoms, start: e.start, end: e.end, nearest: apart}
	if len(atoms) == 1 {
		v.start, v.end = atoms[0].from, atoms[0].to+atoms[0].end-atoms[0].start
	}
	for _, a := range atoms {
		a.events = append(a.events, v)
	}
	return v
}

// nearbyBin is a bin of distances to the nearest other event.
type nearbyBin struct {
	most int
	name string
}

// nearby are the greatest distances of the bins of neighbours; apart stands for anything beyond.
var nearby = []nearbyBin{{1, "within 1"}, {5, "2-5"}, {farthest, "6-10"}, {apart, "isolated"}}

const (
	farthest = 10
	apart    = 1 << 30
)

// distance is how many bases it is from one event to the next: 1 if there is none between them, 0 if they could be written at
// the same place.
func (v *event) distance(w *event) int {
	gap := max(v.start-w.end, w.start-v.end)
	return max(0, gap+1)
}

// decided reports whether the comparison has dealt with all that decides about the event.
func (v *event) decided() bool {
	for _, a := range v.atoms {
		if !a.decided {
			return false
		}
		for _, b := range a.fellows {
			for _, w := range b.events {
				if slices.ContainsFunc(w.atoms, func(c *atom) bool { return !c.decided }) {
					return false
				}
			}
		}
	}
	return true
}

// correct reports whether all atoms of the event that are assessed are right, and whether some are.
func (v *event) correct(genotypes bool) (all, some bool) {
	all = true
	for _, a := range v.atoms {
		switch {
		case !a.assessed(genotypes):
		case a.right(genotypes):
			some = true
		default:
			all = false
		}
	}
	return all && some, some
}

// eventVerdict is what is said of an event.
type eventVerdict struct {
	assessed bool
	right    bool // all of it, and so is every event of the other side that spells a part of it
	part     bool // not so, but some of its atoms are
	single   bool // right, and the other side has it as one record
}

// verdict evaluates an event: genotypes says whether genotypes count.
func (v *event) verdict(genotypes bool) eventVerdict {
	var out eventVerdict
	out.assessed = slices.ContainsFunc(v.atoms, func(a *atom) bool { return a.assessed(genotypes) })
	if !out.assessed {
		return out
	}
	out.right, out.part = v.correct(genotypes)
	for _, a := range v.atoms {
		if !a.right(genotypes) {
			continue
		}
		for _, b := range a.fellows {
			if b.call.side == v.side {
				continue
			}
			for _, w := range b.events {
				if all, _ := w.correct(genotypes); !all {
					out.right = false
				}
				out.single = out.single || v.same(w)
			}
		}
	}
	out.part = out.part && !out.right
	out.single = out.single && out.right
	return out
}

// same reports whether two events are the same alleles, wherever an indel is written.
func (v *event) same(w *event) bool {
	if len(v.atoms) == 1 && len(w.atoms) == 1 {
		return v.atoms[0].sameAllele(w.atoms[0])
	}
	return v.edit == w.edit
}

// eventCounts are the events of a kind.
type eventCounts struct {
	counts
	TruthPart int `json:"truth_part"` // of the truth's missed ones, those that were found in part
	QueryPart int `json:"query_part"` // of the query's wrong ones, those that are right in part
	OneRecord int `json:"one_record"` // of the truth's found ones, those that the query has as one record
}

// count counts one event.
func (c *eventCounts) count(sd side, v eventVerdict) {
	c.counts.count(sd, v.right)
	switch {
	case v.single && sd == truth:
		c.OneRecord++
	case v.part && sd == truth:
		c.TruthPart++
	case v.part:
		c.QueryPart++
	}
}

func (c *eventCounts) add(d eventCounts) {
	c.counts.add(d.counts)
	c.TruthPart += d.TruthPart
	c.QueryPart += d.QueryPart
	c.OneRecord += d.OneRecord
}

// eventTally adds up events.
type eventTally struct {
	kinds      [eventKinds]eventCounts
	neighbours []eventCounts // of the truth, by bin of nearby
}

// add counts an event that all is known of.
func (t *eventTally) add(v *event, genotypes bool) {
	said := v.verdict(genotypes)
	if !said.assessed {
		return
	}
	t.kinds[v.kind].count(v.side, said)
	if v.side != truth {
		return
	}
	if t.neighbours == nil {
		t.neighbours = make([]eventCounts, len(nearby))
	}
	t.neighbours[slices.IndexFunc(nearby, func(b nearbyBin) bool { return v.nearest <= b.most })].count(truth, said)
}

// result lists the kinds, then all together, and the bins of neighbours.
func (t *eventTally) result() (kinds []EventRow, neighbours []NeighbourRow) {
	var all eventCounts
	for k, c := range t.kinds {
		all.add(c)
		kinds = append(kinds, c.row(EventKind(k).String()))
	}
	for i, c := range t.neighbours {
		neighbours = append(neighbours, NeighbourRow{
			Distance: nearby[i].name, TruthTP: c.TruthTP, TruthFN: c.TruthFN, TruthPart: c.TruthPart, OneRecord: c.OneRecord, Recall: c.recall(),
		})
	}
	return append(kinds, all.row("ALL")), neighbours
}

func (c eventCounts) row(kind string) EventRow {
	return EventRow{Kind: kind, eventCounts: c, Recall: c.recall(), Precision: c.precision(), F1: c.f1()}
}
