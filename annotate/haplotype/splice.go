package haplotype

// outcome says where a variant lies to a region.
type outcome uint8

const (
	noVariant outcome = iota // the alleles are the same
	outside                  // everything there is to report has been reported
	inside                   // a coding region's sequence is to be translated
	overlaps                 // across the region's border: what it does to the sequence is not known
)

// evaluation is that of one allele of a site in one region: an exon, a coding or untranslated stretch, a
// transcript.
type evaluation struct {
	caller     *Caller
	transcript *transcript
	site       *site
	allele     int

	// What to search for.
	splice             bool // donor and acceptor
	start, stop        bool // the region's outer codon is the start, the stop
	beginning, ending  bool // the region has an intron on that side
	utr                bool // an untranslated stretch beside the region counts before splice sites
	sequence           bool // compare and keep sequences
	pos                int
	ref, alt           []byte
	rlen, alen         int // of the alleles, or of their remaining parts
	head, tail         int // bases that the alleles share at their beginnings and ends
	terms              Terms
	beg, end           int // the bases that matter
	refBases, altBases []byte
}

// at evaluates the region [beg,end].
func (l *evaluation) at(beg, end int) outcome {
	s := l.site
	l.pos, l.ref, l.alt, l.rlen = s.pos, s.alleles[0], s.alleles[l.allele], s.rlen
	l.alen = len(l.alt)
	symbolic := l.alt[0] == '<'
	l.trim(symbolic)
	left, leftAlt := l.rlen-l.head-l.tail, l.alen-l.head-l.tail
	switch {
	case l.rlen == l.alen, left > 0 && leftAlt > 0 && !symbolic && l.caller.opts.replaced:
		return l.substitution(beg, end)
	case left > 1 && leftAlt > 1 && !symbolic:
		if l.rlen > l.alen {
			l.terms |= FeatureTruncation
		} else {
			l.terms |= FeatureElongation
		}
		return l.substitution(beg, end)
	case l.rlen < l.alen:
		return l.insertion(beg, end)
	}
	return l.deletion(beg, end)
}

// trim counts the bases that the alleles share, first at the end.
func (l *evaluation) trim(symbolic bool) {
	if symbolic {
		return // its letters are no bases
	}
	r, a := l.rlen, l.alen
	for r > 0 && a > 0 && l.ref[r-1] == l.alt[a-1] {
		r, a = r-1, a-1
	}
	l.tail = l.rlen - r
	for l.head < r && l.head < a && l.ref[l.head] == l.alt[l.head] {
		l.head++
	}
}

// stage reports the terms found so far.
func (l *evaluation) stage() {
	if l.terms != 0 {
		l.caller.stage(l.site, &call{terms: l.terms, transcript: l.transcript, allele: l.allele})
		l.caller.claim(l.site, l.transcript, l.allele)
	}
}

// untranslated reports the variant as in an untranslated stretch of the transcript, if one has a base in [beg,end].
func (l *evaluation) untranslated(beg, end int) bool {
	if !l.utr {
		return false
	}
	for _, u := range l.transcript.utrs {
		if u.beg <= end && beg <= u.end {
			l.caller.claim(l.site, l.transcript, l.allele)
			l.caller.stage(l.site, &call{terms: u.term() | l.terms, transcript: l.transcript, allele: l.allele})
			return true
		}
	}
	return false
}

func (u *utr) term() Terms {
	if u.five {
		return UTR5
	}
	return UTR3
}

// siteBefore and siteAfter report changes of the splice site before and after a region.
func (l *evaluation) siteBefore() {
	switch {
	case !l.splice:
	case l.transcript.forward:
		l.terms |= SpliceAcceptor
	default:
		l.terms |= SpliceDonor
	}
}

func (l *evaluation) siteAfter() {
	switch {
	case !l.splice:
	case l.transcript.forward:
		l.terms |= SpliceDonor
	default:
		l.terms |= SpliceAcceptor
	}
}

// first and last report a variant in the first and the last codon of a region.
func (l *evaluation) first() {
	if l.beginning {
		l.terms |= SpliceRegion
	}
	if l.transcript.forward && l.start {
		l.terms |= StartLost
	}
	if !l.transcript.forward && l.stop {
		l.terms |= StopLost
	}
}

func (l *evaluation) last() {
	if l.ending {
		l.terms |= SpliceRegion
	}
	if !l.transcript.forward && l.start {
		l.terms |= StartLost
	}
	if l.transcript.forward && l.stop {
		l.terms |= StopLost
	}
}

