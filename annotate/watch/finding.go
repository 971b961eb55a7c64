package watch

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/stream/streampb"
)

// finding is what can be said of an allele or a subject. judge looks at the reads that show an allele; where they
// leave the state open, settle looks at the depth.
type finding struct {
	state   State // "": the reads speak against it, or there are none; the depth decides
	ratio   float64
	byDepth bool // settle has set the state
	covered coverage
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

// judge is what the reads at an allele say.
//
// Problem: while reads come in, an allele near a threshold would be confirmed and taken back again and again.
//
// Strategy: what was DETECTED stays so until its quality falls below RetractQual, the reads speak rather against it
// than for it, or it is no longer called.
//
// Consequences: while a run goes on, a state depends on the one before. When the runs have ended it must not, so
// then what confirms an allele is all that counts.
func (s *test) judge(a *seen, final bool) finding {
	if a.status == retracted {
		return finding{ratio: math.Inf(-1)}
	}
	alt, depth := a.counts()
	f := finding{ratio: s.ratio(alt, depth)}
	switch {
	case s.confirms(a, f.ratio), !final && a.reads.state == Detected && s.holds(a, f.ratio):
		f.state = Detected
	case f.ratio <= s.reject:
	case final:
		f.state = NotCallable
	case f.ratio > 0:
		f.state = Suspected
	default:
		f.state = Pending
	}
	return f
}

// confirms says whether an allele is DETECTED by what its reads show now.
func (s *test) confirms(a *seen, ratio float64) bool {
	alt, depth := a.counts()
	return ratio >= s.accept && depth >= s.MinDepth && alt >= s.MinAlt && float64(alt) >= s.MinFraction*float64(depth) &&
		a.call.Qual >= s.MinQual && s.accepts(a.call.Filters)
}

// unmet is what is missing for that, in words.
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
	miss(s.accepts(a.call.Filters), "filter %s", strings.Join(a.call.Filters, ", "))
	return list
}

// holds says whether what was DETECTED stays so while a run goes on. Low depth and quality are covered by the test.
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

// outweighs says whether f rather than g is what is to be said of a subject with both.
func (f *finding) outweighs(g *finding) bool {
	return cmp.Or(cmp.Compare(weight(f.state), weight(g.state)), cmp.Compare(f.ratio, g.ratio)) > 0
}

