package basecall

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/modelfile/calibration"
)

func TestWindowStarts(t *testing.T) {
	w := windowing{stride: 3, samples: 30, overlap: 12}
	tests := []struct {
		samples int
		phase   int
		starts  []int
	}{
		{0, 0, nil},
		{2, 0, nil},
		{3, 0, []int{0}},
		{30, 0, []int{0}},
		{32, 0, []int{0}}, // the last two samples are no frame
		{33, 0, []int{0, 3}},
		{48, 0, []int{0, 18}},
		{50, 0, []int{0, 18}},
		{51, 0, []int{0, 18, 21}},
		{66, 0, []int{0, 18, 36}},
		{30, 2, []int{0}},
		{33, 2, []int{0, 6}}, // in step with a network that says two frames at a time
		{36, 2, []int{0, 6}},
		{51, 2, []int{0, 18, 24}},
		{63, 2, []int{0, 18, 36}},
	}
	for _, test := range tests {
		w.phase = test.phase
		var starts []int
		for i := range w.count(test.samples) {
			starts = append(starts, w.start(i, test.samples))
		}
		assert.Equal(t, test.starts, starts, "%d samples, phase %d", test.samples, test.phase)
	}
}

// TestLastWindowIsAsLongAsNeeded: in units, and begins no earlier than that takes.
func TestLastWindowIsAsLongAsNeeded(t *testing.T) {
	tests := []struct {
		samples, count int
		start, length  int // of the last
		total          int
	}{
		{0, 0, 0, 0, 0},
		{3, 1, 0, 6, 6}, // repeated to a unit
		{8, 1, 0, 6, 6}, // the last two samples are no frame
		{9, 1, 0, 12, 12},
		{30, 1, 0, 30, 30},
		{33, 2, 15, 18, 48}, // 12 are shared, and to fill its units three more
		{36, 2, 18, 18, 48},
		{48, 2, 18, 30, 60},
		{51, 3, 33, 18, 78},
	}
	w := windowing{stride: 3, samples: 30, overlap: 12, unit: 6}
	for _, test := range tests {
		require.Equal(t, test.count, w.count(test.samples), "%d samples", test.samples)
		assert.Equal(t, test.total, w.total(test.samples), "%d samples", test.samples)
		if last := test.count - 1; last >= 0 {
			assert.Equal(t, test.start, w.start(last, test.samples), "%d samples", test.samples)
			assert.Equal(t, test.length, w.length(last, test.samples), "%d samples", test.samples)
		}
	}
	w.least = 20 // and two phases of three samples more than the others have that way: nine
	for _, test := range []struct{ samples, start, length int }{
		{9, 0, 12}, // there is no other to share with
		{33, 9, 24},
		{36, 6, 30},
		{45, 15, 30}, // as long as the others
		{48, 18, 30},
	} {
		last := w.count(test.samples) - 1
		assert.Equal(t, test.start, w.start(last, test.samples), "%d samples", test.samples)
		assert.Equal(t, test.length, w.length(last, test.samples), "%d samples", test.samples)
	}
	for _, unit := range []struct{ w, want int }{{7200, 432}, {3600, 216}, {36, 36}, {24, 36}} {
		assert.Equal(t, unit.want, windowing{stride: 6, samples: unit.w, phase: framesOfPhase}.unitOf())
	}
}

func TestWindowsCoverEveryFrame(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		stride := 1 + rng.IntN(8)
		w := windowing{stride: stride, samples: stride * (4 + rng.IntN(40))}
		w.overlap = 2 * stride * rng.IntN(w.samples/stride/4+1)
		w.phase = rng.IntN(7)
		phase := max(1, w.phase) * stride
		if rng.IntN(2) == 0 {
			w.unit = phase * (1 + rng.IntN(4))
			w.least = rng.IntN(w.samples)
		}
		samples := rng.IntN(5 * w.samples)
		end := 0
		for i := range w.count(samples) {
			start := w.start(i, samples)
			require.Zero(t, start%stride)
			before := end
			if i > 0 {
				require.Greater(t, start, w.start(i-1, samples))
				require.LessOrEqual(t, start+w.overlap, end, "windows share the overlap at least")
			}
			length := w.length(i, samples)
			require.LessOrEqual(t, length, w.samples)
			if i > 0 && length < w.samples && w.step()%phase == 0 {
				require.LessOrEqual(t, start+w.least, before, "a short window shares what it has to at least")
			}
			require.True(t, length == w.samples || i == w.count(samples)-1 && length%w.unit == 0)
			end = start + length
		}
		whole := samples / stride * stride
		if whole > w.samples {
			require.GreaterOrEqual(t, end, whole, "the last window ends with the read")
			require.Less(t, end, whole+phase)
			last := w.count(samples) - 1
			require.True(t, w.start(last, samples)%phase == 0 || w.start(last, samples) == last*w.step(),
				"only what a manifest asks for is out of phase")
		} else {
			require.Equal(t, min(1, whole), w.count(samples))
		}
	}
}

