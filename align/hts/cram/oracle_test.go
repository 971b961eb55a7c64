package cram_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align/hts/cram"
	"github.com/porestream/porestream/genome"
)

// sample is a SAM file of records of every kind, and its reference.
type sample struct {
	genome *genome.Genome
	fasta  string // path
	sam    string // path
	lines  []string
}

// newSample writes a sample. Its CIGARs have M alone, as CRAM has no other matches.
func newSample(t testing.TB, random *rand.Rand) *sample {
	t.Helper()
	dir := t.TempDir()
	s := &sample{fasta: filepath.Join(dir, "ref.fa"), sam: filepath.Join(dir, "reads.sam")}
	bases := func(n int, of string) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = of[random.IntN(len(of))]
		}
		return string(b)
	}
	const long = 36_000
	contigs := []string{bases(long, "ACGT"), bases(900, "ACGT") + "NNNNNRYKM" + bases(91, "ACGT"), bases(300, "ACGT")}
	var fasta, header strings.Builder
	header.WriteString("@HD\tVN:1.6\tSO:unsorted\n")
	for i, c := range contigs {
		fmt.Fprintf(&fasta, ">c%d\n%s\n", i+1, c)
		fmt.Fprintf(&header, "@SQ\tSN:c%d\tLN:%d\n", i+1, len(c))
	}
	header.WriteString("@RG\tID:a\tSM:one\tDS:runid=r basecall_model=m\n@RG\tID:b\tSM:two\n@CO\tsome text\n")
	require.NoError(t, os.WriteFile(s.fasta, []byte(fasta.String()), 0o600))
	var err error
	s.genome, err = genome.Load(s.fasta)
	require.NoError(t, err)

	qualities := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte('!' + min(random.IntN(50), random.IntN(93)))
		}
		return string(b)
	}
	tags := []string{
		"", "\tRG:Z:a", "\tRG:Z:b", "\tqs:f:12.5\tmx:i:1\tch:i:512\tst:Z:2026-01-01T00:00:00Z", "\tXA:A:q\tXb:i:-3\tXc:i:-300\tXd:i:-70000\tXe:i:200\tXf:i:60000\tXg:i:3000000000",
		"\tmv:B:c,5,1,0,1,1,0\tns:i:12000", "\tMM:Z:C+m?,1,2;A+a?,0;\tML:B:C,1,2,3\tMN:i:80", "\tBs:B:s,-1,300\tBS:B:S,1,60000\tBi:B:i,-70000\tBI:B:I,70000\tBf:B:f,0.5\tBC:B:C,0",
		"\tXH:H:1AE301\tXZ:Z:\tRG:Z:a",
	}
	add := func(format string, args ...any) { s.lines = append(s.lines, fmt.Sprintf(format, args...)) }
	for i := range 400 {
		contig := random.IntN(2)
		ref := contigs[contig]
		at := random.IntN(len(ref) - 200)
		seq, cigar := align(random, ref[at:], bases)
		quals := qualities(len(seq))
		flags := []int{0, 16, 0, 16, 256, 2048, 1024, 512}[random.IntN(8)]
		switch random.IntN(12) {
		case 0:
			quals = "*"
		case 1:
			if flags == 256 {
				seq, quals = "*", "*"
			}
		}
		add("read-%d:%s\t%d\tc%d\t%d\t%d\t%s\t*\t0\t0\t%s\t%s%s", i/3, bases(random.IntN(4), "xyz"), flags, contig+1, at+1, random.IntN(61), cigar, seq, quals, tags[random.IntN(len(tags))])
	}
	for i := range 5 { // N in the read as in the reference, which is no match
		add("unknown-%d\t0\tc2\t%d\t60\t%dM\t*\t0\t0\t%s\t%s", i, 881+i, 24-i, contigs[1][880+i:904], qualities(24-i))
	}
	for i := range 40 { // pairs, some of them far from each other, and a template of three
		at, span := random.IntN(600), 60+random.IntN(200)
		ref := contigs[1]
		first := "pair-%d\t%d\tc2\t%d\t60\t50M\t%s\t%d\t%d\t%s\t%s"
		add(first, i, 1|2|32|64, at+1, "=", at+span-49, span, ref[at:at+50], qualities(50))
		if i%5 == 0 {
			add("between-%d\t4\t*\t0\t0\t*\t*\t0\t0\tACGTNACGTA\t%s", i, qualities(10))
		}
		add(first, i, 1|2|16|128, at+span-49, "=", at+1, -span, ref[at+span-50:at+span], qualities(50))
	}
	for i := range 20 { // mates that are not aligned, in place and nowhere
		add("alone-%d\t73\tc1\t%d\t60\t30M\t=\t%d\t0\t%s\t%s", i, i*50+1, i*50+1, contigs[0][i*50:i*50+30], qualities(30))
		add("alone-%d\t133\tc1\t%d\t0\t*\t=\t%d\t0\t%s\t%s", i, i*50+1, i*50+1, bases(30, "ACGTN"), qualities(30))
		add("nowhere-%d\t4\t*\t0\t0\t*\t*\t0\t0\t%s\t%s%s", i, bases(1+random.IntN(300), "ACGT"), "*", tags[random.IntN(len(tags))])
	}
	// More operations than BAM counts, of bases that are all inserted or the reference's.
	seq, cigar := strings.Builder{}, strings.Builder{}
	for i := range 33_000 {
		seq.WriteByte(contigs[0][i])
		seq.WriteByte('A')
		cigar.WriteString("1M1I")
	}
	add("many\t0\tc1\t1\t60\t%s\t*\t0\t0\t%s\t%s\tRG:Z:b", cigar.String(), seq.String(), strings.Repeat("I", seq.Len()))
	add("empty\t4\t*\t0\t0\t*\t*\t0\t0\t*\t*")
	require.NoError(t, os.WriteFile(s.sam, []byte(header.String()+strings.Join(s.lines, "\n")+"\n"), 0o600))
	return s
}

