package variant

import (
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant/phase"
)

// SegmentKey identifies a segment within a region.
type SegmentKey struct{ key readKey }

// KeyOf is a segment's key.
func KeyOf(s *streampb.Segment) SegmentKey { return SegmentKey{keyOf(s)} }

// HaplotypeTag says which haplotype of a diploid sample a read is of.
type HaplotypeTag struct {
	Set       int64 // the phase set, as PS of calls: 1-based position of its first site
	Haplotype int   // 1 or 2, in the order of the genotypes of the set
	// Quality is the Phred-scaled probability that it is the other, Weight what the read
	// shows of the set, in milli-Phred: of several regions the one counts that knows most.
	Quality float64
	Weight  int64
}

// HaplotypeTags returns the haplotypes of the region's reads, as far as they are
// known, from what the reads show at the heterozygous sites that tie them together:
// the sites that calls are phased by. Of several phase sets, the one of which a read
// shows most counts.
func (r *Region) HaplotypeTags() map[SegmentKey]HaplotypeTag {
	h := r.phaseReads(r.errorModel(), r.allTiles())
	if h == nil {
		return nil
	}
	tags := make(map[SegmentKey]HaplotypeTag, len(h.marks))
	for n, rd := range r.reads.all() {
		if tag, ok := h.tag(n); ok {
			tags[SegmentKey{rd.key}] = tag
		}
	}
	return tags
}

// TaggedRead is a read whose haplotype is known, by its primary alignment.
type TaggedRead struct {
	Key          [16]byte // as [align.ReadKey] has it
	Before, Past bool     // it begins before the region, and goes on past it
	HaplotypeTag
}

// TaggedReads are the reads that [Region.HaplotypeTags] has by their primary alignments, ascending by key.
func (r *Region) TaggedReads() []TaggedRead {
	h := r.phaseReads(r.errorModel(), r.allTiles())
	if h == nil {
		return nil
	}
	var tagged []TaggedRead
	for n, rd := range r.reads.all() {
		if tag, ok := h.tag(n); ok && !rd.is(readSupplementary) {
			tagged = append(tagged, TaggedRead{
				Key: rd.key, Before: int(rd.start)+r.reach() < r.start, Past: int(rd.end)+r.reach() > r.end, HaplotypeTag: tag,
			})
		}
	}
	return tagged
}

// tag is the haplotype of a segment, by number; false if it is not known.
func (h *haplotypes) tag(segment uint32) (HaplotypeTag, bool) {
	var sets []int32
	sums := make(map[int32]*[2]int64)
	for _, m := range h.marks[segment] {
		sum := sums[m.set]
		if sum == nil {
			sum = new([2]int64)
			sums[m.set], sets = sum, append(sets, m.set)
		}
		if m.llr > 0 {
			sum[0] += int64(m.llr)
		} else {
			sum[1] -= int64(m.llr)
		}
	}
	var best HaplotypeTag
	for _, set := range sets { // in the order of the sites, so the first of equals
		sum := sums[set]
		haplotype, quality := phase.Haplotype(sum[0], sum[1])
		weight := max(sum[0]-sum[1], sum[1]-sum[0])
		if haplotype != 0 && weight > best.Weight {
			best = HaplotypeTag{Set: int64(set) + 1, Haplotype: haplotype, Quality: quality, Weight: weight}
		}
	}
	return best, best.Haplotype != 0
}
