package stage

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/align/aligntest"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/statetest"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/testenv"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/varianttest"
)

// weave mixes lists, each in its own order.
func weave(rng *rand.Rand, lists ...[][]byte) [][]byte {
	var out [][]byte
	for {
		lists = slices.DeleteFunc(lists, func(l [][]byte) bool { return len(l) == 0 })
		if len(lists) == 0 {
			return out
		}
		i := rng.IntN(len(lists))
		out, lists[i] = append(out, lists[i][0]), lists[i][1:]
	}
}

// runValues is a run from one source: its start, segments, and its end.
func runValues(t testing.TB, run, sample string, segments []*streampb.Segment) [][]byte {
	t.Helper()
	values := [][]byte{markerValue(t, run, sample, 0, 1, false)}
	for _, s := range segments {
		values = append(values, segmentValue(t, s))
	}
	return append(values, markerValue(t, run, sample, 0, 1, true))
}

// badValues are records that leave no trace.
func badValues(t testing.TB) [][]byte {
	t.Helper()
	good := aligntest.Lambda(t, "run-1", "never seen")[0]
	edit := func(f func(*streampb.Segment)) []byte {
		s := proto.CloneOf(good)
		f(s)
		return segmentValue(t, s)
	}
	return [][]byte{
		edit(func(s *streampb.Segment) { s.Contig = "chr1" }),
		edit(func(s *streampb.Segment) { s.Start = -1 }),
		edit(func(s *streampb.Segment) { s.Ops = s.Ops[:len(s.Ops)-1] }),
		edit(func(s *streampb.Segment) { s.Bases = append(slices.Clone(s.Bases), 'A') }),
		[]byte("not ours"),
	}
}

// TestLawWithRealReads: a handler that is lost and restored anywhere says what
// one says that is not, with reads of lambda, repetitions, bad records, a sample
// with two runs, and reads behind the end.
func TestLawWithRealReads(t *testing.T) {
	g := lambda(t)
	seeds := uint64(1)
	if testenv.All() {
		seeds = 4
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 71))
		first := aligntest.Lambda(t, "run-1", "a/b")
		rng.Shuffle(len(first), func(i, j int) { first[i], first[j] = first[j], first[i] })
		second := aligntest.Deep(aligntest.Lambda(t, "run-2", "a/b"), 1, seed)
		other := aligntest.Lambda(t, "run-3", "lambda ß")
		values := weave(rng,
			append(runValues(t, "run-1", "a/b", first[:40]), segmentValue(t, first[41]), segmentValue(t, first[42]), markerValue(t, "run-1", "a/b", 0, 1, true)),
			append(runValues(t, "run-2", "a/b", second[:20]), segmentValue(t, second[21])),
			runValues(t, "run-3", "lambda ß", other[:15]),
			badValues(t))
		for i := range 20 {
			values = slices.Insert(values, 4*i+3, values[rng.IntN(4*i+1)])
		}
		outs := statetest.Law(t, func() stream.Handler { return watching(t, g, nil) }, records(values), 8, seed)
		finals := 0
		for _, c := range decode(t, outs) {
			if c.GetCall().GetStatus() == streampb.CallStatus_FINAL {
				finals++
			}
		}
		if finals == 0 {
			t.Errorf("seed %d: %d final calls", seed, finals)
		}
	}
}

func decode(t testing.TB, outs []stream.Out) []*streampb.CallRecord {
	t.Helper()
	var list []*streampb.CallRecord
	for _, o := range outs {
		if o.Topic == "dlq" {
			continue
		}
		m, err := stream.DecodeCalls(o.Value)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, m)
	}
	return list
}

