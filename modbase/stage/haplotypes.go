package stage

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/modbase/stage/methylation"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/packed"
	"github.com/porestream/porestream/stream/streampb"
)

// Counts by haplotype, which the variant stage reports once a sample's calls are final.
//
// Strategy: counts of all reads are published as without haplotypes. Once every partition of the variant stage has reported which haplotypes its reads
// are of, reads of haplotypes 1 and 2 are counted besides, and these counts are final at once. The end of a run waits for them. What was reported is kept, as
// reads that come late lead to other counts.
//
// Consequences: counts by haplotype are a function of the set of reads, as what is reported is. Of several regions that report on a read the one counts that
// knows most of it, the first of equals, as where a file is tagged.

const (
	knownSection = "haplotypes"
	phasedPrefix = "haplotypes/"
)

// haplotypes is how many are distinguished.
const haplotypes = 2

// phased is what is known of the haplotypes of a region's reads, and what was published of them.
type phased struct {
	from    [3][]*streampb.ReadHaplotypes // parts, by what the region before, the region itself, and the one behind report
	said    [haplotypes]map[stretchKey]said
	version uint64
}

// tag is the haplotype of a read.
type tag struct {
	haplotype int // 1 or 2
	set       int64
	weight    uint64
}

func newPhased() *phased {
	t := new(phased)
	for i := range t.said {
		t.said[i] = make(map[stretchKey]said)
	}
	return t
}

func (h *handler) phasedOf(key regionKey) *phased {
	t := h.phased[key]
	if t == nil {
		t = newPhased()
		h.phased[key] = t
		h.phasedNames[key.phasedSection()] = key
	}
	return t
}

// receiveHaplotypes takes a part of what a region reports.
func (h *handler) receiveHaplotypes(m *streampb.ReadHaplotypes) ([]stream.Out, error) {
	if !h.cfg.Haplotypes {
		return nil, nil
	}
	contig := h.cfg.Genome.Contig(m.GetContig())
	if contig == nil || int64(m.GetRegion())*align.RegionWidth >= int64(len(contig.Seq)) {
		return nil, &stream.DecodeError{Code: stream.CodeInvalid, Reason: fmt.Sprintf("haplotypes of reads of region %d of %s, which is not in the reference", m.GetRegion(), m.GetContig())}
	}
	key := regionKey{m.GetSample(), m.GetContig(), m.GetRegion()}
	from := 1 + int(int64(m.GetOf())-int64(m.GetRegion()))
	if part := int(m.GetPart()); part > 0 {
		var before []*streampb.ReadHaplotypes
		if t := h.phased[key]; t != nil {
			before = t.from[from]
		}
		if part < len(before) && proto.Equal(m, before[part]) {
			return nil, nil // delivered twice
		}
		if len(before) != part || before[0].GetParts() != m.GetParts() {
			return nil, &stream.DecodeError{Code: stream.CodeInvalid, Reason: fmt.Sprintf("haplotypes of reads of region %d of %s: part %d comes without those before it", m.GetRegion(), m.GetContig(), part)}
		}
	}
	t := h.phasedOf(key)
	if m.GetPart() == 0 {
		t.from[from] = nil
	}
	t.from[from] = append(t.from[from], m)
	t.version++
	return nil, nil
}

// receiveKnown notes that a partition has reported all of samples, and publishes the counts by haplotype that this was waited for with.
func (h *handler) receiveKnown(m *streampb.HaplotypesKnown) ([]stream.Out, error) {
	if m.GetSources() != uint32(h.partitions) {
		return nil, &stream.DecodeError{Code: stream.CodeInvalid, Reason: fmt.Sprintf("haplotypes known to one of %d partitions, and the topic has %d", m.GetSources(), h.partitions)}
	}
	if !h.cfg.Haplotypes {
		return nil, nil
	}
	h.knownVersion++
	var outs []stream.Out
	for _, s := range m.GetSamples() {
		sample := s.GetSample()
		h.knows(sample, m.GetSource(), s.GetRuns())
		thresholds, final := h.final(sample)
		if !final || !h.known(sample) {
			continue
		}
		for _, key := range h.sampleRegions(sample) {
			records, err := h.publishHaplotypes(h.regions[key], &thresholds)
			if err != nil {
				return nil, err
			}
			outs = append(outs, records...)
		}
	}
	ends, err := h.ends()
	return append(outs, ends...), err
}

// knows notes the runs of a sample of which a partition has reported all.
func (h *handler) knows(sample string, source uint32, runs []string) {
	if h.knownRuns[sample] == nil {
		h.knownRuns[sample] = make(map[uint32][]string)
	}
	h.knownRuns[sample][source] = runs
}

// known reports whether every partition has reported the haplotypes of all of a sample's runs.
func (h *handler) known(sample string) bool {
	from := h.knownRuns[sample]
	if !h.cfg.Haplotypes || len(from) < int(h.partitions) {
		return false
	}
	runs := h.markers.RunsOf(sample)
	for _, of := range from {
		if !slices.Equal(of, runs) {
			return false
		}
	}
	return true
}

// tags are the haplotypes of reads, by key.
func (t *phased) tags() map[readKey]tag {
	tags := make(map[readKey]tag)
	for _, parts := range t.from {
		for _, m := range parts {
			for i, haplotype := range m.GetHaplotypes() {
				key, weight := readKey(m.GetReads()[i*len(readKey{}):]), m.GetWeights()[i]
				if weight > tags[key].weight {
					tags[key] = tag{1 + int(haplotype%haplotypes), m.GetPhaseSets()[haplotype/haplotypes], weight}
				}
			}
		}
	}
	return tags
}

