package stage

import (
	"cmp"
	"slices"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/stream/streampb"
)

// Haplotypes determines the effects of alleles together.
type Haplotypes interface {
	// Locus is the least stretch around [start,end) of a contig such that no allele
	// outside shares a transcript with one inside. Inter-residue coordinates.
	Locus(contig string, start, end int) (int, int)
	// Together returns, for each of the alleles that one haplotype carries, in the
	// order of their positions, what it does together with others of them; nothing
	// for those that act alone.
	Together(contig string, alleles []event.Allele) ([][]event.Compound, error)
}

// neighbours knows which alleles stand on the contigs of samples, so that a
// revision of one can state how it changes the others: two changes of one
// codon are one amino acid, and a second frameshift may give the frame back.
//
// All calls of a contig of a sample are on one partition, and the published events
// are a function of their sequence there: a process that replays it continues with
// the same revision numbers.
type neighbours struct {
	haplotypes Haplotypes // nil: alleles are never taken together
	twice      bool       // a revision leaves the number behind its own free, for the same with scores
	contigs    map[contigKey]*contig
	sections   map[string]*contig // by the names of their sections
}

type contigKey struct{ sample, contig string }

// contig is what stands on one.
type contig struct {
	key     contigKey
	alleles []*standing           // by place
	carried []*streampb.CarryOver // the newest assessments, by place
	version uint64                // counts its changes
}

// standing is an allele that was called.
type standing struct {
	call      *streampb.Call // the newest revision of the call
	carried   bool           // carry-over explains it, by the newest assessment
	revision  uint64         // of the newest event
	compounds []event.Compound
}

// revision is an event to be published.
type revision struct {
	call      *streampb.Call
	number    uint64
	compounds []event.Compound
}

// span is the reference that the allele replaces, inter-residue.
func (s *standing) span() (int, int) {
	start := int(s.call.GetPos()) - 1
	return start, start + len(s.call.GetRef())
}

// joins reports whether the allele is taken together with its neighbours: it passed
// all filters, that of carry-over included, which may come and go, and every haplotype
// of the sample carries it. Which haplotype a heterozygous allele is on is not known
// without a phase.
func (s *standing) joins() bool {
	c := s.call
	if c.GetStatus() == streampb.CallStatus_RETRACTED || len(c.GetFilters()) > 0 || s.carried || len(c.GetGenotype()) == 0 {
		return false
	}
	return !slices.ContainsFunc(c.GetGenotype(), func(n uint32) bool { return n != 1 })
}

// compare orders alleles by place.
func (s *standing) compare(o *standing) int { return comparePlaces(s.call, o.call) }

// placed is what is said of an allele of a contig.
type placed interface {
	GetPos() int64
	GetRef() string
	GetAlt() string
}

// comparePlaces orders by place.
func comparePlaces[A, B placed](a A, b B) int {
	return cmp.Or(cmp.Compare(a.GetPos(), b.GetPos()), cmp.Compare(a.GetRef(), b.GetRef()), cmp.Compare(a.GetAlt(), b.GetAlt()))
}

// apply takes a revision of a call and returns the revisions to be published: its
// own first, then those of neighbours that it makes do something else. A revision
// that was there before gives none. With an error the neighbours are left as they
// were, and the call's own revision holds.
func (n *neighbours) apply(c *streampb.Call) ([]revision, error) {
	key := contigKey{c.GetSample(), c.GetContig()}
	on := n.at(key)
	own := &standing{call: c}
	at, known := slices.BinarySearchFunc(on.alleles, own, (*standing).compare)
	joined := false
	if known {
		own = on.alleles[at]
		if c.GetRevision() <= own.call.GetRevision() {
			return nil, nil
		}
		joined = own.joins()
		own.call = c
	} else {
		own.carried = on.explained(c)
		on.alleles = slices.Insert(on.alleles, at, own)
	}
	return n.revise(on, own, joined)
}

// revise returns the revisions that follow from a change of an allele: its own, and those
// of neighbours that it makes do something else. joined: it was taken together with them.
func (n *neighbours) revise(on *contig, own *standing, joined bool) ([]revision, error) {
	on.version++
	var changed []*standing
	var err error
	if n.haplotypes != nil && (joined || own.joins()) {
		changed, err = n.recompute(on.alleles, own)
	}
	revisions := []revision{own.next(n.twice)}
	for _, s := range changed {
		if s != own {
			revisions = append(revisions, s.next(n.twice))
		}
	}
	return revisions, err
}

// at is the contig of a sample.
func (n *neighbours) at(key contigKey) *contig {
	on := n.contigs[key]
	if on == nil {
		if n.contigs == nil {
			n.contigs, n.sections = make(map[contigKey]*contig), make(map[string]*contig)
		}
		on = &contig{key: key}
		n.contigs[key], n.sections[key.section()] = on, on
	}
	return on
}

// next is the next event about the allele.
func (s *standing) next(twice bool) revision {
	// A neighbour may have taken the event's number ahead of the call's.
	number := max(s.revision+1, s.call.GetRevision())
	s.revision = number
	if twice {
		s.revision++
	}
	return revision{s.call, number, s.compounds}
}

// recompute brings the compounds of the locus around own up to date and returns
// the alleles for which they are others than before.
func (n *neighbours) recompute(alleles []*standing, own *standing) ([]*standing, error) {
	if !own.joins() {
		own.compounds = nil
	}
	contig := own.call.GetContig()
	from, to := own.span()
	var locus []*standing
	// A long deletion may reach into the next locus, and join the two.
	for {
		start, end := n.haplotypes.Locus(contig, from, to)
		locus = locus[:0]
		for _, s := range alleles {
			first, last := s.span()
			if first > end {
				break
			}
			if last < start || !s.joins() {
				continue
			}
			locus = append(locus, s)
			start, end = min(start, first), max(end, last)
		}
		if start >= from && end <= to {
			break
		}
		from, to = min(from, start), max(to, end)
	}
	joined := make([]event.Allele, len(locus))
	for i, s := range locus {
		joined[i] = event.AlleleOf(s.call)
	}
	together, err := n.haplotypes.Together(contig, joined)
	if err != nil {
		return nil, err
	}
	var changed []*standing
	for i, s := range locus {
		if !slices.EqualFunc(s.compounds, together[i], event.Compound.Equal) {
			s.compounds = together[i]
			changed = append(changed, s)
		}
	}
	return changed, nil
}
