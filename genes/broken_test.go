package genes

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genes/homology"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/testenv"
)

// TestBrokenGenes breaks lambda's gene H, and finds it reported as a pseudogene on both strands and wherever the circle is
// cut.
func TestBrokenGenes(t *testing.T) {
	t.Parallel()
	contigs, _, known := lambdaGenes(t)
	index, err := homology.NewIndex(known)
	require.NoError(t, err)
	whole := contigs[0].Seq
	const begin, end, middle = 10542 - 1, 13103, 10542 - 1 + 3*400
	rng := rand.New(rand.NewPCG(9, 9))
	insert := []byte("TAATTAACTAA")
	for range 900 {
		insert = append(insert, "ACGT"[rng.IntN(4)])
	}
	for _, tt := range []struct {
		name   string
		seq    []byte
		faults []Fault
		end    int // of the pseudogene
	}{
		{"whole", whole, nil, 0},
		{"frameshift", slices.Concat(whole[:middle], whole[middle+1:]), []Fault{Frameshift}, end - 1},
		{"stop", slices.Concat(whole[:middle], []byte("TAA"), whole[middle+3:]), []Fault{InternalStop}, end},
		{"insertion", slices.Concat(whole[:middle], insert, whole[middle:]), []Fault{Interrupted}, end + len(insert)},
		{"deletion", slices.Concat(whole[:middle], []byte("TAA"), whole[end:]), []Fault{Incomplete}, middle + 3},
		{"other start", slices.Concat(whole[:begin], []byte("ATC"), whole[begin+3:]), nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := len(tt.seq)
			cut := begin + 700
			for _, c := range []Contig{
				{Name: "c", Seq: tt.seq},
				{Name: "c", Seq: reverseComplement(tt.seq)},
				{Name: "c", Seq: slices.Concat(tt.seq[cut:], tt.seq[:cut]), Circular: true},
			} {
				r, err := Find(t.Context(), []Contig{c}, Options{Code: 11})
				require.NoError(t, err)
				require.NoError(t, r.Name(t.Context(), []Contig{c}, &Naming{Known: index, Identity: .5, Coverage: .8}))
				named := slices.ContainsFunc(r.Genes, func(g Gene) bool { return g.Similar != nil && g.Similar.Symbol == "H" })
				if tt.faults == nil {
					require.Empty(t, r.Pseudogenes)
					require.True(t, named)
					continue
				}
				require.False(t, named)
				require.Len(t, r.Pseudogenes, 1)
				p := r.Pseudogenes[0]
				require.Equal(t, "H", p.Known.Gene)
				require.Equal(t, tt.faults, p.Faults)
				low, high := p.Start, p.End
				switch {
				case p.Reverse:
					low, high = n-p.End, n-p.Start
				case c.Circular:
					low, high = low+cut-n, high+cut-n
				}
				require.InDelta(t, begin, low, 60)
				require.InDelta(t, tt.end, high, 60)
				require.GreaterOrEqual(t, p.Fragments, 1)
				require.False(t, slices.ContainsFunc(r.Genes, func(g Gene) bool {
					return g.Reverse == p.Reverse && g.Start >= p.Start && g.End <= p.End && g.Similar != nil
				}))
				var out bytes.Buffer
				require.NoError(t, WriteGFF3(&out, []Contig{c}, r))
				require.Equal(t, 1, strings.Count(out.String(), "\tpseudogene\t"))
				require.Contains(t, out.String(), "ID=gene:PORE_P0001;Name=H;biotype=pseudogene;gene_id=PORE_P0001;locus_tag=PORE_P0001;pseudo=true;Note="+string(tt.faults[0])+";fragments=")
				if c.Circular || p.Reverse {
					continue
				}
				g, err := genome.Read(strings.NewReader(">c\n" + string(c.Seq) + "\n"))
				require.NoError(t, err)
				model, err := new(annotate.ModelReader).Read(&out, g)
				require.NoError(t, err)
				require.Empty(t, model.Faults)
				got, err := annotate.New(g, model).Annotate("c", begin+500, string(c.Seq[begin+499]), string("CATG"[strings.IndexByte("ACGT", c.Seq[begin+499])]))
				require.NoError(t, err)
				require.True(t, slices.ContainsFunc(got.Consequences, func(x annotate.Consequence) bool { return x.Gene.Symbol == "H" && x.Impact == annotate.Modifier }), got.Consequences)
			}
		})
	}
}

