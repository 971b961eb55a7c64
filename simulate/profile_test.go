package simulate_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/align/minimap"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/simulate"
)

// uniform is a genome of random bases, with homopolymers as long as a human genome has.
func uniform(t testing.TB, bases int) *genome.Genome {
	t.Helper()
	rnd := rand.New(rand.NewPCG(8, 1))
	seq := make([]byte, 0, bases+16)
	for len(seq) < bases {
		n := 1
		if rnd.IntN(40) == 0 {
			n += rnd.IntN(8)
		}
		seq = append(seq, bytes.Repeat([]byte{"ACGT"[rnd.IntN(4)]}, n)...)
	}
	g, err := genome.Read(strings.NewReader(">c\n" + string(seq) + "\n"))
	require.NoError(t, err)
	return g
}

// observe makes reads and aligns them, as pore align does.
func observe(t testing.TB, g *genome.Genome, s *simulate.Sampler) []simulate.Observation {
	t.Helper()
	index, err := minimap.NewIndex(g, minimap.Config{})
	require.NoError(t, err)
	defer index.Close()
	aligner := index.NewAligner()
	defer aligner.Close()
	var out []simulate.Observation
	var read simulate.Read
	for i := range s.Len() {
		s.Read(i, &read)
		alignments, err := aligner.Map(read.Name, read.Seq)
		require.NoError(t, err)
		if len(alignments) == 0 {
			continue
		}
		a := &alignments[0]
		o := simulate.Observation{
			Contig: g.Contig(a.Contig), Start: a.Start, Reverse: a.Reverse, Ops: a.Ops,
			Bases: bytes.Clone(read.Seq[a.QueryStart:a.QueryEnd]), Qualities: bytes.Clone(read.Qualities[a.QueryStart:a.QueryEnd]),
		}
		if a.Reverse {
			genome.ReverseComplement(o.Bases)
			slices.Reverse(o.Qualities)
		}
		out = append(out, o)
	}
	return out
}

// summary is what a profile says, in few numbers.
type summary struct {
	substituted, deleted, doubled, inserted float64
	wrongRuns                               [6]float64 // of 2 to 7 bases
	contexts                                []float64  // all rates
}

func summarise(p *simulate.Profile) summary {
	var s summary
	singles := 0.0
	kmers := make([]string, 0, len(p.Contexts))
	for kmer := range p.Contexts {
		kmers = append(kmers, kmer)
	}
	slices.Sort(kmers)
	for _, kmer := range kmers {
		row := p.Contexts[kmer]
		s.substituted += (row[0] + row[1] + row[2] + row[3]) / float64(len(kmers))
		s.inserted += row[6] / float64(len(kmers))
		if kmer[1] != kmer[2] && kmer[2] != kmer[3] {
			s.deleted += row[4]
			s.doubled += row[5]
			singles++
		}
		s.contexts = append(s.contexts, row...)
	}
	s.deleted /= singles
	s.doubled /= singles
	for _, rows := range [][][]float64{p.Runs.A, p.Runs.C, p.Runs.G, p.Runs.T} {
		for i := range s.wrongRuns {
			s.wrongRuns[i] += (1 - rows[i][6]) / 4
		}
	}
	return s
}

func correlation(x, y []float64) float64 {
	var mx, my, xx, yy, xy float64
	for i := range x {
		mx += x[i] / float64(len(x))
		my += y[i] / float64(len(y))
	}
	for i := range x {
		xx += (x[i] - mx) * (x[i] - mx)
		yy += (y[i] - my) * (y[i] - my)
		xy += (x[i] - mx) * (y[i] - my)
	}
	return xy / math.Sqrt(xx*yy)
}

// Measuring simulated reads gives back the profile that they were made with. At few
// errors that is so of itself; how an aligner distorts many is what Correct is for.
func TestMeasuringGivesBackTheProfile(t *testing.T) {
	if testing.Short() {
		t.Skip("aligns 2.4 Mb of reads")
	}
	g := uniform(t, 60_000)
	p := profile(t, "r10.4.1-2pct")
	s := sampler(t, g, p, simulate.ReadsConfig{Depth: 40, Length: 6000, LengthSpread: 0.3, MinLength: 1000, Seed: 2})
	got, err := simulate.Measure(observe(t, g, s), simulate.MeasureOptions{Name: "x", SameGenome: true})
	require.NoError(t, err)
	_, err = simulate.ParseProfile(got.AppendTOML(nil))
	require.NoError(t, err)
	near := func(want, got, tolerance float64, what string) {
		t.Helper()
		require.InEpsilon(t, want, got, tolerance, what)
	}
	want, have := summarise(p), summarise(got)
	near(want.substituted, have.substituted, 0.25, "substitutions")
	near(want.deleted, have.deleted, 0.25, "deletions")
	near(want.inserted, have.inserted, 0.45, "insertions")
	for i := range want.wrongRuns {
		near(want.wrongRuns[i], have.wrongRuns[i], 0.3, "runs")
	}
	require.Greater(t, correlation(want.contexts, have.contexts), 0.8)
	near(p.Reads.Spread, got.Reads.Spread, 0.3, "spread of reads")
	near(p.Runs.SiteSpread, got.Runs.SiteSpread, 0.35, "spread of surroundings")
	require.Greater(t, got.Bursts.Factor, 3.0)
	near(p.Qualities.Correlation, got.Qualities.Correlation, 0.15, "correlation of qualities")
	mean := func(counts []float64) float64 {
		sum, n := 0.0, 0.0
		for q, c := range counts {
			sum += float64(q) * c
			n += c
		}
		return sum / n
	}
	require.InDelta(t, mean(p.Qualities.Right), mean(got.Qualities.Right), 1)
	require.InDelta(t, mean(p.Qualities.Wrong), mean(got.Qualities.Wrong), 2)
	// Of the systematic sites only those with many reads in error are found.
	found := got.Systematic.Substitutions
	require.Greater(t, found, 0.3*p.Systematic.Substitutions)
	require.Less(t, found, 1.5*p.Systematic.Substitutions)
}

