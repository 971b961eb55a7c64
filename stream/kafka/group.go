package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/partition"
)

// GroupConfig describes one member of a consumer group that runs one stage.
// The zero value of every field that is not required has a meaning.
type GroupConfig struct {
	// Group is the consumer group's name and Topics its input. Required.
	Group  string
	Topics []string
	// NewHandler makes the stage's logic for an assigned partition. Required.
	NewHandler stream.NewHandler
	// Delivery is what holds between input and output. The zero value is
	// ExactlyOnce.
	Delivery Delivery
	// Transactions bounds the transactors that write what the handlers emit
	// exactly once: one for every assigned partition, so they should share a
	// Space.
	Transactions ProducerConfig
	// Producer writes what the handlers emit at least once. It is shared and
	// outlives the group. Required for AtLeastOnce, else of no use.
	Producer *Producer
	// Stateless skips the replay of records before the committed offset, for
	// handlers that keep nothing from resolved records.
	Stateless bool
	// FromEnd begins every partition at its end when it is assigned, whatever was
	// committed, unless the handler of the generation before has been kept: for
	// handlers whose work is of no worth later. They are taken for stateless.
	FromEnd bool
	// State says where the handlers' states are kept.
	State StateConfig
	// CommitInterval is the least time between two transactions of a partition,
	// zero means 150 ms; the first after a pause is committed at once. Without
	// transactions it is how long resolved offsets go uncommitted, zero means
	// 1 s. A partition with nothing to commit commits nothing.
	CommitInterval time.Duration
	// HeartbeatInterval (zero: 1 s) is also how soon a revocation is noticed.
	// SessionTimeout (zero: 30 s) is how long a silent member stays a member,
	// RebalanceTimeout (zero: 60 s) how long members have to rejoin.
	HeartbeatInterval, SessionTimeout, RebalanceTimeout time.Duration
	// DrainTimeout bounds finishing work in flight when partitions are
	// revoked. Heartbeats have stopped by then, so it must be below
	// SessionTimeout. Zero means 15 s.
	DrainTimeout time.Duration
	// JoinTimeout is how long to wait for a generation before the membership
	// is made anew. Zero means RebalanceTimeout and 30 s.
	JoinTimeout time.Duration
	// Memberships, if set, remembers this member, and takes the one that a killed process
	// has left in it out of the group. Groups of a process share it.
	Memberships *Memberships
	// MaxUnresolved and MaxUnresolvedBytes bound what a partition's handler may
	// hold unresolved before its fetching pauses. Zero means 131,072 records
	// and 512 MiB.
	MaxUnresolved      int
	MaxUnresolvedBytes int64
	// MaxFailures is how many generations in a row may fail without progress
	// before RunGroup gives up. Zero means 5.
	MaxFailures int
	// Fetch bounds the reading of each partition.
	Fetch FetchConfig
	// OnAssigned, if set, is called with the number of assigned partitions and
	// how many of them are live, whenever that changes. Between generations
	// assigned is -1. It must not block.
	OnAssigned func(assigned, live int)

	lagInterval time.Duration // 0: that of the package
}

// Validate returns every fault of c at once, joined.
func (c GroupConfig) Validate() error {
	var errs []error
	if c.Group == "" {
		errs = append(errs, errors.New("no group name"))
	}
	if len(c.Topics) == 0 {
		errs = append(errs, errors.New("no topics"))
	}
	if c.NewHandler == nil {
		errs = append(errs, errors.New("no handler"))
	}
	if c.Delivery == AtLeastOnce && c.Producer == nil {
		errs = append(errs, errors.New("no producer"))
	}
	if err := c.Transactions.Validate(); err != nil {
		errs = append(errs, err)
	}
	d := c.withDefaults()
	if d.HeartbeatInterval*3 > d.SessionTimeout {
		errs = append(errs, fmt.Errorf("heartbeats every %v are too rare for a session of %v, a third of it at most", d.HeartbeatInterval, d.SessionTimeout))
	}
	if d.DrainTimeout >= d.SessionTimeout {
		errs = append(errs, fmt.Errorf("draining for %v outlasts a session of %v", d.DrainTimeout, d.SessionTimeout))
	}
	return errors.Join(errs...)
}

