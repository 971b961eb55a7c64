package minknow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/porestream/porestream/ingest/contain"
	"github.com/porestream/porestream/ingest/minknow/minknowpb"
	"github.com/porestream/porestream/stream/streampb"
)

// Timing of a run's signal.
const (
	// checkInterval is how often a silent connection is checked.
	checkInterval = 250 * time.Millisecond
	// silence is for how long nothing has to come before the clock of this machine
	// stands in for the device's.
	silence = 2 * time.Second
	// probeInterval is how often a silent connection is asked whether it is there.
	probeInterval = 10 * time.Second
	// grace is for how long signal is waited for once MinKNOW says that the run is
	// over, and the other way round.
	grace = 3 * time.Second
	// reportInterval is how often new losses are logged.
	reportInterval = time.Minute
)

// taker takes the signal of one run, over as many connections as it needs.
type taker struct {
	position *position
	run      *streampb.Run
	reads    *reads
	log      *slog.Logger
	reported uint64   // missing samples that are in the log
	control  *control // nil: nothing is done with reads
}

// errOver says that MinKNOW has no signal of the run any more.
var errOver = errors.New("the run is over")

// feed hands the run's signal to Kafka's side until the run is over.
func (t *taker) feed(ctx context.Context, to Live) error {
	pause := newBackOff()
	for {
		began := time.Now()
		err := t.connect(ctx, to)
		var permanent *PermanentError
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errOver):
			return t.reads.end(to.Chunk)
		case errors.As(err, &permanent), isKafka(err):
			return err
		}
		t.position.connected(false)
		t.position.fault("the connection to MinKNOW is lost; going on when it is back", err)
		if time.Since(began) > maxPause {
			pause.Reset()
		}
		select {
		case <-time.After(pause.NextBackOff()):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		t.reads.reconnected()
		t.position.metrics.m.reconnects.WithLabelValues(t.position.name).Inc()
	}
}

// connect takes signal over one connection. errOver says that it was the last.
func (t *taker) connect(ctx context.Context, to Live) error {
	conn, address, err := t.position.host.dial(ctx, t.position.name)
	if err != nil {
		return err
	}
	defer conn.Close()
	acquisition, err := current(ctx, minknowpb.NewAcquisitionServiceClient(conn))
	if err != nil {
		return explain(address, err)
	}
	if acquisition.GetRunId() != t.run.GetId() || !under(acquisition) {
		return errOver
	}
	src, err := inspect(ctx, conn, acquisition)
	if err != nil {
		return explain(address, err)
	}
	is, err := src.describe(t.position.name, t.position.cfg.Sample)
	if err == nil {
		err = conflict(t.run, is)
	}
	if err != nil {
		return err
	}
	cfg, err := src.reads(t.position.name, t.position.cfg)
	if err == nil {
		err = t.reads.reconfigure(cfg)
	}
	if err != nil {
		return err
	}
	t.position.connected(true)
	err = t.stream(ctx, conn, to)
	if errors.Is(err, errOver) || isKafka(err) {
		return err
	}
	return explain(address, err)
}

// stream takes what comes over a connection until that ends.
func (t *taker) stream(ctx context.Context, conn *grpc.ClientConn, to Live) error {
	ctx, stop := context.WithCancel(ctx)
	in := newInbox(t.position.cfg.inbox(uint32(len(t.reads.cfg.calibrations)), t.run.GetSampleRate()))
	states := make(chan *minknowpb.AcquisitionRunInfo, 1)
	var group errgroup.Group
	defer func() {
		stop()
		// What they end with is known from the inbox, or of no interest any more.
		if err := group.Wait(); err != nil && !errors.Is(err, io.EOF) {
			t.log.Debug("a call to MinKNOW has ended", "err", err)
		}
	}()
	t.control.disconnected() // what came meanwhile
	defer t.control.disconnected()
	group.Go(func() error {
		in.close(contain.Call(func() error { return t.receive(ctx, conn, in) }))
		return nil
	})
	group.Go(contain.Panics(func() error { return t.watchStates(ctx, conn, states) }))
	group.Go(contain.Panics(func() error { return t.watchPhases(ctx, conn) }))
	group.Go(contain.Panics(func() error { return t.watchChannels(ctx, conn) }))
	return t.loop(ctx, conn, in, states, to)
}

