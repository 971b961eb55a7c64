package convert

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"

	"github.com/porestream/porestream/signal/blow5"
	"github.com/porestream/porestream/signal/fast5"
	"github.com/porestream/porestream/signal/internal/runinfo"
	"github.com/porestream/porestream/signal/internal/uuid"
	"github.com/porestream/porestream/signal/pod5"
)

// target is a file being written.
type target interface {
	pod5(rd *pod5.Read, run int32, samples []int16) error
	blow5(rec *blow5.Record, run int32, samples []int16) error
	fast5(rd *fast5.Read, run int32, samples []int16) error
	close() error
}

// toPOD5 writes POD5.
type toPOD5 struct {
	w      *pod5.Writer
	plan   *plan
	losses losses
}

func newPOD5(out io.Writer, scratch io.ReadWriteSeeker, p *plan, opts Options, l losses) (*toPOD5, error) {
	w, err := pod5.NewWriter(out, scratch, pod5.WriterOptions{Software: opts.Software})
	return &toPOD5{w, p, l}, err
}

func (t *toPOD5) close() error { return t.w.Close() }

func (t *toPOD5) pod5(rd *pod5.Read, run int32, samples []int16) error {
	copied := *rd
	copied.Run = t.plan.runs[run].info
	return t.w.Add(&copied, samples)
}

func (t *toPOD5) blow5(rec *blow5.Record, run int32, samples []int16) error {
	nan := float32(math.NaN())
	rd := pod5.Read{
		Run: t.plan.runs[run].info, PoreType: "not_set", EndReason: "unknown",
		CalibrationOffset: float32(rec.Offset), CalibrationScale: float32(rec.Range / rec.Digitisation),
		MedianBefore: nan, OpenPoreLevel: nan, ExpectedOpenPoreLevel: nan, SelectedReadLevel: nan,
		TrackedScaling: pod5.Scaling{Shift: nan, Scale: nan}, PredictedScaling: pod5.Scaling{Shift: nan, Scale: nan},
	}
	var err error
	if rd.Channel, err = channelOf(rec); err != nil {
		return err
	}
	rd.ID, _ = uuid.Parse(rec.ReadID) // the scan has checked it
	for _, f := range auxFields {
		if v := rec.Aux(f.name); v.Declared() && !f.get(v, &rd) {
			t.losses.add(f.name, "POD5 keeps it in fewer bits, or without a sign")
		}
	}
	t.rounded(&rd, rec.Offset, rec.Range, rec.Digitisation)
	for i, f := range rec.Fields() {
		if auxFieldAt(f.Name) < 0 && rec.AuxAt(i).Present() {
			t.losses.add(f.Name, "POD5 has no such field")
		}
	}
	return t.w.Add(&rd, samples)
}

// rounded counts what the calibration loses.
func (t *toPOD5) rounded(rd *pod5.Read, offset, span, levels float64) {
	if float64(rd.CalibrationOffset) != offset {
		t.losses.add("offset", "POD5 rounds it to 32 bits")
	}
	if float64(rd.CalibrationScale)*levels != span {
		t.losses.add("range", "POD5 keeps range/digitisation, rounded to 32 bits")
	}
	if digitisation(rd.Run) != levels {
		t.losses.add("digitisation", "POD5 has one for each run; the scale is right")
	}
}

// fallbackRunID names a read group that has no run id, as package signal does.
func fallbackRunID(path string, group int) string {
	return fmt.Sprintf("%s#%d", filepath.Base(path), group)
}

// runInfo describes the run of a read group, from its attributes and its first
// read.
func (in *blow5Input) runInfo(f found, path string) (*pod5.RunInfo, error) {
	if err := wholeRate(f); err != nil {
		return nil, err
	}
	info, exact := runinfo.FromAttributes(in.r.Header().Groups[f.group])
	info.SampleRate = uint16(f.rate)
	if info.AcquisitionID == "" {
		info.AcquisitionID = fallbackRunID(path, f.group)
	}
	if !exact && info.ADCMin == 0 && info.ADCMax == 0 && f.levels == math.Trunc(f.levels) && f.levels <= math.MaxInt16+1 {
		info.ADCMax = int16(f.levels - 1)
	}
	return info, nil
}

// wholeRate refuses a sample rate that POD5 can't hold.
func wholeRate(f found) error {
	if f.rate != math.Trunc(f.rate) || f.rate < 1 || f.rate > math.MaxUint16 {
		return fmt.Errorf("read %s: field %q is %v: POD5 takes whole numbers up to %d", f.id, "sampling_rate", f.rate, math.MaxUint16)
	}
	return nil
}

