package genome

import (
	"encoding/binary"
	"slices"
	"sort"
	"sync"
)

// Problem: programs that read few places of a reference hold all of it at a byte a base, which is more than all else
// that they hold.
//
// Strategy: a contig may be packed, two bits a base. Letters other than A, C, G and T lie in runs beside it, and a bit for
// each 64 bases says whether there are any, so that few look-ups need the runs. A contig with so many other letters that runs
// would be costly, such as one in the letters of RNA, stays at a byte a base.
//
// Consequences: nobody gets a slice of the contig's own bases: they are copied out, or asked for one by one.

const (
	wordBases  = 32      // bases in a word
	blockWords = 1 << 15 // words in a block; a power of two
	blockBases = blockWords * wordBases
	oddBases   = 64 // bases that share a bit of packed.odd

	// fewWords is how many words at once don't mean that a whole block comes.
	fewWords = 1 << 10

	// fewRuns is how many bases there must be for each run of other letters.
	fewRuns = 32
)

// packed is a sequence of n bases at two bits each. It grows by add until close.
type packed struct {
	n      int
	blocks [][]uint64 // blockWords each but for the last
	odd    []uint64   // a bit for each oddBases: there are letters besides A, C, G and T
	others []run      // of those, by place

	vectors bool     // the processor has packAVX2
	words   []uint64 // the last block while the sequence grows; its first base is the lowest bits
	memory  *arena
}

// run is a stretch of one letter.
type run struct {
	start, end uint32
	letter     byte
}

// letters are the bases by their code, which is bits 1 and 2 of the letter.
const letters = "ACTG"

// fours are the letters of four bases by their codes.
var fours = func() (t [256]uint32) {
	for i := range t {
		for k := range 4 {
			t[i] |= uint32(letters[i>>(2*k)&3]) << (8 * k)
		}
	}
	return t
}()

// at is base i.
func (p *packed) at(i int) byte {
	if len(p.others) > 0 && p.isOdd(uint(i)) {
		if c := p.other(i); c != 0 {
			return c
		}
	}
	return p.code(uint(i))
}

// isOdd says whether there are other letters about base i.
func (p *packed) isOdd(i uint) bool {
	i /= oddBases
	return p.odd[i/64]>>(i%64)&1 != 0
}

// other is the letter of base i if it lies in a run, or 0.
func (p *packed) other(i int) byte {
	k := p.firstRun(i)
	if k < len(p.others) && int(p.others[k].start) <= i {
		return p.others[k].letter
	}
	return 0
}

// firstRun is the number of the first run that ends behind base i.
func (p *packed) firstRun(i int) int {
	return sort.Search(len(p.others), func(k int) bool { return int(p.others[k].end) > i })
}

// appendTo appends the bases [start,end).
func (p *packed) appendTo(dst []byte, start, end int) []byte {
	from := len(dst)
	i := start
	for ; i < end && i%4 != 0; i++ {
		dst = append(dst, p.code(uint(i)))
	}
	for ; i+4 <= end; i += 4 {
		u := uint(i)
		four := p.blocks[u/blockBases][u%blockBases/wordBases] >> (2 * (u % wordBases)) & 0xff
		dst = binary.LittleEndian.AppendUint32(dst, fours[four])
	}
	for ; i < end; i++ {
		dst = append(dst, p.code(uint(i)))
	}
	for i := start / oddBases * oddBases; i < end && len(p.others) > 0; i += oddBases {
		if p.isOdd(uint(i)) {
			p.overwrite(dst[from:], start)
			break
		}
	}
	return dst
}

// code is the letter of base i if it is none of the others.
func (p *packed) code(i uint) byte {
	return letters[p.blocks[i/blockBases][i%blockBases/wordBases]>>(2*(i%wordBases))&3]
}

// overwrite writes the other letters to bases that begin at start.
func (p *packed) overwrite(bases []byte, start int) {
	end := start + len(bases)
	for k := p.firstRun(start); k < len(p.others) && int(p.others[k].start) < end; k++ {
		r := &p.others[k]
		for i := max(int(r.start), start); i < min(int(r.end), end); i++ {
			bases[i-start] = r.letter
		}
	}
}

// newPacked returns an empty sequence, whose bases will lie in the given arena.
func newPacked(memory *arena) *packed { return &packed{memory: memory, vectors: packs()} }

// add appends bases, letters in either case. It is false if there is something else among them. The contig isn't longer
// than maxContig.
func (p *packed) add(bases []byte) bool {
	ok := true
	for len(bases) > 0 {
		if len(p.words) == blockWords && p.n%wordBases == 0 {
			p.keep()
		}
		n := min(len(bases), blockBases-p.n%blockBases)
		ok = p.addToBlock(bases[:n]) && ok
		bases = bases[n:]
	}
	return ok
}

