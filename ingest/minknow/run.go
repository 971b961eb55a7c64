package minknow

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/porestream/porestream/ingest/minknow/minknowpb"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// source is what has to be known of a position and its run to take its signal.
type source struct {
	acquisition *minknowpb.AcquisitionRunInfo
	protocol    *minknowpb.ProtocolRunInfo // nil: none
	device      *minknowpb.GetDeviceInfoResponse
	flowCell    *minknowpb.GetFlowCellInfoResponse
	rate        uint32
	calibration *minknowpb.GetCalibrationResponse
	classes     map[int32]string
	types       *minknowpb.GetDataTypesResponse
	analysis    *minknowpb.AnalysisConfiguration
}

// inspect asks a position for what there is to know of its run.
func inspect(ctx context.Context, conn *grpc.ClientConn, acquisition *minknowpb.AcquisitionRunInfo) (*source, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s := &source{acquisition: acquisition}
	device := minknowpb.NewDeviceServiceClient(conn)
	analysis := minknowpb.NewAnalysisConfigurationServiceClient(conn)
	var err error
	if s.device, err = device.GetDeviceInfo(ctx, &minknowpb.GetDeviceInfoRequest{}); err != nil {
		return nil, err
	}
	if s.flowCell, err = device.GetFlowCellInfo(ctx, &minknowpb.GetFlowCellInfoRequest{}); err != nil {
		return nil, err
	}
	rate, err := device.GetSampleRate(ctx, &minknowpb.GetSampleRateRequest{})
	if err != nil {
		return nil, err
	}
	s.rate = rate.GetSampleRate()
	if s.calibration, err = device.GetCalibration(ctx, &minknowpb.GetCalibrationRequest{FirstChannel: 1, LastChannel: s.channels()}); err != nil {
		return nil, err
	}
	if s.types, err = minknowpb.NewDataServiceClient(conn).GetDataTypes(ctx, &minknowpb.GetDataTypesRequest{}); err != nil {
		return nil, err
	}
	classes, err := analysis.GetReadClassifications(ctx, &minknowpb.GetReadClassificationsRequest{})
	if err != nil {
		return nil, err
	}
	s.classes = classes.GetReadClassifications()
	if s.analysis, err = analysis.GetAnalysisConfiguration(ctx, &minknowpb.GetAnalysisConfigurationRequest{}); err != nil {
		return nil, err
	}
	protocol, err := minknowpb.NewProtocolServiceClient(conn).GetCurrentProtocolRun(ctx, &minknowpb.GetCurrentProtocolRunRequest{})
	if err != nil && !isCode(err, codes.FailedPrecondition) {
		return nil, err
	}
	s.protocol = protocol.GetRunInfo()
	return s, nil
}

// channels is the number of channels of the flow cell.
func (s *source) channels() uint32 {
	return min(cmp.Or(s.flowCell.GetChannelCount(), s.device.GetMaxChannelCount()), maxChannels)
}

// describe is the stream's description of the run. sample replaces the name that
// was given to MinKNOW; a run with neither is a sample of its own.
func (s *source) describe(position, sample string) (*streampb.Run, error) {
	user := s.protocol.GetUserInfo()
	run := &streampb.Run{
		Id:              s.acquisition.GetRunId(),
		Sample:          cmp.Or(sample, user.GetSampleId().GetValue(), s.acquisition.GetRunId()),
		Experiment:      user.GetProtocolGroupId().GetValue(),
		FlowCell:        cmp.Or(user.GetUserSpecifiedFlowCellId().GetValue(), s.flowCell.GetUserSpecifiedFlowCellId(), s.flowCell.GetFlowCellId()),
		FlowCellProduct: cmp.Or(user.GetUserSpecifiedProductCode().GetValue(), s.flowCell.GetUserSpecifiedProductCode(), s.flowCell.GetProductCode()),
		Kit:             cmp.Or(user.GetKitInfo().GetSequencingKit(), s.protocol.GetMetaInfo().GetTags()["kit"].GetStringValue()),
		Position:        position,
		Device:          s.device.GetDeviceId(),
		SampleRate:      s.rate,
	}
	// Sample 0 is taken when data begin to be read.
	for _, t := range []interface{ GetSeconds() int64 }{s.acquisition.GetDataReadStartTime(), s.acquisition.GetStartTime()} {
		if t.GetSeconds() > 0 && run.StartTimeMs == 0 {
			run.StartTimeMs = t.GetSeconds() * 1000
		}
	}
	if _, err := stream.EncodeRun(run); err != nil {
		return nil, &callError{"metadata", fmt.Sprintf("position %s: what MinKNOW says of its run can't be used: %v", position, err), err}
	}
	return run, nil
}

