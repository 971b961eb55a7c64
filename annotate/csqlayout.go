package annotate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// csqField is a sub-field of INFO/CSQ.
type csqField uint8

// The sub-fields, those of csqFields first.
const (
	csqAllele csqField = iota
	csqConsequence
	csqImpact
	csqSymbol
	csqGene
	csqFeatureType
	csqFeature
	csqBiotype
	csqExon
	csqIntron
	csqHGVSc
	csqHGVSp
	csqCDNA
	csqCDS
	csqProtein
	csqAminoAcids
	csqCodons
	csqExisting
	csqDistance
	csqStrand
	csqFlags
	csqPick
	csqCanonical
	csqManeSelect
	csqHGVSOffset
	csqHGVSg
	csqManePlusClinical
	csqTSL
	csqAPPRIS
	csqCCDS
	csqENSP
	csqNMD
	csqAlleleNum
	csqDomains
	csqGO
	csqFieldCount
)

// csqNames are Ensembl VEP's names of the sub-fields.
var csqNames = [csqFieldCount]string{
	"Allele", "Consequence", "IMPACT", "SYMBOL", "Gene", "Feature_type", "Feature", "BIOTYPE", "EXON", "INTRON", "HGVSc", "HGVSp",
	"cDNA_position", "CDS_position", "Protein_position", "Amino_acids", "Codons", "Existing_variation", "DISTANCE", "STRAND", "FLAGS",
	"PICK", "CANONICAL", "MANE_SELECT", "HGVS_OFFSET", "HGVSg",
	"MANE_PLUS_CLINICAL", "TSL", "APPRIS", "CCDS", "ENSP", "NMD", "ALLELE_NUM", "DOMAINS", "GO",
}

// CSQSubfields are the names of the sub-fields that INFO/CSQ can have; the first defaults of them it has unless others
// are chosen.
func CSQSubfields() (names []string, defaults int) {
	return slices.Clone(csqNames[:]), strings.Count(csqFields, "|") + 1
}

// csqClass is a class of entries by what they certainly leave empty. Most entries of a genome are about introns and about
// genes beside the variant, and nearly all of their text is always the same.
type csqClass uint8

// The classes.
const (
	insideEntry  csqClass = iota // of a variant in the transcript
	wholeEntry                   // of one beside it, or that concerns it as a whole
	intronEntry                  // of one in an intron, away from its ends
	nowhereEntry                 // of one that is on no transcript and no regulatory feature
	csqClassCount
)

// csqStep is how one sub-field, or several together, are written: as text that was written before, or anew for each variant.
type csqStep struct {
	field csqField
	fixed []csqField // what the text is made of; nil if the field is written for each variant
}

// csqLayout says which sub-fields INFO/CSQ has.
type csqLayout struct{ fields []csqField }

// newCSQLayout is the layout with the sub-fields of the given names; the usual ones if there are none.
func newCSQLayout(names []string) (*csqLayout, error) {
	if len(names) == 0 {
		names = strings.Split(csqFields, "|")
	}
	l := &csqLayout{}
	for _, name := range names {
		i := slices.IndexFunc(csqNames[:], func(s string) bool { return strings.EqualFold(s, name) })
		if i < 0 {
			return nil, fmt.Errorf("CSQ has no sub-field %q: there are %s", name, strings.Join(csqNames[:], ", "))
		}
		if slices.Contains(l.fields, csqField(i)) {
			return nil, fmt.Errorf("sub-field %q of CSQ is named twice", name)
		}
		l.fields = append(l.fields, csqField(i))
	}
	return l, nil
}

// description is the Description of INFO/CSQ in a header.
func (l *csqLayout) description() string {
	names := make([]string, len(l.fields))
	for i, f := range l.fields {
		names[i] = csqNames[f]
	}
	return csqFormat + strings.Join(names, "|")
}

// emptyIn reports whether f is empty in all entries of a class.
func (f csqField) emptyIn(class csqClass) bool {
	switch class {
	case wholeEntry:
		return f.ofPlace()
	case nowhereEntry:
		return f.ofPlace() || f == csqDistance
	case intronEntry:
		switch f {
		case csqExon, csqHGVSp, csqCDNA, csqCDS, csqProtein, csqAminoAcids, csqCodons, csqNMD, csqDistance:
			return true
		}
	case insideEntry:
		return f == csqDistance
	}
	return false
}

