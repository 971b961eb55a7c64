package pipe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/haplotype"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/vcf"
)

// oneGene is a genome with a gene of one transcript; symbol, gene and transcript are names.
func oneGene(t testing.TB, symbol, gene, transcript string) (*genome.Genome, *annotate.Model) {
	t.Helper()
	g, err := genome.Read(strings.NewReader(">c\nATGGCTGCTGCTGCTTAA\n"))
	require.NoError(t, err)
	encode := func(s string) string { // every byte, as GFF3 allows
		var b strings.Builder
		for i := range len(s) {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
		return b.String()
	}
	rows := "##gff-version 3\n" +
		"c\t.\tgene\t1\t18\t.\t+\t.\tID=g;biotype=protein_coding;Name=" + encode(symbol) + ";gene_id=" + encode(gene) + "\n" +
		"c\t.\tmRNA\t1\t18\t.\t+\t.\tID=t;Parent=g;biotype=protein_coding;transcript_id=" + encode(transcript) + "\n" +
		"c\t.\tCDS\t1\t18\t.\t+\t0\tParent=t;protein_id=" + encode(transcript) + "\n"
	m, err := annotate.ReadModel(strings.NewReader(rows), g)
	require.NoError(t, err)
	return g, m
}

// annotated is a VCF of a missense variant of that gene with CSQ, ANN and BCSQ.
func annotated(t testing.TB, symbol, gene, transcript string) string {
	t.Helper()
	g, m := oneGene(t, symbol, gene, transcript)
	genes, err := haplotype.NewGenes(g, m, false)
	require.NoError(t, err)
	in := "##fileformat=VCFv4.3\n##contig=<ID=c,length=18>\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\nc\t4\t.\tG\tA\t.\t.\t.\n"
	var out bytes.Buffer
	_, err = Annotate(context.Background(), strings.NewReader(in), &out, annotate.New(g, m), Options{
		Options:      annotate.Options{Fields: []annotate.Field{annotate.CSQ, annotate.ANN}},
		Transformers: []Transformer{haplotype.NewAnnotator(genes, haplotype.Options{}, nil, false, slog.New(slog.DiscardHandler))},
		Threads:      1,
	})
	require.NoError(t, err)
	return out.String()
}

// check holds an annotated VCF to the names that are in it.
func check(t testing.TB, text, symbol, transcript string) {
	t.Helper()
	require.True(t, utf8.ValidString(text), "%q", text)
	r, err := vcf.NewReader(strings.NewReader(text))
	require.NoError(t, err)
	rec, err := r.Next()
	require.NoError(t, err, "%q", text)
	require.Len(t, rec.Info, 3, "%q", text)
	fields := func(key string) []string {
		value, ok := rec.Info.Get(key)
		require.True(t, ok, "%s in %q", key, text)
		require.NotContains(t, value, ",", "one consequence is one value")
		require.NotContains(t, value, " ")
		return strings.Split(value, "|")
	}
	require.Len(t, fields("CSQ"), 26)
	require.Len(t, fields("ANN"), 16)
	bcsq := fields("BCSQ")
	require.Len(t, bcsq, 7)
	require.Equal(t, []string{symbol, transcript}, []string{vcf.Unescape(bcsq[1]), vcf.Unescape(bcsq[2])})
	_, err = r.Next()
	require.True(t, errors.Is(err, io.EOF), "the record is one line")
}

// Whatever a gene and a transcript are called, the annotated file is a VCF, and BCSQ gives the names back.
func FuzzNamesInVCF(f *testing.F) {
	f.Add("ORF1;ORF2, partial", "a|b=c", "T%1")
	f.Add("x\ny\tz", "\x00\x07\xff", "é\xc3")
	f.Fuzz(func(t *testing.T, symbol, gene, transcript string) {
		if symbol == "" || gene == "" || transcript == "" {
			return
		}
		for _, prefix := range []string{"gene:", "transcript:", "CDS:", "gene-", "rna-", "cds-"} {
			if strings.HasPrefix(transcript, prefix) {
				return // is cut off
			}
		}
		check(t, annotated(t, symbol, gene, transcript), symbol, transcript)
	})
}

// The same for random names of the characters that mean something somewhere, read back by bcftools and htslib too.
func TestNamesInVCFReadBack(t *testing.T) {
	bcftools, err := exec.LookPath("bcftools")
	if err != nil {
		t.Log("bcftools isn't installed: only our own reader reads back")
	}
	letters := []string{"A", "b", "0", ";", ",", "|", "=", "%", "&", " ", "\t", "\n", "\r", "\v", "\x00", "\x7f", "\"", "'", ":", "\\", "é", "\xff", "%3B", "@", "*", "("}
	rnd := rand.New(rand.NewPCG(48, 7))
	name := func() string {
		s := "n"
		for range 1 + rnd.IntN(6) {
			s += letters[rnd.IntN(len(letters))]
		}
		return s
	}
	var all strings.Builder
	for range 300 {
		symbol, gene, transcript := name(), name(), name()
		text := annotated(t, symbol, gene, transcript)
		check(t, text, symbol, transcript)
		if head, line, ok := strings.Cut(text, "INFO\n"); all.Len() == 0 {
			all.WriteString(text)
		} else {
			require.True(t, ok, head)
			all.WriteString(line)
		}
	}
	if bcftools == "" {
		return
	}
	cmd := exec.Command(bcftools, "view", "--no-version", "-H")
	cmd.Stdin = strings.NewReader(all.String())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	require.Empty(t, stderr.String())
	_, lines, _ := strings.Cut(all.String(), "INFO\n")
	require.Equal(t, lines, string(out), "bcftools reads what was written")
}
