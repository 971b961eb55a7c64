package kernelstest

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/crf"
	"github.com/porestream/porestream/basecall/ctc"
	"github.com/porestream/porestream/basecall/half"
	"github.com/porestream/porestream/basecall/scores"
)

// Batch is some windows' scores, of which a decoder is given the first frames.
type Batch struct {
	Classes, Steps int
	Frames         []int
	WindowsFirst   bool
	Halves         bool        // scores are given as half floats
	Scores         [][]float32 // of each window, frame by frame
}

// Decoded is what operators give of a window.
type Decoded struct {
	Path        []uint8
	Probability []float32
}

// On says what decodes a batch: the operator's kernel for CPUs, or that for GPUs with memory for so many bytes of
// windows at a time and, backwards, the last thread of a block running first.
type On struct {
	GPU       bool
	Memory    int
	Backwards bool
}

// CRF decodes a batch as a CRF's.
func CRF(t testing.TB, b Batch, cfg crf.Config, on On) []Decoded {
	t.Helper()
	stays, stay := "1", "0"
	if cfg.StayScore != nil {
		stays, stay = "0", decimal(*cfg.StayScore)
	}
	return b.decode(t, "crf", cfg.StateLength, on, stays, stay, strconv.Itoa(cfg.BeamWidth), decimal(cfg.BeamCut))
}

// CTC decodes a batch as one of a network trained by CTC.
func CTC(t testing.TB, b Batch, cfg ctc.Config, on On) []Decoded {
	t.Helper()
	return b.decode(t, "ctc", cfg.Classes, on, Bool(cfg.Logits), decimal(cfg.BaseBonus), strconv.Itoa(cfg.BeamWidth), decimal(cfg.BeamCut))
}

func decimal(v float32) string { return strconv.FormatFloat(float64(v), 'g', -1, 32) }

// Bool is how the emulator has a bool.
func Bool(v bool) string {
	if v {
		return "1"
	}
	return "0"
}

func (b Batch) decode(t testing.TB, what string, size int, on On, of ...string) []Decoded {
	t.Helper()
	var in bytes.Buffer
	for _, n := range b.Frames {
		require.NoError(t, binary.Write(&in, binary.LittleEndian, int32(n)))
	}
	windows := len(b.Frames)
	for i := range b.Steps * windows {
		window, step := i%windows, i/windows
		if b.WindowsFirst {
			window, step = i/b.Steps, i%b.Steps
		}
		for _, v := range b.Scores[window][step*b.Classes:][:b.Classes] {
			if b.Halves {
				in.Write(binary.LittleEndian.AppendUint16(nil, half.FromFloat(v)))
			} else {
				in.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)))
			}
		}
	}
	args := []string{what + "-cpu"}
	if on.GPU {
		args[0] = what
	}
	args = append(append(args, strconv.Itoa(size), strconv.Itoa(b.Steps), strconv.Itoa(windows), Bool(b.WindowsFirst), Bool(b.Halves)), of...)
	if on.GPU {
		args = append(args, strconv.Itoa(on.Memory), Bool(on.Backwards))
	}
	out, _ := Emulate(t, Emulator(t), []any{in.Bytes()}, args...)
	all := make([]Decoded, windows)
	for i := range all {
		all[i].Path = slices.Clone(out.Next(b.Steps))
	}
	for i := range all {
		all[i].Probability = make([]float32, b.Steps)
		require.NoError(t, binary.Read(out, binary.LittleEndian, all[i].Probability))
	}
	require.Zero(t, out.Len())
	return all
}

// Rounded has the scores as half floats have them, and gives them so.
func (b Batch) Rounded() Batch {
	all := b.Scores
	b.Scores, b.Halves = nil, true
	for _, x := range all {
		y := make([]float32, len(x))
		for i, v := range x {
			y[i] = half.ToFloat(half.FromFloat(v))
		}
		b.Scores = append(b.Scores, y)
	}
	return b
}

// InGo decodes the batch with a decoder in Go.
func (b Batch) InGo(t testing.TB, decode func(scores.Window) ([]scores.Base, error)) []Decoded {
	t.Helper()
	all := make([]Decoded, len(b.Frames))
	for i, n := range b.Frames {
		bases, err := decode(scores.OfFloats(b.Scores[i], b.Classes).First(n))
		require.NoError(t, err)
		all[i] = Decoded{Path: make([]uint8, b.Steps), Probability: make([]float32, b.Steps)}
		for _, base := range bases {
			all[i].Path[base.Frame] = scores.Begins | base.Code
			all[i].Probability[base.Frame] = base.Probability
		}
	}
	return all
}

// Bases leaves of what an operator gives what a decoder in Go says: of the bases that begin.
func Bases(all []Decoded) []Decoded {
	for _, d := range all {
		for t, v := range d.Path {
			if v&scores.Begins == 0 {
				d.Path[t] = 0
			}
		}
	}
	return all
}
