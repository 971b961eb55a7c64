package stage

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/statetest"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
)

// nothingCalled is a network that calls nothing: reads have haplotypes without one.
type nothingCalled struct{}

func (nothingCalled) Score(dst, examples []float32) ([]float32, error) {
	return append(dst, make([]float32, len(examples)/variant.ExampleSize*variant.Scores)...), nil
}

func (nothingCalled) Fingerprint() string { return "nothing" }

// twoCopies is a genome of two regions, and segments of reads of a diploid sample where these meet; of a read's name the first letter is its copy.
func twoCopies(t testing.TB, run string, reads int) (*genome.Genome, []*streampb.Segment) {
	t.Helper()
	const begins, ends = align.RegionWidth - 4000, align.RegionWidth + 4000
	rng := rand.New(rand.NewPCG(44, 48))
	ref := make([]byte, ends)
	for i := range ref {
		ref[i] = "ACGT"[rng.IntN(4)]
	}
	g, err := genome.Read(strings.NewReader(">chr\n" + string(ref) + "\n"))
	require.NoError(t, err)
	copies := [2][]byte{ref, bytes.Clone(ref)}
	for at := begins + 200; at < ends; at += 350 {
		copies[1][at] = "CATG"[strings.IndexByte("ACGT", ref[at])]
	}
	var all []*streampb.Segment
	for n := range reads {
		length := 900 + rng.IntN(1500)
		at := begins + rng.IntN(ends-begins-length)
		a := align.Alignment{Contig: "chr", Start: at, End: at + length, QueryEnd: length, MappingQuality: 60}
		seq := copies[n%2][at : at+length]
		for k := range seq {
			kind := align.Mismatch
			if seq[k] == ref[at+k] {
				kind = align.Match
			}
			if m := len(a.Ops); m > 0 && a.Ops[m-1].Kind == kind {
				a.Ops[m-1].Len++
			} else {
				a.Ops = append(a.Ops, align.Op{Kind: kind, Len: 1})
			}
		}
		segments, err := align.Segments(&align.Read{Run: run, Sample: "s", ID: fmt.Sprintf("%c-%d", "AB"[n%2], n), Seq: seq}, &a, ref)
		require.NoError(t, err)
		for _, s := range segments {
			s.Reverse = n%4 > 1 // on the reference's strand all the same
		}
		all = append(all, segments...)
	}
	return g, all
}

// reporting makes handlers that report haplotypes.
func reporting(t testing.TB, g *genome.Genome) stream.Handler {
	t.Helper()
	h, err := New(Config{
		Topics: stream.NewTopics(""), CallsPartitions: 2, Genome: g, Haplotypes: true, Variant: variant.Config{Ploidy: variant.Diploid, Network: nothingCalled{}},
	})("reads", 2, 5)
	require.NoError(t, err)
	return h
}

