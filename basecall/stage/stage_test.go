package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/porestream/porestream/align"
	alignstage "github.com/porestream/porestream/align/stage"
	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// The fake chemistry: a base lasts ten samples, and every sample says which.
const samplesPerBase = 10

var reference = randomBases(20_000, 11)

func randomBases(n int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, seed))
	b := make([]byte, n)
	for i := range b {
		b[i] = "ACGT"[rng.IntN(4)]
	}
	return b
}

// currentOf is the current of a molecule.
func currentOf(bases []byte) []int16 {
	var samples []int16
	for _, b := range bases {
		for range samplesPerBase {
			samples = append(samples, int16(strings.IndexByte("ACGT", b)))
		}
	}
	return samples
}

// fakeCaller reads the fake current. before, if set, is called with every read.
type fakeCaller struct {
	before func(ctx context.Context, read basecall.Read) error
}

func (f fakeCaller) Call(ctx context.Context, read basecall.Read) (basecall.Called, error) {
	if f.before != nil {
		if err := f.before(ctx, read); err != nil {
			return basecall.Called{}, err
		}
	}
	var c basecall.Called
	for i := 0; i+samplesPerBase <= len(read.Samples); i += samplesPerBase {
		c.Sequence = append(c.Sequence, "ACGT"[read.Samples[i]&3])
		c.Qualities = append(c.Qualities, 20)
		c.Moves = append(c.Moves, 1, 0)
	}
	return c, nil
}

// Begin implements Caller.
func (f fakeCaller) Begin(read basecall.Read) (Stream, error) {
	return &collected{read: read, call: f.Call}, nil
}

// collected is a stream that calls what was written when the read ends.
type collected struct {
	read   basecall.Read
	call   func(context.Context, basecall.Read) (basecall.Called, error)
	closed func()
}

func (c *collected) Write(ctx context.Context, samples []int16) error {
	c.read.Samples = append(c.read.Samples, samples...)
	return ctx.Err()
}

// SoFar is all that was written: what a sample is called doesn't hang on later ones.
func (c *collected) SoFar() basecall.Called {
	called, _ := fakeCaller{}.Call(context.Background(), c.read)
	called.NumSamples = len(c.read.Samples)
	return called
}

func (c *collected) Finish(ctx context.Context) (basecall.Called, error) { return c.call(ctx, c.read) }

func (c *collected) Close() {
	if c.closed != nil {
		c.closed()
		c.closed = nil
	}
}

// fakeAligner finds a read where its letters are.
type fakeAligner struct{ contig []byte }

func (f fakeAligner) Map(_ string, seq []byte) ([]align.Alignment, error) {
	i := bytes.Index(f.contig, seq)
	if i < 0 {
		return nil, nil
	}
	return []align.Alignment{{
		Contig: "chr1", Start: i, End: i + len(seq), QueryEnd: len(seq), MappingQuality: 60,
		Ops: []align.Op{{Kind: align.Match, Len: len(seq)}},
	}}, nil
}

// fakeEmitter keeps what is emitted. reject, if set, decides about each emission.
type fakeEmitter struct {
	mu       sync.Mutex
	outs     []stream.Out
	resolved []int64
	failed   error
	reject   func(outs []stream.Out, resolved []int64) error
}

func (f *fakeEmitter) Emit(ctx context.Context, outs []stream.Out, resolved []int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.reject != nil {
		if err := f.reject(outs, resolved); err != nil {
			return err
		}
	}
	f.outs = append(f.outs, outs...)
	f.resolved = append(f.resolved, resolved...)
	return nil
}

func (f *fakeEmitter) Fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed == nil {
		f.failed = err
	}
}

