package ingest

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/signal/vbz"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/stream/trace"
)

// Sender writes records durably; stream/kafka.Producer is one.
type Sender interface {
	Send(ctx context.Context, outs []stream.Out, onDurable func(error)) error
	Flush(ctx context.Context) error
}

// Recording is a set of recorded reads; signal.Index is one.
type Recording interface {
	Runs() []*signal.Run
	Len() int
	Entry(i int) signal.Read
	Samples(i int, buf []int16) ([]int16, error)
}

// Config says what becomes of a source's signal or reads. Pace, Filter and Lossy are of recordings alone.
type Config struct {
	Topics stream.Topics
	// Partitions is the number of partitions of the signal topic.
	Partitions int32
	// Pace is the speed relative to the recording's own clock; 0 is as fast as
	// the topic takes it.
	Pace float64
	// Chunk is the length of a chunk; zero means one second.
	Chunk time.Duration
	// Sample, if set, replaces the sample name of every run.
	Sample string
	// Controls, if set, names the negative controls of a run; a barcode may stand for the sample of it.
	Controls func(*streampb.Run) []*streampb.Control
	// Filter describes which reads of the files the recording holds, so that a run
	// goes on only with the same ones; empty means all.
	Filter string
	// Lossy is the share of the chunks that are lost on the way, drawn by read and chunk
	// number: as live readers lose some. A read's last chunk is never lost.
	Lossy   float64
	Metrics *Metrics     // nil: none
	Logger  *slog.Logger // nil: none
	// Tracer has the chunks of traced reads carry their place in a trace; nil: none.
	Tracer *trace.Tracer
}

// chunkSamples is the number of samples of a run's chunks.
func (c *Config) chunkSamples(run string, rate int) (int, error) {
	length := c.Chunk
	if length == 0 {
		length = time.Second
	}
	n := int(length.Seconds() * float64(rate))
	if n > stream.MaxChunkSamples || n < 0 {
		return 0, fmt.Errorf("run %s: chunks of %v at %d Hz hold %d samples, the limit is %d", run, length, rate, n, stream.MaxChunkSamples)
	}
	return max(1, n), nil
}

// Totals counts what a player has sent.
type Totals struct {
	Runs, Reads, Chunks, Samples int64
}

// Player plays one recording: it turns each of its runs into events, at the
// recording's pace.
type Player struct {
	cfg    Config
	rec    Recording
	to     sink
	codec  *vbz.Codec
	vbz    []byte
	tracks []*track
	open   map[int][]int16
	spare  [][]int16
	totals Totals
}

// sink takes a player's events.
type sink interface {
	// put takes an event of a track, in order within it; it may block.
	put(ctx context.Context, track int, e event) error
	// flush returns when everything taken is in Kafka.
	flush(ctx context.Context) error
}

// track is a run that is being played. Its events are a function of its own
// reads and the settings, whatever other runs the recording holds.
type track struct {
	run      *streampb.Run
	chunk    int   // samples
	reads    []int // indexes into the recording
	schedule *Schedule
	lost     func(ChunkPlan) bool // nil: none is
	plan     ChunkPlan            // the next one
	left     bool                 // plan is one
	progress progress
}

// NewPlayer checks the recording and prepares to play it to a sender. A run that
// breaks off there is played from its beginning the next time; see [Run] for
// one that goes on.
func NewPlayer(rec Recording, sender Sender, cfg Config) (*Player, error) {
	return newPlayer(rec, direct{sender, newSpans(cfg.Tracer)}, cfg)
}

