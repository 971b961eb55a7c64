package genes

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// Genes that an insertion sequence stands in.
//
// Problem: the two parts of such a gene look like genes, or one of them does, and neither has the other's end.
//
// Assumptions: an insertion sequence mostly stands in a genome several times. It ends with about what it begins with on the other strand, and has doubled a few
// bases of the target that it went into, which stand on either side of it since (Siguier et al., Microbiology Spectrum 2015).
//
// Strategy: each copied stretch with such ends is taken out with one of the doubled targets. If then a gene is read across the place that begins before it and ends
// behind it, and one of its parts was called, it is broken.
//
// Consequence: an insertion sequence that stands in the genome once isn't seen, nor one without such ends, nor one whose gene has lost more since.

const (
	// shortestTarget and longestTarget are how many bases an insertion sequence doubles.
	shortestTarget, longestTarget = 2, 14
	// Bases beside two copies may be the same by chance, or because they go to such places, and those at their ends may differ. So the ends are searched from
	// blurredOut bases outside those of a copy to blurred within.
	blurredOut, blurred = 3, 6
	// invertedBases of either end are compared, of which invertedSame are the same at least, up to invertedWithin bases from a copy's ends.
	invertedBases, invertedSame, invertedWithin = 20, 13, 10
	// leastPart is how many bases a part of an interrupted gene has.
	leastPart = 45
	// mostWithin is how far into an insertion sequence a part is called, to the next stop or start there. What is called farther is a gene that a copied stretch ends in.
	mostWithin = 150
	// besideEachOther is how far apart two insertion sequences are at most that are taken out together.
	besideEachOther = 500
	// surelyGene and surelyBefore are the log odds of the gene without the insertion sequence, and the probability that it begins before it.
	surelyGene, surelyBefore = 4, .9
)

// interruption is a gene that insertion sequences stand in.
type interruption struct {
	whole   spot   // with them
	without []spot // what they take up, with one of the doubled targets each
	parts   []spot // of the gene, those that were called
	odds    float64
}

// holds reports whether a stretch of a circular contig of so many bases, or of a linear one, lies in an insertion sequence that stands in the gene.
func (i *interruption) holds(s spot, bases int) bool {
	return slices.ContainsFunc(i.without, func(o spot) bool {
		return o.contig == s.contig && encloses([2]int{o.start, o.end}, [2]int{s.start, s.end}, bases)
	})
}

// explains reports whether two genes are both parts of the interrupted one, or one is and the other one lies in an insertion sequence in it. Then it isn't for
// their codons to say that they are one.
func (i *interruption) explains(x *split, bases int) bool {
	first, second := x.parts[0], x.parts[1]
	a, b := slices.Contains(i.parts, first), slices.Contains(i.parts, second)
	return a && b || a && i.holds(second, bases) || b && i.holds(first, bases)
}

// inverted reports whether a copied stretch ends with about what it begins with on the other strand.
func inverted(s []byte, c copied) bool {
	for a := -invertedWithin; a <= invertedWithin; a++ {
		for b := -invertedWithin; b <= invertedWithin; b++ {
			from, to := c.from+a, c.to-b
			if from < 0 || to > len(s) {
				continue
			}
			same := 0
			for k := range invertedBases {
				if s[from+k] == 3-s[to-1-k] {
					same++
				}
			}
			if same >= invertedSame {
				return true
			}
		}
	}
	return false
}

// targets are the stretches to take out for an insertion sequence, each with one of two doubled targets: where the most bases are doubled, and where as many
// are in another frame.
func targets(s []byte, c copied) (out [][2]int) {
	var most [3]int // by what is left of a codon
	var at [3][2]int
	for a := -blurredOut; a <= blurred; a++ {
		for b := -blurredOut; b <= blurred; b++ {
			from, to := c.from+a, c.to-b
			for n := longestTarget; n >= shortestTarget; n-- {
				if from < n || to+n > len(s) {
					continue
				}
				if phase := (to + n - from) % 3; n > most[phase] && slices.Equal(s[from-n:from], s[to:to+n]) && !slices.Contains(s[from-n:from], unknown) {
					most[phase], at[phase] = n, [2]int{from, to + n}
				}
			}
		}
	}
	for phase, n := range most {
		if n > 0 && n == slices.Max(most[:]) {
			out = append(out, at[phase])
		}
	}
	return out
}

