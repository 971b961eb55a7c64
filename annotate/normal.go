package annotate

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/annotate/hgvs"
	"github.com/porestream/porestream/vrs"
)

// Normal is an HGVS description in normal form, and the same in other terms.
type Normal struct {
	// Description is the input with its changes in normal form, counted as the input counts them. Equal changes have
	// equal descriptions, however they were spelled.
	Description string
	// Genomic counts along the contig: g. or m., o. if the input does, n. where the contig is a transcript; "" where g.
	// cannot say it.
	Genomic string
	// Protein is the predicted protein of the described transcript, or, if the input counts along the contig, of the
	// most relevant transcript that has one; "" if no protein is concerned.
	Protein string
	// Loci are the changes as VCF has them; none for a description that leaves the reference as it is.
	Loci []Locus
}

// Locus is an alternate allele as VCF has it: left-aligned, with an anchor base where one of the alleles would be
// empty.
type Locus struct {
	Contig   string
	Pos      int // 1-based
	Ref, Alt string
}

// String is contig:pos:ref:alt.
func (l Locus) String() string {
	return l.Contig + ":" + strconv.Itoa(l.Pos) + ":" + l.Ref + ":" + l.Alt
}

// ProteinStyle is how descriptions of proteins are written. Its zero value is that of VEP's CSQ.
type ProteinStyle struct {
	Predicted bool // in parentheses, the nomenclature's mark of changes not seen in the protein itself
	Asterisk  bool // * for a stop instead of Ter
}

// change writes what follows "p.". Unknown consequences are never in parentheses.
func (s ProteinStyle) change(p string) string {
	if s.Asterisk {
		p = strings.ReplaceAll(p, "Ter", "*")
	}
	if s.Predicted && p != unknownProtein && p != noProtein {
		p = "(" + p + ")"
	}
	return p
}

// Statements on a protein that don't say how it changes.
const (
	unknownProtein = "?"
	noProtein      = "0?" // probably there is none
	sameProtein    = "="
	lostStart      = "Met1?"
)

// Normalizer turns HGVS descriptions into variants and into their normal form. It is safe for concurrent use.
type Normalizer struct {
	a     *Annotator
	names index
	style ProteinStyle
}

// NewNormalizer is a Normalizer for the genome and genes of a.
func NewNormalizer(a *Annotator, style ProteinStyle) *Normalizer {
	return &Normalizer{a: a, names: indexModel(a.model), style: style}
}

// Normalize resolves one description. It fails for descriptions of anything but DNA, for those that the reference or
// the gene model contradicts, and for those without a single sequence.
func (n *Normalizer) Normalize(description string) (Normal, error) {
	d, err := hgvs.Parse(description)
	if err != nil {
		return Normal{}, err
	}
	on, err := n.numbering(d)
	if err != nil {
		return Normal{}, err
	}
	alleles := make([]resolved, len(d.Alleles))
	for i, a := range d.Alleles {
		if alleles[i], err = n.resolve(on, a); err != nil {
			return Normal{}, err
		}
	}
	return n.normal(on, alleles)
}

// resolved is an allele with its changes on the contig, in the order of the contig.
type resolved struct {
	hgvs.Allele
	changes []resolvedChange // where the description has them
	along   []resolvedChange // where one along the contig has them
	rows    []vrs.Edit       // as VCF has them
	copies  []Span           // long stretches of the contig that they copy
}

// resolvedChange is one of an allele's changes.
type resolvedChange struct {
	edit  vrs.Edit
	whole bool     // the whole sequence is as the reference
	v     *variant // nil if the change leaves the reference as it is
}

// resolve finds the changes of an allele.
func (n *Normalizer) resolve(on *numbering, a hgvs.Allele) (resolved, error) {
	r := resolved{Allele: a}
	edits, err := n.edits(on, a.Changes)
	if err != nil {
		return r, err
	}
	if edits == nil {
		r.changes = []resolvedChange{{whole: true}}
		r.along = r.changes
		return r, nil
	}
	r.copies = n.copies(on, a.Changes)
	left, right := on.settled(edits, false), on.settled(edits, true)
	if r.along, err = n.changes(on, right); err != nil {
		return r, err
	}
	r.changes = r.along
	if !on.forward() {
		if r.changes, err = n.changes(on, left); err != nil {
			return r, err
		}
	}
	r.rows, err = n.rows(on, left)
	return r, err
}

