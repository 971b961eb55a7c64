package demux

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBarcodesOfAKitAreUnlike opens every kit and checks what no table may have: two barcodes of a kit that
// are nearly alike, or one that is unlike what its name says.
func TestBarcodesOfAKitAreUnlike(t *testing.T) {
	names := KitNames()
	require.Greater(t, len(names), 30)
	for _, name := range names {
		kit, err := OpenKit(name)
		require.NoError(t, err, name)
		require.Equal(t, name, kit.Name)
		for i, a := range kit.Barcodes {
			require.Len(t, a.Front, 24, "%s %s", name, a.Name)
			for _, b := range kit.Barcodes[:i] {
				distance, _ := newPattern(a.Front).infix([]byte(b.Front))
				require.GreaterOrEqual(t, distance, 6, "%s: %s and %s", name, a.Name, b.Name)
			}
		}
	}
	rapid, err := OpenKit("sqk-rbk114.96")
	require.NoError(t, err)
	require.Equal(t, "SQK-RBK114-96", rapid.Name)
	require.Equal(t, Barcode{"barcode26", "ACTATGCCTTTCCGTGAAACAGTT", "ACTATGCCTTTCCGTGAAACAGTT"}, rapid.Barcodes[25])
	require.Equal(t, 12, rapid.Scoring.MaxBarcodePenalty)
	require.Equal(t, 175, rapid.Scoring.FrontBarcodeWindow)
	require.False(t, rapid.AtRear)
	native, err := OpenKit("EXP-NBD114")
	require.NoError(t, err)
	require.Len(t, native.Barcodes, 12)
	require.Equal(t, "barcode13", native.Barcodes[0].Name)
	require.True(t, native.AtRear)
	_, err = OpenKit("SQK-NOPE")
	require.ErrorContains(t, err, `kit "SQK-NOPE" is none of EXP-NBD103, EXP-NBD104`)
}

const ownKit = `
[arrangement]
name = "MY-KIT"
kit = "MINE"
mask1_front = "ACCGTCCA"
mask1_rear = "ttgacgag"
mask2_front = "GGACTTCC"
mask2_rear = ""
barcode1_pattern = "MY%03i"
barcode2_pattern = "NB%02i"
first_index = 1
last_index = 2

[scoring]
max_barcode_penalty = 4

[sequences]
MY001 = "AAGGCCTTAAGG"
MY002 = "ccttggaaccaa"
`

func TestParseKit(t *testing.T) {
	kit, err := ParseKit([]byte(ownKit))
	require.NoError(t, err)
	scoring := DefaultScoring()
	scoring.MaxBarcodePenalty = 4
	require.Equal(t, Kit{
		Name: "MY-KIT", Front: Flanks{"ACCGTCCA", "TTGACGAG"}, Rear: Flanks{"GGACTTCC", ""}, AtFront: true, AtRear: true,
		Barcodes: []Barcode{
			{"barcode01", "AAGGCCTTAAGG", "CACAAAGACACCGACAACTTTCTT"}, {"barcode02", "CCTTGGAACCAA", "ACAGACGACTACAAACGGAATCGA"},
		},
		Scoring: scoring,
	}, kit)

	rear := strings.NewReplacer("barcode2_pattern = \"NB%02i\"", "rear_only_barcodes = true", `mask2_front = "GGACTTCC"`, "", `mask2_rear = ""`, "").Replace(ownKit)
	kit, err = ParseKit([]byte(rear))
	require.NoError(t, err)
	require.False(t, kit.AtFront)
	require.Equal(t, Flanks{"CTCGTCAA", "TGGACGGT"}, kit.Rear)
	insert := strings.Repeat("ACGTTGCATCAG", 20)
	c := NewClassifier(kit, false)
	got := c.Classify([]byte(insert + "ACCGTCCA" + "CCTTGGAACCAA" + "TTGACGAG" + "AC"))
	require.Equal(t, "MY-KIT_barcode02", c.Name(got.Barcode))
	require.Equal(t, len(insert), got.Rear.Start)
	require.Equal(t, len(insert)+28, got.Rear.End)

	for _, tt := range []struct{ old, with, says string }{
		{`name = "MY-KIT"`, ``, "[arrangement] name is missing"},
		{`name = "MY-KIT"`, `name = "my kit"`, `name = "my kit" is not letters`},
		{`kit = "MINE"`, `kid = "MINE"`, `line 4: unknown key "arrangement.kid"`},
		{`last_index = 2`, `last_index = "x"`, "line 12, column"},
		{`last_index = 2`, `last_index = 3`, `barcode1_pattern = "MY%03i" asks for the sequence MY003`},
		{`last_index = 2`, `last_index = 0`, "first_index = 1 and last_index = 0"},
		{`MY%03i`, `MY`, `barcode1_pattern = "MY" is no name with a place for the index`},
		{`MY001 =`, `NB03 =`, "[sequences] NB03 is the name of a barcode of the kits"},
		{`"ccttggaaccaa"`, `"cct"`, "the sequence of barcode02 is not as long as that of barcode01"},
		{`"ccttggaaccaa"`, `"ccttggaaccax"`, "the sequence of barcode02 is not one or more of A, C, G and T"},
		{`"ACCGTCCA"`, `"ACCGTCCX"`, "mask1_front or mask1_rear is not only A, C, G and T"},
		{`"ACCGTCCA"`, `"` + strings.Repeat("ACGT", 64) + `"`, "more than 256"},
		{`max_barcode_penalty = 4`, `max_barcode_penalty = -4`, "max_barcode_penalty = -4 is not between"},
		{`max_barcode_penalty = 4`, `min_flank_score = 7.0`, "min_flank_score = 7 is not between 0 and 1"},
		{`barcode2_pattern = "NB%02i"`, ``, "barcode2_pattern is missing"},
		{`barcode2_pattern = "NB%02i"`, "barcode2_pattern = \"NB%02i\"\nrear_only_barcodes = true", "exclude each other"},
	} {
		_, err := ParseKit([]byte(strings.Replace(ownKit, tt.old, tt.with, 1)))
		require.ErrorContains(t, err, tt.says)
		require.NotContains(t, err.Error(), "\n")
	}
}

func FuzzParseKit(f *testing.F) {
	f.Add([]byte(ownKit))
	f.Add([]byte("[arrangement]\nname='x'\nbarcode1_pattern='BC%02i'\nlast_index=96\nmask1_front='A'"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if kit, err := ParseKit(text); err == nil {
			NewClassifier(kit, true).Classify([]byte(strings.Repeat("ACGGT", 100)))
		}
	})
}
