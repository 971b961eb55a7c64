package eventalign

import (
	"errors"
	"fmt"
)

// Config is how samples are weighed. Begin with [Default].
type Config struct {
	// Deviation is the standard deviation of samples about their base's level, in units
	// of levels, and Most the greatest cost of one sample, in nats: what neither level
	// explains, such as a spike, counts no more.
	Deviation, Most float64
	// Move is the chance that a base has passed with a sample: 1 over the mean dwell.
	Move float64
	// Band is how many bases an alignment may be off the place that is known, either way.
	Band int
}

// Default is what the shipped profiles were measured with.
func Default() Config { return Config{Deviation: 0.25, Most: 8, Move: 0.1, Band: 60} }

// Decoding returns the configuration for a search for sequences. The samples of one base deviate
// together, so each carries less information than an independent sample would.
func Decoding() Config {
	c := Default()
	c.Deviation = 0.3
	return c
}

// ErrOutside says that no alignment lies within the band.
var ErrOutside = errors.New("no alignment of samples to bases within the band")

// never is a cost that no path has.
const never = float32(1e30)

// Align returns with which sample each base begins. Samples and levels are in the same
// unit; begins says, of each base, about where it begins, and doesn't fall. The first base
// begins at sample 0 and the last one has the last sample; each has one at least.
func Align(samples, levels []float32, begins []int, cfg Config) ([]int, error) {
	if len(levels) != len(begins) {
		return nil, fmt.Errorf("aligning samples: %d levels and %d places of bases", len(levels), len(begins))
	}
	if len(samples) < len(levels) || len(levels) == 0 {
		return nil, fmt.Errorf("aligning samples: %d of them for %d bases: %w", len(samples), len(levels), ErrOutside)
	}
	a := newTrellis(len(samples), cfg)
	base := 0
	low := make([]int, len(samples)) // the first base of each sample's band
	for t := range samples {
		for base+1 < len(begins) && begins[base+1] <= t {
			base++
		}
		low[t] = base - cfg.Band
		a.step(t, low, samples[t], levels)
	}
	return a.trace(low, len(levels))
}

// margin is how many free cells a trellis has before and behind its band.
const margin = 2

func padded(width int) []float32 {
	out := make([]float32, width+2*margin)
	for i := range out {
		out[i] = never
	}
	return out
}

// trellis is the state of a banded alignment.
type trellis struct {
	width     int
	cost, was []float32
	moved     []uint64 // a bit for each sample and base of its band: the base began here
	words     int      // of a sample
	stay      float32
	move      float32
	weight    float32 // 1 / (2 deviation²)
	most      float32
}

func newTrellis(samples int, cfg Config) *trellis {
	width := 2*cfg.Band + 1
	words := (width + 63) / 64
	stay, move := costs(cfg.Move)
	return &trellis{
		width: width, words: words, cost: padded(width), was: padded(width), moved: make([]uint64, samples*words),
		stay: stay, move: move, weight: float32(1 / (2 * cfg.Deviation * cfg.Deviation)), most: float32(cfg.Most),
	}
}

// step takes a sample in.
func (a *trellis) step(t int, low []int, x float32, levels []float32) {
	a.cost, a.was = a.was, a.cost
	// Both have a cost that no path has before the first base of the band and behind the
	// last, so that bases at its borders are no special case.
	cost, was := a.cost[margin:margin+a.width], a.was
	for j := range cost {
		cost[j] = never
	}
	if t == 0 {
		if j := -low[0]; j >= 0 && j < a.width {
			cost[j] = a.sample(x, levels[0])
		}
		return
	}
	bits := a.moved[t*a.words : (t+1)*a.words]
	shift := min(low[t]-low[t-1], a.width+1)
	first, last := max(0, -low[t]), min(a.width, len(levels)-low[t])
	for j := first; j < last; j++ {
		from := min(margin+j+shift, len(was)-1)
		best := was[from] + a.stay
		if moved := was[from-1] + a.move; moved < best {
			best = moved
			bits[j>>6] |= 1 << (j & 63)
		}
		if best < never {
			cost[j] = best + a.sample(x, levels[low[t]+j])
		}
	}
}

func (a *trellis) sample(x, level float32) float32 {
	d := x - level
	return min(d*d*a.weight, a.most)
}

// trace goes back along the best path.
func (a *trellis) trace(low []int, bases int) ([]int, error) {
	base, last := bases-1, len(low)-1
	if j := base - low[last]; j < 0 || j >= a.width || a.cost[margin+j] >= never {
		return nil, ErrOutside
	}
	begins := make([]int, bases)
	for t := last; t > 0; t-- {
		j := base - low[t]
		if a.moved[t*a.words+j>>6]&(1<<(j&63)) != 0 {
			begins[base] = t
			base--
		}
	}
	return begins, nil
}
