package variant

// passages is reads that pass blocks of the reference whole, and haven't been counted yet.
//
// Problem: nearly all columns of a read match, and walking along the reference for each read, to
// count contexts and homopolymers, took a twelfth of the time of calling.
//
// Strategy: a read is counted as if it matched everywhere, and what it has otherwise is taken
// back. The blocks that it passes get a tally, and are walked along once for all the reads of a
// strand, when somebody asks for the counts.
//
// Consequences: the sums are those of walking along with each read.
type passages struct {
	first, blocks int         // that reads can pass, the first counted from the contig's start
	reads         [2][]uint32 // by strand and block; nil: none
	gaps          []lengthGap // memory for those of a read
}

// passageWidth is the bases of a block: a part of what long reads span, and many enough that tallies
// take little beside the reads.
const passageWidth = 512

// newPassages is for reads within [lo, hi).
func newPassages(lo, hi int) passages {
	first := lo / passageWidth
	return passages{first: first, blocks: (hi+passageWidth-1)/passageWidth - first}
}

// pass counts that a read over [start, end) matches, and what it passes of homopolymers as unchanged.
func (c *errorCounts) pass(start, end int, reverse bool, ref []byte, p *passages) {
	strand := strandIndex(reverse)
	one := [2]uint32{}
	one[strand] = 1
	// Blocks begin behind the read's first base, at which a homopolymer may be cut.
	first, last := start/passageWidth+1, end/passageWidth
	if p.blocks == 0 || first >= last {
		c.passColumns(start, end, ref, one)
	} else {
		c.passColumns(start, first*passageWidth, ref, one)
		if p.reads[strand] == nil {
			p.reads[strand] = make([]uint32, p.blocks)
		}
		passed := p.reads[strand][first-p.first : last-p.first]
		for i := range passed {
			passed[i]++
		}
		c.passColumns(last*passageWidth, end, ref, one)
	}

	// A homopolymer at an end counts as passed, by what is left of it at the start, but its length isn't seen.
	n := runFrom(ref, start)
	if base := baseCode[ref[start]]; base < 4 {
		switch base = strandBase(base, reverse); {
		case start > 0 && ref[start-1] == ref[start]:
			c.runs[min(n, maxRun)][base]++
		case n >= minCountedRun:
			c.lengths[countedRow(n)][base][changeColumn(0)]--
		}
	}
	at := end - 1
	for at > start && ref[at-1] == ref[at] {
		at--
	}
	if base := baseCode[ref[at]]; at > start && base < 4 {
		if n := runFrom(ref, at); n >= minCountedRun && at+n >= end {
			c.lengths[countedRow(n)][strandBase(base, reverse)][changeColumn(0)]--
		}
	}
}

// passColumns counts the columns of [from, to), and the homopolymers that begin there, for so many
// reads of each strand that match.
func (c *errorCounts) passColumns(from, to int, ref []byte, reads [2]uint32) {
	for strand, n := range reads {
		if n > 0 {
			c.matched(ref, from, to, strand == 1, n)
		}
	}
	at := from
	for at > 0 && at < to && ref[at-1] == ref[at] {
		at++ // began before
	}
	for at < to {
		n := runFrom(ref, at)
		if b := baseCode[ref[at]]; b < 4 {
			for strand, passes := range reads {
				base := strandBase(b, strand == 1)
				c.runs[min(n, maxRun)][base] += uint64(passes)
				if n >= minCountedRun {
					c.lengths[countedRow(n)][base][changeColumn(0)] += passes
				}
			}
		}
		at += n
	}
}

// matched counts the contexts of bases of [from, to), for so many reads that match.
func (c *errorCounts) matched(ref []byte, from, to int, reverse bool, reads uint32) {
	k := kmerAt(ref, from, reverse)
	last := min(to, len(ref)-kmerReach) // from here on contexts reach beyond the contig
	at := from
	if reverse {
		for ; at < last; at++ {
			if baseCode[ref[at]] < 4 {
				c.contexts[k&(kmerCount-1)][k.middle()] += reads
			}
			if at+1 < last {
				k = k>>2 | kmer(3-baseCode[ref[at+1+kmerReach]]&3)<<kmerShift
			}
		}
	} else {
		for ; at < last; at++ {
			if baseCode[ref[at]] < 4 {
				c.contexts[k&(kmerCount-1)][k.middle()] += reads
			}
			if at+1 < last {
				k = (k<<2 | kmer(baseCode[ref[at+1+kmerReach]]&3)) & (kmerCount - 1)
			}
		}
	}
	for at = max(at, from); at < to; at++ {
		if baseCode[ref[at]] < 4 {
			k := kmerAt(ref, at, reverse)
			c.contexts[k][k.middle()] += reads
		}
	}
}

// settle counts what has waited.
func (p *passages) settle(c *errorCounts, ref []byte) {
	for i := range p.blocks {
		var reads [2]uint32
		for strand, passed := range p.reads {
			if passed != nil {
				reads[strand] = passed[i]
			}
		}
		if reads != [2]uint32{} {
			from := (p.first + i) * passageWidth
			c.passColumns(from, from+passageWidth, ref, reads)
		}
	}
	p.reads = [2][]uint32{}
}