// interruptions are the genes that insertion sequences stand in. A genome that is short teaches too little of its genes for that.
func (f *finder) interruptions(ctx context.Context, genes []Gene) ([]interruption, error) {
	if f.known < short {
		return nil, nil
	}
	copies, err := f.copies(ctx)
	if err != nil {
		return nil, err
	}
	copies = slices.DeleteFunc(copies, func(c copied) bool { return !inverted(f.pieces[c.piece].forward, c) })
	cuts := make([][][2]int, len(copies))
	for i, c := range copies {
		cuts[i] = targets(f.pieces[c.piece].forward, c)
	}
	calls := f.callsOf(genes)
	var found []interruption
	for i, c := range copies {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p := f.pieces[c.piece]
		for _, first := range cuts[i] {
			found = append(found, calls.across(p, [][2]int{first})...)
			for k := i + 1; k < len(copies) && copies[k].piece == c.piece && copies[k].from <= c.to+besideEachOther; k++ {
				for _, second := range cuts[k] {
					if second[0] >= first[1] {
						found = append(found, calls.across(p, [][2]int{first, second})...)
					}
				}
			}
		}
	}
	return calls.surest(found), nil
}

// called are the genes of a genome by where they stop.
type called struct {
	f     *finder
	genes []Gene
	at    map[stopAt]int
	turns map[int]int // lengths of the circular contigs
}

// stopAt is where a gene stops in its contig, within the first turn of a circular one.
type stopAt struct {
	contig, at int
	reverse    bool
}

func (f *finder) callsOf(genes []Gene) *called {
	c := &called{f, genes, map[stopAt]int{}, map[int]int{}}
	for _, p := range f.pieces {
		if p.circular {
			c.turns[p.contig] = p.length
		}
	}
	for i := range genes {
		c.at[c.stop(genes[i].spot())] = i
	}
	return c
}

// stop is where a stretch stops.
func (c *called) stop(s spot) stopAt {
	at := s.end
	if s.reverse {
		at = s.start
	}
	if n := c.turns[s.contig]; n > 0 {
		at %= n
	}
	return stopAt{s.contig, at, s.reverse}
}

// contradict reports whether two interruptions overlap on a strand, and neither of the genes lies in an insertion sequence that stands in the other one.
func (c *called) contradict(i, k *interruption) bool {
	a, b := i.whole, k.whole
	n := c.turns[a.contig]
	if a.contig != b.contig || a.reverse != b.reverse || i.holds(b, n) || k.holds(a, n) {
		return false
	}
	for _, turn := range []int{-n, 0, n} {
		if a.start+turn < b.end && b.start < a.end+turn {
			return true
		}
	}
	return false
}

// surest are the interruptions that no likelier ones contradict. Among equals the order is that of the reading, which doesn't depend on the strand or the origin
// that a contig was written from.
func (c *called) surest(list []interruption) (out []interruption) {
	slices.SortStableFunc(list, func(a, b interruption) int { return cmp.Compare(b.odds, a.odds) })
	for _, i := range list {
		if !slices.ContainsFunc(out, func(o interruption) bool { return c.contradict(&i, &o) }) {
			out = append(out, i)
		}
	}
	return out
}

// across are the genes that are read across what is taken out, on either strand. The cuts are in ascending order.
func (c *called) across(p *piece, cuts [][2]int) (out []interruption) {
	for _, reverse := range []bool{false, true} {
		s, mine := p.forward, cuts
		if reverse {
			s, mine = p.reverse, nil
			for _, x := range slices.Backward(cuts) {
				mine = append(mine, [2]int{len(s) - x[1], len(s) - x[0]})
			}
		}
		without := cutFrom(s, mine)
		for phase := range 3 {
			r, found := c.f.readAcross(&without, phase)
			if !found {
				continue
			}
			i := interruption{odds: r.odds}
			for _, x := range mine {
				i.without = append(i.without, p.spotOf(x[0], x[1], reverse))
			}
			var from int
			if i.parts, from = c.parts(p, &without, r, reverse); len(i.parts) == 0 {
				continue
			}
			ends := without.parts[len(without.parts)-1]
			to := ends[1] - (len(without.seq) - r.stop)
			if p.circular && to-from > p.length {
				continue // it goes round more than once
			}
			i.whole = p.spotOf(from, to, reverse)
			out = append(out, i)
		}
	}
	return out
}

