package watchlist

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/panel"
	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/stream/packed"
)

// methylationText is what a rule says of a region's methylation.
type methylationText struct {
	line              int
	region, is, codes string
	positions         *int
}

// Methylation is one revision of the calls of a modification at the positions of a stretch, over all runs of a sample so far.
type Methylation struct {
	Run        string // of the newest read; may be ""
	Contig     string
	Start, End int // 0-based, half open
	Code       string
	Revision   uint64 // grows with every revision of the stretch and code
	Marks      []Mark // by position and strand
}

// Mark is the calls at a position, on one strand.
type Mark struct {
	Pos             int // 0-based
	Reverse         bool
	Modified, Calls int
}

func (m *Mark) strand() pileup.Strand {
	if m.Reverse {
		return pileup.Minus
	}
	return pileup.Plus
}

// MethylationAnswer is what the calls of a region are, of a rule on its methylation.
type MethylationAnswer struct {
	Contig string `json:"contig"`
	Start  int    `json:"start"` // 1-based
	End    int    `json:"end"`
	// Asked is methylated, unmethylated or half, and Code that of the modification.
	Asked string `json:"asked"`
	Code  string `json:"code"`
	// Share is that of the calls that are modified, and Depth the molecules that they are of: calls of both strands by the positions of that with more of them.
	Share float64 `json:"share"`
	Depth float64 `json:"depth"`
	// Positions have calls, and PositionsNeeded must.
	Positions       int `json:"positions"`
	PositionsNeeded int `json:"positions_needed"`
}

// methylation reads what a rule asks of a region's methylation.
func (p *reader) methylation(n *yaml.Node, r *ruleText) {
	m := &methylationText{line: n.Line, codes: "m"}
	p.mapping(n, "methylation", map[string]field{
		"region":    p.text("region", &m.region),
		"is":        p.text("is", &m.is),
		"code":      p.text("code", &m.codes),
		"positions": p.whole("positions", 1, 1<<30, &m.positions),
	})
	r.methylation = m
	if n.Kind == yaml.MappingNode && (m.region == "" || m.is == "") {
		p.addRule(n.Line, r.id, ": methylation needs a region and what it is: {region: \"CONTIG:START-END\", is: methylated}")
	}
}

// ofMethylation are the thresholds that rules on methylation have.
var ofMethylation = []string{"alpha", "beta", "min_depth"}

// forVariants refuses a threshold of variants in a rule on methylation.
func (p *reader) forVariants(r *ruleText) func(key string) field {
	return func(key string) field {
		return func(n *yaml.Node) {
			p.addRule(n.Line, r.id, ": %s is for variants: rules on methylation have alpha, beta and min_depth", key)
		}
	}
}

// regionRule makes the subject of a rule on methylation.
func (c *compiler) regionRule(r *ruleText) {
	m := r.methylation
	at, ok := c.region(r, item{m.region, m.line})
	if !ok {
		return
	}
	region, err := panel.NewRegion(at.contig, at.start, at.end, m.is)
	if err != nil {
		c.addRule(m.line, r.id, ": is: %w", err)
		return
	}
	if region.Code, err = modbase.ParseCode(m.codes); err != nil {
		c.addRule(m.line, r.id, ": code %w", err)
		return
	}
	if m.positions != nil {
		region.Sites = *m.positions
	}
	region.Name = r.id
	s := &subject{scope: ScopeMethylation, rule: r, panel: c.panel, region: &region}
	c.enter(s)
	c.watch.regions = append(c.watch.regions, s)
}

// regionKey is the positions of a contig that may have one modification.
type regionKey struct{ contig, code string }

// indexRegions makes the indexes of rules on methylation.
func (w *Watch) indexRegions() {
	intervals, spans := map[regionKey][]interval{}, map[regionKey][]span{}
	for _, s := range w.regions {
		r := s.region
		key := regionKey{r.Contig, r.Code.String()}
		intervals[key] = append(intervals[key], interval{start: r.Start, end: r.End, id: int32(s.number)})
		spans[key] = append(spans[key], span{r.Contig, r.Start, r.End})
	}
	w.regionsAt, w.asked, w.sitesAt = map[regionKey]index{}, map[regionKey][]span{}, map[regionKey]index{}
	for key, list := range intervals {
		w.regionsAt[key] = newIndex(list)
	}
	sites := map[regionKey][]interval{}
	for _, u := range w.uses {
		for i, r := range u.regions {
			key := regionKey{r.Contig, r.Code.String()}
			sites[key] = append(sites[key], interval{start: r.Start, end: r.End, id: int32(len(w.sites))})
			spans[key] = append(spans[key], span{r.Contig, r.Start, r.End})
			w.sites = append(w.sites, siteAt{u, i})
		}
	}
	for key, list := range sites {
		w.sitesAt[key] = newIndex(list)
	}
	for key, list := range spans {
		w.asked[key] = union(list)
	}
}

