package kafka

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/porestream/porestream/stream"
)

// A client that waits for a topic says so at growing intervals, ends when it is stopped, and goes on once the topic is made.
func TestAwaitTopic(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *kfake.Cluster, c *Client, _ *Producer) {
		said := new(strings.Builder)
		c.log = slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		n, waited, err := c.AwaitTopic(t.Context(), "in", "")
		require.NoError(t, err)
		assert.Equal(t, 2, n)
		assert.False(t, waited)
		assert.Empty(t, said.String())

		ctx, cancel := context.WithTimeout(t.Context(), 75*time.Second) // virtual: at 0, 10, 30 and 70 s
		defer cancel()
		_, waited, err = c.AwaitTopic(ctx, "outs", "processors")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.True(t, waited)
		const line = `level=WARN msg="waiting for a topic that does not exist; is its name right?" topic=outs "made by"=processors "like it"=out` + "\n"
		assert.Equal(t, strings.Repeat(line, 4), said.String())

		said.Reset()
		done := make(chan int, 1)
		go func() {
			n, waited, err := c.AwaitTopic(t.Context(), "lab.new", "")
			assert.NoError(t, err)
			assert.True(t, waited)
			done <- n
		}()
		time.Sleep(time.Second) // virtual
		require.NoError(t, c.EnsureTopics(t.Context(), []stream.TopicSettings{{Name: "lab.new", Partitions: 3}}, 1))
		assert.Equal(t, 3, <-done)
		assert.Equal(t, 2, strings.Count(said.String(), "\n"), said)
		assert.Contains(t, said.String(), `msg="the topic is there now" topic=lab.new partitions=3`)
	})
}

// Who hasn't the right to see a topic gets that error at once, and when the right is taken away; brokers that fail for a while end no wait.
func TestAwaitTopicWithFaults(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *kfake.Cluster, c *Client, _ *Producer) {
		var fault atomic.Pointer[kerr.Error]
		fault.Store(kerr.TopicAuthorizationFailed)
		cluster.ControlKey(int16(kmsg.Metadata), func(r kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			req := r.(*kmsg.MetadataRequest)
			if len(req.Topics) != 1 || *req.Topics[0].Topic != "secret" {
				return nil, nil, false
			}
			res := req.ResponseKind().(*kmsg.MetadataResponse)
			topic := kmsg.NewMetadataResponseTopic()
			topic.Topic, topic.ErrorCode = req.Topics[0].Topic, fault.Load().Code
			res.Topics = append(res.Topics, topic)
			return res, nil, true
		})
		begun := time.Now()
		_, waited, err := c.AwaitTopic(t.Context(), "secret", "")
		require.ErrorIs(t, err, kafka.TopicAuthorizationFailed)
		assert.False(t, waited)
		assert.Zero(t, time.Since(begun)) // virtual

		fault.Store(kerr.UnknownTopicOrPartition)
		go func() {
			time.Sleep(time.Minute) // virtual
			fault.Store(kerr.LeaderNotAvailable)
			time.Sleep(5 * time.Minute)
			fault.Store(kerr.TopicAuthorizationFailed)
		}()
		_, waited, err = c.AwaitTopic(t.Context(), "secret", "")
		require.ErrorIs(t, err, kafka.TopicAuthorizationFailed)
		assert.True(t, waited)
		assert.InDelta(t, 6*time.Minute, time.Since(begun), float64(time.Second))
	})
}

func TestAlike(t *testing.T) {
	for _, tt := range []struct {
		name  string
		there string
		want  string
	}{
		{"variants", "reads calls signal", ""},
		{"variants", "variants", ""},
		{"vatiants", "variants reads", "variants"},
		{"variants", "lab.variants reads lab.reads", "lab.variants"},
		{"lab.variants", "variants lap.variants other-variants", "lap.variants variants other-variants"},
		{"lab.variants", "a.variants b.variants c.variants d.variants", "a.variants b.variants c.variants"},
		{"alerts", "alert alarms variants", "alert alarms"},
		{"", "in x", "x in"},
	} {
		assert.Equal(t, strings.Fields(tt.want), strings.Fields(strings.Join(alike(tt.name, strings.Fields(tt.there)), " ")), tt.name)
	}
}