// edits are what the changes of one molecule do to the contig, in its order; nil for "=" alone.
func (n *Normalizer) edits(on *numbering, changes []hgvs.Change) ([]vrs.Edit, error) {
	type described struct {
		vrs.Edit
		from, to int // what the description names
		// placed says that it stands where the description has it: a copy could as well stand before the copied bases.
		placed bool
	}
	var list []described
	for _, c := range changes {
		if c.Whole {
			if len(changes) > 1 {
				return nil, fmt.Errorf("= is about the whole sequence and stands alone")
			}
			return nil, nil
		}
		e, err := n.edit(on, c)
		if err != nil {
			return nil, err
		}
		e = on.atOrigin(e)
		d := described{e, e.Start, e.End(), c.Kind != hgvs.Duplication && c.Kind != hgvs.Repeat}
		if c.Kind == hgvs.Duplication { // the copy stands after the copied bases
			d.from -= len(e.Alt)
		}
		list = append(list, d)
	}
	if !on.forward() {
		slices.Reverse(list)
	}
	slices.SortStableFunc(list, func(x, y described) int {
		return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.to, y.to))
	})
	edits := make([]vrs.Edit, 0, len(list))
	for i, d := range list {
		if i > 0 && d.from < list[i-1].to {
			return nil, errors.New("changes in the same brackets overlap: one molecule cannot have both")
		}
		if i > 0 && d.from == d.to && list[i-1].from == d.from && list[i-1].to == d.to {
			return nil, errors.New("two insertions in the same place: they overlap, and which comes first is not known")
		}
		// Those that touch are one before they move: what becomes of them does not depend on how they were cut.
		if i > 0 && d.placed && list[i-1].placed && on.joins(edits[len(edits)-1], d.Edit) {
			edits = on.joined(append(edits, d.Edit))
			continue
		}
		edits = append(edits, d.Edit)
	}
	return informative(edits), nil
}

// atOrigin is e, or, if it inserts before the first base of a circular sequence, the same behind its last one, which is how
// a description has it.
func (n *numbering) atOrigin(e vrs.Edit) vrs.Edit {
	if !n.circular() {
		return e
	}
	if t := e.Trim(); t.Ref == "" && t.Alt != "" && n.contig.Right(t).Start == 0 {
		t.Start = n.contig.Len()
		return t
	}
	return e
}

// informative are the edits that change something, in the memory of edits, or all of them if none does: beside a change, the
// bases that stay carry no information.
func informative(edits []vrs.Edit) []vrs.Edit {
	same := func(e vrs.Edit) bool { return e.Ref == e.Alt }
	if slices.ContainsFunc(edits, func(e vrs.Edit) bool { return !same(e) }) {
		return slices.DeleteFunc(edits, same)
	}
	return edits
}

// settled moves the changes of one molecule as far to the right, or else to the left, as they go without passing each
// other, and joins those that are one by the nomenclature, until nothing moves any more. Changes that leave the
// reference as it is stay where they are.
func (n *numbering) settled(edits []vrs.Edit, right bool) []vrs.Edit {
	edits = slices.Clone(edits)
	for {
		if len(edits) == 1 {
			return edits // nothing is beside it
		}
		for k := range edits {
			i := k
			if right {
				i = len(edits) - 1 - k
			}
			e := &edits[i]
			switch {
			case e.Ref == e.Alt:
			case right:
				last := n.turnEnd(e.End())
				if i+1 < len(edits) {
					last = min(last, edits[i+1].Start)
				}
				*e = n.contig.RightTo(*e, last)
			default:
				first := 0
				if i > 0 {
					first = edits[i-1].End()
				}
				*e = n.contig.LeftTo(*e, first)
			}
		}
		before := len(edits)
		if edits = n.joined(edits); len(edits) == before {
			return edits
		}
	}
}

// joined joins the changes of one molecule that are one by the nomenclature, in the memory of edits.
func (n *numbering) joined(edits []vrs.Edit) []vrs.Edit {
	joined := edits[:1]
	for _, e := range edits[1:] {
		last := &joined[len(joined)-1]
		if !n.joins(*last, e) {
			joined = append(joined, e)
			continue
		}
		between := n.contig.Text(last.End(), e.Start)
		last.Ref += between + e.Ref
		last.Alt += between + e.Alt
	}
	return informative(joined)
}

