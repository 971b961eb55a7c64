package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream"
)

// randomBases are so many of a reference.
func randomBases(rnd *rand.Rand, n int) []byte {
	ref := make([]byte, n)
	for i := range ref {
		ref[i] = "ACGT"[rnd.IntN(4)]
	}
	return ref
}

// plateRead is a read of all of the reference with a replaced base in a hundred, but where every thousandth base is: of these the changed one, if it isn't -1, is the
// complement.
func plateRead(rnd *rand.Rand, ref []byte, changed int) []byte {
	seq := bytes.Clone(ref)
	for i := range seq {
		if i%1000 != 999 && rnd.IntN(100) == 0 {
			seq[i] = "ACGT"[rnd.IntN(4)]
		}
	}
	if changed >= 0 {
		seq[changed] = genome.Complement(seq[changed])
	}
	return seq
}

// plateOf is reads of four barcodes to a reference of 3,000 bases, and a sheet: sample a has a change in all of its reads, sample b has it in some that
// are a's, and one of its own; a control of water and one of the wild type have some of a's, too.
func plateOf(t *testing.T) (dir string, reads []string) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(3, 9))
	ref := randomBases(rnd, 3000)
	add := func(barcode string, n, changed int) {
		for range n {
			seq := plateRead(rnd, ref, changed)
			if len(reads)%2 == 1 {
				genome.ReverseComplement(seq)
			}
			reads = append(reads, fmt.Sprintf("@r%d runid=run1 flow_cell_id=F ch=1 start_time=2026-01-01T00:00:00Z barcode=%s sample_id=plate\n%s\n+\n%s\n",
				len(reads), barcode, seq, strings.Repeat("5", len(seq))))
		}
	}
	add("barcode01", 80, 999)
	add("barcode02", 50, -1)
	add("barcode02", 20, 999)
	add("barcode02", 30, 1999)
	add("barcode03", 10, 999)
	add("barcode04", 60, -1)
	add("barcode04", 15, 999)
	dir = t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("ref.fa", fmt.Sprintf(">ref\n%s\n", ref))
	write("sheet.csv", "kit,experiment_id,flow_cell_id,barcode,alias,type\nK,e,F,barcode01,a,test_sample\nK,e,F,barcode02,b,\nK,e,F,barcode03,water,no_template_control\nK,e,F,barcode04,wild,negative_control\n")
	rule := func(id string, at int) string {
		return fmt.Sprintf("- id: %s\n  thresholds: {allele_fraction: 0.4, error_rate: 0.01, min_fraction: 0.1}\n  match: {vcf: \"ref:%d:%c:%c\"}\n", id, at+1, ref[at], genome.Complement(ref[at]))
	}
	write("panel.yaml", "panel: plate\nversion: 1\nassembly: ref\nreference:\n  ref: {length: 3000}\nrules:\n"+rule("neighbours", 999)+rule("own", 1999))
	return dir, reads
}

