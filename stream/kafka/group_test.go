package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streamtest"
)

// journal notes what the handlers of a test were given.
type journal struct {
	mu      sync.Mutex
	lives   []*life
	handled map[string]int // value to times
}

// life is one handler's.
type life struct {
	topic            string
	partition        int32
	replayed, lively []int64
	closed           bool
}

func newJournal() *journal { return &journal{handled: make(map[string]int)} }

func (j *journal) begin(topic string, partition int32) *life {
	j.mu.Lock()
	defer j.mu.Unlock()
	l := &life{topic: topic, partition: partition}
	j.lives = append(j.lives, l)
	return l
}

// distinct counts the different values that were handled.
func (j *journal) distinct() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.handled)
}

// echo is a handler that emits every value again to the same partition.
type echo struct {
	*journal
	*life
	out    string
	handle func(ctx context.Context, rec stream.Record, emit stream.Emitter) error // overrides
	close  func(ctx context.Context) error
}

func (e *echo) Replay(_ context.Context, rec stream.Record) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.replayed = append(e.replayed, rec.Offset)
	return nil
}

func (e *echo) Handle(ctx context.Context, rec stream.Record, emit stream.Emitter) error {
	e.mu.Lock()
	e.lively = append(e.lively, rec.Offset)
	e.handled[string(rec.Value)]++
	e.mu.Unlock()
	if e.handle != nil {
		return e.handle(ctx, rec, emit)
	}
	return emit.Emit(ctx, []stream.Out{{Topic: e.out, Partition: rec.Partition, Key: rec.Key, Value: rec.Value}}, []int64{rec.Offset})
}

func (e *echo) Close() error        { return nil }
func (e *echo) State() stream.State { return nil }

func (e *echo) Drain(ctx context.Context) error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	if e.close != nil {
		return e.close(ctx)
	}
	return nil
}

// impatient makes the group protocol fast enough for tests.
func impatient(cfg GroupConfig) GroupConfig {
	cfg.CommitInterval = 20 * time.Millisecond
	cfg.HeartbeatInterval = 50 * time.Millisecond
	cfg.SessionTimeout = 10 * time.Second
	cfg.RebalanceTimeout = 10 * time.Second
	cfg.DrainTimeout = 5 * time.Second
	return cfg
}

// running is a member in a goroutine.
type running struct {
	stop context.CancelFunc
	err  chan error
}

func startMember(t *testing.T, c *Client, cfg GroupConfig) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{stop: cancel, err: make(chan error, 1)}
	go func() { r.err <- RunGroup(ctx, c, cfg) }()
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *running) end(t *testing.T) {
	t.Helper()
	r.stop()
	require.NoError(t, <-r.err)
}

// committed asks the group's coordinator, once open transactions have ended.
func committed(t testing.TB, c *Client, group, topic string, partitions int) []int64 {
	t.Helper()
	out := make([]int64, partitions)
	for p := range out {
		var err error
		out[p], _, err = c.CommittedOffset(t.Context(), group, topic, int32(p))
		require.NoError(t, err)
	}
	return out
}

// ends are the ends of a topic's partitions.
func ends(t testing.TB, c *Client, topic string) []int64 {
	t.Helper()
	offsets, err := c.Offsets(t.Context(), topic)
	require.NoError(t, err)
	var out []int64
	for _, o := range offsets {
		out = append(out, o.End)
	}
	return out
}

