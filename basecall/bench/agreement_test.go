package bench

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agnivade/levenshtein"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/signal"
)

func TestAlign(t *testing.T) {
	for _, test := range []struct {
		a, b           string
		edits, columns int
	}{
		{"", "", 0, 0},
		{"ACGT", "ACGT", 0, 4},
		{"ACGT", "", 4, 4},
		{"", "ACG", 3, 3},
		{"A", "C", 1, 1},
		{"ACCTACGT", "ACGTACGT", 1, 8},
		{"ACGACGT", "ACGTACGT", 1, 8},
		{"ACGTACGT", "ACGTACGTTTT", 3, 11},
		{"TTTACGTACGT", "ACGTACGT", 3, 11},
		{"AAAA", "CCCC", 4, 4},
	} {
		edits, columns := align([]byte(test.a), []byte(test.b), mostEdits)
		assert.Equal(t, test.edits, edits, "%s %s", test.a, test.b)
		assert.Equal(t, test.columns, columns, "%s %s", test.a, test.b)
	}
}

// TestAlignIsEditDistance compares with another implementation.
func TestAlignIsEditDistance(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 7))
	for range 500 {
		a := make([]byte, rng.IntN(40))
		for i := range a {
			a[i] = "ACGT"[rng.IntN(4)]
		}
		var b []byte
		for _, base := range a {
			switch rng.IntN(8) {
			case 0:
			case 1:
				b = append(b, base, "ACGT"[rng.IntN(4)])
			case 2:
				b = append(b, "ACGT"[rng.IntN(4)])
			default:
				b = append(b, base)
			}
		}
		edits, columns := align(a, b, mostEdits)
		require.Equal(t, levenshtein.ComputeDistance(string(a), string(b)), edits, "%s %s", a, b)
		require.GreaterOrEqual(t, columns, max(len(a), len(b)))
		require.LessOrEqual(t, columns, max(len(a), len(b))+edits)
		back, _ := align(b, a, mostEdits)
		require.Equal(t, edits, back)
	}
}

func TestAlignGivesUp(t *testing.T) {
	a, b := []byte(strings.Repeat("A", 70)), []byte(strings.Repeat("A", 30)+strings.Repeat("C", 30))
	for limit, want := range map[int]int{39: 70, 40: 40, 1000: 40} {
		edits, columns := align(a, b, limit)
		assert.Equal(t, want, edits)
		assert.Equal(t, 70, columns)
	}
}

func TestCompareSequences(t *testing.T) {
	reads := []basecall.Read{{ID: "same"}, {ID: "empty"}, {ID: "other"}}
	want := [][]byte{[]byte("ACGTACGTAC"), nil, []byte("ACGTACGTAC")}
	have := [][]byte{[]byte("ACGTACGTAC"), nil, []byte("ACGTTCGTACG")}
	assert.Equal(t, Agreement{Reads: 3, Identical: 2, Edits: 2, Columns: 21, Identity: 1 - 2.0/21, Different: []string{"other"}}, compareSequences(reads, want, have))
	assert.Equal(t, Agreement{Reads: 1, Identical: 1, Identity: 1}, compareSequences(reads[1:2], want[1:2], have[1:2]))
}

// TestOtherPrecisionsCallTheSame compares half precision and whole numbers with single precision on
// the beginnings of some real reads. The bounds on whole recordings, 99.9, 99.7 and 98 %, are pore bench
// agreement's; of so few columns an edit more is 0.02 %.
func TestOtherPrecisionsCallTheSame(t *testing.T) {
	model := open(t)
	recording, err := signal.NewIndex(t.Context(), []string{filepath.Join("..", "..", "testdata", "lambda", "reads.pod5")})
	require.NoError(t, err)
	defer recording.Close()
	var reads []basecall.Read
	for i := range 3 {
		samples, err := recording.Samples(i, nil)
		require.NoError(t, err)
		entry := recording.Entry(i)
		samples = samples[:min(len(samples), 40_000)]
		reads = append(reads, basecall.Read{ID: entry.ID, Samples: samples, SampleRate: entry.Run.SampleRate, Calibration: entry.Calibration})
	}
	all, err := CompareCalls(t.Context(), model, basecall.Config{Device: "cpu", Batch: 8}, reads)
	require.NoError(t, err)
	require.Len(t, all, 3)
	for i, want := range []struct {
		precision, scores string
		least             float64
	}{{"fp32", "int8", 0.996}, {"fp16", "fp32", 0.998}, {"int8", "fp32", 0.97}} {
		assert.Equal(t, "cpu", all[i].Device)
		assert.Equal(t, want.precision, all[i].Precision)
		assert.Equal(t, want.scores, all[i].Scores)
		assert.Equal(t, 3, all[i].Reads)
		assert.Greater(t, all[i].Columns, int64(1000))
		assert.GreaterOrEqual(t, all[i].Identity, want.least, want.precision)
	}

	single := *model
	single.Half = nil
	all, err = CompareCalls(t.Context(), &single, basecall.Config{Device: "cpu"}, someReads(100))
	require.NoError(t, err)
	require.Len(t, all, 2)
	assert.Equal(t, "int8", all[1].Precision)
	_, err = CompareCalls(t.Context(), model, basecall.Config{}, nil)
	require.Error(t, err)
}
