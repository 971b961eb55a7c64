package variant

import (
	"cmp"
	"math"
	"slices"
)

// ranking is the haplotypes of a cluster, and what reads say of them.
type ranking struct {
	haplotypes [][]candidate // the first is the reference
	nests      []int         // number of the nest that a haplotype is; 0: of none
	rows       []int         // that span the cluster
	costs      [][]int32     // of each of them under each haplotype, over the least
	kept       []int         // haplotypes that the sample has
}

// rank finds which haplotypes reads of a cluster say are theirs: of nests, and of the other
// combinations of the alleles in it. Of a haploid sample it is the one that all fit best, of a
// diploid one the likeliest two, and of a mixture those that enough reads fit best.
func (r *Region) rank(p *proposals, first *contest) *ranking {
	m, cluster := p.m, p.cluster
	of := &ranking{haplotypes: [][]candidate{nil}, nests: []int{0}}
	reaching := p.nests
	if len(reaching) == 0 {
		reaching = cluster
	}
	lo, hi := reaching[0].start, reaching[0].end
	for i := range reaching {
		lo, hi = min(lo, reaching[i].start), max(hi, reaching[i].end)
	}
	for i := range p.nests {
		if p.nests[i].level == 0 {
			of.haplotypes, of.nests = append(of.haplotypes, p.nests[i:i+1]), append(of.nests, p.nests[i].nest)
		}
	}
	lo, hi = max(lo-flank, m.lo), min(hi+flank, m.hi)
	other := func(alleles []candidate) { // what lies farther away is the same with each
		alleles = slices.DeleteFunc(slices.Clone(alleles), func(c candidate) bool { return c.start < lo || c.end > hi })
		of.haplotypes, of.nests = append(of.haplotypes, alleles), append(of.nests, 0)
	}
	if first == nil {
		other(cluster)
	} else {
		for h := range first.haplotypes.sets {
			if slices.Contains(first.closest, h) {
				other(first.haplotypes.members(cluster, h))
			}
		}
	}
	g := &r.work.aligner
	g.begin(p.model)
	for _, h := range of.haplotypes {
		g.add(spell(r.contig.Seq, lo, hi, h))
	}
	for i := range m.rows {
		if w := &m.rows[i]; g.setQuery(w, lo-m.lo, hi-m.lo) {
			costs := slices.Clone(g.align(w.seg.reverse))
			least := slices.Min(costs)
			for h := range costs {
				costs[h] = min(costs[h]-least, maxRegret)
			}
			of.rows, of.costs = append(of.rows, i), append(of.costs, costs)
		}
	}
	of.keep(r, cluster[0].pos, cluster[0].ploidy)
	return of
}

// keep sets which haplotypes the sample has.
func (of *ranking) keep(r *Region, pos int, ploidy Ploidy) {
	likelihoods := make([][]float64, len(of.rows)) // over the greatest
	for i, costs := range of.costs {
		likelihoods[i] = make([]float64, len(costs))
		for h, cost := range costs {
			likelihoods[i][h] = math.Exp(-float64(cost) / 1000 * math.Ln10 / 10)
		}
	}
	best := math.Inf(-1)
	for a := range of.haplotypes {
		if ploidy == Mixture {
			n := int32(0)
			for _, costs := range of.costs {
				if costs[a] == 0 {
					n++
				}
			}
			if n >= minSupport && r.enough(pos, n, int32(len(of.rows))) {
				of.kept = append(of.kept, a)
			}
			continue
		}
		for b := a; b < len(of.haplotypes) && (ploidy == Diploid || b == a); b++ {
			sum := 0.0
			for _, l := range likelihoods {
				sum += math.Log(float64(l[a]+l[b]) / 2)
			}
			sum -= costOf(of.haplotypes[a])
			if b != a {
				sum -= costOf(of.haplotypes[b])
			}
			if sum > best {
				best, of.kept = sum, []int{a, b}
			}
		}
	}
}

// closest are the rows that fit each of the haplotypes which are kept better than the others.
func (of *ranking) closest() [][]int {
	out := make([][]int, len(of.kept))
	for i, costs := range of.costs {
		best := 0
		tie := false
		for k, h := range of.kept[1:] {
			switch than := of.kept[best]; {
			case h == than:
			case costs[h] < costs[than]:
				best, tie = k+1, false
			case costs[h] == costs[than]:
				tie = true
			}
		}
		if !tie {
			out[best] = append(out[best], of.rows[i])
		}
	}
	return out
}

