package variant

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/porestream/porestream/stream/streampb"
)

// verdict is what is decided about a candidate that is called.
type verdict struct {
	copies       int      // of the allele, as [ScoreCopies] counts them
	qual         float64  // Phred-scaled probability that the sample hasn't got the allele
	genotypeQual float64  // Phred-scaled probability that the genotype is another one, at most what likelihoods allow
	genotype     []uint32 // allele numbers: 0 the reference, 1 the candidate, 2 the other
	likelihoods  []uint32 // Phred-scaled, of the reference and the candidate; 0 for the genotype
	other        *candidate
}

const (
	// maxQual caps qualities: no model of errors is believed beyond it.
	maxQual = 99
	// maxPhredLikelihood caps Phred-scaled likelihoods.
	maxPhredLikelihood = 255
	// maxGroup bounds the candidates that are decided about together.
	maxGroup = 10
)

// phred is the Phred-scaled probability that something is wrong, from the natural
// logarithm of that probability, rounded to two decimals.
func phred(logWrong float64) float64 {
	return min(maxQual, max(0, math.Round(-1000/math.Ln10*logWrong)/100))
}

// phreds are Phred-scaled likelihoods, the least 0.
func phreds(logs ...float64) []uint32 {
	best := slices.Max(logs)
	out := make([]uint32, len(logs))
	for i, l := range logs {
		out[i] = uint32(min(maxPhredLikelihood, math.Round(-10/math.Ln10*(l-best))))
	}
	return out
}

// agree has Phred-scaled likelihoods agree with the genotype that was decided on, the
// chosen one of them: what seems likelier by itself gave way to what is beside it, and is
// taken for as likely. It returns what is left of the others' disadvantage, which a
// genotype quality can't exceed.
func agree[T int | uint32](pl []T, chosen int) (margin T) {
	least := pl[chosen]
	margin = math.MaxInt32
	for i := range pl {
		pl[i] = max(pl[i], least) - least
		if i != chosen {
			margin = min(margin, pl[i])
		}
	}
	return margin
}

// agree has what is said of the genotype agree with it, which is the chosen one of the
// likelihoods.
func (v *verdict) agree(chosen int) *verdict {
	v.genotypeQual = min(v.genotypeQual, float64(agree(v.likelihoods, chosen)))
	return v
}

// analytic decides without a network, for haploid samples: of alleles that exclude
// each other the one with the best odds is called, if it is likelier than not.
func analytic(cs []candidate) []*verdict {
	var order []int
	for i, among := range believed(cs, analyticMinQual, func(i int) float64 { return phred(-logAdd(0, cs[i].logOdds)) }) {
		if among {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(cs[b].logOdds, cs[a].logOdds), cs[a].compare(&cs[b]))
	})
	out := make([]*verdict, len(cs))
	for _, i := range order {
		excluded := cs[i].logOdds <= 0
		for j, v := range out {
			excluded = excluded || v != nil && cs[j].conflicts(&cs[i])
		}
		if excluded {
			continue
		}
		q := phred(-logAdd(0, cs[i].logOdds))
		v := verdict{copies: 2, qual: q, genotypeQual: q, genotype: []uint32{1}, likelihoods: phreds(0, cs[i].logOdds)}
		out[i] = v.agree(1)
	}
	return out
}

// opinion is the natural logarithms of what a network holds likely of a candidate,
// by copies of the allele and by zygosity of its site.
type opinion struct{ copies, zygosity [3]float64 }

// newOpinion reads a network's answer about an allele of a place of the given
// ploidy.
func newOpinion(scores []float32, p Ploidy) opinion {
	var o opinion
	for i := range 3 {
		o.copies[i], o.zygosity[i] = float64(scores[ScoreCopies+i]), float64(scores[ScoreZygosity+i])
	}
	if p == Haploid { // one copy out of two is out of the question
		o.copies = withoutMiddle(o.copies)
		o.zygosity = withoutMiddle(o.zygosity)
	}
	return o
}

// withoutMiddle is three probabilities given that it isn't the second.
func withoutMiddle(l [3]float64) [3]float64 {
	sum := logAdd(l[0], l[2])
	return [3]float64{l[0] - sum, math.Inf(-1), l[2] - sum}
}

