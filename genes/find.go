package genes

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/porestream/porestream/genes/rna"
)

// Contig is a sequence to find genes in.
type Contig struct {
	Name     string
	Seq      []byte // letters
	Circular bool
}

// Options say how to find genes.
type Options struct {
	Code  int    // NCBI's genetic code; 0 finds it
	Prior *Prior // nil for the one that is shipped
	// AnySize takes more than MostBases.
	AnySize bool
}

// Gene is a gene that was found.
type Gene struct {
	Contig     int // index
	Start, End int // 0-based, half open, with the stop codon; End is beyond the contig's length where a gene crosses the origin
	Reverse    bool
	// OpenLow and OpenHigh say that the gene goes on where the known sequence ends, at its Start or End: the last whole codons of it.
	OpenLow, OpenHigh bool
	// Slips says that the ribosome slips back by one base, and reads the base at Joint twice: the last of one frame is the first of the next.
	Slips          bool
	Joint          int
	StartCodon     string // ATG, GTG, TTG, or Edge if the gene's start is not in the sequence
	Site           Site
	Coding         float64 // log odds of its codons
	Score          float64 // log odds of all that is known of it
	Posterior      float64 // probability of a gene with this stop
	StartPosterior float64 // probability of its start, if it is a gene
	// Similar is the known protein that the gene's is most like, where names are carried over and one is like enough; else nil.
	Similar *Similar
}

// Site is a binding site of the ribosome.
type Site struct {
	Motif  string // the six bases; empty if there is none
	Spacer int    // bases between it and the start codon
}

// Result is what was found.
type Result struct {
	Code      int
	CodeFound bool // the code wasn't given
	Genes     []Gene
	Bases     int // known ones
	GC        float64
	Coding    float64 // share of the known bases that are in genes
	Named     int     // genes whose proteins are like a known one
	// Pseudogenes are broken genes.
	Pseudogenes []Pseudogene
	// RNA are the genes of ribosomal and transfer RNA, by contig and place.
	RNA []RNAGene
	// found are all genes, the parts of broken ones among them, and alone what the genome itself shows of those.
	found []Gene
	alone []remains
}

// MostBases is how long a genome may be. The longest of bacteria that are known have 16 million bases; a
// eukaryote's genes have introns, which aren't searched for.
const MostBases = 30_000_000

// Doubt says why what was found may be wrong as a whole; empty if nothing speaks for that.
func (r *Result) Doubt() string {
	const least, enough = .55, 50_000
	if r.Bases < enough || r.Coding >= least {
		return ""
	}
	return fmt.Sprintf("only %.0f %% of the bases are in genes, and in bacteria, archaea and viruses it is about 90 %%: if this is a eukaryote, these aren't its genes; use the GFF3 of AUGUSTUS, Helixer or Tiberius", 100*r.Coding)
}

// ErrNothing says that there is no sequence in which a gene could be.
var ErrNothing = errors.New("no sequence to find genes in")

const (
	// rounds of finding genes and learning from them. What is found changes little after the third.
	rounds = 4
	// codonPrior is the number of codons that the prior counts as.
	codonPrior = 3000
	// keepStarts is how many starts of a frame are weighed in the chain, the best ones by themselves.
	keepStarts = 8
)

// finder is one search with one genetic code.
type finder struct {
	prior   *Prior
	code    *geneticCode
	pieces  []*piece
	counts  hexamers // of the whole genome, on both strands
	known   int      // bases
	gc      float64
	usual   float64 // log odds of a codon in the genome's genes
	tables  tables
	starts  *startModel
	spacing *spacingModel
	sites   siteCounts   // before any start codon
	total   float64      // score of the last round
	rna     [][]rna.Gene // of each contig
	// reporting says that what is found is reported, not learnt from.
	reporting bool
	// What the last round has found: pairs of codons, and starts of genes of some length.
	in    hexamers
	began []startContext
}

