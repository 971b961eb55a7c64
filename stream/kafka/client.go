package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// Client is a connection pool to one cluster. It is safe for concurrent use.
type Client struct {
	cfg       Config
	log       *slog.Logger
	metrics   *metrics
	addr      net.Addr
	transport *kafka.Transport
	dialer    *kafka.Dialer // the group library's way to connect
	batches   *batchDecoder
	// compressor makes the encoder of record batches at its first use;
	// EncodeAll keeps nothing between calls, so all writers share it.
	compressor func() (*zstd.Encoder, error)
	buffers    sync.Pool // of *[]byte, for encoded batches

	mu           sync.Mutex
	topics       map[string]*topicLeaders
	coordinators map[coordinated]int32
}

// topicLeaders is what is known about a topic at one time; it never changes.
type topicLeaders struct {
	leaders []int32 // by partition; -1 while there is none
}

// Connect reaches the cluster once and returns a client for it. A cluster that
// can't be reached or that refuses us is reported with its reason: nobody
// listens, wrong password, TLS expected or not expected, unknown authority.
func Connect(ctx context.Context, cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("checking Kafka settings: %w", oneLine(err))
	}
	cfg = cfg.withDefaults()
	tlsConf, mechanism, err := cfg.security()
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	batches, err := newBatchDecoder()
	if err != nil {
		return nil, err
	}
	c := &Client{
		cfg:     cfg,
		batches: batches,
		log:     cfg.Logger,
		metrics: m,
		addr:    kafka.TCP(cfg.Brokers...),
		transport: &kafka.Transport{
			Dial:        cfg.Dial,
			DialTimeout: cfg.DialTimeout,
			ClientID:    cfg.ClientID,
			TLS:         tlsConf,
			SASL:        mechanism,
			// Only the brokers' addresses are taken from the library's cache,
			// so no topic needs to be in it.
			MetadataTopics: []string{},
		},
		dialer: &kafka.Dialer{
			ClientID:      cfg.ClientID,
			DialFunc:      cfg.Dial,
			Timeout:       cfg.DialTimeout,
			TLS:           tlsConf,
			SASLMechanism: mechanism,
		},
		compressor:   sync.OnceValues(newCompressor),
		topics:       make(map[string]*topicLeaders),
		coordinators: make(map[coordinated]int32),
	}
	if err := c.greet(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// greet checks that the cluster answers, at the addresses given and at the one
// that it advertises for itself.
func (c *Client) greet(ctx context.Context) error {
	if err := probe(ctx, c.cfg, c.transport.TLS); err != nil {
		return err
	}
	hello, cancel := context.WithTimeout(ctx, c.cfg.DialTimeout)
	defer cancel()
	res, err := send[*metadata.Response](hello, c, anyBroker, &metadata.Request{TopicNames: []string{}})
	if err != nil {
		return explainGreeting(c.cfg, err)
	}
	if len(res.Brokers) == 0 {
		return fmt.Errorf("connecting to Kafka at %s: the cluster names no brokers", strings.Join(c.cfg.Brokers, ", "))
	}
	hello, cancel = context.WithTimeout(ctx, c.cfg.DialTimeout)
	defer cancel()
	b := res.Brokers[0]
	if _, err := send[*metadata.Response](hello, c, b.NodeID, &metadata.Request{TopicNames: []string{}}); err != nil {
		return fmt.Errorf("connecting to Kafka at %s: broker %d is advertised as %s:%d, which can't be used from here (advertised.listeners): %w",
			strings.Join(c.cfg.Brokers, ", "), b.NodeID, b.Host, b.Port, err)
	}
	return nil
}

// Close ends all connections. Whatever uses the client must have ended before.
func (c *Client) Close() {
	c.transport.CloseIdleConnections()
	c.batches.close()
}

// Partitions returns the number of partitions of a topic.
func (c *Client) Partitions(ctx context.Context, topic string) (int, error) {
	t, err := c.topic(ctx, topic)
	if err != nil {
		return 0, err
	}
	return len(t.leaders), nil
}

// topic returns what is known about a topic, asking the cluster if that is
// nothing yet.
func (c *Client) topic(ctx context.Context, name string) (*topicLeaders, error) {
	c.mu.Lock()
	t := c.topics[name]
	c.mu.Unlock()
	if t != nil {
		return t, nil
	}
	return c.refresh(ctx, name, nil)
}

// refresh asks the cluster anew, unless somebody has done so since stale was
// current.
func (c *Client) refresh(ctx context.Context, name string, stale *topicLeaders) (*topicLeaders, error) {
	c.mu.Lock()
	t := c.topics[name]
	c.mu.Unlock()
	if t != nil && t != stale {
		return t, nil
	}
	res, err := send[*metadata.Response](ctx, c, anyBroker, &metadata.Request{TopicNames: []string{name}})
	if err != nil {
		return nil, fmt.Errorf("asking for topic %s: %w", name, err)
	}
	for i := range res.Topics {
		if res.Topics[i].Name != name {
			continue
		}
		if t, err = leadersOf(&res.Topics[i]); err != nil {
			return nil, err
		}
		c.mu.Lock()
		c.topics[name] = t
		c.mu.Unlock()
		return t, nil
	}
	return nil, fmt.Errorf("asking for topic %s: not in the answer", name)
}

// forget makes the next question about a topic go to the cluster.
func (c *Client) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.topics, name)
}

