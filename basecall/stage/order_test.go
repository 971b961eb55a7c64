package stage

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// edited is a copy of a chunk with changes.
func edited(c *streampb.SignalChunk, edit func(c *streampb.SignalChunk)) *streampb.SignalChunk {
	copied := &streampb.SignalChunk{
		Run: c.GetRun(), Channel: c.GetChannel(), ReadId: c.GetReadId(), Number: c.GetNumber(), FirstSample: c.GetFirstSample(),
		SampleCount: c.GetSampleCount(), Vbz: c.GetVbz(), EndOfRead: c.GetEndOfRead(), EndReason: c.GetEndReason(), ReadStart: c.GetReadStart(),
		ReadNumber: c.GetReadNumber(), CalibrationOffset: c.GetCalibrationOffset(), CalibrationScale: c.GetCalibrationScale(),
	}
	edit(copied)
	return copied
}

// slice is the chunk of a read of bases [from, to) that holds its bases [first, last).
func sliceOf(channel uint32, id string, from, to, first, last int) *streampb.SignalChunk {
	samples := currentOf(reference[from+first : from+last])
	c := chunkOf(channel, id, uint64(from), uint64(first*samplesPerBase), 0, from+last == to)
	c.SampleCount, c.Vbz = uint32(len(samples)), vbzOf(samples)
	return c
}

func wrongSamples(c *streampb.SignalChunk) {
	c.Vbz = vbzOf(slices.Repeat([]int16{3}, int(c.GetSampleCount())))
}

// disorder is one row of docs/attach/signal-order.md.
type disorder struct {
	row   string // its first cell
	recs  func(p *partition)
	limit int64 // of memory
	cut   int   // samples of a read
	// tick is when, after the last record, the worker's clock ticks; what that
	// brings is handled, behind the records that again adds.
	tick  time.Duration
	again func(p *partition)
	// want is what comes of it: reads and ends of runs, and dead letters by code.
	want    []string
	letters []string
	counted map[string]float64
}

