// Package pores holds the tables of k-mer levels that Porestream ships.
package pores

import (
	"bytes"
	"embed"
	"fmt"

	"github.com/porestream/porestream/simulate/squiggle"
)

// Default is the table that is used when none is named.
const Default = "r9.4-6mer.tsv"

//go:embed *.tsv
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
