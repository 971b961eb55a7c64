package biomarker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// weighted is a network that adds up its inputs by weights, and counts the rows that it was asked.
type weighted struct {
	weights []float32
	bias    float32
	rows    int
}

func (w *weighted) Compute(rows int, inputs []float32) ([]float32, error) {
	w.rows += rows
	var out []float32
	for r := range rows {
		sum := w.bias
		for i, v := range w.weights {
			sum += v * inputs[r*len(inputs)/rows+i]
		}
		out = append(out, sum)
	}
	return out, nil
}

// guarded is the model of the tests with present_from alone.
func guarded(t *testing.T, features, scores, output string) *Model {
	t.Helper()
	fsys := files(features, scores)
	text := strings.Replace(string(fsys["manifest.toml"].Data), ", fractions = true", "", 1)
	fsys["manifest.toml"].Data = []byte(strings.Replace(text, "genes = [\"RT\"]\n", "genes = [\"RT\"]\n"+output, 1))
	m, err := Load(fsys)
	require.NoError(t, err)
	return m
}

// TestGuarded: a codon that isn't known keeps an answer from being SUSCEPTIBLE if one of its residues would change it beside what is there, and only then.
func TestGuarded(t *testing.T) {
	const features = "residue\tRT\t41\tL\nresidue\tRT\t67\tN\nresidue\tRT\t184\tI\nresidue\tRT\t184\tV\nscore\ts\n"
	wild, unknown := Site{Known: true, Shares: []Share{{Residue: 'X', Share: 1}}}, Site{}
	has := func(r byte) Site { return Site{Known: true, Shares: []Share{{Residue: r, Share: 1}}} }
	for _, tt := range []struct {
		name    string
		sites   []Site // 41, 67, 184, 215
		class   string
		missing []Codon
		tried   int
	}{
		{"all known", []Site{wild, wild, wild, wild}, Susceptible, nil, 0},
		{"one that cannot decide", []Site{unknown, wild, wild, wild}, Susceptible, nil, 1},
		{"one that decides by one of two residues", []Site{wild, wild, unknown, wild}, NotCallable, []Codon{{"RT", 184}}, 2},
		{"one that decides beside a change that is there", []Site{unknown, has('N'), wild, wild}, NotCallable, []Codon{{"RT", 41}}, 1},
		{"one of a score alone", []Site{wild, wild, wild, unknown}, NotCallable, []Codon{{"RT", 215}}, 2},
		{"two, each by itself", []Site{wild, wild, unknown, unknown}, NotCallable, []Codon{{"RT", 184}, {"RT", 215}}, 4},
		{"two that decide together alone", []Site{unknown, unknown, wild, wild}, NotCallable, []Codon{{"RT", 41}, {"RT", 67}}, 3},
		{"an indel that the model does not know", []Site{has('-'), wild, wild, wild}, NotCallable, nil, 0},
		{"one beside resistance", []Site{has('-'), wild, has('V'), wild}, Resistant, nil, 0},
		{"resistant already", []Site{unknown, wild, has('V'), wild}, Resistant, nil, 0},
		{"too many are missing", []Site{unknown, unknown, unknown, wild}, NotCallable, nil, 0},
	} {
		for _, final := range []bool{false, true} {
			m := guarded(t, features, "s\tRT:215FY\t8\n", "")
			n := &weighted{weights: []float32{0.4, 0.4, 0, 1, 0.1}} // even odds at 0.5
			j, err := m.Score(n, &Genotype{Sites: tt.sites})
			require.NoError(t, err)
			before := j.Answer(0)
			a, err := j.Guarded(n, 0, final)
			require.NoError(t, err)
			require.Equal(t, tt.class, a.Class, tt.name)
			require.Equal(t, tt.missing, a.Missing, tt.name)
			require.Equal(t, before.Probability, a.Probability, tt.name)
			require.Equal(t, 1+tt.tried, n.rows, tt.name)
			again, err := j.Guarded(n, 0, final)
			require.NoError(t, err)
			require.Equal(t, a, again, tt.name)
			require.Equal(t, 1+tt.tried, n.rows, "%s: a second output asks for nothing more", tt.name)
		}
	}
}

