package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
)

// answers are the alerts of a sample without the members that depend on its history,
// one JSON document for each rule.
func answers(t *testing.T, documents []map[string]any) map[string]string {
	t.Helper()
	out := make(map[string]string)
	for _, d := range documents {
		require.Equal(t, true, d["final"], "%v", d)
		for _, member := range []string{"id", "revision", "previous"} {
			require.Contains(t, d, member)
			delete(d, member)
		}
		text, err := json.Marshal(d)
		require.NoError(t, err)
		out[fmt.Sprint(d["rule"])] = string(text)
	}
	return out
}

// written are the answers that pore run has left in a folder.
func written(t *testing.T, dir string) map[string]string {
	t.Helper()
	var documents []map[string]any
	require.NoError(t, json.Unmarshal(readFile(t, dir, "alerts.json"), &documents))
	return answers(t, documents)
}

// lambdaAnswers is what the panel beside the recording says of it: the four SNPs,
// a mutation that the strain lacks, and a place beyond the reads.
var lambdaAnswers = map[string][]string{
	"cI-E118K":  {`"state":"DETECTED"`, `"pos":37589`, `p.Glu118Lys`, `"false_alarm":`},
	"cI-A67T":   {`"state":"DETECTED"`, `"pos":37742`, `p.Ala67Thr`, `"false_alarm":`},
	"NinH-A15T": {`"state":"DETECTED"`, `"pos":43082`, `p.Ala15Thr`, `"false_alarm":`},
	"S-W56Ter":  {`"state":"DETECTED"`, `"pos":45352`, `p.Trp56Ter`, `"false_alarm":`},
	"exo-D119A": {`"state":"NEGATIVE"`, `"miss":`, `"not_callable":0`},
	"right-end": {`"state":"NOT_CALLABLE"`, `"depth":0`},
}

// TestPanels holds the recording against a panel: over one partition, over several
// with several processors, and by services when one of them is killed, the answers are
// the same, and the variants are those of a run without a panel.
func TestPanels(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs the pipeline several times")
	}
	flags := func(more ...string) []string {
		return append([]string{"--panel", lambda("panel.yaml"), "--device", recordedNetwork(t, "1ms:32")}, more...)
	}
	one := run(t, lambda("reference.fa"), lambda("genes.gff3"), lambdaReads(t), flags("--partitions", "1")...)
	want := written(t, one)
	require.Len(t, want, len(lambdaAnswers))
	for rule, parts := range lambdaAnswers {
		for _, part := range parts {
			require.Contains(t, want[rule], part, rule)
		}
	}
	require.Contains(t, string(readFile(t, one, "summary.json")), `"DETECTED": 4`)
	table := strings.Split(string(readFile(t, one, "alerts.tsv")), "\n")
	require.Len(t, table, 1+len(lambdaAnswers)+1)
	require.Equal(t, lambdaSNPs, passed(t, filepath.Join(one, "variants.vcf")))

	several := run(t, lambda("reference.fa"), lambda("genes.gff3"), lambdaReads(t), flags("--partitions", "4", "--processors", "2", "--partial", "1s")...)
	require.Equal(t, want, written(t, several))
	require.Equal(t, string(readFile(t, one, "variants.vcf")), string(readFile(t, several, "variants.vcf")))

	onBroker(t, func(t *testing.T, addr string) { panelsOfServices(t, addr, want) })
}

// panelsOfServices kills the only processor after its first alerts, and starts
// another that has to go on where it stopped.
func panelsOfServices(t *testing.T, addr string, want map[string]string) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	client := connect(ctx, t, addr)
	topics := stream.NewTopics("")
	require.NoError(t, client.EnsureTopics(t.Context(), append(topics.Settings(3), topics.WatchSettings(3)...), 1))
	processor := func() *service {
		return start(t, cancel, "processor", "--brokers", addr, "--ref", lambda("reference.fa"), "--gff", lambda("genes.gff3"),
			"--device", recordedNetwork(t, "60ms:32"), "--panel", lambda("panel.yaml"), "--basecalls", "--min-qscore", "3", "--partial", "1s", "--listen", "127.0.0.1:0")
	}
	ingest := start(t, cancel, "ingest", "--brokers", addr, "--listen", "127.0.0.1:0", "--pace", "10", lambdaReads(t))
	first := processor()
	follow(ctx, t, client, func(revisions int) bool { return revisions >= 3 })
	require.NoError(t, first.cmd.Process.Kill())
	<-first.exited
	second := processor()
	ingest.ended(t)
	followAlerts(ctx, t, client)
	second.stop(t)

	res := pore(t, "consume", "--brokers", addr, "--alerts", "--format", "json", "--until-end")
	require.Zero(t, res.code, res.stderr)
	newest := make(map[string]map[string]any)
	for line := range strings.Lines(res.stdout) {
		var d map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &d))
		rule := fmt.Sprint(d["rule"])
		if known := newest[rule]; known == nil || d["revision"].(float64) > known["revision"].(float64) {
			newest[rule] = d
		}
	}
	var documents []map[string]any
	for _, d := range newest {
		documents = append(documents, d)
	}
	require.Equal(t, want, answers(t, documents))

	partials := 0
	for _, rec := range records(t, client, topics.Reads) {
		m, err := stream.DecodeReads(rec.Value)
		require.NoError(t, err)
		if m.GetPartial() != nil {
			partials++
		}
	}
	// How many depends on how far this machine is behind the sequencer.
	require.Positive(t, partials, "segments of reads before their end")

	// Every read once, although the first processor was killed, and as in a file.
	fastq := pore(t, "consume", "--brokers", addr, "--basecalls", "--until-end")
	require.Zero(t, fastq.code, fastq.stderr)
	file := pore(t, "basecall", "--device", recordedNetwork(t, "1ms:32"), lambdaReads(t))
	require.Zero(t, file.code, file.stderr)
	require.Equal(t, reads(file.stdout), reads(fastq.stdout))

	text := pore(t, "consume", "--brokers", addr, "--topic", "alerts", "--until-end", "--filter", `state == "NEGATIVE" && final`)
	require.Zero(t, text.code, text.stderr)
	require.Contains(t, text.stdout, "NEGATIVE     LA1  lambda-demo/exo-D119A  exo:p.Asp119Ala  miss <= ")
}

