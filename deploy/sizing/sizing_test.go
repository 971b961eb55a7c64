package sizing

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func site(rate float64, sequencers map[string]int) Site {
	s := Usual()
	s.Sequencers, s.ProcessorRate = sequencers, rate
	return s
}

// Worked out by hand.
func TestSizeOfAMinION(t *testing.T) {
	s := site(1e6, map[string]int{"minion": 1})
	p, err := Size(s, Figures())
	require.NoError(t, err)
	assert.Equal(t, 512, p.Channels)
	assert.InDelta(t, 2.56e6, p.Peak, 1)
	assert.InDelta(t, 2.56e6*0.88, p.Signal, 1)
	assert.InDelta(t, 2.56e6/12.5*2.23, p.Reads, 1)
	assert.InDelta(t, 3*(2.56e6*0.88+2.56e6/12.5*2.23), p.Write, 1)
	assert.InDelta(t, p.Write*0.6*7*86400, p.Disk, 1)
	assert.Equal(t, 3, p.Brokers)
	assert.Equal(t, "replication", p.BrokersBy)
	assert.Equal(t, 5, p.Processors, "2.56 / 0.7 is 3.7, so 4 and one to spare")
	assert.Equal(t, 24, p.Partitions, "four for each, in dozens")
	assert.InDelta(t, 2.56e6*0.88*3600, p.Spool, 1)
	assert.InDelta(t, 3.05e9*0.99, p.State, 1)
	assert.InDelta(t, 8*(1<<30)+3.05e9*0.99/4, p.ProcessorMemory, 1)
}

func TestSizeRefuses(t *testing.T) {
	minion := map[string]int{"minion": 1}
	for name, change := range map[string]func(*Site){
		"has no sequencer":     func(s *Site) { s.Sequencers = nil },
		"unknown sequencer":    func(s *Site) { s.Sequencers = map[string]int{"nanoball": 1} },
		"negative number":      func(s *Site) { s.Sequencers = map[string]int{"minion": -1} },
		"no rate":              func(s *Site) { s.ProcessorRate = 0 },
		"rate that is none":    func(s *Site) { s.ProcessorRate = math.NaN() },
		"occupancy above 1":    func(s *Site) { s.Occupancy = 1.1 },
		"load of 0":            func(s *Site) { s.Load = 0 },
		"no replica":           func(s *Site) { s.Replication = 0 },
		"no retention":         func(s *Site) { s.Retention = 0 },
		"negative spare":       func(s *Site) { s.Spare = -1 },
		"broker without disk":  func(s *Site) { s.BrokerDisk = 0 },
		"reference of no base": func(s *Site) { s.Genome = 0 },
	} {
		s := site(1e6, minion)
		change(&s)
		_, err := Size(s, Figures())
		assert.Error(t, err, name)
	}
}

// More sequencers, or slower processors, never need less of anything; and what is
// planned carries the peak.
func TestSizeGrows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		s := site(math.Pow(10, 5+3*r.Float64()), map[string]int{"minion": r.IntN(5), "gridion": r.IntN(3), "p24": r.IntN(3), "flongle": 1})
		s.Spare, s.Replication = r.IntN(3), 1+r.IntN(3)
		a, err := Size(s, Figures())
		require.NoError(t, err)
		assert.GreaterOrEqual(t, float64(a.Processors-s.Spare)*s.ProcessorRate*s.Load, a.Peak*(1-1e-6))
		assert.GreaterOrEqual(t, a.Partitions, a.Processors)
		assert.GreaterOrEqual(t, float64(a.Brokers)*s.BrokerDisk*diskShare, a.Disk*(1-1e-6))
		assert.GreaterOrEqual(t, float64(a.Brokers)*s.BrokerNetwork*networkShare, a.Write*(1-1e-6))
		assert.GreaterOrEqual(t, a.Brokers, s.Replication)
		more := s
		more.Sequencers = map[string]int{"p2": 1}
		for k, v := range s.Sequencers {
			more.Sequencers[k] += v
		}
		more.ProcessorRate /= 1 + r.Float64()
		b, err := Size(more, Figures())
		require.NoError(t, err)
		for _, pair := range [][2]float64{
			{a.Disk, b.Disk}, {a.Write, b.Write}, {a.Spool, b.Spool}, {a.State, b.State}, {a.IngestCores, b.IngestCores},
			{float64(a.Processors), float64(b.Processors)}, {float64(a.Partitions), float64(b.Partitions)}, {float64(a.Brokers), float64(b.Brokers)},
		} {
			assert.LessOrEqual(t, pair[0], pair[1])
		}
	}
}

// steady is a flow of ten flow cells whose channels all sequence for the whole time.
func steady(processors int, share float64) Flow {
	var cells []Cell
	for i := range 10 {
		cells = append(cells, Cell{Run: string(rune('a' + i)), Channels: 512, Length: time.Hour, Left: 1})
	}
	offered := 10 * 512 * float64(SampleRate)
	return Flow{
		Cells: cells, Partitions: 24, Processors: processors, Rate: offered / share / float64(processors),
		Pause: 5 * time.Second, Unnoticed: 30 * time.Second, Length: time.Hour,
	}
}

func TestFlowThatIsCarried(t *testing.T) {
	out := Simulate(steady(4, 0.7))
	assert.InDelta(t, 10*512*SampleRate*3600, out.Offered, 1)
	assert.InDelta(t, out.Offered, out.Done, out.Offered*1e-9)
	assert.Zero(t, out.WorstLag)
	assert.InDelta(t, 1, out.Within, 1e-9)
	assert.InDelta(t, 4, out.ProcessorHours, 1e-6)
	assert.Greater(t, out.Uneven, 1.0, "keys are hashed, so no two partitions are alike")
	assert.Equal(t, out, Simulate(steady(4, 0.7)), "the same flow has the same outcome")
}

