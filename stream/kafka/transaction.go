package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/addoffsetstotxn"
	"github.com/segmentio/kafka-go/protocol/addpartitionstotxn"
	"github.com/segmentio/kafka-go/protocol/endtxn"
	"github.com/segmentio/kafka-go/protocol/initproducerid"
	"github.com/segmentio/kafka-go/protocol/txnoffsetcommit"

	"github.com/porestream/porestream/stream/planted"
)

// The oldest versions that transactions are safe with, all of Kafka 2.5:
// InitProducerId that names the session it goes on from (KIP-360) and
// TxnOffsetCommit that names the generation (KIP-447).
const (
	oldestInitProducerID  = 3
	oldestTxnOffsetCommit = 3
)

// transactionLog speaks with the coordinators about the transactions of one
// transactional id. It keeps no state.
type transactionLog struct {
	client  *Client
	id      string
	timeout time.Duration // of a transaction
	limit   time.Duration // for repeating a request
}

func (l *transactionLog) self() coordinated {
	return coordinated{transactionCoordinator, l.id}
}

// begin takes a session. Without one to go on from, it fences the holder of the
// id and completes or aborts that holder's transaction. With one, it succeeds
// only while nobody else has the id.
func (l *transactionLog) begin(ctx context.Context, from *session) (*session, error) {
	req := &initproducerid.Request{
		TransactionalID: l.id, TransactionTimeoutMs: int32(min(l.timeout.Milliseconds(), 1<<31-1)),
		ProducerID: -1, ProducerEpoch: -1,
	}
	if from != nil {
		req.ProducerID, req.ProducerEpoch = from.id, from.epoch
	}
	var s *session
	err := l.client.atCoordinator(ctx, l.self(), "taking a transactional id", l.limit, func(ctx context.Context, broker int32) error {
		res, err := sendAtLeast[*initproducerid.Response](ctx, l.client, broker, oldestInitProducerID, req)
		if err == nil {
			s, err = newSession(res)
		}
		return err
	})
	switch {
	case errors.Is(err, kafka.InvalidTransactionTimeout):
		return nil, fmt.Errorf("taking transactional id %s: the transaction timeout of %v is more than the broker's transaction.max.timeout.ms allows (%w)", l.id, l.timeout, err)
	case errors.Is(err, kafka.TransactionalIDAuthorizationFailed):
		return nil, fmt.Errorf("taking transactional id %s: the user may not write under it; it needs the ACL operations Write and Describe on the transactional id (%w)", l.id, err)
	case errors.Is(err, kafka.UnsupportedVersion):
		return nil, fmt.Errorf("taking transactional id %s: transactions need Kafka 2.5 or later: %w", l.id, err)
	case err != nil:
		return nil, fmt.Errorf("taking transactional id %s: %w", l.id, err)
	}
	return s, nil
}

// addPartitions makes partitions part of the transaction.
func (l *transactionLog) addPartitions(ctx context.Context, s *session, partitions []topicPartition) error {
	req := &addpartitionstotxn.Request{TransactionalID: l.id, ProducerID: s.id, ProducerEpoch: s.epoch}
	topics := make(map[string]int)
	for _, tp := range partitions {
		i, exists := topics[tp.topic]
		if !exists {
			i = len(req.Topics)
			topics[tp.topic] = i
			req.Topics = append(req.Topics, addpartitionstotxn.RequestTopic{Name: tp.topic})
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, tp.partition)
	}
	err := l.client.atCoordinator(ctx, l.self(), "adding partitions to a transaction", l.limit, func(ctx context.Context, broker int32) error {
		res, err := send[*addpartitionstotxn.Response](ctx, l.client, broker, req)
		if err != nil {
			return err
		}
		var failed error
		added := 0
		for _, t := range res.Results {
			for _, p := range t.Results {
				code := kafka.Error(p.ErrorCode)
				// OPERATION_NOT_ATTEMPTED is said of partitions whose
				// neighbours have failed: theirs is the reason.
				if code != 0 && (failed == nil || errors.Is(failed, errNotAttempted)) {
					failed = fmt.Errorf("topic %s partition %d: %w", t.Name, p.PartitionIndex, code)
				}
				added++
			}
		}
		if failed == nil && added != len(partitions) {
			return fmt.Errorf("answer about %d of %d partitions", added, len(partitions))
		}
		return failed
	})
	if err != nil {
		return fmt.Errorf("adding partitions to the transaction: %w", err)
	}
	return nil
}

