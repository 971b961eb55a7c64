package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/pipeline"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/variant/network/networktest"
	"github.com/porestream/porestream/watchlist"
	"github.com/porestream/porestream/watchlist/alert"
)

// resistance are changes of HIV-1's protease and reverse transcriptase, each of one base at a place of HXB2_pol, and what a made-up model gives for them.
var resistance = []struct {
	gene     string
	codon    int
	from, to byte
	pos      int
	ref, alt string
	weights  [2]float32 // for the drugs
}{
	{"PR", 54, 'I', 'V', 1660, "A", "G", [2]float32{0.9, 0}}, {"PR", 82, 'V', 'A', 1745, "T", "C", [2]float32{0.8, 0}}, {"PR", 90, 'L', 'M', 1768, "T", "A", [2]float32{0.6, 0}},
	{"RT", 41, 'M', 'L', 1918, "A", "C", [2]float32{0, 0.7}}, {"RT", 103, 'K', 'N', 2106, "A", "C", [2]float32{0, 0.4}}, {"RT", 184, 'M', 'V', 2347, "A", "G", [2]float32{0, 1.9}},
}

// resistancePanel writes HXB2's pol, its genes, the changes as a VCF and as a list, and a panel that asks a model for two drugs and names one change.
func resistancePanel(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	const contig = "HXB2_pol"
	events := filepath.Join(root(), "testdata", "events")
	all, err := genome.Load(filepath.Join(events, "reference.fa"))
	require.NoError(t, err)
	seq := all.Contig(contig).Seq
	write("ref.fa", fmt.Sprintf(">%s\n%s\n", contig, seq))
	genes := "##gff-version 3\n"
	for line := range strings.Lines(string(readFile(t, events, "genes.gff3"))) {
		if strings.HasPrefix(line, contig+"\t") {
			genes += line
		}
	}
	write("genes.gff3", genes)
	g, err := genome.Load(filepath.Join(dir, "ref.fa"))
	require.NoError(t, err)
	m, err := annotate.LoadModel(filepath.Join(dir, "genes.gff3"), g)
	require.NoError(t, err)
	sequences := map[string]string{}
	for _, v := range m.TranscriptsOn(contig) {
		for n := 1; v.Residue(n) != 0 && v.Residue(n) != '*'; n++ {
			sequences[v.Gene.Symbol] += string(v.Residue(n))
		}
	}

	vcf := "##fileformat=VCFv4.2\n##contig=<ID=" + contig + ">\n##FORMAT=<ID=GT,Number=1,Type=String,Description=\"genotype\">\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ts\n"
	list, features := "s\t", ""
	for _, c := range resistance {
		require.Equal(t, c.from, sequences[c.gene][c.codon-1])
		require.Equal(t, c.ref, string(seq[c.pos-1]))
		vcf += fmt.Sprintf("%s\t%d\t.\t%s\t%s\t.\tPASS\t.\tGT\t1\n", contig, c.pos, c.ref, c.alt)
		list += fmt.Sprintf("%s:%c%d%c ", c.gene, c.from, c.codon, c.to)
		features += fmt.Sprintf("residue\t%s\t%d\t%c\n", c.gene, c.codon, c.to)
	}
	write("truth.vcf", vcf)
	write("list.tsv", strings.TrimSpace(list)+"\n")

	require.NoError(t, os.Mkdir(filepath.Join(dir, "model"), 0o700))
	onnx := networktest.Spec{
		Size: 2 * len(resistance), Scores: 2,
		Weights: func(score, input int) float32 {
			if input >= len(resistance) {
				return 0 // whether it is known
			}
			return resistance[input].weights[score]
		},
		Bias: func(int) float32 { return -1.2 },
	}.ONNX(t)
	sum := func(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }
	manifest := `format = 1
kind = "biomarker"
name = "made"
version = "1"
data = "none"
licence = "none"
network = {file = "n.onnx", sha256 = "` + sum(onnx) + `", input = "examples", output = "scores"}
features = {file = "f.tsv", sha256 = "` + sum([]byte(features)) + `"}
encoding = {present_from = 0.2}
`
	for _, gene := range []string{"PR", "RT"} {
		manifest += fmt.Sprintf("[[gene]]\nname = %q\nsequence = %q\n", gene, sequences[gene])
	}
	for _, o := range []struct{ name, gene, decisive string }{{"protease", "PR", "PR:54"}, {"nucleoside", "RT", "RT:184"}} {
		manifest += fmt.Sprintf("[[output]]\nname = %q\ncalibration = [1.0, 0.0]\nresistant = 0.6\nsusceptible = 0.4\ngenes = [%q]\ndecisive = [%q]\n", o.name, o.gene, o.decisive)
	}
	write("model/n.onnx", string(onnx))
	write("model/f.tsv", features)
	write("model/manifest.toml", manifest)
	write("panel.yaml", `panel: resistance
version: 1
rules:
- {id: protease, model: {folder: model, output: protease}}
- {id: nucleoside, model: {folder: model, output: nucleoside}}
- {id: M184V, match: {hgvs: "RT:p.Met184Val"}}
`)
	return dir
}

