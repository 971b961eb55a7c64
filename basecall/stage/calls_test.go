package stage

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/porestream/porestream/align"
	alignstage "github.com/porestream/porestream/align/stage"
	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/signal/vbz"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// watchedCaller is a fakeCaller that knows its streams.
type watchedCaller struct {
	fakeCaller

	mu      sync.Mutex
	open    int            // streams
	written map[string]int // samples by read
}

func (w *watchedCaller) Begin(read basecall.Read) (Stream, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open++
	return &watchedStream{watch: w, collected: collected{read: read, call: w.Call, closed: func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.open--
	}}}, nil
}

type watchedStream struct {
	collected

	watch *watchedCaller
}

func (s *watchedStream) Write(ctx context.Context, samples []int16) error {
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	if s.watch.written == nil {
		s.watch.written = make(map[string]int)
	}
	s.watch.written[s.read.ID] += len(samples)
	return s.collected.Write(ctx, samples)
}

// TestInFlightIsAsAtTheEnd: whatever is lost, doubled, late or in conflict, reads
// that are called while their signal comes give what they give when they are
// called at their end, and no stream stays open.
func TestInFlightIsAsAtTheEnd(t *testing.T) {
	for seed := range uint64(30) {
		recs := disorderlyLog(t, rand.New(rand.NewPCG(seed, 31)))
		var want []string
		for _, inFlight := range []bool{false, true} {
			caller := new(watchedCaller)
			cfg := crashConfig(caller)
			cfg.InFlight = inFlight
			h := newHandler(t, cfg)
			emit := new(fakeEmitter)
			handleAll(t, h, recs, emit)
			if err := h.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := h.Close(); err != nil {
				t.Fatal(err)
			}
			if caller.open != 0 {
				t.Errorf("seed %d, in flight %v: %d streams stay open", seed, inFlight, caller.open)
			}
			got := contents(emit.outs)
			if want == nil {
				want = got
			}
			if !slices.Equal(got, want) {
				t.Errorf("seed %d: other records in flight than at the end", seed)
			}
		}
	}
}

// TestSignalIsWrittenAsItComes: a read's samples are written with their chunk, and
// once, but those behind a gap are written again when it is filled.
func TestSignalIsWrittenAsItComes(t *testing.T) {
	chunks := chunksOf(1, "a", 100, 300) // 5 chunks
	for name, tc := range map[string]struct {
		order   []int
		written []int
	}{
		"in order":        {[]int{0, 1, 2, 3}, []int{400, 800, 1200, 1600}},
		"twice":           {[]int{0, 0, 1, 0}, []int{400, 400, 800, 800}},
		"a gap":           {[]int{0, 2, 3}, []int{400, 800, 1200}},
		"a gap is filled": {[]int{0, 2, 1, 3}, []int{400, 800, 1600, 2000}},
		"begun late":      {[]int{1, 0, 2}, []int{400, 1200, 1600}},
	} {
		t.Run(name, func(t *testing.T) {
			caller := new(watchedCaller)
			cfg := testConfig()
			cfg.Caller = caller
			p := &partition{t: t}
			p.start("run-1")
			for _, i := range tc.order {
				p.chunk(chunks[i])
			}
			h := newHandler(t, cfg)
			var written []int
			for i, rec := range p.recs {
				if err := h.Handle(t.Context(), rec, new(fakeEmitter)); err != nil {
					t.Fatal(err)
				}
				if i > 0 {
					written = append(written, caller.written["a"])
				}
			}
			if !slices.Equal(written, tc.written) {
				t.Errorf("written %v, want %v", written, tc.written)
			}
			if err := h.Close(); err != nil || caller.open != 0 {
				t.Errorf("closed: %v, %d streams stay open", err, caller.open)
			}
		})
	}
}

// TestCatchingUp: a long read that a new owner has to call anew is written little
// by little, and the rest at its end.
func TestCatchingUp(t *testing.T) {
	const chunk = 50_000
	samples := currentOf(randomBases(40_000, 5)) // 8 chunks
	chunkAt := func(i int) *streampb.SignalChunk {
		part := samples[i*chunk : min((i+1)*chunk, len(samples))]
		c := chunkOf(1, "long", 0, uint64(i*chunk), len(part), (i+1)*chunk >= len(samples))
		c.SampleCount, c.Vbz = uint32(len(part)), vbzOf(part)
		return c
	}
	p := &partition{t: t}
	p.start("run-1")
	for i := range 8 {
		p.chunk(chunkAt(i))
	}
	caller := new(watchedCaller)
	cfg := testConfig()
	cfg.Caller = caller
	h := newHandler(t, cfg)
	for _, rec := range p.recs[:6] {
		if err := h.Replay(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
	}
	if len(caller.written) > 0 {
		t.Errorf("%v samples were called while replaying", caller.written)
	}
	emit := new(fakeEmitter)
	for i, rec := range p.recs[6:8] {
		if err := h.Handle(t.Context(), rec, emit); err != nil {
			t.Fatal(err)
		}
		if got, want := caller.written["long"], (i+1)*catchUp; got != want {
			t.Errorf("%d samples are written, want %d", got, want)
		}
	}
	handleAll(t, h, p.recs[8:], emit)
	if err := h.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := caller.written["long"]; got != len(samples) {
		t.Errorf("%d samples are written, want %d", got, len(samples))
	}
}

// TestFullQueueHoldsTheFetchUp: while a write waits for the network, so does the
// record, and a failure elsewhere ends the wait.
func TestFullQueueHoldsTheFetchUp(t *testing.T) {
	p := &partition{t: t}
	p.start("run-1").chunk(chunksOf(1, "a", 100, 250)[0])
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.Caller = fullQueue{}
		h := newHandler(t, cfg)
		emit := new(fakeEmitter)
		handleAll(t, h, p.recs[:1], emit)
		done := make(chan error, 1)
		go func() { done <- h.Handle(t.Context(), p.recs[1], emit) }()
		synctest.Wait()
		select {
		case err := <-done:
			t.Errorf("the record is handled: %v", err)
		default:
		}
		h.(*handler).background.Stop() // as a failure of a read in the works does
		if err := <-done; err == nil {
			t.Error("a record was handled whose signal could not be written")
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if got, want := emit.offsets(), allOffsets(p.recs[:1]); !slices.Equal(got, want) {
			t.Errorf("resolved %v, want %v", got, want)
		}
	})
}

