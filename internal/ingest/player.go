package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/signal/vbz"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
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

// Config says how a recording is played.
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
	Sample  string
	Metrics *Metrics     // nil: none
	Logger  *slog.Logger // nil: none
}

// Totals counts what a player has sent.
type Totals struct {
	Runs, Reads, Chunks, Samples int64
}

// Player sends one recording.
type Player struct {
	cfg    Config
	rec    Recording
	sender Sender
	codec  *vbz.Codec
	runs   []*streampb.Run
	index  map[string]int // run id to index
	open   map[int][]int16
	spare  [][]int16
	totals Totals
}

// NewPlayer checks the recording and prepares to play it.
func NewPlayer(rec Recording, sender Sender, cfg Config) (*Player, error) {
	if cfg.Chunk == 0 {
		cfg.Chunk = time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if !(cfg.Pace >= 0) || cfg.Partitions < 1 || cfg.Chunk < 0 {
		return nil, fmt.Errorf("playing a recording: pace %g, %d partitions, chunks of %v: none may be negative, and one partition is the least", cfg.Pace, cfg.Partitions, cfg.Chunk)
	}
	if rec.Len() == 0 {
		return nil, errors.New("playing a recording: it holds no reads")
	}
	p := &Player{cfg: cfg, rec: rec, sender: sender, codec: vbz.NewCodec(), index: make(map[string]int), open: make(map[int][]int16)}
	for _, run := range rec.Runs() {
		if n := int(cfg.Chunk.Seconds() * float64(run.SampleRate)); n > stream.MaxChunkSamples {
			return nil, fmt.Errorf("playing run %s: chunks of %v at %d Hz hold %d samples, the limit is %d", run.ID, cfg.Chunk, run.SampleRate, n, stream.MaxChunkSamples)
		}
		description := Describe(run, cfg.Sample)
		if _, err := stream.EncodeRun(description); err != nil {
			return nil, fmt.Errorf("playing run %q: %w", run.ID, err)
		}
		p.index[run.ID] = len(p.runs)
		p.runs = append(p.runs, description)
	}
	return p, nil
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
func (p *Player) Runs() []*streampb.Run { return p.runs }

// Play sends the whole recording: run descriptions, start markers, chunks and,
// behind each run's last chunk, its end marker on every partition. It returns
// when all of it is durable, or with what was sent so far when ctx ends.
func (p *Player) Play(ctx context.Context) (Totals, error) {
	for _, run := range p.runs {
		if err := p.announce(ctx, run); err != nil {
			return p.totals, err
		}
	}
	reads, left := p.plan()
	rates := make([]int, len(p.runs))
	for i, run := range p.runs {
		rates[i] = int(run.GetSampleRate())
	}
	schedule := NewSchedule(reads, rates, p.cfg.Chunk)
	start := time.Now()
	for run, n := range left {
		if n == 0 {
			if err := p.end(ctx, p.runs[run]); err != nil {
				return p.totals, err
			}
		}
	}
	for {
		plan, ok := schedule.Next()
		if !ok {
			break
		}
		if err := p.wait(ctx, start, plan.Due); err != nil {
			return p.totals, err
		}
		if err := p.sendChunk(ctx, plan); err != nil {
			return p.totals, err
		}
		if !plan.Last {
			continue
		}
		run := reads[plan.Read].Run
		if left[run]--; left[run] == 0 {
			if err := p.end(ctx, p.runs[run]); err != nil {
				return p.totals, err
			}
		}
	}
	if err := p.sender.Flush(ctx); err != nil {
		return p.totals, fmt.Errorf("sending signal: %w", err)
	}
	return p.totals, nil
}

// plan lists the reads for the schedule and counts them by run. A read without
// samples is one empty chunk, so that it too is accounted for downstream.
func (p *Player) plan() (reads []PlannedRead, left []int) {
	left = make([]int, len(p.runs))
	reads = make([]PlannedRead, p.rec.Len())
	for i := range reads {
		e := p.rec.Entry(i)
		run := p.index[e.Run.ID]
		reads[i] = PlannedRead{Run: run, Channel: e.Channel, Start: e.StartSample, Samples: e.NumSamples}
		left[run]++
	}
	return reads, left
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

func (p *Player) announce(ctx context.Context, run *streampb.Run) error {
	value, err := stream.EncodeRun(run)
	if err != nil {
		return err
	}
	outs := []stream.Out{{Topic: p.cfg.Topics.Runs, Partition: stream.AnyPartition, Key: []byte(run.GetId()), Value: value}}
	mk := marker(run)
	if value, err = stream.SignalMarker(mk, false); err != nil {
		return err
	}
	outs = append(outs, stream.Broadcast(p.cfg.Topics.Signal, p.cfg.Partitions, mk, false, value)...)
	if err := p.send(ctx, outs); err != nil {
		return err
	}
	p.totals.Runs++
	p.cfg.Metrics.run()
	p.cfg.Logger.Info("run started", "run", run.GetId(), "sample", run.GetSample(), "sample_rate", run.GetSampleRate())
	return nil
}

func (p *Player) end(ctx context.Context, run *streampb.Run) error {
	mk := marker(run)
	value, err := stream.SignalMarker(mk, true)
	if err != nil {
		return err
	}
	if err := p.send(ctx, stream.Broadcast(p.cfg.Topics.Signal, p.cfg.Partitions, mk, true, value)); err != nil {
		return err
	}
	p.cfg.Logger.Info("run ended", "run", run.GetId(), "reads", p.totals.Reads, "samples", p.totals.Samples)
	return nil
}

// marker speaks for the ingest service, which is a run's only source of signal.
func marker(run *streampb.Run) *streampb.Marker {
	return &streampb.Marker{Run: run, Source: 0, Sources: 1}
}

func (p *Player) send(ctx context.Context, outs []stream.Out) error {
	// A record that fails for good is reported by Flush at the latest.
	if err := p.sender.Send(ctx, outs, nil); err != nil {
		return fmt.Errorf("sending signal: %w", err)
	}
	return nil
}

func (p *Player) sendChunk(ctx context.Context, plan ChunkPlan) error {
	entry := p.rec.Entry(plan.Read)
	samples, err := p.samples(plan)
	if err != nil {
		return err
	}
	run := p.runs[p.index[entry.Run.ID]]
	chunk := &streampb.SignalChunk{
		Run: run.GetId(), Channel: entry.Channel, ReadId: entry.ID, Number: uint32(plan.Number),
		FirstSample: uint64(plan.First), SampleCount: uint32(plan.Count),
		Vbz:       p.codec.Encode(nil, samples),
		EndOfRead: plan.Last,
		ReadStart: entry.StartSample, ReadNumber: entry.Number, Well: uint32(entry.Well),
		CalibrationOffset: entry.Calibration.Offset, CalibrationScale: entry.Calibration.Scale,
	}
	if plan.Last {
		chunk.EndReason = entry.EndReason.String()
	}
	value, err := stream.EncodeSignal(&streampb.SignalRecord{Body: &streampb.SignalRecord_Chunk{Chunk: chunk}})
	if err != nil {
		return fmt.Errorf("read %s: %w", entry.ID, err)
	}
	if err := p.send(ctx, []stream.Out{{
		Topic: p.cfg.Topics.Signal, Partition: stream.AnyPartition,
		Key: stream.SignalKey(run.GetId(), entry.Channel), Value: value,
	}}); err != nil {
		return err
	}
	p.totals.Chunks++
	p.totals.Samples += int64(plan.Count)
	if plan.Last {
		p.totals.Reads++
	}
	p.cfg.Metrics.chunk(plan.Count, plan.Last)
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
