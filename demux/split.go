package demux

import (
	"crypto/sha1" //nolint:gosec // UUIDs of version 5 are made with it
	"encoding/hex"
	"math"
	"slices"
	"strconv"
)

// Problem: two molecules that follow each other closely are one read to the sequencer.
//
// Assumptions: between them the pore was open for a moment, with a current far above
// any that a strand lets through; or, if that was too short to be seen, the adapter of
// the second molecule stands in the sequence.
//
// Strategy: the upper quartile of a strand's current is near half of the open pore's in
// all pores so far (R9.4: 105 of 200 to 220 pA; R10.4.1: 105 of 200 pA), also where a
// strand is stuck for half of the time. A stretch is open pore if nearly all of it lies
// above openPoreRatio times that quartile. Single levels and spikes of real reads get
// there too, for up to 3 ms; stretches must last longer. An adapter counts where its
// sequence is nearly whole.
//
// Consequences: what is cut has good grounds; two molecules without either stay one.

const (
	openPoreRatio  = 1.65
	openPoreMillis = 5
	openPoreShare  = 0.9 // of the samples of a stretch that are above
	// minSplitMillis is the least that a part of a read lasts: about 100 bases.
	minSplitMillis = 250
	// minMiddleAdapter is the score of an adapter amid a read, which is searched for at
	// thousands of places instead of a few.
	minMiddleAdapter = 0.85
)

// OpenPore returns the stretches of a read's samples, in order, in which the pore was
// open. The samples are picoamperes at a rate in Hz; those at the read's ends, closer
// than a part can be, don't count.
func OpenPore(picoamperes []float32, rate int) []Interval {
	least := rate * openPoreMillis / 1000
	margin := rate * minSplitMillis / 1000
	if least < 1 || len(picoamperes) < 2*margin+least {
		return nil
	}
	level := float32(openPoreRatio * quantile(picoamperes, 0.75))
	if !(level > 0) {
		return nil
	}
	var found []Interval
	for i := margin; i < len(picoamperes)-margin; i++ {
		if picoamperes[i] < level {
			continue
		}
		// A stretch goes on as long as enough of it lies above.
		end, above := i, 0
		for j := i; j < len(picoamperes)-margin; j++ {
			if picoamperes[j] >= level {
				above++
				if float64(above) >= openPoreShare*float64(j+1-i) {
					end = j + 1
				}
			}
			if float64(above) < float64(openPoreShare*float64(j+1-i))-float64(least) {
				break
			}
		}
		if end-i >= least {
			found = append(found, Interval{i, end})
			i = end + margin // what follows is too near to be another part's end
		}
	}
	return found
}

// quantile returns a quantile of some thousands of evenly spread values, which is near
// enough to that of all; there must be one.
func quantile(values []float32, q float64) float64 {
	step := max(1, len(values)/4096)
	sample := make([]float32, 0, 2*4096)
	for i := 0; i < len(values); i += step {
		sample = append(sample, values[i])
	}
	slices.Sort(sample)
	if m := float64(sample[int(float64(len(sample))*q)]); !math.IsNaN(m) {
		return m
	}
	return 0
}

// MiddleAdapters returns the places, in order, at which an adapter begins amid a
// sequence: the beginnings of further molecules.
func MiddleAdapters(sequence []byte, adapters []Adapter) []int {
	const edge = 100 // bases at both ends; what is nearer is the read's own
	var places []int
	for _, a := range adapters {
		if a.Front != "" {
			places = appendMatches(places, newProbe(a.Front), sequence, edge, len(sequence)-edge)
		}
	}
	slices.Sort(places)
	// Two adapters alike are found at one place.
	return slices.CompactFunc(places, func(later, earlier int) bool { return later-earlier < edge })
}

// appendMatches appends where an adapter begins in sequence[from:to]: at the best place,
// and before and behind that.
func appendMatches(places []int, p probe, sequence []byte, from, to int) []int {
	if to-from < p.forward.length {
		return places
	}
	m := p.find(sequence[from:to])
	if 1-float64(m.distance)/float64(p.forward.length) < minMiddleAdapter {
		return places
	}
	places = appendMatches(places, p, sequence, from, from+m.start)
	places = append(places, from+m.start)
	return appendMatches(places, p, sequence, from+m.end, to)
}

// childNamespace is the namespace of the ids of parts of reads: the UUID of version 5 of
// the URL https://github.com/porestream/porestream/split.
var childNamespace = uuid5([16]byte{0x6b, 0xa7, 0xb8, 0x11, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8},
	"https://github.com/porestream/porestream/split")

// ChildID returns the id of the part of a read that begins at a sample of it: a UUID of
// version 5 (RFC 9562), so that every program that splits a read in the same way gives its
// parts the same ids.
func ChildID(parent string, sample int) string {
	id := uuid5(childNamespace, parent+":"+strconv.Itoa(sample))
	text := hex.EncodeToString(id[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

func uuid5(namespace [16]byte, name string) (id [16]byte) {
	sum := sha1.Sum(append(namespace[:], name...)) //nolint:gosec // see the import
	copy(id[:], sum[:])
	id[6] = id[6]&0x0f | 0x50
	id[8] = id[8]&0x3f | 0x80
	return id
}
