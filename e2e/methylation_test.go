package e2e

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/pipeline"
	"github.com/porestream/porestream/modbase/stage/methylation"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/variant/network/networktest"
	"github.com/porestream/porestream/watchlist"
)

// methylated is FASTQ of reads of phage lambda, on both strands and with errors, which say of every C and A how
// probably it is modified: mostly at CpG and GATC.
func methylated(t *testing.T, reads int) string {
	t.Helper()
	g, err := genome.Load(lambda("reference.fa"))
	require.NoError(t, err)
	seq := g.Contigs[0].Seq
	rng := rand.New(rand.NewPCG(44, 44))
	var text strings.Builder
	for n := range reads {
		template := molecule(rng, seq, 800)
		var bases, hot []byte // hot: whether it is modified
		for i, b := range template {
			h := byte(0)
			if rest := string(template[i:]); strings.HasPrefix(rest, "CG") || i > 0 && b == 'A' && strings.HasPrefix(string(template[i-1:]), "GATC") {
				h = 1
			}
			switch rng.IntN(40) {
			case 0:
			case 1:
				bases, hot = append(bases, "ACGT"[rng.IntN(4)]), append(hot, 0)
			default:
				bases, hot = append(bases, b), append(hot, h)
			}
		}
		mm, ml := "", ""
		for _, list := range []struct {
			base byte
			code string
		}{{'C', "m"}, {'A', "a"}} {
			mm += string(list.base) + "+" + list.code + "?"
			for i, b := range bases {
				if b != list.base {
					continue
				}
				p := rng.IntN(90)
				if hot[i] == 1 && rng.IntN(8) > 0 {
					p = 255 - p
				}
				mm += ",0"
				ml += fmt.Sprintf(",%d", p)
			}
			mm += ";"
		}
		writeTagged(&text, n, bases, mm, ml)
	}
	return text.String()
}

// molecule is a piece of a genome, from either strand, of a length from least on.
func molecule(rng *rand.Rand, seq []byte, least int) []byte {
	length := least + rng.IntN(2500)
	at := rng.IntN(len(seq) - length)
	piece := append([]byte{}, seq[at:at+length]...)
	if rng.IntN(2) == 0 {
		genome.ReverseComplement(piece)
	}
	return piece
}

// writeTagged writes a read as FASTQ, with the values of its tags MM and ML, of the latter the numbers, each behind a comma.
func writeTagged(text *strings.Builder, n int, bases []byte, mm, ml string) {
	fmt.Fprintf(text, "@%08d-0000-4000-8000-000000000000\tMM:Z:%s\tML:B:C%s\tMN:i:%d\n%s\n+\n%s\n", n, mm, ml, len(bases), bases, strings.Repeat("5", len(bases)))
}

// alignedWithTags writes FASTQ to a folder, and its alignments to phage lambda, sorted and with the tags.
func alignedWithTags(t *testing.T, dir, fastq string) (reads, sorted string) {
	t.Helper()
	reads, sorted = filepath.Join(dir, "reads.fastq"), filepath.Join(dir, "sorted.bam")
	require.NoError(t, os.WriteFile(reads, []byte(fastq), 0o600))
	res := pore(t, "align", "-y", "--ref", lambda("reference.fa"), "-o", sorted, reads)
	require.Zero(t, res.code, res.stderr)
	return reads, sorted
}

