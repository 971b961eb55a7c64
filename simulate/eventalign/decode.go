package eventalign

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Decoder finds the bases of samples by a table of levels alone: the most probable path
// through all k-mers, in a beam. It is not safe for concurrent use.
type Decoder struct {
	k      int
	levels []float32 // by code
	cfg    Config

	was, now   []float32 // cost by code; never where there is no path
	codes      []uint32  // that have a path
	fresh      []uint32
	back       [][]uint32 // of each run that isn't settled: codes, and from where in the highest bits
	histogram  [beamBins]int
	weight     float32
	most       float32
	stay, move float32
}

// What a decoder keeps: paths that are so many nats worse than the best, and so many.
const (
	beamNats  = 12
	beamPaths = 8_000
	beamBins  = 96
	// A path is settled settleLag runs behind the newest, settleEvery at a time: all paths
	// share it there.
	settleEvery, settleLag = 600, 200
	// How a code's path came there: it stayed, or moved from the code that has these bits
	// before it.
	stayed, movedBits = 4 << 24, 24
	codeBits          = 1<<movedBits - 1
	maxDecoderK       = 12
)

// NewDecoder returns a decoder by a table of levels of all k-mers, A, C, G and T being 0
// to 3 and the first base the highest.
func NewDecoder(k int, levels []float32, cfg Config) (*Decoder, error) {
	if k < 1 || k > maxDecoderK || len(levels) != 1<<(2*k) {
		return nil, fmt.Errorf("decoding current: %d levels for k-mers of %d bases", len(levels), k)
	}
	d := &Decoder{k: k, levels: levels, cfg: cfg, was: make([]float32, len(levels)), now: make([]float32, len(levels))}
	for i := range d.was {
		d.was[i], d.now[i] = never, never
	}
	d.stay, d.move = costs(cfg.Move)
	d.move += float32(math.Log(4)) // any of four bases may come
	d.weight, d.most = float32(1/(2*cfg.Deviation*cfg.Deviation)), float32(cfg.Most)
	return d, nil
}

// Path is a decoded stretch: the k-mers that passed, each with the sample at which it
// began.
type Path struct {
	Codes  []uint32
	Begins []int
}

// run is a series of samples that are near each other; one base has all or none of them.
type run struct {
	begin, samples int
	mean           float32
}

// runSamples is the most samples of a run: neighbouring bases may have levels that can't be
// distinguished, so a base can begin where the samples show no change.
const runSamples = 4

// runs cuts samples where one is further than half a deviation from the mean of those
// before.
func (d *Decoder) runs(samples []float32) []run {
	var out []run
	far := float32(d.cfg.Deviation / 2)
	for t, x := range samples {
		if len(out) > 0 {
			r := &out[len(out)-1]
			if e := x - r.mean; e < far && e > -far && r.samples < runSamples {
				r.samples++
				r.mean += e / float32(r.samples)
				continue
			}
		}
		out = append(out, run{t, 1, x})
	}
	return out
}

// Decode finds the k-mers of samples, which are in the unit of the levels. The first dozen bases are often wrong,
// because nothing shows which bases were before them.
func (d *Decoder) Decode(samples []float32) (Path, error) {
	if len(samples) == 0 {
		return Path{}, errors.New("decoding current: no samples")
	}
	for _, c := range d.codes {
		d.was[c] = never
	}
	d.codes, d.back = d.codes[:0], d.back[:0]
	runs := d.runs(samples)
	for code := range d.levels {
		d.was[code] = d.cost(&runs[0], uint32(code))
		d.codes = append(d.codes, uint32(code))
	}
	d.back = append(d.back, nil) // all are possible
	var path Path
	settled := 0 // runs
	for i := range runs[1:] {
		d.step(&runs[1+i])
		if len(d.back) >= settleEvery+settleLag {
			settled = d.settle(&path, runs, settled, settleEvery)
		}
	}
	d.settle(&path, runs, settled, len(d.back))
	return path, nil
}

