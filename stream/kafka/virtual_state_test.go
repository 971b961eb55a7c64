package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/embedded"
)

// tallies counts the records of each key and emits every count: whatever is lost,
// doubled or restored wrongly shows in its output. Keys share sections.
type tallies struct {
	counts   map[string]uint64
	versions map[string]uint64
	clock    uint64
	restored *atomic.Int64 // sections, of all tallies
}

func (h *tallies) section(key string) string {
	return fmt.Sprint("shelf-", len(key)%4, key[len(key)-1]%4)
}

func (h *tallies) Refold(rec stream.Record) error {
	_, err := h.Fold(rec)
	return err
}

func (h *tallies) Fold(rec stream.Record) ([]stream.Out, error) {
	key := string(rec.Key)
	h.counts[key]++
	h.clock++
	h.versions[h.section(key)] = h.clock
	return []stream.Out{{Topic: "out", Partition: rec.Partition, Key: rec.Key, Value: fmt.Append(nil, h.counts[key])}}, nil
}

func (h *tallies) Format() stream.StateFormat {
	return stream.StateFormat{Stage: "tallies", Version: 1, Fingerprint: "none"}
}

func (h *tallies) Sections() []stream.Section {
	var out []stream.Section
	for _, name := range slices.Sorted(maps.Keys(h.versions)) {
		out = append(out, stream.Section{Name: name, Version: h.versions[name]})
	}
	return out
}

func (h *tallies) AppendSection(b []byte, name string) ([]byte, error) {
	for _, key := range slices.Sorted(maps.Keys(h.counts)) {
		if h.section(key) == name {
			b = append(binary.AppendUvarint(b, uint64(len(key))), key...)
			b = binary.AppendUvarint(b, h.counts[key])
		}
	}
	return b, nil
}

func (h *tallies) RestoreSection(name string, b []byte) error {
	h.restored.Add(1)
	h.clock++
	h.versions[name] = h.clock
	for r := bytes.NewReader(b); r.Len() > 0; {
		n, err := binary.ReadUvarint(r)
		if err != nil {
			return err
		}
		key := make([]byte, n)
		if _, err := r.Read(key); err != nil {
			return err
		}
		if h.counts[string(key)], err = binary.ReadUvarint(r); err != nil {
			return err
		}
	}
	return nil
}

// doomed is a process with connections of its own, which can be cut or frozen at
// any moment.
type doomed struct {
	mu    sync.Mutex
	dead  bool
	conns []net.Conn
	thaw  chan struct{} // closed unless frozen
	stop  context.CancelFunc
	ended chan error
}

var errDoomed = errors.New("this process is dead")

func (m *doomed) dial(network *kfake.VirtualNetwork) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, kind, addr string) (net.Conn, error) {
		m.wait()
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.dead {
			return nil, errDoomed
		}
		conn, err := network.DialContext(ctx, kind, addr)
		if err == nil {
			m.conns = append(m.conns, conn)
		}
		return &frozen{conn, m}, err
	}
}

// wait returns when the process is not frozen.
func (m *doomed) wait() {
	m.mu.Lock()
	thaw := m.thaw
	m.mu.Unlock()
	<-thaw
}

// freeze stops what the process says and hears for a while.
func (m *doomed) freeze(d time.Duration) {
	thaw := make(chan struct{})
	m.mu.Lock()
	m.thaw = thaw
	m.mu.Unlock()
	time.AfterFunc(d, func() { close(thaw) })
}

// frozen is a connection of a process that may be frozen.
type frozen struct {
	net.Conn
	m *doomed
}

func (c *frozen) Write(b []byte) (int, error) {
	c.m.wait()
	return c.Conn.Write(b)
}

func (c *frozen) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.m.wait()
	return n, err
}

// kill cuts all connections at once, as the end of a process does, and then lets
// what runs here find its end.
func (m *doomed) kill() {
	m.mu.Lock()
	m.dead = true
	for _, conn := range m.conns {
		_ = conn.Close()
	}
	m.mu.Unlock()
	m.stop()
	<-m.ended
}

// TestCountsSurviveCrashes kills and freezes members at any moment of their life,
// with snapshots being taken all the time and compaction at work. Every record is
// counted once, in the order that it has.
func TestCountsSurviveCrashes(t *testing.T) {
	for _, delivery := range []Delivery{ExactlyOnce, AtLeastOnce} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprint(delivery, "/", seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { crashes(t, delivery, rand.New(rand.NewPCG(seed, 11)), int64(seed%2)*5) })
			})
		}
	}
}

