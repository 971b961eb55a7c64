package squiggle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/porestream/porestream/simulate/internal/seeded"
)

// Tuning sets how hard reads are to call. The zero value of none of its fields is
// usual: begin with [Typical].
type Tuning struct {
	// Noise, Spread and Dwell are factors on a model's noise within visits, on how far
	// visits differ, and on how irregular times are (their standard deviation over the
	// mean).
	Noise, Spread, Dwell float64
	// Colour is a factor on the noise's autocorrelation: 0 makes it white.
	Colour float64
	// Speed is a factor on the speed.
	Speed float64
	// Stalls is how often the motor stops, per 1,000 bases, and StallSeconds for how
	// long, on average.
	Stalls, StallSeconds float64
}

// Typical makes reads that are as hard to call as real ones. How far a table has levels
// differ between visits holds what bases beyond its k-mers do to them, which a network
// has learned and chance has not, and its irregular times what aligning current to bases
// gets wrong at borders; the factors take that back. They were found with our models on
// real and simulated lambda: docs/attach/simulator.md.
func Typical() Tuning {
	return Tuning{Noise: 1, Spread: 0.75, Dwell: 0.85, Colour: 1, Speed: 1, Stalls: 0.3, StallSeconds: 0.15}
}

// Validate says what is wrong.
func (t *Tuning) Validate() error {
	for _, f := range []struct {
		name        string
		v           float64
		least, most float64
	}{
		{"noise", t.Noise, 0, 100}, {"level spread", t.Spread, 0, 100}, {"dwell spread", t.Dwell, 0, 10}, {"noise colour", t.Colour, 0, 1}, {"speed", t.Speed, 0.05, 20},
		{"stalls per 1,000 bases", t.Stalls, 0, 100}, {"seconds of a stall", t.StallSeconds, 0, 600},
	} {
		if !(f.v >= f.least && f.v <= f.most) {
			return fmt.Errorf("%s of %g: want %g to %g", f.name, f.v, f.least, f.most)
		}
	}
	return nil
}

// Pore is a model with a tuning, ready to be used. It is safe for concurrent use.
type Pore struct {
	model  *Model
	tuning Tuning
	rows   []row
	noise  arma
	// dwell, residual and scatter are the model's distributions of visits, where it has
	// them: of samples, of what a visit's level is off its k-mer's, and of noise.
	dwell, residual, scatter *drawn
	// change is by how much a visit's level changes within it, nil if not at all; lasts for
	// which part of it, nil if to the visit's end; and when which part of the rest passes
	// before.
	change, lasts, when *drawn
	// open is how an open pore and a strand that is held still move, in units of levels.
	open, still float64
}

// row is a k-mer's row with what is worked out from it once.
type row struct {
	mean, spread, noise float64
	dwell               float64 // samples
	shape, location     float64 // of its distribution
	slow, loud          float64 // factors on a profile's times and scatter
	rise                float64 // chance that a level that changes rises
}

// NewPore prepares a model.
func NewPore(m *Model, t Tuning) (*Pore, error) {
	if err := t.Validate(); err != nil {
		return nil, fmt.Errorf("simulating current: %w", err)
	}
	p := &Pore{model: m, tuning: t, rows: make([]row, len(m.kmers))}
	coloured := m.Correlation
	for i := range coloured {
		coloured[i] *= t.Colour
	}
	p.noise = newARMA(coloured)
	if m.visits != nil {
		p.draw()
		return p, nil
	}
	noises := make([]float64, len(m.kmers))
	for i, k := range m.kmers {
		r := row{mean: k.mean, spread: k.spread * t.Spread, noise: k.noise * t.Noise, dwell: k.dwell / t.Speed}
		cv := k.cv * t.Dwell
		switch m.Dwell {
		case Gamma:
			r.shape = 1 / max(cv*cv, 1e-6)
		case InverseGaussian:
			r.shape = r.dwell / max(cv*cv, 1e-6)
		default:
			r.shape = math.Sqrt(math.Log(1 + float64(cv*cv)))
			r.location = math.Log(r.dwell) - float64(r.shape*r.shape/2)
		}
		p.rows[i] = r
		noises[i] = r.noise
	}
	slices.Sort(noises)
	p.still = noises[len(noises)/4]
	p.open = 1.5 * noises[len(noises)/2]
	return p, nil
}

