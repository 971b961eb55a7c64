package genes

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
)

// ribosome is the 16S of a genome of the shipped prior.
func ribosome(t *testing.T) []byte {
	t.Helper()
	p, err := shipped()
	require.NoError(t, err)
	kinds := map[string]int{}
	for _, k := range p.Ribosomal {
		kinds[k.Kind]++
	}
	require.Equal(t, map[string]int{"5S": 12, "16S": 12, "23S": 12}, kinds, "twelve genomes have one of each")
	for _, k := range p.Ribosomal {
		if k.Kind == "16S" && k.From == "NC_002695.1" {
			return []byte(k.Seq)
		}
	}
	t.Fatal("no 16S")
	return nil
}

func TestGenesOfRNAAreFoundAndNoProteinsThere(t *testing.T) {
	t.Parallel()
	const methionine = "CGCGGGGTGGAGCAGCCTGGTAGCTCGTCGGGCTCATAACCCGAAGGTCGTCGGTTCAAATCCGGCCCCCGCAACCA"
	letters, planted := simulated(3, 40)
	at := planted[20].End + 6
	small := ribosome(t)
	other := bytes.Clone(small)
	genome.ReverseComplement(other)
	insert := []byte(strings.Repeat("TTAATTAATTAA", 3) + string(other) + strings.Repeat("TTAATTAATTAA", 3) + methionine + strings.Repeat("TTAATTAATTAA", 3))
	seq := append(append(bytes.Clone(letters[:at]), insert...), letters[at:]...)
	contigs := []Contig{{Name: "x", Seq: letters}, {Name: "y", Seq: seq}}
	r := find(t, Options{Code: 11}, contigs...)
	require.Len(t, r.RNA, 2)
	require.Equal(t, 1, r.RNA[0].Contig)
	from := at + 36
	require.Equal(t, [2]int{from, from + len(small)}, [2]int{r.RNA[0].Start, r.RNA[0].End})
	require.True(t, r.RNA[0].Reverse)
	require.Equal(t, "16S ribosomal RNA", r.RNA[0].Product)
	require.InDelta(t, 1, r.RNA[0].Identity, 1e-9)
	for _, g := range r.Genes {
		if g.Contig == 1 {
			require.LessOrEqual(t, min(g.End, from+len(small))-max(g.Start, from), mostInRNA, "%d-%d", g.Start, g.End)
		}
	}
	var out bytes.Buffer
	require.NoError(t, WriteGFF3(&out, contigs, r))
	_, text, _ := strings.Cut(out.String(), "ID=gene:PORE_R0001")
	require.Contains(t, text, ";biotype=rRNA;transcript_id=PORE_R0001;product=16S ribosomal RNA;identity=100.0\n")
	require.Contains(t, text, ";biotype=tRNA;transcript_id=PORE_R0002;product=tRNA-Met;anticodon=cat\n")
	require.Contains(t, text, "\texon\t")
	last := 0
	for _, line := range strings.Split(out.String(), "\n") {
		if column := strings.Split(line, "\t"); len(column) == 9 && column[0] == "y" && column[2] == "gene" {
			start := number(t, column[3])
			require.GreaterOrEqual(t, start, last, "genes of all kinds are in order")
			last = start
		}
	}
	viral := find(t, Options{Code: 1}, contigs...)
	require.Empty(t, viral.RNA, "a virus of eukaryotes has none")
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}
