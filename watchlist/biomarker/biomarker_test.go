package biomarker

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// files is the folder of a model with these lists.
func files(features, scores string) fstest.MapFS {
	sum := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
	return fstest.MapFS{
		"n.onnx": {Data: []byte("network")}, "f.tsv": {Data: []byte(features)}, "s.tsv": {Data: []byte(scores)},
		"manifest.toml": {Data: []byte(`format = 1
kind = "biomarker"
name = "m"
version = "1"
data = "d"
licence = "l"
network = {file = "n.onnx", sha256 = "` + sum("network") + `", input = "x", output = "y"}
features = {file = "f.tsv", sha256 = "` + sum(features) + `"}
scores = {file = "s.tsv", sha256 = "` + sum(scores) + `"}
encoding = {present_from = 0.2, fractions = true}
[[gene]]
name = "RT"
sequence = "` + strings.Repeat("X", 560) + `"
[[output]]
name = "o"
calibration = [2.0, -1.0]
resistant = 0.5
susceptible = 0.5
genes = ["RT"]
`)},
	}
}

func TestListsOfFeaturesAndScores(t *testing.T) {
	const features, scores = "residue\tRT\t184\tV\n", "s\tRT:184V\t10\n"
	for _, tt := range []struct{ features, scores, want string }{
		{"residue\tRT\t184\n", scores, "f.tsv:1: "},
		{"residue\tRT\t184\tVI\n", scores, `f.tsv:1: residue "VI": want one letter`},
		{"# words\n\nresidue\tRT\t561\tV\n", scores, "f.tsv:3: codon RT:561 is outside of the gene, which has 560"},
		{"residue\tPR\t1\tV\n", scores, `gene "PR" is not among the manifest's`},
		{"score\tx\n", scores, `score "x" is not in the list of scores`},
		{"shape\tRT\n", scores, `"shape RT" is no feature`},
		{"covered\tPR\n", scores, `gene "PR" is not among`},
		{"", scores, "f.tsv: no feature"},
		{features, "s\tRT:184V\n", "s.tsv:1: want a name, a condition and points"},
		{features, "s\tRT:184\t1\n", `condition "RT:184" names no residue at RT:184`},
		{features, "s\t184V\t1\n", `condition "184V": want codons with residues`},
		{features, "s\tRT:184V\tmany\n", `points "many" are not a number`},
		{features, "s\tRT:184V\tNaN\n", `points "NaN" are not a number`},
		{features, "s\tRT:700V\t1\n", "codon RT:700 is outside"},
	} {
		_, err := Load(files(tt.features, tt.scores))
		require.ErrorContains(t, err, tt.want)
		require.NotContains(t, err.Error(), "\n")
	}
	m, err := Load(files("score\ts\nresidue\tRT\t184\tV\nresidue\tRT\t41\tL\n", "s\tRT:215FY+RT:41L\t5\n"))
	require.NoError(t, err)
	require.Equal(t, []Codon{{"RT", 41}, {"RT", 184}, {"RT", 215}}, m.Codons)
	require.Equal(t, 3, m.Size())
	broken := files(features, scores)
	delete(broken, "n.onnx")
	_, err = Load(broken)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// byHand is the score of residues by its definition: of terms with the same codons the largest that is met, or the least.
func byHand(scores string, present map[string]bool) float64 {
	best := map[string][]float64{}
	for line := range strings.Lines(scores) {
		cells := strings.Fields(line)
		var points float64
		_, _ = fmt.Sscan(cells[2], &points)
		var codons []string
		met := true
		for part := range strings.SplitSeq(cells[1], "+") {
			at := strings.TrimRight(part, "ACDEFGHIKLMNPQRSTVWY")
			codons = append(codons, at)
			any := false
			for _, r := range part[len(at):] {
				any = any || present[at+string(r)]
			}
			met = met && any
		}
		slices.Sort(codons)
		if met {
			best[strings.Join(codons, "+")] = append(best[strings.Join(codons, "+")], points)
		}
	}
	total := 0.0
	for _, points := range best {
		if most := slices.Max(points); most > 0 {
			total += most
		} else {
			total += slices.Min(points)
		}
	}
	return total
}

func TestScoresByTheirDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 46))
	for range 200 {
		var scores strings.Builder
		for range 12 {
			var parts []string
			for _, codon := range rng.Perm(5)[:1+rng.IntN(3)] {
				residues := string("ACD"[rng.IntN(3)])
				if rng.IntN(2) == 0 {
					residues += "EF"
				}
				parts = append(parts, fmt.Sprintf("RT:%d%s", 10+codon, residues))
			}
			fmt.Fprintf(&scores, "s\t%s\t%d\n", strings.Join(parts, "+"), rng.IntN(60)-10)
		}
		m, err := Load(files("score\ts\nunseen\ts\n", scores.String()))
		require.NoError(t, err)
		g := Genotype{Sites: make([]Site, len(m.Codons))}
		present := map[string]bool{}
		for i := range g.Sites {
			g.Sites[i].Known = rng.IntN(4) > 0
			for _, r := range "ACDEF" {
				if rng.IntN(3) == 0 {
					share := 0.1 + 0.3*float64(rng.IntN(3)) // a tenth is not present
					g.Sites[i].Shares = append(g.Sites[i].Shares, Share{Residue: byte(r), Share: share})
					if g.Sites[i].Known && share > 0.2 {
						present[fmt.Sprintf("%s%c", m.Codons[i], r)] = true
					}
				}
			}
		}
		x := m.input(nil, &g, -1, 0)
		require.InDelta(t, byHand(scores.String(), present), float64(x[0]), 1e-6, scores.String())
	}
}

