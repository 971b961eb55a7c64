package catalogue_test

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/vrs"
	"github.com/porestream/porestream/watchlist"
	"github.com/porestream/porestream/watchlist/catalogue"
)

// graded are the genes of the rules for a gene as a whole: symbol and locus tag.
func graded() [][2]string {
	return [][2]string{{"rpoB", "Rv0667"}, {"katG", "Rv1908c"}, {"pncA", "Rv2043c"}, {"gid", "Rv3919c"}, {"ethA", "Rv3854c"}}
}

// small is a genome with a gene on each strand, each 21 bases: at 11 to 31 (M K P L S E stop), and at 52 to 72 in reverse, the same sequence.
// Behind are genes of 460 residues with the given symbols and locus tags.
func small(t testing.TB, more ...[2]string) (*genome.Genome, *annotate.Annotator) {
	t.Helper()
	const gene, reversed = "ATGAAACCCTTAAGCGAGTAA", "TTACTCGCTTAAGGGTTTCAT"
	seq := "GATTACAGCA" + gene + "GCATCAGTCCATTGCAGACT" + reversed + "CCATGGTCAA"
	rows := `##gff-version 3
c . gene 11 31 . + . ID=gene-F1;Name=fwd;gene_biotype=protein_coding
c . CDS 11 31 . + 0 ID=cds-F;Parent=gene-F1;protein_id=PF
c . gene 52 72 . - . ID=gene-R1;Name=rev;gene_biotype=protein_coding
c . CDS 52 72 . - 0 ID=cds-R;Parent=gene-R1;protein_id=PR
`
	for _, g := range more {
		start := len(seq) + 1
		seq += "ATG" + strings.Repeat("GCA", 459) + "TAA"
		rows += fmt.Sprintf("c . gene %d %d . + . ID=gene-%s;Name=%s;gene_biotype=protein_coding\nc . CDS %d %d . + 0 ID=cds-%[3]s;Parent=gene-%[3]s;protein_id=P%[3]s\n",
			start, len(seq), g[1], g[0], start, len(seq))
	}
	g, err := genome.Read(strings.NewReader(">c\n" + seq + "\n"))
	require.NoError(t, err)
	m, err := annotate.ReadModel(strings.NewReader(strings.ReplaceAll(rows, " ", "\t")), g)
	require.NoError(t, err)
	return g, annotate.New(g, m)
}

// made is the panel of a table with blanks for tabs.
func made(t testing.TB, table string) (string, error) {
	t.Helper()
	return madeOf(t, strings.ReplaceAll(table, " ", "\t"), graded()...)
}

func madeOf(t testing.TB, table string, genes ...[2]string) (string, error) {
	t.Helper()
	g, a := small(t, genes...)
	var out bytes.Buffer
	_, err := catalogue.Tuberculosis(&out, strings.NewReader(table), catalogue.WHO2021(), g, a)
	return out.String(), err
}

// taken holds a panel to its reader.
func taken(t testing.TB, panel string, g *genome.Genome, a *annotate.Annotator) *watchlist.Panel {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p.yaml")
	require.NoError(t, os.WriteFile(path, []byte(panel), 0o600))
	p, err := watchlist.Load(path)
	require.NoError(t, err)
	_, err = watchlist.New(g, a, p)
	require.NoError(t, err)
	return p
}

// TestTuberculosisPlacesMutations is worked out by pass on the small genome.
func TestTuberculosisPlacesMutations(t *testing.T) {
	for _, c := range []struct{ row, want string }{
		{"fwd K2R PROT x 1", `hgvs: ["fwd:p.K2R"]`},
		{"F1 A4G DNA x 1", `vcf: ["c:14:A:G"]`},
		{"fwd A-1T DNA x 2", `vcf: ["c:10:A:T"]`},
		{"fwd M1T PROT x 1", `vcf: ["c:12:T:C"]`},
		{"fwd ACC6A DNA x 2", `vcf: ["c:16:ACC:A"]`},
		{"rev A4G DNA x 1", `vcf: ["c:69:T:C"]`},
		{"rev G-1T DNA x 1", `vcf: ["c:73:C:A"]`},
		{"rev M1T PROT x 1", `vcf: ["c:71:A:G"]`},
		{"rev CG16C DNA x 2", `vcf: ["c:57:CG:C"]`},
		{"rev GC15G DNA x 2", `vcf: ["c:58:GC:G"]`},        // on the genome's strand, from base 15 of the gene on
		{"rev AAACC4AAACGC DNA x 2", `vcf: ["c:65:G:GC"]`}, // in the gene's direction, as the other doesn't fit
	} {
		got, err := made(t, c.row+"\n")
		require.NoError(t, err, c.row)
		require.Contains(t, got, "match: {"+c.want+"}", c.row)
	}
}

