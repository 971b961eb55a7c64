package eval_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/variant/eval"
	"github.com/porestream/porestream/vcf"
)

// reference makes a genome of one contig "c".
func reference(tb testing.TB, seq string) *genome.Genome {
	tb.Helper()
	g, err := genome.Read(strings.NewReader(">c\n" + seq + "\n"))
	require.NoError(tb, err)
	return g
}

// set makes a set of records that are written "POS REF ALT GT", with further FORMAT values behind: "GQ=30 PS=5".
func set(tb testing.TB, name string, lines ...string) eval.Set {
	tb.Helper()
	r, err := vcf.NewReader(strings.NewReader(vcfText(lines...)))
	require.NoError(tb, err)
	return eval.Set{Name: name, Records: r}
}

func vcfText(lines ...string) string {
	var b strings.Builder
	b.WriteString("##fileformat=VCFv4.2\n##contig=<ID=c>\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\tS\n")
	for _, l := range lines {
		f := strings.Fields(l)
		qual, filter, keys, values := ".", ".", "GT", f[3]
		for _, kv := range f[4:] {
			k, v, _ := strings.Cut(kv, "=")
			switch k {
			case "QUAL":
				qual = v
			case "FILTER":
				filter = v
			default:
				keys, values = keys+":"+k, values+":"+v
			}
		}
		fmt.Fprintf(&b, "c\t%s\t.\t%s\t%s\t%s\t%s\t.\t%s\t%s\n", f[0], f[1], f[2], qual, filter, keys, values)
	}
	return b.String()
}

// compare compares sets over a reference.
func compare(tb testing.TB, seq string, truth, query []string, opts eval.Options) *eval.Result {
	tb.Helper()
	r, err := eval.Compare(context.Background(), reference(tb, seq), set(tb, "truth", truth...), set(tb, "query", query...), opts)
	require.NoError(tb, err)
	return r
}

// brief is the outcome in short: truth found/missed, query right/wrong, of those wrong with the right allele.
func brief(r *eval.Result, kind string) string {
	row := r.Row("all", kind)
	f := row.Primary()
	return fmt.Sprintf("%d/%d %d/%d gt%d", f.TruthTP, f.TruthFN, f.QueryTP, f.QueryFP, row.WrongGenotype)
}

