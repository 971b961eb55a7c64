package simulate

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"

	"github.com/porestream/porestream/genome"
)

// minRun and minTandem are the fewest bases of a homopolymer and of a tandem repeat in
// which copies are gained and lost.
const (
	minRun    = 4
	minTandem = 8
)

// maxUnit is the longest unit of a tandem repeat.
const maxUnit = 6

// longestMNP is the most bases of an MNP, longestShorter that of a delins's shorter side,
// and maxLengthChange how much longer the other one is at most.
const (
	longestMNP      = 5
	longestShorter  = 5
	maxLengthChange = 15
)

// mostBetween is the most bases between neighbours.
const mostBetween = 10

// Plant draws variants. Sites are apart from each other by at least a base, including
// all bases to which an insertion or deletion could be moved, so that each is right
// whatever its neighbours are; the two of a pair of [Spec.Neighbours] are so from all others.
// The result is in the order of the reference.
func Plant(g *genome.Genome, spec Spec, ploidy int, seed uint64) ([]Site, error) {
	if ploidy < 1 || ploidy > 2 {
		return nil, fmt.Errorf("planting variants: ploidy %d, want 1 or 2", ploidy)
	}
	rnd, _ := newRand(seed, plantStream, 0)
	p := &planter{spec: spec, ploidy: ploidy, rnd: rnd, taken: make(map[*genome.Contig][]uint64)}
	total, bases := 0, 0
	for _, c := range g.Contigs {
		for _, b := range c.Seq {
			if code[b] < 4 {
				bases++
			}
		}
		total += len(c.Seq)
		p.contigs = append(p.contigs, c)
		p.ends = append(p.ends, total)
		p.taken[c] = make([]uint64, (len(c.Seq)+63)/64)
	}
	if bases == 0 {
		return nil, errors.New("planting variants: the reference has no base A, C, G or T")
	}
	// Variants that need more space come first.
	indels := spec.Indels.of(bases)
	sites := make([]Site, 0, indels+spec.SNPs.of(bases))
	for range indels {
		s, ok := p.first(alone(p.indelKind()), alone(p.other))
		if !ok {
			return nil, fmt.Errorf("planting variants: no space for %d indels in %d bases", indels, bases)
		}
		sites = append(sites, s...)
	}
	pairs := spec.Neighbours.of(bases)
	for range pairs {
		draw := p.besides(p.indelKind())
		if rnd.IntN(4) == 0 {
			draw = p.indelsInRepeat
		}
		s, ok := p.first(draw, p.besides(p.other))
		if !ok {
			return nil, fmt.Errorf("planting variants: no space for %d pairs of neighbours in %d bases", pairs, bases)
		}
		sites = append(sites, s...)
	}
	for _, kind := range []struct {
		what   string
		amount Amount
		draw   drawing
	}{
		{"delins", spec.Delins, alone(p.delins)}, {"MNPs", spec.MNPs, alone(p.mnp)}, {"SNPs", spec.SNPs, alone(p.snp)},
	} {
		n := kind.amount.of(bases)
		for range n {
			s, ok := p.try(kind.draw)
			if !ok {
				return nil, fmt.Errorf("planting variants: no space for %d %s in %d bases", n, kind.what, bases)
			}
			sites = append(sites, s...)
		}
	}
	sortSites(g.Contigs, sites)
	return sites, nil
}

// planter draws variants one by one.
type planter struct {
	spec    Spec
	ploidy  int
	rnd     *rand.Rand
	contigs []*genome.Contig
	ends    []int // of the contigs, end to end
	taken   map[*genome.Contig][]uint64
}

// drawing draws variants at a position that belong together, in their order, and the position
// behind the last base that they take; false if there can be none.
type drawing func(c *genome.Contig, at int) ([]Site, int, bool)

// alone is the drawing of one variant.
func alone(draw func(c *genome.Contig, at int) (Site, int, bool)) drawing {
	return func(c *genome.Contig, at int) ([]Site, int, bool) {
		s, end, ok := draw(c, at)
		return []Site{s}, end, ok
	}
}

// indelKind draws what an indel is to be: copies of a repeat, or anything.
func (p *planter) indelKind() func(c *genome.Contig, at int) (Site, int, bool) {
	switch x := p.rnd.Float64(); {
	case x < p.spec.Homopolymers:
		return p.homopolymer
	case x < p.spec.Homopolymers+p.spec.Tandems:
		return p.tandem
	}
	return p.other
}

// first draws what is wanted, or else, in a reference without such repeats, another thing.
func (p *planter) first(wanted, otherwise drawing) ([]Site, bool) {
	if s, ok := p.try(wanted); ok {
		return s, true
	}
	return p.try(otherwise)
}

