package pipeline

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/monitor"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// TestDiplotypesInAnyOrder: partitions are read one after the other, so what was said at the end comes before what was said on the way, and calls before or behind
// the stretches around them. What is FINAL is the same whenever it is said, and is said last.
func TestDiplotypesInAnyOrder(t *testing.T) {
	l := newLab(t)
	record := func(o stream.Out, err error) stream.Record {
		require.NoError(t, err)
		return stream.Record{Topic: "variants", Key: o.Key, Value: o.Value, Headers: o.Headers}
	}
	reference := func(start, end int64, depth uint32, provisional bool, blocks ...[2]int64) stream.Record {
		r := &streampb.Reference{Run: "run", Sample: "s", Contig: "J02459.1", Start: start, End: end, Revision: uint64(depth), Provisional: provisional}
		for _, b := range blocks {
			r.Blocks = append(r.Blocks, &streampb.ReferenceBlock{Start: b[0], End: b[1], Depth: depth, MinDepth: depth, Quality: 50, PhredLikelihoods: []uint32{0, 60, 640}})
		}
		return record(event.FromReference(r).Record("variants"))
	}
	call := func(revision uint64, status streampb.CallStatus) stream.Record {
		return record(event.FromCall(&streampb.Call{
			Run: "run", Sample: "s", VrsId: "ga4gh:VA.x", Contig: "J02459.1", Pos: 37589, Ref: "C", Alt: "T", Revision: revision, Status: status,
			Qual: 50, Depth: 20, Genotype: []uint32{1, 1}, GenotypeQuality: 50,
		}, annotate.Annotation{}).Record("variants"))
	}
	records := []stream.Record{
		reference(36864, 40960, 9, true, [2]int64{36864, 40960}), // before the call
		reference(36864, 40960, 12, true, [2]int64{36864, 37588}, [2]int64{37589, 40960}),
		reference(45056, 48502, 9, true, [2]int64{45056, 48502}),
		reference(40960, 45056, 30, false, [2]int64{40960, 46300}), // goes on over the stretch behind
		call(1, streampb.CallStatus_PROVISIONAL),
		call(2, streampb.CallStatus_FINAL),
		reference(36864, 40960, 30, false, [2]int64{36864, 37588}, [2]int64{37589, 40960}),
		reference(45056, 48502, 30, false, [2]int64{46300, 48502}),
	}
	rng := rand.New(rand.NewPCG(7, 7))
	for range 500 {
		rng.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
		f := NewDiplotypeFold(l.namer, 1)
		var said []string
		for _, rec := range records {
			list, err := f.Add(rec)
			require.NoError(t, err)
			for _, n := range list {
				said = append(said, n.Text())
			}
		}
		for _, text := range said {
			if strings.HasPrefix(text, "FINAL") {
				require.Equal(t, "FINAL s cI *2/*2", text)
			}
		}
		require.Equal(t, "FINAL s cI *2/*2", said[len(said)-1])

		// The page's board, asked now and then, comes to the same.
		b := NewDiplotypeBoard(l.namer)
		var row monitor.Diplotype
		for i, rec := range records {
			require.NoError(t, b.Add(rec))
			if rng.IntN(3) == 0 || i == len(records)-1 {
				for _, row = range b.Changed(100) {
					require.Equal(t, "s/cI", row.ID)
				}
			}
		}
		require.Equal(t, "FINAL", row.Status)
		require.Equal(t, []string{"*2/*2"}, row.Diplotypes)
		require.Empty(t, b.Changed(100))
	}
}

