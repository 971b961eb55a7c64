package push

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/ingest/contain"
	"github.com/porestream/porestream/push/pushpb"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// Catalogue knows what runs were announced as in Kafka.
type Catalogue interface {
	// Announced returns a run's description, or nil if there is none.
	Announced(ctx context.Context, run string) (*streampb.Run, error)
	// PushStates returns the newest whole push state of a run and the changes behind
	// it, or nothing.
	PushStates(ctx context.Context, run string) ([]*streampb.PushState, error)
}

// Config says how devices are served.
type Config struct {
	// Ingest says how runs are written. Of its Config Topics, Partitions, Sample,
	// Metrics and Logger are used.
	Ingest    ingest.ServiceConfig
	Catalogue Catalogue
	Authority *Authority
	// Runs bounds the runs that are under way, of all devices together. They share
	// the memory.
	Runs int
	// Idle is for how long a run is kept whose device has gone. It is not ended: the
	// device may register it again and go on.
	Idle    time.Duration
	Metrics *Metrics // nil: none
}

// Bounds of what a connection may do.
const (
	// maxMessage bounds a request, in bytes: the largest chunk of 16-bit samples,
	// and what names it.
	maxMessage = 1 << 20
	// hardMessage is what is read of one that is too big, so that it can be refused
	// with the words of this package.
	hardMessage  = 4 << 20
	maxStreams   = 64
	maxHeader    = 16 << 10
	maxSession   = 64
	minBurst     = 2 * maxMessage
	windowBytes  = 1 << 20 // of a stream: what may be under way before the server reads
	handshake    = 10 * time.Second
	pingInterval = 20 * time.Second
	pingTimeout  = 10 * time.Second
)

// Timing of the server.
const (
	ackInterval = 50 * time.Millisecond
	// checkInterval is how often a stream is checked: whether its device is still
	// allowed, and whether it is made to wait.
	checkInterval = time.Second
	// stallNotice is how long a device waits before a notice gives the reason, and
	// throttleNotice how often a notice says that it is over its quota.
	stallNotice    = 5 * time.Second
	throttleNotice = time.Minute
	// claimTimeout bounds the wait for Kafka when a run is registered.
	claimTimeout = 15 * time.Second
	// stopTimeout bounds how long streams have to end, and then how long what they
	// have sent has to become durable, when the server stops.
	stopTimeout     = 5 * time.Second
	janitorInterval = 10 * time.Second
)

// errIdle ends a run that nobody pushes any more; it can be gone on with.
var errIdle = errors.New("no device has pushed for long")

// Server takes runs from devices.
type Server struct {
	pushpb.UnimplementedPushServer

	cfg      Config
	log      *slog.Logger
	lives    *ingest.Lives
	stopping chan struct{}
	refusals refusalLog

	mu      sync.Mutex
	runs    map[string]*run
	rates   map[string]*rate.Limiter // by device
	writers sync.WaitGroup
	base    context.Context //nolint:containedctx // that of Run, which outlives the calls that begin runs
}

// NewServer claims the spool, if there is one.
func NewServer(cfg Config) (*Server, error) {
	if cfg.Runs < 1 || cfg.Idle <= 0 {
		return nil, fmt.Errorf("serving %d runs that may be idle for %v: both must be positive", cfg.Runs, cfg.Idle)
	}
	if cfg.Ingest.Logger == nil {
		cfg.Ingest.Logger = slog.New(slog.DiscardHandler)
	}
	lives, err := ingest.OpenLives(cfg.Ingest, cfg.Runs)
	if err != nil {
		return nil, err
	}
	return &Server{
		cfg: cfg, log: cfg.Ingest.Logger, lives: lives, stopping: make(chan struct{}),
		runs: make(map[string]*run), rates: make(map[string]*rate.Limiter),
	}, nil
}

