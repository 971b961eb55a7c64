package annotate

import (
	"cmp"
	"slices"

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
	// The fields read for each variant come first, to lie together.
	start, end int
	exons      []segment
	cds        []segment // nil if not coding; two segments may share bases where the ribosome slips back
	rank       uint32    // among all transcripts of the model: longest coding sequence, ID
	class      uint8     // a bit each for what it is not: MANE Select, MANE Plus Clinical, canonical, protein-coding
	forward    bool
	plain      bool // all its names, and its contig's, can stand in CSQ as they are
	decays     bool // its class is that of transcripts that nonsense-mediated decay removes
	// unbroken says that the coding sequence is all that the exons have from offset codingFrom up to codingTo.
	unbroken             bool
	codingFrom, codingTo int

	track  *track
	contig *genome.Contig // unrolled if it is circular
	naming
	translation

	canonical, maneSelect, manePlus bool
	labels                          labels
	// mature are the mature microRNAs within a precursor, by position.
	mature []Span

	line       int // of the file
	cdnaLength int
	written    Written
}

// naming is what a transcript is called in the output.
type naming struct {
	gene      *gene
	name      *Feature
	flags     []string
	id        string
	version   string // "" if unknown or part of the id
	accession string // the id with its version
	protein   string // accession of the protein, "" if not coding
	biotype   string
	implicit  bool // it stands for a CDS that the file has directly under its gene: id is the protein's
}

// translation is how a transcript's coding sequence is read; of one that isn't coding it says nothing.
type translation struct {
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
	startCodon bool // the coding sequence is complete at its start and begins with a start codon
}

// exception is a codon that does not read as the table says (transl_except), such as selenocysteine.
type exception struct {
	codon int // from 0
	amino byte
}

// layOut gives segments their order and offsets. It returns their total length.
func (t *transcript) layOut(segs []segment) int {
	slices.SortFunc(segs, func(x, y segment) int {
		if t.forward {
			return cmp.Compare(x.start, y.start)
		}
		return cmp.Compare(y.start, x.start)
	})
	n := 0
	for i := range segs {
		segs[i].offset = n
		n += segs[i].end - segs[i].start
	}
	return n
}

// settle derives the fields that are read for each variant, after all others of t are known.
func (t *transcript) settle() {
	t.plain = true
	for _, s := range [...]string{
		t.id, t.accession, t.contig.Name, t.gene.name.Symbol, t.gene.name.ID, t.biotype, t.protein, t.labels.appris, t.labels.ccds,
	} {
		t.plain = t.plain && plainInCSQ(s)
	}
	switch t.biotype {
	case "nonsense_mediated_decay", "NMD", "NMD_transcript_variant":
		t.decays = true
	}
	if t.cds == nil {
		return
	}
	first, last := &t.cds[0], &t.cds[len(t.cds)-1]
	if t.forward {
		t.codingFrom, t.codingTo = t.locate(t.exons, first.start), t.locate(t.exons, last.end-1)+1
	} else {
		t.codingFrom, t.codingTo = t.locate(t.exons, first.end-1), t.locate(t.exons, last.start)+1
	}
	t.unbroken = t.codingFrom >= 0 && t.codingTo-t.codingFrom == t.cdsLen-t.pad
	for i := range t.cds {
		s := &t.cds[i]
		from := s.start
		if !t.forward {
			from = s.end - 1
		}
		t.unbroken = t.unbroken && s.offset-t.pad+t.codingFrom == t.locate(t.exons, from)
	}
}

// byPosition is exon i from 0, counted along the contig.
func (t *transcript) byPosition(i int) *segment {
	if t.forward {
		return &t.exons[i]
	}
	return &t.exons[len(t.exons)-1-i]
}

// exonsUpTo is the number of exons that end at pos or before.
func (t *transcript) exonsUpTo(pos int) int {
	low, high := 0, len(t.exons)
	for low < high {
		if mid := int(uint(low+high) >> 1); t.byPosition(mid).end <= pos {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
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

// coding is the coding sequence in transcript direction, with pad bases N before it. It is made anew: what concerns a variant is
// read by appendCodingPart and codingBase, for the sequences of all transcripts take more memory than all else about them.
func (t *transcript) coding() []byte { return t.appendCoding(make([]byte, 0, t.cdsLen)) }

// codingSegment is the index in cds of the segment that has coding offset i, which is not of the pad.
func (t *transcript) codingSegment(i int) int {
	low, high := 0, len(t.cds)-1
	for low < high {
		if mid := int(uint(low+high+1) >> 1); t.cds[mid].offset <= i {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low
}

// baseAt is the base of a segment of t with the given offset.
func (t *transcript) baseAt(s *segment, offset int) byte {
	if t.forward {
		return t.contig.At(s.start + offset - s.offset)
	}
	return complement[t.contig.At(s.end-1-offset+s.offset)]
}

// codingBase is base i of the coding sequence.
func (t *transcript) codingBase(i int) byte {
	if i < t.pad {
		return 'N'
	}
	return t.baseAt(&t.cds[t.codingSegment(i)], i)
}

// appendCodingPart appends the bases [from,to) of the coding sequence.
func (t *transcript) appendCodingPart(dst []byte, from, to int) []byte {
	for ; from < to && from < t.pad; from++ {
		dst = append(dst, 'N')
	}
	if from >= to {
		return dst
	}
	for k := t.codingSegment(from); from < to; k++ {
		s := &t.cds[k]
		end := min(to, s.offset+s.end-s.start)
		if t.forward {
			dst = t.appendStrand(dst, s.start+from-s.offset, s.start+end-s.offset)
		} else {
			dst = t.appendStrand(dst, s.end-end+s.offset, s.end-from+s.offset)
		}
		from = end
	}
	return dst
}

// appendStrand appends the bases [start,end) of the contig in transcript direction.
func (t *transcript) appendStrand(dst []byte, start, end int) []byte {
	if t.forward {
		return t.contig.Append(dst, start, end)
	}
	from := len(dst)
	dst = t.contig.Append(dst, start, end)
	bases := dst[from:]
	for i, j := 0, len(bases)-1; i <= j; i, j = i+1, j-1 {
		bases[i], bases[j] = complement[bases[j]], complement[bases[i]]
	}
	return dst
}

// after is base i after the coding sequence, or 0 where the sequence ends.
func (t *transcript) after(i int) byte {
	if !t.readsOn {
		offset := t.codingTo + i
		if offset >= t.cdnaLength {
			return 0
		}
		k := len(t.exons) - 1
		for t.exons[k].offset > offset { // the last exons: few untranslated ends have more than one or two
			k--
		}
		return t.baseAt(&t.exons[k], offset)
	}
	if t.forward {
		if p := t.cdsEnd + i; p < t.contig.Len() {
			return t.contig.At(p)
		}
		return 0
	}
	if p := t.cdsStart - 1 - i; p >= 0 {
		return complement[t.contig.At(p)]
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
	if codon == 0 && t.startCodon && isCodon(t.code.annotated, b0, b1, b2) {
		return 'M'
	}
	return t.code.amino(b0, b1, b2)
}

// reference is the amino acid of codon (from 0) of the unchanged protein, '*' for its stop, or 0 if the coding
// sequence has no such whole codon.
func (t *transcript) reference(codon int) byte {
	i := 3 * codon
	if i < 0 || i+3 > t.cdsLen {
		return 0
	}
	var bases [3]byte
	c := t.appendCodingPart(bases[:0], i, i+3)
	return t.amino(codon, c[0], c[1], c[2])
}
