package minknow

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/ingest/minknow/minknowpb"
	"github.com/porestream/porestream/signal/vbz"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// Read classes of the tests.
const (
	strandClass = 1
	poreClass   = 2
)

// counter is an observer that keeps everything.
type counter struct {
	gaps, other int
	samples     [causes]missing
	reasons     map[string]int
}

func (c *counter) missing(_ uint32, why cause, m missing) {
	if m.in > 0 {
		c.gaps++
	} else {
		c.other++
	}
	c.samples[why].in += m.in
	c.samples[why].other += m.other
}

func (c *counter) refused(reason string) {
	if c.reasons == nil {
		c.reasons = make(map[string]int)
	}
	c.reasons[reason]++
}

func newTestReads(channels int, filtered bool) (*reads, *counter) {
	cfg := readsConfig{run: "run", classes: map[int32]bool{strandClass: true}, filtered: filtered, chunk: 100}
	for i := range channels {
		cfg.calibrations = append(cfg.calibrations, calibration{float32(i), 0.5})
	}
	c := new(counter)
	return newReads(cfg, c), c
}

// level is the sample that a channel has at a place in the run.
func level(channel uint32, at uint64) int16 { return int16(at*31 + uint64(channel)*7919) }

func levels(channel uint32, from, to uint64) []byte {
	var b []byte
	for at := from; at < to; at++ {
		b = binary.LittleEndian.AppendUint16(b, uint16(level(channel, at)))
	}
	return b
}

// piece is a chunk as MinKNOW has it.
type piece struct {
	channel        uint32
	id             string
	readStart      uint64
	start, end     uint64
	class          int32
	previous       minknowpb.ReadEndReason
	dropped, empty bool
}

func (p piece) data() *minknowpb.GetLiveReadsResponse_ReadData {
	d := &minknowpb.GetLiveReadsResponse_ReadData{
		Id: p.id, StartSample: p.readStart, ChunkStartSample: p.start, ChunkLength: p.end - p.start,
		ChunkClassifications: []int32{p.class}, PreviousReadEndReason: p.previous,
	}
	if !p.empty {
		d.RawData = levels(p.channel, p.start, p.end)
	}
	return d
}

func response(pieces ...piece) *minknowpb.GetLiveReadsResponse {
	m := &minknowpb.GetLiveReadsResponse{Channels: make(map[uint32]*minknowpb.GetLiveReadsResponse_ReadData)}
	for _, p := range pieces {
		m.Channels[p.channel] = p.data()
	}
	return m
}

// sink keeps chunks, and checks what holds of each.
type sink struct {
	t      *testing.T
	chunks []*streampb.SignalChunk
}

func (s *sink) take(c *streampb.SignalChunk) (bool, error) {
	s.t.Helper()
	if _, err := stream.EncodeSignal(&streampb.SignalRecord{Body: &streampb.SignalRecord_Chunk{Chunk: c}}); err != nil {
		s.t.Errorf("read %s: %v", c.GetReadId(), err)
	}
	samples, err := vbz.NewCodec().Decode(nil, c.GetVbz(), int(c.GetSampleCount()))
	if err != nil {
		s.t.Errorf("read %s: %v", c.GetReadId(), err)
	}
	for i, got := range samples {
		if want := level(c.GetChannel(), c.GetReadStart()+c.GetFirstSample()+uint64(i)); got != want {
			s.t.Fatalf("read %s from its sample %d on: sample %d is %d, want %d", c.GetReadId(), c.GetFirstSample(), i, got, want)
		}
	}
	s.chunks = append(s.chunks, proto.CloneOf(c))
	return true, nil
}

// script prints the chunks in short.
func (s *sink) script() string {
	var b strings.Builder
	for _, c := range s.chunks {
		fmt.Fprintf(&b, "%s@%d %d+%d", c.GetReadId(), c.GetReadStart(), c.GetFirstSample(), c.GetSampleCount())
		if c.GetEndOfRead() {
			fmt.Fprintf(&b, " end %s", c.GetEndReason())
		}
		b.WriteString("; ")
	}
	return strings.TrimSuffix(b.String(), "; ")
}

