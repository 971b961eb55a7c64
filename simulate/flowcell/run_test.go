package flowcell_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/simulate"
	"github.com/porestream/porestream/simulate/flowcell"
	"github.com/porestream/porestream/simulate/squiggle"
)

// toyPore is of 3-mers, fast enough for tests.
func toyPore(t testing.TB) *squiggle.Pore {
	t.Helper()
	var b strings.Builder
	b.WriteString("# porestream-pore-model: 1\nkmer\tmean\tspread\tnoise\tdwell_mean\tdwell_sd\n")
	for i := range 64 {
		fmt.Fprintf(&b, "%c%c%c\t%d\t0.1\t0.1\t9\t6\n", "ACGT"[i>>4], "ACGT"[i>>2&3], "ACGT"[i&3], i%5-2)
	}
	m, err := squiggle.ReadModel(strings.NewReader(b.String()))
	require.NoError(t, err)
	p, err := squiggle.NewPore(m, squiggle.Typical())
	require.NoError(t, err)
	return p
}

// haplotype is of random bases.
func haplotype(t testing.TB, name string, bases int) *simulate.Haplotype {
	t.Helper()
	rnd := rand.New(rand.NewPCG(uint64(bases), 1))
	seq := make([]byte, bases)
	for i := range seq {
		seq[i] = "ACGT"[rnd.IntN(4)]
	}
	g, err := genome.Read(strings.NewReader(">" + name + "\n" + string(seq) + "\n"))
	require.NoError(t, err)
	copies, err := simulate.Haplotypes(g.Contigs[0], nil, 1)
	require.NoError(t, err)
	return copies[0]
}

func sample(t testing.TB, name string, share float64, h *simulate.Haplotype) flowcell.Sample {
	t.Helper()
	l, err := simulate.NewLibrary([]*simulate.Haplotype{h}, simulate.ReadsConfig{Depth: 1, Length: 2000, LengthSpread: 0.7, MinLength: 100})
	require.NoError(t, err)
	return flowcell.Sample{Name: name, Share: share, Ploidy: 1, Library: l, Front: "TTTTACGTACGT", Rear: "ACGTAC"}
}

// small is a flow cell on which everything happens.
func small(t testing.TB) flowcell.Config {
	cfg := flowcell.MinION()
	cfg.Samples = []flowcell.Sample{sample(t, "one", 3, haplotype(t, "a", 30_000)), sample(t, "two", 1, haplotype(t, "b", 20_000))}
	cfg.Depth, cfg.Seed, cfg.Channels = 60, 5, 6
	cfg.Capture, cfg.PoreLife, cfg.Scan, cfg.Blocks, cfg.Lost = time.Second, 5*time.Minute, 4*time.Minute, 0.05, 0.2
	return cfg
}

func plan(t testing.TB, cfg flowcell.Config) *flowcell.Run {
	t.Helper()
	r, err := flowcell.Plan(cfg, toyPore(t))
	require.NoError(t, err)
	return r
}

// A channel reads one strand at a time, in order, through a well that lives; and
// everything that can happen does.
func TestRunIsOneOfAFlowCell(t *testing.T) {
	cfg := small(t)
	r := plan(t, cfg)
	rate := uint64(r.Runs()[0].SampleRate)
	scan := uint64(cfg.Scan.Seconds()) * rate
	type state struct {
		free   uint64
		number uint32
		wells  map[uint8]bool
	}
	channels := make(map[uint32]*state)
	reasons := make(map[signal.EndReason]int)
	last, bases, samples := uint64(0), 0, int64(0)
	names := make(map[string]bool)
	for i := range r.Len() {
		e, o := r.Entry(i), r.Origin(i)
		require.False(t, names[e.ID], "read ids differ")
		names[e.ID] = true
		require.GreaterOrEqual(t, e.StartSample, last, "reads are in the order of their beginnings")
		last = e.StartSample
		require.Less(t, e.Channel-1, uint32(cfg.Channels))
		require.Less(t, e.Well-1, uint8(cfg.Wells))
		c := channels[e.Channel]
		if c == nil {
			c = &state{wells: make(map[uint8]bool)}
			channels[e.Channel] = c
		}
		require.Greater(t, e.StartSample, c.free, "the channel was busy")
		require.Equal(t, c.number+1, e.Number)
		c.free, c.number, c.wells[e.Well] = e.StartSample+uint64(e.NumSamples), e.Number, true
		require.Equal(t, e.StartSample/scan, (c.free-1)/scan, "no read goes on through a scan")
		if e.StartSample >= scan {
			require.GreaterOrEqual(t, e.StartSample%scan, uint64(120)*rate, "none begins while wells are scanned")
		}
		reasons[e.EndReason]++
		require.Equal(t, e.EndReason.Forced(), e.EndReasonForced)
		require.InDelta(t, 220, e.MedianBefore, 30)
		bases += o.Bases
		samples += int64(e.NumSamples)
	}
	require.Equal(t, r.Bases(), bases)
	require.Equal(t, r.NumSamples(), samples)
	for _, end := range []signal.EndReason{signal.EndSignalPositive, signal.EndUnblockMuxChange, signal.EndMuxChange, signal.EndSignalNegative} {
		require.Positive(t, reasons[end], "%v of %v", end, reasons)
	}
	several := 0
	for _, c := range channels {
		several += len(c.wells)
	}
	require.Greater(t, several, len(channels), "channels change their wells")
}

