package sequencer

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/ingest/minknow/minknowpb"
)

// sequenced is a sequencer whose run began some time ago.
func sequenced(t *testing.T, ago, patience time.Duration) *Sequencer {
	t.Helper()
	cell := Cell{Channels: 300, Rate: 5000, Chunk: 4000, Samples: 30_001, Levels: make([]int16, 50_000)}
	s, err := Start(Config{Cell: cell, Pace: 1, Patience: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	s.start = time.Now().Add(-ago)
	return s
}

func TestGive(t *testing.T) {
	s := sequenced(t, time.Hour, 2*time.Hour)
	got := make(map[uint32]uint64)
	over, err := s.give(func(m *minknowpb.GetLiveReadsResponse) error {
		if n := proto.Size(m); n > 2*maxMessage {
			t.Errorf("a message of %d bytes", n)
		}
		for channel, c := range m.GetChannels() {
			if c.GetChunkStartSample() != got[channel] || uint64(len(c.GetRawData())) != 2*c.GetChunkLength() {
				t.Errorf("channel %d: %d bytes for %d samples from %d on, behind %d", channel, len(c.GetRawData()), c.GetChunkLength(), c.GetChunkStartSample(), got[channel])
			}
			got[channel] += c.GetChunkLength()
		}
		return nil
	})
	if err != nil || !over {
		t.Fatalf("over: %v, %v", over, err)
	}
	<-s.Finished()
	r := s.Report()
	for i, ch := range r.Given {
		if n := got[uint32(i+1)]; n != 30_001 || ch.Samples != n {
			t.Errorf("channel %d: %d samples have come, and %d were counted", i+1, n, ch.Samples)
		}
	}
	if r.Skipped != 0 || r.Late < 59*time.Minute {
		t.Errorf("%d skipped, %v late", r.Skipped, r.Late)
	}
}

// TestSkip: what has waited for too long is left out and counted.
func TestSkip(t *testing.T) {
	s := sequenced(t, time.Hour, time.Minute)
	over, err := s.give(func(*minknowpb.GetLiveReadsResponse) error { return errors.New("something was sent") })
	if err != nil || !over {
		t.Fatalf("over: %v, %v", over, err)
	}
	if r := s.Report(); r.Skipped != 300*30_001 || r.Given.Samples() != 0 {
		t.Errorf("%d skipped, %d given", r.Skipped, r.Given.Samples())
	}
}

// TestNotYet: what isn't complete is not given.
func TestNotYet(t *testing.T) {
	s := sequenced(t, 0, time.Hour)
	s.start = time.Now().Add(time.Hour)
	if over, err := s.give(func(*minknowpb.GetLiveReadsResponse) error { return errors.New("something was sent") }); err != nil || over {
		t.Errorf("over: %v, %v", over, err)
	}
}

func TestStartRefuses(t *testing.T) {
	if _, err := Start(Config{Cell: Cell{Channels: 1, Rate: 5000, Chunk: 4000, Samples: 1}}); err == nil {
		t.Error("a flow cell without signal was sequenced")
	}
}
