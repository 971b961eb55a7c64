package phase

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// agreeing is the weight of what the reads of g show that agrees, less what doesn't,
// when the sites are oriented as given: the objective of weighted MEC.
func agreeing(g *graph, turn []int8) int64 {
	total := int64(0)
	for _, r := range g.reads {
		sum := int64(0)
		for _, e := range r.entries {
			sum += int64(turn[e.site]) * e.llr
		}
		total += abs(sum)
	}
	return total
}

// best is the greatest agreement of all ways to turn the sites.
func best(g *graph) int64 {
	most := int64(-1)
	turn := make([]int8, len(g.sites))
	for way := range 1 << len(turn) {
		for i := range turn {
			turn[i] = int8(way>>i&1)*2 - 1
		}
		most = max(most, agreeing(g, turn))
	}
	return most
}

// scattered are reads without any truth behind them.
func scattered(rng *rand.Rand, sites, reads int) []Read {
	out := make([]Read, reads)
	for i := range out {
		from := rng.IntN(sites)
		for s := from; s < min(sites, from+6); s++ {
			if rng.IntN(4) > 0 {
				out[i] = append(out[i], Observation{s, rng.Int32N(2*MaxLLR) - MaxLLR})
			}
		}
	}
	return out
}

func graphs(t *testing.T, sites int, reads []Read) []*graph {
	t.Helper()
	var clean []Read
	for _, r := range reads {
		c, err := r.clean(sites)
		require.NoError(t, err)
		if len(c) > 1 {
			clean = append(clean, c)
		}
	}
	slices.SortFunc(clean, compareReads)
	return newGraph(sites, clean).divide(make([]int, sites))
}

// TestFewReadsAreSplitBestOfAll: with no more reads than are weighed together, the split is the best of
// all, even of reads that make no sense.
func TestFewReadsAreSplitBestOfAll(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		sites := 2 + rng.IntN(9)
		for _, g := range graphs(t, sites, scattered(rng, sites, 2+rng.IntN(maxActive-1))) {
			g.solve()
			require.Equal(t, best(g), agreeing(g, g.turn), "seed %d", seed)
		}
	}
}

// TestExactDespiteDepth: with more reads than are weighed together, refinement
// finds the best of all where the reads are of two haplotypes.
func TestExactDespiteDepth(t *testing.T) {
	for seed := range uint64(60) {
		s := simulation{sites: 10, spacing: 1000, depth: 40, length: 6000, error: 0.12}
		reads, _ := s.run(seed)
		for _, g := range graphs(t, s.sites, reads) {
			g.solve()
			g.refine()
			require.Equal(t, best(g), agreeing(g, g.turn), "seed %d", seed)
		}
	}
}

// simulation is a diploid sample that is sequenced.
type simulation struct {
	sites   int
	spacing float64 // mean distance of heterozygous sites, in bases
	depth   float64
	length  float64 // mean of reads, in bases
	error   float64 // share of observations that show the other allele
	missing float64 // share of sites a read passes without showing an allele
	chimera float64 // share of reads that change haplotype somewhere
	false   float64 // share of sites that aren't heterozygous: alleles come as they will
}

type truth struct {
	pos     []float64
	swapped []bool
	false   []bool
	of      []int // haplotype of each read; 0: a chimera
}

func (s simulation) run(seed uint64) ([]Read, truth) {
	rng := rand.New(rand.NewPCG(seed, 7))
	var tr truth
	at := 0.0
	for range s.sites {
		at += 1 + rng.ExpFloat64()*s.spacing
		tr.pos = append(tr.pos, at)
		tr.swapped = append(tr.swapped, rng.IntN(2) == 1)
		tr.false = append(tr.false, rng.Float64() < s.false)
	}
	var reads []Read
	for range int(s.depth * at / s.length) {
		length := s.length * (0.2 + rng.ExpFloat64()*0.8)
		from := rng.Float64()*(at+length) - length
		of := 1 + rng.IntN(2)
		change := -1.0
		if rng.Float64() < s.chimera {
			change = from + rng.Float64()*length
		}
		var r Read
		for i, p := range tr.pos {
			if p < from || p >= from+length || rng.Float64() < s.missing {
				continue
			}
			second := tr.swapped[i] == (of == 1)
			if change >= 0 && p > change {
				second = !second
			}
			if rng.Float64() < s.error {
				second = !second
			}
			if tr.false[i] {
				second = rng.IntN(2) == 1
			}
			llr := 4000 + rng.Int32N(16_000)
			if !second {
				llr = -llr
			}
			r = append(r, Observation{i, llr})
		}
		if change >= 0 {
			of = 0
		}
		reads = append(reads, r)
		tr.of = append(tr.of, of)
	}
	return reads, tr
}

