package bench

import "slices"

// quantile returns the q-quantile of values with linear interpolation between the
// two nearest ranks; 0 of none.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	position := q * float64(len(sorted)-1)
	k := int(position)
	upper := sorted[min(k+1, len(sorted)-1)]
	return sorted[k] + (position-float64(k))*(upper-sorted[k])
}
