package minknow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/ingest/minknow/minknowpb"
	"github.com/porestream/porestream/stream/streampb"
)

// maxPause is how often, at most, MinKNOW is tried when it is away.
const maxPause = 5 * time.Second

// position follows one flow cell position from run to run.
type position struct {
	name    string
	host    *host
	cfg     *Config
	log     *slog.Logger
	metrics *positionMetrics
	// done is the run that is not taken any more: it has ended, or can't be taken.
	done string
	// left are runs of this position that an earlier process has not ended.
	left []*streampb.Run
	// logged is the error that was logged last, so that it is logged once.
	logged string
	// statesRefused says that it was logged that MinKNOW reports no states of channels.
	statesRefused bool
}

// errFinished says that the position's run has ended, and no other is wanted.
var errFinished = errors.New("the run has ended")

// follow takes one run after the other until ctx ends. Faults of MinKNOW are
// ridden out; an error is one of Kafka's.
func (p *position) follow(ctx context.Context) error {
	pause := newBackOff()
	defer p.connected(false)
	for {
		err := p.next(ctx)
		p.connected(false)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errFinished):
			return nil
		case err == nil:
			pause.Reset()
			continue
		case isKafka(err):
			return err
		}
		p.fault("waiting for MinKNOW", err)
		select {
		case <-time.After(pause.NextBackOff()):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func newBackOff() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxInterval(maxPause), backoff.WithMaxElapsedTime(0))
}

// kafkaError is an error of the other side: following MinKNOW on makes no sense.
type kafkaError struct{ error }

func (e kafkaError) Unwrap() error { return e.error }

func isKafka(err error) bool {
	var k kafkaError
	return errors.As(err, &k)
}

// fault counts a fault and logs it, once while it goes on.
func (p *position) fault(what string, err error) {
	reason := faultReason(err)
	p.cfg.Metrics.faults.WithLabelValues(reason).Inc()
	if text := err.Error(); text != p.logged {
		p.logged = text
		p.log.Warn(what, "err", err)
	}
}

// sound notes that nothing is wrong any more: the next fault is news.
func (p *position) sound() { p.logged = "" }

func (p *position) connected(yes bool) {
	value := 0.0
	if yes {
		value = 1
	}
	p.metrics.m.connected.WithLabelValues(p.name).Set(value)
}

// next connects, waits for a run that is wanted, and takes it to its end.
func (p *position) next(ctx context.Context) error {
	conn, address, err := p.host.dial(ctx, p.name)
	if err != nil {
		return err
	}
	defer conn.Close()
	acquisition, err := p.await(ctx, conn)
	if err != nil {
		return interrupted(ctx, explain(address, err))
	}
	src, err := inspect(ctx, conn, acquisition)
	if err != nil {
		return interrupted(ctx, explain(address, err))
	}
	t, err := p.prepare(ctx, src)
	if err == nil {
		err = p.run(ctx, t)
	}
	var permanent *PermanentError
	if err == nil || errors.As(err, &permanent) || hasEnded(err) || errors.Is(err, ingest.ErrFenced) {
		p.done = acquisition.GetRunId()
	}
	switch {
	case hasEnded(err):
		p.log.Info("the run has ended in Kafka: waiting for the next one", "run", p.done)
		return nil
	case err == nil && p.cfg.Once:
		return errFinished
	}
	return err
}

// await waits until a run is under way that is to be taken.
func (p *position) await(ctx context.Context, conn *grpc.ClientConn) (*minknowpb.AcquisitionRunInfo, error) {
	client := minknowpb.NewAcquisitionServiceClient(conn)
	// Watching says what is there now only if something is.
	now, err := current(ctx, client)
	if err != nil {
		return nil, err
	}
	p.connected(true)
	if err := p.endLeft(ctx, now.GetRunId()); err != nil {
		return nil, err
	}
	if p.wants(now) {
		return now, nil
	}
	p.sound()
	p.log.Info("waiting for a run")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch, err := client.WatchCurrentAcquisitionRun(ctx, &minknowpb.WatchCurrentAcquisitionRunRequest{})
	for err == nil {
		if now, err = watch.Recv(); err == nil && p.wants(now) {
			return now, nil
		}
	}
	return nil, err
}

