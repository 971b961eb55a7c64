package basecall

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/testenv"
)

// ownModel returns the model that the repository ships.
func ownModel(t testing.TB) *Model {
	t.Helper()
	model, err := OpenModel(filepath.Join("..", "models", "r9.4-fast"))
	require.NoError(t, err)
	return model
}

// referenceModel returns a third-party network with the scheme that its own
// program uses: windows of 1560 samples every 1500, cut in the middle.
func referenceModel(t testing.TB, name string) *Model {
	t.Helper()
	network, err := os.ReadFile(testenv.Recordings(t, "reference-model/"+name+".onnx"))
	require.NoError(t, err)
	model, err := LoadModel(fstest.MapFS{
		"model.onnx": {Data: network},
		"manifest.toml": {Data: fmt.Appendf(nil, `format = 1
name = %q
sample_rates = [4000]
network = { file = "model.onnx", sha256 = "%x", input = "signal", output = "logits", output_layout = "TNC", scores = "logits", stride = 3 }
normalisation = { method = "med_mad" }
window = { samples = 1560, overlap = 60 }
decoder = { type = "ctc", labels = ["", "A", "C", "G", "T"], beam_width = 5, beam_cut = 0.1 }
`, name, sha256.Sum256(network))},
	})
	require.NoError(t, err)
	return model
}