func TestCompare(t *testing.T) {
	t.Parallel()
	const (
		//          1234567890123456789012345678901234567890
		plain    = "ACGTTGCAACGGTCATGCCTAGATCGTACCGATTGCAGTC"
		runs     = "GCTAAAAAAAAGTCACACACACAGTTGACCATGATTACAG"
		tetramer = "CCGATAGATAGATAGATACCGTTTGCA"
	)
	for _, tt := range []struct {
		name         string
		seq          string
		truth, query []string
		opts         eval.Options
		want         string
	}{
		{name: "nothing", seq: plain, want: "0/0 0/0 gt0"},
		{name: "same SNP", seq: plain, truth: []string{"5 T C 0/1"}, query: []string{"5 T C 0/1"}, want: "1/0 1/0 gt0"},
		{name: "missed", seq: plain, truth: []string{"5 T C 0/1"}, want: "0/1 0/0 gt0"},
		{name: "invented", seq: plain, query: []string{"5 T C 0/1"}, want: "0/0 0/1 gt0"},
		{name: "other allele", seq: plain, truth: []string{"5 T C 0/1"}, query: []string{"5 T G 0/1"}, want: "0/1 0/1 gt0"},
		{name: "orders of an unphased genotype", seq: plain, truth: []string{"5 T C 0/1"}, query: []string{"5 T C 1/0"}, want: "1/0 1/0 gt0"},
		{name: "phase of a lone variant says nothing", seq: plain, truth: []string{"5 T C 0|1"}, query: []string{"5 T C 1|0"}, want: "1/0 1/0 gt0"},
		{name: "wrong genotype", seq: plain, truth: []string{"5 T C 0/1"}, query: []string{"5 T C 1/1"}, want: "0/1 0/1 gt1"},
		{name: "wrong genotype, alleles alone", seq: plain, truth: []string{"5 T C 0/1"}, query: []string{"5 T C 1/1"}, opts: eval.Options{Squash: true}, want: "1/0 1/0 gt1"},
		{name: "haploid and diploid", seq: plain, truth: []string{"5 T C 1"}, query: []string{"5 T C 1/1"}, want: "0/1 0/1 gt1"},
		{name: "haploid and diploid of one ploidy", seq: plain, truth: []string{"5 T C 1"}, query: []string{"5 T C 1/1"}, opts: eval.Options{OnePloidy: true}, want: "1/0 1/0 gt0"},
		{name: "haploid and het are not the same of one ploidy", seq: plain, truth: []string{"5 T C 1"}, query: []string{"5 T C 0/1"}, opts: eval.Options{OnePloidy: true}, want: "0/1 0/1 gt1"},
		{name: "half call", seq: plain, truth: []string{"5 T C 0/1"}, query: []string{"5 T C ./1"}, want: "1/0 1/0 gt0"},
		{name: "deletion anywhere in a homopolymer", seq: runs, truth: []string{"3 TA T 0/1"}, query: []string{"10 AA A 0/1"}, want: "1/0 1/0 gt0"},
		{name: "deletion of two anywhere", seq: runs, truth: []string{"3 TAA T 1/1"}, query: []string{"8 AAA A 1/1"}, want: "1/0 1/0 gt0"},
		{name: "two deletions of one are one of two", seq: runs, truth: []string{"3 TAA T 1/1"}, query: []string{"3 TA T 1/1", "8 AA A 1/1"}, want: "1/0 2/0 gt0"},
		{name: "deletions of one on each haplotype are not one of two", seq: runs, truth: []string{"3 TAA T 0/1"}, query: []string{"3 TA T 0/1", "8 AA A 0/1"}, opts: eval.Options{}, want: "1/0 2/0 gt0"},
		{name: "the same, phased apart", seq: runs, truth: []string{"3 TAA T 0/1"}, query: []string{"3 TA T 0|1", "8 AA A 1|0"}, want: "0/1 0/2 gt2"},
		{name: "wrong length", seq: runs, truth: []string{"3 TAA T 1/1"}, query: []string{"3 TA T 1/1"}, want: "0/1 0/1 gt0"},
		{name: "insertion of a unit at any copy", seq: tetramer, truth: []string{"3 G GATAG 0/1"}, query: []string{"17 T TAGAT 0/1"}, want: "1/0 1/0 gt0"},
		{name: "dinucleotide repeat", seq: runs, truth: []string{"13 TCA T 0/1"}, query: []string{"21 ACA A 0/1"}, want: "1/0 1/0 gt0"},
		{name: "dinucleotide repeat, inside", seq: runs, truth: []string{"13 TCA T 0/1"}, query: []string{"20 CAC C 0/1"}, want: "1/0 1/0 gt0"},
		{name: "MNP and its SNPs", seq: plain, truth: []string{"5 TG CA 0/1"}, query: []string{"5 T C 0/1", "6 G A 0/1"}, want: "2/0 2/0 gt0"},
		{name: "MNP and half of it", seq: plain, truth: []string{"5 TG CA 0/1"}, query: []string{"6 G A 0/1"}, want: "1/1 1/0 gt0"},
		{name: "MNP and its SNPs on two haplotypes", seq: plain, truth: []string{"5 TG CA 0/1"}, query: []string{"5 T C 0|1", "6 G A 1|0"}, want: "1/1 1/1 gt1"},
		{name: "MNP and its SNPs on two haplotypes, phase ignored", seq: plain, truth: []string{"5 TG CA 0/1"}, query: []string{"5 T C 0|1", "6 G A 1|0"}, opts: eval.Options{IgnorePhase: true}, want: "2/0 2/0 gt0"},
		{name: "both phases swapped", seq: plain, truth: []string{"5 T C 0|1", "8 A G 1|0"}, query: []string{"5 T C 1|0", "8 A G 0|1"}, want: "2/0 2/0 gt0"},
		{name: "neighbours that are phased otherwise", seq: plain, truth: []string{"5 T C 0|1", "8 A G 1|0"}, query: []string{"5 T C 1|0", "8 A G 1|0"}, want: "1/1 1/1 gt1"},
		{name: "neighbours of other phase sets", seq: plain, truth: []string{"5 T C 0|1", "8 A G 1|0"}, query: []string{"5 T C 1|0 PS=5", "8 A G 1|0 PS=8"}, want: "2/0 2/0 gt0"},
		{name: "SNP and deletion as one record", seq: plain, truth: []string{"5 T C 1/1", "7 CA C 1/1"}, query: []string{"5 TGCA CGC 1/1"}, want: "2/0 2/0 gt0"},
		{name: "padding", seq: plain, truth: []string{"5 T C 1/1"}, query: []string{"3 GTTG GTCG 1/1"}, want: "1/0 1/0 gt0"},
		{name: "lower case", seq: plain, truth: []string{"5 t c 1/1"}, query: []string{"5 T C 1/1"}, want: "1/0 1/0 gt0"},
		{name: "1/2 and two records", seq: plain, truth: []string{"5 T C,G 1/2"}, query: []string{"5 T C 0/1", "5 T G 0/1"}, want: "2/0 2/0 gt0"},
		{name: "1/2 and half of it", seq: plain, truth: []string{"5 T C,G 1/2"}, query: []string{"5 T C 0/1"}, want: "1/1 1/0 gt0"},
		{name: "1/2 and 1/1", seq: plain, truth: []string{"5 T C,G 1/2"}, query: []string{"5 T C 1/1"}, want: "0/2 0/1 gt1"},
		{name: "1/2 indels of a homopolymer", seq: runs, truth: []string{"3 TAA T,TA 1/2"}, query: []string{"3 TA T 1/1", "8 AA A 0/1"}, want: "2/0 2/0 gt0"},
		{name: "1/2 that share an SNP", seq: plain, truth: []string{"5 TG CG,CA 1/2"}, query: []string{"5 T C 1/1", "6 G A 0/1"}, want: "2/0 2/0 gt0"},
		{name: "spanning deletion", seq: plain, truth: []string{"5 TGC T 0/1", "6 G A,* 1/2"}, query: []string{"5 TGC T 0|1", "6 G A 1|0"}, want: "2/0 2/0 gt0"},
		{name: "deletion and SNP inside of it on the other haplotype", seq: plain, truth: []string{"5 TGCA T 0/1", "7 C A 0/1"}, query: []string{"5 TGCA T 0/1", "7 C A 0/1"}, want: "2/0 2/0 gt0"},
		{name: "a set that contradicts itself", seq: plain, truth: []string{"5 TGCA T 1/1", "7 C A 1/1"}, query: []string{"5 TGCA T 1/1", "7 C A 1/1"}, want: "2/0 2/0 gt0"},
		{name: "a variant twice", seq: plain, truth: []string{"5 T C 1/1"}, query: []string{"5 T C 1/1", "5 T C 1/1"}, want: "1/0 1/1 gt0"},
		{name: "an insertion and a deletion that undo each other", seq: runs, truth: []string{"3 T TA 1/1", "9 AA A 1/1"}, want: "0/2 0/0 gt0"},
		{name: "the same beside a true one", seq: runs, truth: []string{"3 T TA 1/1", "9 AA A 1/1", "12 G C 1/1"}, query: []string{"12 G C 1/1"}, want: "1/2 1/0 gt0"},
		{name: "a shift instead of substitutions", seq: plain, truth: []string{"4 TTGCA TTTGC 1/1"}, query: []string{"4 T TT 1/1", "7 CA C 1/1"}, want: "3/0 2/0 gt0"},
		{name: "insertion before the first base", seq: plain, truth: []string{"1 A GA 1/1"}, query: []string{"1 A GA 1/1"}, want: "1/0 1/0 gt0"},
		{name: "deletion of the last base", seq: plain, truth: []string{"39 TC T 1/1"}, query: []string{"39 TC T 1/1"}, want: "1/0 1/0 gt0"},
		{name: "filtered", seq: plain, truth: []string{"5 T C 1/1"}, query: []string{"5 T C 1/1 FILTER=LowQual"}, want: "0/1 0/0 gt0"},
		{name: "filtered, all", seq: plain, truth: []string{"5 T C 1/1"}, query: []string{"5 T C 1/1 FILTER=LowQual"}, opts: eval.Options{All: true}, want: "1/0 1/0 gt0"},
		{name: "no variants", seq: plain, truth: []string{"5 T C 0/0", "6 G <*> 0/0", "7 C A ./.", "8 A <NON_REF> 0/1"}, query: []string{"5 T . 0/0"}, want: "0/0 0/0 gt0"},
		{name: "gVCF style", seq: plain, truth: []string{"5 T C,<*> 0/1"}, query: []string{"5 T C,<NON_REF> 0/1"}, want: "1/0 1/0 gt0"},
		{name: "symbolic", seq: plain, truth: []string{"5 T <DEL> 0/1", "9 A A[c:20[ 0/1"}, want: "0/0 0/0 gt0"},
		{name: "too long", seq: plain, truth: []string{"5 TGCAACG T 0/1"}, opts: eval.Options{MaxLength: 5}, want: "0/0 0/0 gt0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, brief(compare(t, tt.seq, tt.truth, tt.query, tt.opts), "ALL"))
		})
	}
}
