package watchlist_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/watchlist"
	"github.com/porestream/porestream/watchlist/biomarker"
)

// linear is a network of one layer: a logit for each row of weights, over values and then the flags of the known
// ones.
type linear [][]float32

func (l linear) Compute(rows int, inputs []float32) ([]float32, error) {
	size := len(inputs) / rows
	var out []float32
	for r := range rows {
		for _, weights := range l {
			sum := weights[size]
			for i, x := range inputs[r*size : (r+1)*size] {
				sum += weights[i] * x
			}
			out = append(out, sum)
		}
	}
	return out, nil
}

// cI is the protein of lambda's repressor.
func cI(t testing.TB, g *genome.Genome, a *annotate.Annotator) string {
	t.Helper()
	for _, v := range a.Model().TranscriptsOn(g.Contigs[0].Name) {
		if v.Gene.Symbol != "cI" {
			continue
		}
		var protein []byte
		for n := 1; v.Residue(n) != 0 && v.Residue(n) != '*'; n++ {
			protein = append(protein, v.Residue(n))
		}
		return string(protein)
	}
	t.Fatal("no cI")
	return ""
}

const modelFeatures = "residue\tcI\t118\tK\nresidue\tcI\t67\tT\nresidue\tcI\t67\tV\nscore\tdrug\nunseen\tdrug\ncovered\tcI\n"

const modelScores = "drug\tcI:118K\t60\ndrug\tcI:67T\t10\ndrug\tcI:67V\t15\ndrug\tcI:118K+cI:67TV\t5\n"

// modelNetwork has a logit for the drug, and three for classes.
func modelNetwork() linear {
	return linear{
		{3, 0.5, 1, 0.05, 0.01, 0, 0, 0, 0, 0, 0, 0, -3},
		{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, {4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, {0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
	}
}

// modelPanel writes a panel that asks a model, and the model; change changes its manifest, and so the files beside
// it.
func modelPanel(t testing.TB, sequence string, change func(manifest string) string) string {
	t.Helper()
	dir := t.TempDir()
	folder := filepath.Join(dir, "model")
	require.NoError(t, os.Mkdir(folder, 0o700))
	sums := map[string]string{}
	for name, text := range map[string]string{"network.onnx": "a network", "features.tsv": modelFeatures, "scores.tsv": modelScores} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
		sums[name] = fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
	}
	manifest := `format = 1
kind = "biomarker"
name = "toy"
version = "1"
data = "nothing"
licence = "none"
network = {file = "network.onnx", sha256 = "` + sums["network.onnx"] + `", input = "x", output = "y"}
features = {file = "features.tsv", sha256 = "` + sums["features.tsv"] + `"}
scores = {file = "scores.tsv", sha256 = "` + sums["scores.tsv"] + `"}
encoding = {present_from = 0.2}
[[gene]]
name = "cI"
sequence = "` + sequence + `"
[[output]]
name = "drug"
calibration = [1.0, 0.0]
resistant = 0.6
susceptible = 0.4
genes = ["cI"]
decisive = ["cI:118"]
[[output]]
name = "lineage"
calibration = [1.0, 0.0]
classes = ["wild", "one", "two"]
least = 0.5
genes = ["cI"]
max_missing = 0.0
`
	if change != nil {
		manifest = change(manifest)
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, "manifest.toml"), []byte(manifest), 0o600))
	path := filepath.Join(dir, "panel.yaml")
	require.NoError(t, os.WriteFile(path, []byte(`panel: p
version: 1
rules:
- {id: drug, label: a drug, model: {folder: model, output: drug}}
- {id: lineage, model: {folder: model, output: lineage}}
- {id: E118K, match: {hgvs: "cI:p.Glu118Lys"}}
`), 0o600))
	return path
}

