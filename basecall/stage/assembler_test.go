package stage

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/porestream/porestream/signal/vbz"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// level is the current of a read at a sample: it tells read and place.
func level(id string, i uint64) int16 {
	h := fnv.New32a()
	h.Write([]byte(id))
	return int16((uint64(h.Sum32()) + 7*i) & 0x3ff)
}

// vbzOf encodes samples.
func vbzOf(samples []int16) []byte { return vbz.Encode(nil, samples) }

func levels(id string, first uint64, n int) []int16 {
	s := make([]int16, n)
	for i := range s {
		s[i] = level(id, first+uint64(i))
	}
	return s
}

// chunkOf is samples [first, first+n) of a read that began at start.
func chunkOf(channel uint32, id string, start, first uint64, n int, end bool) *streampb.SignalChunk {
	c := &streampb.SignalChunk{
		Run: "run-1", Channel: channel, ReadId: id, ReadStart: start, FirstSample: first, SampleCount: uint32(n),
		Vbz: vbzOf(levels(id, first, n)), EndOfRead: end, CalibrationOffset: 10, CalibrationScale: 0.2,
	}
	if end {
		c.EndReason = "signal_positive"
	}
	return c
}

// describe is a finished read in short: id, number of its first part, parts, offsets.
func describe(r *assembledRead) string {
	s := fmt.Sprintf("%s/%d", r.id, r.firstPart)
	for _, p := range r.parts {
		s += fmt.Sprintf(" [%d,%d)", p.first, p.first+uint64(len(p.samples)))
	}
	s += fmt.Sprintf(" @%v", r.offsets)
	if r.endReason != "" {
		s += " " + r.endReason
	}
	return s
}

