package stage

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/biogo/hts/sam"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/modbase/stage/methylation"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/statetest"
	"github.com/porestream/porestream/stream/streampb"
)

// guess is what a region says of a read.
type guess struct {
	of        *streampb.Segment
	haplotype int
	set       int64
	weight    uint64
}

// guesses has regions say, by chance, which haplotypes reads are of, and tags the reads of the file as pore call --haplotag does: as the region
// says that knows most. A region knows nothing of some of its reads.
func (s *scene) guesses(rng *rand.Rand) []guess {
	var all []guess
	for i := range s.reads {
		best := guess{}
		for _, seg := range s.reads[i].segments {
			if rng.IntN(4) == 0 {
				continue
			}
			g := guess{seg, 1 + rng.IntN(2), 1 + int64(seg.GetRegion())*align.RegionWidth + 500*rng.Int64N(2), 1 + rng.Uint64N(5)}
			if all = append(all, g); g.weight > best.weight {
				best = g
			}
		}
		rec := s.reads[i].record
		rec.AuxFields = slices.DeleteFunc(rec.AuxFields, func(a sam.Aux) bool { return a.Tag() == sam.NewTag("HP") })
		if best.haplotype > 0 {
			rec.AuxFields = append(rec.AuxFields, sam.Aux{'H', 'P', 'C', byte(best.haplotype)})
		}
	}
	return all
}

// report is what the variant stage's worker of a partition reports of guesses, in records of a few reads, and last that this is all of runs.
func report(t testing.TB, all []guess, source, partitions int, runs map[string][]string) (outs []stream.Out) {
	type reported struct {
		sample, contig string
		of, region     uint32
	}
	by := make(map[reported][]guess)
	for _, g := range all {
		seg := g.of
		if stream.PartitionFor(stream.RegionKey(seg.GetSample(), seg.GetContig(), seg.GetRegion()), int32(partitions)) != int32(source) {
			continue
		}
		extent, err := align.Check(seg, align.RegionWidth+3000)
		require.NoError(t, err)
		begin, end := int64(seg.GetRegion())*align.RegionWidth, (int64(seg.GetRegion())+1)*align.RegionWidth
		k := reported{seg.GetSample(), seg.GetContig(), seg.GetRegion(), seg.GetRegion()}
		by[k] = append(by[k], g)
		if k.region--; seg.GetStart() < begin {
			by[k] = append(by[k], g)
		}
		if k.region += 2; seg.GetStart()+int64(extent.Reference) > end {
			by[k] = append(by[k], g)
		}
	}
	const perRecord = 7
	for k, list := range by {
		slices.SortFunc(list, func(a, b guess) int {
			x, y := align.ReadKey(a.of), align.ReadKey(b.of)
			return bytes.Compare(x[:], y[:])
		})
		parts := (len(list) + perRecord - 1) / perRecord
		for part := range parts {
			m := &streampb.ReadHaplotypes{Sample: k.sample, Contig: k.contig, Region: k.region, Of: k.of, Part: uint32(part), Parts: uint32(parts)}
			chunk := list[part*perRecord : min(len(list), (part+1)*perRecord)]
			for _, g := range chunk {
				m.PhaseSets = append(m.PhaseSets, g.set)
			}
			slices.Sort(m.PhaseSets)
			m.PhaseSets = slices.Compact(m.PhaseSets)
			for _, g := range chunk {
				key := align.ReadKey(g.of)
				m.Reads, m.Weights = append(m.Reads, key[:]...), append(m.Weights, g.weight)
				m.Haplotypes = append(m.Haplotypes, uint32(2*slices.Index(m.PhaseSets, g.set)+g.haplotype-1))
			}
			value, err := stream.EncodeReads(&streampb.ReadRecord{Body: &streampb.ReadRecord_ReadHaplotypes{ReadHaplotypes: m}})
			require.NoError(t, err)
			outs = append(outs, stream.Out{Topic: "reads", Partition: stream.PartitionFor(stream.RegionKey(k.sample, k.contig, k.region), int32(partitions)), Value: value})
		}
	}
	return append(outs, knownTo(t, source, partitions, runs)...)
}

