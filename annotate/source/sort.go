package source

import (
	"bufio"
	"cmp"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// item is an entry on its way into a file.
type item struct {
	span   bool // an interval; else an allele
	contig int32
	start  uint32
	second uint32 // the allele's code, or the interval's end
	seq    uint64 // number in the order of the input
	record []byte
}

// compare orders items as the file has them. No two are equal.
func (a *item) compare(b *item) int {
	if a.span != b.span {
		if b.span {
			return -1
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(a.contig, b.contig), cmp.Compare(a.start, b.start),
		cmp.Compare(a.second, b.second), cmp.Compare(a.seq, b.seq))
}

const (
	// itemOverhead is what an item in memory takes beside its record.
	itemOverhead = 64
	// maxRuns is how many sorted files are merged at once.
	maxRuns = 128
	// itemHead is the size of an item's fixed part in a run.
	itemHead = 1 + 4 + 4 + 4 + 8
)

// sorter sorts items with bounded memory: what exceeds it goes to sorted files, which are merged in the end.
type sorter struct {
	dir    string
	memory int // bytes

	items []item
	arena []byte
	runs  []*os.File
	seq   uint64
}

// add takes an item; its record is copied.
func (s *sorter) add(it item) error {
	if len(s.items) > 0 && (len(s.items)+1)*itemOverhead+len(s.arena)+len(it.record) > s.memory {
		if err := s.spill(); err != nil {
			return err
		}
	}
	from := len(s.arena)
	// A grown arena leaves the records before it where they are.
	s.arena = append(s.arena, it.record...)
	it.record = s.arena[from:len(s.arena):len(s.arena)]
	it.seq = s.seq
	s.seq++
	s.items = append(s.items, it)
	return nil
}

// sorted sorts the records in memory.
func (s *sorter) sorted() []item {
	slices.SortFunc(s.items, func(a, b item) int { return a.compare(&b) })
	return s.items
}

// spill writes the records in memory to a run.
func (s *sorter) spill() error {
	if len(s.runs) == maxRuns {
		if err := s.compact(); err != nil {
			return err
		}
	}
	items := s.sorted()
	err := s.write(func(emit func(*item) error) error {
		for i := range items {
			if err := emit(&items[i]); err != nil {
				return err
			}
		}
		return nil
	})
	s.items, s.arena = s.items[:0], s.arena[:0]
	return err
}

// compact merges all runs to one.
func (s *sorter) compact() error {
	old := s.runs
	s.runs = nil
	err := s.write(func(emit func(*item) error) error { return mergeRuns(old, nil, emit) })
	for _, f := range old {
		err = errors.Join(err, f.Close())
	}
	return err
}

// write makes a run of what produce emits.
func (s *sorter) write(produce func(emit func(*item) error) error) error {
	f, err := os.CreateTemp(s.dir, ".pss-sort-*")
	if err != nil {
		return fmt.Errorf("making a temporary file: %w", err)
	}
	_ = os.Remove(f.Name()) // the open file lives on, and nothing stays behind
	w := bufio.NewWriterSize(f, 256<<10)
	var head [itemHead + binary.MaxVarintLen64]byte
	err = produce(func(it *item) error {
		head[0] = 0
		if it.span {
			head[0] = 1
		}
		binary.LittleEndian.PutUint32(head[1:], uint32(it.contig))
		binary.LittleEndian.PutUint32(head[5:], it.start)
		binary.LittleEndian.PutUint32(head[9:], it.second)
		binary.LittleEndian.PutUint64(head[13:], it.seq)
		n := itemHead + binary.PutUvarint(head[itemHead:], uint64(len(it.record)))
		_, _ = w.Write(head[:n])
		_, err := w.Write(it.record)
		return err
	})
	if err = errors.Join(err, w.Flush()); err != nil {
		f.Close()
		return fmt.Errorf("writing a temporary file: %w", err)
	}
	s.runs = append(s.runs, f)
	return nil
}

// each calls f with all items in their order. An item's record is valid during the call.
func (s *sorter) each(f func(*item) error) error {
	return mergeRuns(s.runs, s.sorted(), f)
}

// close removes the temporary files.
func (s *sorter) close() {
	for _, f := range s.runs {
		f.Close()
	}
	s.runs, s.items, s.arena = nil, nil, nil
}

// stream is a sorted sequence of items: a run, or a slice.
type stream struct {
	items []item
	r     *bufio.Reader
	head  item
}

// next moves on; false at the end.
func (s *stream) next() (bool, error) {
	if s.r == nil {
		if len(s.items) == 0 {
			return false, nil
		}
		s.head, s.items = s.items[0], s.items[1:]
		return true, nil
	}
	var head [itemHead]byte
	if _, err := io.ReadFull(s.r, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		return false, fmt.Errorf("reading a temporary file: %w", err)
	}
	size, err := binary.ReadUvarint(s.r)
	if err != nil {
		return false, fmt.Errorf("reading a temporary file: %w", err)
	}
	s.head = item{
		span: head[0] == 1, contig: int32(binary.LittleEndian.Uint32(head[1:])),
		start: binary.LittleEndian.Uint32(head[5:]), second: binary.LittleEndian.Uint32(head[9:]),
		seq: binary.LittleEndian.Uint64(head[13:]), record: slices.Grow(s.head.record[:0], int(size))[:size],
	}
	if _, err := io.ReadFull(s.r, s.head.record); err != nil {
		return false, fmt.Errorf("reading a temporary file: %w", err)
	}
	return true, nil
}

// streams is a heap by first item.
type streams []*stream

func (h streams) Len() int           { return len(h) }
func (h streams) Less(i, j int) bool { return h[i].head.compare(&h[j].head) < 0 }
func (h streams) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *streams) Push(x any)        { *h = append(*h, x.(*stream)) }
func (h *streams) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// mergeRuns calls f with the items of runs and of a sorted slice in their order.
func mergeRuns(runs []*os.File, items []item, f func(*item) error) error {
	h := make(streams, 0, len(runs)+1)
	all := []*stream{{items: items}}
	for _, run := range runs {
		if _, err := run.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("reading a temporary file: %w", err)
		}
		all = append(all, &stream{r: bufio.NewReaderSize(run, 128<<10)})
	}
	for _, s := range all {
		ok, err := s.next()
		if err != nil {
			return err
		}
		if ok {
			h = append(h, s)
		}
	}
	heap.Init(&h)
	for len(h) > 0 {
		if err := f(&h[0].head); err != nil {
			return err
		}
		ok, err := h[0].next()
		if err != nil {
			return err
		}
		if ok {
			heap.Fix(&h, 0)
		} else {
			heap.Pop(&h)
		}
	}
	return nil
}
