package watchlist

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/porestream/porestream/annotate/event"
)

// mayBeNews reports whether a state could be worth an alert.
func (a *answer) mayBeNews(next State, final bool) bool {
	return final || next != cmp.Or(a.state, Pending)
}

// say appends next if it is news: another state, or, once the runs have ended, other content.
func (a *answer) say(alerts []Alert, next Alert) []Alert {
	content := contentOf(next)
	if a.revision > 0 && next.Final && content == a.content {
		return alerts
	}
	next.Previous = cmp.Or(a.state, Pending)
	next.Revision = a.revision + 1
	next.identify()
	a.state, a.revision, a.content = next.State, next.Revision, content
	return append(alerts, next)
}

// digest stands for the content of an alert.
type digest [16]byte

// contentOf distinguishes alerts by everything that does not belong to the revision.
func contentOf(a Alert) digest {
	a.ID, a.Revision, a.Previous = "", 0, ""
	document, err := a.JSON()
	if err != nil { // it can't be published either
		document = []byte(err.Error())
	}
	sum := sha256.Sum256(document)
	return digest(sum[:])
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
	a.showCarried(s, from, f)
	switch f.state {
	case Detected, Suspected:
		bound := s.test.Alpha
		if a.Scope != ScopeRule {
			bound = min(bound, s.test.alpha*float64(s.changesOf(a.Scope)))
		}
		a.Probability.FalseAlarm = &bound
	case Negative:
		miss := max(s.test.missed(f.covered.least), math.Exp(min(0, f.against(s))))
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

// showEvidence adds the counts of reads at an allele to the alert.
func (a *Alert) showEvidence(s *subject, from *seen, f *finding) {
	alt, depth := from.counts()
	allele := from.allele
	if c := from.call.CarryOver; c != nil && c.Explained && f.state != Detected {
		a.CarryOver = c
	}
	a.Allele, a.Consequence = &allele, from.consequence
	a.Run = cmp.Or(from.run, a.Run)
	a.Evidence = &Evidence{
		Status: from.status, Depth: uint32(depth), AltForward: from.call.AltForward, AltReverse: from.call.AltReverse,
		AlleleFraction: rounded(fraction(alt, depth), 4), Qual: from.call.Qual, Filters: from.call.Filters,
		LogLikelihoodRatio: rounded(s.test.ratio(alt, depth), 3), Threshold: rounded(s.test.accept, 3),
	}
}

// against is the log ratio of the weakest evidence against NEGATIVE: of the reads of called alleles, of alleles that
// reads show without a call, and where these are not counted, of those that reads may show without a report.
func (f *finding) against(s *subject) float64 {
	least := max(f.ratio, f.byReads.ratio)
	if len(s.named) == 0 && f.covered.least < math.MaxInt {
		least = max(least, s.test.unlisted(f.covered.least))
	}
	return least
}

// showCarried adds the counts of the reads that show its subject to the alert, called or not.
func (a *Alert) showCarried(s *subject, from *seen, f *finding) {
	c := f.byReads.worst
	if c == nil {
		return
	}
	alt, depth := c.counts()
	a.Carried = &Carried{
		Depth: uint32(depth), AltForward: uint32(c.Forward), AltReverse: uint32(c.Reverse), AlleleFraction: rounded(fraction(alt, depth), 4),
		LogLikelihoodRatio: rounded(s.test.ratio(alt, depth), 3), Explained: uint32(s.test.errors(depth)),
	}
	if from == nil && c.allele != nil && (f.state == Suspected || c.Named != "") {
		a.Allele, a.Consequence = c.allele, c.consequence
	}
}

// rounded keeps so many decimals.
func rounded(v float64, decimals int) float64 {
	scale := math.Pow10(decimals)
	return math.Round(v*scale) / scale
}

// showIt states how many reads show the alert's subject.
func showIt(alt, depth int) string { return fmt.Sprintf("%d of %d reads show it", alt, depth) }

// carriedOver says in words what carry-over explains of an allele.
func carriedOver(a *seen) string {
	return fmt.Sprintf("carry-over explains %s:%d %s>%s: %s", a.allele.Contig, a.allele.Pos, a.allele.Ref, a.allele.Alt, a.call.CarryOver)
}

// lacks says in words what DETECTED needs besides.
func (s *test) lacks(a *seen) []string {
	var list []string
	filters := a.call.Filters
	if c := a.call.CarryOver; c != nil && c.Explained {
		list = append(list, carriedOver(a))
		filters = slices.DeleteFunc(slices.Clone(filters), func(f string) bool { return f == event.CarryOverFilter })
	}
	if !s.accepts(filters) {
		list = append(list, "called, but filtered as "+strings.Join(filters, ", "))
	}
	if unmet := s.unmet(a); len(unmet) > 0 {
		list = append(list, "missing: "+strings.Join(unmet, ", "))
	}
	return list
}

// reason says in words why the state is what it is.
func (f *finding) reason(s *subject, from *seen) string {
	shown := ""
	if from != nil {
		shown = showIt(from.counts())
	}
	c, h := &f.covered, &f.byReads
	switch {
	case f.state == Detected:
		return shown
	case f.state == Negative:
		reason := fmt.Sprintf("not called at a depth of at least %d", c.least)
		if h.worst != nil {
			reason += ", where " + showIt(h.worst.counts())
		}
		return reason
	case from != nil && !f.byDepth:
		return strings.Join(append([]string{shown}, s.test.lacks(from)...), "; ")
	case !f.byDepth && h.worst != nil:
		return showIt(h.worst.counts()) + ", but it is not called"
	case s.area == nil:
		return "where it lies is not known"
	case c.Worst != nil && c.NotCallable == 0 && h.unknown:
		return "how many reads show it is not known"
	case c.Worst != nil && c.NotCallable == 0 && h.shallow != nil:
		return fmt.Sprintf("%d reads distinguish it from its absence at %s, %d needed", h.shallow.Depth, h.shallow.place(), c.DepthNeeded)
	case c.Worst != nil && c.NotCallable == 0 && h.undecided != nil:
		return showIt(h.undecided.counts()) + ", which decides nothing"
	case c.Worst != nil && c.NotCallable == 0 && h.instead != nil:
		alt, depth := h.instead.counts()
		return fmt.Sprintf("%d of %d reads show %s, which is not called", alt, depth, h.instead.place())
	case c.Worst == nil:
		return "no depth is known"
	case c.NotCallable == 1:
		return fmt.Sprintf("depth %d at %s:%d, %d needed", c.Worst.Depth, c.Worst.Contig, c.Worst.Pos, c.DepthNeeded)
	}
	return fmt.Sprintf("%d of %d positions are less than %d deep, the worst %s:%d with %d",
		c.NotCallable, c.Positions, c.DepthNeeded, c.Worst.Contig, c.Worst.Pos, c.Worst.Depth)
}