// ofTranscript reports whether the transcript alone decides f.
func (f csqField) ofTranscript() bool {
	switch f {
	case csqSymbol, csqGene, csqFeatureType, csqFeature, csqBiotype, csqStrand, csqFlags, csqCanonical, csqManeSelect, csqManePlusClinical,
		csqTSL, csqAPPRIS, csqCCDS, csqENSP:
		return true
	}
	return false
}

// ofPlace reports whether f describes a place in the transcript or the change there: it is empty for a variant beside it.
func (f csqField) ofPlace() bool {
	switch f {
	case csqExon, csqIntron, csqHGVSc, csqHGVSp, csqCDNA, csqCDS, csqProtein, csqAminoAcids, csqCodons, csqHGVSOffset, csqNMD:
		return true
	}
	return false
}

// appendCSQ appends a sub-field that t alone decides; all others, and those of no transcript, are empty.
func (t *transcript) appendCSQ(b []byte, f csqField) []byte {
	if t == nil {
		return b
	}
	from := len(b)
	yes := func(ok bool, s string) {
		if ok {
			b = append(b, s...)
		}
	}
	switch f {
	case csqSymbol:
		b = append(b, t.gene.name.Symbol...)
	case csqGene:
		b = append(b, t.gene.name.ID...)
	case csqFeatureType:
		b = append(b, t.name.Type...)
	case csqFeature:
		b = append(b, t.name.ID...)
	case csqBiotype:
		b = append(b, t.name.Biotype...)
	case csqStrand:
		yes(t.forward, "1")
		yes(!t.forward, "-1")
	case csqFlags:
		yes(t.startNF, "cds_start_NF")
		yes(t.startNF && t.endNF, "&")
		yes(t.endNF, "cds_end_NF")
		return b
	case csqCanonical:
		yes(t.canonical, "YES")
	case csqManeSelect:
		yes(t.maneSelect, t.id)
	case csqManePlusClinical:
		yes(t.manePlus, t.id)
	case csqTSL:
		if t.labels.tsl > 0 {
			b = strconv.AppendInt(b, int64(t.labels.tsl), 10)
		}
	case csqAPPRIS:
		b = append(b, t.labels.appris...)
	case csqCCDS:
		b = append(b, t.labels.ccds...)
	case csqENSP:
		b = append(b, t.protein...)
	}
	if t.plain {
		return b
	}
	return escapeFrom(b, from)
}

// escapeFrom escapes what was appended to b from the given index on.
func escapeFrom(b []byte, from int) []byte {
	if plainInCSQ(b[from:]) {
		return b
	}
	return append(b[:from], escapeCSQ(string(b[from:]))...)
}

// csqWriter writes INFO/CSQ. It is for one goroutine.
type csqWriter struct {
	layout    *csqLayout
	functions func(*effect) []Function
	steps     [csqClassCount][2][]csqStep // the second are of variants that can stand in one place only
	texts     [csqTexts]csqText
	allele    []byte // of the alternate allele, with a "|"
	hgvsg     []byte // of the alternate allele, with a "|"
}

// csqTexts is how many texts of entries the writer keeps: variants come by place, and few transcripts overlap.
const csqTexts = 512

// csqKey is what decides the fixed text of an entry.
type csqKey struct {
	t      *transcript
	terms  termSet
	class  csqClass
	still  bool // the variant can stand in one place only
	picked bool
}

// csqText is the fixed text of an entry, for the steps that have some.
type csqText struct {
	key  csqKey
	text []byte
	ends []int // of the steps' parts in text
}

func (a *Annotator) csqWriter(l *csqLayout) *csqWriter {
	w := &csqWriter{layout: l, functions: a.functionsOf}
	never := func(f csqField) bool {
		switch f {
		case csqExisting:
			return a.sources == nil
		case csqDomains, csqGO:
			return a.functions == nil
		}
		return false
	}
	for class := range csqClassCount {
		w.steps[class][0] = l.steps(func(f csqField) bool { return f.fixedIn(class) || never(f) })
		w.steps[class][1] = l.steps(func(f csqField) bool { return f.fixedIn(class) || never(f) || f == csqHGVSOffset })
	}
	return w
}

// steps joins neighbouring sub-fields that are fixed.
func (l *csqLayout) steps(fixed func(csqField) bool) []csqStep {
	var steps []csqStep
	joined := false
	for _, f := range l.fields {
		switch {
		case !fixed(f):
			steps = append(steps, csqStep{field: f})
		case !joined:
			steps = append(steps, csqStep{field: f, fixed: []csqField{f}})
		default:
			last := &steps[len(steps)-1]
			last.fixed = append(last.fixed, f)
		}
		joined = fixed(f)
	}
	return steps
}

