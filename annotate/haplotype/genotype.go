package haplotype

import (
	"container/heap"
	"fmt"
)

// maskBits is how many bits of an integer of FORMAT/BCSQ are used.
const maskBits = 30

// stage adds a consequence to a site and marks the haplotypes that have its allele.
func (c *Caller) stage(s *site, x *call) {
	n := s.push(&c.memory, x)
	if s.ploidy == 0 {
		return
	}
	for sample := range c.samples {
		for h := range min(2, s.ploidy) {
			if a := s.alts[sample*s.ploidy+h]; a > 0 && a == x.allele {
				c.setMask(s, sample, 2*n+h)
			}
		}
	}
}

// mark marks the haplotypes of a finished tree at the sites of their consequences.
func (c *Caller) mark(t *tree) {
	if c.samples == 0 {
		return
	}
	for i, leaf := range t.leaves {
		if leaf == nil {
			continue
		}
		for _, x := range leaf.reported {
			if !c.setMask(x.site, i/2, 2*x.number+i%2) {
				break
			}
		}
	}
}

// setMask sets a bit of FORMAT/BCSQ; it says whether there is one of that number.
func (c *Caller) setMask(s *site, sample, bit int) bool {
	if bit >= 2*c.opts.PerHaplotype {
		c.Counts.Overflowed++
		return false
	}
	if s.masks == nil {
		s.masks = c.memory.masks.take(c.samples * c.width)
	}
	s.masksUsed = max(s.masksUsed, 1+bit/maskBits)
	s.masks[sample*c.width+bit/maskBits] |= 1 << (bit % maskBits)
	return true
}

// treeOf is the tree of a transcript.
func (c *Caller) treeOf(t *transcript) *tree {
	x := c.trees[t]
	if x == nil {
		n := max(1, 2*c.samples)
		x = c.memory.trees.one()
		x.transcript, x.leaves = t, c.memory.children.take(n)
		x.root.ends = n
		c.trees[t] = x
		heap.Push(&c.active, x)
	}
	return x
}

// growTree adds a site to the haplotypes of the transcript that e is of.
func (c *Caller) growTree(s *site, e *exon) error {
	s.keepUntil = max(s.keepUntil, e.transcript.end)
	t := c.treeOf(e.transcript)
	if c.samples == 0 {
		if !s.symbolic(1) {
			c.extend(t, s, e, 0, 1)
		}
		return nil
	}
	if s.ploidy != 1 && s.ploidy != 2 {
		c.Counts.Polyploid++
		c.claimAll(s, e.transcript)
		return nil
	}
	for sample := range c.samples {
		g, err := c.haplotypes(s, e.transcript, sample)
		if err != nil {
			return err
		}
		for h, allele := range g[:s.ploidy] {
			if allele > 0 && !s.symbolic(allele) {
				c.extend(t, s, e, 2*sample+h, allele)
			}
		}
	}
	return nil
}

// claimAll claims all alleles of a site.
func (c *Caller) claimAll(s *site, t *transcript) {
	for allele := 1; allele < len(s.alleles); allele++ {
		if !s.symbolic(allele) {
			c.claim(s, t, allele)
		}
	}
}

// haplotypes are the alleles of a sample's two haplotypes; those of one allele are on the first.
func (c *Caller) haplotypes(s *site, t *transcript, sample int) ([2]int, error) {
	var g [2]int
	copy(g[:], s.alts[sample*s.ploidy:(sample+1)*s.ploidy])
	none := [2]int{missing, missing}
	if g[0] == missing {
		return none, nil
	}
	if s.ploidy < 2 || g[1] < 0 || g[0] == g[1] {
		return g, nil
	}
	if c.opts.Phase == PhaseMerge && g[0] == 0 {
		g[0] = g[1]
	}
	if s.phased[sample] {
		return g, nil
	}
	switch c.opts.Phase {
	case PhaseRequire:
		return none, fmt.Errorf("sample %d: %w", sample+1, ErrUnphased)
	case PhaseSkip:
		for _, allele := range g {
			if allele > 0 && !s.symbolic(allele) {
				c.claim(s, t, allele)
			}
		}
		return none, nil
	case PhaseNonRef:
		if g[0] == 0 {
			g[0] = g[1]
		} else if g[1] == 0 {
			g[1] = g[0]
		}
	}
	return g, nil
}

