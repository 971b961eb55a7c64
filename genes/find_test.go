package genes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genes/rna"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/testenv"
	"github.com/porestream/porestream/textfile"
)

// simulated is a genome with planted genes: codons of a bacterium's proteins, a binding site six bases before each start, and random bases between.
func simulated(seed uint64, count int) (letters []byte, planted []Known) {
	r := rand.New(rand.NewPCG(seed, 1))
	const bases = "ACGT"
	prior, err := shipped()
	if err != nil {
		panic(err)
	}
	code, err := newCode(bacterial)
	if err != nil {
		panic(err)
	}
	usage := prior.usage(.5, code)
	random := func(n int) (s []byte) {
		for range n {
			s = append(s, bases[r.IntN(4)])
		}
		return s
	}
	codon := func() string {
		x := r.Float64()
		for i, p := range usage {
			if x -= p; x < 0 {
				return codonName(i)
			}
		}
		return "GCG"
	}
	letters = random(200)
	for range count {
		gene := []byte("ATG")
		for range 60 + r.IntN(300) {
			gene = append(gene, codon()...)
		}
		gene = append(gene, "TAA"...)
		gene = append(append([]byte("AGGAGG"), random(6)...), gene...)
		reverse := r.IntN(3) == 0
		k := Known{Start: len(letters) + 12, End: len(letters) + len(gene), Reverse: reverse}
		if reverse {
			gene = reverseComplement(gene)
			k.Start, k.End = len(letters), len(letters)+len(gene)-12
		}
		letters = append(letters, gene...)
		planted = append(planted, k)
		letters = append(letters, random(20+r.IntN(150))...)
	}
	return letters, planted
}

// reverseComplement is the reverse complement of letters.
func reverseComplement(s []byte) []byte {
	out := make([]byte, len(s))
	for i, c := range s {
		out[len(s)-1-i] = map[byte]byte{'A': 'T', 'C': 'G', 'G': 'C', 'T': 'A', 'N': 'N'}[c]
	}
	return out
}

func find(t testing.TB, opts Options, contigs ...Contig) *Result {
	t.Helper()
	r, err := Find(t.Context(), contigs, opts)
	require.NoError(t, err)
	return r
}

// stop is what genes are compared by.
type stop struct {
	at      int
	reverse bool
}

func (k Known) stop() stop {
	if k.Reverse {
		return stop{k.Start, true}
	}
	return stop{k.End, false}
}

// agreement counts the genes of the truth that were found, and found with their starts.
func agreement(truth []Known, found []Gene) (hits, starts int) {
	by := map[stop]Gene{}
	for _, g := range found {
		by[Known{g.Start, g.End, g.Reverse}.stop()] = g
	}
	for _, k := range truth {
		if g, ok := by[k.stop()]; ok {
			hits++
			if g.Start == k.Start && g.End == k.End {
				starts++
			}
		}
	}
	return hits, starts
}

func TestPlantedGenesAreFound(t *testing.T) {
	t.Parallel()
	letters, planted := simulated(1, 80)
	r := find(t, Options{}, Contig{Name: "a", Seq: letters})
	require.Equal(t, bacterial, r.Code)
	require.True(t, r.CodeFound)
	hits, starts := agreement(planted, r.Genes)
	require.GreaterOrEqual(t, hits, 78)
	require.GreaterOrEqual(t, starts, hits*85/100)
	require.LessOrEqual(t, len(r.Genes), hits+4)
	require.Empty(t, r.Doubt())
	sites := 0
	for _, g := range r.Genes {
		require.InDelta(t, .5, g.Posterior, .5)
		require.InDelta(t, .5, g.StartPosterior, .5)
		if g.Site.Motif == "AGGAGG" && g.Site.Spacer == 6 {
			sites++
		}
	}
	require.Greater(t, sites, len(r.Genes)*8/10, "the binding site is the one that was planted")
}

// truthOf reads the coding sequences of a test file, those of one stretch.
func truthOf(t *testing.T, path string) (out []Known) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	rows := map[string]int{}
	for pass := range 2 {
		for line := range strings.Lines(string(text)) {
			column := strings.Split(strings.TrimSpace(line), "\t")
			if len(column) != 9 || column[2] != "CDS" || strings.Contains(column[8], "pseudo=true") {
				continue
			}
			id, _, _ := strings.Cut(column[8], ";")
			if pass == 0 {
				rows[id]++
				continue
			}
			var k Known
			_, err := fmt.Sscan(column[3]+" "+column[4], &k.Start, &k.End)
			require.NoError(t, err)
			k.Start--
			k.Reverse = column[6] == "-"
			if rows[id] == 1 {
				out = append(out, k)
			}
		}
	}
	return out
}