// window sets refBases and altBases to the n bases from beg on, without and with the variant; what a deletion takes is
// filled from the right.
func (l *evaluation) window(beg, n int) {
	t := l.transcript
	rn, an := n, n
	if beg < t.beg { // exons and introns of a few bases: no real biology, but in files
		beg, rn, an = t.beg, 0, 0
	}
	l.refBases, l.altBases = l.refBases[:0], l.altBases[:0]
	used := beg - l.pos // bases of the allele that are before the window
	if used < 0 {
		l.refBases = t.appendBases(l.refBases, beg, l.pos-beg)
		l.altBases = t.appendBases(l.altBases, beg, l.pos-beg)
		used = 0
	}
	after := l.pos + l.rlen
	if used < l.rlen && len(l.refBases) < rn {
		k := min(l.rlen-used, rn-len(l.refBases))
		l.refBases = append(l.refBases, l.ref[used:used+k]...)
	}
	if have := len(l.refBases); have < rn {
		rn = min(rn, have+t.end+1-after)
		l.refBases = t.appendBases(l.refBases, after, max(0, rn-have))
	}
	if used < l.alen && len(l.altBases) < an {
		k := min(l.alen-used, an-len(l.altBases))
		l.altBases = append(l.altBases, l.alt[used:used+k]...)
		used -= k
	}
	if used < 0 {
		used = 0
	} else {
		used--
	}
	if have := len(l.altBases); have < an {
		an = min(an, have+t.end+1-after-used)
		l.altBases = t.appendBases(l.altBases, after+used, max(0, an-have))
	}
}

// unchanged reports whether n bases of the window from the given one on are there and the same with the variant.
func (l *evaluation) unchanged(from, n int) bool {
	if !l.sequence || from >= len(l.refBases) || from >= len(l.altBases) {
		return false
	}
	return string(part(l.refBases, from, n)) == string(part(l.altBases, from, n))
}

// part is up to n bases from the given one on.
func part(b []byte, from, n int) []byte {
	b = b[min(from, len(b)):]
	return b[:min(n, len(b))]
}

func (l *evaluation) insertion(beg, end int) outcome {
	if l.head > 0 || l.ref[0] != l.alt[0] {
		l.beg = l.pos + l.head - 1
	} else {
		l.tail = max(0, l.tail-1)
		l.beg = l.pos
	}
	l.end = l.pos + l.rlen - l.tail
	switch {
	case l.beg >= end:
		if !l.untranslated(l.beg+1, l.beg+1) && l.ending {
			l.insertionAfter(end)
		}
		return outside
	case l.end < beg || l.end == beg && !l.beginning:
		if !l.untranslated(l.end-1, l.end-1) && l.beginning {
			l.insertionBefore(beg)
		}
		return outside
	}
	if l.beg <= beg+2 {
		l.first()
	}
	if l.end > end-2 {
		l.last()
	}
	if l.sequence {
		l.keepInsertion(beg)
	}
	l.stage()
	return inside
}

func (l *evaluation) insertionAfter(end int) {
	if l.sequence {
		l.window(end+1, spliceRegion)
	}
	if l.beg < end+spliceRegion && l.end > end+spliceSite {
		l.terms |= SpliceRegion
		if l.unchanged(0, spliceRegion) {
			l.terms |= Synonymous
		}
	}
	if l.beg < end+spliceSite {
		l.siteAfter()
		if l.unchanged(0, spliceSite) {
			l.terms |= Synonymous
		}
	}
	l.stage()
}

func (l *evaluation) insertionBefore(beg int) {
	if l.sequence {
		l.window(beg-spliceRegion, spliceRegion)
	}
	if l.end > beg-spliceRegion && l.beg < beg-spliceSite {
		l.terms |= SpliceRegion
		if l.unchanged(0, spliceRegion) {
			l.terms |= Synonymous
		}
	}
	if l.end > beg-spliceSite {
		l.siteBefore()
		if l.unchanged(spliceRegion-spliceSite, spliceSite) {
			l.terms |= Synonymous
		}
	}
	l.stage()
}

// keepInsertion keeps the alleles without what they share, but so that the variant does not end up to the left of its
// record.
func (l *evaluation) keepInsertion(beg int) {
	if l.beg < l.pos {
		l.head++
		if l.head+l.tail == l.rlen {
			l.tail--
		}
		l.beg = l.pos
	}
	if l.end == beg {
		l.tail-- // the reference allele may not be empty
	}
	l.window(l.beg, l.alen-l.tail-l.head+1)
	l.rlen -= l.tail + l.head - 1
	l.refBases = l.refBases[:min(len(l.refBases), max(0, l.rlen))]
}

// startMovesOn reports whether bases that a deletion takes from the start codon are replaced by the same ones beside
// it.
func (l *evaluation) startMovesOn(beg, end int) bool {
	t := l.transcript
	if t.forward && l.pos >= beg+3 || !t.forward && l.pos+l.rlen+2 <= end {
		return false
	}
	gone := l.ref[min(l.alen, len(l.ref)):]
	from := l.pos + len(l.ref)
	if t.forward {
		from -= 2 * len(gone)
		if from < 0 || from+pad < beg {
			return false
		}
	} else if from-1+len(gone) > t.end+pad {
		return false
	}
	for i, b := range gone {
		if t.base(from+i) != b {
			return false
		}
	}
	return true
}

