package operator_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/internal/operator"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streamtest"
)

func TestMain(m *testing.M) { os.Exit(streamtest.Main(m)) }

// lab is a deployment of a test's own.
type lab struct {
	client *kafka.Client
	topics stream.Topics
	prefix string
}

func newLab(t *testing.T, addr string, partitions int) lab {
	t.Helper()
	c, err := kafka.Connect(t.Context(), kafka.Config{Brokers: []string{addr}})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	prefix := strings.ToLower(strings.ReplaceAll(t.Name(), "/", ".")) + "."
	l := lab{client: c, topics: stream.NewTopics(prefix), prefix: prefix}
	require.NoError(t, c.EnsureTopics(t.Context(), l.topics.Settings(partitions), 1))
	return l
}

// write writes records in one transaction, which is committed or aborted.
func (l lab) write(t *testing.T, commit bool, outs ...stream.Out) {
	t.Helper()
	tx, err := kafka.NewTransactor(t.Context(), l.client, l.prefix+"test", kafka.ProducerConfig{})
	require.NoError(t, err)
	written := make(chan error, 1)
	require.NoError(t, tx.Send(t.Context(), outs, func(err error) { written <- err }))
	require.NoError(t, <-written)
	if commit {
		require.NoError(t, tx.Commit(t.Context(), nil))
	} else {
		require.NoError(t, tx.Abort(t.Context()))
	}
	require.NoError(t, tx.Close(t.Context()))
	for _, o := range outs {
		l.settle(t, o.Topic)
	}
}

// settle waits until no transaction of a topic is open: a broker may write a
// transaction's markers after it has answered that the transaction is over.
func (l lab) settle(t *testing.T, topic string) {
	t.Helper()
	require.Eventually(t, func() bool {
		offsets, err := l.client.Offsets(t.Context(), topic)
		return err == nil && !slices.ContainsFunc(offsets, func(o kafka.PartitionOffsets) bool { return o.Stable != o.End })
	}, time.Minute, 5*time.Millisecond)
}

func (l lab) read(t *testing.T, topic string) []stream.Record {
	t.Helper()
	l.settle(t, topic)
	var all []stream.Record
	require.NoError(t, l.client.Consume(t.Context(), topic, kafka.ConsumeOptions{From: kafka.FromStart, UntilEnd: true}, func(r stream.Record) error {
		all = append(all, r)
		return nil
	}))
	return all
}

// letter is a dead letter on partition 1 of the dead-letter topic.
func (l lab) letter(rec stream.Record, stage string, err error) stream.Out {
	o := stream.DeadLetter(l.topics.DeadLetters, rec, stage, err)
	o.Partition = 1
	return o
}

