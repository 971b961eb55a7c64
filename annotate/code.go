package annotate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/genome"
)

// geneticCode is one of NCBI's genetic code tables.
type geneticCode struct {
	table  int
	aminos string // amino acids of the 64 codons in the order TTT, TTC, TTA, TTG, TCT, …, GGG
	// starts are the codons that a variant may put in place of a start codon without losing it: the ones in wide
	// use. NCBI's list is longer, for it holds every codon ever seen to initiate.
	starts []string
	// annotated are the codons that read as methionine where the annotation has a start: NCBI's list.
	annotated []string
}

// standardCode is the table of most nuclear genomes.
const standardCode = 1

// vertebrateMitochondrialCode is the number of the table for the mitochondria of vertebrates.
const vertebrateMitochondrialCode = 2

// codeOf is NCBI's table of that number, or nil.
func codeOf(table int) *geneticCode {
	for i := range geneticCodes {
		if geneticCodes[i].table == table {
			return &geneticCodes[i]
		}
	}
	return nil
}

// unknownAmino is the amino acid of a codon with a base that is not A, C, G or T.
const unknownAmino = 'X'

// baseIndex orders bases as the tables do; 4 stands for all other letters.
var baseIndex = func() (t [256]uint8) {
	for i := range t {
		t[i] = 4
	}
	for i, c := range []byte("TCAG") {
		t[c] = uint8(i)
	}
	t['U'] = t['T']
	return t
}()

// amino translates one codon.
func (c *geneticCode) amino(b0, b1, b2 byte) byte {
	i, j, k := baseIndex[b0], baseIndex[b1], baseIndex[b2]
	if i|j|k > 3 {
		return unknownAmino
	}
	return c.aminos[int(i)<<4|int(j)<<2|int(k)]
}

// stops says of codons, numbered by stopIndex, which are stop codons: 1, and 0 for all others.
type stops [5 << 6]uint8

// stopIndex numbers all codons, those of other letters too.
func stopIndex(b0, b1, b2 byte) int {
	return int(baseIndex[b0])<<6 | int(baseIndex[b1])<<3 | int(baseIndex[b2])
}

// stops are the stop codons of c.
func (c *geneticCode) stops() *stops {
	var s stops
	for i := range c.aminos {
		if c.aminos[i] == '*' {
			s[i>>4<<6|i>>2&3<<3|i&3] = 1
		}
	}
	return &s
}

// isCodon reports whether the three bases are one of the codons in list.
func isCodon(list []string, b0, b1, b2 byte) bool {
	for _, s := range list {
		if s[0] == b0 && s[1] == b1 && s[2] == b2 {
			return true
		}
	}
	return false
}

// threeLetter are the names of amino acids in HGVS (IUPAC-IUB, 1984), by one-letter symbol.
var threeLetter = [256]string{
	'A': "Ala", 'R': "Arg", 'N': "Asn", 'D': "Asp", 'C': "Cys", 'Q': "Gln", 'E': "Glu", 'G': "Gly", 'H': "His",
	'I': "Ile", 'L': "Leu", 'K': "Lys", 'M': "Met", 'F': "Phe", 'P': "Pro", 'S': "Ser", 'T': "Thr", 'W': "Trp",
	'Y': "Tyr", 'V': "Val", 'U': "Sec", 'O': "Pyl", '*': "Ter", unknownAmino: "Xaa",
}

// complement maps IUPAC nucleotide letters to their complements.
var complement = func() (t [256]byte) {
	for i := range t {
		t[i] = 'N'
	}
	for _, p := range []string{"AT", "CG", "RY", "KM", "BV", "DH", "SS", "WW", "NN"} {
		t[p[0]], t[p[1]] = p[1], p[0]
	}
	t['U'] = 'A'
	return t
}()

// reverseComplement is the other strand of s.
func reverseComplement(s string) string {
	b := make([]byte, len(s))
	for i := range len(s) {
		b[len(s)-1-i] = complement[s[i]]
	}
	return string(b)
}

// codonTexts are the codons of A, C, G and T, in the order of codonIndex: their strings need not be made for each variant.
var codonTexts = func() (texts [64]string) {
	for _, a := range []byte("ACGT") {
		for _, b := range []byte("ACGT") {
			for _, c := range []byte("ACGT") {
				texts[codonIndex(a, b, c)] = string([]byte{a, b, c})
			}
		}
	}
	return texts
}()