// verdicts decides by a network's opinions.
//
// Problem: each allele is scored by itself, and alleles that exclude each other may
// get more copies together than there are haplotypes.
//
// Strategy: of all numbers of copies that fit onto the haplotypes, the likeliest is
// taken: the product of the probabilities of the copies, and of the zygosities that
// follow from them.
//
// Consequences: QUAL and GQ stay those of the allele's own probabilities, which are
// calibrated; an allele that had to give way has a low GQ, and one that is called with
// copies which seem less likely by themselves has none.
//
// least is the QUAL that a doubtful change of a complex allele has to have.
func verdicts(cs []candidate, opinions []opinion, least float64) []*verdict {
	out := make([]*verdict, len(cs))
	among := believed(cs, least, func(i int) float64 { return phred(opinions[i].copies[0]) })
	for _, group := range conflictGroups(cs, among) {
		if len(group) > maxGroup { // the others are in no molecule
			slices.SortStableFunc(group, func(a, b int) int { return cmp.Compare(opinions[a].copies[0], opinions[b].copies[0]) })
			group = group[:maxGroup]
			slices.Sort(group)
		}
		s := search{cs: cs, opinions: opinions, group: group, best: math.Inf(-1)}
		s.copies, s.chosen = make([]int, len(group)), make([]int, len(group))
		s.run(0, 0)
		for n, i := range group {
			if s.chosen[n] > 0 {
				out[i] = s.verdict(n)
			}
		}
	}
	return out
}

// homopolymerMargin is how much QUAL more the length of a homopolymer has to have to be a part
// of a complex allele: as one that is wrong makes all of it wrong.
const homopolymerMargin = 7

// believed says which candidates are to be decided about: of a nest the first, with the most
// changes, that has at least some quality, or else the one with the highest.
func believed(cs []candidate, least float64, quality func(i int) float64) []bool {
	out := make([]bool, len(cs))
	sure := func(i int) float64 { // how much of what is asked for there is
		if cs[i].isComplex() && cs[i].likest().inHomopolymer() {
			return min(1, quality(i)/(least+homopolymerMargin))
		}
		return min(1, quality(i)/least)
	}
	better := func(i, j int) bool { // of a nest
		x, y := sure(i), sure(j)
		return x > y || x == y && cs[i].level < cs[j].level
	}
	for i := range cs {
		out[i] = true
		for j := range cs {
			if (cs[i].holds(&cs[j]) || cs[j].holds(&cs[i])) && better(j, i) {
				out[i] = false
			}
		}
		if cs[i].nest > 0 { // of two haplotypes that have changes in common both, or else one by itself
			both, sole := true, false
			for j := range cs {
				o := &cs[j]
				if o.cluster != cs[i].cluster || o.nest == 0 {
					continue
				}
				sole = sole || o.sole
				some := false // of the nest has what is asked for
				for k := range cs {
					some = some || cs[k].cluster == o.cluster && cs[k].nest == o.nest && sure(k) == 1
				}
				both = both && (o.sole || some)
			}
			if sole && both == cs[i].sole {
				out[i] = false
			}
		}
		for j := range cs[:i] {
			if out[j] && cs[i].nest > 0 && cs[j].nest > 0 && cs[i].compare(&cs[j]) == 0 { // two nests come to the same
				out[i] = false
			}
		}
	}
	for i := range cs { // what another cluster has as well, or as a part of an event
		for j := range cs {
			if out[j] && cs[i].cluster != cs[j].cluster && (j < i && cs[i].compare(&cs[j]) == 0 || sure(j) == 1 && cs[i].among(cs[j].parts)) {
				out[i] = false
			}
		}
	}
	return out
}

// conflictGroups are those of the candidates, by index, that exclude each other, directly or
// by way of others.
func conflictGroups(cs []candidate, among []bool) [][]int {
	var groups [][]int
	done := make([]bool, len(cs))
	for i := range cs {
		done[i] = !among[i]
	}
	for i := range cs {
		if done[i] {
			continue
		}
		done[i] = true
		group := []int{i}
		for n := 0; n < len(group); n++ {
			for j := range cs {
				if !done[j] && cs[j].conflicts(&cs[group[n]]) {
					done[j] = true
					group = append(group, j)
				}
			}
		}
		slices.Sort(group)
		groups = append(groups, group)
	}
	return groups
}

// search finds the likeliest numbers of copies of a group of candidates.
type search struct {
	cs       []candidate
	opinions []opinion
	group    []int

	copies []int // of those decided so far, and 0
	best   float64
	chosen []int
}

