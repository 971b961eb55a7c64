package porefit

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/porestream/porestream/simulate/eventalign"
	"github.com/porestream/porestream/simulate/squiggle"
)

// Measure is a method of a [Meter] to measure reads: with or without knowing the bases.
type Measure func([]Stretch) (*Measured, error)

// Calibration finds the profile by which simulated reads are measured as real ones are.
//
// Problem: what a Viterbi alignment measures is not what the pore did, so what is measured
// of real reads can't be put into a simulator as it is.
//
// Strategy: simulate, measure simulated reads alike, and move each quantile of the profile
// by what the measured ones differ; again, a few times.
type Calibration struct {
	// Real is what was measured of real reads by Measure.
	Real    *Measured
	Measure Measure
	// Published is the model of published levels, Shipped that of ours, both without a
	// profile.
	Published, Shipped *squiggle.Model
	Sequences          [][]byte
	Stretch            int // cut simulated reads to so many samples; 0: whole ones
	Converter          squiggle.Converter
	// Rounds is how often a profile is mended by published levels, ShippedRounds how often
	// by ours.
	Rounds, ShippedRounds int
	// Decoded says that bases were decoded, and too often wrong to say what words do, which
	// stays as it is, as do the changes' times and the shape of how long bases stay: a search
	// splits long bases and passes over short ones, whatever the pore did, and quantiles that
	// are moved by that come to be of no pore. Times get a factor.
	Decoded bool
	Log     io.Writer
}

// decodedOff is by how much, at most, a visit of a decoded base is off its level.
const decodedOff = 1.2

// damping is how much of a difference a round takes back: all of it would swing.
const damping = 0.8

// Begin sets a profile's quantiles and its noise's autocorrelation to those of the real
// reads.
func (c *Calibration) Begin(p *squiggle.Profile) {
	real := c.targets(c.Real)
	p.Dwell, p.Noise, p.Change, p.ResidualPublished = real.dwell, real.steady, real.change, real.residual
	p.Lasts, p.When = real.lasts, make([]float64, len(p.Change))
	for i := range p.When {
		p.When[i] = squiggle.QuantileAt(i)
	}
	for i := range p.Dwell {
		p.Dwell[i] = max(p.Dwell[i], 0.02)
		p.Noise[i] = max(p.Noise[i], 0.005)
	}
	flat := func(w word) []squiggle.Part {
		return []squiggle.Part{{Offset: w.offset, Width: w.bases, Adds: make([]int16, 1<<(2*w.bases))}}
	}
	p.DwellWords, p.NoiseWords, p.RiseWords = flat(dwellWord(p.K)), flat(noiseWord(p.K)), flat(noiseWord(p.K))
	p.Residual = slices.Clone(p.ResidualPublished)
	p.Correlation = c.Real.Quiet()
	for i := range p.Correlation {
		p.Correlation[i] = max(p.Correlation[i], 0)
	}
}

// Run mends a profile's quantiles and its noise's autocorrelation, round by round.
func (c *Calibration) Run(p *squiggle.Profile) error {
	real := c.targets(c.Real)
	less := make([]float64, len(p.Residual)) // that shipped levels leave to visits
	for i := range less {
		less[i] = p.Residual[i] - p.ResidualPublished[i]
	}
	for round := range c.Rounds {
		m, err := c.simulated(p, true, uint64(round))
		if err != nil {
			return err
		}
		c.report(round, m)
		sim := c.targets(m)
		is, want := m.Quiet(), c.Real.Quiet()
		for i := range is {
			p.Correlation[i] = min(max(p.Correlation[i]+float64(damping*(want[i]-is[i])), 0), 0.95)
		}
		shift(p.ResidualPublished, real.residual, sim.residual)
		if c.Decoded { // what is further off was decoded wrongly
			for i, v := range p.ResidualPublished {
				p.ResidualPublished[i] = min(max(v, -decodedOff), decodedOff)
			}
		}
		stretch(p.Noise, real.steady, sim.steady)
		stretch(p.Change, real.change, sim.change)
		if c.Decoded {
			scale(p.Dwell, real.dwell, sim.dwell)
			continue
		}
		stretch(p.Dwell, real.dwell, sim.dwell)
		stretch(p.Lasts, real.lasts, sim.lasts)
		shift(p.When, real.when, sim.when)
		for i := range p.When {
			p.When[i], p.Lasts[i] = min(max(p.When[i], 0), 1), min(p.Lasts[i], 0.5)
		}
		c.words(p, m)
	}
	// Shipped levels are off the published ones, so less is left for visits.
	for i := range less {
		p.Residual[i] = p.ResidualPublished[i] + less[i]
	}
	slices.Sort(p.Residual)
	for round := range c.ShippedRounds {
		m, err := c.simulated(p, false, uint64(100+round))
		if err != nil {
			return err
		}
		c.report(round, m)
		shift(p.Residual, real.residual, c.targets(m).residual)
	}
	return nil
}