// constant is a network that gives the same numbers whatever comes in.
type constant []float32

func (c constant) Compute(rows int, _ []float32) ([]float32, error) {
	return slices.Repeat(c, rows), nil
}

func TestNumbersThatDoNotFit(t *testing.T) {
	m, err := Load(files("residue\tRT\t184\tV\n", ""))
	require.NoError(t, err)
	g := Genotype{Sites: make([]Site, 1)}
	_, err = m.Score(constant{1, 2}, &g)
	require.ErrorContains(t, err, "the network gives 2 numbers for 1 rows, the manifest has outputs of 1")
	nan := float32(0)
	_, err = m.Score(constant{nan / nan}, &g)
	require.ErrorContains(t, err, "NaN")
	j, err := m.Score(constant{0.5}, &g)
	require.NoError(t, err)
	a := j.Answer(0) // 2 · 0.5 − 1 is even odds; nothing is covered
	require.Equal(t, 0.5, a.Probability)
	require.Equal(t, NotCallable, a.Class)
	require.Equal(t, 1, a.Unknown)
}

func FuzzLists(f *testing.F) {
	f.Add("residue\tRT\t184\tV\nscore\ts\nunseen\ts\ncovered\tRT\ndepth\tRT\nallele\tRT:p.M184V\n", "s\tRT:184V+RT:41L\t10\n")
	f.Add("residue\tRT\t0\t*\n", "s\tRT:1-\t-1e9\n")
	f.Fuzz(func(t *testing.T, features, scores string) {
		m, err := Load(files(features, scores))
		if err != nil {
			return
		}
		g := Genotype{Sites: make([]Site, len(m.Codons)), Alleles: make([]Allele, len(m.Alleles))}
		for i := range g.Sites {
			g.Sites[i] = Site{Known: true, Shares: []Share{{Residue: m.Wild(i), Share: 1}}}
		}
		for _, v := range m.input(nil, &g, -1, 0)[m.Size():] {
			require.True(t, v == 0 || v == 1)
		}
	})
}

// TestMethylation: states and shares, which are missing without enough calls, and a state where calls are split.
func TestMethylation(t *testing.T) {
	load := func(encoding, output string) *Model {
		fsys := files("methylation\tchr1:10-11\nmethylation\tchr1:20-21\th\nmethylation\tchr1:30-31\nmethylation\tchr1:40-41\n", "")
		text := strings.Replace(string(fsys["manifest.toml"].Data), "fractions = true", encoding, 1)
		fsys["manifest.toml"].Data = []byte(strings.Replace(text, "genes = [\"RT\"]\n", "genes = []\n"+output, 1))
		m, err := Load(fsys)
		require.NoError(t, err)
		return m
	}
	g := Genotype{Methylations: []Methylation{{3, 4}, {1, 4}, {0, 0}, {2, 4}}}
	m := load("fractions = false", "")
	require.Equal(t, []Region{{"chr1:10-11", "m"}, {"chr1:20-21", "h"}, {"chr1:30-31", "m"}, {"chr1:40-41", "m"}}, m.Regions)
	require.Equal(t, 8, m.Width())
	require.Equal(t, []float32{1, 0, 0, 0, 1, 1, 0, 0}, m.input(nil, &g, -1, 0))
	require.Equal(t, []float32{0.75, 0.25, 0, 0.5, 1, 1, 0, 1}, load("fractions = true", "").input(nil, &g, -1, 0))
	m = load("signed = true", "least_sites = 3\n")
	require.Equal(t, 4, m.Width())
	require.Equal(t, []float32{9, 1, -1, 0, 0}, m.input([]float32{9}, &g, -1, 0))
	require.Equal(t, []float32{0, 0, 0, 0}, load("signed = true, calls = 5", "").input(nil, &g, -1, 0))
	j, err := m.Score(constant{3}, &g)
	require.NoError(t, err)
	require.Equal(t, Answer{Class: NotCallable, Probability: j.Answer(0).Probability, RegionsKnown: 2, Regions: 4}, j.Answer(0))
	g.Methylations[2] = Methylation{0, 1}
	require.Equal(t, Resistant, j.Answer(0).Class)
	drivers, err := j.Drivers(constant{3}, 0, 9)
	require.NoError(t, err)
	require.Empty(t, drivers)
}
