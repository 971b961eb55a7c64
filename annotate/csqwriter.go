package annotate

// Problem: most of the time of annotating a genome goes into writing text, nearly all of which was written for the entry
// before: names, terms, and sub-fields that stay empty.
//
// Strategy: entries fall into classes by what they certainly leave empty. An entry of a class is a few steps, each a
// text that the transcript and the terms decide, and a sub-field that is written for each variant. Such texts are kept,
// and are made of others that are kept: what a transcript alone decides is written once while variants lie in it.

// csqWriter writes INFO/CSQ. It is for one goroutine.
type csqWriter struct {
	layout    *csqLayout
	functions func(*effect) []Function
	steps     [csqClassCount][2][]csqStep // the second are of variants that can stand in one place only
	texts     [csqTexts]csqEntryText
	names     [csqTranscripts]csqTranscriptText
	allele    []byte // of the alternate allele, with a "|"
	hgvsg     []byte // of the alternate allele, with a "|"
}

const (
	// csqTexts is how many texts of entries the writer keeps: variants come by place, and few transcripts overlap.
	csqTexts = 256
	// csqTranscripts is of how many transcripts it keeps what they alone decide.
	csqTranscripts = 128
)

// csqKey is what decides the fixed text of an entry.
type csqKey struct {
	t      *transcript
	terms  termSet
	class  csqClass
	still  bool // the variant can stand in one place only
	picked bool
}

// csqEntryText is the fixed text of an entry.
type csqEntryText struct {
	key  csqKey
	text []byte
	ends []int // of the steps' parts in text
}

// csqTranscriptText is what a transcript alone decides.
type csqTranscriptText struct {
	t    *transcript
	text []byte
	ends []int // of the layout's runs in text
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
		w.steps[class][0] = l.steps(class, func(f csqField) bool { return f.emptyIn(class) || never(f) })
		w.steps[class][1] = l.steps(class, func(f csqField) bool { return f.emptyIn(class) || never(f) || f == csqHGVSOffset })
	}
	return w
}

// steps are the steps of the entries of a class, of which some sub-fields are empty.
func (l *csqLayout) steps(class csqClass, empty func(csqField) bool) []csqStep {
	s := csqSteps{{field: csqNothing}}
	run := -1
	for i, f := range l.fields {
		first := l.beginsRun(i)
		if first {
			run++
		}
		switch {
		case empty(f):
			s.fixed(csqPiece{field: csqText, text: "|"})
		case first:
			s.fixed(csqPiece{field: csqOfTranscript, run: run})
		case f.ofTranscript(): // the run has it
		case f == csqConsequence || f == csqImpact || f == csqPick:
			s.fixed(csqPiece{field: f})
		case f == csqIntron && class == intronBaseEntry:
			s.varies(csqIntronNumber)
			s.fixed(csqPiece{field: csqIntronCount})
		case f == csqHGVSc && class == intronBaseEntry:
			s.fixed(csqPiece{field: csqReference})
			s.varies(csqBaseInIntron)
		default:
			s.varies(f)
		}
	}
	return s
}

// csqSteps are steps in the making.
type csqSteps []csqStep

// fixed appends a piece of text.
func (s csqSteps) fixed(p csqPiece) {
	last := &s[len(s)-1]
	if n := len(last.fixed); n > 0 && p.field == csqText && last.fixed[n-1].field == csqText {
		last.fixed[n-1].text += p.text
		return
	}
	last.fixed = append(last.fixed, p)
}

// varies appends a sub-field that is written for each variant.
func (s *csqSteps) varies(f csqField) {
	(*s)[len(*s)-1].field = f
	*s = append(*s, csqStep{field: csqNothing})
}

// textOf is the fixed text of the entries with the given key.
func (w *csqWriter) textOf(key csqKey) *csqEntryText {
	const spread = 0x9e3779b97f4a7c15 // 2^64 by the golden ratio: near keys get texts far from each other
	slot := uint64(key.terms)<<8 | uint64(key.class)
	if key.t != nil {
		slot += uint64(key.t.rank) << 40
	}
	x := &w.texts[slot*spread>>48%csqTexts]
	if x.key == key && x.ends != nil {
		return x
	}
	x.key, x.text, x.ends = key, x.text[:0], x.ends[:0]
	for _, s := range w.stepsOf(&key) {
		for i := range s.fixed {
			x.text = w.appendPiece(x.text, &s.fixed[i], &key)
		}
		x.ends = append(x.ends, len(x.text))
	}
	return x
}

