package stage

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/statetest"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/vrs"
	"github.com/porestream/porestream/watchlist/alert"
)

// lawful makes handlers of the only partition, which owns every sample.
func (f *fixture) lawful(t testing.TB) func() stream.Handler {
	t.Helper()
	newHandler := New(Config{Topics: stream.NewTopics(""), AlertsPartitions: 3, Watch: f.watch, Panels: own, Genes: "lambda"})
	return func() stream.Handler {
		h, err := newHandler("watch", 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
}

// random is n records of a run, between its markers: revisions of the alleles
// that concern the panel, and of one that doesn't, and depths.
func (f *fixture) random(t testing.TB, rng *rand.Rand, run, sample string, n int) []testRecord {
	t.Helper()
	contig := f.genome.Contigs[0]
	list := []testRecord{marker(t, run, sample, 0, 1, false)}
	for i := range n {
		rec := &streampb.WatchRecord{Panels: own}
		if rng.IntN(3) == 0 {
			start := []int64{99, 37_500, 37_588, 37_700}[rng.IntN(4)]
			c := &streampb.Coverage{
				Run: run, Sample: sample, Contig: contig.Name, Start: start, End: start + 300, Lengths: []uint32{1, 299},
				Depths: []uint32{rng.Uint32N(40), rng.Uint32N(40)}, Revision: uint64(1 + i), Panels: own, Counted: true, Shown: unseen(t, start, start+300, 40),
			}
			for _, s := range c.Shown {
				s.Forward = rng.Uint32N(41)
			}
			rec.Body = &streampb.WatchRecord_Coverage{Coverage: c}
		} else {
			pos := []int{37_589, 37_742, 37_743}[rng.IntN(3)]
			ref := string(contig.Seq[pos-1 : pos])
			alt := map[string]string{"A": "G", "C": "T", "G": "A", "T": "C"}[ref]
			id, err := vrs.AlleleID(contig.Digest(), contig.Seq, pos-1, ref, alt)
			if err != nil {
				t.Fatal(err)
			}
			a, err := f.annotator.Annotate(contig.Name, pos, ref, alt)
			if err != nil {
				t.Fatal(err)
			}
			depth := rng.Uint32N(40)
			alts := rng.Uint32N(depth + 1)
			document, err := event.FromCall(&streampb.Call{
				Run: run, Sample: sample, VrsId: id, Contig: contig.Name, Pos: int64(pos), Ref: ref, Alt: alt, Revision: uint64(1 + i),
				Status: streampb.CallStatus(1 + rng.IntN(5)), Qual: 40 * rng.Float64(), Genotype: []uint32{1}, Depth: depth,
				AltForward: alts / 2, AltReverse: alts - alts/2, LastChunkMs: 1_700_000_000_000 + int64(i),
			}, a).JSON()
			if err != nil {
				t.Fatal(err)
			}
			rec.Body = &streampb.WatchRecord_Variant{Variant: document}
		}
		list = append(list, encode(t, sample, rec))
	}
	return append(list, marker(t, run, sample, 0, 1, true))
}

// weave mixes lists, each in its own order.
func weave(rng *rand.Rand, lists ...[]testRecord) []testRecord {
	var out []testRecord
	for {
		lists = slices.DeleteFunc(lists, func(l []testRecord) bool { return len(l) == 0 })
		if len(lists) == 0 {
			return out
		}
		i := rng.IntN(len(lists))
		out, lists[i] = append(out, lists[i][0]), lists[i][1:]
	}
}

// TestRestoredHandlerGoesOnAlike: a handler that is lost and restored anywhere has the output of one
// that is not.
func TestRestoredHandlerGoesOnAlike(t *testing.T) {
	f := load(t)
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 101))
		var own []testRecord
		for _, rec := range f.run(t) {
			own = append(own, testRecord{rec.Key, rec.Value})
		}
		recs := weave(rng, own, f.random(t, rng, "run-2", "lambda", 40), f.random(t, rng, "run-3", "a/b", 40),
			[]testRecord{covered(t, "run-1", 37_500, 9, 9, "sha256:others", "sha256:others")})
		for i := range len(recs) / 4 {
			recs = slices.Insert(recs, 5*i+4, recs[rng.IntN(5*i+1)])
		}
		outs := statetest.Law(t, f.lawful(t), records(recs...), 8, seed)
		if len(outs) < 20 {
			t.Errorf("seed %d: %d records", seed, len(outs))
		}
	}
}