// run decides about the group's n-th candidate and those behind it; score is the
// log probability of the copies decided so far.
func (s *search) run(n int, score float64) {
	bound := score
	for _, i := range s.group[n:] {
		o := &s.opinions[i]
		bound += max(o.copies[0], o.copies[1], o.copies[2])
	}
	if bound <= s.best {
		return // zygosities only make it worse
	}
	if n == len(s.group) {
		for n, i := range s.group {
			score += s.opinions[i].zygosity[s.zygosity(n)]
		}
		if score > s.best {
			s.best, s.chosen = score, slices.Clone(s.copies)
		}
		return
	}
	o := &s.opinions[s.group[n]]
	order := [3]int{0, 1, 2}
	slices.SortStableFunc(order[:], func(a, b int) int { return cmp.Compare(o.copies[b], o.copies[a]) })
	for _, copies := range order {
		s.copies[n] = copies
		if copies == 0 || s.fits(n) {
			s.run(n+1, score+o.copies[copies])
		}
	}
	s.copies[n] = 0
}

// fits reports whether the copies of the n-th candidate fit together with those of
// the ones before it.
func (s *search) fits(n int) bool {
	if s.cs[s.group[n]].ploidy == Mixture {
		return s.fitsMixture(n)
	}
	return s.fitsHaplotypes()
}

// fitsMixture reports whether no candidate that excludes the n-th is there if one of
// the two is in all molecules.
func (s *search) fitsMixture(n int) bool {
	for m := range n {
		if s.copies[m] > 0 && s.copies[m]+s.copies[n] > 2 && s.conflict(m, n) {
			return false
		}
	}
	return true
}

// fitsHaplotypes reports whether the copies decided so far fit onto two haplotypes, so
// that none has two alleles that exclude each other.
func (s *search) fitsHaplotypes() bool {
	side := make([]int, len(s.group)) // 1 or 2; 0: not yet known
	for first := range s.group {
		if s.copies[first] == 0 || side[first] != 0 {
			continue
		}
		side[first] = 1
		for queue := []int{first}; len(queue) > 0; queue = queue[1:] {
			n := queue[0]
			for m := range s.group {
				if m == n || s.copies[m] == 0 || !s.conflict(m, n) {
					continue
				}
				if s.copies[m] == 2 || s.copies[n] == 2 || side[m] == side[n] {
					return false
				}
				if side[m] == 0 {
					side[m] = 3 - side[n]
					queue = append(queue, m)
				}
			}
		}
	}
	return true
}

// conflict reports whether the m-th and the n-th candidate exclude each other.
func (s *search) conflict(m, n int) bool { return s.cs[s.group[m]].conflicts(&s.cs[s.group[n]]) }

// zygosity is that of the n-th candidate's site, as [ScoreZygosity] counts it.
func (s *search) zygosity(n int) int {
	most := s.copies[n]
	if s.cs[s.group[n]].alone {
		return most
	}
	for m, copies := range s.copies {
		if m != n && copies > most && s.conflict(m, n) {
			most = copies
		}
	}
	return most
}

// verdict is about the n-th candidate, which has copies.
func (s *search) verdict(n int) *verdict {
	c, o, copies := &s.cs[s.group[n]], &s.opinions[s.group[n]], s.chosen[n]
	wrong := math.Inf(-1)
	for other, l := range o.copies {
		if other != copies {
			wrong = logAdd(wrong, l)
		}
	}
	v := &verdict{copies: copies, qual: phred(o.copies[0]), genotypeQual: phred(wrong)}
	if c.ploidy == Haploid {
		v.genotype, v.likelihoods = []uint32{1}, phreds(o.copies[0], o.copies[2])
		return v.agree(1)
	}
	v.genotype, v.likelihoods = []uint32{0, 1}, phreds(o.copies[:]...)
	v.agree(copies)
	if copies == 2 {
		v.genotype[0] = 1
		return v
	}
	if c.ploidy == Mixture {
		return v // any number of others may be there
	}
	for m, i := range s.group {
		o := &s.cs[i]
		if m != n && s.chosen[m] > 0 && s.conflict(m, n) && (v.other == nil || o.pos == c.pos && v.other.pos != c.pos) {
			v.other, v.genotype = o, []uint32{1, 2}
		}
	}
	return v
}

