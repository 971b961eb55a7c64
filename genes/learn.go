package genes

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/porestream/porestream/genes/rna"
)

// Annotated is a sequence whose genes are known, to learn a prior from.
type Annotated struct {
	Contig
	Genes []Known
	// Others are stretches that are neither genes to learn from nor places without any: pseudogenes, genes with slippage or cut ends.
	Others []Known
	Code   int
	// Ribosomal is its ribosomal RNA. What is too short or too long for its kind is left out.
	Ribosomal []rna.Known
}

// Known is a gene of an annotation: one stretch, half open, with its stop codon, whole at both ends.
type Known struct {
	Start, End int
	Reverse    bool
}

var errNoExamples = errors.New("no genome with genes to learn from")

// neutral is what a prior begins with: the end of 16S ribosomal RNA binds AGGAGG, five to ten bases before the start.
func neutral() startPrior {
	var p startPrior
	p.Kinds = [startKinds]float64{.8, .12, .08}
	p.Share = .6
	p.Sites = neutralSites()
	for i, c := range []byte("AGGAGG") {
		p.Motif[i] = [4]float64{.1, .1, .1, .1}
		p.Motif[i][baseOf[c]] = .7
	}
	sum := 0.0
	for o := range p.Offset {
		spacer := offsets - 1 - o
		p.Offset[o] = .2
		if 3 <= spacer && spacer <= 9 {
			p.Offset[o] = 1
		}
		sum += p.Offset[o]
	}
	for o := range p.Offset {
		p.Offset[o] /= sum
	}
	return p
}

// LearnPrior makes a prior of annotated genomes. Each counts alike, whatever its length.
func LearnPrior(ctx context.Context, genomes []Annotated) (*Prior, error) {
	if len(genomes) == 0 {
		return nil, errors.New("no genomes to learn from")
	}
	p := &Prior{Start: neutral(), Weights: firstWeights(), Ribosomal: []rna.Known{}}
	all := annotatedCounts{anywhere: siteCounts{}}
	for i := range genomes {
		g := &genomes[i]
		p.Genomes = append(p.Genomes, g.Name)
		p.keepRibosomal(g)
		if err := all.add(g); err != nil {
			return nil, err
		}
	}
	p.Spacing = all.spacing
	p.Codons = all.usage.coefficients()
	p.Pairs = all.near.odds()
	p.learnStarts(&all)
	for round := range weightRounds {
		bases := glance
		if round == weightRounds-1 {
			bases = math.MaxInt
		}
		if err := p.fit(ctx, genomes, bases); err != nil {
			return nil, err
		}
	}
	if err := p.fitJoint(ctx, genomes); err != nil {
		return nil, err
	}
	return p, nil
}

// keepRibosomal keeps a genome's first RNA of each kind, to find that of other genomes by.
func (p *Prior) keepRibosomal(g *Annotated) {
	for _, r := range g.Ribosomal {
		have := func(o rna.Known) bool { return o.From == g.Name && o.Kind == r.Kind }
		r.From = g.Name
		if _, err := rna.NewIndex([]rna.Known{r}); err != nil {
			continue // a piece, of which annotations have some
		}
		if !slices.ContainsFunc(p.Ribosomal, have) {
			p.Ribosomal = append(p.Ribosomal, r)
		}
	}
}

// annotatedCounts are what genes that are known say of genes, before anything is fitted to it.
type annotatedCounts struct {
	usage    composition
	near     neighbours
	between  hexamers            // outside of genes
	kinds    [startKinds]float64 // each genome's shares of start codons, added
	starts   []startContext      // as many of each genome, as far as it has them
	anywhere siteCounts          // before whatever could be a start codon
	spacing  spacingCounts
}

// add counts a genome.
func (c *annotatedCounts) add(g *Annotated) error {
	code, err := newCode(g.Code)
	if err != nil {
		return err
	}
	s := encode(g.Seq)
	other := rna.Complemented(s)
	c.addStarts(c.addGenes(g.Genes, s, other, code))

	sites := siteCounts{}
	sites.countStarts(s, code)
	sites.countStarts(other, code)
	c.anywhere.share(sites)
	return nil
}

// addGenes counts the genes of a sequence and what lies between them, and returns where the genes start. other is the other strand.
func (c *annotatedCounts) addGenes(genes []Known, s, other []byte, code *geneticCode) (starts []startContext) {
	known := slices.Clone(genes)
	slices.SortFunc(known, func(a, b Known) int { return a.End - b.End })
	edge := 0 // behind the genes so far
	var spacing spacingCounts
	for k, gene := range known {
		strand, at, end := s, gene.Start, gene.End
		if gene.Reverse {
			strand, at, end = other, len(s)-gene.End, len(s)-gene.Start
		}
		if (end-at)%3 != 0 {
			continue
		}
		c.usage.add(strand[at:end-3], code)
		c.near.add(strand[at:end-3], code)
		if codon := codonAt(strand, at); codon >= 0 && code.start[codon] >= 0 {
			starts = append(starts, contextAt(strand, at, code.start[codon]))
		}
		if gene.Start > edge {
			c.between.countAll(s[edge:gene.Start])
		}
		edge = max(edge, gene.End)
		if k > 0 {
			spacing.add(known[k-1].Reverse, gene.Reverse, gene.Start-known[k-1].End)
		}
	}
	c.spacing.join(&spacing)
	return starts
}

