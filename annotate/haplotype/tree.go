package haplotype

import "strconv"

// node is a variant in the tree of a transcript's haplotypes: the path to it from the root are the variants of a
// haplotype up to there. Haplotypes of several samples share the nodes that they have in common.
type node struct {
	site         *site
	allele       int
	terms        Terms // the terms of its place
	exon         *exon
	beg          int // first replaced base, and how many are
	length       int
	offset       int // of beg in the reference's coding sequence
	lengthChange int // bases that the allele has more than the reference
	// seq is the haplotype's coding sequence from the end of the node before, or, where there is none, from the
	// variant on, to the variant's end.
	seq []byte

	children []*node
	next     []*node    // per allele of the site that is being added: the child that stands for it
	nextOf   *site      // that site
	ends     int        // haplotypes that end here
	reported []reported // consequences of the haplotypes that end here
}

// reported is the position of a reported consequence: its number at a site.
type reported struct {
	site   *site
	number int
}

// tree holds the haplotypes of a transcript.
type tree struct {
	transcript *transcript
	root       node
	leaves     []*node // per haplotype, two for each sample; nil: the root
	coding     []byte  // of the reference, with pads
}

// placement is how a variant fits in a haplotype.
type placement uint8

const (
	fits     placement = iota // there is a node for it
	collides                  // with a variant before it
	harmless                  // it has no consequence here
	byPlace                   // its place alone has one, and it is not part of the haplotype
)

// place makes a node for an allele of a site behind parent, or says why there is none. The terms are those of the
// variant's place.
func (c *Caller) place(parent *node, e *exon, s *site, allele int) (*node, Terms, placement) {
	t := e.transcript
	l := &c.evaluation
	*l = evaluation{
		caller: c, transcript: t, site: s, allele: allele, splice: true, utr: true, sequence: true,
		beginning: e.number != 0, ending: e.number != len(t.cds)-1,
		refBases: l.refBases, altBases: l.altBases,
	}
	outer5, outer3 := e.number == 0, e.number == len(t.cds)-1
	if !t.forward {
		outer5, outer3 = outer3, outer5
	}
	l.start = outer5 && !t.cut5 && t.startsAt(e)
	l.stop = outer3 && !t.cut3
	switch l.at(e.beg, e.end) {
	case noVariant:
		return nil, 0, harmless
	case outside, overlaps:
		if l.terms == 0 {
			return nil, 0, harmless
		}
		return nil, l.terms, byPlace
	}
	terms := l.terms &^ Synonymous // reported by the translation
	skip := max(0, e.beg-l.beg)    // the record begins before the exon, the variant does not
	skip = min(skip, len(l.altBases), len(l.refBases))
	if skip > 0 {
		l.beg = e.beg
	}
	length := len(l.refBases) - skip
	if parent.exon == e && l.beg < parent.beg+parent.length {
		return nil, 0, collides
	}
	if l.beg+length > e.end+1 { // more than the stretch is changed: what that does is not known
		if terms == 0 {
			terms = CodingSequence
		}
		return nil, terms, byPlace
	}
	n := c.memory.nodes.one()
	*n = node{site: s, allele: allele, terms: terms, exon: e, beg: l.beg, length: length}
	seq := c.buf[:0]
	if parent.exon != nil {
		seq = parent.appendUpTo(seq, e, l.beg)
	}
	seq = append(seq, l.altBases[skip:]...)
	n.seq, c.buf = c.memory.bytes.copy(seq), seq
	n.offset = e.offset + l.beg - e.beg
	n.lengthChange = len(s.alleles[allele]) - len(s.alleles[0])
	return n, terms, fits
}

// startsAt reports whether the outer codon of the stretch is a start codon.
func (t *transcript) startsAt(e *exon) bool {
	p := e.beg
	if !t.forward {
		p = e.end - 2
	}
	_, mark := t.code.read(t.base(p), t.base(p+1), t.base(p+2), t.forward)
	return mark == 'M'
}

// appendUpTo appends the reference's coding bases after n and before pos in exon e.
func (n *node) appendUpTo(dst []byte, e *exon, pos int) []byte {
	t := e.transcript
	from := n.beg + n.length
	if n.exon == e {
		return t.appendBases(dst, from, pos-from)
	}
	if k := n.exon.end + 1 - from; k > 0 {
		dst = t.appendBases(dst, from, k)
	}
	for i := n.exon.number + 1; i < e.number; i++ {
		dst = t.appendBases(dst, t.cds[i].beg, t.cds[i].length())
	}
	return t.appendBases(dst, e.beg, pos-e.beg)
}

// grow makes child the end of haplotype h, which parent was.
func (t *tree) grow(h int, parent, child *node) {
	t.leaves[h] = child
	child.ends++
	parent.ends--
}

// leaf is the last node of haplotype h.
func (t *tree) leaf(h int) *node {
	if n := t.leaves[h]; n != nil {
		return n
	}
	return &t.root
}

