package squiggle

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/testenv"
)

// plain is a converter of fine steps, so that rounding is no matter.
var plain = Converter{Scale: 0.01, Min: math.MinInt16, Max: math.MaxInt16}

func randomStrand(bases int, seed uint64) Strand {
	rnd := rand.New(rand.NewPCG(seed, 9))
	s := Strand{Seed: seed, Number: 3, Bases: make([]byte, bases), Stick: bases}
	for i := range s.Bases {
		s.Bases[i] = byte(rnd.IntN(4))
	}
	return s
}

// quiet is a tuning without anything that is drawn but times.
func quiet() Tuning {
	t := Typical()
	t.Noise, t.Spread, t.Dwell, t.Stalls = 0, 0, 1, 0
	return t
}

const quietHeader = `# drift_sd: 0
# speed_mean: 450
# speed_sd: 0
# norm_center_pa_sd: 0
# norm_scale_pa_sd: 0
# still_seconds: 0
`

func pore(t testing.TB, header string, tuning Tuning) *Pore {
	t.Helper()
	p, err := NewPore(toy(t, header), tuning)
	require.NoError(t, err)
	return p
}

// Without noise a sample is at its k-mer's level, or between those of neighbours.
func TestCurrentFollowsTheBases(t *testing.T) {
	p := pore(t, quietHeader, quiet())
	s := randomStrand(3000, 1)
	m := p.NewMaker()
	out, read := m.Append(nil, s, plain, math.MaxInt)
	require.Len(t, out, read.Samples)
	model := p.Model()
	kmerAt := func(i int) float64 {
		code := 0
		for j := i - model.Centre; j < i-model.Centre+3; j++ {
			base := 0
			if j < 0 {
				base = 3
			} else if j < len(s.Bases) {
				base = int(s.Bases[j])
			}
			code = code<<2 | base
		}
		return model.CentrePA + model.ScalePA*model.kmers[code].mean
	}
	on := 0
	for at := read.before + read.leader; at < int(m.ends[len(m.ends)-1]); at++ {
		first, last := m.Passed(at), min(m.Passed(at+1), len(s.Bases)-1)
		least, most := math.Inf(1), math.Inf(-1)
		for i := first; i <= last; i++ {
			least, most = min(least, kmerAt(i)), max(most, kmerAt(i))
		}
		got := float64(out[at]) * plain.Scale
		require.GreaterOrEqual(t, got, least-0.02, "sample %d of bases %d to %d", at, first, last)
		require.LessOrEqual(t, got, most+0.02, "sample %d of bases %d to %d", at, first, last)
		if first == last {
			on++
		}
	}
	require.Greater(t, on, read.Samples/2, "most samples are of one base alone")
}

// A read is a function of its seed and number, and its beginning is that of the whole.
func TestReadsFollowSeedAndNumber(t *testing.T) {
	for what, p := range map[string]*Pore{
		"a table": pore(t, "", Typical()), "format 1": profiledBy(t, toyProfile(), Typical()), "format 2": profiledBy(t, toyWords(), Typical()), "format 3": profiledBy(t, toyTurns(), Typical()),
	} {
		t.Run(what, func(t *testing.T) { followsSeedAndNumber(t, p) })
	}
}

func followsSeedAndNumber(t *testing.T, p *Pore) {
	m := p.NewMaker()
	s := randomStrand(500, 1)
	whole, read := m.Append(nil, s, plain, math.MaxInt)
	require.Equal(t, read, m.Time(s))
	other := s
	other.Number++
	differs, _ := m.Append(nil, other, plain, math.MaxInt)
	require.NotEqual(t, whole, differs)
	for _, n := range []int{0, 1, 7, read.Samples / 2, read.Samples - 1} {
		part, _ := p.NewMaker().Append([]int16{5}, s, plain, n)
		require.Equal(t, append([]int16{5}, whole[:n]...), part)
	}
	other = s
	other.Seed++
	differs, _ = m.Append(nil, other, plain, math.MaxInt)
	require.NotEqual(t, whole, differs)
}

// TestGoldenSamples holds samples to what they were: the same seed is to make the same
// bytes in the next version too. Changing them is changing what simulated runs are.
func TestGoldenSamples(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("processors with fused multiplication round otherwise")
	}
	for _, c := range []struct {
		what, want string
		pore       *Pore
	}{
		{"a table", "374fbaf4786e2710", pore(t, "", Typical())},
		{"a profile of format 1", "3f220215da115a50", profiledBy(t, toyProfile(), Typical())},
		{"a profile of format 2", "bdd4441d44d159ff", profiledBy(t, toyWords(), Typical())},
		{"a profile of format 3", "347ca1ae87ed512a", profiledBy(t, toyTurns(), Typical())},
	} {
		out, _ := c.pore.NewMaker().Append(nil, randomStrand(500, 1), Converter{Offset: 10, Scale: 0.1755, Min: -4096, Max: 4095}, math.MaxInt)
		var b []byte
		for _, v := range out {
			b = binary.LittleEndian.AppendUint16(b, uint16(v))
		}
		sum := sha256.Sum256(b)
		assert.Equal(t, c.want, hex.EncodeToString(sum[:8]), c.what)
	}
}