// withModel is a bench whose panel asks a model.
func withModel(t testing.TB) *bench {
	t.Helper()
	g, a := lambda(t)
	b := newBench(t, modelPanel(t, cI(t, g, a), nil))
	require.Len(t, b.w.Models(), 1)
	require.NoError(t, b.w.Attach(func(*biomarker.Model) (biomarker.Network, error) { return modelNetwork(), nil }))
	return b
}

// named are the alerts of a rule.
func named(alerts []watchlist.Alert, rule string) []watchlist.Alert {
	return slices.DeleteFunc(slices.Clone(alerts), func(a watchlist.Alert) bool { return a.Rule != rule })
}

func TestModelRule(t *testing.T) {
	b := withModel(t)
	tr := b.w.NewTracker("lambda")

	// Where nothing is covered nothing is said.
	require.Empty(t, named(tr.Variant(b.allele(t, 37589, "C", "T", 3, 4)), "drug"))

	// A detected change is known at the depth of its own reads, if the codon has that depth.
	alerts := b.coverAll(tr, 10, 1)
	require.Empty(t, named(alerts, "drug"))
	alerts = tr.Variant(revised(b.allele(t, 37589, "C", "T", 0, 0), "PROVISIONAL", 60, 22, 22))
	drug := named(alerts, "drug")
	require.Equal(t, []string{"drug model PENDING>RESISTANT"}, briefs(drug))
	require.Equal(t, "RESISTANT", drug[0].Model.Class)
	// 3 for the residue and 60 points at 0.05, less 3; codon 67 isn't covered and could add 15 points at 0.01.
	require.InDelta(t, 0.9589, drug[0].Model.Probability, 1e-4)
	require.Equal(t, []watchlist.Driver{{Feature: "cI:E118K", Effect: 0.904}}, drug[0].Model.Drivers)
	require.Equal(t, 2, drug[0].Model.Codons)
	require.Equal(t, 1, drug[0].Model.CodonsKnown)
	require.InDelta(t, 1e-4, *drug[0].Probability.FalseAlarm, 0)
	require.Empty(t, named(alerts, "lineage"))

	// The run ends: the codon that isn't covered keeps the class from being given.
	final := tr.RunEnd("run")
	require.NoError(t, tr.Err())
	require.Equal(t, []string{"drug model RESISTANT>RESISTANT final"}, briefs(named(final, "drug")))
	require.Equal(t, []string{"lineage model PENDING>NOT_CALLABLE final"}, briefs(named(final, "lineage")))
	require.Equal(t, "1 of 2 codons are not covered", named(final, "lineage")[0].Reason)
	require.Equal(t, []string{"E118K protein DETECTED>DETECTED final"}, briefs(named(final, "E118K")))
}

// TestModelAndCarryOver: a change that carry-over explains isn't known to a model, and the answer says why.
func TestModelAndCarryOver(t *testing.T) {
	b := withModel(t)
	tr := b.w.NewTracker("lambda")
	v := b.allele(t, 37589, "C", "T", 22, 22)
	v.Call.Qual = 60
	b.coverAll(tr, 40, 1)
	require.Equal(t, []string{"drug model SUSCEPTIBLE>RESISTANT"}, briefs(named(tr.Variant(v), "drug")))
	share := 0.9
	v = revised(v, "FINAL", 60, 22, 22)
	v.Call.Filters, v.Call.CarryOver = []string{"CarryOver"}, &event.CarryOver{Explained: true, Share: &share, Basis: "contamination", Control: "water", ControlAlt: 2, ControlDepth: 3}
	tr.Variant(v)
	drug := named(tr.RunEnd("run"), "drug")
	require.NoError(t, tr.Err())
	require.Equal(t, watchlist.NotCallable, drug[len(drug)-1].State)
	require.Equal(t, v.Call.CarryOver, drug[0].CarryOver)
	require.Equal(t, "not covered: cI:118; carry-over explains J02459.1:37589 C>T: at most 90 % of its reads are carry-over, by what the controls show (control water: 2 of 3 reads)", drug[0].Reason)
}

