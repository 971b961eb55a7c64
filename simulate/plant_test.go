package simulate_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/simulate"
	"github.com/porestream/porestream/vcf"
)

// repetitive is a genome of two contigs with homopolymers, tandem repeats and an N stretch.
func repetitive(t testing.TB, bases int) *genome.Genome {
	t.Helper()
	rnd := rand.New(rand.NewPCG(3, 9))
	var text strings.Builder
	for _, name := range []string{"one", "two"} {
		text.WriteString(">" + name + "\n")
		for n := 0; n < bases; {
			unit := make([]byte, 1+rnd.IntN(6))
			for i := range unit {
				unit[i] = "ACGT"[rnd.IntN(4)]
			}
			piece := strings.Repeat(string(unit), 1+rnd.IntN(4))
			if rnd.IntN(20) == 0 {
				piece = strings.Repeat(string(unit), 8)
			}
			if rnd.IntN(500) == 0 {
				piece = "NNNN"
			}
			text.WriteString(piece)
			n += len(piece)
		}
		text.WriteString("\n")
	}
	g, err := genome.Read(strings.NewReader(text.String()))
	require.NoError(t, err)
	return g
}

// spelled applies rows of VCF as their definition has it: from the last to the first,
// each in place of its REF.
func spelled(c *genome.Contig, sites []simulate.Site, h int) string {
	seq := string(c.Seq)
	for i := len(sites) - 1; i >= 0; i-- {
		s := &sites[i]
		if s.Contig == c.Name {
			seq = seq[:s.Start] + s.Allele(h) + seq[s.Start+len(s.Ref):]
		}
	}
	return seq
}

func ofContig(sites []simulate.Site, name string) []simulate.Site {
	var out []simulate.Site
	for _, s := range sites {
		if s.Contig == name {
			out = append(out, s)
		}
	}
	return out
}

func TestPlantedSitesAreCanonical(t *testing.T) {
	g := repetitive(t, 60_000)
	spec, err := simulate.ParseSpec("snp=400,indel=400,max=50,multi=0.2")
	require.NoError(t, err)
	for _, ploidy := range []int{1, 2} {
		sites, err := simulate.Plant(g, spec, ploidy, 5)
		require.NoError(t, err)
		require.Len(t, sites, 800)
		kinds := map[string]int{}
		last := map[string]int{}
		for i := range sites {
			s := &sites[i]
			c := g.Contig(s.Contig)
			require.Equal(t, string(c.Seq[s.Start:s.Start+len(s.Ref)]), s.Ref)
			require.Less(t, last[s.Contig], s.Start+1, "sites overlap or are out of order")
			last[s.Contig] = s.Start + len(s.Ref)
			require.Len(t, s.Genotype, ploidy)
			require.NotZero(t, int(s.Genotype[0])+int(s.Genotype[ploidy-1]), "no haplotype has an alternate allele")
			shortest, longest := len(s.Ref), len(s.Ref)
			sameEnd := true
			for _, alt := range s.Alts {
				require.NotEqual(t, s.Ref, alt)
				shortest, longest = min(shortest, len(alt)), max(longest, len(alt))
				sameEnd = sameEnd && alt[len(alt)-1] == s.Ref[len(s.Ref)-1]
			}
			require.Equal(t, 1, shortest, "not parsimonious: %v", *s)
			require.LessOrEqual(t, longest-shortest, 100)
			if longest > 1 {
				require.False(t, sameEnd, "not left-aligned: %v", *s)
				kinds["indel"]++
			} else {
				kinds["snp"]++
			}
			if len(s.Alts) > 1 {
				kinds["multi"]++
			}
			if ploidy == 2 && s.Genotype[0] != s.Genotype[1] {
				kinds["het"]++
			}
		}
		require.Equal(t, 400, kinds["indel"])
		require.Equal(t, 400, kinds["snp"])
		if ploidy == 2 {
			require.InDelta(t, 480, kinds["het"], 70)
			require.Positive(t, kinds["multi"])
		} else {
			require.Zero(t, kinds["multi"])
		}
	}
}