// draw prepares a model whose visits are distributed as its profile says. Its factors are
// of a calibrated whole, so what is typical of a table is 1.
func (p *Pore) draw() {
	typical := Typical()
	t, v := p.tuning, p.model.visits
	p.dwell = newDrawn(reshaped(v.dwell, t.Dwell/typical.Dwell), 1/t.Speed)
	p.residual = newDrawn(v.residual, t.Spread/typical.Spread)
	p.scatter = newDrawn(v.noise, t.Noise)
	for i := range p.model.kmers {
		p.rows[i].mean, p.rows[i].slow, p.rows[i].loud = p.model.kmers[i].mean, 1, 1
	}
	if w := v.words; w != nil {
		p.change = newDrawn(w.change, t.Noise)
		for i := range p.rows {
			p.rows[i].slow = math.Exp(float64(sumOf(w.dwell, p.model.K, i) * t.Dwell / typical.Dwell))
			p.rows[i].loud = math.Exp(sumOf(w.noise, p.model.K, i))
			p.rows[i].rise = 1 / (1 + math.Exp(-sumOf(w.rise, p.model.K, i)))
		}
		if len(w.lasts) > 0 {
			p.lasts, p.when = newDrawn(w.lasts, 1), newDrawn(w.when, 1)
		}
	}
	p.still = p.scatter.at(0.25)
	p.open = 1.5 * p.scatter.at(0.5)
}

// Model returns the model of a pore.
func (p *Pore) Model() *Model { return p.model }

// time draws for how many samples a k-mer stays.
func (p *Pore) time(r *row, rnd *rand.Rand) float64 {
	if p.dwell != nil {
		return float64(p.dwell.at(rnd.Float64()) * r.slow)
	}
	switch p.model.Dwell {
	case Gamma:
		return r.dwell / r.shape * gamma(r.shape, rnd)
	case InverseGaussian:
		return inverseGaussian(r.dwell, r.shape, rnd)
	}
	return math.Exp(r.location + float64(r.shape*rnd.NormFloat64()))
}

// gamma draws from a gamma distribution of scale 1 (Marsaglia, Tsang 2000).
func gamma(shape float64, rnd *rand.Rand) float64 {
	boost := 1.0
	if shape < 1 {
		boost = math.Pow(1-float64(rnd.Float64()), 1/shape)
		shape++
	}
	d := shape - 1./3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rnd.NormFloat64()
		v := 1 + float64(c*x)
		if v <= 0 {
			continue
		}
		v *= v * v
		if math.Log(1-float64(rnd.Float64())) < float64(x*x/2)+d-float64(d*v)+float64(d*math.Log(v)) {
			return boost * d * v
		}
	}
}

// inverseGaussian draws from an inverse Gaussian distribution (Michael, Schucany, Haas
// 1976).
func inverseGaussian(mean, shape float64, rnd *rand.Rand) float64 {
	z := rnd.NormFloat64()
	y := mean * z * z / (2 * shape)
	x := float64(mean * (1 + y - math.Sqrt(y*(y+2))))
	if float64(rnd.Float64()*(mean+x)) <= mean {
		return x
	}
	return mean * mean / x
}

// arma is a process x[t] = ar x[t-1] + scale (e[t] + ma e[t-1]) of variance 1.
type arma struct{ ar, ma, scale float64 }

