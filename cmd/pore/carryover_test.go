package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/processor"
	"github.com/porestream/porestream/variant/aligned"
	"github.com/porestream/porestream/vcf"
)

// plate is the alignments of a plate of barcodes to a reference of 3,000 bases.
type plate struct {
	rnd       *rand.Rand
	reference []byte
	reads     []string
	count     int
}

func newPlate() *plate {
	p := &plate{rnd: rand.New(rand.NewPCG(11, 5)), reference: make([]byte, 3000)}
	for i := range p.reference {
		p.reference[i] = "ACGT"[p.rnd.IntN(4)]
	}
	return p
}

// add adds reads of a sample, with 1 % of the bases wrong but at each thousandth, that have the complement at a 0-based position; -1: none.
func (p *plate) add(sample string, reads, changed int) {
	for range reads {
		seq := bytes.Clone(p.reference)
		for i := range seq {
			if i%1000 != 999 && p.rnd.IntN(100) == 0 {
				seq[i] = "ACGT"[p.rnd.IntN(4)]
			}
		}
		if changed >= 0 {
			seq[changed] = p.complement(changed)
		}
		p.count++
		p.reads = append(p.reads, fmt.Sprintf("r%d\t%d\tref\t1\t60\t%dM\t*\t0\t0\t%s\t%s\tRG:Z:%s\n", p.count, 16*(p.count%2), len(seq), seq, strings.Repeat("5", len(seq)), sample))
	}
}

func (p *plate) complement(at int) byte { return "TGCA"[strings.IndexByte("ACGT", p.reference[at])] }

// files writes reference and alignments, in an order.
func (p *plate) files(t *testing.T, samples []string, order *rand.Rand) (reference, reads string) {
	t.Helper()
	dir := t.TempDir()
	reference, reads = filepath.Join(dir, "ref.fa"), filepath.Join(dir, "plate.sam")
	require.NoError(t, os.WriteFile(reference, fmt.Appendf(nil, ">ref\n%s\n", p.reference), 0o600))
	text := "@HD\tVN:1.6\tSO:unsorted\n@SQ\tSN:ref\tLN:3000\n"
	for _, s := range samples {
		text += fmt.Sprintf("@RG\tID:%s\tSM:%s\n", s, s)
	}
	list := append([]string{}, p.reads...)
	order.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	require.NoError(t, os.WriteFile(reads, []byte(text+strings.Join(list, "")), 0o600))
	return reference, reads
}

// marked are the filters and the fields of carry-over of a VCF's records by position.
func marked(t *testing.T, path string) map[int]string {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	r, err := vcf.NewReader(f)
	require.NoError(t, err)
	out := make(map[int]string)
	for {
		rec, err := r.Next()
		if err == io.EOF { //nolint:errorlint // as documented
			return out
		}
		require.NoError(t, err)
		text := strings.Join(rec.Filter, ";")
		for _, key := range []string{"CO_BASIS", "CO_CONTROL", "CO_AD", "CO_DP"} {
			if value, ok := rec.Info.Get(key); ok {
				text += " " + value
			}
		}
		out[rec.Pos] = text
	}
}

// runPore runs a command of pore in this process.
func runPore(t *testing.T, args ...string) error {
	t.Helper()
	cmd := command()
	cmd.SetArgs(args)
	cmd.SetOut(io.Discard)
	return cmd.ExecuteContext(t.Context())
}

