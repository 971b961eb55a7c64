package pores_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/models/pores"
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
