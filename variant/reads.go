package variant

import (
	"bytes"
	"iter"
	"slices"
	"sort"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/stream/streampb"
)

// batchBytes is the size from which on a batch of reads takes no more: small
// enough that what is written anew for a few reads is little, large enough that
// a deep region has not too many.
const batchBytes = 128 << 10

// firstCull is how many reads a region has when it first searches for those that
// the cap on depth leaves out of every column.
const firstCull = 4096

// readKey identifies a segment within its region, and orders segments: the
// canonical order. The first half is a hash of the read, which all of its segments
// share, the second one of the segment. Being cuts of SHA-256, nobody finds two
// segments with the same by accident or otherwise.
type readKey [16]byte

// keyOf is a segment's identity.
func keyOf(s *streampb.Segment) readKey { return align.ReadKey(s) }

func (k readKey) compare(o readKey) int { return bytes.Compare(k[:], o[:]) }

// sameRead reports whether both are segments of one read.
func (k readKey) sameRead(o readKey) bool { return [8]byte(k[:8]) == [8]byte(o[:8]) }

// read is a segment as it is kept, apart from its changes.
type read struct {
	key            readKey
	start, end     int32  // reference positions, less Region.reach
	at             uint32 // where its bytes begin in its batch
	flags          uint8
	mappingQuality uint8
	partial        uint8 // how often its read had been published before its end; 0: it has ended
}

// Flags of a read.
const (
	readKept = 1 << iota // else only its key is left, or what readUncertain says
	readReverse
	readSupplementary
	readUncertain // of a mapping quality below the least; only its key and its place are left
	readPartial   // of a read that goes on, or went on when another segment took its place

	readFlags = 1<<iota - 1
)

func (r *read) is(flag uint8) bool { return r.flags&flag != 0 }

// reads is the segments of a region.
//
// Problem: a region's reads are nearly all of its state, there are hundreds of
// millions of them in a human genome, and few are new from one snapshot to the next.
//
// Strategy: a read is 32 bytes in a table and the bits of its changes (see
// pack.go) in one byte slice per batch, without a pointer. Batches are filled in the
// order of arrival; one that is full changes only if the cap on depth lets go of one
// of its reads for good, of which the key stays, so that it isn't applied again.
//
// Consequences: a snapshot costs what has come since the last one, and the bits go
// into it as they are. The batches are a function of the sequence of segments, not
// of their set.
type reads struct {
	limit   int // batchBytes
	table   []read
	batches []batch
	runs    []string

	// Numbers of reads in canonical order; recent ones wait to be merged into the
	// others.
	sorted, recent []uint32

	kept     int // reads that have ended and are more than a key
	survived int // of these, those that were left when reads were last let go
	partial  int // reads that go on and are more than a key
	replaced int // keys of reads that went on
	cull     int // firstCull
}

// batch is the reads up to the next one's first.
type batch struct {
	first   int
	data    []byte // of the reads that are kept, in their order
	came    int    // bytes of data that ever came
	since   int64  // time of the last chunk of the first read
	version uint64
}

// find is where key is in list, or belongs.
func (x *reads) find(list []uint32, key readKey) (int, bool) {
	return slices.BinarySearchFunc(list, key, func(n uint32, key readKey) int { return x.table[n].key.compare(key) })
}

// has reports whether a segment was added before.
func (x *reads) has(key readKey) bool {
	if _, ok := x.find(x.sorted, key); ok {
		return true
	}
	_, ok := x.find(x.recent, key)
	return ok
}

// add takes the next segment, which isn't there yet. start and end are what the
// read is to say.
func (x *reads) add(key readKey, s *streampb.Segment, start, end int, class byte, ref []byte, p *packer) {
	last := x.open(s)
	rd := read{
		key: key, start: int32(start), end: int32(end), at: uint32(len(last.data)),
		flags: readKept, mappingQuality: uint8(min(255, s.GetMappingQuality())),
	}
	if s.GetReverse() {
		rd.flags |= readReverse
	}
	if s.GetSupplementary() {
		rd.flags |= readSupplementary
	}
	if n := s.GetPartial(); n > 0 {
		rd.flags, rd.partial = rd.flags|readPartial, uint8(n)
	}
	last.data = p.append(last.data, s, x.runNumber(s.GetRun()), s.GetLastChunkMs()-last.since, class, ref)
	last.came += len(last.data) - int(rd.at)
	x.enter(last, rd)
	x.count(&rd, 1)
}

// count counts a read that is more than a key, n times.
func (x *reads) count(rd *read, n int) {
	if rd.is(readPartial) {
		x.partial += n
	} else {
		x.kept += n
	}
}

// goingOn is the numbers of the segments of a read that goes on, which key is of, that are
// older than a partial; 0: all.
func (x *reads) goingOn(key readKey, partial uint8) []uint32 {
	if x.partial == 0 {
		return nil
	}
	var found []uint32
	clear(key[8:])
	for _, list := range [][]uint32{x.sorted, x.recent} {
		first, _ := x.find(list, key)
		for _, n := range list[first:] {
			rd := &x.table[n]
			if !rd.key.sameRead(key) {
				break
			}
			if rd.is(readKept) && rd.is(readPartial) && (partial == 0 || rd.partial < partial) {
				found = append(found, n)
			}
		}
	}
	return found
}