// MNPs and delins are in no way simpler events, and of all sizes; neighbours are near to each
// other and apart from all else, and neither one indel nor one or two SNPs together.
func TestPlantedEventsAreNoSimplerOnes(t *testing.T) {
	g := repetitive(t, 120_000)
	spec, err := simulate.ParseSpec("none,mnp=400,delins=800,neighbours=300")
	require.NoError(t, err)
	for _, ploidy := range []int{1, 2} {
		sites, err := simulate.Plant(g, spec, ploidy, 5)
		require.NoError(t, err)
		require.Len(t, sites, 400+800+2*300)
		lengths := map[int]int{}       // of MNPs
		lengthChanges := map[int]int{} // of delins
		shorter := map[int]int{}
		pairs, inRepeat, apart := 0, 0, map[int]int{}
		for i := 0; i < len(sites); i++ {
			s := &sites[i]
			ref, alt := s.Ref, s.Alts[0]
			if ref[0] != alt[0] && (len(ref) > 1 || len(alt) > 1) {
				require.NotEqual(t, ref[len(ref)-1], alt[len(alt)-1], "%v", *s)
				if len(ref) == len(alt) {
					lengths[len(ref)]++
					for k := range ref {
						require.NotEqual(t, ref[k], alt[k], "%v", *s)
					}
				} else {
					lengthChanges[len(alt)-len(ref)]++
					shorter[min(len(alt), len(ref))]++
				}
				continue
			}
			require.Less(t, i+1, len(sites))
			next := &sites[i+1]
			require.Equal(t, s.Contig, next.Contig)
			between := next.Start - s.Start - len(s.Ref)
			if len(next.Ref) > 1 || len(next.Alts[0]) > 1 {
				between++ // the base before an indel doesn't change
			}
			require.Greater(t, between, 0)
			apart[between]++
			pairs++
			if len(ref) != len(alt) && len(next.Ref) != len(next.Alts[0]) {
				inRepeat++
			}
			c := g.Contig(s.Contig)
			seq := string(c.Seq)
			both := seq[:s.Start] + alt + seq[s.Start+len(ref):next.Start] + next.Alts[0] + seq[next.Start+len(next.Ref):]
			front, back := 0, 0
			for front < min(len(seq), len(both)) && seq[front] == both[front] {
				front++
			}
			for back < min(len(seq), len(both))-front && seq[len(seq)-1-back] == both[len(both)-1-back] {
				back++
			}
			require.NotZero(t, len(seq)-front-back, "one insertion: %v %v", *s, *next)
			require.NotZero(t, len(both)-front-back, "one deletion: %v %v", *s, *next)
			if len(seq) == len(both) {
				require.Greater(t, len(seq)-front-back, 2, "SNPs: %v %v", *s, *next)
			}
			i++
		}
		require.Equal(t, 300, pairs)
		require.InDelta(t, 75, inRepeat, 30)
		for n := 1; n <= 10; n++ {
			require.Positive(t, apart[n], "%d bases between neighbours", n)
		}
		for n := 2; n <= 5; n++ {
			require.Positive(t, lengths[n], "MNPs of %d bases", n)
			require.Positive(t, shorter[n], "delins with %d bases on the shorter side", n)
		}
		require.Len(t, lengths, 4)
		require.Len(t, shorter, 5)
		require.Len(t, lengthChanges, 30)
		for n := 1; n <= 15; n++ {
			require.Positive(t, lengthChanges[n], "delins that add %d bases", n)
			require.Positive(t, lengthChanges[-n], "delins that remove %d bases", n)
		}
	}
}

// What is drawn of SNPs and indels stays as it was before there were other kinds.
func TestFurtherKindsComeBesideTheOthers(t *testing.T) {
	g := repetitive(t, 40_000)
	plant := func(text string) []simulate.Site {
		spec, err := simulate.ParseSpec(text)
		require.NoError(t, err)
		sites, err := simulate.Plant(g, spec, 2, 8)
		require.NoError(t, err)
		return sites
	}
	with := plant("snp=0,indel=100,mnp=30,delins=30,neighbours=10")
	for _, s := range plant("snp=0,indel=100") {
		require.Contains(t, with, s)
	}
}

