package finish

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/demux"
	"github.com/porestream/porestream/signal"
)

const stride = 4

// synthetic is a call of a sequence, six frames to a base, after some frames of nothing,
// and a current that goes with it.
func synthetic(sequence string) (basecall.Read, basecall.Called) {
	rng := rand.New(rand.NewPCG(1, uint64(len(sequence))))
	called := basecall.Called{Sequence: []byte(sequence), Stride: stride, TrimmedSamples: 6}
	called.Moves = make([]byte, 5, 5+6*len(sequence))
	for i := range sequence {
		called.Moves = append(called.Moves, 1, 0, 0, 0, 0, 0)
		called.Qualities = append(called.Qualities, byte(5+i%20))
	}
	called.NumSamples = called.TrimmedSamples + len(called.Moves)*stride + 2
	read := basecall.Read{ID: "parent", SampleRate: 4000, Calibration: signal.Calibration{Offset: 10, Scale: 0.2}}
	for range called.NumSamples {
		read.Samples = append(read.Samples, int16(440+rng.NormFloat64()*70))
	}
	return read, called
}

func bases(n int, seed uint64) string {
	rng := rand.New(rand.NewPCG(seed, 9))
	out := make([]byte, n)
	for i := range out {
		out[i] = "ACGT"[rng.IntN(4)]
	}
	return string(out)
}

// consistent checks what holds of every call.
func consistent(t *testing.T, called basecall.Called, samples int) {
	t.Helper()
	require.Equal(t, len(called.Sequence), bytes.Count(called.Moves, []byte{1}))
	require.Len(t, called.Qualities, len(called.Sequence))
	require.Equal(t, samples, called.NumSamples)
	require.GreaterOrEqual(t, called.TrimmedSamples, 0)
	require.LessOrEqual(t, called.TrimmedSamples+len(called.Moves)*called.Stride, called.NumSamples)
}

func TestTrim(t *testing.T) {
	kit, err := demux.OpenKit("SQK-RBK004")
	require.NoError(t, err)
	insert := bases(500, 1)
	before := "CCTGTACTTCGTTCAGTTACGTATTGC" + kit.Front.Outer + kit.Barcodes[2].Front + kit.Front.Inner
	read, called := synthetic(before + insert)
	for _, tt := range []struct {
		trim Trim
		kept string
	}{
		// The flank inside the barcode is RAP T, which is a primer too.
		{TrimNone, before + insert}, {TrimAdapters, insert}, {TrimAll, insert},
	} {
		f, err := New(Options{Kit: &kit, Trim: tt.trim}, basecall.QualityManifest{})
		require.NoError(t, err)
		parts := f.Finish(read, called)
		require.Equal(t, 1, len(parts)) //nolint:testifylint // Len prints the parts
		got := parts[0]
		require.Equal(t, tt.kept, string(got.Called.Sequence))
		require.Equal(t, 2, got.Barcode.Barcode)
		require.Equal(t, "parent", got.ID)
		consistent(t, got.Called, called.NumSamples)
		if tt.trim != TrimNone {
			require.Equal(t, called.TrimmedSamples+(5+6*len(before))*stride, got.Called.TrimmedSamples)
			require.Equal(t, byte(1), got.Called.Moves[0])
		}
		b := f.Barcode(new(signal.Run), got.Barcode)
		require.Equal(t, "SQK-RBK004_barcode03", b.Name)
		require.Equal(t, []float32{1, 27, 117, 1, -1, -1, -1}, b.Info)
	}
}

