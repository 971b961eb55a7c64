package pores_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/models/pores"
	"github.com/porestream/porestream/simulate/squiggle"
)

func TestOpen(t *testing.T) {
	m, err := pores.Open()
	require.NoError(t, err)
	require.Equal(t, "r9.4", m.Chemistry)
	require.Equal(t, 6, m.K)
	require.Equal(t, 4000, m.SampleRate)
	require.InDelta(t, 370, m.BasesPerSecond(), 50)
	// Of R9.4 poly-A is near the middle, and CCCCCC is not where TTTTTT is.
	level, _, ok := m.Level("AAAAAA")
	require.True(t, ok)
	require.InDelta(t, 0, level, 0.6)
}

// Files of R10.4.1 are what their codec writes, byte for byte, and what they were: a
// profile that changes is another simulated run, which the changelog should mention.
func TestGoldenFiles(t *testing.T) {
	for name, want := range map[string]string{
		"r10.4.1-9mer.levels":  "d08c9d9b76ed46fa",
		"r10.4.1-4khz.profile": "f530ebafa0818b6a",
		"r10.4.1-5khz.profile": "aec5943f19d67eef",
	} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		sum := sha256.Sum256(text)
		require.Equal(t, want, hex.EncodeToString(sum[:8]), name)
		f, err := os.Open(name)
		require.NoError(t, err)
		defer f.Close()
		if name == pores.R1041Levels {
			l, err := squiggle.ReadParts(f)
			require.NoError(t, err)
			require.Equal(t, string(text), string(l.AppendText(nil)))
			continue
		}
		p, err := squiggle.ReadProfile(f)
		require.NoError(t, err)
		require.Equal(t, string(text), string(p.AppendText(nil)))
		require.NotEmpty(t, p.Source)
	}
}

func TestProfiles(t *testing.T) {
	require.Equal(t, []string{"r10.4.1-4khz", "r10.4.1-5khz"}, pores.Profiles())
	for name, rate := range map[string]int{"r10.4.1-4khz": 4000, "r10.4.1-5khz": 5000} {
		p, err := pores.OpenProfile(name)
		require.NoError(t, err)
		require.Equal(t, name, p.Name)
		require.Equal(t, rate, p.SampleRate)
		levels, err := pores.OpenLevels()
		require.NoError(t, err)
		m, err := p.Apply(levels, false)
		require.NoError(t, err)
		require.Equal(t, "r10.4.1", m.Chemistry)
		require.InDelta(t, 400, m.BasesPerSecond(), 100)
		// Levels are in standard deviations, and two k-mers differ as their bases in the
		// pore's narrowest part do.
		require.InDelta(t, 2, slices.Max(m.Levels()), 1)
		require.InDelta(t, -2, slices.Min(m.Levels()), 1)
		low, _, _ := m.Level("AAAAAAAAA")
		require.InDelta(t, -1.84, low, 0.3, "of the published table")
	}
	for _, name := range []string{"r10.4.1-6khz", "../secret", ""} {
		_, err := pores.OpenProfile(name)
		require.ErrorIs(t, err, fs.ErrNotExist, name)
		require.ErrorContains(t, err, "r10.4.1-4khz, r10.4.1-5khz")
	}
}
