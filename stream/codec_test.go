package stream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/stream/streampb"
)

func sampleRun() *streampb.Run {
	return &streampb.Run{
		Id: "run-1", Sample: "lambda", Experiment: "exp", FlowCell: "FAF04090", FlowCellProduct: "FLO-MIN106",
		Kit: "SQK-RAD004", Position: "MN17279", Device: "host", SampleRate: 4000, StartTimeMs: 1_510_000_000_123, PoreType: "R9.4",
	}
}

func sampleMarker() *streampb.Marker {
	return &streampb.Marker{Run: sampleRun(), Source: 2, Sources: 4}
}

func timeoutMarker() *streampb.Marker {
	m := sampleMarker()
	m.EndStatus, m.LastOffset = streampb.EndStatus_END_STATUS_TIMEOUT, 1<<33
	return m
}

func sampleChunk() *streampb.SignalChunk {
	return &streampb.SignalChunk{
		Run: "run-1", Channel: 417, ReadId: "00f0ad2e-5f35-4b1e-ae0a-9f1c2f7a1b11", Number: 2, FirstSample: 8000, SampleCount: 3,
		Vbz: []byte{1, 2, 3, 4}, EndOfRead: true, EndReason: "signal_positive", ReadStart: 123_456_789, ReadNumber: 77, Well: 3,
		CalibrationOffset: -12.5, CalibrationScale: 0.1755,
	}
}

// calledMarker is of a run of which there is no signal.
func calledMarker() *streampb.Marker {
	mk := sampleMarker()
	mk.Run = proto.CloneOf(mk.Run)
	mk.Run.Called, mk.Run.SampleRate = true, 0
	return mk
}

func sampleCalled() *streampb.CalledRead {
	r := &streampb.CalledRead{
		Run: "run-1", ReadId: "00f0ad2e-5f35-4b1e-ae0a-9f1c2f7a1b11", Sample: "patient-2", Barcode: "barcode02",
		Model: "dna_r10.4.1_e8.2_400bps_hac@v5.0.0", MeanQuality: 12.5, Channel: 417, ReadNumber: 77, StartTimeMs: 1_510_000_111_000,
		Stride: 6, SampleCount: 3000, TrimmedSamples: 40, Duration: 0.6, Parent: "1b0e9f6a-24a4-4b64-a8d0-7a0b2f0ad2e5", ParentStart: 900,
		Modified: "C+m?,1,0;", ModifiedProbabilities: []byte{3, 250}, ModifiedLength: 9, Failed: true,
	}
	PackCalled(r, []byte("ACGTNNacu"), []byte{2, 50, 0, 63, 1, 1, 9, 10, 11}, []byte{1, 14, 15, 16, 255, 2, 3, 4, 5})
	return r
}

func sampleSegment() *streampb.Segment {
	return &streampb.Segment{
		Run: "run-1", Sample: "lambda", ReadId: "00f0ad2e-5f35-4b1e-ae0a-9f1c2f7a1b11", Part: 1, Contig: "J02459.1", Region: 0,
		Start: 37_000, Reverse: true, Supplementary: true, MappingQuality: 60, Ops: []byte{0x50, 0x09}, Bases: []byte("A"),
		Qualities: []byte{9, 10, 11}, Dwells: []byte{3, 255, 4}, ReadLength: 5400, LastChunkMs: 1_510_000_111_000, Alignment: 1,
	}
}

// partialSegment is of a read that goes on.
func partialSegment() *streampb.Segment {
	s := sampleSegment()
	s.Partial = 3
	return s
}

func sampleWithdrawal() *streampb.Withdrawal {
	return &streampb.Withdrawal{Run: "run-1", Sample: "lambda", ReadId: "00f0ad2e-5f35-4b1e-ae0a-9f1c2f7a1b11", Contig: "J02459.1", Region: 2}
}

func sampleCall() *streampb.Call {
	return &streampb.Call{
		Run: "run-1", Sample: "lambda", VrsId: "ga4gh:VA.mMMmXYS7bUV1LeQoNNMVzQjXC9CFRcIc", Contig: "J02459.1", Pos: 37_589, Ref: "C", Alt: "T",
		Revision: 3, Status: streampb.CallStatus_AMENDED, Reason: "reads came after the end of the run", Qual: 41.25, GenotypeQuality: 41,
		Genotype: []uint32{1}, Depth: 24, RefForward: 1, RefReverse: 2, AltForward: 11, AltReverse: 10,
		Filters: []string{"LowQual", "StrandBias"}, LastChunkMs: 1_510_000_111_000,
	}
}

// modelSegment is of a read whose basecalling model is known.
func modelSegment() *streampb.Segment {
	s := sampleSegment()
	s.Model = ModelNumber(sampleModel().GetName())
	return s
}

func sampleModel() *streampb.ModelName {
	const name = "dna_r10.4.1_e8.2_400bps_hac@v5.0.0"
	return &streampb.ModelName{Number: ModelNumber(name), Name: name}
}

func mismatchedCall() *streampb.Call {
	c := sampleCall()
	c.ModelMismatch = []string{"dna_r10.4.1_e8.2_400bps_fast@v5.0.0", "other"}
	return c
}

func artefactCall() *streampb.Call {
	c := sampleCall()
	c.Filters = append(c.Filters, "MotifArtifact")
	c.Motif = &streampb.MotifError{Motif: "CCWGG", Base: 2, Shows: "T", Sites: 1201, Affected: 1150, Reads: 17_000, Wrong: 5100}
	return c
}

func sampleCarryOver() *streampb.CarryOver {
	return &streampb.CarryOver{
		Run: "run-7", Sample: "lambda", Contig: "J02459.1", Pos: 37589, Ref: "C", Alt: "T",
		Explained: true, Bounded: true, Share: 0.875, Basis: "hopping", Control: "water", ControlAlt: 2, ControlDepth: 3,
	}
}

func sampleReference() *streampb.Reference {
	return &streampb.Reference{
		Run: "run-1", Sample: "lambda", Contig: "J02459.1", Start: 36_864, End: 40_960, Revision: 391,
		Blocks: []*streampb.ReferenceBlock{
			{Start: 36_864, End: 37_588, Depth: 24, MinDepth: 20, Quality: 50, PhredLikelihoods: []uint32{0, 640}},
			{Start: 37_589, End: 41_000, Depth: 22, MinDepth: 1, Quality: 9, PhredLikelihoods: []uint32{0, 9, 90}},
		},
		Callable: []*streampb.CallableSpan{
			{Start: 36_864, End: 40_000, Callability: streampb.Callability_CALLABILITY_CALLABLE},
			{Start: 40_000, End: 41_000, Callability: streampb.Callability_CALLABILITY_LOW_DEPTH},
		},
	}
}

func provisionalReference() *streampb.Reference {
	r := sampleReference()
	r.Provisional, r.Callable = true, nil
	return r
}

func sampleMethylation() *streampb.Methylation {
	return &streampb.Methylation{
		Run: "run1", Sample: "s1", Contig: "chr1", Start: 4096, End: 8192, Code: "m", Revision: 3,
		Places: []uint32{20, 23, 8191}, Modified: []uint32{7, 0, 2}, Calls: []uint32{9, 8, 2},
	}
}

// methylation is a record of the watch topic with a fault.
func methylation(spoil func(*streampb.Methylation)) sampleRecord {
	m := sampleMethylation()
	spoil(m)
	return sampleRecord{codec: watchCodec, msg: &streampb.WatchRecord{Body: &streampb.WatchRecord_Methylation{Methylation: m}}}
}

func sampleCoverage() *streampb.Coverage {
	return &streampb.Coverage{
		Run: "run-1", Sample: "lambda", Contig: "J02459.1", Start: 36_864, End: 37_888, Lengths: []uint32{1000, 1, 23}, Depths: []uint32{24, 300, 0},
		Revision: 7, Final: true, Panels: "sha256:3f1c",
	}
}

func countedCoverage() *streampb.Coverage {
	c := sampleCoverage()
	c.Counted = true
	c.Shown = []*streampb.Shown{
		{Named: "ga4gh:VA.SFsq6OGFrOAymMifAYl2Tp4K1n8rU4cH", Pos: 37_589, Forward: 11, Reverse: 9, Depth: 24},
		{Pos: 37_742, Ref: "CAG", Alt: "C", Reverse: 7, Depth: 22},
	}
	return c
}

func sampleCursor() *streampb.Cursor {
	return &streampb.Cursor{
		Run: "run-1", Next: 123_456, Digest: bytes.Repeat([]byte{0xd1}, CursorDigestLen), Ended: true, Owner: bytes.Repeat([]byte{0x0e}, CursorOwnerLen),
		Sample: "lambda", ChunkSamples: 4000, Partitions: 12,
	}
}

