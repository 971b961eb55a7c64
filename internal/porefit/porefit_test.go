package porefit

import (
	"bytes"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/models/pores"
	"github.com/porestream/porestream/simulate/squiggle"
)

const shared = "../../../shared/data"

// published is the [Meter] of all tests: that of the published levels.
func published(t testing.TB) (*Meter, *squiggle.Model) {
	t.Helper()
	m, err := OpenTable(filepath.Join(shared, "pore-models/dna_r10.4.1_400bps_9mer.npz"))
	if err != nil {
		t.Skip("no published table of 9-mers and no reads at hand: ../shared/data")
	}
	return NewMeter(m, 6), m
}

// models are the two from which current of a profile is made.
func models(t testing.TB, profile string, table *squiggle.Model) map[string]*squiggle.Model {
	t.Helper()
	p, err := pores.OpenProfile(profile)
	require.NoError(t, err)
	levels, err := pores.OpenLevels()
	require.NoError(t, err)
	own, err := p.Apply(levels, false)
	require.NoError(t, err)
	theirs, err := p.Apply(table, true)
	require.NoError(t, err)
	return map[string]*squiggle.Model{"shipped levels": own, "published levels": theirs}
}

// human are pieces of a human chromosome which profiles were not fitted with.
func human(t testing.TB) [][]byte {
	t.Helper()
	g, err := genome.Load(filepath.Join(shared, "human-chr11-2mb/chr11_2M.fa.gz"))
	require.NoError(t, err)
	_, out := Alternate(Places(g.Contigs[0].Seq, HumanGC))
	return out
}

var prometh4 = squiggle.Converter{Offset: -265, Scale: 0.1462, Max: 2047}

// Simulated reads are measured as real ones are: the distances of base means from their
// levels, of the scatter within bases and of times are at most 0.05.
func TestSimulated4kHzIsLikeReal(t *testing.T) {
	t.Parallel()
	meter, table := published(t)
	stretches, err := Labelled(filepath.Join(shared, "r10/can_reads.pod5"), filepath.Join(shared, "r10/can_mappings.bam"))
	require.NoError(t, err)
	require.Len(t, stretches, 14)
	real, err := meter.Known(stretches)
	require.NoError(t, err)
	require.Greater(t, real.Correlation(), 0.975)
	for name, m := range models(t, "r10.4.1-4khz", table) {
		t.Run(name, func(t *testing.T) {
			reads, err := Simulate(m, squiggle.Typical(), Pieces(stretches), 4000, prometh4)
			require.NoError(t, err)
			made, err := meter.Known(reads)
			require.NoError(t, err)
			d := Compare(real, made)
			t.Logf("%d real bases, %d simulated: %+v; r %.4f and %.4f; autocorrelation %.3f and %.3f", len(real.Dwells), len(made.Dwells), d,
				real.Correlation(), made.Correlation(), real.Autocorrelation(), made.Autocorrelation())
			near(t, d)
			require.InDelta(t, real.Correlation(), made.Correlation(), 0.01)
			// Where bases are quiet: what is loud are changes of a base's level.
			for lag, want := range real.Quiet() {
				require.InDelta(t, want, made.Quiet()[lag], 0.05)
			}
			// Where they are loud, it is for a few samples, as in the real reads.
			for lag, want := range real.Autocorrelation() {
				require.InDelta(t, want, made.Autocorrelation()[lag], 0.1)
			}
			// What words do to times and scatter is in the simulated reads as in the real ones.
			dwell, noise := real.Words(9)
			madeDwell, madeNoise := made.Words(9)
			require.Greater(t, agreement(dwell, madeDwell), 0.7)
			require.Greater(t, agreement(noise, madeNoise), 0.7)
			require.Greater(t, agreement(real.Turns(9), made.Turns(9)), 0.7)
		})
	}
	// By levels alone, the bases of the reads can be decoded from simulated current as
	// badly as from real current.
	few := Shorten(stretches[:5], 2500)
	real, err = meter.Decoded(few)
	require.NoError(t, err)
	reads, err := Simulate(models(t, "r10.4.1-4khz", table)["shipped levels"], squiggle.Typical(), Pieces(stretches)[:5], 7, prometh4)
	require.NoError(t, err)
	made, err := meter.Decoded(Shorten(reads, 2500))
	require.NoError(t, err)
	t.Logf("decoded: of real bases %d of %d, triples %d; simulated %d of %d, triples %d", real.Right, real.Bases, real.Triples, made.Right, made.Bases, made.Triples)
	require.InDelta(t, float64(real.Right)/float64(real.Bases), float64(made.Right)/float64(made.Bases), 0.06)
	require.InDelta(t, float64(real.Triples)/float64(real.Bases), float64(made.Triples)/float64(made.Bases), 0.08)
}

