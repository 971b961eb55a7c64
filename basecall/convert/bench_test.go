package convert

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/convert/torch"
	"github.com/porestream/porestream/basecall/crf"
	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/testenv"
)

// randomParameters returns random parameters for an encoder of convolutions, LSTMs
// and a CRF.
func randomParameters(b *testing.B, e encoder) *parameters {
	b.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	p := &parameters{fused: true, tensors: make(map[string]torch.Tensor)}
	add := func(at, name string, fan int, shape ...int) {
		n := 1
		for _, d := range shape {
			n *= d
		}
		t := torch.Tensor{Shape: shape, Data: make([]float32, n)}
		for i := range t.Data {
			t.Data[i] = float32(rng.NormFloat64() / math.Sqrt(float64(fan)))
		}
		p.tensors[at+"."+name] = t
	}
	for _, l := range e.layers {
		switch l := l.(type) {
		case convLayer:
			add(l.at, "conv.weight", l.in*l.width, l.out, l.in, l.width)
			add(l.at, "conv.bias", 1, l.out)
		case lstmLayer:
			add(l.at, "rnn.weight_ih_l0", l.in, 4*l.out, l.in)
			add(l.at, "rnn.weight_hh_l0", l.out, 4*l.out, l.out)
			add(l.at, "rnn.bias_ih_l0", 4, 4*l.out)
			add(l.at, "rnn.bias_hh_l0", 4, 4*l.out)
		case flstmLayer:
			add(l.at, "rnn.dn_weight_ih", l.in, l.inner, l.in)
			add(l.at, "rnn.dn_weight_hh", l.out, l.inner, l.out)
			add(l.at, "rnn.up_weight_ih", l.inner, 4*l.out, l.inner)
			add(l.at, "rnn.up_weight_hh", l.inner, 4*l.out, l.inner)
			add(l.at, "rnn.up_bias_ih", 4, 4*l.out)
			add(l.at, "rnn.up_bias_hh", 4, 4*l.out)
		case *crfLayer:
			add(l.at, "linear.weight", l.in/16, l.classes(), l.in)
		}
	}
	return p
}

// BenchmarkShareOfDecoding runs networks of the sizes of ONT's models, with random
// weights, on one core, and decodes what they give. It reports both in nanoseconds per
// frame, and decoding as a share of the network's time.
func BenchmarkShareOfDecoding(b *testing.B) {
	for _, size := range []struct {
		name     string
		width, k int
	}{{"fast", 96, 3}, {"hac", 384, 4}, {"sup", 1024, 5}} {
		b.Run(size.name, func(b *testing.B) {
			const stride, frames = 6, 500
			stay := float32(2)
			last := &crfLayer{at: "9", in: size.width, stateLength: size.k, scale: 1, stayScore: &stay}
			e := encoder{crf: last, layers: []layer{
				convLayer{at: "0", in: 1, out: 16, width: 5, stride: 1, bias: true, activation: "swish"},
				convLayer{at: "1", in: 16, out: 16, width: 5, stride: 1, bias: true, activation: "swish"},
				convLayer{at: "2", in: 16, out: size.width, width: 19, stride: stride, bias: true, activation: "tanh"},
				permuteLayer{[]int{2, 0, 1}},
			}}
			for i := range 5 {
				e.layers = append(e.layers, lstmLayer{join("", 4+i), size.width, size.width, true, i%2 == 0})
			}
			e.layers = append(e.layers, last, clampLayer{-5, 5})
			runners := opened(b, size.name, &e, stride, frames)
			r := runners.Runners[0]
			rng := rand.New(rand.NewPCG(2, 2))
			for row := range runners.Batch {
				for i := range r.Input(row) {
					r.Input(row)[i] = float32(rng.NormFloat64())
				}
			}
			decoder, err := crf.NewDecoder(crf.Config{StateLength: size.k, StayScore: &stay, BeamWidth: beamWidth, BeamCut: beamCut})
			require.NoError(b, err)
			scores := make([]float32, frames*last.classes())
			var network, decoding time.Duration
			for b.Loop() {
				begin := time.Now()
				_, err := r.Run(runners.Batch, len(r.Input(0)))
				require.NoError(b, err)
				network += time.Since(begin)
				for row := range runners.Batch {
					r.Scores(row).Copy(scores)
					begin := time.Now()
					_, err := decoder.Decode(scores)
					require.NoError(b, err)
					decoding += time.Since(begin)
				}
			}
			total := float64(b.N * runners.Batch * frames)
			b.ReportMetric(float64(network.Nanoseconds())/total, "network-ns/frame")
			b.ReportMetric(float64(decoding.Nanoseconds())/total, "decode-ns/frame")
			b.ReportMetric(decoding.Seconds()/network.Seconds(), "decode/network")
		})
	}
}

// opened is a network of random weights on one core, until b ends.
func opened(b *testing.B, name string, e *encoder, stride, frames int) *infer.Runners {
	b.Helper()
	c := &config{encoder: *e, chunk: frames * stride, qScale: 1, scaling: scaling{strategy: "pa", stdev: 1}}
	m, err := c.manifest("dna_r10.4.1_"+name, Options{SampleRate: 5000})
	require.NoError(b, err)
	onnx, err := buildNetwork(*e, randomParameters(b, *e), &m, false)
	require.NoError(b, err)
	runners, err := infer.Open(infer.Network{
		Name: name, ONNX: onnx, Input: inputName, Output: outputName, TimeMajor: true,
		Samples: frames * stride, Frames: frames, Classes: e.crf.classes(),
	}, infer.Options{Device: "cpu", BatchCPU: 8, SessionsCPU: 1, BatchCUDA: 1, SessionsCUDA: 1})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, runners.Close()) })
	return runners
}

// BenchmarkFactorised runs one layer of hac v6 on one core as it is converted, in two thin
// products, and an LSTM of its size, which it would be multiplied out. It reports the time of
// the processor in nanoseconds per frame.
func BenchmarkFactorised(b *testing.B) {
	const width, inner, stride, frames = 1024, 128, 6, 500
	for _, form := range []struct {
		name  string
		layer layer
	}{
		{"thin", flstmLayer{"4", width, width, inner, true, true}},
		{"multiplied", lstmLayer{"4", width, width, true, true}},
	} {
		b.Run(form.name, func(b *testing.B) {
			stay := float32(2)
			last := &crfLayer{at: "5", in: width, stateLength: 3, scale: 1, stayScore: &stay}
			e := encoder{crf: last, layers: []layer{
				convLayer{at: "0", in: 1, out: width, width: 19, stride: stride, bias: true, activation: "tanh"}, permuteLayer{[]int{2, 0, 1}}, form.layer, last,
			}}
			runners := opened(b, form.name, &e, stride, frames)
			begin := testenv.ProcessorTime(b)
			for b.Loop() {
				_, err := runners.Runners[0].Run(runners.Batch, len(runners.Runners[0].Input(0)))
				require.NoError(b, err)
			}
			b.ReportMetric(float64((testenv.ProcessorTime(b)-begin).Nanoseconds())/float64(b.N*runners.Batch*frames), "cpu-ns/frame")
		})
	}
}