// spotOf is where a stretch of a strand of a piece is in its contig.
func (p *piece) spotOf(from, to int, reverse bool) spot {
	if reverse {
		from, to = len(p.forward)-to, len(p.forward)-from
	}
	start, end, minus := p.place(from, to, reverse)
	return spot{p.contig, start, end, minus}
}

// cutOut is what is left of a stretch of a strand when others are taken out of it.
type cutOut struct {
	strand []byte
	seq    []byte
	parts  [][2]int // of the strand, which seq has one behind the other
}

func cutFrom(s []byte, cuts [][2]int) cutOut {
	c := cutOut{strand: s}
	at := max(0, cuts[0][0]-margin)
	for _, x := range cuts {
		c.parts = append(c.parts, [2]int{at, x[0]})
		at = x[1]
	}
	c.parts = append(c.parts, [2]int{at, min(len(s), at+margin)})
	for _, p := range c.parts {
		c.seq = append(c.seq, s[p[0]:p[1]]...)
	}
	return c
}

// reading is a gene in a cutOut's sequence.
type reading struct {
	at, stop int // of its start codon, and behind its stop codon
	odds     float64
}

// readAcross is the gene in one of three phases that is read across all that was taken out; false if there is none.
func (f *finder) readAcross(x *cutOut, phase int) (reading, bool) {
	first := x.parts[0][1] - x.parts[0][0]
	ends := x.parts[len(x.parts)-1]
	last := len(x.seq) - (ends[1] - ends[0])
	at := first/3*3 + phase - 3
	if at < 0 {
		return reading{}, false
	}
	begin := f.code.opens(x.seq, at)
	stop, stops := f.code.ends(x.seq, at)
	if !stops || begin > first-leastPart || stop < last+leastPart {
		return reading{}, false
	}
	sc := scanner{s: x.seq[begin:stop], circular: true, code: f.code, tables: &f.tables} // as if it were circular: what isn't known isn't taken for a start
	sc.phase(0)
	if len(sc.frames) == 0 {
		return reading{}, false
	}
	fr := &sc.frames[0]
	fr.stop += int32(begin)
	for i := range fr.starts {
		fr.starts[i].at += int32(begin)
	}
	var w scored
	f.features(x.seq, fr, &w)
	f.weigh(x.seq, fr, &w)
	before := 0.0
	for i, b := range fr.starts {
		if int(b.at) <= first-leastPart {
			before += math.Exp(w.score[i])
		}
	}
	at = int(fr.starts[w.best].at)
	return reading{at, stop, w.total}, w.total >= surelyGene && before >= surelyBefore && at <= first-leastPart
}

// parts are the called genes that are parts of one that is read across what was taken out; none if one of them rather is a gene as it is. The gene begins where it
// is read from, or where its first part was called from, such as an open contig's end.
func (c *called) parts(p *piece, x *cutOut, r reading, reverse bool) (out []spot, start int) {
	start = x.parts[0][0] + r.at
	before := 0 // bases of the parts before this one
	for i, part := range x.parts {
		n := part[1] - part[0]
		from := max(r.at-before, (r.at-before)%3)
		if from < 0 {
			from += 3
		}
		before += n
		if from >= n {
			continue
		}
		// Where its frame stops with what was taken out in its place.
		end, _ := c.f.code.ends(x.strand, part[0]+from)
		k, found := c.at[c.stop(p.spotOf(end-3, end, reverse))]
		if !found {
			continue
		}
		g := &c.genes[k]
		begin := end - (g.End - g.Start)
		if begin >= part[1] {
			continue // behind the part
		}
		if end > part[1]+mostWithin || i > 0 && begin < part[0]-mostWithin {
			return nil, 0
		}
		start = min(start, begin)
		out = append(out, g.spot())
	}
	return out, start
}