// TestCarryOver: a run whose sheet names controls marks in its files what reads of other samples explain, and the panel's answer that goes by it is doubtful;
// in any order of the reads, with any partitions and processors, the same bytes.
func TestCarryOver(t *testing.T) {
	t.Parallel()
	dir, reads := plateOf(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	var first string
	for n, flags := range [][]string{{"--partitions", "1"}, {"--partitions", "3", "--processors", "2"}, {"--partitions", "4"}} {
		rand.New(rand.NewPCG(uint64(n), 1)).Shuffle(len(reads), func(i, j int) { reads[i], reads[j] = reads[j], reads[i] })
		require.NoError(t, os.WriteFile(at("reads.fastq"), []byte(strings.Join(reads, "")), 0o600))
		out := at(fmt.Sprintf("out%d", n))
		args := append([]string{"run", "--ref", at("ref.fa"), "--panel", at("panel.yaml"), "--sample-sheet", at("sheet.csv"), "--ploidy", "mixture", "--out", out}, flags...)
		res := pore(t, append(args, at("reads.fastq"))...)
		require.Zero(t, res.code, res.stderr)
		require.Contains(t, res.stderr, "1 alleles of samples are explained by carry-over and marked CarryOver")
		all := plateResults(t, out)
		if first == "" {
			first = all
		}
		require.Equal(t, first, all, "%v", flags)

		sites := make(map[string]string)
		for line := range strings.Lines(string(readFile(t, filepath.Join(out, "b.variants.vcf")))) {
			if f := strings.Split(line, "\t"); !strings.HasPrefix(line, "#") {
				_, fields, _ := strings.Cut(f[7], ";CO_")
				sites[f[1]] = f[6] + " " + fields
			}
		}
		require.Equal(t, map[string]string{
			"1000": "CarryOver SHARE=1.000;CO_BASIS=contamination;CO_CONTROL=wild;CO_AD=15;CO_DP=75",
			"2000": "PASS SHARE=0.000;CO_BASIS=no_source;CO_CONTROL=wild;CO_AD=0;CO_DP=75",
		}, sites)
		answers := make(map[string]string)
		for _, sample := range []string{"a", "b"} {
			var alerts []struct {
				Rule, State, Reason string
				CarryOver           *struct {
					Explained bool
					Control   string
				} `json:"carry_over"`
			}
			require.NoError(t, json.Unmarshal(readFile(t, filepath.Join(out, sample+".alerts.json")), &alerts))
			for _, a := range alerts {
				answers[sample+" "+a.Rule] = a.State
				if a.CarryOver != nil {
					require.True(t, a.CarryOver.Explained)
					require.Regexp(t, `^20 of 100 reads show it; carry-over explains ref:1000 .>.: at most 100 % of its reads are carry-over, by what the controls show \(control wild: 15 of 75 reads\)$`, a.Reason)
					answers[sample+" "+a.Rule] += " carried over"
				}
			}
		}
		require.Equal(t, map[string]string{"a neighbours": "DETECTED", "a own": "NEGATIVE", "b neighbours": "SUSPECTED carried over", "b own": "DETECTED"}, answers)
		report := string(readFile(t, filepath.Join(out, "report.html")))
		for _, want := range []string{"Carry-over from other samples explains 1 answer", "Alleles that carry-over explains", "Control (no template control) with 1 finding", "Control (negative control)"} {
			require.Contains(t, report, want)
		}
	}
	for control, want := range map[string]string{
		"blank": "--control blank: the sample sheet " + at("sheet.csv") + " has no such alias or barcode: it has a, b, water, wild",
		"water": at("sheet.csv") + ": it has water as no_template_control, and a flag as negative_control",
	} {
		res := pore(t, "run", "--ref", at("ref.fa"), "--sample-sheet", at("sheet.csv"), "--control", control, "--out", at("none"), at("reads.fastq"))
		require.NotZero(t, res.code)
		require.Contains(t, res.stderr, want)
		require.Len(t, strings.Split(strings.TrimSpace(res.stderr), "\n"), 1, res.stderr)
	}
	res := pore(t, "run", "--ref", at("ref.fa"), "--control", "blank", "--out", at("none"), at("reads.fastq"))
	require.NotZero(t, res.code)
	require.Contains(t, res.stderr, "control blank is not among the samples of run run1, which are ")
}

// plateResults is what a run of the plate has left in a folder, without what depends on its history.
func plateResults(t *testing.T, out string) string {
	t.Helper()
	var all strings.Builder
	for _, name := range []string{"a.variants.vcf", "b.variants.vcf", "b.variants.jsonl", "water.variants.vcf", "b.alerts.json"} {
		text := string(readFile(t, filepath.Join(out, name)))
		switch filepath.Ext(name) {
		case ".jsonl":
			text = withoutTimes(t, text)
		case ".json":
			text = withoutRevisions(t, text)
		}
		all.WriteString(text)
	}
	return all.String()
}

// TestCarryOverAmongProcessors: pore run names controls to processors that were started without them, and that hold partitions of its reads; one of these stops
// without leaving, and wakes when others have ended the run without it. What the run leaves is the same as in one process; and so is what stands on the topic when the one that
// woke has noticed.
func TestCarryOverAmongProcessors(t *testing.T) {
	t.Parallel()
	dir, reads := plateOf(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(at("reads.fastq"), []byte(strings.Join(reads, "")), 0o600))
	flags := func(more ...string) []string {
		return append(more, "--ref", at("ref.fa"), "--panel", at("panel.yaml"), "--sample-sheet", at("sheet.csv"), "--ploidy", "mixture")
	}
	res := pore(t, flags("run", "--partitions", "1", "--out", at("one"), at("reads.fastq"))...)
	require.Zero(t, res.code, res.stderr)
	want := plateResults(t, at("one"))
	onBroker(t, func(t *testing.T, addr string) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		client := connect(ctx, t, addr)
		topics := stream.NewTopics("lab.")
		require.NoError(t, client.EnsureTopics(t.Context(), append(topics.Settings(3), topics.WatchSettings(3)...), 1))
		others := make([]*service, 2)
		for i := range others {
			others[i] = start(t, cancel, "processor", "--brokers", addr, "--topic-prefix", "lab.", "--partitions", "3", "--ref", at("ref.fa"), "--panel", at("panel.yaml"), "--ploidy", "mixture",
				"--stages", "align,variant,annotate,watch", "--listen", "127.0.0.1:0", "--no-page")
		}
		run := start(t, cancel, "pore", flags("run", "--brokers", addr, "--topic-prefix", "lab.", "--partitions", "3", "--out", at("several"), at("reads.fastq"))...)
		followRun(ctx, t, client, topics, "run1", func(revisions int) bool { return revisions >= 1 })
		require.NoError(t, others[0].cmd.Process.Signal(syscall.SIGSTOP))
		run.ended(t)
		require.Equal(t, want, plateResults(t, at("several")))
		require.NoError(t, others[0].cmd.Process.Signal(syscall.SIGCONT))
		for _, p := range others {
			p.stop(t)
		}
		res := pore(t, "consume", "--brokers", addr, "--topic-prefix", "lab.", "--format", "json", "--until-end")
		require.Zero(t, res.code, res.stderr)
		ended, marked := false, ""
		for line := range strings.Lines(res.stdout) {
			var v struct {
				Sample string
				Status string
				Allele struct{ Pos int } `json:"variant"`
				Call   struct{ Filters []string }
			}
			require.NoError(t, json.Unmarshal([]byte(line), &v))
			if v.Sample == "b" && v.Allele.Pos == 1000 {
				ended, marked = v.Status == "FINAL", fmt.Sprint(v.Call.Filters)
			}
		}
		require.True(t, ended)
		require.Equal(t, "[CarryOver]", marked)
	})
}

