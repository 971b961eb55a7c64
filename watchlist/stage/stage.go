// Package stage is the watch stage of the stream: annotated variants, coverage and
// counts of modified bases in, what panels say of samples out.
//
// All of a sample is in one partition of the watch topic, so one handler holds its
// state. Run markers come over every partition of the stages upstream; once all of
// them have ended the runs of a sample, its rules are answered for good.
package stage

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/watchlist"
	"github.com/porestream/porestream/watchlist/alert"
)

// Name is the stage's name in dead letters, metrics and logs.
const Name = "watch"

// Config holds the stage's settings and dependencies.
type Config struct {
	Topics stream.Topics
	// AlertsPartitions is the number of partitions of the alerts topic.
	AlertsPartitions int32
	// Watch is the panels, and Panels their fingerprint. Records that were chosen
	// or measured for other panels are left out: that such a record doesn't show a
	// variant says nothing.
	Watch  *watchlist.Watch
	Panels string
	// Genes distinguishes references and gene models, and so the panels' meanings.
	// Kept state can be used only with the same ones.
	Genes   string
	Metrics *Metrics     // nil: none
	Logger  *slog.Logger // nil: none
}

// New returns the maker of the stage's handlers.
func New(cfg Config) stream.NewHandler {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return func(_ string, partition, partitions int32) (stream.Handler, error) {
		log := cfg.Logger.With("stage", Name, "partition", partition)
		h := &handler{
			cfg: cfg, partition: partition, partitions: partitions,
			trackers: make(map[string]*watchlist.Tracker), sections: make(map[string]*watchlist.Tracker),
			fingerprint: cfg.fingerprint(partitions), log: log,
		}
		return worker{stream.Fold{
			Folder: h, Stage: Name, DeadLetters: cfg.Topics.DeadLetters, Logger: log, OnDeadLetter: cfg.Metrics.deadLetter,
		}, h}, nil
	}
}

// worker is a handler that is given the time.
type worker struct {
	stream.Fold
	handler *handler
}

// Tick is called now and then once the partition is live.
func (w worker) Tick(_ context.Context, now time.Time, _ stream.Emitter) error {
	w.handler.tick(now)
	return nil
}

// tick reports, once, that answers wait for the end of counts that doesn't come.
func (h *handler) tick(now time.Time) {
	var runs []string
	for _, run := range h.markers.Runs() {
		if h.markers.Ended(run.GetId()) && !h.over(run.GetId()) {
			runs = append(runs, run.GetId())
		}
	}
	if h.wait.Overdue(now, len(runs) > 0) {
		_, missing := h.methylation.Missing(runs[0])
		h.log.Warn("final answers wait for counts of modified bases: do processors with the stage methylate run, all with the same --panel files?",
			"runs", runs, "partitions of the first that have not ended it; none: nobody has begun", missing)
	}
}

// handler is the stage's worker for one partition of the watch topic.
type handler struct {
	cfg                   Config
	partition, partitions int32
	markers               stream.Markers
	methylation           stream.Markers                // of the methylate stage, if panels ask for it
	before                stream.Markers                // then also of runs that ended under other panels, of which nobody counts methylation for these
	trackers              map[string]*watchlist.Tracker // by sample
	sections              map[string]*watchlist.Tracker // by the name of their section
	fingerprint           string
	stranger              string      // the last fingerprint of other panels that was warned of
	uncounted             bool        // coverage without counts was warned of
	wait                  stream.Wait // of runs, for the end of counts of modified bases
	metrics               *Metrics    // nil while replaying: that was counted before
	log                   *slog.Logger
}

