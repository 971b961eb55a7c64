package aligned

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/biogo/hts/sam"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/variant"
)

// HaplotypeTags are the haplotypes of a file's reads, by region.
type HaplotypeTags map[regionKey]map[variant.SegmentKey]variant.HaplotypeTag

// Add takes what a region says.
func (t HaplotypeTags) Add(r *Region) {
	if len(r.Haplotypes) > 0 {
		t[regionKey{r.Contig, (r.End - 1) / align.RegionWidth}] = r.Haplotypes
	}
}

// TagCounts is what became of the records of a file that were tagged.
type TagCounts struct {
	Records, Tagged int
}

// The tags of a read's haplotype, phase set and quality, as WhatsHap and HiPhase name
// them.
var haplotypeTags = []sam.Tag{sam.NewTag("HP"), sam.NewTag("PS"), sam.NewTag("PC")}

// WriteBAM writes the alignments of a file, which has not been read yet, as BAM with tags:
// HP is the haplotype, 1 or 2, PS the phase set, and PC the Phred-scaled probability that
// it is the other haplotype. Tags of that name that were there before are gone. With a
// sample only reads of its read groups are tagged; others keep their tags. Nothing else of
// a record is changed. program states in the header what was done: name, version and
// command line.
func (t HaplotypeTags) WriteBAM(ctx context.Context, a *Alignments, out io.Writer, sample string, threads int, program [3]string) (TagCounts, error) {
	var n TagCounts
	w, err := hts.NewWriter(out, hts.BAM, a.records.Lines().WithProgram(program[0], program), a.header.Refs(), threads)
	if err != nil {
		return n, fmt.Errorf("tagging haplotypes: %w", err)
	}
	var groups map[string]bool
	if sample != "" {
		groups = a.groupsOf(sample)
	}
	for {
		if err := ctx.Err(); err != nil {
			return n, errors.Join(err, w.Close())
		}
		rec, err := a.records.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			n.Records++
		}
		if err == nil && (groups == nil || groups[group(rec)]) {
			rec.AuxFields = slices.DeleteFunc(rec.AuxFields, func(x sam.Aux) bool { return slices.Contains(haplotypeTags, x.Tag()) })
			var tag variant.HaplotypeTag
			if tag, err = t.of(a, rec); tag.Haplotype != 0 {
				n.Tagged++
				err = errors.Join(err, appendTags(rec, tag))
			}
		}
		if err == nil {
			err = w.Write(rec)
		}
		if err != nil {
			return n, errors.Join(fmt.Errorf("tagging haplotypes: alignment %d: %w", n.Records, err), w.Close())
		}
	}
	if err := w.Close(); err != nil {
		return n, fmt.Errorf("tagging haplotypes: %w", err)
	}
	return n, nil
}

// of is the tag of a record, as the region says that knows most of it; of haplotype 0 if
// none does.
func (t HaplotypeTags) of(a *Alignments, rec *sam.Record) (best variant.HaplotypeTag, err error) {
	if len(t) == 0 || rec.Flags&(sam.Unmapped|sam.Secondary) != 0 || rec.Ref == nil || rec.Pos < 0 || rec.Seq.Length == 0 {
		return best, nil
	}
	contig := a.contigs[rec.Ref.ID()]
	length, _ := rec.Cigar.Lengths()
	if contig == nil || !t.touches(regionKey{contig, 0}, rec.Pos, rec.Pos+length) {
		return best, nil
	}
	read, alignment, err := a.parse(rec, contig)
	if err != nil {
		return best, nil //nolint:nilerr // what can't be used was left out of the call, too
	}
	segments, err := a.cutter.Segments(read, alignment, contig.Seq)
	for _, s := range segments {
		if tag := t[regionKey{contig, int(s.GetRegion())}][variant.KeyOf(s)]; tag.Weight > best.Weight {
			best = tag
		}
	}
	return best, err
}

// touches reports whether a region over [start, end) of a contig has tags.
func (t HaplotypeTags) touches(key regionKey, start, end int) bool {
	for key.index = start / align.RegionWidth; key.index <= max(start, end-1)/align.RegionWidth; key.index++ {
		if t[key] != nil {
			return true
		}
	}
	return false
}

func appendTags(rec *sam.Record, tag variant.HaplotypeTag) error {
	for i, value := range []int{tag.Haplotype, int(tag.Set), int(math.Round(tag.Quality))} {
		aux, err := sam.NewAux(haplotypeTags[i], value)
		if err != nil {
			return err
		}
		rec.AuxFields = append(rec.AuxFields, aux)
	}
	return nil
}
