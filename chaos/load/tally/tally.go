// Package tally counts the signal of a flow cell channel by channel, so that what a
// sequencer gave can be compared with what came out at the other end. It is pure.
package tally

import (
	"fmt"
	"hash/crc32"
)

// Channel is what there was of a channel.
type Channel struct {
	Samples uint64 `json:"samples"`
	// Sum is the CRC-32C of all samples in order, each as two bytes, little-endian.
	Sum uint32 `json:"sum"`
}

// Cell has the channels of a flow cell, of which the first is channel 1.
type Cell []Channel

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Add counts samples of a channel, which must be one of the cell's.
func (c Cell) Add(channel uint32, levels []byte) {
	ch := &c[channel-1]
	ch.Samples += uint64(len(levels) / 2)
	ch.Sum = crc32.Update(ch.Sum, castagnoli, levels)
}

// Samples is how many samples there were of all channels.
func (c Cell) Samples() (n uint64) {
	for _, ch := range c {
		n += ch.Samples
	}
	return n
}

// maxDifferences is how many channels Differences names.
const maxDifferences = 10

// Differences says for which channels what came is not what was given, a line for each
// of the first ones; nothing if all is as it was.
func Differences(given, came Cell) []string {
	if len(given) != len(came) {
		return []string{fmt.Sprintf("%d channels were given, and %d have come", len(given), len(came))}
	}
	var lines []string
	more := 0
	for i := range given {
		switch g, c := given[i], came[i]; {
		case g == c:
			continue
		case len(lines) == maxDifferences:
			more++
		case g.Samples != c.Samples:
			lines = append(lines, fmt.Sprintf("channel %d: %d samples were given, and %d have come", i+1, g.Samples, c.Samples))
		default:
			lines = append(lines, fmt.Sprintf("channel %d: %d samples were given, and as many others have come", i+1, g.Samples))
		}
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("%d more channels", more))
	}
	return lines
}
