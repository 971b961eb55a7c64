package simulate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/simulate"
)

func profile(t testing.TB, name string) *simulate.Profile {
	t.Helper()
	p, err := simulate.OpenProfile(name)
	require.NoError(t, err)
	return p
}

// sampler makes reads of a genome without variants.
func sampler(t testing.TB, g *genome.Genome, p *simulate.Profile, cfg simulate.ReadsConfig) *simulate.Sampler {
	t.Helper()
	var copies []*simulate.Haplotype
	for _, c := range g.Contigs {
		own, err := simulate.Haplotypes(c, nil, 1)
		require.NoError(t, err)
		copies = append(copies, own...)
	}
	s, err := simulate.NewSampler(copies, 1, p, cfg)
	require.NoError(t, err)
	return s
}

// Every shipped profile makes reads, and none fails its own checks.
func TestShippedProfiles(t *testing.T) {
	g := repetitive(t, 30_000)
	require.NotEmpty(t, simulate.Profiles())
	for _, name := range simulate.Profiles() {
		t.Run(name, func(t *testing.T) {
			p := profile(t, name)
			require.Equal(t, name, p.Name)
			require.NotEmpty(t, p.Description)
			require.NotEmpty(t, p.Source)
			s := sampler(t, g, p, simulate.ReadsConfig{Depth: 20, Length: 3000, LengthSpread: 0.5, MinLength: 200, Seed: 1})
			var read simulate.Read
			errors := 0
			for i := range s.Len() {
				s.Read(i, &read)
				m := s.Molecule(i)
				require.Len(t, read.Qualities, len(read.Seq))
				require.Equal(t, m.Length-read.Deleted+read.Inserted, len(read.Seq))
				require.Empty(t, strings.Trim(string(read.Seq), "ACGT"))
				errors += read.Substituted + read.Deleted + read.Inserted
			}
			// The genome is full of repeats, so errors are more than on the profile's own.
			rate := float64(errors) / float64(s.Bases())
			require.Greater(t, rate, 0.5*p.ErrorRate)
			require.Less(t, rate, 4*p.ErrorRate)
			again, err := simulate.ParseProfile(p.AppendTOML(nil))
			require.NoError(t, err)
			require.Equal(t, p, again)
		})
	}
}

// A profile without errors reads the haplotypes as they are.
func TestReadsAreWhereTheirNamesSay(t *testing.T) {
	g := repetitive(t, 30_000)
	p := profile(t, simulate.Profiles()[0]).Scale(0, "perfect", 1)
	for _, circular := range []bool{false, true} {
		g := g
		if circular {
			var err error
			g, err = genome.Read(strings.NewReader(">plasmid:1-2_h3\n" + strings.Repeat("ACGGTTACATTTGCCA", 50) + "GATTACA\n"))
			require.NoError(t, err)
		}
		s := sampler(t, g, p, simulate.ReadsConfig{Depth: 30, Length: 300, LengthSpread: 0.5, MinLength: 50, Seed: 3, Circular: circular})
		over := 0
		var read simulate.Read
		for i := range s.Len() {
			s.Read(i, &read)
			o, err := simulate.ParseName(read.Name)
			require.NoError(t, err)
			c := g.Contig(o.Contig)
			require.NotNil(t, c, read.Name)
			var want []byte
			if o.End > o.Start {
				want = append(want, c.Seq[o.Start:o.End]...)
			} else {
				over++
				want = append(append(want, c.Seq[o.Start:]...), c.Seq[:o.End]...)
			}
			if o.Reverse {
				genome.ReverseComplement(want)
			}
			require.Equal(t, string(want), string(read.Seq), read.Name)
		}
		require.Equal(t, circular, over > 0)
	}
}

// Depth is the same everywhere, to the last base of a linear contig.
func TestDepthIsEven(t *testing.T) {
	g, err := genome.Read(strings.NewReader(">a\n" + strings.Repeat("ACGGTTACAT", 100) + "\n"))
	require.NoError(t, err)
	const depth = 2000
	s := sampler(t, g, profile(t, simulate.Profiles()[0]), simulate.ReadsConfig{Depth: depth, Length: 200, LengthSpread: 0.5, MinLength: 1, Seed: 1})
	counts := make([]int, 1000)
	for i := range s.Len() {
		m := s.Molecule(i)
		for k := range m.Length {
			counts[m.Start+k]++
		}
	}
	for i, n := range counts {
		require.InDelta(t, depth, n, 250, "position %d", i)
	}
}

// Reads don't depend on which others are made, when, and where.
func TestReadsAreTheSameInAnyOrder(t *testing.T) {
	g := repetitive(t, 20_000)
	cfg := simulate.ReadsConfig{Depth: 10, Length: 1500, LengthSpread: 0.5, MinLength: 100, Seed: 9}
	p := profile(t, simulate.Profiles()[0])
	text := func(s *simulate.Sampler, workers int) string {
		parts := make([]string, s.Len())
		// They take turns: internal/simulation's tests have them work at the same time.
		reads := make([]simulate.Read, workers)
		for k := range s.Len() {
			i := s.Len() - 1 - k
			read := &reads[k%workers]
			s.Read(i, read)
			parts[i] = string(read.AppendFASTQ(nil))
		}
		return strings.Join(parts, "")
	}
	one := text(sampler(t, g, p, cfg), 1)
	require.Equal(t, one, text(sampler(t, g, p, cfg), 7))
	cfg.Seed++
	require.NotEqual(t, one, text(sampler(t, g, p, cfg), 1))
}

