package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/eval"
	"github.com/porestream/porestream/testenv"
)

// simulatedCalls makes reads of a random reference with R9.4's errors, and some of nowhere.
func simulatedCalls(t *testing.T) (ref, reads string) {
	t.Helper()
	ref = randomFASTA(t, 30_000)
	text, err := poreWith(t, nil, "simulate", "reads", "--ref", ref, "--profile", "r9.4-porestream", "--depth", "3", "--length", "2000", "--seed", "7")
	require.NoError(t, err)
	for i := range 3 {
		text += fmt.Sprintf("@nowhere-%d\n%s\n+\n%s\n", i, strings.Repeat("ACAT", 100), strings.Repeat("5", 400))
	}
	reads = filepath.Join(filepath.Dir(ref), "reads.fastq")
	require.NoError(t, os.WriteFile(reads, []byte(text), 0o600))
	return ref, reads
}

func basecallEvaluation(t *testing.T, args ...string) *eval.Report {
	t.Helper()
	text, err := poreWith(t, nil, append([]string{"eval", "basecall", "--json"}, args...)...)
	require.NoError(t, err)
	r := new(eval.Report)
	require.NoError(t, json.Unmarshal([]byte(text), r))
	return r
}

// However reads come, the report is the same: FASTQ, its compressed form, and what pore
// align has made of it, used as it is or aligned anew.
func TestEvalBasecallSameFromEverywhere(t *testing.T) {
	t.Parallel()
	ref, reads := simulatedCalls(t)
	dir := filepath.Dir(ref)
	want := basecallEvaluation(t, "--ref", ref, "--threads", "1", reads)
	require.NotNil(t, want.Identity.Mean)
	assert.Greater(t, *want.Identity.Mean, 0.8)
	assert.EqualValues(t, want.Reads.Reads-3, want.Reads.Aligned)
	assert.Len(t, want.Contigs, 2)

	plain, err := os.ReadFile(reads)
	require.NoError(t, err)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err = z.Write(plain)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	gz := filepath.Join(dir, "reads.fastq.gz")
	require.NoError(t, os.WriteFile(gz, packed.Bytes(), 0o600))
	bam, sam := filepath.Join(dir, "reads.bam"), filepath.Join(dir, "reads.sam")
	for format, path := range map[string]string{"bam": bam, "sam": sam} {
		_, err = poreWith(t, nil, "align", "--ref", ref, "--format", format, "-o", path, reads)
		require.NoError(t, err)
	}
	text, err := os.ReadFile(sam)
	require.NoError(t, err)
	var unaligned strings.Builder // the reads as sequenced, without a reference in the header
	unaligned.WriteString("@HD\tVN:1.6\n")
	for i, lines := 0, strings.Split(strings.TrimSpace(string(plain)), "\n"); i < len(lines); i += 4 {
		fmt.Fprintf(&unaligned, "%s\t4\t*\t0\t0\t*\t*\t0\t0\t%s\t%s\n", strings.Fields(lines[i][1:])[0], lines[i+1], lines[i+3])
	}
	reversed := strings.Count(string(text), "\t16\t")
	require.Positive(t, reversed, "reads of both strands")
	ubam := filepath.Join(dir, "unaligned.sam")
	require.NoError(t, os.WriteFile(ubam, []byte(unaligned.String()), 0o600))
	for _, args := range [][]string{{reads, "--threads", "3"}, {gz}, {bam}, {sam}, {bam, "--realign"}, {ubam}} {
		assert.Equal(t, want, basecallEvaluation(t, append(args, "--ref", ref)...), "%v", args)
	}
	text2, err := poreWith(t, bytes.NewReader(plain), "eval", "basecall", "--ref", ref, "-")
	require.NoError(t, err)
	assert.Regexp(t, `Identity  mean 8\d\.\d\d %`, text2)
	assert.Regexp(t, `Contigs +reads +aligned bases +identity\n`, text2)
}

