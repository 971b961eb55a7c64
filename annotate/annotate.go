package annotate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/textfile"
	"github.com/porestream/porestream/vrs"
)

// DefaultDistance is how far upstream and downstream of a transcript a variant is reported with it, VEP's default.
const DefaultDistance = 5000

// Annotation holds everything known about one variant allele.
type Annotation struct {
	HGVSg string `json:"hgvsg,omitempty"`
	// Atoms are the VRS ids of the changes that an allele of several bases is made of ([vrs.Edit.Atoms]); none for an
	// insertion, a deletion or one replaced base.
	Atoms []string `json:"atoms,omitempty"`
	// MostSevere summarises the first consequence.
	MostSevere MostSevere `json:"most_severe"`
	// Consequences holds one entry for each transcript in reach and each regulatory feature touched, the most relevant
	// first: by severity of the worst term, then MANE Select, MANE Plus Clinical, canonical, protein-coding, nearest,
	// longest coding sequence, ID. It is empty only if a Pick leaves all of them out.
	Consequences []Consequence `json:"consequences,omitempty"`
	// GeneModels is where the gene models come from if it is no annotation ([Model.Origin]).
	GeneModels string `json:"gene_models,omitempty"`
	// Known is what the sources of WithSources say, exact matches of each first.
	Known []Known `json:"known,omitempty"`
	// Scores are what the networks of WithScorer say.
	Scores []Score `json:"scores,omitempty"`
}

// MostSevere is the one consequence to show where there is space for only one.
type MostSevere struct {
	Term       string `json:"term"`
	SO         string `json:"so"`
	Impact     Impact `json:"impact"`
	Gene       string `json:"gene,omitempty"`       // symbol, or the ID if there is none
	Transcript string `json:"transcript,omitempty"` // ID of the feature
}

// Gene names a gene.
type Gene struct {
	Symbol string `json:"symbol,omitempty"`
	ID     string `json:"id,omitempty"`
}

// Feature names what a consequence is about.
type Feature struct {
	Type    string `json:"type"` // "Transcript", "RegulatoryFeature" or "MotifFeature"
	ID      string `json:"id"`
	Biotype string `json:"biotype,omitempty"`
}

// Consequence is what a variant does to one transcript or regulatory feature. Positions count from 1 in transcript direction and are
// ranges ("7-9"; "?" for an unknown bound) where more than one base is concerned; between two bases ("7-8") for an
// insertion. Gene, Feature, Terms, NMD and Flags are shared with other annotations and must not be changed.
type Consequence struct {
	Allele     string   `json:"allele"` // the new bases; "-" for a deletion
	Gene       *Gene    `json:"gene,omitempty"`
	Feature    *Feature `json:"feature,omitempty"` // nil for an intergenic variant, and for the most severe term alone
	Terms      []Term   `json:"terms"`             // from severe to slight
	Impact     Impact   `json:"impact"`            // of the most severe term
	HGVSc      string   `json:"hgvsc,omitempty"`   // or n. for transcripts that are not coding
	HGVSp      string   `json:"hgvsp,omitempty"`
	HGVSOffset int      `json:"hgvs_offset,omitempty"` // bases between the left-aligned variant and HGVSc's place
	Exon       string   `json:"exon,omitempty"`        // "2/10"
	Intron     string   `json:"intron,omitempty"`
	CDNA       string   `json:"cdna,omitempty"`
	CDS        string   `json:"cds,omitempty"`
	Protein    string   `json:"protein,omitempty"`
	AminoAcids string   `json:"amino_acids,omitempty"` // "E/K", or "F" if unchanged
	Codons     string   `json:"codons,omitempty"`      // "Gag/Aag", changed bases in upper case
	Distance   int      `json:"distance,omitempty"`    // bases to the transcript
	Strand     int      `json:"strand,omitempty"`      // 1 or -1
	NMD        *NMD     `json:"nmd,omitempty"`         // of a stop gained, a frameshift or a splice site lost in the coding sequence
	Pick       bool     `json:"pick,omitempty"`        // the best by the criteria of Pick
	Flags      []string `json:"flags,omitempty"`       // canonical, mane_select, mane_plus_clinical, cds_start_NF, cds_end_NF
	// Functions are what the gene and its product do, of the files of WithFunctions.
	Functions []Function `json:"functions,omitempty"`
}

