package stage

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/packed"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
)

// The haplotypes of reads, for the stage that counts modified bases.
//
// Problem: which haplotype a read is of follows from all reads of its region, and changes as they come. The stage methylate has the same reads in the same
// partitions, and a read over a region's border is counted in both regions, as of one haplotype: the one that the region says that knows most of
// it, as in a tagged file.
//
// Strategy: once a sample's calls are final, the worker of each region reports which haplotypes its reads are of to the stage methylate's workers of the same region
// and of those beside it that the reads reach, and then to those of all partitions that this was everything. The records go over the topic of reads, as
// the other stage's do.
//
// Consequences: what is reported is a function of the set of reads, and reported again only if it has changed. The worker sees on the topic that its report is
// there. Where it isn't, as the run's end was dealt with by a processor that reports none and was only folded in again, it is reported once more: later, or with
// the sample's next run. A read over three regions, of more
// than a million bases, may be of another haplotype at its ends than in a file.

const (
	haplotypesSection = "haplotypes"
	// haplotypesPart is the newest version of the section.
	haplotypesPart = 2
	// taggedPerRecord bounds the reads of a record, of some 25 bytes each.
	taggedPerRecord = 20_000
	// knownPerRecord is how many samples one record has.
	knownPerRecord = 100
)

// sentHaplotypes is what the other stage knows of a sample.
type sentHaplotypes struct {
	runs    []string // whose reads all are in what was reported; none: nothing was
	digests map[sentKey][8]byte
	unheard bool // that this was everything hasn't come back over the topic
}

// sentKey is a region, and one whose reads it reports on.
type sentKey struct {
	contig     string
	of, region uint32
}

func (k sentKey) compare(o sentKey) int {
	return cmp.Or(cmp.Compare(k.contig, o.contig), cmp.Compare(k.of, o.of), cmp.Compare(k.region, o.region))
}

func (h *handler) sentOf(sample string) *sentHaplotypes {
	t := h.sent[sample]
	if t == nil {
		t = &sentHaplotypes{digests: make(map[sentKey][8]byte)}
		h.sent[sample] = t
	}
	return t
}

// haplotypes reports the haplotypes of reads of samples whose calls are final, as far as they have changed.
func (h *handler) haplotypes(samples []string) ([]stream.Out, error) {
	if !h.cfg.Haplotypes {
		return nil, nil
	}
	h.haplotypesVersion++
	return h.reportHaplotypes(samples, h.sentOf)
}

// hear notes that what this worker has reported is on the topic.
func (h *handler) hear(m *streampb.HaplotypesKnown) {
	if m.GetSource() != uint32(h.partition) || m.GetSources() != uint32(h.partitions) {
		return
	}
	for _, s := range m.GetSamples() {
		if t := h.sent[s.GetSample()]; t != nil && slices.Equal(t.runs, s.GetRuns()) {
			t.unheard = false
		}
	}
	h.haplotypesVersion++
}

// haplotypesTick reports everything once more of samples whose report isn't on the topic although it should be. The state stays as it is: it follows from
// records alone.
func (h *handler) haplotypesTick(now time.Time) ([]stream.Out, error) {
	var samples []string
	for sample, t := range h.sent {
		if t.unheard && h.settled(sample) {
			samples = append(samples, sample)
		}
	}
	if !h.unheard.Overdue(now, len(samples) > 0) {
		return nil, nil
	}
	slices.Sort(samples)
	h.log.Info("haplotypes of reads are reported of samples whose runs had ended before: the topic has no report of them", "samples", samples)
	return h.reportHaplotypes(samples, func(sample string) *sentHaplotypes {
		return &sentHaplotypes{digests: maps.Clone(h.sent[sample].digests), unheard: true}
	})
}

// reportHaplotypes returns what is new to the other stage, which knows of a sample what sent gives.
func (h *handler) reportHaplotypes(samples []string, sent func(sample string) *sentHaplotypes) ([]stream.Out, error) {
	var outs []stream.Out
	var known []*streampb.SampleRuns
	for _, sample := range samples {
		t, runs := sent(sample), h.markers.RunsOf(sample)
		news := !slices.Equal(t.runs, runs)
		again := news && t.unheard
		for _, key := range h.sampleRegions(sample) {
			records, err := h.send(key, t, again)
			if err != nil {
				return nil, err
			}
			news = news || len(records) > 0
			outs = append(outs, records...)
		}
		if news {
			t.runs, t.unheard = runs, true
			known = append(known, &streampb.SampleRuns{Sample: sample, Runs: runs})
		}
	}
	slices.SortFunc(known, func(a, b *streampb.SampleRuns) int { return cmp.Compare(a.GetSample(), b.GetSample()) })
	for chunk := range slices.Chunk(known, knownPerRecord) {
		value, err := stream.EncodeReads(&streampb.ReadRecord{Body: &streampb.ReadRecord_HaplotypesKnown{HaplotypesKnown: &streampb.HaplotypesKnown{
			Source: uint32(h.partition), Sources: uint32(h.partitions), Samples: chunk,
		}}})
		if err != nil {
			return nil, err
		}
		for p := range h.partitions {
			outs = append(outs, stream.Out{Topic: h.cfg.Topics.Reads, Partition: p, Key: stream.HaplotypesKey(uint32(h.partition)), Value: value})
		}
	}
	return outs, nil
}

