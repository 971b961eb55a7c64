package variant

import (
	"math"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/stream/streampb"
)

// maxRun is the longest homopolymer run that has rates of its own; longer runs
// share its.
const maxRun = 8

// errorCounts is how often the reads of a region disagree with the reference, by
// the contexts that matter for nanopore reads: the quality that the basecaller
// gave, the five bases around, and the homopolymer run a gap is in. Bases are those of the read's own strand, because that is what went
// through the pore. Sums of integers: no order of reads changes them.
//
// Problem: error rates differ threefold between basecallers and between
// homopolymers of two and of five bases, and qualities of small networks are not
// calibrated.
//
// Assumptions: true variants are rare against errors, so that a disagreement
// counts as an error.
//
// Strategy: measure on the region itself, starting from the rates of an
// ordinary R9.4 basecaller (priorWeight observations each).
//
// Consequences: the same reads give the same model; a region with few reads uses
// the prior; a reference a few percent away from the sample inflates the rates
// and makes calls more timid, not more daring.
type errorCounts struct {
	bases  [binCount]uint64 // by quality bin; all again by the read's class
	errors [binCount]uint64 // of these, mismatches
	swaps  [4][4]uint64     // mismatches by reference and read base

	contexts [kmerCount][4]uint32 // aligned bases by the reference's 5-mer around them and the read base

	runs       [maxRun + 1][4]uint64 // homopolymer runs passed, by length and base
	deletions  [maxRun + 1][4]uint64 // deletions that start in one
	insertions [maxRun + 1][4]uint64 // insertions that lengthen one
	positions  uint64
	others     uint64 // insertions that lengthen no run

	deletedBases, insertedBases uint64

	lengths lengthCounts
}

// add counts a checked segment that ends before position end and has the given
// class. What it shares with the reference waits in p, until [passages.settle], or is
// counted at once if p has no blocks.
func (c *errorCounts) add(s *streampb.Segment, end int, class byte, ref []byte, p *passages) {
	start, reverse, bases := int(s.GetStart()), s.GetReverse(), s.GetBases()
	c.positions += uint64(end - start)

	bin, qualities, poor := byte(noQuality), s.GetQualities(), isPoor(class)
	rpos, qpos, base := start, 0, 0
	var seen [2][binCount]uint32 // aligned bases by quality bin; twice, as one counter at a time waits for itself
	gaps := p.gaps[:0]
	for op, rest, ok := align.Ops(s.GetOps()).Next(); ok; op, rest, ok = rest.Next() {
		switch op.Kind {
		case align.Match:
			if qualities == nil {
				seen[0][bin] += uint32(op.Len)
				break
			}
			own := qualities[qpos:][:op.Len]
			i := 0
			for ; i+1 < len(own); i += 2 {
				seen[0][bins[own[i]]&(binCount-1)]++
				seen[1][bins[own[i+1]]&(binCount-1)]++
			}
			if i < len(own) {
				seen[0][bins[own[i]]]++
			}
		case align.Mismatch:
			k := kmerAt(ref, rpos, reverse)
			for i := range op.Len {
				if i > 0 {
					k = k.next(ref, rpos+i, reverse)
				}
				if qualities != nil {
					bin = binOf(qualities[qpos+i])
				}
				seen[0][bin]++
				c.errors[bin]++
				if !poor || bin > doubtfulBins {
					c.errors[firstClass+class]++
				}
				from := baseCode[ref[rpos+i]]
				if from < 4 {
					c.contexts[k][k.middle()]-- // pass counts it as matching
				}
				if to := baseCode[bases[base+i]]; to < 4 {
					c.contexts[k][strandBase(to, reverse)]++
					if from < 4 {
						c.swaps[strandBase(from, reverse)][strandBase(to, reverse)]++
					}
				}
			}
		case align.Deletion:
			if b := baseCode[ref[rpos]]; b < 4 {
				c.deletions[min(runAround(ref, rpos), maxRun)][strandBase(b, reverse)]++
				c.deletedBases += uint64(op.Len)
			}
			for i := range op.Len {
				if baseCode[ref[rpos+i]] < 4 {
					k := kmerAt(ref, rpos+i, reverse)
					c.contexts[k][k.middle()]--
				}
			}
			gaps = append(gaps, lengthGap{from: rpos, to: rpos + op.Len})
		case align.Insertion:
			n, b := insertedRun(ref, rpos, bases[base:base+op.Len])
			if n > 0 {
				c.insertions[min(n, maxRun)][strandBase(b, reverse)]++
			} else {
				c.others++
			}
			c.insertedBases += uint64(op.Len)
			gaps = append(gaps, lengthGap{from: rpos, to: rpos, seq: bases[base : base+op.Len]})
		}
		if op.Kind != align.Insertion {
			rpos += op.Len
		}
		if op.Kind != align.Deletion {
			qpos += op.Len
		}
		if op.Kind == align.Mismatch || op.Kind == align.Insertion {
			base += op.Len
		}
	}
	for bin := range seen[0] {
		n := uint64(seen[0][bin]) + uint64(seen[1][bin])
		c.bases[bin] += n
		if !poor || bin > doubtfulBins {
			c.bases[firstClass+class] += n
		}
	}
	c.pass(start, end, reverse, ref, p)
	c.lengths.change(gaps, start, end, reverse, ref)
	clear(gaps) // the segment's bases
	p.gaps = gaps
}