// turnEnd is where the turn of the contig ends that pos lies in: a circular one is unrolled.
func (n *numbering) turnEnd(pos int) int {
	if n.t != nil && n.t.track.circle > 0 && pos <= n.t.track.circle {
		return n.t.track.circle
	}
	return n.contig.Len()
}

// changes makes changes of settled edits.
func (n *Normalizer) changes(on *numbering, edits []vrs.Edit) ([]resolvedChange, error) {
	list := make([]resolvedChange, 0, len(edits))
	for i, settled := range edits {
		e, err := n.onContig(on, settled)
		if err != nil {
			return nil, err
		}
		c := resolvedChange{edit: e}
		if e.Ref != e.Alt {
			if c.v, err = n.a.variant(new(workspace), on.contig.Name, e.Start+1, e.Ref, e.Alt); err != nil {
				return nil, err
			}
		}
		if c.v != nil && len(edits) > 1 {
			turn := e.Start - settled.Start
			fence := Span{0, c.v.contig.Len()}
			if i > 0 {
				fence.Start = max(0, edits[i-1].End()+turn)
			}
			if i+1 < len(edits) {
				fence.End = min(fence.End, edits[i+1].Start+turn)
			}
			c.v.enclose(fence)
		}
		list = append(list, c)
	}
	return list, nil
}

// enclose keeps v, which must be able to lie there, in a stretch of the contig.
func (v *variant) enclose(fence Span) {
	v.fence = &fence
	if len(v.ref) > 0 && len(v.alt) > 0 {
		return
	}
	if by := fence.Start - v.start; by > 0 {
		v.start, v.end, v.roll = v.start+by, v.end+by, v.roll-by
		v.ref, v.alt = rotate(v.ref, by), rotate(v.alt, by)
	}
	v.roll = max(0, min(v.roll, fence.End-v.end))
}

// rows are settled edits as VCF has them: rows that can be applied together.
func (n *Normalizer) rows(on *numbering, edits []vrs.Edit) ([]vrs.Edit, error) {
	contig := n.a.genome.Contig(on.contig.Name)
	var out []vrs.Edit
	for _, e := range edits {
		e, err := n.onContig(on, e)
		switch {
		case err != nil:
			return nil, err
		case e.Ref == e.Alt:
			continue
		case len(edits) == 1:
			e = contig.Normal(e)
		default:
			e = contig.Anchored(e.Trim())
		}
		if i := len(out) - 1; i >= 0 && e.Start == out[i].End()-1 {
			// At the beginning of the contig a row is anchored on the base behind it, and on that the next one, too.
			out[i].Ref, out[i].Alt = out[i].Ref+e.Ref[1:], out[i].Alt+e.Alt[1:]
			continue
		}
		out = append(out, e)
	}
	return out, nil
}

// onContig is an edit of the contig that on counts along, which is unrolled if it is circular, on the contig itself.
func (n *Normalizer) onContig(on *numbering, e vrs.Edit) (vrs.Edit, error) {
	length := n.a.genome.Contig(on.contig.Name).Len()
	switch {
	case e.Start >= length && e.End() > length:
		e.Start -= length
	case e.End() > length:
		return e, fmt.Errorf("the change crosses the origin of %s, which is not supported", on.contig.Name)
	}
	return e, nil
}

// joins reports whether two changes of one molecule are one: if no base lies between them, or one and they change the
// same codon.
func (n *numbering) joins(e, f vrs.Edit) bool {
	if e.Ref == e.Alt || f.Ref == f.Alt {
		return false
	}
	between := f.Start - e.End()
	if between != 1 || n.kind != 'c' || len(e.Ref) != len(e.Alt) || len(f.Ref) != len(f.Alt) {
		return between == 0
	}
	first, last := n.t.locate(n.t.cds, e.Start), n.t.locate(n.t.cds, f.End()-1)
	return first >= 0 && last >= 0 && first/3 == last/3 && abs(first-last) <= 2
}