// ErrUnsupportedAllele is the error for alternate alleles whose consequence can't be determined. Annotate returns it
// for all that are not sequences: symbolic ones, breakends and "*"; AnnotateSite for fewer.
var ErrUnsupportedAllele = errors.New("not a sequence")

// maxAllele bounds the alleles that are annotated base by base; longer changes are structural variants.
const maxAllele = 1 << 20

// Annotator annotates variants. It is safe for concurrent use.
type Annotator struct {
	genome               *genome.Genome
	model                *Model
	places               map[string]*place
	upstream, downstream int
	sources              Sources
	functions            Functions
	scorer               Scorer
	pick                 Pick
	preferences          preferences
}

// place is what there is to know about a contig.
type place struct {
	contig        *genome.Contig
	track         *track           // nil if it has no transcripts
	regulation    *regulatoryTrack // nil if it has no regulatory features
	mitochondrial bool
	style         ProteinStyle
	plainName     bool // the contig's name can stand in CSQ as it is
}

// New is an Annotator for a gene model read with the same genome. Without a model (nil) every variant is intergenic.
func New(g *genome.Genome, m *Model) *Annotator {
	if m == nil {
		m = &Model{}
	}
	m.number()
	a := &Annotator{genome: g, model: m, places: make(map[string]*place, len(g.Contigs)), upstream: DefaultDistance, downstream: DefaultDistance}
	for _, c := range g.Contigs {
		a.places[c.Name] = &place{contig: c, track: m.contigs[c], regulation: m.regulation[c], mitochondrial: m.mitochondrial(c), plainName: plainInCSQ(c.Name)}
	}
	a.preferences = m.preferences(&a.pick)
	return a
}

// WithDistance is a copy of a with other distances up to which variants beside a transcript are reported with it.
func (a *Annotator) WithDistance(upstream, downstream int) *Annotator {
	b := *a
	b.upstream, b.downstream = max(0, upstream), max(0, downstream)
	return &b
}

// WithProteinStyle is a copy of a that writes HGVSp in another style than VEP's.
func (a *Annotator) WithProteinStyle(s ProteinStyle) *Annotator {
	b := *a
	b.places = make(map[string]*place, len(a.places))
	for name, p := range a.places {
		q := *p
		q.style = s
		b.places[name] = &q
	}
	return &b
}

// WithPick is a copy of a that keeps and marks the consequences that p chooses.
func (a *Annotator) WithPick(p Pick) *Annotator {
	b := *a
	b.pick = p
	if !slices.Equal(p.order(), a.preferences.order) {
		b.preferences = a.model.preferences(&b.pick)
	}
	return &b
}

// Annotate returns the consequences of replacing ref, at 1-based position pos1 of contig, by alt. The alleles are
// sequences as in VCF (any letter case, with or without shared flanks) and ref must be what the contig has there. The
// result depends on the change alone, not on its spelling, but for Consequence.Allele.
func (a *Annotator) Annotate(contig string, pos1 int, ref, alt string) (Annotation, error) {
	var w workspace
	v, err := a.variant(&w, contig, pos1, ref, alt)
	if err != nil {
		return Annotation{}, fmt.Errorf("annotating %s:%d %s>%s: %w", contig, pos1, clip(ref), clip(alt), err)
	}
	ann := a.annotate(&w, v, AlleleName(ref, alt))
	if ann.Known, err = a.known(v, alt); err != nil {
		return Annotation{}, fmt.Errorf("annotating %s:%d %s>%s: %w", contig, pos1, clip(ref), clip(alt), err)
	}
	return ann, nil
}

// clip shortens an allele for an error message.
func clip(s string) string { return textfile.Clip(s, 40) }

// AlleleName is VEP's name of an alternate allele: without the first base if an indel shares it with the reference.
func AlleleName(ref, alt string) string {
	if len(ref) != len(alt) && ref != "" && alt != "" && ref[0] == alt[0] {
		alt = alt[1:]
	}
	if alt == "" {
		return "-"
	}
	return strings.ToUpper(alt)
}

