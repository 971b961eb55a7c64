package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/porestream/porestream/adaptive"
	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/signal/vbz"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// fakeCaller calls a base every ten samples. gate, if set, is received from before each
// call, and each call is sent to asked.
type fakeCaller struct {
	gate  chan error
	asked chan string
}

func (f fakeCaller) Call(ctx context.Context, read basecall.Read) (basecall.Called, error) {
	if f.asked != nil {
		f.asked <- read.ID
	}
	if f.gate != nil {
		select {
		case err := <-f.gate:
			if err != nil {
				return basecall.Called{}, err
			}
		case <-ctx.Done():
			return basecall.Called{}, ctx.Err()
		}
	}
	return basecall.Called{Sequence: bytes.Repeat([]byte("A"), len(read.Samples)/10)}, nil
}

// fakeAligner places reads by their names: on or off target, or, if they are late,
// only with 400 bases or more.
type fakeAligner struct{}

func (fakeAligner) Map(name string, seq []byte) ([]align.Alignment, error) {
	a := align.Alignment{Contig: "chr1", Start: 5000, End: 5000 + len(seq), MappingQuality: 60}
	if strings.HasPrefix(name, "on") {
		a.Start, a.End = 100, 100+len(seq)
	}
	if strings.HasPrefix(name, "nowhere") || strings.Contains(name, "late") && len(seq) < 400 {
		return nil, nil
	}
	return []align.Alignment{a}, nil
}

// emitter keeps what is emitted.
type emitter struct {
	mu        sync.Mutex
	decisions []*streampb.Decision
	resolved  []int64
	failed    error
	closed    bool
	news      chan struct{}
}

func newEmitter() *emitter { return &emitter{news: make(chan struct{}, 1000)} }

func (e *emitter) Emit(_ context.Context, outs []stream.Out, resolved []int64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return errors.New("the partition is lost")
	}
	for _, o := range outs {
		d, err := stream.DecodeDecision(o.Value)
		if err != nil {
			return err
		}
		if key := fmt.Sprintf("%s/%d", d.GetRun(), d.GetChannel()); string(o.Key) != key || o.Topic != "decisions" || o.Partition != stream.AnyPartition {
			return fmt.Errorf("decision %v goes to %s with key %s", d, o.Topic, o.Key)
		}
		e.decisions = append(e.decisions, d)
		e.news <- struct{}{}
	}
	e.resolved = append(e.resolved, resolved...)
	return nil
}

func (e *emitter) Fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failed = err
}

// script lists the decisions.
func (e *emitter) script() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []string
	for _, d := range e.decisions {
		all = append(all, fmt.Sprintf("%s %s %s %d", d.GetReadId(), strings.ToLower(strings.TrimPrefix(d.GetAction().String(), "DECISION_ACTION_")), d.GetReason(), d.GetSamples()))
	}
	return strings.Join(all, "; ")
}

// bench is a handler in a test.
type bench struct {
	t *testing.T
	stream.Handler
	*emitter
	metrics *Metrics
	offset  int64
	codec   *vbz.Codec
	runs    map[string]*streampb.Run
	mu      sync.Mutex
}

func newBench(t *testing.T, edit func(*Config)) *bench {
	t.Helper()
	b := &bench{t: t, emitter: newEmitter(), metrics: NewMetrics(prometheus.NewRegistry()), codec: vbz.NewCodec(),
		runs: map[string]*streampb.Run{"run": {Id: "run", Sample: "s", SampleRate: 4000}, "fast": {Id: "fast", Sample: "s", SampleRate: 5000}}}
	targets, err := adaptive.ReadTargets(strings.NewReader("chr1\t0\t1000\n"), "t.bed", 0, func(string) (int, bool) { return 100_000, true })
	if err != nil {
		t.Fatal(err)
	}
	policy, err := adaptive.NewPolicy(adaptive.Config{Mode: adaptive.Enrich, Targets: targets})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Topics: stream.NewTopics(""), Policy: policy, PolicyName: "enrich t.bed", Schedule: adaptive.Schedule{First: 1600, Limit: 6400},
		Caller: fakeCaller{}, SampleRates: []int{4000}, Aligners: []Aligner{fakeAligner{}}, Metrics: b.metrics,
		Run: b.run,
	}
	if edit != nil {
		edit(&cfg)
	}
	if b.Handler, err = New(cfg)("signal", 0, 4); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if held := testutil.ToFloat64(b.metrics.heldBytes); held != 0 {
			t.Errorf("%g bytes are held behind the end", held)
		}
		if n := testutil.ToFloat64(b.metrics.waiting); n != 0 {
			t.Errorf("%g looks wait behind the end", n)
		}
	})
	return b
}

func (b *bench) run(id string) *streampb.Run {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.runs[id]
}

