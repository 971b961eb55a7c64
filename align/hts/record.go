// Package hts reads and writes SAM and BAM: records and headers as they stand, reads that
// were aligned as records, sorted by position.
package hts

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/biogo/hts/sam"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/genome"
)

// maxName is the longest name that BAM can hold.
const maxName = 254

// Header returns the header of alignments to g that are sorted by position, with one
// read group.
func Header(g *genome.Genome, group *sam.ReadGroup, programs ...*sam.Program) (*sam.Header, error) {
	h, err := sam.NewHeader(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("making SAM header: %w", err)
	}
	h.Version, h.SortOrder = "1.6", sam.Coordinate
	for _, c := range g.Contigs {
		ref, err := sam.NewReference(c.Name, "", "", len(c.Seq), nil, nil)
		if err == nil {
			err = h.AddReference(ref)
		}
		if err != nil {
			return nil, fmt.Errorf("making SAM header: reference %s: %w", c.Name, err)
		}
	}
	if err := h.AddReadGroup(group); err != nil {
		return nil, fmt.Errorf("making SAM header: read group %s: %w", group.Name(), err)
	}
	for _, p := range programs {
		if err := h.AddProgram(p); err != nil {
			return nil, fmt.Errorf("making SAM header: program %s: %w", p.UID(), err)
		}
	}
	return h, nil
}

// Read is a read to be written.
type Read struct {
	Name       string
	Seq        []byte // as sequenced
	Qualities  []byte // Phred; nil if they are not known
	Alignments []align.Alignment
	// Tags stand on all records of the read, but for those that an alignment has itself.
	Tags sam.AuxFields
}

// alignmentTags are those that records of alignments are given here.
var alignmentTags = []string{"RG", "NM", "AS", "de", "MD", "SA", "CG"}

// TitleTags are the tags in the title of a FASTQ record behind its name, separated by tabs, as
// samtools fastq -T and basecallers write them. What is no tag is left out, and what the records
// of an alignment have themselves.
func TitleTags(description string) sam.AuxFields {
	var tags sam.AuxFields
	for field := range strings.SplitSeq(description, "\t") {
		aux, err := parseAux([]byte(field))
		if err != nil || slices.Contains(alignmentTags, field[:2]) || tags.Get(aux.Tag()) != nil {
			continue
		}
		tags = append(tags, aux)
	}
	return tags
}

// Records makes SAM records of reads aligned to a genome.
type Records struct {
	genome *genome.Genome
	refs   map[string]*sam.Reference
	group  string
}

// NewRecords makes records of reads of the header's first read group, aligned to g.
func NewRecords(g *genome.Genome, h *sam.Header) *Records {
	r := &Records{genome: g, refs: make(map[string]*sam.Reference), group: h.RGs()[0].Name()}
	for _, ref := range h.Refs() {
		r.refs[ref.Name()] = ref
	}
	return r
}

// Of returns the records of a read: one per alignment, or one unmapped. Supplementary
// records carry the whole sequence too, soft-clipped, so that each can be read alone.
// It is safe for concurrent use.
func (r *Records) Of(read *Read) ([]*sam.Record, error) {
	if err := checkName(read.Name); err != nil {
		return nil, err
	}
	// U is T in BAM, where the library would make it N.
	seq := bytes.ReplaceAll(bytes.ToUpper(read.Seq), []byte("U"), []byte("T"))
	if len(read.Alignments) == 0 {
		group, err := sam.NewAux(sam.NewTag("RG"), r.group)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", read.Name, err)
		}
		return []*sam.Record{{
			Name: read.Name, Pos: -1, MatePos: -1, Flags: sam.Unmapped,
			Seq: sam.NewSeq(seq), Qual: read.Qualities, AuxFields: append(sam.AuxFields{group}, read.Tags...),
		}}, nil
	}
	var reverseComplement, reversedQualities []byte // made when the first alignment needs them
	out := make([]*sam.Record, 0, len(read.Alignments))
	for i := range read.Alignments {
		a := &read.Alignments[i]
		s, q := seq, read.Qualities
		if a.Reverse {
			if reverseComplement == nil {
				reverseComplement, reversedQualities = bytes.Clone(seq), bytes.Clone(read.Qualities)
				genome.ReverseComplement(reverseComplement)
				slices.Reverse(reversedQualities)
			}
			s, q = reverseComplement, reversedQualities
		}
		rec, err := r.aligned(read, i, s, q)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", read.Name, err)
		}
		out = append(out, rec)
	}
	return out, nil
}