// Run serves devices on a listener until ctx ends and what they have sent is
// durable. It is called once; the spool is let go of then.
func (s *Server) Run(ctx context.Context, listener net.Listener, opts ...grpc.ServerOption) error {
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer s.lives.Close(writing)
	defer stop()
	s.base = writing
	if err := s.resumeLeft(ctx); err != nil {
		return errors.Join(err, listener.Close())
	}
	server := grpc.NewServer(append([]grpc.ServerOption{
		grpc.MaxRecvMsgSize(hardMessage), grpc.MaxConcurrentStreams(maxStreams), grpc.MaxHeaderListSize(maxHeader),
		grpc.ConnectionTimeout(handshake), grpc.InitialWindowSize(windowBytes), grpc.InitialConnWindowSize(4 * windowBytes),
		grpc.UnaryInterceptor(s.containCall), grpc.StreamInterceptor(s.containStream),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingInterval, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingInterval / 4, PermitWithoutStream: true}),
	}, opts...)...)
	pushpb.RegisterPushServer(server, s)
	serving, stopServing := context.WithCancel(ctx)
	defer stopServing()
	var servants sync.WaitGroup
	served := make(chan error, 3)
	// One that fails ends the server.
	serve := func(fn func(context.Context)) {
		servants.Go(func() {
			if err := contain.Call(func() error { fn(serving); return nil }); err != nil {
				served <- err
			}
		})
	}
	serve(s.cfg.Authority.watch)
	serve(s.tidy)
	go func() { served <- server.Serve(listener) }()
	var err error
	select {
	case <-ctx.Done():
		s.close(server)
		err = <-served
	case err = <-served:
		s.close(server)
	}
	// It may have been stopped before it began to serve.
	if errors.Is(err, grpc.ErrServerStopped) {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("serving devices: %w", err)
	}
	s.drain()
	stop()
	stopServing()
	s.writers.Wait()
	servants.Wait()
	return err
}

// containCall and containStream refuse what the server has a bug with, and go on
// with the others.
func (s *Server) containCall(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	err = contain.Call(func() (err error) {
		resp, err = handler(ctx, req)
		return err
	})
	return resp, s.contained(err)
}

func (s *Server) containStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	return s.contained(contain.Call(func() error { return handler(srv, stream) }))
}

func (s *Server) contained(err error) error {
	if bug, ok := errors.AsType[*contain.PanicError](err); ok {
		s.log.Error("a call of a device has met a bug; the others go on", "err", err, "stack", string(bug.Stack))
		return s.refuse("", "", err)
	}
	return err
}

// close ends all streams, in order if they let it.
func (s *Server) close(server *grpc.Server) {
	close(s.stopping)
	late := time.AfterFunc(stopTimeout, server.Stop)
	defer late.Stop()
	server.GracefulStop()
}

// drain waits until all that was taken is durable, or for not much longer. What is
// not was not acknowledged either.
func (s *Server) drain() {
	late := time.NewTimer(stopTimeout)
	defer late.Stop()
	tick := time.NewTicker(ackInterval)
	defer tick.Stop()
	for !s.durable() {
		select {
		case <-tick.C:
		case <-late.C:
			s.log.Warn("stopping before all signal is durable: the devices will send it again")
			return
		}
	}
}

func (s *Server) durable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		// Event 0 is the run's beginning.
		if r.isReady() && !r.isOver() && r.live.Durable() < 1+r.taken.Load() {
			return false
		}
	}
	return true
}

// resumeLeft goes on with the runs of which the spool has signal.
func (s *Server) resumeLeft(ctx context.Context) error {
	for _, id := range s.lives.Left() {
		description, err := s.announced(ctx, id)
		if err == nil && description == nil {
			err = fmt.Errorf("the spool has signal of run %s, and neither it nor Kafka has the run's beginning", id)
		}
		if err != nil {
			return err
		}
		s.log.Info("going on with what the spool has of a run", "run", id)
		s.mu.Lock()
		s.begin(description, "")
		s.mu.Unlock()
	}
	return nil
}

// announced is what a run was announced as, in the spool or in Kafka, or nil.
func (s *Server) announced(ctx context.Context, id string) (*streampb.Run, error) {
	description, err := s.lives.Spooled(id)
	if err == nil && description == nil {
		description, err = s.cfg.Catalogue.Announced(ctx, id)
	}
	if description != nil {
		description.EndStatus = 0 // how it ended is no part of what it is
	}
	return description, err
}

// begin has a run written. mu is held.
func (s *Server) begin(description *streampb.Run, device string) *run {
	ctx, cancel := context.WithCancelCause(s.base)
	r := newRun(description, device, cancel)
	s.runs[description.GetId()] = r
	s.cfg.Metrics.addRuns(1)
	s.writers.Go(func() {
		defer s.cfg.Metrics.addRuns(-1)
		defer cancel(nil)
		s.write(ctx, r)
	})
	return r
}

