package network

import (
	"math"
	"slices"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/stat"
)

// form is what a network is shown of a read, row by row, and where in what it makes of a row the scores of a base are.
type form interface {
	// ends are a network's inputs as its file has them, of which a row is made one behind the other.
	ends() []end
	// frames is how many times the network gives scores for a row.
	frames() int
	// prepare makes of a read what fill needs. It returns false if nothing of the read can be scored.
	prepare(r *read, called *basecall.Called) bool
	// plan returns which of the bases at places, which ascend, are scored, and appends the rows for that.
	plan(rows []row, r *read, places []int32) (scored []int32, planned []row)
	// fill makes a row.
	fill(into []float32, r *read, w *row)
	// frame is which of a row's scores are those of a base.
	frame(r *read, w *row, place int32) int
	// fits refuses basecalling models whose frames have so many samples, with the reason.
	fits(stride int) error
	// scaling says how the current is scaled, for people.
	scaling() string
}

// end is an input of a network without the axis of rows.
type end struct {
	name  string
	shape []int
}

func (e *end) size() int {
	n := 1
	for _, length := range e.shape {
		n *= length
	}
	return n
}

// row is what a network is asked at a time: some bases, and where that begins which it is shown.
type row struct {
	places []int32
	first  int // of them, among all that are scored
	from   int
}

// contexts are networks that see what is around one base.
type contexts struct {
	chunking

	levels *levels // nil: the current is scaled as the basecaller had it
}

func (c *contexts) ends() []end {
	return []end{{signalInput, []int{1, c.samples()}}, {sequenceInput, []int{c.channels(), c.samples()}}}
}

func (c *contexts) frames() int { return 1 }

func (c *contexts) prepare(r *read, called *basecall.Called) bool {
	return r.normalise(c.levels, called)
}

func (c *contexts) plan(rows []row, _ *read, places []int32) ([]int32, []row) {
	for i := range places {
		rows = append(rows, row{places: places[i : i+1], first: i})
	}
	return places, rows
}

func (c *contexts) fill(into []float32, r *read, w *row) { r.fill(into, int(w.places[0]), &c.chunking) }

func (c *contexts) frame(*read, *row, int32) int { return 0 }

// chunking says what a network sees of a read around a base.
type chunking struct {
	before, after           int  // samples around the base's middle
	basesBefore, basesAfter int  // bases around the one that a sample is of
	fromStart               bool // around the base's first sample, not its middle
	offset                  int  // of the base at the window's centre from the one that is scored
}

// samples is how many samples a network sees.
func (c *chunking) samples() int { return c.before + c.after }

// channels is how many numbers it sees of each beside the current: of each base around it which of four it is.
func (c *chunking) channels() int { return 4 * (c.basesBefore + 1 + c.basesAfter) }

// read is a called read as networks see it. Its memory is used for many reads.
type read struct {
	samples []int16 // of the bases
	bases   []byte  // as numbers, in the order of ACGT
	starts  []int32 // the first sample of each base, and of what follows the last
	shift   float64 // of the current, in levels, and
	scale   float64 // in levels per unit

	centres []int16
	levels  []float32

	all    []int16   // samples of the read, with those that are of no base
	events []float32 // what networks of events are shown of each base
	rows   []row
	floats []float64
	sorted []int32
}

var baseNumber = func() (t [256]byte) {
	t['C'], t['G'], t['T'] = 1, 2, 3
	return t
}()

// set takes a read over: its samples, of which moves say which base they are of. A read without bases has nothing to be scored.
func (r *read) set(samples []int16, called *basecall.Called) bool {
	r.bases, r.starts = r.bases[:0], r.starts[:0]
	for frame, move := range called.Moves {
		if move == 1 {
			r.starts = append(r.starts, int32(called.TrimmedSamples+frame*called.Stride))
		}
	}
	if len(r.starts) == 0 || len(r.starts) != len(called.Sequence) {
		return false
	}
	// Samples behind the last whole frame are the last base's; if there are more, somebody has cut the read there.
	end := called.TrimmedSamples + len(called.Moves)*called.Stride
	if left := len(samples) - end; left < called.Stride {
		end = len(samples)
	}
	first := r.starts[0]
	for i := range r.starts {
		r.starts[i] -= first
	}
	r.starts = append(r.starts, int32(end)-first)
	r.samples, r.all = samples[first:end], samples
	for _, b := range called.Sequence {
		r.bases = append(r.bases, baseNumber[b])
	}
	return true
}

// places appends where the bases of a motif are, ascending.
func (r *read) places(places []int32, motifs []Motif) []int32 {
	for i := range r.bases {
		if slices.ContainsFunc(motifs, func(m Motif) bool { return m.at(r.bases, i) }) {
			places = append(places, int32(i))
		}
	}
	return places
}

