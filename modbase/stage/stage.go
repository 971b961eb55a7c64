// Package stage is the stage of the stream that counts modified bases: aligned read segments in, revisions of
// counts by position out, as the field's pile-up.
//
// The handler of a reads partition owns the regions whose segments come over it, and keeps their reads with
// the probabilities of their calls. Which calls count depends on all of a sample's: once a sample's runs have
// ended, every partition reports to all others how sure its calls are, over the topic of reads, and what is
// then counted is final. So the counts are a function of the set of reads, as those of pore pileup are.
package stage

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/modbase/stage/methylation"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/planted"
	"github.com/porestream/porestream/stream/streampb"
)

// Name is the stage's name in dead letters, metrics and logs.
const Name = "methylate"

// DefaultMaxRegion bounds the reads that a region keeps, in bytes.
const DefaultMaxRegion = 128 << 20

// Config says what the stage works with.
type Config struct {
	Topics stream.Topics
	// MethylationPartitions is the number of partitions of the methylation topic.
	MethylationPartitions int32
	Genome                *genome.Genome
	Filter                Filter
	// MaxRegion bounds the reads that a region keeps, in bytes; 0: DefaultMaxRegion. A hash of a read decides
	// whether it is left out.
	MaxRegion int
	// FindMotifs has the motifs that samples modify handed to the variant stage.
	FindMotifs bool
	// Haplotypes has reads counted by haplotype, too, as the variant stage reports them once calls are final.
	Haplotypes bool
	Watch      *Watch       // nil: no panel asks for methylation
	Metrics    *Metrics     // nil: none
	Logger     *slog.Logger // nil: none
}

// Filter says which calls count.
type Filter struct {
	// Thresholds are the least probabilities, of the bases that are Given.
	Thresholds pileup.Thresholds
	Given      [4]bool
	// Percentile is the share of the calls of other bases that fail.
	Percentile float64
}

// given reports whether the thresholds of all bases are.
func (f *Filter) given() bool { return f.Given == [4]bool{true, true, true, true} }

// thresholds are those of calls.
func (f *Filter) thresholds(calls *pileup.Histogram) pileup.Thresholds {
	t := f.Thresholds
	for i, p := range calls.Percentile(f.Percentile) {
		if !f.Given[i] {
			t[i] = p
		}
	}
	return t
}

// New returns the maker of the stage's handlers.
func New(cfg Config) stream.NewHandler {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.MaxRegion = cmp.Or(cfg.MaxRegion, DefaultMaxRegion)
	fingerprint, bases := cfg.fingerprint(), 0
	for _, contig := range cfg.Genome.Contigs {
		bases += len(contig.Seq)
	}
	return func(_ string, partition, partitions int32) (stream.Handler, error) {
		log := cfg.Logger.With("stage", Name, "partition", partition)
		h := &handler{
			cfg: cfg, partition: partition, partitions: partitions, fingerprint: fingerprint, log: log,
			regions: make(map[regionKey]*region), names: make(map[string]regionKey),
			shares: make(map[string]*shares), open: make(map[string]bool), searches: make(map[string]*search), bases: bases,
			phased: make(map[regionKey]*phased), phasedNames: make(map[string]regionKey), knownRuns: make(map[string]map[uint32][]string),
		}
		fold := stream.Fold{
			Folder: h, Stage: Name, DeadLetters: cfg.Topics.DeadLetters, Logger: log, OnDeadLetter: cfg.Metrics.deadLetter,
		}
		if cfg.Haplotypes {
			return worker{fold, h}, nil
		}
		return fold, nil
	}
}

type regionKey struct {
	sample, contig string
	region         uint32
}

func (k regionKey) compare(o regionKey) int {
	return cmp.Or(cmp.Compare(k.sample, o.sample), cmp.Compare(k.contig, o.contig), cmp.Compare(k.region, o.region))
}

// handler is the stage's worker for one partition of the reads topic.
type handler struct {
	cfg                   Config
	partition, partitions int32
	fingerprint           string
	markers               stream.Markers
	regions               map[regionKey]*region
	names                 map[string]regionKey // by the name of their section
	shares                map[string]*shares   // by sample
	open                  map[string]bool      // runs whose end has come and was not passed on
	sharesVersion         uint64
	searches              map[string]*search // by sample
	searchesVersion       uint64
	bases                 int // of the genome
	phased                map[regionKey]*phased
	phasedNames           map[string]regionKey           // by the name of their section
	knownRuns             map[string]map[uint32][]string // of which a partition has reported all haplotypes, by sample and partition
	knownVersion          uint64
	wait                  stream.Wait // of runs, for haplotypes
	metrics               *Metrics    // nil while replaying: that was counted before
	log                   *slog.Logger
	checked               bool // what was restored is complete
}