func contigOf(t testing.TB, path string) Contig {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	r, err := textfile.NewReader(f, 1<<16)
	require.NoError(t, err)
	g, err := genome.Read(r)
	require.NoError(t, err)
	return Contig{Name: g.Contigs[0].Name, Seq: g.Contigs[0].Seq}
}

// TestAnnotatedGenomes holds what is found to RefSeq's annotation. The prior has seen the mycoplasma, and not lambda nor the coronavirus, of which no
// relative was at hand.
func TestAnnotatedGenomes(t *testing.T) {
	t.Parallel()
	data := filepath.Join("..", "testdata")
	for _, tt := range []struct {
		name, fasta, gff     string
		code                 int
		found, starts, wrong int // least, least and most
	}{
		{"lambda", filepath.Join(data, "lambda", "reference.fa"), filepath.Join(data, "lambda", "genes.gff3"), 11, 62, 48, 5},
		{"coronavirus", filepath.Join(data, "sarscov2", "reference.fa.gz"), filepath.Join(data, "sarscov2", "genes.gff3"), 1, 10, 10, 1}, // the other is ORF1ab, of which slippage makes one gene
		{"mycoplasma", filepath.Join("testdata", "mycoplasma.fa.gz"), filepath.Join("testdata", "mycoplasma.gff3"), 4, 57, 52, 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			truth := truthOf(t, tt.gff)
			c := contigOf(t, tt.fasta)
			r := find(t, Options{}, c)
			require.Equal(t, tt.code, r.Code)
			hits, starts := agreement(truth, r.Genes)
			t.Logf("%d of %d genes, %d with their starts, %d others", hits, len(truth), starts, len(r.Genes)-hits)
			require.GreaterOrEqual(t, hits, tt.found)
			require.GreaterOrEqual(t, starts, tt.starts)
			require.LessOrEqual(t, len(r.Genes)-hits, tt.wrong)
			given := find(t, Options{Code: tt.code}, c)
			require.False(t, given.CodeFound)
			require.Equal(t, r.Genes, given.Genes, "a code that is found is used as one that is given")
		})
	}
}

func TestMirroredGenomeHasMirroredGenes(t *testing.T) {
	testenv.CalculatesLong(t)
	t.Parallel()
	for seed := range uint64(3) {
		for _, circular := range []bool{false, true} {
			letters, _ := simulated(10+seed, 12)
			n := len(letters)
			here := find(t, Options{Code: 11}, Contig{Name: "a", Seq: letters, Circular: circular})
			there := find(t, Options{Code: 11}, Contig{Name: "a", Seq: reverseComplement(letters), Circular: circular})
			require.NotEmpty(t, here.Genes)
			for i, g := range there.Genes {
				start, end := n-g.End, n-g.Start
				if start < 0 {
					start, end = start+n, end+n
				}
				there.Genes[i].Start, there.Genes[i].End, there.Genes[i].Reverse = start, end, !g.Reverse
				there.Genes[i].OpenLow, there.Genes[i].OpenHigh = g.OpenHigh, g.OpenLow
			}
			slices.SortFunc(there.Genes, byPlace)
			require.Equal(t, here.Genes, there.Genes)
		}
	}
}

func TestRotatedGenomeHasTheSameGenes(t *testing.T) {
	testenv.CalculatesLong(t)
	t.Parallel()
	letters, planted := simulated(20, 14)
	n := len(letters)
	here := find(t, Options{}, Contig{Name: "a", Seq: letters, Circular: true})
	hits, _ := agreement(planted, here.Genes)
	require.GreaterOrEqual(t, hits, 13)
	// One cut is within a gene.
	for _, by := range []int{1, 700, (planted[5].Start + planted[5].End) / 2, n - 1} {
		rotated := slices.Concat(letters[by:], letters[:by])
		there := find(t, Options{}, Contig{Name: "a", Seq: rotated, Circular: true})
		for i := range there.Genes {
			g := &there.Genes[i]
			width := g.End - g.Start
			g.Start = (g.Start + by) % n
			g.End = g.Start + width
		}
		slices.SortFunc(there.Genes, byPlace)
		require.Equal(t, here.Genes, there.Genes, "by %d", by)
	}
}

