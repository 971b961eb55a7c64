package variant_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/align/aligntest"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
)

var update = flag.Bool("update", false, "write golden states that don't exist yet")

// parts are the sections of a region's state, with their versions.
type parts struct {
	state    string
	reads    []string
	versions []uint64
}

func partsOf(t testing.TB, r *variant.Region) parts {
	t.Helper()
	b, err := r.AppendState(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := parts{state: string(b), versions: []uint64{r.StateVersion()}}
	for i := range r.Batches() {
		p.reads = append(p.reads, string(r.AppendReads(nil, i)))
		p.versions = append(p.versions, r.ReadsVersion(i))
	}
	return p
}

func (p parts) equal(o parts) bool { return p.state == o.state && slices.Equal(p.reads, o.reads) }

func restore(t testing.TB, c *genome.Contig, cfg variant.Config, spans []variant.Span, p parts, batchBytes int, rnd *rand.Rand) *variant.Region {
	t.Helper()
	x, err := variant.NewRestorer(c, 0, cfg, variant.Targets{Spans: spans})
	if err != nil {
		t.Fatal(err)
	}
	x.SetLimits(batchBytes, 10)
	for _, i := range rnd.Perm(len(p.reads) + 1) {
		if i == len(p.reads) {
			err = x.State([]byte(p.state))
		} else {
			err = x.Reads(i, []byte(p.reads[i]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := x.Region()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// step is what happens to a region: a segment comes, or its sample ends.
type step struct {
	segment   *streampb.Segment // nil: the sample ends
	withdrawn bool              // its read
}

// take does what the stage does, and returns all that is said.
func take(t testing.TB, r *variant.Region, s step) string {
	t.Helper()
	var calls []*streampb.Call
	switch {
	case s.segment == nil:
		calls = finalize(t, r)
	case s.withdrawn:
		r.Withdraw(s.segment.GetRun(), s.segment.GetReadId())
	default:
		changed, err := r.Apply(s.segment)
		if err != nil {
			t.Fatal(err)
		}
		if changed {
			calls = evaluate(t, r)
		}
	}
	said := fmt.Sprint(len(calls))
	for _, c := range calls {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		said += string(b)
	}
	for _, c := range r.Coverage() {
		said += fmt.Sprint(c.GetRun(), c.GetStart(), c.GetEnd(), c.GetLengths(), c.GetDepths(), c.GetRevision(), c.GetFinal())
	}
	return said
}

// steps are reads of two runs, some of them twice, supplementary, without
// qualities or badly mapped, with ends in between and late reads behind.
func steps(t testing.TB, s *sample, rnd *rand.Rand, n, length int) []step {
	t.Helper()
	var list []step
	segments := s.segments(t, n, length, 0, len(s.contig.Seq))
	for i, seg := range segments {
		switch rnd.IntN(12) {
		case 0:
			seg.Run = "run-2"
		case 1:
			seg.Supplementary = true
		case 2:
			seg.Qualities = nil
		case 3:
			seg.MappingQuality = 1
		case 4:
			list = append(list, step{segment: segments[rnd.IntN(i+1)]})
		}
		list = append(list, step{segment: seg})
		if i == n*2/3 || i == n*5/6 {
			list = append(list, step{})
		}
	}
	return append(list, step{})
}

// partialOf is a segment of a read that goes on.
func partialOf(s *streampb.Segment, times int) *streampb.Segment {
	s = proto.CloneOf(s)
	s.Partial = uint32(times)
	return s
}

// withPartials is steps between which reads are published before their end, and withdrawn.
func withPartials(steps []step, rnd *rand.Rand) []step {
	var list []step
	for i, st := range steps {
		for n := range max(0, rnd.IntN(6)-2) {
			if s := steps[i+rnd.IntN(min(12, len(steps)-i))].segment; s != nil {
				list = append(list, step{segment: partialOf(s, 1+n)})
			}
		}
		if s := steps[rnd.IntN(len(steps))].segment; s != nil && rnd.IntN(6) == 0 {
			list = append(list, step{segment: s, withdrawn: true})
		}
		list = append(list, st)
	}
	return list
}

// TestRestoredRegionGoesOn: a region that is taken to pieces and put together
// again anywhere says of what follows what one does that never was, and has the
// same state.
func TestRestoredRegionGoesOn(t *testing.T) {
	dropped := 0
	for seed := range uint64(6) {
		s, _ := planted(t, seed)
		s.mismatch, s.gap = 0.05, 0.04
		rnd := rand.New(rand.NewPCG(seed, 31))
		cfg := variant.Config{Sample: "s", EmitQual: 0.1, MaxDepth: []int{0, 8, 14}[seed%3], MinDepth: 4}
		spans := []variant.Span{{900, 1100}, {2000, 4200}}
		batchBytes := []int{1 << 20, 700, 1}[rnd.IntN(3)]
		whole := region(t, s.contig, 0, cfg)
		whole.SetTargets(variant.Targets{Spans: spans})
		whole.SetLimits(batchBytes, 10)
		restored := region(t, s.contig, 0, cfg)
		restored.SetTargets(variant.Targets{Spans: spans})
		restored.SetLimits(batchBytes, 10)
		known := make(map[string]string) // content by name and version
		for i, st := range withPartials(steps(t, s, rnd, 60, 1500), rnd) {
			if got, want := take(t, restored, st), take(t, whole, st); got != want {
				t.Fatalf("seed %d, step %d: a restored region says\n%s\nwant\n%s", seed, i, got, want)
			}
			want := partsOf(t, whole)
			if !partsOf(t, restored).equal(want) {
				t.Fatalf("seed %d, step %d: a restored region has another state", seed, i)
			}
			for j, content := range append([]string{want.state}, want.reads...) {
				key := fmt.Sprint(j, " ", want.versions[j])
				if old, ok := known[key]; ok && old != content {
					t.Fatalf("seed %d, step %d: part %s stands for two contents", seed, i, key)
				}
				known[key] = content
			}
			if rnd.IntN(4) == 0 {
				restored = restore(t, s.contig, cfg, spans, want, batchBytes, rnd)
				if !partsOf(t, restored).equal(want) {
					t.Fatalf("seed %d, step %d: a region that was just restored has another state", seed, i)
				}
			}
		}
		dropped += whole.Dropped()
	}
	if dropped < 5 {
		t.Errorf("the cap on depth let go of %d reads", dropped)
	}
}

// TestSealedBatchesStay: a read that comes changes the last batch only.
func TestSealedBatchesStay(t *testing.T) {
	s := newSample(t, 5, 6000)
	r := region(t, s.contig, 0, variant.Config{})
	r.SetLimits(300, 1<<20)
	var before parts
	for _, seg := range s.segments(t, 40, 1000, 0, 6000) {
		take(t, r, step{segment: seg})
		after := partsOf(t, r)
		for i := range len(before.reads) - 1 {
			if before.versions[1+i] != after.versions[1+i] || before.reads[i] != after.reads[i] {
				t.Fatalf("batch %d of %d changed", i, len(after.reads))
			}
		}
		before = after
	}
	if len(before.reads) < 4 {
		t.Errorf("%d batches", len(before.reads))
	}
}

// goldenRegion is a region with all that a state can hold.
func goldenRegion(t testing.TB) (*genome.Contig, variant.Config, []variant.Span, *variant.Region) {
	t.Helper()
	s, _ := planted(t, 3)
	cfg := variant.Config{Sample: "s", MaxDepth: 6, MinDepth: 3}
	spans := []variant.Span{{900, 1100}}
	r := region(t, s.contig, 0, cfg)
	r.SetTargets(variant.Targets{Spans: spans})
	r.SetLimits(600, 10)
	for i, st := range steps(t, s, rand.New(rand.NewPCG(1, 1)), 24, 1500) {
		if st.segment != nil {
			st.segment.Model = stream.ModelNumber([]string{"", "one", "two"}[i%3])
		}
		take(t, r, st)
	}
	for _, seg := range s.segments(t, 2, 700, 400, 1400) {
		seg.ReadId, seg.MappingQuality = "uncertain "+seg.ReadId, 3
		apply(t, r, seg)
	}
	finalize(t, r)
	r.SetMotifs(&streampb.MotifError{Motif: "CCWGG", Base: 2, Shows: "T", Sites: 40, Affected: 38, Reads: 400, Wrong: 190})
	if _, _, ok := r.Reference(variant.SurveyConfig{Callable: true}); !ok {
		t.Fatal("nothing is told at the end")
	}
	return s.contig, cfg, spans, r
}

// goldenParts reads testdata/state, or writes it with -update what isn't there.
func goldenParts(t testing.TB, what, stateVersion, readsVersion string, batches int, now parts) parts {
	t.Helper()
	var golden parts
	for i := range 1 + batches {
		name, version, content := what+"-state", stateVersion, now.state
		if i > 0 {
			name, version, content = fmt.Sprintf("%s-reads-%d", what, i-1), readsVersion, ""
			if i <= len(now.reads) {
				content = now.reads[i-1]
			}
		}
		path := filepath.Join("testdata", "state", name+"."+version+".hex")
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) && *update && content != "" {
			text = []byte(hexLines([]byte(content)))
			err = os.WriteFile(path, text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			golden.state = string(b)
		} else {
			golden.reads = append(golden.reads, string(b))
		}
	}
	return golden
}

// TestGoldenRegion: the encoding stays what it is.
func TestGoldenRegion(t *testing.T) {
	c, cfg, spans, r := goldenRegion(t)
	now := partsOf(t, r)
	golden := goldenParts(t, "region", "v5", "v3", len(now.reads), now)
	restored := restore(t, c, cfg, spans, golden, 600, rand.New(rand.NewPCG(2, 2)))
	if !partsOf(t, restored).equal(golden) {
		t.Error("the golden state is written back otherwise")
	}
	if _, _, ok := restored.Reference(variant.SurveyConfig{Callable: true}); ok {
		t.Error("what was told is told again")
	}

	// Reads that go on, one of which has been replaced and one withdrawn.
	s := newSample(t, 5, 3000)
	open, segments := region(t, s.contig, 0, cfg), s.segments(t, 3, 400, 900, 2000)
	for i, seg := range segments {
		apply(t, open, partialOf(seg, 1+i))
	}
	apply(t, open, segments[0])
	open.Withdraw(segments[1].GetRun(), segments[1].GetReadId())
	now = partsOf(t, open)
	golden = goldenParts(t, "open", "v5", "v3", len(now.reads), now)
	if !now.equal(golden) {
		t.Error("the state of reads that go on is written otherwise")
	}
	if !partsOf(t, restore(t, s.contig, cfg, nil, golden, 600, rand.New(rand.NewPCG(2, 2)))).equal(golden) {
		t.Error("the golden state of reads that go on is written back otherwise")
	}

	// The calling code of a former version was another one.
	x, err := variant.NewRestorer(c, 0, cfg, variant.Targets{Spans: spans})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.State([]byte(goldenParts(t, "region", "v4", "v3", 0, parts{}).state)); err == nil || !strings.Contains(err.Error(), "version 4, and this program reads version 5") {
		t.Errorf("the state of a former version: %v", err)
	}
}

func hexLines(b []byte) string {
	var s strings.Builder
	for line := range slices.Chunk(b, 40) {
		s.WriteString(hex.EncodeToString(line) + "\n")
	}
	return s.String()
}

// TestDamagedRegions: what is cut off, missing, doubled or another region's is an
// error.
func TestDamagedRegions(t *testing.T) {
	c, cfg, spans, r := goldenRegion(t)
	whole := partsOf(t, r)
	attempt := func(p map[int]string, spans []variant.Span) error {
		x, err := variant.NewRestorer(c, 0, cfg, variant.Targets{Spans: spans})
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range slices.Sorted(maps.Keys(p)) {
			if i < 0 {
				err = x.State([]byte(p[i]))
			} else {
				err = x.Reads(i, []byte(p[i]))
			}
			if err != nil {
				return err
			}
		}
		_, err = x.Region()
		return err
	}
	sound := map[int]string{-1: whole.state}
	for i, reads := range whole.reads {
		sound[i] = reads
	}
	if err := attempt(sound, spans); err != nil {
		t.Fatal(err)
	}
	for i, content := range sound {
		for _, n := range []int{0, 1, 2, len(content) / 2, len(content) - 1} {
			damaged := maps.Clone(sound)
			if damaged[i] = content[:n]; attempt(damaged, spans) == nil {
				t.Errorf("%d bytes of %d of part %d are taken for all", n, len(content), i)
			}
		}
		missing := maps.Clone(sound)
		if delete(missing, i); attempt(missing, spans) == nil {
			t.Errorf("part %d is not missed", i)
		}
	}
	doubled := maps.Clone(sound)
	if doubled[1] = doubled[0]; attempt(doubled, spans) == nil {
		t.Error("a batch that comes twice is accepted")
	}
	if attempt(sound, nil) == nil {
		t.Error("coverage that nobody watches is accepted")
	}
}

func FuzzRestore(f *testing.F) {
	text, err := os.ReadFile(filepath.Join("testdata", "state", "region-state.v5.hex"))
	if err != nil {
		f.Fatal(err)
	}
	state, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		f.Fatal(err)
	}
	s := newSample(f, 3, 3000)
	cfg := variant.Config{MaxDepth: 4, MinDepth: 2}
	r := region(f, s.contig, 0, cfg)
	for _, seg := range s.segments(f, 12, 300, 0, 3000) {
		take(f, r, step{segment: seg})
	}
	p := partsOf(f, r)
	f.Add(state, []byte(p.reads[0]))
	f.Add([]byte(p.state), []byte(p.reads[0]))
	for i, seg := range s.segments(f, 6, 400, 100, 3000) {
		take(f, r, step{segment: partialOf(seg, 1+i%2)})
		take(f, r, step{segment: seg, withdrawn: i == 3})
	}
	p = partsOf(f, r)
	f.Add([]byte(p.state), []byte(p.reads[0]))
	f.Fuzz(func(t *testing.T, state, reads []byte) {
		x, err := variant.NewRestorer(s.contig, 0, cfg, variant.Targets{})
		if err != nil {
			t.Fatal(err)
		}
		if x.State(state) != nil || x.Reads(0, reads) != nil {
			return
		}
		r, err := x.Region()
		if err != nil {
			return
		}
		p := partsOf(t, r)
		again := restore(t, s.contig, cfg, nil, p, 1<<20, rand.New(rand.NewPCG(1, 2)))
		if !partsOf(t, again).equal(p) {
			t.Fatal("restored again it has another state")
		}
		finalize(t, r)
	})
}

// TestVersionOfCalling: who changes what is called, or when it is said, raises the
// version, so that nobody goes on with state that the old code has made.
func TestVersionOfCalling(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("compilers for other processors round otherwise")
	}
	const version = "variant 17" // what Fingerprint begins with
	haplotypes, _ := diploid(t, 1)
	both := reads(t, haplotypes, 20)
	rand.New(rand.NewPCG(4, 6)).Shuffle(len(both), func(i, j int) { both[i], both[j] = both[j], both[i] })
	events, overlapping := overlappingEvents(t)
	for _, tt := range []struct {
		name     string
		contig   *genome.Contig
		cfg      variant.Config
		segments []*streampb.Segment
		want     string
	}{
		{"one copy, real reads", aligntest.LambdaGenome(t).Contigs[0], variant.Config{Sample: "s"}, aligntest.Lambda(t, "run", "s")[:60], "f32bae9598b107fbab382c652e4215dc9aa0f5699fe28afa692731b919382f0d"},
		{"two copies", haplotypes[0].contig, variant.Config{Sample: "s", Ploidy: variant.Diploid, Network: &variant.DoseNetwork{}}, both, "5ea04014b1a09db6689949d9803c48035de95024ecd985e417aba9fc9619ffc8"},
		{"two copies, events over the same bases", events, variant.Config{Sample: "s", Ploidy: variant.Diploid, Network: &variant.DoseNetwork{}}, overlapping, "59929f7961e3909131e123bed0b64c5eaf4d5abd2f3b41972159cf748a999415"},
		{"a mixture", haplotypes[0].contig, variant.Config{Sample: "s", Ploidy: variant.Mixture, Network: &variant.DoseNetwork{}}, both, "7d5bd87ba5838c58d55028ef2f2d25028a0348bc1c777048dcb762664b232f25"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := region(t, tt.contig, 0, tt.cfg)
			sum := sha256.New()
			for _, s := range tt.segments {
				sum.Write([]byte(take(t, r, step{segment: s})))
			}
			sum.Write([]byte(take(t, r, step{})))
			fields := strings.Fields(variant.Config{}.Fingerprint())
			if now, got := strings.Join(fields[:2], " "), hex.EncodeToString(sum.Sum(nil)); now != version || got != tt.want {
				t.Errorf("%s says %s, and %s said %s: if that is meant, raise variant's version and note both here", now, got, version, tt.want)
			}
		})
	}
}

func BenchmarkAppendReads(b *testing.B) {
	contig, segments := sarscov2(b)
	r := region(b, contig, 0, variant.Config{MaxDepth: 10_000})
	bases := 0
	for _, s := range segments {
		apply(b, r, s)
		bases += len(s.GetQualities())
	}
	var buf bytes.Buffer
	b.ReportAllocs()
	for b.Loop() {
		buf.Reset()
		for i := range r.Batches() {
			buf.Write(r.AppendReads(buf.AvailableBuffer(), i))
		}
	}
	b.SetBytes(int64(bases))
	b.ReportMetric(float64(buf.Len())/float64(bases), "B/base")
}
