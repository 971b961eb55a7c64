// Package e2e tests the commands as a user runs them: real binaries, real
// recordings, exit codes, files and error lines.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream/streamtest"
	"github.com/porestream/porestream/testenv"
	"github.com/porestream/porestream/vcf"
)

// bin is the folder of the binaries under test.
var bin string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "porestream-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		build := exec.Command("go", "build", "-ldflags=-s -w", "-o", dir+"/", "./cmd/...", "./e2e/live")
		build.Dir = root()
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building the commands: %v\n%s", err, out)
			return 1
		}
		bin = dir
		moreAtOnce()
		if os.Getenv("ORT_LIB") == "" {
			os.Setenv("ORT_LIB", filepath.Join(root(), ".deps", "onnxruntime", "libonnxruntime.so"))
		}
		return streamtest.Main(m)
	}())
}

// moreAtOnce runs at least four tests at a time, unless -parallel says otherwise: most of what they do is wait for programs.
func moreAtOnce() {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", strconv.Itoa(max(4, runtime.GOMAXPROCS(0)))); err != nil {
			panic(err) // there is no such flag any more
		}
	}
}

// root is the project's folder.
func root() string {
	dir, err := filepath.Abs("..")
	if err != nil {
		panic(err)
	}
	return dir
}

// lambda is a file of the shipped recording.
func lambda(name string) string { return filepath.Join(root(), "testdata", "lambda", name) }

// result is what came of a command.
type result struct {
	code           int
	stdout, stderr string
}

// pore runs a command of bin/pore until it ends.
func pore(t testing.TB, args ...string) result {
	t.Helper()
	return command(t, "pore", args...)
}

func command(t testing.TB, name string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, name), args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	} else if ok && exit.ExitCode() < 0 {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	res := result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	t.Cleanup(func() { // what it warned of explains what a test finds later, also where it ended well
		if t.Failed() && res.stderr != "" {
			t.Logf("%s %s ended with %d and wrote\n%s", name, strings.Join(args, " "), res.code, res.stderr)
		}
	})
	return res
}

// run runs `pore run` over a recording and returns the folder of its results.
func run(t *testing.T, ref, gff, reads string, flags ...string) string {
	t.Helper()
	out := t.TempDir()
	args := append([]string{"run", "--ref", ref, "--gff", gff, "--out", out}, flags...)
	res := pore(t, append(args, reads)...)
	require.Zero(t, res.code, res.stderr)
	return out
}

// undisturbed is the VCF of a plain run over lambdaReads. All tests that need it share
// one run.
func undisturbed(t testing.TB) []byte {
	t.Helper()
	once.Do(func() {
		res := pore(t, "run", "--ref", lambda("reference.fa"), "--gff", lambda("genes.gff3"), "--out", filepath.Join(bin, "undisturbed"), lambdaReads(t))
		require.Zero(t, res.code, res.stderr)
	})
	return readFile(t, bin, "undisturbed", "variants.vcf")
}

var once, onceRecorded sync.Once // of undisturbed and recordedNetwork

// recordedNetwork is a device that gives back what the basecaller's network has made of
// lambdaReads, for tests of what comes before and behind it. They share the time that the
// network takes for it. Whether the scores are the network's own is seen from
// the bytes: those of an undisturbed run, which computes them. speed is how long the device
// takes for a batch, and the batch's size.
func recordedNetwork(t testing.TB, speed string) string {
	t.Helper()
	scores := filepath.Join(bin, "scores.pssc")
	onceRecorded.Do(func() { recordScores(t, scores, lambdaReads(t)) })
	return "sim:" + speed + ":" + scores
}

// recordScores has the basecaller's network write down what it makes of a recording.
func recordScores(t testing.TB, scores, reads string) {
	t.Helper()
	res := pore(t, "basecall", "--device", "cpu", "--format", "fastq", "--record-scores", scores, reads)
	require.Zero(t, res.code, res.stderr)
}

