package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/partition"
	"github.com/porestream/porestream/stream/planted"
)

const (
	// stalledAfter is how long fetching may pause for unresolved records before a
	// line is logged for the operator.
	stalledAfter = 30 * time.Second
	// tickInterval is how often a [stream.Ticker] is called.
	tickInterval = 2 * time.Second
	// beat is how often a worker without records reads the clock.
	beat = time.Second
	// graceTimeout bounds what is done for a partition once its drain is over:
	// a last commit, the end of the transaction.
	graceTimeout = 3 * time.Second
)

// errWorkerClosed is what Emit answers once the partition is lost.
var errWorkerClosed = errors.New("the partition is no longer ours")

// worker owns an assigned partition for one generation. It asks its machine what to
// do, does it, and reports the result to the machine.
//
// Three goroutines of its own work on the partition: one fetches, one calls the
// handler, one commits. A handler that takes long keeps neither commits nor the
// group's heartbeats waiting.
type worker struct {
	cfg     *GroupConfig
	client  *Client
	log     *slog.Logger
	place   GroupOffsets // whose partition it is; without the offset
	fail    func(error)
	onState func(old, new partition.State)

	out        output // nil until the partition is taken
	assigned   time.Time
	partitions int32 // of the topic
	sized      func(partitions int32)
	from       int64  // where reading begins
	replaying  func() // ends the phase
	nextTick   time.Time
	snapshots  *snapshotter // nil: none are taken

	changed chan struct{} // holds a token when something was settled
	due     chan struct{} // holds a token when the next commit may be due sooner

	mu      sync.Mutex
	machine *partition.Machine
	state   partition.State // the state after the last update
	failed  bool            // what was emitted must not be committed

	position int64     // everything before this offset was handed over
	lagAt    time.Time // when the lag was known last; zero: reading has not begun
}

func newWorker(g *generation, topic string, p int32, fail func(error)) *worker {
	w := &worker{
		cfg: &g.cfg, client: g.client, onState: g.onState, assigned: time.Now(),
		log:     g.log.With(slog.String("topic", topic), slog.Int("partition", int(p))),
		place:   GroupOffsets{Group: g.cfg.Group, Member: g.gen.MemberID, Generation: g.gen.ID, Topic: topic, Partition: p},
		changed: make(chan struct{}, 1),
		due:     make(chan struct{}, 1),
		machine: partition.New(g.cfg.machine()),
		sized:   func(partitions int32) { g.sized(topic, partitions) },
	}
	w.fail = func(err error) {
		w.mu.Lock()
		w.failed = true
		w.mu.Unlock()
		fail(err)
	}
	return w
}

// run takes the partition through its life: ctx ends the fetching, drain the
// finishing. Errors go to fail, at once, because that is what starts the
// clock of a drain. It returns the handler if the next generation may go on
// with it.
func (w *worker) run(ctx, drain context.Context, warm *kept) *kept {
	defer w.client.metrics.forget(w.place.Topic, w.place.Partition)
	defer w.update(func(m *partition.Machine, _ time.Time) { m.Close() })
	handler, err := w.restore(ctx, warm)
	if err != nil {
		w.report(ctx, "restoring", err)
		w.update(func(m *partition.Machine, _ time.Time) { m.Drain() })
		w.closeHandler(ctx, handler)
		w.closeOutput(ctx)
		return nil
	}
	enough := make(chan struct{})
	var committer sync.WaitGroup
	committer.Go(func() { w.commitWhenDue(drain, enough) })
	w.report(ctx, "processing", w.live(ctx, handler))
	w.update(func(m *partition.Machine, _ time.Time) { m.Drain() })
	drained := w.drain(drain, handler)
	close(enough)
	committer.Wait()
	// What another member may take over at once needs no snapshot for it: it
	// replays, or this one has the handler still.
	stopping := !errors.Is(context.Cause(ctx), kafka.ErrGenerationEnded)
	return w.end(drain, handler, drained, stopping)
}

// end commits for the last time and lets go of the partition.
func (w *worker) end(drain context.Context, handler stream.Handler, drained, stopping bool) *kept {
	if !drained {
		w.closeHandler(drain, handler) // ends its work in flight
	}
	// What was finished when the drain ran out of time is committed all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(drain), graceTimeout)
	defer cancel()
	// A commit that fails is made up for by the next owner.
	_ = w.commit(ctx)
	if !drained {
		w.closeOutput(drain)
		return nil
	}
	if stopping {
		w.lastSnapshot(drain, handler)
	}
	w.closeOutput(drain)
	if w.snapshots != nil {
		w.noteSnapshot()
	}
	w.mu.Lock()
	clean, position := w.machine.Clean() && !w.failed && (w.snapshots == nil || w.snapshots.unwritten == 0), w.machine.LastCommitted()
	w.mu.Unlock()
	if !clean {
		w.closeHandler(drain, handler)
		return nil
	}
	return &kept{handler: handler, position: position, partitions: w.partitions, generation: w.place.Generation, snapshots: w.snapshots}
}

