package annotate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxStructural bounds the bases that a structural variant may span, as VEP's --max_sv_size does: a longer one
// concerns so many transcripts that one record would fill the memory.
const maxStructural = 10_000_000

// svKind is the kind of a structural variant as far as its consequences depend on it.
type svKind uint8

const (
	svNone       svKind = iota // the alleles are sequences
	svLoss                     // deletion
	svGain                     // duplication, or copies gained
	svInsertion                // of a sequence that is not given
	svInversion                // the same bases the other way around
	svCopyNumber               // gain or loss, it is not known which
	svBreakend                 // the contig is joined to another place
)

// structuralType describes a kind of symbolic allele.
type structuralType struct {
	kind svKind
	name string // the Sequence Ontology's name of the alteration, which VEP gives as the allele
}

// structuralTypes are the symbolic alleles of VCF 4.4 that have consequences, and those of mobile elements.
var structuralTypes = map[string]structuralType{
	"DEL":           {svLoss, "deletion"},
	"DEL:ME":        {svLoss, "mobile_element_deletion"},
	"DEL:ME:ALU":    {svLoss, "Alu_deletion"},
	"DEL:ME:L1":     {svLoss, "LINE1_deletion"},
	"DEL:ME:LINE1":  {svLoss, "LINE1_deletion"},
	"DEL:ME:SVA":    {svLoss, "SVA_deletion"},
	"DEL:ME:HERV":   {svLoss, "HERV_deletion"},
	"INS":           {svInsertion, "insertion"},
	"INS:ME":        {svInsertion, "mobile_element_insertion"},
	"INS:ME:ALU":    {svInsertion, "Alu_insertion"},
	"INS:ME:L1":     {svInsertion, "LINE1_insertion"},
	"INS:ME:LINE1":  {svInsertion, "LINE1_insertion"},
	"INS:ME:SVA":    {svInsertion, "SVA_insertion"},
	"INS:ME:HERV":   {svInsertion, "HERV_insertion"},
	"DUP":           {svGain, "duplication"},
	"DUP:TANDEM":    {svGain, "tandem_duplication"},
	"DUP:DISPERSED": {svGain, "duplication"},
	"INV":           {svInversion, "inversion"},
	"CNV":           {svCopyNumber, "copy_number_variation"},
	"CNV:TR":        {svCopyNumber, "copy_number_variation"},
	"BND":           {svBreakend, "chromosome_breakpoint"},
}

// structuralTypeOf is the type that a symbolic allele, without its brackets, names. Of a type with subtypes that are
// not known, the known part counts.
func structuralTypeOf(symbol string) (structuralType, bool) {
	symbol = strings.ToUpper(symbol)
	if rest, ok := strings.CutPrefix(symbol, "CN"); ok {
		if n, err := strconv.Atoi(strings.TrimPrefix(rest, "=")); err == nil && n >= 0 {
			return copyNumber(n), true
		}
	}
	for {
		if t, ok := structuralTypes[symbol]; ok {
			return t, true
		}
		i := strings.LastIndexByte(symbol, ':')
		if i < 0 {
			return structuralType{}, false
		}
		symbol = symbol[:i]
	}
}

// copyNumber is the type of an allele that has n copies, as those of the 1000 Genomes Project name them. One copy is
// what the reference has.
func copyNumber(n int) structuralType {
	switch n {
	case 0:
		return structuralType{svLoss, "deletion"}
	case 1:
		return structuralType{svCopyNumber, "copy_number_variation"}
	}
	return structuralType{svGain, "duplication"}
}

// Site is a VCF record as far as the consequences of its alternate alleles depend on it.
type Site struct {
	Contig string
	Pos    int // 1-based; of the base before a structural variant
	Ref    string
	Alts   []string
	// End is INFO/END: the last base, 1-based, of structural variants; 0 if there is none.
	End int
	// Lengths are INFO/SVLEN, one for each of Alts, of either sign; 0 or missing if not known.
	Lengths []int
	// Imprecise is INFO/IMPRECISE: the ends of structural variants are not known exactly.
	Imprecise bool
}