func newPlayer(rec Recording, to sink, cfg Config) (*Player, error) {
	if cfg.Chunk == 0 {
		cfg.Chunk = time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if !(cfg.Pace >= 0) || cfg.Partitions < 1 || cfg.Chunk < 0 || !(cfg.Lossy >= 0 && cfg.Lossy < 1) {
		return nil, fmt.Errorf("playing a recording: pace %g, %d partitions, chunks of %v: none may be negative, and one partition is the least", cfg.Pace, cfg.Partitions, cfg.Chunk)
	}
	if rec.Len() == 0 {
		return nil, errors.New("playing a recording: it holds no reads")
	}
	p := &Player{cfg: cfg, rec: rec, to: to, codec: vbz.NewCodec(), open: make(map[int][]int16)}
	byRun := make(map[string]*track)
	for _, run := range rec.Runs() {
		n, err := cfg.chunkSamples(run.ID, run.SampleRate)
		if err != nil {
			return nil, fmt.Errorf("playing %w", err)
		}
		description := Describe(run, cfg.Sample)
		if cfg.Controls != nil {
			description.Controls = cfg.Controls(description)
		}
		if _, err := stream.EncodeRun(description); err != nil {
			return nil, fmt.Errorf("playing run %q: %w", run.ID, err)
		}
		t := &track{run: description, chunk: n}
		byRun[run.ID] = t
		p.tracks = append(p.tracks, t)
	}
	for i := range rec.Len() {
		t := byRun[rec.Entry(i).Run.ID]
		t.reads = append(t.reads, i)
	}
	for _, t := range p.tracks {
		if cfg.Lossy > 0 {
			t.lost = p.loses
		}
		t.rewind(rec, cfg.Chunk)
	}
	return p, nil
}

// loses reports whether a chunk is lost on the way.
func (p *Player) loses(plan ChunkPlan) bool {
	if plan.Last {
		return false
	}
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s/%d", p.rec.Entry(plan.Read).ID, plan.Number) // never fails
	return float64(seed(h.Sum64())>>11)/(1<<53) < p.cfg.Lossy
}

// seed spreads the bits of a hash (the finaliser of SplitMix64).
func seed(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Describe is the stream's description of a run. sample replaces the sample
// name that the recording carries; a run with neither is a sample of its own.
func Describe(run *signal.Run, sample string) *streampb.Run {
	for _, s := range []string{run.SampleID, run.ID} {
		if sample == "" {
			sample = s
		}
	}
	var start int64
	if !run.StartTime.IsZero() {
		start = run.StartTime.UnixMilli()
	}
	return &streampb.Run{
		Id: run.ID, Sample: sample, Experiment: run.ExperimentID,
		FlowCell: run.FlowCellID, FlowCellProduct: run.FlowCellProduct, Kit: run.Kit,
		Position: run.SequencerPosition, Device: run.Device,
		SampleRate: uint32(run.SampleRate), StartTimeMs: start,
	}
}

// Runs returns the descriptions of the recording's runs.
func (p *Player) Runs() []*streampb.Run {
	var runs []*streampb.Run
	for _, t := range p.tracks {
		runs = append(runs, t.run)
	}
	return runs
}

// rewind puts a track before its first event.
func (t *track) rewind(rec Recording, chunk time.Duration) {
	reads := make([]PlannedRead, len(t.reads))
	for i, at := range t.reads {
		e := rec.Entry(at)
		// A read without samples is one empty chunk, so that it too is accounted
		// for downstream.
		reads[i] = PlannedRead{Channel: e.Channel, Start: e.StartSample, Samples: e.NumSamples}
	}
	t.schedule = NewSchedule(reads, []int{int(t.run.GetSampleRate())}, chunk)
	t.progress = progress{}
	t.advance()
}

// advance reads the track's next chunk.
func (t *track) advance() {
	for {
		if t.plan, t.left = t.schedule.Next(); !t.left {
			return
		}
		t.plan.Read = t.reads[t.plan.Read]
		if t.lost == nil || !t.lost(t.plan) {
			return
		}
	}
}

// seek puts a track before the event with a number and returns what its progress
// is then. There may be fewer events; the track is behind its last one then.
func (p *Player) seek(t *track, number uint64) progress {
	t.rewind(p.rec, p.cfg.Chunk)
	for t.progress.next < number && !t.progress.ended {
		switch {
		case t.progress.next == 0:
			t.progress.add(p.beginning(t))
		case t.left:
			t.progress.add(p.identity(t))
			t.advance()
		default:
			t.progress.add(nil)
			t.progress.ended = true
		}
	}
	return t.progress
}

// beginning is the identity of a track's first event.
func (p *Player) beginning(t *track) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(t.chunk))
	b = binary.LittleEndian.AppendUint32(b, uint32(p.cfg.Partitions))
	return p.marshal(b, t.run)
}

// identity is the identity of a track's next chunk: that of its read for the
// first, nothing for others.
func (p *Player) identity(t *track) []byte {
	if t.plan.Number > 0 {
		return nil
	}
	e := p.rec.Entry(t.plan.Read)
	c := describeRead(t.run, &e)
	c.SampleCount, c.EndReason = uint32(e.NumSamples), e.EndReason.String()
	return p.marshal(nil, c)
}

func (p *Player) marshal(dst []byte, m proto.Message) []byte {
	// Names were checked for UTF-8 with the run, and those of reads are when a
	// chunk is encoded: there is no other way to fail.
	b, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(dst, m)
	if err != nil {
		return fmt.Append(dst, err)
	}
	return b
}

