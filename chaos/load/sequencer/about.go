package sequencer

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/porestream/porestream/ingest/minknow/minknowpb"
)

// What the flow cell and its run are called.
const (
	RunID    = "5e9ce5ce-10ad-4bad-8000-000000000001"
	Position = "LOAD"

	// strand is the read class of all signal.
	strand = 83
)

// about says what there is to know of the position and its run.
type about struct {
	minknowpb.UnimplementedManagerServiceServer
	minknowpb.UnimplementedDeviceServiceServer
	minknowpb.UnimplementedAcquisitionServiceServer
	minknowpb.UnimplementedProtocolServiceServer
	minknowpb.UnimplementedAnalysisConfigurationServiceServer
	s *Sequencer
}

func (a *about) FlowCellPositions(_ *minknowpb.FlowCellPositionsRequest, call grpc.ServerStreamingServer[minknowpb.FlowCellPositionsResponse]) error {
	return call.Send(&minknowpb.FlowCellPositionsResponse{TotalCount: 1, Positions: []*minknowpb.FlowCellPosition{{
		Name: Position, State: minknowpb.FlowCellPosition_STATE_RUNNING, RpcPorts: &minknowpb.FlowCellPosition_RpcPorts{Secure: uint32(a.s.port)},
	}}})
}

func (a *about) GetDeviceInfo(context.Context, *minknowpb.GetDeviceInfoRequest) (*minknowpb.GetDeviceInfoResponse, error) {
	return &minknowpb.GetDeviceInfoResponse{DeviceId: Position, IsSimulated: true, MaxChannelCount: uint32(a.s.cfg.Cell.Channels), Digitisation: digitisation}, nil
}

func (a *about) GetFlowCellInfo(context.Context, *minknowpb.GetFlowCellInfoRequest) (*minknowpb.GetFlowCellInfoResponse, error) {
	return &minknowpb.GetFlowCellInfoResponse{HasFlowCell: true, ChannelCount: uint32(a.s.cfg.Cell.Channels), FlowCellId: "PAA00001", ProductCode: "FLO-PRO114M"}, nil
}

const digitisation = 2048

func (a *about) GetCalibration(context.Context, *minknowpb.GetCalibrationRequest) (*minknowpb.GetCalibrationResponse, error) {
	c := &minknowpb.GetCalibrationResponse{Digitisation: digitisation, HasCalibration: true}
	for range a.s.cfg.Cell.Channels {
		c.Offsets, c.PaRanges = append(c.Offsets, -240), append(c.PaRanges, 280)
	}
	return c, nil
}

func (a *about) GetSampleRate(context.Context, *minknowpb.GetSampleRateRequest) (*minknowpb.GetSampleRateResponse, error) {
	return &minknowpb.GetSampleRateResponse{SampleRate: uint32(a.s.cfg.Cell.Rate)}, nil
}

func (a *about) GetReadClassifications(context.Context, *minknowpb.GetReadClassificationsRequest) (*minknowpb.GetReadClassificationsResponse, error) {
	return &minknowpb.GetReadClassificationsResponse{ReadClassifications: map[int32]string{strand: "strand"}}, nil
}

func (a *about) GetAnalysisConfiguration(context.Context, *minknowpb.GetAnalysisConfigurationRequest) (*minknowpb.AnalysisConfiguration, error) {
	seconds := float64(a.s.cfg.Cell.Chunk) / float64(a.s.cfg.Cell.Rate)
	return &minknowpb.AnalysisConfiguration{ReadDetection: &minknowpb.ReadDetectionParams{BreakReadsAfterSeconds: wrapperspb.Double(seconds)}}, nil
}

func (a *about) acquisition() *minknowpb.AcquisitionRunInfo {
	info := &minknowpb.AcquisitionRunInfo{
		RunId: RunID, State: minknowpb.AcquisitionState_ACQUISITION_RUNNING,
		ConfigSummary: &minknowpb.AcquisitionConfigSummary{Purpose: minknowpb.Purpose_SEQUENCING},
	}
	select {
	case <-a.s.finished:
		info.State, info.StopReason = minknowpb.AcquisitionState_ACQUISITION_COMPLETED, minknowpb.AcquisitionStopReason_STOPPED_PROTOCOL_ENDED
	default:
	}
	return info
}

func (a *about) GetCurrentAcquisitionRun(context.Context, *minknowpb.GetCurrentAcquisitionRunRequest) (*minknowpb.AcquisitionRunInfo, error) {
	return a.acquisition(), nil
}

func (a *about) WatchCurrentAcquisitionRun(_ *minknowpb.WatchCurrentAcquisitionRunRequest, call grpc.ServerStreamingServer[minknowpb.AcquisitionRunInfo]) error {
	if err := call.Send(a.acquisition()); err != nil {
		return err
	}
	select {
	case <-a.s.finished:
		if err := call.Send(a.acquisition()); err != nil {
			return err
		}
	case <-call.Context().Done():
	}
	<-call.Context().Done()
	return call.Context().Err()
}

func (a *about) protocol() *minknowpb.ProtocolRunInfo {
	return &minknowpb.ProtocolRunInfo{
		RunId: RunID, AcquisitionRunIds: []string{RunID}, Phase: minknowpb.ProtocolPhase_PHASE_SEQUENCING,
		UserInfo: &minknowpb.ProtocolRunUserInfo{
			SampleId: wrapperspb.String("load"), ProtocolGroupId: wrapperspb.String("load"),
			KitInfo: &minknowpb.KitInfo{SequencingKit: "SQK-LSK114"},
		},
	}
}

func (a *about) GetCurrentProtocolRun(context.Context, *minknowpb.GetCurrentProtocolRunRequest) (*minknowpb.GetCurrentProtocolRunResponse, error) {
	return &minknowpb.GetCurrentProtocolRunResponse{RunInfo: a.protocol()}, nil
}

func (a *about) WatchCurrentProtocolRun(_ *minknowpb.WatchCurrentProtocolRunRequest, call grpc.ServerStreamingServer[minknowpb.ProtocolRunInfo]) error {
	if err := call.Send(a.protocol()); err != nil {
		return err
	}
	<-call.Context().Done()
	return call.Context().Err()
}

func (a *about) LocalAuthenticationTokenPath(context.Context, *minknowpb.LocalAuthenticationTokenPathRequest) (*minknowpb.LocalAuthenticationTokenPathResponse, error) {
	return nil, status.Error(codes.Unimplemented, "this sequencer lets everybody in")
}
