package source

import (
	"hash/fnv"
	"strings"

	"github.com/porestream/porestream/vrs"
)

// An allele's code is what, with the place where the change begins, identifies it: the number of reference bases (4
// bits), the number of new bases (4 bits) and the new bases (2 bits each, the first the highest). Alleles that do not
// fit have 15 in the first 4 bits and a hash in the rest, and their record spells them.
const (
	maxCodedRef = 14
	maxCodedAlt = 12
	longCode    = 15 << 28
)

// code is the code of a trimmed, left-aligned change.
func code(e vrs.Edit) uint32 {
	if len(e.Ref) <= maxCodedRef && len(e.Alt) <= maxCodedAlt {
		c, ok := uint32(len(e.Ref)<<4|len(e.Alt)), true
		var bases uint32
		for i := range len(e.Alt) {
			b := strings.IndexByte("ACGT", e.Alt[i])
			ok = ok && b >= 0
			bases = bases<<2 | uint32(b)&3
		}
		if ok {
			return c<<24 | bases
		}
	}
	h := fnv.New32a()
	var span [8]byte
	_, _ = h.Write(appendUvarint(span[:0], uint64(len(e.Ref))))
	_, _ = h.Write([]byte(e.Alt))
	return longCode | h.Sum32()>>4
}

// codedRef is the number of reference bases of a code that is not long.
func codedRef(c uint32) int { return int(c >> 28) }

// isLong reports whether the record spells the allele.
func isLong(c uint32) bool { return c >= longCode }

// rowKey orders alleles of a contig: by the place where they begin, then by code.
func rowKey(start int, c uint32) uint64 { return uint64(start)<<32 | uint64(c) }