func TestPlantingFollowsTheSeed(t *testing.T) {
	g := repetitive(t, 20_000)
	plant := func(seed uint64) []simulate.Site {
		sites, err := simulate.Plant(g, simulate.HumanEvents(), 2, seed)
		require.NoError(t, err)
		return sites
	}
	require.Equal(t, plant(1), plant(1))
	require.NotEqual(t, plant(1), plant(2))
}

func TestPlantRefuses(t *testing.T) {
	read := func(text string) *genome.Genome {
		g, err := genome.Read(strings.NewReader(text))
		require.NoError(t, err)
		return g
	}
	spec, err := simulate.ParseSpec("snp=50,indel=0")
	require.NoError(t, err)
	for _, tc := range []struct {
		name   string
		genome *genome.Genome
		ploidy int
		want   string
	}{
		{"too many", read(">a\nACGTACGTACGTAC\n"), 1, "no space for 50 SNPs in 14 bases"},
		{"no bases", read(">a\nNNNNN\n"), 1, "no base A, C, G or T"},
		{"ploidy", read(">a\nACGT\n"), 3, "ploidy 3"},
	} {
		_, err := simulate.Plant(tc.genome, spec, tc.ploidy, 1)
		require.ErrorContains(t, err, tc.want, tc.name)
	}
}

// Haplotypes spell what the rows of VCF say, and their coordinate map leads each base
// that is not part of a variant back to its place.
func TestHaplotypesSpellTheTruth(t *testing.T) {
	g := repetitive(t, 30_000)
	spec, err := simulate.ParseSpec("snp=1/80,indel=1/100,mnp=1/400,delins=1/400,neighbours=1/400,max=30,multi=0.2")
	require.NoError(t, err)
	sites, err := simulate.Plant(g, spec, 2, 11)
	require.NoError(t, err)
	for _, c := range g.Contigs {
		own := ofContig(sites, c.Name)
		copies, err := simulate.Haplotypes(c, own, 2)
		require.NoError(t, err)
		require.Len(t, copies, 2)
		for n, h := range copies {
			require.Equal(t, spelled(c, own, n), string(h.Seq))
			changed := map[int]bool{}
			for _, s := range own {
				for i := range s.Ref {
					changed[s.Start+i] = true
				}
			}
			before := -1
			covered := 0
			for i, b := range h.Seq {
				at := h.Position(i)
				require.GreaterOrEqual(t, at, before)
				before = at
				if !changed[at] {
					require.Equal(t, c.Seq[at], b, "base %d of haplotype %d is said to be at %d", i, n+1, at)
					covered++
				}
			}
			require.Equal(t, len(c.Seq)-len(changed), covered, "the map leaves out bases, or has some twice")
		}
	}
}

func TestHaplotypesRefuses(t *testing.T) {
	g, err := genome.Read(strings.NewReader(">a\nACGTACGTAC\n"))
	require.NoError(t, err)
	for _, tc := range []struct {
		name  string
		sites []simulate.Site
		want  string
	}{
		{"overlap", []simulate.Site{{"a", 2, "GTA", []string{"G"}, []uint8{1}}, {"a", 4, "A", []string{"C"}, []uint8{1}}}, "overlaps"},
		{"outside", []simulate.Site{{"a", 9, "CA", []string{"C"}, []uint8{1}}}, "outside the contig"},
		{"other reference", []simulate.Site{{"a", 1, "G", []string{"C"}, []uint8{1}}}, "the reference has C there"},
		{"ploidy", []simulate.Site{{"a", 1, "C", []string{"G"}, []uint8{1, 0}}}, "genotype of 2 haplotypes, want 1"},
		{"no such allele", []simulate.Site{{"a", 1, "C", []string{"G"}, []uint8{2}}}, "allele 2 of 2"},
	} {
		_, err := simulate.Haplotypes(g.Contigs[0], tc.sites, 1)
		require.ErrorContains(t, err, tc.want, tc.name)
	}
}

