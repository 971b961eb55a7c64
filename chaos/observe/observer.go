// Package observe watches a Kafka cluster from outside and reads what is on it at the end, with a client that shares no code with the
// one under test.
package observe

import (
	"context"
	"fmt"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/porestream/porestream/chaos/history"
)

// TopicPartition names a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// Cluster is how to reach a cluster.
type Cluster struct {
	Addrs []string
	// Dial connects; nil means the usual network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client makes a client. Close must be called.
func (cluster Cluster) Client(opts ...kgo.Opt) (*kgo.Client, error) {
	// Later protocols name topics by id in places.
	opts = append(opts, kgo.SeedBrokers(cluster.Addrs...), kgo.MaxVersions(kversion.V3_0_0()))
	if cluster.Dial != nil {
		opts = append(opts, kgo.Dialer(cluster.Dial))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return client, nil
}

// Observer follows what is committed on the topics and what the groups have committed.
type Observer struct {
	client *kgo.Client
	log    *history.Log
	groups map[string]string // group to input topic

	mu      sync.Mutex
	ends    map[TopicPartition]int64 // behind the last committed record
	offsets map[string]map[TopicPartition]int64
	noted   map[string]history.Event
}

// New returns an observer that begins with the start of all topics, whose partitions are given. groups names the input topic of each
// group. What it sees goes to log.
func New(cluster Cluster, partitions map[string]int32, groups map[string]string, log *history.Log) (*Observer, error) {
	from := make(map[string]map[int32]kgo.Offset)
	for topic, n := range partitions {
		from[topic] = make(map[int32]kgo.Offset)
		for p := range n {
			from[topic][p] = kgo.NewOffset().AtStart()
		}
	}
	client, err := cluster.Client(
		kgo.ClientID("observer"), kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(200*time.Millisecond), kgo.MetadataMinAge(250*time.Millisecond), kgo.RetryTimeout(5*time.Second),
	)
	if err != nil {
		return nil, err
	}
	return &Observer{
		client: client, log: log, groups: groups, ends: make(map[TopicPartition]int64),
		offsets: make(map[string]map[TopicPartition]int64), noted: make(map[string]history.Event),
	}, nil
}

// Run watches until ctx ends, asking the groups at an interval.
func (o *Observer) Run(ctx context.Context, every time.Duration) {
	var following sync.WaitGroup
	following.Go(func() {
		for ctx.Err() == nil {
			o.client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				o.mu.Lock()
				defer o.mu.Unlock()
				o.ends[TopicPartition{r.Topic, r.Partition}] = r.Offset + 1
			})
		}
	})
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			following.Wait()
			o.client.Close()
			return
		case <-tick.C:
			o.sample(ctx)
		}
	}
}

// sample notes what has changed. A broker that can't be reached leaves a gap in the history, no error.
func (o *Observer) sample(ctx context.Context) {
	asked, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for group, topic := range o.groups {
		offsets, err := committedOffsets(asked, o.client, group, topic)
		if err != nil {
			continue
		}
		o.mu.Lock()
		if o.offsets[group] == nil {
			o.offsets[group] = make(map[TopicPartition]int64)
		}
		maps.Copy(o.offsets[group], offsets) // what is unstable now stays as it was
		o.mu.Unlock()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for tp, end := range o.ends {
		o.note(history.Event{Kind: history.Output, Topic: tp.Topic, Partition: tp.Partition, End: end})
		for group, topic := range o.groups {
			if topic != tp.Topic {
				continue
			}
			offset, committed := o.offsets[group][tp]
			if !committed {
				offset = -1
			}
			o.note(history.Event{Kind: history.Sample, Group: group, Topic: topic, Partition: tp.Partition, Offset: offset, End: end})
		}
	}
}

// note notes an event unless it is the same as the last of its kind and place.
func (o *Observer) note(e history.Event) {
	place := fmt.Sprint(e.Kind, e.Group, e.Topic, e.Partition)
	if o.noted[place] == e {
		return
	}
	o.noted[place] = e
	o.log.Add(e)
}

// CaughtUp reports whether the groups have committed everything that is on their topics.
func (o *Observer) CaughtUp() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for group, topic := range o.groups {
		for tp, end := range o.ends {
			if tp.Topic == topic && o.offsets[group][tp] < end {
				return false
			}
		}
	}
	return true
}

// Lag counts the records on the groups' topics that are not committed yet. Ends of transactions are counted with them.
func (o *Observer) Lag() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	var lag int64
	for group, topic := range o.groups {
		for tp, end := range o.ends {
			if tp.Topic == topic {
				lag += max(0, end-o.offsets[group][tp])
			}
		}
	}
	return lag
}

// Held returns where the last committed record of each partition ends.
func (o *Observer) Held() map[TopicPartition]int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.ends)
}

// committedOffsets asks for what a group has committed of a topic, as the group's members do: stable offsets only. Besides leaving out
// partitions with an open transaction, this has a coordinator answer that has just taken over only when its high watermark has caught up;
// others may see for a moment an offset before the last one.
func committedOffsets(ctx context.Context, client *kgo.Client, group, topic string) (map[TopicPartition]int64, error) {
	asked := kmsg.NewOffsetFetchRequestGroup()
	asked.Group = group
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = true
	req.Groups = append(req.Groups, asked)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("asking for the offsets of group %s: %w", group, err)
	}
	offsets := make(map[TopicPartition]int64)
	for _, g := range resp.Groups {
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
			return nil, fmt.Errorf("asking for the offsets of group %s: %w", group, err)
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if t.Topic == topic && p.ErrorCode == 0 && p.Offset >= 0 {
					offsets[TopicPartition{topic, p.Partition}] = p.Offset
				}
			}
		}
	}
	return offsets, nil
}
