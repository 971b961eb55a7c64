package push

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/push/pushpb"
	"github.com/porestream/porestream/signal/vbz"
)

// RunInfo describes a run. It never changes: registered again with anything else,
// a run is refused.
type RunInfo struct {
	ID         string // unique
	Sample     string // what calls are keyed by; empty: ID
	SampleRate uint32 // samples per second and channel
	Experiment string
	FlowCell   string
	// FlowCellProduct and Kit choose the basecalling model, for example FLO-MIN106
	// and SQK-LSK109.
	FlowCellProduct, Kit string
	Position, Device     string
	PoreType             string
	StartTime            time.Time // zero: unknown
}

// Chunk is some samples of one read. Chunks of a channel are in order: each begins
// where the one before it ended, or later.
type Chunk struct {
	Channel     uint32
	ReadID      string // unique
	ReadStart   uint64 // the read's first sample, counted from the run's beginning
	ReadNumber  uint32
	Well        uint32
	Number      uint32  // of the chunk within its read, from 0
	FirstSample uint64  // of the chunk within its read, from 0
	Samples     []int16 // ADC values; not kept by Send
	// Offset and Scale turn samples into pA: (sample + Offset) * Scale.
	Offset, Scale float32
	EndOfRead     bool
	EndReason     string // as POD5 names it; with EndOfRead
	// Skipped samples are lost immediately before the chunk; FirstSample counts
	// them.
	Skipped uint64
	// PreviousLost says that the end of the channel's read before this one is lost.
	PreviousLost bool
}

// chunkOverhead is about what a chunk takes besides its bytes.
const chunkOverhead = 256

// Run is a run that is being sent. Send, End, Flush and Close may be called by any
// goroutine, and chunks have the order in which Send is called.
type Run struct {
	client *Client
	info   *pushpb.Run
	cancel context.CancelFunc
	over   chan struct{} // closed when nothing is sent any more

	packing sync.Mutex
	codec   *vbz.Codec

	mu      sync.Mutex
	changed chan struct{} // closed at the next change
	window  *window[*pushpb.PushRequest]
	end     *pushpb.End // once nothing follows
	done    bool        // the run has ended in Kafka
	err     error       // why nothing is sent any more
	limits  *pushpb.Limits
}

// Open registers a run, and waits until the server has it or refuses it, trying
// again while the server can't be reached. A run that was begun before goes on:
// see [Run.Next].
//
// The run is sent in the background until End or Close; it outlives ctx.
func (c *Client) Open(ctx context.Context, info RunInfo) (*Run, error) {
	r := &Run{client: c, over: make(chan struct{}), changed: make(chan struct{}), codec: vbz.NewCodec(), info: &pushpb.Run{
		Id: info.ID, Sample: info.Sample, SampleRate: info.SampleRate, Experiment: info.Experiment,
		FlowCell: info.FlowCell, FlowCellProduct: info.FlowCellProduct, Kit: info.Kit,
		Position: info.Position, Device: info.Device, PoreType: info.PoreType,
	}}
	if !info.StartTime.IsZero() {
		r.info.StartTimeMs = info.StartTime.UnixMilli()
	}
	pause := backoff.WithContext(newPause(), ctx)
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.cancel = cancel
	first, err := backoff.RetryNotifyWithData(func() (*connection, error) {
		conn, err := r.connect(ctx, sending)
		if err != nil && !passes(err) {
			err = backoff.Permanent(err)
		}
		return conn, err
	}, pause, func(err error, _ time.Duration) {
		c.cfg.Logger.Warn("the server does not take the run yet", "run", info.ID, "err", err)
	})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("opening run %s: %w", info.ID, err)
	}
	go r.run(sending, first)
	return r, nil
}

func newPause() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxInterval(maxPause), backoff.WithMaxElapsedTime(0))
}

// connection is a stream that has been opened.
type connection struct {
	stream pushpb.Push_PushClient
	cancel context.CancelFunc
}

