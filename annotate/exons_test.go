package annotate

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWholeExons: an exon that goes with bases of the introns beside it takes as much from the protein as its bases alone, and
// one that is doubled with them adds as much.
func TestWholeExons(t *testing.T) {
	dir := filepath.Join("testdata", "hgvs")
	n := readNormalizer(t, filepath.Join(dir, "genes.fa.gz"), filepath.Join(dir, "genes.gff3.gz"))
	compared := 0
	for v := range n.a.model.All() {
		x := v.transcript
		on := &numbering{contig: x.contig, t: x, kind: 'c', name: x.id}
		for i := 1; i+1 < len(x.exons); i++ {
			e := x.exons[i]
			from, to := x.span(x.cds, e.start, e.end)
			if from < 3 || to > x.cdsLen-3 || to <= from {
				continue
			}
			first, last := e.start, e.end-1
			wide, far := first-12, last+9
			if !x.forward {
				first, last, wide, far = last, first, far, wide
			}
			pos := func(base int) string { return string(on.appendPosition(nil, base)) }
			for _, kind := range []string{"del", "dup"} {
				exact, err := n.Normalize(fmt.Sprintf("%s:c.%s_%s%s", x.id, pos(first), pos(last), kind))
				require.NoError(t, err)
				whole, err := n.Normalize(fmt.Sprintf("%s:c.%s_%s%s", x.id, pos(wide), pos(far), kind))
				require.NoError(t, err)
				if exact.Protein == x.protein+":p.?" {
					continue // the same deletion as one that has bases of the intron
				}
				compared++
				require.Equal(t, exact.Protein, whole.Protein, "%s and %s", exact.Description, whole.Description)
			}
		}
	}
	require.Greater(t, compared, 20)
}