// baseCode maps A, C, G, T to 0 to 3 and everything else to 4.
var baseCode = func() (t [256]byte) {
	for i := range t {
		t[i] = baseN
	}
	for i, b := range []byte("ACGT") {
		t[b] = byte(i)
	}
	return t
}()

// strandBase is the base that the pore saw: b, or its complement.
func strandBase(b byte, reverse bool) byte {
	if reverse && b < 4 {
		return 3 - b
	}
	return b
}

// runFrom is the number of equal bases from pos on.
func runFrom(ref []byte, pos int) int {
	n := 1
	for pos+n < len(ref) && ref[pos+n] == ref[pos] {
		n++
	}
	return n
}

// runAround is the length of the run that pos is in, up to what is counted.
func runAround(ref []byte, pos int) int {
	start := pos
	for start > 0 && pos-start < maxRun && ref[start-1] == ref[pos] {
		start--
	}
	return runFrom(ref, start)
}

// insertedRun is the length and base of the run that an insertion before pos
// lengthens; 0 if it lengthens none.
func insertedRun(ref []byte, pos int, seq []byte) (int, byte) {
	for _, b := range seq {
		if b != seq[0] {
			return 0, 0
		}
	}
	b := baseCode[seq[0]]
	switch {
	case b > 3:
		return 0, 0
	case pos < len(ref) && ref[pos] == seq[0]:
		return runAround(ref, pos), b
	case pos > 0 && ref[pos-1] == seq[0]:
		return runAround(ref, pos-1), b
	}
	return 0, 0
}

// ErrorRates are how often reads err, before a region's own reads show it.
type ErrorRates struct {
	Mismatch float64 // per aligned base
	Gaps     float64 // that begin per column
	Other    float64 // insertions that lengthen no run, per column
	// Extension is the part of a gap's bases that another one follows.
	Extension float64
	// Deletion and Insertion are how often a homopolymer loses and gains bases, by its length
	// from 1 to MaxCountedRun, which stands for longer ones; index 0 is not used.
	Deletion, Insertion [maxRun + 1]float64
}

// MaxCountedRun is the longest homopolymer with rates of its own.
const MaxCountedRun = maxRun

// UsualErrors are those of R9.4 reads of about 87 % identity (lambda, the deepnano-rnn48
// and rnn96 networks).
func UsualErrors() ErrorRates {
	return ErrorRates{
		Mismatch: 0.03, Gaps: 0.05, Other: 0.015, Extension: 0.3,
		Deletion:  [maxRun + 1]float64{0, 0.04, 0.05, 0.08, 0.13, 0.22, 0.35, 0.45, 0.5},
		Insertion: [maxRun + 1]float64{0, 0.01, 0.015, 0.02, 0.025, 0.03, 0.03, 0.03, 0.03},
	}
}

// ErrorTally sums how often the reads of regions without variants err: what a set's rates are counted with.
type ErrorTally struct {
	bases, errors             uint64
	columns, others           uint64
	gaps, gapBases            uint64 // of deletions and insertions, and the bases that they take and bring
	runs, deletions, inserted [maxRun + 1]uint64
}

// Add adds what a region's segments show.
func (t *ErrorTally) Add(r *Region) {
	c := r.counted()
	for bin := range firstClass {
		t.bases += c.bases[bin]
		t.errors += c.errors[bin]
	}
	t.columns += c.positions
	t.others += c.others
	t.gaps += c.others
	t.gapBases += c.deletedBases + c.insertedBases
	for n := range c.runs {
		for b := range c.runs[n] {
			t.runs[n] += c.runs[n][b]
			t.deletions[n] += c.deletions[n][b]
			t.inserted[n] += c.insertions[n][b]
			t.gaps += c.deletions[n][b] + c.insertions[n][b]
		}
	}
}

