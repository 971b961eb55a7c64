package pileup

import (
	"bytes"
	"testing"

	"github.com/biogo/hts/sam"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/modbase"
)

// alignedRead is a read of ten bases at 100 with two C and a deletion, and its tags.
func alignedRead(t testing.TB) (Aligned, *modbase.Tags) {
	tags, err := modbase.Parse("C+hm?,0,0;G-m.,0;", []byte{10, 200, 100, 20, 250}, 10)
	require.NoError(t, err)
	return Aligned{Start: 100, Cigar: sam.Cigar{
		sam.NewCigarOp(sam.CigarSoftClipped, 1), sam.NewCigarOp(sam.CigarMatch, 4), sam.NewCigarOp(sam.CigarDeletion, 2), sam.NewCigarOp(sam.CigarMatch, 5),
	}, Bases: []byte("TACGTAGCAT")}, tags
}

// operations packs lengths, each with a kind behind it.
func operations(of ...byte) (ops []byte) {
	for i := 0; i < len(of); i += 2 {
		ops = append(ops, of[i]<<3|of[i+1])
	}
	return ops
}

// alignedSegment is where that read lies, on a reference that differs in one base.
var alignedSegment = Segment{
	Start: 100, End: 111, Contig: append(bytes.Repeat([]byte("N"), 100), "ATGTCCAGCAT"...), Bases: []byte("C"),
	Ops: operations(1, opMatch, 1, opMismatch, 2, opMatch, 2, opDeletion, 5, opMatch),
}

// TestPack: the bytes are as stream/FORMAT.md has them, and the stretches of a read have together what the whole has.
func TestPack(t *testing.T) {
	a, tags := alignedRead(t)
	packed, unlisted, err := new(Calls).Pack(a, tags, []Span{{100, 100, 111}, {100, 100, 104}, {104, 104, 111}})
	require.NoError(t, err)
	require.Empty(t, unlisted)
	head := []byte{
		2, 'C', 0xd0, 0x01, 'C', 0xda, 0x01, // kinds, h and m
		2, 2, // C is unmodified somewhere; calls
		1, 0xde, 0x02, // at 101: (517-401)*3+2, m
	}
	require.Equal(t, head, packed[0][:len(head)])
	var whole, parts Counter
	require.NoError(t, whole.Count(packed[0], Span{100, 100, 111}, 1))
	require.NoError(t, parts.Count(packed[1], Span{100, 100, 104}, 1))
	require.NoError(t, parts.Count(packed[2], Span{104, 104, 111}, 1))
	require.Equal(t, whole.Histogram, parts.Histogram)
	require.Equal(t, int64(1), whole.Histogram[1][401])
	var calls int64
	for _, n := range whole.Histogram[1] {
		calls += n
	}
	require.ErrorIs(t, parts.Count(packed[2][1:], Span{104, 104, 111}, 1), errPacked)
	require.Equal(t, whole.Histogram, parts.Histogram, "nothing of what is damaged counts")
	require.NoError(t, parts.Count(packed[0], Span{100, 100, 111}, -1))
	require.Zero(t, parts.Histogram)
	r, err := Unpack(alignedSegment, packed[0], Span{100, 100, 111}, &Thresholds{0, 400, 0, 0})
	require.NoError(t, err)
	require.Equal(t, calls, int64(len(r.own)+len(r.opposite)))
	require.Equal(t, mark{at: 101, p: 401, what: modified + 1, base: 1}, r.own[0])
	require.Equal(t, uint8(failed), r.own[1].what)
	var shown []byte
	for at := range int32(11) {
		if 100+at >= r.ref {
			r.walk(100 + at)
		}
		if r.gone {
			shown = append(shown, '-')
		} else {
			shown = append(shown, bases[r.base(100+at)])
		}
	}
	require.Equal(t, "ACGT--AGCAT", string(shown))

	tags.Length = 9
	_, _, err = new(Calls).Pack(a, tags, nil)
	require.ErrorIs(t, err, modbase.ErrLength)
	nothing, err := modbase.Parse("", nil, 0)
	require.NoError(t, err)
	packed, _, err = new(Calls).Pack(a, nothing, []Span{{100, 100, 111}})
	require.NoError(t, err)
	require.Empty(t, packed[0])
}

// FuzzUnpack: whatever the bytes are, they are refused by both readers or by none, and calls lie in the stretch, ascending.
func FuzzUnpack(f *testing.F) {
	a, tags := alignedRead(f)
	packed, _, err := new(Calls).Pack(a, tags, []Span{{100, 100, 111}})
	require.NoError(f, err)
	f.Add(packed[0])
	f.Add([]byte{0, 0, 0, 0, 0, 0})
	f.Add(bytes.Repeat([]byte{255}, 20))
	f.Fuzz(func(t *testing.T, packed []byte) {
		span := Span{100, 100, 111}
		r, err := Unpack(alignedSegment, packed, span, &Thresholds{})
		var h Counter
		require.Equal(t, err != nil, h.Count(packed, span, 1) != nil)
		if err != nil {
			return
		}
		for strand := range r.kinds {
			last := int32(span.Start) - 1
			for _, m := range *r.marks(strand) {
				require.True(t, m.at > last && int(m.at) < span.End && m.p <= most && m.base < 4)
				require.True(t, m.what == canonical || int(m.what)-modified < len(r.kinds[strand]))
				last = m.at
			}
		}
	})
}
