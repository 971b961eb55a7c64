package watchlist

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
)

// Tracker is the state of one sample. It is a function of the sequence of its calls; what it says when all runs have
// ended is a function of their set. It is not safe for concurrent use.
type Tracker struct {
	watch  *Watch
	sample string
	states []subjectState
	depths map[string]*depths
	marks  map[regionKey]*marks // of methylation
	runs   map[string]bool      // known runs; true: ended
	buffer [chunkBases]int
	uses   []useState // by Watch.uses
	err    error

	version uint64 // counts what may have changed the state
}

// subjectState is what a sample shows of a subject.
type subjectState struct {
	chunks  []covered // of the subject's area; nil while no depth is known
	below   int       // positions of the chunks that are not deep enough
	carried []carried // what reads show, by place
	alleles []*seen   // by VRS id
	answer  answer
	said    string // of a model: the last answer, short of its content

	evaluations, callsSeen int // of a rule on methylation: how often it was evaluated before the end, and the calls at the last evaluation
}

// seen is the newest revision of an allele.
type seen struct {
	allele      event.Allele
	run, status string
	revision    uint64
	call        event.Call
	consequence *annotate.Consequence
	answer      answer // of the allele for itself, in rules that several can fulfil
	places      []span // where its depth is evaluated; nil before it was

	// The result of the last evaluation, for as long as neither the allele nor the depth nor whether the runs go on
	// changes.
	evaluated, evaluatedFinal bool
	evaluatedDepth            uint64
	reads                     finding // by the reads alone
	settled                   finding // and by the depth
}

// gone reports whether the allele is no longer called.
func (s *seen) gone() bool { return s.status == retracted }

// answer is the last alert on a subject.
type answer struct {
	state    State // "" before anything was said: PENDING
	revision uint64
	content  digest // of the alert
}

// NewTracker is a sample without any evidence yet.
func (w *Watch) NewTracker(sample string) *Tracker {
	return &Tracker{
		watch: w, sample: sample, states: make([]subjectState, len(w.subjects)),
		depths: map[string]*depths{}, marks: map[regionKey]*marks{}, runs: map[string]bool{}, uses: newUseStates(w),
	}
}

// Err is why a model could not answer; after that the tracker is of no use.
func (t *Tracker) Err() error { return t.err }

// Variant takes a revision of an allele and returns the alerts that follow. Revisions that are not newer than the
// known one change nothing.
func (t *Tracker) Variant(v *event.Variant) []Alert {
	t.version++
	t.know(v.Run)
	var buffer [4]hit
	var alerts []Alert
	for _, h := range t.watch.matches(buffer[:0], v) {
		if t.states[h.subject.number].take(v, h.consequence) {
			alerts = t.decide(alerts, h.subject)
		}
	}
	return t.answerModels(alerts)
}

// RunStart says that reads of a run may follow, which keeps the sample undecided until [Tracker.RunEnd]. A run that is
// named by evidence is known without.
func (t *Tracker) RunStart(run string) {
	t.version++
	t.know(run)
}

// know notes a run.
func (t *Tracker) know(run string) {
	if _, ok := t.runs[run]; run != "" && !ok {
		t.runs[run] = false
	}
}

// take keeps the revision if it is newer; else it is false.
func (st *subjectState) take(v *event.Variant, c *annotate.Consequence) bool {
	i, ok := slices.BinarySearchFunc(st.alleles, v.Allele.VRSID, func(s *seen, id string) int { return cmp.Compare(s.allele.VRSID, id) })
	if !ok {
		st.alleles = slices.Insert(st.alleles, i, &seen{})
	}
	s := st.alleles[i]
	if ok && v.Revision <= s.revision {
		return false
	}
	if c == nil && len(v.Annotation.Consequences) > 0 {
		c = &v.Annotation.Consequences[0]
	}
	s.evaluated = false
	s.allele, s.run, s.status, s.revision, s.call, s.consequence = v.Allele, v.Run, v.Status, v.Revision, v.Call, c
	return true
}

