package stream

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/stream/streampb"
)

// packedRead is a called read of random bases, of which a share are no base.
func packedRead(n int, unknown float64, highest byte, seed uint64) (seq, qualities, dwells []byte) {
	rng := rand.New(rand.NewPCG(seed, 7))
	seq, qualities, dwells = make([]byte, n), make([]byte, n), make([]byte, n)
	for i := range seq {
		seq[i] = "ACGT"[rng.IntN(4)]
		if rng.Float64() < unknown {
			seq[i] = 'N'
		}
		qualities[i] = byte(rng.IntN(int(highest) + 1))
		dwells[i] = byte(1 + min(254, int(rng.ExpFloat64()*8)))
	}
	return seq, qualities, dwells
}

// TestPackedReadsComeBack: what was packed comes back, whatever it is.
func TestPackedReadsComeBack(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := 1 + rng.IntN(300)
		seq, qualities, dwells := packedRead(n, []float64{0, 0.02, 0.5, 1}[seed%4], []byte{0, 1, 31, 50, 63, 93, 127}[seed%7], seed)
		if seed%5 == 0 {
			qualities = nil
		}
		if seed%3 == 0 {
			dwells = nil
		}
		r := &streampb.CalledRead{Run: "r", ReadId: "a"}
		PackCalled(r, seq, qualities, dwells)
		value, err := EncodeCalled(&streampb.CalledRecord{Body: &streampb.CalledRecord_Read{Read: r}})
		require.NoError(t, err)
		back, err := DecodeCalled(value)
		require.NoError(t, err)
		s, q, d, err := UnpackCalled(back.GetRead())
		require.NoError(t, err)
		require.Equal(t, string(seq), string(s))
		require.True(t, bytes.Equal(qualities, q))
		require.True(t, bytes.Equal(dwells, d))
	}
}

// TestLettersOfCalledReads: letters count in either case, U as T, and others as N.
func TestLettersOfCalledReads(t *testing.T) {
	r := new(streampb.CalledRead)
	PackCalled(r, []byte("acgtuACGTUNnRy-"), nil, nil)
	seq, qualities, dwells, err := UnpackCalled(r)
	require.NoError(t, err)
	assert.Equal(t, "ACGTTACGTTNNNNN", string(seq))
	assert.Nil(t, qualities)
	assert.Nil(t, dwells)
}

// TestSizeOfCalledReads: a read as Dorado calls it takes at most 1.1 bytes a base in its
// record, and half a byte more with dwells.
func TestSizeOfCalledReads(t *testing.T) {
	const n = 5000
	seq, qualities, dwells := packedRead(n, 0.0001, 50, 3)
	for _, c := range []struct {
		dwells []byte
		most   float64
	}{{nil, 1.1}, {dwells, 1.8}} {
		r := proto.CloneOf(sampleCalled())
		r.Modified, r.ModifiedProbabilities = "", nil
		PackCalled(r, seq, qualities, c.dwells)
		value, err := EncodeCalled(&streampb.CalledRecord{Body: &streampb.CalledRecord_Read{Read: r}})
		require.NoError(t, err)
		assert.LessOrEqual(t, float64(len(value))/n, c.most)
	}
}

// TestLongReadsGoWithoutWhatIsLeastNeeded: sequence always fits, up to the limit.
func TestLongReadsGoWithoutWhatIsLeastNeeded(t *testing.T) {
	for _, c := range []struct {
		bases int
		left  string
	}{
		{500_000, ""}, {700_000, "dwells"}, {1_100_000, "dwells,qualities"}, {3_900_000, "dwells,qualities"},
	} {
		r := &streampb.CalledRead{Run: "r", ReadId: "a"}
		PackCalled(r, bytes.Repeat([]byte("ACGTA"), c.bases/5), bytes.Repeat([]byte{40}, c.bases), bytes.Repeat([]byte{9}, c.bases))
		value, left, err := FitCalled(r)
		require.NoError(t, err, "%d bases", c.bases)
		assert.Equal(t, c.left, strings.Join(left, ","))
		m, err := DecodeCalled(value)
		require.NoError(t, err)
		seq, _, _, err := UnpackCalled(m.GetRead())
		require.NoError(t, err)
		require.Len(t, seq, c.bases)
	}
	r := &streampb.CalledRead{Run: "r", ReadId: "a"}
	PackCalled(r, make([]byte, MaxCalledBases+1), nil, nil)
	_, _, err := FitCalled(r)
	require.ErrorContains(t, err, "of 3934465 bases: 1 to 3934464 are possible")
}

// TestContradictionsOfCalledReads: what its numbers don't fit is refused.
func TestContradictionsOfCalledReads(t *testing.T) {
	for name, spoil := range map[string]func(r *streampb.CalledRead){
		"no bases":                 func(r *streampb.CalledRead) { r.Bases = 0 },
		"more bases than sequence": func(r *streampb.CalledRead) { r.Bases += 9 },
		"qualities too short":      func(r *streampb.CalledRead) { r.Qualities = r.GetQualities()[1:] },
		"eight bits":               func(r *streampb.CalledRead) { r.QualityBits, r.Qualities = 8, make([]byte, 9) },
		"no run":                   func(r *streampb.CalledRead) { r.Run = "" },
		"no id":                    func(r *streampb.CalledRead) { r.ReadId = "" },
		"negative quality":         func(r *streampb.CalledRead) { r.MeanQuality = -1 },
		"dwells too long":          func(r *streampb.CalledRead) { r.Dwells = append(slices.Clone(r.GetDwells()), 1, 1) },
		"dwells too short":         func(r *streampb.CalledRead) { r.Dwells = r.GetDwells()[:3] },
		"N behind the end":         func(r *streampb.CalledRead) { r.Unknown = []byte{8, 2} },
		"half a stretch of N":      func(r *streampb.CalledRead) { r.Unknown = []byte{1} },
		"no stretch of N":          func(r *streampb.CalledRead) { r.Unknown = []byte{1, 0} },
	} {
		r := sampleCalled()
		spoil(r)
		err := validCalledRead(r)
		if err == nil {
			_, _, _, err = UnpackCalled(r)
		}
		require.Error(t, err, name)
		assert.True(t, IsBadRecord(err), name)
	}
}

func FuzzUnpackCalled(f *testing.F) {
	r := sampleCalled()
	f.Add(r.GetBases(), r.GetSequence(), r.GetUnknown(), r.GetQualityBits(), r.GetQualities(), r.GetDwells())
	f.Fuzz(func(t *testing.T, bases uint32, sequence, unknown []byte, qualityBits uint32, qualities, dwells []byte) {
		r := &streampb.CalledRead{
			Run: "r", ReadId: "a", Bases: bases, Sequence: sequence, Unknown: unknown, QualityBits: qualityBits, Qualities: qualities, Dwells: dwells,
		}
		if validCalledRead(r) != nil {
			return
		}
		seq, q, d, err := UnpackCalled(r)
		if err != nil {
			return
		}
		back := new(streampb.CalledRead)
		PackCalled(back, seq, q, d)
		s2, q2, d2, err := UnpackCalled(back)
		if err != nil || !bytes.Equal(seq, s2) || !bytes.Equal(q, q2) || !bytes.Equal(d, d2) {
			t.Errorf("packed again, %q reads %q (%v)", seq, s2, err)
		}
	})
}