// lineage is a haplotype from its first variant to its last.
type lineage struct {
	nodes []*node
	ends  []int  // of each node's variant in seq
	seq   []byte // coding sequence from the first variant to the end of the last
}

// push and pop add and take away the last node.
func (p *lineage) push(n *node) {
	p.nodes = append(p.nodes, n)
	p.seq = append(p.seq, n.seq...)
	p.ends = append(p.ends, len(p.seq))
}

func (p *lineage) pop() {
	n := len(p.nodes) - 1
	p.nodes, p.ends = p.nodes[:n], p.ends[:n]
	p.seq = p.seq[:0:cap(p.seq)]
	if n > 0 {
		p.seq = p.seq[:p.ends[n-1]]
	}
}

// begins and beginsAt are where the variant of node i begins in seq, and in the haplotype's coding sequence.
func (p *lineage) begins(i int) int { return p.ends[i] - p.nodes[i].length - p.nodes[i].lengthChange }

func (p *lineage) beginsAt(i int) int { return p.nodes[0].offset + p.begins(i) }

// finish reports the effects of a tree's haplotypes on the protein.
func (c *Caller) finish(t *tree) {
	c.sequenceOf, c.sequence = nil, t.transcript.codingSequence(c.sequence[:0])
	t.coding = c.sequence
	p := &c.path
	steps := append(c.steps[:0], step{node: &t.root})
	for len(steps) > 0 {
		top := &steps[len(steps)-1]
		if top.child == len(top.node.children) {
			steps = steps[:len(steps)-1]
			if len(steps) > 0 {
				p.pop()
			}
			continue
		}
		next := top.node.children[top.child]
		top.child++
		p.push(next)
		steps = append(steps, step{node: next})
		if next.ends > 0 {
			c.haplotype(t, next)
		}
	}
	c.steps = steps
}

// release clears a tree that is done, so that it holds nothing while others of its memory are in use.
func (c *Caller) release(t *tree) {
	steps := append(c.steps[:0], step{node: &t.root})
	for len(steps) > 0 {
		top := &steps[len(steps)-1]
		n := top.node
		*top = step{}
		steps = steps[:len(steps)-1]
		for _, child := range n.children {
			steps = append(steps, step{node: child})
		}
		clear(n.children)
		clear(n.next)
		*n = node{}
	}
	c.steps = steps
	clear(t.leaves)
	*t = tree{}
}

// step is a node on the path to the current one, and which of its children come next.
type step struct {
	node  *node
	child int
}

// haplotype cuts the haplotype that ends with leaf into compounds: variants between which the frame is lost, or that
// lie in one codon.
func (c *Caller) haplotype(t *tree, leaf *node) {
	p := &c.path
	h := compoundOf{caller: c, tree: t, leaf: leaf, path: p}
	for _, n := range p.nodes {
		h.lengthChange += n.lengthChange
	}
	h.length = len(t.coding) - 2*pad + h.lengthChange
	last := len(p.nodes) - 1
	if t.transcript.forward {
		h.reset(0)
		for i := 0; i <= last; i++ {
			if h.take(i) || i < last && p.sameCodon(i) {
				if i < last {
					continue
				}
			}
			h.report(h.from, i)
			h.reset(i + 1)
		}
		return
	}
	h.reset(last)
	for i := last; i >= 0; i-- {
		if h.take(i) || i > 0 && p.sameCodonReverse(i, h.length) {
			if i > 0 {
				continue
			}
		}
		h.report(i, h.from)
		h.reset(i - 1)
	}
}

// sameCodon reports whether the variant after i begins in the codon in which i ends.
func (p *lineage) sameCodon(i int) bool {
	at, next := p.beginsAt(i), p.beginsAt(i+1)
	switch g := p.nodes[i].lengthChange; {
	case g > 0:
		at += g
	case g < 0:
		at++
	}
	return at/3 == next/3
}

// sameCodonReverse is sameCodon for the reverse strand, where the variant before i comes next.
func (p *lineage) sameCodonReverse(i, length int) bool {
	at, next := length-1-p.beginsAt(i), length-1-p.beginsAt(i-1)
	switch g := p.nodes[i].lengthChange; {
	case g > 0:
		at += g - 1
	case g < 0:
		at -= g
	}
	if g := p.nodes[i-1].lengthChange; g > 0 {
		next -= g
	}
	return at/3 == next/3
}

// compoundOf makes one compound after the other of a haplotype.
type compoundOf struct {
	caller       *Caller
	tree         *tree
	leaf         *node
	path         *lineage
	lengthChange int // of the whole haplotype
	length       int // of its coding sequence
	stopped      bool

	from  int  // first node of the compound
	shift int  // length change of the compound so far
	indel bool // one of its variants changes the length
}

func (h *compoundOf) reset(from int) { h.from, h.shift, h.indel = from, 0, false }

