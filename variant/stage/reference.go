package stage

import (
	"math/bits"
	"slices"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
)

// stretchWidth is how much of a region one record covers: so little that the largest, a
// block and a span at every position, fits a record of the public topic, where each is up
// to 150 bytes of JSON.
const stretchWidth = 4096

// reference returns what a sample whose runs have ended has at places without a variant. A
// region without a read would otherwise never be reported. The worker that would have had
// its reads reports it, and only when the sample has just ended, for no state keeps such a
// region.
func (h *handler) reference(run, sample string, justEnded bool) ([]stream.Out, error) {
	if !h.cfg.Survey.Blocks && !h.cfg.Survey.Callable {
		return nil, nil
	}
	var outs []stream.Out
	for _, contig := range h.cfg.Genome.Contigs {
		for i := 0; i*align.RegionWidth < len(contig.Seq); i++ {
			key := regionKey{sample, contig.Name, uint32(i)}
			region := h.regions[key]
			if region == nil {
				owner := stream.PartitionFor(stream.RegionKey(sample, contig.Name, key.region), h.partitions)
				if !justEnded || owner != h.partition {
					continue
				}
				var err error
				if region, err = h.newRegion(key); err != nil {
					return nil, err
				}
				region.Use(&h.work)
			}
			found, revision, ok := region.Reference(h.cfg.Survey)
			if !ok {
				continue
			}
			start, end := align.RegionBounds(i, len(contig.Seq))
			for _, r := range stretches(found, start, end) {
				if revision == 1 && len(r.Blocks) == 0 && len(r.Callable) == 0 {
					continue // it has never held anything
				}
				r.Run, r.Sample, r.Contig, r.Revision = run, sample, contig.Name, revision
				out, err := h.encodeReference(r)
				if err != nil {
					return nil, err
				}
				outs = append(outs, out)
			}
		}
	}
	return outs, nil
}

// stretches divides what was found in a region by where it begins.
func stretches(found variant.Survey, start, end int) []*streampb.Reference {
	var list []*streampb.Reference
	for at := start; at < end; at += stretchWidth {
		list = append(list, &streampb.Reference{Start: int64(at), End: int64(min(end, at+stretchWidth))})
	}
	of := func(at int) *streampb.Reference { return list[(at-start)/stretchWidth] }
	for _, b := range found.Blocks {
		r := of(b.Start)
		r.Blocks = append(r.Blocks, blockOf(b))
	}
	for _, s := range found.Callable {
		r := of(s.Start)
		r.Callable = append(r.Callable, &streampb.CallableSpan{Start: int64(s.Start), End: int64(s.End), Callability: streampb.Callability(s.Callability) + 1}) // without UNSPECIFIED
	}
	return list
}

func (h *handler) encodeReference(r *streampb.Reference) (stream.Out, error) {
	value, err := stream.EncodeCalls(&streampb.CallRecord{Body: &streampb.CallRecord_Reference{Reference: r}})
	if err != nil {
		return stream.Out{}, err
	}
	h.metrics.referenceEmitted()
	return stream.Out{
		Topic: h.cfg.Topics.Calls, Partition: stream.ContigPartition(r.GetSample(), r.GetContig(), h.cfg.CallsPartitions),
		Key: stream.ReferenceKey(r.GetSample(), r.GetContig(), r.GetStart()), Value: value,
	}, nil
}

// followed are the stretches of each region, within its bounds, that hold positions somebody waits for while runs go on.
type followed map[regionKey][]variant.Span // of no sample

func (c *Config) followed() followed {
	list := make(followed)
	for name, positions := range c.Followed {
		contig := c.Genome.Contig(name)
		if contig == nil {
			continue
		}
		for _, at := range positions {
			if at < 0 || at >= len(contig.Seq) {
				continue
			}
			region := at / align.RegionWidth
			start, end := align.RegionBounds(region, len(contig.Seq))
			start += (at - start) / stretchWidth * stretchWidth
			key := regionKey{contig: name, region: uint32(region)}
			list[key] = append(list[key], variant.Span{Start: start, End: min(end, start+stretchWidth)})
		}
	}
	for key, spans := range list {
		slices.SortFunc(spans, func(a, b variant.Span) int { return a.Start - b.Start })
		list[key] = slices.Compact(spans)
	}
	return list
}

// isMilestone reports whether a number of segments is one of those at which a region's stretches are reported again: up to eight each, then four in each
// doubling. It depends on the number alone, so that a worker that takes over goes on as the one before would have.
func isMilestone(segments int) bool {
	low := max(0, bits.Len(uint(segments))-3)
	return segments>>low<<low == segments
}

// provisional returns what the reads so far show, where nothing is called, of the stretches of a region that are followed.
func (h *handler) provisional(key regionKey, region *variant.Region, run string) ([]stream.Out, error) {
	if h.replayed { // it is downstream already, and no state follows from it
		return nil, nil
	}
	stretches := h.followed[regionKey{contig: key.contig, region: key.region}]
	if len(stretches) == 0 || !isMilestone(region.Applied()) || h.markers.SampleEnded(key.sample) {
		return nil, nil
	}
	found := region.Provisional(h.cfg.Survey, stretches)
	var outs []stream.Out
	for i, s := range stretches {
		if !slices.ContainsFunc(found[i], func(b variant.Block) bool { return b.Depth > 0 || b.Quality > 0 }) {
			continue // no read is there yet
		}
		r := &streampb.Reference{
			Run: run, Sample: key.sample, Contig: key.contig, Start: int64(s.Start), End: int64(s.End), Revision: uint64(region.Applied()), Provisional: true,
		}
		for _, b := range found[i] {
			r.Blocks = append(r.Blocks, blockOf(b))
		}
		out, err := h.encodeReference(r)
		if err != nil {
			return nil, err
		}
		outs = append(outs, out)
	}
	return outs, nil
}

func blockOf(b variant.Block) *streampb.ReferenceBlock {
	block := &streampb.ReferenceBlock{
		Start: int64(b.Start), End: int64(b.End), Depth: uint32(b.Depth), MinDepth: uint32(b.MinDepth), Quality: uint32(b.Quality),
	}
	for _, l := range b.Likelihoods {
		block.PhredLikelihoods = append(block.PhredLikelihoods, uint32(l))
	}
	return block
}
