package basecall

// windowing cuts reads into windows and joins what is called in them.
//
// Window starts are multiples of the stride, so that a frame of a window is a
// frame of the read: frame f covers the samples [f*stride, (f+1)*stride). A
// window begins every samples-overlap samples; the last is as many units long as
// what is left of the read takes with what it is to share, and moved back so that it ends
// with the last whole frame, or less than a phase behind it. Without a unit it is as
// long as the others.
// Samples after that frame, fewer than a stride, belong to no frame.
type windowing struct {
	stride  int // samples per frame
	samples int // samples per window
	overlap int // samples that a window shares with the next
	phase   int // frames of which the last window's start is a multiple; 0: any
	unit    int // samples of which the last window has a multiple; 0: it has as many as the others
	least   int // samples that a last window shares with the one before at least, if it is shorter than the others
}

// framesOfPhase is a multiple of the frames that networks say at each of their steps:
// one, two (r9.4-fast, Dorado's transformers) or three. Of a signal that begins
// between two of its steps, a network says other things all along it.
const framesOfPhase = 6

// unitsOfWindow is into how many units a window is divided at least. More of them
// save samples of a read's last window, half a unit on average, and cost memory of the runtime, which
// plans it for each length.
const unitsOfWindow = 16

// unitOf returns the unit for windows, a whole number of phases.
func (w windowing) unitOf() int {
	phase := max(1, w.phase) * w.stride
	return max(1, w.samples/unitsOfWindow/phase) * phase
}

// leastShared is the least of the windows of all models. A border is felt for half as many
// samples, and a short window has little else to go by.
const leastShared = 300

// Joining counts the ways in which the engine has cut reads into windows and joined what was called
// in them. It belongs to whatever names what bases depend on: raise it with every change of that.
const Joining = 2

// frames returns the number of whole frames of a read.
func (w windowing) frames(samples int) int { return samples / w.stride }

// step returns how far apart windows begin.
func (w windowing) step() int { return w.samples - w.overlap }

// count returns the number of windows of a read: none if it has no frame.
func (w windowing) count(samples int) int {
	whole := w.frames(samples) * w.stride
	switch {
	case whole == 0:
		return 0
	case whole <= w.samples:
		return 1
	}
	return 1 + (whole-w.samples+w.step()-1)/w.step()
}

// length returns how many samples window i of a read has.
func (w windowing) length(i, samples int) int {
	if w.unit == 0 || i < w.count(samples)-1 {
		return w.samples
	}
	rest := w.frames(samples)*w.stride - i*w.step()
	if i > 0 {
		rest += w.furtherBack()
	}
	return min(w.samples, (rest+w.unit-1)/w.unit*w.unit)
}

// furtherBack returns how much more than the others a short last window shares: whole phases.
func (w windowing) furtherBack() int {
	phase := max(1, w.phase) * w.stride
	return (max(0, w.least-w.overlap) + phase - 1) / phase * phase
}

// total returns how many samples the windows of a read have together.
func (w windowing) total(samples int) int {
	n := w.count(samples)
	if n == 0 {
		return 0
	}
	return (n-1)*w.samples + w.length(n-1, samples)
}

// start returns the first sample of window i of a read.
func (w windowing) start(i, samples int) int {
	last := max(0, w.frames(samples)*w.stride-w.length(i, samples))
	phase := max(1, w.phase) * w.stride
	return min(i*w.step(), (last+phase-1)/phase*phase)
}

// pad fills a window of which the first n samples are set by repeating these. A
// network takes repeated signal for signal; what is called in it is dropped.
func pad(window []float32, n int) {
	for n < len(window) {
		n += copy(window[n:], window[:n])
	}
}

// base is one called base.
type base struct {
	frame   int32 // at which it starts
	label   byte  // A, C, G or T
	quality byte  // Phred
}

// Two windows are held to agree at a frame by as many bases on either side of it as
// agreeing says, which may begin a few frames apart.
const (
	agreeing = 3
	apart    = 2 // frames
)

// cut returns the frame of the read at which to pass from a window to the next.
// left and right hold their bases with frames of the read, and the two share the
// frames [from, to).
//
// The cut goes where the most bases before it and behind it are the same in both windows,
// so that no base is lost that the left window starts behind it and the right one before,
// or counted twice. Of places where as many are, it is the nearest to a third of what is
// shared, where both networks have seen signal on either side; of two equally near, the earlier.
// A window's end is felt no less than its beginning, and joined reads were a little better
// with a cut before the middle.
func cut(left, right []base, from, to int) int {
	aim := from + (to-from)/3
	best, most := aim, 0
	l, r := 0, 0 // the first bases that start at the frame or later
	for frame := from; frame < to; frame++ {
		for l < len(left) && int(left[l].frame) < frame {
			l++
		}
		for r < len(right) && int(right[r].frame) < frame {
			r++
		}
		same := 0
		for k := 1; k <= agreeing && l >= k && r >= k && agree(left[l-k], right[r-k]); k++ {
			same++
		}
		for k := 0; k < agreeing && l+k < len(left) && r+k < len(right) && agree(left[l+k], right[r+k]); k++ {
			same++
		}
		if same > most || same == most && abs(frame-aim) < abs(best-aim) {
			best, most = frame, same
		}
	}
	return best
}

// agree reports whether a base is the same in two windows.
func agree(l, r base) bool {
	return l.label == r.label && abs(int(l.frame)-int(r.frame)) <= apart
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}

// joiner joins what is called in the windows of a read, in their order.
type joiner struct {
	sequence, qualities []byte
	moves               []byte

	last  []base // of the newest window; its bases from begin on are not joined yet
	begin int
	end   int // frame behind the newest window
	any   bool
}

// add joins the next window: its bases, with frames of the read in ascending
// order, and the frames [from, to) that it covers. It keeps the bases.
func (j *joiner) add(bases []base, from, to int) {
	if j.any {
		// Both windows cover the frames from the beginning of the new one to the end
		// of the one before.
		at := cut(framesFrom(j.last, from), framesBefore(bases, j.end), from, j.end)
		j.join(max(j.begin, at))
	}
	j.last, j.end, j.any = bases, to, true
}

// join appends the bases of the newest window up to a frame.
func (j *joiner) join(end int) {
	j.moves = append(j.moves, make([]byte, end-j.begin)...)
	for _, b := range framesBefore(framesFrom(j.last, j.begin), end) {
		j.sequence = append(j.sequence, b.label)
		j.qualities = append(j.qualities, b.quality)
		j.moves[b.frame] = 1
	}
	j.begin = end
}

// finish joins what is left.
func (j *joiner) finish() {
	j.join(j.end)
	j.last = nil
}

// framesFrom returns the bases that start at a frame or later.
func framesFrom(bases []base, frame int) []base {
	return bases[firstAt(bases, frame):]
}

// framesBefore returns the bases that start before a frame.
func framesBefore(bases []base, frame int) []base {
	return bases[:firstAt(bases, frame)]
}

// firstAt returns the index of the first base that starts at a frame or later.
func firstAt(bases []base, frame int) int {
	low, high := 0, len(bases)
	for low < high {
		middle := (low + high) / 2
		if int(bases[middle].frame) < frame {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}