// Bases that take no time, which a profile may have, leave no sample that is of no level.
func TestVisitsOfNoTime(t *testing.T) {
	for _, p := range []*Profile{toyProfile(), toyWords(), toyTurns()} {
		clear(p.Dwell[:2*Quantiles/3])
		out, _ := profiledBy(t, p, Typical()).NewMaker().Append(nil, randomStrand(2000, 1), Converter{Offset: 10, Scale: 0.1755, Min: -4096, Max: 4095}, math.MaxInt)
		// Of levels of 95 ± 21 pA none is near 30 pA, 170 of the converter; what is no number would come out as the converter's 0.
		require.Greater(t, slices.Min(out), int16(170), "format %s", p.format())
	}
}

// Times have the mean and the spread that the table says, in all families.
func TestTimes(t *testing.T) {
	for _, family := range []string{"lognormal", "gamma", "inverse_gaussian"} {
		t.Run(family, func(t *testing.T) {
			p := pore(t, quietHeader+"# dwell_family: "+family+"\n", quiet())
			m := p.NewMaker()
			s := randomStrand(200_000, 2)
			read := m.Time(s)
			last, sum, square := float64(read.before+read.leader), 0.0, 0.0
			for _, end := range m.ends {
				d := end - last
				require.GreaterOrEqual(t, d, 0.0)
				last, sum, square = end, sum+d, square+d*d
			}
			n := float64(len(m.ends))
			require.InDelta(t, 9, sum/n, 0.1)
			require.InDelta(t, 6, math.Sqrt(square/n-sum*sum/n/n), 0.25)
			require.Equal(t, len(s.Bases), m.Passed(read.Samples))
			require.Zero(t, m.Passed(0))
			require.True(t, slices.IsSorted(m.ends))
		})
	}
}

// Noise has variance 1 and the autocorrelation that is asked for, where it falls like
// that of white noise and noise of one time constant.
func TestNoise(t *testing.T) {
	for _, c := range [][3]float64{{0, 0, 0}, {0.3, 0.15, 0.075}, {0.6, 0.48, 0.384}, {0.2, 0.18, 0.162}} {
		a := newARMA(c)
		rnd := rand.New(rand.NewPCG(3, 3))
		const n = 400_000
		values := make([]float64, n)
		x, e := 0.0, 0.0
		for i := range values {
			fresh := rnd.NormFloat64()
			x = a.ar*x + a.scale*(fresh+a.ma*e)
			e = fresh
			values[i] = x
		}
		correlation := func(lag int) float64 {
			sum := 0.0
			for i := lag; i < n; i++ {
				sum += values[i] * values[i-lag]
			}
			return sum / (n - float64(lag))
		}
		require.InDelta(t, 1, correlation(0), 0.02, "%v", c)
		for lag, want := range c {
			require.InDelta(t, want, correlation(lag+1), 0.02, "%v at %d", c, lag+1)
		}
	}
}

// A strand that sticks shows what is before, then hardly moves.
func TestStuckStrand(t *testing.T) {
	p := pore(t, quietHeader, Typical())
	s := randomStrand(1000, 4)
	whole, _ := p.NewMaker().Append(nil, s, plain, math.MaxInt)
	s.Stick, s.Stuck = 400, 5000
	m := p.NewMaker()
	out, read := m.Append(nil, s, plain, math.MaxInt)
	free := read.Samples - s.Stuck
	require.Equal(t, whole[:free-1], out[:free-1])
	require.Equal(t, 400, m.Passed(read.Samples))
	deviation := func(samples []int16) float64 {
		sum, square := 0.0, 0.0
		for _, v := range samples {
			sum += float64(v)
			square += float64(v) * float64(v)
		}
		n := float64(len(samples))
		return math.Sqrt(square/n - sum*sum/n/n)
	}
	require.Less(t, 3*deviation(out[free:]), deviation(out[:free]))
}

// A current outside a converter's range is recorded as the limit of the range.
func TestLimits(t *testing.T) {
	p := pore(t, "", Typical())
	out, _ := p.NewMaker().Append(nil, randomStrand(500, 5), Converter{Scale: 0.1, Min: 700, Max: 800}, math.MaxInt)
	require.EqualValues(t, 700, slices.Min(out))
	require.EqualValues(t, 800, slices.Max(out))
}

func TestTuningRefuses(t *testing.T) {
	for _, change := range []func(*Tuning){
		func(t *Tuning) { t.Noise = -1 }, func(t *Tuning) { t.Speed = 0 }, func(t *Tuning) { t.Dwell = math.NaN() }, func(t *Tuning) { t.Stalls = 1e9 },
	} {
		tuning := Typical()
		change(&tuning)
		_, err := NewPore(toy(t, ""), tuning)
		require.ErrorContains(t, err, "want")
	}
}

// BenchmarkAppend counts samples by the second of processor time.
func BenchmarkAppend(b *testing.B) {
	p := pore(b, "", Typical())
	m := p.NewMaker()
	s := randomStrand(20_000, 1)
	var out []int16
	samples := 0
	before := testenv.ProcessorTime(b)
	for b.Loop() {
		s.Number++
		out, _ = m.Append(out[:0], s, plain, math.MaxInt)
		samples += len(out)
	}
	b.ReportMetric(float64(samples)/(testenv.ProcessorTime(b)-before).Seconds()/1e6, "Msamples/cpu-s")
	b.ReportAllocs()
}