// addOffsets makes a group's offsets part of the transaction.
func (l *transactionLog) addOffsets(ctx context.Context, s *session, group string) error {
	req := &addoffsetstotxn.Request{TransactionalID: l.id, ProducerID: s.id, ProducerEpoch: s.epoch, GroupID: group}
	err := l.client.atCoordinator(ctx, l.self(), "adding offsets to a transaction", l.limit, func(ctx context.Context, broker int32) error {
		res, err := send[*addoffsetstotxn.Response](ctx, l.client, broker, req)
		if err != nil {
			return err
		}
		return codeError(res.ErrorCode)
	})
	if err != nil {
		return fmt.Errorf("adding the offsets of group %s to the transaction: %w", group, err)
	}
	return nil
}

// commitOffsets writes offsets that take effect with the transaction.
func (l *transactionLog) commitOffsets(ctx context.Context, s *session, o *GroupOffsets) error {
	generation, member := o.Generation, o.Member
	if planted.Is(planted.NoFencing) {
		generation, member = -1, ""
	}
	req := &txnoffsetcommit.Request{
		TransactionalID: l.id, GroupID: o.Group, ProducerID: s.id, ProducerEpoch: s.epoch,
		GenerationID: generation, MemberID: member,
		Topics: []txnoffsetcommit.RequestTopic{{Name: o.Topic, Partitions: []txnoffsetcommit.RequestPartition{{
			Partition: o.Partition, CommittedOffset: o.Offset, CommittedLeaderEpoch: -1, CommittedMetadata: o.Metadata,
		}}}},
	}
	err := l.client.atCoordinator(ctx, coordinated{groupCoordinator, o.Group}, "committing offsets in a transaction", l.limit, func(ctx context.Context, broker int32) error {
		res, err := sendAtLeast[*txnoffsetcommit.Response](ctx, l.client, broker, oldestTxnOffsetCommit, req)
		if err != nil {
			return err
		}
		for _, t := range res.Topics {
			for _, p := range t.Partitions {
				if t.Name == o.Topic && p.Partition == o.Partition {
					return codeError(p.ErrorCode)
				}
			}
		}
		return errNotAnswered
	})
	if err != nil {
		return fmt.Errorf("committing offset %d of %s in the transaction: %w", o.Offset, o.place(), err)
	}
	return nil
}

// end commits or aborts. Repeated with the same session it has one outcome,
// which the broker keeps until the next transaction begins. doubt says, beside
// an error, that the end may have been carried out: a try went unanswered, or
// its answer leaves that open.
func (l *transactionLog) end(ctx context.Context, s *session, commit bool) (doubt bool, err error) {
	req := &endtxn.Request{TransactionalID: l.id, ProducerID: s.id, ProducerEpoch: s.epoch, Committed: commit}
	err = l.client.atCoordinator(ctx, l.self(), "ending a transaction", l.limit, func(ctx context.Context, broker int32) error {
		res, err := send[*endtxn.Response](ctx, l.client, broker, req)
		if err == nil {
			err = codeError(res.ErrorCode)
		}
		// A coordinator that could not replicate its decision, which it answers
		// with a retriable code, may have taken it all the same: only a refusal
		// for good is sure.
		var code kafka.Error
		doubt = doubt || err != nil && (!errors.As(err, &code) || classify(code) == retriable)
		return err
	})
	switch {
	case err == nil:
		return false, nil
	case commit:
		return doubt, fmt.Errorf("committing the transaction: %w", err)
	default:
		return doubt, fmt.Errorf("aborting the transaction: %w", err)
	}
}

// errNotAnswered says that a response leaves out what was asked for.
var errNotAnswered = errors.New("not in the answer")

// errNotAttempted is OPERATION_NOT_ATTEMPTED; the library has another name for
// it, which is wrong.
const errNotAttempted = kafka.Error(55)

func codeError(code int16) error {
	if code == 0 {
		return nil
	}
	return kafka.Error(code)
}
