package kafka

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
)

// coordinatorKind is a key type of the FindCoordinator request.
type coordinatorKind int8

const (
	groupCoordinator       coordinatorKind = 0
	transactionCoordinator coordinatorKind = 1
)

// coordinated is what a broker coordinates: a consumer group or a transactional
// id.
type coordinated struct {
	kind coordinatorKind
	key  string
}

// coordinator returns the broker that coordinates, asking the cluster if that
// is not known.
func (c *Client) coordinator(ctx context.Context, of coordinated) (int32, error) {
	c.mu.Lock()
	broker, known := c.coordinators[of]
	c.mu.Unlock()
	if known {
		return broker, nil
	}
	res, err := sendAtLeast[*findcoordinator.Response](ctx, c, anyBroker, 1, &findcoordinator.Request{Key: of.key, KeyType: int8(of.kind)})
	if err != nil {
		return 0, err
	}
	if res.ErrorCode != 0 {
		return 0, kafka.Error(res.ErrorCode)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.coordinators[of] = res.NodeID
	return res.NodeID, nil
}

// forgetCoordinator makes the next question go to the cluster, unless somebody
// has learned of another since.
func (c *Client) forgetCoordinator(of coordinated, broker int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.coordinators[of] == broker {
		delete(c.coordinators, of)
	}
}

// atCoordinator performs a request at the broker that coordinates, and repeats
// it there, or where the coordinator has moved to, while its error is retriable
// and limit has not passed.
func (c *Client) atCoordinator(ctx context.Context, of coordinated, what string, limit time.Duration, do func(ctx context.Context, broker int32) error) error {
	op := func() error {
		broker, err := c.coordinator(ctx, of)
		if err == nil {
			err = do(ctx, broker)
			if hasMoved(err) {
				c.forgetCoordinator(of, broker)
			}
		}
		if err != nil && (ctx.Err() != nil || classify(err) != retriable) {
			return backoff.Permanent(err)
		}
		return err
	}
	tries := 0
	err := backoff.RetryNotify(op, backoff.WithContext(newCoordinatorBackoff(limit), ctx), func(err error, _ time.Duration) {
		c.metrics.retries.WithLabelValues(what).Inc()
		if tries++; tries == 10 {
			c.log.Warn("waiting for a coordinator", slog.String("operation", what), slog.String("key", of.key), slog.Any("error", err))
		}
	})
	var permanent *backoff.PermanentError
	if errors.As(err, &permanent) {
		return permanent.Err
	}
	return err
}

// hasMoved reports whether another broker may be the coordinator now. One that
// does not answer may have gone.
func hasMoved(err error) bool {
	var code kafka.Error
	if errors.As(err, &code) {
		return code == kafka.NotCoordinatorForGroup || code == kafka.GroupCoordinatorNotAvailable || code == kafka.BrokerNotAvailable
	}
	return err != nil
}

// newCoordinatorBackoff begins with 2 ms: the broker answers
// CONCURRENT_TRANSACTIONS while it writes the markers of the transaction
// before, which takes a few milliseconds.
func newCoordinatorBackoff(limit time.Duration) *backoff.ExponentialBackOff {
	b := newBackoff(limit)
	b.InitialInterval = 2 * time.Millisecond
	b.Reset()
	return b
}