// Find finds the genes of a genome.
func Find(ctx context.Context, contigs []Contig, opts Options) (*Result, error) {
	prior := opts.Prior
	if prior == nil {
		var err error
		if prior, err = shipped(); err != nil {
			return nil, err
		}
	}
	f := finder{prior: prior}
	known := f.load(contigs)
	if len(f.pieces) == 0 {
		return nil, fmt.Errorf("%w: no contig has %d bases without a gap, and a gene has no less", ErrNothing, shortest)
	}
	if known > MostBases && !opts.AnySize {
		return nil, fmt.Errorf("%d bases are more than any bacterium, archaeon or virus has (16 million): genes of eukaryotes are not found here; use the GFF3 of AUGUSTUS, Helixer or Tiberius", known)
	}
	result := &Result{Bases: known, GC: f.gc, CodeFound: opts.Code == 0}
	best, err := f.choose(ctx, opts.Code)
	if err != nil {
		return nil, err
	}
	result.Code = best.code.table
	if best.rna, err = best.ribosomalAndTransfer(ctx, contigs); err != nil {
		return nil, err
	}
	for i, list := range best.rna {
		for _, g := range list {
			result.RNA = append(result.RNA, RNAGene{Contig: i, Gene: g})
		}
	}
	var splits []split
	if result.Genes, splits, err = best.report(ctx); err != nil {
		return nil, err
	}
	inGenes, reach, contig := 0, 0, -1
	for _, g := range result.Genes {
		if g.Contig != contig {
			reach, contig = 0, g.Contig
		}
		inGenes += max(0, g.End-max(g.Start, reach))
		reach = max(reach, g.End)
	}
	result.Coding = min(1, float64(inGenes)/float64(known))
	if !best.starts.scanned {
		interruptions, err := best.interruptions(ctx, result.Genes)
		if err != nil {
			return nil, err
		}
		if err := result.breakAlone(ctx, contigs, splits, interruptions); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// load takes the contigs apart and returns the number of known bases.
func (f *finder) load(contigs []Contig) int {
	known, strong := 0, 0.0
	for i, c := range contigs {
		for _, p := range pieces(i, c.Seq, c.Circular) {
			if p.length < shortest || p.unknown() {
				continue
			}
			f.pieces = append(f.pieces, p)
			molecule := p.forward[:p.length]
			f.counts.countAll(molecule)
			for _, b := range molecule {
				if b != unknown {
					known++
				}
				if b == 1 || b == 2 {
					strong++
				}
			}
		}
	}
	// What is learnt doesn't depend on the order of the contigs, to the last bit.
	slices.SortStableFunc(f.pieces, func(a, b *piece) int { return bytes.Compare(a.forward, b.forward) })
	f.counts.bothStrands()
	f.known = known
	f.gc = strong / float64(max(known, 1))
	return known
}

// bothStrands adds the counts of the other strand.
func (h *hexamers) bothStrands() {
	old := *h
	for i, n := range old {
		other := 0
		for k := range 6 {
			other = other<<2 | (3 - i>>(2*k)&3)
		}
		h[other] += n
	}
}

// choose learns with the code that is given, or with those that differ in their stops, and takes the one that explains the genome best.
func (f *finder) choose(ctx context.Context, given int) (*finder, error) {
	if given != 0 {
		return f.learn(ctx, given, rounds)
	}
	var best *finder
	for _, table := range []int{bacterial, mycoplasmal} {
		g, err := f.learn(ctx, table, 1)
		if err != nil {
			return nil, err
		}
		if best == nil || g.total > best.total {
			best = g
		}
	}
	found, err := f.learn(ctx, best.code.table, rounds)
	switch {
	case err != nil:
		return nil, err
	case best.code.table == mycoplasmal && found.readsGlycine():
		return f.learn(ctx, gracilibacterial, rounds)
	case best.code.table == bacterial && found.scans():
		return f.learn(ctx, standard, rounds)
	case best.code.table == bacterial && found.few():
		scanned, err := f.learn(ctx, standard, rounds)
		if err != nil {
			return nil, err
		}
		list, _, err := scanned.report(ctx)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(list, func(g Gene) bool { return g.Slips }) {
			return scanned, nil
		}
	}
	return found, nil
}

// The genetic codes that are distinguished: 4 and 25 read the stop TGA of the others as tryptophan and as glycine, 1 differs from 11 in its
// starts.
const (
	standard         = 1
	mycoplasmal      = 4
	bacterial        = 11
	gracilibacterial = 25
)

// usualTryptophan is the share of tryptophan in the proteins of about any organism.
const usualTryptophan = .011

// readsGlycine reports whether TGA is more likely glycine than tryptophan: with it, there would be more tryptophan than there ever is.
func (f *finder) readsGlycine() bool {
	total := 0.0
	var n [codons]float64
	for i, v := range f.in {
		n[i&63] += v
		total += v
	}
	without := (n[codonOf("TGG")] + 1) / (total + 100)
	with := without + n[codonOf("TGA")]/(total+100)
	return math.Abs(math.Log(without/usualTryptophan)) < math.Abs(math.Log(with/usualTryptophan))
}

const (
	// mostViral is the longest genome whose genes may be read by ribosomes that scan: larger ones of such viruses are rare, and a bacterium's
	// always has other starts than ATG.
	mostViral = 400_000
	fewest    = 4 // genes of 300 bases, of which each begins with ATG
	bindingAt = .5
)

// viral reports whether the genome may be one of a virus of eukaryotes: it is short, and no gene has another start than ATG.
func (f *finder) viral() bool {
	bases := 0
	for _, p := range f.pieces {
		bases += p.length
	}
	return bases <= mostViral && !slices.ContainsFunc(f.began, func(c startContext) bool { return c.kind != startATG })
}

// scans reports whether the ribosome seems to scan for the first ATG, as in the eukaryotes that a virus lives in: no other start, and no binding
// sites before them.
func (f *finder) scans() bool {
	if len(f.began) < fewest || !f.viral() {
		return false
	}
	binding := 0.0
	for i := range f.began {
		v, _ := f.starts.binding(f.began[i].base[:], flankUp)
		binding += v
	}
	return binding/float64(len(f.began)) < bindingAt
}

// few reports whether a virus may have too few genes to say by their binding sites: chance puts one before one or two, such as AGGAGA before gag of HIV-1. Such a genome is
// read as that of a virus of eukaryotes only if the ribosome slips from one of its long genes into another, as in retroviruses.
func (f *finder) few() bool {
	return len(f.began) > 1 && len(f.began) < fewest && f.viral()
}

// learn finds genes by the prior and learns from them, again and again.
func (f *finder) learn(ctx context.Context, table, rounds int) (*finder, error) {
	code, err := newCode(table)
	if err != nil {
		return nil, err
	}
	g := *f
	g.code = code
	g.begin()
	for range rounds {
		seen := new(lesson)
		g.total = 0
		for _, p := range g.pieces {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			list, chain, total := g.find(p)
			g.total += total
			seen.take(&g, p, list, chain)
		}
		g.in, g.began = seen.in, seen.long
		g.adapt(seen)
	}
	return &g, nil
}

// usualOdds is the log odds that a codon of a gene adds as long as no gene is known, and the least that is
// taken for usual.
const usualOdds = .1

// begin sets the models to what the prior says of a genome of this composition.
func (f *finder) begin() {
	usage := f.prior.usage(f.gc, f.code)
	for i := range usage {
		usage[i] *= codonPrior
	}
	f.tabulate(new(hexamers), &usage, &f.counts)
	f.tables.foreigners(f.prior, f.code)
	f.prior.pairTables(f.code, &f.tables.pairs)
	f.tables.loose, f.usual = -20, usualOdds
	f.starts = newStarts(&f.prior.Start, f.gc)
	f.starts.scanned = f.code.table == standard
	f.sites = siteCounts{}
	for _, p := range f.pieces {
		f.sites.countStarts(p.forward, f.code)
		f.sites.countStarts(p.reverse, f.code)
	}
	f.starts.sites.learn(&f.prior.Start.Sites, nil, f.sites)
	f.spacing = newSpacing(&f.prior.Spacing, new(spacingCounts), f.trust())
}

func (f *finder) tabulate(in *hexamers, usage *[codons]float64, out *hexamers) {
	c, b, whole := coding(in, usage, f.code), background(out), background(&f.counts)
	for i := range f.tables.own {
		f.tables.plain[i] = float32(whole[i] - b[i])
		f.tables.own[i] = -50
		if !math.IsInf(c[i], -1) {
			f.tables.own[i] = float32(c[i] - b[i])
		}
	}
}

// find finds the best chain of genes of a piece; if they are to be reported, with probabilities.
func (f *finder) find(p *piece) (list []candidate, chain []int32, total float64) {
	list = f.withoutRNA(p, f.candidates(p))
	order(list)
	way := path{list: list, spacing: f.spacing, heat: f.prior.Weights.Heat, shared: beyond}
	if f.starts.scanned {
		way.shared, way.scanned = 1, true
	}
	chain = way.run()
	if f.reporting {
		way.posteriors()
	}
	return list, p.once(list, chain), way.total
}

// once drops what a circular piece's chain has twice: the genes of the first bases are in the overhang again. The two ends of the chain agree from
// some gene on, and from that gene in the overhang on they are those of the beginning.
func (p *piece) once(list []candidate, chain []int32) []int32 {
	if !p.circular {
		return chain
	}
	n := int32(p.length)
	type key struct {
		left, right int32
		reverse     bool
	}
	first := map[key]int{}
	for k, i := range chain {
		c := &list[i]
		if c.left < n {
			first[key{c.left, c.right, c.reverse}] = k
		}
	}
	for k, i := range chain {
		c := &list[i]
		if c.left < n {
			continue
		}
		if j, ok := first[key{c.left - n, c.right - n, c.reverse}]; ok {
			return chain[j:k]
		}
	}
	// Nothing agrees: the piece is short, or without clear genes. Those that begin on it are returned, but for those that another one covers one turn
	// later.
	var out []int32
	reach := int32(0)
	for _, i := range chain {
		if c := &list[i]; c.left < n {
			out = append(out, i)
			reach = max(reach, c.right-n)
		}
	}
	return slices.DeleteFunc(out, func(i int32) bool { return list[i].right <= reach && list[i].right < n })
}

// candidates are the frames of both strands with their best starts.
func (f *finder) candidates(p *piece) []candidate {
	var lists [2][]candidate
	var wait sync.WaitGroup
	for s, seq := range [][]byte{p.forward, p.reverse} {
		wait.Go(func() { lists[s] = f.strand(seq, s == 1, p.circular) })
	}
	wait.Wait()
	offset := int32(len(lists[0]))
	for i := range lists[1] {
		lists[1][i].frame += offset // frames of the two strands differ
	}
	return append(lists[0], lists[1]...)
}

func (f *finder) strand(s []byte, reverse, circular bool) []candidate {
	var out []candidate
	n := int32(len(s))
	var sc scored
	frames := scan(s, circular, f.code, &f.tables)
	for k := range frames {
		fr := &frames[k]
		f.features(s, fr, &sc)
		f.weigh(s, fr, &sc)
		if sc.total < leastScore {
			continue
		}
		from := len(out)
		for i, b := range fr.starts {
			if sc.score[i] < leastStart {
				continue
			}
			top := max(b.own, b.foreign)
			c := candidate{left: b.at, right: fr.stop, reverse: reverse, kind: b.kind, open: fr.open, frame: int32(k), coding: top, score: sc.total + sc.score[i], likeliest: fr.starts[sc.best].at}
			c.density = top / float32(fr.stop-b.at)
			if reverse {
				c.left, c.right, c.likeliest = n-c.right, n-c.left, n-c.likeliest
			}
			out = append(out, c)
		}
		mine := out[from:]
		slices.SortStableFunc(mine, func(a, b candidate) int { return cmp.Compare(b.score, a.score) })
		out = out[:from+min(len(mine), keepStarts)]
	}
	return out
}

const (
	// leastScore is the score below which a frame isn't a candidate: neighbours can't make up for it.
	leastScore = -8
	// leastStart is the log probability below which a start isn't one.
	leastStart = -10
)

// lesson is what a round of finding genes teaches.
type lesson struct {
	in, out hexamers
	spacing spacingCounts
	starts  []startContext
	long    []startContext // of those, starts of genes of 300 bases and more
}

func (l *lesson) take(f *finder, p *piece, list []candidate, chain []int32) {
	n := int32(len(p.forward))
	edge := int32(0)
	for k, i := range chain {
		c := &list[i]
		s, left, right := p.forward, c.left, c.right
		if c.reverse {
			s, left, right = p.reverse, n-c.right, n-c.left
		}
		stop := right
		if !c.open {
			stop -= 3
		}
		l.in.countCodons(s[left:stop], 1)
		if c.kind != startOpen {
			l.starts = append(l.starts, contextAt(s, int(left), c.kind))
			if stop-left >= 300 {
				l.long = append(l.long, l.starts[len(l.starts)-1])
			}
		}
		if c.left > edge {
			l.out.countAll(p.forward[edge:c.left])
		}
		edge = max(edge, c.right)
		if k > 0 {
			before := &list[chain[k-1]]
			l.spacing.add(before.reverse, c.reverse, int(c.left-before.right))
		}
	}
	if end := int32(p.length); edge < end {
		l.out.countAll(p.forward[edge:end])
	}
}

// backgroundPrior is the number of hexamers that those of the whole genome count as, where those between genes are few.
const backgroundPrior = 20000

func (f *finder) adapt(l *lesson) {
	usage := f.prior.usage(f.gc, f.code)
	for i := range usage {
		usage[i] *= codonPrior
	}
	l.out.bothStrands()
	total := 0.0
	for _, n := range f.counts {
		total += n
	}
	for i, n := range f.counts {
		l.out[i] += float64(n / total * backgroundPrior)
	}
	f.tabulate(&l.in, &usage, &l.out)
	f.usual = usualOdds
	if sum, n := l.in.weighed(&f.tables.own); n > codonPrior {
		f.usual = max(f.usual, sum/n)
	}
	f.starts.learn(&f.prior.Start, l.starts, &l.out)
	own := siteCounts{}
	own.countContexts(l.starts)
	f.starts.sites.learn(&f.prior.Start.Sites, own, f.sites)
	f.spacing = newSpacing(&f.prior.Spacing, &l.spacing, f.trust())
}

// report finds the genes with what was learnt and returns all that is known of them.
func (f *finder) report(ctx context.Context) (out []Gene, splits []split, err error) {
	last := *f
	last.reporting = true
	f = &last
	for _, p := range f.pieces {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		list, chain, _ := f.find(p)
		byFrame := map[int32]float64{}
		for i := range list {
			byFrame[list[i].frame] += list[i].posterior
		}
		for _, i := range chain {
			out = append(out, f.gene(p, &list[i], byFrame[list[i].frame]))
		}
		splits = append(splits, f.splits(p, list, chain, out[len(out)-len(chain):])...)
	}
	slices.SortFunc(out, byPlace)
	if f.code.table == standard {
		of := map[int]*piece{}
		for _, p := range f.pieces {
			if _, several := of[p.contig]; several {
				of[p.contig] = nil // cut by gaps: where it slips isn't searched for
				continue
			}
			of[p.contig] = p
		}
		f.slip(out, of)
		slices.SortStableFunc(out, byPlace)
	}
	return out, splits, nil
}

func byPlace(a, b Gene) int {
	for _, d := range []int{a.Contig - b.Contig, a.Start - b.Start, a.End - b.End} {
		if d != 0 {
			return d
		}
	}
	return strandIndex(a.Reverse) - strandIndex(b.Reverse)
}

// In genomes of bacteria, log odds of the reported starts times startScale and more by startShift are about how often these starts are right. Heat is too low for them:
// it makes up for codons that know of each other, and the starts of a frame have most codons in common.
const (
	startScale = 1.1
	startShift = .3
)

// surer is the probability that a start is the right one, by the share of all chains that have it. In the short genomes of phages it is that share.
func (f *finder) surer(share float64) float64 {
	if f.known < short || share <= 0 || share >= 1 {
		return share
	}
	return 1 / (1 + math.Exp(-startShift-float64(startScale*math.Log(share/(1-share)))))
}

func (f *finder) gene(p *piece, c *candidate, any float64) Gene {
	g := Gene{Contig: p.contig, StartCodon: startNames[c.kind], Coding: float64(c.coding), Score: c.score, Posterior: min(1, any)}
	if any > 0 {
		g.StartPosterior = f.surer(min(1, c.posterior/any))
	}
	s, at := p.forward, int(c.left)
	if c.reverse {
		s, at = p.reverse, len(p.reverse)-int(c.right)
	}
	if c.kind != startOpen {
		if _, where := f.starts.binding(s, at); where.motif >= 0 {
			from := at - upstream + where.offset
			word := make([]byte, motifWidth)
			for i := range word {
				word[i] = "ACGTN"[s[from+i]]
			}
			g.Site = Site{Motif: string(word), Spacer: at - from - motifWidth}
		}
	}
	g.Start, g.End, g.Reverse = p.place(int(c.left), int(c.right), c.reverse)
	begins, ends := c.kind == startOpen, c.open
	if g.Reverse {
		begins, ends = ends, begins
	}
	g.OpenLow, g.OpenHigh = begins, ends
	return g
}
