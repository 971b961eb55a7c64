package haplotype

import "cmp"

const (
	// firstBlock and usualBlock are how many elements an arena sets aside at first and, after doubling, at most; textBlock
	// is the latter for bytes.
	firstBlock = 8
	usualBlock = 1 << 10
	textBlock  = 1 << 16
	// keptBlocks is how many blocks an arena keeps when it is reset: a gene with very many variants does not hold its
	// memory for ever.
	keptBlocks = 64
)

// arena hands out memory that is all given back at once: what the haplotypes of overlapping transcripts need lives as
// long as they do, and is needed again by the next ones.
type arena[T any] struct {
	blocks [][]T
	block  int // blocks in use
	free   []T // the unused rest of the last of them
	most   int // elements of a block; 0: usualBlock
}

// take returns n zero elements. Appending to them does not touch what lies beside.
func (a *arena[T]) take(n int) []T {
	if n > len(a.free) {
		a.next(n)
	}
	s := a.free[:n:n]
	a.free = a.free[n:]
	clear(s)
	return s
}

// next goes on to a block with space for n elements.
func (a *arena[T]) next(n int) {
	for a.block < len(a.blocks) {
		a.free = a.blocks[a.block]
		a.block++
		if n <= len(a.free) {
			return
		}
	}
	size := firstBlock
	if len(a.blocks) > 0 {
		size = min(2*len(a.blocks[len(a.blocks)-1]), cmp.Or(a.most, usualBlock))
	}
	a.free = make([]T, max(n, size))
	a.blocks = append(a.blocks, a.free)
	a.block++
}

// one returns a zero element.
func (a *arena[T]) one() *T { return &a.take(1)[0] }

// append is the builtin that grows s in the arena.
func (a *arena[T]) append(s []T, x T) []T {
	if len(s) == cap(s) {
		grown := a.take(max(2, 2*cap(s)))
		n := copy(grown, s)
		clear(s) // nothing that is left behind holds what lies in other blocks
		s = grown[:n]
	}
	return append(s, x)
}

// copy returns a copy of s.
func (a *arena[T]) copy(s []T) []T {
	c := a.take(len(s))
	copy(c, s)
	return c
}

// reset takes all memory back.
func (a *arena[T]) reset() {
	if len(a.blocks) > keptBlocks {
		clear(a.blocks[keptBlocks:])
		a.blocks = a.blocks[:keptBlocks]
	}
	a.block, a.free = 0, nil
}

// forget leaves all blocks to the garbage collector.
func (a *arena[T]) forget() { a.blocks, a.block, a.free = nil, 0, nil }

// memory is what sites and haplotypes live in.
type memory struct {
	sites    arena[site]
	calls    arena[call]
	members  arena[*site]
	texts    arena[[]byte]
	bytes    arena[byte]
	nodes    arena[node]
	children arena[*node]
	reported arena[reported]
	trees    arena[tree]
	numbers  arena[int]
	flags    arena[bool]
	masks    arena[uint32]
	claims   arena[claim]
}

func (m *memory) reset() {
	m.sites.reset()
	m.calls.reset()
	m.members.reset()
	m.texts.reset()
	m.bytes.reset()
	m.nodes.reset()
	m.children.reset()
	m.reported.reset()
	m.trees.reset()
	m.numbers.reset()
	m.flags.reset()
	m.masks.reset()
	m.claims.reset()
}

// forget leaves all blocks to the garbage collector if one of the arenas has more than the given number: blocks with
// something in use stay alive as long as that does. The caller must have cleared elements no longer in use: a block whose
// dead elements point into older blocks would hold these, and they those before them, back to the first.
func (m *memory) forget(kept int) {
	most := max(
		m.sites.block, m.calls.block, m.members.block, m.texts.block, m.bytes.block, m.nodes.block, m.children.block,
		m.reported.block, m.trees.block, m.numbers.block, m.flags.block, m.masks.block, m.claims.block,
	)
	if most <= kept {
		return
	}
	m.sites.forget()
	m.calls.forget()
	m.members.forget()
	m.texts.forget()
	m.bytes.forget()
	m.nodes.forget()
	m.children.forget()
	m.reported.forget()
	m.trees.forget()
	m.numbers.forget()
	m.flags.forget()
	m.masks.forget()
	m.claims.forget()
}
