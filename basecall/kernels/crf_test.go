package kernels_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/crf"
	"github.com/porestream/porestream/basecall/half"
	"github.com/porestream/porestream/basecall/kernels/kernelstest"
	"github.com/porestream/porestream/basecall/scores"
)

// batch is some windows' scores, of which a decoder is given the first frames.
type batch struct {
	crf.Config
	steps        int
	frames       []int
	windowsFirst bool
	scores       [][]float32 // of each window, frame by frame
}

// randomBatch has windows of different lengths, whose scores favour one sequence more or less, as a network's do.
func randomBatch(rng *rand.Rand, cfg crf.Config, steps int, spread float64, frames ...int) batch {
	b := batch{Config: cfg, steps: steps, frames: frames}
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
		b.scores = append(b.scores, x)
	}
	return b
}

// rounded has the scores as half floats have them.
func (b batch) rounded() batch {
	all := b.scores
	b.scores = nil
	for _, x := range all {
		y := make([]float32, len(x))
		for i, v := range x {
			y[i] = half.ToFloat(half.FromFloat(v))
		}
		b.scores = append(b.scores, y)
	}
	return b
}

// decoded is what operators give of a window.
type decoded struct {
	Path        []uint8
	Probability []float32
}

// run has the emulator decode the batch.
func (b batch) run(t testing.TB, emulator, what string, halves bool, rest ...string) []decoded {
	t.Helper()
	var in, out, message bytes.Buffer
	for _, n := range b.frames {
		require.NoError(t, binary.Write(&in, binary.LittleEndian, int32(n)))
	}
	classes, windows := b.Scores(), len(b.frames)
	for i := range b.steps * windows {
		window, step := i%windows, i/windows
		if b.windowsFirst {
			window, step = i/b.steps, i%b.steps
		}
		for _, v := range b.scores[window][step*classes:][:classes] {
			if halves {
				in.Write(binary.LittleEndian.AppendUint16(nil, half.FromFloat(v)))
			} else {
				in.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)))
			}
		}
	}
	stays, stay := "1", "0"
	if b.StayScore != nil {
		stays, stay = "0", strconv.FormatFloat(float64(*b.StayScore), 'g', -1, 32)
	}
	args := append([]string{
		what, strconv.Itoa(b.StateLength), strconv.Itoa(b.steps), strconv.Itoa(windows), toBool(b.windowsFirst), toBool(halves),
		stays, stay, strconv.Itoa(b.BeamWidth), strconv.FormatFloat(float64(b.BeamCut), 'g', -1, 32),
	}, rest...)
	cmd := exec.CommandContext(t.Context(), emulator, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, &out, &message
	require.NoError(t, cmd.Run(), "%v: %s", args, &message)
	all := make([]decoded, windows)
	for i := range all {
		all[i].Path = append(all[i].Path, out.Next(b.steps)...)
	}
	for i := range all {
		all[i].Probability = make([]float32, b.steps)
		require.NoError(t, binary.Read(&out, binary.LittleEndian, all[i].Probability))
	}
	require.Zero(t, out.Len())
	return all
}

// emulate runs the GPU's kernel with memory for so many bytes of windows at a time.
func (b batch) emulate(t testing.TB, emulator string, halves, backwards bool, memory int) []decoded {
	t.Helper()
	return b.run(t, emulator, "crf", halves, strconv.Itoa(memory), toBool(backwards))
}

// inGo decodes the batch with basecall/crf.
func (b batch) inGo(t testing.TB) []decoded {
	t.Helper()
	d, err := crf.NewDecoder(b.Config)
	require.NoError(t, err)
	all := make([]decoded, len(b.frames))
	for i, n := range b.frames {
		bases, err := d.DecodeWindow(scores.OfFloats(b.scores[i], b.Scores()).First(n))
		require.NoError(t, err)
		all[i] = decoded{Path: make([]uint8, b.steps), Probability: make([]float32, b.steps)}
		for _, base := range bases {
			all[i].Path[base.Frame] = 4 | base.Code
			all[i].Probability[base.Frame] = base.Probability
		}
	}
	return all
}

// bases leaves of what an operator gives what a decoder in Go says.
func bases(all []decoded) []decoded {
	for _, d := range all {
		for t, v := range d.Path {
			if v&4 == 0 {
				d.Path[t] = 0
			}
		}
	}
	return all
}