func leadersOf(res *metadata.ResponseTopic) (*topicLeaders, error) {
	if code := kafka.Error(res.ErrorCode); code == kafka.UnknownTopicOrPartition {
		return nil, fmt.Errorf("topic %s does not exist: %w", res.Name, code)
	} else if code != 0 && (code != kafka.LeaderNotAvailable || len(res.Partitions) == 0) { // without partitions it is being made, and not one of none
		return nil, fmt.Errorf("asking for topic %s: %w", res.Name, code)
	}
	t := &topicLeaders{leaders: make([]int32, len(res.Partitions))}
	for _, p := range res.Partitions {
		if int(p.PartitionIndex) < 0 || int(p.PartitionIndex) >= len(t.leaders) {
			return nil, fmt.Errorf("asking for topic %s: partition %d of %d", res.Name, p.PartitionIndex, len(t.leaders))
		}
		t.leaders[p.PartitionIndex] = p.LeaderID
	}
	return t, nil
}

// leader returns a partition's leader and the knowledge it is taken from, to
// be passed to refresh should it turn out wrong.
func (c *Client) leader(ctx context.Context, topic string, partition int32) (int32, *topicLeaders, error) {
	t, err := c.topic(ctx, topic)
	if err != nil {
		return 0, nil, err
	}
	if partition < 0 || int(partition) >= len(t.leaders) {
		return 0, t, fmt.Errorf("topic %s has %d partitions, there is no partition %d", topic, len(t.leaders), partition)
	}
	if t.leaders[partition] < 0 {
		return 0, t, kafka.LeaderNotAvailable
	}
	return t.leaders[partition], t, nil
}

// PartitionOffsets are the bounds of one partition's log.
type PartitionOffsets struct {
	Partition int32
	// Start is the offset of the oldest record, End the one the next record
	// will have.
	Start, End int64
	// Stable is the end of what a read-committed reader sees.
	Stable int64
}

