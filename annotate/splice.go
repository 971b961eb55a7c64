package annotate

// The windows of splice terms around an intron, in bases, as VEP and the Sequence Ontology have them.
const (
	essentialSite    = 2  // first and last bases of an intron
	regionInExon     = 3  // splice region: last or first bases of the exon
	regionInIntron   = 8  // splice region: up to this base of the intron
	polypyrimidine   = 17 // the tract reaches up to this base from the acceptor side
	longestNoIntron  = 13 // a gap in the exons of at most this length is no intron but a repair of the reading frame
	fifthBase        = 5
	donorRegionFirst = 3
	donorRegionLast  = 6
)

// spliceEffect is what a variant touches around introns.
type spliceEffect struct {
	donor, acceptor, fifth, donorRegion, polypyrimidine, region, intron bool
	frameIntron                                                         bool // touches a gap too short to be an intron
}

// introns notes the introns touched and adds the splice terms and intron_variant.
func (e *effect) introns(v *variant) spliceEffect {
	var s spliceEffect
	t := e.t
	for i := 1; i < len(t.exons); i++ {
		start, end := t.exons[i-1].end, t.exons[i].start
		if !t.forward {
			start, end = t.exons[i].end, t.exons[i-1].start
		}
		if v.end < start-regionInExon || v.start > end+regionInExon {
			continue
		}
		touches := v.overlaps(start, end)
		if touches {
			if e.intronFirst == 0 {
				e.intronFirst = i
			}
			e.intronLast = i
		}
		if end-start <= longestNoIntron {
			s.frameIntron = s.frameIntron || touches
			continue
		}
		v.regions(func(from, to int) { s.at(t.forward, start, end, from, to) })
	}
	e.terms.addIf(s.donor, spliceDonor)
	e.terms.addIf(s.acceptor, spliceAcceptor)
	essential := s.donor || s.acceptor
	e.terms.addIf(s.fifth, spliceDonor5thBase)
	e.terms.addIf(s.donorRegion && !s.fifth, spliceDonorRegion)
	e.terms.addIf(s.polypyrimidine, splicePolypyrimidine)
	e.terms.addIf(s.region && !essential && !s.fifth && !s.donorRegion, spliceRegion)
	e.terms.addIf(s.intron, intron)
	return s
}

// at adds what the change of bases [from,to) touches around the intron [start,end).
func (s *spliceEffect) at(forward bool, start, end, from, to int) {
	in := func(a, b int) bool {
		if from == to {
			return from > a && from < b
		}
		return from < b && to > a
	}
	// donorIn and acceptorIn test bases first to last of the intron, counted from 1 at its own edge.
	// In a short intron a window ends where the intron does.
	fromStart := func(first, last int) bool { return in(start+first-1, min(start+last, end)) }
	fromEnd := func(first, last int) bool { return in(max(end-last, start), end-first+1) }
	donorIn, acceptorIn := fromStart, fromEnd
	if !forward {
		donorIn, acceptorIn = fromEnd, fromStart
	}
	s.donor = s.donor || donorIn(1, essentialSite)
	s.acceptor = s.acceptor || acceptorIn(1, essentialSite)
	s.fifth = s.fifth || donorIn(fifthBase, fifthBase)
	s.donorRegion = s.donorRegion || donorIn(donorRegionFirst, donorRegionLast)
	s.polypyrimidine = s.polypyrimidine || acceptorIn(essentialSite+1, polypyrimidine)

	edge := from == to && (from == start || from == end || from == start+essentialSite || from == end-essentialSite)
	s.region = s.region || edge ||
		fromStart(essentialSite+1, regionInIntron) || fromEnd(essentialSite+1, regionInIntron) ||
		in(start-regionInExon, start) || in(end, end+regionInExon)
	s.intron = s.intron || in(start+essentialSite, end-essentialSite) ||
		from == to && (from == start+essentialSite || from == end-essentialSite)
}