// What is planted from a VCF is what was written to it, in whatever form the rows were.
func TestFromVCF(t *testing.T) {
	g, err := genome.Read(strings.NewReader(">a\nGGCACACATTTTTGATCC\n"))
	require.NoError(t, err)
	const head = "##fileformat=VCFv4.3\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ts\n"
	row := func(fields ...string) string { return strings.Join(fields, "\t") + "\n" }
	for _, tc := range []struct {
		name, rows, want string
	}{
		{"deletion in the middle of a homopolymer", row("a", "11", ".", "TT", "T", ".", ".", ".", "GT", "1|0"), "8 AT A 1|0"},
		{"insertion of a unit at its end", row("a", "8", ".", "A", "ACA", ".", ".", ".", "GT", "0|1"), "2 G GCA 0|1"},
		{"allele that nobody has", row("a", "2", ".", "G", "C,T", ".", ".", ".", "GT", "2|2"), "2 G T 1|1"},
		{"nothing to plant", row("a", "2", ".", "G", "C", ".", ".", ".", "GT", "0|0"), ""},
		{"padding", row("a", "1", ".", "GGC", "GTC", ".", ".", ".", "GT", "0|1"), "2 G T 0|1"},
		{"an indel beside a SNP of its haplotype", row("a", "10", ".", "T", "G", ".", ".", ".", "GT", "1|0") + row("a", "12", ".", "TT", "T", ".", ".", ".", "GT", "1|1"), "10 T G 1|0;10 TT T 1|1"},
		{"an indel beside a SNP of the other haplotype", row("a", "10", ".", "T", "G", ".", ".", ".", "GT", "1|0") + row("a", "12", ".", "TT", "T", ".", ".", ".", "GT", "0|1"), "8 AT A 0|1;10 T G 1|0"},
		{"a delins", row("a", "4", ".", "ACAC", "AGGC", ".", ".", ".", "GT", "0|1") + row("a", "8", ".", "AT", "CCC", ".", ".", ".", "GT", "0|1"), "5 CA GG 0|1;8 AT CCC 0|1"},
		{"two alleles", row("a", "8", ".", "ATT", "AT,ATTTT", ".", ".", ".", "GT", "1|2"), "8 AT A,ATTT 1|2"},
		{"one allele for both", row("a", "2", ".", "G", "T", ".", ".", ".", "GT", "1"), "2 G T 1|1"},
		{"phase in front of the first allele", row("a", "2", ".", "G", "T", ".", ".", ".", "GT", "|0|1"), "2 G T 0|1"},
		{"one allele, its phase in front", row("a", "2", ".", "G", "T", ".", ".", ".", "GT", "/1"), "2 G T 1|1"},
		{"no phase, in front too", row("a", "2", ".", "G", "T", ".", ".", ".", "GT", "/1/1"), "2 G T 1|1"},
		{"no such allele", row("a", "2", ".", "G", "T", ".", ".", ".", "GT", "0|2"), `error: line 3: GT "0|2" is no genotype of the record`},
		{"not there", row("a", "2", ".", "C", "T", ".", ".", ".", "GT", "1|1"), "error: line 3: variant a:2 has REF C"},
		{"symbolic", row("a", "2", ".", "G", "<DEL>", ".", ".", ".", "GT", "1|1"), "error: line 3: ALT <DEL> is no sequence"},
		{"unknown genotype", row("a", "2", ".", "G", "T", ".", ".", ".", "GT", "./."), `error: line 3: genotype "./." names no alleles`},
		{"other contig", row("b", "2", ".", "G", "T", ".", ".", ".", "GT", "1|1"), "error: line 3: b is not in the reference"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := vcf.NewReader(strings.NewReader(head + tc.rows))
			require.NoError(t, err)
			sites, err := simulate.FromVCF(r, g, 2, 1)
			if want, ok := strings.CutPrefix(tc.want, "error: "); ok {
				require.ErrorContains(t, err, want)
				return
			}
			require.NoError(t, err)
			var got []string
			for i := range sites {
				f := strings.Fields(string(sites[i].Record().AppendLine(nil)))
				got = append(got, strings.Join([]string{f[1], f[3], f[4], f[9]}, " "))
			}
			require.Equal(t, tc.want, strings.Join(got, ";"))
		})
	}
}