// Rates are the shares that were counted. What was never seen is one event in the observations that there were, and homopolymers
// of lengths that were seldom passed err as those a base shorter.
func (t *ErrorTally) Rates() ErrorRates {
	share := func(events, of uint64) float64 { return float64(max(events, 1)) / float64(max(of, events+1, 2)) }
	rates := ErrorRates{
		Mismatch: share(t.errors, t.bases), Gaps: share(t.gaps, t.columns), Other: share(t.others, t.columns),
		Extension: share(t.gapBases-min(t.gapBases, t.gaps), t.gapBases),
	}
	const least = priorWeight
	for n := 1; n <= maxRun; n++ {
		if n > 1 && t.runs[n] < least {
			rates.Deletion[n], rates.Insertion[n] = rates.Deletion[n-1], rates.Insertion[n-1]
			continue
		}
		rates.Deletion[n], rates.Insertion[n] = share(t.deletions[n], t.runs[n]), share(t.inserted[n], t.runs[n])
	}
	return rates
}

// priorWeight is how many observations the rates count for.
const priorWeight = 200

// errorModel is errorCounts as probabilities and, for alignment, as costs in
// milli-Phred.
type errorModel struct {
	counts   *errorCounts
	prior    ErrorRates
	mismatch float64 // per aligned base
	gapRate  float64 // gaps per column

	swap [4][4]float64 // what a wrong base is, by reference base
	// How often a homopolymer loses or gains bases, by its length and base.
	deletion, insertion [maxRun + 1][4]float64

	lengths *lengthModel

	pair              [2][binCount][baseN + 1][4]int32 // [strand][bin][read base][haplotype base], bases of the reference's strand
	stay              [maxRun + 1][4]int32
	openDel, openIns  [maxRun + 1][4]int32 // beyond stay
	openOther         int32
	extendDel, extIns int32
}

// model derives the error model. prior is what is expected of the reads; nil: the usual.
func (c *errorCounts) model(prior *ErrorRates) *errorModel {
	usual := UsualErrors()
	if prior == nil {
		prior = &usual
	}
	m := &errorModel{counts: c, prior: *prior, lengths: c.lengths.model(prior)}
	m.setPairs(c, prior)
	m.setGaps(c, prior)
	return m
}

// rate is a share of events that a prior, which weighs as priorWeight of n, is pulled to.
func rate(events, n uint64, prior float64) float64 {
	return (float64(events) + float64(prior*priorWeight)) / (float64(n) + priorWeight)
}

// setPairs sets what a base of a read costs that is aligned to one of a haplotype, by its quality.
func (m *errorModel) setPairs(c *errorCounts, prior *ErrorRates) {
	var bases, errors uint64
	for bin := range firstClass {
		bases += c.bases[bin]
		errors += c.errors[bin]
	}
	m.mismatch = rate(errors, bases, prior.Mismatch)
	for from := range c.swaps {
		var total uint64
		for _, n := range c.swaps[from] {
			total += n
		}
		for to := range c.swaps[from] {
			if to != from {
				m.swap[from][to] = rate(c.swaps[from][to], total, 1.0/3)
			}
		}
	}
	for bin := range c.bases {
		e := min(0.6, rate(c.errors[bin], c.bases[bin], prior.Mismatch))
		for strand := range 2 {
			for hap := range byte(4) {
				for read := range byte(baseN) {
					p := 1 - e
					if read != hap {
						p = e * m.swap[strandBase(hap, strand == 1)][strandBase(read, strand == 1)]
					}
					m.pair[strand][bin][read][hap] = milliPhred(p)
				}
				m.pair[strand][bin][baseN][hap] = milliPhred(0.25)
			}
		}
	}
}

// setGaps sets what gaps cost that are opened, by the run of a base that they are in, and extended.
func (m *errorModel) setGaps(c *errorCounts, prior *ErrorRates) {
	var dels, inss uint64
	for n := 1; n <= maxRun; n++ {
		for b := range 4 {
			d := min(0.7, rate(c.deletions[n][b], c.runs[n][b], prior.Deletion[n]))
			i := min(0.25, rate(c.insertions[n][b], c.runs[n][b], prior.Insertion[n]))
			m.deletion[n][b], m.insertion[n][b] = d, i
			stay := milliPhred(1 - d - i)
			m.stay[n][b] = stay
			m.openDel[n][b] = milliPhred(d) - stay
			m.openIns[n][b] = milliPhred(i) - stay
			dels += c.deletions[n][b]
			inss += c.insertions[n][b]
		}
	}
	// A gap of n bases has n-1 extensions.
	extend := func(bases, events uint64) float64 {
		return min(0.6, rate(bases-min(bases, events), bases, prior.Extension))
	}
	m.gapRate = rate(dels+inss+c.others, c.positions, prior.Gaps)
	m.extendDel = milliPhred(extend(c.deletedBases, dels))
	m.extIns = milliPhred(extend(c.insertedBases, inss+c.others) / 4)
	// Any of three bases lengthens no run.
	m.openOther = milliPhred(rate(c.others, c.positions, prior.Other) / 3)
}

// milliPhred is the cost of an event of probability p.
func milliPhred(p float64) int32 { return int32(math.Round(-10_000 * math.Log10(p))) }