// addUncertain takes the next segment, which isn't there yet, and maps with too low a
// quality to say anything but that it lies there.
func (x *reads) addUncertain(key readKey, s *streampb.Segment, start, end int) {
	last := x.open(s)
	last.came += uncertainBytes
	x.enter(last, read{key: key, start: int32(start), end: int32(end), at: uint32(len(last.data)), flags: readUncertain})
}

// uncertainBytes is what an uncertain read counts for in the size of its batch: about
// what it takes in a snapshot.
const uncertainBytes = 24

// open is the batch that the next segment, s, goes into.
func (x *reads) open(s *streampb.Segment) *batch {
	if n := len(x.batches); n == 0 || x.batches[n-1].came >= x.limit {
		x.seal()
		x.batches = append(x.batches, batch{first: len(x.table), since: s.GetLastChunkMs()})
	}
	return &x.batches[len(x.batches)-1]
}

// enter makes rd, which is in the newest batch, the last one of the table.
func (x *reads) enter(newest *batch, rd read) {
	newest.version++
	i, _ := x.find(x.recent, rd.key)
	x.recent = slices.Insert(x.recent, i, uint32(len(x.table)))
	x.table = append(x.table, rd)
	if len(x.recent) > 64+len(x.sorted)/16 {
		x.merge()
	}
}

// runNumber is the number of a run in x.runs. There are few.
func (x *reads) runNumber(run string) int {
	for i := len(x.runs) - 1; i >= 0; i-- {
		if x.runs[i] == run {
			return i
		}
	}
	x.runs = append(x.runs, run)
	return len(x.runs) - 1
}

// seal gives back what the newest batch has in reserve.
func (x *reads) seal() {
	if n := len(x.batches); n > 0 {
		x.batches[n-1].data = slices.Clone(x.batches[n-1].data)
	}
}

// rest gives back all that is in reserve, of a region to which no more reads are
// expected.
func (x *reads) rest() {
	x.merge()
	x.seal()
	x.table, x.sorted, x.recent = slices.Clone(x.table), slices.Clone(x.sorted), nil
}

// merge puts the recent reads among the others, from behind.
func (x *reads) merge() {
	i, j := len(x.sorted), len(x.recent)
	x.sorted = slices.Grow(x.sorted, j)[:i+j]
	for k := len(x.sorted) - 1; j > 0; k-- {
		if i > 0 && x.table[x.sorted[i-1]].key.compare(x.table[x.recent[j-1]].key) > 0 {
			i--
			x.sorted[k] = x.sorted[i]
		} else {
			j--
			x.sorted[k] = x.recent[j]
		}
	}
	x.recent = x.recent[:0]
}

// all is the numbers of the reads that are kept, in canonical order.
func (x *reads) all() iter.Seq2[uint32, *read] {
	if len(x.recent) > 0 {
		x.merge()
	}
	return func(yield func(uint32, *read) bool) {
		for _, n := range x.sorted {
			if rd := &x.table[n]; rd.is(readKept) && !yield(n, rd) {
				return
			}
		}
	}
}

// allGoingOn is the numbers of the segments of all reads that go on.
func (x *reads) allGoingOn() []uint32 {
	if x.partial == 0 {
		return nil
	}
	var found []uint32
	for n := range x.table {
		if rd := &x.table[n]; rd.is(readKept) && rd.is(readPartial) {
			found = append(found, uint32(n))
		}
	}
	return found
}

// ended is those of all that have ended.
func (x *reads) ended() iter.Seq2[uint32, *read] {
	return func(yield func(uint32, *read) bool) {
		for n, rd := range x.all() {
			if !rd.is(readPartial) && !yield(n, rd) {
				return
			}
		}
	}
}

// batchOf is the index of the batch that a read is in.
func (x *reads) batchOf(number int) int {
	return sort.Search(len(x.batches), func(i int) bool { return x.batches[i].first > number }) - 1
}

// entries is the reads of a batch.
func (x *reads) entries(i int) []read {
	end := len(x.table)
	if i+1 < len(x.batches) {
		end = x.batches[i+1].first
	}
	return x.table[x.batches[i].first:end]
}

// drop lets go of the reads, by number, that wanted doesn't have.
func (x *reads) drop(wanted []bool) {
	for i := range x.batches {
		x.dropOf(i, func(n uint32) bool { return !wanted[n] })
	}
}

// dropOf lets go of reads of a batch, by number.
func (x *reads) dropOf(batch int, goes func(n uint32) bool) {
	b := &x.batches[batch]
	entries := x.entries(batch)
	data, changed := make([]byte, 0, len(b.data)), false
	for k := range entries {
		rd := &entries[k]
		end := len(b.data)
		if k+1 < len(entries) {
			end = int(entries[k+1].at)
		}
		own := b.data[rd.at:end]
		rd.at = uint32(len(data))
		switch {
		case !rd.is(readKept):
		case !goes(uint32(b.first + k)):
			data = append(data, own...)
		default:
			x.count(rd, -1)
			*rd = read{key: rd.key, at: rd.at, flags: rd.flags & readPartial}
			if rd.is(readPartial) {
				x.replaced++
			}
			changed = true
		}
	}
	if changed {
		b.data = slices.Clone(data)
		b.version++
	}
}
