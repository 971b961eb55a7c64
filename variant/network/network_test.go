package network_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/modelfile/calibration"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/network"
	"github.com/porestream/porestream/variant/network/networktest"
)

// needLibrary skips a test where ONNX Runtime hasn't been fetched.
func needLibrary(t testing.TB) {
	t.Helper()
	if _, err := infer.FindLibrary(""); err != nil {
		t.Skip("needs ONNX Runtime: ", err)
	}
}

func open(t testing.TB, model *network.Model, cfg network.Config) *network.Network {
	t.Helper()
	needLibrary(t)
	if cfg.Device == "" {
		cfg.Device = "cpu"
	}
	n, err := network.New(model, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n
}

// examples are made-up examples of all types and ploidies.
func examples(seed uint64, n int) []float32 {
	rng := rand.New(rand.NewPCG(seed, 5))
	x := network.MadeUp(n)
	for i := range n {
		planes := x[i*variant.ExampleSize:][:variant.ExamplePlanes*variant.ExampleColumns]
		for k := range planes {
			planes[k] = float32(rng.NormFloat64())
		}
	}
	return x
}

// TestAnswersAreThoseOfFloat64 holds answers to the network's layer, computed here in float64.
func TestAnswersAreThoseOfFloat64(t *testing.T) {
	spec := networktest.Random(1)
	spec.Bias = func(score int) float32 { return float32(score) / 10 }
	n := open(t, networktest.Model(t, spec), network.Config{})
	x := examples(1, 20)
	dst, err := n.Score([]float32{7}, x)
	require.NoError(t, err)
	require.Len(t, dst, 1+20*variant.Scores)
	require.Equal(t, float32(7), dst[0])
	for i := range 20 {
		scores := dst[1+i*variant.Scores:][:variant.Scores]
		example := x[i*variant.ExampleSize:][:variant.ExampleSize]
		logits := make([]float64, variant.Scores)
		for score := range logits {
			logits[score] = float64(score) / 10
			for input, v := range example {
				logits[score] += float64(spec.Weights(score, input)) * float64(v)
			}
		}
		heads := [][]int{{0, 1, 2}, {3, 4, 5}, nil}
		for i := 6; i < variant.Scores; i++ {
			heads[2] = append(heads[2], i)
		}
		if example[variant.ExamplePlanes*variant.ExampleColumns+variant.ScalarPloidy] == 1 {
			heads[0] = []int{0, 2}
		}
		for _, head := range heads {
			sum := 0.0
			for _, score := range head {
				sum += math.Exp(logits[score])
			}
			for _, score := range head {
				require.InDelta(t, logits[score]-math.Log(sum), scores[score], 1e-3, "example %d, score %d", i, score)
			}
		}
	}
	assert.Equal(t, "cpu", n.Device())

	dst, err = n.Score(dst[:0], nil)
	require.NoError(t, err)
	require.Empty(t, dst)
	dst, err = n.Score([]float32{1}, x[1:])
	require.ErrorContains(t, err, "no whole number of examples")
	require.Equal(t, []float32{1}, dst)
}

// TestBatchesChangeNothing: whatever the batch and the number of sessions, however
// many callers ask at once and however they divide and order their examples, every
// example has the same answer, bit for bit.
func TestBatchesChangeNothing(t *testing.T) {
	model := networktest.Model(t, networktest.Random(2))
	model.Manifest.Calibration = []network.Calibration{{Type: "snp", Ploidy: "2", Qual: calibration.Curve{{20, 17}}, GQ: calibration.Curve{{10, 9}}}}
	const count = 60
	x := examples(2, count)
	want, err := open(t, model, network.Config{Batch: 1, Sessions: 1}).Score(nil, x)
	require.NoError(t, err)
	for _, cfg := range []network.Config{{}, {Batch: 3, Sessions: 2}, {Batch: 16, Sessions: 1}, {Batch: 64, Sessions: 3}, {Batch: 200}} {
		n := open(t, model, cfg)
		for seed := range uint64(5) {
			var scoring sync.WaitGroup
			for worker := range uint64(6) {
				scoring.Go(func() {
					rng := rand.New(rand.NewPCG(seed, worker))
					order := rng.Perm(count)
					for len(order) > 0 {
						part := order[:1+rng.IntN(min(25, len(order)))]
						order = order[len(part):]
						var in []float32
						for _, i := range part {
							in = append(in, x[i*variant.ExampleSize:(i+1)*variant.ExampleSize]...)
						}
						got, err := n.Score(nil, in)
						if !assert.NoError(t, err) {
							return
						}
						for k, i := range part {
							if !equalBits(got[k*variant.Scores:(k+1)*variant.Scores], want[i*variant.Scores:(i+1)*variant.Scores]) {
								t.Errorf("%+v: example %d has another answer among %d", cfg, i, len(part))
							}
						}
					}
				})
			}
			scoring.Wait()
		}
	}
}

func equalBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// TestNewRefusesNetworksThatDoNotFit: what the manifest can't know is found when
// the network is loaded.
func TestNewRefusesNetworksThatDoNotFit(t *testing.T) {
	needLibrary(t)
	for _, tt := range []struct {
		name   string
		model  *network.Model
		change func(*network.Model)
		want   string
	}{
		{"input size", networktest.Model(t, networktest.Spec{Size: 100}), nil, `axis 2 of input "examples" is 100, not `},
		{"scores", networktest.Model(t, networktest.Spec{Scores: 21}), nil, `axis 2 of output "scores" is 21, not 39`},
		{"batch", networktest.Model(t, networktest.Spec{Batch: 4}), nil, "fixed batch size of 4"},
		{"input name", networktest.Model(t, networktest.Spec{}), func(m *network.Model) { m.Manifest.Network.Input = "x" }, `has no input "x", only "examples"`},
		{"output name", networktest.Model(t, networktest.Spec{}), func(m *network.Model) { m.Manifest.Network.Output = "y" }, `has no output "y", only "scores"`},
		{"no network", networktest.Model(t, networktest.Spec{}), func(m *network.Model) { m.Network = []byte("ONNX") }, "reading network test"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.change != nil {
				tt.change(tt.model)
			}
			_, err := network.New(tt.model, network.Config{Device: "cpu"})
			require.ErrorContains(t, err, tt.want)
			assert.ErrorContains(t, err, "loading model test: ")
			assert.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	n := open(t, networktest.Model(t, networktest.Random(3)), network.Config{Registerer: reg, Batch: 4, Sessions: 1, MaxDelay: time.Hour})
	_, err := n.Score(nil, examples(3, 9))
	require.NoError(t, err)
	_, err = n.Score(nil, examples(4, 1))
	require.NoError(t, err)
	families, err := reg.Gather()
	require.NoError(t, err)
	values := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			key := f.GetName()
			for _, l := range m.GetLabel() {
				key += " " + l.GetValue()
			}
			values[key] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	assert.Equal(t, 10.0, values["porestream_variant_examples_total test"])
	assert.Equal(t, 2.0, values["porestream_variant_judge_duration_seconds test"])
	assert.Equal(t, float64(10*variant.ExampleSize), values["porestream_infer_samples_total test"])
	assert.Equal(t, 2.0, values["porestream_infer_batches_total full test"])
	assert.Equal(t, 2.0, values["porestream_infer_batches_total drain test"])
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	assert.Empty(t, problems)
	// A second model of the process counts beside it.
	other := networktest.Model(t, networktest.Random(4))
	other.Manifest.Name = "other"
	open(t, other, network.Config{Registerer: reg})
}

func TestFingerprint(t *testing.T) {
	base := networktest.Model(t, networktest.Random(5))
	calibrated, named, half := *base, *base, *base
	calibrated.Manifest.Calibration = []network.Calibration{{Type: "snp", Ploidy: "1", Qual: calibration.Curve{{1, 1}}}}
	named.Manifest.Description = "the same, described otherwise"
	half.Half = base.Network
	want := open(t, base, network.Config{}).Fingerprint()
	assert.Equal(t, want, open(t, base, network.Config{Batch: 3}).Fingerprint())
	assert.Equal(t, want, open(t, &named, network.Config{}).Fingerprint())
	for _, other := range []*network.Model{&calibrated, &half, networktest.Model(t, networktest.Random(6))} {
		assert.NotEqual(t, want, open(t, other, network.Config{}).Fingerprint())
	}
}

// TestSetsOfReadsAreScoredByTheirOwnCurves where they have some, and by the shared ones else.
func TestSetsOfReadsAreScoredByTheirOwnCurves(t *testing.T) {
	model, err := network.LoadModel(files(t))
	require.NoError(t, err)
	n := open(t, model, network.Config{})
	suits := n.Suits()
	require.Len(t, suits, 2)
	assert.True(t, suits[0].Matches("dna_r10.4.1_e8.2_400bps_sup@v5.0.0"))
	assert.True(t, suits[0].Matches("mine-2"))
	assert.False(t, suits[0].Matches("dna_r10.4.1_e8.2_400bps_hac@v5.0.0"))
	assert.True(t, suits[1].Matches("dna_r10.4.1_e8.2_400bps_hac@v5.0.0"))
	assert.Equal(t, 0.004, suits[0].Errors.Mismatch)
	assert.Equal(t, 0.3, suits[0].Errors.Deletion[variant.MaxCountedRun])
	assert.Nil(t, suits[1].Errors)

	x := examples(3, 36)
	shared, err := n.Score(nil, x)
	require.NoError(t, err)
	rest, err := suits[1].Network.Score(nil, x)
	require.NoError(t, err)
	assert.Equal(t, shared, rest)
	own, err := suits[0].Network.Score(nil, x)
	require.NoError(t, err)
	differ := 0
	for i := range 36 {
		scalars := x[i*variant.ExampleSize+variant.ExamplePlanes*variant.ExampleColumns:]
		diploidSNP := scalars[variant.ScalarPloidy+1] == 1 && scalars[variant.ScalarType] == 1
		a, b := own[i*variant.Scores:][:variant.Scores], shared[i*variant.Scores:][:variant.Scores]
		if !diploidSNP {
			assert.Equal(t, b, a, "what the set has no curve for has the shared one")
		} else if !slices.Equal(a, b) {
			differ++
			assert.GreaterOrEqual(t, a[0], b[0], "its curve is lower, so that no copy is likelier")
		}
	}
	assert.Positive(t, differ)

	// Sets that score differently or are for other reads make another fingerprint; descriptions
	// don't.
	for _, tt := range []struct {
		old, new string
		same     bool
	}{
		{`data = "made up"`, `data = "told otherwise"`, true}, {"[[10, 5], [40, 20]]", "[[10, 5], [40, 21]]", false},
		{"mismatch = 0.004", "mismatch = 0.005", false}, {`"mine*"`, `"ours*"`, false},
	} {
		f := files(t)
		replace(tt.old, tt.new)(f)
		other, err := network.LoadModel(f)
		require.NoError(t, err)
		assert.Equal(t, tt.same, open(t, other, network.Config{}).Fingerprint() == n.Fingerprint(), tt.new)
	}
}
