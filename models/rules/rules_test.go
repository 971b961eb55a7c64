package rules_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/models/rules"
	"github.com/porestream/porestream/signal"
)

const example = `
rules:
  - flow_cell: [FLO-PRO114*, FLO-MIN114]
    sample_rate: 5000
    experiment: clinical-*
    model: models/sup
    precision: fp16
  - chemistry: r10.4.1
    size: hac
  - kit: "sqk-rna00?"
    model: none
  - run: "[x]*"
    model: r9.4-hac
default: r9.4-fast
`

func TestMatch(t *testing.T) {
	r, err := rules.Parse("rules.yaml", []byte(example))
	require.NoError(t, err)
	clinical := signal.Run{ID: "a", FlowCellProduct: "FLO-PRO114M", Kit: "SQK-LSK114", SampleRate: 5000, ExperimentID: "Clinical-7"}
	but := func(change func(*signal.Run)) *signal.Run {
		run := clinical
		change(&run)
		return &run
	}
	for _, c := range []struct {
		name string
		run  *signal.Run
		rule int
		use  rules.Use
	}{
		{"all that a rule names", but(func(*signal.Run) {}), 0, rules.Use{Model: "models/sup", Folder: true, Precision: "fp16"}},
		{"the second pattern", but(func(r *signal.Run) { r.FlowCellProduct = "flo-min114" }), 0, rules.Use{Model: "models/sup", Folder: true, Precision: "fp16"}},
		{"another rate", but(func(r *signal.Run) { r.SampleRate = 4000 }), 1, rules.Use{Size: "hac"}},
		{"another experiment", but(func(r *signal.Run) { r.ExperimentID = "x-clinical-7" }), 1, rules.Use{Size: "hac"}},
		{"left out", but(func(r *signal.Run) { r.FlowCellProduct, r.Kit = "FLO-MIN004RA", "SQK-RNA004" }), 2, rules.Use{None: true}},
		{"brackets are no classes", but(func(r *signal.Run) { r.FlowCellProduct, r.Kit, r.ID = "", "", "[x]1" }), 3, rules.Use{Model: "r9.4-hac"}},
		{"none", but(func(r *signal.Run) { r.FlowCellProduct, r.Kit, r.ID = "", "", "x1" }), -1, rules.Use{Model: "r9.4-fast"}},
		{"nothing is known", &signal.Run{}, -1, rules.Use{Model: "r9.4-fast"}},
	} {
		use, rule, ok := r.Match(c.run)
		assert.True(t, ok, c.name)
		assert.Equal(t, c.rule, rule, c.name)
		assert.Equal(t, c.use, use, c.name)
	}
	assert.Len(t, r.Uses(), 5)

	r.Default = nil
	_, _, ok := r.Match(&signal.Run{})
	assert.False(t, ok, "no rule, and no default")
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"*", "", true}, {"*", "x", true}, {"?", "", false}, {"?", "ä", true}, {"a*b*c", "aXbYbZc", true}, {"a*b*c", "aXcYb", false},
		{"**", "x", true}, {"a", "A", true}, {"a*", "ba", false}, {"*a", "ba", true}, {"*ab", "aab", true}, {"", "x", false},
	} {
		r := rules.Rule{Sample: []string{c.pattern}}
		assert.Equal(t, c.want, r.Matches(&signal.Run{SampleID: c.text}), "%q %q", c.pattern, c.text)
	}
	r := rules.Rule{Sample: []string{strings.Repeat("*a", 400) + "b"}}
	assert.False(t, r.Matches(&signal.Run{SampleID: strings.Repeat("a", 4000)}), "and it takes no exponential time")
}