// TestHaplotypesAreReported: at the end of a sample's runs the workers of each region, and of the one beside it, are sent which haplotypes reads are of, and every
// partition then that this was all; of what hasn't changed nothing is reported again.
func TestHaplotypesAreReported(t *testing.T) {
	g, segments := twoCopies(t, "run-1", 80)
	h := reporting(t, g)
	names := make(map[string]*streampb.Segment) // by region and key
	for _, s := range segments {
		key := align.ReadKey(s)
		names[fmt.Sprintf("%d %x", s.GetRegion(), key)] = s
	}
	type from struct{ of, region uint32 }
	report := func(values ...[]byte) (reported map[from]int, known []int32) {
		reported = make(map[from]int)
		for _, rec := range records(values) {
			for _, e := range statetest.Handle(t, h, rec) {
				for _, o := range e.Outs {
					if o.Topic != "reads" {
						continue
					}
					m, err := stream.DecodeReads(o.Value)
					require.NoError(t, err)
					if k := m.GetHaplotypesKnown(); k != nil {
						require.Equal(t, []uint32{2, 5}, []uint32{k.GetSource(), k.GetSources()})
						require.Len(t, k.GetSamples(), 1)
						require.Equal(t, []string{"run-1"}, k.GetSamples()[0].GetRuns())
						known = append(known, o.Partition)
						continue
					}
					require.Empty(t, known, "something is reported behind that all was reported")
					r := m.GetReadHaplotypes()
					require.Equal(t, stream.PartitionFor(stream.RegionKey("s", "chr", r.GetRegion()), 5), o.Partition)
					reported[from{r.GetOf(), r.GetRegion()}] += len(r.GetHaplotypes())
					of := make(map[string]byte) // copies, by haplotype and set
					for i, haplotype := range r.GetHaplotypes() {
						s := names[fmt.Sprintf("%d %x", r.GetRegion(), r.GetReads()[16*i:16*i+16])]
						require.NotNil(t, s, "a read that isn't one of region %d", r.GetRegion())
						id := fmt.Sprint(r.GetPhaseSets()[haplotype/2], haplotype%2)
						if before, ok := of[id]; ok {
							require.Equal(t, before, s.GetReadId()[0])
						}
						of[id] = s.GetReadId()[0]
						require.Positive(t, r.GetWeights()[i])
					}
					require.Len(t, of, 2)
				}
			}
		}
		return reported, known
	}
	late := segments[len(segments)-1]
	reported, known := report(runValues(t, "run-1", "s", segments[:len(segments)-1])...)
	require.Equal(t, []int32{0, 1, 2, 3, 4}, known)
	require.ElementsMatch(t, []from{{0, 0}, {0, 1}, {1, 0}, {1, 1}}, slices.Collect(maps.Keys(reported)))
	require.Greater(t, reported[from{0, 0}], reported[from{0, 1}])
	require.Greater(t, reported[from{0, 0}]+reported[from{1, 1}], len(segments)*9/10)
	again := markerValue(t, "run-1", "s", 0, 1, true)
	reported, known = report(again)
	require.Empty(t, reported)
	require.Empty(t, known)
	reported, known = report(segmentValue(t, late), again)
	require.Len(t, known, 5)
	require.NotEmpty(t, reported)
	for k := range reported {
		require.Equal(t, late.GetRegion(), k.of, "the other region has no read more")
	}
}

// TestHaplotypesOfRunsBefore: of a run whose end was dealt with where nobody reports haplotypes, and that is only folded in again, everything is reported once
// the partition has been live for a while, or when another run of the sample has ended; once it is on the topic, nothing is reported again.
func TestHaplotypesOfRunsBefore(t *testing.T) {
	g, segments := twoCopies(t, "run-1", 80)
	late := segments[len(segments)-1]
	const pairs = 4 // of regions
	// count is how many reports there are of regions, and to how many partitions it is said that these were all.
	count := func(emitted []statetest.Emission) (reports int, known [][]byte) {
		for _, e := range emitted {
			for _, o := range e.Outs {
				if o.Topic != "reads" {
					continue
				}
				m, err := stream.DecodeReads(o.Value)
				require.NoError(t, err)
				if m.GetHaplotypesKnown() != nil {
					known = append(known, o.Value)
				} else {
					require.NotNil(t, m.GetReadHaplotypes())
					reports++
				}
			}
		}
		return reports, known
	}
	live := func(h stream.Handler, values ...[]byte) (emitted []statetest.Emission) {
		for _, rec := range records(values) {
			emitted = append(emitted, statetest.Handle(t, h, rec)...)
		}
		return emitted
	}
	next := func() [][]byte {
		s := proto.CloneOf(late)
		s.Run = "run-2"
		return runValues(t, "run-2", "s", []*streampb.Segment{s})
	}
	begin := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	ticks := func(h stream.Handler) []statetest.Emission {
		emit := new(statetest.Recorder)
		for after := time.Duration(0); after <= 3*time.Minute; after += 2 * time.Second {
			require.NoError(t, h.(stream.Ticker).Tick(t.Context(), begin.Add(after), emit))
			require.True(t, after >= time.Minute || len(emit.Emissions) == 0, "after %v", after)
		}
		return emit.Emissions
	}
	before := func() stream.Handler {
		h := reporting(t, g)
		for _, rec := range records(runValues(t, "run-1", "s", segments)) {
			require.NoError(t, h.Replay(t.Context(), rec))
		}
		return h
	}

	h := before()
	state := statetest.Snapshot(t, h)
	reports, known := count(ticks(h))
	require.Equal(t, pairs, reports)
	require.Len(t, known, 5)
	require.Equal(t, state, statetest.Snapshot(t, h), "a tick is no record")
	restored := reporting(t, g)
	statetest.Restore(t, restored, state)
	reports, _ = count(ticks(restored))
	require.Equal(t, pairs, reports)
	require.Empty(t, live(h, known[2])[0].Outs)
	require.Empty(t, ticks(h))
	reports, _ = count(live(h, next()...))
	require.Positive(t, reports)
	require.Less(t, reports, pairs, "the other region has no read more")

	reports, known = count(live(before(), next()...))
	require.Equal(t, pairs, reports)
	require.Len(t, known, 5)

	state[haplotypesSection] = strings.Replace(state[haplotypesSection], "run-1\x01", "run-1", 1) // as version 1 has it
	state[haplotypesSection] = "\x01" + state[haplotypesSection][1:]
	old := reporting(t, g)
	statetest.Restore(t, old, state)
	reports, _ = count(ticks(old))
	require.Equal(t, pairs, reports)
}