// Fold applies a record of the watch topic.
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
	m, err := stream.DecodeWatch(rec.Value)
	if err != nil {
		return nil, err
	}
	switch body := m.GetBody().(type) {
	case *streampb.WatchRecord_RunStart:
		return h.runStart(body.RunStart)
	case *streampb.WatchRecord_RunEnd:
		return h.runEnd(body.RunEnd, m.GetPanels())
	case *streampb.WatchRecord_Methylation:
		if !h.ours(m.GetPanels()) {
			return nil, nil
		}
		t := h.tracker(body.Methylation.GetSample())
		return h.publish(t, t.Methylation(methylation(body.Methylation)))
	case *streampb.WatchRecord_MethylationEnd:
		if h.cfg.Watch.AsksMethylation() == "" {
			h.ours(m.GetPanels())
			return nil, nil
		}
		complete, err := h.methylation.End(body.MethylationEnd)
		if err != nil {
			return nil, err
		}
		return h.ended(body.MethylationEnd, complete)
	case *streampb.WatchRecord_Coverage:
		if !h.ours(m.GetPanels()) || !h.ours(body.Coverage.GetPanels()) {
			return nil, nil
		}
		if !body.Coverage.GetCounted() {
			h.warnUncounted()
			return nil, nil
		}
		t := h.tracker(body.Coverage.GetSample())
		return h.publish(t, t.Coverage(coverage(body.Coverage)))
	default:
		if !h.ours(m.GetPanels()) {
			return nil, nil
		}
		return h.variant(m.GetVariant())
	}
}

// ours reports whether a record was made for the panels of this process.
func (h *handler) ours(panels string) bool {
	if panels == h.cfg.Panels {
		return true
	}
	h.metrics.leftOut()
	if h.stranger != panels {
		h.stranger = panels
		h.log.Warn("records made for other panels are left out: start every processor with the same --panel files", "panels", panels, "own", h.cfg.Panels)
	}
	return false
}

// warnUncounted warns that a depth alone doesn't show that something is absent.
func (h *handler) warnUncounted() {
	if !h.uncounted {
		h.uncounted = true
		h.log.Warn("coverage without what reads show is left out: upgrade the processors that call variants")
	}
}

func (h *handler) variant(document []byte) ([]stream.Out, error) {
	v := new(event.Variant)
	if err := json.Unmarshal(document, v); err != nil {
		return nil, &stream.DecodeError{Code: stream.CodePayload, Reason: fmt.Sprintf("variant: %v", err)}
	}
	if v.Sample == "" || v.Allele.VRSID == "" || v.Revision == 0 {
		return nil, &stream.DecodeError{Code: stream.CodeInvalid, Reason: "a variant needs sample, variant.vrs_id and revision"}
	}
	t := h.tracker(v.Sample)
	alerts := t.Variant(v)
	if len(alerts) > 0 {
		h.metrics.latency(v)
	}
	return h.publish(t, alerts)
}

// coverage is what c says, without what belongs to the stream.
func coverage(c *streampb.Coverage) watchlist.Coverage {
	out := watchlist.Coverage{
		Run: c.GetRun(), Contig: c.GetContig(), Start: int(c.GetStart()), End: int(c.GetEnd()),
		Blocks: make([]watchlist.DepthBlock, len(c.GetLengths())), Revision: c.GetRevision(), Final: c.GetFinal(),
	}
	at := out.Start
	for i, n := range c.GetLengths() {
		out.Blocks[i] = watchlist.DepthBlock{Start: at, End: at + int(n), Depth: int(c.GetDepths()[i])}
		at += int(n)
	}
	for _, k := range c.GetShown() {
		out.Shown = append(out.Shown, watchlist.Shown{
			Named: k.GetNamed(), Pos: int(k.GetPos()), Ref: k.GetRef(), Alt: k.GetAlt(),
			Forward: int(k.GetForward()), Reverse: int(k.GetReverse()), Depth: int(k.GetDepth()),
		})
	}
	return out
}

// methylation is what m says, without what belongs to the stream.
func methylation(m *streampb.Methylation) watchlist.Methylation {
	out := watchlist.Methylation{
		Run: m.GetRun(), Contig: m.GetContig(), Start: int(m.GetStart()), End: int(m.GetEnd()), Code: m.GetCode(), Revision: m.GetRevision(),
		Marks: make([]watchlist.Mark, len(m.GetPlaces())),
	}
	for i, place := range m.GetPlaces() {
		out.Marks[i] = watchlist.Mark{
			Pos: out.Start + int(place/2), Reverse: place&1 == 1, Modified: int(m.GetModified()[i]), Calls: int(m.GetCalls()[i]),
		}
	}
	return out
}