func (d *Decoder) cost(r *run, code uint32) float32 {
	e := r.mean - d.levels[code]
	return float32(float32(r.samples) * min(e*e*d.weight, d.most))
}

// step takes a run in.
func (d *Decoder) step(r *run) {
	mask := uint32(len(d.levels) - 1)
	stay := float32(d.stay * float32(r.samples))
	move := d.move + float32(d.stay*float32(r.samples-1))
	d.fresh = d.fresh[:0]
	best := never
	reach := func(to uint32, cost float32) {
		if d.now[to] == never {
			d.fresh = append(d.fresh, to)
		}
		d.now[to] = min(d.now[to], cost)
	}
	for _, c := range d.codes {
		reach(c, d.was[c]+stay)
		for b := range uint32(4) {
			reach((c<<2|b)&mask, d.was[c]+move)
		}
	}
	for _, c := range d.fresh {
		d.now[c] += d.cost(r, c)
		best = min(best, d.now[c])
	}
	bound := best + d.bound(best)
	from := make([]uint32, 0, min(len(d.fresh), beamPaths))
	top := 2 * (d.k - 1)
	for _, c := range d.fresh {
		if d.now[c] > bound {
			d.now[c] = never
			continue
		}
		// What gave the least: itself, or one of the four before it.
		how, least := uint32(stayed), d.was[c]+stay
		for b := range uint32(4) {
			if cost := d.was[c>>2|b<<top] + move; cost < least {
				how, least = b<<movedBits, cost
			}
		}
		from = append(from, c|how)
		d.now[c] -= best
	}
	for _, c := range d.codes {
		d.was[c] = never
	}
	d.codes = d.codes[:0]
	for _, b := range from {
		d.codes = append(d.codes, b&codeBits)
	}
	d.was, d.now = d.now, d.was
	d.back = append(d.back, from)
}

// bound is how much worse than the best a path may be, so that there are not too many.
func (d *Decoder) bound(best float32) float32 {
	if len(d.fresh) <= beamPaths {
		return beamNats
	}
	clear(d.histogram[:])
	for _, c := range d.fresh {
		if bin := int((d.now[c] - best) * (beamBins / beamNats)); bin < beamBins {
			d.histogram[bin]++
		}
	}
	paths := 0
	for bin, n := range d.histogram {
		if paths += n; paths > beamPaths {
			return float32(bin) * beamNats / beamBins
		}
	}
	return beamNats
}

// settle appends the best path over the first runs that aren't settled, and forgets them.
// It returns how many are settled.
func (d *Decoder) settle(path *Path, runs []run, settled, some int) int {
	code := d.codes[0]
	for _, c := range d.codes {
		if d.was[c] < d.was[code] {
			code = c
		}
	}
	at := len(path.Codes)
	for i := len(d.back) - 1; i >= 0; i-- {
		how := uint32(stayed)
		if j := slices.IndexFunc(d.back[i], func(b uint32) bool { return b&codeBits == code }); j >= 0 {
			how = d.back[i][j] &^ codeBits
		}
		if i < some && (how != stayed || settled+i == 0) {
			path.Codes = append(path.Codes, code)
			path.Begins = append(path.Begins, runs[settled+i].begin)
		}
		if how != stayed {
			code = code>>2 | how>>movedBits<<(2*(d.k-1))
		}
	}
	slices.Reverse(path.Codes[at:])
	slices.Reverse(path.Begins[at:])
	d.back = append(d.back[:0], d.back[some:]...)
	return settled + some
}

// LevelsOf returns the levels of a path's k-mers.
func (d *Decoder) LevelsOf(p Path) []float32 {
	out := make([]float32, len(p.Codes))
	for i, c := range p.Codes {
		out[i] = d.levels[c]
	}
	return out
}

// costs are those of staying and of moving, in nats.
func costs(move float64) (stay, moved float32) {
	return float32(-math.Log(1 - move)), float32(-math.Log(move))
}
