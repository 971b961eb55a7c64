package e2e

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"github.com/porestream/porestream/internal/tracing/tracingtest"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/trace"
)

// receiveTraces starts a receiver of traces over gRPC.
func receiveTraces(t *testing.T) (*tracingtest.Receiver, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	receiver := new(tracingtest.Receiver)
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, receiver)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return receiver, "http://" + listener.Addr().String()
}

// records are all records of a topic.
func records(t *testing.T, client *kafka.Client, topic string) []stream.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	offsets, err := client.Offsets(ctx, topic)
	require.NoError(t, err)
	var all []stream.Record
	for p, o := range offsets {
		fetcher := client.NewFetcher(topic, int32(p), o.Start, kafka.FetchConfig{})
		for next := o.Start; next < o.End; {
			batch, err := fetcher.Next(ctx)
			require.NoError(t, err)
			all, next = append(all, batch.Records...), batch.Next
		}
	}
	return all
}

// TestTraces: half of the reads are traced through three processes. Whatever carries a
// place in a trace leads back, span by span, to the first chunk of its read; other
// reads leave no trace, and the result is the same to the byte.
func TestTraces(t *testing.T) {
	t.Parallel()
	device := recordedNetwork(t, "1ms:32")
	onBroker(t, func(t *testing.T, addr string) {
		want := undisturbed(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		client := connect(ctx, t, addr)
		topics := stream.NewTopics("")
		require.NoError(t, client.EnsureTopics(t.Context(), topics.Settings(3), 1))
		receiver, endpoint := receiveTraces(t)

		const share = "0.5"
		tracing := []string{"--brokers", addr, "--listen", "127.0.0.1:0", "--trace-endpoint", endpoint, "--trace-sample", share}
		panel := filepath.Join(root(), "watchlist", "testdata", "lambda", "panel.yaml")
		processing := append(slices.Clone(tracing), "--ref", lambda("reference.fa"), "--gff", lambda("genes.gff3"), "--panel", panel)
		ingest := start(t, cancel, "ingest", append(tracing, lambdaReads(t))...)
		first := start(t, cancel, "processor", append(processing, "--stages", "basecall,variant", "--device", device)...)
		second := start(t, cancel, "processor", append(processing, "--stages", "annotate,watch")...)
		ingest.ended(t)
		follow(ctx, t, client, nil)
		followAlerts(ctx, t, client)
		// A process sends what is left when it stops.
		first.stop(t)
		second.stop(t)

		res := pore(t, "consume", "--brokers", addr, "--format", "vcf", "--ref", lambda("reference.fa"))
		require.Zero(t, res.code, res.stderr)
		require.Equal(t, string(want), res.stdout)

		taken := trace.New(0.5, nil, nil)
		spans := make(map[string]tracingtest.Span)
		for _, s := range receiver.Spans() {
			_, twice := spans[s.ID()]
			require.False(t, twice, "span %s of %s came twice", s.Name, s.Service)
			spans[s.ID()] = s
		}
		chunks := checkSignalTraces(t, records(t, client, topics.Signal), taken, spans)
		checkReadTraces(t, records(t, client, topics.Reads), taken, spans)
		variants := checkPaths(t, records(t, client, topics.Variants), spans, "annotate", "evaluate", "variant", "basecall", "ingest")
		alerts := checkPaths(t, records(t, client, topics.Alerts), spans, "watch", "annotate", "evaluate", "variant", "basecall", "ingest")
		t.Logf("%d traced reads, %d spans, %d traced revisions, %d traced alerts", len(chunks), len(spans), variants, alerts)
		require.Positive(t, variants)
		require.Positive(t, alerts)
	})
}

// TestTracesWithoutAReceiver: the receiver is down for a whole run. The run has the same bytes,
// says what is lost, and ends well.
func TestTracesWithoutAReceiver(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := "http://" + listener.Addr().String()
	require.NoError(t, listener.Close())
	out := t.TempDir()
	res := pore(t, "run", "--ref", lambda("reference.fa"), "--gff", lambda("genes.gff3"), "--out", out, "--device", recordedNetwork(t, "1ms:32"), "--trace-endpoint", nobody, "--trace-sample", "1", lambdaReads(t))
	require.Zero(t, res.code, res.stderr)
	require.Equal(t, string(want), string(readFile(t, out, "variants.vcf")))
	// It is said once a minute. What waits to be sent is bounded: see package tracing.
	require.Contains(t, res.stderr, "spans are dropped")
}

// carried is the place that a record carries; it must be readable.
func carried(t *testing.T, rec stream.Record) (trace.Context, bool) {
	t.Helper()
	for _, h := range rec.Headers {
		if h.Key == trace.Header {
			c, sampled, err := trace.Parse(h.Value)
			require.NoError(t, err)
			require.True(t, sampled, "%s", h.Value)
			return c, true
		}
	}
	return trace.Context{}, false
}

// checkSignalTraces: all chunks of the share's reads carry the read's place, no others do,
// and the read's first span names each of them.
func checkSignalTraces(t *testing.T, recs []stream.Record, taken *trace.Tracer, spans map[string]tracingtest.Span) map[trace.Context]int {
	t.Helper()
	chunks := make(map[trace.Context]int)
	untraced := 0
	for _, rec := range recs {
		m, err := stream.DecodeSignal(rec.Value)
		require.NoError(t, err)
		place, traced := carried(t, rec)
		c := m.GetChunk()
		if c == nil || !taken.Takes(c.GetRun(), c.GetReadId()) {
			require.Empty(t, rec.Headers)
			if c != nil {
				untraced++
			}
			continue
		}
		require.True(t, traced, "a chunk of read %s carries nothing", c.GetReadId())
		require.Equal(t, trace.ReadPlace(c.GetRun(), c.GetReadId()), place)
		chunks[place]++
	}
	require.NotEmpty(t, chunks)
	require.Positive(t, untraced)
	for place, n := range chunks {
		s, ok := spans[id(place)]
		require.True(t, ok, "no span of %v", place)
		require.Equal(t, trace.NameIngest, s.Name)
		require.Equal(t, "porestream-ingest", s.Service)
		require.True(t, s.Root())
		require.Len(t, s.Events, n)
	}
	for _, s := range spans {
		if s.Root() {
			require.Equal(t, trace.NameIngest, s.Name)
		}
		require.LessOrEqual(t, s.StartTimeUnixNano, s.EndTimeUnixNano, s.Name)
	}
	return chunks
}

// checkReadTraces: segments carry the basecall span of their read, below which are its
// steps.
func checkReadTraces(t *testing.T, recs []stream.Record, taken *trace.Tracer, spans map[string]tracingtest.Span) {
	t.Helper()
	steps := make(map[string][]string)
	for _, s := range spans {
		if !s.Root() {
			steps[s.Parent()] = append(steps[s.Parent()], s.Name)
		}
	}
	for _, rec := range recs {
		m, err := stream.DecodeReads(rec.Value)
		require.NoError(t, err)
		place, traced := carried(t, rec)
		s := m.GetSegment()
		require.Equal(t, s != nil && taken.Takes(s.GetRun(), s.GetReadId()), traced)
		if !traced {
			require.Empty(t, rec.Headers)
			continue
		}
		require.Equal(t, trace.ReadTrace(s.GetRun(), s.GetReadId()), place.Trace)
		for _, step := range []string{"queue", "infer", "decode", "align", "variant"} {
			require.Contains(t, steps[id(place)], step)
		}
	}
}

// checkPaths: whatever carries a place leads back to the beginning over spans of these
// names. It returns how many records do.
func checkPaths(t *testing.T, recs []stream.Record, spans map[string]tracingtest.Span, path ...string) int {
	t.Helper()
	n := 0
	for _, rec := range recs {
		place, traced := carried(t, rec)
		if !traced {
			continue
		}
		n++
		at, began := id(place), uint64(0)
		for i, name := range path {
			s, ok := spans[at]
			require.True(t, ok, "the path of a record of %s ends before %s", rec.Topic, name)
			require.Equal(t, name, s.Name)
			require.Equal(t, i == len(path)-1, s.Root())
			if name == path[0] {
				began = s.StartTimeUnixNano
			}
			require.LessOrEqual(t, s.StartTimeUnixNano, began, "%s begins after what follows from it", name)
			at = s.Parent()
		}
	}
	return n
}

func id(c trace.Context) string { return c.Trace.String() + "/" + c.Span.String() }