// place is the place of a contig's name or synonym; nil if the reference has none of that name.
func (a *Annotator) place(contig string) *place {
	if at := a.places[contig]; at != nil {
		return at
	}
	if c := a.genome.Contig(contig); c != nil {
		return a.places[c.Name]
	}
	return nil
}

// variant checks and normalises.
func (a *Annotator) variant(w *workspace, contig string, pos1 int, ref, alt string) (*variant, error) {
	at := w.at
	if at == nil || w.contig != contig {
		if at = a.place(contig); at == nil {
			return nil, fmt.Errorf("contig %q is not in the reference", contig)
		}
		w.contig, w.at = contig, at
	}
	c := at.contig
	if n := max(len(ref), len(alt)); n > maxAllele {
		return nil, &unsupportedError{TooLong, fmt.Sprintf("allele of %d bases, more than %d", n, maxAllele)}
	}
	ref, alt = strings.ToUpper(ref), strings.ToUpper(alt)
	for i := range len(alt) {
		if !isNucleotide(alt[i]) {
			return nil, fmt.Errorf("alternate allele %q: %w", clip(alt), ErrUnsupportedAllele)
		}
	}
	pos := pos1 - 1
	if pos < 0 || pos > c.Len() || len(ref) > c.Len()-pos {
		return nil, fmt.Errorf("reaches outside the contig of %d bases", c.Len())
	}
	if !c.Has(pos, ref) {
		return nil, fmt.Errorf("REF is %s, but the reference has %s there", clip(ref), clip(c.Text(pos, pos+len(ref))))
	}
	if ref == alt {
		return nil, errors.New("REF and ALT are equal")
	}
	v := take(&w.variants)
	v.contig, v.mitochondrial, v.place = c, at.mitochondrial, at
	if len(ref) == 1 && len(alt) == 1 {
		v.start, v.end, v.ref, v.alt = pos, pos+1, ref, alt
		return v, nil
	}
	left, right := c.Places(vrs.Edit{Start: pos, Ref: ref, Alt: alt})
	v.start, v.end, v.ref, v.alt = left.Start, left.End(), left.Ref, left.Alt
	if v.ref == "" || v.alt == "" {
		v.roll = right.Start - left.Start
	}
	if v.insertion() && v.start == 0 && v.roll > 0 {
		// Before the first base there is no base to anchor on. VCF anchors on the one after, so that the insertion
		// reads as following it wherever it can.
		v.start, v.end, v.alt, v.roll = 1, 1, rotate(v.alt, 1), v.roll-1
	}
	return v, nil
}

// isNucleotide reports whether c is an upper-case IUPAC nucleotide letter.
func isNucleotide(c byte) bool { return c == 'N' || complement[c] != 'N' }

// annotate makes the annotation of v, the one alternate allele of its record.
func (a *Annotator) annotate(w *workspace, v *variant, allele string) Annotation {
	all := candidates{a.effects(w, v)}
	a.pick.choose(all)
	ann := v.annotation(all[0], allele)
	ann.GeneModels = a.model.Origin
	a.describeFunctions(ann.Consequences, all[0])
	return ann
}

// annotation renders the effects that are kept.
func (v *variant) annotation(effects []*effect, allele string) Annotation {
	ann := Annotation{HGVSg: v.describeOnContig(), Atoms: v.atoms()}
	if len(effects) == 0 {
		return ann
	}
	ann.Consequences = make([]Consequence, len(effects))
	for i, e := range effects {
		ann.Consequences[i] = e.consequence(allele)
	}
	first, worst := &ann.Consequences[0], &terms[effects[0].terms.worst()]
	ann.MostSevere = MostSevere{Term: worst.Name, SO: worst.SO, Impact: worst.impact}
	if first.Gene != nil {
		ann.MostSevere.Gene = cmp.Or(first.Gene.Symbol, first.Gene.ID)
	}
	if first.Feature != nil {
		ann.MostSevere.Transcript = first.Feature.ID
	}
	return ann
}

// atoms are the identifiers of the changes that v is made of, if there are several.
func (v *variant) atoms() []string {
	if v.ref == "" || v.alt == "" {
		return nil
	}
	ids, err := v.contig.AtomIDs(v.start, v.ref, v.alt)
	if err != nil {
		return nil // an ambiguous base, which has no identifier of its own
	}
	return ids
}