func disorders() []disorder {
	a := chunksOf(1, "a", 100, 250)   // four chunks
	b := chunksOf(1, "b", 1000, 1100) // three
	last := len(a) - 1
	all := func(chunks ...[]*streampb.SignalChunk) func(p *partition) {
		return func(p *partition) {
			for _, c := range slices.Concat(chunks...) {
				p.chunk(c)
			}
		}
	}
	list := func(chunks ...*streampb.SignalChunk) []*streampb.SignalChunk { return chunks }
	return []disorder{
		{row: "a chunk a second time", recs: all(a[:2], a[1:]), want: []string{"a/0 at 100"}, counted: map[string]float64{"duplicate_chunks_total": 1}},
		{row: "a finished read a second time", recs: all(a, b, a), want: []string{"a/0 at 100", "b/0 at 1000"}, counted: map[string]float64{"duplicate_chunks_total": 4}},
		{
			row: "an older finished read a second time",
			recs: func(p *partition) {
				all(a)(p)
				for i := range maxFinished {
					p.read(1, fmt.Sprint("next-", i), 1000+100*i, 1030+100*i)
				}
				all(a)(p)
			},
			want: []string{"a/0 at 100", "a/0 at 100", "next-0/0 at 1000", "next-1/0 at 1100", "next-2/0 at 1200", "next-3/0 at 1300"},
		},
		{row: "the chunks of a read in another order", recs: all(list(a[2], a[0], a[1], a[3])), want: []string{"a/0 at 100"}},
		{
			row:  "chunks that overlap and agree",
			recs: all(list(a[0], sliceOf(1, "a", 100, 250, 30, 100), a[2], a[3])), want: []string{"a/0 at 100"},
		},
		{
			row: "a gap in a read", recs: all(a[:1], a[2:]), want: []string{"a/0 at 100", "a/1 at 180"},
			counted: map[string]float64{"gaps_total": 1, "gap_samples_total": testChunk},
		},
		{row: "a missing chunk before the read's end", recs: all(list(a[0], a[2], a[1], a[3])), want: []string{"a/0 at 100"}},
		{
			row: "a missing chunk after the read's end", recs: all(a[:1], a[2:], a[1:2]), want: []string{"a/0 at 100", "a/1 at 180"},
			letters: []string{"late"}, counted: map[string]float64{"gaps_total": 1, "gap_samples_total": testChunk},
		},
		{
			row: "no end of a read, and the next read of the channel", recs: all(a[:last], b), want: []string{"a/0 at 100", "b/0 at 1000"},
			counted: map[string]float64{"lost_ends_total": 1},
		},
		{
			row: "no end of a read, and the end of its run", recs: func(p *partition) { all(a[:last])(p); p.end("run-1") },
			want: []string{"a/0 at 100", "end", ended}, counted: map[string]float64{"lost_ends_total": 1},
		},
		{
			row:  "signal behind the end of a read",
			recs: all(a, list(edited(sliceOf(1, "a", 100, 290, 150, 190), func(c *streampb.SignalChunk) { c.EndOfRead = false }))),
			want: []string{"a/0 at 100"}, letters: []string{"late"},
		},
		{
			row:  "other samples in the place of those of an open read",
			recs: all(a[:2], list(edited(a[1], wrongSamples), edited(sliceOf(1, "a", 100, 250, 20, 90), wrongSamples)), a[2:]),
			want: []string{"a/0 at 100"}, letters: []string{"conflict", "conflict"},
		},
		{
			row:  "other samples in the place of those of a finished read",
			recs: all(a, list(edited(a[1], wrongSamples))), want: []string{"a/0 at 100"}, letters: []string{"conflict"},
		},
		{
			row:  "an end of a read before samples that have come",
			recs: all(a[:3], list(edited(a[1], func(c *streampb.SignalChunk) { c.EndOfRead = true })), a[3:]),
			want: []string{"a/0 at 100"}, letters: []string{"conflict"},
		},
		{
			row:  "another length of a finished read",
			recs: all(a, list(edited(a[1], func(c *streampb.SignalChunk) { c.EndOfRead = true }), sliceOf(1, "a", 100, 300, 120, 200))),
			want: []string{"a/0 at 100"}, letters: []string{"conflict", "conflict"},
		},
		{
			row: "another calibration within a read",
			recs: all(a[:1], list(
				edited(a[1], func(c *streampb.SignalChunk) { c.CalibrationScale *= 2 }), edited(a[1], func(c *streampb.SignalChunk) { c.CalibrationOffset++ })), a[1:],
				list(edited(a[1], func(c *streampb.SignalChunk) { c.CalibrationOffset++ }))),
			want: []string{"a/0 at 100"}, letters: []string{"conflict", "conflict", "conflict"},
		},
		{
			row: "another start or number within a read",
			recs: all(a[:1], list(
				edited(a[1], func(c *streampb.SignalChunk) { c.ReadStart++ }), edited(a[1], func(c *streampb.SignalChunk) { c.ReadNumber++ })), a[1:]),
			want: []string{"a/0 at 100"}, letters: []string{"conflict", "conflict"},
		},
		{
			row: "a read id on another channel",
			recs: all(a[:1], list(edited(a[1], func(c *streampb.SignalChunk) { c.Channel = 2 })), a[1:],
				list(edited(a[0], func(c *streampb.SignalChunk) { c.Channel = 2 }))),
			want: []string{"a/0 at 100"}, letters: []string{"conflict", "conflict"},
		},
		{row: "a read that began before the open one of its channel", recs: all(b[:1], a, b[1:]), want: []string{"a/0 at 100", "b/0 at 1000"}},
		{
			row:  "samples that can't be unpacked",
			recs: all(a[:1], list(edited(a[1], func(c *streampb.SignalChunk) { c.Vbz = []byte("nonsense") })), a[1:]),
			want: []string{"a/0 at 100"}, letters: []string{"payload"},
		},
		{
			row:  "a chunk of a run that has not begun",
			recs: all(a[:1], list(edited(a[1], func(c *streampb.SignalChunk) { c.Run = "run-9" })), a[1:]), want: []string{"a/0 at 100"}, letters: []string{"invalid"},
		},
		{
			row:  "a chunk of a run that has ended",
			recs: func(p *partition) { p.end("run-1"); all(a[:2])(p) }, tick: 7 * time.Hour,
			want:    []string{"a/0 at 100", "end", "end", ended, "run-1 ended: END_STATUS_TIMEOUT"},
			counted: map[string]float64{"lost_ends_total": 1, "run_timeouts_total": 1},
		},
		{
			row: "an overlong read (16 Mi samples)", cut: 2 * testChunk, recs: all(a), want: []string{"a/0 at 100", "a/1 at 220"},
			counted: map[string]float64{"cuts_total": 1},
		},
		{
			row: "more open reads than memory for them", limit: 2 * leastOpenBytes * 4,
			recs: func(p *partition) {
				rng := rand.New(rand.NewPCG(3, 3))
				for i := range 9 {
					noise := make([]int16, stream.MaxChunkSamples)
					for j := range noise { // that can't be packed well: two chunks don't fit
						noise[j] = int16(rng.IntN(1 << 15))
					}
					c := chunkOf(uint32(1+i), fmt.Sprint("noise-", i), 0, 0, 0, false)
					c.SampleCount, c.Vbz = uint32(len(noise)), vbzOf(noise)
					p.chunk(c)
				}
			},
			counted: map[string]float64{"cuts_total": 8},
		},
		{
			row: "nothing of an open run for the run timeout", recs: all(a[:2]), tick: 6*time.Hour + time.Second,
			want:    []string{"a/0 at 100", "end", "run-1 ended: END_STATUS_TIMEOUT"},
			counted: map[string]float64{"lost_ends_total": 1, "run_timeouts_total": 1},
		},
		{
			row:  "something of a run between its timeout and the marker that says so",
			recs: all(a[:2]), tick: 6*time.Hour + time.Second, again: all(a[2:]), want: []string{"a/0 at 100"},
			counted: map[string]float64{"run_timeouts_total": 1},
		},
	}
}