func TestModelRuleWithoutTheChange(t *testing.T) {
	b := withModel(t)
	tr := b.w.NewTracker("lambda")
	alerts := b.coverAll(tr, 60, 1)
	require.Equal(t, []string{"drug model PENDING>SUSCEPTIBLE"}, briefs(named(alerts, "drug")))
	require.Equal(t, []string{"lineage model PENDING>CLASSIFIED"}, briefs(named(alerts, "lineage")))
	require.Equal(t, "wild", named(alerts, "lineage")[0].Model.Class)
	require.Len(t, named(alerts, "lineage")[0].Model.Classes, 3)
	require.Greater(t, *named(alerts, "drug")[0].Probability.Miss, 0.0)

	// Without the decisive codon nothing is said, and the answer names it.
	tr = b.w.NewTracker("lambda")
	for _, target := range b.w.Targets() {
		if target.Start != 37586 && target.Start != 37587 {
			tr.Coverage(b.covered(target.Start, target.End, 60, 1))
		}
	}
	drug := named(tr.RunEnd("run"), "drug")
	require.Equal(t, []string{"drug model PENDING>NOT_CALLABLE final"}, briefs(drug))
	require.Equal(t, []string{"cI:118"}, drug[0].Model.Missing)
	require.Equal(t, "not covered: cI:118", drug[0].Reason)
	require.Empty(t, drug[0].Model.Class)
}

// TestTwoChangesOfOneCodon: codon 67 of cI is GCA on the minus strand, TGC at 37740 of the contig.
func TestTwoChangesOfOneCodon(t *testing.T) {
	b := withModel(t)
	seq := b.g.Contigs[0].Seq
	require.Equal(t, "TGC", strings.ToUpper(string(seq[37739:37742])))
	for _, tt := range []struct {
		name    string
		changes []string // position, REF, ALT, reads of 40
		class   string
		drivers []string
	}{
		{"one base, Ala to Thr", []string{"37742 C T 40"}, "two", []string{"cI:A67T"}},
		{"one base, Ala to Val", []string{"37741 G A 40"}, "wild", nil},
		{"both, Ala to Ile, which no feature is", []string{"37742 C T 40", "37741 G A 40"}, "wild", nil},
		{"a silent one beside", []string{"37742 C T 40", "37740 T G 38"}, "two", []string{"cI:A67T"}},
		{"a part of the molecules", []string{"37742 C T 26"}, "two", []string{"cI:A67T"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := b.w.NewTracker("s")
			b.coverAll(tr, 60, 1)
			for _, text := range tt.changes {
				var pos int
				var ref, alt string
				var reads uint32
				_, err := fmt.Sscan(text, &pos, &ref, &alt, &reads)
				require.NoError(t, err)
				tr.Variant(revised(b.allele(t, pos, ref, alt, 0, 0), "PROVISIONAL", 90, reads, 40))
			}
			last := named(tr.RunEnd("run"), "lineage")
			require.Len(t, last, 1)
			require.Equal(t, tt.class, last[0].Model.Class, last[0].Reason)
			var drivers []string
			for _, d := range last[0].Model.Drivers {
				drivers = append(drivers, d.Feature)
			}
			require.Equal(t, tt.drivers, drivers)
		})
	}
}