func TestTuberculosisJoinsDrugs(t *testing.T) {
	for _, tt := range []struct{ rows, label string }{
		{"fwd K2R PROT x 2\nfwd K2R PROT y 1\nfwd K2R PROT y 1\nfwd P3L PROT z 3\n", "x (group 2), y (group 1)\"\n  severity: group-1\n"},
		{"fwd K2R PROT x 2\nfwd K2R PROT x 1\n", "x (group 1)\"\n  severity: group-1\n"},
		{"fwd K2R PROT x 1\nfwd K2R PROT y 2\nfwd K2R PROT x 2\n", "x (group 1), y (group 2)\"\n  severity: group-1\n"},
	} {
		got, err := made(t, "gene mutation alphabet drug grading\n"+tt.rows)
		require.NoError(t, err)
		require.Contains(t, got, "- id: \"fwd_K2R\"\n  label: \"resistance to "+tt.label)
		require.Equal(t, 1+len(graded()), strings.Count(got, "- id:"))
	}
}

// TestTablesComeInManyForms: the same panel is made of a table however editors and archives left it.
func TestTablesComeInManyForms(t *testing.T) {
	const rows = "fwd\tK2R\tPROT\tx y\t1\nrev\tA4G\tDNA\tx\t2\n"
	want, err := madeOf(t, rows, graded()...)
	require.NoError(t, err)
	var zip bytes.Buffer
	z := gzip.NewWriter(&zip)
	_, err = z.Write([]byte("gene\tmutation\talphabet\tdrug\tgrading\n" + rows))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	for name, table := range map[string]string{
		"header":               "gene\tmutation\talphabet\tdrug\tgrading\n" + rows,
		"capitals":             "Gene\tMutation\tAlphabet\tDrug\tGrading\n" + rows,
		"byte-order mark":      "\xef\xbb\xbfgene\tmutation\talphabet\tdrug\tgrading\n" + rows,
		"no header, mark":      "\xef\xbb\xbf" + rows,
		"behind a comment":     "# of 2021\n\n  \nGENE\tmutation\talphabet\tdrug\tgrading\n" + rows,
		"carriage returns":     strings.ReplaceAll(rows, "\n", "\r\n"),
		"blanks":               strings.ReplaceAll(strings.ReplaceAll(rows, "\t", " \t"), "\n", " \t\n"),
		"compressed":           zip.String(),
		"no line feed, at end": strings.TrimSpace(rows),
	} {
		got, err := madeOf(t, table, graded()...)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
	}
	_, err = madeOf(t, rows+"gene\tmutation\talphabet\tdrug\tgrading\n", graded()...)
	require.ErrorContains(t, err, `line 3: the grading "grading"`)
	_, err = madeOf(t, zip.String()[:zip.Len()-9], graded()...)
	require.ErrorContains(t, err, "cut short")
}

// TestGenesAsAWhole: the grades for a gene as a whole are there for each gene, whatever the annotation calls it.
func TestGenesAsAWhole(t *testing.T) {
	const table = "fwd\tK2R\tPROT\tx\t1\n"
	for i, g := range graded() {
		rule := map[bool]string{true: g[0] + "_RRDR", false: g[0] + "_loss"}[g[0] == "rpoB"]
		for _, tt := range []struct{ symbol, tag, want string }{
			{g[0], g[1], g[0]},
			{"x_" + g[0], g[1], g[1]},
			{g[0], "other", g[0]},
			{"x_" + g[0], "other", ""},
		} {
			genes := graded()
			genes[i] = [2]string{tt.symbol, tt.tag}
			got, err := madeOf(t, table, genes...)
			if tt.want == "" {
				require.EqualError(t, err, fmt.Sprintf("rule %s, of %s as a whole: neither %s nor %s is among the genes: give the annotation of H37Rv, NC_000962.3", rule, g[0], g[0], g[1]))
				continue
			}
			require.NoError(t, err)
			require.Contains(t, got, fmt.Sprintf("- id: %q\n", rule))
			require.Contains(t, got, fmt.Sprintf("match: {gene: %q, ", tt.want))
			ref, a := small(t, genes...)
			require.Equal(t, 1+len(graded()), taken(t, got, ref, a).Rules())
		}
	}
}

