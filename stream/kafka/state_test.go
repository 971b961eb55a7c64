package kafka

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/snapshot"
	"github.com/porestream/porestream/stream/streamtest"
)

// ledger is a state with a section per key: all values that were put there.
type ledger struct {
	sections map[string][]byte
	versions map[string]uint64
}

func newLedger() *ledger {
	return &ledger{sections: make(map[string][]byte), versions: make(map[string]uint64)}
}

func (l *ledger) put(key string, value []byte) {
	l.sections[key] = append(l.sections[key], value...)
	l.versions[key]++
}

func (l *ledger) Format() stream.StateFormat {
	return stream.StateFormat{Stage: "ledger", Version: 1, Fingerprint: "none"}
}

func (l *ledger) Sections() []stream.Section {
	var out []stream.Section
	for _, name := range slices.Sorted(maps.Keys(l.sections)) {
		out = append(out, stream.Section{Name: name, Version: l.versions[name]})
	}
	return out
}

func (l *ledger) AppendSection(b []byte, name string) ([]byte, error) {
	return append(b, l.sections[name]...), nil
}

func (l *ledger) RestoreSection(name string, b []byte) error {
	l.sections[name] = bytes.Clone(b)
	l.versions[name] = 1
	return nil
}

// takeSnapshot writes a snapshot and waits until it is durable.
func takeSnapshot(t testing.TB, p *Producer, w *snapshot.Writer, state stream.State, offset int64) {
	t.Helper()
	for out, err := range w.Take(state, offset) {
		require.NoError(t, err)
		require.NoError(t, p.Send(t.Context(), []stream.Out{out}, nil))
	}
	require.NoError(t, p.Flush(t.Context()))
	w.Durable()
}

// newStateTopic makes a topic with the settings of the state topic.
func newStateTopic(t testing.TB, c *Client, partitions int) string {
	t.Helper()
	name := strings.ReplaceAll(newTopic(t, c, 1), ".", "-") + "-"
	topics := stream.NewTopics(name)
	for _, s := range topics.Settings(partitions) {
		if s.Name == topics.State {
			require.NoError(t, c.EnsureTopics(t.Context(), []stream.TopicSettings{s}, 1))
		}
	}
	return topics.State
}

func TestStateIsRestoredFromItsTopic(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		c := dial(t, addr)
		topic := newStateTopic(t, c, 3)
		p := newProducer(t, c, ProducerConfig{Zstd: []string{topic}})
		var sources []snapshot.Source
		for i := range int32(4) {
			sources = append(sources, snapshot.Source{Group: "g", Topic: "in", Partition: i})
		}
		ledgers := make([]*ledger, len(sources))
		for i, source := range sources {
			l := newLedger()
			ledgers[i] = l
			index, err := c.ReadState(t.Context(), topic, source, FetchConfig{})
			require.NoError(t, err)
			require.True(t, index.Empty())
			at, err := c.StatePartition(t.Context(), topic, source)
			require.NoError(t, err)
			w := snapshot.NewWriter(snapshot.WriterConfig{Topic: topic, Partition: at, Epoch: 7}, index, nil, l)
			for n := range 5 {
				l.put(fmt.Sprint("s", n%3), fmt.Appendf(nil, "%v-%d ", source, n))
				l.put("large", bytes.Repeat([]byte{byte(n)}, 1<<20))
				takeSnapshot(t, p, w, l, int64(10*(n+1)))
				w.Committed(int64(10 * (n + 1)))
			}
		}
		for i, source := range sources {
			index, err := c.ReadState(t.Context(), topic, source, FetchConfig{})
			require.NoError(t, err)
			for committed, want := range map[int64]int64{49: 40, 50: 50, 1000: 50} {
				chosen, _ := index.Choose(ledgers[i].Format(), stream.PositionAt(0, committed), 0)
				require.NotNil(t, chosen)
				assert.Equal(t, want, chosen.Offset())
			}
			chosen, refused := index.Choose(ledgers[i].Format(), stream.PositionAt(0, 50), 0)
			assert.Empty(t, refused)
			restored := newLedger()
			require.NoError(t, c.RestoreState(t.Context(), topic, chosen, restored, FetchConfig{}))
			assert.Equal(t, ledgers[i].sections, restored.sections)
		}
	})
}

