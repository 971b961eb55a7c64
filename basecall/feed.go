package basecall

import "github.com/porestream/porestream/signal"

// feed cuts the current of one read into normalised windows as it comes.
//
// A window is due once its samples are there, and those that its normalisation
// is over. Windows lie where windowing puts them in the whole read, which for all
// but the last doesn't depend on the read's length, so that what is due can be
// computed whatever follows. What windows hold, and their order, is a function of
// the read's samples; the chunks in which these came only decide when.
type feed struct {
	windows windowing
	norm    *normaliser

	tail    []int16 // the newest samples, those that are still needed
	samples int     // that have come
	ended   bool    // no more come
	given   int     // windows
}

// window is a stretch of a read that is called at a time.
type window struct {
	index  int
	frame  int // the read's at which it begins
	frames int // of signal; what the network has more is padding
	length int // samples, with padding
}

// newFeed returns the feed of a read. It must be released.
func newFeed(w windowing, m NormalisationManifest, calibration signal.Calibration) (*feed, error) {
	norm, err := newNormaliser(m, calibration)
	if err != nil {
		return nil, err
	}
	return &feed{windows: w, norm: norm}, nil
}

// write appends samples to the read.
func (f *feed) write(samples []int16) {
	// The last window may begin up to a stride before the newest window's length
	// of samples, and the next that is due doesn't begin earlier.
	first := f.samples - len(f.tail)
	keep := min(f.norm.needs(), f.given*f.windows.step(), f.samples-f.windows.samples-f.windows.stride)
	if drop := keep - first; drop >= f.windows.samples {
		f.tail = append(f.tail[:0], f.tail[drop:]...)
	}
	f.tail = append(f.tail, samples...)
	f.samples += len(samples)
}

// end says that no more samples come.
func (f *feed) end() { f.ended = true }

// next writes the next window to the beginning of dst, which is as long as the longest, if one is
// due. A window longer than the read is filled by repeating it.
func (f *feed) next(dst []float32) (window, bool) {
	// While the read goes on, its length so far places a window where any greater
	// length would, once all samples of it are there.
	start, length := f.given*f.windows.step(), f.windows.samples
	if f.ended {
		if f.given >= f.windows.count(f.samples) {
			return window{}, false
		}
		start, length = f.windows.start(f.given, f.samples), f.windows.length(f.given, f.samples)
	} else if start+length > f.samples {
		return window{}, false
	}
	end := min(start+length, f.samples)
	first := f.samples - len(f.tail)
	if !f.norm.reach(f.tail[min(f.norm.needs(), f.samples)-first:], end, f.ended) {
		return window{}, false
	}
	f.norm.affine().apply(dst[:end-start], f.tail[start-first:end-first])
	pad(dst[:length], end-start)
	w := window{index: f.given, frame: start / f.windows.stride, frames: (end - start) / f.windows.stride, length: length}
	f.given++
	return w, true
}

// release gives the memory back.
func (f *feed) release() {
	f.norm.release()
	f.tail = nil
}
