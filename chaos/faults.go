package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/porestream/porestream/chaos/history"
	"github.com/porestream/porestream/chaos/nemesis"
	"github.com/porestream/porestream/chaos/schedule"
)

// undo puts a fault right.
type undo func(ctx context.Context) error

// errNoTarget says that there is nothing left that a fault could be done to.
var errNoTarget = errors.New("nothing to do it to")

// faults injects what the schedule says. It returns when every fault is over and put right.
func (h *harness) faults(ctx context.Context, faults []schedule.Fault) error {
	begun := time.Now()
	var running sync.WaitGroup
	failed := make(chan error, len(faults))
	for _, f := range faults {
		if !sleep(ctx, time.Until(begun.Add(f.At))) {
			break
		}
		running.Go(func() {
			if err := h.fault(ctx, f); err != nil {
				failed <- fmt.Errorf("fault %d, %s: %w", f.Number, f.Kind, err)
			}
		})
	}
	running.Wait()
	close(failed)
	return errors.Join(<-failed, ctx.Err())
}

// sleep waits; it reports false if ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// fault injects one fault and puts it right.
func (h *harness) fault(ctx context.Context, f schedule.Fault) error {
	target, begin, err := h.prepare(f)
	if errors.Is(err, errNoTarget) {
		h.log.Add(history.Event{Kind: history.Note, Fault: f.Number, Name: string(f.Kind), Detail: err.Error()})
		return nil
	}
	if err != nil {
		return err
	}
	h.log.Add(history.Event{Kind: history.FaultBegins, Fault: f.Number, Name: string(f.Kind), Target: target})
	end, err := begin(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", target, err)
	}
	sleep(ctx, f.For)
	// What was done is put right also if the run is over.
	if err := end(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("putting %s right: %w", target, err)
	}
	h.log.Add(history.Event{Kind: history.FaultEnds, Fault: f.Number, Name: string(f.Kind), Target: target})
	return nil
}

// prepare chooses who a fault is done to and says how.
func (h *harness) prepare(f schedule.Fault) (target string, begin func(context.Context) (undo, error), err error) {
	switch f.Kind {
	case schedule.KillIngest, schedule.PauseIngest:
		return h.onService(f, h.ingests)
	case schedule.KillProcessor, schedule.PauseProcessor, schedule.OutlastSession, schedule.Leave, schedule.KillDuringDrain,
		schedule.DeviceFails, schedule.DeviceHangs:
		return h.onService(f, h.processors)
	case schedule.KillBroker, schedule.PauseBroker, schedule.SlowBroker, schedule.CutBroker:
		return h.onBroker(f)
	case schedule.Join:
		return h.join()
	case schedule.CutAllBrokers:
		return "all brokers", func(context.Context) (undo, error) { return h.cutAll() }, nil
	case schedule.SpoolFull:
		return "all brokers and the spool", h.fillSpool, nil
	case schedule.StealPartition:
		stage := stages[f.Target%len(stages)]
		partition := f.Target / len(stages) % int(h.partitions[stage.input])
		id := fmt.Sprintf("%s/%s/%d", stage.group(), stage.input, partition)
		return id, func(ctx context.Context) (undo, error) { return h.steal(ctx, id, stage.output, f.Target%2 == 0) }, nil
	case schedule.StealIngest:
		id := "ingest/" + h.recordings[f.Target%len(h.recordings)].run
		return id, func(ctx context.Context) (undo, error) { return h.steal(ctx, id, "signal", f.Target%2 == 0) }, nil
	case schedule.KillAll:
		return "all processors and ingests", func(context.Context) (undo, error) { return h.killAll() }, nil
	}
	return "", nil, fmt.Errorf("no such fault")
}

// claim takes a service for a fault, so that two faults don't undo each other.
func (h *harness) claim(from []*service, target int) (*service, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range from {
		s := from[(target+i)%len(from)]
		if !h.claimed[s] && !s.finished() {
			h.claimed[s] = true
			return s, nil
		}
	}
	return nil, errNoTarget
}

func (h *harness) release(s *service) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.claimed, s)
}

// stopWithin is what a service gets to stop in order: draining, and closing what it has open.
const stopWithin = 45 * time.Second

func (h *harness) onService(f schedule.Fault, from []*service) (string, func(context.Context) (undo, error), error) {
	s, err := h.claim(from, f.Target)
	if err != nil {
		return "", nil, err
	}
	restart := func(context.Context) error {
		defer h.release(s)
		return s.start()
	}
	begin := func(ctx context.Context) (undo, error) {
		switch f.Kind {
		case schedule.PauseIngest, schedule.PauseProcessor, schedule.OutlastSession:
			return func(context.Context) error {
				defer h.release(s)
				return s.signal(syscall.SIGCONT)
			}, s.signal(syscall.SIGSTOP)
		case schedule.Leave:
			return restart, h.stop(s)
		case schedule.KillDuringDrain:
			if err := s.signal(syscall.SIGTERM); err != nil {
				return nil, err
			}
			sleep(ctx, 200*time.Millisecond)
		case schedule.DeviceFails, schedule.DeviceHangs:
			return h.breakDevice(s, f.Kind)
		}
		_, err := s.end(syscall.SIGKILL, stopWithin)
		return restart, err
	}
	return s.name, begin, nil
}

