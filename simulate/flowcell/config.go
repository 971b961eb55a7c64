package flowcell

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/porestream/porestream/simulate"
	"github.com/porestream/porestream/simulate/squiggle"
)

// Library is what molecules are drawn from; simulate.Library is one.
type Library interface {
	Draw(*rand.Rand) (simulate.Molecule, error)
	// Bases is how many bases molecules can be of, over all haplotypes.
	Bases() int
}

// Sample is one of those that are on the flow cell.
type Sample struct {
	Name    string
	Barcode string // for example barcode01; empty for none
	Library Library
	// Ploidy is the number of haplotypes in the library.
	Ploidy int
	// Share is its part of the molecules, relative to the others'.
	Share float64
	// Front and Rear are what preparation puts before and behind each molecule:
	// letters A, C, G and T in reading direction.
	Front, Rear string
}

// Config says what is sequenced, and on what.
type Config struct {
	Samples []Sample
	// Depth ends the run: no strand is captured any more once so many times the
	// samples' bases have passed, all samples together, by their shares.
	Depth float64
	// Duration ends the run if it comes first; 0 is without end.
	Duration time.Duration
	Seed     uint64
	// Settings are all other settings as text, which the run's identifier depends on
	// besides the seed.
	Settings string
	Start    time.Time // of sample 0
	Kit      string    // empty: one for ligation

	Channels int
	Wells    int // of each channel
	// Inactive is the share of wells that have no pore from the beginning.
	Inactive float64
	// Capture is the mean time until an open pore captures a strand.
	Capture time.Duration
	// PoreLife is the mean life of a pore, from the beginning of the run; 0 is without
	// end.
	PoreLife time.Duration
	// Scan is the time between scans of all wells, which end the reads under way; 0 is
	// never.
	Scan time.Duration
	// Blocks is how often strands stick for good, per 1,000 bases. Lost is the chance
	// that this costs the pore.
	Blocks, Lost float64
}

// MinION is a flow cell of 512 channels of four wells, in good condition.
func MinION() Config {
	return Config{
		Channels: 512, Wells: 4, Inactive: 0.25, Capture: 2 * time.Second, PoreLife: 30 * time.Hour,
		Scan: 90 * time.Minute, Blocks: 0.004, Lost: 0.02,
		Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

// What is the same for all flow cells.
const (
	poreLifeShape = 1.5             // of Weibull's distribution
	scanTime      = 2 * time.Minute // that a scan takes
	changeTime    = 5 * time.Second // until the next well of a channel is used
	unblockTime   = 2 * time.Second // from the reversed voltage to the open pore
	stuckMean     = 3 * time.Second // that a strand sticks until it is noticed
	minRecorded   = 100             // samples of a read; shorter ones are not kept
	maxChannels   = 1_000_000
	maxReads      = 200_000_000
)

// Validate says what is wrong with a configuration.
func (c *Config) Validate() error {
	switch {
	case len(c.Samples) == 0:
		return errors.New("no sample")
	case !(c.Depth > 0 && c.Depth <= 1e6):
		return fmt.Errorf("a depth of %g: want more than 0, up to 1,000,000", c.Depth)
	case c.Duration < 0 || c.PoreLife < 0 || c.Scan < 0:
		return errors.New("times are not negative")
	case c.Scan > 0 && c.Scan < 2*scanTime:
		return fmt.Errorf("a scan every %v: want %v at least, or 0 for none", c.Scan, 2*scanTime)
	case c.Channels < 1 || c.Channels > maxChannels:
		return fmt.Errorf("%d channels: want 1 to %d", c.Channels, maxChannels)
	case c.Wells < 1 || c.Wells > 255:
		return fmt.Errorf("%d wells: want 1 to 255", c.Wells)
	case !(c.Inactive >= 0 && c.Inactive < 1):
		return fmt.Errorf("a share of inactive wells of %g: want 0 to less than 1", c.Inactive)
	case c.Capture < time.Millisecond:
		return fmt.Errorf("a capture every %v: want a millisecond at least", c.Capture)
	case !(c.Blocks >= 0 && c.Blocks <= 100):
		return fmt.Errorf("%g blocks per 1,000 bases: want 0 to 100", c.Blocks)
	case !(c.Lost >= 0 && c.Lost <= 1):
		return fmt.Errorf("a chance of %g to lose a pore: want 0 to 1", c.Lost)
	}
	for _, s := range c.Samples {
		if !(s.Share > 0) || s.Ploidy < 1 || s.Library == nil {
			return fmt.Errorf("sample %s: a share of %g and a ploidy of %d: want more than 0", s.Name, s.Share, s.Ploidy)
		}
	}
	return nil
}

// device is how a chemistry's converter and names are.
type device struct {
	product, kit      string
	sequencer         string
	scale             float64 // picoamperes per level
	offset, offsetSD  float64 // levels, between channels
	offsetLeast       float64
	adcLeast, adcMost int16
}

// minIONChannels is how many channels a MinION's flow cell has; one with more is a
// PromethION's.
const minIONChannels = 512

// nominalSpeed is what recordings of R10.4.1 say the motor does, in bases a second; reads
// are slower.
const nominalSpeed = "400"

func deviceOf(m *squiggle.Model, channels int) device {
	d := device{product: "FLO-MIN114", kit: "SQK-LSK114", sequencer: "MinION", scale: 0.1755, offset: 12, offsetSD: 6, adcLeast: -4096, adcMost: 4095}
	switch {
	case m.Chemistry == "r9.4":
		d.product, d.kit = "FLO-MIN106", "SQK-LSK109"
	case channels > minIONChannels:
		// As PromethIONs record: 2,048 levels, whose range follows the sample rate.
		d.product, d.sequencer = "FLO-PRO114M", "PromethION"
		d.scale, d.offset, d.offsetSD, d.offsetLeast, d.adcLeast, d.adcMost = 0.1462, -265, 12, -350, 0, 2047
		if m.SampleRate >= 5000 {
			d.scale = 0.18707
		}
	}
	return d
}