// figures is how a result compares with the truth.
type figures struct {
	phased, sites    int // true sites
	switches, pairs  int // neighbours in a set that are the wrong way round
	wrongTags, tags  int
	n50              float64 // half of the sets' bases are in sets of at least this many
	falsePhased, all int     // false sites that were phased
}

func (f figures) String() string {
	return fmt.Sprintf("phased %d of %d, switch errors %d of %d, N50 %.0f, reads wrong %d of %d, false sites phased %d of %d",
		f.phased, f.sites, f.switches, f.pairs, f.n50, f.wrongTags, f.tags, f.falsePhased, f.all)
}

func (f *figures) add(o figures) {
	f.phased += o.phased
	f.sites += o.sites
	f.switches += o.switches
	f.pairs += o.pairs
	f.wrongTags += o.wrongTags
	f.tags += o.tags
	f.falsePhased += o.falsePhased
	f.all += o.all
	f.n50 += o.n50
}

func (tr truth) compare(res *Result) figures {
	var f figures
	last := make(map[int]int)
	span := make(map[int]float64)
	for i, s := range res.Sites {
		if tr.false[i] {
			f.all++
			if s.Set >= 0 {
				f.falsePhased++
			}
			continue
		}
		f.sites++
		if s.Set < 0 {
			continue
		}
		f.phased++
		if j, ok := last[s.Set]; ok {
			f.pairs++
			if (s.Swapped != res.Sites[j].Swapped) != (tr.swapped[i] != tr.swapped[j]) {
				f.switches++
			}
		}
		last[s.Set] = i
		span[s.Set] = tr.pos[i] - tr.pos[s.Set]
	}
	var spans []float64
	sum := 0.0
	for _, x := range span {
		spans = append(spans, x)
		sum += x
	}
	slices.Sort(spans)
	for half := sum / 2; len(spans) > 0 && half > 0; spans = spans[:len(spans)-1] {
		f.n50 = spans[len(spans)-1]
		half -= f.n50
	}
	for i, tags := range res.Tags {
		for _, t := range tags {
			if t.Haplotype == 0 || tr.of[i] == 0 || tr.false[t.Set] {
				continue
			}
			f.tags++
			// Haplotype 1 of a set has the first allele of its first site.
			if (t.Haplotype == 1) != (tr.of[i] == 1 != tr.swapped[t.Set]) {
				f.wrongTags++
			}
		}
	}
	return f
}