// TestMethylation: what the stream counts of modified bases is what pore pileup counts of a file of the same
// alignments, to the byte, for any number of partitions and processors, and when one is killed.
func TestMethylation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	reads, sorted := alignedWithTags(t, dir, methylated(t, 150))
	res := pore(t, "pileup", "--ref", lambda("reference.fa"), "--find-motifs", filepath.Join(dir, "motifs.tsv"), sorted)
	require.Zero(t, res.code, res.stderr)
	want, motifs := res.stdout, string(readFile(t, dir, "motifs.tsv"))
	require.Greater(t, strings.Count(want, "\n"), 5000)
	require.Regexp(t, `(?m)\A.*\nGATC,1\ta\ttrue\t.*\nCG,0\tm\ttrue\t.*\n\z`, motifs)
	panel, answers := methylationPanel(t, dir, sorted)
	onBroker(t, func(t *testing.T, addr string) {
		for _, partitions := range []string{"1", "7"} {
			out := t.TempDir()
			res := pore(t, "run", "--brokers", addr, "--ref", lambda("reference.fa"), "--variant-model", "none", "--methylation", "--run", "r", "--sample", "s", "--partitions", partitions,
				"--gff", lambda("genes.gff3"), "--panel", panel, "--processors", "2", "--out", out, reads)
			require.Zero(t, res.code, res.stderr)
			require.Equal(t, answers, answersOf(t, out), partitions+" partitions")
			same(t, want, string(readFile(t, out, "methylation.bed")), partitions+" partitions")
			require.Equal(t, motifs, string(readFile(t, out, "methylation.motifs.tsv")))
			tracks, err := filepath.Glob(filepath.Join(out, "methylation.*.bedgraph"))
			require.NoError(t, err)
			require.Len(t, tracks, 4)
		}
		t.Run("killed", func(t *testing.T) {
			killedMethylation(t, addr, "killed-", want, played{run: "r", motifs: motifs, command: []string{"reads"}, args: []string{"--run", "r", "--sample", "s", "--once", "--journal", t.TempDir(), reads}},
				"--stages", "align,methylate")
		})
	})
}

