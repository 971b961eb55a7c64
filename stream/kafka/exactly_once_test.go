package kafka

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/embedded"
)

// chain is a handler whose every effect depends on all records before: it emits
// the record's value and a hash of the values so far. Every third record is
// finished a while after it was handled, behind others.
type chain struct {
	out     string
	hash    uint64
	n       uint64
	pending []stream.Record
	hashes  []uint64
	emit    stream.Emitter
}

func (c *chain) fold(rec stream.Record) {
	for _, b := range rec.Value {
		c.hash = (c.hash ^ uint64(b)) * 0x100000001b3
	}
	c.n++
}

func (c *chain) Replay(_ context.Context, rec stream.Record) error {
	c.fold(rec)
	return nil
}

func (c *chain) Handle(ctx context.Context, rec stream.Record, emit stream.Emitter) error {
	c.fold(rec)
	if c.n%3 == 0 {
		c.emit, c.pending, c.hashes = emit, append(c.pending, rec), append(c.hashes, c.hash)
		if len(c.pending) < 4 {
			return nil
		}
		return c.finish(ctx)
	}
	return emit.Emit(ctx, []stream.Out{c.effect(rec, c.hash)}, []int64{rec.Offset})
}

func (c *chain) effect(rec stream.Record, hash uint64) stream.Out {
	return stream.Out{Topic: c.out, Partition: rec.Partition, Key: []byte("k"), Value: fmt.Appendf(nil, "%s %x", rec.Value, hash)}
}

func (c *chain) finish(ctx context.Context) error {
	for len(c.pending) > 0 {
		rec, hash := c.pending[0], c.hashes[0]
		c.pending, c.hashes = c.pending[1:], c.hashes[1:]
		if err := c.emit.Emit(ctx, []stream.Out{c.effect(rec, hash)}, []int64{rec.Offset}); err != nil {
			return err
		}
	}
	return nil
}

func (c *chain) Drain(ctx context.Context) error { return c.finish(ctx) }
func (c *chain) Close() error                    { return nil }
func (c *chain) State() stream.State             { return c }

// Tick finishes what would wait for more records.
func (c *chain) Tick(ctx context.Context, _ time.Time, _ stream.Emitter) error {
	return c.finish(ctx)
}

func (c *chain) Format() stream.StateFormat {
	return stream.StateFormat{Stage: "chain", Version: 1, Fingerprint: "f"}
}

func (c *chain) Sections() []stream.Section {
	return []stream.Section{{Name: "hash", Version: c.n}}
}

func (c *chain) AppendSection(b []byte, _ string) ([]byte, error) {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, c.hash), c.n), nil
}

func (c *chain) RestoreSection(_ string, b []byte) error {
	if len(b) != 16 {
		return fmt.Errorf("%d bytes", len(b))
	}
	c.hash, c.n = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	return nil
}

// want are the effects of the values 0 to n-1, in order.
func (c *chain) want(n int) []string {
	ref := &chain{}
	var out []string
	for i := range n {
		ref.fold(stream.Record{Value: []byte(strconv.Itoa(i))})
		out = append(out, fmt.Sprintf("%d %x", i, ref.hash))
	}
	return out
}

// lab is a cluster in virtual time with members that work on a topic of one
// partition.
type lab struct {
	t       *testing.T
	cluster *kfake.Cluster
	network kfake.VirtualNetwork
	c       *Client // the test's own
	p       *Producer
	cfg     GroupConfig
	written int
}

func inLab(t *testing.T, cfg GroupConfig, test func(t *testing.T, l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &lab{t: t, cfg: cfg}
		var err error
		l.cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(embedded.Patient(l.network.Listen)), kfake.SeedTopics(1, "in", "out"))
		require.NoError(t, err)
		defer l.cluster.Close()
		l.c = l.client()
		defer l.c.Close()
		state := slices.DeleteFunc(stream.NewTopics("").Settings(1), func(s stream.TopicSettings) bool { return s.Name != "state" })
		require.NoError(t, l.c.EnsureTopics(t.Context(), state, 1))
		l.p, err = NewProducer(t.Context(), l.c, ProducerConfig{})
		require.NoError(t, err)
		defer func() { assert.NoError(t, l.p.Close(context.WithoutCancel(t.Context()))) }()
		l.cfg.Group, l.cfg.Topics = "g", []string{"in"}
		l.cfg.State.Topic = "state"
		l.cfg.NewHandler = func(string, int32, int32) (stream.Handler, error) {
			return &chain{out: "out"}, nil
		}
		test(t, l)
	})
}

func (l *lab) client() *Client {
	c, err := Connect(l.t.Context(), Config{Brokers: l.cluster.ListenAddrs(), Dial: l.network.DialContext})
	require.NoError(l.t, err)
	return c
}

// mortal is a member that can be killed: its network goes, and with it all that
// it could still do.
type mortal struct {
	*running
	c       *Client
	network *cuttable
}

func (l *lab) start() *mortal {
	network := &cuttable{network: &l.network}
	c, err := Connect(l.t.Context(), Config{Brokers: l.cluster.ListenAddrs(), Dial: network.dial})
	require.NoError(l.t, err)
	cfg := l.cfg
	var p *Producer
	if cfg.Delivery == AtLeastOnce {
		p, err = NewProducer(l.t.Context(), c, ProducerConfig{})
		require.NoError(l.t, err)
		cfg.Producer = p
	}
	ctx, cancel := context.WithCancel(l.t.Context())
	r := &running{stop: cancel, err: make(chan error, 1)}
	go func() {
		err := RunGroup(ctx, c, cfg)
		if p != nil {
			closing, end := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer end()
			_ = p.Close(closing)
		}
		c.Close()
		r.err <- err
	}()
	return &mortal{running: r, c: c, network: network}
}

