package fast5

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/porestream/porestream/signal/hdf5"
	"github.com/porestream/porestream/signal/internal/text"
)

// Read is a read without its samples.
type Read struct {
	ID  string // a UUID
	Run *Run

	Channel   uint32 // from 1
	Well      uint8  // start_mux, from 1
	PoreType  string // empty or "not_set" when unknown
	Number    uint32
	Start     uint64 // samples after the start of the acquisition
	Samples   int    // of the dataset Signal
	Duration  uint64 // samples, as the attribute has it
	EndReason string // as in the file; empty when not recorded

	Digitisation float64 // levels of the converter
	Offset       float64 // added to a level before scaling
	Range        float64 // picoamperes that Digitisation levels span
	SampleRate   float64 // Hz
	MedianBefore float64 // picoamperes; NaN when not recorded

	// Later holds what files since 2022 have beyond that, nil for others.
	Later *Later
	// At is where [Reader.SamplesAt] finds the samples.
	At uint64
}

// Later is what MinKNOW and converters from POD5 have added. Values that are not
// recorded are 0, or NaN.
type Later struct {
	MinKNOWEvents                  uint64
	TrackedShift, TrackedScale     float32
	PredictedShift, PredictedScale float32
	ReadsSinceMuxChange            uint32
	TimeSinceMuxChange             float32 // seconds
}

// setRaw takes the attributes of the group Raw.
func (rd *Read) setRaw(a []hdf5.Attribute) error {
	rd.ID = attribute(a, "read_id").String()
	if rd.ID == "" {
		return errors.New(`has no attribute "read_id": files of before 2016 are not supported`)
	}
	for name, s := range map[string]string{"read_id": rd.ID, "pore_type": rd.PoreType} {
		if err := text.Check(s); err != nil {
			return fmt.Errorf("attribute %q %w (%q)", name, err, text.Clip(s))
		}
	}
	var ok bool
	if rd.Start, ok = attribute(a, "start_time").Uint(); !ok {
		return errors.New(`attribute "start_time" is missing or no number`)
	}
	rd.Duration, _ = attribute(a, "duration").Uint()
	if n, ok := attribute(a, "read_number").Uint(); ok && n <= math.MaxUint32 {
		rd.Number = uint32(n)
	}
	if n, ok := attribute(a, "start_mux").Uint(); ok && n <= math.MaxUint8 {
		rd.Well = uint8(n)
	}
	rd.MedianBefore = math.NaN()
	if x, ok := attribute(a, "median_before").Float(); ok {
		rd.MedianBefore = x
	}
	rd.EndReason = endReason(attribute(a, "end_reason"))
	if err := text.Check(rd.EndReason); err != nil {
		return fmt.Errorf("attribute %q %w", "end_reason", err)
	}
	if attribute(a, "num_minknow_events").Present() || attribute(a, "time_since_mux_change").Present() {
		rd.Later = later(a)
	}
	return nil
}

func later(a []hdf5.Attribute) *Later {
	number := func(name string) float32 {
		if x, ok := attribute(a, name).Float(); ok {
			return float32(x)
		}
		return float32(math.NaN())
	}
	l := &Later{
		TrackedShift: number("tracked_scaling_shift"), TrackedScale: number("tracked_scaling_scale"),
		PredictedShift: number("predicted_scaling_shift"), PredictedScale: number("predicted_scaling_scale"),
		TimeSinceMuxChange: number("time_since_mux_change"),
	}
	l.MinKNOWEvents, _ = attribute(a, "num_minknow_events").Uint()
	if n, ok := attribute(a, "num_reads_since_mux_change").Uint(); ok && n <= math.MaxUint32 {
		l.ReadsSinceMuxChange = uint32(n)
	}
	return l
}

// endReasons are what the numbers of end reasons mean where the type of the
// attribute doesn't name them.
var endReasons = [...]string{
	"unknown", "partial", "mux_change", "unblock_mux_change", "data_service_unblock_mux_change", "signal_positive", "signal_negative",
	"api_request", "device_data_error", "analysis_config_change", "paused",
}

func endReason(v hdf5.Value) string {
	if name, ok := v.Text(); ok {
		return name
	}
	if n, ok := v.Uint(); ok && n < uint64(len(endReasons)) {
		return endReasons[n]
	}
	return ""
}

// setChannel takes the attributes of the group channel_id.
func (rd *Read) setChannel(a []hdf5.Attribute) error {
	for _, f := range []struct {
		name     string
		to       *float64
		positive bool
	}{
		{"digitisation", &rd.Digitisation, true},
		{"offset", &rd.Offset, false},
		{"range", &rd.Range, false},
		{"sampling_rate", &rd.SampleRate, true},
	} {
		x, ok := attribute(a, f.name).Float()
		switch {
		case !ok:
			return fmt.Errorf("channel_id: attribute %q is missing or no number", f.name)
		case math.IsNaN(x) || math.IsInf(x, 0) || f.positive && x <= 0:
			return fmt.Errorf("channel_id: attribute %q is %v", f.name, x)
		}
		*f.to = x
	}
	v := attribute(a, "channel_number")
	n, ok := v.Uint()
	if s, isText := v.Text(); isText {
		var err error
		n, err = strconv.ParseUint(s, 10, 32)
		ok = err == nil
	}
	if !ok || n > math.MaxUint32 {
		return fmt.Errorf("channel_id: attribute %q is %q, not a number", "channel_number", text.Clip(v.String()))
	}
	rd.Channel = uint32(n)
	return nil
}