// handle hands over a record.
func (b *bench) handle(m *streampb.SignalRecord, at time.Time) {
	b.t.Helper()
	value, err := stream.EncodeSignal(m)
	if err != nil {
		b.t.Fatal(err)
	}
	b.raw(value, at)
}

func (b *bench) raw(value []byte, at time.Time) {
	b.t.Helper()
	if err := b.Handle(b.t.Context(), stream.Record{Topic: "signal", Offset: b.offset, Time: at, Value: value}, b.emitter); err != nil {
		b.t.Fatal(err)
	}
	b.offset++
}

// chunk hands over n samples of a read from sample first on. The read began on its
// channel at a sample.
func (b *bench) chunk(run string, channel uint32, id string, start, first uint64, n int, age time.Duration) {
	b.t.Helper()
	b.handle(&streampb.SignalRecord{Body: &streampb.SignalRecord_Chunk{Chunk: &streampb.SignalChunk{
		Run: run, Channel: channel, ReadId: id, ReadStart: start, FirstSample: first, SampleCount: uint32(n),
		Vbz: b.codec.Encode(nil, make([]int16, n)), CalibrationScale: 1,
	}}}, time.Now().Add(-age))
}

func (b *bench) end(channel uint32, id string, start, total uint64) {
	b.t.Helper()
	b.handle(&streampb.SignalRecord{Body: &streampb.SignalRecord_Chunk{Chunk: &streampb.SignalChunk{
		Run: "run", Channel: channel, ReadId: id, ReadStart: start, FirstSample: total, EndOfRead: true, Vbz: b.codec.Encode(nil, nil),
	}}}, time.Now())
}

// settled waits until nothing is in the works, and compares the decisions.
func (b *bench) settled(want string) {
	b.t.Helper()
	synctest.Wait()
	if got := b.script(); got != want {
		b.t.Errorf("decisions %q, want %q", got, want)
	}
}

func (b *bench) count(t *testing.T, want map[string]float64) {
	t.Helper()
	for name, n := range want {
		kind, label, _ := strings.Cut(name, " ")
		vec := map[string]*prometheus.CounterVec{"skip": b.metrics.skipped, "read": b.metrics.reads, "bad": b.metrics.bad}[kind]
		if got := testutil.ToFloat64(vec.WithLabelValues(label)); got != n {
			t.Errorf("%s: %g, want %g", name, got, n)
		}
	}
}

