package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant/carryover"
)

// TestCarriedWarnings: controls without reads, and what isn't bounded, are reported to readers of the results.
func TestCarriedWarnings(t *testing.T) {
	require.Empty(t, (*Carried)(nil).Warnings())
	c := &Carried{Silent: []string{"water"}, Unassessed: []string{"run-7"}}
	s := c.Samples["a"]
	require.Zero(t, s)
	s.Assessed, s.Marked, s.Unbounded = 5, 2, 1
	c.Samples = map[string]carryover.Summary{"a": s}
	require.Equal(t, []string{
		"control water has no read at any allele that was called, so it bounds nothing: was it sequenced?",
		"carry-over of run run-7 is not assessed, and no allele marked: its samples are called with too many alleles (docs/files/carryover.md); pore carryover marks their files",
		"2 alleles of samples are explained by carry-over and marked CarryOver",
		"1 alleles are not bounded by the controls, which have no reads there, or none at all, or have the alleles themselves",
	}, c.Warnings())
}

// TestUnassessedRuns: a run with controls is listed if a sample's final allele has no assessment; controls, runs without controls and calls that aren't final don't count.
func TestUnassessedRuns(t *testing.T) {
	runs := []*streampb.Run{{Id: "many", Samples: []string{"a", "water"}}, {Id: "few", Samples: []string{"b", "dull"}}, {Id: "bare", Samples: []string{"c"}}}
	controls := map[string]carryover.Controls{"many": {"water": carryover.NoTemplate}, "few": {"dull": carryover.Negative}}
	of := func(sample, status string, c *event.CarryOver) *event.Variant {
		return &event.Variant{Sample: sample, Status: status, Call: event.Call{CarryOver: c}}
	}
	fold := &Fold{newest: newest[event.Variant]{latest: map[string]*event.Variant{
		"1": of("b", "FINAL", &event.CarryOver{}), "2": of("b", "RETRACTED", nil), "3": of("dull", "FINAL", nil), "4": of("c", "FINAL", nil), "5": of("a", "STABLE", nil), "6": of("water", "FINAL", nil),
	}}}
	require.Empty(t, unassessed(fold, runs, controls))
	fold.latest["7"] = of("a", "FINAL", nil)
	require.Equal(t, []string{"many"}, unassessed(fold, runs, controls))
}
