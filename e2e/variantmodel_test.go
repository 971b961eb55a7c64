package e2e

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/variant/network/networktest"
)

// TestVariantModelOfAFolder: a variant model from a folder scores the variants of a run, and
// the result doesn't depend on how many partitions share its batches.
func TestVariantModelOfAFolder(t *testing.T) {
	t.Parallel()
	model := networktest.Folder(t, networktest.Odds())
	var vcfs []string
	for _, partitions := range []string{"1", "5"} {
		out := run(t, lambda("reference.fa"), lambda("genes.gff3"), lambdaReads(t), "--variant-model", model, "--partitions", partitions, "--device", recordedNetwork(t, "1ms:32"))
		called := passed(t, filepath.Join(out, "variants.vcf"))
		for _, snp := range lambdaSNPs {
			require.Contains(t, called, snp)
		}
		var summary map[string]any
		require.NoError(t, json.Unmarshal(readFile(t, out, "summary.json"), &summary))
		require.Equal(t, "test", summary["variant_model"])
		vcfs = append(vcfs, string(readFile(t, out, "variants.vcf")))
	}
	require.Equal(t, vcfs[0], vcfs[1])
}
