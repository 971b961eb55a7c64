package kafka

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/offsetcommit"
)

// GroupOffsets is what a member of a consumer group commits for one partition.
type GroupOffsets struct {
	Group string
	// Member and Generation are who commits and in which generation: a commit
	// from one that has ended is refused. An empty Member with Generation -1
	// commits for a group that has no members.
	Member     string
	Generation int32
	Topic      string
	Partition  int32
	// Offset is where to go on and Metadata what the broker keeps with it, up
	// to its offset.metadata.max.bytes (4096).
	Offset   int64
	Metadata string
}

func (o *GroupOffsets) place() string {
	return fmt.Sprintf("topic %s partition %d for group %s", o.Topic, o.Partition, o.Group)
}

// CommitOffsets commits offsets outside of transactions. The error is
// [ErrFenced] if the generation has ended.
func (c *Client) CommitOffsets(ctx context.Context, o GroupOffsets) error {
	req := &offsetcommit.Request{
		GroupID: o.Group, GenerationID: o.Generation, MemberID: o.Member, RetentionTimeMs: -1,
		Topics: []offsetcommit.RequestTopic{{Name: o.Topic, Partitions: []offsetcommit.RequestPartition{{
			PartitionIndex: o.Partition, CommittedOffset: o.Offset, CommittedLeaderEpoch: -1, CommittedMetadata: o.Metadata,
		}}}},
	}
	err := c.atCoordinator(ctx, coordinated{groupCoordinator, o.Group}, "committing offsets", 3*c.cfg.RequestTimeout, func(ctx context.Context, broker int32) error {
		res, err := sendAtLeast[*offsetcommit.Response](ctx, c, broker, 1, req)
		if err != nil {
			return err
		}
		for _, t := range res.Topics {
			for _, p := range t.Partitions {
				if t.Name == o.Topic && p.PartitionIndex == o.Partition {
					return codeError(p.ErrorCode)
				}
			}
		}
		return errNotAnswered
	})
	if err != nil {
		return fmt.Errorf("committing offset %d of %s: %w", o.Offset, o.place(), fencing(err))
	}
	return nil
}

// Versions of OffsetFetch. Since 7 it can wait for transactions (KIP-447).
const (
	stableOffsetFetch = 7
	oldOffsetFetch    = 2
)

// CommittedOffset returns a group's committed offset of a partition, -1 if there
// is none, with its metadata. Commits in open transactions are waited for: what
// it returns is not going to change by a transaction that has begun.
//
// A broker before Kafka 2.5 can't say whether there are any. It also can't be
// used by a Transactor, so its answer is taken as it is.
func (c *Client) CommittedOffset(ctx context.Context, group, topic string, partition int32) (offset int64, metadata string, err error) {
	tp := topicPartition{topic, partition}
	var got committedOffset
	err = c.atCoordinator(ctx, coordinated{groupCoordinator, group}, "fetching committed offsets", c.stableTimeout(), func(ctx context.Context, broker int32) error {
		var err error
		got, err = c.fetchOffset(ctx, broker, group, tp)
		return err
	})
	if err != nil {
		return 0, "", fmt.Errorf("fetching the committed offset of topic %s partition %d for group %s: %w", topic, partition, group, err)
	}
	return got.offset, got.metadata, nil
}

type committedOffset struct {
	offset   int64
	metadata string
}

// fetchOffset asks a broker on one connection first which versions it knows:
// the library lists only those that it knows itself.
func (c *Client) fetchOffset(ctx context.Context, broker int32, group string, tp topicPartition) (committedOffset, error) {
	return exchange(ctx, c, broker, protocol.OffsetFetch, func(rw io.ReadWriter, _ int16) (committedOffset, error) {
		newest, err := newestVersion(rw, c.cfg.ClientID, protocol.OffsetFetch)
		if err != nil {
			return committedOffset{}, fmt.Errorf("asking for versions: %w", err)
		}
		version := min(newest, stableOffsetFetch)
		if version < oldOffsetFetch {
			return committedOffset{}, kafka.UnsupportedVersion
		}
		if version < stableOffsetFetch {
			version = oldOffsetFetch
		}
		if _, err := rw.Write(encodeOffsetFetch(version, c.cfg.ClientID, group, tp)); err != nil {
			return committedOffset{}, err
		}
		body, err := readFrame(rw)
		if err != nil {
			return committedOffset{}, err
		}
		return decodeOffsetFetch(version, body, tp)
	})
}

