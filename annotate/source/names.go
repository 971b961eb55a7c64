package source

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/genome"
)

// names finds contigs of a reference by the names that sources use.
type names struct {
	g     *genome.Genome
	found map[string]int // by name of the source; -1 for one that is not in the reference
}

func newNames(g *genome.Genome) *names {
	return &names{g: g, found: map[string]int{}}
}

// refSeqChromosome matches RefSeq accessions of human chromosomes, whose numbers are the chromosomes'.
var refSeqChromosome = regexp.MustCompile(`^NC_0000([0-9]{2})\.[0-9]+$`)

// humanMitochondrion is the accession of the human mitochondrial genome.
const humanMitochondrion = "NC_012920.1"

// find is the number of the contig that the name means, or -1. The name itself and the genome's synonyms come first, then it
// with or without "chr", MT as M, and RefSeq's accessions of human chromosomes. That the name means the same sequence
// shows when reference bases are compared.
func (n *names) find(name string) int {
	if i, ok := n.found[name]; ok {
		return i
	}
	i := -1
	for _, candidate := range n.candidates(name) {
		if n.g.Contig(candidate) != nil {
			i = n.g.Rank(candidate)
			break
		}
	}
	if len(n.found) < 1<<20 { // a broken file may have a new name in each line
		n.found[strings.Clone(name)] = i
	}
	return i
}

// candidates are the names under which the reference may have a contig.
func (n *names) candidates(name string) []string {
	number, ok := strings.CutPrefix(name, "chr")
	if m := refSeqChromosome.FindStringSubmatch(name); m != nil {
		k, _ := strconv.Atoi(m[1])
		switch {
		case k == 23:
			number, ok = "X", true
		case k == 24:
			number, ok = "Y", true
		case 1 <= k && k <= 22:
			number, ok = strconv.Itoa(k), true
		}
	}
	list := []string{name}
	if ok {
		list = append(list, number)
	}
	list = append(list, "chr"+number)
	if number == "M" || number == "MT" || name == humanMitochondrion {
		list = append(list, "chrM", "MT", "M", "chrMT", humanMitochondrion)
	}
	switch number {
	case "X":
		return append(list, n.accessions("23")...)
	case "Y":
		return append(list, n.accessions("24")...)
	}
	if k, err := strconv.Atoi(number); err == nil && 1 <= k && k <= 22 {
		list = append(list, n.accessions(fmt.Sprintf("%02d", k))...)
	}
	return list
}

// accessions are the contigs of the reference that RefSeq's numbering makes this chromosome.
func (n *names) accessions(number string) []string {
	var list []string
	for _, c := range n.g.Contigs {
		if m := refSeqChromosome.FindStringSubmatch(c.Name); m != nil && m[1] == number {
			list = append(list, c.Name)
		}
	}
	return list
}

// unknown are the first names that were not found, in alphabetical order.
func (n *names) unknown(limit int) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(n.found)) {
		if n.found[name] < 0 {
			list = append(list, name)
		}
	}
	return first(list, limit)
}
