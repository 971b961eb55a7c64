package crf

import "math"

// rootsOfTwo are 2^(2r/5).
var rootsOfTwo = [5]float64{1, 1.3195079107728942, 1.7411011265922482, 2.29739670999407, 3.0314331330207964}

// power returns x to the power of 0.4, which brings the posterior probabilities of states closer to how
// often bases are right and is part of the definition of Dorado's qualities; 0 for what isn't positive.
//
// A GPU has to come to the same bits (basecall/kernels), so that it is made of operations that
// IEEE 754 defines: Newton's method for the fifth root of the square, from a parabola that is
// off by 1 in 1,000. Three steps leave an error far below what float32 shows.
func power(x float32) float32 {
	if !(x > 0) {
		return 0
	}
	bits := math.Float64bits(float64(x))
	exponent := int(bits>>52) - 1023
	fifth := (exponent+2000)/5 - 400 // rounded down
	rest := exponent - 5*fifth
	m := math.Float64frombits(bits&(1<<52-1) | 1023<<52)
	square := float64(m*m) * float64(uint64(1)<<(2*rest))
	y := (0.55371 + float64(m*(0.51185-float64(m*0.06462)))) * rootsOfTwo[rest]
	for range 3 {
		y2 := float64(y * y)
		y = float64(0.8*y) + float64(0.2*(square/float64(y2*y2)))
	}
	return float32(y * math.Float64frombits(uint64(1023+2*fifth)<<52))
}