// TestBadRecordsLeaveNoTrace: the state with them is the state without them.
func TestBadRecordsLeaveNoTrace(t *testing.T) {
	g := lambda(t)
	values := runValues(t, "run-1", "lambda", aligntest.Lambda(t, "run-1", "lambda")[:40])
	with, without := newHandler(t, g, nil), newHandler(t, g, nil)
	handle(t, without, records(values))
	bad := badValues(t)
	bad = append(bad, markerValue(t, "run-1", "another", 0, 1, true), markerValue(t, "run-1", "lambda", 0, 7, true))
	values = slices.Insert(values, 20, bad...)
	handle(t, with, records(values))
	if got, want := statetest.Snapshot(t, with), statetest.Snapshot(t, without); !maps.Equal(got, want) {
		t.Errorf("sections %q, want %q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// said is what outs say of each sample, markers of each run included, in order.
func said(t testing.TB, outs []stream.Out) map[string]string {
	t.Helper()
	list := make(map[string]string)
	for i, m := range decode(t, outs) {
		of := m.GetCall().GetSample() + m.GetCoverage().GetSample()
		for _, mk := range []*streampb.Marker{m.GetRunStart(), m.GetRunEnd()} {
			of += mk.GetRun().GetSample()
		}
		list[of] += fmt.Sprintf("%d %q %q\n", outs[i].Partition, outs[i].Key, outs[i].Value)
	}
	return list
}

// TestSamplesDontMix: what is said of a sample does not depend on what else comes
// over the partition, even if runs of several samples have reads of one name; and
// two runs of a sample on two flow cells are one set of calls.
func TestSamplesDontMix(t *testing.T) {
	g := lambda(t)
	runs := []struct{ run, sample string }{{"cell-1", "a"}, {"cell-2", "a"}, {"cell-3", "b"}, {"cell-4", "a/b"}}
	bySample := make(map[string][][]byte) // records of each sample in one order
	rng := rand.New(rand.NewPCG(1, 81))
	for i, r := range runs {
		segments := aligntest.Lambda(t, r.run, r.sample) // read ids are the same in all runs
		values := runValues(t, r.run, r.sample, segments[10*i:10*i+40])
		bySample[r.sample] = weave(rng, bySample[r.sample], values)
	}
	samples := slices.Sorted(maps.Keys(bySample))
	want := make(map[string]string)
	for _, sample := range samples {
		alone := handle(t, watching(t, g, nil), records(bySample[sample])).outs()
		want[sample] = said(t, alone)[sample]
		if n := strings.Count(want[sample], "\n"); n < 10 { // six markers, two stretches, and calls
			t.Fatalf("sample %s: %d records", sample, n)
		}
	}
	for seed := range uint64(1) {
		rng := rand.New(rand.NewPCG(seed, 82))
		var lists [][][]byte
		for _, sample := range samples {
			lists = append(lists, slices.Clone(bySample[sample]))
		}
		all := weave(rng, lists...)
		// Behind the run's own markers, a run that claims the sample comes too
		// late; its reads are its own.
		all = append(all, runValues(t, "cell-1", "thief", aligntest.Lambda(t, "cell-1", "thief")[:5])...)
		got := said(t, handle(t, watching(t, g, nil), records(all)).outs())
		if strings.Contains(got["thief"], "/end/") {
			t.Errorf("seed %d: a sample ended another one's run", seed)
		}
		for _, sample := range samples {
			if got[sample] != want[sample] {
				t.Errorf("seed %d: sample %s is told of otherwise among others", seed, sample)
			}
		}
	}
}

func TestRestoreRefuses(t *testing.T) {
	g := lambda(t)
	h := newHandler(t, g, nil)
	handle(t, h, records(runValues(t, "run-1", "lambda", aligntest.Lambda(t, "run-1", "lambda")[:10])))
	sections := statetest.Snapshot(t, h)
	const reads = "region/lambda/J02459.1/0/reads/000000"
	if _, ok := sections[reads]; !ok || len(sections) != 3 {
		t.Fatalf("sections %q", slices.Sorted(maps.Keys(sections)))
	}
	// Half of a state is not gone on with.
	half := newHandler(t, g, nil)
	partial := maps.Clone(sections)
	delete(partial, reads)
	statetest.Restore(t, half, partial)
	emit := new(statetest.Recorder)
	err := half.Handle(t.Context(), records([][]byte{[]byte("any")})[0], emit)
	if err == nil || stream.IsBadRecord(err) || !strings.Contains(err.Error(), "0 batches of reads, want 1") {
		t.Errorf("half of a state is gone on with: %v", err)
	}
	for name, b := range map[string]string{
		"empty": "", "newer": "\x02", "another contig": strings.Replace(sections[reads], "J02459.1", "J02459.2", 1), "cut": sections[reads][:100],
	} {
		if err := newHandler(t, g, nil).State().RestoreSection(reads, []byte(b)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, name := range []string{"", "region/lambda/J02459.1/1", "region/lambda/J02459.1/0/reads/000001", "region/lambda/J02459.1/0/reads/x"} {
		if _, err := h.State().AppendSection(nil, name); err == nil {
			t.Errorf("section %q is there", name)
		}
	}
	twice := newHandler(t, g, nil)
	statetest.Restore(t, twice, sections)
	if err := twice.State().RestoreSection(reads, []byte(sections[reads])); err == nil {
		t.Error("a section that comes twice is accepted")
	}
}

// TestSectionNames: names distinguish regions, whatever samples are called, and
// fit a snapshot.
func TestSectionNames(t *testing.T) {
	long := strings.Repeat("ü", 256)
	names := make(map[string]bool)
	keys := []regionKey{{"a", "b", 0}, {"a/b", "", 0}, {"", "a/b", 0}, {"a%2Fb", "", 0}, {"a", "b", 1}, {"a", "b", 10}, {long, "c", 0}, {long, "c", 1}, {"c", long, 0}}
	for _, k := range keys {
		name := k.section()
		names[name] = true
		if n := len(readsSection(name, 999_999)); n > 512 {
			t.Errorf("%d bytes", n)
		}
	}
	if len(names) != len(keys) {
		t.Errorf("%d names of %d", len(names), len(keys))
	}
}

// TestFingerprint: it changes with what calls depend on, and with nothing else.
func TestFingerprint(t *testing.T) {
	base := func() Config {
		return Config{
			Genome: lambda(t), Targets: map[string]variant.Targets{"J02459.1": {Spans: []variant.Span{{Start: 1, End: 2}, {Start: 5, End: 9}}}},
			CallsPartitions: 3, Topics: stream.NewTopics(""),
		}
	}
	of := func(f func(*Config)) string {
		c := base()
		f(&c)
		return c.fingerprint()
	}
	want := of(func(*Config) {})
	for name, f := range map[string]func(*Config){
		"partitions":        func(c *Config) { c.CallsPartitions = 7 },
		"names of topics":   func(c *Config) { c.Topics = stream.NewTopics("x") },
		"defaults in words": func(c *Config) { c.Variant.MinDepth = 6 },
		"order of targets":  func(c *Config) { slices.Reverse(c.Targets["J02459.1"].Spans) },
		"version of panels": func(c *Config) { c.Panels = "sha256:2" },
		"sample":            func(c *Config) { c.Variant.Sample = "x" },
	} {
		if of(f) != want {
			t.Errorf("it depends on %s", name)
		}
	}
	for name, f := range map[string]func(*Config){
		"thresholds": func(c *Config) { c.Variant.MinQual = 20 },
		"network":    func(c *Config) { c.Variant.Network = new(varianttest.DoseNetwork) },
		"ploidy":     func(c *Config) { c.Variant.Ploidy = variant.Diploid },
		"stretches of another ploidy": func(c *Config) {
			c.Variant.Ploidies = variant.Ploidies{"J02459.1": {{Span: variant.Span{Start: 1, End: 2}, Ploidy: variant.Mixture}}}
		},
		"targets": func(c *Config) { c.Targets = nil },
		"reference": func(c *Config) {
			g, err := genome.Read(bytes.NewReader([]byte(">J02459.1\nACGT\n")))
			if err != nil {
				t.Fatal(err)
			}
			c.Genome = g
		},
	} {
		if of(f) == want {
			t.Errorf("it does not depend on %s", name)
		}
	}
}

func FuzzRestoreSection(f *testing.F) {
	g := lambda(f)
	h := newHandler(f, g, nil)
	handle(f, h, records(runValues(f, "run-1", "lambda", aligntest.Lambda(f, "run-1", "lambda")[:2])))
	for name, content := range statetest.Snapshot(f, h) {
		f.Add(name, []byte(content))
	}
	f.Fuzz(func(t *testing.T, name string, b []byte) {
		h := newHandler(t, g, nil)
		if h.State().RestoreSection(name, b) == nil {
			statetest.Snapshot(t, h)
		}
	})
}
