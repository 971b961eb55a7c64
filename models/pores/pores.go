// Package pores holds what Porestream ships of pores: a table of k-mer levels of R9.4,
// and levels and profiles of R10.4.1.
package pores

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/porestream/porestream/simulate/squiggle"
)

// Default is the table that is used when none is named.
const Default = "r9.4-6mer.tsv"

// R1041Levels is the file of the levels of R10.4.1.
const R1041Levels = "r10.4.1-9mer.levels"

const profileSuffix = ".profile"

//go:embed *.tsv *.levels *.profile
var shipped embed.FS

// Open reads the default table.
func Open() (*squiggle.Model, error) {
	text, err := shipped.ReadFile(Default)
	if err != nil {
		return nil, fmt.Errorf("no table of k-mer levels is built in: give one with --pore-model: %w", err)
	}
	m, err := squiggle.ReadModel(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("models/pores/%s: %w", Default, err)
	}
	return m, nil
}

// Profiles are the names of the profiles, as "r10.4.1-5khz", sorted.
func Profiles() []string {
	files, err := fs.Glob(shipped, "*"+profileSuffix)
	if err != nil {
		panic(err) // the pattern is wrong: a bug
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(f, profileSuffix)
	}
	slices.Sort(files)
	return files
}

// OpenProfile reads a profile by its name. A name that there isn't is fs.ErrNotExist.
func OpenProfile(name string) (*squiggle.Profile, error) {
	text, err := shipped.ReadFile(name + profileSuffix)
	if errors.Is(err, fs.ErrInvalid) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, fmt.Errorf("no profile %s is built in, there are %s: %w", name, strings.Join(Profiles(), ", "), err)
	}
	p, err := squiggle.ReadProfile(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("models/pores/%s%s: %w", name, profileSuffix, err)
	}
	return p, nil
}

// OpenLevels reads the levels of R10.4.1, without a profile.
func OpenLevels() (*squiggle.Model, error) {
	text, err := shipped.ReadFile(R1041Levels)
	if err != nil {
		return nil, err
	}
	t, err := squiggle.ReadParts(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("models/pores/%s: %w", R1041Levels, err)
	}
	return t.Model(), nil
}