// knownTo says to all partitions that one has reported all of runs.
func knownTo(t testing.TB, source, partitions int, runs map[string][]string) (outs []stream.Out) {
	m := &streampb.HaplotypesKnown{Source: uint32(source), Sources: uint32(partitions)}
	for _, sample := range []string{"a", "b"} {
		if len(runs[sample]) > 0 {
			m.Samples = append(m.Samples, &streampb.SampleRuns{Sample: sample, Runs: runs[sample]})
		}
	}
	value, err := stream.EncodeReads(&streampb.ReadRecord{Body: &streampb.ReadRecord_HaplotypesKnown{HaplotypesKnown: m}})
	require.NoError(t, err)
	for p := range partitions {
		outs = append(outs, stream.Out{Topic: "reads", Partition: int32(p), Value: value})
	}
	return outs
}

// reported is the topic of reads with what the variant stage reports of guesses: behind everything, or, as it is reported by workers that are ahead, before
// the ends that a partition has from others.
func (s *scene) reported(t testing.TB, rng *rand.Rand, partitions int, all []guess, early bool) *topic {
	runs := map[string][]string{"a": {"run-0", "run-1"}, "b": {"run-2"}}
	tp := s.topic(t, rng, partitions)
	if !early {
		for _, source := range rng.Perm(partitions) {
			for _, o := range report(t, all, source, partitions, runs) {
				tp.put(o)
			}
		}
		return tp
	}
	mixed := &topic{t: t, logs: make([][]stream.Record, partitions)}
	for _, source := range rng.Perm(partitions) {
		for _, o := range report(t, all, source, partitions, runs) {
			mixed.put(o)
		}
	}
	for p, log := range tp.logs { // each of both keeps its order
		var both []stream.Record
		for a, b := log, mixed.logs[p]; len(a)+len(b) > 0; {
			if len(b) == 0 || len(a) > 0 && rng.IntN(len(a)+len(b)) < len(a) {
				both, a = append(both, a[0]), a[1:]
			} else {
				both, b = append(both, b[0]), b[1:]
			}
		}
		for i := range both {
			both[i].Offset = int64(i)
		}
		tp.logs[p] = both
	}
	return tp
}

// TestHaplotypesSameAsOffline: counts by haplotype are those of pore pileup --haplotypes of a file that is tagged as the regions say, to the byte, also of
// reads over the border of regions, whatever the order of reads, of what is reported and of workers, and the number of partitions. Counts of all
// reads are as without haplotypes.
func TestHaplotypesSameAsOffline(t *testing.T) {
	for seed := range uint64(3) {
		s := newScene(t, seed, 120)
		all := s.guesses(rand.New(rand.NewPCG(seed, 11)))
		for name, filter := range map[string]Filter{
			"percentile": {Percentile: 0.1},
			"given":      {Thresholds: [4]int{300, 320, 310, 300}, Given: [4]bool{true, true, true, true}},
		} {
			cfg := config(s, filter)
			cfg.Haplotypes = true
			for i, partitions := range []int{1, 4, 7} {
				rng := rand.New(rand.NewPCG(seed, uint64(partitions)))
				out := run(t, rng, cfg, s.reported(t, rng, partitions, all, i%2 == int(seed%2)))
				for _, sample := range []string{"a", "b"} {
					for haplotype := range 3 {
						want := s.offlineOf(t, sample, haplotype, filter)
						require.NotEmpty(t, want)
						equalLines(t, want, foldedOf(t, s, out, sample, haplotype, partitions), "seed %d, %s, %d partitions, sample %s, haplotype %d", seed, name, partitions, sample, haplotype)
					}
				}
			}
		}
	}
}