// try draws until there are variants at free places.
func (p *planter) try(draw drawing) ([]Site, bool) {
	// Most draws of rare kinds are in vain: one of 10,000 bases is enough of a long
	// repeat.
	for range 1_000_000 {
		at := p.rnd.IntN(p.ends[len(p.ends)-1])
		i := sort.SearchInts(p.ends, at+1)
		c := p.contigs[i]
		if i > 0 {
			at -= p.ends[i-1]
		}
		if code[c.Seq[at]] > 3 {
			continue
		}
		sites, end, ok := draw(c, at)
		if ok && p.take(c, sites[0].Start, end) {
			for i := range sites {
				sites[i].Contig = c.Name
			}
			return sites, true
		}
	}
	return nil, false
}

// take reserves the bases of a variant, from start to before end, with one on either
// side.
func (p *planter) take(c *genome.Contig, start, end int) bool {
	if start < 1 || end > len(c.Seq)-1 {
		return false
	}
	taken := p.taken[c]
	for i := start - 1; i <= end; i++ {
		if taken[i/64]>>(i%64)&1 != 0 || code[c.Seq[i]] > 3 {
			return false
		}
	}
	for i := start; i < end; i++ {
		taken[i/64] |= 1 << (i % 64)
	}
	return true
}

// genotype draws the alleles of a site with one alternate allele.
func (p *planter) genotype() []uint8 {
	if p.ploidy == 1 {
		return []uint8{1}
	}
	switch {
	case p.rnd.Float64() >= p.spec.Het:
		return []uint8{1, 1}
	case p.rnd.IntN(2) == 0:
		return []uint8{1, 0}
	}
	return []uint8{0, 1}
}

// two draws the alleles of a site with two alternate alleles.
func (p *planter) two() []uint8 {
	if p.rnd.IntN(2) == 0 {
		return []uint8{1, 2}
	}
	return []uint8{2, 1}
}

func (p *planter) snp(c *genome.Contig, at int) (Site, int, bool) {
	ref := code[c.Seq[at]]
	s := Site{Start: at, Ref: string(letters[ref])}
	transition, others := exchanges(ref)
	alt := p.substitute(ref)
	s.Alts, s.Genotype = []string{string(letters[alt])}, p.genotype()
	if p.ploidy == 2 && p.rnd.Float64() < p.spec.MultiAllelic/10 {
		second := transition
		if alt == transition {
			second = others[p.rnd.IntN(2)]
		}
		s.Alts, s.Genotype = append(s.Alts, string(letters[second])), p.two()
	}
	return s, at + 1, true
}

// exchanges returns the codes of a base's transition and of its transversions.
func exchanges(base byte) (transition byte, transversions [2]byte) {
	return base ^ 2, [2]byte{(base + 1) & 3, (base + 3) & 3} // A and G, C and T
}

// substitute draws the code of the base that another one becomes.
func (p *planter) substitute(base byte) byte {
	transition, others := exchanges(base)
	if p.rnd.Float64()*(1+p.spec.TransitionRatio) >= p.spec.TransitionRatio {
		return others[p.rnd.IntN(2)]
	}
	return transition
}

// geometric draws a number from least to most, each half as often as the one before.
func (p *planter) geometric(least, most int) int {
	n := least
	for n < most && p.rnd.IntN(2) == 0 {
		n++
	}
	return n
}

// stretchAt returns the n bases from a position on; false if they aren't all known.
func stretchAt(c *genome.Contig, at, n int) (string, bool) {
	if at < 0 || at+n > len(c.Seq) {
		return "", false
	}
	for _, b := range c.Seq[at : at+n] {
		if code[b] > 3 {
			return "", false
		}
	}
	return string(c.Seq[at : at+n]), true
}

// mnp replaces bases in a row, each by another one: mostly two.
func (p *planter) mnp(c *genome.Contig, at int) (Site, int, bool) {
	ref, ok := stretchAt(c, at, p.geometric(2, longestMNP))
	if !ok {
		return Site{}, 0, false
	}
	alt := make([]byte, len(ref))
	for i := range alt {
		alt[i] = letters[p.substitute(code[ref[i]])]
	}
	return Site{Start: at, Ref: ref, Alts: []string{string(alt)}, Genotype: p.genotype()}, at + len(ref), true
}

