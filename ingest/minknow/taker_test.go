package minknow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/porestream/porestream/ingest/minknow/minknowpb"
	"github.com/porestream/porestream/stream/streampb"
)

// liveSink is a Live for chunks of the tests' levels.
type liveSink struct {
	mu sync.Mutex
	sink
}

func (s *liveSink) Chunk(c *streampb.SignalChunk) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.take(c)
}

func (s *liveSink) script() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sink.script()
}

// newTaker makes a taker of two channels at 1 kHz with chunks of 100 ms.
func newTaker() *taker {
	r, _ := newTestReads(2, false)
	cfg := &Config{Metrics: NewMetrics(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler)}
	p := &position{name: "X1", cfg: cfg, log: cfg.Logger, metrics: &positionMetrics{m: cfg.Metrics, position: "X1", channels: 2}}
	return &taker{position: p, run: &streampb.Run{Id: "run", SampleRate: 1000}, reads: r, log: cfg.Logger}
}

// TestSilence: when nothing comes of any channel, this machine's clock ends the
// reads, soon after it has begun to stand in for the device's.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tk, s, in := newTaker(), &liveSink{sink: sink{t: t}}, newInbox(1<<20)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- tk.loop(ctx, nil, in, nil, s) }()
		in.put(response(piece{channel: 1, id: "a", end: 100, class: strandClass}))
		time.Sleep(silence)
		synctest.Wait()
		if got := s.script(); got != "a@0 0+100" {
			t.Errorf("after %v: %s", silence, got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := s.script(); got != "a@0 0+100; a@0 100+0 end unknown" {
			t.Errorf("a second later: %s", got)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestRunOver: the signal and what MinKNOW says of the run end in any order, or
// one of them does not.
func TestRunOver(t *testing.T) {
	aborted, unavailable := status.Error(codes.Aborted, "stopped"), status.Error(codes.Unavailable, "away")
	finishing := &minknowpb.AcquisitionRunInfo{RunId: "run", State: minknowpb.AcquisitionState_ACQUISITION_FINISHING}
	another := &minknowpb.AcquisitionRunInfo{RunId: "other", State: minknowpb.AcquisitionState_ACQUISITION_RUNNING}
	for _, tt := range []struct {
		name   string
		closed error // the signal ends after a second; nil: it does not
		state  *minknowpb.AcquisitionRunInfo
		at     time.Duration
		want   error
		after  time.Duration
	}{
		{"the signal first", aborted, finishing, 2 * time.Second, errOver, 2 * time.Second},
		{"the state first", aborted, finishing, time.Second / 2, errOver, time.Second},
		{"the state alone", nil, finishing, time.Second, errOver, time.Second + grace},
		{"another run", nil, another, time.Second, errOver, time.Second + grace},
		{"the signal alone", io.EOF, nil, 0, io.EOF, time.Second + grace},
		{"the connection", unavailable, nil, 0, unavailable, time.Second},
		{"the connection, when the run is over", unavailable, finishing, time.Second / 2, errOver, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tk, in, states := newTaker(), newInbox(1<<20), make(chan *minknowpb.AcquisitionRunInfo, 1)
				start := time.Now()
				if tt.closed != nil {
					time.AfterFunc(time.Second, func() { in.close(tt.closed) })
				}
				if tt.state != nil {
					time.AfterFunc(tt.at, func() { states <- tt.state })
				}
				ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second) // before the connection is asked
				defer cancel()
				err := tk.loop(ctx, nil, in, states, &liveSink{sink: sink{t: t}})
				if took := time.Since(start); !errors.Is(err, tt.want) || took < tt.after || took > tt.after+checkInterval {
					t.Errorf("%v after %v, want %v after %v", err, took, tt.want, tt.after)
				}
			})
		})
	}
}

