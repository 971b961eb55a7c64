package watchlist

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/vrs"
	"github.com/porestream/porestream/watchlist/biomarker"
)

// ModelAnswer is what a model says of a sample.
type ModelAnswer struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"` // of the model's files
	Output  string `json:"output"`
	// Class is RESISTANT, INTERMEDIATE or SUSCEPTIBLE, or one of the model's own; "" while none can be given.
	Class string `json:"class,omitempty"`
	// Probability is of RESISTANT, or of the likeliest class, from the reads so far.
	Probability float64    `json:"probability"`
	Classes     []ClassOdd `json:"classes,omitempty"` // of models with classes of their own
	// Drivers are the features that are present without which the probability would be another, the strongest first.
	Drivers []Driver `json:"drivers,omitempty"`
	// Missing are codons that are not covered and that decide, and those with an insertion or a deletion that the model doesn't know; of more than 20 the first.
	// MissingCount is the number of all.
	Missing      []string `json:"missing,omitempty"`
	MissingCount int      `json:"missing_count,omitempty"`
	Codons       int      `json:"codons"`       // that the output uses
	CodonsKnown  int      `json:"codons_known"` // of these
	// Regions is of how many the model takes the methylation, and of RegionsKnown of these it is known; absent if it takes none.
	Regions      int `json:"regions,omitempty"`
	RegionsKnown int `json:"regions_known,omitempty"`
}

// ClassOdd is a class and its probability.
type ClassOdd struct {
	Class       string  `json:"class"`
	Probability float64 `json:"probability"`
}

// Driver is a feature that is present, and by how much the probability would be less without it.
type Driver struct {
	Feature string  `json:"feature"`
	Effect  float64 `json:"effect"`
}

// The bounds of what an answer lists.
const (
	maxDrivers = 10
	maxMissing = 20
)

// useState is what a sample shows of a model.
type useState struct {
	genotype biomarker.Genotype
	dirty    bool
	calls    int // at the regions whose methylation the model takes
}

func newUseStates(w *Watch) []useState {
	states := make([]useState, len(w.uses))
	for i, u := range w.uses {
		states[i].genotype = biomarker.Genotype{Sites: make([]biomarker.Site, len(u.model.Codons)), Alleles: make([]biomarker.Allele, len(u.model.Alleles)), Methylations: make([]biomarker.Methylation, len(u.regions))}
	}
	return states
}

// note brings what a sample shows of one feature up to date.
func (t *Tracker) note(s *subject) {
	u := &t.uses[s.use.number]
	st := &t.states[s.number]
	final := t.ended()
	u.dirty = true
	if s.part < len(s.use.codons) {
		u.genotype.Sites[s.part] = t.site(s, st, &s.use.codons[s.part], final)
		return
	}
	u.genotype.Alleles[s.part-len(s.use.codons)] = t.alleleOf(s, st, final)
}

// site is what a sample shows at a codon.
//
// It is known where its depth suffices by the thresholds to state presence and absence, and no reads show an uncalled change. A
// codon where a change is DETECTED needs no more than min_depth: its new residue is known.
func (t *Tracker) site(s *subject, st *subjectState, codon *codonOf, final bool) biomarker.Site {
	site := biomarker.Site{Depth: math.MaxInt}
	for _, c := range st.chunks {
		site.Depth = min(site.Depth, c.worst)
	}
	if st.chunks == nil {
		site.Depth = 0
	}
	known := true
	var detected []*seen
	for _, a := range st.alleles {
		t.evaluate(s, a, final)
		switch {
		case a.gone():
		case a.reads.state == Detected:
			detected = append(detected, a)
		case a.reads.state != "":
			known = false
		}
	}
	h := st.listen(s, final)
	covered := st.chunks != nil && st.below == 0 || len(detected) > 0 && site.Depth >= s.test.MinDepth
	site.Known = known && covered && h.state == "" && h.undecided == nil && h.doubtful == 0
	if site.Known {
		site.Shares = codon.shares(detected, s)
	}
	return site
}