// summary lists what was emitted: markers and segments in order.
func (f *fakeEmitter) summary(t *testing.T) []string {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	var s []string
	for _, o := range f.outs {
		switch o.Topic {
		case "reads":
		case "runs":
			run, err := stream.DecodeRun(o.Value)
			if err != nil {
				t.Fatal(err)
			}
			s = append(s, fmt.Sprintf("%s ended: %v", run.GetId(), run.GetEndStatus()))
			continue
		default:
			s = append(s, o.Topic)
			continue
		}
		m, err := stream.DecodeReads(o.Value)
		if err != nil {
			t.Fatal(err)
		}
		switch body := m.Body.(type) {
		case *streampb.ReadRecord_RunStart:
			s = append(s, fmt.Sprintf("start %s %d/%d to %d", body.RunStart.GetRun().GetId(), body.RunStart.GetSource(), body.RunStart.GetSources(), o.Partition))
		case *streampb.ReadRecord_RunEnd:
			s = append(s, fmt.Sprintf("end %s %d/%d to %d", body.RunEnd.GetRun().GetId(), body.RunEnd.GetSource(), body.RunEnd.GetSources(), o.Partition))
		case *streampb.ReadRecord_Partial:
			s = append(s, fmt.Sprintf("partial %s/%d at %d", body.Partial.GetReadId(), body.Partial.GetPart(), body.Partial.GetStart()))
		default:
			seg := m.GetSegment()
			s = append(s, fmt.Sprintf("%s/%d at %d", seg.GetReadId(), seg.GetPart(), seg.GetStart()))
		}
	}
	return s
}

func (f *fakeEmitter) offsets() []int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(slices.Values(f.resolved))
}

func testConfig() Config {
	return Config{
		Topics: stream.NewTopics(""), ReadsPartitions: 2, Caller: fakeCaller{}, InFlight: true, SampleRates: []int{4000},
		Aligners: []alignstage.Aligner{fakeAligner{reference}, fakeAligner{reference}, fakeAligner{reference}},
		Contig:   func(string) []byte { return reference },
	}
}