// Variants don't count as errors, unless the reads are said to be of the reference.
func TestMeasuringLeavesVariantsOut(t *testing.T) {
	g := uniform(t, 40_000)
	spec, err := simulate.ParseSpec("snp=400,indel=100,het=0,homopolymer=0,tandem=0,max=3")
	require.NoError(t, err)
	sites, err := simulate.Plant(g, spec, 2, 1)
	require.NoError(t, err)
	copies, err := simulate.Haplotypes(g.Contigs[0], sites, 2)
	require.NoError(t, err)
	p := profile(t, "r10.4.1-1pct")
	s, err := simulate.NewSampler(copies, 2, p, simulate.ReadsConfig{Depth: 30, Length: 4000, MinLength: 1000, Seed: 2})
	require.NoError(t, err)
	observations := observe(t, g, s)
	measure := func(opts simulate.MeasureOptions) (substituted, systematic float64) {
		opts.Name = "x"
		got, err := simulate.Measure(observations, opts)
		require.NoError(t, err)
		return summarise(got).substituted, got.Systematic.Substitutions
	}
	// As errors, variants would be the most systematic of all.
	_, all := measure(simulate.MeasureOptions{SameGenome: true})
	require.Greater(t, all, 0.007, "400 SNPs in 40,000 bases are 1 %")
	rate, masked := measure(simulate.MeasureOptions{})
	knownRate, known := measure(simulate.MeasureOptions{SameGenome: true, Known: sites})
	require.Less(t, masked, 0.001)
	require.Less(t, known, 0.001)
	require.InEpsilon(t, knownRate, rate, 0.2)
}

func TestMeasureRefuses(t *testing.T) {
	g := uniform(t, 1000)
	c := g.Contigs[0]
	good := simulate.Observation{Contig: c, Ops: []align.Op{{Kind: align.Match, Len: 100}}, Bases: c.Seq[:100]}
	for _, tc := range []struct {
		change func(*simulate.Observation)
		want   string
	}{
		{func(*simulate.Observation) {}, "want at least 10,000"},
		{func(o *simulate.Observation) { o.Start = 950 }, "beyond the read or the contig"},
		{func(o *simulate.Observation) { o.Bases = c.Seq[:50] }, "beyond the read or the contig"},
		{func(o *simulate.Observation) { o.Bases = c.Seq[:101] }, "has 100 bases, the read 101"},
	} {
		o := good
		tc.change(&o)
		_, err := simulate.Measure([]simulate.Observation{o}, simulate.MeasureOptions{Name: "x"})
		require.ErrorContains(t, err, tc.want)
	}
}

// Reads of one site and strand agree in their errors as real ones do: some sites are
// wrong in many reads.
func TestSystematicSitesAgree(t *testing.T) {
	g := uniform(t, 80_000)
	p := profile(t, "r10.4.1-2pct")
	high := func(p *simulate.Profile) int {
		s := sampler(t, g, p, simulate.ReadsConfig{Depth: 40, Length: 5000, MinLength: 1000, Seed: 2})
		type key struct {
			position int
			reverse  bool
		}
		depth, wrong := map[key]int{}, map[key]int{}
		for _, o := range observe(t, g, s) {
			ref, q := o.Start, 0
			for _, op := range o.Ops {
				for i := range op.Len {
					k := key{ref + i, o.Reverse}
					switch op.Kind {
					case align.Match:
						depth[k]++
					case align.Mismatch:
						depth[k]++
						wrong[k]++
					}
				}
				if op.Kind != align.Insertion {
					ref += op.Len
				}
				if op.Kind != align.Deletion {
					q += op.Len
				}
			}
		}
		n := 0
		for k, w := range wrong {
			if depth[k] >= 12 && 4*w >= depth[k] {
				n++
			}
		}
		return n
	}
	without := *p
	without.Systematic.Substitutions, without.Systematic.Deletions, without.Systematic.Insertions = 0, 0, 0
	with, none := high(p), high(&without)
	require.Greater(t, with, 15, "sites where a quarter of a strand's reads are substituted")
	require.Less(t, none, with/2)
}

func TestVaryIsAnotherProfileOfTheSameRate(t *testing.T) {
	p := profile(t, "r10.4.1-2pct")
	v := p.Vary(0.4, "other", 5)
	_, err := simulate.ParseProfile(v.AppendTOML(nil))
	require.NoError(t, err)
	require.Equal(t, v, p.Vary(0.4, "other", 5))
	a, b := summarise(p), summarise(v)
	require.InEpsilon(t, a.substituted, b.substituted, 0.5)
	require.Less(t, correlation(a.contexts, b.contexts), 0.97)
	require.Equal(t, profile(t, "r10.4.1-2pct"), p, "the first is as it was")
}

// Rates of errors that are multiplied stay rates: each profile can be written and read again.
func TestScaledProfilesAreProfiles(t *testing.T) {
	for _, name := range simulate.Profiles() {
		for _, factor := range []float64{0, 0.5, 1, 1.3, 4} {
			_, err := simulate.ParseProfile(profile(t, name).Scale(factor, "scaled", 7).AppendTOML(nil))
			require.NoError(t, err, "%s by %g", name, factor)
		}
	}
}
