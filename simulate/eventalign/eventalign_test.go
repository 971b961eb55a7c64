package eventalign

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// strand is current of known bases.
type strand struct {
	samples, levels []float32
	codes           []uint32
	begins          []int
}

// made is a strand of k-mers with random levels, each base of so many samples at least.
func made(rnd *rand.Rand, table []float32, bases, least int, noise float64) strand {
	var s strand
	code, mask := uint32(rnd.IntN(len(table))), uint32(len(table)-1)
	for range bases {
		code = (code<<2 | uint32(rnd.IntN(4))) & mask
		s.codes, s.levels, s.begins = append(s.codes, code), append(s.levels, table[code]), append(s.begins, len(s.samples))
		for range least + int(rnd.ExpFloat64()*9) {
			s.samples = append(s.samples, table[code]+float32(noise*rnd.NormFloat64()))
		}
	}
	return s
}

func randomTable(rnd *rand.Rand, k int) []float32 {
	table := make([]float32, 1<<(2*k))
	for i := range table {
		table[i] = float32(rnd.NormFloat64())
	}
	return table
}

// total is what a path costs, by its definition.
func total(samples, levels []float32, begins []int, cfg Config) float64 {
	sum := 0.0
	for i, begin := range begins {
		for _, x := range samples[begin:end(begins, i, len(samples))] {
			d := float64(x-levels[i]) / cfg.Deviation
			sum += min(d*d/2, cfg.Most) - math.Log(1-cfg.Move)
		}
		sum -= math.Log(cfg.Move) - math.Log(1-cfg.Move)
	}
	return sum
}

// least is the cost of the best of all paths, by trying each.
func least(samples, levels []float32, cfg Config) float64 {
	best := math.Inf(1)
	begins := make([]int, len(levels))
	var try func(i int)
	try = func(i int) {
		if i == len(levels) {
			best = min(best, total(samples, levels, begins, cfg))
			return
		}
		for t := begins[i-1] + 1; t <= len(samples)-(len(levels)-i); t++ {
			begins[i] = t
			try(i + 1)
		}
	}
	try(1)
	return best
}

// An alignment is the best of all paths, wherever its band's middle is.
func TestAlignIsTheBestPath(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	cfg := Default()
	cfg.Band = 6
	for range 200 {
		levels := randomTable(rnd, 1)
		samples := make([]float32, len(levels)+rnd.IntN(9))
		for i := range samples {
			samples[i] = float32(rnd.NormFloat64())
		}
		middle := make([]int, len(levels))
		for i := range middle {
			middle[i] = rnd.IntN(len(samples))
		}
		slices.Sort(middle)
		got, err := Align(samples, levels, middle, cfg)
		require.NoError(t, err)
		require.Zero(t, got[0])
		for i := 1; i < len(got); i++ {
			require.Less(t, got[i-1], got[i])
		}
		require.InDelta(t, least(samples, levels, cfg), total(samples, levels, got, cfg), 1e-3)
	}
}

// Bases are found where they are, in a band about where they nearly are.
func TestAlignFindsBases(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 2))
	s := made(rnd, randomTable(rnd, 5), 3000, 1, 0.1)
	about := make([]int, len(s.begins))
	for i, b := range s.begins {
		about[i] = b / 100 * 100
	}
	got, err := Align(s.samples, s.levels, about, Default())
	require.NoError(t, err)
	right := 0
	for i := range got {
		if got[i] >= s.begins[i]-1 && got[i] <= s.begins[i]+1 {
			right++
		}
	}
	require.Greater(t, right, 2800)
}

func TestAlignRefuses(t *testing.T) {
	_, err := Align(make([]float32, 3), make([]float32, 5), make([]int, 5), Default())
	require.ErrorIs(t, err, ErrOutside, "fewer samples than bases")
	_, err = Align(make([]float32, 9), make([]float32, 5), make([]int, 4), Default())
	require.ErrorContains(t, err, "5 levels and 4 places")
	_, err = Align(nil, nil, nil, Default())
	require.ErrorIs(t, err, ErrOutside)
	cfg := Default()
	cfg.Band = 2
	_, err = Align(make([]float32, 100), make([]float32, 50), make([]int, 50), cfg)
	require.ErrorIs(t, err, ErrOutside, "the band is at the last base from the beginning on")
}

// Most k-mers of clean current are decoded, over several settlings.
func TestDecode(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	table := randomTable(rnd, 6)
	s := made(rnd, table, 1500, 3, 0.05)
	d, err := NewDecoder(6, table, Default())
	require.NoError(t, err)
	for range 2 { // a decoder has no memory
		p, err := d.Decode(s.samples)
		require.NoError(t, err)
		require.True(t, slices.IsSorted(p.Begins))
		at := make(map[int]uint32)
		for i, b := range p.Begins {
			at[b] = p.Codes[i]
			if i > 0 {
				require.Equal(t, p.Codes[i-1]<<2&(1<<12-1), p.Codes[i]&^3, "a k-mer follows the one before")
			}
		}
		right := 0
		for i, b := range s.begins {
			if c, ok := at[b]; ok && c == s.codes[i] {
				right++
			}
		}
		require.Greater(t, right, 1350)
	}
	_, err = d.Decode(nil)
	require.ErrorContains(t, err, "no samples")
	_, err = NewDecoder(6, table[1:], Default())
	require.ErrorContains(t, err, "4095 levels for k-mers of 6 bases")
}

