package stage

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/porestream/porestream/signal/vbz"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// level is the current of a read at a sample: it identifies read and place.
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

// describe is a finished read in short: id, number of its first part, parts.
func describe(r *assembledRead) string {
	s := fmt.Sprintf("%s/%d", r.id, r.firstPart)
	for _, p := range r.stretches() {
		s += fmt.Sprintf(" [%d,%d)", p[0], p[1])
	}
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
		gaps   uint64   // samples that are missing in what is finished
		lost   int
	}{
		{
			name:   "one read",
			chunks: []*streampb.SignalChunk{c(1, "a", 0, 0, 10, false), c(1, "a", 0, 10, 10, false), c(1, "a", 0, 20, 5, end)},
			want:   []string{"", "", "a/0 [0,25) signal_positive"},
		},
		{
			name:   "one chunk",
			chunks: []*streampb.SignalChunk{c(1, "a", 0, 0, 10, end)},
			want:   []string{"a/0 [0,10) signal_positive"},
		},
		{
			name:   "no samples at all",
			chunks: []*streampb.SignalChunk{c(1, "a", 0, 0, 0, end)},
			want:   []string{"a/0 signal_positive"},
		},
		{
			name:   "an empty last chunk",
			chunks: []*streampb.SignalChunk{c(1, "a", 0, 0, 10, false), c(1, "a", 0, 10, 0, end)},
			want:   []string{"", "a/0 [0,10) signal_positive"},
		},
		{
			name: "channels don't meet",
			chunks: []*streampb.SignalChunk{
				c(1, "a", 0, 0, 10, false), c(2, "b", 0, 0, 10, false), c(1, "a", 0, 10, 10, end), c(2, "b", 0, 10, 10, end),
			},
			want: []string{"", "", "a/0 [0,20) signal_positive", "b/0 [0,20) signal_positive"},
		},
		{
			name:   "chunks delivered twice",
			chunks: []*streampb.SignalChunk{c(1, "a", 0, 0, 10, false), c(1, "a", 0, 0, 10, false), c(1, "a", 0, 10, 10, end), c(1, "a", 0, 10, 10, end)},
			want:   []string{"", "", "a/0 [0,20) signal_positive", ""},
			dups:   []int{1, 3},
		},
		{
			name:   "the end delivered twice across the next read's beginning",
			chunks: []*streampb.SignalChunk{c(1, "a", 0, 0, 10, end), c(1, "b", 50, 0, 10, false), c(1, "a", 0, 0, 10, end), c(1, "b", 50, 10, 10, end)},
			want:   []string{"a/0 [0,10) signal_positive", "", "", "b/0 [0,20) signal_positive"},
			dups:   []int{2},
		},
		{
			name:   "overlapping chunks",
			chunks: []*streampb.SignalChunk{c(1, "a", 0, 0, 10, false), c(1, "a", 0, 6, 10, false), c(1, "a", 0, 2, 20, end)},
			want:   []string{"", "", "a/0 [0,22) signal_positive"},
		},
		{
			name:   "a lost chunk",
			chunks: []*streampb.SignalChunk{c(1, "a", 0, 0, 10, false), c(1, "a", 0, 20, 10, false), c(1, "a", 0, 30, 10, end)},
			want:   []string{"", "", "a/0 [0,10) [20,40) signal_positive"},
			gaps:   10,
		},
		{
			name:   "a lost beginning",
			chunks: []*streampb.SignalChunk{c(1, "a", 0, 20, 10, false), c(1, "a", 0, 30, 10, end)},
			want:   []string{"", "a/0 [20,40) signal_positive"},
			gaps:   20,
		},
		{
			name:   "a chunk that comes late fills its gap",
			chunks: []*streampb.SignalChunk{c(1, "a", 0, 0, 10, false), c(1, "a", 0, 20, 10, false), c(1, "a", 0, 10, 10, false), c(1, "a", 0, 30, 1, end)},
			want:   []string{"", "", "", "a/0 [0,31) signal_positive"},
		},
		{
			name:   "a lost chunk before the end",
			chunks: []*streampb.SignalChunk{c(1, "a", 0, 0, 10, false), c(1, "a", 0, 15, 0, end)},
			want:   []string{"", "a/0 [0,10) signal_positive"},
			gaps:   5,
		},
		{
			name:   "overlaps in any order",
			chunks: []*streampb.SignalChunk{c(1, "a", 0, 20, 10, false), c(1, "a", 0, 5, 20, false), c(1, "a", 0, 22, 3, false), c(1, "a", 0, 0, 40, false), c(1, "a", 0, 38, 5, end)},
			want:   []string{"", "", "", "", "a/0 [0,43) signal_positive"},
			dups:   []int{2},
		},
		{
			name:   "a lost end",
			chunks: []*streampb.SignalChunk{c(1, "a", 0, 0, 10, false), c(1, "b", 50, 0, 10, false), c(1, "b", 50, 10, 10, end)},
			want:   []string{"", "a/0 [0,10)", "b/0 [0,20) signal_positive"},
			lost:   1,
		},
		{
			name:   "a lost end in a recording without start times",
			chunks: []*streampb.SignalChunk{c(1, "a", 0, 0, 10, false), c(1, "b", 0, 0, 10, end)},
			want:   []string{"", "a/0 [0,10); b/0 [0,10) signal_positive"},
			lost:   1,
		},
		{
			name: "a sender that starts over leaves the open read alone",
			chunks: []*streampb.SignalChunk{
				c(1, "a", 0, 0, 10, end), c(1, "b", 50, 0, 10, end), c(1, "c", 90, 0, 10, false),
				c(1, "a", 0, 0, 10, end), c(1, "b", 50, 0, 10, end), c(1, "c", 90, 0, 10, false), c(1, "c", 90, 10, 10, end),
			},
			want: []string{"a/0 [0,10) signal_positive", "b/0 [0,10) signal_positive", "", "", "", "", "c/0 [0,20) signal_positive"},
			dups: []int{3, 4, 5},
		},
		{
			name: "starting over twice closes what is older, not what is newer",
			chunks: []*streampb.SignalChunk{
				c(1, "c", 90, 0, 10, false), c(1, "b", 50, 0, 10, false), c(1, "a", 0, 0, 10, false), c(1, "b", 50, 10, 10, false), c(1, "d", 120, 0, 5, end),
			},
			want: []string{"", "", "", "a/0 [0,10)", "b/0 [0,20); c/0 [0,10); d/0 [0,5) signal_positive"},
			lost: 3,
		},
		{
			name: "an overlong read is cut",
			max:  15,
			chunks: []*streampb.SignalChunk{
				c(1, "a", 0, 0, 10, false), c(1, "a", 0, 10, 10, false), c(1, "a", 0, 20, 10, false), c(1, "a", 0, 40, 10, false), c(1, "a", 0, 50, 10, end),
			},
			want: []string{"", "a/0 [0,20)", "", "a/1 [20,30) [40,50)", "a/3 [50,60) signal_positive"},
			gaps: 10,
		},
		{
			name:   "a read that ends where it was cut",
			max:    15,
			chunks: []*streampb.SignalChunk{c(1, "a", 0, 0, 20, false), c(1, "a", 0, 20, 0, end)},
			want:   []string{"a/0 [0,20)", "a/1 signal_positive"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			limit := tc.max
			if limit == 0 {
				limit = 1 << 20
			}
			a := newAssembler(limit, 1<<30)
			lost, gaps := 0, uint64(0)
			for i, chunk := range tc.chunks {
				res, err := a.add(chunk, int64(i))
				if err != nil {
					t.Fatalf("chunk %d: %v", i, err)
				}
				var got []string
				for _, r := range res.finished {
					got = append(got, describe(r))
					_, missing := r.missing()
					gaps += missing
					if r.channel != chunk.GetChannel() || r.run != "run-1" || r.offset != 10 || r.scale != 0.2 {
						t.Errorf("chunk %d finishes %+v", i, r)
					}
				}
				if got, want := strings.Join(got, "; "), tc.want[i]; got != want {
					t.Errorf("chunk %d finishes %q, want %q", i, got, want)
				}
				if want := slices.Contains(tc.dups, i); res.duplicate != want {
					t.Errorf("chunk %d: duplicate is %v, want %v", i, res.duplicate, want)
				}
				lost += res.lostEnds
			}
			if lost != tc.lost || gaps != tc.gaps {
				t.Errorf("%d ends are lost and %d samples missing, want %d and %d", lost, gaps, tc.lost, tc.gaps)
			}
			if n := a.openReads(); n != 0 || a.held != 0 {
				t.Errorf("%d reads are open, %d bytes held", n, a.held)
			}
		})
	}
}