func samplePushState(part uint32) *streampb.PushState {
	m := &streampb.PushState{
		Run: "run-1", Chunks: 1_000, Part: part, Base: 1_000, Device: "bench-1", Session: bytes.Repeat([]byte{0x5e}, 16),
		Channels: []*streampb.PushChannel{
			{Channel: 3, ReadId: "read-7", ReadStart: 123_456, ReadNumber: 7, Well: 2, CalibrationOffset: -4.5, CalibrationScale: 0.18, Open: true, Number: 3, End: 12_000},
			{Channel: 512, ReadId: "read-8", Number: 1, End: 4_000},
		},
	}
	if part > 0 {
		m.Base = 900
		return m
	}
	m.Former = [][]byte{bytes.Repeat([]byte{0xf0}, 16), {1}}
	return m
}

func filteredCursor() *streampb.Cursor {
	c := sampleCursor()
	c.Filter = "channels 1-128, from 1h0m0s"
	return c
}

func barcodedMarker() *streampb.Marker {
	mk := sampleMarker()
	mk.Run = proto.CloneOf(mk.Run)
	mk.Run.Samples, mk.Run.SamplesListed = []string{"patient-2", "patient-3"}, true
	return mk
}

func sampleDecision() *streampb.Decision {
	return &streampb.Decision{
		Run: "run-1", Channel: 417, ReadId: "00f0ad2e-5f35-4b1e-ae0a-9f1c2f7a1b11", ReadNumber: 77,
		Action: streampb.DecisionAction_DECISION_ACTION_UNBLOCK, Policy: "enrich targets.bed", Reason: "off_target",
		Samples: 3200, LastChunkMs: 1_510_000_111_000, DryRun: true,
	}
}

func sampleStatus() *streampb.Status {
	return &streampb.Status{Instance: "lab-1/processor/4711-18f3a", Sequence: 12, TimeMs: 1_510_000_123_000}
}

func processStatus() *streampb.Status {
	m := sampleStatus()
	m.Body = &streampb.Status_Process{Process: &streampb.ProcessReport{
		Kind: "processor", Version: "1.0", Host: "lab-1", Address: "lab-1:9102", StartedMs: 1_510_000_111_000, Stopping: true,
		Stages:   []string{"basecall", "variant"},
		Measures: []*streampb.Measure{{Name: "porestream_dead_letters_total", Labels: []string{"code", "checksum", "stage", "variant"}, Value: 2}},
		Distributions: []*streampb.Distribution{{
			Name: "porestream_infer_batch_items", Labels: []string{"model", "fast"}, Sum: 96, Bounds: []float64{1, 32}, Counts: []uint64{0, 3, 4},
		}},
		Complaints: []*streampb.Complaint{{Level: "warning", Message: "snapshot failed", Detail: "disk full", Count: 3, FirstMs: 1_510_000_111_000, LastMs: 1_510_000_122_000}},
	}}
	return m
}

func channelStatus() *streampb.Status {
	m := sampleStatus()
	m.Body = &streampb.Status_Channels{Channels: &streampb.ChannelReport{Source: "minknow", Run: "run-1", States: []byte("sspixu?"), Reads: 17, Samples: 1_234_567, Ended: true}}
	return m
}

func depthStatus() *streampb.Status {
	m := sampleStatus()
	m.Body = &streampb.Status_Depth{Depth: &streampb.DepthReport{
		Sample: "lambda", Contig: "J02459.1", ContigOrder: 1, ContigLength: 48_502, Region: 0, Start: 0, End: 48_502, Bin: 16_384, Depths: []uint32{257, 0, 300},
	}}
	return m
}

func modelsStatus() *streampb.Status {
	m := depthStatus()
	m.GetDepth().Models = []*streampb.ModelReads{{Reads: 3}, {Name: sampleModel().GetName(), Reads: 320}, {Name: "other", Reads: 7, Mismatch: true}}
	return m
}

// kindCodec is the codec of one kind of record without its Go type.
type kindCodec struct {
	kind   Kind
	empty  func() proto.Message
	encode func(proto.Message) ([]byte, error)
	decode func([]byte) (proto.Message, error)
}

func codecOf[M proto.Message](kind Kind, empty func() proto.Message, enc func(M) ([]byte, error), dec func([]byte) (M, error)) kindCodec {
	return kindCodec{
		kind: kind, empty: empty,
		encode: func(m proto.Message) ([]byte, error) { return enc(m.(M)) },
		decode: func(b []byte) (proto.Message, error) {
			m, err := dec(b)
			if err != nil {
				return nil, err
			}
			return m, nil
		},
	}
}

var (
	signalCodec   = codecOf(KindSignal, func() proto.Message { return new(streampb.SignalRecord) }, EncodeSignal, DecodeSignal)
	readsCodec    = codecOf(KindReads, func() proto.Message { return new(streampb.ReadRecord) }, EncodeReads, DecodeReads)
	calledCodec   = codecOf(KindCalled, func() proto.Message { return new(streampb.CalledRecord) }, EncodeCalled, DecodeCalled)
	callsCodec    = codecOf(KindCalls, func() proto.Message { return new(streampb.CallRecord) }, EncodeCalls, DecodeCalls)
	watchCodec    = codecOf(KindWatch, func() proto.Message { return new(streampb.WatchRecord) }, EncodeWatch, DecodeWatch)
	pushCodec     = codecOf(KindPush, func() proto.Message { return new(streampb.PushState) }, EncodePushState, DecodePushState)
	cursorCodec   = codecOf(KindCursor, func() proto.Message { return new(streampb.Cursor) }, EncodeCursor, DecodeCursor)
	decisionCodec = codecOf(KindDecision, func() proto.Message { return new(streampb.Decision) }, EncodeDecision, DecodeDecision)
	statusCodec   = codecOf(KindStatus, func() proto.Message { return new(streampb.Status) }, EncodeStatus, DecodeStatus)
	runsCodec     = codecOf(KindRuns, func() proto.Message { return new(streampb.Run) }, EncodeRun, DecodeRun)
)

type sampleRecord struct {
	name  string
	codec kindCodec
	msg   proto.Message
}

