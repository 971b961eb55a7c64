package ingest

import (
	"sync"
	"time"

	"github.com/porestream/porestream/stream/streampb"
)

// Figures are what a source of signal has come to: what it has under way, and
// what it has taken since the process began.
type Figures struct {
	Runs             int     // under way
	RunsStarted      int64   // since the process began, resumed ones included
	Channels         int     // that have sent signal of the runs under way
	SamplesPerSecond float64 // over the last ten seconds
	Samples, Chunks  int64
	// Gaps counts the places within reads where samples are missing, GapSamples
	// these.
	Gaps, GapSamples int64
	// LostSamples found no space in memory and spool.
	LostSamples int64
	// Unacknowledged counts the events of the runs under way that are not committed
	// in Kafka, and Oldest is the age of the oldest of those in memory.
	Unacknowledged uint64
	Oldest         time.Duration
}

// rateSeconds is over how many whole seconds a rate is averaged.
const rateSeconds = 10

// tally counts what [Figures] holds. Gaps are found here as a reader of the topic
// finds them: by the first samples of the chunks that were taken.
type tally struct {
	mu     sync.Mutex
	sums   Figures
	active map[*session]map[uint32]*newest // by channel
	rate   [rateSeconds + 1]struct{ second, samples int64 }
	cells  map[string]*cell // by run
	order  []string         // runs of cells, oldest first
}

// newest is where a channel's newest read has come to.
type newest struct {
	read string
	next uint64 // the read's first sample behind its last chunk
}

func newTally() *tally {
	return &tally{active: make(map[*session]map[uint32]*newest), cells: make(map[string]*cell)}
}

func (t *tally) begin(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sums.RunsStarted++
	t.active[s] = make(map[uint32]*newest)
}

func (t *tally) finish(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.active, s)
}

// chunk counts a chunk that was taken of a session's run.
func (t *tally) chunk(c *streampb.SignalChunk, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := int64(c.GetSampleCount())
	t.sums.Chunks++
	t.sums.Samples += n
	second := now.Unix()
	slot := &t.rate[uint64(second)%uint64(len(t.rate))]
	if slot.second != second {
		slot.second, slot.samples = second, 0
	}
	slot.samples += n
	t.cell(c.GetRun()).chunk(c)
	for s, channels := range t.active {
		if s.run.GetId() == c.GetRun() {
			t.hear(channels, c)
			return
		}
	}
}

// called counts a called read.
func (t *tally) called(r *streampb.CalledRead) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cell(r.GetRun()).Reads++
}

// hear follows a channel, whose first chunk is believed. mu is held.
func (t *tally) hear(channels map[uint32]*newest, c *streampb.SignalChunk) {
	h := channels[c.GetChannel()]
	if h == nil {
		h = &newest{read: c.GetReadId(), next: c.GetFirstSample()}
		channels[c.GetChannel()] = h
	}
	if h.read != c.GetReadId() {
		h.read, h.next = c.GetReadId(), 0
	}
	if first := c.GetFirstSample(); first > h.next {
		t.sums.Gaps++
		t.sums.GapSamples += int64(first - h.next)
	}
	h.next = c.GetFirstSample() + uint64(c.GetSampleCount())
}

func (t *tally) lose(samples int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sums.LostSamples += int64(samples)
}

func (t *tally) figures(now time.Time) Figures {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.sums
	f.Runs = len(t.active)
	for s, channels := range t.active {
		f.Channels += len(channels)
		waiting, oldest := s.queue.backlog()
		f.Unacknowledged += waiting
		if !oldest.IsZero() {
			f.Oldest = max(f.Oldest, now.Sub(oldest))
		}
	}
	var samples int64
	for _, slot := range t.rate {
		if age := now.Unix() - slot.second; age >= 1 && age <= rateSeconds {
			samples += slot.samples
		}
	}
	f.SamplesPerSecond = float64(samples) / rateSeconds
	return f
}
