package variant

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/biogo/hts/bam"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/testenv"
)

// silent is a network that must not be asked.
type silent struct{}

func (silent) Score(dst, _ []float32) ([]float32, error) { return dst, errors.New("nobody asked") }
func (silent) Fingerprint() string                       { return "silent" }

// hg002 is the segments of the HG002 slice, and its reference.
func hg002(t testing.TB) (*genome.Contig, []*streampb.Segment) {
	t.Helper()
	dir := testenv.Recordings(t, "hg002-r9")
	g, err := genome.Load(filepath.Join(dir, "hg38.chr20_59M_100k.fa"))
	require.NoError(t, err)
	f, err := os.Open(filepath.Join(dir, "HG002.r94g360.chr20_59M_100k.bam"))
	require.NoError(t, err)
	defer f.Close()
	records, err := bam.NewReader(f, 1)
	require.NoError(t, err)
	defer records.Close()
	contig := g.Contig("chr20")
	var out []*streampb.Segment
	for {
		rec, err := records.Read()
		if errors.Is(err, io.EOF) {
			return contig, out
		}
		require.NoError(t, err)
		if rec.Ref == nil || rec.Seq.Length == 0 {
			continue
		}
		read, alignment, err := hts.Parse(rec, contig.Seq)
		require.NoError(t, err)
		segments, err := align.Segments(read, alignment, contig.Seq)
		require.NoError(t, err)
		out = append(out, segments...)
	}
}

func diploidRegion(t testing.TB, contig *genome.Contig, segments []*streampb.Segment) *Region {
	t.Helper()
	r, err := NewRegion(contig, 0, Config{Ploidy: Diploid, Network: silent{}})
	require.NoError(t, err)
	for _, s := range segments {
		_, err := r.Apply(s)
		require.NoError(t, err)
	}
	return r
}

// known is a SNP of the golden file.
type known struct {
	alt     string
	swapped bool // haplotype 1 has it
}

// whatshapSites are the SNPs that WhatsHap phased, by 0-based position.
func whatshapSites(t testing.TB) map[int]known {
	t.Helper()
	golden, err := os.ReadFile(filepath.Join("testdata", "hg002-whatshap.tsv"))
	require.NoError(t, err)
	out := make(map[int]known)
	for line := range strings.Lines(string(golden)) {
		if f := strings.Fields(line); !strings.HasPrefix(line, "#") {
			pos, err := strconv.Atoi(f[0])
			require.NoError(t, err)
			out[pos-1] = known{f[2], f[3] == "1|0"}
		}
	}
	return out
}

// TestHG002Haplotypes holds the haplotypes of a real sample to those that
// WhatsHap finds in the same reads, given another caller's heterozygous SNPs.
func TestHG002Haplotypes(t *testing.T) {
	contig, segments := hg002(t)
	r := diploidRegion(t, contig, segments)
	h := r.phaseReads(r.errorModel(), r.allTiles())

	whatshap := whatshapSites(t)
	sets := make(map[int32]int)
	var shared, differ int
	var swapped, last bool
	for _, s := range h.sites {
		sets[s.set]++
		w, ok := whatshap[s.pos]
		if !ok {
			t.Logf("%d: not among the other caller's", s.pos+1)
			continue
		}
		require.Equal(t, w.alt, string("ACGT"[s.alt]), "%d", s.pos+1)
		swapped = s.swapped != w.swapped
		if shared > 0 && swapped != last {
			differ++
			t.Logf("switch before %d, quality %.0f", s.pos+1, s.quality)
		}
		last = swapped
		shared++
	}
	t.Logf("%d sites in %d sets, %d of WhatsHap's %d, %d switches between neighbours", len(h.sites), len(sets), shared, len(whatshap), differ)
	require.Len(t, sets, 1)
	require.GreaterOrEqual(t, shared, 94)
	require.GreaterOrEqual(t, shared, len(h.sites)-1)
	require.Zero(t, differ)

	// Both agree on which reads are of one haplotype.
	tags, err := os.ReadFile(filepath.Join("testdata", "hg002-whatshap-reads.tsv"))
	require.NoError(t, err)
	of := make(map[string]int)
	for line := range strings.Lines(string(tags)) {
		if f := strings.Fields(line); !strings.HasPrefix(line, "#") {
			of[f[0]] = int(f[1][0] - '0')
		}
	}
	var alike, other, unknown int
	seen := make(map[string]bool)
	for _, s := range segments {
		n, ok := r.reads.find(r.reads.sorted, keyOf(s))
		if !ok || seen[s.GetReadId()] || of[s.GetReadId()] == 0 {
			continue
		}
		seen[s.GetReadId()] = true
		_, reads := h.around(-1, -1, []uint32{r.reads.sorted[n]})
		switch hap := reads[0].haplotype; {
		case hap == 0:
			unknown++
		case (hap == of[s.GetReadId()]) != last: // last: the first haplotypes differ
			alike++
		default:
			other++
			t.Logf("read %s is told apart: %v", s.GetReadId(), h.marks[r.reads.sorted[n]])
		}
	}
	t.Logf("%d of %d reads of the same haplotype, %d of the other, %d unknown", alike, len(of), other, unknown)
	require.LessOrEqual(t, other, len(of)/100)
	require.LessOrEqual(t, unknown, len(of)/15)
}

