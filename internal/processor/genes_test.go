package processor

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genome"
)

// TestGenesReportWhatIsWrong reads two files with faults: each kind is logged in a few lines, and what is right is used.
func TestGenesReportWhatIsWrong(t *testing.T) {
	g, err := genome.Read(strings.NewReader(">c\nATGGCTTGAGGATAA\n"))
	require.NoError(t, err)
	dir := t.TempDir()
	first, second := filepath.Join(dir, "genes.gff3"), filepath.Join(dir, "more.gtf")
	rows := "c\tx\tCDS\t1\t15\t.\t+\t0\tID=p\n" + strings.Repeat("c\tx\texon\t1\t9\t.\t+\t.\tParent=missing\n", 50)
	require.NoError(t, os.WriteFile(first, []byte(rows), 0o600))
	require.NoError(t, os.WriteFile(second, []byte("c\tx\texon\t1\t9\t.\t+\t.\tgene_id \"g\"; transcript_id \"t\";\n"), 0o600))

	var genes Genes
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	genes.Register(flags)
	require.NoError(t, flags.Parse([]string{"--gff", first, "--gff", second, "--genetic-code", "11,c=2", "--circular", "c"}))
	var log bytes.Buffer
	a, err := genes.Annotator(t.Context(), g, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(log.String(), "50 in all: an exon or CDS whose parent no row describes"))
	require.Equal(t, 3, strings.Count(log.String(), "line "))
	got, err := a.Annotate("c", 9, "A", "G")
	require.NoError(t, err)
	require.Equal(t, "synonymous_variant", got.MostSevere.Term, "code 2 reads TGA as tryptophan: %+v", got.Consequences)

	require.Error(t, flags.Parse([]string{"--genetic-code", "c=7"}))
	none, err := new(Genes).Annotator(t.Context(), g, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	got, err = none.Annotate("c", 9, "A", "G")
	require.NoError(t, err)
	require.Equal(t, "intergenic_variant", got.MostSevere.Term)
}

// TestFingerprintOfGenes: it is that of what is read, however the files are called, and of how it is read.
func TestFingerprintOfGenes(t *testing.T) {
	g, err := genome.Read(strings.NewReader(">c\nATGGCTTGAGGATAA\n"))
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	of := func(genes Genes) string {
		sum, err := genes.fingerprint(g, "")
		require.NoError(t, err)
		return sum
	}
	a, b, other := write("a", "genes"), write("b", "genes"), write("c", "other genes")
	want := of(Genes{Paths: []string{a}})
	require.Equal(t, want, of(Genes{Paths: []string{b}}))
	require.NotEqual(t, want, of(Genes{Paths: []string{other}}))
	require.NotEqual(t, want, of(Genes{Paths: []string{a, b}}))
	require.NotEqual(t, want, of(Genes{Paths: []string{a}, Reader: annotate.ModelReader{Circular: []string{"c"}}}))
	require.NotEqual(t, want, of(Genes{Paths: []string{a}, Reader: annotate.ModelReader{Codes: annotate.GeneticCodes{Default: 11}}}))
	_, err = (&Genes{Paths: []string{filepath.Join(dir, "missing")}}).fingerprint(g, "")
	require.ErrorContains(t, err, "reading genes: ")
}

// TestGenesOfRNA finds the genes of a phage whose reference is written as RNA.
func TestGenesOfRNA(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "lambda", "reference.fa"))
	require.NoError(t, err)
	header, sequence, _ := strings.Cut(string(text), "\n")
	find := func(sequence string) string {
		g, err := genome.Read(strings.NewReader(header + "\n" + sequence))
		require.NoError(t, err)
		found, err := new(Finding).Find(t.Context(), g)
		require.NoError(t, err)
		var out bytes.Buffer
		require.NoError(t, found.Write(&out))
		return out.String()
	}
	dna := find(sequence)
	require.Greater(t, strings.Count(dna, "\tCDS\t"), 60)
	require.Equal(t, dna, find(strings.ReplaceAll(sequence, "T", "U")))
}