// Another program, with another library and from MD tags, counts the same.
func TestEvalBasecallEqualsPysam(t *testing.T) {
	t.Parallel()
	python := testenv.Python(t, "PORESTREAM_SIGNAL_PYTHON", "pysam", "pysam")
	ref, reads := simulatedCalls(t)
	bam := filepath.Join(filepath.Dir(ref), "reads.bam")
	_, err := poreWith(t, nil, "align", "--ref", ref, "-o", bam, reads)
	require.NoError(t, err)
	var want struct {
		Reads, Aligned, Clipped int64
		N50                     int
		Mean, Median            float64
		Columns, Pairs, Runs    map[string]int64
		Contexts                map[string][4]int64
		GATC                    map[string]int64
		Qualities               map[string][3]float64
	}
	oracle(t, &want, python, "testdata/judged.py", bam)
	got := basecallEvaluation(t, "--ref", ref, bam)
	assert.Equal(t, []int64{want.Reads, want.Aligned, want.Clipped, int64(want.N50)}, []int64{got.Reads.Reads, got.Reads.Aligned, got.Reads.ClippedBases, int64(got.Reads.N50)})
	assert.InDelta(t, want.Mean, *got.Identity.Mean, 1e-8)
	assert.InDelta(t, want.Median, *got.Identity.Median, 1e-5)
	assert.Equal(t, want.Columns, map[string]int64{"matches": got.Errors.Matches, "substitutions": got.Errors.Substitutions, "insertions": got.Errors.Insertions, "deletions": got.Errors.Deletions})
	for i, row := range got.Confusion.Counts {
		for j, n := range row {
			assert.Equal(t, want.Pairs["ACGT"[i:i+1]+"ACGT"[j:j+1]], n)
		}
	}
	called := make(map[string]int64)
	for _, h := range got.Homopolymers {
		for n, count := range h.Called {
			if h.Base != "all" && count > 0 {
				called[fmt.Sprintf("%s %d %d", h.Base, h.Length, n)] = count
			}
		}
	}
	assert.Equal(t, want.Runs, called)
	for _, c := range got.Contexts {
		assert.Equal(t, want.Contexts[c.Bases], [4]int64{c.Sites, c.Substitutions, c.Insertions, c.Deletions}, c.Bases)
	}
	assert.Equal(t, want.GATC["found"], got.Motifs[0].Occurrences)
	assert.InDelta(t, float64(want.GATC["right"])/float64(want.GATC["found"]), *got.Motifs[0].Exact, 1e-12)
	assert.Len(t, got.Qualities.Bins, len(want.Qualities))
	for _, bin := range got.Qualities.Bins {
		q := want.Qualities[fmt.Sprint(bin.Quality)]
		assert.Equal(t, []float64{q[0], q[1]}, []float64{float64(bin.Bases), float64(bin.Substitutions + bin.Insertions)})
		assert.InDelta(t, max(0, q[2]), bin.Observed, 1e-9)
	}
}

