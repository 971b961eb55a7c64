package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/variant/carryover"
	"github.com/porestream/porestream/watchlist"
)

// TestDoubtful: which answers carry-over makes doubtful, and what they become.
func TestDoubtful(t *testing.T) {
	share := 0.9
	marked := []*event.Variant{
		{Sample: "s", Allele: event.Allele{VRSID: "one", Contig: "c", Pos: 7, Ref: "A", Alt: "G"}, Call: event.Call{CarryOver: &event.CarryOver{Explained: true, Share: &share, Basis: "hopping", Control: "water", ControlAlt: 2, ControlDepth: 3}},
			Annotation: annotate.Annotation{Consequences: []annotate.Consequence{{Gene: &annotate.Gene{Symbol: "RT"}, HGVSp: "RT:p.Met184Val"}}}},
		{Sample: "s", Allele: event.Allele{VRSID: "two", Contig: "c", Pos: 9, Ref: "A", Alt: "G"}, Call: event.Call{CarryOver: &event.CarryOver{Explained: true, Share: &share, Basis: "hopping", Control: "water"}}},
	}
	alleles := func(ids ...string) (list []watchlist.AlleleState) {
		for _, id := range ids {
			list = append(list, watchlist.AlleleState{VRSID: id, State: watchlist.Detected})
		}
		return list
	}
	model := func(feature string, effect float64) *watchlist.ModelAnswer {
		return &watchlist.ModelAnswer{Class: "RESISTANT", Drivers: []watchlist.Driver{{Feature: "RT:K103N", Effect: 0.5}, {Feature: feature, Effect: effect}}}
	}
	for _, tt := range []struct {
		name  string
		alert watchlist.Alert
		want  watchlist.State // empty: it stays
	}{
		{"an allele that is marked", watchlist.Alert{State: watchlist.Detected, Allele: &event.Allele{VRSID: "one"}}, watchlist.Suspected},
		{"one that isn't", watchlist.Alert{State: watchlist.Detected, Allele: &event.Allele{VRSID: "other"}}, ""},
		{"a rule all of whose alleles are", watchlist.Alert{State: watchlist.Detected, Alleles: alleles("one", "two"), AlleleCount: 2}, watchlist.Suspected},
		{"a rule with one that isn't", watchlist.Alert{State: watchlist.Detected, Alleles: alleles("one", "other"), AlleleCount: 2}, ""},
		{"a rule with more than it lists", watchlist.Alert{State: watchlist.Detected, Alleles: alleles("one", "two"), AlleleCount: 102}, ""},
		{"a suspicion", watchlist.Alert{State: watchlist.Suspected, Allele: &event.Allele{VRSID: "one"}}, ""},
		{"an absence", watchlist.Alert{State: watchlist.Negative, Allele: &event.Allele{VRSID: "one"}}, ""},
		{"a model that a marked change drives", watchlist.Alert{State: watchlist.Resistant, Model: model("RT:M184V", 0.3)}, watchlist.NotCallable},
		{"a model that it speaks against", watchlist.Alert{State: watchlist.Resistant, Model: model("RT:M184V", -0.3)}, ""},
		{"a model that looks elsewhere", watchlist.Alert{State: watchlist.Resistant, Model: model("PR:M184V", 0.3)}, ""},
		{"another codon", watchlist.Alert{State: watchlist.Intermediate, Model: model("RT:M18V", 0.3)}, ""},
		{"a model of alleles", watchlist.Alert{State: watchlist.Intermediate, Model: model("c:7:A:G", 0.3)}, watchlist.NotCallable},
		{"a model's SUSCEPTIBLE", watchlist.Alert{State: watchlist.Susceptible, Model: model("RT:M184V", 0.3)}, ""},
	} {
		before := tt.alert.State
		got := doubtful(&tt.alert, marked)
		require.Equal(t, before, tt.alert.State, tt.name)
		if tt.want == "" {
			require.Nil(t, got, tt.name)
			continue
		}
		require.NotNil(t, got, tt.name)
		require.Equal(t, tt.want, got.State, tt.name)
		require.True(t, got.CarryOver.Explained, tt.name)
		require.Contains(t, got.Reason, "carry-over explains c:7 A>G", tt.name)
		require.Contains(t, got.Reason, "at most 90 % of its reads are carry-over, by reads of other samples (control water: 2 of 3 reads)", tt.name)
		for _, a := range got.Alleles {
			require.Equal(t, watchlist.Suspected, a.State, tt.name)
		}
		for _, a := range tt.alert.Alleles {
			require.Equal(t, watchlist.Detected, a.State, "%s: the alert that was known is left as it is", tt.name)
		}
	}
}

// TestCarriedWarnings: controls without reads, and what isn't bounded, are reported to readers of the results.
func TestCarriedWarnings(t *testing.T) {
	require.Empty(t, (*Carried)(nil).Warnings())
	c := &Carried{Silent: []string{"water"}}
	s := c.Samples["a"]
	require.Zero(t, s)
	s.Assessed, s.Marked, s.Unbounded = 5, 2, 1
	c.Samples = map[string]carryover.Summary{"a": s}
	require.Equal(t, []string{
		"control water has no read at any allele that was called: it is clean, or nothing of it was sequenced",
		"2 alleles of samples are explained by carry-over and marked CarryOver",
		"1 alleles are not bounded by the controls, which have no reads there or have the alleles themselves",
	}, c.Warnings())
}
