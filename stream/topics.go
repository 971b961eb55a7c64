package stream

import "fmt"

// Topics names the topics of one deployment.
type Topics struct {
	Signal, Runs, Reads, Calls, Variants, DeadLetters string
	// Called holds reads that come called.
	Called string
	// State holds the handlers' snapshots; see package snapshot.
	State string
	// Cursors holds how far ingest has got with every run.
	Cursors string
	// Watch and Alerts exist only where panels are watched.
	Watch, Alerts string
	// Decisions exists only where reads are decided about while they are sequenced.
	Decisions string
	// Basecalls exists only where called reads are published.
	Basecalls string
	// Methylation exists only where modified bases are counted.
	Methylation string
	// Status holds what the processes report about themselves for the live page.
	Status string
}

// NewTopics returns the topic names with a prefix, which may be empty.
func NewTopics(prefix string) Topics {
	return Topics{
		Signal:      prefix + "signal",
		Runs:        prefix + "runs",
		Called:      prefix + "called",
		Reads:       prefix + "reads",
		Calls:       prefix + "calls",
		Variants:    prefix + "variants",
		DeadLetters: prefix + "dlq",
		State:       prefix + "state",
		Cursors:     prefix + "cursors",
		Watch:       prefix + "watch",
		Alerts:      prefix + "alerts",
		Decisions:   prefix + "decisions",
		Basecalls:   prefix + "basecalls",
		Methylation: prefix + "methylation",
		Status:      prefix + "status",
	}
}

// TopicSettings are the settings a topic is created with, and those that an
// existing topic must have for the guarantees to hold.
type TopicSettings struct {
	Name string
	// Partitions is the number of partitions that the topic must have; 0 leaves
	// an existing topic as it is.
	Partitions int
	// NewPartitions is the number that it is created with if Partitions is 0.
	NewPartitions int
	// Config are topic configurations as Kafka names them.
	Config map[string]string
}

// defaultPartitions spread a flow cell over a dozen workers and cost little when
// there are fewer.
const defaultPartitions = 12

// Settings lists the topics that every deployment has, in creation order.
// partitions counts those of the topics that carry a run's data; 0 takes existing
// topics as they are and creates others with twelve.
func (t Topics) Settings(partitions int) []TopicSettings {
	return []TopicSettings{
		compacted(t.Runs, 1),
		t.cursors(),
		retained(t.Signal, partitions),
		retained(t.Called, partitions),
		retained(t.Reads, partitions),
		retained(t.Calls, partitions),
		compacted(t.Variants, partitions),
		retained(t.DeadLetters, partitions),
		t.state(partitions),
		t.status(),
	}
}

// WatchSettings lists the topics that a deployment with panels has besides, as
// [Topics.Settings] does.
func (t Topics) WatchSettings(partitions int) []TopicSettings {
	return []TopicSettings{retained(t.Watch, partitions), compacted(t.Alerts, partitions)}
}

// DecisionSettings lists the topic that a deployment with adaptive sampling has
// besides, as [Topics.Settings] does.
func (t Topics) DecisionSettings(partitions int) []TopicSettings {
	return []TopicSettings{retained(t.Decisions, partitions)}
}

// BasecallSettings lists the topic that a deployment which publishes called reads has
// besides, as [Topics.Settings] does.
func (t Topics) BasecallSettings(partitions int) []TopicSettings {
	return []TopicSettings{retained(t.Basecalls, partitions)}
}

// MethylationSettings lists the topic that a deployment which counts modified bases has
// besides, as [Topics.Settings] does.
func (t Topics) MethylationSettings(partitions int) []TopicSettings {
	return []TopicSettings{compacted(t.Methylation, partitions)}
}

// cursors has one partition, so that adding some can't hide a run's cursor, and
// small segments: a run writes ten cursors a second, of which a restart reads all
// that compaction has left, and the newest segment is never compacted.
func (t Topics) cursors() TopicSettings {
	s := compacted(t.Cursors, 1)
	s.Config["segment.bytes"] = fmt.Sprint(16 << 20)
	s.Config["min.cleanable.dirty.ratio"] = "0.1"
	return s
}

// state is compacted early and in small segments: every snapshot overwrites keys,
// a restore reads its partition from the start, and with the defaults a partition
// would grow by a gigabyte before anything was removed.
func (t Topics) state(partitions int) TopicSettings {
	s := compacted(t.State, partitions)
	s.Config["segment.bytes"] = fmt.Sprint(32 << 20)
	s.Config["min.cleanable.dirty.ratio"] = "0.3"
	s.Config["max.compaction.lag.ms"] = fmt.Sprint(10 * 60 * 1000)
	return s
}

// status has one partition, like runs, and small segments: every process writes to it
// once a second, a page reads all that compaction has left, and of a process that is
// gone nothing stays.
func (t Topics) status() TopicSettings {
	s := compacted(t.Status, 1)
	s.Config["cleanup.policy"] = "compact,delete"
	s.Config["retention.ms"] = fmt.Sprint(24 * 3600 * 1000)
	s.Config["segment.bytes"] = fmt.Sprint(16 << 20)
	s.Config["min.cleanable.dirty.ratio"] = "0.1"
	return s
}

// maxMessage is what brokers take by default. See MaxRecord.
const maxMessage = "1048588"

// retained are the settings of a topic whose records expire.
func retained(name string, partitions int) TopicSettings {
	return TopicSettings{Name: name, Partitions: partitions, NewPartitions: defaultPartitions, Config: map[string]string{
		"cleanup.policy":    "delete",
		"retention.ms":      fmt.Sprint(7 * 24 * 3600 * 1000),
		"max.message.bytes": maxMessage,
	}}
}

// compacted are the settings of a topic that keeps the newest record of every key
// for good, so it has no retention time.
func compacted(name string, partitions int) TopicSettings {
	return TopicSettings{Name: name, Partitions: partitions, NewPartitions: defaultPartitions, Config: map[string]string{
		"cleanup.policy":    "compact",
		"max.message.bytes": maxMessage,
	}}
}
