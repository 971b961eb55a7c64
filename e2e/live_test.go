package e2e

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLive is `make live DROP=0.05`, faster than life: all that the server drops is
// counted, to the sample of each channel, what it sends gets to Kafka once, and no
// call is wrong. How soon calls come is for make live to say.
func TestLive(t *testing.T) {
	python := minknowPython(t)
	if testing.Short() {
		t.Skip("runs the services")
	}
	res := command(t, "live", "--data", lambda(""), "--bin", bin, "--python", python, "--pace", "20", "--drop", "0.05", "--within", "0", "--json")
	require.Zero(t, res.code, res.stderr)
	var report struct {
		Variants []struct {
			Variant string
			Call    float64
			Event   float64
		}
		Reads  struct{ Played, Aligned int }
		Losses struct {
			Chunks           int
			Dropped, Counted struct{ Gaps, Samples uint64 }
		}
		Wrong []string
	}
	require.NoError(t, json.Unmarshal([]byte(res.stdout), &report), res.stdout)
	require.Equal(t, 243, report.Reads.Played)
	require.Greater(t, report.Reads.Aligned, 200)
	require.Greater(t, report.Losses.Chunks, 100)
	require.Greater(t, report.Losses.Dropped.Samples, uint64(300_000))
	require.Equal(t, report.Losses.Dropped, report.Losses.Counted)
	require.NotEmpty(t, report.Variants)
	require.Empty(t, report.Wrong)
	for _, v := range report.Variants {
		require.Greater(t, v.Event, v.Call, v.Variant)
	}
}
