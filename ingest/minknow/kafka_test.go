package minknow

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/ingest/cluster"
	"github.com/porestream/porestream/signal/vbz"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/stream/streamtest"
)

func TestMain(m *testing.M) { os.Exit(streamtest.Main(m)) }

// kafkaRuns writes runs to a broker, as cmd/ingest has it.
type kafkaRuns struct {
	*ingest.Lives
	*cluster.Cluster
	taken chan struct{} // gets a token for each chunk, if it is asked for
}

func (k kafkaRuns) Run(ctx context.Context, run *streampb.Run, feed func(context.Context, Live) error) error {
	return k.Lives.Run(ctx, run, func(ctx context.Context, l *ingest.Live) error { return feed(ctx, countingLive{l, k.taken}) })
}

type countingLive struct {
	*ingest.Live
	taken chan struct{}
}

func (l countingLive) Chunk(c *streampb.SignalChunk) (bool, error) {
	ok, err := l.Live.Chunk(c)
	select {
	case l.taken <- struct{}{}:
	default:
	}
	return ok, err
}

// TestStoppedRunGoesOnWithEverySampleOnce: ingest is stopped in the middle of a run and started again. On the
// topic there is one run with one end, and every sample that has come, once.
func TestStoppedRunGoesOnWithEverySampleOnce(t *testing.T) {
	python(t) // skips before a broker is started
	streamtest.Each(t, func(t *testing.T, addr string) {
		const partitions = 3
		want, file := recording(t, 40)
		s := startSim(t, certificates(t, time.Hour), file, "--channels", "16", "--pace", "8", "--drop", "0.02")
		client, err := kafka.Connect(t.Context(), kafka.Config{Brokers: []string{addr}, DialTimeout: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		prefix := strings.ToLower(strings.ReplaceAll(t.Name(), "/", ".")) + "-"
		topics := stream.NewTopics(prefix)
		if err := client.EnsureTopics(t.Context(), topics.Settings(partitions), 0); err != nil {
			t.Fatal(err)
		}
		const timeout = 30 * time.Second
		follow := func(ctx context.Context, taken chan struct{}) error {
			c := cluster.New(client, cluster.Config{Topics: topics, Prefix: prefix, TransactionTimeout: timeout, MaxBuffered: 16 << 20})
			lives, err := ingest.OpenLives(ingest.ServiceConfig{
				Config: ingest.Config{Topics: topics, Partitions: partitions, Metrics: ingest.NewMetrics(prometheus.NewRegistry())}, Cluster: c,
				TransactionTimeout: timeout, MaxBuffered: 64 << 20, SpoolDir: t.TempDir(), SpoolMax: 1 << 30,
			}, 1)
			if err != nil {
				t.Fatal(err)
			}
			defer lives.Close(ctx)
			cfg := s.config(kafkaRuns{lives, c, taken})
			cfg.Once = true
			return Follow(ctx, cfg)
		}
		ctx, cancel := context.WithCancel(t.Context())
		taken, done := make(chan struct{}), make(chan error, 1)
		go func() { done <- follow(ctx, taken) }()
		for range 60 {
			select {
			case <-taken:
			case err := <-done:
				t.Fatalf("%v\n%s", err, s.log)
			}
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err := follow(t.Context(), nil); err != nil {
			t.Fatalf("%v\n%s", err, s.log)
		}
		// A commit is decided before all of its markers are written.
		streamtest.Eventually(t.Context(), t, "the end of the last transaction", func() bool {
			offsets, err := client.Offsets(t.Context(), topics.Signal)
			if err != nil {
				t.Fatal(err)
			}
			return !slices.ContainsFunc(offsets, func(o kafka.PartitionOffsets) bool { return o.Stable < o.End })
		})
		run := keptRun{}
		starts, ends := 0, 0
		codec := vbz.NewCodec()
		err = client.Consume(t.Context(), topics.Signal, kafka.ConsumeOptions{From: kafka.FromStart, UntilEnd: true}, func(rec stream.Record) error {
			m, err := stream.DecodeSignal(rec.Value)
			if err != nil {
				return err
			}
			switch {
			case m.GetRunStart() != nil:
				starts++
			case m.GetRunEnd() != nil:
				ends++
			default:
				levels, err := codec.Decode(nil, m.GetChunk().GetVbz(), int(m.GetChunk().GetSampleCount()))
				if err != nil {
					return err
				}
				run.chunks, run.levels = append(run.chunks, m.GetChunk()), append(run.levels, levels)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if starts != partitions || ends != partitions {
			t.Errorf("%d starts and %d ends on %d partitions", starts, ends, partitions)
		}
		got := run.reads()
		checkSignal(t, got, want)
		if len(got) < len(want)*3/4 {
			t.Errorf("%d of %d reads", len(got), len(want))
		}
	})
}