// addStarts adds a genome's start codons as shares, and a few hundred of their surroundings: they are enough for a motif, and so no genome
// outvotes the others.
func (c *annotatedCounts) addStarts(starts []startContext) {
	var kinds [startKinds]float64
	for i := range starts {
		kinds[starts[i].kind]++
	}
	share := 1 / max(1, float64(len(starts)))
	for k := range kinds {
		c.kinds[k] += float64(kinds[k] * share)
	}
	few := min(len(starts), 300)
	for i := range few {
		c.starts = append(c.starts, starts[i*len(starts)/few])
	}
}

// learnStarts fits the start codons, the motif before them and what is around them.
func (p *Prior) learnStarts(all *annotatedCounts) {
	p.Start.Kinds = all.kinds
	all.between.bothStrands()
	m := newStarts(&p.Start, .5)
	prior := neutral()
	prior.Kinds = p.Start.Kinds
	m.learn(&prior, all.starts, &all.between)
	p.Start.Share, p.Start.Motif, p.Start.Offset = m.motifs[0].share, m.motifs[0].base, m.motifs[0].offset
	p.Start.Flank = m.flank
	sites, own := neutralSites(), siteCounts{}
	own.countContexts(all.starts)
	p.Start.Sites.learn(&sites, own, all.anywhere)
	for b := range p.Start.Sites {
		p.Start.Sites[b] = rounded(p.Start.Sites[b])
	}
}

// join adds the counts of a genome, scaled to one gene each thousand.
func (c *spacingCounts) join(own *spacingCounts) {
	total := 0.0
	for _, list := range own.Bins {
		for _, n := range list {
			total += n
		}
	}
	scale := 1000 / max(1, total)
	for r := range own.Bins {
		for b := range own.Bins[r] {
			c.Bins[r][b] += float64(scale * own.Bins[r][b])
		}
	}
	c.Beyond += float64(scale * own.Beyond)
}

// composition are counts of codons by the GC content of the gene that they are in.
type composition struct {
	bins [25][codons]float64
	gc   [25]float64 // sum over codons
}

func (u *composition) add(s []byte, code *geneticCode) {
	var n [codons]float64
	strong, total := 0.0, 0.0
	for i := 0; i+3 <= len(s); i += 3 {
		codon := codonAt(s, i)
		if codon < 0 || code.stops(codon) {
			continue
		}
		if codonName(codon) == "TGA" {
			codon = codonOf("TGG") // tryptophan, whichever way it is written
		}
		n[codon]++
		total++
		for k := range 3 {
			if b := codon >> (2 * k) & 3; b == 1 || b == 2 {
				strong++
			}
		}
	}
	if total < 50 {
		return
	}
	gc := strong / (3 * total)
	bin := int(gc * 25)
	for i := range n {
		u.bins[bin][i] += n[i]
	}
	u.gc[bin] += float64(gc * total)
}

// coefficients fits for each codon a parabola to the logarithm of its share.
func (u *composition) coefficients() map[string][3]float64 {
	out := map[string][3]float64{}
	standard, err := newCode(11)
	if err != nil {
		panic(err) // code 11 is one of NCBI's
	}
	for c := range codons {
		if standard.stops(c) {
			continue
		}
		a, y := [][]float64{make([]float64, 3), make([]float64, 3), make([]float64, 3)}, make([]float64, 3)
		for bin, list := range u.bins {
			total := 0.0
			for _, n := range list {
				total += n
			}
			if total < 500 {
				continue
			}
			x := u.gc[bin]/total - .5
			value := math.Log((list[c] + 1) / (total + codons))
			weight := min(total, 20000)
			power := [3]float64{1, x, x * x}
			for i := range power {
				y[i] += float64(weight * power[i] * value)
				for j := range power {
					a[i][j] += float64(weight * power[i] * power[j])
				}
			}
		}
		for i := range a {
			a[i][i] += 20 // so that few genomes make a flat curve, and no wild one
		}
		out[codonName(c)] = [3]float64(solve(a, y))
	}
	out["TGA"] = out["TGG"]
	return out
}

// solve solves equations by Gaussian elimination; the matrix is positive definite. Both arguments are used up.
func solve(a [][]float64, y []float64) []float64 {
	n := len(y)
	for i := range n {
		for k := i + 1; k < n; k++ {
			f := a[k][i] / a[i][i]
			for j := i; j < n; j++ {
				a[k][j] -= float64(f * a[i][j])
			}
			y[k] -= float64(f * y[i])
		}
	}
	for i := n - 1; i >= 0; i-- {
		for j := i + 1; j < n; j++ {
			y[i] -= float64(a[i][j] * y[j])
		}
		y[i] /= a[i][i]
	}
	return y
}

// neighbours counts amino acids that are near each other.
type neighbours [separations][aminos][aminos]float64

func (n *neighbours) add(s []byte, code *geneticCode) {
	var list []int
	for i := 0; i+3 <= len(s); i += 3 {
		a := -1
		if codon := codonAt(s, i); codon >= 0 {
			a = strings.IndexByte(aminoLetters, code.amino[codon])
		}
		list = append(list, a)
	}
	for i, a := range list {
		for d := range min(i, separations) {
			if b := list[i-d-1]; a >= 0 && b >= 0 {
				n[d][b][a]++
			}
		}
	}
}

// odds are the logarithms of how much oftener than by chance two are near each other.
func (n *neighbours) odds() (out [separations][aminos][aminos]float32) {
	for d := range n {
		var first, second [aminos]float64
		total := 0.0
		for i, row := range n[d] {
			for j, v := range row {
				first[i] += v
				second[j] += v
				total += v
			}
		}
		for i, row := range n[d] {
			for j, v := range row {
				expected := first[i] * second[j] / max(total, 1)
				out[d][i][j] = float32(math.Round(1e4*math.Log((v+20)/(expected+20))) / 1e4)
			}
		}
	}
	return out
}
