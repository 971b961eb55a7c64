package minknow

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/porestream/porestream/ingest/minknow/minknowpb"
	"github.com/porestream/porestream/stream/streampb"
)

const (
	goOn    = streampb.DecisionAction_DECISION_ACTION_CONTINUE
	stop    = streampb.DecisionAction_DECISION_ACTION_STOP_RECEIVING
	unblock = streampb.DecisionAction_DECISION_ACTION_UNBLOCK
)

// ledger is an actionObserver that keeps everything.
type ledger struct {
	decisions, answers []string
	outcomes           [outcomes]int
}

func (l *ledger) decided(kind streampb.DecisionAction, o outcome, after time.Duration) {
	l.outcomes[o]++
	l.decisions = append(l.decisions, fmt.Sprintf("%s %s %v", actionName(kind), o, after))
}

func (l *ledger) answered(kind streampb.DecisionAction, a answer, after time.Duration) {
	l.answers = append(l.answers, fmt.Sprintf("%s %s %v", actionName(kind), a, after))
}

// noon is when the tests' actions begin.
var noon = time.UnixMilli(1_700_000_000_000)

// decision is about a read whose last chunk came at noon.
func decision(channel uint32, read string, kind streampb.DecisionAction) *streampb.Decision {
	return &streampb.Decision{Run: "run", Channel: channel, ReadId: read, Action: kind, LastChunkMs: noon.UnixMilli()}
}

// pores holds which reads are in them, by channel.
type pores map[uint32]string

func (p pores) in(channel uint32, read string) (string, bool) {
	return "minknow-" + p[channel], p[channel] == read && read != ""
}

// sends hands over all that may be sent at a time.
func (a *actions) sends(now time.Time, p pores) []*minknowpb.GetLiveReadsRequest_Action {
	m, _ := a.next(now, p.in)
	if m == nil {
		return nil
	}
	a.handed(m, now)
	return m.GetActions()
}

