package signal

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"

	"github.com/porestream/porestream/signal/blow5"
	"github.com/porestream/porestream/signal/internal/runinfo"
)

// maxSampleRate is far above any nanopore device, and below what could overflow
// the arithmetic of times.
const maxSampleRate = 10_000_000

// blow5Source reads a BLOW5 file.
type blow5Source struct {
	r      *blow5.Reader
	groups []*Run
}

func openBLOW5(path string) (*blow5Source, error) {
	r, err := blow5.Open(path)
	if err != nil {
		return nil, err
	}
	return newBLOW5Source(r, path), nil
}

func newBLOW5Source(r *blow5.Reader, path string) *blow5Source {
	s := &blow5Source{r: r}
	for i, attr := range r.Header().Groups {
		s.groups = append(s.groups, groupRun(attr, fmt.Sprintf("%s#%d", filepath.Base(path), i)))
	}
	return s
}

func (s *blow5Source) format() string { return "blow5" }

func (s *blow5Source) close() error { return s.r.Close() }

func (s *blow5Source) about() (version, software, compression string) {
	h := s.r.Header()
	return fmt.Sprintf("%d.%d.%d", h.Major, h.Minor, h.Patch), "", h.Compression()
}

func (s *blow5Source) next(withSamples bool) (out *Read, at location, err error) {
	err = s.r.Next(func(rec *blow5.Record, offset int64) error {
		at.offset = uint64(offset)
		if out, err = s.read(rec); err == nil && withSamples {
			out.Samples, err = rec.AppendSamples([]int16{})
		}
		return err
	})
	return out, at, err
}

func (s *blow5Source) samples(at location, n int, dst []int16) (out []int16, err error) {
	out = dst
	err = s.r.View(int64(at.offset), func(rec *blow5.Record) error {
		if rec.NumSamples != n {
			return fmt.Errorf("holds %d samples, not %d: the file has changed", rec.NumSamples, n)
		}
		out, err = rec.AppendSamples(dst)
		return err
	})
	return out, err
}

// read translates a record, all but its samples.
func (s *blow5Source) read(rec *blow5.Record) (*Read, error) {
	run := s.groups[rec.ReadGroup]
	rate := rec.SamplingRate
	switch {
	case rate != math.Trunc(rate) || rate > maxSampleRate:
		return nil, fmt.Errorf("field %q is %v", "sampling_rate", rate)
	case run.SampleRate == 0:
		run.SampleRate = int(rate)
	case run.SampleRate != int(rate):
		return nil, fmt.Errorf("field %q is %v, but %d before in read group %d", "sampling_rate", rate, run.SampleRate, rec.ReadGroup)
	}
	rd := &Read{
		ID:         rec.ReadID,
		Run:        run,
		NumSamples: rec.NumSamples,
		Calibration: Calibration{
			Offset: float32(rec.Offset),
			Scale:  float32(rec.Range / rec.Digitisation),
		},
		MedianBefore:  level(rec.Aux("median_before")),
		OpenPoreLevel: level(rec.Aux("open_pore_level")),
	}
	if err := channel(rec.Aux("channel_number"), &rd.Channel); err != nil {
		return nil, err
	}
	rd.StartSample, _ = rec.Aux("start_time").Uint()
	rd.MinKNOWEvents, _ = rec.Aux("num_minknow_events").Uint()
	if well, ok := rec.Aux("start_mux").Uint(); ok && well <= math.MaxUint8 {
		rd.Well = uint8(well)
	}
	if n, ok := rec.Aux("read_number").Uint(); ok && n <= math.MaxUint32 {
		rd.Number = uint32(n)
	}
	if name, ok := rec.Aux("end_reason").Text(); ok {
		rd.EndReason, _ = ParseEndReason(name)
		rd.EndReasonForced = rd.EndReason.Forced()
	}
	return rd, nil
}

// channel reads a channel, which the format keeps as text.
func channel(v blow5.Value, to *uint32) error {
	if s, ok := v.Text(); ok {
		n, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			return fmt.Errorf("field %q is %q, not a number", "channel_number", s)
		}
		*to = uint32(n)
	} else if n, ok := v.Uint(); ok && n <= math.MaxUint32 {
		*to = uint32(n)
	}
	return nil
}

func level(v blow5.Value) float32 {
	if f, ok := v.Float(); ok {
		return float32(f)
	}
	return unknownLevel()
}

// groupRun translates the attributes of a read group.
func groupRun(attr map[string]string, fallbackID string) *Run {
	info, _ := runinfo.FromAttributes(attr)
	run := runOf(info)
	if run.ID == "" {
		run.ID = fallbackID
	}
	run.SampleRate = 0 // the header has no field for it
	run.Context, run.Tracking = nil, attr
	return run
}