// passed lists the PASS records of a VCF: place, change, and the term and
// protein change of the first consequence.
func passed(t *testing.T, path string) []string {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	r, err := vcf.NewReader(f)
	require.NoError(t, err)
	var list []string
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		require.NoError(t, err)
		if strings.Join(rec.Filter, ";") != "PASS" {
			continue
		}
		csq, _ := rec.Info.Get("CSQ")
		first, _, _ := strings.Cut(csq, ",")
		fields := strings.Split(first, "|")
		require.Greater(t, len(fields), 11, "CSQ of %s:%d: %q", rec.Chrom, rec.Pos, csq)
		_, protein, _ := strings.Cut(fields[11], ":")
		list = append(list, strings.Join([]string{strconv.Itoa(rec.Pos), rec.Ref + ">" + rec.Alt[0], fields[1], protein}, " "))
	}
}

// lambdaSNPs are the variants of the sequenced phage against J02459.1.
var lambdaSNPs = []string{
	"37589 C>T missense_variant p.Glu118Lys",
	"37742 C>T missense_variant p.Ala67Thr",
	"43082 G>A missense_variant p.Ala15Thr",
	"45352 G>A stop_gained p.Trp56Ter",
}

func readFile(t testing.TB, path ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return b
}

// TestRun checks the results of a run over the shipped recording: the variants of the
// truth and no other, one JSON document for each record of the VCF, and a summary that
// adds up.
func TestRun(t *testing.T) {
	t.Parallel()
	out := run(t, lambda("reference.fa"), lambda("genes.gff3"), lambda("reads.pod5"))
	require.Equal(t, lambdaSNPs, passed(t, filepath.Join(out, "variants.vcf")))

	var summary map[string]any
	require.NoError(t, json.Unmarshal(readFile(t, out, "summary.json"), &summary))
	require.EqualValues(t, 243, summary["reads"])
	require.EqualValues(t, 4, summary["variants"])
	require.EqualValues(t, 0, summary["gaps"])
	require.EqualValues(t, 0, summary["dead_letters"])
	require.EqualValues(t, summary["reads"], summary["mapped"].(float64)+summary["rejected"].(float64))
	require.Greater(t, summary["samples"], 9e6)
	require.Greater(t, summary["bases"], 5e5)
	require.Equal(t, "cpu", summary["device"])
	require.Equal(t, "fp32", summary["precision"])
	require.NotEmpty(t, summary["model"])
	require.NotEmpty(t, summary["variant_model"])
	for _, q := range []string{"p50", "p99"} {
		require.Greater(t, summary["latency_ms"].(map[string]any)[q], 0.0)
	}

	lines := bytes.Count(readFile(t, out, "variants.jsonl"), []byte("\n"))
	records := 0
	for line := range strings.Lines(string(readFile(t, out, "variants.vcf"))) {
		if !strings.HasPrefix(line, "#") {
			records++
		}
	}
	require.Equal(t, records, lines)
}

// TestSameBytes runs one recording over different numbers of partitions and
// processors: the VCF must not differ in a byte.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	configs := [][2]string{{"7", "3"}, {"1", "3"}} // TestKafkaGivesTheSameBytes tries others
	if testenv.All() {
		configs = append(configs, [2]string{"1", "1"}, [2]string{"4", "3"}, [2]string{"7", "1"})
	}
	if testing.Short() {
		t.Skip("runs the pipeline several times")
	}
	want := undisturbed(t)
	for _, c := range configs {
		out := run(t, lambda("reference.fa"), lambda("genes.gff3"), lambdaReads(t), "--partitions", c[0], "--processors", c[1], "--device", recordedNetwork(t, "1ms:32"))
		require.Equal(t, string(want), string(readFile(t, out, "variants.vcf")), "%s partitions, %s processors", c[0], c[1])
	}
}

