package event_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/stream/streampb"
)

// A motif is summed over regions, each once, whatever the order in which its alleles come. Retracted alleles, and
// those without a motif, count for nothing.
func TestMotifCountsDoNotDependOnTheOrder(t *testing.T) {
	gatc := func(sites, affected uint32, reads, wrong uint64) *event.Motif {
		return &event.Motif{Motif: "GATC", Base: 2, Shows: "G", Sites: sites, Affected: affected, Reads: reads, Wrong: wrong}
	}
	type allele struct {
		sample, contig string
		pos            int64
		motif          *event.Motif
		status         string
	}
	alleles := []allele{
		{"a", "c", 100, gatc(90, 80, 800, 300), "FINAL"},
		{"a", "c", 900_000, gatc(100, 95, 900, 400), "FINAL"}, // the same region, later
		{"a", "c", 1_000_001, gatc(50, 40, 100, 100), "FINAL"},
		{"a", "d", 100, gatc(10, 10, 100, 50), "STABLE"},
		{"a", "d", 101, gatc(700, 700, 9000, 9000), "RETRACTED"},
		{"a", "d", 102, nil, "FINAL"},
		{"b", "c", 100, &event.Motif{Motif: "CCWGG", Base: 2, Shows: "T", Sites: 8, Affected: 7, Reads: 50, Wrong: 20}, "FINAL"},
	}
	want := []event.MotifCount{
		{Sample: "a", Motif: "GATC", Base: 2, Shows: "G", Sites: 160, Affected: 145, Share: 0.5, Alleles: 4},
		{Sample: "b", Motif: "CCWGG", Base: 2, Shows: "T", Sites: 8, Affected: 7, Share: 0.4, Alleles: 1},
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		rng.Shuffle(len(alleles), func(i, j int) { alleles[i], alleles[j] = alleles[j], alleles[i] })
		var counts event.MotifCounts
		for _, a := range alleles {
			counts.Add(a.sample, event.Allele{Contig: a.contig, Pos: a.pos}, a.motif, a.status)
		}
		require.Equal(t, want, counts.List())
	}
	require.Equal(t, "base 2 of GATC is read as G at 145 of 160 sites, by 50 % of one strand's reads there: 4 alleles of sample a are marked MotifArtifact", want[0].String())
	require.Empty(t, new(event.MotifCounts).List())
}

// The motif of a call comes back out of its event.
func TestMotifOfAnEvent(t *testing.T) {
	c := &streampb.Call{
		Contig: "c", Pos: 3, Ref: "A", Alt: "G", Genotype: []uint32{0, 1}, Filters: []string{"MotifArtifact"},
		Motif: &streampb.MotifError{Motif: "CCWGG", Base: 2, Shows: "T", Sites: 8, Affected: 7, Reads: 50, Wrong: 20},
	}
	v := event.FromCall(c, annotate.Annotation{})
	require.False(t, v.Passed())
	require.Equal(t, c.GetMotif().String(), v.ToCall().GetMotif().String())
	document, err := v.JSON()
	require.NoError(t, err)
	require.Contains(t, string(document), `"motif":{"motif":"CCWGG","base":2,"shows":"T","sites":8,"affected":7,"reads":50,"wrong":20}`)
	require.Nil(t, event.MotifOf(&streampb.Call{}))
}
