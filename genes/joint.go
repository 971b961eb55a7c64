package genes

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"golang.org/x/sync/errgroup"
)

// Broken genes that nothing else is known of.
//
// Problem: a gene with a lost or inserted base, or with a stop within, looks like two genes. Of a genome without relatives nothing shows that it is one.
//
// Assumptions: two genes have each a start of their own. Behind a break there is none: the second of the two begins at a codon that only happens to be one of
// start, without a binding site, and its codons read like a gene's before that codon as well, back to the break; those of the first read worse than a gene's from
// the break to its stop.
//
// Strategy: log odds of one broken gene against two, for two neighbours on one strand in the best chain. The weights are learnt from annotated genomes in which genes
// are broken on purpose (train/genes), the features are log odds by what the genome at hand has taught.
//
// Consequence: a break near either end of a gene isn't seen, nor one behind which no gene is called.

// The features of two neighbours.
const (
	jointGain     = iota // log odds of the codons if they are read as one gene across the best place of a break, less those of both genes
	jointGainMore        // the same, if it is more than none
	jointTop             // the best start that the second one could have, without its codons
	jointBinding         // of the start that it was called with
	jointSite
	jointUp
	jointKind
	jointBehind
	jointBefore // log odds of the codons before that start
	jointStop   // both are in one frame: a stop is between them
	jointFirst  // logarithm of the length of the first, if it is short
	jointSecond
	jointApart // the second's frame opens behind the first's stop
	jointFeatures
)

const (
	// jointOdds is what the log odds of one broken gene must be. They are those of the genomes that genes were broken in, where one pair of twenty is a
	// broken gene; in nature it is about one of a hundred, which takes 1.6 away. Who reads variants misses more by a gene that is hidden than by a remnant that is
	// taken for a gene, so the rest is 2.9: eighteen to one.
	jointOdds = 4.5
	// jointNext is the same for what adjoins a broken gene: many breaks are in one.
	jointNext = 0
	// jointRelative is the same where a relative shows it, too (relative.go).
	jointRelative = .5
	// smallestPart is the share of both parts' bases that the shorter one must have: a little behind a long gene isn't the end of it.
	smallestPart = .12
	// stopThrough is what a stop costs that is read through.
	stopThrough = -4
	// farOverlap is how far within the first gene the second's start is searched.
	farOverlap = 400
	// shortPart is the length in bases below which a part is a short one.
	shortPart = 200
	// nearStart is how far behind the start that it was called with a better one may be.
	nearStart = 60
	// rareAhead is how much better a start at a codon that rarely is one must be than the best usual one, to be the second gene's: infC begins with ATT.
	rareAhead = 1
)

var rareStarts = []string{"ATT", "ATC", "ATA", "CTG"}

// couple are two candidates on one strand, the first one before the other there.
type couple struct {
	s                    []byte
	from, to, begin, end int // of the first and of the second, with their stops
	kind                 int8
}

// couple are two candidates of a chain in the direction of their strand; false if they can't be parts of one gene.
func (p *piece) couple(a, b *candidate) (couple, bool) {
	if a.reverse != b.reverse {
		return couple{}, false
	}
	n := len(p.forward)
	x := couple{s: p.forward, from: int(a.left), to: int(a.right), begin: int(b.left), end: int(b.right)}
	first, second := a, b
	if a.reverse {
		first, second = b, a
		x = couple{s: p.reverse, from: n - int(b.right), to: n - int(b.left), begin: n - int(a.right), end: n - int(a.left)}
	}
	x.kind = second.kind
	return x, !first.open && second.kind != startOpen && x.begin-x.to < farthest && x.begin > x.from
}

// read is the log odds of codons in frame, stops among them.
func (f *finder) read(s []byte, from, to int) (sum float64) {
	last := -1
	for i := from; i+3 <= to; i += 3 {
		codon := codonAt(s, i)
		switch {
		case codon >= 0 && f.code.stops(codon):
			sum += stopThrough
			codon = -1
		case last >= 0 && codon >= 0:
			sum += float64(f.tables.own[last<<6|codon])
		}
		last = codon
	}
	return sum
}

