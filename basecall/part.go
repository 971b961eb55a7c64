package basecall

// Slice returns the bases [from, to) of a call and the frames that belong to them:
// what is left of a read when its ends are cut off. The samples before them count as
// trimmed; the read keeps its number of samples. Bases that the mean quality leaves out
// at the beginning of a read are those that are left of them.
func (c Called) Slice(from, to int, q QualityManifest) Called {
	if from == 0 && to == len(c.Sequence) {
		return c
	}
	first, end := 0, len(c.Moves)
	base := 0
	for frame, move := range c.Moves {
		if move == 0 {
			continue
		}
		if base == from && from > 0 {
			first = frame
		}
		if base == to {
			end = frame
			break
		}
		base++
	}
	c.Sequence, c.Qualities, c.Moves = c.Sequence[from:to], c.Qualities[from:to], c.Moves[first:end]
	c.TrimmedSamples += first * c.Stride
	c.MeanQuality = meanQuality(c.Qualities, max(0, q.MeanStart-from))
	return c
}

// Part returns the call of the samples [first, end) of a read, as that of a read of its
// own: the bases that begin in whole frames there.
func (c Called) Part(first, end int, q QualityManifest) Called {
	frame := func(sample int) int { return (sample - c.TrimmedSamples) / c.Stride }
	from := min(len(c.Moves), max(0, frame(first+c.Stride-1)))
	to := min(len(c.Moves), max(from, frame(end)))
	base := 0
	for _, move := range c.Moves[:from] {
		base += int(move)
	}
	bases := 0
	for _, move := range c.Moves[from:to] {
		bases += int(move)
	}
	c.Sequence, c.Qualities, c.Moves = c.Sequence[base:base+bases], c.Qualities[base:base+bases], c.Moves[from:to]
	c.NumSamples = end - first
	c.TrimmedSamples = min(c.NumSamples, max(0, c.TrimmedSamples+from*c.Stride-first))
	c.MeanQuality = meanQuality(c.Qualities, max(0, q.MeanStart-base))
	return c
}

// BaseStart returns the sample of the read at which a base begins.
func (c Called) BaseStart(base int) int {
	for frame, move := range c.Moves {
		if move == 0 {
			continue
		}
		if base == 0 {
			return c.TrimmedSamples + frame*c.Stride
		}
		base--
	}
	return c.NumSamples
}
