package primer_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align/primer"
)

// tiles are two amplicons that overlap, and an alternative primer of the first.
const tiles = "chr\t100\t120\ttile_1_LEFT\t1\t+\n" +
	"chr\t105\t125\ttile_1_LEFT_alt1\t1\t+\tACGT\n" +
	"chr\t480\t500\ttile_1_RIGHT\t1\t-\n" +
	"chr\t450\t470\ttile_2_LEFT\t2\t+\n" +
	"chr\t880\t900\ttile_2_RIGHT\t2\t-\n"

func length(contig string) (int, bool) { return 1000, contig == "chr" }

func TestInside(t *testing.T) {
	s, err := primer.Read(strings.NewReader("# a scheme\n"+tiles), "p.bed", length)
	require.NoError(t, err)
	require.Equal(t, []int{5, 2}, []int{s.Primers(), s.Amplicons()})
	for _, tt := range []struct {
		start, end, lo, hi int
		ends               primer.Ends
	}{
		{100, 500, 120, 480, primer.Both}, // tile 1; the alternative begins later, and can't have made it
		{106, 499, 125, 480, primer.Both}, // of either primer: the innermost
		{452, 899, 470, 880, primer.Both},
		{92, 508, 120, 480, primer.Both}, // adapters align for some bases
		{85, 515, 85, 515, primer.None},  // too far out
		{101, 890, 125, 880, primer.Mixed},
		{104, 300, 125, 300, primer.One},
		{200, 485, 200, 480, primer.One},
		{200, 300, 200, 300, primer.None},
		{130, 478, 130, 478, primer.None}, // ends before the primer
		{106, 120, 125, 120, primer.Nothing},
	} {
		lo, hi, ends := s.Inside("chr", tt.start, tt.end)
		if tt.start == 100 {
			tt.lo = 125 // it begins at most slack before the alternative
		}
		require.Equal(t, tt.ends, ends, "%+v", tt)
		require.Equal(t, []int{tt.lo, tt.hi}, []int{lo, hi}, "%+v", tt)
	}
	lo, hi, ends := s.Inside("other", 1, 9)
	require.Equal(t, []int{1, 9, int(primer.None)}, []int{lo, hi, int(ends)})
}

func TestReadRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"nothing":          {"", "p.bed: no primers"},
		"three columns":    {"chr\t1\t2\n", "p.bed:1: 3 columns"},
		"another contig":   {"chrX\t1\t2\ta_LEFT\t1\t+\n", `p.bed:1: the reference has no contig "chrX": is the scheme for another reference?`},
		"beyond":           {"\nchr\t990\t1001\ta_LEFT\t1\t+\n", "p.bed:2: 990-1001: want 0 <= start < end on the contig of 1000 bases"},
		"words":            {"chr\ta\tb\ta_LEFT\t1\t+\n", "a-b: want"},
		"a name":           {"chr\t1\t20\ta_L\t1\t+\n", `primer "a_L": want a name that ends in _LEFT or _RIGHT`},
		"the other strand": {"chr\t1\t20\ta_LEFT\t1\t-\n", `primer a_LEFT on strand "-": want +`},
		"one end":          {"chr\t1\t20\ta_LEFT\t1\t+\n", "amplicon a has primers at one end only"},
		"a long line":      {strings.Repeat("x", 70_000), "is this a BED file?"},
	} {
		_, err := primer.Read(strings.NewReader(tt.text), "p.bed", length)
		require.ErrorContains(t, err, tt.want, name)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(tiles))
	f.Add([]byte("chr 1 20 a_LEFT 1 +\nchr 30 40 a_RIGHT 1 -\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := primer.Read(bytes.NewReader(text), "p.bed", length)
		if err != nil {
			return
		}
		for start := 0; start < 1000; start += 97 {
			lo, hi, ends := s.Inside("chr", start, start+90)
			if lo < start || hi > start+90 || (ends == primer.Nothing) != (hi <= lo) {
				t.Fatalf("%d-%d of %d-%d: %v", lo, hi, start, start+90, ends)
			}
		}
	})
}