// TestLawWithHaplotypes: a handler that is lost and restored reports what one reports that is not.
func TestLawWithHaplotypes(t *testing.T) {
	g, segments := twoCopies(t, "run-1", 60)
	values := runValues(t, "run-1", "s", segments[:len(segments)-3])
	for _, s := range segments[len(segments)-3:] {
		values = append(values, segmentValue(t, s))
	}
	values = append(values, markerValue(t, "run-1", "s", 0, 1, true), markerValue(t, "run-1", "s", 0, 1, true))
	own, err := stream.EncodeReads(&streampb.ReadRecord{Body: &streampb.ReadRecord_HaplotypesKnown{HaplotypesKnown: &streampb.HaplotypesKnown{
		Source: 2, Sources: 5, Samples: []*streampb.SampleRuns{{Sample: "s", Runs: []string{"run-1"}}},
	}}})
	require.NoError(t, err)
	values = append(values, own, markerValue(t, "run-1", "s", 0, 1, true))
	reported := 0
	for _, o := range statetest.Law(t, func() stream.Handler { return reporting(t, g) }, records(values), 5, 1) {
		if o.Topic == "reads" {
			reported++
		}
	}
	require.Greater(t, reported, 2*5)
}

// TestHaplotypesInParts: reads that don't fit one record come in several, each with phase sets of its own, ascending.
func TestHaplotypesInParts(t *testing.T) {
	var reads []*variant.TaggedRead
	for i := range taggedPerRecord + 3 {
		r := &variant.TaggedRead{HaplotypeTag: variant.HaplotypeTag{Set: int64(1 + i/taggedPerRecord), Haplotype: 1 + i%2, Weight: 1 << 40}}
		copy(r.Key[:], fmt.Sprintf("%016d", i))
		reads = append(reads, r)
	}
	parts := haplotypeParts(reads)
	require.Len(t, parts, 2)
	require.Equal(t, []int64{2}, parts[1].GetPhaseSets())
	require.Equal(t, []uint32{0, 1, 0}, parts[1].GetHaplotypes())
	for i, m := range parts {
		m.Sample, m.Contig, m.Part, m.Parts = strings.Repeat("s", 512), strings.Repeat("c", 512), uint32(i), 2
		_, err := stream.EncodeReads(&streampb.ReadRecord{Body: &streampb.ReadRecord_ReadHaplotypes{ReadHaplotypes: m}})
		require.NoError(t, err, "it fits a record")
	}
	require.Len(t, haplotypeParts(nil), 1, "that there are none is said, too")
}
