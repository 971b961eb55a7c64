package watchlist

import (
	"cmp"
	"fmt"
	"math"

	"github.com/porestream/porestream/stream/streampb"
)

// finding is the evaluation of an allele or a subject. evaluate evaluates the reads that show a called allele, and listen
// those that show an uncalled one; where they leave the state open, settle evaluates the depth.
type finding struct {
	state   State   // "": the reads speak against it, or there are none; the depth decides
	ratio   float64 // of the called alleles; -Inf: there are none
	byDepth bool    // settle has set the state
	covered coverage
	byReads readEvidence
}

// coverage is Covered with the least depth that is enough for NEGATIVE.
type coverage struct {
	Covered
	least int
}

// retracted is the status of alleles that are no longer called.
var retracted = streampb.CallStatus_RETRACTED.String()

// counts are the reads that show the allele, and all.
func (s *seen) counts() (alt, depth int) {
	alt = int(s.call.AltForward) + int(s.call.AltReverse)
	return alt, max(alt, int(s.call.Depth))
}

// evaluate evaluates the reads at an allele.
//
// Problem: while reads come in, an allele near a threshold would be confirmed and taken back again and again.
//
// Strategy: a DETECTED finding stays so until its quality falls below RetractQual, the reads speak rather against it
// than for it, or it is no longer called.
//
// Consequences: while a run goes on, a state depends on the one before. When the runs have ended it must not, so
// then what confirms an allele is all that counts.
func (s *test) evaluate(a *seen, final bool) finding {
	if a.gone() {
		return finding{ratio: math.Inf(-1)}
	}
	alt, depth := a.counts()
	f := finding{ratio: s.ratio(alt, depth)}
	switch {
	case s.confirms(a, f.ratio), !final && a.reads.state == Detected && s.holds(a, f.ratio):
		f.state = Detected
	default:
		f.state = s.speak(alt, depth, final)
	}
	return f
}

// confirms reports whether an allele is DETECTED by what its reads show now.
func (s *test) confirms(a *seen, ratio float64) bool {
	alt, depth := a.counts()
	return ratio >= s.accept && depth >= s.MinDepth && alt >= s.MinAlt && float64(alt) >= s.MinFraction*float64(depth) &&
		a.call.Qual >= s.MinQual && s.accepts(a.call.Filters)
}

// unmet describes what is missing for that.
func (s *test) unmet(a *seen) []string {
	alt, depth := a.counts()
	var list []string
	miss := func(ok bool, format string, args ...any) {
		if !ok {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	ratio := s.ratio(alt, depth)
	miss(ratio >= s.accept, "evidence %.1f of %.1f", ratio, s.accept)
	miss(depth >= s.MinDepth, "depth %d of %d", depth, s.MinDepth)
	miss(alt >= s.MinAlt, "%d reads of %d", alt, s.MinAlt)
	miss(float64(alt) >= s.MinFraction*float64(depth), "allele fraction %.2f of %.2f", fraction(alt, depth), s.MinFraction)
	miss(a.call.Qual >= s.MinQual, "quality %.1f of %.1f", a.call.Qual, s.MinQual)
	return list
}

// holds reports whether a DETECTED finding stays so while a run goes on. Low depth and quality are covered by the test.
func (s *test) holds(a *seen, ratio float64) bool {
	for _, f := range a.call.Filters {
		if f != "LowDepth" && f != "LowQual" && !s.accepts([]string{f}) {
			return false
		}
	}
	return ratio > 0 && a.call.Qual >= s.RetractQual
}

func fraction(alt, depth int) float64 {
	if depth == 0 {
		return 0
	}
	return float64(alt) / float64(depth)
}

// weight orders states by how much they say about whether an allele is there.
func weight(s State) int {
	switch s {
	case Detected:
		return 4
	case Suspected:
		return 3
	case NotCallable:
		return 2
	case Pending:
		return 1
	}
	return 0
}

// outweighs reports whether f rather than g is the state of a subject with both.
func (f *finding) outweighs(g *finding) bool {
	return cmp.Or(cmp.Compare(weight(f.state), weight(g.state)), cmp.Compare(f.ratio, g.ratio)) > 0
}

// settle sets the state that follows from the depth, if so many of the positions are not deep enough. Positions at which
// reads show something else that is not called are as good as not covered.
func (f *finding) settle(s *subject, notCallable int, final bool) {
	f.byDepth = true
	notCallable += f.byReads.doubtful
	switch {
	case f.byReads.unknown || f.byReads.shallow != nil || f.byReads.undecided != nil:
		f.state = Pending
		if final {
			f.state = NotCallable
		}
	case s.area != nil && notCallable < s.area.positions && float64(notCallable) <= s.test.MaxNotCallable*float64(s.area.positions):
		f.state = Negative
	case final:
		f.state = NotCallable
	default:
		f.state = Pending
	}
}

// notCallable is the number of the subject's positions that are not deep enough for NEGATIVE.
func (st *subjectState) notCallable(s *subject) int {
	if st.chunks == nil && s.area != nil {
		return s.area.positions
	}
	return st.below
}

// sum sums up the depth of the subject's area.
func (st *subjectState) sum(s *subject) coverage {
	if s.area == nil {
		return coverage{Covered: Covered{DepthNeeded: s.test.needed}}
	}
	chunks := st.chunks
	if chunks == nil {
		chunks = uncovered(s.area)
	}
	return sumChunks(s.area.chunks, chunks, s.test.needed)
}

// sumChunks combines the coverage of chunks.
func sumChunks(places []span, chunks []covered, needed int) coverage {
	c := coverage{Covered: Covered{DepthNeeded: needed}, least: math.MaxInt}
	for i, k := range chunks {
		c.Positions += places[i].end - places[i].start
		c.NotCallable += k.below
		c.least = min(c.least, k.least)
		if c.Worst == nil || k.worst < c.Worst.Depth {
			c.Worst = &Place{Contig: places[i].contig, Pos: k.worstAt + 1, Depth: k.worst}
		}
	}
	return c
}

// atAllele sums up the depth where an allele lies.
func (t *Tracker) atAllele(s *subject, a *seen) coverage {
	places := t.placesOf(a)
	if len(places) == 0 {
		return coverage{Covered: Covered{Positions: 1, NotCallable: 1, DepthNeeded: s.test.needed}}
	}
	d := t.depths[a.allele.Contig]
	if d == nil {
		d = &depths{}
	}
	chunks := make([]covered, len(places))
	for i, p := range places {
		chunks[i] = d.sumUp(p, s.test.needed, t.buffer[:])
	}
	return sumChunks(places, chunks, s.test.needed)
}

// placesOf is where an allele lies; nowhere, if it is not one of this reference. Then it would not have fulfilled a rule
// on places.
func (t *Tracker) placesOf(a *seen) []span {
	if a.places == nil {
		a.places = []span{}
		contig := t.watch.genome.Contig(a.allele.Contig)
		if contig == nil {
			return a.places
		}
		start, end, err := touched(contig.Seq, int(a.allele.Pos)-1, a.allele.Ref, a.allele.Alt)
		if err == nil {
			a.places = newArea([]span{{a.allele.Contig, start, end}}).chunks
		}
	}
	return a.places
}

// depthChanged grows whenever the depth where an allele lies changes.
func (t *Tracker) depthChanged(a *seen) uint64 {
	d := t.depths[a.allele.Contig]
	if d == nil {
		return 0
	}
	newest := uint64(0)
	for _, p := range t.placesOf(a) {
		newest = max(newest, d.changed(p.start, p.end))
	}
	return newest
}
