package variant

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Complex alleles: changes that touch, or nearly, on one haplotype, as one allele: several
// substitutions side by side (MNP), or bases in place of others (delins).
//
// Problem: a network has learned the pattern of one change, and each of two that touch
// resembles an error beside the other. Called separately, each alone describes a haplotype
// that no read has. And aligners spread the bases that replace others over substitutions
// and gaps, differently in each read.
//
// Strategy: where alleles crowd, the consensus of the reads that agree on something else than
// the reference gives their haplotype. Its changes are put to the reads one by one, each with
// and without what is beside it, so that what only accompanies a true change by mistake is
// left out (prune); those that remain and lie close together are one allele that competes
// with its parts. A network is shown only one of its changes, the one that is most often an
// error, in a read that has nothing else there (see painting).
//
// Consequences: one allele has one verdict, whatever it is made of, and networks that
// have never seen a similar allele can score it.

const (
	// complexReach is how many bases as in the reference may lie between two changes of a
	// complex allele, those of the repeats that they can slide in left out.
	complexReach = 12
	// besideReach is how many columns beside a single allele are checked for further
	// changes.
	besideReach = 3
	// complexOpen is what it costs to open a gap where a haplotype is split into changes: five
	// bases side by side are rather substituted than deleted and inserted.
	complexOpen = 10
	// maxDoubts is how many changes of a complex allele a network is asked about.
	maxDoubts = 3
	// homopolymerDoubt is by how much less the odds of a homopolymer's length mean than
	// others: a network is asked about it first.
	homopolymerDoubt = 5
	// maxComplex bounds the complex alleles of a cluster.
	maxComplex = 4
	// soleNest is the number of a nest that competed without another.
	soleNest = 100
	// maxSplits bounds how often the reads of haplotypes are separated anew, and maxSplitComplex
	// the complex alleles after that.
	maxSplits       = 3
	maxSplitComplex = 12
	// splitShare: one in so many of a haplotype's reads has to differ from the others for them to be two.
	splitShare = 4
	// maxSplitStrandPhred is the Phred-scaled probability of the strands' difference from which on
	// reads are not separated by what one of them shows.
	maxSplitStrandPhred = 30
	// maxComplexParts bounds the changes of one.
	maxComplexParts = 24
	// crowdedShare is the share of reads that differ in a column beside an allele from which
	// on there may be more than it.
	crowdedShare = 0.35
	// linkedSNP and linkedIndel are how often a base beside a change is changed as well, into
	// each other one, and is where an indel begins. One variant in thirty has a neighbour.
	linkedSNP   = 1e-2
	linkedIndel = 5e-3
)

// linked is the natural logarithm of the odds by which a change of length is likelier beside
// another change than a network assumes.
var linked = math.Log(linkedIndel / CalibratedIndels)

// isComplex reports whether c is a complex allele.
func (c *candidate) isComplex() bool { return len(c.parts) > 0 }

// likest is the simple allele that a network is shown in c's place: c itself, or its most
// doubtful part.
func (c *candidate) likest() *candidate {
	if c.isComplex() {
		return &c.parts[c.weakest]
	}
	return c
}

// settle puts the alleles of a cluster, sorted by start, to the reads, together with those
// that follow from what they say. crowded says that it is known to be.
func (r *Region) settle(m *matrix, model *errorModel, cluster []candidate, crowded bool) []candidate {
	cluster, first := r.compete(m, model, cluster, false)
	if !crowded && !r.crowded(m, cluster) {
		return cluster
	}
	p := r.proposeComplex(m, model, cluster, first)
	if p == nil || len(p.nests) == 0 && cluster[0].ploidy != Diploid {
		return cluster
	}
	ranked := r.rank(p, first)
	for range maxSplits {
		if cluster[0].ploidy != Diploid || !r.proposeSplits(p, ranked) {
			break
		}
		ranked = r.rank(p, first)
	}
	if len(p.nests) == 0 {
		return cluster
	}
	found, sole := r.choose(m, model, p.nests, ranked)
	if len(found) == 0 {
		return cluster
	}
	others := cluster
	if found[0].nest > 0 {
		others = slices.DeleteFunc(cluster, func(c candidate) bool { return c.among(found) })
		found = append(slices.Clone(others), found...)
	}
	cluster, _ = r.compete(m, model, found, true)
	cluster = r.without(cluster)
	if len(sole) > 0 {
		sole, _ = r.compete(m, model, append(slices.Clone(others), sole...), true)
		for _, c := range r.without(sole) {
			if c.nest > 0 {
				c.sole, c.nest = true, soleNest
				cluster = append(cluster, c)
			}
		}
	}
	for i := range cluster {
		cluster[i].company, cluster[i].alone = company{alleles: 1, distance: -1}, true
	}
	return cluster
}

