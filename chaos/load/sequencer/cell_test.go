package sequencer

import (
	"encoding/binary"
	"testing"
)

// TestTrack: a channel's chunks follow each other without a gap to the run's end, none
// longer than a chunk, each of the signal that the loop has there; reads begin where
// the ones before end, and their ids are their own.
func TestTrack(t *testing.T) {
	cell := &Cell{Channels: 7, Rate: 5000, Chunk: 4000, Samples: 1_000_003, Levels: make([]int16, 30_011)}
	for i := range cell.Levels {
		cell.Levels[i] = int16(i)
	}
	l := newLoop(cell.Levels, cell.Chunk)
	seen := make(map[string]bool)
	for channel := uint32(1); channel <= 7; channel++ {
		tr := track{channel: channel}
		var at, readStart uint64
		var read string
		offset := int(uint64(channel) * uint64(len(cell.Levels)) / 7)
		for tr.due(cell) <= cell.Samples {
			due := tr.due(cell)
			c := tr.next(cell, l)
			if c.read != read {
				if seen[c.read] || len(c.read) != 36 || c.readStart != at {
					t.Fatalf("channel %d: read %s begins with sample %d, at %d", channel, c.read, c.readStart, at)
				}
				read, readStart = c.read, c.readStart
				seen[read] = true
			}
			n := c.end - c.start
			if c.start != at || c.readStart != readStart || c.end != due || n < 1 || n > uint64(cell.Chunk) || uint64(len(c.levels)) != 2*n {
				t.Fatalf("channel %d: %+v behind sample %d", channel, c, at)
			}
			for i := range int(n) {
				want := int16((offset + int(c.start) + i) % len(cell.Levels))
				if got := int16(binary.LittleEndian.Uint16(c.levels[2*i:])); got != want {
					t.Fatalf("channel %d, sample %d: %d, want %d", channel, int(c.start)+i, got, want)
				}
			}
			at = c.end
		}
		if at != cell.Samples {
			t.Errorf("channel %d ends with sample %d", channel, at)
		}
	}
	if len(seen) < 7*1_000_003/(30*5000) {
		t.Errorf("%d reads", len(seen))
	}
}
