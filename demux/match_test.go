package demux

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// slowFind is the semi-global edit distance by its definition.
func slowFind(pattern string, text []byte) match {
	n := len(pattern)
	distances := func(from int, free bool) []int { // of the whole pattern to text[from:j], or to any stretch that ends at j
		column := make([]int, n+1)
		for i := range column {
			column[i] = i
		}
		last := []int{n}
		for _, base := range text[from:] {
			next := make([]int, n+1)
			if !free {
				next[0] = column[0] + 1
			}
			for i := 1; i <= n; i++ {
				differs := 1
				if pattern[i-1] == 'N' || pattern[i-1] == base {
					differs = 0
				}
				next[i] = min(column[i-1]+differs, column[i]+1, next[i-1]+1)
			}
			column = next
			last = append(last, column[n])
		}
		return last
	}
	found := match{distance: n}
	for end, distance := range distances(0, true) {
		if distance < found.distance {
			found.distance, found.end = distance, end
		}
	}
	for start := range found.end + 1 {
		if d := distances(start, false); d[found.end-start] == found.distance {
			found.start = start
			break
		}
	}
	return found
}

func randomBases(rng *rand.Rand, letters string, n int) string {
	out := make([]byte, n)
	for i := range out {
		out[i] = letters[rng.IntN(len(letters))]
	}
	return string(out)
}

// TestBitVectorsFindWhatTheDefinitionDoes: bit-vectors say what the definition says, for patterns of one word and of
// several, with and without N, also where much of them is in the text.
func TestBitVectorsFindWhatTheDefinitionDoes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		pattern := randomBases(rng, "ACGTACGTN", 1+rng.IntN(maxPattern))
		text := randomBases(rng, "ACGT", rng.IntN(120))
		if rng.IntN(2) == 0 {
			at := rng.IntN(len(pattern))
			text += randomBases(rng, "ACGT", rng.IntN(3)) + pattern[at:] + text
		}
		require.Equal(t, slowFind(pattern, []byte(text)), newProbe(pattern).find([]byte(text)), "%s in %s", pattern, text)
	}
}

func FuzzFind(f *testing.F) {
	f.Add("ACGTN", "TTACGTATT")
	f.Add("N", "")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) == 0 || len(pattern) > maxPattern || len(text) > 300 || !maskOnly(pattern) || !basesSyntax.MatchString(text) {
			t.Skip()
		}
		require.Equal(t, slowFind(pattern, []byte(text)), newProbe(pattern).find([]byte(text)))
	})
}

func maskOnly(s string) bool {
	for i := range len(s) {
		if s[i] != 'N' && codes[s[i]] > 3 || s[i] >= 'a' {
			return false
		}
	}
	return true
}