// effects are the effects on all features in reach in their order of relevance, or that there are none: at least one.
func (a *Annotator) effects(w *workspace, v *variant) []*effect {
	begun := len(w.order)
	if track := v.place.track; track != nil {
		w.seen = track.sightings(w, w.seen[:0], v, max(a.upstream, a.downstream))
		for _, s := range w.seen {
			e := take(&w.effects)
			s.v.effectOn(w, e, s.t, a.upstream, a.downstream)
			if e.terms == 0 {
				w.effects = w.effects[:len(w.effects)-1]
				continue
			}
			e.seen = s.v
			e.relevance = s.t.relevance(e)
			e.preference = a.preferences.of(e)
			w.order = append(w.order, e)
		}
	}
	beside := len(w.order) == begun
	if v.place.regulation != nil {
		var few [8]effect
		for _, e := range v.regulatoryEffects(few[:0], v.place.regulation) {
			x := take(&w.effects)
			*x = e
			w.order = append(w.order, x)
		}
	}
	if beside {
		e := take(&w.effects)
		e.terms = 1 << intergenic
		w.order = append(w.order, e)
	}
	order := w.order[begun:len(w.order):len(w.order)]
	sortEffects(order)
	return order
}

// sortEffects orders effects by relevance.
func sortEffects(order []*effect) {
	if len(order) > 32 {
		slices.SortFunc(order, (*effect).compare)
		return
	}
	for i := 1; i < len(order); i++ {
		e, j := order[i], i
		for ; j > 0 && e.compare(order[j-1]) < 0; j-- {
			order[j] = order[j-1]
		}
		order[j] = e
	}
}

// The parts of relevance, in bits: it orders effects on transcripts by the severity of the worst term, the class of the
// transcript, its distance, and its rank among all transcripts.
const (
	rankBits     = 28
	distanceBits = 24
	classBits    = 4
)

// maxDistance is the greatest distance that relevance can distinguish from others.
const maxDistance = 1<<distanceBits - 1

// relevance is e's place in the order of effects on transcripts.
func (t *transcript) relevance(e *effect) uint64 {
	r := uint64(e.terms.worst())<<classBits | uint64(t.class)
	r = r<<distanceBits | uint64(min(e.distance, maxDistance))
	return r<<rankBits | uint64(t.rank)
}

// number gives the model's transcripts their numbers, classes and ranks.
func (m *Model) number() {
	m.numbered.Do(func() {
		type ranked struct { // what mostly decides lies in the list itself: transcripts lie all over the memory
			cdsLen int
			id     string
			*transcript
		}
		all := make([]ranked, 0, m.count)
		for _, k := range m.contigs {
			for _, t := range k.transcripts {
				all = append(all, ranked{t.cdsLen, t.id, t})
			}
		}
		slices.SortFunc(all, func(s, t ranked) int {
			if c := cmp.Compare(t.cdsLen, s.cdsLen); c != 0 {
				return c
			}
			if c := cmp.Compare(s.id, t.id); c != 0 {
				return c
			}
			return cmp.Or(cmp.Compare(s.start, t.start), cmp.Compare(s.line, t.line))
		})
		for i, r := range all {
			t := r.transcript
			t.rank = uint32(i)
			for _, yes := range []bool{t.maneSelect, t.manePlus, t.canonical, t.biotype == "protein_coding"} {
				t.class <<= 1
				if !yes {
					t.class++
				}
			}
		}
	})
}

// compare orders effects by relevance.
func (e *effect) compare(f *effect) int {
	if e.t != nil && f.t != nil {
		return cmp.Compare(e.relevance, f.relevance)
	}
	if c := cmp.Compare(e.terms.worst(), f.terms.worst()); c != 0 {
		return c
	}
	return e.compareRegulatory(f)
}

// compareRegulatory is compare for effects when at least one of them is on no transcript.
func (e *effect) compareRegulatory(f *effect) int {
	if e.r == nil || f.r == nil {
		return yesFirst(e.t != nil, f.t != nil)
	}
	return cmp.Or(
		cmp.Compare(e.r.name.ID, f.r.name.ID),
		cmp.Compare(e.r.start, f.r.start),
		cmp.Compare(e.r.end, f.r.end),
	)
}

