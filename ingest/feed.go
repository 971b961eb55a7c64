package ingest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/signal/vbz"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// Position is a place in a run whose reads are sent whole, one after the other:
// how many of its events there have been, and which. The zero Position is before
// the run's beginning. Positions can be compared with ==.
type Position struct{ p progress }

// Next is the number of the run's events up to there: its beginning, its chunks
// and its end.
func (p Position) Next() uint64 { return p.p.next }

// Ended reports whether the run's end is among them.
func (p Position) Ended() bool { return p.p.ended }

// Begin goes over the run's beginning.
func (p *Position) Begin(run *streampb.Run, chunkSamples int, partitions int32) error {
	b := binary.LittleEndian.AppendUint32(nil, uint32(chunkSamples))
	b = binary.LittleEndian.AppendUint32(b, uint32(partitions))
	b, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(b, run)
	if err != nil {
		return fmt.Errorf("run %q: %w", run.GetId(), err)
	}
	p.p.add(b)
	return nil
}

// Chunk goes over a chunk of a read. Chunks but the first follow from it.
func (p *Position) Chunk(readID string, number int) {
	if number > 0 {
		p.p.add(nil)
		return
	}
	p.p.add([]byte(readID))
}

// End goes over the run's end.
func (p *Position) End() {
	p.p.add(nil)
	p.p.ended = true
}

// CheckRead refuses a read that can't be sent, so that its source finds out before
// it counts on it.
func CheckRead(run *streampb.Run, rd *signal.Read) error {
	c := describeRead(run, rd)
	c.EndOfRead, c.EndReason, c.Vbz = true, rd.EndReason.String(), vbz.NewCodec().Encode(nil, nil)
	if _, err := stream.EncodeSignal(&streampb.SignalRecord{Body: &streampb.SignalRecord_Chunk{Chunk: c}}); err != nil {
		return fmt.Errorf("read %s: %w", rd.ID, err)
	}
	return nil
}

// Feed writes a run from a source that can wait and whose reads have no order of
// their own, such as a folder of files that grow. Reads are sent whole, one after
// the other; the source remembers in which order, as [Feed.Position] only counts.
// What the source puts waits in memory until it is in Kafka; there is no spool, as
// it waits in the source just as well.
//
// A Feed belongs to one goroutine.
type Feed struct {
	queue *queue
	cfg   *Config
	run   *streampb.Run
	chunk int
	at    Position
	codec *vbz.Codec
	vbz   []byte
}

// RunFeed writes a run to Kafka while feed hands its reads to a [Feed]. It
// returns when feed has ended the run and all of it is in Kafka, or with an
// error; feed must not return nil before it has ended the run. After an error,
// RunFeed is called again to go on behind what is in Kafka. Of a run that has
// ended before, feed sees just that.
func RunFeed(ctx context.Context, run *streampb.Run, cfg ServiceConfig, feed func(context.Context, *Feed) error) error {
	if cfg.SpoolDir != "" {
		return errors.New("a source that can wait has no spool")
	}
	s, err := newService(cfg)
	if err != nil {
		return err
	}
	defer s.close(ctx)
	chunk := 1 // a called read is one event
	if !run.GetCalled() {
		if chunk, err = s.cfg.chunkSamples(run.GetId(), int(run.GetSampleRate())); err != nil {
			return err
		}
	}
	if _, err := stream.EncodeRun(run); err != nil {
		return fmt.Errorf("run %q: %w", run.GetId(), err)
	}
	sess := s.session(run, chunk)
	w, found, err := sess.claim(ctx, cfg.Restart)
	if err != nil {
		return fmt.Errorf("run %s: %w", run.GetId(), err)
	}
	s.sessions, s.writers = []*session{sess}, []Writer{w}
	f := &Feed{cfg: &s.cfg.Config, run: run, chunk: chunk, at: Position{sess.written}, codec: vbz.NewCodec()}
	if f.at.Next() > 0 {
		if err := f.fits(found); err != nil {
			return fmt.Errorf("run %s: %w", run.GetId(), err)
		}
	}
	if f.at.Ended() {
		return feed(ctx, f)
	}
	if f.at.Next() > 0 {
		cfg.Metrics.resume()
	}
	if err := s.makeQueues(); err != nil {
		return err
	}
	f.queue = sess.queue
	return s.run(ctx, func(ctx context.Context) error {
		if err := f.begin(ctx); err != nil {
			return err
		}
		if err := feed(ctx, f); err != nil {
			return err
		}
		if !f.at.Ended() {
			return fmt.Errorf("run %s: its source has stopped before its end", run.GetId())
		}
		return nil
	})
}