// TestHaplotypesAreAFunctionOfTheSet: reads that come in any order are of the same
// haplotypes.
func TestHaplotypesAreAFunctionOfTheSet(t *testing.T) {
	contig, segments := hg002(t)
	phase := func(segments []*streampb.Segment) ([]phasedSite, map[readKey][]mark) {
		r := diploidRegion(t, contig, segments)
		h := r.phaseReads(r.errorModel(), r.allTiles())
		marks := make(map[readKey][]mark)
		for n, m := range h.marks {
			marks[r.reads.table[n].key] = m
		}
		return h.sites, marks
	}
	sites, marks := phase(segments)
	require.NotEmpty(t, sites)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 3 {
		mixed := slices.Clone(segments)
		rng.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		s, m := phase(mixed)
		require.Equal(t, sites, s)
		require.Equal(t, marks, m)
	}
}

// TestHaplotypesInExamples: of a heterozygous SNP an example says that reads of one
// haplotype show it and those of the other don't.
func TestHaplotypesInExamples(t *testing.T) {
	contig, segments := hg002(t)
	r := diploidRegion(t, contig, segments)
	golden := whatshapSites(t)
	var found, het int
	err := r.Examples(func(c Candidate, example []float32) error {
		x := example[ExamplePlanes*ExampleColumns:]
		require.GreaterOrEqual(t, x[scalarHapSupport], x[scalarHapSupport+1])
		require.LessOrEqual(t, x[scalarHapKnown], float32(1))
		if w, ok := golden[c.Pos-1]; !ok || w.alt != c.Alt {
			return nil
		}
		found++
		if x[scalarHapDoses+1] == 0 && x[scalarHapShares] > 0.7 && x[scalarHapShares+1] < 0.3 {
			het++
		}
		return nil
	})
	require.NoError(t, err)
	t.Logf("%d of %d SNPs are one haplotype's", het, found)
	require.GreaterOrEqual(t, found, 100)
	require.GreaterOrEqual(t, float64(het), 0.85*float64(found))
}

// TestCallsArePhased: final calls of heterozygous sites say which haplotype has the
// allele, as WhatsHap does, and late reads leave it so; live calls don't say.
func TestCallsArePhased(t *testing.T) {
	contig, segments := hg002(t)
	r, err := NewRegion(contig, 0, Config{Ploidy: Diploid, Network: &DoseNetwork{}})
	require.NoError(t, err)
	late := segments[len(segments)/2 : len(segments)/2+8]
	for _, s := range slices.Concat(segments[:len(segments)/2], segments[len(segments)/2+8:]) {
		_, err := r.Apply(s)
		require.NoError(t, err)
	}
	live, err := r.Evaluate()
	require.NoError(t, err)
	require.NotEmpty(t, live)
	for _, c := range live {
		require.Zero(t, c.GetPhaseSet())
		require.IsNonDecreasing(t, c.GetGenotype())
	}
	final, err := r.Finalize()
	require.NoError(t, err)

	golden := whatshapSites(t)
	sets := make(map[int64]bool)
	var alike, other, het, phased int
	for _, c := range final {
		if c.GetStatus() != streampb.CallStatus_FINAL {
			continue
		}
		switch g := c.GetGenotype(); {
		case g[0] == g[1]:
			require.Zero(t, c.GetPhaseSet())
			continue
		case c.GetPhaseSet() == 0:
			het++
			require.Less(t, g[0], g[1])
			continue
		}
		het++
		phased++
		sets[c.GetPhaseSet()] = true
		if w, ok := golden[int(c.GetPos())-1]; ok && w.alt == c.GetAlt() {
			if w.swapped == (c.GetGenotype()[0] == 1) {
				alike++
			} else {
				other++
			}
		}
	}
	t.Logf("%d of %d heterozygous calls are phased, in %d sets; of WhatsHap's %d SNPs %d one way round, %d the other", phased, het, len(sets), len(golden), alike, other)
	require.Equal(t, map[int64]bool{539: true}, sets)
	require.Zero(t, min(alike, other))
	require.GreaterOrEqual(t, max(alike, other), 97)

	for _, s := range late {
		_, err := r.Apply(s)
		require.NoError(t, err)
	}
	amended, err := r.Evaluate()
	require.NoError(t, err)
	for _, c := range amended {
		if g := c.GetGenotype(); g[0] != g[1] && golden[int(c.GetPos())-1].alt == c.GetAlt() && c.GetStatus() == streampb.CallStatus_AMENDED {
			require.NotZero(t, c.GetPhaseSet(), "%d", c.GetPos())
		}
	}
}

