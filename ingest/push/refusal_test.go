package push

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRefusalsAreLoggedNowAndThen: a thousand refusals in a second are a few lines
// in the log, and the next line says how many were none; devices that are known
// have lines of their own.
func TestRefusalsAreLoggedNowAndThen(t *testing.T) {
	var l refusalLog
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	logged := 0
	for i := range 1000 {
		if _, ok := l.allow("", now.Add(time.Duration(i)*time.Millisecond)); ok {
			logged++
		}
	}
	require.Equal(t, refusalBurst, logged)
	hidden, ok := l.allow("bench-1", now.Add(time.Second))
	require.True(t, ok, "strangers hide what is wrong with a device")
	require.Zero(t, hidden)
	hidden, ok = l.allow("", now.Add(time.Second+refusalInterval))
	require.True(t, ok)
	require.Equal(t, 1000-refusalBurst, hidden)
	hidden, ok = l.allow("", now.Add(time.Hour))
	require.True(t, ok)
	require.Zero(t, hidden)
}
