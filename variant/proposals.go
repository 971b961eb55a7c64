package variant

import (
	"cmp"
	"slices"
)

// proposals are the alleles, complex or not, that reads of a cluster have and that aren't in it yet.
type proposals struct {
	r       *Region
	m       *matrix
	model   *errorModel
	cluster []candidate
	lo, hi  int // what a consensus takes in
	nests   []candidate
	count   int      // of nests
	split   [][]byte // haplotypes that proposeSplits proposed, as codes
}

// proposeComplex lists them; nil if the cluster is too wide for a consensus.
func (r *Region) proposeComplex(m *matrix, model *errorModel, cluster []candidate, first *contest) *proposals {
	p := &proposals{r: r, m: m, model: model, cluster: cluster, lo: cluster[0].start, hi: cluster[0].end}
	for i := range cluster {
		p.lo, p.hi = min(p.lo, cluster[i].start), max(p.hi, cluster[i].end)
	}
	p.lo, p.hi = max(p.lo-consensusFlank, m.lo), min(p.hi+consensusFlank, m.hi)
	if p.hi-p.lo > maxWindow {
		r.bounds.Wide++
		return nil
	}
	if hasAmbiguity(r.contig.Seq[p.lo:p.hi]) {
		return nil
	}
	ref := m.ref[p.lo-m.lo : p.hi-m.lo]
	for _, g := range r.alike(cluster, first) {
		_, seqs := p.bases(g.rows)
		if len(seqs) < minSupport {
			continue
		}
		haplotypes := [2][]byte{r.codes(p.lo, p.hi, g.alleles)}
		haplotypes[1] = r.work.voter.refine(haplotypes[0], seqs)
		if slices.Equal(haplotypes[0], haplotypes[1]) {
			haplotypes[1] = ref
		}
		for _, h := range haplotypes {
			p.add(h, nil, maxComplex)
		}
	}
	return p
}

// bases are the first of some rows that span what a consensus takes in, and their bases, as codes.
func (p *proposals) bases(rows []int) (spanning []int, seqs [][]byte) {
	g := &p.r.work.aligner
	for _, row := range rows {
		if len(seqs) < maxConsensusReads && g.setQuery(&p.m.rows[row], p.lo-p.m.lo, p.hi-p.m.lo) {
			spanning, seqs = append(spanning, row), append(seqs, slices.Clone(g.query))
		}
	}
	return spanning, seqs
}

// add proposes what a haplotype, as codes, has otherwise than the reference, if there are
// fewer than most proposals; rows are those that have it, if that is known. It reports whether there is anything new.
func (p *proposals) add(haplotype []byte, rows []int, most int) (added bool) {
	r, ploidy := p.r, p.cluster[0].ploidy
	for _, parts := range r.spelled(p.m, p.model, p.lo, p.m.ref[p.lo-p.m.lo:p.hi-p.m.lo], haplotype) {
		if p.count >= most || len(parts) > maxComplexParts {
			r.bounds.Proposals++
			continue
		}
		nest := r.prune(p.m, p.model, parts, rows)
		if len(nest) == 0 || nest[0].start <= p.lo || nest[0].end >= p.hi {
			continue
		}
		c := &nest[0]
		if !c.isComplex() && (ploidy != Haploid || c.among(p.cluster)) || c.among(p.nests) || !r.likely(p.m, p.model, c) {
			continue
		}
		p.count++
		p.nests, added = append(p.nests, r.numbered(p.m, p.model, nest, ploidy, p.count)...), true
	}
	return added
}

// proposeSplits proposes the consensus of the reads that fit each of the haplotypes best which the
// sample seems to have, and of the two parts of these in which what differs from it most often is
// there and isn't. It reports whether there is anything new.
//
// Problem: where the two haplotypes of a sample have different events over the same bases, the
// alleles that columns show are of both, and reads can't be separated by them.
//
// Strategy: haplotypes are split as clusters are in a search for means: each of the reads goes
// to the haplotype that it fits best, and the haplotype to what most of its reads have.
func (r *Region) proposeSplits(p *proposals, of *ranking) (added bool) {
	propose := func(haplotype []byte, rows []int) {
		if slices.ContainsFunc(p.split, func(h []byte) bool { return slices.Equal(h, haplotype) }) {
			return
		}
		p.split = append(p.split, haplotype)
		added = p.add(haplotype, rows, maxSplitComplex) || added
	}
	for k, rows := range of.closest() {
		rows, seqs := p.bases(rows)
		if len(seqs) <= minSupport {
			continue
		}
		draft := r.work.voter.refine(r.codes(p.lo, p.hi, of.haplotypes[of.kept[k]]), seqs)
		propose(draft, rows)
		parts := r.work.voter.split(draft, seqs)
		if least := min(len(parts[0]), len(parts[1])); least <= minSupport || splitShare*least < len(seqs) {
			continue
		}
		var own [2][]int
		var with [2][][]byte
		for n, part := range parts {
			for _, i := range part {
				own[n], with[n] = append(own[n], rows[i]), append(with[n], seqs[i])
			}
		}
		if p.m.strandsDiffer(own[0], own[1]) > maxSplitStrandPhred {
			continue
		}
		for n := range own {
			propose(r.work.voter.refine(draft, with[n]), own[n])
		}
	}
	return added
}

// group is rows that may be of one haplotype, and the alleles of a cluster that they seem to
// have.
type group struct {
	rows    []int
	alleles []candidate
}

// alike are groups of rows that may be of one haplotype: of a haploid sample all; else
// all that fit something else than the reference better, and those of each haplotype.
func (r *Region) alike(cluster []candidate, first *contest) []group {
	if first == nil {
		c := &cluster[0]
		g := group{alleles: cluster}
		for _, s := range c.reads {
			if c.ploidy == Haploid || s.llr > informative {
				g.rows = append(g.rows, s.row)
			}
		}
		return []group{g}
	}
	l := first.haplotypes
	best := 0
	for h := range l.sets {
		if r.work.totals[h] < r.work.totals[best] {
			best = h
		}
	}
	if cluster[0].ploidy == Haploid {
		return []group{{first.rows, l.members(cluster, best)}}
	}
	var differing []int
	byHaplotype := make([][]int, len(l.sets))
	for n, h := range first.closest {
		if h != 0 {
			differing = append(differing, first.rows[n])
			byHaplotype[h] = append(byHaplotype[h], first.rows[n])
		}
	}
	var out []group
	for h, rows := range byHaplotype {
		if len(rows) > minSupport && r.enough(cluster[0].pos, int32(len(rows)), int32(len(first.rows))) {
			out = append(out, group{rows, l.members(cluster, h)})
		}
	}
	slices.SortStableFunc(out, func(a, b group) int { return cmp.Compare(len(b.rows), len(a.rows)) })
	if len(out) != 1 && len(differing) > minSupport {
		most := 0
		for h := range byHaplotype {
			if len(byHaplotype[h]) > len(byHaplotype[most]) {
				most = h
			}
		}
		out = append(out, group{differing, l.members(cluster, most)})
	}
	return out
}