func (c GroupConfig) withDefaults() GroupConfig {
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	if c.Delivery == ExactlyOnce {
		set(&c.CommitInterval, 150*time.Millisecond)
	}
	set(&c.CommitInterval, progressInterval)
	set(&c.Transactions.Linger, transactionLinger)
	set(&c.HeartbeatInterval, time.Second)
	set(&c.SessionTimeout, 30*time.Second)
	set(&c.RebalanceTimeout, time.Minute)
	set(&c.DrainTimeout, 15*time.Second)
	set(&c.JoinTimeout, c.RebalanceTimeout+30*time.Second)
	set(&c.State.Interval, time.Minute)
	if c.MaxUnresolved == 0 {
		c.MaxUnresolved = 1 << 17
	}
	if c.MaxUnresolvedBytes == 0 {
		c.MaxUnresolvedBytes = 512 << 20
	}
	if c.MaxFailures == 0 {
		c.MaxFailures = 5
	}
	if c.OnAssigned == nil {
		c.OnAssigned = func(int, int) {}
	}
	return c
}

const (
	// transactionLinger is how long records of a transaction wait for company. A commit,
	// before which nobody sees them, doesn't wait for them to have lingered.
	transactionLinger = 50 * time.Millisecond
	// commitLinger is how long the first emission after a pause waits for company
	// in its transaction.
	commitLinger = 5 * time.Millisecond
	// progressInterval is how long progress without emissions goes uncommitted.
	progressInterval = time.Second
	// maxOpenSpans pauses a partition whose position might not fit into a commit.
	// A span takes 4 bytes there unless spans are very long, and 566 of them fit.
	maxOpenSpans = 256
)

// machine is what c says of every partition.
func (c *GroupConfig) machine() partition.Config {
	m := partition.Config{
		SnapshotInterval: c.State.Interval,
		ProgressInterval: c.CommitInterval,
		MaxUnresolved:    c.MaxUnresolved, MaxUnresolvedBytes: c.MaxUnresolvedBytes,
	}
	if c.Delivery == ExactlyOnce {
		m.Atomic, m.MaxOpenSpans = true, maxOpenSpans
		m.CommitInterval, m.CommitLinger, m.ProgressInterval = c.CommitInterval, commitLinger, max(c.CommitInterval, progressInterval)
	}
	return m
}

// joinBackoff is how long the library waits after a failed join. A cold
// coordinator answers so for a second or two.
const joinBackoff = 500 * time.Millisecond

// partitionWatch is how often the number of partitions is checked.
const partitionWatch = 30 * time.Second

// member is this process's membership in a group.
type member struct {
	client *Client
	cfg    GroupConfig
	log    *slog.Logger

	// warm are the handlers that the generation before has left, and balancer
	// asks for their partitions.
	warm     map[topicPartition]*kept
	balancer *StickyBalancer

	mu    sync.Mutex
	sizes map[string]int32 // partitions of topics, as they were seen last
}

// sized notes how many partitions a topic has. A change is an error that nobody here can mend: what state has of a key stays where its records went before, and
// those that come now go elsewhere, so that neither handler has all of them. The records are read all the same.
func (m *member) sized(topic string, partitions int32) {
	m.mu.Lock()
	before, known := m.sizes[topic]
	m.sizes[topic] = partitions
	m.mu.Unlock()
	if known && before != partitions && !m.cfg.Stateless {
		m.client.metrics.resized.WithLabelValues(m.cfg.Group, topic).Inc()
		m.log.Error("the number of partitions has changed: records of one key are in two of them, and results of runs under way can't be relied on, FINAL ones neither; process these runs anew "+
			"under another prefix (pore replay --into)", slog.String("topic", topic), slog.Int("before", int(before)), slog.Int("now", int(partitions)))
	}
}

