package network

import (
	"math"
	"slices"

	"github.com/porestream/porestream/basecall"
)

// events are networks of DeepMod2, which are shown of each base around the one that is scored what its current was like: the
// means of its quarters, median, deviation from that, mean, standard deviation and length; how sure the basecaller was; and
// which base it is.
type events struct {
	around int // bases on either side
}

const (
	eventsInput   = "events"
	eventFeatures = 9
	// eventNumbers are those of a base: features, the probability that it is right, and one for each of ACGT.
	eventNumbers = eventFeatures + 1 + 4
	quarters     = 4
)

func (e *events) ends() []end {
	return []end{{eventsInput, []int{2*e.around + 1, eventNumbers}}}
}

func (e *events) frames() int { return 1 }

// prepare computes what a network is shown of all bases but the last, whose end moves don't give. The current is scaled by
// median and median absolute deviation of all samples, with what is before the first base.
func (e *events) prepare(r *read, called *basecall.Called) bool {
	if len(called.Qualities) != len(r.bases) {
		return false
	}
	r.sorted = r.sorted[:0]
	for _, v := range r.all {
		r.sorted = append(r.sorted, 2*int32(v)) // a median may be between two
	}
	median := middle(r.sorted)
	for i, v := range r.sorted {
		r.sorted[i] = max(v-median, median-v)
	}
	mad := float64(middle(r.sorted)) / 2
	r.shift, r.scale = float64(median)/2, mad
	if mad <= 0 {
		return false
	}
	r.events = slices.Grow(r.events[:0], eventNumbers*len(r.bases))[:eventNumbers*len(r.bases)]
	clear(r.events)
	for i := range r.bases {
		of := r.events[i*eventNumbers:][:eventNumbers]
		if i < len(r.bases)-1 {
			r.event(of, r.samples[r.starts[i]:r.starts[i+1]])
		}
		of[eventFeatures] = float32(1 - math.Pow(10, -float64(called.Qualities[i])/10))
		of[eventFeatures+1+int(r.bases[i])] = 1
	}
	return true
}

// middle is the median of numbers of which the sum of any two is even, which it sorts.
func middle(all []int32) int32 {
	slices.Sort(all)
	n := len(all)
	if n == 0 {
		return 0
	}
	return (all[(n-1)/2] + all[n/2]) / 2
}

// event writes the features of a base's samples, of which there are four at least.
func (r *read) event(of []float32, samples []int16) {
	n := len(samples)
	x := r.floats[:0]
	sum := 0.0
	for i, v := range samples {
		x = append(x, (float64(v)-r.shift)/r.scale)
		sum += x[i]
	}
	mean := sum / float64(n)
	squares := 0.0
	for _, v := range x {
		squares += (v - mean) * (v - mean)
	}
	for q := range quarters {
		from, to := q*n/quarters, (q+1)*n/quarters
		part := 0.0
		for _, v := range x[from:to] {
			part += v
		}
		of[q] = float32(part / float64(to-from))
	}
	median := medianOf(x)
	for i := range x {
		x[i] = math.Abs(x[i] - median)
	}
	of[4], of[5], of[6], of[7] = float32(median), float32(medianOf(x)), float32(mean), float32(math.Sqrt(squares/float64(n)))
	of[8] = float32(math.Log10(float64(n)))
	r.floats = x
}

// medianOf sorts numbers.
func medianOf(x []float64) float64 {
	slices.Sort(x)
	n := len(x)
	return (x[(n-1)/2] + x[n/2]) / 2
}

// plan leaves out the bases at a read's ends, around which something is missing, and as DeepMod2 one more.
func (e *events) plan(rows []row, r *read, places []int32) ([]int32, []row) {
	first, _ := slices.BinarySearch(places, int32(e.around+1))
	behind, _ := slices.BinarySearch(places, int32(len(r.bases)-e.around-1))
	places = places[first:max(first, behind)]
	for i := range places {
		rows = append(rows, row{places: places[i : i+1], first: i})
	}
	return places, rows
}

func (e *events) fill(into []float32, r *read, w *row) {
	copy(into, r.events[(int(w.places[0])-e.around)*eventNumbers:])
}

func (e *events) frame(*read, *row, int32) int { return 0 }