func TestGenesAreCutWhereTheSequenceEnds(t *testing.T) {
	t.Parallel()
	letters, planted := simulated(30, 12)
	from, to := (planted[2].Start+planted[2].End)/2, (planted[9].Start+planted[9].End)/2
	r := find(t, Options{}, Contig{Name: "a", Seq: letters[from:to]})
	first, last := r.Genes[0], r.Genes[len(r.Genes)-1]
	require.True(t, first.OpenLow)
	require.Less(t, first.Start, 3)
	require.True(t, last.OpenHigh)
	require.Greater(t, last.End, to-from-3)
	// The same where the sequence isn't known.
	gap := slices.Concat(letters[:from], bytes.Repeat([]byte("N"), 100), letters[from:])
	r = find(t, Options{}, Contig{Name: "a", Seq: gap})
	open := 0
	for _, g := range r.Genes {
		require.False(t, g.Start < from && g.End > from+100, "a gene lies across the gap")
		if g.OpenHigh && g.End > from-3 && g.End <= from || g.OpenLow && g.Start >= from+100 && g.Start < from+103 {
			open++
		}
	}
	require.Equal(t, 2, open)
}

// TestGenesAreReadAgain has the annotator read what is written: every gene translates from its start to its stop, whole or cut, on either strand and
// across the origin.
func TestGenesAreReadAgain(t *testing.T) {
	t.Parallel()
	letters, planted := simulated(40, 14)
	by := (planted[5].Start + planted[5].End) / 2
	for _, circular := range []bool{false, true} {
		c := Contig{Name: "contig", Seq: slices.Concat(letters[by:], letters[:by]), Circular: circular}
		r := find(t, Options{}, c)
		var text, again bytes.Buffer
		require.NoError(t, WriteGFF3(&text, []Contig{c}, r))
		require.NoError(t, WriteGFF3(&again, []Contig{c}, find(t, Options{}, c)))
		require.Equal(t, text.String(), again.String())
		g, err := genome.Read(strings.NewReader(">contig\n" + string(c.Seq) + "\n"))
		require.NoError(t, err)
		m, err := annotate.ReadModel(&text, g)
		require.NoError(t, err)
		require.Empty(t, m.Warnings())
		count := 0
		for _, v := range m.TranscriptsOn("contig") {
			require.Equal(t, "protein_coding", v.Biotype)
			require.Equal(t, r.Code, v.GeneticCode)
			require.Len(t, v.CDS, 1)
			gene := r.Genes[count]
			require.Equal(t, !gene.Reverse, v.Forward)
			low, high := gene.OpenLow, gene.OpenHigh
			if gene.Reverse {
				low, high = high, low
			}
			require.Equal(t, []bool{low, high}, []bool{v.StartUnknown, v.EndUnknown})
			count++
		}
		require.Equal(t, len(r.Genes), count)
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	many := make([]Contig, 5000)
	letters, _ := simulated(50, 30)
	for i := range many {
		from := i * (len(letters) - 400) / len(many)
		many[i] = Contig{Name: fmt.Sprint(i), Seq: letters[from : from+400]}
	}
	for _, tt := range []struct {
		name    string
		contigs []Contig
		want    string
	}{
		{"ten bases", []Contig{{Name: "a", Seq: []byte("ACGTACGTAC")}}, "no contig has 60 bases"},
		{"unknown", []Contig{{Name: "a", Seq: bytes.Repeat([]byte("N"), 5000)}}, "no contig has 60 bases"},
		{"hardly known", []Contig{{Name: "a", Seq: bytes.Repeat([]byte("NNNNNNNNNNNNNNNNNNNA"), 50)}}, "no contig has 60 bases"},
		{"nothing", nil, "no contig has 60 bases"},
		{"long", []Contig{{Name: "a", Seq: bytes.Repeat([]byte("ACGT"), MostBases/4+1)}}, "more than any bacterium"},
		{"contigs", many, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, err := Find(t.Context(), tt.contigs, Options{})
			if tt.want != "" {
				require.ErrorContains(t, err, tt.want)
				require.NotContains(t, err.Error(), "\n")
				return
			}
			require.NoError(t, err)
			require.Greater(t, len(r.Genes), 2000)
		})
	}
	_, err := Find(t.Context(), []Contig{{Name: "a", Seq: letters}}, Options{Code: 7})
	require.ErrorContains(t, err, "genetic code 7 is not one of NCBI's")
}

