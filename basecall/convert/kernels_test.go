package convert

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/crf"
	"github.com/porestream/porestream/basecall/ctc"
	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/basecall/kernels/kernelstest"
	"github.com/porestream/porestream/testenv"
)

// realScores has a network compute windows of real reads, of so many samples.
func realScores(t *testing.T, model *basecall.Model, windows, samples, classes int) kernelstest.Batch {
	t.Helper()
	m := model.Manifest
	m.Window.Samples = samples
	x := slices.Concat(realSignals(t, windows, samples)...)
	all := compute(t, &basecall.Model{Manifest: m}, model.Network, infer.PrecisionSingle, x)
	b := kernelstest.Batch{Classes: classes, Steps: samples / m.Network.Stride, WindowsFirst: true}
	for scores := range slices.Chunk(all, b.Steps*classes) {
		b.Scores = append(b.Scores, scores)
		b.Frames = append(b.Frames, b.Steps)
	}
	require.Len(t, b.Scores, windows)
	b.Frames[windows-1] /= 2
	return b
}

// onEmulator are the GPU's kernel, on a CPU, and that for CPUs.
var onEmulator = []kernelstest.On{{GPU: true, Memory: 1 << 30}, {}}

// bases counts those that begin.
func bases(all []kernelstest.Decoded) (count int) {
	for _, d := range all {
		for _, v := range d.Path {
			count += int(v >> 2 & 1)
		}
	}
	return count
}

// TestKernelsDecodeRealScores: of the scores that a shipped network gives real reads, kernels make the bits that the decoder in
// Go makes.
func TestKernelsDecodeRealScores(t *testing.T) {
	model, err := basecall.OpenModel(filepath.Join("..", "..", "models", "r9.4-fast"))
	require.NoError(t, err)
	d := model.Manifest.Decoder
	cfg := crf.Config{StateLength: d.StateLength, StayScore: d.StayScore, BeamWidth: d.BeamWidth, BeamCut: d.BeamCut}
	b := realScores(t, model, 3, 1500, cfg.Scores())
	decoder, err := crf.NewDecoder(cfg)
	require.NoError(t, err)
	want := b.InGo(t, decoder.DecodeWindow)
	assert.Greater(t, bases(want), 100)
	for _, on := range onEmulator {
		require.Equal(t, want, kernelstest.Bases(kernelstest.CRF(t, b, cfg, on)), "%+v", on)
	}
}

// TestKernelsDecodeRealScoresOfCTC: the same of the CTC network of ont-bonito 0.2.3.
func TestKernelsDecodeRealScoresOfCTC(t *testing.T) {
	testenv.SkipUnchanged(t, "operators")
	folder := testenv.Path(t, "PORESTREAM_BONITO_MODEL", "the folder of the network in ont-bonito 0.2.3")
	model, err := Convert(folder, Options{})
	require.NoError(t, err)
	d := model.Manifest.Decoder
	for _, cfg := range []ctc.Config{
		{BeamWidth: d.BeamWidth, BeamCut: d.BeamCut, BaseBonus: d.BaseBonus}, {BeamWidth: 1, BeamCut: 0.1}, {BeamWidth: 32},
	} {
		cfg.Classes, cfg.Logits = len(d.Labels), model.Manifest.Network.Scores == "logits"
		b := realScores(t, model, 2, 1500, cfg.Classes)
		want := b.InGo(t, ctc.NewDecoder(cfg).DecodeWindow)
		assert.Greater(t, bases(want), 100)
		for _, on := range onEmulator {
			require.Equal(t, want, kernelstest.Bases(kernelstest.CTC(t, b, cfg, on)), "%+v %+v", cfg, on)
		}
	}
}