func TestAssembler(t *testing.T) {
	end := true
	c := chunkOf
	for _, tc := range []struct {
		name   string
		max    int // samples before a cut; 0: no limit
		chunks []*streampb.SignalChunk
		want   []string // what each chunk finishes
		dups   []int    // chunks that are duplicates
		gaps   []uint64 // missing before each chunk
		lost   int
	}{
		{
			name:   "one read",
			chunks: []*streampb.SignalChunk{c(1, "a", 0, 0, 10, false), c(1, "a", 0, 10, 10, false), c(1, "a", 0, 20, 5, end)},
			want:   []string{"", "", "a/0 [0,25) @[0 1 2] signal_positive"},
		},
		{
			name:   "one chunk",
			chunks: []*streampb.SignalChunk{c(1, "a", 0, 0, 10, end)},
			want:   []string{"a/0 [0,10) @[0] signal_positive"},
		},
		{
			name:   "no samples at all",
			chunks: []*streampb.SignalChunk{c(1, "a", 0, 0, 0, end)},
			want:   []string{"a/0 @[0] signal_positive"},
		},
		{
			name:   "an empty last chunk",
			chunks: []*streampb.SignalChunk{c(1, "a", 0, 0, 10, false), c(1, "a", 0, 10, 0, end)},
			want:   []string{"", "a/0 [0,10) @[0 1] signal_positive"},
		},
		{
			name: "channels don't meet",
			chunks: []*streampb.SignalChunk{
				c(1, "a", 0, 0, 10, false), c(2, "b", 0, 0, 10, false), c(1, "a", 0, 10, 10, end), c(2, "b", 0, 10, 10, end),
			},
			want: []string{"", "", "a/0 [0,20) @[0 2] signal_positive", "b/0 [0,20) @[1 3] signal_positive"},
		},
		{
			name:   "chunks delivered twice",
			chunks: []*streampb.SignalChunk{c(1, "a", 0, 0, 10, false), c(1, "a", 0, 0, 10, false), c(1, "a", 0, 10, 10, end), c(1, "a", 0, 10, 10, end)},
			want:   []string{"", "", "a/0 [0,20) @[0 2] signal_positive", ""},
			dups:   []int{1, 3},
		},
		{
			name:   "the end delivered twice across the next read's beginning",
			chunks: []*streampb.SignalChunk{c(1, "a", 0, 0, 10, end), c(1, "b", 50, 0, 10, false), c(1, "a", 0, 0, 10, end), c(1, "b", 50, 10, 10, end)},
			want:   []string{"a/0 [0,10) @[0] signal_positive", "", "", "b/0 [0,20) @[1 3] signal_positive"},
			dups:   []int{2},
		},
		{
			name:   "overlapping chunks",
			chunks: []*streampb.SignalChunk{c(1, "a", 0, 0, 10, false), c(1, "a", 0, 6, 10, false), c(1, "a", 0, 2, 20, end)},
			want:   []string{"", "", "a/0 [0,22) @[0 1 2] signal_positive"},
		},
		{
			name:   "a lost chunk",
			chunks: []*streampb.SignalChunk{c(1, "a", 0, 0, 10, false), c(1, "a", 0, 20, 10, false), c(1, "a", 0, 30, 10, end)},
			want:   []string{"", "", "a/0 [0,10) [20,40) @[0 1 2] signal_positive"},
			gaps:   []uint64{0, 10, 0},
		},
		{
			name:   "a lost beginning",
			chunks: []*streampb.SignalChunk{c(1, "a", 0, 20, 10, false), c(1, "a", 0, 30, 10, end)},
			want:   []string{"", "a/0 [20,40) @[0 1] signal_positive"},
			gaps:   []uint64{20, 0},
		},
		{
			name:   "a lost chunk that comes late is no longer of use",
			chunks: []*streampb.SignalChunk{c(1, "a", 0, 0, 10, false), c(1, "a", 0, 20, 10, false), c(1, "a", 0, 10, 10, false), c(1, "a", 0, 30, 1, end)},
			want:   []string{"", "", "", "a/0 [0,10) [20,31) @[0 1 3] signal_positive"},
			dups:   []int{2},
			gaps:   []uint64{0, 10, 0, 0},
		},
		{
			name:   "a lost end",
			chunks: []*streampb.SignalChunk{c(1, "a", 0, 0, 10, false), c(1, "b", 50, 0, 10, false), c(1, "b", 50, 10, 10, end)},
			want:   []string{"", "a/0 [0,10) @[0]", "b/0 [0,20) @[1 2] signal_positive"},
			lost:   1,
		},
		{
			name:   "a lost end in a recording without start times",
			chunks: []*streampb.SignalChunk{c(1, "a", 0, 0, 10, false), c(1, "b", 0, 0, 10, end)},
			want:   []string{"", "a/0 [0,10) @[0]; b/0 [0,10) @[1] signal_positive"},
			lost:   1,
		},
		{
			name: "a sender that starts over leaves the open read alone",
			chunks: []*streampb.SignalChunk{
				c(1, "a", 0, 0, 10, end), c(1, "b", 50, 0, 10, end), c(1, "c", 90, 0, 10, false),
				c(1, "a", 0, 0, 10, end), c(1, "b", 50, 0, 10, end), c(1, "c", 90, 0, 10, false), c(1, "c", 90, 10, 10, end),
			},
			want: []string{
				"a/0 [0,10) @[0] signal_positive", "b/0 [0,10) @[1] signal_positive", "",
				"a/0 [0,10) @[3] signal_positive", "b/0 [0,10) @[4] signal_positive", "", "c/0 [0,20) @[2 6] signal_positive",
			},
			dups: []int{5},
		},
		{
			name: "starting over twice closes what is older, not what is newer",
			chunks: []*streampb.SignalChunk{
				c(1, "c", 90, 0, 10, false), c(1, "b", 50, 0, 10, false), c(1, "a", 0, 0, 10, false), c(1, "b", 50, 10, 10, false), c(1, "d", 120, 0, 5, end),
			},
			want: []string{"", "", "", "a/0 [0,10) @[2]", "b/0 [0,20) @[1 3]; c/0 [0,10) @[0]; d/0 [0,5) @[4] signal_positive"},
			lost: 3,
		},
		{
			name: "an overlong read is cut",
			max:  15,
			chunks: []*streampb.SignalChunk{
				c(1, "a", 0, 0, 10, false), c(1, "a", 0, 10, 10, false), c(1, "a", 0, 20, 10, false), c(1, "a", 0, 40, 10, false), c(1, "a", 0, 50, 10, end),
			},
			want: []string{"", "a/0 [0,20) @[]", "", "a/1 [20,30) [40,50) @[]", "a/3 [50,60) @[0 1 2 3 4] signal_positive"},
			gaps: []uint64{0, 0, 0, 10, 0},
		},
		{
			name:   "a read that ends where it was cut",
			max:    15,
			chunks: []*streampb.SignalChunk{c(1, "a", 0, 0, 20, false), c(1, "a", 0, 20, 0, end)},
			want:   []string{"a/0 [0,20) @[]", "a/1 @[0 1] signal_positive"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			limit := tc.max
			if limit == 0 {
				limit = 1 << 20
			}
			a := newAssembler(limit)
			lost := 0
			for i, chunk := range tc.chunks {
				res, err := a.add(chunk, int64(i), 1000)
				if err != nil {
					t.Fatalf("chunk %d: %v", i, err)
				}
				got := ""
				for j, r := range res.finished {
					if j > 0 {
						got += "; "
					}
					got += describe(r)
				}
				if got != tc.want[i] {
					t.Errorf("chunk %d finishes %q, want %q", i, got, tc.want[i])
				}
				if res.duplicate != slices.Contains(tc.dups, i) {
					t.Errorf("chunk %d: duplicate %v", i, res.duplicate)
				}
				if tc.gaps != nil && res.gap != tc.gaps[i] || tc.gaps == nil && res.gap != 0 {
					t.Errorf("chunk %d: %d samples missing", i, res.gap)
				}
				lost += res.lostEnds
			}
			if lost != tc.lost {
				t.Errorf("%d lost ends, want %d", lost, tc.lost)
			}
			if len(a.open) != 0 || a.held != 0 {
				t.Errorf("%d channels and %d samples are still held", len(a.open), a.held)
			}
		})
	}
}

