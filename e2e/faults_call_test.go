package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biogo/hts/bam"
	"github.com/biogo/hts/sam"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/models"
)

// callFault is a call that goes wrong, in a folder of its own with a reference of
// 3,000 bases.
type callFault struct {
	*testing.T
	dir   string
	seq   string
	stdin []byte
	out   string // where the VCF is to go
}

const samHeader = "@HD\tVN:1.6\tSO:coordinate\n@SQ\tSN:c1\tLN:3000\n"

// write writes a file of the folder and returns its path.
func (f *callFault) write(name string, content []byte) string {
	f.Helper()
	path := filepath.Join(f.dir, name)
	require.NoError(f, os.WriteFile(path, content, 0o600))
	return path
}

// record is an alignment of ten bases.
func (f *callFault) record(name string, pos int, cigar string) string {
	return fmt.Sprintf("%s\t0\tc1\t%d\t60\t%s\t*\t0\t0\t%s\t*\n", name, pos, cigar, f.seq[100:110])
}

// bam is a whole BAM file with some alignments.
func (f *callFault) bam() []byte {
	f.Helper()
	text := samHeader
	for i := range 400 {
		text += fmt.Sprintf("r%d\t0\tc1\t%d\t60\t200M\t*\t0\t0\t%s\t*\n", i, i+1, f.seq[i:i+200])
	}
	sr, err := sam.NewReader(strings.NewReader(text))
	require.NoError(f, err)
	var b bytes.Buffer
	bw, err := bam.NewWriter(&b, sr.Header(), 1)
	require.NoError(f, err)
	for range 400 {
		rec, err := sr.Read()
		require.NoError(f, err)
		require.NoError(f, bw.Write(rec))
	}
	require.NoError(f, bw.Close())
	return b.Bytes()
}

// cram is a whole CRAM file with some alignments to a contig.
func (f *callFault) cram(contig string) []byte {
	f.Helper()
	needs(f.T, "samtools")
	reference := f.write("cram.fa", []byte(">c1\n"+contig+"\n"))
	cmd := exec.CommandContext(f.Context(), "samtools", "view", "-O", "cram", "-T", reference, "-")
	text := samHeader
	for i := range 40 {
		text += fmt.Sprintf("r%d\t0\tc1\t%d\t60\t200M\t*\t0\t0\t%s\t*\n", i, i+1, contig[i:i+200])
	}
	cmd.Stdin = strings.NewReader(text)
	b, err := cmd.Output()
	require.NoError(f, err)
	return b
}

// callFaults are the rows of docs/files/variant-calling.md: what brings each about returns
// the arguments of the call.
var callFaults = map[string]func(*callFault) []string{
	"the file is missing":        func(f *callFault) []string { return []string{filepath.Join(f.dir, "none.bam")} },
	"the file is empty":          func(f *callFault) []string { return []string{f.write("x.bam", nil)} },
	"the file is something else": func(f *callFault) []string { return []string{f.write("x.bam", []byte(">c1\nACGT\n"))} },
	"a CRAM file was written with another reference": func(f *callFault) []string {
		return []string{f.write("x.cram", f.cram(f.seq[1500:]+f.seq[:1500]))}
	},
	"the end of a CRAM file is missing": func(f *callFault) []string {
		b := f.cram(f.seq)
		return []string{f.write("x.cram", b[:len(b)-38])}
	},
	"the file is compressed, and no BAM": func(f *callFault) []string {
		return []string{f.write("x.bam", readFile(f, root(), "annotate", "haplotype", "testdata", "random.tar.gz"))}
	},
	"the end is missing": func(f *callFault) []string {
		b := f.bam()
		return []string{f.write("x.bam", b[:len(b)-28])}
	},
	"the end of a pipe is missing": func(f *callFault) []string {
		b := f.bam()
		f.stdin = b[:len(b)*2/3]
		return []string{"-"}
	},
	"bytes are damaged": func(f *callFault) []string { return []string{f.write("x.bam", damaged(f.bam()))} },
	"a contig is not in the reference": func(f *callFault) []string {
		return []string{f.write("x.sam", []byte("@SQ\tSN:chrX\tLN:3000\n"))}
	},
	"a contig has another length": func(f *callFault) []string {
		return []string{f.write("x.sam", []byte("@SQ\tSN:c1\tLN:2000\n"))}
	},
	"a contig has another sequence": func(f *callFault) []string {
		return []string{f.write("x.sam", []byte(samHeader+fmt.Sprintf("r\t0\tc1\t1\t60\t2000M\t*\t0\t0\t%s\t*\n", f.seq[1000:])))}
	},
	"the order is not as said": func(f *callFault) []string {
		return []string{f.write("x.sam", []byte(samHeader+f.record("a", 201, "10M")+f.record("b", 101, "10M")))}
	},
	"alignments go beyond a contig": func(f *callFault) []string {
		return []string{f.write("x.sam", []byte(samHeader+strings.Repeat(f.record("r", 2995, "10M"), 10)))}
	},
	"a line can't be read": func(f *callFault) []string {
		return []string{f.write("x.sam", []byte(samHeader+"r\t0\tc1\n"))}
	},
	"there are several samples": func(f *callFault) []string {
		return []string{f.write("x.sam", []byte(samHeader+"@RG\tID:a\tSM:one\n@RG\tID:b\tSM:two\n"))}
	},
	"a sample is unknown": func(f *callFault) []string {
		return []string{"--sample", "three", f.write("x.sam", []byte(samHeader+"@RG\tID:a\tSM:one\n@RG\tID:b\tSM:two\n"))}
	},
	"reads are of another basecalling model, with --strict-models": func(f *callFault) []string {
		return []string{"--variant-model", models.DefaultVariant, "--strict-models", "--called-by", "fast@v1", f.write("x.sam", []byte(samHeader+f.record("r", 101, "10M")))}
	},
	"reads name no basecalling model, with --strict-models": func(f *callFault) []string {
		return []string{"--variant-model", models.DefaultVariant, "--strict-models", f.write("x.sam", []byte(samHeader+f.record("r", 101, "10M")))}
	},
	"the index is damaged": func(f *callFault) []string {
		f.write("x.bam.bai", []byte("BAI\x01\xff\xff\xff"))
		return []string{"--region", "c1", f.write("x.bam", f.bam())}
	},
	"the output can't be written": func(f *callFault) []string {
		f.out = filepath.Join(f.dir, "none", "out.vcf.gz")
		return []string{f.write("x.bam", f.bam())}
	},
	"a region is unknown": func(f *callFault) []string {
		return []string{"--region", "chrX:1-2", f.write("x.bam", f.bam())}
	},
	"a BED line is wrong": func(f *callFault) []string {
		return []string{"--bed", f.write("x.bed", []byte("c1\t10\t5\n")), f.write("x.bam", f.bam())}
	},
}