// TestAssemblerRefuses: a bad chunk leaves no trace, and the read goes on behind
// it.
func TestAssemblerRefuses(t *testing.T) {
	a := newAssembler(1<<20, 1<<30)
	for _, c := range []*streampb.SignalChunk{chunkOf(1, "f", 0, 0, 10, true), chunkOf(1, "a", 20, 0, 10, false)} {
		if _, err := a.add(c, 0); err != nil {
			t.Fatal(err)
		}
	}
	before := stateBytes(t, &state{fold: &fold{assembler: a}})
	for name, tc := range map[string]struct {
		code string
		edit func(c *streampb.SignalChunk)
	}{
		"samples that are none":     {stream.CodePayload, func(c *streampb.SignalChunk) { c.Vbz = []byte("nonsense") }},
		"another number of samples": {stream.CodePayload, func(c *streampb.SignalChunk) { c.SampleCount++ }},
		"no samples":                {stream.CodePayload, func(c *streampb.SignalChunk) { c.Vbz = nil }},
		"another channel":           {stream.CodeConflict, func(c *streampb.SignalChunk) { c.Channel = 2 }},
		"another start":             {stream.CodeConflict, func(c *streampb.SignalChunk) { c.ReadStart++ }},
		"another number":            {stream.CodeConflict, func(c *streampb.SignalChunk) { c.ReadNumber++ }},
		"another offset":            {stream.CodeConflict, func(c *streampb.SignalChunk) { c.CalibrationOffset++ }},
		"another scale":             {stream.CodeConflict, func(c *streampb.SignalChunk) { c.CalibrationScale++ }},
		"other samples":             {stream.CodeConflict, func(c *streampb.SignalChunk) { c.FirstSample = 0 }},
		"other samples in part":     {stream.CodeConflict, func(c *streampb.SignalChunk) { c.FirstSample = 4 }},
		"an end before what is here": {stream.CodeConflict, func(c *streampb.SignalChunk) {
			c.FirstSample, c.SampleCount, c.Vbz, c.EndOfRead = 2, 3, vbzOf(levels("a", 2, 3)), true
		}},
		"behind the end of a read": {stream.CodeLate, func(c *streampb.SignalChunk) { c.ReadId, c.ReadStart = "f", 0 }},
	} {
		bad := chunkOf(1, "a", 20, 10, 10, false)
		tc.edit(bad)
		if _, err := a.add(bad, 0); stream.ErrorCode(err) != tc.code || !stream.IsBadRecord(err) {
			t.Errorf("%s: %v, want a bad record with code %s", name, err, tc.code)
		}
		if got := stateBytes(t, &state{fold: &fold{assembler: a}}); got != before {
			t.Errorf("%s left a trace", name)
		}
	}
	res, err := a.add(chunkOf(1, "a", 20, 20, 10, true), 2)
	if err != nil || len(res.finished) != 1 || describe(res.finished[0]) != "a/0 [0,10) [20,30) signal_positive" {
		t.Errorf("then %v, %v", res, err)
	}
}