// synced runs a test in a bubble, where time stands still while anything is done.
func synced(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func TestDecisions(t *testing.T) {
	synced(t, "on and off target", func(t *testing.T) {
		b := newBench(t, func(c *Config) { c.DryRun = true })
		b.chunk("run", 1, "on", 0, 0, 1599, 0)
		b.settled("")
		b.chunk("run", 1, "on", 0, 1599, 1, 0)
		b.settled("on continue on_target 1600")
		b.chunk("run", 7, "off", 0, 0, 3200, 0)
		b.settled("on continue on_target 1600; off unblock off_target 3200")
		b.chunk("run", 7, "off", 0, 3200, 3200, 0)
		b.settled("on continue on_target 1600; off unblock off_target 3200")
		d := b.decisions[1]
		if d.GetRun() != "run" || d.GetChannel() != 7 || d.GetPolicy() != "enrich t.bed" || !d.GetDryRun() || d.GetLastChunkMs() != time.Now().UnixMilli() {
			t.Errorf("%v", d)
		}
		if !slices.Equal(b.resolved, []int64{0, 1, 2, 3}) {
			t.Errorf("resolved %v", b.resolved)
		}
		b.count(t, map[string]float64{"read decided": 2})
	})
	synced(t, "later looks see more", func(t *testing.T) {
		b := newBench(t, nil)
		for i := range uint64(4) {
			b.chunk("run", 1, "off-late", 0, 1600*i, 1600, 0)
			synctest.Wait()
		}
		b.settled("off-late unblock off_target 6400")
	})
	synced(t, "in doubt reads are kept", func(t *testing.T) {
		b := newBench(t, nil)
		for i := range uint64(8) {
			b.chunk("run", 1, "nowhere", 0, 1600*i, 1600, 0)
			synctest.Wait()
		}
		b.settled("nowhere continue unaligned 6400")
	})
	synced(t, "the next read", func(t *testing.T) {
		b := newBench(t, nil)
		b.chunk("run", 1, "off1", 0, 0, 1000, 0)
		b.chunk("run", 1, "off2", 5000, 0, 1000, 0)
		b.chunk("run", 1, "off1", 0, 1000, 1000, 0) // delivered again
		b.settled("")
		b.chunk("run", 1, "off2", 5000, 1000, 1000, 0)
		b.settled("off2 unblock off_target 2000")
		b.end(1, "off2", 5000, 2000)
		b.count(t, map[string]float64{"read ended": 1, "read decided": 1})
	})
	synced(t, "a read that has ended", func(t *testing.T) {
		b := newBench(t, nil)
		b.chunk("run", 1, "off", 0, 0, 1000, 0)
		b.end(1, "off", 0, 1000)
		b.chunk("run", 1, "off", 0, 1000, 5000, 0)
		b.settled("")
		b.count(t, map[string]float64{"read ended": 1})
	})
	synced(t, "a run that has ended", func(t *testing.T) {
		b := newBench(t, nil)
		b.chunk("run", 1, "off", 0, 0, 1000, 0)
		mk := &streampb.Marker{Run: b.runs["run"], Sources: 1}
		b.handle(&streampb.SignalRecord{Body: &streampb.SignalRecord_RunStart{RunStart: mk}}, time.Now())
		b.handle(&streampb.SignalRecord{Body: &streampb.SignalRecord_RunEnd{RunEnd: mk}}, time.Now())
		b.settled("")
		b.count(t, map[string]float64{"read ended": 1})
	})
	synced(t, "signal is missing", func(t *testing.T) {
		b := newBench(t, nil)
		b.chunk("run", 1, "off", 0, 3000, 1600, 0)
		b.settled("off unblock off_target 1600")
		b.chunk("run", 2, "off-too-far", 0, 6400, 3200, 0)
		b.settled("off unblock off_target 1600")
		b.count(t, map[string]float64{"read missed": 1})
	})
}

func TestReadsThatAreLeftAlone(t *testing.T) {
	synced(t, "control channels", func(t *testing.T) {
		b := newBench(t, func(c *Config) { c.FirstChannel, c.LastChannel = 2, 3 })
		for channel := range uint32(5) {
			b.chunk("run", channel, fmt.Sprint("off", channel), 0, 0, 3200, 0)
			synctest.Wait()
		}
		b.settled("off2 unblock off_target 3200; off3 unblock off_target 3200")
		b.count(t, map[string]float64{"read control": 3})
	})
	synced(t, "another sample rate", func(t *testing.T) {
		b := newBench(t, nil)
		b.chunk("fast", 1, "off", 0, 0, 3200, 0)
		b.chunk("fast", 1, "off", 0, 3200, 3200, 0)
		b.settled("")
		b.count(t, map[string]float64{"read unsupported": 1})
	})
	synced(t, "no memory", func(t *testing.T) {
		b := newBench(t, func(c *Config) { c.MaxMemory = 2000 })
		b.chunk("run", 1, "off1", 0, 0, 1000, 0)
		b.chunk("run", 2, "off2", 0, 0, 3200, 0)
		b.end(1, "off1", 0, 1000)
		b.chunk("run", 3, "off3", 0, 0, 3200, 0)
		b.settled("off3 unblock off_target 3200")
		b.count(t, map[string]float64{"read memory": 1, "read ended": 1})
	})
	synced(t, "bad records", func(t *testing.T) {
		b := newBench(t, nil)
		b.raw([]byte("nonsense"), time.Now())
		b.handle(&streampb.SignalRecord{Body: &streampb.SignalRecord_Chunk{Chunk: &streampb.SignalChunk{
			Run: "run", Channel: 1, ReadId: "off", SampleCount: 100, Vbz: []byte{1, 2, 3}}}}, time.Now())
		b.settled("")
		b.count(t, map[string]float64{"bad foreign": 1, "bad payload": 1})
		if len(b.resolved) != 2 {
			t.Errorf("resolved %v: bad records are dealt with, too", b.resolved)
		}
	})
}

// TestSkippedEvaluationsComeBack: an evaluation that can't be taken is not lost to its read.
func TestSkippedEvaluationsComeBack(t *testing.T) {
	synced(t, "late", func(t *testing.T) {
		b := newBench(t, func(c *Config) { c.MaxAge = time.Second })
		b.chunk("run", 1, "off", 0, 0, 1600, 2*time.Second)
		b.settled("")
		b.chunk("run", 1, "off", 0, 1600, 100, 0)
		b.settled("off unblock off_target 1700")
		b.count(t, map[string]float64{"skip late": 1})
	})
	synced(t, "the run is not known yet", func(t *testing.T) {
		b := newBench(t, nil)
		run := b.runs["run"]
		delete(b.runs, "run")
		b.chunk("run", 1, "off", 0, 0, 1600, 0)
		b.settled("")
		b.mu.Lock()
		b.runs["run"] = run
		b.mu.Unlock()
		b.chunk("run", 1, "off", 0, 1600, 100, 0)
		b.settled("off unblock off_target 1700")
		b.count(t, map[string]float64{"skip unknown_run": 1})
	})
	synced(t, "too old when a worker is free", func(t *testing.T) {
		caller := fakeCaller{gate: make(chan error), asked: make(chan string, 10)}
		b := newBench(t, func(c *Config) { c.Caller, c.MaxAge = caller, time.Second })
		b.chunk("run", 1, "off1", 0, 0, 1600, 0)
		synctest.Wait()
		b.chunk("run", 2, "off2", 0, 0, 1600, 0) // waits behind off1
		time.Sleep(1500 * time.Millisecond)
		caller.gate <- nil
		b.settled("off1 unblock off_target 1600")
		b.chunk("run", 2, "off2", 0, 1600, 100, 0)
		caller.gate <- nil
		b.settled("off1 unblock off_target 1600; off2 unblock off_target 1700")
		b.count(t, map[string]float64{"skip late": 1})
	})
	synced(t, "the youngest signal first", func(t *testing.T) {
		caller := fakeCaller{gate: make(chan error), asked: make(chan string, 10)}
		b := newBench(t, func(c *Config) { c.Caller, c.MaxWaiting = caller, 2 })
		b.chunk("run", 9, "off9", 0, 0, 1600, 0)
		synctest.Wait() // the only worker has it
		for channel := range uint32(3) {
			time.Sleep(100 * time.Millisecond)
			b.chunk("run", channel+1, fmt.Sprint("off", channel+1), 0, 0, 1600, 0)
		}
		for range 3 {
			caller.gate <- nil
			synctest.Wait()
		}
		b.settled("off9 unblock off_target 1600; off3 unblock off_target 1600; off2 unblock off_target 1600")
		b.count(t, map[string]float64{"skip crowded": 1})
		b.chunk("run", 1, "off1", 0, 1600, 10, 0)
		caller.gate <- nil
		synctest.Wait()
		if !strings.HasSuffix(b.script(), "; off1 unblock off_target 1610") {
			t.Errorf("%s: the look that was put out is due again", b.script())
		}
	})
}

// TestEnds: whatever ends while an evaluation is under way, no decision comes of it.
func TestEnds(t *testing.T) {
	gated := func(t *testing.T) (*bench, fakeCaller) {
		caller := fakeCaller{gate: make(chan error), asked: make(chan string, 10)}
		b := newBench(t, func(c *Config) { c.Caller = caller })
		b.chunk("run", 1, "off", 0, 0, 1600, 0)
		synctest.Wait()
		return b, caller
	}
	synced(t, "the read", func(t *testing.T) {
		b, caller := gated(t)
		b.end(1, "off", 0, 1600)
		caller.gate <- nil
		b.settled("")
	})
	synced(t, "the read, by the next one", func(t *testing.T) {
		b, caller := gated(t)
		b.chunk("run", 1, "on", 2000, 0, 100, 0)
		caller.gate <- nil
		b.settled("")
		b.chunk("run", 1, "on", 2000, 100, 1500, 0)
		caller.gate <- nil
		b.settled("on continue on_target 1600")
	})
	synced(t, "the partition", func(t *testing.T) {
		b, caller := gated(t)
		b.chunk("run", 2, "off2", 0, 0, 1600, 0)
		drained := make(chan error, 1)
		go func() { drained <- b.Drain(t.Context()) }()
		synctest.Wait()
		b.count(t, map[string]float64{"skip stopped": 1}) // what waits is given up
		caller.gate <- nil
		if err := <-drained; err != nil {
			t.Error(err)
		}
		b.settled("off unblock off_target 1600") // what is in the works is not
	})
	synced(t, "the patience", func(t *testing.T) {
		b, _ := gated(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		b.settled("")
	})
	synced(t, "the device", func(t *testing.T) {
		b, caller := gated(t)
		caller.gate <- errors.New("the device hangs")
		b.settled("")
		if b.failed == nil || !strings.Contains(b.failed.Error(), "evaluating read off of run run: the device hangs") {
			t.Errorf("%v", b.failed)
		}
	})
	synced(t, "the generation", func(t *testing.T) {
		b, caller := gated(t)
		b.emitter.mu.Lock()
		b.emitter.closed = true
		b.emitter.mu.Unlock()
		caller.gate <- nil
		b.settled("")
		if n := testutil.ToFloat64(b.metrics.unpublished); n != 1 || b.failed != nil {
			t.Errorf("%g decisions lost, failed: %v", n, b.failed)
		}
	})
}

func TestConfigurationFaults(t *testing.T) {
	policy := new(adaptive.Policy)
	for want, cfg := range map[string]Config{
		"no aligner":                 {Policy: policy},
		"no policy":                  {Aligners: []Aligner{fakeAligner{}}},
		"evaluation after 0 samples": {Policy: policy, Aligners: []Aligner{fakeAligner{}}},
		"comes before the first ":    {Policy: policy, Aligners: []Aligner{fakeAligner{}}, Schedule: adaptive.Schedule{First: 2, Limit: 1}},
	} {
		if _, err := New(cfg)("signal", 0, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want ...%s...", err, want)
		}
	}
}
