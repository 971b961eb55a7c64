package tally

import (
	"strings"
	"testing"
)

func TestDifferences(t *testing.T) {
	given := make(Cell, 30)
	same := make(Cell, 30)
	for channel := uint32(1); channel <= 30; channel++ {
		given.Add(channel, []byte{1, 0, 2, 0, 3, 0})
		same.Add(channel, []byte{1, 0})
		same.Add(channel, nil)
		same.Add(channel, []byte{2, 0, 3, 0})
	}
	if d := Differences(given, same); d != nil || given.Samples() != 90 {
		t.Errorf("the same in other pieces: %q, %d samples", d, given.Samples())
	}
	short, other := append(Cell(nil), given...), append(Cell(nil), given...)
	short[4] = Channel{}
	short.Add(5, []byte{1, 0, 2, 0})
	other[29] = Channel{}
	other.Add(30, []byte{2, 0, 1, 0, 3, 0})
	for _, tt := range []struct {
		name  string
		came  Cell
		want  string
		lines int
	}{
		{"fewer samples", short, "channel 5: 3 samples were given, and 2 have come", 1},
		{"in another order", other, "channel 30: 3 samples were given, and as many others have come", 1},
		{"fewer channels", given[:29], "30 channels were given, and 29 have come", 1},
		{"none at all", make(Cell, 30), "20 more channels", 11},
	} {
		d := Differences(given, tt.came)
		if len(d) != tt.lines || !strings.Contains(strings.Join(d, "\n"), tt.want) {
			t.Errorf("%s: %q", tt.name, d)
		}
	}
}