func TestFaultsOfAFile(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "r.yaml: it is empty"},
		{"rules: [", "r.yaml: line 1: did not find expected node content"},
		{"rules: []", "r.yaml: it has no rule"},
		{"rules: {}", "r.yaml:1: rules: want a list"},
		{"- a", "r.yaml:1: the file: want keys with values"},
		{"rulez: []", `r.yaml:1: the file has no key "rulez": it takes default, rules`},
		{"rules:\n- model: a\n  modell: b", `r.yaml:3: a rule has no key "modell"`},
		{"rules:\n- kit: a", "r.yaml:2: the rule names no model"},
		{"rules:\n- {kit: a, model: b, size: hac}", "r.yaml:2: the rule names both a model and a size"},
		{"rules:\n- {kit: a, size: huge}", `r.yaml:2: size: "huge" is none of fast, hac, sup`},
		{"rules:\n- {kit: a, model: b, precision: fp8}", `r.yaml:2: precision: "fp8" is none of`},
		{"rules:\n- {sample_rate: fast, model: b}", `r.yaml:2: sample_rate: "fast" is no number`},
		{"rules:\n- {sample_rate: [], model: b}", "r.yaml:2: sample_rate: want 1 to 256 values, have 0"},
		{"rules:\n- {kit: {}, model: b}", "r.yaml:2: kit: want a text"},
		{"rules:\n- {kit: , model: b}", "r.yaml:2: kit: want a text"},
		{"rules:\n- {kit: a, kit: b, model: c}", "a rule has the key kit twice"},
		{"rules:\n- {kit: &a x, model: b}", "anchors and aliases are not supported"},
		{"rules:\n- {kit: a, model: none, precision: fp16}", "leaves runs out"},
		{"rules:\n- model: a\n- {kit: b, model: c}", "r.yaml:2: this rule is for every run"},
		{"rules:\n- model: a\ndefault: b", "r.yaml:2: this rule is for every run"},
		{"default: {precision: fp16}", "r.yaml:1: the default names no model"},
		{"default: a\n---\ndefault: b", "more than one document"},
		{"rules:" + strings.Repeat("\n- {kit: a, model: b}", 257), "257 of them, more than 256"},
		{strings.Repeat("#", 1<<20+1), "larger than 1048576 bytes"},
	} {
		_, err := rules.Parse("r.yaml", []byte(c.text))
		require.ErrorContains(t, err, c.want, c.text)
		assert.NotContains(t, err.Error(), "\n", c.text)
	}
}

func TestReadTakesFoldersFromWhereTheFileLies(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rules.yaml")
	require.NoError(t, os.WriteFile(path, []byte("rules:\n- {kit: a, model: ./m}\n- {kit: b, model: r9.4-fast}\ndefault: {model: /abs/m}\n"), 0o600))
	r, err := rules.Read(path)
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(dir, "m"), r.List[0].Use.Model)
	assert.Equal(t, "r9.4-fast", r.List[1].Use.Model)
	assert.Equal(t, "/abs/m", r.Default.Model)
	_, err = rules.Read(filepath.Join(dir, "none.yaml"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// FuzzParse holds the parser to errors of one line, and what it takes to giving every run one
// answer, by the first rule that matches.
func FuzzParse(f *testing.F) {
	f.Add([]byte(example), "FLO-PRO114M", "SQK-LSK114", 5000)
	f.Add([]byte("default: none"), "", "", 0)
	f.Add([]byte("rules: [{kit: '*', size: sup}]"), "", "x", 4000)
	f.Fuzz(func(t *testing.T, text []byte, cell, kit string, rate int) {
		r, err := rules.Parse("r.yaml", text)
		if err != nil {
			var e *rules.Error
			if !errors.As(err, &e) || strings.ContainsAny(e.Text, "\n\r") {
				t.Fatalf("error %q", err)
			}
			return
		}
		run := &signal.Run{ID: kit, FlowCellProduct: cell, Kit: kit, SampleRate: rate}
		use, at, ok := r.Match(run)
		for i := range r.List {
			matches := r.List[i].Matches(run)
			if i < at && matches || i == at && (!matches || use != r.List[i].Use) || at < 0 && matches {
				t.Fatalf("rule %d has the say, and rule %d matches: %v", at, i, matches)
			}
		}
		if ok == (at < 0 && r.Default == nil) {
			t.Fatalf("rule %d, %v", at, ok)
		}
		if ok && !use.None && (use.Model == "") == (use.Size == "") {
			t.Fatalf("use %+v", use)
		}
	})
}
