package network

import (
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/variant/network/networktest"
	"github.com/porestream/porestream/vrs"
	"github.com/porestream/porestream/watchlist"
	"github.com/porestream/porestream/watchlist/biomarker"
)

const library = "" // the usual places

// residues are those that the models ask for at each codon.
const residues = "AVTISNK"

// spec is a network of the given size with weights of values by chance.
func spec(size, numbers int) networktest.Spec {
	rng := rand.New(rand.NewPCG(7, uint64(size)))
	weights := make([]float32, size*numbers)
	for i := range weights {
		if i%size < size/2 { // the flags of known values don't matter
			weights[i] = float32(rng.NormFloat64())
		}
	}
	return networktest.Spec{Size: size, Scores: numbers, Weights: func(score, input int) float32 { return weights[score*size+input] }}
}

// folder is a model that uses the first codons of a gene.
func folder(t testing.TB, gene, protein string, codons int, onnx []byte) fstest.MapFS {
	t.Helper()
	var features strings.Builder
	for n := range codons {
		for _, residue := range residues {
			fmt.Fprintf(&features, "residue\t%s\t%d\t%c\n", gene, n+2, residue)
		}
	}
	sum := func(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }
	return fstest.MapFS{
		"n.onnx": {Data: onnx}, "f.tsv": {Data: []byte(features.String())},
		"manifest.toml": {Data: []byte(`format = 1
kind = "biomarker"
name = "chance"
version = "1"
data = "none"
licence = "none"
network = {file = "n.onnx", sha256 = "` + sum(onnx) + `", input = "examples", output = "scores"}
features = {file = "f.tsv", sha256 = "` + sum([]byte(features.String())) + `"}
encoding = {present_from = 0.2}
[[gene]]
name = "` + gene + `"
sequence = "` + protein + `"
[[output]]
name = "o"
calibration = [1.0, 0.0]
resistant = 0.5
susceptible = 0.5
genes = ["` + gene + `"]
`)},
	}
}

func TestNetworkComputesItsRows(t *testing.T) {
	m, err := biomarker.Load(folder(t, "g", strings.Repeat("X", 200), 50, spec(700, 1).ONNX(t)))
	require.NoError(t, err)
	n, err := Open(m, library, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close()) }()
	rng, weights := rand.New(rand.NewPCG(3, 4)), spec(700, 1).Weights
	rows := make([]float32, 37*700)
	for i := range rows {
		rows[i] = float32(rng.IntN(2))
	}
	together, err := n.Compute(37, rows)
	require.NoError(t, err)
	for i := range 37 {
		alone, err := n.Compute(1, rows[i*700:(i+1)*700])
		require.NoError(t, err)
		require.Equal(t, together[i:i+1], alone)
		sum := float32(0)
		for k, x := range rows[i*700 : (i+1)*700] {
			sum += x * weights(0, k)
		}
		require.InDelta(t, sum, alone[0], 1e-4)
	}
	_, err = n.Compute(2, rows[:700])
	require.ErrorContains(t, err, "700 values are not 2 rows of 700")
}

// TestNetworksThatDoNotFit: wrong shapes are reported in one line before anything runs.
func TestNetworksThatDoNotFit(t *testing.T) {
	for _, tt := range []struct {
		onnx []byte
		want string
	}{
		{spec(698, 1).ONNX(t), `axis 2 of input "examples" is 698, not 700`},
		{spec(700, 3).ONNX(t), `axis 2 of output "scores" is 3, not 1`},
		{[]byte("no network"), "chance: n.onnx: reading network chance: "},
		{spec(700, 1).ONNX(t)[:1000], "the file is damaged or cut off"},
		{networktest.Spec{Size: 700, Scores: 1, Bias: func(int) float32 { return float32(math.NaN()) }}.ONNX(t), "chance: n.onnx: the network gives NaN, which is no finite number"},
	} {
		m, err := biomarker.Load(folder(t, "g", strings.Repeat("X", 200), 50, tt.onnx))
		require.NoError(t, err)
		_, err = Open(m, library, nil)
		require.ErrorContains(t, err, tt.want)
		require.NotContains(t, err.Error(), "\n")
	}
}

