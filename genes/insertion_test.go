package genes

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/testenv"
)

// insertionSequence is one with a gene: its ends are 24 bases and, on the other strand, those but for three.
func insertionSequence(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 2))
	end := make([]byte, 24)
	for i := range end {
		end[i] = "ACGT"[r.IntN(4)]
	}
	other := reverseComplement(end)
	for _, i := range []int{2, 9, 17} {
		other[i] = map[byte]byte{'A': 'C', 'C': 'G', 'G': 'T', 'T': 'A'}[other[i]]
	}
	random := func(n int) (s []byte) {
		for range n {
			s = append(s, "ACGT"[r.IntN(4)])
		}
		return s
	}
	letters, planted := simulated(seed, 20)
	i := slices.IndexFunc(planted, func(k Known) bool { return k.End-k.Start >= 800 })
	return slices.Concat(end, random(80), letters[planted[i].Start-12:planted[i].End], random(80), other)
}

// inserted is a sequence with an element at some places, in ascending order, every second time on the other strand, and five bases before each doubled behind it.
func inserted(letters, element []byte, places []int) (out []byte) {
	last := 0
	for i, at := range places {
		out = append(out, letters[last:at]...)
		if i%2 == 1 {
			out = append(out, reverseComplement(element)...)
		} else {
			out = append(out, element...)
		}
		last = at - 5
	}
	return append(out, letters[last:]...)
}

// TestGenesThatInsertionSequencesStandInAreBroken: a gene with an insertion sequence in it that stands elsewhere as well is reported as one pseudogene, from its start to its stop; the insertion
// sequence's own gene, genes beside it, and a gene with the only copy of one stay as they are. So it is on either strand, and wherever a circular genome is cut.
func TestGenesThatInsertionSequencesStandInAreBroken(t *testing.T) {
	testenv.CalculatesLong(t)
	t.Parallel()
	letters, planted := simulated(93, 700)
	require.Greater(t, len(letters), short)
	slices.SortFunc(planted, func(a, b Known) int { return a.Start - b.Start })
	element, single := insertionSequence(11), insertionSequence(12)
	var places []int
	var hit []Known
	for i := 20; len(hit) < 8; i += 60 {
		k := planted[i+slices.IndexFunc(planted[i:], func(k Known) bool { return k.End-k.Start >= 900 })]
		hit = append(hit, k)
		places = append(places, k.Start+(k.End-k.Start)*(3+len(hit)%4)/9)
	}
	between := planted[600].End + 8 // and between two genes
	places = append(places, between)
	grown := len(element) + 5
	for i := range hit {
		hit[i].Start, hit[i].End = hit[i].Start+i*grown, hit[i].End+(i+1)*grown
	}
	lonely := planted[650]
	at := (lonely.Start+lonely.End)/2 + len(places)*grown
	seq := inserted(inserted(letters, element, places), single, []int{at})
	circular := func(seq []byte) *Result {
		return find(t, Options{Code: 11}, Contig{Name: "a", Seq: seq, Circular: true})
	}
	r := circular(seq)
	reported := func(r *Result) (out []string) {
		for _, p := range r.Pseudogenes {
			if slices.Equal(p.Faults, []Fault{Interrupted}) {
				out = append(out, fmt.Sprint(p.Start, p.End, p.Reverse))
				require.False(t, slices.ContainsFunc(r.Genes, func(g Gene) bool {
					return g.Reverse == p.Reverse && g.Start >= p.Start && g.End <= p.End && g.End-g.Start < 300
				}))
			}
		}
		return out
	}
	var want []string
	for _, k := range hit {
		want = append(want, fmt.Sprint(k.Start, k.End, k.Reverse))
	}
	require.Subset(t, want, reported(r))
	require.GreaterOrEqual(t, len(reported(r)), len(want)-1)
	own := 0
	for _, g := range r.Genes {
		if bytes.Contains(element, g.letters(seq)) || bytes.Contains(reverseComplement(element), g.letters(seq)) {
			own++
		}
	}
	require.Equal(t, len(places), own, "the insertion sequences' own genes")
	var out bytes.Buffer
	require.NoError(t, WriteGFF3(&out, []Contig{{Name: "a", Seq: seq}}, r))
	require.Regexp(t, `\tpseudogene\t.*;pseudo=true;Note=interrupted;fragments=[12];inference=ab initio prediction:Porestream\n`, out.String())

	// The origin is within the third one's insertion sequence.
	turn := hit[2].Start + 200 + len(element)/2
	rotated := circular(reverseComplement(slices.Concat(seq[turn:], seq[:turn])))
	n := len(seq)
	var opposite []string
	for _, k := range hit {
		if start := ((turn-k.End)%n + n) % n; slices.Contains(reported(r), fmt.Sprint(k.Start, k.End, k.Reverse)) {
			opposite = append(opposite, fmt.Sprint(start, start+k.End-k.Start, !k.Reverse))
		}
	}
	require.ElementsMatch(t, opposite, reported(rotated))
}

