package stage

import (
	"encoding/hex"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/align/aligntest"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/statetest"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
)

var update = flag.Bool("update", false, "write golden states that don't exist yet")

func lawful(t testing.TB) func() stream.Handler {
	_, haplotypes := lambdaHaplotypes(t)
	newHandler := New(Config{
		Topics: stream.NewTopics(""), VariantsPartitions: 3, Annotator: lambdaAnnotator(t), Haplotypes: haplotypes, Genes: "lambda",
		Watch: &Watch{Partitions: 2, Panels: "own", Concerns: func(v *event.Variant) bool { return v.Annotation.MostSevere.Gene == "cI" }},
	})
	return func() stream.Handler {
		h, err := newHandler("calls", 1, 2)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
}

// realCalls are the revisions that reads of lambda lead to.
func realCalls(t testing.TB, run, sample string) []*streampb.Call {
	t.Helper()
	region, err := variant.NewRegion(aligntest.LambdaGenome(t).Contigs[0], 0, variant.Config{Sample: sample})
	if err != nil {
		t.Fatal(err)
	}
	var calls []*streampb.Call
	for _, s := range aligntest.Lambda(t, run, sample)[:60] {
		if _, err := region.Apply(s); err != nil {
			t.Fatal(err)
		}
		revisions, err := region.Evaluate()
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, revisions...)
	}
	final, err := region.Finalize()
	if err != nil {
		t.Fatal(err)
	}
	return append(calls, final...)
}

// randomCalls are revisions of alleles that lie close together; some of the
// alleles come and go.
func randomCalls(t testing.TB, rng *rand.Rand, run, sample string, n int) []*streampb.Call {
	t.Helper()
	contig := aligntest.LambdaGenome(t).Contigs[0]
	newest := make(map[string]*streampb.Call)
	var calls []*streampb.Call
	for range n {
		c := randomCall(rng, contig, 37_000+rng.IntN(60)*7)
		c.Run, c.Sample = run, sample
		if old := newest[c.GetVrsId()]; old != nil {
			c = proto.CloneOf(old)
			c.Revision++
		}
		c.Status = streampb.CallStatus(1 + rng.IntN(5))
		c.LastChunkMs += int64(rng.IntN(100_000))
		if rng.IntN(4) == 0 {
			c.Filters = []string{"LowQual"}
		}
		newest[c.GetVrsId()] = c
		calls = append(calls, c)
	}
	return calls
}

func values(t testing.TB, run, sample string, calls []*streampb.Call) []testRecord {
	t.Helper()
	marker := func(end bool) testRecord {
		mk := &streampb.Marker{Run: &streampb.Run{Id: run, Sample: sample, SampleRate: 4000}, Sources: 1}
		value, err := stream.CallsMarker(mk, end)
		if err != nil {
			t.Fatal(err)
		}
		return testRecord{stream.MarkerKey(mk, end), value}
	}
	list := []testRecord{marker(false)}
	for _, c := range calls {
		list = append(list, callRecord(t, c))
	}
	return append(list, marker(true))
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

// TestLaw: a handler that is lost and restored anywhere has the output of one
// that is not, of real calls and of crowded random ones.
func TestLaw(t *testing.T) {
	real := realCalls(t, "run-1", "a/b")
	if len(real) < 5 {
		t.Fatalf("%d real calls", len(real))
	}
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 91))
		recs := weave(rng,
			values(t, "run-1", "a/b", real), values(t, "run-2", "a/b", randomCalls(t, rng, "run-2", "a/b", 150)),
			values(t, "run-3", "lambda", randomCalls(t, rng, "run-3", "lambda", 150)),
			[]testRecord{{[]byte("key"), []byte("not ours")}, coverageRecord(t, 37_580, 1), coverageRecord(t, 37_580, 2)})
		for i := range len(recs) / 4 {
			recs = slices.Insert(recs, 5*i+4, recs[rng.IntN(5*i+1)])
		}
		outs := statetest.Law(t, lawful(t), records(recs...), 12, seed)
		compounds, ahead := 0, 0
		revisions := make(map[string]uint64)
		for _, o := range outs {
			v, _ := read(t, o)
			if v == nil {
				continue
			}
			if v.Revision <= revisions[string(o.Key)] {
				t.Fatalf("seed %d: revision %d of %s behind %d", seed, v.Revision, o.Key, revisions[string(o.Key)])
			}
			if v.Revision > revisions[string(o.Key)]+1 || len(v.Haplotype) > 0 {
				ahead++
			}
			revisions[string(o.Key)] = v.Revision
			compounds += len(v.Haplotype)
		}
		if compounds < 50 || ahead == 0 {
			t.Errorf("seed %d: %d compounds", seed, compounds)
		}
	}
}