// TestAssemblerBoundsMemory: whatever comes, what is held stays within the limit,
// and nothing of it is lost.
func TestAssemblerBoundsMemory(t *testing.T) {
	const limit = 40_000
	a := newAssembler(1<<20, limit)
	used, cuts := 0, 0
	count := func(reads []*assembledRead) {
		for _, r := range reads {
			used += r.samples()
		}
	}
	for i := range 100 {
		for ch := range uint32(20) {
			res, err := a.add(chunkOf(ch, fmt.Sprint("read-", ch), 0, uint64(300*i), 300, false), 0)
			if err != nil {
				t.Fatal(err)
			}
			if a.held > limit {
				t.Fatalf("%d bytes are held, the limit is %d", a.held, limit)
			}
			count(res.finished)
			cuts += res.cuts
		}
	}
	count(a.finishRun("run-1"))
	if used != 100*20*300 || cuts == 0 {
		t.Errorf("%d samples of %d came out, after %d cuts", used, 100*20*300, cuts)
	}
}

func TestAssemblerEndOfRun(t *testing.T) {
	a := newAssembler(1<<20, 1<<30)
	other := chunkOf(1, "x", 0, 0, 10, false)
	other.Run = "run-2"
	for i, c := range []*streampb.SignalChunk{
		chunkOf(300, "c", 0, 0, 10, false), chunkOf(2, "b", 0, 0, 10, false), other, chunkOf(7, "d", 0, 0, 10, true),
	} {
		if _, err := a.add(c, int64(100*i)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, r := range a.finishRun("run-1") {
		got = append(got, describe(r))
	}
	if want := []string{"b/0 [0,10)", "c/0 [0,10)"}; !slices.Equal(got, want) {
		t.Errorf("the run's end finishes %q, want %q", got, want)
	}
	if a.openReads() != 1 || a.channels != 1 || len(a.owners) != 1 || a.held == 0 {
		t.Errorf("of another run %d reads, %d channels are left, %d bytes, and %d reads are remembered", a.openReads(), a.channels, a.held, len(a.owners))
	}
	if got := a.finishRun("run-1"); len(got) != 0 {
		t.Errorf("ending again finishes %d reads", len(got))
	}
}

func TestAssemblerTakesTheNewestTime(t *testing.T) {
	a := newAssembler(1<<20, 1<<30)
	for i, ms := range []int64{500, 900, 700} {
		res, err := a.add(chunkOf(1, "a", 0, uint64(10*i), 10, i == 2), ms)
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
// came: no sample used twice in a read, no part crosses a gap, and what is held
// is counted.
func assemble(t *testing.T, chunks []*streampb.SignalChunk, limit int) []*assembledRead {
	t.Helper()
	a := newAssembler(limit, 1<<30)
	var reads []*assembledRead
	for i, c := range chunks {
		res, err := a.add(c, int64(i))
		if err != nil {
			t.Fatalf("chunk %d: %v", i, err)
		}
		reads = append(reads, res.finished...)
		checkHeld(t, a)
	}
	reads = append(reads, a.finishRun("run-1")...)
	if a.openReads() != 0 || a.held != 0 || a.channels != 0 || len(a.owners) != 0 {
		t.Fatalf("after the run %d reads and %d bytes are held, %d reads remembered", a.openReads(), a.held, len(a.owners))
	}
	for _, r := range reads {
		end := uint64(0)
		for i, stretch := range r.stretches() {
			from, to := stretch[0], stretch[1]
			if i > 0 && from <= end || from >= to {
				t.Fatalf("parts of %s touch, overlap or are empty", describe(r))
			}
			end = to
			samples := unpacked(t, r, from, to)
			if len(samples) != int(to-from) {
				t.Fatalf("%s: %d samples from %d to %d", describe(r), len(samples), from, to)
			}
			for j, s := range samples {
				if s != level(r.id, from+uint64(j)) {
					t.Fatalf("%s: sample %d is another's", describe(r), from+uint64(j))
				}
			}
		}
	}
	return reads
}

// unpacked returns samples of a stretch of a read.
func unpacked(t testing.TB, r *assembledRead, from, to uint64) []int16 {
	t.Helper()
	c := new(collected)
	k := &call{from: from, to: from, stream: c}
	if err := k.write(t.Context(), r, to, &unpacker{codec: vbz.NewCodec()}); err != nil {
		t.Fatal(err)
	}
	return c.read.Samples
}

func checkHeld(t *testing.T, a *assembler) {
	t.Helper()
	held := 0
	for i := range a.buckets {
		for _, ch := range a.buckets[i].channels {
			for _, r := range ch.open {
				if r.samples > a.maxSamples {
					t.Fatalf("read %s holds %d samples, the limit is %d", r.id, r.samples, a.maxSamples)
				}
				bytes := readBytes
				for _, c := range r.chunks {
					bytes += len(c.vbz) + chunkBytes + int(c.count)*calledBytes
				}
				if bytes != r.bytes {
					t.Fatalf("read %s takes %d bytes, counted are %d", r.id, bytes, r.bytes)
				}
				held += bytes
			}
		}
	}
	if held != a.held {
		t.Fatalf("%d bytes are held, counted are %d", held, a.held)
	}
}

// content is what a read says, without where it was found.
func content(r *assembledRead) string {
	bare := *r
	bare.endReason = ""
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
			for _, p := range r.stretches() {
				note(used, r.id, p[0], int(p[1]-p[0]))
			}
		}
		if !reflect.DeepEqual(arrived, used) {
			t.Fatalf("seed %d: samples that arrived were not used", seed)
		}
	}
}

// TestAssemblerOrder: the chunks of a read may come in any order before its last.
func TestAssemblerOrder(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 7))
		var chunks []*streampb.SignalChunk
		for first := 0; first < 900; {
			n := 1 + rng.IntN(90)
			if rng.IntN(10) > 0 {
				chunks = append(chunks, chunkOf(1, "a", 0, uint64(first), n, false))
			}
			first += n - rng.IntN(2)*rng.IntN(n) // they may overlap
		}
		last := chunkOf(1, "a", 0, 1000, 10, true)
		var want string
		for range 5 {
			reads := assemble(t, append(slices.Clone(chunks), last), 1<<20)
			if len(reads) != 1 {
				t.Fatalf("seed %d: %d reads", seed, len(reads))
			}
			if got := describe(reads[0]); want == "" {
				want = got
			} else if got != want {
				t.Fatalf("seed %d: %s, in another order %s", seed, want, got)
			}
			rng.Shuffle(len(chunks), func(i, j int) { chunks[i], chunks[j] = chunks[j], chunks[i] })
		}
	}
}

