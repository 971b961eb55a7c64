package variant_test

import (
	"bytes"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/models"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/testenv"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/network"
	"github.com/porestream/porestream/vrs"
)

// plantedEvery is how far apart SNPs are planted for replays, in bases.
const plantedEvery = 97

// plantSNPs changes every so many bases of a sequence.
func plantSNPs(seq string) string {
	rnd := rand.New(rand.NewPCG(97, 97))
	b := []byte(seq)
	for pos := plantedEvery; pos < len(b)-plantedEvery; pos += plantedEvery {
		for was := b[pos]; b[pos] == was; {
			b[pos] = "ACGT"[rnd.IntN(4)]
		}
	}
	return string(b)
}

// replayable is a sample with variants, and how it is called.
type replayable struct {
	contig   *genome.Contig
	segments []*streampb.Segment
	cfg      variant.Config
}

// sarscov2Replay is the SARS-CoV-2 sample, amplicons at 50x, against a reference with
// SNPs of which the sample has none, so that it has some 300 of its own.
func sarscov2Replay(t testing.TB) replayable {
	t.Helper()
	contig, segments := sarscov2To(t, plantSNPs)
	return replayable{contig: contig, segments: segments}
}

// lambdaReads are the recording's reads, called by the shipped basecaller.
func lambdaReads(t testing.TB) iter.Seq[*align.Read] {
	t.Helper()
	path := os.Getenv("PORESTREAM_LAMBDA_READS")
	if path == "" {
		t.Skip("needs PORESTREAM_LAMBDA_READS, the reads of lambda-r9 as FASTQ: make eval-lambda, or pore basecall ../shared/data/lambda-r9/reads.blow5")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fastqReads(t, bytes.NewReader(text))
}

// lambdaReplay is lambda at 26x against a reference with some 500 SNPs.
func lambdaReplay(t testing.TB) replayable {
	t.Helper()
	contig, segments := aligned(t, changed(t, testenv.Recordings(t, "lambda-r9/NEB.fa"), plantSNPs), lambdaReads(t))
	return replayable{contig: contig, segments: segments}
}

// hg002Replay is 100 kb of a human at 45x, with its own SNPs.
func hg002Replay(t testing.TB) replayable {
	t.Helper()
	contig, segments := variant.HG002(t)
	return replayable{contig: contig, segments: segments, cfg: variant.Config{Ploidy: variant.Diploid}}
}

// shippedNetwork is the variant model that is used by default.
func shippedNetwork(t testing.TB) variant.Network {
	t.Helper()
	if _, err := infer.FindLibrary(""); err != nil {
		t.Skip("needs ONNX Runtime: ", err)
	}
	model, err := models.OpenVariant(models.DefaultVariant)
	if err != nil {
		t.Fatal(err)
	}
	n, err := network.New(model, network.Config{Device: "cpu", Sessions: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// replayed is what a consumer saw of reads that came one after the other.
type replayed struct {
	final     int             // calls that passed at the end
	revisions int             // of these and of others, the final ones included
	stable    int             // alleles that were ever STABLE
	undone    int             // of these, those retracted later and no part of the final ones
	wrong     int             // alleles that were shown live and are neither final nor a part of what is
	respelled int             // alleles that were shown live and are part of a final event, or are its parts
	merged    int             // of the STABLE ones, those that are so
	depths    []int           // of final calls that were shown live, when they were first shown
	effects   []time.Duration // from Apply to the revisions that follow, if there was a clock
}

func (r *replayed) add(o replayed) {
	r.final += o.final
	r.revisions += o.revisions
	r.stable += o.stable
	r.undone += o.undone
	r.wrong += o.wrong
	r.respelled += o.respelled
	r.merged += o.merged
	r.depths = append(r.depths, o.depths...)
	r.effects = append(r.effects, o.effects...)
}

// replay applies segments in an order of their reads that seed decides.
func (p *replayable) replay(t testing.TB, seed uint64, clock func() time.Time) replayed {
	t.Helper()
	segments := p.segments
	order := rand.New(rand.NewPCG(seed, 5)).Perm(len(segments))
	region := region(t, p.contig, 0, p.cfg)
	var out replayed
	first := make(map[string]int)
	made := make(map[string][]vrs.Edit) // what alleles are made of
	stable, undone := make(map[string]bool), make(map[string]bool)
	see := func(calls []*streampb.Call) {
		out.revisions += len(calls)
		for _, c := range calls {
			id := c.GetVrsId()
			made[id] = vrs.Edit{Start: int(c.GetPos()) - 1, Ref: c.GetRef(), Alt: c.GetAlt()}.Atoms()
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
	passed, atoms := make(map[string]bool), make(map[vrs.Edit]bool)
	for _, c := range final {
		if c.GetStatus() == streampb.CallStatus_FINAL && len(c.GetFilters()) == 0 {
			passed[c.GetVrsId()] = true
			for _, a := range made[c.GetVrsId()] {
				atoms[a] = true
			}
		}
	}
	part := func(id string) bool {
		return !slices.ContainsFunc(made[id], func(a vrs.Edit) bool { return !atoms[a] })
	}
	for id, depth := range first {
		switch {
		case passed[id]:
			out.depths = append(out.depths, depth)
		case part(id):
			out.respelled++
		default:
			out.wrong++
		}
	}
	for id := range undone {
		if !passed[id] && part(id) {
			out.merged++
		} else {
			out.undone++
		}
	}
	out.final, out.stable = len(passed), len(stable)
	slices.Sort(out.depths)
	return out
}

// TestCallsChangeSeldomWhileReadsCome holds live semantics to what consumers rely on: calls change seldom,
// are right when first shown nearly always, and stay once they are STABLE.
func TestCallsChangeSeldomWhileReadsCome(t *testing.T) {
	set := sarscov2Replay(t)
	t.Run("analytic", func(t *testing.T) { testReplay(t, set) })
	t.Run("network", func(t *testing.T) {
		set.cfg.Network = shippedNetwork(t)
		testReplay(t, set)
	})
}

func testReplay(t *testing.T, set replayable) {
	var sum replayed
	for seed := range uint64(3) {
		sum.add(set.replay(t, seed, nil))
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
	if 400*sum.undone > sum.stable {
		t.Errorf("%d of %d STABLE calls were retracted", sum.undone, sum.stable)
	}
	if 50*sum.wrong > sum.final {
		t.Errorf("%d alleles were shown live that are none of %d final ones", sum.wrong, sum.final)
	}
}

// BenchmarkReplay measures live semantics over many orders of the same reads.
func BenchmarkReplay(b *testing.B) {
	for _, set := range []struct {
		name string
		load func(testing.TB) replayable
	}{{"sarscov2", sarscov2Replay}, {"lambda", lambdaReplay}, {"hg002", hg002Replay}} {
		b.Run(set.name, func(b *testing.B) {
			loaded := set.load(b)
			if loaded.cfg.Ploidy != variant.Diploid {
				b.Run("analytic", func(b *testing.B) { benchmarkReplay(b, loaded) })
			}
			b.Run("network", func(b *testing.B) {
				loaded.cfg.Network = shippedNetwork(b)
				benchmarkReplay(b, loaded)
			})
		})
	}
}

func benchmarkReplay(b *testing.B, set replayable) {
	var sum replayed
	seed := uint64(100)
	for b.Loop() {
		sum.add(set.replay(b, seed, time.Now))
		seed++
	}
	slices.Sort(sum.depths)
	slices.Sort(sum.effects)
	b.ReportMetric(float64(sum.revisions)/float64(sum.final), "revisions/call")
	b.ReportMetric(1000*float64(sum.undone)/float64(sum.stable), "retracted/1000-stable")
	b.ReportMetric(1000*float64(sum.merged)/float64(sum.stable), "merged/1000-stable")
	b.ReportMetric(float64(sum.stable)/float64(b.N), "stable/op")
	b.ReportMetric(float64(sum.respelled)/float64(b.N), "respelled-live/op")
	b.ReportMetric(float64(sum.wrong)/float64(b.N), "wrong-live/op")
	b.ReportMetric(float64(sum.depths[len(sum.depths)/2]), "depth-first-p50")
	b.ReportMetric(float64(sum.effects[len(sum.effects)/2].Microseconds()), "effect-us-p50")
	b.ReportMetric(float64(sum.effects[len(sum.effects)*99/100].Microseconds()), "effect-us-p99")
}