// sampleRecords has every kind of record with every field set.
func sampleRecords() []sampleRecord {
	return []sampleRecord{
		{"signal-run-start", signalCodec, &streampb.SignalRecord{Body: &streampb.SignalRecord_RunStart{RunStart: sampleMarker()}}},
		{"signal-chunk", signalCodec, &streampb.SignalRecord{Body: &streampb.SignalRecord_Chunk{Chunk: sampleChunk()}}},
		{"signal-run-end", signalCodec, &streampb.SignalRecord{Body: &streampb.SignalRecord_RunEnd{RunEnd: sampleMarker()}}},
		{"signal-run-timeout", signalCodec, &streampb.SignalRecord{Body: &streampb.SignalRecord_RunEnd{RunEnd: timeoutMarker()}}},
		{"reads-run-start", readsCodec, &streampb.ReadRecord{Body: &streampb.ReadRecord_RunStart{RunStart: sampleMarker()}}},
		{"reads-segment", readsCodec, &streampb.ReadRecord{Body: &streampb.ReadRecord_Segment{Segment: sampleSegment()}}},
		{"reads-partial", readsCodec, &streampb.ReadRecord{Body: &streampb.ReadRecord_Partial{Partial: partialSegment()}}},
		{"reads-withdrawal", readsCodec, &streampb.ReadRecord{Body: &streampb.ReadRecord_Withdrawal{Withdrawal: sampleWithdrawal()}}},
		{"reads-segment-model", readsCodec, &streampb.ReadRecord{Body: &streampb.ReadRecord_Segment{Segment: modelSegment()}}},
		{"reads-model", readsCodec, &streampb.ReadRecord{Body: &streampb.ReadRecord_Model{Model: sampleModel()}}},
		{"reads-segment-modified", readsCodec, &streampb.ReadRecord{Body: &streampb.ReadRecord_Segment{Segment: modifiedSegment()}}},
		{"reads-modified-calls", readsCodec, &streampb.ReadRecord{Body: &streampb.ReadRecord_ModifiedCalls{ModifiedCalls: sampleModifiedCalls()}}},
		{"reads-modified-places", readsCodec, &streampb.ReadRecord{Body: &streampb.ReadRecord_ModifiedPlaces{ModifiedPlaces: sampleModifiedPlaces()}}},
		{"reads-modified-motifs", readsCodec, &streampb.ReadRecord{Body: &streampb.ReadRecord_ModifiedMotifs{ModifiedMotifs: sampleModifiedMotifs()}}},
		{"reads-haplotypes", readsCodec, &streampb.ReadRecord{Body: &streampb.ReadRecord_ReadHaplotypes{ReadHaplotypes: sampleReadHaplotypes()}}},
		{"reads-haplotypes-known", readsCodec, &streampb.ReadRecord{Body: &streampb.ReadRecord_HaplotypesKnown{HaplotypesKnown: sampleHaplotypesKnown()}}},
		{"reads-run-controls", readsCodec, &streampb.ReadRecord{Body: &streampb.ReadRecord_RunEnd{RunEnd: controlledMarker()}}},
		{"reads-carry-over-query", readsCodec, &streampb.ReadRecord{Body: &streampb.ReadRecord_CarryOverQuery{CarryOverQuery: sampleCarryOverQuery()}}},
		{"reads-carry-over-report", readsCodec, &streampb.ReadRecord{Body: &streampb.ReadRecord_CarryOverReport{CarryOverReport: sampleCarryOverReport()}}},
		{"reads-carry-over-report-run", readsCodec, &streampb.ReadRecord{Body: &streampb.ReadRecord_CarryOverReport{CarryOverReport: runCarryOverReport()}}},
		{"reads-run-end", readsCodec, &streampb.ReadRecord{Body: &streampb.ReadRecord_RunEnd{RunEnd: sampleMarker()}}},
		{"reads-run-samples", readsCodec, &streampb.ReadRecord{Body: &streampb.ReadRecord_RunEnd{RunEnd: barcodedMarker()}}},
		{"called-run-start", calledCodec, &streampb.CalledRecord{Body: &streampb.CalledRecord_RunStart{RunStart: calledMarker()}}},
		{"called-read", calledCodec, &streampb.CalledRecord{Body: &streampb.CalledRecord_Read{Read: sampleCalled()}}},
		{"called-run-end", calledCodec, &streampb.CalledRecord{Body: &streampb.CalledRecord_RunEnd{RunEnd: calledMarker()}}},
		{"calls-run-start", callsCodec, &streampb.CallRecord{Body: &streampb.CallRecord_RunStart{RunStart: sampleMarker()}}},
		{"calls-call", callsCodec, &streampb.CallRecord{Body: &streampb.CallRecord_Call{Call: sampleCall()}}},
		{"calls-call-mismatch", callsCodec, &streampb.CallRecord{Body: &streampb.CallRecord_Call{Call: mismatchedCall()}}},
		{"calls-call-motif", callsCodec, &streampb.CallRecord{Body: &streampb.CallRecord_Call{Call: artefactCall()}}},
		{"calls-run-end", callsCodec, &streampb.CallRecord{Body: &streampb.CallRecord_RunEnd{RunEnd: sampleMarker()}}},
		{"calls-coverage", callsCodec, &streampb.CallRecord{Body: &streampb.CallRecord_Coverage{Coverage: sampleCoverage()}}},
		{"calls-coverage-counted", callsCodec, &streampb.CallRecord{Body: &streampb.CallRecord_Coverage{Coverage: countedCoverage()}}},
		{"calls-reference", callsCodec, &streampb.CallRecord{Body: &streampb.CallRecord_Reference{Reference: sampleReference()}}},
		{"calls-reference-provisional", callsCodec, &streampb.CallRecord{Body: &streampb.CallRecord_Reference{Reference: provisionalReference()}}},
		{"calls-carry-over", callsCodec, &streampb.CallRecord{Body: &streampb.CallRecord_CarryOver{CarryOver: sampleCarryOver()}}},
		{"calls-carry-over-end", callsCodec, &streampb.CallRecord{Body: &streampb.CallRecord_CarryOverEnd{CarryOverEnd: &streampb.CarryOverEnd{Run: "run-7"}}}},
		{"calls-carry-over-end-many", callsCodec, &streampb.CallRecord{Body: &streampb.CallRecord_CarryOverEnd{CarryOverEnd: &streampb.CarryOverEnd{Run: "run-7", TooMany: true}}}},
		{"watch-run-start", watchCodec, &streampb.WatchRecord{Body: &streampb.WatchRecord_RunStart{RunStart: sampleMarker()}, Panels: "sha256:3f1c"}},
		{"watch-variant", watchCodec, &streampb.WatchRecord{Body: &streampb.WatchRecord_Variant{Variant: []byte(`{"sample":"lambda","revision":3}`)}, Panels: "sha256:3f1c"}},
		{"watch-coverage", watchCodec, &streampb.WatchRecord{Body: &streampb.WatchRecord_Coverage{Coverage: sampleCoverage()}, Panels: "sha256:3f1c"}},
		{"watch-run-end", watchCodec, &streampb.WatchRecord{Body: &streampb.WatchRecord_RunEnd{RunEnd: sampleMarker()}, Panels: "sha256:3f1c"}},
		{"watch-methylation", watchCodec, &streampb.WatchRecord{Body: &streampb.WatchRecord_Methylation{Methylation: sampleMethylation()}, Panels: "sha256:3f1c"}},
		{"watch-methylation-end", watchCodec, &streampb.WatchRecord{Body: &streampb.WatchRecord_MethylationEnd{MethylationEnd: sampleMarker()}, Panels: "sha256:3f1c"}},
		{"runs-run", runsCodec, sampleRun()},
		{"cursors-cursor", cursorCodec, sampleCursor()},
		{"cursors-filtered", cursorCodec, filteredCursor()},
		{"cursors-push-whole", pushCodec, samplePushState(0)},
		{"cursors-push-change", pushCodec, samplePushState(3)},
		{"decisions-decision", decisionCodec, sampleDecision()},
		{"status-process", statusCodec, processStatus()},
		{"status-channels", statusCodec, channelStatus()},
		{"status-depth", statusCodec, depthStatus()},
		{"status-depth-models", statusCodec, modelsStatus()},
	}
}

// modifiedSegment has a 5mC at its third position, a C that is none at the next but one, and no calls of the other strand.
func modifiedSegment() *streampb.Segment {
	s := sampleSegment()
	s.Modified = []byte{1, 'C', 0xda, 0x01, 2, 2, 2, 37, 2, 28, 0, 0, 0}
	return s
}

func sampleModifiedCalls() *streampb.ModifiedCalls {
	return &streampb.ModifiedCalls{Source: 3, Sources: 12, Samples: []*streampb.SampleCalls{
		{Sample: "lambda", Runs: []string{"run-1", "run-2"}, Bases: []*streampb.BaseCalls{
			{Base: 0, Probabilities: []uint32{511}, Calls: []uint64{3}},
			{Base: 1, Probabilities: []uint32{301, 499, 511}, Calls: []uint64{1, 20, 1 << 40}},
		}},
		{Sample: "without", Runs: []string{"run-1"}},
	}}
}

func sampleModifiedPlaces() *streampb.ModifiedPlaces {
	return &streampb.ModifiedPlaces{Source: 3, Sources: 12, Sample: "lambda", Runs: []string{"run-1", "run-2"}, Part: 1, Parts: 2, Places: []*streampb.PlacesOf{
		{Code: 'm', Modified: []uint64{1, 1 << 40}, Others: []uint64{3, 3, 1<<58 - 1}},
		{Code: -21839, Others: []uint64{7}},
	}}
}

func sampleModifiedMotifs() *streampb.ModifiedMotifs {
	return &streampb.ModifiedMotifs{Sample: "lambda", Runs: []string{"run-1", "run-2"}, Motifs: []string{"GATC", "CCWGG"}}
}

func sampleReadHaplotypes() *streampb.ReadHaplotypes {
	return &streampb.ReadHaplotypes{
		Sample: "NA12878", Contig: "chr1", Region: 7, Of: 6, Part: 1, Parts: 2, Reads: []byte("0123456789abcdef0123456789abcdeg"),
		PhaseSets: []int64{6_000_001, 6_500_000}, Haplotypes: []uint32{1, 2}, Weights: []uint64{41_000, 1 << 40},
	}
}

func sampleHaplotypesKnown() *streampb.HaplotypesKnown {
	return &streampb.HaplotypesKnown{Source: 3, Sources: 12, Samples: []*streampb.SampleRuns{{Sample: "NA12878", Runs: []string{"run-1", "run-2"}}, {Sample: "NA24385", Runs: []string{"run-2"}}}}
}