// codonIndex numbers the codons of A, C, G and T: bits 1 and 2 of these letters distinguish them.
func codonIndex(a, b, c byte) int { return int(a>>1&3)<<4 | int(b>>1&3)<<2 | int(c>>1&3) }

// codonText is bases as a string.
func codonText(bases []byte) string {
	if len(bases) == 3 {
		if s := codonTexts[codonIndex(bases[0], bases[1], bases[2])]; s == string(bases) {
			return s
		}
	}
	return string(bases)
}

// GeneticCodes say which of NCBI's genetic codes to read coding sequences with that do not say theirs. Its text form,
// for a command line, is a list such as "11,MT=2": a number for all contigs, and numbers for some.
type GeneticCodes struct {
	// Default is for contigs that are not named; 0 is the standard code, or that of a mitochondrion or plastid where
	// the contig has one of the usual names of one.
	Default int
	Contig  map[string]int
	// AllStarts says that the standard code was asked for by its number, 1, and not by 0, which is the same code with
	// ATG as its only start codon. It makes a difference where rules know both, as those of BCSQ do.
	AllStarts bool
}

// Set reads the text form and adds it to the values already set.
func (c *GeneticCodes) Set(text string) error {
	for _, item := range strings.Split(text, ",") {
		name, number := "", item
		if i := strings.LastIndexByte(item, '='); i >= 0 {
			name, number = item[:i], item[i+1:]
		}
		table, err := strconv.Atoi(strings.TrimSpace(number))
		if err == nil && name == "" {
			c.AllStarts = table == standardCode
		}
		if table == 0 && name == "" {
			table = standardCode
		}
		if err != nil || codeOf(table) == nil {
			return fmt.Errorf("%q is not the number of one of NCBI's genetic codes, nor CONTIG=NUMBER", item)
		}
		if name == "" {
			c.Default = table
			continue
		}
		if c.Contig == nil {
			c.Contig = map[string]int{}
		}
		c.Contig[strings.TrimSpace(name)] = table
	}
	return nil
}

// String is the text form.
func (c *GeneticCodes) String() string {
	var items []string
	if c.Default != 0 {
		items = append(items, strconv.Itoa(c.Default))
	}
	for name, table := range c.Contig {
		items = append(items, name+"="+strconv.Itoa(table))
	}
	slices.Sort(items)
	return strings.Join(items, ",")
}

// Type names the text form in a command's help.
func (c *GeneticCodes) Type() string { return "codes" }

// check refuses codes that do not exist and contigs that the genome does not have.
func (c *GeneticCodes) check(g *genome.Genome) error {
	if codeOf(cmp.Or(c.Default, standardCode)) == nil {
		return fmt.Errorf("genetic code %d is not one of NCBI's", c.Default)
	}
	for name, table := range c.Contig {
		if codeOf(table) == nil {
			return fmt.Errorf("genetic code %d of contig %q is not one of NCBI's", table, name)
		}
		if g.Contig(name) == nil {
			return fmt.Errorf("genetic code %d is for contig %q, which is not in the reference", table, name)
		}
	}
	return nil
}

// organelleCodes are the genetic codes of mitochondria and plastids by the names that their contigs have in the usual
// files: UCSC's and Ensembl's vertebrates, yeast, worm, fly and plants.
var organelleCodes = map[string]int{
	"MT": 2, "chrM": 2, "chrMT": 2, "M": 2, "NC_012920.1": 2,
	"Mito": 3, "chrmt": 3,
	"MtDNA": 5, "mitochondrion_genome": 5,
	"Mt": 1, "Pt": 11,
}

// of is the code of coding sequences on a contig; named says that it was found by the contig's name.
func (c *GeneticCodes) of(contig string) (table int, named bool) {
	if table, ok := c.Contig[contig]; ok {
		return table, false
	}
	if c.Default != 0 {
		return c.Default, false
	}
	if table, ok := organelleCodes[contig]; ok {
		return table, true
	}
	return standardCode, false
}

