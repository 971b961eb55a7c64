package eval_test

import (
	"context"
	"encoding/xml"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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

// The cases of vcfeval's own tests, in VcfEvalNanoTest and PathTest of rtg-tools (github.com/RealTimeGenomics/rtg-tools), with
// the outcome that it has for them.
func TestCasesOfVcfeval(t *testing.T) {
	t.Parallel()
	const unit = "TCTATCTATCTATCTATCTATCTATCATCTATCTATCATCTCTCTCTCTCTCTCTCTCTCNNNNNNNNNN"
	for _, tt := range []struct {
		name         string
		seq          string
		truth, query []string
		opts         eval.Options
		want         string
	}{
		{
			// The alternative set maximises the sum of both sides without one of the calls.
			name: "tricky2", seq: "AAAAAAAAAATAAAAAAAATAAAATGGACCCCCCCCGG", opts: eval.Options{Squash: true},
			truth: []string{"1 A AT 1", "2 A T 0|1", "4 A AT 1", "6 A T 0|1", "11 T A 0|1", "11 TAA T 1", "13 A T 0|1"},
			query: []string{"2 A T 0|1", "6 A T 0|1", "11 T A 0|1", "13 A T 0|1"}, want: "4/3 4/0 gt0",
		},
		{
			// vcfeval: 4 of 4 records on both sides.
			name: "tricky3", seq: "TGACGCTGGTGGATCACGATGTCAGGAGATC", opts: eval.Options{Squash: true},
			truth: []string{"2 GACGC G 1/1", "10 T C 1/1", "11 G GGGCA 1/1", "20 T G 1/1"},
			query: []string{"3 AC TG 1|1", "7 T G 1|1", "10 TG CA 1|1", "20 T G 1|1"}, want: "4/0 6/0 gt0",
		},
		{
			// "Ideally should just choose the snp as baseline TP, but vcfeval currently includes all three variants."
			name: "tricky4", seq: "CAAAAAAAAAAAAT",
			truth: []string{"1 C CA 0/1", "5 A T 0/1", "8 AA A 0/1"}, query: []string{"5 A T 0/1"}, want: "1/2 1/0 gt0",
		},
		{
			name: "all matches", opts: eval.Options{IgnorePhase: true},
			seq:   "ACAATATATACAAGTTTGTTCTCCAATAGGTTTAGTTTGCTCTCTCTCTCTCTCTCTCTCTGTGTGTGTGTGTGCATGTGTGTGTGTGTGTGTGTGTGTGTNNNNNNNNNN",
			truth: []string{"60 C G 0/1", "62 G C 0|1", "64 G C 0|1", "74 GCA G 1|0", "75 C T 0|1", "76 A G 0|1"},
			query: []string{"39 G GCT 0/1", "60 C G 0/1", "62 G C 0/1", "74 GCA G 0/1"}, want: "5/1 4/0 gt0",
		},
		{
			name: "avoid overlap", seq: unit,
			truth: []string{"31 ATCTATCATCTCTCTCTC A 0/1", "38 ATCTCTCTC ATCTC 0/1", "44 C A 0/1"},
			query: []string{"31 ATCTATCATCTCTCTCTC A 0/1", "38 ATCTCTCTC ATCTC 0/1", "44 C A 0/1"}, want: "3/0 3/0 gt0",
		},
		{name: "nop", seq: "TTTAAAATTTNNNNNNNNNN", query: []string{"7 A A,T 2/1"}, want: "0/0 0/1 gt0"},
		{
			name: "updel", seq: "TTTCCATGTTTGTATTCTAAAGAGAACTGCNNNNNNNNNN",
			truth: []string{"11 TG T 0|1", "12 G C,* 1|2"}, query: []string{"12 G C 0/1"}, want: "1/1 1/0 gt0",
		},
		{
			name: "trickysquash", seq: "ATGGCAAACAGTTTGTTGGAGGGAGTGTGTGAGTACTAGTGTATATATATATATATATATTTATTTATTTATTTATTTATANNNNNNNNNN",
			truth: []string{"41 G GTATA 1|1", "61 T A 1|0"}, query: []string{"41 G GTATA 0/1", "60 T TA 0/1", "61 T TATA 0/1"}, want: "2/0 3/0 gt0",
		},
		{name: "PathTest real world tricky", seq: "AAGAAAAAC", truth: []string{"2 A AGACTA 0/1"}, query: []string{"4 A ACTAGA 0/1"}, want: "1/0 1/0 gt0"},
		{name: "PathTest 2", seq: "AAAAAAC", truth: []string{"2 A G 1/1", "3 AA A 1/1"}, query: []string{"2 A G 1/1", "4 AA A 1/1"}, want: "2/0 2/0 gt0"},
		{name: "PathTest 5", seq: "AAAAAAC", truth: []string{"2 A G,T 1/2"}, query: []string{"2 A T,G 1/2"}, want: "2/0 2/0 gt0"},
		// vcfeval counts records: 1 false. The atom that both have is right here.
		{name: "PathTest 6", seq: "AAAAAAC", truth: []string{"2 A G,T 1/2"}, query: []string{"2 A T,C 1/2"}, want: "1/1 1/1 gt0"},
		{name: "PathTest 9", seq: "AAAAAAC", truth: []string{"1 AA A 1/1", "3 A C 0/1"}, query: []string{"1 AA A 1/1", "3 A C 1/0"}, want: "2/0 2/0 gt0"},
		{name: "hap.py haploid", seq: "CAAAAAA", truth: []string{"5 A T 1"}, query: []string{"5 A T 1/1"}, opts: eval.Options{OnePloidy: true}, want: "1/0 1/0 gt0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, brief(compare(t, tt.seq, tt.truth, tt.query, tt.opts), "ALL"))
		})
	}
}

