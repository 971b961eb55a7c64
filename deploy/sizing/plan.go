// Package sizing says what a site needs: how much signal its sequencers give, and from
// that partitions, brokers, disks, processors and memory, each with its arithmetic; and
// simulates the flow through it, with the failures and the scaling that it has to stand.
//
// It is pure: rates in samples per second, sizes in bytes, no clock and no I/O. What was
// measured is in [Measured] with where it was measured; what is assumed of a site is in
// [Site].
package sizing

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Instrument is a kind of sequencer.
type Instrument struct {
	Name string
	// FlowCells at a time, and channels of each.
	FlowCells, Channels int
}

// Instruments lists what there is, by the manufacturer's data sheets; a full flow cell
// of a PromethION has 3,000 channels at MinKNOW's interface.
func Instruments() []Instrument {
	return []Instrument{
		{"flongle", 1, 126},
		{"minion", 1, 512},
		{"gridion", 5, 512},
		{"p2", 2, 3000},
		{"p24", 24, 3000},
		{"p48", 48, 3000},
	}
}

// SampleRate is that of a channel of R10.4.1 flow cells, in samples per second.
const SampleRate = 5000

// Measured are the quantities of Porestream itself that sizes follow from.
type Measured struct {
	// SignalBytes is what a sample takes in a record of the topic signal.
	SignalBytes float64
	// ReadBytes is what a base takes on the topic reads, before compression.
	ReadBytes float64
	// SamplesPerBase is how many samples a base takes, R10.4.1 at 5 kHz.
	SamplesPerBase float64
	// IngestCores is the CPU that ingest takes for a sample per second, and IngestMemory
	// what it takes for a flow cell, in bytes.
	IngestCores  float64
	IngestMemory float64
	// StateBytes is what the variant stage holds for a position of the genome at 30x.
	StateBytes float64
	// ProcessorMemory is that of a processor besides signal and state: model, reference
	// index of a human genome, buffers.
	ProcessorMemory float64
}

// Figures are the measured quantities, as docs/operate/sizing.md gives them with their sources.
func Figures() Measured {
	return Measured{
		SignalBytes:     0.88,
		ReadBytes:       2.23,
		SamplesPerBase:  12.5,
		IngestCores:     0.30 / 15e6,
		IngestMemory:    100 << 20,
		StateBytes:      0.99,
		ProcessorMemory: 8 << 30,
	}
}

// Site is what a place has and wants.
type Site struct {
	// Counts of instruments by name.
	Sequencers map[string]int
	// Occupancy is the mean share of channels that give signal over a run. Peaks are
	// counted with all of them.
	Occupancy float64
	// ProcessorRate is how many samples per second one processor basecalls, measured with
	// the model and on the device that will be used (pore bench basecall).
	ProcessorRate float64
	// Load is the share of ProcessorRate that is planned with.
	Load float64
	// Spare processors take the place of those that fail.
	Spare int
	// Retention of the topics of signal and reads.
	Retention time.Duration
	// Replication of all topics.
	Replication int
	// Outage of Kafka that ingest's spool has to bridge.
	Outage time.Duration
	// Genome is the size of the reference, in bases; each flow cell has a sample of its own.
	Genome float64
	// BrokerDisk and BrokerNetwork are what one broker has: usable bytes, and bytes per
	// second in one direction.
	BrokerDisk, BrokerNetwork float64
}

// Usual are the values that a site has where it says nothing else.
func Usual() Site {
	return Site{
		Occupancy: 0.6, Load: 0.7, Spare: 1, Retention: 7 * 24 * time.Hour, Replication: 3, Outage: time.Hour,
		Genome: 3.05e9, BrokerDisk: 30e12, BrokerNetwork: 25e9 / 8,
	}
}

// Share of a broker's disk and network that is planned with: the rest is for the
// others' part when one is away, and for consumers that catch up.
const (
	diskShare    = 0.7
	networkShare = 0.4
)

// leastPartitions is what topics are made with when nobody says a number; more are given in
// steps of it, so that processors share them out evenly.
const leastPartitions = 12

