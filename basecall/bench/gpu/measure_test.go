package gpu

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// simulated draws a power and is as busy as the functions of time say.
type simulated struct {
	begin       time.Time
	watts, busy func(seconds float64) float64 // nil: no such counter
	energy      func(seconds float64) float64
}

func (s *simulated) read(f func(float64) float64) (float64, error) {
	if f == nil {
		return 0, ErrUnsupported
	}
	return f(time.Since(s.begin).Seconds()), nil
}

func (s *simulated) Energy() (float64, error)      { return s.read(s.energy) }
func (s *simulated) Power() (float64, error)       { return s.read(s.watts) }
func (s *simulated) Utilisation() (float64, error) { return s.read(s.busy) }

func constant(v float64) func(float64) float64 { return func(float64) float64 { return v } }

func TestMeasure(t *testing.T) {
	ramp := func(s float64) float64 { return 100 + 20*s } // watts
	counter := func(s float64) float64 { return 7000 + 250*s }
	idleThenBusy := func(s float64) float64 { // as a driver reports it that averages over the last second
		return min(1, s) * 0.9
	}
	for _, test := range []struct {
		name                string
		gpus                []simulated
		length              time.Duration
		joules, utilisation float64 // negative: not known
	}{
		{"no GPU", nil, 4 * time.Second, -1, -1},
		{"energy counter", []simulated{{energy: counter, watts: ramp, busy: constant(0.5)}}, 4 * time.Second, 1000, 0.5},
		{"power alone", []simulated{{watts: ramp, busy: constant(0.5)}}, 4 * time.Second, 400 + 10*16, 0.5},
		{"power alone, not a multiple of the interval", []simulated{{watts: ramp}}, 1234 * time.Millisecond, 123.4 + 10*1.234*1.234, -1},
		{"shorter than an interval", []simulated{{watts: constant(80)}}, 10 * time.Millisecond, 0.8, -1},
		{"the counter began anew", []simulated{{energy: func(s float64) float64 { return 500 - 100*s }, watts: constant(50)}}, 2 * time.Second, 100, -1},
		{"the counter began anew, and nothing else", []simulated{{energy: func(s float64) float64 { return 500 - 100*s }}}, 2 * time.Second, -1, -1},
		{"utilisation looks back", []simulated{{energy: counter, busy: idleThenBusy}}, 4 * time.Second, 1000, 0.9},
		{"two GPUs", []simulated{{energy: counter, busy: constant(0.5)}, {watts: constant(100), busy: constant(1)}}, 2 * time.Second, 700, 0.75},
		{"two GPUs, one tells nothing", []simulated{{energy: counter, busy: constant(0.5)}, {}}, 2 * time.Second, -1, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var gpus []Counters
				for i := range test.gpus {
					test.gpus[i].begin = time.Now()
					gpus = append(gpus, &test.gpus[i])
				}
				failure := errors.New("of what runs")
				u, err := Measure(gpus, func() error {
					time.Sleep(test.length)
					return failure
				})
				require.ErrorIs(t, err, failure)
				assert.InDelta(t, test.length.Seconds(), u.Seconds, 1e-9)
				near(t, test.joules, u.Joules, 1e-6)
				near(t, test.joules/u.Seconds, u.Watts(), 1e-6)
				near(t, test.utilisation, u.Utilisation, 1e-9)
			})
		})
	}
}

// near checks a figure that isn't known if want is negative.
func near(t *testing.T, want, have, delta float64) {
	t.Helper()
	if want < 0 {
		assert.True(t, have != have, "%v is to be NaN", have)
		return
	}
	assert.InDelta(t, want, have, delta)
}

func TestUsageAdds(t *testing.T) {
	var u Usage
	u.Add(Usage{})
	assert.Equal(t, Usage{}, u)
	u.Add(Usage{Seconds: 1, Joules: 100, Utilisation: 0.4})
	u.Add(Usage{Seconds: 3, Joules: 500, Utilisation: 0.8})
	assert.InDelta(t, 4, u.Seconds, 1e-12)
	assert.InDelta(t, 600, u.Joules, 1e-12)
	assert.InDelta(t, 0.7, u.Utilisation, 1e-12)
	assert.InDelta(t, 150, u.Watts(), 1e-12)
}
