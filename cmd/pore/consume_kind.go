package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/modbase/stage/methylation"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/snapshot"
	"github.com/porestream/porestream/watchlist/alert"
)

// recordKind is what a record is.
type recordKind struct {
	what string
	flag string // of pore consume, that follows such records: "" for variants
	none bool   // no flag does
}

// kindOf says what a record is, by what it says itself; nil: it says nothing that this program knows, or is of every public topic, as ends of runs are.
func kindOf(rec stream.Record, topics stream.Topics) *recordKind {
	if n := len(rec.Headers); n > 0 && slices.Contains([]string{stream.HeaderOffset, stream.HeaderCut, stream.HeaderRedriven}, rec.Headers[n-1].Key) {
		return &recordKind{what: "a dead letter, which pore dlq shows", none: true} // whatever it was before
	}
	switch typ := event.TypeOf(rec); typ {
	case event.TypeVariant, event.TypeReference, event.TypeProvisionalReference:
		return &recordKind{what: "an event of variants"}
	case alert.Type:
		return &recordKind{what: "an alert", flag: "--alerts"}
	case methylation.Type, methylation.TypeHaplotype:
		return &recordKind{what: "an event of modified bases", flag: "--methylation"}
	case "":
	default:
		return nil
	}
	if _, err := snapshot.SourceOf(rec.Key); err == nil {
		return &recordKind{what: "part of a stage's state, as on " + topics.State, none: true}
	}
	if topic := topics.OfEnvelope(rec.Value); topic != "" {
		return &recordKind{what: "one of those that stages exchange, as on " + topic, none: true}
	}
	if isFASTQ(rec.Value) {
		return &recordKind{what: "a called read as FASTQ", flag: "--basecalls"}
	}
	return nil
}

// isFASTQ reports whether a value is one read as FASTQ, as processors write it.
func isFASTQ(value []byte) bool {
	lines := bytes.Split(value, []byte{'\n'})
	return len(lines) == 5 && bytes.HasPrefix(lines[0], []byte{'@'}) && bytes.HasPrefix(lines[2], []byte{'+'}) && len(lines[1]) == len(lines[3]) && len(lines[4]) == 0
}

// gate lets those records pass that a command is asked for. One of another kind is the mistake of somebody who writes to the topic, and is left out like one that can't
// be read, unless the topic has none that was asked for: then it is another one than the user thinks, which ends the command.
type gate struct {
	topics stream.Topics
	follow followed
	asked  []string // flags that would give it
	right  bool     // the topic is known to have what was asked for
	logger *slog.Logger
	log    topicLog
	began  []kafka.PartitionOffsets // where the command began; nil: at the start of the log
	others int                      // so many of another kind at the start of a partition are enough to know it by
}

// topicLog is what a topic holds.
type topicLog interface {
	// Offsets are the bounds of all partitions now.
	Offsets(ctx context.Context) ([]kafka.PartitionOffsets, error)
	// Read calls take with a partition's records from an offset up to another, in their order, until it returns false.
	Read(ctx context.Context, partition int32, from, to int64, take func(stream.Record) bool) error
}

// enoughOthers bounds what is read of a topic that is another one than the user thinks.
const enoughOthers = 100

func newGate(cfg *consumeConfig, follow followed, topics stream.Topics, log topicLog, logger *slog.Logger) *gate {
	g := &gate{topics: topics, follow: follow, asked: []string{follow.flag}, logger: logger, log: log, others: enoughOthers}
	if follow.flag == "" && !cfg.diplotypes && !cfg.isFile() { // events are printed as they come
		g.asked = append(g.asked, "--alerts", "--methylation")
	}
	return g
}

func (g *gate) pass(ctx context.Context, rec stream.Record) (bool, error) {
	kind := kindOf(rec, g.topics)
	switch {
	case g.isAsked(kind):
		g.right = true
		return true, nil
	case kind != nil:
		if err := g.check(ctx, rec, kind); err != nil {
			return false, err
		}
	case g.follow.flag != "--basecalls" && (event.TypeOf(rec) != "" || len(rec.Value) == 0): // an empty one is what compaction takes a key away by
		return true, nil
	}
	g.logger.Warn("ignoring a record", "err", g.fault(rec, kind))
	return false, nil
}

