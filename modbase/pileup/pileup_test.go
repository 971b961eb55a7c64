package pileup

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMotif(t *testing.T) {
	for _, tt := range []struct {
		text, seq, plus, minus string
		palindrome             bool
	}{
		{"CG,0", "ACGCGNCG", ".*.*..*.", "..*.*..*", true},
		{"gatc,1", "GATCGATTC", ".*.......", "..*......", true},
		{"CCWGG,1", "ACCAGGCCTGG", "..*....*...", "....*....*.", true},
		{"CHH,0", "CATGTGG", "*......", "...*.**", false},
		{"N,0", "ANT", "*.*", "*.*", true},
	} {
		m, err := ParseMotif(tt.text)
		require.NoError(t, err)
		require.Equal(t, tt.palindrome, m.Palindrome(), tt.text)
		require.Equal(t, strings.ToUpper(tt.text), m.String())
		for strand, want := range []string{tt.plus, tt.minus} {
			got := ""
			for i := range tt.seq {
				if m.at([]byte(tt.seq), i, strand) {
					got += "*"
				} else {
					got += "."
				}
			}
			require.Equal(t, want, got, "%s on strand %d of %s", tt.text, strand, tt.seq)
		}
	}
}

// TestThresholds: shares of calls are between neighbours in proportion, and a call at the threshold passes.
func TestThresholds(t *testing.T) {
	require.Equal(t, 0, Threshold(0))
	require.Equal(t, Units, Threshold(1))
	require.Equal(t, 410, Threshold(0.8)) // 409.6
	require.Equal(t, 339, Threshold(339.0/Units))
	var h, other Histogram
	for p := range 11 {
		h[1][300+10*p]++
	}
	h.Add(&other)
	require.Equal(t, Thresholds{0, 300, 0, 0}, h.Percentile(0))
	require.Equal(t, Thresholds{0, 310, 0, 0}, h.Percentile(0.1))
	require.Equal(t, Thresholds{0, 315, 0, 0}, h.Percentile(0.15))
	require.Equal(t, Thresholds{0, 370, 0, 0}, h.Percentile(0.7)) // 0.7 in binary is less
	other[1][400], other[3][290] = 1000, 1
	h.Add(&other)
	require.Equal(t, Thresholds{0, 400, 0, 290}, h.Percentile(0.5))
}