// said is what an answer of a model comes to.
func said(a *watchlist.Alert) string {
	return fmt.Sprintf("%s %s %.4f %v %d of %d", a.State, a.Model.Class, a.Model.Probability, a.Model.Drivers, a.Model.CodonsKnown, a.Model.Codons)
}

// TestResistanceOfSignal: from the signal of a virus with planted changes a model's answers are those from the list of the changes: class, probability and what drove
// it; the same bytes for any number of partitions and processors, and by services of which one is killed at its first right answer, which comes before the run's end.
func TestResistanceOfSignal(t *testing.T) {
	if testing.Short() {
		t.Skip("basecalls signal")
	}
	t.Parallel()
	dir := resistancePanel(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	flags := []string{"--ref", at("ref.fa"), "--gff", at("genes.gff3")}
	res := pore(t, slices.Concat([]string{"panel", "answer", "--format", "json"}, flags, []string{at("panel.yaml"), at("list.tsv")})...)
	require.Zero(t, res.code, res.stderr)
	want := make(map[string]string)
	for line := range strings.Lines(res.stdout) {
		var a watchlist.Alert
		require.NoError(t, json.Unmarshal([]byte(line), &a))
		want[a.Rule] = said(&a)
	}
	require.Len(t, want, 2)
	for _, text := range want {
		require.Contains(t, text, "RESISTANT RESISTANT")
	}

	res = pore(t, "simulate", "--ref", at("ref.fa"), "--vcf", at("truth.vcf"), "--depth", "36", "--length", "2500", "--length-spread", "0.4", "--channels", "32", "--seed", "4", "--out", at("signal"))
	require.Zero(t, res.code, res.stderr)
	reads, scores := at("signal/reads.pod5"), at("scores.pssc")
	recordScores(t, scores, reads)
	flags = append(flags, "--panel", at("panel.yaml"), "--device", "sim:1ms:32:"+scores)
	var first map[string]string
	for _, more := range [][]string{{"--partitions", "1"}, {"--partitions", "4", "--processors", "2", "--partial", "1s"}} {
		out := t.TempDir()
		res := pore(t, slices.Concat([]string{"run", "--out", out}, flags, more, []string{reads})...)
		require.Zero(t, res.code, res.stderr)
		var alerts []*watchlist.Alert
		require.NoError(t, json.Unmarshal(readFile(t, out, "alerts.json"), &alerts))
		got := make(map[string]string)
		for _, a := range alerts {
			if a.Model != nil {
				got[a.Rule] = said(a)
			}
		}
		require.Equal(t, want, got, "from the list, and from signal with %v", more)
		if answers := written(t, out); first == nil {
			first = answers
		} else {
			require.Equal(t, first, answers, "%v", more)
		}
	}
	require.Contains(t, first["M184V"], `"state":"DETECTED"`)
	onBroker(t, func(t *testing.T, addr string) { resistanceOfServices(t, addr, flags, reads, first) })
}

// resistanceOfServices plays the signal to a processor that is killed at its first right answer, and to another that goes on.
func resistanceOfServices(t *testing.T, addr string, flags []string, reads string, want map[string]string) {
	index, err := signal.NewIndex(t.Context(), []string{reads})
	require.NoError(t, err)
	defer index.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	client := connect(ctx, t, addr)
	topics := stream.NewTopics("hiv-")
	const partitions = 3
	require.NoError(t, client.EnsureTopics(ctx, append(topics.Settings(partitions), topics.WatchSettings(partitions)...), 1))
	common := []string{"--brokers", addr, "--topic-prefix", "hiv-", "--listen", "127.0.0.1:0"}
	processor := func() *service { return start(t, cancel, "processor", slices.Concat(common, flags)...) }
	first := processor()
	start(t, cancel, "ingest", slices.Concat(common, []string{"--pace", "1", reads})...)

	right, early := false, false // the first right answer is there, and came before the run's end
	fold := pipeline.NewAlertFold(partitions)
	newest := make(map[string]map[string]any)
	ended := errors.New("the run has ended")
	deadline, stop := context.WithTimeout(ctx, 8*time.Minute)
	defer stop()
	err = client.Consume(deadline, topics.Alerts, kafka.ConsumeOptions{From: kafka.FromStart}, func(rec stream.Record) error {
		if _, err := fold.Add(rec); err != nil {
			return err
		}
		a, _, err := alert.Decode(rec)
		if err != nil {
			return err
		}
		if a != nil {
			var d map[string]any
			if err := json.Unmarshal(rec.Value, &d); err != nil {
				return err
			}
			if known := newest[a.Rule]; known == nil || d["revision"].(float64) >= known["revision"].(float64) {
				newest[a.Rule] = d
			}
			if a.Rule == "nucleoside" && a.State == watchlist.Resistant && !right {
				right, early = true, !a.Final
				if err := first.cmd.Process.Kill(); err != nil {
					return err
				}
				processor()
			}
		}
		if fold.Ended(index.Runs()[0].ID) {
			return ended
		}
		return nil
	})
	require.ErrorIs(t, err, ended, context.Cause(ctx))
	require.True(t, early, "the first right answer came with the end")
	var documents []map[string]any
	for _, d := range newest {
		documents = append(documents, d)
	}
	require.Equal(t, want, answers(t, documents))
}
