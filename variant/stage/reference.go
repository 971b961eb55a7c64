package stage

import (
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
		block := &streampb.ReferenceBlock{
			Start: int64(b.Start), End: int64(b.End), Depth: uint32(b.Depth), MinDepth: uint32(b.MinDepth), Quality: uint32(b.Quality),
		}
		for _, l := range b.Likelihoods {
			block.PhredLikelihoods = append(block.PhredLikelihoods, uint32(l))
		}
		r.Blocks = append(r.Blocks, block)
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
