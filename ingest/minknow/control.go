package minknow

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/porestream/porestream/ingest/contain"
	"github.com/porestream/porestream/ingest/minknow/minknowpb"
	"github.com/porestream/porestream/stream/streampb"
)

// control has actions done with the reads of a run. Its methods are for the taker's
// goroutine, but for send. A nil control does nothing.
type control struct {
	decisions *Decisions
	box       *mailbox
	actions   *actions
	metrics   *actionMetrics
	log       *slog.Logger
	// out is where the sender of the connection takes messages from. A sender of
	// messages waits until the one before has been written.
	out chan *minknowpb.GetLiveReadsRequest_Actions
}

func newControl(d *Decisions, m *positionMetrics, log *slog.Logger) *control {
	c := &control{
		decisions: d, metrics: &actionMetrics{positionMetrics: m, answers: make(map[answer]int)}, log: log,
		out: make(chan *minknowpb.GetLiveReadsRequest_Actions),
	}
	c.actions = newActions(d.adaptive, c.metrics)
	return c
}

// open has the run's decisions delivered, until the function that it returns is called.
func (c *control) open(run string) (closeAll func()) {
	if c == nil {
		return func() {}
	}
	// Overruns are reported in the metric alone, which any goroutine may change.
	c.box = c.decisions.open(run, func(d *streampb.Decision) {
		c.metrics.m.decisions.WithLabelValues(c.metrics.position, actionName(d.GetAction()), outcomeOverrun.String()).Inc()
	})
	c.log.Warn("reads of this run are ejected as decisions say", "dry_run", c.actions.cfg.DryRun, "rate", c.actions.cfg.Rate)
	return func() {
		c.decisions.close(run)
		c.disconnected()
		c.summary()
	}
}

// mail returns a channel that reports when decisions have come.
func (c *control) mail() <-chan struct{} {
	if c == nil || c.box == nil {
		return nil
	}
	return c.box.wake
}

// next takes the decisions that have come, and returns the actions that are to be sent,
// or a channel that reports when there may be some.
func (c *control) next(r *reads) (message *minknowpb.GetLiveReadsRequest_Actions, later <-chan time.Time) {
	if c == nil || c.box == nil {
		return nil, nil
	}
	now := time.Now()
	for _, d := range c.box.take() {
		c.actions.decide(d, now, r.inPore)
	}
	message, at := c.actions.next(now, r.inPore)
	if !at.IsZero() {
		later = time.After(time.Until(at))
	}
	return message, later
}

// outbox takes a message, when the connection does; nothing takes no message.
func (c *control) outbox(message *minknowpb.GetLiveReadsRequest_Actions) chan<- *minknowpb.GetLiveReadsRequest_Actions {
	if message == nil {
		return nil
	}
	return c.out
}

func (c *control) handed(message *minknowpb.GetLiveReadsRequest_Actions) {
	c.actions.handed(message, time.Now())
}

// answers takes what a response of MinKNOW's says of actions.
func (c *control) answers(m *minknowpb.GetLiveReadsResponse, r *reads) {
	if c != nil {
		c.actions.answers(m.GetActionResponses(), time.Now(), r.stopped)
	}
}

// disconnected drops what can't be sent any more.
func (c *control) disconnected() {
	if c == nil || c.box == nil {
		return
	}
	now := time.Now()
	for _, d := range c.box.take() {
		c.actions.decide(d, now, func(uint32, string) (string, bool) { return "", true })
	}
	c.actions.lost(now)
}

// setup asks for what the setup of live reads needs besides.
func (c *control) setup(s *minknowpb.GetLiveReadsRequest_StreamSetup) {
	if c != nil && c.actions.cfg.MaxRead > 0 {
		s.MaxUnblockReadLength = &minknowpb.GetLiveReadsRequest_StreamSetup_MaxUnblockReadLengthSeconds{MaxUnblockReadLengthSeconds: c.actions.cfg.MaxRead.Seconds()}
	}
}

// send writes actions to a call until the function that it returns is called.
func (c *control) send(call grpc.BidiStreamingClient[minknowpb.GetLiveReadsRequest, minknowpb.GetLiveReadsResponse]) (stop func()) {
	if c == nil {
		return func() {}
	}
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		err := contain.Call(func() error {
			for {
				select {
				case <-over:
					return nil
				case message := <-c.out:
					if err := call.Send(&minknowpb.GetLiveReadsRequest{Request: &minknowpb.GetLiveReadsRequest_Actions_{Actions: message}}); err != nil {
						return err
					}
				}
			}
		})
		if err != nil {
			c.log.Warn("no more actions are sent over this connection", "err", err)
		}
	}()
	return func() { close(over); <-done }
}

// summary logs what has become of the run's decisions.
func (c *control) summary() {
	attrs := []any{"dry_run", c.actions.cfg.DryRun}
	for o := range outcomes {
		attrs = append(attrs, o.String(), c.metrics.outcomes[o])
	}
	for _, a := range slices.Sorted(maps.Keys(c.metrics.answers)) {
		attrs = append(attrs, "answered_"+string(a), c.metrics.answers[a])
	}
	c.log.Info("what has become of decisions about the run's reads", attrs...)
}