func stayOf(v float32) *float32 { return &v }

// TestCRFIsGos holds the GPU's kernel, on a CPU, and that for CPUs to the bits of the decoder in Go: of all
// lengths of states, with and without a beam, scores of both kinds and both orders.
func TestCRFIsGos(t *testing.T) {
	t.Parallel()
	emulator := kernelstest.Emulator(t)
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
					b.windowsFirst = i%2 == 0
					want := b.inGo(t)
					cpu := b.run(t, emulator, "crf-cpu", false)
					gpu := b.emulate(t, emulator, false, i%3 == 0, 1<<30)
					require.Equal(t, cpu, gpu)
					require.Equal(t, want, bases(gpu))
				}
				b := randomBatch(rng, cfg, steps, 1, steps, 3).rounded()
				require.Equal(t, b.inGo(t), bases(b.emulate(t, emulator, true, true, 1)), "half floats, one part after the other")
				require.Equal(t, b.inGo(t), bases(b.run(t, emulator, "crf-cpu", true)))
			})
		}
	}
}

// TestCRFOfScoresFarApart has scores at which weights are held at a bound, and ties.
func TestCRFOfScoresFarApart(t *testing.T) {
	t.Parallel()
	emulator := kernelstest.Emulator(t)
	rng := rand.New(rand.NewPCG(3, 4))
	for _, width := range []int{0, 12, 32} {
		cfg := crf.Config{StateLength: 3, StayScore: stayOf(2), BeamWidth: width, BeamCut: 100}
		b := randomBatch(rng, cfg, 80, 2, 80, 80, 80)
		for i := range b.scores[0] {
			b.scores[0][i] *= 20
			b.scores[1][i] = 0
			b.scores[2][i] = float32(math.Round(float64(b.scores[2][i])))
		}
		want := b.inGo(t)
		require.Equal(t, want, bases(b.run(t, emulator, "crf-cpu", false)))
		require.Equal(t, want, bases(b.emulate(t, emulator, false, false, 1<<30)))
	}
}

// TestCRFReportsScoresThatAreNotNumbers says at which frame.
func TestCRFReportsScoresThatAreNotNumbers(t *testing.T) {
	t.Parallel()
	emulator := kernelstest.Emulator(t)
	rng := rand.New(rand.NewPCG(5, 6))
	for _, cfg := range []crf.Config{{StateLength: 3, StayScore: stayOf(2), BeamWidth: 12, BeamCut: 100}, {StateLength: 2}} {
		b := randomBatch(rng, cfg, 10, 1, 10, 10, 10, 10)
		for i, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			b.scores[i][(i+3)*cfg.Scores()+11*i] = float32(v)
		}
		b.frames[2] = 5 // the frame with the infinite score is not decoded
		for _, have := range [][]decoded{b.emulate(t, emulator, false, false, 1<<30), b.run(t, emulator, "crf-cpu", false)} {
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
	emulator := kernelstest.Emulator(t)
	rng := rand.New(rand.NewPCG(7, 8))
	for k := 2; k <= 5; k++ {
		const steps = 30
		cfg := crf.Config{StateLength: k, StayScore: stayOf(2), BeamWidth: 12, BeamCut: 100}
		b := randomBatch(rng, cfg, steps, 2, steps)
		d := b.emulate(t, emulator, false, false, 1<<30)[0]
		states := make([]int, steps) // of the path; the first k-1 aren't known from its bases
		for f := range steps {
			if f > 0 {
				states[f] = states[f-1]
			}
			if d.Path[f]&4 != 0 {
				states[f] = (states[f]*4 + int(d.Path[f]&3)) % cfg.States()
			}
		}
		moves, sure := 0, b.sure()
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
func (b batch) sure() func(frame, state int) float64 {
	n := b.States()
	weight := func(f, state, dropped int) float64 { return math.Exp(float64(b.scores[0][(f*n+state)*4+dropped])) }
	stay := math.Exp(float64(*b.StayScore))
	forward, backward := make([][]float64, b.steps+1), make([][]float64, b.steps+1)
	for f := range forward {
		forward[f], backward[f] = make([]float64, n), make([]float64, n)
	}
	for s := range n {
		forward[0][s], backward[b.steps][s] = 1, 1
	}
	for f := range b.steps {
		g := b.steps - 1 - f
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