// benchmarkChunks are ten seconds each of 64 channels with a realistic current: a
// level for every nine samples, and noise.
func benchmarkChunks() []*streampb.SignalChunk {
	rng := rand.New(rand.NewPCG(1, 1))
	var chunks []*streampb.SignalChunk
	for i := range 10 {
		for ch := range uint32(64) {
			samples := make([]int16, 4000)
			current := 0.0
			for j := range samples {
				if j%9 == 0 {
					current = 500 + 80*rng.NormFloat64()
				}
				samples[j] = int16(current + 8*rng.NormFloat64())
			}
			c := chunkOf(ch, fmt.Sprint("read-", ch), 0, uint64(4000*i), 0, i == 9)
			c.SampleCount, c.Vbz = 4000, vbzOf(samples)
			chunks = append(chunks, c)
		}
	}
	return chunks
}

// BenchmarkAssembler measures one core, for signal that is taken in; that is
// also what muted replay takes, but for decoding the records.
func BenchmarkAssembler(b *testing.B) {
	chunks := benchmarkChunks()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		a := newAssembler(16<<20, 1<<30)
		for i, c := range chunks {
			if _, err := a.add(c, int64(i)); err != nil {
				b.Fatal(err)
			}
			n += int(c.GetSampleCount())
		}
	}
	b.ReportMetric(float64(n)/1e6/b.Elapsed().Seconds(), "Msamples/s")
}

// BenchmarkUnpack measures what a finished read costs before it is called.
func BenchmarkUnpack(b *testing.B) {
	a := newAssembler(16<<20, 1<<30)
	var reads []*assembledRead
	for _, c := range benchmarkChunks() {
		res, err := a.add(c, 0)
		if err != nil {
			b.Fatal(err)
		}
		reads = append(reads, res.finished...)
	}
	n := 0
	for b.Loop() {
		for _, r := range reads {
			n += len(unpacked(b, r, r.floor, r.total))
		}
	}
	b.ReportMetric(float64(n)/1e6/b.Elapsed().Seconds(), "Msamples/s")
}