// TestIndelAtACodonOfAModel: what the lengths of codon 118 of cI, 37587 to 37589, become isn't known to the model, also where bases are put in before its first base on the reference.
func TestIndelAtACodonOfAModel(t *testing.T) {
	b := withModel(t)
	seq := strings.ToUpper(string(b.g.Contigs[0].Seq))
	at := func(pos int) string { return seq[pos-1 : pos] }
	codon := func(pos int) string { // put in behind pos, it can't be moved
		other := map[string]string{"A": "C", "C": "G", "G": "T", "T": "A"}
		return other[at(pos+1)] + "A" + other[at(pos)]
	}
	for _, tt := range []struct {
		name, ref, alt string
		pos            int
		class          string
	}{
		{"the codon is lost", seq[37585:37589], at(37586), 37586, ""},
		{"a base of it is lost", seq[37586:37588], at(37587), 37587, ""},
		{"a codon more within", at(37587), at(37587) + codon(37587), 37587, ""},
		{"a codon more before its first base", at(37586), at(37586) + codon(37586), 37586, ""},
		{"a codon more behind its last base", at(37589), at(37589) + codon(37589), 37589, "SUSCEPTIBLE"},
		{"a codon more far from it", at(37580), at(37580) + codon(37580), 37580, "SUSCEPTIBLE"},
	} {
		tr := b.w.NewTracker("s")
		b.coverAll(tr, 60, 1)
		tr.Variant(revised(b.allele(t, tt.pos, tt.ref, tt.alt, 0, 0), "PROVISIONAL", 90, 38, 40))
		drug := named(tr.RunEnd("run"), "drug")
		require.NoError(t, tr.Err())
		require.Len(t, drug, 1, tt.name)
		require.Equal(t, tt.class, drug[0].Model.Class, "%s: %s", tt.name, drug[0].Reason)
		if tt.class == "" {
			require.Equal(t, watchlist.NotCallable, drug[0].State, tt.name)
			require.Equal(t, "with an insertion or a deletion that the model doesn't know: cI:118", drug[0].Reason, tt.name)
			require.Equal(t, []string{"cI:118"}, drug[0].Model.Missing)
		}
	}
}

// TestAShareNearWhatTheModelAsksFor: the model takes changes of a fifth of the sample for present. One that a fifth of the molecules have counts so though fewer of
// the reads happen to show it; only where reads exclude a fifth it is absent.
func TestAShareNearWhatTheModelAsksFor(t *testing.T) {
	g, a := lambda(t)
	path := modelPanel(t, cI(t, g, a), nil)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	mixture := "version: 1\nthresholds: {allele_fraction: 0.2, min_fraction: 0.05, error_rate: 0.01, alpha: 0.001, beta: 0.02}\n"
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(text), "version: 1\n", mixture, 1)), 0o600))
	b := newBench(t, path)
	require.NoError(t, b.w.Attach(func(*biomarker.Model) (biomarker.Network, error) { return modelNetwork(), nil }))
	for _, tt := range []struct {
		reads uint32 // of 120
		want  watchlist.State
	}{{30, watchlist.Resistant}, {24, watchlist.Resistant}, {20, watchlist.Resistant}, {15, watchlist.Resistant}, {14, watchlist.Susceptible}, {12, watchlist.Susceptible}, {0, watchlist.Susceptible}} {
		tr := b.w.NewTracker("s")
		b.coverAll(tr, 120, 1)
		if tt.reads > 0 {
			tr.Variant(revised(b.allele(t, 37589, "C", "T", 0, 0), "PROVISIONAL", 60, tt.reads, 120))
		}
		final := tr.RunEnd("run")
		require.NoError(t, tr.Err())
		drug := named(final, "drug")
		require.Equal(t, tt.want, drug[len(drug)-1].State, "%d reads: %s", tt.reads, drug[len(drug)-1].Reason)
		if tt.reads >= 12 { // by the reads alone it is there, whatever the model takes that for
			require.Equal(t, []string{"E118K protein DETECTED>DETECTED final"}, briefs(named(final, "E118K")))
		}
	}
	// P(15 or fewer of 120 at a fifth) is 0.021, that of 14 or fewer 0.011: what is at most beta is excluded.

	// Two alleles that give the codon (GAG, on the minus strand CTC) the same residue: a fifth of the reads isn't excluded of both together.
	for _, tt := range []struct {
		one, both uint32 // of 600
		want      watchlist.State
	}{{55, 54, watchlist.Resistant}, {50, 47, watchlist.Susceptible}, {97, 0, watchlist.Susceptible}} {
		for _, first := range []bool{true, false} {
			tr := b.w.NewTracker("s")
			b.coverAll(tr, 600, 1)
			events := []*event.Variant{
				revised(b.allele(t, 37589, "C", "T", 0, 0), "PROVISIONAL", 60, tt.one, 600),
				revised(b.allele(t, 37587, "CTC", "TTT", 0, 0), "PROVISIONAL", 60, tt.both, 600),
			}
			if !first {
				slices.Reverse(events)
			}
			for _, v := range events {
				if v.Call.AltForward+v.Call.AltReverse > 0 {
					tr.Variant(v)
				}
			}
			final := tr.RunEnd("run")
			require.NoError(t, tr.Err())
			drug := named(final, "drug")
			require.Equal(t, tt.want, drug[len(drug)-1].State, "%d and %d reads: %s", tt.one, tt.both, drug[len(drug)-1].Reason)
		}
	}
}

