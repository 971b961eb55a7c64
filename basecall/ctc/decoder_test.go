package ctc

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newDecoder(classes, width int, cut, bonus float32, logits bool) *Decoder {
	return NewDecoder(Config{Classes: classes, BeamWidth: width, BeamCut: cut, BaseBonus: bonus, Logits: logits})
}

// logOf returns log-probabilities.
func logOf(posteriors []float32) []float32 {
	scores := make([]float32, len(posteriors))
	for i, p := range posteriors {
		scores[i] = float32(math.Log(float64(p)))
	}
	return scores
}

// lettersOf returns the sequence of a path of emissions.
func lettersOf(path []emission) string {
	var b strings.Builder
	for _, e := range path {
		b.WriteByte("?ACGT"[e.class])
	}
	return b.String()
}

// startsOf returns the frames of a path of emissions.
func startsOf(path []emission) []int {
	starts := make([]int, 0, len(path))
	for _, e := range path {
		starts = append(starts, int(e.frame))
	}
	return starts
}

// randomPosteriors returns rows that sum to one, the more uneven the sharper.
func randomPosteriors(rng *rand.Rand, frames, classes int, sharpness float64) []float32 {
	p := make([]float32, frames*classes)
	for i := 0; i < len(p); i += classes {
		sum := float32(0)
		for k := range classes {
			p[i+k] = float32(math.Exp(sharpness * rng.NormFloat64()))
			sum += p[i+k]
		}
		for k := range classes {
			p[i+k] /= sum
		}
	}
	return p
}

// bruteForce visits all paths. It returns the probability of each sequence, and
// of each sequence its most probable path.
func bruteForce(p []float32, classes int) (sums map[string]float64, best map[string][]int) {
	frames := len(p) / classes
	sums, best = map[string]float64{}, map[string][]int{}
	tops := map[string]float64{}
	path := make([]int, frames)
	var visit func(frame int, prob float64)
	visit = func(frame int, prob float64) {
		if frame < frames {
			for k := range classes {
				path[frame] = k
				visit(frame+1, prob*float64(p[frame*classes+k]))
			}
			return
		}
		var seq strings.Builder
		var starts []int
		last := 0
		for f, k := range path {
			if k != 0 && k != last {
				seq.WriteByte("?ACGT"[k])
				starts = append(starts, f)
			}
			last = k
		}
		s := seq.String()
		sums[s] += prob
		if prob > tops[s] {
			tops[s], best[s] = prob, starts
		}
	}
	visit(0, 1)
	return sums, best
}

func TestCTCFindsTheMostProbableSequence(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for n := range 400 {
		frames, classes := 1+rng.IntN(6), 2+rng.IntN(4)
		p := randomPosteriors(rng, frames, classes, 0.3+2*rng.Float64())
		sums, best := bruteForce(p, classes)
		bonus := float32(0)
		if n%2 == 1 {
			bonus = float32(rng.NormFloat64())
		}
		for s := range sums {
			sums[s] *= math.Exp(float64(bonus) * float64(len(s)))
		}
		want := ""
		for s, sum := range sums {
			if sum > sums[want] {
				want = s
			}
		}
		// A beam that holds every prefix makes the search exact.
		path, err := newDecoder(classes, 5000, 0, bonus, false).decode(logOf(p))
		require.NoError(t, err)
		have := lettersOf(path)
		if have != want {
			require.InEpsilon(t, sums[want], sums[have], 1e-5, "case %d: %q instead of %q", n, have, want)
			continue
		}
		assert.Equal(t, append([]int{}, best[want]...), startsOf(path), "case %d: moves are those of the best path", n)
	}
}