// agreement is the correlation of two lists.
func agreement(a, b []float64) float64 {
	var ab, aa, bb float64
	ma, mb := mean(a), mean(b)
	for i := range a {
		ab += (a[i] - ma) * (b[i] - mb)
		aa += (a[i] - ma) * (a[i] - ma)
		bb += (b[i] - mb) * (b[i] - mb)
	}
	return ab / math.Sqrt(aa*bb)
}

func near(t *testing.T, d Distances) {
	t.Helper()
	require.LessOrEqual(t, d.Residual, 0.05)
	require.LessOrEqual(t, d.Spread, 0.05)
	require.LessOrEqual(t, d.Dwell, 0.05)
}

// So at 5 kHz, whose reads come without their sequence: real and simulated ones are
// aligned to what they are decoded to.
func TestSimulated5kHzIsLikeReal(t *testing.T) {
	t.Parallel()
	meter, table := published(t)
	reads, err := Current(filepath.Join(shared, "r10/hg002-5khz.pod5"))
	require.NoError(t, err)
	more, err := Current(filepath.Join(shared, "r10/hg002-5khz-one.blow5"))
	require.NoError(t, err)
	maps.Copy(reads, more)
	require.Len(t, reads, 4)
	_, stretches := Alternate(Cut(reads, DecodedSamples, DecodedStretches))
	real, err := meter.Decoded(stretches)
	require.NoError(t, err)
	for name, m := range models(t, "r10.4.1-5khz", table) {
		t.Run(name, func(t *testing.T) {
			reads, err := Simulate(m, squiggle.Typical(), human(t)[:30], 5000, squiggle.Converter{Offset: -265, Scale: 0.18707, Max: 2047})
			require.NoError(t, err)
			made, err := meter.Decoded(Shorten(reads, DecodedSamples))
			require.NoError(t, err)
			d := Compare(real, made)
			t.Logf("%d real bases, %d simulated: %+v; r %.4f and %.4f; autocorrelation %.3f and %.3f", len(real.Dwells), len(made.Dwells), d,
				real.Correlation(), made.Correlation(), real.Autocorrelation(), made.Autocorrelation())
			near(t, d)
			// Stretches of the same reads differ by 0.005 among themselves.
			require.InDelta(t, real.Correlation(), made.Correlation(), 0.01)
		})
	}
}

// Reads of another pore's levels are distinguished from real ones by the same distances.
func TestDistancesDistinguishOtherPores(t *testing.T) {
	t.Parallel()
	meter, table := published(t)
	p, err := pores.OpenProfile("r10.4.1-4khz")
	require.NoError(t, err)
	m, err := p.Apply(table, true)
	require.NoError(t, err)
	measured := func(tuning squiggle.Tuning) *Measured {
		reads, err := Simulate(m, tuning, human(t)[:20], 1, prometh4)
		require.NoError(t, err)
		out, err := meter.Known(reads)
		require.NoError(t, err)
		return out
	}
	as := measured(squiggle.Typical())
	for name, c := range map[string]struct {
		change func(*squiggle.Tuning)
		of     func(Distances) float64
	}{
		"noise":  {func(t *squiggle.Tuning) { t.Noise = 1.5 }, func(d Distances) float64 { return d.Spread }},
		"spread": {func(t *squiggle.Tuning) { t.Spread = 2 }, func(d Distances) float64 { return d.Residual }},
		"speed":  {func(t *squiggle.Tuning) { t.Speed = 1.5 }, func(d Distances) float64 { return d.Dwell }},
	} {
		tuning := squiggle.Typical()
		c.change(&tuning)
		require.Greater(t, c.of(Compare(as, measured(tuning))), 0.05, name)
	}
}