// TestWholeLambda calls the whole recording, and holds its reads against the reference
// that the strain differs from and the one that it does not differ from, from the signal of
// both formats. TestRun does the first of a part of it, always.
func TestWholeLambda(t *testing.T) {
	if !testenv.All() {
		t.Skip("calls 16 million samples several times: with PORESTREAM_TEST_ALL=1, as every night")
	}
	t.Parallel()
	gff := testenv.Recordings(t, "lambda-r9/genes.gff3")
	ref := testenv.Recordings(t, "lambda-r9/J02459.1.fa")
	pod5 := testenv.Recordings(t, "lambda-r9/reads.pod5")
	called := pore(t, "basecall", "--format", "sam", pod5)
	require.Zero(t, called.code, called.stderr)
	reads := filepath.Join(t.TempDir(), "reads.sam")
	require.NoError(t, os.WriteFile(reads, []byte(called.stdout), 0o600))
	out := run(t, ref, gff, reads)
	require.Equal(t, lambdaSNPs, passed(t, filepath.Join(out, "variants.vcf")))
	want := string(readFile(t, out, "variants.vcf"))
	for _, signal := range []string{pod5, testenv.Recordings(t, "lambda-r9/reads.blow5")} {
		require.Equal(t, want, string(readFile(t, run(t, ref, gff, signal), "variants.vcf")), signal)
	}

	out = t.TempDir()
	res := pore(t, "run", "--ref", testenv.Recordings(t, "lambda-r9/NEB.fa"), "--out", out, reads)
	require.Zero(t, res.code, res.stderr)
	require.Empty(t, passed(t, filepath.Join(out, "variants.vcf")))
}

// TestEcoli runs a recording of less than one read's depth: nothing can be
// called from it.
func TestEcoli(t *testing.T) {
	t.Parallel()
	out := run(t, testenv.Recordings(t, "ecoli-r9/MG1655.fa.gz"), testenv.Recordings(t, "ecoli-r9/genes.gff3.gz"), testenv.Recordings(t, "ecoli-r9/reads.pod5"))
	require.Empty(t, passed(t, filepath.Join(out, "variants.vcf")))
}

