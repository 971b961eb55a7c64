package kafka

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streamtest"
)

func TestTopicsAreCreatedOnceAndAccepted(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		c := dial(t, addr)
		topics := stream.NewTopics(strings.ToLower(strings.ReplaceAll(t.Name(), "/", ".")) + "-").Settings(3)
		for range 2 {
			require.NoError(t, c.EnsureTopics(t.Context(), topics, 1))
		}
		for _, s := range topics {
			n, err := c.Partitions(t.Context(), s.Name)
			require.NoError(t, err)
			assert.Equal(t, s.Partitions, n)
		}
	})
}

func TestTopicsThatBreakAGuaranteeAreRefused(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		c := dial(t, addr)
		day := "86400000"
		tests := map[string]struct {
			exists, want map[string]string
			partitions   int // wanted; there are 2
			wantErr      string
		}{
			"equal":                 {exists: map[string]string{"retention.ms": day}, want: map[string]string{"retention.ms": day}, partitions: 2},
			"kept longer":           {exists: map[string]string{"retention.ms": "186400000"}, want: map[string]string{"retention.ms": day}},
			"kept for good":         {exists: map[string]string{"retention.ms": "-1"}, want: map[string]string{"retention.ms": day}},
			"compacted and deleted": {exists: map[string]string{"cleanup.policy": "compact,delete"}, want: map[string]string{"cleanup.policy": "compact"}},
			"larger messages":       {exists: map[string]string{"max.message.bytes": "2000000"}, want: map[string]string{"max.message.bytes": "1048588"}},
			"compacted data":        {exists: map[string]string{"cleanup.policy": "compact"}, want: map[string]string{"cleanup.policy": "delete"}, wantErr: "cleanup.policy is compact, needed is delete"},
			"data compacted too":    {exists: map[string]string{"cleanup.policy": "compact,delete"}, want: map[string]string{"cleanup.policy": "delete"}, wantErr: "compaction would remove"},
			"state that expires":    {exists: map[string]string{"cleanup.policy": "delete"}, want: map[string]string{"cleanup.policy": "compact"}, wantErr: "the newest state of a key would expire"},
			"kept too shortly":      {exists: map[string]string{"retention.ms": "3600000"}, want: map[string]string{"retention.ms": day}, wantErr: "retention.ms is 3600000, needed is 86400000"},
			"not kept for good":     {exists: map[string]string{"retention.ms": day}, want: map[string]string{"retention.ms": "-1"}, wantErr: "records would expire"},
			"smaller messages":      {exists: map[string]string{"max.message.bytes": "1000"}, want: map[string]string{"max.message.bytes": "1048588"}, wantErr: "large records would be refused"},
			"another setting":       {exists: map[string]string{"message.timestamp.type": "LogAppendTime"}, want: map[string]string{"message.timestamp.type": "CreateTime"}, wantErr: "message.timestamp.type is LogAppendTime, needed is CreateTime"},
			"compacted sooner":      {exists: map[string]string{"segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.1"}, want: map[string]string{"segment.bytes": "33554432", "min.cleanable.dirty.ratio": "0.3"}},
			"large segments":        {exists: map[string]string{"segment.bytes": "1073741824"}, want: map[string]string{"segment.bytes": "33554432"}, wantErr: "segment.bytes is 1073741824, needed is 33554432: what was overwritten would stay for too long"},
			"compacted late":        {exists: map[string]string{"min.cleanable.dirty.ratio": "0.9"}, want: map[string]string{"min.cleanable.dirty.ratio": "0.3"}, wantErr: "needed is 0.3"},
			"compacted some day":    {exists: map[string]string{"max.compaction.lag.ms": "9223372036854775807"}, want: map[string]string{"max.compaction.lag.ms": "600000"}, wantErr: "needed is 600000"},
			"too few partitions":    {partitions: 3, wantErr: "the number of partitions is 2, needed is 3"},
			"too many partitions":   {partitions: 1, wantErr: "ask for 2 partitions"},
			"partitions are theirs": {},
		}
		for name, tc := range tests {
			t.Run(name, func(t *testing.T) {
				topic := newTopic(t, c, 2) + "x"
				require.NoError(t, c.EnsureTopics(t.Context(), []stream.TopicSettings{{Name: topic, Partitions: 2, Config: tc.exists}}, 1))
				other := topic + "-other"
				err := c.EnsureTopics(t.Context(), []stream.TopicSettings{
					{Name: other, Partitions: 1},
					{Name: topic, Partitions: tc.partitions, Config: tc.want},
				}, 1)
				if tc.wantErr == "" {
					require.NoError(t, err)
					return
				}
				require.ErrorContains(t, err, "topic "+topic+": ")
				require.ErrorContains(t, err, tc.wantErr)
				assert.NotContains(t, err.Error(), "\n")
				var fault *TopicFault
				require.ErrorAs(t, err, &fault)
				assert.Contains(t, fault.Fix, "--bootstrap-server "+addr)
				_, err = c.Partitions(t.Context(), other)
				assert.ErrorContains(t, err, "does not exist", "nothing is created beside a topic that is refused")
			})
		}
	})
}

func TestClusterRefusesATopic(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		if filepath.Base(t.Name()) == "kfake" {
			t.Skip("kfake takes any name and replication factor")
		}
		c := dial(t, addr)
		err := c.EnsureTopics(t.Context(), []stream.TopicSettings{{Name: "not a topic name", Partitions: 1}}, 1)
		require.ErrorContains(t, err, "not a topic name")
		err = c.EnsureTopics(t.Context(), []stream.TopicSettings{{Name: "replicated-too-often", Partitions: 1}}, 5)
		require.ErrorContains(t, err, "creating topic replicated-too-often")
	})
}