// joint is what speaks for a couple's being one broken gene, and whether something rules it out.
func (f *finder) joint(n *couple) (x [jointFeatures]float64, never bool) {
	open := f.code.opens(n.s, n.begin) // the second one's frame
	best := math.Inf(-1)
	// The first one is read up to a place, and the second from its first codon there.
	for at := n.to; at >= max(n.from+3, min(open, n.to-3)); at -= 3 {
		next := at + ((n.begin-at)%3+3)%3
		more := -f.read(n.s, at, n.to)
		if next <= n.begin {
			more += f.read(n.s, next, n.begin)
		} else {
			more -= f.read(n.s, n.begin, next)
		}
		best = max(best, more)
	}
	x[jointGain], x[jointGainMore] = min(max(best, -20), 25), min(max(best, 0), 25)
	var sc scored
	f.features(n.s, &frame{stop: int32(n.end), starts: []start{{at: int32(open)}, {at: int32(n.begin), kind: n.kind}}}, &sc)
	mine := &sc.starts[1]
	x[jointBinding], x[jointSite], x[jointUp], x[jointKind] = mine[featureBinding], mine[featureSite], mine[featureUp], mine[featureKind]
	x[jointBehind] = min(max(mine[featureBehind], -6), 9)
	x[jointBefore] = min(max(f.read(n.s, max(open, n.begin-3*vicinity), n.begin), -8), 9)
	usual := f.bestStart(n, open, &sc, func(codon int) int8 { return f.code.start[codon] })
	x[jointTop] = usual
	if (n.begin-n.from)%3 == 0 {
		x[jointStop] = 1
		// It may be read as selenocysteine.
		never = f.code.table == bacterial && codonAt(n.s, n.to-3) == codonOf("TGA")
	}
	x[jointFirst], x[jointSecond] = math.Log(float64(min(n.to-n.from, shortPart))/shortPart), math.Log(float64(min(n.end-n.begin, shortPart))/shortPart)
	if open > n.to {
		x[jointApart] = 1
	}
	rare := f.bestStart(n, open, &sc, func(codon int) int8 {
		if slices.Contains(rareStarts, codonName(codon)) {
			return startTTG
		}
		return -1
	})
	first, second := n.to-n.from, n.end-n.begin
	small := float64(min(first, second)) < smallestPart*float64(first+second)
	return x, never || small || rare > usual+rareAhead
}

// bestStart is the score of the best of the second one's starts, without what their codons say.
func (f *finder) bestStart(n *couple, open int, sc *scored, kind func(codon int) int8) float64 {
	fr := frame{stop: int32(n.end)}
	for at := open; at <= min(n.begin+nearStart, n.end-shortest); at += 3 {
		if at <= n.to-farOverlap {
			continue
		}
		if c := codonAt(n.s, at); c >= 0 && kind(c) >= 0 {
			fr.starts = append(fr.starts, start{at: int32(at), kind: kind(c)})
		}
	}
	best := 0.0
	if len(fr.starts) == 0 {
		return best
	}
	f.features(n.s, &fr, sc)
	for i := range sc.starts {
		best = max(best, f.prior.Weights.Start.value(sc.starts[i][:]))
	}
	return best
}

// splits are the neighbours of a chain that may be one broken gene. found are the chain's genes. A short genome teaches too little of its starts to say so, and a
// phage's has hardly a broken gene.
func (f *finder) splits(p *piece, list []candidate, chain []int32, found []Gene) (out []split) {
	if f.known < short {
		return nil
	}
	odds := make([]float64, max(0, len(chain)-1))
	sure := make([]bool, len(odds))
	for i := range odds {
		odds[i] = math.Inf(-1)
		n, ok := p.couple(&list[chain[i]], &list[chain[i+1]])
		if !ok {
			continue
		}
		if x, never := f.joint(&n); !never {
			odds[i] = f.prior.Weights.Joint.value(x[:])
		}
		sure[i] = odds[i] >= jointOdds
	}
	for more := true; more; {
		more = false
		for i := range sure {
			if !sure[i] && odds[i] >= jointNext && (i > 0 && sure[i-1] || i+1 < len(sure) && sure[i+1]) {
				sure[i], more = true, true
			}
		}
	}
	for i := range sure {
		if !sure[i] && odds[i] < jointRelative {
			continue
		}
		a, b := &list[chain[i]], &list[chain[i+1]]
		first, second := found[i].spot(), found[i+1].spot()
		if a.reverse {
			first, second = second, first
		}
		out = append(out, split{parts: [2]spot{first, second}, fault: faultOf(a, b), sure: sure[i]})
	}
	return out
}

// faultOf is the fault between two parts.
func faultOf(a, b *candidate) Fault {
	distance := b.left - a.left
	if a.reverse {
		distance = b.right - a.right
	}
	if distance%3 == 0 {
		return InternalStop
	}
	return Frameshift
}

// Every so many genes of a genome are broken to learn from.
const (
	breakEvery  = 5
	breakLength = 300 // of a gene that is broken, at least
	breakEnds   = 45  // bases at either end that no break is in
)