// compareAlleles orders alleles by place.
func compareAlleles(a, b *event.Allele) int {
	return cmp.Or(cmp.Compare(a.Contig, b.Contig), cmp.Compare(a.Pos, b.Pos), cmp.Compare(a.Ref, b.Ref), cmp.Compare(a.Alt, b.Alt), cmp.Compare(a.VRSID, b.VRSID))
}

// Coverage takes a revision of a stretch's depth and returns the alerts that follow.
func (t *Tracker) Coverage(c Coverage) []Alert {
	t.version++
	t.know(c.Run)
	if c.Start < 0 || c.Start >= c.End {
		return nil
	}
	c.Blocks = slices.Clone(c.Blocks)
	slices.SortFunc(c.Blocks, func(a, b DepthBlock) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End)) })
	c.Shown = slices.Clone(c.Shown)
	slices.SortFunc(c.Shown, compareShown)
	if !t.depthsOf(c.Contig).set(&c) {
		return nil
	}
	var buffer [64]int32
	ids := t.sumUp(buffer[:0], c.Contig, &window{start: c.Start, end: c.End, shown: c.Shown})
	var alerts []Alert
	for i, id := range ids {
		at := t.watch.chunks[id]
		if i+1 == len(ids) || t.watch.chunks[ids[i+1]].subject != at.subject {
			alerts = t.decide(alerts, t.watch.subjects[at.subject])
		}
	}
	return t.answerModels(alerts)
}

// depthsOf is the known coverage of a contig.
func (t *Tracker) depthsOf(contig string) *depths {
	d := t.depths[contig]
	if d == nil {
		d = &depths{}
		t.depths[contig] = d
	}
	return d
}

// sumUp brings the chunks that share a base with a stretch up to date, and what reads show of their subjects, and appends
// them to dst, by subject.
func (t *Tracker) sumUp(dst []int32, contig string, w *window) []int32 {
	d := t.depths[contig]
	ids := t.watch.depthAt[contig].overlapping(dst, w.start, w.end)
	others := t.watch.understand(contig, w.shown)
	slices.SortFunc(ids, func(a, b int32) int {
		return cmp.Compare(t.watch.chunks[a].subject, t.watch.chunks[b].subject)
	})
	for i, id := range ids {
		at := t.watch.chunks[id]
		s, st := t.watch.subjects[at.subject], &t.states[at.subject]
		if i == 0 || t.watch.chunks[ids[i-1]].subject != at.subject {
			st.hear(s, contig, w, others)
		}
		if st.chunks == nil {
			st.chunks, st.below = uncovered(s.area), s.area.positions
		}
		chunk := &st.chunks[at.chunk]
		st.below -= chunk.below
		*chunk = d.sumUp(s.area.chunks[at.chunk], s.test.needed, t.buffer[:])
		st.below += chunk.below
	}
	return ids
}

// uncovered are the chunks of an area without reads.
func uncovered(a *area) []covered {
	chunks := make([]covered, len(a.chunks))
	for i, c := range a.chunks {
		chunks[i] = covered{below: c.end - c.start, worstAt: c.start, least: math.MaxInt}
	}
	return chunks
}

// RunEnd says that no more reads of a run follow. Once that is so for all known runs of the sample every subject is
// decided, and stays so unless the evidence changes; until then nothing follows.
func (t *Tracker) RunEnd(run string) []Alert {
	t.version++
	t.runs[run] = true
	if !t.ended() {
		return nil
	}
	var alerts []Alert
	for _, s := range t.watch.subjects {
		alerts = t.decide(alerts, s)
	}
	for _, u := range t.watch.uses {
		if len(u.regions) > 0 { // calls may have come since it was asked
			t.uses[u.number].dirty = true
		}
	}
	return t.answerModels(alerts)
}

// ended reports whether all known runs have ended.
func (t *Tracker) ended() bool {
	if len(t.runs) == 0 {
		return false
	}
	for _, ended := range t.runs {
		if !ended {
			return false
		}
	}
	return true
}

// lastRun is the run to name where no read is evidence.
func (t *Tracker) lastRun() string {
	return slices.Max(append(slices.Collect(maps.Keys(t.runs)), ""))
}