func (g *gate) isAsked(kind *recordKind) bool {
	return kind != nil && !kind.none && slices.Contains(g.asked, kind.flag)
}

// fault says what is wrong with a record that isn't let pass.
func (g *gate) fault(rec stream.Record, kind *recordKind) error {
	what := "nothing that pore consume knows"
	switch {
	case kind != nil:
		what = kind.what + g.advice(kind)
	case g.follow.flag == "--basecalls":
		what = "no read as FASTQ"
	}
	return fmt.Errorf("record %d of %s/%d is %s", rec.Offset, rec.Topic, rec.Partition, what)
}

// check refuses a topic of which a record of another kind has come, if none of those that were asked for is among the first of a partition. In which order the
// partitions come is chance, so it asks the topic, and names the first record of another kind in the lowest partition.
func (g *gate) check(ctx context.Context, rec stream.Record, kind *recordKind) error {
	if g.right {
		return nil
	}
	bounds, err := g.log.Offsets(ctx)
	if err != nil {
		return err
	}
	fault, err := g.survey(ctx, bounds, func(b kafka.PartitionOffsets) int64 {
		if int(b.Partition) < len(g.began) {
			return max(b.Start, g.began[b.Partition].End)
		}
		return b.Start
	})
	if err == nil && !g.right && g.began != nil {
		// What was there before the command began shows as well what the topic is for.
		_, err = g.survey(ctx, bounds, func(b kafka.PartitionOffsets) int64 { return b.Start })
	}
	switch {
	case err != nil:
		return err
	case g.right:
		return nil
	case fault == nil: // retention has removed it meanwhile
		return g.fault(rec, kind)
	}
	return fault
}

// survey reads the first records of partitions up to one that was asked for, or to enough others, and returns what is wrong with the first of these.
func (g *gate) survey(ctx context.Context, bounds []kafka.PartitionOffsets, from func(kafka.PartitionOffsets) int64) (fault, err error) {
	for _, b := range bounds {
		others := 0
		err := g.log.Read(ctx, b.Partition, from(b), b.Stable, func(rec stream.Record) bool {
			kind := kindOf(rec, g.topics)
			if g.isAsked(kind) {
				g.right = true
				return false
			}
			if kind != nil {
				others++
				if fault == nil {
					fault = g.fault(rec, kind)
				}
			}
			return others < g.others
		})
		if err != nil {
			return nil, fmt.Errorf("finding out what the topic is of: %w", err)
		}
		if g.right {
			return nil, nil
		}
	}
	return fault, nil
}

// advice is what to do about a record of another kind.
func (g *gate) advice(kind *recordKind) string {
	todo := []string{}
	switch {
	case kind.none:
	case kind.flag == "":
		todo = append(todo, "leave "+g.follow.flag+" out for these")
	case g.follow.flag == "":
		todo = append(todo, "give "+kind.flag+" for these")
	default:
		todo = append(todo, "give "+kind.flag+" in place of "+g.follow.flag+" for these")
	}
	todo = append(todo, fmt.Sprintf("follow topic %s, as without --topic, for %s", g.follow.topic, g.follow.what))
	return ": " + strings.Join(todo, ", or ")
}

// kafkaLog is a topic's log on Kafka.
type kafkaLog struct {
	client *kafka.Client
	topic  string
}

var _ topicLog = kafkaLog{}

// Offsets implements topicLog.
func (l kafkaLog) Offsets(ctx context.Context) ([]kafka.PartitionOffsets, error) {
	return l.client.Offsets(ctx, l.topic)
}

// Read implements topicLog.
func (l kafkaLog) Read(ctx context.Context, partition int32, from, to int64, take func(stream.Record) bool) error {
	enough := errors.New("no more is wanted")
	err := l.client.ReadRange(ctx, l.topic, partition, from, to, kafka.FetchConfig{}, func(rec stream.Record) error {
		if !take(rec) {
			return enough
		}
		return nil
	})
	if errors.Is(err, enough) {
		return nil
	}
	return err
}
