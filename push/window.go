package push

import "fmt"

// entry is a chunk that has not been acknowledged, and what it takes.
type entry[T any] struct {
	value T
	size  int64
}

// window holds a run's chunks from the first that is not acknowledged to the newest,
// and knows which of them is sent next.
type window[T any] struct {
	limit   int64 // bytes
	size    int64
	entries []entry[T]
	first   uint64 // number of the first entry
	send    uint64 // number of the one that is sent next
}

// newWindow begins with chunk number first.
func newWindow[T any](first uint64, limit int64) *window[T] {
	return &window[T]{limit: limit, first: first, send: first}
}

// next is the number of the chunk that is added next.
func (w *window[T]) next() uint64 { return w.first + uint64(len(w.entries)) }

// fits reports whether the window has space for a chunk of a size. A window that is
// empty takes any.
func (w *window[T]) fits(size int64) bool { return w.size == 0 || w.size+size <= w.limit }

// add puts a chunk behind the others.
func (w *window[T]) add(value T, size int64) {
	w.entries = append(w.entries, entry[T]{value, size})
	w.size += size
}

// pending is the chunk to be sent now, if there is one.
func (w *window[T]) pending() (value T, ok bool) {
	if w.send == w.next() {
		return value, false
	}
	return w.entries[w.send-w.first].value, true
}

// sent notes that the pending chunk is on its way.
func (w *window[T]) sent() { w.send++ }

// ack forgets the chunks below a number. One that was acknowledged stays so: a
// smaller number changes nothing.
func (w *window[T]) ack(number uint64) error {
	if number > w.next() {
		return fmt.Errorf("the server acknowledges %d chunks, and there are %d", number, w.next())
	}
	for w.first < number {
		w.size -= w.entries[0].size
		w.entries[0] = entry[T]{}
		w.entries = w.entries[1:]
		w.first++
	}
	w.send = max(w.send, w.first)
	return nil
}

// rewind makes chunk number next the one that is sent next.
func (w *window[T]) rewind(next uint64) error {
	if next < w.first {
		return fmt.Errorf("the server goes on with chunk %d, and those below %d were acknowledged and are gone", next, w.first)
	}
	if next > w.next() {
		return fmt.Errorf("the server goes on with chunk %d, and there are %d: another sender has sent what is between", next, w.next())
	}
	w.send = next
	return nil
}