// The training's own evaluation of the same reads is the same.
func TestEvalBasecallEqualsTraining(t *testing.T) {
	testenv.SkipUnchanged(t, "networks")
	t.Parallel()
	python := testenv.Python(t, "PORESTREAM_MODEL_PYTHON", "the training code", "basecall_train", "mappy")
	ref, reads := simulatedCalls(t)
	for name, files := range map[string][2]string{
		"simulated":  {ref, reads},
		"SARS-CoV-2": {"../../../shared/data/sarscov2-r9/NC_045512.2.fa", "../../../shared/data/sarscov2-r9/SP1.fastq.gz"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat(files[1]); err != nil {
				t.Skipf("needs the real reads: %v", err)
			}
			var want struct {
				Reads, Aligned        int64
				Mean, Median, Part    float64
				Columns, Homopolymers []int64
			}
			oracle(t, &want, python, "testdata/trained.py", files[0], files[1])
			got := basecallEvaluation(t, "--ref", files[0], files[1])
			assert.Equal(t, []int64{want.Reads, want.Aligned}, []int64{got.Reads.Reads, got.Reads.Aligned})
			assert.InDelta(t, want.Mean, *got.Identity.Mean, 1e-4)
			assert.InDelta(t, want.Median, *got.Identity.Median, 1e-4)
			assert.InDelta(t, want.Part, *got.Reads.AlignedPart, 1e-3)
			e := got.Errors
			for i, n := range []int64{e.Matches, e.Substitutions, e.Insertions, e.Deletions} {
				assert.InDelta(t, float64(want.Columns[i])/float64(want.Columns[0]), float64(n)/float64(e.Matches), 1e-4)
			}
			for i, n := range []int64{e.HomopolymerInsertions, e.HomopolymerDeletions} {
				assert.InDelta(t, float64(want.Homopolymers[i])/float64(want.Columns[0]), float64(n)/float64(e.Matches), 2e-4)
			}
		})
	}
}

// oracle runs a Python program and decodes what it prints.
func oracle(t *testing.T, into any, python string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), python, args...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join("..", "..", "train", "basecall")) // this tree's
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s", stderr.String())
	require.NoError(t, json.Unmarshal(out, into))
}

func TestEvalBasecallWrites(t *testing.T) {
	t.Parallel()
	ref, reads := simulatedCalls(t)
	dir := filepath.Dir(ref)
	// What the reads came to are their labels, and one more read was never called.
	tables := filepath.Join(dir, "tables")
	doc, err := poreWith(t, nil, "eval", "basecall", "--ref", ref, "--json", "--tsv", tables, "--plot", filepath.Join(dir, "p.svg"), "--motif", "cag", reads)
	require.NoError(t, err)
	report := filepath.Join(dir, "report.json")
	require.NoError(t, os.WriteFile(report, []byte(doc), 0o600))
	for _, name := range []string{"reads", "homopolymers", "contexts", "qualities", "contigs"} {
		b, err := os.ReadFile(filepath.Join(tables, name+".tsv"))
		require.NoError(t, err)
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		require.Greater(t, len(lines), 1, name)
		for _, line := range lines {
			require.Equal(t, strings.Count(lines[0], "\t"), strings.Count(line, "\t"), "%s: %s", name, line)
		}
	}
	rows, err := os.ReadFile(filepath.Join(tables, "reads.tsv"))
	require.NoError(t, err)
	var labels strings.Builder
	for line := range strings.Lines(string(rows)) {
		if f := strings.Split(line, "\t"); f[3] == "-" {
			fmt.Fprintf(&labels, "%s\tchrA\t0\t100\t+\n", f[0])
		} else {
			fmt.Fprintf(&labels, "%s\t%s\t%s\t%s\t%s\n", f[0], f[3], f[4], f[5], f[6])
		}
	}
	labels.WriteString("never\tchrA\t0\t100\t+\n")
	file := filepath.Join(dir, "labels.tsv")
	require.NoError(t, os.WriteFile(file, []byte(labels.String()), 0o600))
	got := basecallEvaluation(t, "--ref", ref, "--labels", file, reads)
	l := got.Labels
	n := int(got.Reads.Aligned)
	assert.Equal(t, []int{n + 4, n + 3, n, n}, []int{l.Reads, l.Called, l.Aligned, l.Placed})

	svg, err := os.ReadFile(filepath.Join(dir, "p.svg"))
	require.NoError(t, err)
	assert.Contains(t, string(svg), "reads.fastq against ref.fa")
	text, err := poreWith(t, nil, "eval", "basecall", "--ref", ref, "--compare", report, reads)
	require.NoError(t, err)
	assert.Regexp(t, `Since .*report.json\n +before +now +change\n`, text)
	assert.Regexp(t, `identity, mean +8\d\.\d\d % +8\d\.\d\d % +\+0\.00\n`, text)
	assert.Contains(t, text, "GATC")
	assert.NotContains(t, doc, "GATC", "--motif replaces the default")
}

