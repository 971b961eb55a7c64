package basecall

import (
	"math"

	"github.com/porestream/porestream/models/calibration"
)

// Range of Phred scores that are reported for bases.
const (
	minQuality = 1
	maxQuality = 50
)

// calibrator turns the probability of a base into its Phred score.
type calibrator struct {
	scale, bias float64
	curve       calibration.Curve
}

// phred returns the curve at -10 log10(1-p) * scale + bias, rounded and limited to 1..50.
func (c calibrator) phred(p float32) byte {
	wrong := max(1-float64(p), 1e-9)
	q := c.curve.At(-10*math.Log10(wrong)*c.scale + c.bias)
	return byte(math.Round(min(maxQuality, max(minQuality, q))))
}

// baseProbability returns how probable a base is, from the posteriors of the
// frames from its emission up to the next base's: the highest posterior that its
// class reaches there. A network trained by CTC emits a base in one or two frames
// and blanks until the next, so that a mean over the frames would measure how
// long the base lasted.
func baseProbability(posteriors []float32, classes int, class uint8) float32 {
	best := float32(0)
	for i := int(class); i < len(posteriors); i += classes {
		best = max(best, posteriors[i])
	}
	return best
}

// errorProbabilities holds the error probability of each reported Phred score.
var errorProbabilities = func() (p [maxQuality + 1]float64) {
	for q := range p {
		p[q] = math.Pow(10, -float64(q)/10)
	}
	return p
}()

// meanQuality returns the Phred score of the mean error probability of bases; 0
// if there are none. A read's errors add up, its Phred scores don't.
func meanQuality(qualities []byte) float64 {
	if len(qualities) == 0 {
		return 0
	}
	sum := 0.0
	for _, q := range qualities {
		sum += errorProbabilities[min(q, maxQuality)]
	}
	return -10 * math.Log10(sum/float64(len(qualities)))
}
