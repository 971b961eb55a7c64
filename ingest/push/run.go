package push

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/push/pushpb"
	"github.com/porestream/porestream/stream/streampb"
)

// run is a run that devices push. One stream at a time holds it; nothing of it is
// lost while none does.
type run struct {
	description *streampb.Run
	cancel      context.CancelCauseFunc // ends it without its end

	ready  chan struct{} // closed once live and order are there
	finish chan struct{} // closed by the holder behind the last chunk
	over   chan struct{} // closed when nothing is written any more
	err    error         // why, once over is closed; nil: it has ended in Kafka

	turn   chan struct{} // holds a token while no stream holds the run
	front  *order        // as the ledger recalls it
	live   *ingest.Live  // the holder's
	order  *order        // likewise
	ending bool          // likewise: finish is closed
	taken  atomic.Uint64 // chunks

	mu       sync.Mutex
	device   string // whose it is; empty if an earlier process left it, until one registers it
	stop     context.CancelCauseFunc
	session  []byte   // of the newest stream
	former   [][]byte // sessions that another one took the run from
	detached time.Time
}

// maxFormer bounds how many senders are remembered that a run was taken from.
const maxFormer = 64

func newRun(description *streampb.Run, device string, cancel context.CancelCauseFunc) *run {
	r := &run{
		description: description, device: device, cancel: cancel, detached: time.Now(),
		ready: make(chan struct{}), finish: make(chan struct{}), over: make(chan struct{}), turn: make(chan struct{}, 1),
	}
	r.turn <- struct{}{}
	return r
}

// feed has the run written until its holder finishes it.
func (r *run) feed(ctx context.Context, l *ingest.Live) error {
	chunks := l.Taken() - 1 // event 0 is the run's beginning
	r.live, r.order = l, r.front
	if r.order.next != chunks {
		return &ingest.PermanentError{Err: fmt.Errorf("%w: %d chunks were taken, and %d are known", errAstray, chunks, r.order.next)}
	}
	r.taken.Store(chunks)
	close(r.ready)
	select {
	case <-r.finish:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// isOver reports whether nothing is written any more.
func (r *run) isOver() bool {
	select {
	case <-r.over:
		return true
	default:
		return false
	}
}

// isReady reports whether the run can be held.
func (r *run) isReady() bool {
	select {
	case <-r.ready:
		return true
	default:
		return false
	}
}

// claim makes the run a device's, if it isn't another's.
func (r *run) claim(device string) *refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.device == "" {
		r.device = device
	}
	if r.device != device {
		return refuse(pushpb.Reason_REASON_OTHER_DEVICE, "run %s is pushed by another device", r.description.GetId())
	}
	return nil
}

func (r *run) owner() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.device
}

// attach makes a stream the run's holder. The holder before is stopped first, and
// attach waits until it has let go. stop stops the new one.
func (r *run) attach(ctx context.Context, session []byte, stop context.CancelCauseFunc) error {
	if refused := r.succeed(session, stop); refused != nil {
		return refused
	}
	if r.isOver() {
		return errOver
	}
	select {
	case <-r.turn:
		return nil
	case <-r.over:
		return errOver
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errOver says that a run is over, so that no stream can hold it.
var errOver = errors.New("the run is over")

// succeed decides between the stream that holds the run and the one that wants it.
func (r *run) succeed(session []byte, stop context.CancelCauseFunc) *refusal {
	takenOver := refuse(pushpb.Reason_REASON_TAKEN_OVER, "another sender has taken over run %s", r.description.GetId())
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.former, func(f []byte) bool { return bytes.Equal(f, session) }) {
		return takenOver
	}
	if r.stop != nil {
		r.stop(takenOver)
	}
	if r.session != nil && !bytes.Equal(r.session, session) {
		r.former = append(r.former, r.session)
		r.former = r.former[max(0, len(r.former)-maxFormer):]
	}
	r.session, r.stop = append([]byte{}, session...), stop
	return nil
}

// detach lets another stream have the run.
func (r *run) detach() {
	r.mu.Lock()
	r.detached = time.Now()
	r.mu.Unlock()
	r.turn <- struct{}{}
}

// idle reports whether no stream has held the run for a while, and nothing of it
// is under way. If so, no stream can hold the run any more: it is to be let go.
func (r *run) idle(now time.Time, patience time.Duration) bool {
	select {
	case <-r.turn:
	default:
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	written := r.isOver() || r.isReady() && !r.ending && r.live.Committed() > r.taken.Load()
	if written && now.Sub(r.detached) >= patience {
		return true
	}
	r.turn <- struct{}{}
	return false
}

// take puts the holder's next chunk behind the others, and waits while there is no
// space for it.
func (r *run) take(ctx context.Context, c *pushpb.Chunk, vbz []byte) error {
	err := r.live.Put(ctx, &streampb.SignalChunk{
		Run: r.description.GetId(), Channel: c.GetChannel(), ReadId: c.GetReadId(), Number: c.GetNumber(),
		FirstSample: c.GetFirstSample(), SampleCount: c.GetSampleCount(), Vbz: vbz,
		EndOfRead: c.GetEndOfRead(), EndReason: c.GetEndReason(),
		ReadStart: c.GetReadStart(), ReadNumber: c.GetReadNumber(), Well: c.GetWell(),
		CalibrationOffset: c.GetCalibrationOffset(), CalibrationScale: c.GetCalibrationScale(),
	})
	if err != nil {
		return err
	}
	r.order.take(c)
	r.taken.Store(r.order.next)
	return nil
}

// ack is what the device may forget.
func (r *run) ack() *pushpb.Ack {
	taken := r.taken.Load()
	if r.isOver() && r.err == nil {
		return &pushpb.Ack{Durable: taken, Committed: taken, Ended: true}
	}
	chunks := func(events uint64) uint64 { return min(max(events, 1)-1, taken) }
	// Committed is asked for first, so that it is never the larger one.
	committed := chunks(r.live.Committed())
	return &pushpb.Ack{Durable: chunks(r.live.Durable()), Committed: committed}
}
