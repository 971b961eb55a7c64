package models

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"github.com/porestream/porestream/modelfile/folder"
	"github.com/porestream/porestream/modelfile/modelname"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/network/networktest"
)

// TestRecipesMakeTheShippedModels: what trains a basecaller writes the windows that the shipped one has.
func TestRecipesMakeTheShippedModels(t *testing.T) {
	for _, name := range Names(folder.Basecaller) {
		path := filepath.Join("..", "train", "basecall", "recipes", name+".toml")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var recipe struct {
			Model struct {
				Name, Version   string
				Window, Overlap int
			}
		}
		if err := toml.Unmarshal(text, &recipe); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		model, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		m, r := model.Manifest, recipe.Model
		if r.Name != m.Name || r.Version != m.Version || r.Window != m.Window.Samples || r.Overlap != m.Window.Overlap {
			t.Errorf("%s makes %+v, but the model shipped is %s %s with windows of %d that share %d", path, r, m.Name, m.Version, m.Window.Samples, m.Window.Overlap)
		}
	}
}

// TestShippedModels opens every model, which checks its network's digest against
// the manifest.
func TestShippedModels(t *testing.T) {
	names := Names(folder.Basecaller)
	if !slices.Contains(names, Default) {
		t.Errorf("the default model %s is not among %v", Default, names)
	}
	for _, name := range append(names, "") {
		model, err := Open(name)
		if err != nil {
			t.Errorf("model %q: %v", name, err)
			continue
		}
		want := name
		if want == "" {
			want = Default
		}
		if model.Manifest.Name != want {
			t.Errorf("model %q calls itself %q", name, model.Manifest.Name)
		}
		if _, err := os.Stat(filepath.Join(want, "MODEL_CARD.md")); err != nil {
			t.Errorf("model %s has no card: %v", want, err)
		}
	}
}

// TestShippedVariantModelsKnowShippedBasecallers: a user of this program's own models gets no warning of a mismatch.
func TestShippedVariantModelsKnowShippedBasecallers(t *testing.T) {
	model, err := OpenVariant(DefaultVariant)
	if err != nil {
		t.Fatal(err)
	}
	card, err := os.ReadFile(filepath.Join(DefaultVariant, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	set := func(name string) string {
		for _, s := range model.Manifest.Reads {
			for _, text := range s.Models {
				if p, err := modelname.ParsePattern(text); err == nil && p.Matches(name) {
					return s.Name
				}
			}
		}
		return ""
	}
	for _, name := range Names(folder.Basecaller) {
		if got := set(name); got != name {
			t.Errorf("reads of %s are those of set %q", name, got)
		}
	}
	for name, want := range map[string]string{
		"dna_r10.4.1_e8.2_400bps_hac@v5.0.0": "r10.4.1-hac", "dna_r10.4.1_e8.2_400bps_sup@v4.3.0": "r10.4.1-sup", "dna_r9.4.1_450bps_hac.cfg": "r9.4-guppy-hac",
		"dna_r9.4.1_e8_sup@v3.3": "r9.4-guppy-sup", "dna_r10.4.1_e8.2_400bps_fast@v5.0.0": "", "dna_r10.4.1_e8.2_400bps_hac@v6.0.0": "", "rna004_130bps_hac@v5.1.0": "",
	} {
		if got := set(name); got != want {
			t.Errorf("reads of %s are those of set %q, want %q", name, got, want)
		}
	}
	for _, s := range model.Manifest.Reads {
		if !strings.Contains(string(card), "| "+s.Name+" | ") || !strings.Contains(string(card), s.Data) || s.Simulated != strings.Contains(string(card), s.Data+" (simulated only)") {
			t.Errorf("the card doesn't say what set %s rests on as the manifest does", s.Name)
		}
	}
}

// TestShippedVariantModels opens every variant model as it is used.
func TestShippedVariantModels(t *testing.T) {
	names := Names(folder.Variant)
	if !slices.Contains(names, DefaultVariant) {
		t.Errorf("the default model %s is not among %v", DefaultVariant, names)
	}
	for _, name := range names {
		model, err := OpenVariant(name)
		if err != nil {
			t.Errorf("model %q: %v", name, err)
			continue
		}
		if model.Manifest.Name != name {
			t.Errorf("model %q calls itself %q", name, model.Manifest.Name)
		}
		if _, err := os.Stat(filepath.Join(name, "README.md")); err != nil {
			t.Errorf("model %s has no card: %v", name, err)
		}
	}
}

func TestKinds(t *testing.T) {
	dir := networktest.Folder(t, networktest.Spec{})
	if kind, err := Kind(dir); err != nil || kind != folder.Variant {
		t.Errorf("kind %v, %v", kind, err)
	}
	if kind, err := Kind(Default); err != nil || kind != folder.Basecaller {
		t.Errorf("kind %v, %v", kind, err)
	}
	if _, err := Kind("r99"); err == nil {
		t.Error("a model that isn't there has a kind")
	}
	model, err := OpenVariant(dir)
	if err != nil || model.Manifest.Name != "test" {
		t.Errorf("a variant model by its folder: %v", err)
	}
	if _, err := OpenVariant(Default); err == nil || !strings.Contains(err.Error(), "it is the manifest of a basecalling model, not of a variant model") {
		t.Errorf("a basecaller judges variants: %v", err)
	}
	if _, err := OpenVariant(None); err == nil || !strings.Contains(err.Error(), "none is no variant model") {
		t.Errorf("none is a model: %v", err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), dir+": manifest.toml: it is the manifest of a variant model, not of a basecalling model") {
		t.Errorf("a variant model basecalls: %v", err)
	}
}

func TestOpenFolder(t *testing.T) {
	abs, err := filepath.Abs(Default)
	if err != nil {
		t.Fatal(err)
	}
	if model, err := Open(abs); err != nil || model.Manifest.Name != Default {
		t.Errorf("a model by its folder: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for name, want := range map[string]string{
		"r99":                          "neither a folder nor one of the shipped models (" + strings.Join(slices.Concat(Names(folder.Basecaller), Names(folder.Variant)), ", ") + ")",
		filepath.Join("no", "such"):    "no such folder",
		filepath.Join("..", "nothing"): "no such folder",
		t.TempDir():                    "it has no manifest.toml, as converted models have, nor a config.toml with weights",
	} {
		if _, err := Open(name); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("model %q: %v, want ...%s...", name, err, want)
		}
	}
}

// TestCalibratedRates holds the rates of variants that haploid samples are compared with
// to those that the shipped variant models' recipes calibrate to.
func TestCalibratedRates(t *testing.T) {
	for _, name := range Names(folder.Variant) {
		text, err := os.ReadFile(filepath.Join("..", "train", "variant", "recipes", name+".toml"))
		if err != nil {
			t.Fatal(err)
		}
		var recipe struct {
			Nature struct{ SNPs, Indels, Haploid float64 }
		}
		if err := toml.Unmarshal(text, &recipe); err != nil {
			t.Fatal(err)
		}
		n := recipe.Nature
		if got := [2]float64{n.SNPs * n.Haploid, n.Indels * n.Haploid}; got != [2]float64{variant.CalibratedSNPs, variant.CalibratedIndels} {
			t.Errorf("%s is calibrated to %v", name, got)
		}
	}
}