func (c *Calibration) report(round int, m *Measured) {
	for _, d := range []struct {
		of       string
		real, is []float64
	}{{"changes", c.Real.Changes, m.Changes}, {"steady", c.Real.Steady, m.Steady}, {"lasts", c.Real.Lasts, m.Lasts}, {"when", c.Real.When, m.When}, {"clear", c.Real.Clear, m.Clear}} {
		fmt.Fprintf(c.Log, "%s %.3f, ", d.of, eventalign.KS(d.real, d.is))
	}
	fmt.Fprintf(c.Log, "round %d: %d bases, %d stretches left out, %+v, r %.4f, autocorrelation %.3f, of real reads %.3f, of quiet bases %.3f and %.3f\n",
		round, len(m.Dwells), m.Left, Compare(c.Real, m), m.Correlation(), m.Autocorrelation(), c.Real.Autocorrelation(), m.Quiet(), c.Real.Quiet())
}

// targets are the quantiles of what was measured.
type targets struct{ residual, steady, change, lasts, when, dwell []float64 }

func (c *Calibration) targets(m *Measured) targets {
	return targets{
		Quantiles(m.Residuals, false), Quantiles(m.Steady, false), Quantiles(m.Changes, false), Quantiles(m.Lasts, false), Quantiles(m.When, false),
		Quantiles(m.Clear, true),
	}
}

// words mends what words do: by what is measured of them in real reads and not in
// simulated ones.
func (c *Calibration) words(p *squiggle.Profile, m *Measured) {
	realDwell, realNoise := c.Real.Words(p.K)
	dwell, noise := m.Words(p.K)
	mend := func(parts []squiggle.Part, real, is []float64) {
		adds := parts[0].Adds
		for i := range adds {
			v := float64(adds[i]) + float64(1000*damping*(real[i]-is[i]))
			adds[i] = int16(math.Round(min(max(v, -wordMost), wordMost)))
		}
	}
	mend(p.DwellWords, realDwell, dwell)
	mend(p.NoiseWords, realNoise, noise)
	mend(p.RiseWords, c.Real.Turns(p.K), m.Turns(p.K))
}

// wordMost is the most that a word may add, in thousandths of a logarithm.
const wordMost = 2000

// smooth makes each value the mean of those about it: steps in what a round takes back are
// of the few visits that were measured, and no pore's.
func smooth(values []float64) []float64 {
	const about = 8
	out := make([]float64, len(values))
	for i := range values {
		near := min(about, i, len(values)-1-i)
		for _, v := range values[i-near : i+near+1] {
			out[i] += v / float64(2*near+1)
		}
	}
	return out
}

// simulated measures simulated reads, by published levels or by ours.
func (c *Calibration) simulated(p *squiggle.Profile, published bool, seed uint64) (*Measured, error) {
	levels := c.Shipped
	if published {
		levels = c.Published
	}
	rounded, err := Rounded(p)
	if err != nil {
		return nil, err
	}
	m, err := rounded.Apply(levels, published)
	if err != nil {
		return nil, err
	}
	reads, err := Simulate(m, squiggle.Typical(), c.Sequences, seed, c.Converter)
	if err != nil {
		return nil, err
	}
	if c.Stretch > 0 {
		reads = Shorten(reads, c.Stretch)
	}
	return c.Measure(reads)
}

