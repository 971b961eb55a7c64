// Package motif finds the motifs that a genome's modifications are at, such as GATC and CCWGG of E. coli, by what reads say of
// each position.
//
// # How
//
// Problem: methyltransferases modify a base wherever their motif is. Which motifs a strain has isn't known, and
// callers err at some share of all bases.
//
// Assumptions: a motif is at most [Reach] bases to either side of the modified base, with or without a gap; most of its places are
// modified in most molecules; errors are not at most places of any motif.
//
// Strategy: a place is modified if most of its calls say so. From the bare base, motifs grow by the base beside or farther
// away that sets modified places apart best, by a likelihood ratio (G) against all places; a beam of the best is kept. The motif
// with the highest G among those of which most places are modified is taken, and then made wider where what is added is
// modified as often, or narrower where a part of it is not; where the same sequence of the other strand is modified, too, that is a motif. Its places are taken out, and the search begins anew.
//
// Consequences: motifs are a function of the counts. One with fewer than MinSites covered places isn't found,
// nor one that is modified in few molecules. Of a motif with a gap each letter alone is weak evidence: where
// a caller errs often, a genome of some megabases with hundreds of its places may be too small for it. A
// caller that errs at most places of some sequence makes a motif of it: nothing in the counts distinguishes
// the two. If a caller evaluates a modification only at a motif, such as CG, that motif is a part of all
// motifs that are found.
package motif

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/pileup"
)

// Reach is how far from the modified base a motif extends at most.
const Reach = 14

const (
	width = 2*Reach + 1 // letters around a base and itself
	every = 15          // the set of all bases
	// beam is how many motifs of a length are followed, and mostFixed how many letters are at most.
	beam, mostFixed = 48, 8
	// leastG is the least evidence for a motif: by chance there is one in none of some ten billion words.
	leastG = 60
	// leastLetterG is the least evidence for each letter of a motif, against the places without it: what is picked among
	// the words around places where a caller errs often has less.
	leastLetterG = 30
	// apart is how large the share of what is added to a motif must be, of the motif's own, and below which part of
	// a motif isn't of it.
	apart = 0.75
	// leastPart is how many places such a part has at least.
	leastPart = 10
	// fewPlaces are too few to know that a caller evaluates no place with a base.
	fewPlaces = 200
	// plain bounds the unmodified places that are searched; the others are counted in proportion.
	plain = 1 << 19
)

// Config says what a motif is. The zero value is a good default.
type Config struct {
	// MinCoverage is how many calls a place needs to count; 0 means 3.
	MinCoverage int
	// MinShare is the least share of a motif's places that are modified; 0 means 0.6.
	MinShare float64
	// MinSites is how many covered places a motif has at least; 0 means 20.
	MinSites int
	// MaxPlaces bounds the places of a modification that are kept, 12 bytes each; beyond it a hash decides
	// which are; 0 means 8 Mi.
	MaxPlaces int
}

// Finder collects what reads say of positions, and finds motifs.
type Finder struct {
	cfg    Config
	places map[modbase.Code]map[byte]*places
}

// places are those of one modification of one base.
type places struct {
	contexts []uint64 // two bits a base, the first lowest; the highest bit is set on the minus strand
	counts   [][2]uint16
	thinned  int // of 2^thinned places one is kept, by a hash
}

// minus is set in contexts of the minus strand.
const minus = 1 << 63

// Motif is one that is modified.
type Motif struct {
	// Letters are IUPAC's, and Place is that of the modified base in them, from 0 on.
	Letters string
	Place   int
	Code    modbase.Code
	// Palindrome reports whether it reads the same on both strands.
	Palindrome bool
	// Plus and Minus are its places on the strands of the reference.
	Plus, Minus Places
	// Evidence is G, by which motifs were found: twice the logarithm of how much likelier the counts are if the
	// motif differs from other places.
	Evidence float64
}

// String is the motif as pileup.ParseMotif reads it.
func (m *Motif) String() string { return m.Letters + "," + strconv.Itoa(m.Place) }

// Header names the columns of a table of motifs.
const Header = "motif\tcode\tpalindrome\tplaces\tmodified_places\tcalls\tshare\tshare_plus\tshare_minus\n"

// Append appends the motif as a line of a table: shares are of calls, of both strands and of each.
func (m *Motif) Append(b []byte) []byte {
	both := m.Plus.Add(m.Minus)
	return fmt.Appendf(b, "%s\t%s\t%t\t%d\t%d\t%d\t%.4f\t%.4f\t%.4f\n", m, m.Code, m.Palindrome,
		both.Covered, both.Modified, both.Calls, both.Share(), m.Plus.Share(), m.Minus.Share())
}

