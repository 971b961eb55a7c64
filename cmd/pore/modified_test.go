package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biogo/hts/bam"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/modbase/modbasetest"
)

// TestAlignKeepsModifiedBases: of 10,000 reads pysam finds the modified bases of their titles in all records
// that pore align makes of them, on either strand and of both parts of chimaeras. Tags that are of another
// read are dropped, and the read stays.
func TestAlignKeepsModifiedBases(t *testing.T) {
	const reads, length = 10_000, 50_000
	rng := rand.New(rand.NewPCG(44, 3))
	reference := make([]byte, length)
	for i := range reference {
		reference[i] = "ACGT"[rng.IntN(4)]
	}
	dir := t.TempDir()
	ref := filepath.Join(dir, "ref.fa")
	require.NoError(t, os.WriteFile(ref, []byte(">r\n"+string(reference)+"\n"), 0o600))
	stretch := func(reverse bool) []byte {
		n := 120 + rng.IntN(80)
		at := rng.IntN(length - n)
		bases := bytes.Clone(reference[at : at+n])
		if reverse {
			genome.ReverseComplement(bases)
		}
		bases[n/2] = 'A'
		return append(bases[:n/3], bases[n/3+1:]...)
	}
	var text strings.Builder
	planted := make(map[string]modbasetest.Read)
	for i := range reads {
		bases := stretch(i%2 == 1)
		if i%10 == 0 {
			bases = append(bases, stretch(i%4 == 0)...)
		}
		r := modbasetest.Tagged(rng, bases)
		name, written := fmt.Sprint(i), string(bases)
		switch i % 3 {
		case 1:
			written = strings.ToLower(written)
		case 2:
			written = strings.ReplaceAll(written, "T", "U")
		}
		tags := r.Tags(i % 2 * len(bases))
		if i%1000 == 7 {
			tags = []string{"MM:Z:C+m,500;", "MM:Z:C+m,1;\tML:B:C", "MM:Z:\tMN:i:5", "MM:Z:x"}[i/1000%4]
			r.Calls = nil
		}
		planted[name] = r
		fmt.Fprintf(&text, "@%s\tqs:f:9\t%s\n%s\n+\n%s\n", name, tags, written, strings.Repeat("5", len(bases)))
	}
	out := filepath.Join(dir, "out.bam")
	_, err := poreWith(t, strings.NewReader(text.String()), "align", "-y", "--ref", ref, "-o", out, "-")
	require.NoError(t, err)
	theirs := modbasetest.Pysam(t, out)
	supplementary := 0
	for name, got := range theirs {
		of, _, more := strings.Cut(name, "#")
		if more {
			supplementary++
		}
		r, ok := planted[of]
		require.True(t, ok)
		require.Equal(t, modbasetest.Texts(r.Calls, 0, 1<<30), got.Forward, "read %s: %s", name, r.MM)
	}
	require.Equal(t, reads, len(theirs)-supplementary)
	require.Greater(t, supplementary, reads/20)
}