// send returns what is new of the haplotypes that a region knows, for itself and the regions beside it; again: what isn't, too.
func (h *handler) send(key regionKey, t *sentHaplotypes, again bool) ([]stream.Out, error) {
	contig, err := h.contig(key)
	if err != nil {
		return nil, err
	}
	tagged := h.regions[key].TaggedReads()
	var outs []stream.Out
	for _, to := range []struct {
		region int64
		has    func(*variant.TaggedRead) bool
	}{
		{int64(key.region) - 1, func(r *variant.TaggedRead) bool { return r.Before }},
		{int64(key.region), func(*variant.TaggedRead) bool { return true }},
		{int64(key.region) + 1, func(r *variant.TaggedRead) bool { return r.Past }},
	} {
		if to.region < 0 || to.region*align.RegionWidth >= int64(len(contig.Seq)) {
			continue
		}
		var reads []*variant.TaggedRead
		for i := range tagged {
			if to.has(&tagged[i]) {
				reads = append(reads, &tagged[i])
			}
		}
		parts := haplotypeParts(reads)
		at, digest := sentKey{key.contig, key.region, uint32(to.region)}, [8]byte{}
		if len(reads) > 0 {
			if digest, err = digestOf(parts); err != nil {
				return nil, err
			}
		}
		if t.digests[at] == digest && (!again || len(reads) == 0) {
			continue
		}
		t.digests[at] = digest
		for i, m := range parts {
			m.Sample, m.Contig, m.Region, m.Of, m.Part, m.Parts = key.sample, key.contig, uint32(to.region), key.region, uint32(i), uint32(len(parts))
			value, err := stream.EncodeReads(&streampb.ReadRecord{Body: &streampb.ReadRecord_ReadHaplotypes{ReadHaplotypes: m}})
			if err != nil {
				return nil, fmt.Errorf("reporting the haplotypes of reads in region %d of %s: %w", to.region, key.contig, err)
			}
			outs = append(outs, stream.Out{
				Topic: h.cfg.Topics.Reads, Partition: stream.PartitionFor(stream.RegionKey(key.sample, key.contig, uint32(to.region)), h.partitions),
				Key: stream.HaplotypesKey(uint32(h.partition)), Value: value,
			})
		}
	}
	return outs, nil
}

// haplotypeParts are the records of reads, at least one.
func haplotypeParts(reads []*variant.TaggedRead) []*streampb.ReadHaplotypes {
	var parts []*streampb.ReadHaplotypes
	for first := 0; first == 0 || first < len(reads); first += taggedPerRecord {
		m := new(streampb.ReadHaplotypes)
		chunk := reads[first:min(first+taggedPerRecord, len(reads))]
		for _, r := range chunk {
			m.PhaseSets = append(m.PhaseSets, r.Set)
		}
		slices.Sort(m.PhaseSets)
		m.PhaseSets = slices.Compact(m.PhaseSets)
		for _, r := range chunk {
			set, _ := slices.BinarySearch(m.PhaseSets, r.Set)
			m.Reads = append(m.Reads, r.Key[:]...)
			m.Haplotypes = append(m.Haplotypes, uint32(2*set+r.Haplotype-1))
			m.Weights = append(m.Weights, uint64(r.Weight))
		}
		parts = append(parts, m)
	}
	return parts
}

// digestOf is a checksum of what is reported.
func digestOf(parts []*streampb.ReadHaplotypes) ([8]byte, error) {
	sum := sha256.New()
	for _, m := range parts {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			return [8]byte{}, err
		}
		_, _ = sum.Write(b) // a hash takes everything
	}
	return [8]byte(sum.Sum(nil)[:8]), nil
}

// appendHaplotypes writes the section of what was reported.
func (h *handler) appendHaplotypes(b []byte) []byte {
	b = packed.AppendLen(append(b, haplotypesPart), len(h.sent))
	for _, sample := range slices.Sorted(maps.Keys(h.sent)) {
		t := h.sent[sample]
		b = packed.AppendBool(packed.AppendStrings(packed.AppendBytes(b, sample), t.runs), t.unheard)
		b = packed.AppendLen(b, len(t.digests))
		for _, key := range slices.SortedFunc(maps.Keys(t.digests), sentKey.compare) {
			digest := t.digests[key]
			b = packed.AppendUint(packed.AppendUint(packed.AppendBytes(b, key.contig), key.of), key.region)
			b = append(b, digest[:]...)
		}
	}
	return b
}

func (h *handler) restoreHaplotypes(b []byte) error {
	in := packed.NewReader(b)
	version := in.Version(haplotypesPart)
	for range in.Count(1) {
		t := h.sentOf(in.String(maxName))
		t.runs = in.Strings(maxName)
		t.unheard = len(t.runs) > 0 // nobody noted it before version 2
		if version > 1 {
			t.unheard = in.Bool()
		}
		for range in.Count(1) {
			key := sentKey{in.String(maxName), uint32(in.Uint(math.MaxUint32)), uint32(in.Uint(math.MaxUint32))}
			var digest [8]byte
			copy(digest[:], in.Fixed(len(digest)))
			t.digests[key] = digest
		}
	}
	h.haplotypesVersion++
	return in.Done()
}