// witness is a network that records how many of the haplotypes of the examples'
// reads it was given, and holds nothing likely.
type witness struct{ known []float32 }

func (w *witness) Score(dst, examples []float32) ([]float32, error) {
	for ; len(examples) > 0; examples = examples[ExampleSize:] {
		w.known = append(w.known, examples[ExamplePlanes*ExampleColumns+scalarHapKnown])
		for range Scores {
			dst = append(dst, -1)
		}
	}
	return dst, nil
}

func (*witness) Fingerprint() string { return "witness" }

// TestHaplotypesAreEncodedLive: the haplotypes that a network is given while the run goes
// on are nearly those at the end, though only the tiles around are read.
func TestHaplotypesAreEncodedLive(t *testing.T) {
	contig, segments := hg002(t)
	var w witness
	r, err := NewRegion(contig, 0, Config{Ploidy: Diploid, Network: &w})
	require.NoError(t, err)
	for _, s := range segments {
		_, err := r.Apply(s)
		require.NoError(t, err)
	}
	mean := func() float64 {
		sum := float32(0)
		for _, k := range w.known {
			sum += k
		}
		return float64(sum) / float64(len(w.known))
	}
	// One tile, from what lies around it.
	_, err = r.evaluateTiles([]int{50}, false)
	require.NoError(t, err)
	live, n := mean(), len(w.known)
	w.known = nil
	r.final = true // one tile, from the whole region
	_, err = r.evaluateTiles([]int{50}, false)
	require.NoError(t, err)
	require.Len(t, w.known, n)
	require.Greater(t, n, 10)
	require.Greater(t, live, 0.5)
	require.InDelta(t, mean(), live, 0.1)
}

func TestTilesAround(t *testing.T) {
	r := &Region{tiles: make([]tile, 20)}
	for _, tc := range []struct{ of, want []int }{
		{nil, nil},
		{[]int{0}, []int{0, 1, 2}},
		{[]int{9, 10}, []int{7, 8, 9, 10, 11, 12}},
		{[]int{3, 12}, []int{1, 2, 3, 4, 5, 10, 11, 12, 13, 14}},
		{[]int{18, 19}, []int{16, 17, 18, 19}},
	} {
		require.Equal(t, tc.want, slices.Collect(r.tilesAround(tc.of, 2)), "%v", tc.of)
	}
	require.Len(t, slices.Collect(r.allTiles()), 20)
}

// A region has the ploidies of its stretches, and of what lies between them.
func TestRegionHas(t *testing.T) {
	contig := &genome.Contig{Name: "chrX"}
	cfg := Config{Ploidy: Diploid, Ploidies: Ploidies{"chrX": {{Span{100, 300}, Haploid}, {Span{300, 350}, Mixture}}}}
	for _, tc := range []struct {
		start, end               int
		haploid, diploid, mixing bool
	}{
		{0, 50, false, true, false},
		{0, 100, false, true, false},
		{0, 101, true, true, false},
		{150, 300, true, false, false},
		{150, 351, true, true, true},
		{300, 351, false, true, true},
		{350, 400, false, true, false},
	} {
		r := &Region{contig: contig, cfg: cfg, start: tc.start, end: tc.end}
		require.Equal(t, []bool{tc.haploid, tc.diploid, tc.mixing}, []bool{r.has(Haploid), r.has(Diploid), r.has(Mixture)}, "%d to %d", tc.start, tc.end)
	}
}
