package stage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/output"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// Name is the stage's name in dead letters, metrics and logs.
const Name = "align"

// Config says what the stage works with.
type Config struct {
	// ReadsPartitions is the number of partitions of the reads topic.
	ReadsPartitions int32
	// Placer does what follows a call.
	Placer Placer
	// Controls names the negative controls of a run whose samples are known; nil: it has those that it comes with.
	Controls func(*streampb.Run) []*streampb.Control
	// Aligners are the aligners that all partitions of the process share; as
	// many reads are in the works at a time as there are of them.
	Aligners []Aligner
	// RunTimeout is how long nothing of an open run may come before a partition
	// ends it. Zero means 6 hours.
	RunTimeout time.Duration
	Metrics    *Metrics     // nil: none
	Logger     *slog.Logger // nil: none
}

// defaultRunTimeout is the time-out of a run without new records.
const defaultRunTimeout = 6 * time.Hour

// New returns the maker of the stage's handlers.
func New(cfg Config) stream.NewHandler {
	if cfg.RunTimeout == 0 {
		cfg.RunTimeout = defaultRunTimeout
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Placer.Logger, cfg.Placer.Metrics = cfg.Logger, cfg.Metrics.placer()
	free := make(chan Aligner, len(cfg.Aligners))
	for _, a := range cfg.Aligners {
		free <- a
	}
	return func(_ string, partition, partitions int32) (stream.Handler, error) {
		if len(cfg.Aligners) == 0 {
			return nil, errors.New("align stage: no aligner is configured")
		}
		h := &handler{
			cfg: cfg, partition: partition, partitions: partitions, free: free, background: stream.NewBackground(),
			log: cfg.Logger.With("stage", Name, "partition", partition),
		}
		h.timeouts = stream.RunTimeouts{
			Runs: &h.runs, Topic: cfg.Placer.Topics.Called, Partition: partition, Encode: stream.CalledMarker,
			Timeout: cfg.RunTimeout, OnTimeout: cfg.Metrics.timeout, Logger: h.log,
		}
		return h, nil
	}
}

var (
	_ stream.Handler = (*handler)(nil)
	_ stream.Ticker  = (*handler)(nil)
	_ stream.State   = (*handler)(nil)
)

// handler is the stage's worker for one partition of the topic of called reads. What
// follows from one record is one emission, and the record is resolved with it.
type handler struct {
	cfg                   Config
	partition, partitions int32
	free                  chan Aligner // taking one is the right to work on a read
	runs                  stream.Runs
	models                ModelNames
	timeouts              stream.RunTimeouts
	log                   *slog.Logger
	background            *stream.Background // the reads in the works
}

// effects are what has to follow from a record.
type effects struct {
	read   *streampb.CalledRead
	called basecall.Called
	// marker is to be passed on, behind everything that came before: the start of a run
	// or, with end, its end.
	marker *streampb.Marker
	end    bool
}

// apply folds in a record. A bad one (see [stream.IsBadRecord]) leaves no trace but its
// error.
func (h *handler) apply(rec stream.Record) (effects, error) {
	m, err := stream.DecodeCalled(rec.Value)
	if err != nil {
		return effects{}, err
	}
	switch body := m.Body.(type) {
	case *streampb.CalledRecord_RunStart:
		return effects{marker: body.RunStart}, h.runs.Begin(body.RunStart, rec)
	case *streampb.CalledRecord_RunEnd:
		ended, err := h.runs.Finish(body.RunEnd, rec)
		if err != nil || !ended {
			return effects{}, err
		}
		return effects{marker: body.RunEnd, end: true}, nil
	}
	r := m.GetRead()
	if h.runs.Run(r.GetRun()) == nil {
		return effects{}, &stream.DecodeError{Code: stream.CodeInvalid, Reason: fmt.Sprintf("read of run %s, whose start marker is not in this partition", r.GetRun())}
	}
	called, err := unpack(r)
	if err != nil {
		return effects{}, err
	}
	h.runs.Touch(r.GetRun(), rec)
	return effects{read: r, called: called}, nil
}

// unpack returns a called read as the basecaller of this program would have returned it. Its
// frames are those that follow from the dwells.
func unpack(r *streampb.CalledRead) (basecall.Called, error) {
	seq, qualities, dwells, err := stream.UnpackCalled(r)
	if err != nil {
		return basecall.Called{}, err
	}
	called := basecall.Called{
		Sequence: seq, Qualities: qualities, Stride: max(1, int(r.GetStride())), NumSamples: int(r.GetSampleCount()),
		TrimmedSamples: int(r.GetTrimmedSamples()), MeanQuality: float64(r.GetMeanQuality()),
	}
	if called.MeanQuality == 0 && len(qualities) > 0 {
		called.MeanQuality = basecall.MeanQuality(qualities)
	}
	frames := 0
	for _, d := range dwells {
		frames += int(d)
	}
	called.Moves = make([]byte, 0, frames)
	for _, d := range dwells {
		if d == 0 {
			return basecall.Called{}, &stream.DecodeError{Code: stream.CodeInvalid, Reason: fmt.Sprintf("read %s has a base that lasts no frame", r.GetReadId())}
		}
		called.Moves = append(called.Moves, 1)
		called.Moves = called.Moves[:len(called.Moves)+int(d)-1]
	}
	return called, nil
}

// Replay folds in a record whose effects are downstream already.
func (h *handler) Replay(_ context.Context, rec stream.Record) error {
	if _, err := h.apply(rec); err != nil && !stream.IsBadRecord(err) {
		return err
	}
	return nil
}

// Handle processes one record. After an error the handler has seen the record and not
// done what follows from it, so it is of no more use.
func (h *handler) Handle(ctx context.Context, rec stream.Record, emit stream.Emitter) error {
	e, err := h.apply(rec)
	switch {
	case err == nil:
		err = h.follow(ctx, rec, e, emit)
	case stream.IsBadRecord(err):
		err = h.deadLetter(ctx, rec, err, emit)
	}
	if err != nil {
		h.background.Stop()
	}
	return err
}

func (h *handler) deadLetter(ctx context.Context, rec stream.Record, cause error, emit stream.Emitter) error {
	h.cfg.Metrics.deadLetter(cause)
	h.log.Warn("record goes to the dead letters", "offset", rec.Offset, "err", cause)
	return emit.Emit(ctx, []stream.Out{stream.DeadLetter(h.cfg.Placer.Topics.DeadLetters, rec, Name, cause)}, []int64{rec.Offset})
}

// follow does what has to follow from a record.
func (h *handler) follow(ctx context.Context, rec stream.Record, e effects, emit stream.Emitter) error {
	switch {
	case e.end:
		return h.end(ctx, rec, e.marker, emit)
	case e.marker != nil:
		outs, err := h.forward(e.marker, false)
		if err != nil {
			return err
		}
		return emit.Emit(ctx, outs, []int64{rec.Offset})
	case e.read == nil:
		return emit.Emit(ctx, nil, []int64{rec.Offset})
	}
	h.cfg.Metrics.took(e.read.GetBases())
	// That wait is what slows the fetch when aligning can't keep up.
	var a Aligner
	select {
	case a = <-h.free:
	case <-ctx.Done():
		return ctx.Err()
	case <-h.background.Context().Done():
		return h.background.Context().Err()
	}
	run := h.runs.Run(e.read.GetRun())
	h.background.Go(func() {
		outs, err := h.place(run, e.read, e.called, rec.Time.UnixMilli(), a)
		h.free <- a
		if err == nil {
			err = emit.Emit(h.background.Context(), outs, []int64{rec.Offset})
		}
		if err != nil {
			h.background.Fail(fmt.Errorf("aligning read %s of run %s: %w", e.read.GetReadId(), e.read.GetRun(), err), emit)
		}
	})
	return nil
}

// place turns a called read into the records that it is downstream.
func (h *handler) place(run *streampb.Run, r *streampb.CalledRead, called basecall.Called, cameMS int64, a Aligner) ([]stream.Out, error) {
	p := &h.cfg.Placer
	read := &Read{
		Run: run, ID: r.GetReadId(), Model: r.GetModel(), Channel: r.GetChannel(), Number: r.GetReadNumber(),
		Total: uint64(called.NumSamples), LastChunkMs: cameMS,
	}
	part := Part{To: read.Total, Called: called, Modified: h.cfg.Placer.modifiedOf(r, called.Sequence)}
	if TakenApart(run) {
		// The program that called the read has searched it for barcodes.
		part.Sample = r.GetSample()
		if b := r.GetBarcode(); b != "" {
			part.Barcode = &output.Barcode{Name: b, Sample: b}
			if s := r.GetSample(); s != "" && s != run.GetSample()+"_"+b { // what a sample sheet calls it
				part.Barcode = &output.Barcode{Name: s, Sample: s, Alias: s}
			}
		}
		part = p.Filter(part)
	} else {
		part = p.Finish(read, part)
	}
	p.Metrics.Finished(part)
	published, aligned, segments, err := p.Place(read, part, a)
	if len(segments) > 0 && err == nil {
		aligned, err = h.models.Ahead(aligned, read, p.Topics.Reads, h.cfg.ReadsPartitions)
	}
	return append(published, aligned...), err
}

// forward is this partition's own marker for every partition downstream.
func (h *handler) forward(mk *streampb.Marker, end bool) ([]stream.Out, error) {
	own := h.runs.Forward(mk, h.partition, h.partitions)
	if f := h.cfg.Placer.Finisher; f != nil && !TakenApart(own.GetRun()) {
		if end && h.partition == 0 {
			WarnUnlisted(own.GetRun(), f, h.log)
		}
		own.Run = Demultiplexed(own.Run, f)
	}
	own.Run = Controlled(own.Run, h.cfg.Controls)
	if !end {
		own.EndStatus = streampb.EndStatus_END_STATUS_UNSPECIFIED
	}
	value, err := stream.ReadsMarker(own, end)
	if err != nil {
		return nil, err
	}
	return stream.Broadcast(h.cfg.Placer.Topics.Reads, h.cfg.ReadsPartitions, own, end, value), nil
}

// end passes a run's end on, behind every read before. Emit keeps the order of each
// downstream partition, so it is enough that every read has been emitted.
func (h *handler) end(ctx context.Context, rec stream.Record, mk *streampb.Marker, emit stream.Emitter) error {
	h.timeouts.Forget(mk.GetRun().GetId())
	if err := h.background.Wait(ctx); err != nil {
		return err
	}
	outs, err := h.forward(mk, true)
	if err != nil {
		return err
	}
	ending, err := h.runs.EndingOut(h.cfg.Placer.Topics.Runs, mk.GetRun(), h.partition, h.partitions)
	if err != nil {
		return err
	}
	return emit.Emit(ctx, append(outs, ending...), []int64{rec.Offset})
}

// Tick ends runs that have had no record for too long.
func (h *handler) Tick(ctx context.Context, now time.Time, emit stream.Emitter) error {
	return h.timeouts.Tick(ctx, now, emit)
}

// Drain waits for the reads in the works.
func (h *handler) Drain(ctx context.Context) error { return h.background.Wait(ctx) }

// Close drops the reads in the works: not being resolved, they will be
// delivered again.
func (h *handler) Close() error {
	h.background.Close()
	return nil
}

// State is what the records so far have left open.
func (h *handler) State() stream.State { return h }

// stateVersion is the newest encoding of the sections.
const stateVersion = 1

// Format identifies the state, which depends on nothing but the records.
func (h *handler) Format() stream.StateFormat {
	return stream.StateFormat{Stage: Name, Version: stateVersion}
}

// Sections lists the markers and the runs.
func (h *handler) Sections() []stream.Section {
	return []stream.Section{{Name: stream.MarkersSection, Version: h.runs.Version()}, {Name: stream.RunsSection, Version: h.runs.ActivityVersion()}}
}

// AppendSection appends the content of a section to b.
func (h *handler) AppendSection(b []byte, name string) ([]byte, error) {
	switch name {
	case stream.MarkersSection:
		return h.runs.AppendState(b)
	case stream.RunsSection:
		return h.runs.AppendActivity(b), nil
	}
	return nil, fmt.Errorf("the stage %s has no section %q", Name, name)
}

// RestoreSection gives a section back to a new handler.
func (h *handler) RestoreSection(name string, b []byte) error {
	switch name {
	case stream.MarkersSection:
		return h.runs.RestoreState(b)
	case stream.RunsSection:
		return h.runs.RestoreActivity(b)
	}
	return fmt.Errorf("the stage %s has no section %q", Name, name)
}
