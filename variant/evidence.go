package variant

import "math"

// evidence weighs what the reads at a site say about two hypotheses.
//
// Problem: nanopore errors are not independent. In some contexts most reads of
// one strand, and in a few both strands, agree on the same wrong base or length.
// Multiplying per-read probabilities turns such agreement into certainty.
//
// Assumptions: a strand is systematically wrong with a small probability that
// depends on its context, and then a share of its reads shows the other
// hypothesis; strands are mostly wrong independently, because they pass the
// pore as different sequences.
//
// Strategy: the likelihood of a hypothesis on a strand is a mixture of
// independent reads, and of reads of which a share r comes from the other
// hypothesis, over a fixed grid of r; the site's likelihood mixes the product
// of the strands with the same for both at once.
//
// Consequences: one strand alone can convince only up to the odds against its
// being systematically wrong; in contexts that are often wrong that is far below
// the prior odds of a variant, and both strands are needed. Sums run over reads
// in canonical order, so equal sets of reads give equal bits.
type evidence struct {
	p       [][2]float64 // per read, the likelihood of either hypothesis
	reverse []bool       // per read
}

// systematic is how likely reads are to be wrong together: for each share of the
// grid, the probability that it is the share of the forward strand's, the reverse
// strand's, or both strands' reads that show the other hypothesis.
type systematic struct {
	strand [2][len(shares)]float64
	both   [len(shares)]float64
}

// shares is the grid of r.
var shares = [...]float64{0.25, 0.45, 0.65, 0.8, 0.95}

// referenceBias is how often reads of a variant show the reference: aligners and
// basecallers alike prefer what is common. Measured with 216 SNPs planted into
// lambda: the share of a strand's realigned reads that show the SNP is 0.95 on
// average, under 0.8 at 1 strand in 25, under 0.7 at 1 in 80, under 0.5 at 1 in 400;
// under 0.8 on both strands at 1 site in 100.
var referenceBias = systematic{
	strand: [2][len(shares)]float64{{4e-2, 8e-3, 2e-3, 5e-4, 1e-4}, {4e-2, 8e-3, 2e-3, 5e-4, 1e-4}},
	both:   [len(shares)]float64{1e-2, 1e-3, 1e-5, 1e-7, 1e-8},
}

// plus adds the probabilities of another reason to be wrong.
func (s systematic) plus(o systematic) systematic {
	for i := range shares {
		s.strand[0][i] += o.strand[0][i]
		s.strand[1][i] += o.strand[1][i]
		s.both[i] += o.both[i]
	}
	return s
}

const (
	// maxReadSupport bounds what one read may contribute: log odds of 100 to 1.
	maxReadSupport = 4.6
	// maxGapSupport is the same, for a substitution, of a read that has no base at
	// the site: which base it has lost is a guess from homopolymer rates.
	maxGapSupport = 1.0
	// informative is the log odds from which a read counts for an allele.
	informative = 0.5
)

// support is what one read says about an allele.
type support struct {
	row   int     // in the matrix
	llr   float64 // log likelihood ratio of the allele over its absence
	other bool    // the read prefers an allele that excludes this one
}

// support turns the costs of a read's best haplotypes without and with the allele,
// in milli-Phred, into what it says.
func (c *candidate) support(m *matrix, row int, without, with int32) support {
	limit := maxReadSupport
	if !c.indel && !c.isComplex() && m.rows[row].code[c.from-m.lo] > 3 {
		limit = maxGapSupport
	}
	return support{row: row, llr: ratio(without, with, limit)}
}

// ratio is the log likelihood ratio of two costs in milli-Phred, within a limit.
func ratio(without, with int32, limit float64) float64 {
	return min(limit, max(-limit, float64(without-with)/1000*math.Ln10/10))
}

// likelihoods are those of the allele's absence and presence. Only their ratio
// matters.
func (s *support) likelihoods() [2]float64 {
	return [2]float64{math.Exp(min(0, -s.llr)), math.Exp(min(0, s.llr))}
}

// weigh sums up what c's reads say.
func (c *candidate) weigh(m *matrix, e *evidence) {
	e.reset()
	var with, all [2]int
	for i := range c.reads {
		s := &c.reads[i]
		reverse := m.rows[s.row].seg.reverse
		e.add(reverse, s.likelihoods())
		all[strandIndex(reverse)]++
		if s.llr > informative {
			with[strandIndex(reverse)]++
		}
	}
	c.carried = carries(with, all)
	c.count(m)
	prior := math.Log(c.prior) - math.Log1p(-c.prior)
	c.logOdds = e.logOdds(&c.sys) + prior
	c.biased = biased(e.support())
	if c.rival == nil {
		return
	}
	e.reset()
	for i := range c.rival {
		s := &c.rival[i]
		e.add(m.rows[s.row].seg.reverse, s.likelihoods())
	}
	// Rivals are about as likely beforehand. The odds are those of the allele against
	// its absence or the rival.
	against := e.logOdds(&c.sys)
	c.logOdds = -logAdd(-c.logOdds, -against)
}