// The cases that hap.py (github.com/Illumina/hap.py) ships with an expected outcome: leftshifting_example in its four places,
// fp_region_accuracy and numeric_chrs.
func TestCasesOfHappy(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		seq, bed     string
		truth, query []string
		want         string
		unknown      int
	}{
		{
			name:  "leftshifting, deletions",
			seq:   "CTCTCTCTGTCATAGGGACTCTGGATCCCAGAAGGTGAGAAAGTTAAAATTCCCGTCGCTATCAAGGAATTAAGAGAAGCAACATCTCCGAAAGCCAACAAGGAAATCCTCGATGTGAGTTTCTGC",
			truth: []string{"3 CTC C 0/1", "5 CTC C 0/1", "69 ATTAAGAGAA A 0/1", "83 CATCTCCGAAAGCCAACAAGGAAAT C 0/1"},
			query: []string{"3 CTCTC C 0/1", "66 GGAATTAAGA G 0/1", "83 CATCTCCGAAAGCCAACAAGGAAAT C 0/1"}, want: "4/0 3/0 gt0",
		},
		{
			name:  "leftshifting, a site with two alleles", // at 2209
			seq:   "CTCTCTCTAAATATATATATATCTCTCTCTAAATATATATATATCCCTAAATATATTAAATAAATAAAAG",
			truth: []string{"15 ATA A 0/1", "17 ATA A 0/1", "32 AAT A,AATAT 2/1"},
			query: []string{"15 ATATA A 0/1", "35 ATA A 0/1", "39 A ATA 0/1"}, want: "4/0 3/0 gt0",
		},
		{
			name:  "leftshifting, insertions", // at 3669
			seq:   "AGGTGTACTGTGTGTGTGTCTCCCACG",
			truth: []string{"9 T TGT 0/1", "11 T TGT 0/1"},
			query: []string{"18 G GTGTG 0/1"}, want: "2/0 1/0 gt0",
		},
		{
			name:  "leftshifting, insertions around an SNP", // at 6570
			seq:   "CCTCTCCCTCCCTCCAGGAAGCCTACGTGATGGCCAGCGTGGACAACCCCCACGTGTGCCGCCTGCTGGGCATCTGCCTCAC",
			truth: []string{"24 T TTCCAGGAAGCCT 0/1", "37 G T 0/1", "41 G GGCCAGCGTG 0/1", "45 A AGCGTGGACA 0/1"},
			query: []string{"24 T TTCCAGGAAGCCT 0/1", "30 A ATGGCCAGCG 0/1", "34 C CCAGCGTGGA 0/1", "37 G T 0/1"}, want: "4/0 4/0 gt0",
		},
		{
			name: "fp_region_accuracy", seq: "C" + strings.Repeat("A", 662), bed: "c\t0\t4\tfp\nc\t4\t5\ttp\nc\t5\t6\tfp",
			truth: []string{"5 A T 0/1", "105 AAAAA AAAAATC 1/1"},
			query: []string{"2 A T 0/1", "4 A T 0/1", "5 A T 0/1", "6 A T 0/1", "7 A T 0/1"}, want: "1/0 1/3 gt0", unknown: 1,
		},
		{
			name: "numeric_chrs", seq: "GTTTTT", bed: "c\t1\t2\ttp\nc\t2\t3\tfp\n",
			truth: []string{"2 T A 0/1"}, query: []string{"2 T A 0/1", "3 T A 0/1", "4 T A 0/1"}, want: "1/0 1/1 gt0", unknown: 1,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var opts eval.Options
			if tt.bed != "" {
				var err error
				opts.Regions, err = eval.ReadRegions(strings.NewReader(tt.bed), reference(t, tt.seq))
				require.NoError(t, err)
			}
			r := compare(t, tt.seq, tt.truth, tt.query, opts)
			assert.Equal(t, tt.want, brief(r, "ALL"))
			assert.Equal(t, tt.unknown, r.Row("all", "ALL").NotAssessed)
		})
	}
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
		{name: "the same around a true one", seq: runs, truth: []string{"3 T TA 1/1", "6 A C 1/1", "9 AA A 1/1"}, query: []string{"6 A C 1/1"}, want: "1/2 1/0 gt0"},
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