func TestAssemblerBadSamples(t *testing.T) {
	for name, damage := range map[string]func(*streampb.SignalChunk){
		"not VBZ":          func(c *streampb.SignalChunk) { c.Vbz = []byte("nonsense") },
		"too few samples":  func(c *streampb.SignalChunk) { c.SampleCount-- },
		"too many samples": func(c *streampb.SignalChunk) { c.SampleCount++ },
		"none":             func(c *streampb.SignalChunk) { c.Vbz = nil },
	} {
		a := newAssembler(1 << 20)
		if _, err := a.add(chunkOf(1, "a", 0, 0, 10, false), 0, 0); err != nil {
			t.Fatal(err)
		}
		bad := chunkOf(1, "a", 0, 10, 10, false)
		damage(bad)
		if _, err := a.add(bad, 1, 0); stream.ErrorCode(err) != stream.CodePayload || !stream.IsBadRecord(err) {
			t.Errorf("%s: %v, want a bad record with code %s", name, err, stream.CodePayload)
		}
		// The read goes on behind it, with a gap.
		res, err := a.add(chunkOf(1, "a", 0, 20, 10, true), 2, 0)
		if err != nil || len(res.finished) != 1 || describe(res.finished[0]) != "a/0 [0,10) [20,30) @[0 2] signal_positive" {
			t.Errorf("%s: then %v, %v", name, res, err)
		}
	}
}

