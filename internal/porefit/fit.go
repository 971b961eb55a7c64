package porefit

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/porestream/porestream/simulate/eventalign"
	"github.com/porestream/porestream/simulate/squiggle"
	"github.com/porestream/porestream/stat"
)

// Meter measures reads by a table of levels.
type Meter struct {
	K, Centre int
	Levels    []float32
	Config    eventalign.Config
}

// NewMeter measures by the levels of a model, brought to mean 0 and standard deviation 1 as
// profiles have them. centre is the base of a k-mer that its time belongs to.
func NewMeter(m *squiggle.Model, centre int) *Meter {
	levels := m.Levels()
	sum, square := 0.0, 0.0
	for _, l := range levels {
		sum += float64(l)
		square += float64(float64(l) * float64(l))
	}
	n := float64(len(levels))
	mean := sum / n
	deviation := math.Sqrt(square/n - float64(mean*mean))
	for i, l := range levels {
		levels[i] = float32((float64(l) - mean) / deviation)
	}
	return &Meter{K: m.K, Centre: centre, Levels: levels, Config: eventalign.Default()}
}

// Visit is a base of an aligned read.
type Visit struct {
	Code    uint32
	Mean    float64 // in levels
	Samples int
	Spread  float64 // standard deviation of the samples
	Turn    int     // which way its level changes; see eventalign.Turn
}

// Measured is what a [Meter] measures in reads.
type Measured struct {
	eventalign.Statistics
	Fits   []eventalign.Fit
	Visits []Visit
	// Speeds and Scatter are of each stretch the mean samples of a base and the median
	// spread of bases.
	Speeds, Scatter []float64
	// Of stretches that were decoded though they are known: their bases, and how many
	// bases and triples of bases the decoded ones have in common with them, in
	// order.
	Bases, Right, Triples int
	// Left are stretches that were left out, as their current follows no levels.
	Left int
}

// codes returns the k-mer of each base that has one whole, and the first such base.
func (mt *Meter) codes(bases []byte) (codes []uint32, first int) {
	code, mask := uint32(0), uint32(1)<<(2*mt.K)-1
	for i, b := range bases {
		code = (code<<2 | uint32(b)) & mask
		if i >= mt.K-1 {
			codes = append(codes, code)
		}
	}
	return codes, mt.Centre
}

// Known aligns stretches whose bases are known.
func (mt *Meter) Known(stretches []Stretch) (*Measured, error) {
	m := new(Measured)
	for _, s := range stretches {
		codes, first := mt.codes(s.Bases)
		if len(codes) < 50 {
			continue
		}
		begins := make([]int, len(codes))
		from, to := s.Begins[first], len(s.Picoamperes)
		if next := first + len(codes); next < len(s.Begins) {
			to = s.Begins[next]
		}
		levels := make([]float32, len(codes))
		for i, c := range codes {
			levels[i], begins[i] = mt.Levels[c], s.Begins[first+i]-from
		}
		pa := s.Picoamperes[from:to]
		bases, spreads := len(m.Dwells), len(m.Spreads)
		fit, found, err := m.AddKnown(pa, levels, begins, mt.Config)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", s.Read, err)
		}
		m.seen(fit, fit.Unit(pa), codes, found, bases, spreads)
	}
	return m, nil
}

// seen keeps what a stretch has of its own.
func (m *Measured) seen(fit eventalign.Fit, samples []float32, codes []uint32, begins []int, bases, spreads int) {
	m.Fits = append(m.Fits, fit)
	sum := 0.0
	for _, d := range m.Dwells[bases:] {
		sum += d
	}
	m.Speeds = append(m.Speeds, sum/float64(len(m.Dwells)-bases))
	m.Scatter = append(m.Scatter, stat.Quantile(slices.Sorted(slices.Values(m.Spreads[spreads:])), 0.5))
	for i, c := range codes {
		end := len(samples)
		if i+1 < len(begins) {
			end = begins[i+1]
		}
		total, square := 0.0, 0.0
		for _, x := range samples[begins[i]:end] {
			total += float64(x)
		}
		mean := total / float64(end-begins[i])
		for _, x := range samples[begins[i]:end] {
			square += float64((float64(x) - mean) * (float64(x) - mean))
		}
		m.Visits = append(m.Visits, Visit{c, mean, end - begins[i], math.Sqrt(square / float64(max(end-begins[i]-1, 1))), eventalign.Turn(samples[begins[i]:end])})
	}
}

