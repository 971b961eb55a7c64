package eventalign

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Fit is what a read's picoamperes are of its levels: pA = Scale × level + Shift.
type Fit struct{ Scale, Shift float64 }

// Unit turns picoamperes into levels.
func (f Fit) Unit(picoamperes []float32) []float32 {
	out := make([]float32, len(picoamperes))
	for i, x := range picoamperes {
		out[i] = float32((float64(x) - f.Shift) / f.Scale)
	}
	return out
}

// Guess fits by medians and median deviations alone, before samples are aligned: levels
// are those that the samples may have.
func Guess(picoamperes, levels []float32) Fit {
	m, d := spread(picoamperes)
	ml, dl := spread(levels)
	if d == 0 || dl == 0 {
		return Fit{Scale: 1, Shift: m - ml}
	}
	return Fit{Scale: d / dl, Shift: m - float64(d/dl*ml)}
}

// spread returns the median and the median distance from it.
func spread(values []float32) (median, deviation float64) {
	if len(values) == 0 {
		return 0, 0
	}
	sorted := slices.Sorted(slices.Values(values))
	m := sorted[len(sorted)/2]
	for i, v := range sorted {
		sorted[i] = max(v-m, m-v)
	}
	slices.Sort(sorted)
	return float64(m), float64(sorted[len(sorted)/2])
}

// eventStep is how far, in median deviations of all samples, one is from the event before
// if it begins another.
const eventStep = 0.5

// Events returns the means of samples that are near each other, in their order: about one
// of each base, so that none counts more for staying longer.
func Events(picoamperes []float32) []float32 {
	_, d := spread(picoamperes)
	step := float32(eventStep * d)
	var out []float32
	n := float32(0)
	for _, x := range picoamperes {
		if len(out) > 0 {
			if e := x - out[len(out)-1]; e <= step && e >= -step {
				n++
				out[len(out)-1] += e / n
				continue
			}
		}
		out, n = append(out, x), 1
	}
	return out
}

// Bounds of what counts for what.
const (
	// fitSamples is how many samples a base needs to count in a fit, spreadSamples to
	// have a spread.
	fitSamples, spreadSamples = 3, 4
	// A base counts in the autocorrelation with so many samples, without the first and
	// last ones, which have a share of its neighbours'.
	correlationSamples, correlationEdge = 16, 2
	// A base shows whether its level changes with so many samples.
	changeSamples = 12
	// A level is far from another one by so much.
	clearStep = 0.5
	// A level changes clearly by so much: noise alone rarely looks like it.
	clearChange = 0.3
	// mostChanged is the longest change that is measured, in samples.
	mostChanged = 24
	// outlier is how many robust standard deviations off a base is left out of a fit.
	outlier = 4
	// edgeBases are left out at both ends of an alignment, which its bounds decide.
	edgeBases = 4
)

// ErrFit says that a read's current has nothing to do with its levels.
var ErrFit = errors.New("the current doesn't follow the levels")

// Refit fits to the means of aligned bases, by least squares without outliers.
func Refit(picoamperes, levels []float32, begins []int) (Fit, error) {
	means := make([]float64, 0, len(levels))
	at := make([]float64, 0, len(levels))
	for i, l := range levels {
		if s := picoamperes[begins[i]:end(begins, i, len(picoamperes))]; len(s) >= fitSamples {
			m, _ := moments(s)
			means, at = append(means, m), append(at, float64(l))
		}
	}
	use := make([]bool, len(means))
	for i := range use {
		use[i] = true
	}
	var f Fit
	for range 3 {
		f = line(at, means, use)
		if !(f.Scale > 0) || math.IsInf(f.Scale, 0) {
			return Fit{}, ErrFit
		}
		off := make([]float64, len(means))
		for i := range off {
			off[i] = math.Abs(means[i] - float64(f.Scale*at[i]) - f.Shift)
		}
		bound := outlier * 1.4826 * slices.Sorted(slices.Values(off))[len(off)/2]
		for i := range off {
			use[i] = off[i] <= bound
		}
	}
	return f, nil
}

// line is the regression of y on x.
func line(x, y []float64, use []bool) Fit {
	n, sx, sy, sxx, sxy := 0.0, 0.0, 0.0, 0.0, 0.0
	for i := range x {
		if use[i] {
			n, sx, sy, sxx, sxy = n+1, sx+x[i], sy+y[i], sxx+float64(x[i]*x[i]), sxy+float64(x[i]*y[i])
		}
	}
	b := (float64(n*sxy) - float64(sx*sy)) / (float64(n*sxx) - float64(sx*sx))
	return Fit{Scale: b, Shift: (sy - float64(b*sx)) / n}
}

