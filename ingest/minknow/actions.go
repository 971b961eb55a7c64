package minknow

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/porestream/porestream/ingest/minknow/minknowpb"
	"github.com/porestream/porestream/stream/streampb"
)

const (
	// maxBatch bounds the actions of one message.
	maxBatch = 256
	// unansweredAfter is when the answer to an action is not waited for any more.
	unansweredAfter = time.Minute
)

// outcome is what has become of a decision.
type outcome int

const (
	outcomeSent         outcome = iota // it was sent to MinKNOW
	outcomeDryRun                      // it would have been
	outcomeKept                        // the read goes on, for which there is nothing to do
	outcomeEnded                       // the read is not in its pore any more, or not known
	outcomeRepeated                    // the read had its decision
	outcomeDisconnected                // there is no connection to MinKNOW
	outcomeOverrun                     // too many decisions came at a time
	outcomes
)

func (o outcome) String() string {
	return [...]string{"sent", "dry_run", "kept", "read_ended", "repeated", "disconnected", "overrun"}[o]
}

// answer is what has become of an action.
type answer string

const (
	answerDisconnected answer = "disconnected" // the connection was lost first
	answerNone         answer = "none"         // MinKNOW has said nothing for a minute
)

// answerOf is MinKNOW's answer as it is counted.
func answerOf(r minknowpb.GetLiveReadsResponse_ActionResponse_Response) answer {
	switch r {
	case minknowpb.GetLiveReadsResponse_ActionResponse_SUCCESS:
		return "success"
	case minknowpb.GetLiveReadsResponse_ActionResponse_FAILED_READ_FINISHED:
		return "read_finished"
	case minknowpb.GetLiveReadsResponse_ActionResponse_FAILED_READ_TOO_LONG:
		return "read_too_long"
	}
	return "unknown"
}

// actionObserver is called with the outcomes of decisions and actions, and how long
// each came after MinKNOW had sent the last chunk that the decision rests on. A
// negative time is not known.
type actionObserver interface {
	decided(kind streampb.DecisionAction, o outcome, after time.Duration)
	answered(kind streampb.DecisionAction, a answer, after time.Duration)
}

// inPore returns MinKNOW's id of a read of the stream, if that is the read that its
// channel sequences now.
type inPore func(channel uint32, read string) (id string, is bool)

// actions turns decisions about reads into actions: the first decision of a read
// counts, and none is sent about a read that has ended. It is pure.
type actions struct {
	cfg      Adaptive
	observer actionObserver
	limit    *rate.Limiter
	decided  map[uint32]string  // by channel: the newest read that a decision was about
	pending  []*action          // to be sent, the oldest first; one per channel
	sent     map[string]*action // by id: not answered yet
	swept    time.Time          // when unanswered ones were last searched for
	number   uint64             // of the next action
}

// action is something to be done with a read.
type action struct {
	id      string // of the action
	kind    streampb.DecisionAction
	channel uint32
	read    string    // in the stream
	chunk   time.Time // when the last chunk that it rests on came; zero: not known
	dry     bool
	sent    time.Time
}

func (a *action) after(now time.Time) time.Duration {
	if a.chunk.IsZero() {
		return -1
	}
	return max(0, now.Sub(a.chunk))
}

func newActions(cfg Adaptive, o actionObserver) *actions {
	cfg = cfg.withDefaults()
	// Bursts of a whole flow cell are what follows from chunks that end together.
	return &actions{
		cfg: cfg, observer: o, limit: rate.NewLimiter(rate.Limit(cfg.Rate), max(1, int(cfg.Rate))),
		decided: make(map[uint32]string), sent: make(map[string]*action),
	}
}

// decide takes a decision.
func (a *actions) decide(d *streampb.Decision, now time.Time, in inPore) {
	x := &action{kind: d.GetAction(), channel: d.GetChannel(), read: d.GetReadId(), dry: d.GetDryRun() || a.cfg.DryRun}
	if ms := d.GetLastChunkMs(); ms > 0 {
		x.chunk = time.UnixMilli(ms)
	}
	_, is := in(x.channel, x.read)
	switch {
	case a.decided[x.channel] == x.read:
		a.report(x, outcomeRepeated, now)
	case !is:
		a.report(x, outcomeEnded, now)
	default:
		a.decided[x.channel] = x.read
		if x.kind == streampb.DecisionAction_DECISION_ACTION_CONTINUE {
			a.report(x, outcomeKept, now)
			return
		}
		a.pending = append(a.pending, x)
	}
}