// TestCarryOver: on a plate, a minority allele that a neighbour has in all its reads, and the water in some, is marked, and one that only
// its sample has isn't, nor the neighbour's own. That is so in any order of the reads, of pore call at once and of pore carryover over its files.
func TestCarryOver(t *testing.T) {
	p := newPlate()
	p.add("a", 80, 999)
	p.add("b", 50, -1)
	p.add("b", 20, 999) // from a
	p.add("b", 30, 1999)
	p.add("water", 10, 999)
	p.add("wild", 60, -1)
	p.add("wild", 15, 999) // from a
	samples := []string{"a", "b", "water", "wild"}
	want := map[string]map[int]string{
		"a": {1000: "PASS contamination wild 15 75"},
		"b": {1000: "CarryOver contamination wild 15 75", 2000: "PASS no_source wild 0 75"},
	}
	var first []byte
	for order := range uint64(3) {
		reference, reads := p.files(t, samples, rand.New(rand.NewPCG(order, 1)))
		dir := t.TempDir()
		require.NoError(t, runPore(t, "call", "--ploidy", "mixture", "--ref", reference, "--control", "wild", "--no-template-control", "water", "-o", filepath.Join(dir, "{sample}.vcf"), reads))
		var all []byte
		for sample, sites := range want {
			require.Equal(t, sites, marked(t, filepath.Join(dir, sample+".vcf")), sample)
		}
		for _, sample := range samples {
			text, err := os.ReadFile(filepath.Join(dir, sample+".vcf"))
			require.NoError(t, err)
			all = append(all, text...)
		}
		if first == nil {
			first = all
		}
		require.Equal(t, string(first), string(all), "order %d", order)

		plain, again := t.TempDir(), t.TempDir()
		require.NoError(t, runPore(t, "call", "--ploidy", "mixture", "--ref", reference, "-o", filepath.Join(plain, "{sample}.vcf"), reads))
		sheet := filepath.Join(plain, "sheet.csv")
		require.NoError(t, os.WriteFile(sheet, []byte("kit,experiment_id,flow_cell_id,barcode,alias,type\nK,e,F,barcode01,a,test_sample\nK,e,F,barcode02,b,\nK,e,F,barcode03,water,no_template_control\nK,e,F,barcode04,wild,negative_control\n"), 0o600))
		require.NoError(t, runPore(t, "carryover", "--ref", reference, "--sample-sheet", sheet, "--alignments", reads, "-o", filepath.Join(again, "{sample}.vcf"), filepath.Join(plain, "b.vcf"), filepath.Join(plain, "a.vcf")))
		for _, sample := range []string{"a", "b"} {
			text, err := os.ReadFile(filepath.Join(dir, sample+".vcf"))
			require.NoError(t, err)
			of, err := os.ReadFile(filepath.Join(again, sample+".vcf"))
			require.NoError(t, err)
			require.Equal(t, string(text), string(of))
		}
	}
}

// TestCarryOverRefuses: what can't be bounded is refused in one line that says what to do.
func TestCarryOverRefuses(t *testing.T) {
	p := newPlate()
	p.add("a", 1, -1)
	p.add("water", 1, -1)
	reference, reads := p.files(t, []string{"a", "water"}, p.rnd)
	sheet := filepath.Join(t.TempDir(), "sheet.csv")
	require.NoError(t, os.WriteFile(sheet, []byte("kit,experiment_id,flow_cell_id,barcode,alias,type\nK,e,F,barcode01,a,test_sample\nK,e,F,barcode02,b,\n"), 0o600))
	out := filepath.Join(t.TempDir(), "{sample}.vcf")
	calls := filepath.Join(t.TempDir(), "a.vcf")
	require.NoError(t, os.WriteFile(calls, []byte("##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\tnobody\n"), 0o600))
	of := func(line string) string {
		path := filepath.Join(t.TempDir(), "a.vcf")
		require.NoError(t, os.WriteFile(path, []byte("##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ta\n"+line+"\t30\tPASS\t.\tGT\t0/1\n"), 0o600))
		return path
	}
	is, other := string(p.reference[9]), string(p.complement(9))
	unknown, beyond, wrong := of("chr7\t10\t.\tA\tC"), of("ref\t3000\t.\tAC\tA"), of("ref\t10\t.\t"+other+"\t"+is)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"call", "--control", "water"}, "controls bound what the other samples of a file show: call all of them, with -o '{sample}.vcf.gz'"},
		{[]string{"call", "--control", "watr", "-o", out}, "control watr is not among the samples of " + reads + ", which are a, water"},
		{[]string{"call", "--control", "water", "--sample-sheet", sheet, "-o", out}, "--control water: the sample sheet " + sheet + " has no such alias or barcode: it has a, b"},
		{[]string{"call", "--sample-sheet", sheet, "-o", out}, sheet + ": column type of no row is negative_control or no_template_control, and no --control is given"},
		{[]string{"call", "--control", "water", "--control", "a", "-o", out}, "all samples of " + reads + " are controls: there is nothing that they could bound"},
		{[]string{"call", "--control", "water", "--no-template-control", "water", "-o", out}, "water is named by --control and by --no-template-control: it is one of them"},
		{[]string{"carryover", "--control", "water", "-o", out, calls}, "--alignments is required"},
		{[]string{"carryover", "--alignments", reads, "-o", out, calls}, "--control, --no-template-control or --sample-sheet is required"},
		{[]string{"carryover", "--alignments", reads, "--control", "water", "-o", "x.vcf", calls}, "-o with {sample} in it is required"},
		{[]string{"carryover", "--alignments", reads, "--control", "water", "-o", out, calls}, calls + ": no read group of the reads names its sample nobody: they name a, water"},
		{[]string{"carryover", "--alignments", reads, "--control", "water", "-o", out, "-"}, "-: calls are read several times: give a file, not a pipe"},
		{[]string{"carryover", "--alignments", reads, "--alignments", filepath.Join(filepath.Dir(reads), ".", filepath.Base(reads)), "--control", "water", "-o", out, unknown}, "it is the same file as " + reads + ", whose reads would count twice"},
		{[]string{"carryover", "--alignments", reads, "--control", "water", "-o", out, unknown}, unknown + ": chr7:10: the reference has no such contig"},
		{[]string{"carryover", "--alignments", reads, "--control", "water", "-o", out, wrong}, wrong + ": ref:10: REF is " + other + ", and the reference has " + is},
		{[]string{"carryover", "--alignments", reads, "--control", "water", "-o", out, beyond}, beyond + ": ref:3000: AC goes beyond the contig, which has 3000 bases"},
	} {
		args := append(append([]string{}, tt.args...), "--ref", reference)
		if tt.args[0] == "call" {
			args = append(args, reads)
		}
		err := runPore(t, args...)
		require.ErrorContains(t, err, tt.want)
		require.NotContains(t, err.Error(), "\n")
	}
}

