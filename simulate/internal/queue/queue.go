// Package queue keeps channels of a flow cell, or whatever else waits, in the order in which it is their turn.
package queue

import "container/heap"

// Queue holds items, the first of which is at hand. It isn't safe for concurrent use.
type Queue[T any] struct{ items items[T] }

// New returns an empty queue. compare decides which of two items comes first, as slices.SortFunc wants it. If no two items are equal,
// their order of leaving the queue depends on the items alone.
func New[T any](compare func(a, b T) int) *Queue[T] {
	return &Queue[T]{items[T]{compare: compare}}
}

// Len is the number of items.
func (q *Queue[T]) Len() int { return len(q.items.list) }

// Push adds an item.
func (q *Queue[T]) Push(item T) { heap.Push(&q.items, item) }

// First is the item whose turn it is, of a queue that isn't empty.
func (q *Queue[T]) First() T { return q.items.list[0] }

// Fix finds the first item its place when what it is compared by has changed.
func (q *Queue[T]) Fix() { heap.Fix(&q.items, 0) }

// Drop takes the first item out.
func (q *Queue[T]) Drop() { heap.Pop(&q.items) }

// items are a heap.
type items[T any] struct {
	list    []T
	compare func(a, b T) int
}

func (s *items[T]) Len() int           { return len(s.list) }
func (s *items[T]) Less(i, j int) bool { return s.compare(s.list[i], s.list[j]) < 0 }
func (s *items[T]) Swap(i, j int)      { s.list[i], s.list[j] = s.list[j], s.list[i] }
func (s *items[T]) Push(x any)         { s.list = append(s.list, x.(T)) }
func (s *items[T]) Pop() any {
	last := len(s.list) - 1
	item := s.list[last]
	clear(s.list[last:])
	s.list = s.list[:last]
	return item
}
