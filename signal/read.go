package signal

import (
	"math"
	"time"
)

// Run describes one acquisition: the current of one flow cell from one start of
// the sequencer to the next stop. Text that a format doesn't carry is empty.
type Run struct {
	// ID is the acquisition id (POD5 acquisition_id, FAST5 and BLOW5 run_id). A BLOW5 read
	// group without one is known by its file's name and its number.
	ID string
	// SampleRate is the number of samples that each channel records a second.
	SampleRate int
	// StartTime is the instant of sample 0 of every channel, in UTC; the zero
	// time when the file doesn't state it.
	StartTime time.Time

	SampleID          string
	ExperimentID      string // POD5 experiment_name, FAST5 and BLOW5 experiment id
	ProtocolName      string
	ProtocolRunID     string
	FlowCellID        string
	FlowCellProduct   string // for example FLO-MIN106
	Kit               string // for example SQK-LSK114; writers differ in case
	SequencerPosition string // for example MN17279, X1 or 1A
	SequencerType     string // for example minion, GridION or PromethION
	Device            string // serial number or name of the host that ran the sequencer
	Software          string // acquisition software and its version

	// ADCMin and ADCMax bound the levels of the converter; both are zero when
	// the format doesn't state them (BLOW5, FAST5).
	ADCMin, ADCMax int

	// Context and Tracking are the recorder's own key-value notes, as written:
	// FAST5's context_tags and tracking_id groups. BLOW5 keeps one list, which
	// is in Tracking.
	Context, Tracking map[string]string
}

// Calibration turns ADC levels into current: pA = (level + Offset) * Scale.
type Calibration struct {
	Offset float32 // ADC levels
	Scale  float32 // picoamperes per level
}

// Picoamperes returns the current that an ADC level stands for.
func (c Calibration) Picoamperes(level int16) float32 {
	return (float32(level) + c.Offset) * c.Scale
}

// Read is the current of one molecule (or what the sequencer took for one).
type Read struct {
	ID  string // UUID in its usual lower-case text form; BLOW5 allows other names
	Run *Run

	Channel  uint32 // from 1; 0 when the file doesn't state it
	Well     uint8  // multiplexer position within the channel, from 1; 0 likewise
	PoreType string // empty or "not_set" when unknown
	Number   uint32 // counts the reads of a channel

	StartSample uint64 // samples after Run.StartTime; 0 when the file doesn't state it
	NumSamples  int

	// MedianBefore is the current in picoamperes just before the read; NaN when
	// the file doesn't state it.
	MedianBefore float32
	// OpenPoreLevel is the open-pore current in picoamperes; NaN when the file
	// doesn't state it.
	OpenPoreLevel float32
	Calibration   Calibration

	EndReason       EndReason
	EndReasonForced bool   // the sequencer was instructed to end the read
	MinKNOWEvents   uint64 // events the acquisition software counted; 0 when unknown

	// Samples are the ADC levels, NumSamples of them, or nil where only
	// metadata was asked for.
	Samples []int16
}

// Start returns the instant at which the read began, by the recording's clock.
func (r *Read) Start() time.Time {
	return r.Run.StartTime.Add(samplesToDuration(r.StartSample, r.Run.SampleRate))
}

// Duration returns the time over which the read was recorded.
func (r *Read) Duration() time.Duration {
	return samplesToDuration(uint64(r.NumSamples), r.Run.SampleRate)
}

// samplesToDuration keeps nanoseconds exact: whole seconds first, so that n*1e9
// can't overflow. Beyond the 292 years of a Duration it saturates.
func samplesToDuration(n uint64, rate int) time.Duration {
	if rate <= 0 {
		return 0
	}
	hz := uint64(rate)
	if n/hz >= math.MaxInt64/uint64(time.Second) {
		return math.MaxInt64
	}
	return time.Duration(n/hz)*time.Second + time.Duration(n%hz*uint64(time.Second)/hz)
}
