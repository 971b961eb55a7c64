package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/embedded"
	"github.com/porestream/porestream/stream/streamtest"
)

// inBubble runs a test in virtual time against a cluster on a network in
// memory.
func inBubble(t *testing.T, test func(t *testing.T, cluster *kfake.Cluster, c *Client, p *Producer)) {
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(embedded.Patient(network.Listen)), kfake.SeedTopics(2, "in", "out"))
		require.NoError(t, err)
		defer cluster.Close()
		c, err := Connect(t.Context(), Config{Brokers: cluster.ListenAddrs(), Dial: network.DialContext})
		require.NoError(t, err)
		defer c.Close()
		p, err := NewProducer(t.Context(), c, ProducerConfig{})
		require.NoError(t, err)
		defer func() { assert.NoError(t, p.Close(context.WithoutCancel(t.Context()))) }()
		test(t, cluster, c, p)
	})
}

// An hour with the settings of production: the generation holds, one partition
// is paused all the while, and a second member takes over its share within
// seconds.
func TestAnHourInAGroup(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *kfake.Cluster, c *Client, p *Producer) {
		j := newJournal()
		cfg := GroupConfig{Group: "g", Topics: []string{"in"}, Producer: p, MaxUnresolved: 3,
			NewHandler: func(topic string, partition, _ int32) (stream.Handler, error) {
				e := &echo{journal: j, life: j.begin(topic, partition), out: "out"}
				if partition == 1 {
					e.handle = func(context.Context, stream.Record, stream.Emitter) error { return nil } // resolves nothing
				}
				return e, nil
			}}
		a := startMember(t, c, cfg)
		put(t, p, "in", 1, numbered("stuck", 0, 5)...)
		for minute := range 60 {
			put(t, p, "in", 0, fmt.Sprint(minute))
			time.Sleep(time.Minute) // virtual
		}
		assert.Equal(t, 60+3, j.distinct())
		assert.Len(t, j.lives, 2, "one generation all the while")
		assert.Equal(t, []int64{60, 0}, committed(t, c, "g", "in", 2))

		began := time.Now()
		b := startMember(t, c, cfg)
		_, err := cluster.WaitGroupStable(t.Context(), "g", 2)
		require.NoError(t, err)
		assert.Less(t, time.Since(began), 3*time.Second, "a rebalance is noticed at the next heartbeat")
		a.end(t)
		b.end(t)
	})
}

// A member whose joins are never answered makes its membership anew.
func TestNoGenerationIsNoticed(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *kfake.Cluster, c *Client, p *Producer) {
		cluster.ControlKey(int16(kmsg.JoinGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			return nil, nil, true // handled, without a response
		})
		j := newJournal()
		r := startMember(t, c, GroupConfig{Group: "g", Topics: []string{"in"}, Producer: p, JoinTimeout: 20 * time.Second,
			NewHandler: func(topic string, partition, _ int32) (stream.Handler, error) {
				return &echo{journal: j, life: j.begin(topic, partition), out: "out"}, nil
			}})
		time.Sleep(30 * time.Second) // virtual
		assert.Positive(t, testutil.ToFloat64(c.metrics.rebuilds.WithLabelValues("g")))
		r.stop()
		require.NoError(t, <-r.err)
	})
}

// A handler that fails waits longer from time to time before it is tried again,
// and keeps its membership meanwhile.
func TestFailuresBackOff(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *kfake.Cluster, c *Client, p *Producer) {
		put(t, p, "in", 0, "poison")
		var tries []time.Time
		err := RunGroup(t.Context(), c, GroupConfig{Group: "g", Topics: []string{"in"}, Producer: p, MaxFailures: 6,
			NewHandler: func(topic string, partition, _ int32) (stream.Handler, error) {
				j := newJournal()
				e := &echo{journal: j, life: j.begin(topic, partition)}
				e.handle = func(context.Context, stream.Record, stream.Emitter) error {
					tries = append(tries, time.Now())
					return fmt.Errorf("can't digest")
				}
				return e, nil
			}})
		require.ErrorContains(t, err, "giving up after 6 failures in a row: processing topic in partition 0: handling offset 0: can't digest")
		require.Len(t, tries, 6)
		assert.Greater(t, tries[5].Sub(tries[4]), tries[1].Sub(tries[0]))
	})
}

// Shutdown does not wait for a join that nobody answers.
func TestShutdownWhileJoining(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *kfake.Cluster, c *Client, p *Producer) {
		joining := make(chan struct{}, 10)
		cluster.ControlKey(int16(kmsg.JoinGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			joining <- struct{}{}
			return nil, nil, true
		})
		r := startMember(t, c, GroupConfig{Group: "g", Topics: []string{"in"}, Producer: p,
			NewHandler: func(string, int32, int32) (stream.Handler, error) { return nil, nil }})
		<-joining
		began := time.Now()
		r.end(t)
		assert.LessOrEqual(t, time.Since(began), 2*closeGrace)
	})
}