// TestMetadataIsRefusedFirst: the metadata of a panel is refused first, or accepted by the reader of panels.
func TestMetadataIsRefusedFirst(t *testing.T) {
	g, a := small(t)
	for _, tt := range []struct {
		head catalogue.Head
		want string
	}{
		{catalogue.Head{ID: "x", Version: "1"}, ""},
		{catalogue.Head{ID: "null", Version: "~", Source: "a: \"b\" # ü", Date: " ", Licence: "{"}, ""},
		{catalogue.Head{ID: "1.0", Version: " "}, ""},
		{catalogue.Head{ID: "x y", Version: "1"}, `id "x y" is not made of`},
		{catalogue.Head{ID: "", Version: "1"}, `id "" is not made of`},
		{catalogue.Head{ID: strings.Repeat("x", 201), Version: "1"}, "is not made of 1 to 200"},
		{catalogue.Head{ID: "x"}, "version is empty"},
		{catalogue.Head{ID: "x", Version: "1\n2"}, `version "1\n2" is longer`},
		{catalogue.Head{ID: "x", Version: "1", Source: strings.Repeat("x", 1001)}, "source"},
		{catalogue.Head{ID: "x", Version: "1", Licence: "a\tb"}, `licence "a\tb"`},
	} {
		var out bytes.Buffer
		_, err := catalogue.Lineages(&out, strings.NewReader("c\t0\t1\tL1\tA\n"), tt.head, g)
		if tt.want != "" {
			require.ErrorContains(t, err, tt.want)
			require.Empty(t, out.Bytes())
			continue
		}
		require.NoError(t, err)
		p := taken(t, out.String(), g, a)
		require.Equal(t, []string{tt.head.ID, tt.head.Version, tt.head.Source}, []string{p.ID, p.Version, p.Source})
	}
}

func TestTablesThatDontFitAreRefused(t *testing.T) {
	for _, c := range []struct{ table, want string }{
		{"fwd K2R PROT x\n", "line 1: want 5 cells"},
		{"fwd K2R PROT x 9\n", `line 1: the grading "9" is not 1 to 5`},
		{"odd K2R PROT x 1\n", `line 1: gene "odd" is not among the genes`},
		{"fwd R2K PROT x 1\n", "line 1: fwd R2K: residue 2 of fwd is K in the reference"},
		{"fwd K99R PROT x 1\n", "residue 99 of fwd is outside of the protein"},
		{"fwd K2fs PROT x 1\n", `mutation "K2fs" is not one of a residue`},
		{"fwd C4G DNA x 1\n", "fwd C4G: the reference has A there, not C"},
		{"fwd A4A DNA x 1\n", "is the reference itself"},
		{"fwd A0G DNA x 1\n", `mutation "A0G" is not one of bases`},
		{"fwd A9999G DNA x 1\n", "the reference has  there, not A"},
		{"fwd A4G RNA x 1\n", `the alphabet "RNA" is neither DNA nor PROT`},
		{"fwd K2R PROT x 4\n", "no row has the grading 1 or 2"},
		{"fwd K2R PROT x(y) 1\n", `the drug "x(y)" is not 1 to 40`},
		{"", "no row has the grading 1 or 2"},
	} {
		_, err := made(t, c.table)
		require.ErrorContains(t, err, c.want, c.table)
	}
}

func TestLineages(t *testing.T) {
	g, _ := small(t)
	lines := func(table string) (string, catalogue.Barcode, error) {
		var out bytes.Buffer
		made, err := catalogue.Lineages(&out, strings.NewReader(strings.ReplaceAll(table, " ", "\t")), catalogue.Head{ID: "l", Version: "1"}, g)
		return out.String(), made, err
	}
	got, n, err := lines("Chromosome 0 1 L1 A x\nChromosome 0 1 L4 G\nChromosome 1 2 L1.1 C\nChromosome 2 3 L1 G\nChromosome 1 2 L1 A\nChromosome 0 1 L4.9 G\nChromosome 1 2 L4 A\n")
	require.NoError(t, err)
	require.Equal(t, catalogue.Barcode{Rules: 2, LeftOut: 4, Without: []string{"L4", "L4.9"}}, n)
	require.Contains(t, got, "- id: \"L1\"\n  label: \"lineage L1\"\n  severity: info\n  match: {vcf: [\"c:1:G:A\", \"c:3:T:G\"]}\n")
	for table, want := range map[string]string{
		"c 0 1 L1\n":        "line 1: want 5 cells",
		"c 0 2 L1 A\n":      "line 1: 0 to 2 is not one position of c",
		"c 999 1000 L1 A\n": "is not one position of c, which has 82 bases",
		"c 0 1 L1 AC\n":     `the base of L1 is "AC"`,
		"c 0 1 L(1) A\n":    `the lineage "L(1)" is not made of`,
		"c 0 1 L1 G\n":      "no position where a lineage differs",
	} {
		_, _, err := lines(table)
		require.ErrorContains(t, err, want)
	}
}