// methylationPanel is a panel of rules on regions of phage lambda, and what pore pileup says of them, by the counts of a file: by rule the
// state, and share, molecules and positions.
func methylationPanel(t *testing.T, dir, sorted string) (panel string, answers map[string]string) {
	t.Helper()
	regions := []struct{ name, start, end, kind string }{
		{"left", "1000", "9000", "methylated"}, {"middle", "20000", "30000", "unmethylated"}, {"right", "36000", "48000", "half"}, {"short", "5000", "5002", "methylated"},
	}
	text := "panel: methylation\nversion: 1\nthresholds: {alpha: 0.04, beta: 0.04, min_depth: 1}\nrules:\n"
	var rules strings.Builder
	for _, r := range regions {
		start, err := strconv.Atoi(r.start)
		require.NoError(t, err)
		text += fmt.Sprintf("- id: %s\n  methylation: {region: \"J02459.1:%d-%s\", is: %s}\n", r.name, start+1, r.end, r.kind)
		fmt.Fprintf(&rules, "J02459.1\t%s\t%s\t%s\t%s\n", r.start, r.end, r.name, r.kind)
	}
	text += "- {id: class, model: {folder: tumour, output: class}}\n"
	sites := methylationModel(t, dir)
	panel = filepath.Join(dir, "panel.yaml")
	require.NoError(t, os.WriteFile(panel, []byte(text), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rules.tsv"), []byte(rules.String()), 0o600))
	// A rule has half of its 0.04 for its end; in a file four rules share 0.08.
	res := pore(t, "pileup", "--ref", lambda("reference.fa"), "--cpg", "--alpha", "0.08", "--rules", filepath.Join(dir, "rules.tsv"), "--answers", filepath.Join(dir, "answers.tsv"),
		"--sites", filepath.Join(dir, "sites.bed"), "--vector", filepath.Join(dir, "vector.tsv"), sorted)
	require.Zero(t, res.code, res.stderr)
	answers = make(map[string]string)
	known := 0
	for line := range strings.Lines(string(readFile(t, dir, "vector.tsv"))) {
		if c := strings.Split(line, "\t"); !strings.HasPrefix(line, "#") && c[1] != "." {
			known++
		}
	}
	require.Positive(t, known)
	require.Less(t, known, sites)
	answers["class"] = fmt.Sprintf("CLASSIFIED methylated %d of %d", known, sites)
	for line := range strings.Lines(string(readFile(t, dir, "answers.tsv"))) {
		if c := strings.Split(line, "\t"); !strings.HasPrefix(line, "#") {
			answers[c[0]] = strings.Join([]string{c[6], c[7], c[8], c[9]}, " ")
		}
	}
	require.Equal(t, []string{"DETECTED", "NEGATIVE", "NOT_CALLABLE", "NOT_CALLABLE"}, []string{
		strings.Fields(answers["left"])[0], strings.Fields(answers["middle"])[0], strings.Fields(answers["right"])[0], strings.Fields(answers["short"])[0],
	}, answers)
	return panel, answers
}

// methylationModel writes a model of two classes, by the states of the first CpGs of phage lambda, and their list.
func methylationModel(t *testing.T, dir string) (sites int) {
	t.Helper()
	g, err := genome.Load(lambda("reference.fa"))
	require.NoError(t, err)
	seq := string(g.Contigs[0].Seq)
	var features, bed strings.Builder
	for i := 0; sites < 300; i++ {
		if seq[i:i+2] == "CG" {
			fmt.Fprintf(&features, "methylation\tJ02459.1:%d-%d\n", i+1, i+2)
			fmt.Fprintf(&bed, "J02459.1\t%d\t%d\tcg%d\n", i, i+2, sites)
			sites++
		}
	}
	onnx := networktest.Spec{Size: sites, Scores: 2, Weights: func(score, _ int) float32 { return []float32{0.1, -0.1}[score] }}.ONNX(t)
	sum := func(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }
	manifest := `format = 1
kind = "biomarker"
name = "tumour"
version = "1"
data = "none"
licence = "none"
network = {file = "n.onnx", sha256 = "` + sum(onnx) + `", input = "examples", output = "scores"}
features = {file = "f.tsv", sha256 = "` + sum([]byte(features.String())) + `"}
encoding = {present_from = 0.5, signed = true}
[[output]]
name = "class"
calibration = [1.0, 0.0]
classes = ["methylated", "unmethylated"]
least = 0.9
genes = []
`
	folder := filepath.Join(dir, "tumour")
	require.NoError(t, os.Mkdir(folder, 0o700))
	for name, b := range map[string][]byte{"n.onnx": onnx, "f.tsv": []byte(features.String()), "manifest.toml": []byte(manifest)} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), b, 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sites.bed"), []byte(bed.String()), 0o600))
	return sites
}

// answersOf are the same of a run's alerts, which must be final.
func answersOf(t *testing.T, out string) map[string]string {
	t.Helper()
	var alerts []watchlist.Alert
	require.NoError(t, json.Unmarshal(readFile(t, out, "alerts.json"), &alerts))
	answers := make(map[string]string)
	for _, a := range alerts {
		require.True(t, a.Final)
		if a.Model != nil {
			answers[a.Rule] = fmt.Sprintf("%s %s %d of %d", a.State, a.Model.Class, a.Model.RegionsKnown, a.Model.Regions)
			continue
		}
		answers[a.Rule] = fmt.Sprintf("%s %.4f %.1f %d", a.State, a.Methylation.Share, a.Methylation.Depth, a.Methylation.Positions)
	}
	return answers
}

// TestModifiedBasesOfSignal: networks that classify bases as the stream calls reads give the same results as in pore basecall, to the byte:
// in the called reads that are published, whose beginnings are cut off by their current, and in what is counted by position; for any
// number of partitions and processors, and when one is killed.
func TestModifiedBasesOfSignal(t *testing.T) {
	if testing.Short() {
		t.Skip("basecalls a recording several times")
	}
	t.Parallel()
	common := []string{"--device", recordedNetwork(t, "1ms:32"), "--modified-bases", filepath.Join(root(), "modbase/network/testdata/dna_r9.4.1_made.onnx")}
	dir := t.TempDir()
	whole := pore(t, slices.Concat([]string{"basecall"}, common, []string{lambdaReads(t)})...)
	require.Zero(t, whole.code, whole.stderr)
	common = append(common, "--trim-start")
	res := pore(t, slices.Concat([]string{"basecall"}, common, []string{lambdaReads(t)})...)
	require.Zero(t, res.code, res.stderr)
	fastq := reads(res.stdout)
	require.Less(t, len(res.stdout), len(whole.stdout), "every read is cut")
	_, sorted := alignedWithTags(t, dir, res.stdout)
	res = pore(t, "pileup", "--ref", lambda("reference.fa"), "--find-motifs", filepath.Join(dir, "motifs.tsv"), sorted)
	require.Zero(t, res.code, res.stderr)
	want, motifs := res.stdout, string(readFile(t, dir, "motifs.tsv"))
	require.Greater(t, strings.Count(want, "\n"), 1000)
	onBroker(t, func(t *testing.T, addr string) {
		for _, partitions := range []string{"1", "7"} {
			out, prefix := t.TempDir(), "modified-"+partitions+"-"
			res := pore(t, slices.Concat([]string{"run"}, common, []string{
				"--brokers", addr, "--topic-prefix", prefix, "--ref", lambda("reference.fa"), "--variant-model", "none", "--basecalls",
				"--partitions", partitions, "--processors", "2", "--out", out, lambdaReads(t),
			})...)
			require.Zero(t, res.code, res.stderr)
			same(t, want, string(readFile(t, out, "methylation.bed")), partitions+" partitions")
			published := pore(t, "consume", "--brokers", addr, "--topic-prefix", prefix, "--basecalls", "--until-end")
			require.Zero(t, published.code, published.stderr)
			same(t, strings.Join(fastq, ""), strings.Join(reads(published.stdout), ""), partitions+" partitions, called reads")
		}
		t.Run("killed", func(t *testing.T) {
			killedMethylation(t, addr, "modified-killed-", want, played{run: lambdaRun, motifs: motifs, args: []string{"--pace", "max", lambdaReads(t)}}, append(common, "--stages", "basecall,methylate")...)
		})
	})
}

// same reports the first line that differs, rather than all lines.
func same(t *testing.T, want, got, what string) {
	t.Helper()
	if want == got {
		return
	}
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		require.Equal(t, a[i], b[i], "%s, line %d", what, i+1)
	}
	require.Len(t, b, len(a), what)
}