func TestRedrive(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		l := newLab(t, addr, 2)
		damaged := &stream.DecodeError{Code: stream.CodeChecksum, Reason: "it differs"}
		signal := stream.Record{Topic: l.topics.Signal, Partition: 1, Offset: 5, Key: []byte("run/3"), Value: []byte("signal"),
			Headers: []stream.Header{{Key: "of", Value: []byte("its own")}}}
		l.write(t, true,
			l.letter(signal, "basecall", damaged),
			l.letter(stream.Record{Topic: l.topics.Reads, Partition: 0, Offset: 6, Value: []byte("read")}, "variant", errors.New("any")),
			l.letter(stream.Record{Topic: "elsewhere", Value: []byte("x")}, "variant", damaged),
			l.letter(stream.Record{Topic: l.topics.Signal, Partition: 2, Value: []byte("x")}, "basecall", damaged),
			l.letter(stream.Record{Topic: l.topics.Signal, Value: make([]byte, 1_000_009)}, "basecall", damaged),
			stream.Out{Topic: l.topics.DeadLetters, Partition: 1, Value: []byte("no letter")},
		)
		l.write(t, false, l.letter(signal, "basecall", damaged))

		inputs := operator.Inputs(l.topics, false)
		redrive := func(which operator.Selection, dry bool) operator.Redriven {
			r, err := operator.Redrive(t.Context(), l.client, l.prefix+"pore", l.topics.DeadLetters, inputs, which, dry)
			require.NoError(t, err)
			return r
		}
		all := operator.Redriven{Sent: 2, Cut: 1, Unknown: 2, Topics: map[string]int{l.topics.Signal: 1, l.topics.Reads: 1}}
		assert.Equal(t, all, redrive(operator.Selection{}, true))
		assert.Empty(t, l.read(t, l.topics.Signal), "a dry run writes nothing")

		assert.Equal(t, 1, redrive(operator.Selection{Stage: "variant", Code: stream.CodeInvalid}, false).Sent)
		assert.Equal(t, 0, redrive(operator.Selection{From: time.Now().Add(time.Hour)}, false).Sent)
		assert.Equal(t, 0, redrive(operator.Selection{To: time.Now().Add(-time.Hour)}, false).Sent)

		// Two at once: one is fenced or finds the other's marks.
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				_, err := operator.Redrive(t.Context(), l.client, l.prefix+"pore", l.topics.DeadLetters, inputs, operator.Selection{}, false)
				if err != nil && !errors.Is(err, kafka.ErrFenced) {
					t.Error(err)
				}
			})
		}
		both.Wait()
		assert.Equal(t, operator.Redriven{Before: 2, Cut: 1, Unknown: 2, Topics: map[string]int{}}, redrive(operator.Selection{}, false))

		again := l.read(t, l.topics.Signal)
		require.Len(t, again, 1)
		assert.Equal(t, int32(1), again[0].Partition)
		assert.Equal(t, signal.Key, again[0].Key)
		assert.Equal(t, signal.Value, again[0].Value)
		assert.Equal(t, signal.Headers, again[0].Headers)
		assert.Len(t, l.read(t, l.topics.Reads), 1)

		var states []string
		foreign, err := operator.DeadLetters(t.Context(), l.client, l.topics.DeadLetters, operator.Selection{}, func(l operator.Letter) error {
			states = append(states, fmt.Sprintf("%s %s %v %v", l.Stage, l.Code, l.Cut, l.Redriven))
			return nil
		})
		require.NoError(t, err)
		assert.Equal(t, 1, foreign)
		assert.Equal(t, []string{
			"basecall checksum [] true", "variant invalid [] true", "variant checksum [] false",
			"basecall checksum [] false", "basecall checksum [value] false",
		}, states)
	})
}

func (l lab) fill(t *testing.T, topic string, partition int32, n int, at time.Time) {
	t.Helper()
	outs := make([]stream.Out, n)
	for i := range outs {
		outs[i] = stream.Out{Topic: topic, Partition: partition, Key: []byte("k"), Value: fmt.Appendf(nil, "%d", i), Time: at.Add(time.Duration(i) * time.Second)}
	}
	l.write(t, true, outs...)
}

func TestRewind(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		l := newLab(t, addr, 2)
		began := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
		group := l.prefix + "group"
		l.fill(t, l.topics.Reads, 0, 10, began)
		l.fill(t, l.topics.Reads, 1, 4, began)
		commit := func(partition int32, offset int64) {
			require.NoError(t, l.client.CommitOffsets(t.Context(), kafka.GroupOffsets{Group: group, Generation: -1, Topic: l.topics.Reads, Partition: partition, Offset: offset, Metadata: "old"}))
		}
		rewind := func(to operator.Point, dry bool) ([]operator.Stretch, error) {
			return operator.Rewind(t.Context(), l.client, group, l.topics.Reads, to, dry)
		}
		_, err := rewind(operator.Point{Start: true}, false)
		require.ErrorIs(t, err, operator.ErrNothingToReplay, "a group that has never committed")
		commit(0, 8)
		commit(1, 3)
		dry, err := rewind(operator.Point{Offset: 4}, true)
		require.NoError(t, err)
		assert.Equal(t, []operator.Stretch{{Partition: 0, From: 4, To: 8}}, dry)
		done, err := rewind(operator.Point{Offset: 4}, false)
		require.NoError(t, err)
		assert.Equal(t, dry, done)
		_, err = rewind(operator.Point{Offset: 4}, false)
		require.ErrorIs(t, err, operator.ErrNothingToReplay, "positions only go back")
		offset, metadata, err := l.client.CommittedOffset(t.Context(), group, l.topics.Reads, 0)
		require.NoError(t, err)
		assert.Equal(t, int64(4), offset)
		assert.Empty(t, metadata, "what lay behind the position is to be processed again as well")
		done, err = rewind(operator.Point{Time: began.Add(1500 * time.Millisecond)}, false)
		require.NoError(t, err)
		assert.Equal(t, []operator.Stretch{{Partition: 0, From: 2, To: 4}, {Partition: 1, From: 2, To: 3}}, done)
	})
}