func newHandler(t testing.TB, cfg Config) stream.Handler {
	t.Helper()
	h, err := New(cfg)("signal", 1, 4)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func testRun(id string) *streampb.Run {
	return &streampb.Run{Id: id, Sample: "lambda", SampleRate: 4000}
}

// partition builds the records of a signal partition.
type partition struct {
	t    testing.TB
	recs []stream.Record
}

func (p *partition) add(m *streampb.SignalRecord) *partition {
	p.t.Helper()
	value, err := stream.EncodeSignal(m)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.raw(value)
}

func (p *partition) raw(value []byte) *partition {
	n := int64(len(p.recs))
	p.recs = append(p.recs, stream.Record{
		Topic: "signal", Partition: 1, Offset: 100 + n, Time: time.UnixMilli(1_700_000_000_000 + n), Key: []byte("key"), Value: value,
	})
	return p
}

func (p *partition) start(run string) *partition {
	return p.add(&streampb.SignalRecord{Body: &streampb.SignalRecord_RunStart{RunStart: &streampb.Marker{Run: testRun(run), Sources: 1}}})
}

func (p *partition) end(run string) *partition {
	return p.add(&streampb.SignalRecord{Body: &streampb.SignalRecord_RunEnd{RunEnd: &streampb.Marker{Run: testRun(run), Sources: 1}}})
}

func (p *partition) chunk(c *streampb.SignalChunk) *partition {
	return p.add(&streampb.SignalRecord{Body: &streampb.SignalRecord_Chunk{Chunk: c}})
}

// read adds the chunks of a read of bases [from, to) of the reference.
func (p *partition) read(channel uint32, id string, from, to int) *partition {
	for _, c := range chunksOf(channel, id, from, to) {
		p.chunk(c)
	}
	return p
}

const testChunk = 400 // samples

// ended is what the runs topic receives behind a run's end: run-1 is on partition 1.
const ended = "run-1 ended: END_STATUS_NORMAL"

func chunksOf(channel uint32, id string, from, to int) []*streampb.SignalChunk {
	samples := currentOf(reference[from:to])
	var chunks []*streampb.SignalChunk
	for first := 0; first < len(samples); first += testChunk {
		part := samples[first:min(first+testChunk, len(samples))]
		c := chunkOf(channel, id, uint64(from), uint64(first), 0, first+len(part) == len(samples))
		c.SampleCount, c.Vbz = uint32(len(part)), vbzOf(part)
		chunks = append(chunks, c)
	}
	return chunks
}

func handleAll(t *testing.T, h stream.Handler, recs []stream.Record, emit stream.Emitter) {
	t.Helper()
	for _, rec := range recs {
		if err := h.Handle(t.Context(), rec, emit); err != nil {
			t.Fatalf("offset %d: %v", rec.Offset, err)
		}
	}
}

func allOffsets(recs []stream.Record) []int64 {
	var o []int64
	for _, rec := range recs {
		o = append(o, rec.Offset)
	}
	return o
}

func TestRunThroughTheStage(t *testing.T) {
	p := &partition{t: t}
	p.start("run-1").read(1, "a", 100, 250).read(2, "b", 5000, 5100).read(3, "short", 0, 10).end("run-1")
	reg := prometheus.NewRegistry()
	cfg := testConfig()
	deadLetters := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dead_total", Help: "x"}, []string{"stage", "code"})
	cfg.Metrics = NewMetrics(reg, deadLetters)
	h := newHandler(t, cfg)
	emit := new(fakeEmitter)
	handleAll(t, h, p.recs, emit)
	if err := h.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}

	got := emit.summary(t)
	if len(got) != 7 {
		t.Fatalf("emitted %q", got)
	}
	slices.Sort(got[2:4]) // reads are done when they are done
	want := []string{"start run-1 1/4 to 0", "start run-1 1/4 to 1", "a/0 at 100", "b/0 at 5000", "end run-1 1/4 to 0", "end run-1 1/4 to 1", ended}
	if !slices.Equal(got, want) {
		t.Errorf("emitted %q, want %q", got, want)
	}
	if got, want := emit.offsets(), allOffsets(p.recs); !slices.Equal(got, want) {
		t.Errorf("resolved %v, want each of %v once", got, want)
	}

	for _, o := range emit.outs[:len(emit.outs)-1] {
		m, err := stream.DecodeReads(o.Value)
		if err != nil {
			t.Fatal(err)
		}
		s := m.GetSegment()
		if s.GetReadId() != "a" {
			continue
		}
		last := p.recs[4] // start, four chunks of a
		if s.GetRun() != "run-1" || s.GetSample() != "lambda" || s.GetReadLength() != 150 || s.GetMappingQuality() != 60 ||
			s.GetLastChunkMs() != last.Time.UnixMilli() || len(s.GetQualities()) != 150 || len(s.GetDwells()) != 150 || s.GetDwells()[0] != 2 {
			t.Errorf("segment %v", s)
		}
		if string(o.Key) != "lambda/chr1/0" || o.Partition != stream.AnyPartition {
			t.Errorf("segment goes to key %s, partition %d", o.Key, o.Partition)
		}
		if got := align.Query(s, reference); !bytes.Equal(got, reference[100:250]) {
			t.Errorf("segment spells %s", got)
		}
	}

	for name, want := range map[string]float64{
		"porestream_basecall_chunks_total":           float64(len(p.recs) - 2),
		"porestream_basecall_chunk_samples_total":    2600,
		"porestream_basecall_duplicate_chunks_total": 0,
		"porestream_basecall_gaps_total":             0,
		"porestream_basecall_lost_ends_total":        0,
		"porestream_basecall_read_parts_total":       3,
	} {
		if got := sum(t, reg, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v %v", problems, err)
	}
}

// sum adds up a metric over its labels.
func sum(t *testing.T, reg prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			total += m.GetCounter().GetValue()
		}
		return total
	}
	t.Errorf("no metric %s", name)
	return 0
}