func TestAssemblerEndOfRun(t *testing.T) {
	a := newAssembler(1 << 20)
	other := chunkOf(1, "x", 0, 0, 10, false)
	other.Run = "run-2"
	for i, c := range []*streampb.SignalChunk{
		chunkOf(300, "c", 0, 0, 10, false), chunkOf(2, "b", 0, 0, 10, false), other, chunkOf(7, "d", 0, 0, 10, true),
	} {
		if _, err := a.add(c, int64(i), int64(100*i)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, r := range a.finishRun("run-1") {
		got = append(got, describe(r))
	}
	if want := []string{"b/0 [0,10) @[1]", "c/0 [0,10) @[0]"}; !slices.Equal(got, want) {
		t.Errorf("the run's end finishes %q, want %q", got, want)
	}
	if len(a.done) != 0 {
		t.Errorf("finished reads are remembered beyond the run: %v", a.done)
	}
	if len(a.open) != 1 || a.held != 10 {
		t.Errorf("another run's read is gone: %d open, %d samples", len(a.open), a.held)
	}
	if got := a.finishRun("run-1"); len(got) != 0 {
		t.Errorf("ending again finishes %d reads", len(got))
	}
}

func TestAssemblerTakesTheNewestTime(t *testing.T) {
	a := newAssembler(1 << 20)
	for i, ms := range []int64{500, 900, 700} {
		res, err := a.add(chunkOf(1, "a", 0, uint64(10*i), 10, i == 2), int64(i), ms)
		if err != nil {
			t.Fatal(err)
		}
		if i == 2 && res.finished[0].lastChunkMS != 900 {
			t.Errorf("last chunk at %d ms, want 900", res.finished[0].lastChunkMS)
		}
	}
}

// A log is a partition as a sequencer with a lossy reader fills it: the chunks of
// several channels interleaved, some lost for good, some delivered twice; now and
// then the sender starts over from an earlier read. The offset is the index.
type log []*streampb.SignalChunk

func randomLog(rng *rand.Rand, timed, restarts bool) log {
	channels := 1 + rng.IntN(4)
	byChannel := make([][]*streampb.SignalChunk, channels)
	for ch := range byChannel {
		var sent []*streampb.SignalChunk // everything the channel has, in order
		var starts []int                 // where reads begin in sent
		start := uint64(rng.IntN(1000))
		for r := range 1 + rng.IntN(5) {
			id := fmt.Sprintf("ch%d-read%d", ch, r)
			starts = append(starts, len(sent))
			n := rng.IntN(400)
			at := start
			if !timed {
				at = 0
			}
			for first := 0; ; {
				count := min(n-first, 1+rng.IntN(90))
				last := first+count == n
				c := chunkOf(uint32(ch), id, at, uint64(first), count, last)
				if rng.IntN(12) > 0 { // lost otherwise
					sent = append(sent, c)
				}
				first += count
				if last {
					break
				}
			}
			start += uint64(n + 1 + rng.IntN(500))
		}
		for i := 0; i < len(sent); i++ {
			byChannel[ch] = append(byChannel[ch], sent[i])
			if restarts && rng.IntN(15) == 0 { // starting over
				from := starts[rng.IntN(len(starts))]
				if from <= i {
					byChannel[ch] = append(byChannel[ch], sent[from:i+1]...)
				}
			}
			if rng.IntN(10) == 0 { // delivered twice
				byChannel[ch] = append(byChannel[ch], sent[i])
			}
		}
	}
	var l log
	for {
		var left []int
		for ch, list := range byChannel {
			if len(list) > 0 {
				left = append(left, ch)
			}
		}
		if len(left) == 0 {
			return l
		}
		ch := left[rng.IntN(len(left))]
		l = append(l, byChannel[ch][0])
		byChannel[ch] = byChannel[ch][1:]
	}
}

// assemble adds all chunks, ends the run, and checks what must hold whatever
// came: no offset is forgotten or counted twice, no sample used twice in a read,
// no part crosses a gap.
func assemble(t *testing.T, chunks []*streampb.SignalChunk, limit int) []*assembledRead {
	t.Helper()
	a := newAssembler(limit)
	offsets := make(map[int64]int)
	var reads []*assembledRead
	take := func(list []*assembledRead) {
		for _, r := range list {
			reads = append(reads, r)
			for _, o := range r.offsets {
				offsets[o]++
			}
		}
	}
	for i, c := range chunks {
		res, err := a.add(c, int64(i), int64(i))
		if err != nil {
			t.Fatalf("chunk %d: %v", i, err)
		}
		if res.duplicate {
			offsets[int64(i)]++
		}
		take(res.finished)
		held := 0
		for _, list := range a.open {
			for _, r := range list {
				if r.samples > limit {
					t.Fatalf("read %s holds %d samples, the limit is %d", r.id, r.samples, limit)
				}
				held += r.samples
			}
		}
		if held != a.held {
			t.Fatalf("%d samples are held, counted are %d", held, a.held)
		}
	}
	take(a.finishRun("run-1"))
	if len(a.open) != 0 || a.held != 0 || len(a.done) != 0 {
		t.Fatalf("after the run %d channels and %d samples are held, %d reads remembered", len(a.open), a.held, len(a.done))
	}
	for i := range chunks {
		if offsets[int64(i)] != 1 {
			t.Fatalf("offset %d is resolved %d times", i, offsets[int64(i)])
		}
	}
	for _, r := range reads {
		end := uint64(0)
		for i, p := range r.parts {
			if i > 0 && p.first <= end || len(p.samples) == 0 {
				t.Fatalf("parts of %s touch, overlap or are empty", describe(r))
			}
			end = p.first + uint64(len(p.samples))
			for j, s := range p.samples {
				if s != level(r.id, p.first+uint64(j)) {
					t.Fatalf("%s: sample %d is another's", describe(r), p.first+uint64(j))
				}
			}
		}
	}
	return reads
}

// content is what a read says, without where it was found.
func content(r *assembledRead) string {
	bare := *r
	bare.offsets, bare.endReason = nil, ""
	return describe(&bare)
}

func TestAssemblerProperties(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 5))
		timed := seed%4 > 0
		l := randomLog(rng, timed, timed)
		limit := []int{1 << 20, 150}[seed%2]
		reads := assemble(t, l, limit)

		// Channels don't influence each other: alone, each gives the same reads.
		together := make(map[uint32][]string)
		for _, r := range reads {
			together[r.channel] = append(together[r.channel], content(r))
		}
		alone := make(map[uint32][]string)
		for _, c := range l {
			alone[c.GetChannel()] = nil
		}
		for ch := range alone {
			var chunks []*streampb.SignalChunk
			for _, c := range l {
				if c.GetChannel() == ch {
					chunks = append(chunks, c)
				}
			}
			for _, r := range assemble(t, chunks, limit) {
				alone[ch] = append(alone[ch], content(r))
			}
		}
		if !reflect.DeepEqual(together, alone) {
			t.Fatalf("seed %d: together %v, alone %v", seed, together, alone)
		}

		// Every sample that arrived is in some part of its read.
		arrived, used := make(map[string]map[uint64]bool), make(map[string]map[uint64]bool)
		note := func(m map[string]map[uint64]bool, id string, first uint64, n int) {
			if m[id] == nil {
				m[id] = make(map[uint64]bool)
			}
			for i := range n {
				m[id][first+uint64(i)] = true
			}
		}
		for _, c := range l {
			note(arrived, c.GetReadId(), c.GetFirstSample(), int(c.GetSampleCount()))
		}
		for _, r := range reads {
			note(used, r.id, 0, 0)
			for _, p := range r.parts {
				note(used, r.id, p.first, len(p.samples))
			}
		}
		if !reflect.DeepEqual(arrived, used) {
			t.Fatalf("seed %d: samples that arrived were not used", seed)
		}
	}
}