// TestKafkaFails: an error of Kafka's side ends a connection as such.
func TestKafkaFails(t *testing.T) {
	tk, in := newTaker(), newInbox(1<<20)
	in.put(response(piece{channel: 1, id: "a", end: 100, class: strandClass}))
	err := tk.loop(t.Context(), nil, in, nil, brokenLive{})
	if !isKafka(err) {
		t.Error(err)
	}
}

type brokenLive struct{}

func (brokenLive) Chunk(*streampb.SignalChunk) (bool, error) { return false, errors.New("broken") }

// TestFullInboxTakesNoMoreSignal: one that is full takes no more signal, keeps where it was, and is
// bounded.
func TestFullInboxTakesNoMoreSignal(t *testing.T) {
	const chunk = 1000
	in := newInbox(10 * (2*chunk + 2*chunkOverhead))
	for i := range uint64(1000) {
		in.put(response(piece{channel: 1, id: "a", start: i * chunk, end: (i + 1) * chunk, class: strandClass}))
	}
	if in.bytes > in.limit+in.limit/4 {
		t.Errorf("%d bytes in an inbox of %d", in.bytes, in.limit)
	}
	r, c := newTestReads(1, false)
	s := &sink{t: t}
	n := uint64(0)
	for {
		m, err := in.take()
		if m == nil {
			if err != nil {
				t.Error(err)
			}
			break
		}
		n++
		if err := r.take(m, s.take); err != nil {
			t.Fatal(err)
		}
	}
	if in.bytes != 0 || n < 11 {
		t.Errorf("%d messages were kept, %d bytes are said to be left", n, in.bytes)
	}
	if got := c.samples[overrun].in; r.totals.Samples != 10*chunk || got != (n-10)*chunk {
		t.Errorf("%d samples have come, and %d of %d were counted as overrun", r.totals.Samples, got, (n-10)*chunk)
	}
	in.close(io.EOF)
	if _, err := in.take(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

func TestGroups(t *testing.T) {
	for _, tt := range []struct {
		channels, channel uint32
		want              string
	}{
		{512, 1, "1-64"}, {512, 64, "1-64"}, {512, 65, "65-128"}, {512, 512, "449-512"},
		{3000, 3000, "2626-3000"}, {126, 126, "113-126"}, {4, 3, "3-3"}, {1, 1, "1-1"},
	} {
		p := positionMetrics{channels: tt.channels}
		if got := p.group(tt.channel); got != tt.want {
			t.Errorf("channel %d of %d: %s, want %s", tt.channel, tt.channels, got, tt.want)
		}
		names := make(map[string]bool)
		for c := range tt.channels {
			names[p.group(c+1)] = true
		}
		if len(names) > groups {
			t.Errorf("%d channels: %d groups", tt.channels, len(names))
		}
	}
}

func TestWorstChannelsAreListedFirst(t *testing.T) {
	r, _ := newTestReads(20, false)
	for i := range uint32(20) {
		r.count(i+1, skipped, missing{in: uint64(i % 5 * 100), other: 7})
	}
	if got := fmt.Sprint(r.worst(3)); got != "[5:1/400 10:1/400 15:1/400]" {
		t.Error(got)
	}
	in, other, gaps := r.missing()
	if in != 4*(100+200+300+400) || other != 140 || gaps != 16 {
		t.Error(in, other, gaps)
	}
}

// TestInboxLimit: a full flow cell has seconds, a small one no less than before.
func TestInboxLimit(t *testing.T) {
	for _, tt := range []struct {
		channels, rate uint32
		max, want      int
	}{
		{512, 4000, 0, 32 << 20},
		{3000, 5000, 0, 120_000_000},
		{maxChannels, 1 << 31, 0, 256 << 20},
		{3000, 5000, 1 << 20, 1 << 20},
	} {
		if got := (&Config{MaxBuffered: tt.max}).inbox(tt.channels, tt.rate); got != tt.want {
			t.Errorf("%d channels at %d samples/s: %d bytes, want %d", tt.channels, tt.rate, got, tt.want)
		}
	}
}