func TestSplit(t *testing.T) {
	first, second := bases(700, 2), bases(900, 3)
	f, err := New(Options{Split: true}, basecall.QualityManifest{})
	require.NoError(t, err)

	t.Run("whole", func(t *testing.T) {
		read, called := synthetic(first + second)
		parts := f.Finish(read, called)
		require.Equal(t, 1, len(parts)) //nolint:testifylint // Len prints the parts
		require.Equal(t, called.Sequence, parts[0].Called.Sequence)
		require.Empty(t, parts[0].Parent)
	})
	t.Run("open pore", func(t *testing.T) {
		read, called := synthetic(first + second)
		from, to := 12_000, 12_060
		for i := from; i < to; i++ {
			read.Samples[i] = 1050 // 212 pA
		}
		parts := f.Finish(read, called)
		require.Equal(t, 2, len(parts)) //nolint:testifylint // Len prints the parts
		for i, want := range []struct {
			start, samples int
		}{{0, from}, {to, called.NumSamples - to}} {
			got := parts[i]
			require.Equal(t, "parent", got.Parent)
			require.InDelta(t, want.start, got.Start, 2)
			consistent(t, got.Called, got.Called.NumSamples)
			require.InDelta(t, want.samples, got.Called.NumSamples, 2)
			require.Equal(t, demux.ChildID("parent", got.Start), got.ID)
			// Where a base is in the parent's signal stays what it was.
			base := strings.Index(string(called.Sequence), string(got.Called.Sequence))
			require.GreaterOrEqual(t, base, 0)
			require.Equal(t, called.BaseStart(base), got.Start+got.Called.BaseStart(0))
		}
		require.NotEqual(t, parts[0].ID, parts[1].ID)
		require.InDelta(t, len(first)+len(second), len(parts[0].Called.Sequence)+len(parts[1].Called.Sequence), 5)
	})
	t.Run("adapter", func(t *testing.T) {
		adapter := "CCTGTACTTCGTTCAGTTACGTATTGC"
		read, called := synthetic(first + adapter + second + adapter + first)
		parts := f.Finish(read, called)
		require.Equal(t, 3, len(parts)) //nolint:testifylint // Len prints the parts
		require.Equal(t, first, string(parts[0].Called.Sequence))
		require.Equal(t, adapter+second, string(parts[1].Called.Sequence))
		require.Equal(t, adapter+first, string(parts[2].Called.Sequence))
		end := 0
		for _, p := range parts {
			require.Equal(t, end, p.Start)
			end += p.Called.NumSamples
			consistent(t, p.Called, p.Called.NumSamples)
		}
		require.Equal(t, called.NumSamples, end)
	})
}

// TestPartsTile: wherever a call is cut in two, its parts hold its bases and no other,
// each at the samples where it was.
func TestPartsTile(t *testing.T) {
	t.Run("DNA", func(t *testing.T) {
		_, called := synthetic(bases(50, 4))
		partsTile(t, called)
	})
	// As RNA, the last base passes first: what is left of a cut in the signal is right
	// of it in the sequence.
	t.Run("RNA", func(t *testing.T) {
		_, called := synthetic(bases(50, 4))
		_, dna := synthetic(string(called.Sequence))
		rna := dna
		rna.FromEnd = true
		rna.Sequence, rna.Qualities = slices.Clone(dna.Sequence), slices.Clone(dna.Qualities)
		slices.Reverse(rna.Sequence)
		slices.Reverse(rna.Qualities)
		mirrored := func(c basecall.Called) basecall.Called {
			c.FromEnd = false
			c.Sequence, c.Qualities = slices.Clone(c.Sequence), slices.Clone(c.Qualities)
			slices.Reverse(c.Sequence)
			slices.Reverse(c.Qualities)
			return c
		}
		rounded := func(c basecall.Called) basecall.Called { // sums in another order
			c.MeanQuality = math.Round(c.MeanQuality*1e9) / 1e9
			return c
		}
		manifest := basecall.QualityManifest{MeanStart: 20}
		for at := range dna.NumSamples + 1 {
			require.Equal(t, rounded(dna.Part(0, at, manifest)), rounded(mirrored(rna.Part(0, at, manifest))))
			require.Equal(t, rounded(dna.Part(at, dna.NumSamples, manifest)), rounded(mirrored(rna.Part(at, dna.NumSamples, manifest))))
			require.Equal(t, dna.BasesBefore(at), rna.BasesBefore(at))
		}
		for from := range 50 {
			require.Equal(t, dna.BaseStart(from), rna.BaseStart(49-from))
			for to := from; to <= 50; to++ {
				require.Equal(t, rounded(dna.Slice(from, to, manifest)), rounded(mirrored(rna.Slice(50-to, 50-from, manifest))))
			}
		}
		dwells := rna.Dwells()
		slices.Reverse(dwells)
		require.Equal(t, dna.Dwells(), dwells)
	})
}

func partsTile(t *testing.T, called basecall.Called) {
	for at := range called.NumSamples + 1 {
		left, right := called.Part(0, at, basecall.QualityManifest{}), called.Part(at, called.NumSamples, basecall.QualityManifest{})
		consistent(t, left, at)
		consistent(t, right, called.NumSamples-at)
		require.True(t, strings.HasPrefix(string(called.Sequence), string(left.Sequence)))
		require.True(t, strings.HasSuffix(string(called.Sequence), string(right.Sequence)))
		require.GreaterOrEqual(t, len(left.Sequence)+len(right.Sequence), len(called.Sequence)-1, "a base whose frame is cut is lost")
		if n := len(called.Sequence) - len(right.Sequence); len(right.Sequence) > 0 {
			require.Equal(t, called.BaseStart(n), at+right.BaseStart(0))
		}
	}
	for from := range 50 {
		for to := from; to <= 50; to++ {
			cut := called.Slice(from, to, basecall.QualityManifest{})
			consistent(t, cut, called.NumSamples)
			require.Equal(t, called.Sequence[from:to], cut.Sequence)
			if from < to {
				require.Equal(t, called.BaseStart(from), cut.BaseStart(0))
			}
			require.False(t, math.IsNaN(cut.MeanQuality))
		}
	}
	for n := range 50 {
		require.Equal(t, n, called.BasesBefore(called.BaseStart(n)))
	}
}

