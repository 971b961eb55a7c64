package simulation

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/simulate"
	"github.com/porestream/porestream/testenv"
	"github.com/porestream/porestream/vcf"
)

// world is a folder with a reference of two contigs, ref.fa, and a table of 3-mers,
// pore.tsv.
func world(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	rnd := rand.New(rand.NewPCG(1, 1))
	var b strings.Builder
	for _, name := range []string{"chrA", "chrB"} {
		b.WriteString(">" + name + "\n")
		for range 8000 {
			b.WriteByte("ACGT"[rnd.IntN(4)])
		}
		b.WriteString("\n")
	}
	write(t, filepath.Join(dir, "ref.fa"), b.String())
	b.Reset()
	b.WriteString("# porestream-pore-model: 1\nkmer\tmean\tspread\tnoise\tdwell_mean\tdwell_sd\n")
	for i := range 64 {
		fmt.Fprintf(&b, "%c%c%c\t%d\t0.1\t0.1\t9\t6\n", "ACGT"[i>>4], "ACGT"[i>>2&3], "ACGT"[i&3], i%5-2)
	}
	write(t, filepath.Join(dir, "pore.tsv"), b.String())
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// sequencer is one with settings as from a command line.
func sequencer(t *testing.T, args ...string) *Sequencer {
	t.Helper()
	s := new(Sequencer)
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.Register(flags)
	require.NoError(t, flags.Parse(args))
	return s
}

func in(dir string, args ...string) []string {
	return append([]string{"--ref", dir + "/ref.fa", "--pore-model", dir + "/pore.tsv", "--length", "1500", "--depth", "6", "--channels", "20"}, args...)
}

// simulated writes a run to a folder.
func simulated(t *testing.T, dir string, workers int, args ...string) *Simulated {
	t.Helper()
	run, err := sequencer(t, args...).Plan(t.Context(), "")
	require.NoError(t, err)
	require.NoError(t, run.WriteTruth(dir))
	require.NoError(t, run.WritePOD5(t.Context(), filepath.Join(dir, ReadsName), "test", workers, nil))
	return run
}

// The same seed makes the same bytes, by any number of workers, and another seed
// others.
func TestSameSeedSameBytes(t *testing.T) {
	dir := world(t)
	args := in(dir, "--variants", "snp=10,indel=5", "--ploidy", "2", "--seed", "7")
	simulated(t, dir+"/one", 1, args...)
	simulated(t, dir+"/two", 3, args...)
	simulated(t, dir+"/three", 2, append(args, "--seed", "8")...)
	for _, name := range []string{ReadsName, TruthName, TableName} {
		read := func(folder string) []byte {
			b, err := os.ReadFile(filepath.Join(dir, folder, name))
			require.NoError(t, err)
			return b
		}
		require.True(t, bytes.Equal(read("one"), read("two")), name)
		require.False(t, bytes.Equal(read("one"), read("three")), name)
	}
	left, err := filepath.Glob(dir + "/one/.*.tmp")
	require.NoError(t, err)
	require.Empty(t, left)
}

// What is in the file is the run, as our reader sees it, and the table says where it is
// from.
func TestFileIsTheRun(t *testing.T) {
	dir := world(t)
	run := simulated(t, dir, 2, in(dir, "--blocks", "0.2", "--pore-life", "10m")...)
	x, err := signal.NewIndex(t.Context(), []string{filepath.Join(dir, ReadsName)})
	require.NoError(t, err)
	defer x.Close()
	require.Equal(t, run.Len(), x.Len())
	require.Equal(t, "r9.4", x.Runs()[0].Chemistry())
	byID := make(map[string]int)
	for i := range x.Len() {
		byID[x.Entry(i).ID] = i
	}
	table, err := os.ReadFile(filepath.Join(dir, TableName))
	require.NoError(t, err)
	rows := strings.Split(strings.TrimSpace(string(table)), "\n")[1:]
	require.Len(t, rows, run.Len())
	for i := range run.Len() {
		want := run.Entry(i)
		at := byID[want.ID]
		got := x.Entry(at)
		require.Equal(t, want.Run.ID, got.Run.ID)
		got.Run = want.Run
		require.Equal(t, want, got)
		made, err := run.Samples(i, nil)
		require.NoError(t, err)
		kept, err := x.Samples(at, nil)
		require.NoError(t, err)
		require.Equal(t, made, kept)
		o := run.Origin(i)
		require.True(t, strings.HasPrefix(rows[i], fmt.Sprintf("%s\t%s\t%d\t%d\t", want.ID, o.Contig, o.Start, o.End)), rows[i])
	}
}

// ONT's own package reads the file, and sees the same samples.
func TestOfficialPackageReadsIt(t *testing.T) {
	python := testenv.Python(t, "PORESTREAM_SIGNAL_PYTHON", "pod5", "pod5")
	dir := world(t)
	run := simulated(t, dir, 2, in(dir)...)
	const script = `
import sys, pod5
with pod5.Reader(sys.argv[1]) as reader:
    for read in reader.reads():
        print(read.read_id, read.pore.channel, read.pore.well, read.start_sample, read.end_reason.name, len(read.signal), int(read.signal.astype(int).sum()), read.run_info.sample_rate)
`
	out, err := exec.CommandContext(t.Context(), python, "-c", script, filepath.Join(dir, ReadsName)).CombinedOutput()
	require.NoError(t, err, "%s", out)
	var want strings.Builder
	for i := range run.Len() {
		e := run.Entry(i)
		samples, err := run.Samples(i, nil)
		require.NoError(t, err)
		sum := 0
		for _, v := range samples {
			sum += int(v)
		}
		fmt.Fprintf(&want, "%s %d %d %d %s %d %d 4000\n", e.ID, e.Channel, e.Well, e.StartSample, e.EndReason, len(samples), sum)
	}
	require.Equal(t, want.String(), string(out))
}

func readSites(t *testing.T, dir, name string) []simulate.Site {
	t.Helper()
	g, err := genome.Load(dir + "/ref.fa")
	require.NoError(t, err)
	sites, err := SitesOf(filepath.Join(dir, name), func(r *vcf.Reader) ([]simulate.Site, error) { return simulate.FromVCF(r, g, 2, 1) })
	require.NoError(t, err)
	return sites
}

// What was planted is what --vcf plants again.
func TestTruthIsAnInput(t *testing.T) {
	dir := world(t)
	simulated(t, dir, 1, in(dir, "--variants", "snp=20,indel=10", "--ploidy", "2")...)
	require.Len(t, readSites(t, dir, TruthName), 30)
	simulated(t, dir+"/again", 1, in(dir, "--vcf", filepath.Join(dir, TruthName))...)
	require.Equal(t, readSites(t, dir, TruthName), readSites(t, dir, "again/"+TruthName), "ploidy is that of the genotypes")
}

// Allele fractions are those of the haplotypes that molecules are of.
func TestAlleleFractions(t *testing.T) {
	dir := world(t)
	g, err := genome.Load(dir + "/ref.fa")
	require.NoError(t, err)
	seq := g.Contigs[0].Seq
	other := func(at int) string { return string("CATG"[strings.IndexByte("ACGT", seq[at])]) }
	write(t, dir+"/af.vcf", fmt.Sprintf("##fileformat=VCFv4.3\n##INFO=<ID=AF,Number=A,Type=Float,Description=\"x\">\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n"+
		"chrA\t2001\t.\t%c\t%s\t.\t.\tAF=0.25\nchrA\t5001\t.\t%c\t%s\t.\t.\t.\n", seq[2000], other(2000), seq[5000], other(5000)))
	s := sequencer(t, in(dir, "--vcf", dir+"/af.vcf", "--fractions", "20", "--depth", "150")...)
	run, err := s.Plan(t.Context(), "")
	require.NoError(t, err)
	sites := run.truths[0].sites
	require.Len(t, sites, 2)
	carried, covered := [2]int{}, [2]int{}
	for i := range run.Len() {
		o := run.Origin(i)
		for k, site := range sites {
			if o.Contig == site.Contig && o.Start <= site.Start && site.Start < o.End {
				covered[k]++
				carried[k] += int(site.Genotype[o.Haplotype-1])
			}
		}
	}
	require.InDelta(t, 0.25, float64(carried[0])/float64(covered[0]), 0.12)
	require.Equal(t, covered[1], carried[1])
	require.NoError(t, run.WriteTruth(dir+"/truth"))
	text, err := os.ReadFile(dir + "/truth/" + TruthName)
	require.NoError(t, err)
	require.Contains(t, string(text), "AF=0.25")
}

// A mixture has the samples by their shares, each with its barcode and variants.
func TestMixture(t *testing.T) {
	dir := world(t)
	simulated(t, dir, 1, in(dir, "--variants", "snp=5,indel=0")...)
	write(t, dir+"/mix.tsv", "# two\nsample\tshare\tbarcode\tvcf\nA\t1\tbarcode01\ttruth.vcf\nB\t3\tbarcode07\t\n")
	run := simulated(t, dir+"/mix", 2, in(dir, "--mixture", dir+"/mix.tsv", "--kit-name", "SQK-RBK004", "--depth", "50")...)
	bases := make(map[string]int)
	for i := range run.Len() {
		o := run.Origin(i)
		bases[o.Sample+" "+o.Barcode] += o.Bases
	}
	require.Len(t, bases, 2)
	require.InDelta(t, 0.25, float64(bases["A barcode01"])/float64(run.Bases()), 0.05)
	require.Equal(t, "SQK-RBK004", run.Runs()[0].Kit)
	require.NotEmpty(t, readSites(t, dir, "mix/truth.A.vcf"))
	require.Empty(t, readSites(t, dir, "mix/truth.B.vcf"))
}

func TestMixtureRefuses(t *testing.T) {
	for want, text := range map[string]string{
		"lists no sample":             "",
		`column "colour"`:             "sample\tcolour\n",
		"columns sample and share":    "sample\n",
		"line 2: 1 fields under 2":    "sample\tshare\nA\n",
		`line 2: share "0"`:           "sample\tshare\nA\t0\n",
		`line 2: sample "../x"`:       "sample\tshare\n../x\t1\n",
		"line 3: a second sample A":   "sample\tshare\nA\t1\nA\t1\n",
		`line 2: ploidy "3": want 1`:  "sample\tshare\tploidy\nA\t1\t3\n",
		`line 1: column "sample": wa`: "sample\tsample\n",
	} {
		_, err := readMixture(strings.NewReader(text), mixed{})
		require.ErrorContains(t, err, want)
	}
}

func TestPlanRefuses(t *testing.T) {
	dir := world(t)
	for want, args := range map[string][]string{
		"--ref is required":                     {},
		"want one of r9.4, r10.4.1, r10.4.1-4k": in(dir, "--chemistry", "r10.4.1-6khz"),
		"is a table of r9.4":                    in(dir, "--chemistry", "r10.4.1"),
		"--chemistry r11":                       in(dir, "--chemistry", "r11"),
		"--vcf and --variants exclude":          in(dir, "--vcf", "x", "--variants", "human"),
		"a depth of 0":                          in(dir, "--depth", "0"),
		"--start \"today\" is no time":          in(dir, "--start", "today"),
		"noise of -1":                           in(dir, "--noise", "-1"),
		"0 channels":                            in(dir, "--channels", "0"),
		"every sample needs a barcode":          in(dir, "--kit-name", "SQK-RBK004"),
		"has no barcode99":                      in(dir, "--kit-name", "SQK-RBK004", "--barcode", "barcode99"),
		"--barcode needs --kit-name":            in(dir, "--barcode", "barcode01"),
		"--fractions is of the allele":          in(dir, "--fractions", "10"),
		"--ploidy 3":                            in(dir, "--ploidy", "3"),
		"--ploidy -1":                           in(dir, "--ploidy", "-1"),
		"nowhere.vcf: no such file":             in(dir, "--vcf", dir+"/nowhere.vcf"),
		"ref.fa: line 1: not a table of k-mers": in(dir, "--pore-model", dir+"/ref.fa"),
	} {
		t.Run(want, func(t *testing.T) {
			_, err := sequencer(t, args...).Plan(t.Context(), "")
			require.ErrorContains(t, err, want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

// R10.4.1 is simulated by name at both rates, and runs say what flow cell and kit they
// are of.
func TestChemistries(t *testing.T) {
	dir := world(t)
	for _, c := range []struct {
		chemistry, channels, product, sequencer string
		rate                                    int
		scale                                   float64
	}{
		{"r10.4.1-4khz", "20", "FLO-MIN114", "MinION", 4000, 0.1755},
		{"r10.4.1-5khz", "20", "FLO-MIN114", "MinION", 5000, 0.1755},
		{"r10.4.1-4khz", "3000", "FLO-PRO114M", "PromethION", 4000, 0.1462},
		{"r10.4.1", "3000", "FLO-PRO114M", "PromethION", 5000, 0.18707},
	} {
		args := []string{"--ref", dir + "/ref.fa", "--length", "1500", "--depth", "2", "--chemistry", c.chemistry, "--channels", c.channels}
		run := simulated(t, t.TempDir(), 2, args...)
		about := run.Runs()[0]
		require.Equal(t, "r10.4.1", about.Chemistry())
		require.Equal(t, c.rate, about.SampleRate)
		require.Equal(t, c.product, about.FlowCellProduct)
		require.Equal(t, c.sequencer, about.SequencerType)
		require.Equal(t, "SQK-LSK114", about.Kit)
		require.Equal(t, "sqk-lsk114", about.Context["sequencing_kit"])
		require.InDelta(t, c.scale, run.Entry(0).Calibration.Scale, 1e-6)
		// The current is within the converter's range, and of the right size.
		samples, err := run.Samples(0, nil)
		require.NoError(t, err)
		within, sum := 0, 0.0
		for _, v := range samples {
			sum += float64(run.Entry(0).Calibration.Picoamperes(v))
			if int(v) > about.ADCMin && int(v) < about.ADCMax {
				within++
			}
		}
		require.Greater(t, within, len(samples)*999/1000)
		require.InDelta(t, 95, sum/float64(len(samples)), 35)
	}
}

// R9.4 is what it was before there were profiles: the same seed makes the same run.
func TestR94StaysAsItWas(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("processors with fused multiplication round otherwise")
	}
	dir := world(t)
	run := simulated(t, dir, 2, "--ref", dir+"/ref.fa", "--variants", "snp=5,indel=2", "--length", "1500", "--depth", "2", "--channels", "20", "--seed", "3", "--blocks", "0.1")
	table, err := os.ReadFile(filepath.Join(dir, TableName))
	require.NoError(t, err)
	h := sha256.New()
	h.Write(table)
	for i := range run.Len() {
		samples, err := run.Samples(i, nil)
		require.NoError(t, err)
		require.NoError(t, binary.Write(h, binary.LittleEndian, samples))
	}
	require.Equal(t, "c6d79a5a0a6a3af6", hex.EncodeToString(h.Sum(nil)[:8]))
}

// A table that somebody gives has the chemistry's profile if it says nothing but levels.
func TestTablesUnderAProfile(t *testing.T) {
	dir := world(t)
	var b strings.Builder
	for i := range 1 << 18 {
		for j := 8; j >= 0; j-- {
			b.WriteByte("ACGT"[i>>(2*j)&3])
		}
		fmt.Fprintf(&b, "\t%.2f\n", float64(i*7919%1000)/500-1)
	}
	write(t, dir+"/9mer.txt", b.String())
	plan := func(args ...string) (*Simulated, error) {
		return sequencer(t, append([]string{"--ref", dir + "/ref.fa", "--length", "1500", "--depth", "1", "--channels", "10"}, args...)...).Plan(t.Context(), "")
	}
	slow, err := plan("--pore-model", dir+"/9mer.txt", "--chemistry", "r10.4.1-4khz")
	require.NoError(t, err)
	require.Equal(t, 4000, slow.Runs()[0].SampleRate)
	fast, err := plan("--pore-model", dir+"/9mer.txt")
	require.NoError(t, err)
	require.Equal(t, 5000, fast.Runs()[0].SampleRate)
	require.NotEqual(t, slow.Runs()[0].ID, fast.Runs()[0].ID)
	write(t, dir+"/own.tsv", strings.Replace(readText(t, dir+"/pore.tsv"), "\nkmer", "\n# chemistry: r10.4.1\nkmer", 1))
	_, err = plan("--pore-model", dir+"/own.tsv", "--chemistry", "r10.4.1-4khz")
	require.ErrorContains(t, err, "brings times and noise of its own")
	own, err := plan("--pore-model", dir+"/own.tsv", "--chemistry", "r10.4.1")
	require.NoError(t, err)
	require.Equal(t, 4000, own.Runs()[0].SampleRate)
}

func readText(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

// A run that is broken off leaves nothing.
func TestBrokenOff(t *testing.T) {
	dir := world(t)
	run, err := sequencer(t, in(dir)...).Plan(t.Context(), "")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, run.WritePOD5(ctx, dir+"/out/"+ReadsName, "test", 2, nil), context.Canceled)
	left, err := os.ReadDir(dir + "/out")
	require.NoError(t, err)
	require.Empty(t, left)
}