// trialSamples is how much of a read is decoded for its first fit, trialRounds how often.
const trialSamples, trialRounds = 2000, 1

// leastCorrelation is what means of bases must have with their levels, at least, for a
// decoded stretch to count: where the motor stopped for most of it, a fit can be of noise.
const leastCorrelation = 0.9

// Decoded decodes stretches. A stretch's fit begins at that of the read's stretch before;
// the first one's is made of its beginning.
func (mt *Meter) Decoded(stretches []Stretch) (*Measured, error) {
	d, err := eventalign.NewDecoder(mt.K, mt.Levels, eventalign.Decoding())
	if err != nil {
		return nil, err
	}
	m := new(Measured)
	fits := make(map[string]eventalign.Fit)
	for _, s := range stretches {
		fit, ok := fits[s.Read]
		if !ok {
			// Medians err where bases are few; a first round mends it.
			fit = eventalign.Guess(eventalign.Events(s.Picoamperes), mt.Levels)
			for range trialRounds {
				var trial eventalign.Statistics
				better, _, err := trial.AddDecoded(s.Picoamperes[:min(trialSamples, len(s.Picoamperes))], fit, d)
				if err == nil && trial.Correlation() >= leastCorrelation {
					fit = better
				}
			}
		}
		var own eventalign.Statistics
		fit, path, err := own.AddDecoded(s.Picoamperes, fit, d)
		if errors.Is(err, eventalign.ErrFit) || errors.Is(err, eventalign.ErrOutside) || err == nil && own.Correlation() < leastCorrelation {
			m.Left++
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", s.Read, err)
		}
		fits[s.Read] = fit
		bases, spreads := len(m.Dwells), len(m.Spreads)
		samples := fit.Unit(s.Picoamperes)
		m.Add(samples, d.LevelsOf(path), path.Begins)
		m.seen(fit, samples, path.Codes, path.Begins, bases, spreads)
		if len(s.Bases) > 0 {
			truth, _ := mt.codes(s.Bases)
			m.Bases += len(truth)
			m.Right += inCommon(last(truth, 1), last(path.Codes, 1))
			m.Triples += inCommon(last(truth, 3), last(path.Codes, 3))
		}
	}
	if len(m.Dwells) == 0 {
		return nil, fmt.Errorf("none of %d stretches: %w", len(stretches), eventalign.ErrFit)
	}
	return m, nil
}

// last are the last bases of k-mers.
func last(codes []uint32, bases int) []uint32 {
	out := make([]uint32, len(codes))
	for i, c := range codes {
		out[i] = c & (1<<(2*bases) - 1)
	}
	return out
}

// inCommon is how many letters two sequences have in common, in order: the longest common
// subsequence within a band about the diagonal.
func inCommon(a, b []uint32) int {
	const band = 150
	was, now := make([]int, len(b)+1), make([]int, len(b)+1)
	for i := range a {
		mid := (i + 1) * len(b) / len(a)
		low, high := max(mid-band, 1), min(mid+band, len(b))
		now[low-1] = was[low-1]
		for k := low; k <= high; k++ {
			now[k] = max(was[k], now[k-1])
			if a[i] == b[k-1] {
				now[k] = max(now[k], was[k-1]+1)
			}
		}
		for k := high + 1; k <= len(b); k++ {
			now[k] = now[high]
		}
		was, now = now, was
	}
	return was[len(b)]
}