func TestPadRepeatsTheSignal(t *testing.T) {
	x := []float32{1, 2, 3, 9, 9, 9, 9, 9}
	pad(x, 3)
	assert.Equal(t, []float32{1, 2, 3, 1, 2, 3, 1, 2}, x)
	pad(x, 8)
	assert.Equal(t, []float32{1, 2, 3, 1, 2, 3, 1, 2}, x)
	one := []float32{5, 0, 0}
	pad(one, 1)
	assert.Equal(t, []float32{5, 5, 5}, one)
}

func basesAt(text string, frames ...int32) []base {
	bases := make([]base, len(frames))
	for i, f := range frames {
		bases[i] = base{frame: f, label: text[i], quality: byte(10 + i)}
	}
	return bases
}

func TestCut(t *testing.T) {
	tests := []struct {
		name        string
		left, right []base
		want        int
	}{
		{"nothing called", nil, nil, 48},
		{"the same everywhere", basesAt("ACGTACGT", 41, 43, 45, 47, 50, 53, 55, 58), basesAt("ACGTACGT", 41, 43, 45, 47, 50, 53, 55, 58), 48},
		{"too few on the left", basesAt("ACGTACGT", 45, 46, 47, 49, 51, 53, 55, 58), basesAt("ACGTACGT", 45, 46, 47, 49, 51, 53, 55, 58), 48},
		{"more of the same behind", basesAt("GGGTACGA", 41, 43, 47, 50, 52, 54, 56, 58), basesAt("CCCTACGA", 41, 43, 47, 50, 52, 54, 56, 58), 53},
		{"more of the same before", basesAt("TACGAGGG", 41, 42, 43, 44, 45, 49, 52, 57), basesAt("TACGACCC", 41, 42, 43, 44, 45, 49, 52, 57), 44},
		{"equally near: the earlier", basesAt("ACAGA", 44, 46, 48, 50, 52), basesAt("ACTGA", 44, 46, 47, 50, 52), 47},
		{"two frames apart", basesAt("ACG", 44, 47, 52), basesAt("ACG", 44, 49, 52), 47},
		{"three frames apart", basesAt("TACGT", 41, 43, 47, 52, 54), basesAt("TACGT", 41, 43, 50, 52, 54), 47},
		{"other base", basesAt("A", 51), basesAt("C", 51), 48},
		{"one base, after the aim", basesAt("A", 51), basesAt("A", 51), 48},
		{"one base, before the aim", basesAt("AC", 44, 46), basesAt("AG", 44, 46), 46},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.want, cut(test.left, test.right, 40, 64))
		})
	}
}

// joined joins what is called in the windows of a read.
func joined(w windowing, called [][]base, samples int) (sequence, qualities, moves []byte) {
	var j joiner
	for i, bases := range called {
		from := w.start(i, samples) / w.stride
		j.add(bases, from, min(w.frames(samples), from+w.samples/w.stride))
	}
	j.finish()
	return j.sequence, j.qualities, j.moves
}

// TestStitchRestoresARead cuts random calls into windows whose edges are wrong, as
// a network's are, and joins them again.
func TestStitchRestoresARead(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 500 {
		w := windowing{stride: 3, samples: 300, overlap: 60, phase: rng.IntN(7)}
		samples := rng.IntN(3000)
		frames := w.frames(samples)
		var truth []base
		for f := rng.IntN(4); f < frames; f += 1 + rng.IntN(3) {
			truth = append(truth, base{frame: int32(f), label: "ACGT"[rng.IntN(4)], quality: byte(1 + rng.IntN(50))})
		}
		called := make([][]base, w.count(samples))
		for i := range called {
			from := w.start(i, samples) / w.stride
			to := min(frames, from+w.samples/w.stride)
			called[i] = slices.Clone(framesBefore(framesFrom(truth, from), to))
			for k := range called[i] {
				b := &called[i][k]
				// The overlap is 20 frames at least, the middle half is right.
				if (i > 0 && int(b.frame) < from+5) || (i+1 < len(called) && int(b.frame) >= to-5) {
					b.label, b.quality = 'N', 0
				}
			}
		}
		sequence, qualities, moves := joined(w, called, samples)
		require.Len(t, moves, frames)
		require.Len(t, sequence, len(truth))
		k := 0
		for f, move := range moves {
			if move == 0 {
				continue
			}
			require.Equal(t, truth[k], base{int32(f), sequence[k], qualities[k]})
			k++
		}
		require.Equal(t, len(truth), k)
	}
}