// A call that isn't wanted any more is no allele of a diplotype any more.
func TestDiplotypesOfWithheldCalls(t *testing.T) {
	l := newLab(t)
	f := NewDiplotypeFold(l.namer, 1)
	record := func(o stream.Out, err error) stream.Record {
		require.NoError(t, err)
		return stream.Record{Topic: "variants", Key: o.Key, Value: o.Value, Headers: o.Headers}
	}
	call := func(revision uint64) stream.Record {
		return record(event.FromCall(&streampb.Call{
			Run: "run", Sample: "s", VrsId: "ga4gh:VA.x", Contig: "J02459.1", Pos: 37589, Ref: "C", Alt: "T", Revision: revision, Status: streampb.CallStatus_FINAL,
			Qual: 50, Depth: 20, Genotype: []uint32{1, 1}, GenotypeQuality: 50,
		}, annotate.Annotation{}).Record("variants"))
	}
	for start := int64(36864); start < 48502; start += align.RegionWidth {
		end := min(start+align.RegionWidth, 48502)
		_, err := f.Add(record(event.FromReference(&streampb.Reference{Run: "run", Sample: "s", Contig: "J02459.1", Start: start, End: end, Revision: 1, Blocks: []*streampb.ReferenceBlock{
			{Start: start, End: end, Depth: 30, MinDepth: 30, Quality: 50, PhredLikelihoods: []uint32{0, 60, 640}},
		}}).Record("variants")))
		require.NoError(t, err)
	}
	named, err := f.Add(call(1))
	require.NoError(t, err)
	require.Equal(t, "FINAL s cI *2/*2", named[0].Text())
	named, err = f.Withhold(call(2))
	require.NoError(t, err)
	require.Len(t, named, 1)
	require.NotContains(t, named[0].Text(), "*2/*2")
	require.Empty(t, f.Fold().Variants("s", l.genome.Rank))
}

// TestBoardOfManySamples: genes are named a few at a time, and samples beyond the limit are counted, not kept.
func TestBoardOfManySamples(t *testing.T) {
	b := NewDiplotypeBoard(newLab(t).namer)
	for i := range mostNamedSamples + 3 {
		sample := fmt.Sprintf("barcode%03d", i)
		o, err := event.FromReference(&streampb.Reference{Run: "run", Sample: sample, Contig: "J02459.1", Start: 36864, End: 40960, Revision: 9, Provisional: true}).Record("variants")
		require.NoError(t, err)
		require.NoError(t, b.Add(stream.Record{Topic: "variants", Key: o.Key, Value: o.Value, Headers: o.Headers}))
	}
	require.Equal(t, 3, b.LeftOut())
	seen := make(map[string]bool)
	for range 4 {
		rows := b.Changed(mostNamedSamples / 4)
		require.Len(t, rows, mostNamedSamples/4)
		for _, row := range rows {
			seen[row.ID] = true
		}
	}
	require.Len(t, seen, mostNamedSamples)
	require.Empty(t, b.Changed(1))
}

// TestBoardLeavesNobodyWaiting: a sample whose records come all the time doesn't keep others from being named, and what isn't there is an empty list in JSON.
func TestBoardLeavesNobodyWaiting(t *testing.T) {
	b := NewDiplotypeBoard(newLab(t).namer)
	add := func(sample string, revision uint64) {
		o, err := event.FromReference(&streampb.Reference{
			Run: "run", Sample: sample, Contig: "J02459.1", Start: 36864, End: 40960, Revision: revision, Provisional: true,
			Blocks: []*streampb.ReferenceBlock{{Start: 36864, End: 40960, Depth: uint32(revision), MinDepth: uint32(revision), Quality: 50, PhredLikelihoods: []uint32{0, 60, 640}}},
		}).Record("variants")
		require.NoError(t, err)
		require.NoError(t, b.Add(stream.Record{Topic: "variants", Key: o.Key, Value: o.Value, Headers: o.Headers}))
	}
	add("barcode02", 20)
	named := make(map[string]int)
	for revision := range uint64(4) {
		add("barcode01", 20+revision)
		for _, row := range b.Changed(1) {
			named[row.Sample]++
			text, err := json.Marshal(row)
			require.NoError(t, err)
			require.NotContains(t, string(text), "null")
		}
	}
	require.Equal(t, map[string]int{"barcode01": 1, "barcode02": 1}, named)
}

// BenchmarkBoard is 96 samples of a gene with a stretch each that changes: what a second of the page costs, records and naming.
func BenchmarkBoard(b *testing.B) {
	l := newLab(b)
	board := NewDiplotypeBoard(l.namer)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		o, err := event.FromReference(&streampb.Reference{
			Run: "run", Sample: fmt.Sprintf("barcode%02d", i%96), Contig: "J02459.1", Start: 36864, End: 40960, Revision: uint64(i + 1), Provisional: true,
			Blocks: []*streampb.ReferenceBlock{{Start: 36864, End: 40960, Depth: uint32(i/96 + 1), MinDepth: uint32(i/96 + 1), Quality: 50, PhredLikelihoods: []uint32{0, 60, 640}}},
		}).Record("variants")
		if err == nil {
			err = board.Add(stream.Record{Topic: "variants", Key: o.Key, Value: o.Value, Headers: o.Headers})
		}
		if err != nil {
			b.Fatal(err)
		}
		board.Changed(100)
	}
}