func end(begins []int, i, samples int) int {
	if i+1 < len(begins) {
		return begins[i+1]
	}
	return samples
}

// moments are the mean and the standard deviation of samples.
func moments(samples []float32) (mean, deviation float64) {
	n := float64(len(samples))
	for _, x := range samples {
		mean += float64(x)
	}
	mean /= n
	for _, x := range samples {
		deviation += float64((float64(x) - mean) * (float64(x) - mean))
	}
	return mean, math.Sqrt(deviation / max(n-1, 1))
}

// Lags is how many lags of the autocorrelation are measured.
const Lags = 3

// Statistics are the distributions over bases, in units of levels and in samples.
type Statistics struct {
	Residuals []float64 // of each base: its mean less its level
	Spreads   []float64 // of bases of four samples or more: their standard deviation
	Dwells    []float64 // of each base: its samples
	// Of bases of twelve samples or more, without the first and the last sample: by how
	// much the level is another one for a while, at most half of the base, and the standard
	// deviation about the two levels.
	Changes, Steady []float64
	// Of those among them whose level changes by clearChange or more: for which part of the
	// samples, and which part of the others has passed before.
	Lasts, When []float64
	// Clear are the samples of bases whose level is far from those of both neighbours: where
	// levels are near each other, borders of bases are where noise has put them.
	Clear []float64

	lags  [Lags]float64   // sums of products
	pair  [Lags]float64   // their numbers
	self  [2]float64      // sum of squares, and their number
	r     [6]float64      // n, sums of x, y, xx, yy, xy of levels and means
	quiet [][Lags]float64 // of bases: their own autocorrelation
	loud  []float64       // and their standard deviation
}

// Add takes an aligned stretch in; samples are in units of levels.
func (s *Statistics) Add(samples, levels []float32, begins []int) {
	for i := edgeBases; i < len(levels)-edgeBases; i++ {
		of := samples[begins[i]:end(begins, i, len(samples))]
		mean, deviation := moments(of)
		level := float64(levels[i])
		s.Residuals = append(s.Residuals, mean-level)
		s.Dwells = append(s.Dwells, float64(len(of)))
		if min(math.Abs(float64(levels[i]-levels[i-1])), math.Abs(float64(levels[i+1]-levels[i]))) >= clearStep {
			s.Clear = append(s.Clear, float64(len(of)))
		}
		if len(of) >= spreadSamples {
			s.Spreads = append(s.Spreads, deviation)
		}
		for j, v := range [6]float64{1, level, mean, level * level, mean * mean, level * mean} {
			s.r[j] += v
		}
		s.correlate(of)
		if len(of) >= changeSamples {
			inner := of[1 : len(of)-1]
			by, first, long, rest := changed(inner)
			by = math.Abs(by)
			s.Changes, s.Steady = append(s.Changes, by), append(s.Steady, rest)
			if by >= clearChange {
				s.Lasts = append(s.Lasts, float64(long)/float64(len(inner)))
				s.When = append(s.When, float64(first)/float64(len(inner)-long))
			}
		}
	}
}

// changed finds the samples in a row that differ most from the others, at most half of them
// and at most mostChanged: so that deviations from the two means are the least. It returns by
// how much they are above the others, the first of them and how many there are, and the
// standard deviation about the two means.
func changed(samples []float32) (by float64, first, long int, rest float64) {
	n := float64(len(samples))
	sums := make([]float64, len(samples)+1)
	square := 0.0
	for i, x := range samples {
		sums[i+1] = sums[i] + float64(x)
		square += float64(float64(x) * float64(x))
	}
	mean := sums[len(samples)] / n
	square -= float64(mean * mean * n)
	most := 0.0
	for l := 1; l <= min(len(samples)/2, mostChanged); l++ {
		k := float64(l)
		scale := n / (k * (n - k))
		for i := 0; i+l <= len(samples); i++ {
			d := sums[i+l] - sums[i] - float64(k*mean)
			if between := d * d * scale; between > most {
				most, by, first, long = between, float64(d*scale), i, l
			}
		}
	}
	return by, first, long, math.Sqrt(max(square-most, 0) / (n - 2))
}

// Turn says which way the level of a base changes: 1 up, -1 down, and 0 if it doesn't
// clearly or the base has too few samples.
func Turn(samples []float32) int {
	if len(samples) < changeSamples {
		return 0
	}
	switch by, _, _, _ := changed(samples[1 : len(samples)-1]); {
	case by >= clearChange:
		return 1
	case by <= -clearChange:
		return -1
	}
	return 0
}