// newCaller returns a caller on the CPU, and skips the test without ONNX Runtime.
func newCaller(t testing.TB, model *Model, cfg Config) *Caller {
	t.Helper()
	if _, err := infer.FindLibrary(""); err != nil {
		t.Skip("needs ONNX Runtime: ", err)
	}
	cfg.Device = "cpu"
	c, err := NewCaller(model, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// recorded returns the first n reads of a recording.
func recorded(t testing.TB, path string, n int) []Read {
	t.Helper()
	f, err := signal.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var reads []Read
	for len(reads) < n {
		r, err := f.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		reads = append(reads, Read{ID: r.ID, Samples: r.Samples, SampleRate: r.Run.SampleRate, Calibration: r.Calibration})
	}
	return reads
}

// syntheticRead returns a read of levels that change every few samples, enough
// like a signal for a network to call something.
func syntheticRead(seed uint64, samples int) Read {
	rng := rand.New(rand.NewPCG(seed, 9))
	read := Read{ID: fmt.Sprint("synthetic-", seed), Samples: make([]int16, samples), SampleRate: 4000}
	level := 0.0
	for i := range read.Samples {
		if i%9 == 0 {
			level = 80 * rng.NormFloat64()
		}
		read.Samples[i] = int16(500 + level + 8*rng.NormFloat64())
	}
	return read
}

// inEachPrecision runs a test with a CPU's precisions that differ in how windows share batches, and with
// scores in eight bits.
func inEachPrecision(t *testing.T, test func(*testing.T, infer.Compute)) {
	t.Run("scores in int8", func(t *testing.T) { test(t, infer.Compute{Scores: infer.ScoresBytes}) })
	for _, precision := range []infer.Precision{infer.PrecisionSingle, infer.PrecisionInt8} {
		t.Run(precision.String(), func(t *testing.T) { test(t, infer.Compute{Precision: precision}) })
	}
}

func TestCallIsIndependentOfBatchesAndOrder(t *testing.T) {
	inEachPrecision(t, callIsIndependentOfBatchesAndOrder)
}

func callIsIndependentOfBatchesAndOrder(t *testing.T, compute infer.Compute) {
	model := ownModel(t)
	var reads []Read
	for seed, samples := range []int{0, 2, 3, 50, 3599, 3600, 3605, 12001, 6601} {
		reads = append(reads, syntheticRead(uint64(seed), samples))
	}
	alone := newCaller(t, model, Config{Batch: 1, Sessions: 1, Compute: compute})
	want := make([]Called, len(reads))
	for i, read := range reads {
		var err error
		want[i], err = alone.Call(t.Context(), read)
		require.NoError(t, err)
	}
	assert.NotEmpty(t, want[7].Sequence)

	for round, cfg := range []Config{
		{Batch: 4, Sessions: 2},
		{Batch: 3, Sessions: 1, Queue: 3, MaxDelay: time.Nanosecond},
		{Batch: 9, Sessions: 2, MaxDelay: time.Second},
		{Batch: 2, Sessions: 2},
	} {
		cfg.Compute = compute
		c := newCaller(t, model, cfg)
		call := c.Call
		if round%2 == 1 {
			call = c.CallAtLeisure
		}
		order := rand.New(rand.NewPCG(uint64(round), 1)).Perm(len(reads))
		have := make([]Called, len(reads))
		var calls sync.WaitGroup
		for _, i := range order {
			calls.Go(func() {
				var err error
				if have[i], err = call(t.Context(), reads[i]); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		for i := range reads {
			assert.Equal(t, want[i], have[i], "round %d, read of %d samples", round, len(reads[i].Samples))
		}
	}
}

// TestStreamIsIndependentOfPieces: a read that is written in pieces of any length,
// beside other reads, is called as it is at once, to the byte.
func TestStreamIsIndependentOfPieces(t *testing.T) {
	inEachPrecision(t, streamIsIndependentOfPieces)
}

func streamIsIndependentOfPieces(t *testing.T, compute infer.Compute) {
	model := ownModel(t)
	var reads []Read
	for seed, samples := range []int{0, 2, 50, 3600, 4095, 4400, 9001, 30_000} {
		read := syntheticRead(uint64(seed), samples)
		read.Calibration = signal.Calibration{Scale: 0.18}
		reads = append(reads, read)
	}
	whole := newCaller(t, model, Config{Batch: 8, Sessions: 1, Compute: compute})
	want := make([]Called, len(reads))
	for i, read := range reads {
		var err error
		want[i], err = whole.Call(t.Context(), read)
		require.NoError(t, err)
	}
	soFar := make(map[bool]int) // streams that could say something, or not yet
	for round, pieces := range []func(*rand.Rand) int{
		func(*rand.Rand) int { return 1 },
		func(*rand.Rand) int { return 4000 },
		func(rng *rand.Rand) int { return rng.IntN(9000) },
	} {
		c := newCaller(t, model, Config{Batch: 1 + 2*round, Sessions: 2, MaxDelay: time.Nanosecond, Compute: compute})
		rng := rand.New(rand.NewPCG(uint64(round), 3))
		streams := make([]*Stream, len(reads))
		written := make([]int, len(reads))
		for i, read := range reads {
			first := min(rng.IntN(2), len(read.Samples))
			read.Samples, written[i] = read.Samples[:first], first
			var err error
			streams[i], err = c.Begin(read)
			require.NoError(t, err)
		}
		open := rng.Perm(len(reads))
		for len(open) > 0 {
			k := rng.IntN(len(open))
			i := open[k]
			n := min(max(1, pieces(rng)), len(reads[i].Samples)-written[i])
			require.NoError(t, streams[i].Write(t.Context(), reads[i].Samples[written[i]:written[i]+n]))
			written[i] += n
			soFar[len(requireBeginning(t, want[i], streams[i].SoFar()).Sequence) > 0]++
			if written[i] < len(reads[i].Samples) {
				continue
			}
			open = slices.Delete(open, k, k+1)
			have, err := streams[i].Finish(t.Context())
			require.NoError(t, err)
			require.Equal(t, want[i], have, "round %d, read of %d samples", round, len(reads[i].Samples))
			streams[i].Close()
		}
	}
	assert.NotZero(t, soFar[true])
	assert.NotZero(t, soFar[false])
}

// requireBeginning requires that what is called so far is how the read is called, as far
// as that goes, and returns it.
func requireBeginning(t *testing.T, whole, soFar Called) Called {
	t.Helper()
	n := len(soFar.Sequence)
	require.LessOrEqual(t, n, len(whole.Sequence))
	require.LessOrEqual(t, soFar.NumSamples, whole.NumSamples)
	require.Equal(t, string(whole.Sequence[:n]), string(soFar.Sequence))
	require.Equal(t, string(whole.Qualities[:n]), string(soFar.Qualities))
	require.Equal(t, string(whole.Moves[:len(soFar.Moves)]), string(soFar.Moves))
	require.Len(t, soFar.Moves, soFar.NumSamples/soFar.Stride)
	return soFar
}

// TestStreamIsCalledEarly: when a read ends, all but its last window is called.
func TestStreamIsCalledEarly(t *testing.T) {
	c := newCaller(t, ownModel(t), Config{Batch: 2, Sessions: 1})
	read := syntheticRead(1, 40_000)
	samples := read.Samples
	read.Samples = nil
	s, err := c.Begin(read)
	require.NoError(t, err)
	defer s.Close()
	for i := 0; i < len(samples); i += 400 {
		require.NoError(t, s.Write(t.Context(), samples[i:i+400]))
	}
	require.NoError(t, s.receive(t.Context(), s.producer.Outstanding()))
	windows := c.windows.count(len(samples))
	assert.Equal(t, windows-1, s.joined)
	_, err = s.Finish(t.Context())
	require.NoError(t, err)
	assert.Equal(t, windows, s.joined)
}

func TestClosedStreamLeavesNothing(t *testing.T) {
	c := newCaller(t, ownModel(t), Config{Batch: 8, Sessions: 1, MaxDelay: time.Hour})
	for seed := range uint64(20) {
		s, err := c.Begin(syntheticRead(seed, 12_000))
		require.NoError(t, err)
		require.NoError(t, s.Write(t.Context(), nil))
		s.Close()
		s.Close()
	}
	called, err := c.Call(t.Context(), syntheticRead(1, 12_000))
	require.NoError(t, err)
	assert.NotEmpty(t, called.Sequence)
}

func TestCalledIsConsistent(t *testing.T) {
	model := ownModel(t)
	c, stride := newCaller(t, model, Config{Batch: 2, Sessions: 1}), model.Manifest.Network.Stride
	for seed, samples := range []int{0, 1, 2, 3, 4, 3600, 10000} {
		read := syntheticRead(uint64(seed), samples)
		called, err := c.Call(t.Context(), read)
		require.NoError(t, err)
		assert.Equal(t, samples, called.NumSamples)
		assert.Equal(t, stride, called.Stride)
		assert.Len(t, called.Moves, samples/stride)
		assert.Len(t, called.Qualities, len(called.Sequence))
		assert.Len(t, called.Dwells(), len(called.Sequence))
		for _, q := range called.Qualities {
			assert.True(t, q >= 1 && q <= 50, "quality %d", q)
		}
		assert.Empty(t, strings.Trim(string(called.Sequence), "ACGT"))
		if len(called.Sequence) == 0 {
			assert.Zero(t, called.MeanQuality)
		}
	}
}

// TestRNAIsReversed: what a network reads off RNA comes 3' end first.
func TestRNAIsReversed(t *testing.T) {
	reads := recorded(t, filepath.Join("..", "testdata", "lambda", "reads.pod5"), 3)
	rna := *ownModel(t)
	rna.Manifest.Chemistry = "rna004"
	asDNA, asRNA := newCaller(t, ownModel(t), Config{Sessions: 1}), newCaller(t, &rna, Config{Sessions: 1})
	for _, read := range reads {
		want, err := asDNA.Call(t.Context(), read)
		require.NoError(t, err)
		got, err := asRNA.Call(t.Context(), read)
		require.NoError(t, err)
		assert.True(t, got.FromEnd)
		assert.Equal(t, want.Moves, got.Moves, "in the order of the signal")
		slices.Reverse(got.Sequence)
		slices.Reverse(got.Qualities)
		assert.Equal(t, want.Sequence, got.Sequence)
		assert.Equal(t, want.Qualities, got.Qualities)
		assert.InDelta(t, want.MeanQuality, got.MeanQuality, 1e-9)

		first := read
		first.Samples = nil
		s, err := asRNA.Begin(first)
		require.NoError(t, err)
		require.NoError(t, s.Write(t.Context(), read.Samples))
		require.NoError(t, s.receive(t.Context(), s.producer.Outstanding()), "SoFar waits for nothing")
		soFar := s.SoFar()
		assert.True(t, soFar.FromEnd)
		assert.NotEmpty(t, soFar.Sequence)
		slices.Reverse(soFar.Sequence)
		slices.Reverse(soFar.Qualities)
		requireBeginning(t, want, soFar)
		s.Close()
	}
}

func TestCallRefuses(t *testing.T) {
	c := newCaller(t, ownModel(t), Config{Batch: 2, Sessions: 1})
	read := syntheticRead(1, 5000)
	read.SampleRate = 5000
	_, err := c.Call(t.Context(), read)
	require.EqualError(t, err, "basecalling read synthetic-1: it was recorded at 5000 Hz, but model r9.4-fast is for [4000] Hz")

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Call(cancelled, syntheticRead(1, 5000))
	require.ErrorIs(t, err, context.Canceled)
	called, err := c.Call(t.Context(), syntheticRead(1, 5000))
	require.NoError(t, err, "a cancelled call leaves nothing behind")
	assert.NotEmpty(t, called.Sequence)
}

func TestCallAfterClose(t *testing.T) {
	if _, err := infer.FindLibrary(""); err != nil {
		t.Skip("needs ONNX Runtime: ", err)
	}
	c, err := NewCaller(ownModel(t), Config{Device: "cpu", Sessions: 1})
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	_, err = c.Call(t.Context(), syntheticRead(1, 5000))
	require.ErrorIs(t, err, infer.ErrClosed)
}

func TestNewCallerRefuses(t *testing.T) {
	if _, err := infer.FindLibrary(""); err != nil {
		t.Skip("needs ONNX Runtime: ", err)
	}
	model := *ownModel(t)
	_, err := NewCaller(&model, Config{Device: "tpu"})
	require.ErrorContains(t, err, `loading model r9.4-fast: device "tpu" is none of auto, cpu`)
	model.Manifest.Network.Output = "logits"
	_, err = NewCaller(&model, Config{Device: "cpu"})
	require.ErrorContains(t, err, `no output "logits"`)
}

func TestCallerMetrics(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	c := newCaller(t, ownModel(t), Config{Registerer: reg, Batch: 2, Sessions: 1})
	called, err := c.Call(t.Context(), syntheticRead(1, 8000))
	require.NoError(t, err)
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	assert.Empty(t, problems)
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(fmt.Sprintf(`
# HELP porestream_basecall_bases_total Bases called.
# TYPE porestream_basecall_bases_total counter
porestream_basecall_bases_total{model="r9.4-fast"} %d
# HELP porestream_basecall_reads_total Reads basecalled.
# TYPE porestream_basecall_reads_total counter
porestream_basecall_reads_total{model="r9.4-fast"} 1
# HELP porestream_basecall_samples_total Samples of the reads basecalled, each counted once.
# TYPE porestream_basecall_samples_total counter
porestream_basecall_samples_total{model="r9.4-fast"} 8000
# HELP porestream_infer_info Always 1; names the device that a model runs on.
# TYPE porestream_infer_info gauge
porestream_infer_info{device="cpu",model="r9.4-fast"} 1
`, len(called.Sequence))),
		"porestream_basecall_bases_total", "porestream_basecall_reads_total", "porestream_basecall_samples_total", "porestream_infer_info"))
}

func TestReadsSideBySideFillAllSessionsTwice(t *testing.T) {
	model := ownModel(t)
	window := model.Manifest.Window
	capacity := 40 * runtime.GOMAXPROCS(0)
	c := newCaller(t, model, Config{Device: "cpu", Sessions: runtime.GOMAXPROCS(0), Batch: 40, WholeWindows: true})
	three := window.Samples + 2*(window.Samples-window.Overlap)
	for _, test := range []struct{ samples, want int }{
		{0, 2 * capacity},
		{window.Samples, 2 * capacity},
		{three, (2*capacity + 2) / 3},
		{100 * three, 8 * runtime.GOMAXPROCS(0)},
	} {
		assert.Equal(t, test.want, c.SideBySide(test.samples), "reads of %d samples", test.samples)
	}
}

// TestReadsSideBySideFillBatchesOfLastWindows: with one read more than those that windows need among so many last windows there
// are always as many of one length as a batch holds; of reads so long that they would take much memory fewer wait.
func TestReadsSideBySideFillBatchesOfLastWindows(t *testing.T) {
	c := newCaller(t, ownModel(t), Config{Device: "cpu", Sessions: 1, Batch: 3})
	lengths := make(map[int]bool)
	for samples := 1; samples < c.windows.samples; samples++ {
		if length := c.windows.length(0, samples); length > 0 && length < c.windows.samples {
			lengths[length] = true
		}
	}
	require.Len(t, lengths, 16)
	few := 8 * runtime.GOMAXPROCS(0)
	assert.Equal(t, few+2*len(lengths), c.SideBySide(100_000))
	assert.Equal(t, few+3, c.SideBySide(10<<20))
	assert.Equal(t, few, c.SideBySide(64<<20))
}

// editDistance returns the number of edits between a and b where neither is
// charged for what follows the other's end (wavefronts over diagonals, Ukkonen
// 1985), and the columns of the alignment.
func editDistance(a, b string) (edits, columns int) {
	match := func(i, j int) int {
		n := 0
		for i+n < len(a) && j+n < len(b) && a[i+n] == b[j+n] {
			n++
		}
		return n
	}
	// reach[k] is the furthest position in a on the diagonal i-j = k.
	reach := map[int]int{0: match(0, 0)}
	for ; ; edits++ {
		for k, i := range reach {
			if i >= len(a) || i-k >= len(b) {
				return edits, max(i, i-k)
			}
		}
		next := map[int]int{}
		for k, i := range reach {
			for _, step := range [][2]int{{k, i + 1}, {k + 1, i + 1}, {k - 1, i}} {
				if best, ok := next[step[0]]; !ok || step[1] > best {
					next[step[0]] = step[1]
				}
			}
		}
		for k, i := range next {
			next[k] = i + match(i, i-k)
		}
		reach = next
	}
}

func TestEditDistance(t *testing.T) {
	for _, test := range []struct {
		a, b  string
		edits int
	}{
		{"ACGTACGT", "ACGTACGT", 0},
		{"ACGTACGT", "ACGTACGTTTTTT", 0},
		{"ACCTACGT", "ACGTACGT", 1},
		{"ACGACGT", "ACGTACGT", 1},
		{"ACGTTACGTA", "ACGTACGTA", 1},
	} {
		edits, _ := editDistance(test.a, test.b)
		assert.Equal(t, test.edits, edits, "%s %s", test.a, test.b)
	}
}

// TestKlebsiellaMatchesTheNetworksOwnProgram compares calls with those that the
// program which the reference network comes from made of the same reads. That
// program approximates the exponential function, so that equality is out of reach.
func TestKlebsiellaMatchesTheNetworksOwnProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	expected := readFASTQ(t, testenv.Recordings(t, "reference-model/klebsiella-48.expected.fastq.gz"))
	reads := recorded(t, testenv.Recordings(t, "reference-model/klebsiella-48.blow5"), 5)
	c := newCaller(t, referenceModel(t, "deepnano-rnn64"), Config{})
	identities := make([]float64, len(reads))
	var calls sync.WaitGroup
	for i, read := range reads {
		calls.Go(func() {
			called, err := c.Call(t.Context(), read)
			if err != nil {
				t.Error(err)
				return
			}
			edits, columns := editDistance(string(called.Sequence), expected[read.ID])
			identities[i] = 1 - float64(edits)/float64(columns)
		})
	}
	calls.Wait()
	mean, worst := 0.0, 1.0
	for _, identity := range identities {
		mean += identity / float64(len(identities))
		worst = math.Min(worst, identity)
	}
	t.Logf("identity of %d reads: mean %.4f, worst %.4f", len(reads), mean, worst)
	assert.GreaterOrEqual(t, mean, 0.986)
	assert.GreaterOrEqual(t, worst, 0.97)
}
