package crf

// narrow holds the entries of a narrow beam in the order in which AVX-512 has them, once all of them have emitted so much that what
// differs long ago is settled: 16 numbers of each kind, of which the first n count. Weights of the others are 0. The assembly knows
// where each lies.
type narrow struct {
	hash, parent  [16]uint64
	recent, state [16]uint32
	weight        [16]float32
	guided        [96]float32 // of candidates that are ranked
	settled       [3][16]uint32
	n             uint64
}

// mostLanes is the width of the widest beam that lies in lanes: its candidates, 16 places for those that stay and four moves of each entry,
// have a bit each in 64.
const mostLanes = 12

// behindOrigins is the space behind those of the last frame, as 16 are written for each.
const behindOrigins = 16

// laneConstants are what the assembly needs, at places that it knows.
type laneConstants struct {
	count            [16]uint32    // 0 to 15
	dropped          [4][16]uint32 // where the moves of a state lie, by the base dropped
	spread           [3][16]uint32 // each entry four times
	numbers          [64]uint8     // of candidates: 16 that stay, of which four are not used, and 48 that move
	thirtyTwo, three uint32
	moved            uint32 // in an origin
	exponent         uint32 // twice a float32's bias
	one              uint64
	sixteen, last    uint32
	multiplier       uint64
	negative         float32
}

var laneConst = func() (c laneConstants) {
	for i := range 16 {
		c.count[i] = uint32(i)
		for four := range c.dropped {
			c.dropped[four][i] = uint32(i%4*4 + four)
		}
		for four := range c.spread {
			c.spread[four][i] = uint32(4*four + i/4)
		}
	}
	for i := range c.numbers {
		c.numbers[i] = uint8(i)
	}
	c.thirtyTwo, c.three, c.moved, c.exponent, c.one, c.sixteen, c.last = 32, 3, 1<<24, 254<<23, 1, 16, lastBases
	c.multiplier, c.negative = hashMultiplier, gone
	return c
}()

// pack puts the entries into lanes, if they can go on there.
func (b *beam) pack() {
	if !b.wider || !b.whole {
		return
	}
	for i := range b.entries[:b.n] {
		if b.entries[i].emitted < memory {
			return
		}
	}
	l := b.lanes
	*l = narrow{n: uint64(b.n)}
	for i, e := range b.entries[:b.n] {
		l.hash[i], l.parent[i], l.recent[i], l.state[i], l.weight[i] = e.hash, e.parent, e.recent, uint32(e.state), e.weight
	}
	b.packed = true
}

// unpack makes entries of lanes, the weights of which are guided where nothing follows.
func (b *beam) unpack() {
	l := b.lanes
	b.n, b.packed = int(l.n), false
	for i := range b.entries[:b.n] {
		b.entries[i] = entry{
			hash: l.hash[i], parent: l.parent[i], recent: l.recent[i], state: uint16(l.state[i]), weight: l.weight[i], guided: l.weight[i], emitted: memory,
		}
	}
	b.nextFrame()
	b.match()
}