// TestModelsEndAlike: whatever the order of the evidence, and wherever the state was kept and restored, the last answers are the same.
func TestModelsEndAlike(t *testing.T) {
	b := withModel(t)
	rng := rand.New(rand.NewPCG(46, 1))
	type observation func(*watchlist.Tracker) []watchlist.Alert
	for range 15 {
		var all []observation
		reads := uint32(10 + rng.IntN(40))
		for _, v := range [][3]any{{37589, "C", "T"}, {37742, "C", "T"}, {37741, "G", "A"}} {
			if rng.IntN(3) == 0 {
				continue
			}
			first := b.allele(t, v[0].(int), v[1].(string), v[2].(string), reads/2, reads/2)
			last := revised(first, []string{"FINAL", "RETRACTED"}[rng.IntN(2)], 50, reads*uint32(1+rng.IntN(4))/4, reads)
			all = append(all, func(tr *watchlist.Tracker) []watchlist.Alert { return tr.Variant(first) }, func(tr *watchlist.Tracker) []watchlist.Alert { return tr.Variant(last) })
		}
		for _, target := range b.w.Targets() {
			for revision, depth := range []int{rng.IntN(40), 10 + rng.IntN(50)} {
				c := b.covered(target.Start, target.End, depth, uint64(revision+1))
				all = append(all, func(tr *watchlist.Tracker) []watchlist.Alert { return tr.Coverage(c) })
			}
		}
		var want string
		for range 8 {
			rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			tr := b.w.NewTracker("s")
			for _, o := range all {
				o(tr)
				if rng.IntN(4) == 0 {
					tr = restored(t, b.w, stateOf(t, tr))
				}
			}
			var got strings.Builder
			for _, a := range tr.RunEnd("run") {
				a.ID, a.Revision, a.Previous = "", 0, ""
				doc, err := a.JSON()
				require.NoError(t, err)
				got.Write(doc)
			}
			require.NoError(t, tr.Err())
			if want == "" {
				want = got.String()
			}
			require.Equal(t, want, got.String())
		}
		require.Contains(t, want, `"rule":"drug"`)
	}
}

// TestRestoredModelsGoOn: a restored tracker gives the same answers as the one that wrote the state.
func TestRestoredModelsGoOn(t *testing.T) {
	b := withModel(t)
	tr := b.w.NewTracker("s")
	b.coverAll(tr, 60, 1)
	tr.Variant(revised(b.allele(t, 37589, "C", "T", 0, 0), "PROVISIONAL", 60, 30, 40))
	again := restored(t, b.w, stateOf(t, tr))
	require.Equal(t, stateOf(t, tr), stateOf(t, again))
	next := revised(b.allele(t, 37742, "C", "T", 0, 0), "PROVISIONAL", 60, 40, 40)
	require.Equal(t, tr.Variant(next), again.Variant(next))
	require.Equal(t, tr.RunEnd("run"), again.RunEnd("run"))
}

func TestModelWithoutItsNetwork(t *testing.T) {
	g, a := lambda(t)
	b := newBench(t, modelPanel(t, cI(t, g, a), nil))
	tr := b.w.NewTracker("s")
	b.coverAll(tr, 60, 1)
	require.ErrorContains(t, tr.Err(), "its network was not opened")
}

