package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/crf"
	"github.com/porestream/porestream/basecall/kernels/kernelstest"
)

type (
	batch   = kernelstest.Batch
	decoded = kernelstest.Decoded
)

// gpu is a GPU with memory enough, and its kernels run on a CPU.
var gpu = kernelstest.On{GPU: true, Memory: 1 << 30}

// randomBatch has windows of different lengths, whose scores favour one sequence more or less, as a network's do.
func randomBatch(rng *rand.Rand, cfg crf.Config, steps int, spread float64, frames ...int) batch {
	b := batch{Classes: cfg.Scores(), Steps: steps, Frames: frames}
	each, states := cfg.Scores()/cfg.States(), cfg.States()
	for range frames {
		x := make([]float32, steps*cfg.Scores())
		for i := range x {
			x[i] = float32(min(5, max(-5, rng.NormFloat64()*spread-1)))
		}
		state := rng.IntN(states)
		for t := range steps {
			row := x[t*cfg.Scores():]
			if rng.IntN(3) == 0 {
				dropped := state * 4 / states
				state = state*4%states + rng.IntN(4)
				row[each*state+each-4+dropped] += float32(3 * rng.Float64())
			} else if each == 5 {
				row[5*state] += float32(3 * rng.Float64())
			}
		}
		b.Scores = append(b.Scores, x)
	}
	return b
}

// crfInGo decodes the batch with basecall/crf.
func crfInGo(t testing.TB, b batch, cfg crf.Config) []decoded {
	t.Helper()
	d, err := crf.NewDecoder(cfg)
	require.NoError(t, err)
	return b.InGo(t, d.DecodeWindow)
}

func stayOf(v float32) *float32 { return &v }

// TestCRFIsGos holds the GPU's kernel, on a CPU, and that for CPUs to the bits of the decoder in Go: of all
// lengths of states, with and without a beam, scores of both kinds and both orders.
func TestCRFIsGos(t *testing.T) {
	t.Parallel()
	for k := 1; k <= 6; k++ {
		steps := []int{0, 90, 90, 90, 60, 20, 6}[k]
		for i, cfg := range []crf.Config{
			{StateLength: k, StayScore: stayOf(2), BeamWidth: 12, BeamCut: 100},
			{StateLength: k, StayScore: stayOf(-0.5), BeamWidth: 32, BeamCut: 100},
			{StateLength: k, StayScore: stayOf(7), BeamWidth: 32},
			{StateLength: k, BeamWidth: 5, BeamCut: 1000},
			{StateLength: k, BeamWidth: 1},
			{StateLength: k, StayScore: stayOf(2)},
			{StateLength: k},
		} {
			t.Run(fmt.Sprintf("k=%d %d", k, i), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(uint64(k), uint64(i)))
				for _, spread := range []float64{0.3, 2} {
					b := randomBatch(rng, cfg, steps, spread, steps, 0, 1, steps-1, steps/2)
					b.WindowsFirst = i%2 == 0
					on := gpu
					on.Backwards = i%3 == 0
					have := kernelstest.CRF(t, b, cfg, on)
					require.Equal(t, kernelstest.CRF(t, b, cfg, kernelstest.On{}), have)
					require.Equal(t, crfInGo(t, b, cfg), kernelstest.Bases(have))
				}
				b := randomBatch(rng, cfg, steps, 1, steps, 3).Rounded()
				onePart := kernelstest.On{GPU: true, Memory: 1, Backwards: true}
				require.Equal(t, crfInGo(t, b, cfg), kernelstest.Bases(kernelstest.CRF(t, b, cfg, onePart)), "half floats, one part after the other")
				require.Equal(t, crfInGo(t, b, cfg), kernelstest.Bases(kernelstest.CRF(t, b, cfg, kernelstest.On{})))
			})
		}
	}
}

// TestCRFOfScoresFarApart has scores at which weights are held at a bound, and ties.
func TestCRFOfScoresFarApart(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	for _, width := range []int{0, 12, 32} {
		cfg := crf.Config{StateLength: 3, StayScore: stayOf(2), BeamWidth: width, BeamCut: 100}
		b := randomBatch(rng, cfg, 80, 2, 80, 80, 80)
		for i := range b.Scores[0] {
			b.Scores[0][i] *= 20
			b.Scores[1][i] = 0
			b.Scores[2][i] = float32(math.Round(float64(b.Scores[2][i])))
		}
		want := crfInGo(t, b, cfg)
		require.Equal(t, want, kernelstest.Bases(kernelstest.CRF(t, b, cfg, kernelstest.On{})))
		require.Equal(t, want, kernelstest.Bases(kernelstest.CRF(t, b, cfg, gpu)))
	}
}