// take adds node i to the compound and says whether the frame is lost.
func (h *compoundOf) take(i int) bool {
	g := h.path.nodes[i].lengthChange
	h.shift += g
	h.indel = h.indel || g != 0
	return h.shift%3 != 0
}

// report reports the compound of the nodes from to to.
func (h *compoundOf) report(from, to int) {
	c, p, t := h.caller, h.path, h.tree.transcript
	first, last := p.nodes[from], p.nodes[to]
	beg, end := first.offset, last.offset+last.length
	f := frame{
		seq: p.seq[max(0, p.begins(from)):p.ends[to]], offset: p.beginsAt(from), length: h.length,
		beg: beg, end: end, toEnd: h.shift%3 != 0,
	}
	if len(p.seq) == 0 {
		f.toEnd, f.seq = false, nil
	}
	c.buf = c.alt.translate(t, h.tree.coding, &f, c.buf)
	f.seq, f.offset, f.length = between(h.tree.coding, pad+beg, pad+end), beg, len(h.tree.coding)-2*pad
	c.buf = c.ref.translate(t, h.tree.coding, &f, c.buf)

	a := aftermath{ref: &c.ref, alt: &c.alt, shift: h.shift, several: from != to}
	for _, n := range p.nodes[from : to+1] {
		a.terms |= n.terms & compound
	}
	if h.shift == 0 && h.indel {
		a.terms |= InframeAltering
	}
	before := h.stopped
	h.stopped = a.evaluate() || h.stopped
	if before {
		a.terms |= UpstreamStop
	}
	a.terms &^= a.removed
	main := last
	if t.forward {
		main = first
	}
	call := &call{terms: a.terms, transcript: t, allele: h.leaf.allele}
	if a.startLost && !a.several {
		call.terms |= first.terms &^ a.removed
		h.push(main.site, call)
		return
	}
	refAt, altAt := beg/3+1, p.beginsAt(from)/3+1
	if !t.forward {
		refAt = (len(h.tree.coding)-2*pad-end)/3 + 1
		altAt = (h.length-p.nodes[0].offset-p.ends[to])/3 + 1
	}
	call.change = h.describe(&a, refAt, altAt, from, to)
	if from != to {
		call.members = c.memory.members.take(to + 1 - from)
		for i, n := range p.nodes[from : to+1] {
			call.members[i] = n.site
		}
	}
	h.push(main.site, call)
	h.pushOthers(&a, call, main, from, to)
}

// pushOthers reports at each variant of a compound the effect of its place, and where to find the rest.
func (h *compoundOf) pushOthers(a *aftermath, whole *call, main *node, from, to int) {
	t := h.tree.transcript
	for _, n := range h.path.nodes[from : to+1] {
		if place := n.terms &^ compound; place != 0 {
			h.push(n.site, &call{terms: place &^ a.removed, transcript: t, change: whole.change, members: whole.members})
		}
		if n != main && (whole.terms&compound != 0 || n.terms&^compound == 0) {
			h.push(n.site, &call{terms: printedElsewhere | n.terms, transcript: t, elsewhere: main.site, members: whole.members})
		}
	}
}

// push adds a call of the haplotype.
func (h *compoundOf) push(s *site, c *call) {
	m := &h.caller.memory
	h.leaf.reported = m.reported.append(h.leaf.reported, reported{s, s.push(m, c)})
}

// describe writes the change of a compound.
func (h *compoundOf) describe(a *aftermath, refAt, altAt, from, to int) change {
	b := append(h.caller.buf[:0], '|')
	if !a.startLost {
		b = h.caller.appendAminos(b, refAt, a.ref)
		if a.terms&Synonymous == 0 {
			b = append(b, '>')
			b = h.caller.appendAminos(b, altAt, a.alt)
		}
	}
	b = append(b, '|')
	cut := len(b)
	for i, n := range h.path.nodes[from : to+1] {
		if i > 0 {
			b = append(b, '+')
		}
		b = n.site.appendChange(b, n.allele)
	}
	h.caller.buf = b
	return h.caller.newChange(b, cut)
}

// newChange is the change of a text whose second half begins at cut.
func (c *Caller) newChange(b []byte, cut int) change {
	return change{text: c.memory.bytes.copy(b), cut: cut, known: true, written: true}
}

// appendAminos appends the position of a protein and its amino acids, abbreviated if the caller wants that.
func (c *Caller) appendAminos(dst []byte, at int, p *protein) []byte {
	dst = strconv.AppendInt(dst, int64(at), 10)
	most := c.opts.TrimProtein
	if most <= 0 || len(p.aminos)-most < 3 {
		return append(dst, p.aminos...)
	}
	n := len(p.aminos)
	if p.stops() {
		n--
	}
	dst = append(dst, p.aminos[:min(n, most)]...)
	return strconv.AppendInt(append(dst, ".."...), int64(at+n), 10)
}