// TestEndWaitsForReads holds one read back: the end of the run stays behind it.
func TestEndWaitsForReads(t *testing.T) {
	p := &partition{t: t}
	p.start("run-1").read(1, "slow", 100, 250).read(2, "quick", 5000, 5100).end("run-1")
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		cfg := testConfig()
		cfg.Caller = fakeCaller{before: func(_ context.Context, read basecall.Read) error {
			if read.ID == "slow" {
				<-release
			}
			return nil
		}}
		h := newHandler(t, cfg)
		emit := new(fakeEmitter)
		done := make(chan error)
		go func() {
			for _, rec := range p.recs {
				if err := h.Handle(t.Context(), rec, emit); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		synctest.Wait()
		if got, want := emit.summary(t), []string{"start run-1 1/4 to 0", "start run-1 1/4 to 1", "quick/0 at 5000"}; !slices.Equal(got, want) {
			t.Errorf("with a read in the works %q is out, want %q", got, want)
		}
		close(release)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		want := []string{"start run-1 1/4 to 0", "start run-1 1/4 to 1", "quick/0 at 5000", "slow/0 at 100", "end run-1 1/4 to 0", "end run-1 1/4 to 1", ended}
		if got := emit.summary(t); !slices.Equal(got, want) {
			t.Errorf("emitted %q, want %q", got, want)
		}
	})
}

// TestPiecesOfACutRead: every chunk is resolved when it is handled, but for those
// that cut the read or end it: each waits for its own piece.
func TestPiecesOfACutRead(t *testing.T) {
	p := &partition{t: t}
	p.start("run-1").read(1, "long", 100, 250)
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		cfg := testConfig()
		cfg.MaxReadSamples = 2 * testChunk
		cfg.Caller = fakeCaller{before: func(_ context.Context, read basecall.Read) error {
			if len(read.Samples) > 2*testChunk {
				<-release
			}
			return nil
		}}
		h := newHandler(t, cfg)
		emit := new(fakeEmitter)
		handleAll(t, h, p.recs, emit)
		synctest.Wait()
		cut := p.recs[3].Offset
		if got, want := emit.offsets(), without(allOffsets(p.recs), cut); !slices.Equal(got, want) {
			t.Errorf("resolved %v before the first piece is out, want %v", got, want)
		}
		close(release)
		if err := h.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := emit.summary(t)[2:], []string{"long/1 at 220", "long/0 at 100"}; !slices.Equal(got, want) {
			t.Errorf("emitted %q, want %q", got, want)
		}
		if got, want := emit.offsets(), allOffsets(p.recs); !slices.Equal(got, want) {
			t.Errorf("resolved %v, want %v", got, want)
		}
	})
}

func without(list []int64, drop ...int64) []int64 {
	return slices.DeleteFunc(list, func(o int64) bool { return slices.Contains(drop, o) })
}

// TestSeveralReadsOfOneRecord: what one record finishes is one emission, in
// order, whichever is done first.
func TestSeveralReadsOfOneRecord(t *testing.T) {
	p := &partition{t: t}
	p.start("run-1")
	first, second := chunksOf(1, "b", 5000, 5100), chunksOf(1, "a", 4000, 4100) // a began earlier and is sent later
	for _, c := range slices.Concat(first[:len(first)-1], second[:len(second)-1]) {
		p.chunk(c)
	}
	p.read(1, "c", 6000, 6030)
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		cfg := testConfig()
		cfg.Caller = fakeCaller{before: func(_ context.Context, read basecall.Read) error {
			if read.ID == "a" {
				<-release
			}
			return nil
		}}
		h := newHandler(t, cfg)
		emit := new(fakeEmitter)
		handleAll(t, h, p.recs, emit)
		synctest.Wait()
		last := p.recs[len(p.recs)-1].Offset
		if got, want := emit.offsets(), without(allOffsets(p.recs), last); !slices.Equal(got, want) || len(emit.outs) != 2 {
			t.Errorf("resolved %v and emitted %q with a read in the works", got, emit.summary(t))
		}
		close(release)
		if err := h.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := emit.summary(t)[2:], []string{"a/0 at 4000", "b/0 at 5000", "c/0 at 6000"}; !slices.Equal(got, want) {
			t.Errorf("emitted %q, want %q", got, want)
		}
		if got, want := emit.offsets(), allOffsets(p.recs); !slices.Equal(got, want) {
			t.Errorf("resolved %v, want %v", got, want)
		}
	})
}

