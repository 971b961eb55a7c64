package basecall

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/crf"
	"github.com/porestream/porestream/basecall/ctc"
	"github.com/porestream/porestream/basecall/scores"
)

// TestDecodersFollowTheManifest decodes with what a manifest asks for.
func TestDecodersFollowTheManifest(t *testing.T) {
	m, err := ParseManifest([]byte(manifestText()))
	require.NoError(t, err)
	assert.IsType(t, &ctc.Decoder{}, newDecoder(&m).(*labelled).search)
	m, err = ParseManifest([]byte(crfManifest()))
	require.NoError(t, err)
	d := newDecoder(&m)
	assert.IsType(t, &crf.Decoder{}, d.(*labelled).search)

	// AAA, then C by dropping A at frame 1, which leads to AAC (1), then T to ACT (7).
	x := make([]float32, 4*256)
	for i := range x {
		x[i] = -5
	}
	x[1*256+1*4+0] = 5
	x[3*256+7*4+0] = 5
	bases, err := d.decode(framesOf(&m, x))
	require.NoError(t, err)
	require.Len(t, bases, 3)
	for i, want := range []base{{frame: 0, label: 'A'}, {frame: 1, label: 'C'}, {frame: 3, label: 'T'}} {
		assert.Equal(t, want, base{frame: bases[i].frame, label: bases[i].label})
		assert.Positive(t, bases[i].quality)
	}
	_, err = d.decode(scores.OfFloats(make([]float32, 100), 100))
	require.Error(t, err)
}

// TestCRFWindowsStitchAsTheWhole decodes scores at once and in windows. In a window
// the sums over paths begin and end elsewhere; the overlap lets that be forgotten.
func TestCRFWindowsStitchAsTheWhole(t *testing.T) {
	const frames, stride = 3000, 5
	for _, search := range []string{"beam_width = 32", "beam_width = 0"} {
		m, err := ParseManifest([]byte(strings.Replace(crfManifest(), "beam_width = 32", search, 1)))
		require.NoError(t, err)
		rng := rand.New(rand.NewPCG(10, 10))
		scores := sparseScores(rng, m.Decoder, frames)
		classes := m.Decoder.classes()
		d := newDecoder(&m)
		whole, err := d.decode(framesOf(&m, scores))
		require.NoError(t, err)
		whole = slices.Clone(whole)

		w := windowing{stride: stride, samples: 400 * stride, overlap: 100 * stride, phase: framesOfPhase}
		called := make([][]base, w.count(frames*stride))
		for i := range called {
			first := w.start(i, frames*stride) / stride
			bases, err := d.decode(framesOf(&m, scores[first*classes:min(frames, first+400)*classes]))
			require.NoError(t, err)
			for _, b := range bases {
				b.frame += int32(first)
				called[i] = append(called[i], b)
			}
		}
		sequence, qualities, moves := joined(w, called, frames*stride)
		require.Greater(t, len(whole), 300)
		require.Len(t, sequence, len(whole), search)
		for i, b := range whole {
			require.Equal(t, b.label, sequence[i])
			require.InDelta(t, b.quality, qualities[i], 1)
			require.Equal(t, byte(1), moves[b.frame])
		}
	}
}

// framesOf returns scores that lie frame behind frame.
func framesOf(m *Manifest, x []float32) scores.Window { return scores.OfFloats(x, m.Decoder.classes()) }

// sparseScores returns the scores of a network that favours the moves of a random
// sequence, some less than others, with dwells of one to eight frames.
func sparseScores(rng *rand.Rand, d DecoderManifest, frames int) []float32 {
	classes, states := d.classes(), d.crf().States()
	scores := make([]float32, frames*classes)
	for i := range scores {
		scores[i] = -2 + float32(rng.NormFloat64())
	}
	state, dwell := 0, 0
	for f := range frames {
		if dwell--; dwell >= 0 {
			continue
		}
		dwell = rng.IntN(8)
		dropped := state / (states / 4)
		state = state*4%states + rng.IntN(4)
		scores[f*classes+state*4+dropped] = min(5, float32(4+rng.NormFloat64()))
	}
	return scores
}