// withoutRevisions is alerts without their history: which revision it is, and what was said before.
func withoutRevisions(t *testing.T, text string) string {
	t.Helper()
	var alerts []map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &alerts))
	for _, a := range alerts {
		for _, key := range []string{"id", "revision", "previous"} {
			delete(a, key)
		}
	}
	out, err := json.Marshal(alerts)
	require.NoError(t, err)
	return string(out)
}

// withoutTimes is events without what differs between two runs: when a read came, and the number of the revision.
func withoutTimes(t *testing.T, lines string) string {
	t.Helper()
	var out strings.Builder
	for line := range strings.Lines(lines) {
		var v map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &v))
		delete(v, "last_chunk_time")
		delete(v, "revision")
		text, err := json.Marshal(v)
		require.NoError(t, err)
		out.Write(text)
	}
	return out.String()
}

// TestCarryOverOfRunsInFiles: of two runs on one set of topics, each with a control of the same name, and with a sample that is in both, files get the marks that the
// stream gives; taken for one run they'd get others.
func TestCarryOverOfRunsInFiles(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(8, 15))
	ref := randomBases(rnd, 3000)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	groups, count := make(map[string]bool), 0
	barcodes := map[string]string{"a": "barcode01", "c": "barcode01", "NTC": "barcode02", "s": "barcode03"}
	sheet := "kit,experiment_id,flow_cell_id,barcode,alias,type\n"
	var header, records strings.Builder
	fastq := map[string]string{}
	header.WriteString("@HD\tVN:1.6\tSO:unsorted\n@SQ\tSN:ref\tLN:3000\n")
	add := func(run, sample string, n, changed int) {
		group := run + "." + sample
		if !groups[group] {
			groups[group] = true
			fmt.Fprintf(&header, "@RG\tID:%s\tSM:%s\tPU:F%s\tDS:runid=%s\n", group, sample, run, run)
			kind := map[bool]string{true: "no_template_control", false: "test_sample"}[sample == "NTC"]
			sheet += fmt.Sprintf("K,e,F%s,%s,%s,%s\n", run, barcodes[sample], sample, kind)
		}
		for range n {
			seq := plateRead(rnd, ref, changed)
			count++
			fmt.Fprintf(&records, "r%d\t%d\tref\t1\t60\t%dM\t*\t0\t0\t%s\t%s\tRG:Z:%s\n", count, 16*(count%2), len(seq), seq, strings.Repeat("5", len(seq)), group)
			if count%2 == 1 {
				genome.ReverseComplement(seq)
			}
			fastq[run] += fmt.Sprintf("@r%d runid=%s flow_cell_id=F%s ch=1 start_time=2026-01-01T00:00:00Z barcode=%s sample_id=plate\n%s\n+\n%s\n",
				count, run, run, barcodes[sample], seq, strings.Repeat("5", len(seq)))
		}
	}
	add("one", "a", 150, 999)
	add("one", "NTC", 9, 999)
	add("one", "s", 90, -1)
	add("one", "s", 25, 999) // from a
	add("two", "c", 90, 1999)
	add("two", "NTC", 8, -1)
	add("two", "s", 60, -1)
	add("two", "s", 22, 1999)
	add("two", "s", 20, 999) // its own, as nobody in that run has it
	require.NoError(t, os.WriteFile(at("ref.fa"), fmt.Appendf(nil, ">ref\n%s\n", ref), 0o600))
	require.NoError(t, os.WriteFile(at("sheet.csv"), []byte(sheet), 0o600))
	for run, text := range fastq {
		require.NoError(t, os.WriteFile(at(run+".fastq"), []byte(text), 0o600))
	}
	require.NoError(t, os.WriteFile(at("reads.sam"), []byte(header.String()+records.String()), 0o600))

	marks := func(path string) map[string]string {
		sites := make(map[string]string)
		for line := range strings.Lines(string(readFile(t, path))) {
			if f := strings.Split(strings.TrimSpace(line), "\t"); !strings.HasPrefix(line, "#") {
				_, fields, _ := strings.Cut(";"+f[7], ";CO_")
				sites[f[1]] = f[6] + " " + fields
			}
		}
		return sites
	}
	res := pore(t, "run", "--ref", at("ref.fa"), "--sample-sheet", at("sheet.csv"), "--ploidy", "mixture", "--partitions", "2", "--out", at("stream"), at("one.fastq"), at("two.fastq"))
	require.Zero(t, res.code, res.stderr)
	res = pore(t, "call", "--ref", at("ref.fa"), "--ploidy", "mixture", "-o", at("calls.{sample}.vcf"), at("reads.sam"))
	require.Zero(t, res.code, res.stderr)
	mark := func(out string, flags ...string) {
		args := append([]string{"carryover", "--ref", at("ref.fa"), "--sample-sheet", at("sheet.csv"), "--ploidy", "mixture", "--alignments", at("reads.sam"), "-o", at(out + "/{sample}.vcf")}, flags...)
		res := pore(t, append(args, at("calls.a.vcf"), at("calls.c.vcf"), at("calls.s.vcf"))...)
		require.Zero(t, res.code, res.stderr)
	}
	mark("files")
	for sample, sites := range map[string]int{"a": 1, "c": 1, "s": 2} {
		want := marks(at("stream/" + sample + ".variants.vcf"))
		require.Len(t, want, sites, sample)
		require.Equal(t, want, marks(at("files/"+sample+".vcf")), sample)
	}
	of := marks(at("files/s.vcf"))
	require.Regexp(t, `^PASS SHARE=0\.\d+;CO_BASIS=contamination;CO_CONTROL=NTC;CO_AD=9;CO_DP=9$`, of["1000"])
	mark("together", "--one-run")
	require.NotEqual(t, of, marks(at("together/s.vcf")))
}