func (m *mortal) kill() {
	m.network.cut(true)
	m.stop()
	<-m.err
}

func (l *lab) write(n int) {
	var values []string
	for range n {
		values = append(values, strconv.Itoa(l.written))
		l.written++
	}
	put(l.t, l.p, "in", 0, values...)
}

// settled waits until the group is one of so many members. Members that are killed
// while they join keep the embedded broker waiting for very long.
func (l *lab) settled(members int) {
	_, err := l.cluster.WaitGroupStable(l.t.Context(), "g", members)
	require.NoError(l.t, err)
}

// finish waits until everything that was written has had its effects.
func (l *lab) finish() []string {
	for range 1200 {
		if offset, _, err := l.c.CommittedOffset(l.t.Context(), "g", "in", 0); err == nil && offset == int64(l.written) {
			return contents(l.t, l.c, "out")[0]
		}
		time.Sleep(time.Second) // virtual
	}
	l.t.Fatal("the records are not finished after twenty minutes")
	return nil
}

// values are effects in the order of their records.
func values(effects []string) []string {
	out := slices.Clone(effects)
	number := func(s string) int {
		n, _, _ := strings.Cut(s, " ")
		i, _ := strconv.Atoi(n)
		return i
	}
	slices.SortStableFunc(out, func(a, b string) int { return number(a) - number(b) })
	return out
}

// Members are killed at any moment, stopped in peace, and joined by others. In
// transactions every effect is visible once and is what the records before it
// lead to; without, nothing is missing and what appears again is the same.
func TestKilledMembers(t *testing.T) {
	for _, delivery := range []Delivery{ExactlyOnce, AtLeastOnce} {
		t.Run(delivery.String(), func(t *testing.T) {
			for seed := range uint64(6) {
				inLab(t, GroupConfig{Delivery: delivery, State: StateConfig{Interval: 3 * time.Second}}, func(t *testing.T, l *lab) {
					rng := rand.New(rand.NewPCG(seed, 9))
					members := []*mortal{l.start()}
					for range 25 {
						l.write(1 + rng.IntN(20))
						time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
						l.settled(len(members))
						switch i := rng.IntN(len(members)); rng.IntN(4) {
						case 0:
							members[i].kill()
							members[i] = l.start()
							time.Sleep(40 * time.Second) // virtual: the session of the dead has ended
						case 1:
							members[i].end(t)
							members[i] = l.start()
						case 2:
							if len(members) < 3 {
								members = append(members, l.start())
							}
						}
					}
					l.write(10)
					got := values(l.finish())
					if delivery == AtLeastOnce {
						got = slices.Compact(got)
					}
					require.Equal(t, (&chain{}).want(l.written), got, "seed %d", seed)
					for _, m := range members {
						m.end(t)
					}
				})
			}
		})
	}
}

// A new owner begins with the newest snapshot and replays what came after it,
// though the log no longer holds what came before.
func TestRestoreFromSnapshot(t *testing.T) {
	inLab(t, GroupConfig{State: StateConfig{Interval: time.Minute}}, func(t *testing.T, l *lab) {
		a := l.start()
		l.write(24)
		l.finish()
		time.Sleep(70 * time.Second) // virtual: a snapshot is taken
		l.write(36)
		l.finish()
		a.kill()
		require.NoError(t, l.cluster.DeleteRecords("in", 0, 24))
		b := l.start()
		l.write(12)
		require.Equal(t, (&chain{}).want(72), values(l.finish()))
		assert.EqualValues(t, 36, testutil.ToFloat64(b.c.metrics.replayed.WithLabelValues("g")))
		b.end(t)

		t.Log("a stop in peace leaves a snapshot of everything")
		c := l.start()
		l.write(12)
		l.finish()
		assert.Zero(t, testutil.ToFloat64(c.c.metrics.replayed.WithLabelValues("g")))
		c.end(t)
	})
}

// Without a snapshot, and without the records, a start is refused.
func TestRefusalWithoutRecords(t *testing.T) {
	inLab(t, GroupConfig{MaxFailures: 1}, func(t *testing.T, l *lab) {
		a := l.start()
		l.write(24)
		l.finish()
		a.kill()
		require.NoError(t, l.cluster.DeleteRecords("in", 0, 24))
		b := l.start()
		err := <-b.err
		require.ErrorContains(t, err, "topic in partition 0: the state at offset 24 can't be restored: there is no usable snapshot, and of the records since 0 the log holds only those from 24 on")
		require.ErrorContains(t, err, "to go on from what there is: pore reset")
	})
}

// A zombie's transaction does not come through: its last commit is held up until
// another member has the partition.
func TestZombie(t *testing.T) {
	inLab(t, GroupConfig{}, func(t *testing.T, l *lab) {
		a := l.start()
		l.write(12)
		l.finish()
		held := make(chan struct{})
		once := true
		l.cluster.ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
			l.cluster.KeepControl()
			if once {
				once = false
				l.cluster.SleepControl(func() { <-held })
			}
			return nil, nil, false
		})
		l.write(12)
		synctest.Wait()
		time.Sleep(time.Second) // virtual
		a.network.cut(true)     // it is alone and still thinks it has the partition
		b := l.start()
		time.Sleep(40 * time.Second) // virtual: the session ends
		a.network.cut(false)
		close(held)
		l.write(24)
		require.Equal(t, (&chain{}).want(48), values(l.finish()))
		time.Sleep(time.Minute)
		require.Equal(t, (&chain{}).want(48), values(contents(t, l.c, "out")[0]))
		a.end(t)
		b.end(t)
	})
}