// Members join and leave while records arrive. Every record must be handled,
// its echo written, and the group must end up at the end of the topic; each
// handler must first replay exactly what lies before its place.
func TestMembersComeAndGo(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		c := dial(t, addr)
		in, out := newTopic(t, c, 4), newTopic(t, c, 4)
		p := newProducer(t, c, ProducerConfig{})
		j := newJournal()
		cfg := impatient(GroupConfig{Group: in, Topics: []string{in}, Producer: p,
			NewHandler: func(topic string, partition, partitions int32) (stream.Handler, error) {
				assert.EqualValues(t, 4, partitions)
				return &echo{journal: j, life: j.begin(topic, partition), out: out}, nil
			}})
		written := 0
		write := func(n int) {
			for i := range n {
				put(t, p, in, int32(i%4), fmt.Sprint("v", written))
				written++
			}
		}
		handled := func() {
			streamtest.Eventually(t.Context(), t, "records handled", func() bool { return j.distinct() == written })
		}
		write(20)
		a := startMember(t, c, cfg)
		handled()
		b := startMember(t, c, cfg)
		write(20)
		handled()
		d := startMember(t, c, cfg)
		write(20)
		handled()
		a.end(t)
		write(20)
		handled()
		d.end(t)
		b.end(t)

		assert.Equal(t, ends(t, c, in), committed(t, c, in, in, 4), "committed offsets")
		echoed := make(map[string]int)
		for _, values := range contents(t, c, out) {
			for _, v := range values {
				echoed[v]++
				assert.Equal(t, 1, echoed[v], "times that %s was echoed", v)
			}
		}
		assert.Len(t, echoed, written, "records that were echoed")
		generations := int(testutil.ToFloat64(c.metrics.warm.WithLabelValues(in)))
		assert.Positive(t, generations, "handlers that were kept")
		for _, l := range j.lives {
			generations++
			assert.True(t, l.closed)
			all := append(slices.Clone(l.replayed), l.lively...)
			for i, o := range all {
				require.EqualValues(t, i, o, "partition %d: replay %v then live %v", l.partition, l.replayed, l.lively)
			}
		}
		assert.Greater(t, generations, 8, "handlers made and kept")
	})
}

// A record that is not resolved holds back the commit, whatever is resolved
// behind it. After a crash it is delivered again, and it alone.
func TestCommitStopsAtTheHole(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		c := dial(t, addr)
		in, out := newTopic(t, c, 1), newTopic(t, c, 1)
		p := newProducer(t, c, ProducerConfig{})
		put(t, p, in, 0, numbered("v", 0, 10)...)
		first := newJournal()
		a := startMember(t, c, impatient(GroupConfig{Group: in, Topics: []string{in}, Producer: p,
			NewHandler: func(topic string, partition, _ int32) (stream.Handler, error) {
				e := &echo{journal: first, life: first.begin(topic, partition), out: out}
				e.handle = func(ctx context.Context, rec stream.Record, emit stream.Emitter) error {
					if rec.Offset == 4 {
						return nil // never resolved
					}
					return emit.Emit(ctx, []stream.Out{{Topic: out, Value: rec.Value}}, []int64{rec.Offset})
				}
				return e, nil
			}}))
		streamtest.Eventually(t.Context(), t, "records handled", func() bool { return first.distinct() == 10 })
		a.end(t)
		require.Equal(t, []int64{4}, committed(t, c, in, in, 1))

		second := newJournal()
		b := startMember(t, c, impatient(GroupConfig{Group: in, Topics: []string{in}, Producer: p,
			NewHandler: func(topic string, partition, _ int32) (stream.Handler, error) {
				return &echo{journal: second, life: second.begin(topic, partition), out: out}, nil
			}}))
		streamtest.Eventually(t.Context(), t, "the commit", func() bool { return committed(t, c, in, in, 1)[0] == 10 })
		b.end(t)
		require.Len(t, second.lives, 1)
		assert.Equal(t, []int64{0, 1, 2, 3, 5, 6, 7, 8, 9}, second.lives[0].replayed)
		assert.Equal(t, []int64{4}, second.lives[0].lively, "the others were dealt with")
		assert.Equal(t, []int64{10}, committed(t, c, in, in, 1))
	})
}

// A record whose effects are not yet durable is not committed, even if it was
// resolved by a later emission without records.
func TestResolvingWaitsForEarlierEmissions(t *testing.T) {
	t.Parallel()
	cluster := streamtest.Kfake(t)
	c := dial(t, cluster.ListenAddrs()[0])
	in, out := newTopic(t, c, 1), newTopic(t, c, 1)
	p := newProducer(t, c, ProducerConfig{Linger: -1})
	put(t, p, in, 0, "a", "b")
	refused := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: out, Err: kerr.NotLeaderForPartition, Count: -1})
	j := newJournal()
	r := startMember(t, c, impatient(GroupConfig{Group: in, Topics: []string{in}, Producer: p, NewHandler: func(topic string, partition, _ int32) (stream.Handler, error) {
		e := &echo{journal: j, life: j.begin(topic, partition)}
		e.handle = func(ctx context.Context, rec stream.Record, emit stream.Emitter) error {
			if rec.Offset == 0 {
				return emit.Emit(ctx, []stream.Out{{Topic: out, Value: rec.Value}}, nil)
			}
			return emit.Emit(ctx, nil, []int64{0, 1})
		}
		return e, nil
	}}))
	require.NoError(t, refused.Wait(t.Context(), 5))
	streamtest.Eventually(t.Context(), t, "records handled", func() bool { return j.distinct() == 2 })
	assert.LessOrEqual(t, committed(t, c, in, in, 1)[0], int64(0))
	refused.Remove()
	streamtest.Eventually(t.Context(), t, "the commit", func() bool { return committed(t, c, in, in, 1)[0] == 2 })
	r.end(t)
}

