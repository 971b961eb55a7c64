package variant

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream/streampb"
)

// runs is a diploid sample with long homopolymers, and reads of it.
type runs struct {
	contig     *genome.Contig
	haplotypes [2][]int // by homopolymer, in order: how much longer it is
	starts     []int    // of the homopolymers, with the lengths of the reference
	lengths    []int
	snps       []int // heterozygous, of the second haplotype
	rng        *rand.Rand
	wrong      float64 // share of reads with a wrong length
}

// newRuns has homopolymers of the given lengths, each behind 200 other bases with a SNP
// in their middle.
func newRuns(t testing.TB, seed uint64, wrong float64, lengths []int, first, second []int) *runs {
	t.Helper()
	s := &runs{lengths: lengths, haplotypes: [2][]int{first, second}, rng: rand.New(rand.NewPCG(seed, 7)), wrong: wrong}
	var seq []byte
	spacer := func() {
		for range 200 { // no two equal bases in a row
			b := "ACGT"[s.rng.IntN(4)]
			for len(seq) > 0 && seq[len(seq)-1] == b {
				b = "ACGT"[s.rng.IntN(4)]
			}
			seq = append(seq, b)
		}
	}
	for i, n := range lengths {
		spacer()
		s.snps = append(s.snps, len(seq)-100)
		b := "ACGT"[i%4]
		for seq[len(seq)-1] == b || seq[len(seq)-2] == seq[len(seq)-1] {
			seq[len(seq)-1] = "ACGT"[s.rng.IntN(4)]
		}
		s.starts = append(s.starts, len(seq))
		seq = append(seq, slices.Repeat([]byte{b}, n)...)
		next := b
		for next == b {
			next = "ACGT"[s.rng.IntN(4)]
		}
		seq = append(seq, next)
	}
	spacer()
	g, err := genome.Read(strings.NewReader(">chr\n" + string(seq) + "\n"))
	require.NoError(t, err)
	s.contig = g.Contigs[0]
	return s
}

// read is a read of a haplotype over [start, end), as an aligner has it.
func (s *runs) read(t testing.TB, id string, haplotype, start, end int, reverse bool) []*streampb.Segment {
	t.Helper()
	ref := s.contig.Seq
	var seq []byte
	var ops []align.Op
	add := func(kind align.OpKind, n int) {
		if k := len(ops); k > 0 && ops[k-1].Kind == kind {
			ops[k-1].Len += n
		} else if n > 0 {
			ops = append(ops, align.Op{Kind: kind, Len: n})
		}
	}
	for p := start; p < end; {
		if i := slices.Index(s.starts, p); i >= 0 && p > start && p+s.lengths[i] < end {
			n := s.lengths[i]
			called := n + s.haplotypes[haplotype][i]
			if s.rng.Float64() < s.wrong {
				called += []int{-2, -1, -1, -1, 1, 1}[s.rng.IntN(6)]
			}
			seq = append(seq, slices.Repeat(ref[p:p+1], called)...)
			add(align.Match, min(n, called))
			add(align.Deletion, max(0, n-called))
			add(align.Insertion, max(0, called-n))
			p += n
			continue
		}
		b, kind := ref[p], align.Match
		switch {
		case haplotype == 1 && slices.Contains(s.snps, p), s.rng.Float64() < 0.005:
			b, kind = "CGTA"[strings.IndexByte("ACGT", b)], align.Mismatch
		}
		seq = append(seq, b)
		add(kind, 1)
		p++
	}
	r := &align.Read{ID: id, Run: "run", Sample: "s", Seq: seq}
	a := &align.Alignment{Contig: "chr", Start: start, End: end, QueryEnd: len(seq), Ops: ops, MappingQuality: 60, Reverse: reverse}
	if reverse {
		genome.ReverseComplement(r.Seq)
	}
	segments, err := align.Segments(r, a, ref)
	require.NoError(t, err)
	return segments
}

// reads are n reads of each haplotype, half of them of the reverse strand.
func (s *runs) reads(t testing.TB, n int) (out []*streampb.Segment) {
	t.Helper()
	for i := range 2 * n {
		start := s.rng.IntN(60)
		end := len(s.contig.Seq) - s.rng.IntN(60)
		out = append(out, s.read(t, fmt.Sprintf("r%03d", i), i%2, start, end, i/2%2 == 1)...)
	}
	return out
}

func (s *runs) region(t testing.TB, segments []*streampb.Segment) *Region {
	t.Helper()
	r, err := NewRegion(s.contig, 0, Config{Sample: "s", Ploidy: Diploid, Network: new(DoseNetwork)})
	require.NoError(t, err)
	for _, seg := range segments {
		_, err := r.Apply(seg)
		require.NoError(t, err)
	}
	return r
}

// manyRuns is homopolymers of 10 to 17 bases of which some are changed.
func manyRuns(t testing.TB, seed uint64, wrong float64) (s *runs, changed map[int][2]int) {
	t.Helper()
	var lengths []int
	first, second := make([]int, 48), make([]int, 48)
	changed = map[int][2]int{5: {1, 1}, 12: {0, -1}, 20: {-1, -1}, 27: {1, 0}, 33: {2, 0}, 40: {-2, 2}, 44: {-3, -3}}
	for i := range 48 {
		lengths = append(lengths, 10+i/6)
		first[i], second[i] = changed[i][0], changed[i][1]
	}
	return newRuns(t, seed, wrong, lengths, first, second), changed
}

