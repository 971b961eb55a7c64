package genes

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"github.com/porestream/porestream/genes/homology"
	"github.com/porestream/porestream/genome"
)

// Pseudogene is what is left of a gene, as a known protein shows, or the genome itself.
type Pseudogene struct {
	Contig     int
	Start, End int // 0-based, half open; End is beyond the contig's length where it crosses the origin
	Reverse    bool
	Faults     []Fault           // without repetition, in the order below
	Fragments  int               // genes that were found in it, and aren't reported as such
	Known      *homology.Protein // that it is a part of; nil if only its codons show it
	Identity   float64           // of the fragment that is most like it
	Coverage   float64           // share of the known protein that the fragments have
	// Own says that the known protein is that of another gene of the genome: its ID, if that is reported.
	Own bool
}

// Fault is what is wrong with a gene, in the words of NCBI's annotation.
type Fault string

// What may be wrong with a gene.
const (
	Frameshift   Fault = "frameshifted"
	InternalStop Fault = "internal stop"
	Interrupted  Fault = "interrupted" // its parts are apart, such as by an insertion sequence
	Incomplete   Fault = "incomplete"  // a part is missing
)

var faults = []Fault{Frameshift, InternalStop, Interrupted, Incomplete}

// Bounds for a gene to be part of a broken one.
const (
	// brokenIdentity and brokenCoverage are least shares of the alignment and of the gene's protein.
	brokenIdentity, brokenCoverage = .6, .7
	// missingPart is the fewest residues of the known protein whose lack is examined.
	missingPart = 15
	// mostMissing is how many residues of a missing part are searched for, those next to the gene: the cost of aligning them grows with the
	// square.
	mostMissing = 4000
	// flank is how far beyond the missing part's length its remains may be: insertion sequences are shorter.
	flank = 2500
	// apart is the distance in bases from which parts are interrupted.
	apart = 300
	// partExpect is the most places by chance that a missing part is found at.
	partExpect = 1e-3
	// incompleteCoverage is the share of the known protein below which a gene is incomplete though nothing else of it is left, if its protein is as
	// like as incompleteIdentity.
	incompleteCoverage, incompleteIdentity = .7, .9
)

// remains are what was found of a broken gene from one of its fragments.
type remains struct {
	gene       int // index
	start, end int // on the strand of the gene
	faults     []Fault
	hit        homology.Hit
	from, to   int      // of the known protein
	pieces     [][2]int // what was found of it beyond the fragment, on the strand
	own        int      // index of the gene whose protein is the known one; -1 if it is of another genome, or if there is none
	parts      []int    // indices of all genes that are parts of it, as codons or insertion sequences show
	without    [][2]int // what insertion sequences take up in it, on the strand
	within     int      // where the innermost of those begins that it lies in; -1 for none
}

// strand is one strand of a contig.
type strand struct {
	seq      []byte
	circular bool
}

// cut is a stretch of a strand. What is beyond its ends is left out, and from is where it begins then: by whole codons later.
func (s *strand) cut(from, to int) (seq []byte, begin int) {
	n := len(s.seq)
	if !s.circular {
		for from < 0 {
			from += 3
		}
		to = min(to, n)
		if from >= to {
			return nil, from
		}
		return s.seq[from:to], from
	}
	to = min(to, from+n)
	out := make([]byte, 0, max(0, to-from))
	for at := from; at < to; {
		k := ((at % n) + n) % n
		m := min(to-at, n-k)
		out = append(out, s.seq[k:k+m]...)
		at += m
	}
	return out, from
}

// known says whether a stretch of the strand is within the sequence, without a gap.
func (s *strand) known(from, to int) bool {
	if !s.circular && (from < 0 || to > len(s.seq)) {
		return false
	}
	seq, _ := s.cut(from, to)
	return !bytes.Contains(bytes.ToUpper(seq), bytes.Repeat([]byte{'N'}, longestGap+1))
}

// breaker searches for broken genes.
type breaker struct {
	contigs []Contig
	code    *homology.Code
	strands [][2]*strand
}

func newBreaker(contigs []Contig, code *homology.Code) *breaker {
	b := &breaker{contigs: contigs, code: code}
	for _, c := range contigs {
		other := slices.Clone(c.Seq)
		genome.ReverseComplement(other)
		b.strands = append(b.strands, [2]*strand{{c.Seq, c.Circular}, {other, c.Circular}})
	}
	return b
}