func TestRNAAdapter(t *testing.T) {
	read, called := synthetic(bases(3000, 5))
	called.FromEnd = true
	for i := range read.Samples {
		switch {
		case i < 2500: // adapter, 55 pA
			read.Samples[i] -= 175
		case i < 4000: // tail, 85 pA
			read.Samples[i] = 415
		}
	}
	for _, tt := range []struct {
		trim Trim
		cut  bool
	}{{TrimNone, false}, {TrimAdapters, true}, {TrimAll, true}} {
		f, err := New(Options{RNA: true, Trim: tt.trim}, basecall.QualityManifest{})
		require.NoError(t, err)
		parts := f.Finish(read, called)
		require.Equal(t, 1, len(parts)) //nolint:testifylint // Len prints the parts
		got := parts[0].Called
		consistent(t, got, called.NumSamples)
		if !tt.cut {
			require.Equal(t, called, got)
			continue
		}
		require.True(t, strings.HasPrefix(string(called.Sequence), string(got.Sequence)), "the adapter is at the 3' end")
		require.InDelta(t, 2500, got.TrimmedSamples, 50)
	}
	kit, err := demux.OpenKit("SQK-RBK004")
	require.NoError(t, err)
	_, err = New(Options{RNA: true, Kit: &kit}, basecall.QualityManifest{})
	require.ErrorContains(t, err, "kit SQK-RBK004 is for DNA, but the model is for RNA")
}

func TestNewRefuses(t *testing.T) {
	rapid, err := demux.OpenKit("SQK-RBK114-24")
	require.NoError(t, err)
	_, err = New(Options{Kit: &rapid, BothEnds: true}, basecall.QualityManifest{})
	require.ErrorContains(t, err, "kit SQK-RBK114-24 has barcodes at one end only")
	sheet := func(kit, barcode string) *demux.Sheet {
		s, err := demux.ParseSheet(strings.NewReader("kit,experiment_id,flow_cell_id,barcode,alias\n" + kit + ",e,F," + barcode + ",patient-1\n"))
		require.NoError(t, err)
		return s
	}
	_, err = New(Options{Kit: &rapid, Sheet: sheet("SQK-NBD114-24", "barcode01")}, basecall.QualityManifest{})
	require.ErrorContains(t, err, "line 2: kit SQK-NBD114-24 is not SQK-RBK114-24")
	_, err = New(Options{Kit: &rapid, Sheet: sheet("SQK-RBK114-24", "barcode30")}, basecall.QualityManifest{})
	require.ErrorContains(t, err, "barcode30 is not a barcode of kit SQK-RBK114-24")
	f, err := New(Options{Kit: &rapid, Sheet: sheet("SQK-RBK114-24", "barcode07")}, basecall.QualityManifest{})
	require.NoError(t, err)
	run := &signal.Run{FlowCellID: "F"}
	list := f.Barcodes(run)
	require.Len(t, list, 1)
	require.Equal(t, "patient-1", list[0].Name)
	require.Equal(t, "patient-1", list[0].Alias)
	require.Equal(t, "SQK-RBK114-24_barcode07", f.Barcodes(&signal.Run{FlowCellID: "G"})[0].Name)
}

