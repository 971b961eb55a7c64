package annotate

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/testenv"
)

func load(t testing.TB, fasta, gff string) *Annotator {
	t.Helper()
	g, err := genome.Load(fasta)
	if err != nil {
		t.Fatal(err)
	}
	m, err := LoadModel(gff, g)
	if err != nil {
		t.Fatal(err)
	}
	return New(g, m)
}

func lambda(t testing.TB) *Annotator {
	dir := filepath.Join("..", "testdata", "lambda")
	return load(t, filepath.Join(dir, "reference.fa"), filepath.Join(dir, "genes.gff3"))
}

func sarscov2(t testing.TB) *Annotator {
	return load(t, testenv.Recordings(t, "sarscov2-r9/NC_045512.2.fa"), testenv.Recordings(t, "sarscov2-r9/genes.gff3"))
}

func ecoli(t testing.TB) *Annotator {
	return load(t, testenv.Recordings(t, "ecoli-r9/MG1655.fa.gz"), testenv.Recordings(t, "ecoli-r9/genes.gff3.gz"))
}

// TestKnownVariants are variants whose consequence is known from elsewhere: the four of the lambda run's truth, and
// four that nearly all SARS-CoV-2 genomes since 2020 have.
func TestKnownVariants(t *testing.T) {
	const l, s = "J02459.1", "NC_045512.2"
	la, sa := lambda, sarscov2
	for _, c := range []struct {
		load                func(testing.TB) *Annotator
		contig              string
		pos                 int
		ref, alt            string
		gene, term          string
		hgvsc, hgvsp, codon string
	}{
		{la, l, 37589, "C", "T", "cI", "missense_variant", "lambdap88:c.352G>A", "lambdap88:p.Glu118Lys", "Gag/Aag"},
		{la, l, 37742, "C", "T", "cI", "missense_variant", "lambdap88:c.199G>A", "lambdap88:p.Ala67Thr", "Gca/Aca"},
		{la, l, 43082, "G", "A", "NinH", "missense_variant", "lambdap69:c.43G>A", "lambdap69:p.Ala15Thr", "Gca/Aca"},
		{la, l, 45352, "G", "A", "S", "stop_gained", "lambdap74:c.167G>A", "lambdap74:p.Trp56Ter", "tGg/tAg"},
		{sa, s, 23403, "A", "G", "S", "missense_variant", s + "(YP_009724390.1):c.1841A>G", "YP_009724390.1:p.Asp614Gly", "gAt/gGt"},
		{sa, s, 14408, "C", "T", "ORF1ab", "missense_variant", s + "(YP_009724389.1):c.14144C>T", "YP_009724389.1:p.Pro4715Leu", "cCt/cTt"},
		{sa, s, 3037, "C", "T", "ORF1ab", "synonymous_variant", s + "(YP_009724389.1):c.2772C>T", "YP_009724389.1:p.Phe924=", "ttC/ttT"},
		{sa, s, 241, "C", "T", "ORF1ab", "upstream_gene_variant", "", "", ""},
		// The base that ORF1ab reads twice, once on either side of the slip.
		{sa, s, 13468, "C", "G", "ORF1ab", "missense_variant", s + "(YP_009724389.1):c.13203C>G", "YP_009724389.1:p.Asn4401_Arg4402delinsLysGly", "aaCCgg/aaGGgg"},
	} {
		t.Run(c.contig+":"+itoa(c.pos), func(t *testing.T) {
			ann, err := c.load(t).Annotate(c.contig, c.pos, c.ref, c.alt)
			if err != nil {
				t.Fatal(err)
			}
			got := ann.Consequences[0]
			if ann.MostSevere.Term != c.term || ann.MostSevere.Gene != c.gene || got.HGVSc != c.hgvsc || got.HGVSp != c.hgvsp || got.Codons != c.codon {
				t.Errorf("%s:%d%s>%s: %+v %s %s %s", c.contig, c.pos, c.ref, c.alt, ann.MostSevere, got.HGVSc, got.HGVSp, got.Codons)
			}
			if want := c.contig + ":g." + itoa(c.pos) + c.ref + ">" + c.alt; ann.HGVSg != want {
				t.Errorf("HGVSg %s, want %s", ann.HGVSg, want)
			}
		})
	}
}

func BenchmarkAnnotate(b *testing.B) {
	for _, c := range []struct {
		name string
		load func(testing.TB) *Annotator
	}{{"lambda", lambda}, {"ecoli", ecoli}} {
		a := c.load(b)
		contig := a.genome.Contigs[0]
		const others = "CGTA"
		for _, kind := range []string{"snv", "deletion"} {
			b.Run(c.name+"/"+kind, func(b *testing.B) {
				b.ReportAllocs()
				pos := 0
				for b.Loop() {
					pos = (pos + 7919) % (len(contig.Seq) - 10)
					ref := string(contig.Seq[pos : pos+1])
					alt := others[strings.IndexByte("ACGT", ref[0])%4:][:1]
					if kind == "deletion" {
						ref = string(contig.Seq[pos : pos+3])
						alt = ref[:1]
					}
					if _, err := a.Annotate(contig.Name, pos+1, ref, alt); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "variants/s")
			})
		}
	}
}

// TestProteomes translates every coding sequence of three genomes: each begins with methionine and has its only stop
// at its end, so phases, strands, genetic codes, slips and selenocysteines are read right.
func TestProteomes(t *testing.T) {
	dir := filepath.Join("..", "testdata", "lambda")
	phage, err := genome.Load(filepath.Join(dir, "reference.fa"))
	if err != nil {
		t.Fatal(err)
	}
	// Nine of lambda's genes begin with GTG, and the file does not name the genetic code.
	genes, err := ModelReader{Codes: GeneticCodes{Default: 11}}.Load(phage, filepath.Join(dir, "genes.gff3"))
	if err != nil {
		t.Fatal(err)
	}
	for name, load := range map[string]func(testing.TB) *Annotator{
		"lambda": func(testing.TB) *Annotator { return New(phage, genes) }, "sarscov2": sarscov2, "ecoli": ecoli,
	} {
		t.Run(name, func(t *testing.T) {
			coding, odd := 0, 0
			for _, track := range load(t).model.contigs {
				for _, tx := range track.transcripts {
					if tx.cds == nil {
						continue
					}
					coding++
					var protein []byte
					for i := 0; tx.reference(i) != 0; i++ {
						protein = append(protein, tx.reference(i))
					}
					if protein[0] != 'M' || bytes.IndexByte(protein, '*') != len(protein)-1 || tx.cdsLen%3 != 0 {
						odd++
						t.Logf("%s: %s", tx.id, protein)
					}
				}
			}
			if coding < 12 || odd > 0 {
				t.Errorf("%d of %d coding sequences are odd", odd, coding)
			}
		})
	}
}