// TestModelWhoseNetworkDoesNotOpen: the error names the panel's line.
func TestModelWhoseNetworkDoesNotOpen(t *testing.T) {
	g, a := lambda(t)
	path := modelPanel(t, cI(t, g, a), nil)
	b := newBench(t, path)
	err := b.w.Attach(func(*biomarker.Model) (biomarker.Network, error) {
		return nil, errors.New("toy: network.onnx: damaged")
	})
	require.EqualError(t, err, path+`:4: rule "drug": model toy: network.onnx: damaged`)
}

// TestModelFaults: each is one line that names the panel and the place.
func TestModelFaults(t *testing.T) {
	g, a := lambda(t)
	protein := cI(t, g, a)
	for _, tt := range []struct {
		from, to, want string
	}{
		{protein, protein[:200], "gene cI has 237 codons in the reference, the model's numbering has 200: it was made for another reference: take the reference and genes that the model is for"},
		{protein, strings.Repeat("W", len(protein)), "residues of the model's numbering in the reference: it was made for another reference"},
		{`"cI"`, `"cX"`, `scores.tsv:1: gene "cI" is not among the manifest's`},
		{`name = "drug"`, `name = "other"`, `rule "drug": model toy has no output "drug": it has other, lineage`},
		{`sha256 = "`, `sha256 = "00`, "is not 64 hexadecimal digits"},
		{`kind = "biomarker"`, `kind = "variant"`, "it is the manifest of a variant model, not of a biomarker model"},
		{`format = 1`, `format = 2`, "format = 2 is not one that this version reads"},
		{`licence = "none"`, ``, "licence is missing"},
		{`"cI:118"`, `"cI:999"`, `decisive codon "cI:999" is none of the model's genes`},
		{`version = "1"`, `version = "1"` + "\nunheard = 1", `unknown key "unheard"`},
	} {
		path := modelPanel(t, protein, func(m string) string {
			require.Contains(t, m, tt.from)
			m = strings.ReplaceAll(m, tt.from, tt.to)
			if tt.from == `"cI"` {
				m = strings.ReplaceAll(m, "cI:118", "cX:118")
			}
			return m
		})
		p, err := watchlist.Load(path)
		if err == nil {
			_, err = watchlist.New(g, a, p)
		}
		require.ErrorContains(t, err, tt.want)
		first, _, _ := strings.Cut(err.Error(), "\n")
		require.Contains(t, first, path+":4: ")
	}

	// Damage is found before anything runs.
	path := modelPanel(t, protein, nil)
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), "model", "network.onnx"), []byte("another"), 0o600))
	_, err := watchlist.Load(path)
	require.ErrorContains(t, err, "network.onnx: sha256 is ")
	for rule, want := range map[string]string{
		`{id: r, model: {folder: ../model, output: drug}}`:             `model folder "../model" is not beside the panel`,
		`{id: r, model: {folder: none, output: drug}}`:                 "no such file",
		`{id: r, model: {folder: model}}`:                              "model needs the folder of a model and one of its outputs",
		`{id: r, model: {folder: m, output: drug}, match: {gene: cI}}`: `rule "r" has a match and a model: make two rules of it`,
		`{id: r, model: [model]}`:                                      "model: want keys with values, have a list",
		`{id: r, label: neither}`:                                      "has no match: say which alleles it means, which model is asked, or which region",
	} {
		path := modelPanel(t, protein, nil)
		require.NoError(t, os.WriteFile(path, []byte("panel: p\nversion: 1\nrules:\n- "+rule+"\n"), 0o600))
		p, err := watchlist.Load(path)
		if err == nil {
			_, err = watchlist.New(g, a, p)
		}
		require.ErrorContains(t, err, want)
	}
}