// Partitions that are added to a topic are read within a minute, and a line says once what that has broken.
func TestAddedPartitionsAreRead(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *kfake.Cluster, c *Client, p *Producer) {
		said := new(strings.Builder)
		c.log = slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelError}))
		j := newJournal()
		r := startMember(t, c, GroupConfig{Group: "g", Topics: []string{"in"}, Producer: p,
			NewHandler: func(topic string, partition, _ int32) (stream.Handler, error) {
				return &echo{journal: j, life: j.begin(topic, partition), out: "in-echo"}, nil
			}})
		require.NoError(t, c.EnsureTopics(t.Context(), []stream.TopicSettings{{Name: "in-echo", Partitions: 3}}, 1))
		put(t, p, "in", 1, "old")
		time.Sleep(time.Minute) // virtual
		res, err := (&kafka.Client{Addr: c.addr, Transport: c.transport}).CreatePartitions(t.Context(), &kafka.CreatePartitionsRequest{
			Topics: []kafka.TopicPartitionsConfig{{Name: "in", Count: 3}}})
		require.NoError(t, err)
		require.NoError(t, res.Errors["in"])
		put(t, p, "in", 2, "new")
		time.Sleep(time.Minute) // virtual
		assert.Equal(t, 2, j.distinct())
		assert.Equal(t, []int64{0, 1, 1}, committed(t, c, "g", "in", 3))
		r.end(t)
		assert.Equal(t, 1, strings.Count(said.String(), "\n"), said.String())
		assert.Contains(t, said.String(), "the number of partitions has changed: records of one key are in two of them")
		assert.Contains(t, said.String(), "group=g topic=in before=2 now=3")
		assert.InDelta(t, 1, testutil.ToFloat64(c.metrics.resized.WithLabelValues("g", "in")), 0)
	})
}

// cuttable is a network that can be cut off, with all its connections.
type cuttable struct {
	network *kfake.VirtualNetwork
	mu      sync.Mutex
	off     bool
	conns   []net.Conn
}

func (c *cuttable) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.off {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ENETUNREACH}
	}
	conn, err := c.network.DialContext(ctx, network, address)
	if err == nil {
		c.conns = append(c.conns, conn)
	}
	return conn, err
}

func (c *cuttable) cut(off bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = off
	if off {
		for _, conn := range c.conns {
			conn.Close()
		}
		c.conns = nil
	}
}

// A member loses its network in the middle of its work, another takes over,
// the first comes back. No record is lost and no commit goes back.
func TestMemberIsCutOffAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(embedded.Patient(network.Listen)), kfake.SeedTopics(2, "in", "out"))
		require.NoError(t, err)
		defer cluster.Close()
		var commits []int64
		cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Observe: true, Count: -1, When: func(r kmsg.Request) bool {
			req := r.(*kmsg.OffsetCommitRequest)
			for _, topic := range req.Topics {
				for _, p := range topic.Partitions {
					if p.Partition == 0 {
						commits = append(commits, p.Offset)
					}
				}
			}
			return true
		}})
		shaky := &cuttable{network: &network}
		j := newJournal()
		member := func(dial func(context.Context, string, string) (net.Conn, error)) (*Client, *Producer, *running) {
			c, err := Connect(t.Context(), Config{Brokers: cluster.ListenAddrs(), Dial: dial})
			require.NoError(t, err)
			p, err := NewProducer(t.Context(), c, ProducerConfig{})
			require.NoError(t, err)
			return c, p, startMember(t, c, GroupConfig{Group: "g", Topics: []string{"in"}, Producer: p,
				NewHandler: func(topic string, partition, _ int32) (stream.Handler, error) {
					return &echo{journal: j, life: j.begin(topic, partition), out: "out"}, nil
				}})
		}
		ca, pa, a := member(shaky.dial)
		cb, pb, b := member(network.DialContext)
		defer cb.Close()
		defer ca.Close()
		written := 0
		write := func() {
			for range 50 {
				put(t, pb, "in", int32(written%2), fmt.Sprint(written))
				written++
			}
		}
		handled := func() {
			streamtest.Eventually(t.Context(), t, "records handled", func() bool { return j.distinct() == written })
		}
		write()
		handled()
		shaky.cut(true)
		write()
		handled() // the other member has everything once the first one's session is over
		shaky.cut(false)
		write()
		time.Sleep(2 * time.Minute) // virtual; the first member is back
		write()
		handled()
		time.Sleep(5 * time.Second) // virtual
		assert.Equal(t, []int64{100, 100}, committed(t, cb, "g", "in", 2))
		assert.IsNonDecreasing(t, commits)
		info, err := cluster.WaitGroupStable(t.Context(), "g", 2)
		require.NoError(t, err)
		assert.Equal(t, 2, info.NumAssigned())
		a.end(t)
		b.end(t)
		require.NoError(t, pa.Close(t.Context()))
		echoed := make(map[string]bool)
		for _, values := range contents(t, cb, "out") {
			for _, v := range values {
				echoed[v] = true
			}
		}
		assert.Len(t, echoed, written)
		require.NoError(t, pb.Close(t.Context()))
	})
}

