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
	"slices"
	"strings"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/modelfile/folder"
	"github.com/porestream/porestream/variant/network"
)

// Default is the basecalling model that is used when none is named.
const Default = "r9.4-fast"

// DefaultVariant is the variant model that is used for diploid samples and mixtures when
// none is named.
const DefaultVariant = "r9-r10-pileup"

// None stands for no variant model: package variant's analytic model decides.
const None = "none"

//go:embed */manifest.toml */model.onnx */model.half.onnx
var shipped embed.FS

// Names lists the shipped models of a kind.
func Names(kind folder.Kind) []string {
	entries, _ := fs.ReadDir(shipped, ".") // the embedded root always reads
	var names []string
	for _, e := range entries {
		if sub, err := fs.Sub(shipped, e.Name()); err == nil {
			if is, err := folder.KindOf(sub); err == nil && is == kind {
				names = append(names, e.Name())
			}
		}
	}
	return names
}

// Open opens a shipped basecalling model by name, or any by its folder, which may be one of
// Dorado's or Bonito's: that is converted, once for what is in it. Empty means [Default].
func Open(name string) (*basecall.Model, error) {
	if name == "" {
		name = Default
	}
	if isOriginal(name) {
		return openOriginal(name)
	}
	return open(name, basecall.LoadModel)
}

// OpenVariant opens a shipped variant model by name, or any by its folder. [None]
// is no model.
func OpenVariant(name string) (*network.Model, error) {
	if name == None {
		return nil, errors.New("opening model: none is no variant model; name one or its folder")
	}
	return open(name, network.LoadModel)
}

// Kind says what a shipped model, by its name, or any, by its folder, is for.
func Kind(name string) (folder.Kind, error) {
	if isOriginal(name) {
		return folder.Basecaller, nil
	}
	fsys, err := find(name)
	if err != nil {
		return "", err
	}
	kind, err := folder.KindOf(fsys)
	if err != nil {
		return "", fmt.Errorf("opening model %s: %w", name, err)
	}
	return kind, nil
}

func open[Model any](name string, load func(fs.FS) (*Model, error)) (*Model, error) {
	fsys, err := find(name)
	if err != nil {
		return nil, err
	}
	model, err := load(fsys)
	if errors.Is(err, fs.ErrNotExist) {
		if _, missing := fs.Stat(fsys, folder.Manifest); missing != nil {
			return nil, fmt.Errorf("opening model %s: it has no %s, as converted models have, nor a config.toml with weights, as Dorado's and Bonito's have: name the folder in which these lie", name, folder.Manifest)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("opening model %s: %w", name, err)
	}
	return model, nil
}

// find is the folder of a model.
func find(name string) (fs.FS, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return folder.Open(name)
	}
	if strings.ContainsRune(name, filepath.Separator) {
		return nil, fmt.Errorf("opening model %s: no such folder", name)
	}
	all := slices.Concat(Names(folder.Basecaller), Names(folder.Variant))
	if !slices.Contains(all, name) {
		return nil, fmt.Errorf("opening model %s: neither a folder nor one of the shipped models (%s)", name, strings.Join(all, ", "))
	}
	return fs.Sub(shipped, name)
}
