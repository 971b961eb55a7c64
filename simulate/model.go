package simulate

import (
	"math"
)

// model is a profile made ready for drawing.
type model struct {
	contexts   [contexts]contextModel
	runs       [4][maxRunLength + 1]runModel // from length 2 on
	insertions []float64                     // cumulative shares of lengths from 1
	inserted   [4]float64                    // cumulative shares of bases
	deletions  []float64                     // cumulative shares of lengths from 2
	sites      []siteModel                   // by siteBases-mer
	siteSpread float64
	siteSeed   uint64

	spread float64 // of reads
	bursts struct {
		share, length float64
		inside, out   float64 // rate over the mean
	}

	levels      [classes][levelBins]byte // quality by normal score
	correlation float64
	readShare   float64
}

// contextModel has the cumulative rates of what happens at a base.
type contextModel struct {
	total float64
	steps [contextColumns + 1]float64 // the last is a deletion of several runs
}

// runModel has the chance that a run's length is called wrongly, on average, and the
// cumulative shares of the changes then.
type runModel struct {
	wrong   float64
	odds    float64 // that it is wrong, for a read, a stretch and surroundings in the middle
	changes [runChanges]float64
}

// siteModel is the systematic error of a k-mer.
type siteModel struct {
	fraction float32 // of reads that have it; 0 for no error
	kind     byte    // column of a context: the base that is called instead, deletedColumn or insertedColumn
	base     byte    // that is inserted
}

// class is what a called base is, as far as its quality depends on that.
type class byte

const (
	right class = iota
	inRun
	beside
	wrong
	inserted
	classes
)

// Normal scores from -levelRange to levelRange fall into levelBins bins.
const (
	levelBins  = 512
	levelRange = 4.0
)

// newModel makes a profile ready.
func newModel(p *Profile) *model {
	m := &model{
		insertions: cumulative(p.Insertions.Lengths), deletions: cumulative(p.Deletions.Lengths),
		siteSpread: p.Runs.SiteSpread, siteSeed: mix(p.Seed), spread: p.Reads.Spread,
		correlation: p.Qualities.Correlation, readShare: p.Qualities.ReadShare,
	}
	m.bursts.out, m.bursts.inside = 1, 1
	if b := p.Bursts; b.Share > 0 {
		m.bursts.share, m.bursts.length = b.Share, b.Length
		m.bursts.out = 1 / (1 - b.Share + float64(b.Share*b.Factor))
		m.bursts.inside = b.Factor * m.bursts.out
	}
	copy(m.inserted[:], cumulative(p.Insertions.Bases))
	for kmer := range contexts {
		c, sum := &m.contexts[kmer], 0.0
		for k, rate := range p.Contexts[spell(kmer, contextBases)] {
			if k == middle(kmer) || (k == deletedColumn || k == doubledColumn) && !single(kmer) {
				rate = 0
			}
			sum += rate
			c.steps[k] = sum
		}
		c.total = sum + p.Deletions.Rate
		c.steps[contextColumns] = c.total
	}
	for base, rows := range p.runRows() {
		for i, row := range rows {
			r, total := &m.runs[base][i+2], 0.0
			for k, v := range row {
				total += v
				if k != noChange {
					r.wrong += v
				}
				r.changes[k] = r.wrong
			}
			for k := range r.changes {
				if r.wrong > 0 {
					r.changes[k] /= r.wrong
				}
			}
			r.wrong /= total
			r.odds = m.middleOdds(r.wrong)
		}
	}
	m.placeSites(p)
	q := &p.Qualities
	for c, shares := range [classes][]float64{right: q.Right, inRun: q.InRun, beside: q.Beside, wrong: q.Wrong, inserted: q.Inserted} {
		steps := cumulative(shares)
		at := 0
		for bin := range levelBins {
			z := levelRange * (float64(2*(float64(bin)+0.5)/levelBins) - 1)
			u := 0.5 * math.Erfc(-z/math.Sqrt2)
			for at < len(steps)-1 && steps[at] < u {
				at++
			}
			m.levels[c][bin] = byte(at)
		}
	}
	return m
}

