package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/partition"
	"github.com/porestream/porestream/stream/snapshot"
)

// KeptState is what the state topic holds for one partition of a stage's input.
type KeptState struct {
	snapshot.Source
	// Committed is the group's offset, -1 if there is none.
	Committed int64
	Snapshots []KeptSnapshot
}

// KeptSnapshot is one snapshot of it.
type KeptSnapshot struct {
	snapshot.Summary
	// Unusable says why it can't be restored now; empty if it can, by a stage with
	// its format.
	Unusable string
}

// States lists all snapshots on a state topic, ordered by group, topic and
// partition, newest first.
func States(ctx context.Context, client *kafka.Client, topic string) ([]KeptState, error) {
	indexes := make(map[snapshot.Source]*snapshot.Index)
	err := client.ReadStates(ctx, topic, kafka.FetchConfig{}, func(rec stream.Record) error {
		source, err := snapshot.SourceOf(rec.Key)
		if err != nil {
			return nil //nolint:nilerr // what is no state's is no state
		}
		if indexes[source] == nil {
			indexes[source] = snapshot.NewIndex(source)
		}
		indexes[source].Add(rec)
		return nil
	})
	if err != nil {
		return nil, err
	}
	var out []KeptState
	for source, index := range indexes {
		list := index.List()
		if len(list) == 0 {
			continue
		}
		s := KeptState{Source: source}
		var metadata string
		if s.Committed, metadata, err = client.CommittedOffset(ctx, source.Group, source.Topic, source.Partition); err != nil {
			return nil, err
		}
		for _, summary := range list {
			s.Snapshots = append(s.Snapshots, KeptSnapshot{Summary: summary, Unusable: unusable(summary, s.Committed, metadata)})
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b KeptState) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return out, nil
}

func unusable(s snapshot.Summary, committed int64, metadata string) string {
	var p stream.Position
	switch {
	case s.Fault != nil:
		return s.Fault.Error()
	case committed < 0:
		return "the group has committed nothing"
	case s.Offset > committed:
		return fmt.Sprintf("ahead of the committed offset %d", committed)
	case p.UnmarshalText([]byte(metadata)) == nil && p.Origin != s.Origin:
		return fmt.Sprintf("it began with offset %d, the group with %d: the group was reset", s.Origin, p.Origin)
	}
	return ""
}

// ResetConfig says what of a stage is forgotten.
type ResetConfig struct {
	// Group is the stage's consumer group, Input its input topic and State the
	// topic with the snapshots.
	Group, Input, State string
	// ID is the transactional id to write with.
	ID string
	// ToEarliest has the stage begin with the oldest records that there are, as
	// if it had never run. Otherwise it goes on where it is, and restores its
	// state from its input.
	ToEarliest bool
	// DryRun changes nothing.
	DryRun bool
}

// Reset is what was, or would be, forgotten.
type Reset struct {
	// Again is what will be processed again, and lead to the same results again.
	Again []Stretch
	// Restored is what will be read again without results, for the state.
	Restored []Stretch
	// Sources is the number of partitions with kept state, Records that of its
	// records.
	Sources, Records int
}

// ErrGroupInUse says that processors of the stage are running.
var ErrGroupInUse = errors.New("the stage is running")

// ResetStage forgets the snapshots of a stage that is stopped, and with
// ToEarliest its positions too. It is refused while the group has members, and
// where the stage could not start afterwards. Doing it again, also after a crash
// in between, is fine.
func ResetStage(ctx context.Context, client *kafka.Client, cfg ResetConfig) (Reset, error) {
	if err := stopped(ctx, client, cfg.Group); err != nil {
		return Reset{}, err
	}
	bounds, err := client.Offsets(ctx, cfg.Input)
	if err != nil {
		return Reset{}, err
	}
	var out Reset
	var commits []kafka.GroupOffsets
	for _, b := range bounds {
		commit, err := out.partition(ctx, client, cfg, b)
		if err != nil {
			return Reset{}, err
		}
		if commit != nil {
			commits = append(commits, *commit)
		}
	}
	keys, err := stateKeys(ctx, client, cfg)
	if err != nil {
		return Reset{}, err
	}
	sources := make(map[int32]struct{})
	for key := range keys {
		if s, err := snapshot.SourceOf([]byte(key)); err == nil {
			sources[s.Partition] = struct{}{}
		}
	}
	out.Sources, out.Records = len(sources), len(keys)
	if cfg.DryRun {
		return out, nil
	}
	// The broker refuses these commits if a member has come meanwhile, which is
	// why they come first. A snapshot that outlives them is not used before the
	// group has passed its offset, and is right then.
	for _, c := range commits {
		if err := client.CommitOffsets(ctx, c); err != nil {
			if errors.Is(err, kafka.ErrFenced) {
				err = fmt.Errorf("%w: %w", ErrGroupInUse, err)
			}
			return Reset{}, fmt.Errorf("resetting: %w", err)
		}
	}
	return out, forget(ctx, client, cfg, keys)
}

// stopped makes sure that no processor runs a stage.
func stopped(ctx context.Context, client *kafka.Client, group string) error {
	members, err := client.GroupMembers(ctx, group)
	if err != nil {
		return err
	}
	if len(members) > 0 {
		var names []string
		for _, m := range members {
			names = append(names, m.Client+" at "+strings.TrimPrefix(m.Host, "/"))
		}
		slices.Sort(names)
		return fmt.Errorf("%w: group %s has members (%s); stop every processor with this stage first",
			ErrGroupInUse, group, strings.Join(slices.Compact(names), ", "))
	}
	return nil
}

// partition notes what a reset means for one partition of the input, and returns
// the commit that it takes.
func (r *Reset) partition(ctx context.Context, client *kafka.Client, cfg ResetConfig, b kafka.PartitionOffsets) (*kafka.GroupOffsets, error) {
	offset, metadata, err := client.CommittedOffset(ctx, cfg.Group, cfg.Input, b.Partition)
	if err != nil || offset < 0 {
		return nil, err
	}
	commit := &kafka.GroupOffsets{Group: cfg.Group, Generation: -1, Topic: cfg.Input, Partition: b.Partition, Offset: offset, Metadata: metadata}
	if cfg.ToEarliest {
		text, err := stream.PositionAt(b.Start, b.Start).MarshalText()
		if err != nil {
			return nil, err
		}
		commit.Offset, commit.Metadata = b.Start, string(text)
		if offset > b.Start {
			r.Again = append(r.Again, Stretch{b.Partition, b.Start, offset})
		}
		return commit, nil
	}
	plan, err := partition.New(partition.Config{}).Restore(partition.Start{
		LogStart: b.Start, LogEnd: b.End, Committed: offset, Metadata: metadata,
	}, nil, time.Time{})
	if err != nil {
		return nil, fmt.Errorf("without its snapshots the stage could not start: partition %d of topic %s: %w; --to-earliest has it begin with what the log holds", b.Partition, cfg.Input, err)
	}
	if plan.From < offset {
		r.Restored = append(r.Restored, Stretch{b.Partition, plan.From, offset})
	}
	return commit, nil
}

// stateKeys finds the stage's records on the state topic, by key, with their
// partitions. Records of formats that this program does not know are among them.
func stateKeys(ctx context.Context, client *kafka.Client, cfg ResetConfig) (map[string]int32, error) {
	keys := make(map[string]int32)
	err := client.ReadStates(ctx, cfg.State, kafka.FetchConfig{}, func(rec stream.Record) error {
		s, err := snapshot.SourceOf(rec.Key)
		if err != nil || s.Group != cfg.Group || s.Topic != cfg.Input {
			return nil //nolint:nilerr // not the stage's
		}
		if len(rec.Value) == 0 {
			delete(keys, string(rec.Key))
		} else {
			keys[string(rec.Key)] = rec.Partition
		}
		return nil
	})
	return keys, err
}

// forget removes records from the state topic, all or none of them.
func forget(ctx context.Context, client *kafka.Client, cfg ResetConfig, keys map[string]int32) (err error) {
	if len(keys) == 0 {
		return nil
	}
	tx, err := kafka.NewTransactor(ctx, client, cfg.ID, kafka.ProducerConfig{})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Abort(context.WithoutCancel(ctx)))
		}
		err = errors.Join(err, tx.Close(context.WithoutCancel(ctx)))
	}()
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if err := tx.Send(ctx, []stream.Out{{Topic: cfg.State, Partition: keys[key], Key: []byte(key)}}, nil); err != nil {
			return fmt.Errorf("removing snapshots: %w", err)
		}
	}
	if err := tx.Commit(ctx, nil); err != nil {
		return fmt.Errorf("removing snapshots: %w", err)
	}
	return nil
}