// runStart keeps the run's samples undecided until the run has ended.
func (h *handler) runStart(mk *streampb.Marker) ([]stream.Out, error) {
	isNew, err := h.markers.Start(mk)
	if err != nil || !isNew {
		return nil, err
	}
	for _, sample := range h.concerned(mk.GetRun()) {
		h.tracker(sample).RunStart(mk.GetRun().GetId())
	}
	return nil, nil
}

// runEnd answers the rules of the run's samples, each once all of its runs have ended,
// and passes the end on. A marker that comes again, because its run was sent
// again, brings out what has changed since.
func (h *handler) runEnd(mk *streampb.Marker, panels string) ([]stream.Out, error) {
	complete, err := h.markers.End(mk)
	if err != nil {
		return nil, err
	}
	if panels != h.cfg.Panels && h.cfg.Watch.AsksMethylation() != "" {
		if _, err := h.before.End(mk); err != nil {
			return nil, err
		}
	}
	return h.ended(mk, complete)
}

// over reports whether all that panels ask for of a run has come.
func (h *handler) over(run string) bool {
	return h.markers.Ended(run) && (h.cfg.Watch.AsksMethylation() == "" || h.methylation.Ended(run) || h.before.Ended(run))
}

// ended answers what a run's end brings, from one of the stages upstream; news: it is the last end of that stage.
func (h *handler) ended(mk *streampb.Marker, news bool) ([]stream.Out, error) {
	run := mk.GetRun()
	var outs []stream.Out
	over := h.over(run.GetId())
	if over {
		for _, sample := range h.concerned(run) {
			t := h.tracker(sample)
			answers, err := h.publish(t, t.RunEnd(run.GetId()))
			if err != nil {
				return nil, err
			}
			outs = append(outs, answers...)
		}
	}
	if !over || !news {
		return outs, nil
	}
	own := h.markers.Forward(mk, h.partition, h.partitions)
	end, err := event.RunEndRecords(h.cfg.Topics.Alerts, h.cfg.AlertsPartitions, own)
	return append(outs, end...), err
}

// concerned lists the samples of the run whose records come over this partition. Its
// markers come over all: a sample without any other record is answered too,
// and once; unless it is a barcode that no sheet lists.
func (h *handler) concerned(run *streampb.Run) []string {
	expected := len(run.GetSamples()) == 0 || run.GetSamplesListed()
	var samples []string
	for _, sample := range stream.SamplesOf(run) {
		ours := stream.PartitionFor([]byte(sample), h.partitions) == h.partition
		if ours && (expected || h.trackers[sample] != nil) {
			samples = append(samples, sample)
		}
	}
	return samples
}

func (h *handler) tracker(sample string) *watchlist.Tracker {
	t := h.trackers[sample]
	if t == nil {
		t = h.cfg.Watch.NewTracker(sample)
		h.take(t)
		// A barcode whose first record comes amid several runs waits for all of them.
		for _, run := range h.markers.Runs() {
			if !h.over(run.GetId()) && slices.Contains(stream.SamplesOf(run), sample) {
				t.RunStart(run.GetId())
			}
		}
	}
	return t
}

// take takes a tracker into the state.
func (h *handler) take(t *watchlist.Tracker) {
	h.trackers[t.Sample()], h.sections[section(t.Sample())] = t, t
}

// publish makes records of a tracker's alerts. A model that could not answer fails the
// record: the next owner restores the tracker and asks again.
func (h *handler) publish(t *watchlist.Tracker, alerts []watchlist.Alert) ([]stream.Out, error) {
	if err := t.Err(); err != nil {
		return nil, fmt.Errorf("sample %s: %w", t.Sample(), err)
	}
	outs := make([]stream.Out, len(alerts))
	for i := range alerts {
		out, err := alert.Record(h.cfg.Topics.Alerts, &alerts[i])
		if err != nil {
			return nil, err
		}
		h.metrics.alert(&alerts[i])
		outs[i] = out
	}
	return outs, nil
}
