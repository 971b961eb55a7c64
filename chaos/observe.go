package main

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/porestream/porestream/chaos/history"
)

// topicPartition names a partition.
type topicPartition struct {
	topic     string
	partition int32
}

// observer watches the cluster from outside, with a Kafka client that shares no code with the one under test: it follows what is
// committed on the topics and what the groups have committed.
type observer struct {
	client *kgo.Client
	log    *history.Log
	groups map[string]string // group to input topic

	mu      sync.Mutex
	ends    map[topicPartition]int64 // behind the last committed record
	offsets map[string]map[topicPartition]int64
	told    map[string]history.Event
}

// observeEvery is how often the groups are asked.
const observeEvery = 250 * time.Millisecond

// newObserver begins with the start of all topics, of which there are partitions.
func newObserver(addrs []string, partitions map[string]int32, groups map[string]string, log *history.Log) (*observer, error) {
	from := make(map[string]map[int32]kgo.Offset)
	for topic, n := range partitions {
		from[topic] = make(map[int32]kgo.Offset)
		for p := range n {
			from[topic][p] = kgo.NewOffset().AtStart()
		}
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(addrs...), kgo.ClientID("observer"), kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		protocol(), kgo.FetchMaxWait(200*time.Millisecond), kgo.MetadataMinAge(250*time.Millisecond), kgo.RetryTimeout(5*time.Second),
	)
	if err != nil {
		return nil, fmt.Errorf("connecting the observer: %w", err)
	}
	return &observer{
		client: client, log: log, groups: groups, ends: make(map[topicPartition]int64),
		offsets: make(map[string]map[topicPartition]int64), told: make(map[string]history.Event),
	}, nil
}

// run watches until ctx ends.
func (o *observer) run(ctx context.Context) {
	var following sync.WaitGroup
	following.Go(func() {
		for ctx.Err() == nil {
			o.client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				o.mu.Lock()
				defer o.mu.Unlock()
				o.ends[topicPartition{r.Topic, r.Partition}] = r.Offset + 1
			})
		}
	})
	tick := time.NewTicker(observeEvery)
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
func (o *observer) sample(ctx context.Context) {
	asked, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for group, topic := range o.groups {
		offsets, err := committedOffsets(asked, o.client, group, topic)
		if err != nil {
			continue
		}
		o.mu.Lock()
		o.offsets[group] = offsets
		o.mu.Unlock()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for tp, end := range o.ends {
		o.tell(history.Event{Kind: history.Output, Topic: tp.topic, Partition: tp.partition, End: end})
		for group, topic := range o.groups {
			if topic != tp.topic {
				continue
			}
			offset, committed := o.offsets[group][tp]
			if !committed {
				offset = -1
			}
			o.tell(history.Event{Kind: history.Sample, Group: group, Topic: topic, Partition: tp.partition, Offset: offset, End: end})
		}
	}
}

// tell notes an event unless it says what the last of its kind and place has said.
func (o *observer) tell(e history.Event) {
	place := fmt.Sprint(e.Kind, e.Group, e.Topic, e.Partition)
	if o.told[place] == e {
		return
	}
	o.told[place] = e
	o.log.Add(e)
}

// caughtUp tells whether the groups have committed everything that is on their topics.
func (o *observer) caughtUp() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for group, topic := range o.groups {
		for tp, end := range o.ends {
			if tp.topic == topic && o.offsets[group][tp] < end {
				return false
			}
		}
	}
	return true
}

// held returns where the last committed record of each partition ends.
func (o *observer) held() map[topicPartition]int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.ends)
}

// protocol is the newest protocol that the observers speak: later ones name topics by id in places.
func protocol() kgo.Opt { return kgo.MaxVersions(kversion.V3_0_0()) }

// committedOffsets asks for what a group has committed of a topic. Offsets of a transaction that is still open don't count.
func committedOffsets(ctx context.Context, client *kgo.Client, group, topic string) (map[topicPartition]int64, error) {
	asked := kmsg.NewOffsetFetchRequestGroup()
	asked.Group = group
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Groups = append(req.Groups, asked)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("asking for the offsets of group %s: %w", group, err)
	}
	offsets := make(map[topicPartition]int64)
	for _, g := range resp.Groups {
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
			return nil, fmt.Errorf("asking for the offsets of group %s: %w", group, err)
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if t.Topic == topic && p.ErrorCode == 0 && p.Offset >= 0 {
					offsets[topicPartition{topic, p.Partition}] = p.Offset
				}
			}
		}
	}
	return offsets, nil
}