func scriptOf(all []*minknowpb.GetLiveReadsRequest_Action) string {
	var out []string
	for _, x := range all {
		text := fmt.Sprintf("%d %s stop", x.GetChannel(), x.GetId())
		if x.GetUnblock() != nil {
			text = fmt.Sprintf("%d %s unblock %gs", x.GetChannel(), x.GetId(), x.GetUnblock().GetDuration())
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestActions(t *testing.T) {
	at := func(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }
	t.Run("sent and answered", func(t *testing.T) {
		l := new(ledger)
		a, p := newActions(Adaptive{}, l), pores{1: "r1", 2: "r2", 3: "r3", 4: "r4"}
		for i, kind := range []streampb.DecisionAction{unblock, stop, goOn, unblock} {
			a.decide(decision(uint32(i)+1, fmt.Sprintf("r%d", i+1), kind), at(90), p.in)
		}
		sent := a.sends(at(100), p)
		if got, want := scriptOf(sent), "1 minknow-r1 unblock 0.1s; 2 minknow-r2 stop; 4 minknow-r4 unblock 0.1s"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if again := a.sends(at(101), p); again != nil {
			t.Errorf("sent again: %s", scriptOf(again))
		}
		expect(t, "decisions", l.decisions, "continue kept 90ms", "unblock sent 100ms", "stop_receiving sent 100ms", "unblock sent 100ms")
		var stopped []string
		a.answers([]*minknowpb.GetLiveReadsResponse_ActionResponse{
			{ActionId: sent[1].GetActionId()},
			{ActionId: sent[0].GetActionId(), Response: minknowpb.GetLiveReadsResponse_ActionResponse_FAILED_READ_FINISHED},
			{ActionId: sent[2].GetActionId(), Response: minknowpb.GetLiveReadsResponse_ActionResponse_FAILED_READ_TOO_LONG},
			{ActionId: sent[2].GetActionId()}, {ActionId: "somebody else's"},
		}, at(150), func(channel uint32, read string) { stopped = append(stopped, fmt.Sprint(channel, read)) })
		expect(t, "answers", l.answers, "stop_receiving success 150ms", "unblock read_finished 150ms", "unblock read_too_long 150ms")
		expect(t, "stopped", stopped, "2r2")
	})
	t.Run("the first decision stands", func(t *testing.T) {
		l := new(ledger)
		a, p := newActions(Adaptive{}, l), pores{1: "a", 2: "b"}
		a.decide(decision(1, "a", goOn), noon, p.in)
		a.decide(decision(1, "a", unblock), noon, p.in)
		a.decide(decision(2, "b", unblock), noon, p.in)
		a.decide(decision(2, "b", unblock), noon, p.in)
		if got := scriptOf(a.sends(noon, p)); got != "2 minknow-b unblock 0.1s" {
			t.Error(got)
		}
		a.decide(decision(2, "b", unblock), noon, p.in)
		if got := a.sends(noon, p); got != nil {
			t.Error(scriptOf(got))
		}
		if l.outcomes[outcomeRepeated] != 3 {
			t.Error(l.decisions)
		}
	})
	t.Run("never of a read that has ended", func(t *testing.T) {
		l := new(ledger)
		a, p := newActions(Adaptive{}, l), pores{1: "a"}
		a.decide(decision(1, "before", unblock), noon, p.in)
		a.decide(decision(7, "nowhere", unblock), noon, p.in)
		a.decide(decision(1, "a", unblock), noon, p.in)
		p[1] = "next" // before it could be sent
		if got := a.sends(noon, p); got != nil {
			t.Error(scriptOf(got))
		}
		expect(t, "decisions", l.decisions, "unblock read_ended 0s", "unblock read_ended 0s", "unblock read_ended 0s")
	})
	t.Run("no more than the rate", func(t *testing.T) {
		l := new(ledger)
		a, p := newActions(Adaptive{Rate: 2}, l), pores{}
		for c := uint32(1); c <= 5; c++ {
			p[c] = fmt.Sprint("r", c)
			a.decide(decision(c, p[c], unblock), noon, p.in)
		}
		if got := a.sends(noon, p); len(got) != 2 {
			t.Errorf("%d at first, want a second's worth", len(got))
		}
		message, later := a.next(noon, p.in)
		if message != nil || later.Before(at(500)) || later.After(at(510)) {
			t.Errorf("next at %v, want half a second later", later)
		}
		if got := a.sends(later, p); len(got) != 1 || got[0].GetChannel() != 3 {
			t.Errorf("%s", scriptOf(got))
		}
		p[4] = "another" // while it waits
		if got := a.sends(at(5000), p); len(got) != 1 || got[0].GetChannel() != 5 {
			t.Errorf("%s", scriptOf(got))
		}
	})
	t.Run("a dry run", func(t *testing.T) {
		l := new(ledger)
		a, p := newActions(Adaptive{DryRun: true}, l), pores{1: "a", 2: "b"}
		a.decide(decision(1, "a", unblock), noon, p.in)
		a.decide(decision(2, "b", goOn), noon, p.in)
		if got := a.sends(at(7), p); got != nil {
			t.Error(scriptOf(got))
		}
		expect(t, "decisions", l.decisions, "continue kept 0s", "unblock dry_run 7ms")
	})
	t.Run("a decision that is only tried", func(t *testing.T) {
		l := new(ledger)
		a, p := newActions(Adaptive{}, l), pores{1: "a", 2: "b"}
		d := decision(1, "a", unblock)
		d.DryRun = true
		a.decide(d, noon, p.in)
		a.decide(decision(2, "b", unblock), noon, p.in)
		if got := scriptOf(a.sends(noon, p)); got != "2 minknow-b unblock 0.1s" {
			t.Error(got)
		}
		expect(t, "decisions", l.decisions, "unblock dry_run 0s", "unblock sent 0s")
	})
	t.Run("the connection is lost", func(t *testing.T) {
		l := new(ledger)
		a, p := newActions(Adaptive{Rate: 1}, l), pores{1: "a", 2: "b"}
		a.decide(decision(1, "a", unblock), noon, p.in)
		a.decide(decision(2, "b", unblock), noon, p.in)
		sent := a.sends(noon, p)
		a.lost(at(100))
		if got := a.sends(at(9000), p); got != nil {
			t.Errorf("sent over the next connection: %s", scriptOf(got))
		}
		a.answers([]*minknowpb.GetLiveReadsResponse_ActionResponse{{ActionId: sent[0].GetActionId()}}, at(9000), nil)
		expect(t, "decisions", l.decisions, "unblock sent 0s", "unblock disconnected 100ms")
		expect(t, "answers", l.answers, "unblock disconnected -1ns")
	})
	t.Run("no answer", func(t *testing.T) {
		l := new(ledger)
		a, p := newActions(Adaptive{}, l), pores{1: "a"}
		d := decision(1, "a", unblock)
		d.LastChunkMs = 0
		a.decide(d, noon, p.in)
		a.sends(noon, p)
		a.sends(noon.Add(unansweredAfter), p)
		expect(t, "decisions", l.decisions, "unblock sent -1ns")
		expect(t, "answers", l.answers, "unblock none -1ns")
	})
}

// TestActionsKeepTheirPromises: whatever is decided and whatever becomes of reads, one
// action at most is sent of a read, none of a read that is not in its pore, no more
// than the rate allows, and each decision has one outcome.
func TestActionsKeepTheirPromises(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	for range 200 {
		l := new(ledger)
		const perSecond = 20
		a, p := newActions(Adaptive{Rate: perSecond}, l), pores{}
		now, reads, decisions := noon, 0, 0
		acted, sent := make(map[string]bool), 0
		for range 400 {
			now = now.Add(time.Duration(rng.IntN(40)) * time.Millisecond)
			channel := uint32(rng.IntN(6)) + 1
			switch rng.IntN(10) {
			case 0, 1:
				reads++
				p[channel] = fmt.Sprint("r", reads)
			case 2:
				if rng.IntN(20) == 0 {
					a.lost(now)
				}
			default:
				d := decision(channel, p[channel], []streampb.DecisionAction{goOn, stop, unblock}[rng.IntN(3)])
				if rng.IntN(5) == 0 {
					d.ReadId = fmt.Sprint("r", rng.IntN(reads+1))
				}
				d.DryRun = rng.IntN(9) == 0
				a.decide(d, now, p.in)
				decisions++
			}
			for _, x := range a.sends(now, p) {
				read := strings.TrimPrefix(x.GetId(), "minknow-")
				if p[x.GetChannel()] != read {
					t.Fatalf("an action of read %s, and %s is in the pore", read, p[x.GetChannel()])
				}
				if acted[read] {
					t.Fatalf("two actions of read %s", read)
				}
				acted[read] = true
				sent++
			}
			if most := perSecond + int(now.Sub(noon).Seconds()*perSecond) + 1; sent > most {
				t.Fatalf("%d actions after %v", sent, now.Sub(noon))
			}
		}
		a.lost(now)
		total := 0
		for _, n := range l.outcomes {
			total += n
		}
		if total != decisions || l.outcomes[outcomeSent] != sent || len(a.pending)+len(a.sent) != 0 {
			t.Fatalf("%d decisions have %d outcomes; %d sent, %d counted", decisions, total, sent, l.outcomes[outcomeSent])
		}
	}
}

// TestMailbox: decisions about other runs are nobody's, and too many are counted.
func TestMailbox(t *testing.T) {
	d, err := NewDecisions(Adaptive{})
	if err != nil {
		t.Fatal(err)
	}
	full := 0
	box := d.open("run", func(*streampb.Decision) { full++ })
	other := decision(1, "a", unblock)
	other.Run = "other"
	d.Deliver(other)
	for range maxMail + 3 {
		d.Deliver(decision(1, "a", unblock))
	}
	if n := len(box.take()); n != maxMail || full != 3 {
		t.Errorf("%d decisions have come, %d were too many", n, full)
	}
	<-box.wake
	d.close("run")
	d.Deliver(decision(1, "a", unblock))
	if n := len(box.take()); n != 0 {
		t.Errorf("%d decisions behind the end", n)
	}
	if _, err := NewDecisions(Adaptive{Rate: -1, Unblock: -1, MaxRead: -1}); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("%v, want all three faults", err)
	}
}

// TestStoppedRead: what MinKNOW was asked not to send is no loss, and the read ends
// with what has come.
func TestStoppedRead(t *testing.T) {
	r, c := newTestReads(1, false)
	s := &sink{t: t}
	for _, m := range []*minknowpb.GetLiveReadsResponse{
		response(piece{channel: 1, id: "a", end: 100, class: strandClass}),
		response(piece{channel: 1, id: "b", readStart: 300, start: 300, end: 350, class: poreClass}),
	} {
		if err := r.take(m, s.take); err != nil {
			t.Fatal(err)
		}
		r.stopped(1, "a")
		r.stopped(1, "x")
		r.stopped(9, "a")
	}
	if got := s.script(); got != "a@0 0+100; a@0 100+0 end unknown" {
		t.Error(got)
	}
	if c.samples[stopped].in != 200 || c.samples[skipped].in != 0 {
		t.Errorf("%+v", c.samples)
	}
}
