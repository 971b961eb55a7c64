package genome

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Reading by an index gives the same as reading from the beginning; a file that does not fit its index is left to the latter.
func TestReadIndexed(t *testing.T) {
	long := strings.Repeat(strings.Repeat("ACGTN", 12)+"\n", 50_000) // several chunks
	for name, c := range map[string]struct {
		fasta, index string
		want         bool
	}{
		"wrapped":                {">a one\nACGT\nACGT\nAC\n>b\nGGTT\nGGTT\nA\n", "a\t10\t7\t4\t5\nb\t9\t23\t4\t5\n", true},
		"soft mask and IUPAC":    {">a\nacgt\nRYKM\nn\n", "a\t9\t3\t4\t5\n", true},
		"carriage returns":       {">a\r\nACGT\r\nAC\r\n", "a\t6\t4\t4\t6\n", true},
		"no newline at the end":  {">a\nACGT\nAC", "a\t6\t3\t4\t5\n", true},
		"long":                   {">a\n" + long + ">b\n" + long, "a\t3000000\t3\t60\t61\nb\t3000000\t3050006\t60\t61\n", true},
		"no nucleotide":          {">a\nAC-T\nAC\n", "a\t6\t3\t4\t5\n", false},
		"another name":           {">b\nACGT\nAC\n", "a\t6\t3\t4\t5\n", false},
		"a line that is shorter": {">a\nACGT\nAC\nACGT\n", "a\t10\t3\t4\t5\n", false},
		"more bases":             {">a\nACGT\nAC\n", "a\t5\t3\t4\t5\n", false},
		"fewer bases":            {">a\nACGT\nAC\n", "a\t7\t3\t4\t5\n", false},
		"another contig":         {">a\nACGT\nAC\n>b\nA\n", "a\t6\t3\t4\t5\n", false},
		"out of order":           {">a\nAC\n>b\nGT\n", "b\t2\t9\t2\t3\na\t2\t3\t2\t3\n", false},
		"sequence without name":  {"AC\n>a\nAC\n", "a\t2\t6\t2\t3\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := readIndex(strings.NewReader(c.index))
			require.NoError(t, err)
			got := readIndexed(strings.NewReader(c.fasta), int64(len(c.fasta)), list, nil)
			require.Equal(t, c.want, got != nil)
			if !c.want {
				return
			}
			want, err := Read(strings.NewReader(c.fasta))
			require.NoError(t, err)
			require.Equal(t, want.Names(), got.Names())
			for i, contig := range want.Contigs {
				require.Equal(t, string(contig.Seq), string(got.Contigs[i].Seq))
				require.Same(t, got.Contigs[i], got.Contig(contig.Name))
			}
		})
	}
}