// fixedIn reports whether a csqKey of the class decides f.
func (f csqField) fixedIn(class csqClass) bool {
	return f == csqConsequence || f == csqImpact || f == csqPick || f.ofTranscript() || f.emptyIn(class)
}

// textOf is the fixed text of the entries with the given key.
func (w *csqWriter) textOf(key csqKey) *csqText {
	const spread = 0x9e3779b97f4a7c15 // 2^64 by the golden ratio: near keys get texts far from each other
	slot := uint64(key.terms)<<8 | uint64(key.class)
	if key.t != nil {
		slot += uint64(key.t.rank) << 40
	}
	x := &w.texts[slot*spread>>55%csqTexts]
	if x.key == key && x.ends != nil {
		return x
	}
	x.key, x.text, x.ends = key, x.text[:0], x.ends[:0]
	steps := w.stepsOf(&key)
	for i := range steps {
		if steps[i].fixed == nil {
			continue
		}
		for _, f := range steps[i].fixed {
			switch f {
			case csqConsequence:
				x.text = key.terms.appendNames(x.text)
			case csqImpact:
				x.text = append(x.text, terms[key.terms.worst()].impact...)
			case csqPick:
				if key.picked {
					x.text = append(x.text, '1')
				}
			default:
				x.text = key.t.appendCSQ(x.text, f)
			}
			x.text = append(x.text, '|')
		}
		x.ends = append(x.ends, len(x.text))
	}
	return x
}

// stepsOf are the steps of the entries with the given key.
func (w *csqWriter) stepsOf(key *csqKey) []csqStep {
	if key.still {
		return w.steps[key.class][1]
	}
	return w.steps[key.class][0]
}

// append appends the entries of one alternate allele, numbered from 1, with commas between them.
func (w *csqWriter) append(b []byte, j *evaluatedAllele, number int) []byte {
	v := j.described()
	w.allele, w.hgvsg = append(w.allele[:0], j.name...), v.appendOnContig(w.hgvsg[:0])
	if v.place == nil || !v.place.plainName || v.kind != svNone { // otherwise there are letters and digits only
		w.allele, w.hgvsg = escapeFrom(w.allele, 0), escapeFrom(w.hgvsg, 0)
	}
	w.allele, w.hgvsg = append(w.allele, '|'), append(w.hgvsg, '|')
	for i, e := range j.effects {
		if i > 0 {
			b = append(b, ',')
		}
		b = w.entry(b, j, e, number)
		b = b[:len(b)-1] // the last "|"
	}
	return b
}

// class is the class of e's entry; false if it has to be written field by field.
func (e *effect) class() (csqClass, bool) {
	switch {
	case e.t == nil:
		return nowhereEntry, e.r == nil
	case e.whole:
		return wholeEntry, true
	case e.inIntronOnly:
		return intronEntry, true
	}
	return insideEntry, true
}

// entry appends one entry and a "|".
func (w *csqWriter) entry(b []byte, j *evaluatedAllele, e *effect, number int) []byte {
	class, known := e.class()
	if !known {
		for _, f := range w.layout.fields {
			b = append(w.field(b, f, j, e, number), '|')
		}
		return b
	}
	key := csqKey{t: e.t, terms: e.terms, class: class, picked: e.picked, still: e.seen == nil || e.seen.roll == 0}
	fixed, from, n := w.textOf(key), 0, 0
	steps := w.stepsOf(&key)
	for i := range steps {
		s := &steps[i]
		if s.fixed != nil {
			to := fixed.ends[n]
			b = append(b, fixed.text[from:to]...)
			from = to
			n++
			continue
		}
		switch s.field { // what every entry has
		case csqAllele:
			b = append(b, w.allele...)
		case csqHGVSg:
			b = append(b, w.hgvsg...)
		case csqIntron:
			b = append(appendNumberOf(b, e.intronFirst, e.intronLast, len(e.t.exons)-1), '|')
		case csqDistance:
			b = appendDistance(b, e.distance)
		default:
			if !e.lacks(s.field, j) {
				b = w.field(b, s.field, j, e, number)
			}
			b = append(b, '|')
		}
	}
	return b
}

