package variant

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/stream/packed"
	"github.com/porestream/porestream/stream/streampb"
)

// The state of a region can be taken to pieces and put together again: what the
// reads have led to so far (AppendState), and the reads themselves, in batches
// (AppendReads). What follows from these is not kept. stream/STATE.md describes
// the bytes; [Restorer] reads them.

// stateVersion and readsVersion are the encodings. Earlier ones are not read: another
// version of the calling code made them.
const (
	stateVersion = 5
	readsVersion = 3
)

// StateVersion changes whenever what AppendState writes may have.
func (r *Region) StateVersion() uint64 { return r.version }

// Batches is the number of batches of reads.
func (r *Region) Batches() int { return len(r.reads.batches) }

// ReadsVersion changes whenever what AppendReads writes for a batch may have.
func (r *Region) ReadsVersion(batch int) uint64 { return r.reads.batches[batch].version }

// AppendState appends what is known of the region besides its reads.
func (r *Region) AppendState(b []byte) ([]byte, error) {
	r.publishing.pack()
	b = packed.AppendBool(append(b, stateVersion), r.final)
	b = packed.AppendUint(b, r.reported)
	b = packed.AppendLen(b, len(r.reads.batches))
	b = packed.AppendLen(b, r.reads.survived)
	b = packed.AppendStrings(b, r.reads.runs)
	b = r.models.append(b)
	b = r.counted().append(b)
	b = packed.AppendLen(b, len(r.tiles))
	for i := range r.tiles {
		t := &r.tiles[i]
		b = packed.AppendLen(packed.AppendLen(b, int(t.reads)), int(t.reads+t.partial-t.evaluated))
		b = packed.AppendBytes(b, r.publishing.tiles[i])
	}
	b, err := r.coverage.append(b)
	if err != nil {
		return nil, fmt.Errorf("encoding the coverage of region %d of %s: %w", r.index, r.contig.Name, err)
	}
	if b, err = r.motifs.append(b); err != nil {
		return nil, fmt.Errorf("encoding the motifs of region %d of %s: %w", r.index, r.contig.Name, err)
	}
	return b, nil
}

// append writes the stretches that something was said about, by position.
func (c *coverage) append(b []byte) ([]byte, error) {
	var said []*streampb.Coverage
	for _, stretches := range c.tiles {
		for _, w := range stretches {
			if w.said != nil {
				said = append(said, w.said)
			}
		}
	}
	slices.SortFunc(said, func(a, b *streampb.Coverage) int { return int(a.GetStart() - b.GetStart()) })
	b = packed.AppendLen(b, len(said))
	for _, s := range said {
		s = proto.CloneOf(s)
		s.Sample, s.Contig = "", ""
		var err error
		if b, err = packed.AppendMessage(b, s); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// AppendReads appends a batch of reads, in the order in which they were applied.
func (r *Region) AppendReads(b []byte, batch int) []byte {
	entries, own := r.reads.entries(batch), &r.reads.batches[batch]
	b = packed.AppendLen(append(b, readsVersion), own.came)
	b = packed.AppendInt(b, own.since)
	b = packed.AppendLen(b, len(entries))
	for i := range entries {
		rd := &entries[i]
		b = append(append(b, rd.flags), rd.key[:]...)
		if !rd.is(readKept | readUncertain) {
			continue
		}
		if rd.is(readPartial) {
			b = append(b, rd.partial)
		}
		b = packed.AppendLen(packed.AppendLen(b, int(rd.start)), int(rd.end-rd.start))
		if !rd.is(readKept) {
			continue
		}
		end := len(own.data)
		if i+1 < len(entries) {
			end = int(entries[i+1].at)
		}
		b = packed.AppendLen(append(b, rd.mappingQuality), end-int(rd.at))
	}
	return append(b, own.data...)
}

// numbers hands all counts to f, in the order of their encoding, and takes what
// it returns.
func (c *errorCounts) numbers(f func(uint64) uint64) {
	each := func(list []uint64) {
		for i := range list {
			list[i] = f(list[i])
		}
	}
	each(c.bases[:])
	each(c.errors[:])
	for i := range c.swaps {
		each(c.swaps[i][:])
	}
	for i := range c.contexts {
		for j := range c.contexts[i] {
			c.contexts[i][j] = uint32(f(uint64(c.contexts[i][j])))
		}
	}
	for i := range c.runs {
		each(c.runs[i][:])
		each(c.deletions[i][:])
		each(c.insertions[i][:])
	}
	for _, n := range []*uint64{&c.positions, &c.others, &c.deletedBases, &c.insertedBases} {
		*n = f(*n)
	}
	for i := range c.lengths {
		for j := range c.lengths[i] {
			for k := range c.lengths[i][j] {
				c.lengths[i][j][k] = uint32(f(uint64(c.lengths[i][j][k])))
			}
		}
	}
}

// append writes the counts; a zero is followed by how many more follow it.
func (c *errorCounts) append(b []byte) []byte {
	zeros := 0
	flush := func() {
		if zeros > 0 {
			b = packed.AppendLen(append(b, 0), zeros-1)
		}
		zeros = 0
	}
	c.numbers(func(n uint64) uint64 {
		if n == 0 {
			zeros++
			return n
		}
		flush()
		b = packed.AppendUint(b, n)
		return n
	})
	flush()
	return b
}
