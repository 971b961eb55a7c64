package watchlist

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/modbase/panel"
	"github.com/porestream/porestream/vrs"
)

// Target is a stretch of a contig whose depth has to be known: 0-based, half open.
type Target struct {
	Contig string `json:"contig"`
	Start  int    `json:"start"`
	End    int    `json:"end"`
}

// Named is what a panel names: an allele, or a change of a protein, which several alleles make. How many reads show any of
// them has to be known.
type Named struct {
	Contig, Name string // Name is the subject of its alerts
	Pos          int    // 0-based, of its first base, which is in a [Target]
	Alleles      []vrs.Edit
}

// Watch is panels that were checked against a reference and its genes. It does not change and may be shared.
type Watch struct {
	genome    *genome.Genome
	annotator *annotate.Annotator
	subjects  []*subject
	warnings  []string
	scored    string // a rule that asks for a score; "": none does

	byAllele  map[string][]*subject // VRS id
	byProtein map[proteinKey][]*subject
	openAt    map[string]index // by contig, the places of rules that many alleles can fulfil; ids are of subjects
	depthAt   map[string]index // by contig, all places; ids are of chunks
	chunks    []chunkOf
	sorted    []*subject // by key
	uses      []*modelUse

	regions   []*subject          // that ask for methylation
	regionsAt map[regionKey]index // ids are of subjects
	sites     []siteAt            // of models
	sitesAt   map[regionKey]index // ids are of these
	asked     map[regionKey][]span
}

// subject is anything with a state of its own.
type subject struct {
	number int // in Watch.subjects
	panel  *Panel
	rule   *ruleText
	scope  Scope
	name   string
	allele *event.Allele // if it is one allele whose place is known
	named  []Named       // what reads are counted for; none: whatever they show is held against it
	filter *filter       // of rules that many alleles can fulfil
	area   *area
	test   *test

	// Of rules that ask a model, and of the model's features, which are hidden: no alert is about them.
	use    *modelUse
	output int // of the model
	part   int // in Model.Codons, and behind them in Model.Alleles
	hidden bool

	region *panel.Region // of rules on methylation, which have neither area nor test
}

// chunkOf is a chunk of a subject's area.
type chunkOf struct{ subject, chunk int32 }

// filter says which consequences fulfil a rule. Empty sets ask for nothing.
type filter struct {
	genes, transcripts, terms map[string]bool
	impacts                   map[annotate.Impact]bool
	flags                     []string
	codons                    [][2]int
	nmd                       *bool   // whether decay of the messenger has to be predicted
	score                     float64 // the least that a sequence network has to say; 0: none has to
}

