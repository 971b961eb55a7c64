// Package calibration corrects what networks say of how sure they are, so that of
// what has a quality of 20 one in a hundred is wrong.
package calibration

import "math"

// Curve leads from [0, 0] through its points [x, y], which rise, straight from one
// to the next; beyond the last it stays at its height. An empty curve changes
// nothing.
type Curve [][2]float64

// maxCurve is far more points than a calibration can be measured at.
const maxCurve = 1000

// At is the curve's value at x. Below 0 it goes on as it begins.
func (c Curve) At(x float64) float64 {
	if len(c) == 0 {
		return x
	}
	x0, y0 := 0.0, 0.0
	for _, point := range c {
		x1, y1 := point[0], point[1]
		if x < x1 {
			// The conversion keeps compilers from fusing the operations, which
			// would round differently on some processors.
			return y0 + float64((x-x0)/(x1-x0)*(y1-y0))
		}
		x0, y0 = x1, y1
	}
	return y0
}

// Validate calls check for every point; key is what the curve is called in faults.
func (c Curve) Validate(key string, check func(ok bool, format string, args ...any)) {
	check(len(c) <= maxCurve, "%s has %d points, more than %d", key, len(c), maxCurve)
	x, y := 0.0, 0.0
	for i, point := range c {
		check(point[0] > x && !math.IsInf(point[0], 0), "%s: point %d is at %v, not beyond %v", key, i+1, point[0], x)
		// From a curve that stays 0, something improbable would come out impossible.
		check(point[1] >= y && point[1] > 0 && !math.IsInf(point[1], 0), "%s: point %d has the value %v, below %v or not positive", key, i+1, point[1], y)
		x, y = point[0], point[1]
	}
}