// Play sends the whole recording: run descriptions, start markers, chunks and,
// behind each run's last chunk, its end marker on every partition. It returns
// when all of it is durable, or with what was sent so far when ctx ends.
func (p *Player) Play(ctx context.Context) (Totals, error) {
	start := p.clock()
	for i, t := range p.tracks {
		if t.progress.next == 0 {
			if err := p.announce(ctx, i); err != nil {
				return p.totals, err
			}
		}
	}
	for i, t := range p.tracks {
		if !t.left && !t.progress.ended {
			if err := p.end(ctx, i); err != nil {
				return p.totals, err
			}
		}
	}
	for {
		i := p.earliest()
		if i < 0 {
			break
		}
		t := p.tracks[i]
		if err := p.wait(ctx, start, t.plan.Due); err != nil {
			return p.totals, err
		}
		if err := p.sendChunk(ctx, i); err != nil {
			return p.totals, err
		}
		if t.advance(); t.left {
			continue
		}
		if err := p.end(ctx, i); err != nil {
			return p.totals, err
		}
	}
	if err := p.to.flush(ctx); err != nil {
		return p.totals, fmt.Errorf("sending signal: %w", err)
	}
	return p.totals, nil
}

// earliest is the track whose next chunk is due first; -1 if none is left. A
// recording has few runs.
func (p *Player) earliest() int {
	best := -1
	for i, t := range p.tracks {
		if !t.left {
			continue
		}
		if best < 0 || cmp.Or(cmp.Compare(t.plan.Due, p.tracks[best].plan.Due), cmp.Compare(t.plan.Read, p.tracks[best].plan.Read)) < 0 {
			best = i
		}
	}
	return best
}

// clock returns the moment at which the recording's clock shows 0. A recording
// that goes on does so with what is due next.
func (p *Player) clock() time.Time {
	now := time.Now()
	next := p.earliest()
	if p.cfg.Pace == 0 || next < 0 {
		return now
	}
	for _, t := range p.tracks {
		if t.progress.next > 0 {
			return now.Add(-time.Duration(float64(p.tracks[next].plan.Due) / p.cfg.Pace))
		}
	}
	return now
}

// wait sleeps until a moment of the recording's clock has come.
func (p *Player) wait(ctx context.Context, start time.Time, due time.Duration) error {
	if p.cfg.Pace == 0 {
		return ctx.Err()
	}
	delay := time.Until(start.Add(time.Duration(float64(due) / p.cfg.Pace)))
	if delay <= 0 {
		p.cfg.Metrics.behind(-delay)
		return ctx.Err()
	}
	p.cfg.Metrics.behind(0)
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *Player) announce(ctx context.Context, i int) error {
	t := p.tracks[i]
	outs, err := announcement(p.cfg.Topics, t.run, p.cfg.Partitions)
	if err != nil {
		return err
	}
	t.progress.add(p.beginning(t))
	if err := p.send(ctx, i, event{outs: outs}); err != nil {
		return err
	}
	p.totals.Runs++
	p.cfg.Metrics.run()
	p.cfg.Logger.Info("run started", "run", t.run.GetId(), "sample", t.run.GetSample(), "sample_rate", t.run.GetSampleRate())
	return nil
}

func (p *Player) end(ctx context.Context, i int) error {
	t := p.tracks[i]
	outs, err := ending(p.cfg.Topics, t.run, p.cfg.Partitions)
	if err != nil {
		return err
	}
	t.progress.add(nil)
	t.progress.ended = true
	if err := p.send(ctx, i, event{outs: outs}); err != nil {
		return err
	}
	p.cfg.Metrics.endRun(t.run.GetId())
	p.cfg.Logger.Info("run ended", "run", t.run.GetId(), "reads", p.totals.Reads, "samples", p.totals.Samples)
	return nil
}

// announcement is a run's description and its start markers.
func announcement(topics stream.Topics, run *streampb.Run, partitions int32) ([]stream.Out, error) {
	value, err := stream.EncodeRun(run)
	if err != nil {
		return nil, err
	}
	outs := []stream.Out{{Topic: topics.Runs, Partition: stream.AnyPartition, Key: []byte(run.GetId()), Value: value}}
	markers, err := markers(topics, run, partitions, false)
	return append(outs, markers...), err
}

// ending is a run's end markers.
func ending(topics stream.Topics, run *streampb.Run, partitions int32) ([]stream.Out, error) {
	return markers(topics, run, partitions, true)
}