func TestFailingCaller(t *testing.T) {
	p := &partition{t: t}
	p.start("run-1").read(1, "bad", 100, 250).end("run-1")
	cfg := testConfig()
	broken := errors.New("device lost")
	cfg.Caller = fakeCaller{before: func(context.Context, basecall.Read) error { return broken }}
	h := newHandler(t, cfg)
	emit := new(fakeEmitter)
	last := len(p.recs) - 1
	handleAll(t, h, p.recs[:last], emit)
	if err := h.Handle(t.Context(), p.recs[last], emit); err == nil {
		t.Error("the run's end was handled behind a read that failed")
	}
	_ = h.Drain(t.Context())
	if !errors.Is(emit.failed, broken) || !strings.Contains(emit.failed.Error(), "basecalling read bad of run run-1") {
		t.Errorf("the worker was told %v", emit.failed)
	}
	if got := emit.summary(t); len(got) != 2 {
		t.Errorf("emitted %q: nothing may follow a read that failed", got)
	}
	if got, want := emit.offsets(), allOffsets(p.recs[:last-1]); !slices.Equal(got, want) {
		t.Errorf("resolved %v, want %v: neither the read's last chunk nor the end", got, want)
	}
}

func TestFailingEmit(t *testing.T) {
	p := &partition{t: t}
	p.start("run-1").read(1, "a", 100, 250).end("run-1")
	lost := errors.New("partition lost")
	emit := &fakeEmitter{reject: func(outs []stream.Out, _ []int64) error {
		if len(outs) == 1 {
			return lost
		}
		return nil
	}}
	h := newHandler(t, testConfig())
	last := len(p.recs) - 1
	handleAll(t, h, p.recs[:last], emit)
	if err := h.Handle(t.Context(), p.recs[last], emit); err == nil {
		t.Error("the run's end was handled behind a read that is lost")
	}
	if !errors.Is(emit.failed, lost) {
		t.Errorf("the worker was told %v", emit.failed)
	}
}

func TestDeadLetters(t *testing.T) {
	p := &partition{t: t}
	p.start("run-1")
	p.raw([]byte("not ours"))
	damaged := chunksOf(1, "a", 100, 250)[0]
	damaged.Vbz = []byte("nonsense")
	p.chunk(damaged)
	stranger := chunksOf(1, "b", 100, 250)[0]
	stranger.Run = "run-2"
	p.chunk(stranger)
	otherSources := &streampb.Marker{Run: testRun("run-1"), Sources: 2}
	p.add(&streampb.SignalRecord{Body: &streampb.SignalRecord_RunStart{RunStart: otherSources}})
	p.add(&streampb.SignalRecord{Body: &streampb.SignalRecord_RunEnd{RunEnd: otherSources}})

	reg := prometheus.NewRegistry()
	cfg := testConfig()
	deadLetters := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dead_total", Help: "x"}, []string{"stage", "code"})
	cfg.Metrics = NewMetrics(reg, deadLetters)
	h := newHandler(t, cfg)
	emit := new(fakeEmitter)
	handleAll(t, h, p.recs, emit)
	if err := h.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantCodes := []string{stream.CodeForeign, stream.CodePayload, stream.CodeInvalid, stream.CodeInvalid, stream.CodeInvalid}
	letters := emit.outs[2:] // behind the start markers
	if len(letters) != len(wantCodes) {
		t.Fatalf("%d dead letters, want %d: %q", len(letters), len(wantCodes), emit.summary(t))
	}
	for i, o := range letters {
		rec := p.recs[i+1]
		headers := make(map[string]string)
		for _, h := range o.Headers {
			headers[h.Key] = string(h.Value)
		}
		want := map[string]string{
			stream.HeaderStage: Name, stream.HeaderCode: wantCodes[i], stream.HeaderReason: headers[stream.HeaderReason],
			stream.HeaderTopic: "signal", stream.HeaderPartition: "1", stream.HeaderOffset: fmt.Sprint(rec.Offset),
		}
		if o.Topic != "dlq" || !bytes.Equal(o.Value, rec.Value) || !bytes.Equal(o.Key, rec.Key) || !maps.Equal(headers, want) || want[stream.HeaderReason] == "" {
			t.Errorf("dead letter %d: topic %s, headers %v, want %v", i, o.Topic, headers, want)
		}
	}
	if got, want := emit.offsets(), allOffsets(p.recs); !slices.Equal(got, want) {
		t.Errorf("resolved %v, want %v", got, want)
	}
	if got := testutil.ToFloat64(deadLetters.WithLabelValues(Name, stream.CodeInvalid)); got != 3 {
		t.Errorf("%v invalid records are counted, want 3", got)
	}
}