// TestManyRepeatsAreNone: a stretch that a short unit fills has no copies, however often it stands there.
func TestManyRepeatsAreNone(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	unit := make([]byte, 60)
	for i := range unit {
		unit[i] = "ACGT"[r.IntN(4)]
	}
	f := finder{}
	f.load([]Contig{{Name: "a", Seq: bytes.Repeat(unit, 20_000)}})
	list, err := f.copies(t.Context())
	require.NoError(t, err)
	require.Empty(t, list)
}

// letters are a gene's, on its strand.
func (g *Gene) letters(seq []byte) []byte {
	out := bytes.Clone(seq[g.Start:min(g.End, len(seq))])
	if g.Reverse {
		return reverseComplement(out)
	}
	return out
}

func TestEndsOfInsertionSequences(t *testing.T) {
	element := insertionSequence(11)
	r := rand.New(rand.NewPCG(7, 8))
	around := make([]byte, 400)
	for i := range around {
		around[i] = "ACGT"[r.IntN(4)]
	}
	seq := inserted(around, element, []int{200})
	c := copied{from: 200, to: 200 + len(element)}
	require.True(t, inverted(encode(seq), c))
	for _, blur := range [][2]int{{0, 0}, {2, -3}, {-4, 5}} {
		cuts := targets(encode(seq), copied{from: c.from + blur[0], to: c.to + blur[1]})
		require.True(t, slices.ContainsFunc(cuts, func(c [2]int) bool { return bytes.Equal(around, slices.Concat(seq[:c[0]], seq[c[1]:])) }), "ends %v bases off", blur)
	}
	require.False(t, inverted(encode(seq), copied{from: 40, to: 900}))
}

// TestCopiesAreFound: of stretches that stand twice or more, on either strand and in whatever contig, the ends are found to a few bases, in any order of the contigs; what is shorter or differs too much isn't one.
func TestCopiesAreFound(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	random := func(n int) []byte {
		out := make([]byte, n)
		for i := range out {
			out[i] = "ACGT"[r.IntN(4)]
		}
		return out
	}
	long, small := random(1200), random(400)
	changed := bytes.Clone(long)
	for i := 20; i < len(changed); i += 50 {
		changed[i] = map[byte]byte{'A': 'C', 'C': 'G', 'G': 'T', 'T': 'A'}[changed[i]]
	}
	first := slices.Concat(random(3000), long, random(2000), small, random(900), reverseComplement(changed), random(500))
	second := slices.Concat(random(700), small, random(2500), changed, random(4000))
	want := map[string][][2]int{"first": {{3000, 4200}, {7500, 8700}}, "second": {{3600, 4800}}}
	for _, contigs := range [][]Contig{{{Name: "first", Seq: first}, {Name: "second", Seq: second}}, {{Name: "second", Seq: second}, {Name: "first", Seq: first}}} {
		f := finder{}
		f.load(contigs)
		list, err := f.copies(t.Context())
		require.NoError(t, err)
		got := map[string][][2]int{}
		for _, c := range list {
			start, end, _ := f.pieces[c.piece].place(c.from, c.to, false)
			name := contigs[f.pieces[c.piece].contig].Name
			got[name] = append(got[name], [2]int{start, end})
		}
		for name, places := range want {
			require.Len(t, got[name], len(places))
			slices.SortFunc(got[name], func(a, b [2]int) int { return a[0] - b[0] })
			for i, p := range places {
				require.InDelta(t, p[0], got[name][i][0], sameEnds)
				require.InDelta(t, p[1], got[name][i][1], sameEnds)
			}
		}
	}
}
