package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
)

// Point is a place in every partition of a topic: the start of the log, an
// offset, or a time.
type Point struct {
	Start  bool
	Offset int64
	Time   time.Time // zero: Start or Offset counts
}

func (p Point) offsets(ctx context.Context, client *kafka.Client, topic string, bounds []kafka.PartitionOffsets) ([]int64, error) {
	if !p.Time.IsZero() {
		return client.OffsetsAt(ctx, topic, p.Time)
	}
	offsets := make([]int64, len(bounds))
	for i, b := range bounds {
		offsets[i] = b.Start
		if !p.Start {
			offsets[i] = min(max(p.Offset, b.Start), b.Stable)
		}
	}
	return offsets, nil
}

// Stretch is a part of one partition's log, To excluded.
type Stretch struct {
	Partition int32
	From, To  int64
}

// ErrNothingToReplay says that a stage has not come as far as it is to go back.
var ErrNothingToReplay = errors.New("nothing to replay: no partition has been processed beyond there")

// Rewind has a stage that is stopped begin again at a point of its input, and
// returns what it will process again. It is refused while the group has members. Positions only ever go back. It needs no
// change to the stage's state: a snapshot from beyond the position is not used,
// and an older one, or the log's start, takes its place. So results have the
// ids and revisions they had, and consumers see repetitions.
//
// Without an older snapshot the log has to reach back to its very start for a
// stage that keeps state; the stage says so when it starts.
func Rewind(ctx context.Context, client *kafka.Client, group, topic string, to Point, dry bool) ([]Stretch, error) {
	if err := stopped(ctx, client, group); err != nil {
		return nil, err
	}
	bounds, err := client.Offsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	from, err := to.offsets(ctx, client, topic, bounds)
	if err != nil {
		return nil, err
	}
	var again []Stretch
	var positions []string
	for i, b := range bounds {
		committed, metadata, err := client.CommittedOffset(ctx, group, topic, b.Partition)
		if err != nil {
			return nil, err
		}
		if from[i] < committed {
			again = append(again, Stretch{b.Partition, from[i], committed})
			positions = append(positions, rewound(from[i], metadata))
		}
	}
	if len(again) == 0 {
		return nil, ErrNothingToReplay
	}
	if dry {
		return again, nil
	}
	for i, s := range again {
		err := client.CommitOffsets(ctx, kafka.GroupOffsets{
			Group: group, Generation: -1, Topic: topic, Partition: s.Partition, Offset: s.From, Metadata: positions[i],
		})
		if err != nil {
			if errors.Is(err, kafka.ErrFenced) {
				err = fmt.Errorf("%w: %w", ErrGroupInUse, err)
			}
			return nil, fmt.Errorf("rewinding: %w", err)
		}
	}
	return again, nil
}

// rewound is the metadata to commit with an earlier offset: the state goes on to
// be the one that began where it did, so that its older snapshots are found. What
// lay behind the position is to be processed again as well.
func rewound(offset int64, metadata string) string {
	var was stream.Position
	if was.UnmarshalText([]byte(metadata)) != nil || was.Origin > offset {
		return ""
	}
	text, err := stream.PositionAt(was.Origin, offset).MarshalText()
	if err != nil {
		return "" // can't be: it has no open spans
	}
	return string(text)
}

// Copy writes a stretch of one topic's log to another topic with the same number
// of partitions, record by record as they are, and returns what it has copied.
// What processes the other topic can't touch anything of the first one's. A
// topic that holds records already is refused: a copy is made once.
func Copy(ctx context.Context, client *kafka.Client, id, topic, into string, from, to *Point) ([]Stretch, error) {
	bounds, err := client.Offsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	others, err := client.Offsets(ctx, into)
	switch {
	case err != nil:
		return nil, err
	case len(others) != len(bounds):
		return nil, fmt.Errorf("topic %s has %d partitions and %s has %d: keys would be placed otherwise", into, len(others), topic, len(bounds))
	}
	for _, o := range others {
		if o.End > o.Start {
			return nil, fmt.Errorf("topic %s holds records already; name another prefix", into)
		}
	}
	stretches, err := between(ctx, client, topic, bounds, from, to)
	if err != nil {
		return nil, err
	}
	tx, err := kafka.NewTransactor(ctx, client, id, kafka.ProducerConfig{})
	if err != nil {
		return nil, err
	}
	for _, s := range stretches {
		if err = copyStretch(ctx, client, tx, topic, into, s); err != nil {
			err = errors.Join(err, tx.Abort(context.WithoutCancel(ctx)))
			break
		}
	}
	return stretches, errors.Join(err, tx.Close(context.WithoutCancel(ctx)))
}

func between(ctx context.Context, client *kafka.Client, topic string, bounds []kafka.PartitionOffsets, from, to *Point) ([]Stretch, error) {
	begin, err := from.offsets(ctx, client, topic, bounds)
	if err != nil {
		return nil, err
	}
	end := make([]int64, len(bounds))
	for i, b := range bounds {
		end[i] = b.Stable
	}
	if to != nil {
		if end, err = to.offsets(ctx, client, topic, bounds); err != nil {
			return nil, err
		}
	}
	var stretches []Stretch
	for i, b := range bounds {
		if begin[i] < end[i] {
			stretches = append(stretches, Stretch{b.Partition, begin[i], min(end[i], b.Stable)})
		}
	}
	return stretches, nil
}

// copyStretch commits after every fetch, which bounds what a transaction holds.
func copyStretch(ctx context.Context, client *kafka.Client, tx *kafka.Transactor, topic, into string, s Stretch) error {
	f := client.NewFetcher(topic, s.Partition, s.From, kafka.FetchConfig{})
	for next := s.From; next < s.To; {
		batch, err := f.Next(ctx)
		if err != nil {
			return err
		}
		if batch.Next == next {
			continue // nothing has come yet
		}
		next = batch.Next
		recs := slices.DeleteFunc(batch.Records, func(r stream.Record) bool { return r.Offset >= s.To })
		if len(recs) == 0 {
			continue
		}
		outs := make([]stream.Out, len(recs))
		for i, r := range recs {
			outs[i] = stream.Out{Topic: into, Partition: r.Partition, Key: r.Key, Value: r.Value, Headers: r.Headers, Time: r.Time}
		}
		if err := tx.Send(ctx, outs, nil); err != nil {
			return fmt.Errorf("copying to topic %s: %w", into, err)
		}
		if err := tx.Commit(ctx, nil); err != nil {
			return fmt.Errorf("copying to topic %s: %w", into, err)
		}
	}
	return nil
}
