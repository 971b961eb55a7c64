package crf

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/scores"
)

// floatsOf returns scores that lie frame behind frame.
func floatsOf(d *Decoder, x []float32) scores.Window { return scores.OfFloats(x, d.cfg.Scores()) }

// sums computes all sums over the paths of a window, and logZ.
func (d *Decoder) sums(w scores.Window) error {
	if err := d.begin(w); err != nil {
		return err
	}
	l := &d.lattice
	if err := l.back(&w); err != nil {
		return err
	}
	for t := range l.frames {
		l.forth(t)
	}
	sum := 0.0
	for _, v := range l.forward[l.frames*l.n:] {
		sum += float64(v)
	}
	l.logZ += float64(l.exponents)*math.Ln2 + math.Log(sum)
	return nil
}

// inBytes returns scores in eight bits, as the windows of a batch lie that are stored frame by
// frame, between windows of other scores, and what they are as floats.
func inBytes(x []float32, classes int, bound float32) (w scores.Window, rounded []float32) {
	const rows, row = 3, 1
	frames := len(x) / classes
	step := scores.Step(bound)
	w = scores.Window{
		Frames: frames, Classes: classes, Stride: rows * classes, Bytes: make([]int8, rows*len(x)), Step: step,
		Sums: make([]float32, rows*frames), SumStride: rows,
	}
	rounded = make([]float32, len(x))
	for i := range w.Bytes {
		w.Bytes[i] = int8(i)
	}
	w.Bytes, w.Sums = w.Bytes[row*classes:], w.Sums[row:]
	for i, v := range x {
		b := int8(max(-scores.MaxByte, min(scores.MaxByte, math.RoundToEven(float64(v/step)))))
		w.Bytes[i/classes*w.Stride+i%classes] = b
		rounded[i] = float32(b) * step
	}
	return w, rounded
}

// TestBytes: scores of eight bits are decoded as the same scores in floats, with and without
// vector instructions, whether staying has one score, a high or a low one, or is scored.
func TestBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 21))
	for k := 1; k <= 5; k++ {
		for _, stay := range []*float32{fixed(2), fixed(-3), fixed(7), fixed(60), nil} {
			for _, width := range []int{0, 12} {
				cfg := Config{StateLength: k, StayScore: stay, BeamWidth: width, BeamCut: 100}
				x := uncertain(rng, cfg, 60)
				w, rounded := inBytes(x, cfg.Scores(), 5)
				d, err := NewDecoder(cfg)
				require.NoError(t, err)
				bases, err := d.Decode(rounded)
				require.NoError(t, err)
				want := slices.Clone(bases)
				d.lattice.instructions = instructions{}
				bases, err = d.DecodeWindow(w)
				require.NoError(t, err)
				plain := slices.Clone(bases)
				var have []scores.Base
				for set, instructions := range sets() {
					d.lattice.instructions = instructions
					have, err = d.DecodeWindow(w)
					require.NoError(t, err)
					require.Equal(t, plain, have, "%s decides nothing", set)
				}
				require.Len(t, have, len(want))
				for i := range want {
					require.InDelta(t, want[i].Probability, have[i].Probability, 1e-3)
					want[i].Probability = have[i].Probability
				}
				require.Equal(t, want, have, "k=%d", k)
			}
		}
	}
}

// TestHalves: likewise for binary16, where numbers are the same to the bit.
func TestHalves(t *testing.T) {
	rng := rand.New(rand.NewPCG(22, 22))
	for _, cfg := range []Config{{StateLength: 1, StayScore: fixed(2), BeamWidth: 8}, {StateLength: 4, StayScore: fixed(2), BeamWidth: 12, BeamCut: 100}, {StateLength: 3}} {
		classes := cfg.Scores()
		w := scores.Window{Frames: 50, Classes: classes, Stride: 2 * classes, Halves: make([]uint16, 2*50*classes)}
		for i := range w.Halves {
			w.Halves[i] = uint16(0x3000+rng.IntN(0x1500)) | uint16(rng.IntN(2))<<15
		}
		d, err := NewDecoder(cfg)
		require.NoError(t, err)
		bases, err := d.Decode(w.Contiguous(nil))
		require.NoError(t, err)
		want := slices.Clone(bases)
		for set, instructions := range sets() {
			d.lattice.instructions = instructions
			have, err := d.DecodeWindow(w)
			require.NoError(t, err)
			require.Equal(t, want, have, set)
		}
		w.Halves[7*w.Stride+5] = 0x7e00
		_, err = d.DecodeWindow(w)
		require.ErrorContains(t, err, "score 5 of frame 7 is NaN")
	}
}

// TestSpentScores: scores over which the decoder may write are decoded as others are, and those between them, of other windows, stay.
func TestSpentScores(t *testing.T) {
	for _, cfg := range []Config{
		{StateLength: 2, StayScore: fixed(2), BeamWidth: 8}, {StateLength: 4, StayScore: fixed(2), BeamWidth: 12, BeamCut: 100},
		{StateLength: 3, StayScore: fixed(2)}, {StateLength: 3, BeamWidth: 12},
	} {
		const frames = 50
		classes := cfg.Scores()
		x := uncertain(rand.New(rand.NewPCG(23, 23)), cfg, frames)
		for set, instructions := range sets() {
			d, err := NewDecoder(cfg)
			require.NoError(t, err)
			d.lattice.instructions = instructions
			bases, err := d.Decode(x)
			require.NoError(t, err)
			want := slices.Clone(bases)
			batch := make([]float32, 2*len(x))
			for f := range frames {
				copy(batch[2*f*classes:], x[f*classes:][:classes])
			}
			have, err := d.DecodeWindow(scores.Window{Frames: frames, Classes: classes, Stride: 2 * classes, Floats: batch, Spent: true})
			require.NoError(t, err)
			require.Equal(t, want, have, set)
			for f := range frames {
				require.Equal(t, make([]float32, classes), batch[(2*f+1)*classes:][:classes])
			}
			have, err = d.Decode(x)
			require.NoError(t, err)
			require.Equal(t, want, have, "and scores that aren't spent afterwards")
		}
	}
}