// substitutionCost and indelCost are how much less likely a haplotype is, as natural
// logarithms, with one change more: single reads that fit it better by chance, and places where
// reads are often wrong together, are not to decide.
//
// A complex allele is one event, however many changes spell it.
const (
	substitutionCost = 5
	indelCost        = 9
	complexCost      = 12
)

// costOf is that of a haplotype's changes.
func costOf(alleles []candidate) float64 {
	sum := 0.0
	for i := range alleles {
		switch c := &alleles[i]; {
		case c.isComplex():
			sum += min(costOf(c.parts), complexCost)
		case c.indel:
			sum += indelCost
		default:
			sum += substitutionCost
		}
	}
	return sum
}

// changesOf are the simple changes of alleles, by position.
func changesOf(alleles []candidate) []candidate {
	var out []candidate
	for i := range alleles {
		if c := &alleles[i]; c.isComplex() {
			out = append(out, c.parts...)
		} else {
			out = append(out, *c)
		}
	}
	slices.SortStableFunc(out, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	return out
}

// crowded reports whether reads may have more than one of the alleles of a cluster at once: two
// lie close together, or many reads differ from the reference beside one.
func (r *Region) crowded(m *matrix, cluster []candidate) bool {
	for i := range cluster {
		a := &cluster[i]
		for j := range cluster[:i] {
			b := &cluster[j]
			if max(a.start, b.start)-min(a.end, b.end) <= complexReach {
				return true
			}
		}
	}
	if len(cluster) > 1 {
		return false
	}
	c := &cluster[0]
	for col := max(0, c.start-besideReach-m.lo); col < min(c.end+besideReach, m.hi)-m.lo; col++ {
		if pos := m.lo + col; !c.indel && pos == c.from {
			continue
		}
		n, depth := int32(0), int32(0)
		for _, strand := range r.work.counts[col] {
			for code := range deleted + 1 {
				depth += strand[code]
				if byte(code) != m.ref[col] {
					n += strand[code]
				}
			}
		}
		if c.from <= m.lo+col && m.lo+col < c.to {
			continue // it deletes this base itself
		}
		if depth > 0 && float64(n) >= crowdedShare*float64(depth) {
			return true
		}
	}
	return false
}

// spelled are the changes by which a haplotype h, as codes, differs from ref, which begins at lo: those
// that lie close together in one list.
//
// Substitutions are preferred to gaps. But where lengths of homopolymers alone explain the
// haplotype, nothing else is to: TTTCCATTT with a T more on either side isn't CCA>TCCAT.
func (r *Region) spelled(m *matrix, model *errorModel, lo int, ref, h []byte) [][]candidate {
	groups := r.parts(m, model, lo, r.work.voter.differences(ref, h, complexOpen))
	gaps := r.parts(m, model, lo, r.work.voter.differences(ref, h, changeOpen))
	for i, group := range groups {
		if len(group) < 2 {
			continue
		}
		from, to := group[0].from, group[len(group)-1].to
		for _, other := range gaps {
			lengths := !slices.ContainsFunc(other, func(c candidate) bool { return !c.inHomopolymer() })
			if lengths && other[0].from <= to+complexReach && from <= other[len(other)-1].to+complexReach {
				groups[i] = other
			}
		}
	}
	for i, group := range groups {
		groups[i] = r.respell(m, model, lo, ref, group)
	}
	return groups
}

// parts are the differences of a haplotype from the reference, which count from lo, as
// alleles: those that lie close together in one list.
func (r *Region) parts(m *matrix, model *errorModel, lo int, differences []difference) [][]candidate {
	var out [][]candidate
	for _, d := range differences {
		c, ok := candidate{}, false
		switch from := lo + d.from; {
		case strings.Contains(d.seq, "N"):
		case !d.isGap():
			c, ok = r.substitution(m, model, from-m.lo, baseCode[d.seq[0]]), true
			c.prior = linkedSNP
		case max(d.to-d.from, len(d.seq)) <= maxIndel && from > m.lo:
			// Where it lies, as the neighbours say; it isn't rolled over them.
			c, ok = indel{pos: from, del: d.to - d.from, ins: d.seq}.candidate(r.contig.Seq, linkedIndel)
		}
		c.ploidy = r.ploidy(c.pos)
		if ok && c.byLength(r.contig.Seq) && model.reliableLengths(baseCode[r.contig.Seq[c.start]]) {
			continue // an allele evaluated by lengths is so whatever is beside it
		}
		if !ok {
			return nil // one part is not to stand for all
		}
		if n := len(out); n > 0 {
			if last := out[n-1]; c.from-last[len(last)-1].end <= complexReach {
				out[n-1] = append(last, c)
				continue
			}
		}
		out = append(out, []candidate{c})
	}
	return out
}

// prune leaves out of parts, close together on one haplotype, what reads don't bear out
// beside the others, and makes one allele of the rest; then, in case a network
// doesn't believe the most doubtful of these, another of what is left, and so on.
func (r *Region) prune(m *matrix, model *errorModel, parts []candidate, rows []int) (nest []candidate) {
	for len(parts) > 0 && len(nest) <= maxDoubts {
		weakest, odds := r.weakest(m, model, parts, rows)
		if odds > 0 || len(nest) > 0 {
			c, ok := r.join(parts, weakest, 0)
			if !ok {
				break
			}
			nest = append(nest, c)
		}
		parts = slices.Delete(slices.Clone(parts), weakest, weakest+1)
	}
	return nest
}

// weakest is which of parts reads bear out least beside the others, and the log odds that
// it is there if the others are. Of a sample with several haplotypes those reads are asked
// that have the others: the given rows, ascending, or without any those that fit the others better than nothing.
func (r *Region) weakest(m *matrix, model *errorModel, parts []candidate, rows []int) (weakest int, odds float64) {
	if len(parts) == 1 {
		return 0, math.Inf(1)
	}
	for i := range parts {
		r.setIn(model, parts, i)
	}
	lo, hi := max(parts[0].start-flank, m.lo), parts[0].end
	for i := range parts {
		hi = max(hi, parts[i].end)
	}
	hi = min(hi+flank, m.hi)
	g := &r.work.aligner
	g.begin(model)
	all := parts[0].ploidy == Haploid || rows != nil
	g.add(r.contig.Seq[lo:hi])
	g.add(spell(r.contig.Seq, lo, hi, parts))
	for i := range parts {
		g.add(spell(r.contig.Seq, lo, hi, slices.Delete(slices.Clone(parts), i, i+1)))
		if !all {
			g.add(spell(r.contig.Seq, lo, hi, parts[i:i+1]))
		}
	}
	reads := r.alignSpanning(m, lo, hi, rows)
	odds = math.Inf(1)
	least := math.Inf(1)
	for i := range parts {
		p, e := &parts[i], &r.work.evidence
		e.reset()
		for n, row := range reads.rows {
			costs := reads.costs(n)
			reference, with, others := costs[0], costs[1], costs[2+i]
			if !all {
				others = costs[2+2*i]
				if alone := costs[3+2*i]; ratio(min(reference, alone), min(with, others), maxReadSupport) < informative {
					continue
				}
			}
			s := support{row: row, llr: ratio(others, with, maxReadSupport)}
			e.add(m.rows[row].seg.reverse, s.likelihoods())
		}
		own := e.logOdds(&p.sys) + math.Log(p.prior) - math.Log1p(-p.prior)
		doubt := own
		if p.inHomopolymer() && own > 0 {
			doubt = own / homopolymerDoubt
		}
		if doubt < least {
			weakest, odds, least = i, own, doubt
		}
	}
	return weakest, odds
}

// setIn has part i be as often wrong as it is on the haplotype of the other parts: of two
// changes that make a homopolymer longer together, each is as doubtful as in that one.
func (r *Region) setIn(model *errorModel, parts []candidate, i int) {
	const around = 2*maxTract + maxIndel
	p := &parts[i]
	lo, hi := max(0, p.from-around), min(len(r.contig.Seq), p.to+around)
	seq := spell(r.contig.Seq, lo, hi, slices.Delete(slices.Clone(parts), i, i+1))
	at := p.from - lo
	for j := range parts[:i] {
		at += len(parts[j].seq) - (parts[j].to - parts[j].from)
	}
	if !p.indel {
		p.confuse(model, seq, at, nil, 1)
		return
	}
	a := indel{pos: at, del: p.to - p.from, ins: p.seq}.leftmost(seq)
	p.run = a.repeat(seq, a.slack(seq))
	sys := indelSystematic(p.run)
	p.sys = [2]systematic{sys, sys.plus(referenceBias)}
}

// join makes one allele of parts, by position, of which one is weakest; false if they come
// to nothing that is called. It isn't rolled to the left of position least, where another
// change may end.
func (r *Region) join(parts []candidate, weakest, least int) (candidate, bool) {
	ref := r.contig.Seq
	from, to := parts[0].from, parts[0].to
	for i := range parts {
		from, to = min(from, parts[i].from), max(to, parts[i].to)
	}
	seq := string(spell(ref, from, to, parts))
	for from < to && len(seq) > 0 && seq[0] == ref[from] {
		from, seq = from+1, seq[1:]
	}
	for from < to && len(seq) > 0 && seq[len(seq)-1] == ref[to-1] {
		to, seq = to-1, seq[:len(seq)-1]
	}
	switch {
	case from == to && seq == "":
		return candidate{}, false
	case from == to || seq == "":
		if max(to-from, len(seq)) > maxIndel || from == 0 {
			return candidate{}, false
		}
		a := indel{pos: from, del: to - from, ins: seq}.leftmostFrom(ref, least)
		if a.pos == 0 {
			return candidate{}, false
		}
		return a.candidate(ref, r.cfg.IndelRate)
	case to-from == 1 && len(seq) == 1:
		c := parts[0]
		c.pos, c.ref, c.alt, c.start, c.end = from, string(ref[from:to]), seq, from, to
		c.prior = r.cfg.SNPRate / 3
		return c, len(parts) == 1
	case to-from > maxIndel || len(seq) > maxIndel:
		return candidate{}, false
	}
	c := candidate{
		pos: from, ref: string(ref[from:to]), alt: seq, from: from, to: to, seq: seq, start: from, end: to,
		makeUp: makeUp{parts: parts, weakest: weakest},
	}
	w := c.likest()
	c.run, c.sys, c.rates, c.prior = w.run, w.sys, w.rates, w.prior
	return c, true
}

// without leaves out of a cluster what complex alleles in it explain better, and what they
// were compared with only.
func (r *Region) without(cluster []candidate) []candidate {
	return slices.DeleteFunc(slices.Clone(cluster), func(c candidate) bool {
		if c.nest > 0 {
			return c.level >= maxDoubts
		}
		return !r.shown(&c) && slices.ContainsFunc(cluster, func(o candidate) bool { return o.nest > 0 && o.level == 0 && o.conflicts(&c) })
	})
}

// shown reports whether enough reads prefer c to whatever else there is; of a haploid sample,
// whether all together do.
func (r *Region) shown(c *candidate) bool {
	n, sum := int32(0), 0.0
	for _, s := range c.reads {
		sum += s.llr
		if s.llr > informative {
			n++
		}
	}
	return n >= minSupport && r.enough(c.pos, n, int32(len(c.reads))) && (c.ploidy != Haploid || sum > 0)
}