func TestReads(t *testing.T) {
	strand := func(id string, readStart, start, end uint64) piece {
		return piece{channel: 1, id: id, readStart: readStart, start: start, end: end, class: strandClass}
	}
	pore := func(id string, readStart, start, end uint64) piece {
		return piece{channel: 1, id: id, readStart: readStart, start: start, end: end, class: poreClass, previous: minknowpb.ReadEndReason_SignalPositive}
	}
	other := func(end uint64) piece { // another channel, on which time goes on
		return piece{channel: 2, id: fmt.Sprint("t", end), readStart: end - 100, start: end - 100, end: end, class: poreClass}
	}
	for _, tt := range []struct {
		name     string
		filtered bool
		pieces   []piece
		want     string
		in, out  uint64
		refused  string
	}{
		{
			name:   "a read, and the open pore behind it tells its end",
			pieces: []piece{strand("a", 0, 0, 100), strand("a", 0, 100, 140), pore("p", 140, 140, 200)},
			want:   "a@0 0+100; a@0 100+40; a@0 140+0 end signal_positive",
		},
		{
			name:   "a chunk is skipped",
			pieces: []piece{strand("a", 0, 0, 100), strand("a", 0, 200, 250), pore("p", 250, 250, 300)},
			want:   "a@0 0+100; a@0 200+50; a@0 250+0 end signal_positive",
			in:     100,
		},
		{
			name:   "the first chunk is skipped",
			pieces: []piece{pore("p", 0, 0, 100), strand("a", 100, 200, 250), pore("q", 250, 250, 300)},
			want:   "a@100 100+50; a@100 150+0 end signal_positive",
			in:     100,
		},
		{
			name:   "the last chunk is skipped, and why the read has ended is not said of it for certain",
			pieces: []piece{strand("a", 0, 0, 100), pore("p", 170, 170, 270)},
			want:   "a@0 0+100; a@0 170+0 end unknown",
			in:     70,
		},
		{
			name:   "chunks on both sides of a border are skipped",
			pieces: []piece{strand("a", 0, 0, 100), pore("p", 150, 250, 300), strand("b", 300, 300, 350)},
			want:   "a@0 0+100; a@0 150+0 end unknown; b@300 0+50",
			in:     50, out: 100,
		},
		{
			name:   "an open pore is skipped",
			pieces: []piece{pore("p", 0, 0, 100), pore("p", 0, 200, 300)},
			out:    100,
		},
		{
			name:   "what lies before the first chunk is not missing",
			pieces: []piece{strand("a", 0, 1000, 1100), pore("p", 1100, 1100, 1200)},
			want:   "a@0 1000+100; a@0 1100+0 end signal_positive",
		},
		{
			name:   "a chunk comes again, and one that overlaps",
			pieces: []piece{strand("a", 0, 0, 100), strand("a", 0, 0, 100), strand("a", 0, 60, 160)},
			want:   "a@0 0+100; a@0 100+60",
		},
		{
			name:   "signal without data",
			pieces: []piece{strand("a", 0, 0, 100), {channel: 1, id: "a", start: 100, end: 200, class: strandClass, empty: true}, strand("a", 0, 200, 300)},
			want:   "a@0 0+100; a@0 200+100",
			in:     100,
		},
		{
			name:   "nothing comes for four chunks",
			pieces: []piece{strand("a", 0, 0, 100), other(400), other(500), other(600)},
			want:   "a@0 0+100; a@0 100+0 end unknown",
		},
		{
			name:   "a read goes on after silence: as a piece of its own",
			pieces: []piece{strand("a", 0, 0, 100), other(500), strand("a", 0, 600, 700), strand("a", 0, 700, 720), pore("p", 720, 720, 800)},
			want:   "a@0 0+100; a@0 100+0 end unknown; a_2@100 500+100; a_2@100 600+20; a_2@100 620+0 end signal_positive",
			in:     500,
		},
		{
			name:   "what becomes a strand only later begins with a gap",
			pieces: []piece{pore("a", 0, 0, 100), strand("a", 0, 100, 200)},
			want:   "a@0 100+100",
		},
		{
			name: "filtered: silence ends a read", filtered: true,
			pieces: []piece{strand("a", 0, 0, 100), other(240), other(250)},
			want:   "a@0 0+100; t240@140 0+100; t240@140 100+0 end unknown; t250@150 0+100; a@0 100+0 end unknown",
		},
		{
			name: "filtered: the next read ends it where it was last seen", filtered: true,
			pieces: []piece{strand("a", 0, 0, 100), strand("b", 130, 180, 200)},
			want:   "a@0 0+100; a@0 100+0 end unknown; b@130 50+20",
			in:     50,
		},
		{
			name:    "the clock goes back",
			pieces:  []piece{strand("a", 500, 500, 600), strand("b", 0, 100, 200), strand("a", 500, 600, 700)},
			want:    "a@500 0+100; a@500 100+100",
			refused: "clock",
		},
		{name: "a chunk before its read", pieces: []piece{strand("a", 100, 50, 150)}, refused: "message"},
		{name: "no samples", pieces: []piece{strand("a", 0, 50, 50)}, refused: "message"},
		{name: "no id", pieces: []piece{strand("", 0, 0, 50)}, refused: "message"},
		{name: "an id that is no text", pieces: []piece{strand("\xff", 0, 0, 50)}, refused: "message"},
		{name: "no such channel", pieces: []piece{{channel: 3, id: "a", end: 50}}, refused: "message"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, c := newTestReads(2, tt.filtered)
			s := &sink{t: t}
			for _, p := range tt.pieces {
				if err := r.take(response(p), s.take); err != nil {
					t.Fatal(err)
				}
			}
			if got := s.script(); got != tt.want {
				t.Errorf("emitted %s\n    want %s", got, tt.want)
			}
			var in, out uint64
			for _, m := range c.samples {
				in, out = in+m.in, out+m.other
			}
			// Channel 2 only gives the time, and its stretches don't follow each other.
			out -= min(out, r.losses[2].OtherSamples[skipped])
			in -= r.losses[2].Samples[skipped]
			if in != tt.in || out != tt.out {
				t.Errorf("%d samples of reads are missing and %d others, want %d and %d", in, out, tt.in, tt.out)
			}
			if tt.refused != "" && (c.reasons[tt.refused] != 1 || r.fault == nil || strings.Contains(r.fault.Error(), "\n")) {
				t.Errorf("refused %v: %v", c.reasons, r.fault)
			}
			if tt.refused == "" && len(c.reasons) > 0 {
				t.Errorf("refused %v: %v", c.reasons, r.fault)
			}
		})
	}
}

