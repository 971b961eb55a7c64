package sorted

import (
	"bytes"
	"errors"
	"slices"

	"github.com/biogo/hts/sam"

	"github.com/porestream/porestream/align/hts/samtag"
	"github.com/porestream/porestream/demux"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/record"
)

// alignmentTags are those that an aligner writes: they say nothing of an unaligned read.
var alignmentTags = []string{
	"NM", "MD", "AS", "SA", "CG", "ms", "nn", "tp", "cm", "s1", "s2", "de", "dv", "rl", "cs", "zd", "bh",
}

// unalign turns a primary record into the read as it was sequenced.
func (s *sorter) unalign(r *sam.Record) error {
	if bytes.IndexByte(r.Seq.Expand(), '=') >= 0 {
		return errors.New("read " + r.Name + " has bases that are written as =, which only its reference resolves: sort reads as they were before samtools calmd -e")
	}
	if r.Flags&sam.Reverse != 0 {
		sequence := r.Seq.Expand()
		r.Seq = sam.NewSeq(demux.ReverseComplement(sequence))
		slices.Reverse(r.Qual)
	}
	for _, op := range r.Cigar {
		if op.Type() == sam.CigarHardClipped {
			return errors.New("read " + r.Name + " is hard-clipped: its ends, where barcodes are, are missing")
		}
	}
	r.Flags, r.Ref, r.Pos, r.MapQ, r.Cigar = sam.Unmapped|r.Flags&sam.QCFail, nil, -1, 0, nil
	r.MateRef, r.MatePos, r.TempLen = nil, -1, 0
	r.AuxFields = slices.DeleteFunc(r.AuxFields, func(a sam.Aux) bool {
		tag := a.Tag()
		return slices.Contains(alignmentTags, tag.String())
	})
	return nil
}

// trim cuts a read to a stretch of its sequence, and the tags mv and ts with it: the
// samples before count as trimmed, as when a basecaller cuts.
func trim(r *sam.Record, sequence []byte, inside demux.Interval) error {
	if inside.Start == 0 && inside.End == len(sequence) {
		return nil
	}
	r.Seq = sam.NewSeq(sequence[inside.Start:inside.End])
	if len(r.Qual) == len(sequence) {
		r.Qual = r.Qual[inside.Start:inside.End]
	}
	moves, ok := r.Tag([]byte("mv"))
	if !ok {
		return nil
	}
	table, ok := moves.Value().([]int8)
	if !ok || len(table) < 1 || table[0] < 1 {
		return errors.New("its tag mv is no table of moves")
	}
	stride, frames := int(table[0]), table[1:]
	first, end, base := 0, len(frames), 0
	for i, move := range frames {
		if move == 0 {
			continue
		}
		if base == inside.Start && base > 0 {
			first = i
		}
		if base == inside.End {
			end = i
			break
		}
		base++
	}
	if base < inside.End {
		return errors.New("its tag mv has fewer bases than its sequence")
	}
	trimmed := 0
	if samtag.Value(r, "ts") != nil {
		var ok bool
		if trimmed, ok = samtag.Int(r, "ts"); !ok {
			return errors.New("its tag ts is no number")
		}
	}
	if err := setTag(r, "mv", append([]int8{table[0]}, frames[first:end]...)); err != nil {
		return err
	}
	return setTag(r, "ts", int32(trimmed+first*stride))
}

// modified keeps what a read's tags say of modified bases true when it is cut to a stretch of its
// sequence. Tags that aren't of this read are dropped, and the error says why.
func modified(r *sam.Record, sequence []byte, inside demux.Interval) error {
	tags, err := record.Tags(r.AuxFields)
	if err == nil && tags != nil {
		whole := modbase.Sequence{Bases: sequence}
		if inside.Start == 0 && inside.End == len(sequence) {
			err = tags.Check(whole)
		} else if tags, err = tags.Slice(whole, inside.Start, inside.End); err == nil {
			r.AuxFields, err = record.Set(r.AuxFields, tags)
		}
	}
	if err != nil {
		r.AuxFields = record.Drop(r.AuxFields)
	}
	return err
}

// setTag sets a tag in the place that it has, or as the last.
func setTag(r *sam.Record, tag string, value any) error {
	aux, err := sam.NewAux(sam.NewTag(tag), value)
	if err != nil {
		return err
	}
	for i, old := range r.AuxFields {
		if old.Tag() == sam.NewTag(tag) {
			r.AuxFields[i] = aux
			return nil
		}
	}
	r.AuxFields = append(r.AuxFields, aux)
	return nil
}
