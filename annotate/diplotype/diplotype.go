// Package diplotype names the two copies of a gene by the alleles that others have defined, such as CYP2C19 *1/*17.
//
// Definitions are PharmCAT's JSON files (format 2). The package is pure. Positions that weren't examined are left out of all definitions and
// reported, never taken as the reference; where several pairs of alleles explain the genotypes, all of the best are reported.
package diplotype

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Definitions are the named alleles of one gene.
type Definitions struct {
	Gene, Contig, Version string
	Positions             []Position
	alleles               []allele
	genome, accession     string // of the contig; may be empty
}

// Position is a place where alleles of a gene differ, spelled as in a VCF.
type Position struct {
	Pos  int // from 1
	Ref  string
	Alts []string
	Name string // rs number; may be empty
}

// allele is a named allele: for each position the bases that it has, in VCF's spelling; none: it says nothing, so the reference's.
type allele struct {
	name      string
	bases     [][]string
	core      []bool // the positions that define it
	reference bool
}

// Genotype is what a sample has at a position.
type Genotype struct {
	Bases []string // of each copy, in the spelling of the position, "" where not known; nil: nothing is known
	// Phase names the positions whose copies are given in one order; "": the order means nothing.
	Phase string
}

// Pair is a diplotype: names in the order of the definitions.
type Pair struct{ First, Second string }

func (p Pair) String() string { return p.First + "/" + p.Second }

// Call is the result for a gene.
type Call struct {
	Gene string
	// Pairs explain the genotypes, with the most positions that define them; several: they can't be distinguished. None: no pair of alleles does.
	Pairs []Pair
	// Also are all other pairs that explain the genotypes, with fewer positions that define them: in another order of what isn't in phase, or because
	// positions are missing.
	Also []Pair
	// Missing are positions of which nothing or one copy was known; Lost are the alleles whose defining positions are all missing, which may be there.
	Missing []Position
	Lost    []string
	// Unknown are positions with bases that no allele has.
	Unknown []Position
	// Combined says that no pair of alleles explains the genotypes, and that Pairs are of combinations of alleles, of alleles with changes besides, or
	// of changes alone.
	Combined bool
	// Refused is why the calls can't be evaluated and what to do about it; empty if they can.
	Refused string

	nothing bool // no position is known
}

// Reason is why there is no pair; empty if there is one.
func (c Call) Reason() string {
	switch {
	case c.Refused != "":
		return c.Refused
	case len(c.Pairs) > 0:
		return ""
	case len(c.Unknown) > 0:
		return "bases that no allele has: check the reads there, or take later definitions"
	case c.nothing:
		return "nothing is known of any position: reads don't cover the gene, or the calls are no gVCF of it"
	}
	return "no pair of alleles has these bases: --combinations searches for several alleles on one copy"
}

// The limits of a file and of a question.
const (
	maxFile   = 16 << 20
	maxGroups = 16 // of heterozygous positions whose order isn't known to each other
)

// file is PharmCAT's format 2.
type file struct {
	FormatVersion, Version, Gene, Chromosome string
	GenomeBuild, RefSeqChromosomeID          string
	Variants                                 []struct {
		Position           int
		RSID               string
		Ref                string
		Alts               []string
		CPICToVCFAlleleMap map[string]string `json:"cpicToVcfAlleleMap"`
	}
	NamedAlleles []struct {
		Name              string
		Reference         bool
		StructuralVariant bool
		CPICAlleles       []*string `json:"cpicAlleles"`
		CorePositions     []int
	}
}

// Read reads the definitions of a gene.
func Read(r io.Reader) (*Definitions, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("the file is larger than %d MiB", maxFile>>20)
	}
	var f file
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("not definitions of alleles in JSON: %w", err)
	}
	if f.FormatVersion != "2" || f.Gene == "" || f.Chromosome == "" || len(f.Variants) == 0 || len(f.NamedAlleles) == 0 {
		return nil, errors.New("want PharmCAT's definitions of a gene in format 2, with gene, chromosome, variants and namedAlleles")
	}
	d := &Definitions{Gene: f.Gene, Contig: f.Chromosome, Version: f.Version, genome: f.GenomeBuild, accession: f.RefSeqChromosomeID}
	for i, v := range f.Variants {
		if v.Position < 1 || v.Ref == "" {
			return nil, fmt.Errorf("variant %d has no position or no reference", i+1)
		}
		d.Positions = append(d.Positions, Position{v.Position, v.Ref, v.Alts, v.RSID})
	}
	for _, n := range f.NamedAlleles {
		if n.StructuralVariant {
			continue // which bases don't determine
		}
		if len(n.CPICAlleles) != len(d.Positions) {
			return nil, fmt.Errorf("allele %s has %d positions, the gene %d", n.Name, len(n.CPICAlleles), len(d.Positions))
		}
		a := allele{name: n.Name, reference: n.Reference, bases: make([][]string, len(d.Positions)), core: make([]bool, len(d.Positions))}
		for i, p := range d.Positions {
			a.core[i] = n.Reference || slices.Contains(n.CorePositions, p.Pos) || n.CorePositions == nil && n.CPICAlleles[i] != nil // as of earlier years
		}
		for i, c := range n.CPICAlleles {
			if c == nil {
				continue
			}
			bases, err := meaning(*c, f.Variants[i].CPICToVCFAlleleMap)
			if err != nil {
				return nil, fmt.Errorf("allele %s at %d: %w", n.Name, d.Positions[i].Pos, err)
			}
			a.bases[i] = bases
		}
		d.alleles = append(d.alleles, a)
	}
	return d, nil
}