// Offsets lists the bounds of all partitions of a topic, in order.
func (c *Client) Offsets(ctx context.Context, topic string) ([]PartitionOffsets, error) {
	var out []PartitionOffsets
	err := c.retry(ctx, "listing offsets", func(ctx context.Context) error {
		t, err := c.topic(ctx, topic)
		if err != nil {
			return err
		}
		out = make([]PartitionOffsets, len(t.leaders))
		byLeader := make(map[int32][]int32)
		for p, leader := range t.leaders {
			out[p].Partition = int32(p)
			byLeader[leader] = append(byLeader[leader], int32(p))
		}
		for leader, partitions := range byLeader {
			if leader < 0 {
				err = kafka.LeaderNotAvailable
			} else {
				err = c.offsetsOf(ctx, leader, topic, partitions, out)
			}
			if err != nil {
				if _, refreshErr := c.refresh(ctx, topic, t); refreshErr != nil {
					return refreshErr
				}
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing offsets of topic %s: %w", topic, err)
	}
	return out, nil
}

// OffsetsAt returns, for every partition of a topic in order, the offset of the
// first record that is not older than a time; the log's end if all are older.
func (c *Client) OffsetsAt(ctx context.Context, topic string, at time.Time) ([]int64, error) {
	bounds, err := c.Offsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	offsets := make([]int64, len(bounds))
	for i, b := range bounds {
		err := c.retry(ctx, "listing offsets", func(ctx context.Context) error {
			leader, known, err := c.leader(ctx, topic, b.Partition)
			if err == nil {
				offsets[i], err = c.offsetAt(ctx, leader, topic, b.Partition, at)
			}
			if err != nil && known != nil {
				if _, refreshErr := c.refresh(ctx, topic, known); refreshErr != nil {
					return refreshErr
				}
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("finding the offset at %s in topic %s partition %d: %w", at.Format(time.RFC3339), topic, b.Partition, err)
		}
		if offsets[i] < 0 {
			offsets[i] = b.End
		}
	}
	return offsets, nil
}

func (c *Client) offsetAt(ctx context.Context, leader int32, topic string, partition int32, at time.Time) (int64, error) {
	req := &listoffsets.Request{ReplicaID: -1, Topics: []listoffsets.RequestTopic{{Topic: topic, Partitions: []listoffsets.RequestPartition{{
		Partition: partition, CurrentLeaderEpoch: -1, Timestamp: at.UnixMilli(),
	}}}}}
	res, err := send[*listoffsets.Response](ctx, c, leader, req)
	if err != nil {
		return 0, err
	}
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			if t.Topic == topic && p.Partition == partition {
				return p.Offset, codeError(p.ErrorCode)
			}
		}
	}
	return 0, errNotAnswered
}

// Timestamps with a meaning of their own and the isolation levels, as in the
// ListOffsets request.
const (
	timestampLatest   = -1
	timestampEarliest = -2

	readUncommitted = 0
	readCommitted   = 1
)

func (c *Client) offsetsOf(ctx context.Context, leader int32, topic string, partitions []int32, out []PartitionOffsets) error {
	// A request may name a partition only once, hence three of them.
	for _, ask := range []struct {
		timestamp int64
		isolation int8
		set       func(*PartitionOffsets, int64)
	}{
		{timestampEarliest, readUncommitted, func(o *PartitionOffsets, at int64) { o.Start = at }},
		{timestampLatest, readUncommitted, func(o *PartitionOffsets, at int64) { o.End = at }},
		{timestampLatest, readCommitted, func(o *PartitionOffsets, at int64) { o.Stable = at }},
	} {
		req := &listoffsets.Request{ReplicaID: -1, IsolationLevel: ask.isolation, Topics: []listoffsets.RequestTopic{{Topic: topic}}}
		for _, p := range partitions {
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, listoffsets.RequestPartition{
				Partition: p, CurrentLeaderEpoch: -1, Timestamp: ask.timestamp,
			})
		}
		res, err := send[*listoffsets.Response](ctx, c, leader, req)
		if err != nil {
			return err
		}
		answered := 0
		for _, t := range res.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					return fmt.Errorf("partition %d: %w", p.Partition, kafka.Error(p.ErrorCode))
				}
				if p.Partition < 0 || int(p.Partition) >= len(out) {
					return fmt.Errorf("answer about partition %d, which was not asked for", p.Partition)
				}
				ask.set(&out[p.Partition], p.Offset)
				answered++
			}
		}
		if answered != len(partitions) {
			return fmt.Errorf("answer about %d of %d partitions", answered, len(partitions))
		}
	}
	return nil
}

// retry repeats an idempotent operation while its error is retriable, for as
// long as three requests may take.
func (c *Client) retry(ctx context.Context, what string, do func(context.Context) error) error {
	op := func() error {
		err := do(ctx)
		if err != nil && (ctx.Err() != nil || classify(err) != retriable || IsMissingTopic(err)) {
			return backoff.Permanent(err)
		}
		return err
	}
	err := backoff.RetryNotify(op, backoff.WithContext(newBackoff(3*c.cfg.RequestTimeout), ctx), func(err error, _ time.Duration) {
		c.metrics.retries.WithLabelValues(what).Inc()
		c.log.Debug("retrying", slog.String("operation", what), slog.Any("error", err))
	})
	var permanent *backoff.PermanentError
	if errors.As(err, &permanent) {
		return permanent.Err
	}
	return err
}

// newBackoff waits 10 ms at first, then up to a second: long enough for an
// election not to be hammered, short beside the seconds it takes.
func newBackoff(limit time.Duration) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(10*time.Millisecond),
		backoff.WithMultiplier(2),
		backoff.WithMaxInterval(time.Second),
		backoff.WithMaxElapsedTime(limit),
	)
}

// oneLine joins the lines of a joined error.
func oneLine(err error) error {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return err
	}
	return lineError{joined.Unwrap()}
}

// lineError is several errors in one line.
type lineError struct{ errs []error }

func (e lineError) Unwrap() []error { return e.errs }

func (e lineError) Error() string {
	parts := make([]string, len(e.errs))
	for i, err := range e.errs {
		parts[i] = err.Error()
	}
	return strings.Join(parts, "; ")
}
