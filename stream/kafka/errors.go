package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// ErrClosed is what a closed producer answers.
var ErrClosed = errors.New("producer is closed")

// OffsetError says that an offset is no longer, or not yet, in a partition's
// log: retention has removed it, or the topic was made anew.
type OffsetError struct {
	Topic     string
	Partition int32
	Offset    int64
	// Start and End bound the log; both are -1 where they are not known.
	Start, End int64
}

func (e *OffsetError) Error() string {
	if e.End < 0 {
		return fmt.Sprintf("topic %s partition %d: offset %d is not in the log", e.Topic, e.Partition, e.Offset)
	}
	return fmt.Sprintf("topic %s partition %d: offset %d is not in the log, which holds %d to %d", e.Topic, e.Partition, e.Offset, e.Start, e.End)
}

// RecordTooLargeError says that a record can't be written because of its size.
type RecordTooLargeError struct {
	Topic string
	// Bytes is the record's encoded size and Limit what may be written; 0 if
	// the broker refused without naming it.
	Bytes, Limit int
}

func (e *RecordTooLargeError) Error() string {
	if e.Limit == 0 {
		return fmt.Sprintf("record of %d bytes exceeds max.message.bytes of topic %s", e.Bytes, e.Topic)
	}
	return fmt.Sprintf("record of %d bytes for topic %s exceeds the limit of %d", e.Bytes, e.Topic, e.Limit)
}

// verdict is what to do about an error of a broker or a connection.
type verdict int

const (
	// retriable: the same request may succeed a little later.
	retriable verdict = iota
	// sessionFatal: what the request relied on is gone. The producer's
	// session or the group's generation must be made anew.
	sessionFatal
	// fatal: repeating can't help.
	fatal
)

func (v verdict) String() string {
	switch v {
	case retriable:
		return "retriable"
	case sessionFatal:
		return "session"
	default:
		return "fatal"
	}
}

// classify is the one place that distinguishes errors.
//
// A broker may have done what it answers with Unknown, RequestTimedOut or NotEnoughReplicasAfterAppend to. A batch is then sent again with the same
// producer id, epoch and sequence, by which a broker that has appended it drops the repetition; one batch of a partition is under way at a time, so
// it is among the last five that brokers know. The embedded broker, which knows sequences of what its disk didn't take, falls silent then.
//
// The sequence and epoch errors are matched as a set: brokers differ in which
// of them they answer to the same fault.
func classify(err error) verdict {
	var code kafka.Error
	if errors.As(err, &code) {
		switch code {
		case kafka.OutOfOrderSequenceNumber, kafka.InvalidProducerEpoch, kafka.UnknownProducerId,
			kafka.ProducerFenced, kafka.InvalidProducerIDMapping, kafka.InvalidTransactionState,
			kafka.IllegalGeneration, kafka.UnknownMemberId, kafka.RebalanceInProgress, kafka.FencedInstanceID:
			return sessionFatal
		case kafka.Unknown, kafka.InvalidMessage, kafka.UnknownTopicOrPartition, kafka.LeaderNotAvailable,
			kafka.NotLeaderForPartition, kafka.RequestTimedOut, kafka.BrokerNotAvailable,
			kafka.ReplicaNotAvailable, kafka.NetworkException, kafka.GroupLoadInProgress,
			kafka.GroupCoordinatorNotAvailable, kafka.NotCoordinatorForGroup, kafka.NotEnoughReplicas,
			kafka.NotEnoughReplicasAfterAppend, kafka.NotController, kafka.ConcurrentTransactions,
			kafka.KafkaStorageError, kafka.FencedLeaderEpoch, kafka.UnknownLeaderEpoch,
			kafka.OffsetNotAvailable, kafka.PreferredLeaderNotAvailable, kafka.UnstableOffsetCommit,
			kafka.ThrottlingQuotaExceeded, kafka.ListenerNotFound, kafka.StaleControllerEpoch:
			return retriable
		default:
			return fatal
		}
	}
	var certInvalid *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	if errors.As(err, &certInvalid) || errors.As(err, &record) || errors.Is(err, context.Canceled) {
		return fatal
	}
	var netErr net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe),
		errors.Is(err, net.ErrClosed), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &netErr),
		errors.Is(err, protocol.ErrNoLeader), errors.Is(err, protocol.ErrNoTopic), errors.Is(err, protocol.ErrNoPartition):
		return retriable
	}
	return fatal
}
