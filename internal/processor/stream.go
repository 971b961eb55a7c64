package processor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/stream/kafka"
)

const (
	defaultMaxBuffered   = 64 << 20
	defaultMaxUnresolved = 512 << 20
	defaultSession       = 30 * time.Second
	// drainMargin is what the end of a drain may take, and a heartbeat.
	drainMargin = 5 * time.Second
)

// Stream says how the stages read from and write to Kafka. The zero value of
// every field has a meaning.
type Stream struct {
	// Delivery is exactly once if not set.
	Delivery kafka.Delivery
	// CommitInterval is how long what a stage emits may wait until it is visible.
	// Zero means 150 ms with transactions and 1 s without.
	CommitInterval time.Duration
	// SnapshotInterval is the time between two snapshots of a partition's state.
	// Zero means 1 min.
	SnapshotInterval time.Duration
	// DrainTimeout bounds finishing what is in the works when partitions are
	// taken away or the processor stops. Zero means 15 s.
	DrainTimeout time.Duration
	// SessionTimeout is how long a processor that sends no heartbeats keeps its
	// partitions. Zero means 30 s.
	SessionTimeout time.Duration
	// MaxBuffered bounds what all stages together have emitted and Kafka has not
	// acknowledged, in bytes. Zero means 64 MiB.
	MaxBuffered int64
	// MaxUnresolved and MaxUnresolvedBytes bound what one partition has read and
	// not finished. Zero means 131,072 records and 512 MiB.
	MaxUnresolved      int
	MaxUnresolvedBytes int64
}

// Register adds the flags.
func (s *Stream) Register(flags *pflag.FlagSet) {
	flags.TextVar(&s.Delivery, "delivery", kafka.ExactlyOnce, "exactly-once: what a stage emits becomes visible together with its progress; at-least-once: at once, and again after a crash")
	flags.DurationVar(&s.CommitInterval, "commit-interval", 0, "least time between two commits of a partition (default 150ms exactly once, 1s at least once)")
	flags.DurationVar(&s.SnapshotInterval, "snapshot-interval", time.Minute, "time between two snapshots of a partition's state; what came after the last one is replayed after a crash")
	flags.DurationVar(&s.DrainTimeout, "drain-timeout", 15*time.Second, "time to finish what is in the works when partitions move or the processor stops")
	flags.DurationVar(&s.SessionTimeout, "session-timeout", defaultSession, "time after which others take over the partitions of a processor that sends nothing")
	s.MaxBuffered, s.MaxUnresolvedBytes = defaultMaxBuffered, defaultMaxUnresolved
	flags.Var((*cli.Bytes)(&s.MaxBuffered), "max-buffered", "limit of what the stages have emitted and Kafka has not acknowledged; they wait above it")
	flags.Var((*cli.Bytes)(&s.MaxUnresolvedBytes), "max-unresolved", "limit of the records that one partition has read and not finished; it pauses above it")
}

// Validate says what is wrong with the settings.
func (s Stream) Validate() error {
	switch {
	case s.CommitInterval < 0:
		return fmt.Errorf("--commit-interval %v is negative", s.CommitInterval)
	case s.CommitInterval > 30*time.Second:
		return fmt.Errorf("--commit-interval %v is too long: brokers abort transactions of more than a minute", s.CommitInterval)
	case s.SnapshotInterval < 0 || s.SnapshotInterval > 0 && s.SnapshotInterval < time.Second:
		return fmt.Errorf("--snapshot-interval %v is too short: at least 1s", s.SnapshotInterval)
	case s.SessionTimeout != 0 && s.SessionTimeout < 6*time.Second:
		return fmt.Errorf("--session-timeout %v is too short: 6s are the least that brokers take", s.SessionTimeout)
	case s.DrainTimeout < 0 || s.DrainTimeout > cmp.Or(s.SessionTimeout, defaultSession)-drainMargin:
		return fmt.Errorf("--drain-timeout %v: at most %v are possible, for a processor that drains reports to nobody and its --session-timeout is %v",
			s.DrainTimeout, cmp.Or(s.SessionTimeout, defaultSession)-drainMargin, cmp.Or(s.SessionTimeout, defaultSession))
	case s.MaxBuffered < 0 || s.MaxUnresolvedBytes < 0:
		return fmt.Errorf("--max-buffered %d and --max-unresolved %d must not be negative", s.MaxBuffered, s.MaxUnresolvedBytes)
	}
	return nil
}

// output is what the groups of a processor write with.
type output struct {
	transactions kafka.ProducerConfig
	producer     *kafka.Producer // nil with transactions
	prompt       *kafka.Producer // of what can't wait; nil if there is nothing
}

// open prepares the output of all stages.
func (p *Processor) open(ctx context.Context) (output, error) {
	t := p.cfg.Topics
	buffered := p.cfg.Stream.MaxBuffered
	if buffered == 0 {
		buffered = defaultMaxBuffered
	}
	out := output{transactions: kafka.ProducerConfig{
		Zstd:  []string{t.Reads, t.Calls, t.Variants, t.Watch, t.Alerts, t.Basecalls, t.Methylation, t.State},
		Space: kafka.NewSpace(buffered),
	}}
	var err error
	if p.engines.deciders != nil {
		if out.prompt, err = kafka.NewProducer(ctx, p.client, kafka.ProducerConfig{Linger: -1, Space: out.transactions.Space}); err != nil {
			return out, err
		}
	}
	if p.cfg.Stream.Delivery == kafka.ExactlyOnce {
		return out, nil
	}
	if out.producer, err = kafka.NewProducer(ctx, p.client, out.transactions); err != nil {
		return out, errors.Join(err, out.close(ctx))
	}
	return out, nil
}

func (o output) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	for _, p := range []*kafka.Producer{o.prompt, o.producer} {
		if p == nil {
			continue
		}
		if err := p.Close(ctx); err != nil {
			return fmt.Errorf("flushing what was produced: %w", err)
		}
	}
	return nil
}