// TestSimulated: reads of two haplotypes with errors, chimeras and sites that
// aren't heterozygous. Bounds leave a margin over what is found.
func TestSimulated(t *testing.T) {
	quiet := simulation{sites: 500, spacing: 1000, length: 12_000, error: 0.02, missing: 0.05, chimera: 0.01, false: 0.02}
	noisy := simulation{sites: 500, spacing: 1000, length: 12_000, error: 0.10, missing: 0.2, chimera: 0.01, false: 0.08}
	for _, tt := range []struct {
		name          string
		simulation    simulation
		depth         float64
		phased        float64 // least share of the true sites
		switches      float64 // most per 1,000 neighbours
		wrong         float64 // most per 1,000 tagged reads
		n50           float64 // least, in bases
		falselyPhased float64 // most, share of the sites that aren't heterozygous
	}{
		{name: "quiet 5x", simulation: quiet, depth: 5, phased: 0.8, switches: 3, wrong: 10, n50: 50_000, falselyPhased: 0.5},
		{name: "quiet 10x", simulation: quiet, depth: 10, phased: 0.97, switches: 0.5, wrong: 5, n50: 300_000, falselyPhased: 0.3},
		{name: "quiet 30x", simulation: quiet, depth: 30, phased: 0.995, switches: 0, wrong: 3, n50: 400_000, falselyPhased: 0.1},
		{name: "quiet 60x", simulation: quiet, depth: 60, phased: 0.998, switches: 0, wrong: 3, n50: 400_000, falselyPhased: 0.1},
		{name: "noisy 10x", simulation: noisy, depth: 10, phased: 0.8, switches: 8, wrong: 30, n50: 100_000, falselyPhased: 0.4},
		{name: "noisy 30x", simulation: noisy, depth: 30, phased: 0.93, switches: 0.5, wrong: 20, n50: 400_000, falselyPhased: 0.1},
		{name: "noisy 60x", simulation: noisy, depth: 60, phased: 0.97, switches: 0.5, wrong: 20, n50: 400_000, falselyPhased: 0.05},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.simulation
			s.depth = tt.depth
			var sum figures
			const runs = 3
			for seed := range uint64(runs) {
				reads, tr := s.run(seed)
				res, err := Resolve(s.sites, reads)
				require.NoError(t, err)
				sum.add(tr.compare(res))
			}
			sum.n50 /= runs
			t.Log(sum)
			share := func(n, of int) float64 { return float64(n) / float64(max(1, of)) }
			require.GreaterOrEqual(t, share(sum.phased, sum.sites), tt.phased)
			require.LessOrEqual(t, 1000*share(sum.switches, sum.pairs), tt.switches)
			require.LessOrEqual(t, 1000*share(sum.wrongTags, sum.tags), tt.wrong)
			require.GreaterOrEqual(t, sum.n50, tt.n50)
			require.LessOrEqual(t, share(sum.falsePhased, sum.all), tt.falselyPhased)
		})
	}
}

// TestHopeless: where reads tie nothing together, nothing is phased.
func TestHopeless(t *testing.T) {
	const sites, depth = 200, 30
	rng := rand.New(rand.NewPCG(3, 3))
	for _, tt := range []struct {
		name  string
		reads func() []Read
		most  int // sites that chance may phase
	}{
		{"no reads", func() []Read { return nil }, 0},
		{"reads of one site each", func() []Read {
			var out []Read
			for i := range sites * depth {
				out = append(out, Read{{i % sites, MaxLLR * int32(1-2*rng.IntN(2))}})
			}
			return out
		}, 0},
		{"reads that show nothing", func() []Read {
			var out []Read
			for i := range sites * depth {
				out = append(out, Read{{i % (sites - 1), 0}, {i%(sites-1) + 1, 0}})
			}
			return out
		}, 0},
		{"one read for each pair", func() []Read {
			var out []Read
			for i := range sites / 2 {
				out = append(out, Read{{2 * i, MaxLLR}, {2*i + 1, -MaxLLR}})
			}
			return out
		}, 0},
		{"alleles as they will", func() []Read {
			reads, _ := simulation{sites: sites, spacing: 1000, length: 12_000, depth: depth, false: 1}.run(1)
			return reads
		}, sites / 100},
		{"evidence next to none", func() []Read {
			reads, _ := simulation{sites: sites, spacing: 1000, length: 12_000, depth: 10}.run(1)
			for _, r := range reads {
				for i := range r {
					r[i].LLR /= 100
				}
			}
			return reads
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reads := tt.reads()
			res, err := Resolve(sites, reads)
			require.NoError(t, err)
			phased := 0
			for _, s := range res.Sites {
				if s.Set >= 0 {
					phased++
				}
			}
			require.LessOrEqual(t, phased, tt.most)
			if tt.most == 0 {
				for _, tags := range res.Tags {
					require.Empty(t, tags)
				}
			}
		})
	}
}

