package simulate

import "math"

// binBases is how many bases of the template are examined together for bursts.
const binBases = 20

// bin is a stretch of a read.
type bin struct {
	errors   float64
	expected float64 // by the profile, for a read of its accuracy
	chances  float64 // for an error: bases, and runs
}

// chance is the mean chance of an error where there are factor times as many.
func (b *bin) chance(factor float64) float64 {
	return min(max(factor*b.expected/max(b.chances, 1), 1e-9), 0.9)
}

// fit estimates what differs between reads and within them, given the rates of a
// profile.
type fit struct {
	model *model
	reads [][]bin
	// Normal scores of qualities.
	scores  [classes][qualities]float64
	means   []float64 // by read
	within  float64   // sum of squares about the means
	product float64   // sum of products of neighbours about the means
	bases   float64
}

func newFit(p *Profile) *fit {
	f := &fit{model: newModel(p)}
	q := &p.Qualities
	for c, counts := range [classes][]float64{right: q.Right, inRun: q.InRun, beside: q.Beside, wrong: q.Wrong, inserted: q.Inserted} {
		below, total := 0.0, 0.0
		for _, n := range counts {
			total += n
		}
		for v, n := range counts {
			// The middle of the ranks that have this quality.
			u := min(max((below+float64(n/2))/total, 1e-4), 1-1e-4)
			f.scores[c][v] = math.Sqrt2 * math.Erfinv(2*u-1)
			below += n
		}
	}
	return f
}

// add takes in a read.
func (f *fit) add(w *walk, skipped func(*walk, int) bool) {
	var bins []bin
	var b bin
	bases := 0
	w.inner(func(r *runCall) {
		if bases >= binBases {
			bins, b, bases = append(bins, b), bin{}, 0
		}
		bases += r.length
		for i := r.start - 1; i <= r.start+r.length; i++ {
			if skipped(w, i) {
				return
			}
		}
		if r.length > 1 && !r.other {
			b.chances++
			b.expected += f.model.runs[w.template[r.start]][min(r.length, maxRunLength)].wrong
			if r.change != 0 {
				b.errors++
			}
		}
		for i := r.start; i < r.start+r.length; i++ {
			kmer, ok := w.context(i, contextBases)
			if !ok || w.called[i] == unknown || w.called[i] == gone && r.length > 1 && !r.other {
				continue
			}
			b.chances++
			b.expected += f.model.contexts[kmer].total
			switch {
			case w.called[i] == gone && r.other:
				if w.called[i-1] != gone {
					b.errors++
				}
			case w.called[i] != w.template[i], w.extra[i] > 0, r.length == 1 && r.change != 0:
				b.errors++
			}
		}
	})
	if len(bins) >= 5 {
		f.reads = append(f.reads, bins)
	}
	if w.quality == nil {
		return
	}
	var scores []float64
	sum := 0.0
	w.classify(func(c class, q byte) {
		z := f.scores[c][min(q, qualities-1)]
		sum += z
		scores = append(scores, z)
	})
	if len(scores) < 200 {
		return
	}
	mean := sum / float64(len(scores))
	f.means = append(f.means, mean)
	f.bases += float64(len(scores))
	for i, z := range scores {
		f.within += float64((z - mean) * (z - mean))
		if i > 0 {
			f.product += float64((z - mean) * (scores[i-1] - mean))
		}
	}
}

// fill completes the profile.
func (f *fit) fill(p *Profile) {
	if f.within > 0 {
		q := &p.Qualities
		q.Correlation = min(max(f.product/f.within, 0), 0.99)
		mean, square := 0.0, 0.0
		for _, m := range f.means {
			mean += m / float64(len(f.means))
		}
		for _, m := range f.means {
			square += (m - mean) * (m - mean) / float64(len(f.means))
		}
		q.ReadShare = min(square/(square+f.within/f.bases), 0.9)
	}
	dispersion := f.spread(p)
	if dispersion > 1.02 {
		f.bursts(p)
	}
}

// spread estimates how much reads differ, and returns how much more their bins vary
// than by chance.
func (f *fit) spread(p *Profile) float64 {
	observed, expected := 0.0, 0.0
	type read struct{ rate, expected float64 }
	var reads []read
	for _, bins := range f.reads {
		errors, sum := 0.0, 0.0
		for _, b := range bins {
			errors += b.errors
			sum += b.expected
		}
		if sum <= 0 {
			continue
		}
		rate := errors / sum
		reads = append(reads, read{rate, sum})
		for _, b := range bins {
			d := b.errors - float64(rate*b.expected)
			observed += float64(d * d)
			expected += float64(rate * b.expected * (1 - b.chance(rate)))
		}
	}
	if expected == 0 {
		return 1
	}
	dispersion := observed / expected
	mean, weight := 0.0, 0.0
	for _, r := range reads {
		mean += float64(r.rate * r.expected)
		weight += r.expected
	}
	mean /= weight
	between, n := 0.0, 0.0
	for _, r := range reads {
		if r.expected*mean < 20 { // errors; a rate of fewer says little
			continue
		}
		between += float64((r.rate-mean)*(r.rate-mean)) - dispersion*mean/r.expected
		n++
	}
	if n > 1 {
		p.Reads.Spread = math.Sqrt(math.Log(1 + max(0, between/n)/(mean*mean)))
	}
	return dispersion
}