// TestSilentControl: a control without a read at the alleles is warned of, as nothing shows whether it is clean or wasn't sequenced.
func TestSilentControl(t *testing.T) {
	p := newPlate()
	p.add("a", 30, 999)
	reference, reads := p.files(t, []string{"a", "water"}, p.rnd)
	calls := filepath.Join(t.TempDir(), "a.vcf")
	require.NoError(t, os.WriteFile(calls, fmt.Appendf(nil, "##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ta\nref\t1000\t.\t%c\t%c\t30\tPASS\t.\tGT\t1/1\n", p.reference[999], p.complement(999)), 0o600))
	g, err := genome.Load(reference)
	require.NoError(t, err)
	var controls processor.Controls
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	controls.Register(flags)
	require.NoError(t, flags.Parse([]string{"--no-template-control", "water"}))
	var log bytes.Buffer
	m := marking{
		genome: g, reads: []string{reads}, output: filepath.Join(t.TempDir(), "{sample}.vcf"), calls: map[string]string{"a": calls},
		logger: slog.New(slog.NewTextHandler(&log, nil)), options: aligned.Options{Threads: 1},
	}
	require.NoError(t, m.find(controls, ""))
	require.NoError(t, m.run(t.Context()))
	require.Contains(t, log.String(), "control water has no read at any allele that was called, which doesn't show whether it is clean or wasn't sequenced: carry-over isn't bounded by it. If it was, at most 5.3 reads")
}