// connect registers the run and opens a stream of it. attempt bounds the attempt,
// and sending the stream.
func (r *Run) connect(attempt, sending context.Context) (*connection, error) {
	attempt, stop := context.WithTimeout(attempt, openTimeout)
	defer stop()
	registered, err := r.client.api.Register(r.client.authorized(attempt), &pushpb.RegisterRequest{Run: r.info})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(sending)
	late := context.AfterFunc(attempt, cancel)
	stream, opened, err := r.open(ctx)
	if !late() && err == nil {
		err = context.Cause(attempt)
	}
	if err == nil {
		err = r.resume(registered.GetLimits(), opened)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return &connection{stream, cancel}, nil
}

func (r *Run) open(ctx context.Context) (pushpb.Push_PushClient, *pushpb.Opened, error) {
	stream, err := r.client.api.Push(r.client.authorized(ctx))
	if err != nil {
		return nil, nil, err
	}
	open := &pushpb.PushRequest{Body: &pushpb.PushRequest_Open{Open: &pushpb.Open{Run: r.info.GetId(), Session: r.client.session}}}
	if err := stream.Send(open); err != nil && !errors.Is(err, io.EOF) { // at EOF Recv returns why
		return nil, nil, err
	}
	res, err := stream.Recv()
	if errors.Is(err, io.EOF) || err == nil && res.GetOpened() == nil {
		err = status.Error(codes.FailedPrecondition, "the server does not answer as the contract has it")
	}
	return stream, res.GetOpened(), err
}

// resume puts the run where the server goes on.
func (r *Run) resume(limits *pushpb.Limits, opened *pushpb.Opened) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limits = limits
	if r.window == nil {
		r.window = newWindow[*pushpb.PushRequest](opened.GetNext(), r.client.cfg.MaxUnacked)
	}
	if err := r.acknowledge(opened.GetAck()); err != nil {
		return status.Error(codes.DataLoss, err.Error())
	}
	if r.done {
		return nil
	}
	if err := r.window.rewind(opened.GetNext()); err != nil {
		return status.Error(codes.DataLoss, err.Error())
	}
	return nil
}

// acknowledge forgets what the server says may be forgotten. mu is held.
func (r *Run) acknowledge(ack *pushpb.Ack) error {
	number := ack.GetDurable()
	if r.client.cfg.UntilCommitted {
		number = ack.GetCommitted()
	}
	if ack.GetEnded() {
		r.done = true
	}
	defer r.wake()
	return r.window.ack(number)
}

// wake notifies those who wait of a change. mu is held.
func (r *Run) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// run sends until the run has ended or can't go on.
func (r *Run) run(ctx context.Context, conn *connection) {
	err := r.keepSending(ctx, conn)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.done && r.end != nil:
	case r.done:
		r.err = fmt.Errorf("run %s has ended in Kafka", r.info.GetId())
	case ctx.Err() != nil:
		r.err = fmt.Errorf("run %s is closed", r.info.GetId())
	default:
		r.err = fmt.Errorf("sending run %s: %w", r.info.GetId(), err)
	}
	r.wake()
	close(r.over)
}

func (r *Run) keepSending(ctx context.Context, conn *connection) error {
	log := r.client.cfg.Logger.With("run", r.info.GetId())
	pause := newPause()
	for {
		if conn != nil {
			progress, err := r.exchange(ctx, conn)
			conn.cancel()
			if progress {
				pause.Reset()
			}
			if r.isDone() || !passes(err) && !mends(err) {
				return err
			}
			log.Warn("the stream has ended; going on as soon as the server can be reached", "err", err)
		}
		select {
		case <-time.After(pause.NextBackOff()):
		case <-ctx.Done():
			return ctx.Err()
		}
		var err error
		if conn, err = r.connect(ctx, ctx); err != nil {
			// A server that is full just after a restart will have space later.
			if !passes(err) && !mends(err) && status.Code(err) != codes.ResourceExhausted {
				return err
			}
			log.Warn("the server can't be reached or does not take the run", "err", err)
		}
	}
}

func (r *Run) isDone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done
}

// exchange sends chunks and takes acks until the stream ends. progress reports
// whether the server has acknowledged anything.
func (r *Run) exchange(ctx context.Context, conn *connection) (progress bool, err error) {
	if r.isDone() {
		return true, nil
	}
	sending, stop := context.WithCancel(ctx)
	var sender sync.WaitGroup
	sender.Go(func() { r.send(sending, conn) })
	defer sender.Wait()
	defer conn.cancel() // a Send that waits returns
	defer stop()
	for {
		res, err := conn.stream.Recv()
		if errors.Is(err, io.EOF) {
			err = status.Error(codes.Unavailable, "the server has ended the stream")
		}
		if err != nil {
			return progress, err
		}
		if n := res.GetNotice(); n != nil {
			r.client.cfg.Logger.Warn(n.GetMessage(), "run", r.info.GetId(), "reason", n.GetReason())
		}
		if ack := res.GetAck(); ack != nil {
			progress = true
			if err := r.take(ack); err != nil {
				return progress, err
			}
			if ack.GetEnded() {
				return progress, nil
			}
		}
	}
}