// choose keeps of nests those that are haplotypes of the sample.
//
// Where the two haplotypes of a diploid sample have changes in common, and others not, the changes are
// what differs in copies: choose then returns these, those that touch as one (apart). Where that can't be,
// each haplotype's event stays whole. So does that of a haplotype of which only single alleles are known,
// where it excludes another's.
//
// sole is then the nest that more reads have, to compete once more without the other: one that is an
// error that reads of the first share is not to make that heterozygous.
func (r *Region) choose(m *matrix, model *errorModel, nests []candidate, of *ranking) (found, sole []candidate) {
	var numbers []int
	for _, h := range of.kept {
		numbers = append(numbers, of.nests[h])
	}
	if nests[0].ploidy == Diploid {
		x, y := changesOf(of.haplotypes[of.kept[0]]), changesOf(of.haplotypes[of.kept[1]])
		all, common := shared(x, y)
		mixed := common > 0 && common < len(all)
		if mixed {
			if apart := r.apart(m, model, all, x, y); len(apart) > 0 {
				return apart, nil
			}
		}
		nests = slices.Clip(nests)
		rows := of.closest()
		for k, alleles := range [][]candidate{of.haplotypes[of.kept[0]], of.haplotypes[of.kept[1]]} {
			excluded := func(c candidate) bool { // on the other one
				return c.nest == numbers[1-k] && c.level == 0 && slices.ContainsFunc(alleles, func(o candidate) bool { return o.conflicts(&c) })
			}
			if numbers[k] > 0 || len(alleles) == 0 || !mixed && (numbers[1-k] == 0 || !slices.ContainsFunc(nests, excluded)) {
				continue
			}
			if nest := r.nestOf(m, model, changesOf(alleles), rows[k], Diploid, nests[len(nests)-1].nest+1); len(nest) > 0 {
				nests, numbers[k] = append(nests, nest...), nest[0].nest
			}
		}
		if mixed {
			most := numbers[0]
			if len(rows[1]) > len(rows[0]) {
				most = numbers[1]
			}
			if p := m.strandsDiffer(rows[0], rows[1]); most > 0 && p > maxSplitStrandPhred {
				return slices.DeleteFunc(nests, func(c candidate) bool { return c.nest != most }), nil
			}
			for _, c := range nests {
				if c.nest == most {
					sole = append(sole, c)
				}
			}
		}
	}
	return slices.DeleteFunc(nests, func(c candidate) bool { return !slices.Contains(numbers, c.nest) }), sole
}

// strandsDiffer is the Phred-scaled probability that two sets of rows of one sample differ so much in
// their strands: what the reads of one strand share is an error of theirs, and no haplotype.
func (m *matrix) strandsDiffer(a, b []int) float64 {
	var c candidate
	for _, row := range a {
		c.altReads[strandIndex(m.rows[row].seg.reverse)]++
	}
	for _, row := range b {
		c.refReads[strandIndex(m.rows[row].seg.reverse)]++
	}
	return strandPhred(&c)
}

// nestOf is the changes of a haplotype, which rows have, as one allele, whatever they say of each of
// them, and the alleles without its doubtful changes, by the given number.
func (r *Region) nestOf(m *matrix, model *errorModel, changes []candidate, rows []int, ploidy Ploidy, number int) []candidate {
	weakest, _ := r.weakest(m, model, changes, rows)
	c, ok := r.join(changes, weakest, 0)
	if !ok || !r.put(m, model, &c) {
		return nil
	}
	less := r.prune(m, model, slices.Delete(slices.Clone(changes), weakest, weakest+1), rows)
	return r.numbered(m, model, append([]candidate{c}, less...), ploidy, number)
}

// numbered are the alleles of a nest, the first of which has been put to the reads, with its number and the
// ploidy of its cluster; others that can't be put to the reads are left out.
func (r *Region) numbered(m *matrix, model *errorModel, nest []candidate, ploidy Ploidy, number int) (out []candidate) {
	for i := range nest {
		c := &nest[i]
		c.ploidy, c.nest, c.level = ploidy, number, i
		if i == 0 || r.put(m, model, c) {
			out = append(out, *c)
		}
	}
	return out
}

// touchReach is how many bases may lie between changes that are one event in any case.
const touchReach = 2

// apart are all the changes of two haplotypes x and y, those that touch as one, or nothing if
// that is not what differs in copies: one that is on both touches one that isn't. Substitutions that
// one haplotype has besides those of the other are each an event.
func (r *Region) apart(m *matrix, model *errorModel, all, x, y []candidate) (out []candidate) {
	add := func(changes []candidate) bool {
		c := changes[0]
		if len(changes) > 1 {
			weakest, _ := r.weakest(m, model, changes, nil)
			var ok bool
			if c, ok = r.join(changes, weakest, 0); !ok {
				return false
			}
			c.ploidy = changes[0].ploidy
		}
		if !r.put(m, model, &c) {
			return false
		}
		out = append(out, c)
		return true
	}
	for len(all) > 0 {
		n, end := 1, all[0].end
		for n < len(all) && all[n].start-end < touchReach {
			end = max(end, all[n].end)
			n++
		}
		group := all[:n]
		all = all[n:]
		mixed, substitutions, within := false, true, [2]bool{true, true}
		for i := range group {
			c := &group[i]
			inX, inY := c.among(x), c.among(y)
			mixed = mixed || inX != group[0].among(x) || inY != group[0].among(y)
			substitutions = substitutions && !c.indel
			within[0], within[1] = within[0] && inX, within[1] && inY
		}
		switch {
		case !mixed:
			if !add(group) {
				return nil
			}
		case substitutions && (within[0] || within[1]):
			for i := range group {
				if !add(group[i : i+1]) {
					return nil
				}
			}
		default:
			return nil
		}
	}
	return out
}

// shared are all the changes of two haplotypes, by position, and how many of them both have.
func shared(x, y []candidate) (all []candidate, common int) {
	all = slices.Clone(x)
	for _, c := range y {
		if !c.among(x) {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to), a.compare(&b))
	})
	return all, len(x) + len(y) - len(all)
}
