package genes

import (
	"context"
	"slices"

	"github.com/porestream/porestream/genes/homology"
)

// Genes that are broken by what the genome itself shows: by their codons (joint.go), by insertion sequences in them (insertion.go), and by a longer gene
// elsewhere in it that they are a copy of a part of, as insertion sequences and prophages leave them. Known proteins, if there are any, are asked later, and
// may say otherwise (name.go).

const (
	// ownIdentity is how like its own longer paralogue a broken gene must be. Families that share domains, such as polyketide synthases, are less alike.
	ownIdentity = .75
	// ownShared is the share of its words that a gene's protein must have in common with another one to be aligned with it.
	ownShared = .08
	// wholeCoverage is the share of both proteins from which on a gene is as whole as the other one.
	wholeCoverage = .8
	// copyIdentity is that of copies of two genes that follow each other.
	copyIdentity = .6
	// copyShift is how much farther apart the copies may be.
	copyShift = 3
)

// spot is where a gene is.
type spot struct {
	contig, start, end int
	reverse            bool
}

func (g *Gene) spot() spot { return spot{g.Contig, g.Start, g.End, g.Reverse} }

// split are two genes that were found, and may be one.
type split struct {
	parts [2]spot // in the direction of their strand
	fault Fault
	sure  bool // their codons are enough to say so
	// whole is the relative that shows it where their codons aren't; nil for none.
	whole *relative
}

// clear reports whether a whole relative shows the split that hardly differs: then it doesn't count that other copies are split as well.
func (x *split) clear() bool { return x.whole != nil && x.whole.hit.Identity >= ownIdentity }

// breakAlone takes the genes out that the genome itself shows to be broken. What speaks for that is kept for Name.
func (r *Result) breakAlone(ctx context.Context, contigs []Contig, splits []split, interruptions []interruption) error {
	code, err := homology.NewCode(r.Code)
	if err != nil {
		return err
	}
	proteins := make([]homology.Protein, len(r.Genes))
	for i := range r.Genes {
		proteins[i].Seq = r.Genes[i].protein(contigs, code)
	}
	index, err := homology.NewIndex(proteins)
	if err != nil {
		return err
	}
	s := &self{contigs: contigs, genes: r.Genes, breaker: newBreaker(contigs, code), proteins: proteins, index: index, at: map[spot]int{}, copies: map[int][]int{}}
	for i := range r.Genes {
		s.at[r.Genes[i].spot()] = i
	}
	if splits, err = s.shown(ctx, splits); err != nil {
		return err
	}
	for _, x := range splits {
		for _, p := range x.parts {
			s.copies[s.at[p]] = nil
		}
	}
	if err := s.search(ctx); err != nil {
		return err
	}
	for _, x := range splits {
		a, b := s.at[x.parts[0]], s.at[x.parts[1]]
		explained := func(i interruption) bool { return i.explains(&x, s.bases(x.parts[0].contig)) }
		if (x.clear() || !s.copied(a, b)) && !slices.ContainsFunc(interruptions, explained) {
			s.list = append(s.list, s.joint(a, b, &x), s.joint(b, a, &x))
		}
	}
	for _, x := range interruptions {
		s.list = append(s.list, s.interrupted(&x)...)
	}
	r.found, r.alone = slices.Clone(r.Genes), s.list
	r.takeBroken(contigs, slices.Clone(s.list))
	return nil
}

// self is a search of a genome in itself.
type self struct {
	contigs  []Contig
	genes    []Gene
	breaker  *breaker
	proteins []homology.Protein // of the genes
	index    *homology.Index
	at       map[spot]int // the genes' indices
	list     []remains
	copies   map[int][]int // of the genes that are asked for, those that are whole copies of them
}

// search finds the genes that are parts of others.
func (s *self) search(ctx context.Context) error {
	found, copies := make([]*remains, len(s.genes)), make([][]int, len(s.genes))
	each(ctx, len(s.genes), func(i int, w *homology.Workspace) {
		hits := s.index.Relatives(i, ownShared, expected, w)
		found[i] = s.partOf(i, hits, w)
		if _, asked := s.copies[i]; asked {
			for k := range hits {
				if h := &hits[k]; h.Identity >= copyIdentity && min(h.Coverage, h.QueryCoverage) >= wholeCoverage {
					copies[i] = append(copies[i], h.Number)
				}
			}
		}
	})
	for i, x := range found {
		if x != nil {
			s.list = append(s.list, *x)
		}
		if _, asked := s.copies[i]; asked {
			s.copies[i] = copies[i]
		}
	}
	return ctx.Err()
}

