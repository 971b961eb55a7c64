package signal

import (
	"fmt"
	"io"
	"math"

	"github.com/porestream/porestream/signal/fast5"
	"github.com/porestream/porestream/signal/internal/runinfo"
)

// fast5Source reads a FAST5 file.
type fast5Source struct {
	r    *fast5.Reader
	read int // the next
	runs map[*fast5.Run]*Run
}

func openFAST5(path string) (*fast5Source, error) {
	r, err := fast5.Open(path)
	if err != nil {
		return nil, err
	}
	return &fast5Source{r: r, runs: make(map[*fast5.Run]*Run)}, nil
}

func (s *fast5Source) format() string { return "fast5" }

func (s *fast5Source) close() error { return s.r.Close() }

func (s *fast5Source) about() (version, software, compression string) {
	return s.r.Version(), "", s.r.Compression()
}

func (s *fast5Source) next(withSamples bool) (*Read, location, error) {
	if s.read >= s.r.Len() {
		s.r.Forget() // an index holds files open by the thousand
		return nil, location{}, io.EOF
	}
	in, err := s.r.Read(s.read)
	if err != nil {
		return nil, location{}, err
	}
	run, err := s.run(in)
	if err != nil {
		return nil, location{}, fmt.Errorf("read %s: %w", in.ID, err)
	}
	s.read++
	end, _ := ParseEndReason(in.EndReason)
	rd := &Read{
		ID:          in.ID,
		Run:         run,
		Channel:     in.Channel,
		Well:        in.Well,
		PoreType:    in.PoreType,
		Number:      in.Number,
		StartSample: in.Start,
		NumSamples:  in.Samples,
		Calibration: Calibration{
			Offset: float32(in.Offset),
			Scale:  float32(in.Range / in.Digitisation),
		},
		MedianBefore:    float32(in.MedianBefore),
		OpenPoreLevel:   unknownLevel(),
		EndReason:       end,
		EndReasonForced: end.Forced(),
	}
	if in.Later != nil {
		rd.MinKNOWEvents = in.Later.MinKNOWEvents
	}
	at := location{offset: in.At}
	if withSamples {
		if rd.Samples, err = s.samples(at, rd.NumSamples, []int16{}); err != nil {
			return nil, location{}, fmt.Errorf("read %s: %w", rd.ID, err)
		}
	}
	return rd, at, nil
}

func (s *fast5Source) samples(at location, n int, dst []int16) ([]int16, error) {
	return s.r.SamplesAt(at.offset, n, dst)
}

// run translates a read's run; each read states the sample rate of its run.
func (s *fast5Source) run(in *fast5.Read) (*Run, error) {
	rate := in.SampleRate
	if rate != math.Trunc(rate) || rate > maxSampleRate {
		return nil, fmt.Errorf("attribute %q is %v", "sampling_rate", rate)
	}
	run, ok := s.runs[in.Run]
	if !ok {
		run = runOf(runinfo.FromFAST5(in.Run.Tracking, in.Run.Context))
		run.ID, run.SampleRate = in.Run.ID, int(rate)
		s.runs[in.Run] = run
	}
	if run.SampleRate != int(rate) {
		return nil, fmt.Errorf("attribute %q is %v, but %d before in run %s", "sampling_rate", rate, run.SampleRate, run.ID)
	}
	return run, nil
}
