package pileup

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseThresholds reads least probabilities of calls that count, each from 0 to 1, of all bases or of one,
// such as C:0.8. Given reports for which bases there is one; later ones count.
func ParseThresholds(texts []string) (t Thresholds, given [4]bool, err error) {
	for _, text := range texts {
		of, value, ok := strings.Cut(text, ":")
		if !ok {
			of, value = bases, text
		}
		p, err := strconv.ParseFloat(value, 64)
		if err != nil || !(p >= 0 && p <= 1) || of != bases && (len(of) != 1 || !strings.Contains(bases, of)) {
			return t, given, fmt.Errorf("%q: want a probability from 0 to 1, or one of a base, such as C:0.8", text)
		}
		for i := range len(bases) {
			if strings.IndexByte(of, bases[i]) >= 0 {
				t[i], given[i] = Threshold(p), true
			}
		}
	}
	return t, given, nil
}