// middleOdds returns the odds with which an event has the given chance on average, over
// reads, bursts and surroundings, which all multiply odds. Odds times chances near 1 are
// less than proportional, so there is no closed form.
func (m *model) middleOdds(chance float64) float64 {
	const always = 1e12
	switch {
	case chance <= 0:
		return 0
	case chance >= 1:
		return always
	}
	sigma := math.Sqrt(float64(m.spread*m.spread) + float64(m.siteSpread*m.siteSpread))
	average := func(odds float64) float64 {
		sum, weights := 0.0, 0.0
		for z := -4.0; z <= 4; z += 0.25 {
			w := math.Exp(float64(-z * z / 2))
			o := odds * math.Exp(float64(sigma*z)-float64(m.spread*m.spread/2))
			in, out := float64(o*m.bursts.inside), float64(o*m.bursts.out)
			sum += float64(w * (float64(m.bursts.share*in/(1+in)) + float64((1-m.bursts.share)*out/(1+out))))
			weights += w
		}
		return sum / weights
	}
	low, high := 1e-12, always
	for range 100 {
		if odds := math.Sqrt(low * high); average(odds) < chance {
			low = odds
		} else {
			high = odds
		}
	}
	return math.Sqrt(low * high)
}

// placeSites chooses the k-mers that have a systematic error. What is chosen depends on
// the profile's seed alone.
func (m *model) placeSites(p *Profile) {
	s := &p.Systematic
	if s.Substitutions+s.Deletions+s.Insertions == 0 {
		return
	}
	m.sites = make([]siteModel, siteContexts)
	for kmer := range m.sites {
		site := &m.sites[kmer]
		bits := mix(m.siteSeed ^ uint64(kmer)<<1)
		x := unit(bits)
		base := byte(kmer >> (siteBases / 2 * 2) & 3)
		other := byte(mix(bits+1) % 3)
		switch {
		case x < s.Substitutions:
			site.kind = (base + 1 + other) & 3
		case x < s.Substitutions+s.Deletions:
			site.kind = deletedColumn
		case x < s.Substitutions+s.Deletions+s.Insertions:
			site.kind, site.base = insertedColumn, (base+1+other)&3
		default:
			continue
		}
		at := float64(unit(mix(bits+2)) * float64(len(s.Fractions)-1))
		i := int(at)
		site.fraction = float32(s.Fractions[i] + float64((at-float64(i))*(s.Fractions[i+1]-s.Fractions[i])))
	}
}

// surroundings returns the odds factor of a run by its base, its length and the bases
// around: three on either side.
func (m *model) surroundings(base byte, length int, before, after uint64) float64 {
	if m.siteSpread == 0 {
		return 1
	}
	key := before&63 | after&63<<6 | uint64(base)<<12 | uint64(length)<<14
	bits := mix(m.siteSeed ^ 0xa5a5<<40 ^ key)
	// The sum of four uniform numbers is near enough to normal, and needs no
	// transcendental functions.
	z := -2.0
	for shift := 0; shift < 64; shift += 16 {
		z += float64(float64(bits>>shift&0xffff) / 0x10000)
	}
	z *= math.Sqrt(3)
	return math.Exp(m.siteSpread * z)
}

// cumulative returns the cumulative shares of values; the last is 1.
func cumulative(values []float64) []float64 {
	out := make([]float64, len(values))
	sum := 0.0
	for i, v := range values {
		sum += v
		out[i] = sum
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

// pick returns the index that a number in [0, 1) falls to in cumulative shares.
func pick(steps []float64, u float64) int {
	for i, s := range steps {
		if u < s {
			return i
		}
	}
	return len(steps) - 1
}