// appendPiece appends a piece of the text of the entries with the given key.
func (w *csqWriter) appendPiece(b []byte, p *csqPiece, key *csqKey) []byte {
	switch p.field {
	case csqText:
		return append(b, p.text...)
	case csqOfTranscript:
		return append(b, w.namesOf(key.t, p.run)...)
	case csqIntronCount:
		return append(appendNumber(append(b, '/'), len(key.t.exons)-1), '|')
	case csqReference:
		return key.t.appendReference(b)
	}
	return append(appendOfTerms(b, p.field, key.terms, key.picked), '|')
}

// appendOfTerms appends a sub-field that the terms of an effect decide, or whether it is the one picked.
func appendOfTerms(b []byte, f csqField, of termSet, picked bool) []byte {
	switch {
	case f == csqConsequence:
		return of.appendNames(b)
	case f == csqImpact:
		return append(b, terms[of.worst()].impact...)
	case f == csqPick && picked:
		return append(b, '1')
	}
	return b
}

// namesOf is a run of sub-fields that t alone decides, with a "|" behind each.
func (w *csqWriter) namesOf(t *transcript, run int) []byte {
	x := &w.names[t.rank%csqTranscripts]
	if x.t != t {
		x.t, x.text, x.ends = t, x.text[:0], x.ends[:0]
		for _, fields := range w.layout.runs {
			for _, f := range fields {
				x.text = append(t.appendCSQ(x.text, f), '|')
			}
			x.ends = append(x.ends, len(x.text))
		}
	}
	if run == 0 {
		return x.text[:x.ends[0]]
	}
	return x.text[x.ends[run-1]:x.ends[run]]
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
	case !e.inIntronOnly:
		return insideEntry, true
	case e.t.plain && e.seen.substitution():
		return intronBaseEntry, true
	}
	return intronEntry, true
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
	fixed, from := w.textOf(key), 0
	steps := w.stepsOf(&key)
	for i := range steps {
		to := fixed.ends[i]
		b = append(b, fixed.text[from:to]...)
		from = to
		switch f := steps[i].field; f { // what every entry has
		case csqNothing:
		case csqAllele:
			b = append(b, w.allele...)
		case csqHGVSg:
			b = append(b, w.hgvsg...)
		case csqIntronNumber:
			b = appendNumber(b, e.intronFirst)
		case csqBaseInIntron:
			b = append(e.t.appendSubstitution(b, e.seen, e.intronFirst), '|')
		case csqDistance:
			b = append(appendDistance(b, e.distance), '|')
		default:
			if !e.lacks(f, j) {
				b = w.field(b, f, j, e, number)
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

// appendDistance appends a distance that is not zero.
func appendDistance(b []byte, n int) []byte {
	if n != 0 {
		b = appendNumber(b, n)
	}
	return b
}

// field appends one sub-field of e.
func (w *csqWriter) field(b []byte, f csqField, j *evaluatedAllele, e *effect, number int) []byte {
	t := e.t
	from := len(b)
	switch f {
	case csqAllele:
		b = append(b, j.name...)
	case csqConsequence, csqImpact, csqPick:
		return appendOfTerms(b, f, e.terms, e.picked)
	case csqHGVSg:
		return append(b, w.hgvsg[:len(w.hgvsg)-1]...)
	case csqExisting:
		return appendExisting(b, j.known)
	case csqDomains:
		return appendFunctionsCSQ(b, w.functions(e), Domain)
	case csqGO:
		return appendFunctionsCSQ(b, w.functions(e), GeneTerm)
	case csqAlleleNum:
		return appendNumber(b, number)
	case csqDistance:
		return appendDistance(b, e.distance)
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
				b = appendNumber(b, shift)
			}
			return b
		case csqHGVSp:
			if t.cds == nil {
				return b
			}
			b = e.appendHGVSP(b)
			if !t.plain || e.style() != (ProteinStyle{}) {
				return escapeFrom(b, from)
			}
			if n := len(b); n > from && b[n-1] == '=' { // otherwise there are letters and digits only
				b = append(b[:n-1], "%3D"...)
			}
			return b
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
