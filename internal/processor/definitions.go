package processor

import (
	"fmt"
	"os"

	"github.com/porestream/porestream/annotate/diplotype"
	"github.com/porestream/porestream/genome"
)

// definitionsHelp is the help of the flag that names files of definitions.
const definitionsHelp = "PharmCAT's definitions of a gene's named alleles, JSON: samples are called as diplotypes while runs go on (docs/consume/diplotypes.md); may be given several times, and implies --gvcf"

// LoadDefinitions reads definitions of named alleles, each of another gene. With a genome they have to be of it.
func LoadDefinitions(paths []string, g *genome.Genome) ([]*diplotype.Definitions, error) {
	var list []*diplotype.Definitions
	files := make(map[string]string)
	for _, path := range paths {
		d, err := readDefinitions(path)
		switch {
		case err != nil:
			return nil, err
		case files[d.Gene] != "":
			return nil, fmt.Errorf("%s: %s has definitions of %s already: leave one of them out", path, files[d.Gene], d.Gene)
		case g != nil:
			if err := d.On(g); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
		files[d.Gene] = path
		list = append(list, d)
	}
	return list, nil
}

func readDefinitions(path string) (*diplotype.Definitions, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading definitions of named alleles: %w", err)
	}
	defer f.Close()
	d, err := diplotype.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

// followed are the positions of the definitions, 0-based by contig.
func (e *Engines) followed() map[string][]int {
	positions := make(map[string][]int)
	for _, d := range e.Definitions {
		for _, p := range d.Positions {
			for i := range len(p.Ref) {
				positions[d.Contig] = append(positions[d.Contig], p.Pos-1+i)
			}
		}
	}
	return positions
}