// A read's scale and shift are found from current in picoamperes, and its distributions
// are those that it was made with.
func TestStatistics(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 4))
	s := made(rnd, randomTable(rnd, 5), 5000, 4, 0.1)
	pa := make([]float32, len(s.samples))
	for i, x := range s.samples {
		pa[i] = 21*x + 95
	}
	var stats Statistics
	fit, _, err := stats.AddKnown(pa, s.levels, s.begins, Default())
	require.NoError(t, err)
	require.InDelta(t, 21, fit.Scale, 0.1)
	require.InDelta(t, 95, fit.Shift, 0.1)
	require.Len(t, stats.Dwells, 5000-2*edgeBases)
	require.Greater(t, stats.Correlation(), 0.99)
	mean, _ := moments(float32s(stats.Dwells))
	require.InDelta(t, 4+8.5, mean, 0.5)
	mean, _ = moments(float32s(stats.Spreads))
	require.InDelta(t, 0.1, mean, 0.01)
	for _, r := range stats.Autocorrelation() {
		// The mean of a base comes from its own samples, which makes white noise slightly
		// anticorrelated.
		require.InDelta(t, -0.05, r, 0.06)
	}
	flat := make([]float32, len(pa))
	_, _, err = stats.AddKnown(flat, s.levels, s.begins, Default())
	require.ErrorIs(t, err, ErrFit)
}

func float32s(values []float64) []float32 {
	out := make([]float32, len(values))
	for i, v := range values {
		out[i] = float32(v)
	}
	return out
}

// A base's level is another one for a while: by so much, for as long and then when it was
// made to be, either way, and the rest of the scatter is what noise was added.
func TestChanges(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	base := func(by float64, first, long, samples int) []float32 {
		out := make([]float32, samples)
		for i := range out {
			out[i] = float32(1 + 0.02*rnd.NormFloat64())
			if i >= first && i < first+long {
				out[i] += float32(by)
			}
		}
		return out
	}
	for _, c := range []struct {
		by                   float64
		first, long, samples int
	}{{0.5, 5, 4, 20}, {-0.5, 5, 4, 20}, {0.5, 0, 3, 14}, {-0.8, 28, 2, 30}, {0.4, 10, 24, 60}} {
		samples := base(c.by, c.first+1, c.long, c.samples+2) // but for the first and the last
		by, first, long, rest := changed(samples[1 : len(samples)-1])
		require.InDelta(t, c.by, by, 0.04)
		require.Equal(t, [2]int{c.first, c.long}, [2]int{first, long})
		require.InDelta(t, 0.02, rest, 0.012)
	}
	require.Equal(t, 1, Turn(base(0.5, 6, 4, 22)))
	require.Equal(t, -1, Turn(base(-0.5, 6, 4, 22)))
	require.Equal(t, 0, Turn(base(0.1, 6, 4, 22)), "hardly")
	require.Equal(t, 0, Turn(base(0.5, 2, 4, 11)), "too few samples")

	var s Statistics
	samples := slices.Concat(base(0, 0, 0, 4*20), base(0.5, 11, 4, 22), base(0, 0, 0, 4*20))
	levels, begins := make([]float32, 9), make([]int, 9)
	for i := range levels {
		levels[i], begins[i] = 1, 20*i+min(2, max(0, 2*(i-4)))
	}
	s.Add(samples, levels, begins)
	require.Len(t, s.Changes, 1)
	require.InDelta(t, 0.5, s.Changes[0], 0.04)
	require.InDelta(t, 4./20, s.Lasts[0], 1e-9)
	require.InDelta(t, 10./16, s.When[0], 1e-9)
}

func TestKS(t *testing.T) {
	for _, c := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1, 2, 3}, []float64{3, 1, 2}, 0},
		{[]float64{1, 2}, []float64{3, 4}, 1},
		{[]float64{1, 1, 2, 2}, []float64{1, 2, 2, 2}, 0.25},
		{[]float64{0, 1}, []float64{0.5}, 0.5},
	} {
		require.InDelta(t, c.want, KS(c.a, c.b), 1e-12)
		require.InDelta(t, c.want, KS(c.b, c.a), 1e-12)
	}
	rnd := rand.New(rand.NewPCG(5, 5))
	for range 50 { // against its definition
		a, b := make([]float64, 1+rnd.IntN(20)), make([]float64, 1+rnd.IntN(20))
		for _, s := range [][]float64{a, b} {
			for i := range s {
				s[i] = float64(rnd.IntN(8))
			}
		}
		share := func(s []float64, v float64) float64 {
			n := 0
			for _, x := range s {
				if x <= v {
					n++
				}
			}
			return float64(n) / float64(len(s))
		}
		want := 0.0
		for v := range 8 {
			want = max(want, math.Abs(share(a, float64(v))-share(b, float64(v))))
		}
		require.InDelta(t, want, KS(a, b), 1e-12)
	}
}

func BenchmarkAlign(b *testing.B) {
	rnd := rand.New(rand.NewPCG(6, 6))
	s := made(rnd, randomTable(rnd, 5), 2000, 1, 0.15)
	for b.Loop() {
		if _, err := Align(s.samples, s.levels, s.begins, Default()); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(s.samples)))
	b.ReportAllocs()
}