// readHaplotypes and haplotypesKnown are these, changed.
func readHaplotypes(change func(*streampb.ReadHaplotypes)) sampleRecord {
	m := sampleReadHaplotypes()
	change(m)
	return sampleRecord{codec: readsCodec, msg: &streampb.ReadRecord{Body: &streampb.ReadRecord_ReadHaplotypes{ReadHaplotypes: m}}}
}

func haplotypesKnown(change func(*streampb.HaplotypesKnown)) sampleRecord {
	m := sampleHaplotypesKnown()
	change(m)
	return sampleRecord{codec: readsCodec, msg: &streampb.ReadRecord{Body: &streampb.ReadRecord_HaplotypesKnown{HaplotypesKnown: m}}}
}

// modifiedPlaces and modifiedMotifs are these, changed.
func modifiedPlaces(change func(*streampb.ModifiedPlaces)) sampleRecord {
	m := sampleModifiedPlaces()
	change(m)
	return sampleRecord{codec: readsCodec, msg: &streampb.ReadRecord{Body: &streampb.ReadRecord_ModifiedPlaces{ModifiedPlaces: m}}}
}

func modifiedMotifs(change func(*streampb.ModifiedMotifs)) sampleRecord {
	m := sampleModifiedMotifs()
	change(m)
	return sampleRecord{codec: readsCodec, msg: &streampb.ReadRecord{Body: &streampb.ReadRecord_ModifiedMotifs{ModifiedMotifs: m}}}
}

func controlledMarker() *streampb.Marker {
	m := barcodedMarker()
	m.Run.Controls = []*streampb.Control{{Sample: m.GetRun().GetSamples()[0], Kind: "negative_control"}, {Sample: m.GetRun().GetSamples()[1], Kind: "no_template_control"}}
	return m
}

func sampleCarryOverQuery() *streampb.CarryOverQuery {
	return &streampb.CarryOverQuery{Id: 77, Part: 1, Parts: 2, Samples: []string{"a", "water"}, Alleles: []*streampb.Alleles{
		{Contig: "chr1", Positions: []int64{0, 99}, Refs: []string{"", "A"}, Alts: []string{"GT", "C"}},
	}}
}

func sampleCarryOverReport() *streampb.CarryOverReport {
	return &streampb.CarryOverReport{
		Source: 3, Sources: 12, Query: 77, Part: 1, Parts: 2, Ended: []string{"run-6", "run-7"},
		Called: []*streampb.Alleles{{Contig: "chr1", Sample: "a", Positions: []int64{100}, Refs: []string{"A"}, Alts: []string{"C"}, VrsIds: []string{"ga4gh:VA.x"}}},
		Reads:  []*streampb.AlleleReads{{Sample: "a", Contig: "chr1", First: 1, Alt: []uint32{4}, Depth: []uint32{9}, Left: []uint32{2}}},
	}
}

// runCarryOverReport says which run its reads are of.
func runCarryOverReport() *streampb.CarryOverReport {
	m := sampleCarryOverReport()
	m.Reads[0].Run = "run-7"
	return m
}

// modifiedCalls is sampleModifiedCalls, changed.
func modifiedCalls(change func(*streampb.ModifiedCalls)) sampleRecord {
	m := sampleModifiedCalls()
	change(m)
	return sampleRecord{codec: readsCodec, msg: &streampb.ReadRecord{Body: &streampb.ReadRecord_ModifiedCalls{ModifiedCalls: m}}}
}

func mustEncode(t testing.TB, r sampleRecord) []byte {
	t.Helper()
	b, err := r.codec.encode(r.msg)
	if err != nil {
		t.Fatalf("%s: %v", r.name, err)
	}
	return b
}

func TestRoundTrip(t *testing.T) {
	for _, r := range sampleRecords() {
		got, err := r.codec.decode(mustEncode(t, r))
		if err != nil {
			t.Errorf("%s: %v", r.name, err)
		} else if !proto.Equal(got, r.msg) {
			t.Errorf("%s: got %v, want %v", r.name, got, r.msg)
		}
	}
}

// TestBitFlips flips every bit of every kind of record: damage is never taken
// for data, and never for a newer version.
func TestBitFlips(t *testing.T) {
	for _, r := range sampleRecords() {
		good := mustEncode(t, r)
		for bit := range len(good) * 8 {
			bad := append([]byte(nil), good...)
			bad[bit/8] ^= 1 << (bit % 8)
			want := CodeChecksum
			if bit < len(envelopeMagic)*8 {
				want = CodeForeign
			}
			if _, err := r.codec.decode(bad); err == nil || ErrorCode(err) != want {
				t.Fatalf("%s with bit %d of %d flipped: %v, want code %s", r.name, bit, len(good)*8, err, want)
			}
		}
	}
}

func TestTruncation(t *testing.T) {
	for _, r := range sampleRecords() {
		good := mustEncode(t, r)
		for n := range good {
			want := CodeChecksum
			switch {
			case n < len(envelopeMagic):
				want = CodeForeign
			case n < envelopeLen:
				want = CodeTruncated
			}
			if _, err := r.codec.decode(good[:n]); err == nil || ErrorCode(err) != want {
				t.Fatalf("%s cut to %d of %d bytes: %v, want code %s", r.name, n, len(good), err, want)
			}
		}
		if _, err := r.codec.decode(append(good, 0)); ErrorCode(err) != CodeChecksum || err == nil {
			t.Errorf("%s with a byte too many: %v, want code %s", r.name, err, CodeChecksum)
		}
	}
}

// seal makes an envelope around any payload, as a writer with other ideas would.
func seal(kind Kind, version byte, payload []byte) []byte {
	b := append([]byte{'P', 'S', byte(kind), version, 0, 0, 0, 0}, payload...)
	binary.LittleEndian.PutUint32(b[4:], envelopeChecksum(b))
	return b
}

func TestEnvelopeErrors(t *testing.T) {
	payload, err := proto.Marshal(sampleRun())
	if err != nil {
		t.Fatal(err)
	}
	unknownField := append([]byte{0xfa, 0x3f, 3, 'n', 'e', 'w'}, payload...) // field 1023
	for _, c := range []struct {
		name string
		in   []byte
		code string // empty: decodes
	}{
		{"nothing", nil, CodeForeign},
		{"JSON", []byte(`{"run": "run-1"}`), CodeForeign},
		{"bare protobuf", payload, CodeForeign},
		{"magic alone", []byte("PS"), CodeTruncated},
		{"another kind", seal(KindSignal, envelopeVersion, payload), CodeForeign},
		{"unknown kind", seal('z', envelopeVersion, payload), CodeForeign},
		{"newer version", seal(KindRuns, envelopeVersion+1, payload), CodeVersion},
		{"version 0", seal(KindRuns, 0, payload), CodeVersion},
		{"no protobuf", seal(KindRuns, envelopeVersion, []byte{0xff, 0xff, 0xff}), CodePayload},
		{"invalid UTF-8", seal(KindRuns, envelopeVersion, []byte{0x0a, 1, 0xff}), CodePayload},
		{"empty payload", seal(KindRuns, envelopeVersion, nil), CodeInvalid},
		{"too large", seal(KindRuns, envelopeVersion, make([]byte, MaxRecord+1)), CodeInvalid},
		{"field of a newer writer", seal(KindRuns, envelopeVersion, unknownField), ""},
	} {
		_, err := DecodeRun(c.in)
		switch {
		case c.code == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.code != "" && (err == nil || ErrorCode(err) != c.code || !IsBadRecord(err)):
			t.Errorf("%s: %v, want code %s", c.name, err, c.code)
		}
	}
}

