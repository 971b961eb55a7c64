package convert

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/crf"
	"github.com/porestream/porestream/basecall/infer"
)

// TestNetworksAreDecodedExactly decodes what converted networks of the newest forms make of real signal by the definition alone, in
// double precision and without a beam, and compares the bases and their frames.
func TestNetworksAreDecodedExactly(t *testing.T) {
	for _, name := range []string{"dna_r10.4.1_small@v4.3.0", "dna_r10.4.1_small@v6.0.0", "dna_r10.4.1_small@v6.1.0", "dna_r10.4.1_small@v6.1.0.dorado"} {
		t.Run(name, func(t *testing.T) {
			model, err := Convert(filepath.Join(golden, name), Options{})
			require.NoError(t, err)
			m := &model.Manifest
			m.Window.Samples = 3000
			d := m.Decoder
			decoder, err := crf.NewDecoder(crf.Config{StateLength: d.StateLength, StayScore: d.StayScore})
			require.NoError(t, err)
			for _, onnx := range [][]byte{model.Network, model.Half} {
				var all []byte
				for _, signal := range realSignals(t, 5, m.Window.Samples) {
					scores := compute(t, model, onnx, infer.PrecisionSingle, signal)
					spread(scores, 4<<(2*d.StateLength))
					want, frames := exactly(scores, d.StateLength, float64(*d.StayScore))
					bases, err := decoder.Decode(slices.Clone(scores))
					require.NoError(t, err)
					var have []byte
					var starts []int
					for _, base := range bases {
						have = append(have, d.Labels[1+base.Code][0])
						starts = append(starts, int(base.Frame))
					}
					assert.Equal(t, string(want), string(have))
					assert.Equal(t, frames, starts)
					all = append(all, have...)
				}
				require.Greater(t, len(all), 50)
				for _, base := range []byte("ACGT") {
					assert.Contains(t, string(all), string(base))
				}
			}
		})
	}
}

// spread takes its mean off each score of a frame, and makes 3 their standard deviation: the bias of random weights
// outweighs what they make of the signal, so that one move would be the best in all frames.
func spread(scores []float32, perFrame int) {
	for class := range perFrame {
		mean, squares, count := 0.0, 0.0, 0.0
		for i := class; i < len(scores); i += perFrame {
			mean += float64(scores[i])
			squares += float64(scores[i]) * float64(scores[i])
			count++
		}
		mean /= count
		deviation := math.Sqrt(squares/count - mean*mean)
		for i := class; i < len(scores); i += perFrame {
			scores[i] = float32(3 * (float64(scores[i]) - mean) / deviation)
		}
	}
}

// exactly returns the bases on the path whose transitions have the highest product of posterior probabilities, each with
// 1e-8 added as Bonito does, and the frames in which they begin. Scores are of the moves to each state, by the base that is dropped.
func exactly(scores []float32, k int, stay float64) (bases []byte, frames []int) {
	n := 1 << (2 * k)
	count := len(scores) / (4 * n)
	// into returns the state before a transition to a state, and the transition's score: 0 stays, others drop a base.
	into := func(t, state, transition int) (before int, score float64) {
		if transition == 0 {
			return state, stay
		}
		dropped := transition - 1
		return dropped*n/4 + state/4, float64(scores[(t*n+state)*4+dropped])
	}
	add := func(a, b float64) float64 {
		if a < b {
			a, b = b, a
		}
		return a + math.Log1p(math.Exp(b-a))
	}
	table := func() [][]float64 {
		rows := make([][]float64, count+1)
		for t := range rows {
			rows[t] = make([]float64, n)
		}
		return rows
	}
	forward, backward, best := table(), table(), table()
	for t := range count {
		for state := range n {
			total := math.Inf(-1)
			for transition := range 5 {
				before, score := into(t, state, transition)
				total = add(total, forward[t][before]+score)
			}
			forward[t+1][state] = total
		}
	}
	for t := count - 1; t >= 0; t-- {
		for state := range n {
			backward[t][state] = math.Inf(-1)
		}
		for state := range n {
			for transition := range 5 {
				before, score := into(t, state, transition)
				backward[t][before] = add(backward[t][before], score+backward[t+1][state])
			}
		}
	}
	all := math.Inf(-1)
	for _, x := range forward[count] {
		all = add(all, x)
	}
	chosen := make([][]int, count)
	for t := range count {
		chosen[t] = make([]int, n)
		for state := range n {
			best[t+1][state] = math.Inf(-1)
			for transition := range 5 {
				before, score := into(t, state, transition)
				x := best[t][before] + math.Log(math.Exp(forward[t][before]+score+backward[t+1][state]-all)+1e-8)
				if x > best[t+1][state] {
					best[t+1][state], chosen[t][state] = x, transition
				}
			}
		}
	}
	state := 0
	for s, x := range best[count] {
		if x > best[count][state] {
			state = s
		}
	}
	for t := count - 1; t >= 0; t-- {
		transition := chosen[t][state]
		if transition != 0 || t == 0 { // the first frame always begins a base
			bases, frames = append(bases, "ACGT"[state%4]), append(frames, t)
		}
		state, _ = into(t, state, transition)
	}
	slices.Reverse(bases)
	slices.Reverse(frames)
	return bases, frames
}
