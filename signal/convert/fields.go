package convert

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/signal/blow5"
	"github.com/porestream/porestream/signal/pod5"
)

// auxField is a field of a read that BLOW5 keeps as an auxiliary one. put gives its
// value for a POD5 read, and get takes it from a record to a POD5 read; it reports
// whether POD5 holds the value exactly.
type auxField struct {
	name, typ string
	put       func(f *blow5.Field, r *pod5.Read) (blow5.Value, error)
	get       func(v blow5.Value, r *pod5.Read) (exact bool)
}

// endReasons is the type of the field end_reason, labels in the order of slow5lib.
func endReasons(labels []string) string {
	list := ""
	for i, l := range labels {
		if i > 0 {
			list += ","
		}
		list += l
	}
	return "enum{" + list + "}"
}

// standardReasons are the labels that slow5lib writes.
var standardReasons = []string{
	"unknown", "mux_change", "unblock_mux_change", "data_service_unblock_mux_change", "signal_positive", "signal_negative",
	"api_request", "device_data_error", "analysis_config_change", "paused",
}

// auxFields are the auxiliary fields of slow5lib for what POD5 has, with its types,
// and two more for what it leaves out.
var auxFields = []auxField{
	{
		"channel_number", "char*",
		func(f *blow5.Field, r *pod5.Read) (blow5.Value, error) {
			return f.Text(strconv.FormatUint(uint64(r.Channel), 10))
		},
		func(v blow5.Value, r *pod5.Read) bool { return true }, // channelOf reads it
	},
	{
		"median_before", "double",
		func(f *blow5.Field, r *pod5.Read) (blow5.Value, error) { return f.Float(float64(r.MedianBefore)) },
		func(v blow5.Value, r *pod5.Read) bool { return getFloat(v, &r.MedianBefore) },
	},
	uintField("read_number", "int32_t", math.MaxUint32, func(r *pod5.Read) uint64 { return uint64(r.Number) }, func(r *pod5.Read, u uint64) { r.Number = uint32(u) }),
	uintField("start_mux", "uint8_t", math.MaxUint8, func(r *pod5.Read) uint64 { return uint64(r.Well) }, func(r *pod5.Read, u uint64) { r.Well = uint8(u) }),
	uintField("start_time", "uint64_t", math.MaxUint64, func(r *pod5.Read) uint64 { return r.Start }, func(r *pod5.Read, u uint64) { r.Start = u }),
	{
		"end_reason", "", // its type depends on the labels
		func(f *blow5.Field, r *pod5.Read) (blow5.Value, error) { return f.Text(endReason(r)) },
		func(v blow5.Value, r *pod5.Read) bool {
			r.EndReason = "unknown"
			if name, ok := v.Text(); ok {
				r.EndReason = name
			}
			known, _ := signal.ParseEndReason(r.EndReason)
			r.EndReasonForced = known.Forced()
			return true
		},
	},
	floatField("tracked_scaling_shift", func(r *pod5.Read) *float32 { return &r.TrackedScaling.Shift }),
	floatField("tracked_scaling_scale", func(r *pod5.Read) *float32 { return &r.TrackedScaling.Scale }),
	floatField("predicted_scaling_shift", func(r *pod5.Read) *float32 { return &r.PredictedScaling.Shift }),
	floatField("predicted_scaling_scale", func(r *pod5.Read) *float32 { return &r.PredictedScaling.Scale }),
	uintField("num_reads_since_mux_change", "uint32_t", math.MaxUint32, func(r *pod5.Read) uint64 { return uint64(r.ReadsSinceMuxChange) }, func(r *pod5.Read, u uint64) { r.ReadsSinceMuxChange = uint32(u) }),
	floatField("time_since_mux_change", func(r *pod5.Read) *float32 { return &r.TimeSinceMuxChange }),
	uintField("num_minknow_events", "uint64_t", math.MaxUint64, func(r *pod5.Read) uint64 { return r.MinKNOWEvents }, func(r *pod5.Read, u uint64) { r.MinKNOWEvents = u }),
	floatField("open_pore_level", func(r *pod5.Read) *float32 { return &r.OpenPoreLevel }),
	floatField("expected_open_pore_level", func(r *pod5.Read) *float32 { return &r.ExpectedOpenPoreLevel }),
	floatField("selected_read_level", func(r *pod5.Read) *float32 { return &r.SelectedReadLevel }),
	// Not of slow5lib. The second is read behind end_reason, which it corrects.
	{
		"pore_type", "char*",
		func(f *blow5.Field, r *pod5.Read) (blow5.Value, error) { return f.Text(r.PoreType) },
		func(v blow5.Value, r *pod5.Read) bool { r.PoreType, _ = v.Text(); return true },
	},
	{
		"end_reason_forced", "uint8_t",
		func(f *blow5.Field, r *pod5.Read) (blow5.Value, error) {
			if r.EndReasonForced {
				return f.Uint(1)
			}
			return f.Uint(0)
		},
		func(v blow5.Value, r *pod5.Read) bool {
			if u, ok := v.Uint(); ok {
				r.EndReasonForced = u > 0
			}
			return true
		},
	},
}

func uintField(name, typ string, most uint64, from func(*pod5.Read) uint64, to func(*pod5.Read, uint64)) auxField {
	return auxField{
		name, typ,
		func(f *blow5.Field, r *pod5.Read) (blow5.Value, error) { return f.Uint(from(r)) },
		func(v blow5.Value, r *pod5.Read) bool {
			u, ok := v.Uint()
			if ok && u <= most {
				to(r, u)
				return true
			}
			return !v.Present()
		},
	}
}

func floatField(name string, at func(*pod5.Read) *float32) auxField {
	return auxField{
		name, "float",
		func(f *blow5.Field, r *pod5.Read) (blow5.Value, error) { return f.Float(float64(*at(r))) },
		func(v blow5.Value, r *pod5.Read) bool { return getFloat(v, at(r)) },
	}
}

func getFloat(v blow5.Value, to *float32) bool {
	*to = float32(math.NaN())
	f, ok := v.Float()
	if ok {
		*to = float32(f)
		return float64(*to) == f
	}
	return !v.Present()
}

// endReason is a read's end reason; one that isn't recorded is unknown.
func endReason(r *pod5.Read) string {
	if r.EndReason == "" {
		return "unknown"
	}
	return r.EndReason
}

// auxFieldAt finds a field by name; it is negative for one that POD5 has no place
// for.
func auxFieldAt(name string) int {
	return slices.IndexFunc(auxFields, func(f auxField) bool { return f.name == name })
}

// channelOf reads a channel, which BLOW5 keeps as text.
func channelOf(rec *blow5.Record) (uint32, error) {
	v := rec.Aux("channel_number")
	if s, ok := v.Text(); ok {
		n, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			return 0, fmt.Errorf("field %q is %q, not a number", "channel_number", s)
		}
		return uint32(n), nil
	}
	if n, ok := v.Uint(); ok && n <= math.MaxUint32 {
		return uint32(n), nil
	}
	return 0, nil
}
