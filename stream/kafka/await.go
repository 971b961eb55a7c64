package kafka

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"
	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// While a topic is missing, the client asks for it so often, and says in a line at growing intervals that it waits.
const (
	awaitAsk      = 500 * time.Millisecond
	awaitSayFirst = 10 * time.Second
	awaitSayMost  = 10 * time.Minute
)

// AwaitTopic returns the number of a topic's partitions, and waits for the topic while it doesn't exist; waited says whether it had to. The client
// says so at once, and again after 10 s, 20 s, up to every 10 min, with the topics that have a name like it: one that is misspelt never
// comes. maker says who makes the topic, in a few words. Other errors of the first question end it; later ones that may pass don't.
func (c *Client) AwaitTopic(ctx context.Context, topic, maker string) (partitions int, waited bool, err error) {
	next, between := time.Now(), awaitSayFirst
	for {
		partitions, err = c.Partitions(ctx, topic)
		if err == nil {
			if waited {
				c.log.Warn("the topic is there now", slog.String("topic", topic), slog.Int("partitions", partitions))
			}
			return partitions, waited, nil
		}
		if ctx.Err() != nil {
			return 0, waited, ctx.Err()
		}
		made := errors.Is(err, kafka.LeaderNotAvailable) // just now
		if !IsMissingTopic(err) && !made && (!waited || !IsTransient(err)) {
			return 0, waited, err
		}
		if now := time.Now(); !now.Before(next) {
			c.log.Warn("waiting for a topic that does not exist; is its name right?", c.awaited(ctx, topic, maker, err)...)
			next = now.Add(between)
			between = min(2*between, awaitSayMost)
		}
		waited = true
		select {
		case <-time.After(awaitAsk):
		case <-ctx.Done():
			return 0, waited, ctx.Err()
		}
	}
}

// awaited describes a topic that is missing.
func (c *Client) awaited(ctx context.Context, topic, maker string, err error) []any {
	said := []any{slog.String("topic", topic)}
	if maker != "" {
		said = append(said, slog.String("made by", maker))
	}
	if like := c.Like(ctx, topic); len(like) > 0 {
		said = append(said, slog.String("like it", strings.Join(like, ", ")))
	}
	if !IsMissingTopic(err) {
		said = append(said, slog.Any("err", err))
	}
	return said
}

// Like returns up to three topics of the cluster whose names are like one that is missing, the nearest first: none if there are none, or if
// the cluster doesn't say.
func (c *Client) Like(ctx context.Context, topic string) []string {
	res, err := send[*metadata.Response](ctx, c, anyBroker, &metadata.Request{})
	if err != nil {
		return nil
	}
	var names []string
	for i := range res.Topics {
		if t := &res.Topics[i]; !t.IsInternal && (t.ErrorCode == 0 || kafka.Error(t.ErrorCode) == kafka.LeaderNotAvailable) {
			names = append(names, t.Name)
		}
	}
	return alike(topic, names)
}

// alike are those of names that somebody may have meant by name: a few letters are others, or a prefix is.
func alike(name string, names []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	for _, n := range names {
		d := levenshtein.ComputeDistance(name, n)
		switch {
		case d == 0:
			continue
		case d <= max(2, len(name)/4):
		case afterPrefix(name) == afterPrefix(n):
			d = len(name) + d // behind those that differ by letters
		default:
			continue
		}
		found = append(found, candidate{n, d})
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	var out []string
	for _, f := range found[:min(3, len(found))] {
		out = append(out, f.name)
	}
	return out
}

// afterPrefix is a topic's name without the deployment's prefix, which ends in '.', '_' or '-' by custom.
func afterPrefix(name string) string { return name[strings.LastIndexAny(name, "._-")+1:] }