// TestPileupLikeModkit: bedMethyl of modkit's own test reads, byte for byte. They are under the ONT Public Licence, so
// they are not shipped: the test runs where they lie beside the repository. The shipped data is compared with a pile-up
// of its own in modbase/aligned.
func TestPileupLikeModkit(t *testing.T) {
	dir, err := filepath.Abs("../../../shared/data/modbase/modkit")
	require.NoError(t, err)
	if _, err := os.Stat(dir); err != nil {
		t.Skip("../shared/data/modbase/modkit is not there")
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	ref := in("CGI_ladder_3.6kb_ref.fa")
	for want, args := range map[string][]string{
		"modbam.modpileup_nofilt.methyl.bed": {"--no-filtering", in("bc_anchored_10_reads.sorted.bam")},
		// modkit's threshold is that of all calls here, also of those that aren't aligned (--include-unmapped).
		"modbam.modpileup_filt025.methyl.bed":                     {"--filter-threshold", "0.662109375", in("bc_anchored_10_reads.sorted.bam")},
		"modbam.modpileup_combined.methyl.bed":                    {"--no-filtering", "--combine-mods", in("bc_anchored_10_reads.sorted.bam")},
		"bc_anchored_10_reads_nofilt_cg_motif.bed":                {"--no-filtering", "--cpg", "--ref", ref, in("bc_anchored_10_reads.sorted.bam")},
		"bc_anchored_10_reads_nofilt_cg_motif_strand_combine.bed": {"--no-filtering", "--cpg", "--combine-strands", "--ref", ref, in("bc_anchored_10_reads.sorted.bam")},
		"duplex_modbam_pileup_nofilt.bed":                         {"--no-filtering", "--region", "chr17", in("duplex_modbam.sorted.bam")},
	} {
		expected, err := os.ReadFile(in(want))
		require.NoError(t, err)
		got, err := poreWith(t, nil, append([]string{"pileup"}, args...)...)
		require.NoError(t, err, want)
		// Some are of --mixed-delim, with spaces between the last columns.
		require.Equal(t, strings.ReplaceAll(string(expected), " ", "\t"), got, want)
	}
	// Each haplotype has all of the reads.
	out := t.TempDir()
	_, err = poreWith(t, nil, "pileup", "--no-filtering", "--haplotypes", "-o", filepath.Join(out, "{haplotype}.bed"), in("bc_anchored_10_reads.haplotyped.sorted.bam"))
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(out, "*"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(out, "1.bed"), filepath.Join(out, "2.bed")}, files)
	first, err := os.ReadFile(files[0])
	require.NoError(t, err)
	second, err := os.ReadFile(files[1])
	require.NoError(t, err)
	require.Equal(t, string(first), string(second))
}

// modifiedSAM is four reads of a reference of CpGs, on both strands and two haplotypes.
const modifiedSAM = "@HD\tVN:1.6\tSO:coordinate\n@SQ\tSN:r\tLN:12\n" +
	"a\t0\tr\t1\t60\t12M\t*\t0\t0\tACGTACGTACGT\t*\tHP:i:1\tMM:Z:C+m?,0,0,0;\tML:B:C,250,250,20\n" +
	"b\t16\tr\t1\t60\t12M\t*\t0\t0\tACGTACGTACGT\t*\tHP:i:2\tMM:Z:C+m?,0,0,0;\tML:B:C,240,130,10\n" +
	"c\t0\tr\t2\t60\t4M1D6M\t*\t0\t0\tCGTACTACGT\t*\tMM:Z:C+m?,0;\tML:B:C,200\n" +
	"d\t0\tr\t3\t60\t10M\t*\t0\t0\tGTATGTACGT\t*\tMM:Z:C+m?,9;\tML:B:C,200\n"

