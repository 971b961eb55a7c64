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

	"golang.org/x/sync/semaphore"

	"github.com/porestream/porestream/align/primer"
	alignstage "github.com/porestream/porestream/align/stage"
	"github.com/porestream/porestream/basecall/finish"
	"github.com/porestream/porestream/signal/vbz"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/stream/trace"
)

// Name is the stage's name in dead letters, metrics and logs.
const Name = "basecall"

// Config says what the stage works with.
type Config struct {
	Topics stream.Topics
	// ReadsPartitions is the number of partitions of the reads topic.
	ReadsPartitions int32
	// Models gives each run its model. Without it all runs have one, which Caller, InFlight,
	// SampleRates, ModifierOf, Name and Finisher say: see [Model].
	Models      Models
	Caller      Caller
	InFlight    bool
	SampleRates []int
	ModifierOf  func(run *streampb.Run) Modifier
	// Aligners are the aligners that all partitions of the process share; as
	// many reads are in the works at a time as there are of them.
	Aligners []alignstage.Aligner
	// Contig returns the upper-case sequence of a contig that an alignment
	// names.
	Contig func(name string) []byte
	// Model names the model for snapshots: its name, and a hash of what it computes. With
	// Models it says that there are several.
	Model string
	// Name is what the model is called in segments; empty: they don't name it.
	Name string
	// MinQuality is the mean quality, on the Phred scale, below which a read is not
	// aligned; zero: all are.
	MinQuality float64
	// Finisher says which samples a run that is taken apart has; of one model, it finishes its
	// reads too.
	Finisher *finish.Finisher
	// Controls names the negative controls of a run whose samples are known; nil: it has those that it comes with.
	Controls func(*streampb.Run) []*streampb.Control
	// Primers are those that the reads' amplicons were made with; nil: none.
	Primers *primer.Scheme
	// Partial is how much signal, by the run's clock, is called of a read when it is first
	// published before its end, and then whenever it has doubled; zero: never. It takes
	// a model that calls reads in flight.
	Partial time.Duration
	// Publish has called reads published on the topic of basecalls, as those of their model
	// or, if that has no name, of one of this name; empty: they are not.
	Publish string
	// MaxReadSamples is where a read is cut to bound memory. Zero means 16 Mi
	// samples, about an hour of one pore.
	MaxReadSamples int
	// MaxSignalMemory bounds the bytes of signal that the handlers of a process
	// hold: one half for open reads, packed and with what has been called of them,
	// of which each partition of the topic has an equal share, and one half for
	// reads in the works, of which reads that wait for their model have a quarter. A partition that
	// needs more cuts its largest read; for the works the fetch waits. Zero means
	// 4 GiB.
	MaxSignalMemory int64
	// RunTimeout is how long nothing of an open run may come before a partition
	// ends it. Zero means 6 hours.
	RunTimeout time.Duration
	Metrics    *Metrics     // nil: none
	Logger     *slog.Logger // nil: none
	// Tracer takes the spans of traced reads; nil: none are.
	Tracer *trace.Tracer
}

// leastOpenBytes is the least share of memory that a partition needs: a chunk of
// the largest size fits in.
const leastOpenBytes = 1 << 20

// minSamples is the shortest current that can hold an alignable read: about
// twenty bases. What is below is counted as too short.
const minSamples = 200