// TestReplay: what lies before the committed offset is neither emitted nor
// counted nor called again, and what failed there left no trace.
func TestReplay(t *testing.T) {
	p := &partition{t: t}
	chunks := chunksOf(1, "b", 3000, 3150)
	damaged := chunksOf(1, "b", 3000, 3150)[0]
	damaged.Vbz = []byte("nonsense")
	p.start("run-1").read(1, "a", 100, 250).chunk(damaged).raw([]byte("not ours"))
	committed := len(p.recs)
	p.chunk(chunksOf(1, "a", 100, 250)[3]) // the end of a again
	for _, c := range chunks[1:] {
		p.chunk(c)
	}
	p.end("run-1")

	reg := prometheus.NewRegistry()
	cfg := testConfig()
	cfg.Metrics = NewMetrics(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dead_total", Help: "x"}, []string{"stage", "code"}))
	cfg.Caller = fakeCaller{before: func(_ context.Context, read basecall.Read) error {
		if read.ID == "a" {
			return errors.New("called again")
		}
		return nil
	}}
	h := newHandler(t, cfg)
	for _, rec := range p.recs[:committed] {
		if err := h.Replay(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
	}
	if got := sum(t, reg, "porestream_basecall_chunks_total"); got != 0 {
		t.Errorf("%v chunks are counted while replaying", got)
	}
	emit := new(fakeEmitter)
	handleAll(t, h, p.recs[committed:], emit)
	if err := h.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if emit.failed != nil {
		t.Error(emit.failed)
	}
	want := []string{"b/0 at 3040", "end run-1 1/4 to 0", "end run-1 1/4 to 1", ended}
	if got := emit.summary(t); !slices.Equal(got, want) {
		t.Errorf("emitted %q, want %q", got, want)
	}
	if got := sum(t, reg, "porestream_basecall_duplicate_chunks_total"); got != 1 {
		t.Errorf("%v duplicates, want 1", got)
	}
}

// TestEndOfSeveralSources: a run is over when all who send it say so.
func TestEndOfSeveralSources(t *testing.T) {
	marker := func(source uint32, end bool) *streampb.SignalRecord {
		mk := &streampb.Marker{Run: testRun("run-1"), Source: source, Sources: 2}
		if end {
			return &streampb.SignalRecord{Body: &streampb.SignalRecord_RunEnd{RunEnd: mk}}
		}
		return &streampb.SignalRecord{Body: &streampb.SignalRecord_RunStart{RunStart: mk}}
	}
	p := &partition{t: t}
	chunks := chunksOf(1, "a", 100, 250)
	p.add(marker(0, false)).add(marker(1, false)).chunk(chunks[0]).add(marker(0, true))
	before := len(p.recs)
	p.chunk(chunks[1]).chunk(chunks[2]).add(marker(1, true))

	h := newHandler(t, testConfig())
	emit := new(fakeEmitter)
	handleAll(t, h, p.recs[:before], emit)
	if got := emit.summary(t); len(got) != 4 {
		t.Errorf("after one of two ends %q is out", got)
	}
	handleAll(t, h, p.recs[before:], emit)
	want := []string{"a/0 at 100", "end run-1 1/4 to 0", "end run-1 1/4 to 1", ended}
	if got := emit.summary(t)[4:]; !slices.Equal(got, want) {
		t.Errorf("emitted %q, want %q", got, want)
	}
	if got, want := emit.offsets(), allOffsets(p.recs); !slices.Equal(got, want) {
		t.Errorf("resolved %v, want %v", got, want)
	}
}

// TestRunSentAgain: a run that comes again after its end gives the same segments
// and ends again.
func TestRunSentAgain(t *testing.T) {
	once := &partition{t: t}
	once.start("run-1").read(1, "a", 100, 250).read(1, "b", 5000, 5100).end("run-1")
	p := &partition{t: t, recs: once.recs}
	p.start("run-1").read(1, "a", 100, 250).read(1, "b", 5000, 5100).end("run-1")
	h := newHandler(t, testConfig())
	emit := new(fakeEmitter)
	handleAll(t, h, p.recs, emit)
	got := emit.summary(t)
	if len(got) != 14 {
		t.Fatalf("emitted %q", got)
	}
	first, second := slices.Sorted(slices.Values(got[:7])), slices.Sorted(slices.Values(got[7:]))
	if !slices.Equal(first, second) {
		t.Errorf("first %q, again %q", first, second)
	}
	if got, want := emit.offsets(), allOffsets(p.recs); !slices.Equal(got, want) {
		t.Errorf("resolved %v, want %v", got, want)
	}
}

func TestGapsBecomeParts(t *testing.T) {
	chunks := chunksOf(1, "a", 100, 300)
	p := &partition{t: t}
	p.start("run-1").chunk(chunks[0]).chunk(chunks[1]).chunk(chunks[3]).chunk(chunks[4])
	h := newHandler(t, testConfig())
	emit := new(fakeEmitter)
	handleAll(t, h, p.recs, emit)
	if err := h.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := emit.summary(t)[2:], []string{"a/0 at 100", "a/1 at 220"}; !slices.Equal(got, want) {
		t.Errorf("emitted %q, want %q", got, want)
	}
}

func TestDrainInTime(t *testing.T) {
	p := &partition{t: t}
	p.start("run-1").read(1, "slow", 100, 250)
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.Caller = fakeCaller{before: func(ctx context.Context, _ basecall.Read) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		h := newHandler(t, cfg)
		emit := new(fakeEmitter)
		handleAll(t, h, p.recs, emit)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := h.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("draining gives %v", err)
		}
		if err := h.Close(); err != nil {
			t.Errorf("closing gives %v", err)
		}
		if emit.failed != nil {
			t.Errorf("dropping reads on request is no failure: %v", emit.failed)
		}
		if got, want := emit.offsets(), allOffsets(p.recs[:len(p.recs)-1]); !slices.Equal(got, want) {
			t.Errorf("resolved %v, want all but the read's last chunk", got)
		}
	})
}

