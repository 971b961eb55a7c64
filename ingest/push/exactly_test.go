package push

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"

	client "github.com/porestream/porestream/push"
	"github.com/porestream/porestream/push/pushpb"
	"github.com/porestream/porestream/stream/streampb"
)

// source makes up reads on a few channels, interleaved.
type source struct {
	rng      *rand.Rand
	channels [4]struct {
		read   int
		number uint32
		first  uint64
		start  uint64
		open   bool
	}
	reads int
}

func (s *source) next() client.Chunk {
	n := s.rng.IntN(len(s.channels))
	ch := &s.channels[n]
	if !ch.open {
		s.reads++
		*ch = struct {
			read   int
			number uint32
			first  uint64
			start  uint64
			open   bool
		}{read: s.reads, start: ch.start + ch.first + uint64(s.rng.IntN(50)), open: true}
	}
	c := client.Chunk{
		Channel: uint32(n + 1), ReadID: fmt.Sprint("read-", ch.read), ReadStart: ch.start, Number: ch.number, FirstSample: ch.first,
		Samples: make([]int16, 1+s.rng.IntN(200)), Offset: 1, Scale: 0.5, EndOfRead: s.rng.IntN(5) == 0,
	}
	for i := range c.Samples {
		c.Samples[i] = int16(s.rng.IntN(800))
	}
	ch.number++
	ch.first += uint64(len(c.Samples))
	ch.open = !c.EndOfRead
	return c
}

// identify says which chunk a record holds.
func identify(c *streampb.SignalChunk) string {
	return fmt.Sprint(c.GetChannel(), " ", c.GetReadId(), " ", c.GetReadStart(), " ", c.GetNumber(), " ", c.GetFirstSample(), " ", c.GetSampleCount(), " ", c.GetEndOfRead())
}

func sent(c client.Chunk) string {
	return fmt.Sprint(c.Channel, " ", c.ReadID, " ", c.ReadStart, " ", c.Number, " ", c.FirstSample, " ", len(c.Samples), " ", c.EndOfRead)
}

// TestExactlyOnce sends chunks again, cuts connections and kills servers at random moments, before any
// operation on Kafka: each chunk arrives once and in order, acknowledgements never
// go back, and what was acknowledged is never asked for again (the client would
// fail: it has forgotten it).
func TestExactlyOnce(t *testing.T) {
	seeds := 60
	if testing.Short() {
		seeds = 10
	}
	if n, err := strconv.Atoi(os.Getenv("PORESTREAM_PUSH_SEEDS")); err == nil {
		seeds = n
	}
	kills, cuts, repeated := 0, 0, 0.0
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, c, r := exactlyOnce(t, uint64(seed))
				kills, cuts, repeated = kills+k, cuts+c, repeated+r
			})
		})
	}
	t.Logf("%d servers killed, %d connections cut, %v chunks came again", kills, cuts, repeated)
	if kills < seeds/2 || cuts < seeds || repeated < float64(seeds) {
		t.Error("too little has happened to mean anything")
	}
}

func exactlyOnce(t *testing.T, seed uint64) (kills, cuts int, repeated float64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	faults := rand.New(rand.NewPCG(seed, 2)) // guarded by the fake's lock
	metrics := NewMetrics(prometheus.NewRegistry())
	b := newBench(t, func(cfg *Config) { cfg.Metrics = metrics })
	b.dies = func(string) bool { return faults.IntN(150) == 0 }
	b.kill() // the first had no fate
	b.start()
	defer b.close()

	c := b.client(func(cfg *client.Config) {
		cfg.MaxUnacked = int64(20_000 + rng.IntN(200_000))
		cfg.UntilCommitted = seed%2 == 0
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithStreamInterceptor(stutter(rng.Uint64())))
	})
	defer c.Close()
	// The kernel of a fault injector: servers that are dead are replaced, and connections are cut now and then.
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(10+faults64(seed, cuts+kills)) * time.Millisecond):
			}
			b.kafka.mu.Lock()
			dead := b.process.dead
			b.kafka.mu.Unlock()
			if dead {
				kills++
				b.kill()
				b.start()
				continue
			}
			cuts++
			b.cut()
		}
	}()

	run, err := c.Open(t.Context(), client.RunInfo{ID: "run", SampleRate: 4000})
	if err != nil {
		t.Fatal(err)
	}
	src := &source{rng: rng}
	var want []string
	acked := uint64(0)
	for range 400 {
		chunk := src.next()
		if err := run.Send(t.Context(), chunk); err != nil {
			t.Fatal(err)
		}
		want = append(want, sent(chunk))
		now := run.Acknowledged()
		if now < acked {
			t.Fatalf("acknowledged %d chunks, and before that %d", now, acked)
		}
		acked = now
		if durable := len(b.kafka.chunks("run")); uint64(durable) < acked {
			t.Fatalf("%d chunks acknowledged, and %d are in Kafka", acked, durable)
		}
		if rng.IntN(10) == 0 {
			time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
		}
	}
	if err := run.End(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	close(stop)
	<-done
	got := b.kafka.chunks("run")
	if len(got) != len(want) {
		t.Fatalf("%d chunks in Kafka, want %d (%d kills, %d cuts)", len(got), len(want), kills, cuts)
	}
	for i := range want {
		if identify(got[i]) != want[i] {
			t.Fatalf("chunk %d is %s, want %s", i, identify(got[i]), want[i])
		}
	}
	if !b.kafka.ended("run") {
		t.Error("the run has not ended in Kafka")
	}
	return kills, cuts, testutil.ToFloat64(metrics.duplicates)
}

// faults64 is a pause in milliseconds that depends on nothing but its arguments.
func faults64(seed uint64, n int) int64 {
	return rand.New(rand.NewPCG(seed, uint64(n)+3)).Int64N(1500)
}

// stutter sends chunks again now and then: the newest, or some that came before.
func stutter(seed uint64) grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := streamer(ctx, desc, cc, method, opts...)
		return &stuttering{ClientStream: s, rng: rand.New(rand.NewPCG(seed, 4))}, err
	}
}

type stuttering struct {
	grpc.ClientStream
	rng    *rand.Rand
	before []any
}

func (s *stuttering) SendMsg(m any) error {
	if err := s.ClientStream.SendMsg(m); err != nil {
		return err
	}
	if m.(*pushpb.PushRequest).GetOpen() != nil {
		return nil
	}
	s.before = append(s.before, m)
	s.before = s.before[max(0, len(s.before)-20):]
	if s.rng.IntN(30) > 0 {
		return nil
	}
	for _, again := range s.before[s.rng.IntN(len(s.before)):] {
		if err := s.ClientStream.SendMsg(again); err != nil {
			return err
		}
	}
	return nil
}
