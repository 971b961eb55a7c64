package stage

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
)

// Others may read regions while segments come in. The reports they get follow the
// reads, each region now and then, and there are none once the handler is closed.
func TestRegionsAreInspected(t *testing.T) {
	g := lambda(t)
	regions := NewRegions()
	newHandler := New(Config{Topics: stream.NewTopics(""), CallsPartitions: 2, Genome: g, Regions: regions})
	h, err := newHandler("reads", 0, 1)
	require.NoError(t, err)
	contig := g.Contigs[0].Name
	now := time.Now()
	require.Empty(t, regions.Depths(now, 10))
	_, here := regions.Pileup("s", contig, 20_000, 40, 100)
	require.False(t, here)

	recs := runRecords(t, simulate(t, g, "run-1", "s", 60, 1))
	half := len(recs) / 2
	handle(t, h, recs[:half])
	first := regions.Depths(now, 10)
	require.Len(t, first, 1)
	require.EqualValues(t, len(g.Contigs[0].Seq), first[0].GetEnd())
	m := stream.MaxDepthBins
	require.LessOrEqual(t, len(first[0].GetDepths()), m)
	require.Empty(t, regions.Depths(now.Add(time.Second), 10), "not told again at once")
	require.Empty(t, regions.Depths(now.Add(time.Minute), 10), "nothing has changed")
	require.Len(t, regions.Depths(now.Add(time.Hour), 10), 1, "told again now and then")

	var reading sync.WaitGroup
	stop := make(chan struct{})
	reading.Go(func() {
		for at := now; ; at = at.Add(time.Hour) {
			select {
			case <-stop:
				return
			default:
				regions.Depths(at, 10)
				regions.Pileup("s", contig, 20_000, 40, 100)
			}
		}
	})
	handle(t, h, recs[half:])
	close(stop)
	reading.Wait()
	later := regions.Depths(now.Add(1000000*time.Hour), 10)
	require.Len(t, later, 1)
	sum := func(depths []uint32) (n uint32) {
		for _, d := range depths {
			n += d
		}
		return n
	}
	require.Greater(t, sum(later[0].GetDepths()), sum(first[0].GetDepths()))
	p, here := regions.Pileup("s", contig, 20_000, 40, 100)
	require.True(t, here)
	require.Len(t, p.Reference, 81)
	require.NoError(t, h.Close())
	_, here = regions.Pileup("s", contig, 20_000, 40, 100)
	require.False(t, here)
	require.Empty(t, regions.Depths(now.Add(2000000*time.Hour), 10))
}
