package e2e

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align/hts"
)

// reportedReads is the folder of what users of such programs have sent in, with one fault.
func reportedReads(name string) string { return filepath.Join("testdata", "reported-reads", name) }

// callsOf are the places and genotypes of a VCF's records that pass.
func callsOf(vcf string) []string {
	var calls []string
	for line := range strings.Lines(vcf) {
		if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) > 9 && f[6] == "PASS" && line[0] != '#' {
			genotype, _, _ := strings.Cut(f[9], ":")
			calls = append(calls, f[0]+":"+f[1]+" "+f[3]+">"+f[4]+" "+genotype)
		}
	}
	return calls
}

// withoutAlignments is a SAM file as it was before its reads were aligned.
func withoutAlignments(sam []byte) []byte {
	var out strings.Builder
	for line := range strings.Lines(string(sam)) {
		switch f := strings.Split(line, "\t"); {
		case f[0] == "@SQ":
		case line[0] == '@':
			out.WriteString(line)
		default:
			copy(f[1:], []string{"4", "*", "0", "0", "*", "*", "0", "0"})
			out.WriteString(strings.Join(f, "\t"))
		}
	}
	return []byte(out.String())
}

// sampleOf is the name of a VCF's sample.
func sampleOf(t *testing.T, vcf string) string {
	t.Helper()
	_, rest, ok := strings.Cut(vcf, "\tFORMAT\t")
	require.True(t, ok)
	name, _, _ := strings.Cut(rest, "\n")
	return name
}