// TestValidity breaks one rule at a time: neither side lets it pass.
func TestValidity(t *testing.T) {
	long := strings.Repeat("x", maxName+1)
	text := strings.Repeat("x", maxText+1)
	bases := strings.Repeat("A", maxAllele+1)
	signal := func(edit func(c *streampb.SignalChunk)) sampleRecord {
		c := sampleChunk()
		edit(c)
		return sampleRecord{codec: signalCodec, msg: &streampb.SignalRecord{Body: &streampb.SignalRecord_Chunk{Chunk: c}}}
	}
	reads := func(edit func(s *streampb.Segment)) sampleRecord {
		s := sampleSegment()
		edit(s)
		return sampleRecord{codec: readsCodec, msg: &streampb.ReadRecord{Body: &streampb.ReadRecord_Segment{Segment: s}}}
	}
	partial := func(edit func(*streampb.Segment)) sampleRecord {
		s := partialSegment()
		edit(s)
		return sampleRecord{codec: readsCodec, msg: &streampb.ReadRecord{Body: &streampb.ReadRecord_Partial{Partial: s}}}
	}
	withdrawal := func(edit func(*streampb.Withdrawal)) sampleRecord {
		w := sampleWithdrawal()
		edit(w)
		return sampleRecord{codec: readsCodec, msg: &streampb.ReadRecord{Body: &streampb.ReadRecord_Withdrawal{Withdrawal: w}}}
	}
	calls := func(edit func(c *streampb.Call)) sampleRecord {
		c := sampleCall()
		edit(c)
		return sampleRecord{codec: callsCodec, msg: &streampb.CallRecord{Body: &streampb.CallRecord_Call{Call: c}}}
	}
	coverage := func(edit func(c *streampb.Coverage)) sampleRecord {
		c := countedCoverage()
		edit(c)
		return sampleRecord{codec: callsCodec, msg: &streampb.CallRecord{Body: &streampb.CallRecord_Coverage{Coverage: c}}}
	}
	carryOverQuery := func(edit func(*streampb.CarryOverQuery)) sampleRecord {
		q := sampleCarryOverQuery()
		edit(q)
		return sampleRecord{codec: readsCodec, msg: &streampb.ReadRecord{Body: &streampb.ReadRecord_CarryOverQuery{CarryOverQuery: q}}}
	}
	carryOverReport := func(edit func(*streampb.CarryOverReport)) sampleRecord {
		m := sampleCarryOverReport()
		edit(m)
		return sampleRecord{codec: readsCodec, msg: &streampb.ReadRecord{Body: &streampb.ReadRecord_CarryOverReport{CarryOverReport: m}}}
	}
	carryOver := func(edit func(c *streampb.CarryOver)) sampleRecord {
		c := sampleCarryOver()
		edit(c)
		return sampleRecord{codec: callsCodec, msg: &streampb.CallRecord{Body: &streampb.CallRecord_CarryOver{CarryOver: c}}}
	}
	reference := func(edit func(r *streampb.Reference)) sampleRecord {
		r := sampleReference()
		edit(r)
		return sampleRecord{codec: callsCodec, msg: &streampb.CallRecord{Body: &streampb.CallRecord_Reference{Reference: r}}}
	}
	marker := func(edit func(m *streampb.Marker)) sampleRecord {
		m := sampleMarker()
		edit(m)
		return sampleRecord{codec: readsCodec, msg: &streampb.ReadRecord{Body: &streampb.ReadRecord_RunEnd{RunEnd: m}}}
	}
	run := func(edit func(r *streampb.Run)) sampleRecord {
		r := sampleRun()
		edit(r)
		return sampleRecord{codec: runsCodec, msg: r}
	}
	cursor := func(edit func(c *streampb.Cursor)) sampleRecord {
		c := sampleCursor()
		edit(c)
		return sampleRecord{codec: cursorCodec, msg: c}
	}
	decision := func(edit func(d *streampb.Decision)) sampleRecord {
		d := sampleDecision()
		edit(d)
		return sampleRecord{codec: decisionCodec, msg: d}
	}
	for _, c := range []struct {
		rec  sampleRecord
		want string // empty: valid
	}{
		{decision(func(d *streampb.Decision) { d.Run = "" }), "run is empty"},
		{decision(func(d *streampb.Decision) { d.ReadId = long }), "the limit is 512"},
		{decision(func(d *streampb.Decision) { d.Action = 0 }), "has action DECISION_ACTION_UNSPECIFIED"},
		{decision(func(d *streampb.Decision) { d.Action = 99 }), "has action 99"},
		{decision(func(d *streampb.Decision) { d.Channel = 0 }), "names no channel"},
		{decision(func(d *streampb.Decision) { d.Reason = text }), "reason has 4097 bytes"},
		{decision(func(d *streampb.Decision) { d.Policy = text }), "policy has 4097 bytes"},
		{decision(func(d *streampb.Decision) { d.Samples = maxReadSamples + 1 }), "samples, the limit is"},
		{decision(func(d *streampb.Decision) { d.LastChunkMs = -1 }), "chunk of time -1"},
		{decision(func(d *streampb.Decision) {
			d.Policy, d.Reason, d.Samples, d.LastChunkMs, d.ReadNumber = "", "", 0, 0, 0
		}), ""},

		{sampleRecord{codec: signalCodec, msg: &streampb.SignalRecord{}}, "neither a chunk nor a marker"},
		{sampleRecord{codec: readsCodec, msg: &streampb.ReadRecord{}}, "neither a segment nor a withdrawal nor a model's name nor calls, places or motifs of modified bases nor haplotypes nor of carry-over nor a marker"},
		{carryOverQuery(func(q *streampb.CarryOverQuery) { q.Id = 0 }), "without an id"},
		{carryOverQuery(func(q *streampb.CarryOverQuery) { q.Part = 2 }), "part 2 of 2"},
		{carryOverQuery(func(q *streampb.CarryOverQuery) { q.Parts = 0 }), "of 0 of what is asked"},
		{carryOverQuery(func(q *streampb.CarryOverQuery) { q.Samples = []string{"b", "a"} }), `"a" doesn't come behind "b"`},
		{carryOverQuery(func(q *streampb.CarryOverQuery) { q.Alleles[0].Contig = "" }), "contig is empty"},
		{carryOverQuery(func(q *streampb.CarryOverQuery) { q.Alleles[0].Refs = nil }), "2 positions of alleles on chr1 have 0 references"},
		{carryOverQuery(func(q *streampb.CarryOverQuery) { q.Alleles[0].Positions[1] = -1 }), "allele at -1 of chr1"},
		{carryOverQuery(func(q *streampb.CarryOverQuery) { q.Alleles[0].Alts[0] = "" }), "replaces 0 bases by 0"},
		{carryOverQuery(func(q *streampb.CarryOverQuery) { q.Alleles[0].Positions[0] = 100 }), "isn't in order"},
		{carryOverReport(func(m *streampb.CarryOverReport) { m.Source = 12 }), "partition 12 of 12"},
		{carryOverReport(func(m *streampb.CarryOverReport) { m.Part = 2 }), "part 2 of 2"},
		{carryOverReport(func(m *streampb.CarryOverReport) { m.Ended = []string{""} }), "run is empty"},
		{carryOverReport(func(m *streampb.CarryOverReport) { m.Query = 0 }), "no query asked for"},
		{carryOverReport(func(m *streampb.CarryOverReport) { m.Query, m.Called, m.Reads = 0, nil, nil }), ""},
		{carryOverReport(func(m *streampb.CarryOverReport) { m.Called[0].VrsIds = nil }), "and 0 ids"},
		{carryOverReport(func(m *streampb.CarryOverReport) { m.Called[0].Sample = "" }), "sample is empty"},
		{carryOverReport(func(m *streampb.CarryOverReport) { m.Called[0].Positions[0] = 0 }), "allele at 0"},
		{carryOverReport(func(m *streampb.CarryOverReport) { m.Reads[0].Depth = nil }), "at 0 alleles, of which 1"},
		{carryOverReport(func(m *streampb.CarryOverReport) { m.Reads[0].Alt[0] = 10 }), "10 of 9 reads of a"},
		{modifiedPlaces(func(m *streampb.ModifiedPlaces) { m.Runs = nil }), ""},
		{modifiedPlaces(func(m *streampb.ModifiedPlaces) { m.Source = 12 }), "of partition 12 of 12"},
		{modifiedPlaces(func(m *streampb.ModifiedPlaces) { m.Sample = "" }), "sample is empty"},
		{modifiedPlaces(func(m *streampb.ModifiedPlaces) { m.Runs = []string{"b", "a"} }), `run "a" doesn't come behind "b"`},
		{modifiedPlaces(func(m *streampb.ModifiedPlaces) { m.Part = 2 }), "part 2 of 2"},
		{modifiedPlaces(func(m *streampb.ModifiedPlaces) { m.Places[0].Code = 0 }), "code 0"},
		{modifiedPlaces(func(m *streampb.ModifiedPlaces) { m.Places[0].Others[2]++ }), "more than 29 bases"},
		{modifiedPlaces(func(m *streampb.ModifiedPlaces) { m.Places[0].Modified[0] = 1 << 41 }), "aren't ascending"},
		{modifiedMotifs(func(m *streampb.ModifiedMotifs) { m.Runs, m.Motifs = nil, nil }), ""},
		{modifiedMotifs(func(m *streampb.ModifiedMotifs) { m.Sample = "" }), "sample is empty"},
		{modifiedMotifs(func(m *streampb.ModifiedMotifs) { m.Runs = []string{""} }), "run is empty"},
		{modifiedMotifs(func(m *streampb.ModifiedMotifs) { m.Motifs[1] = "GAXC" }), "it has 4 letters, and 1 to 64 of IUPAC's"},
		{modifiedMotifs(func(m *streampb.ModifiedMotifs) { m.Motifs = make([]string, 4097) }), "4097 motifs"},
		{readHaplotypes(func(m *streampb.ReadHaplotypes) {
			m.Reads, m.Haplotypes, m.Weights, m.PhaseSets = nil, nil, nil, nil
		}), ""},
		{readHaplotypes(func(m *streampb.ReadHaplotypes) { m.Sample = "" }), "sample is empty"},
		{readHaplotypes(func(m *streampb.ReadHaplotypes) { m.Contig = "" }), "contig is empty"},
		{readHaplotypes(func(m *streampb.ReadHaplotypes) { m.Part = 2 }), "part 2 of 2"},
		{readHaplotypes(func(m *streampb.ReadHaplotypes) { m.Of = 9 }), "region 9 isn't beside it"},
		{readHaplotypes(func(m *streampb.ReadHaplotypes) { m.Of = math.MaxUint32 }), "isn't beside it"},
		{readHaplotypes(func(m *streampb.ReadHaplotypes) { m.Reads = m.Reads[1:] }), "2 haplotypes, 31 bytes of reads and 2 weights"},
		{readHaplotypes(func(m *streampb.ReadHaplotypes) { m.Weights = nil }), "and 0 weights"},
		{readHaplotypes(func(m *streampb.ReadHaplotypes) { m.PhaseSets[0] = 0 }), "phase set 0 is none"},
		{readHaplotypes(func(m *streampb.ReadHaplotypes) { m.PhaseSets[1] = 1 }), "not ascending"},
		{readHaplotypes(func(m *streampb.ReadHaplotypes) { m.Haplotypes[0] = 4 }), "phase set 2 of 2"},
		{readHaplotypes(func(m *streampb.ReadHaplotypes) { m.Reads[31] = 'f' }), "reads aren't ascending"},
		{haplotypesKnown(func(m *streampb.HaplotypesKnown) { m.Source = 12 }), "known to partition 12 of 12"},
		{haplotypesKnown(func(m *streampb.HaplotypesKnown) { m.Samples[1].Runs = nil }), "it has no runs"},
		{haplotypesKnown(func(m *streampb.HaplotypesKnown) { m.Samples[0].Runs[0] = "run-3" }), `"run-2" doesn't come behind "run-3"`},
		{haplotypesKnown(func(m *streampb.HaplotypesKnown) { m.Samples[1].Sample = "A" }), `sample "A" doesn't come behind`},
		{modifiedCalls(func(*streampb.ModifiedCalls) {}), ""},
		{modifiedCalls(func(m *streampb.ModifiedCalls) { m.Source = 12 }), "of partition 12 of 12"},
		{modifiedCalls(func(m *streampb.ModifiedCalls) { m.Source, m.Sources = 0, 0 }), "of partition 0 of 0"},
		{modifiedCalls(func(m *streampb.ModifiedCalls) { m.Samples[0].Sample = "" }), "sample is empty"},
		{modifiedCalls(func(m *streampb.ModifiedCalls) { m.Samples[0].Runs = nil }), "its 0 runs"},
		{modifiedCalls(func(m *streampb.ModifiedCalls) { m.Samples[0].Runs = []string{"b", "a"} }), "not ascending"},
		{modifiedCalls(func(m *streampb.ModifiedCalls) { m.Samples[0].Bases[1].Base = 0 }), "base 0"},
		{modifiedCalls(func(m *streampb.ModifiedCalls) { m.Samples[0].Bases[1].Base = 4 }), "base 4"},
		{modifiedCalls(func(m *streampb.ModifiedCalls) { m.Samples[0].Bases[0].Calls = nil }), "1 probabilities with 0 counts"},
		{modifiedCalls(func(m *streampb.ModifiedCalls) { m.Samples[0].Bases[1].Probabilities[2] = 1024 }), "3 probabilities"},
		{sampleRecord{codec: callsCodec, msg: &streampb.CallRecord{}}, "neither a call nor coverage nor blocks nor a marker"},
		{reference(func(*streampb.Reference) {}), ""},
		{reference(func(r *streampb.Reference) { r.Blocks, r.Callable = nil, nil }), ""},
		{reference(func(r *streampb.Reference) { r.Sample = "" }), "sample is empty"},
		{reference(func(r *streampb.Reference) { r.Revision = 0 }), "has revision 0"},
		{reference(func(r *streampb.Reference) { r.End = r.Start }), "has revision 391"},
		{reference(func(r *streampb.Reference) { r.End = r.Start + maxCoverage + 1 }), "has revision 391"},
		{reference(func(r *streampb.Reference) { r.Blocks[1].Start-- }), ""},
		{reference(func(r *streampb.Reference) { r.Blocks[1].Start -= 2 }), "has a block 37587-41000"},
		{reference(func(r *streampb.Reference) { r.Blocks[0].Start-- }), "has a block 36863-37588"},
		{reference(func(r *streampb.Reference) { r.Blocks[1].End = r.Blocks[1].Start }), "has a block"},
		{reference(func(r *streampb.Reference) { r.Blocks[0].PhredLikelihoods = []uint32{0} }), "with 1 likelihoods"},
		{reference(func(r *streampb.Reference) { r.Callable[1].Callability = 0 }), "of callability CALLABILITY_UNSPECIFIED"},
		{reference(func(r *streampb.Reference) { r.Callable[1].Callability = 6 }), "of callability 6"},
		{reference(func(r *streampb.Reference) { r.Callable[1].Start = r.End }), "has a span 40960-41000"},
		{sampleRecord{codec: watchCodec, msg: &streampb.WatchRecord{Panels: "p"}}, "neither a variant nor coverage nor methylation nor a marker"},
		{sampleRecord{codec: watchCodec, msg: &streampb.WatchRecord{Body: &streampb.WatchRecord_Variant{}}}, "variant is empty"},
		{sampleRecord{codec: watchCodec, msg: &streampb.WatchRecord{Panels: text, Body: &streampb.WatchRecord_Variant{Variant: []byte("{}")}}}, "panels has 4097 bytes"},
		{sampleRecord{codec: watchCodec, msg: &streampb.WatchRecord{Body: &streampb.WatchRecord_Coverage{}}}, "sample is empty"},
		{sampleRecord{codec: watchCodec, msg: &streampb.WatchRecord{Body: &streampb.WatchRecord_RunEnd{RunEnd: &streampb.Marker{}}}}, "run is empty"},
		{sampleRecord{codec: watchCodec, msg: &streampb.WatchRecord{Body: &streampb.WatchRecord_MethylationEnd{MethylationEnd: &streampb.Marker{}}}}, "run is empty"},
		{methylation(func(m *streampb.Methylation) { m.Sample = "" }), "sample is empty"},
		{methylation(func(m *streampb.Methylation) { m.End = m.Start }), "methylation of chr1 from 4096 to 4096"},
		{methylation(func(m *streampb.Methylation) { m.Revision = 0 }), "has revision 0"},
		{methylation(func(m *streampb.Methylation) { m.Calls = m.Calls[1:] }), "has 3 positions, 3 counts of modified calls and 2 of calls"},
		{methylation(func(m *streampb.Methylation) { m.Places[2] = 2 * 4096 }), "has 2 of 2 calls at place 8192"},
		{methylation(func(m *streampb.Methylation) { m.Places[1] = m.Places[0] }), "has 0 of 8 calls at place 20"},
		{methylation(func(m *streampb.Methylation) { m.Modified[0] = 10 }), "has 10 of 9 calls at place 20"},

		{run(func(r *streampb.Run) { r.Id = "" }), "run is empty"},
		{run(func(r *streampb.Run) { r.Id = long }), "the limit is 512"},
		{run(func(r *streampb.Run) { r.Id = long[1:] }), ""},
		{run(func(r *streampb.Run) { r.Sample = "" }), "sample is empty"},
		{run(func(r *streampb.Run) { r.Sample = "run\x00fake" }), "control character"},
		{run(func(r *streampb.Run) { r.Sample = "a\nb" }), "control character"},
		{run(func(r *streampb.Run) { r.Sample = "Probe Nº 7/ä" }), ""},
		{run(func(r *streampb.Run) { r.SampleRate = 0 }), "sample rate of 0 Hz"},
		{run(func(r *streampb.Run) { r.SampleRate = 1_000_001 }), "sample rate of 1000001 Hz"},
		{run(func(r *streampb.Run) { r.SampleRate = 1_000_000 }), ""},

		{run(func(r *streampb.Run) { r.Experiment = text }), "experiment has 4097 bytes, the limit is 4096"},
		{run(func(r *streampb.Run) { r.PoreType = text[1:] }), ""},
		{marker(func(m *streampb.Marker) { m.Run.Device = text }), "device has 4097 bytes"},

		{marker(func(m *streampb.Marker) { m.Run = nil }), "run is empty"},
		{marker(func(m *streampb.Marker) { m.Run.SampleRate = 0 }), "sample rate"},
		{marker(func(m *streampb.Marker) { m.Sources = 0 }), "source 2 of 0"},
		{marker(func(m *streampb.Marker) { m.Source = 4 }), "source 4 of 4"},
		{marker(func(m *streampb.Marker) { m.Sources = maxSources + 1 }), "of 100001"},
		{marker(func(m *streampb.Marker) { m.Source, m.Sources = 0, 1 }), ""},
		{marker(func(m *streampb.Marker) { m.LastOffset = -1 }), "behind offset -1"},
		{marker(func(m *streampb.Marker) { m.EndStatus = 17 }), ""}, // of a later version

		{signal(func(c *streampb.SignalChunk) { c.Run = "" }), "run is empty"},
		{signal(func(c *streampb.SignalChunk) { c.ReadId = "" }), "read id is empty"},
		{signal(func(c *streampb.SignalChunk) { c.ReadId = long }), "the limit is 512"},
		{signal(func(c *streampb.SignalChunk) { c.SampleCount = MaxChunkSamples + 1 }), "the limit is 300000"},
		{signal(func(c *streampb.SignalChunk) { c.SampleCount = MaxChunkSamples }), ""},
		{signal(func(c *streampb.SignalChunk) { c.SampleCount, c.EndOfRead = 0, false }), "without samples"},
		{signal(func(c *streampb.SignalChunk) { c.SampleCount, c.EndOfRead = 0, true }), ""},
		{signal(func(c *streampb.SignalChunk) { c.FirstSample = math.MaxUint64 }), "begins at its sample 18446744073709551615"},
		{signal(func(c *streampb.SignalChunk) { c.FirstSample = maxReadSamples }), ""},

		{signal(func(c *streampb.SignalChunk) { c.EndReason = text }), "end reason has 4097 bytes"},

		{reads(func(s *streampb.Segment) { s.Run = "" }), "run is empty"},
		{reads(func(s *streampb.Segment) { s.Sample = "" }), "sample is empty"},
		{reads(func(s *streampb.Segment) { s.ReadId = "" }), "read id is empty"},
		{reads(func(s *streampb.Segment) { s.Partial = 1 }), "was published 1 times before its end, and 0 to 0 are possible"},
		{partial(func(s *streampb.Segment) { s.Partial = 0 }), "was published 0 times before its end, and 1 to 64 are possible"},
		{partial(func(s *streampb.Segment) { s.Partial = 65 }), "was published 65 times"},
		{partial(func(s *streampb.Segment) { s.Contig = "" }), "contig is empty"},
		{withdrawal(func(w *streampb.Withdrawal) { w.Sample = "" }), "sample is empty"},
		{withdrawal(func(w *streampb.Withdrawal) { w.ReadId = "a\tb" }), "holds a control character"},
		{reads(func(s *streampb.Segment) { s.Contig = "" }), "contig is empty"},

		{calls(func(c *streampb.Call) { c.Sample = "" }), "sample is empty"},
		{calls(func(c *streampb.Call) { c.VrsId = "" }), "allele id is empty"},
		{calls(func(c *streampb.Call) { c.Contig = "" }), "contig is empty"},
		{calls(func(c *streampb.Call) { c.Pos = 0 }), "J02459.1:0"},
		{calls(func(c *streampb.Call) { c.Ref = "" }), `replaces ""`},
		{calls(func(c *streampb.Call) { c.Alt = "" }), `by ""`},
		{calls(func(c *streampb.Call) { c.Revision = 0 }), "no revision number"},
		{calls(func(c *streampb.Call) { c.Status = 0 }), "CALL_STATUS_UNSPECIFIED"},
		{calls(func(c *streampb.Call) { c.Status = 6 }), "status 6"},
		{calls(func(c *streampb.Call) { c.Qual = math.NaN() }), "QUAL NaN"},
		{calls(func(c *streampb.Call) { c.Qual = math.Inf(1) }), "QUAL +Inf"},
		{calls(func(c *streampb.Call) { c.Ref = bases }), "replaces 100001 bases by 1, the limit is 100000"},
		{calls(func(c *streampb.Call) { c.Alt = bases[1:] }), ""},
		{calls(func(c *streampb.Call) { c.Reason = text }), "reason has 4097 bytes"},
		{calls(func(c *streampb.Call) { c.Filters = []string{long} }), "filter has 513 bytes"},
		{calls(func(c *streampb.Call) { c.Filters = slices.Repeat([]string{"f"}, maxListed+1) }), "has 65 filters"},
		{calls(func(c *streampb.Call) { c.Genotype = make([]uint32, maxListed+1) }), "a genotype of 65"},
		{calls(func(c *streampb.Call) { c.Genotype = []uint32{1, 2} }), "genotype [1 2] and 0 other alleles"},
		{calls(func(c *streampb.Call) { c.Others = make([]*streampb.OtherAllele, 1) }), "another allele at 0 that replaces 0 bases by 0"},
		{calls(func(c *streampb.Call) { c.PhredLikelihoods = make([]uint32, maxListed+1) }), "65 likelihoods"},
		{calls(func(c *streampb.Call) { c.PhaseSet = -1 }), "phase set -1"},
		{calls(func(c *streampb.Call) { c.Motif = &streampb.MotifError{Motif: "CCXGG", Base: 1, Shows: "T"} }), "IUPAC letters"},
		{calls(func(c *streampb.Call) { c.Motif = &streampb.MotifError{Motif: "CCWGG", Base: 6, Shows: "T"} }), "base 6 of motif CCWGG"},
		{calls(func(c *streampb.Call) {
			c.Motif = &streampb.MotifError{Motif: strings.Repeat("C", 32), Base: 32, Shows: "T", Sites: 4, Affected: 3, Reads: 9, Wrong: 3}
		}), ""},
		{calls(func(c *streampb.Call) { c.Motif = &streampb.MotifError{Motif: strings.Repeat("C", 33)} }), "not 1 to 32 IUPAC letters"},
		{calls(func(c *streampb.Call) { c.Motif = &streampb.MotifError{Motif: "CCWGG", Base: 1, Shows: "TT"} }), "base 1 of motif CCWGG"},
		{calls(func(c *streampb.Call) {
			c.Motif = &streampb.MotifError{Motif: "CCWGG", Base: 2, Shows: "T", Sites: 3, Affected: 4, Reads: 9, Wrong: 3}
		}), "at 4 of 3 sites"},
		{calls(func(c *streampb.Call) { c.ModelMismatch = []string{""} }), "basecalling model is empty"},
		{calls(func(c *streampb.Call) { c.ModelMismatch = slices.Repeat([]string{"m"}, maxListed+1) }), "names 65 basecalling models"},
		{calls(func(c *streampb.Call) { c.Run = "" }), ""}, // a retraction may be of no run

		{carryOverReport(func(m *streampb.CarryOverReport) { m.Reads[0].Run = strings.Repeat("r", 513) }), "run has 513 bytes"},
		{carryOver(func(c *streampb.CarryOver) { c.Run = "" }), "run is empty"},
		{carryOver(func(c *streampb.CarryOver) { c.Sample = "" }), "sample is empty"},
		{carryOver(func(c *streampb.CarryOver) { c.Contig = long }), "contig has 513 bytes"},
		{carryOver(func(c *streampb.CarryOver) { c.Basis = "" }), "basis is empty"},
		{carryOver(func(c *streampb.CarryOver) { c.Control = "" }), ""},
		{carryOver(func(c *streampb.CarryOver) { c.Control = text }), "control has 4097 bytes"},
		{carryOver(func(c *streampb.CarryOver) { c.Pos = 0 }), "carry-over of an allele at 0"},
		{carryOver(func(c *streampb.CarryOver) { c.Alt = "" }), "that replaces 1 bases by 0"},
		{carryOver(func(c *streampb.CarryOver) { c.Share = math.NaN() }), "has a share of NaN"},
		{carryOver(func(c *streampb.CarryOver) { c.Share = 1.1 }), "has a share of 1.1"},
		{carryOver(func(c *streampb.CarryOver) { c.ControlAlt = 4 }), "4 of 3 reads of the control show it"},
		{sampleRecord{codec: callsCodec, msg: &streampb.CallRecord{Body: &streampb.CallRecord_CarryOverEnd{CarryOverEnd: new(streampb.CarryOverEnd)}}}, "run is empty"},

		{coverage(func(c *streampb.Coverage) { c.Sample = "" }), "sample is empty"},
		{coverage(func(c *streampb.Coverage) { c.Contig = "" }), "contig is empty"},
		{coverage(func(c *streampb.Coverage) { c.Panels = text }), "panels has 4097 bytes"},
		{coverage(func(c *streampb.Coverage) { c.Start = -1 }), "from -1 to 37888"},
		{coverage(func(c *streampb.Coverage) { c.End = c.Start }), "from 36864 to 36864"},
		{coverage(func(c *streampb.Coverage) { c.Start, c.End = math.MaxInt64-1024, math.MaxInt64 }), "from 9223372036854774783"},
		{coverage(func(c *streampb.Coverage) { c.End, c.Lengths[0] = c.Start+maxCoverage+1, maxCoverage+1-24 }), "from 36864 to 1085441"},
		{coverage(func(c *streampb.Coverage) { c.End, c.Lengths[0] = c.Start+maxCoverage, maxCoverage-24 }), ""},
		{coverage(func(c *streampb.Coverage) { c.Revision = 0 }), "no revision number"},
		{coverage(func(c *streampb.Coverage) { c.Depths = c.Depths[1:] }), "3 lengths and 2 depths"},
		{coverage(func(c *streampb.Coverage) { c.Lengths[1] = 0 }), "an empty block"},
		{coverage(func(c *streampb.Coverage) { c.Lengths[2]++ }), "blocks of 1025 positions"},
		{coverage(func(c *streampb.Coverage) { c.Lengths, c.Depths = nil, nil }), "blocks of 0 positions"},
		{coverage(func(c *streampb.Coverage) { c.Shown[0].Pos = 0 }), "cH\" at 0"},
		{coverage(func(c *streampb.Coverage) { c.Shown[0].Alt = "A" }), "at 37589, or \"A\" in place of"},
		{coverage(func(c *streampb.Coverage) { c.Shown[1].Ref = "" }), "\"\" at 37742"},
		{coverage(func(c *streampb.Coverage) { c.Shown[1].Named = text }), "named has 4097 bytes"},
		{coverage(func(c *streampb.Coverage) { c.Shown[1].Ref = strings.Repeat("A", maxAllele+1) }), "at 37742"},
		{coverage(func(c *streampb.Coverage) { c.Shown[0].Forward, c.Shown[0].Reverse = math.MaxUint32, 2 }), "4294967295 and 2 reads of 24 at 37589"},
		{coverage(func(c *streampb.Coverage) { c.Counted, c.Shown = false, nil }), ""}, // by an earlier version

		{cursor(func(c *streampb.Cursor) { c.Run = "" }), "run is empty"},
		{cursor(func(c *streampb.Cursor) { c.Sample = "" }), "sample is empty"},
		{cursor(func(c *streampb.Cursor) { c.Digest = c.Digest[1:] }), "digest of 31 bytes"},
		{cursor(func(c *streampb.Cursor) { c.Owner = nil }), "owner of 0 bytes"},
		{cursor(func(c *streampb.Cursor) { c.Next = 1<<62 + 1 }), "cursor after 4611686018427387905 events"},
		{cursor(func(c *streampb.Cursor) { c.Next = 0 }), "ended before its first event"},
		{cursor(func(c *streampb.Cursor) { c.Next, c.Ended = 0, false }), ""},
		{cursor(func(c *streampb.Cursor) { c.ChunkSamples = 0 }), "chunks of 0 samples"},
		{cursor(func(c *streampb.Cursor) { c.ChunkSamples = MaxChunkSamples + 1 }), "chunks of 300001 samples"},
		{cursor(func(c *streampb.Cursor) { c.Partitions = 0 }), "signal topic of 0 partitions"},
	} {
		payload, err := proto.Marshal(c.rec.msg)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.rec.codec.decode(seal(c.rec.codec.kind, envelopeVersion, payload))
		_, encodeErr := c.rec.codec.encode(c.rec.msg)
		if c.want == "" {
			if err != nil || encodeErr != nil {
				t.Errorf("%v: decoding: %v, encoding: %v", c.rec.msg, err, encodeErr)
			}
			continue
		}
		if err == nil || ErrorCode(err) != CodeInvalid || !strings.Contains(err.Error(), c.want) {
			t.Errorf("decoding: %v, want %s: ...%s...", err, CodeInvalid, c.want)
		}
		if encodeErr == nil || !strings.Contains(encodeErr.Error(), c.want) {
			t.Errorf("encoding: %v, want ...%s...", encodeErr, c.want)
		}
		if IsBadRecord(encodeErr) {
			t.Errorf("encoding: %v counts as a bad input record", encodeErr)
		}
	}
}

