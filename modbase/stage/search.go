package stage

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/motif"
	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// The motifs that a sample modifies, for the variant stage.
//
// Problem: motifs show in all of a sample's places together, and each partition's worker has some of them. The variant stage marks calls
// by them, and what is final must not depend on which worker found them when.
//
// Strategy: each worker sends an excerpt of its places to one partition, which follows from the sample's name, over the topic of reads: once its counts are final, and before whenever
// its reads have doubled. The worker of that partition searches. What it finds goes to all partitions: of excerpts of all
// partitions and all of the sample's runs it says so, and that is what the variant stage waits for.
//
// Consequences: the motifs of ended runs are a function of the set of reads, as the counts are. While a worker's excerpt is under
// way it sends no other of the sample, so that reads that come late by the thousand are searched together.

const (
	// firstExcerpt is after how many reads of a sample a worker sends an excerpt while runs go on; then twice as many, and so on.
	firstExcerpt = 64
	// contextsPerRecord bounds the places of a record, 8 bytes each.
	contextsPerRecord = 50_000
)

// search is what is known of a sample's motifs.
type search struct {
	// Of this partition's excerpts: its reads, at how many the next is due while runs go on, a hash of the last one of ended runs,
	// whether its motifs have yet to come, and whether anything has happened since.
	reads, next int
	sent        [sha256.Size]byte
	waits       bool
	again       bool

	// In the partition that searches: the excerpts by source, how many places they had when they were searched last, and what was found.
	from     map[uint32]*received
	searched int
	found    []string
}

// received is an excerpt of a partition.
type received struct {
	parts   []*streampb.ModifiedPlaces
	version uint64
}

func (r *received) complete() bool {
	return len(r.parts) > 0 && len(r.parts) == int(r.parts[0].GetParts())
}

func (h *handler) search(sample string) *search {
	s := h.searches[sample]
	if s == nil {
		s = &search{next: firstExcerpt, from: make(map[uint32]*received)}
		h.searches[sample] = s
	}
	return s
}

// begins notes the first marker of a run. What was sent of its samples' runs before may never be searched, as it isn't of all of them any
// more, and so isn't waited for.
func (h *handler) begins(run *streampb.Run) {
	if !h.cfg.FindMotifs || h.markers.Run(run.GetId()) != nil {
		return
	}
	for _, sample := range stream.SamplesOf(run) {
		if s := h.searches[sample]; s != nil {
			s.waits, s.again = false, false
			h.searchesVersion++
		}
	}
}

// counted notes a new read of a sample whose runs go on, and returns an excerpt of its places if one is due.
func (h *handler) counted(sample string) ([]stream.Out, error) {
	if !h.cfg.FindMotifs {
		return nil, nil
	}
	s := h.search(sample)
	s.reads++
	h.searchesVersion++
	if s.reads < s.next {
		return nil, nil
	}
	s.next = 2 * s.reads
	all := h.histogram(sample)
	thresholds := h.cfg.Filter.thresholds(&all)
	places, err := h.excerpt(sample, &thresholds)
	if err != nil {
		return nil, err
	}
	return h.sendExcerpt(sample, nil, places)
}

// finalExcerpt returns the excerpt of a sample whose counts are final, unless it is the one that was sent, or one is under way.
func (h *handler) finalExcerpt(sample string, thresholds *pileup.Thresholds) ([]stream.Out, error) {
	if !h.cfg.FindMotifs {
		return nil, nil
	}
	s := h.search(sample)
	if s.waits {
		s.again = true
		h.searchesVersion++
		return nil, nil
	}
	places, err := h.excerpt(sample, thresholds)
	if err != nil {
		return nil, err
	}
	runs := h.markers.RunsOf(sample)
	hash := sha256.New()
	fmt.Fprintf(hash, "%q\n", runs)
	for _, p := range places {
		fmt.Fprintf(hash, "%d %x %x\n", p.Code, p.Modified, p.Others)
	}
	sum := [sha256.Size]byte(hash.Sum(nil))
	if sum == s.sent {
		return nil, nil
	}
	s.sent, s.waits, s.again = sum, true, false
	h.searchesVersion++
	return h.sendExcerpt(sample, runs, places)
}

