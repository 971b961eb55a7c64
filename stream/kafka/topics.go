package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/createtopics"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/porestream/porestream/stream"
)

// Topic configurations whose values are compared by what they guarantee, not
// by their spelling.
const (
	configCleanup    = "cleanup.policy"
	configRetention  = "retention.ms"
	configMaxMessage = "max.message.bytes"
	configSegment    = "segment.bytes"
	configDirty      = "min.cleanable.dirty.ratio"
	configLag        = "max.compaction.lag.ms"
)

const resourceTopic int8 = 2

// TopicFault is a setting of an existing topic that breaks a guarantee.
type TopicFault struct {
	Topic, Setting, Value string
	// Want says what is needed and Why what would go wrong.
	Want, Why string
	// Fix is a command that repairs it.
	Fix string
}

func (f *TopicFault) Error() string {
	return fmt.Sprintf("topic %s: %s is %s, needed is %s: %s; to repair: %s", f.Topic, f.Setting, f.Value, f.Want, f.Why, f.Fix)
}

// TopicReport is how the topics of a cluster compare with those wanted.
type TopicReport struct {
	// Missing are topics that don't exist.
	Missing []stream.TopicSettings
	// Faults are settings of those that do which break a guarantee.
	Faults []*TopicFault
}

// CheckTopics compares the topics that exist with those wanted and changes
// nothing.
func (c *Client) CheckTopics(ctx context.Context, topics []stream.TopicSettings) (TopicReport, error) {
	var report TopicReport
	err := c.retry(ctx, "checking topics", func(ctx context.Context) (err error) {
		report, _, err = c.compareTopics(ctx, topics)
		return err
	})
	if err != nil {
		return TopicReport{}, fmt.Errorf("checking topics: %w", err)
	}
	return report, nil
}

// EnsureTopics creates the topics that are missing and checks those that
// exist: settings that break a guarantee are refused with a [*TopicFault] each,
// in one error of one line. Settings without any number of partitions leave it to
// the cluster. replication is used for new topics; 0 means the cluster's
// default.
func (c *Client) EnsureTopics(ctx context.Context, topics []stream.TopicSettings, replication int) error {
	err := c.retry(ctx, "creating topics", func(ctx context.Context) error {
		return c.ensureTopics(ctx, topics, replication)
	})
	if err != nil {
		return fmt.Errorf("preparing topics: %w", err)
	}
	return nil
}

func (c *Client) ensureTopics(ctx context.Context, topics []stream.TopicSettings, replication int) error {
	report, controller, err := c.compareTopics(ctx, topics)
	if err != nil {
		return err
	}
	// Nothing is created beside topics that are refused.
	if len(report.Faults) > 0 {
		faults := make([]error, len(report.Faults))
		for i, f := range report.Faults {
			faults[i] = f
		}
		return oneLine(errors.Join(faults...))
	}
	if len(report.Missing) == 0 {
		return nil
	}
	if err := c.createTopics(ctx, controller, report.Missing, replication); err != nil {
		return err
	}
	return c.awaitTopics(ctx, report.Missing)
}

// compareTopics also returns the cluster's controller.
func (c *Client) compareTopics(ctx context.Context, topics []stream.TopicSettings) (report TopicReport, controller int32, err error) {
	names := make([]string, len(topics))
	for i, t := range topics {
		names[i] = t.Name
	}
	res, err := send[*metadata.Response](ctx, c, anyBroker, &metadata.Request{TopicNames: names})
	if err != nil {
		return report, 0, fmt.Errorf("asking for topics: %w", err)
	}
	partitions := make(map[string]int)
	for i := range res.Topics {
		t := &res.Topics[i]
		switch code := kafka.Error(t.ErrorCode); code {
		case 0, kafka.LeaderNotAvailable:
			partitions[t.Name] = len(t.Partitions)
		case kafka.UnknownTopicOrPartition:
		default:
			return report, 0, fmt.Errorf("asking for topic %s: %w", t.Name, code)
		}
	}
	var present []stream.TopicSettings
	for _, t := range topics {
		if _, exists := partitions[t.Name]; exists {
			present = append(present, t)
		} else {
			report.Missing = append(report.Missing, t)
		}
	}
	report.Faults, err = c.faultsOf(ctx, present, partitions)
	return report, res.ControllerID, err
}

func (c *Client) createTopics(ctx context.Context, controller int32, topics []stream.TopicSettings, replication int) error {
	if replication == 0 {
		replication = -1
	}
	req := &createtopics.Request{TimeoutMs: int32(c.cfg.RequestTimeout.Milliseconds() * 3 / 4)}
	for _, t := range topics {
		r := createtopics.RequestTopic{Name: t.Name, NumPartitions: int32(t.Partitions), ReplicationFactor: int16(replication)}
		if t.Partitions == 0 {
			r.NumPartitions = int32(cmp.Or(t.NewPartitions, -1))
		}
		for _, name := range slices.Sorted(maps.Keys(t.Config)) {
			r.Configs = append(r.Configs, createtopics.RequestConfig{Name: name, Value: t.Config[name]})
		}
		req.Topics = append(req.Topics, r)
	}
	res, err := send[*createtopics.Response](ctx, c, controller, req)
	if err != nil {
		return fmt.Errorf("creating topics: %w", err)
	}
	for i := range res.Topics {
		t := &res.Topics[i]
		switch code := kafka.Error(t.ErrorCode); code {
		case 0, kafka.TopicAlreadyExists: // created by another instance meanwhile
		default:
			if t.ErrorMessage != "" {
				return fmt.Errorf("creating topic %s: %s: %w", t.Name, t.ErrorMessage, code)
			}
			return fmt.Errorf("creating topic %s: %w", t.Name, code)
		}
	}
	return nil
}

