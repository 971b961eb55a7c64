package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biogo/hts/sam"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/simulate"
)

// poreWith runs a command on standard input and returns what it prints.
func poreWith(t *testing.T, stdin io.Reader, args ...string) (string, error) {
	t.Helper()
	cmd := command()
	var stdout bytes.Buffer
	cmd.SetIn(stdin)
	cmd.SetOut(&stdout)
	cmd.SetErr(io.Discard)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return stdout.String(), err
}

// randomFASTA writes a reference of two contigs.
func randomFASTA(t *testing.T, bases int) string {
	t.Helper()
	rnd := rand.New(rand.NewPCG(4, 4))
	var b strings.Builder
	for _, name := range []string{"chrA", "chrB"} {
		b.WriteString(">" + name + "\n")
		for range bases {
			b.WriteByte("ACGT"[rnd.IntN(4)])
		}
		b.WriteString("\n")
	}
	path := filepath.Join(t.TempDir(), "ref.fa")
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
	return path
}

// Simulated reads are aligned to where they are from, by any number of threads and in
// any amount of memory alike, and other tools accept the file.
func TestSimulatedReadsAreAlignedWhereTheyAreFrom(t *testing.T) {
	ref := randomFASTA(t, 30_000)
	truth := filepath.Join(filepath.Dir(ref), "truth.vcf")
	simulateArgs := []string{"simulate", "reads", "--ref", ref, "--ploidy", "2", "--variants", "snp=40,indel=20", "--profile", "r10.4.1-2pct", "--depth", "8", "--length", "3000", "--seed", "5", "--truth", truth}
	reads, err := poreWith(t, nil, append(simulateArgs, "--threads", "1")...)
	require.NoError(t, err)
	again, err := poreWith(t, nil, append(simulateArgs, "--threads", "3")...)
	require.NoError(t, err)
	require.Equal(t, reads, again)
	rows, err := os.ReadFile(truth)
	require.NoError(t, err)
	require.Equal(t, 60, strings.Count(string(rows), "\tPASS\t"))

	aligned, err := poreWith(t, strings.NewReader(reads), "align", "--ref", ref, "--format", "sam", "--sample", "s", "--threads", "1", "-")
	require.NoError(t, err)
	little, err := poreWith(t, strings.NewReader(reads), "align", "--ref", ref, "--format", "sam", "--sample", "s", "--threads", "3", "--memory", "100KB", "-")
	require.NoError(t, err)
	require.Equal(t, aligned, little)
	r, err := sam.NewReader(strings.NewReader(aligned))
	require.NoError(t, err)
	require.Equal(t, "s", r.Header().RGs()[0].Get(sam.NewTag("SM")))
	n := 0
	for {
		rec, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		n++
		o, err := simulate.ParseName(rec.Name)
		require.NoError(t, err)
		require.Equal(t, o.Contig, rec.Ref.Name())
		require.Equal(t, o.Reverse, rec.Flags&sam.Reverse != 0)
		require.InDelta(t, o.Start, rec.Pos, 300)
		require.InDelta(t, o.End, rec.End(), 300)
	}
	require.Equal(t, strings.Count(reads, "\n+\n"), n)

	samtools, err := exec.LookPath("samtools")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("samtools is not installed")
	}
	bam := filepath.Join(filepath.Dir(ref), "reads.bam")
	_, err = poreWith(t, strings.NewReader(reads), "align", "--ref", ref, "-o", bam, "-")
	require.NoError(t, err)
	for _, args := range [][]string{{"quickcheck", "-v", bam}, {"index", bam}} {
		out, err := exec.CommandContext(t.Context(), samtools, args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Empty(t, string(out))
	}
	// samtools makes NM and MD anew, and says where they were others.
	out, err := exec.CommandContext(t.Context(), samtools, "calmd", "-b", bam, ref).Output()
	require.NoError(t, err)
	var said bytes.Buffer
	check := exec.CommandContext(t.Context(), samtools, "calmd", "-b", bam, ref)
	check.Stderr = &said
	require.NoError(t, check.Run())
	require.NotEmpty(t, out)
	require.NotContains(t, said.String(), "different")
}