// TestPhaseSets: a document names the phase sets of the haplotype's reads that lie over its stretch.
func TestPhaseSets(t *testing.T) {
	s := newScene(t, 1, 120)
	all := s.guesses(rand.New(rand.NewPCG(1, 11)))
	cfg := config(s, Filter{Percentile: 0.1})
	cfg.Haplotypes = true
	rng := rand.New(rand.NewPCG(1, 1))
	out := run(t, rng, cfg, s.reported(t, rng, 4, all, false))
	seen := 0
	for _, log := range out.logs {
		for _, rec := range log {
			m, _, err := methylation.Decode(rec)
			require.NoError(t, err)
			if m == nil || m.Haplotype == 0 {
				continue
			}
			want := make(map[int64]bool)
			for _, r := range s.reads {
				best := guess{}
				for _, g := range all {
					if slices.Contains(r.segments, g.of) && g.weight > best.weight {
						best = g
					}
				}
				if best.haplotype != m.Haplotype || best.of.GetSample() != m.Sample || best.of.GetContig() != m.Stretch.Contig {
					continue
				}
				for _, seg := range r.segments {
					extent, err := align.Check(seg, align.RegionWidth+3000)
					require.NoError(t, err)
					start := int64(seg.GetRegion()) * align.RegionWidth
					if start <= m.Stretch.Pos-1 && m.Stretch.End <= start+align.RegionWidth && seg.GetStart() < m.Stretch.End && seg.GetStart()+int64(extent.Reference) > m.Stretch.Pos-1 {
						want[best.set] = true
					}
				}
			}
			require.Len(t, m.PhaseSets, len(want), string(rec.Key))
			require.True(t, slices.IsSorted(m.PhaseSets))
			for _, set := range m.PhaseSets {
				require.True(t, want[set])
			}
			seen = max(seen, len(want))
		}
	}
	require.Greater(t, seen, 2)
}

// TestHaplotypesStateLaw: a handler that is given its state goes on as one that has seen all records, with what was reported before and behind it.
func TestHaplotypesStateLaw(t *testing.T) {
	for seed := range uint64(2) {
		s := newScene(t, seed, 60)
		cfg := config(s, Filter{Percentile: 0.1})
		cfg.Haplotypes = true
		rng := rand.New(rand.NewPCG(seed, 3))
		reads := s.reported(t, rng, 2, s.guesses(rng), seed == 1)
		for _, o := range slices.Concat(report(t, s.guesses(rng), 0, 2, map[string][]string{"a": {"run-0", "run-1"}}), report(t, s.guesses(rng), 1, 2, map[string][]string{"a": {"run-0", "run-1"}})) {
			reads.put(o) // something has changed
		}
		run(t, rng, cfg, reads)
		laws(t, cfg, reads, seed)
	}
}

