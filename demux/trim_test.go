package demux

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInside(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	insert := randomBases(rng, "ACGT", 600)
	const (
		adapter, rear = "CCTGTACTTCGTTCAGTTACGTATTGC", "AGCAATACGTAACTGAAC"
		rap           = "GTTTTCGCATTTATCGTGAAACGCTTTCGCGTTTTTCGTGCGCCGCTTCA"
		ssp, vnp      = "TTTCTGTTGGTGCTGATATTGCTTT", "ACTTGCCTGTCGCTCTATCTTCAGAGGAGAGTCCGCCGCCCGCAAGTTTT"
	)
	trimmer := NewTrimmer(Adapters(), Primers())
	none := Classification{Barcode: -1}
	for _, tt := range []struct{ name, before, after string }{
		{"nothing", "", ""},
		{"ligation", "GG" + adapter, rear + "AC"},
		{"with errors", "CTGTACTTCGTCAGTTACGAATTGC", "AGCAATACGTACTGAAC"},
		{"rapid", adapter + "T" + rap, ""},
		{"cDNA", adapter + "GGTGCTG" + ssp, reverseComplement(vnp) + rear},
		{"cDNA, other strand", vnp, reverseComplement(ssp)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := trimmer.Inside([]byte(tt.before+insert+tt.after), none)
			require.InDelta(t, len(tt.before), got.Start, 1)
			require.InDelta(t, len(tt.before)+len(insert), got.End, 1)
		})
	}
	// Adapters with nothing between stay whole, and so does an empty sequence.
	require.Equal(t, Interval{0, len(adapter)}, trimmer.Inside([]byte(adapter), none))
	require.Equal(t, Interval{}, trimmer.Inside(nil, none))

	kit, err := OpenKit("SQK-RBK004")
	require.NoError(t, err)
	barcoded := adapter + kit.Front.Outer + kit.Barcodes[4].Front + kit.Front.Inner
	read := []byte(barcoded + insert)
	found := NewClassifier(kit, false).Classify(read)
	require.Equal(t, 4, found.Barcode)
	require.Equal(t, Interval{len(barcoded), len(read)}, trimmer.Inside(read, found))
	var nothing *Trimmer
	require.Equal(t, Interval{len(barcoded), len(read)}, nothing.Inside(read, found), "barcodes alone")
}
