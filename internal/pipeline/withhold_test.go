package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/modbase/stage/methylation"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// Where the newest of something is withheld, no older one is listed in its place, until a newer one is added; what is withheld late changes nothing.
func TestWithhold(t *testing.T) {
	reference := func(revision uint64, blocks ...event.ReferenceBlock) stream.Record {
		o, err := (&event.Reference{Run: "run", Sample: "s", Revision: revision, Stretch: event.Stretch{Contig: "chr1", Pos: 1, End: 10}, Blocks: blocks}).Record("variants")
		require.NoError(t, err)
		return stream.Record{Topic: "variants", Key: o.Key, Value: o.Value, Headers: o.Headers}
	}
	counts := func(revision uint64) stream.Record {
		s := methylation.Stretch{SchemaVersion: methylation.SchemaVersion, Run: "r", Sample: "s", Revision: revision, Status: methylation.Final, Stretch: event.Stretch{Contig: "chr1", Pos: 1, End: 10},
			Code: "a", Haplotype: 1, PhaseSets: []int64{1}, Sites: methylation.NewSites()}
		s.Sites.Add(&pileup.Row{Pos: 3, Strand: pileup.Plus, Canonical: 10})
		o, err := s.Record("methylation")
		require.NoError(t, err)
		return stream.Record{Topic: o.Topic, Key: o.Key, Value: o.Value, Headers: o.Headers}
	}
	fold, methylated := NewFold(1), NewMethylationFold(1)
	g := testGenome(t)
	listed := func() (n [6]int) {
		rows := 0
		require.NoError(t, methylated.Rows("s", 0, rank, func(string, *pileup.Row) error { rows++; return nil }))
		return [6]int{len(fold.Variants("s", rank)), len(fold.Samples()), len(fold.ReferenceRecords("s", g).regions), len(methylated.Samples()), len(methylated.Haplotypes("s")), rows}
	}
	take := func(revision uint64, put func(stream.Record) error, counted func(stream.Record) error) {
		require.NoError(t, put(variantRecord(t, "s", "chr1", 3, revision, streampb.CallStatus_PROVISIONAL)))
		require.NoError(t, put(reference(revision)))
		require.NoError(t, counted(counts(revision)))
	}
	add := func(revision uint64) {
		take(revision, func(r stream.Record) error { _, err := fold.Add(r); return err }, func(r stream.Record) error { _, err := methylated.Add(r); return err })
	}
	withhold := func(revision uint64) { take(revision, fold.Withhold, methylated.Withhold) }
	add(1)
	all := listed()
	require.NotContains(t, all[:5], 0)
	withhold(2)
	require.Equal(t, [6]int{}, listed())
	for _, v := range fold.latest { // what is kept doesn't grow with what events say
		require.Equal(t, event.Variant{Sample: "s", Revision: 2}, *v)
	}
	for _, ref := range fold.references {
		require.Zero(t, ref.record)
	}
	for _, s := range methylated.latest {
		require.Equal(t, methylation.Stretch{Sample: "s", Revision: 2}, *s)
	}
	add(1)
	add(2)
	require.Equal(t, [6]int{}, listed())
	add(3)
	require.Equal(t, all, listed())
	withhold(2)
	require.Equal(t, all, listed())
	for _, broken := range []string{event.TypeVariant, event.TypeReference} {
		require.Error(t, fold.Withhold(stream.Record{Key: []byte("k"), Value: []byte("null"), Headers: []stream.Header{{Key: "ce_type", Value: []byte(broken)}}}))
	}
}