// indels are what calls of indels say, by homopolymer: how much longer each haplotype is,
// the longer one first.
func (s *runs) indels(calls []*streampb.Call) map[int][2]int {
	alleles := make(map[int][]int)
	for _, c := range calls {
		i := slices.Index(s.starts, int(c.GetPos()))
		if i < 0 || len(c.GetRef()) == len(c.GetAlt()) || len(c.GetFilters()) > 0 {
			continue
		}
		for _, n := range c.GetGenotype() {
			if n == 1 {
				alleles[i] = append(alleles[i], len(c.GetAlt())-len(c.GetRef()))
			}
		}
	}
	out := make(map[int][2]int)
	for i, list := range alleles {
		list = append(list, 0, 0)[:2]
		out[i] = [2]int{max(list[0], list[1]), min(list[0], list[1])}
	}
	return out
}

// TestLongHomopolymers: where every third read shows another length than its molecule
// has, the lengths of both haplotypes are found, and no others.
func TestLongHomopolymers(t *testing.T) {
	for seed := range uint64(3) {
		s, changed := manyRuns(t, seed, 0.35)
		segments := s.reads(t, 16)
		calls, err := s.region(t, segments).Finalize()
		require.NoError(t, err)
		want := make(map[int][2]int)
		for i, c := range changed {
			want[i] = [2]int{max(c[0], c[1]), min(c[0], c[1])}
		}
		require.Equal(t, want, s.indels(calls), "seed %d", seed)

		s.rng.Shuffle(len(segments), func(i, j int) { segments[i], segments[j] = segments[j], segments[i] })
		again, err := s.region(t, segments).Finalize()
		require.NoError(t, err)
		require.Len(t, again, len(calls))
		for i := range calls {
			require.True(t, sameEvidence(calls[i], again[i]), "the order of reads changes %v to %v", calls[i], again[i])
		}
	}
}

// TestLengthsWithoutAChange: reads that are wrong more often than right are no reason for a
// call, if they are so at all homopolymers of their length.
func TestLengthsWithoutAChange(t *testing.T) {
	lengths := slices.Repeat([]int{16}, 40)
	s := newRuns(t, 9, 0.7, lengths, make([]int, 40), make([]int, 40))
	calls, err := s.region(t, s.reads(t, 15)).Finalize()
	require.NoError(t, err)
	require.Empty(t, s.indels(calls))
}

// TestLengthsAreCountedAsTheyAreSeen: the length counted when a read is applied is the
// one that its row shows when lengths are evaluated.
func TestLengthsAreCountedAsTheyAreSeen(t *testing.T) {
	contig, segments := hg002(t)
	s, _ := manyRuns(t, 4, 0.5)
	for _, r := range []*Region{s.region(t, s.reads(t, 10)), diploidRegion(t, contig, segments)} {
		r.cfg.MaxDepth = 10_000
		ref := r.contig.Seq
		var want lengthCounts
		total := 0
		m := &r.work.scratch
		for tile := range r.tiles {
			m.load(r, tile)
			for pos := r.tileStart(tile); pos < r.tileEnd(tile); {
				n := runFrom(ref, pos)
				start, end := pos, pos+n
				pos = end
				if n < minCountedRun || start > 0 && ref[start-1] == ref[start] || end >= m.hi {
					continue
				}
				for i := range m.rows {
					w := &m.rows[i]
					if w.seg.start >= start || w.seg.end <= end {
						continue
					}
					change, whole := w.lengthChange(ref[start], start-m.lo, end-m.lo)
					require.True(t, whole)
					want[countedRow(n)][strandBase(baseCode[ref[start]], w.seg.reverse)][changeColumn(change)]++
					total++
				}
			}
		}
		require.Positive(t, total)
		assert.Equal(t, want, r.counted().lengths)
	}
}

func randomCounts(rng *rand.Rand, scale int) (c lengthCounts) {
	for row := range c {
		for base := range c[row] {
			for i := range c[row][base] {
				if rng.IntN(3) == 0 {
					c[row][base][i] = uint32(rng.IntN(scale))
				}
			}
		}
	}
	return c
}

// TestLengthShares: whatever was counted, shares are probabilities, and longer
// homopolymers are not expected to be right more often.
func TestLengthShares(t *testing.T) {
	rng, usual := rand.New(rand.NewPCG(3, 3)), UsualErrors()
	check := func(s *lengthShares) {
		t.Helper()
		sum := 0.0
		for _, p := range s {
			require.GreaterOrEqual(t, p, 0.0)
			sum += p
		}
		require.InDelta(t, 1, sum, 1e-9)
	}
	for _, scale := range []int{1, 2, 50, 1_000_000} {
		counts := randomCounts(rng, scale)
		m := counts.model(&usual)
		for row := range m {
			for base := range m[row] {
				s := &m[row][base]
				check(s)
				longer := s.longer()
				check(&longer)
				require.LessOrEqual(t, longer[maxLengthChange], s[maxLengthChange]+1e-12)
				for change := -maxLengthChange; change <= maxLengthChange; change++ {
					moved := s.moved(change)
					check(&moved)
					require.Positive(t, slices.Min(moved[:]))
				}
			}
		}
	}
}

