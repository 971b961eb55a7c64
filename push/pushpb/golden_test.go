package pushpb_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/push/pushpb"
)

var update = flag.Bool("update", false, "write the golden files")

// TestGolden: the contract as bytes, with every field set. What devices in the
// field send must be read for ever as it is now.
func TestGolden(t *testing.T) {
	chunk := func(packed bool) *pushpb.PushRequest {
		c := &pushpb.Chunk{
			Sequence: 1 << 40, Channel: 512, ReadId: "read", ReadStart: 1 << 33, ReadNumber: 7, Well: 2, Number: 3, FirstSample: 12_000, SampleCount: 2,
			Samples: &pushpb.Chunk_Int16{Int16: []byte{1, 2, 3, 4}}, CalibrationOffset: -10, CalibrationScale: 0.25, EndOfRead: true, EndReason: "signal_positive",
			Skipped: 100, PreviousLost: true,
		}
		if packed {
			c.Samples = &pushpb.Chunk_Vbz{Vbz: []byte{5, 6}}
		}
		return &pushpb.PushRequest{Body: &pushpb.PushRequest_Chunk{Chunk: c}}
	}
	ack := &pushpb.Ack{Durable: 300, Committed: 299, Ended: true}
	for name, m := range map[string]proto.Message{
		"register_request": &pushpb.RegisterRequest{Run: &pushpb.Run{
			Id: "run", Sample: "s", SampleRate: 5000, Experiment: "e", FlowCell: "f", FlowCellProduct: "p", Kit: "k", Position: "x", Device: "d", PoreType: "t", StartTimeMs: 1_700_000_000_000,
		}},
		"register_response": &pushpb.RegisterResponse{Limits: &pushpb.Limits{
			MaxChunkSamples: 300_000, MaxMessageBytes: 1 << 20, BytesPerSecond: 9, Channels: 10, OpenReads: 11, Runs: 12,
		}},
		"open":        &pushpb.PushRequest{Body: &pushpb.PushRequest_Open{Open: &pushpb.Open{Run: "run", Session: []byte("session")}}},
		"chunk_int16": chunk(false),
		"chunk_vbz":   chunk(true),
		"end":         &pushpb.PushRequest{Body: &pushpb.PushRequest_End{End: &pushpb.End{Chunks: 300, Unfinished: true}}},
		"opened":      &pushpb.PushResponse{Body: &pushpb.PushResponse_Opened{Opened: &pushpb.Opened{Next: 301, Ack: ack}}},
		"ack":         &pushpb.PushResponse{Body: &pushpb.PushResponse_Ack{Ack: ack}},
		"notice":      &pushpb.PushResponse{Body: &pushpb.PushResponse_Notice{Notice: &pushpb.Notice{Reason: pushpb.Reason_REASON_DISK_FULL, Message: "m"}}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", name+".hex")
			got, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(path, []byte(hex.EncodeToString(got)+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			want, err := hex.DecodeString(string(bytes.TrimSpace(text)))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("written as %x, want %x", got, want)
			}
			read := m.ProtoReflect().New().Interface()
			if err := proto.Unmarshal(want, read); err != nil || !proto.Equal(read, m) {
				t.Errorf("read as %v, %v", read, err)
			}
			if len(read.ProtoReflect().GetUnknown()) > 0 {
				t.Error("fields that are not in the contract any more")
			}
		})
	}
}

// TestReasons: names and numbers of reasons stay, for they are what programs go by.
func TestReasons(t *testing.T) {
	for n, want := range []string{
		"UNSPECIFIED", "WRONG_TOKEN", "EXPIRED_TOKEN", "WRONG_CERTIFICATE", "EXPIRED_CERTIFICATE", "OTHER_DEVICE", "OVER_QUOTA", "UNKNOWN_RUN",
		"CONFLICTING_RUN", "ENDED_RUN", "CLOCK_BACKWARDS", "GAP", "OUT_OF_SEQUENCE", "BAD_CHUNK", "BAD_RUN", "BAD_REQUEST", "TOO_BIG", "DISK_FULL",
		"KAFKA_AWAY", "TAKEN_OVER", "STOPPING", "FAILED",
	} {
		if got := pushpb.Reason(n).String(); got != "REASON_"+want {
			t.Errorf("reason %d is %s, want %s", n, got, want)
		}
	}
}