// shares is how sure the calls of a sample are, as the partitions have reported.
type shares struct {
	from      map[uint32]*streampb.SampleCalls // by source
	published *streampb.SampleCalls            // by this partition; nil: nothing
}

// Fold applies a record of the reads topic.
func (h *handler) Fold(rec stream.Record) ([]stream.Out, error) {
	h.metrics = h.cfg.Metrics
	return h.fold(rec)
}

// Refold applies one again; it is not counted.
func (h *handler) Refold(rec stream.Record) error {
	h.metrics = nil
	_, err := h.fold(rec)
	return err
}

func (h *handler) fold(rec stream.Record) ([]stream.Out, error) {
	if err := h.restored(); err != nil {
		return nil, err
	}
	m, err := stream.DecodeReads(rec.Value)
	if err != nil {
		return nil, err
	}
	switch body := m.GetBody().(type) {
	case *streampb.ReadRecord_RunStart:
		h.begins(body.RunStart.GetRun())
		if _, err := h.markers.Start(body.RunStart); err != nil {
			return nil, err
		}
		return h.ends()
	case *streampb.ReadRecord_RunEnd:
		return h.runEnd(body.RunEnd)
	case *streampb.ReadRecord_ModifiedCalls:
		return h.receiveCalls(body.ModifiedCalls)
	case *streampb.ReadRecord_ModifiedPlaces:
		return h.receivePlaces(body.ModifiedPlaces)
	case *streampb.ReadRecord_ModifiedMotifs:
		return h.receiveMotifs(body.ModifiedMotifs)
	case *streampb.ReadRecord_ReadHaplotypes:
		return h.receiveHaplotypes(body.ReadHaplotypes)
	case *streampb.ReadRecord_HaplotypesKnown:
		return h.receiveKnown(body.HaplotypesKnown)
	case *streampb.ReadRecord_Segment:
		return h.segment(body.Segment)
	}
	return nil, nil // reads that go on, and the names of models
}

// runEnd publishes this partition's calls of the run's samples that have ended, and makes the samples final
// if no other partition has to report for that. A marker that comes again publishes what has changed since.
func (h *handler) runEnd(mk *streampb.Marker) ([]stream.Out, error) {
	h.begins(mk.GetRun())
	complete, err := h.markers.End(mk)
	if err != nil {
		return nil, err
	}
	if complete {
		h.open[mk.GetRun().GetId()] = true
		h.sharesVersion++
	}
	var ended []string
	for _, sample := range stream.SamplesOf(mk.GetRun()) {
		if h.markers.SampleEnded(sample) {
			ended = append(ended, sample)
		}
	}
	return h.sampleEnds(ended)
}

// sampleEnds does what has to be done of samples whose runs have ended.
func (h *handler) sampleEnds(samples []string) ([]stream.Out, error) {
	if !h.cfg.Filter.given() {
		outs, err := h.publishCalls(samples)
		if err != nil {
			return nil, err
		}
		ends, err := h.ends()
		return append(outs, ends...), err
	}
	return h.settle(samples)
}

// settle makes samples final that can be, and passes on the ends of runs.
func (h *handler) settle(samples []string) ([]stream.Out, error) {
	var outs []stream.Out
	for _, sample := range samples {
		thresholds, ok := h.final(sample)
		if !ok {
			continue
		}
		for _, key := range h.sampleRegions(sample) {
			stretches, err := h.publishFinal(h.regions[key], &thresholds)
			if err != nil {
				return nil, err
			}
			outs = append(outs, stretches...)
		}
		places, err := h.finalExcerpt(sample, &thresholds)
		if err != nil {
			return nil, err
		}
		outs = append(outs, places...)
	}
	ends, err := h.ends()
	return append(outs, ends...), err
}

// final are the thresholds of a sample, if all of its runs have ended and every partition has reported all of
// them.
func (h *handler) final(sample string) (t pileup.Thresholds, ok bool) {
	if !h.markers.SampleEnded(sample) {
		return t, false
	}
	if h.cfg.Filter.given() {
		return h.cfg.Filter.Thresholds, true
	}
	s := h.shares[sample]
	if s == nil || len(s.from) < int(h.partitions) {
		return t, false
	}
	runs := h.markers.RunsOf(sample)
	var all pileup.Histogram
	for _, of := range s.from {
		if !slices.Equal(of.GetRuns(), runs) {
			return t, false
		}
		for _, b := range of.GetBases() {
			for i, p := range b.GetProbabilities() {
				all.Put(int(b.GetBase()), int(p), int64(b.GetCalls()[i]))
			}
		}
	}
	return h.cfg.Filter.thresholds(&all), true
}