// With a fifth too little, a fifth of the signal waits at the end, the longest in the fullest
// partition, which gets no more than the others.
func TestFlowThatIsTooMuch(t *testing.T) {
	out := Simulate(steady(1, 1.25))
	assert.InDelta(t, 0.8, out.Done/out.Offered, 0.001)
	assert.InDelta(t, 3600*(1-0.8/out.Uneven), out.LastLag.Seconds(), 30)
}

// What waits while the group stands still is worked off with what processors have left:
// 35 s at a load of 0.7 take 35 × 0.7/0.3 more seconds with all processors there.
func TestFlowWithAProcessorKilled(t *testing.T) {
	f := steady(4, 0.5)
	f.Faults = []Fault{{At: 10 * time.Minute, For: 5 * time.Minute, Killed: 1}}
	out := Simulate(f)
	assert.InDelta(t, out.Offered, out.Done, out.Offered*1e-9)
	assert.InDelta(t, 35, out.WorstLag.Seconds(), 2)
	assert.Zero(t, out.LastLag)
	f.Unnoticed = 0
	assert.Less(t, Simulate(f).WorstLag, out.WorstLag)
}

func TestFlowWithoutKafka(t *testing.T) {
	f := steady(4, 0.5)
	f.Faults = []Fault{{At: 10 * time.Minute, For: 10 * time.Minute, Kafka: true}}
	out := Simulate(f)
	assert.InDelta(t, out.Offered, out.Done, out.Offered*1e-9)
	assert.InDelta(t, 600*10*512*SampleRate, out.Spool, 1)
	assert.Zero(t, out.LastLag)
}

// Nothing is made and nothing lost, whatever happens.
func TestFlowKeepsSamples(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		f := steady(1+r.IntN(6), 0.4+r.Float64()*0.8)
		f.Length = 20 * time.Minute
		f.Faults = []Fault{
			{At: time.Duration(r.IntN(600)) * time.Second, For: time.Duration(r.IntN(300)) * time.Second, Killed: 1},
			{At: time.Duration(r.IntN(600)) * time.Second, For: time.Duration(r.IntN(300)) * time.Second, Kafka: true},
		}
		if r.IntN(2) == 0 {
			s := Manifest(1, 24, f.Rate*0.7)
			f.Scaler = &s
		}
		out := Simulate(f)
		assert.LessOrEqual(t, out.Done, out.Offered*(1+1e-9))
		if out.LastLag == 0 {
			assert.InDelta(t, out.Offered, out.Done, out.Offered*1e-6)
		}
		assert.GreaterOrEqual(t, out.Within, 0.0)
		assert.LessOrEqual(t, out.Within, 1+1e-9)
	}
}

// The simulated scaler is the one that is deployed.
func TestScalerIsThatOfTheManifest(t *testing.T) {
	data, err := os.ReadFile("../kubernetes/components/autoscaling/scaledobject.yaml")
	require.NoError(t, err)
	var object struct {
		Spec struct {
			Advanced struct {
				HPA struct {
					Behavior map[string]struct {
						Window   int `yaml:"stabilizationWindowSeconds"`
						Policies []struct {
							Type          string
							Value, Period int
							PeriodSeconds int `yaml:"periodSeconds"`
						}
					}
				} `yaml:"horizontalPodAutoscalerConfig"`
			}
			Triggers []struct {
				Name, MetricType string
				Metadata         struct{ Query, Threshold string }
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(data, &object))
	up, down := object.Spec.Advanced.HPA.Behavior["scaleUp"], object.Spec.Advanced.HPA.Behavior["scaleDown"]
	want := Manifest(1, 2, 3)
	assert.Equal(t, want.Up, time.Duration(up.Window)*time.Second)
	assert.Equal(t, want.Down, time.Duration(down.Window)*time.Second)
	require.Len(t, up.Policies, 2)
	assert.Equal(t, 100, up.Policies[0].Value)
	assert.Equal(t, 2, up.Policies[1].Value)
	assert.Equal(t, want.UpEvery, time.Duration(up.Policies[0].PeriodSeconds)*time.Second)
	require.Len(t, down.Policies, 1)
	assert.Equal(t, 1, down.Policies[0].Value)
	assert.Equal(t, want.DownEvery, time.Duration(down.Policies[0].PeriodSeconds)*time.Second)
	require.Len(t, object.Spec.Triggers, 2)
	assert.Contains(t, object.Spec.Triggers[0].Metadata.Query, "[10m]")
	assert.Equal(t, "60", object.Spec.Triggers[1].Metadata.Threshold)
	assert.Contains(t, object.Spec.Triggers[1].Metadata.Query, "600")
}

// A P48's day by the deployed scaler keeps up and stands still only a few times; by lag
// alone, with short windows, it flutters.
func TestScalingDoesNotFlutter(t *testing.T) {
	deployed, byLag := Simulate(day(&deployedScaler)), Simulate(day(&lagScaler))
	assert.Less(t, deployed.Scaled, byLag.Scaled/3)
	assert.Less(t, deployed.WorstLag, 10*time.Minute)
	assert.Less(t, deployed.WorstLag, byLag.WorstLag)
	assert.InDelta(t, deployed.Offered, deployed.Done, deployed.Offered*1e-3)
	constant := Simulate(day(nil))
	assert.Less(t, deployed.ProcessorHours, constant.ProcessorHours)
}