// examine returns what is left of the known protein that a gene is most like, if the gene is only a part of it; false if the gene isn't
// broken.
func (b *breaker) examine(index int, g *Gene, hit *homology.Hit, w *homology.Workspace) (remains, bool) {
	r := remains{gene: index, hit: *hit, from: hit.Start, to: hit.End, own: -1}
	if hit.Identity < brokenIdentity || hit.QueryCoverage < brokenCoverage || g.OpenLow || g.OpenHigh || g.Slips {
		return r, false
	}
	s := b.strands[g.Contig][strandIndex(g.Reverse)]
	r.start, r.end = g.on(b.contigs)
	begin := r.start
	known := hit.Protein.Seq
	whole := true
	if missing := min(hit.Start, mostMissing); missing >= missingPart {
		at, left := begin+3*hit.QueryStart, hit.Start-missing
		switch place, from, frame := b.locate(s, known[left:hit.Start], at-3*(missing+flank/3), at+3*missingPart, w); {
		case place == nil:
			whole = !s.known(at-3*missing, at)
		case frame == 0 && !b.stops(s, from+3*place.From, at):
			// It is there: the gene begins elsewhere.
		default:
			if frame == 0 && selenoprotein(known) {
				return r, false
			}
			low, high := from+frame+3*place.From, from+frame+3*place.To
			r.faults = append(r.faults, kindOf(frame, at-high))
			r.pieces = append(r.pieces, [2]int{low, high})
			r.start, r.from = min(r.start, low), left+place.Start
		}
	}
	if missing := min(len(known)-hit.End, mostMissing); missing >= missingPart {
		at := begin + 3*hit.QueryEnd
		switch place, from, frame := b.locate(s, known[hit.End:hit.End+missing], at-3*missingPart, at+3*(missing+flank/3), w); {
		case place == nil:
			whole = whole && !s.known(at, at+3*missing)
		case frame == 0 && !b.stops(s, at, from+3*place.To):
		default:
			if frame == 0 && selenoprotein(known) {
				return r, false
			}
			low, high := from+frame+3*place.From, from+frame+3*place.To
			r.faults = append(r.faults, kindOf(frame, low-at))
			r.pieces = append(r.pieces, [2]int{low, high})
			r.end, r.to = max(r.end, high), hit.End+place.End
		}
	}
	if s.circular && r.start < 0 {
		r.turn(len(s.seq))
	}
	if len(r.faults) > 0 {
		return r, true
	}
	r.faults = append(r.faults, Incomplete)
	return r, !whole && hit.Coverage < incompleteCoverage && min(hit.Identity, hit.QueryCoverage) >= incompleteIdentity
}

// selenoprotein reports whether a stop codon in a protein's gene may be read as selenocysteine.
func selenoprotein(known []byte) bool { return bytes.IndexByte(known, 'U') >= 0 }

// kindOf is the fault between two parts that are in frames so far apart, with so many bases between them.
func kindOf(frame, distance int) Fault {
	switch {
	case distance >= apart:
		return Interrupted
	case frame != 0:
		return Frameshift
	}
	return InternalStop
}

// locate finds the best place of a part of a known protein in the three frames of a stretch of a strand; nil if there is none. The stretch begins at from in the
// gene's frame, which is 0.
func (b *breaker) locate(s *strand, part []byte, from, to int, w *homology.Workspace) (best *homology.Place, begin, frame int) {
	seq, begin := s.cut(from, to)
	for f := range 3 {
		if len(seq) < f+3 {
			break
		}
		place, found := homology.Locate(part, b.code.Translate(seq[f:], false), partExpect, w)
		if found && place.Identity >= brokenIdentity && (best == nil || place.End-place.Start > best.End-best.Start) {
			best, frame = &place, f
		}
	}
	return best, begin, frame
}

// stops reports whether there is a stop codon between two places of a frame.
func (b *breaker) stops(s *strand, from, to int) bool {
	seq, _ := s.cut(from, to)
	return bytes.IndexByte(b.code.Translate(append(bytes.Clone(seq[:len(seq)/3*3]), "AAA"...), false), '*') >= 0
}

// on is where a gene is on its strand.
func (g *Gene) on(contigs []Contig) (start, end int) {
	if g.Reverse {
		n := len(contigs[g.Contig].Seq)
		return n - g.End, n - g.Start
	}
	return g.Start, g.End
}