// normal describes the alleles.
func (n *Normalizer) normal(on *numbering, alleles []resolved) (Normal, error) {
	along := on
	if on.t != nil {
		c := n.a.genome.Contig(on.contig.Name)
		along = &numbering{contig: c, kind: 'g', name: c.Name}
		switch {
		case on.t.isContig():
			along.kind = 'n' // there is no genome
		case n.a.model.mitochondrial(c):
			along.kind = 'm'
		}
	}
	var out Normal
	var err error
	if out.Description, err = on.describeAlleles(alleles, func(r *resolved) []resolvedChange { return r.changes }); err != nil {
		return Normal{}, err
	}
	for i, a := range alleles { // what the description does not give as a copy is none along the contig either
		alleles[i].copies = on.kept(a)
	}
	if out.Genomic, err = along.describeAlleles(alleles, func(r *resolved) []resolvedChange { return r.along }); errors.Is(err, errNoDescription) {
		out.Genomic, err = "", nil
	}
	if err != nil {
		return Normal{}, err
	}
	out.Protein = n.protein(on, alleles)
	for _, a := range alleles {
		for _, e := range a.rows {
			out.Loci = append(out.Loci, Locus{Contig: on.contig.Name, Pos: e.Start + 1, Ref: e.Ref, Alt: e.Alt})
		}
	}
	return out, nil
}

// describeAlleles is the description of all alleles, whose changes are found by changes.
func (n *numbering) describeAlleles(alleles []resolved, changes func(*resolved) []resolvedChange) (string, error) {
	texts := make([]string, len(alleles))
	for i, a := range alleles {
		own := changes(&a)
		list := make([]string, len(own))
		for j, c := range own {
			var err error
			if list[j], err = n.describeChange(c, a.copies); err != nil {
				return "", err
			}
		}
		if !n.forward() {
			slices.Reverse(list)
		}
		texts[i] = bracketed(strings.Join(list, ";"), a, len(alleles) == 1 && len(list) == 1)
	}
	return n.prefix() + joinAlleles(texts, alleles), nil
}

// bracketed puts changes in brackets unless they stand alone.
func bracketed(s string, a resolved, alone bool) string {
	if alone || a.Bare {
		return s
	}
	return "[" + s + "]"
}

// joinAlleles joins the texts of alleles.
func joinAlleles(texts []string, alleles []resolved) string {
	var b strings.Builder
	for i, s := range texts {
		switch {
		case i == 0:
		case alleles[i].Unphased:
			b.WriteString("(;)")
		default:
			b.WriteByte(';')
		}
		b.WriteString(s)
	}
	return b.String()
}

// describeChange is the description of one change; copies are what it may copy.
func (n *numbering) describeChange(c resolvedChange, copies []Span) (string, error) {
	switch {
	case c.whole:
		return "=", nil
	case c.v != nil:
		return n.describe(n.t.sees(c.v), copies)
	}
	first, last := c.edit.Start, c.edit.End()-1
	if turn := n.t.turn(c.edit.Start, c.edit.End()); turn > 0 {
		first, last = first+turn, last+turn
	}
	if last < first { // an insertion of nothing: the bases on its two sides are as they were
		first, last = max(0, last), min(first, n.contig.Len()-1)
	}
	if !n.forward() {
		first, last = last, first
	}
	b := n.appendPosition(nil, first)
	if first != last {
		b = n.appendPosition(append(b, '_'), last)
	}
	return string(append(b, '=')), nil
}

// protein describes the proteins that the alleles give, those of several genes separated by semicolons; "" if there is
// none to describe.
func (n *Normalizer) protein(on *numbering, alleles []resolved) string {
	transcripts := []*transcript{on.t}
	if on.t == nil {
		transcripts = n.relevant(alleles)
	}
	var texts []string
	for _, t := range transcripts {
		if p := n.proteinOf(t, alleles); p != "" {
			texts = append(texts, p)
		}
	}
	return strings.Join(texts, ";")
}