// ends passes on the ends of runs of which everything that is final has been said.
func (h *handler) ends() ([]stream.Out, error) {
	var outs []stream.Out
	for _, id := range slices.Sorted(maps.Keys(h.open)) {
		run := h.markers.Run(id)
		waits := slices.ContainsFunc(stream.SamplesOf(run), func(sample string) bool {
			_, final := h.final(sample)
			return h.markers.SampleEnded(sample) && (!final || h.cfg.Haplotypes && !h.known(sample))
		})
		if waits {
			continue
		}
		own := h.markers.Forward(&streampb.Marker{Run: run}, h.partition, h.partitions)
		end, err := event.RunEndRecords(h.cfg.Topics.Methylation, h.cfg.MethylationPartitions, own)
		if err != nil {
			return nil, err
		}
		outs = append(outs, end...)
		if end, err = h.watchEnd(own); err != nil {
			return nil, err
		}
		outs = append(outs, end...)
		delete(h.open, id)
		h.sharesVersion++
	}
	return outs, nil
}

// samplesPerRecord is how many samples one record reports, so that the calls of all bases fit.
const samplesPerRecord = 100

// publishCalls reports to every partition how sure this one's calls of samples are, unless it has done so. While its
// own report of a sample is under way it waits for that, and then reports what has changed since: reads that
// come late by the thousand are reported together.
func (h *handler) publishCalls(samples []string) ([]stream.Out, error) {
	var news []*streampb.SampleCalls
	for _, sample := range samples {
		s := h.of(sample)
		if s.published != nil && !proto.Equal(s.published, s.from[uint32(h.partition)]) {
			continue
		}
		calls := h.calls(sample)
		if proto.Equal(calls, s.published) {
			continue
		}
		s.published = calls
		h.sharesVersion++
		news = append(news, calls)
	}
	var outs []stream.Out
	for chunk := range slices.Chunk(news, samplesPerRecord) {
		value, err := stream.EncodeReads(&streampb.ReadRecord{Body: &streampb.ReadRecord_ModifiedCalls{ModifiedCalls: &streampb.ModifiedCalls{
			Source: uint32(h.partition), Sources: uint32(h.partitions), Samples: chunk,
		}}})
		if err != nil {
			return nil, err
		}
		for p := range h.partitions {
			outs = append(outs, stream.Out{Topic: h.cfg.Topics.Reads, Partition: p, Key: stream.ModifiedCallsKey(uint32(h.partition)), Value: value})
		}
	}
	return outs, nil
}

func (h *handler) of(sample string) *shares {
	s := h.shares[sample]
	if s == nil {
		s = &shares{from: make(map[uint32]*streampb.SampleCalls)}
		h.shares[sample] = s
	}
	return s
}

// histogram is how probable the calls of a sample in this partition are.
func (h *handler) histogram(sample string) (all pileup.Histogram) {
	for _, key := range h.sampleRegions(sample) {
		all.Add(&h.regions[key].calls.Histogram)
	}
	return all
}

// calls counts those of a sample in this partition.
func (h *handler) calls(sample string) *streampb.SampleCalls {
	all := h.histogram(sample)
	m := &streampb.SampleCalls{Sample: sample, Runs: h.markers.RunsOf(sample)}
	for base := range all {
		b := &streampb.BaseCalls{Base: uint32(base)}
		for p, n := range all[base] {
			if n > 0 {
				b.Probabilities, b.Calls = append(b.Probabilities, uint32(p)), append(b.Calls, uint64(n))
			}
		}
		if len(b.Calls) > 0 {
			m.Bases = append(m.Bases, b)
		}
	}
	return m
}

// receiveCalls takes a partition's report of its calls.
func (h *handler) receiveCalls(m *streampb.ModifiedCalls) ([]stream.Out, error) {
	if m.GetSources() != uint32(h.partitions) {
		return nil, &stream.DecodeError{Code: stream.CodeInvalid, Reason: fmt.Sprintf("calls of modified bases of %d partitions, and the topic has %d", m.GetSources(), h.partitions)}
	}
	if h.cfg.Filter.given() {
		return nil, nil
	}
	var samples []string
	for _, s := range m.GetSamples() {
		h.of(s.GetSample()).from[m.GetSource()] = s
		samples = append(samples, s.GetSample())
	}
	h.sharesVersion++
	outs, err := h.settle(samples)
	if err != nil || m.GetSource() != uint32(h.partition) {
		return outs, err
	}
	ended := slices.DeleteFunc(samples, func(sample string) bool { return !h.markers.SampleEnded(sample) })
	more, err := h.publishCalls(ended)
	return append(outs, more...), err
}