// newARMA returns the process whose autocorrelation is c[0] at one sample and falls
// from there by the ratio of the ones that follow. That is white noise and noise of one
// time constant together.
func newARMA(c [3]float64) arma {
	a := arma{scale: 1}
	rho := min(max(c[0], 0), 0.98)
	if rho < 1e-3 {
		return a
	}
	a.ar = min(max(c[1]/rho, 0), 0.98)
	if c[2] > 0 {
		a.ar = min(max(math.Sqrt(c[2]/rho), 0), 0.98)
	}
	// rho (1 + 2 ar ma + ma²) = (1 + ar ma) (ar + ma) has one root below 1.
	if d := rho - a.ar; math.Abs(d) > 1e-9 {
		b := (float64(2*a.ar*rho) - 1 - float64(a.ar*a.ar)) / d
		root := math.Sqrt(max(float64(b*b/4)-1, 0))
		a.ma = float64(-b/2) + root
		if math.Abs(a.ma) > 1 {
			a.ma = float64(-b/2) - root
		}
	}
	a.scale = math.Sqrt((1 - float64(a.ar*a.ar)) / (1 + float64(2*a.ar*a.ma) + float64(a.ma*a.ma)))
	return a
}

// Strand is what goes through a pore.
type Strand struct {
	// Seed and Number choose all that is drawn.
	Seed, Number uint64
	// Bases are codes, 0 to 3 for A, C, G and T, in the order in which they pass.
	Bases []byte
	// Stick is the base at which the strand sticks for good, if it is less than the number
	// of bases, and Stuck the number of samples for which it sticks, until the voltage is
	// reversed.
	Stick, Stuck int
}

// Converter turns current into levels: level = pA / Scale − Offset, as
// signal.Calibration has it the other way round.
type Converter struct {
	Offset, Scale float64
	Min, Max      int16
}

// The purposes of random numbers.
const (
	readPurpose uint64 = iota + 0x5167
	timePurpose
	levelPurpose
)

// Of reads: how many in a hundred begin and end with a little of the open pore, and the
// most samples of it.
const (
	openBefore, openBeforeSamples = 0.05, 6
	openBehind, openBehindSamples = 0.2, 12
	// leaderSpread is the spread of the logarithm of the time for which the leader is
	// held, and leaderMost its greatest, in seconds.
	leaderSpread, leaderMost = 1.0, 2.0
	// blockLevel and blockSpread are the level of strands that stick, in units of levels.
	blockLevel, blockSpread = -1.6, 0.5
)

// Read is what a strand's read has of its own.
type Read struct {
	// CentrePA and ScalePA are its level and range, OpenPorePA the pore's before it.
	CentrePA, ScalePA, OpenPorePA float64
	// Samples is its length.
	Samples int

	speed, noise float64
	before       int // samples of open pore
	leader       int // samples of the leader
	behind       int // samples of open pore
	leaderLevel  float64
}

// Maker makes reads, one at a time, in memory of its own.
type Maker struct {
	pore *Pore
	rnd  *seeded.Source
	read Read
	ends []float64 // when bases have passed, in samples from the read's beginning
	rows []*row
}

// NewMaker returns a maker of reads of a pore.
func (p *Pore) NewMaker() *Maker { return &Maker{pore: p, rnd: seeded.New(0, 0, 0)} }

