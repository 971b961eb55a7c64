package modbase

import "strings"

// letters are IUPAC's for sets of bases, which are bits in the order ACGT.
const letters = "-ACMGRSVTWYHKDBN"

// BaseSet is the bases that a letter of IUPAC's stands for, as bits in the order ACGT; 0 if it is none.
func BaseSet(letter byte) uint8 { return uint8(max(0, strings.IndexByte(letters, letter))) }

// Letter is the letter of IUPAC's for a set of bases, as [BaseSet] has it; a dash for none.
func Letter(set uint8) byte { return letters[set] }
