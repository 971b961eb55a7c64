// Package bam has what is needed of BAM wherever its records are written.
package bam

// Bin is the number of the smallest bin that holds [start, end), from 0 (SAM specification 5.3); of a
// record without a position 4680.
func Bin(start, end int) uint16 {
	end--
	for shift, first := 14, ((1<<15)-1)/7; shift <= 26; shift, first = shift+3, (first-1)/8 {
		if start>>shift == end>>shift {
			return uint16(first + start>>shift)
		}
	}
	return 0
}