// loop is stream's, once everything is under way.
func (t *taker) loop(ctx context.Context, conn *grpc.ClientConn, in *inbox, states <-chan *minknowpb.AcquisitionRunInfo, to Live) error {
	checks, report := time.NewTicker(checkInterval), time.NewTicker(reportInterval)
	defer checks.Stop()
	defer report.Stop()
	e := runEnd{}
	received := time.Now() // when something came
	probed := received     // when it was certain that the connection is there
	for {
		n, err := t.drain(in, to)
		if n > 0 {
			t.position.sound()
			received, probed = time.Now(), time.Now()
		}
		if err != nil && !e.accepts(err) {
			return err
		}
		if err := e.reached(); err != nil {
			return err
		}
		message, later := t.control.next(t.reads)
		outbox := t.control.outbox(message)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-in.wake:
		case <-t.control.mail():
		case <-later:
		case outbox <- message:
			t.control.handed(message)
		case <-report.C:
			t.report()
		case info, alive := <-states:
			switch {
			case !alive:
				states = nil // the signal's own connection shows whether MinKNOW is there
			case (info.GetRunId() != t.run.GetId() || !under(info)) && !e.over:
				e.runOver()
				t.log.Info("MinKNOW has ended the run", "reason", strings.ToLower(info.GetStopReason().String()))
			}
		case <-checks.C:
			if quiet := time.Since(received); quiet > silence {
				if err := t.reads.quiet(uint64((quiet-silence).Seconds()*float64(t.run.GetSampleRate())), to.Chunk); err != nil {
					return kafkaError{err}
				}
			}
			if time.Since(probed) > probeInterval {
				probed = time.Now()
				if err := probe(ctx, conn); err != nil {
					return err
				}
			}
		}
	}
}

// runEnd is what is known of a run's end. MinKNOW says in two places that a run is over, in its states and by ending
// the stream of signal, and in either order: the loop waits for the other one a while.
type runEnd struct {
	over   bool      // the states say so
	signal error     // why no more signal comes
	since  time.Time // when the first of both was known
}

func (e *runEnd) runOver() {
	e.over = true
	e.begin()
}

func (e *runEnd) begin() {
	if e.since.IsZero() {
		e.since = time.Now()
	}
}

// accepts reports whether an error of draining may be the signal's end with the run, and takes it for that.
func (e *runEnd) accepts(err error) bool {
	switch {
	case isKafka(err):
		return false
	case e.signal != nil:
		return true
	case !e.over && !mayBeOver(err):
		return false
	}
	e.signal = err
	e.begin()
	return true
}

// reached is why the loop ends; nil: it goes on.
func (e *runEnd) reached() error {
	switch {
	case e.over && e.signal != nil:
		return errOver
	case e.since.IsZero() || time.Since(e.since) <= grace:
		return nil
	case e.over:
		return errOver
	}
	return e.signal
}

// mayBeOver reports whether the signal may have ended with the run, which MinKNOW
// says elsewhere.
func mayBeOver(err error) bool {
	return errors.Is(err, io.EOF) || isCode(err, codes.Aborted) || isCode(err, codes.FailedPrecondition)
}

// drain takes everything that is in the inbox, and says how much that was. An
// error that is not Kafka's is why nothing more comes.
func (t *taker) drain(in *inbox, to Live) (int, error) {
	for n := 0; ; n++ {
		m, err := in.take()
		if m == nil {
			return n, err
		}
		refused := t.reads.totals.Refused
		if err := t.reads.take(m, to.Chunk); err != nil {
			return n, kafkaError{err}
		}
		t.control.answers(m, t.reads)
		if t.reads.totals.Refused > refused {
			t.position.fault("signal can't be taken", &PermanentError{"signal", t.reads.fault})
		}
	}
}