// Time works out when the bases of a strand pass.
func (m *Maker) Time(s Strand) Read {
	model := m.pore.model
	rate := float64(model.SampleRate)
	m.rnd.Reset(s.Seed, readPurpose, s.Number)
	// What is normally distributed stays within three standard deviations.
	normal := func() float64 { return min(max(m.rnd.NormFloat64(), -3), 3) }
	chance := m.rnd.Float64
	centre := normal()
	scale := float64(model.scaleWithCentre*centre) + float64(math.Sqrt(1-float64(model.scaleWithCentre*model.scaleWithCentre))*normal())
	m.read = Read{
		CentrePA:   model.CentrePA + float64(model.CentreSpreadPA*centre),
		ScalePA:    max(model.ScalePA+float64(model.ScaleSpreadPA*scale), model.ScalePA/3),
		OpenPorePA: model.OpenPorePA + float64(model.OpenPoreSpreadPA*normal()),
		speed:      math.Exp(model.SpeedSpread * normal()),
		noise:      math.Exp(model.NoiseSpread * normal()),
	}
	r := &m.read
	if chance() < openBefore {
		r.before = 1 + m.rnd.IntN(openBeforeSamples)
	}
	held := model.Still * math.Exp(leaderSpread*normal()-leaderSpread*leaderSpread/2)
	r.leader = int(min(held, leaderMost) * rate)
	r.leaderLevel = model.StillLevel + float64(0.2*normal())
	if chance() < openBehind {
		r.behind = 1 + m.rnd.IntN(openBehindSamples)
	}

	m.rnd.Reset(s.Seed, timePurpose, s.Number)
	m.ends, m.rows = m.ends[:0], m.rows[:0]
	at := float64(r.before + r.leader)
	stall := m.pore.tuning.Stalls / 1000
	next := math.Inf(1)
	if stall > 0 {
		next = m.rnd.ExpFloat64() / stall
	}
	k, mask := model.K, len(m.pore.rows)-1
	code := 0
	base := func(i int) int {
		switch {
		case i < 0:
			return 3 // the leader's
		case i >= len(s.Bases):
			return 0
		}
		return int(s.Bases[i])
	}
	for i := -model.Centre; i < k-1-model.Centre; i++ {
		code = code<<2 | base(i)
	}
	stop := min(len(s.Bases), max(s.Stick, 0))
	for i := range stop {
		code = (code<<2 | base(i+k-1-model.Centre)) & mask
		row := &m.pore.rows[code]
		at += m.pore.time(row, m.rnd.Rand) / r.speed
		if float64(i) >= next {
			at += float64(m.rnd.ExpFloat64() * m.pore.tuning.StallSeconds * rate)
			next = float64(i) + 1 + m.rnd.ExpFloat64()/stall
		}
		m.ends = append(m.ends, at)
		m.rows = append(m.rows, row)
	}
	r.Samples = int(at)
	if stop < len(s.Bases) {
		r.Samples += s.Stuck
		r.behind = 0
	}
	r.Samples = max(r.Samples+r.behind, 1)
	return *r
}

// Passed is how many bases of the strand that was timed last have passed after so many
// samples.
func (m *Maker) Passed(samples int) int {
	return sort.Search(len(m.ends), func(i int) bool { return m.ends[i] > float64(samples) })
}

// Ends returns when the bases of the strand that was timed last have passed, in samples
// from the read's beginning. It is valid until the next one is timed.
func (m *Maker) Ends() []float64 { return m.ends }

// Append makes the first samples of a strand's read, as many as are asked for and there
// are, and returns what it has of its own.
func (m *Maker) Append(dst []int16, s Strand, c Converter, samples int) ([]int16, Read) {
	r := m.Time(s)
	samples = min(samples, r.Samples)
	dst = slices.Grow(dst, samples)
	p := &painter{
		out: dst[len(dst) : len(dst)+samples], noise: m.pore.noise, gain: r.ScalePA / c.Scale, zero: r.CentrePA/c.Scale - c.Offset,
		min: float64(c.Min), max: float64(c.Max), rnd: m.rnd.Rand,
	}
	m.rnd.Reset(s.Seed, levelPurpose, s.Number)
	model := m.pore.model
	open := (r.OpenPorePA - r.CentrePA) / r.ScalePA
	p.x = p.rnd.NormFloat64()
	p.hold(open, m.pore.open, r.before)
	p.hold(r.leaderLevel, m.pore.still*r.noise, r.leader)
	// Drift: an Ornstein-Uhlenbeck process, at the ends of bases.
	drift := model.Drift * p.rnd.NormFloat64()
	forget := 1 / (model.DriftSeconds * float64(model.SampleRate))
	begin := float64(r.before + r.leader)
	for i, end := range m.ends {
		if p.at >= len(p.out) {
			break
		}
		row := m.rows[i]
		step := min((end-begin)*forget, 1)
		drift += float64(model.Drift*math.Sqrt(2*step)*p.rnd.NormFloat64()) - float64(drift*step)
		level, noise := row.mean+float64(row.spread*p.rnd.NormFloat64())+drift, row.noise
		if m.pore.residual != nil {
			level, noise = level+m.pore.residual.at(p.rnd.Float64()), float64(m.pore.scatter.at(p.rnd.Float64())*row.loud)
		}
		noise *= r.noise
		if m.pore.change == nil {
			p.pass(level, noise, begin, end)
		} else {
			p.change(level, noise, m.pore.turn(row, r.noise, begin, end, p.rnd), begin, end)
		}
		begin = end
	}
	if s.Stick < len(s.Bases) {
		p.hold(blockLevel+float64(blockSpread*p.rnd.NormFloat64()), m.pore.still, s.Stuck)
	}
	p.hold(open, m.pore.open, len(p.out)-p.at)
	return dst[:len(dst)+samples], r
}

