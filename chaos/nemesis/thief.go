// Package nemesis does to a cluster what only a Kafka client can do.
package nemesis

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/porestream/porestream/chaos/observe"
)

// Forged is what a thief writes into the transaction that it never commits. A reader that gets it reads what was never committed.
const Forged = "written by a thief in a transaction that was not committed"

// ThiefTimeout is when brokers abort what a thief has left open, if the id's holder does not come back to do it.
const ThiefTimeout = 30 * time.Second

// Steal takes a transactional id from its holder and writes to a topic under it. The transaction is aborted, or left open for the holder
// to abort when it takes its id back.
func Steal(ctx context.Context, cluster observe.Cluster, id, topic string, abort bool) error {
	thief, err := cluster.Client(kgo.ClientID("thief"), kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.TransactionTimeout(ThiefTimeout))
	if err != nil {
		return err
	}
	defer thief.Close()
	if err := thief.BeginTransaction(); err != nil {
		return fmt.Errorf("stealing %s: %w", id, err)
	}
	forged := &kgo.Record{Topic: topic, Partition: 0, Key: []byte("forged"), Value: []byte(Forged)}
	if err := thief.ProduceSync(ctx, forged).FirstErr(); err != nil {
		return fmt.Errorf("stealing %s: writing to %s: %w", id, topic, err)
	}
	if !abort {
		return nil
	}
	if err := thief.EndTransaction(ctx, kgo.TryAbort); err != nil {
		return fmt.Errorf("stealing %s: aborting: %w", id, err)
	}
	return nil
}
