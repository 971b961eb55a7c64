package simulation

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The number of haplotypes is that of the first genotype's alleles, with the phase of VCF 4.4 in front or without.
func TestPloidyIsTheGenotypes(t *testing.T) {
	for genotype, want := range map[string]int{"1": 1, "|1": 1, "/1": 1, "0|1": 2, "|0|1": 2, "/1/1": 2, "/0|1": 2} {
		path := filepath.Join(t.TempDir(), "in.vcf")
		text := "##fileformat=VCFv4.4\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ts\nc\t1\t.\tA\tC\t.\t.\t.\tGT\t" + genotype + "\n"
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		n, err := ploidyOf(path)
		require.NoError(t, err, genotype)
		require.Equal(t, want, n, genotype)
	}
}
