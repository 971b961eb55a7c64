package minknow

import (
	"errors"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/porestream/porestream/ingest/minknow/minknowpb"
	"github.com/porestream/porestream/stream/streampb"
)

func newSource() *source {
	return &source{
		acquisition: &minknowpb.AcquisitionRunInfo{RunId: "run", StartTime: &timestamppb.Timestamp{Seconds: 100}},
		device:      &minknowpb.GetDeviceInfoResponse{DeviceId: "D", MaxChannelCount: 2},
		flowCell:    &minknowpb.GetFlowCellInfoResponse{FlowCellId: "F", ProductCode: "P"},
		rate:        5000,
		calibration: &minknowpb.GetCalibrationResponse{Digitisation: 2048, Offsets: []float32{-3, 4}, PaRanges: []float32{1024, 512}},
		classes:     map[int32]string{1: "strand", 2: "pore"},
		types:       &minknowpb.GetDataTypesResponse{UncalibratedSignal: &minknowpb.GetDataTypesResponse_DataType{Size: 2}},
		analysis:    &minknowpb.AnalysisConfiguration{ReadDetection: &minknowpb.ReadDetectionParams{BreakReadsAfterSeconds: wrapperspb.Double(0.4)}},
	}
}

func TestDescribe(t *testing.T) {
	s := newSource()
	run, err := s.describe("X1", "")
	if err != nil {
		t.Fatal(err)
	}
	if run.GetSample() != "run" || run.GetFlowCell() != "F" || run.GetFlowCellProduct() != "P" || run.GetStartTimeMs() != 100_000 || run.GetKit() != "" {
		t.Error(run)
	}
	s.acquisition.DataReadStartTime = &timestamppb.Timestamp{Seconds: 105}
	s.protocol = &minknowpb.ProtocolRunInfo{
		UserInfo: &minknowpb.ProtocolRunUserInfo{
			SampleId: wrapperspb.String("patient"), ProtocolGroupId: wrapperspb.String("study"), UserSpecifiedFlowCellId: wrapperspb.String("mine"),
		},
		MetaInfo: &minknowpb.ProtocolInfo{Tags: map[string]*minknowpb.ProtocolInfo_TagValue{"kit": {TagValue: &minknowpb.ProtocolInfo_TagValue_StringValue{StringValue: "KIT"}}}},
	}
	if run, err = s.describe("X1", ""); err != nil {
		t.Fatal(err)
	}
	if run.GetSample() != "patient" || run.GetExperiment() != "study" || run.GetFlowCell() != "mine" || run.GetKit() != "KIT" || run.GetStartTimeMs() != 105_000 {
		t.Error(run)
	}
	if run, err = s.describe("X1", "other"); err != nil || run.GetSample() != "other" {
		t.Error(run, err)
	}
	s.rate = 0
	var fault *callError
	if _, err = s.describe("X1", ""); !errors.As(err, &fault) || fault.reason != "metadata" {
		t.Error(err)
	}
}

func TestSourceReads(t *testing.T) {
	cfg := &Config{Classes: DefaultClasses()}
	got, err := newSource().reads("X1", cfg)
	if err != nil {
		t.Fatal(err)
	}
	if got.chunk != 2000 || len(got.classes) != 1 || !got.classes[1] || got.calibrations[0] != (calibration{-3, 0.5}) || got.calibrations[1] != (calibration{4, 0.25}) {
		t.Errorf("%+v", got)
	}
	for _, tt := range []struct {
		name   string
		change func(*source)
		want   string
	}{
		{"floating point", func(s *source) {
			s.types.UncalibratedSignal.Type = minknowpb.GetDataTypesResponse_DataType_FLOATING_POINT
		}, "signal comes as FLOATING_POINT"},
		{"big-endian", func(s *source) { s.types.UncalibratedSignal.BigEndian = true }, "big-endian: true"},
		{"no channels", func(s *source) { s.device.MaxChannelCount = 0 }, "0 channels"},
		{"too few offsets", func(s *source) { s.calibration.Offsets = s.calibration.Offsets[:1] }, "a calibration of 1 offsets"},
		{"no digitisation", func(s *source) { s.calibration.Digitisation = 0 }, "a digitisation of 0"},
		{"no number", func(s *source) { s.calibration.Offsets[1] = float32(math.NaN()) }, "channel 2 has a calibration of offset NaN"},
		{"no range", func(s *source) { s.calibration.PaRanges[0] = 0 }, "channel 1 has"},
		{"no classes", func(s *source) { s.classes = map[int32]string{1: "b", 2: "a"} }, "it knows a, b"},
	} {
		s := newSource()
		tt.change(s)
		_, err := s.reads("X1", cfg)
		var fault *callError
		if !errors.As(err, &fault) || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "position X1: ") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestConflicts(t *testing.T) {
	was := &streampb.Run{Id: "r", Position: "X1", Sample: "s", SampleRate: 4000, FlowCell: "f", Kit: "k", StartTimeMs: 1}
	for _, tt := range []struct {
		is   *streampb.Run
		want string
	}{
		{&streampb.Run{Id: "r", Sample: "s", SampleRate: 4000, FlowCell: "f", Kit: "k", StartTimeMs: 2}, ""},
		{&streampb.Run{Id: "r", Sample: "s", SampleRate: 5000, FlowCell: "f", Kit: "k"}, `position X1: run r was begun with sample rate "4000", and now MinKNOW says "5000"`},
		{&streampb.Run{Id: "r", Sample: "s", SampleRate: 4000, FlowCell: "g", Kit: "k"}, `flow cell "f", and now MinKNOW says "g"`},
	} {
		if err := conflict(was, tt.is); tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
}
