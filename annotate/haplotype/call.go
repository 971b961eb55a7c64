package haplotype

import (
	"bytes"
	"strconv"
)

// change is what a compound does to the protein and the variants that it is made of, as written. A change can be known
// and yet not be written with a consequence.
type change struct {
	text           []byte // "|5TY>5I|121ACG>A+124TA>T"
	cut            int    // where its second half begins
	known, written bool
}

// aminos and bases are the two halves of the text.
func (c *change) aminos() string { return string(c.text[1 : c.cut-1]) }

func (c *change) bases() string { return string(c.text[c.cut:]) }

// call is one consequence at a site.
type call struct {
	terms      Terms
	transcript *transcript
	allele     int   // number of the alternate allele; 0: not of one
	elsewhere  *site // where the consequence is written, if terms has printedElsewhere; it may have left, and has its position then
	change     change
	members    []*site // of the compound, in the order of positions; nil for one variant on its own
}

// shown are the terms as they are written.
func (c *call) shown() Terms {
	t := c.terms
	// Starts and stops of incomplete coding sequences aren't worth reporting where there is another consequence.
	if t&incompleteCDS != 0 && t&^(startStop|incompleteCDS|UpstreamStop) != 0 {
		t &^= startStop | incompleteCDS
	}
	if t&startStop != 0 {
		t &^= Missense
	}
	return t
}

// append appends the consequence as one value of INFO/BCSQ.
func (c *call) append(dst []byte) []byte {
	t := c.shown()
	if t&printedElsewhere != 0 && c.elsewhere != nil {
		return strconv.AppendInt(append(dst, '@'), int64(c.elsewhere.pos+1), 10)
	}
	tr := c.transcript
	if t&UpstreamStop != 0 {
		dst = append(dst, '*')
	}
	dst, any := t.append(dst)
	if tr.biotype.decay && t&^(Intron|NonCoding) != 0 {
		if any {
			dst = append(dst, '&')
		}
		dst = append(dst, "NMD_transcript"...)
	}
	dst = append(dst, '|')
	dst = append(dst, tr.geneText...)
	dst = append(dst, '|')
	if t&^(Intron|NonCoding) != 0 {
		dst = append(dst, tr.idText...)
	}
	dst = append(dst, '|')
	dst = append(dst, tr.biotype.name...)
	if t&compound != 0 && t&places == 0 || c.change.written {
		dst = append(dst, '|', tr.strand())
	}
	if c.change.written {
		dst = append(dst, c.change.text...)
	}
	return dst
}

func (t *transcript) strand() byte {
	if t.forward {
		return '+'
	}
	return '-'
}

// sharesLine reports whether calls of c and d can be one value although they may be of different transcripts: those
// without a transcript's name can.
func (c *call) sharesLine(d *call) bool {
	return c.transcript == d.transcript || (c.terms|d.terms)&^(Intron|NonCoding) == 0
}

// push adds a consequence to the site's, or merges it into one of them. It returns its number.
func (s *site) push(m *memory, c *call) int {
	terms := c.terms
	if terms&FeatureElongation != 0 {
		terms &^= InframeInsertion
	}
	if terms&FeatureTruncation != 0 {
		terms &^= InframeDeletion
	}
	if terms&(SpliceDonor|SpliceAcceptor) != 0 {
		terms &^= SpliceRegion
	}
	own := *c
	own.terms = terms
	for i := range s.calls {
		if s.calls[i].absorb(&own) {
			return i
		}
	}
	s.calls = m.calls.append(s.calls, own)
	return len(s.calls) - 1
}

// absorb makes later part of c if they are one value.
func (c *call) absorb(later *call) bool {
	switch {
	case later.terms&printedElsewhere != 0:
		if later.terms&startStop != 0 && c.terms&startStop != 0 {
			*c = *later // the start or stop is reported where the compound is
			return true
		}
		return c.terms&printedElsewhere != 0 && later.elsewhere == c.elsewhere
	case later.terms&compound != 0:
		return c.absorbCompound(later)
	}
	if !later.sharesLine(c) || later.transcript.biotype != c.transcript.biotype {
		return false
	}
	if c.terms&compound == 0 {
		c.terms |= later.terms
		return true
	}
	return c.terms|later.terms == c.terms
}

// absorbCompound is absorb for changes of the protein.
func (c *call) absorbCompound(later *call) bool {
	if !later.sharesLine(c) || later.transcript.biotype != c.transcript.biotype || later.transcript.geneID != c.transcript.geneID ||
		later.allele != c.allele || (later.terms^c.terms)&UpstreamStop != 0 {
		return false
	}
	if later.change.known != c.change.known {
		// The place of a variant can already have given a start or stop that its translation gives again.
		if later.terms&startStop == 0 || c.terms&startStop == 0 {
			return false
		}
		c.terms |= later.terms
		if c.terms&StopRetained != 0 {
			c.terms &^= StopLost | Synonymous
		}
		if c.terms&StartRetained != 0 {
			c.terms &^= StartLost | Synonymous
		}
		if !c.change.known {
			c.change, c.members = later.change, later.members
		}
		return true
	}
	if !bytes.Equal(later.change.text, c.change.text) {
		return false
	}
	c.terms |= later.terms
	return true
}
