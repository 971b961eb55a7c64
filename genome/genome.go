package genome

import (
	"slices"
	"sync"

	"github.com/porestream/porestream/vrs"
)

// Contig is one reference sequence.
type Contig struct {
	Name string // the header's first word
	// Seq are upper-case IUPAC nucleotide letters, which must not be changed. A contig that was read by [LoadPacked] has
	// none: code that takes both kinds uses the methods.
	Seq []byte

	packed  *packed
	repeats *Contig // nil for a contig that is itself
	hash    sync.Once
	digest  string
}

// Digest is the refget accession: "SQ." and sha512t24u of Seq (GA4GH refget 2.0). It is computed when it is first asked
// for, since hashing a genome takes longer than reading it. Safe for concurrent use.
func (c *Contig) Digest() string {
	if c.repeats != nil {
		return c.repeats.Digest()
	}
	c.hash.Do(func() { c.digest = vrs.DigestPieces(c.pieces()) })
	return c.digest
}

// Twice is a circular contig with its sequence twice, so that what crosses the origin is contiguous on it. Its name and
// digest are those of c.
func (c *Contig) Twice() *Contig {
	if c.packed == nil {
		return &Contig{Name: c.Name, Seq: slices.Concat(c.Seq, c.Seq), repeats: c}
	}
	twice := &Contig{Name: c.Name, packed: newPacked(new(arena)), repeats: c}
	for range 2 {
		for piece := range c.pieces() {
			twice.packed.add(piece)
		}
	}
	twice.closePacked()
	return twice
}

// Genome is a set of contigs. It must not be changed after it was made, and may then be shared.
type Genome struct {
	Path     string    // of the file that it was loaded from; empty for none
	Contigs  []*Contig // in the order of the file
	byName   map[string]*Contig
	synonyms map[string]*Contig // further names, see AddSynonyms
}

// Contig is the contig of that name or synonym, or nil.
func (g *Genome) Contig(name string) *Contig {
	if c := g.byName[name]; c != nil {
		return c
	}
	return g.synonyms[name]
}

// Bases are the bases of the contig of that name or synonym, which must not be changed, or nil.
func (g *Genome) Bases(name string) []byte {
	if c := g.Contig(name); c != nil {
		return c.Flat()
	}
	return nil
}

// Hash computes the digests of all contigs at once, on all cores: for programs whose first variant must not wait.
func (g *Genome) Hash() {
	var workers sync.WaitGroup
	for _, c := range g.Contigs {
		workers.Go(func() { c.Digest() })
	}
	workers.Wait()
}

// Rank is the position of the contig of that name in the file, or the number of contigs if there is none of that name.
func (g *Genome) Rank(name string) int {
	of := g.Contig(name)
	for i, c := range g.Contigs {
		if c == of {
			return i
		}
	}
	return len(g.Contigs)
}

// Names are the contigs' names in the order of the file.
func (g *Genome) Names() []string {
	names := make([]string, len(g.Contigs))
	for i, c := range g.Contigs {
		names[i] = c.Name
	}
	return names
}
