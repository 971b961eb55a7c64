package adaptive

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/porestream/porestream/align"
)

// twoContigs is a reference of two contigs with a target on each.
func twoContigs(t testing.TB, margin int) *Targets {
	t.Helper()
	targets, err := ReadTargets(strings.NewReader("a\t1000\t2000\nb\t0\t500\n"), "targets.bed", margin, lengths)
	if err != nil {
		t.Fatal(err)
	}
	return targets
}

func lengths(contig string) (int, bool) {
	n, known := map[string]int{"a": 10_000, "b": 5000}[contig]
	return n, known
}

func place(contig string, start int, quality uint8) align.Alignment {
	return align.Alignment{Contig: contig, Start: start, End: start + 300, MappingQuality: quality}
}

func TestDecide(t *testing.T) {
	on, off := place("a", 1200, 60), place("a", 5000, 60)
	doubtfulOn, doubtfulOff := place("a", 1200, 3), place("b", 3000, 3)
	supplementary := func(a align.Alignment) align.Alignment { a.Supplementary = true; return a }
	for _, tt := range []struct {
		name       string
		bases      int
		alignments []align.Alignment
		// The verdicts before and at the last evaluation, by mode.
		enrich, lastEnrich, deplete, lastDeplete string
	}{
		{"on target", 300, []align.Alignment{on}, "continue on_target", "continue on_target", "unblock on_target", "unblock on_target"},
		{"off target", 300, []align.Alignment{off}, "unblock off_target", "unblock off_target", "continue off_target", "continue off_target"},
		{"on another contig", 300, []align.Alignment{place("b", 3000, 60)}, "unblock off_target", "unblock off_target", "continue off_target", "continue off_target"},
		{"reverse strand", 300, []align.Alignment{{Contig: "a", Start: 1200, End: 1500, Reverse: true, MappingQuality: 60}}, "continue on_target", "continue on_target", "unblock on_target", "unblock on_target"},
		{"one base of the target", 300, []align.Alignment{place("a", 1999, 60)}, "continue on_target", "continue on_target", "unblock on_target", "unblock on_target"},
		{"beside the target", 300, []align.Alignment{place("a", 2000, 60)}, "unblock off_target", "unblock off_target", "continue off_target", "continue off_target"},
		{"unaligned", 300, nil, "wait unaligned", "continue unaligned", "wait unaligned", "continue unaligned"},
		{"nothing called", 0, nil, "wait too_short", "continue too_short", "wait too_short", "continue too_short"},
		{"too few bases, though aligned", 99, []align.Alignment{off}, "wait too_short", "continue too_short", "wait too_short", "continue too_short"},
		{"enough bases", 100, []align.Alignment{off}, "unblock off_target", "unblock off_target", "continue off_target", "continue off_target"},
		{"repeat off target", 300, []align.Alignment{doubtfulOff}, "wait ambiguous", "continue ambiguous", "wait ambiguous", "continue ambiguous"},
		{"repeat on target", 300, []align.Alignment{doubtfulOn}, "wait ambiguous", "continue ambiguous", "wait ambiguous", "continue ambiguous"},
		{"quality at the bound", 300, []align.Alignment{place("a", 5000, 10)}, "unblock off_target", "unblock off_target", "continue off_target", "continue off_target"},
		{"quality below the bound", 300, []align.Alignment{place("a", 5000, 9)}, "wait ambiguous", "continue ambiguous", "wait ambiguous", "continue ambiguous"},
		{"chimera, both certain", 300, []align.Alignment{off, supplementary(on)}, "continue mixed", "continue mixed", "continue mixed", "continue mixed"},
		{"chimera, the rest may be on target", 300, []align.Alignment{off, supplementary(doubtfulOn)}, "wait ambiguous", "continue ambiguous", "continue mixed", "continue mixed"},
		{"chimera, the rest may be off target", 300, []align.Alignment{on, supplementary(doubtfulOff)}, "continue mixed", "continue mixed", "wait ambiguous", "continue ambiguous"},
		{"two places, both off target", 300, []align.Alignment{off, supplementary(doubtfulOff)}, "unblock off_target", "unblock off_target", "continue off_target", "continue off_target"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, mode := range []Mode{Enrich, Deplete} {
				p := policy(t, Config{Mode: mode, Targets: twoContigs(t, 0)})
				want := map[bool]string{false: tt.enrich, true: tt.lastEnrich}
				if mode == Deplete {
					want = map[bool]string{false: tt.deplete, true: tt.lastDeplete}
				}
				for last, text := range want {
					v := p.Decide(Evaluation{Bases: tt.bases, Alignments: tt.alignments, Last: last})
					if got := v.Action.String() + " " + v.Reason.String(); got != text {
						t.Errorf("%v, last %v: %s, want %s", mode, last, got, text)
					}
				}
			}
		})
	}
}

