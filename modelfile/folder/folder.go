// Package folder reads the folders that hold models: a manifest, which says what
// kind of model it is and how to use it, and networks, whose checksums are in the
// manifest.
package folder

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Manifest is the name of the manifest in a model's folder.
const Manifest = "manifest.toml"

// Limits on what a folder may make us read, far above any real model.
const (
	maxManifestBytes = 1 << 20
	maxNetworkBytes  = 2 << 30
)

// Kind is what a model is for, as its manifest's kind says.
type Kind string

// The kinds of models.
const (
	Basecaller Kind = "" // also of manifests that say nothing
	Variant    Kind = "variant"
	Sequence   Kind = "sequence"  // scores of alleles by stretches of DNA
	Biomarker  Kind = "biomarker" // asked by panels, which name its folder
)

// String names the kind for people.
func (k Kind) String() string {
	if k == Basecaller {
		return "basecalling"
	}
	return string(k)
}

// Open opens the folder of a model.
func Open(dir string) (fs.FS, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("opening model: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("opening model: %s is not a folder; a model is a folder with a %s", dir, Manifest)
	}
	return os.DirFS(dir), nil
}

// KindOf reads what the model at the root of a file system is for. A kind that
// this version doesn't know is an error.
func KindOf(fsys fs.FS) (Kind, error) {
	text, err := ReadManifest(fsys)
	if err != nil {
		return "", err
	}
	kind, err := kindOf(text)
	if err != nil {
		return "", fmt.Errorf("%s: %w", Manifest, err)
	}
	return kind, nil
}

func kindOf(text []byte) (Kind, error) {
	var head struct {
		Kind Kind `toml:"kind"`
	}
	if err := toml.Unmarshal(text, &head); err != nil {
		return "", describe(err)
	}
	switch head.Kind {
	case Basecaller, Variant, Sequence, Biomarker:
		return head.Kind, nil
	}
	return "", fmt.Errorf("kind = %q is none that this version knows: %q, %q, %q, or none for a basecaller", head.Kind, Variant, Sequence, Biomarker)
}

// ReadManifest reads the manifest of the model at the root of a file system.
func ReadManifest(fsys fs.FS) ([]byte, error) { return readLimited(fsys, Manifest, maxManifestBytes) }

// Decode decodes a manifest of the given kind. It refuses other kinds and keys
// that into has no place for, by line.
func Decode(text []byte, kind Kind, into any) error {
	is, err := kindOf(text)
	if err != nil {
		return err
	}
	if is != kind {
		return fmt.Errorf("it is the manifest of a %v model, not of a %v model", is, kind)
	}
	return describe(toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(into))
}

// describe puts the position and the key of a syntax error on one line.
func describe(err error) error {
	var strict *toml.StrictMissingError
	if errors.As(err, &strict) && len(strict.Errors) > 0 {
		first := strict.Errors[0]
		row, _ := first.Position()
		return fmt.Errorf("line %d: unknown key %q", row, strings.Join(first.Key(), "."))
	}
	var syntax *toml.DecodeError
	if errors.As(err, &syntax) {
		row, column := syntax.Position()
		if key := strings.Join(syntax.Key(), "."); key != "" {
			return fmt.Errorf("line %d, column %d: %s: %s", row, column, key, strings.TrimPrefix(syntax.Error(), "toml: "))
		}
		return fmt.Errorf("line %d, column %d: %s", row, column, strings.TrimPrefix(syntax.Error(), "toml: "))
	}
	return err
}

// Network reads a network and compares it with its checksum, which the manifest
// gives by a key.
func Network(fsys fs.FS, key, name, checksum string) ([]byte, error) {
	network, err := readLimited(fsys, name, maxNetworkBytes)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(network); hex.EncodeToString(sum[:]) != strings.ToLower(checksum) {
		return nil, fmt.Errorf("%s: sha256 is %x but %s says %s = %q: the file is damaged or belongs to another manifest",
			name, sum, Manifest, key, checksum)
	}
	return network, nil
}

// readLimited reads a whole file and refuses one that is larger than limit.
func readLimited(fsys fs.FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s: larger than %d bytes", name, limit)
	}
	return data, nil
}

// Faults are what is wrong with a manifest.
type Faults []string

// Check notes a fault unless ok.
func (f *Faults) Check(ok bool, format string, args ...any) {
	if !ok {
		*f = append(*f, fmt.Sprintf(format, args...))
	}
}

// CheckFile checks the name of a network and its checksum, which the manifest
// gives by two keys.
func (f *Faults) CheckFile(key, name, checksumKey, checksum string) {
	f.Check(name != "" && fs.ValidPath(name) && path.Clean(name) != ".", "%s = %q is not a file name within the model's folder", key, name)
	sum, err := hex.DecodeString(checksum)
	f.Check(err == nil && len(sum) == sha256.Size, "%s = %q is not 64 hexadecimal digits", checksumKey, checksum)
}

// Err is all faults on one line; nil if there are none.
func (f *Faults) Err() error {
	if len(*f) == 0 {
		return nil
	}
	return errors.New(strings.Join(*f, "; "))
}