// siteAt is a region of a model, whose methylation is a feature.
type siteAt struct {
	use  *modelUse
	part int // in Model.Regions
}

func (at siteAt) region() *panel.Region { return at.use.regions[at.part] }

// AsksMethylation is a rule that asks for methylation; "" if none does. Without counts of modified bases none would ever be answered.
func (w *Watch) AsksMethylation() string {
	if len(w.regions) > 0 {
		return w.regions[0].rule.id
	}
	for _, u := range w.uses {
		if len(u.regions) > 0 {
			return u.answers[0].rule.id
		}
	}
	return ""
}

// Asked are the parts of a stretch of a contig of which rules ask a modification, ascending and apart.
func (w *Watch) Asked(contig, code string, start, end int) [][2]int {
	list := w.asked[regionKey{contig, code}]
	i, _ := slices.BinarySearchFunc(list, start, func(s span, at int) int { return cmp.Compare(s.end, at+1) })
	var parts [][2]int
	for ; i < len(list) && list[i].start < end; i++ {
		parts = append(parts, [2]int{max(start, list[i].start), min(end, list[i].end)})
	}
	return parts
}

// counts reports whether calls at a position count for rules: of 5mC and 5hmC, at CpGs alone, as callers of all contexts score every C.
func (w *Watch) counts(contig, code string, m Mark) bool {
	if code != "m" && code != "h" {
		return true
	}
	c := w.genome.Contig(contig)
	return c != nil && panel.IsCpG(c.Seq, m.Pos, m.strand())
}

// marked is the newest revision of a stretch. So that a rule on a whole chromosome takes as little as one on a promoter, positions are kept only
// where a region or a model takes a part of the stretch.
type marked struct {
	start, end int
	revision   uint64
	sum        panel.Tally // of all calls that count
	marks      []Mark      // those in parts that are taken
}

// partial keeps the marks of a stretch that regions and models take without taking the whole stretch. The list is used for what is kept.
func (w *Watch) partial(key regionKey, start, end int, list []Mark) []Mark {
	var buffer [64]int32
	var parts []span
	take := func(r *panel.Region) {
		if r.Start > start || r.End < end {
			parts = append(parts, span{key.contig, max(start, r.Start), min(end, r.End)})
		}
	}
	for _, id := range w.regionsAt[key].overlapping(buffer[:0], start, end) {
		take(w.subjects[id].region)
	}
	for _, id := range w.sitesAt[key].overlapping(buffer[:0], start, end) {
		take(w.sites[id].region())
	}
	parts = union(parts)
	kept := list[:0]
	for _, k := range list { // ascending
		for len(parts) > 0 && parts[0].end <= k.Pos {
			parts = parts[1:]
		}
		if len(parts) > 0 && parts[0].start <= k.Pos {
			kept = append(kept, k)
		}
	}
	return slices.Clip(slices.Clone(kept))
}

// add adds the calls of marks in [start, end).
func (m *marked) add(sum *panel.Tally, start, end int) {
	for _, k := range m.marks {
		if k.Pos < start || k.Pos >= end {
			continue
		}
		sum.Add(k.strand(), k.Calls, k.Modified)
	}
}

// marks are the known calls of one modification on one contig, by start.
type marks struct {
	stretches []marked
	longest   int
}

// set takes a revision of a stretch; false if it isn't newer.
func (k *marks) set(next marked) bool {
	i, ok := slices.BinarySearchFunc(k.stretches, next.start, func(m marked, start int) int { return cmp.Compare(m.start, start) })
	if !ok {
		k.stretches = slices.Insert(k.stretches, i, next)
	} else if next.revision <= k.stretches[i].revision {
		return false
	}
	k.stretches[i] = next
	k.longest = max(k.longest, next.end-next.start)
	return true
}

// mark sums up the marks of a stretch, and keeps those of them that are needed.
func (w *Watch) mark(key regionKey, m marked) marked {
	m.add(&m.sum, math.MinInt, math.MaxInt)
	m.marks = w.partial(key, m.start, m.end, m.marks)
	return m
}