// TestPileup: a file, a pipe, a region by an index and haplotypes; bedMethyl and bedGraph, by hand.
func TestPileup(t *testing.T) {
	dir := t.TempDir()
	ref := filepath.Join(dir, "ref.fa")
	require.NoError(t, os.WriteFile(ref, []byte(">r\nACGTACGTACGT\n"), 0o600))
	path := filepath.Join(dir, "in.sam")
	require.NoError(t, os.WriteFile(path, []byte(modifiedSAM), 0o600))
	row := func(columns ...any) string {
		return strings.ReplaceAll(strings.TrimSuffix(fmt.Sprintln(columns...), "\n"), " ", "\t") + "\n"
	}
	// Of the seven calls of C the least probable has (2*130+1)/512, and the 10th percentile is between it and the next:
	// it fails, and as it was the only one of its strand there, that strand isn't added.
	combined := row("r", 1, 2, "m", 3, ".", 1, 2, "255,0,0", 3, "66.67", 2, 1, 0, 0, 0, 0, 0) +
		row("r", 5, 6, "m", 1, ".", 5, 6, "255,0,0", 1, "100.00", 1, 0, 0, 1, 0, 1, 0) +
		row("r", 9, 10, "m", 2, ".", 9, 10, "255,0,0", 2, "50.00", 1, 1, 0, 0, 0, 0, 2)
	track := filepath.Join(dir, "track")
	args := []string{"pileup", "--cpg", "--combine-strands", "--ref", ref, "--bedgraph", track}
	got, err := poreWith(t, nil, append(args, path)...)
	require.NoError(t, err)
	require.Equal(t, combined, got)
	graph, err := os.ReadFile(track + ".m.combined.bedgraph")
	require.NoError(t, err)
	require.Equal(t, "r\t1\t2\t66.67\nr\t5\t6\t100.00\nr\t9\t10\t50.00\n", string(graph))

	piped, err := poreWith(t, strings.NewReader(modifiedSAM), append(args, "--filter-threshold", "0.6", "-")...)
	require.NoError(t, err)
	require.Equal(t, combined, piped)
	plus, err := poreWith(t, nil, "pileup", "--filter-threshold", "0.9", "--filter-threshold", "C:0.6", "--region", "r:2-4", "--threads", "1", path)
	require.NoError(t, err)
	require.Equal(t, row("r", 1, 2, "m", 2, "+", 1, 2, "255,0,0", 2, "100.00", 2, 0, 0, 0, 0, 0, 0)+
		row("r", 2, 3, "m", 1, "-", 2, 3, "255,0,0", 1, "0.00", 0, 1, 0, 0, 0, 0, 0), plus)

	// Index and order of records don't change what a region says.
	binary := filepath.Join(dir, "in.bam")
	in, err := hts.NewSAMReader(strings.NewReader(modifiedSAM))
	require.NoError(t, err)
	var records bytes.Buffer
	w, err := hts.NewWriter(&records, hts.BAM, in.Lines(), in.Header().Refs(), 1)
	require.NoError(t, err)
	for rec, err := in.Read(); err == nil; rec, err = in.Read() {
		require.NoError(t, w.Write(rec))
	}
	require.NoError(t, w.Close())
	require.NoError(t, os.WriteFile(binary, records.Bytes(), 0o600))
	for range 2 {
		again, err := poreWith(t, nil, "pileup", "--filter-threshold", "0.6", "--region", "r:2-4", binary)
		require.NoError(t, err)
		require.Equal(t, plus, again)
		indexBAM(t, binary)
	}

	_, err = poreWith(t, nil, "pileup", "--no-filtering", "--haplotypes", "-o", filepath.Join(dir, "h{haplotype}.bed"), "--bedgraph", filepath.Join(dir, "g{haplotype}"), path)
	require.NoError(t, err)
	second, err := os.ReadFile(filepath.Join(dir, "h2.bed"))
	require.NoError(t, err)
	require.Equal(t, row("r", 2, 3, "m", 1, "-", 2, 3, "255,0,0", 1, "0.00", 0, 1, 0, 0, 0, 0, 0)+
		row("r", 6, 7, "m", 1, "-", 6, 7, "255,0,0", 1, "100.00", 1, 0, 0, 0, 0, 0, 0)+
		row("r", 10, 11, "m", 1, "-", 10, 11, "255,0,0", 1, "100.00", 1, 0, 0, 0, 0, 0, 0), string(second))
	require.FileExists(t, filepath.Join(dir, "hunphased.bed"))
	require.FileExists(t, filepath.Join(dir, "g1.m.plus.bedgraph"))
}