// excerpt is one of a sample's places in this partition.
func (h *handler) excerpt(sample string, thresholds *pileup.Thresholds) ([]motif.Surroundings, error) {
	e := motif.NewExcerpt(motif.Config{}, h.bases)
	for _, key := range h.sampleRegions(sample) {
		r := h.regions[key]
		err := r.pile(thresholds, 1, together, func(row *pileup.Row) error {
			e.Add(r.contig, row)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("counting modified bases in region %d of %s: %w", key.region, key.contig, err)
		}
	}
	return e.Surroundings(), nil
}

// sendExcerpt returns the records of an excerpt. runs are those of the sample, if all have ended.
func (h *handler) sendExcerpt(sample string, runs []string, places []motif.Surroundings) ([]stream.Out, error) {
	parts := []*streampb.ModifiedPlaces{{}}
	free := contextsPerRecord
	for _, of := range places {
		for len(of.Modified)+len(of.Others) > 0 {
			if free == 0 {
				parts, free = append(parts, new(streampb.ModifiedPlaces)), contextsPerRecord
			}
			modified := min(free, len(of.Modified))
			others := min(free-modified, len(of.Others))
			free -= modified + others
			last := parts[len(parts)-1]
			last.Places = append(last.Places, &streampb.PlacesOf{Code: int32(of.Code), Modified: of.Modified[:modified], Others: of.Others[:others]})
			of.Modified, of.Others = of.Modified[modified:], of.Others[others:]
		}
	}
	var outs []stream.Out
	for i, m := range parts {
		m.Source, m.Sources, m.Sample, m.Runs, m.Part, m.Parts = uint32(h.partition), uint32(h.partitions), sample, runs, uint32(i), uint32(len(parts))
		value, err := stream.EncodeReads(&streampb.ReadRecord{Body: &streampb.ReadRecord_ModifiedPlaces{ModifiedPlaces: m}})
		if err != nil {
			return nil, err
		}
		outs = append(outs, stream.Out{
			Topic: h.cfg.Topics.Reads, Partition: stream.MotifsPartition(sample, h.partitions), Key: stream.ModifiedPlacesKey(m.GetSource()), Value: value,
		})
	}
	return outs, nil
}

// receivePlaces takes a part of a partition's excerpt, and searches once there is enough that is new.
func (h *handler) receivePlaces(m *streampb.ModifiedPlaces) ([]stream.Out, error) {
	if m.GetSources() != uint32(h.partitions) {
		return nil, &stream.DecodeError{Code: stream.CodeInvalid, Reason: fmt.Sprintf("places of modified bases of %d partitions, and the topic has %d", m.GetSources(), h.partitions)}
	}
	if !h.cfg.FindMotifs {
		return nil, nil
	}
	s := h.search(m.GetSample())
	of := s.from[m.GetSource()]
	if of == nil {
		of = new(received)
		s.from[m.GetSource()] = of
	}
	of.version++
	h.searchesVersion++
	if m.GetPart() == 0 {
		of.parts = nil
	}
	if int(m.GetPart()) != len(of.parts) || len(of.parts) > 0 && of.parts[0].GetParts() != m.GetParts() {
		of.parts = nil // of an excerpt whose beginning the topic no longer has; its source sends another
		return nil, nil
	}
	if of.parts = append(of.parts, m); !of.complete() {
		return nil, nil
	}
	sample, runs := m.GetSample(), h.markers.RunsOf(m.GetSample())
	ended, places := h.markers.SampleEnded(sample) && len(s.from) == int(h.partitions), 0
	for _, of := range s.from {
		ended = ended && of.complete() && slices.Equal(of.parts[0].GetRuns(), runs)
		for _, p := range of.parts {
			for _, list := range p.GetPlaces() {
				places += len(list.GetModified()) + len(list.GetOthers())
			}
		}
	}
	if !ended {
		runs = nil
		if h.markers.SampleEnded(sample) || places < 2*s.searched || places == 0 {
			return nil, nil
		}
	}
	return h.find(sample, runs, places)
}

// find searches a sample's motifs, and returns the records of what was found, if it is news: of ended runs it always is.
func (h *handler) find(sample string, runs []string, places int) ([]stream.Out, error) {
	s := h.searches[sample]
	e := motif.NewExcerpt(motif.Config{}, h.bases)
	for _, source := range slices.Sorted(maps.Keys(s.from)) {
		of := s.from[source]
		if !of.complete() {
			continue
		}
		for _, p := range of.parts {
			for _, list := range p.GetPlaces() {
				e.Put(motif.Surroundings{Code: modbase.Code(list.GetCode()), Modified: list.GetModified(), Others: list.GetOthers()})
			}
		}
	}
	// A fold has no context. A search takes seconds, of the processor alone.
	letters, err := e.Letters(context.Background())
	if err != nil {
		return nil, fmt.Errorf("sample %s: %w", sample, err)
	}
	same := slices.Equal(letters, s.found)
	s.searched, s.found = places, letters
	if same && runs == nil {
		return nil, nil
	}
	h.metrics.motifs()
	h.log.Info("motifs that are modified were searched for", "sample", sample, "found", letters, "all reads", runs != nil)
	value, err := stream.EncodeReads(&streampb.ReadRecord{Body: &streampb.ReadRecord_ModifiedMotifs{ModifiedMotifs: &streampb.ModifiedMotifs{
		Sample: sample, Runs: runs, Motifs: letters,
	}}})
	if err != nil {
		return nil, err
	}
	var outs []stream.Out
	for p := range h.partitions {
		outs = append(outs, stream.Out{Topic: h.cfg.Topics.Reads, Partition: p, Key: stream.ModifiedMotifsKey(sample), Value: value})
	}
	return outs, nil
}

// receiveMotifs notes that a sample's excerpts were searched, and returns this partition's, if anything has happened since it was sent.
func (h *handler) receiveMotifs(m *streampb.ModifiedMotifs) ([]stream.Out, error) {
	if !h.cfg.FindMotifs || len(m.GetRuns()) == 0 {
		return nil, nil
	}
	if !slices.Equal(m.GetRuns(), h.markers.RunsOf(m.GetSample())) {
		return nil, nil // of runs before another one began
	}
	s := h.search(m.GetSample())
	again := s.again
	s.waits, s.again = false, false
	h.searchesVersion++
	if thresholds, final := h.final(m.GetSample()); again && final {
		return h.finalExcerpt(m.GetSample(), &thresholds)
	}
	return nil, nil
}