// Cut cuts reads into stretches of so many samples, at most so many of each read, evenly
// over it; bases are lost.
func Cut(reads map[string][]float32, samples, most int) []Stretch {
	names := make([]string, 0, len(reads))
	for n := range reads {
		names = append(names, n)
	}
	slices.Sort(names)
	var out []Stretch
	for _, n := range names {
		pa := reads[n]
		pieces := min(len(pa)/samples, most)
		for i := range pieces {
			at := len(pa) * i / pieces
			out = append(out, Stretch{Read: n, Picoamperes: pa[at : at+samples]})
		}
	}
	return out
}

// Simulate makes reads of sequences as the flow cell does: with its converter's steps.
func Simulate(m *squiggle.Model, t squiggle.Tuning, sequences [][]byte, seed uint64, c squiggle.Converter) ([]Stretch, error) {
	pore, err := squiggle.NewPore(m, t)
	if err != nil {
		return nil, err
	}
	maker := pore.NewMaker()
	var out []Stretch
	for i, bases := range sequences {
		levels, _ := maker.Append(nil, squiggle.Strand{Seed: seed, Number: uint64(i), Bases: bases, Stick: len(bases)}, c, math.MaxInt)
		ends := maker.Ends()
		first := int(ends[0])
		s := Stretch{Read: fmt.Sprintf("simulated %d", i), Bases: bases[1 : len(bases)-1]}
		for b := range s.Bases {
			s.Begins = append(s.Begins, int(ends[b])-first)
		}
		for _, l := range levels[first:int(ends[len(ends)-2])] {
			s.Picoamperes = append(s.Picoamperes, float32((float64(l)+c.Offset)*c.Scale))
		}
		out = append(out, s)
	}
	return out, nil
}

// Distances are Kolmogorov-Smirnov distances between two sets of reads.
type Distances struct{ Residual, Spread, Dwell float64 }

// Compare measures how far two sets of reads are apart.
func Compare(a, b *Measured) Distances {
	return Distances{
		Residual: eventalign.KS(a.Residuals, b.Residuals),
		Spread:   eventalign.KS(a.Spreads, b.Spreads),
		Dwell:    eventalign.KS(a.Dwells, b.Dwells),
	}
}

// Quantiles returns a profile's quantiles of values. Whole numbers are taken for what is
// rounded to them if spread is true.
func Quantiles(values []float64, spread bool) []float64 {
	sorted := slices.Clone(values)
	if spread {
		rnd := rand.New(rand.NewPCG(1, 2))
		for i := range sorted {
			sorted[i] += float64(rnd.Float64()) - 0.5
		}
	}
	slices.Sort(sorted)
	out := make([]float64, squiggle.Quantiles)
	for i := range out {
		out[i] = stat.Quantile(sorted, squiggle.QuantileAt(i))
	}
	return out
}

// leastSamples is how many samples a base has whose level and scatter count.
const leastSamples = 4

// Levels fits a table of parts to visits, by ridge regression: conjugate gradients on the
// normal equations of the k-mers' means. Bases with few samples don't count.
func Levels(k int, visits []Visit, parts []squiggle.Part) (*squiggle.Parts, error) {
	const (
		rounds  = 200
		between = 0.5 // of the variance of a k-mer's mean: what more visits don't mend
		ridge   = 1
	)
	type sum struct{ n, total float64 }
	seen := make(map[uint32]sum)
	for _, v := range visits {
		if v.Samples >= leastSamples {
			s := seen[v.Code]
			seen[v.Code] = sum{s.n + 1, s.total + v.Mean}
		}
	}
	if len(seen) == 0 {
		return nil, errors.New("fitting levels: no visits")
	}
	kmers := make([]uint32, 0, len(seen))
	for c := range seen {
		kmers = append(kmers, c)
	}
	slices.Sort(kmers)
	offsets := make([]int, len(parts)+1)
	for i, p := range parts {
		offsets[i+1] = offsets[i] + 1<<(2*p.Width)
	}
	at := func(c uint32, i int) int {
		p := parts[i]
		return offsets[i] + int(c>>(2*(k-p.Offset-p.Width))&(1<<(2*p.Width)-1))
	}
	times := func(x []float64) []float64 {
		out := make([]float64, len(x))
		for i := range parts {
			for c := offsets[i]; c < offsets[i+1]; c++ {
				out[c] = ridge * float64(parts[i].Width) * x[c]
			}
		}
		for _, c := range kmers {
			s := seen[c]
			y := 0.0
			for i := range parts {
				y += x[at(c, i)]
			}
			y = float64(y * (s.n / (1 + float64(between*s.n))))
			for i := range parts {
				out[at(c, i)] += y
			}
		}
		return out
	}
	right := make([]float64, offsets[len(parts)])
	for _, c := range kmers {
		s := seen[c]
		for i := range parts {
			right[at(c, i)] += s.n / (1 + float64(between*s.n)) * s.total / s.n
		}
	}
	x := conjugate(times, right, rounds)
	out := &squiggle.Parts{K: k}
	for i, p := range parts {
		p.Adds = nil
		for _, v := range x[offsets[i]:offsets[i+1]] {
			p.Adds = append(p.Adds, int16(math.Round(min(max(1000*v, math.MinInt16), math.MaxInt16))))
		}
		out.Parts = append(out.Parts, p)
	}
	return out, nil
}