// Places have the composition that is asked for, have no other letters than bases, and are none where the sequence is too short.
func TestPlaces(t *testing.T) {
	require.Empty(t, Places(bytes.Repeat([]byte("A"), PieceBases-1), 0))
	require.Len(t, Places(bytes.Repeat([]byte("a"), PieceBases), 0), 1600)
	require.Empty(t, Places(bytes.Repeat([]byte("ACGN"), PieceBases), 0.5))
	half := bytes.Repeat([]byte("ACgT"), PieceBases)
	require.Empty(t, Places(half, 0.41))
	for _, piece := range Places(half, 0.47) {
		require.Len(t, piece, PieceBases)
		require.Subset(t, []byte{0, 1, 2, 3}, piece)
	}
	require.Len(t, Places(half, 0.47), 1600)
	even, odd := Alternate([]int{0, 1, 2, 3, 4})
	require.Equal(t, []int{0, 2, 4}, even)
	require.Equal(t, []int{1, 3}, odd)
}

// Parts give back the levels that they were measured of, also of k-mers that weren't
// seen.
func TestLevels(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	const k = 5
	truth := &squiggle.Parts{K: k}
	parts := []squiggle.Part{{Offset: 0, Width: 2}, {Offset: 1, Width: 3}, {Offset: 4, Width: 1}}
	for _, p := range parts {
		for range 1 << (2 * p.Width) {
			p.Adds = append(p.Adds, int16(1000*rnd.NormFloat64()))
		}
		truth.Parts = append(truth.Parts, p)
	}
	levels := truth.Model().Levels()
	var visits []Visit
	for range 6000 {
		code := uint32(rnd.IntN(512)) // the half that begins with A or C
		visits = append(visits, Visit{Code: code, Mean: float64(levels[code]) + 0.1*rnd.NormFloat64(), Samples: 10}, Visit{Code: code, Mean: 50, Samples: 1})
	}
	for code := uint32(512); code < 1024; code += 3 {
		visits = append(visits, Visit{Code: code, Mean: float64(levels[code]) + 0.1*rnd.NormFloat64(), Samples: 10})
	}
	fitted, err := Levels(k, visits, parts)
	require.NoError(t, err)
	require.Greater(t, Agreement(fitted.Model(), truth.Model()), 0.99)
	_, err = Levels(k, nil, parts)
	require.ErrorContains(t, err, "no visits")
}