// fullQueue is a caller whose queue is always full.
type fullQueue struct{}

func (fullQueue) Begin(basecall.Read) (Stream, error) { return fullQueue{}, nil }

func (fullQueue) Write(ctx context.Context, _ []int16) error { <-ctx.Done(); return ctx.Err() }

func (fullQueue) SoFar() basecall.Called { return basecall.Called{} }

func (fullQueue) Finish(context.Context) (basecall.Called, error) { return basecall.Called{}, nil }

func (fullQueue) Close() {}

// noAligner finds no read.
type noAligner struct{}

func (noAligner) Map(string, []byte) ([]align.Alignment, error) { return nil, nil }

// listener is an engine of which is written down what it calls the reads.
type listener struct {
	Caller

	mu     sync.Mutex
	called map[string]basecall.Called
}

func (l *listener) Begin(read basecall.Read) (Stream, error) {
	s, err := l.Caller.Begin(read)
	return &observed{s, l, read.ID}, err
}

type observed struct {
	Stream
	l  *listener
	id string
}

func (h *observed) Finish(ctx context.Context) (basecall.Called, error) {
	c, err := h.Stream.Finish(ctx)
	h.l.mu.Lock()
	defer h.l.mu.Unlock()
	h.l.called[h.id] = c
	return c, err
}

// TestRecalledReadsAreTheSame: recorded reads, called by the shipped model in the
// stage, whose handler is replaced again and again by one that has its state, are
// what the engine calls them at once.
func TestRecalledReadsAreTheSame(t *testing.T) {
	if _, err := infer.FindLibrary(""); err != nil {
		t.Skip("needs ONNX Runtime: ", err)
	}
	model, err := basecall.OpenModel(filepath.Join("..", "..", "models", "r9.4-fast"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := basecall.NewCaller(model, basecall.Config{Device: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	recording := filepath.Join("..", "..", "testdata", "lambda", "reads.pod5")
	if _, err := os.Stat(recording); err != nil {
		t.Fatal(err)
	}
	f, err := signal.Open(recording)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	p := &partition{t: t}
	p.start("run-1")
	want := make(map[string]basecall.Called)
	const chunk = 2777
	for channel := range uint32(4) {
		r, err := f.Next()
		if err != nil {
			t.Fatal(err)
		}
		want[r.ID], err = c.Call(t.Context(), basecall.Read{ID: r.ID, Samples: r.Samples, SampleRate: 4000, Calibration: r.Calibration})
		if err != nil {
			t.Fatal(err)
		}
		for first := 0; first < len(r.Samples); first += chunk {
			part := r.Samples[first:min(first+chunk, len(r.Samples))]
			p.chunk(&streampb.SignalChunk{
				Run: "run-1", Channel: channel, ReadId: r.ID, Number: uint32(first / chunk), FirstSample: uint64(first),
				SampleCount: uint32(len(part)), Vbz: vbz.Encode(nil, part), EndOfRead: first+len(part) == len(r.Samples),
				CalibrationOffset: r.Calibration.Offset, CalibrationScale: r.Calibration.Scale,
			})
		}
	}
	// The channels' chunks interleave.
	rng := rand.New(rand.NewPCG(41, 41))
	var recs []stream.Record
	byChannel := make(map[uint32][]stream.Record)
	for _, rec := range p.recs[1:] {
		m, err := stream.DecodeSignal(rec.Value)
		if err != nil {
			t.Fatal(err)
		}
		byChannel[m.GetChunk().GetChannel()] = append(byChannel[m.GetChunk().GetChannel()], rec)
	}
	for len(byChannel) > 0 {
		channels := slices.Sorted(maps.Keys(byChannel))
		ch := channels[rng.IntN(len(channels))]
		recs = append(recs, byChannel[ch][0])
		if byChannel[ch] = byChannel[ch][1:]; len(byChannel[ch]) == 0 {
			delete(byChannel, ch)
		}
	}

	l := &listener{Caller: FromEngine(c), called: make(map[string]basecall.Called)}
	cfg := testConfig()
	cfg.Caller, cfg.InFlight, cfg.Aligners = l, c.InFlight(), []alignstage.Aligner{noAligner{}, noAligner{}}
	h, emit := newHandler(t, cfg), new(fakeEmitter)
	handleAll(t, h, p.recs[:1], emit)
	for _, rec := range recs {
		handleAll(t, h, []stream.Record{rec}, emit)
		if rng.IntN(8) > 0 {
			continue
		}
		if err := h.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		next := restored(t, cfg, snapshot{sections: sectionsOf(t, h.State())})
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		h = next
	}
	if err := h.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil || emit.failed != nil {
		t.Fatal(err, emit.failed)
	}
	for id, called := range want {
		if fmt.Sprint(l.called[id]) != fmt.Sprint(called) {
			t.Errorf("read %s: %d bases, called at once %d", id, len(l.called[id].Sequence), len(called.Sequence))
		}
	}
}
