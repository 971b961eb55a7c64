package annotate

import "github.com/porestream/porestream/genome"

// Span is a stretch of a contig: inter-residue coordinates, Start < End.
type Span struct{ Start, End int }

// CodingSpan is a stretch of coding sequence. Two of them share bases where the ribosome slips back.
type CodingSpan struct {
	Span
	// Phase is the number of bases of the stretch, counted from its first in transcript direction, that belong to a
	// codon begun before it.
	Phase int
}

// View holds the parts of a transcript, for engines that evaluate variants by rules of their own. The data that it
// points to is shared and must not be changed.
type View struct {
	ID      string
	Version string // "" if the annotation gives none
	Protein string // accession of the protein; "" if the transcript is not coding
	Gene    *Gene
	Biotype string

	// Contig carries the sequence that all coordinates are on. For a circular contig it holds the sequence twice, so
	// that a transcript across the origin is contiguous: its coordinates go on behind the contig's length.
	Contig     *genome.Contig
	Start, End int
	Forward    bool
	Exons      []Span       // by position, whatever the strand
	CDS        []CodingSpan // by position; nil if the transcript is not coding

	// StartUnknown and EndUnknown say that the coding sequence goes on beyond the transcript on that side.
	StartUnknown, EndUnknown bool
	// GeneticCode is the number of NCBI's table.
	GeneticCode int

	transcript *transcript
}

// TranscriptsOn are the transcripts on the contig of that name, by their first base.
func (m *Model) TranscriptsOn(contig string) []View {
	for c, k := range m.contigs {
		if c.Name != contig {
			continue
		}
		views := make([]View, len(k.transcripts))
		for i, t := range k.transcripts {
			views[i] = t.view()
		}
		return views
	}
	return nil
}

// view is t for others.
func (t *transcript) view() View {
	v := View{
		ID: t.id, Version: t.version, Protein: t.protein, Gene: t.gene.name, Biotype: t.biotype,
		Contig: t.contig, Start: t.start, End: t.end, Forward: t.forward,
		StartUnknown: t.startNF, EndUnknown: t.endNF, transcript: t,
		Exons: make([]Span, len(t.exons)),
	}
	at := func(i, n int) int { // index i in transcript direction of n is this one by position
		if t.forward {
			return i
		}
		return n - 1 - i
	}
	for i, s := range t.exons {
		v.Exons[at(i, len(t.exons))] = Span{s.start, s.end}
	}
	if t.cds == nil {
		return v
	}
	v.GeneticCode = t.code.table
	v.CDS = make([]CodingSpan, len(t.cds))
	for i, s := range t.cds {
		v.CDS[at(i, len(t.cds))] = CodingSpan{Span{s.start, s.end}, (3 - s.offset%3) % 3}
	}
	return v
}

// Amino is the amino acid of a codon, upper-case bases in transcript direction, in the transcript's genetic code: '*'
// for a stop, 'X' where a base is not A, C, G, T or U.
func (v *View) Amino(b0, b1, b2 byte) byte { return v.transcript.code.amino(b0, b1, b2) }

// IsStart reports whether a codon may stand in place of the start codon without a loss of it.
func (v *View) IsStart(b0, b1, b2 byte) bool {
	return isCodon(v.transcript.code.starts, b0, b1, b2)
}

// Exception is the amino acid that the annotation gives to codon i (from 0) of the unchanged transcript against the
// genetic code, such as 'U', selenocysteine; 0 if there is none.
func (v *View) Exception(i int) byte {
	for _, e := range v.transcript.exceptions {
		if e.codon == i {
			return e.amino
		}
	}
	return 0
}

// Pad is the number of bases missing before an incomplete first codon; codons and coding offsets count them.
func (v *View) Pad() int { return v.transcript.pad }

// CodingLength is the number of bases of the coding sequence, Pad included; 0 if the transcript is not coding.
func (v *View) CodingLength() int { return v.transcript.cdsLen }

// CodingSequence is the unchanged coding sequence in transcript direction, with Pad letters N before it. It is made for the
// caller.
func (v *View) CodingSequence() []byte { return v.transcript.coding() }