// near is where a gene is on its strand, counted in the turn of a circular contig that is nearest to a place.
func (g *Gene) near(contigs []Contig, place int) (start, end int) {
	start, end = g.on(contigs)
	if c := &contigs[g.Contig]; c.Circular {
		n := len(c.Seq)
		turns := int(math.Round(float64(place-start) / float64(n)))
		start, end = start+turns*n, end+turns*n
	}
	return start, end
}

// ofOthers reports whether what was found beyond a fragment is a part of genes that are whole themselves: then it isn't what the fragment lacks.
func (r *Result) ofOthers(contigs []Contig, x *remains) bool {
	const nearlyAll = .85
	mine := &r.Genes[x.gene]
	for _, piece := range x.pieces {
		if !slices.ContainsFunc(r.Genes, func(g Gene) bool {
			if g.Contig != mine.Contig || g.Reverse != mine.Reverse || g.Similar == nil || g.Similar.Coverage < nearlyAll || g.Similar.QueryCoverage < nearlyAll {
				return false
			}
			if g.Similar.complements(&x.hit) {
				return false // the other part of the same gene
			}
			low, high := g.near(contigs, piece[0])
			return 2*(min(high, piece[1])-max(low, piece[0])) >= piece[1]-piece[0] && high-low > 2*(mine.End-mine.Start)
		}) {
			return false
		}
	}
	return len(x.pieces) > 0
}

// complements reports whether two hits are of different parts of one known protein.
func (s *Similar) complements(hit *homology.Hit) bool {
	return s.Protein == hit.Protein && min(s.End, hit.End)-max(s.Start, hit.Start) < missingPart
}

// before reports whether a pseudogene is rather named after what a fragment is like than after what another one is: a known protein of another genome
// first, then one of the genome itself.
func (x *remains) before(other *remains) bool {
	rank := func(x *remains) int {
		switch {
		case x.hit.Protein == nil:
			return 0
		case x.own >= 0:
			return 1
		}
		return 2
	}
	return cmp.Or(rank(x)-rank(other), x.hit.Score-other.hit.Score) > 0
}

// turn counts places a turn of a circular contig later.
func (x *remains) turn(n int) {
	x.start, x.end = x.start+n, x.end+n
	x.pieces, x.without = slices.Clone(x.pieces), slices.Clone(x.without) // they may be those of a copy
	for _, list := range [][][2]int{x.pieces, x.without} {
		for i := range list {
			list[i][0], list[i][1] = list[i][0]+n, list[i][1]+n
		}
	}
}

// encloses reports whether a stretch has another one in it, in whatever turn of a circular contig of so many bases either is counted; of a linear one, bases is
// 0.
func encloses(stretch, other [2]int, bases int) bool {
	from := other[0] - stretch[0]
	if bases > 0 {
		from = (from%bases + bases) % bases
	}
	return from >= 0 && from+other[1]-other[0] <= stretch[1]-stretch[0]
}

// takeBroken takes the genes that are remains out of the list, and reports each broken gene once.
func (r *Result) takeBroken(contigs []Contig, list []remains) {
	list = slices.DeleteFunc(list, func(x remains) bool { return r.ofOthers(contigs, &x) })
	r.arrange(contigs, list)
	r.Pseudogenes = nil
	out := make([]bool, len(r.Genes))
	owners := map[int]int{} // by pseudogene, the gene that it is a part of a copy of
	for len(list) > 0 {
		n, end := 1, list[0].end
		for ; n < len(list) && list[n].start < end && r.beside(&list[0], &list[n]) && list[n].within == list[0].within; n++ {
			end = max(end, list[n].end)
		}
		p, own := r.pseudogene(contigs, list[:n], out)
		if p.Own {
			owners[len(r.Pseudogenes)] = own
		}
		r.Pseudogenes = append(r.Pseudogenes, p)
		list = list[n:]
	}
	r.drop(out, owners)
	slices.SortFunc(r.Pseudogenes, func(a, b Pseudogene) int {
		return cmp.Or(a.Contig-b.Contig, a.Start-b.Start, a.End-b.End, strandIndex(a.Reverse)-strandIndex(b.Reverse))
	})
}