// alignedBest returns the frames at which the bases of a sequence start on its most
// probable path, found in float64 over the states of CTC's lattice: a blank before each
// base and at the end.
func alignedBest(p []float32, classes int, sequence string) []int {
	frames, states := len(p)/classes, 2*len(sequence)+1
	class := func(state int) int {
		if state%2 == 0 {
			return 0
		}
		return strings.IndexByte("?ACGT", sequence[state/2])
	}
	gain, from := make([]float64, states), make([][]int, frames)
	for s := range gain {
		gain[s] = math.Inf(-1)
	}
	for f := range frames {
		next, back := make([]float64, states), make([]int, states)
		for s := range states {
			best, origin := gain[s], s
			if f == 0 && s > 1 {
				best = math.Inf(-1)
			} else if f == 0 {
				best = 0
			}
			if f > 0 && s > 0 && gain[s-1] > best {
				best, origin = gain[s-1], s-1
			}
			if f > 0 && s > 1 && s%2 == 1 && class(s) != class(s-2) && gain[s-2] > best {
				best, origin = gain[s-2], s-2
			}
			next[s], back[s] = best+math.Log(float64(p[f*classes+class(s)])), origin
		}
		gain, from[f] = next, back
	}
	state := states - 1
	if states > 1 && gain[states-2] > gain[state] {
		state = states - 2
	}
	starts := make([]int, len(sequence))
	for f := frames - 1; f >= 0; f-- {
		before := from[f][state]
		if state%2 == 1 && (before != state || f == 0) {
			starts[state/2] = f
		}
		state = before
	}
	return starts
}

// TestCTCMovesOfLongWindows sees to it that the best path is still known where it has
// become far less probable than all paths together.
func TestCTCMovesOfLongWindows(t *testing.T) {
	for _, frames := range []int{300, 1200, 6000} {
		scores := networkLike(frames)
		d := newDecoder(5, 32, 1e-3, 0, true)
		path, err := d.decode(scores)
		require.NoError(t, err)
		starts := startsOf(path)
		want := alignedBest(d.posteriors, 5, lettersOf(path))
		moved := 0
		for i := range want {
			if want[i] != starts[i] {
				moved++
			}
		}
		require.NotEmpty(t, want)
		// A few, because a best path may go through what the cut leaves out.
		assert.LessOrEqual(t, moved, len(want)/500, "%d frames: bases that start elsewhere, of %d", frames, len(want))
	}
}

func TestExp(t *testing.T) {
	for x := float32(-79.99); x < 80; x += 0.00137 {
		want := float32(math.Exp(float64(x)))
		assert.InDelta(t, want, exp(x), 3*float64(math.Nextafter32(want, math.MaxFloat32)-want), "exp(%v)", x)
	}
	inf := float32(math.Inf(1))
	for x, want := range map[float32]float32{0: 1, -80: 0, 80: inf, -inf: 0, inf: inf, math.MaxFloat32: inf, -math.MaxFloat32: 0} {
		if got := exp(x); got != want {
			t.Errorf("exp(%v) = %v, want %v", x, got, want)
		}
	}
	assert.True(t, math.IsNaN(float64(exp(float32(math.NaN())))))
}

func TestCTCMatchesFastCTCDecode(t *testing.T) {
	text, err := os.ReadFile("testdata/ctc_golden.json")
	require.NoError(t, err)
	var cases []struct {
		Kind       string
		Width      int
		Cut        float32
		Posteriors []float32
		Sequence   string
	}
	require.NoError(t, json.Unmarshal(text, &cases))
	require.NotEmpty(t, cases)
	for i, c := range cases {
		for k := range c.Posteriors {
			c.Posteriors[k] /= 100000
		}
		path, err := newDecoder(5, c.Width, c.Cut, 0, false).decode(logOf(c.Posteriors))
		require.NoError(t, err)
		assert.Equal(t, c.Sequence, lettersOf(path), "case %d: %s, width %d, cut %v", i, c.Kind, c.Width, c.Cut)
	}
}

func TestCTCPathIsOrderedAndScoresDecideAlone(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	used := newDecoder(5, 5, 0.1, 0, true)
	for range 50 {
		logits := make([]float32, 5*(1+rng.IntN(400)))
		for i := range logits {
			logits[i] = float32(3 * rng.NormFloat64())
		}
		path, err := used.decode(logits)
		require.NoError(t, err)
		last := int32(-1)
		for _, e := range path {
			require.Greater(t, e.frame, last, "no two bases start in one frame")
			last = e.frame
		}
		fresh, err := newDecoder(5, 5, 0.1, 0, true).decode(logits)
		require.NoError(t, err)
		require.Equal(t, fresh, path, "a decoder keeps nothing of windows before")
	}
}

func TestCTCLogitsAndLogProbabilitiesAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	p := randomPosteriors(rng, 300, 5, 2)
	scores := logOf(p)
	shifted := make([]float32, len(scores))
	for i := range scores {
		shifted[i] = scores[i] + float32(i/5%7)
	}
	a, err := newDecoder(5, 5, 0.1, 0, false).decode(scores)
	require.NoError(t, err)
	b, err := newDecoder(5, 5, 0.1, 0, true).decode(shifted)
	require.NoError(t, err)
	assert.Equal(t, lettersOf(a), lettersOf(b))
}

