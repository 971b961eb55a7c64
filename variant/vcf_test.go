package variant_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/testenv"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/vcf"
)

// called is a call with evidence that follows from its place, so that every field
// of a record differs.
func called(pos int64, ref, alt string, genotype ...uint32) *streampb.Call {
	c := &streampb.Call{
		Contig: "one", Pos: pos, Ref: ref, Alt: alt, VrsId: fmt.Sprint("ga4gh:VA.", pos, ref, alt), Genotype: genotype,
		Qual: 30 + float64(pos)/8, GenotypeQuality: uint32(20 + pos), Depth: 30,
		RefForward: 5, RefReverse: 6, AltForward: 8, AltReverse: 9, OtherForward: 1, OtherReverse: 1,
		PhredLikelihoods: []uint32{90, 0, 70},
	}
	switch {
	case len(genotype) == 1:
		c.PhredLikelihoods = []uint32{90, 0}
	case len(genotype) == 2 && genotype[0] == 1 && genotype[1] == 1:
		c.PhredLikelihoods = []uint32{90, 70, 0}
	}
	return c
}

// pair makes two calls each other's other allele.
func pair(a, b *streampb.Call) []*streampb.Call {
	a.Others = append(a.Others, &streampb.OtherAllele{Pos: b.Pos, Ref: b.Ref, Alt: b.Alt})
	b.Others = append(b.Others, &streampb.OtherAllele{Pos: a.Pos, Ref: a.Ref, Alt: a.Alt})
	return []*streampb.Call{a, b}
}

// phased puts calls into a phase set.
func phased(set int64, calls ...*streampb.Call) []*streampb.Call {
	for _, c := range calls {
		c.PhaseSet = set
	}
	return calls
}

func line(r *vcf.Record) string { return strings.TrimSpace(string(r.AppendLine(nil))) }

func TestVCFRecords(t *testing.T) {
	filtered := called(4, "T", "C", 0, 1)
	filtered.Filters = []string{"LowQual"}
	for _, tc := range []struct {
		name  string
		calls []*streampb.Call
		want  []string // POS, REF, ALT, FILTER, sample
	}{
		{"haploid", []*streampb.Call{called(3, "G", "T", 1)}, []string{"3 G T PASS 1:23:30:11,17:5,8:6,9:0.5667:90,0"}},
		{"heterozygous", []*streampb.Call{called(3, "G", "T", 0, 1)}, []string{"3 G T PASS 0/1:23:30:11,17:5,8:6,9:0.5667:90,0,70"}},
		{
			"phased", phased(3, called(3, "G", "T", 0, 1), called(5, "A", "C", 1, 0)),
			[]string{"3 G T PASS 0|1:23:30:11,17:5,8:6,9:0.5667:90,0,70:3", "5 A C PASS 1|0:25:30:11,17:5,8:6,9:0.5667:90,0,70:3"},
		},
		{
			"two substitutions of one base", pair(called(3, "G", "A", 1, 2), called(3, "G", "T", 1, 2)),
			// 0/0 costs 90 + 90 against 1/2, which is what both calls say.
			[]string{"3 G A,T PASS 1/2:23:30:11,17,17:5,8,8:6,9,9:0.5667,0.5667:180,90,160,90,0,160"},
		},
		{
			"the second allele first, phased", phased(3, pair(called(3, "G", "A", 2, 1), called(3, "G", "T", 1, 2))...),
			[]string{"3 G A,T PASS 2|1:23:30:11,17,17:5,8,8:6,9,9:0.5667,0.5667:180,90,160,90,0,160:3"},
		},
		{
			"deletions of different lengths", pair(called(1, "AC", "A", 1, 2), called(1, "ACG", "A", 1, 2)),
			[]string{"1 ACG AG,A PASS 1/2:21:30:11,17,17:5,8,8:6,9,9:0.5667,0.5667:180,90,160,90,0,160"},
		},
		{
			"a deletion across a substitution", pair(called(1, "ACG", "A", 1, 2), called(3, "G", "T", 1, 2)),
			[]string{"1 ACG A,ACT PASS 1/2:21:30:11,17,17:5,8,8:6,9,9:0.5667,0.5667:180,90,160,90,0,160"},
		},
		{
			"alleles of a genotype in different places", pair(called(1, "AC", "A", 1, 2), called(5, "AC", "A", 1, 2)),
			[]string{"1 AC A PASS 0/1:21:30:11,17:5,8:6,9:0.5667:90,0,70", "5 AC A PASS 0/1:25:30:11,17:5,8:6,9:0.5667:90,0,70"},
		},
		{
			"the other allele has no call", pair(called(3, "G", "A", 1, 2), called(3, "G", "T", 1, 2))[:1],
			[]string{"3 G A,T PASS 1/2:23:30:11,17,.:5,8,.:6,9,.:0.5667,."},
		},
		{
			"independent calls at one place", []*streampb.Call{called(3, "G", "GA", 0, 1), called(3, "G", "T", 0, 1)},
			[]string{"3 G GA PASS 0/1:23:30:11,17:5,8:6,9:0.5667:90,0,70", "3 G T PASS 0/1:23:30:11,17:5,8:6,9:0.5667:90,0,70"},
		},
		{"filtered", []*streampb.Call{filtered}, []string{"4 T C LowQual 0/1:24:30:11,17:5,8:6,9:0.5667:90,0,70"}},
	} {
		var got []string
		for _, r := range variant.VCFRecords(tc.calls) {
			f := strings.Split(line(r), "\t")
			got = append(got, strings.Join([]string{f[1], f[3], f[4], f[6], f[9]}, " "))
		}
		require.Equal(t, tc.want, got, tc.name)
	}
}