// alleleOf is what a sample shows of an allele, or of a change of a protein, that a feature names.
func (t *Tracker) alleleOf(s *subject, st *subjectState, final bool) biomarker.Allele {
	f, best := t.find(s, final)
	switch f.state {
	case Detected:
		if best < 0 {
			return biomarker.Allele{Known: true, Share: 1}
		}
		alt, depth := st.alleles[best].counts()
		return biomarker.Allele{Known: true, Share: fraction(alt, depth), Undecided: s.undecided(alt, depth)}
	case Negative:
		return biomarker.Allele{Known: true}
	}
	return biomarker.Allele{}
}

// undecided reports whether reads that are fewer than the share from which the subject's model takes an allele for present don't exclude that it is: were it
// that share of the molecules, so few of the reads or fewer would show it with a probability above Beta.
//
// Problem: of a change that as many molecules have as the model asks for, half of all samples show less by chance.
//
// Consequences: such a change counts as absent with at most Beta, each time it is evaluated. One of somewhat fewer molecules counts as present.
func (s *subject) undecided(alt, depth int) bool {
	from := s.use.model.Manifest.Encoding.PresentFrom
	return fraction(alt, depth) < from && binomialBelow(alt+1, depth, from) > s.test.Beta
}

// ownShare is the share of the reads from which an allele is one that the whole sample has.
const ownShare = 0.75

// shares are the residues that alleles make of a codon.
//
// Problem: two changes of one codon may have been called apart, and the counts of reads are for each by itself.
//
// Strategy: those that most reads show are on all molecules, so they are applied together; each other one is applied to that by itself.
//
// Consequences: of two changes that only a part of the molecules has, it is not said that they are on the same ones.
func (k *codonOf) shares(alleles []*seen, s *subject) []biomarker.Share {
	own := change{codon: k.ref}
	var others []*seen
	showing, all := 0, 0 // reads of the others
	for _, a := range alleles {
		if fraction(a.counts()) >= ownShare {
			k.apply(&own, a)
		} else {
			others = append(others, a)
		}
	}
	rest := 1.0
	list := []biomarker.Share{{Residue: k.residue(&own)}}
	reads := []int{0} // of each of the list
	for _, a := range others {
		other := own
		k.apply(&other, a)
		alt, depth := a.counts()
		share := fraction(alt, depth)
		rest -= share
		list, reads = append(list, biomarker.Share{Residue: k.residue(&other), Share: share}), append(reads, alt)
		showing, all = showing+alt, max(all, depth)
	}
	if all == 0 {
		list[0].Share = 1
		return list
	}
	list[0].Share, reads[0] = max(0, rest), max(0, all-showing)
	// Several alleles may give the same residue; all their reads show it.
	of := make(map[byte]int)
	for i := range list {
		of[list[i].Residue] += reads[i]
	}
	for i := range list {
		list[i].Undecided = s.undecided(min(all, of[list[i].Residue]), all)
	}
	return list
}

// change is a codon with some alleles applied.
type change struct {
	codon  [3]byte // in transcript direction
	broken bool    // by an insertion or a deletion in it, or an insertion before its first base on the reference
}

// apply applies what an allele does to the codon.
func (k *codonOf) apply(c *change, a *seen) {
	e := vrs.Edit{Start: int(a.allele.Pos) - 1, Ref: a.allele.Ref, Alt: a.allele.Alt}
	if len(e.Ref) != len(e.Alt) {
		e = e.Trim()
		low, high := slices.Min(k.bases), slices.Max(k.bases)
		// An insertion between two codons is one of that which begins behind it on the reference, as for whom it is sent to.
		c.broken = c.broken || e.Start <= high && (len(e.Ref) > 0 && e.End() > low || len(e.Ref) == 0 && e.Start >= low)
		return
	}
	for i, at := range k.bases {
		if at < e.Start || at >= e.End() {
			continue
		}
		base := []byte{e.Alt[at-e.Start]}
		if !k.view.Forward {
			genome.ReverseComplement(base)
		}
		c.codon[i] = base[0]
	}
}