// align makes a read of a reference, with everything that a CIGAR can have.
func align(random *rand.Rand, ref string, bases func(int, string) string) (seq, cigar string) {
	var b, c strings.Builder
	matched := 0
	op := func(n int, kind byte) {
		if kind == 'M' { // which is one operation with the next
			matched += n
			return
		}
		if matched > 0 {
			fmt.Fprintf(&c, "%dM", matched)
			matched = 0
		}
		if kind != 0 {
			fmt.Fprintf(&c, "%d%c", n, kind)
		}
	}
	if random.IntN(6) == 0 {
		op(1+random.IntN(50), 'H')
	}
	clip := func() {
		if random.IntN(3) == 0 {
			n := 1 + random.IntN(20)
			b.WriteString(bases(n, "ACGTN"))
			op(n, 'S')
		}
	}
	clip()
	for range 1 + random.IntN(5) {
		n := 1 + random.IntN(25)
		piece := []byte(ref[:n])
		ref = ref[n:]
		for i := range piece {
			if random.IntN(8) == 0 {
				piece[i] = "ACGTNRYK"[random.IntN(8)]
			}
		}
		b.Write(piece)
		op(n, 'M')
		switch random.IntN(6) {
		case 0:
			n := 1 + random.IntN(4)
			b.WriteString(bases(n, "ACGT"))
			op(n, 'I')
		case 1:
			n := 1 + random.IntN(8)
			ref = ref[n:]
			op(n, 'D')
		case 2:
			if random.IntN(4) == 0 {
				op(1+random.IntN(3), 'P')
			}
		case 3:
			if random.IntN(4) == 0 {
				n := 1 + random.IntN(8)
				ref = ref[n:]
				op(n, 'N')
			}
		default:
			continue
		}
		b.WriteByte(ref[0])
		ref = ref[1:]
		op(1, 'M')
	}
	clip()
	op(0, 0)
	return b.String(), c.String()
}

// written is how samtools writes CRAM.
type written struct {
	name    string
	options []string
	// sorted says that the records are, by position.
	sorted bool
	// nameless says that names are left out, so that they are other ones.
	nameless bool
	// old says that a sequence that isn't known is kept as one that is the reference's.
	old bool
	// whole says that no FASTA is needed.
	whole bool
}