// panel is a watch on lambda's gene cI with so many models, and on so many alleles all over the genome.
func panel(t testing.TB, models, alleles int) (*genome.Genome, *annotate.Annotator, *watchlist.Watch) {
	t.Helper()
	dir := filepath.Join("..", "..", "testdata", "lambda")
	g, err := genome.Load(filepath.Join(dir, "reference.fa"))
	require.NoError(t, err)
	model, err := annotate.LoadModel(filepath.Join(dir, "genes.gff3"), g)
	require.NoError(t, err)
	a := annotate.New(g, model)
	var protein []byte
	for _, v := range model.TranscriptsOn(g.Contigs[0].Name) {
		for n := 1; v.Gene.Symbol == "cI" && v.Residue(n) != 0 && v.Residue(n) != '*'; n++ {
			protein = append(protein, v.Residue(n))
		}
	}
	const codons = 100
	beside := t.TempDir()
	text := "panel: p\nversion: 1\nthresholds: {alpha: 1.0e-3}\nrules:\n"
	for i := range models {
		name := fmt.Sprintf("model-%d", i)
		require.NoError(t, os.CopyFS(filepath.Join(beside, name), folder(t, "cI", string(protein), codons, spec(2*codons*len(residues), 1).ONNX(t))))
		text += fmt.Sprintf("- {id: r%d, model: {folder: %s, output: o}}\n", i, name)
	}
	for i := range alleles {
		contig := g.Contigs[0]
		at := i * len(contig.Seq) / alleles
		text += fmt.Sprintf("- {id: a%d, match: {vcf: \"%s:%d:%c:%s\"}}\n", i, contig.Name, at+1, contig.Seq[at], transition[string(contig.Seq[at])])
	}
	path := filepath.Join(beside, "panel.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	p, err := watchlist.Load(path)
	require.NoError(t, err)
	w, err := watchlist.New(g, a, p)
	require.NoError(t, err)
	opened, err := Attach(w, library, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = opened.Close() })
	return g, a, w
}

// transition has for each base the one that replaces it.
var transition = map[string]string{"A": "G", "C": "T", "G": "A", "T": "C"}

// changeAt is an allele of cI that all reads show.
func changeAt(t testing.TB, g *genome.Genome, a *annotate.Annotator, pos int, revision uint64, reads uint32) *event.Variant {
	t.Helper()
	contig := g.Contigs[0]
	ref := string(contig.Seq[pos-1 : pos])
	alt := transition[ref]
	id, err := vrs.AlleleID(contig.Digest(), contig.Seq, pos-1, ref, alt)
	require.NoError(t, err)
	annotation, err := a.Annotate(contig.Name, pos, ref, alt)
	require.NoError(t, err)
	return &event.Variant{
		Run: "run", Sample: "s", Revision: revision, Status: "PROVISIONAL", Annotation: annotation,
		Allele: event.Allele{VRSID: id, Contig: contig.Name, Pos: int64(pos), Ref: ref, Alt: alt},
		Call:   event.Call{Qual: 40, Depth: reads, AltForward: reads / 2, AltReverse: reads - reads/2},
	}
}

// BenchmarkEventToAnswer is the cost of an event until the answers that follow from it are there: 96 samples with 20 changes each,
// a panel of 25 models of 700 residues, one core (-cpu 1). p99-ms is the greatest of all but a hundredth of the events, p99-cpu-ms the same of
// the processor time, which other programs of the machine don't add to. Once with these models alone, once with 10,000 alleles beside, and once with six codons that reads leave open, of
// which answers have to hold for each residue and for pairs.
func BenchmarkEventToAnswer(b *testing.B) {
	_, _, alone := panel(b, 1, 0)
	start := alone.Targets()[0].Start
	for _, with := range []struct{ alleles, open int }{{0, 0}, {10_000, 0}, {0, 6}} {
		b.Run(fmt.Sprintf("alleles=%d,open=%d", with.alleles, with.open), func(b *testing.B) { eventToAnswer(b, with.alleles, with.open, start) })
	}
}

func eventToAnswer(b *testing.B, alleles, open, start int) {
	g, a, w := panel(b, 25, alleles)
	const samples = 96
	trackers := make([]*watchlist.Tracker, samples)
	cover := func(t *watchlist.Tracker, depth int, revision uint64) {
		for _, target := range w.Targets() {
			end := target.End
			if target.Start == start {
				end -= 3 * open
			}
			blocks := []watchlist.DepthBlock{{Start: target.Start, End: end, Depth: depth}}
			if end < target.End {
				blocks = append(blocks, watchlist.DepthBlock{Start: end, End: target.End})
			}
			t.Coverage(watchlist.Coverage{Run: "run", Contig: target.Contig, Start: target.Start, End: target.End, Revision: revision, Blocks: blocks})
		}
	}
	for i := range trackers {
		trackers[i] = w.NewTracker(fmt.Sprint(i))
		cover(trackers[i], 60, 1)
		for k := range 20 {
			trackers[i].Variant(changeAt(b, g, a, start+10+7*k, 1, 40))
		}
		require.NoError(b, trackers[i].Err())
	}
	var taken, busy []time.Duration
	revision, alerts := uint64(1), 0
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%samples == 0 {
			revision++
		}
		v := changeAt(b, g, a, start+150+3*int(revision%40), revision, 20+20*uint32(revision%2))
		from, before := time.Now(), processorTime(b)
		alerts += len(trackers[i%samples].Variant(v))
		taken, busy = append(taken, time.Since(from)), append(busy, processorTime(b)-before)
	}
	slices.Sort(taken)
	slices.Sort(busy)
	b.ReportMetric(float64(busy[len(busy)*99/100].Microseconds())/1e3, "p99-cpu-ms")
	b.ReportMetric(float64(taken[len(taken)*99/100].Microseconds())/1e3, "p99-ms")
	b.ReportMetric(float64(alerts)/float64(len(taken)), "answers/op")
}

// processorTime is what the process has used of its processors.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
