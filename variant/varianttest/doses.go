// Package varianttest has a network for tests of all that calls variants by one.
package varianttest

import (
	"math"
	"sync/atomic"
)

// The layout of examples and of scores, as package variant has it: its tests, which use this package too, hold these numbers to its own.
const (
	Example = 48*41 + 80 // floats of an example
	Doses   = 48*41 + 24 // where the log likelihoods of 0, 1 and 2 of 2 copies by independent reads are, as asinh(x)/5
	Copies  = 6          // scores of copies: of the allele, and as if it were the only one
	Scores  = 39
)

// DoseNetwork is a network that knows only what independent reads say about the
// number of copies, which is in the examples, and how rare variants are. The zero
// value scores all that it is asked for.
type DoseNetwork struct {
	// Err, if it is set, is what Score fails with; Fails, if it is set, says for each call, from 1, whether it fails.
	Err   error
	Fails func(call int) error

	Calls, Scored atomic.Int64 // of Score, and examples
}

// Score is variant.Network's.
func (n *DoseNetwork) Score(dst, examples []float32) ([]float32, error) {
	call := int(n.Calls.Add(1))
	err := n.Err
	if err == nil && n.Fails != nil {
		err = n.Fails(call)
	}
	if err != nil {
		return dst, err
	}
	for ; len(examples) > 0; examples = examples[Example:] {
		n.Scored.Add(1)
		logs := [3]float64{0, math.Log(1e-3), math.Log(5e-4)}
		sum := math.Inf(-1)
		for i := range logs {
			logs[i] += math.Sinh(float64(5 * examples[Doses+i]))
			sum = logAdd(sum, logs[i])
		}
		for range Copies / len(logs) {
			for _, l := range logs {
				dst = append(dst, float32(min(0, l-sum)))
			}
		}
		for range Scores - Copies {
			dst = append(dst, float32(-math.Log(Scores-Copies)))
		}
	}
	return dst, nil
}

// Fingerprint is variant.Network's.
func (n *DoseNetwork) Fingerprint() string { return "doses" }

// logAdd is log(exp(a) + exp(b)).
func logAdd(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if math.IsInf(b, -1) {
		return a
	}
	return a + math.Log1p(math.Exp(b-a))
}