// TestAssemblerCrashes stops at any moment, with any of the finished reads
// durable, and starts over from what could be committed: by read and part, the
// first of each is what it would have been.
func TestAssemblerCrashes(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 6))
		// Reads that were cut and are sent again are cut at other places if a
		// crash comes in between; with cuts the sender doesn't start over.
		cuts := seed%2 == 1
		l := randomLog(rng, true, !cuts)
		limit := 1 << 20
		if cuts {
			limit = 150
		}
		want := firstByPart(assemble(t, l, limit))

		got := make(map[string]string)
		keep := func(r *assembledRead) {
			for k, v := range firstByPart([]*assembledRead{r}) {
				if _, ok := got[k]; !ok {
					got[k] = v
				}
			}
		}
		committed := int64(0)
		for crashes := rng.IntN(3); ; crashes-- {
			a := newAssembler(limit)
			for _, c := range l[:committed] {
				a.skip(c)
			}
			stop := len(l)
			if crashes > 0 {
				stop = int(committed) + rng.IntN(stop-int(committed)+1)
			}
			tracker := stream.NewTracker(committed)
			finished := func(reads []*assembledRead) {
				for _, r := range reads {
					if crashes > 0 && rng.IntN(3) == 0 || r.after != nil && !closed(r.after) {
						continue // was in the works when it happened
					}
					if r.emitted != nil {
						close(r.emitted)
					}
					keep(r)
					for _, o := range r.offsets {
						tracker.Resolve(o)
					}
				}
			}
			for i := int(committed); i < stop; i++ {
				tracker.Track(int64(i), 1)
				res, err := a.add(l[i], int64(i), 0)
				if err != nil {
					t.Fatal(err)
				}
				if res.duplicate {
					tracker.Resolve(int64(i))
				}
				finished(res.finished)
			}
			if crashes <= 0 {
				finished(a.finishRun("run-1"))
				if tracker.Committable() != int64(len(l)) {
					t.Fatalf("seed %d: at the end %d of %d records are resolved", seed, tracker.Committable(), len(l))
				}
				break
			}
			committed = tracker.Committable()
		}
		if !maps.Equal(got, want) {
			t.Fatalf("seed %d: after crashes\n%v\nwant\n%v", seed, got, want)
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// firstByPart is what a consumer keeps that applies each part of a read once.
func firstByPart(reads []*assembledRead) map[string]string {
	m := make(map[string]string)
	for _, r := range reads {
		for i, p := range r.parts {
			key := fmt.Sprintf("%s/%d", r.id, r.firstPart+i)
			if _, ok := m[key]; !ok {
				m[key] = fmt.Sprintf("[%d,%d)", p.first, p.first+uint64(len(p.samples)))
			}
		}
	}
	return m
}

func BenchmarkAssembler(b *testing.B) {
	var chunks []*streampb.SignalChunk
	for i := range 10 {
		chunks = append(chunks, chunkOf(1, "a", 0, uint64(4000*i), 4000, i == 9))
	}
	b.SetBytes(10 * 4000 * 2)
	b.ReportAllocs()
	for b.Loop() {
		a := newAssembler(1 << 20)
		for i, c := range chunks {
			if _, err := a.add(c, int64(i), 0); err != nil {
				b.Fatal(err)
			}
		}
	}
}