// RunGroup is a member of the group until ctx ends, which makes it drain, leave
// and return nil, or until handlers keep failing.
//
// Every generation has its own workers, one per assigned partition. A worker's
// error ends the generation: the others drain and commit, the member waits and
// joins again, and what was not committed is delivered again.
func RunGroup(ctx context.Context, client *Client, cfg GroupConfig) error {
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("checking settings of group %q: %w", cfg.Group, oneLine(err))
	}
	m := &member{client: client, cfg: cfg.withDefaults(), balancer: NewStickyBalancer(), sizes: make(map[string]int32), log: client.log.With(slog.String("group", cfg.Group))}
	if err := m.run(ctx); err != nil {
		return fmt.Errorf("group %s: %w", cfg.Group, err)
	}
	return nil
}

func (m *member) run(ctx context.Context) error {
	if err := m.findTopics(ctx); err != nil {
		return err
	}
	group, err := m.join()
	if err != nil {
		return err
	}
	defer func() {
		group.close()
		m.remember("")
	}()
	evicting, stopEvicting := context.WithCancel(ctx)
	var evicted sync.WaitGroup
	evicted.Go(func() { m.evictDead(evicting) })
	defer evicted.Wait()
	defer stopEvicting()
	defer m.cool()
	retries := newRetries(m)
	for {
		m.cfg.OnAssigned(-1, 0)
		gen, err := m.nextGeneration(ctx, group)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errNoGeneration):
			m.log.Warn("no generation; joining anew", slog.Duration("after", m.cfg.JoinTimeout))
			m.client.metrics.rebuilds.WithLabelValues(m.cfg.Group).Inc()
			group.close()
			if group, err = m.join(); err != nil {
				return err
			}
			continue
		case err != nil && classify(err) == fatal:
			return fmt.Errorf("joining: %w", explainJoin(err))
		case err != nil:
			m.log.Warn("joining again", slog.Any("error", err))
			continue
		}
		m.remember(gen.MemberID)
		g := newGeneration(m, gen)
		err = g.run(ctx, func(progress bool, err error) time.Duration { return retries.waitAfter(ctx, progress, err) })
		switch {
		case ctx.Err() != nil:
			return nil
		case isPermanent(err):
			return err
		case retries.exhausted():
			return fmt.Errorf("giving up after %d failures in a row: %w", retries.failures, err)
		}
	}
}

// findTopics fails if a topic is not there: the library takes one for a topic without partitions and
// would wait in silence.
func (m *member) findTopics(ctx context.Context) error {
	topics := m.cfg.Topics
	if m.cfg.State.Topic != "" {
		topics = append(slices.Clone(topics), m.cfg.State.Topic)
	}
	for _, topic := range topics {
		if _, err := m.client.Partitions(ctx, topic); err != nil {
			return err
		}
	}
	return nil
}

// retries decides how long a member waits before it joins again, and when it has failed too often
// without progress between.
type retries struct {
	*member
	pause    *backoff.ExponentialBackOff
	failures int // in a row
}

func newRetries(m *member) *retries {
	return &retries{
		member: m,
		pause:  backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxInterval(10*time.Second), backoff.WithMaxElapsedTime(0)),
	}
}

func (r *retries) exhausted() bool { return r.failures >= r.cfg.MaxFailures }

// waitAfter takes how a generation ended, and returns how long to wait. It runs while the membership
// is still held: waiting there keeps a failing member from rebalancing the group at full speed.
func (r *retries) waitAfter(ctx context.Context, progress bool, err error) time.Duration {
	if progress {
		r.failures = 0
		r.pause.Reset()
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrFenced):
		// Another member has a partition that was ours, which is how it
		// should be when this one was away for too long.
		wait := r.pause.NextBackOff()
		r.log.Warn("fenced; joining again", slog.Any("error", err), slog.Duration("retry_in", wait))
		return wait
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		// A handler's own work ended with the process before it was drained.
		r.log.Info("stopped with records in work, which are delivered again")
		return 0
	case isPermanent(err):
		return 0
	}
	r.failures++
	r.client.metrics.failures.WithLabelValues(r.cfg.Group).Inc()
	if r.exhausted() {
		return 0
	}
	wait := r.pause.NextBackOff()
	r.log.Error("generation failed", slog.Any("error", err), slog.Int("failures", r.failures), slog.Duration("retry_in", wait))
	return wait
}