// Plan is what a site needs.
type Plan struct {
	FlowCells, Channels int
	// Peak and Mean samples per second.
	Peak, Mean float64
	// Signal and Reads are bytes per second at the peak.
	Signal, Reads float64
	// Write and Serve are what the brokers together take in, replicas included, and give
	// out to replicas and stages, at the peak, in bytes per second.
	Write, Serve float64
	// Disk is what the brokers together hold, replicas included, in bytes.
	Disk float64
	// Brokers, by which of disk, network and replication decides.
	Brokers   int
	BrokersBy string
	// Processors at the peak, with those to spare.
	Processors int
	Partitions int
	// IngestCores and IngestMemory of all ingest together.
	IngestCores, IngestMemory float64
	// Spool is the disk that ingest keeps signal on while Kafka is away, in bytes.
	Spool float64
	// State of the variant stage over all processors, and what of it and all else one
	// processor takes, in bytes.
	State, ProcessorMemory float64
}

// Size works out what a site needs.
func Size(s Site, m Measured) (Plan, error) {
	var p Plan
	known := make(map[string]Instrument)
	for _, i := range Instruments() {
		known[i.Name] = i
	}
	for name, n := range s.Sequencers {
		i, ok := known[name]
		if !ok {
			return Plan{}, fmt.Errorf("no sequencer is called %q", name)
		}
		if n < 0 {
			return Plan{}, fmt.Errorf("%d of %s: a number of sequencers is not negative", n, name)
		}
		p.FlowCells += n * i.FlowCells
		p.Channels += n * i.FlowCells * i.Channels
	}
	switch {
	case p.Channels == 0:
		return Plan{}, errors.New("there are no sequencers")
	case !(s.Occupancy > 0 && s.Occupancy <= 1), !(s.Load > 0 && s.Load <= 1):
		return Plan{}, fmt.Errorf("occupancy %v and load %v must be above 0 and at most 1", s.Occupancy, s.Load)
	case !(s.ProcessorRate > 0):
		return Plan{}, errors.New("the rate of a processor must be above 0: measure it with pore bench basecall")
	case s.Replication < 1, s.Spare < 0, s.Retention <= 0, s.Outage < 0, !(s.Genome > 0), !(s.BrokerDisk > 0), !(s.BrokerNetwork > 0):
		return Plan{}, errors.New("replication, retention, genome and a broker's disk and network must be above 0, spare processors and outage not below")
	}
	rf := float64(s.Replication)
	p.Peak = float64(p.Channels) * SampleRate
	p.Mean = p.Peak * s.Occupancy
	p.Signal = p.Peak * m.SignalBytes
	p.Reads = p.Peak / m.SamplesPerBase * m.ReadBytes
	p.Write = (p.Signal + p.Reads) * rf
	// Every record goes to each of the other replicas and to one stage.
	p.Serve = (p.Signal + p.Reads) * rf
	p.Disk = (p.Signal + p.Reads) * s.Occupancy * s.Retention.Seconds() * rf

	byDisk := ceil(p.Disk / (s.BrokerDisk * diskShare))
	byNetwork := ceil(math.Max(p.Write, p.Serve) / (s.BrokerNetwork * networkShare))
	p.Brokers, p.BrokersBy = s.Replication, "replication"
	if byNetwork > p.Brokers {
		p.Brokers, p.BrokersBy = byNetwork, "network"
	}
	if byDisk > p.Brokers {
		p.Brokers, p.BrokersBy = byDisk, "disk"
	}
	p.Processors = ceil(p.Peak/(s.ProcessorRate*s.Load)) + s.Spare
	// Four for each, so that no processor has much more than another.
	p.Partitions = leastPartitions * ceil(float64(4*p.Processors)/leastPartitions)
	p.IngestCores = p.Peak * m.IngestCores
	p.IngestMemory = float64(p.FlowCells) * m.IngestMemory
	p.Spool = p.Signal * s.Outage.Seconds()
	p.State = float64(p.FlowCells) * s.Genome * m.StateBytes
	// Without those to spare, the others hold their part.
	p.ProcessorMemory = m.ProcessorMemory + p.State/float64(p.Processors-s.Spare)
	return p, nil
}

func ceil(x float64) int { return int(math.Ceil(x - 1e-9)) }
