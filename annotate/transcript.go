package annotate

import (
	"sort"
	"sync"

	"github.com/porestream/porestream/genome"
)

// gene is what transcripts share.
type gene struct {
	name    *Gene
	biotype string
	aliases []string // all names of the gene in the file
}

// segment is a stretch of a transcript that is contiguous on the contig.
type segment struct {
	start, end int
	offset     int // of its first base in transcript direction, in the concatenation of the segments
}

// transcript is one transcript, coding or not. Exons and coding segments are in transcript order, so that on the
// reverse strand their coordinates fall.
type transcript struct {
	track      *track
	contig     *genome.Contig // unrolled if it is circular
	gene       *gene
	name       *Feature
	flags      []string // for output
	id         string
	version    string // "" if unknown or part of the id
	accession  string // the id with its version
	protein    string // accession of the protein, "" if not coding
	biotype    string
	implicit   bool // stands for a CDS that the file has directly under its gene: id is the protein's
	start, end int
	forward    bool

	exons []segment
	cds   []segment // nil if not coding; two segments may share bases where the ribosome slips back
	// cdsStart and cdsEnd bound the coding region on the contig.
	cdsStart, cdsEnd int
	// pad counts bases missing before an incomplete first codon; coding offsets begin with them.
	pad int
	// cdsLen is the length of the coding sequence with pad.
	cdsLen int

	code       *geneticCode
	exceptions []exception
	startNF    bool // the coding sequence begins before the transcript does
	endNF      bool // the coding sequence ends after the transcript does
	readsOn    bool // nothing is known after the CDS, so translation goes on along the contig

	canonical, maneSelect, manePlus bool
	labels                          labels
	// mature are the mature microRNAs within a precursor, by position.
	mature []Span

	rank  uint32 // among all transcripts of the model: longest coding sequence, ID
	class uint8  // a bit each for what it is not: MANE Select, MANE Plus Clinical, canonical, protein-coding

	once       sync.Once
	codingSeq  []byte
	startCodon bool // the coding sequence is complete at its start and begins with a start codon
	utr3       []byte
	line       int
	cdnaLength int
	written    *Written
}

// exception is a codon that does not read as the table says (transl_except), such as selenocysteine.
type exception struct {
	codon int // from 0
	amino byte
}

// layOut gives segments their order and offsets. It returns their total length.
func (t *transcript) layOut(segs []segment) int {
	sort.Slice(segs, func(i, j int) bool {
		return (segs[i].start < segs[j].start) == t.forward && segs[i].start != segs[j].start
	})
	n := 0
	for i := range segs {
		segs[i].offset = n
		n += segs[i].end - segs[i].start
	}
	return n
}

// locate is the offset of base pos in segs, or -1.
func (t *transcript) locate(segs []segment, pos int) int {
	for i := range segs {
		if s := &segs[i]; pos >= s.start && pos < s.end {
			if t.forward {
				return s.offset + pos - s.start
			}
			return s.offset + s.end - 1 - pos
		}
	}
	return -1
}

// span maps the replaced bases [start,end) of the contig to the half-open interval of offsets from the first to the
// last of them, introns between them left out. For an insertion (start == end) it is the empty interval at that
// point; a point at the edge of a segment belongs to it. A bound whose base is in no segment is -1.
func (t *transcript) span(segs []segment, start, end int) (from, to int) {
	if start == end {
		if before := t.locate(segs, start-1); before >= 0 {
			if t.forward {
				before++
			}
			return before, before
		}
		after := t.locate(segs, start)
		if after >= 0 && !t.forward {
			after++
		}
		return after, after
	}
	first, last := t.locate(segs, start), t.locate(segs, end-1)
	if !t.forward {
		first, last = last, first
	}
	if last >= 0 {
		last++
	}
	return first, last
}

// coding is the coding sequence in transcript direction, with pad bases N before it.
func (t *transcript) coding() []byte {
	t.once.Do(t.splice)
	return t.codingSeq
}

// hasStart says whether the place where translation starts is known: otherwise a change of the first codon is one
// like any other.
func (t *transcript) hasStart() bool {
	t.coding()
	return t.startCodon
}

// splice reads the sequences from the contig.
func (t *transcript) splice() {
	if t.pad == 0 && t.forward && len(t.cds) == 1 {
		t.codingSeq = t.contig.Seq[t.cds[0].start:t.cds[0].end]
	} else {
		t.codingSeq = t.appendCoding(make([]byte, 0, t.cdsLen))
	}
	if c := t.codingSeq; t.pad == 0 && !t.startNF && len(c) >= 3 {
		t.startCodon = isCodon(t.code.annotated, c[0], c[1], c[2])
	}
	for _, s := range t.exons {
		if t.forward {
			if s.end > t.cdsEnd {
				t.utr3 = t.appendStrand(t.utr3, max(s.start, t.cdsEnd), s.end)
			}
		} else if s.start < t.cdsStart {
			t.utr3 = t.appendStrand(t.utr3, s.start, min(s.end, t.cdsStart))
		}
	}
}

// appendStrand appends the bases [start,end) of the contig in transcript direction.
func (t *transcript) appendStrand(dst []byte, start, end int) []byte {
	if t.forward {
		return append(dst, t.contig.Seq[start:end]...)
	}
	for i := end - 1; i >= start; i-- {
		dst = append(dst, complement[t.contig.Seq[i]])
	}
	return dst
}

// after is base i after the coding sequence, or 0 where the sequence ends.
func (t *transcript) after(i int) byte {
	if !t.readsOn {
		if i < len(t.utr3) {
			return t.utr3[i]
		}
		return 0
	}
	if t.forward {
		if p := t.cdsEnd + i; p < len(t.contig.Seq) {
			return t.contig.Seq[p]
		}
		return 0
	}
	if p := t.cdsStart - 1 - i; p >= 0 {
		return complement[t.contig.Seq[p]]
	}
	return 0
}

// amino is the amino acid that codon (from 0) of the unchanged transcript gives when it reads b0 b1 b2.
func (t *transcript) amino(codon int, b0, b1, b2 byte) byte {
	for _, e := range t.exceptions {
		if e.codon == codon {
			return e.amino
		}
	}
	if codon == 0 && t.hasStart() && isCodon(t.code.annotated, b0, b1, b2) {
		return 'M'
	}
	return t.code.amino(b0, b1, b2)
}

// reference is the amino acid of codon (from 0) of the unchanged protein, '*' for its stop, or 0 if the coding
// sequence has no such whole codon.
func (t *transcript) reference(codon int) byte {
	cds := t.coding()
	if i := 3 * codon; i >= 0 && i+3 <= len(cds) {
		return t.amino(codon, cds[i], cds[i+1], cds[i+2])
	}
	return 0
}