func (l *evaluation) deletion(beg, end int) outcome {
	if l.start && l.startMovesOn(beg, end) {
		l.terms |= StartRetained
		return overlaps
	}
	l.beg = l.pos + l.head - 1          // the base before those deleted
	l.end = l.pos + l.rlen - l.tail - 1 // the last of them
	if l.beg+1 < beg && !l.deletionBefore(beg) {
		return overlaps
	}
	if end < l.end {
		l.deletionAfter(end)
	}
	if l.end < beg || l.beg >= end {
		l.stage()
		return outside
	}
	if l.beg < beg+2 {
		l.first()
	}
	if l.end > end-3 {
		l.last()
	}
	if l.sequence && !l.keepDeletion(beg, end) {
		return overlaps
	}
	l.stage()
	return inside
}

// deletionBefore reports the part of a deletion before a region. It is false if there is nothing else to report.
func (l *evaluation) deletionBefore(beg int) bool {
	if l.beginning && !l.untranslated(l.beg, beg-1) {
		if l.sequence {
			l.window(beg-spliceRegion, spliceRegion)
		}
		if l.end >= beg-spliceRegion && l.beg < beg-spliceSite {
			l.terms |= SpliceRegion
			if l.unchanged(0, spliceRegion) {
				l.terms |= Synonymous
			}
		}
		if l.end >= beg-spliceSite {
			l.siteBefore()
			if l.unchanged(spliceRegion-spliceSite, spliceSite) {
				l.terms |= Synonymous
			}
		}
	}
	if l.end < beg {
		return true
	}
	l.head = l.beg - l.pos + 1
	l.beg = beg - 1
	if l.head+l.tail != l.alen {
		return true
	}
	if l.tail == 0 {
		l.terms |= CodingSequence
		return false
	}
	l.tail--
	return true
}

// deletionAfter reports the part of a deletion after a region.
func (l *evaluation) deletionAfter(end int) {
	if l.ending && !l.untranslated(end+1, l.end) {
		if l.sequence {
			l.window(end+1, spliceRegion)
		}
		if l.beg < end+spliceRegion && l.end > end+spliceSite {
			l.terms |= SpliceRegion
			if l.unchanged(0, spliceRegion) {
				l.terms |= Synonymous
			}
		}
		if l.beg < end+spliceSite {
			l.siteAfter()
			if l.unchanged(spliceRegion-spliceSite, spliceSite) {
				l.terms |= Synonymous
			}
		}
	}
	if l.beg < end {
		l.tail = l.rlen - (l.end - l.pos + 1)
		l.end = end
	}
}

// keepDeletion keeps the alleles without what they share. It is false if the deletion goes across the region's border.
func (l *evaluation) keepDeletion(beg, end int) bool {
	if l.head > 0 {
		l.head-- // the base before the deletion stays
	}
	if shared := l.head + l.tail; l.rlen > shared && l.alen > shared {
		l.rlen -= shared
		l.alen -= shared
	}
	l.refBases = append(l.refBases[:0], part(l.ref, l.head, l.rlen)...)
	l.altBases = append(l.altBases[:0], part(l.alt, l.head, l.alen)...)
	if !(l.beg+1 < beg && l.end >= beg || l.beg+1 < end && l.end >= end) {
		return true
	}
	switch from := l.beg + len(l.altBases) - 1; {
	case from >= l.end:
	case (l.end-from)%3 != 0:
		l.terms |= Frameshift
	default:
		l.terms |= InframeDeletion
	}
	return false
}

func (l *evaluation) substitution(beg, end int) outcome {
	if l.head+l.tail == l.rlen {
		return noVariant
	}
	l.beg = l.pos + l.head
	l.end = l.pos + l.rlen - l.tail - 1
	result := inside
	if l.beg < beg {
		if l.beginning && !l.untranslated(l.beg, beg-1) {
			if l.end >= beg-spliceRegion && l.beg < beg-spliceSite {
				l.terms |= SpliceRegion
			}
			if l.end >= beg-spliceSite {
				l.siteBefore()
			}
		}
		if l.end >= beg {
			l.head = l.beg - l.pos
			l.beg = beg
			result = overlaps
		}
	}
	if end < l.end {
		if l.ending && !l.untranslated(end+1, l.end) {
			if l.beg <= end+spliceRegion && l.end > end+spliceSite {
				l.terms |= SpliceRegion
			}
			if l.beg <= end+spliceSite {
				l.siteAfter()
			}
		}
		if l.beg <= end {
			l.tail = l.rlen - (l.end - l.pos + 1)
			l.end = end
			result = overlaps
		}
	}
	if l.end < beg || l.beg > end {
		l.stage()
		return outside
	}
	if l.beg < beg+3 {
		l.first()
	}
	if l.end > end-3 {
		l.last()
	}
	if l.sequence {
		l.rlen -= l.head + l.tail
		l.alen -= l.head + l.tail
		l.refBases = append(l.refBases[:0], part(l.ref, l.head, l.rlen)...)
		l.altBases = append(l.altBases[:0], part(l.alt, l.head, l.alen)...)
	}
	l.stage()
	return result
}