// Allele is the annotation of one alternate allele of a Site.
type Allele struct {
	Alt string
	// Annotation has no consequences if Unsupported says why, or if a Pick leaves all out.
	Annotation Annotation
	// Unsupported wraps ErrUnsupportedAllele and names the reason. An allele of a symbolic type that is not known has
	// a consequence, sequence_variant, all the same.
	Unsupported error

	variant *variant // nil if not supported
}

// AnnotateSite annotates the alternate alleles of a record, each on its own and in their order, and appends them to
// dst. Sequences are treated as by Annotate. Symbolic alleles and breakends have the consequences of VEP's structural
// variants. An allele whose consequence can't be determined is not an error of the record; an unknown contig, a
// place outside of it or another reference base there is.
func (a *Annotator) AnnotateSite(dst []Allele, s *Site) ([]Allele, error) {
	var w workspace
	evaluated, err := a.evaluate(&w, nil, s)
	if err != nil {
		return dst, err
	}
	for i := range evaluated {
		j := &evaluated[i]
		allele := Allele{Alt: j.alt, Unsupported: j.unsupported, variant: j.v}
		if j.effects != nil {
			allele.Annotation = a.describe(j)
		}
		dst = append(dst, allele)
	}
	return dst, nil
}

// evaluatedAllele is the evaluation of one alternate allele of a Site.
type evaluatedAllele struct {
	alt         string // as in the record
	name        string // as VEP names it
	v           *variant
	effects     []*effect // nil if there are none to report
	known       []Known
	unsupported error
}

// described is the variant to describe; of an allele of an unknown type there is only the name.
func (j *evaluatedAllele) described() *variant {
	if j.v == nil {
		return &variant{symbol: j.alt}
	}
	return j.v
}

// describe returns the whole annotation of j.
func (a *Annotator) describe(j *evaluatedAllele) Annotation {
	ann := j.described().annotation(j.effects, j.name)
	ann.Known = j.known
	a.describeFunctions(ann.Consequences, j.effects)
	return ann
}

// evaluate appends the alternate alleles of s with their effects to dst. They keep memory of w. The error is one of the
// whole record.
func (a *Annotator) evaluate(w *workspace, dst []evaluatedAllele, s *Site) ([]evaluatedAllele, error) {
	first := len(dst)
	for i, alt := range s.Alts {
		v, err := a.alternate(w, s, i)
		if err != nil && !errors.Is(err, ErrUnsupportedAllele) {
			return dst[:first], fmt.Errorf("annotating %s:%d %s>%s: %w", s.Contig, s.Pos, clip(s.Ref), clip(alt), err)
		}
		dst = append(dst, evaluatedAllele{alt: alt, v: v, unsupported: err})
		switch {
		case v != nil:
			w.all = append(w.all, a.effects(w, v))
		case err != nil && reasonOf(err) == UnknownType:
			e := &effect{terms: 1 << sequenceVariant}
			e.preference = a.preferences.of(e)
			w.all = append(w.all, []*effect{e})
		default:
			w.all = append(w.all, nil)
		}
	}
	a.pick.choose(w.all)
	strip := sharedFirstBase(s.Ref, s.Alts)
	for i, effects := range w.all {
		j := &dst[first+i]
		j.effects = effects
		switch {
		case j.v == nil:
			j.name = j.alt
		case j.v.symbol != "":
			j.name = j.v.symbol
		default:
			j.name = strings.ToUpper(j.alt)
			if strip {
				j.name = dash(j.name[1:])
			}
		}
		var err error
		if j.known, err = a.known(j.v, j.alt); err != nil {
			return dst[:first], fmt.Errorf("annotating %s:%d %s>%s: %w", s.Contig, s.Pos, clip(s.Ref), clip(j.alt), err)
		}
	}
	return dst, nil
}

// sharedFirstBase reports whether VEP names the record's alleles without their first base: when one of them is an
// indel and all that are sequences begin alike.
func sharedFirstBase(ref string, alts []string) bool {
	indel := false
	for _, alt := range alts {
		if !isSequence(alt) {
			continue
		}
		if ref == "" || alt[0]|0x20 != ref[0]|0x20 {
			return false
		}
		indel = indel || len(alt) != len(ref)
	}
	return indel
}