// Places are counts of places and of calls at them.
type Places struct {
	Covered, Modified     int
	Calls, ModifiedOfThem int
}

// Add are both.
func (p Places) Add(o Places) Places {
	return Places{p.Covered + o.Covered, p.Modified + o.Modified, p.Calls + o.Calls, p.ModifiedOfThem + o.ModifiedOfThem}
}

// Share is the share of calls that say that the base is modified.
func (p Places) Share() float64 { return float64(p.ModifiedOfThem) / float64(max(1, p.Calls)) }

// NewFinder returns one that knows of nothing.
func NewFinder(cfg Config) *Finder {
	return &Finder{cfg: cfg.withDefaults(), places: make(map[modbase.Code]map[byte]*places)}
}

func (cfg Config) withDefaults() Config {
	cfg.MinCoverage, cfg.MinSites = cmp.Or(cfg.MinCoverage, 3), cmp.Or(cfg.MinSites, 20)
	cfg.MinShare, cfg.MaxPlaces = cmp.Or(cfg.MinShare, 0.6), cmp.Or(cfg.MaxPlaces, 8<<20)
	return cfg
}

// number of a base; 4: none of the four.
func number(base byte) uint64 {
	switch base {
	case 'A':
		return 0
	case 'C':
		return 1
	case 'G':
		return 2
	case 'T':
		return 3
	}
	return 4
}

// Add takes a row of a contig's pile-up, one for each position, strand and modification, with upper-case letters. Places near
// the contig's ends or near other letters than ACGT don't count.
func (f *Finder) Add(contig []byte, row *pileup.Row) {
	valid := row.Valid()
	if valid < f.cfg.MinCoverage {
		return
	}
	context, ok := contextOf(contig, row)
	if !ok {
		return
	}
	base := byte(context >> (2 * Reach) & 3)
	if f.places[row.Code] == nil {
		f.places[row.Code] = make(map[byte]*places)
	}
	p := f.places[row.Code][base]
	if p == nil {
		p = &places{}
		f.places[row.Code][base] = p
	}
	if !p.takes(context) {
		return
	}
	// Deeper places count as deep as fits.
	for valid > math.MaxUint16 {
		valid, row = valid/2, &pileup.Row{Modified: row.Modified / 2}
	}
	p.contexts, p.counts = append(p.contexts, context), append(p.counts, [2]uint16{uint16(row.Modified), uint16(valid)})
	if len(p.contexts) > f.cfg.MaxPlaces {
		p.thin()
	}
}

// contextOf is the bases around a row's place; false near a contig's ends or near other letters than ACGT.
func contextOf(contig []byte, row *pileup.Row) (context uint64, ok bool) {
	if row.Pos < Reach || row.Pos+Reach >= len(contig) {
		return 0, false
	}
	for i, base := range contig[row.Pos-Reach : row.Pos+Reach+1] {
		n := number(base)
		switch {
		case n > 3:
			return 0, false
		case row.Strand == pileup.Minus:
			context |= (3 - n) << (2 * (width - 1 - i))
		default:
			context |= n << (2 * i)
		}
	}
	if row.Strand == pileup.Minus {
		context |= minus
	}
	return context, true
}

// takes reports whether a place with a context is kept: those with the same surroundings are, or none of
// them.
func (p *places) takes(context uint64) bool { return hash(context)>>(64-p.thinned) == 0 }

// thin leaves out every second place.
func (p *places) thin() {
	p.thinned++
	n := 0
	for i, context := range p.contexts {
		if p.takes(context) {
			p.contexts[n], p.counts[n] = context, p.counts[i]
			n++
		}
	}
	p.contexts, p.counts = p.contexts[:n], p.counts[:n]
}

