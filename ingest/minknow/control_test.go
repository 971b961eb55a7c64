package minknow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/porestream/porestream/ingest/minknow/minknowpb"
	"github.com/porestream/porestream/ingest/minknow/minknowsim"
	"github.com/porestream/porestream/stream/streampb"
)

// decider makes a decision about each read as soon as its first chunk has come.
type decider struct {
	Live
	decisions *Decisions
	choose    func(c *streampb.SignalChunk) streampb.DecisionAction

	mu     sync.Mutex
	chosen map[string]streampb.DecisionAction
}

func (d *decider) Chunk(c *streampb.SignalChunk) (bool, error) {
	ok, err := d.Live.Chunk(c)
	if c.GetNumber() == 0 && !c.GetEndOfRead() {
		kind := d.choose(c)
		d.mu.Lock()
		d.chosen[c.GetReadId()] = kind
		d.mu.Unlock()
		for range 2 { // the second one changes nothing
			d.decisions.Deliver(&streampb.Decision{Run: c.GetRun(), Channel: c.GetChannel(), ReadId: c.GetReadId(), Action: kind, LastChunkMs: time.Now().UnixMilli()})
		}
	}
	return ok, err
}

// decidingRuns has reads decided about while they are kept.
type decidingRuns struct {
	*keptRuns
	*decider
}

func (r decidingRuns) Run(ctx context.Context, run *streampb.Run, feed func(context.Context, Live) error) error {
	return r.keptRuns.Run(ctx, run, func(ctx context.Context, l Live) error {
		r.decider.Live = l
		return feed(ctx, r.decider)
	})
}