// TestPileupPanel: rules on regions and states of sites, of all reads and by haplotype.
func TestPileupPanel(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	ref, in := file("ref.fa", ">r\nACGTACGTACGT\n"), file("in.sam", modifiedSAM)
	rules, sites := file("rules.tsv", "r\t0\t12\tall\tmethylated\nr\t0\t4\tfirst\thalf\tm\t2\n"), file("sites.bed", "r\t9\t11\tcg3\nr\t1\t3\tcg1\nr\t5\t7\tcg2\n")
	args := []string{"pileup", "--cpg", "--ref", ref, "--no-filtering", "--rules", rules, "--sites", sites}
	_, err := poreWith(t, nil, append(args, "--answers", filepath.Join(dir, "a.tsv"), "--vector", filepath.Join(dir, "v.tsv"), in)...)
	require.NoError(t, err)
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(b)
	}
	require.Equal(t, "#site\tstate\tmodified\tcalls\ncg3\t.\t1\t2\ncg1\t1\t2\t3\ncg2\t1\t2\t2\n", read("v.tsv"))
	require.Equal(t, "#name\tcontig\tstart\tend\tkind\tcode\tstate\tshare\tdepth\tpositions\twrong\treason\n"+
		"all\tr\t0\t12\tmethylated\tm\tNOT_CALLABLE\t0.7143\t2.3\t6\t1\ttoo few molecules to decide\n"+
		"first\tr\t0\t4\thalf\tm\tNOT_CALLABLE\t0.6667\t3.0\t2\t1\ttoo few molecules to decide\n", read("a.tsv"))

	h := filepath.Join(dir, "{haplotype}")
	_, err = poreWith(t, nil, append(args, "--haplotypes", "-o", h+".bed", "--answers", h+".a", "--vector", h+".v", in)...)
	require.NoError(t, err)
	require.Equal(t, "#site\tstate\tmodified\tcalls\ncg3\t0\t0\t1\ncg1\t1\t1\t1\ncg2\t1\t1\t1\n", read("1.v"))
	require.FileExists(t, filepath.Join(dir, "2.a"))
	for says, more := range map[string][]string{
		"give both, or none":                                   {"--rules", rules},
		"--rules and --sites are of CpGs":                      {"--rules", rules, "--answers", "a"},
		"--alpha 1: want a probability":                        {"--alpha", "1"},
		"{haplotype} must stand in --answers and --vector":     {"--cpg", "--ref", ref, "--rules", rules, "--answers", "a", "--haplotypes", "-o", h},
		"--rules: " + sites + ": line 1: it has 4 columns":     {"--cpg", "--ref", ref, "--rules", sites, "--answers", "a"},
		"--rules: open " + filepath.Join(dir, "missing") + ":": {"--cpg", "--ref", ref, "--rules", filepath.Join(dir, "missing"), "--answers", "a"},
	} {
		_, err := poreWith(t, nil, append(append([]string{"pileup", "--no-filtering"}, more...), in)...)
		require.ErrorContains(t, err, says)
	}
}

// indexBAM makes the index of a sorted file.
func indexBAM(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	r, err := bam.NewReader(f, 1)
	require.NoError(t, err)
	var index bam.Index
	for {
		rec, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.NoError(t, index.Add(rec, r.LastChunk()))
	}
	out, err := os.Create(path + ".bai")
	require.NoError(t, err)
	require.NoError(t, bam.WriteIndex(out, &index))
	require.NoError(t, out.Close())
}

