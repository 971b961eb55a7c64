package basecall

// Slice returns the bases [from, to) of a call and the frames that belong to them:
// what is left of a read when its ends are cut off. The samples before them count as
// trimmed; the read keeps its number of samples. Of the bases that the mean quality
// leaves out where a read begins, those that are left are left out.
func (c Called) Slice(from, to int, q QualityManifest) Called {
	if from == 0 && to == len(c.Sequence) {
		return c
	}
	sequence, qualities := c.Sequence[from:to], c.Qualities[from:to]
	from, to = c.passed(from, to)
	first, end := 0, len(c.Moves)
	if from > 0 {
		first = end // where no base is left, behind the last one
	}
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
	c.Sequence, c.Qualities, c.Moves = sequence, qualities, c.Moves[first:end]
	c.TrimmedSamples += first * c.Stride
	c.MeanQuality = c.meanQuality(max(0, q.MeanStart-from))
	return c
}

// passed turns bases [from, to) of the sequence into places in the order in which bases
// passed the pore, and back.
func (c *Called) passed(from, to int) (int, int) {
	if c.FromEnd {
		return len(c.Sequence) - to, len(c.Sequence) - from
	}
	return from, to
}

// meanQuality is the mean quality without the first start bases that passed the pore,
// if there are others.
func (c *Called) meanQuality(start int) float64 {
	if start >= len(c.Qualities) {
		start = 0
	}
	from, to := c.passed(start, len(c.Qualities))
	return MeanQuality(c.Qualities[from:to])
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
	start, stop := c.passed(base, base+bases)
	c.Sequence, c.Qualities, c.Moves = c.Sequence[start:stop], c.Qualities[start:stop], c.Moves[from:to]
	c.NumSamples = end - first
	c.TrimmedSamples = min(c.NumSamples, max(0, c.TrimmedSamples+from*c.Stride-first))
	c.MeanQuality = c.meanQuality(max(0, q.MeanStart-base))
	return c
}

// BaseStart returns the sample of the read at which a base begins.
func (c Called) BaseStart(base int) int {
	base, _ = c.passed(base, base+1)
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

// BasesBefore returns how many bases passed the pore before a sample of the read: those
// whose frames begin there.
func (c Called) BasesBefore(sample int) int {
	frames := min(len(c.Moves), max(0, (sample-c.TrimmedSamples+c.Stride-1)/c.Stride))
	n := 0
	for _, move := range c.Moves[:frames] {
		n += int(move)
	}
	return n
}
