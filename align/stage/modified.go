package stage

import (
	"slices"

	"github.com/biogo/hts/sam"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/modbase/record"
	"github.com/porestream/porestream/stream/streampb"
)

// modifiedOf are the tags of a called read; nil: it has none, or none that can be used.
func (p *Placer) modifiedOf(r *streampb.CalledRead, bases []byte) *modbase.Tags {
	if r.GetModified() == "" {
		return nil
	}
	tags, err := modbase.Parse(r.GetModified(), r.GetModifiedProbabilities(), int(r.GetModifiedLength()))
	if err == nil {
		err = tags.Check(modbase.Sequence{Bases: bases})
	}
	if err != nil {
		p.faulty(r.GetReadId(), err)
		return nil
	}
	return tags
}

// cut are a part's tags when only its bases [from, to) are left.
func (p *Placer) cut(read *Read, part Part, from, to int) *modbase.Tags {
	if part.Modified == nil || from == 0 && to == len(part.Called.Sequence) {
		return part.Modified
	}
	tags, err := part.Modified.Slice(modbase.Sequence{Bases: part.Called.Sequence}, from, to)
	if err != nil {
		p.faulty(read.ID, err)
		return nil
	}
	return tags
}

// faulty counts tags that can't be used: the read is one that says nothing of modified bases.
func (p *Placer) faulty(read string, err error) {
	if p.Metrics.modifiedFault(record.Reason(err)) {
		p.Logger.Warn("modified bases of a read can't be used: it counts as a read without calls; further ones of this kind are only counted", "read", read, "why", err)
	}
}

// modified gives the segments of a part's primary alignment what its tags say of the cores of their regions.
func (p *Placer) modified(read *Read, part Part, a *align.Alignment, ref []byte, segments []*streampb.Segment) {
	bases := slices.Clone(part.Called.Sequence)
	from, to := a.QueryStart, a.QueryEnd
	if a.Reverse {
		genome.ReverseComplement(bases)
		from, to = len(bases)-a.QueryEnd, len(bases)-a.QueryStart
	}
	var cigar sam.Cigar
	add := func(op sam.CigarOpType, n int) {
		if n > 0 {
			cigar = append(cigar, sam.NewCigarOp(op, n))
		}
	}
	add(sam.CigarSoftClipped, from)
	for _, op := range align.LeftAlign(a.Ops, bases[from:to], ref[a.Start:a.End]) { // as the segments are
		add([...]sam.CigarOpType{align.Match: sam.CigarMatch, align.Mismatch: sam.CigarMatch, align.Insertion: sam.CigarInsertion, align.Deletion: sam.CigarDeletion}[op.Kind], op.Len)
	}
	add(sam.CigarSoftClipped, len(bases)-to)
	spans := make([]pileup.Span, len(segments))
	for i, s := range segments {
		start, end := align.RegionBounds(int(s.GetRegion()), len(ref))
		spans[i] = pileup.Span{Origin: int(s.GetStart()), Start: max(start, int(s.GetStart())), End: end}
	}
	var calls pileup.Calls
	packed, unlisted, err := calls.Pack(pileup.Aligned{Start: a.Start, Reverse: a.Reverse, Cigar: cigar, Bases: bases}, part.Modified, spans)
	if err != nil {
		p.faulty(read.ID, err)
		return
	}
	for _, code := range unlisted {
		if p.Metrics.unlistedCode(code) {
			p.Logger.Warn("a code of modified bases is not among those of the SAM specification: it is counted as it stands", "code", code.String(), "first read", read.ID)
		}
	}
	for i, s := range segments {
		s.Modified = packed[i]
	}
}