// at reports whether the motif's base is at a place.
func (m *Motif) at(bases []byte, place int) bool {
	start := place - m.Place
	if start < 0 || start+len(m.sets) > len(bases) {
		return false
	}
	for i, set := range m.sets {
		if set>>bases[start+i]&1 == 0 {
			return false
		}
	}
	return true
}

// fill makes the row of the base at a place: the current, and behind it a row for each base around and each of ACGT, that
// is 1 at the samples where it is there. Behind the read's ends the current is 0, and there are no bases; samples there
// count as the first base's or the last one's.
func (r *read) fill(row []float32, place int, c *chunking) {
	base := min(max(place+c.offset, 0), len(r.bases)-1)
	centre := int(r.starts[base])
	if !c.fromStart {
		centre = int(r.starts[base]+r.starts[base+1]) / 2
	}
	n := c.samples()
	from := centre - c.before
	clear(row)
	lo, hi := max(0, -from), min(n, len(r.samples)-from) // of the row, where there is current
	if lo >= hi {
		return
	}
	for i, level := range r.samples[from+lo : from+hi] {
		row[lo+i] = float32((float64(level) - r.shift) / r.scale)
	}
	r.kmers(row[n:], n, n, from, 1, c)
}

// kmers writes of n samples, or of n times as many as ratio says, the bases around the one that each is of: to channels of
// a length, for each base around and each of ACGT one. from is the first of them, in these units.
func (r *read) kmers(channels []float32, length, n, from, ratio int, c *chunking) {
	// The base that the first sample is of, if there is one, and those that follow.
	at, exact := slices.BinarySearchFunc(r.starts, max(0, from), func(start int32, from int) int { return int(start)/ratio - from })
	if !exact {
		at--
	}
	for begin := 0; begin < n; at++ {
		end := n
		if at+1 < len(r.bases) {
			end = min(int(r.starts[at+1])/ratio-from, n)
		}
		for k := range c.basesBefore + 1 + c.basesAfter {
			of := at + k - c.basesBefore
			if of < 0 || of >= len(r.bases) {
				continue
			}
			channel := channels[(4*k+int(r.bases[of]))*length:][:length]
			for i := begin; i < end; i++ {
				channel[i] = 1
			}
		}
		begin = end
	}
}

// normalise scales the current as networks of a model want it: by their levels, or else as the basecaller had
// it. It returns false if there is nothing to scale by.
func (r *read) normalise(l *levels, called *basecall.Called) bool {
	if l != nil {
		return r.fit(l)
	}
	r.shift, r.scale = float64(called.Shift), float64(called.Scale)
	return r.scale > 0
}

// levels are what current is expected of bases: of each k-mer, with the base at centre in the pore's middle.
type levels struct {
	table  []float32
	k      int
	centre int
	most   int // of a read, the first so many bases count; 0: all
}

// The quantiles that are fitted to each other, and the bases at either end that don't count.
const (
	quantiles    = 19
	quantileStep = 0.05
	clippedBases = 10
)

// fit scales the current so that quantiles of the samples amid bases are as near as may be to those of the levels that are expected of
// the bases, by least squares.
func (r *read) fit(l *levels) bool {
	r.centres, r.levels = r.centres[:0], r.levels[:0]
	index, mask := 0, len(l.table)-1
	for i := range r.bases {
		r.centres = append(r.centres, r.samples[min(int(r.starts[i]+r.starts[i+1])/2, len(r.samples)-1)])
		r.levels = append(r.levels, 0) // where a k-mer isn't whole
		index = (index<<2 | int(r.bases[i])) & mask
		// Remora has no level for the last k-mer either.
		if start := i - l.k + 1; start >= 0 && i < len(r.bases)-1 {
			r.levels[start+l.centre] = l.table[index]
		}
	}
	centres, expected := r.centres, r.levels
	if l.most > 0 && len(expected) > l.most {
		centres, expected = centres[:l.most], expected[:l.most]
	}
	if len(expected) > 2*clippedBases {
		centres, expected = centres[clippedBases:len(centres)-clippedBases], expected[clippedBases:len(expected)-clippedBases]
	}
	slices.Sort(centres)
	slices.Sort(expected)
	var x, y, xx, xy float64
	for i := 1; i <= quantiles; i++ {
		q := float64(i) * quantileStep
		a, b := stat.Quantile(centres, q), stat.Quantile(expected, q)
		x += a
		y += b
		xx += a * a
		xy += a * b
	}
	const n = quantiles
	spread := xx - x*x/n
	slope := (xy - x*y/n) / spread
	if !(spread > 0) || slope == 0 || math.IsNaN(slope) {
		return false
	}
	r.scale = 1 / slope
	r.shift = x/n - y/n/slope
	return true
}