// An allele is carried that this share of so many reads show, and of each strand's, if there are
// reads of both. Whatever a network has learned of errors, so many reads aren't wrong together,
// but about the length of a homopolymer.
const (
	carriedReads  = 15
	carriedShare  = 0.9
	carriedStrand = 0.8
)

// carries reports whether an allele is carried that some reads of all show, by strand.
func carries(with, all [2]int) bool {
	n := float64(all[0] + all[1])
	return n >= carriedReads && float64(with[0]+with[1]) >= carriedShare*n && min(all[0], all[1]) > 0 &&
		float64(with[0]) >= carriedStrand*float64(all[0]) && float64(with[1]) >= carriedStrand*float64(all[1])
}

// leastHomopolymer is the length, in bases, from which on reads are wrong together about how
// long a homopolymer is.
const leastHomopolymer = 4

// inHomopolymer reports whether c is an indel of a homopolymer whose length reads often get wrong.
func (c *candidate) inHomopolymer() bool { return c.indel && c.run >= leastHomopolymer }

// noisyGaps is the share of columns with a gap from which on reads can be wrong together about
// an indel of a base or two outside of homopolymers, too: R10.4.1 has less than 0.015, R9.4 0.026
// to 0.053.
const noisyGaps = 0.02

// noisy reports whether reads can be wrong together about c, an indel.
func (m *errorModel) noisy(c *candidate) bool {
	return c.indel && m.gapRate > noisyGaps && max(c.to-c.from, len(c.seq)) < LongIndel
}

// count counts the reads of c.
func (c *candidate) count(m *matrix) {
	reads := c.reads
	if c.whole != nil {
		reads = c.whole
	}
	c.depth, c.refReads, c.altReads, c.otherReads = len(reads), [2]int{}, [2]int{}, [2]int{}
	for i := range reads {
		s := &reads[i]
		strand := strandIndex(m.rows[s.row].seg.reverse)
		switch {
		case s.llr > informative:
			c.altReads[strand]++
		case s.other:
			c.otherReads[strand]++
		case s.llr < -informative:
			c.refReads[strand]++
		}
	}
}

// biasMinReads is how many reads a strand needs before its disagreement filters a
// call.
const biasMinReads = 3

// biased reports whether a strand with enough reads speaks against the call.
func biased(llr [2]float64, n [2]int) bool {
	return n[0] >= biasMinReads && llr[0] < 0 || n[1] >= biasMinReads && llr[1] < 0
}

func (e *evidence) reset() {
	e.p = e.p[:0]
	e.reverse = e.reverse[:0]
}

func (e *evidence) add(reverse bool, p [2]float64) {
	e.p = append(e.p, p)
	e.reverse = append(e.reverse, reverse)
}

// logOdds is the natural logarithm of the likelihood ratio of hypothesis 1 over 0;
// sys says, per hypothesis, how often its reads show the other one.
func (e *evidence) logOdds(sys *[2]systematic) float64 {
	return e.logLikelihood(1, &sys[1]) - e.logLikelihood(0, &sys[0])
}

func (e *evidence) logLikelihood(h int, sys *systematic) float64 {
	sound := [2]float64{1, 1}
	soundBoth := 1.0
	var strand [2]float64
	both := math.Inf(-1)
	for i := range shares {
		sound[0] -= sys.strand[0][i]
		sound[1] -= sys.strand[1][i]
		soundBoth -= sys.both[i]
	}
	plain := e.shared(h, 0)
	for s := range strand {
		strand[s] = math.Log(sound[s]) + plain[s]
	}
	for i, r := range shares {
		sums := e.shared(h, r)
		for s := range strand {
			strand[s] = logAdd(strand[s], math.Log(sys.strand[s][i])+sums[s])
		}
		both = logAdd(both, math.Log(sys.both[i])+sums[0]+sums[1])
	}
	return logAdd(math.Log(soundBoth)+strand[0]+strand[1], both)
}

// shared is per strand the log likelihood when a share r of the reads comes from
// the other hypothesis and the rest from h.
func (e *evidence) shared(h int, r float64) (sums [2]float64) {
	for i, rev := range e.reverse {
		p := &e.p[i]
		sums[strandIndex(rev)] += math.Log(float64((1-r)*p[h]) + float64(r*p[1-h]))
	}
	return sums
}

// support is, per strand, the log likelihood ratio of hypothesis 1 over 0 for
// independent reads, and the number of reads.
func (e *evidence) support() (llr [2]float64, n [2]int) {
	for i, rev := range e.reverse {
		s := strandIndex(rev)
		llr[s] += math.Log(e.p[i][1] / e.p[i][0])
		n[s]++
	}
	return llr, n
}

func strandIndex(reverse bool) int {
	if reverse {
		return 1
	}
	return 0
}

// logAdd is log(exp(a) + exp(b)).
func logAdd(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if math.IsInf(b, -1) {
		return a
	}
	return a + math.Log1p(math.Exp(b-a))
}
