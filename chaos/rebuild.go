package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/porestream/porestream/align"
	alignstage "github.com/porestream/porestream/align/stage"
	basecallstage "github.com/porestream/porestream/basecall/stage"
	"github.com/porestream/porestream/chaos/check"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/partition"
	"github.com/porestream/porestream/stream/snapshot"
)

// noAligner stands for the aligners of a handler that is never live.
type noAligner struct{}

func (noAligner) Map(string, []byte) ([]align.Alignment, error) {
	return nil, errors.New("a handler that replays has nothing to align")
}

// replaying is a maker of basecall handlers that can take records in and make nothing of them.
func replaying(partitions map[string]int32) stream.NewHandler {
	topics := stream.NewTopics("")
	return basecallstage.New(basecallstage.Config{Topics: topics, ReadsPartitions: partitions[topics.Reads], Aligners: []alignstage.Aligner{noAligner{}}})
}

// rebuild restores the state of every partition that has a usable snapshot as a new owner would, from the snapshot and the records behind
// it, and folds it from the first record on besides. restored counts the partitions.
func rebuild(ctx context.Context, client *kafka.Client, contents *check.Contents, handlers []check.Stage) (sections []check.Section, restored int, err error) {
	for _, folding := range handlers {
		s := stage{name: folding.Name, input: folding.Input}
		bounds, err := client.Offsets(ctx, s.input)
		if err != nil {
			return nil, 0, err
		}
		for p, b := range bounds {
			r := rebuilding{client: client, stage: s, partition: int32(p), bounds: b, newHandler: folding.New}
			for _, rec := range contents.Records[s.input] {
				if rec.Partition == r.partition {
					r.records = append(r.records, rec)
				}
			}
			found, err := r.sections(ctx, int32(len(bounds)))
			if err != nil {
				return nil, 0, fmt.Errorf("rebuilding the state of the %s stage, %s/%d: %w", s.name, s.input, p, err)
			}
			if len(found) > 0 {
				restored++
			}
			sections = append(sections, found...)
		}
	}
	return sections, restored, nil
}

// rebuilding is the rebuilding of one partition's state.
type rebuilding struct {
	client     *kafka.Client
	stage      stage
	partition  int32
	bounds     kafka.PartitionOffsets
	newHandler stream.NewHandler
	records    []stream.Record
}

// sections compares the two ways to the state after the last record; nothing if there is no snapshot.
func (r *rebuilding) sections(ctx context.Context, partitions int32) ([]check.Section, error) {
	whole, err := r.newHandler(r.stage.input, r.partition, partitions)
	if err != nil {
		return nil, err
	}
	defer whole.Close()
	restored, err := r.newHandler(r.stage.input, r.partition, partitions)
	if err != nil {
		return nil, err
	}
	defer restored.Close()
	from, ok, err := r.restore(ctx, restored.State())
	if err != nil || !ok {
		return nil, err
	}
	for _, rec := range r.records {
		if err := whole.Replay(ctx, rec); err != nil {
			return nil, err
		}
		if rec.Offset < from {
			continue
		}
		if err := restored.Replay(ctx, rec); err != nil {
			return nil, err
		}
	}
	a, err := contentOf(restored.State())
	if err != nil {
		return nil, err
	}
	b, err := contentOf(whole.State())
	if err != nil {
		return nil, err
	}
	var sections []check.Section
	for name := range union(a, b) {
		sections = append(sections, check.Section{
			Stage: r.stage.name, Topic: r.stage.input, Partition: r.partition, Name: name, Restored: a[name], Replayed: b[name],
		})
	}
	return sections, nil
}

// restore gives the newest usable snapshot to a state and returns the offset behind it.
func (r *rebuilding) restore(ctx context.Context, state stream.State) (from int64, ok bool, err error) {
	topic := stream.NewTopics("").State
	index, err := r.client.ReadState(ctx, topic, snapshot.Source{Group: r.stage.group(), Topic: r.stage.input, Partition: r.partition}, kafka.FetchConfig{})
	if err != nil {
		return 0, false, err
	}
	offset, metadata, err := r.client.CommittedOffset(ctx, r.stage.group(), r.stage.input, r.partition)
	if err != nil {
		return 0, false, err
	}
	position, err := partition.CommittedPosition(partition.Start{LogStart: r.bounds.Start, LogEnd: r.bounds.End, Committed: offset, Metadata: metadata})
	if err != nil {
		return 0, false, err
	}
	format := state.Format()
	if r.stage.name == basecallstage.Name {
		// Its handlers are made here without the model.
		for _, s := range index.List() {
			format.Fingerprint = s.Format.Fingerprint
		}
	}
	chosen, _ := index.Choose(format, position, r.bounds.Start)
	if chosen == nil {
		return 0, false, nil
	}
	if err := r.client.RestoreState(ctx, topic, chosen, state, kafka.FetchConfig{}); err != nil {
		return 0, false, err
	}
	return chosen.Offset(), true, nil
}

// contentOf is every section of a state by name.
func contentOf(state stream.State) (map[string][]byte, error) {
	content := make(map[string][]byte)
	for _, s := range state.Sections() {
		b, err := state.AppendSection(nil, s.Name)
		if err != nil {
			return nil, fmt.Errorf("section %s: %w", s.Name, err)
		}
		content[s.Name] = b
	}
	return content, nil
}

// union is the names in either.
func union(a, b map[string][]byte) map[string]bool {
	names := make(map[string]bool)
	for _, m := range []map[string][]byte{a, b} {
		for name := range m {
			names[name] = true
		}
	}
	return names
}