// evaluate evaluates an allele by itself, unless the result is known.
func (t *Tracker) evaluate(s *subject, a *seen, final bool) {
	depth := uint64(0)
	if s.scope != ScopeAllele {
		depth = t.depthChanged(a)
	}
	if a.evaluated && a.evaluatedFinal == final && a.evaluatedDepth == depth {
		return
	}
	a.reads = s.test.evaluate(a, final)
	a.evaluated, a.evaluatedFinal, a.evaluatedDepth, a.settled = true, final, depth, a.reads
	a.settled.byReads.ratio = math.Inf(-1)
	if a.settled.state == "" && s.scope != ScopeAllele {
		a.settled.covered = t.atAllele(s, a)
		a.settled.settle(s, a.settled.covered.NotCallable, final)
	}
}

// decide appends the alert on a subject, if one is due now.
//
// Once the runs have ended, an allele that is no longer called is as one that never was: whether it had been called
// while the reads came in depends on their order.
func (t *Tracker) decide(alerts []Alert, s *subject) []Alert {
	switch {
	case s.hidden:
		t.note(s)
		return alerts
	case s.region != nil:
		return t.decideRegion(alerts, s)
	case s.scope == ScopeModel: // answered once its features are up to date
		return alerts
	}
	st := &t.states[s.number]
	final := t.ended()
	f, best := t.find(s, final)
	for _, a := range st.alleles {
		if s.scope == ScopeAllele {
			continue
		}
		f := a.settled
		if s.filter != nil && a.answer.mayBeNews(f.state, final) {
			next := t.alert(s, final)
			next.Scope, next.Subject = ScopeAllele, a.allele.VRSID
			next.show(s, a, &f)
			alerts = a.answer.say(alerts, next)
		}
	}
	if !st.answer.mayBeNews(f.state, final) {
		return alerts
	}
	f.covered = st.sum(s)
	f.covered.Doubtful = f.byReads.doubtful
	next := t.alert(s, final)
	if s.scope != ScopeAllele {
		next.Alleles, next.AlleleCount = st.listed(final)
	}
	if best >= 0 {
		next.show(s, st.alleles[best], &f)
	} else {
		next.show(s, nil, &f)
	}
	return st.answer.say(alerts, next)
}

// find is what can be said about a subject now, and the allele that says it; -1: none does.
func (t *Tracker) find(s *subject, final bool) (f finding, best int) {
	st := &t.states[s.number]
	best, f = -1, finding{ratio: math.Inf(-1)}
	for i, a := range st.alleles {
		t.evaluate(s, a, final)
		gone := final && a.gone()
		if !gone && (best < 0 || a.reads.outweighs(&f)) {
			best, f = i, a.reads
		}
	}
	called := f.state != ""
	f.byReads = st.listen(s, final)
	byReads := weight(f.byReads.state) > weight(f.state)
	switch {
	case byReads:
		f.state = f.byReads.state
	case f.state == "":
		f.settle(s, st.notCallable(s), final)
	}
	if byReads || !called && s.scope != ScopeAllele {
		best = -1
	}
	return f, best
}

// maxListed bounds the alleles that one alert lists, so that it fits into a record.
const maxListed = 100

// listed are the alleles that an alert about several names, by place, and how many there are. Of too many, those stay
// that say most about whether something is there.
func (st *subjectState) listed(final bool) ([]AlleleState, int) {
	byPlace := func(a, b *seen) int { return compareAlleles(&a.allele, &b.allele) }
	kept := slices.SortedFunc(slices.Values(st.alleles), byPlace)
	kept = slices.DeleteFunc(kept, func(a *seen) bool { return final && a.gone() })
	count := len(kept)
	if len(kept) > maxListed {
		slices.SortStableFunc(kept, func(a, b *seen) int { return weight(b.settled.state) - weight(a.settled.state) })
		kept = kept[:maxListed]
		slices.SortFunc(kept, byPlace)
	}
	var list []AlleleState
	for _, a := range kept {
		list = append(list, AlleleState{a.allele.VRSID, a.settled.state})
	}
	return list, count
}