func TestEncodeRefusesWhatNoRecordHolds(t *testing.T) {
	s := sampleSegment()
	rec := &streampb.ReadRecord{Body: &streampb.ReadRecord_Segment{Segment: s}}
	s.Qualities = nil
	s.Dwells = make([]byte, MaxRecord-proto.Size(rec)-8)
	b, err := EncodeReads(rec)
	if err != nil {
		t.Fatalf("below the limit: %v", err)
	}
	if _, err := DecodeReads(b); err != nil {
		t.Fatalf("below the limit: %v", err)
	}
	s.Dwells = make([]byte, MaxRecord)
	var tooLarge *RecordTooLargeError
	if _, err := EncodeReads(rec); !errors.As(err, &tooLarge) || tooLarge.Limit != MaxRecord || tooLarge.Bytes <= MaxRecord {
		t.Fatalf("above the limit: %v", err)
	}
}

func TestErrorCode(t *testing.T) {
	if code := ErrorCode(errors.New("any")); code != CodeInvalid {
		t.Errorf("code of any error: %q", code)
	}
	if IsBadRecord(errors.New("any")) || IsBadRecord(nil) {
		t.Error("only DecodeErrors are bad records")
	}
}

// Decoders of what arrives from outside hold three promises: they don't panic,
// what they refuse has a reason code, and what they take encodes to a record
// that says the same.
func fuzzDecode(f *testing.F, codec kindCodec) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, r := range sampleRecords() {
		good := mustEncode(f, r)
		f.Add(good)
		f.Add(good[:rng.IntN(len(good))])
		bad := append([]byte(nil), good...)
		bad[rng.IntN(len(bad))] ^= 0x40
		f.Add(bad)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		check := func(b []byte) {
			m, err := codec.decode(b)
			if err != nil {
				if !IsBadRecord(err) {
					t.Fatalf("error without a reason code: %v", err)
				}
				return
			}
			again, err := codec.encode(m)
			if err != nil {
				t.Fatalf("decoded record doesn't encode: %v", err)
			}
			m2, err := codec.decode(again)
			if err != nil {
				t.Fatalf("decoded record doesn't decode again: %v", err)
			}
			if !proto.Equal(m, m2) {
				t.Fatalf("record changed from %v to %v", m, m2)
			}
		}
		check(b)
		if len(b) > envelopeLen { // get past the checksum
			check(seal(codec.kind, envelopeVersion, b[envelopeLen:]))
		}
	})
}