// beside reports whether the remains of two genes are on one strand.
func (r *Result) beside(a, b *remains) bool {
	x, y := &r.Genes[a.gene], &r.Genes[b.gene]
	return x.Contig == y.Contig && x.Reverse == y.Reverse
}

// arrange puts those next to each other that overlap on a strand, also across the origin of a circular contig. What lies in an insertion sequence is apart from
// the gene that this stands in: it may have broken genes of its own.
func (r *Result) arrange(contigs []Contig, list []remains) {
	var crossing, interrupted []*remains
	for i := range list {
		x := &list[i]
		x.within = -1
		if x.end > len(contigs[r.Genes[x.gene].Contig].Seq) {
			crossing = append(crossing, x)
		}
		if len(x.without) > 0 {
			interrupted = append(interrupted, x)
		}
	}
	for i := range list {
		x := &list[i]
		n := len(contigs[r.Genes[x.gene].Contig].Seq)
		if slices.ContainsFunc(crossing, func(o *remains) bool { return r.beside(x, o) && x.start+n < o.end }) {
			x.turn(n)
		}
	}
	for i := range list {
		x := &list[i]
		n := len(contigs[r.Genes[x.gene].Contig].Seq)
		for _, o := range interrupted {
			for _, s := range o.without {
				if r.beside(x, o) && encloses(s, [2]int{x.start, x.end}, n) {
					x.within = max(x.within, s[0]%n)
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b remains) int {
		x, y := &r.Genes[a.gene], &r.Genes[b.gene]
		return cmp.Or(x.Contig-y.Contig, strandIndex(x.Reverse)-strandIndex(y.Reverse), a.within-b.within, a.start-b.start, a.end-b.end, a.gene-b.gene)
	})
}

// pseudogene is one broken gene from its remains, named after the fragment that is most like a known protein, and the gene whose protein that is. What is a part
// of it is marked as out.
func (r *Result) pseudogene(contigs []Contig, list []remains, out []bool) (p Pseudogene, own int) {
	best := &list[0]
	p.Contig, p.Reverse = r.Genes[best.gene].Contig, r.Genes[best.gene].Reverse
	start, end := best.start, best.end
	found, parts := map[Fault]bool{}, map[int]bool{}
	for i := range list {
		x := &list[i]
		out[x.gene], parts[x.gene] = true, true
		end = max(end, x.end)
		for _, f := range x.faults {
			found[f] = true
		}
		if x.before(best) {
			best = x
		}
	}
	for _, f := range faults {
		if found[f] {
			p.Faults = append(p.Faults, f)
		}
	}
	p.Fragments = len(parts)
	if best.hit.Protein != nil {
		p.Known, p.Identity, p.Own = best.hit.Protein, best.hit.Identity, best.own >= 0
		p.Coverage = float64(best.to-best.from) / float64(len(p.Known.Seq))
		// A fragment that is like enough the known protein by itself.
		for k := range r.Genes {
			if g := &r.Genes[k]; !out[k] && g.Contig == p.Contig && g.Reverse == p.Reverse && g.Similar != nil && g.Similar.complements(&best.hit) {
				low, high := g.near(contigs, start)
				if 5*(min(high, end)-max(low, start)) >= 4*(high-low) {
					out[k] = true
					p.Fragments++
					start, end = min(start, low), max(end, high)
				}
			}
		}
	}
	n := len(contigs[p.Contig].Seq)
	p.Start, p.End = start, end
	if p.Reverse {
		p.Start, p.End = n-end, n-start
	}
	first := (p.Start%n + n) % n // in the first turn
	p.Start, p.End = first, first+p.End-p.Start
	return p, best.own
}

// drop takes genes out of the list, and calls those that pseudogenes are named after as they are numbered then.
func (r *Result) drop(out []bool, owners map[int]int) {
	kept := r.Genes[:0]
	number := map[int]int{}
	for i := range r.Genes {
		if !out[i] {
			kept = append(kept, r.Genes[i])
			number[i] = len(kept)
		}
	}
	for i, gene := range owners {
		p := &r.Pseudogenes[i]
		known := *p.Known
		if number[gene] > 0 {
			known.ID, known.Product = identifier(number[gene]), ""
			if s := kept[number[gene]-1].Similar; s != nil {
				known.Product = s.Protein.Product
			}
		}
		p.Known = &known
	}
	r.Genes = kept
}
