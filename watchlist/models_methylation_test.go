package watchlist_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/modbase/panel"
	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/watchlist"
	"github.com/porestream/porestream/watchlist/biomarker"
)

// sparse is a classifier of methylation: two classes, by whether more sites are methylated or unmethylated. It keeps its last input.
type sparse struct {
	size  int
	asked int
	last  []float32
}

func (s *sparse) Compute(rows int, inputs []float32) ([]float32, error) {
	s.asked++
	s.last = append(s.last[:0], inputs[:s.size]...)
	var out []float32
	for r := range rows {
		sum := float32(0)
		for _, x := range inputs[r*s.size : (r+1)*s.size] {
			sum += x
		}
		out = append(out, sum, -sum)
	}
	return out, nil
}

// sparsePanel asks a model of the methylation of the CpGs of a region, and of one without reads.
func sparsePanel(t testing.TB, features string, change func(manifest string) string) string {
	t.Helper()
	dir := t.TempDir()
	folder := filepath.Join(dir, "tumour")
	require.NoError(t, os.Mkdir(folder, 0o700))
	sum := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
	manifest := `format = 1
kind = "biomarker"
name = "tumour"
version = "1"
data = "nothing"
licence = "none"
network = {file = "network.onnx", sha256 = "` + sum("a network") + `", input = "x", output = "y"}
features = {file = "features.tsv", sha256 = "` + sum(features) + `"}
encoding = {present_from = 0.2, signed = true}
[[output]]
name = "class"
calibration = [1.0, 0.0]
classes = ["methylated", "unmethylated"]
least = 0.9
genes = []
least_sites = 10
`
	if change != nil {
		manifest = change(manifest)
	}
	for name, text := range map[string]string{"network.onnx": "a network", "features.tsv": features, "manifest.toml": manifest} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	path := filepath.Join(dir, "panel.yaml")
	require.NoError(t, os.WriteFile(path, []byte("panel: p\nversion: 1\nrules:\n- {id: class, model: {folder: tumour, output: class}}\n"), 0o600))
	return path
}

// withSparse is a bench with a model of the CpGs of molecules, its sites as a list, and its network.
func withSparse(t testing.TB) (*bench, []panel.Site, *sparse) {
	t.Helper()
	plain := newBench(t, modelPanelOf(t))
	var features strings.Builder
	var sites []panel.Site
	for i, c := range append(newMolecules(plain, rand.New(rand.NewPCG(1, 1))).sites, 40_000) {
		fmt.Fprintf(&features, "methylation\tJ02459.1:%d-%d\n", c+1, c+2)
		sites = append(sites, panel.Site{Contig: "J02459.1", Start: c, End: c + 2, Name: fmt.Sprint("cg", i)})
	}
	b, n := newBench(t, sparsePanel(t, features.String(), nil)), &sparse{size: len(sites)}
	require.NoError(t, b.w.Attach(func(*biomarker.Model) (biomarker.Network, error) { return n, nil }))
	return b, sites, n
}

// modelPanelOf is a panel without models.
func modelPanelOf(t testing.TB) string {
	path := filepath.Join(t.TempDir(), "panel.yaml")
	require.NoError(t, os.WriteFile(path, []byte("panel: p\nversion: 1\nrules:\n- {id: allele, match: {vcf: \"J02459.1:37589:C:T\"}}\n"), 0o600))
	return path
}

// states are those of sites by the calls of molecules, as pore pileup --vector writes them: 1, 0 or a point.
func states(t testing.TB, m *molecules, sites []panel.Site) []float32 {
	v := panel.NewVector(sites)
	for key, n := range m.marks {
		row := &pileup.Row{Pos: key.Pos, Strand: pileup.Plus, Code: 'm', Modified: n[0], Canonical: n[1] - n[0]}
		if key.Reverse {
			row.Strand = pileup.Minus
		}
		v.Add("J02459.1", row)
	}
	var list []float32
	for line := range strings.Lines(string(v.Append(nil))) {
		list = append(list, map[string]float32{"1": 1, "0": -1, ".": 0}[strings.Split(line, "\t")[1]])
	}
	require.Len(t, list, len(sites))
	return list
}