// delins replaces bases by more or fewer ones, which begin and end with other bases than
// those. Half of the differences in length are those of indels, half are all as likely.
func (p *planter) delins(c *genome.Contig, at int) (Site, int, bool) {
	most := min(maxLengthChange, p.spec.MaxLength)
	lengthChange := 1 + p.rnd.IntN(most)
	if p.rnd.IntN(2) == 0 {
		lengthChange = min(most, p.length())
	}
	removed := p.geometric(1, longestShorter)
	inserted := removed + lengthChange
	if p.rnd.IntN(2) == 0 {
		removed, inserted = inserted, removed
	}
	ref, ok := stretchAt(c, at, removed)
	if !ok {
		return Site{}, 0, false
	}
	alt := p.bases(inserted)
	for alt[0] == ref[0] || alt[inserted-1] == ref[removed-1] {
		alt = p.bases(inserted)
	}
	return Site{Start: at, Ref: ref, Alts: []string{alt}, Genotype: p.genotype()}, at + removed, true
}

// bases draws a sequence.
func (p *planter) bases(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[p.rnd.IntN(4)]
	}
	return string(b)
}

// besides draws a SNP on either side of an indel.
func (p *planter) besides(draw func(c *genome.Contig, at int) (Site, int, bool)) drawing {
	return func(c *genome.Contig, at int) ([]Site, int, bool) {
		indel, end, ok := draw(c, at)
		if !ok {
			return nil, 0, false
		}
		between := 1 + p.rnd.IntN(mostBetween)
		before := p.rnd.IntN(2) == 0
		place := indel.end() + between // which may lie in the repeat that the indel is in
		if before {
			place = indel.Start - between // the base before the indel is one of those between
		}
		if _, known := stretchAt(c, place, 1); !known {
			return nil, 0, false
		}
		snp, _, _ := p.snp(c, place)
		if before {
			return pair(c, snp, indel, end)
		}
		return pair(c, indel, snp, max(end, place+1))
	}
}

// indelsInRepeat draws two short indels within one repeat, with unchanged bases between them.
func (p *planter) indelsInRepeat(c *genome.Contig, at int) ([]Site, int, bool) {
	unit := 1 + p.rnd.IntN(maxUnit)
	start, end := repeatAt(c.Seq, at, unit)
	if end-start < max(minTandem, 2*unit+unit/2) {
		return nil, 0, false
	}
	first, reach, ok := p.short(c, start+p.rnd.IntN(end-start))
	if !ok {
		return nil, 0, false
	}
	second, reach2, ok := p.short(c, first.end()+1+p.rnd.IntN(mostBetween))
	if !ok || second.Start < first.end() || second.end() > end {
		return nil, 0, false
	}
	return pair(c, first, second, max(reach, reach2))
}

// short draws an indel of 1 to 3 bases.
func (p *planter) short(c *genome.Contig, at int) (Site, int, bool) {
	n := p.geometric(1, 3)
	e := edit{start: at, end: at + n}
	if p.rnd.IntN(2) == 0 {
		e = edit{start: at, end: at, alt: p.bases(n)}
	}
	if e.end >= len(c.Seq) {
		return Site{}, 0, false
	}
	return p.indel(c, e)
}

// pair returns two neighbours; false if together, on one haplotype, they are a simpler event: one
// indel, or no more than two replaced bases.
func pair(c *genome.Contig, a, b Site, end int) ([]Site, int, bool) {
	from, to := a.Start, b.end()
	copies, err := Haplotypes(&genome.Contig{Name: c.Name, Seq: c.Seq[from:to]}, []Site{
		{Start: 0, Ref: a.Ref, Alts: a.Alts[:1], Genotype: []uint8{1}},
		{Start: b.Start - from, Ref: b.Ref, Alts: b.Alts[:1], Genotype: []uint8{1}},
	}, 1)
	if err != nil {
		return nil, 0, false
	}
	together := trim(0, string(c.Seq[from:to]), string(copies[0].Seq))
	ref := string(c.Seq[from+together.start : from+together.end])
	if ref == "" || together.alt == "" {
		return nil, 0, false
	}
	if len(ref) == len(together.alt) {
		differ := 0
		for i := range ref {
			if ref[i] != together.alt[i] {
				differ++
			}
		}
		if differ <= 2 {
			return nil, 0, false
		}
	}
	return []Site{a, b}, end, true
}

// homopolymer changes the length of the homopolymer at a position. Long ones change
// more often: up to 16 bases the rate per base grows with the square of their length.
func (p *planter) homopolymer(c *genome.Contig, at int) (Site, int, bool) {
	start, end := repeatAt(c.Seq, at, 1)
	if end-start < minRun || !p.accept(float64(end-start-minRun+1)/(16-minRun+1)) {
		return Site{}, 0, false
	}
	return p.copies(c, start, end, 1)
}