func FuzzDecodeSignal(f *testing.F)   { fuzzDecode(f, signalCodec) }
func FuzzDecodeReads(f *testing.F)    { fuzzDecode(f, readsCodec) }
func FuzzDecodeCalled(f *testing.F)   { fuzzDecode(f, calledCodec) }
func FuzzDecodeCalls(f *testing.F)    { fuzzDecode(f, callsCodec) }
func FuzzDecodeWatch(f *testing.F)    { fuzzDecode(f, watchCodec) }
func FuzzDecodeRun(f *testing.F)      { fuzzDecode(f, runsCodec) }
func FuzzDecodeCursor(f *testing.F)   { fuzzDecode(f, cursorCodec) }
func FuzzDecodeStatus(f *testing.F)   { fuzzDecode(f, statusCodec) }
func FuzzDecodeDecision(f *testing.F) { fuzzDecode(f, decisionCodec) }

func BenchmarkDecodeSignal(b *testing.B) {
	c := sampleChunk()
	c.Vbz = make([]byte, 5000)
	c.SampleCount = 4000
	value, err := EncodeSignal(&streampb.SignalRecord{Body: &streampb.SignalRecord_Chunk{Chunk: c}})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeSignal(value); err != nil {
			b.Fatal(err)
		}
	}
}
