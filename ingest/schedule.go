package ingest

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"time"
)

// PlannedRead is what a schedule needs to know of a read.
type PlannedRead struct {
	Run     int // index of the run
	Channel uint32
	Start   uint64 // first sample since the run started
	Samples int
}

// ChunkPlan is one chunk and when the sequencer would have it complete.
type ChunkPlan struct {
	Read   int // index into the planned reads
	Number int // chunk number within the read
	First  int // first sample within the read
	Count  int
	Last   bool
	// Due is when the chunk's last sample is there, from the moment the first
	// read of the chunk's run starts.
	Due time.Duration
}

// Schedule yields the chunks of many reads in the order in which a sequencer
// would deliver them: by time, and at equal times by read. A channel has one
// read at a time; a recording that says otherwise (some formats carry no start
// times) is played one read after the other.
type Schedule struct {
	reads []PlannedRead
	rates []int // samples per second, by run
	chunk []int // samples per chunk, by run
	// waiting holds the reads that have not begun, by channel, in start order.
	waiting map[channelKey][]int
	offset  []uint64 // earliest start, by run
	queue   chunkHeap
}

type channelKey struct {
	run     int
	channel uint32
}

// NewSchedule plans reads. rates holds the sample rate of every run, chunk the
// length of a chunk; it is at least one sample.
func NewSchedule(reads []PlannedRead, rates []int, chunk time.Duration) *Schedule {
	s := &Schedule{reads: reads, rates: rates, waiting: make(map[channelKey][]int), offset: make([]uint64, len(rates))}
	for _, rate := range rates {
		s.chunk = append(s.chunk, max(1, int(chunk.Seconds()*float64(rate))))
	}
	order := make([]int, len(reads))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(reads[a].Start, reads[b].Start) })
	seen := make([]bool, len(rates))
	for _, i := range order {
		r := reads[i]
		if !seen[r.Run] {
			seen[r.Run], s.offset[r.Run] = true, r.Start
		}
		key := channelKey{r.Run, r.Channel}
		s.waiting[key] = append(s.waiting[key], i)
	}
	for key := range s.waiting {
		s.begin(key, 0)
	}
	return s
}

// begin queues the first chunk of the channel's next read, which starts at its
// own time or, when the channel is still busy then, at the time it is free.
func (s *Schedule) begin(key channelKey, free uint64) {
	list := s.waiting[key]
	if len(list) == 0 {
		return
	}
	s.waiting[key] = list[1:]
	r := s.reads[list[0]]
	s.push(list[0], 0, 0, max(r.Start-s.offset[r.Run], free))
}

func (s *Schedule) push(read, number, first int, start uint64) {
	r := s.reads[read]
	count := min(s.chunk[r.Run], r.Samples-first)
	end := start + uint64(first+count)
	rate := uint64(s.rates[r.Run])
	due := time.Duration(math.MaxInt64) // what a Duration can't hold is never due
	if end/rate < math.MaxInt64/uint64(time.Second) {
		due = time.Duration(end/rate)*time.Second + time.Duration(end%rate*uint64(time.Second)/rate)
	}
	heap.Push(&s.queue, queuedChunk{
		ChunkPlan: ChunkPlan{Read: read, Number: number, First: first, Count: count, Last: first+count == r.Samples, Due: due},
		start:     start,
	})
}

// Next returns the next chunk; ok is false when none is left.
func (s *Schedule) Next() (plan ChunkPlan, ok bool) {
	if len(s.queue) == 0 {
		return ChunkPlan{}, false
	}
	c := heap.Pop(&s.queue).(queuedChunk)
	r := s.reads[c.Read]
	if c.Last {
		s.begin(channelKey{r.Run, r.Channel}, c.start+uint64(r.Samples))
	} else {
		s.push(c.Read, c.Number+1, c.First+c.Count, c.start)
	}
	return c.ChunkPlan, true
}

type queuedChunk struct {
	ChunkPlan
	start uint64 // of the read, from the run's first
}

type chunkHeap []queuedChunk

func (h chunkHeap) Len() int { return len(h) }
func (h chunkHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].Due, h[j].Due), cmp.Compare(h[i].Read, h[j].Read)) < 0
}
func (h chunkHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *chunkHeap) Push(x any)   { *h = append(*h, x.(queuedChunk)) }
func (h *chunkHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