func (h *handler) sampleRegions(sample string) []regionKey {
	var keys []regionKey
	for key := range h.regions {
		if key.sample == sample {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, regionKey.compare)
	return keys
}

// segment applies a segment. What lies elsewhere besides its primary alignment says nothing of a read's bases.
func (h *handler) segment(s *streampb.Segment) ([]stream.Out, error) {
	if s.GetAlignment() != 0 || s.GetSupplementary() {
		return nil, nil
	}
	key := regionKey{s.GetSample(), s.GetContig(), s.GetRegion()}
	r := h.regions[key]
	if r == nil {
		contig := h.cfg.Genome.Contig(key.contig)
		if contig == nil {
			return nil, &stream.DecodeError{Code: stream.CodeInvalid, Reason: fmt.Sprintf("segment of read %s: contig %s is not in the reference: were the reads aligned to another one?", s.GetReadId(), key.contig)}
		}
		r = h.newRegion(key, contig.Seq)
	}
	changed, err := r.apply(s)
	if err != nil {
		return nil, &stream.DecodeError{Code: stream.CodeInvalid, Reason: err.Error()}
	}
	if planted.Is(planted.DoubleCount) {
		again := proto.CloneOf(s)
		again.ReadId += " again"
		if _, err := r.apply(again); err != nil {
			return nil, err
		}
	}
	h.metrics.segment(changed, len(s.GetModified()) > 0)
	if !changed {
		return nil, nil
	}
	if h.regions[key] == nil {
		h.take(r)
	}
	switch {
	case h.markers.SampleEnded(key.sample) && h.cfg.Filter.given(): // it comes late
		outs, err := h.publishFinal(r, &h.cfg.Filter.Thresholds)
		if err != nil {
			return nil, err
		}
		places, err := h.finalExcerpt(key.sample, &h.cfg.Filter.Thresholds)
		return append(outs, places...), err
	case h.markers.SampleEnded(key.sample):
		return h.sampleEnds([]string{key.sample})
	}
	outs, err := h.counted(key.sample)
	if err != nil || !r.due() {
		return outs, err
	}
	thresholds := h.cfg.Filter.thresholds(&r.calls.Histogram)
	stretches, err := h.publish(r, s.GetRun(), methylation.Provisional, &thresholds)
	return append(stretches, outs...), err
}

// take takes a region into the state.
func (h *handler) take(r *region) {
	h.regions[r.key] = r
	h.names[r.key.section()] = r.key
}

// publishFinal returns the records of what is new of a region whose counts are final.
func (h *handler) publishFinal(r *region, thresholds *pileup.Thresholds) ([]stream.Out, error) {
	runs := h.markers.RunsOf(r.key.sample)
	outs, err := h.publish(r, runs[len(runs)-1], methylation.Final, thresholds)
	if err != nil || !h.known(r.key.sample) {
		return outs, err
	}
	more, err := h.publishHaplotypes(r, thresholds)
	return append(outs, more...), err
}

// publish returns the records of what is new of a region.
func (h *handler) publish(r *region, run, status string, thresholds *pileup.Thresholds) ([]stream.Out, error) {
	outs := new(records)
	if err := r.evaluate(run, status, thresholds, h.cfg.Topics.Methylation, h.emit(outs)); err != nil {
		return nil, fmt.Errorf("counting modified bases in region %d of %s: %w", r.key.region, r.key.contig, err)
	}
	return outs.list, nil
}

// records are those that follow.
type records struct{ list []stream.Out }

// emit adds the record of a document, and what panels are to see of it.
func (h *handler) emit(outs *records) func(*methylation.Stretch, stream.Out) error {
	return func(s *methylation.Stretch, out stream.Out) error {
		if len(out.Value) > stream.MaxRecord {
			return errors.New("a stretch doesn't fit a record") // widths are chosen so that it does
		}
		h.metrics.stretch(s)
		outs.list = append(outs.list, out)
		if s.Haplotype > 0 {
			return nil
		}
		watched, err := h.watch(s)
		outs.list = append(outs.list, watched...)
		return err
	}
}