// Work in flight when a member stops is finished and committed.
func TestShutdownDrains(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		c := dial(t, addr)
		in, out := newTopic(t, c, 2), newTopic(t, c, 2)
		p := newProducer(t, c, ProducerConfig{Linger: 50 * time.Millisecond})
		put(t, p, in, 0, numbered("a", 0, 50)...)
		put(t, p, in, 1, numbered("b", 0, 50)...)
		j := newJournal()
		r := startMember(t, c, impatient(GroupConfig{Group: in, Topics: []string{in}, Producer: p,
			NewHandler: func(topic string, partition, _ int32) (stream.Handler, error) {
				e := &echo{journal: j, life: j.begin(topic, partition), out: out}
				var later []stream.Record
				var emitter stream.Emitter
				e.handle = func(_ context.Context, rec stream.Record, emit stream.Emitter) error {
					later, emitter = append(later, rec), emit
					return nil
				}
				e.close = func(ctx context.Context) error {
					for _, rec := range slices.Backward(later) {
						if err := emitter.Emit(ctx, []stream.Out{{Topic: out, Partition: rec.Partition, Value: rec.Value}}, []int64{rec.Offset}); err != nil {
							return err
						}
					}
					return nil
				}
				return e, nil
			}}))
		streamtest.Eventually(t.Context(), t, "records handled", func() bool { return j.distinct() == 100 })
		r.end(t)
		assert.Equal(t, []int64{50, 50}, committed(t, c, in, in, 2))
		got := contents(t, c, out)
		assert.Len(t, got[0], 50)
		assert.Len(t, got[1], 50)
	})
}

// A handler whose work ends with the process leaves it for the next member, and nothing has failed.
func TestShutdownWithWorkLeftIsNoFailure(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		c := dial(t, addr)
		in := newTopic(t, c, 1)
		p := newProducer(t, c, ProducerConfig{})
		put(t, p, in, 0, numbered("a", 0, 5)...)
		j := newJournal()
		r := startMember(t, c, impatient(GroupConfig{Group: in, Topics: []string{in}, Producer: p,
			NewHandler: func(topic string, partition, _ int32) (stream.Handler, error) {
				return &echo{journal: j, life: j.begin(topic, partition),
					handle: func(context.Context, stream.Record, stream.Emitter) error { return nil },
					close:  func(context.Context) error { return fmt.Errorf("aligning: %w", context.Canceled) },
				}, nil
			}}))
		streamtest.Eventually(t.Context(), t, "records handled", func() bool { return j.distinct() == 5 })
		r.end(t)
		assert.Zero(t, testutil.ToFloat64(c.metrics.failures.WithLabelValues(in)))
		assert.LessOrEqual(t, committed(t, c, in, in, 1)[0], int64(0), "the records are delivered again")
	})
}

// The bound on unresolved records pauses the partition and not the membership.
func TestUnresolvedRecordsAreBounded(t *testing.T) {
	t.Parallel()
	cluster := streamtest.Kfake(t)
	c := dial(t, cluster.ListenAddrs()[0])
	in := newTopic(t, c, 1)
	p := newProducer(t, c, ProducerConfig{})
	put(t, p, in, 0, numbered("v", 0, 100)...)
	j := newJournal()
	emitters := make(chan stream.Emitter, 100)
	cfg := impatient(GroupConfig{Group: in, Topics: []string{in}, Producer: p, MaxUnresolved: 10,
		NewHandler: func(topic string, partition, _ int32) (stream.Handler, error) {
			e := &echo{journal: j, life: j.begin(topic, partition)}
			e.handle = func(_ context.Context, _ stream.Record, emit stream.Emitter) error {
				emitters <- emit
				return nil
			}
			return e, nil
		}})
	cfg.SessionTimeout, cfg.DrainTimeout = time.Second, 500*time.Millisecond
	r := startMember(t, c, cfg)
	for range 10 {
		<-emitters
	}
	heartbeats := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Observe: true, Count: -1})
	require.NoError(t, heartbeats.Wait(t.Context(), 5))
	assert.Equal(t, 10, j.distinct())
	select {
	case <-emitters:
		t.Error("an eleventh record was handed over")
	default:
	}
	j.mu.Lock()
	n := len(j.lives)
	j.mu.Unlock()
	assert.Equal(t, 1, n, "the membership went on")
	r.end(t)
}