// Shorten keeps the first samples of each stretch, and the bases that begin in them.
func Shorten(stretches []Stretch, samples int) []Stretch {
	var out []Stretch
	for _, s := range stretches {
		if len(s.Picoamperes) > samples {
			s.Picoamperes = s.Picoamperes[:samples]
			n, _ := slices.BinarySearch(s.Begins, samples)
			n = min(n, len(s.Bases))
			s.Bases, s.Begins = s.Bases[:n], s.Begins[:min(n, len(s.Begins))]
		}
		out = append(out, s)
	}
	return out
}

// shift moves quantiles by what measured ones differ from the wanted.
func shift(q, want, is []float64) {
	for i := range q {
		q[i] += float64(damping * (want[i] - is[i]))
	}
	slices.Sort(q)
}

// stretch does so with quantiles of what is positive, by ratios.
func stretch(q, want, is []float64) {
	const least = 0.02 // of a sample, and of a level: below that ratios say nothing
	ratios := make([]float64, len(q))
	for i := range q {
		ratios[i] = math.Log(max(want[i], least) / max(is[i], least))
	}
	for i, ratio := range smooth(ratios) {
		q[i] *= math.Exp(min(max(float64(damping*ratio), -math.Ln2), math.Ln2))
	}
	slices.Sort(q)
}

// scale gives all of them the same factor.
func scale(q, want, is []float64) {
	sum := 0.0
	for i := range q {
		sum += math.Log(want[i] / is[i])
	}
	for i := range q {
		q[i] *= math.Exp(damping * sum / float64(len(q)))
	}
}

// Between is how reads differ from each other. Spreads are standard deviations between reads.
type Between struct {
	// Centre and Scale are means, in picoamperes, of where a read has the middle of levels and of what it has for a level's standard deviation;
	// Together is the correlation of the two.
	Centre, CentreSpread, Scale, ScaleSpread, Together float64
	// SpeedSpread and NoiseSpread are of logarithms. Drift is the standard deviation of slow wandering within a read, in levels.
	SpeedSpread, NoiseSpread, Drift float64
}

// Spread measures it.
func (m *Measured) Spread() Between {
	shifts, scales := make([]float64, 0, len(m.Fits)), make([]float64, 0, len(m.Fits))
	for _, f := range m.Fits {
		shifts, scales = append(shifts, f.Shift), append(scales, f.Scale)
	}
	b := Between{SpeedSpread: deviation(logs(m.Speeds)), NoiseSpread: deviation(logs(m.Scatter))}
	b.Centre, b.CentreSpread = mean(shifts), deviation(shifts)
	b.Scale, b.ScaleSpread = mean(scales), deviation(scales)
	for i := range shifts {
		b.Together += (shifts[i] - b.Centre) * (scales[i] - b.Scale) / float64(len(shifts)-1) / b.CentreSpread / b.ScaleSpread
	}
	// Drift is what residuals of bases tens of bases apart have in common.
	sum, n := 0.0, 0.0
	for lag := 5; lag <= 50; lag += 5 {
		for i := lag; i < len(m.Residuals); i++ {
			if m.Dwells[i] >= 4 && m.Dwells[i-lag] >= 4 {
				sum, n = sum+float64(m.Residuals[i]*m.Residuals[i-lag]), n+1
			}
		}
	}
	b.Drift = math.Sqrt(max(sum/n, 0))
	return b
}

func logs(values []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = math.Log(v)
	}
	return out
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

func deviation(values []float64) float64 {
	m, sum := mean(values), 0.0
	for _, v := range values {
		sum += float64((v - m) * (v - m))
	}
	return math.Sqrt(sum / float64(len(values)-1))
}

// Rounded is a profile as it is after being written and read.
func Rounded(p *squiggle.Profile) (*squiggle.Profile, error) {
	return squiggle.ReadProfile(bytes.NewReader(p.AppendText(nil)))
}