// receive puts live reads into the inbox and returns why no more come.
func (t *taker) receive(ctx context.Context, conn *grpc.ClientConn, in *inbox) error {
	call, err := minknowpb.NewDataServiceClient(conn).GetLiveReads(ctx)
	if err != nil {
		return err
	}
	setup := &minknowpb.GetLiveReadsRequest_StreamSetup{
		FirstChannel: 1, LastChannel: uint32(len(t.reads.cfg.calibrations)),
		RawDataType: minknowpb.GetLiveReadsRequest_UNCALIBRATED,
		// With a least size, MinKNOW leaves out the short chunks that end reads.
		SampleMinimumChunkSize: 0,
	}
	t.control.setup(setup)
	if t.reads.cfg.filtered {
		for class := range t.reads.cfg.classes {
			setup.AcceptedFirstChunkClassifications = append(setup.AcceptedFirstChunkClassifications, class)
		}
		slices.Sort(setup.AcceptedFirstChunkClassifications)
	}
	// The sending side stays open: closing it ends the stream.
	if err := call.Send(&minknowpb.GetLiveReadsRequest{Request: &minknowpb.GetLiveReadsRequest_Setup{Setup: setup}}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	defer t.control.send(call)()
	for {
		m, err := call.Recv()
		if err != nil {
			return err
		}
		in.put(m)
	}
}

// watchStates passes on what becomes of the position's run.
func (t *taker) watchStates(ctx context.Context, conn *grpc.ClientConn, states chan<- *minknowpb.AcquisitionRunInfo) error {
	defer close(states)
	watch, err := minknowpb.NewAcquisitionServiceClient(conn).WatchCurrentAcquisitionRun(ctx, &minknowpb.WatchCurrentAcquisitionRunRequest{})
	for err == nil {
		var info *minknowpb.AcquisitionRunInfo
		if info, err = watch.Recv(); err != nil {
			break
		}
		select {
		case states <- info:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

// watchPhases logs what the protocol does with the run: mux scans, pauses.
func (t *taker) watchPhases(ctx context.Context, conn *grpc.ClientConn) error {
	watch, err := minknowpb.NewProtocolServiceClient(conn).WatchCurrentProtocolRun(ctx, &minknowpb.WatchCurrentProtocolRunRequest{})
	phase := minknowpb.ProtocolPhase_PHASE_UNKNOWN
	for err == nil {
		var info *minknowpb.ProtocolRunInfo
		if info, err = watch.Recv(); err == nil && info.GetPhase() != phase {
			phase = info.GetPhase()
			t.log.Info("the protocol goes on to another phase", "phase", strings.ToLower(strings.TrimPrefix(phase.String(), "PHASE_")))
		}
	}
	return err
}

// probe asks whether a connection is there.
func probe(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := minknowpb.NewDeviceServiceClient(conn).GetSampleRate(ctx, &minknowpb.GetSampleRateRequest{})
	return err
}

// report logs what is missing, if that is more than was said before.
func (t *taker) report() {
	if in, _, _ := t.reads.missing(); in > t.reported {
		t.log.Warn("signal of reads is missing", "samples", in-t.reported)
		t.reported = in
	}
}

// worst is how many channels a summary names.
const worst = 16

// summary logs what has come of the run and what has not, with the channels of
// which most is missing.
func (t *taker) summary() {
	in, other, gaps := t.reads.missing()
	n := t.reads.totals
	t.log.Info("the run is not taken any further", "reads", n.Reads, "chunks", n.Chunks, "samples", n.Samples, "gaps", gaps, "missing_samples", in,
		"missing_between_reads", other, "repeated_chunks", n.Repeated, "refused_chunks", n.Refused, "lost_samples", n.Lost)
	if gaps > 0 {
		t.log.Info("channels of which most is missing, as channel:gaps/samples", "channels", strings.Join(t.reads.worst(worst), " "))
	}
	for channel := range t.reads.losses {
		if l := &t.reads.losses[channel]; l.Gaps+l.OtherGaps > 0 {
			in, other := l.missing()
			t.log.Debug("missing of a channel", "channel", channel, "gaps", l.Gaps, "samples", in, "gaps_between_reads", l.OtherGaps, "samples_between_reads", other)
		}
	}
}

// missing sums up what is missing of all channels: samples within reads and
// between them, and gaps in reads.
func (r *reads) missing() (in, other, gaps uint64) {
	for i := range r.losses {
		l := &r.losses[i]
		gaps += l.Gaps
		i, o := l.missing()
		in, other = in+i, other+o
	}
	return in, other, gaps
}

// missing sums up the causes: samples within reads and between them.
func (l *loss) missing() (in, other uint64) {
	for c := range causes {
		in += l.Samples[c]
		other += l.OtherSamples[c]
	}
	return in, other
}

// worst lists the channels of which most is missing in reads, at most n of them.
func (r *reads) worst(n int) []string {
	type channelLoss struct {
		channel       int
		gaps, samples uint64
	}
	var all []channelLoss
	for i := range r.losses {
		l := channelLoss{channel: i, gaps: r.losses[i].Gaps}
		l.samples, _ = r.losses[i].missing()
		if l.samples > 0 {
			all = append(all, l)
		}
	}
	slices.SortStableFunc(all, func(a, b channelLoss) int {
		switch {
		case a.samples > b.samples:
			return -1
		case a.samples < b.samples:
			return 1
		}
		return 0
	})
	var out []string
	for _, l := range all[:min(n, len(all))] {
		out = append(out, fmt.Sprintf("%d:%d/%d", l.channel, l.gaps, l.samples))
	}
	return out
}
