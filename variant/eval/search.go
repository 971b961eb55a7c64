package eval

import (
	"encoding/binary"
	"slices"
)

// search finds which atoms of the truth and of the query, played onto the reference, give the same haplotypes.
//
// It walks along the reference, slot by slot, with all the paths that are possible so far. A path has decided
// for each atom behind it whether it is played, and on which haplotype. For each haplotype it keeps what one
// side has spelled beyond the other; a path on which the two sides contradict each other is dropped at that
// base. Paths that the rest of the walk cannot distinguish are one: the better is kept. So the search is
// exact, and in practice short, since a wrong choice seldom lives longer than a repeat.
//
// Where a path has spelled the same for both sides on all haplotypes it is in step, and a segment ends. Atoms of a
// segment are matched as a whole; one to which only one side has contributed (an insertion and a deletion that undo
// each other) has nothing to be compared with and ends its path.
type search struct {
	seq        []byte
	haplotypes int // 2, or 1 to compare alleles
	maxPaths   int

	paths, next []*path
	index       map[string]int
	key         []byte
}

// path is a way through the atoms behind it.
type path struct {
	busy   [2][2]int // by side and haplotype: the slot from which on the reference is to be spelled again
	tail   [2][]byte // by haplotype: what the side that is ahead has spelled and the other has not
	ahead  [2]side
	groups []uint8 // by number of the linkage group: free, asGiven or swapped
	has    [2]bool // sides that have an atom in the open segment

	played  int // atoms
	exact   int // pairs of atoms of both sides that are spelled alike
	segment int
	last    *step
}

// step is an atom that a path plays.
type step struct {
	before  *step
	atom    int
	segment int
	swapped bool
}

// Orientations of a linkage group.
const (
	free uint8 = iota
	asGiven
	swapped
)

// played is an atom that the best path plays.
type played struct {
	atom    int // index
	segment int
	swapped bool
}

// run returns the largest set of atoms that match, in playing order; ok is false if the search was given up.
func (s *search) run(atoms []*atom) (best []played, ok bool) {
	if best, ok = s.walk(atoms); ok {
		best = s.withoutIdle(atoms, best)
	}
	return best, ok
}

// walk returns the atoms of the best path.
func (s *search) walk(atoms []*atom) (best []played, ok bool) {
	groups, last := number(atoms)
	s.paths = append(s.paths[:0], &path{groups: make([]uint8, len(last))})
	at := 0
	for i, a := range atoms {
		if slot := a.slot(); i == 0 || slot > at {
			if i > 0 {
				s.advance(at, slot)
			}
			at = slot
		}
		s.choose(atoms, i, groups[i])
		for g, l := range last {
			if l == i {
				for _, p := range s.paths {
					p.groups[g] = free // nothing depends on it any more
				}
			}
		}
		s.unite(at)
		if len(s.paths) > s.maxPaths {
			return nil, false
		}
	}
	end := at
	for _, a := range atoms {
		end = max(end, a.stop())
	}
	s.advance(at, end)
	var winner *path
	for _, p := range s.paths {
		if p.inStep(end) && (winner == nil || p.better(winner)) {
			winner = p
		}
	}
	for st := winner.last; st != nil; st = st.before {
		best = append(best, played{st.atom, st.segment, st.swapped})
	}
	slices.Reverse(best)
	return best, true
}

// number gives each linkage group with several heterozygous atoms a number. groups has that of each atom, or -1; last
// the last atom of each group.
func number(atoms []*atom) (groups, last []int) {
	type identity struct {
		side  side
		group int
	}
	count := make(map[identity]int)
	for _, a := range atoms {
		if a.het() {
			count[identity{a.call.side, a.group}]++
		}
	}
	numbers := make(map[identity]int)
	groups = make([]int, len(atoms))
	for i, a := range atoms {
		groups[i] = -1
		id := identity{a.call.side, a.group}
		if !a.het() || count[id] < 2 {
			continue
		}
		n, known := numbers[id]
		if !known {
			n = len(last)
			numbers[id] = n
			last = append(last, 0)
		}
		groups[i], last[n] = n, i
	}
	return groups, last
}

// advance spells the reference from one slot to another and drops the paths that it contradicts.
func (s *search) advance(from, to int) {
	kept := s.paths[:0]
	for _, p := range s.paths {
		if p.spell(s.seq, s.haplotypes, from, to) && p.closeSegment(to) {
			kept = append(kept, p)
		}
	}
	s.paths = kept
	s.unite(to)
}

