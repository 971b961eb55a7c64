package stage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// Name is the stage's name in dead letters, metrics and logs.
const Name = "basecall"

// Caller basecalls one read; basecall.Caller is one.
type Caller interface {
	Call(ctx context.Context, read basecall.Read) (basecall.Called, error)
}

// Aligner places one read on the reference; minimap.Aligner is one. It is used
// by one goroutine at a time.
type Aligner interface {
	Map(name string, seq []byte) ([]align.Alignment, error)
}

// Config says what the stage works with.
type Config struct {
	Topics stream.Topics
	// ReadsPartitions is the number of partitions of the reads topic.
	ReadsPartitions int32
	Caller          Caller
	// SampleRates are those that the caller's model was made for, in Hz. Reads
	// of a run with another are counted and left out.
	SampleRates []int
	// Aligners are the aligners that all partitions of the process share; as
	// many reads are in the works at a time as there are of them.
	Aligners []Aligner
	// Contig returns the upper-case sequence of a contig that an alignment
	// names.
	Contig func(name string) []byte
	// MaxReadSamples is where a read is cut to bound memory. Zero means 16 Mi
	// samples, about an hour of one pore.
	MaxReadSamples int
	Metrics        *Metrics     // nil: none
	Logger         *slog.Logger // nil: none
}

// minSamples is the shortest current that can hold an alignable read: about
// twenty bases. What is below is counted as too short.
const minSamples = 200

