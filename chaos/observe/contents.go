package observe

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/porestream/porestream/chaos/check"
	"github.com/porestream/porestream/stream"
)

// commitsTopic is where Apache Kafka keeps offset commits.
const commitsTopic = "__consumer_offsets"

// readTimeout bounds the reading of what a run has left.
const readTimeout = 2 * time.Minute

// Contents reads everything that is committed on topics, and how the transactions on them ended.
func (cluster Cluster) Contents(ctx context.Context, names stream.Topics, topics []string) (check.Contents, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	c := check.Contents{Topics: names, Records: make(map[string][]stream.Record)}
	client, err := cluster.Client(kgo.ClientID("reader"))
	if err != nil {
		return c, err
	}
	defer client.Close()
	for _, topic := range topics {
		bounds, err := boundsOf(ctx, client, topic)
		if err != nil {
			return c, err
		}
		c.Bounds = append(c.Bounds, bounds...)
		records, err := cluster.readTopic(ctx, bounds)
		if err != nil {
			return c, err
		}
		for _, r := range records {
			if r.Attrs.IsControl() {
				if controlsCommit(r.Key) {
					c.Committed++
				} else {
					c.Aborted++
				}
				continue
			}
			c.Records[topic] = append(c.Records[topic], recordOf(r))
		}
	}
	return c, nil
}

// AwaitTransactions waits until no transaction is open on topics, but no longer than within: whether one still is, the checker decides.
func (cluster Cluster) AwaitTransactions(ctx context.Context, topics []string, within time.Duration) error {
	client, err := cluster.Client(kgo.ClientID("reader"))
	if err != nil {
		return err
	}
	defer client.Close()
	for deadline := time.Now().Add(within); time.Now().Before(deadline); {
		open := false
		for _, topic := range topics {
			bounds, err := boundsOf(ctx, client, topic)
			if err != nil {
				return err
			}
			open = open || slices.ContainsFunc(bounds, func(b check.Bounds) bool { return b.Stable < b.End })
		}
		if !open {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
	return nil
}

// Commits reads every offset commit that took effect. Only Apache Kafka keeps them on a topic.
func (cluster Cluster) Commits(ctx context.Context) ([]check.Commit, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	client, err := cluster.Client(kgo.ClientID("reader"))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	bounds, err := boundsOf(ctx, client, commitsTopic)
	if err != nil {
		return nil, err
	}
	records, err := cluster.readTopic(ctx, bounds)
	if err != nil {
		return nil, err
	}
	var commits []check.Commit
	for _, r := range records {
		var key kmsg.OffsetCommitKey
		// The other kinds of records there have keys of version 2 and above.
		if r.Attrs.IsControl() || len(r.Key) < 2 || binary.BigEndian.Uint16(r.Key) > 1 || len(r.Value) == 0 {
			continue
		}
		var value kmsg.OffsetCommitValue
		if err := key.ReadFrom(r.Key); err != nil {
			return nil, fmt.Errorf("reading the offset commits: record %d of partition %d: %w", r.Offset, r.Partition, err)
		}
		if err := value.ReadFrom(r.Value); err != nil {
			return nil, fmt.Errorf("reading the offset commits: record %d of partition %d: %w", r.Offset, r.Partition, err)
		}
		commits = append(commits, check.Commit{Group: key.Group, Topic: key.Topic, Partition: key.Partition, Offset: value.Offset})
	}
	return commits, nil
}

// controlsCommit reports whether a control record ends a transaction by committing it.
func controlsCommit(key []byte) bool {
	var k kmsg.ControlRecordKey
	return k.ReadFrom(key) == nil && k.Type == kmsg.ControlRecordKeyTypeCommit
}

func recordOf(r *kgo.Record) stream.Record {
	rec := stream.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Time: r.Timestamp, Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		rec.Headers = append(rec.Headers, stream.Header{Key: h.Key, Value: h.Value})
	}
	return rec
}

// readTopic reads the committed records of a topic within bounds, and the control records among them, ordered by partition and offset.
func (cluster Cluster) readTopic(ctx context.Context, bounds []check.Bounds) ([]*kgo.Record, error) {
	from := make(map[string]map[int32]kgo.Offset)
	left := make(map[int32]int64)
	for _, b := range bounds {
		if b.Start >= b.Stable {
			continue
		}
		if from[b.Topic] == nil {
			from[b.Topic] = make(map[int32]kgo.Offset)
		}
		from[b.Topic][b.Partition] = kgo.NewOffset().At(b.Start)
		left[b.Partition] = b.Stable
	}
	if len(left) == 0 {
		return nil, nil
	}
	client, err := cluster.Client(kgo.ClientID("reader"), kgo.ConsumePartitions(from),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var records []*kgo.Record
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("reading topic %s: partitions %v are not at their ends: %w", bounds[0].Topic, left, err)
		}
		if errs := fetches.Errors(); len(errs) > 0 {
			return nil, fmt.Errorf("reading topic %s: %w", bounds[0].Topic, errs[0].Err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			records = append(records, r)
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	slices.SortFunc(records, func(a, b *kgo.Record) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	return records, nil
}

// boundsOf asks where the partitions of a topic begin and end.
func boundsOf(ctx context.Context, client *kgo.Client, topic string) ([]check.Bounds, error) {
	req := kmsg.NewPtrMetadataRequest()
	asked := kmsg.NewMetadataRequestTopic()
	asked.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, asked)
	meta, err := req.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("asking for topic %s: %w", topic, err)
	}
	if err := kerr.ErrorForCode(meta.Topics[0].ErrorCode); err != nil {
		return nil, fmt.Errorf("asking for topic %s: %w", topic, err)
	}
	partitions := int32(len(meta.Topics[0].Partitions))
	bounds := make([]check.Bounds, partitions)
	for p := range partitions {
		bounds[p] = check.Bounds{Topic: topic, Partition: p}
	}
	for _, ask := range []struct {
		at        int64 // -2 the earliest, -1 the latest
		isolation int8  // 1 before the first transaction that is open
		into      func(*check.Bounds, int64)
	}{
		{-2, 0, func(b *check.Bounds, o int64) { b.Start = o }},
		{-1, 1, func(b *check.Bounds, o int64) { b.Stable = o }},
		{-1, 0, func(b *check.Bounds, o int64) { b.End = o }},
	} {
		req := kmsg.NewPtrListOffsetsRequest()
		req.IsolationLevel = ask.isolation
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = topic
		for p := range partitions {
			rp := kmsg.NewListOffsetsRequestTopicPartition()
			rp.Partition, rp.Timestamp = p, ask.at
			t.Partitions = append(t.Partitions, rp)
		}
		req.Topics = append(req.Topics, t)
		resp, err := req.RequestWith(ctx, client)
		if err != nil {
			return nil, fmt.Errorf("asking for the offsets of topic %s: %w", topic, err)
		}
		for _, p := range resp.Topics[0].Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("asking for the offsets of topic %s, partition %d: %w", topic, p.Partition, err)
			}
			ask.into(&bounds[p.Partition], p.Offset)
		}
	}
	return bounds, nil
}