// samLines are the records of a SAM or BAM file as lines of SAM.
func samLines(t *testing.T, path string) []string {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	r, err := hts.NewReader(f, 1)
	require.NoError(t, err)
	var out strings.Builder
	w, err := hts.NewWriter(&out, hts.SAM, nil, r.Header().Refs(), 1)
	require.NoError(t, err)
	for {
		rec, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.NoError(t, w.Write(rec))
	}
	require.NoError(t, w.Close())
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

// TestReportedReads runs the programs on inputs that users of such tools have reported, each with its fault, and
// checks for the right result.
func TestReportedReads(t *testing.T) {
	t.Parallel()
	t.Run("haplotag leaves all but its tags", func(t *testing.T) {
		t.Parallel()
		dir, in := t.TempDir(), reportedReads("haplotag-reverses-qualities")
		tagged := filepath.Join(dir, "tagged.bam")
		res := pore(t, "call", "--ref", filepath.Join(in, "ref.fa"), "--ploidy", "2", "--haplotag", tagged, "-o", filepath.Join(dir, "calls.vcf"), filepath.Join(in, "reads.sam"))
		require.Zero(t, res.code, res.stderr)
		before, after := samLines(t, filepath.Join(in, "reads.sam")), samLines(t, tagged)
		require.Equal(t, len(before), len(after))
		reverse, haplotypes := 0, 0
		for i := range before {
			was, is := strings.Split(before[i], "\t"), strings.Split(after[i], "\t")
			require.Equal(t, was[:11], is[:11])
			for _, tag := range is[11:] {
				if strings.HasPrefix(tag, "HP:i:") {
					haplotypes++
				}
			}
			if was[1] == "16" {
				reverse++
				require.Equal(t, byte(':'), is[10][0])
			}
		}
		require.Greater(t, reverse, 3)
		require.Greater(t, haplotypes, 3)
	})

	t.Run("samples of one file are called apart", func(t *testing.T) {
		t.Parallel()
		dir, in := t.TempDir(), reportedReads("several-samples-merged")
		call := func(args ...string) result {
			return pore(t, append(append([]string{"call", "--ref", filepath.Join(in, "ref.fa"), "--ploidy", "2"}, args...), filepath.Join(in, "reads.sam"))...)
		}
		res := call()
		require.Equal(t, 1, res.code)
		require.Contains(t, res.stderr, "its read groups name 2 samples, alice, bob: call one with --sample")
		require.Empty(t, res.stdout)
		want := map[string][]string{"alice": {"c1:251 C>G 1/1", "c1:601 A>C 1/1"}, "bob": nil}
		res = call("--sample", "alice")
		require.Zero(t, res.code, res.stderr)
		require.Equal(t, want["alice"], callsOf(res.stdout))
		require.Equal(t, "alice", sampleOf(t, res.stdout))
		res = call("-o", filepath.Join(dir, "{sample}.vcf"))
		require.Zero(t, res.code, res.stderr)
		require.Equal(t, want["alice"], callsOf(string(readFile(t, dir, "alice.vcf"))))
		bob := string(readFile(t, dir, "bob.vcf"))
		require.Len(t, callsOf(bob), 2)
		for _, c := range callsOf(bob) {
			require.Regexp(t, `^c1:(401|701) .* 1/1$`, c)
		}
		require.Equal(t, "bob", sampleOf(t, bob))
		res = call("--one-sample", "both")
		require.Zero(t, res.code, res.stderr)
		require.Len(t, callsOf(res.stdout), 4)
		require.Equal(t, "both", sampleOf(t, res.stdout))
		require.Equal(t, 1, call("--sample", "carol").code)

		// Likewise of reads that have to be aligned first.
		unaligned := filepath.Join(dir, "unaligned.sam")
		require.NoError(t, os.WriteFile(unaligned, withoutAlignments(readFile(t, in, "reads.sam")), 0o600))
		call = func(args ...string) result {
			return pore(t, append(append([]string{"call", "--ref", filepath.Join(in, "ref.fa"), "--ploidy", "2"}, args...), unaligned)...)
		}
		res = call()
		require.Equal(t, 1, res.code)
		require.Contains(t, res.stderr, "unaligned.sam: its read groups name 2 samples, alice, bob: call one with --sample")
		res = call("--sample", "alice")
		require.Zero(t, res.code, res.stderr)
		require.Equal(t, want["alice"], callsOf(res.stdout))
		require.Equal(t, "alice", sampleOf(t, res.stdout))
		res = call("-o", filepath.Join(dir, "first-{sample}.vcf"))
		require.Zero(t, res.code, res.stderr)
		require.Equal(t, want["alice"], callsOf(string(readFile(t, dir, "first-alice.vcf"))))
		require.Equal(t, callsOf(bob), callsOf(string(readFile(t, dir, "first-bob.vcf"))))
		res = call("--one-sample", "both")
		require.Zero(t, res.code, res.stderr)
		require.Len(t, callsOf(res.stdout), 4)
		call = func(args ...string) result {
			return pore(t, append(append([]string{"call", "--ref", filepath.Join(in, "ref.fa"), "--ploidy", "2"}, args...), filepath.Join(in, "reads.sam"))...)
		}
		require.Equal(t, 2, call("--sample", "alice", "--one-sample", "x").code)
		require.Equal(t, 2, call("-o", filepath.Join(dir, "{sample}.vcf"), "--callable", filepath.Join(dir, "one.bed")).code)
	})

	t.Run("a sheet of another flow cell is refused", func(t *testing.T) {
		t.Parallel()
		dir, in := t.TempDir(), reportedReads("sheet-of-another-flow-cell")
		ref, sheet := filepath.Join(in, "ref.fa"), filepath.Join(in, "sheet.csv")
		res := pore(t, "simulate", "--ref", ref, "--depth", "8", "--length", "1200", "--channels", "16", "--seed", "4", "--kit-name", "SQK-RBK004", "--barcode", "barcode02", "--out", filepath.Join(dir, "sim"))
		require.Zero(t, res.code, res.stderr)
		reads := filepath.Join(dir, "sim", "reads.pod5")
		play := func(sheet, out string) result {
			return pore(t, "run", "--ref", ref, "--gff", filepath.Join(in, "genes.gff3"), "--kit-name", "SQK-RBK004", "--sample-sheet", sheet, "--out", filepath.Join(dir, out), reads)
		}
		const refusal = "the rows are of flow cell FAX99999: is it the sheet of another flow cell?"
		res = play(sheet, "wrong")
		require.Equal(t, 1, res.code)
		require.Contains(t, res.stderr, refusal)
		res = pore(t, "basecall", "--kit-name", "SQK-RBK004", "--sample-sheet", sheet, reads)
		require.Equal(t, 1, res.code)
		require.Contains(t, res.stderr, refusal)

		var info struct {
			Runs []struct {
				FlowCell string `json:"flow_cell_id"`
			} `json:"runs"`
		}
		res = pore(t, "signal", "info", "--json", reads)
		require.NoError(t, json.Unmarshal([]byte(res.stdout), &info), res.stdout)
		right := strings.ReplaceAll(string(readFile(t, in, "sheet.csv")), "FAX99999", info.Runs[0].FlowCell)
		good, other := filepath.Join(dir, "good.csv"), filepath.Join(dir, "other.csv")
		require.NoError(t, os.WriteFile(good, []byte(right+",,,,\n"), 0o600))
		require.NoError(t, os.WriteFile(other, []byte(strings.ReplaceAll(right, "barcode02", "barcode03")), 0o600))
		var summary struct {
			Reads, Mapped int64
			LeftOut       map[string]int64 `json:"left_out"`
			Barcodes      map[string]int64 `json:"barcodes"`
			Silent        []string         `json:"silent_samples"`
		}
		res = play(good, "good")
		require.Zero(t, res.code, res.stderr)
		require.Contains(t, res.stderr, "reads by barcode: patient-b ")
		require.NoError(t, json.Unmarshal(readFile(t, dir, "good", "summary.json"), &summary))
		require.Greater(t, 2*summary.Mapped, summary.Reads)
		require.Greater(t, summary.Barcodes["patient-b"], int64(0))
		require.Equal(t, []string{"patient-a"}, summary.Silent)
		res = play(other, "other")
		require.Zero(t, res.code, res.stderr)
		require.Contains(t, res.stderr, "have no barcode of the run's samples")
		require.NoError(t, json.Unmarshal(readFile(t, dir, "other", "summary.json"), &summary))
		require.Greater(t, 2*summary.LeftOut["unclassified"], summary.Reads)

		// What was basecalled without a sheet gets its samples by the tags.
		playCalled := func(sheet, out, reads string) result {
			return pore(t, "run", "--ref", ref, "--gff", filepath.Join(in, "genes.gff3"), "--sample-sheet", sheet, "--out", filepath.Join(dir, out), reads)
		}
		res = pore(t, "basecall", "--kit-name", "SQK-RBK004", "--format", "bam", reads)
		require.Zero(t, res.code, res.stderr)
		called := filepath.Join(dir, "called.bam")
		require.NoError(t, os.WriteFile(called, []byte(res.stdout), 0o600))
		res = pore(t, "demux", "--sample-sheet", sheet, "--out", filepath.Join(dir, "refused"), called)
		require.Equal(t, 1, res.code)
		require.Contains(t, res.stderr, refusal)
		res = pore(t, "demux", "--sample-sheet", good, "--out", filepath.Join(dir, "sorted"), called)
		require.Zero(t, res.code, res.stderr)
		require.Contains(t, res.stdout, "patient-b\n")
		require.Contains(t, res.stderr, "patient-a")
		res = playCalled(sheet, "called-wrong", called)
		require.Equal(t, 1, res.code)
		require.Contains(t, res.stderr, refusal)
		res = playCalled(good, "called-good", called)
		require.Zero(t, res.code, res.stderr)
		require.Contains(t, res.stderr, "reads by barcode: patient-b ")
		fromSignal := readFile(t, dir, "good", "summary.json")
		require.NoError(t, json.Unmarshal(fromSignal, &summary))
		signal := summary
		summary.Barcodes, summary.LeftOut, summary.Silent = nil, nil, nil
		require.NoError(t, json.Unmarshal(readFile(t, dir, "called-good", "summary.json"), &summary))
		require.Equal(t, signal.Barcodes["patient-b"], summary.Barcodes["patient-b"])
		require.Equal(t, signal.Mapped, summary.Mapped)
		require.Equal(t, []string{"patient-a"}, summary.Silent)
	})

	t.Run("U is T", func(t *testing.T) {
		t.Parallel()
		in := reportedReads("fastq-u-becomes-n")
		ref, rna := filepath.Join(in, "ref.fa"), filepath.Join(in, "rna.fastq")
		res := pore(t, "align", "--ref", ref, "--format", "sam", rna)
		require.Zero(t, res.code, res.stderr)
		lines := strings.Split(strings.TrimSpace(res.stdout), "\n")
		columns := strings.Split(lines[len(lines)-1], "\t")
		require.Equal(t, "800=", columns[5])
		genome := string(readFile(t, in, "ref.fa"))
		_, bases, _ := strings.Cut(genome, "\n")
		require.Contains(t, strings.ReplaceAll(bases, "\n", ""), columns[9])
		res = pore(t, "eval", "basecall", "--ref", ref, rna)
		require.Zero(t, res.code, res.stderr)
		require.Contains(t, res.stdout, "Identity  mean 100.00 %")
	})

	for _, name := range []string{"cigar-without-match-stops-the-caller", "seq-equals-sign"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := reportedReads(name)
			res := pore(t, "call", "--ref", filepath.Join(in, "ref.fa"), filepath.Join(in, "reads.sam"))
			require.Zero(t, res.code, res.stderr)
			require.Equal(t, []string{"c1:351 C>G 1"}, callsOf(res.stdout))
			require.Empty(t, res.stderr)
		})
	}

	t.Run("one run id at two sample rates", func(t *testing.T) {
		t.Parallel()
		two := filepath.Join(root(), "signal", "testdata", "two_rates.pod5")
		res := pore(t, "signal", "check", two)
		require.Equal(t, 1, res.code)
		require.Contains(t, res.stdout, `rows 0 and 1 are both run "0000000000000000000000000000000000000001", but differ in field "sample_rate"`)
		res = pore(t, "basecall", two)
		require.Equal(t, 1, res.code)
		require.Empty(t, res.stdout)
		require.Contains(t, res.stderr, "has reads of 4000 samples a second and of 5000")
	})

	t.Run("a list of reads is a summary", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		reads := filepath.Join(dir, "sim", "reads.pod5")
		res := pore(t, "simulate", "--ref", filepath.Join(reportedReads("haplotag-reverses-qualities"), "ref.fa"), "--depth", "4", "--length", "1000", "--channels", "4", "--seed", "4", "--out", filepath.Join(dir, "sim"))
		require.Zero(t, res.code, res.stderr)
		res = pore(t, "basecall", "--format", "sam", reads)
		require.Zero(t, res.code, res.stderr)
		called := filepath.Join(dir, "called.sam")
		// As a basecaller writes reads in which it searched for modified bases, and found none.
		require.NoError(t, os.WriteFile(called, []byte(strings.ReplaceAll(res.stdout, "\tmv:B:c", "\tMM:Z:\tML:B:C\tmv:B:c")), 0o600))
		table := pore(t, "summary", called)
		require.Zero(t, table.code, table.stderr)
		list := filepath.Join(dir, "summary.tsv")
		half := strings.Count(table.stdout, "\n") / 2
		require.NoError(t, os.WriteFile(list, []byte(strings.Join(strings.SplitAfter(table.stdout, "\n")[:1+half], "")), 0o600))
		res = pore(t, "basecall", "--reads", list, reads)
		require.Zero(t, res.code, res.stderr)
		require.Equal(t, half, strings.Count(res.stdout, "\n+\n"))

		again := filepath.Join(dir, "again.pod5")
		require.NoError(t, os.WriteFile(again, readFile(t, dir, "sim", "reads.pod5"), 0o600))
		require.Equal(t, 1, pore(t, "basecall", reads, again).code)
		res = pore(t, "basecall", "--reads", list, "--duplicates", "first", reads, again)
		require.Zero(t, res.code, res.stderr)
		require.Equal(t, half, strings.Count(res.stdout, "\n+\n"))
		require.Contains(t, res.stderr, "each is taken from the first of them")
	})
}
