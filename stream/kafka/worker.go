package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/porestream/porestream/stream"
)

// workerState is where a partition's worker is in its life. It only moves
// forward.
type workerState int

const (
	// workerRestoring replays the log up to the committed offset, muted.
	workerRestoring workerState = iota
	// workerLive hands records to the handler, which may emit.
	workerLive
	// workerDraining fetches nothing more and lets the handler finish.
	workerDraining
	// workerClosed emits nothing and resolves nothing.
	workerClosed
)

func (s workerState) String() string {
	switch s {
	case workerRestoring:
		return "restoring"
	case workerLive:
		return "live"
	case workerDraining:
		return "draining"
	default:
		return "closed"
	}
}

// errWorkerClosed is what Emit answers once the partition is lost.
var errWorkerClosed = errors.New("the partition is no longer ours")

// stalledAfter is how long fetching may pause for unresolved records before an
// operator is told.
const stalledAfter = 30 * time.Second

// worker owns an assigned partition for one generation: its handler, and the
// knowledge of how far it may be committed.
//
// Emissions are numbered. The offsets that an emission resolves count once it
// and all emissions before it are durable: a handler may emit a call first and
// resolve the record behind it later without records, and the record is safe
// only when the call is.
type worker struct {
	cfg       *GroupConfig
	client    *Client
	log       *slog.Logger
	topic     string
	partition int32
	committed int64 // at assignment; negative if none
	fail      func(error)
	onState   func(old, new workerState)

	changed chan struct{} // holds a token when offsets were resolved

	mu        sync.Mutex
	state     workerState
	tracker   *stream.Tracker // nil until live
	start     int64           // the offset that live began with
	emissions *stream.Tracker // emission numbers instead of offsets
	emitted   int64           // the next emission's number
	settled   int64           // emissions below have resolved their offsets
	resolves  map[int64][]int64
}

func newWorker(cfg *GroupConfig, client *Client, topic string, partition int32, committed int64, fail func(error), onState func(old, new workerState)) *worker {
	return &worker{
		cfg: cfg, client: client, topic: topic, partition: partition, committed: committed, fail: fail, onState: onState,
		log:       client.log.With(slog.String("group", cfg.Group), slog.String("topic", topic), slog.Int("partition", int(partition))),
		changed:   make(chan struct{}, 1),
		emissions: stream.NewTracker(0),
		resolves:  make(map[int64][]int64),
	}
}

// run takes the partition through its life: ctx ends the fetching, drain the
// finishing. Errors go to fail, at once, because that is what starts the
// clock of a drain.
func (w *worker) run(ctx, drain context.Context) {
	defer w.enter(workerClosed)
	defer w.client.metrics.forget(w.topic, w.partition)
	started := time.Now()
	position, handler, err := w.restore(ctx)
	if err != nil {
		w.report(ctx, "restoring", err)
	} else {
		w.client.metrics.restore.WithLabelValues(w.cfg.Group).Observe(time.Since(started).Seconds())
		w.mu.Lock()
		w.tracker, w.start = stream.NewTracker(position), position
		w.mu.Unlock()
		w.enter(workerLive)
		w.report(ctx, "processing", w.live(ctx, handler, position))
	}
	w.enter(workerDraining)
	if handler != nil {
		w.drain(drain, handler)
	}
}

// report fails the generation, unless it is over already: then whatever went
// wrong did so because of that, or will again.
func (w *worker) report(ctx context.Context, doing string, err error) {
	if err != nil && ctx.Err() == nil {
		w.fail(fmt.Errorf("%s topic %s partition %d: %w", doing, w.topic, w.partition, err))
	}
}

func (w *worker) enter(s workerState) {
	w.mu.Lock()
	old := w.state
	w.state = s
	w.mu.Unlock()
	w.log.Debug("partition", slog.String("state", s.String()))
	w.onState(old, s)
}