// TestSheetOfTwoFlowCells: of a sheet of two flow cells the rows count whose flow cell the read groups name. A control that is among them without a read is one that has
// none, if the sheet's names are those of the reads, and one that goes by its barcode in the reads is found there.
func TestSheetOfTwoFlowCells(t *testing.T) {
	p := newPlate()
	p.add("a", 80, 999)
	p.add("b", 30, -1)
	p.add("b", 10, 999)
	p.add("barcode04", 60, -1)
	reference, reads := p.files(t, []string{"a", "b", "barcode04"}, p.rnd)
	text, err := os.ReadFile(reads)
	require.NoError(t, err)
	named := strings.NewReplacer("SM:a\n", "SM:a\tPU:F1\n", "SM:b\n", "SM:b\tPU:F1\n", "SM:barcode04\n", "SM:barcode04\tPU:F1\n").Replace(string(text))
	require.NoError(t, os.WriteFile(reads, []byte(named), 0o600))
	dir := t.TempDir()
	sheet := filepath.Join(dir, "sheet.csv")
	write := func(rows string) {
		require.NoError(t, os.WriteFile(sheet, []byte("kit,experiment_id,flow_cell_id,barcode,alias,type\n"+rows), 0o600))
	}
	call := func() error {
		return runPore(t, "call", "--ploidy", "mixture", "--ref", reference, "--sample-sheet", sheet, "-o", filepath.Join(dir, "{sample}.vcf"), reads)
	}
	const others = "K,e,F2,barcode01,c,\nK,e,F2,barcode02,blank,no_template_control\n"
	write("K,e,F1,barcode01,a,\nK,e,F1,barcode02,b,\nK,e,F1,barcode03,water,no_template_control\n" + others)
	require.NoError(t, call())
	require.Equal(t, map[int]string{1000: "CarryOver silent_control water 0 0"}, marked(t, filepath.Join(dir, "b.vcf")))

	write("K,e,F1,barcode01,a,\nK,e,F1,barcode02,b,\nK,e,F1,barcode04,wild,negative_control\n" + others)
	require.NoError(t, call())
	require.Equal(t, map[int]string{1000: "CarryOver hopping barcode04 0 60"}, marked(t, filepath.Join(dir, "b.vcf")))

	write("K,e,F1,barcode01,x,\nK,e,F1,barcode03,water,no_template_control\n" + others)
	require.EqualError(t, call(), "control water is not among the samples of "+reads+", which are a, b, barcode04")
}

// TestRunsByFlowCell: where no read group names a run, flow cells are runs. Reads of one bound nothing of another, and of one without a control nothing is assessed.
func TestRunsByFlowCell(t *testing.T) {
	p := newPlate()
	p.add("a", 80, 999)
	p.add("b", 50, -1)
	p.add("b", 20, 999)
	p.add("water", 10, 999)
	p.add("d", 60, 999)
	samples := []string{"a", "b", "d", "water"}
	reference, reads := p.files(t, samples, p.rnd)
	text, err := os.ReadFile(reads)
	require.NoError(t, err)
	named := strings.NewReplacer("SM:a\n", "SM:a\tPU:F1\n", "SM:b\n", "SM:b\tPU:F1\n", "SM:water\n", "SM:water\tPU:F1\n", "SM:d\n", "SM:d\tPU:F2\n").Replace(string(text))
	require.NoError(t, os.WriteFile(reads, []byte(named), 0o600))
	dir := t.TempDir()
	sheet := filepath.Join(dir, "sheet.csv")
	require.NoError(t, os.WriteFile(sheet, []byte("kit,experiment_id,flow_cell_id,barcode,alias,type\nK,e,F1,barcode01,a,\nK,e,F1,barcode02,b,\nK,e,F1,barcode03,water,no_template_control\nK,e,F2,barcode01,d,\n"), 0o600))
	marks := func(flags ...string) map[string]string {
		all := make(map[string]string)
		out := t.TempDir()
		args := append([]string{"carryover", "--ref", reference, "--alignments", reads, "--sample-sheet", sheet, "-o", filepath.Join(out, "{sample}.vcf")}, flags...)
		for _, sample := range []string{"a", "b", "d"} {
			calls := filepath.Join(dir, sample+".vcf")
			require.NoError(t, os.WriteFile(calls, fmt.Appendf(nil, "##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\t%s\nref\t1000\t.\t%c\t%c\t30\tPASS\t.\tGT\t1/1\n", sample, p.reference[999], p.complement(999)), 0o600))
			args = append(args, calls)
		}
		require.NoError(t, runPore(t, args...))
		for _, sample := range []string{"a", "b", "d"} {
			all[sample] = marked(t, filepath.Join(out, sample+".vcf"))[1000]
		}
		return all
	}
	require.Equal(t, map[string]string{"a": "PASS contamination water 10 10", "b": "CarryOver contamination water 10 10", "d": "PASS"}, marks())
	require.Equal(t, map[string]string{"a": "PASS contamination water 10 10", "b": "CarryOver contamination water 10 10", "d": "PASS contamination water 10 10"}, marks("--one-run"))
}