// TestHaplotypesReportedAgain: what is reported anew replaces what was reported, and what a haplotype no longer has is said to be gone.
func TestHaplotypesReportedAgain(t *testing.T) {
	s := newScene(t, 2, 80)
	cfg := config(s, Filter{Thresholds: [4]int{300, 320, 310, 300}, Given: [4]bool{true, true, true, true}})
	cfg.Haplotypes = true
	rng := rand.New(rand.NewPCG(2, 2))
	first := s.guesses(rng)
	reads := s.reported(t, rng, 3, first, false)
	for i := range first {
		first[i].haplotype = 1 // the second has no reads now
	}
	for _, r := range s.reads {
		if at := slices.IndexFunc(r.record.AuxFields, func(a sam.Aux) bool { return a.Tag() == sam.NewTag("HP") }); at >= 0 {
			r.record.AuxFields[at][3] = 1
		}
	}
	for source := range 3 {
		for _, o := range report(t, first, source, 3, map[string][]string{"a": {"run-0", "run-1"}, "b": {"run-2"}}) {
			reads.put(o)
		}
	}
	out := run(t, rng, cfg, reads)
	newest := make(map[string]*methylation.Stretch)
	for _, log := range out.logs {
		for _, rec := range log {
			m, _, err := methylation.Decode(rec)
			require.NoError(t, err)
			if m != nil {
				newest[string(rec.Key)] = m
			}
		}
	}
	gone := 0
	for _, m := range newest {
		if m.Haplotype == 2 {
			require.Empty(t, m.Sites.Pos)
			require.Empty(t, m.PhaseSets)
			gone++
		}
	}
	require.Positive(t, gone)
	// Of a read that two regions report on the first still counts where both know as much.
	rows := make(map[string]int)
	for _, m := range newest {
		if m.Haplotype == 1 {
			rows[m.Sample] += len(m.Sites.Pos)
		}
	}
	for _, sample := range []string{"a", "b"} {
		require.Equal(t, bytes.Count([]byte(s.offlineOf(t, sample, 1, cfg.Filter)), []byte("\n")), rows[sample])
	}
}

// TestEndsWaitForHaplotypes: the end of a run comes behind its counts by haplotype; what is reported of fewer runs doesn't bring it about, and that nothing
// comes is reported, once. What is reported of runs that had ended before haplotypes were asked for is counted, too.
func TestEndsWaitForHaplotypes(t *testing.T) {
	s := newScene(t, 1, 40)
	var log bytes.Buffer
	cfg := config(s, Filter{Percentile: 0.1})
	cfg.Haplotypes, cfg.Logger = true, slog.New(slog.NewTextHandler(&log, nil))
	h, err := New(cfg)("reads", 0, 1)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 1))
	all := s.guesses(rng)
	ends, counts := make(map[string]int), 0
	// waiting is the ends of runs that have to wait: of a sample's two runs the one that ends first doesn't, as the sample goes on in the other one.
	waiting := func() int { return min(ends["run-0"], ends["run-1"]) + ends["run-2"] }
	var handled [][]byte
	handle := func(values ...[]byte) {
		for ; len(values) > 0; values = values[1:] {
			handled = append(handled, values[0])
			for _, e := range statetest.Handle(t, h, stream.Record{Topic: "reads", Value: values[0]}) {
				for _, o := range e.Outs {
					if o.Topic == "reads" {
						values = append(values, o.Value)
						continue
					}
					m, end, err := methylation.Decode(stream.Record{Value: o.Value, Headers: o.Headers})
					require.NoError(t, err)
					if end != nil {
						ends[end.Run]++
					} else if m.Haplotype > 0 {
						require.Zero(t, waiting(), "counts by haplotype behind the end of a run")
						counts++
					}
				}
			}
		}
	}
	for _, rec := range s.topic(t, rng, 1).logs[0] {
		handle(rec.Value)
	}
	require.Zero(t, waiting()+counts)
	before := handled
	begin := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for after := time.Duration(0); after <= 3*time.Minute; after += 2 * time.Second {
		require.NoError(t, h.(stream.Ticker).Tick(t.Context(), begin.Add(after), new(statetest.Recorder)))
		require.Equal(t, after >= time.Minute, log.Len() > 0, "after %v", after)
	}
	require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("wait for the haplotypes of reads")), log.String())
	require.Contains(t, log.String(), "run-2")
	outs := report(t, all, 0, 1, map[string][]string{"a": {"run-0"}})
	outs = append(outs, knownTo(t, 0, 1, map[string][]string{"a": {"run-0", "run-1"}, "b": {"run-2"}})...)
	for i, o := range outs {
		require.Zero(t, waiting()+counts, "record %d of %d", i, len(outs))
		handle(o.Value)
	}
	require.Equal(t, map[string]int{"run-0": 3, "run-1": 3, "run-2": 3}, ends, "in three partitions")
	require.Positive(t, counts)

	reported := counts
	h, err = New(cfg)("reads", 0, 1)
	require.NoError(t, err)
	for _, value := range before {
		require.NoError(t, h.Replay(t.Context(), stream.Record{Topic: "reads", Value: value}))
	}
	counts, ends = 0, make(map[string]int)
	for _, o := range outs {
		handle(o.Value)
	}
	require.Equal(t, reported, counts)
	require.Equal(t, 3, ends["run-2"])
}

