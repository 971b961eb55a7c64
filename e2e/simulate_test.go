package e2e

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream"
)

// TestVirtualSequencer: a run that ingest simulates live, killed on the way, is the
// run that pore simulate writes into a file: the same truth, the same chunks, the
// same variants.
func TestVirtualSequencer(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the services")
	}
	t.Parallel()
	settings := []string{
		"--ref", lambda("reference.fa"), "--variants", "snp=12,indel=3", "--depth", "8", "--seed", "5", "--channels", "24", "--length", "4000",
	}
	dir := t.TempDir()
	res := pore(t, append([]string{"simulate", "--out", filepath.Join(dir, "file")}, settings...)...)
	require.Zero(t, res.code, res.stderr)
	reads := filepath.Join(dir, "file", "reads.pod5")
	scores := filepath.Join(dir, "scores.pssc")
	recordScores(t, scores, reads)
	device := "sim:1ms:32:" + scores
	results := run(t, lambda("reference.fa"), lambda("genes.gff3"), reads, "--device", device)
	require.NotEmpty(t, passed(t, filepath.Join(results, "variants.vcf")))
	index, err := signal.NewIndex(t.Context(), []string{reads})
	require.NoError(t, err)
	defer index.Close()
	require.Len(t, index.Runs(), 1)

	onBroker(t, func(t *testing.T, addr string) {
		client := connect(t.Context(), t, addr)
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		topics := stream.NewTopics("virtual-")
		for _, name := range []string{"virtual-", "file-"} {
			require.NoError(t, client.EnsureTopics(ctx, stream.NewTopics(name).Settings(3), 1))
		}
		processor := start(t, cancel, "processor", "--brokers", addr, "--topic-prefix", "virtual-", "--ref", lambda("reference.fa"),
			"--gff", lambda("genes.gff3"), "--device", device, "--listen", "127.0.0.1:0")
		common := []string{"--brokers", addr, "--partitions", "3", "--listen", "127.0.0.1:0"}
		live := func(pace string) *service {
			return start(t, cancel, "ingest", append(append([]string{
				"simulate", "--topic-prefix", "virtual-", "--pace", pace, "--out", filepath.Join(dir, "live"),
			}, settings...), common...)...)
		}
		first := live("20")
		awaitSignal(t, client, topics.Signal)
		kill(t, first)
		live("max").ended(t)
		followRun(ctx, t, client, topics, index.Runs()[0].ID, nil)
		processor.stop(t)
		res := pore(t, "consume", "--brokers", addr, "--topic-prefix", "virtual-", "--format", "vcf", "--ref", lambda("reference.fa"))
		require.Zero(t, res.code, res.stderr)
		require.Equal(t, string(readFile(t, results, "variants.vcf")), res.stdout)

		start(t, cancel, "ingest", append([]string{"--topic-prefix", "file-", reads}, common...)...).ended(t)
		require.Equal(t, chunks(t, client, stream.NewTopics("file-").Signal), chunks(t, client, topics.Signal))
		for _, name := range []string{"truth.vcf", "reads.tsv"} {
			require.Equal(t, string(readFile(t, filepath.Join(dir, "file"), name)), string(readFile(t, filepath.Join(dir, "live"), name)), name)
		}
	})
}