// TestCRFReportsScoresThatAreNotNumbers says at which frame.
func TestCRFReportsScoresThatAreNotNumbers(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	for _, cfg := range []crf.Config{{StateLength: 3, StayScore: stayOf(2), BeamWidth: 12, BeamCut: 100}, {StateLength: 2}} {
		b := randomBatch(rng, cfg, 10, 1, 10, 10, 10, 10)
		for i, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			b.Scores[i][(i+3)*cfg.Scores()+11*i] = float32(v)
		}
		b.Frames[2] = 5 // the frame with the infinite score is not decoded
		for _, have := range [][]decoded{kernelstest.CRF(t, b, cfg, gpu), kernelstest.CRF(t, b, cfg, kernelstest.On{})} {
			for i := range 2 {
				want := make([]uint8, 10)
				want[i+3] = 0xFF
				assert.Equal(t, want, have[i].Path)
			}
			assert.NotContains(t, have[2].Path, uint8(0xFF))
			assert.Equal(t, uint8(4), have[3].Path[0]&4)
		}
	}
}

// TestCRFAgainstFloat64 compares probabilities of the path's states with sums over all paths in float64.
func TestCRFAgainstFloat64(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 8))
	for k := 2; k <= 5; k++ {
		const steps = 30
		cfg := crf.Config{StateLength: k, StayScore: stayOf(2), BeamWidth: 12, BeamCut: 100}
		b := randomBatch(rng, cfg, steps, 2, steps)
		d := kernelstest.CRF(t, b, cfg, gpu)[0]
		states := make([]int, steps) // of the path; the first k-1 aren't known from its bases
		for f := range steps {
			if f > 0 {
				states[f] = states[f-1]
			}
			if d.Path[f]&4 != 0 {
				states[f] = (states[f]*4 + int(d.Path[f]&3)) % cfg.States()
			}
		}
		moves, sure := 0, sure(b, cfg)
		for f := 0; f < steps; {
			end, sum := f, 0.0
			for {
				sum += math.Pow(math.Min(1, sure(end, states[end])), 0.4)
				if end++; end == steps || d.Path[end]&4 != 0 {
					break
				}
			}
			if moves++; moves >= k {
				assert.InDelta(t, sum/float64(end-f), d.Probability[f], 1e-5, "k=%d frame %d", k, f)
			}
			f = end
		}
		assert.Greater(t, moves, k)
	}
}

// sure returns a function for the probability of a state after a frame of the first window, or of one that is a move away.
func sure(b batch, cfg crf.Config) func(frame, state int) float64 {
	n := cfg.States()
	weight := func(f, state, dropped int) float64 { return math.Exp(float64(b.Scores[0][(f*n+state)*4+dropped])) }
	stay := math.Exp(float64(*cfg.StayScore))
	forward, backward := make([][]float64, b.Steps+1), make([][]float64, b.Steps+1)
	for f := range forward {
		forward[f], backward[f] = make([]float64, n), make([]float64, n)
	}
	for s := range n {
		forward[0][s], backward[b.Steps][s] = 1, 1
	}
	for f := range b.Steps {
		g := b.Steps - 1 - f
		for s := range n {
			forward[f+1][s] += forward[f][s] * stay
			backward[g][s] += backward[g+1][s] * stay
			for dropped := range 4 {
				before := dropped*n/4 + s/4
				forward[f+1][s] += forward[f][before] * weight(f, s, dropped)
				backward[g][before] += backward[g+1][s] * weight(g, s, dropped)
			}
		}
	}
	return func(f, state int) float64 {
		total, near := 0.0, 0.0
		for s := range n {
			p := forward[f+1][s] * backward[f+1][s]
			total += p
			if s == state || s/4 == state%(n/4) || s%(n/4) == state/4 {
				near += p
			}
		}
		return near / total
	}
}
