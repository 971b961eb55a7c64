package basecall

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/porestream/porestream/basecall/infer"
)

// Stream is a read that is basecalled while its samples come. Its windows go to
// the network as soon as they are due, so that when the read ends little is left
// to compute: the last window. What it is called depends on the samples alone, not
// on the pieces in which they were written; [Caller.Call] gives the same.
//
// It is used by one goroutine at a time. After an error all that is left is to
// close it.
type Stream struct {
	caller   *Caller
	read     Read // without samples
	first    []int16
	feed     *feed
	joiner   joiner
	producer *infer.Producer
	windows  []pending // those that are not joined yet, in order
	joined   int       // windows
	leisure  bool      // nobody waits for this read by itself
	timings  *Timings  // nil: nobody wants to know
}

// Timings show where the time of a read goes, from when it is observed on.
type Timings struct {
	Windows      int           // that were computed
	First, Last  time.Time     // when the first and the last of them came back
	Joined       time.Time     // when the last of them was decoded and joined
	Wait, Decode time.Duration // spent waiting for windows to be computed and decoded, and decoding and joining
}

// Observe has the stream keep times from now on, at the cost of three readings of
// the clock for a window.
func (s *Stream) Observe(t *Timings) { s.timings = t }

// pending is a window that the network has or that waits for one before it.
type pending struct {
	window
	request *request // until it is done
	bases   []base
	done    bool
}

// Begin begins to basecall a read of which more samples may come. The stream must
// be closed.
func (c *Caller) Begin(read Read) (*Stream, error) {
	s := &Stream{caller: c, read: read, first: read.Samples}
	s.read.Samples = nil
	m := c.model.Manifest
	if !slices.Contains(m.SampleRates, read.SampleRate) {
		return nil, s.wrap(fmt.Errorf("it was recorded at %d Hz, but model %s is for %v Hz", read.SampleRate, m.Name, m.SampleRates))
	}
	var err error
	if s.feed, err = newFeed(c.windows, m.Normalisation, read.Calibration); err != nil {
		return nil, s.wrap(err)
	}
	s.producer = c.batcher.NewPatientProducer(c.outstanding)
	return s, nil
}

// Write adds samples to the read and has those windows computed that are due. It
// blocks while the queue is full.
func (s *Stream) Write(ctx context.Context, samples []int16) error {
	if err := s.write(ctx, samples); err != nil {
		return s.wrap(err)
	}
	return nil
}

func (s *Stream) write(ctx context.Context, samples []int16) error {
	for _, part := range [][]int16{s.first, samples} {
		for len(part) > 0 {
			n := min(len(part), s.caller.windows.samples)
			s.feed.write(part[:n])
			part = part[n:]
			if err := s.submit(ctx); err != nil {
				return err
			}
		}
	}
	s.first = nil
	return s.receive(ctx, s.producer.Ready())
}

// Finish says that the read has ended, and returns what it is called once all of
// its windows are computed. They go before those of reads that go on. A read that
// is shorter than one frame has no bases; that is no error.
func (s *Stream) Finish(ctx context.Context) (Called, error) {
	s.producer.Hurry()
	if err := s.write(ctx, nil); err != nil {
		return Called{}, s.wrap(err)
	}
	s.feed.end()
	if err := s.submit(ctx); err != nil {
		return Called{}, s.wrap(err)
	}
	if err := s.receive(ctx, s.producer.Outstanding()); err != nil {
		return Called{}, s.wrap(err)
	}
	s.joiner.finish()
	called := s.called(s.feed.samples)
	s.caller.metrics.called(called)
	s.Close()
	return called, nil
}

// SoFar returns what is called of the read up to now: the beginning, in the order in which
// its bases pass the pore, of what Finish will return. Its samples are those that are
// called. It waits for nothing, and what it returns is not to be changed.
func (s *Stream) SoFar() Called {
	frames := s.joiner.begin
	if frames == 0 {
		return Called{Stride: s.caller.windows.stride}
	}
	return s.called(frames * s.caller.windows.stride)
}

// called returns what is joined, which is what these samples are called.
func (s *Stream) called(samples int) Called {
	norm := s.feed.norm.affine()
	called := Called{
		Sequence: slices.Clip(s.joiner.sequence), Qualities: slices.Clip(s.joiner.qualities), Moves: slices.Clip(s.joiner.moves),
		FromEnd: s.caller.model.Manifest.RNA(),
		Stride:  s.caller.windows.stride, NumSamples: samples,
		Shift: norm.shift, Scale: norm.scale,
	}
	if called.FromEnd {
		called.Sequence, called.Qualities = slices.Clone(called.Sequence), slices.Clone(called.Qualities)
		slices.Reverse(called.Sequence)
		slices.Reverse(called.Qualities)
	}
	called.MeanQuality = called.meanQuality(s.caller.model.Manifest.Qualities.MeanStart)
	return called
}

// Close drops what has not been called and releases what the stream holds. More
// than once does no harm.
func (s *Stream) Close() {
	s.producer.Close()
	s.feed.release()
}

func (s *Stream) wrap(err error) error { return fmt.Errorf("basecalling read %s: %w", s.read.ID, err) }

// submit hands over the windows that are due.
func (s *Stream) submit(ctx context.Context) error {
	for {
		if s.producer.Full() {
			if err := s.receive(ctx, 1); err != nil {
				return err
			}
		}
		req := s.caller.requests.Get().(*request)
		req.Input = req.Input[:s.caller.windows.samples]
		w, due := s.feed.next(req.Input)
		if !due {
			s.caller.requests.Put(req)
			return nil
		}
		req.Tag, req.Frames, req.window = w.index, w.frames, w
		req.Input, req.Short = req.Input[:w.length], w.length < s.caller.windows.samples
		req.Leisure = s.leisure
		if err := s.producer.Submit(ctx, &req.Request); err != nil {
			return err
		}
		s.windows = append(s.windows, pending{window: w, request: req})
	}
}

// receive takes n computed windows back and joins those whose turn it is.
func (s *Stream) receive(ctx context.Context, n int) error {
	for range n {
		asked := s.timings.now()
		req, err := s.producer.Receive(ctx)
		if err != nil {
			return err
		}
		if req.Err != nil {
			return req.Err
		}
		came := s.timings.now()
		p := &s.windows[req.Tag-s.joined]
		took := p.request.took
		p.bases, p.request.bases, p.done = p.request.bases, nil, true
		s.caller.requests.Put(p.request)
		p.request = nil
		s.join()
		s.timings.window(asked, came, took)
	}
	return nil
}

// now is the time if it is wanted.
func (t *Timings) now() time.Time {
	if t == nil {
		return time.Time{}
	}
	return time.Now()
}

// window notes a window that was asked for and came at a time, decoded in some, and has been joined.
func (t *Timings) window(asked, came time.Time, decoding time.Duration) {
	if t == nil {
		return
	}
	if t.Windows++; t.Windows == 1 {
		t.First = came
	}
	t.Last, t.Joined = came, time.Now()
	t.Wait += came.Sub(asked)
	t.Decode += decoding + t.Joined.Sub(came)
}

// join joins the windows that are called up to the first that isn't.
func (s *Stream) join() {
	n := 0
	for n < len(s.windows) && s.windows[n].done {
		w := &s.windows[n]
		s.joiner.add(w.bases, w.frame, w.frame+w.frames)
		n++
	}
	s.windows = slices.Delete(s.windows, 0, n)
	s.joined += n
}