// TestReconnected: after a connection was lost, reads get time to go on, and what
// was missed is counted as such.
func TestReconnected(t *testing.T) {
	r, c := newTestReads(2, false)
	s := &sink{t: t}
	take := func(p piece) {
		t.Helper()
		if err := r.take(response(p), s.take); err != nil {
			t.Fatal(err)
		}
	}
	take(piece{channel: 1, id: "a", start: 0, end: 100, class: strandClass})
	take(piece{channel: 2, id: "b", start: 0, end: 100, class: strandClass})
	r.reconnected()
	if err := r.quiet(10_000, s.take); err != nil {
		t.Fatal(err)
	}
	take(piece{channel: 2, id: "b", start: 5000, end: 5100, class: strandClass})
	take(piece{channel: 1, id: "a", start: 5100, end: 5200, class: strandClass})
	want := "a@0 0+100; b@0 0+100; b@0 5000+100; a@0 5100+100"
	if got := s.script(); got != want {
		t.Errorf("emitted %s\n    want %s", got, want)
	}
	if c.samples[disconnected].in != 4900+5000 || c.samples[skipped].in != 0 {
		t.Errorf("missing: %+v", c.samples)
	}
	if err := r.quiet(10_000, s.take); err != nil {
		t.Fatal(err)
	}
	if got := s.script(); got != want+"; a@0 5200+0 end unknown; b@0 5100+0 end unknown" {
		t.Errorf("emitted %s", got)
	}
}

// TestLongChunk: a chunk may be longer than one of the stream's.
func TestLongChunk(t *testing.T) {
	r, _ := newTestReads(1, false)
	s := &sink{t: t}
	const n = stream.MaxChunkSamples + 10
	if err := r.take(response(piece{channel: 1, id: "a", end: n, class: strandClass}), s.take); err != nil {
		t.Fatal(err)
	}
	if err := r.end(s.take); err != nil {
		t.Fatal(err)
	}
	if got, want := s.script(), fmt.Sprintf("a@0 0+%d; a@0 %d+10; a@0 %d+0 end unknown", n-10, n-10, n); got != want {
		t.Errorf("emitted %s, want %s", got, want)
	}
}