// yesFirst orders true before false.
func yesFirst(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return -1
	}
	return 1
}

// consequence renders e.
func (e *effect) consequence(allele string) Consequence {
	c := Consequence{
		Allele: allele,
		Terms:  e.terms.list(),
		Impact: terms[e.terms.worst()].impact,
		Pick:   e.picked,
	}
	t := e.t
	if t == nil {
		if e.r != nil {
			c.Feature = e.r.name
		}
		return c
	}
	c.Gene, c.Feature, c.Flags, c.Distance = t.gene.name, t.name, t.flags, e.distance
	c.Strand = 1
	if !t.forward {
		c.Strand = -1
	}
	if e.whole {
		return c
	}
	v := e.seen
	if v.kind == svNone {
		c.HGVSc, c.HGVSOffset = v.hgvsC(t)
		if t.cds != nil {
			c.HGVSp = e.hgvsP()
		}
		c.NMD = e.nmd()
	}
	c.Exon = numberOf(e.exonFirst, e.exonLast, len(t.exons))
	c.Intron = numberOf(e.intronFirst, e.intronLast, len(t.exons)-1)
	c.CDNA = position(e.cdnaFrom, e.cdnaTo)
	if t.cds == nil {
		return c
	}
	c.CDS = position(e.cdsFrom, e.cdsTo)
	if e.codon != nil {
		e.codon.render(&c)
	}
	return c
}

// numberOf is an exon's or intron's number of all, "2/10" or "2-3/10".
func numberOf(first, last, all int) string { return string(appendNumberOf(nil, first, last, all)) }

// appendNumberOf appends what numberOf returns.
func appendNumberOf(b []byte, first, last, all int) []byte {
	if first == 0 {
		return b
	}
	b = appendNumber(b, first)
	if last != first {
		b = appendNumber(append(b, '-'), last)
	}
	return appendNumber(append(b, '/'), all)
}

// position is the 1-based closed range of the offsets [from,to), -1 for an unknown bound; for an insertion the
// bases on its two sides.
func position(from, to int) string { return string(appendPosition(nil, from, to)) }

// appendPosition appends what position returns.
func appendPosition(b []byte, from, to int) []byte {
	number := func(n int) { b = appendNumber(b, n) }
	switch {
	case from < 0 && to < 0:
	case from < 0:
		b = append(b, "?-"...)
		number(to)
	case to < 0:
		number(from + 1)
		b = append(b, "-?"...)
	case to == from:
		number(from)
		b = append(b, '-')
		number(from + 1)
	case to == from+1:
		number(to)
	default:
		number(from + 1)
		b = append(b, '-')
		number(to)
	}
	return b
}

// render sets the codon's fields of out.
func (c *codonChange) render(out *Consequence) {
	out.Protein = string(c.appendProtein(nil))
	out.AminoAcids = string(c.appendAminoAcids(nil))
	out.Codons = string(c.appendCodons(nil))
}

// appendProtein appends the positions of the codons in the protein.
func (c *codonChange) appendProtein(b []byte) []byte {
	return appendPosition(b, c.first, c.first+len(c.refPep))
}

// appendAminoAcids appends the amino acids before and after, or once if they are the same.
func (c *codonChange) appendAminoAcids(b []byte) []byte {
	b = append(b, dash(c.refPep)...)
	if c.altPep != c.refPep {
		b = append(b, '/')
		b = append(b, dash(c.altPep)...)
	}
	return b
}

// appendCodons appends the codons before and after, what changes in upper case.
func (c *codonChange) appendCodons(b []byte) []byte {
	b = appendUpperPart(b, c.ref, c.lead, c.refLen)
	b = append(b, '/')
	return appendUpperPart(b, c.alt, c.lead, c.altLen)
}

// appendUpperPart appends s, "-" if it is empty, in lower case but for n letters from the given index.
func appendUpperPart(b []byte, s string, from, n int) []byte {
	if s == "" {
		return append(b, '-')
	}
	begun := len(b)
	b = append(b, s...)
	for i := range s {
		if i < from || i >= from+n {
			b[begun+i] |= 0x20
		}
	}
	return b
}

// dash is s, or "-" if it is empty.
func dash(s string) string { return cmp.Or(s, "-") }
