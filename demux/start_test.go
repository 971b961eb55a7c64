package demux

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestStartOf: current as a strand has it around level 500, spread 50, with stretches of an open pore at
// places that are known. The expected samples follow from windows of 40 that begin behind sample 10.
func TestStartOf(t *testing.T) {
	strand := func(n int) []int16 {
		rng := rand.New(rand.NewPCG(42, 0))
		levels := make([]int16, n)
		for i := range levels {
			levels[i] = int16(500 + 50*max(-2, min(2, rng.NormFloat64())))
		}
		return levels
	}
	for _, tt := range []struct {
		name       string
		samples    int
		open       [][2]int
		want       int
		unreadable bool
	}{
		{name: "the strand at once", samples: 20000, want: 10},
		{name: "an open pore", samples: 20000, open: [][2]int{{0, 1000}}, want: 1010},
		{name: "it ends with a window's last sample but one", samples: 20000, open: [][2]int{{0, 1009}}, want: 1010},
		{name: "it ends with a window's last sample", samples: 20000, open: [][2]int{{0, 1010}}, want: 1050},
		{name: "the strand sticks before it opens once more", samples: 20000, open: [][2]int{{300, 400}}, want: 410},
		{name: "the first of two", samples: 20000, open: [][2]int{{100, 200}, {900, 1000}}, want: 210},
		{name: "three samples are a spike", samples: 20000, open: [][2]int{{200, 203}}, want: 10},
		{name: "four are not", samples: 20000, open: [][2]int{{200, 204}}, want: 210},
		{name: "beyond the search", samples: 20000, open: [][2]int{{8000, 9000}}, want: 10},
		{name: "to the end of the search", samples: 20000, open: [][2]int{{0, 9000}}, want: 10},
		{name: "beyond half of the read", samples: 2000, open: [][2]int{{1000, 1200}}, want: 10},
		{name: "within half of the read", samples: 2000, open: [][2]int{{800, 900}}, want: 930},
		{name: "all open", samples: 3000, open: [][2]int{{0, 3000}}, want: 10},
		{name: "shorter than a window", samples: 30, want: 10},
		{name: "as long as what is cut off", samples: 10, want: 0},
		{name: "empty", want: 0},
		{name: "no scale", samples: 100, unreadable: true, want: 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			levels := strand(tt.samples)
			for _, o := range tt.open {
				for i := o[0]; i < o[1]; i++ {
					levels[i] = 900
				}
			}
			scale := float32(50)
			if tt.unreadable {
				scale = 0
			}
			assert.Equal(t, tt.want, StartOf(levels, 500, scale))
		})
	}
	assert.Equal(t, 10, StandardStart(strand(11)))
	assert.Equal(t, 0, StandardStart(strand(10)))
}