func TestReadsConfig(t *testing.T) {
	good := simulate.ReadsConfig{Depth: 10, Length: 1500, MinLength: 100}
	require.NoError(t, good.Validate())
	for _, tc := range []struct {
		change func(*simulate.ReadsConfig)
		want   string
	}{
		{func(c *simulate.ReadsConfig) { c.Depth = 0 }, "depth"},
		{func(c *simulate.ReadsConfig) { c.Length = 0.5 }, "mean length"},
		{func(c *simulate.ReadsConfig) { c.LengthSpread = -1 }, "length spread"},
		{func(c *simulate.ReadsConfig) { c.MinLength = 1501 }, "least length"},
	} {
		cfg := good
		tc.change(&cfg)
		require.ErrorContains(t, cfg.Validate(), tc.want)
	}
}

func TestParseProfileRefuses(t *testing.T) {
	good := string(profile(t, simulate.Profiles()[0]).AppendTOML(nil))
	line := func(key, with string) string {
		var out []string
		for l := range strings.Lines(good) {
			if strings.HasPrefix(l, key+" = ") {
				if l = with; l != "" {
					l += "\n"
				}
			}
			out = append(out, l)
		}
		return strings.Join(out, "")
	}
	for _, tc := range []struct{ text, want string }{
		{line("format", "format = 2"), "format is 2, this version reads 1"},
		{line("seed", "sede = 1"), "unknown setting sede"},
		{line("name", ""), "name is missing"},
		{line("spread", "spread = -1.0"), "reads.spread is -1"},
		{line("AACGT", ""), "contexts has 1023 rows"},
		{line("AACGT", "AACGT = [0.0, 1.0]"), "contexts.AACGT has 2 values"},
		{line("AACGT", "AACGT = [0.5, 0.0, 0.5, 0.1, 0.0, 0.0, 0.0]"), "add up to 1.1"},
		{line("inserted", "inserted = [1.0]"), "qualities.inserted has 1 values"},
		{line("fractions", "fractions = [0.5, 0.2]"), "ascending"},
		{line("bases", "bases = [0.0, 0.0, 0.0, 0.0]"), "insertions.bases: all shares are 0"},
		{"format = ", "line 1"},
	} {
		_, err := simulate.ParseProfile([]byte(tc.text))
		require.ErrorContains(t, err, tc.want)
		require.NotContains(t, err.Error(), "\n")
	}
	_, err := simulate.OpenProfile("r11")
	require.ErrorContains(t, err, "r10.4.1-2pct")
}

// Whatever is wrong with a file is said in one line. The seeds are short: a fuzzer that
// makes inputs of kilobytes smaller does nothing else.
func FuzzParseProfile(f *testing.F) {
	for _, text := range []string{
		"", "format = 1\n", "format = 1\nname = \"x\"\nseed = -1\n", "format = 1\nname = \"x\"\n[reads]\nspread = nan\n",
		"format = 1\n[runs]\nA = [[1.0]]\n", "[contexts]\nAAAAA = [0.1, 2]\n", "[bursts]\nshare = 1e400\n", "[qualities]\nright = 3\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := simulate.ParseProfile([]byte(text)); err != nil {
			require.NotContains(t, err.Error(), "\n")
		}
	})
}

func TestParseNameRefuses(t *testing.T) {
	for _, name := range []string{"", "x", "r1_hx+_chr:1-2", "r1_h1+_chr:0-2", "r1_h1+_chr1-2", "r1_h1+_:1-2", "r1_h1+_c:1"} {
		_, err := simulate.ParseName(name)
		require.Error(t, err, name)
	}
}

func BenchmarkReads(b *testing.B) {
	g := repetitive(b, 500_000)
	for _, name := range simulate.Profiles() {
		b.Run(name, func(b *testing.B) {
			s := sampler(b, g, profile(b, name), simulate.ReadsConfig{Depth: 10, Length: 10_000, LengthSpread: 0.5, MinLength: 1000, Seed: 1})
			var read simulate.Read
			bases, i := 0, 0
			for b.Loop() {
				s.Read(i%s.Len(), &read)
				bases += s.Molecule(i % s.Len()).Length
				i++
			}
			b.ReportMetric(float64(bases)/b.Elapsed().Seconds()/1e6, "Mbases/s")
		})
	}
}

func ExampleParseName() {
	o, err := simulate.ParseName("r0000017_h2-_chr11:1204-13377")
	fmt.Println(o.Contig, o.Start, o.End, o.Reverse, o.Haplotype, err)
	// Output: chr11 1203 13377 true 2 <nil>
}
