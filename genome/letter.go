package genome

import "strings"

// iupac are IUPAC's letters for sets of bases (IUPAC-IUB, 1984), which are bits in the order ACGT.
const iupac = "-ACMGRSVTWYHKDBN"

// BaseSet is the bases that a letter of IUPAC's stands for, as bits in the order ACGT; 0 if it is none.
func BaseSet(letter byte) uint8 { return uint8(max(0, strings.IndexByte(iupac, letter))) }

// Letter is the letter of IUPAC's for a set of bases, as [BaseSet] has it; a dash for none.
func Letter(set uint8) byte { return iupac[set] }