// TestSamplesDontMix: a sample's results do not depend on other records of the
// partition, even if alleles and runs have the same names.
func TestSamplesDontMix(t *testing.T) {
	of := func(outs []stream.Out) map[string][]string {
		said := make(map[string][]string)
		for _, o := range outs {
			v, end := read(t, o)
			var sample string
			switch {
			case v != nil:
				sample = v.Sample
			case end != nil:
				sample = end.Sample
			default:
				continue
			}
			said[sample] = append(said[sample], fmt.Sprintf("%q %q %q", o.Key, o.Value, o.Headers))
		}
		return said
	}
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 92))
		perSample := make(map[string][]testRecord)
		for i, sample := range []string{"a", "a", "a/b", "b"} {
			run := fmt.Sprint("cell-", i)
			// The alleles of all samples are the same.
			calls := randomCalls(t, rand.New(rand.NewPCG(seed, 93)), run, sample, 60)
			if i == 1 { // a sample's calls are one sequence, whatever its runs
				calls = nil
			}
			perSample[sample] = weave(rng, perSample[sample], values(t, run, sample, calls))
		}
		var lists [][]testRecord
		for _, sample := range slices.Sorted(maps.Keys(perSample)) {
			lists = append(lists, slices.Clone(perSample[sample]))
		}
		var outs []stream.Out
		for _, e := range handle(t, lawful(t)(), records(weave(rng, lists...)...)) {
			outs = append(outs, e.outs...)
		}
		got := of(outs)
		for sample, recs := range perSample {
			var alone []stream.Out
			for _, e := range handle(t, lawful(t)(), records(recs...)) {
				alone = append(alone, e.outs...)
			}
			if want := of(alone)[sample]; !slices.Equal(got[sample], want) || len(want) < 60 {
				t.Errorf("seed %d: sample %s is told of otherwise among others: %d events, want %d", seed, sample, len(got[sample]), len(want))
			}
		}
	}
}

// goldenHandler holds alleles with and without compounds, filters and ends.
func goldenHandler(t testing.TB) stream.Handler {
	t.Helper()
	h := lawful(t)()
	rng := rand.New(rand.NewPCG(5, 94))
	emit := new(statetest.Recorder)
	for _, rec := range records(weave(rng, values(t, "run-1", "a/b", randomCalls(t, rng, "run-1", "a/b", 25)), values(t, "run-2", "c", randomCalls(t, rng, "run-2", "c", 3)))...) {
		if err := h.Handle(t.Context(), rec, emit); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// TestGoldenState: state that version 1 wrote is read by every later program.
func TestGoldenState(t *testing.T) {
	golden := make(map[string]string)
	for name, content := range statetest.Snapshot(t, goldenHandler(t)) {
		path := filepath.Join("testdata", "state", strings.NewReplacer("/", "-", "%2F", "_").Replace(name)+".v1.hex")
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) && *update {
			text = hexLines([]byte(content))
			err = os.WriteFile(path, text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
		if err != nil {
			t.Fatal(err)
		}
		golden[name] = string(b)
	}
	h := lawful(t)()
	statetest.Restore(t, h, golden)
	if got := statetest.Snapshot(t, h); len(got) != 3 || !maps.Equal(got, golden) {
		t.Errorf("the golden state is written back otherwise: %q", slices.Sorted(maps.Keys(got)))
	}
	if !strings.Contains(golden["contig/a%2Fb/J02459.1"], "amino_acids") {
		t.Error("the golden state holds no compound")
	}
}

func hexLines(b []byte) []byte {
	var s strings.Builder
	for line := range slices.Chunk(b, 40) {
		s.WriteString(hex.EncodeToString(line) + "\n")
	}
	return []byte(s.String())
}

func TestRestoreRefuses(t *testing.T) {
	h := goldenHandler(t)
	sections := statetest.Snapshot(t, h)
	const name = "contig/a%2Fb/J02459.1"
	whole := sections[name]
	fresh := lawful(t)
	for _, n := range []int{0, 1, 2, 20, len(whole) / 2, len(whole) - 1} {
		if err := fresh().State().RestoreSection(name, []byte(whole[:n])); err == nil {
			t.Errorf("the first %d of %d bytes are taken for all", n, len(whole))
		}
	}
	for what, b := range map[string]string{"newer": "\x02" + whole[1:], "longer": whole + "\x00", "broken JSON": strings.Replace(whole, `{"`, `{{`, 1)} {
		if err := fresh().State().RestoreSection(name, []byte(b)); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	twice := fresh()
	statetest.Restore(t, twice, sections)
	if err := twice.State().RestoreSection(name, []byte(whole)); err == nil {
		t.Error("a section that comes twice is accepted")
	}
	if _, err := h.State().AppendSection(nil, "contig/x/y"); err == nil {
		t.Error("a section is there that should not be")
	}
}

// TestFingerprint: it changes with what events depend on through the state.
func TestFingerprint(t *testing.T) {
	_, haplotypes := lambdaHaplotypes(t)
	base := Config{Haplotypes: haplotypes, Genes: "1", VariantsPartitions: 3}
	more := base
	more.VariantsPartitions, more.Topics, more.Annotator = 5, stream.NewTopics("x"), lambdaAnnotator(t)
	if more.fingerprint() != base.fingerprint() {
		t.Error("it depends on where events go, or on annotations")
	}
	genes, without := base, base
	genes.Genes, without.Haplotypes = "2", nil
	if genes.fingerprint() == base.fingerprint() || without.fingerprint() == base.fingerprint() {
		t.Error("it does not depend on the genes")
	}
}

func FuzzRestoreSection(f *testing.F) {
	for name, content := range statetest.Snapshot(f, goldenHandler(f)) {
		f.Add(name, []byte(content))
	}
	newHandler := lawful(f)
	f.Fuzz(func(t *testing.T, name string, b []byte) {
		h := newHandler()
		if h.State().RestoreSection(name, b) != nil {
			return
		}
		again := newHandler()
		sections := statetest.Snapshot(t, h)
		statetest.Restore(t, again, sections)
		if !maps.Equal(statetest.Snapshot(t, again), sections) {
			t.Fatal("restored again it has another state")
		}
	})
}
