package basecall

import "math"

// Range of Phred scores that are reported for bases.
const (
	minQuality = 1
	maxQuality = 50
)

// rawQuality returns -10 log10(1-p) of a base of probability p, 90 at most.
func rawQuality(p float32) float64 {
	return -10 * math.Log10(max(1-float64(p), 1e-9))
}

// rate sets the qualities of a window's bases, of which raw are the raw ones. Conversions keep compilers
// from fusing operations, which would round differently on some processors.
func (m *QualityManifest) rate(bases []base, raw []float64) {
	for i := range bases {
		q := raw[i]
		if m.Neighbours > 0 {
			q = min(q, maxQuality)
			if mean, ok := around(raw, i, m.Neighbours); ok {
				q += float64(m.NeighbourShare * (mean - q))
			}
		}
		q = m.Curve.At(float64(q*m.Scale) + m.Bias)
		bases[i].quality = byte(math.Round(min(maxQuality, max(minQuality, q))))
	}
}

// around returns the mean raw quality of so many bases on either side of one; false if
// it has none. One of which nothing seems to be wrong counts no more than the best score.
func around(raw []float64, i, neighbours int) (mean float64, ok bool) {
	from, to := max(0, i-neighbours), min(len(raw), i+neighbours+1)
	if to-from == 1 {
		return 0, false
	}
	sum := 0.0
	for j, q := range raw[from:to] {
		if from+j != i {
			sum += min(q, maxQuality)
		}
	}
	return sum / float64(to-from-1), true
}

// errorProbabilities holds the error probability of each reported Phred score.
var errorProbabilities = func() (p [maxQuality + 1]float64) {
	for q := range p {
		p[q] = math.Pow(10, -float64(q)/10)
	}
	return p
}()

// MeanQuality returns the Phred score of the mean error probability of bases; 0
// if there are none. A read's errors add up, its Phred scores don't.
func MeanQuality(qualities []byte) float64 {
	if len(qualities) == 0 {
		return 0
	}
	sum := 0.0
	for _, q := range qualities {
		sum += errorProbabilities[min(q, maxQuality)]
	}
	return -10 * math.Log10(sum/float64(len(qualities)))
}