// A record's calls are those of its ALTs, also when the input has them in
// another order.
func TestVCFSitesHaveTheirCalls(t *testing.T) {
	calls := pair(called(1, "ACG", "A", 1, 2), called(3, "G", "T", 1, 2))
	calls = append(calls, called(5, "A", "C", 0, 1))
	sites := variant.VCFSites(calls)
	require.Len(t, sites, 2)
	require.Equal(t, calls[:2], sites[0].Calls)
	require.Equal(t, calls[2:], sites[1].Calls)
	require.Equal(t, "VRS_Allele_IDs=.,ga4gh:VA.1ACGA,ga4gh:VA.3GT", strings.Split(line(sites[0].Record), "\t")[7])
}

// goldenCalls is one of everything on a contig of 20 bases.
func goldenCalls() []*streampb.Call {
	low := called(8, "T", "C", 0, 1)
	low.Filters = []string{"LowQual", "LowDepth"}
	low.ModelMismatch = []string{"dna_r10.4.1_e8.2_400bps_fast@v5.0.0", "our own; 2=two"}
	artefact := called(14, "C", "G", 1)
	artefact.Filters = []string{"MotifArtifact"}
	artefact.Motif = &streampb.MotifError{Motif: "ACGTNC", Base: 2, Shows: "G", Sites: 120, Affected: 117, Reads: 1800, Wrong: 731}
	bare := &streampb.Call{Contig: "two", Pos: 2, Ref: "G", Alt: "GT", Genotype: []uint32{1}, Qual: 7}
	calls := phased(1, pair(called(1, "ACG", "A", 2, 1), called(3, "G", "T", 1, 2))...)
	calls = append(calls, phased(1, called(5, "A", "C", 1, 0))...)
	calls = append(calls, low)
	calls = append(calls, pair(called(9, "A", "C", 1, 2), called(9, "A", "G", 1, 2))...)
	return append(calls, called(12, "T", "TA", 1, 1), artefact, bare)
}

const goldenReference = ">one\nACGTACGTACGTACGTACGT\n>two\nGGG\n"