// TestOutOfGenes: the result of a genome that is not of the supported kinds says so.
func TestOutOfGenes(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 5))
	s := make([]byte, 80_000)
	for i := range s {
		s[i] = "ACGTAT"[r.IntN(6)]
	}
	require.Contains(t, find(t, Options{}, Contig{Name: "a", Seq: s}).Doubt(), "if this is a eukaryote")
}

func TestLeastRotation(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(6, 6))
	for range 300 {
		s := make([]byte, 1+r.IntN(12))
		for i := range s {
			s[i] = byte(r.IntN(2))
		}
		best := s
		for i := range s {
			if other := slices.Concat(s[i:], s[:i]); bytes.Compare(other, best) < 0 {
				best = other
			}
		}
		at := leastRotation(s)
		require.Equal(t, best, slices.Concat(s[at:], s[:at]))
	}
}

// TestNoGeneHidesThatTheRibosomeBeginsBefore holds a gene to its likeliest start where the ribosome scans: it is not shortened for one that lies within it.
func TestNoGeneHidesThatTheRibosomeBeginsBefore(t *testing.T) {
	t.Parallel()
	for _, reverse := range []bool{false, true} {
		// A gene of 1,000 bases with two starts, and a small gene of another frame between them.
		list := []candidate{
			{left: 0, right: 1000, frame: 1, score: 10, likeliest: 0},
			{left: 310, right: 1000, frame: 1, score: 9, likeliest: 0},
			{left: 10, right: 300, frame: 2, score: 3, likeliest: 10},
		}
		if reverse {
			for i, c := range list {
				list[i].left, list[i].right, list[i].likeliest, list[i].reverse = 1000-c.right, 1000-c.left, 1000-c.likeliest, true
			}
		}
		order(list)
		for _, tt := range []struct {
			scanned bool
			genes   int
			score   float64
		}{{false, 2, 12}, {true, 1, 10}} {
			p := path{list: list, spacing: new(spacingModel), heat: 1, scanned: tt.scanned}
			require.Len(t, p.run(), tt.genes)
			require.InDelta(t, tt.score, p.total, 1e-9)
		}
	}
}

// TestPathIsBest compares the chain and the posteriors with all chains, one by one.
func TestPathIsBest(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 7))
	prior, err := shipped()
	require.NoError(t, err)
	spacing := newSpacing(&prior.Spacing, new(spacingCounts), 1)
	for round := range 200 {
		list := make([]candidate, 1+r.IntN(9))
		for i := range list {
			left := int32(r.IntN(1200))
			list[i] = candidate{left: left, right: left + 60 + int32(r.IntN(400)), reverse: r.IntN(2) == 0, frame: int32(i), score: r.NormFloat64() * 4, density: .1}
			list[i].likeliest = list[i].left - int32(r.IntN(2)*r.IntN(300))
			if list[i].reverse {
				list[i].likeliest = list[i].right + int32(r.IntN(2)*r.IntN(300))
			}
		}
		order(list)
		p := path{list: list, spacing: spacing, heat: 1, scanned: round%2 == 1}
		chain := p.run()
		p.posteriors()
		best, all := 0.0, 1.0
		sums := make([]float64, len(list))
		for set := 1; set < 1<<len(list); set++ {
			score, last, ok := 0.0, -1, true
			for i := range list {
				if set>>i&1 == 0 {
					continue
				}
				if last >= 0 {
					distance := int(list[i].left - list[last].right)
					v, allowed := p.between(&list[last], &list[i], distance)
					ok = ok && allowed && list[last].left < list[i].left && list[last].right < list[i].right && distance >= -deepest
					score += v
				}
				score += list[i].score
				last = i
			}
			if !ok {
				continue
			}
			best = max(best, score)
			all += math.Exp(score)
			for i := range list {
				if set>>i&1 == 1 {
					sums[i] += math.Exp(score)
				}
			}
		}
		require.InDelta(t, best, p.total, 1e-9)
		for i := range list {
			require.InDelta(t, sums[i]/all, list[i].posterior, 1e-9)
		}
		for k := 1; k < len(chain); k++ {
			require.Less(t, chain[k-1], chain[k])
		}
	}
}

