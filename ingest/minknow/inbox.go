package minknow

import (
	"sync"

	"github.com/porestream/porestream/ingest/minknow/minknowpb"
)

// What a chunk takes in memory besides its signal.
const chunkOverhead = 256

// inbox holds what has come of live reads until it is taken. put never waits, so
// MinKNOW is never made to wait: when the inbox is full, chunks lose their signal
// and keep the rest, so that what is missing is known, and at last they are dropped.
type inbox struct {
	limit int // bytes

	mu    sync.Mutex
	queue []*minknowpb.GetLiveReadsResponse
	bytes int
	err   error // why nothing more comes; nil: more may come
	wake  chan struct{}
}

func newInbox(limit int) *inbox { return &inbox{limit: limit, wake: make(chan struct{}, 1)} }

func (b *inbox) put(m *minknowpb.GetLiveReadsResponse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bytes+size(m) > b.limit {
		for _, c := range m.GetChannels() {
			c.RawData = nil
		}
	}
	if b.bytes+size(m) > b.limit+b.limit/4 {
		return
	}
	b.bytes += size(m)
	b.queue = append(b.queue, m)
	b.signal()
}

// close says that nothing more comes.
func (b *inbox) close(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
	b.signal()
}

func (b *inbox) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take returns the oldest message, or nil and, if nothing more comes, why.
func (b *inbox) take() (*minknowpb.GetLiveReadsResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		return nil, b.err
	}
	m := b.queue[0]
	b.queue[0] = nil
	b.queue = b.queue[1:]
	b.bytes -= size(m)
	return m, nil
}

func size(m *minknowpb.GetLiveReadsResponse) int {
	n := chunkOverhead
	for _, c := range m.GetChannels() {
		n += chunkOverhead + len(c.GetRawData())
	}
	return n + chunkOverhead*len(m.GetActionResponses())
}
