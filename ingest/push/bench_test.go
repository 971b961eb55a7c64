package push

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/porestream/porestream/ingest"
	client "github.com/porestream/porestream/push"
	"github.com/porestream/porestream/push/pushpb"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/testenv"
)

// BenchmarkPush pushes real signal over a connection of this machine into a Kafka
// in memory: vbz with package push, which packs, and int16 as a device without it,
// so that the server packs. Device and server share this process: cpu-samples/s
// counts the CPU time of both.
func BenchmarkPush(b *testing.B) {
	chunks, samples := recorded(b)
	for _, bm := range []struct {
		name string
		push func(b *testing.B, address, id string, chunks []client.Chunk)
	}{{"vbz", pushPacked}, {"int16", pushPlain}} {
		b.Run(bm.name, func(b *testing.B) {
			address, stop := serve(b)
			defer stop()
			b.ReportAllocs()
			before, n := testenv.ProcessorTime(b), 0
			for b.Loop() {
				bm.push(b, address, fmt.Sprint(bm.name, n), chunks)
				n++
			}
			b.ReportMetric(float64(samples)*float64(n)/(testenv.ProcessorTime(b)-before).Seconds(), "cpu-samples/s")
			b.ReportMetric(float64(samples)*float64(n)/b.Elapsed().Seconds(), "samples/s")
		})
	}
}

// recorded is the shipped recording as chunks of a second.
func recorded(b *testing.B) (chunks []client.Chunk, total int) {
	b.Helper()
	rec, err := signal.NewIndex(b.Context(), []string{filepath.Join("..", "..", "testdata", "lambda", "reads.pod5")})
	if err != nil {
		b.Fatal(err)
	}
	defer rec.Close()
	for i := range rec.Len() {
		e := rec.Entry(i)
		samples, err := rec.Samples(i, nil)
		if err != nil {
			b.Fatal(err)
		}
		total += len(samples)
		for n := 0; len(samples) > 0; n++ {
			size := min(4000, len(samples))
			chunks = append(chunks, client.Chunk{
				Channel: uint32(i), ReadID: e.ID, ReadStart: e.StartSample, Number: uint32(n), FirstSample: uint64(n * 4000),
				Samples: samples[:size], Scale: 1, EndOfRead: size == len(samples),
			})
			samples = samples[size:]
		}
	}
	return chunks, total
}

// serve serves on the machine's network.
func serve(b *testing.B) (address string, stop func()) {
	b.Helper()
	authority, err := NewAuthority(AuthorityConfig{Defaults: testLimits})
	if err != nil {
		b.Fatal(err)
	}
	p := &process{fakeKafka: newFakeKafka(), forgets: true}
	server, err := NewServer(Config{
		Ingest: ingest.ServiceConfig{
			Config: ingest.Config{Topics: stream.NewTopics(""), Partitions: 1}, TransactionTimeout: time.Minute, MaxBuffered: 64 << 20, Cluster: p,
		},
		Catalogue: p, Authority: authority, Runs: 1 << 20, Idle: time.Hour,
	})
	if err != nil {
		b.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	served := make(chan error, 1)
	go func() { served <- server.Run(ctx, listener) }()
	return listener.Addr().String(), func() {
		cancel()
		if err := <-served; err != nil {
			b.Error(err)
		}
	}
}

func pushPacked(b *testing.B, address, id string, chunks []client.Chunk) {
	b.Helper()
	c, err := client.Dial(client.Config{Target: address})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	run, err := c.Open(b.Context(), client.RunInfo{ID: id, SampleRate: 4000})
	if err != nil {
		b.Fatal(err)
	}
	for i := range chunks {
		if err := run.Send(b.Context(), chunks[i]); err != nil {
			b.Fatal(err)
		}
	}
	if err := run.End(b.Context(), false); err != nil {
		b.Fatal(err)
	}
}

func pushPlain(b *testing.B, address, id string, chunks []client.Chunk) {
	b.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	api := pushpb.NewPushClient(conn)
	if _, err := api.Register(b.Context(), &pushpb.RegisterRequest{Run: &pushpb.Run{Id: id, SampleRate: 4000}}); err != nil {
		b.Fatal(err)
	}
	stream, err := api.Push(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	send := func(req *pushpb.PushRequest) {
		if err := stream.Send(req); err != nil {
			b.Fatal(err)
		}
	}
	send(&pushpb.PushRequest{Body: &pushpb.PushRequest_Open{Open: &pushpb.Open{Run: id}}})
	for i := range chunks {
		c := &chunks[i]
		plain := make([]byte, 0, 2*len(c.Samples))
		for _, s := range c.Samples {
			plain = binary.LittleEndian.AppendUint16(plain, uint16(s))
		}
		send(&pushpb.PushRequest{Body: &pushpb.PushRequest_Chunk{Chunk: &pushpb.Chunk{
			Sequence: uint64(i), Channel: c.Channel, ReadId: c.ReadID, ReadStart: c.ReadStart, Number: c.Number, FirstSample: c.FirstSample,
			SampleCount: uint32(len(c.Samples)), Samples: &pushpb.Chunk_Int16{Int16: plain}, CalibrationScale: 1, EndOfRead: c.EndOfRead,
		}}})
	}
	send(&pushpb.PushRequest{Body: &pushpb.PushRequest_End{End: &pushpb.End{Chunks: uint64(len(chunks))}}})
	for {
		res, err := stream.Recv()
		if err != nil {
			b.Fatal(err)
		}
		if res.GetAck().GetEnded() {
			return
		}
	}
}
