package score

// Encoder writes windows as a network wants them.
type Encoder struct {
	channel [256]int8 // -1: unknown
	unknown float32
	length  int
	across  bool // channels are first
}

// NewEncoder returns the encoder of a manifest.
func NewEncoder(m *Manifest) *Encoder {
	e := &Encoder{length: m.WindowLength(), across: m.Input.Layout == ChannelsFirst}
	for i := range e.channel {
		e.channel[i] = -1
	}
	for i := range len(m.Input.Channels) {
		e.channel[m.Input.Channels[i]] = int8(i)
	}
	if m.Input.Unknown == UnknownQuarter {
		e.unknown = 0.25
	}
	return e
}

// Encode writes the input for a window to dst, whose length is four times the window's.
func (e *Encoder) Encode(dst []float32, window []byte) {
	clear(dst)
	base, channel := 4, 1
	if e.across {
		base, channel = 1, e.length
	}
	for i, b := range window {
		c := e.channel[b]
		if c >= 0 {
			dst[i*base+int(c)*channel] = 1
		} else if e.unknown != 0 {
			for c := range 4 {
				dst[i*base+c*channel] = e.unknown
			}
		}
	}
}