// TestModelOfMethylation: a model's input is the states that pore pileup --vector has of the same calls, missing ones apart from unmethylated
// ones; it is answered while reads come and at the end, and wants as many sites as its manifest says.
func TestModelOfMethylation(t *testing.T) {
	b, sites, n := withSparse(t)
	require.Equal(t, "class", b.w.AsksMethylation())
	require.Equal(t, [][2]int{{40_000, 40_002}}, b.w.Asked("J02459.1", "m", 36_864, 40_960))
	resolved := b.w.Resolve()
	require.Len(t, resolved, 1)
	require.Equal(t, 2*len(sites), resolved[0].Positions)
	require.Equal(t, 1, resolved[0].DepthNeeded)
	require.Zero(t, resolved[0].FalseAlarm)
	rng := rand.New(rand.NewPCG(44, 2))
	m, tr := newMolecules(b, rng), b.w.NewTracker("s")
	tr.RunStart("run")
	var live []watchlist.Alert
	for i := range 30 {
		m.read(rng.IntN(8) > 0)
		for _, r := range m.revisions("run", uint64(i+1)) {
			live = append(live, tr.Methylation(r)...)
		}
	}
	require.NotEmpty(t, live)
	require.Equal(t, watchlist.Classified, live[0].State)
	require.Less(t, n.asked, 40, "it is asked again when calls have grown, not for each")
	final := tr.RunEnd("run")
	require.NoError(t, tr.Err())
	require.Len(t, final, 1)
	a := final[0]
	want := states(t, m, sites)
	require.Equal(t, want, n.last)
	require.Contains(t, want, float32(0))
	require.Contains(t, want, float32(1))
	require.Equal(t, "methylated", a.Model.Class)
	require.Equal(t, len(sites), a.Model.Regions)
	require.Positive(t, a.Model.RegionsKnown)
	require.Nil(t, a.Probability.FalseAlarm, "no bound covers states of methylation")
	require.Contains(t, a.Reason, fmt.Sprintf("by the methylation of %d of %d regions", a.Model.RegionsKnown, len(sites)))

	tr = b.w.NewTracker("none")
	none := tr.RunEnd("run")
	require.Equal(t, []string{"class model PENDING>NOT_CALLABLE final"}, briefs(none))
	require.Equal(t, fmt.Sprintf("the methylation of 0 of %d regions is known, and the likeliest class has a probability of 0.50", len(sites)), none[0].Reason)
	require.Equal(t, make([]float32, len(sites)), n.last)
}

// TestModelsOfMethylationEndAlike: whatever the order of revisions and wherever the state was kept and restored, the last answer is the same, and
// what is said on the way is what a tracker says that was never restored.
func TestModelsOfMethylationEndAlike(t *testing.T) {
	b, _, _ := withSparse(t)
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 44))
		m := newMolecules(b, rng)
		var all []watchlist.Methylation
		for i := range 12 {
			m.read(rng.IntN(4) > 0)
			all = append(all, m.revisions("run", uint64(i+1))...)
		}
		var want []watchlist.Alert
		for round := range 6 {
			if round > 0 {
				rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			}
			tr, whole := b.w.NewTracker("s"), b.w.NewTracker("s")
			for _, r := range all {
				if rng.IntN(3) == 0 {
					kept := stateOf(t, tr)
					tr = restored(t, b.w, kept)
					require.Equal(t, kept, stateOf(t, tr))
				}
				require.Equal(t, whole.Methylation(r), tr.Methylation(r))
			}
			got := tr.RunEnd("run")
			require.NoError(t, tr.Err())
			for i := range got {
				got[i].ID, got[i].Revision, got[i].Previous = "", 0, ""
			}
			if want == nil {
				want = got
			}
			require.Equal(t, want, got, "seed %d", seed)
		}
	}
}

// TestModelOfMethylationFaults: each is one line that names the panel.
func TestModelOfMethylationFaults(t *testing.T) {
	g, a := lambda(t)
	for _, tt := range []struct{ features, want string }{
		{"methylation\tchrX:1-2\n", `rule "class": model tumour: features.tsv: methylation chrX:1-2: contig "chrX" is not in the reference`},
		{"methylation\tJ02459.1:1-2\tchalk\n", `model tumour: features.tsv: methylation J02459.1:1-2: "chalk": want a letter`},
		{"methylation\tJ02459.1:9-2\n", "model tumour: features.tsv: methylation J02459.1:9-2"},
		{"methylation\tJ02459.1:9-2\tchalk\n", "model tumour: features.tsv: methylation J02459.1:9-2"},
		{"allele\tfoo:p.Ala1Thr\n", `model tumour: features.tsv: allele foo:p.Ala1Thr: transcript "foo" is not among the genes`},
		{"allele\tJ02459.1:g.37589G>A\n", `model tumour: features.tsv: allele J02459.1:g.37589G>A: `},
		{"methylation\tJ02459.1:48502-48503\n", "model tumour: features.tsv: methylation J02459.1:48502-48503: J02459.1:48502-48503 reaches outside of the contig"},
	} {
		p, err := watchlist.Load(sparsePanel(t, tt.features, nil))
		require.NoError(t, err)
		_, err = watchlist.New(g, a, p)
		require.ErrorContains(t, err, tt.want)
		require.NotContains(t, err.Error(), "\n")
	}
}