// New returns the maker of the stage's handlers.
func New(cfg Config) stream.NewHandler {
	if cfg.MaxReadSamples == 0 {
		cfg.MaxReadSamples = 16 << 20
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	free := make(chan Aligner, len(cfg.Aligners))
	for _, a := range cfg.Aligners {
		free <- a
	}
	return func(_ string, partition, partitions int32) (stream.Handler, error) {
		if len(cfg.Aligners) == 0 {
			return nil, errors.New("basecall stage: no aligner is configured")
		}
		ctx, cancel := context.WithCancel(context.Background())
		return &handler{
			cfg: cfg, partition: partition, partitions: partitions, aligners: free,
			assembler: newAssembler(cfg.MaxReadSamples), ctx: ctx, cancel: cancel,
			log: cfg.Logger.With("stage", Name, "partition", partition),
		}, nil
	}
}

// handler is the stage's worker for one signal partition.
type handler struct {
	cfg                   Config
	partition, partitions int32
	aligners              chan Aligner // shared: taking one is the right to work on a read
	assembler             *assembler
	markers               stream.Markers
	log                   *slog.Logger

	// ctx is the life of the reads in the works, which outlives the Handle call
	// that began them; Close ends it.
	ctx     context.Context //nolint:containedctx // see above
	cancel  context.CancelFunc
	working sync.WaitGroup
}

// Replay notes what lies before the committed offset: which runs are known and
// which reads are finished. It changes what Handle would have, and no more: what
// went to the dead letters left no trace.
func (h *handler) Replay(_ context.Context, rec stream.Record) error {
	m, err := stream.DecodeSignal(rec.Value)
	if err != nil {
		return nil //nolint:nilerr // a dead letter already
	}
	switch body := m.Body.(type) {
	case *streampb.SignalRecord_RunStart:
		_, err = h.markers.Start(body.RunStart)
	case *streampb.SignalRecord_RunEnd:
		if _, err = h.markers.End(body.RunEnd); h.markers.Ended(body.RunEnd.GetRun().GetId()) && err == nil {
			h.assembler.forgetRun(body.RunEnd.GetRun().GetId())
		}
	case *streampb.SignalRecord_Chunk:
		if h.markers.Run(body.Chunk.GetRun()) != nil {
			h.assembler.skip(body.Chunk)
		}
	}
	if err != nil {
		h.log.Warn("contradicting marker before the committed offset", "offset", rec.Offset, "err", err)
	}
	return nil
}

// Handle processes one signal record.
func (h *handler) Handle(ctx context.Context, rec stream.Record, emit stream.Emitter) error {
	m, err := stream.DecodeSignal(rec.Value)
	if err != nil {
		return h.deadLetter(ctx, rec, err, emit)
	}
	switch body := m.Body.(type) {
	case *streampb.SignalRecord_RunStart:
		return h.runStart(ctx, rec, body.RunStart, emit)
	case *streampb.SignalRecord_RunEnd:
		return h.runEnd(ctx, rec, body.RunEnd, emit)
	default:
		return h.chunk(ctx, rec, m.GetChunk(), emit)
	}
}

func (h *handler) deadLetter(ctx context.Context, rec stream.Record, cause error, emit stream.Emitter) error {
	h.cfg.Metrics.deadLetter(cause)
	h.log.Warn("record goes to the dead letters", "offset", rec.Offset, "err", cause)
	return emit.Emit(ctx, []stream.Out{stream.DeadLetter(h.cfg.Topics.DeadLetters, rec, Name, cause)}, []int64{rec.Offset})
}

// forward sends this partition's own marker to every partition downstream.
func (h *handler) forward(ctx context.Context, mk *streampb.Marker, end bool, offset int64, emit stream.Emitter) error {
	own := h.markers.Forward(mk, h.partition, h.partitions)
	value, err := stream.ReadsMarker(own, end)
	if err != nil {
		return err
	}
	return emit.Emit(ctx, stream.Broadcast(h.cfg.Topics.Reads, h.cfg.ReadsPartitions, own, end, value), []int64{offset})
}

func (h *handler) runStart(ctx context.Context, rec stream.Record, mk *streampb.Marker, emit stream.Emitter) error {
	if _, err := h.markers.Start(mk); err != nil {
		return h.deadLetter(ctx, rec, err, emit)
	}
	if run := mk.GetRun(); !h.supports(run) {
		h.log.Error("run can't be basecalled: the model was made for another sample rate", "run", run.GetId(),
			"sample_rate", run.GetSampleRate(), "model_sample_rates", h.cfg.SampleRates)
	}
	return h.forward(ctx, mk, false, rec.Offset, emit)
}

func (h *handler) supports(run *streampb.Run) bool {
	return slices.Contains(h.cfg.SampleRates, int(run.GetSampleRate()))
}

// runEnd finishes the run's open reads, once all sources have ended it, and
// passes the marker on behind the last of them. Emit keeps the order of each
// downstream partition, so it is enough that every read has been emitted. A run
// that was sent again ends again, which lets the reads that came late count.
func (h *handler) runEnd(ctx context.Context, rec stream.Record, mk *streampb.Marker, emit stream.Emitter) error {
	if _, err := h.markers.End(mk); err != nil {
		return h.deadLetter(ctx, rec, err, emit)
	}
	if !h.markers.Ended(mk.GetRun().GetId()) {
		return emit.Emit(ctx, nil, []int64{rec.Offset})
	}
	for _, read := range h.assembler.finishRun(mk.GetRun().GetId()) {
		h.cfg.Metrics.lostEnd()
		if err := h.start(ctx, read, emit); err != nil {
			return err
		}
	}
	h.working.Wait()
	if err := h.ctx.Err(); err != nil {
		return err
	}
	return h.forward(ctx, mk, true, rec.Offset, emit)
}

func (h *handler) chunk(ctx context.Context, rec stream.Record, c *streampb.SignalChunk, emit stream.Emitter) error {
	if h.markers.Run(c.GetRun()) == nil {
		return h.deadLetter(ctx, rec, &stream.DecodeError{
			Code:   stream.CodeInvalid,
			Reason: fmt.Sprintf("chunk of run %s, whose start marker is not in this partition", c.GetRun()),
		}, emit)
	}
	res, err := h.assembler.add(c, rec.Offset, rec.Time.UnixMilli())
	if err != nil {
		return h.deadLetter(ctx, rec, err, emit)
	}
	h.cfg.Metrics.chunk(int(c.GetSampleCount()), res)
	if res.gap > 0 {
		h.log.Warn("signal is missing", "run", c.GetRun(), "channel", c.GetChannel(), "read", c.GetReadId(),
			"samples", res.gap, "before_sample", c.GetFirstSample())
	}
	if res.duplicate {
		return emit.Emit(ctx, nil, []int64{rec.Offset})
	}
	for _, read := range res.finished {
		if err := h.start(ctx, read, emit); err != nil {
			return err
		}
	}
	return nil
}

// start begins work on a read, once an aligner is free. That wait is what slows
// the fetch when basecalling can't keep up.
func (h *handler) start(ctx context.Context, read *assembledRead, emit stream.Emitter) error {
	var aligner Aligner
	select {
	case aligner = <-h.aligners:
	case <-ctx.Done():
		return ctx.Err()
	case <-h.ctx.Done():
		return h.ctx.Err()
	}
	run := h.markers.Run(read.run)
	h.working.Go(func() {
		defer func() { h.aligners <- aligner }()
		outs, err := h.process(run, read, aligner)
		if err == nil {
			err = h.emit(read, outs, emit)
		}
		if err != nil {
			if h.ctx.Err() == nil {
				emit.Fail(fmt.Errorf("basecalling read %s of run %s: %w", read.id, read.run, err))
			}
			// Nothing may be called final behind a read that failed.
			h.cancel()
		}
	})
	return nil
}

// emit emits what a read is downstream, behind the piece that was cut off it
// before: the offsets that come with the last piece stand for all.
func (h *handler) emit(read *assembledRead, outs []stream.Out, emit stream.Emitter) error {
	if read.after != nil {
		select {
		case <-read.after:
		case <-h.ctx.Done():
			return h.ctx.Err()
		}
	}
	if err := emit.Emit(h.ctx, outs, read.offsets); err != nil {
		return err
	}
	if read.emitted != nil {
		close(read.emitted)
	}
	return nil
}

// process turns a read into the records that it is downstream.
func (h *handler) process(run *streampb.Run, read *assembledRead, aligner Aligner) ([]stream.Out, error) {
	if len(read.parts) == 0 && read.firstPart == 0 {
		h.cfg.Metrics.read(outcomeShort) // a read without any current is still a read
	}
	var outs []stream.Out
	for i, p := range read.parts {
		segments, outcome, err := h.segments(run, read, read.firstPart+i, p.samples, aligner)
		if err != nil {
			return nil, err
		}
		h.cfg.Metrics.read(outcome)
		for _, s := range segments {
			value, err := h.encode(s)
			if err != nil {
				return nil, err
			}
			outs = append(outs, stream.Out{
				Topic: h.cfg.Topics.Reads, Partition: stream.AnyPartition,
				Key: stream.RegionKey(s.GetSample(), s.GetContig(), s.GetRegion()), Value: value,
			})
		}
	}
	return outs, nil
}

// encode makes a segment a record. What is least needed of an ultra-long read is
// left out when it doesn't fit one.
func (h *handler) encode(s *streampb.Segment) ([]byte, error) {
	rec := &streampb.ReadRecord{Body: &streampb.ReadRecord_Segment{Segment: s}}
	value, err := stream.EncodeReads(rec)
	for _, field := range []struct {
		name  string
		bytes *[]byte
	}{{"dwells", &s.Dwells}, {"qualities", &s.Qualities}} {
		if _, large := errors.AsType[*stream.RecordTooLargeError](err); !large {
			break
		}
		if field.name == "dwells" {
			h.cfg.Metrics.strippedSegment()
		}
		h.log.Warn("a segment doesn't fit a record", "read", s.GetReadId(), "bases", s.GetReadLength(), "without", field.name)
		*field.bytes = nil
		value, err = stream.EncodeReads(rec)
	}
	return value, err
}

// segments basecalls and aligns one gapless part of a read.
func (h *handler) segments(run *streampb.Run, read *assembledRead, partNumber int, samples []int16, aligner Aligner) ([]*streampb.Segment, outcome, error) {
	if !h.supports(run) {
		return nil, outcomeUnsupported, nil
	}
	if len(samples) < minSamples {
		return nil, outcomeShort, nil
	}
	called, err := h.cfg.Caller.Call(h.ctx, basecall.Read{
		ID: read.id, Samples: samples, SampleRate: int(run.GetSampleRate()),
		Calibration: signal.Calibration{Offset: read.calibration.offset, Scale: read.calibration.scale},
	})
	if err != nil {
		return nil, 0, err
	}
	if len(called.Sequence) == 0 {
		return nil, outcomeShort, nil
	}
	alignments, err := aligner.Map(read.id, called.Sequence)
	if err != nil {
		return nil, 0, err
	}
	if len(alignments) == 0 {
		return nil, outcomeUnmapped, nil
	}
	r := &align.Read{
		Run: run.GetId(), Sample: run.GetSample(), ID: read.id, Part: uint32(partNumber),
		Seq: called.Sequence, Qualities: called.Qualities, Dwells: called.Dwells(), LastChunkMs: read.lastChunkMS,
	}
	var all []*streampb.Segment
	for i := range alignments {
		ref := h.cfg.Contig(alignments[i].Contig)
		segments, err := align.Segments(r, &alignments[i], ref)
		if err != nil {
			return nil, 0, err
		}
		for _, s := range segments {
			s.Alignment = uint32(i)
		}
		all = append(all, segments...)
	}
	return all, outcomeMapped, nil
}

// Drain waits for the reads in the works.
func (h *handler) Drain(ctx context.Context) error {
	done := make(chan struct{})
	go func() { h.working.Wait(); close(done) }()
	select {
	case <-done:
		return h.ctx.Err()
	case <-ctx.Done():
		return fmt.Errorf("waiting for reads in the works: %w", ctx.Err())
	}
}

// Close drops the reads in the works: not being resolved, they will be
// delivered again.
func (h *handler) Close() error {
	h.cancel()
	h.working.Wait()
	return nil
}

// State is nil: what is not finished is delivered again.
func (h *handler) State() stream.State { return nil }
