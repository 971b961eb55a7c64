package models

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/modelfile/folder"
)

// Identity returns a hash of all that decides what a basecalling model calls, by name or folder: models
// that have the same give the same bases. Of an original of Dorado or Bonito all files are
// read, and otherwise the manifest, which has its networks' checksums. How the engine joins windows
// belongs to it.
func Identity(name string) (string, error) {
	if isOriginal(name) {
		key, err := originalKey(name)
		if err != nil {
			return "", fmt.Errorf("reading model %s: %w", name, err)
		}
		return joinedAs([]byte(key)), nil
	}
	fsys, err := find(name)
	if err != nil {
		return "", err
	}
	text, err := folder.ReadManifest(fsys)
	if err != nil {
		return "", fmt.Errorf("reading model %s: %w", name, err)
	}
	return joinedAs(text), nil
}

// joinedAs returns a hash of what a model is and of how the engine joins what it calls.
func joinedAs(model []byte) string {
	sum := sha256.Sum256(fmt.Appendf(bytes.Clone(model), "\njoining %d\n", basecall.Joining))
	return hex.EncodeToString(sum[:])[:32]
}

// Describe returns what is known of a basecalling model, by name or folder, without reading
// its network. What can't be used says why.
func Describe(name string) Listed {
	if isOriginal(name) {
		one, _ := listed(name)
		return one
	}
	one := Listed{Path: name}
	fsys, err := find(name)
	if err != nil {
		one.Err = err
		return one
	}
	text, err := folder.ReadManifest(fsys)
	if err == nil {
		one.Manifest, err = basecall.ParseManifest(text)
	}
	if err != nil {
		one.Err = fmt.Errorf("opening model %s: %w", name, err)
	}
	return one
}

// Named returns the model of a list whose folder or manifest has a name.
func Named(all []Listed, name string) (Listed, bool) {
	for _, l := range all {
		if filepath.Base(l.Path) == name || l.Err == nil && l.Manifest.Name == name {
			return l, true
		}
	}
	return Listed{}, false
}
