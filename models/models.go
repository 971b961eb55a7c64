// Package models holds the models that Porestream ships, so that every binary
// works without a download.
package models

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/porestream/porestream/basecall"
)

// Default is the model that is used when none is named.
const Default = "r9.4-fast"

//go:embed */manifest.toml */model.onnx
var shipped embed.FS

// Names lists the shipped models.
func Names() []string {
	entries, _ := fs.ReadDir(shipped, ".") // the embedded root always reads
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// Open opens a shipped model by name, or any model by its folder. Empty means
// [Default].
func Open(name string) (*basecall.Model, error) {
	if name == "" {
		name = Default
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return basecall.OpenModel(name)
	}
	if strings.ContainsRune(name, filepath.Separator) {
		return nil, fmt.Errorf("opening model %s: no such folder", name)
	}
	sub, err := fs.Sub(shipped, name)
	if err != nil {
		return nil, fmt.Errorf("opening model %s: %w", name, err)
	}
	model, err := basecall.LoadModel(sub)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("opening model %s: neither a folder nor one of the shipped models (%s)", name, strings.Join(Names(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("opening model %s: %w", name, err)
	}
	return model, nil
}
