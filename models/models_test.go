package models

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestShippedModels opens every model, which checks its network's digest against
// the manifest.
func TestShippedModels(t *testing.T) {
	names := Names()
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
		"r99":                          "neither a folder nor one of the shipped models (" + strings.Join(Names(), ", ") + ")",
		filepath.Join("no", "such"):    "no such folder",
		filepath.Join("..", "nothing"): "no such folder",
		t.TempDir():                    "manifest.toml",
	} {
		if _, err := Open(name); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("model %q: %v, want ...%s...", name, err, want)
		}
	}
}
