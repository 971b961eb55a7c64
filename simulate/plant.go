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

// Plant draws variants. Sites are apart from each other by at least a base, including
// all bases to which an insertion or deletion could be moved, so that each is right
// whatever its neighbours are. The result is in the order of the reference.
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
	// Indels first: they need more room.
	indels, snps := spec.Indels.of(bases), spec.SNPs.of(bases)
	sites := make([]Site, 0, indels+snps)
	for range indels {
		draw := p.other
		switch x := rnd.Float64(); {
		case x < spec.Homopolymers:
			draw = p.homopolymer
		case x < spec.Homopolymers+spec.Tandems:
			draw = p.tandem
		}
		s, ok := p.try(draw)
		if !ok {
			s, ok = p.try(p.other) // a reference without repeats
		}
		if !ok {
			return nil, fmt.Errorf("planting variants: no room for %d indels in %d bases", indels, bases)
		}
		sites = append(sites, s)
	}
	for range snps {
		s, ok := p.try(p.snp)
		if !ok {
			return nil, fmt.Errorf("planting variants: no room for %d SNPs in %d bases", snps, bases)
		}
		sites = append(sites, s)
	}
	sortSites(g, sites)
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

// try draws until there is a variant where there is room.
func (p *planter) try(draw func(c *genome.Contig, at int) (Site, int, bool)) (Site, bool) {
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
		s, end, ok := draw(c, at)
		if ok && p.take(c, s.Start, end) {
			s.Contig = c.Name
			return s, true
		}
	}
	return Site{}, false
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
	transition := ref ^ 2 // A and G, C and T
	others := []byte{(ref + 1) & 3, (ref + 3) & 3}
	alt := transition
	if p.rnd.Float64()*(1+p.spec.TransitionRatio) >= p.spec.TransitionRatio {
		alt = others[p.rnd.IntN(2)]
	}
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
			alt := make([]byte, n)
			for i := range alt {
				alt[i] = letters[p.rnd.IntN(4)]
			}
			e.alt = string(alt)
		}
	}
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
	u := p.rnd.Float64() * (1 - math.Pow(most, -power))
	return min(p.spec.MaxLength, int(math.Pow(1-u, -1/power)))
}