// TestBackPressure: with every aligner at work the next read waits, and the wait
// ends with the context.
func TestBackPressure(t *testing.T) {
	p := &partition{t: t}
	p.start("run-1").read(1, "a", 100, 130).read(2, "b", 200, 230)
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.Aligners = cfg.Aligners[:1]
		cfg.Caller = fakeCaller{before: func(ctx context.Context, _ basecall.Read) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		h := newHandler(t, cfg)
		emit := new(fakeEmitter)
		handleAll(t, h, p.recs[:2], emit)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := h.Handle(ctx, p.recs[2], emit); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without a free aligner: %v", err)
		}
		if err := h.Close(); err != nil {
			t.Errorf("closing gives %v", err)
		}
	})
}

// TestUltraLongRead: a segment that no record holds goes without what is least
// needed rather than stopping the stage.
func TestUltraLongRead(t *testing.T) {
	long := randomBases(900_000, 12)
	cfg := testConfig()
	reg := prometheus.NewRegistry()
	cfg.Metrics = NewMetrics(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dead_total", Help: "x"}, []string{"stage", "code"}))
	cfg.Contig = func(string) []byte { return long }
	cfg.Aligners = []alignstage.Aligner{fakeAligner{long}}
	for _, c := range []struct {
		bases             int
		qualities, dwells bool
	}{{400_000, true, true}, {600_000, true, false}, {900_000, true, false}} {
		cfg.Caller = callerFunc(func() basecall.Called {
			called := basecall.Called{Sequence: long[:c.bases], Qualities: make([]byte, c.bases), Moves: make([]byte, 2*c.bases)}
			for i := range c.bases {
				called.Moves[2*i] = 1
			}
			return called
		})
		p := &partition{t: t}
		p.start("run-1").read(1, "long", 100, 150)
		h := newHandler(t, cfg)
		emit := new(fakeEmitter)
		handleAll(t, h, p.recs, emit)
		if err := h.Drain(t.Context()); err != nil || emit.failed != nil {
			t.Fatalf("%d bases: %v, %v", c.bases, err, emit.failed)
		}
		m, err := stream.DecodeReads(emit.outs[2].Value)
		if err != nil {
			t.Fatal(err)
		}
		s := m.GetSegment()
		if (len(s.GetQualities()) > 0) != c.qualities || (len(s.GetDwells()) > 0) != c.dwells {
			t.Errorf("%d bases: %d qualities, %d dwells", c.bases, len(s.GetQualities()), len(s.GetDwells()))
		}
		if _, err := align.Check(s, len(long)); err != nil {
			t.Errorf("%d bases: %v", c.bases, err)
		}
	}
	if got := sum(t, reg, "porestream_basecall_stripped_segments_total"); got != 2 {
		t.Errorf("%v stripped segments are counted, want 2", got)
	}
}

type callerFunc func() basecall.Called

func (f callerFunc) Begin(read basecall.Read) (Stream, error) {
	return &collected{read: read, call: func(context.Context, basecall.Read) (basecall.Called, error) { return f(), nil }}, nil
}

// TestUnsupportedRun: reads at a sample rate that the model wasn't made for are
// counted, not called, and block nothing.
func TestUnsupportedRun(t *testing.T) {
	p := &partition{t: t}
	p.start("run-1").read(1, "a", 100, 250).end("run-1")
	reg := prometheus.NewRegistry()
	cfg := testConfig()
	cfg.SampleRates = []int{5000}
	cfg.Metrics = NewMetrics(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dead_total", Help: "x"}, []string{"stage", "code"}))
	cfg.Caller = fakeCaller{before: func(context.Context, basecall.Read) error { return errors.New("called") }}
	emit := new(fakeEmitter)
	handleAll(t, newHandler(t, cfg), p.recs, emit)
	if got := emit.summary(t); len(got) != 5 || !strings.HasPrefix(got[3], "end") || emit.failed != nil {
		t.Errorf("emitted %q, failed %v", got, emit.failed)
	}
	if got := testutil.ToFloat64(cfg.Metrics.Parts.WithLabelValues("unsupported")); got != 1 {
		t.Errorf("%v reads are counted as unsupported, want 1", got)
	}
}

func TestNoAligner(t *testing.T) {
	cfg := testConfig()
	cfg.Aligners = nil
	if _, err := New(cfg)("signal", 0, 1); err == nil {
		t.Error("a stage without an aligner was made")
	}
}
