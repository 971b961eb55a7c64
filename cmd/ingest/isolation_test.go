package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/ingest/sources"
	"github.com/porestream/porestream/signal/vbz"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/stream/streamtest"
)

// runChunks are the chunks of a run on a topic of signal.
func runChunks(t *testing.T, client *kafka.Client, topic, run string) (list []string) {
	t.Helper()
	streamtest.Eventually(t.Context(), t, "the end of the last transaction", func() bool {
		offsets, err := client.Offsets(t.Context(), topic)
		require.NoError(t, err)
		return !slices.ContainsFunc(offsets, func(o kafka.PartitionOffsets) bool { return o.Stable < o.End })
	})
	err := client.Consume(t.Context(), topic, kafka.ConsumeOptions{From: kafka.FromStart, UntilEnd: true}, func(rec stream.Record) error {
		m, err := stream.DecodeSignal(rec.Value)
		if c := m.GetChunk(); c.GetRun() == run {
			list = append(list, fmt.Sprint(rec.Partition, " ", c))
		}
		return err
	})
	require.NoError(t, err)
	slices.Sort(list)
	return list
}

// TestOthersArrive: beside sources that panic, block and flood, all chunks of a
// recording get to Kafka, once, and what the three have is theirs alone.
func TestOthersArrive(t *testing.T) {
	clearEnvironment(t)
	const recording, run = "../../testdata/lambda/reads.pod5", "f7c95112c35c42bc2983752717adc93133266cdf"
	addr := streamtest.Kfake(t).ListenAddrs()[0]
	alone := command()
	alone.SetArgs([]string{"--brokers", addr, "--topic-prefix", "alone-", "--partitions", "2", "--listen", "127.0.0.1:0", "--log-level", "ERROR", recording})
	require.NoError(t, alone.ExecuteContext(t.Context()))

	l, err := parseFile("sources.yaml", fmt.Appendf(nil, `kafka: {brokers: [%q], topic_prefix: beside-, partitions: 2}
listen: 127.0.0.1:0
log_level: ERROR
sources:
- {kind: play, name: control, signal: %s}
`, addr, recording))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	release := make(chan struct{})
	var status func() []sources.Status
	var claimed error
	err = l.process.attach(ctx, "connecting", func(ctx context.Context, c *connection) error {
		live := func(name string, feed func(ctx context.Context, l *ingest.Live) error) sources.Spec {
			return sources.Spec{
				Name: name, Kind: playName, Figures: func() ingest.Figures { return c.meters.of(name, playName).ingest.Figures() },
				Run: func(ctx context.Context, ready func()) error {
					defer c.runs.Release(name)
					in := &intake{maxBuffered: 4 << 20}
					return ingest.RunLive(ctx, &streampb.Run{Id: "run of " + name, Sample: "s", SampleRate: 4000}, c.destination(name, playName, in, ready).service, feed)
				},
			}
		}
		packed := vbz.NewCodec().Encode(nil, make([]int16, 100))
		next := 0
		chunk := func(of string) *streampb.SignalChunk {
			next++
			return &streampb.SignalChunk{Run: of, Channel: 1, ReadId: "endless", Number: uint32(next), FirstSample: uint64(next) * 100, SampleCount: 100, Vbz: packed, CalibrationScale: 1}
		}
		list := append(c.specs(l),
			live("panics", func(context.Context, *ingest.Live) error { panic("a nil map") }),
			live("blocks", func(context.Context, *ingest.Live) error { <-release; return errors.New("released") }),
			live("floods", func(ctx context.Context, to *ingest.Live) error {
				for ctx.Err() == nil {
					if _, err := to.Chunk(chunk("run of floods")); err != nil {
						return err
					}
				}
				return ctx.Err()
			}),
			// Another that finds the recording's run is refused it.
			sources.Spec{Name: "rival", Kind: playName, Run: func(ctx context.Context, _ func()) error {
				if err := until(ctx, func() bool { return c.meters.of("control", playName).ingest.Figures().Chunks > 0 }); err != nil {
					return err
				}
				to := c.destination("rival", playName, &intake{maxBuffered: 4 << 20}, func() {})
				claimed = c.runs.Claim(run, "rival")
				_, err := to.service.Cluster.Open(ctx, run)
				return err
			}},
		)
		supervisor := sources.New(sources.Config{Restarts: true, Permanent: isPermanent, StopTimeout: time.Minute})
		c.serve(supervisor, nil)
		status = supervisor.Status
		running, stop := context.WithCancel(ctx)
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- supervisor.Run(running, list, nil) }()
		streamtest.Eventually(ctx, t, "the recording's end", func() bool {
			by := make(map[string]sources.Status)
			for _, s := range status() {
				by[s.Name] = s
			}
			return by["control"].State == sources.Stopped && by["panics"].Restarts > 0 && by["floods"].LostSamples > 0 && by["blocks"].Runs == 1 &&
				(by["rival"].State == sources.Failed || by["rival"].State == sources.Stopped)
		})
		close(release)
		stop()
		return <-ended
	})
	require.NoError(t, err)
	for _, s := range status() {
		switch s.Name {
		case "control":
			require.Zero(t, s.Gaps+s.LostSamples)
			require.Zero(t, s.Restarts)
		case "panics":
			require.Contains(t, s.LastError, "a nil map")
		case "floods":
			require.NotZero(t, s.Chunks)
			require.Zero(t, s.Restarts)
		}
	}
	if claimed != nil { // the recording may have ended before the rival checked
		require.ErrorContains(t, claimed, `is that of source "control"`)
	}

	client, err := kafka.Connect(t.Context(), kafka.Config{Brokers: []string{addr}})
	require.NoError(t, err)
	defer client.Close()
	want := runChunks(t, client, "alone-signal", run)
	require.NotEmpty(t, want)
	require.Equal(t, want, runChunks(t, client, "beside-signal", run))
}

// until waits for what a counter shows; ctx ends the waiting.
func until(ctx context.Context, shows func() bool) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !shows() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