func TestEmitFails(t *testing.T) {
	r, _ := newTestReads(1, false)
	broken := errors.New("broken")
	err := r.take(response(piece{channel: 1, id: "a", end: 100, class: strandClass}), func(*streampb.SignalChunk) (bool, error) { return false, broken })
	if !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

// timeline is what a channel gives: stretches behind each other, in chunks.
func timeline(rng *rand.Rand, channel uint32, first, length uint64) []piece {
	var out []piece
	at := first
	for n := 0; at < length; n++ {
		p := piece{channel: channel, id: fmt.Sprintf("c%d-%d", channel, n), readStart: at, class: strandClass}
		if n%2 == 1 {
			p.class = poreClass
		}
		end := at + 1 + uint64(rng.IntN(900))
		for ; at < end; at = p.end {
			p.start, p.end = at, min(at+100, end)
			out = append(out, p)
		}
	}
	return out
}

// TestLossesAreCounted: whatever is dropped, every sample of a channel has come or
// is counted, each stretch of missing signal is one gap, and what the stream shows
// as missing within reads is what is counted there.
func TestLossesAreCounted(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		const channels = 5
		r, _ := newTestReads(channels, false)
		s := &sink{t: t}
		var all []piece
		lose := []float64{0, 0.05, 0.3, 0.8}[seed%4]
		for c := range uint32(channels) {
			first := uint64(0) // the run's
			if seed%8 >= 4 {
				first = 1 + uint64(rng.IntN(50))
			}
			line := timeline(rng, c+1, first, 20_000)
			for i := range line {
				// The last chunk says up to when the channel is watched; the first does so
				// from when on, unless all channels are watched from the run's start.
				line[i].dropped = (i > 0 || seed%8 < 4 && c > 0) && i < len(line)-1 && rng.Float64() < lose
			}
			all = append(all, line...)
		}
		slices.SortStableFunc(all, func(a, b piece) int { return cmp.Compare(a.end, b.end) })
		if seed%8 < 4 {
			i := slices.IndexFunc(all, func(p piece) bool { return p.channel == 1 })
			all = append(append([]piece{all[i]}, all[:i]...), all[i+1:]...) // the run's first sample comes first
		}
		for _, p := range all {
			if p.dropped {
				continue
			}
			if err := r.take(response(p), s.take); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.end(s.take); err != nil {
			t.Fatal(err)
		}
		for c := range uint32(channels) {
			var dropped, gaps uint64
			was := false
			for _, p := range all {
				if p.channel != c+1 {
					continue
				}
				if p.dropped {
					dropped += p.end - p.start
				}
				if p.dropped && !was {
					gaps++
				}
				was = p.dropped
			}
			l := r.losses[c+1]
			if got := l.Samples[skipped] + l.OtherSamples[skipped]; got != dropped || l.Gaps+l.OtherGaps != gaps {
				t.Fatalf("seed %d, channel %d: %d samples in %d gaps were dropped, %+v were counted", seed, c+1, dropped, gaps, l)
			}
			if shown := shownMissing(t, s.chunks, c+1); shown != l.Samples[skipped] {
				t.Fatalf("seed %d, channel %d: the stream lacks %d samples in reads, %d were counted", seed, c+1, shown, l.Samples[skipped])
			}
		}
	}
}

// shownMissing is how many samples of a channel's reads the stream lacks.
func shownMissing(t *testing.T, chunks []*streampb.SignalChunk, channel uint32) uint64 {
	t.Helper()
	have, total := make(map[string]uint64), make(map[string]uint64)
	ended := make(map[string]bool)
	var missing uint64
	for _, c := range chunks {
		if c.GetChannel() != channel {
			continue
		}
		if ended[c.GetReadId()] {
			t.Fatalf("read %s has signal behind its end", c.GetReadId())
		}
		have[c.GetReadId()] += uint64(c.GetSampleCount())
		total[c.GetReadId()] = c.GetFirstSample() + uint64(c.GetSampleCount())
		ended[c.GetReadId()] = c.GetEndOfRead()
	}
	for id, n := range total {
		if !ended[id] {
			t.Fatalf("read %s has no end", id)
		}
		missing += n - have[id]
	}
	return missing
}

// FuzzLiveReads: whatever comes from the wire, the stream takes what is emitted,
// and the samples are bounded by what came.
func FuzzLiveReads(f *testing.F) {
	seed := func(ms ...*minknowpb.GetLiveReadsResponse) {
		var b []byte
		for _, m := range ms {
			body, err := proto.Marshal(m)
			if err != nil {
				f.Fatal(err)
			}
			b = binary.AppendUvarint(b, uint64(len(body)))
			b = append(b, body...)
		}
		f.Add(b)
	}
	seed(response(piece{channel: 1, id: "a", end: 100, class: strandClass}), response(piece{channel: 1, id: "a", start: 150, end: 200, class: strandClass}),
		response(piece{channel: 1, id: "p", readStart: 210, start: 210, end: 230, class: poreClass}))
	seed(response(piece{channel: 1, id: "a", start: 1 << 40, end: 1<<40 + 5, class: strandClass}))
	seed(&minknowpb.GetLiveReadsResponse{SamplesSinceStart: 1 << 63, Channels: map[uint32]*minknowpb.GetLiveReadsResponse_ReadData{
		1: {Id: "a", ChunkLength: 1<<64 - 1, ChunkStartSample: 7}, 0: {}, 9: nil,
	}})
	codec := vbz.NewCodec()
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, filtered := range []bool{false, true} {
			r, _ := newTestReads(4, filtered)
			r.codec = codec // making one takes longer than the rest
			emitted, came := 0, 0
			to := func(c *streampb.SignalChunk) (bool, error) {
				if _, err := stream.EncodeSignal(&streampb.SignalRecord{Body: &streampb.SignalRecord_Chunk{Chunk: c}}); err != nil {
					t.Errorf("the stream does not take read %q: %v", c.GetReadId(), err)
				}
				emitted += int(c.GetSampleCount())
				return true, nil
			}
			for rest := b; len(rest) > 0; {
				n, k := binary.Uvarint(rest)
				if k <= 0 || n > uint64(len(rest)-k) {
					break
				}
				m := new(minknowpb.GetLiveReadsResponse)
				if proto.Unmarshal(rest[k:k+int(n)], m) == nil {
					for _, c := range m.GetChannels() {
						came += len(c.GetRawData()) / 2
					}
					if err := r.take(m, to); err != nil {
						t.Fatal(err)
					}
				}
				rest = rest[k+int(n):]
			}
			if err := r.end(to); err != nil {
				t.Fatal(err)
			}
			if emitted > came {
				t.Errorf("%d samples have come, and %d were emitted", came, emitted)
			}
		}
	})
}