func TestFailingHandler(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	type behaviour func(ctx context.Context, tries int32, rec stream.Record, emit stream.Emitter) error
	tests := map[string]struct {
		handle  behaviour
		wantErr string
	}{
		"recovers at the third try": {handle: func(ctx context.Context, tries int32, rec stream.Record, emit stream.Emitter) error {
			if rec.Offset == 3 && tries < 3 {
				return boom
			}
			return emit.Emit(ctx, nil, []int64{rec.Offset})
		}},
		"fails from a goroutine and recovers": {handle: func(ctx context.Context, tries int32, rec stream.Record, emit stream.Emitter) error {
			if rec.Offset == 3 && tries < 3 {
				go emit.Fail(boom)
				<-ctx.Done()
				return ctx.Err()
			}
			return emit.Emit(ctx, nil, []int64{rec.Offset})
		}},
		"never recovers": {handle: func(ctx context.Context, _ int32, rec stream.Record, emit stream.Emitter) error {
			if rec.Offset == 3 {
				return boom
			}
			return emit.Emit(ctx, nil, []int64{rec.Offset})
		}, wantErr: "giving up after 4 failures in a row: processing topic % partition 0: handling offset 3: boom"},
		"emits to a topic that is not there": {handle: func(ctx context.Context, _ int32, rec stream.Record, emit stream.Emitter) error {
			return emit.Emit(ctx, []stream.Out{{Topic: "nowhere"}}, []int64{rec.Offset})
		}, wantErr: "giving up after 4 failures in a row: processing topic % partition 0: handling offset 0: sending: topic nowhere does not exist"},
		"resolves what it was not given": {handle: func(ctx context.Context, _ int32, rec stream.Record, emit stream.Emitter) error {
			return emit.Emit(ctx, nil, []int64{rec.Offset + 100})
		}, wantErr: "giving up after 4 failures in a row: handler of topic % partition 0 resolves offset 10"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := streamtest.Kfake(t)
			c := dial(t, cluster.ListenAddrs()[0])
			in := newTopic(t, c, 1)
			p := newProducer(t, c, ProducerConfig{})
			put(t, p, in, 0, numbered("v", 0, 6)...)
			j := newJournal()
			var tries atomic.Int32
			r := startMember(t, c, impatient(GroupConfig{Group: in, Topics: []string{in}, Producer: p, MaxFailures: 4,
				NewHandler: func(topic string, partition, _ int32) (stream.Handler, error) {
					try := tries.Add(1)
					e := &echo{journal: j, life: j.begin(topic, partition)}
					e.handle = func(ctx context.Context, rec stream.Record, emit stream.Emitter) error {
						return tc.handle(ctx, try, rec, emit)
					}
					return e, nil
				}}))
			if tc.wantErr != "" {
				require.ErrorContains(t, <-r.err, strings.Replace(tc.wantErr, "%", in, 1))
				return
			}
			streamtest.Eventually(t.Context(), t, "the commit", func() bool { return committed(t, c, in, in, 1)[0] == 6 })
			r.end(t)
			assert.EqualValues(t, 3, tries.Load())
		})
	}
}

// TestPermanentErrors end the group at once, with what the handler said.
func TestPermanentErrors(t *testing.T) {
	t.Parallel()
	c := dial(t, streamtest.Kfake(t).ListenAddrs()[0])
	in := newTopic(t, c, 1)
	p := newProducer(t, c, ProducerConfig{})
	put(t, p, in, 0, "v")
	j := newJournal()
	var tries atomic.Int32
	forbidden := errors.New("settings forbid it")
	r := startMember(t, c, impatient(GroupConfig{Group: in, Topics: []string{in}, Producer: p, MaxFailures: 4,
		NewHandler: func(topic string, partition, _ int32) (stream.Handler, error) {
			tries.Add(1)
			e := &echo{journal: j, life: j.begin(topic, partition)}
			e.handle = func(context.Context, stream.Record, stream.Emitter) error { return &stream.Permanent{Err: forbidden} }
			return e, nil
		}}))
	err := <-r.err
	require.ErrorIs(t, err, forbidden)
	require.NotContains(t, err.Error(), "giving up")
	assert.EqualValues(t, 1, tries.Load())
}