// TestCutIsNotIncomplete: what is missing of a gene isn't if its place is beyond the contig's end or in a gap.
func TestCutIsNotIncomplete(t *testing.T) {
	testenv.CalculatesLong(t)
	t.Parallel()
	contigs, _, known := lambdaGenes(t)
	index, err := homology.NewIndex(known)
	require.NoError(t, err)
	const begin, end, cut = 10542 - 1, 13103, 10542 - 1 + 3*400
	whole := contigs[0].Seq
	other := bytes.Repeat([]byte("GATTACAGC"), 200) // of nothing known
	unknown := bytes.Repeat([]byte("n"), 1800)
	for _, tt := range []struct {
		name       string
		seq        []byte
		start, end int
		circular   bool
		broken     int
	}{
		{"head is elsewhere", slices.Concat(other, whole[cut:end]), len(other), len(other) + end - cut, false, 1},
		{"head is beyond the end", whole[cut:end], 0, end - cut, false, 0},
		{"head is beyond the origin of a circle", slices.Concat(whole[cut:end], other), 0, end - cut, true, 1},
		{"head is in a gap", slices.Concat(other, unknown, whole[cut:end]), len(other) + len(unknown), len(other) + len(unknown) + end - cut, false, 0},
		{"tail is elsewhere", slices.Concat(whole[begin:cut], []byte("TAA"), other), 0, cut - begin + 3, false, 1},
		{"tail is beyond the end", slices.Concat(whole[begin:cut], []byte("TAA")), 0, cut - begin + 3, false, 0},
	} {
		for _, reverse := range []bool{false, true} {
			c, g := Contig{Name: "c", Seq: tt.seq, Circular: tt.circular}, Gene{Start: tt.start, End: tt.end, Reverse: reverse}
			if reverse {
				n := len(tt.seq)
				c.Seq, g.Start, g.End = reverseComplement(tt.seq), n-tt.end, n-tt.start
			}
			r := &Result{Code: 11, Genes: []Gene{g}}
			require.NoError(t, r.Name(t.Context(), []Contig{c}, &Naming{Known: index, Identity: .5, Coverage: .8}))
			require.Len(t, r.Pseudogenes, tt.broken, "%s %v", tt.name, reverse)
			require.Len(t, r.Genes, 1-tt.broken)
		}
	}
}

// TestLongMissingParts: of a protein that has far more residues than the gene, those next to the gene are searched
// for.
func TestLongMissingParts(t *testing.T) {
	testenv.CalculatesLong(t)
	t.Parallel()
	rng := rand.New(rand.NewPCG(13, 14))
	codons := map[byte]string{'A': "GCA", 'C': "TGC", 'D': "GAC", 'E': "GAG", 'F': "TTC", 'G': "GGA", 'H': "CAC", 'I': "ATC", 'K': "AAG", 'L': "CTG", 'N': "AAC", 'P': "CCA", 'Q': "CAG", 'R': "CGC", 'S': "TCC", 'T': "ACA", 'V': "GTG", 'W': "TGG", 'Y': "TAC"}
	known := make([]byte, 9000)
	var seq []byte
	for i := range known {
		known[i] = "ACDEFGHIKLNPQRSTVWY"[rng.IntN(19)]
		seq = append(seq, codons[known[i]]...)
	}
	const broken = 6000 // residue with a base less
	seq = append(append(slices.Delete(seq, 3*broken, 3*broken+1), "TAA"...), make([]byte, 300)...)
	index, err := homology.NewIndex([]homology.Protein{{ID: "x", Gene: "x", Seq: known}})
	require.NoError(t, err)
	for _, reverse := range []bool{false, true} {
		c, gene := Contig{Name: "c", Seq: seq}, Gene{Start: 3*broken + 2, End: 3*len(known) + 2, Reverse: reverse}
		low, high := 3*(broken+1-mostMissing), gene.End
		if reverse {
			n := len(seq)
			c.Seq = reverseComplement(seq)
			gene.Start, gene.End, low, high = n-gene.End, n-gene.Start, n-high, n-low
		}
		r := &Result{Code: 11, Genes: []Gene{gene}}
		require.NoError(t, r.Name(t.Context(), []Contig{c}, &Naming{Known: index, Identity: .5, Coverage: .8}))
		require.Len(t, r.Pseudogenes, 1)
		p := r.Pseudogenes[0]
		require.Equal(t, []Fault{Frameshift}, p.Faults)
		require.InDelta(t, low, p.Start, 9)
		require.InDelta(t, high, p.End, 9)
		require.InDelta(t, float64(len(known)-broken+mostMissing)/float64(len(known)), p.Coverage, .001)
	}
}

// TestSelenocysteineIsNoFault: the rest of a selenoprotein lies behind a stop codon that is read as an amino acid.
func TestSelenocysteineIsNoFault(t *testing.T) {
	testenv.CalculatesLong(t)
	t.Parallel()
	contigs, _, known := lambdaGenes(t)
	i := slices.IndexFunc(known, func(p homology.Protein) bool { return p.Gene == "H" })
	h := known[i]
	h.Seq = bytes.Clone(h.Seq)
	h.Seq[400] = 'U'
	const middle = 10542 - 1 + 3*400
	c := []Contig{{Name: "c", Seq: slices.Concat(contigs[0].Seq[:middle], []byte("TGA"), contigs[0].Seq[middle+3:])}}
	index, err := homology.NewIndex([]homology.Protein{h})
	require.NoError(t, err)
	r, err := Find(t.Context(), c, Options{Code: 11})
	require.NoError(t, err)
	require.NoError(t, r.Name(t.Context(), c, &Naming{Known: index, Identity: .5, Coverage: .8}))
	require.Empty(t, r.Pseudogenes)
}