// Send blocks while the limit is in flight and goes on when space comes free.
func TestSendBlocksAtTheByteLimit(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *kfake.Cluster, c *Client, _ *Producer) {
		held := make(chan struct{})
		holding := true
		cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			if holding {
				holding = false
				cluster.SleepControl(func() { <-held })
			}
			return nil, nil, false
		})
		p := newProducer(t, c, ProducerConfig{Linger: -1, MaxBufferedBytes: 10_000})
		durable := 0
		send := func(ctx context.Context) error {
			return p.Send(ctx, []stream.Out{{Topic: "out", Value: make([]byte, 4000)}}, func(error) { durable++ })
		}
		require.NoError(t, send(t.Context()))
		require.NoError(t, send(t.Context()))
		ctx, cancel := context.WithCancelCause(t.Context())
		blocked := make(chan error, 1)
		go func() { blocked <- send(ctx) }()
		synctest.Wait()
		assert.Empty(t, blocked, "the third Send went through")
		impatient := errors.New("impatient")
		cancel(impatient)
		require.ErrorIs(t, <-blocked, impatient)
		go func() { blocked <- send(t.Context()) }()
		synctest.Wait()
		assert.Empty(t, blocked)
		close(held)
		require.NoError(t, <-blocked)
		require.NoError(t, p.Flush(t.Context()))
		assert.Equal(t, 3, durable)
		assert.EqualValues(t, 3, cluster.PartitionInfo("out", 0).HighWatermark)
		require.NoError(t, p.Close(t.Context()))
	})
}

// A record's callback may still be running, on another goroutine, when a commit
// begins. The position that goes with the commit is asked for after Hold, so it
// would leave out what the callback resolves, while the record is committed.
func TestFlushWaitsForCallbacksThatAreRunning(t *testing.T) {
	type sender interface {
		Send(ctx context.Context, outs []stream.Out, onWritten func(error)) error
		Close(ctx context.Context) error
	}
	for _, tt := range []struct {
		name string
		make func(t *testing.T, c *Client) (sender, func(context.Context) error)
	}{
		{"producer", func(t *testing.T, c *Client) (sender, func(context.Context) error) {
			p := newProducer(t, c, ProducerConfig{Linger: -1})
			return p, p.Flush
		}},
		{"transactor", func(t *testing.T, c *Client) (sender, func(context.Context) error) {
			tr, err := NewTransactor(t.Context(), c, "t", ProducerConfig{Linger: -1})
			require.NoError(t, err)
			return tr, tr.Hold
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, _ *kfake.Cluster, c *Client, _ *Producer) {
				s, flush := tt.make(t, c)
				running, finish, resolved := make(chan struct{}), make(chan struct{}), false
				require.NoError(t, s.Send(t.Context(), []stream.Out{{Topic: "out", Value: []byte("v")}}, func(err error) {
					assert.NoError(t, err)
					close(running)
					<-finish
					resolved = true
				}))
				<-running
				flushed := make(chan error, 1)
				go func() { flushed <- flush(t.Context()) }()
				synctest.Wait()
				assert.Empty(t, flushed, "the callback has not returned")
				close(finish)
				require.NoError(t, <-flushed)
				assert.True(t, resolved)
				assert.NoError(t, s.Close(t.Context()))
			})
		})
	}
}

// However long records linger in a transaction, its commit doesn't wait for that: not those of any partition, nor those of the
// transaction after it.
func TestCommitsDoNotLinger(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *kfake.Cluster, c *Client, _ *Producer) {
		tr, err := NewTransactor(t.Context(), c, "t", ProducerConfig{Linger: time.Hour})
		require.NoError(t, err)
		began := time.Now()
		for range 3 {
			for p := range int32(2) {
				require.NoError(t, tr.Send(t.Context(), []stream.Out{{Topic: "out", Partition: p, Value: []byte("v")}}, nil))
			}
			require.NoError(t, tr.Commit(t.Context(), nil))
		}
		assert.Less(t, time.Since(began), time.Second)
		assert.EqualValues(t, 3*2, cluster.PartitionInfo("out", 0).HighWatermark, "a record and a marker for each")
		require.NoError(t, tr.Close(t.Context()))
	})
}