// played is what ingest sends: one run.
type played struct {
	run           string
	command, args []string
	motifs        string            // that are found; of another reference than phage lambda they aren't asked for
	reference     string            // another one
	files         map[string]string // what is counted by haplotype, as pore run writes it
}

// killedMethylation has one of two processors die at the first counts.
func killedMethylation(t *testing.T, addr, prefix, want string, from played, flags ...string) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	client := connect(ctx, t, addr)
	topics := stream.NewTopics(prefix)
	require.NoError(t, client.EnsureTopics(ctx, append(topics.Settings(4), topics.MethylationSettings(4)...), 1))
	reference := cmp.Or(from.reference, lambda("reference.fa"))
	processor := func() *service {
		return start(t, cancel, "processor", append([]string{
			"--brokers", addr, "--topic-prefix", prefix, "--ref", reference, "--methylation",
			"--snapshot-interval", "1s", "--session-timeout", "6s", "--drain-timeout", "1s", "--listen", "127.0.0.1:0",
		}, flags...)...)
	}
	first := processor()
	processor()
	start(t, cancel, "ingest", slices.Concat(from.command, []string{"--brokers", addr, "--topic-prefix", prefix, "--listen", "127.0.0.1:0"}, from.args)...)
	fold := pipeline.NewMethylationFold(4)
	ended := errors.New("the run has ended")
	killed := false
	deadline, stop := context.WithTimeout(ctx, 5*time.Minute)
	defer stop()
	err := client.Consume(deadline, topics.Methylation, kafka.ConsumeOptions{From: kafka.FromStart}, func(rec stream.Record) error {
		s, err := fold.Add(rec)
		if err != nil {
			return err
		}
		if s != nil && s.Status == methylation.Provisional && !killed {
			killed = true
			if err := first.cmd.Process.Kill(); err != nil {
				return err
			}
		}
		if fold.Ended(from.run) {
			return ended
		}
		return nil
	})
	require.ErrorIs(t, err, ended, context.Cause(ctx))
	require.True(t, killed)
	res := pore(t, "consume", "--brokers", addr, "--topic-prefix", prefix, "--methylation", "--format", "bedmethyl", "--ref", reference)
	require.Zero(t, res.code, res.stderr)
	same(t, want, res.stdout, "a processor was killed")
	for _, haplotype := range []string{"1", "2"} {
		if text, ok := from.files["methylation."+haplotype+".bed"]; ok {
			res = pore(t, "consume", "--brokers", addr, "--topic-prefix", prefix, "--methylation", "--haplotype", haplotype, "--format", "bedmethyl", "--ref", reference)
			require.Zero(t, res.code, res.stderr)
			same(t, text, res.stdout, "a processor was killed, haplotype "+haplotype)
		}
	}
	if from.reference != "" {
		return
	}
	res = pore(t, "consume", "--brokers", addr, "--topic-prefix", prefix, "--methylation", "--format", "motifs", "--ref", lambda("reference.fa"))
	require.Zero(t, res.code, res.stderr)
	require.Equal(t, from.motifs, res.stdout)
}