// TestDirichletMultinomial: the probabilities of all that n reads can show add up to 1.
func TestDirichletMultinomial(t *testing.T) {
	usual := UsualErrors()
	s := shortRunShares(&usual)
	s = s.moved(0)
	for n := range 4 {
		sum := 0.0
		var counts [lengthChanges]uint32
		var each func(left int)
		each = func(left int) {
			if left == 0 {
				sum += math.Exp(dirichletMultinomial(&counts, &s))
				return
			}
			for i := range counts {
				counts[i]++
				each(left - 1)
				counts[i]--
			}
		}
		each(n)
		assert.InDelta(t, 1, sum, 1e-9, "%d reads", n)
	}
}

// TestLengthOpinions: opinions are probabilities of copies and zygosities, and which
// haplotype is called the first makes no difference.
func TestLengthOpinions(t *testing.T) {
	s, _ := manyRuns(t, 5, 0.3)
	r := s.region(t, s.reads(t, 8))
	model := r.errorModel()
	rng := rand.New(rand.NewPCG(6, 6))
	for range 300 {
		i := rng.IntN(len(s.starts))
		run := longRun{start: s.starts[i], end: s.starts[i] + s.lengths[i]}
		exchanged := run
		for strand := range 2 {
			for haplotype := range 3 {
				for range rng.IntN(12) {
					column := changeColumn(rng.IntN(9) - 4)
					run.shown[strand][haplotype][column]++
					exchanged.shown[strand][[3]int{0, 2, 1}[haplotype]][column]++
				}
			}
		}
		v, w := r.evaluateLengths(model, run), r.evaluateLengths(model, exchanged)
		require.Contains(t, v.changes, 0)
		for _, change := range v.changes {
			o, x := v.opinion(change), w.opinion(change)
			copies, zygosity := math.Inf(-1), math.Inf(-1)
			for k := range 3 {
				require.LessOrEqual(t, o.copies[k], 0.0)
				copies, zygosity = logAdd(copies, o.copies[k]), logAdd(zygosity, o.zygosity[k])
				require.InDelta(t, o.copies[k], x.copies[k], 1e-6)
				require.InDelta(t, o.zygosity[k], x.zygosity[k], 1e-6)
			}
			require.InDelta(t, 0, copies, 1e-6)
			require.InDelta(t, 0, zygosity, 1e-6)
		}
	}
}

// TestByLength: only changes of a long homopolymer's own base, in a diploid place.
func TestByLength(t *testing.T) {
	ref := []byte("CGTCACGATCAAAAAAAAAAAACGTGCTAGCTTTTTTTTGCA") // A from 10 to 22, T from 30 to 38
	for _, tt := range []struct {
		name   string
		a      indel
		ploidy Ploidy
		want   bool
	}{
		{"deletion", indel{pos: 10, del: 1}, Diploid, true},
		{"insertion", indel{pos: 10, ins: "AA"}, Diploid, true},
		{"haploid", indel{pos: 10, del: 1}, Haploid, false},
		{"mixture", indel{pos: 10, del: 1}, Mixture, false},
		{"many bases", indel{pos: 10, ins: "AAAAAAA"}, Diploid, false},
		{"another base", indel{pos: 12, ins: "G"}, Diploid, false},
		{"with another base", indel{pos: 10, ins: "AG"}, Diploid, false},
		{"short", indel{pos: 30, del: 1}, Diploid, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, ok := tt.a.leftmost(ref).candidate(ref, 1e-4)
			require.True(t, ok)
			c.ploidy = tt.ploidy
			assert.Equal(t, tt.want, c.byLength(ref))
		})
	}
}

// TestLengthsAreEvaluatedWhereReadsAreAccurate: on both strands.
func TestLengthsAreEvaluatedWhereReadsAreAccurate(t *testing.T) {
	counts := func(wrongA, wrongT uint32) *errorModel {
		c := new(errorCounts)
		for base, wrong := range map[byte]uint32{0: wrongA, 3: wrongT} {
			c.lengths[countedRow(minLongRun)][base][changeColumn(0)] = 10_000 - wrong
			c.lengths[countedRow(minLongRun)][base][changeColumn(-1)] = wrong
		}
		return c.model(nil)
	}
	for _, tt := range []struct {
		wrongA, wrongT uint32
		want           bool
	}{
		{1500, 1500, true},
		{3000, 3000, true},
		{1500, 5000, false},
		{5000, 1500, false},
	} {
		m := counts(tt.wrongA, tt.wrongT)
		assert.Equal(t, tt.want, m.reliableLengths(0), "A: %v", tt)
		assert.Equal(t, tt.want, m.reliableLengths(3), "T: %v", tt)
		assert.True(t, m.reliableLengths(1), "C, of which nothing was seen: as expected of any reads")
	}
}