// write writes a run until it is over.
func (s *Server) write(ctx context.Context, r *run) {
	id := r.description.GetId()
	feed := func(ctx context.Context, l *ingest.Live) error {
		if l.Taken() > 1 {
			// The run is ours now, so nothing hides its announcement.
			if err := s.agree(ctx, r.description); err != nil {
				return err
			}
		}
		return r.feed(ctx, l)
	}
	keep := newLedger(r, s.cfg.Ingest.Topics, s.cfg.Catalogue.PushStates)
	err := contain.Call(func() error { return s.lives.RunWith(ctx, r.description, keep, feed) })
	if err == nil && !r.isReady() {
		// The spool had the rest of the run, which is in Kafka now: how much was it?
		err = contain.Call(func() error { return s.lives.RunWith(ctx, r.description, keep, feed) })
	}
	if ended, ok := errors.AsType[*ingest.EndedError](err); ok {
		r.taken.Store(max(ended.Events, 2) - 2)
		err = nil
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	r.err = err
	close(r.over)
	switch {
	case err == nil:
		s.log.Info("run ended", "run", id, "chunks", r.taken.Load())
		return // it is remembered for a while
	case errors.Is(err, errIdle):
		s.log.Info("run left to be gone on with", "run", id, "chunks", r.taken.Load(), "idle", s.cfg.Idle)
	case ctx.Err() == nil:
		s.log.Error("run stopped", "run", id, "err", err)
	}
	s.forget(r)
}

// forget drops a run that is over.
func (s *Server) forget(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id := r.description.GetId(); s.runs[id] == r {
		delete(s.runs, id)
	}
}

// agree returns an error if a run was announced with another description.
func (s *Server) agree(ctx context.Context, description *streampb.Run) error {
	was, err := s.announced(ctx, description.GetId())
	if err != nil || was == nil {
		return err
	}
	return sameRun(was, description)
}

// sameRun refuses a run that was registered as another.
func sameRun(was, now *streampb.Run) error {
	if proto.Equal(was, now) {
		return nil
	}
	return refuse(pushpb.Reason_REASON_CONFLICTING_RUN, "run %s was registered with another %s: a new run needs an id of its own", now.GetId(), difference(was, now))
}

// difference names the first field in which two runs differ.
func difference(was, now *streampb.Run) string {
	a, b := was.ProtoReflect(), now.ProtoReflect()
	fields := a.Descriptor().Fields()
	for i := range fields.Len() {
		if f := fields.Get(i); !a.Get(f).Equal(b.Get(f)) {
			return fmt.Sprintf("%s (%q, and now %q)", f.Name(), fmt.Sprint(a.Get(f)), fmt.Sprint(b.Get(f)))
		}
	}
	return "description"
}

// tidy lets go of runs that nobody pushes, until ctx ends.
func (s *Server) tidy(ctx context.Context) {
	tick := time.NewTicker(min(janitorInterval, s.cfg.Idle))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, r := range s.all() {
				switch {
				case !r.idle(now, s.cfg.Idle):
				case r.isOver():
					s.forget(r)
				default:
					r.cancel(errIdle)
				}
			}
		}
	}
}

func (s *Server) all() []*run {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*run
	for _, r := range s.runs {
		all = append(all, r)
	}
	return all
}

// Register announces a run or finds it again.
func (s *Server) Register(ctx context.Context, req *pushpb.RegisterRequest) (*pushpb.RegisterResponse, error) {
	dev, refused := s.cfg.Authority.device(ctx)
	if refused != nil {
		return nil, s.refuse("", req.GetRun().GetId(), refused)
	}
	if err := s.register(ctx, dev, req.GetRun()); err != nil {
		return nil, s.refuse(dev.name, req.GetRun().GetId(), err)
	}
	return &pushpb.RegisterResponse{Limits: &pushpb.Limits{
		MaxChunkSamples: dev.limits.ChunkSamples, MaxMessageBytes: maxMessage, BytesPerSecond: uint64(dev.limits.BytesPerSecond),
		Channels: uint32(min(dev.limits.Channels, 1<<32-1)), OpenReads: uint32(min(dev.limits.OpenReads, 1<<32-1)),
		Runs: uint32(min(dev.limits.Runs, 1<<32-1)),
	}}, nil
}

func (s *Server) register(ctx context.Context, dev *device, asked *pushpb.Run) error {
	description := s.describe(asked)
	if _, err := stream.EncodeRun(description); err != nil {
		return refuse(pushpb.Reason_REASON_BAD_RUN, "%v", err)
	}
	r, err := s.find(ctx, dev, description)
	if err != nil {
		return err
	}
	if err := sameRun(r.description, description); err != nil {
		return err
	}
	// Whose it is may have to be recalled first.
	if err := s.await(ctx, r); err != nil {
		return err
	}
	if refused := r.claim(dev.name); refused != nil {
		return refused
	}
	return nil
}