// current is the run that is under way, or nil.
func current(ctx context.Context, client minknowpb.AcquisitionServiceClient) (*minknowpb.AcquisitionRunInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	now, err := client.GetCurrentAcquisitionRun(ctx, &minknowpb.GetCurrentAcquisitionRunRequest{})
	if isCode(err, codes.FailedPrecondition) {
		return nil, nil
	}
	return now, err
}

// under reports whether signal may come of a run.
func under(a *minknowpb.AcquisitionRunInfo) bool {
	s := a.GetState()
	return a.GetRunId() != "" && (s == minknowpb.AcquisitionState_ACQUISITION_RUNNING || s == minknowpb.AcquisitionState_ACQUISITION_PAUSED)
}

// wants reports whether a run is to be taken.
func (p *position) wants(a *minknowpb.AcquisitionRunInfo) bool {
	if a == nil || !under(a) || a.GetRunId() == p.done {
		return false
	}
	purpose := a.GetConfigSummary().GetPurpose()
	if purpose != minknowpb.Purpose_SEQUENCING && !(p.cfg.AnyPurpose && purpose != minknowpb.Purpose_CALIBRATION) {
		p.done = a.GetRunId()
		p.log.Info("leaving a run alone that is not for sequencing; --any-purpose takes it unless it is a calibration", "run", a.GetRunId(), "purpose", purpose.String())
		return false
	}
	return true
}

// endLeft ends what an earlier process has left of runs that are over.
func (p *position) endLeft(ctx context.Context, now string) error {
	left := p.left
	p.left = nil
	for _, run := range left {
		if run.GetId() == now {
			continue
		}
		p.log.Warn("a run has ended while no ingest was there: sending what the spool has of it, and its end", "run", run.GetId())
		err := p.cfg.Runs.Run(ctx, run, func(context.Context, Live) error { return nil })
		if err != nil && !hasEnded(err) {
			return kafkaError{err}
		}
	}
	return nil
}

// hasEnded reports whether an error says that a run has ended in Kafka.
func hasEnded(err error) bool {
	var ended *ingest.EndedError
	return errors.As(err, &ended)
}

// prepare makes a taker of a run. One that was begun before keeps what it was
// announced as.
func (p *position) prepare(ctx context.Context, src *source) (*taker, error) {
	run, err := src.describe(p.name, p.cfg.Sample)
	if err != nil {
		return nil, err
	}
	announced, err := p.cfg.Runs.Announced(ctx, run.GetId())
	if err != nil {
		return nil, kafkaError{fmt.Errorf("position %s: %w", p.name, err)}
	}
	if announced != nil {
		if err := conflict(announced, run); err != nil {
			return nil, err
		}
		run = announced
	}
	cfg, err := src.reads(p.name, p.cfg)
	if err != nil {
		return nil, err
	}
	p.metrics.channels = src.channels()
	t := &taker{position: p, run: run, reads: newReads(cfg, p.metrics), log: p.log.With("run", run.GetId())}
	if d := p.cfg.Decisions; d != nil {
		t.control = newControl(d, p.metrics, t.log)
	}
	if p.cfg.onTaker != nil {
		p.cfg.onTaker(t)
	}
	return t, nil
}

// run writes a run to Kafka while it is taken.
func (p *position) run(ctx context.Context, t *taker) error {
	sequencing := p.metrics.m.sequencing.WithLabelValues(p.name)
	sequencing.Set(1)
	defer sequencing.Set(0)
	t.log.Info("taking a run", "sample", t.run.GetSample(), "flow_cell", t.run.GetFlowCell(), "kit", t.run.GetKit(), "channels", len(t.reads.cfg.calibrations), "sample_rate", t.run.GetSampleRate())
	defer t.summary()
	defer t.control.open(t.run.GetId())()
	var feeding error
	err := p.cfg.Runs.Run(ctx, t.run, func(ctx context.Context, to Live) error {
		feeding = t.feed(ctx, to)
		return feeding
	})
	var permanent *PermanentError
	switch {
	case err == nil, ctx.Err() != nil, hasEnded(err), errors.Is(err, ingest.ErrFenced):
		return err
	case errors.As(feeding, &permanent):
		return feeding
	}
	return kafkaError{fmt.Errorf("position %s: %w", p.name, err)}
}
