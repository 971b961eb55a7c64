package simulate

import (
	"math"
	"slices"
)

// Correct returns the profile with what measuring distorts taken out. target was measured
// on real reads, measured on reads simulated with p and aligned and measured in the same
// way: where an aligner shows some kind of error more seldom than it is, or as another
// kind, it does so with both.
func (p *Profile) Correct(target, measured *Profile) *Profile {
	out := *p
	scale := func(v *float64, want, got float64) { *v *= ratio(want, got, 1e-4) }
	scale(&out.Reads.Spread, target.Reads.Spread, measured.Reads.Spread)
	out.Reads.Spread = min(out.Reads.Spread, 1.5)
	scale(&out.Runs.SiteSpread, target.Runs.SiteSpread, measured.Runs.SiteSpread)
	out.Runs.SiteSpread = min(out.Runs.SiteSpread, 2)
	scale(&out.Deletions.Rate, target.Deletions.Rate, measured.Deletions.Rate)
	for _, r := range []struct {
		to        *float64
		want, got float64
	}{
		{&out.Systematic.Substitutions, target.Systematic.Substitutions, measured.Systematic.Substitutions},
		{&out.Systematic.Deletions, target.Systematic.Deletions, measured.Systematic.Deletions},
		{&out.Systematic.Insertions, target.Systematic.Insertions, measured.Systematic.Insertions},
	} {
		*r.to = min(*r.to*ratio(r.want, r.got, 1e-5), 0.02)
	}
	if target.Bursts.Share > 0 && measured.Bursts.Share > 0 {
		// The part of the rate above 1 makes bursts. Their share and length are kept, for
		// a measurement can't separate the three well.
		over := float64((out.Bursts.Factor - 1) * ratio(target.Bursts.strength(), measured.Bursts.strength(), 0.01))
		out.Bursts.Factor = min(1+over, 30)
	}
	out.Insertions.Lengths = cells(p.Insertions.Lengths, target.Insertions.Lengths, measured.Insertions.Lengths)
	out.Deletions.Lengths = cells(p.Deletions.Lengths, target.Deletions.Lengths, measured.Deletions.Lengths)
	for _, r := range []struct{ to, want, got *[][]float64 }{
		{&out.Runs.A, &target.Runs.A, &measured.Runs.A}, {&out.Runs.C, &target.Runs.C, &measured.Runs.C},
		{&out.Runs.G, &target.Runs.G, &measured.Runs.G}, {&out.Runs.T, &target.Runs.T, &measured.Runs.T},
	} {
		rows := make([][]float64, len(*r.to))
		for i, row := range *r.to {
			rows[i] = cells(row, (*r.want)[i], (*r.got)[i])
		}
		*r.to = rows
	}
	out.Contexts = make(map[string][]float64, len(p.Contexts))
	for kmer, row := range p.Contexts {
		row = slices.Clone(row)
		for k := range row {
			scale(&row[k], target.Contexts[kmer][k], measured.Contexts[kmer][k])
		}
		out.Contexts[kmer] = row
	}
	return &out
}

// cells corrects shares one by one.
func cells(p, target, measured []float64) []float64 {
	out := slices.Clone(p)
	for i := range out {
		if i < len(target) && i < len(measured) {
			out[i] *= ratio(target[i], measured[i], 1e-3)
		}
	}
	normalise(out)
	return out
}

// ratio is want over got, bounded; least is what either may be wrong by.
func ratio(want, got, least float64) float64 {
	return min(max((want+least)/(got+least), 0.6), 1.7)
}

// Vary returns a profile of the same kind as another flow cell or basecaller may have:
// the rates of each context and each run length are multiplied by factors of their own,
// lognormally distributed with the given standard deviation of their logarithm, and the
// systematic errors are elsewhere. The rate of errors stays about the same.
func (p *Profile) Vary(spread float64, name string, seed uint64) *Profile {
	out := p.Scale(1, name, seed)
	rnd, _ := newRand(seed, varyStream, 0)
	factor := func() float64 {
		return math.Exp(float64(min(max(rnd.NormFloat64(), -3), 3)*spread) - float64(spread*spread/2))
	}
	// Kinds of errors as a whole differ too, but less.
	var kinds [contextColumns]float64
	for k := range kinds {
		kinds[k] = math.Sqrt(factor())
	}
	for kmer := range contexts {
		row := out.Contexts[spell(kmer, contextBases)]
		total := 0.0
		for k := range row {
			row[k] = float64(row[k] * (factor() * kinds[k]))
			total += row[k]
		}
		for k := range row {
			row[k] /= max(1, total/0.6)
		}
	}
	for _, rows := range out.runRows() {
		shorter, longer := math.Sqrt(factor()), math.Sqrt(factor())
		for _, row := range rows {
			own := math.Sqrt(factor())
			for k := range row {
				if k < noChange {
					row[k] *= own * shorter
				} else if k > noChange {
					row[k] *= own * longer
				}
			}
			normalise(row)
		}
	}
	out.Reads.Spread *= math.Sqrt(factor())
	out.Runs.SiteSpread *= math.Sqrt(factor())
	return out
}