func TestGroupRefusesToStart(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		c := dial(t, addr)
		in := newTopic(t, c, 1)
		p := newProducer(t, c, ProducerConfig{})
		put(t, p, in, 0, "v")
		newHandler := func(string, int32, int32) (stream.Handler, error) { return nil, errors.New("no handler today") }

		err := RunGroup(t.Context(), c, GroupConfig{HeartbeatInterval: time.Minute})
		for _, fault := range []string{"no group name", "no topics", "no handler", "too rare"} {
			require.ErrorContains(t, err, fault)
		}
		require.NotContains(t, err.Error(), "\n")

		cfg := impatient(GroupConfig{Group: in, Topics: []string{"nowhere-" + in}, Producer: p, NewHandler: newHandler})
		require.ErrorContains(t, RunGroup(t.Context(), c, cfg), "topic nowhere-"+in+" does not exist")

		cfg.Topics, cfg.MaxFailures = []string{in}, 1
		require.ErrorContains(t, RunGroup(t.Context(), c, cfg), "making the handler: no handler today")

		t.Log("a committed offset beyond the log")
		_, err = (&kafka.Client{Addr: c.addr, Transport: c.transport}).OffsetCommit(t.Context(), &kafka.OffsetCommitRequest{
			GroupID: in, GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{in: {{Partition: 0, Offset: 1000}}}})
		require.NoError(t, err)
		err = RunGroup(t.Context(), c, cfg)
		var gone *OffsetError
		require.ErrorAs(t, err, &gone)
		assert.Equal(t, OffsetError{Topic: in, Partition: 0, Offset: 1000, Start: 0, End: 1}, *gone)
		require.ErrorContains(t, err, "--reset-offsets")
	})
}

// Coordinators that move, load, or are slow to be there cost time, no records.
func TestCoordinatorTrouble(t *testing.T) {
	t.Parallel()
	cluster := streamtest.Kfake(t, kfake.NumBrokers(3))
	c := dial(t, cluster.ListenAddrs()[0])
	in, out := newTopic(t, c, 3), newTopic(t, c, 3)
	p := newProducer(t, c, ProducerConfig{})
	j := newJournal()
	streamtest.Refuse(cluster, kmsg.FindCoordinator, kerr.CoordinatorNotAvailable, 2)
	streamtest.Refuse(cluster, kmsg.JoinGroup, kerr.CoordinatorLoadInProgress, 1)
	streamtest.Refuse(cluster, kmsg.OffsetCommit, kerr.CoordinatorLoadInProgress, 2)
	cfg := impatient(GroupConfig{Group: in, Topics: []string{in}, Producer: p,
		NewHandler: func(topic string, partition, _ int32) (stream.Handler, error) {
			return &echo{journal: j, life: j.begin(topic, partition), out: out}, nil
		}})
	r := startMember(t, c, cfg)
	for i := range 30 {
		put(t, p, in, int32(i%3), fmt.Sprint(i))
		if i%10 == 5 {
			cluster.RehashCoordinators()
			cluster.ShufflePartitionLeaders()
		}
	}
	streamtest.Eventually(t.Context(), t, "records handled", func() bool { return j.distinct() == 30 })
	r.end(t)
	got := make(map[string]bool)
	for _, values := range contents(t, c, out) {
		for _, v := range values {
			got[v] = true
		}
	}
	assert.Len(t, got, 30)
}

func TestOnAssignedReportsReadiness(t *testing.T) {
	t.Parallel()
	cluster := streamtest.Kfake(t)
	c := dial(t, cluster.ListenAddrs()[0])
	in := newTopic(t, c, 2)
	p := newProducer(t, c, ProducerConfig{})
	states := make(chan [2]int, 100)
	cfg := impatient(GroupConfig{Group: in, Topics: []string{in}, Producer: p, Stateless: true,
		NewHandler: func(topic string, partition, _ int32) (stream.Handler, error) {
			j := newJournal()
			return &echo{journal: j, life: j.begin(topic, partition)}, nil
		}})
	cfg.OnAssigned = func(assigned, live int) { states <- [2]int{assigned, live} }
	r := startMember(t, c, cfg)
	assert.Equal(t, [2]int{-1, 0}, <-states)
	assert.Equal(t, [2]int{2, 0}, <-states)
	for s := range states {
		if s == [2]int{2, 2} {
			break
		}
	}
	r.end(t)
}
