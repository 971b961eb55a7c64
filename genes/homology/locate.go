package homology

import "math"

// Place is where a part of a protein is in a longer text of residues.
type Place struct {
	Start, End int // of the part, half open
	From, To   int // of the text
	Identity   float64
	Score      int // in half bits of BLOSUM62
}

// Locate finds the best place of a part of a protein in a translation, in which stops are '*'. It is false if the place is no better than what
// would come by chance expect times.
func Locate(part, text []byte, expect float64, w *Workspace) (Place, bool) {
	a, b := encode(nil, part), encode(nil, text)
	if len(a) == 0 || len(b) == 0 {
		return Place{}, false
	}
	// The band has all pairs: its first cell is before b in each row, and its last one is b's last or behind it.
	got := w.align(a, b, (len(b)-len(a))>>1, (len(a)+len(b)+1)/2)
	if got.columns == 0 || kappa*float64(len(a))*float64(len(b))*math.Exp(-lambda*float64(got.score)) > expect {
		return Place{}, false
	}
	return Place{got.fromA, got.toA, got.fromB, got.toB, float64(got.identical) / float64(got.columns), got.score}, true
}
