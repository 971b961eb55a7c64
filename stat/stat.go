// Package stat has the statistics that several rooms need.
package stat

// Number is what can be ordered and averaged.
type Number interface {
	~int16 | ~int32 | ~int64 | ~float32 | ~float64
}

// Quantile returns the q-quantile of sorted values, q from 0 to 1, by linear interpolation between
// the two nearest (type 7 of Hyndman and Fan, "Sample Quantiles in Statistical Packages", 1996, which
// NumPy and R use by default). It is 0 if there are no values.
func Quantile[T Number](sorted []T, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	position := float64(q * float64(len(sorted)-1))
	lower := min(int(position), len(sorted)-1)
	upper := min(lower+1, len(sorted)-1)
	return float64(sorted[lower]) + float64((position-float64(lower))*(float64(sorted[upper])-float64(sorted[lower])))
}