// TestActionsReachTheSequencer: a third of the reads is ejected, a third not sent any
// further, and what the sequencer says of that is what is counted.
func TestActionsReachTheSequencer(t *testing.T) {
	t.Parallel()
	want, file := recording(t, 30)
	s := startSim(t, certificates(t, time.Hour), file, "--channels", "12", "--pace", "3", "--chunk", "0.4")
	decisions, err := NewDecisions(Adaptive{Unblock: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	kept := keepRuns()
	d := &decider{decisions: decisions, chosen: make(map[string]streampb.DecisionAction), choose: func(c *streampb.SignalChunk) streampb.DecisionAction {
		return []streampb.DecisionAction{goOn, stop, unblock}[c.GetChannel()%3]
	}}
	cfg := s.config(decidingRuns{kept, d})
	cfg.Once, cfg.Decisions = true, decisions
	if err := Follow(t.Context(), cfg); err != nil {
		t.Fatalf("%v\n%s", err, s.log)
	}
	said := s.actions()
	byRead, answers := make(map[string]minknowsim.Action), make(map[string]float64)
	for _, a := range said {
		if _, twice := byRead[a.Read]; twice {
			t.Errorf("two actions of read %s", a.Read)
		}
		byRead[a.Read] = a
		kind := map[string]streampb.DecisionAction{"unblock": unblock, "stop_further_data": stop}[a.Kind]
		if d.chosen[a.Read] != kind || kind == goOn {
			t.Errorf("%+v, though %v was decided", a, d.chosen[a.Read])
		}
		answers[actionName(kind)+" "+strings.ToLower(strings.TrimPrefix(a.Answer, "FAILED_"))]++
	}
	counted := 0.0
	for _, kind := range []streampb.DecisionAction{stop, unblock} {
		for _, a := range []string{"success", "read_finished", "read_too_long"} {
			n := testutil.ToFloat64(cfg.Metrics.answers.WithLabelValues("MN00001", actionName(kind), a))
			if n != answers[actionName(kind)+" "+a] {
				t.Errorf("%v %s: %g are counted, the sequencer has %g", kind, a, n, answers[actionName(kind)+" "+a])
			}
			counted += n
		}
	}
	// Of ten reads of seconds one is still there when the action comes, on any machine.
	if counted < 6 || answers["unblock success"] < 1 || answers["stop_receiving success"] < 1 {
		t.Errorf("only %v", answers)
	}
	if n := testutil.ToFloat64(cfg.Metrics.decisions.WithLabelValues("MN00001", "continue", "kept")); n < 5 {
		t.Errorf("%g reads go on", n)
	}

	run := kept.only(t)
	reads := run.reads()
	checkSignal(t, reads, want)
	for id, r := range reads {
		a, acted := byRead[id]
		whole := len(r.have) == len(want[id].levels)
		switch {
		case !acted || a.Answer != "SUCCESS":
			if !whole {
				t.Errorf("read %s has %d of %d samples, and nothing was done with it", id, len(r.have), len(want[id].levels))
			}
		case a.Kind == "unblock":
			if r.reason != "data_service_unblock_mux_change" || uint64(len(r.have)) != a.Progress+1 {
				t.Errorf("read %s was ejected after %d samples: %d have come, it ended with %s", id, a.Progress, len(r.have), r.reason)
			}
		case uint64(len(r.have)) > a.Progress+1 || r.total != uint64(len(r.have)):
			t.Errorf("read %s was not to be sent after %d samples: %d have come, and it ended at %d", id, a.Progress, len(r.have), r.total)
		}
	}
	if n := testutil.ToFloat64(cfg.Metrics.samples.WithLabelValues("MN00001", "skipped", "read")); n != 0 {
		t.Errorf("%g samples are counted as skipped; none were", n)
	}
}

// TestDryRunReachesNoSequencer: nothing reaches the sequencer, and what would have is counted.
func TestDryRunReachesNoSequencer(t *testing.T) {
	t.Parallel()
	want, file := recording(t, 12)
	s := startSim(t, certificates(t, time.Hour), file, "--channels", "12", "--pace", "4", "--chunk", "0.4")
	decisions, err := NewDecisions(Adaptive{DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	kept := keepRuns()
	d := &decider{decisions: decisions, chosen: make(map[string]streampb.DecisionAction), choose: func(*streampb.SignalChunk) streampb.DecisionAction { return unblock }}
	cfg := s.config(decidingRuns{kept, d})
	cfg.Once, cfg.Decisions = true, decisions
	if err := Follow(t.Context(), cfg); err != nil {
		t.Fatalf("%v\n%s", err, s.log)
	}
	said := s.actions()
	if len(said) != 0 {
		t.Errorf("%+v", said)
	}
	if n := testutil.ToFloat64(cfg.Metrics.decisions.WithLabelValues("MN00001", "unblock", "dry_run")); n < 1 {
		t.Errorf("%g would have been ejected, of %d", n, len(want))
	}
	checkSignal(t, kept.only(t).reads(), want)
}

// fakeCall is the sending side of a call.
type fakeCall struct {
	grpc.BidiStreamingClient[minknowpb.GetLiveReadsRequest, minknowpb.GetLiveReadsResponse]
	sent chan *minknowpb.GetLiveReadsRequest_Actions
	err  error
}

func (f fakeCall) Send(m *minknowpb.GetLiveReadsRequest) error {
	if f.err == nil {
		f.sent <- m.GetActions()
	}
	return f.err
}

// controlled makes a taker with a control, and its inbox.
func controlled(t *testing.T, a Adaptive) (*taker, *inbox, *liveSink) {
	t.Helper()
	d, err := NewDecisions(a)
	if err != nil {
		t.Fatal(err)
	}
	tk := newTaker()
	tk.control = newControl(d, tk.position.metrics, tk.log)
	t.Cleanup(tk.control.open("run"))
	return tk, newInbox(1 << 20), &liveSink{sink: sink{t: t}}
}

func counts(t *testing.T, tk *taker, kind streampb.DecisionAction, want map[outcome]float64) {
	t.Helper()
	for o, n := range want {
		if got := testutil.ToFloat64(tk.control.metrics.m.decisions.WithLabelValues("X1", actionName(kind), o.String())); got != n {
			t.Errorf("%v: %g, want %g", o, got, n)
		}
	}
}

// TestControl: decisions are sent while the taker waits, held by the rate, and dropped
// with the connection.
func TestControl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tk, in, s := controlled(t, Adaptive{Rate: 1})
		call := fakeCall{sent: make(chan *minknowpb.GetLiveReadsRequest_Actions)}
		stopSending := tk.control.send(call)
		done := make(chan error, 1)
		go func() { done <- tk.loop(t.Context(), nil, in, nil, s) }()
		m := response(piece{channel: 1, id: "a", end: 100, class: strandClass})
		m.Channels[2] = response(piece{channel: 2, id: "b", end: 100, class: strandClass}).GetChannels()[2]
		in.put(m)
		synctest.Wait()
		tk.control.decisions.Deliver(decision(1, "a", unblock))
		tk.control.decisions.Deliver(decision(2, "b", unblock))
		tk.control.decisions.Deliver(decision(2, "x", unblock))
		first := <-call.sent
		if got := scriptOf(first.GetActions()); got != "1 a unblock 0.1s" {
			t.Error(got)
		}
		in.put(&minknowpb.GetLiveReadsResponse{ActionResponses: []*minknowpb.GetLiveReadsResponse_ActionResponse{{ActionId: first.GetActions()[0].GetActionId()}}})
		synctest.Wait()
		if n := testutil.ToFloat64(tk.control.metrics.m.answers.WithLabelValues("X1", "unblock", "success")); n != 1 {
			t.Errorf("%g answers", n)
		}
		in.close(status.Error(codes.Unavailable, "away"))
		if err := <-done; !isCode(err, codes.Unavailable) {
			t.Error(err)
		}
		stopSending()
		tk.control.disconnected()
		counts(t, tk, unblock, map[outcome]float64{outcomeSent: 1, outcomeEnded: 1, outcomeDisconnected: 1})
	})
}

// TestSendingFails: the taker goes on taking signal when nothing can be sent.
func TestSendingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tk, in, s := controlled(t, Adaptive{})
		stopSending := tk.control.send(fakeCall{err: errors.New("broken")})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- tk.loop(ctx, nil, in, nil, s) }()
		for i := range uint64(3) {
			in.put(response(piece{channel: 1, id: fmt.Sprint("r", i), readStart: 100 * i, start: 100 * i, end: 100*i + 100, class: strandClass}))
			synctest.Wait()
			tk.control.decisions.Deliver(decision(1, fmt.Sprint("r", i), unblock))
			synctest.Wait()
		}
		if got := s.script(); !strings.Contains(got, "r2@200 0+100") {
			t.Error(got)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		stopSending()
		tk.control.disconnected()
		// The first went to the call that broke, the second waited until its read ended.
		counts(t, tk, unblock, map[outcome]float64{outcomeSent: 1, outcomeEnded: 1, outcomeDisconnected: 1})
	})
}