// proteinOf is the description of the proteins that t gives: "=" where no change of them is expected, and "" where it is
// not known whether one is.
func (n *Normalizer) proteinOf(t *transcript, alleles []resolved) string {
	if t.cds == nil {
		return ""
	}
	texts := make([]string, len(alleles))
	some, unsure := false, false
	for i, a := range alleles {
		list := t.proteinChanges(a.changes)
		some = some || len(list) > 0
		if len(list) == 0 {
			list = []string{sameProtein}
			unsure = unsure || slices.ContainsFunc(a.changes, func(c resolvedChange) bool { return c.v != nil && t.maySplice(c.v) })
		}
		texts[i] = bracketed(n.style.change(strings.Join(list, ";")), a, len(alleles) == 1 && len(list) == 1)
	}
	if !some && unsure {
		return ""
	}
	return t.protein + ":p." + joinAlleles(texts, alleles)
}

// maySplice reports whether v changes bases near an end of an exon, beside the splice site itself: the nomenclature has no
// word for what becomes of the protein then.
func (t *transcript) maySplice(v *variant) bool {
	terms := t.effectOf(v).terms
	return terms.has(spliceRegion) || terms.has(spliceDonorRegion) || terms.has(spliceDonor5thBase)
}

// relevant are the transcripts whose proteins a description along the contig is about: for each change the first by
// relevance that it concerns, unless it concerns one of another change.
func (n *Normalizer) relevant(alleles []resolved) []*transcript {
	var list []*transcript
	for _, a := range alleles {
		for _, c := range a.changes {
			concerned := func(t *transcript) bool { return t.proteinChange(c.v) != "" }
			if c.v == nil || slices.ContainsFunc(list, concerned) {
				continue
			}
			for _, e := range n.a.effects(new(workspace), c.v) {
				if e.t != nil && concerned(e.t) {
					list = append(list, e.t)
					break
				}
			}
		}
	}
	return list
}

// proteinChanges are what the changes of one molecule do to the protein. Changes of one codon, those of residues that follow
// each other, and those that follow a shift of the reading frame until it is restored, have one consequence together.
func (t *transcript) proteinChanges(changes []resolvedChange) []string {
	if len(changes) == 1 && changes[0].v != nil {
		if p := t.wholeExons(changes[0].v); p != "" {
			return []string{p}
		}
	}
	changes = slices.Clone(changes)
	if !t.forward {
		slices.Reverse(changes)
	}
	var list []string
	add := func(p string) {
		if p != "" {
			list = append(list, p)
		}
	}
	var open *effect // of changes that may go on
	flush := func() {
		if open != nil {
			add(open.predicted())
			open = nil
		}
	}
	for _, c := range changes {
		switch {
		case c.whole:
			return []string{sameProtein}
		case c.v == nil:
			flush()
			add(t.sameResidues(c.edit))
			continue
		}
		e := t.effectOf(c.v)
		switch {
		case e.codon == nil || t.describesIntron(c.v):
			flush()
			add(t.proteinChange(c.v))
		case open != nil && (open.goesOn(e) || open.besides(e)):
			open.append(e)
		default:
			flush()
			open = e
		}
	}
	flush()
	for _, all := range []string{lostStart, noProtein} {
		if slices.Contains(list, all) {
			return []string{all} // what else there is has no protein to be in
		}
	}
	return list
}

// effectOf is what v does to t.
func (t *transcript) effectOf(v *variant) *effect {
	var e effect
	w := t.sees(v)
	w.effectOn(new(workspace), &e, t, 0, 0)
	e.seen = w
	return &e
}

// proteinChange is what follows "p." for v, "" if it does not concern the protein.
func (t *transcript) proteinChange(v *variant) string {
	if t.cds == nil {
		return ""
	}
	e := t.effectOf(v)
	p := e.predicted()
	if p != "" && e.codon != nil && t.describesIntron(v) {
		return unknownProtein
	}
	return p
}

// describesIntron reports whether the description of an insertion or deletion names bases of an intron. Where it could as
// well lie in the exon, either the exon changes or the splice site does.
func (t *transcript) describesIntron(v *variant) bool {
	v = t.sees(v)
	d := v.describe(t.forward, t.start, t.end)
	if v.roll == 0 || d.start <= t.start || d.end >= t.end {
		return false
	}
	intronic := func(base int) bool { return t.locate(t.exons, base) < 0 }
	if d.kind == hgvsInsertion {
		return intronic(d.start-1) && intronic(d.start)
	}
	return intronic(d.start) || intronic(d.end-1)
}