func (a *actions) report(x *action, o outcome, now time.Time) {
	a.observer.decided(x.kind, o, x.after(now))
}

// next returns the actions that may be sent now, and when there may be more: never if
// that is zero. They stay pending until handed.
func (a *actions) next(now time.Time, in inPore) (message *minknowpb.GetLiveReadsRequest_Actions, later time.Time) {
	a.sweep(now)
	allowed := int(a.limit.TokensAt(now))
	var list []*minknowpb.GetLiveReadsRequest_Action
	kept := a.pending[:0]
	for _, x := range a.pending {
		id, is := in(x.channel, x.read)
		switch {
		case !is:
			a.report(x, outcomeEnded, now)
			continue
		case allowed == 0 || len(list) == maxBatch:
		case x.dry:
			allowed--
			a.limit.AllowN(now, 1)
			a.report(x, outcomeDryRun, now)
			continue
		default:
			allowed--
			if x.id == "" {
				a.number++
				x.id = fmt.Sprintf("porestream-%d", a.number)
			}
			list = append(list, a.message(x, id))
		}
		kept = append(kept, x)
	}
	clear(a.pending[len(kept):])
	a.pending = kept
	if len(list) > 0 {
		return &minknowpb.GetLiveReadsRequest_Actions{Actions: list}, time.Time{}
	}
	if len(a.pending) > 0 {
		later = now.Add(time.Duration((1 - a.limit.TokensAt(now)) / a.cfg.Rate * float64(time.Second))).Add(time.Millisecond)
	}
	return nil, later
}

func (a *actions) message(x *action, read string) *minknowpb.GetLiveReadsRequest_Action {
	m := &minknowpb.GetLiveReadsRequest_Action{ActionId: x.id, Channel: x.channel, Read: &minknowpb.GetLiveReadsRequest_Action_Id{Id: read}}
	if x.kind == streampb.DecisionAction_DECISION_ACTION_UNBLOCK {
		m.Action = &minknowpb.GetLiveReadsRequest_Action_Unblock{Unblock: &minknowpb.GetLiveReadsRequest_UnblockAction{Duration: a.cfg.Unblock.Seconds()}}
	} else {
		m.Action = &minknowpb.GetLiveReadsRequest_Action_StopFurtherData{StopFurtherData: &minknowpb.GetLiveReadsRequest_StopFurtherData{}}
	}
	return m
}

// handed notes that actions are on their way to MinKNOW.
func (a *actions) handed(m *minknowpb.GetLiveReadsRequest_Actions, now time.Time) {
	ids := make(map[string]bool, len(m.GetActions()))
	for _, x := range m.GetActions() {
		ids[x.GetActionId()] = true
	}
	a.limit.AllowN(now, len(ids))
	a.pending = slices.DeleteFunc(a.pending, func(x *action) bool {
		if !ids[x.id] {
			return false
		}
		x.sent = now
		a.sent[x.id] = x
		a.report(x, outcomeSent, now)
		return true
	})
}

// answers takes what MinKNOW says of actions, and calls stopped for each read that it
// sends no more of.
func (a *actions) answers(all []*minknowpb.GetLiveReadsResponse_ActionResponse, now time.Time, stopped func(channel uint32, read string)) {
	for _, r := range all {
		x := a.sent[r.GetActionId()]
		if x == nil {
			continue // of an earlier connection, or answered twice
		}
		delete(a.sent, x.id)
		a.observer.answered(x.kind, answerOf(r.GetResponse()), x.after(now))
		if x.kind == streampb.DecisionAction_DECISION_ACTION_STOP_RECEIVING && r.GetResponse() == minknowpb.GetLiveReadsResponse_ActionResponse_SUCCESS {
			stopped(x.channel, x.read)
		}
	}
}

// sweep gives up answers that don't come.
func (a *actions) sweep(now time.Time) {
	if now.Sub(a.swept) < unansweredAfter/4 {
		return
	}
	a.swept = now
	for id, x := range a.sent {
		if now.Sub(x.sent) >= unansweredAfter {
			delete(a.sent, id)
			a.observer.answered(x.kind, answerNone, -1)
		}
	}
}

// lost notes that the connection is gone: nothing that was to be sent over it is of use any more.
func (a *actions) lost(now time.Time) {
	for _, x := range a.pending {
		a.report(x, outcomeDisconnected, now)
	}
	for _, x := range a.sent {
		a.observer.answered(x.kind, answerDisconnected, -1)
	}
	a.pending = nil
	clear(a.sent)
}