// TestWeakLink: between two stretches that one read alone ties, or reads that contradict
// each other, a phase set ends; tied by enough reads, it goes on.
func TestWeakLink(t *testing.T) {
	stretch := func(first int) []Read {
		var out []Read
		for i := range 8 {
			llr := int32(MaxLLR * (1 - 2*(i%2)))
			out = append(out, Read{{first, llr}, {first + 1, llr}, {first + 2, llr}})
		}
		return out
	}
	across := func(a, b int32) Read { return Read{{1, a}, {2, a}, {3, b}, {4, b}} }
	const x = MaxLLR
	for _, tt := range []struct {
		name  string
		links []Read
		sets  []int
	}{
		{"none", nil, []int{0, 0, 0, 3, 3, 3}},
		{"one read", []Read{across(x, x)}, []int{0, 0, 0, 3, 3, 3}},
		{"two reads", []Read{across(x, x), across(-x, -x)}, []int{0, 0, 0, 0, 0, 0}},
		{"contradiction", []Read{across(x, x), across(-x, -x), across(x, -x)}, []int{0, 0, 0, 3, 3, 3}},
		{"many contradictions", []Read{
			across(x, x), across(-x, -x), across(x, x), across(-x, -x), across(x, x), across(-x, -x),
			across(x, -x), across(-x, x), across(x, -x),
		}, []int{0, 0, 0, 3, 3, 3}},
		{"few contradictions", []Read{
			across(x, x), across(-x, -x), across(x, x), across(-x, -x), across(x, -x),
		}, []int{0, 0, 0, 0, 0, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res, err := Resolve(6, slices.Concat(stretch(0), stretch(3), tt.links))
			require.NoError(t, err)
			var sets []int
			for _, s := range res.Sites {
				sets = append(sets, s.Set)
			}
			require.Equal(t, tt.sets, sets)
		})
	}
}

// TestInterleaved: phase sets may lie within each other.
func TestInterleaved(t *testing.T) {
	var reads []Read
	for i := range 10 {
		llr := int32(MaxLLR * (1 - 2*(i%2)))
		reads = append(reads, Read{{0, llr}, {2, -llr}}, Read{{1, llr}, {3, llr}})
	}
	res, err := Resolve(4, reads)
	require.NoError(t, err)
	for i, want := range []Site{{Set: 0}, {Set: 1}, {Set: 0, Swapped: true}, {Set: 1}} {
		require.Equal(t, want.Set, res.Sites[i].Set)
		require.Equal(t, want.Swapped, res.Sites[i].Swapped)
	}
	// The first read has the second allele at site 0, which is haplotype 2's.
	require.Equal(t, []Tag{{Set: 0, Haplotype: 2, Quality: 40}}, res.Tags[0])
}

// TestAnyOrder: the order of reads changes nothing but the order of their tags.
func TestAnyOrder(t *testing.T) {
	s := simulation{sites: 120, spacing: 1000, depth: 25, length: 12_000, error: 0.15, missing: 0.2, chimera: 0.05, false: 0.2}
	for seed := range uint64(5) {
		reads, _ := s.run(seed)
		want, err := Resolve(s.sites, reads)
		require.NoError(t, err)
		rng := rand.New(rand.NewPCG(seed, 2))
		for range 5 {
			order := rng.Perm(len(reads))
			mixed := make([]Read, len(reads))
			for i, j := range order {
				mixed[i] = reads[j]
			}
			got, err := Resolve(s.sites, mixed)
			require.NoError(t, err)
			require.Equal(t, want.Sites, got.Sites)
			for i, j := range order {
				require.Equal(t, want.Tags[j], got.Tags[i])
			}
		}
	}
}

