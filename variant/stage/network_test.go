package stage

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/porestream/porestream/align/aligntest"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/statetest"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/varianttest"
)

// networkHandler makes handlers that share a network.
func networkHandler(t testing.TB, g *genome.Genome, n variant.Network, m *Metrics) stream.Handler {
	t.Helper()
	h, err := New(Config{
		Topics: stream.NewTopics(""), CallsPartitions: 3, Genome: g, Metrics: m,
		Variant: variant.Config{Network: n, Ploidy: variant.Diploid},
	})("reads", 2, 4)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestNetworkScores: with a network a run has the calls of the truth, and nothing
// is called that it has not scored.
func TestNetworkScores(t *testing.T) {
	g := lambda(t)
	n := new(varianttest.DoseNetwork)
	m := NewMetrics(prometheus.NewRegistry(), prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dead_total", Help: "x"}, []string{"stage", "code"}))
	outs := handle(t, networkHandler(t, g, n, m), runRecords(t, simulate(t, g, "run-1", "lambda", 80, 5))).outs()
	if got := finals(t, outs); len(got) < len(truth) {
		t.Errorf("final calls %q", got)
	}
	if n.Scored.Load() == 0 {
		t.Error("nothing was judged")
	}
	if got := testutil.ToFloat64(m.alleles.WithLabelValues("snp")); got < float64(len(truth)) {
		t.Errorf("%v SNPs are counted", got)
	}
	never := &varianttest.DoseNetwork{Fails: func(int) error { return errors.New("not today") }}
	h := networkHandler(t, g, never, nil)
	emit := new(fakeEmitter)
	var err error
	for _, rec := range runRecords(t, simulate(t, g, "run-1", "lambda", 80, 5)) {
		if err = h.Handle(t.Context(), rec, emit); err != nil {
			break
		}
	}
	if err == nil || stream.IsBadRecord(err) || !strings.Contains(err.Error(), "region 0 of J02459.1: scoring ") || !strings.HasSuffix(err.Error(), "not today") {
		t.Errorf("a network that never answers: %v", err)
	}
	if got := calls(t, emit.outs()); len(got) > 0 {
		t.Errorf("%d calls without a network", len(got))
	}
}

// TestLawWithNetwork: a handler that is lost and restored anywhere says what one
// says that is not, and ends with the same state.
func TestLawWithNetwork(t *testing.T) {
	g := lambda(t)
	n := new(varianttest.DoseNetwork)
	segments := aligntest.Lambda(t, "run-1", "lambda")
	values := append(runValues(t, "run-1", "lambda", segments[:60]), segmentValue(t, segments[61]), markerValue(t, "run-1", "lambda", 0, 1, true))
	outs := statetest.Law(t, func() stream.Handler { return networkHandler(t, g, n, nil) }, records(values), 8, 3)
	if len(calls(t, outs)) == 0 || n.Scored.Load() == 0 {
		t.Errorf("%d calls of %d judged alleles", len(calls(t, outs)), n.Scored.Load())
	}
}

// TestDeviceFailureLosesNothing: when the network fails, nothing follows from the
// record and it stays open; a handler that is restored from before it handles it
// as if nothing had happened. So each segment counts once, and the calls, their
// revisions and the state are those of a device that works.
func TestDeviceFailureLosesNothing(t *testing.T) {
	g := lambda(t)
	recs := runRecords(t, simulate(t, g, "run-1", "lambda", 70, 6))
	working := networkHandler(t, g, new(varianttest.DoseNetwork), nil)
	want := handle(t, working, recs).emissions
	broken := errors.New("the device is broken")
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 91))
		failed := 0
		n := &varianttest.DoseNetwork{Fails: func(int) error {
			if rng.IntN(6) == 0 {
				failed++
				return broken
			}
			return nil
		}}
		h := networkHandler(t, g, n, nil)
		kept, at := statetest.Snapshot(t, h), 0
		for i := 0; i < len(recs); {
			if rng.IntN(5) == 0 {
				kept, at = statetest.Snapshot(t, h), i
			}
			emit := new(fakeEmitter)
			err := h.Handle(t.Context(), recs[i], emit)
			if err == nil {
				if got := fmt.Sprintf("%+v", emit.emissions); got != fmt.Sprintf("%+v", want[i:i+1]) {
					t.Fatalf("seed %d: record %d gives\n%s\nwant\n%+v", seed, i, got, want[i])
				}
				i++
				continue
			}
			if !errors.Is(err, broken) || stream.IsBadRecord(err) || len(emit.emissions) > 0 {
				t.Fatalf("seed %d: record %d: %v, emitted %v", seed, i, err, emit.emissions)
			}
			if h = recovered(t, g, n, kept, recs[at:i]); h == nil {
				t.Fatalf("seed %d: record %d: replay never ends", seed, i)
			}
		}
		if failed < 3 {
			t.Errorf("seed %d: the device failed %d times", seed, failed)
		}
		if got, want := statetest.Snapshot(t, h), statetest.Snapshot(t, working); !maps.Equal(got, want) {
			t.Errorf("seed %d: another state: sections %q, want %q", seed, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
	}
}

// recovered is a handler from a snapshot and the records behind it. The device
// may fail meanwhile, too: then it begins again.
func recovered(t *testing.T, g *genome.Genome, n variant.Network, sections map[string]string, recs []stream.Record) stream.Handler {
	for range 1000 {
		h := networkHandler(t, g, n, nil)
		statetest.Restore(t, h, sections)
		if !slices.ContainsFunc(recs, func(rec stream.Record) bool { return h.Replay(t.Context(), rec) != nil }) {
			return h
		}
	}
	return nil
}

// TestAlleleTypes: metrics name what VCF spells.
func TestAlleleTypes(t *testing.T) {
	got := make(map[string]string)
	for _, allele := range []string{"A>C", "A>ACC", "ACC>A", "AC>GT", "AC>A", "A>TC", "ACG>AC"} {
		ref, alt, _ := strings.Cut(allele, ">")
		got[allele] = alleleType(ref, alt)
	}
	want := map[string]string{
		"A>C": typeSNP, "A>ACC": typeInsertion, "ACC>A": typeDeletion, "AC>GT": typeComplex, "AC>A": typeDeletion, "A>TC": typeComplex, "ACG>AC": typeComplex,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("types %v, want %v", got, want)
	}
}