// TestDisorder goes through the table of docs/attach/signal-order.md row by row.
func TestDisorder(t *testing.T) {
	documented := documentedRows(t)
	for _, d := range disorders() {
		t.Run(d.row, func(t *testing.T) {
			outcome, exists := documented[d.row]
			if !exists {
				t.Fatal("the table doesn't have this row")
			}
			delete(documented, d.row)
			for _, code := range d.letters {
				if !strings.Contains(outcome, "`"+code+"`") {
					t.Errorf("the table doesn't tell of dead letters with code %s", code)
				}
			}
			d.check(t)
		})
	}
	for row := range documented {
		t.Errorf("row %q is not tested", row)
	}
}

// documentedRows reads the table: what becomes of each disorder.
func documentedRows(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "attach", "signal-order.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) == 5 && !strings.HasPrefix(cells[1], "-") && strings.TrimSpace(cells[1]) != "what comes" {
			rows[strings.TrimSpace(cells[1])] = cells[2] + cells[3]
		}
	}
	if len(rows) < 20 {
		t.Fatalf("the table has %d rows", len(rows))
	}
	return rows
}

func (d disorder) check(t *testing.T) {
	p := &partition{t: t}
	p.start("run-1")
	d.recs(p)
	reg := prometheus.NewRegistry()
	cfg := testConfig()
	cfg.Metrics = NewMetrics(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dead_total", Help: "x"}, []string{"stage", "code"}))
	cfg.MaxSignalMemory, cfg.MaxReadSamples = d.limit, d.cut
	h := newHandler(t, cfg)
	defer h.Close()
	emit := new(fakeEmitter)
	handleAll(t, h, p.recs, emit)
	if d.tick > 0 {
		ticked := new(fakeEmitter)
		now := p.recs[len(p.recs)-1].Time.Add(d.tick)
		for range 3 { // once is enough
			if err := h.(stream.Ticker).Tick(t.Context(), now, ticked); err != nil {
				t.Fatal(err)
			}
		}
		n := len(p.recs)
		if d.again != nil {
			d.again(p)
		}
		for _, o := range ticked.outs {
			if o.Topic != "signal" || o.Partition != 1 {
				t.Errorf("a tick writes to %s/%d", o.Topic, o.Partition)
			}
			p.raw(o.Value)
		}
		if len(ticked.outs) != 1 {
			t.Fatalf("the ticks write %d markers, want 1", len(ticked.outs))
		}
		handleAll(t, h, p.recs[n:], emit)
	}
	if err := h.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got, letters []string
	for _, line := range emit.summary(t)[cfg.ReadsPartitions:] {
		switch {
		case strings.HasPrefix(line, "end "):
			if strings.HasSuffix(line, "to 0") {
				got = append(got, "end")
			}
		case line != "dlq":
			got = append(got, line)
		}
	}
	for _, o := range emit.outs {
		for _, header := range o.Headers {
			if header.Key == stream.HeaderCode {
				letters = append(letters, string(header.Value))
			}
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, d.want) {
		t.Errorf("what comes of it is %q, want %q", got, d.want)
	}
	if !slices.Equal(letters, d.letters) {
		t.Errorf("dead letters %q, want %q", letters, d.letters)
	}
	if got, want := emit.offsets(), allOffsets(p.recs); !slices.Equal(got, want) {
		t.Errorf("resolved %v, want each of %v once", got, want)
	}
	want := map[string]float64{
		"duplicate_chunks_total": 0, "gaps_total": 0, "gap_samples_total": 0, "lost_ends_total": 0, "cuts_total": 0, "run_timeouts_total": 0,
	}
	maps.Copy(want, d.counted)
	for name, n := range want {
		if got := sum(t, reg, "porestream_basecall_"+name); got != n {
			t.Errorf("%s is %v, want %v", name, got, n)
		}
	}
}

// TestRunTimeouts lives through days of a partition, in virtual time: a tick every
// ten seconds, and what it writes comes back over the log.
func TestRunTimeouts(t *testing.T) {
	chunk := func(id string, n int) []byte {
		value, err := stream.EncodeSignal(&streampb.SignalRecord{Body: &streampb.SignalRecord_Chunk{Chunk: chunksOf(1, id, 100, 250)[n]}})
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	marker := func(end bool, source uint32) []byte {
		value, err := stream.SignalMarker(&streampb.Marker{Run: testRun("run-1"), Source: source, Sources: 2}, end)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	type event struct {
		at    time.Duration
		value []byte
	}
	events := []event{
		{0, marker(false, 0)}, {0, marker(false, 1)},
		{time.Hour, chunk("a", 0)},
		{6*time.Hour + 30*time.Minute, chunk("a", 1)}, // half an hour before the timeout
		{8 * time.Hour, marker(true, 0)},              // one of two senders ends; the other never does: timeout at 14:00
		{20 * time.Hour, chunk("b", 0)},               // it comes back: timeout at 26:00
		{40 * time.Hour, chunk("c", 0)},               // and again, and ends as it should
		{41 * time.Hour, marker(true, 0)}, {41 * time.Hour, marker(true, 1)},
	}
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, testConfig())
		defer h.Close()
		began, offset := time.Now(), int64(0)
		var log []string
		handle := func(value []byte) {
			emit := new(fakeEmitter)
			rec := stream.Record{Topic: "signal", Partition: 1, Offset: offset, Time: time.Now(), Value: value}
			offset++
			if err := h.Handle(t.Context(), rec, emit); err != nil {
				t.Fatal(err)
			}
			if err := h.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, line := range emit.summary(t) {
				if !strings.HasPrefix(line, "start ") && !strings.HasSuffix(line, "to 1") {
					log = append(log, fmt.Sprint(time.Since(began).Truncate(time.Minute), " ", line))
				}
			}
			// The handler that goes on is another one, now and then.
			if offset%2 == 0 {
				next := restored(t, testConfig(), snapshot{sections: sectionsOf(t, h.State())})
				if err := h.Close(); err != nil {
					t.Fatal(err)
				}
				h = next
			}
		}
		for now := time.Duration(0); now < 60*time.Hour; now += 10 * time.Second {
			for len(events) > 0 && events[0].at <= now {
				handle(events[0].value)
				events = events[1:]
			}
			ticked := new(fakeEmitter)
			if err := h.(stream.Ticker).Tick(t.Context(), time.Now(), ticked); err != nil {
				t.Fatal(err)
			}
			for _, o := range ticked.outs {
				handle(o.Value)
			}
			time.Sleep(10 * time.Second)
		}
		want := []string{
			"14h0m0s a/0 at 100", "14h0m0s end run-1 1/4 to 0", "14h0m0s run-1 ended: END_STATUS_TIMEOUT",
			"26h0m0s b/0 at 100", "26h0m0s end run-1 1/4 to 0", "26h0m0s run-1 ended: END_STATUS_TIMEOUT",
			// One sender's end ends the run again, with the other one's status; then that ends too.
			"41h0m0s c/0 at 100", "41h0m0s end run-1 1/4 to 0", "41h0m0s run-1 ended: END_STATUS_TIMEOUT",
			"41h0m0s end run-1 1/4 to 0", "41h0m0s run-1 ended: END_STATUS_NORMAL",
		}
		if !slices.Equal(log, want) {
			t.Errorf("in 60 hours came\n%s\nwant\n%s", strings.Join(log, "\n"), strings.Join(want, "\n"))
		}
	})
}
