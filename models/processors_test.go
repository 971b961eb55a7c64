package models_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/modelfile/folder"
	"github.com/porestream/porestream/models"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/network"
)

// hashOf is of the bits of scores.
func hashOf(scores []float32) string {
	sum := sha256.New()
	_ = binary.Write(sum, binary.LittleEndian, scores) // a hash takes everything
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// TestEveryProcessorComputesTheSameBits: these are the scores of processors of x86-64 with AVX-512 and of those with AVX2 alone, so a run
// may go on another kind of machine, and what is called is the same bytes; the variant network's are those of arm64, too (the latter two
// emulated by QEMU 7.2). There LSTM layers differ by up to 6e-6. What changes a model's network changes the scores; with the same
// networks they change only if ONNX Runtime computes otherwise, which would change calls within a run while its processors are upgraded.
func TestEveryProcessorComputesTheSameBits(t *testing.T) {
	want := map[string]string{
		"r9.4-fast fp32": "1e7bad9997c58092",
		"r9.4-fast int8": "2be95fedb0445e69",
		"r9.4-hac fp32":  "24fad6eaa7635b8d",
		"r9.4-hac int8":  "07a2099860d5e1c1",
		"r9-r10-pileup":  "856e4772ff332fd5",
	}
	for _, name := range models.Names(folder.Basecaller) {
		for _, precision := range []infer.Precision{infer.PrecisionSingle, infer.PrecisionInt8} {
			t.Run(name+" "+precision.String(), func(t *testing.T) {
				if runtime.GOARCH != "amd64" {
					t.Skip("LSTM layers of ONNX Runtime have other last bits than on x86-64")
				}
				model, err := models.Open(name)
				require.NoError(t, err)
				m := model.Manifest
				const samples = 1200
				classes := 4 << (2 * m.Decoder.StateLength) // scores of transitions, staying being the same for all
				runners, err := infer.Open(infer.Network{
					Name: m.Name, ONNX: model.Network, Input: m.Network.Input, Output: m.Network.Output, TimeMajor: m.Network.OutputLayout == "TNC",
					Samples: samples, Frames: samples / m.Network.Stride, Classes: classes,
				}, infer.Options{Device: "cpu", BatchCPU: 1, SessionsCPU: 1, Compute: infer.Compute{Precision: precision}})
				if errors.Is(err, infer.ErrNoInt8) || errors.Is(err, fs.ErrNotExist) {
					t.Skip(err)
				}
				require.NoError(t, err)
				defer func() { require.NoError(t, runners.Close()) }()
				r, signal := runners.Runners[0], rand.New(rand.NewPCG(1, 2))
				level := float32(0)
				for i := range r.Input(0) {
					if signal.IntN(9) == 0 {
						level = 4*signal.Float32() - 2
					}
					r.Input(0)[i] = level + signal.Float32()/4
				}
				_, err = r.Run(1, samples)
				require.NoError(t, err)
				scores := make([]float32, samples/m.Network.Stride*classes)
				r.Scores(0).Copy(scores)
				assert.Equal(t, want[name+" "+precision.String()], hashOf(scores))
			})
		}
	}
	t.Run("r9-r10-pileup", func(t *testing.T) {
		model, err := models.OpenVariant("r9-r10-pileup")
		require.NoError(t, err)
		n, err := network.New(model, network.Config{Device: "cpu"})
		if errors.Is(err, fs.ErrNotExist) {
			t.Skip(err)
		}
		require.NoError(t, err)
		defer func() { require.NoError(t, n.Close()) }()
		x, rng := network.MadeUp(40), rand.New(rand.NewPCG(3, 4))
		for i := range x {
			if i%variant.ExampleSize < variant.ExamplePlanes*variant.ExampleColumns {
				x[i] = rng.Float32()
			}
		}
		scores, err := n.Score(nil, x)
		require.NoError(t, err)
		require.False(t, math.IsNaN(float64(scores[0])))
		assert.Equal(t, want["r9-r10-pileup"], hashOf(scores))
	})
}