func TestStateOutlivesCompaction(t *testing.T) {
	c := streamtest.Kfake(t, kfake.BrokerConfigs(map[string]string{"log.cleaner.delete.retention.ms": "0"}))
	client := dial(t, c.ListenAddrs()[0])
	topic := newStateTopic(t, client, 1)
	p := newProducer(t, client, ProducerConfig{})
	source := snapshot.Source{Group: "g", Topic: "in", Partition: 5}
	state := newLedger()
	var base *snapshot.Snapshot
	for epoch := range int32(6) {
		index, err := client.ReadState(t.Context(), topic, source, FetchConfig{})
		require.NoError(t, err)
		if epoch > 0 {
			base, _ = index.Choose(state.Format(), stream.PositionAt(0, 1000), 0)
			require.NotNil(t, base)
			restored := newLedger()
			require.NoError(t, client.RestoreState(t.Context(), topic, base, restored, FetchConfig{}))
			require.Equal(t, state.sections, restored.sections)
			state = restored
		}
		w := snapshot.NewWriter(snapshot.WriterConfig{Topic: topic, Epoch: epoch}, index, base, state)
		for n := range 4 {
			offset := int64(epoch)*10 + int64(n)
			state.put(fmt.Sprint("s", offset%7), fmt.Appendf(nil, "%d ", offset))
			takeSnapshot(t, p, w, state, offset)
			w.Committed(offset)
			c.Compact()
		}
	}
	c.Compact()
	records := 0
	require.NoError(t, client.Consume(t.Context(), topic, ConsumeOptions{From: FromStart, UntilEnd: true}, func(r stream.Record) error {
		if len(r.Value) > 0 {
			records++
		}
		return nil
	}))
	// Two slots for each of seven sections, and two manifests of two records.
	assert.LessOrEqual(t, records, 2*7+2*2, "what earlier owners wrote is removed")
}

// TestStateIsReadToItsEnd: a transaction of another source hides what is behind
// it, and a reader that took the rest for all would choose a snapshot that has
// been overwritten.
func TestStateIsReadToItsEnd(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		c := dial(t, addr)
		topic := newStateTopic(t, c, 1)
		transactor := func(id string) *Transactor {
			tx, err := NewTransactor(t.Context(), c, topic+id, ProducerConfig{})
			require.NoError(t, err)
			t.Cleanup(func() { _ = tx.Close(context.WithoutCancel(t.Context())) })
			return tx
		}
		ours, other := transactor("ours"), transactor("other")
		written := make(chan error, 1)
		require.NoError(t, other.Send(t.Context(), []stream.Out{{Topic: topic, Key: []byte("k"), Value: []byte("v")}}, func(err error) { written <- err }))
		require.NoError(t, <-written)

		source := snapshot.Source{Group: "g", Topic: "in", Partition: 0}
		state := newLedger()
		state.put("a", []byte("content"))
		w := snapshot.NewWriter(snapshot.WriterConfig{Topic: topic, Epoch: 1}, snapshot.NewIndex(source), nil, state)
		for out, err := range w.Take(state, 5) {
			require.NoError(t, err)
			require.NoError(t, ours.Send(t.Context(), []stream.Out{out}, nil))
		}
		require.NoError(t, ours.Commit(t.Context(), nil))

		short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := c.ReadState(short, topic, source, FetchConfig{})
		require.ErrorIs(t, err, context.DeadlineExceeded)

		require.NoError(t, other.Abort(t.Context()))
		index, err := c.ReadState(t.Context(), topic, source, FetchConfig{})
		require.NoError(t, err)
		chosen, refused := index.Choose(state.Format(), stream.PositionAt(0, 5), 0)
		require.NotNil(t, chosen, "%v", refused)
		restored := newLedger()
		require.NoError(t, c.RestoreState(t.Context(), topic, chosen, restored, FetchConfig{}))
		assert.Equal(t, state.sections, restored.sections)
	})
}

// BenchmarkState writes and restores a state of 64 MB over the embedded broker.
func BenchmarkState(b *testing.B) {
	const bytes = 64 << 20
	for _, sections := range []int{16, 10_000} {
		b.Run(fmt.Sprintf("sections=%d", sections), func(b *testing.B) {
			c := dial(b, streamtest.Kfake(b).ListenAddrs()[0])
			topic := newStateTopic(b, c, 1)
			p := newProducer(b, c, ProducerConfig{})
			source := snapshot.Source{Group: "g", Topic: "in"}
			state := newLedger()
			for i := range sections {
				state.put(fmt.Sprintf("section-%05d", i), make([]byte, bytes/sections))
			}
			b.Run("write", func(b *testing.B) {
				b.SetBytes(bytes)
				for epoch := int32(1); b.Loop(); epoch++ {
					w := snapshot.NewWriter(snapshot.WriterConfig{Topic: topic, Epoch: epoch}, snapshot.NewIndex(source), nil, state)
					takeSnapshot(b, p, w, state, int64(epoch))
				}
			})
			b.Run("restore", func(b *testing.B) {
				b.SetBytes(bytes)
				for b.Loop() {
					index, err := c.ReadState(b.Context(), topic, source, FetchConfig{})
					require.NoError(b, err)
					chosen, _ := index.Choose(state.Format(), stream.PositionAt(0, 1000), 0)
					require.NotNil(b, chosen)
					require.NoError(b, c.RestoreState(b.Context(), topic, chosen, newLedger(), FetchConfig{}))
				}
			})
		})
	}
}