// settle sets the state that follows from the depth, if so many of the positions are not deep enough.
func (f *finding) settle(s *subject, notCallable int, final bool) {
	f.byDepth = true
	switch {
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

// sumChunks puts together what is known of chunks.
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
func (t *Tracker) atAllele(s *subject, a *event.Allele) coverage {
	contig := t.watch.genome.Contig(a.Contig)
	start, end, err := touched(contig.Seq, int(a.Pos)-1, a.Ref, a.Alt)
	if err != nil { // then it would not have fulfilled a rule that looks at places
		return coverage{Covered: Covered{Positions: 1, NotCallable: 1, DepthNeeded: s.test.needed}}
	}
	d := t.depths[a.Contig]
	if d == nil {
		d = &depths{}
	}
	places := newArea([]span{{a.Contig, start, end}}).chunks
	chunks := make([]covered, len(places))
	for i, p := range places {
		chunks[i] = d.sumUp(p, s.test.needed, t.room[:])
	}
	return sumChunks(places, chunks, s.test.needed)
}

// mayBeNews says whether a state could be worth an alert.
func (a *answer) mayBeNews(next State, final bool) bool {
	return final || next != cmp.Or(a.state, Pending)
}

// say appends next if it is news: another state, or, once the runs have ended, other content.
func (a *answer) say(alerts []Alert, next Alert) []Alert {
	next.Previous = cmp.Or(a.state, Pending)
	if a.last != nil {
		if next.Final && sameContent(&next, a.last) {
			return alerts
		}
		next.Revision = a.last.Revision
	}
	next.Revision++
	next.identify()
	a.state, a.last = next.State, &next
	return append(alerts, next)
}

// sameContent compares alerts without what belongs to the revision.
func sameContent(a, b *Alert) bool {
	x, y := *a, *b
	x.ID, x.Revision, x.Previous = "", 0, ""
	y.ID, y.Revision, y.Previous = "", 0, ""
	return reflect.DeepEqual(x, y)
}

// alert is what all alerts about a subject say.
func (t *Tracker) alert(s *subject, final bool) Alert {
	return Alert{
		SchemaVersion: AlertVersion, Sample: t.sample, Run: t.lastRun(), Panel: s.panel.source(), Rule: s.rule.id,
		Label: s.rule.label, Severity: s.rule.severity, Scope: s.scope, Subject: s.name, Final: final, Allele: s.allele,
	}
}

// show makes the alert say f, with the evidence of an allele if there is one.
func (a *Alert) show(s *subject, from *seen, f *finding) {
	a.State = f.state
	if f.covered.Positions > 0 {
		c := f.covered.Covered
		a.Coverage = &c
	}
	if from != nil {
		a.showEvidence(s, from, f)
	}
	switch f.state {
	case Detected, Suspected:
		bound := s.test.Alpha
		if a.Scope != ScopeRule {
			bound = min(bound, s.test.alpha*float64(s.changesOf(a.Scope)))
		}
		a.Probability.FalseAlarm = &bound
	case Negative:
		miss := s.test.missed(f.covered.least)
		a.Probability.Miss = &miss
	case NotCallable:
		if w := f.covered.Worst; w != nil && f.byDepth {
			miss := s.test.missed(w.Depth)
			a.Probability.Miss = &miss
		}
	}
	a.Reason = f.reason(s, from)
}

// changesOf is the number of changes that an alert of that scope is about.
func (s *subject) changesOf(scope Scope) int {
	if scope == ScopeAllele {
		return 1
	}
	return s.changes()
}

// showEvidence makes the alert tell of the reads at an allele.
func (a *Alert) showEvidence(s *subject, from *seen, f *finding) {
	alt, depth := from.counts()
	allele := from.allele
	a.Allele, a.Consequence = &allele, from.consequence
	a.Run = cmp.Or(from.run, a.Run)
	a.Evidence = &Evidence{
		Status: from.status, Depth: uint32(depth), AltForward: from.call.AltForward, AltReverse: from.call.AltReverse,
		AlleleFraction: rounded(fraction(alt, depth), 4), Qual: from.call.Qual, Filters: from.call.Filters,
		LogLikelihoodRatio: rounded(s.test.ratio(alt, depth), 3), Threshold: rounded(s.test.accept, 3),
	}
}

// rounded keeps so many decimals.
func rounded(v float64, decimals int) float64 {
	scale := math.Pow10(decimals)
	return math.Round(v*scale) / scale
}

// reason says in words why the state is what it is.
func (f *finding) reason(s *subject, from *seen) string {
	shown := ""
	if from != nil {
		alt, depth := from.counts()
		shown = fmt.Sprintf("%d of %d reads show it", alt, depth)
	}
	c := &f.covered
	switch {
	case f.state == Detected:
		return shown
	case f.state == Negative:
		return fmt.Sprintf("not called at a depth of at least %d", c.least)
	case from != nil && !f.byDepth:
		return shown + "; missing: " + strings.Join(s.test.unmet(from), ", ")
	case s.area == nil:
		return "where it lies is not known"
	case c.Worst == nil:
		return "no depth is known"
	case c.NotCallable == 1:
		return fmt.Sprintf("depth %d at %s:%d, %d needed", c.Worst.Depth, c.Worst.Contig, c.Worst.Pos, c.DepthNeeded)
	}
	return fmt.Sprintf("%d of %d positions are less than %d deep, the worst %s:%d with %d",
		c.NotCallable, c.Positions, c.DepthNeeded, c.Worst.Contig, c.Worst.Pos, c.Worst.Depth)
}
