package convert

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/signal/blow5"
	"github.com/porestream/porestream/signal/fast5"
	"github.com/porestream/porestream/signal/internal/runinfo"
	"github.com/porestream/porestream/signal/internal/uuid"
	"github.com/porestream/porestream/signal/pod5"
)

// fast5Input reads a FAST5 file.
type fast5Input struct{ r *fast5.Reader }

func openFAST5(path string) (*fast5Input, error) {
	r, err := fast5.Open(path)
	if err != nil {
		return nil, err
	}
	return &fast5Input{r: r}, nil
}

func (in *fast5Input) scan(ctx context.Context, fn func(found) error) error {
	for i := range in.r.Len() {
		if i%256 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		rd, err := in.r.Read(i)
		if err != nil {
			return err
		}
		f := found{
			at: uint64(i), id: rd.ID, channel: rd.Channel, fast5: rd.Run, reason: rd.EndReason, rate: rd.SampleRate, levels: rd.Digitisation,
			has: fieldsOf(rd),
		}
		if err := fn(f); err != nil {
			return err
		}
	}
	return nil
}

func (in *fast5Input) close() error { return in.r.Close() }

func (in *fast5Input) read(at uint64, buf []int16, fn func([]int16, adder) error) error {
	rd, err := in.r.Read(int(at))
	if err != nil {
		return err
	}
	if buf, err = in.r.Samples(rd, buf); err != nil {
		return fmt.Errorf("read %s: %w", rd.ID, err)
	}
	return fn(buf, func(t target, run int32) error { return t.fast5(rd, run, buf) })
}

// fast5Fields are the fields that only some FAST5 files have.
type fast5Fields struct{ pore, reason, later bool }

func fieldsOf(rd *fast5.Read) fast5Fields {
	return fast5Fields{pore: rd.PoreType != "", reason: rd.EndReason != "", later: rd.Later != nil}
}

func (h *fast5Fields) add(o fast5Fields) {
	h.pore, h.reason, h.later = h.pore || o.pore, h.reason || o.reason, h.later || o.later
}

// field reports whether there is something for an auxiliary field.
func (h fast5Fields) field(name string) bool {
	switch name {
	case "channel_number", "median_before", "read_number", "start_mux", "start_time":
		return true
	case "pore_type":
		return h.pore
	case "end_reason":
		return h.reason
	case "open_pore_level", "expected_open_pore_level", "selected_read_level", "end_reason_forced":
		return false
	}
	return h.later
}

// fast5RunInfo describes the run of a read. FAST5 doesn't state the range of the
// converter; fast5RunInfo assumes the range that ONT's own conversion assumes.
func fast5RunInfo(f found, to Format) (*pod5.RunInfo, error) {
	info := runinfo.FromFAST5(f.fast5.Tracking, f.fast5.Context)
	info.AcquisitionID = f.fast5.ID
	switch levels := f.levels; {
	case levels == 8192:
		info.ADCMin, info.ADCMax = -4096, 4095
	case levels == math.Trunc(levels) && levels <= math.MaxInt16+1:
		info.ADCMax = int16(levels - 1)
	}
	if to == POD5 {
		if err := wholeRate(f); err != nil {
			return nil, err
		}
		info.SampleRate = uint16(f.rate)
	}
	return info, nil
}

// pod5Read translates a read, without its run; what FAST5 doesn't have is not
// recorded.
func pod5Read(rd *fast5.Read) pod5.Read {
	nan := float32(math.NaN())
	known, _ := signal.ParseEndReason(rd.EndReason)
	out := pod5.Read{
		Channel: rd.Channel, Well: rd.Well, PoreType: rd.PoreType, Number: rd.Number, Start: rd.Start,
		EndReason: rd.EndReason, EndReasonForced: known.Forced(),
		CalibrationOffset: float32(rd.Offset), CalibrationScale: float32(rd.Range / rd.Digitisation),
		MedianBefore: float32(rd.MedianBefore), OpenPoreLevel: nan, ExpectedOpenPoreLevel: nan, SelectedReadLevel: nan,
		TrackedScaling: pod5.Scaling{Shift: nan, Scale: nan}, PredictedScaling: pod5.Scaling{Shift: nan, Scale: nan},
	}
	out.ID, _ = uuid.Parse(rd.ID) // the scan has checked it where it matters
	if l := rd.Later; l != nil {
		out.MinKNOWEvents, out.ReadsSinceMuxChange, out.TimeSinceMuxChange = l.MinKNOWEvents, l.ReadsSinceMuxChange, l.TimeSinceMuxChange
		out.TrackedScaling = pod5.Scaling{Shift: l.TrackedShift, Scale: l.TrackedScale}
		out.PredictedScaling = pod5.Scaling{Shift: l.PredictedShift, Scale: l.PredictedScale}
	}
	return out
}

func (t *toPOD5) fast5(rd *fast5.Read, run int32, samples []int16) error {
	out := pod5Read(rd)
	out.Run = t.plan.runs[run].info
	switch out.EndReason {
	case "partial":
		t.losses.add("end_reason", "POD5 has no reason partial")
		out.EndReason = "unknown"
	case "":
		out.EndReason = "unknown"
	}
	if out.PoreType == "" {
		out.PoreType = "not_set"
	}
	if float64(out.MedianBefore) != rd.MedianBefore && !math.IsNaN(rd.MedianBefore) {
		t.losses.add("median_before", "POD5 keeps it in fewer bits, or without a sign")
	}
	if t.plan.otherTags[rd.Run] {
		t.losses.add("tracking_id", "differs among the reads of a run, or context_tags does; POD5 has one for each run: the first is kept")
	}
	t.rounded(&out, rd.Offset, rd.Range, rd.Digitisation)
	return t.w.Add(&out, samples)
}

func (t *toBLOW5) fast5(rd *fast5.Read, run int32, samples []int16) error {
	rec := blow5.Record{
		ReadID: rd.ID, ReadGroup: t.group[run], Digitisation: rd.Digitisation, Offset: rd.Offset, Range: rd.Range, SamplingRate: rd.SampleRate,
	}
	out := pod5Read(rd)
	has := fieldsOf(rd)
	t.put(&out, has.field)
	if at := t.own[slices.IndexFunc(auxFields, func(f auxField) bool { return f.name == "median_before" })]; at >= 0 {
		v, err := t.fields[at].Float(rd.MedianBefore)
		if err != nil {
			return err
		}
		t.values[at] = v
	}
	return t.w.Add(&rec, t.values, samples)
}