// TestRewindKeepsTheOrigin: older snapshots of the same state stay usable.
func TestRewindKeepsTheOrigin(t *testing.T) {
	l := newLab(t, streamtest.Kfake(t).ListenAddrs()[0], 1)
	l.fill(t, l.topics.Reads, 0, 10, time.Now())
	group := l.prefix + "group"
	old := stream.Position{Origin: 2, Offset: 6, Next: 9, Open: []stream.Span{{Start: 6, End: 7}}}
	text, err := old.MarshalText()
	require.NoError(t, err)
	for from, want := range map[int64]string{4: "origin", 1: ""} {
		require.NoError(t, l.client.CommitOffsets(t.Context(), kafka.GroupOffsets{Group: group, Generation: -1, Topic: l.topics.Reads, Offset: 6, Metadata: string(text)}))
		_, err = operator.Rewind(t.Context(), l.client, group, l.topics.Reads, operator.Point{Offset: from}, false)
		require.NoError(t, err)
		offset, metadata, err := l.client.CommittedOffset(t.Context(), group, l.topics.Reads, 0)
		require.NoError(t, err)
		assert.Equal(t, from, offset)
		if want == "" {
			assert.Empty(t, metadata, "from before its origin a new state begins")
			continue
		}
		var p stream.Position
		require.NoError(t, p.UnmarshalText([]byte(metadata)))
		assert.True(t, p.Equal(stream.PositionAt(2, from)), "%+v", p)
	}
}

func TestCopy(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		l := newLab(t, addr, 2)
		into := stream.NewTopics(l.prefix + "again.")
		require.NoError(t, l.client.EnsureTopics(t.Context(), into.Settings(2), 1))
		began := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
		l.fill(t, l.topics.Calls, 0, 3, began)
		l.write(t, false, stream.Out{Topic: l.topics.Calls, Partition: 0, Value: []byte("aborted")})
		l.fill(t, l.topics.Calls, 1, 2, began)
		l.write(t, true, stream.Out{Topic: l.topics.Calls, Partition: 0, Key: []byte("last"), Value: []byte("v"), Time: began.Add(time.Hour),
			Headers: []stream.Header{{Key: "h", Value: []byte("1")}}})
		copyTo := func(topic string, from, to *operator.Point) error {
			_, err := operator.Copy(t.Context(), l.client, l.prefix+"pore", l.topics.Calls, topic, from, to)
			return err
		}
		require.NoError(t, copyTo(into.Calls, &operator.Point{Offset: 1}, nil))
		var got []string
		for _, r := range l.read(t, into.Calls) {
			got = append(got, fmt.Sprintf("%d %s=%s %s %d", r.Partition, r.Key, r.Value, r.Time.UTC().Format(time.TimeOnly), len(r.Headers)))
		}
		assert.ElementsMatch(t, []string{"0 k=1 12:00:01 0", "0 k=2 12:00:02 0", "0 last=v 13:00:00 1", "1 k=1 12:00:01 0"}, got)
		require.ErrorContains(t, copyTo(into.Calls, &operator.Point{Start: true}, nil), "holds records already")
		require.NoError(t, copyTo(into.Reads, &operator.Point{Start: true}, &operator.Point{Time: began.Add(1500 * time.Millisecond)}))
		assert.Len(t, l.read(t, into.Reads), 4)
		require.ErrorContains(t, copyTo(into.Runs, &operator.Point{Start: true}, nil), "has 1 partitions")
	})
}
