package network

import "github.com/porestream/porestream/basecall"

// chunks are networks of Dorado that see a stretch of current at a time, and give scores for each frame of it: those of a
// base are where it starts. A stretch begins before a base that is scored, and others of it are those that have enough of it
// on both sides, so which stretch a base is in is a function of the read.
type chunks struct {
	chunking

	levels  *levels // nil: the current is scaled as the basecaller had it
	length  int     // of a stretch, in samples
	stride  int     // samples per frame
	perBase int     // samples for which the bases around are shown once
}

func (c *chunks) ends() []end {
	return []end{{signalInput, []int{1, c.length}}, {sequenceInput, []int{c.channels(), c.length / c.perBase}}}
}

func (c *chunks) frames() int { return c.length / c.stride }

func (c *chunks) prepare(r *read, called *basecall.Called) bool { return r.normalise(c.levels, called) }

func (c *chunks) plan(rows []row, r *read, places []int32) ([]int32, []row) {
	for first := 0; first < len(places); {
		w := row{from: max(0, int(r.starts[places[first]])-c.before), first: first}
		last := first + 1
		for last < len(places) && int(r.starts[places[last]])-w.from <= c.length-c.after {
			last++
		}
		w.places = places[first:last]
		rows = append(rows, w)
		first = last
	}
	return places, rows
}

// fill repeats what is there where a read ends within a stretch, as Dorado does.
func (c *chunks) fill(into []float32, r *read, w *row) {
	clear(into)
	current, bases := into[:c.length], into[c.length:]
	n := min(c.length, len(r.samples)-w.from)
	for i, level := range r.samples[w.from : w.from+n] {
		current[i] = float32((float64(level) - r.shift) / r.scale)
	}
	length, from := c.length/c.perBase, w.from/c.perBase
	known := min(length, (w.from+n)/c.perBase-from)
	if known <= 0 {
		return
	}
	r.kmers(bases, length, known, from, c.perBase, &c.chunking)
	repeat(current, n)
	if known < length {
		for i := range c.channels() {
			repeat(bases[i*length:][:length], known)
		}
	}
}

// repeat writes the first n values again and again.
func repeat(values []float32, n int) {
	for i := n; i < len(values); i++ {
		values[i] = values[i-n]
	}
}

func (c *chunks) frame(r *read, w *row, place int32) int {
	return min((int(r.starts[place])-w.from)/c.stride, c.frames()-1)
}