// crashes has a state begin at offset origin of both partitions.
func crashes(t *testing.T, delivery Delivery, rnd *rand.Rand, origin int64) {
	var restored atomic.Int64
	var network kfake.VirtualNetwork
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(embedded.Patient(network.Listen)), kfake.SeedTopics(2, "in", "out"))
	require.NoError(t, err)
	defer cluster.Close()
	c, err := Connect(t.Context(), Config{Brokers: cluster.ListenAddrs(), Dial: network.DialContext})
	require.NoError(t, err)
	defer c.Close()
	topics := stream.NewTopics("")
	for _, s := range topics.Settings(2) {
		if s.Name == topics.State {
			require.NoError(t, c.EnsureTopics(t.Context(), []stream.TopicSettings{s}, 1))
		}
	}
	p, err := NewProducer(t.Context(), c, ProducerConfig{})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close(context.WithoutCancel(t.Context()))) }()
	if origin > 0 {
		for partition := range int32(2) {
			put(t, p, "in", partition, numbered("before ", 0, int(origin))...)
			text, err := stream.PositionAt(origin, origin).MarshalText()
			require.NoError(t, err)
			require.NoError(t, c.CommitOffsets(t.Context(), GroupOffsets{Group: "g", Generation: -1, Topic: "in", Partition: partition, Offset: origin, Metadata: string(text)}))
		}
	}

	start := func() *doomed {
		m := &doomed{ended: make(chan error, 1), thaw: make(chan struct{})}
		close(m.thaw)
		client, err := Connect(t.Context(), Config{Brokers: cluster.ListenAddrs(), Dial: m.dial(&network)})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		m.stop = stop
		cfg := GroupConfig{
			Group: "g", Topics: []string{"in"}, Delivery: delivery,
			SessionTimeout: 6 * time.Second, RebalanceTimeout: 3 * time.Second, DrainTimeout: 2 * time.Second,
			State: StateConfig{Topic: topics.State, Interval: 300 * time.Millisecond},
			NewHandler: func(string, int32, int32) (stream.Handler, error) {
				return stream.Fold{Stage: "tally", Folder: &tallies{
					counts: make(map[string]uint64), versions: make(map[string]uint64), restored: &restored,
				}}, nil
			},
		}
		if delivery == AtLeastOnce {
			cfg.Producer, err = NewProducer(t.Context(), client, ProducerConfig{DeliveryTimeout: 10 * time.Second})
			require.NoError(t, err)
		}
		go func() {
			defer client.Close()
			err := RunGroup(ctx, client, cfg)
			if cfg.Producer != nil {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
				defer cancel()
				_ = cfg.Producer.Close(ctx) // of no use to the dead
			}
			m.ended <- err
		}()
		return m
	}
	var members []*doomed
	sent := make(map[int32][]string)
	for range 40 {
		switch n := rnd.IntN(10); {
		case len(members) == 0 || n < 2 && len(members) < 3:
			members = append(members, start())
		case n < 6:
			i := rnd.IntN(len(members))
			members[i].kill()
			members = slices.Delete(members, i, i+1)
		case n < 7:
			i := rnd.IntN(len(members))
			members[i].stop()
			require.NoError(t, <-members[i].ended)
			members = slices.Delete(members, i, i+1)
		case n < 8:
			cluster.Compact()
		case n < 9:
			members[rnd.IntN(len(members))].freeze(time.Duration(rnd.Int64N(int64(20 * time.Second))))
		}
		for range rnd.IntN(60) {
			partition, key := rnd.Int32N(2), strings.Repeat("k", 1+rnd.IntN(6))+fmt.Sprint(rnd.IntN(5))
			require.NoError(t, p.Send(t.Context(), []stream.Out{{Topic: "in", Partition: partition, Key: []byte(key), Value: []byte("v")}}, nil))
			sent[partition] = append(sent[partition], key)
			time.Sleep(time.Duration(rnd.Int64N(int64(200 * time.Millisecond)))) // virtual
		}
	}
	require.NoError(t, p.Flush(t.Context()))
	last := start()
	want := make(map[int32][]string)
	for partition, keys := range sent {
		counts := make(map[string]int)
		for _, key := range keys {
			counts[key]++
			want[partition] = append(want[partition], fmt.Sprint(key, " ", counts[key]))
		}
	}
	got := func() map[int32][]string {
		out := make(map[int32][]string)
		require.NoError(t, c.Consume(t.Context(), "out", ConsumeOptions{From: FromStart, UntilEnd: true}, func(r stream.Record) error {
			out[r.Partition] = append(out[r.Partition], string(r.Key)+" "+string(r.Value))
			return nil
		}))
		return out
	}
	finished := func() bool {
		out := got()
		return len(withoutRepeats(out[0])) >= len(want[0]) && len(withoutRepeats(out[1])) >= len(want[1])
	}
	for second := 1; second < 600 && !finished(); second++ {
		time.Sleep(time.Second) // virtual
	}
	out := got()
	for partition := range want {
		if delivery == AtLeastOnce {
			out[partition] = withoutRepeats(out[partition])
		}
		for i, line := range want[partition] {
			require.Less(t, i, len(out[partition]), "partition %d ends early", partition)
			require.Equal(t, line, out[partition][i], "record %d of partition %d", i, partition)
		}
		require.Len(t, out[partition], len(want[partition]))
	}
	require.Positive(t, restored.Load(), "snapshots were restored")
	for _, m := range append(members, last) {
		m.stop()
		require.NoError(t, <-m.ended)
	}
}

// withoutRepeats leaves the first of equal lines.
func withoutRepeats(lines []string) []string {
	seen := make(map[string]bool)
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		again := seen[line]
		seen[line] = true
		return again
	})
}
