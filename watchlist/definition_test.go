package watchlist_test

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/watchlist"
)

// lastWord is the newest data on a sample.
type lastWord struct {
	variants map[string]*event.Variant               // by VRS id
	coverage map[watchlist.Target]watchlist.Coverage // by stretch
	meaning  func(s watchlist.Shown) *event.Variant
}

// depth is the least depth that any stretch reports for a position; 0 if none does.
func (l *lastWord) depth(pos int) int {
	least := -1
	for at, c := range l.coverage {
		if pos < at.Start || pos >= at.End {
			continue
		}
		d := 0
		for _, b := range c.Blocks {
			if pos >= b.Start && pos < b.End {
				d = b.Depth
			}
		}
		if least < 0 || d < least {
			least = d
		}
	}
	return max(least, 0)
}

// state is what docs/consume/watchlists.md says of a rule with the default thresholds whose runs have ended: a second, slow
// implementation, without memory and index.
func (l *lastWord) state(r watchlist.Resolved, means func(v *event.Variant) bool) watchlist.State {
	suspected, undecided := false, false
	// most is how many of n reads errors at the rate of 0.12 show in all but 1 of 100 samples, all changes of the rule together.
	most := func(n int) int {
		level := 0.01 * r.FalseAlarm / 1e-4
		row := []float64{1}
		for range n {
			next := make([]float64, len(row)+1)
			for i, p := range row {
				next[i] += 0.88 * p
				next[i+1] += 0.12 * p
			}
			row = next
		}
		k, tail := n, 0.0
		for k > 0 && tail+row[k] <= level {
			tail += row[k]
			k--
		}
		return k
	}
	speaks := func(k, n int) (anything bool) {
		ratio := math.Pow(0.88/0.12, float64(2*k-n))
		suspected = suspected || n > 0 && ratio > 1 || k > most(n)
		undecided = undecided || ratio > 0.01
		return n > 0 && ratio > 1 || k > most(n) || ratio > 0.01
	}
	for _, v := range l.variants {
		if v.Status == "RETRACTED" || !means(v) {
			continue
		}
		k, n := float64(v.Call.AltForward+v.Call.AltReverse), float64(v.Call.Depth)
		ratio := math.Pow(0.88/0.12, k) * math.Pow(0.12/0.88, n-k)
		switch {
		case ratio >= 1/r.FalseAlarm && n >= 6 && k >= 3 && k >= 0.2*n && v.Call.Qual >= 12 && len(v.Call.Filters) == 0:
			return watchlist.Detected
		default:
			speaks(int(k), int(n))
		}
	}
	counted := false
	for at, c := range l.coverage {
		for _, s := range c.Shown {
			k := s.Forward + s.Reverse
			switch {
			case s.Named == r.Subject && s.Named != "":
				counted = true
				speaks(k, s.Depth)
				undecided = undecided || s.Depth < r.DepthNeeded
			case s.Named != "" || r.Scope != watchlist.ScopeRule || at.End <= r.Places[0].Start || at.Start >= r.Places[0].End:
			case means(l.meaning(s)):
				speaks(k, s.Depth)
			default:
				before := suspected
				undecided = speaks(k, s.Depth) || undecided
				suspected = before
			}
		}
	}
	switch {
	case suspected:
		return watchlist.Suspected
	case undecided || r.Scope != watchlist.ScopeRule && !counted:
		return watchlist.NotCallable
	}
	for _, p := range r.Places {
		for pos := p.Start; pos < p.End; pos++ {
			if l.depth(pos) < r.DepthNeeded {
				return watchlist.NotCallable
			}
		}
	}
	return watchlist.Negative
}