// TestPileupRefuses: each in one line that says what to do, and files appear only when they are whole.
func TestPileupRefuses(t *testing.T) {
	dir := t.TempDir()
	ref := filepath.Join(dir, "ref.fa")
	require.NoError(t, os.WriteFile(ref, []byte(">r\nACGTACGTACGT\n"), 0o600))
	unsorted := strings.Replace(modifiedSAM, "\tr\t3\t", "\tr\t1\t", 1)
	other, in := filepath.Join(dir, "other.fa"), filepath.Join(dir, "in.sam")
	require.NoError(t, os.WriteFile(other, []byte(">q\nACGTACGTACGT\n"), 0o600))
	require.NoError(t, os.WriteFile(in, []byte(modifiedSAM), 0o600))
	for _, tt := range []struct{ stdin, args, says string }{
		{"", "--cpg x.bam", "--ref is required"},
		{"", "--combine-strands x.bam", "give --cpg or --motif"},
		{"", "--combine-strands --motif CHH,0 --ref " + ref + " x.bam", "CHH,0 doesn't read the same on both strands"},
		{"", "--find-motifs m.tsv x.bam", "--find-motifs compares what is around modified bases"},
		{"", "--find-motifs m.tsv --cpg --ref " + ref + " x.bam", "leave --motif, --cpg, --combine-mods and --haplotypes out"},
		{"", "--find-motifs m.tsv -o ./m.tsv --ref " + ref + " x.bam", "--find-motifs and -o are both m.tsv: name a file for each"},
		{"", "--find-motifs - --ref " + ref + " x.bam", "--find-motifs and -o are both -: name a file for each"},
		{"", "--cpg --rules r --answers a --sites s --vector ./a --ref " + ref + " x.bam", "--vector and --answers are both ./a: name a file for each"},
		{"", "--cpg --combine-mods --rules r --answers a --ref " + ref + " x.bam", "--rules and --sites are of one modification each, and --combine-mods counts all as one"},
		{"", "--cpg --combine-mods --sites s --vector a --ref " + ref + " x.bam", "leave it out"},
		{"", "--cpg --rules r --answers - --ref " + ref + " x.bam", "--answers and -o are both -: name a file for each"},
		{"", "--motif CG --ref r x.bam", `"CG": want a motif and the place`},
		{"", "--motif CG,2 --ref r x.bam", "a number from 0 to 1"},
		{"", "--motif C!,0 --ref r x.bam", "no letter of IUPAC's"},
		{"", "--filter-threshold 2 x.bam", `--filter-threshold "2": want a probability`},
		{"", "--filter-threshold X:0.5 x.bam", "want a probability"},
		{"", "--filter-threshold NaN x.bam", "want a probability"},
		{"", "--filter-threshold 0.5 --no-filtering x.bam", "give one of them"},
		{"", "--filter-percentile 1 x.bam", "--filter-percentile 1"},
		{"", "--threads -1 x.bam", "--threads -1"},
		{"", "--haplotypes x.bam", "{haplotype} must stand in the name of -o"},
		{"", "--haplotypes -o {haplotype} --bedgraph g x.bam", "{haplotype} must stand in --bedgraph"},
		{"", "-", "the input is read twice"},
		{"", "--filter-threshold C:0.5 -", "the input is read twice"},
		{"", "x.bam", "x.bam: no such file"},
		{"ACGT", "--no-filtering -", "standard input"},
		{"CRAM\x03", "--no-filtering -", "this is CRAM, which is not read; pipe it"},
		{modifiedSAM + "e\t0\n", "--no-filtering -", "record 5: line 7: it has 2 columns"},
		{"@HD\tVN:1.6\n", "--no-filtering -", "align the reads first"},
		{modifiedSAM, "--no-filtering --region q -", `there is no reference sequence "q"`},
		{modifiedSAM, "--no-filtering --region q:1-2 -", `there is no reference sequence "q"`},
		{modifiedSAM, "--no-filtering --region r:5-2 -", "want 1 <= START <= END"},
		{"", "--cpg --ref " + other + " " + in, in + ": reads are aligned to r, which isn't in the reference FASTA"},
		{"", "--cpg --memory 1 --ref " + other + " " + in, in + ": reads are aligned to r, which isn't in the reference FASTA"},
		{unsorted, "--no-filtering -o " + filepath.Join(dir, "out.bed") + " -", "read d: it comes behind reads of later positions: sort the file"},
	} {
		_, err := poreWith(t, strings.NewReader(tt.stdin), append([]string{"pileup"}, strings.Fields(tt.args)...)...)
		require.ErrorContains(t, err, tt.says, tt.args)
		require.NotContains(t, err.Error(), "\n", tt.args)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*out*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
