package eval

import (
	"fmt"
	"strings"

	"github.com/porestream/porestream/genome"
)

// Motif is a short sequence whose errors are counted by themselves.
type Motif struct {
	name  string
	masks []byte // by position: bit i says that base i (A, C, G, T) fits
}

// maxMotif is the longest motif.
const maxMotif = 32

// ParseMotif reads a motif of IUPAC letters, as CCWGG. It is read in the direction of the
// read.
func ParseMotif(text string) (Motif, error) {
	m := Motif{name: strings.ToUpper(text)}
	if len(text) < 2 || len(text) > maxMotif {
		return m, fmt.Errorf("motif %q: want 2 to %d letters", text, maxMotif)
	}
	for i := range len(m.name) {
		mask := genome.BaseSet(m.name[i])
		if mask == 0 {
			return m, fmt.Errorf("motif %q: %q is no letter for bases", text, text[i])
		}
		m.masks = append(m.masks, mask)
	}
	return m, nil
}

// String is the motif's letters.
func (m Motif) String() string { return m.name }

// at reports whether the target, which is long enough, begins with the motif.
func (m *Motif) at(target []byte) bool {
	for i, mask := range m.masks {
		if c := code(target[i]); c < 0 || mask>>c&1 == 0 {
			return false
		}
	}
	return true
}

// DefaultMotifs are those that are commonly methylated: by Dam (GATC) and Dcm (CCWGG) in
// E. coli and its relatives, and CG in vertebrates.
func DefaultMotifs() []Motif {
	var out []Motif
	for _, text := range []string{"GATC", "CCWGG", "CG"} {
		m, err := ParseMotif(text)
		if err != nil {
			panic(err) // the list above is wrong
		}
		out = append(out, m)
	}
	return out
}