// TestDualSamples: a pair of barcodes says whose a read is.
func TestDualSamples(t *testing.T) {
	kit, err := demux.OpenKit("SQK-NBD114-24")
	require.NoError(t, err)
	inner, err := demux.OpenKit("EXP-PBC001")
	require.NoError(t, err)
	kit.Inner = &inner
	sheet, err := demux.ParseSheet(strings.NewReader("kit,experiment_id,flow_cell_id,external_barcode,internal_barcode,alias\n" +
		"SQK-NBD114-24 EXP-PBC001,e,F,barcode01,barcode02,patient-1\nSQK-NBD114-24 EXP-PBC001,e,F,barcode02,barcode01,\n"))
	require.NoError(t, err)
	insert := bases(500, 11)
	read, called := synthetic(kit.Front.Outer + kit.Barcodes[0].Front + kit.Front.Inner + inner.Front.Outer + inner.Barcodes[1].Front + inner.Front.Inner + insert)
	f, err := New(Options{Kit: &kit, Trim: TrimAll, Sheet: sheet}, basecall.QualityManifest{})
	require.NoError(t, err)
	require.Equal(t, 2, f.Count())
	run := &signal.Run{FlowCellID: "F"}
	samples, listed := f.Samples(run, "s")
	require.True(t, listed)
	require.Equal(t, []string{"patient-1", "s_barcode02_01"}, samples)
	part := f.Finish(read, called)[0]
	require.Equal(t, "patient-1", f.Sample(run, "s", part.Barcode))
	require.Equal(t, insert, string(part.Called.Sequence))
	consistent(t, part.Called, called.NumSamples)
	barcode := f.Barcode(run, part.Barcode)
	require.Equal(t, "patient-1", barcode.Name)
	require.Len(t, barcode.Info, 14)
	require.Empty(t, barcode.Reason)

	outer, plain := synthetic(kit.Front.Outer + kit.Barcodes[0].Front + kit.Front.Inner + insert)
	part = f.Finish(outer, plain)[0]
	require.Empty(t, f.Sample(run, "s", part.Barcode))
	require.Equal(t, "no_inner_barcode", f.Barcode(run, part.Barcode).Reason)
	require.Equal(t, plain.Sequence, part.Called.Sequence)

	all, err := New(Options{Kit: &kit}, basecall.QualityManifest{})
	require.NoError(t, err)
	require.Equal(t, 24*12, all.Count())
	rapid, err := demux.OpenKit("SQK-RBK004")
	require.NoError(t, err)
	kit.Inner = &rapid
	_, err = New(Options{Kit: &kit, BothEnds: true}, basecall.QualityManifest{})
	require.ErrorContains(t, err, "kit SQK-RBK004 has barcodes at one end only")
}

// TestStart: a read begins behind its first high current, whatever adapters it has; of parts of a read the first one alone.
func TestStart(t *testing.T) {
	read, called := synthetic(bases(3000, 6))
	called.Shift, called.Scale = 440, 70
	for i := range read.Samples {
		read.Samples[i] = 440
		if i >= 100 && i < 500 {
			read.Samples[i] = 900
		}
	}
	start := func(opts Options) Read {
		f, err := New(opts, basecall.QualityManifest{})
		require.NoError(t, err)
		parts := f.Finish(read, called)
		require.Equal(t, 1, len(parts)) //nolint:testifylint // Len prints the parts
		consistent(t, parts[0].Called, called.NumSamples)
		require.Equal(t, string(called.Sequence[parts[0].From:]), string(parts[0].Called.Sequence))
		return parts[0]
	}
	require.Equal(t, 0, start(Options{}).From)
	// Sample 530 is the first one of a window behind the high current: bases begin every 24 samples.
	found := start(Options{Start: true})
	require.Equal(t, called.BasesBefore(530), found.From)
	require.InDelta(t, 530, found.Called.TrimmedSamples, 24)
	require.GreaterOrEqual(t, found.Called.TrimmedSamples, 530)
	require.Equal(t, called.BasesBefore(10), start(Options{Start: true, Standard: true}).From)

	f, err := New(Options{Start: true}, basecall.QualityManifest{})
	require.NoError(t, err)
	behind := Read{Start: 200, Called: called.Part(200, called.NumSamples, basecall.QualityManifest{})}
	require.Zero(t, f.begin(&behind, read), "where the read was split is where the part begins")

	_, err = New(Options{Start: true, RNA: true}, basecall.QualityManifest{})
	require.ErrorContains(t, err, "the start of reads is found by signal for DNA")
}

// TestNothingIsLeft: of a read that is cut off as a whole neither bases nor frames are left, whichever end passes first, and
// all of its samples are trimmed but for those that no frame has.
func TestNothingIsLeft(t *testing.T) {
	_, called := synthetic(bases(50, 7))
	for _, called.FromEnd = range []bool{false, true} {
		for _, at := range []int{0, 20, 50} {
			left := called.Slice(at, at, basecall.QualityManifest{})
			require.Empty(t, left.Sequence)
			consistent(t, left, called.NumSamples)
		}
	}
	called.FromEnd = false
	require.Equal(t, called.NumSamples-2, called.Slice(50, 50, basecall.QualityManifest{}).TrimmedSamples)
}