func (k *codonOf) residue(c *change) byte {
	if c.broken {
		return '-'
	}
	return k.view.Amino(c.codon[0], c.codon[1], c.codon[2])
}

// answerModels appends what the models say now whose features have changed.
func (t *Tracker) answerModels(alerts []Alert) []Alert {
	final := t.ended()
	for i := range t.uses {
		u := &t.uses[i]
		if !u.dirty {
			continue
		}
		u.dirty = false
		use := t.watch.uses[i]
		if use.network == nil {
			t.err = errNoNetwork
			return alerts
		}
		j, err := use.model.Score(use.network, &u.genotype)
		if err != nil {
			t.err = err
			return alerts
		}
		for _, s := range use.answers {
			alerts = t.answerModel(alerts, s, j, final)
		}
	}
	return alerts
}

// answerModel appends what a model says of one output, if it is news: another class, a probability that has moved by a tenth or
// other decisive codons, or, once the runs have ended, other content.
func (t *Tracker) answerModel(alerts []Alert, s *subject, j *biomarker.Prediction, final bool) []Alert {
	st := &t.states[s.number]
	a, err := j.Guarded(s.use.network, s.output, final)
	if err != nil {
		t.err = err
		return alerts
	}
	state := stateOf(a.Class, final)
	said := saidOf(&a, state)
	if !final && (st.said == said || st.answer.revision == 0 && state == Pending) {
		return alerts
	}
	drivers, err := j.Drivers(s.use.network, s.output, maxDrivers)
	if err != nil {
		t.err = err
		return alerts
	}
	next := t.alert(s, final)
	next.State = state
	next.Model = modelAnswer(s, &a, drivers)
	next.Coverage = &Covered{Positions: 3 * a.Codons, NotCallable: 3 * a.Unknown, DepthNeeded: s.test.needed}
	if state != Pending && state != NotCallable && len(s.use.model.Codons)+len(s.use.model.Alleles) > 0 { // of methylation there is no bound
		bound := s.test.Alpha
		next.Probability.FalseAlarm = &bound
		if least := t.uses[s.use.number].leastCovered(s.test.needed); least > 0 {
			miss := s.test.missed(least)
			next.Probability.Miss = &miss
		}
	}
	next.Reason = reasonOf(&a, state)
	if state == NotCallable || state == Pending {
		if from := t.carriedBeneath(s.use, a.Missing); from != nil {
			next.CarryOver = from.call.CarryOver
			next.Reason += "; " + carriedOver(from)
		}
	}
	st.said = said
	return st.answer.say(alerts, next)
}

// carriedBeneath is an allele that carry-over explains and because of which one of some codons isn't known; nil: there is none.
func (t *Tracker) carriedBeneath(use *modelUse, codons []biomarker.Codon) *seen {
	for _, s := range t.watch.subjects {
		if !s.hidden || s.use != use || s.part >= len(use.model.Codons) || !slices.Contains(codons, use.model.Codons[s.part]) {
			continue
		}
		for _, a := range t.states[s.number].alleles {
			if c := a.call.CarryOver; !a.gone() && c != nil && c.Explained {
				return a
			}
		}
	}
	return nil
}

// leastCovered is the least depth of the codons that are covered by depth; 0: none is.
func (u *useState) leastCovered(needed int) int {
	least := 0
	for i := range u.genotype.Sites {
		if k := &u.genotype.Sites[i]; k.Known && k.Depth >= needed && (least == 0 || k.Depth < least) {
			least = k.Depth
		}
	}
	return least
}