var ways = []written{
	{name: "2.1", options: []string{"version=2.1"}, sorted: true, old: true},
	{name: "3.0", options: []string{"version=3.0"}},
	{name: "3.0 sorted", options: []string{"version=3.0"}, sorted: true},
	{name: "3.0 uncompressed", options: []string{"version=3.0", "level=0"}},
	{name: "3.1", options: []string{"version=3.1"}},
	{name: "3.1 fast", options: []string{"version=3.1", "fast"}, sorted: true},
	{name: "3.0 small", options: []string{"version=3.0", "small"}},
	{name: "3.1 small", options: []string{"version=3.1", "small"}, sorted: true},
	{name: "3.1 archive", options: []string{"version=3.1", "archive"}},
	{name: "bzip2", options: []string{"version=3.0", "use_bzip2=1", "use_rans=0", "level=9"}, sorted: true},
	{name: "lzma", options: []string{"version=3.0", "use_lzma=1", "use_rans=0", "level=9"}},
	{name: "arithmetic", options: []string{"version=3.1", "use_arith=1", "use_rans=0", "level=9"}},
	{name: "fqzcomp, names", options: []string{"version=3.1", "use_fqz=1", "use_tok=1", "use_arith=1", "level=9"}, sorted: true},
	{name: "no tokens", options: []string{"version=3.1", "use_tok=0", "use_fqz=0"}},
	{name: "small slices", options: []string{"seqs_per_slice=7"}, sorted: true},
	{name: "several slices", options: []string{"seqs_per_slice=9", "slices_per_container=4"}, sorted: true},
	{name: "several references", options: []string{"multi_seq_per_slice=1"}, sorted: true},
	{name: "no several references", options: []string{"multi_seq_per_slice=-1", "seqs_per_slice=100"}, sorted: true},
	{name: "stored MD and NM", options: []string{"store_md=1", "store_nm=1"}},
	{name: "without a reference", options: []string{"no_ref=1"}, sorted: true, whole: true},
	{name: "embedded reference", options: []string{"embed_ref=1"}, sorted: true, whole: true},
	{name: "no names", options: []string{"lossy_names=1"}, sorted: true, nameless: true},
}

// read decodes a CRAM file.
func read(t testing.TB, data []byte, reference func(string) []byte) []byte {
	t.Helper()
	out, err := io.ReadAll(cram.NewReader(bytes.NewReader(data), cram.Options{Reference: reference, Names: "n"}))
	require.NoError(t, err)
	return out
}

// samtools runs it, and returns what it writes.
func samtools(t testing.TB, stdin []byte, args ...string) []byte {
	t.Helper()
	path, err := exec.LookPath("samtools")
	if err != nil {
		if os.Getenv("CI") == "true" {
			require.NoError(t, err, "CI needs samtools")
		}
		t.Skip("samtools is not installed")
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(stdin), &said
	out, err := cmd.Output()
	require.NoError(t, err, "samtools %v: %s", args, said.String())
	return out
}

// TestSamtools: what is read of a CRAM file is what samtools reads, to the byte, and what the file was
// written from.
func TestSamtools(t *testing.T) {
	s := newSample(t, rand.New(rand.NewPCG(41, 1)))
	sorted := filepath.Join(t.TempDir(), "sorted.bam")
	samtools(t, nil, "sort", "--no-PG", "-o", sorted, s.sam)
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			file, from := filepath.Join(t.TempDir(), "x.cram"), s.sam
			if way.sorted {
				from = sorted
			}
			args := []string{"view", "--no-PG", "-O", "cram", "-T", s.fasta, "-o", file}
			for _, o := range way.options {
				args = append(args, "--output-fmt-option", o)
			}
			samtools(t, nil, append(args, from)...)
			s.compare(t, file, samtools(t, nil, "view", "--no-PG", "-T", s.fasta, file), samtools(t, nil, "view", "--no-PG", from), &way)
		})
	}
}

// TestSamtoolsHeaders: a header of any length is read as samtools reads it, with the space behind it that
// samtools leaves in CRAM 2: the lengths of both have one byte to 127, two to 16383, then three.
func TestSamtoolsHeaders(t *testing.T) {
	for _, version := range []string{"2.0", "2.1", "3.0", "3.1"} {
		for _, length := range []int{0, 100, 130, 4000, 5000, 16_300, 20_000} {
			text := ""
			if length > 0 {
				text = "@HD\tVN:1.6\n@CO\t" + strings.Repeat("n", length-16) + "\n"
			}
			sam := []byte(text + "a\t4\t*\t0\t0\t*\t*\t0\t0\tACGT\tIIII\n")
			file := samtools(t, sam, "view", "--no-PG", "-C", "--output-fmt-option", "version="+version, "-")
			ours := samtools(t, read(t, file, nil), "view", "--no-PG", "-h", "-")
			same(t, sam, ours, fmt.Sprintf("CRAM %s with a header of %d bytes", version, length))
		}
	}
}

