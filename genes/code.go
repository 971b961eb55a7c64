package genes

import (
	"fmt"

	"github.com/porestream/porestream/annotate"
)

// codons is the number of codons. A codon is a number too: 16, 4 and 1 times its bases.
const codons = 64

// stopAmino is what a stop translates to.
const stopAmino = '*'

// The start codons that genes are searched for at. Others are known, and so rare that each would cost more genes than it
// finds.
const (
	startATG = iota
	startGTG
	startTTG
	startKinds
	// startOpen is no codon: the gene begins before the sequence does.
	startOpen = startKinds
)

var startNames = [...]string{"ATG", "GTG", "TTG", "Edge"}

// geneticCode is what a table means for finding genes.
type geneticCode struct {
	table int
	amino [codons]byte
	start [codons]int8 // kind of start codon, -1 for none
}

// Codes are the numbers of NCBI's genetic codes that are distinguished where none is given.
func Codes() []int { return []int{11, 4, 25, 1} }

func newCode(table int) (*geneticCode, error) {
	aminos, _, ok := annotate.GeneticCode(table)
	if !ok {
		return nil, fmt.Errorf("genetic code %d is not one of NCBI's", table)
	}
	c := &geneticCode{table: table}
	const ncbi = "TCAG"
	for i := range codons {
		a, b, d := ncbi[i>>4], ncbi[i>>2&3], ncbi[i&3]
		c.amino[baseOf[a]<<4|baseOf[b]<<2|baseOf[d]] = aminos[i]
	}
	for i := range c.start {
		c.start[i] = -1
	}
	for kind, name := range startNames[:startKinds] {
		if table == 1 && kind != startATG {
			continue // viruses of eukaryotes: the ribosome scans for AUG
		}
		c.start[codonOf(name)] = int8(kind)
	}
	return c, nil
}

// codonOf is the number of a codon in letters.
func codonOf(s string) int {
	return int(baseOf[s[0]])<<4 | int(baseOf[s[1]])<<2 | int(baseOf[s[2]])
}

// codonName is a codon in letters.
func codonName(c int) string {
	const letters = "ACGT"
	return string([]byte{letters[c>>4], letters[c>>2&3], letters[c&3]})
}

// stops reports whether a codon ends genes.
func (c *geneticCode) stops(codon int) bool { return c.amino[codon] == stopAmino }

// opens is where the frame opens that a codon is in: behind the stop before it, or at the first codon of the sequence.
func (c *geneticCode) opens(s []byte, at int) int {
	for ; at >= 3; at -= 3 {
		if codon := codonAt(s, at-3); codon >= 0 && c.stops(codon) {
			break
		}
	}
	return at
}

// ends is where a frame that is read from a codon on ends: behind the next stop, or, if there is none, behind the last codon of the sequence.
func (c *geneticCode) ends(s []byte, at int) (end int, stops bool) {
	for ; at+3 <= len(s) && !stops; at += 3 {
		codon := codonAt(s, at)
		stops = codon >= 0 && c.stops(codon)
	}
	return at, stops
}