// TestNetworkLearns holds the gradient to differences of the value, and training to a rule that no sum of features can be.
func TestNetworkLearns(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(8, 8))
	var examples []example
	for range 2000 {
		x := []float64{r.NormFloat64(), r.NormFloat64()}
		e := example{rows: [][]float64{x}, weight: 1}
		if x[0]*x[1] > 0 {
			e.right = 1
		}
		examples = append(examples, e)
	}
	n := newNetwork(0, rowsOf(examples))
	x := examples[0].rows[0]
	g := n.like()
	n.back(x, 1, g)
	const step = 1e-6
	for i, slice := range [][]float64{n.Direct, n.Out, n.Hidden[3]} {
		for k := range slice {
			before := n.value(x)
			slice[k] += step
			slope := (n.value(x) - before) / step
			slice[k] -= step
			require.InDelta(t, slope, [][]float64{g.Direct, g.Out, g.Hidden[3]}[i][k], 1e-4)
		}
	}
	pull := func(e *example, values, out []float64) { out[0] = float64(e.right) - 1/(1+math.Exp(-values[0])) }
	n.train(0, examples, pull)
	other := newNetwork(1, rowsOf(examples))
	other.train(1, examples, pull)
	require.NotEqual(t, n.Hidden, other.Hidden)
	for _, e := range examples[:20] {
		require.InDelta(t, (n.value(e.rows[0])+other.value(e.rows[0]))/2, mean([]*Network{n, other}).value(e.rows[0]), 1e-2, "the mean of two is one network")
	}
	right := 0
	for _, e := range examples {
		if n.value(e.rows[0]) > 0 == (e.right == 1) {
			right++
		}
	}
	require.Greater(t, right, 1800)
}

// TestPriorIsLearnt makes a prior of simulated genomes, and finds the genes of another with it.
func TestPriorIsLearnt(t *testing.T) {
	testenv.CalculatesLong(t)
	t.Parallel()
	var genomes []Annotated
	for seed := range uint64(3) {
		letters, planted := simulated(60+seed, 60)
		genomes = append(genomes, Annotated{Contig: Contig{Name: fmt.Sprint("g", seed), Seq: letters}, Genes: planted, Code: 11})
	}
	// Annotations have pieces of ribosomal RNA, too, which the prior can't take.
	whole := string(ribosome(t))
	genomes[1].Ribosomal = []rna.Known{{Kind: rna.Small, Seq: whole[:600]}, {Kind: rna.Small, Seq: whole}, {Kind: rna.Small, Seq: whole[1:]}}
	p, err := LearnPrior(t.Context(), genomes)
	require.NoError(t, err)
	require.Equal(t, []string{"g0", "g1", "g2"}, p.Genomes)
	require.Equal(t, []rna.Known{{Kind: rna.Small, Seq: whole, From: "g1"}}, p.Ribosomal)
	letters, planted := simulated(70, 60)
	r := find(t, Options{Prior: p}, Contig{Name: "a", Seq: letters})
	hits, starts := agreement(planted, r.Genes)
	require.GreaterOrEqual(t, hits, 58)
	require.GreaterOrEqual(t, starts, 50)
	require.LessOrEqual(t, len(r.Genes), 62)
	_, err = LearnPrior(t.Context(), nil)
	require.Error(t, err)
}

// A prior that an earlier version made, whose networks are for fewer features, is refused with what to do.
func TestPriorOfAnotherVersionIsRefused(t *testing.T) {
	for _, of := range []func(p *Prior) *Network{func(p *Prior) *Network { return p.Weights.Start }, func(p *Prior) *Network { return p.Weights.Gene }, func(p *Prior) *Network { return p.Weights.Joint }} {
		p, err := shipped()
		require.NoError(t, err)
		n := of(p)
		n.Mean = n.Mean[1:]
		text, err := json.Marshal(p)
		require.NoError(t, err)
		_, err = ReadPrior(bytes.NewReader(text))
		require.ErrorContains(t, err, "it is of another version, make it anew with train/genes")
		require.NotContains(t, err.Error(), "\n")
	}
	p, err := shipped()
	require.NoError(t, err)
	p.Ribosomal = nil
	text, err := json.Marshal(p)
	require.NoError(t, err)
	_, err = ReadPrior(bytes.NewReader(text))
	require.ErrorContains(t, err, "it has no ribosomal RNA: it is of another version, make it anew with train/genes")
}

