package stage

import (
	"cmp"
	"math/bits"
	"slices"
)

// span says which samples of a read a chunk held, and what they were.
type span struct {
	first uint64 // within the read
	count uint32
	sum   uint32 // of the samples
}

func (s span) end() uint64 { return s.first + uint64(s.count) }

// checksum distinguishes one stretch of current from another.
func checksum(samples []int16) uint32 {
	const prime = 0x9e3779b97f4a7c15
	h := uint64(len(samples))
	for len(samples) >= 4 {
		x := uint64(uint16(samples[0])) | uint64(uint16(samples[1]))<<16 | uint64(uint16(samples[2]))<<32 | uint64(uint16(samples[3]))<<48
		h = bits.RotateLeft64((h^x)*prime, 29)
		samples = samples[4:]
	}
	for _, s := range samples {
		h = bits.RotateLeft64((h^uint64(uint16(s)))*prime, 29)
	}
	h *= prime
	return uint32(h >> 32)
}

// chunk is what is kept of a signal chunk: its samples stay packed, which takes
// about half the memory and makes a snapshot a copy.
type chunk struct {
	span
	vbz []byte
}

// identity is what all chunks of a read have in common.
type identity struct {
	id            string
	start         uint64 // when it began on its channel
	number        uint32 // likewise, for recordings that don't state the time
	offset, scale float32
}

// assembledRead is a read, or a piece of one that had to be cut.
type assembledRead struct {
	identity
	run         string
	channel     uint32
	firstPart   int     // number of its first part within the read
	floor       uint64  // where the piece begins within the read
	total       uint64  // where it ends: with the read, or with what came of it
	chunks      []chunk // ascending; they may overlap, with the same samples
	lastChunkMS int64   // record time of the newest chunk
	endReason   string
}

// stretches lists the gapless stretches [from, to) of a piece, in order.
func (r *assembledRead) stretches() [][2]uint64 {
	var list [][2]uint64
	next := r.floor
	for _, c := range r.chunks {
		from, to := max(c.first, next), c.end()
		switch {
		case to <= next:
			continue
		case len(list) > 0 && from == next:
			list[len(list)-1][1] = to
		default:
			list = append(list, [2]uint64{from, to})
		}
		next = to
	}
	return list
}

// missing counts the gaps of a piece and the samples that are missing in them.
func (r *assembledRead) missing() (gaps int, samples uint64) {
	next := r.floor
	note := func(from uint64) {
		if from > next {
			gaps++
			samples += from - next
		}
	}
	for _, s := range r.stretches() {
		note(s[0])
		next = s[1]
	}
	note(r.total)
	return gaps, samples
}

// samples counts those of a piece.
func (r *assembledRead) samples() int {
	n := 0
	for _, s := range r.stretches() {
		n += int(s[1] - s[0])
	}
	return n
}

// maxPast bounds the chunks that are remembered of the signal of a read that has
// been called. What is delivered twice comes soon after the first time.
const maxPast = 16

// past remembers signal that has been called and is gone.
type past struct {
	spans   []span // ascending, the newest
	dropped bool   // there were more before them
}

func (p *past) remember(chunks []chunk) {
	for _, c := range chunks {
		p.spans = append(p.spans, c.span)
	}
	// A chunk may begin before one that was cut off.
	slices.SortFunc(p.spans, func(x, y span) int { return cmp.Or(cmp.Compare(x.first, y.first), cmp.Compare(x.count, y.count)) })
	if n := len(p.spans) - maxPast; n > 0 {
		p.spans = slices.Delete(p.spans, 0, n)
		p.dropped = true
	}
}

// verdict is what a chunk is beside what came before of its read.
type verdict int

const (
	isNew       verdict = iota // it holds samples that weren't here
	isDuplicate                // all of it was here
	isConflict                 // it says something else than what was here
	isLate                     // it fills a gap of what has been called already
)

// classify compares a chunk with what is remembered. Samples from before that are
// taken for delivered twice: they can't be used either way.
func (p *past) classify(s span) verdict {
	if s.count == 0 {
		return isDuplicate
	}
	covered := uint64(0) // what is known to have been here ends there
	if !p.dropped {
		covered = s.first
	} else if len(p.spans) > 0 {
		covered = p.spans[0].first
	}
	covered = max(covered, s.first)
	for _, old := range p.spans {
		if old.first == s.first && old.count == s.count {
			if old.sum == s.sum {
				return isDuplicate
			}
			return isConflict
		}
		if old.first <= covered {
			covered = max(covered, old.end())
		}
	}
	if covered >= s.end() {
		return isDuplicate
	}
	return isLate
}