// A written truth read back plants the same.
func TestTruthRoundTrip(t *testing.T) {
	g := repetitive(t, 20_000)
	spec, err := simulate.ParseSpec("snp=1/100,indel=1/100,mnp=1/400,delins=1/400,neighbours=1/400,multi=0.3")
	require.NoError(t, err)
	sites, err := simulate.Plant(g, spec, 2, 4)
	require.NoError(t, err)
	var text bytes.Buffer
	w, err := vcf.NewWriter(&text, simulate.Header(g, "s"))
	require.NoError(t, err)
	for i := range sites {
		require.NoError(t, w.Write(sites[i].Record()))
	}
	require.NoError(t, w.Flush())
	r, err := vcf.NewReader(&text)
	require.NoError(t, err)
	again, err := simulate.FromVCF(r, g, 2, 1)
	require.NoError(t, err)
	require.Len(t, again, len(sites))
	for i := range sites {
		for h := range 2 {
			require.Equal(t, sites[i].Allele(h), again[i].Allele(h))
		}
		require.Equal(t, sites[i].Start, again[i].Start)
	}
}

func TestParseSpec(t *testing.T) {
	human := simulate.Human()
	for _, tc := range []struct {
		text string
		want func(*simulate.Spec)
		err  string
	}{
		{text: "human", want: func(*simulate.Spec) {}},
		{text: "none", want: func(s *simulate.Spec) { s.SNPs, s.Indels = simulate.Amount{}, simulate.Amount{} }},
		{text: "snp=200, indel=1/50,max=50", want: func(s *simulate.Spec) {
			s.SNPs, s.Indels, s.MaxLength = simulate.Amount{Count: 200}, simulate.Amount{PerBase: 0.02}, 50
		}},
		{text: "snp=0.002,het=1,homopolymer=0.5,tandem=0.5", want: func(s *simulate.Spec) {
			s.SNPs, s.Het, s.Homopolymers, s.Tandems = simulate.Amount{PerBase: 0.002}, 1, 0.5, 0.5
		}},
		{text: "human-events", want: func(s *simulate.Spec) { *s = simulate.HumanEvents() }},
		{text: "none,mnp=3,delins=1/100, neighbours=7", want: func(s *simulate.Spec) {
			s.SNPs, s.Indels = simulate.Amount{}, simulate.Amount{}
			s.MNPs, s.Delins, s.Neighbours = simulate.Amount{Count: 3}, simulate.Amount{PerBase: 0.01}, simulate.Amount{Count: 7}
		}},
		{text: "human,max=5", want: func(s *simulate.Spec) { s.MaxLength = 5 }},
		{text: "snp=1,human", err: "want snp, indel"},
		{text: "mnp=some", err: "neither a number"},
		{text: "snp=1/2", err: "density up to 1/10"},
		{text: "snp", err: "neither a number"},
		{text: "snv=1", err: "want snp, indel"},
		{text: "max=0", err: "no length"},
		{text: "het=2", err: "from 0 to 1"},
		{text: "homopolymer=0.9,tandem=0.2", err: "more than 1 together"},
		{text: "titv=NaN", err: "no number"},
	} {
		got, err := simulate.ParseSpec(tc.text)
		if tc.err != "" {
			require.ErrorContains(t, err, tc.err, tc.text)
			continue
		}
		require.NoError(t, err, tc.text)
		want := human
		tc.want(&want)
		require.Equal(t, want, got, tc.text)
	}
}