func FuzzFind(f *testing.F) {
	letters, _ := simulated(80, 2)
	f.Add(string(letters[:600]), true)
	f.Add("NNNNNNNNACGTRYKMacgt", false)
	f.Add(strings.Repeat("A", 200), true)
	f.Add(strings.Repeat("ATGGCG", 60)+"TAA", false)
	f.Fuzz(func(t *testing.T, seq string, circular bool) {
		if len(seq) > 5000 {
			return
		}
		g, err := genome.Read(strings.NewReader(">a\n" + seq + "\n"))
		if err != nil {
			return
		}
		c := Contig{Name: "a", Seq: g.Contigs[0].Seq, Circular: circular}
		r, err := Find(t.Context(), []Contig{c}, Options{Code: 11})
		if err != nil {
			require.ErrorIs(t, err, ErrNothing)
			return
		}
		for _, gene := range r.Genes {
			require.GreaterOrEqual(t, gene.Start, 0)
			require.Less(t, gene.Start, len(c.Seq))
			require.GreaterOrEqual(t, gene.End-gene.Start, shortest-3)
			require.LessOrEqual(t, gene.End-gene.Start, len(c.Seq))
			if !circular {
				require.LessOrEqual(t, gene.End, len(c.Seq))
			}
		}
		var text bytes.Buffer
		require.NoError(t, WriteGFF3(&text, []Contig{c}, r))
		if len(r.Genes) == 0 {
			return // a file without genes is refused
		}
		m, err := annotate.ReadModel(&text, g)
		require.NoError(t, err)
		require.Empty(t, m.Warnings())
	})
}

func BenchmarkFind(b *testing.B) {
	c := contigOf(b, filepath.Join("testdata", "mycoplasma.fa.gz"))
	b.SetBytes(int64(len(c.Seq)))
	for b.Loop() {
		find(b, Options{Code: 4}, c)
	}
}

func TestFilesOfPhagesAndPlasmidsAreDistinguishedByTheirKnownBases(t *testing.T) {
	t.Parallel()
	contigs := func(known int) []Contig {
		r := rand.New(rand.NewPCG(5, 5))
		seq := make([]byte, known)
		for i := range seq {
			seq[i] = "ACGT"[r.IntN(4)]
		}
		// Two contigs count together, and unknown bases don't.
		return []Contig{{Name: "a", Seq: slices.Concat(seq[:100_000], bytes.Repeat([]byte("N"), 500_000), seq[100_000:200_000])}, {Name: "b", Seq: seq[200_000:]}}
	}
	for known, want := range map[int]float64{short - 1: eagerShort, short: eager} {
		f := finder{starts: new(startModel)}
		require.Equal(t, known, f.load(contigs(known)))
		require.InDelta(t, want, f.eager(), 0, "%d bases", known)
		f.starts.scanned = true
		require.Zero(t, f.eager(), "a virus of eukaryotes")
	}
	require.Greater(t, eagerShort, eager, "shorter genomes have fewer frames that are no genes")
}

func TestStartsOfBacteriaAreSurerThanTheirChains(t *testing.T) {
	t.Parallel()
	phage, bacterium := &finder{known: short - 1}, &finder{known: short}
	last := 0.0
	for _, share := range []float64{.01, .3, .5, .7, .9, .999} {
		require.Equal(t, share, phage.surer(share))
		v := bacterium.surer(share)
		require.Greater(t, v, last, "the surer of two starts stays so")
		require.Less(t, v, 1.0)
		last = v
	}
	require.InDelta(t, .574, bacterium.surer(.5), .001)
	require.InDelta(t, .774, bacterium.surer(.7), .001)
	require.Zero(t, bacterium.surer(0))
	require.Equal(t, 1.0, bacterium.surer(1))
}

// TestNamesOfContigsAreEscaped has names of contigs end neither a column nor an attribute.
func TestNamesOfContigsAreEscaped(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, WriteGFF3(&out, []Contig{{Name: "c;d=e,f%&g", Seq: []byte("ACGT"), Circular: true}}, new(Result)))
	require.Equal(t, "##gff-version 3\n##sequence-region c;d=e,f%25&g 1 4\n"+
		"c;d=e,f%25&g\tPorestream\tregion\t1\t4\t.\t+\t.\tID=region:c%3Bd%3De%2Cf%25%26g;Is_circular=true\n", out.String())
}
