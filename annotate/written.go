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
	Span          // of the transcript's own row; the transcript's where it has none
	Line     int  // number of that row
	Exons    bool // there are exon rows
	UTRs     []UTR
	Phase    int  // of the first CDS row in transcript direction; -1 if unknown
	Conflict bool // phases of CDS rows contradict the bases before them
	Code     bool // a CDS row names its genetic code
}

// written notes what f's rows say, after t's own coordinates are known.
func (f *feature) written(t *transcript) *Written {
	w := &Written{Span: Span{f.start, f.end}, Line: f.line, Exons: len(f.exons) > 0, Phase: -1}
	if t.implicit || w.End > len(t.contig.Seq) || w.Start < 0 {
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
		w.phases(f, t.forward)
	}
	return w
}

// phases notes the phases of f's CDS rows.
func (w *Written) phases(f *feature, forward bool) {
	rows := slices.Clone(f.cds)
	slices.SortFunc(rows, func(x, y part) int {
		if !forward {
			x, y = y, x
		}
		return cmp.Compare(x.start, y.start)
	})
	w.Code = f.of(&rows[0]).get("transl_table") != ""
	w.Phase = int(rows[0].phase)
	bases := -max(0, w.Phase)
	for i, r := range rows {
		if i > 0 && r.phase >= 0 && (bases+int(r.phase))%3 != 0 {
			w.Conflict = true
		}
		bases += int(r.end - r.start)
	}
}

// Written is what the file's rows say.
func (v *View) Written() Written { return *v.transcript.written }

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