// restore makes the handler and replays the log up to the committed offset. It
// returns where to go on. A handler that is not nil has to be closed.
func (w *worker) restore(ctx context.Context) (int64, stream.Handler, error) {
	bounds, err := w.client.Offsets(ctx, w.topic)
	if err != nil {
		return 0, nil, err
	}
	if int(w.partition) >= len(bounds) {
		return 0, nil, fmt.Errorf("the topic has %d partitions", len(bounds))
	}
	b := bounds[w.partition]
	position := w.committed
	if position < 0 {
		position = b.Start
	}
	if position < b.Start || position > b.End {
		return 0, nil, fmt.Errorf("group %s has lost its place: %w; retention may be too short, or the topic was made anew; "+
			"to go on from what there is: kafka-consumer-groups.sh --bootstrap-server %s --group %s --topic %s:%d --reset-offsets --to-earliest --execute",
			w.cfg.Group, &OffsetError{Topic: w.topic, Partition: w.partition, Offset: position, Start: b.Start, End: b.End},
			w.client.cfg.Brokers[0], w.cfg.Group, w.topic, w.partition)
	}
	handler, err := w.cfg.NewHandler(w.topic, w.partition, int32(len(bounds)))
	if err != nil {
		return 0, nil, fmt.Errorf("making the handler: %w", err)
	}
	if w.cfg.Stateless || position == b.Start {
		return position, handler, nil
	}
	fetcher := w.client.NewFetcher(w.topic, w.partition, b.Start, w.cfg.Fetch)
	for {
		batch, err := fetcher.Next(ctx)
		if err != nil {
			return 0, handler, err
		}
		for _, rec := range batch.Records {
			if rec.Offset >= position {
				return position, handler, nil
			}
			if err := handler.Replay(ctx, rec); err != nil {
				return 0, handler, fmt.Errorf("replaying offset %d: %w", rec.Offset, err)
			}
		}
		if batch.Next >= position {
			return position, handler, nil
		}
		if ctx.Err() != nil {
			return 0, handler, context.Cause(ctx)
		}
	}
}

// live fetches and handles records until ctx ends. While the handler works on
// one batch the next is being fetched.
func (w *worker) live(ctx context.Context, handler stream.Handler, position int64) error {
	ctx, cancel := context.WithCancel(ctx)
	batches := make(chan Batch)
	var fetchErr error
	var fetching sync.WaitGroup
	fetching.Go(func() {
		defer close(batches)
		fetcher := w.client.NewFetcher(w.topic, w.partition, position, w.cfg.Fetch)
		for {
			batch, err := fetcher.Next(ctx)
			if err != nil {
				fetchErr = err
				return
			}
			select {
			case batches <- batch:
			case <-ctx.Done():
				fetchErr = context.Cause(ctx)
				return
			}
		}
	})
	defer fetching.Wait()
	defer cancel()
	for batch := range batches {
		if err := w.handle(ctx, handler, batch); err != nil {
			return err
		}
	}
	return fetchErr
}

func (w *worker) handle(ctx context.Context, handler stream.Handler, batch Batch) error {
	bytes := 0
	for _, rec := range batch.Records {
		if err := w.room(ctx); err != nil {
			return err
		}
		size := len(rec.Key) + len(rec.Value)
		bytes += size
		w.mu.Lock()
		w.tracker.Track(rec.Offset, int64(size))
		w.mu.Unlock()
		if err := handler.Handle(ctx, rec, w); err != nil {
			return fmt.Errorf("handling offset %d: %w", rec.Offset, err)
		}
	}
	w.mu.Lock()
	w.tracker.Advance(batch.Next)
	unresolved, _ := w.tracker.Unresolved()
	w.mu.Unlock()
	m, p := w.client.metrics, strconv.Itoa(int(w.partition))
	m.moved(w.topic, directionIn, len(batch.Records), bytes)
	m.lag.WithLabelValues(w.topic, p).Set(float64(max(batch.HighWatermark-batch.Next, 0)))
	m.unresolved.WithLabelValues(w.topic, p).Set(float64(unresolved))
	return nil
}