// lacks says of an effect that a sub-field is certainly empty: most of an intron's are.
func (e *effect) lacks(f csqField, j *evaluatedAllele) bool {
	switch f {
	case csqExon:
		return e.exonFirst == 0
	case csqCDNA:
		return e.cdnaFrom < 0 && e.cdnaTo < 0
	case csqCDS:
		return e.cdsFrom < 0 && e.cdsTo < 0
	case csqProtein, csqAminoAcids, csqCodons:
		return e.codon == nil
	case csqExisting:
		return len(j.known) == 0
	}
	return false
}

// appendDistance appends a distance that is not zero, and a "|". Most have up to four digits, and there are many.
func appendDistance(b []byte, n int) []byte {
	switch {
	case n >= 10_000:
		return append(strconv.AppendInt(b, int64(n), 10), '|')
	case n >= 1000:
		return append(b, byte('0'+n/1000), byte('0'+n/100%10), byte('0'+n/10%10), byte('0'+n%10), '|')
	case n >= 100:
		return append(b, byte('0'+n/100), byte('0'+n/10%10), byte('0'+n%10), '|')
	case n > 0:
		return append(strconv.AppendInt(b, int64(n), 10), '|')
	}
	return append(b, '|')
}

// field appends one sub-field of e.
func (w *csqWriter) field(b []byte, f csqField, j *evaluatedAllele, e *effect, number int) []byte {
	t := e.t
	from := len(b)
	switch f {
	case csqAllele:
		b = append(b, j.name...)
	case csqConsequence:
		return e.terms.appendNames(b)
	case csqImpact:
		return append(b, terms[e.terms.worst()].impact...)
	case csqPick:
		if e.picked {
			b = append(b, '1')
		}
		return b
	case csqHGVSg:
		return append(b, w.hgvsg[:len(w.hgvsg)-1]...)
	case csqExisting:
		return appendExisting(b, j.known)
	case csqDomains:
		return appendFunctionsCSQ(b, w.functions(e), Domain)
	case csqGO:
		return appendFunctionsCSQ(b, w.functions(e), GeneTerm)
	case csqAlleleNum:
		return strconv.AppendInt(b, int64(number), 10)
	case csqDistance:
		if e.distance != 0 {
			b = strconv.AppendInt(b, int64(e.distance), 10)
		}
		return b
	case csqFeatureType, csqFeature, csqBiotype:
		if t == nil && e.r != nil {
			b = append(b, map[csqField]string{csqFeatureType: e.r.name.Type, csqFeature: e.r.name.ID, csqBiotype: e.r.name.Biotype}[f]...)
		}
	default:
		if t != nil && !e.whole {
			return e.appendPlace(b, f)
		}
	}
	return escapeFrom(b, from)
}

// appendPlace appends a sub-field that describes a place in the transcript or the change there.
func (e *effect) appendPlace(b []byte, f csqField) []byte {
	t, v := e.t, e.seen
	from := len(b)
	switch f {
	case csqExon:
		return appendNumberOf(b, e.exonFirst, e.exonLast, len(t.exons))
	case csqIntron:
		return appendNumberOf(b, e.intronFirst, e.intronLast, len(t.exons)-1)
	case csqCDNA:
		return appendPosition(b, e.cdnaFrom, e.cdnaTo)
	}
	if v.kind == svNone {
		switch f {
		case csqHGVSc:
			if b, _ = v.appendHGVSC(b, t); t.plain {
				return b
			}
			return escapeFrom(b, from)
		case csqHGVSOffset:
			if v.roll == 0 {
				return b // it can stand nowhere else
			}
			if shift := v.shiftIn(t); shift != 0 {
				b = strconv.AppendInt(b, int64(shift), 10)
			}
			return b
		case csqHGVSp:
			if t.cds != nil {
				b = e.appendHGVSP(b)
			}
			return escapeFrom(b, from)
		case csqNMD:
			if p := e.nmd(); p != nil && !p.Predicted {
				b = append(b, "NMD_escaping_variant"...)
			}
			return b
		}
	}
	switch {
	case t.cds == nil:
	case f == csqCDS:
		b = appendPosition(b, e.cdsFrom, e.cdsTo)
	case e.codon == nil:
	case f == csqProtein:
		b = e.codon.appendProtein(b)
	case f == csqAminoAcids:
		b = e.codon.appendAminoAcids(b)
	case f == csqCodons:
		b = e.codon.appendCodons(b)
	}
	return b
}

// appendNames appends the names of the terms with "&" between them.
func (s termSet) appendNames(b []byte) []byte {
	for i := 0; s != 0; s &= s - 1 {
		if i > 0 {
			b = append(b, '&')
		}
		b = append(b, terms[s.worst()].Name...)
		i++
	}
	return b
}
