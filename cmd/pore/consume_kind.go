package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/modbase/stage/methylation"
	"github.com/porestream/porestream/stream"
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

// gate lets those records pass that a command is asked for. One of another kind says that the topic is another one than the user thinks, and ends the command; once
// one that was asked for has passed, it is the mistake of somebody who writes to the topic, and is left out like one that can't be read.
type gate struct {
	topics stream.Topics
	follow followed
	asked  []string // flags that would give it
	right  bool     // one that was asked for has passed
	logger *slog.Logger
}

func newGate(cfg *consumeConfig, follow followed, topics stream.Topics, logger *slog.Logger) *gate {
	g := &gate{topics: topics, follow: follow, asked: []string{follow.flag}, logger: logger}
	if follow.flag == "" && !cfg.diplotypes && !cfg.isFile() { // events are printed as they come
		g.asked = append(g.asked, "--alerts", "--methylation")
	}
	return g
}

func (g *gate) pass(rec stream.Record) (bool, error) {
	kind := kindOf(rec, g.topics)
	var fault error
	switch {
	case kind != nil && !kind.none && slices.Contains(g.asked, kind.flag):
		g.right = true
		return true, nil
	case kind != nil:
		fault = errors.New(kind.what + g.advice(kind))
	case g.follow.flag == "--basecalls":
		fault = errors.New("no read as FASTQ")
	case event.TypeOf(rec) == "" && len(rec.Value) > 0: // an empty one is what compaction takes a key away by
		fault = errors.New("nothing that pore consume knows")
	default:
		return true, nil
	}
	fault = fmt.Errorf("record %d of %s/%d is %w", rec.Offset, rec.Topic, rec.Partition, fault)
	if kind != nil && !g.right {
		return false, fault
	}
	g.logger.Warn("ignoring a record", "err", fault)
	return false, nil
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
