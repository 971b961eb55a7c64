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

// inserted is a sequence with an element at some places, in ascending order, every second time on the other strand, and five bases before each doubled
// behind it.
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

// TestGenesThatInsertionSequencesStandInAreBroken: a gene with an insertion sequence in it that stands elsewhere as well is reported as one pseudogene, from
// its start to its stop; the insertion sequence's own gene, genes beside it, and a gene with the only copy of one stay as they are. So it is on either strand,
// and wherever a circular genome is cut.
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

	// Of unknown bases nobody knows that they are doubled, or the other end's.
	for _, at := range [][2]int{{c.from - longestTarget, c.from}, {c.to, c.to + longestTarget}, {c.from, c.from + invertedBases}, {c.to - invertedBases, c.to}} {
		for i := at[0]; i < at[1]; i++ {
			seq[i] = 'N'
		}
	}
	require.False(t, inverted(encode(seq), c))
	for _, cut := range targets(encode(seq), c) {
		doubled := seq[c.to:cut[1]]
		require.NotContains(t, string(doubled), "N")
	}
}

// layout is a genome of two contigs that share an insertion sequence: a chromosome, and a circular plasmid whose sequence is brought to a form that begins in
// the broken gene, before the insertion sequence.
type layout struct {
	chromosome, plasmid []byte
	broken              Known // gene of the chromosome whose insertion sequence has a stop in its own gene
	moved               Known // gene of the plasmid that one stands in
}

func sharedElement(t *testing.T) (l layout) {
	t.Helper()
	letters, planted := simulated(93, 700)
	element := insertionSequence(11)
	stopped := bytes.Clone(element)
	copy(stopped[24+80+12+3*120:], "TAA")
	slices.SortFunc(planted, func(a, b Known) int { return a.Start - b.Start })
	long := func(i int, reverse bool) Known {
		k := slices.IndexFunc(planted[i:], func(k Known) bool { return k.End-k.Start >= 800 && k.Reverse == reverse })
		require.GreaterOrEqual(t, k, 0)
		return planted[i+k]
	}
	l.broken, l.moved = long(100, false), long(670, true)
	other := long(300, true)
	end := planted[668].End + 5
	middle := func(k Known) int { return (k.Start + k.End) / 2 }
	l.moved.Start, l.moved.End = l.moved.Start-end, l.moved.End-end
	const first = 36 // bases that sort first, on the other strand
	l.plasmid = bytes.Clone(letters[end:])
	l.plasmid = slices.Insert(l.plasmid, l.moved.End-300, bytes.Repeat([]byte("T"), first)...)
	l.moved.End += first
	l.plasmid = inserted(l.plasmid, element, []int{middle(l.moved)})
	l.chromosome = inserted(letters[:end], element, []int{middle(other)})
	l.chromosome = inserted(l.chromosome, stopped, []int{middle(l.broken)})
	grown := len(element) + 5
	l.broken.End += grown
	l.moved.End += grown
	return l
}

// rows are what is reported of a contig, as it were of its complement, or of the contig that was cut elsewhere to begin at turn.
func rows(r *Result, contig, bases, turn int, opposite bool) (out []string) {
	row := func(start, end int, reverse bool, more ...any) {
		if opposite {
			start, end, reverse = bases-end, bases-start, !reverse
		}
		start, end = (start+turn)%bases, (start+turn)%bases+end-start
		out = append(out, fmt.Sprint(start, end, reverse, more))
	}
	for _, g := range r.Genes {
		if g.Contig == contig {
			row(g.Start, g.End, g.Reverse, g.Score)
		}
	}
	for _, p := range r.Pseudogenes {
		if p.Contig == contig {
			row(p.Start, p.End, p.Reverse, p.Faults, p.Fragments)
		}
	}
	slices.Sort(out)
	return out
}