func (w *worker) closeHandler(ctx context.Context, handler stream.Handler) {
	if handler != nil {
		w.report(ctx, "closing the handler of", handler.Close())
	}
}

func (w *worker) closeOutput(ctx context.Context) {
	if w.out == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), graceTimeout)
	defer cancel()
	if err := w.out.close(ctx); err != nil {
		w.log.Debug("closing the transactor", slog.Any("error", err))
	}
}

// report fails the generation, unless it is over already: then whatever went
// wrong did so because of that, or will again.
func (w *worker) report(ctx context.Context, doing string, err error) {
	if err != nil && ctx.Err() == nil {
		w.fail(fmt.Errorf("%s topic %s partition %d: %w", doing, w.place.Topic, w.place.Partition, err))
	}
}

// update reports an event to the machine, and the machine's change to the others.
func (w *worker) update(apply func(m *partition.Machine, now time.Time)) {
	now := time.Now()
	w.mu.Lock()
	before, _ := w.machine.CommitDue()
	apply(w.machine, now)
	after, ok := w.machine.CommitDue()
	old, state := w.state, w.machine.State()
	w.state = state
	w.mu.Unlock()
	if ok && !after.Equal(before) {
		signal(w.due)
	}
	if old == state {
		return
	}
	w.log.Debug("partition", slog.String("state", state.String()))
	if state == partition.Replaying {
		w.replaying = w.phase(phaseReplay)
	}
	if state == partition.Live {
		if w.replaying != nil {
			w.replaying()
		}
		w.client.metrics.restore.WithLabelValues(w.cfg.Group).Observe(now.Sub(w.assigned).Seconds())
	}
	w.onState(old, state)
}

// signal leaves a token, unless there is one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// live fetches and handles records until ctx ends. While the handler works on
// one batch the next is being fetched.
func (w *worker) live(ctx context.Context, handler stream.Handler) error {
	ctx, cancel := context.WithCancel(ctx)
	batches := make(chan Batch)
	var fetchErr error
	var fetching sync.WaitGroup
	fetching.Go(func() {
		defer close(batches)
		fetchErr = w.fetch(ctx, batches)
	})
	defer fetching.Wait()
	defer cancel()
	clock := time.NewTicker(beat)
	defer clock.Stop()
	for {
		select {
		case batch, ok := <-batches:
			if !ok {
				return fetchErr
			}
			if err := w.handle(ctx, handler, batch, clock.C); err != nil {
				return err
			}
		case <-clock.C:
		}
		if err := w.passTime(ctx, handler); err != nil {
			return err
		}
	}
}