// geneticCodes are NCBI's tables (The Genetic Codes, version 4.6).
var geneticCodes = [...]geneticCode{
	{1, "FFLLSSSSYY**CC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG", []string{"ATG"}, []string{"ATG", "CTG", "TTG"}},
	{2, "FFLLSSSSYY**CCWWLLLLPPPPHHQQRRRRIIMMTTTTNNKKSS**VVVVAAAADDEEGGGG", []string{"ATG", "ATA"}, []string{"ATA", "ATC", "ATG", "ATT", "GTG"}},
	{3, "FFLLSSSSYY**CCWWTTTTPPPPHHQQRRRRIIMMTTTTNNKKSSRRVVVVAAAADDEEGGGG", []string{"ATG", "ATA"}, []string{"ATA", "ATG", "GTG"}},
	{4, "FFLLSSSSYY**CCWWLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG", []string{"ATG", "GTG", "TTG"}, []string{"ATA", "ATC", "ATG", "ATT", "CTG", "GTG", "TTA", "TTG"}},
	{5, "FFLLSSSSYY**CCWWLLLLPPPPHHQQRRRRIIMMTTTTNNKKSSSSVVVVAAAADDEEGGGG", []string{"ATG", "ATA"}, []string{"ATA", "ATC", "ATG", "ATT", "GTG", "TTG"}},
	{6, "FFLLSSSSYYQQCC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG", []string{"ATG"}, []string{"ATG"}},
	{9, "FFLLSSSSYY**CCWWLLLLPPPPHHQQRRRRIIIMTTTTNNNKSSSSVVVVAAAADDEEGGGG", []string{"ATG"}, []string{"ATG", "GTG"}},
	{10, "FFLLSSSSYY**CCCWLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG", []string{"ATG"}, []string{"ATG"}},
	{11, "FFLLSSSSYY**CC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG", []string{"ATG", "GTG", "TTG"}, []string{"ATA", "ATC", "ATG", "ATT", "CTG", "GTG", "TTG"}},
	{12, "FFLLSSSSYY**CC*WLLLSPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG", []string{"ATG"}, []string{"ATG", "CTG"}},
	{13, "FFLLSSSSYY**CCWWLLLLPPPPHHQQRRRRIIMMTTTTNNKKSSGGVVVVAAAADDEEGGGG", []string{"ATG", "ATA"}, []string{"ATA", "ATG", "GTG", "TTG"}},
	{14, "FFLLSSSSYYY*CCWWLLLLPPPPHHQQRRRRIIIMTTTTNNNKSSSSVVVVAAAADDEEGGGG", []string{"ATG"}, []string{"ATG"}},
	{15, "FFLLSSSSYY*QCC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG", []string{"ATG"}, []string{"ATG"}},
	{16, "FFLLSSSSYY*LCC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG", []string{"ATG"}, []string{"ATG"}},
	{21, "FFLLSSSSYY**CCWWLLLLPPPPHHQQRRRRIIMMTTTTNNNKSSSSVVVVAAAADDEEGGGG", []string{"ATG", "ATA"}, []string{"ATG", "GTG"}},
	{22, "FFLLSS*SYY*LCC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG", []string{"ATG"}, []string{"ATG"}},
	{23, "FF*LSSSSYY**CC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG", []string{"ATG"}, []string{"ATG", "ATT", "GTG"}},
	{24, "FFLLSSSSYY**CCWWLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSSKVVVVAAAADDEEGGGG", []string{"ATG"}, []string{"ATG", "CTG", "GTG", "TTG"}},
	{25, "FFLLSSSSYY**CCGWLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG", []string{"ATG", "GTG", "TTG"}, []string{"ATG", "GTG", "TTG"}},
	{26, "FFLLSSSSYY**CC*WLLLAPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG", []string{"ATG"}, []string{"ATG", "CTG"}},
	{27, "FFLLSSSSYYQQCCWWLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG", []string{"ATG"}, []string{"ATG"}},
	{28, "FFLLSSSSYYQQCCWWLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG", []string{"ATG"}, []string{"ATG"}},
	{29, "FFLLSSSSYYYYCC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG", []string{"ATG"}, []string{"ATG"}},
	{30, "FFLLSSSSYYEECC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG", []string{"ATG"}, []string{"ATG"}},
	{31, "FFLLSSSSYYEECCWWLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG", []string{"ATG"}, []string{"ATG"}},
	{32, "FFLLSSSSYY*WCC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG", []string{"ATG"}, []string{"ATA", "ATC", "ATG", "ATT", "CTG", "GTG", "TTG"}},
	{33, "FFLLSSSSYYY*CCWWLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSSKVVVVAAAADDEEGGGG", []string{"ATG"}, []string{"ATG", "CTG", "GTG", "TTG"}},
}