// TestCallFaults brings about everything that docs/files/variant-calling.md says can go
// wrong, and holds pore call to what is said there: one line, the exit code, and
// nothing written.
func TestCallFaults(t *testing.T) {
	rows := faultTable(t, filepath.Join(root(), "docs", "files", "variant-calling.md"))
	for name := range callFaults {
		require.Contains(t, rows, name, "docs/files/variant-calling.md has no such row")
	}
	var seq strings.Builder
	for i := range 3000 {
		seq.WriteByte("ACGT"[(i*i/7+i/5)%4])
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provoke := callFaults[name]
			require.NotNil(t, provoke, "nothing here provokes it")
			f := &callFault{T: t, dir: t.TempDir(), seq: seq.String()}
			f.out = filepath.Join(f.dir, "out.vcf.gz")
			reference := f.write("ref.fa", []byte(">c1\n"+f.seq+"\n"))
			args := provoke(f)
			before, err := os.ReadDir(f.dir)
			require.NoError(t, err)
			cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "pore"), append([]string{
				"call", "--ref", reference, "--variant-model", "none", "--callable", filepath.Join(f.dir, "callable.bed"), "-o", f.out,
			}, args...)...)
			var stdout, stderr bytes.Buffer
			cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(f.stdin), &stdout, &stderr
			require.Error(t, cmd.Run(), "it works")
			require.Equal(t, row.counter, fmt.Sprint("exit ", cmd.ProcessState.ExitCode()), stderr.String())
			require.Equal(t, 1, strings.Count(stderr.String(), "\n"), stderr.String())
			row.line = strings.ReplaceAll(row.line, `\|`, "|") // as a table of Markdown needs it
			require.Regexp(t, row.matcher(), stderr.String())
			require.Empty(t, stdout.String())
			after, err := os.ReadDir(f.dir)
			require.NoError(t, err)
			require.Equal(t, len(before), len(after), "%v", after)
		})
	}
}

// A file without an alignment that can be used is no error.
func TestCallOfNothing(t *testing.T) {
	f := &callFault{T: t, dir: t.TempDir()}
	reference := f.write("ref.fa", []byte(">c1\n"+strings.Repeat("ACGTTGCA", 375)+"\n"))
	out := filepath.Join(f.dir, "out.vcf.gz")
	got := pore(t, "call", "--ref", reference, "--variant-model", "none", "-o", out, "--callable", filepath.Join(f.dir, "x.bed"), f.write("x.sam", []byte(samHeader+"r\t4\t*\t0\t0\t*\t*\t0\t0\tACGT\t*\n")))
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stderr, "no alignment could be used, so nothing was called")
	require.Equal(t, 1, strings.Count(got.stderr, "\n"))
	require.FileExists(t, out+".tbi")
	require.Equal(t, "c1\t0\t3000\tNO_COVERAGE\n", string(readFile(t, f.dir, "x.bed")))
}