func (w *worker) fetch(ctx context.Context, batches chan<- Batch) error {
	w.reached(w.from, time.Now())
	fetcher := w.client.NewFetcher(w.place.Topic, w.place.Partition, w.from, w.cfg.Fetch)
	for {
		batch, err := fetcher.Next(ctx)
		if err != nil {
			return err
		}
		select {
		case batches <- batch:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// passTime does what is due between records.
func (w *worker) passTime(ctx context.Context, handler stream.Handler) error {
	now := time.Now()
	w.mu.Lock()
	live := w.machine.State() == partition.Live
	w.mu.Unlock()
	if !live {
		return nil
	}
	if ticker, ok := handler.(stream.Ticker); ok && now.Sub(w.nextTick) >= 0 {
		w.nextTick = now.Add(tickInterval)
		if err := ticker.Tick(ctx, now, w); err != nil {
			return fmt.Errorf("giving the handler the time: %w", err)
		}
	}
	return w.snapshotWhenDue(ctx, handler, now)
}

func (w *worker) handle(ctx context.Context, handler stream.Handler, batch Batch, clock <-chan time.Time) error {
	bytes := 0
	for _, rec := range batch.Records {
		if err := w.awaitCapacity(ctx, handler, clock); err != nil {
			return err
		}
		size := len(rec.Key) + len(rec.Value)
		bytes += size
		if err := w.record(ctx, handler, rec, int64(size)); err != nil {
			return err
		}
	}
	w.update(func(m *partition.Machine, now time.Time) {
		m.Advance(batch.Next, now)
		w.exportUnresolved(m)
		if w.snapshots != nil {
			w.exportUnsaved(w.snapshots.unsaved.since)
		}
	})
	w.client.metrics.moved(w.place.Topic, directionIn, len(batch.Records), bytes)
	now := time.Now()
	w.reached(batch.Next, now)
	w.noteLag(batch.HighWatermark, now)
	return nil
}

// exportUnresolved exports how many records wait for what follows from them, with mu
// held. Of a partition that is given up nothing is exported any more.
func (w *worker) exportUnresolved(m *partition.Machine) {
	if m.State() == partition.Closed {
		return
	}
	n, _ := m.Unresolved()
	w.client.metrics.unresolved.WithLabelValues(w.place.Topic, strconv.Itoa(int(w.place.Partition))).Set(float64(n))
}

func (w *worker) record(ctx context.Context, handler stream.Handler, rec stream.Record, size int64) error {
	var verdict partition.Verdict
	w.update(func(m *partition.Machine, now time.Time) {
		if verdict = m.Record(rec.Offset, size, now); w.snapshots == nil {
			return
		}
		switch verdict {
		case partition.Handle:
			w.snapshots.unsaved.change(now)
		case partition.Replay:
			w.snapshots.unsaved.again(rec.Time)
		}
	})
	if verdict == partition.Replay && planted.Is(planted.LoudReplay) {
		verdict = partition.Handle
	}
	switch verdict {
	case partition.Replay:
		w.client.metrics.replayed.WithLabelValues(w.cfg.Group).Inc()
		if err := handler.Replay(ctx, rec); err != nil {
			return fmt.Errorf("replaying offset %d: %w", rec.Offset, err)
		}
	case partition.Handle:
		if err := handler.Handle(ctx, rec, w); err != nil {
			return fmt.Errorf("handling offset %d: %w", rec.Offset, err)
		}
	}
	return nil
}

// awaitCapacity waits until the handler holds less than it may. Only this partition
// waits; heartbeats go on.
func (w *worker) awaitCapacity(ctx context.Context, handler stream.Handler, clock <-chan time.Time) error {
	full := func() (n int, bytes int64, full bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		n, bytes = w.machine.Unresolved()
		return n, bytes, w.machine.Full()
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
		case <-clock:
			if err := w.passTime(ctx, handler); err != nil {
				return err
			}
		case <-stalled.C:
			w.log.Warn("fetching is paused: the handler resolves nothing",
				slog.Int("unresolved_records", n), slog.Int64("unresolved_bytes", bytes))
		}
		n, bytes, wait = full()
	}
	return nil
}

// drain lets the handler finish and waits for what it has emitted. It reports
// whether all of it is durable.
func (w *worker) drain(ctx context.Context, handler stream.Handler) bool {
	if err := handler.Drain(ctx); err != nil {
		w.report(ctx, "draining the handler of", err)
		return false
	}
	for {
		w.mu.Lock()
		open, failed := w.machine.Emissions(), w.failed
		w.mu.Unlock()
		if open == 0 || failed {
			return open == 0
		}
		select {
		case <-w.changed:
		case <-ctx.Done():
			w.log.Warn("drain ran out of time; the rest will be processed again", slog.Int("open_emissions", open))
			return false
		}
	}
}

var _ stream.Emitter = (*worker)(nil)

// Emit implements [stream.Emitter] for the worker's handler.
func (w *worker) Emit(ctx context.Context, out []stream.Out, resolved []int64) error {
	var n int64
	var ok bool
	w.update(func(m *partition.Machine, now time.Time) { n, ok = m.Emit(len(out), resolved, now) })
	if !ok {
		return errWorkerClosed
	}
	if len(out) == 0 {
		w.settle(n, nil)
		return nil
	}
	err := w.out.Send(ctx, out, func(err error) { w.settle(n, err) })
	if err != nil {
		// Nothing was taken, so nothing is resolved either.
		w.update(func(m *partition.Machine, now time.Time) { m.Withdraw(n, now) })
		signal(w.changed)
	}
	return err
}

// Fail implements [stream.Emitter].
func (w *worker) Fail(err error) {
	w.fail(fmt.Errorf("processing topic %s partition %d: %w", w.place.Topic, w.place.Partition, err))
}

// settle notes that an emission is durable.
func (w *worker) settle(n int64, err error) {
	if err != nil {
		// The emission stays open and so do its offsets. The generation ends and
		// they are delivered again.
		w.fail(fmt.Errorf("emitting from topic %s partition %d: %w", w.place.Topic, w.place.Partition, err))
		signal(w.changed)
		return
	}
	w.update(func(m *partition.Machine, now time.Time) {
		err = m.Settle(n, now)
		w.exportUnresolved(m)
	})
	signal(w.changed)
	if unknown := (*partition.UnknownOffsetError)(nil); errors.As(err, &unknown) {
		w.fail(fmt.Errorf("handler of topic %s partition %d resolves offset %d, which it was not given", w.place.Topic, w.place.Partition, unknown.Offset))
	}
}