// isSequence reports whether an alternate allele is spelled out.
func isSequence(alt string) bool {
	for i := range len(alt) {
		if c := alt[i] | 0x20; c < 'a' || c > 'z' {
			return false
		}
	}
	return alt != ""
}

// alternate is alternate allele i of s. An error that wraps ErrUnsupportedAllele concerns the allele alone.
func (a *Annotator) alternate(w *workspace, s *Site, i int) (*variant, error) {
	alt := s.Alts[i]
	if isSequence(alt) {
		return a.variant(w, s.Contig, s.Pos, s.Ref, alt)
	}
	at, err := a.checkSite(s)
	if err != nil {
		return nil, err
	}
	c := at.contig
	unsupported := func(reason Reason, format string, args ...any) (*variant, error) {
		return nil, &unsupportedError{reason, fmt.Sprintf(format, args...)}
	}
	var st structuralType
	switch {
	case alt == "*":
		return nil, errAnotherRecord
	case alt == "<*>" || alt == "<NON_REF>" || alt == "<X>":
		return nil, errAnyAllele
	case alt == "." || alt == "":
		return unsupported(NoAllele, "there is no alternate allele")
	case strings.ContainsAny(alt, "[]") || alt[0] == '.' || alt[len(alt)-1] == '.':
		st = structuralTypes["BND"]
	case alt[0] == '<' && alt[len(alt)-1] == '>':
		var ok bool
		if st, ok = structuralTypeOf(alt[1 : len(alt)-1]); !ok {
			return unsupported(UnknownType, "%s is of a symbolic type that is not known", clip(alt))
		}
	default:
		return unsupported(NoAllele, "%q is neither a sequence nor symbolic", clip(alt))
	}
	v := take(&w.variants)
	*v = variant{contig: c, kind: st.kind, symbol: st.name, precise: !s.Imprecise, mitochondrial: at.mitochondrial, place: at}
	switch st.kind {
	case svInsertion:
		v.start, v.end = s.Pos, s.Pos
	case svBreakend:
		v.start = s.Pos
		if alt[0] == '[' || alt[0] == ']' || alt[0] == '.' {
			v.start = s.Pos - 1 // the joined sequence comes before the base
		}
		v.start = max(0, v.start)
		v.end = v.start
	default:
		v.start, v.end = s.Pos, s.end(i)
		switch {
		case v.end == 0:
			return unsupported(NoExtent, "%s has neither END nor SVLEN", alt)
		case v.end <= v.start:
			return unsupported(BadExtent, "%s ends at %d, before it begins", alt, v.end)
		case v.end > c.Len():
			return unsupported(BadExtent, "%s ends at %d, outside the contig of %d bases", alt, v.end, c.Len())
		case v.end-v.start > maxStructural:
			return unsupported(TooLong, "%s spans %d bases, more than %d", alt, v.end-v.start, maxStructural)
		}
	}
	return v, nil
}

// checkSite finds the contig and compares REF with it, where REF is known: programs that find structural variants
// often write N.
func (a *Annotator) checkSite(s *Site) (*place, error) {
	at := a.place(s.Contig)
	if at == nil {
		return nil, fmt.Errorf("contig %q is not in the reference", s.Contig)
	}
	c := at.contig
	// A structural variant before the first base stands at 0.
	if s.Pos < 0 || s.Pos > c.Len() {
		return nil, fmt.Errorf("reaches outside the contig of %d bases", c.Len())
	}
	ref := strings.ToUpper(s.Ref)
	if s.Pos == 0 || strings.Trim(ref, "N") == "" {
		return at, nil
	}
	if len(ref) > c.Len()-(s.Pos-1) {
		return nil, fmt.Errorf("reaches outside the contig of %d bases", c.Len())
	}
	if got := c.Text(s.Pos-1, s.Pos-1+len(ref)); got != ref {
		return nil, fmt.Errorf("REF is %s, but the reference has %s there", clip(ref), clip(got))
	}
	return at, nil
}