// spell spells the reference on all haplotypes and reports whether the sides agree.
func (p *path) spell(seq []byte, haplotypes, from, to int) bool {
	if p.inStep(from) {
		return true // and stays so
	}
	for o := from | 1; o < to; o += 2 {
		for h := range haplotypes {
			for sd := range p.busy {
				if o >= p.busy[sd][h] && !p.emit(h, side(sd), seq[o/2]) {
					return false
				}
			}
		}
	}
	return true
}

// emit appends a base to a side's haplotype and reports whether the sides agree.
func (p *path) emit(h int, sd side, base byte) bool {
	t := p.tail[h]
	if len(t) == 0 || p.ahead[h] == sd {
		p.tail[h], p.ahead[h] = append(t, base), sd
		return true
	}
	p.tail[h] = t[1:]
	return t[0] == base
}

// inStep reports whether both sides have spelled the same and nothing of the reference behind slot is
// skipped.
func (p *path) inStep(slot int) bool {
	return len(p.tail[0]) == 0 && len(p.tail[1]) == 0 &&
		max(p.busy[0][0], p.busy[0][1], p.busy[1][0], p.busy[1][1]) <= slot
}

// closeSegment ends a segment where the sides are in step; it reports whether that is allowed.
func (p *path) closeSegment(slot int) bool {
	if !p.inStep(slot) {
		return true
	}
	if p.has[truth] != p.has[query] {
		return false
	}
	if p.has[truth] {
		p.segment++
	}
	p.has = [2]bool{}
	return true
}

// choose lets every path leave atom i out, or play it.
func (s *search) choose(atoms []*atom, i, group int) {
	a := atoms[i]
	s.next = s.next[:0]
	for _, p := range s.paths {
		s.next = append(s.next, p)
		for _, orientation := range [...]uint8{asGiven, swapped} {
			switch {
			case orientation == swapped && (s.haplotypes == 1 || !a.het()):
				continue
			case group >= 0 && s.haplotypes == 2 && p.groups[group] != free && p.groups[group] != orientation:
				continue
			}
			if q := p.play(atoms, i, s.mask(a, orientation)); q != nil {
				if group >= 0 {
					q.groups[group] = orientation
				}
				q.last = &step{before: p.last, atom: i, segment: q.segment, swapped: orientation == swapped}
				s.next = append(s.next, q)
			}
		}
	}
	s.paths, s.next = s.next, s.paths
}

// mask is the set of haplotypes on which the atom is played.
func (s *search) mask(a *atom, orientation uint8) uint8 {
	switch {
	case s.haplotypes == 1:
		return 1
	case a.ploidy != 2:
		return 3 // both haplotypes of the walk stand for the one there is
	case orientation == swapped:
		return a.haplotypes>>1 | a.haplotypes&1<<1
	}
	return a.haplotypes
}

// play returns p with atom i on the haplotypes of mask, or nil if that cannot be.
func (p *path) play(atoms []*atom, i int, mask uint8) *path {
	a := atoms[i]
	sd := a.call.side
	for h := range 2 {
		if mask>>h&1 == 1 && a.slot() < p.busy[sd][h] {
			return nil
		}
	}
	q := new(path)
	*q = *p
	q.groups = slices.Clone(p.groups)
	for h := range 2 {
		q.tail[h] = slices.Clone(p.tail[h])
		if mask>>h&1 == 0 {
			continue
		}
		q.busy[sd][h] = a.stop()
		for j := range len(a.alt) {
			if !q.emit(h, sd, a.alt[j]) {
				return nil
			}
		}
	}
	q.has[sd] = true
	q.played++
	if p.last != nil && p.last.atom == i-1 && atoms[i-1].call.side != sd && a.compare(atoms[i-1]) == 0 {
		q.exact++
	}
	return q
}

// unite keeps the best of the paths that no atom behind slot can distinguish.
func (s *search) unite(slot int) {
	if len(s.paths) < 2 {
		return
	}
	if s.index == nil {
		s.index = make(map[string]int)
	}
	clear(s.index)
	kept := s.paths[:0]
	for _, p := range s.paths {
		s.key = p.appendKey(s.key[:0], slot)
		if i, known := s.index[string(s.key)]; known {
			if p.better(kept[i]) {
				kept[i] = p
			}
			continue
		}
		s.index[string(s.key)] = len(kept)
		kept = append(kept, p)
	}
	s.paths = kept
}

