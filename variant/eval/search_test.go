package eval

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// randomCase is a short reference of few letters, so that there are repeats everywhere, with a few atoms of both sides.
func randomCase(r *rand.Rand, length, mostAtoms int) (seq []byte, atoms []*atom) {
	letters := "ACGT"[:2+r.IntN(2)]
	seq = make([]byte, length+r.IntN(length))
	for i := range seq {
		seq[i] = letters[r.IntN(len(letters))]
	}
	text := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		return string(b)
	}
	group := 0
	for sd := range side(2) {
		for range r.IntN(mostAtoms + 1) {
			group++
			c := &call{side: sd, depth: -1}
			for range 1 + r.IntN(6)/5 { // a sixth of the records has two atoms
				at := r.IntN(len(seq) - 2)
				e := edit{start: at, end: at + 1, alt: text(1)}
				switch r.IntN(3) {
				case 0:
					e = edit{start: at, end: at, alt: text(1 + r.IntN(2))}
				case 1:
					e = edit{start: at, end: at + 1 + r.IntN(2)}
				default:
					if e.alt == string(seq[at:at+1]) {
						continue
					}
				}
				if sd == query && len(atoms) > 0 && r.IntN(2) == 0 {
					e = atoms[r.IntN(len(atoms))].elsewhere(r, seq)
				}
				c.add(e, uint8(1+r.IntN(3)), 2, seq)
			}
			phased := r.IntN(5) == 0 // then all of the side are one set
			for _, a := range c.atoms {
				a.group = group
				if phased {
					a.group, a.phased = 0, true
				}
				atoms = append(atoms, a)
			}
		}
	}
	slices.SortStableFunc(atoms, (*atom).compare)
	return seq, atoms
}

// elsewhere is the atom's change at any of the places where it can be written.
func (a *atom) elsewhere(r *rand.Rand, seq []byte) edit {
	at := a.from + r.IntN(a.to-a.from+1)
	if a.start != a.end || a.alt == "" {
		return edit{start: at, end: at + a.end - a.start, alt: a.alt}
	}
	text := string(seq[:a.start]) + a.alt + string(seq[a.start:])
	return edit{start: at, end: at, alt: text[at : at+len(a.alt)]}
}

// choice is how an atom is played: 0 not at all, 1 as given, 2 with its haplotypes swapped.
type choice []uint8

// bestOf tries every choice for every atom and returns the most that can be played; it is what search is to
// find, computed without its walk: haplotypes are spelled as a whole and compared.
func bestOf(seq []byte, atoms []*atom, haplotypes int) (most int) {
	s := &search{haplotypes: haplotypes}
	choices := make(choice, len(atoms))
	for {
		if n := choices.count(); n > most && choices.consistent(atoms, haplotypes) && choices.matches(s, seq, atoms, haplotypes) {
			most = n
		}
		i := 0
		for ; i < len(choices); i++ {
			if choices[i]++; choices[i] <= 2 {
				break
			}
			choices[i] = 0
		}
		if i == len(choices) {
			return most
		}
	}
}

func (c choice) count() int {
	n := 0
	for _, v := range c {
		if v != 0 {
			n++
		}
	}
	return n
}

// consistent reports whether groups have one orientation.
func (c choice) consistent(atoms []*atom, haplotypes int) bool {
	orientation := make(map[string]uint8)
	for i, a := range atoms {
		if c[i] == 2 && (haplotypes == 1 || !a.het()) {
			return false // the same as 1
		}
		if c[i] == 0 || haplotypes == 1 || !a.het() {
			continue
		}
		key := fmt.Sprint(a.call.side, a.group)
		if known, ok := orientation[key]; ok && known != c[i] {
			return false
		}
		orientation[key] = c[i]
	}
	return true
}

// matches reports whether both sides spell the same, and do so in no stretch with atoms of one side
// alone.
func (c choice) matches(s *search, seq []byte, atoms []*atom, haplotypes int) bool {
	last := [2]int{}
	for cut := 0; cut <= 2*len(seq)+1; cut++ {
		apart := true
		var spelled [2][]string
		var counts [2]int
		for sd := range side(2) {
			for h := range haplotypes {
				var b strings.Builder
				at, slot := 0, 0
				for i, a := range atoms {
					if a.call.side != sd || c[i] == 0 || s.mask(a, c[i])>>h&1 == 0 || a.slot() >= cut {
						continue
					}
					if a.slot() < slot {
						return false // two atoms at one place
					}
					if a.stop() > cut {
						apart = false
					}
					b.Write(seq[at:a.start])
					b.WriteString(a.alt)
					at, slot = a.end, a.stop()
				}
				if apart {
					b.Write(seq[min(at, cut/2):min(cut/2, len(seq))])
				}
				spelled[sd] = append(spelled[sd], b.String())
			}
			for i, a := range atoms {
				if a.call.side == sd && c[i] != 0 && a.slot() < cut {
					counts[sd]++
				}
			}
		}
		switch {
		case apart && slices.Equal(spelled[0], spelled[1]):
			if (counts[0] > last[0]) != (counts[1] > last[1]) {
				return false
			}
			last = counts
		case cut == 2*len(seq)+1:
			return false
		}
	}
	return true
}

