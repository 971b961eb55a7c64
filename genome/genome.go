package genome

// Contig is one reference sequence.
type Contig struct {
	Name   string // the header's first word
	Seq    []byte // upper-case IUPAC nucleotide letters; must not be changed
	Digest string // refget accession: "SQ." and sha512t24u of Seq (GA4GH refget 2.0)
}

// Genome is a set of contigs. It must not be changed after it was made, and may then be shared.
type Genome struct {
	Contigs []*Contig // in the order of the file
	byName  map[string]*Contig
}

// Contig is the contig of that name, or nil.
func (g *Genome) Contig(name string) *Contig { return g.byName[name] }

// Rank is the position of the contig of that name in the file, or the number of contigs if there is none of that name.
func (g *Genome) Rank(name string) int {
	for i, c := range g.Contigs {
		if c.Name == name {
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
