package variant

// Base qualities are kept as one of binCount bins. What a bin means is measured
// from the reads themselves (see errorCounts), so the bounds need only separate
// what basecallers separate.
const (
	binCount  = 8
	noQuality = 0 // the bin of a base without a quality
)

// binOf maps a Phred quality to its bin.
func binOf(q byte) byte {
	switch {
	case q < 5:
		return 1
	case q < 8:
		return 2
	case q < 11:
		return 3
	case q < 15:
		return 4
	case q < 20:
		return 5
	case q < 28:
		return 6
	}
	return 7
}

// packBins keeps the bins of qualities, two to a byte; nil for none.
func packBins(qualities []byte) []byte {
	if len(qualities) == 0 {
		return nil
	}
	out := make([]byte, (len(qualities)+1)/2)
	for i, q := range qualities {
		out[i/2] |= binOf(q) << (4 * (i & 1))
	}
	return out
}

// bin is the bin of the segment's i-th base.
func (s *segment) bin(i int) byte {
	if s.bins == nil {
		return noQuality
	}
	return s.bins[i/2] >> (4 * (i & 1)) & 0xf
}