// ambiguous are the bases of IUPAC's codes.
var ambiguous = map[string]string{"R": "AG", "Y": "CT", "S": "CG", "W": "AT", "K": "GT", "M": "AC", "B": "CGT", "D": "AGT", "H": "ACT", "V": "ACG", "N": "ACGT"}

// meaning is what a definition's word stands for in VCF's spelling.
func meaning(word string, spelling map[string]string) ([]string, error) {
	if s, ok := spelling[word]; ok {
		return []string{s}, nil
	}
	var list []string
	for _, base := range strings.Split(ambiguous[word], "") {
		if s, ok := spelling[base]; ok {
			list = append(list, s)
		}
	}
	if list == nil {
		return nil, fmt.Errorf("%q is none of the position's alleles", word)
	}
	return list, nil
}

// Call names the alleles of a sample with two copies. genotypes are those at d.Positions.
func (d *Definitions) Call(genotypes []Genotype) Call {
	c := Call{Gene: d.Gene}
	var known []int
	for i, g := range genotypes {
		if g.Bases == nil || slices.Contains(g.Bases, "") {
			c.Missing = append(c.Missing, d.Positions[i])
		}
		switch {
		case g.Bases == nil:
		case len(g.Bases) != 2:
			c.Refused = cmp.Or(c.Refused, fmt.Sprintf("ploidy %d at %s:%d, and diplotypes are of two copies: call with pore call --ploidy 2", len(g.Bases), d.Contig, d.Positions[i].Pos))
		default:
			known = append(known, i)
			for _, b := range g.Bases {
				if b != "" && b != d.Positions[i].Ref && !slices.Contains(d.Positions[i].Alts, b) {
					c.Unknown = append(c.Unknown, d.Positions[i])
					break
				}
			}
		}
	}
	c.nothing = len(known) == 0
	if c.nothing || len(c.Unknown) > 0 || c.Refused != "" {
		return c
	}
	candidates := d.candidates(known, &c)
	groups := d.groups(known, genotypes)
	if len(groups) > maxGroups {
		c.Refused = fmt.Sprintf("%d groups of heterozygous positions without common phase, at most %d can be examined: phase the calls", len(groups), maxGroups)
		return c
	}
	c.Pairs, c.Also = d.pairs(known, genotypes, groups, candidates)
	return c
}

// candidate is an allele with how many of its defining positions are known.
type candidate struct {
	number, score int
}

// candidates are the alleles with a known defining position.
func (d *Definitions) candidates(known []int, c *Call) []candidate {
	var list []candidate
	for n := range d.alleles {
		a := &d.alleles[n]
		fit := candidate{number: n}
		for _, i := range known {
			if a.core[i] {
				fit.score++
			}
		}
		if fit.score == 0 {
			c.Lost = append(c.Lost, a.name)
			continue
		}
		list = append(list, fit)
	}
	return list
}

// groups are the heterozygous positions, those in one order together.
func (d *Definitions) groups(known []int, genotypes []Genotype) [][]int {
	var groups [][]int
	byPhase := map[string]int{}
	for _, i := range known {
		g := genotypes[i]
		if g.Bases[0] == g.Bases[1] {
			continue
		}
		if at, there := byPhase[g.Phase]; there && g.Phase != "" {
			groups[at] = append(groups[at], i)
			continue
		}
		byPhase[g.Phase] = len(groups)
		groups = append(groups, []int{i})
	}
	return groups
}

// pairs are those with the most defining positions, over all orders that the phase leaves open, and the others.
func (d *Definitions) pairs(known []int, genotypes []Genotype, groups [][]int, candidates []candidate) (best, also []Pair) {
	scores := map[[2]int]int{}
	swapped := make([]bool, len(d.Positions))
	for order := range 1 << max(len(groups)-1, 0) {
		for k, group := range groups {
			for _, i := range group {
				swapped[i] = k > 0 && order>>(k-1)&1 == 1
			}
		}
		one := d.matching(known, genotypes, swapped, 0, candidates)
		if len(one) == 0 {
			continue
		}
		for _, b := range d.matching(known, genotypes, swapped, 1, candidates) {
			for _, a := range one {
				scores[[2]int{min(a.number, b.number), max(a.number, b.number)}] = a.score + b.score
			}
		}
	}
	top := 0
	for _, score := range scores {
		top = max(top, score)
	}
	numbers := slices.SortedFunc(maps.Keys(scores), func(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) })
	for _, n := range numbers {
		pair := Pair{d.alleles[n[0]].name, d.alleles[n[1]].name}
		if scores[n] == top {
			best = append(best, pair)
		} else {
			also = append(also, pair)
		}
	}
	return best, also
}

// matching are the candidates that one copy fits.
func (d *Definitions) matching(known []int, genotypes []Genotype, swapped []bool, copied int, candidates []candidate) []candidate {
	var fit []candidate
next:
	for _, c := range candidates {
		a := &d.alleles[c.number]
		for _, i := range known {
			bases := genotypes[i].Bases
			has := bases[(copied+btoi(swapped[i]))%2]
			if has == "" {
				continue // it may have these or others
			}
			if a.bases[i] == nil && has != d.Positions[i].Ref || a.bases[i] != nil && !slices.Contains(a.bases[i], has) {
				continue next
			}
		}
		fit = append(fit, c)
	}
	return fit
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