// reads are the records of a FASTQ text, sorted. Only a file says which build of its model called them, so that it can be resumed.
func reads(fastq string) []string {
	lines := strings.SplitAfter(modelBuild.ReplaceAllString(fastq, ""), "\n")
	var records []string
	for i := 0; i+4 <= len(lines); i += 4 {
		records = append(records, strings.Join(lines[i:i+4], ""))
	}
	slices.Sort(records)
	return records
}

var modelBuild = regexp.MustCompile(`(?m)\tDS:Z:model_version=[^\t\n]*`)

// adjacentDeletion is c1:602 GTTGCC>G of testdata/adjacent.
const adjacentDeletion = "ga4gh:VA.D7usdSQTt2S1X_XWbMm1bC8A0V8g-m0t"

// TestPanelsExamineReads simulates a sample with three changed bases side by side and a deletion, and holds it against rules
// for the whole, for parts and for what is not there. With a caller that has no network, and so filters the deletion in such
// noisy reads, what follows from it is SUSPECTED and never NEGATIVE.
func TestPanelsExamineReads(t *testing.T) {
	if testing.Short() {
		t.Skip("basecalls a simulated run twice")
	}
	t.Parallel()
	adjacent := func(name string) string { return filepath.Join("testdata", "adjacent", name) }
	sim := filepath.Join(t.TempDir(), "sim")
	res := pore(t, "simulate", "--ref", adjacent("ref.fa"), "--vcf", adjacent("truth.vcf"), "--depth", "60", "--length", "700", "--channels", "16", "--seed", "3", "--out", sim)
	require.Zero(t, res.code, res.stderr)
	for _, model := range []string{"", "none"} {
		flags := []string{"--panel", adjacent("panel.yaml")}
		deletion, reason := "DETECTED", "reads show it"
		if model != "" {
			flags = append(flags, "--variant-model", model)
			deletion, reason = "SUSPECTED", "reads show it; called, but filtered as NoisyIndel"
		}
		var documents []map[string]any
		out := run(t, adjacent("ref.fa"), adjacent("genes.gff3"), filepath.Join(sim, "reads.pod5"), flags...)
		require.NoError(t, json.Unmarshal(readFile(t, out, "alerts.json"), &documents))
		want := map[string]string{
			"third-base": "DETECTED", "all-three": "DETECTED", "residue": "DETECTED", "deletion": deletion, "frame": deletion,
			"other-base": "NEGATIVE", "other-residue": "NEGATIVE",
		}
		// The rule for a class reported each allele that was called while reads came. Alleles that the caller has taken
		// back since are NEGATIVE; which alleles these are depends on how far the caller was then.
		taken := func(d map[string]any) bool {
			return d["rule"] == "frame" && d["scope"] == "allele" && d["subject"] != adjacentDeletion
		}
		for _, d := range documents {
			if taken(d) {
				require.Equal(t, "NEGATIVE", d["state"], "%s: %s", d["subject"], d["reason"])
				require.Equal(t, true, d["final"])
			}
		}
		documents = slices.DeleteFunc(documents, taken)
		for _, d := range documents {
			rule := fmt.Sprint(d["rule"])
			require.Equal(t, want[rule], d["state"], "%s: %s", rule, d["reason"])
			require.Equal(t, true, d["final"])
			switch carried, _ := d["carried"].(map[string]any); want[rule] {
			case "NEGATIVE":
				require.LessOrEqual(t, carried["alt_forward"].(float64)+carried["alt_reverse"].(float64), carried["explained"])
			default:
				require.Contains(t, d["reason"], map[bool]string{true: reason, false: "reads show it"}[rule == "deletion" || rule == "frame"])
			}
		}
		require.Len(t, documents, len(want)+1, "of the rule for a class there is one for the allele besides")
	}
}
