// Package sequencer is a flow cell of any number of channels behind MinKNOW's gRPC
// interface, for more signal than the simulator in Python can give. Recorded signal is
// played in a loop, at the sequencer's pace, and counted as it is given.
//
// It has what a client needs that follows a run to its end: one position with one run,
// whose reads lie on each channel without a gap. It loses chunks only of a client that
// is too slow for them.
package sequencer

import (
	"encoding/binary"
	"fmt"
)

// Cell is what a flow cell sequences.
type Cell struct {
	Channels int
	Rate     int // samples a second of each channel
	// Chunk is the length in samples of the pieces in which a read in progress is
	// given; the last one of a read is what is left.
	Chunk int
	// Samples is the length of the run.
	Samples uint64
	// Levels are recorded signal. Channels play it in a loop, each from a place of
	// its own.
	Levels []int16
}

func (c *Cell) check() error {
	if c.Channels < 1 || c.Rate < 1 || c.Chunk < 1 || c.Samples < 1 || len(c.Levels) == 0 {
		return fmt.Errorf("a flow cell of %d channels at %d samples/s, chunks of %d samples, %d samples in all, of %d recorded ones", c.Channels, c.Rate, c.Chunk, c.Samples, len(c.Levels))
	}
	return nil
}

// chunk is a piece of a read.
type chunk struct {
	read       string
	readStart  uint64 // sample of the run at which the read begins
	start, end uint64 // samples of the run
	levels     []byte // little-endian; part of the loop
}

// Reads last from half a second to half a minute.
const (
	shortestRead = 1. / 2 // seconds
	longestRead  = 30.
)

// loop is recorded signal, little-endian, whose beginning is repeated at its end, so
// that every chunk of it is in one piece.
type loop struct {
	bytes   []byte
	samples uint64
}

func newLoop(levels []int16, chunk int) loop {
	l := loop{samples: uint64(len(levels))}
	for i := range len(levels) + chunk {
		l.bytes = binary.LittleEndian.AppendUint16(l.bytes, uint16(levels[i%len(levels)]))
	}
	return l
}

func (l loop) at(sample, n uint64) []byte {
	from := sample % l.samples
	return l.bytes[2*from : 2*(from+n)]
}

// track deals out the signal of one channel.
type track struct {
	channel    uint32
	number     uint32 // of the read
	read       string
	start, end uint64 // of the read
	given      uint64 // up to this sample of the run
}

// due is the sample of the run with which the next chunk is complete; past the run's
// end when there is none.
func (t *track) due(cell *Cell) uint64 {
	if t.given >= cell.Samples {
		return cell.Samples + 1
	}
	end := t.end
	if t.given == end { // the read is over, or there was none
		end = min(t.given+readLength(cell, t.channel, t.number), cell.Samples)
	}
	return min(t.given+uint64(cell.Chunk), end)
}

// next returns the next chunk, of which there must be one.
func (t *track) next(cell *Cell, l loop) chunk {
	end := t.due(cell)
	if t.given == t.end {
		t.start, t.end = t.given, min(t.given+readLength(cell, t.channel, t.number), cell.Samples)
		t.read = readID(t.channel, t.number)
		t.number++
	}
	c := chunk{read: t.read, readStart: t.start, start: t.given, end: end}
	// Neighbours in the loop are far apart in time.
	c.levels = l.at(uint64(t.channel)*l.samples/uint64(cell.Channels)+c.start, c.end-c.start)
	t.given = end
	return c
}

// readLength is the number of samples of a channel's read.
func readLength(cell *Cell, channel, number uint32) uint64 {
	share := float64(mix(channel, number)>>11) / (1 << 53)
	return max(1, uint64((shortestRead+share*(longestRead-shortestRead))*float64(cell.Rate)))
}

// readID is a UUID in its usual form.
func readID(channel, number uint32) string {
	h := mix(channel, number)
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", channel, number>>16, number>>4&0xfff, number&0xf, h&0xffff_ffff_ffff)
}

// mix spreads two numbers over a word (SplitMix64, Steele and others 2014).
func mix(a, b uint32) uint64 {
	z := (uint64(a)<<32 | uint64(b)) + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