// TestAModelIsPartOfThePanel: another model makes another panel.
func TestAModelIsPartOfThePanel(t *testing.T) {
	g, a := lambda(t)
	one, err := watchlist.Load(modelPanel(t, cI(t, g, a), nil))
	require.NoError(t, err)
	other, err := watchlist.Load(modelPanel(t, cI(t, g, a), func(m string) string { return strings.Replace(m, "[1.0, 0.0]", "[1.1, 0.0]", 1) }))
	require.NoError(t, err)
	require.NotEqual(t, one.Hash, other.Hash)
}

func TestResolvedModel(t *testing.T) {
	rules := withModel(t).w.Resolve()
	require.Len(t, rules, 3) // none of the features
	require.Equal(t, watchlist.ScopeModel, rules[0].Scope)
	require.Equal(t, "toy 1 drug", rules[0].Model)
	require.Equal(t, 6, rules[0].Positions)
	require.Greater(t, rules[0].DepthNeeded, 15)
}

// TestACodonThatCouldMakeItResistant: though no codon is named decisive, one whose evidence is open and whose change would make the sample resistant keeps it from being
// susceptible, in any order; one whose change would not doesn't.
func TestACodonThatCouldMakeItResistant(t *testing.T) {
	g, a := lambda(t)
	path := modelPanel(t, cI(t, g, a), func(m string) string { return strings.Replace(m, "decisive = [\"cI:118\"]\n", "", 1) })
	b := newBench(t, path)
	require.NoError(t, b.w.Attach(func(*biomarker.Model) (biomarker.Network, error) { return modelNetwork(), nil }))
	const at118, at67 = 37586, 37739
	for _, tt := range []struct {
		name          string
		shallow       int    // the codon's first base, from 0; -1: none
		depth         int    // there
		reads, all    uint32 // of E118K
		want, reason  string
		missing       []string
		knownOfCodons int
	}{
		{"all covered", -1, 0, 0, 0, "SUSCEPTIBLE", "by 2 of 2 codons", nil, 2},
		{"codon 118 uncovered", at118, 0, 0, 0, "NOT_CALLABLE", "not covered: cI:118", []string{"cI:118"}, 1},
		{"codon 118 too shallow", at118, 8, 0, 0, "NOT_CALLABLE", "not covered: cI:118", []string{"cI:118"}, 1},
		{"a change there that isn't called", -1, 0, 30, 60, "NOT_CALLABLE", "not covered: cI:118", []string{"cI:118"}, 1},
		{"the change itself", -1, 0, 58, 60, "RESISTANT", "by 2 of 2 codons", nil, 2},
		{"codon 67 uncovered", at67, 0, 0, 0, "SUSCEPTIBLE", "by 1 of 2 codons", nil, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var all []func(*watchlist.Tracker)
			for _, target := range b.w.Targets() {
				for at := target.Start; at < target.End; at++ {
					depth := 60
					if tt.shallow >= 0 && at >= tt.shallow && at < tt.shallow+3 {
						depth = tt.depth
					}
					c := b.covered(at, at+1, depth, 1)
					all = append(all, func(tr *watchlist.Tracker) { tr.Coverage(c) })
				}
			}
			if tt.reads > 0 {
				v := revised(b.allele(t, 37589, "C", "T", 0, 0), "FINAL", map[bool]float64{true: 60, false: 1}[tt.want == "RESISTANT"], tt.reads, tt.all)
				all = append(all, func(tr *watchlist.Tracker) { tr.Variant(v) })
			}
			rng := rand.New(rand.NewPCG(7, 1))
			for range 4 {
				rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
				tr := b.w.NewTracker("s")
				for _, o := range all {
					o(tr)
				}
				final := named(tr.RunEnd("run"), "drug")
				require.NoError(t, tr.Err())
				last := final[len(final)-1]
				require.Equal(t, tt.want, string(last.State), last.Reason)
				require.Contains(t, last.Reason, tt.reason)
				require.Equal(t, tt.missing, last.Model.Missing)
				require.Equal(t, tt.knownOfCodons, last.Model.CodonsKnown)
			}
		})
	}
}
