package watchlist

import (
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/vrs"
)

// hit is a subject that a variant fulfils, and the consequence that says so, nil if none is needed.
type hit struct {
	subject     *subject
	consequence *annotate.Consequence
}

// Concerns reports whether any rule concerns the allele of v.
func (w *Watch) Concerns(v *event.Variant) bool {
	var hits [4]hit
	return len(w.matches(hits[:0], v)) > 0
}

// matches appends the subjects that v fulfils to dst, by number. What v's evidence is does not matter.
func (w *Watch) matches(dst []hit, v *event.Variant) []hit {
	for _, s := range w.byAllele[v.Allele.VRSID] {
		dst = append(dst, hit{subject: s})
	}
	dst = w.atomMatches(dst, v)
	dst = w.proteinMatches(dst, v)
	dst = w.openMatches(dst, v)
	if len(dst) < 2 {
		return dst
	}
	slices.SortStableFunc(dst, func(a, b hit) int { return a.subject.number - b.subject.number })
	return slices.CompactFunc(dst, func(a, b hit) bool { return a.subject == b.subject })
}

// atomMatches appends the watched alleles that are atoms of v: the reads that show GGG>AAC show its G>A.
func (w *Watch) atomMatches(dst []hit, v *event.Variant) []hit {
	contig := w.genome.Contig(v.Allele.Contig)
	if len(w.byAllele) == 0 || contig == nil || len(v.Allele.Ref)+len(v.Allele.Alt) < 3 {
		return dst
	}
	ids, err := vrs.AtomIDs(contig.Digest(), contig.Seq, int(v.Allele.Pos)-1, v.Allele.Ref, v.Allele.Alt)
	if err != nil {
		return dst // not an allele of this reference
	}
	for _, id := range ids {
		for _, s := range w.byAllele[id] {
			dst = append(dst, hit{subject: s})
		}
	}
	return dst
}

// proteinMatches appends the watched changes of proteins that v makes, by itself or among others in a row.
func (w *Watch) proteinMatches(dst []hit, v *event.Variant) []hit {
	if len(w.byProtein) == 0 {
		return dst
	}
	for i := range v.Annotation.Consequences {
		c := &v.Annotation.Consequences[i]
		if c.HGVSp == "" || c.Feature == nil {
			continue
		}
		change := changeOf(c.HGVSp)
		for _, s := range w.byProtein[proteinKey{c.Feature.ID, change}] {
			dst = append(dst, hit{s, c})
		}
		for _, shorter := range shorterFrameshifts(change) {
			if shorter == change {
				continue
			}
			for _, s := range w.byProtein[proteinKey{c.Feature.ID, shorter}] {
				dst = append(dst, hit{s, c})
			}
		}
		for _, single := range singleResidues(c.Protein, c.AminoAcids) {
			for _, s := range w.byProtein[proteinKey{c.Feature.ID, single}] {
				dst = append(dst, hit{s, c})
			}
		}
	}
	return dst
}

// openMatches appends the rules without named alleles that v fulfils.
func (w *Watch) openMatches(dst []hit, v *event.Variant) []hit {
	at := w.openAt[v.Allele.Contig]
	contig := w.genome.Contig(v.Allele.Contig)
	if len(at) == 0 || contig == nil {
		return dst
	}
	start, end, err := touched(contig.Seq, int(v.Allele.Pos)-1, v.Allele.Ref, v.Allele.Alt)
	if err != nil {
		return dst // not an allele of this reference, so in no place of it
	}
	var buffer [16]int32
	for _, id := range at.overlapping(buffer[:0], start, end) {
		s := w.subjects[id]
		if c, ok := s.filter.match(v.Annotation.Consequences); ok && s.filter.scored(v) {
			dst = append(dst, hit{s, c})
		}
	}
	return dst
}

// match finds the first consequence that fulfils f; the first of all if f asks for nothing.
func (f *filter) match(consequences []annotate.Consequence) (*annotate.Consequence, bool) {
	for i := range consequences {
		if f.fulfils(&consequences[i]) {
			return &consequences[i], true
		}
	}
	return nil, f.any()
}

// scored reports whether a network's score of v meets f. A retracted allele has no scores, and is to be
// taken back whatever they were.
func (f *filter) scored(v *event.Variant) bool {
	if f.score == 0 || v.Status == streampb.CallStatus_RETRACTED.String() {
		return true
	}
	return slices.ContainsFunc(v.Annotation.Scores, func(s annotate.Score) bool { return s.Score != nil && *s.Score >= f.score })
}

// any reports whether f asks for nothing.
func (f *filter) any() bool {
	return len(f.genes)+len(f.transcripts)+len(f.terms)+len(f.impacts)+len(f.flags)+len(f.codons) == 0 && f.nmd == nil
}

// fulfils reports whether one consequence is all that f asks for.
func (f *filter) fulfils(c *annotate.Consequence) bool {
	switch {
	case len(f.genes) > 0 && (c.Gene == nil || !f.genes[geneID(c.Gene)]),
		len(f.transcripts) > 0 && (c.Feature == nil || !f.transcripts[c.Feature.ID]),
		len(f.impacts) > 0 && !f.impacts[c.Impact],
		!hasFlags(c.Flags, f.flags),
		f.nmd != nil && (c.NMD == nil || c.NMD.Predicted != *f.nmd):
		return false
	}
	if len(f.terms) > 0 && !slices.ContainsFunc(c.Terms, func(t annotate.Term) bool { return f.terms[t.Name] }) {
		return false
	}
	return len(f.codons) == 0 || f.inCodons(c.Protein)
}

// inCodons reports whether residues "118", "7-9", "7-?" or "?-9" are among f's codons.
func (f *filter) inCodons(residues string) bool {
	a, b, isRange := strings.Cut(residues, "-")
	from, errA := strconv.Atoi(a)
	to, errB := from, errA
	if isRange {
		to, errB = strconv.Atoi(b)
	}
	switch {
	case errA != nil && errB != nil:
		return false
	case errA != nil:
		from = to
	case errB != nil:
		to = from
	}
	for _, k := range f.codons {
		if from <= k[1] && to >= k[0] {
			return true
		}
	}
	return false
}