// end is the last base of alternate allele i, counted from 1; 0 if neither END nor SVLEN gives it. END is the end of
// the longest one where there are several.
func (s *Site) end(i int) int {
	length := 0
	if i < len(s.Lengths) {
		length = abs(s.Lengths[i])
	}
	switch {
	case length != 0 && (len(s.Alts) > 1 || s.End == 0):
		return s.Pos + length
	}
	return s.End
}

// loss reports whether v takes bases away.
func (v *variant) loss() bool {
	return v.kind == svLoss || v.kind == svNone && len(v.alt) < len(v.ref)
}

// appendOnContig appends what describeOnContig returns.
func (v *variant) appendOnContig(b []byte) []byte {
	if v.contig != nil && v.kind == svNone {
		return v.appendHGVSG(b)
	}
	return append(b, v.describeOnContig()...)
}

// describeOnContig is the genomic description. Structural variants have one if their ends are known exactly.
func (v *variant) describeOnContig() string {
	switch {
	case v.contig == nil:
		return ""
	case v.kind == svNone:
		return v.hgvsG()
	case !v.precise || v.kind != svLoss && v.kind != svGain && v.kind != svInversion:
		return ""
	}
	first, last, change := v.start, v.end-1, "inv"
	if v.kind != svInversion {
		for last+1 < v.contig.Len() && v.contig.At(first) == v.contig.At(last+1) {
			first, last = first+1, last+1
		}
		change = "del"
		if v.kind == svGain {
			change = "dup"
		}
	}
	prefix := ":g."
	if v.mitochondrial {
		prefix = ":m."
	}
	place := strconv.Itoa(first + 1)
	if last > first {
		place += "_" + strconv.Itoa(last+1)
	}
	return v.contig.Name + prefix + place + change
}

// structural decides what structural variant v, which overlaps the transcript, does to it.
func (e *effect) structural(v *variant) {
	t := e.t
	if v.start <= t.start && v.end >= t.end {
		e.whole = true
		switch {
		case v.kind == svGain:
			e.terms.add(transcriptAmplification)
			return
		case t.cds == nil:
			e.terms.add(nonCodingTranscript)
		default:
			e.terms.add(codingTranscript)
		}
		e.finish()
		return
	}
	inExon := e.exons(v)
	splice := e.introns(v)
	e.cdnaFrom, e.cdnaTo = t.span(t.exons, v.start, v.end)
	inside := v.start >= t.start && v.end <= t.end
	e.terms.addIf(v.kind == svInsertion || v.kind == svGain && inside, featureElongation)
	e.terms.addIf(v.kind == svLoss || v.kind == svBreakend, featureTruncation)
	if t.cds == nil {
		e.nonCoding(v, inExon)
	} else {
		e.structuralCoding(v, splice.frameIntron)
		e.untranslated(v, inExon || splice.frameIntron)
	}
	e.finish()
}

// structuralCoding adds the terms of the coding sequence.
func (e *effect) structuralCoding(v *variant, frameIntron bool) {
	t := e.t
	lo, hi := t.codingOverlap(v)
	if lo < 0 {
		e.terms.addIf(frameIntron && v.overlaps(t.cdsStart, t.cdsEnd), codingSequence)
		return
	}
	e.cdsFrom, e.cdsTo = t.span(t.cds, v.start, v.end)
	if v.kind == svLoss || v.kind == svInversion {
		e.terms.addIf(lo < 3 && t.startCodon, startLost)
		e.terms.addIf(hi > t.cdsLen-3 && t.hasStop(), stopLost)
	}
	n := v.end - v.start
	if v.kind == svLoss && e.cdsFrom >= 0 && e.cdsTo >= 0 && e.cdsTo-e.cdsFrom == n { // in one exon
		e.terms.addIf(n%3 != 0, frameshift)
		e.terms.addIf(n%3 == 0, inframeDeletion)
		return
	}
	e.terms.add(codingSequence)
}
