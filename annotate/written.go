package annotate

import (
	"cmp"
	"iter"
	"slices"
)

// UTR is an untranslated stretch of a transcript.
type UTR struct {
	Span
	Five bool // before the coding sequence
}

// Written is what the rows of a file say of a transcript, before anything is derived from it or repaired: for engines
// that follow the rows to the letter.
type Written struct {
	Span       // of the transcript's own row; the transcript's where it has none
	Line  int  // number of that row
	Exons bool // there are exon rows
	UTRs  []UTR
	Code  bool // the first CDS row names its genetic code
}

// written notes what f's rows say, after t's own coordinates are known.
func (f *feature) written(t *transcript) Written {
	w := Written{Span: Span{f.start, f.end}, Line: f.line, Exons: len(f.exons) > 0}
	if t.implicit || w.End > t.contig.Len() || w.Start < 0 {
		w.Span = Span{t.start, t.end}
	}
	w.Start, w.End = min(w.Start, t.start), max(w.End, t.end)
	for i := range f.utrs {
		p := &f.utrs[i]
		five := t.cds != nil && (int(p.start) < t.cdsStart) == t.forward
		w.UTRs = append(w.UTRs, UTR{Span{int(p.start), int(p.end)}, five})
	}
	slices.SortFunc(w.UTRs, func(x, y UTR) int { return cmp.Compare(x.Start, y.Start) })
	if t.cds != nil {
		w.Code = f.of(f.firstCDS(t.forward)).get("transl_table") != ""
	}
	return w
}

// firstCDS is f's first CDS row in transcript direction; there must be one.
func (f *feature) firstCDS(forward bool) *part {
	first := &f.cds[0]
	for i := range f.cds {
		if x := &f.cds[i]; x.start < first.start == forward && x.start != first.start {
			first = x
		}
	}
	return first
}

// Written is what the file's rows say.
func (v *View) Written() Written { return v.transcript.written }

// All are the transcripts of all contigs; those of one contig by their first base.
func (m *Model) All() iter.Seq[View] {
	return func(yield func(View) bool) {
		if m == nil {
			return
		}
		for _, k := range m.contigs {
			for _, t := range k.transcripts {
				if !yield(t.view()) {
					return
				}
			}
		}
	}
}

// GeneticCode is NCBI's genetic code table of that number: the amino acids of the 64 codons in the order TTT, TTC, TTA,
// TTG, TCT, …, GGG, '*' for stops, and the codons that may initiate. It is false if there is no such table.
func GeneticCode(table int) (aminos string, starts []string, ok bool) {
	c := codeOf(table)
	if c == nil {
		return "", nil, false
	}
	return c.aminos, slices.Clone(c.annotated), true
}
