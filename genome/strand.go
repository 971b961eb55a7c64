package genome

import "slices"

// complements maps a base, U for T as well, to the one that pairs with it, in upper case; all else to N. A table, because a
// switch is mispredicted at every other base.
var complements = func() (t [256]byte) {
	for i := range t {
		t[i] = 'N'
	}
	for i, letters := range []string{"Aa", "Cc", "Gg", "TtUu"} {
		for _, b := range []byte(letters) {
			t[b] = "TGCA"[i]
		}
	}
	return t
}()

// Complement is the base that pairs with b, as in [ReverseComplement].
func Complement(b byte) byte { return complements[b] }

// ReverseComplement makes seq the other strand, in place and in upper case; letters but A, C, G, T and U become N.
func ReverseComplement(seq []byte) {
	slices.Reverse(seq)
	for i, b := range seq {
		seq[i] = complements[b]
	}
}
