package push

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/ingest/contain"
	"github.com/porestream/porestream/ingest/spool"
	"github.com/porestream/porestream/push/pushpb"
	"github.com/porestream/porestream/signal/vbz"
)

// Push takes the signal of one run.
func (s *Server) Push(stream pushpb.Push_PushServer) error {
	p := &pushing{server: s, stream: stream, notices: make(chan *pushpb.Notice, 1)}
	s.cfg.Metrics.addStreams(1)
	defer s.cfg.Metrics.addStreams(-1)
	if err := p.serve(); err != nil {
		device, id := "", ""
		if p.device != nil {
			device = p.device.name
		}
		if p.run != nil {
			id = p.run.description.GetId()
		}
		return s.refuse(device, id, err)
	}
	return nil
}

// pushing is a stream of a device. One goroutine receives, the other answers.
type pushing struct {
	server  *Server
	stream  pushpb.Push_PushServer
	device  *device
	run     *run
	notices chan *pushpb.Notice // from the receiver

	// The receiver's.
	codec    *vbz.Codec
	samples  []int16
	packed   []byte
	rate     *rate.Limiter
	notified time.Time // when the device was last notified of its rate

	received error // why it has ended, once it has

	acked *pushpb.Ack // sent last
	moved time.Time   // when an ack last said something new, or all was durable
	stall bool        // the device was notified that nothing moves
}

func (p *pushing) serve() error {
	var refused *refusal
	if p.device, refused = p.server.cfg.Authority.device(p.stream.Context()); refused != nil {
		return refused
	}
	open, err := p.opening()
	if err != nil {
		return err
	}
	if p.run = p.server.run(open.GetRun()); p.run == nil {
		return refuse(pushpb.Reason_REASON_UNKNOWN_RUN, "run %q is not registered here: register it, and open the stream again", open.GetRun())
	}
	if err := p.server.await(p.stream.Context(), p.run); err != nil {
		return err
	}
	if refused := p.run.claim(p.device.name); refused != nil {
		return refused
	}
	ctx, stop := context.WithCancelCause(p.stream.Context())
	defer stop(nil)
	if err := p.run.attach(ctx, open.GetSession(), stop); errors.Is(err, errOver) {
		return p.finished()
	} else if err != nil {
		return err
	}
	p.run.order.limits = p.device.limits
	if err := p.opened(); err != nil {
		p.run.detach()
		return err
	}
	// Returning ends the stream, and with it what the receiver waits for.
	received := make(chan struct{})
	go func() {
		defer p.run.detach()
		defer close(received)
		if p.received = contain.Call(func() error { return p.receive(ctx) }); p.received != nil {
			stop(p.received)
		}
	}()
	return p.answer(ctx, received)
}

// opening is the stream's first request.
func (p *pushing) opening() (*pushpb.Open, error) {
	req, err := p.stream.Recv()
	if errors.Is(err, io.EOF) {
		return nil, refuse(pushpb.Reason_REASON_BAD_REQUEST, "the stream ends before it is opened")
	}
	if err != nil {
		return nil, err
	}
	open := req.GetOpen()
	if open == nil || len(open.GetSession()) > maxSession {
		return nil, refuse(pushpb.Reason_REASON_BAD_REQUEST, "a stream begins with open, and a session of at most %d bytes", maxSession)
	}
	return open, nil
}

// opened sends the device the place where the run goes on.
func (p *pushing) opened() error {
	p.acked, p.moved = p.run.ack(), time.Now()
	if p.run.taken.Load() > 0 {
		p.server.cfg.Metrics.resumed()
	}
	return p.stream.Send(&pushpb.PushResponse{Body: &pushpb.PushResponse_Opened{Opened: &pushpb.Opened{Next: p.run.taken.Load(), Ack: p.acked}}})
}

// finished answers for a run that is over.
func (p *pushing) finished() error {
	if p.run.err != nil {
		return p.run.err
	}
	return p.opened()
}

// receive takes requests until the device has sent the run's end or closed its
// side.
func (p *pushing) receive(ctx context.Context) error {
	p.codec, p.rate = vbz.NewCodec(), p.server.limiter(p.device)
	for {
		req, err := p.stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		// A stream that was asked to stop takes nothing any more.
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch body := req.GetBody().(type) {
		case *pushpb.PushRequest_Chunk:
			err = p.chunk(ctx, body.Chunk)
		case *pushpb.PushRequest_End:
			err = p.end(body.End)
		default:
			err = refuse(pushpb.Reason_REASON_BAD_REQUEST, "behind open come chunks and the end")
		}
		if err != nil {
			return err
		}
	}
}

func (p *pushing) chunk(ctx context.Context, c *pushpb.Chunk) error {
	size := proto.Size(c)
	if size > maxMessage {
		return refuse(pushpb.Reason_REASON_TOO_BIG, "a chunk of %d bytes, the limit is %d: send shorter chunks", size, maxMessage)
	}
	p.server.cfg.Metrics.receive(size)
	if err := p.throttle(ctx, size); err != nil {
		return err
	}
	if p.run.order.repeated(c) {
		p.server.cfg.Metrics.duplicate()
		return nil
	}
	if p.run.ending {
		return refuse(pushpb.Reason_REASON_ENDED_RUN, "run %s has ended behind chunk %d", p.run.description.GetId(), p.run.order.next)
	}
	lost, refused := p.run.order.check(c)
	if refused != nil {
		return refused
	}
	packed, refused := p.pack(c)
	if refused != nil {
		return refused
	}
	if err := p.run.take(ctx, c, packed); err != nil {
		return err
	}
	p.server.cfg.Metrics.lose(lost)
	return nil
}