// New returns the maker of the stage's handlers.
func New(cfg Config) stream.NewHandler {
	cfg.MaxReadSamples = cmp.Or(cfg.MaxReadSamples, 16<<20)
	cfg.MaxSignalMemory = cmp.Or(cfg.MaxSignalMemory, 4<<30)
	cfg.RunTimeout = cmp.Or(cfg.RunTimeout, 6*time.Hour)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	free := make(chan tools, len(cfg.Aligners))
	for _, a := range cfg.Aligners {
		free <- tools{aligner: a, unpack: &unpacker{codec: vbz.NewCodec()}}
	}
	works := newWorks(free, cfg.MaxSignalMemory/2)
	var choose func(*streampb.Run) Choice
	if cfg.Models != nil {
		choose = cfg.Models.Choose
	} else {
		cfg.Models = one{&Model{Name: cfg.Name, Caller: cfg.Caller, InFlight: cfg.InFlight, SampleRates: cfg.SampleRates, Finisher: cfg.Finisher, ModifierOf: cfg.ModifierOf}}
	}
	return func(_ string, partition, partitions int32) (stream.Handler, error) {
		if len(cfg.Aligners) == 0 {
			return nil, errors.New("basecall stage: no aligner is configured")
		}
		openBytes := cfg.MaxSignalMemory / 2 / int64(partitions)
		if openBytes < leastOpenBytes {
			return nil, fmt.Errorf("basecall stage: %d bytes of memory for signal are too few for %d partitions: it takes %d",
				cfg.MaxSignalMemory, partitions, 2*leastOpenBytes*int64(partitions))
		}
		var runs *choices
		if choose != nil {
			runs = newChoices(choose)
		}
		h := &handler{
			cfg: cfg, partition: partition, partitions: partitions, works: works,
			fold: newFold(cfg.MaxReadSamples, int(openBytes), runs), background: stream.NewBackground(),
			calls: newCalls(), spans: newSpans(cfg.Tracer),
			log: cfg.Logger.With("stage", Name, "partition", partition),
		}
		h.placer = &alignstage.Placer{
			Topics: cfg.Topics, Contig: cfg.Contig, MinQuality: cfg.MinQuality, Finisher: cfg.Finisher, Primers: cfg.Primers, Publish: cfg.Publish != "",
			Metrics: cfg.Metrics.placer(), Logger: h.log,
		}
		h.timeouts = stream.RunTimeouts{
			Runs: &h.fold.runs, Topic: cfg.Topics.Signal, Partition: partition, Encode: stream.SignalMarker,
			Timeout: cfg.RunTimeout, OnTimeout: cfg.Metrics.timeout, Logger: h.log,
		}
		return h, nil
	}
}

// works is what the handlers of a process share to work with.
type works struct {
	tools chan tools // taking them is the right to work on a read
	bytes *semaphore.Weighted
	limit int64
	// waiting bounds the samples of reads whose model is being loaded, so that they leave the
	// rest to reads of other runs.
	waiting *semaphore.Weighted
}

// waitingShare is the part of the works' memory that reads may have whose model is being loaded.
const waitingShare = 4

func newWorks(free chan tools, limit int64) *works {
	return &works{tools: free, bytes: semaphore.NewWeighted(limit), limit: limit, waiting: semaphore.NewWeighted(limit / waitingShare)}
}

// bytesOf is what a read takes of the works' memory; one that is larger has all to itself.
func (w *works) bytesOf(read *assembledRead) int64 {
	return min(2*int64(read.samples()), w.limit) // as int16
}

// tools are what work on one read takes for itself.
type tools struct {
	aligner alignstage.Aligner
	unpack  *unpacker
}

var (
	_ stream.Handler = (*handler)(nil)
	_ stream.Ticker  = (*handler)(nil)
)

// handler is the stage's worker for one signal partition: it does what the fold
// says has to follow from a record.
//
// All that follows from one record is one emission, and the record is resolved
// with it: a new owner either finds the record open, and then nothing of it
// downstream, or all.
type handler struct {
	cfg                   Config
	partition, partitions int32
	works                 *works
	fold                  *fold
	calls                 *calls // of open reads
	spans                 spans  // likewise
	models                alignstage.ModelNames
	held                  int // bytes of open reads that the metrics know of
	placer                *alignstage.Placer
	timeouts              stream.RunTimeouts
	log                   *slog.Logger
	background            *stream.Background // the reads in the works
}