// markers are those of a run in all partitions of the topic that it is written to.
func markers(topics stream.Topics, run *streampb.Run, partitions int32, end bool) ([]stream.Out, error) {
	topic, encode := topics.Signal, stream.SignalMarker
	if run.GetCalled() {
		topic, encode = topics.Called, stream.CalledMarker
	}
	mk := marker(run)
	value, err := encode(mk, end)
	if err != nil {
		return nil, err
	}
	return stream.Broadcast(topic, partitions, mk, end, value), nil
}

// marker speaks for the ingest service, which is a run's only source.
func marker(run *streampb.Run) *streampb.Marker {
	return &streampb.Marker{Run: run, Source: 0, Sources: 1}
}

// send hands a track's next event on.
func (p *Player) send(ctx context.Context, i int, e event) error {
	now := time.Now()
	for k := range e.outs {
		e.outs[k].Time = now
	}
	e.after, e.at = p.tracks[i].progress, now
	if err := p.to.put(ctx, i, e); err != nil {
		return fmt.Errorf("sending signal: %w", err)
	}
	return nil
}

// describeRead is what every chunk of a read says of it.
func describeRead(run *streampb.Run, e *signal.Read) *streampb.SignalChunk {
	return &streampb.SignalChunk{
		Run: run.GetId(), Channel: e.Channel, ReadId: e.ID,
		ReadStart: e.StartSample, ReadNumber: e.Number, Well: uint32(e.Well),
		CalibrationOffset: e.Calibration.Offset, CalibrationScale: e.Calibration.Scale,
	}
}

func (p *Player) sendChunk(ctx context.Context, i int) error {
	t := p.tracks[i]
	plan := t.plan
	entry := p.rec.Entry(plan.Read)
	samples, err := p.samples(plan)
	if err != nil {
		return err
	}
	p.vbz = p.codec.Encode(p.vbz[:0], samples)
	chunk := describeRead(t.run, &entry)
	chunk.Number, chunk.FirstSample, chunk.SampleCount = uint32(plan.Number), uint64(plan.First), uint32(plan.Count)
	chunk.Vbz = p.vbz
	if chunk.EndOfRead = plan.Last; plan.Last {
		chunk.EndReason = entry.EndReason.String()
	}
	value, err := stream.EncodeSignal(&streampb.SignalRecord{Body: &streampb.SignalRecord_Chunk{Chunk: chunk}})
	if err != nil {
		return fmt.Errorf("read %s: %w", entry.ID, err)
	}
	t.progress.add(p.identity(t))
	outs := []stream.Out{{
		Topic: p.cfg.Topics.Signal, Partition: stream.AnyPartition,
		Key: stream.SignalKey(t.run.GetId(), entry.Channel), Value: value,
	}}
	if err := p.send(ctx, i, event{samples: plan.Count, traced: traced(p.cfg.Tracer, chunk, &outs[0]), outs: outs}); err != nil {
		return err
	}
	p.totals.Chunks++
	p.totals.Samples += int64(plan.Count)
	if plan.Last {
		p.totals.Reads++
	}
	p.cfg.Metrics.chunk(chunk)
	return nil
}

// samples returns a chunk's samples. A read's are fetched with its first chunk
// and dropped with its last, so no more reads are held than channels.
func (p *Player) samples(plan ChunkPlan) ([]int16, error) {
	all, ok := p.open[plan.Read]
	if !ok {
		var buf []int16
		if n := len(p.spare); n > 0 {
			buf, p.spare = p.spare[n-1][:0], p.spare[:n-1]
		}
		var err error
		if all, err = p.rec.Samples(plan.Read, buf); err != nil {
			return nil, err
		}
		p.open[plan.Read] = all
	}
	if len(all) < plan.First+plan.Count {
		e := p.rec.Entry(plan.Read)
		return nil, fmt.Errorf("read %s: %d samples where %d are announced", e.ID, len(all), e.NumSamples)
	}
	if plan.Last {
		delete(p.open, plan.Read)
		p.spare = append(p.spare, all)
	}
	return all[plan.First : plan.First+plan.Count], nil
}

// direct sends events as they come.
type direct struct {
	Sender
	spans *spans
}

func (d direct) put(ctx context.Context, _ int, e event) error {
	// A record that fails for good is reported by flush at the latest.
	var onDurable func(error)
	if e.traced != nil {
		sent := []sentChunk{{e.traced, e.at, e.samples}}
		onDurable = func(err error) {
			if err == nil {
				d.spans.sent(sent)
			}
		}
	}
	return d.Send(ctx, e.outs, onDurable)
}

func (d direct) flush(ctx context.Context) error { return d.Flush(ctx) }