// Methylation takes a revision of a stretch's calls and returns the alerts that follow.
func (t *Tracker) Methylation(m Methylation) []Alert {
	t.version++
	t.know(m.Run)
	key := regionKey{m.Contig, m.Code}
	if m.Start < 0 || m.Start >= m.End || len(t.watch.asked[key]) == 0 {
		return nil
	}
	known := t.marks[key]
	if known == nil {
		known = &marks{}
		t.marks[key] = known
	}
	kept := slices.DeleteFunc(slices.Clone(m.Marks), func(k Mark) bool { return !t.watch.counts(m.Contig, m.Code, k) })
	if !known.set(t.watch.mark(key, marked{start: m.Start, end: m.End, revision: m.Revision, marks: kept})) {
		return nil
	}
	var buffer [16]int32
	ids := t.watch.regionsAt[key].overlapping(buffer[:0], m.Start, m.End)
	slices.Sort(ids)
	var alerts []Alert
	for _, id := range ids {
		alerts = t.decide(alerts, t.watch.subjects[id])
	}
	t.noteSites(key, m.Start, m.End)
	return t.answerModels(alerts)
}

// noteSites brings what models take of a stretch's methylation up to date. A model is asked again when their calls have grown by as much as
// for regions.
func (t *Tracker) noteSites(key regionKey, start, end int) {
	var buffer [64]int32
	changed := map[*modelUse]bool{}
	for _, id := range t.watch.sitesAt[key].overlapping(buffer[:0], start, end) {
		at := t.watch.sites[id]
		t.noteSite(at)
		changed[at.use] = true
	}
	for u := range changed {
		if calls := t.uses[u.number].calls; !t.ended() && float64(calls) < evaluateAgain*float64(t.asked(u).callsSeen) {
			continue
		}
		t.asked(u).callsSeen, t.uses[u.number].dirty = t.uses[u.number].calls, true
	}
}

// noteSite brings a region of a model up to date.
func (t *Tracker) noteSite(at siteAt) {
	u := &t.uses[at.use.number]
	known := &u.genotype.Methylations[at.part]
	sum := t.tally(at.region())
	u.calls -= known.Calls
	known.Modified, known.Calls = sum.Modified(), sum.Calls()
	u.calls += known.Calls
}

// asked is the state that holds when a model was last asked because of methylation: that of the first of its rules.
func (t *Tracker) asked(u *modelUse) *subjectState { return &t.states[u.answers[0].number] }

// tally is what the calls of a subject's region are.
func (t *Tracker) tally(of *panel.Region) (sum panel.Tally) {
	known := t.marks[regionKey{of.Contig, of.Code.String()}]
	if known == nil {
		return sum
	}
	i, _ := slices.BinarySearchFunc(known.stretches, of.Start-known.longest, func(m marked, start int) int { return cmp.Compare(m.start, start) })
	for ; i < len(known.stretches) && known.stretches[i].start < of.End; i++ {
		m := &known.stretches[i]
		if of.Start <= m.start && m.end <= of.End { // a region may be a chromosome
			sum.Join(&m.sum)
		} else {
			m.add(&sum, of.Start, of.End)
		}
	}
	return sum
}

// evaluateAgain is how many times the calls of its last evaluation a region must have for it to be evaluated again while its runs go on.
const evaluateAgain = 1.2

// errorOf is the part of a rule's error that one evaluation of its region may make.
//
// Problem: a region is evaluated again and again while its reads come in, and a bound that holds for one evaluation is crossed by chance if there
// are enough of them.
//
// Assumptions: when a region is evaluated depends on how many calls there are, not on what they say.
//
// Strategy: half of the error is kept for the evaluation at the end. The other half is shared among those before: the k-th has 1/(k (k+1)) of it, and
// these add up to 1, however many there are. So the probability that any evaluation errs is at most the whole, whatever evaluations have in
// common, also if the threshold of calls moves between them.
//
// Consequences: what is said at the end doesn't depend on how many evaluations there were, and so not on the order of the reads. The k-th evaluation
// needs ln(k (k+1)) / D more molecules than the last one, a few.
func errorOf(whole float64, k int, final bool) float64 {
	if final {
		return whole / 2
	}
	return whole / 2 / (float64(k) * float64(k+1))
}

