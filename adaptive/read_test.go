package adaptive

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// ramp are samples whose values show where in their read they are.
func ramp(first, n int) []int16 {
	out := make([]int16, n)
	for i := range out {
		out[i] = int16(first + i)
	}
	return out
}

// TestRead plays scripts: "+N" adds the next N samples, "@P+N" N samples from P on,
// "look" evaluates, with "wait", "done" or "decide" as its end.
func TestRead(t *testing.T) {
	s := Schedule{First: 100, Limit: 800}
	for _, tt := range []struct{ name, script, want string }{
		{"four looks", "+100 look wait +100 look wait +200 look wait +400 look wait +1000 look", "0-100 0-200 0-400 0-800! -"},
		{"too little", "+99 look +1 look wait", "- 0-100"},
		{"chunks of their own length", "+320 look wait +320 look wait +320 look wait", "0-320 0-640 0-800!"},
		{"one decision", "+100 look decide +700 look", "0-100 -"},
		{"one look at a time", "+100 look +700 look wait look decide", "0-100 - 0-800!"},
		{"given back", "+100 look done look done look decide", "0-100 0-100 0-100"},
		{"given back and more", "+100 look done +100 look wait", "0-100 0-200"},
		{"all at once", "+5000 look decide", "0-800!"},
		{"twice", "+100 @0+100 @50+50 look wait look @50+150 look wait", "0-100 - 0-200"},
		{"ended", "+100 look wait +100 end look +600 look", "0-100 - -"},
		{"ended while looking", "+100 look end wait +100 look", "0-100 -"},
		{"a gap", "+100 look wait @150+50 look @200+50 look wait", "0-100 - 150-250"},
		{"no beginning", "@300+99 look +1 look wait", "- 300-400"},
		{"a gap while looking", "+100 look @150+100 wait look wait", "0-100 150-250"},
		{"too late to begin", "@800+400 look", "-"},
		{"a gap behind the limit", "+100 look wait @900+400 look +400 look", "0-100 - -"},
		{"looks are bounded with gaps, too", "+100 look wait @200+100 look wait @400+100 look wait @600+100 look wait @750+800 look", "0-100 200-300 400-500 600-700! -"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, next := NewRead(s), 0
			var got []string
			for step := range strings.FieldsSeq(tt.script) {
				var at, n int
				switch step {
				case "look":
					samples, last, due := r.Begin()
					if !due {
						got = append(got, "-")
						continue
					}
					text := fmt.Sprintf("%d-%d", samples[0], int(samples[0])+len(samples))
					if last {
						text += "!"
					}
					got = append(got, text)
				case "wait":
					r.Evaluated(Verdict{Action: Wait})
				case "done":
					r.Done()
				case "end":
					r.End()
				case "decide":
					if !r.Evaluated(Verdict{Action: Unblock}) || !r.Decided() {
						t.Error("not decided")
					}
				default:
					if k, _ := fmt.Sscanf(step, "@%d+%d", &at, &n); k < 2 {
						fmt.Sscanf(step, "+%d", &n)
						at = next
					}
					r.Add(uint64(at), ramp(at, n))
					next = max(next, at+n)
				}
			}
			if text := strings.Join(got, " "); text != tt.want {
				t.Errorf("%s, want %s", text, tt.want)
			}
		})
	}
}

// TestReadKeepsItsPromises: whatever comes of a read, evaluations are of its own
// samples without a gap, at most as many as the schedule says get a verdict, there
// is one decision at most, and no more is held than the limit.
func TestReadKeepsItsPromises(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		s := Schedule{First: 1 + rng.IntN(50), Limit: 0}
		s.Limit = s.First + rng.IntN(400)
		r := NewRead(s)
		var evaluation, seen []int16
		evaluated, decisions, at := 0, 0, 0
		for range 200 {
			switch rng.IntN(8) {
			case 0:
				at += rng.IntN(30) // a gap
			case 1:
				at = max(0, at-rng.IntN(60)) // sent again
			case 2, 3:
				if evaluation != nil {
					v := Verdict{Action: Action(rng.IntN(3))}
					if r.Evaluated(v) {
						decisions++
					}
					evaluated++
					evaluation = nil
				}
			case 4:
				if evaluation != nil {
					r.Done()
					evaluation = nil
				}
			}
			if evaluation != nil && !slices.Equal(evaluation, seen) {
				t.Fatal("the samples of a look have changed")
			}
			n := rng.IntN(60)
			r.Add(uint64(at), ramp(at, n))
			at += n
			if r.Held() > s.Limit {
				t.Fatalf("%d samples are held, the limit is %d", r.Held(), s.Limit)
			}
			samples, _, due := r.Begin()
			if !due {
				continue
			}
			if evaluation != nil {
				t.Fatal("two looks at a time")
			}
			if r.Decided() {
				t.Fatal("a look behind the decision")
			}
			if !slices.Equal(samples, ramp(int(samples[0]), len(samples))) || len(samples) < s.First {
				t.Fatalf("a look of %d samples that do not follow each other", len(samples))
			}
			evaluation, seen = samples, slices.Clone(samples)
		}
		if evaluated > s.Evaluations() || decisions > 1 {
			t.Fatalf("%+v: %d looks were judged, %d decisions", s, evaluated, decisions)
		}
	}
}

func TestSchedule(t *testing.T) {
	for _, tt := range []struct {
		s           Schedule
		evaluations int
		err         string
	}{
		{DefaultSchedule(), 4, ""},
		{Schedule{1, 1}, 1, ""},
		{Schedule{100, 199}, 1, ""},
		{Schedule{100, 200}, 2, ""},
		{Schedule{100, 300_000}, 12, ""},
		{Schedule{0, 10}, 0, "a first evaluation after 0 samples"},
		{Schedule{20, 10}, 0, "comes before the first one"},
		{Schedule{20, 300_001}, 0, "more than 300000"},
	} {
		err := tt.s.Validate()
		if err != nil || tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) || tt.err == "" {
				t.Errorf("%+v: %v, want ...%s...", tt.s, err, tt.err)
			}
			continue
		}
		if got := tt.s.Evaluations(); got != tt.evaluations {
			t.Errorf("%+v: %d looks, want %d", tt.s, got, tt.evaluations)
		}
	}
}