const (
	// maxBatchTiles and maxBatchExamples bound what a network is given at once.
	maxBatchTiles    = 64
	maxBatchExamples = 1024
)

// evaluatedTile is the calls of a tile.
type evaluatedTile struct {
	tile  int
	calls []*streampb.Call // without revision and status, by position
}

// opined is a tile's candidates, before it is decided which of them are called.
type opined struct {
	evaluatedTile
	cs       []candidate
	opinions []opinion // of a network; nil without one
}

// evaluateTiles evaluates tiles, which ascend, and changes nothing but r.work. An error
// is the network's.
func (r *Region) evaluateTiles(tiles []int, final bool) ([]evaluatedTile, error) {
	if r.callable != nil {
		return nil, r.callable
	}
	ended := final || r.final
	r.fitted = r.fit()
	model := r.counted().model(r.fitted.errors)
	var phased *haplotypes
	switch {
	case r.cfg.Network == nil:
	case ended:
		phased = r.phaseReads(model, r.allTiles())
	default:
		phased = r.phaseReads(model, r.tilesAround(tiles, phasedTiles))
	}
	if ended && r.cfg.Network != nil && r.has(Haploid) {
		return r.evaluateByDensity(tiles, model, phased, final)
	}
	var out []evaluatedTile
	for len(tiles) > 0 {
		seen, rest, err := r.opine(tiles, model, phased, final)
		if err != nil {
			return nil, err
		}
		for i := range seen {
			out = append(out, r.decide(&seen[i], model, usualOdds))
		}
		tiles = rest
	}
	return out, nil
}

// opine evaluates the first of some tiles, as many as a network is asked about at
// once, and returns its opinions and the other tiles.
func (r *Region) opine(tiles []int, model *errorModel, phased *haplotypes, final bool) (seen []opined, rest []int, err error) {
	r.work.examples = r.work.examples[:0]
	for len(tiles) > 0 && len(seen) < maxBatchTiles && len(r.work.examples) < maxBatchExamples*ExampleSize {
		t := tiles[0]
		tiles = tiles[1:]
		cs := r.examine(t, model, phased, final || r.final)
		seen = append(seen, opined{evaluatedTile: evaluatedTile{tile: t}, cs: cs})
	}
	if r.cfg.Network == nil {
		return seen, tiles, nil
	}
	scores, err := r.ask()
	if err != nil {
		return nil, nil, err
	}
	for n := range seen {
		o := &seen[n]
		o.opinions = make([]opinion, len(o.cs))
		for i := range o.cs {
			if own := o.cs[i].lengths; own != nil {
				o.opinions[i] = *own
				continue
			}
			o.opinions[i] = newOpinion(scores[:Scores], o.cs[i].ploidy)
			scores = scores[Scores:]
		}
	}
	return seen, tiles, nil
}

// usualOdds are those of a tile where variants are as many as the network assumes.
func usualOdds(int) [2]float64 { return [2]float64{} }

// decide calls what a tile holds. In haploid places of tile t the odds of SNPs and of indels
// are higher by odds(t) than the network assumes.
//
// A call belongs to the tile that it lies in, whatever event it is a piece of: of events of two
// haplotypes that have a change in common each tile sees both, and calls that change once. The
// tiles on either side of a region's border do so as well, each in its region.
func (r *Region) decide(o *opined, model *errorModel, odds func(t int) [2]float64) evaluatedTile {
	var vs []*verdict
	if r.cfg.Network == nil {
		vs = analytic(o.cs)
	} else {
		for i := range o.cs {
			o.opinions[i] = r.informed(&o.cs[i], model, o.opinions[i], odds(r.tileAt(o.cs[i].pos)))
		}
		vs = verdicts(o.cs, o.opinions, r.cfg.MinQual)
	}
	for i, v := range vs {
		c := &o.cs[i]
		if v == nil || v.qual < r.cfg.EmitQual {
			continue
		}
		for _, call := range r.calls(c, model, v) {
			if r.isIn(o.tile, int(call.GetPos())-1) {
				o.calls = append(o.calls, call)
			}
		}
	}
	slices.SortStableFunc(o.calls, compareCalls)
	o.calls = distinctCalls(o.calls)
	return o.evaluatedTile
}

