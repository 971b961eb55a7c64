package eval

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/porestream/porestream/genome"
)

func homopolymerName(least int) string { return fmt.Sprintf("homopolymers >= %d", least) }

// order lists the strata in the order of the report; others come behind, by name.
func order(extra []Stratum) []string {
	list := []string{everywhere}
	for _, least := range homopolymers {
		list = append(list, homopolymerName(least))
	}
	list = append(list, outsideHP, tandem, outsideRepeats)
	for _, what := range []string{"insertion", "deletion"} {
		for _, bin := range []string{" 1", " 2-5", " 6-15", " >= 16"} {
			list = append(list, what+bin)
		}
	}
	list = append(list, "complex")
	for _, d := range slices.Backward(depths) {
		list = append(list, d.name)
	}
	for _, s := range extra {
		list = append(list, s.Name)
	}
	return list
}

// counts are the atoms of a stratum and kind.
type counts struct {
	TruthTP int `json:"truth_tp"` // of the truth, found
	TruthFN int `json:"truth_fn"` // of the truth, missed
	QueryTP int `json:"query_tp"` // of the query, right
	QueryFP int `json:"query_fp"` // of the query, wrong
}

func (c *counts) add(d counts) {
	c.TruthTP += d.TruthTP
	c.TruthFN += d.TruthFN
	c.QueryTP += d.QueryTP
	c.QueryFP += d.QueryFP
}

// times is the counts n times.
func (c counts) times(n int) counts {
	return counts{c.TruthTP * n, c.TruthFN * n, c.QueryTP * n, c.QueryFP * n}
}

// count counts one atom.
func (c *counts) count(sd side, right bool) {
	switch {
	case sd == truth && right:
		c.TruthTP++
	case sd == truth:
		c.TruthFN++
	case right:
		c.QueryTP++
	default:
		c.QueryFP++
	}
}

// row is a stratum and a kind.
type row struct {
	stratum string
	kind    Kind
}

// cell counts a row.
type cell struct {
	genotypes, alleles counts
	wrongGenotype      int // of QueryFP: right allele
	unresolved         int // of all errors
	unknown            int // of the query, not assessed
	unknownTruth       int
	replicates         []counts // of the primary counts
}

// tally adds up clusters.
type tally struct {
	opts      *Options
	known     bool // both sides have genotypes
	genotypes bool // they count
	cells     map[row]*cell
	random    *rand.Rand
	weights   []int

	zygosity Zygosity
	phasing  phasing
	events   eventTally
	scores   [kinds]map[float64]*point
	mixed    int // clusters in which one side is haploid and the other diploid
	clusters int
	given    int // clusters given up
}

func newTally(opts *Options, known bool) *tally {
	t := &tally{
		opts: opts, known: known, genotypes: known && !opts.Squash, cells: make(map[row]*cell),
		random: rand.New(rand.NewPCG(opts.Seed, 0x9e3779b97f4a7c15)), weights: make([]int, opts.Bootstrap),
	}
	for k := range t.scores {
		t.scores[k] = make(map[float64]*point)
		t.cell(row{everywhere, Kind(k)})
	}
	return t
}

func (t *tally) cell(r row) *cell {
	c := t.cells[r]
	if c == nil {
		c = &cell{replicates: make([]counts, t.opts.Bootstrap)}
		t.cells[r] = c
	}
	return c
}

// begin begins a contig.
func (t *tally) begin(*genome.Contig) { t.phasing.contig() }

// add counts a cluster that has its verdicts.
func (t *tally) add(cl *cluster, contig *genome.Contig) {
	t.clusters++
	touched := make(map[row]counts)
	givenUp := false
	ploidies := [3]bool{}
	for _, a := range cl.atoms {
		ploidies[a.ploidy] = true
		givenUp = givenUp || a.unresolved
		right := a.right(t.genotypes)
		for _, name := range a.strata(contig, t.opts.Strata) {
			r := row{name, a.kind}
			c := t.cell(r)
			if a.insideAllele {
				c.alleles.count(a.call.side, a.allele)
			}
			if a.inside {
				c.genotypes.count(a.call.side, a.matched)
			}
			if !a.assessed(t.genotypes) {
				if a.call.side == query {
					c.unknown++
				} else {
					c.unknownTruth++
				}
				continue
			}
			if a.unresolved && !right {
				c.unresolved++
			}
			if t.known && a.call.side == query && a.inside && !a.matched && a.allele {
				c.wrongGenotype++
			}
			n := touched[r]
			n.count(a.call.side, right)
			touched[r] = n
		}
	}
	if givenUp {
		t.given++
	}
	if ploidies[1] && ploidies[2] {
		t.mixed++
	}
	t.resample(touched)
	if t.genotypes {
		t.zygosity.add(cl)
		t.phasing.add(cl)
	}
	t.rank(cl)
}

// resample adds the cluster to each replicate as often as a draw from a Poisson distribution with mean 1 says: a
// bootstrap over clusters, since what is near to each other is right or wrong together, that needs no second pass.
func (t *tally) resample(touched map[row]counts) {
	if len(t.weights) == 0 || len(touched) == 0 {
		return
	}
	for b := range t.weights {
		t.weights[b] = poisson(t.random.Uint32())
	}
	for r, n := range touched { // each row is its own sum: the order does not matter
		replicates := t.cells[r].replicates
		for b, w := range t.weights {
			replicates[b].add(n.times(w))
		}
	}
}

// poissonBelow[k] is the probability of at most k events where one is expected, of 2^32.
var poissonBelow = [...]uint32{1580030169, 3160060337, 3950075421, 4213413783, 4279248373, 4292415291, 4294609777, 4294923275, 4294962463, 4294966817}

