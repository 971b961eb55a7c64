package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/porestream/porestream/adaptive"
	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/signal/vbz"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// Name is the stage's name in metrics and logs.
const Name = "adaptive"

// Caller basecalls the beginning of a read; basecall.Caller is one.
type Caller interface {
	Call(ctx context.Context, read basecall.Read) (basecall.Called, error)
}

// Aligner places the beginning of a read on the reference; minimap.Aligner is one. It
// is used by one goroutine at a time.
type Aligner interface {
	Map(name string, seq []byte) ([]align.Alignment, error)
}

// Config says what the stage works with.
type Config struct {
	Topics stream.Topics
	Policy *adaptive.Policy
	// PolicyName is what decisions name the policy.
	PolicyName string
	Schedule   adaptive.Schedule
	// FirstChannel and LastChannel are those whose reads are decided about; others are
	// left alone, to compare with. Zero means that there is no bound.
	FirstChannel, LastChannel uint32
	Caller                    Caller
	// SampleRates are those that the caller's model was made for, in Hz.
	SampleRates []int
	// Aligners are what all partitions of the process share; there are as many
	// evaluations at a time as there are of them.
	Aligners []Aligner
	// Run is what a run was announced as, or nil while that is not known. It may be
	// called by any goroutine and must not wait.
	Run func(id string) *streampb.Run
	// MaxAge is how old a chunk may be, by its record's time, for its read to be
	// evaluated. Zero means 2 s.
	MaxAge time.Duration
	// MaxWaiting bounds the evaluations that wait for a worker. Zero means 1024.
	MaxWaiting int
	// MaxMemory bounds the bytes of the beginnings of reads that the process holds.
	// Zero means 256 MiB.
	MaxMemory int64
	// DryRun marks decisions as not to be acted upon.
	DryRun  bool
	Metrics *Metrics     // nil: none
	Logger  *slog.Logger // nil: none
}

const sampleBytes = 2