// partOf is what is left of a longer gene elsewhere that a gene is a copy of a part of; nil if it isn't. One that has a whole copy is taken for whole.
func (s *self) partOf(i int, hits []homology.Hit, w *homology.Workspace) *remains {
	for k := range hits {
		h := &hits[k]
		switch {
		case h.Coverage >= wholeCoverage && h.QueryCoverage >= wholeCoverage:
			return nil
		case h.Coverage >= wholeCoverage || h.Identity < ownIdentity:
			continue
		}
		// What only lacks a part, or has it somewhere else, is often a gene of its own.
		if left, broken := s.breaker.examine(i, &s.genes[i], h, w); broken && (slices.Contains(left.faults, Frameshift) || slices.Contains(left.faults, InternalStop)) {
			left.own = h.Number
			return &left
		}
	}
	return nil
}

// copied reports whether two genes that follow each other do so elsewhere as well: then that is how they are, such as the two genes of an insertion sequence.
func (s *self) copied(a, b int) bool {
	for _, x := range s.copies[a] {
		for _, y := range s.copies[b] {
			if first, second := &s.genes[x], &s.genes[y]; first.Contig == second.Contig && first.Reverse == second.Reverse &&
				abs(s.apart(x, y)-s.apart(a, b)) <= copyShift {
				return true
			}
		}
	}
	return false
}

// apart is the distance of the second gene's start from the first one's stop, on their strand.
func (s *self) apart(a, b int) int {
	_, end := s.genes[a].on(s.contigs)
	start, _ := s.genes[b].near(s.contigs, end)
	return start - end
}

func abs(x int) int { return max(x, -x) }

// joint is what a gene leaves that is one with another.
func (s *self) joint(i, partner int, of *split) remains {
	x := remains{gene: i, faults: []Fault{of.fault}, own: -1, parts: []int{i, partner}}
	if w := of.whole; w != nil {
		x.hit, x.own, x.from, x.to = w.hit, w.hit.Number, w.from, w.to
	}
	x.start, x.end = s.genes[i].on(s.contigs)
	low, high := s.genes[partner].near(s.contigs, x.start)
	x.start, x.end = min(x.start, low), max(x.end, high)
	s.first(&x)
	return x
}

// bases is the length of a circular contig, and 0 for a linear one.
func (s *self) bases(contig int) int {
	if c := &s.contigs[contig]; c.Circular {
		return len(c.Seq)
	}
	return 0
}

// first counts places of a circular contig from its first turn on.
func (s *self) first(x *remains) {
	if n := s.bases(s.genes[x.gene].Contig); n > 0 && x.start < 0 {
		x.turn(n)
	}
}

// interrupted is what a gene leaves that insertion sequences stand in, from each of its parts that was called.
func (s *self) interrupted(x *interruption) (out []remains) {
	on := func(p spot, near int) (start, end int) {
		g := Gene{Contig: p.contig, Start: p.start, End: p.end, Reverse: p.reverse}
		return g.near(s.contigs, near)
	}
	var parts []int
	for _, p := range x.parts {
		parts = append(parts, s.at[p])
	}
	for _, i := range parts {
		left := remains{gene: i, faults: []Fault{Interrupted}, own: -1, parts: parts}
		left.start, left.end = on(x.whole, 0)
		for _, p := range x.without {
			start, end := on(p, left.start)
			left.without = append(left.without, [2]int{start, end})
		}
		s.first(&left)
		out = append(out, left)
	}
	return out
}

// believed are the broken genes that the genome itself shows, but for those that known proteins show to be whole: a gene that is like a whole one isn't a part.
func (r *Result) believed() []remains {
	whole := func(i int) bool {
		s := r.Genes[i].Similar
		return s != nil && min(s.Coverage, s.QueryCoverage) >= wholeCoverage
	}
	return slices.DeleteFunc(slices.Clone(r.alone), func(x remains) bool { return whole(x.gene) || slices.ContainsFunc(x.parts, whole) })
}