// publishHaplotypes returns the records of what is new of a region's counts by haplotype.
func (h *handler) publishHaplotypes(r *region, thresholds *pileup.Thresholds) ([]stream.Out, error) {
	t := h.phased[r.key]
	if t == nil {
		return nil, nil
	}
	runs := h.markers.RunsOf(r.key.sample)
	outs := new(records)
	tags := t.tags()
	var publishers [haplotypes]*publisher
	for i := range publishers {
		p := newPublisher(r, t.said[i], runs[len(runs)-1], methylation.Final, thresholds, h.cfg.Topics.Methylation, h.emit(outs))
		p.document.Haplotype, p.sets = i+1, make(map[int][]int64)
		publishers[i] = p
	}
	for _, k := range r.seen {
		if g, ok := tags[k.key]; ok && !k.leftOut {
			publishers[g.haplotype-1].over(k, g.set)
		}
	}
	err := r.pile(thresholds, 1+haplotypes, func(k *kept) int { return tags[k.key].haplotype }, func(row *pileup.Row) error {
		if row.Group == 0 {
			return nil
		}
		return publishers[row.Group-1].row(row)
	})
	for _, p := range publishers {
		if err == nil {
			err = p.to(r.end)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("counting modified bases by haplotype in region %d of %s: %w", r.key.region, r.key.contig, err)
	}
	t.version++
	return outs.list, nil
}

// over notes that a read of a phase set lies over stretches.
func (t *publisher) over(k *kept, set int64) {
	first := t.r.start + max(0, int(k.start)-t.r.start)/stretchWidth*stretchWidth
	for at := first; at < min(int(k.end), t.r.end); at += stretchWidth {
		if i, there := slices.BinarySearch(t.sets[at], set); !there {
			t.sets[at] = slices.Insert(t.sets[at], i, set)
		}
	}
}

// worker is the handler of a partition that waits for haplotypes.
type worker struct {
	stream.Fold
	handler *handler
}

// Tick reports, once, that runs wait for haplotypes that don't come.
func (w worker) Tick(_ context.Context, now time.Time, _ stream.Emitter) error {
	h := w.handler
	waits := slices.DeleteFunc(slices.Sorted(maps.Keys(h.open)), func(id string) bool {
		return !slices.ContainsFunc(stream.SamplesOf(h.markers.Run(id)), func(sample string) bool {
			_, final := h.final(sample)
			return final && !h.known(sample)
		})
	})
	if h.wait.Overdue(now, len(waits) > 0) {
		h.log.Warn("the ends of runs wait for the haplotypes of reads, which the stage variant reports: do processors with that stage run, all with --methylation-haplotypes?", "runs", waits)
	}
	return nil
}

// appendKnown writes which partitions have reported all of which runs.
func (h *handler) appendKnown(b []byte) []byte {
	b = packed.AppendLen(append(b, partVersion), len(h.knownRuns))
	for _, sample := range slices.Sorted(maps.Keys(h.knownRuns)) {
		from := h.knownRuns[sample]
		b = packed.AppendLen(packed.AppendBytes(b, sample), len(from))
		for _, source := range slices.Sorted(maps.Keys(from)) {
			b = packed.AppendStrings(packed.AppendUint(b, source), from[source])
		}
	}
	return b
}

func (h *handler) restoreKnown(b []byte) error {
	in := packed.NewReader(b)
	in.Version(partVersion)
	for range in.Count(1) {
		sample := in.String(maxName)
		for range in.Count(1) {
			h.knows(sample, uint32(in.Uint(math.MaxUint32)), in.Strings(maxName))
		}
	}
	h.knownVersion++
	return in.Done()
}

// phasedSection names the section of what is known of the haplotypes of a region's reads.
func (k regionKey) phasedSection() string { return k.sectionOf(phasedPrefix) }

// appendPhased writes it.
func (h *handler) appendPhased(b []byte, key regionKey) ([]byte, error) {
	t := h.phased[key]
	b = packed.AppendUint(packed.AppendBytes(packed.AppendBytes(append(b, partVersion), key.sample), key.contig), key.region)
	for _, parts := range t.from {
		b = packed.AppendLen(b, len(parts))
		for _, m := range parts {
			var err error
			if b, err = packed.AppendMessage(b, m); err != nil {
				return nil, err
			}
		}
	}
	for _, of := range t.said {
		b = appendSaid(b, of)
	}
	return b, nil
}

func (h *handler) restorePhased(b []byte) error {
	in := packed.NewReader(b)
	in.Version(partVersion)
	key := regionKey{in.String(maxName), in.String(maxName), uint32(in.Uint(math.MaxUint32))}
	t := newPhased()
	for i := range t.from {
		for part := range in.Count(1) {
			m := new(streampb.ReadHaplotypes)
			in.Message(m)
			if n := len(m.GetHaplotypes()); len(m.GetReads()) != n*len(readKey{}) || len(m.GetWeights()) != n || int(m.GetPart()) != part ||
				slices.ContainsFunc(m.GetHaplotypes(), func(haplotype uint32) bool { return int(haplotype/haplotypes) >= len(m.GetPhaseSets()) }) {
				in.Fail("part %d of %d haplotypes doesn't fit", part, n)
			}
			t.from[i] = append(t.from[i], m)
		}
	}
	for i := range t.said {
		restoreSaid(in, t.said[i])
	}
	if err := in.Done(); err != nil {
		return err
	}
	h.phased[key] = t
	h.phasedNames[key.phasedSection()] = key
	t.version++
	return nil
}

// phasedSections lists the sections of haplotypes.
func (h *handler) phasedSections() []stream.Section {
	if !h.cfg.Haplotypes {
		return nil
	}
	list := []stream.Section{{Name: knownSection, Version: h.knownVersion}}
	for name, key := range h.phasedNames {
		list = append(list, stream.Section{Name: name, Version: h.phased[key].version})
	}
	return list
}
