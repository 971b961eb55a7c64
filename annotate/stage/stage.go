// Package stage is the annotate stage of the stream: revisions of calls in,
// annotated variants for the public out.
package stage

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/metric"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// Name is the stage's name in dead letters, metrics and logs.
const Name = "annotate"

// Annotator annotates one allele; annotate.Annotator is one.
type Annotator interface {
	Annotate(contig string, pos int, ref, alt string) (annotate.Annotation, error)
}

// Config holds the stage's settings and dependencies.
type Config struct {
	Topics stream.Topics
	// VariantsPartitions is the number of partitions of the variants topic.
	VariantsPartitions int32
	Annotator          Annotator
	Haplotypes         Haplotypes // nil: alleles are never taken together
	Scoring            *Scoring   // nil: no networks
	// Genes distinguishes references and gene models, and so the results of
	// Haplotypes. Kept state can be used only with the same ones.
	Genes   string
	Metrics *Metrics     // nil: none
	Logger  *slog.Logger // nil: none
	Watch   *Watch       // nil: no panels
}

// Metrics counts the stage's work. A nil *Metrics counts nothing.
type Metrics struct {
	variants    *prometheus.CounterVec
	latency     prometheus.Histogram
	scores      *prometheus.CounterVec
	deadLetters *prometheus.CounterVec
}

// NewMetrics registers the metrics with reg. deadLetters counts by stage and
// code and is shared by all stages.
func NewMetrics(reg prometheus.Registerer, deadLetters *prometheus.CounterVec) *Metrics {
	m := &Metrics{
		variants: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "porestream_annotate_variants_total",
			Help: "Annotated revisions published, by the impact of the most severe consequence.",
		}, []string{"impact"}),
		// The promise is seconds: classic buckets from 50 ms to 7 minutes.
		latency: prometheus.NewHistogram(metric.Histogram("porestream_end_to_end_latency_seconds",
			"From the last signal chunk of a read, as the signal topic recorded it, to the annotated revision that follows from the read.",
			prometheus.ExponentialBuckets(0.05, 2, 14))),
		deadLetters: deadLetters,
	}
	m.scores = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "porestream_annotate_scored_revisions_total",
		Help: "Revisions by when their scores of sequence networks came: at_once (known), later (in a revision of their own), awaited (by a final one), not (too many waited).",
	}, []string{"when"})
	reg.MustRegister(m.variants, m.latency, m.scores)
	for _, when := range []string{scoredAtOnce, scoredLater, scoredAwaited, scoredNot} {
		m.scores.WithLabelValues(when)
	}
	for _, impact := range []annotate.Impact{annotate.High, annotate.Moderate, annotate.Low, annotate.Modifier} {
		m.variants.WithLabelValues(string(impact))
	}
	return m
}

// When the scores of a revision came.
const (
	scoredAtOnce  = "at_once"
	scoredLater   = "later"
	scoredAwaited = "awaited"
	scoredNot     = "not"
)

// scored counts a revision whose scores, if there are any, came at some time.
func (m *Metrics) scored(when string, scores int) {
	if m != nil && scores > 0 {
		m.scores.WithLabelValues(when).Inc()
	}
}

// New returns the maker of the stage's handlers.
func New(cfg Config) stream.NewHandler {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	var of *scores
	if cfg.Scoring != nil {
		of = newScores(*cfg.Scoring, maxScores)
	}
	return func(_ string, partition, partitions int32) (stream.Handler, error) {
		log := cfg.Logger.With("stage", Name, "partition", partition)
		h := &handler{
			cfg: cfg, partition: partition, partitions: partitions, scores: of,
			neighbours: neighbours{haplotypes: cfg.Haplotypes, twice: of != nil}, fingerprint: cfg.fingerprint(), log: log,
		}
		fold := stream.Fold{Folder: h, Stage: Name, DeadLetters: cfg.Topics.DeadLetters, Logger: log, OnDeadLetter: cfg.Metrics.deadLetter}
		if of == nil {
			return fold, nil
		}
		return newScoring(fold, h, of), nil
	}
}

// handler is the stage's worker for one partition of the calls topic. Its state
// is which runs have ended and which alleles stand.
type handler struct {
	cfg                   Config
	partition, partitions int32
	markers               stream.Markers
	neighbours            neighbours
	ends                  ends
	fingerprint           string
	unwatched             bool // it was said that coverage is dropped
	log                   *slog.Logger

	scores    *scores         // nil: no networks
	ctx       context.Context //nolint:containedctx // of the record that is handled
	published []publication   // what followed from it
}

// Fold applies a record of the calls topic.
func (h *handler) Fold(rec stream.Record) ([]stream.Out, error) { return h.fold(rec, false) }

// Refold applies one again, without annotating.
func (h *handler) Refold(rec stream.Record) error {
	_, err := h.fold(rec, true)
	return err
}