// TestSearchAgainstAllChoices compares the search with an exhaustive one.
func TestSearchAgainstAllChoices(t *testing.T) {
	t.Parallel()
	const cases = 1500 // more have been run: each takes half a millisecond
	r := rand.New(rand.NewPCG(1, 2))
	several := 0
	for n := range cases {
		seq, atoms := randomCase(r, 6, 3)
		if len(atoms) > 7 {
			continue
		}
		for haplotypes := 1; haplotypes <= 2; haplotypes++ {
			want := bestOf(seq, atoms, haplotypes)
			s := &search{seq: seq, haplotypes: haplotypes, maxPaths: 1 << 20}
			best, ok := s.walk(atoms)
			require.True(t, ok)
			require.Len(t, best, want, "case %d: %s %s", n, seq, describe(atoms))
			chosen := make(choice, len(atoms))
			for _, p := range best {
				chosen[p.atom] = asGiven
				if p.swapped {
					chosen[p.atom] = swapped
				}
			}
			require.True(t, chosen.consistent(atoms, haplotypes) && (want == 0 || chosen.matches(s, seq, atoms, haplotypes)), "case %d: %s %s", n, seq, describe(atoms))
			if want > 2 {
				several++
			}
		}
	}
	require.Greater(t, several, cases/50, "cases that a comparison of rows does not solve")
}

func describe(atoms []*atom) string {
	var b strings.Builder
	for _, a := range atoms {
		fmt.Fprintf(&b, "\n%d %d-%d %q haplotypes %b group %d", a.call.side, a.start, a.end, a.alt, a.haplotypes, a.group)
	}
	return b.String()
}

// TestClustersAreIndependent compares all atoms at once with cluster by cluster.
func TestClustersAreIndependent(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	splits := 0
	for n := range 4000 {
		seq, atoms := randomCase(r, 20, 4)
		for _, a := range atoms { // phase that reaches over clusters is another matter
			if a.phased {
				a.phased, a.group = false, 1000+slices.Index(atoms, a)
			}
		}
		s := &search{seq: seq, haplotypes: 2, maxPaths: 1 << 20}
		whole, ok := s.walk(atoms)
		require.True(t, ok)
		parts := 0
		var c cluster
		linked := func(next int) bool {
			for _, a := range c.atoms {
				for _, b := range atoms[next:] {
					if a.call == b.call {
						return true
					}
				}
			}
			return false
		}
		clusters := 0
		for i, a := range atoms {
			if len(c.atoms) > 0 && c.separable(seq, a.start) && !linked(i) {
				best, ok := s.walk(c.atoms)
				require.True(t, ok)
				parts += len(best)
				clusters++
				c = cluster{}
			}
			c.add(a)
		}
		best, ok := s.walk(c.atoms)
		require.True(t, ok)
		parts += len(best)
		require.Equal(t, len(whole), parts, "case %d: %s %s", n, seq, describe(atoms))
		if clusters > 0 && parts > 0 {
			splits++
		}
	}
	require.Greater(t, splits, 250, "cases that were taken apart")
}

// TestDecompose plays the edits of random replacements and gets the replacement back.
func TestDecompose(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	text := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "ACGT"[r.IntN(4)]
		}
		return string(b)
	}
	for range 5000 {
		ref, alt := text(1+r.IntN(12)), text(1+r.IntN(12))
		edits := decompose(7, ref, alt)
		var b strings.Builder
		at := 0
		for _, e := range edits {
			require.GreaterOrEqual(t, e.start-7, at)
			b.WriteString(ref[at:e.start-7] + e.alt)
			at = e.end - 7
			require.True(t, e.end-e.start == 1 && len(e.alt) == 1 || e.end == e.start || e.alt == "", "%s %s: %v", ref, alt, edits)
		}
		require.Equal(t, alt, b.String()+ref[at:], "%s %s: %v", ref, alt, edits)
	}
	for _, tt := range []struct {
		ref, alt string
		want     []edit
	}{
		{"A", "A", nil},
		{"AC", "GT", []edit{{0, 1, "G"}, {1, 2, "T"}}},
		{"ACGT", "ATGC", []edit{{1, 2, "T"}, {3, 4, "C"}}},
		{"CA", "TTA", []edit{{0, 0, "T"}, {0, 1, "T"}}},
		{"TGCA", "CGC", []edit{{0, 1, "C"}, {3, 4, ""}}},
		{"GATTACA", "G", []edit{{1, 7, ""}}},
		{"GTTTTA", "GTTA", []edit{{1, 3, ""}}},
	} {
		require.Equal(t, tt.want, decompose(0, tt.ref, tt.alt), "%s %s", tt.ref, tt.alt)
	}
}

// TestIndelsMoveOverTheirExtentAlone moves indels over their extent: everywhere the sequence is the same, and nowhere beyond.
func TestIndelsMoveOverTheirExtentAlone(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	for range 3000 {
		seq, atoms := randomCase(r, 6, 2)
		for _, a := range atoms {
			if a.kind == SNP {
				require.Equal(t, [2]int{a.start, a.start}, [2]int{a.from, a.to})
				continue
			}
			play := func(start int, alt string) string {
				return string(seq[:start]) + alt + string(seq[start+a.end-a.start:])
			}
			want := play(a.start, a.alt)
			same := func(start int) bool {
				if start < 0 || start+a.end-a.start > len(seq) {
					return false
				}
				if a.alt == "" {
					return play(start, "") == want
				}
				return want[:start] == string(seq[:start]) && want[start+len(a.alt):] == string(seq[start:])
			}
			for at := a.from; at <= a.to; at++ {
				require.True(t, same(at), "%s %s at %d", seq, describe([]*atom{a}), at)
			}
			require.False(t, same(a.from-1) || same(a.to+1), "%s %s", seq, describe([]*atom{a}))
		}
	}
}