func TestCTCSurvivesLongWindows(t *testing.T) {
	// Without rescaling, 20,000 frames of 0.5 would underflow any float.
	p := make([]float32, 0, 5*20000)
	for f := range 20000 {
		if f%4 == 0 {
			p = append(p, 0.4, 0.5, 0.1, 0, 0)
		} else {
			p = append(p, 0.5, 0.2, 0.3, 0, 0)
		}
	}
	for _, bonus := range []float32{-5, 0, 0.3, 5} {
		path, err := newDecoder(5, 5, 0.1, bonus, false).decode(logOf(p))
		require.NoError(t, err)
		if bonus >= 0 { // each base counts for more than a frame's probability, with one of 5
			assert.Greater(t, len(path), 5000, "bonus %v", bonus)
		}
	}
}

func TestCTCRefusesScoresThatAreNone(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	fine := logOf([]float32{0.2, 0.2, 0.2, 0.2, 0.2})
	tests := []struct {
		name   string
		logits bool
		frame  []float32
		want   string
	}{
		{"not a number", true, []float32{0, nan, 0, 0, 0}, "of frame 1 are not finite logits"},
		{"infinite", true, []float32{0, inf, 0, 0, 0}, "of frame 1 are not finite logits"},
		{"probabilities", false, []float32{0.9, 0.1, 0, 0, 0}, "of frame 1 are not log-probabilities"},
		{"not a number", false, []float32{nan, 0, 0, 0, 0}, "of frame 1 are not log-probabilities"},
		{"all impossible", false, []float32{-inf, -inf, -inf, -inf, -inf}, "of frame 1 are not log-probabilities"},
	}
	for _, test := range tests {
		_, err := newDecoder(5, 5, 0.1, 0, test.logits).decode(append(append([]float32{}, fine...), test.frame...))
		require.ErrorContains(t, err, test.want, test.name)
	}
	path, err := newDecoder(5, 5, 0.1, 0, true).decode(nil)
	require.NoError(t, err)
	assert.Empty(t, path)
}

func FuzzCTC(f *testing.F) {
	f.Add([]byte{0, 200, 0, 0, 0, 250, 0, 0, 0, 0, 0, 200, 0, 0, 0}, uint8(5))
	f.Add([]byte{9, 9, 9, 9, 9}, uint8(1))
	f.Add([]byte{9, 250, 9, 9, 9, 250, 9, 9, 9, 9}, uint8(255))
	f.Fuzz(func(t *testing.T, data []byte, width uint8) {
		logits := make([]float32, len(data)/5*5)
		for i := range logits {
			logits[i] = (float32(data[i]) - 128) / 4
		}
		path, err := newDecoder(5, int(width%16)+1, 0.19, float32(width/16)/3-2, true).decode(logits)
		if err != nil {
			t.Fatal(err)
		}
		last := int32(-1)
		for _, e := range path {
			if e.frame <= last || int(e.frame) >= len(logits)/5 || e.class < 1 || e.class > 4 {
				t.Fatalf("emission %+v after frame %d", e, last)
			}
			last = e.frame
		}
	})
}

// networkLike returns logits with the shape of a trained network's: a base every
// three frames or so, mostly sure.
func networkLike(frames int) []float32 {
	rng := rand.New(rand.NewPCG(7, 7))
	logits := make([]float32, 5*frames)
	for f := range frames {
		row := logits[5*f : 5*f+5]
		for k := range row {
			row[k] = float32(1.2 * rng.NormFloat64())
		}
		class := 0
		if rng.Float64() < 0.37 {
			class = 1 + rng.IntN(4)
		}
		row[class] += float32(4 + 2*rng.NormFloat64())
	}
	return logits
}

func BenchmarkCTC(b *testing.B) {
	logits := networkLike(1200)
	d := newDecoder(5, 5, 0.1, 0, true)
	b.ReportAllocs()
	frames := 0
	for b.Loop() {
		if _, err := d.decode(logits); err != nil {
			b.Fatal(err)
		}
		frames += 1200
	}
	b.ReportMetric(float64(frames)/b.Elapsed().Seconds(), "frames/s")
}