// New returns the maker of the stage's handlers.
func New(cfg Config) stream.NewHandler {
	cfg.MaxAge = cmp.Or(cfg.MaxAge, 2*time.Second)
	cfg.LastChannel = cmp.Or(cfg.LastChannel, ^uint32(0))
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	d := &desk{
		maxAge: cfg.MaxAge, metrics: cfg.Metrics, waiting: waiting{limit: cmp.Or(cfg.MaxWaiting, 1024)},
		idle: slices.Clone(cfg.Aligners), limit: cmp.Or(cfg.MaxMemory, 256<<20) / sampleBytes,
	}
	return func(_ string, partition, _ int32) (stream.Handler, error) {
		switch {
		case len(cfg.Aligners) == 0:
			return nil, errors.New("adaptive stage: no aligner is configured")
		case cfg.Policy == nil:
			return nil, errors.New("adaptive stage: no policy is configured")
		}
		if err := cfg.Schedule.Validate(); err != nil {
			return nil, fmt.Errorf("adaptive stage: %w", err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		return &handler{
			cfg: cfg, desk: d, ctx: ctx, cancel: cancel, codec: vbz.NewCodec(), channels: newChannels(cfg.Schedule),
			log: cfg.Logger.With("stage", Name, "partition", partition),
		}, nil
	}
}

var _ stream.Handler = (*handler)(nil)

// handler is the stage's worker for one signal partition.
type handler struct {
	cfg   Config
	desk  *desk
	codec *vbz.Codec
	log   *slog.Logger
	buf   []int16

	// Lock order: mu is taken alone, apart from the desk's own, which comes behind it.
	mu       sync.Mutex
	channels *channels

	// ctx is the life of the evaluations in the works, which outlive the Handle call that
	// began them; Close ends it.
	ctx     context.Context //nolint:containedctx // see above
	cancel  context.CancelFunc
	working sync.WaitGroup
}

// Replay has nothing to fold in.
func (h *handler) Replay(context.Context, stream.Record) error { return nil }

// Handle takes in one signal record, which is dealt with then: it does not wait for
// evaluations. Bad records are the basecall stage's to keep.
func (h *handler) Handle(ctx context.Context, rec stream.Record, emit stream.Emitter) error {
	if e, err := h.take(rec); err != nil {
		if !stream.IsBadRecord(err) {
			return err
		}
		h.cfg.Metrics.badRecord(err)
		h.log.Debug("leaving a record out", "offset", rec.Offset, "err", err)
	} else if e != nil {
		e.emit = emit
		h.desk.admit(e)
	}
	return emit.Emit(ctx, nil, []int64{rec.Offset})
}

// take folds in a record and returns the evaluation that is due with it, if one is.
func (h *handler) take(rec stream.Record) (*evaluation, error) {
	m, err := stream.DecodeSignal(rec.Value)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch body := m.Body.(type) {
	case *streampb.SignalRecord_Chunk:
		return h.chunk(body.Chunk, rec.Time)
	case *streampb.SignalRecord_RunEnd:
		for _, ch := range h.channels.forget(body.RunEnd.GetRun().GetId()) {
			h.conclude(ch, fateEnded)
		}
	}
	return nil, nil
}

func (h *handler) chunk(c *streampb.SignalChunk, at time.Time) (*evaluation, error) {
	samples, err := h.codec.Decode(h.buf[:0], c.GetVbz(), int(c.GetSampleCount()))
	if err != nil {
		return nil, &stream.DecodeError{Code: stream.CodePayload, Reason: fmt.Sprintf("read %s, chunk %d: %v", c.GetReadId(), c.GetNumber(), err)}
	}
	h.buf = samples
	ch, begins := h.channels.of(c)
	if ch == nil {
		return nil, nil
	}
	if begins {
		h.conclude(ch, fateEnded)
		h.channels.begin(ch, c)
		switch {
		case ch.key.channel < h.cfg.FirstChannel || ch.key.channel > h.cfg.LastChannel:
			h.conclude(ch, fateControl)
		case !h.desk.hasCapacity():
			h.conclude(ch, fateMemory)
		}
	}
	if c.GetEndOfRead() {
		h.conclude(ch, fateEnded)
		return nil, nil
	}
	held := ch.read.Held()
	ch.read.Add(c.GetFirstSample(), samples)
	h.desk.holds(ch.read.Held() - held)
	if ch.read.Over() {
		h.conclude(ch, fateMissed)
		return nil, nil
	}
	return h.begin(ch, at), nil
}

// conclude ends a channel's read, whose fate is this unless it has one.
func (h *handler) conclude(ch *channel, f fate) {
	if ch.read == nil {
		return
	}
	h.desk.holds(-ch.read.Held())
	ch.read.End()
	if ch.fate == fateOpen {
		ch.fate = f
		h.cfg.Metrics.read(f)
	}
}

// begin returns the evaluation that is due at a channel's read, if one is. One that is
// not possible now is given back.
func (h *handler) begin(ch *channel, at time.Time) *evaluation {
	samples, last, due := ch.read.Begin()
	if !due {
		return nil
	}
	run := h.cfg.Run(ch.key.run)
	switch {
	case run == nil:
		ch.read.Done()
		h.cfg.Metrics.skip(skippedUnknownRun)
		return nil
	case !slices.Contains(h.cfg.SampleRates, int(run.GetSampleRate())):
		h.conclude(ch, fateUnsupported)
		return nil
	case time.Since(at) > h.cfg.MaxAge:
		ch.read.Done()
		h.cfg.Metrics.skip(skippedLate)
		return nil
	}
	h.working.Add(1)
	return &evaluation{
		handler: h, run: run, channel: ch, read: ch.read, id: ch.id, number: ch.number, offset: ch.offset, scale: ch.scale,
		samples: samples, last: last, at: at,
	}
}

// giveBack gives an evaluation back to its read: it was skipped, and is due again.
func (h *handler) giveBack(e *evaluation, why skipped) {
	defer h.working.Done()
	h.mu.Lock()
	defer h.mu.Unlock()
	e.read.Done()
	h.cfg.Metrics.skip(why)
}

// work basecalls and aligns the signal of an evaluation, asks the policy, and publishes
// what is decided.
func (h *handler) work(e *evaluation, aligner Aligner) {
	began := time.Now()
	v, err := h.evaluate(e, aligner)
	if err != nil {
		h.giveBack(e, skippedStopped)
		if h.ctx.Err() == nil {
			e.emit.Fail(fmt.Errorf("evaluating read %s of run %s: %w", e.id, e.run.GetId(), err))
		}
		return
	}
	h.cfg.Metrics.evaluated(v, time.Since(began))
	defer h.working.Done()
	if !h.decide(e, v) {
		return
	}
	if err := h.publish(e, v); err != nil {
		// The partition is lost, or ctx has ended: the read goes on, as without a decision.
		h.cfg.Metrics.lost()
		h.log.Debug("a decision could not be published", "read", e.id, "err", err)
	}
}

func (h *handler) evaluate(e *evaluation, aligner Aligner) (adaptive.Verdict, error) {
	called, err := h.cfg.Caller.Call(h.ctx, basecall.Read{
		ID: e.id, Samples: e.samples, SampleRate: int(e.run.GetSampleRate()), Calibration: signal.Calibration{Offset: e.offset, Scale: e.scale},
	})
	if err != nil {
		return adaptive.Verdict{}, err
	}
	var alignments []align.Alignment
	if len(called.Sequence) > 0 {
		if alignments, err = aligner.Map(e.id, called.Sequence); err != nil {
			return adaptive.Verdict{}, err
		}
	}
	return h.cfg.Policy.Decide(adaptive.Evaluation{Bases: len(called.Sequence), Alignments: alignments, Last: e.last}), nil
}

// decide ends an evaluation with its verdict, and reports whether that is the decision
// about a read in progress.
func (h *handler) decide(e *evaluation, v adaptive.Verdict) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := e.read.Held()
	decided := e.read.Evaluated(v)
	h.desk.holds(e.read.Held() - held)
	if decided && e.channel.read == e.read {
		h.conclude(e.channel, fateDecided)
	}
	return decided
}

// publish writes a decision.
func (h *handler) publish(e *evaluation, v adaptive.Verdict) error {
	action := streampb.DecisionAction_DECISION_ACTION_CONTINUE
	if v.Action == adaptive.Unblock {
		action = streampb.DecisionAction_DECISION_ACTION_UNBLOCK
	}
	d := &streampb.Decision{
		Run: e.run.GetId(), Channel: e.channel.key.channel, ReadId: e.id, ReadNumber: e.number, Action: action,
		Policy: h.cfg.PolicyName, Reason: v.Reason.String(), Samples: uint64(len(e.samples)), LastChunkMs: e.at.UnixMilli(), DryRun: h.cfg.DryRun,
	}
	value, err := stream.EncodeDecision(d)
	if err != nil {
		return err
	}
	out := stream.Out{Topic: h.cfg.Topics.Decisions, Partition: stream.AnyPartition, Key: stream.SignalKey(d.GetRun(), d.GetChannel()), Value: value}
	if err := e.emit.Emit(h.ctx, []stream.Out{out}, nil); err != nil {
		return err
	}
	h.cfg.Metrics.decided(v, time.Since(e.at))
	return nil
}

// Drain gives up the evaluations that wait, and waits for those in the works.
func (h *handler) Drain(ctx context.Context) error {
	h.desk.withdraw(h)
	done := make(chan struct{})
	go func() { h.working.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for evaluations in the works: %w", ctx.Err())
	}
}

// Close drops all evaluations and reads.
func (h *handler) Close() error {
	h.cancel()
	h.desk.withdraw(h)
	h.working.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ch := range h.channels.all {
		if ch.read != nil {
			h.desk.holds(-ch.read.Held())
		}
	}
	h.channels = newChannels(h.cfg.Schedule)
	return nil
}

// State is nil: nothing is kept.
func (h *handler) State() stream.State { return nil }
