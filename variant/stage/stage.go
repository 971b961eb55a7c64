// Package stage is the variant stage of the stream: aligned read segments in,
// revisions of calls out.
//
// The handler of a reads partition owns the regions whose segments come over
// it. Every segment is applied to its region and the revisions that follow from
// it are emitted; a run's end, once every basecall partition has reported it,
// makes the calls of its sample final and is passed on behind them.
package stage

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/planted"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/stream/trace"
	"github.com/porestream/porestream/variant"
)

// Name is the stage's name in dead letters, metrics and logs.
const Name = "variant"

// Config says what the stage works with.
type Config struct {
	Topics stream.Topics
	// CallsPartitions is the number of partitions of the calls topic.
	CallsPartitions int32
	Genome          *genome.Genome
	// Variant holds the calling thresholds; its Sample is set per region.
	Variant variant.Config
	// NetworkName is what the network of Variant is called in errors.
	NetworkName string
	// Strict has reads refused that the network was not made for, or that name no
	// basecalling model: they are a [stream.Permanent] error.
	Strict bool
	// Targets are the stretches, by contig, whose coverage is reported besides, and what
	// is named there; nil: none. Panels is the fingerprint of the panels that ask for
	// them.
	Targets map[string]variant.Targets
	Panels  string
	// Regions, if set, knows the regions of all handlers, for readers outside them.
	Regions *Regions
	// Survey says what is reported, at the end, of places without a variant. By
	// default nothing is.
	Survey variant.SurveyConfig
	// Followed are positions, 0-based by contig, around which that is reported while runs go on, too.
	Followed map[string][]int
	// FindMotifs has calls marked by the motifs that the stage methylate finds in the sample: what is final waits for them.
	FindMotifs bool
	// Haplotypes has it reported to the stage methylate which haplotypes reads are of, once calls are final.
	Haplotypes bool
	Metrics    *Metrics     // nil: none
	Logger     *slog.Logger // nil: none
	// Tracer takes the spans of traced reads; nil: none are.
	Tracer *trace.Tracer
}

