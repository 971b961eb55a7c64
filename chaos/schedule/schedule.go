// Package schedule draws what a chaos run is made of from its seed: the shape of the cluster and the faults with their times. The same
// seed gives the same schedule, whatever becomes of it.
package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Kind is a kind of fault.
type Kind string

// The kinds of faults. What they do is said in docs/develop/chaos.md.
const (
	KillIngest      Kind = "kill-ingest"
	KillProcessor   Kind = "kill-processor"
	KillBroker      Kind = "kill-broker"
	PauseIngest     Kind = "pause-ingest"
	PauseProcessor  Kind = "pause-processor"
	OutlastSession  Kind = "pause-processor-beyond-session"
	PauseBroker     Kind = "pause-broker"
	Join            Kind = "processor-joins"
	Leave           Kind = "processor-leaves"
	SlowBroker      Kind = "slow-broker"
	CutBroker       Kind = "cut-broker"
	CutAllBrokers   Kind = "cut-all-brokers"
	SpoolFull       Kind = "spool-disk-full"
	StealPartition  Kind = "steal-transactional-id-of-partition"
	StealIngest     Kind = "steal-transactional-id-of-ingest"
	DeviceFails     Kind = "device-fails"
	DeviceHangs     Kind = "device-hangs"
	KillAll         Kind = "kill-everything-of-ours"
	KillDuringDrain Kind = "kill-processor-during-drain"
)

// Kinds returns every kind.
func Kinds() []Kind {
	return []Kind{
		KillIngest, KillProcessor, KillBroker, PauseIngest, PauseProcessor, OutlastSession, PauseBroker, Join, Leave, SlowBroker, CutBroker,
		CutAllBrokers, SpoolFull, StealPartition, StealIngest, DeviceFails, DeviceHangs, KillAll, KillDuringDrain,
	}
}

// Fault is one fault of a schedule.
type Fault struct {
	// Number counts from 1.
	Number int
	Kind   Kind
	// At is when it begins, counted from when the signal begins to flow, and For how long it lasts.
	At, For time.Duration
	// Target chooses among those it can be done to, modulo their number.
	Target int
}

func (f Fault) String() string {
	return fmt.Sprintf("%3d  %7.1fs  for %5.1fs  %s #%d", f.Number, f.At.Seconds(), f.For.Seconds(), f.Kind, f.Target)
}

// Shape is what a run is made of, besides its faults.
type Shape struct {
	// Partitions of the topics that carry data.
	Signal, Reads, Calls, Variants, Methylation int
	Processors                                  int
	// Runs is how many sequencing runs are ingested at the same time, and Samples how many samples these are of.
	Runs, Samples int
}

func (s Shape) String() string {
	return fmt.Sprintf("partitions: signal %d, reads %d, calls %d, variants %d, methylation %d; %d processors; %d runs of %d samples",
		s.Signal, s.Reads, s.Calls, s.Variants, s.Methylation, s.Processors, s.Runs, s.Samples)
}

// Plan says what to draw.
type Plan struct {
	Seed uint64
	// Length is how long faults are injected.
	Length time.Duration
	// Kinds are the faults to choose from; none means that there are no faults.
	Kinds []Kind
	// Session is the session timeout of consumer groups, which some faults outlast.
	Session time.Duration
	// MaxProcessors bounds those of the shape.
	MaxProcessors int
}

// Schedule is what was drawn.
type Schedule struct {
	Shape  Shape
	Faults []Fault
}

// settle is how long a run is left alone at first.
const settle = 8 * time.Second

// Draw makes the schedule of a plan.
func Draw(p Plan) Schedule {
	r := rand.New(rand.NewPCG(p.Seed, 0x706f7265)) // the second word keeps our sequence apart from others with the seed
	between := func(low, high int) int { return low + r.IntN(high-low+1) }
	s := Schedule{Shape: Shape{
		Signal: between(1, 8), Reads: between(1, 8), Calls: between(1, 8), Variants: between(1, 8),
		Processors: between(1, max(1, p.MaxProcessors)), Runs: between(1, 3),
	}}
	s.Shape.Samples = between(1, s.Shape.Runs)
	// From a sequence of its own, so that the others stay as they were.
	s.Shape.Methylation = 1 + rand.New(rand.NewPCG(p.Seed, 0x6d65746879)).IntN(8)
	if len(p.Kinds) == 0 {
		return s
	}
	seconds := func(low, high float64) time.Duration {
		return time.Duration((low + r.Float64()*(high-low)) * float64(time.Second)).Round(100 * time.Millisecond)
	}
	var deck []Kind
	for at := settle; ; {
		// Kinds come in rotation, each once before any comes again.
		if len(deck) == 0 {
			deck = slices.Clone(p.Kinds)
			r.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		f := Fault{Number: len(s.Faults) + 1, Kind: deck[0], At: at, Target: r.IntN(1 << 10)}
		deck = deck[1:]
		f.For = f.Kind.lasts(seconds, p.Session)
		if f.At+f.For > p.Length {
			return s
		}
		s.Faults = append(s.Faults, f)
		if r.IntN(4) == 0 {
			at += f.For / 3 // two at once
		} else {
			at += f.For + seconds(2, 7)
		}
	}
}

// lasts draws how long a fault lasts.
func (k Kind) lasts(seconds func(low, high float64) time.Duration, session time.Duration) time.Duration {
	switch k {
	case StealPartition, StealIngest:
		return seconds(0.1, 1)
	case OutlastSession:
		return session + seconds(1, 6)
	case SlowBroker:
		// Each way takes longer than the session, so what comes through at all comes too late.
		return session + seconds(2, 8)
	case Join, Leave:
		return seconds(5, 15)
	case SpoolFull, CutAllBrokers:
		return seconds(8, 15)
	case DeviceFails, DeviceHangs:
		return seconds(6, 12)
	case PauseBroker, CutBroker:
		return seconds(2, 12)
	default:
		return seconds(1, 6)
	}
}

// NeedsCluster reports whether a fault needs more than one broker, or one that can be reached through a network that can be made worse.
func (k Kind) NeedsCluster() bool {
	return slices.Contains([]Kind{KillBroker, PauseBroker, SlowBroker, CutBroker, CutAllBrokers}, k)
}
