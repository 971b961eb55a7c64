package watchlist_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/watchlist"
)

// spliced is a genome with a gene of two transcripts and an intron on each strand, and a circular one with a gene
// across its origin.
func spliced(t testing.TB) (*genome.Genome, *annotate.Annotator) {
	t.Helper()
	rng := rand.New(rand.NewPCG(42, 43))
	bases := func(n int) []byte {
		s := make([]byte, n)
		for i := range s {
			s[i] = "ACGT"[rng.IntN(4)]
		}
		return s
	}
	chr, ring := bases(900), bases(300)
	// Start codons where the genes begin, so that the proteins are whole.
	copy(chr[100:], "ATG")
	copy(chr[697:], "CAT")
	copy(ring[270:], "ATG")
	g, err := genome.Read(strings.NewReader(fmt.Sprintf(">chr\n%s\n>ring\n%s\n", chr, ring)))
	require.NoError(t, err)
	m, err := annotate.ReadModel(strings.NewReader(strings.ReplaceAll(`##gff-version 3
ring . region 1 300 . + . ID=ring;Is_circular=true
chr . gene 101 350 . + . ID=gene:F;Name=FWD
chr . mRNA 101 350 . + . ID=transcript:F1;Parent=gene:F;tag=MANE_Select
chr . exon 101 150 . + . Parent=transcript:F1
chr . CDS 101 150 . + 0 Parent=transcript:F1;protein_id=PF1
chr . exon 201 350 . + . Parent=transcript:F1
chr . CDS 201 321 . + 1 Parent=transcript:F1;protein_id=PF1
chr . mRNA 101 350 . + . ID=transcript:F2;Parent=gene:F
chr . exon 101 350 . + . Parent=transcript:F2
chr . CDS 101 289 . + 0 Parent=transcript:F2;protein_id=PF2
chr . gene 501 700 . - . ID=gene:R;Name=REV
chr . mRNA 501 700 . - . ID=transcript:R1;Parent=gene:R
chr . exon 641 700 . - . Parent=transcript:R1
chr . CDS 641 700 . - 0 Parent=transcript:R1;protein_id=PR1
chr . exon 501 590 . - . Parent=transcript:R1
chr . CDS 501 590 . - 0 Parent=transcript:R1;protein_id=PR1
ring . gene 271 330 . + . ID=gene:O;Name=ORI
ring . mRNA 271 330 . + . ID=transcript:O1;Parent=gene:O
ring . exon 271 330 . + . Parent=transcript:O1
ring . CDS 271 330 . + 0 Parent=transcript:O1;protein_id=PO1
`, " ", "\t")), g)
	require.NoError(t, err)
	require.Equal(t, 4, m.Transcripts())
	return g, annotate.New(g, m)
}

// loaded checks a panel of these rules.
func loaded(t testing.TB, g *genome.Genome, a *annotate.Annotator, rules string) *watchlist.Watch {
	t.Helper()
	p, err := watchlist.Load(folder(t, head+"rules:\n"+rules))
	require.NoError(t, err)
	w, err := watchlist.New(g, a, p)
	require.NoError(t, err)
	return w
}

// TestCodonsAreWhereTheAnnotationHasThem compares the places of rules about codons with the residues that the
// annotation gives to a substitution of every base: across introns, on both strands, around an origin, and where a
// ribosome slips.
func TestCodonsAreWhereTheAnnotationHasThem(t *testing.T) {
	g, a := spliced(t)
	for _, transcript := range []string{"F1", "F2", "R1", "O1"} {
		t.Run(transcript, func(t *testing.T) { compareCodons(t, g, a, transcript, "chr", 1, 900) })
	}
	dir := filepath.Join("..", "testdata", "sarscov2")
	virus, err := genome.Load(filepath.Join(dir, "reference.fa.gz"))
	require.NoError(t, err)
	m, err := annotate.LoadModel(filepath.Join(dir, "genes.gff3"), virus)
	require.NoError(t, err)
	t.Run("slippage", func(t *testing.T) {
		compareCodons(t, virus, annotate.New(virus, m), "YP_009724389.1", "NC_045512.2", 13400, 13540)
	})
}

// compareCodons evaluates the bases from to to of a contig, and of the circular one.
func compareCodons(t *testing.T, g *genome.Genome, a *annotate.Annotator, transcript, contig string, from, to int) {
	places := map[string]map[string]bool{} // residue, place
	note := func(contig string, pos int) {
		ref := g.Contig(contig).Seq[pos-1]
		alt := "A"
		if ref == 'A' {
			alt = "C"
		}
		ann, err := a.Annotate(contig, pos, string(ref), alt)
		require.NoError(t, err)
		for _, c := range ann.Consequences {
			if c.Feature != nil && c.Feature.ID == transcript && c.Protein != "" {
				first, last, isRange := strings.Cut(c.Protein, "-")
				if !isRange {
					last = first
				}
				for _, residue := range []string{first, last} {
					if places[residue] == nil {
						places[residue] = map[string]bool{}
					}
					places[residue][fmt.Sprintf("%s:%d", contig, pos)] = true
				}
			}
		}
	}
	for pos := from; pos <= to; pos++ {
		note(contig, pos)
	}
	if g.Contig("ring") != nil {
		for pos := 1; pos <= 300; pos++ {
			note("ring", pos)
		}
	}
	require.Greater(t, len(places), 19)
	checked := 0
	for residue, want := range places {
		if len(want) < 2 {
			continue // at the edge of the evaluated bases
		}
		w := loaded(t, g, a, fmt.Sprintf("- id: r\n  match: {transcript: %s, codon: %s}\n", transcript, residue))
		got := map[string]bool{}
		for _, p := range w.Resolve()[0].Places {
			for pos := p.Start + 1; pos <= p.End; pos++ {
				got[fmt.Sprintf("%s:%d", p.Contig, pos)] = true
			}
		}
		if len(want) < 3 && len(got) == 3 {
			continue // at the edge
		}
		require.Equal(t, want, got, "residue %s", residue)
		checked++
	}
	require.Greater(t, checked, 17)
}