// hash mixes the bits of a context.
func hash(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Find returns the motifs, the best shown first of each modification, in the order of codes. The error is the context's:
// a search of a genome of megabases takes seconds.
func (f *Finder) Find(ctx context.Context) ([]Motif, error) {
	var all []Motif
	for code, bases := range f.places {
		for _, p := range bases {
			found, err := f.search(ctx, p.sample())
			if err != nil {
				return nil, fmt.Errorf("searching for modified motifs: %w", err)
			}
			for i := range found {
				all = append(all, found[i].motif(code, p))
			}
		}
	}
	slices.SortFunc(all, func(a, b Motif) int {
		return cmp.Or(a.Code.Compare(b.Code), cmp.Compare(b.Evidence, a.Evidence), cmp.Compare(a.Letters, b.Letters), cmp.Compare(a.Place, b.Place))
	})
	return all, nil
}

// pattern is sets of bases as bits, for each letter around the modified base.
type pattern struct {
	sets [width]uint8
	g    float64
}

// matcher is a pattern as it is searched for.
type matcher struct {
	mask, value uint64 // of letters that are one base
	loose       []loose
}

// loose is a letter that is one of several bases.
type loose struct {
	shift int
	set   uint8
}

func (p *pattern) matcher() (m matcher) {
	for i, set := range p.sets {
		switch {
		case set == every:
		case bits.OnesCount8(set) == 1:
			m.mask |= 3 << (2 * i)
			m.value |= uint64(bits.TrailingZeros8(set)) << (2 * i)
		default:
			m.loose = append(m.loose, loose{2 * i, set})
		}
	}
	return m
}

func (m *matcher) matches(context uint64) bool {
	if context&m.mask != m.value {
		return false
	}
	for _, l := range m.loose {
		if l.set>>(context>>l.shift&3)&1 == 0 {
			return false
		}
	}
	return true
}

// sample is places that are searched.
type sample struct {
	contexts []uint64
	modified []bool
	weight   float64 // of each place that isn't modified
}

// tally counts places, in proportion.
type tally struct{ modified, all float64 }

func (t tally) share() float64 { return t.modified / max(1, t.all) }

// add counts a place.
func (t *tally) add(s *sample, i int32) {
	if s.modified[i] {
		t.modified++
		t.all++
	} else {
		t.all += s.weight
	}
}

// evidence is G of some places against all; 0 if fewer of them are modified.
func evidence(of, all tally) float64 {
	rest := tally{all.modified - of.modified, all.all - of.all}
	if of.all <= 0 || of.share() <= rest.share() {
		return 0
	}
	g := func(t tally) float64 {
		term := func(n, p float64) float64 {
			if n <= 0 {
				return 0
			}
			return n * math.Log(p)
		}
		share := t.modified / t.all
		return term(t.modified, share) + term(t.all-t.modified, 1-share)
	}
	if rest.all < 1 {
		return 0
	}
	return 2 * (g(of) + g(rest) - g(all))
}

// search finds the motifs of a modification, each among the places that those before have left.
func (f *Finder) search(ctx context.Context, s *sample) (found []pattern, err error) {
	if len(s.contexts) < f.cfg.MinSites {
		return nil, ctx.Err()
	}
	for len(found) < 64 {
		m, ok := f.best(ctx, s)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !ok {
			return found, nil
		}
		found = append(found, m)
		s.without(&m)
		if other, ok := f.partner(s, &m); ok {
			found = append(found, other)
			s.without(&other)
		}
	}
	return found, nil
}

// partner finds the motif of the other strand that goes with one: many enzymes modify a base of either.
func (f *Finder) partner(s *sample, m *pattern) (best pattern, ok bool) {
	first, last := m.ends()
	common := s.common()
	var all tally
	for i := range s.contexts {
		all.add(s, int32(i))
	}
	for place := first; place <= last; place++ {
		// The base at this place of the other strand comes to lie in the middle.
		var other pattern
		fits := true
		for i := range other.sets {
			other.sets[i] = every
		}
		for i := first; i <= last; i++ {
			if at := Reach + place - i; at >= 0 && at < width {
				other.sets[at] = complement(m.sets[i])
			} else if m.sets[i] != every {
				fits = false
			}
		}
		if !fits || other.sets[Reach] != m.sets[Reach] || other.sets == m.sets {
			continue
		}
		t := s.of(&other)
		other.g = evidence(t, all)
		if t.all >= float64(f.cfg.MinSites) && t.share() >= f.cfg.MinShare && other.g > max(best.g, leastG) && s.needs(&other, &common, t) {
			best, ok = other, true
		}
	}
	return best, ok
}

// ends are the first and the last letter of a pattern.
func (p *pattern) ends() (first, last int) {
	first, last = Reach, Reach
	for i, set := range p.sets {
		if set != every {
			first, last = min(first, i), max(last, i)
		}
	}
	return first, last
}

// complement is the set of the complements: that of base b is 3-b.
func complement(set uint8) uint8 { return set&1<<3 | set&2<<1 | set&4>>1 | set&8>>3 }

// modified reports whether most calls of a place say that it is.
func modified(calls [2]uint16) bool { return 2*int(calls[0]) > int(calls[1]) }

// sample takes all modified places, and of the others as many as are searched.
func (p *places) sample() *sample {
	s := &sample{weight: 1}
	others := 0
	for _, c := range p.counts {
		if !modified(c) {
			others++
		}
	}
	shift := bits.Len(uint(others / plain))
	s.weight = float64(int(1) << shift)
	for i, c := range p.counts {
		if is := modified(c); is || hash(p.contexts[i]+1)>>(64-shift) == 0 {
			s.contexts, s.modified = append(s.contexts, p.contexts[i]), append(s.modified, is)
		}
	}
	return s
}

// without takes the places of a motif out.
func (s *sample) without(m *pattern) {
	n, of := 0, m.matcher()
	for i, context := range s.contexts {
		if !of.matches(context) {
			s.contexts[n], s.modified[n] = context, s.modified[i]
			n++
		}
	}
	s.contexts, s.modified = s.contexts[:n], s.modified[:n]
}

// of counts the places of a motif.
func (s *sample) of(m *pattern) (t tally) {
	of := m.matcher()
	for i, context := range s.contexts {
		if of.matches(context) {
			t.add(s, int32(i))
		}
	}
	return t
}

// node is a motif in the beam, and its places.
type node struct {
	pattern
	at []int32
}

// best finds the motif for which most speaks. What it returns counts only if the context isn't done.
func (f *Finder) best(ctx context.Context, s *sample) (pattern, bool) {
	var root node
	for i := range s.contexts {
		root.at = append(root.at, int32(i))
	}
	common := s.common()
	root.sets = common.sets
	all := s.of(&common)
	var best pattern
	accept := func(m *pattern, t tally, g float64) {
		if t.all >= float64(f.cfg.MinSites) && t.share() >= f.cfg.MinShare && g > best.g && s.needs(m, &common, t) {
			best, best.g = *m, g
		}
	}
	if all.share() >= f.cfg.MinShare && all.all >= float64(f.cfg.MinSites) {
		// Most of the places that a caller evaluates are modified, as CG in man.
		best = common
		best.g = math.Inf(1)
	}
	nodes := []node{root}
	for range mostFixed {
		if math.IsInf(best.g, 1) {
			break
		}
		var next []node
		seen := make(map[[width]uint8]bool)
		for i := range nodes {
			if ctx.Err() != nil {
				return pattern{}, false
			}
			n := &nodes[i]
			counts := s.count(n.at)
			for place := range width {
				if place == Reach || bits.OnesCount8(n.sets[place]) == 1 {
					continue
				}
				for base := range 4 {
					if n.sets[place]>>base&1 == 0 {
						continue
					}
					child := node{pattern: n.pattern, at: n.at}
					child.sets[place] = 1 << base
					if seen[child.sets] {
						continue
					}
					seen[child.sets] = true
					t := counts[place][base]
					if child.g = evidence(t, all); child.g <= 0 || t.modified < float64(f.cfg.MinSites)/2 {
						continue
					}
					accept(&child.pattern, t, child.g)
					next = append(next, child)
				}
			}
		}
		slices.SortStableFunc(next, func(a, b node) int { return cmp.Or(cmp.Compare(b.g, a.g), slices.Compare(a.sets[:], b.sets[:])) })
		next = next[:min(beam, len(next))]
		for i := range next {
			n := &next[i]
			var at []int32
			of := n.matcher()
			for _, k := range n.at {
				if of.matches(s.contexts[k]) {
					at = append(at, k)
				}
			}
			n.at = at
		}
		nodes = next
	}
	if best.g < leastG {
		return pattern{}, false
	}
	return f.refine(s, best, &common, all), true
}

// needs reports whether a motif needs each of its letters: without it, places are modified less often, and not by
// chance.
func (s *sample) needs(m, common *pattern, t tally) bool {
	beside := s.beside(m)
	for place, set := range m.sets {
		if set == common.sets[place] {
			continue
		}
		var others tally
		for _, n := range beside[place] {
			others.modified += n.modified
			others.all += n.all
		}
		if others.all >= 1 && evidence(t, tally{t.modified + others.modified, t.all + others.all}) < leastLetterG {
			return false
		}
	}
	return true
}

// common is the motif that all places have in common, as a caller evaluates no others.
func (s *sample) common() (m pattern) {
	var counts [width][4]int
	for _, context := range s.contexts {
		for i := range width {
			counts[i][context>>(2*i)&3]++
		}
	}
	for i := range m.sets {
		for base, n := range counts[i] {
			if n > len(s.contexts)/1000 {
				m.sets[i] |= 1 << base
			}
		}
		// Among a few places a base is missing by chance.
		if len(s.contexts) < fewPlaces && bits.OnesCount8(m.sets[i]) > 1 {
			m.sets[i] = every
		}
	}
	return m
}

// count counts places by what they have at each letter.
func (s *sample) count(at []int32) (counts [width][4]tally) {
	for _, k := range at {
		context := s.contexts[k]
		modified, weight := 0.0, s.weight
		if s.modified[k] {
			modified, weight = 1, 1
		}
		for i := range counts {
			c := &counts[i][context>>(2*i)&3]
			c.modified += modified
			c.all += weight
		}
	}
	return counts
}

// refine makes a motif narrower where a part of it is modified seldom, and wider where what is added is
// modified as often.
func (f *Finder) refine(s *sample, m pattern, common *pattern, all tally) pattern {
	for range 2 * width {
		t := s.of(&m)
		changed, ok := f.narrower(s, m, t)
		if !ok {
			changed, ok = f.wider(s, m, common, t)
		}
		if !ok {
			break
		}
		m = changed
	}
	if t := s.of(&m); !math.IsInf(m.g, 1) {
		m.g = evidence(t, all)
	}
	return m
}

// narrower leaves out the base of a letter that is modified least, if it is not of the motif.
func (f *Finder) narrower(s *sample, m pattern, t tally) (pattern, bool) {
	var at []int32
	of := m.matcher()
	for i, context := range s.contexts {
		if of.matches(context) {
			at = append(at, int32(i))
		}
	}
	counts := s.count(at)
	least, ok := m, false
	lowest := (1 - apart) * t.share()
	for place := range width {
		for base := range 4 {
			n := counts[place][base]
			if m.sets[place]>>base&1 == 1 && bits.OnesCount8(m.sets[place]) > 1 && n.all >= leastPart && n.share() < lowest {
				lowest, least, ok = n.share(), m, true
				least.sets[place] &^= 1 << base
			}
		}
	}
	return least, ok
}

// wider adds the base to a letter whose places are modified most often, if it is of the motif.
func (f *Finder) wider(s *sample, m pattern, common *pattern, t tally) (pattern, bool) {
	most, ok := m, false
	highest := apart * t.share()
	beside := s.beside(&m)
	for place := range width {
		for base := range 4 {
			if common.sets[place]>>base&1 == 0 {
				continue
			}
			if n := beside[place][base]; n.all >= leastPart && n.share() > highest {
				highest, most, ok = n.share(), m, true
				most.sets[place] |= 1 << base
			}
		}
	}
	return most, ok
}

// beside counts the places that differ from a motif in one letter, by that and by what they have there.
func (s *sample) beside(m *pattern) (counts [width][4]tally) {
	for i, context := range s.contexts {
		differs := -1
		for place, set := range m.sets {
			if set != every && set>>(context>>(2*place)&3)&1 == 0 {
				if differs >= 0 {
					differs = width
					break
				}
				differs = place
			}
		}
		if differs >= 0 && differs < width {
			counts[differs][context>>(2*differs)&3].add(s, int32(i))
		}
	}
	return counts
}

// letters are IUPAC's, and the place of the modified base in them.
func (p *pattern) letters() (letters string, place int) {
	first, last := p.ends()
	list := make([]byte, 0, width)
	for _, set := range p.sets[first : last+1] {
		list = append(list, genome.Letter(set))
	}
	return string(list), Reach - first
}

// motif is a pattern with what all places say of it.
func (p *pattern) motif(code modbase.Code, all *places) Motif {
	letters, place := p.letters()
	out := Motif{Letters: letters, Place: place, Palindrome: true, Code: code, Evidence: p.g}
	first, last := p.ends()
	for i := range len(letters) {
		own, other := p.sets[first+i], p.sets[last-i]
		out.Palindrome = out.Palindrome && own == complement(other)
	}
	matcher := p.matcher()
	for i, context := range all.contexts {
		if !matcher.matches(context) {
			continue
		}
		of := &out.Plus
		if context&minus != 0 {
			of = &out.Minus
		}
		c := all.counts[i]
		of.Covered++
		of.Calls += int(c[1])
		of.ModifiedOfThem += int(c[0])
		if modified(c) {
			of.Modified++
		}
	}
	return out
}