// informed is a network's opinion of c, corrected for what the network isn't given: in haploid
// places, by how much higher the odds of SNPs and of indels are than it assumes; how much likelier a
// change of length is beside another change; and that an allele which nearly all of many reads carry
// is there, or in a mixture one that reads of either strand show more often than they err.
func (r *Region) informed(c *candidate, model *errorModel, o opinion, odds [2]float64) opinion {
	if c.ploidy == Haploid {
		o = o.shifted(odds[kindOf(c)])
	}
	if c.likest().inHomopolymer() {
		return o // its length is as often wrong as elsewhere
	}
	if c.isComplex() && c.likest().indel {
		o = o.shifted(linked)
	}
	if c.carried && !model.noisy(c.likest()) {
		o = o.atLeast(r.cfg.MinQual)
	}
	if own, ok := r.minor(c, model); ok && own.copies[0] < o.copies[0] {
		return own
	}
	return o
}

// examine gathers the candidates of a tile's core, and those that what is decided about these
// depends on, and appends their examples, if there is a network, to r.work.examples. The
// haplotype on which they lie is set at the end only: before, phase sets would come and go.
func (r *Region) examine(t int, model *errorModel, phased *haplotypes, final bool) []candidate {
	kept := together(r.gather(t, model, phased), func(c *candidate) bool {
		return r.isIn(t, c.pos) || c.isComplex() && c.pos < r.tileEnd(t)+pieceReach && c.to > r.tileStart(t)-pieceReach
	})
	if r.cfg.Network != nil {
		r.work.encoder.begin(r, &r.work.scratch, model)
		for i := range kept {
			c := &kept[i]
			if phased != nil {
				c.haps = phased.of(c, &r.work.scratch)
				if final {
					c.side = c.haps.place(c)
				}
			}
			if c.lengths == nil {
				r.work.examples = r.work.encoder.append(r.work.examples, c)
			}
		}
	}
	for i := range kept {
		kept[i].reads, kept[i].whole, kept[i].haps, kept[i].paint = nil, nil, hapReads{}, nil // they are memory of the next tile
	}
	return kept
}

// pieceReach is how many bases beside a complex allele a piece of it may be called, as an indel
// lies at the left end of its repeat.
const pieceReach = tileMargin / 2

// tileAt is the tile that position pos is in, or the region's first or last.
func (r *Region) tileAt(pos int) int {
	return min(max(0, (pos-r.start)/tileWidth), len(r.tiles)-1)
}

// together are those of some candidates that are in, and all that they are decided about with,
// however many others lie between: what excludes them, what excludes that, and the nests that
// competed with theirs. So an allele gets the same verdict wherever the border of a tile lies.
func together(all []candidate, in func(*candidate) bool) []candidate {
	kept := make([]bool, len(all))
	var queue, others []int
	for i := range all {
		if kept[i] = in(&all[i]); kept[i] {
			queue = append(queue, i)
		} else {
			others = append(others, i)
		}
	}
	for ; len(queue) > 0 && len(others) > 0; queue = queue[1:] {
		c := &all[queue[0]]
		others = slices.DeleteFunc(others, func(i int) bool {
			o := &all[i]
			if !c.conflicts(o) && (c.nest == 0 || o.nest == 0 || c.cluster != o.cluster) {
				return false
			}
			kept[i], queue = true, append(queue, i)
			return true
		})
	}
	var out []candidate
	for i := range all {
		if kept[i] {
			out = append(out, all[i])
		}
	}
	return out
}

// isIn reports whether position pos lies in tile t, its margins left out.
func (r *Region) isIn(t, pos int) bool { return pos >= r.tileStart(t) && pos < r.tileEnd(t) }

// ask puts r.work.examples to the network, if there is one.
func (r *Region) ask() ([]float32, error) {
	n := len(r.work.examples) / ExampleSize
	if n == 0 {
		return nil, nil
	}
	scores, err := r.fitted.network.Score(r.work.scores[:0], r.work.examples)
	if err != nil {
		return nil, fmt.Errorf("scoring %d alleles: %w", n, err)
	}
	if len(scores) != n*Scores {
		return nil, fmt.Errorf("scoring %d alleles: the network gave %d values, not %d for each", n, len(scores), Scores)
	}
	for i, s := range scores {
		if s != s || s > 1e-3 { // a little more than 0 is rounding
			return nil, fmt.Errorf("scoring %d alleles: value %d of allele %d is %g, which is no log probability", n, i%Scores, i/Scores+1, s)
		}
	}
	r.work.scores = scores
	return scores, nil
}
