package gpu

import (
	"errors"
	"math"
	"time"
)

// ErrUnsupported says that a GPU or its driver has no such counter.
var ErrUnsupported = errors.New("the GPU has no such counter")

// Counters are those of one GPU. They are safe for concurrent use.
type Counters interface {
	// Energy returns the joules taken since some moment in the past.
	Energy() (float64, error)
	// Power returns the watts that are drawn now.
	Power() (float64, error)
	// Utilisation returns the share of a time just past, up to a second, in which the
	// GPU computed anything, 0 to 1.
	Utilisation() (float64, error)
}

// Usage is what GPUs did in some time. What isn't known is NaN.
type Usage struct {
	Seconds     float64
	Joules      float64 // of all GPUs
	Utilisation float64 // mean of the GPUs over time, 0 to 1
}

// Watts returns the mean power.
func (u Usage) Watts() float64 { return u.Joules / u.Seconds }

// Add adds what was done in another stretch of time.
func (u *Usage) Add(other Usage) {
	sum := u.Seconds + other.Seconds
	if sum <= 0 {
		return
	}
	if u.Seconds == 0 {
		*u = other
		return
	}
	u.Utilisation = (u.Utilisation*u.Seconds + other.Utilisation*other.Seconds) / sum
	u.Joules += other.Joules
	u.Seconds = sum
}

const (
	// sampling is how often power and utilisation are read. Drivers update them every
	// 20 to 170 ms.
	sampling = 50 * time.Millisecond
	// settling is how long the utilisation that is read may still be that of what was
	// before: drivers report it for periods of up to a second.
	settling = time.Second
)

// Measure runs do and returns what the GPUs did meanwhile, with do's error. The energy
// is the difference of the counters; of a GPU without one, and of one whose driver
// was loaded anew meanwhile, it is the power over time.
func Measure(gpus []Counters, do func() error) (Usage, error) {
	m := make([]*measurement, len(gpus))
	begin := time.Now()
	for i, g := range gpus {
		m[i] = newMeasurement(g)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(sampling)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				for _, one := range m {
					one.sample(time.Since(begin))
				}
			case <-stop:
				return
			}
		}
	}()
	err := do()
	took := time.Since(begin)
	close(stop)
	<-stopped
	u := Usage{Seconds: took.Seconds(), Joules: math.NaN(), Utilisation: math.NaN()}
	if len(m) > 0 {
		u.Joules, u.Utilisation = 0, 0
	}
	for _, one := range m {
		u.Joules += one.joules(took)
		u.Utilisation += one.utilisation(took) / float64(len(m))
	}
	return u, err
}

// measurement is what is read of one GPU.
type measurement struct {
	gpu    Counters
	energy float64 // at the beginning; NaN: not known
	power  []reading
	busy   []reading
}

type reading struct {
	at    time.Duration // since the beginning
	value float64
}

func newMeasurement(g Counters) *measurement {
	m := &measurement{gpu: g, energy: math.NaN()}
	if energy, err := g.Energy(); err == nil {
		m.energy = energy
	}
	m.sample(0)
	return m
}

// sample reads power and utilisation. What can't be read is left out.
func (m *measurement) sample(at time.Duration) {
	if watts, err := m.gpu.Power(); err == nil {
		m.power = append(m.power, reading{at, watts})
	}
	if share, err := m.gpu.Utilisation(); err == nil {
		m.busy = append(m.busy, reading{at, share})
	}
}

// joules returns the energy taken until end.
func (m *measurement) joules(end time.Duration) float64 {
	if energy, err := m.gpu.Energy(); err == nil && energy >= m.energy {
		return energy - m.energy
	}
	if watts, err := m.gpu.Power(); err == nil {
		m.power = append(m.power, reading{end, watts})
	}
	if len(m.power) < 2 {
		return math.NaN()
	}
	sum := 0.0
	for i, r := range m.power[1:] {
		before := m.power[i]
		sum += (r.at - before.at).Seconds() * (r.value + before.value) / 2
	}
	// Beginning and end are read, unless reading failed there.
	return sum * end.Seconds() / (m.power[len(m.power)-1].at - m.power[0].at).Seconds()
}

// utilisation returns the mean of what was read, in the settled part if there is
// enough of it.
func (m *measurement) utilisation(end time.Duration) float64 {
	sum, n := 0.0, 0.0
	for _, r := range m.busy {
		if end < 2*settling || r.at >= settling {
			sum += r.value
			n++
		}
	}
	return sum / n // NaN of none
}

// Description names GPUs and their driver; what isn't known is empty.
type Description struct {
	GPUs   []string `json:"gpus,omitempty"`   // for example "NVIDIA A100-SXM4-40GB"
	Driver string   `json:"driver,omitempty"` // version
	CUDA   string   `json:"cuda,omitempty"`   // newest version that the driver has
}