func (r *Run) take(ack *pushpb.Ack) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.acknowledge(ack); err != nil {
		return status.Error(codes.DataLoss, err.Error())
	}
	return nil
}

// send sends what is pending, and the end behind it, until ctx ends or the stream
// has: Recv returns why.
func (r *Run) send(ctx context.Context, conn *connection) {
	ended := false
	for {
		r.mu.Lock()
		req, ok := r.window.pending()
		if !ok && r.end != nil && !ended {
			req, ok, ended = &pushpb.PushRequest{Body: &pushpb.PushRequest_End{End: r.end}}, true, true
		} else if ok {
			r.window.sent()
		}
		changed := r.changed
		r.mu.Unlock()
		if ok {
			if conn.stream.Send(req) != nil {
				return
			}
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Next is the number of the run's chunk that is sent next. In a run that was begun
// before, by another process, it is the first that the server doesn't have: a device that
// keeps its signal goes on there, and another one states the loss in its next chunks.
func (r *Run) Next() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.window.next()
}

// Acknowledged is the number of the run's chunks, from the first, that the server
// has made durable.
func (r *Run) Acknowledged() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.window.first
}

// Ended reports whether the run has ended in Kafka.
func (r *Run) Ended() bool { return r.isDone() }

// Limits are what the server allows.
func (r *Run) Limits() *pushpb.Limits {
	r.mu.Lock()
	defer r.mu.Unlock()
	return proto.CloneOf(r.limits)
}

// Send takes the run's next chunk, and waits while memory is full of chunks that
// are not acknowledged. A chunk that is taken arrives once and in order, unless
// this process ends or a later call returns an error: after an error the run can't be
// used any more. Errors of the server are gRPC statuses; see [Reason].
func (r *Run) Send(ctx context.Context, c Chunk) error {
	packed := r.pack(c.Samples)
	chunk := &pushpb.Chunk{
		Channel: c.Channel, ReadId: c.ReadID, ReadStart: c.ReadStart, ReadNumber: c.ReadNumber, Well: c.Well,
		Number: c.Number, FirstSample: c.FirstSample, SampleCount: uint32(len(c.Samples)), Samples: &pushpb.Chunk_Vbz{Vbz: packed},
		CalibrationOffset: c.Offset, CalibrationScale: c.Scale, EndOfRead: c.EndOfRead, EndReason: c.EndReason,
		Skipped: c.Skipped, PreviousLost: c.PreviousLost,
	}
	size := int64(len(packed) + len(c.ReadID) + len(c.EndReason) + chunkOverhead)
	ended := false
	err := r.wait(ctx, func() bool {
		if ended = r.end != nil; ended {
			return true
		}
		if !r.window.fits(size) {
			return false
		}
		chunk.Sequence = r.window.next()
		r.window.add(&pushpb.PushRequest{Body: &pushpb.PushRequest_Chunk{Chunk: chunk}}, size)
		r.wake()
		return true
	})
	if err == nil && ended {
		err = fmt.Errorf("sending run %s: it was ended before", r.info.GetId())
	}
	return err
}

func (r *Run) pack(samples []int16) []byte {
	r.packing.Lock()
	defer r.packing.Unlock()
	return r.codec.Encode(nil, samples)
}

// wait waits until ready, called with mu held, returns true, or the run or ctx has
// ended.
func (r *Run) wait(ctx context.Context, ready func() bool) error {
	for {
		r.mu.Lock()
		if r.err != nil {
			defer r.mu.Unlock()
			return r.err
		}
		ok, changed := ready(), r.changed
		r.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Flush waits until all that was sent is acknowledged.
func (r *Run) Flush(ctx context.Context) error {
	return r.wait(ctx, func() bool { return r.window.first == r.window.next() })
}

// End ends the run behind its last chunk, and waits until all of it is in Kafka.
// unfinished says that reads that are open have no end.
func (r *Run) End(ctx context.Context, unfinished bool) error {
	r.mu.Lock()
	if r.end == nil {
		r.end = &pushpb.End{Chunks: r.window.next(), Unfinished: unfinished}
		r.wake()
	}
	r.mu.Unlock()
	if err := r.wait(ctx, func() bool { return r.done }); err != nil {
		return err
	}
	r.Close()
	return nil
}

// Close stops sending and forgets what is not acknowledged; the run has not ended
// unless End has returned nil. It waits until nothing is sent any more.
func (r *Run) Close() {
	r.cancel()
	<-r.over
}