// TestSamplesDontMix: a sample's results do not depend on other records of the
// partition, and a marker of another sample that claims one of its runs
// is refused.
func TestSamplesDontMix(t *testing.T) {
	f := load(t)
	of := func(emissions []emission) map[string][]string {
		said := make(map[string][]string)
		for _, e := range emissions {
			for _, o := range e.outs {
				if o.Topic != "alerts" {
					continue
				}
				a, end, err := alert.Decode(stream.Record{Topic: o.Topic, Value: o.Value, Headers: o.Headers})
				if err != nil {
					t.Fatal(err)
				}
				var sample string
				if a != nil {
					sample = a.Sample
				} else {
					sample = end.Sample
				}
				said[sample] = append(said[sample], fmt.Sprintf("%q %q %q", o.Key, o.Value, o.Headers))
			}
		}
		return said
	}
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 102))
		perSample := make(map[string][]testRecord)
		for i, sample := range []string{"a", "a", "a/b", "b"} {
			perSample[sample] = weave(rng, perSample[sample], f.random(t, rand.New(rand.NewPCG(seed, 103)), fmt.Sprint("cell-", i), sample, 40))
		}
		lists := [][]testRecord{}
		for _, sample := range slices.Sorted(maps.Keys(perSample)) {
			lists = append(lists, slices.Clone(perSample[sample]))
		}
		all := weave(rng, lists...)
		// After the run's own markers, a sample that claims it comes too late.
		all = append(all, marker(t, "cell-3", "thief", 0, 1, false), marker(t, "cell-3", "thief", 0, 1, true))
		got := of(handle(t, f.lawful(t)(), records(all...)))
		for sample, recs := range perSample {
			want := of(handle(t, f.lawful(t)(), records(recs...)))[sample]
			if !slices.Equal(got[sample], want) || len(want) < 4 {
				t.Errorf("seed %d: sample %s is told of otherwise among others: %d, want %d", seed, sample, len(got[sample]), len(want))
			}
		}
		if len(got["thief"]) > 0 {
			t.Errorf("seed %d: a sample took another one's run: %q", seed, got["thief"])
		}
	}
}

func TestStateRefuses(t *testing.T) {
	f := load(t)
	h := f.lawful(t)()
	handle(t, h, f.run(t))
	sections := statetest.Snapshot(t, h)
	if got := slices.Sorted(maps.Keys(sections)); !slices.Equal(got, []string{"markers", "sample/lambda"}) {
		t.Fatalf("sections %q", got)
	}
	again := f.lawful(t)()
	statetest.Restore(t, again, sections)
	if err := again.State().RestoreSection("sample/lambda", []byte(sections["sample/lambda"])); err == nil {
		t.Error("a sample that comes twice is accepted")
	}
	if err := f.lawful(t)().State().RestoreSection("sample/lambda", []byte{9}); err == nil || !strings.Contains(err.Error(), "newer") {
		t.Errorf("another version: %v", err)
	}
	if _, err := h.State().AppendSection(nil, "sample/x"); err == nil {
		t.Error("a section is there that should not be")
	}
	if n := len(section(strings.Repeat("ü", 256))); n > maxSectionName {
		t.Errorf("a name of %d bytes", n)
	}
}

// TestFingerprint: it changes with what alerts depend on through the state.
func TestFingerprint(t *testing.T) {
	base := Config{Panels: "1", Genes: "1", AlertsPartitions: 1}
	want := base.fingerprint(4)
	alerts, panels, genes := base, base, base
	alerts.AlertsPartitions, panels.Panels, genes.Genes = 9, "2", "2"
	if alerts.fingerprint(4) != want {
		t.Error("it depends on where alerts go")
	}
	if panels.fingerprint(4) == want || genes.fingerprint(4) == want || base.fingerprint(5) == want {
		t.Error("it does not depend on panels, genes or partitions")
	}
}

// TestBadRecordsLeaveNoTrace: the state with them is the state without them.
func TestBadRecordsLeaveNoTrace(t *testing.T) {
	f := load(t)
	recs := f.random(t, rand.New(rand.NewPCG(1, 104)), "run-1", "lambda", 20)
	bad := func(document string) testRecord {
		return encode(t, "x", &streampb.WatchRecord{Body: &streampb.WatchRecord_Variant{Variant: []byte(document)}, Panels: own})
	}
	flipped := encode(t, "x", &streampb.WatchRecord{Panels: own, Body: &streampb.WatchRecord_Coverage{Coverage: &streampb.Coverage{
		Sample: "x", Contig: "J02459.1", Start: 1, End: 2, Lengths: []uint32{1}, Depths: []uint32{1}, Revision: 1, Panels: own, Counted: true,
	}}})
	flipped.value[len(flipped.value)-1] ^= 1
	with := slices.Insert(slices.Clone(recs), 10, bad("{"), bad(`{"sample":"x","revision":1}`), bad(`{"sample":"x","variant":{"vrs_id":"y"}}`), flipped,
		marker(t, "run-1", "x", 0, 1, true), marker(t, "run-1", "lambda", 0, 5, true))
	a, b := f.lawful(t)(), f.lawful(t)()
	handle(t, a, records(recs...))
	handle(t, b, records(with...))
	if got, want := statetest.Snapshot(t, b), statetest.Snapshot(t, a); !maps.Equal(got, want) {
		t.Errorf("sections %q, want %q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}
