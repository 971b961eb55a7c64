package genes

import "math"

// How the next gene lies to the one before, in the direction of the reading.
const (
	sameStrand = iota
	convergent // → ←
	divergent  // ← →
	relations
)

func relation(reverse, nextReverse bool) int {
	switch {
	case reverse == nextReverse:
		return sameStrand
	case nextReverse:
		return convergent
	}
	return divergent
}

const (
	// nearest and farthest are the distances between genes within which the distance says something. A negative one is an overlap.
	nearest  = -100
	farthest = 300
	// fine distances have bins of their own: within them operons keep ATGA, TAATG and the like.
	fine   = 20
	coarse = 10
	bins   = (-fine-nearest)/coarse + 2*fine + (farthest-fine)/coarse
	// priorGenes is the strength of the prior for what is farther apart.
	priorGenes = 40
)

// binOf is the bin of a distance from nearest to farthest-1.
func binOf(distance int) int {
	switch {
	case distance < -fine:
		return (distance - nearest) / coarse
	case distance < fine:
		return (-fine-nearest)/coarse + distance + fine
	}
	return (-fine-nearest)/coarse + 2*fine + (distance-fine)/coarse
}

// binWidth is the number of distances of a bin.
func binWidth(bin int) float64 {
	if low := (-fine - nearest) / coarse; bin < low || bin >= low+2*fine {
		return coarse
	}
	return 1
}

// spacingCounts are how often genes follow each other in each relation and bin; the last bin has those that are farther apart.
type spacingCounts struct {
	Bins   [relations][bins + 1]float64 `json:"bins"`
	Beyond float64                      `json:"beyond"` // bases between genes that are farther apart, less what is near
}

func (c *spacingCounts) add(reverse, nextReverse bool, distance int) {
	r := relation(reverse, nextReverse)
	switch {
	case distance < nearest:
	case distance < farthest:
		c.Bins[r][binOf(distance)]++
	default:
		c.Bins[r][bins]++
		c.Beyond += float64(distance - farthest + 1)
	}
}

func strandIndex(reverse bool) int {
	if reverse {
		return 1
	}
	return 0
}

// spacingModel are log odds of a gene's beginning at a distance behind another, against anywhere.
//
// Genes are taken for a point process: at each base behind a gene the next one may begin, with a rate that depends on the distance and on the
// strands. The odds are the rate here to the rate far from any gene.
type spacingModel struct {
	near [relations][bins]float64
	far  [relations]float64
}

// doubt is how many genes must be expected at a distance for what was counted there to weigh as much as what was believed before: of a prior, that
// the distance says nothing; of a genome, what the prior says. That none is found where few would be is little evidence.
const doubt = 1

// trust is how much the odds of near neighbours count. They are learnt from genes and starts that were chosen by them, and so are too sure. The few
// genes of a virus whose ribosomes scan for the start teach next to nothing.
func (f *finder) trust() float64 {
	if f.starts.scanned {
		return 1
	}
	return .4
}

func newSpacing(prior, own *spacingCounts, trust float64) *spacingModel {
	m := new(spacingModel)
	m.pull(prior)
	m.pull(own)
	for r := range m.near {
		for b := range m.near[r] {
			m.near[r][b] *= trust
		}
	}
	m.apart(prior, own)
	return m
}

// pull draws the odds of near neighbours from what they are towards those of counts.
func (m *spacingModel) pull(counts *spacingCounts) {
	var waiting [relations]float64 // first genes of pairs
	far := 1.0
	for r := range relations {
		for _, n := range counts.Bins[r] {
			waiting[sameStrand] += n
			// A pair on one strand is of either strand alike.
			switch r {
			case sameStrand:
				waiting[convergent] += float64(n / 2)
				waiting[divergent] += float64(n / 2)
			default:
				waiting[r] += n
			}
		}
		far += counts.Bins[r][bins]
	}
	rate := far / (counts.Beyond + farthest)
	for b := range bins {
		for r := range relations {
			expected := float64(waiting[r] * binWidth(b) * rate)
			m.near[r][b] = math.Log((counts.Bins[r][b] + float64(doubt*math.Exp(m.near[r][b]))) / (expected + doubt))
		}
		same := counts.Bins[sameStrand][b]
		waiting[convergent] -= counts.Bins[convergent][b] + float64(same/2)
		waiting[divergent] -= counts.Bins[divergent][b] + float64(same/2)
		waiting[sameStrand] -= counts.Bins[convergent][b] + counts.Bins[divergent][b] + same
	}
}

// apart sets the odds of neighbours that are far from each other.
func (m *spacingModel) apart(prior, own *spacingCounts) {
	total := 0.0
	for _, list := range prior.Bins {
		for _, n := range list {
			total += n
		}
	}
	scale := priorGenes / max(total, 1) // the prior counts as so many genes, however many it was made of
	var counts [relations]float64
	far := 1.0
	for r := range counts {
		counts[r] = float64(prior.Bins[r][bins]*scale) + own.Bins[r][bins]
		far += counts[r]
	}
	for r := range counts {
		share := 1.0
		if r != sameStrand {
			share = 2 // only half of the genes can be followed so
		}
		m.far[r] = math.Log((float64(share*counts[r]) + .5) / far)
	}
}
