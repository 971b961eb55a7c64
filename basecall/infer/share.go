package infer

import (
	"slices"
	"sync"
	"time"
)

// Share has several networks take turns on the same devices: the batches of different
// networks can't be computed together, and one whose batches take long would keep the others
// from the device. It is safe for concurrent use. A nil *Share lets everybody compute at once.
type Share struct {
	mu    sync.Mutex
	turns turns
}

// NewShare returns one that nobody is in yet.
func NewShare() *Share { return &Share{} }

// join makes a network one of those that share, of which so many batches are computed at a
// time when it is alone. All together compute as many as the one with the most.
func (s *Share) join(sessions int) *party {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns.slots = max(s.turns.slots, sessions)
	return &party{share: s}
}

// enter waits until it is the network's turn to compute a batch.
func (p *party) enter() {
	if p == nil {
		return
	}
	p.await(func(*turns) {})
}

// await asks for a turn, runs the function before, and waits for the turn. It does the first two
// under one lock, so others see both at once.
func (p *party) await(before func(*turns)) {
	s := p.share
	s.mu.Lock()
	turn := make(chan struct{})
	p.waiting = append(p.waiting, turn)
	s.turns.ask(p)
	before(&s.turns)
	s.grant()
	s.mu.Unlock()
	<-turn
}

// again ends a turn, in which the device was busy for so long, and waits for the next one, which
// may be at once.
func (p *party) again(busy time.Duration) {
	if p == nil {
		return
	}
	p.await(func(t *turns) { t.end(p, busy) })
}

// leave ends the turn, in which the device was busy for so long.
func (p *party) leave(busy time.Duration) {
	if p == nil {
		return
	}
	s := p.share
	s.mu.Lock()
	s.turns.end(p, busy)
	s.grant()
	s.mu.Unlock()
}

// grant wakes those whose turn it is. s.mu is held.
func (s *Share) grant() {
	for p := s.turns.next(); p != nil; p = s.turns.next() {
		close(p.waiting[0])
		p.waiting = slices.Delete(p.waiting, 0, 1)
	}
}

// party is a network that shares.
type party struct {
	share   *Share
	waiting []chan struct{} // batches whose turn has not come, in the order in which they came

	// Of turns.
	asked, running int
	used           time.Duration // of the device, and what was forgiven
	last           time.Duration // that a batch took
}

// turns decides whose turn it is.
//
// Problem: batches of a large network take a hundred times as long as those of a small one, so
// that taking turns by batch would leave the small one a hundredth of the device.
//
// Strategy: the turn goes to the network that has used the device least. A batch that is being
// computed counts for as long as the network's last one took, until it is known. A network
// that comes back after having had nothing to compute has no claim on the time that it let
// pass: it begins with as much as the one that had the last turn.
//
// Consequences: networks that all have work use the device for equally long, whatever
// their batches take; one that is alone has all of it.
type turns struct {
	slots   int
	running int
	parties []*party // that have asked, in the order in which they did first
	clock   time.Duration
}

// ask notes that a party has a batch to compute.
func (t *turns) ask(p *party) {
	if p.asked == 0 && p.running == 0 {
		p.used = max(p.used, t.clock)
	}
	if p.asked == 0 {
		t.parties = append(t.parties, p)
	}
	p.asked++
}

// next gives a turn to whom it belongs; nil: nobody asks, or all slots are taken.
func (t *turns) next() *party {
	if t.running >= t.slots || len(t.parties) == 0 {
		return nil
	}
	p := slices.MinFunc(t.parties, func(a, b *party) int { return int(max(-1, min(1, a.used-b.used))) })
	t.clock = max(t.clock, p.used)
	p.used += p.last
	p.asked--
	p.running++
	t.running++
	if p.asked == 0 {
		t.parties = slices.DeleteFunc(t.parties, func(o *party) bool { return o == p })
	}
	return p
}

// end notes that a turn is over.
func (t *turns) end(p *party, busy time.Duration) {
	p.used += busy - p.last
	p.last = busy
	p.running--
	t.running--
}