// throttle makes a device wait that is over its bytes per second.
func (p *pushing) throttle(ctx context.Context, size int) error {
	delay := p.rate.ReserveN(time.Now(), size).Delay()
	if delay == 0 {
		return nil
	}
	p.server.cfg.Metrics.throttle(delay)
	if time.Since(p.notified) >= throttleNotice {
		p.notified = time.Now()
		p.notify(pushpb.Reason_REASON_OVER_QUOTA, fmt.Sprintf("%q sends more than its %d bytes per second, and is made to wait", p.device.name, p.device.limits.BytesPerSecond))
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pack returns a chunk's samples in VBZ. What a device has packed itself is
// unpacked to see that it can be.
func (p *pushing) pack(c *pushpb.Chunk) ([]byte, *refusal) {
	n := int(c.GetSampleCount())
	if given, isPacked := c.GetSamples().(*pushpb.Chunk_Vbz); isPacked {
		var err error
		if p.samples, err = p.codec.Decode(p.samples[:0], given.Vbz, n); err != nil {
			return nil, refuse(pushpb.Reason_REASON_BAD_CHUNK, "a chunk of read %q can't be unpacked: %v", c.GetReadId(), err)
		}
		return given.Vbz, nil
	}
	plain := c.GetInt16()
	if len(plain) != 2*n {
		return nil, refuse(pushpb.Reason_REASON_BAD_CHUNK, "a chunk of read %q has %d bytes for %d samples of 16 bits", c.GetReadId(), len(plain), n)
	}
	p.samples = p.samples[:0]
	for i := range n {
		p.samples = append(p.samples, int16(binary.LittleEndian.Uint16(plain[2*i:])))
	}
	p.packed = p.codec.Encode(p.packed[:0], p.samples)
	return p.packed, nil
}

func (p *pushing) end(e *pushpb.End) error {
	lost, refused := p.run.order.end(e)
	if refused != nil {
		return refused
	}
	if p.run.ending {
		return nil // sent again
	}
	p.run.ending = true
	p.server.cfg.Metrics.lose(lost)
	close(p.run.finish)
	return nil
}

// notify sends the device a notice, unless another waits to be sent.
func (p *pushing) notify(reason pushpb.Reason, message string) {
	select {
	case p.notices <- &pushpb.Notice{Reason: reason, Message: message}:
	default:
	}
}

// answer sends acks and notices until the stream is to end. received is closed
// when the device has sent all that it wants to.
func (p *pushing) answer(ctx context.Context, received <-chan struct{}) error {
	acks := time.NewTicker(ackInterval)
	defer acks.Stop()
	checks := time.NewTicker(checkInterval)
	defer checks.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			if p.stream.Context().Err() == nil {
				return context.Cause(ctx)
			}
			// The stream is over, and the receiver knows why: gRPC refuses by itself
			// what is far too big.
			<-received
			return p.received
		case <-p.server.stopping:
			return refuse(pushpb.Reason_REASON_STOPPING, "the server stops")
		case <-p.run.over:
			if p.run.err != nil {
				return p.run.err
			}
			return p.ack()
		case n := <-p.notices:
			err = p.sendNotice(n)
		case <-checks.C:
			err = p.check()
		case <-acks.C:
			if err = p.ack(); err == nil && p.done(received) {
				return nil
			}
		}
		if err != nil {
			return err
		}
	}
}

// done reports whether the device has closed its side without an end, and has got an
// answer to all that it has sent.
func (p *pushing) done(received <-chan struct{}) bool {
	select {
	case <-received:
		// Refusals are answered in another way than success.
		return p.received == nil && !p.run.ending && p.acked.GetDurable() == p.run.taken.Load()
	default:
		return false
	}
}

// ack sends an ack if it says something new.
func (p *pushing) ack() error {
	ack := p.run.ack()
	if proto.Equal(ack, p.acked) {
		return nil
	}
	p.acked, p.moved = ack, time.Now()
	return p.stream.Send(&pushpb.PushResponse{Body: &pushpb.PushResponse_Ack{Ack: ack}})
}

func (p *pushing) sendNotice(n *pushpb.Notice) error {
	p.server.cfg.Metrics.notice(n.GetReason())
	p.server.log.Warn("device waits", "reason", label(n.GetReason()), "device", p.device.name, "run", p.run.description.GetId(), "why", n.GetMessage())
	return p.stream.Send(&pushpb.PushResponse{Body: &pushpb.PushResponse_Notice{Notice: n}})
}

// check checks whether the device may still push, and notifies it if nothing moves.
func (p *pushing) check() error {
	if _, refused := p.server.cfg.Authority.device(p.stream.Context()); refused != nil {
		return refused
	}
	if p.acked.GetDurable() == p.run.taken.Load() {
		p.moved = time.Now()
	}
	waits := time.Since(p.moved)
	if notified := p.stall; waits < stallNotice || notified {
		p.stall = notified && waits >= stallNotice
		return nil
	}
	p.stall = true
	reason, message := pushpb.Reason_REASON_KAFKA_AWAY, fmt.Sprintf("Kafka has taken no signal for %v: the device will have to wait", waits.Round(time.Second))
	if err := p.run.live.Obstacle(); err != nil {
		message = fmt.Sprintf("Kafka has taken no signal for %v, nor does the spool: %v: the device will have to wait", waits.Round(time.Second), err)
		if errors.Is(err, spool.ErrFull) {
			reason = pushpb.Reason_REASON_DISK_FULL
		}
	}
	return p.sendNotice(&pushpb.Notice{Reason: reason, Message: message})
}
