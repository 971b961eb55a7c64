package basecall

import (
	"sync"
	"testing"
	"time"

	"github.com/porestream/porestream/testenv"
	"github.com/stretchr/testify/require"
)

// BenchmarkCaller basecalls reads, and in turn runs the bare network on as many
// full batches of windows. It reports samples of reads per second, and the rate
// over windows as a share of the bare network's, by the clock and by processor
// time: what normalising, batching, decoding and joining leave of it.
func BenchmarkCaller(b *testing.B) {
	model := ownModel(b)
	c := newCaller(b, model, Config{})
	reads := make([]Read, 16)
	samples, windows := 0, 0
	for i := range reads {
		reads[i] = syntheticRead(uint64(i), 40_000)
		samples += len(reads[i].Samples)
		windows += c.windows.count(len(reads[i].Samples))
	}
	bare, err := c.Copies()
	require.NoError(b, err)
	defer bare.Close()

	var engineTime, engineCPU, bareTime, bareCPU time.Duration
	bareWindows, engineWindows := 0, 0
	for b.Loop() {
		start, cpu := time.Now(), testenv.ProcessorTime(b)
		var calls sync.WaitGroup
		for _, read := range reads {
			calls.Go(func() {
				if _, err := c.Call(b.Context(), read); err != nil {
					b.Error(err)
				}
			})
		}
		calls.Wait()
		engineTime += time.Since(start)
		engineCPU += testenv.ProcessorTime(b) - cpu
		engineWindows += windows

		start, cpu = time.Now(), testenv.ProcessorTime(b)
		rounds := max(1, windows/(bare.Batch*len(bare.Runners)))
		for _, runner := range bare.Runners {
			calls.Go(func() {
				for range rounds {
					if _, err := runner.Run(bare.Batch, c.network.Samples); err != nil {
						b.Error(err)
					}
				}
			})
		}
		calls.Wait()
		bareTime += time.Since(start)
		bareCPU += testenv.ProcessorTime(b) - cpu
		bareWindows += rounds * bare.Batch * len(bare.Runners)
	}
	rate := func(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }
	readSamples := samples * (engineWindows / windows)
	b.ReportMetric(rate(readSamples, engineTime), "samples/s")
	b.ReportMetric(rate(readSamples, engineCPU), "samples/cpu-s")
	b.ReportMetric(rate(engineWindows, engineTime)/rate(bareWindows, bareTime), "engine/bare")
	b.ReportMetric(rate(engineWindows, engineCPU)/rate(bareWindows, bareCPU), "engine/bare-cpu")
}
