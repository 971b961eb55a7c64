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
	t.Parallel()
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

// TestLiveReads is `make live-reads`, smaller and faster than life, with ingest killed five
// times and the processor twice, and all reads as FASTQ and as BAM: each read is on the topic
// once with its bases, and every sample has the bytes that pore call makes of its reads.
func TestLiveReads(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the services")
	}
	t.Parallel()
	res := command(t, "live", "reads", "--data", lambda(""), "--bin", bin, "--barcodes", "6", "--channels", "48", "--duration", "3m", "--rotate", "30s", "--length", "3000", "--pace", "30",
		"--format", "both", "--kill-ingest", "5", "--kill-processor", "2", "--within", "0", "--within-99", "0", "--variant-model", "none", "--json")
	require.Zero(t, res.code, res.stderr)
	var report struct {
		Written, Failed, Topic, Samples, Calls int
		Kills                                  map[string]int
		Effect                                 struct{ N int }
	}
	require.NoError(t, json.Unmarshal([]byte(res.stdout), &report), res.stdout)
	require.Greater(t, report.Written, 200)
	require.Positive(t, report.Failed)
	require.Equal(t, report.Written-report.Failed, report.Topic)
	require.Equal(t, map[string]int{"ingest": 5, "processor": 2}, report.Kills)
	require.Equal(t, 6, report.Samples)
	require.Greater(t, report.Calls, 100)
	require.Greater(t, report.Effect.N, report.Topic*9/10)
}