// awaitTopics checks that new topics have leaders: creation returns before
// every broker knows them.
func (c *Client) awaitTopics(ctx context.Context, topics []stream.TopicSettings) error {
	for _, t := range topics {
		err := c.retry(ctx, "awaiting topics", func(ctx context.Context) error {
			c.mu.Lock()
			known := c.topics[t.Name]
			c.mu.Unlock()
			fresh, err := c.refresh(ctx, t.Name, known)
			if IsMissingTopic(err) || err == nil && slices.Contains(fresh.leaders, -1) {
				return kafka.LeaderNotAvailable
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("awaiting topic %s: %w", t.Name, err)
		}
	}
	return nil
}

// faultsOf compares the settings of existing topics with those wanted.
func (c *Client) faultsOf(ctx context.Context, topics []stream.TopicSettings, partitions map[string]int) ([]*TopicFault, error) {
	if len(topics) == 0 {
		return nil, nil
	}
	req := &describeconfigs.Request{}
	for _, t := range topics {
		req.Resources = append(req.Resources, describeconfigs.RequestResource{
			ResourceType: resourceTopic, ResourceName: t.Name, ConfigNames: slices.Sorted(maps.Keys(t.Config)),
		})
	}
	res, err := send[*describeconfigs.Response](ctx, c, anyBroker, req)
	if err != nil {
		return nil, fmt.Errorf("reading topic settings: %w", err)
	}
	configs := make(map[string]map[string]string)
	for i := range res.Resources {
		r := &res.Resources[i]
		if r.ErrorCode != 0 {
			return nil, fmt.Errorf("reading settings of topic %s: %w", r.ResourceName, kafka.Error(r.ErrorCode))
		}
		configs[r.ResourceName] = make(map[string]string)
		for _, e := range r.ConfigEntries {
			configs[r.ResourceName][e.ConfigName] = e.ConfigValue
		}
	}
	var faults []*TopicFault
	for _, t := range topics {
		faults = append(faults, topicFaults(t, partitions[t.Name], configs[t.Name], c.cfg.Brokers[0])...)
	}
	return faults, nil
}

// topicFaults compares one topic. A setting that promises more than what is
// wanted is fine.
func topicFaults(want stream.TopicSettings, partitions int, got map[string]string, broker string) []*TopicFault {
	var faults []*TopicFault
	if want.Partitions > 0 && partitions != want.Partitions {
		f := &TopicFault{
			Topic: want.Name, Setting: "the number of partitions",
			Value: strconv.Itoa(partitions), Want: strconv.Itoa(want.Partitions),
			Why: "keys would be placed otherwise than agreed",
			Fix: fmt.Sprintf("kafka-topics.sh --bootstrap-server %s --alter --topic %s --partitions %d", broker, want.Name, want.Partitions),
		}
		if partitions > want.Partitions {
			f.Fix = fmt.Sprintf("ask for %d partitions, or delete the topic: kafka-topics.sh --bootstrap-server %s --delete --topic %s", partitions, broker, want.Name)
		}
		faults = append(faults, f)
	}
	for _, name := range slices.Sorted(maps.Keys(want.Config)) {
		need := want.Config[name]
		value, exists := got[name]
		if !exists {
			continue // hidden from us
		}
		why := settingFault(name, value, need)
		if why == "" {
			continue
		}
		faults = append(faults, &TopicFault{
			Topic: want.Name, Setting: name, Value: value, Want: need, Why: why,
			Fix: fmt.Sprintf("kafka-configs.sh --bootstrap-server %s --entity-type topics --entity-name %s --alter --add-config %s=%s", broker, want.Name, name, need),
		})
	}
	return faults
}

// settingFault says why a value is not good enough; empty if it is.
func settingFault(name, value, need string) string {
	switch name {
	case configCleanup:
		has := strings.Split(value, ",")
		for i := range has {
			has[i] = strings.TrimSpace(has[i])
		}
		switch {
		case need == "delete" && slices.Contains(has, "compact"):
			return "compaction would remove all but the last record of a key"
		case strings.Contains(need, "compact") && !slices.Contains(has, "compact"):
			return "the newest state of a key would expire"
		}
		return ""
	case configRetention, configMaxMessage:
		got, err := strconv.ParseInt(value, 10, 64)
		wanted, wantErr := strconv.ParseInt(need, 10, 64)
		if err != nil || wantErr != nil {
			return "it is not a number"
		}
		unlimited := func(n int64) bool { return name == configRetention && n < 0 }
		switch {
		case unlimited(got), !unlimited(wanted) && got >= wanted:
			return ""
		case name == configRetention:
			return "records would expire before they are processed again after a failure"
		default:
			return "large records would be refused"
		}
	case configSegment, configDirty, configLag:
		got, err := strconv.ParseFloat(value, 64)
		wanted, wantErr := strconv.ParseFloat(need, 64)
		switch {
		case err != nil || wantErr != nil:
			return "it is not a number"
		case got > wanted:
			return "what was overwritten would stay for too long and be read again at every start"
		}
		return ""
	}
	if value != need {
		return "it differs"
	}
	return ""
}