// TestErrors checks that what a user gets wrong is said in one line that names
// it, with the right exit code.
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	empty := filepath.Join(dir, "empty")
	require.NoError(t, os.Mkdir(empty, 0o755))
	other := write("other.fa", ">chrOther\nACGTACGTACGTACGT\n")
	short := write("short.fa", ">J02459.1\nACGTACGTACGTACGT\n")
	notFASTA := write("not.fa", "this is no FASTA\n")
	badGFF := write("bad.gff3", "##gff-version 3\nJ02459.1\tx\tCDS\tone\t100\t.\t+\t0\tID=c\n")
	wrongGene := write("wrong.yaml", "panel: p\nversion: 1\nrules:\n- id: r\n  match: {gene: cL}\n")
	wrongBase := write("base.yaml", "panel: p\nversion: 1\nrules:\n- id: r\n  match: {vcf: \"J02459.1:37589:G:T\"}\n")
	wrongBED := write("wrong.bed", "J02459.1\t0\t10\t1\nchrX\t0\t10\t1\n")
	out := filepath.Join(dir, "out")
	ref, gff, reads := lambda("reference.fa"), lambda("genes.gff3"), lambda("reads.pod5")

	for _, tt := range []struct {
		name string
		args []string
		code int
		want []string // in the line
	}{
		{"no command", []string{}, 2, []string{"name a command"}},
		{"unknown command", []string{"frobnicate"}, 2, []string{"frobnicate"}},
		{"unknown flag", []string{"run", "--frob"}, 2, []string{"--frob"}},
		{"no reference", []string{"run", "--out", out, reads}, 2, []string{"--ref"}},
		{"no output folder", []string{"run", "--ref", ref, reads}, 2, []string{"--out"}},
		{"no signal", []string{"run", "--ref", ref, "--out", out}, 2, []string{"arg"}},
		{"signal file missing", []string{"run", "--ref", ref, "--out", out, filepath.Join(dir, "none.pod5")}, 1, []string{"none.pod5"}},
		{"no reads", []string{"run", "--ref", ref, "--out", out, filepath.Join(root(), "testdata", "no-reads.pod5")}, 1, []string{"no-reads.pod5: no reads"}},
		{"folder without signal", []string{"run", "--ref", ref, "--out", out, empty}, 1, []string{"empty: holds no *.pod5", "nor called reads as FASTQ"}},
		{"reference missing", []string{"run", "--ref", filepath.Join(dir, "none.fa"), "--out", out, reads}, 1, []string{"none.fa"}},
		{"reference is no FASTA", []string{"run", "--ref", notFASTA, "--out", out, reads}, 1, []string{"not.fa", "line 1"}},
		{"genes of another reference", []string{"run", "--ref", other, "--gff", gff, "--out", out, reads}, 1, []string{"genes.gff3", "J02459.1", "chrOther"}},
		{"reference shorter than the genes", []string{"run", "--ref", short, "--gff", gff, "--out", out, reads}, 1, []string{"genes.gff3", "J02459.1", "48502"}},
		{"damaged genes", []string{"run", "--ref", ref, "--gff", badGFF, "--out", out, reads}, 1, []string{"bad.gff3", "line 2"}},
		{"panel missing", []string{"run", "--ref", ref, "--panel", filepath.Join(dir, "none.yaml"), "--out", out, reads}, 1, []string{"none.yaml"}},
		{"panel with an unknown gene", []string{"run", "--ref", ref, "--gff", gff, "--panel", wrongGene, "--out", out, reads}, 1, []string{"wrong.yaml:5", `"cL"`, `"cI"`}},
		{"panel of another reference", []string{"run", "--ref", ref, "--panel", wrongBase, "--out", out, reads}, 1, []string{"base.yaml:5", "37589", "not G"}},
		{"alerts as VCF", []string{"consume", "--brokers", "127.0.0.1:1", "--alerts", "--format", "vcf", "--ref", ref}, 2, []string{"--alerts"}},
		{"unknown model", []string{"run", "--ref", ref, "--model", "nope", "--out", out, reads}, 1, []string{"nope", "r9.4-fast"}},
		{"unknown variant model", []string{"run", "--ref", ref, "--variant-model", "nope", "--out", out, reads}, 1, []string{"--variant-model", "nope"}},
		{"a basecaller as variant model", []string{"run", "--ref", ref, "--variant-model", "r9.4-fast", "--out", out, reads}, 1, []string{"r9.4-fast", "basecalling model"}},
		{"bad ploidy", []string{"run", "--ref", ref, "--ploidy", "3", "--out", out, reads}, 2, []string{"--ploidy", `"3"`}},
		{"diploid without a network", []string{"run", "--ref", ref, "--variant-model", "none", "--ploidy", "2", "--out", out, reads}, 1, []string{"ploidy 2", "without a network"}},
		{"ploidy of another reference", []string{"run", "--ref", ref, "--ploidy-bed", wrongBED, "--out", out, reads}, 1, []string{"wrong.bed:2", "chrX"}},
		{"bad device", []string{"run", "--ref", ref, "--device", "tpu", "--out", out, reads}, 1, []string{"tpu"}},
		{"CUDA without a GPU build", []string{"run", "--ref", ref, "--device", "cuda", "--out", out, reads}, 1, []string{"device cuda:0 can't be used", "driver"}},
		{"no Kafka", []string{"run", "--brokers", "127.0.0.1:1", "--ref", ref, "--out", out, reads}, 1, []string{"127.0.0.1:1"}},
		{"bad broker address", []string{"run", "--brokers", "nowhere", "--ref", ref, "--out", out, reads}, 2, []string{"nowhere"}},
		{"password without mechanism", []string{"consume", "--brokers", "127.0.0.1:1", "--sasl-user", "u"}, 2, []string{"--sasl-mechanism"}},
		{"bad filter", []string{"consume", "--brokers", "127.0.0.1:1", "--filter", "status =="}, 2, []string{"--filter"}},
		{"bad pace", []string{"run", "--ref", ref, "--pace", "-1", "--out", out, reads}, 2, []string{"--pace"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			res := pore(t, tt.args...)
			require.Equal(t, tt.code, res.code, res.stderr)
			require.Empty(t, res.stdout)
			require.Equal(t, 1, strings.Count(res.stderr, "\n"), "one line, not\n%s", res.stderr)
			require.True(t, strings.HasPrefix(res.stderr, "pore"), res.stderr)
			for _, want := range tt.want {
				require.Contains(t, res.stderr, want)
			}
		})
	}
}

// TestBrokenFiles basecalls files that can't be: each is refused in one line
// that names the file, and nothing is written.
func TestBrokenFiles(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testenv.Recordings(t, "formats/broken-pod5"), "*.pod5"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			res := pore(t, "basecall", file)
			require.Equal(t, 1, res.code, res.stderr)
			require.Empty(t, res.stdout)
			require.Equal(t, 1, strings.Count(res.stderr, "\n"), "one line, not\n%s", res.stderr)
			require.Contains(t, res.stderr, file+": ")
		})
	}
}
