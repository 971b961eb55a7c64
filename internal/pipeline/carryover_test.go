package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/variant/carryover"
)

// TestCarriedWarnings: controls without reads, and what isn't bounded, are reported to readers of the results.
func TestCarriedWarnings(t *testing.T) {
	require.Empty(t, (*Carried)(nil).Warnings())
	c := &Carried{Silent: []string{"water"}}
	s := c.Samples["a"]
	require.Zero(t, s)
	s.Assessed, s.Marked, s.Unbounded = 5, 2, 1
	c.Samples = map[string]carryover.Summary{"a": s}
	require.Equal(t, []string{
		"control water has no read at any allele that was called, so it bounds nothing: was it sequenced?",
		"2 alleles of samples are explained by carry-over and marked CarryOver",
		"1 alleles are not bounded by the controls, which have no reads there or have the alleles themselves",
	}, c.Warnings())
}
