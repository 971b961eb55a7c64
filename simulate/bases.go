package simulate

// letters are the bases in the order of their codes: complements add up to 3.
const letters = "ACGT"

// code maps a letter to its base's code, and any letter other than A, C, G and T to 4.
var code = func() (t [256]byte) {
	for i := range t {
		t[i] = 4
	}
	for i := range len(letters) {
		t[letters[i]] = byte(i)
		t[letters[i]|0x20] = byte(i)
	}
	return t
}()
