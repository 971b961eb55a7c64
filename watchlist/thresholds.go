package watchlist

import (
	"math"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Thresholds say what a rule takes for evidence. docs/consume/watchlists.md explains them.
type Thresholds struct {
	// Alpha bounds the probability that a rule is ever DETECTED in a sample where nothing is there, however often it is
	// evaluated. It is shared among the changes that the rule can match.
	Alpha float64
	// Beta bounds the probability that an allele present at Fraction is NEGATIVE.
	Beta float64
	// ErrorRate is the greatest probability with which a read shows one given change that is not there.
	ErrorRate float64
	// Fraction is the share of the sample's molecules that are expected to carry the allele.
	Fraction float64

	MinDepth    int
	MinAlt      int     // reads that show the allele
	MinFraction float64 // their share
	MinQual     float64 // QUAL from which an allele is DETECTED
	RetractQual float64 // QUAL below which it no longer is
	// MaxNotCallable is the share of a rule's positions that NEGATIVE leaves unseen.
	MaxNotCallable float64
	// Filters are the caller's filters that do not matter to the rule.
	Filters []string

	ownQual, ownRetractQual bool // the panel says MinQual, RetractQual: Fraction doesn't change them
}

// defaults are the thresholds of a panel that says nothing. Depth and quality are the caller's own.
var defaults = Thresholds{
	Alpha: 1e-4, Beta: 0.01, ErrorRate: 0.12, Fraction: 1,
	MinDepth: 6, MinAlt: 3, MinFraction: 0.2, MinQual: 12, RetractQual: 6,
}

const (
	// callerShare and callerDepth are the caller's own bounds: below this share of the reads it proposes no allele,
	// and more reads than these it does not examine (variant.Config).
	callerShare = 0.2
	callerDepth = 120
	// mixtureQual and mixtureRetractQual are MinQual and RetractQual below MixtureFraction, as a network is less sure of what few of the reads show.
	mixtureQual, mixtureRetractQual = 5, 2.5
)

// Below MixtureFraction an allele is expected as a caller of mixtures calls it: from MixtureShare of the reads on. See [Watch.OfMixture].
const (
	MixtureFraction = 0.4
	MixtureShare    = 0.05
)

// ofMixture reports whether the caller has to call mixtures for the thresholds to mean what they say.
func (t *Thresholds) ofMixture() bool { return t.Fraction < MixtureFraction }

// callerShare is the share of the reads below which the caller proposes no allele.
func (t *Thresholds) callerShare() float64 {
	if t.ofMixture() {
		return MixtureShare
	}
	return callerShare
}

// usualQuals are MinQual and RetractQual of a panel that says neither.
func (t *Thresholds) usualQuals() (least, retract float64) {
	if t.ofMixture() {
		return mixtureQual, mixtureRetractQual
	}
	return defaults.MinQual, defaults.RetractQual
}

// thresholds reads those that are given over the ones in t. What only rules on variants have is for forVariants, if that isn't nil.
func (p *reader) thresholds(n *yaml.Node, t *Thresholds, forVariants func(key string) field) {
	var given givenThresholds
	before := p.found
	fields := given.fields(p)
	if forVariants != nil {
		for key := range fields {
			if !slices.Contains(ofMethylation, key) {
				fields[key] = forVariants(key)
			}
		}
	}
	p.mapping(n, "thresholds", fields)
	if given.confirm != nil && given.qual != nil || given.retract != nil && given.retractQual != nil {
		p.add(n.Line, "thresholds: a posterior and a quality say the same: give one of them")
	}
	if p.found > before {
		return
	}
	given.over(t)
	switch {
	case t.RetractQual > t.MinQual:
		p.add(n.Line, "thresholds: an allele would be taken back at quality %.3g, before it is confirmed at %.3g: lower retract_qual", t.RetractQual, t.MinQual)
	case t.present() <= t.MinFraction:
		p.add(n.Line, "thresholds: min_fraction %.3g can't be reached by alleles at the expected fraction, which %.3g of the reads show: lower min_fraction", t.MinFraction, t.present())
	}
}

// givenThresholds are thresholds as a panel or a rule gives them; nil: it doesn't.
type givenThresholds struct {
	alpha, beta, errorRate, fraction, minFraction *float64
	qual, retractQual                             *float64 // Phred
	confirm, retract                              *float64 // the same as posteriors
	notCallable                                   *float64
	depth, alt                                    *int
	filters                                       []item
}

// fields are what is read, by key.
func (g *givenThresholds) fields(p *reader) map[string]field {
	return map[string]field{
		"alpha":             p.number("alpha", 1e-12, 0.5, &g.alpha),
		"beta":              p.number("beta", 1e-12, 0.5, &g.beta),
		"error_rate":        p.number("error_rate", 1e-6, 0.49, &g.errorRate),
		"allele_fraction":   p.number("allele_fraction", 0.01, 1, &g.fraction),
		"min_depth":         p.whole("min_depth", 1, callerDepth, &g.depth),
		"min_alt":           p.whole("min_alt", 1, callerDepth, &g.alt),
		"min_fraction":      p.number("min_fraction", 0, 1, &g.minFraction),
		"min_qual":          p.number("min_qual", 0, 1000, &g.qual),
		"retract_qual":      p.number("retract_qual", 0, 1000, &g.retractQual),
		"confirm_posterior": p.number("confirm_posterior", 0, 1-1e-15, &g.confirm),
		"retract_posterior": p.number("retract_posterior", 0, 1-1e-15, &g.retract),
		"max_not_callable":  p.number("max_not_callable", 0, 1, &g.notCallable),
		"accept_filters":    p.texts("accept_filters", &g.filters),
	}
}

// over puts what is given over t. Qualities that neither has follow from the others.
func (g *givenThresholds) over(t *Thresholds) {
	qual, retractQual := g.qual, g.retractQual
	if g.confirm != nil {
		q := phred(*g.confirm)
		qual = &q
	}
	if g.retract != nil {
		q := phred(*g.retract)
		retractQual = &q
	}
	set(&t.Alpha, g.alpha)
	set(&t.Beta, g.beta)
	set(&t.ErrorRate, g.errorRate)
	set(&t.Fraction, g.fraction)
	set(&t.MinDepth, g.depth)
	set(&t.MinAlt, g.alt)
	set(&t.MinFraction, g.minFraction)
	t.ownQual, t.ownRetractQual = t.ownQual || qual != nil, t.ownRetractQual || retractQual != nil
	if g.fraction != nil && !t.ownQual {
		least, retract := t.usualQuals()
		if t.MinQual = least; t.ownRetractQual {
			retract = min(t.RetractQual, least)
		}
		t.RetractQual = retract
	}
	set(&t.MinQual, qual)
	set(&t.RetractQual, retractQual)
	set(&t.MaxNotCallable, g.notCallable)
	if qual != nil && retractQual == nil {
		t.RetractQual = min(t.RetractQual, t.MinQual/2)
	}
	if g.filters != nil {
		t.Filters = nil
		for _, f := range g.filters {
			t.Filters = append(t.Filters, f.text)
		}
	}
}

// set is *to = *v if v is given.
func set[T any](to, v *T) {
	if v != nil {
		*to = *v
	}
}

// phred is a posterior probability of being right on the Phred scale.
func phred(p float64) float64 { return -10 * math.Log10(1-p) }

// present is the probability that a read shows the allele when it is there.
func (t *Thresholds) present() float64 {
	return float64(t.Fraction*(1-t.ErrorRate)) + float64((1-t.Fraction)*t.ErrorRate)
}

// test is the sequential test of one subject, made of thresholds and of the number of changes that the rule can match.
//
// Problem: a sample is evaluated after every read, and a threshold that is safe for one evaluation is crossed by chance
// if there are enough evaluations.
//
// Strategy: the ratio of the probability of the reads if the allele is there to that if it is not. If it is not, the
// ratio is a non-negative supermartingale that begins at 1, for every rate of errors up to ErrorRate. By Ville's
// inequality it exceeds 1/alpha with a probability of at most alpha, ever.
//
// Consequences: the bound holds for any schedule of evaluations, as Wald's does but without his approximation. A rule that
// can match m changes tries m times, so each gets alpha/m.
type test struct {
	Thresholds
	alpha    float64              // of one change
	gain     float64              // of the log ratio by a read that shows the allele
	loss     float64              // by one that does not
	accept   float64              // log ratio of DETECTED
	reject   float64              // log ratio that speaks for NEGATIVE
	needed   int                  // depth from which on a miss is improbable enough; 0: none suffices
	few      [callerDepth + 1]int // the most reads of a depth that errors explain
	missedBy [callerDepth + 1]float64
}

// newTest is the test of a rule that can match that many changes.
func newTest(t Thresholds, changes int) *test {
	s := &test{Thresholds: t, alpha: t.Alpha / float64(max(1, changes))}
	p1, p0 := t.present(), t.ErrorRate
	s.gain, s.loss = math.Log(p1/p0), math.Log((1-p1)/(1-p0))
	s.accept, s.reject = -math.Log(s.alpha), math.Log(t.Beta)
	for d := range s.missedBy {
		s.missedBy[d] = s.missProbability(d)
	}
	for d := range s.few {
		for s.few[d] < d && 1-binomialBelow(s.few[d]+1, d, t.ErrorRate) > t.Beta/float64(max(1, changes)) {
			s.few[d]++
		}
	}
	for d := callerDepth; d > 0 && s.missedBy[d] <= t.Beta; d-- {
		s.needed = d
	}
	return s
}

// ratio is the log likelihood ratio of alt reads among depth.
func (s *test) ratio(alt, depth int) float64 {
	return float64(float64(alt)*s.gain) + float64(float64(depth-alt)*s.loss)
}

// errors is the most reads of a depth that errors explain: more show one of the changes that the rule can match, in a sample
// in which nothing is there, with a probability of at most Beta.
func (s *test) errors(depth int) int {
	if depth <= callerDepth {
		return s.few[max(0, depth)]
	}
	return s.few[callerDepth] * depth / callerDepth
}

// speak is what alt reads of depth that show an allele say of it, called or not: SUSPECTED if they speak rather for it than
// against it, or are more than errors explain; undecided while they don't speak against it either; else "".
func (s *test) speak(alt, depth int, final bool) State {
	switch ratio := s.ratio(alt, depth); {
	case depth > 0 && ratio > 0, alt > s.errors(depth):
		return Suspected
	case ratio <= s.reject:
		return ""
	case final:
		return NotCallable
	}
	return Pending
}

// unlisted is the greatest log ratio of an allele that the caller does not evaluate, at a depth.
func (s *test) unlisted(depth int) float64 {
	return s.ratio(max(0, int(math.Ceil(float64(s.callerShare()*float64(depth))-1e-9))-1), depth)
}

// reads is the least number of reads among depth that shows the allele and meets every threshold.
func (s *test) reads(depth int) int {
	k := max(s.MinAlt, int(math.Ceil(float64(max(s.MinFraction, s.callerShare())*float64(depth))-1e-9)))
	for k <= depth && s.ratio(k, depth) < s.accept {
		k++
	}
	return k
}

// missProbability is the probability that an allele that is there is not DETECTED at a depth: that fewer reads show it
// than the thresholds ask for.
func (s *test) missProbability(depth int) float64 {
	if depth < s.MinDepth {
		return 1
	}
	return binomialBelow(s.reads(depth), depth, s.present())
}

// missed is missProbability of any depth.
func (s *test) missed(depth int) float64 {
	return s.missedBy[min(max(depth, 0), callerDepth)]
}

// binomialBelow is the probability of fewer than k successes among n trials.
func binomialBelow(k, n int, p float64) float64 {
	if k > n {
		return 1
	}
	if k <= 0 || p >= 1 {
		return 0
	}
	lgN, _ := math.Lgamma(float64(n) + 1)
	sum := 0.0
	for i := range k {
		lgI, _ := math.Lgamma(float64(i) + 1)
		lgR, _ := math.Lgamma(float64(n-i) + 1)
		sum += math.Exp(lgN - lgI - lgR + float64(float64(i)*math.Log(p)) + float64(float64(n-i)*math.Log1p(-p)))
	}
	return min(1, sum)
}

// accepts reports whether none of the caller's filters matters to the rule.
func (s *test) accepts(filters []string) bool {
	for _, f := range filters {
		if !slices.Contains(s.Filters, f) {
			return false
		}
	}
	return true
}