// bursts fits a chain of two states, inside and outside of bursts, to the bins, whose
// errors are then binomially distributed, by the algorithm of Baum and Welch.
func (f *fit) bursts(p *Profile) {
	share, stay := 0.05, 1-float64(binBases)/80
	factors := [2]float64{0.8, 4}
	for range 40 {
		leave := (1 - stay) * share / (1 - share) // from outside to inside
		step := [2][2]float64{{1 - leave, leave}, {1 - stay, stay}}
		var errors, expected, occupied [2]float64
		var kept, left float64
		for _, bins := range f.reads {
			total, sum := 0.0, 0.0
			for _, b := range bins {
				total += b.errors
				sum += b.expected
			}
			if total < 5 || sum <= 0 {
				continue
			}
			rate := total / sum
			emit := make([][2]float64, len(bins))
			forward := make([][2]float64, len(bins))
			state := [2]float64{1 - share, share}
			for i, b := range bins {
				for s := range 2 {
					// Over the likelihood of the mean, so that none is too small.
					mean, chance := b.chance(rate), b.chance(rate*factors[s])
					emit[i][s] = math.Exp(float64(b.errors*math.Log(chance/mean)) + float64(max(0, b.chances-b.errors)*math.Log((1-chance)/(1-mean))))
				}
				if i > 0 {
					from := forward[i-1]
					state = [2]float64{float64(from[0]*step[0][0]) + float64(from[1]*step[1][0]), float64(from[0]*step[0][1]) + float64(from[1]*step[1][1])}
				}
				a, c := float64(state[0]*emit[i][0]), float64(state[1]*emit[i][1])
				norm := a + c
				if !(norm > 0) || math.IsInf(norm, 0) {
					a, c, norm = 0, 1, 1
				}
				forward[i] = [2]float64{a / norm, c / norm}
			}
			after := [2]float64{1, 1}
			for i := len(bins) - 1; i >= 0; i-- {
				x, y := float64(forward[i][0]*after[0]), float64(forward[i][1]*after[1])
				inside := y / (x + y)
				for s, g := range [2]float64{1 - inside, inside} {
					errors[s] += float64(g * bins[i].errors)
					expected[s] += float64(g * rate * bins[i].expected)
					occupied[s] += g
				}
				if i > 0 {
					// Of leaving a burst and of staying in it, between this bin and the one before.
					u := float64(forward[i-1][1] * step[1][1] * emit[i][1] * after[1])
					v := float64(forward[i-1][1] * step[1][0] * emit[i][0] * after[0])
					x := float64(forward[i-1][0] * (float64(step[0][1]*emit[i][1]*after[1]) + float64(step[0][0]*emit[i][0]*after[0])))
					if sum := u + v + x; sum > 0 && !math.IsInf(sum, 0) {
						kept += u / sum
						left += v / sum
					}
					back := [2]float64{
						float64(step[0][0]*emit[i][0]*after[0]) + float64(step[0][1]*emit[i][1]*after[1]),
						float64(step[1][0]*emit[i][0]*after[0]) + float64(step[1][1]*emit[i][1]*after[1]),
					}
					norm := back[0] + back[1]
					if !(norm > 0) || math.IsInf(norm, 0) {
						back, norm = [2]float64{1, 1}, 2
					}
					after = [2]float64{2 * back[0] / norm, 2 * back[1] / norm}
				}
			}
		}
		if expected[0] == 0 || expected[1] == 0 || kept+left == 0 {
			return
		}
		factors = [2]float64{errors[0] / expected[0], errors[1] / expected[1]}
		share = min(max(occupied[1]/(occupied[0]+occupied[1]), 1e-3), 0.5)
		stay = min(max(kept/(kept+left), 0.05), 0.99)
	}
	if factors[1] < 1.2*factors[0] {
		return
	}
	p.Bursts.Share, p.Bursts.Factor = share, min(factors[1]/max(factors[0], 1e-3), 50)
	p.Bursts.Length = binBases / (1 - stay)
}
