package signal

import (
	"fmt"
	"io"
	"math"

	"github.com/porestream/porestream/signal/internal/uuid"
	"github.com/porestream/porestream/signal/pod5"
)

// pod5Source reads a POD5 file.
type pod5Source struct {
	r     *pod5.Reader
	batch int         // the next to decode
	reads []pod5.Read // left of the current one
	runs  map[*pod5.RunInfo]*Run
}

func openPOD5(path string) (*pod5Source, error) {
	r, err := pod5.Open(path)
	if err != nil {
		return nil, err
	}
	return &pod5Source{r: r, runs: make(map[*pod5.RunInfo]*Run)}, nil
}

func (s *pod5Source) format() string { return "pod5" }

func (s *pod5Source) close() error { return s.r.Close() }

func (s *pod5Source) about() (version, software, compression string) {
	return s.r.Version(), s.r.Software(), s.r.Compression()
}

func (s *pod5Source) next(withSamples bool) (*Read, location, error) {
	for len(s.reads) == 0 {
		if s.batch == s.r.Batches() {
			return nil, location{}, io.EOF
		}
		reads, err := s.r.Batch(s.batch)
		if err != nil {
			return nil, location{}, err
		}
		s.batch++
		s.reads = reads
	}
	in := &s.reads[0]
	s.reads = s.reads[1:]
	end, _ := ParseEndReason(in.EndReason)
	rd := &Read{
		ID:              uuid.Format(in.ID),
		Run:             s.run(in.Run),
		Channel:         in.Channel,
		Well:            in.Well,
		PoreType:        in.PoreType,
		Number:          in.Number,
		StartSample:     in.Start,
		NumSamples:      int(in.Samples),
		MedianBefore:    in.MedianBefore,
		OpenPoreLevel:   in.OpenPoreLevel,
		Calibration:     Calibration{Offset: in.CalibrationOffset, Scale: in.CalibrationScale},
		EndReason:       end,
		EndReasonForced: in.EndReasonForced,
		MinKNOWEvents:   in.MinKNOWEvents,
	}
	at := location{id: in.ID, rows: in.Rows}
	if withSamples {
		var err error
		if rd.Samples, err = s.samples(at, rd.NumSamples, []int16{}); err != nil {
			return nil, location{}, fmt.Errorf("read %s: %w", rd.ID, err)
		}
	}
	return rd, at, nil
}

func (s *pod5Source) samples(at location, n int, dst []int16) ([]int16, error) {
	return s.r.SamplesAt(at.id, at.rows, uint64(n), dst)
}

func (s *pod5Source) run(in *pod5.RunInfo) *Run {
	if run, ok := s.runs[in]; ok {
		return run
	}
	run := runOf(in)
	s.runs[in] = run
	return run
}

// runOf translates a run info.
func runOf(in *pod5.RunInfo) *Run {
	run := &Run{
		ID:                in.AcquisitionID,
		SampleRate:        int(in.SampleRate),
		SampleID:          in.SampleID,
		ExperimentID:      in.ExperimentName,
		ProtocolName:      in.ProtocolName,
		ProtocolRunID:     in.ProtocolRunID,
		FlowCellID:        in.FlowCellID,
		FlowCellProduct:   in.FlowCellProductCode,
		Kit:               in.SequencingKit,
		SequencerPosition: in.SequencerPosition,
		SequencerType:     in.SequencerPositionType,
		Device:            in.SystemName,
		Software:          in.Software,
		ADCMin:            int(in.ADCMin),
		ADCMax:            int(in.ADCMax),
		Context:           in.ContextTags,
		Tracking:          in.TrackingID,
	}
	// Converters write the beginning of 1970 for a time they don't know.
	if in.AcquisitionStartTime.Unix() > 0 {
		run.StartTime = in.AcquisitionStartTime
	}
	return run
}

// unknownLevel is how a Read says that a current wasn't recorded.
func unknownLevel() float32 { return float32(math.NaN()) }