// The run ends by depth, by time, or by the death of its last pore.
func TestEndOfRun(t *testing.T) {
	cfg := small(t)
	cfg.PoreLife, cfg.Scan, cfg.Depth = 0, 0, 20
	r := plan(t, cfg)
	require.InDelta(t, 20, r.Depth(), 0.5)
	require.False(t, r.Spent())
	require.InDelta(t, 20*(0.75*30_000+0.25*20_000), r.Bases(), 20_000)

	cfg.Duration = 30 * time.Second
	r = plan(t, cfg)
	require.LessOrEqual(t, r.Duration(), cfg.Duration)
	require.Greater(t, r.Duration(), cfg.Duration*9/10)
	cut := 0
	for i := range r.Len() {
		if r.Entry(i).EndReason == signal.EndAPIRequest {
			cut++
		}
	}
	require.Positive(t, cut, "reads under way at the end are cut there")

	cfg = small(t)
	cfg.Depth, cfg.PoreLife = 1e5, time.Minute
	r = plan(t, cfg)
	require.True(t, r.Spent())
	require.Less(t, r.Depth(), cfg.Depth)

	cfg.Inactive = 1 - 1e-12
	_, err := flowcell.Plan(cfg, toyPore(t))
	require.ErrorContains(t, err, "not a single strand")
}

// The current of a read is that of the bases that its truth names, and of them alone,
// in any order of asking.
func TestReadsAreOfTheirOrigins(t *testing.T) {
	cfg := small(t)
	r := plan(t, cfg)
	again := plan(t, cfg)
	seqs := map[string][]byte{"a": haplotype(t, "a", 30_000).Seq, "b": haplotype(t, "b", 20_000).Seq}
	strands := make(map[bool]int)
	for i := range r.Len() {
		o := r.Origin(i)
		require.Equal(t, map[string]string{"one": "a", "two": "b"}[o.Sample], o.Contig)
		require.Equal(t, 1, o.Haplotype)
		require.Equal(t, o.Bases, o.End-o.Start, "without variants the bases are the reference's")
		require.LessOrEqual(t, o.End, len(seqs[o.Contig]))
		strands[o.Reverse]++
		require.Equal(t, o, again.Origin(i))
		require.Equal(t, r.Entry(i).ID, again.Entry(i).ID)
	}
	require.InDelta(t, strands[true], strands[false], float64(r.Len())/4)
	for i := r.Len() - 1; i > 0; i -= 7 {
		first, err := r.Samples(i, nil)
		require.NoError(t, err)
		second, err := again.Samples(i, []int16{1})
		require.NoError(t, err)
		require.Equal(t, append([]int16{1}, first...), second)
		require.Len(t, first, r.Entry(i).NumSamples)
	}
}

// Other seeds and settings are other runs.
func TestRunsHaveNames(t *testing.T) {
	cfg := small(t)
	names := map[string]bool{plan(t, cfg).Runs()[0].ID: true}
	cfg.Seed++
	names[plan(t, cfg).Runs()[0].ID] = true
	cfg.Settings = "other"
	r := plan(t, cfg)
	names[r.Runs()[0].ID] = true
	require.Len(t, names, 3)
	require.Equal(t, "r9.4", r.Runs()[0].Chemistry())
}

func TestPlanRefuses(t *testing.T) {
	for want, change := range map[string]func(*flowcell.Config){
		"no sample":             func(c *flowcell.Config) { c.Samples = nil },
		"a depth of 0":          func(c *flowcell.Config) { c.Depth = 0 },
		"0 channels":            func(c *flowcell.Config) { c.Channels = 0 },
		"256 wells":             func(c *flowcell.Config) { c.Wells = 256 },
		"inactive wells":        func(c *flowcell.Config) { c.Inactive = 1 },
		"a capture every":       func(c *flowcell.Config) { c.Capture = 0 },
		"a scan every 1s":       func(c *flowcell.Config) { c.Scan = time.Second },
		"not negative":          func(c *flowcell.Config) { c.PoreLife = -1 },
		"none of A, C, G and T": func(c *flowcell.Config) { c.Samples[0].Front = "ACN" },
		"a share of 0":          func(c *flowcell.Config) { c.Samples[1].Share = 0 },
	} {
		t.Run(want, func(t *testing.T) {
			cfg := small(t)
			change(&cfg)
			_, err := flowcell.Plan(cfg, toyPore(t))
			require.ErrorContains(t, err, want)
		})
	}
}