// TestFinalStatesAreAsDefined compares the tracker with the definition on random evidence.
func TestFinalStatesAreAsDefined(t *testing.T) {
	b := newBench(t, filepath.Join("testdata", "lambda", "panel.yaml"))
	hgvsp := func(want string) func(v *event.Variant) bool {
		return func(v *event.Variant) bool {
			return slices.ContainsFunc(v.Annotation.Consequences, func(c annotate.Consequence) bool { return c.HGVSp == want })
		}
	}
	at := func(pos int64, alt string) func(v *event.Variant) bool {
		return func(v *event.Variant) bool { return v.Allele.Pos == pos && v.Allele.Alt == alt }
	}
	means := map[string]func(v *event.Variant) bool{
		"cI-E118K":  hgvsp("lambdap88:p.Glu118Lys"),
		"cI-A67T":   at(37742, "T"),
		"NinH-A15T": at(43082, "A"),
		"S-W56":     hgvsp("lambdap74:p.Trp56Ter"),
		"holin-lost": func(v *event.Variant) bool {
			return slices.ContainsFunc(v.Annotation.Consequences, func(c annotate.Consequence) bool {
				return c.Gene != nil && c.Gene.Symbol == "S" && c.Impact == annotate.High
			})
		},
	}
	rng := rand.New(rand.NewPCG(17, 19))
	seen := map[watchlist.State]int{}
	for range cases(t, 300) {
		last := lastWord{map[string]*event.Variant{}, map[watchlist.Target]watchlist.Coverage{}, func(s watchlist.Shown) *event.Variant {
			return b.allele(t, s.Pos, s.Ref, s.Alt, 0, 0)
		}}
		tr := b.w.NewTracker("s")
		observe := []func(){}
		for _, e := range []struct {
			pos      int
			ref, alt string
		}{{37589, "C", "T"}, {37588, "T", "C"}, {37742, "C", "T"}, {43082, "G", "A"}, {45352, "G", "A"}, {45353, "G", "A"}, {45300, "T", "TA"}} {
			if string(b.g.Contigs[0].Seq[e.pos-1]) != e.ref || rng.IntN(2) == 0 {
				continue
			}
			depth := uint32(rng.IntN(40))
			alt := uint32(rng.IntN(int(depth) + 1))
			if rng.IntN(2) == 0 {
				alt = depth - depth/8
			}
			v := revised(b.allele(t, e.pos, e.ref, e.alt, 0, 0), "FINAL", 40*rng.Float64(), alt, depth)
			v.Call.Filters = [][]string{nil, nil, {"LowQual"}}[rng.IntN(3)]
			if rng.IntN(8) == 0 {
				v.Status = "RETRACTED"
			}
			last.variants[v.Allele.VRSID] = v
			observe = append(observe, func() { tr.Variant(v) })
		}
		for _, target := range b.w.Targets() {
			mid := (target.Start + target.End) / 2
			for _, part := range []watchlist.Target{{Start: target.Start, End: mid + 1}, {Start: mid, End: target.End}} {
				if _, ok := last.coverage[part]; ok {
					continue // a single position
				}
				c := b.covered(part.Start, part.End, 14+rng.IntN(40), 1)
				if rng.IntN(8) == 0 {
					c.Blocks = c.Blocks[:0]
				}
				for i := range c.Shown {
					s := &c.Shown[i]
					if rng.IntN(4) == 0 {
						s.Depth = rng.IntN(40)
					}
					if rng.IntN(3) == 0 {
						s.Forward = rng.IntN(s.Depth/2 + 1)
					}
				}
				for _, pos := range []int{45301, 45352, 45353} {
					if pos > c.Start && pos <= c.End && rng.IntN(4) == 0 {
						ref := string(b.g.Contigs[0].Seq[pos-1])
						s := watchlist.Shown{Pos: pos, Ref: ref, Alt: map[string]string{"A": "C", "C": "T", "G": "A", "T": "G"}[ref], Depth: 24}
						s.Forward, s.Reverse = rng.IntN(12), rng.IntN(12)
						c.Shown = append(c.Shown, s)
					}
				}
				last.coverage[part] = c
				observe = append(observe, func() { tr.Coverage(c) })
			}
		}
		rng.Shuffle(len(observe), func(i, j int) { observe[i], observe[j] = observe[j], observe[i] })
		for _, o := range observe {
			o()
		}
		answers := map[string]watchlist.State{}
		for _, a := range tr.RunEnd("run") {
			if a.Rule != "holin-lost" || a.Scope == watchlist.ScopeRule {
				answers[a.Rule] = a.State
			}
		}
		for _, r := range b.w.Resolve() {
			want := last.state(r, means[r.Rule])
			require.Equal(t, want, answers[r.Rule], r.Rule)
			seen[want]++
		}
	}
	for _, s := range []watchlist.State{watchlist.Detected, watchlist.Suspected, watchlist.Negative, watchlist.NotCallable} {
		require.Positive(t, seen[s], s)
	}
}