// FuzzTuberculosis checks that the reader of panels accepts the panel made of any table, on the same reference.
func FuzzTuberculosis(f *testing.F) {
	for _, s := range []string{"fwd\tK2R\tPROT\tx\t1\n", "rev\tGC15G\tDNA\t\"x\\\t2\n", "fwd\tM1T\tPROT\t\x00\t1\n"} {
		f.Add(s)
	}
	g, a := small(f, graded()...)
	f.Fuzz(func(t *testing.T, table string) {
		var out bytes.Buffer
		if _, err := catalogue.Tuberculosis(&out, strings.NewReader(table), catalogue.WHO2021(), g, a); err != nil {
			return
		}
		taken(t, out.String(), g, a)
	})
}

// whoFolder is a folder with h37rv.fa, h37rv.gff3 (NC_000962.3 and its RefSeq annotation), who-panel.tsv (the catalogue of 2021 as a table of gene, mutation, alphabet, drug and
// grading) and who-catalogue.tsv (the same with places on the genome). Their terms don't allow them to be here.
const whoFolder = "PORESTREAM_WHO_TB"

// TestEachGradedMutationIsDetected plants 300 mutations of the catalogue, one in a sample each, as bases worked out from the catalogue's own places or, for residues, by a
// slow translation here, and asks the panel.
func TestEachGradedMutationIsDetected(t *testing.T) {
	dir := os.Getenv(whoFolder)
	if dir == "" {
		t.Skip("needs " + whoFolder + ", a folder with H37Rv and the WHO's catalogue")
	}
	g, err := genome.Load(filepath.Join(dir, "h37rv.fa"))
	require.NoError(t, err)
	m, err := annotate.LoadModel(filepath.Join(dir, "h37rv.gff3"), g)
	require.NoError(t, err)
	a := annotate.New(g, m)
	table, err := os.ReadFile(filepath.Join(dir, "who-panel.tsv"))
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "tb.yaml")
	out, err := os.Create(path)
	require.NoError(t, err)
	n, err := catalogue.Tuberculosis(out, bytes.NewReader(table), catalogue.WHO2021(), g, a)
	require.NoError(t, err)
	require.NoError(t, out.Close())
	require.Greater(t, n, 1000)
	p, err := watchlist.Load(path)
	require.NoError(t, err)
	w, err := watchlist.New(g, a, p)
	require.NoError(t, err)

	places := placesOf(t, filepath.Join(dir, "who-catalogue.tsv"))
	genes := genesOf(t, filepath.Join(dir, "h37rv.gff3"))
	var rows [][]string
	for line := range strings.Lines(string(table)) {
		if c := strings.Split(strings.TrimSpace(line), "\t"); c[4] == "1" || c[4] == "2" {
			rows = append(rows, c)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	kinds := map[string]int{}
	planted := 0
	for _, row := range rows {
		if planted == 300 {
			break
		}
		e, kind := planted1(t, g.Contigs[0].Seq, genes[row[0]], row, places, rng)
		if kind == "" {
			continue // the catalogue gives no position
		}
		kinds[kind]++
		planted++
		v := variantOf(t, g, a, e)
		found := false
		for _, alert := range w.NewTracker("s").Variant(v) {
			found = found || alert.State == watchlist.Detected && strings.HasPrefix(alert.Rule, row[0]+"_") && strings.Contains(alert.Label, row[3]+" (group "+row[4]+")")
		}
		require.True(t, found, "%v as %+v", row, e)
	}
	require.Equal(t, 300, planted)
	t.Log(kinds)
}

// placesOf are the places of the catalogue's changes of bases: by drugless name, as "ethA_111_del_1_ct_c" or "eis_c-14t".
func placesOf(t *testing.T, path string) map[string]int {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	r := csv.NewReader(f)
	r.Comma = '\t'
	places := map[string]int{}
	for {
		cells, err := r.Read()
		if err == io.EOF {
			return places
		}
		require.NoError(t, err)
		if at, err := strconv.ParseFloat(cells[3], 64); err == nil {
			places[cells[2]] = int(at)
		}
	}
}

// geneOf is a gene's row of GFF3.
type geneOf struct {
	start, end int
	forward    bool
}

func genesOf(t *testing.T, path string) map[string]geneOf {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	genes := map[string]geneOf{}
	name := regexp.MustCompile(`;Name=([^;]+)`)
	for line := range strings.Lines(string(text)) {
		c := strings.Split(line, "\t")
		if len(c) < 9 || c[2] != "gene" {
			continue
		}
		start, _ := strconv.Atoi(c[3])
		end, _ := strconv.Atoi(c[4])
		genes[name.FindStringSubmatch(c[8])[1]] = geneOf{start - 1, end, c[6] == "+"}
	}
	return genes
}

// planted1 is a row's change on the genome; "" where the catalogue doesn't give its position.
func planted1(t *testing.T, seq []byte, on geneOf, row []string, places map[string]int, rng *rand.Rand) (vrs.Edit, string) {
	t.Helper()
	turn := func(s string) string {
		b := []byte(s)
		slices.Reverse(b)
		for i := range b {
			b[i] = "TGCA"[strings.IndexByte("ACGT", b[i])]
		}
		return string(b)
	}
	if row[2] == "DNA" {
		m := regexp.MustCompile(`^([ACGT]+)(-?\d+)([ACGT]+)$`).FindStringSubmatch(row[1])
		if len(m[1]) == 1 && len(m[3]) == 1 {
			at, ok := places[fmt.Sprintf("%s_%s%s%s", row[0], strings.ToLower(m[1]), m[2], strings.ToLower(m[3]))]
			if !ok {
				return vrs.Edit{}, ""
			}
			if !on.forward {
				return vrs.Edit{Start: at - 1, Ref: turn(m[1]), Alt: turn(m[3])}, "base"
			}
			return vrs.Edit{Start: at - 1, Ref: m[1], Alt: m[3]}, "base"
		}
		kind, size := "del", len(m[1])-len(m[3])
		if size < 0 {
			kind, size = "ins", -size
		}
		at, ok := places[fmt.Sprintf("%s_%s_%s_%d_%s_%s", row[0], m[2], kind, size, strings.ToLower(m[1]), strings.ToLower(m[3]))]
		if !ok {
			return vrs.Edit{}, ""
		}
		return vrs.Edit{Start: at - 1, Ref: m[1], Alt: m[3]}.Trim().Anchored(seq), kind
	}
	m := regexp.MustCompile(`^([A-Z])(\d+)([A-Z*])$`).FindStringSubmatch(row[1])
	n, _ := strconv.Atoi(m[2])
	start := on.start + 3*(n-1)
	if !on.forward {
		start = on.end - 3*n
	}
	before := string(seq[start : start+3])
	const residues = "FFLLSSSSYY**CC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG"
	var fit []string
	for i := range len(residues) {
		codon := string([]byte{"TCAG"[i/16], "TCAG"[i/4%4], "TCAG"[i%4]})
		if !on.forward {
			codon = turn(codon)
		}
		differ := 0
		for j := range 3 {
			if codon[j] != before[j] {
				differ++
			}
		}
		if residues[i] == m[3][0] && (n > 1 || differ == 1) {
			fit = append(fit, codon)
		}
	}
	return vrs.Edit{Start: start, Ref: before, Alt: fit[rng.IntN(len(fit))]}.Trim(), "residue"
}

// variantOf is a call that 30 of 30 reads show.
func variantOf(t *testing.T, g *genome.Genome, a *annotate.Annotator, e vrs.Edit) *event.Variant {
	t.Helper()
	contig := g.Contigs[0]
	require.Equal(t, e.Ref, string(contig.Seq[e.Start:e.End()]))
	id, err := vrs.AlleleID(contig.Digest(), contig.Seq, e.Start, e.Ref, e.Alt)
	require.NoError(t, err)
	annotation, err := a.Annotate(contig.Name, e.Start+1, e.Ref, e.Alt)
	require.NoError(t, err)
	return &event.Variant{
		SchemaVersion: event.SchemaVersion, Run: "run", Sample: "s", Revision: 1, Status: "PROVISIONAL",
		Allele:     event.Allele{VRSID: id, Contig: contig.Name, Pos: int64(e.Start) + 1, Ref: e.Ref, Alt: e.Alt},
		Call:       event.Call{Qual: 40, Depth: 30, AltForward: 15, AltReverse: 15, Genotype: []uint32{1}},
		Annotation: annotation,
	}
}