func TestErrors(t *testing.T) {
	t.Parallel()
	g, err := genome.Read(strings.NewReader(">c\nACGTTGCAACGGTCATGCCTAGATCGTACCGATTGCAGTC\n>d\nACGTACGTAA\n"))
	require.NoError(t, err)
	header := "##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\tA"
	row := func(chrom, pos, ref, alt, gt string) string {
		return strings.Join([]string{chrom, pos, ".", ref, alt, ".", ".", ".", "GT", gt}, "\t") + "\n"
	}
	for _, tt := range []struct{ name, text, sample, want string }{
		{"another reference", header + "\n" + row("c", "5", "A", "C", "0/1"), "", "file.vcf: line 3: c:5 has REF A, the reference T: is it another reference?"},
		{"unknown contig", header + "\n" + row("chr7", "5", "A", "C", "0/1"), "", "file.vcf: line 3: the reference has no contig chr7: is it another reference?"},
		{"behind the end", header + "\n" + row("d", "10", "AA", "A", "0/1"), "", "file.vcf: line 3: d:10 with 2 bases lies outside of the contig, which has 10: is it another reference?"},
		{"unsorted", header + "\n" + row("c", "8", "A", "C", "0/1") + row("c", "5", "T", "C", "0/1"), "", "file.vcf: line 4: c:5 comes after c:8: sort the file (bcftools sort)"},
		{"contigs in another order", header + "\n" + row("d", "1", "A", "C", "0/1") + row("c", "5", "T", "C", "0/1"), "", "file.vcf: line 4: c comes after d, unlike in the reference: sort the file in the reference's order of contigs"},
		{"several samples", header + "\tB\n", "", "file.vcf: there are 2 samples, A, B: choose one"},
		{"no such sample", header + "\tB\n", "C", "file.vcf: no sample C; there are A, B"},
		{"allele that is not there", header + "\n" + row("c", "5", "T", "C", "0/2"), "", "file.vcf: line 3: genotype 0/2 with 1 alternate alleles"},
		{"three haplotypes", header + "\n" + row("c", "5", "T", "C", "0/1/1"), "", "file.vcf: line 3: genotype 0/1/1 has 3 haplotypes: one and two can be compared"},
		{"malformed", header + "\n" + "c\t5\n", "", "file.vcf: line 3: 2 columns, want 10"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			records, err := vcf.NewReader(strings.NewReader(tt.text))
			require.NoError(t, err)
			_, err = eval.Compare(t.Context(), g, set(t, "truth"), eval.Set{Name: "file.vcf", Records: records, Sample: tt.sample}, eval.Options{})
			require.EqualError(t, err, tt.want)
		})
	}
}