// decideRegion appends the alert on a rule on methylation, if one is due now.
func (t *Tracker) decideRegion(alerts []Alert, s *subject) []Alert {
	st, final := &t.states[s.number], t.ended()
	sum := t.tally(s.region)
	calls := sum.Calls()
	if !final {
		if calls == 0 || float64(calls) < evaluateAgain*float64(st.callsSeen) {
			return alerts
		}
		st.evaluations, st.callsSeen = st.evaluations+1, calls
	}
	limits := &s.rule.thresholds
	alpha, beta := errorOf(limits.Alpha, st.evaluations, final), errorOf(limits.Beta, st.evaluations, final)
	a := s.region.Answer(&sum, alpha, beta)
	if a.State != panel.NotCallable && a.Depth < float64(limits.MinDepth) {
		a.State, a.Reason = panel.NotCallable, fmt.Sprintf("a depth of %.1f molecules, and min_depth is %d", a.Depth, limits.MinDepth)
	}
	state := State(a.State)
	if state == NotCallable && !final {
		state = Pending
	}
	if !st.answer.mayBeNews(state, final) {
		return alerts
	}
	next := t.alert(s, final)
	next.State = state
	next.Methylation = &MethylationAnswer{
		Contig: a.Contig, Start: a.Start + 1, End: a.End, Asked: string(a.Kind), Code: a.Code.String(), Share: rounded(a.Share, 4), Depth: rounded(a.Depth, 1),
		Positions: a.Covered, PositionsNeeded: a.Sites,
	}
	switch state {
	case Detected, Suspected:
		bound := limits.Alpha
		next.Probability.FalseAlarm = &bound
	case Negative:
		miss := min(limits.Beta, a.Wrong*limits.Beta/beta) // over all evaluations
		next.Probability.Miss = &miss
	}
	next.Reason = fmt.Sprintf("%.1f %% of the calls at %d positions are modified, of %.1f molecules", 100*a.Share, a.Covered, a.Depth)
	switch {
	case calls == 0:
		next.Reason = "no calls of modified bases"
	case a.Reason != "":
		next.Reason += "; " + a.Reason
	}
	return st.answer.say(alerts, next)
}

// appendMarks writes what is known of methylation.
func (t *Tracker) appendMarks(b []byte) []byte {
	keys := make([]regionKey, 0, len(t.marks))
	for key := range t.marks {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b regionKey) int { return cmp.Or(cmp.Compare(a.contig, b.contig), cmp.Compare(a.code, b.code)) })
	b = packed.AppendLen(b, len(keys))
	for _, key := range keys {
		known := t.marks[key]
		b = packed.AppendLen(packed.AppendBytes(packed.AppendBytes(b, key.contig), key.code), len(known.stretches))
		for _, m := range known.stretches {
			b = packed.AppendUint(packed.AppendLen(packed.AppendLen(b, m.start), m.end-m.start), m.revision)
			for _, strand := range m.sum {
				b = packed.AppendLen(packed.AppendLen(packed.AppendLen(b, strand.Sites), strand.Calls), strand.Modified)
			}
			b = packed.AppendLen(b, len(m.marks))
			for _, k := range m.marks {
				place := 2 * (k.Pos - m.start)
				if k.Reverse {
					place++
				}
				b = packed.AppendLen(packed.AppendLen(packed.AppendLen(b, place), k.Modified), k.Calls)
			}
		}
	}
	return b
}

// restoreMarks reads what appendMarks wrote, also in a version without sums.
func (t *Tracker) restoreMarks(in *packed.Reader, version byte) {
	for range in.Count(3) {
		key := regionKey{in.String(maxName), in.String(maxName)}
		if t.marks[key] != nil {
			in.Fail("methylation %s of contig %q comes twice", key.code, key.contig)
		}
		known := &marks{}
		for range in.Count(4) {
			m := marked{start: in.Len(maxPosition)}
			m.end = m.start + in.Len(maxStretch)
			m.revision = in.Uint(math.MaxUint64)
			if version >= sumsVersion {
				for i := range m.sum {
					m.sum[i].Sites, m.sum[i].Calls, m.sum[i].Modified = in.Len(math.MaxInt32), in.Len(math.MaxInt), in.Len(math.MaxInt)
				}
			}
			for range in.Count(3) {
				place := in.Len(2 * maxStretch)
				m.marks = append(m.marks, Mark{Pos: m.start + place/2, Reverse: place&1 == 1, Modified: in.Len(math.MaxInt32), Calls: in.Len(math.MaxInt32)})
			}
			if in.Err() != nil {
				return
			}
			if n := len(known.stretches); n > 0 && known.stretches[n-1].start >= m.start {
				in.Fail("stretch %d-%d is out of order", m.start, m.end)
				return
			}
			if version < sumsVersion {
				m = t.watch.mark(key, m)
			}
			known.set(m)
		}
		t.marks[key] = known
	}
}