// Rounds of a calibration bring simulated reads to those that it is given as real.
func TestCalibration(t *testing.T) {
	parts := &squiggle.Parts{K: 3, Parts: []squiggle.Part{{Offset: 0, Width: 3}}}
	rnd := rand.New(rand.NewPCG(2, 2))
	for range 64 {
		parts.Parts[0].Adds = append(parts.Parts[0].Adds, int16(1000*rnd.NormFloat64()))
	}
	levels := parts.Model()
	profile := func(slow, noise float64) *squiggle.Profile {
		p := &squiggle.Profile{Name: "toy", Chemistry: "r10.4.1", K: 3, Centre: 1, SampleRate: 1000, CentrePA: 95, ScalePA: 21, OpenPorePA: 205, DriftSeconds: 1,
			Correlation: [3]float64{0.4, 0.2, 0.1}}
		for i := range squiggle.Quantiles {
			share := squiggle.QuantileAt(i)
			p.Dwell = append(p.Dwell, 1+slow*share*share)
			p.Residual = append(p.Residual, 0.3*share-0.15)
			p.ResidualPublished = append(p.ResidualPublished, 0.3*share-0.15)
			p.Noise = append(p.Noise, noise*(0.5+share))
		}
		return p
	}
	var sequences [][]byte
	for range 20 {
		s := make([]byte, 400)
		for i := range s {
			s[i] = byte(rnd.IntN(4))
		}
		sequences = append(sequences, s)
	}
	meter := NewMeter(levels, 1)
	truth, err := profile(30, 0.12).Apply(levels, true)
	require.NoError(t, err)
	reads, err := Simulate(truth, squiggle.Typical(), sequences, 77, prometh4)
	require.NoError(t, err)
	real, err := meter.Known(reads)
	require.NoError(t, err)
	c := Calibration{Real: real, Measure: meter.Known, Published: levels, Shipped: levels, Sequences: sequences, Converter: prometh4, Rounds: 4, ShippedRounds: 1, Log: t.Output()}
	fitted := profile(15, 0.2)
	before, err := c.simulated(fitted, true, 98)
	require.NoError(t, err)
	require.Greater(t, Compare(real, before).Dwell, 0.2)
	require.Greater(t, Compare(real, before).Spread, 0.2)
	c.Begin(fitted)
	require.NoError(t, c.Run(fitted))
	m, err := c.simulated(fitted, true, 99)
	require.NoError(t, err)
	d := Compare(real, m)
	require.Less(t, d.Residual, 0.08)
	require.Less(t, d.Spread, 0.08)
	require.Less(t, d.Dwell, 0.08)
}

func TestInCommon(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"ACGT", "", 0}, {"ACGT", "ACGT", 4}, {"ACGT", "TACG", 3}, {"AAAA", "AA", 2}, {"ACACAC", "CCC", 3}} {
		codes := func(s string) (out []uint32) {
			for _, l := range []byte(s) {
				out = append(out, uint32(l))
			}
			return out
		}
		require.Equal(t, c.want, inCommon(codes(c.a), codes(c.b)), "%s %s", c.a, c.b)
		require.Equal(t, c.want, inCommon(codes(c.b), codes(c.a)), "%s %s", c.b, c.a)
	}
}

// Bases are the reference's, with what most reads show: a deletion and a substitution of
// all of three reads, but not the error of one, and of reads of the other strand reverse
// complements.
func TestTruth(t *testing.T) {
	p := &pileup{make(map[int]byte), make(map[int]map[byte]int), make(map[int]map[string]int)}
	for i, c := range []byte("ACGTACGTAC") {
		p.reference[i] = c
	}
	var m *molecule
	for read := range 4 {
		m = &molecule{start: 0, end: 10, bases: []byte("ACTTACTAC"), queries: make(map[int]int)}
		query := 0
		for at := range 10 {
			if at == 6 { // deleted
				vote(p.votes, at, '-')
				continue
			}
			base := m.bases[query]
			if read == 0 && at == 8 {
				base = 'G'
			}
			vote(p.votes, at, base)
			m.queries[at] = query
			query++
		}
		vote(p.inserted, 3, "GG")
	}
	for i := range m.bases {
		m.begins = append(m.begins, 10*i)
	}
	letters := func(codes []byte) string {
		var b strings.Builder
		for _, c := range codes {
			b.WriteByte("ACGT"[c])
		}
		return b.String()
	}
	bases, begins := p.truth(m)
	require.Equal(t, "ACTGGTACTAC", letters(bases))
	require.Equal(t, []int{0, 10, 20, 23, 26, 30, 40, 50, 60, 70, 80}, begins)
	m.reverse = true
	bases, begins = p.truth(m)
	require.Equal(t, "GTAGTACCAGT", letters(bases))
	require.True(t, slices.IsSorted(begins))
	require.Equal(t, 80, begins[len(begins)-1])
}

func TestLabelledRefuses(t *testing.T) {
	_, err := Labelled("nothing.pod5", filepath.Join(t.TempDir(), "nothing.bam"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
