package ingest

import (
	"slices"
	"testing"

	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream"
)

// Chunks that are lost on the way are the same ones each time, never a read's last, and
// about as many as were asked for.
func TestTheSameChunksAreLostEachTime(t *testing.T) {
	run := &signal.Run{ID: "run", SampleRate: 1000}
	rec := &fakeRecording{runs: []*signal.Run{run}, reads: []signal.Read{
		{ID: "one", Run: run, Channel: 1, NumSamples: 400_000}, {ID: "two", Run: run, Channel: 2, NumSamples: 400_500},
	}}
	play := func(lossy float64) (numbers []uint32, ends int) {
		sender := new(fakeSender)
		p, err := NewPlayer(rec, sender, Config{Topics: stream.Topics{Signal: "signal", Runs: "runs"}, Partitions: 1, Lossy: lossy})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Play(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, o := range sender.outs {
			if o.Topic != "signal" {
				continue
			}
			m, err := stream.DecodeSignal(o.Value)
			if err != nil {
				t.Fatal(err)
			}
			if c := m.GetChunk(); c != nil {
				if c.GetFirstSample() != uint64(c.GetNumber())*1000 {
					t.Fatalf("chunk %d begins at sample %d", c.GetNumber(), c.GetFirstSample())
				}
				numbers = append(numbers, c.GetNumber())
				if c.GetEndOfRead() {
					ends++
				}
			}
		}
		return numbers, ends
	}
	all, ends := play(0)
	if len(all) != 801 || ends != 2 {
		t.Fatalf("%d chunks and %d ends of reads, want 801 and 2", len(all), ends)
	}
	some, ends := play(0.2)
	if n := len(all) - len(some); n < 110 || n > 210 || ends != 2 {
		t.Fatalf("%d of %d chunks are lost, and %d reads end", n, len(all), ends)
	}
	if again, _ := play(0.2); !slices.Equal(some, again) {
		t.Fatal("other chunks were lost the second time")
	}
	if _, err := NewPlayer(rec, new(fakeSender), Config{Partitions: 1, Lossy: 1}); err == nil {
		t.Fatal("a player that loses everything")
	}
}
