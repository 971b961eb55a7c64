package modbase

// BaseSet is the bases that a letter of IUPAC's stands for, as bits in the order ACGT; 0 if it is none.
func BaseSet(letter byte) uint8 { return iupac[letter] }

var iupac = map[byte]uint8{
	'A': 1, 'C': 2, 'G': 4, 'T': 8, 'R': 5, 'Y': 10, 'S': 6, 'W': 9, 'K': 12, 'M': 3, 'B': 14, 'D': 13, 'H': 11, 'V': 7, 'N': 15,
}