// sameResidues names the residues of bases that stay as they are, "" if they are not coding.
func (t *transcript) sameResidues(e vrs.Edit) string {
	if t.cds == nil || e.Ref == "" {
		return ""
	}
	turn := t.turn(e.Start, e.End())
	from, to := t.span(t.cds, e.Start+turn, e.End()+turn)
	if from < 0 || to <= from || t.reference(from/3) == 0 || t.reference((to-1)/3) == 0 {
		return ""
	}
	p := proteinDiff{t: t}
	return p.span(from/3, (to-1)/3-from/3+1) + "="
}

// goesOn reports whether f, a change behind e, has its consequence together with e.
func (e *effect) goesOn(f *effect) bool {
	shifts := (e.codon.altLen-e.codon.refLen)%3 != 0
	return f.cdsFrom >= e.cdsTo && (shifts || f.codon.first <= max(e.cdsTo-1, e.cdsFrom)/3)
}

// besides reports whether f, a change behind e, replaces or adds residues directly behind those that e does, or where e,
// moved to the end of the protein as far as it goes, would stand.
func (e *effect) besides(f *effect) bool {
	if f.cdsFrom < e.cdsTo {
		return false
	}
	before, after := e.predicted(), f.predicted()
	if shiftsOrStays.MatchString(before) || staysOrExtends.MatchString(after) {
		return false
	}
	_, last := touched(before)
	first, _ := touched(after)
	return last > 0 && first > 0 && first <= last+1
}

var (
	// What has no residues behind it that another change could be beside, or changes none.
	shiftsOrStays = regexp.MustCompile(`fs|Ter|ext|[=?]$`)
	// What changes no residue, or begins with the stop.
	staysOrExtends = regexp.MustCompile(`ext|=$|^[?0]|^Ter|^Met1\?$`)
	// A residue, or two, that a description of a protein begins with.
	residues = regexp.MustCompile(`^[A-Z][a-z]{2}([0-9]+)(?:_[A-Z][a-z]{2}([0-9]+))?(ins|dup)?`)
)

// touched are the first and the last residue that the description of a protein changes; where it adds some, last is the
// one before and first the one behind. Both are 0 if there is none.
func touched(p string) (first, last int) {
	m := residues.FindStringSubmatch(p)
	if m == nil {
		return 0, 0
	}
	first, _ = strconv.Atoi(m[1])
	last, _ = strconv.Atoi(cmp.Or(m[2], m[1]))
	switch m[3] {
	case "ins":
		first, last = last, first
	case "dup":
		first = last + 1
	}
	return first, last
}

// append makes e the change of both.
func (e *effect) append(f *effect) {
	alt := e.codon.inserted() + string(e.t.appendCodingPart(nil, e.cdsTo, f.cdsFrom)) + f.codon.inserted()
	e.cdsTo = f.cdsTo
	e.codon = new(codonChange)
	e.t.codonChange(e.codon, e.cdsFrom, e.cdsTo, alt)
	e.lostStart = e.lostStart || f.lostStart
	e.terms = (e.terms | f.terms) &^ (1 << startRetained)
	if c := e.codon; e.touchesStart() && c.refLen == c.altLen && c.first == 0 {
		e.lostStart = !isCodon(e.t.code.starts, c.alt[0], c.alt[1], c.alt[2])
	}
	e.terms.addIf(e.terms == 0, codingSequence)
}

// inserted are the new bases in transcript direction.
func (c *codonChange) inserted() string { return c.alt[c.lead : c.lead+c.altLen] }

// predicted is what follows "p." for the protein of e's transcript, "" if the change does not concern it.
func (e *effect) predicted() string {
	switch {
	case e.t == nil || e.t.cds == nil || e.terms == 0:
		return ""
	case e.terms.has(transcriptAblation):
		return noProtein
	}
	if p := e.proteinChange(); strings.Contains(p, threeLetter[unknownAmino]) {
		return unknownProtein
	} else if p != "" {
		return p
	}
	for _, unknown := range []termID{spliceDonor, spliceAcceptor, codingSequence, stopLost, frameshift} {
		if e.terms.has(unknown) {
			return unknownProtein
		}
	}
	if e.codon != nil {
		return unknownProtein
	}
	return ""
}