// addToBlock is add for bases that fit in the last block.
func (p *packed) addToBlock(bases []byte) bool {
	n := min((wordBases-p.n%wordBases)%wordBases, len(bases))
	ok := p.addSlowly(bases[:n])
	for bases = bases[n:]; len(bases) >= wordBases; {
		n := wordBases * p.addWords(bases)
		if n == 0 {
			n = wordBases
			ok = p.addSlowly(bases[:n]) && ok
		}
		bases = bases[n:]
	}
	return p.addSlowly(bases) && ok
}

// addWords appends whole words up to the first that has other letters. It returns how many; the one before is full.
func (p *packed) addWords(bases []byte) int {
	want := len(bases) / wordBases
	if len(p.words)+want > cap(p.words) && want > fewWords {
		p.words = slices.Grow(p.words, blockWords-len(p.words)) // once, rather than bit by bit
	}
	p.words = slices.Grow(p.words, want)
	dst := p.words[len(p.words) : len(p.words)+want]
	var n int
	if p.vectors {
		n = packAVX2(&dst[0], &bases[0], want)
	} else {
		n = packWords(dst, bases)
	}
	p.words = p.words[:len(p.words)+n]
	p.n += n * wordBases
	return n
}

// packWords packs bases until dst is full or there are other letters, and returns how many words it made.
func packWords(dst []uint64, bases []byte) int {
	for i := range dst {
		from := bases[i*wordBases:][:wordBases:wordBases]
		a, b := binary.LittleEndian.Uint64(from), binary.LittleEndian.Uint64(from[8:])
		c, d := binary.LittleEndian.Uint64(from[16:]), binary.LittleEndian.Uint64(from[24:])
		_, aok := upperBases(a)
		_, bok := upperBases(b)
		_, cok := upperBases(c)
		_, dok := upperBases(d)
		if !(aok && bok && cok && dok) {
			return i
		}
		dst[i] = codes(a) | codes(b)<<16 | codes(c)<<32 | codes(d)<<48
	}
	return len(dst)
}

// codes are the codes of eight bases in either case, two bits each, the first lowest: the bits of each letter, brought
// together in three steps.
func codes(w uint64) uint64 {
	w = w >> 1 & (3 * eachByte)
	w = (w | w>>6) & 0x000f000f000f000f
	w = (w | w>>12) & 0x000000ff000000ff
	return (w | w>>24) & 0xffff
}

// addSlowly is add of bases one by one.
func (p *packed) addSlowly(bases []byte) bool {
	ok := true
	for _, c := range bases {
		code := uint64(c >> 1 & 3)
		switch c = letter[c]; c {
		case 'A', 'C', 'G', 'T':
		default:
			ok = ok && c != 0
			code = 0
			p.note(c)
		}
		if p.n%wordBases == 0 {
			p.words = append(p.words, 0)
		}
		p.words[len(p.words)-1] |= code << (2 * (uint(p.n) % wordBases))
		p.n++
	}
	return ok
}

// note says that the next base is another letter.
func (p *packed) note(letter byte) {
	bit := p.n / oddBases
	for len(p.odd) <= bit/64 {
		p.odd = append(p.odd, 0)
	}
	p.odd[bit/64] |= 1 << (bit % 64)
	at := uint32(p.n)
	if k := len(p.others) - 1; k >= 0 && p.others[k].letter == letter && p.others[k].end == at {
		p.others[k].end++
		return
	}
	p.others = append(p.others, run{at, at + 1, letter})
}

// keep puts the block that is full, or the last one, where it stays.
func (p *packed) keep() {
	p.blocks = append(p.blocks, p.memory.keep(p.words))
	p.words = p.words[:0]
}

// close ends the sequence. It is false if so many bases are other letters that it isn't worth it.
func (p *packed) close() bool {
	if len(p.words) > 0 {
		p.keep()
	}
	p.words, p.memory = nil, nil
	for need := (p.n/oddBases)/64 + 1; len(p.odd) < need; {
		p.odd = append(p.odd, make([]uint64, need-len(p.odd))...)
	}
	return len(p.others) <= p.n/fewRuns+wordBases
}

// closePacked ends a packed contig; one that isn't worth it is flat from then on.
func (c *Contig) closePacked() {
	if !c.packed.close() {
		c.Seq, c.packed = c.Flat(), nil
	}
}

// arena provides memory for the blocks of a genome: at first on the heap, and from some megabytes on outside of it, where
// the garbage collector doesn't count it. That memory is kept for the life of the process.
type arena struct {
	guard sync.Mutex
	heap  int // words that lie on the heap
	free  []uint64
}

const (
	heapWords  = 1 << 18
	arenaWords = 1 << 20
)

// keep copies words, at most a block, to where they stay.
func (a *arena) keep(words []uint64) []uint64 {
	a.guard.Lock()
	defer a.guard.Unlock()
	if a.heap+len(words) <= heapWords {
		a.heap += len(words)
		return append(make([]uint64, 0, len(words)), words...)
	}
	if len(words) > len(a.free) {
		a.free = systemWords(arenaWords)
	}
	kept := a.free[:len(words):len(words)]
	a.free = a.free[len(words):]
	copy(kept, words)
	return kept
}