// isPermanent reports whether an error would come again with every generation.
func isPermanent(err error) bool {
	_, is := errors.AsType[*stream.Permanent](err)
	return is
}

// remember notes which member this process is. That it can't be noted costs time after a crash alone.
func (m *member) remember(id string) {
	if err := m.cfg.Memberships.joined(m.cfg.Group, id); err != nil {
		m.log.Warn("memberships can't be noted; after a crash the group waits for this session's end", slog.Any("error", err))
	}
}

// cool closes the handlers that nobody goes on with.
func (m *member) cool() {
	for tp, k := range m.warm {
		if err := k.handler.Close(); err != nil {
			m.log.Warn("closing a handler that was kept", slog.String("topic", tp.topic), slog.Int("partition", int(tp.partition)), slog.Any("error", err))
		}
	}
	m.warm = nil
}

func (m *member) join() (*membership, error) {
	return newMembership(kafka.ConsumerGroupConfig{
		ID:                m.cfg.Group,
		Brokers:           m.client.cfg.Brokers,
		Topics:            m.cfg.Topics,
		GroupBalancers:    []kafka.GroupBalancer{m.balancer, kafka.RangeGroupBalancer{}},
		HeartbeatInterval: m.cfg.HeartbeatInterval,
		SessionTimeout:    m.cfg.SessionTimeout,
		RebalanceTimeout:  m.cfg.RebalanceTimeout,
		JoinGroupBackoff:  joinBackoff,
		// Partitions that are added later have to be read as well.
		WatchPartitionChanges:  true,
		PartitionWatchInterval: partitionWatch,
		StartOffset:            kafka.FirstOffset,
		Timeout:                m.client.cfg.RequestTimeout,
	}, m.client.dialer)
}

func (m *member) nextGeneration(ctx context.Context, group *membership) (*kafka.Generation, error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.JoinTimeout)
	defer cancel()
	gen, err := group.Next(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, errNoGeneration
	}
	return gen, err
}

// classicRefusedError says that the brokers have no groups of the kind that this package is in.
type classicRefusedError struct{ err error }

func (e *classicRefusedError) Error() string {
	return "the brokers refuse consumer groups of the classic protocol: " + e.err.Error()
}

func (e *classicRefusedError) Unwrap() error { return e.err }

// explainJoin explains a join's error: it distinguishes a broker without classic groups from one that is too
// old for something else. The library has no error of its own for a request that a broker doesn't list.
func explainJoin(err error) error {
	missing := fmt.Sprintf("no matching versions were found between the client and the broker for API key %d", protocol.JoinGroup)
	if errors.Is(err, kafka.UnsupportedVersion) || strings.Contains(err.Error(), missing) {
		return &classicRefusedError{err}
	}
	return err
}

// errNoGeneration says that the group has not become one in time.
var errNoGeneration = errors.New("no generation")

// generation is one assignment of partitions to this member.
type generation struct {
	*member
	gen      *kafka.Generation
	workers  int
	progress bool // records were resolved and committed

	mu   sync.Mutex
	live int
}

func newGeneration(m *member, gen *kafka.Generation) *generation {
	return &generation{member: m, gen: gen}
}

// run works on the assigned partitions until the generation ends, ctx ends or
// a worker fails, then drains and commits. settle is given whether there was progress
// and the error that ended it, and returns how long to wait before rejoining.
func (g *generation) run(ctx context.Context, settle func(progress bool, err error) time.Duration) error {
	var err error
	ended := make(chan struct{})
	// The library waits for this function before it rejoins, and when it
	// returns the generation is over.
	g.gen.Start(func(revoked context.Context) {
		defer close(ended)
		err = g.work(ctx, revoked)
		wait := settle(g.progress, err)
		select {
		case <-time.After(wait):
		case <-revoked.Done():
			// The group moves on; joining it late would hold up the others.
		case <-ctx.Done():
		}
	})
	<-ended
	return err
}

