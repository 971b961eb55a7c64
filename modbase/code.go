package modbase

import (
	"fmt"
	"strconv"
)

// Code names a modification: the ASCII code of a letter, or the negative of a number in
// ChEBI, as htslib has it.
type Code int32

// String is the code as MM has it.
func (c Code) String() string {
	if c < 0 {
		return strconv.Itoa(int(-c))
	}
	return string(rune(c))
}

// Compare orders codes: letters as in ASCII, and then numbers.
func (c Code) Compare(other Code) int {
	rank := func(c Code) int64 {
		if c < 0 {
			return 256 - int64(c)
		}
		return int64(c)
	}
	switch a, b := rank(c), rank(other); {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// ParseCode reads a code that stands alone.
func ParseCode(text string) (Code, error) {
	if len(text) == 1 && letter(text[0]) {
		return Code(text[0]), nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n <= 0 || text[0] == '+' {
		return 0, fmt.Errorf("%q: want a letter, such as m, or a number of ChEBI", text)
	}
	return Code(-n), nil
}

func letter(b byte) bool { return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' }

// listed are the letters that the specification gives a meaning, by the base that they are
// modifications of. A base's own letter stands for any modification of it.
var listed = map[Code]byte{
	'm': 'C', 'h': 'C', 'f': 'C', 'c': 'C', 'C': 'C',
	'g': 'T', 'e': 'T', 'b': 'T', 'T': 'T', 'U': 'T',
	'a': 'A', 'A': 'A', 'o': 'G', 'G': 'G', 'n': 'N', 'N': 'N',
}

// Known reports whether the specification says what a code means. Of numbers ChEBI does.
func (c Code) Known() bool {
	return c < 0 || listed[c] != 0
}