// stop ends a service in order, and notes it if that takes too long.
func (h *harness) stop(s *service) error {
	late, err := s.end(syscall.SIGTERM, stopWithin)
	if late {
		h.log.Add(history.Event{Kind: history.StopsLate, Name: s.name, Detail: fmt.Sprintf("not within %v of SIGTERM", stopWithin)})
	}
	return err
}

// breakDevice makes a processor's device fail for a number of batches or hang, which it reads from a file of its own.
func (h *harness) breakDevice(s *service, kind schedule.Kind) (undo, error) {
	says := func(what string) error {
		if err := os.WriteFile(h.deviceFile(s.name), []byte(what), 0o600); err != nil {
			return fmt.Errorf("breaking the device of %s: %w", s.name, err)
		}
		return nil
	}
	what := "error 1000000"
	if kind == schedule.DeviceHangs {
		what = "hang 3600"
	}
	return func(context.Context) error {
		defer h.release(s)
		return says("")
	}, says(what)
}

// deviceFile is the file from which a processor's device reads what to do wrong.
func (h *harness) deviceFile(name string) string { return filepath.Join(h.work, name+".device") }

// join starts one more processor, which leaves again in order.
func (h *harness) join() (string, func(context.Context) (undo, error), error) {
	h.mu.Lock()
	h.joined++
	s := h.newProcessor(fmt.Sprintf("processor-joined-%d", h.joined))
	h.mu.Unlock()
	return s.name, func(context.Context) (undo, error) {
		return func(context.Context) error { return h.stop(s) }, s.start()
	}, nil
}

func (h *harness) killAll() (undo, error) {
	var taken []*service
	for _, s := range append(append([]*service{}, h.processors...), h.ingests...) {
		h.mu.Lock()
		free := !h.claimed[s] && !s.finished()
		if free {
			h.claimed[s] = true
			taken = append(taken, s)
		}
		h.mu.Unlock()
	}
	var errs []error
	for _, s := range taken {
		_, err := s.end(syscall.SIGKILL, stopWithin)
		errs = append(errs, err)
	}
	return func(context.Context) error {
		var errs []error
		for _, s := range taken {
			errs = append(errs, s.start())
			h.release(s)
		}
		return errors.Join(errs...)
	}, errors.Join(errs...)
}

// onBroker chooses a broker that no other fault is on: with three, one may be away.
func (h *harness) onBroker(f schedule.Fault) (string, func(context.Context) (undo, error), error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.brokersDown > 0 {
		return "", nil, errNoTarget
	}
	h.brokersDown++
	n := h.cluster.node(f.Target)
	back := func(do func(context.Context) error) undo {
		return func(ctx context.Context) error {
			h.mu.Lock()
			h.brokersDown--
			h.mu.Unlock()
			return do(ctx)
		}
	}
	begin := func(context.Context) (undo, error) {
		switch f.Kind {
		case schedule.KillBroker:
			return back(func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(ctx, restartTimeout)
				defer cancel()
				return n.Restart(ctx)
			}), n.Kill()
		case schedule.PauseBroker:
			return back(func(context.Context) error { return n.Resume() }), n.Pause()
		case schedule.SlowBroker:
			n.Delay(h.cfg.session + time.Second)
		case schedule.CutBroker:
			n.Cut()
		}
		return back(func(context.Context) error { n.Heal(); return nil }), nil
	}
	return fmt.Sprintf("broker-%d", n.ID), begin, nil
}

// cutAll takes Kafka away as a whole.
func (h *harness) cutAll() (undo, error) {
	if h.cluster.apache == nil {
		broker := h.cluster.broker.Process
		return func(context.Context) error { return broker.Signal(syscall.SIGCONT) }, broker.Signal(syscall.SIGSTOP)
	}
	for _, n := range h.cluster.apache.Nodes {
		n.Cut()
	}
	return func(context.Context) error {
		for _, n := range h.cluster.apache.Nodes {
			n.Heal()
		}
		return nil
	}, nil
}

// fillSpool takes Kafka away and leaves the ingests no space for what they keep meanwhile.
func (h *harness) fillSpool(context.Context) (undo, error) {
	if h.spool == nil {
		return nil, errNoTarget
	}
	if err := h.spool.fill(); err != nil {
		return nil, err
	}
	heal, err := h.cutAll()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return errors.Join(h.spool.free(), heal(ctx)) }, nil
}

// steal lets a thief take a transactional id. The holder may take it back at any moment, and a broker be away: a thief that fails is no
// fault of the harness.
func (h *harness) steal(ctx context.Context, id, topic string, abort bool) (undo, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := nemesis.Steal(ctx, h.cluster.observers(), id, topic, abort); err != nil {
		h.log.Add(history.Event{Kind: history.Note, Name: "thief", Target: id, Detail: err.Error()})
	}
	return func(context.Context) error { return nil }, nil
}