// checkName says whether SAM allows a read's name (SAM specification 1.4).
func checkName(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("a name of %d bytes: SAM allows 1 to %d", len(name), maxName)
	}
	for i := range len(name) {
		if c := name[i]; c < '!' || c > '~' || c == '@' {
			return fmt.Errorf("read %q: its name has %q, which SAM does not allow", name, c)
		}
	}
	return nil
}

// aligned returns the record of alignment i of a read. seq and qualities are on the
// reference's strand.
func (r *Records) aligned(read *Read, i int, seq, qualities []byte) (*sam.Record, error) {
	a := &read.Alignments[i]
	ref, c := r.refs[a.Contig], r.genome.Contig(a.Contig)
	if ref == nil || c == nil {
		return nil, fmt.Errorf("its reference %s is not in the header", a.Contig)
	}
	cigar := Cigar(a, len(seq))
	if _, query := cigar.Lengths(); query != len(seq) {
		return nil, fmt.Errorf("its alignment covers %d bases of %d", query, len(seq))
	}
	rec := &sam.Record{
		Name: read.Name, Ref: ref, Pos: a.Start, MapQ: a.MappingQuality, Cigar: cigar, MatePos: -1,
		Seq: sam.NewSeq(seq), Qual: qualities,
	}
	if a.Reverse {
		rec.Flags |= sam.Reverse
	}
	if a.Supplementary {
		rec.Flags |= sam.Supplementary
	}
	md, err := mismatches(a, c.Seq)
	if err != nil {
		return nil, err
	}
	type tag struct {
		name  string
		value any
	}
	tags := []tag{
		{"RG", r.group}, {"NM", int32(a.NM)}, {"AS", int32(a.Score)}, {"de", float32(a.Divergence)}, {"MD", md},
	}
	if len(read.Alignments) > 1 {
		tags = append(tags, tag{"SA", Others(read.Alignments, i, len(seq))})
	}
	for _, t := range tags {
		aux, err := sam.NewAux(sam.NewTag(t.name), t.value)
		if err != nil {
			return nil, fmt.Errorf("tag %s: %w", t.name, err)
		}
		rec.AuxFields = append(rec.AuxFields, aux)
	}
	rec.AuxFields = append(rec.AuxFields, read.Tags...)
	return rec, nil
}

// Cigar returns the CIGAR of an alignment of a read of n bases, clips included.
func Cigar(a *align.Alignment, n int) sam.Cigar {
	left, right := a.QueryStart, n-a.QueryEnd
	if a.Reverse {
		left, right = right, left
	}
	types := [...]sam.CigarOpType{
		align.Match: sam.CigarEqual, align.Mismatch: sam.CigarMismatch,
		align.Insertion: sam.CigarInsertion, align.Deletion: sam.CigarDeletion,
	}
	cigar := make(sam.Cigar, 0, len(a.Ops)+2)
	if left > 0 {
		cigar = append(cigar, sam.NewCigarOp(sam.CigarSoftClipped, left))
	}
	for _, op := range a.Ops {
		cigar = append(cigar, sam.NewCigarOp(types[op.Kind], op.Len))
	}
	if right > 0 {
		cigar = append(cigar, sam.NewCigarOp(sam.CigarSoftClipped, right))
	}
	return cigar
}

// Others returns the tag SA of alignment i of a read of n bases: its other alignments.
func Others(all []align.Alignment, i, n int) string {
	var b strings.Builder
	for k := range all {
		if k == i {
			continue
		}
		a := &all[k]
		strand := '+'
		if a.Reverse {
			strand = '-'
		}
		fmt.Fprintf(&b, "%s,%d,%c,%v,%d,%d;", a.Contig, a.Start+1, strand, Cigar(a, n), a.MappingQuality, a.NM)
	}
	return b.String()
}

// mismatches returns the tag MD of an alignment (SAM optional fields specification
// 1.1) to a contig.
func mismatches(a *align.Alignment, ref []byte) (string, error) {
	if a.Start < 0 || a.End > len(ref) {
		return "", errors.New("its alignment lies outside the contig")
	}
	var b []byte
	same, at := 0, a.Start
	for _, op := range a.Ops {
		if at+op.Len > len(ref) && op.Kind != align.Insertion {
			return "", errors.New("its alignment lies outside the contig")
		}
		switch op.Kind {
		case align.Match:
			same += op.Len
			at += op.Len
		case align.Mismatch:
			for range op.Len {
				b = strconv.AppendInt(b, int64(same), 10)
				b = append(b, ref[at])
				same = 0
				at++
			}
		case align.Deletion:
			b = strconv.AppendInt(b, int64(same), 10)
			b = append(b, '^')
			b = append(b, ref[at:at+op.Len]...)
			same = 0
			at += op.Len
		}
	}
	return string(strconv.AppendInt(b, int64(same), 10)), nil
}