// TestGenesAreFound annotates a phage without an annotation of it.
func TestGenesAreFound(t *testing.T) {
	reference := filepath.Join("..", "..", "testdata", "lambda", "reference.fa")
	var genes Genes
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	genes.Register(flags)
	require.NoError(t, flags.Parse([]string{"--gff", "auto"}))
	g, err := genes.Genome(reference)
	require.NoError(t, err)
	var log bytes.Buffer
	a, err := genes.Annotator(t.Context(), g, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	require.Contains(t, log.String(), "gene models are predicted, no annotation")
	for _, tt := range []struct {
		pos       int
		ref, alt  string
		term, aas string
	}{
		{37589, "C", "T", "missense_variant", "p.Glu118Lys"},
		{37742, "C", "T", "missense_variant", "p.Ala67Thr"},
		{43082, "G", "A", "missense_variant", "p.Ala15Thr"},
		{45352, "G", "A", "stop_gained", "p.Trp56Ter"},
	} {
		got, err := a.Annotate("J02459.1", tt.pos, tt.ref, tt.alt)
		require.NoError(t, err)
		require.Equal(t, tt.term, got.MostSevere.Term)
		require.Contains(t, got.Consequences[0].HGVSp, tt.aas)
		require.Contains(t, got.GeneModels, "genetic code 11 (found)")
	}
	with, err := genes.fingerprint(g, a.Model().Origin)
	require.NoError(t, err)
	without, err := new(Genes).fingerprint(g, "")
	require.NoError(t, err)
	require.NotEqual(t, with, without)

	// Known proteins name what they are like, and state is made anew with them.
	var named Genes
	known := pflag.NewFlagSet("test", pflag.ContinueOnError)
	named.Register(known)
	require.NoError(t, known.Parse([]string{"--gff", "auto", "--proteins", filepath.Join("..", "..", "testdata", "lambda", "genes.gff3") + "," + reference}))
	b, err := named.Annotator(t.Context(), g, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	got, err := b.Annotate("J02459.1", 37589, "C", "T")
	require.NoError(t, err)
	require.Equal(t, "cI", got.Consequences[0].Gene.Symbol)
	require.Equal(t, "p.Glu118Lys", got.Consequences[0].HGVSp[strings.Index(got.Consequences[0].HGVSp, "p."):])
	other, err := named.fingerprint(g, b.Model().Origin)
	require.NoError(t, err)
	require.NotEqual(t, with, other)
	_, err = named.WithFunctions(b, []string{reference}, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "reading functions")
	same, err := named.WithFunctions(b, nil, nil)
	require.NoError(t, err)
	require.Same(t, b, same)

	// Sets are found by a gene of the model, by one of the known proteins that it is like, or by none, which is said.
	for member, want := range map[string]string{"PORE_00001": "", "lambdap02": "", "cI": "", "CI_HUMAN": "no gene has functions of this file"} {
		sets := filepath.Join(t.TempDir(), "sets.gmt")
		require.NoError(t, os.WriteFile(sets, []byte("set\t-\t"+member+"\n"), 0o600))
		log.Reset()
		_, err = named.WithFunctions(b, []string{sets}, slog.New(slog.NewTextHandler(&log, nil)))
		require.NoError(t, err)
		if want == "" {
			require.Empty(t, log.String(), member)
			continue
		}
		require.Contains(t, log.String(), want)
	}

	// The summary says how many known proteins a file of terms knows.
	gaf := filepath.Join(t.TempDir(), "terms.gaf")
	require.NoError(t, os.WriteFile(gaf, []byte("!gaf-version: 2.2\n"+
		"X\tlambdap02\tnone\tenables\tGO:0005524\tPMID:1\tIDA\t\tF\t\t\tprotein\ttaxon:1\t20260101\tX\t\t\n"+
		"X\tother\tnu1\tenables\tGO:0003677\tPMID:1\tIDA\t\tF\t\t\tprotein\ttaxon:1\t20260101\tX\t\t\n"), 0o600))
	finding := Finding{Naming: named.Naming}
	finding.Naming.Functions = []string{gaf}
	found, err := finding.Find(t.Context(), g)
	require.NoError(t, err)
	require.Contains(t, found.Summary(), "named after 73 known proteins, 2 of which have terms of --functions")

	// A contig that is said to be circular is so in what was found too.
	var circular Genes
	again := pflag.NewFlagSet("test", pflag.ContinueOnError)
	circular.Register(again)
	require.NoError(t, again.Parse([]string{"--gff", "auto", "--circular", "all"}))
	_, err = circular.Annotator(t.Context(), g, slog.New(slog.DiscardHandler))
	require.NoError(t, err)

	for want, flag := range map[string][]string{
		"leave out the other --gff": {"--gff", "auto", "--gff", "x.gff3"},
		"one number":                {"--gff", "auto", "--genetic-code", "J02459.1=4"},
		"circular contig":           {"--gff", "auto", "--circular", "x"},
	} {
		var genes Genes
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		genes.Register(flags)
		require.NoError(t, flags.Parse(flag))
		_, err := genes.Annotator(t.Context(), g, slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, want)
	}
}
