package haplotype

import (
	"fmt"

	"github.com/porestream/porestream/annotate"
)

// DefaultCode is the standard genetic code with ATG as its only start codon: what bcftools csq calls table 0.
const DefaultCode = 0

// standardCode is NCBI's number of the standard code, with all its start codons.
const standardCode = 1

// unknownAmino is the amino acid of a codon with a base that is not A, C, G or T.
const unknownAmino = 'X'

// code is a genetic code.
type code struct {
	aminos [64]byte
	// marks say which codons stop ('*') and which may start ('M') translation; '-' for the rest. A codon can both stop
	// and read as an amino acid.
	marks [64]byte
}

// dualStops are the codons that stop translation in some places and are read in others, by table.
var dualStops = map[int][]string{27: {"TGA"}, 28: {"TGA", "TAA", "TAG"}, 31: {"TAA", "TAG"}}

// newCode is the table of that number: DefaultCode or one of NCBI's.
func newCode(table int) (*code, error) {
	number := table
	if table == DefaultCode {
		number = standardCode
	}
	aminos, starts, ok := annotate.GeneticCode(number)
	if !ok {
		return nil, fmt.Errorf("genetic code %d is neither %d, the standard one with ATG as its only start, nor one of NCBI's", table, DefaultCode)
	}
	if table == DefaultCode {
		starts = []string{"ATG"}
	}
	c := &code{}
	for i := range aminos {
		c.aminos[i], c.marks[i] = aminos[i], '-'
		if aminos[i] == '*' {
			c.marks[i] = '*'
		}
	}
	for _, codon := range starts {
		c.marks[codonIndex(codon)] = 'M'
	}
	for _, codon := range dualStops[number] {
		c.marks[codonIndex(codon)] = '*'
	}
	return c, nil
}

// baseIndex orders bases as the tables do; 4 stands for all other letters.
var baseIndex = func() (t [256]uint8) {
	for i := range t {
		t[i] = 4
	}
	for i, c := range []byte("TCAG") {
		t[c], t[c|0x20] = uint8(i), uint8(i)
	}
	return t
}()

// complementIndex is baseIndex of the other strand's base.
var complementIndex = func() (t [256]uint8) {
	for i := range t {
		t[i] = 4
	}
	for i, c := range []byte("AGTC") {
		t[c], t[c|0x20] = uint8(i), uint8(i)
	}
	return t
}()

func codonIndex(s string) int {
	return int(baseIndex[s[0]])<<4 | int(baseIndex[s[1]])<<2 | int(baseIndex[s[2]])
}

// read is what the bases b0 b1 b2 of the reference strand, which are a codon of a transcript of the given strand, stand
// for.
func (c *code) read(b0, b1, b2 byte, forward bool) (amino, mark byte) {
	i, j, k := baseIndex[b0], baseIndex[b1], baseIndex[b2]
	if !forward {
		i, j, k = complementIndex[b2], complementIndex[b1], complementIndex[b0]
	}
	if i|j|k > 3 {
		return unknownAmino, '-'
	}
	n := int(i)<<4 | int(j)<<2 | int(k)
	return c.aminos[n], c.marks[n]
}