// reads says how the run's live reads are to be taken.
func (s *source) reads(position string, cfg *Config) (readsConfig, error) {
	n := int(s.channels())
	c := s.calibration
	out := readsConfig{run: s.acquisition.GetRunId(), classes: make(map[int32]bool), filtered: cfg.Filter}
	refuse := func(reason, format string, args ...any) (readsConfig, error) {
		return readsConfig{}, &callError{reason: reason, line: fmt.Sprintf("position %s: "+format, append([]any{position}, args...)...)}
	}
	t := s.types.GetUncalibratedSignal()
	if t.GetType() != minknowpb.GetDataTypesResponse_DataType_SIGNED_INTEGER || t.GetSize() != 2 || t.GetBigEndian() {
		return refuse("version", "signal comes as %v of %d bytes (big-endian: %v), and ingest knows signed integers of 2 bytes, little-endian", t.GetType(), t.GetSize(), t.GetBigEndian())
	}
	if n == 0 || c.GetDigitisation() == 0 || len(c.GetOffsets()) != n || len(c.GetPaRanges()) != n {
		return refuse("metadata", "%d channels, and a calibration of %d offsets and %d ranges with a digitisation of %d", n, len(c.GetOffsets()), len(c.GetPaRanges()), c.GetDigitisation())
	}
	for i := range n {
		cal := calibration{c.GetOffsets()[i], c.GetPaRanges()[i] / float32(c.GetDigitisation())}
		if math.IsNaN(float64(cal.offset)) || math.IsInf(float64(cal.offset), 0) || math.IsNaN(float64(cal.scale)) || math.IsInf(float64(cal.scale), 0) || cal.scale == 0 {
			return refuse("metadata", "channel %d has a calibration of offset %g and range %g, which is none", i+1, c.GetOffsets()[i], c.GetPaRanges()[i])
		}
		out.calibrations = append(out.calibrations, cal)
	}
	var known []string
	for id, name := range s.classes {
		known = append(known, name)
		if slices.Contains(cfg.Classes, name) {
			out.classes[id] = true
		}
	}
	if len(out.classes) == 0 {
		slices.Sort(known)
		return refuse("metadata", "it knows none of the read classes %s (--classes); it knows %s", strings.Join(cfg.Classes, ", "), strings.Join(known, ", "))
	}
	seconds := s.analysis.GetReadDetection().GetBreakReadsAfterSeconds().GetValue()
	if !(seconds > 0 && seconds < 60) {
		seconds = 1
	}
	out.chunk = max(1, uint64(seconds*float64(s.rate)))
	return out, nil
}

// conflict returns how MinKNOW's description of a run now differs from that at
// the run's begin, where it must not.
func conflict(was, is *streampb.Run) error {
	type field struct{ name, was, is string }
	for _, f := range []field{
		{"sample rate", fmt.Sprint(was.GetSampleRate()), fmt.Sprint(is.GetSampleRate())},
		{"sample", was.GetSample(), is.GetSample()},
		{"flow cell", was.GetFlowCell(), is.GetFlowCell()},
		{"kit", was.GetKit(), is.GetKit()},
	} {
		if f.was != f.is {
			return &PermanentError{"metadata", fmt.Errorf("position %s: run %s was begun with %s %q, and now MinKNOW says %q: its signal can't be joined; end the run and start another", was.GetPosition(), was.GetId(), f.name, f.was, f.is)}
		}
	}
	return nil
}