// appendKey appends what distinguishes the path for the rest of the walk.
func (p *path) appendKey(b []byte, slot int) []byte {
	for h := range p.tail {
		for sd := range p.busy {
			b = binary.AppendUvarint(b, uint64(max(0, p.busy[sd][h]-slot)))
		}
		b = binary.AppendUvarint(b, uint64(len(p.tail[h])))
		if len(p.tail[h]) > 0 {
			b = append(append(b, byte(p.ahead[h])), p.tail[h]...)
		}
		b = append(b, flag(p.has[h]))
	}
	return append(b, p.groups...)
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// better reports whether p is to be preferred: the one that plays more atoms, then more that are spelled
// alike, then the one that plays the first atom in which they differ. None of it depends on which side is the
// truth.
func (p *path) better(q *path) bool {
	if p.played != q.played {
		return p.played > q.played
	}
	if p.exact != q.exact {
		return p.exact > q.exact
	}
	var first bool
	x, y := p.last, q.last
	for x != y { // from the last to the first: what is seen last decides
		switch {
		case y == nil || x != nil && x.atom > y.atom:
			first, x = true, x.before
		case x == nil || y.atom > x.atom:
			first, y = false, y.before
		default:
			x, y = x.before, y.before
		}
	}
	return first
}

// withoutIdle leaves out what the larger set owes to nothing that it is compared with: an insertion and a deletion of one
// side that undo each other around atoms that are matched. As many of them as the other side has too may stay.
func (s *search) withoutIdle(atoms []*atom, best []played) []played {
	for first := 0; first < len(best); {
		end := first
		for end < len(best) && best[end].segment == best[first].segment {
			end++
		}
		if end-first > 3 { // a pair of one side and an atom of each
			var idle [2][][2]int
			for sd := range idle {
				idle[sd] = s.idle(atoms, best[first:end], side(sd))
			}
			both := min(len(idle[truth]), len(idle[query]))
			drop := make(map[int]bool)
			for sd := range idle {
				for _, pair := range idle[sd][both:] {
					drop[pair[0]], drop[pair[1]] = true, true
				}
			}
			if len(drop) > 0 {
				kept := choosePlayed(best[first:end], func(p played) bool { return !drop[p.atom] })
				sides := [2]bool{}
				for _, p := range kept {
					sides[atoms[p.atom].call.side] = true
				}
				if sides[truth] && sides[query] {
					best = slices.Concat(best[:first], kept, best[end:])
					end = first + len(kept)
				}
			}
		}
		first = end
	}
	return best
}

func choosePlayed(list []played, is func(played) bool) []played {
	var chosen []played
	for _, p := range list {
		if is(p) {
			chosen = append(chosen, p)
		}
	}
	return chosen
}

// idle lists pairs of an insertion and a deletion of one side in a segment without which its haplotypes are the same.
func (s *search) idle(atoms []*atom, segment []played, sd side) (pairs [][2]int) {
	mine := choosePlayed(segment, func(p played) bool { return atoms[p.atom].call.side == sd })
	for again := true; again; {
		again = false
		for i := range mine {
			for j := range i {
				a, b := atoms[mine[i].atom], atoms[mine[j].atom]
				if a.lengthChange() == 0 || a.lengthChange()+b.lengthChange() != 0 || s.playedMask(a, mine[i]) != s.playedMask(b, mine[j]) {
					continue
				}
				rest := slices.Concat(mine[:j], mine[j+1:i], mine[i+1:])
				start, end := span(atoms, mine)
				if s.spelled(atoms, mine, start, end) == s.spelled(atoms, rest, start, end) {
					pairs = append(pairs, [2]int{mine[j].atom, mine[i].atom})
					mine, again = rest, true
					break
				}
			}
			if again {
				break
			}
		}
	}
	return pairs
}

func (s *search) playedMask(a *atom, p played) uint8 {
	if p.swapped {
		return s.mask(a, swapped)
	}
	return s.mask(a, asGiven)
}

// span is the stretch of the reference that atoms replace.
func span(atoms []*atom, list []played) (start, end int) {
	start, end = atoms[list[0].atom].start, 0
	for _, p := range list {
		start, end = min(start, atoms[p.atom].start), max(end, atoms[p.atom].end)
	}
	return start, end
}

// spelled is the sequences of both haplotypes from start to end with atoms of one side played.
func (s *search) spelled(atoms []*atom, list []played, start, end int) [2]string {
	var haplotypes [2]string
	for h := range haplotypes {
		var b []byte
		at := start
		for _, p := range list {
			a := atoms[p.atom]
			if s.playedMask(a, p)>>h&1 == 0 {
				continue
			}
			b = append(b, s.seq[at:a.start]...)
			b = append(b, a.alt...)
			at = a.end
		}
		haplotypes[h] = string(append(b, s.seq[at:end]...))
	}
	return haplotypes
}