// painter writes samples.
type painter struct {
	out        []int16
	at         int
	share      float64 // of the sample at, that is there already
	part       float64 // its level so far, times its share
	noise      arma
	x, e       float64 // state of the noise
	gain, zero float64 // from units of levels to those of the converter
	min, max   float64
	rnd        *rand.Rand
}

// turn is a change of a visit's level: by how much, for which share of the visit, and between which moments.
type turn struct{ by, share, from, to float64 }

// turn draws how the level of a visit changes, where its noise is so loud. What a profile of format 2 draws is what it drew before
// there were others.
func (p *Pore) turn(row *row, loud, begin, end float64, rnd *rand.Rand) turn {
	by, when, stay := float64(p.change.at(rnd.Float64())*row.loud*loud), rnd.Float64(), end-begin
	if p.lasts == nil {
		if rnd.Uint64()&1 != 0 {
			by = -by
		}
		return turn{by, 1 - when, begin + float64(when*stay), end}
	}
	if rnd.Float64() >= row.rise {
		by = -by
	}
	share := p.lasts.at(rnd.Float64())
	long := float64(share * stay)
	from := begin + float64(p.when.at(when)*(stay-long))
	return turn{by, share, from, from + long}
}

// change writes a level that changes for a while. The visit's mean stays: the share says by how much the rest is off, and not the
// moments, as a visit may take no time.
func (p *painter) change(level, noise float64, t turn, begin, end float64) {
	level -= float64(t.by * t.share)
	p.pass(level, noise, begin, t.from)
	p.pass(level+t.by, noise, t.from, t.to)
	if t.to < end {
		p.pass(level, noise, t.to, end)
	}
}

// pass writes a level from one moment to another, both in samples.
func (p *painter) pass(level, noise, begin, end float64) {
	if left := 1 - p.share; end-begin < left {
		p.part += float64(level * (end - begin))
		p.share += end - begin
		return
	} else if p.share > 0 {
		first := p.part + float64(level*left)
		begin += left
		p.part, p.share = 0, 0
		p.fill(first, noise, 1)
	}
	n := int(end - begin)
	p.fill(level, noise, n)
	p.share = min(max(end-begin-float64(n), 0), 1)
	p.part = level * p.share
}

// hold writes a level for a number of samples, from the next whole one.
func (p *painter) hold(level, noise float64, samples int) {
	p.part, p.share = 0, 0
	p.fill(level, noise, samples)
}

// fill writes samples of one level.
func (p *painter) fill(level, noise float64, samples int) {
	samples = min(samples, len(p.out)-p.at)
	if samples <= 0 {
		return
	}
	base, size := float64(level*p.gain)+p.zero+0.5, noise*p.gain
	x, e, a := p.x, p.e, p.noise
	out := p.out[p.at : p.at+samples]
	for i := range out {
		fresh := p.rnd.NormFloat64()
		x = float64(a.ar*x) + float64(a.scale*(fresh+float64(a.ma*e)))
		e = fresh
		out[i] = int16(math.Floor(min(max(base+float64(size*x), p.min), p.max)))
	}
	p.x, p.e = x, e
	p.at += samples
}