func TestStitchCountsABaseOnce(t *testing.T) {
	// The windows place the C on different sides of the middle, frame 15: a cut
	// there would have it twice in the first case and not at all in the second.
	w := windowing{stride: 1, samples: 20, overlap: 10}
	for _, test := range []struct{ left, right []base }{
		{basesAt("ACG", 12, 14, 17), basesAt("ACG", 12, 16, 17)},
		{basesAt("ACG", 13, 16, 17), basesAt("ACG", 13, 14, 17)},
	} {
		sequence, _, _ := joined(w, [][]base{test.left, test.right}, 30)
		assert.Equal(t, "ACG", string(sequence))
	}
}

func TestDwells(t *testing.T) {
	moves := make([]byte, 400)
	for _, f := range []int{2, 3, 7} {
		moves[f] = 1
	}
	called := Called{Sequence: []byte("ACG"), Moves: moves}
	assert.Equal(t, []byte{1, 4, 255}, called.Dwells())
	assert.Empty(t, Called{}.Dwells())
}

func TestMeanQualityAveragesErrors(t *testing.T) {
	mean := func(start int, qualities ...byte) float64 {
		called := Called{Sequence: make([]byte, len(qualities)), Qualities: qualities}
		return called.meanQuality(start)
	}
	assert.Zero(t, mean(60))
	assert.InDelta(t, 20, mean(0, 20, 20, 20), 1e-9)
	assert.InDelta(t, 12.5964, mean(2, 10, 20), 1e-4) // error (0.1+0.01)/2
	assert.InDelta(t, 20, mean(1, 10, 20), 1e-9)
	fromEnd := Called{Sequence: make([]byte, 2), Qualities: []byte{20, 10}, FromEnd: true}
	assert.InDelta(t, 20, fromEnd.meanQuality(1), 1e-9)
}

func TestPhred(t *testing.T) {
	tests := []struct {
		p    float32
		of   QualityManifest
		want byte
	}{
		{0.9, QualityManifest{Scale: 1}, 10},
		{0.99, QualityManifest{Scale: 1}, 20},
		{0.99, QualityManifest{Scale: 1.1, Bias: -1.1}, 21},
		{1, QualityManifest{Scale: 1}, 50},
		{0, QualityManifest{Scale: 1}, 1},
		{0.5, QualityManifest{Scale: 1, Bias: -30}, 1},
		{0.99, QualityManifest{Scale: 1, Curve: calibration.Curve{{10, 8}, {30, 20}}}, 14},
		{1, QualityManifest{Scale: 1, Curve: calibration.Curve{{10, 8}, {30, 20}}}, 20},
		{0.99, QualityManifest{Scale: 1, Bias: -12, Curve: calibration.Curve{{10, 20}}}, 16},
		{0.99, QualityManifest{Scale: 1, Neighbours: 5, NeighbourShare: 0.5}, 20}, // it has none
	}
	for _, test := range tests {
		assert.Equal(t, []byte{test.want}, rated(&test.of, test.p), "%+v", test)
	}
}

// rated returns the qualities of bases of these probabilities.
func rated(m *QualityManifest, probabilities ...float32) []byte {
	bases := make([]base, len(probabilities))
	var raw []float64
	for _, p := range probabilities {
		raw = append(raw, rawQuality(p))
	}
	m.rate(bases, raw)
	qualities := make([]byte, len(bases))
	for i, b := range bases {
		qualities[i] = b.quality
	}
	return qualities
}

// TestDoubtSpreads: a base is worth less among bases in doubt, and more among sure ones.
func TestDoubtSpreads(t *testing.T) {
	tests := []struct {
		neighbours int
		share      float64
		p          []float32 // of qualities 30, 20 and 10: 0.999, 0.99, 0.9
		want       []byte
	}{
		{0, 0, []float32{0.999, 0.9, 0.99}, []byte{30, 10, 20}},
		{1, 0.5, []float32{0.999, 0.9, 0.99}, []byte{20, 18, 15}},                    // 30 and 10; 10 and 25; 20 and 10
		{2, 0.5, []float32{0.999, 0.9, 0.99}, []byte{23, 18, 20}},                    // 30 and 15; 10 and 25; 20 and 20
		{1, 0.2, []float32{0.999, 0.9, 0.9, 0.9, 0.999}, []byte{26, 12, 10, 12, 26}}, // 0.8 x 30 + 0.2 x 10; 0.8 x 10 + 0.2 x 20
		{5, 0.5, []float32{1, 0.9}, []byte{30, 30}},                                  // 50 at most, of neighbours and of itself
		{100, 0.9, []float32{0.99, 0.99, 0.99, 0.99, 0.99}, []byte{20, 20, 20, 20, 20}},
	}
	for _, test := range tests {
		m := &QualityManifest{Scale: 1, Neighbours: test.neighbours, NeighbourShare: test.share}
		assert.Equal(t, test.want, rated(m, test.p...), "%+v", test)
		assert.Equal(t, test.want, rated(m, test.p...), "again: %+v", test)
	}
}