func TestRegions(t *testing.T) {
	t.Parallel()
	const seq = "GCTAAAAAAAAGTCACACACACAGTTGACCATGATTACAG"
	g := reference(t, seq)
	for _, tt := range []struct {
		name, bed, truth string
		want             string // as brief; the query is the truth
		unknown          int
	}{
		{"SNP inside", "c\t11\t12\n", "12 G C 0/1", "1/0 1/0 gt0", 0},
		{"SNP before", "c\t12\t20\n", "12 G C 0/1", "0/0 0/0 gt0", 1},
		{"SNP behind", "c\t0\t11\n", "12 G C 0/1", "0/0 0/0 gt0", 1},
		{"padding does not count", "c\t11\t12\n", "10 AAGTC AACTC 0/1", "1/0 1/0 gt0", 0},
		{"deletion inside", "c\t13\t15\n", "13 TCA T 0/1", "1/0 1/0 gt0", 0},
		{"deletion half inside", "c\t14\t20\n", "13 TCA T 0/1", "1/0 1/0 gt0", 0},
		{"deletion half inside, the first half", "c\t10\t14\n", "13 TCA T 0/1", "1/0 1/0 gt0", 0},
		{"deletion behind", "c\t0\t13\n", "13 TCA T 0/1", "0/0 0/0 gt0", 1},
		{"deletion before", "c\t15\t30\n", "13 TCA T 0/1", "0/0 0/0 gt0", 1},
		{"deletion counts where it is left-aligned", "c\t13\t15\n", "19 ACA A 0/1", "1/0 1/0 gt0", 0},
		{"insertion between two bases inside", "c\t26\t28\n", "27 G GC 0/1", "1/0 1/0 gt0", 0},
		{"insertion behind the last base inside", "c\t26\t27\n", "27 G GC 0/1", "0/0 0/0 gt0", 1},
		{"insertion before the first base inside", "c\t27\t30\n", "27 G GC 0/1", "0/0 0/0 gt0", 1},
		{"touching regions are one", "c\t20\t27\nc\t27\t30\n", "27 G GC 0/1", "1/0 1/0 gt0", 0},
		{"unsorted, overlapping, with comments", "#x\ntrack name=y\nc 20 30 name\n\nc\t5\t28\n", "27 G GC 0/1", "1/0 1/0 gt0", 0},
		{"at the contig's end", "c\t39\t40\n", "40 G GA 0/1", "1/0 1/0 gt0", 0},
		{"nothing", "", "12 G C 0/1", "0/0 0/0 gt0", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			regions, err := eval.ReadRegions(strings.NewReader(tt.bed), g)
			require.NoError(t, err)
			r := compare(t, seq, []string{tt.truth}, []string{tt.truth}, eval.Options{Regions: regions})
			assert.Equal(t, tt.want, brief(r, "ALL"))
			assert.Equal(t, tt.unknown, r.Row("all", "ALL").NotAssessed)
			assert.Equal(t, regions.Bases(), r.Bases)
		})
	}
	for bed, want := range map[string]string{
		"c\t5\n":            "line 1: 2 columns, want contig, start and end: not BED",
		"#\nd\t1\t2\n":      "line 2: the reference has no contig d",
		"c\tone\t2\n":       `line 1: start "one" and end "2", want whole numbers: not BED`,
		"c\t7\t6\n":         "line 1: 7 to 6 is no stretch of c, which has 40 bases",
		"c\t7\t41\n":        "line 1: 7 to 41 is no stretch of c, which has 40 bases",
		"##fileformat\nVCF": "line 2: 1 columns, want contig, start and end: not BED",
	} {
		_, err := eval.ReadRegions(strings.NewReader(bed), g)
		require.EqualError(t, err, want)
	}
}