// fits refuses settings other than those that the run was begun with.
func (f *Feed) fits(was *streampb.Cursor) error {
	if was.GetCalled() == f.run.GetCalled() && was.GetChunkSamples() == uint32(f.chunk) && was.GetSample() == f.run.GetSample() && was.GetPartitions() == uint32(f.cfg.Partitions) {
		return nil
	}
	return mismatch(&track{run: f.run, chunk: f.chunk}, was, f.cfg.Partitions, f.at.p)
}

// Position is where the run is: behind what was put, or, at first, behind what is
// in Kafka.
func (f *Feed) Position() Position { return f.at }

// ChunkSamples is the number of samples of a chunk.
func (f *Feed) ChunkSamples() int { return f.chunk }

// Partitions is the number of partitions of the topic that the run is written to.
func (f *Feed) Partitions() int32 { return f.cfg.Partitions }

// Committed is the number of the run's events that are in Kafka.
func (f *Feed) Committed() uint64 {
	if f.queue == nil {
		return f.at.Next()
	}
	return f.queue.durable()
}

// Flush waits until what was put is in Kafka.
func (f *Feed) Flush(ctx context.Context) error {
	if f.queue == nil {
		return nil
	}
	return f.queue.flush(ctx)
}

// Chunks is the number of chunks that a read of so many samples has. One without
// samples has an empty one, so that it too is accounted for downstream.
func Chunks(samples, chunkSamples int) int {
	return max(1, (samples+chunkSamples-1)/chunkSamples)
}

// Put sends a read from one of its chunks on, and waits while there is no space for it.
func (f *Feed) Put(ctx context.Context, rd *signal.Read, samples []int16, from int) error {
	if len(samples) != rd.NumSamples {
		return fmt.Errorf("read %s: %d samples where %d are announced", rd.ID, len(samples), rd.NumSamples)
	}
	for n := from; n < Chunks(len(samples), f.chunk); n++ {
		if err := f.put(ctx, rd, samples, n); err != nil {
			return err
		}
	}
	return nil
}

func (f *Feed) put(ctx context.Context, rd *signal.Read, samples []int16, n int) error {
	first := n * f.chunk
	last := min(first+f.chunk, len(samples))
	f.vbz = f.codec.Encode(f.vbz[:0], samples[first:last])
	c := describeRead(f.run, rd)
	c.Number, c.FirstSample, c.SampleCount, c.Vbz = uint32(n), uint64(first), uint32(last-first), f.vbz
	if c.EndOfRead = last == len(samples); c.EndOfRead {
		c.EndReason = rd.EndReason.String()
	}
	value, err := stream.EncodeSignal(&streampb.SignalRecord{Body: &streampb.SignalRecord_Chunk{Chunk: c}})
	if err != nil {
		return fmt.Errorf("read %s: %w", rd.ID, err)
	}
	at := f.at
	at.Chunk(rd.ID, n)
	err = f.send(ctx, at, last-first, []stream.Out{{
		Topic: f.cfg.Topics.Signal, Partition: stream.AnyPartition, Key: stream.SignalKey(f.run.GetId(), rd.Channel), Value: value,
	}})
	if err == nil {
		f.cfg.Metrics.chunk(c)
	}
	return err
}

// begin announces the run, unless that was done before.
func (f *Feed) begin(ctx context.Context) error {
	if f.at.Next() > 0 {
		return nil
	}
	outs, err := announcement(f.cfg.Topics, f.run, f.cfg.Partitions)
	if err != nil {
		return err
	}
	var at Position
	if err := at.Begin(f.run, f.chunk, f.cfg.Partitions); err != nil {
		return err
	}
	f.cfg.Metrics.run()
	return f.send(ctx, at, 0, outs)
}

// End ends the run.
func (f *Feed) End(ctx context.Context) error {
	outs, err := ending(f.cfg.Topics, f.run, f.cfg.Partitions)
	if err != nil {
		return err
	}
	at := f.at
	at.End()
	f.cfg.Metrics.endRun(f.run.GetId())
	return f.send(ctx, at, 0, outs)
}

func (f *Feed) send(ctx context.Context, after Position, samples int, outs []stream.Out) error {
	if f.at.Ended() {
		return fmt.Errorf("run %s: it has ended", f.run.GetId())
	}
	now := time.Now()
	for i := range outs {
		outs[i].Time = now
	}
	if err := f.queue.put(ctx, event{after: after.p, at: now, samples: samples, outs: outs}); err != nil {
		return fmt.Errorf("sending signal: %w", err)
	}
	f.at = after
	return nil
}