// New returns the maker of the stage's handlers.
func New(cfg Config) stream.NewHandler {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Metrics.against(cfg.Genome)
	fingerprint, follows := cfg.fingerprint(), cfg.followed()
	return func(_ string, partition, partitions int32) (stream.Handler, error) {
		log := cfg.Logger.With("stage", Name, "partition", partition)
		h := &handler{
			cfg: cfg, partition: partition, partitions: partitions,
			regions: make(map[regionKey]*variant.Region), names: make(map[string]regionKey),
			fingerprint: fingerprint, followed: follows, spans: newSpans(cfg.Tracer), log: log, mostAssessed: maxAssessed,
			basecallers: variant.NewBasecallers(cfg.Variant.Network, cfg.NetworkName),
			found:       make(map[string]*foundMotifs), ending: make(map[string]bool), sent: make(map[string]*sentHaplotypes),
		}
		cfg.Regions.add(h)
		return worker{
			Fold: stream.Fold{
				Folder: h,
				Stage:  Name, DeadLetters: cfg.Topics.DeadLetters, Logger: log, OnDeadLetter: cfg.Metrics.deadLetter,
			},
			handler: h, regions: cfg.Regions,
		}, nil
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
	// mu is held while a record is handled, and whenever else state is touched:
	// others read the regions between two records. See [Regions].
	mu sync.Mutex

	cfg                   Config
	partition, partitions int32
	markers               stream.Markers
	basecallers           *variant.Basecallers
	modelsVersion         uint64 // of their section
	regions               map[regionKey]*variant.Region
	names                 map[string]regionKey            // by the name of their section
	work                  variant.Workspace               // of all regions
	restoring             map[regionKey]*variant.Restorer // regions that wait for parts of their state
	fingerprint           string
	followed              followed
	replayed              bool                       // the record is
	checked               bool                       // what was restored is complete
	found                 map[string]*foundMotifs    // by sample
	ending                map[string]bool            // runs whose end has come and was not passed on, as motifs have yet to come
	motifsVersion         uint64                     // of their section
	wait                  stream.Wait                // of runs, for motifs
	sent                  map[string]*sentHaplotypes // of haplotypes, by sample
	haplotypesVersion     uint64                     // of their section
	unheard               stream.Wait                // for what was reported to be on the topic
	answering             answering
	asking                asking
	mostAssessed          int      // alleles; see maxAssessed
	metrics               *Metrics // nil while replaying: that was counted before
	spans                 spans
	log                   *slog.Logger
}

// Fold applies a record of the reads topic.
func (h *handler) Fold(rec stream.Record) ([]stream.Out, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.metrics, h.spans.muted, h.replayed = h.cfg.Metrics, false, false
	return h.fold(rec)
}

// Refold applies one again; it is neither counted nor traced.
func (h *handler) Refold(rec stream.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.metrics, h.spans.muted, h.replayed = nil, true, true
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
	switch body := m.Body.(type) {
	case *streampb.ReadRecord_RunStart:
		return h.runStart(body.RunStart)
	case *streampb.ReadRecord_RunEnd:
		return h.runEnd(body.RunEnd)
	case *streampb.ReadRecord_Withdrawal:
		h.withdraw(body.Withdrawal)
		return nil, nil
	case *streampb.ReadRecord_Model:
		return nil, h.model(body.Model)
	case *streampb.ReadRecord_HaplotypesKnown:
		h.hear(body.HaplotypesKnown)
		return nil, nil
	case *streampb.ReadRecord_ModifiedCalls, *streampb.ReadRecord_ModifiedPlaces, *streampb.ReadRecord_ReadHaplotypes:
		// of, or for, the stage that counts modified bases
		return nil, nil
	case *streampb.ReadRecord_ModifiedMotifs:
		return h.receiveMotifs(body.ModifiedMotifs)
	case *streampb.ReadRecord_CarryOverQuery:
		return h.query(body.CarryOverQuery)
	case *streampb.ReadRecord_CarryOverReport:
		return h.reported(body.CarryOverReport)
	case *streampb.ReadRecord_Partial:
		return h.segment(body.Partial, h.spans.begin(rec, body.Partial))
	default:
		return h.segment(m.GetSegment(), h.spans.begin(rec, m.GetSegment()))
	}
}

func (h *handler) runStart(mk *streampb.Marker) ([]stream.Out, error) {
	isNew, err := h.markers.Start(mk)
	if err != nil || !isNew {
		return nil, err
	}
	start, err := h.forward(mk, false)
	if err != nil {
		return nil, err
	}
	ends, err := h.ends() // of runs whose samples go on in this one
	return append(start, ends...), err
}

// runEnd makes the calls of the run's samples final, each once all of its runs have
// ended and its motifs are known, and passes the end on. A marker that comes again, because its run was
// sent again, brings out what has changed since.
func (h *handler) runEnd(mk *streampb.Marker) ([]stream.Out, error) {
	var ended []string // before
	for _, sample := range stream.SamplesOf(mk.GetRun()) {
		if h.markers.SampleEnded(sample) {
			ended = append(ended, sample)
		}
	}
	complete, err := h.markers.End(mk)
	if err != nil {
		return nil, err
	}
	var outs []stream.Out
	var final []string
	for _, sample := range stream.SamplesOf(mk.GetRun()) {
		if !h.settled(sample) {
			continue
		}
		records, err := h.sampleEnd(mk.GetRun().GetId(), sample, !slices.Contains(ended, sample))
		if err != nil {
			return nil, err
		}
		outs, final = append(outs, records...), append(final, sample)
	}
	haplotypes, err := h.haplotypes(final)
	if err != nil {
		return nil, err
	}
	outs = append(outs, haplotypes...)
	if h.cfg.FindMotifs {
		if complete {
			h.ending[mk.GetRun().GetId()] = true
			h.motifsVersion++
		}
		ends, err := h.ends()
		return append(outs, ends...), err
	}
	if !complete {
		return outs, nil
	}
	end, err := h.end(mk)
	return append(outs, end...), err
}

// sampleEnd returns what is final about a sample. justEnded: it wasn't before.
func (h *handler) sampleEnd(run, sample string, justEnded bool) ([]stream.Out, error) {
	var outs []stream.Out
	for _, key := range h.sampleRegions(sample) {
		final, err := h.finalize(h.regions[key])
		if err != nil {
			return nil, err
		}
		outs = append(outs, final...)
	}
	references, err := h.reference(run, sample, justEnded)
	return append(outs, references...), err
}

// end passes on the end of a run of which everything that is final has been said.
func (h *handler) end(mk *streampb.Marker) ([]stream.Out, error) {
	end, err := h.forward(mk, true)
	if err != nil || !h.markers.AwaitsCarryOver(mk.GetRun().GetId()) {
		return end, err
	}
	notified, err := h.notify()
	return append(end, notified...), err
}

// finalize returns what is final about a region, coverage first: a consumer
// that has passed on a final depth, and so knows the panels that asked for it,
// passes on all of the final calls too, even if processors are replaced
// meanwhile.
func (h *handler) finalize(region *variant.Region) ([]stream.Out, error) {
	final, err := region.Finalize()
	if err != nil {
		return nil, fmt.Errorf("making region %d of %s final: %w", region.Index(), region.Contig(), err)
	}
	h.metrics.omitted(region.TakeLeftOut())
	coverage, err := h.encodeCoverage(region.Coverage())
	if err != nil {
		return nil, err
	}
	calls, err := h.encodeCalls(final)
	return append(coverage, calls...), err
}

// sampleRegions are the regions of some samples, by sample, contig and position.
func (h *handler) sampleRegions(samples ...string) []regionKey {
	asked := make(map[string]bool, len(samples))
	for _, sample := range samples {
		asked[sample] = true
	}
	var keys []regionKey
	for key := range h.regions {
		if asked[key.sample] {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, regionKey.compare)
	return keys
}

func (h *handler) forward(mk *streampb.Marker, end bool) ([]stream.Out, error) {
	own := h.markers.Forward(mk, h.partition, h.partitions)
	value, err := stream.CallsMarker(own, end)
	if err != nil {
		return nil, err
	}
	return stream.Broadcast(h.cfg.Topics.Calls, h.cfg.CallsPartitions, own, end, value), nil
}

// applyAgain is the planted bug of a region that doesn't know its reads apart.
func applyAgain(region *variant.Region, s *streampb.Segment) error {
	again := proto.CloneOf(s)
	again.ReadId += " again"
	_, err := region.Apply(again)
	return err
}

// segment applies a segment. span is that of its read, nil if that is not traced.
func (h *handler) segment(s *streampb.Segment, span *trace.Span) ([]stream.Out, error) {
	if h.cfg.Strict && (s.GetModel() == 0 || h.basecallers.Match(s.GetModel()) == variant.Mismatched) {
		if err := h.refuse(h.basecallers.Name(s.GetModel())); err != nil {
			return nil, err
		}
	}
	key := regionKey{s.GetSample(), s.GetContig(), s.GetRegion()}
	region := h.regions[key]
	if region == nil {
		var err error
		if region, err = h.newRegion(key); err != nil {
			return nil, &stream.DecodeError{Code: stream.CodeInvalid, Reason: fmt.Sprintf("segment of read %s: %v", s.GetReadId(), err)}
		}
	}
	changed, err := region.Apply(s)
	if err != nil {
		return nil, &stream.DecodeError{Code: stream.CodeInvalid, Reason: err.Error()}
	}
	if planted.Is(planted.DoubleApply) {
		if err := applyAgain(region, s); err != nil {
			return nil, err
		}
	}
	uncertain := int(s.GetMappingQuality()) < h.cfg.Variant.LeastMappingQuality()
	h.metrics.segment(changed, uncertain, s.GetPartial() > 0)
	if changed && !uncertain {
		h.metrics.calledBy(h.basecallers.Match(s.GetModel()))
	}
	h.spans.applied(span, changed && !uncertain)
	if !changed {
		return nil, nil
	}
	if h.regions[key] == nil {
		h.open(key, region)
	}
	if uncertain {
		return h.provisional(key, region, s.GetRun())
	}
	return h.evaluate(key, region, s, span)
}

// evaluate returns what there is to say of a region now that it has a segment more.
func (h *handler) evaluate(key regionKey, region *variant.Region, s *streampb.Segment, span *trace.Span) ([]stream.Out, error) {
	evaluation := h.spans.evaluate(key, s, span)
	revisions, err := region.Evaluate()
	if err != nil {
		return nil, fmt.Errorf("evaluating region %d of %s: %w", region.Index(), region.Contig(), err)
	}
	h.metrics.omitted(region.TakeLeftOut())
	calls, err := h.encodeCalls(revisions)
	if err != nil {
		return nil, err
	}
	// Behind the calls: a consumer must not learn that a place is deep enough
	// to say that nothing is there before it has received what is there.
	coverage, err := h.encodeCoverage(region.Coverage())
	if err != nil {
		return nil, err
	}
	evaluation.done(revisions, calls, coverage)
	// Behind the calls, as coverage is, for the same reason.
	references, err := h.provisional(key, region, s.GetRun())
	if err != nil {
		return nil, err
	}
	notified, err := h.late(key.sample)
	return slices.Concat(calls, coverage, references, notified), err
}

// withdraw lets go of what a region has of a read that goes on.
func (h *handler) withdraw(w *streampb.Withdrawal) {
	if region := h.regions[regionKey{w.GetSample(), w.GetContig(), w.GetRegion()}]; region != nil {
		region.Withdraw(w.GetRun(), w.GetReadId())
	}
}

// newRegion is a region without reads.
func (h *handler) newRegion(key regionKey) (*variant.Region, error) {
	contig, err := h.contig(key)
	if err != nil {
		return nil, err
	}
	r, err := variant.NewRegion(contig, int(key.region), h.caller(key))
	if err != nil {
		return nil, err
	}
	if targets := h.cfg.Targets[key.contig]; len(targets.Spans) > 0 {
		r.SetTargets(targets)
	}
	if f := h.found[key.sample]; f != nil {
		r.UseMotifs(f.known)
	}
	return r, nil
}

func (h *handler) contig(key regionKey) (*genome.Contig, error) {
	contig := h.cfg.Genome.Contig(key.contig)
	if contig == nil {
		return nil, fmt.Errorf("contig %s is not in the reference: were the reads aligned to another one?", key.contig)
	}
	return contig, nil
}

// caller is the configuration of a region's calling.
func (h *handler) caller(key regionKey) variant.Config {
	cfg := h.cfg.Variant
	cfg.Sample, cfg.Basecallers = key.sample, h.basecallers
	return cfg
}

// encodeCalls returns the records of revisions of calls.
func (h *handler) encodeCalls(calls []*streampb.Call) ([]stream.Out, error) {
	outs := make([]stream.Out, len(calls))
	for i, c := range calls {
		value, err := stream.EncodeCalls(&streampb.CallRecord{Body: &streampb.CallRecord_Call{Call: c}})
		if err != nil {
			return nil, err
		}
		h.metrics.call(c)
		outs[i] = stream.Out{
			Topic: h.cfg.Topics.Calls, Partition: stream.ContigPartition(c.GetSample(), c.GetContig(), h.cfg.CallsPartitions),
			Key: stream.AlleleKey(c.GetSample(), c.GetVrsId()), Value: value,
		}
	}
	return outs, nil
}

// encodeCoverage returns the records of revisions of coverage.
func (h *handler) encodeCoverage(coverage []*streampb.Coverage) ([]stream.Out, error) {
	outs := make([]stream.Out, len(coverage))
	for i, c := range coverage {
		c.Panels = h.cfg.Panels
		value, err := stream.EncodeCalls(&streampb.CallRecord{Body: &streampb.CallRecord_Coverage{Coverage: c}})
		if err != nil {
			return nil, err
		}
		h.metrics.coverage()
		outs[i] = stream.Out{
			Topic: h.cfg.Topics.Calls, Partition: stream.ContigPartition(c.GetSample(), c.GetContig(), h.cfg.CallsPartitions),
			Key: stream.CoverageKey(c.GetSample(), c.GetContig(), c.GetStart()), Value: value,
		}
	}
	return outs, nil
}