// digitisation is the number of levels of a run's converter.
func digitisation(run *pod5.RunInfo) float64 {
	if n := float64(run.ADCMax) - float64(run.ADCMin) + 1; n > 1 {
		return n
	}
	// Any number does: the scale is exact by way of the range.
	return 8192
}

// toBLOW5 writes BLOW5.
type toBLOW5 struct {
	w      *blow5.Writer
	group  map[int32]uint32 // by run
	fields []blow5.Field
	// own is the place in fields of auxFields, and -1 for those that aren't there.
	own    []int
	values []blow5.Value
	losses losses
}

// newBLOW5 begins a file for the runs of some reads.
func newBLOW5(out io.Writer, p *plan, entries []entry, l losses) (*toBLOW5, error) {
	t := &toBLOW5{group: make(map[int32]uint32), losses: l}
	var groups []map[string]string
	for _, e := range entries {
		if _, ok := t.group[e.run]; !ok {
			t.group[e.run] = uint32(len(groups))
			groups = append(groups, p.runs[e.run].attr)
		}
	}
	if len(groups) == 0 {
		groups = []map[string]string{{}} // a file without reads needs one
	}
	var err error
	if t.fields, err = p.fields(); err != nil {
		return nil, err
	}
	for _, f := range auxFields {
		t.own = append(t.own, slices.IndexFunc(t.fields, func(g blow5.Field) bool { return g.Name == f.name }))
	}
	t.values = make([]blow5.Value, len(t.fields))
	t.w, err = blow5.NewWriter(out, groups, t.fields)
	return t, err
}

// fields are the auxiliary fields that all inputs together have.
func (p *plan) fields() ([]blow5.Field, error) {
	var fields []blow5.Field
	var from []string // the file that brought a field
	add := func(f blow5.Field, path string) error {
		i := slices.IndexFunc(fields, func(g blow5.Field) bool { return g.Name == f.Name })
		if i < 0 {
			fields, from = append(fields, f), append(from, path)
			return nil
		}
		both, err := fields[i].Union(f)
		if err != nil {
			return fmt.Errorf("%s: %w in %s: convert the files separately", path, err, from[i])
		}
		fields[i] = both
		return nil
	}
	for _, in := range p.inputs {
		if in.blow != nil {
			for _, f := range in.blow.r.Header().Aux {
				if err := add(f, in.path); err != nil {
					return nil, err
				}
			}
			continue
		}
		for _, f := range auxFields {
			if _, ok := in.source.(*fast5Input); ok && !p.has.field(f.name) {
				continue
			}
			typ := f.typ
			if f.name == "end_reason" {
				typ = endReasons(append(slices.Clone(standardReasons), p.reasons...))
			}
			field, err := blow5.NewField(f.name, typ)
			if err == nil {
				err = add(field, in.path)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return fields, nil
}

func (t *toBLOW5) close() error { return t.w.Close() }

func (t *toBLOW5) pod5(rd *pod5.Read, run int32, samples []int16) error {
	levels := digitisation(rd.Run)
	rec := blow5.Record{
		ReadID: uuid.Format(rd.ID), ReadGroup: t.group[run], Digitisation: levels, Offset: float64(rd.CalibrationOffset),
		// A product of 24 and 17 bits is exact, and so is its quotient later.
		Range: float64(rd.CalibrationScale) * levels, SamplingRate: float64(rd.Run.SampleRate),
	}
	t.put(rd, func(string) bool { return true })
	return t.w.Add(&rec, t.values, samples)
}

// put sets the values of a read's auxiliary fields, of those that it has.
func (t *toBLOW5) put(rd *pod5.Read, has func(field string) bool) {
	clear(t.values)
	for i, f := range auxFields {
		at := t.own[i]
		if at < 0 || !has(f.name) {
			continue
		}
		v, err := f.put(&t.fields[at], rd)
		if err != nil {
			t.losses.add(f.name, "BLOW5 takes the value for a missing one, or has too few bits")
			continue
		}
		t.values[at] = v
	}
}

func (t *toBLOW5) blow5(rec *blow5.Record, run int32, samples []int16) error {
	copied := blow5.Record{
		ReadID: rec.ReadID, ReadGroup: t.group[run], Digitisation: rec.Digitisation, Offset: rec.Offset,
		Range: rec.Range, SamplingRate: rec.SamplingRate,
	}
	clear(t.values)
	for i, f := range t.fields {
		v, err := t.fields[i].Convert(rec.Aux(f.Name))
		if err != nil {
			return err
		}
		t.values[i] = v
	}
	return t.w.Add(&copied, t.values, samples)
}
