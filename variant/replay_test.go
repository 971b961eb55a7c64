package variant_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
)

// plantedEvery is how far apart SNPs are planted for replays, in bases.
const plantedEvery = 97

// replayable is the SARS-CoV-2 sample against a reference with SNPs of which the
// sample has none, so that it has some 300 of its own.
func replayable(t testing.TB) (*genome.Contig, []*streampb.Segment) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(97, 97))
	return sarscov2To(t, func(seq string) string {
		b := []byte(seq)
		for pos := plantedEvery; pos < len(b)-plantedEvery; pos += plantedEvery {
			for was := b[pos]; b[pos] == was; {
				b[pos] = "ACGT"[rnd.IntN(4)]
			}
		}
		return string(b)
	})
}

// replayed is what a consumer saw of reads that came one after the other.
type replayed struct {
	final     int             // calls that passed at the end
	revisions int             // of these and of others, the final ones included
	stable    int             // alleles that were ever STABLE
	undone    int             // of these, those retracted later
	wrong     int             // alleles that were shown live and are none of the final ones
	depths    []int           // of final calls that were shown live, when they were first shown
	effects   []time.Duration // from Apply to the revisions that follow, if there was a clock
}

func (r *replayed) add(o replayed) {
	r.final += o.final
	r.revisions += o.revisions
	r.stable += o.stable
	r.undone += o.undone
	r.wrong += o.wrong
	r.depths = append(r.depths, o.depths...)
	r.effects = append(r.effects, o.effects...)
}

// replay applies segments in an order of their reads that seed decides.
func replay(t testing.TB, contig *genome.Contig, segments []*streampb.Segment, seed uint64, clock func() time.Time) replayed {
	t.Helper()
	order := rand.New(rand.NewPCG(seed, 5)).Perm(len(segments))
	region := region(t, contig, 0, variant.Config{})
	var out replayed
	first := make(map[string]int)
	stable, undone := make(map[string]bool), make(map[string]bool)
	see := func(calls []*streampb.Call) {
		out.revisions += len(calls)
		for _, c := range calls {
			id := c.GetVrsId()
			if _, ok := first[id]; !ok && c.GetStatus() != streampb.CallStatus_FINAL {
				first[id] = int(c.GetDepth())
			}
			switch c.GetStatus() {
			case streampb.CallStatus_STABLE:
				stable[id] = true
			case streampb.CallStatus_RETRACTED:
				if stable[id] {
					undone[id] = true
				}
			}
		}
	}
	for _, i := range order {
		var began time.Time
		if clock != nil {
			began = clock()
		}
		apply(t, region, segments[i])
		calls := evaluate(t, region)
		if clock != nil {
			out.effects = append(out.effects, clock().Sub(began))
		}
		see(calls)
	}
	final := finalize(t, region)
	see(final)
	passed := make(map[string]bool)
	for _, c := range final {
		if c.GetStatus() == streampb.CallStatus_FINAL && len(c.GetFilters()) == 0 {
			passed[c.GetVrsId()] = true
		}
	}
	for id, depth := range first {
		if passed[id] {
			out.depths = append(out.depths, depth)
		} else {
			out.wrong++
		}
	}
	out.final, out.stable, out.undone = len(passed), len(stable), len(undone)
	slices.Sort(out.depths)
	return out
}

// TestReplay holds live semantics to what consumers rely on: calls change seldom,
// are right when first shown nearly always, and stay once they are STABLE.
func TestReplay(t *testing.T) {
	contig, segments := replayable(t)
	var sum replayed
	for seed := range uint64(3) {
		sum.add(replay(t, contig, segments, seed, nil))
	}
	slices.Sort(sum.depths)
	t.Logf("%d final calls, %.2f revisions of each; %d alleles STABLE, %d of them retracted; %d others shown live; half first shown at a depth of at most %d",
		sum.final, float64(sum.revisions)/float64(sum.final), sum.stable, sum.undone, sum.wrong, sum.depths[len(sum.depths)/2])
	if sum.final < 600 {
		t.Errorf("%d calls are final of about 750", sum.final)
	}
	if sum.revisions > 6*sum.final {
		t.Errorf("%d revisions of %d calls", sum.revisions, sum.final)
	}
	if 100*sum.undone > sum.stable {
		t.Errorf("%d of %d STABLE calls were retracted", sum.undone, sum.stable)
	}
	if 20*sum.wrong > sum.final {
		t.Errorf("%d alleles were shown live that are none of %d final ones", sum.wrong, sum.final)
	}
}

// BenchmarkReplay measures live semantics over many orders of the same reads.
func BenchmarkReplay(b *testing.B) {
	contig, segments := replayable(b)
	var sum replayed
	seed := uint64(100)
	for b.Loop() {
		sum.add(replay(b, contig, segments, seed, time.Now))
		seed++
	}
	slices.Sort(sum.depths)
	slices.Sort(sum.effects)
	b.ReportMetric(float64(sum.revisions)/float64(sum.final), "revisions/call")
	b.ReportMetric(1000*float64(sum.undone)/float64(sum.stable), "retracted/1000-stable")
	b.ReportMetric(float64(sum.stable)/float64(b.N), "stable/op")
	b.ReportMetric(float64(sum.wrong)/float64(b.N), "wrong-live/op")
	b.ReportMetric(float64(sum.depths[len(sum.depths)/2]), "depth-first-p50")
	b.ReportMetric(float64(sum.effects[len(sum.effects)/2].Microseconds()), "effect-us-p50")
	b.ReportMetric(float64(sum.effects[len(sum.effects)*99/100].Microseconds()), "effect-us-p99")
}