// A match may reach over the border of the regions: what of the truth is inside counts, and of the query what it is matched
// with.
func TestMatchOverTheBorder(t *testing.T) {
	t.Parallel()
	const seq = "ACGTTGCAACGGTCATGCCTAGATCGTACCGATTGCAGTC"
	truth := []string{"4 TTGCA TTTGC 1/1"}        // three SNPs, at 6, 7 and 8
	query := []string{"4 T TT 1/1", "7 CA C 1/1"} // an insertion between 3 and 4, a deletion of 8
	for bed, want := range map[string]string{
		"c\t0\t40\n": "3/0 2/0 gt0 unk0",
		"c\t0\t6\n":  "1/0 2/0 gt0 unk0", // the deletion lies outside
		"c\t6\t7\n":  "1/0 2/0 gt0 unk0", // both do
		"c\t0\t5\n":  "0/0 0/0 gt0 unk2", // the insertion is inside, but nothing of the truth
	} {
		regions, err := eval.ReadRegions(strings.NewReader(bed), reference(t, seq))
		require.NoError(t, err)
		for _, squash := range []bool{false, true} {
			r := compare(t, seq, truth, query, eval.Options{Regions: regions, Squash: squash})
			assert.Equal(t, want, fmt.Sprintf("%s unk%d", brief(r, "ALL"), r.Row("all", "ALL").NotAssessed), bed)
		}
	}
}

func TestStrata(t *testing.T) {
	t.Parallel()
	//            1         2         3         4         5
	//   12345678901234567890123456789012345678901234567890123
	seq := "GCTAAAAAGTCACACACACAGTTGACCATGCCCCCCCTTACAGGATACCTGACTT"
	in := func(record string) []string {
		r := compare(t, seq, []string{record}, nil, eval.Options{})
		var names []string
		for _, row := range r.Rows {
			if row.Kind != "ALL" && row.Primary().TruthFN > 0 {
				names = append(names, row.Stratum)
			}
		}
		return names
	}
	const plain, both, noHP = "outside homopolymers >= 5", "outside homopolymers >= 4 and tandem repeats", "homopolymers >= "
	assert.Equal(t, []string{"all", plain, both}, in("3 T G 0/1"), "beside a homopolymer")
	assert.Equal(t, []string{"all", noHP + "4", noHP + "5"}, in("4 A G 0/1"))
	assert.Equal(t, []string{"all", noHP + "4", noHP + "5", "deletion 1"}, in("3 TA T 0/1"))
	assert.Equal(t, []string{"all", noHP + "4", noHP + "5", "insertion 1"}, in("8 A AA 0/1"))
	assert.Equal(t, []string{"all", noHP + "4", noHP + "5", "insertion 1"}, in("8 A AT 0/1"), "between the homopolymer and its neighbour")
	assert.Equal(t, []string{"all", noHP + "4", noHP + "5", noHP + "7", "deletion 2-5"}, in("30 GCC G 0/1"))
	assert.Equal(t, []string{"all", plain, "tandem repeats", "deletion 2-5"}, in("13 CAC C 0/1"))
	assert.Equal(t, []string{"all", plain, "tandem repeats"}, in("13 C G 0/1"))
	assert.Equal(t, []string{"all", plain, both, "insertion >= 16"}, in("45 A ATTGCATTGACCTTGGAC 0/1"))
	assert.Equal(t, []string{"all", plain, both, "depth 10-14"}, in("3 T G 0/1 DP=12"))
}