func (s *Statistics) correlate(of []float32) {
	if len(of) < correlationSamples {
		return
	}
	of = of[correlationEdge : len(of)-correlationEdge]
	mean, deviation := moments(of)
	var own [Lags]float64
	square := 0.0
	for i, x := range of {
		d := float64(x) - mean
		s.self[0] += float64(d * d)
		s.self[1]++
		square += float64(d * d)
		for lag := 1; lag <= Lags && lag <= i; lag++ {
			product := float64(d * (float64(of[i-lag]) - mean))
			s.lags[lag-1] += product
			own[lag-1] += product
			s.pair[lag-1]++
		}
	}
	if square > 0 {
		for i := range own {
			own[i] /= square
		}
		s.quiet, s.loud = append(s.quiet, own), append(s.loud, deviation)
	}
}

// Quiet is the autocorrelation of samples, from lag 1, in that half of the bases that
// scatter least: each counts alike, and few change their level.
func (s *Statistics) Quiet() (out [Lags]float64) {
	bound := 0.0
	if len(s.loud) > 0 {
		bound = slices.Sorted(slices.Values(s.loud))[len(s.loud)/2]
	}
	n := 0.0
	for i, own := range s.quiet {
		if s.loud[i] <= bound {
			n++
			for lag := range out {
				out[lag] += own[lag]
			}
		}
	}
	for lag := range out {
		out[lag] /= max(n, 1)
	}
	return out
}

// Autocorrelation is that of samples about their base's mean, from lag 1.
func (s *Statistics) Autocorrelation() (out [Lags]float64) {
	for i := range out {
		if s.pair[i] > 0 && s.self[0] > 0 {
			out[i] = s.lags[i] / s.pair[i] / (s.self[0] / s.self[1])
		}
	}
	return out
}

// Correlation is Pearson's r of bases' means with their levels.
func (s *Statistics) Correlation() float64 {
	n, x, y, xx, yy, xy := s.r[0], s.r[1], s.r[2], s.r[3], s.r[4], s.r[5]
	return (float64(n*xy) - float64(x*y)) / math.Sqrt((float64(n*xx)-float64(x*x))*(float64(n*yy)-float64(y*y)))
}

// KS is the Kolmogorov-Smirnov distance of two samples: the greatest difference of their
// distribution functions. Neither may be empty.
func KS(a, b []float64) float64 {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	i, j, most := 0, 0, 0.0
	for i < len(a) && j < len(b) {
		v := min(a[i], b[j])
		for i < len(a) && a[i] <= v {
			i++
		}
		for j < len(b) && b[j] <= v {
			j++
		}
		most = max(most, math.Abs(float64(i)/float64(len(a))-float64(j)/float64(len(b))))
	}
	return most
}

// fitRounds is how often a read is aligned anew by a better fit.
const fitRounds = 3

// AddKnown aligns a stretch whose levels are known and takes it in; begins are as for
// [Align].
func (s *Statistics) AddKnown(picoamperes, levels []float32, begins []int, cfg Config) (Fit, []int, error) {
	if len(levels) != len(begins) || len(picoamperes) < len(levels) {
		return Fit{}, nil, fmt.Errorf("aligning samples: %d of them, %d levels and %d places of bases: %w", len(picoamperes), len(levels), len(begins), ErrOutside)
	}
	// One sample of each base: where the motor stops for long, one base has most samples.
	middles := make([]float32, len(levels))
	for i := range middles {
		at := (begins[i] + end(begins, i, len(picoamperes))) / 2
		middles[i] = picoamperes[min(max(at, 0), len(picoamperes)-1)]
	}
	fit := Guess(middles, levels)
	var found []int
	for range fitRounds {
		var err error
		if found, err = Align(fit.Unit(picoamperes), levels, begins, cfg); err != nil {
			return fit, nil, err
		}
		if fit, err = Refit(picoamperes, levels, found); err != nil {
			return fit, nil, err
		}
	}
	s.Add(fit.Unit(picoamperes), levels, found)
	return fit, found, nil
}

// AddDecoded decodes a stretch by a fit of its read, aligns it to what it was decoded to,
// and takes it in.
func (s *Statistics) AddDecoded(picoamperes []float32, fit Fit, d *Decoder) (Fit, Path, error) {
	path, err := d.Decode(fit.Unit(picoamperes))
	if err != nil {
		return fit, path, err
	}
	fit, path.Begins, err = s.AddKnown(picoamperes, d.LevelsOf(path), path.Begins, Default())
	return fit, path, err
}