// New checks panels against a reference and its genes. An error has one line for each fault, with file and line.
func New(g *genome.Genome, a *annotate.Annotator, panels ...*Panel) (*Watch, error) {
	w := &Watch{
		genome: g, annotator: a, byAllele: map[string][]*subject{}, byProtein: map[proteinKey][]*subject{},
		openAt: map[string]index{}, depthAt: map[string]index{},
	}
	genes := newCatalogue(g, a)
	tests := map[string]*test{}
	paths := map[string]string{}
	var errs []error
	for _, p := range panels {
		c := &compiler{faults: faults{path: p.path, advice: p.advice}, watch: w, genes: genes, panel: p, tests: tests, uses: map[useKey]*modelUse{}}
		if other, ok := paths[p.ID]; ok {
			c.add(0, "the panel %q is also in %s: give one of them another id", p.ID, other)
		}
		paths[p.ID] = p.path
		c.reference()
		for _, r := range p.rules {
			c.rule(r)
		}
		if err := c.err(); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	w.index()
	return w, nil
}

// Scored is a rule that asks for scores of sequence networks; "" if none does. Without networks none is ever fulfilled, so its
// NEGATIVE would mean nothing.
func (w *Watch) Scored() string { return w.scored }

// OfMixture is a rule that only a caller of mixtures answers, from an allele_fraction below MixtureFraction, and the first of its places, 0-based, where such a one doesn't call;
// "" if there is none. Of a rule whose place isn't known the contig is "".
func (w *Watch) OfMixture(calls func(contig string, pos int) bool) (rule, contig string, pos int) {
	for _, s := range w.subjects {
		if s.test == nil || s.scope == ScopeMethylation || !s.test.ofMixture() {
			continue
		}
		rule := s.rule
		if s.hidden {
			rule = s.use.answers[0].rule
		}
		if s.area == nil {
			if !calls("", 0) {
				return rule.id, "", 0
			}
			continue
		}
		for _, chunk := range s.area.chunks {
			for at := chunk.start; at < chunk.end; at++ {
				if !calls(chunk.contig, at) {
					return rule.id, chunk.contig, at
				}
			}
		}
	}
	return "", "", 0
}

// Warnings name the parts of the panels that can't be answered in full.
func (w *Watch) Warnings() []string { return w.warnings }

// Targets are the places whose depth has to be known, by contig and position, without overlaps.
func (w *Watch) Targets() []Target {
	var spans []span
	for _, s := range w.subjects {
		if s.area != nil {
			spans = append(spans, s.area.chunks...)
		}
	}
	spans = union(spans)
	slices.SortStableFunc(spans, func(a, b span) int { return w.genome.Rank(a.contig) - w.genome.Rank(b.contig) })
	targets := make([]Target, len(spans))
	for i, s := range spans {
		targets[i] = Target{s.contig, s.start, s.end}
	}
	return targets
}

// Named is what the panels name, by contig, position and name.
func (w *Watch) Named() []Named {
	var all []Named
	for _, s := range w.subjects {
		all = append(all, s.named...)
	}
	compare := func(a, b Named) int {
		return cmp.Or(cmp.Compare(w.genome.Rank(a.Contig), w.genome.Rank(b.Contig)), cmp.Compare(a.Pos, b.Pos), strings.Compare(a.Name, b.Name))
	}
	slices.SortStableFunc(all, compare)
	return slices.CompactFunc(all, func(a, b Named) bool { return compare(a, b) == 0 })
}

// index makes the indexes of the finished subjects.
func (w *Watch) index() {
	open, depth := map[string][]interval{}, map[string][]interval{}
	for _, s := range w.subjects {
		if s.area == nil || s.scope == ScopeModel { // which goes by its features
			continue
		}
		for i, c := range s.area.chunks {
			depth[c.contig] = append(depth[c.contig], interval{start: c.start, end: c.end, id: int32(len(w.chunks))})
			w.chunks = append(w.chunks, chunkOf{int32(s.number), int32(i)})
			if s.filter != nil {
				open[c.contig] = append(open[c.contig], interval{start: c.start, end: c.end, id: int32(s.number)})
			}
		}
	}
	w.indexRegions()
	w.sorted = slices.SortedFunc(slices.Values(w.subjects), func(a, b *subject) int { return a.key().compare(b.key()) })
	for contig, list := range open {
		w.openAt[contig] = newIndex(list)
	}
	for contig, list := range depth {
		w.depthAt[contig] = newIndex(list)
	}
}

// compiler makes subjects of one panel's rules.
type compiler struct {
	faults
	watch *Watch
	genes *catalogue
	panel *Panel
	tests map[string]*test
	uses  map[useKey]*modelUse // nil: with faults
}

// reference holds what the panel says of the reference against it.
func (c *compiler) reference() {
	for _, claim := range c.panel.reference {
		contig := c.watch.genome.Contig(claim.name)
		switch {
		case contig == nil:
			c.add(claim.line, "%s%s", c.noContig(claim.name), c.elsewhere())
		case claim.length != nil && *claim.length != len(contig.Seq):
			c.add(claim.line, "contig %q has %d bases in the reference, the panel says %d%s", claim.name, len(contig.Seq), *claim.length, c.elsewhere())
		case claim.digest != "" && claim.digest != contig.Digest():
			c.add(claim.line, "contig %q has the digest %s in the reference, the panel says %s%s", claim.name, contig.Digest(), clip(claim.digest), c.elsewhere())
		}
	}
}

// elsewhere says that the panel is for another reference, and what to do.
func (c *compiler) elsewhere() string {
	if c.panel.Assembly == "" {
		return ": it was written for another reference: take that, or a panel for this one"
	}
	return fmt.Sprintf(": it was written for another reference: take that, of assembly %s, or a panel for this one", clip(c.panel.Assembly))
}

// noContig says that a contig is not in the reference.
func (c *compiler) noContig(name string) string {
	names := c.watch.genome.Names()
	hint := suggest(name, names)
	for _, other := range []string{"chr" + name, strings.TrimPrefix(name, "chr")} {
		if other != name && slices.Contains(names, other) {
			hint = fmt.Sprintf(" (is %q meant?)", other)
		}
	}
	return fmt.Sprintf("contig %q is not in the reference%s", clip(name), hint)
}

// rule makes the subjects of one rule.
func (c *compiler) rule(r *ruleText) {
	switch {
	case r.model != nil:
		c.modelRule(r)
		return
	case r.methylation != nil:
		c.regionRule(r)
		return
	}
	before := c.found
	var made []*subject
	if r.match.named() {
		made = c.named(r)
	} else {
		made = c.placed(r)
	}
	if c.found > before {
		return
	}
	changes := 0
	for _, s := range made {
		changes += s.changes()
	}
	t := c.sufficient(r, changes)
	if t == nil {
		return
	}
	for _, s := range made {
		s.panel, s.rule, s.test = c.panel, r, t
		c.enter(s)
		if s.area == nil {
			c.watch.warnings = append(c.watch.warnings, fmt.Sprintf("%s:%d: rule %q: where %s lies is not known, so it can't be NEGATIVE: add its region, or name it by vcf or hgvs", c.path, r.line, r.id, s.name))
		}
	}
}

// changesPerPosition are the changes that errors can show at one position: three bases and a lost or gained one.
const changesPerPosition = 4

// changes is the number of changes that s can match.
func (s *subject) changes() int {
	if s.scope == ScopeAllele {
		return 1
	}
	return changesPerPosition * s.area.positions
}

// test is the test for rules with these thresholds and number of changes. The number is rounded up to a power of two,
// which is on the safe side and lets rules share their tests.
func (c *compiler) test(t Thresholds, changes int) *test {
	if changes > 1 {
		changes = 1 << bits.Len(uint(changes-1))
	}
	key := fmt.Sprint(t, changes)
	if c.tests[key] == nil {
		c.tests[key] = newTest(t, changes)
	}
	return c.tests[key]
}

// sufficient is the test of a rule with so many changes; nil, with a fault, if no depth suffices for it.
func (c *compiler) sufficient(r *ruleText, changes int) *test {
	t := c.test(r.thresholds, changes)
	if t.needed > 0 {
		return t
	}
	c.addRule(r.line, r.id, ": no depth up to the %d reads that the caller takes makes a miss as improbable as beta %g (it is %.2g): raise alpha, beta or allele_fraction, lower error_rate or min_fraction, or let the rule match less",
		callerDepth, r.thresholds.Beta, t.missed(callerDepth))
	return nil
}

// enter takes a subject in.
func (c *compiler) enter(s *subject) {
	s.number = len(c.watch.subjects)
	c.watch.subjects = append(c.watch.subjects, s)
	if s.scope == ScopeAllele {
		c.watch.byAllele[s.name] = append(c.watch.byAllele[s.name], s)
	}
}

// named makes the subjects of a rule that names its alleles.
func (c *compiler) named(r *ruleText) []*subject {
	m := &r.match
	var made []*subject
	origins := map[string]string{}
	take := func(line int, origin string, s *subject) {
		if s == nil {
			return
		}
		if first, ok := origins[s.name]; ok {
			c.addRule(line, r.id, ": %s is the same as %s: name it once", origin, first)
			return
		}
		origins[s.name] = origin
		made = append(made, s)
	}
	for _, it := range m.vcf {
		a, err := parseVCFAllele(it.text)
		if err != nil {
			c.addRule(it.line, r.id, ": %w", err)
			continue
		}
		take(it.line, it.text, c.allele(r, it.line, "vcf "+clip(it.text), a))
	}
	for _, a := range m.positions {
		take(m.line, a.origin, c.allele(r, m.line, a.origin, a))
	}
	for _, it := range m.hgvs {
		s, err := c.genes.describe(it.text)
		if err != nil {
			c.addRule(it.line, r.id, ": hgvs %w", err)
			continue
		}
		take(it.line, it.text, s.subject)
		for _, key := range s.proteins {
			c.watch.byProtein[key] = append(c.watch.byProtein[key], s.subject)
		}
	}
	where := c.regions(r)
	for _, it := range m.alleles {
		if !strings.HasPrefix(it.text, "ga4gh:VA.") || len(it.text) != len("ga4gh:VA.")+32 {
			c.addRule(it.line, r.id, ": vrs %q: want the id of a GA4GH VRS 2 allele, \"ga4gh:VA.\" and 32 characters", clip(it.text))
			continue
		}
		s := &subject{scope: ScopeAllele, name: it.text}
		if len(where) > 0 {
			s.area = newArea(where)
		}
		take(it.line, it.text, s)
	}
	return made
}

// allele makes the subject of one allele, or notes why there is none.
func (c *compiler) allele(r *ruleText, line int, origin string, a vcfAllele) *subject {
	contig := c.watch.genome.Contig(a.contig)
	if contig == nil {
		c.addRule(line, r.id, ": %s: %s", origin, c.noContig(a.contig))
		return nil
	}
	s, err := alleleSubject(contig, a.pos-1, a.ref, a.alt)
	if err != nil {
		c.addRule(line, r.id, ": %s: %w", origin, err)
		return nil
	}
	return s
}

// alleleSubject is the subject of the allele that replaces ref, at 0-based pos, by alt.
func alleleSubject(contig *genome.Contig, pos int, ref, alt string) (*subject, error) {
	seq := contig.Seq
	if pos < 0 || pos+len(ref) > len(seq) {
		return nil, fmt.Errorf("position %d is outside of %s, which has %d bases", pos+1, contig.Name, len(seq))
	}
	if have := string(seq[pos : pos+len(ref)]); have != ref {
		return nil, fmt.Errorf("the reference has %s at %s:%d, not %s: check position, strand and assembly", clip(have), contig.Name, pos+1, clip(ref))
	}
	if ref == alt {
		return nil, errors.New("the allele is the reference itself")
	}
	start, end, err := touched(seq, pos, ref, alt)
	if err != nil {
		return nil, err
	}
	id, err := vrs.AlleleID(contig.Digest(), seq, pos, ref, alt)
	if err != nil {
		return nil, err
	}
	e := vrs.Edit{Start: pos, Ref: ref, Alt: alt}.Normal(seq)
	return &subject{
		scope: ScopeAllele, name: id, area: newArea([]span{{contig.Name, start, end}}),
		named:  []Named{{contig.Name, id, start, []vrs.Edit{e}}},
		allele: &event.Allele{VRSID: id, Contig: contig.Name, Pos: int64(e.Start) + 1, Ref: e.Ref, Alt: e.Alt},
	}, nil
}