func TestPhasing(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	seq := repetitive(r, 2000)
	other := func(i int) string { return map[byte]string{'A': "C", 'C': "G", 'G': "T", 'T': "A"}[seq[i]] }
	// SNPs 100 bases apart; each letter is one: "|" as in the truth, "x" on the other haplotype, "u" not phased, "." missed,
	// "h" homozygous, "2" in a second phase set.
	sets := func(letters string) (truth, query []string) {
		for n, l := range letters {
			at := 100 * (n + 1)
			snp := fmt.Sprintf("%d %s %s ", at+1, seq[at:at+1], other(at))
			truth = append(truth, snp+"0|1 PS=1")
			if gt := map[rune]string{'|': "0|1 PS=7", 'x': "1|0 PS=7", 'u': "0/1", 'h': "1/1", '2': "0|1 PS=8"}[l]; gt != "" {
				query = append(query, snp+gt)
			}
		}
		return truth, query
	}
	for _, tt := range []struct {
		letters string
		want    eval.Phasing
	}{
		{"||||||", eval.Phasing{Sets: 1, Pairs: 5}},
		{"xxxxxx", eval.Phasing{Sets: 1, Pairs: 5}},
		{"|||xxx", eval.Phasing{Sets: 1, Pairs: 5, Switches: 1}},
		{"||x|||", eval.Phasing{Sets: 1, Pairs: 5, Flips: 1}},
		{"|||||x", eval.Phasing{Sets: 1, Pairs: 5, Switches: 1}},
		{"|x|x||", eval.Phasing{Sets: 1, Pairs: 5, Flips: 2}},
		{"|x|xxx", eval.Phasing{Sets: 1, Pairs: 5, Switches: 1, Flips: 1}},
		{"|u.hxx", eval.Phasing{Sets: 1, Pairs: 2, Switches: 1}},
		{"||22||", eval.Phasing{Sets: 2, Pairs: 4}},
		{"|2", eval.Phasing{}},
		{"uuuu", eval.Phasing{}},
	} {
		truth, query := sets(tt.letters)
		got := compare(t, seq, truth, query, eval.Options{}).Phasing
		if tt.want.Pairs > 0 {
			require.NotNil(t, got.ErrorRate)
			require.InDelta(t, float64(tt.want.Switches+2*tt.want.Flips)/float64(tt.want.Pairs), *got.ErrorRate, 1e-12)
		}
		got.ErrorRate = nil
		assert.Equal(t, tt.want, got, tt.letters)
	}
}

func TestROC(t *testing.T) {
	t.Parallel()
	const seq = "ACGTTGCAACGGTCATGCCTAGATCGTACCGATTGCAGTC"
	r := compare(t, seq,
		[]string{"3 G A 0/1", "8 A T 1/1", "13 T C 0/1", "20 TA T 0/1"},
		[]string{"3 G A 0/1 QUAL=50 GQ=1", "8 A T 1/1 QUAL=20 GQ=2", "10 C G 0/1 QUAL=30 GQ=3", "20 TA T 0/1 QUAL=40 GQ=4", "30 C A 0/1"}, eval.Options{})
	var b strings.Builder
	require.NoError(t, r.ROC[0].WriteTSV(&b, eval.Qual))
	assert.Equal(t, `#Version porestream, ROC output 1.2
#selection: ALL
#total baseline variants: 4
#total call variants: 5
#score field: QUAL
#score	true_positives_baseline	false_positives	true_positives_call	false_negatives	precision	sensitivity	f_measure
50.000	1.00	0.00	1.00	3.00	1.0000	0.2500	0.4000
40.000	2.00	0.00	2.00	2.00	1.0000	0.5000	0.6667
30.000	2.00	1.00	2.00	2.00	0.6667	0.5000	0.5714
20.000	3.00	1.00	3.00	1.00	0.7500	0.7500	0.7500
None	3.00	2.00	3.00	1.00	0.6000	0.7500	0.6667
`, b.String())
	assert.InDelta(t, 20, r.ROC[0].Best().Score, 0)
	assert.Len(t, r.ROC[2].Points, 1, "the indel")
	var svg strings.Builder
	require.NoError(t, r.WriteSVG(&svg, "a < b"))
	require.NoError(t, xml.Unmarshal([]byte(svg.String()), new(struct{})), "well-formed")
	assert.Contains(t, svg.String(), "a &lt; b")
	assert.Equal(t, 2, strings.Count(svg.String(), "<polyline"))
}