// broken is a genome some of whose genes are broken: by a base less, by one more, or by a stop.
func (g *Annotated) broken(rng *rand.Rand) (seq []byte, whole, broken []Known) {
	list := slices.Clone(g.Genes)
	slices.SortFunc(list, func(a, b Known) int { return a.Start - b.Start })
	type change struct{ at, by int }
	var changes []change
	var chosen []bool
	last, moved := 0, 0
	for i, k := range list {
		chosen = append(chosen, i%breakEvery == 0 && k.End-k.Start >= breakLength && k.Start >= last && k.End <= len(g.Seq))
		if !chosen[i] {
			continue
		}
		at := k.Start + breakEnds + rng.IntN(k.End-k.Start-2*breakEnds)
		seq = append(seq, g.Seq[last:at]...)
		last = at
		switch rng.IntN(3) {
		case 0:
			last, moved = at+1, moved-1
		case 1:
			seq, moved = append(seq, "ACGT"[rng.IntN(4)]), moved+1
		default:
			stop := "TAA"
			if k.Reverse {
				stop = "TTA"
			}
			seq = append(seq[:len(seq)-(at-k.Start)%3], stop...)
			last = at - (at-k.Start)%3 + 3
		}
		changes = append(changes, change{at, moved})
	}
	seq = append(seq, g.Seq[last:]...)
	place := func(x int) int {
		i, _ := slices.BinarySearchFunc(changes, x, func(c change, x int) int { return c.at - x })
		if i == 0 {
			return x
		}
		return x + changes[i-1].by
	}
	for i, k := range list {
		k.Start, k.End = place(k.Start), place(k.End)
		if chosen[i] {
			broken = append(broken, k)
		} else {
			whole = append(whole, k)
		}
	}
	return seq, whole, broken
}

// pairs are the examples of neighbours of a genome: one broken gene, or two genes of the annotation.
func (p *Prior) pairs(ctx context.Context, g *Annotated) (out []example, err error) {
	f := finder{prior: p}
	if f.load([]Contig{g.Contig}) < shortest {
		return nil, nil
	}
	learned, err := f.learn(ctx, g.Code, rounds-1)
	if err != nil {
		return nil, err
	}
	const outside = 200 // bases that a part of a broken gene may be beyond it
	seq, whole, broken := g.broken(rand.New(rand.NewPCG(1, 2)))
	known := map[Known]bool{}
	stop := func(k Known) Known {
		if k.Reverse {
			return Known{Start: k.Start, Reverse: true}
		}
		return Known{Start: k.End}
	}
	for _, k := range whole {
		known[stop(k)] = true
	}
	for _, pc := range pieces(0, seq, false) {
		if pc.length < shortest || pc.unknown() {
			continue
		}
		list, chain, _ := learned.find(pc)
		for i := range max(0, len(chain)-1) {
			a, b := &list[chain[i]], &list[chain[i+1]]
			n, ok := pc.couple(a, b)
			if !ok {
				continue
			}
			var first, second Known
			first.Start, first.End, first.Reverse = pc.place(int(a.left), int(a.right), a.reverse)
			second.Start, second.End, second.Reverse = pc.place(int(b.left), int(b.right), b.reverse)
			two := known[stop(first)] && known[stop(second)]
			one := slices.ContainsFunc(broken, func(k Known) bool {
				return k.Reverse == first.Reverse && min(first.Start, second.Start) >= k.Start-outside && max(first.End, second.End) <= k.End+outside
			})
			if one == two {
				continue
			}
			x, never := learned.joint(&n)
			if never {
				continue
			}
			e := example{rows: [][]float64{slices.Clone(x[:])}, weight: 1}
			if one {
				e.right = 1
			}
			out = append(out, e)
		}
	}
	return out, nil
}

// fitJoint trains what separates a broken gene from two.
func (p *Prior) fitJoint(ctx context.Context, genomes []Annotated) error {
	lists := make([][]example, len(genomes))
	reading, ctx := errgroup.WithContext(ctx)
	reading.SetLimit(atOnce)
	for i := range genomes {
		reading.Go(func() (err error) {
			lists[i], err = p.pairs(ctx, &genomes[i])
			return err
		})
	}
	if err := reading.Wait(); err != nil {
		return err
	}
	examples := slices.Concat(lists...)
	if len(examples) == 0 {
		return errNoExamples
	}
	n := newNetwork(0, rowsOf(examples))
	n.Hidden, n.Out = nil, nil // a sum of what is nearly log odds already
	n.train(0, examples, pullOne)
	p.Weights.Joint = n
	return nil
}