// stateOf is the state that goes with a class.
func stateOf(class string, final bool) State {
	switch class {
	case biomarker.Resistant:
		return Resistant
	case biomarker.Intermediate:
		return Intermediate
	case biomarker.Susceptible:
		return Susceptible
	case biomarker.NotCallable:
		if final {
			return NotCallable
		}
		return Pending
	}
	return Classified
}

// saidOf distinguishes answers that are worth a revision while a run goes on.
func saidOf(a *biomarker.Answer, state State) string {
	if state == Pending {
		return string(state)
	}
	missing := sha256.Sum256(fmt.Append(nil, a.Missing, a.Indels))
	return fmt.Sprintf("%s %d %d %x", a.Class, int(a.Probability*10), len(a.Missing)+len(a.Indels), missing[:8])
}

// modelAnswer is the answer in the form of alerts.
func modelAnswer(s *subject, a *biomarker.Answer, drivers []biomarker.Driver) *ModelAnswer {
	model := s.use.model
	o := &model.Manifest.Outputs[s.output]
	out := &ModelAnswer{
		Name: model.Manifest.Name, Version: model.Manifest.Version, SHA256: model.Digest, Output: o.Name, Probability: a.Probability,
		Codons: a.Codons, CodonsKnown: a.Codons - a.Unknown, MissingCount: len(a.Missing) + len(a.Indels), Regions: a.Regions, RegionsKnown: a.RegionsKnown,
	}
	if a.Class != biomarker.NotCallable {
		out.Class = a.Class
	}
	for i, p := range a.Probabilities {
		out.Classes = append(out.Classes, ClassOdd{o.Classes[i], p})
	}
	for _, d := range drivers {
		out.Drivers = append(out.Drivers, Driver(d))
	}
	missing := slices.Concat(a.Missing, a.Indels)
	for _, c := range missing[:min(len(missing), maxMissing)] {
		out.Missing = append(out.Missing, c.String())
	}
	return out
}

// reasonOf says in words why the answer is what it is.
func reasonOf(a *biomarker.Answer, state State) string {
	switch {
	case (state == NotCallable || state == Pending) && len(a.Missing)+len(a.Indels) > 0:
		return missingText(a)
	case (state == NotCallable || state == Pending) && a.Unknown > 0:
		return fmt.Sprintf("%d of %d codons are not covered", a.Unknown, a.Codons)
	case (state == NotCallable || state == Pending) && a.Regions > 0:
		return fmt.Sprintf("the methylation of %d of %d regions is known, and the likeliest class has a probability of %.2f", a.RegionsKnown, a.Regions, a.Probability)
	case state == NotCallable || state == Pending:
		return fmt.Sprintf("no class is likely enough, the likeliest has a probability of %.2f", a.Probability)
	}
	reason := fmt.Sprintf("probability %.2f", a.Probability)
	if a.Codons > 0 || a.Regions == 0 {
		reason += fmt.Sprintf(" by %d of %d codons", a.Codons-a.Unknown, a.Codons)
	}
	if a.Regions > 0 {
		reason += fmt.Sprintf(" by the methylation of %d of %d regions", a.RegionsKnown, a.Regions)
	}
	if text := missingText(a); text != "" {
		reason += "; " + text
	}
	return reason
}

// missingText says what decisive is not known; empty: nothing.
func missingText(a *biomarker.Answer) string {
	var parts []string
	if len(a.Missing) > 0 {
		parts = append(parts, "not covered: "+codonList(a.Missing))
	}
	if len(a.Indels) > 0 {
		parts = append(parts, "with an insertion or a deletion that the model doesn't know: "+codonList(a.Indels))
	}
	return strings.Join(parts, "; ")
}

// codonList names some codons.
func codonList(codons []biomarker.Codon) string {
	const most = 5
	var names []string
	for _, c := range codons[:min(len(codons), most)] {
		names = append(names, c.String())
	}
	text := strings.Join(names, ", ")
	if len(codons) > most {
		text += fmt.Sprintf(" and %d more", len(codons)-most)
	}
	return text
}
