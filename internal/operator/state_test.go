package operator_test

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/internal/operator"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/snapshot"
	"github.com/porestream/porestream/stream/streamtest"
)

// letters is a state of one section.
type letters struct{ content []byte }

func (s *letters) Format() stream.StateFormat {
	return stream.StateFormat{Stage: "variant", Version: 2, Fingerprint: "abc"}
}

func (s *letters) Sections() []stream.Section {
	return []stream.Section{{Name: "letters", Version: uint64(len(s.content))}}
}

func (s *letters) AppendSection(b []byte, _ string) ([]byte, error) {
	return append(b, s.content...), nil
}

func (s *letters) RestoreSection(_ string, b []byte) error {
	s.content = bytes.Clone(b)
	return nil
}

// keep writes two snapshots, at offsets 3 and 6, of a partition of the reads,
// and commits a position there.
func (l lab) keep(t *testing.T, group string, p int32, at stream.Position) {
	t.Helper()
	source := snapshot.Source{Group: group, Topic: l.topics.Reads, Partition: p}
	place, err := l.client.StatePartition(t.Context(), l.topics.State, source)
	require.NoError(t, err)
	s := &letters{}
	w := snapshot.NewWriter(snapshot.WriterConfig{Topic: l.topics.State, Partition: place, Epoch: 1, Origin: at.Origin}, snapshot.NewIndex(source), nil, s)
	for _, offset := range []int64{3, 6} {
		s.content = append(s.content, "three"...)
		var outs []stream.Out
		for out, err := range w.Take(s, offset) {
			require.NoError(t, err)
			outs = append(outs, out)
		}
		l.write(t, true, outs...)
		w.Durable()
		w.Committed(offset)
	}
	text, err := at.MarshalText()
	require.NoError(t, err)
	require.NoError(t, l.client.CommitOffsets(t.Context(), kafka.GroupOffsets{
		Group: group, Generation: -1, Topic: l.topics.Reads, Partition: p, Offset: at.Offset, Metadata: string(text),
	}))
}

// fillReads writes ten records to each of two partitions of the reads.
func (l lab) fillReads(t *testing.T) {
	t.Helper()
	var outs []stream.Out
	for i := range 20 {
		outs = append(outs, stream.Out{Topic: l.topics.Reads, Partition: int32(i % 2), Value: []byte("read")})
	}
	l.write(t, true, outs...)
}

func TestStates(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		l := newLab(t, addr, 2)
		l.fillReads(t)
		group := l.prefix + "porestream-variant"
		l.keep(t, group, 1, stream.PositionAt(0, 5))
		l.keep(t, group, 0, stream.PositionAt(0, 8))
		l.write(t, true, stream.Out{Topic: l.topics.State, Key: []byte("not a state"), Value: []byte("x")})
		states, err := operator.States(t.Context(), l.client, l.topics.State)
		require.NoError(t, err)
		require.Len(t, states, 2)
		for i, want := range []struct {
			committed int64
			unusable  []string
		}{{8, []string{"", ""}}, {5, []string{"ahead of the committed offset 5", ""}}} {
			s := states[i]
			assert.Equal(t, snapshot.Source{Group: group, Topic: l.topics.Reads, Partition: int32(i)}, s.Source)
			assert.Equal(t, want.committed, s.Committed)
			require.Len(t, s.Snapshots, 2)
			for n, k := range s.Snapshots {
				assert.Equal(t, want.unusable[n], k.Unusable)
				assert.Equal(t, []int64{6, 3}[n], k.Offset)
				assert.Equal(t, 1, k.Sections)
				assert.Equal(t, []int64{10, 5}[n], k.Bytes)
				assert.Less(t, time.Since(k.Time), time.Hour)
			}
		}
	})
}