// BenchmarkReads takes chunks of a PromethION cell: 3,000 channels at 5 kHz.
func BenchmarkReads(b *testing.B) {
	const channels, chunk = 3000, 4000
	r, _ := newTestReads(channels, false)
	m := &minknowpb.GetLiveReadsResponse{Channels: make(map[uint32]*minknowpb.GetLiveReadsResponse_ReadData)}
	rng := rand.New(rand.NewPCG(1, 1))
	for c := range uint32(channels) {
		raw := make([]byte, 0, 2*chunk)
		for range chunk {
			raw = binary.LittleEndian.AppendUint16(raw, uint16(500+int16(rng.NormFloat64()*12)))
		}
		m.Channels[c+1] = &minknowpb.GetLiveReadsResponse_ReadData{Id: fmt.Sprint(c), ChunkLength: chunk, RawData: raw, ChunkClassifications: []int32{strandClass}}
	}
	to := func(*streampb.SignalChunk) (bool, error) { return true, nil }
	b.SetBytes(2 * channels * chunk)
	b.ReportAllocs()
	for b.Loop() {
		if err := r.take(m, to); err != nil {
			b.Fatal(err)
		}
		for _, c := range m.GetChannels() {
			c.ChunkStartSample += chunk
		}
	}
	b.ReportMetric(float64(b.N)*channels*chunk/b.Elapsed().Seconds(), "samples/s")
}