// Replay folds in a record whose effects are downstream already.
func (h *handler) Replay(_ context.Context, rec stream.Record) error {
	_, err := h.fold.apply(rec)
	h.reportHeld()
	if err != nil && !stream.IsBadRecord(err) {
		return err
	}
	return nil
}

// Handle processes one signal record. After an error the handler has seen the
// record and not done what follows from it, so it is of no more use.
func (h *handler) Handle(ctx context.Context, rec stream.Record, emit stream.Emitter) error {
	e, err := h.fold.apply(rec)
	h.reportHeld()
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

func (h *handler) reportHeld() {
	if now := h.fold.assembler.held; now != h.held {
		h.cfg.Metrics.holds(now - h.held)
		h.held = now
	}
}

func (h *handler) deadLetter(ctx context.Context, rec stream.Record, cause error, emit stream.Emitter) error {
	h.cfg.Metrics.deadLetter(cause)
	h.log.Warn("record goes to the dead letters", "offset", rec.Offset, "err", cause)
	return emit.Emit(ctx, []stream.Out{stream.DeadLetter(h.cfg.Topics.DeadLetters, rec, Name, cause)}, []int64{rec.Offset})
}

// follow does what has to follow from a record.
func (h *handler) follow(ctx context.Context, rec stream.Record, e effects, emit stream.Emitter) error {
	h.cfg.Metrics.followed(e)
	if e.chunk != nil && !e.added.duplicate {
		h.spans.touch(rec, e.chunk)
	}
	switch {
	case e.end:
		return h.end(ctx, rec, e, emit)
	case e.marker != nil:
		return h.begin(ctx, rec, e.marker, emit)
	}
	if err := h.feed(ctx, e.added.grown); err != nil {
		return err
	}
	h.publishPartial(e.added.grown, emit)
	if len(e.reads) == 0 {
		return emit.Emit(ctx, nil, []int64{rec.Offset})
	}
	c := newCompletion(len(e.reads), func(outs []stream.Out) error { return emit.Emit(h.background.Context(), outs, []int64{rec.Offset}) })
	return h.call(ctx, e.reads, c, emit)
}

// feed calls what is due of an open read to which samples came. It waits while
// there is too much to compute, which slows the fetch.
func (h *handler) feed(ctx context.Context, read *assembledRead) error {
	if read == nil {
		return nil
	}
	run := h.fold.runs.Run(read.run)
	ctx, cancel := h.whileAlive(ctx)
	defer cancel()
	n, err := h.calls.feed(ctx, run, read, func() (*Model, func(), error) { return h.inFlight(run) })
	h.cfg.Metrics.early(n)
	if errors.Is(err, errAtItsEnd) {
		return nil
	}
	return err
}

// errAtItsEnd says that a read is called when it has ended, or when its model is there.
var errAtItsEnd = errors.New("not called in flight")

// inFlight returns the model of a run whose reads are called while their signal comes.
func (h *handler) inFlight(run *streampb.Run) (*Model, func(), error) {
	m, done, ok, err := h.cfg.Models.Ready(run, h.fold.choices.of(run))
	switch {
	case !ok || errors.Is(err, ErrNoModel):
		return nil, nil, errAtItsEnd
	case err != nil:
		return nil, nil, err
	case !m.InFlight || !m.supports(run):
		done()
		return nil, nil, errAtItsEnd
	}
	return m, done, nil
}

// whileAlive returns a context that ends with ctx and with the reads in the works.
func (h *handler) whileAlive(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(h.background.Context(), cancel)
	return ctx, func() { stop(); cancel() }
}

func (h *handler) begin(ctx context.Context, rec stream.Record, mk *streampb.Marker, emit stream.Emitter) error {
	if m, only := h.cfg.Models.(one); only && !m.supports(mk.GetRun()) {
		run := mk.GetRun()
		h.log.Error("run can't be basecalled: the model was made for another sample rate", "run", run.GetId(),
			"sample_rate", run.GetSampleRate(), "model_sample_rates", h.cfg.SampleRates)
	}
	outs, err := h.forward(mk, false)
	if err != nil {
		return err
	}
	return emit.Emit(ctx, outs, []int64{rec.Offset})
}

// forward is this partition's own marker for every partition downstream.
func (h *handler) forward(mk *streampb.Marker, end bool) ([]stream.Out, error) {
	own := h.fold.runs.Forward(mk, h.partition, h.partitions)
	if h.cfg.Finisher != nil {
		if end && h.partition == 0 {
			alignstage.WarnUnlisted(own.GetRun(), h.cfg.Finisher, h.log)
		}
		own.Run = alignstage.Demultiplexed(own.Run, h.cfg.Finisher)
	}
	own.Run = alignstage.Controlled(own.Run, h.cfg.Controls)
	if !end {
		own.EndStatus = streampb.EndStatus_END_STATUS_UNSPECIFIED
	}
	value, err := stream.ReadsMarker(own, end)
	if err != nil {
		return nil, err
	}
	return stream.Broadcast(h.cfg.Topics.Reads, h.cfg.ReadsPartitions, own, end, value), nil
}

// end calls the reads that a run's end has finished and passes the marker on,
// behind them and behind every read before. Emit keeps the order of each
// downstream partition, so it is enough that every read has been emitted.
func (h *handler) end(ctx context.Context, rec stream.Record, e effects, emit stream.Emitter) error {
	h.timeouts.Forget(e.marker.GetRun().GetId())
	defer h.spans.ended(e.marker.GetRun().GetId())
	var outs []stream.Out
	c := newCompletion(len(e.reads), func(all []stream.Out) error { outs = all; return nil })
	if err := h.call(ctx, e.reads, c, emit); err != nil {
		return err
	}
	if err := h.background.Wait(ctx); err != nil {
		return err
	}
	if e.marker != nil {
		markers, err := h.forward(e.marker, true)
		if err != nil {
			return err
		}
		outs = append(outs, markers...)
		endings, err := h.fold.runs.EndingOut(h.cfg.Topics.Runs, e.marker.GetRun(), h.partition, h.partitions)
		if err != nil {
			return err
		}
		outs = append(outs, endings...)
	}
	return emit.Emit(ctx, outs, []int64{rec.Offset})
}

// Tick ends runs of which nothing has come for too long.
func (h *handler) Tick(ctx context.Context, now time.Time, emit stream.Emitter) error {
	return h.timeouts.Tick(ctx, now, emit)
}

// completion gathers what follows from the reads that one record has finished,
// and emits it in their order when all have been called.
type completion struct {
	mu   sync.Mutex
	left int
	outs [][]stream.Out
	emit func([]stream.Out) error
}

func newCompletion(reads int, emit func([]stream.Out) error) *completion {
	return &completion{left: reads, outs: make([][]stream.Out, reads), emit: emit}
}

func (c *completion) done(i int, outs []stream.Out) error {
	c.mu.Lock()
	c.outs[i] = outs
	c.left--
	last := c.left == 0
	c.mu.Unlock()
	if !last {
		return nil
	}
	return c.emit(slices.Concat(c.outs...))
}

// call begins work on the reads that a record has finished, each once there
// are tools and memory for it. That wait is what slows the fetch when
// basecalling can't keep up. A read whose model is still being loaded waits for that
// beside the others, and keeps neither tools nor their memory from them; only when such
// reads have as much memory as they may does the fetch wait.
func (h *handler) call(ctx context.Context, reads []*assembledRead, c *completion, emit stream.Emitter) error {
	for i, read := range reads {
		if gaps, samples := read.missing(); gaps > 0 {
			h.cfg.Metrics.missing(gaps, samples)
			h.log.Warn("signal is missing", "run", read.run, "channel", read.channel, "read", read.id, "gaps", gaps, "samples", samples)
		}
		w := &work{read: read, run: h.fold.runs.Run(read.run), since: time.Now(), span: h.spans.take(read)}
		choice := h.fold.choices.of(w.run)
		var ready bool
		var err error
		if w.model, w.done, ready, err = h.cfg.Models.Ready(w.run, choice); err != nil && !errors.Is(err, ErrNoModel) {
			return fmt.Errorf("finding the model of run %s: %w", read.run, err)
		}
		admit := func(ctx context.Context) error { return h.admit(ctx, w) }
		if ready {
			if err = admit(ctx); err != nil {
				w.giveBack()
				return err
			}
		} else if admit, err = h.await(ctx, w, choice); err != nil {
			return err
		}
		w.began, w.handed = h.calls.take(read)
		h.background.Go(func() {
			err := error(nil)
			if !ready {
				err = admit(h.background.Context())
			}
			if err != nil {
				closeCalls(w.began)
			} else {
				w.outs, err = h.process(w)
			}
			w.giveBack()
			if err == nil {
				err = c.done(i, w.outs)
			}
			if err == nil {
				w.span.emitted(len(w.outs))
			}
			if err != nil {
				h.background.Fail(fmt.Errorf("basecalling read %s of run %s: %w", read.id, read.run, err), emit)
			}
		})
	}
	return nil
}

// work is a read that is in the works.
type work struct {
	read   *assembledRead
	run    *streampb.Run
	model  *Model // nil: the run has none
	done   func() // gives the model back; nil without one
	began  []*call
	handed *partialResult
	since  time.Time // when the read was finished
	span   *readSpan
	tools  tools
	free   func() // gives tools and memory back; nil: there are none yet
	outs   []stream.Out
}

// giveBack gives back what the read has of what all share.
func (w *work) giveBack() {
	if w.done != nil {
		w.done()
	}
	if w.free != nil {
		w.free()
	}
	w.done, w.free = nil, nil
}

// admit waits until there are tools for a read and memory for its samples.
func (h *handler) admit(ctx context.Context, w *work) error {
	ctx, cancel := h.whileAlive(ctx)
	defer cancel()
	bytes := h.works.bytesOf(w.read)
	if err := h.works.bytes.Acquire(ctx, bytes); err != nil {
		return err
	}
	select {
	case t := <-h.works.tools:
		w.tools, w.free = t, func() { h.works.tools <- t; h.works.bytes.Release(bytes) }
		w.span.admitted()
		return nil
	case <-ctx.Done():
		h.works.bytes.Release(bytes)
		return ctx.Err()
	}
}

// await has a read wait for its model, which is being loaded, once the reads that wait
// already leave memory for it. The function that it returns waits for the model, and then
// until the read is admitted.
func (h *handler) await(ctx context.Context, w *work, choice Choice) (func(context.Context) error, error) {
	ctx, cancel := h.whileAlive(ctx)
	defer cancel()
	bytes := min(h.works.bytesOf(w.read), h.works.limit/waitingShare)
	if err := h.works.waiting.Acquire(ctx, bytes); err != nil {
		return nil, err
	}
	h.cfg.Metrics.waits(1)
	return func(ctx context.Context) error {
		defer func() {
			h.works.waiting.Release(bytes)
			h.cfg.Metrics.waits(-1)
		}()
		var err error
		if w.model, w.done, err = h.cfg.Models.Use(ctx, w.run, choice); err != nil && !errors.Is(err, ErrNoModel) {
			return err
		}
		return h.admit(ctx, w)
	}, nil
}

// Drain waits for the reads in the works.
func (h *handler) Drain(ctx context.Context) error { return h.background.Wait(ctx) }

// Close drops the reads in the works: not being resolved, they will be
// delivered again.
func (h *handler) Close() error {
	h.background.Close()
	h.calls.close()
	h.cfg.Metrics.holds(-h.held)
	h.held = 0
	return nil
}

// State is what the records so far have left open.
func (h *handler) State() stream.State { return &state{fold: h.fold, model: h.cfg.Model} }