func TestResetStage(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		l := newLab(t, addr, 2)
		l.fillReads(t)
		group, other := l.prefix+"porestream-variant", l.prefix+"other-variant"
		l.keep(t, group, 0, stream.PositionAt(0, 8))
		l.keep(t, group, 1, stream.PositionAt(0, 5))
		l.keep(t, other, 1, stream.PositionAt(0, 5))
		reset := func(toEarliest, dry bool) (operator.Reset, error) {
			return operator.ResetStage(t.Context(), l.client, operator.ResetConfig{
				Group: group, Input: l.topics.Reads, State: l.topics.State, ID: l.prefix + "pore", ToEarliest: toEarliest, DryRun: dry,
			})
		}
		kept := func() (groups []string) {
			states, err := operator.States(t.Context(), l.client, l.topics.State)
			require.NoError(t, err)
			for _, s := range states {
				groups = append(groups, s.Group)
			}
			return slices.Compact(groups)
		}
		replayed := []operator.Stretch{{Partition: 0, From: 0, To: 8}, {Partition: 1, From: 0, To: 5}}

		done, err := reset(false, true)
		require.NoError(t, err)
		// Of each partition: two copies of the section, two tables, two trailers.
		want := operator.Reset{Restored: replayed, Sources: 2, Records: 12}
		assert.Equal(t, want, done)
		assert.Len(t, kept(), 2, "a dry run removes nothing")

		done, err = reset(false, false)
		require.NoError(t, err)
		assert.Equal(t, want, done)
		assert.Equal(t, []string{other}, kept())
		offset, metadata, err := l.client.CommittedOffset(t.Context(), group, l.topics.Reads, 0)
		require.NoError(t, err)
		assert.Equal(t, int64(8), offset)
		assert.NotEmpty(t, metadata)

		done, err = reset(true, false)
		require.NoError(t, err)
		assert.Equal(t, operator.Reset{Again: replayed}, done)
		offset, metadata, err = l.client.CommittedOffset(t.Context(), group, l.topics.Reads, 0)
		require.NoError(t, err)
		assert.Equal(t, int64(0), offset)
		var p stream.Position
		require.NoError(t, p.UnmarshalText([]byte(metadata)))
		assert.True(t, p.Equal(stream.PositionAt(0, 0)))
	})
}

func TestResetStageRefuses(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		l := newLab(t, addr, 2)
		l.fillReads(t)
		group := l.prefix + "porestream-variant"
		l.keep(t, group, 0, stream.PositionAt(0, 8))
		cfg := operator.ResetConfig{Group: group, Input: l.topics.Reads, State: l.topics.State, ID: l.prefix + "pore"}

		// The topic was made anew.
		require.NoError(t, l.client.CommitOffsets(t.Context(), kafka.GroupOffsets{
			Group: group, Generation: -1, Topic: l.topics.Reads, Partition: 1, Offset: 100,
		}))
		_, err := operator.ResetStage(t.Context(), l.client, cfg)
		require.ErrorContains(t, err, "without its snapshots the stage could not start: partition 1 of topic "+l.topics.Reads)
		require.ErrorContains(t, err, "--to-earliest has it begin with what the log holds")

		l.join(t, group)
		for _, toEarliest := range []bool{false, true} {
			cfg.ToEarliest = toEarliest
			_, err = operator.ResetStage(t.Context(), l.client, cfg)
			require.ErrorIs(t, err, operator.ErrGroupInUse)
			require.ErrorContains(t, err, "group "+group+" has members (")
			require.ErrorContains(t, err, "stop every processor with this stage first")
		}
	})
}

// join makes a member of a group that lasts as long as the test.
func (l lab) join(t *testing.T, group string) {
	t.Helper()
	p, err := kafka.NewProducer(t.Context(), l.client, kafka.ProducerConfig{})
	require.NoError(t, err)
	ctx, leave := context.WithCancel(t.Context())
	joined, left := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		left <- kafka.RunGroup(ctx, l.client, kafka.GroupConfig{
			Group: group, Topics: []string{l.topics.Reads}, Producer: p, Stateless: true,
			NewHandler: func(string, int32, int32) (stream.Handler, error) { return stream.Fold{Folder: nothing{}}, nil },
			OnAssigned: func(assigned, _ int) {
				if assigned > 0 {
					select {
					case joined <- struct{}{}:
					default:
					}
				}
			},
		})
	}()
	t.Cleanup(func() {
		leave()
		assert.NoError(t, <-left)
		assert.NoError(t, p.Close(context.WithoutCancel(t.Context())))
	})
	select {
	case <-joined:
	case err := <-left:
		require.NoError(t, err)
	}
}

// nothing follows from any record.
type nothing struct{}

func (nothing) Fold(stream.Record) ([]stream.Out, error) { return nil, nil }
func (nothing) Refold(stream.Record) error               { return nil }