// tandem changes the number of copies of the tandem repeat at a position.
func (p *planter) tandem(c *genome.Contig, at int) (Site, int, bool) {
	for unit := 2; unit <= maxUnit; unit++ {
		start, end := repeatAt(c.Seq, at, unit)
		if end-start < max(minTandem, 2*unit+unit/2) {
			continue
		}
		if whole, stop := repeatAt(c.Seq, at, 1); stop-whole >= unit {
			return Site{}, 0, false // a homopolymer
		}
		if !p.accept(float64(end-start-minTandem+2) / 24) {
			return Site{}, 0, false
		}
		return p.copies(c, start, end, unit)
	}
	return Site{}, 0, false
}

// accept keeps a draw with the square of a share.
func (p *planter) accept(share float64) bool {
	return p.rnd.Float64() < min(1, share*share)
}

// repeatAt returns the bounds of the longest stretch around a position in which each
// base is the same as the one a unit before it.
func repeatAt(seq []byte, at, unit int) (start, end int) {
	start, end = at, min(at+unit, len(seq))
	for start > 0 && start-1+unit < len(seq) && seq[start-1] == seq[start-1+unit] && code[seq[start-1]] < 4 {
		start--
	}
	for end < len(seq) && seq[end] == seq[end-unit] && code[seq[end]] < 4 {
		end++
	}
	return start, end
}

// copies changes the number of copies of a unit in the repeat from start to end.
func (p *planter) copies(c *genome.Contig, start, end, unit int) (Site, int, bool) {
	if start < 1 {
		return Site{}, 0, false
	}
	change, ok := p.change((end-start)/unit, unit)
	if !ok {
		return Site{}, 0, false
	}
	changes := []int{change}
	genotype := p.genotype()
	if p.ploidy == 2 && p.rnd.Float64() < p.spec.MultiAllelic {
		if second, ok := p.change((end-start)/unit, unit); ok && second != change {
			changes, genotype = append(changes, second), p.two()
		}
	}
	copy1 := string(c.Seq[start : start+unit])
	lost := max(0, -slices.Min(changes))
	s := Site{Start: start - 1, Ref: string(c.Seq[start-1 : start+lost*unit]), Genotype: genotype}
	for _, change := range changes {
		s.Alts = append(s.Alts, s.Ref[:1]+strings.Repeat(copy1, lost+change))
	}
	return s, end, true
}

// change draws how many copies of a repeat are gained or lost: mostly one.
func (p *planter) change(copies, unit int) (int, bool) {
	n := 1
	for p.rnd.Float64() < 0.22 {
		n++
	}
	if n*unit > p.spec.MaxLength {
		return 0, false
	}
	if p.rnd.IntN(2) == 0 {
		return n, true
	}
	return -n, n < copies
}

// other inserts or deletes bases anywhere. Lengths follow a power law, and half of the
// insertions repeat what stands before them, as in human genomes.
func (p *planter) other(c *genome.Contig, at int) (Site, int, bool) {
	n := p.length()
	if at < 1 || at+n >= len(c.Seq) {
		return Site{}, 0, false
	}
	e := edit{start: at, end: at + n}
	if p.rnd.IntN(2) == 0 {
		e.end = at
		switch {
		case p.rnd.IntN(2) == 0 && at >= n:
			e.alt = string(c.Seq[at-n : at])
		default:
			e.alt = p.bases(n)
		}
	}
	return p.indel(c, e)
}

// indel is the site of an insertion or deletion, left-aligned, and how far it could be moved.
func (p *planter) indel(c *genome.Contig, e edit) (Site, int, bool) {
	for _, b := range []byte(e.alt) {
		if code[b] > 3 {
			return Site{}, 0, false
		}
	}
	e = e.shiftLeft(c.Seq)
	if e.start < 1 {
		return Site{}, 0, false
	}
	anchor := string(c.Seq[e.start-1])
	s := Site{Start: e.start - 1, Ref: string(c.Seq[e.start-1 : e.end]), Alts: []string{anchor + e.alt}, Genotype: p.genotype()}
	return s, e.reach(c.Seq), true
}

// length draws the length of an indel outside of repeats.
func (p *planter) length() int {
	// The inverse of the distribution function of a Pareto distribution whose density
	// falls with the power 1.7, cut off.
	const power = 0.7
	most := float64(p.spec.MaxLength) + 1
	u := float64(p.rnd.Float64() * (1 - math.Pow(most, -power)))
	return min(p.spec.MaxLength, int(math.Pow(1-u, -1/power)))
}