// word is the bases that say something of a visit: some of the k-mer's, as far as there are
// visits of them, and otherwise those without the first and the last.
type word struct{ offset, bases int }

// dwellWord and noiseWord are the words that say most of times and of scatter. Of R10.4.1's
// 9-mers they are five bases, from 3 and from 4 on: longer ones say as much of places that
// weren't measured, shorter ones less.
// What says most of the way in which levels change is the word that says most of scatter.
func dwellWord(k int) word { return wordFrom(3, k) }
func noiseWord(k int) word { return wordFrom(4, k) }

func wordFrom(offset, k int) word {
	bases := min(5, k)
	return word{min(offset, k-bases), bases}
}

const (
	// wordVisits is how many visits of a word count as much as what is assumed of it.
	wordVisits = 20
	// leastNoise keeps what is hardly there from counting much in a logarithm.
	leastNoise = 0.03
)

// Words are the effects of words on the logarithms of times and of scatter, by their code:
// drawn towards what the middle of the word has, and that towards nothing.
func (m *Measured) Words(k int) (dwell, noise []float64) {
	return m.words(k, dwellWord(k), func(v *Visit) (float64, bool) { return math.Log(float64(v.Samples)), true }),
		m.words(k, noiseWord(k), func(v *Visit) (float64, bool) {
			return math.Log(max(v.Spread, leastNoise)), v.Samples >= leastSamples
		})
}

// Turns are the logarithms of the odds that a level that changes rises, by the word: drawn
// towards what the middle of the word has, and that towards what all have.
func (m *Measured) Turns(k int) []float64 {
	of := func(v *Visit) (float64, bool) { return float64(v.Turn), v.Turn != 0 }
	total, n := 0.0, 0.0
	for i := range m.Visits {
		if v, ok := of(&m.Visits[i]); ok {
			total, n = total+v, n+1
		}
	}
	out := m.words(k, noiseWord(k), of)
	for code := range out {
		most := 0.95 // one in forty: fewer can't be known of few visits
		out[code] = 2 * math.Atanh(min(max(out[code]+total/max(n, 1), -most), most))
	}
	return out
}

func (m *Measured) words(k int, w word, of func(*Visit) (float64, bool)) []float64 {
	words, cores := 1<<(2*w.bases), 1<<(2*(w.bases-2))
	sums, counts := make([]float64, words), make([]float64, words)
	for i := range m.Visits {
		if v, ok := of(&m.Visits[i]); ok {
			code := int(m.Visits[i].Code) >> (2 * (k - w.offset - w.bases)) & (words - 1)
			sums[code] += v
			counts[code]++
		}
	}
	total, all := 0.0, 0.0
	for code := range sums {
		total, all = total+sums[code], all+counts[code]
	}
	coreSums, coreCounts := make([]float64, cores), make([]float64, cores)
	core := func(code int) int { return code >> 2 & (cores - 1) }
	for code := range sums {
		sums[code] -= float64(total / max(all, 1) * counts[code])
		coreSums[core(code)] += sums[code]
		coreCounts[core(code)] += counts[code]
	}
	out := make([]float64, len(sums))
	for code := range out {
		assumed := coreSums[core(code)] / (coreCounts[core(code)] + wordVisits)
		out[code] = assumed + (sums[code]-float64(assumed*counts[code]))/(counts[code]+wordVisits)
	}
	return out
}