// TestInterruptedGenesAreThoseOfTheMolecules: contigs in whatever order, on whatever strand, and a plasmid from whatever base on, within a broken gene and in
// the insertion sequence in it, have the same genes and pseudogenes. An insertion sequence's gene that has a stop in it is a pseudogene of its own within the
// one that it stands in.
func TestInterruptedGenesAreThoseOfTheMolecules(t *testing.T) {
	testenv.CalculatesLong(t)
	t.Parallel()
	l := sharedElement(t)
	name := func(seq []byte, circular bool) Contig { return Contig{Name: "a", Seq: seq, Circular: circular} }
	r := find(t, Options{Code: 11}, name(l.chromosome, false), name(l.plasmid, true))
	reported := func(k Known, contig int) (out []Pseudogene) {
		for _, p := range r.Pseudogenes {
			if p.Contig == contig && p.Start >= k.Start && p.End <= k.End {
				out = append(out, p)
			}
		}
		return out
	}
	outer := reported(l.broken, 0)
	require.Len(t, outer, 2)
	require.Equal(t, []int{l.broken.Start, l.broken.End}, []int{outer[0].Start, outer[0].End})
	require.Equal(t, []Fault{Interrupted}, outer[0].Faults)
	require.LessOrEqual(t, outer[0].Fragments, 2)
	require.Contains(t, outer[1].Faults, InternalStop)
	require.True(t, outer[1].Own)
	require.Len(t, reported(l.moved, 1), 1)
	require.Equal(t, l.moved.End, reported(l.moved, 1)[0].End)

	chromosome, plasmid := rows(r, 0, len(l.chromosome), 0, false), rows(r, 1, len(l.plasmid), 0, false)
	for _, turn := range []int{l.moved.Start + 100, (l.moved.Start + l.moved.End) / 2, l.moved.End - 100} {
		cut := slices.Concat(l.plasmid[turn:], l.plasmid[:turn])
		r := find(t, Options{Code: 11}, name(bytes.ToLower(cut), true), name(reverseComplement(l.chromosome), false))
		require.Equal(t, plasmid, rows(r, 0, len(l.plasmid), turn, false), "from %d on", turn)
		require.Equal(t, chromosome, rows(r, 1, len(l.chromosome), 0, true))
	}
}

// debris is an assembly of a genome with contigs of insertion sequences, whole, cut and beside each other, of other stretches, and of unknown bases.
func (l *layout) debris(r *rand.Rand) []Contig {
	element := insertionSequence(11)
	contigs := []Contig{{Name: "a", Seq: l.chromosome, Circular: true}, {Name: "b", Seq: l.plasmid, Circular: true}}
	for range 60 {
		seq := []byte("A")
		for range 1 + r.IntN(4) {
			switch r.IntN(5) {
			case 0:
				seq = append(seq, element...)
			case 1:
				seq = append(seq, reverseComplement(element)...)
			case 2:
				seq = append(seq, element[r.IntN(len(element)):]...)
			case 3:
				at := r.IntN(len(l.chromosome) - 3000)
				seq = append(seq, l.chromosome[at:at+r.IntN(3000)]...)
			default:
				seq = append(seq, bytes.Repeat([]byte("N"), r.IntN(40))...)
			}
		}
		contigs = append(contigs, Contig{Name: "c", Seq: seq, Circular: r.IntN(2) == 0})
	}
	return contigs
}

// TestDebrisHasTheSameGenesInAnyOrder: also where many copies are alike to the last base, the genes and pseudogenes are the same in any order of the contigs, on
// either strand of each.
func TestDebrisHasTheSameGenesInAnyOrder(t *testing.T) {
	testenv.CalculatesLong(t)
	t.Parallel()
	l := sharedElement(t)
	for _, seed := range []uint64{11, 12} { // in both are more copies of a broken gene than are compared, and in 11 a small circle that insertion sequences fill
		r := rand.New(rand.NewPCG(seed, 9))
		contigs := l.debris(r)
		first := find(t, Options{Code: 11}, contigs...)
		order := r.Perm(len(contigs))
		var shuffled []Contig
		var opposite []bool
		for i, k := range order {
			c := contigs[k]
			opposite = append(opposite, r.IntN(2) == 0)
			if opposite[i] {
				c.Seq = reverseComplement(c.Seq)
			}
			shuffled = append(shuffled, c)
		}
		second := find(t, Options{Code: 11}, shuffled...)
		for i, k := range order {
			n := len(contigs[k].Seq)
			require.Equal(t, rows(first, k, n, 0, false), rows(second, i, n, n, opposite[i]), "seed %d, contig %d", seed, k)
		}
	}
}

// TestInterruptedGenesBeginWhereTheirPartsDo: an interrupted gene that the end of a contig cuts begins there, though a codon that may be its start is behind
// that.
func TestInterruptedGenesBeginWhereTheirPartsDo(t *testing.T) {
	testenv.CalculatesLong(t)
	t.Parallel()
	l := sharedElement(t)
	cut := l.chromosome[l.broken.Start+10:]
	require.Contains(t, string(cut[:100]), "ATG")
	for _, reverse := range []bool{false, true} {
		seq := cut
		if reverse {
			seq = reverseComplement(cut)
		}
		r := find(t, Options{Code: 11}, Contig{Name: "a", Seq: seq}, Contig{Name: "b", Seq: l.plasmid, Circular: true})
		i := slices.IndexFunc(r.Pseudogenes, func(p Pseudogene) bool { return p.Contig == 0 && (p.Start < shortest || p.End > len(seq)-shortest) })
		require.GreaterOrEqual(t, i, 0)
		p := r.Pseudogenes[i]
		if reverse {
			p.Start, p.End = len(seq)-p.End, len(seq)-p.Start
		}
		require.Equal(t, []Fault{Interrupted}, p.Faults)
		require.Less(t, p.Start, 3)
		require.Equal(t, l.broken.End-l.broken.Start-10, p.End)
	}
}