func policy(t testing.TB, cfg Config) *Policy {
	t.Helper()
	p, err := NewPolicy(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSettings(t *testing.T) {
	targets := twoContigs(t, 0)
	strict := uint8(60)
	p := policy(t, Config{Mode: Enrich, Targets: targets, Unaligned: Unblock, MinBases: 500, MinMappingQuality: &strict})
	for _, tt := range []struct {
		evaluation Evaluation
		want       Verdict
	}{
		{Evaluation{Bases: 600, Last: true}, Verdict{Unblock, Unaligned}},
		{Evaluation{Bases: 600}, Verdict{Wait, Unaligned}},
		{Evaluation{Bases: 499, Last: true}, Verdict{Continue, TooShort}},
		{Evaluation{Bases: 600, Alignments: []align.Alignment{place("a", 5000, 59)}}, Verdict{Wait, Ambiguous}},
	} {
		if got := p.Decide(tt.evaluation); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.evaluation, got, tt.want)
		}
	}
	_, err := NewPolicy(Config{MinBases: -1})
	for _, want := range []string{"either enriches or depletes", "needs targets", "at least -1 bases"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want ...%s...", err, want)
		}
	}
}

// TestNobodyIsEjectedInDoubt: whatever the alignments, a read is ejected only if every
// one of them speaks for it and one is certain, and the last evaluation never waits.
func TestNobodyIsEjectedInDoubt(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 11))
	targets := twoContigs(t, 100)
	ejected := 0
	for range 20_000 {
		mode := Enrich
		if rng.IntN(2) == 0 {
			mode = Deplete
		}
		e := Evaluation{Bases: rng.IntN(400), Last: rng.IntN(2) == 0}
		all, certain := true, false
		for range rng.IntN(4) {
			a := place([]string{"a", "b"}[rng.IntN(2)], rng.IntN(4500), uint8(rng.IntN(61)))
			e.Alignments = append(e.Alignments, a)
			speaks := targets.Overlaps(a.Contig, a.Start, a.End) == (mode == Deplete)
			all, certain = all && speaks, certain || speaks && a.MappingQuality >= 10
		}
		v := policy(t, Config{Mode: mode, Targets: targets}).Decide(e)
		if may := all && certain && e.Bases >= 100; (v.Action == Unblock) != may {
			t.Fatalf("%v %+v: %v, though all speak for ejecting it: %v, one is certain: %v", mode, e, v, all, certain)
		}
		if e.Last && v.Action == Wait {
			t.Fatalf("%v %+v waits", mode, e)
		}
		if v.Action == Unblock {
			ejected++
		}
	}
	if ejected == 0 {
		t.Error("nothing was ever ejected")
	}
}

func TestTexts(t *testing.T) {
	for _, m := range []Mode{Off, Enrich, Deplete} {
		text, _ := m.MarshalText()
		var again Mode
		if err := again.UnmarshalText(text); err != nil || again != m {
			t.Errorf("%s: %v, %v", text, again, err)
		}
	}
	for _, a := range []Action{Continue, Unblock} {
		text, _ := a.MarshalText()
		var again Action
		if err := again.UnmarshalText(text); err != nil || again != a {
			t.Errorf("%s: %v, %v", text, again, err)
		}
	}
	if err := new(Mode).UnmarshalText([]byte("on")); err == nil {
		t.Error("a mode on")
	}
	if err := new(Action).UnmarshalText([]byte("wait")); err == nil {
		t.Error("nobody asks for waiting")
	}
	seen := make(map[string]bool)
	for _, r := range Reasons() {
		seen[r.String()] = true
	}
	if len(seen) != int(reasons) {
		t.Errorf("%d names for %d reasons", len(seen), reasons)
	}
}