// misread is FASTQ of reads of phage lambda whose molecules are modified at GCCNNNNNGGC, on its third base, as they say, and which mostly show T
// there instead.
func misread(t *testing.T, reads int) string {
	t.Helper()
	g, err := genome.Load(lambda("reference.fa"))
	require.NoError(t, err)
	seq := g.Contigs[0].Seq
	rng := rand.New(rand.NewPCG(44, 45))
	var text strings.Builder
	for n := range reads {
		template := molecule(rng, seq, 1500)
		bases, mm, ml := []byte{}, "C+m?", ""
		for i, b := range template {
			modified := i >= 2 && i+9 <= len(template) && string(template[i-2:i+1]) == "GCC" && string(template[i+6:i+9]) == "GGC"
			switch e := rng.IntN(100); {
			case e == 0:
				continue
			case e == 1:
				b = "ACGT"[rng.IntN(4)]
			case modified && e < 60:
				b = 'T'
			}
			if bases = append(bases, b); b == 'C' {
				p := rng.IntN(90)
				if modified {
					p = 250
				}
				mm, ml = mm+",0", fmt.Sprintf("%s,%d", ml, p)
			}
		}
		writeTagged(&text, n, bases, mm+";", ml)
	}
	return text.String()
}

// TestModifiedMotifsOfARun: calls that reads of a modified motif make up are marked by what the run itself has found of motifs, as pore call
// marks those of a file, for any number of partitions; without that they pass.
func TestModifiedMotifsOfARun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	reads, sorted := alignedWithTags(t, dir, misread(t, 450))
	res := pore(t, "call", "--ref", lambda("reference.fa"), "--ploidy", "mixture", "--find-modified-motifs", sorted)
	require.Zero(t, res.code, res.stderr)
	marked := func(vcf string) (list []string) {
		for line := range strings.Lines(vcf) {
			if c := strings.Split(line, "\t"); !strings.HasPrefix(line, "#") && strings.Contains(c[6], "MotifArtifact") {
				list = append(list, strings.Join([]string{c[1], c[3], c[4], c[6]}, " "))
			}
		}
		return list
	}
	want := marked(res.stdout)
	require.Greater(t, len(want), 10, res.stdout)
	onBroker(t, func(t *testing.T, addr string) {
		var vcf string
		for _, partitions := range []string{"1", "7"} {
			out := t.TempDir()
			res := pore(t, "run", "--brokers", addr, "--topic-prefix", "motifs-"+partitions+"-", "--ref", lambda("reference.fa"), "--ploidy", "mixture", "--methylation", "--find-modified-motifs",
				"--run", "r", "--sample", "s", "--partitions", partitions, "--processors", "2", "--out", out, reads)
			require.Zero(t, res.code, res.stderr)
			require.Contains(t, string(readFile(t, out, "methylation.motifs.tsv")), "GCCNNNNNGGC,2\tm\ttrue")
			got := string(readFile(t, out, "variants.vcf"))
			require.Equal(t, want, marked(got), partitions+" partitions")
			if vcf != "" {
				same(t, vcf, got, partitions+" partitions")
			}
			vcf = got
		}
	})
	out := t.TempDir()
	res = pore(t, "run", "--ref", lambda("reference.fa"), "--ploidy", "mixture", "--methylation", "--run", "r", "--sample", "s", "--out", out, reads)
	require.Zero(t, res.code, res.stderr)
	require.Less(t, len(marked(string(readFile(t, out, "variants.vcf")))), len(want)/3)
}