// room waits until the handler holds less than it may. Only this partition
// waits; heartbeats go on.
func (w *worker) room(ctx context.Context) error {
	full := func() (int, int64, bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		n, bytes := w.tracker.Unresolved()
		return n, bytes, n >= w.cfg.MaxUnresolved || bytes >= w.cfg.MaxUnresolvedBytes
	}
	n, bytes, wait := full()
	if !wait {
		return nil
	}
	stalled := time.NewTimer(stalledAfter)
	defer stalled.Stop()
	for wait {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-w.changed:
		case <-stalled.C:
			w.log.Warn("fetching is paused: the handler resolves nothing",
				slog.Int("unresolved_records", n), slog.Int64("unresolved_bytes", bytes))
		}
		n, bytes, wait = full()
	}
	return nil
}

// drain lets the handler finish and waits for what it has emitted.
func (w *worker) drain(ctx context.Context, handler stream.Handler) {
	w.report(ctx, "draining the handler of", handler.Drain(ctx))
	w.report(ctx, "closing the handler of", handler.Close())
	for {
		w.mu.Lock()
		open, _ := w.emissions.Unresolved()
		w.mu.Unlock()
		if open == 0 {
			return
		}
		select {
		case <-w.changed:
		case <-ctx.Done():
			w.log.Warn("drain ran out of time; the rest will be processed again", slog.Int("open_emissions", open))
			return
		}
	}
}

var _ stream.Emitter = (*worker)(nil)

// Emit implements [stream.Emitter] for the worker's handler.
func (w *worker) Emit(ctx context.Context, out []stream.Out, resolved []int64) error {
	w.mu.Lock()
	if w.state != workerLive && w.state != workerDraining {
		w.mu.Unlock()
		return errWorkerClosed
	}
	n := w.emitted
	w.emitted++
	w.emissions.Track(n, 0)
	w.resolves[n] = append([]int64(nil), resolved...)
	w.mu.Unlock()
	if len(out) == 0 {
		w.settle(n, nil)
		return nil
	}
	err := w.cfg.Producer.Send(ctx, out, func(err error) { w.settle(n, err) })
	if err == nil {
		return nil
	}
	// Nothing was taken, so nothing is resolved either.
	w.mu.Lock()
	w.resolves[n] = nil
	w.mu.Unlock()
	w.settle(n, nil)
	return err
}

// Fail implements [stream.Emitter].
func (w *worker) Fail(err error) {
	w.fail(fmt.Errorf("processing topic %s partition %d: %w", w.topic, w.partition, err))
}

// settle notes that an emission is durable, and resolves the offsets of all
// that are so without a gap.
//
// Once the worker is closed nothing moves any more: the last commit has been
// taken from the tracker, and another member may own the partition.
func (w *worker) settle(n int64, err error) {
	if err != nil {
		// The emission stays open and so do the offsets of all later ones. The
		// generation ends and they are delivered again.
		w.fail(fmt.Errorf("emitting from topic %s partition %d: %w", w.topic, w.partition, err))
		return
	}
	var unknown []int64
	w.mu.Lock()
	if w.state != workerClosed {
		w.emissions.Resolve(n)
		for ; w.settled < w.emissions.Committable(); w.settled++ {
			for _, offset := range w.resolves[w.settled] {
				if !w.tracker.Resolve(offset) {
					unknown = append(unknown, offset)
				}
			}
			delete(w.resolves, w.settled)
		}
	}
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
	if len(unknown) > 0 {
		w.fail(fmt.Errorf("handler of topic %s partition %d resolves offset %d, which it was not given", w.topic, w.partition, unknown[0]))
	}
}

// committable is the offset that may be committed, and whether records have
// been resolved to get there; ok is false before there is one.
func (w *worker) committable() (offset int64, moved, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tracker == nil {
		return 0, false, false
	}
	offset = w.tracker.Committable()
	return offset, offset > w.start, true
}
