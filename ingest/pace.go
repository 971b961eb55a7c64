package ingest

import (
	"fmt"
	"math"
	"strconv"
)

// ParsePace reads a pace as users write it: a factor of the recording's own
// clock, or "max", which is 0 in [Config].
func ParsePace(s string) (float64, error) {
	if s == "max" {
		return 0, nil
	}
	pace, err := strconv.ParseFloat(s, 64)
	if err != nil || !(pace > 0) || math.IsInf(pace, 0) {
		return 0, fmt.Errorf("%q is neither a positive number nor max", s)
	}
	return pace, nil
}