// describe is the stream's description of a run.
func (s *Server) describe(m *pushpb.Run) *streampb.Run {
	sample := s.cfg.Ingest.Sample
	for _, name := range []string{m.GetSample(), m.GetId()} {
		if sample == "" {
			sample = name
		}
	}
	return &streampb.Run{
		Id: m.GetId(), Sample: sample, Experiment: m.GetExperiment(), FlowCell: m.GetFlowCell(), FlowCellProduct: m.GetFlowCellProduct(),
		Kit: m.GetKit(), Position: m.GetPosition(), Device: m.GetDevice(), SampleRate: m.GetSampleRate(),
		StartTimeMs: m.GetStartTimeMs(), PoreType: m.GetPoreType(),
	}
}

// find returns a run that is under way or has ended, or begins it.
func (s *Server) find(ctx context.Context, dev *device, description *streampb.Run) (*run, error) {
	if r := s.run(description.GetId()); r != nil {
		return r, nil
	}
	// What another process wrote of it, before it is taken from that.
	asking, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	if err := s.agree(asking, description); err != nil {
		if refused := new(refusal); errors.As(err, &refused) {
			return nil, err
		}
		return nil, refuse(pushpb.Reason_REASON_KAFKA_AWAY, "the run can't be begun: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.runs[description.GetId()]; r != nil {
		return r, nil
	}
	all, own := 0, int64(0)
	for _, r := range s.runs {
		if r.isOver() {
			continue
		}
		all++
		if r.owner() == dev.name {
			own++
		}
	}
	switch {
	case s.isStopping():
		return nil, refuse(pushpb.Reason_REASON_STOPPING, "the server stops")
	case all >= s.cfg.Runs:
		return nil, refuse(pushpb.Reason_REASON_OVER_QUOTA, "%d runs are under way, the limit of the server", all)
	case dev.limits.Runs > 0 && own >= dev.limits.Runs:
		return nil, refuse(pushpb.Reason_REASON_OVER_QUOTA, "%d runs of %q are under way, its limit: end one of them", own, dev.name)
	}
	s.log.Info("run registered", "run", description.GetId(), "device", dev.name, "sample", description.GetSample(), "sample_rate", description.GetSampleRate())
	return s.begin(description, dev.name), nil
}

func (s *Server) run(id string) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[id]
}

func (s *Server) isStopping() bool {
	select {
	case <-s.stopping:
		return true
	default:
		return false
	}
}

// await waits until a run can be held, or has ended.
func (s *Server) await(ctx context.Context, r *run) error {
	late := time.NewTimer(claimTimeout)
	defer late.Stop()
	select {
	case <-r.ready:
		return nil
	case <-r.over:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-late.C:
		return refuse(pushpb.Reason_REASON_KAFKA_AWAY, "run %s waits for Kafka: try again", r.description.GetId())
	}
	refused, permanent := new(refusal), new(ingest.PermanentError)
	if r.err == nil || r.isReady() || errors.As(r.err, &refused) || errors.As(r.err, &permanent) || errors.Is(r.err, ingest.ErrFenced) {
		return r.err
	}
	return refuse(pushpb.Reason_REASON_KAFKA_AWAY, "the run can't be begun: %v", r.err)
}

// limiter is the rate of a device.
func (s *Server) limiter(dev *device) *rate.Limiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.rates[dev.name]
	if l == nil {
		l = rate.NewLimiter(rate.Inf, 0)
		s.rates[dev.name] = l
	}
	if dev.limits.BytesPerSecond > 0 {
		// Two seconds' worth may come at once.
		l.SetLimit(rate.Limit(dev.limits.BytesPerSecond))
		l.SetBurst(int(max(2*dev.limits.BytesPerSecond, minBurst)))
	} else {
		l.SetLimit(rate.Inf)
	}
	return l
}

// refuse counts and logs why a device doesn't get what it asks for, and returns
// what the device gets as the answer.
func (s *Server) refuse(device, run string, err error) error {
	refused := refusalOf(err)
	if refused == nil {
		return err
	}
	s.cfg.Metrics.refused(refused.reason)
	if hidden, logged := s.refusals.allow(device, time.Now()); logged {
		s.log.Warn("device refused", "reason", label(refused.reason), "device", device, "run", shown(run), "why", refused.message, "not_logged_before", hidden)
	}
	return refused
}

// shown cuts what a stranger may have made up for the log.
func shown(name string) string {
	const most = 512
	return name[:min(len(name), most)]
}