func TestIntervals(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(21, 22))
	seq := repetitive(r, 20000)
	truth := randomChanges(r, seq)
	query := damaged(r, seq, truth)
	run := func(seed uint64) *eval.Figures {
		return compare(t, seq, lines(truth), lines(query), eval.Options{Bootstrap: 500, Seed: seed}).Row("all", "ALL").Genotypes
	}
	a, b, c := run(1), run(1), run(2)
	require.Equal(t, a, b, "same seed")
	require.NotEqual(t, a.F1Interval, c.F1Interval, "another seed")
	for _, f := range []*eval.Figures{a, c} {
		require.Less(t, f.RecallInterval[0], *f.Recall)
		require.Greater(t, f.RecallInterval[1], *f.Recall)
		// The width is about that of a binomial share: 2 x 1.96 standard deviations.
		n := float64(f.TruthTP + f.TruthFN)
		width := 2 * 1.96 * math.Sqrt(*f.Recall*(1-*f.Recall)/n)
		require.InDelta(t, width, f.RecallInterval[1]-f.RecallInterval[0], width/3)
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	const seq = "ACGTTGCAACGGTCATGCCTAGATCGTACCGATTGCAGTC"
	regions, err := eval.ReadRegions(strings.NewReader("c\t0\t30\n"), reference(t, seq))
	require.NoError(t, err)
	var got []string
	compare(t, seq,
		[]string{"3 GTTGCA ATTGCT 1/1", "5 T G 1/1", "13 T C 0/1", "20 T G 0/1", "35 G C 0/1"},
		[]string{"3 G A 1/1", "5 T G 1/1", "8 A G 1/1", "13 T C 1/1", "15 A T 0/0", "25 C T 0/1", "36 C T 0/1"},
		eval.Options{Regions: regions, Each: func(o eval.Outcome) error {
			got = append(got, strings.TrimSpace(fmt.Sprintf("%v %d %s %s", o.Truth, o.Record.Pos, o.Decision, o.Detail)))
			return nil
		}})
	slices.Sort(got)
	assert.Equal(t, []string{
		"false 13 FP GT", "false 25 FP", "false 3 TP", "false 36 UNK", "false 5 TP", "false 8 FP",
		"true 13 FN GT", "true 20 FN", "true 3 FN PART", "true 35 UNK", "true 5 TP",
	}, got)
}

// A search that grows too large is given up, and everything in the place is an error.
func TestUnresolved(t *testing.T) {
	t.Parallel()
	seq := "GCT" + strings.Repeat("A", 60) + "CGTTGACCATG"
	var truth, query []string
	for i := range 12 {
		truth = append(truth, fmt.Sprintf("%d AA A 0/1", 4+4*i))
		query = append(query, fmt.Sprintf("%d AA A 0/1", 6+4*i))
	}
	r := compare(t, seq, truth, query, eval.Options{MaxPaths: 20})
	assert.Equal(t, "0/12 0/12 gt0", brief(r, "ALL"))
	assert.Equal(t, 24, r.Row("all", "ALL").Unresolved)
	assert.Equal(t, 1, r.GivenUp)
	assert.Equal(t, "12/0 12/0 gt0", brief(compare(t, seq, truth, query, eval.Options{}), "ALL"), "with the usual bound")
}

// Records of a set without samples are alleles.
func TestWithoutSamples(t *testing.T) {
	t.Parallel()
	const seq = "ACGTTGCAACGGTCATGCCTAGATCGTACCGATTGCAGTC"
	records, err := vcf.NewReader(strings.NewReader("##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\nc\t5\t.\tT\tC,G\t.\t.\t.\nc\t9\t.\tA\tG\t.\t.\t.\n"))
	require.NoError(t, err)
	r, err := eval.Compare(t.Context(), reference(t, seq), eval.Set{Name: "truth", Records: records}, set(t, "query", "5 T G 0/1", "9 A G 1"), eval.Options{})
	require.NoError(t, err)
	assert.False(t, r.Genotypes)
	assert.Equal(t, "2/1 2/0 gt0", brief(r, "ALL"))
	assert.Equal(t, "SNP 2/1(0) 2/0(0) one2", events(r))
}