// TestBadHaplotypes: what can't be right goes to the dead letters and leaves no trace.
func TestBadHaplotypes(t *testing.T) {
	s := newScene(t, 1, 20)
	cfg := config(s, Filter{Percentile: 0.1})
	cfg.Haplotypes = true
	h, err := New(cfg)("reads", 0, 1)
	require.NoError(t, err)
	before := statetest.Snapshot(t, h)
	for reason, m := range map[string]*streampb.ReadRecord{
		"region 9 of two, which is not in":  {Body: &streampb.ReadRecord_ReadHaplotypes{ReadHaplotypes: &streampb.ReadHaplotypes{Sample: "a", Contig: "two", Region: 9, Of: 9, Parts: 1}}},
		"of three, which is not in":         {Body: &streampb.ReadRecord_ReadHaplotypes{ReadHaplotypes: &streampb.ReadHaplotypes{Sample: "a", Contig: "three", Parts: 1}}},
		"part 1 comes without those before": {Body: &streampb.ReadRecord_ReadHaplotypes{ReadHaplotypes: &streampb.ReadHaplotypes{Sample: "a", Contig: "two", Part: 1, Parts: 2}}},
		"of 9 partitions, and the topic has 1": {Body: &streampb.ReadRecord_HaplotypesKnown{HaplotypesKnown: &streampb.HaplotypesKnown{Sources: 9, Samples: []*streampb.SampleRuns{
			{Sample: "a", Runs: []string{"run-0"}},
		}}}},
	} {
		value, err := stream.EncodeReads(m)
		require.NoError(t, err)
		_, err = h.(worker).Folder.Fold(stream.Record{Topic: "reads", Value: value})
		require.ErrorContains(t, err, reason)
		require.True(t, stream.IsBadRecord(err))
		require.Equal(t, before, statetest.Snapshot(t, h), reason)
	}
}

// TestHaplotypesDeliveredTwice: of two workers that say the same at once, as may be where records are delivered at least once, parts come twice, in any order of the
// two. What is known is what one of them says, and none is refused.
func TestHaplotypesDeliveredTwice(t *testing.T) {
	s := newScene(t, 1, 20)
	cfg := config(s, Filter{Percentile: 0.1})
	cfg.Haplotypes = true
	known := func(parts ...uint32) map[string]string {
		h, err := New(cfg)("reads", 0, 1)
		require.NoError(t, err)
		for _, part := range parts {
			value, err := stream.EncodeReads(&streampb.ReadRecord{Body: &streampb.ReadRecord_ReadHaplotypes{ReadHaplotypes: &streampb.ReadHaplotypes{
				Sample: "a", Contig: "two", Part: part, Parts: 3, Reads: bytes.Repeat([]byte{byte(part)}, 16), PhaseSets: []int64{7}, Haplotypes: []uint32{part % 2}, Weights: []uint64{1},
			}}})
			require.NoError(t, err)
			_, err = h.(worker).Folder.Fold(stream.Record{Topic: "reads", Value: value})
			require.NoError(t, err)
		}
		return statetest.Snapshot(t, h)
	}
	want := known(0, 1, 2)
	for _, parts := range [][]uint32{{0, 0, 1, 1, 2, 2}, {0, 1, 0, 1, 1, 2, 2}, {0, 1, 2, 0, 1, 2}, {0, 1, 2, 2, 1}} {
		require.Equal(t, want, known(parts...), "parts %v", parts)
	}
}