// stableTimeout is for how long to wait for transactions to end: one whose
// holder has died lasts until its timeout.
func (c *Client) stableTimeout() time.Duration {
	return defaultTransactionTimeout + 3*c.cfg.RequestTimeout
}

// newestVersion asks a broker which version of a request it knows at most.
func newestVersion(rw io.ReadWriter, clientID string, key protocol.ApiKey) (int16, error) {
	body, err := exchangeVersions(rw, clientID)
	if err != nil {
		return 0, err
	}
	d := decoder{b: body}
	if code := kafka.Error(d.int16()); code != 0 {
		return 0, code
	}
	for range d.count(6) {
		k, _, newest := d.int16(), d.int16(), d.int16()
		if protocol.ApiKey(k) == key {
			return newest, d.err
		}
	}
	if d.err != nil {
		return 0, d.err
	}
	return 0, kafka.UnsupportedVersion
}

// encodeOffsetFetch encodes a request for one partition:
//
//	version 2: header 1 | group | topics: name, partitions: index 4
//	version 7: header 2 | group | topics: name, partitions: index 4, tags; tags
//	           | require stable 1 | tags
//
// Version 7 has compact strings and arrays, whose lengths are unsigned varints
// of one more, and tagged fields, of which there are none.
func encodeOffsetFetch(version int16, clientID, group string, tp topicPartition) []byte {
	be := binary.BigEndian
	b := appendRequestHeader(make([]byte, 0, 128), protocol.OffsetFetch, version, clientID)
	if version < stableOffsetFetch {
		b = appendString(b, group)
		b = be.AppendUint32(b, 1)
		b = appendString(b, tp.topic)
		b = be.AppendUint32(b, 1)
		b = be.AppendUint32(b, uint32(tp.partition))
		finishRequest(b, 0)
		return b
	}
	b = append(b, 0) // tags of the header
	b = appendCompactString(b, group)
	b = append(b, 2) // one topic
	b = appendCompactString(b, tp.topic)
	b = append(b, 2) // one partition
	b = be.AppendUint32(b, uint32(tp.partition))
	b = append(b, 0) // tags of the topic
	b = append(b, 1) // require stable
	b = append(b, 0) // tags
	finishRequest(b, 0)
	return b
}

// decodeOffsetFetch reads the response to a request for one partition:
//
//	version 2: topics: name, partitions: index 4, offset 8, metadata, error 2
//	           | error 2
//	version 7: header's tags | throttle time 4 | topics: name, partitions: index
//	           4, offset 8, leader epoch 4, metadata, error 2, tags; tags
//	           | error 2 | tags
func decodeOffsetFetch(version int16, body []byte, tp topicPartition) (committedOffset, error) {
	d := decoder{b: body}
	var c committedOffset
	var name string
	var index int32
	var code, overall int16
	var topics, partitions int
	if version < stableOffsetFetch {
		if topics = d.count(6); topics == 1 {
			name = d.string()
			if partitions = d.count(16); partitions == 1 {
				index, c.offset, c.metadata, code = d.int32(), d.int64(), d.string(), d.int16()
			}
		}
		overall = d.int16()
	} else {
		d.tags()
		d.int32()
		if topics = d.compactCount(3); topics == 1 {
			name = d.compactString()
			if partitions = d.compactCount(20); partitions == 1 {
				index, c.offset = d.int32(), d.int64()
				d.int32()
				c.metadata, code = d.compactString(), d.int16()
				d.tags()
			}
			d.tags()
		}
		overall = d.int16()
		d.tags()
	}
	switch {
	case d.err == nil && kafka.Error(overall) == kafka.GroupIdNotFound: // Apache Kafka says -1 instead
		return committedOffset{offset: -1}, nil
	case d.err == nil && overall != 0:
		return committedOffset{}, kafka.Error(overall)
	case d.err == nil && (topics != 1 || partitions != 1 || name != tp.topic || index != tp.partition):
		return committedOffset{}, fmt.Errorf("reading offset fetch response: it is not about topic %s partition %d", tp.topic, tp.partition)
	case d.err != nil:
		return committedOffset{}, fmt.Errorf("reading offset fetch response: %w", d.err)
	case code != 0:
		return committedOffset{}, kafka.Error(code)
	case c.offset < 0:
		return committedOffset{offset: -1}, nil
	}
	return c, nil
}