func TestVCFGolden(t *testing.T) {
	g, err := genome.Read(strings.NewReader(goldenReference))
	require.NoError(t, err)
	var b bytes.Buffer
	w, err := vcf.NewWriter(&b, variant.Header(g.Contigs, "s1", variant.Config{}))
	require.NoError(t, err)
	for _, r := range variant.VCFRecords(goldenCalls()) {
		require.NoError(t, w.Write(r))
	}
	require.NoError(t, w.Flush())
	golden := filepath.Join("testdata", "calls.vcf")
	if *update {
		require.NoError(t, os.WriteFile(golden, b.Bytes(), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String())
}

func bcftools(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("bcftools")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("bcftools is not installed")
		}
		t.Skip("bcftools is not installed")
	}
	return path
}

// bcftools reads the golden file without a word, finds every REF in the reference
// and every record normal, and agrees about what is in it.
func TestVCFGoldenByBcftools(t *testing.T) {
	tool := bcftools(t)
	fasta := filepath.Join(t.TempDir(), "ref.fa")
	require.NoError(t, os.WriteFile(fasta, []byte(goldenReference), 0o600))
	run := func(args ...string) string {
		var stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), tool, append(args, filepath.Join("testdata", "calls.vcf"))...)
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		require.NoError(t, err, stderr.String())
		for line := range strings.Lines(stderr.String()) {
			require.True(t, strings.HasPrefix(line, "Lines "), line)
		}
		return string(out)
	}
	run("view", "--no-version")
	normal := run("norm", "--no-version", "--check-ref", "e", "-f", fasta)
	require.Equal(t, run("view", "--no-version", "-H"), normal[strings.Index(normal, "\none\t")+1:], "what is written is normal already")
	stats := run("stats", "-s", "-")
	for _, want := range []string{"number of records:\t7\n", "number of SNPs:\t5\n", "number of indels:\t3\n", "number of multiallelic sites:\t2\n"} {
		require.Contains(t, stats, want)
	}
	// Every likeliest genotype is the one that is called.
	query := run("query", "-i", `FMT/PL[0:0]!="."`, "-f", "%POS [%GT %PL]\n")
	require.Equal(t, "1 2|1 180,90,160,90,0,160\n5 1|0 90,0,70\n8 0/1 90,0,70\n9 1/2 180,90,160,90,0,160\n12 1/1 90,70,0\n14 1 90,0\n", query)
}

// pysam is strict about types and numbers of values.
func TestVCFGoldenByPysam(t *testing.T) {
	interpreter := testenv.Python(t, "PORESTREAM_SIGNAL_PYTHON", "pysam", "pysam")
	const script = `
import sys, pysam
for r in pysam.VariantFile(sys.argv[1]):
    s = r.samples[0]
    print(r.pos, r.alleles, list(r.filter), s["GT"], s.phased, s["AD"], s["AF"] and len(s["AF"]), s.get("PL"), s.get("PS"), r.info.get("VRS_Allele_IDs"))
`
	out, err := exec.CommandContext(t.Context(), interpreter, "-c", script, filepath.Join("testdata", "calls.vcf")).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, `1 ('ACG', 'A', 'ACT') ['PASS'] (2, 1) True (11, 17, 17) 2 (180, 90, 160, 90, 0, 160) 1 ('.', 'ga4gh:VA.1ACGA', 'ga4gh:VA.3GT')
5 ('A', 'C') ['PASS'] (1, 0) True (11, 17) 1 (90, 0, 70) 1 ('.', 'ga4gh:VA.5AC')
8 ('T', 'C') ['LowQual', 'LowDepth'] (0, 1) False (11, 17) 1 (90, 0, 70) None ('.', 'ga4gh:VA.8TC')
9 ('A', 'C', 'G') ['PASS'] (1, 2) False (11, 17, 17) 2 (180, 90, 160, 90, 0, 160) None ('.', 'ga4gh:VA.9AC', 'ga4gh:VA.9AG')
12 ('T', 'TA') ['PASS'] (1, 1) False (11, 17) 1 (90, 70, 0) None ('.', 'ga4gh:VA.12TTA')
14 ('C', 'G') ['MotifArtifact'] (1,) True (11, 17) 1 (90, 0) None ('.', 'ga4gh:VA.14CG')
2 ('G', 'GT') ['PASS'] (1,) True (0, 0) 1 None None None
`, string(out))
}