// TestOverlappingRemains: what overlaps on a strand is one broken gene, also across the origin; what lies in an insertion sequence isn't a part of the gene that
// this stands in.
func TestOverlappingRemains(t *testing.T) {
	contigs := []Contig{{Name: "a", Seq: bytes.Repeat([]byte("A"), 10_000), Circular: true}}
	for _, reverse := range []bool{false, true} {
		for _, shift := range []int{0, 3000, 5500, 6500, 7500, 9900} {
			place := func(start, end int) (s spot) {
				s = spot{start: (start + shift) % 10_000, reverse: reverse}
				s.end = s.start + end - start
				return s
			}
			gene := func(start, end int) Gene {
				s := place(start, end)
				return Gene{Start: s.start, End: s.end, Reverse: reverse}
			}
			r := Result{Genes: []Gene{gene(1000, 2000), gene(2300, 3300), gene(3400, 3900), gene(4000, 4600), gene(4620, 5000)}}
			s := self{contigs: contigs, genes: r.Genes, at: map[spot]int{}}
			for i := range r.Genes {
				s.at[r.Genes[i].spot()] = i
			}
			x := interruption{whole: place(1000, 4700), without: []spot{place(2005, 3950)}, parts: []spot{r.Genes[0].spot(), r.Genes[3].spot()}}
			list := append(s.interrupted(&x),
				s.joint(1, 2, &split{fault: Frameshift}), s.joint(2, 1, &split{fault: Frameshift}), s.joint(3, 4, &split{fault: InternalStop}), s.joint(4, 3, &split{fault: InternalStop}))
			r.takeBroken(contigs, list)
			require.Empty(t, r.Genes)
			outer, inner := place(1000, 5000), place(2300, 3900)
			require.ElementsMatch(t, []Pseudogene{
				{Start: outer.start, End: outer.end, Reverse: reverse, Faults: []Fault{InternalStop, Interrupted}, Fragments: 3},
				{Start: inner.start, End: inner.end, Reverse: reverse, Faults: []Fault{Frameshift}, Fragments: 2},
			}, r.Pseudogenes, "%v, %d bases later", reverse, shift)

			c := called{turns: map[int]int{0: 10_000}}
			for k, contradicts := range map[spot]bool{inner: false, place(4600, 5200): true, place(1500, 2500): true, place(4700, 5200): false} {
				require.Equal(t, contradicts, c.contradict(&x, &interruption{whole: k}))
				require.Equal(t, contradicts, c.contradict(&interruption{whole: k}, &x))
			}

			// By their codons a part and the insertion sequence's gene aren't one, but a part and its neighbour are.
			between := func(a, b spot) bool { return x.explains(&split{parts: [2]spot{a, b}}, 10_000) }
			require.True(t, between(place(1000, 2000), place(2300, 3300)))
			require.True(t, between(place(3400, 3900), place(4000, 4600)))
			require.True(t, between(place(1000, 2000), place(4000, 4600)))
			require.False(t, between(place(400, 990), place(1000, 2000)))
			require.False(t, between(place(2300, 3300), place(3400, 3900)))
		}
	}
}

// TestWholePartsKeepAllParts: if one of the parts of an interrupted gene is like a whole known protein, none of them is taken out.
func TestWholePartsKeepAllParts(t *testing.T) {
	genes := make([]Gene, 4)
	known := &Similar{}
	known.Coverage, known.QueryCoverage = 1, 1
	for i := range 3 {
		r := Result{Genes: slices.Clone(genes)}
		r.Genes[i].Similar = known
		for k := range 3 {
			r.alone = append(r.alone, remains{gene: k, parts: []int{0, 1, 2}})
		}
		r.alone = append(r.alone, remains{gene: 3, parts: []int{3}})
		require.Len(t, r.believed(), 1)
	}
}

// TestCopiesAreFound: of stretches that stand twice or more, on either strand and in whatever contig, the ends are found to a few bases, in any order of the
// contigs; what is shorter isn't one.
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