func TestSimulateReference(t *testing.T) {
	ref := randomFASTA(t, 20_000)
	dir := filepath.Dir(ref)
	planted, err := poreWith(t, nil, "simulate", "reference", "--ref", ref, "--variants", "snp=30,indel=30", "--truth", filepath.Join(dir, "truth.vcf"),
		"--homopolymers", filepath.Join(dir, "in.bed"), "--outside-homopolymers", filepath.Join(dir, "out.bed"))
	require.NoError(t, err)
	path := filepath.Join(dir, "planted.fa")
	require.NoError(t, os.WriteFile(path, []byte(planted), 0o600))
	// The changes planted back make reads of the first reference.
	of := func(ref, vcf string) string {
		args := []string{"simulate", "reference", "--ref", ref, "-o", "-"}
		if vcf != "" {
			args = append(args, "--vcf-in", vcf)
		}
		text, err := poreWith(t, nil, args...)
		require.NoError(t, err)
		return text
	}
	require.Equal(t, of(ref, ""), of(path, filepath.Join(dir, "truth.vcf")))
	for _, name := range []string{"in.bed", "out.bed"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Contains(t, string(text), "chrB\t")
	}
}

func TestSimulateProfile(t *testing.T) {
	ref := randomFASTA(t, 10_000)
	reads, err := poreWith(t, nil, "simulate", "reads", "--ref", ref, "--profile", "r10.4.1-3pct", "--depth", "15", "--length", "2000")
	require.NoError(t, err)
	aligned, err := poreWith(t, strings.NewReader(reads), "align", "--ref", ref, "--format", "sam", "-")
	require.NoError(t, err)
	args := []string{"simulate", "profile", "--ref", ref, "--same-genome", "--rounds", "1", "--name", "mine", "-"}
	text, err := poreWith(t, strings.NewReader(aligned), args...)
	require.NoError(t, err)
	p, err := simulate.ParseProfile([]byte(text))
	require.NoError(t, err)
	require.Equal(t, "mine", p.Name)
	require.InDelta(t, 0.025, p.ErrorRate, 0.012)
	again, err := poreWith(t, strings.NewReader(aligned), args...)
	require.NoError(t, err)
	require.Equal(t, text, again)

	path := filepath.Join(t.TempDir(), "mine.toml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	half, err := poreWith(t, nil, "simulate", "derive", "--name", "half", "--errors", fmt.Sprint(p.ErrorRate/2), "--seed", "9", path)
	require.NoError(t, err)
	derived, err := simulate.ParseProfile([]byte(half))
	require.NoError(t, err)
	require.InEpsilon(t, p.Contexts["AACGT"][0]/2, derived.Contexts["AACGT"][0], 0.01)
}

func TestSimulateAndAlignRefuse(t *testing.T) {
	ref := randomFASTA(t, 2000)
	fastq := "@a b\nACGT\n+\n!!!\n"
	for _, tc := range []struct {
		stdin string
		args  string
		want  string
	}{
		{"", "align x.fastq", "--ref is required"},
		{"", "align --ref " + ref, "requires at least 1 arg"},
		{"", "align --ref " + ref + " --format cram -", `--format "cram"`},
		{"", "align --ref " + ref + " --preset no -", `no preset "no"`},
		{"", "align --ref " + ref + " missing.fastq", "missing.fastq: no such file"},
		{fastq, "align --ref " + ref + " -", "standard input: line 4: read a: 3 qualities for 4 bases"},
		{"@a@b\nACGT\n+\n!!!!\n", "align --ref " + ref + " -", `read "a@b": its name has '@'`},
		{"", "simulate reads --ref " + ref, "--profile is required"},
		{"", "simulate reads --profile r10.4.1-2pct", "--ref is required"},
		{"", "simulate reads --profile r12 --ref " + ref, `opening profile "r12"`},
		{"", "simulate reads --profile r10.4.1-2pct --depth 0 --ref " + ref, "depth of 0"},
		{"", "simulate reads --profile r10.4.1-2pct --ploidy 3 --ref " + ref, "--ploidy 3"},
		{"", "simulate reads --profile r10.4.1-2pct --variants snv=1 --ref " + ref, "snv"},
		{"", "simulate reads --profile r10.4.1-2pct --variants human --vcf-in x.vcf --ref " + ref, "exclude each other"},
		{"", "simulate reads --profile r10.4.1-2pct --vcf-in missing.vcf --ref " + ref, "missing.vcf: no such file"},
		{"", "simulate reference --ploidy 2 --ref " + ref, "--ploidy 2"},
		{"", "simulate profile --ref " + ref + " -", "standard input: reading alignments"},
		{"@HD\tVN:1.6\n@SQ\tSN:chrA\tLN:2000\n", "simulate profile --ref " + ref + " -", "0 aligned bases"},
		{"", "simulate derive r10.4.1-2pct", "--name is required"},
		{"", "simulate", "--ref is required"},
	} {
		_, err := poreWith(t, strings.NewReader(tc.stdin), strings.Fields(tc.args)...)
		require.ErrorContains(t, err, tc.want, tc.args)
		require.NotContains(t, err.Error(), "\n")
	}
}
