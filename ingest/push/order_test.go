package push

import (
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/push/pushpb"
)

// checkLaws checks what holds of everything that order lets pass: a channel's
// chunks follow each other on its clock, what lies between them within a read is
// what they say is lost, a read is on one channel, and none goes on behind its end.
func checkLaws(t *testing.T, taken []*pushpb.Chunk) {
	t.Helper()
	type place struct {
		clock, end uint64
		read       string
		open       bool
	}
	channels := make(map[uint32]*place)
	ended := make(map[string]bool)
	owner := make(map[string]uint32)
	for i, c := range taken {
		if c.GetSequence() != uint64(i) {
			t.Fatalf("chunk %d has number %d", i, c.GetSequence())
		}
		at := channels[c.GetChannel()]
		if at == nil {
			at = new(place)
			channels[c.GetChannel()] = at
		}
		begin := c.GetReadStart() + c.GetFirstSample()
		if begin < at.clock {
			t.Fatalf("chunk %d goes back on channel %d", i, c.GetChannel())
		}
		from := at.end
		if c.GetReadId() != at.read || !at.open {
			if at.open && !c.GetPreviousLost() {
				t.Fatalf("chunk %d begins a read, and the end of the one before is missing", i)
			}
			from = 0
		}
		if from+c.GetSkipped() != c.GetFirstSample() {
			t.Fatalf("chunk %d begins at %d, behind %d, and says that %d are lost", i, c.GetFirstSample(), from, c.GetSkipped())
		}
		if at.open && at.read == c.GetReadId() && owner[c.GetReadId()] != c.GetChannel() {
			t.Fatalf("chunk %d is of a read of channel %d", i, owner[c.GetReadId()])
		}
		if ended[c.GetReadId()] && at.read == c.GetReadId() && from > 0 {
			t.Fatalf("chunk %d goes on with a read that has ended", i)
		}
		owner[c.GetReadId()] = c.GetChannel()
		if c.GetEndOfRead() {
			ended[c.GetReadId()] = true
		}
		at.clock, at.end = begin+uint64(c.GetSampleCount()), c.GetFirstSample()+uint64(c.GetSampleCount())
		at.read, at.open = c.GetReadId(), !c.GetEndOfRead()
	}
}

// TestNonsenseBreaksNoLaw sends nonsense of all kinds: what is taken keeps the laws, and a sound
// device is never refused.
func TestNonsenseBreaksNoLaw(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 5))
		src := &source{rng: rng}
		o := newOrder(testLimits, 0)
		var taken []*pushpb.Chunk
		for i := range 300 {
			next := src.next()
			sound := &pushpb.Chunk{
				Sequence: o.next, Channel: next.Channel, ReadId: next.ReadID, ReadStart: next.ReadStart, Number: next.Number,
				FirstSample: next.FirstSample, SampleCount: uint32(len(next.Samples)), CalibrationScale: 1, EndOfRead: next.EndOfRead,
			}
			broken := proto.CloneOf(sound)
			spoil(rng, broken)
			if o.repeated(broken) {
				broken.Sequence = o.next
			}
			if _, refused := o.check(broken); refused == nil && rng.IntN(50) == 0 {
				// A device that means it, from here on: other chunks of the source would
				// contradict it.
				o.take(broken)
				taken = append(taken, broken)
				break
			}
			if _, refused := o.check(sound); refused != nil {
				t.Fatalf("seed %d, chunk %d of a sound device: %v", seed, i, refused)
			}
			o.take(sound)
			taken = append(taken, sound)
			if len(o.open) > len(src.channels) {
				t.Fatalf("%d reads are open on %d channels", len(o.open), len(src.channels))
			}
		}
		checkLaws(t, taken)
	}
}

// spoil changes a field or two.
func spoil(rng *rand.Rand, c *pushpb.Chunk) {
	for range 1 + rng.IntN(2) {
		n := uint64(rng.IntN(300))
		switch rng.IntN(9) {
		case 0:
			c.Sequence += n
		case 1:
			c.Channel = uint32(rng.IntN(6))
		case 2:
			c.ReadId = []string{"read-1", "read-2", "other", ""}[rng.IntN(4)]
		case 3:
			c.ReadStart = n
		case 4:
			c.FirstSample += n
		case 5:
			c.FirstSample, c.Skipped = c.FirstSample+n, n
		case 6:
			c.PreviousLost = !c.PreviousLost
		case 7:
			c.Number = uint32(n)
		case 8:
			c.SampleCount, c.EndOfRead = 0, rng.IntN(2) == 0
		}
	}
}

// FuzzOrder feeds order with requests as they come off the wire, each behind its
// length: whatever is taken keeps the laws.
func FuzzOrder(f *testing.F) {
	frame := func(chunks ...*pushpb.Chunk) []byte {
		var b []byte
		for _, c := range chunks {
			m, err := proto.Marshal(c)
			if err != nil {
				f.Fatal(err)
			}
			b = append(append(b, byte(len(m))), m...)
		}
		return b
	}
	f.Add(frame(piece(0, 1, "a", 0, 0), piece(1, 1, "a", 0, 10, ends), piece(2, 1, "b", 20, 0)), true)
	f.Add(frame(piece(0, 1, "a", 0, 0), piece(1, 2, "a", 0, 10), piece(1, 1, "a", 0, 40, func(c *pushpb.Chunk) { c.Skipped = 30 })), true)
	f.Add(frame(piece(0, 1, "a", 0, 0), piece(1, 1, "b", 20, 0, func(c *pushpb.Chunk) { c.PreviousLost = true })), false)
	f.Fuzz(func(t *testing.T, b []byte, checked bool) {
		o := newOrder(Limits{ChunkSamples: 1000, Channels: 4, OpenReads: 3}, 0)
		var taken []*pushpb.Chunk
		for len(b) > 1 {
			n := min(int(b[0]), len(b)-1)
			c := new(pushpb.Chunk)
			err := proto.Unmarshal(b[1:1+n], c)
			b = b[1+n:]
			if err != nil || o.repeated(c) {
				continue
			}
			if _, refused := o.check(c); refused != nil {
				if status := refused.GRPCStatus(); status.Code() == 0 {
					t.Fatalf("%v is refused with OK", refused)
				}
				continue
			}
			o.take(c)
			taken = append(taken, c)
		}
		if len(o.channels) > 4 || len(o.open) > 3 {
			t.Fatalf("%d channels, %d open reads", len(o.channels), len(o.open))
		}
		if checked {
			checkLaws(t, slices.Clone(taken))
		}
	})
}