func (h *handler) fold(rec stream.Record, replayed bool) ([]stream.Out, error) {
	m, err := stream.DecodeCalls(rec.Value)
	if err != nil {
		return nil, err
	}
	switch body := m.Body.(type) {
	case *streampb.CallRecord_RunStart:
		isNew, err := h.markers.Start(body.RunStart)
		if err != nil || !isNew {
			return nil, err
		}
		return h.watchMarker(body.RunStart, false)
	case *streampb.CallRecord_RunEnd:
		complete, err := h.markers.End(body.RunEnd)
		if err != nil || !complete {
			return nil, err
		}
		if run := body.RunEnd.GetRun().GetId(); h.markers.AwaitsCarryOver(run) && h.ends.hold(run) {
			return nil, nil
		}
		return h.runEnd(body.RunEnd)
	case *streampb.CallRecord_CarryOver:
		revisions, err := h.neighbours.assess(body.CarryOver)
		if replayed {
			return nil, nil
		}
		if err != nil {
			h.log.Warn("call can't be taken together with its neighbours", "contig", body.CarryOver.GetContig(), "pos", body.CarryOver.GetPos(), "err", err)
		}
		return h.publish(nil, revisions)
	case *streampb.CallRecord_CarryOverEnd:
		return h.carryOverEnd(body.CarryOverEnd, replayed)
	case *streampb.CallRecord_Coverage:
		return h.watchCoverage(body.Coverage)
	case *streampb.CallRecord_Reference:
		if replayed {
			return nil, nil
		}
		out, err := event.FromReference(body.Reference).Record(h.cfg.Topics.Variants)
		return []stream.Out{out}, err
	}
	revisions, err := h.neighbours.apply(m.GetCall())
	if replayed { // annotating is what takes the time
		return nil, nil
	}
	if err != nil {
		h.log.Warn("call can't be taken together with its neighbours", "allele", m.GetCall().GetVrsId(), "err", err)
	}
	return h.publish(m.GetCall(), revisions)
}

// runEnd passes the end of a run on.
func (h *handler) runEnd(mk *streampb.Marker) ([]stream.Out, error) {
	own := h.markers.Forward(mk, h.partition, h.partitions)
	outs, err := event.RunEndRecords(h.cfg.Topics.Variants, h.cfg.VariantsPartitions, own)
	if err != nil {
		return nil, err
	}
	watch, err := h.watchMarker(mk, true)
	return append(outs, watch...), err
}

// publish returns the events that follow from a revision of a call: one about
// it, and one about each neighbour that it makes do something else. nil: they
// follow from what carry-over explains.
func (h *handler) publish(c *streampb.Call, revisions []revision) ([]stream.Out, error) {
	var outs []stream.Out
	for _, r := range revisions {
		v := h.annotate(r.call)
		v.Revision, v.Haplotype = r.number, r.compounds
		showCarryOver(&v, h.neighbours.carriedOver(r.call))
		if c != nil && r.call != c {
			// What changed a neighbour's event is the signal behind this call.
			v.LastChunk = latest(v.LastChunk, event.LastChunkOf(c))
		}
		later, err := h.addScores(&v)
		if err != nil {
			return nil, err
		}
		if len(v.Annotation.Scores) > 0 {
			v.Revision++ // so that a number stands for one document, scores known or not when a record is handled again
		}
		records, err := h.records(&v)
		if err != nil {
			return nil, err
		}
		if r.call == c {
			h.cfg.Metrics.published(&v)
		}
		if h.scores != nil {
			h.published = append(h.published, publication{v, later})
		}
		outs = append(outs, records...)
	}
	return outs, nil
}

// records are the records written for an event: itself, and the one for the watch
// stage.
func (h *handler) records(v *event.Variant) ([]stream.Out, error) {
	out, err := v.Record(h.cfg.Topics.Variants)
	if err != nil {
		return nil, err
	}
	watch, err := h.watchVariant(v, out.Value)
	return append([]stream.Out{out}, watch...), err
}

// latest is the later of two times; either may be unknown.
func latest(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.After(*a) {
		return b
	}
	return a
}

// annotate never holds a call back: one that can't be annotated is published
// with the reason.
func (h *handler) annotate(c *streampb.Call) event.Variant {
	a, err := h.cfg.Annotator.Annotate(c.GetContig(), int(c.GetPos()), c.GetRef(), c.GetAlt())
	v := event.FromCall(c, a)
	if err != nil {
		v.AnnotationError = err.Error()
		h.log.Warn("call can't be annotated", "allele", c.GetVrsId(), "err", err)
	}
	return v
}

func (m *Metrics) published(v *event.Variant) {
	if m == nil {
		return
	}
	impact := "none"
	if s := v.Annotation.MostSevere; s.Term != "" {
		impact = string(s.Impact)
	}
	m.variants.WithLabelValues(impact).Inc()
	// A final revision follows from the end of the run and says nothing about
	// how long a read took.
	if v.LastChunk != nil && v.Status != streampb.CallStatus_FINAL.String() {
		m.latency.Observe(time.Since(*v.LastChunk).Seconds())
	}
}

func (m *Metrics) deadLetter(err error) {
	if m != nil {
		m.deadLetters.WithLabelValues(Name, stream.ErrorCode(err)).Inc()
	}
}