func TestEvalBasecallErrors(t *testing.T) {
	t.Parallel()
	ref, reads := simulatedCalls(t)
	dir := filepath.Dir(ref)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	empty, notes := write("empty.fastq", ""), write("notes.txt", "hello\n")
	fasta, cut := write("x.fasta", ">a\nACGT\n"), write("cut.fastq", "@a\nACGT\n+\nIII")
	other := write("other.sam", "@SQ\tSN:chr1\tLN:100\n")
	shorter := write("shorter.sam", "@SQ\tSN:chrA\tLN:100\n")
	header := write("header.sam", "@HD\tVN:1.6\n")
	bare := write("bare.sam", "@SQ\tSN:chrA\tLN:30000\nr\t0\tchrA\t1\t60\t4M\t*\t0\t0\t*\t*\n")
	beyond := write("beyond.sam", "@SQ\tSN:chrA\tLN:30000\nr\t0\tchrA\t29999\t60\t4M\t*\t0\t0\tACGT\t*\n")
	bam := filepath.Join(dir, "reads.bam")
	_, err := poreWith(t, nil, "align", "--ref", ref, "-o", bam, reads)
	require.NoError(t, err)
	b, err := os.ReadFile(bam)
	require.NoError(t, err)
	half := write("half.bam", string(b[:len(b)/2]))
	labels, report := write("labels.tsv", "a\tb\n"), write("report.json", `{"schema_version":7}`)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--threads", "-1", reads}, "--threads -1: want a number of workers"},
		{[]string{"--motif", "GAXC", reads}, `--motif: motif "GAXC": 'X' is no letter for bases`},
		{[]string{"--json", "--compare", report, reads}, "--compare prints a table: leave out --json"},
		{[]string{"--compare", report, reads}, report + ": a report of version 7, want 1: make it again with pore eval basecall --json"},
		{[]string{"--compare", notes, reads}, notes + ": invalid character 'h' looking for beginning of value: want what pore eval basecall --json has printed"},
		{[]string{"--labels", labels, reads}, labels + ": line 1: there is no column read_id; want read_id, contig, start, end, strand, separated by tabs"},
		{[]string{empty}, empty + ": the file is empty"},
		{[]string{notes}, notes + ": neither FASTQ, SAM (with a header) nor BAM"},
		{[]string{fasta}, fasta + ": line 1: this is FASTA: FASTQ is needed, with qualities"},
		{[]string{cut}, cut + ": line 4: read a: 3 qualities for 4 bases"},
		{[]string{header}, header + ": there are no reads"},
		{[]string{other}, other + ": it is aligned to a reference with chr1, which " + ref + " has not: give that reference, or --realign"},
		{[]string{shorter}, shorter + ": it is aligned to a reference whose chrA has 100 bases, " + ref + " has 30000: give that reference, or --realign"},
		{[]string{bare}, "none of 1 records can be used; the first: " + bare + ": record 1, read r: it is aligned but has no sequence"},
		{[]string{beyond}, "none of 1 records can be used; the first: " + beyond + ": read r: it can't be counted: the CIGAR is longer than the reference: 4 bases from position 29999 of 30000"},
		{[]string{half}, half + ": the file has no bgzip end marker: it is cut short; get it again"},
		{[]string{filepath.Join(dir, "none")}, "open " + filepath.Join(dir, "none") + ": no such file or directory"},
	} {
		_, err := poreWith(t, nil, append([]string{"eval", "basecall", "--ref", ref}, tt.args...)...)
		assert.EqualError(t, err, tt.want)
	}
	_, err = poreWith(t, nil, "eval", "basecall", reads)
	assert.EqualError(t, err, "--ref is required: the genome that the reads came from")
}