// TestSpentScoresOfABatch: windows of a batch that lie side by side in each frame are decoded where they lie, and none of them changes what another one is to read.
func TestSpentScoresOfABatch(t *testing.T) {
	const frames, windows = 50, 4
	cfg := Config{StateLength: 3, StayScore: fixed(2), BeamWidth: 12, BeamCut: 100}
	classes := cfg.Scores()
	batch := make([]float32, windows*frames*classes)
	var want, have [windows][]scores.Base
	for i := range windows {
		x := uncertain(rand.New(rand.NewPCG(24, uint64(i))), cfg, frames)
		d, err := NewDecoder(cfg)
		require.NoError(t, err)
		want[i], err = d.Decode(x)
		require.NoError(t, err)
		for f := range frames {
			copy(batch[(f*windows+i)*classes:], x[f*classes:][:classes])
		}
	}
	for set, instructions := range sets() {
		batch := slices.Clone(batch)
		for i := range windows {
			d, err := NewDecoder(cfg)
			require.NoError(t, err)
			d.lattice.instructions = instructions
			have[i], err = d.DecodeWindow(scores.Window{Frames: frames, Classes: classes, Stride: windows * classes, Floats: batch[i*classes:], Spent: true})
			require.NoError(t, err)
		}
		require.Equal(t, want, have, set)
	}
}

// TestBytesThatWereNoNumbers: eight bits have no value for them, so the sums show them.
func TestBytesThatWereNoNumbers(t *testing.T) {
	for _, stay := range []*float32{fixed(2), nil} {
		cfg := Config{StateLength: 2, StayScore: stay, BeamWidth: 8}
		d, err := NewDecoder(cfg)
		require.NoError(t, err)
		w, _ := inBytes(randomScores(rand.New(rand.NewPCG(1, 1)), cfg, 9, 2), cfg.Scores(), 5)
		w.Sums[4*w.SumStride] = float32(math.NaN())
		_, err = d.DecodeWindow(w)
		require.EqualError(t, err, "a score of frame 4 is not a number")
	}
}

// TestByteWeights holds the weights to the exponential function, and vector instructions to the
// table, for all numbers of steps.
func TestByteWeights(t *testing.T) {
	for _, c := range []struct{ bound, stay float32 }{{5, 2}, {1, 2}, {15, 2}, {5, 6}, {5, 5}, {2, -90}, {5, 90}} {
		var b byteWeights
		step := scores.Step(c.bound)
		b.set(step, c.stay)
		for top := -scores.MaxByte; top <= scores.MaxByte; top++ {
			x := make([]int8, 256)
			for i := range x {
				x[i] = int8(max(-scores.MaxByte, top-i))
			}
			dst, vector := make([]float32, len(x)), make([]float32, len(x))
			highest, stay := b.weigh(dst, x, false)
			want := max(float32(top)*step, c.stay)
			require.Equal(t, want, highest)
			require.InEpsilon(t, math.Exp(max(minLogWeight, float64(c.stay-want))), stay, 1e-6)
			for i, v := range x {
				require.InEpsilon(t, math.Exp(max(minLogWeight, float64(v)*float64(step)-float64(want))), dst[i], 1e-6)
			}
			if processor().vectors {
				_, _ = b.weigh(vector, x, true)
				require.Equal(t, dst, vector)
			}
		}
	}
}

// BenchmarkForms decodes the same scores in each form, as they lie in a batch that is stored
// frame by frame.
func BenchmarkForms(b *testing.B) {
	const frames = 720
	cfg := Config{StateLength: 4, StayScore: fixed(2), BeamWidth: 12, BeamCut: 100}
	bytes, rounded := inBytes(uncertain(rand.New(rand.NewPCG(9, 9)), cfg, frames), cfg.Scores(), 5)
	halves := scores.Window{Frames: frames, Classes: cfg.Scores(), Stride: cfg.Scores(), Halves: make([]uint16, len(rounded))}
	for i, v := range rounded {
		bits := math.Float32bits(v)
		if v != 0 {
			halves.Halves[i] = uint16(bits>>31<<15 | (bits>>23&255-112)<<10 | bits>>13&0x3ff)
		}
	}
	for _, form := range []struct {
		name   string
		window scores.Window
	}{{"float32", scores.OfFloats(rounded, cfg.Scores())}, {"fp16", halves}, {"int8", bytes}} {
		for set, instructions := range sets() {
			b.Run(fmt.Sprintf("%s/%s", form.name, set), func(b *testing.B) {
				d, err := NewDecoder(cfg)
				require.NoError(b, err)
				d.lattice.instructions = instructions
				b.ReportAllocs()
				for b.Loop() {
					_, err := d.DecodeWindow(form.window)
					assert.NoError(b, err)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/frames, "ns/frame")
			})
		}
	}
}
