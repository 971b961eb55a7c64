package processor

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/watchlist"
)

func TestParseStages(t *testing.T) {
	for _, c := range []struct {
		list string
		work Work
		want string // stages, or what the error says
	}{
		{"", Work{}, "basecall align variant annotate"},
		{"", Work{Panels: true}, "basecall align variant annotate watch"},
		{"annotate, basecall", Work{Panels: true}, "annotate basecall"},
		{"watch", Work{Panels: true}, "watch"},
		{"watch", Work{}, "--panel"},
		{"", Work{Methylation: true}, "basecall align variant methylate annotate"},
		{"align,methylate", Work{Methylation: true}, "align methylate"},
		{"methylate", Work{}, "--methylation"},
		{"", Work{Adaptive: true}, "adaptive basecall align variant annotate"},
		{"adaptive", Work{Adaptive: true}, "adaptive"},
		{"adaptive", Work{Panels: true}, "--adaptive enrich"},
		{"variant,variant", Work{Panels: true}, "named twice"},
		{"call", Work{Panels: true}, "the stages are adaptive, basecall, align, variant, methylate, annotate, watch"},
	} {
		stages, err := ParseStages(c.list, c.work)
		switch {
		case err != nil && !strings.Contains(err.Error(), c.want):
			t.Errorf("%q: %v, want ...%s...", c.list, err, c.want)
		case err == nil && strings.Join(stages, " ") != c.want:
			t.Errorf("%q: %q, want %q", c.list, stages, c.want)
		}
	}
}

func TestFingerprint(t *testing.T) {
	a, b := &watchlist.Panel{Hash: "sha256:a"}, &watchlist.Panel{Hash: "sha256:b"}
	one, both := fingerprint([]*watchlist.Panel{a}), fingerprint([]*watchlist.Panel{a, b})
	if one != "sha256:a" || both != fingerprint([]*watchlist.Panel{b, a}) || both == one || both == fingerprint([]*watchlist.Panel{b}) {
		t.Errorf("fingerprints %s and %s", one, both)
	}
}

// TestWrongPanelIsOneLine: whatever is wrong, one line says where, and that there
// is more.
func TestWrongPanelIsOneLine(t *testing.T) {
	lambda := filepath.Join("..", "..", "testdata", "lambda")
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"unknown genes": {
			"panel: p\nversion: 1\nrules:\n- id: a\n  match: {gene: nope}\n- id: b\n  match: {gene: neither}\n",
			[]string{"panel.yaml:5", `"nope"`, "more line"},
		},
		"wrong reference base": {"panel: p\nversion: 1\nrules:\n- id: a\n  match: {vcf: \"J02459.1:37589:A:T\"}\n", []string{"panel.yaml:5", "37589", "not A"}},
		"no YAML":              {"panel: [", []string{"panel.yaml"}},
	} {
		path := filepath.Join(t.TempDir(), "panel.yaml")
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := Load(t.Context(), Options{Flags: Flags{Reference: filepath.Join(lambda, "reference.fa"), Genes: Genes{Paths: []string{filepath.Join(lambda, "genes.gff3")}}, Panels: []string{path}}})
		if err == nil || strings.Contains(err.Error(), "\n") || slices.ContainsFunc(c.want, func(w string) bool { return !strings.Contains(err.Error(), w) }) {
			t.Errorf("%s: %v, want one line with %q", name, err, c.want)
		}
	}
	path := filepath.Join(t.TempDir(), "panel.yaml")
	if err := os.WriteFile(path, []byte("panel: p\nversion: 1\nrules:\n- id: a\n  methylation: {region: \"J02459.1:1-900\", is: methylated}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	opts := Options{Flags: Flags{Reference: filepath.Join(lambda, "reference.fa"), Genes: Genes{Paths: []string{filepath.Join(lambda, "genes.gff3")}}, Panels: []string{path}}}
	if _, err := Load(t.Context(), opts); err == nil || err.Error() != `rule "a" asks for methylation, and modified bases are not counted: give --methylation, or leave the panel out` {
		t.Errorf("a panel that asks for methylation: %v", err)
	}
	opts.Methylation = Methylation{On: true, Percentile: 0.1}
	if e, err := Load(t.Context(), opts); err != nil || e.watchedMethylation(3) == nil {
		t.Errorf("it is not answered: %v", err)
	}
	if _, err := Load(t.Context(), Options{Flags: Flags{Reference: filepath.Join(lambda, "reference.fa"), Panels: []string{"none.yaml"}}}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing panel: %v", err)
	}
}

// TestTargets: the places of panels reach the variant stage, and nothing does
// without panels.
func TestTargets(t *testing.T) {
	lambda := filepath.Join("..", "..", "testdata", "lambda")
	opts := Options{Flags: Flags{Reference: filepath.Join(lambda, "reference.fa"), Genes: Genes{Paths: []string{filepath.Join(lambda, "genes.gff3")}}}}
	plain, err := Load(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if plain.targets() != nil || plain.watched(3) != nil || plain.Annotator != nil {
		t.Error("something is watched without panels")
	}
	topics := stream.NewTopics("lab-")
	names := func(e *Engines) string {
		var list []string
		for _, s := range e.TopicSettings(topics, 3) {
			list = append(list, s.Name)
		}
		return strings.Join(list, " ")
	}
	if got := names(plain); strings.Contains(got, topics.Watch) || strings.Contains(got, topics.Alerts) {
		t.Errorf("topics without panels: %s", got)
	}
	opts.Panels = []string{filepath.Join("..", "..", "watchlist", "testdata", "lambda", "panel.yaml")}
	e, err := Load(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, pos := range []int{37_589, 37_742, 43_082, 45_352} {
		covered := false
		for _, s := range e.targets()["J02459.1"].Spans {
			covered = covered || s.Start < pos && pos <= s.End
		}
		if !covered {
			t.Errorf("position %d is not among the targets %v", pos, e.targets())
		}
	}
	if got := names(e); !strings.HasSuffix(got, "lab-watch lab-alerts") {
		t.Errorf("topics with panels: %s", got)
	}
	if w := e.watched(3); w.Partitions != 3 || w.Panels != e.panels || !strings.HasPrefix(w.Panels, "sha256:") {
		t.Errorf("watched: %+v", w)
	}
}