// TestMirrored: which allele of a site is called the second, and on which strand of the
// line the sites are counted, changes how the result is written, not what it says.
func TestMirrored(t *testing.T) {
	s := simulation{sites: 100, spacing: 1000, depth: 30, length: 12_000, error: 0.05, missing: 0.1}
	reads, _ := s.run(4)
	want, err := Resolve(s.sites, reads)
	require.NoError(t, err)

	rng := rand.New(rand.NewPCG(4, 4))
	other := make([]bool, s.sites)
	for i := range other {
		other[i] = rng.IntN(2) == 1
	}
	renamed := make([]Read, len(reads))
	for i, r := range reads {
		for _, o := range r {
			if other[o.Site] {
				o.LLR = -o.LLR
			}
			renamed[i] = append(renamed[i], o)
		}
	}
	got, err := Resolve(s.sites, renamed)
	require.NoError(t, err)
	for i, w := range want.Sites {
		g := got.Sites[i]
		require.Equal(t, w.Set, g.Set)
		require.Equal(t, w.Quality, g.Quality)
		if w.Set >= 0 {
			require.Equal(t, w.Swapped != (other[i] != other[w.Set]), g.Swapped, "site %d", i)
		}
	}
}

func TestMalformed(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		read       Read
	}{
		{"beyond", "phasing: read 1: site 3 of 3", Read{{3, 1}}},
		{"before", "phasing: read 1: site -1 of 3", Read{{-1, 1}}},
		{"twice", "phasing: read 1: site 2 follows site 2", Read{{2, 1}, {2, 1}}},
		{"back", "phasing: read 1: site 0 follows site 2", Read{{2, 1}, {0, 1}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Resolve(3, []Read{{{0, 1}}, tt.read})
			require.EqualError(t, err, tt.want)
		})
	}
}

// FuzzResolve: whatever reads show, the result keeps its word.
func FuzzResolve(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 120, 1, 120, 255, 0, 130, 1, 130, 255, 0, 120, 1, 120})
	f.Add([]byte{0, 100, 1, 156, 2, 100, 255, 1, 100, 2, 156, 255, 0, 156, 2, 100, 255, 3, 90, 4, 90})
	f.Fuzz(func(t *testing.T, data []byte) {
		// A read is pairs of a step and an LLR, and ends with 255.
		const sites = 24
		var reads []Read
		var r Read
		for at := 0; len(data) > 0; {
			if data[0] == 255 || len(data) < 2 {
				reads, r, at, data = append(reads, r), nil, 0, data[1:]
				continue
			}
			at += int(data[0] % 8)
			if at < sites {
				r = append(r, Observation{at, int32(int8(data[1])) * 300})
			}
			at++
			data = data[2:]
		}
		res, err := Resolve(sites, reads)
		require.NoError(t, err)
		size := make(map[int]int)
		for i, s := range res.Sites {
			if s.Set < 0 {
				require.Equal(t, Site{Set: -1}, s)
				continue
			}
			require.LessOrEqual(t, s.Set, i)
			require.Equal(t, s.Set, res.Sites[s.Set].Set, "a set is named by a site of its own")
			require.False(t, res.Sites[s.Set].Swapped)
			require.GreaterOrEqual(t, s.Quality, float64(minQuality)/1000)
			require.LessOrEqual(t, s.Quality, float64(maxQuality))
			size[s.Set]++
		}
		for _, n := range size {
			require.Greater(t, n, 1)
		}
		require.Len(t, res.Tags, len(reads))
		for _, tags := range res.Tags {
			for i, tag := range tags {
				require.Positive(t, size[tag.Set])
				require.True(t, i == 0 || tags[i-1].Set < tag.Set)
				require.True(t, tag.Quality >= minTag || tag.Haplotype == 0)
			}
		}
	})
}

// BenchmarkResolve is a megabase of a human genome, and an amplicon.
func BenchmarkResolve(b *testing.B) {
	for _, bb := range []struct {
		name string
		s    simulation
	}{
		{"1 Mb 30x", simulation{sites: 1000, spacing: 1000, depth: 30, length: 12_000, error: 0.03, missing: 0.1, chimera: 0.01, false: 0.03}},
		{"1 Mb 30x of 50 kb reads", simulation{sites: 1000, spacing: 1000, depth: 30, length: 50_000, error: 0.03, missing: 0.1, chimera: 0.01, false: 0.03}},
		{"amplicon 10,000x", simulation{sites: 20, spacing: 200, depth: 10_000, length: 4_000, error: 0.03, missing: 0.1}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			reads, _ := bb.s.run(1)
			for b.Loop() {
				if _, err := Resolve(bb.s.sites, reads); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