// extend adds an allele to haplotype h.
func (c *Caller) extend(t *tree, s *site, e *exon, h, allele int) {
	parent := t.leaf(h)
	if parent.nextOf == s && parent.next[allele] != nil {
		c.claim(s, e.transcript, allele)
		t.grow(h, parent, parent.next[allele]) // another haplotype has made it
		return
	}
	n, terms, how := c.place(parent, e, s, allele)
	if how != harmless {
		c.claim(s, e.transcript, allele)
	}
	switch how {
	case collides:
		c.Counts.Colliding++
	case byPlace:
		c.stage(s, &call{terms: terms, transcript: e.transcript, allele: allele})
	case fits:
		if parent.nextOf != s {
			parent.nextOf, parent.next = s, c.memory.children.take(len(s.alleles))
		}
		parent.next[allele] = n
		parent.children = c.memory.children.append(parent.children, n)
		t.grow(h, parent, n)
	}
}

// localCoding determines the effect of each allele of a site on the protein on its own.
func (c *Caller) localCoding(s *site, e *exon) {
	t := e.transcript
	for allele := 1; allele < len(s.alleles); allele++ {
		if s.symbolic(allele) {
			continue
		}
		var root node
		n, terms, how := c.place(&root, e, s, allele)
		if how != harmless {
			c.claim(s, t, allele)
		}
		switch how {
		case byPlace:
			c.stage(s, &call{terms: terms, transcript: t, allele: allele})
		case fits:
			if c.sequenceOf != t { // the next variant is likely to be in the same transcript
				c.sequenceOf, c.sequence = t, t.codingSequence(c.sequence[:0])
			}
			c.localCall(s, t, n, c.sequence)
		}
	}
}

// localCall determines the effect of one variant on the protein.
func (c *Caller) localCall(s *site, t *transcript, n *node, ref []byte) {
	length := len(ref) - 2*pad
	end := n.offset + n.length
	f := frame{seq: n.seq, offset: n.offset, length: length + n.lengthChange, beg: n.offset, end: end, toEnd: n.lengthChange%3 != 0 && len(n.seq) > 0}
	c.buf = c.alt.translate(t, ref, &f, c.buf)
	f.seq, f.length = between(ref, pad+n.offset, pad+end), length
	c.buf = c.ref.translate(t, ref, &f, c.buf)
	a := aftermath{ref: &c.ref, alt: &c.alt, shift: n.lengthChange, local: true, terms: n.terms}
	a.evaluate()
	if a.startLost {
		c.stage(s, &call{transcript: t, allele: n.allele}) // its place has reported it
		return
	}
	x := &call{transcript: t, allele: n.allele}
	if a.terms&compound != 0 {
		refAt, altAt := n.offset/3+1, n.offset/3+1
		if !t.forward {
			refAt = (length-end)/3 + 1
			altAt = (length+n.lengthChange-n.offset-len(n.seq))/3 + 1
		}
		b := append(c.buf[:0], '|')
		b = c.appendAminos(b, refAt, a.ref)
		if a.terms&Synonymous == 0 {
			b = append(b, '>')
			b = c.appendAminos(b, altAt, a.alt)
		}
		b = append(b, '|')
		cut := len(b)
		c.buf = s.appendChange(b, n.allele)
		x.change, x.terms = c.newChange(c.buf, cut), a.terms&compound
		c.stage(s, x)
	}
	if place := a.terms &^ compound; place != 0 {
		x.terms, x.change.written = place, false
		c.stage(s, x)
	}
}