func (g *generation) work(parent, revoked context.Context) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	stop := context.AfterFunc(revoked, func() { cancel(kafka.ErrGenerationEnded) })
	defer stop()
	// Draining outlives the caller's context, that is what it is for.
	drain, endDrain := context.WithCancel(context.WithoutCancel(parent))
	defer endDrain()
	startClock := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(g.cfg.DrainTimeout, endDrain)
		context.AfterFunc(drain, func() { timer.Stop() })
	})
	defer startClock()

	var failOnce sync.Once
	var failure error
	fail := func(err error) {
		failOnce.Do(func() { failure = err })
		cancel(errFailed)
	}
	workers, warm := g.assign(fail)
	g.cool()
	g.workers = len(workers)
	g.client.metrics.rebalances.WithLabelValues(g.cfg.Group).Inc()
	g.log.Info("generation begins", slog.Int("generation", int(g.gen.ID)), slog.Int("partitions", g.workers))
	g.cfg.OnAssigned(g.workers, 0)

	left := make(map[topicPartition]*kept)
	var running sync.WaitGroup
	for tp, w := range workers {
		running.Go(func() {
			k := w.run(ctx, drain, warm[tp])
			g.mu.Lock()
			defer g.mu.Unlock()
			g.progress = g.progress || w.machine.Progress()
			if k != nil {
				left[tp] = k
			}
		})
	}
	running.Go(func() { g.keepLag(ctx, workers) })
	<-ctx.Done() // whatever ends it: revocation, shutdown, failure
	running.Wait()
	g.warm = left
	g.claim()
	// fail is no longer called: every worker is closed, and callbacks that come
	// later change nothing.
	failOnce.Do(func() {})
	g.log.Info("generation ends", slog.Int("generation", int(g.gen.ID)), slog.Any("cause", context.Cause(ctx)))
	return failure
}

// assign makes the workers of this generation, and takes the handlers that were kept for them.
func (g *generation) assign(fail func(error)) (workers map[topicPartition]*worker, warm map[topicPartition]*kept) {
	workers, warm = make(map[topicPartition]*worker), make(map[topicPartition]*kept)
	for topic, assignments := range g.gen.Assignments {
		g.client.forget(topic) // more partitions may be why there is a new generation
		for _, a := range assignments {
			tp := topicPartition{topic, int32(a.ID)}
			workers[tp] = newWorker(g, topic, tp.partition, fail)
			warm[tp] = g.warm[tp]
			delete(g.warm, tp)
		}
	}
	return workers, warm
}

// claim asks for the partitions whose handlers have been kept, in the next
// generation. Of a partition whose handler has not, another member makes one as
// well as this one does.
func (g *generation) claim() {
	owned := make(map[string][]int32)
	var bytes int64
	for tp, k := range g.warm {
		owned[tp.topic] = append(owned[tp.topic], tp.partition)
		if k.snapshots != nil {
			bytes += int64(k.snapshots.bytes)
		}
	}
	g.balancer.Claim(g.gen.ID, owned, bytes)
}

// errFailed is the cause of a generation's end that was a worker's error.
var errFailed = errors.New("a partition failed")

// onState counts the live workers.
func (g *generation) onState(old, state partition.State) {
	g.mu.Lock()
	switch {
	case old != partition.Live && state == partition.Live:
		g.live++
	case old == partition.Live && state != partition.Live:
		g.live--
	default:
		g.mu.Unlock()
		return
	}
	live := g.live
	g.mu.Unlock()
	g.client.metrics.live.WithLabelValues(g.cfg.Group).Set(float64(live))
	g.cfg.OnAssigned(g.workers, live)
}