// poisson turns a uniform number into one of a Poisson distribution with mean 1.
func poisson(u uint32) int {
	for k, below := range poissonBelow {
		if u < below {
			return k
		}
	}
	return len(poissonBelow)
}

// Zygosity counts the query's genotype errors: right alleles with a wrong genotype.
type Zygosity struct {
	HetAsHom int `json:"het_as_hom"` // heterozygous in the truth, homozygous in the query
	HomAsHet int `json:"hom_as_het"`
	Other    int `json:"other"` // other ploidy, or neighbours on other haplotypes
}

// add counts the errors of a cluster, by the atoms of the truth that are spelled alike.
func (z *Zygosity) add(cl *cluster) {
	var known map[int][]*atom // of the truth, by their first places
	for _, a := range cl.atoms {
		if a.call.side != query || !a.inside || a.matched || !a.allele {
			continue
		}
		if known == nil {
			known = make(map[int][]*atom)
			for _, b := range cl.atoms {
				if b.call.side == truth {
					known[b.from] = append(known[b.from], b)
				}
			}
		}
		alike := slices.ContainsFunc(known[a.from], func(b *atom) bool {
			return b.ploidy == a.ploidy && a.sameAllele(b) && b.het() != a.het()
		})
		switch {
		case !alike:
			z.Other++
		case a.het():
			z.HomAsHet++
		default:
			z.HetAsHom++
		}
	}
}

// sameAllele reports whether two atoms spell the same change of the reference.
func (a *atom) sameAllele(b *atom) bool {
	if a.from != b.from || a.end-a.start != b.end-b.start || len(a.alt) != len(b.alt) {
		return false
	}
	if a.start != a.end || a.alt == "" {
		return a.alt == b.alt
	}
	rotated := func(x *atom) string { // the insertion as it is written at its first place
		k := (x.start - x.from) % len(x.alt)
		return x.alt[len(x.alt)-k:] + x.alt[:len(x.alt)-k]
	}
	return rotated(a) == rotated(b)
}

// result turns counts into figures.
func (t *tally) result() *Result {
	r := &Result{
		Genotypes: t.genotypes, Zygosity: t.zygosity, Phasing: t.phasing.result(),
		Clusters: t.clusters, GivenUp: t.given, MixedPloidy: t.mixed,
		ROC: t.roc(),
	}
	r.Events, r.Neighbours = t.events.result()
	names := order(t.opts.Strata)
	for _, name := range names {
		var both *cell
		for k := range Kind(kinds) {
			c := t.cells[row{name, k}]
			if c == nil {
				continue
			}
			r.Rows = append(r.Rows, t.figures(name, k.String(), c))
			if name == everywhere {
				if both == nil {
					both = &cell{replicates: make([]counts, t.opts.Bootstrap)}
				}
				both.merge(c)
			}
		}
		if both != nil {
			r.Rows = append(r.Rows, t.figures(name, "ALL", both))
		}
	}
	return r
}

func (c *cell) merge(d *cell) {
	c.genotypes.add(d.genotypes)
	c.alleles.add(d.alleles)
	c.wrongGenotype += d.wrongGenotype
	c.unresolved += d.unresolved
	c.unknown += d.unknown
	c.unknownTruth += d.unknownTruth
	for b := range c.replicates {
		c.replicates[b].add(d.replicates[b])
	}
}

// figures are a row's.
func (t *tally) figures(stratum, kind string, c *cell) Row {
	r := Row{
		Stratum: stratum, Kind: kind,
		Alleles: figuresOf(c.alleles), WrongGenotype: c.wrongGenotype, Unresolved: c.unresolved,
		NotAssessed: c.unknown, TruthNotAssessed: c.unknownTruth,
	}
	primary := &r.Alleles
	if t.genotypes {
		f := figuresOf(c.genotypes)
		r.Genotypes, primary = &f, &f
	}
	primary.RecallInterval = interval(c.replicates, counts.recall)
	primary.PrecisionInterval = interval(c.replicates, counts.precision)
	primary.F1Interval = interval(c.replicates, counts.f1)
	return r
}

// ratio is a share; nil without anything to share.
func ratio(n, of int) *float64 {
	if of == 0 {
		return nil
	}
	v := float64(n) / float64(of)
	return &v
}

func (c counts) recall() *float64    { return ratio(c.TruthTP, c.TruthTP+c.TruthFN) }
func (c counts) precision() *float64 { return ratio(c.QueryTP, c.QueryTP+c.QueryFP) }

// f1 is the harmonic mean of precision and recall; it is 0 if there is something to find or something was called and
// nothing is right, and nil if there is neither, or no recall: of strata by depth, since truth sets seldom have one.
func (c counts) f1() *float64 {
	r, p := c.recall(), c.precision()
	zero := 0.0
	switch {
	case r == nil && (p == nil || c.QueryTP > 0):
		return nil
	case r == nil || p == nil || *r+*p == 0:
		return &zero
	}
	v := 2 * *r * *p / (*r + *p)
	return &v
}

func figuresOf(c counts) Figures {
	return Figures{counts: c, Recall: c.recall(), Precision: c.precision(), F1: c.f1()}
}

// interval is the central 95 % of a figure over the replicates that have it.
func interval(replicates []counts, figure func(counts) *float64) *[2]float64 {
	var values []float64
	for _, c := range replicates {
		if v := figure(c); v != nil {
			values = append(values, *v)
		}
	}
	if len(values) < 40 { // fewer have no 2.5 % on each side
		return nil
	}
	slices.SortFunc(values, cmp.Compare[float64])
	at := func(q float64) float64 { return values[min(len(values)-1, int(q*float64(len(values))))] }
	return &[2]float64{at(0.025), at(0.975)}
}
