package kafka

import (
	"context"
	"errors"

	"github.com/segmentio/kafka-go"
)

// IsTransient reports whether what has failed with err may succeed when it is begun anew: the
// cluster or the connection was at fault for the moment, or a transaction's outcome is not
// known. It is false for what somebody has to mend first, for [ErrFenced], and for a context
// that was cancelled.
func IsTransient(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, ErrFenced) {
		return false
	}
	return IsClock(err) || errors.Is(err, ErrInDoubt) || errors.Is(err, ErrAborted) || classify(err) == retriable
}

// IsClock reports whether err says that the brokers refuse the time of records: since Kafka 4 they
// refuse a time that is more than an hour ahead of theirs (message.timestamp.after.max.ms). Records
// that are sent again have the time of the clock as it is then.
func IsClock(err error) bool { return errors.Is(err, kafka.InvalidTimestamp) }

// IsMissingTopic reports whether err says that a topic does not exist: without the right to see one it seems so, too.
func IsMissingTopic(err error) bool { return errors.Is(err, kafka.UnknownTopicOrPartition) }