// compare holds what is read of a file to what an oracle reads of it, and to what it was written from.
func (s *sample) compare(t *testing.T, file string, theirs, from []byte, way *written) {
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	ours := samtools(t, read(t, data, s.genome.Bases), "view", "--no-PG", "-")
	if way.nameless {
		ours, theirs, from = withoutNames(ours), withoutNames(theirs), withoutNames(from)
	}
	same(t, theirs, ours, "as the oracle reads it")
	if !way.old {
		same(t, canonical(from), canonical(ours), "as it was written")
	}
	if way.whole {
		read(t, data, nil)
	}
}

// same fails with the first line that differs.
func same(t *testing.T, want, got []byte, what string) {
	t.Helper()
	if bytes.Equal(want, got) {
		return
	}
	w, g := bytes.Split(want, []byte("\n")), bytes.Split(got, []byte("\n"))
	for i := range min(len(w), len(g)) {
		if !bytes.Equal(w[i], g[i]) {
			t.Fatalf("%s: line %d is\n%.2000s\nwant\n%.2000s", what, i+1, g[i], w[i])
		}
	}
	t.Fatalf("%s: %d lines, want %d", what, len(g), len(w))
}

// canonical are records without what CRAM doesn't keep: the order of tags, and which records had MD
// and NM.
func canonical(text []byte) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		fields := strings.Split(strings.TrimRight(string(line), "\n"), "\t")
		tags := slices.DeleteFunc(fields[11:], func(f string) bool {
			return strings.HasPrefix(f, "MD:") || strings.HasPrefix(f, "NM:")
		})
		slices.Sort(tags)
		out = append(append(out, strings.Join(append(fields[:11:11], tags...), "\t")...), '\n')
	}
	return out
}

// withoutNames are records without their names.
func withoutNames(text []byte) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		_, rest, _ := bytes.Cut(line, []byte("\t"))
		out = append(append(out, "*\t"...), rest...)
	}
	return out
}

// TestFilesOfPysamHoldTheSameRecords: as TestSamtools, with a newer htslib, which writes what samtools of Debian doesn't.
func TestFilesOfPysamHoldTheSameRecords(t *testing.T) {
	python := os.Getenv("PORESTREAM_SIGNAL_PYTHON")
	if python == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("CI needs pysam: PORESTREAM_SIGNAL_PYTHON names a Python with it")
		}
		t.Skip("PORESTREAM_SIGNAL_PYTHON names no Python with pysam")
	}
	s := newSample(t, rand.New(rand.NewPCG(41, 2)))
	dir := t.TempDir()
	sorted := filepath.Join(dir, "sorted.bam")
	samtools(t, nil, "sort", "--no-PG", "-o", sorted, s.sam)
	own := append(slices.Clone(ways), written{name: "embedded consensus", options: []string{"embed_ref=2"}, sorted: true, whole: true})
	type job struct {
		From, File, Text string
		Options          []string
	}
	var jobs []job
	for i, way := range own {
		j := job{From: s.sam, File: filepath.Join(dir, fmt.Sprint(i, ".cram")), Text: filepath.Join(dir, fmt.Sprint(i, ".sam"))}
		if way.sorted {
			j.From = sorted
		}
		for _, o := range way.options {
			j.Options = append(j.Options, "--output-fmt-option", o)
		}
		jobs = append(jobs, j)
	}
	list, err := json.Marshal(jobs)
	require.NoError(t, err)
	const script = `
import json, sys, pysam
fasta = sys.argv[1]
for j in json.load(sys.stdin):
    pysam.view("--no-PG", "-O", "cram", "-T", fasta, *j["Options"], "-o", j["File"], j["From"], catch_stdout=False)
    pysam.view("--no-PG", "-T", fasta, "-o", j["Text"], j["File"], catch_stdout=False)
`
	cmd := exec.CommandContext(t.Context(), python, "-c", script, s.fasta)
	cmd.Stdin = bytes.NewReader(list)
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", said)
	for i, way := range own {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			theirs, err := os.ReadFile(jobs[i].Text)
			require.NoError(t, err)
			s.compare(t, jobs[i].File, theirs, samtools(t, nil, "view", "--no-PG", jobs[i].From), &way)
		})
	}
}