// TestGuardedWithinBounds: of more residues than the bound none is tried, and the codons that are open are missing; once the runs have ended more are tried. As many pairs are
// tried again.
func TestGuardedWithinBounds(t *testing.T) {
	var features strings.Builder
	for c := range 400 {
		fmt.Fprintf(&features, "residue\tRT\t%d\tV\n", c+1)
	}
	m := guarded(t, features.String(), "", "")
	for _, tt := range []struct {
		open, tried int
		final       bool
		class       string
	}{
		{2, 2 + 1, false, Susceptible}, {81, 81 + 81, false, Susceptible}, {82, 0, false, NotCallable}, {200, 0, false, NotCallable},
		{82, 82 + 82*81/2, true, Susceptible}, {200, 200 + triesOfEnd/800, true, Susceptible},
	} {
		sites := make([]Site, 400)
		for i := range sites {
			sites[i] = Site{Known: i >= tt.open, Shares: []Share{{Residue: 'X', Share: 1}}}
		}
		n := &weighted{} // nothing decides
		j, err := m.Score(n, &Genotype{Sites: sites})
		require.NoError(t, err)
		a, err := j.Guarded(n, 0, tt.final)
		require.NoError(t, err)
		require.Equal(t, tt.class, a.Class)
		require.Equal(t, 1+tt.tried, n.rows)
		require.Equal(t, tt.class == NotCallable, len(a.Missing) == tt.open)
	}
}

// TestGuardedPairsOfScores: rows of scores are narrow, so the numbers of the input don't bound their work; pairs are bounded for themselves.
func TestGuardedPairsOfScores(t *testing.T) {
	var terms strings.Builder
	for c := range 300 + 10 {
		fmt.Fprintf(&terms, "s\tRT:%dV\t1\n", c+1)
	}
	m := guarded(t, "score\ts\n", terms.String(), "max_missing = 0.99\n")
	sites := make([]Site, len(m.Codons))
	for i := range 10 { // known
		sites[i] = Site{Known: true, Shares: []Share{{Residue: 'X', Share: 1}}}
	}
	for final, most := range map[bool]int{false: pairsOfRun, true: pairsOfEnd} {
		n := &weighted{weights: []float32{0.01}} // even odds at 0.5
		j, err := m.Score(n, &Genotype{Sites: sites})
		require.NoError(t, err)
		a, err := j.Guarded(n, 0, final)
		require.NoError(t, err)
		require.Equal(t, Susceptible, a.Class)
		require.Equal(t, 1+300+most, n.rows)
	}
}

// TestGuardedPairsOfOutputs: pairs that one output has had tried aren't tried again for another; of more than the bound those are that bring the class nearest to another one.
func TestGuardedPairsOfOutputs(t *testing.T) {
	var features strings.Builder
	for c := range 400 {
		fmt.Fprintf(&features, "residue\tRT\t%d\tV\n", c+1)
	}
	m := guarded(t, features.String(), "", "")
	sites := make([]Site, 400)
	for i := range sites {
		sites[i] = Site{Known: i >= 60, Shares: []Share{{Residue: 'X', Share: 1}}}
	}
	weights := make([]float32, 400)
	weights[31], weights[57] = 0.3, 0.3
	n := &weighted{weights: weights} // even odds at 0.5
	j, err := m.Score(n, &Genotype{Sites: sites})
	require.NoError(t, err)
	a, err := j.Guarded(n, 0, false)
	require.NoError(t, err)
	require.Equal(t, NotCallable, a.Class)
	require.Equal(t, []Codon{{"RT", 32}, {"RT", 58}}, a.Missing)
	require.Equal(t, 1+60+81, n.rows)
}

// TestIndelsThatTheModelKnows: a residue for changed lengths that is a feature, or in a score, is one as others are.
func TestIndelsThatTheModelKnows(t *testing.T) {
	indel := Site{Known: true, Shares: []Share{{Residue: 'X', Share: 0.7}, {Residue: '-', Share: 0.3}}}
	for features, class := range map[string]string{
		"residue\tRT\t69\tD\n":                     NotCallable,
		"residue\tRT\t69\tD\nresidue\tRT\t69\t-\n": Susceptible,
	} {
		m := guarded(t, features, "", "")
		j, err := m.Score(&weighted{weights: []float32{0.1}}, &Genotype{Sites: []Site{indel}})
		require.NoError(t, err)
		a := j.Answer(0)
		require.Equal(t, class, a.Class)
		require.Equal(t, class == NotCallable, len(a.Indels) == 1)
	}
}
