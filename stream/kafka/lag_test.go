package kafka

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streamtest"
)

// A partition whose handler takes no more, or whose fetches fail, keeps the lag that it has. Where
// the end of its log can't be had either, the lag's age shows that it is old.
func TestLagIsKeptWithoutFetches(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]func(*kfake.Cluster, *GroupConfig){
		"the handler takes no more": func(_ *kfake.Cluster, cfg *GroupConfig) { cfg.MaxUnresolved = 10 },
		"fetches fail": func(c *kfake.Cluster, _ *GroupConfig) {
			streamtest.Refuse(c, kmsg.Fetch, kerr.NotLeaderForPartition, -1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := streamtest.Kfake(t)
			reg := prometheus.NewRegistry()
			c, err := Connect(t.Context(), Config{Brokers: cluster.ListenAddrs(), Registerer: reg})
			require.NoError(t, err)
			t.Cleanup(c.Close)
			in := newTopic(t, c, 1)
			p := newProducer(t, c, ProducerConfig{})
			put(t, p, in, 0, numbered("v", 0, 100)...)
			j := newJournal()
			cfg := impatient(GroupConfig{Group: in, Topics: []string{in}, Producer: p, lagInterval: 20 * time.Millisecond,
				NewHandler: func(topic string, partition, _ int32) (stream.Handler, error) {
					e := &echo{journal: j, life: j.begin(topic, partition)}
					e.handle = func(context.Context, stream.Record, stream.Emitter) error { return nil } // resolves nothing
					return e, nil
				}})
			cfg.DrainTimeout = 100 * time.Millisecond
			hold(cluster, &cfg)
			r := startMember(t, c, cfg)
			lag := func() float64 { return testutil.ToFloat64(c.metrics.lag.WithLabelValues(in, "0")) }
			known := func() float64 { return testutil.ToFloat64(c.metrics.lagAt.WithLabelValues(in, "0")) }
			streamtest.Eventually(t.Context(), t, "the lag of what was there", func() bool { return lag() == 100 })
			put(t, p, in, 0, numbered("w", 0, 50)...)
			streamtest.Eventually(t.Context(), t, "the lag of what has come since", func() bool { return lag() == 150 })

			f := streamtest.Refuse(cluster, kmsg.ListOffsets, kerr.NotLeaderForPartition, -1)
			require.NoError(t, f.Wait(t.Context(), 1))
			before := known()
			put(t, p, in, 0, "x")
			require.NoError(t, f.Wait(t.Context(), 4))
			assert.InDelta(t, before, known(), 0, "nothing new is known")
			assert.InDelta(t, 150, lag(), 0)
			f.Remove()
			streamtest.Eventually(t.Context(), t, "the lag is known again", func() bool { return lag() == 151 && known() > before })
			r.end(t)
			n, err := testutil.GatherAndCount(reg, "porestream_stream_lag_records", "porestream_stream_lag_timestamp_seconds")
			require.NoError(t, err)
			assert.Zero(t, n)
		})
	}
}
