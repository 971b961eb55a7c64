package output

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/biogo/hts/sam"

	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/genome"
	modrecord "github.com/porestream/porestream/modbase/record"
	"github.com/porestream/porestream/signal"
)

// maxNameLength is the longest name that BAM can hold.
const maxNameLength = 254

// convert returns the SAM records of a read: one per alignment, or one unmapped.
func (h *htsWriter) convert(r Record) ([]*sam.Record, error) {
	name := clean(r.Read.ID)
	if name == "" || len(name) > maxNameLength || strings.ContainsAny(name, " @") {
		return nil, fmt.Errorf("name of %d bytes is none that SAM allows", len(name))
	}
	group := readGroup(r.Read.Run, h.header.Model.Manifest.Name, r.Barcode)
	if !h.groups[group] {
		return nil, fmt.Errorf("its read group %s is not in the header", group)
	}
	signalTags, err := h.readTags(r, group)
	if err != nil {
		return nil, err
	}
	if len(r.Alignments) == 0 {
		return []*sam.Record{{
			Name: name, Pos: -1, MatePos: -1, Flags: sam.Unmapped,
			Seq: sam.NewSeq(r.Called.Sequence), Qual: r.Called.Qualities, AuxFields: signalTags,
		}}, nil
	}
	records := make([]*sam.Record, 0, len(r.Alignments))
	for i := range r.Alignments {
		record, err := h.aligned(r, i, name)
		if err != nil {
			return nil, err
		}
		// The signal's tags stand on the primary only; they are the bulk of a record.
		if i == 0 {
			record.AuxFields = append(record.AuxFields, signalTags...)
		} else {
			record.AuxFields = append(record.AuxFields, identity(signalTags)...)
		}
		records = append(records, record)
	}
	return records, nil
}

// identity returns the tags that say what a record is of: run, sample and read, and what is said of its bases,
// which supplementary records have too.
func identity(tags sam.AuxFields) []sam.Aux {
	var kept []sam.Aux
	for _, tag := range [...]string{"RG", "pi", "BC", "MM", "ML", "MN"} {
		if aux := tags.Get(sam.NewTag(tag)); aux != nil {
			kept = append(kept, aux)
		}
	}
	return kept
}

// aligned returns the record of alignment i of a read. Supplementary records
// carry the whole sequence too, soft-clipped, so that each can be read alone.
func (h *htsWriter) aligned(r Record, i int, name string) (*sam.Record, error) {
	a := &r.Alignments[i]
	ref, ok := h.refs[a.Contig]
	if !ok {
		return nil, fmt.Errorf("its reference %s is not in the header", a.Contig)
	}
	cigar := hts.Cigar(a, len(r.Called.Sequence))
	if _, query := cigar.Lengths(); query != len(r.Called.Sequence) {
		return nil, fmt.Errorf("its alignment covers %d bases of %d", query, len(r.Called.Sequence))
	}
	record := &sam.Record{
		Name: name, Ref: ref, Pos: a.Start, MapQ: a.MappingQuality, Cigar: cigar, MatePos: -1,
		Seq: sam.NewSeq(r.Called.Sequence), Qual: r.Called.Qualities,
	}
	if a.Reverse {
		record.Flags |= sam.Reverse
		other := slices.Clone(r.Called.Sequence)
		genome.ReverseComplement(other)
		record.Seq = sam.NewSeq(other)
		record.Qual = slices.Clone(r.Called.Qualities)
		slices.Reverse(record.Qual)
	}
	if a.Supplementary {
		record.Flags |= sam.Supplementary
	}
	var t tags
	t.add("NM", int32(a.NM))
	t.add("AS", int32(a.Score))
	t.add("de", float32(a.Divergence))
	t.addText("SA", hts.Others(r.Alignments, i, len(r.Called.Sequence)))
	record.AuxFields = t.fields
	return record, t.err
}

// readTags returns the tags that say where a read's signal is from and what
// became of it.
func (h *htsWriter) readTags(r Record, group string) (sam.AuxFields, error) {
	read, called := r.Read, r.Called
	if called.Stride < 1 || called.Stride > math.MaxInt8 {
		return nil, fmt.Errorf("its stride of %d samples doesn't fit the mv tag", called.Stride)
	}
	var t tags
	t.add("RG", group)
	t.add("qs", float32(called.MeanQuality))
	if read.Run.SampleRate > 0 {
		t.add("du", float32(called.NumSamples)/float32(read.Run.SampleRate))
	}
	t.add("ns", int32(called.NumSamples))
	t.add("ts", int32(called.TrimmedSamples))
	t.add("mx", int32(read.Well))
	t.add("ch", int32(read.Channel))
	t.addText("st", startTag(read))
	t.add("rn", int32(read.Number))
	t.addText("fn", r.File)
	// Shift and scale are in levels; the tags are in picoamperes.
	t.add("sm", (called.Shift+read.Calibration.Offset)*read.Calibration.Scale)
	t.add("sd", called.Scale*read.Calibration.Scale)
	t.addText("sv", h.header.Model.Manifest.Normalisation.Method)
	t.add("dx", int32(0)) // each read is of one strand
	if read.PoreType != "not_set" {
		t.addText("po", read.PoreType)
	}
	if read.EndReason != signal.EndUnknown {
		t.addText("er", read.EndReason.String())
	}
	if read.MinKNOWEvents > 0 {
		t.add("me", uint32(min(read.MinKNOWEvents, math.MaxInt32))) // pysam takes more for negative
	}
	if r.Parent != "" {
		t.addText("pi", r.Parent)
		t.add("sp", int32(r.ParentStart))
	}
	if b := r.Barcode; b != nil {
		t.addText("BC", b.Name)
		if len(b.Info) > 0 {
			t.add("bi", b.Info)
		}
	}
	if r.Modified != nil && t.err == nil {
		t.fields, t.err = modrecord.Set(t.fields, r.Modified)
	}
	if h.header.NoMoves {
		return t.fields, t.err
	}
	moves := make([]int8, 0, 1+len(called.Moves))
	moves = append(moves, int8(called.Stride))
	for _, move := range called.Moves {
		moves = append(moves, int8(move))
	}
	t.add("mv", moves)
	return t.fields, t.err
}

// startTag returns the instant at which a read began; empty if that isn't known.
func startTag(read *signal.Read) string {
	if read.Run.StartTime.IsZero() {
		return ""
	}
	return timestamp(read.Start())
}

// tags collects optional fields and keeps the first error.
type tags struct {
	fields sam.AuxFields
	err    error
}

func (t *tags) add(name string, value any) {
	aux, err := sam.NewAux(sam.NewTag(name), value)
	if err != nil && t.err == nil {
		t.err = fmt.Errorf("tag %s: %w", name, err)
	}
	t.fields = append(t.fields, aux)
}

// addText adds a text unless it is empty.
func (t *tags) addText(name, value string) {
	if value = clean(value); value != "" {
		t.add(name, value)
	}
}