// TestSpansAndFlags checks which parts of a gene are evaluated.
func TestSpansAndFlags(t *testing.T) {
	g, a := spliced(t)
	for _, tt := range []struct{ match, want string }{
		{"{gene: FWD}", "chr:101-350"}, // F2 has no intron
		{"{gene: FWD, flag: mane_select}", "chr:101-158 chr:193-350"},
		{"{gene: FWD, flag: mane_select, span: coding}", "chr:101-150 chr:201-321"},
		{"{transcript: F1, span: gene}", "chr:101-350"},
		{"{gene: FWD, transcript: F1, span: coding}", "chr:101-150 chr:201-321"},
		{"{transcript: PF1}", "chr:101-158 chr:193-350"},
		{"{gene: REV}", "chr:501-598 chr:633-700"},
		{"{gene: R, codon: 20-21}", "chr:588-590 chr:641-643"},
		{"{gene: ORI}", "ring:1-30 ring:271-300"},
		{"{gene: [REV, ORI], span: coding}", "chr:501-590 chr:641-700 ring:1-30 ring:271-300"},
		{"{gene: FWD, region: [\"chr:90-110\", \"chr:340-400\"]}", "chr:101-110 chr:340-350"},
		{"{impact: HIGH, flag: mane_select}", "chr:101-158 chr:193-350"},
		{"{impact: HIGH}", "chr:101-350 chr:501-598 chr:633-700 ring:1-30 ring:271-300"},
		{"{region: ring}", "ring:1-300"},
	} {
		t.Run(tt.match, func(t *testing.T) {
			w := loaded(t, g, a, "- id: r\n  match: "+tt.match+"\n")
			var places []string
			for _, p := range w.Targets() {
				places = append(places, p.String())
			}
			require.Equal(t, tt.want, strings.Join(places, " "))
		})
	}
}

// TestCodonAlleles: what reads are counted for of a change of one residue is all codons that the annotation says make it,
// and no others; of a codon over two exons each part by itself.
func TestCodonAlleles(t *testing.T) {
	g, a := spliced(t)
	names := map[byte]string{'A': "Ala", 'R': "Arg", 'N': "Asn", 'D': "Asp", 'C': "Cys", 'Q': "Gln", 'E': "Glu", 'G': "Gly", 'H': "His", 'I': "Ile",
		'L': "Leu", 'K': "Lys", 'M': "Met", 'F': "Phe", 'P': "Pro", 'S': "Ser", 'T': "Thr", 'W': "Trp", 'Y': "Tyr", 'V': "Val", '*': "Ter"}
	whole, split := 0, 0
	for _, contig := range g.Contigs {
		for _, v := range a.Model().TranscriptsOn(contig.Name) {
			for n := 2; v.Residue(n) != 0 && v.Residue(n) != '*'; n++ {
				for _, now := range "KL*" {
					if byte(now) == v.Residue(n) {
						continue
					}
					change := fmt.Sprintf("%s%d%s", names[v.Residue(n)], n, names[byte(now)])
					w := loaded(t, g, a, fmt.Sprintf("- id: r\n  match: {hgvs: \"%s:p.%s\"}\n", v.ID, change))
					makes := func(start int, alt string) bool {
						ref := string(contig.Seq[start : start+len(alt)])
						if ref == alt {
							return false
						}
						ann, err := a.Annotate(contig.Name, start+1, ref, alt)
						require.NoError(t, err)
						return slices.ContainsFunc(ann.Consequences, func(c annotate.Consequence) bool {
							return c.Feature != nil && c.Feature.ID == v.ID && strings.HasSuffix(c.HGVSp, ":p."+change)
						})
					}
					var counted []string
					for _, k := range w.Named() {
						require.Equal(t, contig.Name, k.Contig)
						require.Equal(t, v.ID+":p."+change, k.Name)
						for _, e := range k.Alleles {
							require.Equal(t, string(contig.Seq[e.Start:e.End()]), e.Ref)
							counted = append(counted, fmt.Sprint(e.Start, e.Alt))
						}
					}
					places := w.Resolve()[0].Places
					var want []string
					if len(places) == 1 {
						for i := range 64 {
							if alt := string([]byte{"ACGT"[i/16], "ACGT"[i/4%4], "ACGT"[i%4]}); makes(places[0].Start, alt) {
								want = append(want, fmt.Sprint(places[0].Start, alt))
							}
						}
						require.ElementsMatch(t, want, counted, change)
						whole++
						continue
					}
					split++
					for _, p := range places {
						for i := range 16 {
							alt := string([]byte{"ACGT"[i/4], "ACGT"[i%4]})[:p.End-p.Start]
							if makes(p.Start, alt) {
								require.Contains(t, counted, fmt.Sprint(p.Start, alt), change)
							}
						}
					}
				}
			}
		}
	}
	require.Greater(t, whole, 100)
	require.Greater(t, split, 2)
}