// conjugate solves a symmetric, positive definite system.
func conjugate(times func([]float64) []float64, right []float64, rounds int) []float64 {
	x, r := make([]float64, len(right)), slices.Clone(right)
	p, rr := slices.Clone(r), dot(r, r)
	first := rr
	for range rounds {
		if rr <= 1e-12*first {
			break
		}
		ap := times(p)
		a := rr / dot(p, ap)
		for i := range x {
			x[i] += float64(a * p[i])
			r[i] -= float64(a * ap[i])
		}
		next := dot(r, r)
		for i := range p {
			p[i] = r[i] + float64(next/rr*p[i])
		}
		rr = next
	}
	return x
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += float64(a[i] * b[i])
	}
	return sum
}

// DecodedSamples is how long stretches are that are decoded.
const DecodedSamples = 4000

// DecodedStretches is how many of a read are decoded, of which a fit has every second one.
const DecodedStretches = 20

// OpenTable reads a table of levels.
func OpenTable(path string) (*squiggle.Model, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := squiggle.ReadModel(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// PieceBases is how many bases a simulated read has whose measurements are compared: so few
// that there are hundreds of reads, as each has a speed of its own.
const PieceBases = 500

// Pieces cuts bases into pieces of [PieceBases]; a rest is left out.
func Pieces(stretches []Stretch) (out [][]byte) {
	for _, s := range stretches {
		for piece := range slices.Chunk(s.Bases, PieceBases) {
			if len(piece) == PieceBases {
				out = append(out, piece)
			}
		}
	}
	return out
}

// HumanGC is the share of G and C in the human genome.
const HumanGC = 0.41

// Places are pieces from all over a sequence of letters, of codes, that have about so much
// of G and C: what words do to times and scatter makes distributions differ between pieces
// of another composition.
func Places(letters []byte, gc float64) (out [][]byte) {
	const most, about = 1600, 0.04
	if len(letters) < PieceBases {
		return nil
	}
	for i := range most {
		at := i * (len(letters) - PieceBases) / most
		piece, strong := make([]byte, 0, PieceBases), 0
		for _, c := range letters[at : at+PieceBases] {
			if code := strings.IndexByte("ACGT", c&^0x20); code >= 0 {
				piece = append(piece, byte(code))
				if code == 1 || code == 2 {
					strong++
				}
			}
		}
		if len(piece) == PieceBases && math.Abs(float64(strong)/PieceBases-gc) <= about {
			out = append(out, piece)
		}
	}
	return out
}

// Alternate deals what comes to one and to another in turn: to a fit, and to what it is
// held against.
func Alternate[T any](all []T) (even, odd []T) {
	for i, one := range all {
		if i%2 == 0 {
			even = append(even, one)
		} else {
			odd = append(odd, one)
		}
	}
	return even, odd
}

// Agreement is Pearson's r of two models' levels.
func Agreement(a, b *squiggle.Model) float64 {
	x, y := a.Levels(), b.Levels()
	n, sx, sy, sxx, syy, sxy := float64(len(x)), 0.0, 0.0, 0.0, 0.0, 0.0
	for i := range x {
		u, v := float64(x[i]), float64(y[i])
		sx, sy, sxx, syy, sxy = sx+u, sy+v, sxx+float64(u*u), syy+float64(v*v), sxy+float64(u*v)
	}
	return (float64(n*sxy) - float64(sx*sy)) / math.Sqrt((float64(n*sxx)-float64(sx*sx))*(float64(n*syy)-float64(sy*sy)))
}
